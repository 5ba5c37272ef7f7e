"""Angles without loss, whatever the position."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.numerics import DoubleDouble, geometric, phases
from tests import oracle

POSITIONS = [1, 2, 3, 255, 65535, 10**6, 2**32 - 1, 2**32, 2**32 + 1, 2**39 + 12345, 2**40 - 1]
BASES = [2.0, 100.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0]


def some_waves(base: float) -> tuple[phases.Waves, np.ndarray, np.ndarray]:
    wanted = phases.Waves.of(geometric(base, oracle.Fraction(16), 16))
    column, position = (grid.ravel() for grid in np.meshgrid(np.arange(16), np.array(POSITIONS, np.uint64)))
    return wanted, column, position


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_float64(base):
    """What the tables are built on (an absolute error), and what the second look relies on (a relative one)."""
    wanted, column, position = some_waves(base)
    cosines, sines = phases.cos_sin(wanted.limbs[:, column], position)
    absolute, relative = _errors(base, column, position, DoubleDouble.plain(cosines), DoubleDouble.plain(sines))
    assert absolute <= 0.6 * 2.0**-53
    assert relative <= phases.FLOAT64_ERROR / 2


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_106_bits(base):
    wanted, column, position = some_waves(base)
    _, relative = _errors(base, column, position, *phases.cos_sin_double_double(wanted.limbs[:, column], position))
    assert relative <= phases.PRODUCT_ERROR / 8  # there is a margin


def _errors(
    base: float, column: np.ndarray, position: np.ndarray, cosines: DoubleDouble, sines: DoubleDouble
) -> tuple[float, float]:
    """The largest error, and the largest in relation to the value."""
    before, ctx.prec = ctx.prec, 1500
    absolute, relative = 0.0, 0.0
    for k, (i, p) in enumerate(zip(column.tolist(), position.tolist(), strict=True)):
        sine, cosine = (arb(base) ** (arb(-i) / 16) * p).sin_cos()
        for found, true in ((sines, sine), (cosines, cosine)):
            error = abs(arb(float(found.hi[k])) + arb(float(found.lo[k])) - true)
            absolute, relative = max(absolute, float(error.upper())), max(relative, float((error / abs(true)).upper()))
    ctx.prec = before
    return absolute, relative


def test_angles_just_below_a_sector_keep_their_digits():
    """p·θ a hair below a whole number of turns: the highest digit says −1, all others together almost 1."""
    from pecli.engine.schemes.sinusoidal import Sinusoidal

    checked = 0
    for position in range(1_373_000, 1_373_400):
        scale = 2 * math.pi / position
        found = Sinusoidal(1, 1, scale=scale, offset=position).tables()["pe"].view(np.uint32)
        wanted = oracle.sinusoidal_bits(np.array([position]), np.array([0]), dim=1, scale=scale)
        checked += int(found[0, 0] == wanted[0])
    assert checked == 400
