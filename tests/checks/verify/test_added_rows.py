"""Inputs to which rows of a learned table were added, and the positions of these rows."""

from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.waves import Array

X = np.ones((2, 5, 8), "f4")  # sequences, tokens, channels
WEIGHT: Array = np.random.default_rng(0).normal(size=(8, 8))


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
def test_the_sum_of_inputs_and_a_table(times: int, passed: bool) -> None:
    result = pecli.verify(times * X, X[0], before=X)
    assert result.passed == passed
    assert result.scheme == "learned table"


def test_a_table_of_another_library() -> None:
    table: Any = Exchanged(X[0])
    assert pecli.verify(2 * X, table, before=X).passed


@pytest.mark.parametrize(
    ("rows", "positions"),
    [
        ([1, 2, 3, 4, 5], "1 … 5; expected 0 … 4: all 1 too far"),
        ([4, 3, 2, 1, 0], "4, then 3, then 2, then 1, then 0; expected 0 … 4"),
    ],
    ids=["one too far", "reversed"],
)
def test_other_rows_are_named(rows: list[int], positions: str) -> None:
    diagnosis = pecli.verify(X[0] + WEIGHT[rows], WEIGHT, before=X[0], atol=1e-6).diagnosis
    assert diagnosis[0].startswith(f"after: positions are {positions};")


def test_other_rows_are_named_by_sequence() -> None:
    dump = X + np.stack([WEIGHT[:5], WEIGHT[1:6]])
    reason = "sequence 1: positions are 1 … 5; expected 0 … 4: all 1 too far;"
    diagnosis = pecli.verify(dump, WEIGHT, before=X, atol=1e-6).diagnosis
    assert diagnosis[0].startswith(reason)


def test_other_rows_are_not_named_without_reasons() -> None:
    dump = X[0] + WEIGHT[1:6]
    result = pecli.verify(dump, WEIGHT, before=X[0], atol=1e-6, reasons=False)
    assert result.diagnosis == ()


@pytest.mark.parametrize(("offset", "passed"), [(3, True), (2, False)])
def test_rows_from_an_offset_on(offset: int, passed: bool) -> None:
    dump = X[0] + WEIGHT[3:8]
    result = pecli.verify(dump, WEIGHT, before=X[0], offset=offset, atol=1e-6)
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
    dump = X[0] + WEIGHT[[4, 4, 0, 1, 2]]
    assert pecli.verify(dump, WEIGHT, before=X[0], atol=1e-6, **place).passed == passed


def test_a_mask_moves_the_first_position() -> None:
    dump = X[0] + WEIGHT[:5]
    mask = [0, 0, 1, 1, 1]
    assert not pecli.verify(
        dump, WEIGHT, before=X[0], attention_mask=mask, atol=1e-6, reasons=False
    ).passed


def test_sums_that_are_not_finite_are_a_problem() -> None:
    problem = "array: 40 of the sums are no finite numbers, of which nothing can be told"
    assert pecli.verify(X[0], WEIGHT * np.inf, before=X[0]).problems == (problem,)


def test_infinite_values_fail() -> None:
    assert not pecli.verify(X[0] + np.inf, WEIGHT, before=X[0], reasons=False).passed


def test_inputs_without_a_sum_are_listed() -> None:
    dump = {"a": X[0] + WEIGHT[:5]}
    result = pecli.verify(dump, WEIGHT, before={"a": X[0], "c": X}, atol=1e-6)
    assert result.unchecked == ("c",)
