"""Verifications of tables that fail, and of those that pass but prove little; results as text,
JSON, truth and exceptions.

Tables are NumPy's, by the formulas of tests/tools/sweeps (LLAMA is Llama 3.1 8B, DEEPSEEK the 64
rotary channels of DeepSeek-V3). A pass is weak if a known mistake would pass as well; `weak` has a
remark for each, and a strict check fails then.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.engine.table import table_of
from pecli.files import save_tables
from tests.checks.waves import LLAMA3, cos_and_sin_tables, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.tools.sweeps.tables import Waves

LLAMA = Waves(128, 500000.0, {"type": "llama3", **LLAMA3})
"""128 channels, base 500,000, and scaling by the factor 8 from 8192 positions."""
DEEPSEEK = Waves(
    64, 10000.0, {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
)
"""64 rotary channels, base 10,000, and YaRN by 40 from 4096 positions to 163,840."""


def tables_with_another_scaling(waves: Waves, **scaling: Any) -> dict[str, np.ndarray]:
    """Return 2048 rows of cosines and sines, for which some parameters of the scaling differ."""
    rescaled = Waves(waves.dim, waves.base, {**waves.scaling, **scaling})
    return cos_and_sin_tables(2048, rescaled.frequencies()[0])


def limits_of_yarn(original_length: float) -> tuple[int, int]:
    """Return the pairs between which YaRN blends frequencies, of 64 channels with base 10,000.

    The pair that turns n times within L positions is number 32 ln(L / (2π n)) / ln 10000. The limits
    are those of n = 32, rounded down, and of n = 1, rounded up.
    """
    first, last = (
        32 * math.log(original_length / (2 * math.pi * turns)) / math.log(10000)
        for turns in (32, 1)
    )
    return math.floor(first), math.ceil(last)


def test_the_extended_length_in_the_place_of_the_original_is_named() -> None:
    """DeepSeek-V3's YaRN stretches 4096 positions by 40 to 163,840, and the tables, by NumPy, are
    computed as if it began at the latter. YaRN's tables depend on the original length only by its
    limits, so that any length with the limits of 163,840 may be named.
    """
    yarn = {"scaling": "yarn", "original_max_position_embeddings": 4096, "factor": 40.0}
    # Equal mscale and mscale_all_dim leave cosines and sines with an amplitude of 1.
    spec = pecli.Rope(2048, 64, mscale=1.0, mscale_all_dim=1.0, **yarn)
    tables = tables_with_another_scaling(DEEPSEEK, original_max_position_embeddings=163840)
    first_reason, *_ = pecli.verify(tables, spec).explanations
    (edit,) = first_reason.edits

    assert edit.name == "original_max_position_embeddings"
    assert edit.expected == 4096
    assert limits_of_yarn(original_length=163840) == (23, 36)
    assert limits_of_yarn(edit.found) == (23, 36)
    assert limits_of_yarn(original_length=4096) != (23, 36)


def test_another_factor_of_yarn_is_one_mistake_although_it_changes_the_attention_factor() -> None:
    """Factor 16 instead of DeepSeek-V3's 40 changes the frequencies, and the attention factor,
    which multiplies cosines and sines, to 0.1 ln 16 + 1. The first sentence explains both.
    """
    attention_factor = np.float64(0.1 * np.log(16) + 1)
    tables = {
        name: (table * attention_factor).astype(np.float32)
        for name, table in tables_with_another_scaling(DEEPSEEK, factor=16.0).items()
    }
    sentence, *_ = pecli.verify(tables, DEEPSEEK.scheme(2048)).diagnosis

    assert sentence.startswith("cos, sin: factor is 16 (the spec says 40); explains every element ")


SAVED_ROPE = pecli.Rope(16, 8)
FREQUENCIES_OFF_BY_8_UNITS = SAVED_ROPE.tables()["inv_freq"] * np.array([1, 1 + 8 * 2.0**-52, 1, 1])


@pytest.mark.parametrize(
    "changed",
    [
        {"inv_freq": FREQUENCIES_OFF_BY_8_UNITS},
        {name: table[None] for name, table in SAVED_ROPE.tables().items()},
    ],
    ids=["the last places", "an axis too many"],
)
def test_a_file_that_differs_slightly_from_its_spec_is_not_called_another_table(
    tmp_path: Path, changed: dict[str, np.ndarray]
) -> None:
    """The file carries its spec. Its frequencies are off by 8 units in the last place, or its
    tables have an axis too many: bit for bit it fails, but the table is the one of the spec.
    """
    arrays = {**SAVED_ROPE.tables(), **changed}
    tables = [table_of(name, table) for name, table in arrays.items()]
    save_tables(str(tmp_path / "t.npz"), tables, SAVED_ROPE.spec())
    result = pecli.verify(tmp_path / "t.npz")

    assert not result.passed
    assert not [sentence for sentence in result.diagnosis if "another table" in sentence]


def llama_dump(folder: Path, rows: int) -> tuple[str, ...]:
    """Write a dump of Llama 3.1 8B, and return the words of a command that checks it."""
    (folder / "config.json").write_text(json.dumps(LLAMA.config))
    np.savez(folder / "dump.npz", **cos_and_sin_tables(rows, LLAMA.frequencies()[0]))
    return (
        "verify",
        str(folder / "dump.npz"),
        "--config",
        str(folder / "config.json"),
        "--atol",
        "1e-3",
    )


def weak_lines(run_pecli: Any, words: tuple[str, ...]) -> list[str]:
    """Return the remarks on a pass that proves little, as the command prints them."""
    printed = run_pecli(*words).out.splitlines()
    return [line.removeprefix("  weak: ") for line in printed if "weak" in line]


@pytest.mark.parametrize(
    ("error", "scaling"),
    [
        pytest.param("llama3 scaling from none", {}, id="no scaling"),
        pytest.param("factor 8 from 4", {**LLAMA.scaling, "factor": 4.0}, id="factor 4"),
        pytest.param("factor 8 from 16", {**LLAMA.scaling, "factor": 16.0}, id="factor 16"),
        pytest.param(
            "wavelengths 2π/f from 1/f",
            {
                **LLAMA.scaling,
                "low_freq_factor": 1 / (2 * np.pi),
                "high_freq_factor": 4 / (2 * np.pi),
            },
            id="wavelengths without 2π",
        ),
    ],
)
def test_two_rows_of_llama_pass_with_a_remark_on_each_mistake_that_they_cannot_show(
    run_pecli: Any, tmp_path: Path, error: str, scaling: dict[str, Any]
) -> None:
    """Two rows of Llama 3.1's tables pass. Those of a wrong scaling, by the same formula, differ from
    them by less than the tolerance of 1e-3, so that the pass does not rule it out. The first 32 rows
    differ by more, and would.
    """
    wrong = Waves(LLAMA.dim, LLAMA.base, scaling)
    words = llama_dump(tmp_path, rows=2)
    outcome = run_pecli(*words)

    assert largest_difference(LLAMA, wrong, rows=2) < 1e-3
    assert largest_difference(LLAMA, wrong, rows=32) > 1e-3
    assert outcome.exit_code == SUCCESS
    assert outcome.out.startswith("passed")
    assert f"weak: 2 rows cannot tell {error}: compare " in outcome.out


def largest_difference(waves: Waves, other: Waves, rows: int) -> float:
    """Return the largest difference of cosines and sines in the first rows."""
    angles = np.multiply.outer(np.arange(rows), waves.frequencies()[0])
    other_angles = np.multiply.outer(np.arange(rows), other.frequencies()[0])
    rotations = np.exp(1j * angles) - np.exp(1j * other_angles)
    return float(max(np.abs(rotations.real).max(), np.abs(rotations.imag).max()))


def test_remarks_on_a_pass_list_five_mistakes_and_count_the_others(
    run_pecli: Any, tmp_path: Path
) -> None:
    """Two rows of Llama 3.1 do not show some known mistakes of its scaling: the four of the test
    above, and a scaling that is applied twice. Five are listed, and then only the number of others.
    """
    remarks = weak_lines(run_pecli, llama_dump(tmp_path, rows=2))

    assert len(remarks) == 6
    assert all(": compare " in remark for remark in remarks[:5])
    assert remarks[1].startswith("2 rows cannot tell llama3 scaling from llama3, applied twice: ")
    assert re.fullmatch(
        r"2 rows cannot tell \d+ more known mistakes from a right table", remarks[5]
    )


def test_a_strict_check_of_two_rows_fails_with_the_same_remarks_in_json(
    run_pecli: Any, tmp_path: Path
) -> None:
    """Two rows of Llama 3.1, which would pass without its scaling as well: without --strict this
    is a remark, with it a failure.
    """
    words = llama_dump(tmp_path, 2)
    assert run_pecli(*words, "--strict").exit_code == CHECK_FAILED

    in_json = run_pecli(*words, "--json", "--strict").json["weak"]
    assert in_json == weak_lines(run_pecli, words)


def test_as_many_rows_as_the_remarks_recommend_are_enough(run_pecli: Any, tmp_path: Path) -> None:
    """Two rows of Llama 3.1 pass with remarks that end in «compare N or more»; the last remark only
    counts other mistakes. With the largest N rows nothing is in doubt: a strict check, which fails
    if there is a remark, passes.
    """
    remarks = "\n".join(weak_lines(run_pecli, llama_dump(tmp_path, rows=2)))
    recommended = [
        int(number.replace(",", "")) for number in re.findall(r"compare ([\d,]+) or more", remarks)
    ]
    outcome = run_pecli(*llama_dump(tmp_path, rows=max(recommended)), "--strict", "--json")

    assert len(recommended) == 5
    assert outcome.exit_code == SUCCESS
    assert outcome.json["weak"] == []


@pytest.mark.thorough
def test_a_pass_within_a_tolerance_that_any_table_meets_is_weak() -> None:
    """No two cosines are further apart than 2, however long the table: within 2.5, a base of 10000
    would pass as well as the right one, 500000.
    """
    rope = pecli.Rope(64, 8, base=500000.0)
    weaknesses = pecli.verify(rope.tables(), rope, atol=2.5, rtol=100).weak

    assert (
        "64 rows cannot tell base 500000 from 10000 within this tolerance, and no number of rows would"
        in weaknesses
    )


def test_a_pass_within_a_tolerance_that_frequencies_of_any_base_meet_is_weak() -> None:
    """The frequencies are right, 500000^(-2i/8). A relative tolerance of 100 accepts those of any
    base, so that the pass proves little; one of 0.1 does not.
    """
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_attention_heads": 4,
        "rope_theta": 500000.0,
    }
    frequencies = {"inv_freq": 500000.0 ** (-np.arange(4) / 4)}
    weaknesses = pecli.verify(frequencies, config, rtol=100).weak

    assert weaknesses[0].startswith("inv_freq cannot tell base 500000 from 10000")
    assert pecli.verify(frequencies, config, rtol=0.1).weak == ()


@pytest.mark.thorough
def test_the_rows_of_a_runtimes_table_are_not_computed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cosines and sines of llama.cpp are expected, which `fill` computes: a few rows of each at first,
    then all 2,048 in one call, and fewer than 10 calls in total. A call for each row took ten seconds.
    """
    from pecli.engine.schemes.recipe_tables import RecipeFiller

    calls = []
    original_fill = RecipeFiller.fill

    def counting_fill(self: RecipeFiller, *arguments: Any) -> Any:
        calls.append(arguments)
        return original_fill(self, *arguments)

    rope = pecli.Rope(2048, 16, base=500000.0, runtime="llama.cpp", length=2048)
    tables = rope.tables()
    cosines_and_sines = {"cos": tables["cos"], "sin": tables["sin"]}
    monkeypatch.setattr(RecipeFiller, "fill", counting_fill)
    # Cosines differ by 2 at most: within 2.5 every known mistake passes as well, and is tried.
    result = pecli.verify(cosines_and_sines, rope, atol=2.5)

    assert result.weak
    assert 0 < len(calls) < 10


