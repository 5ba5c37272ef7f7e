"""Mistakes of converters with the order of rows, and the rows that a tensor then has."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.checks.model_forms.findings import ConverterMistake, Finding, PermutedInHeads
from pecli.checks.model_forms.model_files import ModelFiles
from pecli.checks.model_forms.pair import Pair
from pecli.engine import application
from pecli.engine.arrays import Indices
from pecli.tensors.head_layout import HeadDivision
from pecli.tensors.projections import projection

POWERS_OF_TWO = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Numbers of heads that rows may have been permuted in by mistake."""


class ConverterRowMistake(NamedTuple):
    """A mistake, and the rows of the reference that the checked tensor then has."""

    finding: Finding
    order: Indices


def find_row_mistakes(
    pair: Pair, reference: ModelFiles, checked: ModelFiles
) -> Iterator[ConverterRowMistake]:
    """Yield the orders of rows that a wrong converter may have made, the likeliest first.

    Hugging Face rotates the pairs (0, 2) and (1, 3) of 4 rows of a head. GGUF has pairs side by side,
    so that a right converter permutes 0 1 2 3 to 0 2 1 3. A wrong one may forget that, or do it twice.

    Args:
        pair: A tensor in both formats; its `order` is the permutation by a right converter, None if
            it moves no rows.
        reference: The model that defines what is right.
        checked: The model that may have the mistake.
    """
    reference_order = np.arange(len(pair.reference.rows))
    right_order = pair.expected_rows
    yield from _find_exchanged_halves(right_order)
    role = projection(pair.name)
    heads = reference.heads
    if role is None or role.norm or heads is None:
        return  # Only projections into heads, such as queries, have rows that are ever moved.
    if role.kind == "qkv":
        yield from _find_fused_mistakes(reference_order, right_order, heads)
        return
    are_keys = role.kind != "q"
    count = heads.key_heads if are_keys else heads.heads
    if pair.order is not None:
        yield from _find_wrong_permutations(reference_order, right_order)
    elif _divide_into_pairs(reference_order, count):
        # A right converter copies these rows, as both files have the same order of pairs.
        yield from _find_needless_permutations(reference_order, count, checked.layout)
    yield from _find_permutations_in_wrong_heads(reference_order, heads, count, are_keys=are_keys)


def _find_exchanged_halves(right_order: Indices) -> Iterator[ConverterRowMistake]:
    """Yield the mistake that has the second half of the rows before the first: 2 3 0 1 for 0 1 2 3."""
    half, odd_rows = divmod(len(right_order), 2)
    if not odd_rows:
        yield ConverterRowMistake(ConverterMistake.HALVES_EXCHANGED, np.roll(right_order, half))


def _find_wrong_permutations(
    reference_order: Indices, right_order: Indices
) -> Iterator[ConverterRowMistake]:
    """Yield the mistakes with queries or keys that a right converter permutes.

    It may have been forgotten, done twice, or done backwards. If the right order of a head is
    0 2 1 3, permuting twice gives `right_order[right_order]`, and permuting backwards the inverse of
    the right order.

    Args:
        reference_order: All rows in the order of the reference: 0, 1, 2, …
        right_order: The order that the checked tensor should have.
    """
    yield ConverterRowMistake(ConverterMistake.NOT_PERMUTED, reference_order)
    yield ConverterRowMistake(ConverterMistake.PERMUTED_TWICE, right_order[right_order])
    yield ConverterRowMistake(ConverterMistake.PERMUTED_BACKWARDS, np.argsort(right_order))


def _find_needless_permutations(
    rows: Indices, heads: int, layout: str
) -> Iterator[ConverterRowMistake]:
    """Yield the mistakes by which a converter permutes queries or keys that should keep their order.

    The channels a b c d of a head become a c b d if it interleaves their halves, as for a Llama. If
    both files are interleaved and have a c b d, a converter may have moved them back to a b c d:
    these are the rows 0 2 1 3 of the reference, the inverse of the permutation.

    Args:
        rows: All rows in the order of the reference: 0, 1, 2, …
        heads: The number of heads.
        layout: The layout of pairs in both files.
    """
    permuted = _interleave_halves(rows, heads)
    if layout == "interleaved":
        yield ConverterRowMistake(ConverterMistake.NOT_PERMUTED, np.argsort(permuted))
    yield ConverterRowMistake(ConverterMistake.PERMUTED, permuted)


