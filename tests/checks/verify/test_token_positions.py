"""Queries and keys whose tables are right and whose positions are not: padding, packing, moved
caches, M-RoPE.

Random queries (2 sequences, 4 heads, 24 positions, 64 channels) are rotated here by the formula,
base 10000, at the positions of each test. LEFT_PADDED_MASK hides the first 9 tokens of the second
sequence, and POSITIONS_BY_MASK counts the others from 0; PACKED are positions 0 … 15, then 0 … 7;
IMAGE are positions (t, h, w) of 4 × 6 patches; M-RoPE gives sections of the frequencies to these
axes. Expected words are written by hand.
"""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR
from tests.oracle import turned

HEADS, LENGTH, DIM = 4, 24, 64
LEFT_PADDED_MASK = np.array([[1] * LENGTH, [0] * 9 + [1] * (LENGTH - 9)])
POSITIONS_0_TO_23 = np.arange(LENGTH)
POSITIONS_BY_MASK = np.maximum(LEFT_PADDED_MASK.cumsum(axis=1) - 1, 0)
PACKED = np.r_[np.arange(16), np.arange(8)]
IMAGE = np.stack([np.full(LENGTH, 5), 5 + POSITIONS_0_TO_23 // 6, 5 + POSITIONS_0_TO_23 % 6])


def llama_of_base_10000(**more: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": HEADS * DIM,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "head_dim": DIM,
    }
    return {
        "model_type": "llama",
        **sizes,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        **more,
    }


QWEN2 = llama_of_base_10000(
    model_type="qwen2_vl", rope_scaling={"rope_type": "default", "mrope_section": [8, 12, 12]}
)
INTERLEAVED = {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True}
QWEN3 = llama_of_base_10000(model_type="qwen3_vl_text", rope_scaling=INTERLEAVED)
GPTJ = {
    "model_type": "gptj",
    "n_embd": HEADS * DIM,
    "n_head": HEADS,
    "rotary_dim": DIM,
    "n_positions": 4096,
}
BLOCKED = np.repeat(np.arange(3), [8, 12, 12])
BLOCKED3 = np.repeat(np.arange(3), [12, 10, 10])
MIXED3 = np.array([k % 3 if k % 3 and k // 3 < (12, 10, 10)[k % 3] else 0 for k in range(32)])


def rotated_by_formula(
    x: np.ndarray, places: np.ndarray, layout: str = "halves", owner: np.ndarray | None = None
) -> np.ndarray:
    """Rotate x (batch, heads, L, D) at places (L,), (batch, L), (batch, heads, L), or (axes, L)
    with the axis of each frequency.
    """
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    rows = np.asarray(places, float)
    angles = rows[owner].T * inverse if owner is not None else rows[..., None] * inverse
    angles = angles[:, None] if angles.ndim == 3 else angles
    return turned(x, angles, layout)


STALE = np.tile(POSITIONS_0_TO_23, (2, HEADS, 1))
STALE[1, 1] = np.maximum(POSITIONS_0_TO_23 - 1, 0)
PADDED = {"attention_mask": LEFT_PADDED_MASK}
MOVED = {"shift": 5}
SEEN = {"positions": IMAGE}
SITUATIONS: dict[str, tuple[dict[str, Any], Any, str, str]] = {
    "right": (PADDED, POSITIONS_BY_MASK, "", ""),
    "padding filled with 1": (PADDED, np.where(LEFT_PADDED_MASK, POSITIONS_BY_MASK, 1), "", ""),
    "left padding ignored": (
        PADDED, POSITIONS_0_TO_23, "sequence 1: positions are 0 … 23; expected 0 × 9, then 0 … 14: left padding is ignored", ""),
    "packing not reset": (
        {"positions": PACKED}, POSITIONS_0_TO_23,
        "expected 0 … 15, then 0 … 7: positions are not reset where a packed sequence begins", ""),
    "offset per sequence": (
        {}, [POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7], "sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far", ""),
    "cache moved": (MOVED, 0 * POSITIONS_0_TO_23 + 5, "", ""),
    "cache not moved": (MOVED, 0 * POSITIONS_0_TO_23, "expected 5 × 24: it was not moved", ""),
    "cache moved twice": (MOVED, 0 * POSITIONS_0_TO_23 + 10, "it was moved twice", ""),
    "cache moved back": (MOVED, 0 * POSITIONS_0_TO_23 - 5, "it was moved the other way", ""),
    "one head stale": ({}, STALE, "sequence 1, head 1: positions are 0, then 0 … 22; expected 0 … 23", ""),
    "M-RoPE right": (SEEN, IMAGE, "", "qwen2"),
    "M-RoPE fed 1-D": (SEEN, IMAGE[[0, 0, 0]], "1-D positions are given to M-RoPE", "qwen2"),
    "axes swapped": (SEEN, IMAGE[[0, 2, 1]], "the axes are those of (0, 2, 1)", "qwen2"),
    "M-RoPE interleaved right": (SEEN, IMAGE, "", "qwen3"),
    "sections blocked": (SEEN, IMAGE, "M-RoPE sections are blocked, where the model interleaves them", "qwen3"),
}  # fmt: skip
"""Options, the positions that were used, what is said of them, and the model where sections count."""


CASES = [
    (name, dtype, layout, heads_first, heads)
    for name, (*_, family) in SITUATIONS.items()
    for dtype, layout in product(
        ["float32", "bfloat16"], ["halves"] if family else ["halves", "interleaved"]
    )
    for heads_first, heads in product([True, False], [HEADS, 2])
]
"""M-RoPE models rotate halves."""


@pytest.mark.parametrize(("name", "dtype", "layout", "heads_first", "heads"), CASES)
@pytest.mark.sample(10)
def test_wrong_positions_are_named_in_every_dtype_and_layout(
    name: str, dtype: str, layout: str, heads_first: bool, heads: int
) -> None:
    """Each case of SITUATIONS has the options of the check, the positions that were really used,
    and the words that name the mistake (none if they are right). For example, with a mask,
    positions 0 … 23 in the padded sequence: «left padding is ignored».

    Random queries are rotated at these positions by the formula, in NumPy. Positions of M-RoPE are
    (time, row, column), and each frequency belongs to one of these axes: its `owner`.
    """
    options, places, words, family = SITUATIONS[name]
    kind = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}[dtype]
    before = np.random.default_rng(1).normal(size=(2, heads, LENGTH, DIM)).astype(kind)
    owner = {"qwen2": BLOCKED, "qwen3": BLOCKED3 if name == "sections blocked" else MIXED3}.get(
        family
    )
    places = places[:, :heads] if places is STALE else places
    after = rotated_by_formula(before.astype(np.float64), places, layout, owner).astype(kind)
    axes = {} if heads_first else {"seq_axis": 1}
    if not heads_first:
        before, after = before.swapaxes(1, 2), after.swapaxes(1, 2)
    model = {"qwen2": QWEN2, "qwen3": QWEN3}.get(family) or (
        llama_of_base_10000() if layout == "halves" else GPTJ
    )
    result = pecli.verify(
        after, model, before=before, atol=0.05 if dtype == "bfloat16" else 1e-4, **axes, **options
    )

    is_right = not words
    assert bool(result) == is_right, result
    assert words in " ".join(result.diagnosis), result


@pytest.fixture
def verify_words(tmp_path: Path) -> tuple[Any, ...]:
    """Return the command that verifies queries at the positions of the padding mask."""
    before = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    after = rotated_by_formula(before, POSITIONS_BY_MASK).astype(np.float32)
    moved = rotated_by_formula(before, np.full(LENGTH, -3)).astype(np.float32)
    arrays = {"q": before, "after": after, "moved": moved, "mask": LEFT_PADDED_MASK}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    given = ("--before", tmp_path / "q.npy", "--config", tmp_path / "config.json")
    return ("verify", tmp_path / "after.npy", *given, "--atol", "1e-4")


def test_padded_queries_pass_with_their_mask_on_the_command_line(
    run_pecli, tmp_path, verify_words
) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences of 24 tokens, rotated at
    positions that are counted after the padding: 9 tokens of the second sequence, as in mask.npy.
    """
    found = run_pecli(*verify_words, "--attention-mask", tmp_path / "mask.npy")
    assert found.exit_code == SUCCESS


def test_padded_queries_fail_without_their_mask(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences, of which the second has padding
    on the left. Without the mask, both are expected at positions 0 … 23.
    """
    found = run_pecli(*verify_words)
    assert found.exit_code == CHECK_FAILED
    assert "expected 0 … 23" in found.out


def test_positions_of_two_sequences_are_listed_with_a_semicolon(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences, rotated at POSITIONS_BY_MASK.
    With --positions 0,1,…;0,0,… these are listed, sequence by sequence.
    """
    listed = ";".join(",".join(map(str, row)) for row in POSITIONS_BY_MASK)
    assert run_pecli(*verify_words, "--positions", listed).exit_code == SUCCESS


def test_positions_of_two_lengths_are_a_usage_error(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences; two positions are listed for
    the first, and one for the second.
    """
    assert run_pecli(*verify_words, "--positions", "1,2;3").exit_code == USAGE_ERROR


def test_a_cache_moved_back_by_3_passes_with_that_shift(run_pecli, tmp_path, verify_words) -> None:
    """moved.npy holds the queries of `verify_words` rotated by −3 positions each, as when the first
    3 tokens leave a cache.
    """
    verify, _, *options = verify_words
    moved = tmp_path / "moved.npy"

    assert run_pecli(verify, moved, *options, "--shift", "-3").exit_code == SUCCESS


def test_a_pass_that_cannot_see_padding_is_weak() -> None:
    """The first 9 of 24 tokens of sequence 1 are equal, which looks like left padding, but no mask
    is given. If positions are given, there is no doubt. `weak` are remarks on a pass that proves
    little.
    """
    before = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    before[1, :, :9] = before[1, :, :1]
    after = rotated_by_formula(before, POSITIONS_0_TO_23).astype(np.float32)
    (line,) = pecli.verify(after, llama_of_base_10000(), before=before, atol=1e-4).weak

    assert "sequence 1 begins with 9 equal rows, which look like padding" in line

    placed = pecli.verify(
        after, llama_of_base_10000(), before=before, atol=1e-4, positions=POSITIONS_0_TO_23
    )
    assert placed.weak == ()


WPE = np.random.default_rng(3).normal(size=(64, 32)).astype(np.float32)
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": HEADS * 256,
    "num_attention_heads": HEADS,
    "rotary_pct": 0.25,
}
REPORTS: dict[str, tuple[Any, dict[str, Any], Callable[[np.ndarray], np.ndarray], str]] = {
    "unsloth#3699": (llama_of_base_10000(), PADDED, lambda x: rotated_by_formula(x, POSITIONS_0_TO_23), "left padding is ignored"),
    "transformers#22161": (
        NEOX, PADDED, lambda x: rotated_by_formula(x, POSITIONS_0_TO_23),
        "left padding is ignored"),
    "LlamaFactory#7318": (llama_of_base_10000(), {"positions": PACKED}, lambda x: rotated_by_formula(x, POSITIONS_0_TO_23), "positions are not reset"),
    "llama.cpp#3825": (llama_of_base_10000(), {"shift": -8}, lambda x: rotated_by_formula(x, 0 * POSITIONS_0_TO_23 - 3), "moved by -3, not -8"),
    "Liger-Kernel#276": (
        QWEN2, SEEN, lambda x: rotated_by_formula(x, np.stack([POSITIONS_0_TO_23] * 3), owner=BLOCKED), "1-D positions are given to M-RoPE"),
    "MNN#4133": (QWEN3, SEEN, lambda x: rotated_by_formula(x, IMAGE, owner=BLOCKED3), "sections are blocked"),
    "nnsight#673": (WPE, PADDED, lambda x: x + WPE[POSITIONS_0_TO_23], "left padding is ignored"),
}  # fmt: skip
"""The model or table, what tokens are given by, what was done instead, and what it is called."""


@pytest.mark.parametrize("report", REPORTS)
def test_wrong_positions_that_users_reported_are_named(report: str) -> None:
    """Each case of REPORTS is an issue of a public project, rebuilt by the formula in NumPy: the
    model, the options of the check, what was done to the queries, and the words that name it. In
    unsloth#3699, for example, a left-padded sequence is rotated at positions 0 … 23.
    """
    model, options, turn, words = REPORTS[report]
    shape = {"transformers#22161": (2, HEADS, LENGTH, 256), "nnsight#673": (2, LENGTH, 32)}.get(
        report
    )
    before = (
        np.random.default_rng(2).normal(size=shape or (2, HEADS, LENGTH, DIM)).astype(np.float32)
    )
    result = pecli.verify(
        turn(before.astype(float)).astype(np.float32), model, before=before, atol=1e-4, **options
    )

    assert not result
    assert words in " ".join(result.diagnosis), result


def test_a_cache_moved_in_too_many_channels_is_named() -> None:
    """NEOX is a GPT-NeoX that rotates a quarter of a head (rotary_pct 0.25): 64 of 256 channels.
    When the keys of its cache were moved by 5 positions, all 256 were rotated, by 10000^(−i/128)
    per position.
    """
    cache = np.random.default_rng(2).normal(size=(1, HEADS, LENGTH, 256)).astype(np.float32)
    moved = turned(cache, 5 * 10000.0 ** (-np.arange(128) / 128)).astype(np.float32)
    result = pecli.verify(moved, NEOX, before=cache, shift=5, atol=1e-4)

    assert "rotary dimension is 256 (the spec says 64)" in result.diagnosis[0]


def test_a_cache_is_not_multiplied_by_the_attention_factor_again() -> None:
    """The model has LongRoPE with an attention factor of 1.5, and factors of 1 that change no
    frequency. Cached keys have been multiplied by 1.5 already, so that moving them by 5 positions
    is a pure rotation.
    """
    ones = [1.0] * (DIM // 2)
    scaling = {
        "rope_type": "longrope",
        "short_factor": ones,
        "long_factor": ones,
        "attention_factor": 1.5,
    }
    model = llama_of_base_10000(rope_scaling={**scaling, "original_max_position_embeddings": 2048})
    cache = 1.5 * np.random.default_rng(2).normal(size=(1, HEADS, LENGTH, DIM))
    moved = {by: rotated_by_formula(cache, np.full(LENGTH, by)) for by in (5, 7)}

    assert pecli.verify(moved[5], model, before=cache, shift=5, atol=1e-6)

    result = pecli.verify(moved[7], model, before=cache, shift=5, atol=1e-6)
    assert "it was moved by 7, not 5" in result.diagnosis[0]


@pytest.mark.parametrize("model", [llama_of_base_10000(), GPTJ], ids=["halves", "interleaved"])
def test_positions_of_tables_per_batch_are_named_in_either_layout(model: dict[str, Any]) -> None:
    """The tables have axes (2 sequences, 24 positions, 32 frequencies), as cosines and sines of
    position · 10000^(−i/32); the second sequence begins at position 7. A Llama rotates halves,
    GPT-J interleaved pairs.
    """
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    angles = np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7])[..., None] * inverse
    dump = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    first = pecli.verify(dump, model, atol=1e-6).diagnosis[0]

    assert first.startswith("sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far;")


def tables_at(places: np.ndarray) -> dict[str, np.ndarray]:
    """Return tables per batch, as the rotary modules of transformers do: (batch, L, head_dim)."""
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    angles = np.tile(places[..., None] * inverse, 2)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


POSITIONS_WITH_PADDING_AT_1 = np.where(LEFT_PADDED_MASK, POSITIONS_BY_MASK, 1)


def test_positions_of_tables_per_batch_are_named_per_sequence() -> None:
    """`tables_at` has tables of two sequences at the given positions. In the first, 9 tokens of
    padding are at position 1, and the others count from 0; the second begins at 7. As no mask is
    given, 0 … 23 are expected of both.
    """
    places = np.stack([POSITIONS_WITH_PADDING_AT_1[1], POSITIONS_0_TO_23 + 7])
    uncounted = pecli.verify(tables_at(places), llama_of_base_10000(), atol=1e-6).diagnosis

    assert uncounted[0].startswith("sequence 0: positions are 1 × 9, then 0 … 14; expected 0 … 23;")
    assert uncounted[1].startswith(
        "sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far;"
    )


def test_tables_per_batch_that_are_too_narrow_get_no_reason() -> None:
    """The tables have 10 columns where 32 (pairs) or 64 (channels) are expected: no positions can
    be found from them.
    """
    narrow = {
        name: table[..., :10] for name, table in tables_at(POSITIONS_WITH_PADDING_AT_1).items()
    }
    assert pecli.verify(narrow, llama_of_base_10000(), atol=1e-6).reasons == ()


def test_tables_per_batch_pass_with_their_mask_or_positions() -> None:
    """Both dumps are right for the tokens that the mask shows. Tokens of padding are at position 0,
    as in POSITIONS_BY_MASK, or at position 1, as transformers places them. A mask leaves them out;
    positions require them as well.
    """
    padding_at_0 = tables_at(POSITIONS_BY_MASK)
    padding_at_1 = tables_at(POSITIONS_WITH_PADDING_AT_1)
    by_mask = {"attention_mask": LEFT_PADDED_MASK, "atol": 1e-6}
    by_positions = {"positions": POSITIONS_BY_MASK, "atol": 1e-6}

    assert pecli.verify(padding_at_1, llama_of_base_10000(), **by_mask)
    assert pecli.verify(padding_at_0, llama_of_base_10000(), **by_positions)
    assert not pecli.verify(padding_at_1, llama_of_base_10000(), **by_positions, reasons=False)


def test_tables_per_batch_that_ignore_left_padding_are_named() -> None:
    """`tables_at` has the tables of two sequences that both count 0 … 23, although LEFT_PADDED_MASK
    hides the first 9 tokens of the second.
    """
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    result = pecli.verify(
        ignored, llama_of_base_10000(), attention_mask=LEFT_PADDED_MASK, atol=1e-6
    )

    assert "expected 0 × 9, then 0 … 14: left padding is ignored" in result.diagnosis[0]


def test_positions_of_tables_per_batch_are_not_searched_for_without_reasons() -> None:
    """The tables count 0 … 23 in both sequences, although LEFT_PADDED_MASK hides the first 9 tokens of
    the second. The check fails, and states no reason, as none was required.
    """
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    result = pecli.verify(
        ignored, llama_of_base_10000(), attention_mask=LEFT_PADDED_MASK, atol=1e-6, reasons=False
    )

    assert not result.passed
    assert result.reasons == ()


@pytest.mark.parametrize("names", [["cos"], ["cos", "sin"]], ids=str)
def test_tables_per_batch_that_ignore_left_padding_fail_for_two_layer_types(
    names: list[str],
) -> None:
    """The names cos and sin state no type of layer. In this Gemma 3, full attention has base 1e6,
    and sliding attention 10000, as the tables. They count 0 … 23 in both sequences, and the given
    positions begin after the padding.
    """
    gemma = llama_of_base_10000(model_type="gemma3_text", rope_theta=1e6, rope_local_base_freq=1e4)
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    tensors = {name: ignored[name] for name in names}

    assert not pecli.verify(tensors, gemma, positions=POSITIONS_BY_MASK, atol=1e-6, reasons=False)


def test_the_command_takes_a_mask_for_tables_per_batch(run_pecli, tmp_path) -> None:
    """dump.npz has the tables of two sequences that both count 0 … 23, although mask.npy hides the
    first 9 tokens of the second.
    """
    np.savez(tmp_path / "dump.npz", **tables_at(np.stack([POSITIONS_0_TO_23] * 2)))
    np.save(tmp_path / "mask.npy", LEFT_PADDED_MASK)
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    words = ("verify", tmp_path / "dump.npz", "--model", tmp_path / "config.json", "--atol", "1e-6")
    outcome = run_pecli(*words, "--attention-mask", tmp_path / "mask.npy")

    assert outcome.exit_code == CHECK_FAILED
    assert "left padding is ignored" in outcome.out


def queries_of_two_sequences() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)


@pytest.mark.parametrize(
    "tokens",
    [{}, {"shift": 5}, {"attention_mask": LEFT_PADDED_MASK}],
    ids=["positions from 0", "a shift", "a mask"],
)
def test_queries_that_are_not_finite_are_reported(tokens: dict[str, Any]) -> None:
    """All elements are NaN, before and after the rotation."""
    q = queries_of_two_sequences() * np.nan
    result = pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3, **tokens)

    assert "no finite numbers" in str(result)


