"""Two arrays are compared element by element: errors, their places, tolerances, and what cannot be
compared.

A ULP is the distance to the next float of the dtype. Expected numbers are arithmetic on a few
elements, stated in the tests, or those of `measured_one_by_one`, a plain loop in Python's own
numbers; the comparison itself works on pieces of large arrays. An element is mismatched if it is
beyond max_ulp, and beyond atol + rtol · |expected|.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.compare.comparison import Comparison, compare_arrays, ranges, where_json
from pecli.compare.json_values import plain
from pecli.compare.part import split_into_row_blocks
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import ulps_apart


def comparison_of(expected, found, **tolerance):
    return compare_arrays(np.asarray(expected), np.asarray(found), Tolerance(**tolerance), name="t")


def ordinal(value: float) -> int:
    """Floats counted from zero, by their bits."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return -(bits - 2**63) if bits >= 2**63 else bits


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_ulps_count_the_floats_between(a: float, b: float) -> None:
    """Random float64 numbers a and b. `ordinal` numbers all floats in their order, by the bits of
    IEEE 754 (0 is 0, the next float 1, the one before −1): the ULPs between two are the difference.
    """
    (ulps,) = ulps_apart(np.array([a]), np.array([b]))
    assert int(ulps) == abs(ordinal(a) - ordinal(b))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_neighbour_is_one_ulp_away(dtype) -> None:
    """Floats are ordered as their bits are, so that adding 1 to the bits gives the next float,
    further from 0.
    """
    bits = f"u{np.dtype(dtype).itemsize}"
    values = np.array([1.0, -1.0, 0.0, 1e-3], dtype)
    neighbours = (values.view(bits) + np.array(1, bits)).view(dtype)

    assert ulps_apart(values, neighbours).tolist() == [1, 1, 1, 1]


WITH_AN_INFINITY = np.array([0.0, -np.inf, 1.0, 2.0], np.float32)


def with_value(place: int, value: float) -> Any:
    changed = WITH_AN_INFINITY.copy()
    changed[place] = value
    return changed


def test_equal_infinities_pass() -> None:
    """An attention mask is full of −∞; the difference −∞ − (−∞) would be NaN."""
    mask = np.array([0.0, -np.inf, 1.0, 2.0], np.float32)
    assert comparison_of(expected=mask, found=mask).passed


VALUES_IN_ANOTHERS_PLACE = [
    pytest.param(0, np.nan, id="NaN for 0"),
    pytest.param(2, np.inf, id="∞ for 1"),
    pytest.param(1, np.nan, id="NaN for −∞"),
    pytest.param(1, 0.0, id="0 for −∞"),
]
"""The index of an element of WITH_AN_INFINITY, and the value that is found there instead."""


@pytest.mark.parametrize(("place", "value"), VALUES_IN_ANOTHERS_PLACE)
def test_an_infinity_or_nan_for_another_value_fails_in_any_atol_and_rtol(
    place: int, value: float
) -> None:
    """0, −∞, 1 and 2 are expected, and one of them is `value` instead: its error is infinite or
    undefined, which no atol or rtol allows, however large. The others are equal.
    """
    found = with_value(place, value)
    result = comparison_of(WITH_AN_INFINITY, found, max_ulp=5, atol=1e9, rtol=1e9)

    assert result.mismatched == 1


@pytest.mark.parametrize(("place", "value"), VALUES_IN_ANOTHERS_PLACE)
def test_an_error_that_is_not_finite_is_null_in_json(place: int, value: float) -> None:
    """One of 0, −∞, 1 and 2 is `value` instead, so that the largest error is infinite. JSON has no
    infinity: `as_json` returns None, which is written as null.
    """
    result = comparison_of(WITH_AN_INFINITY, with_value(place, value))
    assert result.as_json()["max_abs_error"] is None


@pytest.mark.parametrize(
    ("max_ulp", "mismatched"),
    [
        pytest.param(0x7F80_0000, 0, id="just enough ULPs"),
        pytest.param(0x7F7F_FFFF, 1, id="one ULP too few"),
    ],
)
def test_a_number_for_an_infinity_passes_if_so_many_ulps_are_allowed(
    max_ulp: int, mismatched: int
) -> None:
    """0 is found where −∞ is expected. ULPs count the floats in the order of their bits, in which
    infinity follows the largest number: its bits in float32 are 7F800000, so many ULPs from 0.
    """
    expected = np.array([-np.inf], np.float32)
    found = np.array([0.0], np.float32)

    assert comparison_of(expected, found, max_ulp=max_ulp).mismatched == mismatched


def test_no_error_is_measured_of_unlike_shapes() -> None:
    """Elements of (2, 3) and (3, 2) have no partners, so that all numbers of the result are None."""
    result = comparison_of(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))

    assert "(3, 2)" in result.problem
    assert "(2, 3)" in result.problem
    assert not result.passed
    assert result.mismatched is None
    assert result.max_abs_error is None
    assert result.max_rel_error is None
    assert result.max_ulp_error is None
    assert result.worst_index is None


def test_another_dtype_fails_though_the_values_are_equal() -> None:
    """Zeros in float32 are compared with zeros in float16: it fails with a problem about the dtype,
    but the report states that no value differs.
    """
    result = comparison_of(np.zeros(2, np.float32), np.zeros(2, np.float16))

    assert "float16" in result.problem
    assert not result.passed
    assert result.mismatched == 0