def _find_fused_mistakes(
    reference_order: Indices, right_order: Indices, heads: HeadDivision
) -> Iterator[ConverterRowMistake]:
    """Yield the mistakes with a projection of queries, keys and values in one tensor.

    With 2 heads and 2 key heads, the reference may have the rows q k v q k v, one letter per head.
    GGUF should have q q k k v v. A converter may forget to sort them, may permute the channels of
    queries and keys as if the model were a Llama, or may put values before keys.

    Args:
        reference_order: All rows in the order of the reference: 0, 1, 2, …
        right_order: The rows in the order that the checked tensor should have: all q, all k, all v.
        heads: The numbers of query and key heads.
    """
    parts = _split_fused_rows(right_order, heads)
    if parts is None:
        return
    queries, keys, values = parts
    yield ConverterRowMistake(ConverterMistake.FUSED_ORDER_KEPT, reference_order)
    permuted_queries = _interleave_halves(queries, heads.heads)
    permuted_keys = _interleave_halves(keys, heads.key_heads)
    permuted = np.concatenate([permuted_queries, permuted_keys, values])
    yield ConverterRowMistake(ConverterMistake.QUERIES_AND_KEYS_PERMUTED, permuted)
    exchanged = np.concatenate([queries, values, keys])
    yield ConverterRowMistake(ConverterMistake.KEYS_AND_VALUES_EXCHANGED, exchanged)


class _FusedRows(NamedTuple):
    """The rows of queries, of keys and of values in a fused projection."""

    queries: Indices
    keys: Indices
    values: Indices


def _split_fused_rows(rows: Indices, heads: HeadDivision) -> _FusedRows | None:
    """Return the three parts of rows q q k k v v; None if these are not the rows of whole heads.

    12 rows with 2 heads, 2 key heads and as many value heads are 6 heads of 2 rows: rows 0 … 3 are
    queries, 4 … 7 keys, and 8 … 11 values.
    """
    kv_heads = heads.key_heads
    all_heads = heads.heads + 2 * kv_heads
    head_dim, rest = divmod(len(rows), all_heads)
    if rest:
        return None
    first_key = heads.heads * head_dim
    first_value = first_key + kv_heads * head_dim
    return _FusedRows(
        queries=rows[:first_key], keys=rows[first_key:first_value], values=rows[first_value:]
    )


def _find_permutations_in_wrong_heads(
    rows: Indices, heads: HeadDivision, right_count: int, *, are_keys: bool
) -> Iterator[ConverterRowMistake]:
    """Yield permutations from halves to interleaved by a wrong number of heads.

    Keys of Llama 2 70B were once permuted by the number of query heads (llama.cpp#3364).

    Args:
        rows: All rows in the order of the reference: 0, 1, 2, …
        heads: The numbers of query and key heads.
        right_count: The number of heads in these rows: 8 for the keys of Llama 3 8B.
        are_keys: True for keys, False for queries.
    """
    for count in dict.fromkeys([heads.heads, heads.key_heads, *POWERS_OF_TWO]):
        if count != right_count and _divide_into_pairs(rows, count):
            finding = PermutedInHeads(count, right_count, are_kv_heads=are_keys)
            yield ConverterRowMistake(finding, _interleave_halves(rows, count))


def _divide_into_pairs(rows: Indices, heads: int) -> bool:
    """Return True if rows divide into so many heads, each of which has pairs of channels."""
    return len(rows) % (2 * heads) == 0


def _interleave_halves(rows: Indices, heads: int) -> Indices:
    """Reorder the rows of each head from halves to interleaved: 0 1 2 3 becomes 0 2 1 3."""
    order = application.reorder(len(rows) // heads, "halves", "interleaved")
    return rows.reshape(heads, -1)[:, order].reshape(-1)
