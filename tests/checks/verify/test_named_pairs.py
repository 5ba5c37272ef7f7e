"""Queries and keys before and after a rotation in one file: verify pairs them by name and checks
the rotation.

Random queries (4 heads, 12 positions, 64 channels) are rotated by the formula of the RoFormer paper
(Su et al. 2021, eq. 34), with the config's base 10000 unless a test says otherwise. Logs are those
of llama.cpp's eval-callback, which prints the first and last elements of each axis.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pecli
from pecli.checks.verify.named_pairs import find_pair_names
from pecli.errors import FileError, ParameterError
from tests.eval_callback_log import eval_callback_log

LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "num_hidden_layers": 2,
}
Floats = NDArray[np.float64]


def rotated_by_formula(x: Floats, base: float, layout: str = "halves", offset: int = 0) -> Floats:
    """Return x (…, L, D) rotated, by the formula of the RoFormer paper (Su et al. 2021, eq. 34)."""
    length, dim = x.shape[-2:]
    angles = np.outer(offset + np.arange(length), base ** (-np.arange(0, dim, 2) / dim))
    first, second = slice(0, None, 2), slice(1, None, 2)
    if layout == "halves":
        first, second = slice(0, dim // 2), slice(dim // 2, None)
    result = np.empty_like(x)
    result[..., first] = x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles)
    result[..., second] = x[..., second] * np.cos(angles) + x[..., first] * np.sin(angles)
    return result


def queries(heads: int = 4) -> Floats:
    return np.random.default_rng(heads).standard_normal((heads, 12, 64)).astype(np.float32)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("q_before", "q_after"),
        ("q_pre", "q_post"),
        ("q", "q_rope"),
        ("q.in", "q.out"),
        ("q_before", "q"),
        ("q_before_rope", "q_after_rope"),
        ("layers.1.q_pre_rope", "layers.1.q_post_rope"),
        ("query", "query_rotated"),
        ("q", "q_embed"),
        ("before", "after"),
        ("Qcur-1_before", "Qcur-1"),
    ],
)
def test_names_of_queries_before_and_after_belong_together(before: str, after: str) -> None:
    """The names are those that scripts of several projects give to queries before and after the
    rotation. Tensors that are not rotated are in the file as well: cos, and the input and output of
    an MLP.
    """
    (pair,) = find_pair_names([after, before, "cos", "mlp.in", "mlp.out"]).values()
    assert pair.before == before
    assert pair.after == after


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["q", "k", "v"], id="one tensor each"),
        pytest.param(["mlp.in", "mlp.out"], id="an MLP"),
        pytest.param(["attn.in_proj.weight", "attn.out_proj.weight"], id="weights of projections"),
        pytest.param(["pre_norm.weight", "post_norm.weight"], id="weights of norms"),
        pytest.param(["cos", "rope_cos", "sin"], id="tables"),
        pytest.param(["q_before", "k_after"], id="q and k"),
    ],
)
def test_names_of_other_tensors_do_not_belong_together(names: list[str]) -> None:
    """«in» and «out», «pre» and «post», and «rope» mark tensors before and after a rotation only if
    these can be queries or keys (q and q_rope): not other layers, weights, or tables of cosines.
    Queries before the rotation do not belong to keys after it.
    """
    assert find_pair_names(names) == {}


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_queries_and_keys_in_one_file_pass_in_every_format(tmp_path: Path, suffix: str) -> None:
    """Queries have 4 heads, keys 2. `rotated_by_formula` rotates them by the formula of the
    RoFormer paper, with the config's base 10000.
    """
    tensors = {
        "q_pre": queries(),
        "q_post": rotated_by_formula(queries(), 10000).astype(np.float32),
        "k_pre": queries(2),
        "k_post": rotated_by_formula(queries(2), 10000).astype(np.float32),
    }
    pecli.save(tmp_path / f"run.{suffix}", tensors)
    result = pecli.verify(tmp_path / f"run.{suffix}", LLAMA_CONFIG, atol=1e-5)

    assert result.passed, result
    assert sorted(tensor.name for tensor in result.tensors) == ["k", "q"]


def test_a_wrong_base_is_named_with_a_command_that_makes_it_again(tmp_path: Path) -> None:
    """The queries are rotated with base 500000, and the config has 10000. The command that makes
    the wrong ones reads the queries before the rotation from the file by name, FILE:NAME.
    """
    tensors = {
        "q_pre": queries(),
        "q_post": rotated_by_formula(queries(), 500000).astype(np.float32),
    }
    pecli.save(tmp_path / "run.npz", tensors)
    result = pecli.verify(tmp_path / "run.npz", LLAMA_CONFIG, atol=1e-5)

    assert not result.passed
    assert "base is 500000" in result.reasons[0]
    assert any("run.npz:q_pre" in line for line in result.reasons)


def test_tables_in_the_same_file_are_checked_too(tmp_path: Path) -> None:
    """The queries are right. Beside them are tables of 12 positions and 64 channels, with the base
    10000 of the config in one file and 500000 in the other, which fails.
    """
    tables = pecli.Rope(seq_len=12, dim=64).tables()
    wrong = pecli.Rope(seq_len=12, dim=64, theta=500000).tables()
    tensors = {"q": queries(), "q_rope": rotated_by_formula(queries(), 10000).astype(np.float32)}
    right_file = {**tensors, "cos": tables["cos"], "sin": tables["sin"]}
    wrong_file = {**tensors, "cos": wrong["cos"], "sin": wrong["sin"]}
    right = pecli.verify(right_file, LLAMA_CONFIG, atol=1e-5)

    assert right.passed, right
    assert [tensor.name for tensor in right.tensors] == ["q", "cos", "sin"]
    assert not pecli.verify(wrong_file, LLAMA_CONFIG, atol=1e-5, reasons=False).passed


def test_an_offset_applies_to_queries_in_one_file() -> None:
    """q_rope has the queries of q, rotated by the textbook formula at the 12 positions 7 to 18;
    without offset=7 they are expected at 0 to 11.
    """
    tensors = {
        "q": queries(),
        "q_rope": rotated_by_formula(queries(), 10000, offset=7).astype(np.float32),
    }

    assert not pecli.verify(tensors, LLAMA_CONFIG, atol=1e-5, reasons=False).passed
    assert pecli.verify(tensors, LLAMA_CONFIG, atol=1e-5, offset=7).passed


def test_a_model_without_rotation_leaves_queries_unchecked() -> None:
    """GPT-2 has a learned table of 1024 positions and 768 channels, which is checked. It does not
    rotate queries, so that nothing is expected of them.
    """
    weights = np.random.default_rng(0).standard_normal((1024, 768)).astype(np.float32)
    tensors = {"wpe.weight": weights, "q_pre": queries(), "q_post": queries()}
    result = pecli.verify(tensors, "gpt2")

    assert [tensor.name for tensor in result.tensors] == ["wpe.weight"]


def eval_callback_log_of(base: float, layout: str, edge: int, tokens: int = 40) -> str:
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for number, (name, heads) in enumerate({"Qcur-0": 4, "Kcur-0": 2, "Qcur-1": 4}.items()):
        values = np.random.default_rng(number).standard_normal((heads, tokens, 64))
        before[name] = values.swapaxes(0, 1)
        after[name] = rotated_by_formula(values, base, layout).swapaxes(0, 1)
    return eval_callback_log(before, after, edge=edge)


def test_a_log_of_llama_cpp_is_compared_at_the_printed_elements(tmp_path: Path) -> None:
    """llama.cpp's eval-callback prints the first three and the last three elements of each axis. Of
    4 heads, 40 tokens and 64 channels, these are 6 tokens of all heads, and 6 channels, of which
    only 4 are whole interleaved pairs, (0, 1) and (62, 63): 4 · 6 · 4 = 96 elements of 4 · 40 · 64
    = 10,240.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(10000, "interleaved", edge=3))
    result = pecli.verify(tmp_path / "x.log", LLAMA_CONFIG, layout="interleaved")

    assert result.passed, result
    assert result.readings["Qcur-0"] == "96 of 10,240 elements compared"
    assert "only 96 of 10,240 elements could be compared" in result.weak[0]


