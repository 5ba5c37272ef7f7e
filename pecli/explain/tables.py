"""From tensors and the scheme that they should be of to explanations of their differences."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, widened
from pecli.engine.edits import Edit, Parameter, Transposed
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.parameters import Whole
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.explain.bias_computation import BiasComputation, without_masks
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import Computation, SchemeComputation
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import explain_cases
from pecli.explain.hypothesis import Case
from pecli.explain.observations import Observations, finest_dtype
from pecli.explain.shapes import SchemeTables, fit_shapes
from pecli.explain.subject import computation_of

WAVES = ("cos", "sin", "pe")
"""Tables that one computation makes together; in a file, they belong together if their shapes agree."""

VECTORS = ("inv_freq", "slopes")
"""Tensors that are compared relatively: their own dtype grants them nothing."""

FORMS_OF_ONE_QUERY = ("key", "key-last")
"""Forms of ALiBi's bias that are the same for all queries."""

MAX_POSITION_BYTES = 1 << 26
"""Memory for positions that any table may take: 8 million rows."""


def explain_tables(
    scheme: Scheme,
    tensors: Mapping[str, Array],
    tolerance: float,
    known_edits: tuple[Edit, ...],
    most_mistakes: int,
) -> list[Explanation]:
    """Return why tensors differ from those of a scheme, the shortest explanation first.

    The tensors belong together, such as cosines and sines. They may lie in a file in several ways:
    transposed, longer, in another layout. All these ways are searched together.

    Args:
        scheme: What should have made the tensors.
        tensors: Arrays by the scheme's names for them.
        tolerance: The tolerance of the check.
        known_edits: Differences that are known before the search, such as «the bits of bfloat16».
        most_mistakes: The most mistakes that one explanation may have.
    """
    cases = []
    # A case is one way in which the tensors may lie; its edits in `arranged` name this way.
    for case in cases_of(scheme, tensors):
        edits_of_every_explanation = (*known_edits, *case.arranged)
        cases.append(replace(case, arranged=edits_of_every_explanation))
    return explain_cases(cases, tolerance, most_mistakes)


@singledispatch
def cases_of(scheme: Scheme, tensors: Mapping[str, Array]) -> Iterator[Case]:
    """Yield each way in which tensors may have been made by a scheme, so that it can be compared with them.

    The scheme may have another size than the tensors, 512 rows for 256: it is resized, and the size is
    named as an edit. Schemes that are not registered here are made by the engine as a whole.
    """
    for resized, edits in _schemes_of_shapes(scheme, tensors):
        flat = {name: array.reshape(-1, array.shape[-1]) for name, array in tensors.items()}
        yield case_of(resized, SchemeComputation(resized, tuple(tensors)), flat, edits)


@cases_of.register
def _cases_of_waves(scheme: Positioned, tensors: Mapping[str, Array]) -> Iterator[Case]:
    if "axis" in tensors:  # It has the number of each pair's axis of positions, and no waves.
        return
    for tables in fit_shapes(scheme, tensors):
        if not _has_too_many_rows(tables):
            yield wave_case(tables)


@cases_of.register
def _cases_of_alibi(scheme: Alibi, tensors: Mapping[str, Array]) -> Iterator[Case]:
    ((name, array),) = tensors.items()
    yield from bias_cases(scheme, name, array)


def _schemes_of_shapes(
    scheme: Scheme, tensors: Mapping[str, Array]
) -> Iterator[tuple[Scheme, tuple[Edit, ...]]]:
    """Yield the scheme if its tensors have these shapes, or with one parameter that makes them so.

    A learned table (1024, 64) where (512, 64) is expected is one with max_len 1024: each size of the
    arrays is tried for each whole-numbered parameter. Each scheme is yielded with the edit that says
    so, or without one if it is the scheme that was specified.
    """
    if _has_shapes(scheme, tensors):
        yield scheme, ()
        return
    sizes = set(chain.from_iterable(array.shape for array in tensors.values()))
    for name, expected in _whole_numbers(scheme):
        for size in sorted(sizes - {expected}):
            resized = permitted(scheme, **{name: size})
            if resized is not None and _has_shapes(resized, tensors):
                yield resized, (Parameter(name, expected, size),)