def test_no_mistake_is_named_if_a_value_before_the_rotation_is_not_a_number() -> None:
    """Nothing is rotated, and one value is NaN, before and after: the only finding is that this
    value is not finite.
    """
    q = queries_of_two_sequences()
    q[0, 0, 5, 3] = np.nan
    result = pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3)

    assert result.explanations == ()


@pytest.mark.parametrize(
    "tokens",
    [{}, {"shift": 5}, {"attention_mask": LEFT_PADDED_MASK}],
    ids=["positions from 0", "a shift", "a mask"],
)
def test_a_pass_of_queries_of_zeros_is_weak(tokens: dict[str, Any]) -> None:
    """Any rotation of zeros is zeros, so that the check passes but proves nothing; `weak` are
    remarks on such a pass.
    """
    q = 0 * queries_of_two_sequences()
    assert pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3, **tokens).weak


def test_rows_of_padding_may_hold_nan_and_are_counted() -> None:
    """LEFT_PADDED_MASK hides 9 tokens of the second sequence, which are NaN before and after the
    rotation; all others are rotated at their positions by the formula.
    """
    q = queries_of_two_sequences()
    padded = np.where(LEFT_PADDED_MASK[:, None, :, None] == 0, np.nan, q)
    result = pecli.verify(
        rotated_by_formula(padded, POSITIONS_BY_MASK),
        llama_of_base_10000(),
        before=padded,
        attention_mask=LEFT_PADDED_MASK,
        atol=1e-4,
    )

    assert result.passed

    (reading,) = result.readings.values()
    assert reading == f"{(LEFT_PADDED_MASK == 0).sum()} rows of padding not compared"


