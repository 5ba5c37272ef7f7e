"""Queries and keys whose axes lie differently before and after the rotation: right ones pass with a
note.

Random queries (3 sequences, 6 heads, 5 positions, 8 channels) and keys (2 heads) are rotated here
by the textbook formula, and then transposed, folded or repeated by NumPy. The model is a Llama with
6 heads, base 10000.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.edits import ColumnsWrong, ElementsWrong, HeadsWrong, RowsWrong
from pecli.errors import ParameterError

HEADS, KEY_HEADS, DIM, LENGTH, BATCH = 6, 2, 8, 5, 3
"""A query has 6 heads of 8 channels, a key 2; there are 3 sequences of 5 positions."""
LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": HEADS * DIM,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
}
RANDOM = np.random.default_rng(7)
QUERIES = RANDOM.normal(size=(BATCH, HEADS, LENGTH, DIM))
KEYS = RANDOM.normal(size=(BATCH, KEY_HEADS, LENGTH, DIM))
SQUARE = RANDOM.normal(size=(BATCH, LENGTH + 1, LENGTH + 1, DIM))  # as many heads as positions


def rotated_by_formula(x: np.ndarray, base: float = 1e4) -> np.ndarray:
    """Rotate (…, positions, channels) by the textbook formula."""
    angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(DIM // 2) / (DIM // 2)))
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def heads_folded_into_columns(x: np.ndarray) -> np.ndarray:
    """Return (…, heads, positions, channels) as (…, positions, heads · channels)."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)


class RotatedArrays(NamedTuple):
    """Queries or keys as they were dumped, and the note on how their axes differ."""

    before: np.ndarray
    after: np.ndarray
    note: str


AXES_OF_HEADS = {
    "heads folded into columns": RotatedArrays(
        heads_folded_into_columns(QUERIES),
        heads_folded_into_columns(rotated_by_formula(QUERIES)),
        "6 heads of 8 folded into columns",
    ),
    "one sequence, folded": RotatedArrays(
        heads_folded_into_columns(QUERIES[0]),
        heads_folded_into_columns(rotated_by_formula(QUERIES[0])),
        "6 heads of 8 folded into columns",
    ),
    "folded before, heads first after": RotatedArrays(
        heads_folded_into_columns(QUERIES),
        rotated_by_formula(QUERIES),
        "6 heads of 8 folded into columns, axes (0, 2, 1, 3) of before",
    ),
    "heads first before, folded after": RotatedArrays(
        QUERIES,
        heads_folded_into_columns(rotated_by_formula(QUERIES)),
        "6 heads of 8 folded into columns, axes (0, 2, 1, 3) of before",
    ),
    "as many heads as positions, folded after": RotatedArrays(
        SQUARE,
        heads_folded_into_columns(rotated_by_formula(SQUARE)),
        "6 heads of 8 folded into columns, axes (0, 2, 1, 3) of before",
    ),
    "axes in another order": RotatedArrays(
        QUERIES,
        rotated_by_formula(QUERIES).transpose(0, 2, 1, 3),
        "axes (0, 2, 1, 3) of before",
    ),
    "channels first": RotatedArrays(
        QUERIES,
        rotated_by_formula(QUERIES).transpose(3, 2, 1, 0),
        "axes (3, 2, 1, 0) of before",
    ),
    "keys repeated for query heads": RotatedArrays(
        KEYS,
        np.repeat(rotated_by_formula(KEYS), 3, axis=1),
        "2 heads repeated 3× along axis 1, each in a row",
    ),
    "keys repeated one round after the other": RotatedArrays(
        KEYS,
        np.tile(rotated_by_formula(KEYS), (1, 3, 1, 1)),
        "2 heads repeated 3× along axis 1, one round after the other",
    ),
    "keys folded before, repeated after": RotatedArrays(
        heads_folded_into_columns(KEYS),
        np.repeat(rotated_by_formula(KEYS), 3, axis=1),
        "2 heads of 8 folded into columns, axes (0, 2, 1, 3) of before, "
        "2 heads repeated 3× along axis 1, each in a row",
    ),
    "a single row": RotatedArrays(
        KEYS[0, 0, 0], rotated_by_formula(KEYS[0, 0, :1])[0], "a single row"
    ),
}


