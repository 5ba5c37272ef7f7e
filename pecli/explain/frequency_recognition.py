"""Identification of vectors of rotary frequencies."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from pecli.engine.arrays import Array, Floats, widened
from pecli.engine.schemes.positions import Positioned
from pecli.explain.catalogue.arithmetic import RoundedSteps
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.computation import TINY, standard_errors_of_powers
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_plain_or_exact_schedule
from pecli.explain.frequency_schedule import FrequencySchedule, wave_parameters_of_schedule
from pecli.explain.hypotheses import accepted, explain_by_kind, explain_cases
from pecli.explain.hypothesis import Case
from pecli.explain.measure import MeasuredFrequencies
from pecli.explain.numbers import digits, plainest_number
from pecli.explain.schedule_priors import SchedulePrior, rotary_schedules
from pecli.explain.storage import FloatStorage, half_ulp, storages_of
from pecli.explain.subject import computation_of
from pecli.explain.tables import case_of, observed_dtype
from pecli.explain.wave_recognition import GRID_SIGMAS
from pecli.explain.wave_tables import scheme_with_wave_parameters

MIN_FREQUENCIES = 6
"""Elements of a vector that may be frequencies: fewer numbers lie on some schedule by chance."""

EXACT_UNITS = 4.0
"""Half units of the last place by which powers of different libraries differ."""

SAME_BASE = 1e-6
"""Relative error of a base that follows from frequencies in float32."""


def recognise_frequencies(tensors: Mapping[str, Array]) -> list[Explanation]:
    """Return the rotary scheme whose frequencies a vector holds, such as a model's inv_freq: 1, 0.75, 0.56, …

    Several bases and scalings may have these frequencies nearly. A base with few digits is preferred,
    unless only one with more digits has them exactly.

    Returns:
        One explanation; an empty list if the vector does not hold frequencies.
    """
    (vector,) = tensors.values()
    values = widened(vector).reshape(-1)
    dtype = observed_dtype({"values": vector})
    if not _may_be_frequencies(values) or _are_evenly_spaced(values, dtype):
        return []
    # The residual of an exact explanation is no larger than libraries differ from each other.
    return explain_by_plain_or_exact_schedule(
        schedules=_possible_schedules(values, dtype),
        explain=partial(_explain_by_schedule, values),
        largest_exact_residual=_largest_difference_of_libraries(values, dtype),
    )


def _possible_schedules(values: Floats, dtype: str) -> list[SchedulePrior]:
    """Return the rotary schedules that have the frequencies of a vector nearly, the plainest first."""
    schedules = rotary_schedules(_frequencies_with_errors(values, dtype))
    return [prior for prior in schedules if _is_rotary(prior.schedule)]


def _largest_difference_of_libraries(values: Floats, dtype: str) -> float:
    """Return how far libraries may differ in frequencies that all of them compute by the same rule.

    Each may round the last place of a power in its own way.
    """
    return EXACT_UNITS * float(half_ulp(values, dtype).max())


def _may_be_frequencies(values: Floats) -> bool:
    """Return True for enough numbers ≥ 0: pairs that do not rotate have 0, but the first pair rotates."""
    is_possible = np.isfinite(values) & (values >= 0)
    return len(values) >= MIN_FREQUENCIES and bool(is_possible.all()) and values[0] > 0


def _are_evenly_spaced(values: Floats, dtype: str) -> bool:
    """Return True if every number is by the same step smaller, or larger, than the one before.

    A row of ALiBi's bias is, such as 1 − 0.0625 · i. Frequencies are not, since each is a multiple of
    the one before: 1, 0.93, 0.86, 0.80 are so for base 1.8. But rounded to 8 bits, 1 − 0.0625 · i may
    be either, and no model has such a base. Equal numbers have no step.
    """
    steps = np.diff(values)
    largest_rounding = float(half_ulp(values, dtype).max())
    spread_of_steps = float(np.ptp(steps))
    is_step_zero = abs(steps[0]) <= 2 * largest_rounding
    return not is_step_zero and spread_of_steps <= 4 * largest_rounding


def _frequencies_with_errors(values: Floats, dtype: str) -> MeasuredFrequencies:
    """Return the frequencies of a vector like those that are measured in a table.

    Args:
        values: The vector.
        dtype: The dtype of the file.
    """
    return MeasuredFrequencies(
        values=values,
        errors=_errors_of_frequencies(values),
        # If powers were computed in float64, only the file's dtype rounded them.
        sharp_errors=half_ulp(values, dtype) + TINY,
        amplitude=1.0,
        is_folded=False,  # A vector states the signs of frequencies, which cosines do not show.
    )


def _errors_of_frequencies(values: Floats) -> Floats:
    """Return the standard errors of the frequencies in a vector.

    They are those of powers in float32, and of rounding if all values are numbers of a coarser
    storage, such as bfloat16 or four decimals.
    """
    errors_of_powers = standard_errors_of_powers(values)
    for storage in storages_of(values, "float64"):
        if storage != FloatStorage("float32"):
            return errors_of_powers + storage.half_unit(values) / GRID_SIGMAS
    return errors_of_powers


def _is_rotary(schedule: FrequencySchedule) -> bool:
    """Return True unless exponents over d/2 − 1, which no rotary scheme has, give a plainer base.

    With n in the denominator, the frequencies b^(−i/n) are those of the base b^(1 − 1/n) and n − 1. With
    32 frequencies, base 13459.6 is base 10000 like this: such a vector belongs to a sinusoidal table.
    """
    base = _plainest_near(schedule.base)
    other_base = _plainest_near(schedule.base ** (1 - 1 / schedule.denominator))
    return digits(base) <= digits(other_base) + 2


def _plainest_near(base: float) -> float:
    """Return the number with the fewest digits near a base: 10000 for 10000.04."""
    return plainest_number(base, SAME_BASE * base)


def _explain_by_schedule(values: Floats, prior: SchedulePrior) -> Iterator[Explanation]:
    """Yield explanations of a vector of frequencies by a schedule, the one that changes least first.

    With base 10000 and 4 pairs, the frequencies are 1, 0.1, 0.01 and 0.001. A vector may hold these
    as they are; 0.1001 for 0.1, because the model was cast to bfloat16; or coarser numbers, which were
    stored in 8 bits.

    Args:
        values: The vector, one frequency per pair.
        prior: The schedule that is supposed to have made it.
    """
    scheme = _rotary_scheme_of(prior.schedule)
    if scheme is None:
        return
    case = _case_of_vector(values, scheme)
    # As float64 or float32 gives them, without a mistake.
    yield from explain_cases([case], tolerance=0.0, most_mistakes=0)
    # Rounded to 16 bits, as some recipe of the scheme does.
    yield from explain_by_kind(case, RoundedSteps)
    yield from _explain_by_coarse_storage(case, values)


def _case_of_vector(values: Floats, scheme: Positioned) -> Case:
    """Return what is to be explained: a vector, which should hold the frequencies of a scheme."""
    one_row = values[None]  # (1, pairs)
    return case_of(scheme, computation_of(scheme, ("inv_freq",)), {"inv_freq": one_row})


def _explain_by_coarse_storage(case: Case, values: Floats) -> Iterator[Explanation]:
    """Yield explanations of frequencies that were rounded more coarsely than to bfloat16, to 8 bits, say.

    No recipe of the engine makes them, so that the way in which they were stored is named.
    """
    storages = storages_of(values, "bfloat16")
    yield from accepted(case.supposing(Stored(storage)) for storage in storages)


def _rotary_scheme_of(schedule: FrequencySchedule) -> Positioned | None:
    """Return the rotary scheme with the frequencies of a schedule; None if no scheme has them."""
    channels = 2 * schedule.pairs
    parameters = wave_parameters_of_schedule(schedule, channels, rows=1)
    return scheme_with_wave_parameters(parameters)
