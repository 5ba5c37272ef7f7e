"""Biases and slopes of ALiBi that are a part of a table, or hold it more than once.

A shard of a model has some of its heads, decoding has the last queries, keras-hub repeats the key
form for every query, and x-transformers has zeros for heads without a bias.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.compare.candidate import CandidateTable, candidate_of
from pecli.engine.arrays import AnyArray, widened
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import counted

MIN_NEAR = 0.99  #: share of the elements that must be near for a part to be recognised
RTOL = 1e-2  #: relative error of a near element, which bfloat16 may have
ATOL = 1e-3


class AlibiPart(NamedTuple):
    """A part of a table, such as the heads of a shard.

    Attributes:
        values: The part.
        words: A note on it, «heads 0–3 of 8»; empty for a whole table.
    """

    values: AnyArray
    words: str = ""


def find_alibi_parts(scheme: Scheme, array: AnyArray) -> Iterator[CandidateTable]:
    """Yield the parts of a scheme's table that an array seems to hold, to compare it with them.

    Of a bias (8 heads, 16, 16), an array (4, 16, 16) may hold heads 0–3 or 4–7, and (8, 2, 16) the
    last 2 queries. Each part has a note for the user, «heads 0–3 of 8».

    Args:
        scheme: The scheme of all heads, ALiBi or another one with a bias.
        array: Slopes (heads,), or a bias (…, heads, queries, keys).
    """
    table = scheme.single_array()
    if not _may_be_part(array, table.shape):
        return
    axes = len(table.shape)
    without_batch = array.reshape(array.shape[-axes:])  # (1, 4, 16, 16) becomes (4, 16, 16).
    # A bias may hide keys by −∞, or by the most negative number of a dtype; slopes have no keys.
    may_hide_keys = axes > 1
    for part in _find_near_parts(scheme, widened(without_batch)):
        note = _describe_with_form(scheme, part.words)
        expected = {table.name: part.values.astype(np.float32)}
        yield candidate_of(expected, scheme, words=note, masked=may_hide_keys)


def _may_be_part(array: AnyArray, table_shape: tuple[int, ...]) -> bool:
    """Return True if an array may be a part of a table: floats of the same axes, of other lengths.

    Axes of length 1 may come before: (1, 4, 16, 16) may be 4 of 8 heads, but (2, 8, 16, 16) is two
    tables. An array of the table's own shape is the whole table, which the caller compares itself.
    """
    axes = len(table_shape)
    shape = array.shape[-axes:]
    is_one_table = array.ndim >= axes and array.size == math.prod(shape) > 0
    is_whole_table = shape == table_shape
    is_float = array.dtype.kind in "fV"  # NumPy does not know bfloat16, whose kind is "V" (void).
    return is_one_table and not is_whole_table and is_float


def _find_near_parts(scheme: Scheme, values: AnyArray) -> Iterator[AlibiPart]:
    """Yield the parts of a scheme's bias that an array may hold: some queries of all heads, or of some.

    Several parts may have the array's shape, such as heads 0–3 and 4–7 of 8: its values decide.
    """
    all_heads = _make_bias_for_queries(scheme, values.shape)
    if all_heads is None:
        return  # No part of the bias has this shape.
    for part in _find_parts_of_heads(all_heads, values):
        if _is_near(part.values, values):
            yield part


def _describe_with_form(scheme: Scheme, words: str) -> str:
    """Return the words for a part of a bias, after the form of the bias if it has one.

    «heads 0–3 of 8» becomes «in the key form, heads 0–3 of 8». Slopes have no form.
    """
    form = scheme.value_of("form", "")
    return f"in the {form} form, {words}" if form else words


def _find_parts_of_heads(all_heads: AlibiPart, array: AnyArray) -> Iterator[AlibiPart]:
    """Yield the heads that an array may have: all, those of a shard, or all and zeros for others.

    Of 8 heads, 4 are those of one of two shards; 12 are all of them and 4 heads without a bias.
    """
    count = len(array)
    all_count = len(all_heads.values)  # (heads, …)
    if count == all_count:
        yield all_heads
    elif all_count % count == 0:  # The heads of a model are divided evenly into shards.
        yield from _divide_into_shards(all_heads, count)
    elif count > all_count and not array[all_count:].any():
        yield _add_zeros(all_heads, count - all_count)


def _divide_into_shards(all_heads: AlibiPart, shard_count: int) -> Iterator[AlibiPart]:
    """Yield shards of so many heads: «heads 0–3 of 8», «heads 4–7 of 8»."""
    all_count = len(all_heads.values)
    for first in range(0, all_count, shard_count):
        heads = f"heads {first}–{first + shard_count - 1} of {all_count}"
        shard = all_heads.values[first : first + shard_count]
        yield AlibiPart(shard, _join_words(heads, all_heads.words))


def _add_zeros(all_heads: AlibiPart, added_count: int) -> AlibiPart:
    """Return all heads, and zeros for further heads, to which attention adds no bias."""
    zeros = np.zeros((added_count, *all_heads.values.shape[1:]))
    heads = f"zeros for {counted(added_count, 'more head')}"
    values = np.concatenate([all_heads.values, zeros])
    return AlibiPart(values, _join_words(heads, all_heads.words))


def _join_words(*words: str) -> str:
    return ", ".join(filter(None, words))


def _make_bias_for_queries(scheme: Scheme, shape: tuple[int, ...]) -> AlibiPart | None:
    """Return a scheme's bias with as many rows of queries as an array has; None if that cannot be.

    A bias (heads, 16, 16) has a row for each of 16 queries. An array (heads, 2, 16) has the last 2 of
    them, as in decoding. A bias (heads, 1, 16) has one row, which is repeated for every query.

    Args:
        scheme: The scheme of a bias (heads, queries, keys), or of slopes (heads,).
        shape: The shape of the array, which may have fewer or more heads.
    """
    table = scheme.single_array()
    # Slopes (heads,) have nothing but heads, so that they are whole as well.
    has_all_queries_and_keys = table.shape[1:] == shape[1:]
    if has_all_queries_and_keys:
        return AlibiPart(widened(table.array()))
    has_all_keys = table.shape[2:] == shape[2:]
    if not has_all_keys:
        return None
    queries = shape[1]
    table_queries = table.shape[1]
    has_one_row_for_all_queries = table_queries == 1
    if has_one_row_for_all_queries:
        return _repeat_for_queries(widened(table.array()), queries)
    # A single row is left out here: the scheme has another form, «key-last», for the last query.
    if 1 < queries < table_queries:
        return _make_last_queries(scheme, queries)
    return None


def _repeat_for_queries(row: AnyArray, queries: int) -> AlibiPart:
    """Return a bias in the key form, (heads, 1, keys), as keras-hub has it: (heads, queries, keys)."""
    heads, _, *keys = row.shape
    for_every_query = np.broadcast_to(row, (heads, queries, *keys))
    return AlibiPart(for_every_query, "repeated for every query")


def _make_last_queries(scheme: Scheme, queries: int) -> AlibiPart:
    """Return the bias of the last queries, as decoding has it: only these are made."""
    last: NamedValues = {"queries": queries}
    values = widened(replace(scheme, **last).single_array().array())
    return AlibiPart(values, f"the last {queries} queries")


def _is_near(expected: AnyArray, found: AnyArray) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.isclose(found, expected, rtol=RTOL, atol=ATOL)
    return bool(near.mean() >= MIN_NEAR)