@pytest.mark.parametrize("case", AXES_OF_HEADS)
def test_the_right_rotation_passes_with_a_note(case: str) -> None:
    """Each case of AXES_OF_HEADS has queries or keys before and after the rotation, whose axes lie
    differently, and the words that note it. For example, 6 heads of 8 channels are folded into 48
    columns, or 2 heads of keys are repeated 3 times. The rotation is the textbook formula in NumPy.
    """
    dump = AXES_OF_HEADS[case]
    result = pecli.verify(dump.after, LLAMA_CONFIG, before=dump.before, atol=1e-9)

    assert result.passed
    assert dump.note in result.readings["array"]


@pytest.mark.parametrize("case", [case for case in AXES_OF_HEADS if case != "a single row"])
def test_a_wrong_element_has_its_index_in_the_array_as_it_was_dumped(case: str) -> None:
    """Each case of AXES_OF_HEADS has queries or keys whose axes lie differently after the rotation,
    such as channels first. The last element is wrong, and its index is that in the array as it was
    dumped, whatever axes it has.
    """
    dump = AXES_OF_HEADS[case]
    wrong = dump.after.copy()
    index = tuple(length - 1 for length in wrong.shape)
    wrong[index] += 1
    result = pecli.verify(wrong, LLAMA_CONFIG, before=dump.before, atol=1e-9, reasons=False)
    (tensor,) = result.tensors

    assert tensor.mismatched == 1
    assert tensor.worst_index == index


@pytest.mark.parametrize("case", AXES_OF_HEADS)
def test_rotated_queries_that_are_a_thousandth_too_large_fail(case: str) -> None:
    """Each case of AXES_OF_HEADS has queries or keys whose axes lie differently after the rotation,
    such as channels first; here they are multiplied by 1.001.
    """
    dump = AXES_OF_HEADS[case]
    scaled = np.empty_like(dump.after)  # Its axes lie in memory as those of the dump do.
    scaled[...] = dump.after * 1.001
    result = pecli.verify(scaled, LLAMA_CONFIG, before=dump.before, atol=1e-9, reasons=False)

    assert not result.passed


def test_a_mistake_in_folded_heads_is_named() -> None:
    """6 heads of 8 channels are folded into rows of 48. They were rotated as interleaved pairs (0,
    1), (2, 3), …, although a Llama rotates halves: (0, 4), (1, 5), ….
    """
    interleaved = pecli.apply(QUERIES, LLAMA_CONFIG, layout="interleaved")
    result = pecli.verify(
        heads_folded_into_columns(interleaved),
        LLAMA_CONFIG,
        before=heads_folded_into_columns(QUERIES),
        atol=1e-9,
    )

    assert not result.passed
    assert "interleaved" in result.diagnosis[0]


def test_a_wrong_element_of_folded_heads_is_located_by_batch_head_and_position() -> None:
    """6 heads of 8 channels are folded into rows of 48. The wrong element is in batch 1, position 3
    and column 2 · 8 + 4: channel 4 of head 2. Places are ranges from the first to the last.
    """
    wrong = heads_folded_into_columns(rotated_by_formula(QUERIES))
    wrong[1, 3, 2 * DIM + 4] += 1
    (tensor,) = pecli.verify(
        wrong, LLAMA_CONFIG, before=heads_folded_into_columns(QUERIES), atol=1e-9, reasons=False
    ).tensors

    assert tensor.where["rows"] == [(3, 3)]
    assert tensor.where["heads"] == [(2, 2)]
    assert tensor.where["batch"] == [(1, 1)]