NUMBERS_OF_FLOAT64 = np.array([1 / 3, 2 / 3, 1.0, np.nan])


def test_rounding_to_the_dtype_that_was_found_is_no_mismatch() -> None:
    """1/3, 2/3, 1 and NaN in float64 are compared with their float32 copies. float32 holds nothing
    nearer to 2/3 than its rounding, so that this is 0 ULPs of float32.
    """
    rounded = comparison_of(NUMBERS_OF_FLOAT64, NUMBERS_OF_FLOAT64.astype(np.float32))

    assert rounded.expected_dtype == "float64"
    assert rounded.dtype == "float32"
    assert rounded.mismatched == 0
    assert rounded.max_ulp_error == 0
    assert rounded.worst_index == (1,)
    assert rounded.max_abs_error == abs(2 / 3 - float(np.float32(2 / 3)))


def test_ulps_are_those_of_the_dtype_that_was_found() -> None:
    """1/3, 2/3, 1 and NaN in float64 are compared with their bfloat16 copies, times 1 + 2^-7. bfloat16
    has 7 bits after the leading one, so that factor is a step of 1 ULP for the three numbers.
    """
    one_step = ml_dtypes.bfloat16(1 + 2**-7)
    found = NUMBERS_OF_FLOAT64.astype(ml_dtypes.bfloat16) * one_step
    result = comparison_of(NUMBERS_OF_FLOAT64, found)

    assert result.mismatched == 3
    assert result.max_ulp_error == 1
    assert result.first_index == (0,)


def test_integers_beside_floats_are_compared_by_value() -> None:
    """1.0, 2.5 and 3.0 are expected, and the integers 1, 2, 3 found: one error of 0.5, and none in
    ULPs, which integers do not have.
    """
    result = comparison_of(np.array([1.0, 2.5, 3.0]), np.array([1, 2, 3]))

    assert result.mismatched == 1
    assert result.max_abs_error == 0.5
    assert result.max_ulp_error is None


def test_equal_integers_pass() -> None:
    """0, 1, 2, 3, 4 in both arrays, without any tolerance."""
    assert comparison_of(np.arange(5), np.arange(5)).passed


def test_an_integer_that_differs_is_counted() -> None:
    """0, 1, 2, 3, 4 is expected, and 4 found instead of 3: one element is mismatched."""
    assert comparison_of(np.arange(5), np.array([0, 1, 2, 4, 4])).mismatched == 1


def test_the_largest_difference_of_int64_does_not_overflow() -> None:
    """The smallest int64 is expected and the largest found: 2^63 − 1 − (−2^63) is 2^64 − 1, beyond
    int64; as a float it is 2^64.
    """
    result = comparison_of(np.array([-(2**63), 0, 1]), np.array([2**63 - 1, 0, 1]))

    assert result.max_abs_error == 2.0**64
    assert result.max_ulp_error is None
    assert result.worst_index == (0,)
    assert result.expected == -(2**63)
    assert result.found == 2**63 - 1


def test_a_flag_that_differs_is_an_error_of_1() -> None:
    """Masks may be booleans, which NumPy does not subtract. True is found where False is expected."""
    result = comparison_of(np.array([True, False]), np.array([True, True]))

    assert result.mismatched == 1
    assert result.max_abs_error == 1.0
    assert result.first_index == (1,)


def test_complex_numbers_are_compared_by_their_distance() -> None:
    """|6 + 8i − (3 + 4i)| = 5, which is as much as |3 + 4i|: the relative error is 1. In ULPs the
    worst part counts, and from 4 to 8 there are 2^23 floats of 32 bits. JSON has pairs.
    """
    expected = np.array([1 + 2j, 3 + 4j], np.complex64)
    found = np.array([1 + 2j, 6 + 8j], np.complex64)
    result = comparison_of(expected, found)

    assert result.mismatched == 1
    assert result.max_abs_error == 5.0
    assert result.max_rel_error == 1.0
    assert result.max_ulp_error == 2**23
    assert result.as_json()["expected"] == [3.0, 4.0]
    assert result.as_json()["found"] == [6.0, 8.0]
    assert comparison_of(expected, found, rtol=1.0).passed
    assert comparison_of(expected, found, max_ulp=2**23).passed


def test_only_elements_out_of_tolerance_have_a_first_index_and_places() -> None:
    """Three elements of an array of 3 heads, 4 rows and 5 columns are wrong by 1e-6, 0.5 and 1.
    Within 1e-3, the first one passes; `where` has ranges (first, last) of the others' indices.
    """
    expected = np.ones((3, 4, 5), np.float32)
    found = expected.copy()
    found[0, 1, 2] += 1e-6
    found[1, 3, 4] += 0.5
    found[2, 0, 0] += 1

    exact = comparison_of(expected, found)
    assert exact.first_index == (0, 1, 2)

    within_1e_3 = comparison_of(expected, found, atol=1e-3)
    assert within_1e_3.first_index == (1, 3, 4)
    assert within_1e_3.worst_index == (2, 0, 0)
    assert within_1e_3.where == {
        "rows": [(0, 0), (3, 3)],
        "columns": [(0, 0), (4, 4)],
        "heads": [(1, 2)],
    }

    within_2 = comparison_of(expected, found, atol=2)
    assert within_2.first_index is None


