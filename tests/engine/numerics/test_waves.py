"""Frequencies in turns: a frequency in radians per position is divided by 2π, and an amplitude has
a known error.

ONE is the single frequency 1: of 1 radian per position, or of 1 turn if `in_turns` is set. Expected
values are closed forms.
"""

import math
from fractions import Fraction

import pytest

from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.phases import ExactWaves

ONE = Frequencies((1 << 64,), bits=64)
"""The frequency 1 as a fixed-point number: 2^64 / 2^64."""


def frequency(waves: ExactWaves) -> float:
    """Return the only frequency, in turns per position."""
    return waves.turns[0] / 2**waves.bits


def test_a_frequency_of_one_radian_is_kept_as_a_turn_over_two_pi() -> None:
    """`ExactWaves` holds frequencies in turns per position; ONE is 1 radian per position."""
    assert frequency(ExactWaves.from_frequencies(ONE)) == pytest.approx(
        1 / (2 * math.pi), rel=1e-15
    )


def test_frequencies_in_turns_stay_as_they_are() -> None:
    """`in_turns` means that frequencies count turns per position, so that nothing is divided by 2π:
    the frequency 1 of ONE stays 1.
    """
    assert frequency(ExactWaves.from_frequencies(ONE, in_turns=True)) == 1.0


def test_a_scale_on_positions_multiplies_frequencies() -> None:
    """`in_turns` makes the unit of ONE a turn per position; positions multiplied by 2 then turn twice
    as fast.
    """
    assert frequency(ExactWaves.from_frequencies(ONE, scale=2.0, in_turns=True)) == 2.0


def test_the_default_amplitude_is_exactly_one() -> None:
    """An amplitude is kept as an integer over 2^amplitude_bits, with a bound of its error in units."""
    waves = ExactWaves.from_frequencies(ONE)
    assert waves.amplitude == 1 << waves.amplitude_bits
    assert waves.amplitude_error == 0


def test_an_amplitude_without_a_binary_fraction_is_off_by_one_unit() -> None:
    """1/3 has no finite binary expansion, so that the last bit of the integer that holds it may be
    wrong.
    """
    assert ExactWaves.from_frequencies(ONE, amplitude=Fraction(1, 3)).amplitude_error == 1