def test_layers_with_identical_frequencies_share_a_line(run_pecli: Any, tmp_path: Path) -> None:
    """Each of 80 layers of an old checkpoint has its own frequencies, computed in float32 as PyTorch
    would. Layer 7 is off by 4e-6, within what verify allows for frequencies, and is listed by
    itself; the other 79 share a line. If layer 3 is doubled, it fails, and 78 share a line.
    """
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    exact = (1e4 ** (-np.arange(8) / 8)).astype(np.float32)
    name = "model.layers.{}.self_attn.rotary_emb.inv_freq"
    words = "verify", tmp_path / "model.safetensors", "--config", tmp_path / "config.json"
    frequencies = {name.format(layer): exact for layer in range(80)}
    frequencies[name.format(7)] = exact * np.float32(1 + 4e-6)
    save_file(frequencies, tmp_path / "model.safetensors")
    lines = run_pecli(*words).out.splitlines()

    assert "  79 layers: inv_freq, exact" in lines

    (line_of_layer_7,) = [line for line in lines if name.format(7) in line]
    assert "max error" in line_of_layer_7

    save_file({**frequencies, name.format(3): exact * 2}, tmp_path / "model.safetensors")
    failed = run_pecli(*words)
    assert failed.exit_code == CHECK_FAILED
    assert "  78 layers: inv_freq, exact" in failed.out.splitlines()


