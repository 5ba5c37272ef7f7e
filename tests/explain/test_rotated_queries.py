"""Queries and keys that are rotated wrongly: verify names the mistake.

Random queries (8 heads, 64 positions, 64 channels) are rotated here by formulas in plain NumPy,
with a mistake in the formula; the model is a Llama with base 10000, which rotates (a, b) to (a cos
− b sin, b cos + a sin) with a and b half a head apart. An edit is a mistake as an object:
Parameter("base", expected, found), Positions(expected, found, reason), RowsZero(rows), ….
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.edits import (
    Dtype,
    Edit,
    ElementsWrong,
    FixedPoint,
    HeadsWrong,
    Layout,
    Negated,
    Parameter,
    Positions,
    Recipe,
    Rotation,
    Rows,
    RowsWrong,
    RowsZero,
    Scaled,
    Swapped,
)

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
HEADS, LENGTH, DIM = 8, 64, 64
CONFIG = {
    "model_type": "llama",
    "hidden_size": HEADS * DIM,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": DIM,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
QWEN2 = {
    **CONFIG,
    "model_type": "qwen2_vl",
    "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]},
}
RNG = np.random.default_rng(7)
QUERIES = RNG.normal(size=(1, HEADS, LENGTH, DIM)).astype(np.float32)
ROW_NUMBERS = np.arange(LENGTH)


def frequencies(dim: int = DIM, base: float = 1e4) -> Array:
    return np.asarray(base ** (-np.arange(dim // 2) / (dim // 2)))


def angles_at(places: Any = ROW_NUMBERS, base: float = 1e4) -> Array:
    return np.multiply.outer(np.asarray(places, float), frequencies(base=base))


def rotated_in_layouts(
    x: Array, phases: Array, takes: str = "halves", gives: str = "halves"
) -> Array:
    """Rotate pairs of one layout, and write them in another one."""
    x = x.astype(np.float64)
    a, b = np.split(x, 2, axis=-1) if takes == "halves" else (x[..., ::2], x[..., 1::2])
    cos, sin = np.cos(phases), np.sin(phases)
    pair = (a * cos - b * sin, b * cos + a * sin)
    if gives == "halves":
        return np.concatenate(pair, axis=-1)
    return np.stack(pair, axis=-1).reshape(x.shape)


def in_steps(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate halves in the dtype of the arrays, each product and sum of it rounded."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def edits_found_in(
    after: Array, before: Array = QUERIES, model: Any = CONFIG, **options: Any
) -> list[Any]:
    """Return the edits of each explanation; float64 values are stored in float32."""
    if after.dtype == np.float64:
        after = after.astype(np.float32)
    result = pecli.verify(after, model, before=before, **{"atol": 1e-4, **options})
    assert not result.passed
    return [explanation.edits for explanation in result.explanations]


TOLERANCES: dict[Any, float] = {np.float32: 1e-4, BF16: 0.08}
"""In bfloat16, values differ by three roundings of a pair: up to 0.08."""


def mistakes_found_in(after: Array, dtype: type) -> list[Any]:
    """Return the edits of each explanation of rotated queries; all arrays are stored in a dtype."""
    return edits_found_in(after.astype(dtype), QUERIES.astype(dtype), atol=TOLERANCES[dtype])


A, B = np.split(QUERIES.astype(np.float64), 2, axis=-1)
COS, SIN = np.cos(angles_at()), np.sin(angles_at())
RIGHT_FIRST = A * COS - B * SIN
RIGHT_SECOND = B * COS + A * SIN
WRONG_FORMULAS: dict[Edit, tuple[Array, Array]] = {
    Rotation("none"): (A, B),
    Negated("sin"): (A * COS + B * SIN, B * COS - A * SIN),
    Swapped(): (A * SIN - B * COS, B * SIN + A * COS),
    Rotation("no minus"): (A * COS + B * SIN, RIGHT_SECOND),
    Rotation("two minuses"): (RIGHT_FIRST, B * COS - A * SIN),
    Rotation("in place"): (RIGHT_FIRST, B * COS + RIGHT_FIRST * SIN),
    Rotation("first half"): (RIGHT_FIRST, B),
    Rotation("second half"): (A, RIGHT_SECOND),
}
"""Mistakes, and the two halves of a rotated head.

