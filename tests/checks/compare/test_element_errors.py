"""Pieces of every kind, measured fast, against the same elements measured one at a time in Python's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pecli.checks.compare import compare_arrays
from pecli.checks.tolerance import Tolerance

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-320, 1e-40, -6e-8, 3e38, -1e308, 65504.0]
COUNT = 480


def signed(values: np.ndarray) -> np.ndarray:
    return values.view(f"i{values.itemsize}")


def measured(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> dict[str, object]:
    """What is to be reported, by definition."""
    lowest = 2 ** (8 * expected.itemsize - 1)
    told: dict[str, object] = {"off": 0, "first": None, "error": 0.0, "worst": None, "worst_ulp": None}
    ulp, relative, strange = 0, 0.0, [0, 0]
    elements = zip(signed(expected).tolist(), signed(found).tolist(), expected, found, strict=True)
    for place, (its, other, a, b) in enumerate(elements):
        a, b = float(a), float(b)
        if math.isnan(a) and math.isnan(b):
            continue
        counted = [bits if bits >= 0 else -(bits + lowest) for bits in (its, other)]
        apart = abs(counted[0] - counted[1])
        finite = math.isfinite(a) and math.isfinite(b)
        error = 0.0 if its == other or a == b else abs(a - b) if finite else math.inf
        ulp = max(ulp, apart)
        if error > told["error"]:
            told |= {"error": error, "worst": (place,), "worst_ulp": apart}
        if a and finite and math.isfinite(error) and math.isfinite(error / abs(a)):
            relative = max(relative, error / abs(a))
        near = math.isfinite(error) and error <= tolerance.atol + tolerance.rtol * abs(a)
        nan = math.isnan(a) or math.isnan(b)
        if not (its == other or near or (apart <= tolerance.max_ulp and not nan)):
            told["off"] += 1
            told["first"] = told["first"] or (place,)
        if its != other:
            strange = [count + (not math.isfinite(side)) for count, side in zip(strange, (a, b), strict=True)]
    return told | {"relative": relative, "ulp": ulp, "strange": tuple(strange)}


def compared(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> dict[str, object]:
    result = compare_arrays(expected, found, tolerance, name="t")
    return {
        "off": result.mismatched,
        "first": result.first_index,
        "error": result.max_abs_error,
        "worst": result.worst_index,
        "worst_ulp": result.worst_ulp,
        "relative": result.max_rel_error or 0.0,
        "ulp": result.max_ulp_error,
        "strange": (result.strange_expected, result.strange_found),
    }


def steps(values: np.ndarray, draw: np.random.Generator, reach: int) -> np.ndarray:
    by = draw.integers(-reach, reach + 1, values.size).astype(signed(values).dtype)
    return (signed(values) + by).view(values.dtype)


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]
CHANGES: dict[str, Change] = {
    "none": lambda values, draw: values,
    "one unit": lambda values, draw: (signed(values) + 1).view(values.dtype),
    "some units": lambda values, draw: steps(values, draw, 5),
    "relative noise": lambda values, draw: values * (1 + 1e-3 * draw.standard_normal(values.size)),
    "absolute noise": lambda values, draw: values + 1e-3 * draw.standard_normal(values.size),
    "large noise": lambda values, draw: values * (1 + draw.standard_normal(values.size)),
    "other values": lambda values, draw: draw.permutation(values),
    "other signs": lambda values, draw: -values,
    "zeros": lambda values, draw: np.zeros_like(values),
}
"""What may have become of a stretch of elements."""

TOLERANCES = [
    Tolerance(*each)
    for each in (
        *((), (1,), (3,), (2**10,), (2**63,)),
        *((0, 1e-3), (0, 1e-2), (0, 1.0), (0, 1e-42), (0, 1e300)),
        *((0, 0, 1e-3), (0, 0, 0.5), (0, 0, 2**-8), (0, 0, 1e-60), (0, 0, 1e300)),
        *((0, 1e-3, 1e-3), (0, 1e-6, 1e-2), (2, 1e-3), (2, 0, 1e-3), (100, 1e-4, 1e-3)),
    )
]


def some_values(draw: np.random.Generator, dtype: type) -> np.ndarray:
    """Of every size, or near 1; now and then 0, or the same value again, on which an error may be exactly a limit."""
    sizes = 2.0 ** draw.integers(-30, 6, COUNT) if draw.random() < 0.5 else 1.0
    values = draw.standard_normal(COUNT) * sizes
    values[draw.random(COUNT) < draw.choice([0, 0, 0.02, 0.5])] = draw.choice([0.0, 1.0, 2.0**-10])
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype)


def spoiled(values: np.ndarray, draw: np.random.Generator, share: float) -> np.ndarray:
    """Some elements become special ones."""
    with np.errstate(over="ignore", under="ignore"):
        special = draw.choice(SPECIAL, COUNT).astype(values.dtype)
    return np.where(draw.random(COUNT) < share, special, values)


@settings(deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=4),
    st.sampled_from(TOLERANCES),
    st.sampled_from([0.0, 0.0, 0.01, 0.3]),
    st.sampled_from([8, 40, 256, 1 << 18]),
)
def test_pieces_are_measured_as_if_one_by_one(dtype, seed, changes, tolerance, special, piece) -> None:
    draw = np.random.default_rng(seed)
    expected = spoiled(some_values(draw, dtype), draw, special)
    found = expected.copy()
    with np.errstate(all="ignore"):
        for change, stretch in zip(changes, np.array_split(np.arange(COUNT), len(changes)), strict=True):
            found[stretch] = CHANGES[change](expected[stretch], draw).astype(dtype)
    found = np.where(draw.random(COUNT) < draw.choice([1, 0.5, 0.004]), found, expected)  # not all of them, or very few
    found = spoiled(found, draw, special / 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pecli.checks.compare.PIECE_BYTES", piece * 4)
        patch.setattr("pecli.checks.compare.MEASURED", int(draw.integers(1, 200)))
        assert compared(expected, found, tolerance) == measured(expected, found, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 1, 2**16 - 1, 2**16, 2**17 - 1, 2**17, 3 * 2**16 + 4])
def test_one_element_is_found_wherever_it_stands_in_a_piece(dtype, place) -> None:
    expected = np.linspace(1, 2, 3 * 2**16 + 5).astype(dtype)
    found = expected.copy()
    found[place] = 3.5
    told = compared(expected, found, Tolerance(0, 0.25))
    assert (told["off"], told["first"], told["worst"]) == (1, (place,), (place,))
    assert told["error"] == 3.5 - float(expected[place])
    assert compared(expected, found, Tolerance(0, 2.5))["off"] == 0


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_, np.complex64, np.complex128])
@pytest.mark.parametrize("few", [1, 3, 900])
def test_few_elements_of_any_dtype_are_found(dtype, few) -> None:
    draw = np.random.default_rng(few)
    expected = draw.integers(0, 2, 1001).astype(dtype)
    found = expected.copy()
    places = np.sort(draw.choice(1001, few, replace=False))
    found[places] = ~found[places] if dtype is np.bool_ else found[places] + np.array(2, dtype)
    result = compare_arrays(expected, found, name="t")
    assert (result.mismatched, result.first_index, result.worst_index) == (few, (places[0],), (places[0],))
    assert result.max_abs_error == (1 if dtype is np.bool_ else 2)


def test_a_limit_that_is_met_exactly_is_kept() -> None:
    """Errors that are the limit, and the next float: in float32 they look the same beside a larger value."""
    expected = np.repeat(np.array([1.0, 3.0, -5.0], np.float32), 2000)
    for share in (2.0**-9, 2.0**-9 * (1 - 2.0**-40), 2.0**-9 * (1 + 2.0**-40)):
        found = expected * np.float32(1 + 2.0**-9)
        off = int(np.count_nonzero(np.abs(found.astype(float) - expected) > share * np.abs(expected.astype(float))))
        assert compared(expected, found, Tolerance(0, 0, share))["off"] == off
        assert off in (0, 6000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_unit_from_zero_is_not_a_small_relative_error(dtype) -> None:
    expected = np.tile(np.array([1.0, 0.0, -2.0], dtype), 4 * 2**16)
    found = (signed(expected) + 1).view(dtype)
    for share in (0.5, 1e300):
        told = compared(expected, found, Tolerance(0, 0, share))
        assert (told["off"], told["first"], told["ulp"]) == (4 * 2**16, (1,), 1)
    assert compared(expected, found, Tolerance(1))["off"] == 0