def test_a_sequence_beside_one_that_is_hidden_as_a_whole_is_checked() -> None:
    """The mask hides all of the first sequence, and nothing of the second, which has 1 added to
    each element instead of a rotation, and fails.
    """
    q = queries_of_two_sequences()
    mask = np.stack([np.zeros(LENGTH, int), np.ones(LENGTH, int)])
    result = pecli.verify(
        q + 1, llama_of_base_10000(), before=q, attention_mask=mask, atol=1e-3, reasons=False
    )
    assert not result


def test_sums_with_a_table_that_are_not_finite_fail() -> None:
    """A learned table of NaN was added to finite inputs."""
    x = queries_of_two_sequences()[:, 0]
    table = np.full((LENGTH, DIM), np.nan, np.float32)

    assert not pecli.verify(x + np.nan, table, before=x, atol=1e-3, reasons=False)


def test_padded_sequences_that_are_one_position_too_far_are_named() -> None:
    """LEFT_PADDED_MASK is 1 for tokens and 0 for padding: each token is rotated at the position
    after its own, in both sequences, one of which has padding.
    """
    q = np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM))
    result = pecli.verify(
        rotated_by_formula(q, POSITIONS_BY_MASK + LEFT_PADDED_MASK),
        llama_of_base_10000(),
        before=q,
        attention_mask=LEFT_PADDED_MASK,
        atol=1e-4,
    )

    assert len(result.diagnosis) == 2
    assert all("all 1 too far" in line for line in result.diagnosis)


