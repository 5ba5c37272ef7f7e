"""Tables of integers with a scale (127 stands for 1, for example): errors are measured from the
exact numbers.

The integers are the exact table times the scale, by NumPy, rounded with a known error in steps; a
step is 1/scale.
"""

import numpy as np
import pytest

import pecli

ROPE_64_BY_64 = pecli.Rope(64, 64)
EXACT = pecli.Rope(64, 64, dtype="float64").tables()
DTYPES_AND_SCALES = [("int8", 127), ("int8", 64), ("int16", 32767)]
"""The dtype of integers, and the integer that stands for 1."""


def tables_in_integers(dtype: str, one: int, *, max_error: float) -> dict[str, np.ndarray]:
    """Return the tables as integers whose errors are at most so many steps.

    Rounding errs by half a step. For errors of 0.9 steps, numbers of −0.4 to 0.4 are added before.
    """
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    tables = {}
    for name in ("cos", "sin"):
        max_noise = max_error - 0.5
        noise = rng.uniform(-max_noise, max_noise, EXACT[name].shape)
        steps = np.rint(EXACT[name] * one + noise)
        tables[name] = np.clip(steps, limits.min, limits.max).astype(dtype)
    return tables


@pytest.mark.parametrize(("dtype", "one"), DTYPES_AND_SCALES)
@pytest.mark.parametrize("steps", [0.6, 0.75, 0.95])
@pytest.mark.sample(4)
def test_a_tolerance_between_half_a_step_and_a_step_counts_exactly(
    dtype: str, one: int, steps: float
) -> None:
    """The integer `one` stands for 1, and the tables are off by up to `steps` steps of 1/one. They
    pass within that tolerance, and fail within 0.09 steps less, or without a tolerance.
    """
    tables = tables_in_integers(dtype, one, max_error=steps)
    assert pecli.verify(tables, ROPE_64_BY_64, atol=steps / one, reasons=False).passed
    assert not pecli.verify(tables, ROPE_64_BY_64, atol=(steps - 0.09) / one, reasons=False).passed
    assert not pecli.verify(tables, ROPE_64_BY_64, reasons=False).passed


@pytest.mark.parametrize(("dtype", "one"), DTYPES_AND_SCALES)
def test_integers_that_are_rounded_to_nearest_pass_exactly(dtype: str, one: int) -> None:
    """Cosines and sines are stored as integers, each the nearest one (errors of at most 0.5 steps):
    they pass without a tolerance.
    """
    assert pecli.verify(tables_in_integers(dtype, one, max_error=0.5), ROPE_64_BY_64).passed


@pytest.mark.parametrize(("dtype", "one", "atol"), [("int8", 127, "0.0079"), ("int8", 64, "0.016")])
def test_a_table_that_fails_by_less_than_a_step_is_advised_to_allow_a_step(
    dtype: str, one: int, atol: str
) -> None:
    """Errors of up to 0.9 steps fail within 0.6 steps; the advice is one step, 1/127 = 0.0079 or
    1/64 = 0.016, within which the table passes.
    """
    tables = tables_in_integers(dtype, one, max_error=0.9)
    result = pecli.verify(tables, ROPE_64_BY_64, atol=0.6 / one, reasons=False)

    assert result.diagnosis[-1].endswith(f"allow --atol {atol}")
    assert pecli.verify(tables, ROPE_64_BY_64, atol=float(atol)).passed


@pytest.mark.parametrize("steps_off", [2, 5, 20])
def test_a_table_in_int32_passes_within_the_tolerance_that_is_advised(steps_off: int) -> None:
    """2^31 − 1 stands for 1, and one row is off by some steps of 4.7e-10. These are fewer than the
    128 steps between numbers of float32, in which such tables are computed.
    """
    one = 2**31 - 1
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(16) / 16))
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    table = np.rint(pairs.reshape(64, 32) * one)
    table[5] -= steps_off
    stored = np.clip(table, -one, one).astype(np.int32)
    scheme = pecli.Sinusoidal(64, 32)
    advice = pecli.verify(stored, scheme, reasons=False).diagnosis[-1]
    *_, tolerance = advice.split("--atol ")

    assert pecli.verify(stored, scheme, atol=float(tolerance), reasons=False).passed


def test_errors_of_tables_in_int8_are_not_counted_in_ulps() -> None:
    """Cosines and sines are stored as int8, 127 for 1, with errors of up to 0.9 steps. A ULP, the
    distance to the next float, has no meaning for integers: None for both tensors.
    """
    tables = tables_in_integers("int8", 127, max_error=0.9)
    result = pecli.verify(tables, ROPE_64_BY_64, reasons=False)

    assert [tensor.max_ulp_error for tensor in result.tensors] == [None, None]


def test_errors_of_integers_are_distances_from_the_exact_number() -> None:
    """127 stands for 1, and all integers are right except one: cos 1 · 127 = 68.6 is stored as 68
    instead of 69. The error is 0.6 steps from the exact number, and not the whole step from 69.
    """
    tables = tables_in_integers("int8", 127, max_error=0.5)
    tables["cos"][1, 0] = 68  # position 1, the first frequency
    result = pecli.verify(tables, ROPE_64_BY_64, reasons=False)
    cosines, _ = result.tensors

    assert cosines.max_abs_error == pytest.approx(np.cos(1) - 68 / 127, rel=1e-4)