A and B are the halves before the rotation. RIGHT_FIRST = A cos − B sin and RIGHT_SECOND = B cos +
A sin are those after a right one. «In place» has overwritten A before it computes the second half.
"""


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize(("edit", "halves"), WRONG_FORMULAS.items(), ids=map(str, WRONG_FORMULAS))
@pytest.mark.sample(7)
def test_a_mistake_in_the_formula_of_a_rotation_is_named(
    edit: Edit, halves: tuple[Array, Array], dtype: type
) -> None:
    """NumPy computes the halves of all heads by a wrong formula. The only explanation is its mistake."""
    after = np.concatenate(halves, axis=-1)
    assert mistakes_found_in(after, dtype) == [(edit,)]


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize(
    ("takes", "gives", "layout"),
    [
        ("interleaved", "interleaved", "interleaved"),
        ("interleaved", "halves", "interleaved before, halves after"),
        ("halves", "interleaved", "halves before, interleaved after"),
    ],
)
@pytest.mark.sample(3)
def test_other_pairs_of_channels_that_rotate_are_named(
    takes: str, gives: str, layout: str, dtype: type
) -> None:
    """The model rotates pairs half a head apart (halves). NumPy takes neighbours instead (interleaved),
    or writes the pairs so, or both.
    """
    after = rotated_in_layouts(QUERIES, angles_at(), takes, gives)
    assert mistakes_found_in(after, dtype) == [(Layout("halves", layout),)]


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize(
    ("edit", "angles"),
    [
        pytest.param(Parameter("base", 1e4, 3000.0), angles_at(base=3000.0), id="base 3000"),
        pytest.param(Parameter("offset", 0, 5), angles_at(ROW_NUMBERS + 5), id="from 5 on"),
        pytest.param(Rows("constant", 3), angles_at(np.full(LENGTH, 3)), id="all at 3"),
    ],
)
@pytest.mark.sample(3)
def test_a_mistake_in_the_angles_of_a_rotation_is_named(
    edit: Edit, angles: Array, dtype: type
) -> None:
    """NumPy rotates by angles position · base^(-2i/64) of another base, or at other positions, than
    base 10000 and the positions 0 … 63.
    """
    after = rotated_in_layouts(QUERIES, angles)
    assert mistakes_found_in(after, dtype) == [(edit,)]


@pytest.mark.parametrize("factor", [0.125, -1.0])
def test_a_factor_of_rotated_queries_is_named(factor: float) -> None:
    """The queries are rotated rightly, and then all of them are multiplied by the factor."""
    after = factor * rotated_in_layouts(QUERIES, angles_at())
    assert mistakes_found_in(after, np.float32) == [(Scaled(factor),)]


def test_doubled_queries_of_which_half_the_channels_rotate_are_named() -> None:
    """Phi rotates the first half of a head's channels. After a right rotation all channels are doubled,
    also those of the second half, on which an attention factor would have no effect.
    """
    phi = {**CONFIG, "model_type": "phi", "partial_rotary_factor": 0.5}
    angles = np.multiply.outer(ROW_NUMBERS, frequencies(DIM // 2))
    rotated = rotated_in_layouts(QUERIES[..., : DIM // 2], angles)
    after = 2 * np.concatenate([rotated, QUERIES[..., DIM // 2 :]], axis=-1)

    assert edits_found_in(after, model=phi) == [(Scaled(2.0),)]


DEEPSEEK = RNG.normal(size=(1, 4, 32, 192)).astype(np.float32)
LAST = slice(128, 192)
BOTH_INTERLEAVED = Layout("interleaved before, halves after", "interleaved")
BOTH_HALVES = Layout("interleaved before, halves after", "halves")


def rotated_as_deepseek_does(
    channels: slice, takes: str = "interleaved", gives: str = "halves", first: int = 0
) -> Array:
    """Rotate some channels as DeepSeek-V3 rotates the last 64."""
    after = DEEPSEEK.astype(np.float64)
    phases = np.multiply.outer(np.arange(first, first + 32.0), deepseek_frequencies())
    after[..., channels] = rotated_in_layouts(DEEPSEEK[..., channels], phases, takes, gives)
    return after


def deepseek_frequencies() -> Array:
    """YaRN's ramp of DeepSeek-V3: factor 40, 4,096 positions, beta_fast 32 and beta_slow 1."""
    plain = frequencies(64)
    low, high = (32 * np.log(4096 / (beta * 2 * np.pi)) / np.log(1e4) for beta in (32, 1))
    ramp = np.clip((np.arange(32) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    return np.asarray(plain / 40 * ramp + plain * (1 - ramp))


@pytest.mark.parametrize(
    ("after", "edits"),
    [
        (rotated_as_deepseek_does(slice(0, 64)), (Rotation("first channels"),)),
        (
            rotated_as_deepseek_does(slice(0, 64), gives="interleaved"),
            (BOTH_INTERLEAVED, Rotation("first channels")),
        ),
        (
            rotated_as_deepseek_does(slice(0, 64), takes="halves"),
            (BOTH_HALVES, Rotation("first channels")),
        ),
        (
            rotated_as_deepseek_does(slice(0, 64), first=3),
            (Parameter("offset", 0, 3), Rotation("first channels")),
        ),
        (rotated_as_deepseek_does(LAST, gives="interleaved"), (BOTH_INTERLEAVED,)),
    ],
    ids=["channels", "and interleaved", "and halves", "and an offset", "interleaved only"],
)
@pytest.mark.sample("channels", "interleaved only")
def test_wrong_channels_and_another_mistake_are_two(after: Array, edits: tuple[Edit]) -> None:
    """DeepSeek-V3 rotates the last 64 of 192 channels, from position 0 on; it takes interleaved pairs
    and writes them as halves. Here the first 64 are rotated, or pairs are taken or written in
    another layout, or positions start at 3; `edits` has one edit for each of these mistakes.
    """
    assert edits_found_in(after, DEEPSEEK, "deepseek-v3", atol=1e-5) == [edits]


def test_two_heads_of_one_token_show_two_mistakes() -> None:
    """A token at position 9 is rotated by −9, and in interleaved pairs instead of halves. Some rotation
    leads from one head to any other numbers, but from two heads only if both are rotated alike.
    """
    config = {
        **CONFIG,
        "hidden_size": 2 * DIM,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    before = QUERIES[:, :2, :1]
    after = rotated_in_layouts(before, -angles_at([9]), "interleaved", "interleaved")
    result = pecli.verify(np.float32(after), config, before=before, offset=9, atol=1e-4)
    (reason,) = result.diagnosis

    assert "sin is negated" in reason
    assert "layout is interleaved (the spec says halves)" in reason


@pytest.mark.parametrize("rows", [range(54, 64), range(5), [63], range(16, 64)])
def test_rows_of_zeros_are_named(rows: Any) -> None:
    """Queries of 64 rows are rotated rightly; then some rows are set to zero, as if a kernel had not
    written them.
    """
    after = rotated_in_layouts(QUERIES, angles_at())
    after[..., list(rows), :] = 0

    assert edits_found_in(after) == [(RowsZero(tuple(rows)),)]


@pytest.mark.parametrize(
    ("length", "row"),
    [(2, 1), (2, 0), (3, 1)],
    ids=["the second of two", "the first of two", "the second of three"],
)
def test_a_row_of_zeros_among_two_or_three_is_named(length: int, row: int) -> None:
    """Queries of two or three rows are rotated rightly; then one row is set to zero. So few rows
    could be explained by other positions as well.
    """
    before = QUERIES[..., :length, :]
    after = rotated_in_layouts(before, angles_at(ROW_NUMBERS[:length]))
    after[..., row, :] = 0

    assert edits_found_in(after, before) == [(RowsZero((row,)),)]


@pytest.mark.thorough  # The search takes most of its 2 s.
def test_zeros_and_another_mistake_are_two() -> None:
    """The queries are rotated from position 2 on instead of 0, and the last 14 of 64 rows are
    zeros.
    """
    after = rotated_in_layouts(QUERIES, angles_at(ROW_NUMBERS + 2))
    after[..., 50:, :] = 0

    assert edits_found_in(after) == [(Parameter("offset", 0, 2), RowsZero(tuple(range(50, 64))))]


@pytest.mark.parametrize("sigma", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("atol", [1e-4, 1e-3])
@pytest.mark.sample(2)
def test_noise_is_not_called_a_rotation(sigma: float, atol: float) -> None:
    """The queries are not rotated, but have normal noise of `sigma`, and `shift=0` expects them
    unchanged: they fail in the tolerance, without any explanation.
    """
    noisy = QUERIES + sigma * RNG.normal(size=QUERIES.shape)
    assert edits_found_in(noisy, shift=0, atol=atol) == []


def test_a_cache_in_steps_of_one_size_is_called_rounded_and_not_rotated() -> None:
    """`shift=0` expects a cache of vectors that was moved by 0 positions, which rotates nothing. The
    vectors were rounded to multiples of their largest number / 127, as int8 does.
    """
    step = np.abs(QUERIES).max() / 127
    rounded = np.rint(QUERIES / step) * step
    ((edit,),) = edits_found_in(rounded, shift=0)

    assert isinstance(edit, FixedPoint)
    assert edit.step == pytest.approx(step, rel=1e-6)


def test_a_cache_in_steps_of_another_size_per_row_is_not_called_rotated() -> None:
    """`shift=0` expects a cache of vectors that was moved by 0 positions, which rotates nothing. Each
    row was rounded to multiples of its own largest number / 127; there is no step that explains all
    rows, and no rotation either.
    """
    steps = np.abs(QUERIES).max(axis=-1, keepdims=True) / 127
    rounded = np.rint(QUERIES / steps) * steps

    assert edits_found_in(rounded, shift=0) == []


NARROW_X = RNG.normal(size=(1, 4, 256, DIM)).astype(np.float32)


@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("length", [64, 256])
@pytest.mark.sample(2)
def test_a_rotation_by_tables_in_16_bits_is_named_as_that_recipe(dtype: type, length: int) -> None:
    """Cosines and sines are rounded to 16 bits, and the rotation by them is in float32, all by NumPy:
    the recipe bfloat16-table or float16-table.
    """
    before = NARROW_X[..., :length, :]
    angles = angles_at(np.arange(length)).astype(np.float32)
    cos = np.cos(angles).astype(dtype).astype(np.float32)
    sin = np.sin(angles).astype(dtype).astype(np.float32)
    after = in_steps(before, cos, sin)
    recipe = f"{np.dtype(dtype).name}-table"

    assert edits_found_in(after, before, atol=2e-4) == [(Recipe(recipe),)]


@pytest.mark.parametrize(
    ("dtype", "recipe"), [(BF16, "bfloat16-autocast"), (np.float16, "float16-all")]
)
@pytest.mark.parametrize("atol", [1e-3, 1e-2])
@pytest.mark.sample(1)
def test_a_rotation_in_16_bits_throughout_is_named(dtype: type, recipe: str, atol: float) -> None:
    """NumPy rounds positions, frequencies, cosines, sines, and every product and sum to 16 bits. The
    explanation has two parts. The recipe is how such a table is computed: bfloat16-autocast and
    float16-all both round positions, frequencies and angles, each to its dtype. The other part is
    that the rotation by the table is in 16 bits.
    """
    before = NARROW_X.astype(dtype)
    inv_freq = frequencies().astype(np.float32).astype(dtype)
    angles = (np.arange(256).astype(dtype)[:, None] * inv_freq).astype(np.float32)
    after = in_steps(before, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype))
    (edits,) = edits_found_in(after, before, atol=atol)

    assert set(edits) == {Recipe(recipe), Rotation(f"in {np.dtype(dtype).name}")}


def test_frequencies_and_tables_in_bfloat16_are_the_recipe_of_a_module() -> None:
    """`module.to(torch.bfloat16)` rounds inv_freq and the tables to bfloat16, and leaves angles in
    float32; NumPy does the same here. `verify` names this recipe, bfloat16-module.
    """
    inv_freq = frequencies().astype(BF16).astype(np.float32)
    angles = np.outer(np.arange(256), inv_freq).astype(np.float32)
    cos = np.cos(angles).astype(BF16).astype(np.float32)
    sin = np.sin(angles).astype(BF16).astype(np.float32)
    after = in_steps(NARROW_X, cos, sin)

    assert edits_found_in(after, NARROW_X, atol=1e-3) == [(Recipe("bfloat16-module"),)]


IMAGE = np.stack([np.full(24, 5), 5 + np.arange(24) // 6, 5 + np.arange(24) % 6])


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("sections", [(16, 8, 8), (12, 12, 8), (8, 8, 16), (4, 14, 14)])
@pytest.mark.sample(3)
def test_other_sections_of_mrope_are_named(sections: tuple[int, ...], dtype: type) -> None:
    """The model has M-RoPE sections of 8, 12 and 12 pairs for time, row and column. NumPy rotates
    with `sections` instead, at the positions (t, h, w) of an image of 4 × 6 tokens (IMAGE).
    """
    before = QUERIES[..., :24, :].astype(dtype)
    axis_of_pair = np.repeat(range(3), sections)
    angles = IMAGE[axis_of_pair].T * frequencies()
    after = rotated_in_layouts(before, angles).astype(dtype)
    found = ",".join(map(str, sections))
    atol = 0.05 if dtype == BF16 else 1e-4

    assert edits_found_in(after, before, QWEN2, positions=IMAGE, atol=atol) == [
        (Parameter("mrope_section", "8,12,12", found),)
    ]


TEXT_AND_IMAGE = np.concatenate([np.tile(np.arange(57), (3, 1)), 52 + IMAGE[:, :7]], axis=1)
"""Positions (t, h, w) of 57 tokens of text, 0 … 56 on all axes, and of 7 patches of an image."""


def rotated_1000_too_far(error_of_angles: float) -> Array:
    """Rotate queries at TEXT_AND_IMAGE + 1000 by M-RoPE, with normal errors of all angles (radians)."""
    axis_of_pair = np.repeat(range(3), (8, 12, 12))
    angles = (TEXT_AND_IMAGE[axis_of_pair].T + 1000) * frequencies()
    errors = np.random.default_rng(0).normal(scale=error_of_angles, size=angles.shape)
    return rotated_in_layouts(QUERIES, angles + errors)


def test_positions_of_mrope_that_are_too_far_on_all_axes_are_named() -> None:
    """NumPy rotates text and a part of an image 1000 positions too far along time, row and column."""
    after = rotated_1000_too_far(error_of_angles=0.0)
    ((edit,),) = edits_found_in(after, model=QWEN2, positions=TEXT_AND_IMAGE)

    assert edit.reason == "all 1,000 too far"


@pytest.mark.thorough
def test_queries_of_mrope_whose_axes_show_no_position_have_no_reason() -> None:
    """The positions of each axis are measured by its own pairs, 8 or 12 of 32. With errors of 0.02
    radians in every angle these agree on no position in any row, so nothing is claimed.
    """
    after = rotated_1000_too_far(error_of_angles=0.02)
    assert edits_found_in(after, model=QWEN2, positions=TEXT_AND_IMAGE) == []


@pytest.mark.parametrize(
    ("used", "reason"),
    [(0, "it was not moved"), (10, "it was moved twice"), (3, "it was moved by 3, not 5")],
)
def test_how_far_a_cache_of_mrope_was_moved_is_named(used: int, reason: str) -> None:
    """All 64 cached keys were to be moved by 5 positions (shift=5), and NumPy moved them by `used`:
    the positions are 5 × 64 (64 times a 5), and `used` × 64 were found.
    """
    after = rotated_in_layouts(QUERIES, angles_at(np.full(LENGTH, used)))
    ((edit,),) = edits_found_in(after, model=QWEN2, shift=5)

    assert edit == Positions("5 × 64", f"{used} × 64", reason)


def test_text_positions_of_an_image_are_named() -> None:
    """The expected positions (t, h, w) are those of an image of 4 × 6 tokens (IMAGE). The queries are
    rotated as text is: time, row and column of every token are its number, 0 to 23.
    """
    before = QUERIES[..., :24, :]
    after = rotated_in_layouts(before, angles_at(np.arange(24)))
    ((edit,),) = edits_found_in(after, before, QWEN2, positions=IMAGE)

    assert edit.found == "0 … 23"
    assert edit.reason == "1-D positions are given to M-RoPE"


def test_padding_of_noise_is_listed_at_its_expected_positions() -> None:
    """The mask states six tokens of padding and 58 others, which it expects at 0 and at 0 … 57. They
    are rotated at 6 … 63, as if padding were tokens, and the padding holds noise, of which no
    position can be measured: the report gives it the expected one, «0 × 6» (six times 0).
    """
    mask = (ROW_NUMBERS >= 6).astype(int)[None]
    after = rotated_in_layouts(QUERIES, angles_at())
    padding = after[..., :6, :]
    padding[:] = 9 * np.random.default_rng(3).normal(size=padding.shape)
    ((edit,),) = edits_found_in(after, attention_mask=mask)

    assert edit == Positions("0 × 6, then 0 … 57", "0 × 6, then 6 … 63", "left padding is ignored")


@pytest.mark.parametrize(("row", "position"), [(40, 0), (40, 5), (63, 0)])
@pytest.mark.parametrize("options", [{}, {"positions": ROW_NUMBERS}], ids=["", "stated"])
def test_decoding_that_stays_at_one_position_is_named(
    row: int, position: int, options: dict[str, Any]
) -> None:
    """A decoder that never advances its position: from `row` on, every new token is rotated at the
    same one. The expected positions 0 … 63 are the default, and may also be given.
    """
    used = np.where(row <= ROW_NUMBERS, position, ROW_NUMBERS)
    after = rotated_in_layouts(QUERIES, angles_at(used))
    ((edit,),) = edits_found_in(after, **options)

    assert edit.reason == f"from row {row} on, every row is at position {position}"


def test_one_position_is_named_although_few_rows_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All 6000 tokens were rotated at position 7. Of tensors of more than 2^21 numbers only some
    rows are measured; the limit is set to 0 here, since such tensors take a second.
    """
    monkeypatch.setattr("pecli.explain.observations.LOCATED_ELEMENTS", 0)
    before = np.random.default_rng(0).normal(size=(1, 1, 6000, DIM)).astype(np.float32)
    after = rotated_in_layouts(before, angles_at(np.full(6000, 7)))
    ((edit,),) = edits_found_in(after, before, positions=np.arange(6000))

    assert edit == Positions("0 … 5,999", "7 × 6,000", "every row is at one position")


def damaged(*places: Any) -> Array:
    after = rotated_in_layouts(QUERIES, angles_at())
    after[places] += 3.0
    return after


@pytest.mark.parametrize(
    ("after", "edit"),
    [
        (damaged(0, 2, 7, 9), ElementsWrong(((0, 2, 7, 9),))),
        (damaged(slice(None), slice(None), 37), RowsWrong((37,))),
        (damaged(0, 5), HeadsWrong(((0, 5),))),
    ],
    ids=["an element", "a row", "a head"],
)
def test_a_damaged_part_is_named(after: Array, edit: Edit) -> None:
    """`damaged(sequence, head, row, channel)` is the right rotation of the queries with 3 added
    there: to one element, to row 37 of all heads, or to head 5. `edit` has the same indices.
    """
    assert edits_found_in(after) == [(edit,)]


def test_values_that_were_only_rounded_are_named_as_such() -> None:
    """The queries are rotated rightly, then rounded to bfloat16, and compared within 1e-4."""
    rounded = rotated_in_layouts(QUERIES, angles_at()).astype(BF16).astype(np.float32)
    assert edits_found_in(rounded) == [(Dtype("bfloat16"),)]


FAR = 70_000
"""A position at which the angles of float32 are off by up to 0.004, so that cosines are as well."""


def inv_freq_of_torch() -> Array:
    """Return 1 / base**(2i/d) as transformers computes it: the power in float32, then its reciprocal."""
    powers = (1e4 ** (np.arange(DIM // 2) / (DIM // 2))).astype(np.float32)
    return np.float32(1) / powers


def rotated_in_float32(
    first_position: int, inv_freq: Array | None = None, queries: Array = QUERIES
) -> Array:
    """Rotate queries from a position on, with every number in float32."""
    if inv_freq is None:
        inv_freq = inv_freq_of_torch()
    places = (first_position + ROW_NUMBERS).astype(np.float32)
    angles = places[:, None] * inv_freq  # (rows, pairs) in float32
    cos, sin = (function(angles.astype(float)).astype(np.float32) for function in (np.cos, np.sin))
    return in_steps(queries.astype(np.float32), cos, sin)


@pytest.mark.parametrize(
    "options", [{"offset": FAR}, {"positions": FAR + ROW_NUMBERS}], ids=["offset", "stated"]
)
def test_queries_that_float32_explains_are_named_as_such(options: dict[str, Any]) -> None:
    after = rotated_in_float32(FAR)
    result = pecli.verify(after, CONFIG, before=QUERIES, atol=1e-4, **options)

    assert not result.passed
    assert [explanation.edits for explanation in result.explanations] == [(Recipe("float32"),)]
    assert result.reasons[1:] == ("verify with --recipe float32",)
    assert pecli.verify(
        after, CONFIG, before=QUERIES, atol=1e-4, recipe="float32", **options
    ).passed


def test_float32_is_named_near_position_0_if_no_tolerance_allows_it() -> None:
    """The angles of positions up to 63 are off by up to 2e-6 in float32, and the products by 5e-7."""
    after = rotated_in_float32(0)
    result = pecli.verify(after, CONFIG, before=QUERIES, atol=0)

    assert result.reasons[1:] == ("verify with --recipe float32 --atol 1e-6",)
    assert pecli.verify(after, CONFIG, before=QUERIES, atol=1e-6, recipe="float32").passed


def test_queries_in_bfloat16_do_not_show_tables_in_bfloat16() -> None:
    """The angles are in float32, and only the result is rounded to bfloat16."""
    before = QUERIES.astype(BF16)
    after = rotated_in_float32(FAR, queries=before).astype(BF16)

    assert edits_found_in(after, before, offset=FAR, atol=1e-3) == [(Recipe("float32"),)]


def test_float32_is_not_claimed_of_other_frequencies_than_those_of_the_recipe() -> None:
    """The frequencies are computed in float64 and rounded once, as some ports in C++ do. Such angles
    are within the errors of float32 arithmetic, but `--recipe float32` does not make them.
    """
    after = rotated_in_float32(FAR, frequencies().astype(np.float32))

    assert edits_found_in(after, offset=FAR) == []


def test_a_mistake_beside_float32_is_named_alone() -> None:
    """All queries are rotated one position too far, in float32."""
    after = rotated_in_float32(FAR + 1)

    assert edits_found_in(after, offset=FAR) == [(Parameter("offset", FAR, FAR + 1),)]


def test_float32_is_not_claimed_of_a_shift_since_verify_computes_it_exactly() -> None:
    """Keys of a cache are moved by 70,000 positions: every row is turned by the angles of that."""
    angles = np.float32(FAR) * inv_freq_of_torch()
    after = rotated_in_layouts(QUERIES, angles).astype(np.float32)

    assert edits_found_in(after, shift=FAR) == []


@pytest.mark.parametrize("heads", [[1], [0, 6]])
def test_other_positions_of_some_heads_are_named(heads: list[int]) -> None:
    """Of 8 heads, some are rotated at positions 7 to 70, and the others rightly at 0 to 63."""
    after = rotated_in_layouts(QUERIES, angles_at())
    after[:, heads] = rotated_in_layouts(QUERIES[:, heads], angles_at(ROW_NUMBERS + 7))
    result = pecli.verify(after.astype(np.float32), CONFIG, before=QUERIES, atol=1e-4)
    (explanation,) = result.explanations
    names = {(1,): "head 1", (0, 6): "heads 0, 6"}

    assert explanation.tensors == (f"sequence 0, {names[tuple(heads)]}",)
    assert explanation.edits == (Positions("0 … 63", "7 … 70", "all 7 too far"),)


def test_heads_are_named_without_a_sequence_if_there_is_no_axis_of_sequences() -> None:
    """Head 1 of (heads, positions, channels) is rotated at positions 7 to 70 instead of 0 to 63."""
    before = QUERIES[0]
    after = rotated_in_layouts(before, angles_at())
    after[1] = rotated_in_layouts(before[1], angles_at(ROW_NUMBERS + 7))
    result = pecli.verify(after.astype(np.float32), CONFIG, before=before, atol=1e-4)
    (explanation,) = result.explanations

    assert explanation.tensors == ("head 1",)


def with_odd_heads(after: Array, odd: Array, heads: list[int]) -> Array:
    """Return queries in which some heads are taken from others."""
    mixed = after.copy()
    mixed[:, heads] = odd[:, heads]
    return mixed


INTERLEAVED = rotated_in_layouts(QUERIES, angles_at(), "interleaved", "interleaved")
OF_BASE_3000 = rotated_in_layouts(QUERIES, angles_at(base=3000.0))
BACKWARDS = rotated_in_layouts(QUERIES, -angles_at())
WITHOUT_MINUS = np.concatenate([A * COS + B * SIN, B * COS + A * SIN], axis=-1)


@pytest.mark.parametrize(
    ("after", "odd_heads", "edits"),
    [
        pytest.param(
            with_odd_heads(
                INTERLEAVED,
                rotated_in_layouts(
                    QUERIES, angles_at(ROW_NUMBERS + 1), "interleaved", "interleaved"
                ),
                [7],
            ),
            (7,),
            (Layout("halves", "interleaved"),),
            id="interleaved, and one head a position too far",
        ),
        pytest.param(
            with_odd_heads(OF_BASE_3000, QUERIES.astype(np.float64), [0]),
            (0,),
            (Parameter("base", 1e4, 3000.0),),
            id="another base, and the first head not rotated",
        ),
        pytest.param(
            with_odd_heads(OF_BASE_3000, BACKWARDS, [0, 1]),
            (0, 1),
            (Parameter("base", 1e4, 3000.0),),
            id="another base, and the first two heads backwards",
        ),
        pytest.param(
            with_odd_heads(1.1 * INTERLEAVED, 1.1 * QUERIES.astype(np.float64), [3]),
            (3,),
            (Layout("halves", "interleaved"), Scaled(1.1)),
            id="two mistakes, and one head not rotated",
        ),
        pytest.param(
            with_odd_heads(WITHOUT_MINUS, BACKWARDS, [5]),
            (5,),
            (Rotation("no minus"),),
            id="a wrong formula, and one head backwards",
        ),
    ],
)
def test_a_mistake_of_most_heads_is_named_beside_the_others(
    after: Array, odd_heads: tuple[int, ...], edits: tuple[Edit, ...]
) -> None:
    """Of 8 heads, `odd_heads` have a mistake of their own. The other heads have the mistakes `edits`."""
    places = tuple((0, head) for head in odd_heads)
    ((*edits_of_most_heads, edit_of_others),) = edits_found_in(after)

    assert set(edits_of_most_heads) == set(edits)
    assert edit_of_others == HeadsWrong(places)


def test_heads_of_which_half_are_rotated_differently_have_no_common_reason() -> None:
    """Heads 0 to 3 have base 3000, and heads 4 to 7 turn backwards."""
    assert edits_found_in(with_odd_heads(OF_BASE_3000, BACKWARDS, [4, 5, 6, 7])) == []


@pytest.mark.thorough
def test_a_wrong_element_beside_odd_heads_is_no_part_of_a_reason_without_it() -> None:
    """All heads have base 3000 except head 7, which turns backwards, and two elements of heads 2 and 4
    are wrong: each of these is named, or there is no reason.
    """
    after = with_odd_heads(OF_BASE_3000, BACKWARDS, [7])
    after[0, 2, 11, 5] += 1
    after[0, 4, 40, 50] += 1
    for edits in edits_found_in(after):
        assert ElementsWrong(((0, 2, 11, 5), (0, 4, 40, 50))) in edits


def test_other_pairs_another_base_and_a_factor_are_three_mistakes() -> None:
    """All heads agree on interleaved pairs, so that two mistakes are left to be searched."""
    after = 2 * rotated_in_layouts(QUERIES, angles_at(base=3000.0), "interleaved", "interleaved")
    ((*edits,),) = edits_found_in(after)

    assert set(edits) == {
        Layout("halves", "interleaved"),
        Parameter("base", 1e4, 3000.0),
        Scaled(2.0),
    }


PARTIAL_HEADS = {"hidden_size": 32, "num_attention_heads": 2}
ROTATES_FIRST_8 = {**PARTIAL_HEADS, "model_type": "gpt_neox", "rotary_pct": 0.5}
ROTATES_LAST_8 = {
    **PARTIAL_HEADS,
    "model_type": "deepseek_v3",
    "rope_interleave": False,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}


@pytest.mark.parametrize(
    ("config", "channels"),
    [(ROTATES_FIRST_8, slice(0, 4)), (ROTATES_LAST_8, slice(12, 16))],
    ids=["first channels", "last channels"],
)
def test_fewer_rotated_channels_are_named_at_either_end_of_a_head(
    config: dict[str, Any], channels: slice
) -> None:
    """Of 16 channels, eight should be rotated: the first ones of a GPT-NeoX, the last ones of a
    DeepSeek-V3. NumPy rotates four of them, `channels`: the rotary dimension is 4 instead of 8.
    """
    before = QUERIES[:, :2, :24, :16]
    angles = np.outer(np.arange(24), frequencies(4))
    after = before.copy()
    after[..., channels] = rotated_in_layouts(before[..., channels], angles)
    result = pecli.verify(after, config, before=before)

    assert result.explanations[0].edits == (Parameter("dim", 8, 4),)


@pytest.mark.parametrize(
    "after",
    [np.tanh(QUERIES), QUERIES[..., ::-1, :], QUERIES[:, ::-1], QUERIES**2],
    ids=["tanh", "reversed rows", "reversed heads", "squares"],
)
@pytest.mark.sample(2)
def test_values_that_are_no_rotation_have_no_reason(after: Array) -> None:
    """The queries are not rotated; instead, their tanh or squares are taken, or their rows or heads
    reversed. No edit describes that.
    """
    assert edits_found_in(np.ascontiguousarray(after)) == []


def test_another_base_is_named_if_the_first_of_four_axes_holds_positions() -> None:
    """Queries are (positions, batch, heads, channels), as Megatron keeps them, with one sequence."""
    turned = rotated_in_layouts(QUERIES, angles_at(base=500.0))
    before = QUERIES.transpose(2, 0, 1, 3)
    (edits,) = edits_found_in(turned.transpose(2, 0, 1, 3), before, seq_axis=0)

    assert edits == (Parameter("base", 10000.0, 500.0),)
