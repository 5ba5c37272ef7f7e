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


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("float64", 53),
        ("float32", 24),
        ("float16", 11),
        ("bfloat16", 8),
        ("float8_e4m3fn", 4),
        ("float8_e5m2", 3),
    ],
)
def test_half_an_ulp_follows_from_the_bits_of_a_dtype(dtype: str, bits: int) -> None:
    """Numbers of n significant bits are 2^(1−n) apart from 1 to 2, whatever their sign, so that half
    an ULP is 2^−n. From 4 to 8 it is four times as much.
    """
    half = 2.0**-bits
    assert half_ulp(np.array([1.0, -1.75, 4.0]), dtype).tolist() == [half, half, 4 * half]


@pytest.mark.parametrize(
    ("dtype", "smallest_number"),
    [("float16", 2.0**-24), ("float8_e4m3fn", 2.0**-9), ("float8_e5m2", 2.0**-16)],
)
def test_an_ulp_is_at_least_the_smallest_number_of_a_dtype(
    dtype: str, smallest_number: float
) -> None:
    """Near 0 the numbers of a dtype are multiples of its smallest one, a subnormal number, which is by
    the definition of the format.
    """
    (half,) = half_ulp(np.array([1e-300]), dtype)
    assert 2 * half == smallest_number


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_values_are_rounded_as_a_cast_rounds_them(dtype: str) -> None:
    """500 random numbers are rounded to the dtype, and stay float64; NumPy's and ml_dtypes' casts
    there and back are expected.
    """
    cast = RANDOM.astype(numpy_dtype(dtype)).astype(np.float64)
    assert np.array_equal(rounded_to(RANDOM, dtype), cast)
    assert np.array_equal(FloatStorage(dtype).rounded(RANDOM), cast)


def test_values_beyond_the_range_of_float32_do_not_overflow() -> None:
    """float32 ends at 3.4e38. 1e39 is rounded to 24 significant bits, as float32 has them, and does
    not become infinite.
    """
    assert rounded_to(np.array([1e39]), "float32")[0] == pytest.approx(1e39, rel=1e-7)


def test_values_without_a_dtype_are_not_rounded() -> None:
    """The same array is returned, not a copy."""
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


def test_half_a_unit_of_two_decimals_is_0_005_at_all_values() -> None:
    """Floats are further apart the larger they are; decimals are not."""
    values = np.array([0.0, 3.0, -7.0])
    assert decimals(2).half_unit(values) == pytest.approx([0.005, 0.005, 0.005])


def test_one_decimal_rounds_to_the_nearest_tenth() -> None:
    """0.26 is nearest to 0.3, and −0.26 to −0.3."""
    assert decimals(1).rounded(np.array([0.26, -0.26])) == pytest.approx([0.3, -0.3])


def test_the_storage_of_exact_numbers_rounds_nothing() -> None:
    """UNROUNDED is the storage of exact numbers: half a step between them is 0, only the dtype of
    the file rounds them, and stated as an edit they are float64.
    """
    assert UNROUNDED.rounded(RANDOM) is RANDOM
    assert UNROUNDED.half_unit(RANDOM[:2]).tolist() == [0, 0]
    assert np.array_equal(UNROUNDED.stored(RANDOM, "float16"), rounded_to(RANDOM, "float16"))
    assert UNROUNDED.edit == Dtype("float64")


@pytest.mark.parametrize(
    ("mode", "cut_off"),
    [
        pytest.param("toward zero", [0.3, -0.3, 0.4, 0.0], id="toward zero"),
        pytest.param("down", [0.3, -0.4, 0.4, 0.0], id="down"),
    ],
)
def test_numbers_are_cut_off_toward_zero_or_down(mode: str, cut_off: list[float]) -> None:
    """The numbers are 0.38, −0.38, 0.42 and 0, which are cut off after one decimal."""
    storage = TruncatedStorage(decimals(1), mode)
    assert storage.rounded(np.array([0.38, -0.38, 0.42, 0.0])) == pytest.approx(cut_off)
    assert storage.edit == RoundingMode(mode, "1 decimals")