def _whole_numbers(scheme: Scheme) -> Iterator[tuple[str, int | None]]:
    """Yield the name and the value of each whole-numbered parameter of a scheme."""
    for name, parameter in scheme.parameters().items():
        if isinstance(parameter, Whole):
            yield name, getattr(scheme, name)


def _has_shapes(scheme: Scheme, tensors: Mapping[str, Array]) -> bool:
    """Return True if the scheme makes tensors of these names and shapes."""
    made = named_tensors(scheme)
    return all(name in made and made[name].shape == array.shape for name, array in tensors.items())


def wave_case(tables: SchemeTables) -> Case:
    """Return tables of cosines and sines beside the steps that should have made them, to be compared."""
    computation = computation_of(tables.scheme, tuple(tables.tensors))
    schedule = computation.schedule
    if tables.exponent_dim is not None and schedule is not None:
        # The tables have another width, but the exponents are still divided by the specified one.
        resized = schedule.having("denominator", tables.exponent_dim / 2)
        computation = computation.with_schedule(resized)
    return case_of(tables.scheme, computation, tables.tensors, tables.edits)


def _has_too_many_rows(tables: SchemeTables) -> bool:
    """Return True if the positions of its rows would take much memory beside the tables themselves.

    Tables of cosines and sines have many columns. 2 × 10^8 numbers, transposed, would be 10^8 rows of
    one pair, and each case would have as many positions in float64.
    """
    tensor_bytes = sum(tensor.nbytes for tensor in tables.tensors.values())
    position_bytes = tables.shape[0] * np.dtype(np.float64).itemsize
    return position_bytes > max(MAX_POSITION_BYTES, tensor_bytes // 8)


def case_of(
    scheme: Scheme,
    computation: Computation,
    tensors: Mapping[str, Array],
    arranged: tuple[Edit, ...] = (),
) -> Case:
    """Return the case to be explained: tensors as data, and the steps that should have made them.

    Args:
        scheme: The scheme whose tensors they should be.
        computation: The steps by which it makes them.
        tensors: Matrices (rows, columns) by name.
        arranged: Edits that say how the tensors were transposed or resized to get there.
    """
    observations = Observations(tensors, observed_dtype(tensors))
    return Case.of(scheme, computation, observations, arranged)


def observed_dtype(tensors: Mapping[str, Array]) -> str:
    """Return the finest dtype of some tensors, so that rounding to it is granted without being stated."""
    if set(tensors) & set(VECTORS):
        return "float64"
    return finest_dtype(tensors.values(), default="float32")


def bias_cases(scheme: Alibi, name: str, array: Array) -> Iterator[Case]:
    """Yield what is to be explained: an array in each way in which it may be ALiBi's slopes or bias.

    An array (16, 64, 64) may be a bias of 16 heads, 64 queries and 64 keys; or queries and keys may have
    changed places.

    Args:
        scheme: ALiBi as it was specified.
        name: «bias» or «slopes».
        array: The numbers of a file.
    """
    if name == "slopes":
        yield from _slopes_cases(scheme, array)
    else:
        for bias in _possible_biases(scheme, array):
            yield from _cases_of_bias(scheme, name, bias)


def _cases_of_bias(scheme: Alibi, name: str, bias: "ReadBias") -> Iterator[Case]:
    """Yield the comparisons of a bias (heads, queries, keys) with those of ALiBi in the same shape.

    If 8 heads are expected and 12 are there, it is compared with ALiBi for 12 heads. Nothing is yielded
    if ALiBi cannot have that shape, as with more queries than keys.
    """
    keys = bias.values.shape[-1]
    matrix = bias.values.reshape(-1, keys)  # (heads · queries, keys)
    for scheme_of_same_shape in _schemes_with_shape(scheme, bias.values.shape):
        yield _case_of_alibi(scheme, scheme_of_same_shape, name, matrix, bias.transposed)


def _schemes_with_shape(scheme: Alibi, shape: tuple[int, ...]) -> Iterator[Alibi]:
    """Yield the scheme for a bias of some shape, in its own form or else in those with so many queries.

    BLOOM adds the same row to all queries, so that its bias has one: (heads, 1, keys). The row may count
    keys from the first or from the last one. Nothing is yielded if the scheme cannot have the shape: a
    shard of 4 heads has no bias of 8, for example.
    """
    heads, queries, keys = shape
    for form in (scheme.form, *FORMS_OF_ONE_QUERY):
        resized = permitted(scheme, form=form, seq_len=keys, **_sizes_of_heads(scheme, heads))
        if resized is not None and _has_heads_and_queries(resized, heads, queries):
            yield resized
            if form == scheme.form:
                return


def _has_heads_and_queries(scheme: Alibi, heads: int, queries: int) -> bool:
    """Return True if the bias of a scheme has so many heads (those of its shard) and so many queries."""
    return scheme.shard_heads == heads and BiasComputation.of(scheme, "bias").queries == queries


def _slopes_cases(scheme: Alibi, array: Array) -> Iterator[Case]:
    """Yield the case of a vector of slopes, one per head, if ALiBi can have so many heads."""
    slopes = array.reshape(-1, 1)
    resized = permitted(scheme, **_sizes_of_heads(scheme, len(slopes)))
    if resized is not None and resized.shard_heads == len(slopes):
        yield _case_of_alibi(scheme, resized, "slopes", slopes, ())


def _case_of_alibi(
    expected: Alibi, resized: Alibi, name: str, matrix: Array, transposed: tuple[Edit, ...]
) -> Case:
    """Return what is to be explained: an array, and the bias or slopes that ALiBi should have made.

    A bias of 16 heads where 8 are expected is compared with ALiBi for 16 heads. That heads is 16
    instead of 8 is then part of every explanation.

    Args:
        expected: The scheme as it was specified.
        resized: The scheme with as many heads and keys as the array has.
        name: «bias» or «slopes».
        matrix: The bias (heads · queries, keys), or the slopes (heads, 1).
        transposed: Edits that say how the array was transposed to get there.
    """
    edits = (*transposed, *_edits_of_sizes(expected, resized))
    # Some implementations mask with −65504 or the least float32 instead of −inf: no mistake.
    values = without_masks(widened(matrix))
    # The values are float64 now, but only as precise as the dtype of the file.
    observations = Observations({name: values}, observed_dtype({name: matrix}))
    return Case.of(resized, BiasComputation.of(resized, name), observations, edits)


def _edits_of_sizes(expected: Alibi, resized: Alibi) -> Iterator[Edit]:
    """Yield the number of heads and of keys, and the form, if it is another one than expected."""
    for name in ("heads", "seq_len", "form"):
        value = getattr(expected, name)
        resized_value = getattr(resized, name)
        if resized_value != value:
            yield Parameter(name, value, resized_value)


class ReadBias(NamedTuple):
    """An array as a bias (heads, queries, keys), and the edits that say how it was transposed."""

    values: Array
    transposed: tuple[Edit, ...] = ()


def _possible_biases(scheme: Alibi, array: Array) -> Iterator[ReadBias]:
    """Yield an array as a bias (heads, queries, keys), with its axes in each order that its shape allows.

    The axes of (64, 64, 8) may be (queries, keys, heads). With as many queries as keys, (8, 64, 64) may
    also be (heads, keys, queries). Nothing is yielded unless the array has two or three axes.
    """
    heads = scheme.shard_heads
    bias = array
    if array.ndim == 2:
        # The only head has a row per query. With several heads, all queries share a row per head.
        axis_to_add = 0 if heads == 1 else 1
        bias = np.expand_dims(array, axis_to_add)
    if bias.ndim != 3:
        return
    yield ReadBias(bias)
    may_have_heads_last = bias.shape[2] == heads
    if may_have_heads_last:
        heads_first = (2, 0, 1)
        yield ReadBias(bias.transpose(heads_first), (Transposed(heads_first),))
    has_as_many_queries_as_keys = bias.shape[1] == bias.shape[2] > 1
    if has_as_many_queries_as_keys:
        keys_before_queries = (0, 2, 1)
        yield ReadBias(bias.transpose(keys_before_queries), (Transposed(keys_before_queries),))


def _sizes_of_heads(scheme: Alibi, heads: int) -> dict[str, int]:
    """Return the parameter that gives a scheme as many heads as an array has.

    It is none if the scheme has as many already: the heads of a shard are some of the scheme's heads,
    which stay as they are. No number of heads gives a shard other heads than its own.
    """
    return {} if heads == scheme.shard_heads else {"heads": heads}
