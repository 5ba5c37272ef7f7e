"""Conditions under which a mistake is possible or can be measured; each kind lists those that it has.

Conditions are tested in the order in which a kind lists them, so that one may rely on those before it.
"""

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.computation import EXACT, Columns, FrequencyComputation, WaveComputation
from pecli.explain.frequency_schedule import NO_SCALING
from pecli.explain.hypothesis import Case


def is_table(waves: WaveComputation) -> bool:
    """Return True for tables of cosines and sines, whose columns may be wrong."""
    return isinstance(waves.form, Columns)


def is_vector(waves: WaveComputation) -> bool:
    """Return True for a vector of frequencies."""
    return isinstance(waves, FrequencyComputation)


def has_angles(waves: WaveComputation) -> bool:
    """Return True for tables and rotated heads: a vector of frequencies has no angles."""
    return not is_vector(waves)


def is_table_or_vector(waves: WaveComputation) -> bool:
    """Return True unless queries or keys are rotated."""
    return is_table(waves) or is_vector(waves)


def places_rows(waves: WaveComputation) -> bool:
    """Return True if rows are those of a table: tokens have mistakes of their own."""
    return not waves.are_rows_tokens


def has_one_axis(waves: WaveComputation) -> bool:
    """Return True unless rows lie on a grid, or have positions of time, height and width."""
    return len(waves.positions) == 1


def has_several_rows(waves: WaveComputation) -> bool:
    """Return True if there is more than one row."""
    return waves.rows > 1


def has_schedule(waves: WaveComputation) -> bool:
    """Return True if all frequencies follow one schedule, as they do unless each axis has its own."""
    return waves.schedule is not None


def has_no_schedule(waves: WaveComputation) -> bool:
    """Return True if each axis of a grid has frequencies of its own."""
    return waves.schedule is None


def has_scaling(waves: WaveComputation) -> bool:
    """Return True if the schedule is scaled."""
    assert waves.schedule is not None  # `has_schedule` is tested before.
    return waves.schedule.scaling != NO_SCALING


def has_distances(bias: BiasComputation) -> bool:
    """Return True for a bias, and False for slopes alone."""
    return bias.multiples.size > 1


def has_several_queries(bias: BiasComputation) -> bool:
    """Return True if distances differ between queries."""
    return bias.queries > 1


def has_several_heads(bias: BiasComputation) -> bool:
    """Return True if heads can be exchanged."""
    return len(bias.slopes) > 1


def is_masked(bias: BiasComputation) -> bool:
    """Return True for a causal bias of several queries."""
    return bool(bias.masked.any())


def is_rotary(scheme: Scheme) -> bool:
    """Return True for schemes that rotate queries and keys; others have no scalings."""
    return scheme.applied_as == "rotation"


def has_placed_rows(scheme: Scheme) -> bool:
    """Return True unless rows are at consecutive positions."""
    return not scheme.is_range


def has_base(scheme: Scheme) -> bool:
    """Return True unless frequencies are given one by one."""
    return scheme.value_of("inv_freq") is None


def has_all_heads(scheme: Alibi) -> bool:
    """Return True unless the scheme is one shard of heads, whose slopes do not begin with the first."""
    return scheme.head_range is None


def has_a_shard_of_heads(scheme: Alibi) -> bool:
    """Return True if the scheme is one shard of heads."""
    return scheme.head_range is not None


def show_frequencies(case: Case) -> bool:
    """Return True if frequencies could be measured."""
    return case.measured_frequencies is not None


def show_phasors(case: Case) -> bool:
    """Return True if the data have both cosines and sines."""
    return case.measured_phasors is not None


def show_positions(case: Case) -> bool:
    """Return True if most rows are at some position, by the frequencies that are supposed."""
    return case.measured_positions is not None


def are_floats(case: Case) -> bool:
    """Return True unless some tensor holds integers: of these, 1065353216 may stand for any number."""
    return all(array.dtype.kind not in "iu" for array in case.observations.tensors.values())


def is_inexact(case: Case) -> bool:
    """Return True unless most columns are exact, so that no step of a computation was rounded."""
    return case.specification.arithmetic != EXACT


def are_right_near_zero(case: Case) -> bool:
    """Return True unless the first rows are so wrong that no rounding explains them."""
    return not case.is_far_off_near_zero


def have_specified_parameters(case: Case) -> bool:
    """Return True unless a supposed mistake has other parameters, which this one would overwrite."""
    return not case.has_other_parameters