def test_a_wrong_element_of_positions_before_heads_is_located_by_head_and_position() -> None:
    """The dump is (batch, positions, heads, channels). Its wrong element is in batch 1, position 3,
    head 2 and channel 4; rows are positions, whatever the order of axes is.
    """
    wrong = rotated_by_formula(QUERIES).swapaxes(1, 2).copy()
    wrong[1, 3, 2, 4] += 1
    (tensor,) = pecli.verify(
        wrong, LLAMA_CONFIG, before=QUERIES.swapaxes(1, 2), atol=1e-9, reasons=False
    ).tensors

    assert tensor.where["rows"] == [(3, 3)]
    assert tensor.where["heads"] == [(2, 2)]
    assert tensor.where["batch"] == [(1, 1)]


def positions_before_heads(x: np.ndarray) -> np.ndarray:
    """Return (batch, heads, positions, channels) as (batch, positions, heads, channels)."""
    return x.swapaxes(1, 2).copy()


def three_copies_of_each_head(x: np.ndarray) -> np.ndarray:
    """Return keys of 2 heads as those of 6: 0 0 0 1 1 1."""
    return np.repeat(x, 3, axis=1)


@pytest.mark.parametrize(
    ("dumped_before", "dumped_after", "indices"),
    [
        pytest.param(np.copy, np.copy, [(1, 0, 3, 4)], id="the same axes"),
        pytest.param(
            positions_before_heads, positions_before_heads, [(1, 3, 0, 4)], id="positions first"
        ),
        pytest.param(np.copy, positions_before_heads, [(1, 3, 0, 4)], id="transposed after"),
        pytest.param(
            np.copy, heads_folded_into_columns, [(1, 3, 4)], id="heads folded into columns after"
        ),
        pytest.param(
            np.copy,
            three_copies_of_each_head,
            [(1, 0, 3, 4), (1, 1, 3, 4), (1, 2, 3, 4)],
            id="heads repeated after",
        ),
    ],
)
def test_the_reason_names_a_wrong_element_by_its_indices_in_the_dump(
    dumped_before: Callable[[np.ndarray], np.ndarray],
    dumped_after: Callable[[np.ndarray], np.ndarray],
    indices: list[tuple[int, ...]],
) -> None:
    """After the rotation, channel 4 at position 3 of head 0 in sequence 1 is changed; then the keys
    are dumped in another order of axes. A head that is repeated has the element once per copy.
    """
    wrong = rotated_by_formula(KEYS)
    wrong[1, 0, 3, 4] += 1
    verification = pecli.verify(
        dumped_after(wrong), LLAMA_CONFIG, before=dumped_before(KEYS), atol=1e-9
    )
    (explanation,) = verification.explanations

    assert explanation.edits == (ElementsWrong(tuple(indices)),)


def test_repeated_heads_that_differ_are_a_problem() -> None:
    """Keys of 2 heads are repeated 3 times in a row for 6 query heads; in the last copy of the
    first head, one position is changed.
    """
    wrong = np.repeat(rotated_by_formula(KEYS), 3, axis=1)
    wrong[0, 2, 1] += 1
    result = pecli.verify(wrong, LLAMA_CONFIG, before=KEYS, atol=1e-9)

    assert result.problems == ("array: its copies differ",)


def test_a_table_whose_doubled_columns_differ_is_said_to_have_different_copies() -> None:
    """Llama 3.2 1B has heads of 64 channels, so 32 frequencies. The dump is of a head of 128: 64
    cosines, doubled as [c0 … c63 c0 … c63].

    As 128 columns of 32 frequencies it can only be read with every number twice, (c0 c0) (c1 c1) …,
    and the two numbers of such a pair differ. No further reason is searched for.
    """
    angles = np.outer(np.arange(64), 500000.0 ** (-np.arange(64) / 64))
    cosines_twice = np.cos(np.concatenate([angles, angles], axis=1)).astype(np.float32)
    verification = pecli.verify(cosines_twice, "llama-3.2-1b", atol=1e-4)

    assert verification.diagnosis == ("cos_sin: its copies differ",)
    assert verification.explanations == ()


def test_positions_are_never_taken_for_copies() -> None:
    """Before the rotation there are 5 positions, and after it 10: the same 5 twice. As copies along
    an axis of heads they would be accepted.
    """
    longer = np.concatenate([rotated_by_formula(KEYS)] * 2, axis=2)
    with pytest.raises(ParameterError, match="they must be alike"):
        pecli.verify(longer, LLAMA_CONFIG, before=KEYS)