@pytest.mark.parametrize(
    ("layout", "other_layout"), [("halves", "interleaved"), ("interleaved", "halves")]
)
def test_a_stated_layout_is_required_of_rotated_queries(layout: str, other_layout: str) -> None:
    """A Llama rotates halves; the option `layout` overrides that. The queries are rotated by the
    formula at positions 0 … 23, in the stated layout and in the other.
    """
    q = np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM))
    options = {"before": q, "layout": layout, "atol": 1e-6}

    assert pecli.verify(
        rotated_by_formula(q, POSITIONS_0_TO_23, layout), llama_of_base_10000(), **options
    )
    assert not pecli.verify(
        rotated_by_formula(q, POSITIONS_0_TO_23, other_layout),
        llama_of_base_10000(),
        **options,
        reasons=False,
    )


def test_a_mask_of_as_many_tokens_as_the_model_has_heads_states_the_axis_of_tokens() -> None:
    """The axes are (2 sequences, 3 heads, 4 tokens, channels), and the model has 4 heads: without
    the mask (2, 4), the axis of 4 could be taken for heads.
    """
    q = np.random.default_rng(2).normal(size=(2, 3, HEADS, DIM))
    mask = np.array([[0] + [1] * (HEADS - 1), [1] * HEADS])
    places = np.maximum(mask.cumsum(-1) - 1, 0)

    assert pecli.verify(
        rotated_by_formula(q, places),
        llama_of_base_10000(),
        before=q,
        attention_mask=mask,
        atol=1e-6,
    )


