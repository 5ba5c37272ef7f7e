"""Inputs to which rows of a learned table were added: verify finds whether the right rows were.

`before` are the inputs (2 sequences of 5 tokens, all ones), the dump is their sum with rows of a
random table of 8 rows; the sums are NumPy's. Expected words are written by hand.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Rotation
from tests.checks.waves import Array

INPUTS_OF_ONES = np.ones((2, 5, 8), "f4")  # sequences, tokens, channels
LEARNED_TABLE: Array = np.random.default_rng(0).normal(size=(8, 8))


class Exchanged:
    """An array that gives its values up by DLPack alone, as those of other libraries do."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype = array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(("sum_in_dump", "passed"), [(2, True), (3, False)])
def test_a_dump_of_inputs_plus_a_table_passes_only_if_it_is_their_sum(
    sum_in_dump: int, passed: bool
) -> None:
    """Inputs and table are ones, so that the sum is 2."""
    table = INPUTS_OF_ONES[0]
    result = pecli.verify(sum_in_dump * INPUTS_OF_ONES, table, before=INPUTS_OF_ONES)
    assert result.passed == passed
    assert result.scheme == "learned table"


def test_a_table_may_be_an_array_that_gives_its_values_by_dlpack_only() -> None:
    """Arrays of other libraries do so (`Exchanged` has no other access). Inputs and table are ones,
    so that the sum is 2, and 3 is wrong.
    """
    table: Any = Exchanged(INPUTS_OF_ONES[0])
    assert pecli.verify(2 * INPUTS_OF_ONES, table, before=INPUTS_OF_ONES).passed
    assert not pecli.verify(3 * INPUTS_OF_ONES, table, before=INPUTS_OF_ONES, reasons=False).passed


@pytest.mark.parametrize(
    ("rows", "positions"),
    [
        ([1, 2, 3, 4, 5], "1 … 5; expected 0 … 4: all 1 too far"),
        ([4, 3, 2, 1, 0], "4, then 3, then 2, then 1, then 0; expected 0 … 4"),
    ],
    ids=["one too far", "reversed"],
)
def test_rows_that_were_added_at_wrong_positions_are_named(rows: list[int], positions: str) -> None:
    """To inputs of 5 tokens belong the rows 0 to 4 of a learned table; `rows` were added
    instead.
    """
    inputs = INPUTS_OF_ONES[0]
    dump = inputs + LEARNED_TABLE[rows]
    diagnosis = pecli.verify(dump, LEARNED_TABLE, before=inputs, atol=1e-6).diagnosis
    assert diagnosis[0].startswith(f"after: positions are {positions};")


def test_rows_that_were_added_at_wrong_positions_are_named_with_their_sequence() -> None:
    """To inputs of two sequences, a learned table was added: rows 0 to 4 to the first, as expected,
    but rows 1 to 5 to the second.
    """
    dump = INPUTS_OF_ONES + np.stack([LEARNED_TABLE[:5], LEARNED_TABLE[1:6]])
    reason = "sequence 1: positions are 1 … 5; expected 0 … 4: all 1 too far;"
    diagnosis = pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES, atol=1e-6).diagnosis

    assert diagnosis[0].startswith(reason)


def test_wrong_rows_are_not_searched_for_without_reasons() -> None:
    """Rows 1 to 5 were added where 0 to 4 belong. With reasons=False the check fails without a search
    for the rows that were added.
    """
    dump = INPUTS_OF_ONES[0] + LEARNED_TABLE[1:6]
    result = pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES[0], atol=1e-6, reasons=False)

    assert not result.passed
    assert result.diagnosis == ()


@pytest.mark.parametrize(("offset", "passed"), [(3, True), (2, False)])
def test_added_rows_pass_only_from_the_offset_from_which_they_were_added(
    offset: int, passed: bool
) -> None:
    """Rows 3 to 7 of a learned table were added to inputs of 5 tokens: their first position
    is 3.
    """
    dump = INPUTS_OF_ONES[0] + LEARNED_TABLE[3:8]
    result = pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES[0], offset=offset, atol=1e-6)

    assert result.passed == passed


