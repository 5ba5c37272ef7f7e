"""Queries and keys after a rotation: the first position, the axis of positions, the shift of a
cache; and tables per sequence of a batch.

BEFORE are random queries (3 heads, 12 positions, 16 channels); rotated_queries(offset=5) rotates
them from position 5 on by this package, which tests/engine/test_apply_rotation.py holds against the
formula. CONFIG is a Llama with base 500000; COS_BESIDE_SIN is NumPy's [cos | sin] for its 12
positions.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.queries import BEFORE, TWO_LAYER_KINDS, YARN, rotated_queries
from tests.checks.rope_dumps import CONFIG, COS, SIN, as_cos_sin_cache, cosines_and_sines
from tests.checks.waves import Array

ONES_2_BY_5_BY_8 = np.ones((2, 5, 8), "f4")
BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
COS_BESIDE_SIN = np.hstack([COS, SIN])


def error_of_verify(*arguments: Any, **settings: Any) -> str:
    """Return the error of a check."""
    with pytest.raises(pecli.PecliError) as caught:
        pecli.verify(*arguments, **settings)
    return str(caught.value)


@pytest.mark.parametrize(("offset", "passed"), [(5, True), (0, False)])
def test_queries_rotated_from_an_offset_pass_with_that_offset_only(
    offset: int, passed: bool
) -> None:
    """BEFORE are queries, and `rotated_queries(offset=5)` these queries rotated from
    position 5 on.
    """
    rotated = rotated_queries(offset=5)
    result = pecli.verify(rotated, CONFIG, before=BEFORE, atol=1e-9, offset=offset)
    assert result.passed == passed


def test_a_first_position_that_is_not_the_expected_one_is_named() -> None:
    """The queries were rotated from position 5 on, and position 0 is expected first."""
    diagnosis = pecli.verify(rotated_queries(offset=5), CONFIG, before=BEFORE, atol=1e-9).diagnosis
    assert diagnosis[0].startswith("after: positions start at 5 (the spec says 0);")


@pytest.mark.parametrize(("shift", "passed"), [(4, False), (5, True)])
@pytest.mark.parametrize("config", [CONFIG, YARN], ids=["no scaling", "yarn"])
def test_a_cache_that_was_moved_by_5_passes_with_that_shift_only(
    config: dict[str, Any], shift: int, passed: bool
) -> None:
    """Keys of a cache are rotated already. llama.cpp's context shift rotates them by some more
    positions, here by 5, which is the same as rotating the keys from position 5 on. YARN has a
    scaling with an attention factor, which must not be multiplied a second time.
    """
    moved = pecli.apply(BEFORE, config, offset=5)
    cached = pecli.apply(BEFORE, config)

    result = pecli.verify(moved, config, before=cached, shift=shift, atol=1e-9, reasons=False)
    assert result.passed == passed


def test_how_far_a_cache_was_moved_is_named() -> None:
    """All 12 keys of a cache were moved by 5 positions, and should have been moved by 4."""
    cached = rotated_queries()
    moved = rotated_queries(offset=5)
    result = pecli.verify(moved, CONFIG, before=cached, shift=4, atol=1e-9)
    reason = "after: positions are 5 × 12; expected 4 × 12: it was moved by 5, not 4;"

    assert result.diagnosis[0].startswith(reason)


def test_a_cache_that_was_negated_and_not_moved_is_named_by_both_mistakes() -> None:
    """Keys of a cache should have been moved by 5 positions: they stayed, and their sign changed."""
    cached = rotated_queries().astype(np.float32)
    diagnosis = pecli.verify(-cached, CONFIG, before=cached, shift=5, atol=1e-6).diagnosis

    assert "it was not moved, and values are scaled by -1" in diagnosis[0]


@pytest.mark.parametrize(("axis", "passed"), [(0, True), (-3, True), (1, False)])
def test_queries_pass_with_the_axis_along_which_they_were_rotated(axis: int, passed: bool) -> None:
    """The queries have their positions on the first of three axes, which is axis 0 or −3."""
    rotated = np.moveaxis(rotated_queries(), -2, 0)
    before = np.moveaxis(BEFORE, -2, 0)
    result = pecli.verify(rotated, CONFIG, before=before, seq_axis=axis, atol=1e-9)

    assert result.passed == passed


def test_the_axis_of_positions_is_noted() -> None:
    """The queries have their positions on the first of three axes, and seq_axis=0 states it; the
    reading repeats which axis was taken.
    """
    rotated = np.moveaxis(rotated_queries(), -2, 0)
    before = np.moveaxis(BEFORE, -2, 0)
    result = pecli.verify(rotated, CONFIG, before=before, seq_axis=0, atol=1e-9)

    assert result.readings == {"array": "positions along axis 0"}


def test_a_rotation_along_the_axis_of_heads_gets_advice() -> None:
    """BEFORE are queries of 3 heads, 12 positions and 16 channels. They were rotated as if the
    heads were positions; if that is what the axes mean, --seq-axis 0 makes them pass.
    """
    rotated = pecli.apply(BEFORE, CONFIG, seq_axis=0)
    diagnosis = pecli.verify(rotated, CONFIG, before=BEFORE, atol=1e-9).diagnosis

    assert diagnosis[1] == "if positions are along axis 0 of (3, 12, 16), verify with --seq-axis 0"


def test_heads_whose_rows_follow_each_other_get_advice() -> None:
    """A loop over 3 heads and 12 positions prints queries as 36 lines of 16 channels. They look
    like 36 positions, and fail; --shape states what they are.
    """
    rows = rotated_queries().reshape(36, 16)
    diagnosis = pecli.verify(rows, CONFIG, before=BEFORE.reshape(36, 16), atol=1e-9).diagnosis
    advice = "if these are 3 heads of 12 positions, --shape 3,12,16 states it in text and raw files"

    assert diagnosis[1] == advice


def test_an_explanation_names_only_the_tensor_that_is_wrong() -> None:
    """q is rotated as interleaved pairs, which is wrong for the Llama of CONFIG, and k as halves,
    which is right.
    """
    dump = {"q": rotated_queries(layout="interleaved"), "k": rotated_queries()}
    before = {"q": BEFORE, "k": BEFORE}
    result = pecli.verify(dump, CONFIG, before=before, atol=1e-9)

    assert result.explanations[0].tensors == ("q",)


def test_a_tensor_without_a_name_is_called_after() -> None:
    """The queries after the rotation are an array without a name. They are rotated as interleaved
    pairs, which is wrong for a Llama, so that there is an explanation to name them in.
    """
    result = pecli.verify(rotated_queries(layout="interleaved"), CONFIG, before=BEFORE, atol=1e-9)
    assert result.explanations[0].tensors == ("after",)


@pytest.mark.parametrize(
    "rotated",
    [rotated_queries(layout="interleaved"), rotated_queries(offset=5)],
    ids=["layout", "offset"],
)
def test_nothing_is_explained_without_reasons(rotated: Array) -> None:
    """The queries are rotated as interleaved pairs, or from position 5 on: both are wrong, and with
    reasons=False no search for the mistake is made.
    """
    result = pecli.verify(rotated, CONFIG, before=BEFORE, atol=1e-9, reasons=False)
    assert result.explanations == ()


def test_noisy_queries_are_compared_with_the_layers_that_they_fit_best() -> None:
    """TWO_LAYER_KINDS has sliding attention with base 100 and full attention with base 500000. The
    queries are rotated as in sliding attention, and have noise of up to 1e-3.
    """
    noise = 1e-3 * np.sin(np.arange(16) ** 2)
    rotated = pecli.apply(BEFORE, TWO_LAYER_KINDS, layer_type="sliding_attention") + noise
    result = pecli.verify(rotated, TWO_LAYER_KINDS, before=BEFORE, reasons=False)

    assert result.readings == {"array": "of sliding_attention layers"}


def test_a_tensor_that_has_none_of_its_name_before_the_rotation_is_refused() -> None:
    """There are q and k after the rotation, and q and z before it. The error names k, to which none
    belongs, and all tensors before the rotation, of which one may be k under another name.
    """
    after = {"q": ONES_2_BY_5_BY_8, "k": ONES_2_BY_5_BY_8}
    before = {"q": ONES_2_BY_5_BY_8, "z": ONES_2_BY_5_BY_8}

    assert error_of_verify(after, CONFIG, before=before) == (
        "arrays: holds k, and those before q, z; the names must agree; "
        "or name one of each: FILE:NAME"
    )


@pytest.mark.parametrize(
    "layer_type", [None, ""], ids=["no layer type", "the only layer type, which has no name"]
)
def test_queries_are_refused_for_a_model_without_a_rotation(layer_type: str | None) -> None:
    """Queries before a rotation are given, but BERT has a learned table only. All its layers are of
    one type, which may be given by its name, the empty string.
    """
    message = error_of_verify(BEFORE, BERT, before=BEFORE, layer_type=layer_type)
    assert message == "before is given; the model has no rotary encoding; leave it out"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"seq_axis": 1},
            "seq_axis is given; it is about queries and keys; give `before`, too",
        ),
        ({"axis": 1}, "axis is given; a model has no such option; leave it out"),
    ],
    ids=["an option of queries", "an unknown option"],
)
def test_options_of_queries_are_refused_for_tables(settings: dict[str, Any], message: str) -> None:
    """The dump has cosines and sines. seq_axis is the axis of positions in queries; axis is not an
    option of verify at all.
    """
    assert error_of_verify(cosines_and_sines(np.copy), CONFIG, **settings) == message


MAY_BE_QUERIES = np.full((2, 2, 16), 5.0) * np.arange(16)
"""Values up to 5 · 15 = 75, which are neither cosines nor sines, in three axes, the last of which is
that of the 16 channels of CONFIG: queries after the rotation, perhaps.
"""
ADVICE_ABOUT_QUERIES = (
    "if these are queries or keys after the rotation, and not tables, "
    "dump them before it, too, and give --before FILE"
)


@pytest.mark.parametrize(
    ("array", "diagnosis"),
    [
        pytest.param(MAY_BE_QUERIES, (ADVICE_ABOUT_QUERIES,), id="three axes, values up to 75"),
        pytest.param(MAY_BE_QUERIES * 2 / 75, (), id="three axes, values up to 2"),
        pytest.param(MAY_BE_QUERIES[0] / 15, (), id="two axes, values up to 5"),
        pytest.param(MAY_BE_QUERIES[0], (), id="two axes, values up to 75"),
    ],
)
def test_only_an_array_that_cannot_be_a_table_gets_advice_about_queries(
    array: Array, diagnosis: tuple[str, ...]
) -> None:
    """Values up to 2 may be scaled cosines, and an array of two axes a table of any kind. Larger values
    in three axes are neither, but may be queries after the rotation.
    """
    assert pecli.verify(array, CONFIG, reasons=False).diagnosis == diagnosis


def test_advice_about_queries_is_not_given_beside_right_tables() -> None:
    """«hidden» has the shape of queries and values of 9, which no table has: by itself, it gets the
    advice. Beside the right cosines and sines of CONFIG it is not compared, and gets none.
    """
    hidden = {"hidden": np.full((2, 4, 12, 16), 9.0)}
    by_itself = pecli.verify(hidden, CONFIG, atol=1e-6, reasons=False)
    assert by_itself.reasons == (ADVICE_ABOUT_QUERIES,)

    beside_tables = pecli.verify({"cos": COS, "sin": SIN, **hidden}, CONFIG, atol=1e-6)
    assert beside_tables.passed
    assert beside_tables.reasons == ()
    assert beside_tables.unchecked == ("hidden",)


@pytest.mark.parametrize(
    ("dump", "batch"),
    [(np.stack([COS_BESIDE_SIN] * 3), 3), (as_cos_sin_cache(np.stack([COS_BESIDE_SIN] * 2)), 2)],
    ids=["three without a name", "two with a name"],
)
def test_a_table_for_each_sequence_of_a_batch_passes_with_a_mask(dump: Any, batch: int) -> None:
    """Some models compute a table for each sequence: (batch, 12 positions, [cos | sin]). A mask of
    ones means that all sequences count from 0. Two equal tables need a name (cos_sin_cache),
    because without one they could be cosines and sines.
    """
    mask = np.ones((batch, 12), int)
    assert pecli.verify(dump, CONFIG, attention_mask=mask, atol=1e-6).passed


def test_a_table_of_a_batch_with_a_wrong_sequence_fails() -> None:
    """Each of three sequences has a table [cos | sin] of 12 positions. In the second one, rows are
    moved up by one: it begins at position 1 instead of 0.
    """
    dump = np.stack([COS_BESIDE_SIN, np.roll(COS_BESIDE_SIN, -1, axis=0), COS_BESIDE_SIN])
    mask = np.ones((3, 12), int)

    assert not pecli.verify(dump, CONFIG, attention_mask=mask, atol=1e-6, reasons=False).passed


def test_two_tables_without_a_name_are_taken_for_cosines_and_sines_and_not_for_a_batch() -> None:
    """An array (2, 12, 16) may be two sequences of [cos | sin] with 12 positions, or cosines and
    sines with 16 columns each. It is read as the latter, although there is a mask for two
    sequences.
    """
    message = error_of_verify(
        np.stack([COS_BESIDE_SIN] * 2), CONFIG, attention_mask=np.ones((2, 12), int)
    )
    assert message == (
        "attention_mask is of shape (2, 12); no table of these arrays is (2, 12, …); "
        "leave it out, or dump tables per batch"
    )


def test_rows_of_padding_are_not_compared() -> None:
    """There are tables for two sequences of 12 positions. The second has one row of padding in
    front, which repeats row 0, and its mask hides it: 12 + 11 = 23 tokens are compared.
    """
    dump = cosines_and_sines(lambda table: np.stack([table, np.vstack([table[:1], table[:-1]])]))
    mask = [[1] * 12, [0] + [1] * 11]
    result = pecli.verify(dump, CONFIG, attention_mask=mask, atol=1e-6)
    reading = "one column per frequency, 23 tokens of (2, 12), one after the other"

    assert result.readings["cos"] == reading
