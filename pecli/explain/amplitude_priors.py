"""Amplitudes that tables of cosines and sines may have: what attention factors and normalisations make of 1."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

from pecli.explain.catalogue.scalings import USUAL_FACTORS, USUAL_LENGTHS
from pecli.explain.measure import SIGMAS, MeasuredFrequencies
from pecli.explain.numbers import numbers_near, plainest_number

ROUGH_AMPLITUDE = 1e-3
"""Relative error of an amplitude that is measured in coarse numbers, or in only one function."""

SHARP_AMPLITUDE = 1e-6
"""Relative error of an amplitude that is measured in float32 numbers."""

LEAST_ERROR = 1e-9
"""Relative error of an amplitude that is the mean of many float32 numbers, at least."""

TOP_BIAS = 4.0
"""Share of noise^1.5 by which rounded tops move an amplitude: a step s wide holds the top √s of a wave."""

MSCALES = (1.0, 0.707)
"""Values of YaRN's mscale: the paper's 1, and DeepSeek-V2's 0.707."""


def possible_amplitudes(
    measured: MeasuredFrequencies, measured_values: int, usual: Sequence[float]
) -> Iterator[float]:
    """Yield the numbers by which a program may have multiplied all cosines of a table, the likeliest first.

    Such a number is the table's amplitude. A measured one is not exact, so that a search makes a table
    with each of these and compares it. Measured 1.00003, it is the usual 1, and nothing else. Measured
    1.0741720, it is √(1 + ln 4 / ln 8192), with which LongRoPE stretches 8,192 positions 4 times.
    Measured 0.30001, it may be 0.3, as somebody wrote it.

    Args:
        measured: The amplitude of the table, and the noise of its columns.
        measured_values: The number of values of the table that were measured.
        usual: Amplitudes that such a table usually has.
    """
    amplitude = measured.amplitude
    # There are few usual amplitudes, so that one of them is no chance even if it is 0.1 % off.
    usual_nearby = numbers_near(dict.fromkeys(usual), amplitude, ROUGH_AMPLITUDE * amplitude)
    if usual_nearby:
        yield from usual_nearby
        return
    # There are hundreds of others: one of these has to be as near as the measured one is sharp.
    error = amplitude * _relative_error_of_amplitude(measured.noise, measured_values)
    computed = numbers_near(attention_factors(), amplitude, error)
    written = _written_amplitudes(amplitude, error)
    without_duplicates = dict.fromkeys((*computed, *written))
    yield from without_duplicates


def _written_amplitudes(amplitude: float, measured_error: float) -> Iterator[float]:
    """Yield the plainest number near an amplitude, at each precision to which it may be known.

    It is not known how many digits somebody wrote. Measured 0.30001, it is 0.3 if the numbers are coarse
    (within 0.1 %), and 0.30001 if they are in float32 (within 1e-6), or if the measured error is as small.
    """
    for error in (ROUGH_AMPLITUDE * amplitude, SHARP_AMPLITUDE * amplitude, measured_error):
        yield plainest_number(amplitude, error)


def _relative_error_of_amplitude(noise: float, count: int) -> float:
    """Return the relative error of an amplitude that is the mean of many numbers; NaN if the noise is not known.

    The mean of 10,000 numbers is known to a hundredth of their noise. But storage rounds the tops of
    waves to one side: of an amplitude of 1.1386, bfloat16 makes 1.1406, and the mean is 1.1387.

    Args:
        noise: The standard deviation of the numbers from their waves, as a share of the amplitude.
        count: How many numbers there are.
    """
    error_by_chance = SIGMAS * noise / math.sqrt(count)
    error_of_tops = TOP_BIAS * noise * math.sqrt(noise)
    return error_by_chance + error_of_tops + LEAST_ERROR


@cache
def attention_factors() -> tuple[float, ...]:
    """Return the amplitudes that YaRN and LongRoPE compute from the factors and lengths of public models.

    YaRN has g(s) = 0.1 · mscale · ln s + 1 for a factor s, which is 1.1386 for 4, or the quotient of two
    such numbers (DeepSeek). LongRoPE has √(1 + ln s / ln L) for an original length L.
    """
    amplitudes: list[float] = []
    for factor in USUAL_FACTORS:
        # The paper's mscale is 1, and DeepSeek's 0.707.
        paper, deepseek = (0.1 * mscale * math.log(factor) + 1 for mscale in MSCALES)
        amplitudes += [paper, deepseek, paper / deepseek, deepseek / paper]
    for factor, length in product(USUAL_FACTORS, USUAL_LENGTHS):
        amplitudes.append(math.sqrt(1 + math.log(factor) / math.log(length)))
    without_duplicates = dict.fromkeys(amplitudes)
    return tuple(without_duplicates)