def test_the_only_layer_with_stale_positions_is_named() -> None:
    """Of the queries of layers 0, 1 and 2, those of layer 1 are rotated at the position before
    their own, 0 0 1 … 22, and all others at 0 1 2 … 23.
    """
    q = {
        f"layers.{k}.q": np.random.default_rng(k).normal(size=(1, HEADS, LENGTH, DIM))
        for k in range(3)
    }
    after = {
        name: rotated_by_formula(x, np.maximum(POSITIONS_0_TO_23 - (name == "layers.1.q"), 0))
        for name, x in q.items()
    }
    result = pecli.verify(after, llama_of_base_10000(), before=q, atol=1e-4)

    assert [tensor.name for tensor in result.tensors if not tensor.passed] == ["layers.1.q"]
    assert result.diagnosis[0].startswith(
        "layers.1.q: positions are 0, then 0 … 22; expected 0 … 23"
    )


INPUTS = np.random.default_rng(2).normal(size=(2, LENGTH, 32)).astype(np.float32)
INPUTS_WITH_LEARNED_ROWS = (INPUTS + WPE[POSITIONS_BY_MASK]).astype(np.float32)
"""Rows 0, 1, … of the learned table WPE are added to the tokens that the mask shows."""


def test_inputs_with_a_learned_table_pass_with_their_mask() -> None:
    """Rows 0, 1, … of the learned table WPE are added to the tokens that LEFT_PADDED_MASK shows;
    the padding of the second sequence does not count as positions.
    """
    mask = {"attention_mask": LEFT_PADDED_MASK}
    assert pecli.verify(INPUTS_WITH_LEARNED_ROWS, WPE, before=INPUTS, atol=1e-6, **mask)