@pytest.mark.parametrize(
    ("found", "max_rel_error"),
    [([1.0, 2.5], 0.25), ([1.0, 2.0], None), ([0.0, 2.0], 0.0)],
    ids=["errors at 0 and at 2", "an error at 0 only", "no error"],
)
def test_relative_errors_leave_out_elements_whose_expected_value_is_0(
    found: list[float], max_rel_error: float | None
) -> None:
    """0 and 2 are expected. An error of 0.5 at 2 is 0.5 / 2 = 0.25; one at 0 is relative to nothing,
    and if there is no other, the result is None.
    """
    assert comparison_of([0.0, 2.0], found).max_rel_error == max_rel_error


def test_an_infinite_relative_error_is_null_in_json() -> None:
    """1 is expected and ∞ found, so that the relative error is infinite; JSON has no infinity."""
    assert comparison_of([1.0], [np.inf]).as_json()["max_rel_error"] is None


def test_the_result_does_not_depend_on_blocks_and_threads(monkeypatch) -> None:
    """Arrays are read and measured in pieces by several threads; other numbers of threads and sizes
    of pieces, in bytes, must give the same result. Two arrays of cosines differ by up to 3 ULPs, by
    1e-3 in a part of a column, by signs in a block, and where 0 is expected.
    """
    draw = np.random.default_rng(1)
    expected = np.cos(draw.uniform(0, 7, (999, 32))).astype(np.float32)
    ulps = draw.integers(-3, 4, expected.shape, dtype=np.int32)
    found = (expected.view(np.int32) + ulps).view(np.float32)
    found[500:, 3] += np.float32(1e-3)
    found[700:, 8:24] *= -1
    expected[800:, 5] = 0
    by_default = comparison_of(expected, found)

    for threads, read_bytes, piece_bytes in (("1", 999, 128), ("4", 512, 256), ("3", 1 << 20, 64)):
        monkeypatch.setenv("PECLI_THREADS", threads)
        monkeypatch.setattr("pecli.compare.comparison.READ_BYTES", read_bytes)
        monkeypatch.setattr("pecli.compare.element_errors.PIECE_BYTES", piece_bytes)
        assert comparison_of(expected, found) == by_default


DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    1e-320,
    1e-40,
    -6e-8,
    3e38,
    -1e308,
    65504.0,
]
"""0, infinities, NaN, and numbers near the limits of the dtypes; some are 0 or ∞ in a smaller one."""
COUNT = 480
"""Elements of an array: it has the shape (480, 1), (10, 48) or (1, 480)."""


def signed(values: np.ndarray) -> np.ndarray:
    """Return the bits of floats as signed integers: a view, so that a change of one changes both."""
    return values.view(f"i{values.itemsize}")


def ordinals(values: np.ndarray) -> list[int]:
    """Return the numbers of floats, counted from 0: 1 is the next float after 0, −1 the one before."""
    lowest = 2 ** (8 * values.itemsize - 1)
    return [bits if bits >= 0 else -(bits + lowest) for bits in signed(values).tolist()]


@dataclass
class Measured:
    """The errors that a loop over the elements of two vectors finds, named as in `Comparison`."""

    mismatched: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    max_ulp_error: int = 0
    worst_ulp: int | None = None
    worst_index: int | None = None
    first_index: int | None = None
    nonfinite_expected: int = 0
    nonfinite_found: int = 0


def measured_one_by_one(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> Measured:
    """Return the errors of a vector of floats, from Python's own numbers and the bits of each float.

    Equal elements have none, nor has NaN beside NaN.
    """
    measured = Measured()
    in_ulps = [abs(a - b) for a, b in zip(ordinals(expected), ordinals(found), strict=True)]
    for place, (a, b, ulps) in enumerate(
        zip(map(float, expected), map(float, found), in_ulps, strict=True)
    ):
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        are_finite = math.isfinite(a) and math.isfinite(b)
        error = abs(a - b) if are_finite else math.inf
        if error > measured.max_abs_error:
            measured.max_abs_error = error
            measured.worst_index = place
            measured.worst_ulp = ulps
        if a and math.isfinite(error) and math.isfinite(error / abs(a)):
            measured.max_rel_error = max(measured.max_rel_error, error / abs(a))
        measured.max_ulp_error = max(measured.max_ulp_error, ulps)
        measured.nonfinite_expected += not math.isfinite(a)
        measured.nonfinite_found += not math.isfinite(b)

        allowed = tolerance.atol + tolerance.rtol * abs(a)
        is_near = math.isfinite(error) and error <= allowed
        has_nan = math.isnan(a) or math.isnan(b)
        is_few_ulps_off = ulps <= tolerance.max_ulp and not has_nan
        if not (is_near or is_few_ulps_off):
            measured.mismatched += 1
            if measured.first_index is None:
                measured.first_index = place
    return measured


def moved_by_ulps(values: np.ndarray, random: np.random.Generator, most: int) -> np.ndarray:
    """Return floats of which each is moved by a random number of ULPs, from −most to most."""
    ulps = random.integers(-most, most + 1, values.size).astype(signed(values).dtype)
    return (signed(values) + ulps).view(values.dtype)


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]
CHANGES_OF_ELEMENTS: dict[str, Change] = {
    "none": lambda values, random: values,
    "one ULP": lambda values, random: (signed(values) + 1).view(values.dtype),
    "some ULPs": lambda values, random: moved_by_ulps(values, random, most=5),
    "relative noise": lambda values, random: (
        values * (1 + 1e-3 * random.standard_normal(values.size))
    ),
    "absolute noise": lambda values, random: values + 1e-3 * random.standard_normal(values.size),
    "large noise": lambda values, random: values * (1 + random.standard_normal(values.size)),
    "other values": lambda values, random: random.permutation(values),
    "other signs": lambda values, random: -values,
    "zeros": lambda values, random: np.zeros_like(values),
}
"""Each returns what was found instead of some expected elements."""

