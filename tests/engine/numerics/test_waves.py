"""Frequencies in turns: a frequency in radians per position is divided by 2π, and an amplitude has
a known error.

ONE_RADIAN is a single frequency of 1 radian per position in fixed point; expected values are closed
forms.
"""

import math
from fractions import Fraction

import pytest

from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.phases import ExactWaves

ONE_RADIAN = Frequencies((1 << 64,), 64)


def frequency(waves: ExactWaves) -> float:
    """Return the only frequency, in turns per position."""
    return waves.turns[0] / 2**waves.bits


def test_a_frequency_of_one_radian_is_kept_as_a_turn_over_two_pi() -> None:
    """`ExactWaves` holds frequencies in turns per position; ONE_RADIAN is 1 radian per position."""
    assert frequency(ExactWaves.from_frequencies(ONE_RADIAN)) == pytest.approx(
        1 / (2 * math.pi), rel=1e-15
    )


def test_frequencies_in_turns_stay_as_they_are() -> None:
    """`in_turns` means that frequencies count turns per position, so that nothing is divided by 2π:
    the frequency 1 of ONE_RADIAN stays 1.
    """
    assert frequency(ExactWaves.from_frequencies(ONE_RADIAN, in_turns=True)) == 1.0


def test_a_scale_on_positions_multiplies_frequencies() -> None:
    """One turn per position, and positions that are multiplied by 2, are two turns per position."""
    assert frequency(ExactWaves.from_frequencies(ONE_RADIAN, scale=2.0, in_turns=True)) == 2.0


def test_the_default_amplitude_is_exactly_one() -> None:
    """An amplitude is kept as an integer over 2^amplitude_bits, with a bound of its error in units."""
    waves = ExactWaves.from_frequencies(ONE_RADIAN)
    assert waves.amplitude == 1 << waves.amplitude_bits
    assert waves.amplitude_error == 0


def test_an_amplitude_without_a_binary_fraction_is_off_by_one_unit() -> None:
    """1/3 has no finite binary expansion, so that the last bit of the integer that holds it may be
    wrong.
    """
    assert ExactWaves.from_frequencies(ONE_RADIAN, amplitude=Fraction(1, 3)).amplitude_error == 1
