"""Known ways in which rows get wrong positions: padding that is ignored, packing, caches, narrow dtypes."""

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.edits import Misplacement, PositionMistake, Positions
from pecli.explain.position_runs import runs
from pecli.explain.words import position_mistake_words

NARROW_DTYPES = ("int8", "uint8", "int16", "uint16")
"""Dtypes of positions that long sequences overflow."""


def positions_edit(
    expected: Floats | Indices, used: Floats | Indices, mistake: PositionMistake | None
) -> Positions:
    """Return the edit of positions (rows,) or (axes, rows) used instead of the expected ones."""
    reason = "" if mistake is None else position_mistake_words(mistake)
    return Positions(_runs_of_axes(expected), _runs_of_axes(used), reason, mistake)


def _runs_of_axes(positions: Floats | Indices) -> str:
    """Return the positions of all axes in runs; axes with equal positions are written once."""
    axes = np.atleast_2d(np.asarray(positions, np.float64))
    return "; ".join(dict.fromkeys(map(runs, axes)))


def find_position_mistake(
    expected: Floats | Indices, used: Floats | Indices, padding: int = 0, *, rotated: bool = True
) -> PositionMistake | None:
    """Return the known mistake that turns the expected positions of a sequence into the used ones.

    Expected 0 1 2 3 and used 5 6 7 8, for example, are «all 5 too far».

    Args:
        expected: The position of each row, including padding.
        used: The positions that were solved, NaN if a row has none.
        padding: The number of rows of left padding, which are not compared.
        rotated: False for tables and embeddings: there, position 0 is not «nothing is rotated».

    Returns:
        The mistake; None if no known one leads to these positions, or if some are unknown.
    """
    expected = np.asarray(expected[padding:], np.float64)
    used = np.asarray(used[padding:], np.float64)
    if not len(used) or np.isnan(used).any() or np.array_equal(expected, used):
        return None
    # A cache of keys is moved by rotating all of its rows once more, by one position.
    are_one_move = not np.ptp(expected) and not np.ptp(used)
    if are_one_move and len(used) > 1:
        return _move_mistake(int(expected[0]), int(used[0]))
    return (
        _dtype_mistake(expected, used)
        or _whole_sequence_mistake(expected, used, padding, rotated)
        or _decoding_mistake(expected, used, padding)
        or _packing_mistake(expected, used)
        or _neighbour_mistake(expected, used)
        or _shift(expected, used, padding)
    )


def _move_mistake(expected: int, used: int) -> PositionMistake:
    """Return the mistake in moving the rows of a key cache, as is done when old tokens are dropped.

    Args:
        expected: The number of positions by which the cache should be moved, 0 if that is not known.
        used: The number by which it was moved.
    """
    if expected == 0:
        return PositionMistake(Misplacement.CACHE_MOVED, by=used)
    if used == 0:
        return PositionMistake(Misplacement.CACHE_NOT_MOVED)
    if used == 2 * expected:
        return PositionMistake(Misplacement.CACHE_MOVED_TWICE)
    if used == -expected:
        return PositionMistake(Misplacement.CACHE_MOVED_BACK)
    return PositionMistake(Misplacement.CACHE_MOVED_OTHERWISE, by=used, expected=expected)


def _dtype_mistake(expected: Floats, used: Floats) -> PositionMistake | None:
    """Return the mistake of positions that do not fit their dtype or their table.

    In int8, 126 127 128 overflow to 126 127 −128; a table of 128 rows may clamp them to 126 127 127.
    """
    if not np.ptp(used):
        return None
    for dtype in NARROW_DTYPES:
        if np.array_equal(expected.astype(np.int64).astype(dtype), used):
            return PositionMistake(Misplacement.OVERFLOW, dtype=dtype)
    largest = used.max()
    if np.array_equal(np.minimum(expected, largest), used):
        return PositionMistake(Misplacement.CLAMPED, by=int(largest))
    return None


def _whole_sequence_mistake(
    expected: Floats, used: Floats, padding: int, rotated: bool
) -> PositionMistake | None:
    """Return a mistake in counting that concerns all rows: padding was counted, or nothing was.

    After 3 rows of left padding, tokens at 3 4 5 instead of 0 1 2 were counted from the first row of the
    batch on, as if the padding were tokens.
    """
    if padding > 0 and _counts_up(used) and used[0] - expected[0] == padding:
        return PositionMistake(Misplacement.PADDING_IGNORED)
    if rotated and not used.any():
        return PositionMistake(Misplacement.NOT_ROTATED)
    if np.ptp(expected) and not np.ptp(used):
        return PositionMistake(Misplacement.ONE_POSITION)
    if np.array_equal(used, -expected):
        return PositionMistake(Misplacement.REVERSED)
    return None


def _decoding_mistake(expected: Floats, used: Floats, padding: int) -> PositionMistake | None:
    """Return the mistake of decoded tokens that stay at one position: 0 1 2 3 0 0 0, or 0 1 2 3 0."""
    first = int((used != expected).argmax())
    decoded = used[first:]
    may_be_one = len(decoded) > 1 or decoded[0] == 0
    if first < 2 or np.ptp(decoded) or not may_be_one:
        return None
    return PositionMistake(Misplacement.STUCK, by=int(decoded[0]), row=padding + first)


def _packing_mistake(expected: Floats, used: Floats) -> PositionMistake | None:
    """Return a mistake of packed sequences, whose positions start again at 0: 0 1 2 0 1 2 3 …"""
    if _counts_up(used) and (np.diff(expected) < 0).any():
        return PositionMistake(Misplacement.NOT_RESET)
    steps = np.diff(used)
    restarts = (steps < 0).any() and ((steps == 1) | (used[1:] == 0)).all()
    if _counts_up(expected) and restarts:
        return PositionMistake(Misplacement.RESTARTED, by=_rows_of_each_run(used))
    return None


def _rows_of_each_run(positions: Floats) -> int:
    """Return how many rows each run of positions has, 3 of 0 1 2 0 1 2; 0 if runs differ."""
    length = int((positions[1:] == positions[0]).argmax()) + 1
    runs = np.tile(positions[:length], len(positions) // length)
    return length if np.array_equal(runs, positions) else 0


def _neighbour_mistake(expected: Floats, used: Floats) -> PositionMistake | None:
    """Return a mistake by which rows have positions of rows before them: 0 0 1 2 3, or 0 0 1 1 2 2."""
    row_before = np.append(expected[:1], expected[:-1])
    if len(used) > 1 and np.array_equal(used, row_before):
        return PositionMistake(Misplacement.ROW_BEFORE)
    repeats = int((used == used[0]).sum())
    if repeats > 1 and np.array_equal(used, expected // repeats):
        return PositionMistake(Misplacement.SHARED, by=repeats)
    return None


def _shift(expected: Floats, used: Floats, padding: int) -> PositionMistake | None:
    """Return the shift of all rows, or of all from the first one that is off."""
    differences = used - expected
    by = differences[-1]
    first = int((differences != 0).argmax())
    if by == 0 or by % 1 or (differences[first:] != by).any():
        return None
    return PositionMistake(Misplacement.SHIFTED, by=int(by), row=padding + first if first else 0)


def _counts_up(positions: Floats) -> bool:
    return bool((np.diff(positions) == 1).all())