TOLERANCES = [
    Tolerance(),
    *[Tolerance(max_ulp=ulps) for ulps in (1, 3, 2**10, 2**63)],
    *[Tolerance(atol=atol) for atol in (1e-3, 1e-2, 1.0, 1e-42, 1e300)],
    *[Tolerance(rtol=rtol) for rtol in (1e-3, 0.5, 2**-8, 1e-60, 1e300)],
    Tolerance(atol=1e-3, rtol=1e-3),
    Tolerance(atol=1e-6, rtol=1e-2),
    Tolerance(max_ulp=2, atol=1e-3),
    Tolerance(max_ulp=2, rtol=1e-3),
    Tolerance(max_ulp=100, atol=1e-4, rtol=1e-3),
]


def draw_values(random: np.random.Generator, dtype: type) -> np.ndarray:
    """Return COUNT random numbers near 1, or of sizes from 2^-30 to 2^5.

    Some are 0, 1 or 2^-10 instead, whose errors may be exactly the limit of a tolerance.
    """
    has_many_sizes = random.random() < 0.5
    sizes = 2.0 ** random.integers(-30, 6, COUNT) if has_many_sizes else 1.0
    values = random.standard_normal(COUNT) * sizes
    share_of_round_numbers = random.choice([0, 0, 0.02, 0.5])
    is_round = random.random(COUNT) < share_of_round_numbers
    values[is_round] = random.choice([0.0, 1.0, 2.0**-10])
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype)


def with_special_values(
    values: np.ndarray, random: np.random.Generator, share: float
) -> np.ndarray:
    """Return the values with a share of them replaced by numbers of SPECIAL."""
    with np.errstate(over="ignore", under="ignore"):
        special = random.choice(SPECIAL, COUNT).astype(values.dtype)
    return np.where(random.random(COUNT) < share, special, values)


