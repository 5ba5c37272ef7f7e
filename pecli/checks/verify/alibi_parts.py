"""Biases and slopes of ALiBi that are a part of a table, or hold it more than once.

A shard of a model has some of its heads, decoding has the last queries, keras-hub repeats the key
form for every query, and x-transformers has zeros for heads without a bias.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.compare.target import Target, fixed
from pecli.engine.arrays import AnyArray, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import counted

MIN_NEAR = 0.99  #: share of the elements that must be near for a part to be recognised
RTOL = 1e-2  #: relative error of a near element, which bfloat16 may have
ATOL = 1e-3


class Part(NamedTuple):
    """A part of a table, such as the heads of a shard, and the words for it."""

    values: AnyArray
    words: str


def alibi_parts(scheme: Scheme, array: AnyArray) -> Iterator[Target]:
    """Yield the parts of a scheme's table that an array holds, judging by shape and values.

    Of a bias (8 heads, 16, 16), an array (4, 16, 16) may hold heads 0–3 or 4–7, and (8, 2, 16) the
    last 2 queries.

    Args:
        scheme: The scheme of all heads, ALiBi or another one with a bias.
        array: Slopes (heads,), or a bias (…, heads, queries, keys).
    """
    table = scheme.tensors()[0]
    depth = len(table.shape)
    shape = array.shape[-depth:]
    is_one_table = array.ndim >= depth and array.size == math.prod(shape)
    is_whole = shape == table.shape
    if not is_one_table or is_whole or array.dtype.kind not in "fV":
        return
    values = widened(array.reshape(shape))
    for part in _parts_near(widened(table.array()), values):
        expected = {table.name: part.values.astype(np.float32)}
        words = _in_form(scheme, part.words)
        yield fixed(expected, scheme, words=words, masked=depth > 1)


def _parts_near(table: AnyArray, values: AnyArray) -> Iterator[Part]:
    """Yield the parts of a table whose shape and values an array has."""
    for heads in _parts_of_heads(table, values):
        for part in _parts_of_queries(heads, values):
            if part.values.shape == values.shape and _is_near(part.values, values):
                yield part


def _in_form(scheme: Scheme, words: str) -> str:
    """Return the words for a part of a bias, with the form of the bias if it has one."""
    form = scheme.value_of("form", "")
    return f"in the {form} form, {words}" if form else words


def _parts_of_heads(table: AnyArray, array: AnyArray) -> Iterator[Part]:
    """Yield the heads that an array may have: all, those of a shard, or all and zeros for others.

    Of 8 heads, 4 are those of one of two shards; 12 are all of them and 4 heads without a bias.
    """
    count = len(table)
    length = len(array)
    if length == count:
        yield Part(table, "")
    elif length < count and count % length == 0:
        for start in range(0, count, length):
            words = f"heads {start}–{start + length - 1} of {count}"
            yield Part(table[start : start + length], words)
    elif length > count and not array[count:].any():
        zeros = np.zeros((length - count, *table.shape[1:]))
        words = f"zeros for {counted(length - count, 'more head')}"
        yield Part(np.concatenate([table, zeros]), words)


def _parts_of_queries(heads: Part, array: AnyArray) -> Iterator[Part]:
    """Yield the queries that an array may have: all, the last ones, or one row for every query.

    The key form has one row of queries, (heads, 1, keys), which keras-hub repeats.
    """
    if array.ndim < 2 or heads.values.shape[1] == array.shape[1]:
        yield heads
        return
    queries = array.shape[1]
    if queries == 1:
        return  # The last query of the symmetric form is the form key-last.
    has_key_form = heads.values.shape[1] == 1
    if has_key_form:
        values = np.broadcast_to(heads.values, (len(heads.values), *array.shape[1:]))
        words = "repeated for every query"
    else:
        values = heads.values[:, -queries:]
        words = f"the last {queries} queries"
    yield Part(values, ", ".join(filter(None, (heads.words, words))))


def _is_near(expected: AnyArray, found: AnyArray) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.isclose(found, expected, rtol=RTOL, atol=ATOL)
    return bool(near.mean() >= MIN_NEAR)
