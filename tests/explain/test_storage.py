"""Storages: grids of numbers that files hold, and how far a stored number may be from the one that
was stored.

Expected numbers follow from the bits of each dtype and from decimals, by hand.
"""

from typing import Any

import numpy as np
import pytest

from pecli.engine.arrays import numpy_dtype
from pecli.engine.edits import Decimals, Dtype, Edit, FixedPoint, RoundingMode
from pecli.explain.storage import (
    UNROUNDED,
    FloatStorage,
    StepStorage,
    Storage,
    TruncatedStorage,
    TwiceRounded,
    decimals,
    half_ulp,
    rounded_to,
    storages_of,
)

RANDOM = np.random.default_rng(0).uniform(-1, 1, 500)
TENTH = 0.1
HALF_BFLOAT16_ULP_OF_1 = 2.0**-8


@pytest.mark.parametrize(
    ("dtype", "half"),
    [
        ("float64", 2.0**-53),
        ("float32", 2.0**-24),
        ("float16", 2.0**-11),
        ("bfloat16", 2.0**-8),
        ("float8_e4m3fn", 2.0**-4),
        ("float8_e5m2", 2.0**-3),
    ],
)
def test_half_an_ulp_follows_from_the_bits_of_a_dtype(dtype: str, half: float) -> None:
    """From 1 on, and four times as much from 4 on; below the smallest normal number it is constant."""
    assert half_ulp(np.array([1.0, -1.75, 4.0]), dtype).tolist() == [half, half, 4 * half]

    smallest_steps = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
    if dtype in smallest_steps:
        (tiny,) = half_ulp(np.array([1e-300]), dtype)
        assert 2 * tiny == smallest_steps[dtype]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_values_are_rounded_as_a_cast_rounds_them(dtype: str) -> None:
    cast = RANDOM.astype(numpy_dtype(dtype)).astype(np.float64)
    assert np.array_equal(rounded_to(RANDOM, dtype), cast)
    assert np.array_equal(FloatStorage(dtype).rounded(RANDOM), cast)


def test_values_beyond_the_range_of_float32_do_not_overflow() -> None:
    """They are rounded to the 24 significant bits of float32, without its limit of 3.4e38."""
    assert rounded_to(np.array([1e39]), "float32")[0] == pytest.approx(1e39, rel=1e-7)


def test_values_without_a_dtype_are_not_rounded() -> None:
    assert rounded_to(RANDOM, None) is RANDOM


def test_two_decimals_hold_hundredths_and_nothing_else() -> None:
    """RANDOM has many decimals, and 0.005 lies between two hundredths."""
    hundredths = np.round(RANDOM, 2)
    storage = decimals(2)

    assert storage.holds(hundredths)
    assert storage.holds(np.zeros(3))
    assert not storage.holds(RANDOM)
    assert not storage.holds(np.append(hundredths, 0.005))


def test_two_decimals_hold_hundredths_that_were_rounded_to_float32() -> None:
    """0.01 in float32 is off by 2e-10, its own rounding."""
    assert decimals(2).holds(np.round(RANDOM, 2).astype(np.float32).astype(np.float64))


def test_float16_holds_its_own_numbers_and_no_others() -> None:
    """float16 has 11 bits, and numbers of RANDOM have 53."""
    assert FloatStorage("float16").holds(RANDOM.astype(np.float16).astype(np.float64))
    assert not FloatStorage("float16").holds(RANDOM)


def test_float32_does_not_hold_numbers_between_its_own() -> None:
    """From 0.5 to 1, neighbours of float32 are 2^-24 apart: a number between two is on neither."""
    in_float32 = np.array([0.5, 0.75])

    assert FloatStorage("float32").holds(in_float32)
    assert not FloatStorage("float32").holds(in_float32 + 2.0**-26)


def test_the_unit_of_decimals_is_the_same_at_all_values() -> None:
    assert decimals(2).half_unit(np.array([0.0, 3.0, -7.0])) == pytest.approx([0.005] * 3)
    assert decimals(1).rounded(np.array([0.26, -0.26])) == pytest.approx([0.3, -0.3])


def test_what_was_not_rounded_is_off_by_nothing() -> None:
    """UNROUNDED is the storage of exact numbers: half a step between them is 0, only the dtype of
    the file rounds them, and stated as an edit they are float64.
    """
    assert UNROUNDED.rounded(RANDOM) is RANDOM
    assert UNROUNDED.half_unit(RANDOM[:2]).tolist() == [0, 0]
    assert np.array_equal(UNROUNDED.stored(RANDOM, "float16"), rounded_to(RANDOM, "float16"))
    assert UNROUNDED.edit == Dtype("float64")


@pytest.mark.parametrize(
    ("mode", "rounded", "middle"),
    [
        ("toward zero", [0.3, -0.3, 0.4, 0.0], [0.35, -0.35, 0.45, 0.0]),
        ("down", [0.3, -0.4, 0.4, 0.0], [0.35, -0.35, 0.45, 0.05]),
    ],
)
def test_numbers_are_cut_off_toward_zero_or_down(
    mode: str, rounded: list[float], middle: list[float]
) -> None:
    """0.38, −0.38, 0.42 and 0 with one decimal; what became 0.3 lies between 0.3 and 0.4."""
    storage = TruncatedStorage(decimals(1), mode)
    cut = storage.rounded(np.array([0.38, -0.38, 0.42, 0.0]))

    assert cut == pytest.approx(rounded)
    assert storage.middle(cut) == pytest.approx(middle)
    # Toward zero, 0 stands for numbers of both signs.
    half_units = [0.05, 0.05, 0.05, 0.1 if mode == "toward zero" else 0.05]
    assert storage.half_unit(np.array([0.3, -0.3, 0.4, 0.0])) == pytest.approx(half_units)
    assert storage.edit == RoundingMode(mode, "1 decimals")