def draw_expected_and_found(
    random: np.random.Generator, dtype: type, changes: list[str], special_share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return COUNT random elements, and what was found instead.

    Each change is made in its own stretch of the elements: of all, of half, or of 0.4 % of them.
    """
    expected = with_special_values(draw_values(random, dtype), random, special_share)
    changed = expected.copy()
    stretches = np.array_split(np.arange(COUNT), len(changes))
    with np.errstate(all="ignore"):
        for name, stretch in zip(changes, stretches, strict=True):
            change = CHANGES_OF_ELEMENTS[name]
            changed[stretch] = change(expected[stretch], random).astype(dtype)
    changed_share = random.choice([1, 0.5, 0.004])
    found = np.where(random.random(COUNT) < changed_share, changed, expected)
    return expected, with_special_values(found, random, special_share / 2)


@given(
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32),
    changes=st.lists(st.sampled_from(sorted(CHANGES_OF_ELEMENTS)), min_size=1, max_size=4),
    tolerance=st.sampled_from(TOLERANCES),
    special_share=st.sampled_from([0.0, 0.0, 0.01, 0.3]),
    piece_bytes=st.sampled_from([32, 160, 1024, 1 << 20]),
)
def test_arrays_compared_in_pieces_have_the_errors_of_a_loop_over_elements(
    dtype, seed, changes, tolerance, special_share, piece_bytes
) -> None:
    """A comparison works on pieces of PIECE_BYTES: of a few elements each, or of the whole array. The
    arrays are random, and the expected errors are those of `measured_one_by_one`, a plain loop.
    """
    random = np.random.default_rng(seed)
    expected, found = draw_expected_and_found(random, dtype, changes, special_share)
    shape = random.choice([(COUNT, 1), (COUNT // 48, 48), (1, COUNT)])
    by_a_loop = vars(measured_one_by_one(expected, found, tolerance))
    for name in ("first_index", "worst_index"):
        place = by_a_loop[name]
        by_a_loop[name] = None if place is None else np.unravel_index(place, shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pecli.compare.element_errors.PIECE_BYTES", piece_bytes)
        comparison = compare_arrays(
            expected.reshape(shape), found.reshape(shape), tolerance, name="t"
        )
    result = {name: getattr(comparison, name) for name in by_a_loop}
    result["max_rel_error"] = result["max_rel_error"] or 0.0  # None if 0 is expected of all errors

    assert result == by_a_loop


def test_rounding_to_a_coarser_dtype_passes_beside_a_column_that_is_off(monkeypatch) -> None:
    """A float16 copy of a float32 table (64, 64) differs by up to 2^-11, more than the atol. Expected
    numbers are rounded to float16 too, so that only column 3 fails: it was moved by 1 ULP of float16.
    """
    four_rows = 4 * 64 * np.dtype(np.float32).itemsize
    monkeypatch.setattr("pecli.compare.element_errors.PIECE_BYTES", four_rows)  # 16 pieces
    expected = np.linspace(1, 2, 64 * 64, dtype=np.float32).reshape(64, 64)
    found = expected.astype(np.float16)
    found[:, 3] = np.nextafter(found[:, 3], np.float16(3))
    result = compare_arrays(expected, found, Tolerance(atol=1e-6), name="t", any_dtype=True)

    assert result.mismatched == 64  # column 3 of 64 rows
    assert result.where["columns"] == [(3, 3)]
    assert result.max_ulp_error == 1


def test_units_are_counted_in_any_byte_order() -> None:
    """A table from a big-endian file, and the same with each element moved to the next float32: one
    ULP. NumPy's views would read the bits backwards.
    """
    expected = np.linspace(-1, 1, 100, dtype=">f4")
    found = np.nextafter(expected, np.float32(2)).astype(">f4")

    assert comparison_of(expected, found).max_ulp_error == 1


@pytest.mark.parametrize(
    "dtype", [np.int64, np.int32, np.uint8, np.bool_, np.complex64, np.complex128]
)
@pytest.mark.parametrize("wrong_elements", [1, 3, 900])
def test_wrong_elements_of_any_dtype_are_counted_and_found(dtype, wrong_elements) -> None:
    """1, 3 or 900 of 1001 elements are off by 2, or inverted if they are booleans, which is an error
    of 1. All errors are equal, so that the first is the worst.
    """
    draw = np.random.default_rng(wrong_elements)
    expected = draw.integers(0, 2, 1001).astype(dtype)
    places = np.sort(draw.choice(1001, wrong_elements, replace=False))
    found = expected.copy()
    if dtype is np.bool_:
        found[places] = ~found[places]
        error = 1
    else:
        found[places] += np.array(2, dtype)
        error = 2
    result = compare_arrays(expected, found, name="t")

    assert result.mismatched == wrong_elements
    assert result.first_index == (places[0],)
    assert result.worst_index == (places[0],)
    assert result.max_abs_error == error


@pytest.mark.parametrize(
    ("rtol", "mismatched"),
    [(2.0**-9, 0), (2.0**-9 * (1 - 2.0**-40), 6000), (2.0**-9 * (1 + 2.0**-40), 0)],
    ids=["the error", "just less", "just more"],
)
def test_a_limit_that_is_met_exactly_is_kept(rtol: float, mismatched: int) -> None:
    """Relative errors of 2^-9 in float32 at 1, 3 and −5, and a relative tolerance that is the same,
    or less or more by 2^-40 of it: all 6000 elements pass, or none. NumPy counts them in float64,
    which holds these numbers exactly.
    """
    expected = np.repeat(np.array([1.0, 3.0, -5.0], np.float32), 2000)
    found = expected * np.float32(1 + 2.0**-9)
    errors = np.abs(found.astype(float) - expected)
    limits = rtol * np.abs(expected.astype(float))

    assert np.count_nonzero(errors > limits) == mismatched
    assert comparison_of(expected, found, rtol=rtol).mismatched == mismatched


def float32_next_to(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return values rounded to float32, of which most are moved to a float one or two further."""
    moved = values.astype(np.float32)
    for _ in range(2):
        is_moved = random.random(moved.shape) < 0.6
        is_upward = random.random(moved.shape) < 0.5
        toward = np.where(is_upward, np.float32(np.inf), np.float32(-np.inf))
        moved = np.where(is_moved, np.nextafter(moved, toward), moved)
    return moved


@pytest.mark.parametrize("scale", [1.0, 2.0**-124, 2.0**-140, 2.0**100])
@pytest.mark.parametrize(
    ("atol", "rtol"),
    [
        pytest.param(3 * 2.0**-12, 0.0, id="atol"),
        pytest.param(0.0, 2.0**-10, id="rtol"),
        pytest.param(2.0**-13, 2.0**-11, id="both"),
        pytest.param(0.0, 0.0, id="no tolerance"),
    ],
)
def test_elements_next_to_a_limit_are_decided_by_exact_numbers(
    scale: float, atol: float, rtol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors in float32 that are the limit, atol · scale + rtol · |expected|, or 1 or 2 floats beside
    it. float64 holds these limits exactly, so that NumPy decides in it which elements are wrong.
    """
    four_rows = 4 * 64 * np.dtype(np.float32).itemsize
    monkeypatch.setattr("pecli.compare.element_errors.PIECE_BYTES", four_rows)  # 16 pieces
    random = np.random.default_rng(5)
    signs = random.choice([-1, 1], (64, 64))
    expected = (random.uniform(1, 2, (64, 64)) * signs * scale).astype(np.float32)
    limits = atol * scale + rtol * np.abs(expected.astype(np.float64))
    found = float32_next_to(expected + limits, random)
    # The largest errors are in the first piece. Those of the other pieces are not the largest, so
    # that they are decided in the faster of two ways.
    found[:4] = -expected[:4]
    errors = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    is_wrong = errors > limits

    assert 0 < is_wrong.sum() < is_wrong.size

    result = compare_arrays(expected, found, Tolerance(atol=atol * scale, rtol=rtol), name="t")
    assert result.mismatched == is_wrong.sum()
    assert result.max_abs_error == errors.max()
    assert result.first_index == tuple(np.argwhere(is_wrong)[0])


def test_the_json_of_a_comparison_has_every_field() -> None:
    """A tensor t of 1 × 2 elements without any error: counts and errors are 0, and there is no worst
    element.
    """
    assert Comparison("t", (1, 2), 2).as_json() == {
        "name": "t",
        "shape": [1, 2],
        "mismatched": 0,
        "max_abs_error": 0.0,
        "max_rel_error": 0.0,
        "max_ulp_error": 0,
        "worst_index": None,
        "first_index": None,
        "expected": None,
        "found": None,
        "where": {},
    }


def test_values_that_json_lacks_are_null_or_pairs() -> None:
    """`plain` returns what JSON can hold, which has no infinity, no NaN and no complex numbers: 2 − i
    becomes [2, −1]. Results within it become objects, by their `as_json`.
    """
    values = [1.5, np.inf, {"a": (np.nan, 2 - 1j)}]
    assert plain(values) == [1.5, None, {"a": [None, [2.0, -1.0]]}]

    result = Comparison("t", (2,), 2)
    assert plain([result]) == [result.as_json()]
    assert plain([result])[0]["shape"] == [2]


def test_errors_of_integers_are_not_counted_in_ulps() -> None:
    """1 is compared with 1: equal floats are 0 ULPs apart, and integers have no such distance."""
    assert comparison_of([1.0], [1.0]).max_ulp_error == 0
    assert comparison_of([1], [1]).max_ulp_error is None


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    ("tolerance", "passes"),
    [
        pytest.param({"atol": 1}, True, id="just enough atol"),
        pytest.param({"atol": 0.99}, False, id="too little atol"),
        pytest.param({"rtol": 0.5}, True, id="just enough rtol"),
        pytest.param({"rtol": 0.49}, False, id="too little rtol"),
        pytest.param({"atol": 0.5, "rtol": 0.25}, True, id="just enough of both"),
    ],
)
def test_an_error_passes_up_to_atol_plus_rtol_times_expected(dtype, tolerance, passes) -> None:
    """3 is found where 2 is expected, an error of 1: just enough are atol 1, rtol 0.5 (0.5 · 2 = 1),
    or both, 0.5 + 0.25 · 2 = 1.
    """
    expected = np.array([2.0, 1.0], dtype)
    found = np.array([3.0, 1.0], dtype)

    assert comparison_of(expected, found, **tolerance).passed == passes


@pytest.mark.parametrize("dtype", ["i4", "u1"])
@pytest.mark.parametrize(
    ("atol", "passes"),
    [pytest.param(1, True, id="just enough"), pytest.param(0.99, False, id="too little")],
)
def test_integers_off_by_1_pass_with_an_atol_of_1_only(
    dtype: str, atol: float, passes: bool
) -> None:
    """2 is compared with 3, in integers of each dtype: the error is 1."""
    assert comparison_of(np.array([2], dtype), np.array([3], dtype), atol=atol).passed == passes


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    ("max_ulp", "passes"),
    [pytest.param(1, False, id="one allowed"), pytest.param(2, True, id="two allowed")],
)
def test_an_error_of_2_ulps_passes_if_2_are_allowed(dtype: str, max_ulp: int, passes: bool) -> None:
    """Floats from 1 to 2 are eps apart, so that 1 + 2 · eps is 2 ULPs from 1."""
    found = np.array([1 + 2 * np.finfo(dtype).eps], dtype)
    assert comparison_of(np.ones(1, dtype), found, max_ulp=max_ulp).passed == passes


def test_the_measures_of_two_wrong_elements_are_those_of_the_first_and_the_worst() -> None:
    """3 instead of 2 and 5 instead of 4 are both off by 1: the first of them counts as the worst.
    Relative to what is expected, 2 is off by more, 1/2.
    """
    result = comparison_of([[1.0, 2.0], [4.0, 8.0]], [[1.0, 3.0], [5.0, 8.0]])
    assert result.mismatched == 2
    assert result.max_abs_error == 1.0
    assert result.max_rel_error == 0.5
    # Float64 numbers from 2 to 4 are 2^-51 apart: 2^51 of them from 2 to 3.
    assert result.max_ulp_error == 2**51
    assert result.expected == 2.0
    assert result.found == 3.0
    assert result.worst_index == (0, 1)
    assert result.first_index == (0, 1)
    assert result.where == {"rows": [(0, 1)], "columns": [(0, 1)]}


def test_an_error_where_0_is_expected_is_not_relative() -> None:
    """One element differs: 3 is found instead of 0. No error can be divided by 0, so there is no
    relative one.
    """
    result = comparison_of([[0.0, 2.0], [4.0, 8.0]], [[3.0, 2.0], [4.0, 8.0]])
    assert result.max_abs_error == 3.0
    assert result.max_rel_error is None
    assert result.worst_index == (0, 0)


def test_nan_is_equal_to_nan_and_an_infinity_to_itself() -> None:
    """Of four elements, the last two fail: NaN is on one side only. No tolerance allows that."""
    expected = [np.nan, np.inf, 1.0, np.nan]
    found = [np.nan, np.inf, np.nan, 2.0]
    result = comparison_of(expected, found, atol=9, max_ulp=2**62)

    assert result.mismatched == 2
    assert result.max_abs_error == np.inf  # NaN differs from a number by more than any number


def test_infinities_and_nan_are_counted_on_each_side_if_the_element_differs() -> None:
    """The first two elements are equal, and so not counted. Of the others, NaN is expected once, and
    NaN or ∞ is found twice.
    """
    expected = [np.nan, np.inf, np.nan, 1.0, 1.0]
    found = [np.nan, np.inf, 2.0, np.nan, np.inf]
    result = comparison_of(expected, found)

    assert result.nonfinite_expected == 1
    assert result.nonfinite_found == 2


@pytest.mark.parametrize(
    ("expected", "found", "error"),
    [
        pytest.param(-(2**63), 2**63 - 1, 2.0**64, id="the ends of int64"),
        pytest.param(3, 5, 2.0, id="small integers"),
        pytest.param(True, False, 1.0, id="booleans"),
    ],
)
def test_differences_of_integers_do_not_overflow(expected: int, found: int, error: float) -> None:
    """The error of 2^63 − 1 against −2^63 is 2^64 − 1, which exceeds int64; as a float it is 2^64.
    Those of small integers and booleans are 2 and 1.
    """
    assert comparison_of([expected], [found]).max_abs_error == error


def test_complex_numbers_have_the_ulps_of_their_parts() -> None:
    """2 is expected and 2 + 2^-51 found: between 2 and 4, float64 numbers are 2^-51 apart, so that
    the real part is off by 1 ULP.
    """
    result = comparison_of([1 + 1j, 2], [1 + 1j, 2 + 2**-51])
    assert result.max_abs_error == 2**-51
    assert result.max_ulp_error == 1
    assert result.expected == 2
    assert result.found == 2 + 2**-51


def problem_of_dtypes(expected: str, found: str, **options: Any) -> str:
    """Compare two zeros in these dtypes, so that only the dtypes can differ."""
    a = np.zeros(2, expected)
    b = np.zeros(2, found)
    return compare_arrays(a, b, **options).problem


def test_another_dtype_is_a_problem() -> None:
    """float32 is expected and float64 found, in a tensor t that is not of frequencies."""
    problem = problem_of_dtypes("float32", "float64", name="t", any_dtype=False)
    assert problem == "its dtype is float64 where float32 is expected"


def test_the_same_dtype_is_no_problem() -> None:
    """float32 is expected and found; "" stands for no problem."""
    assert problem_of_dtypes("float32", "float32", name="t", any_dtype=False) == ""


def test_another_dtype_of_frequencies_is_no_problem() -> None:
    """Programs keep inv_freq in float32 or in float64, whatever the dtype of the table."""
    assert problem_of_dtypes("float32", "float64", name="inv_freq", any_dtype=False) == ""


@pytest.mark.parametrize(
    ("expected", "found"),
    [("float32", "float64"), ("int32", "int64"), ("int32", "uint16")],
)
def test_another_dtype_of_the_same_kind_of_number_is_no_problem_if_any_is_allowed(
    expected: str, found: str
) -> None:
    """`any_dtype` lets a float be another float, and an integer another integer."""
    assert problem_of_dtypes(expected, found, name="t", any_dtype=True) == ""


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("float32", "int32"),
        ("int32", "bool"),
        ("int32", "float32"),
        ("int32", "complex64"),
    ],
)
def test_another_kind_of_number_is_a_problem_even_if_any_dtype_is_allowed(
    expected: str, found: str
) -> None:
    """Floats, integers, truth values and complex numbers do not stand for each other."""
    problem = problem_of_dtypes(expected, found, name="t", any_dtype=True)
    assert problem == f"its dtype is {found} where {expected} is expected"


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        pytest.param(
            (2, 3, 4), {"rows": [(1, 1)], "columns": [(3, 3)], "heads": [(0, 0)]}, id="two heads"
        ),
        pytest.param((3, 4), {"rows": [(1, 1)], "columns": [(3, 3)]}, id="a matrix"),
        pytest.param((12,), {"columns": [(7, 7)]}, id="a vector"),
    ],
)
def test_the_place_of_one_wrong_element_is_given_by_rows_columns_and_heads(
    shape: tuple[int, ...], where: dict
) -> None:
    """Of an array of zeros, element 7 in flat order is wrong: in rows of 4 it is row 1, column 3.
    Ranges are (first, last); a vector has columns only.
    """
    found = (np.arange(math.prod(shape)) == 7).astype(float).reshape(shape)
    assert comparison_of(np.zeros(shape), found).where == where


def test_a_single_number_is_one_column() -> None:
    """1 is compared with 2. Places of errors are named by rows and columns, also in an array without
    axes: (first, last) column 0.
    """
    assert comparison_of(1.0, 2.0).where == {"columns": [(0, 0)]}


def test_an_array_without_rows_equals_only_another_without_rows() -> None:
    """A table of 0 rows and 3 columns passes if that is expected. Where one row is expected, it must
    not pass as one whose elements are all right.
    """
    empty = np.zeros((0, 3))
    assert comparison_of(expected=empty, found=empty).passed

    problem = comparison_of(expected=np.zeros((1, 3)), found=empty).problem
    assert problem == "its shape is (0, 3) where (1, 3) is expected"


def test_slopes_are_compared_relatively_whatever_their_name() -> None:
    """All slopes are below 1, so that an absolute tolerance of 1 would accept anything; yet 10 % off
    fails. The role states what a tensor called «x» is.
    """
    slopes = 2.0 ** -np.arange(1, 9)
    tolerance = Tolerance(atol=1)

    assert not compare_arrays(slopes, slopes * 1.1, tolerance, name="x", role="slopes").passed


def test_three_wrong_elements_in_different_pieces_are_all_counted() -> None:
    """Large arrays are compared in pieces. Zeros are expected, and elements 5, 70,000 and 99,999 are
    1: the errors are equal, so that the first one counts as the worst.
    """
    found = np.zeros(100_000)
    found[[70_000, 99_999, 5]] = 1.0
    result = comparison_of(np.zeros(100_000), found)

    assert result.worst_index == (5,)
    assert result.first_index == (5,)
    assert result.mismatched == 3


def test_the_worst_of_many_wrong_elements_is_found_in_a_later_piece() -> None:
    """Large arrays are compared in pieces. All elements are off by 1, and number 70,000, in a later
    piece, by 2.
    """
    found = np.ones(100_000)
    found[70_000] = 2.0
    result = comparison_of(np.zeros(100_000), found)

    assert result.worst_index == (70_000,)
    assert result.first_index == (0,)
    assert result.mismatched == 100_000
    assert result.max_abs_error == 2.0


def test_elements_beyond_an_allowed_number_of_ulps_are_counted_in_all_pieces() -> None:
    """1 is expected, and elements are 0, 1, …, 6, 0, 1, … ULPs (2^-52) above it. Every seventh, from
    element 6 on, is more than the 5 ULPs off that are allowed.
    """
    ulps = np.arange(100_000) % 7
    found = np.ones(100_000) + 2.0**-52 * ulps
    result = comparison_of(np.ones(100_000), found, max_ulp=5)

    assert result.worst_index == (6,)
    assert result.first_index == (6,)
    assert result.mismatched == len(range(6, 100_000, 7))
    assert result.max_ulp_error == 6


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param([0, 1, 2, 4, 7, 8], [(0, 2), (4, 4), (7, 8)], id="three runs"),
        pytest.param([3], [(3, 3)], id="one number"),
        pytest.param(range(3, 9), [(3, 8)], id="one run"),
    ],
)
def test_neighbouring_numbers_form_ranges(
    numbers: list[int], expected: list[tuple[int, int]]
) -> None:
    """`ranges` returns (first, last) of each run of numbers: wrong rows 0, 1, 2, 4, 7, 8 are reported
    as 0–2, 4 and 7–8.
    """
    assert ranges(np.array(numbers)) == expected


def test_the_last_of_too_many_ranges_holds_the_rest() -> None:
    """200 single numbers, 0, 2, …, 398, would be 200 ranges; 64 is the limit. The 64th begins at
    2 · 63 and holds the rest.
    """
    even_numbers = np.arange(0, 400, 2)
    found = ranges(even_numbers)

    assert len(found) == 64
    assert found[-1] == (2 * 63, 398)


@pytest.mark.parametrize(
    ("axes", "step", "starts"),
    [
        pytest.param((), 5, [0], id="no axis"),
        pytest.param((7,), 3, [0, 3, 6], id="7 rows by 3"),
        pytest.param((2, 3), 3, [0, 3], id="2 whole heads by 1"),
        pytest.param((2, 3), 2, [0, 2, 3, 5], id="heads of 3 rows by 2"),
        pytest.param((2, 3), 6, [0], id="both heads at once"),
        pytest.param((4, 3), 7, [0, 6], id="4 heads by 2"),
    ],
)
def test_rows_that_are_read_at_once_do_not_cross_the_end_of_a_head(
    axes: tuple[int, ...], step: int, starts: list[int]
) -> None:
    """A block is a run of at most `step` rows that are read at once; it may not begin in one head and
    end in the next. Of 2 heads with 3 rows each, (2, 3), blocks of 2 rows start at 0 and 2 in the
    first, and at 3 and 5 in the second; a block of whole heads may hold several.
    """
    assert [block.start for block in split_into_row_blocks(axes, step)] == starts


def test_the_places_of_no_tensor_are_null_in_json() -> None:
    """`where_json` merges the places of errors of several comparisons, by axis; of none, each axis is
    None.
    """
    assert where_json([]) == {"rows": None, "columns": None, "heads": None, "batch": None}


def test_a_result_with_its_sides_exchanged_has_expected_and_found_exchanged() -> None:
    """`swapped` is the result of comparing the other way round. The worst element is a NaN of float64
    where 3 of float32 was expected.
    """
    expected = np.array([0.0, 1.0, 3.0], np.float32)
    found = np.array([0.0, -2.0, np.nan], np.float64)
    result = compare_arrays(expected, found, name="t")
    swapped = result.swapped()

    assert swapped.expected == pytest.approx(result.found, nan_ok=True)
    assert swapped.found == pytest.approx(result.expected, nan_ok=True)
    assert swapped.dtype == result.expected_dtype
    assert swapped.expected_dtype == result.dtype
    assert swapped.nonfinite_expected == result.nonfinite_found
    assert swapped.nonfinite_found == result.nonfinite_expected
    assert swapped.sides_swapped
    assert not swapped.swapped().sides_swapped
