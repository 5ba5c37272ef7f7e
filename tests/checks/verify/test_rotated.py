"""Queries and keys after the rotation, checked against those before it: which channels and axes,
which mistake, and passes that prove little.

Random queries are rotated here by the textbook formula in float64, (a, b) → (a cos − b sin, b cos +
a sin). SCALED are the frequencies of Llama 3.1 (128 channels, base 500000, Llama 3's scaling),
YARN40 those of DeepSeek-V3's 64 rotary channels, both by tests/tools/sweeps. An edit is a mistake
as an object.
"""

import shlex
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.edits import (
    Dtype,
    HeadsWrong,
    Layout,
    MemoryOrder,
    Parameter,
    Positions,
    Recipe,
    Rotation,
    Rows,
    RowsWrong,
    Scaled,
)
from tests.checks.waves import LLAMA3, cos_and_sin_tables, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS
from tests.tools.sweeps.tables import Waves

LLAMA_3_1_8B = "llama-3.1-8b"
RNG = np.random.default_rng(0)
SCALED = Waves(128, 5e5, {"type": "llama3", **LLAMA3}).frequencies()[0]
YARN40 = Waves(
    64, 1e4, {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
).frequencies()[0]
"""DeepSeek's 64 channels."""


def cos_and_sin_at(positions: Any, inv: np.ndarray = SCALED) -> tuple[np.ndarray, ...]:
    return tuple(cos_and_sin_tables(positions, inv, np.float64).values())


def random_queries(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def rotated_as_halves(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(np.float32)


def rotated_as_deepseek_does(x: np.ndarray, channels: slice) -> np.ndarray:
    """Interleaved pairs of some channels, written as halves."""
    out, (cos, sin) = x.copy(), cos_and_sin_at(x.shape[-2], YARN40)
    a = x[..., channels][..., 0::2].astype(np.float64)
    b = x[..., channels][..., 1::2]
    out[..., channels] = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return out


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", {"atol": 1e-6}), ("float16", {"max_ulp": 1})]
)
def test_deepseek_rotates_the_last_channels_of_a_head(
    dtype: str, tolerance: dict[str, float]
) -> None:
    """A head of DeepSeek-V3 has 192 channels, of which the last 64 are rotated: 128 to 191. Its
    code takes interleaved pairs and writes them as halves; `rotated_as_deepseek_does` is that in
    NumPy.
    """
    q = random_queries(1, 4, 32, 192).astype(dtype)
    after = rotated_as_deepseek_does(q, channels=slice(128, 192))

    assert pecli.verify(after, "deepseek-v3", before=q, **tolerance).passed


def test_the_first_channels_of_deepseek_rotated_by_mistake_are_named() -> None:
    """Of the 192 channels of a head, 0 to 63 were rotated instead of 128 to 191."""
    q = random_queries(1, 4, 32, 192)
    after = rotated_as_deepseek_does(q, channels=slice(0, 64))
    result = pecli.verify(after, "deepseek-v3", before=q, atol=1e-6)
    assert [each.edits for each in result.explanations] == [(Rotation("first channels"),)]


@pytest.mark.parametrize(
    ("model", "shape"),
    [(LLAMA_3_1_8B, (1, 2, 8, 128)), ("gpt-oss-20b", (8, 64)), ("deepseek-v3", (64, 192))],
)
def test_no_rotation_at_all_is_named(model: str, shape: tuple[int, ...]) -> None:
    """The queries after the rotation are those before it. Heads of Llama 3.1 have 128 channels, of
    gpt-oss 64, and of DeepSeek-V3 192.
    """
    q = random_queries(*shape)
    found = pecli.verify(q, model, before=q, atol=1e-3)

    assert [each.edits for each in found.explanations] == [(Rotation("none"),)]


def beside(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the columns of both arrays in one."""
    return np.concatenate([first, second], axis=-1)


A, B = np.split(random_queries(64, 128).astype(np.float64), 2, axis=-1)
RANDOM_QUERIES = beside(A, B)
"""Queries of 64 positions. A Llama rotates their halves: (a cos − b sin, b cos + a sin)."""
LLAMA_3_1_COS, LLAMA_3_1_SIN = cos_and_sin_at(64)
FIRST_HALF = A * LLAMA_3_1_COS - B * LLAMA_3_1_SIN
SECOND_HALF = B * LLAMA_3_1_COS + A * LLAMA_3_1_SIN
"""The halves of queries that are rotated as they should be."""
NEGATED_AND_SWAPPED_HALVES = beside(-B, A)
NEGATED_AND_SWAPPED_NEIGHBOURS = np.stack(
    [-RANDOM_QUERIES[:, 1::2], RANDOM_QUERIES[:, 0::2]], axis=-1
).reshape(64, 128)
"""(−x1, x0, −x3, x2, …). By either layout, the rotation is x · cos + negated and swapped · sin."""
MISTAKES_OF_ROTATION = {
    # (a cos + b sin, b cos + a sin)
    Rotation("no minus"): beside(A * LLAMA_3_1_COS + B * LLAMA_3_1_SIN, SECOND_HALF),
    # (a cos − b sin, b cos − a sin)
    Rotation("two minuses"): beside(FIRST_HALF, B * LLAMA_3_1_COS - A * LLAMA_3_1_SIN),
    # a is overwritten before b is computed of it.
    Rotation("in place"): beside(FIRST_HALF, B * LLAMA_3_1_COS + FIRST_HALF * LLAMA_3_1_SIN),
    # b is left as it was.
    Rotation("first half"): beside(FIRST_HALF, B),
    # Neighbours are rotated by cos and sin in columns c0 c1 … c0 c1 …, which belong to halves.
    Layout(expected="halves", found="interleaved, with cos and sin doubled as halves"): (
        RANDOM_QUERIES * np.tile(LLAMA_3_1_COS, 2)
        + NEGATED_AND_SWAPPED_NEIGHBOURS * np.tile(LLAMA_3_1_SIN, 2)
    ),
    # Halves are rotated by cos and sin in columns c0 c0 c1 c1 …, which belong to neighbours.
    Layout(expected="halves", found="halves, with cos and sin doubled as interleaved"): (
        RANDOM_QUERIES * np.repeat(LLAMA_3_1_COS, 2, axis=1)
        + NEGATED_AND_SWAPPED_HALVES * np.repeat(LLAMA_3_1_SIN, 2, axis=1)
    ),
    # All 64 rows are at position 777.
    Rows("constant", 777): rotated_as_halves(RANDOM_QUERIES, *cos_and_sin_at(np.full(64, 777))),
}
"""Queries of Llama 3.1 that were rotated by a wrong formula, by the object that stands for it."""


@pytest.mark.parametrize("edit", MISTAKES_OF_ROTATION, ids=str)
def test_mistakes_of_the_formula_are_named(edit: Any) -> None:
    """A Llama rotates (a, b) to (a cos − b sin, b cos + a sin). MISTAKES_OF_ROTATION has wrong formulas
    in NumPy, such as (a cos + b sin, b cos + a sin), by the mistake that verify must name.

    The mistake explains the dump to rounding in float32, less than 1e-6. `pecli apply` cannot
    rotate like that, so that no command is printed.
    """
    found = pecli.verify(
        MISTAKES_OF_ROTATION[edit].astype(np.float32),
        LLAMA_3_1_8B,
        before=RANDOM_QUERIES.astype(np.float32),
        atol=1e-3,
    )

    assert [each.edits for each in found.explanations] == [(edit,)]
    assert found.explanations[0].residual < 1e-6
    assert not any("reproduce" in line for line in found.diagnosis)


@pytest.mark.parametrize("change", ["tanh", "noise", "not a number", "infinity"])
@pytest.mark.sample(2)
def test_queries_that_no_mistake_explains_get_no_reason(change: str) -> None:
    """Queries «after» are tanh of those before, or the right rotation with noise of 0.01, or values
    that are not finite. They fail, and no guess is made.
    """
    x = RANDOM_QUERIES[:24]
    rotated = rotated_as_halves(x, LLAMA_3_1_COS[:24], LLAMA_3_1_SIN[:24])
    after = {
        "tanh": np.tanh(x),
        "noise": rotated + 0.01 * RNG.normal(size=x.shape),
        "not a number": np.full_like(x, np.nan),
        "infinity": np.full_like(x, np.inf),
    }[change]
    found = pecli.verify(
        after.astype(np.float32), LLAMA_3_1_8B, before=x.astype(np.float32), atol=1e-3
    )

    assert not found.passed
    assert not found.diagnosis


BFLOAT16 = ml_dtypes.bfloat16


def only_mistake_in(after: np.ndarray, before: np.ndarray) -> Any:
    """Return the only mistake that verify names in rotated queries of Llama 3.1, beyond 1e-3."""
    before = before.astype(after.dtype)
    (reason,) = pecli.verify(after, LLAMA_3_1_8B, before=before, atol=1e-3).explanations
    (mistake,) = reason.edits
    return mistake


@pytest.mark.thorough
def test_a_rotation_with_frequencies_rounded_to_bfloat16_is_named() -> None:
    """The queries of 600 positions are in float32, and rotated by the formula. Only the frequencies
    of Llama 3.1 (SCALED) were rounded to bfloat16 before they were multiplied with positions.
    """
    before = random_queries(1, 2, 600, 128)
    rounded_frequencies = SCALED.astype(BFLOAT16).astype(np.float64)
    after = rotated_as_halves(before, *cos_and_sin_at(600, rounded_frequencies))

    assert only_mistake_in(after, before) == Recipe("bfloat16-inv-freq")


@pytest.mark.thorough
def test_a_rotation_that_was_computed_in_bfloat16_is_named() -> None:
    """Queries of 600 positions, cosines and sines are in bfloat16, so that each product and each sum
    of the formula is rounded.
    """
    before = random_queries(1, 2, 600, 128).astype(BFLOAT16)
    a, b = np.split(before, 2, axis=-1)
    cos, sin = (table.astype(BFLOAT16) for table in cos_and_sin_at(600))
    after = beside(a * cos - b * sin, b * cos + a * sin)

    assert after.dtype == BFLOAT16
    assert only_mistake_in(after, before) == Rotation("in bfloat16")


def test_the_position_of_a_single_token_is_named() -> None:
    """Queries of one token and 4 heads are rotated by the angles of position 777 instead of 0."""
    before = random_queries(1, 4, 1, 128)
    after = rotated_as_halves(before, *cos_and_sin_at([777]))

    assert only_mistake_in(after, before) == Parameter("offset", expected=0, found=777)


def test_rotated_queries_that_were_rounded_to_bfloat16_are_named() -> None:
    """The queries are rotated in float64, rounded to bfloat16 by ml_dtypes, and dumped in
    float32.
    """
    after = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    rounded = after.astype(BFLOAT16).astype(np.float32)

    assert only_mistake_in(rounded, RANDOM_QUERIES) == Dtype("bfloat16")


def test_the_only_row_that_is_wrong_is_named() -> None:
    """Of 64 positions, row 37 is not rotated; it is only one row, so that it is named as wrong."""
    after = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    after[37] = RANDOM_QUERIES[37]

    assert only_mistake_in(after, RANDOM_QUERIES) == RowsWrong((37,))


@pytest.mark.thorough
def test_the_only_head_that_is_wrong_is_named() -> None:
    """Queries have 1 sequence, 32 heads and 64 positions. Head 5 has noise of about 0.01 per element,
    which no mistake explains; a head is named as (sequence, head).
    """
    before = random_queries(1, 32, 64, 128)
    after = rotated_as_halves(before, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    after[0, 5] += 0.01 * random_queries(64, 128)

    assert only_mistake_in(after, before) == HeadsWrong(((0, 5),))


def test_the_only_head_that_is_not_rotated_is_named() -> None:
    """Queries have 1 sequence, 8 heads and 64 positions, 0 to 63. Head 5 is as before the rotation,
    as if all its 64 tokens were at position 0.
    """
    before = random_queries(1, 8, 64, 128)
    after = rotated_as_halves(before, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    after[0, 5] = before[0, 5]

    assert only_mistake_in(after, before) == Positions("0 … 63", "0 × 64", "nothing is rotated")


def test_a_rotation_along_the_head_axis_is_named() -> None:
    """The axes of the queries are (2 sequences, 2 heads, 24 positions, 128 channels). They are
    rotated as if the 2 heads were the positions 0 and 1: along axis −3, not −2.
    """
    q = random_queries(2, 2, 24, 128)
    cos, sin = cos_and_sin_at(2)
    along_heads = rotated_as_halves(q, cos[:, None], sin[:, None])
    found = pecli.verify(along_heads, LLAMA_3_1_8B, before=q, atol=1e-3)

    assert [each.edits for each in found.explanations] == [(Parameter("position_axis", -2, -3),)]
    assert (
        "if positions are along axis 1 of (2, 2, 24, 128), verify with --seq-axis 1"
        in found.diagnosis
    )


QUERIES_OF_8_HEADS = random_queries(8, 64, 128)
"""Queries of 8 heads and 64 positions."""
ROTATED_8_HEADS = rotated_as_halves(QUERIES_OF_8_HEADS, LLAMA_3_1_COS, LLAMA_3_1_SIN)


def labelled_as_heads_first(x: np.ndarray) -> np.ndarray:
    """Return the numbers of heads (8, 64, 128) written position by position, with that shape on them."""
    return x.transpose(1, 0, 2).reshape(x.shape)


@pytest.mark.parametrize("which", ["after", "before", "both"])
def test_the_order_of_heads_and_positions_in_memory_is_named(which: str) -> None:
    """A kernel writes all heads of one position, then those of the next, and the dump is labelled
    (heads, positions, channels), which has as many numbers.
    """
    before = QUERIES_OF_8_HEADS
    after = ROTATED_8_HEADS
    if which != "after":
        before = labelled_as_heads_first(before)
    if which != "before":
        after = labelled_as_heads_first(after)
    (edit,) = edits_of_only_reason(after, before)

    assert edit == MemoryOrder(expected=(8, 64, 128), found=(64, 8, 128), which=which)


def test_the_order_in_memory_is_named_of_positions_that_come_first() -> None:
    """The dump is labelled (positions, heads, channels), and its heads come first in memory."""
    before = QUERIES_OF_8_HEADS.transpose(1, 0, 2)
    after = ROTATED_8_HEADS.reshape(before.shape)
    (edit,) = edits_of_only_reason(after, before, seq_axis=0)

    assert edit == MemoryOrder(expected=(64, 8, 128), found=(8, 64, 128))


def test_another_mistake_is_named_beside_the_order_in_memory() -> None:
    """The heads of each position come first in memory, and all queries are doubled."""
    after = labelled_as_heads_first(2 * ROTATED_8_HEADS)
    order, scale = edits_of_only_reason(after, QUERIES_OF_8_HEADS)

    assert order == MemoryOrder(expected=(8, 64, 128), found=(64, 8, 128))
    assert scale == Scaled(2.0)


def test_an_element_of_a_tensor_in_another_memory_order_is_not_named() -> None:
    """Element [3, 17, 5] of the rotated queries is wrong, and has other indices in the dump."""
    after = ROTATED_8_HEADS.copy()
    after[3, 17, 5] += 1
    result = pecli.verify(
        labelled_as_heads_first(after).astype(np.float32),
        LLAMA_3_1_8B,
        before=QUERIES_OF_8_HEADS.astype(np.float32),
        atol=1e-3,
    )

    assert result.explanations == ()


@pytest.mark.parametrize("by", [1, 20, 63])
def test_rows_that_are_moved_down_after_the_rotation_are_named(by: int) -> None:
    """Rows are rotated rightly; then all are moved down, the last ones to the top."""
    after = np.roll(ROTATED_8_HEADS, by, axis=1)
    assert edits_of_only_reason(after, QUERIES_OF_8_HEADS) == (Rows("shifted", by),)


def test_a_row_that_is_wrong_beside_moved_rows_has_its_number_in_the_dump() -> None:
    """All rows are moved down by 1, and row 30 of the dump is overwritten."""
    after = np.roll(ROTATED_8_HEADS, 1, axis=1)
    after[:, 30] *= 3
    assert edits_of_only_reason(after, QUERIES_OF_8_HEADS) == (Rows("shifted", 1), RowsWrong((30,)))


def edits_of_only_reason(after: np.ndarray, before: np.ndarray, **options: Any) -> Any:
    """Return the edits of the only explanation of wrong queries of Llama 3.1."""
    after = after.astype(np.float32)
    before = before.astype(np.float32)
    result = pecli.verify(after, LLAMA_3_1_8B, before=before, atol=1e-3, **options)
    (explanation,) = result.explanations
    return explanation.edits


def weak_remarks(before: np.ndarray, after: np.ndarray, atol: float) -> tuple[str, ...]:
    """Return the remarks on a pass that proves little, for queries of Llama 3.1."""
    before = before.astype(np.float32)
    after = after.astype(np.float32)
    result = pecli.verify(after, LLAMA_3_1_8B, before=before, atol=atol)

    assert result.passed
    return result.weak


def test_a_pass_at_position_0_is_weak() -> None:
    """At position 0, rotated queries are those before the rotation."""
    before = RANDOM_QUERIES[:1]
    after = rotated_as_halves(before, LLAMA_3_1_COS[:1], LLAMA_3_1_SIN[:1])
    (remark,) = weak_remarks(before, after, atol=1e-6)

    assert "1 row cannot detect a missing rotation" in remark


def test_a_pass_of_zeros_is_weak() -> None:
    """Zeros stay zeros, whatever the rotation is. These are 64 positions of 128 channels, and so 64
    rows.
    """
    zeros = np.zeros((64, 128))
    (remark,) = weak_remarks(before=zeros, after=zeros, atol=1e-6)

    assert "64 rows cannot detect a missing rotation" in remark


def test_a_pass_without_the_scaling_of_the_model_is_weak() -> None:
    """Three rows are rotated by base 500000 without Llama 3.1's scaling, which changes them by less
    than the tolerance of 1e-2.
    """
    before = RANDOM_QUERIES[:3]
    unscaled = cos_and_sin_at(3, inverse_frequencies(5e5, 128))
    remarks = weak_remarks(before, rotated_as_halves(before, *unscaled), atol=1e-2)

    assert "whether the llama3 scaling is missing" in " ".join(remarks)


def test_a_pass_of_64_rows_within_a_thousandth_is_not_weak() -> None:
    """Any mistake that is known, in 64 positions, changes some element by more than 1e-3."""
    after = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    assert weak_remarks(RANDOM_QUERIES, after, atol=1e-3) == ()


def test_queries_are_compared_with_the_layers_whose_heads_have_their_size() -> None:
    """By the published config, heads of Gemma 4's sliding layers have 256 channels, and those of
    full attention 512. The queries have 256, and are rotated as in sliding attention.
    """
    q = random_queries(1, 4, 6, 256)
    after = pecli.apply(q, "gemma-4-e2b", layer_type="sliding_attention")

    assert pecli.verify(after, "gemma-4-e2b", before=q)


def test_positions_are_on_the_axis_beside_that_of_the_models_heads_or_where_it_is_stated() -> None:
    """Llama 3.1 has 32 heads, so that of the axes (2, 24, 32, 128) that of 32 is taken for heads,
    and 24 are positions. Of (2, 24, 4, 128), 4 are taken for positions, unless the axis is given,
    as 1 or −3.
    """
    q = random_queries(2, 24, 32, 128)
    cos, sin = cos_and_sin_at(24)
    after = rotated_as_halves(q, cos[:, None], sin[:, None])

    assert pecli.verify(after, LLAMA_3_1_8B, before=q, atol=1e-5).passed

    few = {"before": q[:, :, :4], "atol": 1e-5}
    assert not pecli.verify(after[:, :, :4], LLAMA_3_1_8B, **few, reasons=False).passed
    for axis in (1, -3):
        assert pecli.verify(after[:, :, :4], LLAMA_3_1_8B, seq_axis=axis, **few).passed


SHAPED = [("qwen3-8b", (1, 8, 32, 128), 1e6), ("mistral-7b-v0.1", (1, 8, 32, 128), 1e4)]
SHAPED += [("gemma-2-2b", (1, 4, 8, 256), 1e4)]


@pytest.mark.parametrize(("model", "shape", "base"), SHAPED)
def test_keys_with_as_many_positions_as_query_heads_pass(
    model: str, shape: tuple[int, ...], base: float
) -> None:
    """Both models have 8 heads of keys and 32 of queries, and these keys 32 positions: as many as
    there are heads of queries. The axis of positions is the second to last, as usual.
    """
    keys = random_queries(*shape)
    after = rotated_as_halves(keys, *cos_and_sin_at(shape[2], inverse_frequencies(base, shape[3])))

    assert pecli.verify(after, model, before=keys, atol=1e-5).passed


def test_queries_rotated_along_their_heads_fail_with_the_axis_named() -> None:
    """The axes are (1, 4, 32, 128). 32 is the number of Llama 3.1's heads, so that 4 are positions;
    the queries are rotated as if it were the other way round. If it is, --seq-axis 2 makes them
    pass.
    """
    q = random_queries(1, 4, 32, 128)
    along_heads = rotated_as_halves(q, *cos_and_sin_at(32))
    found = pecli.verify(along_heads, LLAMA_3_1_8B, before=q, atol=1e-5)

    assert not found.passed
    assert found.diagnosis[0].startswith("after: positions are along axis -2, not -3; ")
    assert "verify with --seq-axis 2" in found.diagnosis[1]
    assert pecli.verify(along_heads, LLAMA_3_1_8B, before=q, seq_axis=2, atol=1e-5).passed


def test_queries_rotated_along_their_heads_from_position_1_are_named() -> None:
    """Queries of shape (1, 4, 32, 128) are read as 1 sequence, 4 positions, 32 heads (those of Llama
    3.1) and 128 channels, so that positions are on axis −3. There are two mistakes: the queries are
    rotated along axis −2, and by the angles of positions 1 to 32 instead of 0 to 31.

    Axis −2 of four is axis 2, for --seq-axis.
    """
    q = random_queries(1, 4, 32, 128)
    cos, sin = cos_and_sin_at(np.arange(1, 33))
    along_axis_2 = rotated_as_halves(q, cos, sin)
    reason, advice = pecli.verify(along_axis_2, LLAMA_3_1_8B, before=q, atol=1e-5).diagnosis

    both = "positions are along axis -2, not -3, and positions start at 1 (the spec says 0)"
    assert both in reason
    assert "verify with --seq-axis 2" in advice


def test_rounding_is_not_explained_as_another_axis() -> None:
    """Queries (1, 24 positions, 32 heads, 128) were rotated in float64. Compared bit for bit with a
    rotation whose angles are float32 (recipe="float32"), they fail by rounding errors only, below
    1e-5. These are no reason to suppose that positions are along the axis of heads.
    """
    q = random_queries(1, 24, 32, 128)
    cos, sin = cos_and_sin_at(24)
    after = rotated_as_halves(q, cos[:, None], sin[:, None])
    result = pecli.verify(after, LLAMA_3_1_8B, before=q, recipe="float32")

    assert not result.passed
    assert 0 < result.tensors[0].max_abs_error < 1e-5
    assert result.diagnosis == ()


def test_tensors_of_the_same_name_are_compared_in_a_manifest(run_pecli, tmp_path) -> None:
    """A manifest is a list of checks in a .toml file. q is rotated, and k is not: the check of both
    fails, for k.
    """
    before = {"q": random_queries(1, 4, 24, 128), "k": random_queries(1, 2, 24, 128)}
    rotation = cos_and_sin_at(24)
    np.savez(tmp_path / "before.npz", **before)
    np.savez(tmp_path / "after.npz", q=rotated_as_halves(before["q"], *rotation), k=before["k"])
    (tmp_path / "pecli.toml").write_text(
        '[[check]]\nfile = "after.npz"\nbefore = "before.npz"\nmodel = "llama-3.1-8b"\natol = 1e-5\nseq_axis = 2\n'
    )
    found = run_pecli("verify", tmp_path / "pecli.toml")

    assert found.exit_code == CHECK_FAILED
    assert "k: nothing is rotated" in found.out
    assert "q: " not in found.out


def test_files_whose_tensors_have_other_names_are_refused(run_pecli, tmp_path) -> None:
    """In `pecli verify after.npz --before other.npz`, after.npz has q and k, and other.npz
    q and v.
    """
    x = random_queries(1, 4, 24, 128)
    np.savez(tmp_path / "after.npz", q=x, k=x)
    np.savez(tmp_path / "other.npz", q=x, v=x)
    missing = run_pecli(
        "verify",
        tmp_path / "after.npz",
        "--before",
        tmp_path / "other.npz",
        "--model",
        LLAMA_3_1_8B,
    )

    assert missing.exit_code == FILE_ERROR
    assert "the names must agree" in missing.err


def rotated_as_neighbours(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Rotate the channels (2i, 2i + 1), which stay where they are."""
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


def test_the_printed_command_rotates_as_the_file_was(run_pecli, tmp_path, monkeypatch) -> None:
    """The queries are DeepSeek's, with two mistakes: they are rotated from position 5 on, and the
    pairs of channels 128 to 191 stay interleaved, which DeepSeek writes as halves. The command that
    is printed, `pecli apply … -o again.npy`, makes the same as the formula, within 1e-6.
    """
    monkeypatch.chdir(tmp_path)  # A command with a long path would not be printed.
    q = random_queries(48, 192)
    cos, sin = cos_and_sin_at(np.arange(5, 5 + 48), YARN40)
    wrong = q.astype(np.float64)
    wrong[:, 128:] = rotated_as_neighbours(wrong[:, 128:], cos, sin)
    np.save("q.npy", q)
    np.save("after.npy", wrong.astype(np.float32))
    options = ("--before", "q.npy", "--model", "deepseek-v3", "--atol", "1e-5", "--json")
    diagnosis = run_pecli("verify", "after.npy", *options).json["diagnosis"]
    (command,) = [line for line in diagnosis if line.startswith("reproduce with pecli ")]
    words = shlex.split(command.removeprefix("reproduce with pecli "))

    assert words[-2:] == ["-o", "again.npy"]
    assert run_pecli(*words).exit_code == SUCCESS
    assert np.abs(np.load("again.npy") - wrong).max() < 1e-6


def test_the_printed_command_names_the_model_and_runs(run_pecli, tmp_path, monkeypatch) -> None:
    """GPT-J rotates interleaved pairs of 64 channels; the file after.npy was rotated as halves. The
    printed command makes this file again.
    """
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32))

    assert (
        run_pecli(
            "apply", "rope", "q.npy", "--model", "gpt-j-6b", "--layout", "halves", "-o", "after.npy"
        ).exit_code
        == SUCCESS
    )

    result = pecli.verify("after.npy", "gpt-j-6b", before="q.npy", atol=1e-4)
    command = result.diagnosis[-1].removeprefix("reproduce with pecli ")
    assert command == "apply rope q.npy --model gpt-j-6b --layout halves -o again.npy"
    assert run_pecli(*command.split()).exit_code == SUCCESS
    assert np.array_equal(np.load("again.npy"), np.load("after.npy"))


def test_a_tensor_that_is_missing_after_the_rotation_is_listed_as_unchecked() -> None:
    """There are q and k before the rotation, and only q after it."""
    q = random_queries(2, 24, 128)
    assert pecli.verify(
        {"q": rotated_as_halves(q, *cos_and_sin_at(24))},
        LLAMA_3_1_8B,
        before={"q": q, "k": q},
        atol=1e-5,
    ).unchecked == ("k",)
