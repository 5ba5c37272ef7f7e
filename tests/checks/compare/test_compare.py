"""One comparison: errors, their places, tolerances, and what cannot be compared."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.checks.compare import compare_arrays
from pecli.checks.tolerance import Tolerance, ulps_apart
from pecli.errors import ParameterError


def compared(expected, found, **tolerance):
    return compare_arrays(np.asarray(expected), np.asarray(found), Tolerance(**tolerance), name="t")


def ordinal(value: float) -> int:
    """Floats counted from zero, by their bits."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return -(bits - 2**63) if bits >= 2**63 else bits


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_ulps_count_the_floats_between(a: float, b: float) -> None:
    assert int(ulps_apart(np.array([a]), np.array([b]))[0]) == abs(ordinal(a) - ordinal(b))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_neighbour_is_one_ulp_away(dtype) -> None:
    bits = f"u{np.dtype(dtype).itemsize}"
    values = np.array([1.0, -1.0, 0.0, 1e-3], dtype)
    after = (values.view(bits) + np.array(1, bits)).view(dtype)
    assert ulps_apart(values, after).tolist() == [1, 1, 1, 1]


def test_equal_tables_pass() -> None:
    table = np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 4, 5)
    result = compared(table, table.copy())
    assert result.passed
    assert (result.mismatched, result.max_abs_error, result.max_ulp_error, result.worst_index) == (0, 0.0, 0, None)


def test_the_worst_element_is_named_by_its_full_index() -> None:
    expected = np.zeros((3, 4, 5), np.float32)
    found = expected.copy()
    found[2, 1, 3], found[0, 0, 1] = 0.5, -0.25
    result = compared(expected, found)
    assert not result.passed
    assert result.mismatched == 2
    assert result.worst_index == (2, 1, 3)
    assert (result.expected, result.found, result.max_abs_error) == (0.0, 0.5, 0.5)


def test_places_are_right_across_blocks(monkeypatch) -> None:
    monkeypatch.setattr("pecli.checks.compare.READ_BYTES", 64)
    expected = np.zeros((100, 4), np.float32)
    found = expected.copy()
    found[37, 2] = 1
    assert compared(expected, found).worst_index == (37, 2)


@pytest.mark.parametrize(
    ("tolerance", "passes"),
    [({}, 1), ({"max_ulp": 1}, 2), ({"atol": 1e-6}, 3), ({"rtol": 1e-3}, 3), ({"atol": 2e-3, "rtol": 1e-3}, 4)],
)
def test_an_element_passes_if_any_tolerance_lets_it(tolerance, passes) -> None:
    expected = np.ones(4, np.float32)
    found = np.array([1, np.nextafter(np.float32(1), np.float32(2)), 1 + 8e-7, 1.0025], np.float32)
    assert compared(expected, found, **tolerance).mismatched == 4 - passes


def test_a_tolerance_is_checked() -> None:
    for wrong in ({"max_ulp": -1}, {"atol": math.nan}, {"rtol": -0.1}, {"atol": math.inf}):
        with pytest.raises(ParameterError):
            Tolerance(**wrong)


def test_what_is_not_finite_is_a_finding() -> None:
    expected = np.array([0.0, -np.inf, 1.0, 2.0], np.float32)
    assert compared(expected, expected).passed
    for place, value in ((0, np.nan), (1, 0.0), (2, np.inf), (1, np.nan)):
        found = expected.copy()
        found[place] = value
        result = compared(expected, found, max_ulp=2**31 if value == 0 else 5, atol=1e9, rtol=1e9)
        assert result.mismatched == (0 if value == 0 else 1)
        assert result.as_json()["max_abs_error"] is None


def test_shapes_and_dtypes_that_differ_are_findings() -> None:
    shape = compared(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))
    assert "(3, 2)" in shape.problem
    assert "(2, 3)" in shape.problem
    assert not shape.passed
    numbers = shape.mismatched, shape.max_abs_error, shape.max_rel_error, shape.max_ulp_error, shape.worst_index
    assert numbers == (None,) * 5
    dtype = compared(np.zeros(2, np.float32), np.zeros(2, np.float16))
    assert "float16" in dtype.problem
    assert not dtype.passed
    assert dtype.mismatched == 0


def test_unlike_dtypes_are_compared_by_value_in_units_of_the_one_found() -> None:
    exact = np.array([1 / 3, 2 / 3, 1.0, np.nan])
    rounded = compared(exact, exact.astype(np.float32))
    assert (rounded.expected_dtype, rounded.dtype) == ("float64", "float32")
    assert (rounded.mismatched, rounded.max_ulp_error, rounded.worst_index) == (0, 0, (1,))
    assert rounded.max_abs_error == abs(2 / 3 - float(np.float32(2 / 3)))
    off = compared(exact, exact.astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(1 + 2**-7))
    assert (off.mismatched, off.max_ulp_error, off.first_index) == (3, 1, (0,))
    whole = compared(np.array([1.0, 2.5, 3.0]), np.array([1, 2, 3]))
    assert (whole.mismatched, whole.max_abs_error, whole.max_ulp_error) == (1, 0.5, None)