def test_frequencies_that_do_not_show_the_attention_factor_are_weak() -> None:
    """YaRN's factor of 32 multiplies cos and sin of gpt-oss-20b by 0.1 ln 32 + 1, and frequencies by
    nothing: right frequencies pass weakly, and with cos and sin beside them nothing is in doubt.
    """
    rope = pecli.load_model("gpt-oss-20b").one().rope(64)
    tables = rope.tables()
    (line,) = pecli.verify({"inv_freq": tables["inv_freq"]}, "gpt-oss-20b").weak

    assert line == "inv_freq cannot tell the attention factor from none: compare cos or sin, too"
    assert pecli.verify(tables, "gpt-oss-20b", max_ulp=1).weak == ()


def test_a_table_of_text_does_not_show_the_sections_of_m_rope() -> None:
    """M-RoPE assigns sections of the frequencies to three axes of positions. Text has the same
    position on all of them, so that any sections make the same table: the pass is weak.
    """
    found = pecli.verify(
        cos_and_sin_tables(300, inverse_frequencies(1e6, 128), np.float64),
        "qwen2.5-vl-7b",
        atol=1e-6,
    )
    assert found.passed
    assert any("cannot tell M-RoPE sections" in line for line in found.weak)


def test_a_table_at_positions_of_an_image_shows_the_sections_of_m_rope() -> None:
    """Qwen2.5-VL has sections of 16, 24 and 24 of its 64 frequencies for time, rows and columns. The
    positions are those of an image 16 patches wide, for which other sections would make another
    table: the pass is not weak.
    """
    places = np.array([np.arange(300), np.arange(300) // 16, np.arange(300) % 16])
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    angles = places[axis].T * 1e6 ** (-np.arange(64) / 64)
    image = {"cos": np.cos(angles), "sin": np.sin(angles)}

    assert pecli.verify(image, "qwen2.5-vl-7b", atol=1e-6, positions=places).weak == ()


def test_a_table_of_the_vision_tower_is_checked_at_rows_and_columns() -> None:
    """Qwen2.5-VL's vision has two axes, and heads of 80 channels: 20 frequencies for each axis. The
    grid has 2 rows of 4 patches; a table has the angles of rows, then those of columns.
    """
    grid = np.array([np.arange(8) // 4, np.arange(8) % 4])
    by_axis = grid[:, :, None] * 1e4 ** (-np.arange(20) / 20)
    angles = by_axis.transpose(1, 0, 2).reshape(8, 40)
    patches = {"cos": np.cos(angles), "sin": np.sin(angles)}

    assert pecli.verify(patches, "qwen2.5-vl-7b", atol=1e-6, positions=grid, layer_type="vision")


SMALL_LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}
SMALL_TABLES = cos_and_sin_tables(300, inverse_frequencies(10000.0, 16))
"""Right tables of the small Llama, by NumPy."""


@pytest.mark.parametrize("spec", [SMALL_LLAMA, pecli.Rope(seq_len=300, dim=16)], ids=str)
def test_a_tensor_that_is_no_table_is_listed_as_unchecked(tmp_path: Path, spec: Any) -> None:
    """«junk» holds three zeros, beside right cosines and sines: the check passes, and lists it."""
    np.savez(tmp_path / "t.npz", **SMALL_TABLES, junk=np.zeros(3))
    found = pecli.verify(tmp_path / "t.npz", spec, atol=1e-6)

    assert found.passed
    assert found.unchecked == ("junk",)


def verify_scheme_words(folder: Path) -> tuple[Any, ...]:
    """Return the command that checks t.npz against the scheme."""
    scheme = ("rope", "--seq-len", 300, "--dim", 16)
    return (*scheme, "--verify", folder / "t.npz", "--atol", 1e-6)


def test_the_command_lists_unchecked_tensors_in_its_last_line(
    run_pecli: Any, tmp_path: Path
) -> None:
    """A file t.npz has right cosines and sines, and a tensor «junk» of three zeros, which is checked
    against nothing.
    """
    np.savez(tmp_path / "t.npz", **SMALL_TABLES, junk=np.zeros(3))
    printed = run_pecli(*verify_scheme_words(tmp_path)).out

    assert printed.splitlines()[-1] == "  not checked: junk"


def config_check_words(folder: Path) -> tuple[Any, ...]:
    """Return the command that checks t.npz against the configuration of the small Llama."""
    (folder / "c.json").write_text(json.dumps(SMALL_LLAMA))
    return ("verify", folder / "t.npz", "--config", folder / "c.json", "--atol", 1e-6)


def test_a_strict_check_passes_beside_weights(run_pecli: Any, tmp_path: Path) -> None:
    """A file has right cosines and sines, and a tensor «w» of random weights, one channel of which
    is all zeros, as if it had died. It looks like no table, so that a strict check may ignore it.
    """
    weights = np.random.default_rng(0).normal(0, 0.02, (300, 16))
    weights[:, 3] = 0
    np.savez(tmp_path / "t.npz", **SMALL_TABLES, w=weights)

    assert run_pecli(*config_check_words(tmp_path), "--strict").exit_code == SUCCESS


def test_a_strict_check_fails_beside_a_tensor_that_looks_like_a_table(
    run_pecli: Any, tmp_path: Path
) -> None:
    """Beside right tables, the file has half a table of sines under the name «foo», which nothing
    checks: the check passes with a remark, and fails with --strict.
    """
    np.savez(tmp_path / "t.npz", **SMALL_TABLES, foo=SMALL_TABLES["sin"][None] / 2)
    words = config_check_words(tmp_path)
    lenient = run_pecli(*words, "--json")
    strict = run_pecli(*words, "--strict")

    assert lenient.exit_code == SUCCESS
    assert lenient.json["weak"] == ["foo looks like a table, and no name says of what"]
    assert strict.exit_code == CHECK_FAILED


def test_the_command_of_a_scheme_remarks_on_a_tensor_that_looks_like_a_table(
    run_pecli: Any, tmp_path: Path
) -> None:
    """`pecli rope … --verify` has the remark of `pecli verify` about half a table of sines, «foo»."""
    np.savez(tmp_path / "t.npz", **SMALL_TABLES, foo=SMALL_TABLES["sin"][None] / 2)
    outcome = run_pecli(*verify_scheme_words(tmp_path), "--json")

    assert outcome.json["weak"] == ["foo looks like a table, and no name says of what"]


def test_a_weak_check_of_many_layers_names_their_tensor_once() -> None:
    """Three layers have the right frequencies of Llama 3.1. Its scaling divides by 8 at most, which
    a relative tolerance of 10 accepts, so that none would pass as well: one remark for all layers.
    """
    layers = {f"layers.{layer}.rotary_emb.inv_freq": LLAMA.frequencies()[0] for layer in range(3)}
    found = pecli.verify(layers, "llama-3.1-8b", rtol=10)

    assert pecli.verify(layers, "llama-3.1-8b").passed

    lines = [line.partition(" within ")[0] for line in found.weak]
    assert lines.count("inv_freq cannot tell llama3 scaling from none") == 1


ROPE_BASE_10000 = pecli.Rope(seq_len=16, dim=16, base=10000)
ROPE_BASE_500000 = pecli.Rope(seq_len=16, dim=16, base=500000)
TABLES_BASE_10000 = ROPE_BASE_10000.tables()


def test_a_result_that_passed_is_true_as_a_condition() -> None:
    """`if pecli.verify(…):` works: results define `__bool__`. Tables of base 10000 are verified
    against their own scheme, compared with themselves, and identified.
    """
    assert pecli.verify(TABLES_BASE_10000, ROPE_BASE_10000)
    assert pecli.diff(TABLES_BASE_10000, TABLES_BASE_10000)
    assert pecli.identify(TABLES_BASE_10000)


def test_a_result_that_failed_is_false_as_a_condition() -> None:
    """Tables of base 10000 are verified against base 500000 and compared with tables of that base;
    noise of 64 × 32 numbers is identified as nothing.
    """
    noise = np.random.default_rng(0).normal(size=(64, 32))

    assert not pecli.verify(TABLES_BASE_10000, ROPE_BASE_500000)
    assert not pecli.diff(TABLES_BASE_10000, ROPE_BASE_500000.tables())
    assert not pecli.identify(noise)


def test_a_comparison_of_runtimes_is_true_as_a_condition_if_they_agree() -> None:
    """Llama 2 has no scaling, so all runtimes compute the same at 64 positions; `bool()` and
    `repr()` of the comparison show it.
    """
    found = pecli.runtimes("llama-2-7b", 64)

    assert found.agree
    assert bool(found)
    assert repr(found).startswith("<RuntimeComparison passed: ")


def test_raise_if_failed_raises_nothing_if_the_check_passed() -> None:
    """Tables of base 10000 are verified against their own scheme."""
    pecli.verify(TABLES_BASE_10000, ROPE_BASE_10000).raise_if_failed()


def test_raise_if_failed_of_a_verification_has_the_reason_in_its_message() -> None:
    """The tables have base 10000, and the scheme, which is the spec, base 500000."""
    with pytest.raises(
        pecli.CheckFailedError, match=r"FAILED(.|\n)*base is 10000 \(the spec says 500000\)"
    ):
        pecli.verify(TABLES_BASE_10000, ROPE_BASE_500000).raise_if_failed()


def test_raise_if_failed_of_a_difference_is_an_assertion_error() -> None:
    """In a test, `pecli.diff(…).raise_if_failed()` stands for an assert: the files have base 10000
    and 500000.
    """
    with pytest.raises(AssertionError, match="DIFFERENT"):
        pecli.diff(TABLES_BASE_10000, ROPE_BASE_500000.tables()).raise_if_failed()


def test_the_repr_of_a_failed_verification_has_the_reason() -> None:
    """The tables have base 10000, and the scheme base 500000. The repr has the sentence about the
    base, and no field that is None.
    """
    failed = repr(pecli.verify(TABLES_BASE_10000, ROPE_BASE_500000))

    assert failed.startswith("<Verification failed: rope; ")
    assert "base is 10000" in failed
    assert "None" not in failed


@pytest.mark.parametrize("command", ["verify", "identify"])
def test_a_printed_result_of_one_file_is_what_the_command_prints(
    run_pecli: Any, tmp_path: Path, command: str
) -> None:
    """`str(pecli.verify(file))` is the text that `pecli verify file` prints, and so for identify.
    The file carries its spec.
    """
    file = str(tmp_path / "a.safetensors")
    pecli.save(file, ROPE_BASE_10000)

    assert str(getattr(pecli, command)(file)) == run_pecli(command, file).out.rstrip("\n")


def test_a_printed_difference_is_what_the_command_prints(run_pecli: Any, tmp_path: Path) -> None:
    """`str(pecli.diff(…))` has the text of `pecli diff`, for files of base 10000 and 500000."""
    a = str(tmp_path / "a.safetensors")
    b = str(tmp_path / "b.safetensors")
    pecli.save(a, ROPE_BASE_10000)
    pecli.save(b, ROPE_BASE_500000)
    printed = run_pecli("diff", a, b, "--no-plot").out

    assert str(pecli.diff(a, b)) == printed.rstrip("\n")


def test_a_printed_comparison_of_runtimes_is_what_the_command_prints(run_pecli: Any) -> None:
    """`str()` of the result of pecli.runtimes has the text of `pecli runtimes` with the same model
    and length.
    """
    printed = run_pecli("runtimes", "llama-2-7b", "--length", 4096).out
    assert str(pecli.runtimes("llama-2-7b", 4096)) == printed.rstrip()


def test_a_printed_audit_names_its_recipe_and_its_repr_is_short() -> None:
    """`str()` of an audit is its report; its repr is one line of fewer than 200 characters."""
    audit = pecli.audit(ROPE_BASE_10000, recipes=("float32",))
    assert "float32" in str(audit)
    assert len(repr(audit)) < 200


def test_positions_of_one_axis_do_not_show_the_sections_of_m_rope() -> None:
    """M-RoPE assigns sections of 2, 3 and 3 of 8 pairs to three axes. Text has the same position on
    all of them, so other sections would make the same tables: the pass is weak.
    """
    rope = pecli.Rope(dim=16, positions=[0, 1, 2, 500], mrope_section=[2, 3, 3])
    lines = pecli.verify(rope.tables(), rope).weak

    assert any("cannot tell M-RoPE sections" in line for line in lines)


def test_a_layer_type_is_in_doubt_unless_it_was_chosen() -> None:
    """The names cos and sin do not state of which layers of Gemma 3 they are, so that the table is
    checked against the type that it fits best, with a remark. The option layer_type leaves no
    doubt.
    """
    tables = pecli.load_model("gemma-3-4b").one("full_attention").rope(64).tables()
    waves_of_rope = {"cos": tables["cos"], "sin": tables["sin"]}
    chosen = pecli.verify(waves_of_rope, "gemma-3-4b", layer_type="full_attention", atol=1e-5)

    assert chosen.passed
    assert not any("full_attention" in line for line in chosen.weak)
    assert "which it fits best" not in str(chosen)

    guessed = pecli.verify(waves_of_rope, "gemma-3-4b", atol=1e-5)
    assert any("it fits full_attention layers" in line for line in guessed.weak)


def test_a_row_at_position_1_is_not_doubted_for_left_padding() -> None:
    """Among the known mistakes that a pass must rule out are five rows of left padding. They would
    leave nothing of a single row, so that only the reversed order of rows is in doubt.
    """
    rope = pecli.Rope(1, 16, offset=1)
    assert pecli.verify(rope.tables(), rope, atol=1e-5).weak == (
        "1 row cannot tell whether rows are in reverse order: compare 2 or more",
    )


def test_rounding_is_not_the_advice_beside_a_tensor_of_another_shape() -> None:
    """Cosines are off by one unit in the last place, which --max-ulp 1 would allow, so the
    diagnosis gives this advice. If the sines lack four rows as well, no tolerance helps, and it
    does not.
    """
    rope = pecli.Rope(8, 16)
    tables = rope.tables()
    near = {"cos": np.nextafter(tables["cos"], np.float32(2)), "sin": tables["sin"]}

    assert "allow --max-ulp 1" in str(pecli.verify(near, rope))

    short = {**near, "sin": tables["sin"][:4]}
    assert "--max-ulp" not in str(pecli.verify(short, rope, reasons=False))


def test_a_strict_check_fails_if_it_is_weak() -> None:
    """Row 0 of every base is the same, so that one row rules out no other base."""
    rope = pecli.Rope(seq_len=1, dim=8)
    result = pecli.verify(rope.tables(), rope, strict=True)

    assert not result.passed
    assert "1 row cannot tell base 10000 from 500000" in repr(result)


def test_a_strict_check_passes_if_it_rules_out_every_known_mistake() -> None:
    """A strict check fails if a known mistake would pass as well. In 64 rows of a rotary table,
    every one of them would show.
    """
    rope = pecli.Rope(seq_len=64, dim=8)
    assert pecli.verify(rope.tables(), rope, strict=True).passed