def test_padding_may_have_any_row_of_a_learned_table() -> None:
    """To the tokens that LEFT_PADDED_MASK hides, row 1 of the learned table WPE is added, as
    transformers does; the others have their own rows.
    """
    filled = np.where(LEFT_PADDED_MASK[..., None], INPUTS_WITH_LEARNED_ROWS, INPUTS + WPE[1])
    mask = {"attention_mask": LEFT_PADDED_MASK}

    assert pecli.verify(filled, WPE, before=INPUTS, atol=1e-6, **mask)


def test_inputs_with_a_sinusoidal_table_are_checked_at_their_positions() -> None:
    """Sines and cosines of positions 0 to 23, by the paper's formula in NumPy, are added to inputs
    of 32 channels. They pass, and fail if the positions 1 to 24 are expected.
    """
    waves = np.outer(POSITIONS_0_TO_23, 10000.0 ** (-np.arange(16) / 16))
    table = np.stack([np.sin(waves), np.cos(waves)], -1).reshape(LENGTH, 32)
    added = INPUTS + table.astype(np.float32)
    assert pecli.verify(added, pecli.Sinusoidal(64, 32), before=INPUTS, atol=1e-6)

    late = pecli.verify(
        added, pecli.Sinusoidal(64, 32), before=INPUTS, positions=POSITIONS_0_TO_23 + 1, atol=1e-6
    )
    assert "positions are 0 … 23; expected 1 … 24: all 1 too low" in late.diagnosis[0]