@pytest.mark.parametrize(
    ("place", "passed"),
    [
        ({}, False),
        ({"positions": [4, 4, 0, 1, 2]}, True),
        ({"attention_mask": [0, 0, 1, 1, 1]}, True),
    ],
    ids=["from 0 on", "positions", "a mask"],
)
def test_padding_is_not_compared(place: dict[str, Any], passed: bool) -> None:
    """Two tokens of padding got row 4, and the three after them rows 0, 1, 2. That is right for the
    positions 4, 4, 0, 1, 2, or if a mask marks the first two as padding.
    """
    inputs = INPUTS_OF_ONES[0]
    dump = inputs + LEARNED_TABLE[[4, 4, 0, 1, 2]]
    result = pecli.verify(dump, LEARNED_TABLE, before=inputs, atol=1e-6, **place)

    assert result.passed == passed


def test_with_a_mask_positions_are_counted_from_the_first_token_after_padding() -> None:
    """After two tokens of padding, rows 0, 1, 2 belong to the other three, but 2, 3, 4 were
    added.
    """
    inputs = INPUTS_OF_ONES[0]
    dump = inputs + LEARNED_TABLE[:5]
    result = pecli.verify(
        dump,
        LEARNED_TABLE,
        before=inputs,
        attention_mask=[0, 0, 1, 1, 1],
        atol=1e-6,
        reasons=False,
    )

    assert not result.passed


def test_sums_that_are_not_finite_are_a_problem() -> None:
    """The learned table is infinite, and so are all 5 · 8 = 40 sums (5 tokens, 8 channels)."""
    inputs = INPUTS_OF_ONES[0]
    result = pecli.verify(inputs, LEARNED_TABLE * np.inf, before=inputs)

    problem = "array: 40 of the sums are no finite numbers, of which nothing can be told"
    assert result.problems == (problem,)


def test_infinite_values_in_the_dump_fail() -> None:
    """The dump is infinite, although neither the inputs nor the learned table are."""
    inputs = INPUTS_OF_ONES[0]
    result = pecli.verify(inputs + np.inf, LEARNED_TABLE, before=inputs, reasons=False)

    assert not result.passed


def test_inputs_without_a_sum_are_listed_as_unchecked() -> None:
    """`before` has the inputs a and c, and the dump has only the sum of a with a learned table."""
    inputs = {"a": INPUTS_OF_ONES[0], "c": INPUTS_OF_ONES}
    dump = {"a": inputs["a"] + LEARNED_TABLE[:5]}
    result = pecli.verify(dump, LEARNED_TABLE, before=inputs, atol=1e-6)

    assert result.unchecked == ("c",)


SINUSOIDAL = pecli.Sinusoidal(5, 8)


@pytest.mark.parametrize("as_spec", [False, True], ids=["scheme", "spec"])
def test_rows_of_a_scheme_may_be_added(as_spec: bool) -> None:
    """SINUSOIDAL is a table of 5 positions and 8 channels, given as a scheme or as its spec. Its
    rows were added to the inputs, ones, of two sequences; twice the inputs are not that sum.
    """
    dump = INPUTS_OF_ONES + SINUSOIDAL.tables()["pe"]
    scheme: Any = SINUSOIDAL.spec() if as_spec else SINUSOIDAL
    result = pecli.verify(dump, scheme, before=INPUTS_OF_ONES, atol=1e-6)

    assert result.passed
    assert result.scheme == "sinusoidal"
    assert not pecli.verify(2 * INPUTS_OF_ONES, scheme, before=INPUTS_OF_ONES, reasons=False).passed


def test_a_table_of_another_base_that_was_added_is_named() -> None:
    """Rows of a sinusoidal table of base 500 were added to both sequences, instead of base 10000.
    The reason is the only line, as no command makes sums.
    """
    dump = INPUTS_OF_ONES + pecli.Sinusoidal(5, 8, base=500.0).tables()["pe"]
    result = pecli.verify(dump, SINUSOIDAL, before=INPUTS_OF_ONES, atol=1e-6)

    (sentence,) = result.diagnosis
    assert sentence.startswith("sequence 0, sequence 1: base is 500 (the spec says 10000); ")


