"""Inputs to which rows of a learned table were added: verify finds whether the right rows were.

`before` are the inputs (2 sequences of 5 tokens, all ones), the dump is their sum with rows of a
random table of 8 rows; the sums are NumPy's. Expected words are written by hand.
"""

from typing import Any

import numpy as np
import pytest

import pecli
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


@pytest.mark.parametrize(("times", "passed"), [(2, True), (3, False)])
def test_inputs_plus_a_table_pass(times: int, passed: bool) -> None:
    """Inputs and table are ones, so the sum is 2, and 3 is wrong."""
    result = pecli.verify(times * INPUTS_OF_ONES, INPUTS_OF_ONES[0], before=INPUTS_OF_ONES)
    assert result.passed == passed
    assert result.scheme == "learned table"


def test_a_table_may_be_an_array_that_gives_its_values_by_dlpack_only() -> None:
    """Arrays of other libraries do so (`Exchanged` has no other access). 1 + 1 is 2, and 3 wrong."""
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
def test_other_rows_are_named(rows: list[int], positions: str) -> None:
    """Rows 1 to 5 of the table were added where 0 to 4 belong, or rows in reverse."""
    diagnosis = pecli.verify(
        INPUTS_OF_ONES[0] + LEARNED_TABLE[rows], LEARNED_TABLE, before=INPUTS_OF_ONES[0], atol=1e-6
    ).diagnosis
    assert diagnosis[0].startswith(f"after: positions are {positions};")


def test_other_rows_are_named_by_sequence() -> None:
    """To inputs of two sequences, a learned table was added: rows 0 to 4 to the first, as expected,
    but rows 1 to 5 to the second.
    """
    dump = INPUTS_OF_ONES + np.stack([LEARNED_TABLE[:5], LEARNED_TABLE[1:6]])
    reason = "sequence 1: positions are 1 … 5; expected 0 … 4: all 1 too far;"
    diagnosis = pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES, atol=1e-6).diagnosis

    assert diagnosis[0].startswith(reason)


def test_other_rows_are_not_named_without_reasons() -> None:
    """Rows 1 to 5 were added where 0 to 4 belong; with reasons=False no search for that is made."""
    dump = INPUTS_OF_ONES[0] + LEARNED_TABLE[1:6]
    result = pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES[0], atol=1e-6, reasons=False)

    assert result.diagnosis == ()


@pytest.mark.parametrize(("offset", "passed"), [(3, True), (2, False)])
def test_added_rows_pass_only_from_the_offset_from_which_they_were_added(
    offset: int, passed: bool
) -> None:
    """Rows 3 to 7 of a learned table were added to inputs of ones."""
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
    """Two tokens of padding got row 4; the other three are at positions 0, 1, 2, which the
    positions or a mask of the padding say.
    """
    dump = INPUTS_OF_ONES[0] + LEARNED_TABLE[[4, 4, 0, 1, 2]]
    assert (
        pecli.verify(dump, LEARNED_TABLE, before=INPUTS_OF_ONES[0], atol=1e-6, **place).passed
        == passed
    )


def test_a_mask_moves_the_first_position() -> None:
    """After two tokens of padding, rows 0, 1, 2 belong to the rest, but 2, 3, 4 were added."""
    dump = INPUTS_OF_ONES[0] + LEARNED_TABLE[:5]
    mask = [0, 0, 1, 1, 1]

    assert not pecli.verify(
        dump, LEARNED_TABLE, before=INPUTS_OF_ONES[0], attention_mask=mask, atol=1e-6, reasons=False
    ).passed


def test_sums_that_are_not_finite_are_a_problem() -> None:
    """The learned table is infinite: all 5 · 8 = 40 sums of tokens and channels are."""
    problem = "array: 40 of the sums are no finite numbers, of which nothing can be told"
    assert pecli.verify(
        INPUTS_OF_ONES[0], LEARNED_TABLE * np.inf, before=INPUTS_OF_ONES[0]
    ).problems == (problem,)


def test_infinite_values_fail() -> None:
    """The sums of inputs and a learned table are infinite; neither the inputs nor the table are."""
    assert not pecli.verify(
        INPUTS_OF_ONES[0] + np.inf, LEARNED_TABLE, before=INPUTS_OF_ONES[0], reasons=False
    ).passed


def test_inputs_without_a_sum_are_listed_as_unchecked() -> None:
    """`before` has the inputs a and c, and the dump only the sum of a."""
    dump = {"a": INPUTS_OF_ONES[0] + LEARNED_TABLE[:5]}
    result = pecli.verify(
        dump, LEARNED_TABLE, before={"a": INPUTS_OF_ONES[0], "c": INPUTS_OF_ONES}, atol=1e-6
    )

    assert result.unchecked == ("c",)


SINUSOIDAL = pecli.Sinusoidal(5, 8)


@pytest.mark.parametrize("as_spec", [False, True], ids=["scheme", "spec"])
def test_rows_of_a_scheme_may_be_added(as_spec: bool) -> None:
    """Rows of the sinusoidal table were added to both sequences, one after the other."""
    dump = INPUTS_OF_ONES + SINUSOIDAL.tables()["pe"]
    scheme: Any = SINUSOIDAL.spec() if as_spec else SINUSOIDAL
    result = pecli.verify(dump, scheme, before=INPUTS_OF_ONES, atol=1e-6)

    assert result.passed
    assert result.scheme == "sinusoidal"
    assert not pecli.verify(2 * INPUTS_OF_ONES, scheme, before=INPUTS_OF_ONES, reasons=False).passed


def test_a_table_of_another_base_that_was_added_is_named() -> None:
    """Rows of base 500 were added instead of base 10000. No command makes sums."""
    dump = INPUTS_OF_ONES + pecli.Sinusoidal(5, 8, base=500.0).tables()["pe"]
    result = pecli.verify(dump, SINUSOIDAL, before=INPUTS_OF_ONES, atol=1e-6)

    (sentence,) = result.diagnosis
    assert sentence.startswith("sequence 0, sequence 1: base is 500 (the spec says 10000); ")


def test_a_scheme_that_is_not_added_takes_no_inputs() -> None:
    """Rope rotates: its tables are not added to inputs."""
    with pytest.raises(pecli.PecliError, match="before is given; it belongs to a model"):
        pecli.verify(INPUTS_OF_ONES, pecli.Rope(5, 8), before=INPUTS_OF_ONES)
