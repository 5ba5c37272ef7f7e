"""Identification of relative-position indices: usual buckets and windows are supposed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

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

Settings = dict[str, int | bool]


def recognise_index(tensors: Mapping[str, Array]) -> list[Explanation]:
    """Return the scheme of a relative-position index, as T5, DeBERTa and Swin have them.

    Such an index is a matrix (queries, keys) of integers: the bucket of each distance, by which a
    bias is looked up. The usual parameters of each model are supposed until some make the same
    integers. Parameters that a short index cannot distinguish are stated as doubts: with 12 keys, a
    max_distance of 128 makes the same integers as one of 256.
    """
    (array,) = tensors.values()
    index = array.reshape([size for size in array.shape if size != 1])
    if not _is_square(index) or len(index) < MIN_LENGTH:
        return []
    styles = (_t5_schemes, _deberta_schemes, _swin_schemes)
    return explain_by_first(styles, partial(_explain_by_style, index), most=1)


def _is_square(array: Array) -> bool:
    return array.ndim == 2 and array.shape[0] == array.shape[1]


def _explain_by_style(
    index: Array, schemes_of_length: Callable[[int], Iterator[Relative]]
) -> list[Explanation]:
    """Return the explanation of an index by the first scheme of a style that makes all its integers.

    A style is the formula of a model, such as T5's. Its schemes have different settings, such as 32
    buckets up to a distance of 128. Later schemes may make the same integers, if the index is short:
    then the explanation has a doubt, a sentence that names their distances.

    Args:
        index: The integers (queries, keys).
        schemes_of_length: Yields the schemes of the style for a number of queries, the usual one first.

    Returns:
        A list of one explanation; an empty list if no scheme makes the index.
    """
    schemes = schemes_of_length(len(index))
    # Comparing one row is fast, and rejects nearly all of about a hundred schemes.
    candidates = [scheme for scheme in schemes if _makes_last_row(scheme, index)]
    for number, scheme in enumerate(candidates, start=1):
        explanation = _explain_by_scheme(index, scheme)
        if explanation is not None:
            later_candidates = candidates[number:]
            doubts = _doubts_about_distance(scheme, later_candidates)
            return [explanation.with_doubts(doubts)]
    return []


def _explain_by_scheme(index: Array, scheme: Relative) -> Explanation | None:
    """Return the explanation of an index by a scheme; None unless the scheme makes every integer of it."""
    return next(accepted(cases_of(scheme, {"index": index})), None)


def _t5_schemes(length: int) -> Iterator[Relative]:
    """Yield T5's index with each usual setting, that of the encoder first, which sees later keys as well."""
    for causal in (False, True):
        for buckets, distance in product(T5_BUCKETS, T5_DISTANCES):
            settings: Settings = {"buckets": buckets, "max_distance": distance, "causal": causal}
            yield from _with_settings("t5", length, settings)


def _deberta_schemes(length: int) -> Iterator[Relative]:
    """Yield DeBERTa's index with each usual number of buckets and distance of the last one."""
    for buckets, distance in product(DEBERTA_BUCKETS, DEBERTA_DISTANCES):
        settings: Settings = {"buckets": buckets, "max_distance": distance}
        yield from _with_settings("deberta", length, settings)


def _with_settings(style: str, length: int, settings: Settings) -> Iterator[Relative]:
    """Yield the scheme of a style with some settings; nothing if it refuses them.

    256 buckets up to a distance of 64 are refused: they distinguish more distances than that.
    """
    try:
        yield Relative(style, length, **settings)  # type: ignore[arg-type]
    except ParameterError:
        return


def _swin_schemes(length: int) -> Iterator[Relative]:
    """Yield every window with so many points: 6×8 and 8×6 for 48."""
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


def _doubts_about_distance(scheme: Relative, others: list[Relative]) -> tuple[str, ...]:
    """Return a sentence if a short index does not show the distance at which the last bucket begins.

    Keys from `max_distance` on are in the last bucket. With 12 keys there are none, so that 128 and 256
    make the same integers. Nothing is returned if no other scheme has the same buckets.

    Args:
        scheme: A scheme that makes the index.
        others: Others that make its last row.
    """
    distances = [str(other.max_distance) for other in others if _has_buckets_of(other, scheme)]
    if not distances:
        return ()
    return (f"max_distance may also be {', '.join(distances)}: no key is so far away",)


def _has_buckets_of(scheme: Relative, other: Relative) -> bool:
    """Return True if two schemes of one style differ in the distance of their last bucket only."""
    return scheme.buckets == other.buckets and scheme.causal == other.causal
