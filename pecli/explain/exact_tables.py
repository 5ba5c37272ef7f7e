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
from pecli.explain.frequency_schedule import (
    ALL_PAIRS,
    FrequencySchedule,
    wave_parameters_of_schedule,
)
from pecli.explain.hypothesis import Mistake
from pecli.explain.planting import Tensors
from pecli.explain.wave_tables import scheme_with_wave_parameters


def exact_tensors(tensors: Tensors, mistake: Mistake) -> dict[str, Floats] | None:
    """Return tensors with a mistake that have the same bytes on every machine.

    `pecli golden` writes them as test data: an implementation that agrees with them has the mistake.
    NumPy's cosines differ between machines in the last bit. The engine, the part of this package that
    makes right tables, has cosines that are correctly rounded and so the same everywhere.

    Args:
        tensors: The right tensors: their names, their scheme and the steps that make them.
        mistake: The mistake, such as another base.

    Returns:
        The wrong tensors by name; None if they cannot be made without NumPy's functions.
    """
    wrong_tensors = tensors.with_mistake(mistake)
    steps = wrong_tensors.computation
    if isinstance(steps, (BiasComputation, SchemeComputation)):
        # attention biases, slope times distance, and tables that the engine has made already
        return wrong_tensors.every_row
    if isinstance(steps, WaveComputation) and not isinstance(steps, FrequencyComputation):
        return _exact_table(wrong_tensors, steps, mistake)
    # Vectors of frequencies are powers by NumPy, and the rest, such as tables of which only some rows
    # are wrong, cosines by NumPy.
    return None


def _exact_table(
    wrong_tensors: Tensors, table: WaveComputation, mistake: Mistake
) -> dict[str, Floats] | None:
    """Return tensors of cosines and sines with a mistake; None if the engine cannot make them exactly.

    Args:
        wrong_tensors: The tensors with the mistake.
        table: The steps by which these are made, as one table of all their columns.
        mistake: The mistake.
    """
    cos_and_sin = _exact_cos_and_sin(table)
    if cos_and_sin is not None:
        return wrong_tensors.split(_stored_matrix(table, cos_and_sin))
    return _tensors_of_mistaken_scheme(wrong_tensors, mistake)


def _stored_matrix(computation: WaveComputation, cos_and_sin: Complex) -> Floats:
    """Return all rows of a table as a file holds them, from cos + i·sin of each row and pair."""
    every_row = np.arange(computation.rows)
    values = computation.form.matrix_of(cos_and_sin, every_row)
    values[computation.is_row_empty] = 0.0
    return computation.as_stored(values, every_row)


def _exact_cos_and_sin(computation: WaveComputation) -> Complex | None:
    """Return cos + i·sin of each row and pair of a table, (rows, pairs), correctly rounded.

    The engine makes correctly rounded tables of schemes. So the numbers are taken from a scheme with
    the same frequencies and positions. None is returned if there is no such scheme.
    """
    frequency_rule = computation.schedule  # such as base^(−i/32) for pair i
    if frequency_rule is None or not _may_be_of_scheme(computation, frequency_rule):
        return None
    (positions,) = computation.positions  # along the only axis
    tables = _scheme_tables(frequency_rule, positions, computation.amplitude)
    if tables is None:
        return None
    cos_and_sin = _cos_and_sin_of_tables(tables)
    # The scheme turns all pairs, but maybe only the first few should turn. The others keep the
    # angle 0, for which amplitude · (cos 0 + i·sin 0) is the amplitude.
    turning_pairs = frequency_rule.rotating_pairs
    cos_and_sin[:, turning_pairs:] = computation.amplitude
    return cos_and_sin


def _scheme_tables(
    schedule: FrequencySchedule, positions: Floats, amplitude: float
) -> Mapping[str, Array] | None:
    """Return the tables of a scheme with some frequencies and positions; None if there is no such scheme.

    Args:
        schedule: The rule for the frequencies. All pairs turn, also those that should not.
        positions: The position of each row, whole numbers.
        amplitude: What cosines and sines are multiplied by.
    """
    scheme = _scheme_of_schedule(schedule, amplitude)
    if scheme is None:
        return None
    return _tables_at(positions, scheme)


def _tables_at(positions: Floats, scheme: Scheme) -> Mapping[str, Array] | None:
    """Return the tables of a scheme at positions (rows,), whole numbers; None if it refuses such.

    Dynamic scalings, for example, go only with consecutive positions.
    """
    listed = tuple(int(position) for position in positions)
    try:
        return with_parameters(scheme, positions=listed, seq_len=None).tables()
    except ParameterError:
        return None


def _may_be_of_scheme(computation: WaveComputation, schedule: FrequencySchedule) -> bool:
    """Return True if a scheme may have the numbers of a computation.

    A scheme with exact arithmetic has positions 0, 1, 2, … in any order along one axis, and a scaling
    that is applied once.
    """
    if computation.arithmetic != EXACT or len(computation.positions) > 1:
        return False
    (positions,) = computation.positions
    are_indices = bool(((positions >= 0) & (positions == np.rint(positions))).all())
    is_scaled_as_usual = schedule.applied == "once" and schedule.scaling_denominator is None
    return are_indices and is_scaled_as_usual


def _cos_and_sin_of_tables(tables: Mapping[str, Array]) -> Complex:
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
    every_pair = replace(schedule, rotating=ALL_PAIRS)
    usual_parameters = wave_parameters_of_schedule(every_pair, 2 * schedule.pairs, rows=1)
    of_rotary = usual_parameters._replace(amplitude=amplitude)
    rotary = scheme_with_wave_parameters(of_rotary, dtype="float64")
    if rotary is not None:
        return rotary
    of_sinusoidal = of_rotary._replace(layout="halves", separate=False)
    return scheme_with_wave_parameters(of_sinusoidal, dtype="float64")


def _tensors_of_mistaken_scheme(tensors: Tensors, mistake: Mistake) -> dict[str, Floats] | None:
    """Return the tensors of the scheme that has the mistake; None if it is not one of parameters.

    A table on a grid of 3 × 4 instead of 4 × 3 is that of a scheme with the other grid.
    """
    scheme = mistake.scheme_after(tensors.scheme)
    if scheme is None or scheme == tensors.scheme:
        return None
    tables = scheme.in_dtype("float64").tables()
    return {name: widened(tables[name]) for name in tensors.names}