@pytest.mark.parametrize(("first", "passed"), [(0, True), (3, False)])
def test_a_log_is_compared_at_the_positions_that_are_given(
    tmp_path: Path, first: int, passed: bool
) -> None:
    """The log has 40 tokens, which were rotated at the positions 0 to 39; given are those from
    `first` on.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(10000, "interleaved", edge=3))
    positions = first + np.arange(40)
    result = pecli.verify(
        tmp_path / "x.log", LLAMA_CONFIG, layout="interleaved", positions=positions, reasons=False
    )

    assert result.passed is passed


def test_positions_of_another_number_of_tokens_than_a_log_has_are_refused(tmp_path: Path) -> None:
    """The log has 40 tokens; 41 positions are given."""
    (tmp_path / "x.log").write_text(eval_callback_log_of(10000, "interleaved", edge=3))
    with pytest.raises(ParameterError, match="the dump has 40 tokens"):
        pecli.verify(tmp_path / "x.log", LLAMA_CONFIG, positions=np.arange(41))


def test_a_wrong_base_in_a_log_fails_at_its_index(tmp_path: Path) -> None:
    """The log prints 4 heads, the first and last 3 of 40 tokens, and the first and last pair of 64
    channels. The first pair turns by one radian per position whatever the base is, so that the
    worst element is in the last pair, (62, 63), and at one of the last tokens, which have turned
    most.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(500000, "interleaved", edge=3))
    result = pecli.verify(tmp_path / "x.log", LLAMA_CONFIG, layout="interleaved")

    assert not result.passed

    assert result.tensors[0].worst_index is not None
    head, token, channel = result.tensors[0].worst_index
    assert head < 4
    assert token in (37, 38, 39)
    assert channel in (62, 63)


