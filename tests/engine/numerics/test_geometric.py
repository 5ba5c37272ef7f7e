"""Geometric frequencies, against powers computed as balls."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from pecli.engine.numerics import check_base, geometric
from pecli.errors import ParameterError
from tests.oracle import bits, rational, rounded


@pytest.mark.parametrize("base", [2.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0, 0.001])
@pytest.mark.parametrize(("denominator", "count"), [(Fraction(32), 32), (Fraction(127, 2), 64), (Fraction(512), 512)])
@pytest.mark.sample(8)
def test_every_frequency_is_rounded_once(base, denominator, count):
    found = np.array(geometric(base, denominator, count).floats())
    true = rounded(lambda: [arb(base) ** rational(-i / denominator) for i in range(count)], "float64")
    np.testing.assert_array_equal(bits(found), true)


def test_one_frequency_needs_no_denominator():
    assert geometric(10000.0, Fraction(0), 1).floats() == [1.0]


@pytest.mark.parametrize(
    ("base", "largest", "scale"), [(2.0**-64, 1.0, 1.0), (2.0, 1.0, 2.0**64), (2.0**-33, 1.0, 2.0**31)]
)
def test_frequencies_have_a_limit(base, largest, scale):
    with pytest.raises(ParameterError, match=r"below 2\^64 radians"):
        check_base(base, largest, scale)
    check_base(base * 2, largest, scale / 2)