def test_the_command_checks_inputs_with_a_learned_table(run_pecli, tmp_path) -> None:
    """after.npy has the inputs x.npy with rows of the learned table wpe.npy, counted after the
    padding of mask.npy: with the mask they pass, without it they fail. The option --length is for
    rotary scalings only.
    """
    arrays = {"x": INPUTS, "after": INPUTS_WITH_LEARNED_ROWS, "wpe": WPE, "mask": LEFT_PADDED_MASK}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = (
        "verify",
        tmp_path / "after.npy",
        "--before",
        tmp_path / "x.npy",
        "--table",
        tmp_path / "wpe.npy",
    )

    assert (
        run_pecli(*words, "--attention-mask", tmp_path / "mask.npy", "--atol", "1e-6").exit_code
        == SUCCESS
    )
    assert run_pecli(*words, "--atol", "1e-6").exit_code == CHECK_FAILED
    assert run_pecli(*words, "--length", "4").exit_code == USAGE_ERROR


def test_an_array_of_the_shape_of_queries_gets_a_hint_to_give_those_before_the_rotation() -> None:
    """Random numbers of 2 sequences, 4 heads, 24 positions and 64 channels cannot be a table."""
    q = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    assert "give --before FILE" in pecli.verify(q, llama_of_base_10000(), atol=1e-3).reasons[-1]


def test_a_wrong_table_gets_no_hint_about_queries() -> None:
    """The table has the cosines of base 9000 instead of 10000, with axes of batch and head, as
    queries have them.
    """
    table = np.cos(np.outer(POSITIONS_0_TO_23, 9000.0 ** (-np.arange(32) / 32)))
    cos = np.tile(table, 2)[None, None].astype(np.float32)
    diagnosis = pecli.verify({"cos": cos}, llama_of_base_10000(), atol=1e-3).diagnosis

    assert "--before" not in " ".join(diagnosis)