def test_a_log_of_halves_is_refused_because_it_has_no_whole_pair(tmp_path: Path) -> None:
    """The log prints the channels 0, 1, 2 and 61, 62, 63. In layout halves, the pair of channel 0
    is channel 32, which is not printed. The error states how all elements are printed.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(10000, "halves", edge=3))
    with pytest.raises(FileError, match=r"both channels of its pair; print all .*debug\.cpp"):
        pecli.verify(tmp_path / "x.log", LLAMA_CONFIG, layout="halves")


@pytest.mark.parametrize(("base", "passed"), [(10000, True), (500000, False)])
def test_a_log_with_all_elements_is_checked_in_halves(
    tmp_path: Path, base: float, passed: bool
) -> None:
    """The log prints 4096 elements at either end of each axis, so that no element is left out. The
    config has base 10000.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(base, "halves", edge=4096, tokens=9))
    result = pecli.verify(tmp_path / "x.log", LLAMA_CONFIG)

    assert result.passed is passed
    if not passed:
        assert "base is 500000" in result.reasons[0]


def test_a_log_is_refused_as_the_file_before_the_rotation(tmp_path: Path) -> None:
    """A log of llama.cpp holds the values before and after the rotation, and so cannot be the file
    that is given as `before`.
    """
    (tmp_path / "x.log").write_text(eval_callback_log_of(10000, "interleaved", edge=3))
    with pytest.raises(FileError, match="verify it without --before"):
        pecli.verify(tmp_path / "x.log", LLAMA_CONFIG, before=tmp_path / "x.log")


def test_tensors_of_two_files_are_paired_by_names_that_end_in_before_and_after(
    tmp_path: Path,
) -> None:
    """b.npz has q_before and k_before, a.npz q_after and k_after. Keys are twice the queries, so
    that exchanging them would fail.
    """
    queries = np.random.default_rng(1).normal(size=(9, 64)).astype(np.float32)
    keys = 2 * queries
    scheme = pecli.Rope(seq_len=9, dim=64)
    np.savez(tmp_path / "b.npz", q_before=queries, k_before=keys)
    np.savez(
        tmp_path / "a.npz",
        q_after=pecli.apply(queries, scheme),
        k_after=pecli.apply(keys, scheme),
    )
    result = pecli.verify(tmp_path / "a.npz", LLAMA_CONFIG, before=tmp_path / "b.npz")

    assert [tensor.name for tensor in result.tensors] == ["q_after", "k_after"]
    assert result.passed
