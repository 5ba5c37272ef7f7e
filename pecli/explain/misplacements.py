"""Known ways in which rows get wrong positions: padding that is ignored, packing, caches, narrow dtypes."""

from collections.abc import Callable
from typing import NamedTuple

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
    rows = TokenPositions(
        expected=np.asarray(expected[padding:], np.float64),
        used=np.asarray(used[padding:], np.float64),
        padding=padding,
        rotated=rotated,
    )
    if not rows.are_all_known or np.array_equal(rows.expected, rows.used):
        return None
    for find in _FINDERS:
        mistake = find(rows)
        if mistake is not None:
            return mistake
    return None


class TokenPositions(NamedTuple):
    """The expected and the used positions of the tokens of a sequence, without left padding."""

    expected: Floats
    used: Floats
    padding: int  # the rows of padding before the first token
    rotated: bool  # False for tables and embeddings

    @property
    def are_all_known(self) -> bool:
        """True if there are tokens, and the position of each could be solved."""
        return len(self.used) > 0 and not np.isnan(self.used).any()


def _move_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return the mistake in moving a cache of keys, as is done when old tokens are dropped.

    All rows of the cache are rotated once more, by one position: the number of rows by which it is
    moved. If nobody states that number, the expected one is 0.
    """
    is_one_move = _is_constant(rows.expected) and _is_constant(rows.used)
    if not is_one_move or len(rows.used) == 1:
        return None
    expected = int(rows.expected[0])
    used = int(rows.used[0])
    if expected == 0:
        return PositionMistake(Misplacement.CACHE_MOVED, by=used)
    if used == 0:
        return PositionMistake(Misplacement.CACHE_NOT_MOVED)
    if used == 2 * expected:
        return PositionMistake(Misplacement.CACHE_MOVED_TWICE)
    if used == -expected:
        return PositionMistake(Misplacement.CACHE_MOVED_BACK)
    return PositionMistake(Misplacement.CACHE_MOVED_OTHERWISE, by=used, expected=expected)


def _dtype_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return the mistake of positions that do not fit their dtype or their table.

    In int8, 126 127 128 overflow to 126 127 −128; a table of 128 rows may clamp them to 126 127 127.
    """
    expected = rows.expected
    used = rows.used
    if _is_constant(used):
        return None
    for dtype in NARROW_DTYPES:
        if np.array_equal(expected.astype(np.int64).astype(dtype), used):
            return PositionMistake(Misplacement.OVERFLOW, dtype=dtype)
    largest = used.max()
    if np.array_equal(np.minimum(expected, largest), used):
        return PositionMistake(Misplacement.CLAMPED, by=int(largest))
    return None


def _whole_sequence_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return a mistake in counting that concerns all rows: padding was counted, or nothing was.

    After 3 rows of left padding, tokens at 3 4 5 instead of 0 1 2 were counted from the first row of the
    batch on, as if the padding were tokens.
    """
    expected = rows.expected
    used = rows.used
    counts_padding = _counts_up(used) and used[0] - expected[0] == rows.padding
    if rows.padding > 0 and counts_padding:
        return PositionMistake(Misplacement.PADDING_IGNORED)
    if rows.rotated and not used.any():
        return PositionMistake(Misplacement.NOT_ROTATED)
    if _is_constant(used) and not _is_constant(expected):
        return PositionMistake(Misplacement.ONE_POSITION)
    if np.array_equal(used, -expected):
        return PositionMistake(Misplacement.REVERSED)
    return None


def _decoding_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return the mistake of decoded tokens that stay at one position: 0 1 2 3 0 0 0, or 0 1 2 3 0.

    A single decoded token has to be at position 0, where code without a cache begins: any other
    position is a shift of one row.
    """
    first_wrong = int((rows.used != rows.expected).argmax())
    decoded = rows.used[first_wrong:]
    is_stuck = _is_constant(decoded) and (len(decoded) > 1 or decoded[0] == 0)
    if first_wrong < 2 or not is_stuck:
        return None
    return PositionMistake(Misplacement.STUCK, by=int(decoded[0]), row=rows.padding + first_wrong)


def _packing_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return a mistake of packed sequences, whose positions start again at 0: 0 1 2 0 1 2 3 …"""
    expected = rows.expected
    used = rows.used
    if _counts_up(used) and (np.diff(expected) < 0).any():
        return PositionMistake(Misplacement.NOT_RESET)
    steps = np.diff(used)
    falls_back = bool((steps < 0).any())
    counts_or_begins_anew = bool(((steps == 1) | (used[1:] == 0)).all())
    if _counts_up(expected) and falls_back and counts_or_begins_anew:
        return PositionMistake(Misplacement.RESTARTED, by=_rows_of_each_run(used))
    return None


def _rows_of_each_run(positions: Floats) -> int:
    """Return how many rows each run of positions has, 3 of 0 1 2 0 1 2; 0 if runs differ."""
    length = int((positions[1:] == positions[0]).argmax()) + 1
    runs = np.tile(positions[:length], len(positions) // length)
    return length if np.array_equal(runs, positions) else 0


def _neighbour_mistake(rows: TokenPositions) -> PositionMistake | None:
    """Return a mistake by which rows have positions of rows before them: 0 0 1 2 3, or 0 0 1 1 2 2."""
    expected = rows.expected
    used = rows.used
    row_before = np.append(expected[:1], expected[:-1])
    if len(used) > 1 and np.array_equal(used, row_before):
        return PositionMistake(Misplacement.ROW_BEFORE)
    repeats = int((used == used[0]).sum())
    if repeats > 1 and np.array_equal(used, expected // repeats):
        return PositionMistake(Misplacement.SHARED, by=repeats)
    return None


def _shift(rows: TokenPositions) -> PositionMistake | None:
    """Return the shift of all rows, or of all from the first one that is off."""
    differences = rows.used - rows.expected
    by = float(differences[-1])
    first_wrong = int((differences != 0).argmax())
    is_one_shift = bool((differences[first_wrong:] == by).all())
    if by == 0 or not by.is_integer() or not is_one_shift:
        return None
    row = 0  # All rows are shifted.
    if first_wrong > 0:
        row = rows.padding + first_wrong
    return PositionMistake(Misplacement.SHIFTED, by=int(by), row=row)


_FINDERS: tuple[Callable[[TokenPositions], PositionMistake | None], ...] = (
    _move_mistake,
    _dtype_mistake,
    _whole_sequence_mistake,
    _decoding_mistake,
    _packing_mistake,
    _neighbour_mistake,
    _shift,
)
"""The known mistakes of positions, the most special ones first."""


def _counts_up(positions: Floats) -> bool:
    """Return True if each position is one more than the position before."""
    return bool((np.diff(positions) == 1).all())


def _is_constant(positions: Floats) -> bool:
    """Return True if all rows are at one position."""
    return bool((positions == positions[0]).all())
