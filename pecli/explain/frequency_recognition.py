"""Identification of vectors of rotary frequencies."""

from collections.abc import Iterator, Mapping

import numpy as np

from pecli.engine.arrays import Array, Floats, widened
from pecli.explain.catalogue.arithmetic import RoundedSteps
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.computation import FREQUENCY_RTOL, TINY
from pecli.explain.explanation import Explanation
from pecli.explain.frequency_schedule import FrequencySchedule, waves_of_schedule
from pecli.explain.hypotheses import accepted, explain_cases
from pecli.explain.measure import MeasuredFrequencies
from pecli.explain.numbers import digits, plain_numbers
from pecli.explain.schedule_priors import rotary_schedules
from pecli.explain.storage import FloatStorage, storages_of
from pecli.explain.subject import computation_of
from pecli.explain.tables import case_of
from pecli.explain.time_limit import check_time
from pecli.explain.wave_recognition import GRID_SIGMAS
from pecli.explain.wave_tables import scheme_of_waves

MIN_FREQUENCIES = 6
"""Elements of a vector that may be frequencies: fewer numbers lie on some schedule by chance."""

SAME_BASE = 1e-6
"""Relative error of a base that follows from frequencies in float32."""


def recognise_frequencies(tensors: Mapping[str, Array]) -> Iterator[Explanation]:
    """Yield the rotary scheme of a vector such as a model's inv_freq: 1, 0.75, 0.56, …

    The schedules that frequencies may follow (a base, a scaling) are tried from plain to elaborate; the
    first whose numbers are those of the vector is yielded.
    """
    (array,) = tensors.values()
    values = widened(array).reshape(-1)
    is_possible = np.isfinite(values).all() and (values >= 0).all() and values[0] > 0
    if len(values) < MIN_FREQUENCIES or not is_possible:
        return
    measured = MeasuredFrequencies(values, _errors(values), amplitude=1.0, is_folded=False)
    for prior in rotary_schedules(measured):
        check_time()
        if not _is_sure(prior.schedule):
            continue
        for explanation in _explanations_by_schedule(prior.schedule, values):
            yield explanation.with_suppositions(edits=(), cost=prior.cost, doubts=prior.open)
            return


def _errors(values: Floats) -> Floats:
    """Return errors of frequencies: of powers in float32, or of the coarse grid that holds them
    all.
    """
    computed = 0.25 * FREQUENCY_RTOL * np.abs(values) + TINY
    for grid in storages_of(values, "float64"):
        if grid != FloatStorage("float32"):
            return np.asarray(computed + grid.half_unit(values) / GRID_SIGMAS)
    return computed


def _is_sure(schedule: FrequencySchedule) -> bool:
    """Return True unless exponents over d/2 − 1, which no rotary scheme has, give a plainer base.

    The frequencies b^(−i/half) are those of the base b^(1 − 1/half) with exponents over half − 1. With
    32 frequencies, base 13459.6 is base 10000 like this: such a vector belongs to a sinusoidal table.
    """
    other_base = schedule.base ** (1 - 1 / schedule.half)
    plainest = next(plain_numbers(other_base, SAME_BASE * other_base), other_base)
    return digits(schedule.base) <= digits(plainest) + 2


def _explanations_by_schedule(schedule: FrequencySchedule, values: Floats) -> Iterator[Explanation]:
    """Yield explanations of a vector of frequencies by a schedule: as it is, or rounded to 16 or 8 bits."""
    scheme = scheme_of_waves(waves_of_schedule(schedule, 2 * schedule.pairs, rows=1))
    if scheme is None:
        return
    case = case_of(scheme, computation_of(scheme, ("inv_freq",)), {"inv_freq": values[None]})
    yield from explain_cases([case], 0.0, most_mistakes=0)
    names = scheme.recipe_names()
    steps = [step for step in RoundedSteps.proposals(case) if step.recipe in names]
    yield from accepted(map(case.supposing, steps))
    # The engine has no recipe for 8 bits: such frequencies are named by their storage.
    yield from accepted(case.supposing(Stored(grid)) for grid in storages_of(values, "bfloat16"))
