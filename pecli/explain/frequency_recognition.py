"""Identification of vectors of rotary frequencies."""

from collections.abc import Iterator, Mapping

import numpy as np

from pecli.engine.arrays import Array, Floats, widened
from pecli.explain.catalogue.arithmetic import RoundedSteps
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import accepted, explain_cases
from pecli.explain.law import Law, waves_of_law
from pecli.explain.law_priors import rotary_laws
from pecli.explain.making import FREQUENCY_RTOL, TINY
from pecli.explain.measure import Frequencies
from pecli.explain.numbers import digits, plain_numbers
from pecli.explain.storage import FloatStorage, storages_of
from pecli.explain.subject import making_of
from pecli.explain.tables import case_of
from pecli.explain.time_limit import check_time
from pecli.explain.wave_recognition import GRID_SIGMAS, MIN_BASE
from pecli.explain.wave_tables import scheme_of_waves

MIN_FREQUENCIES = 6
"""Elements of a vector that may be frequencies: fewer numbers lie on some law by chance."""

SAME_BASE = 1e-6
"""Relative error of a base that follows from frequencies in float32."""


def recognise_frequencies(tensors: Mapping[str, Array]) -> Iterator[Explanation]:
    """Yield the rotary scheme of a vector such as a model's inv_freq: 1, 0.75, 0.56, …

    The laws that frequencies may follow (a base, a scaling) are tried from plain to elaborate; the
    first whose numbers are those of the vector is yielded.
    """
    (array,) = tensors.values()
    values = widened(array).reshape(-1)
    is_possible = len(values) >= MIN_FREQUENCIES and bool(np.isfinite(values).all())
    if not is_possible or (values < 0).any() or values[0] == 0:
        return
    measured = Frequencies(values, _errors(values), 1.0, False)
    for prior in rotary_laws(measured):
        check_time()
        if not _is_sure(prior.law):
            continue
        for explanation in _explanations_by_law(prior.law, values):
            yield explanation.supposing((), prior.cost, prior.open)
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


def _is_sure(law: Law) -> bool:
    """Return True unless exponents over d/2 − 1, which no rotary scheme has, give a plainer base."""
    if law.base < MIN_BASE:
        return False
    over = law.base ** (1 - 1 / law.half)
    plainer = next(plain_numbers(over, SAME_BASE * over), over)
    return digits(law.base) <= digits(plainer) + 2


def _explanations_by_law(law: Law, values: Floats) -> Iterator[Explanation]:
    """Yield explanations of a vector of frequencies by a law: as it is, or rounded to 16 or 8 bits."""
    scheme = scheme_of_waves(waves_of_law(law, 2 * law.pairs, rows=1))
    if scheme is None:
        return
    making = making_of(scheme, ("inv_freq",))
    case = None if making is None else case_of(scheme, making, {"inv_freq": values[None]})
    if case is None:
        return
    yield from explain_cases([case], 0.0, most_mistakes=0)
    names = scheme.recipe_names()
    steps = [step for step in RoundedSteps.proposals(case) if step.recipe in names]
    yield from accepted(map(case.given, steps))
    # The engine has no recipe for 8 bits: such frequencies are named by their storage.
    yield from accepted(case.given(Stored(grid)) for grid in storages_of(values, "bfloat16"))