def test_a_bfloat16_of_a_float16_is_rounded_twice() -> None:
    """1 + 2^-8 + 2^-12 is nearer to 1 + 2^-7, but in float16 it is 1 + 2^-8, halfway to 1."""
    storage = TwiceRounded()
    value = np.array([1 + 2.0**-8 + 2.0**-12])

    assert rounded_to(value, "bfloat16")[0] == 1 + 2.0**-7
    assert storage.rounded(value)[0] == 1
    assert storage.half_unit(np.array([1.0]))[0] == 2.0**-8 + 2.0**-11
    assert storage.edit == Dtype("bfloat16")


@pytest.mark.parametrize(
    ("step", "edit"),
    [
        pytest.param(0.001, Decimals(3), id="thousandths are three decimals"),
        pytest.param(0.1, Decimals(1), id="tenths are one decimal"),
        pytest.param(1 / 127, FixedPoint(1 / 127), id="1/127 of int8"),
        pytest.param(0.25, FixedPoint(0.25), id="quarters"),
    ],
)
def test_a_step_of_a_power_of_ten_is_decimals(step: float, edit: Edit) -> None:
    """Numbers that are multiples of 0.001 were printed with three decimals; those that are multiples
    of another step were stored as integers.
    """
    assert StepStorage(step).edit == edit


def coarser_storages(values: Any, dtype: str = "float32") -> list[Edit]:
    return [storage.edit for storage in storages_of(np.asarray(values, np.float64), dtype)]


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"]
)
def test_the_coarsest_dtype_that_holds_values_is_yielded(dtype: str) -> None:
    values = RANDOM.astype(numpy_dtype(dtype)).astype(np.float64)
    assert Dtype(dtype) in coarser_storages(values, "float64")


@pytest.mark.parametrize(
    ("file_dtype", "expected"),
    [("float64", [Dtype("float16")]), ("float32", [Dtype("float16")])],
)
def test_only_dtypes_coarser_than_that_of_the_file_are_yielded(
    file_dtype: str, expected: list[Edit]
) -> None:
    """The values are numbers of float16, so also of float32: only the coarsest dtype is yielded."""
    values = RANDOM.astype(np.float16).astype(np.float64)
    assert coarser_storages(values, file_dtype) == expected
    assert Dtype("float16") not in coarser_storages(values, "float16")


@pytest.mark.parametrize("digits", [1, 2, 6])
def test_decimals_are_found(digits: int) -> None:
    assert coarser_storages(np.round(RANDOM, digits)) == [Decimals(digits)]


def test_seven_decimals_are_as_many_as_float32_has() -> None:
    assert coarser_storages(np.round(RANDOM, 7)) == []


@pytest.mark.parametrize("levels", [127, 255, 2**15 - 1])
def test_integers_with_a_usual_scale_are_found(levels: int) -> None:
    values = np.rint(RANDOM * levels) / levels
    assert coarser_storages(values) == [FixedPoint(1 / levels)]


@pytest.mark.parametrize(("largest", "is_found"), [(40, True), (32768, True), (32769, False)])
def test_integers_with_a_scale_of_their_own_are_found(largest: int, is_found: bool) -> None:
    """All values are multiples of 0.01/π; integers of 16 bits have 2^15 levels."""
    step = 0.01 / np.pi
    found = [*storages_of(step * np.array([0.0, 1, 5, -7, largest]), "float16")]

    assert len(found) == is_found
    assert all(isinstance(storage, StepStorage) for storage in found)
    assert [storage.half_unit(RANDOM[:1])[0] for storage in found] == pytest.approx(
        [step / 2] * is_found
    )


def test_integers_of_few_levels_have_no_scale() -> None:
    """The numbers are 0, 1 and 3 times 1/π; but so few levels prove no scale: many tables have one."""
    assert [*storages_of(np.array([0.0, 1, 3]) / np.pi, "float32")] == []


@pytest.mark.parametrize(
    "values",
    [RANDOM, np.arange(5.0), np.zeros(4), [np.nan, np.inf], []],
    ids=["random", "whole numbers", "zeros", "not finite", "none"],
)
def test_numbers_on_no_coarse_grid_have_no_storage(values: Any) -> None:
    assert coarser_storages(values) == []


def test_a_step_must_be_small_beside_the_largest_value() -> None:
    """One decimal of numbers up to 0.3 has steps of a third, which hold anything."""
    assert coarser_storages([0.1, 0.2, 0.3, 0.0]) != [Decimals(1)]
    assert coarser_storages([0.1, 0.2, 0.3, 1.0]) == [Decimals(1)]


@pytest.mark.parametrize("storage", [FloatStorage("float16"), decimals(2), TwiceRounded()])
def test_a_number_that_was_rounded_to_nearest_is_the_middle_of_those_stored_as_it(
    storage: Storage,
) -> None:
    """`middle` returns such numbers themselves. `stored` gives them as a file of float64 holds them,
    which is finer than the storage and changes nothing.
    """
    assert storage.middle(RANDOM) is RANDOM
    assert np.array_equal(storage.stored(RANDOM, "float64"), storage.rounded(RANDOM))
