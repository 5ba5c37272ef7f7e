"""Identification of tables that nothing is known of: the scheme that made them, the best answer first.

Each recogniser supposes schemes that measurements suggest, and `accept` compares every element with what they make.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np

from pecli.engine.arrays import Array, Floats, dtype_name, widened
from pecli.engine.edits import Dtype
from pecli.explain.bias_recognition import recognise_bias
from pecli.explain.explanation import Explanation, best
from pecli.explain.frequency_recognition import recognise_frequencies
from pecli.explain.grid_recognition import recognise_grid
from pecli.explain.index_recognition import recognise_index
from pecli.explain.time_limit import check_time, limited
from pecli.explain.wave_readings import MAX_TRANSPOSED
from pecli.explain.wave_recognition import recognise_waves

MAX_VECTOR = 1 << 13
"""Elements of a vector that may be frequencies or slopes: no model has as many."""

MAX_COLUMNS = 1 << 14
"""Columns of a large table that may be waves: no model has more channels, and each one is measured."""

MAX_ANSWERS = 3
"""Explanations of the same tensors that are given."""

PART_ELEMENTS = 1 << 20
"""Elements that are converted at once: a large file is not copied as a whole in float64."""

NINE_DIGITS = 5e-9
"""Relative error of float32 numbers that are written with nine digits."""

Tensors = Mapping[str, Array]


def recognise(tensors: Tensors) -> list[Explanation]:
    """Return what made tensors that belong together (cosines and sines, or one alone), the best first."""
    with limited():
        check_time()
        real = {name: as_float32(array) for name, array in tensors.items()}
        for recogniser in _recognisers(real):
            found = [_in_words_of(tensors, each) for each in recogniser(real)]
            if found:
                return best(found)[:MAX_ANSWERS]
    return []


Recogniser = Callable[[Tensors], Iterator[Explanation]]


def _recognisers(tensors: Tensors) -> tuple[Recogniser, ...]:
    """Return what may recognise tensors of such shapes; the first that finds something counts."""
    if any(not array.size for array in tensors.values()):
        return ()
    if any(array.dtype.kind in "iub" for array in tensors.values()):
        return (recognise_index,) if len(tensors) == 1 else ()
    if any(max(array.shape, default=1) == array.size for array in tensors.values()):
        (first, *others) = tensors.values()
        is_real = first.dtype.kind != "c"
        is_short = 1 < first.size <= MAX_VECTOR
        return (
            (recognise_bias, recognise_frequencies) if is_short and is_real and not others else ()
        )
    is_one_tensor = len(tensors) == 1
    if any(_is_too_wide(array) for array in tensors.values()):
        return (recognise_bias,) if is_one_tensor else ()
    if not is_one_tensor:
        return recognise_waves, recognise_grid
    return recognise_bias, recognise_waves, recognise_grid


def _is_too_wide(array: Array) -> bool:
    """Return True if a table is not read transposed either, and has more columns than any model has."""
    return array.size > MAX_TRANSPOSED and array.shape[-1] > MAX_COLUMNS


def as_float32(array: Array) -> Array:
    """Return float32 numbers of a float64 array, if it holds such or writes them with nine digits."""
    if dtype_name(array.dtype) != "float64" or array.ndim == 0:
        return array
    single = np.empty(array.shape, np.float32)
    for part in _parts(array.shape):
        values: Floats = widened(array[part])
        single[part] = values
        is_single = np.abs(single[part] - values) <= NINE_DIGITS * np.abs(values)
        if not (is_single | ~np.isfinite(values)).all():
            return array
    return single


def _parts(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of the first axis of an array, of about PART_ELEMENTS elements each."""
    elements_per_row = max(1, math.prod(shape[1:]))
    step = max(1, PART_ELEMENTS // elements_per_row)
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


def _in_words_of(tensors: Tensors, explanation: Explanation) -> Explanation:
    """Return an explanation with the names that the file has, without the dtype that the scheme has anyhow."""
    if explanation.scheme is not None:
        explanation = explanation.without(Dtype(explanation.scheme.dtype))
    return explanation.renamed(tensors)


def groups(tensors: Tensors) -> list[dict[str, Array]]:
    """Return cosines with the sines that have their name, shape and dtype; every other tensor alone."""
    alone = dict(tensors)
    pairs = []
    for first, second in combinations(tensors, 2):
        cos, sin = (first, second) if "cos" in first.lower() else (second, first)
        are_left = cos in alone and sin in alone
        if are_left and _belong_together(cos, sin, tensors):
            pairs.append({cos: alone.pop(cos), sin: alone.pop(sin)})
    return pairs + [{name: array} for name, array in alone.items()]


def _belong_together(cos: str, sin: str, tensors: Tensors) -> bool:
    """Return True if two tensors have the same name, shape and dtype, «sin» for «cos» in the name apart."""
    if sin.lower() != cos.lower().replace("cos", "sin"):
        return False
    cosines = tensors[cos]
    sines = tensors[sin]
    return cosines.shape == sines.shape and cosines.dtype == sines.dtype