def test_columns_that_are_not_a_known_number_of_heads_are_not_unfolded() -> None:
    """40 columns would be 5 heads of 8 channels; the model has 6 heads of queries and 2 of keys."""
    before = RANDOM.normal(size=(LENGTH, 5 * DIM))
    with pytest.raises(
        ParameterError, match=r"a head of .* has 8 channels; D, the last axis, is 40"
    ):
        pecli.verify(before, LLAMA_CONFIG, before=before)


def passes_if_rotated_along(axis: int, shape: tuple[int, ...]) -> bool:
    """Return True if queries of some shape pass after a rotation whose positions are on an axis.

    They are rotated by the textbook formula, and pass if verify takes the same axis for positions.
    """
    before = RANDOM.normal(size=shape)
    after = np.moveaxis(rotated_by_formula(np.moveaxis(before, axis, -2)), -2, axis)
    return pecli.verify(after, LLAMA_CONFIG, before=before, atol=1e-9).passed


@pytest.mark.parametrize(
    ("shape", "axis_of_positions"),
    [
        pytest.param((2, 12, HEADS, DIM), 1, id="12 positions before 6 heads"),
        pytest.param((2, HEADS, 12, DIM), 2, id="12 positions after 6 heads"),
        pytest.param((12, HEADS, DIM), 0, id="12 positions before 6 heads, no batch"),
        pytest.param((2, HEADS, HEADS, DIM), 2, id="6 heads, then 6 positions"),
    ],
)
def test_positions_are_on_the_axis_beside_the_models_number_of_heads(
    shape: tuple[int, ...], axis_of_positions: int
) -> None:
    """The model has 6 heads (HEADS), and the last axis is that of 8 channels (DIM). An axis of 6 is
    taken for heads, and the one beside it for positions; of two axes of 6, heads come first.
    """
    assert passes_if_rotated_along(axis_of_positions, shape)


@pytest.mark.parametrize(
    ("shape", "axis_of_positions"),
    [
        pytest.param((2, 12, 3, DIM), 2, id="2 sequences, 12 heads, 3 positions"),
        pytest.param((HEADS, DIM), 0, id="6 positions of one head"),
    ],
)
def test_positions_are_on_the_axis_before_the_channels_if_no_axis_is_that_of_the_models_heads(
    shape: tuple[int, ...], axis_of_positions: int
) -> None:
    """The model has 6 heads of 8 channels (DIM). Either no axis has 6 entries, or there is only one
    axis beside that of channels, which has positions although its length is 6.
    """
    assert passes_if_rotated_along(axis_of_positions, shape)


def test_an_axis_as_long_as_the_given_positions_is_that_of_tokens() -> None:
    """The axes are 2, 12, 6 and 8 channels. Six positions are given, so that the axis of 6 has the
    tokens, although the model has 6 heads as well.
    """
    before = RANDOM.normal(size=(2, 12, HEADS, DIM))
    after = rotated_by_formula(before)
    positions = np.arange(HEADS)

    assert pecli.verify(after, LLAMA_CONFIG, before=before, positions=positions, atol=1e-9).passed


def diagnosis_of_files(folder: Path, before: np.ndarray, after: np.ndarray) -> tuple[str, ...]:
    """Return the sentences about two files, as only files have commands that reproduce them."""
    np.save(folder / "before.npy", before)
    np.save(folder / "after.npy", after)
    return pecli.verify(folder / "after.npy", LLAMA_CONFIG, before=folder / "before.npy").diagnosis


def test_a_wrong_base_has_a_command_that_reproduces_it(tmp_path: Path) -> None:
    """The queries are rotated with base 500 instead of 10000. `pecli apply` rotates before.npy in
    the same way, and so makes the wrong file again.
    """
    after = rotated_by_formula(QUERIES, base=500.0)
    reason, command = diagnosis_of_files(tmp_path, QUERIES, after)

    assert reason == "after: base is 500 (the spec says 10000); exact"
    assert command.startswith("reproduce with pecli apply rope")
    assert "--theta 500" in command