@pytest.mark.parametrize(
    ("mode", "cut_off", "middles", "half_units"),
    [
        pytest.param(
            "toward zero",
            [0.3, -0.3, 0.4, 0.0],
            [0.35, -0.35, 0.45, 0.0],
            [0.05, 0.05, 0.05, 0.1],
            id="toward zero",
        ),
        pytest.param(
            "down",
            [0.3, -0.4, 0.4, 0.0],
            [0.35, -0.35, 0.45, 0.05],
            [0.05, 0.05, 0.05, 0.05],
            id="down",
        ),
    ],
)
def test_a_number_that_was_cut_off_stands_for_an_interval_beside_it(
    mode: str, cut_off: list[float], middles: list[float], half_units: list[float]
) -> None:
    """With one decimal, 0.3 stands for 0.3 to 0.4: the middle is 0.35, and the ends are 0.05 away.
    Toward zero, 0 stands for numbers of both signs, −0.1 to 0.1.
    """
    storage = TruncatedStorage(decimals(1), mode)
    assert storage.middle(np.array(cut_off)) == pytest.approx(middles)
    assert storage.half_unit(np.array(cut_off)) == pytest.approx(half_units)


def test_a_bfloat16_of_a_float16_is_rounded_twice() -> None:
    """1 + 2^-8 + 2^-12 lies between the bfloat16 numbers 1 and 1 + 2^-7, nearer to the latter. But in
    float16 it is 1 + 2^-8, the middle, which rounds to 1. Half an ULP of bfloat16 (2^-8) and of
    float16 (2^-11) add up.
    """
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
    """Return the storages, as edits, that hold all values of a file in this dtype and are coarser."""
    return [storage.edit for storage in storages_of(np.asarray(values, np.float64), dtype)]


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"]
)
def test_the_dtype_to_which_values_of_a_float64_file_were_rounded_is_found(dtype: str) -> None:
    """500 random numbers are rounded to the dtype, and stored in float64."""
    values = RANDOM.astype(numpy_dtype(dtype)).astype(np.float64)
    assert Dtype(dtype) in coarser_storages(values, "float64")


@pytest.mark.parametrize("file_dtype", ["float64", "float32"])
def test_of_several_dtypes_that_hold_the_values_only_the_coarsest_is_found(
    file_dtype: str,
) -> None:
    """The values are numbers of float16, and so of float32 as well."""
    values = RANDOM.astype(np.float16).astype(np.float64)
    assert coarser_storages(values, file_dtype) == [Dtype("float16")]


def test_the_dtype_of_the_file_is_not_found_as_a_coarser_one() -> None:
    """The file is in float16, and so are its values."""
    values = RANDOM.astype(np.float16).astype(np.float64)
    assert Dtype("float16") not in coarser_storages(values, "float16")


@pytest.mark.parametrize("digits", [1, 2, 6])
def test_the_number_of_decimals_to_which_values_were_rounded_is_found(digits: int) -> None:
    """NumPy rounds 500 random numbers; the file is in float32."""
    assert coarser_storages(np.round(RANDOM, digits)) == [Decimals(digits)]


def test_seven_decimals_are_not_coarser_than_float32() -> None:
    """The numbers are from −1 to 1. Float32 numbers between 1/2 and 1 are 6e-8 apart, so that any of
    them is near a multiple of 1e-7: that the values are shows nothing. Multiples of 1e-6 are found.
    """
    assert coarser_storages(np.round(RANDOM, 7)) == []
    assert coarser_storages(np.round(RANDOM, 6)) == [Decimals(6)]


@pytest.mark.parametrize("levels", [127, 255, 2**15 - 1])
def test_integers_are_found_by_the_number_of_levels_that_stands_for_1(levels: int) -> None:
    """The values are random multiples of 1 / levels, as int8, uint8 and int16 hold numbers up to 1."""
    values = np.rint(RANDOM * levels) / levels
    assert coarser_storages(values) == [FixedPoint(1 / levels)]


