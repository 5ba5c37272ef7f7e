"""Identification of relative-position indices: usual buckets and windows are supposed."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, product

import numpy as np

from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.relative import Relative
from pecli.errors import ParameterError
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first
from pecli.explain.hypotheses import accepted
from pecli.explain.tables import cases_of
from pecli.explain.time_limit import check_time

MIN_LENGTH = 4
"""Queries of an index: fewer show no buckets."""

T5_BUCKETS = (32, 64, 16, 128, 8, 256, 320)
"""Numbers of buckets of T5 and its descendants, the usual one first; WavLM has 320."""

T5_DISTANCES = (128, 256, 64, 512, 1024, 32, 40, 800)
"""Distances of their last buckets; WavLM has 800."""

DEBERTA_BUCKETS = (256, 128, 512, 64, 32)
DEBERTA_DISTANCES = (512, 256, 1024, 128)


def recognise_index(tensors: Mapping[str, Array]) -> list[Explanation]:
    """Return the scheme of a relative-position index, as T5, DeBERTa and Swin have them.

    Such an index is a matrix (queries, keys) of integers: the bucket of each distance, by which a
    bias is looked up. The usual parameters of each model are supposed until some make the same
    integers. Parameters that a short index cannot distinguish are stated as doubts: with 12 keys, a
    max_distance of 128 makes the same integers as one of 256.
    """
    (array,) = tensors.values()
    index = array.reshape([size for size in array.shape if size != 1])
    queries = max(index.shape, default=0)
    if index.shape != (queries, queries) or queries < MIN_LENGTH:
        return []
    # Comparing one row is fast, and rejects nearly all of about a hundred schemes.
    candidates = [scheme for scheme in _usual_schemes(queries) if _makes_last_row(scheme, index)]

    def explain(scheme: Relative) -> Iterator[Explanation]:
        doubts = _doubts_about_distance(scheme, candidates)
        for explanation in accepted(cases_of(scheme, {"index": index})):
            yield explanation.with_doubts(doubts)

    return explain_by_first(candidates, explain, most=1)


def _usual_schemes(length: int) -> Iterator[Relative]:
    """Yield the indices of so many queries that public models have, the usual settings of each first.

    T5's encoder, which sees later keys as well, comes before its causal decoder. Swin's windows are all
    those with so many points: 6×8 and 8×6 for 48.
    """
    t5 = product(("t5",), (False, True), T5_BUCKETS, T5_DISTANCES)
    deberta = product(("deberta",), (False,), DEBERTA_BUCKETS, DEBERTA_DISTANCES)
    for style, causal, buckets, distance in chain(t5, deberta):
        # 256 buckets up to a distance of 64 are refused: they distinguish more distances than that.
        with suppress(ParameterError):
            yield Relative(style, length, causal=causal, buckets=buckets, max_distance=distance)
    for rows in range(1, length + 1):
        if length % rows == 0:
            yield Relative("swin", grid=GridSize((rows, length // rows)))


def _makes_last_row(scheme: Relative, index: Array) -> bool:
    """Return True if a scheme makes the last row of an index, that of its last query.

    The last of 12 T5 queries has distances 11, 10, … 0, whose buckets show how many there are. Windows
    can only be made as a whole, so that only the largest index of the row is compared.
    """
    check_time()
    last_row = index[-1]
    if scheme.grid is not None:
        return int(last_row.max()) == _largest_index_of_window(scheme.grid)
    expected = replace(scheme, queries=1).tables()["index"][-1]
    return np.array_equal(expected, widened(last_row))


def _largest_index_of_window(window: GridSize) -> int:
    """Return the largest of the indices, one per offset in a window: 24 for 3 × 3.

    Two of 3 rows are −2 to 2 apart, which are 5 offsets, and so are two of 3 columns: 25 in all.
    """
    rows, columns = window
    row_offsets = 2 * rows - 1
    column_offsets = 2 * columns - 1
    return row_offsets * column_offsets - 1


def _doubts_about_distance(scheme: Relative, candidates: list[Relative]) -> tuple[str, ...]:
    """Return a sentence if a short index does not show the distance at which the last bucket begins.

    Keys from `max_distance` on are in the last bucket. With 12 keys there are none, so that 128 and 256
    make the same integers. Nothing is returned if no other scheme has the same buckets.

    Args:
        scheme: A scheme that makes the index.
        candidates: The schemes that make its last row, this one among them.
    """
    distances = [other.max_distance for other in candidates if _has_buckets_of(other, scheme)]
    others = [str(distance) for distance in distances if distance != scheme.max_distance]
    if not others:
        return ()
    return (f"max_distance may also be {', '.join(others)}: no key is so far away",)


def _has_buckets_of(scheme: Relative, other: Relative) -> bool:
    """Return True if two schemes differ in the distance of their last bucket only."""
    buckets = (scheme.style, scheme.buckets, scheme.causal)
    return buckets == (other.style, other.buckets, other.causal)