def test_a_wrong_base_of_folded_heads_has_no_command(tmp_path: Path) -> None:
    """The queries are rotated with base 500 instead of 10000, and their 6 heads of 8 channels are
    folded into 48 columns. `pecli apply` would rotate the first 8 columns only, which makes another
    file than the wrong one: the reason stands by itself.
    """
    before = heads_folded_into_columns(QUERIES)
    after = heads_folded_into_columns(rotated_by_formula(QUERIES, base=500.0))
    diagnosis = diagnosis_of_files(tmp_path, before, after)

    assert diagnosis == ("after: base is 500 (the spec says 10000); exact",)


def test_a_line_of_all_positions_per_head_is_unfolded() -> None:
    """The dump is (6, 40): a line for each of 6 heads, with its 5 positions of 8 channels. As a line
    for each position, 40 columns would be 5 heads of 8, but the model has 6 heads of queries and 2
    of keys, 48 or 16 columns. Lines that are not rotated fail.
    """
    lines = QUERIES[0].reshape(6, 40)
    rotated_lines = rotated_by_formula(QUERIES[0]).reshape(6, 40)
    result = pecli.verify(rotated_lines, LLAMA_CONFIG, before=lines, atol=1e-9)

    assert result.passed
    heads_positions_channels = (6, 5, 8)
    assert result.tensors[0].shape == heads_positions_channels
    assert not pecli.verify(lines, LLAMA_CONFIG, before=lines, atol=1e-9, reasons=False).passed


def test_a_line_per_head_that_is_not_whole_positions_is_refused() -> None:
    """The lines of 6 heads have 44 numbers each, five positions of 8 channels and a half."""
    rows = RANDOM.normal(size=(HEADS, 44))
    with pytest.raises(ParameterError, match=r"a head of .* has 8 channels"):
        pecli.verify(rows, LLAMA_CONFIG, before=rows)


@pytest.mark.parametrize("shape", [(HEADS * LENGTH * DIM,), (1, HEADS * LENGTH * DIM)])
def test_a_list_of_the_numbers_of_several_heads_needs_a_shape(shape: tuple[int, ...]) -> None:
    """240 numbers are 6 heads of 5 positions of 8 channels, or 5 positions of 6 heads; the error
    has the --shape of both.
    """
    flat = QUERIES[0].reshape(shape)
    with pytest.raises(ParameterError, match="does not state the axes of heads") as error:
        pecli.verify(flat, LLAMA_CONFIG, before=flat)

    advice = "--shape 6,5,8 for (heads, positions, D), or --shape 5,6,8 for (positions, heads, D)"
    assert advice in str(error.value)


def test_mistakes_of_the_sequences_of_a_batch_are_named_one_by_one() -> None:
    """The second of 3 sequences was rotated from position 2 on, and the others from 0."""
    late = pecli.apply(QUERIES[1], LLAMA_CONFIG, offset=2)
    after = np.stack([rotated_by_formula(QUERIES[0]), late, rotated_by_formula(QUERIES[2])])
    sentence, *_ = pecli.verify(after, LLAMA_CONFIG, before=QUERIES, atol=1e-9).diagnosis

    assert sentence.startswith("sequence 1: positions are 2 … 6; expected 0 … 4: all 2 too far")


def test_rotated_queries_that_pass_within_a_tolerance_have_no_reasons() -> None:
    """The queries were rotated with base 10001 instead of 10000, which changes them by less than
    the tolerance of 1e-2: no reason is searched for.
    """
    other_base = rotated_by_formula(QUERIES, base=10001.0)
    result = pecli.verify(other_base, LLAMA_CONFIG, before=QUERIES, atol=1e-2)

    assert result.passed
    assert result.explanations == ()


