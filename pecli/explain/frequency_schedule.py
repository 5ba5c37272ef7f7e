"""The schedule that frequencies follow: a base, the dimension in the exponent, and a scaling.

The engine's exact frequencies take a millisecond; a search asks hundreds of times, so these are
computed in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.scalings import SCALINGS, name_of
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain.measure import Fit, MeasuredFrequencies, fit_number
from pecli.explain.wave_tables import WaveParameters, wave_parameters

NO_SCALING: Scaling = SCALINGS["none"]()

ALL_PAIRS = 1 << 62
"""A number of rotating pairs that no table has: all that it has turn."""


@dataclass(frozen=True)
class FrequencySchedule:
    """A rule for the frequencies of all pairs: scale · base^(−i/denominator) for pair i, changed by a scaling.

    Pairs from `rotating` on have frequency 0. The paper's table of 512 channels has the denominator
    256 and the base 10000: pair 1 has 10000^(−1/256) = 0.9647.
    """

    pairs: int
    """The number of frequencies."""
    denominator: float
    """The denominator of the exponents, usually half of the channels that rotate."""
    base: float
    scale: float = 1.0
    """Multiplies all frequencies, as if positions were multiplied."""
    scaling: Scaling = NO_SCALING
    rotating: int = ALL_PAIRS
    """The number of pairs that turn."""
    scaling_denominator: float | None = None
    """The denominator that the scaling uses, if it is not the exponent's."""
    applied: str = "once"
    """How the scaling is applied: «once», «again» to its own result, with its ratios «squared», or
    «multiplied» by the numbers by which it divides."""

    @cached_property
    def frequencies(self) -> Floats:
        """Radians per position, one per pair: base^(−i/denominator), changed by the scaling and the scale.

        A scaling that is applied twice by mistake is applied to its own result, or its ratio to the
        unscaled frequency is squared: linear scaling by 4 divides by 16 either way. One that multiplies
        by mistake has the inverse ratio: a pair that is divided by 8 is multiplied by 8.
        """
        pair = np.arange(self.pairs)
        with np.errstate(all="ignore"):
            # base^(−pair/denominator), as the exponential of its logarithm
            unscaled = np.exp(-pair / self.denominator * np.log(self.base))
            scaled = self._scaled(unscaled)
            if self.applied == "again":
                scaled = self._scaled(scaled)
            elif self.applied == "squared":
                ratio = scaled / unscaled
                scaled = scaled * ratio
            elif self.applied == "multiplied":
                factors = unscaled / scaled
                scaled = unscaled * factors
        return np.where(pair < self.rotating, scaled * self.scale, 0.0)

    def _scaled(self, frequencies: Floats) -> Floats:
        """Return frequencies as the scaling changes them, such as YaRN with a factor of 4."""
        denominator = self.scaling_denominator
        if denominator is None:
            denominator = self.denominator
        return np.asarray(self.scaling.approximate(frequencies, self.base, denominator))

    @property
    def rotating_pairs(self) -> int:
        """The number of pairs that turn."""
        return min(self.pairs, self.rotating)

    @property
    def scaling_name(self) -> str:
        return name_of(self.scaling)

    def value(self, name: str) -> Any:
        """Return a parameter of the schedule or of its scaling; None if it has no such parameter."""
        if name in _SCHEDULE_FIELDS:
            return getattr(self, name)
        return vars(self.scaling).get(name)

    def number(self, name: str) -> float | None:
        """Return a parameter of the schedule or of its scaling; None if it is not a number."""
        value = self.value(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number else None

    def having(self, name: str, value: Any) -> "FrequencySchedule":
        """Return the schedule with another value of one parameter, its own or its scaling's.

        `having("base", 500000.0)` changes the base, and `having("factor", 8.0)` the factor of YaRN. A
        parameter that neither has changes nothing: a search supposes several mistakes at once, and
        one that removes the scaling leaves nothing to do for one in its factor.
        """
        was_integer = isinstance(self.value(name), int)
        if was_integer and value == round(value):
            # A fitted length of 4096.0 stays an integer, as LongRoPE's attention factor requires.
            value = int(value)
        change: dict[str, Any] = {name: value}
        if name in _SCHEDULE_FIELDS:
            return replace(self, **change)
        if name in self.scaling.names():
            return replace(self, scaling=replace(self.scaling, **change))
        return self

    def unscaled(self) -> "FrequencySchedule":
        """Return the schedule without a scaling, in which all pairs rotate."""
        return replace(
            self, scaling=NO_SCALING, rotating=ALL_PAIRS, applied="once", scaling_denominator=None
        )


_SCHEDULE_FIELDS = frozenset(field.name for field in fields(FrequencySchedule))


def schedule_of(waves: WaveParameters) -> FrequencySchedule:
    """Return the rule for the frequencies of a table: scale · base^(−i/denominator) for pair i, and a scaling."""
    pairs = _count_pairs(waves)
    do_all_rotate = waves.rotating_pairs >= pairs
    return FrequencySchedule(
        pairs=pairs,
        denominator=waves.denominator,
        base=waves.base,
        scale=waves.scale,
        scaling=waves.scaling.with_defaults(),
        rotating=ALL_PAIRS if do_all_rotate else waves.rotating_pairs,
    )


def _count_pairs(waves: WaveParameters) -> int:
    """Return the number of frequencies in a table: 32 for 64 channels.

    Five interleaved channels have three, s0 c0 s1 c1 s2, since the last cosine may be missing.
    """
    channels = waves.dim
    is_interleaved = waves.layout == "interleaved" and not waves.separate
    if is_interleaved:
        channels += 1
    return max(1, channels // 2)  # A single channel is no whole pair, but holds a frequency.


def fit_parameter(
    schedule: FrequencySchedule, name: str, measured: MeasuredFrequencies, starts: Sequence[float]
) -> Fit | None:
    """Return the value of one number of a schedule for which it gives the measured frequencies; None if
    none does.

    Frequencies 1, 0.1, 0.01 and 0.001 lead to the base 10000, if the schedule has four pairs.

    Args:
        schedule: The schedule, of which all other numbers stay.
        name: The number: «base», or «factor» of its scaling.
        measured: The frequencies of a table, one per pair.
        starts: First guesses of the number.
    """

    def frequencies(value: float) -> Floats:
        return schedule.having(name, value).frequencies

    return fit_number(frequencies, measured, starts)


def wave_parameters_of_schedule(schedule: FrequencySchedule, dim: int, rows: int) -> WaveParameters:
    """Return the parameters of the usual table of cosines and sines with the frequencies of a schedule.

    A search that has found the frequencies of a file begins with this table, and replaces what it
    knows to be different. The usual one has `cos` and `sin` as two tensors (rows, dim/2), from
    position 0 on. The frequency of pair i is scale · base^(−i/denominator), before the scaling.

    Args:
        schedule: The rule for the frequencies, such as base 10000 without a scaling.
        dim: The number of channels that the table rotates.
        rows: The number of its positions.
    """
    return WaveParameters(
        base=schedule.base,
        denominator=schedule.denominator,  # of the fraction i/denominator
        scale=schedule.scale,
        scaling=schedule.scaling.brief(),
        rotating_pairs=schedule.rotating_pairs,  # The frequencies of later pairs are 0.
        amplitude=schedule.scaling.attention_value,  # YaRN multiplies cosines by 1.14, for example.
        dim=dim,
        offset=0,  # the first position
        length=rows,
        layout="compact",  # one column per pair
        cos_first=True,
        separate=True,  # two tensors
    )


def with_frequencies_of(schedule: FrequencySchedule, waves: WaveParameters) -> WaveParameters:
    """Return the parameters of a table with the frequencies of a schedule, and everything else as it is."""
    return waves._replace(
        denominator=schedule.denominator,
        base=schedule.base,
        scale=schedule.scale,
        scaling=schedule.scaling.brief(),
        rotating_pairs=schedule.rotating_pairs,
    )


def wave_parameters_without_position_list(scheme: Scheme) -> WaveParameters | None:
    """Return the base, scaling, width and other numbers that describe a scheme's cosines and sines.

    A list of positions, such as 3 1 2, is left out, since frequencies do not depend on it. None is
    returned for schemes on a grid, and for schemes without cosines and sines.
    """
    waves = wave_parameters(scheme)
    if waves is not None:
        return waves
    has_list = isinstance(scheme, Positioned) and scheme.positions is not None
    if not has_list:
        return None
    # Without a list, a scheme must have a number of rows. Frequencies do not depend on it either.
    without_list: dict[str, Any] = {"positions": None, "seq_len": 1}
    try:
        return wave_parameters(replace(scheme, **without_list))
    except ParameterError:  # Some parameters, such as mrope_section, go only with a list.
        return None