def test_inputs_are_refused_for_a_scheme_that_is_not_added() -> None:
    """Rope rotates queries and keys; its tables are not added to inputs."""
    with pytest.raises(pecli.PecliError, match="before is given; it belongs to a model"):
        pecli.verify(INPUTS_OF_ONES, pecli.Rope(5, 8), before=INPUTS_OF_ONES)


RANDOM_INPUTS: Array = np.random.default_rng(1).normal(size=(2, 5, 8))


@pytest.mark.parametrize(
    ("inputs", "table", "words"),
    [
        (INPUTS_OF_ONES, LEARNED_TABLE[:, :4], r"table is of shape \(8, 4\); .* \(2, 5, 8\); they"),
        (INPUTS_OF_ONES, LEARNED_TABLE[0], r"table is of shape \(8\)"),
        (INPUTS_OF_ONES, LEARNED_TABLE[None], r"table is of shape \(1, 8, 8\)"),
        (INPUTS_OF_ONES[None], LEARNED_TABLE, r"the array is of shape \(1, 2, 5, 8\)"),
        (INPUTS_OF_ONES[0, 0], LEARNED_TABLE, r"of shape \(8,\); .* alike, \(…, L, D\)"),
        (INPUTS_OF_ONES, LEARNED_TABLE[:4], "of 4 rows; row 4 is needed; give a longer one"),
        (INPUTS_OF_ONES, LEARNED_TABLE + 0j, "of dtype complex128; rows that are added are real"),
    ],
    ids=["width", "a vector", "three axes", "four axes", "one token", "too short", "complex"],
)
def test_inputs_and_tables_whose_shapes_do_not_belong_together_are_refused(
    inputs: Array, table: Array, words: str
) -> None:
    """Inputs are (L, D) or (batch, L, D), here (2, 5, 8), and the table, here 8 × 8, has a row of D
    numbers for each token.
    """
    with pytest.raises(pecli.PecliError, match=words):
        pecli.verify(inputs, table, before=inputs)


def test_inputs_of_another_shape_than_the_sums_are_refused() -> None:
    """There are sums of two sequences, and inputs of one."""
    with pytest.raises(pecli.PecliError, match="they must be alike"):
        pecli.verify(INPUTS_OF_ONES, LEARNED_TABLE, before=INPUTS_OF_ONES[:1])


def test_a_shift_of_added_rows_is_refused() -> None:
    """A shift moves the rotated keys of a cache; rows that were added cannot be moved."""
    with pytest.raises(pecli.PecliError, match="shift is given; inputs have positions"):
        pecli.verify(INPUTS_OF_ONES, LEARNED_TABLE, before=INPUTS_OF_ONES, shift=3)


def test_a_table_that_was_multiplied_before_it_was_added_is_named_with_its_factor() -> None:
    """Twice rows 0 to 4 of the learned table were added to one sequence of 5 tokens. «table» is what
    was added: sum minus inputs.
    """
    inputs = RANDOM_INPUTS[0]
    dump = inputs + 2 * LEARNED_TABLE[:5]
    result = pecli.verify(dump, LEARNED_TABLE, before=inputs, atol=1e-6)

    assert result.diagnosis == ("table: values are scaled by 2; exact",)


def test_a_table_that_was_multiplied_for_one_sequence_is_named_with_that_sequence() -> None:
    """Rows 0 to 4 of the learned table were added to sequence 0, and twice these rows to sequence
    1. «table» is what was added: sum minus inputs.
    """
    factors = np.array([1, 2])[:, None, None]  # of sequence 0 and sequence 1
    dump = RANDOM_INPUTS + factors * LEARNED_TABLE[:5]
    result = pecli.verify(dump, LEARNED_TABLE, before=RANDOM_INPUTS, atol=1e-6)

    assert result.diagnosis == ("table, sequence 1: values are scaled by 2; exact",)