ODD_STEP = 0.01 / np.pi
"""A step, 0.00318…, whose multiples are no decimals, no fractions such as 1/127, and no numbers of a
coarse dtype.
"""


@pytest.mark.parametrize(
    "largest", [pytest.param(40, id="40 steps"), pytest.param(2**15, id="2^15 steps")]
)
def test_integers_are_found_by_the_step_that_stands_for_1(largest: int) -> None:
    """All values are multiples of the step, as integers times a scale are. A value may be off by half a
    step, the error of rounding. Integers of 16 bits go down to −2^15.
    """
    values = ODD_STEP * np.array([0.0, 1, 5, -7, largest])
    (storage,) = storages_of(values, dtype="float16")

    assert isinstance(storage, StepStorage)
    assert storage.half_unit(RANDOM[:1])[0] == pytest.approx(ODD_STEP / 2)


def test_more_steps_than_integers_of_16_bits_have_are_not_taken_for_integers() -> None:
    """Integers of 16 bits go from −2^15 to 2^15 − 1. The largest value is 2^15 + 1 steps (2^15 are taken
    for integers, in the test above).
    """
    values = ODD_STEP * np.array([0.0, 1, 5, -7, 2**15 + 1])
    assert [*storages_of(values, dtype="float16")] == []


def test_few_levels_are_not_taken_for_integers() -> None:
    """The numbers are 0, 1 and 3 times 1/π. Three numbers are multiples of some step by chance."""
    assert [*storages_of(np.array([0.0, 1, 3]) / np.pi, "float32")] == []


@pytest.mark.parametrize(
    "values",
    [RANDOM, np.arange(5.0), np.zeros(4), [np.nan, np.inf], []],
    ids=["random", "whole numbers", "zeros", "not finite", "none"],
)
def test_numbers_that_were_not_rounded_have_no_coarser_storage(values: Any) -> None:
    """Random numbers are on no coarse grid; few whole numbers, zeros, no finite numbers and no numbers
    at all prove none.
    """
    assert coarser_storages(values) == []


def test_decimals_are_found_only_if_they_are_small_beside_the_largest_value() -> None:
    """Numbers up to 0.3 with one decimal have only three levels, which prove nothing; numbers up to
    1.0 have ten.
    """
    assert coarser_storages([0.1, 0.2, 0.3, 0.0]) != [Decimals(1)]
    assert coarser_storages([0.1, 0.2, 0.3, 1.0]) == [Decimals(1)]


STORAGES_THAT_ROUND_TO_NEAREST = [
    pytest.param(FloatStorage("float16"), id="float16"),
    pytest.param(decimals(2), id="two decimals"),
    pytest.param(TwiceRounded(), id="float16 and then bfloat16"),
]


@pytest.mark.parametrize("storage", STORAGES_THAT_ROUND_TO_NEAREST)
def test_a_storage_that_rounds_to_nearest_does_not_move_numbers_on_average(
    storage: Storage,
) -> None:
    """A stored 0.25 stands for all numbers that are rounded to it, whose middle is 0.25 itself: `middle`
    returns what it is given. If numbers are cut off instead, 0.25 would stand for 0.25 … 0.26.
    """
    stored_numbers = storage.rounded(RANDOM)
    assert storage.middle(stored_numbers) is stored_numbers


@pytest.mark.parametrize("storage", STORAGES_THAT_ROUND_TO_NEAREST)
def test_a_file_of_float64_holds_the_rounded_numbers_of_a_storage(storage: Storage) -> None:
    """`stored` rounds by the storage and then to the dtype of the file. Float64 is finer than any
    storage, so that the second step changes nothing.
    """
    assert np.array_equal(storage.stored(RANDOM, "float64"), storage.rounded(RANDOM))
