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
    measured: MeasuredFrequencies,
    measured_values: int,
    usual: Sequence[float],
    rare: Sequence[float],
) -> Iterator[float]:
    """Yield the numbers by which a program may have multiplied all cosines of a table, the likeliest first.

    Such a number is the table's amplitude, which is measured only roughly. Measured 1.00003, it is the
    usual 1. Measured 1.0741720, it is LongRoPE's √(1 + ln 4 / ln 8192). Measured 0.30001, it may be 0.3.

    Args:
        measured: The amplitude of the table, and the noise of its columns.
        measured_values: The number of values of the table that were measured.
        usual: Amplitudes that such a table usually has.
        rare: Amplitudes that it has rarely, so that they must be near within 1e-6.
    """
    amplitude = measured.amplitude
    usual_nearby = _usual_amplitudes_near(amplitude, usual)
    if usual_nearby:
        yield from usual_nearby
        return
    yield from numbers_near(rare, amplitude, SHARP_AMPLITUDE * amplitude)
    error = amplitude * _relative_error_of_amplitude(measured.noise, measured_values)
    # There are hundreds of attention factors, so that only one within the error counts.
    factors_nearby = numbers_near(attention_factors(), amplitude, error)
    plain_numbers_nearby = _plainest_numbers_near(amplitude, error)
    without_duplicates = dict.fromkeys((*factors_nearby, *plain_numbers_nearby))
    yield from without_duplicates


def _usual_amplitudes_near(amplitude: float, usual: Sequence[float]) -> list[float]:
    """Return the usual amplitudes within 0.1 % of a measured one: [1.0] for 1.00003.

    There are so few of them that one is not so near by chance.
    """
    without_duplicates = dict.fromkeys(usual)
    return numbers_near(without_duplicates, amplitude, ROUGH_AMPLITUDE * amplitude)


def _plainest_numbers_near(amplitude: float, measured_error: float) -> Iterator[float]:
    """Yield the numbers with the fewest digits near an amplitude: within 0.1 %, 1e-6 and its error.

    It is not known how many digits somebody wrote. Measured 0.30001, it is 0.3 if the table holds coarse
    numbers (0.1 %), and 0.30001 if it holds float32 (1e-6).
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