def test_rows_that_were_not_added_are_named() -> None:
    """The dump has the inputs, unchanged. That is right only if the table to be added is zeros."""
    result = pecli.verify(RANDOM_INPUTS[0], LEARNED_TABLE, before=RANDOM_INPUTS[0], atol=1e-6)
    assert [each.edits for each in result.explanations] == [(Rotation("none added"),)]
    assert pecli.verify(RANDOM_INPUTS[0], 0 * LEARNED_TABLE, before=RANDOM_INPUTS[0]).passed


FIRST_TOKEN_IS_PADDING = [[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
"""An attention mask of two sequences of 5 tokens: token 0 of sequence 0 is padding."""


def sums_with_nan_in_the_padding() -> Array:
    """Return RANDOM_INPUTS plus the right rows of the table, but NaN in the 8 channels of padding.

    Positions are counted after the padding: sequence 0 has the rows 0 to 3, sequence 1 the rows 0
    to 4.
    """
    sums = RANDOM_INPUTS.copy()
    sums[0, 0] = np.nan
    sums[0, 1:] += LEARNED_TABLE[:4]
    sums[1] += LEARNED_TABLE[:5]
    return sums


def verify_with_padding(sums: Array, before: Array = RANDOM_INPUTS) -> Any:
    return pecli.verify(
        sums,
        LEARNED_TABLE,
        before=before,
        attention_mask=FIRST_TOKEN_IS_PADDING,
        atol=1e-6,
        reasons=False,
    )


def test_padding_that_became_nan_is_a_problem_if_all_other_sums_are_right() -> None:
    """The inputs are finite. One token of padding, which has 8 channels, is NaN after the sum."""
    result = verify_with_padding(sums_with_nan_in_the_padding())

    problem = "array: 8 of its values in padding are infinite or not numbers"
    assert result.problems == (problem,)
    assert not result.passed


def test_padding_that_was_nan_before_is_no_problem() -> None:
    """The token of padding is NaN in the inputs, and so NaN plus any row is NaN."""
    inputs = RANDOM_INPUTS.copy()
    inputs[0, 0] = np.nan

    assert verify_with_padding(sums_with_nan_in_the_padding(), before=inputs).passed


def test_padding_that_became_nan_is_not_a_problem_beside_a_sum_that_is_wrong() -> None:
    """Token 1 of sequence 1 is too large by 1, which is why the dump fails. That the padding is NaN
    would be a second problem, which matters only if all else is right: `problems` is empty.
    """
    sums = sums_with_nan_in_the_padding()
    sums[1, 1] += 1
    result = verify_with_padding(sums)

    assert not result.passed
    assert result.problems == ()


def test_wrong_positions_are_named_rather_than_a_table_with_another_offset() -> None:
    """Rows 1 to 5 of a sinusoidal table of 8 rows were added, where 0 to 4 belong. They are also
    the first rows of a table that begins at position 1.
    """
    scheme = pecli.Sinusoidal(8, 8)
    dump = RANDOM_INPUTS[0] + scheme.tables()["pe"][1:6]
    (sentence,) = pecli.verify(dump, scheme, before=RANDOM_INPUTS[0], atol=1e-6).diagnosis

    assert sentence.startswith("after: positions are 1 … 5; expected 0 … 4: all 1 too far")


def test_another_table_is_searched_for_in_consecutive_rows_only() -> None:
    """Rows of a table of base 500 were added, in the order 0, 2, 1, 3, 4 of the positions that are
    given; of consecutive positions, another base would be named.
    """
    places = [0, 2, 1, 3, 4]
    dump = RANDOM_INPUTS[0] + pecli.Sinusoidal(5, 8, base=500.0).tables()["pe"][places]
    result = pecli.verify(dump, SINUSOIDAL, before=RANDOM_INPUTS[0], positions=places, atol=1e-6)

    assert not result.passed
    assert result.explanations == ()


def test_a_learned_table_has_no_parameters_that_a_reason_could_name() -> None:
    """The rows of one learned table were added, and those of another are expected."""
    scheme = pecli.LearnedInit(5, 8)
    result = pecli.verify(
        RANDOM_INPUTS[0] + LEARNED_TABLE[:5], scheme, before=RANDOM_INPUTS[0], atol=1e-6
    )
    assert not result.passed
    assert result.explanations == ()
