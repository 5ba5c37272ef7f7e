"""One comparison: errors, their places, tolerances, and what cannot be compared."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.checks.compare import as_json, compare, ulps_apart
from pecli.checks.tolerance import Tolerance
from pecli.engine.table import table_of
from pecli.errors import ParameterError


def compared(expected, found, **tolerance):
    return compare(table_of("t", np.asarray(expected)), table_of("t", np.asarray(found)), Tolerance(**tolerance))


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
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 64)
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
        assert as_json(result)["max_abs_error"] is None


def test_shapes_and_dtypes_that_differ_are_findings() -> None:
    shape = compared(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))
    assert "(3, 2)" in shape.problem
    assert "(2, 3)" in shape.problem
    dtype = compared(np.zeros(2, np.float32), np.zeros(2, np.float16))
    assert "float16" in dtype.problem
    for result in (shape, dtype):
        assert not result.passed
        assert result.mismatched is None


def test_the_two_zeros_are_equal() -> None:
    assert compared(np.array([0.0]), np.array([-0.0])).passed


def test_integers_are_compared_too() -> None:
    assert compared(np.arange(5), np.arange(5)).passed
    assert compared(np.arange(5), np.array([0, 1, 2, 4, 4])).mismatched == 1


def test_equal_bits_pass_whatever_stands_beside_them() -> None:
    nan = np.nan
    assert compared(np.array([nan, 1.0]), np.array([nan, 1.5])).mismatched == 1
    assert compared(np.array([1 + 2j, 3]), np.array([1 + 2j, 4])).mismatched == 1