def test_a_single_row_at_position_0_is_weak_for_one_reason() -> None:
    """At position 0 nothing is rotated, so that no mistake would show; the strongest is named only,
    that the rotation may be missing. `weak` are remarks on a pass that proves little.
    """
    row = QUERIES[:, :, :1]
    result = pecli.verify(row, LLAMA_CONFIG, before=row, atol=1e-9)

    assert result.weak == ("1 row cannot detect a missing rotation",)


def test_weak_passes_of_several_tensors_have_their_names() -> None:
    """q and k are single rows at position 0, which nothing rotates."""
    row = QUERIES[:, :, :1]
    result = pecli.verify({"q": row, "k": row}, LLAMA_CONFIG, before={"q": row, "k": row})

    assert result.weak == (
        "q: 1 row cannot detect a missing rotation",
        "k: 1 row cannot detect a missing rotation",
    )


def test_a_cache_that_was_moved_by_0_is_not_a_weak_pass() -> None:
    """With shift=0, keys of a cache have to stay as they were: that they are not rotated is
    right.
    """
    result = pecli.verify(QUERIES, LLAMA_CONFIG, before=QUERIES, shift=0, atol=1e-9)

    assert result.passed
    assert result.weak == ()


def test_copies_that_are_all_wrong_alike_are_not_reported_as_different_copies() -> None:
    """Keys of 2 heads are repeated 3 times for 6 query heads, and all of them are 1 too large."""
    wrong = np.repeat(rotated_by_formula(KEYS), 3, axis=1) + 1
    result = pecli.verify(wrong, LLAMA_CONFIG, before=KEYS, atol=1e-9, reasons=False)

    assert not result.passed
    assert result.problems == ()


@pytest.mark.parametrize(
    ("after", "before", "options", "words"),
    [
        (QUERIES, QUERIES, {"grid": (2, 3)}, r"grid is \(2, 3\); with `before`, tokens have"),
        (np.float64(3), np.float64(3), {}, r"of shape \(\); before it is of shape \(\)"),
        (QUERIES[:, :, :0], QUERIES[:, :, :0], {}, "it holds no numbers; give some to compare"),
        (QUERIES + 0j, QUERIES, {}, "complex128; queries and keys are real; give two channels"),
        (QUERIES, QUERIES + 0j, {}, "complex128; queries and keys are real; give two channels"),
    ],
    ids=["a grid", "a number", "empty", "complex", "complex before"],
)
def test_arrays_that_cannot_be_queries_are_refused(
    after: Any, before: Any, options: dict[str, Any], words: str
) -> None:
    """Queries are real, have axes, and hold numbers; their positions are not on a grid."""
    with pytest.raises(ParameterError, match=words):
        pecli.verify(after, LLAMA_CONFIG, before=before, **options)


GPTJ_CONFIG = {"model_type": "gptj", "n_embd": HEADS * DIM, "n_head": HEADS, "rotary_dim": DIM}


@pytest.mark.parametrize(
    ("model", "layout", "option"),
    [
        pytest.param(LLAMA_CONFIG, "halves", "", id="Llama"),
        pytest.param(GPTJ_CONFIG, "interleaved", " --layout interleaved", id="GPT-J"),
    ],
)
def test_a_command_states_another_base_and_a_layout_that_is_not_the_default(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: dict[str, Any],
    layout: str,
    option: str,
) -> None:
    """q was rotated with base 500 instead of 10000, and k is right. `pecli apply rope` rotates
    halves, as a Llama does, unless another layout is given; GPT-J rotates interleaved pairs.
    """
    monkeypatch.chdir(tmp_path)  # A command with a long path would not be printed.
    q = QUERIES[0, 0].astype(np.float32)
    of_base_500 = pecli.Rope(seq_len=LENGTH, dim=DIM, base=500.0, layout=layout)
    np.savez("before.npz", q=q, k=q)
    np.savez("after.npz", q=pecli.apply(q, of_base_500), k=pecli.apply(q, model))
    result = pecli.verify("after.npz", model, before="before.npz", max_ulp=2)

    command = "pecli apply rope before.npz:q --dim 8 --theta 500"
    assert result.diagnosis[-1] == f"reproduce with {command}{option} -o again.npy"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rotated_queries_without_a_finite_number_have_no_reason(value: float) -> None:
    """No mistake of a rotation makes all elements NaN or infinite."""
    after = np.full_like(QUERIES, value)
    result = pecli.verify(after, LLAMA_CONFIG, before=QUERIES, atol=1e-9)

    assert not result.passed
    assert result.explanations == ()


