"""Identification of tables that nothing is known of: the scheme that made them, the best answer first.

Each recogniser supposes schemes that measurements suggest, and `accept` compares every element with what they make.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from pecli.engine.arrays import Array, Floats, dtype_name, row_blocks, widened
from pecli.engine.edits import Dtype
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.bias_recognition import recognise_bias
from pecli.explain.explanation import Explanation, best
from pecli.explain.first_choice import explain_by_first
from pecli.explain.frequency_recognition import recognise_frequencies
from pecli.explain.frequency_schedule import (
    schedule_of,
    wave_parameters_without_position_list,
)
from pecli.explain.grid_recognition import recognise_grid
from pecli.explain.index_recognition import recognise_index
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.time_limit import check_time, limited
from pecli.explain.wave_readings import MAX_TRANSPOSED
from pecli.explain.wave_recognition import recognise_waves

MAX_VECTOR = 1 << 13
"""Elements of a vector that may be frequencies or slopes: no model has as many."""

MAX_COLUMNS = 1 << 14
"""Columns of a large table that may be waves: no model has more channels, and each one is measured."""

MAX_ANSWERS = 3
"""Explanations of the same tensors that are given."""

NINE_DIGITS = 5e-9
"""Relative error of float32 numbers that are written with nine digits."""

Tensors = Mapping[str, Array]


def recognise(
    tensors: Tensors, schedules_in_file: Sequence[SchedulePrior] = ()
) -> list[Explanation]:
    """Return explanations of what made some tensors: schemes such as RoPE with base 10000, the best first.

    No scheme is expected. Each recogniser (of biases, of waves, …) looks for the schemes of its kind; the
    first one that finds any decides.

    Args:
        tensors: Cosines and the sines that belong to them, or a single array, by their names in the file.
        schedules_in_file: Schedules of frequencies that the same file holds as a vector. Tables in bfloat16 show
            a base to four digits, and `inv_freq` in float64 beside them to fifteen.
    """
    explanations: list[Explanation] = []
    with limited():  # It ends the block without an error if time is up or the arithmetic fails.
        check_time()
        narrowed = {name: as_float32(array) for name, array in tensors.items()}
        has_elements = any(array.size for array in narrowed.values())
        if has_elements:
            recognisers = _choose_recognisers([*narrowed.values()], schedules_in_file)
            explanations = explain_by_first(recognisers, lambda recogniser: recogniser(narrowed))
    for_file = [_with_names_in_file(explanation, tensors) for explanation in explanations]
    return best(for_file)[:MAX_ANSWERS]


def priors_of(scheme: Scheme, doubts: tuple[str, ...]) -> list[SchedulePrior]:
    """Return the schedule of a scheme with cosines and sines, such as base 10000; none of ALiBi.

    Args:
        scheme: The scheme.
        doubts: Sentences about what its frequencies leave open.
    """
    waves = wave_parameters_without_position_list(scheme)
    if waves is None:
        return []
    return [SchedulePrior(schedule_of(waves), doubts=doubts)]


Recogniser = Callable[[Tensors], Iterable[Explanation]]


def _choose_recognisers(
    arrays: Sequence[Array], schedules_in_file: Sequence[SchedulePrior]
) -> tuple[Recogniser, ...]:
    """Return the functions that may recognise arrays of such shapes and dtypes, in the order to try them.

    Two arrays are cosines and sines. A single array can also be a bias, an index or a vector.

    Args:
        arrays: One array, or two of the same shape and dtype that belong together.
        schedules_in_file: Schedules of frequencies that the same file holds as a vector.
    """
    first, *others = arrays
    of_tables: tuple[Recogniser, ...] = ()
    if _may_be_table(first):
        of_tables = (
            partial(recognise_waves, schedules_in_file=schedules_in_file),
            recognise_grid,
        )
    if others:
        return of_tables
    if _is_of_integers(first):
        return (recognise_index,)
    if is_vector(first):
        return _recognisers_of_vector(first)
    return recognise_bias, *of_tables


def _is_of_integers(array: Array) -> bool:
    return array.dtype.kind in "iub"


def _may_be_table(array: Array) -> bool:
    """Return True if an array of such a shape and dtype may hold cosines and sines."""
    return not (_is_of_integers(array) or is_vector(array) or _is_too_wide(array))


def is_vector(array: Array) -> bool:
    """Return True if at most one axis is longer than 1."""
    return max(array.shape, default=1) == array.size


def _recognisers_of_vector(vector: Array) -> tuple[Recogniser, ...]:
    """Return what may recognise a vector: as the slopes of a bias, or as frequencies."""
    is_short = 1 < vector.size <= MAX_VECTOR
    if vector.dtype.kind == "c" or not is_short:
        return ()
    return recognise_bias, recognise_frequencies


def _is_too_wide(array: Array) -> bool:
    """Return True if a table is not read transposed either, and has more columns than any model has.

    Axes of length 1 do not count: a text of six million lines of one number each is also read as
    cosines above sines, (2, 3000000, 1), which would be two rows of three million columns.
    """
    lengths = [length for length in array.shape if length != 1]
    return array.size > MAX_TRANSPOSED and lengths[-1] > MAX_COLUMNS


def as_float32(array: Array) -> Array:
    """Return a float64 array as float32, if all of its numbers are float32 numbers.

    Files of text, and programs that convert everything to float64, hold float32 numbers so: 0.1 as
    0.10000000149011612, or with nine digits as 0.100000001. Any other array is returned as it is.
    """
    if dtype_name(array.dtype) != "float64" or array.ndim == 0:
        return array
    rounded = np.empty(array.shape, np.float32)
    for block in row_blocks(array.shape):
        values: Floats = widened(array[block])
        rounded[block] = values
        is_float32 = np.abs(rounded[block] - values) <= NINE_DIGITS * np.abs(values)
        if not (is_float32 | ~np.isfinite(values)).all():
            return array
    return rounded


def _with_names_in_file(explanation: Explanation, tensors: Tensors) -> Explanation:
    """Return an explanation of the tensors under their names in the file, such as `rope.cos` for `cos`.

    The edit «stored in bfloat16» is left out if the scheme has this dtype: the scheme states it already.
    """
    assert explanation.scheme is not None  # Tables are recognised by the scheme that makes them.
    return explanation.without(Dtype(explanation.scheme.dtype)).renamed(tensors)


def groups(tensors: Tensors) -> list[dict[str, Array]]:
    """Return a file's tensors in groups: cosines with the sines that belong to them, all others on their own.

    The names `rope.cos`, `rope.sin` and `mask` make the groups {rope.cos, rope.sin} and {mask}.
    """
    unpaired = dict(tensors)
    pairs = []
    names_by_lower_case = {name.lower(): name for name in tensors}
    for cos in tensors:
        sin = names_by_lower_case.get(cos.lower().replace("cos", "sin"), cos)
        is_name_of_pair = sin != cos and sin in unpaired
        if is_name_of_pair and _are_alike(tensors[cos], tensors[sin]):
            pairs.append({cos: unpaired.pop(cos), sin: unpaired.pop(sin)})
    return pairs + [{name: array} for name, array in unpaired.items()]


def _are_alike(cosines: Array, sines: Array) -> bool:
    return (cosines.shape, cosines.dtype) == (sines.shape, sines.dtype)