def test_the_two_zeros_are_equal() -> None:
    assert compared(np.array([0.0]), np.array([-0.0])).passed


def test_integers_are_compared_too() -> None:
    assert compared(np.arange(5), np.arange(5)).passed
    assert compared(np.arange(5), np.array([0, 1, 2, 4, 4])).mismatched == 1
    far = compared(np.array([-(2**63), 0, 1]), np.array([2**63 - 1, 0, 1]))
    assert (far.max_abs_error, far.max_ulp_error, far.worst_index) == (2.0**64, None, (0,))
    assert (far.expected, far.found) == (-(2**63), 2**63 - 1)
    flags = compared(np.array([True, False]), np.array([True, True]))
    assert (flags.mismatched, flags.max_abs_error, flags.first_index) == (1, 1.0, (1,))


def test_complex_numbers_are_compared_by_their_distance() -> None:
    expected = np.array([1 + 2j, 3 + 4j], np.complex64)
    found = np.array([1 + 2j, 6 + 8j], np.complex64)
    result = compared(expected, found)
    assert (result.mismatched, result.max_abs_error, result.max_rel_error) == (1, 5.0, 1.0)
    assert result.max_ulp_error == 2**23
    assert (result.as_json()["expected"], result.as_json()["found"]) == ([3.0, 4.0], [6.0, 8.0])
    assert compared(expected, found, rtol=1.0).passed
    assert compared(expected, found, max_ulp=2**23).passed


def test_the_first_element_out_of_tolerance_and_where_the_others_are() -> None:
    expected = np.ones((3, 4, 5), np.float32)
    found = expected.copy()
    found[0, 1, 2] += 1e-6
    found[1, 3, 4], found[2, 0, 0] = 1.5, 2
    assert compared(expected, found).first_index == (0, 1, 2)
    loose = compared(expected, found, atol=1e-3)
    assert (loose.first_index, loose.worst_index) == ((1, 3, 4), (2, 0, 0))
    assert loose.where == {"rows": [(0, 0), (3, 3)], "columns": [(0, 0), (4, 4)], "heads": [(1, 2)]}
    assert compared(expected, found, atol=2).first_index is None


def test_relative_errors_leave_out_where_zero_is_expected() -> None:
    assert compared([0.0, 2.0], [1.0, 2.5]).max_rel_error == 0.25
    assert compared([0.0, 2.0], [1.0, 2.0]).max_rel_error is None
    assert compared([0.0, 2.0], [0.0, 2.0]).max_rel_error == 0.0
    assert compared([1.0], [np.inf]).as_json()["max_rel_error"] is None


def test_values_that_are_not_finite_are_counted_where_the_sides_differ() -> None:
    expected = np.array([np.inf, np.nan, np.nan, 1, -np.inf], np.float32)
    found = np.array([np.inf, np.nan, 1, np.nan, np.inf], np.float32)
    result = compared(expected, found)
    assert (result.strange_expected, result.strange_found, result.mismatched) == (2, 2, 3)
    assert not compared([np.nan], [np.inf], max_ulp=2**62).passed


@pytest.mark.parametrize("size", [1, 3, 3000])
def test_one_nan_is_as_good_as_another(size: int) -> None:
    """Processors make those with a minus sign, NumPy's has none."""
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        nan = np.full(size, np.nan, dtype)
        other = (nan.view(f"u{nan.itemsize}") | (1 << (8 * nan.itemsize - 1)) | 1).view(dtype)
        result = compared(nan, other)
        assert result.passed
        assert (result.max_abs_error, result.max_ulp_error, result.strange_found) == (0, 0, 0)


def test_the_result_does_not_depend_on_blocks_and_threads(monkeypatch) -> None:
    draw = np.random.default_rng(1)
    expected = np.cos(draw.uniform(0, 7, (999, 32))).astype(np.float32)
    found = (expected.view(np.int32) + draw.integers(-3, 4, expected.shape, dtype=np.int32)).view(np.float32)
    found[500:, 3] += np.float32(1e-3)
    found[700:, 8:24] *= -1
    expected[800:, 5] = 0
    whole = compared(expected, found)
    for threads, read, piece in (("1", 999, 128), ("4", 512, 256), ("3", 1 << 20, 64)):
        monkeypatch.setenv("PECLI_THREADS", threads)
        monkeypatch.setattr("pecli.checks.compare.READ_BYTES", read)
        monkeypatch.setattr("pecli.checks.compare.PIECE_BYTES", piece)
        assert compared(expected, found) == whole


def test_equal_bits_pass_whatever_stands_beside_them() -> None:
    nan = np.nan
    assert compared(np.array([nan, 1.0]), np.array([nan, 1.5])).mismatched == 1
    assert compared(np.array([1 + 2j, 3]), np.array([1 + 2j, 4])).mismatched == 1
