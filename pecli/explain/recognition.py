"""Identification of tables that nothing is known of: the scheme that made them, the best answer first.

Each recogniser supposes schemes that measurements suggest, and `accept` compares every element with what they make.
"""

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
from pecli.explain.wave_recognition import recognise_waves

MAX_VECTOR = 1 << 13
"""Elements of a vector that may be frequencies or slopes: no model has as many."""

MAX_ANSWERS = 3
"""Explanations of the same tensors that are given."""

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
    if len(tensors) > 1:
        return recognise_waves, recognise_grid
    return recognise_bias, recognise_waves, recognise_grid


def as_float32(array: Array) -> Array:
    """Return float32 numbers of a float64 array, if it holds such or writes them with nine digits."""
    if dtype_name(array.dtype) != "float64":
        return array
    values: Floats = widened(array)
    single = values.astype(np.float32)
    is_single = np.abs(single - values) <= NINE_DIGITS * np.abs(values)
    return single if bool((is_single | ~np.isfinite(values)).all()) else array


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