def test_a_mistake_of_all_rows_is_named_beside_a_row_that_is_not_finite() -> None:
    """All rows are rotated from position 2 on, and row 3 holds NaN in one head."""
    after = pecli.apply(QUERIES[:1], LLAMA_CONFIG, offset=2)
    after[0, 1, 3] = np.nan
    sentence, *_ = pecli.verify(after, LLAMA_CONFIG, before=QUERIES[:1], atol=1e-9).diagnosis

    assert sentence.startswith("after: positions start at 2 (the spec says 0)")
    assert "only row 3 differs" in sentence


def test_a_row_that_is_not_finite_is_the_only_reason_if_the_rest_is_right() -> None:
    """Row 3 of all heads is NaN; the others are rotated in float64 by the textbook formula, and are
    not rounded to anything else.
    """
    after = rotated_by_formula(QUERIES)
    after[:, :, 3] = np.nan
    (reason,) = pecli.verify(after, LLAMA_CONFIG, before=QUERIES, atol=1e-9).explanations

    assert reason.edits == (RowsWrong((3,)),)


def test_a_wrong_copy_of_a_repeated_head_is_located_by_its_number_in_the_file() -> None:
    """Keys of 2 heads are repeated as 0 0 0 1 1 1; of head 1, the second copy is not rotated."""
    wrong = three_copies_of_each_head(rotated_by_formula(KEYS))
    wrong[:, 4] = KEYS[:, 1]
    (tensor,) = pecli.verify(wrong, LLAMA_CONFIG, before=KEYS, atol=1e-9).tensors

    assert tensor.where["heads"] == [(4, 4)]


def test_wrong_channels_of_folded_heads_are_columns_of_the_file() -> None:
    """In rows of 6 heads of 8 channels, channels 3 and 4 of head 2 are columns 19 and 20."""
    rotated = rotated_by_formula(QUERIES)
    rotated[:, 2, :, 3:5] += 1
    (tensor,) = pecli.verify(
        heads_folded_into_columns(rotated),
        LLAMA_CONFIG,
        before=heads_folded_into_columns(QUERIES),
        atol=1e-9,
    ).tensors

    assert tensor.where["heads"] == [(2, 2)]
    assert tensor.where["columns"] == [(19, 20)]


def test_a_channel_that_is_wrong_in_all_folded_heads_is_a_column_of_each() -> None:
    """In rows of 6 heads of 8 channels, channel 5 is the columns 5, 13, 21, 29, 37 and 45."""
    rotated = rotated_by_formula(QUERIES)
    rotated[..., 5] = RANDOM.normal(size=rotated.shape[:-1])
    (explanation,) = pecli.verify(
        heads_folded_into_columns(rotated),
        LLAMA_CONFIG,
        before=heads_folded_into_columns(QUERIES),
        atol=1e-9,
    ).explanations

    assert explanation.edits == (ColumnsWrong((5, 13, 21, 29, 37, 45)),)


def test_a_wrong_head_that_is_repeated_has_the_numbers_of_all_copies() -> None:
    """Keys of 4 heads are repeated as 0 0 1 1 2 2 3 3, so that head 2 is 4 and 5."""
    keys = RANDOM.normal(size=(4, LENGTH, DIM))
    wrong = rotated_by_formula(keys)
    wrong[2] = RANDOM.normal(size=(LENGTH, DIM))
    (explanation,) = pecli.verify(
        np.repeat(wrong, 2, axis=0),
        {
            **LLAMA_CONFIG,
            "num_attention_heads": 8,
            "hidden_size": 8 * DIM,
            "num_key_value_heads": 4,
        },
        before=keys,
        atol=1e-9,
    ).explanations

    assert explanation.edits == (HeadsWrong((4, 5)),)
