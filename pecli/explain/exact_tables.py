"""Tables with mistakes, computed by the engine: the same bytes on every machine."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, Complex, Floats, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.changed_schemes import with_parameters
from pecli.explain.computation import (
    EXACT,
    FrequencyComputation,
    SchemeComputation,
    WaveComputation,
)
from pecli.explain.frequency_schedule import FrequencySchedule, waves_of_schedule
from pecli.explain.hypothesis import Mistake
from pecli.explain.planting import Tensors
from pecli.explain.wave_tables import scheme_of_waves


def exact_tensors(tensors: Tensors, mistake: Mistake) -> dict[str, Floats] | None:
    """Return tensors with a mistake in them, to be written as golden vectors that a port must fail.

    They have to be the same bytes on every machine. So the engine's correctly rounded cosines are
    used, not NumPy's; None is returned if the engine cannot make such numbers.

    Args:
        tensors: The right tensors: their names, their scheme and how they are made.
        mistake: The mistake, such as another base.
    """
    wrong_tensors = tensors.with_mistake(mistake)
    computation = wrong_tensors.computation
    if isinstance(computation, (BiasComputation, SchemeComputation)):
        # These are made of the engine's slopes or tables, without NumPy's cosines.
        return wrong_tensors.every_row
    is_vector_of_frequencies = isinstance(computation, FrequencyComputation)
    if is_vector_of_frequencies or not isinstance(computation, WaveComputation):
        # The engine has no exact numbers for wrong frequencies, rotated heads or two regimes.
        return None
    phasors = _exact_phasors(computation)
    if phasors is not None:
        return tensors.split(_stored_matrix(computation, phasors))
    return _tensors_of_mistaken_scheme(tensors, mistake)


def _stored_matrix(computation: WaveComputation, phasors: Complex) -> Floats:
    """Return all rows of a table as a file holds them, from cos + i·sin of each row and pair."""
    every_row = np.arange(computation.rows)
    values = computation.form.matrix_of(phasors, every_row)
    values[computation.is_row_empty] = 0.0
    return computation.as_stored(values, every_row)


def _exact_phasors(computation: WaveComputation) -> Complex | None:
    """Return cos + i·sin of all rows and pairs, each correctly rounded; None if no scheme has them.

    A scheme with the frequencies of the computation is set up at its positions, and its tables are read.
    """
    schedule = computation.schedule
    if schedule is None or not _is_expressible(computation, schedule):
        return None
    scheme = _scheme_of_schedule(schedule, computation.amplitude)
    if scheme is None:
        return None
    positions = tuple(int(position) for position in computation.positions[0])
    try:
        tables = with_parameters(scheme, positions=positions, seq_len=None).tables()
    except ParameterError:  # Dynamic scalings, for example, go only with consecutive positions.
        return None
    phasors = _phasors_of_tables(tables)
    if schedule.rotating is not None:
        phasors[:, schedule.rotating :] = computation.amplitude  # These pairs do not turn.
    return phasors


def _is_expressible(computation: WaveComputation, schedule: FrequencySchedule) -> bool:
    """Return True if a scheme may have the numbers of a computation.

    Its schemes here have exact arithmetic, positions 0, 1, 2, … in any order along one axis, and a
    scaling that is applied once.
    """
    if computation.arithmetic != EXACT or len(computation.positions) > 1:
        return False
    (positions,) = computation.positions
    are_indices = bool(((positions >= 0) & (positions == np.rint(positions))).all())
    is_scaled_as_usual = schedule.applied == "once" and schedule.scaling_denominator is None
    return are_indices and is_scaled_as_usual


def _phasors_of_tables(tables: Mapping[str, Array]) -> Complex:
    """Return cos + i·sin (rows, pairs) of compact rotary tables, or of a sinusoidal one with cosines in its
    first half: a row [c0 c1 | s0 s1] becomes c0 + i·s0, c1 + i·s1.
    """
    if "pe" in tables:
        cos, sin = np.split(widened(tables["pe"]), 2, axis=1)
    else:
        cos = widened(tables["cos"])
        sin = widened(tables["sin"])
    return np.asarray(cos + 1j * sin)


def _scheme_of_schedule(schedule: FrequencySchedule, amplitude: float) -> Scheme | None:
    """Return a scheme with the frequencies of a schedule, one column per pair for each function.

    A rotary scheme cannot multiply positions by 0.5, but a sinusoidal one can: it is taken if there is no
    rotary one. All pairs rotate in it: which ones do is no part of the frequencies.
    """
    every_pair = replace(schedule, rotating=None)
    waves = waves_of_schedule(every_pair, 2 * schedule.pairs, rows=1)._replace(amplitude=amplitude)
    rotary = scheme_of_waves(waves, dtype="float64")
    if rotary is not None:
        return rotary
    return scheme_of_waves(waves._replace(layout="halves", separate=False), dtype="float64")


def _tensors_of_mistaken_scheme(tensors: Tensors, mistake: Mistake) -> dict[str, Floats] | None:
    """Return the tensors of the scheme that has the mistake; None if it is not one of parameters.

    A table on a grid of 3 × 4 instead of 4 × 3 is that of a scheme with the other grid.
    """
    scheme = mistake.scheme_after(tensors.scheme)
    if scheme is None or scheme == tensors.scheme:
        return None
    tables = scheme.in_dtype("float64").tables()
    return {name: widened(tables[name]) for name in tensors.names}