def test_diff_names_how_far_a_cache_was_moved(run_pecli, tmp_path) -> None:
    """b.npy holds the keys of a.npy, rotated by 4 more positions. With --plot, a picture of the
    difference is drawn as well. A file does not differ from itself.
    """
    cache = rotated_by_formula(
        np.random.default_rng(1).normal(size=(1, HEADS, LENGTH, DIM)), POSITIONS_0_TO_23
    )
    np.save(tmp_path / "a.npy", cache.astype(np.float32))
    np.save(tmp_path / "b.npy", rotated_by_formula(cache, np.full(LENGTH, 4)).astype(np.float32))
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    words = ("--model", tmp_path / "config.json", "--atol", "1e-4")
    moved = run_pecli(
        "diff", tmp_path / "a.npy", tmp_path / "b.npy", *words, "--plot", "-o", tmp_path / "x.svg"
    )

    assert moved.exit_code == CHECK_FAILED
    assert "B is A, whose positions are moved by 4" in moved.out
    assert (tmp_path / "x.svg").exists()
    assert run_pecli("diff", tmp_path / "a.npy", tmp_path / "a.npy", *words).exit_code == SUCCESS


@pytest.mark.parametrize("dtype", [int, bool, np.float32, ml_dtypes.bfloat16])
def test_apply_takes_positions_from_an_attention_mask_of_any_dtype(dtype: type) -> None:
    """The mask is 1 for tokens and 0 for padding on the left: positions are its cumulative sum less
    one, at which the formula rotates the expected queries.
    """
    x = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    right = rotated_by_formula(x.astype(float), POSITIONS_BY_MASK)
    mask = LEFT_PADDED_MASK.astype(dtype)

    assert np.abs(pecli.apply(x, llama_of_base_10000(), attention_mask=mask) - right).max() < 1e-6


def test_the_command_apply_takes_positions_from_an_attention_mask(run_pecli, tmp_path) -> None:
    """`pecli apply rope --attention-mask` rotates at the cumulative sum of the mask less one, as
    the formula does in NumPy. An offset beside the mask is a usage error.
    """
    x = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    right = rotated_by_formula(x.astype(float), POSITIONS_BY_MASK)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "mask.npy", LEFT_PADDED_MASK)
    words = (
        "apply",
        "rope",
        tmp_path / "x.npy",
        "--attention-mask",
        tmp_path / "mask.npy",
        "-o",
        tmp_path / "y.npy",
    )

    assert run_pecli(*words).exit_code == SUCCESS
    assert np.abs(np.load(tmp_path / "y.npy") - right).max() < 1e-6
    assert run_pecli(*words, "--offset", "1").exit_code == USAGE_ERROR


def test_tables_repeated_for_heads_are_not_read_as_sequences() -> None:
    """The axes are (24 positions, 30 heads, 32 frequencies), and all heads have the same numbers. As
    there are more heads than positions, the table could be mistaken for 24 sequences of 30 positions,
    of which each has one position 30 times. But it only begins at position 7 instead of 0.
    """
    positions = 7 + np.arange(24)
    frequencies = 10000.0 ** (-np.arange(32) / 32)
    angles = np.outer(positions, frequencies)
    angles_by_head = np.stack([angles] * 30, axis=1)
    dump = {
        "cos": np.cos(angles_by_head).astype(np.float32),
        "sin": np.sin(angles_by_head).astype(np.float32),
    }
    diagnosis = pecli.verify(dump, llama_of_base_10000(), atol=1e-6).diagnosis

    assert diagnosis[0] == "cos, sin: positions start at 7 (the spec says 0); exact"
    assert "sequence" not in " ".join(diagnosis)


def test_tables_of_a_batch_are_found_beside_other_tensors() -> None:
    """`tables_at` has tables of two sequences, of which the second begins at position 7. «hidden»
    are activations of another length beside them.
    """
    places = np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7])
    hidden = np.random.default_rng(0).normal(size=(3, 5, 16))
    sentence, *_ = pecli.verify(
        {"hidden": hidden, **tables_at(places)}, llama_of_base_10000(), atol=1e-6
    ).diagnosis

    assert sentence.startswith("sequence 1: positions are 7 … 30; expected 0 … 23")
