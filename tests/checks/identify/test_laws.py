"""Curves of frequencies, written down by their formulas, come out with the parameters that were put in."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest

from pecli.checks.identify import laws, vectors
from pecli.checks.identify.curve import Curve, geometric
from pecli.checks.identify.frequencies import one_function, two_functions
from pecli.checks.identify.heights import Height
from pecli.checks.identify.numerals import digits, roundest, shortest
from pecli.checks.identify.positions import offsets


def curve(values: np.ndarray, relative: float = 1e-9) -> Curve:
    return Curve(values, relative * values)


def plain(half: int, base: float) -> np.ndarray:
    return base ** (-np.arange(half) / half)


@pytest.mark.parametrize("base", [100.0, 10000.0, 73829.1, 5e5, 1.2e7])
def test_bases_that_are_on_no_list(base: float) -> None:
    first = next(chain.from_iterable(laws.rope(curve(plain(64, base)), Height())))
    assert first.parameters == {"base": base}


def test_linear_scaling_divides_all_frequencies() -> None:
    first = next(chain.from_iterable(laws.rope(curve(plain(32, 10000.0) / 2.5), Height())))
    assert first.parameters == {"base": 10000.0, "scaling": "linear", "factor": 2.5}


def test_ntk_is_named_where_only_it_has_round_numbers() -> None:
    first = next(chain.from_iterable(laws.rope(curve(plain(64, 10000.0 * 8 ** (128 / 126))), Height())))
    assert first.parameters == {"base": 10000.0, "scaling": "ntk", "factor": 8.0}
    assert "base" in first.undetermined[0]


def test_shift_and_base_are_known_only_together() -> None:
    """10000^(−i/31) is also (10000^(32/31))^(−i/32): the rounder base is named, the other is said."""
    first = next(laws.sinusoidal(curve(10000 ** (-np.arange(32) / 31)), 32, Height(), 64))
    assert (first.parameters["base"], first.parameters["freq_shift"]) == (10000.0, 1.0)
    assert str(int(10000 ** (32 / 31))) in first.undetermined[0]


def test_yarn_limits_of_a_published_case() -> None:
    """d 128, base 10000, factor 10, original length 2048: the raw limits are 16.128 and 40.2104."""
    low, high = math.floor(16.1280), math.ceil(40.2104)
    ramp = np.clip((np.arange(64) - low) / (high - low), 0, 1)
    values = plain(64, 10000.0) * (1 - ramp * (1 - 1 / 10))
    first = next(laws.bent(curve(values), Height(0.1 * math.log(10) + 1, 1e-9)))
    expected = {"base": 10000.0, "scaling": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048}
    assert first.parameters == expected


def test_llama3_limits() -> None:
    values = plain(64, 500000.0)
    turns = 8192 * values / (2 * math.pi)
    keep = np.clip((turns - 1) / (4 - 1), 0, 1)
    first = next(laws.bent(curve(values * (keep + (1 - keep) / 32)), Height()))
    assert first.parameters["scaling"] == "llama3"
    assert (first.parameters["factor"], first.parameters["original_max_position_embeddings"]) == (32.0, 8192)


def test_a_law_is_refused_where_one_channel_is_off() -> None:
    values = plain(32, 10000.0)
    values[7] *= 1 + 1e-6
    assert geometric(curve(values)) is None
    assert geometric(curve(values, 1e-6)) is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_of_frequencies_and_of_wavelengths(dtype: type) -> None:
    values = plain(64, 500000.0).astype(dtype)
    name = np.dtype(dtype).name
    (match,) = vectors.recognise("inv_freq", values.astype(np.float64), name)
    assert match.scheme.base == 500000.0  # type: ignore[attr-defined]
    (waves,) = vectors.recognise("wavelengths", (2 * np.pi / values).astype(dtype).astype(np.float64), name)
    assert waves.scheme.base == 500000.0  # type: ignore[attr-defined]
    assert "wavelengths" in waves.form


def test_frequencies_and_phases_are_measured_within_their_errors() -> None:
    frequency, phase = plain(16, 1000.0), np.linspace(-3, 3, 16)
    angle = np.arange(300)[:, None] * frequency + phase
    table = np.cos(angle).astype(np.float32).astype(float), np.sin(angle).astype(np.float32).astype(float)
    both = two_functions(*table, 2.0**-24)
    assert (np.abs(both.frequency - frequency) <= 6 * both.frequency_error).all()
    assert (np.abs(both.phase - phase) <= 6 * both.phase_error).all()
    one = one_function(table[0], 2.0**-24)
    assert one is not None
    known = np.isfinite(one.frequency_error)
    assert known.sum() >= 12
    assert (np.abs(one.frequency - frequency) <= 8 * one.frequency_error)[known].all()


@pytest.mark.parametrize("offset", [0, 1, 511, 98765])
def test_positions_from_phases(offset: int) -> None:
    frequency = plain(16, 10000.0)
    angle = (offset + np.arange(200))[:, None] * frequency
    measured = two_functions(np.cos(angle), np.sin(angle), 2.0**-24)
    assert offsets(measured, relative=0.0)[0] == offset


def test_numbers_as_people_write_them() -> None:
    assert shortest(499999.97, 0.1) == 500000.0
    assert roundest(3000, 5000) == 4096
    assert roundest(5000, 7000) == 6144
    assert digits(0.125) < digits(0.1251)
