"""Known ways in which rows get wrong positions: padding that is ignored, packing, caches, narrow dtypes."""

from collections.abc import Callable, Iterator
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
    for possible_mistakes in _POSSIBLE_MISTAKES:
        for possible in possible_mistakes(rows):
            if np.array_equal(possible.positions, rows.used):
                return possible.mistake
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

    @property
    def first_wrong(self) -> int:
        """The first token that is not at its expected position."""
        return int((self.used != self.expected).argmax())

    @property
    def counted(self) -> Floats:
        """Positions that count from the first used one on: 5 6 7 8 if four tokens begin at 5."""
        return np.asarray(self.used[0] + np.arange(len(self.used)))


class PossibleMistake(NamedTuple):
    """A known mistake, and the positions to which it leads instead of the expected ones."""

    positions: Floats
    mistake: PositionMistake


MOVES = {
    0.0: Misplacement.CACHE_NOT_MOVED,
    2.0: Misplacement.CACHE_MOVED_TWICE,
    -1.0: Misplacement.CACHE_MOVED_BACK,
}
"""Mistakes in moving a cache, by how far it was moved as a multiple of how far it should be."""


def _cache_moved_wrongly(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistake in moving a cache of keys, as is done when old tokens are dropped.

    Keys in a cache are rotated already. To move them, all rows are rotated once more by one number,
    such as 4, so that the positions of the rows are 4 4 4 … and not 0 1 2 …. If nobody states that
    number, the expected one is 0.
    """
    is_one_move = _is_constant(rows.expected) and _is_constant(rows.used)
    if not is_one_move or len(rows.used) == 1:
        return
    mistake = _mistake_of_move(expected=int(rows.expected[0]), used=int(rows.used[0]))
    yield PossibleMistake(rows.used, mistake)


def _mistake_of_move(expected: int, used: int) -> PositionMistake:
    """Return the mistake in moving a cache by another number: twice for 8 instead of 4, for example."""
    if expected == 0:
        return PositionMistake(Misplacement.CACHE_MOVED, by=used)
    ratio = used / expected
    if ratio in MOVES:
        return PositionMistake(MOVES[ratio])
    return PositionMistake(Misplacement.CACHE_MOVED_OTHERWISE, by=used, expected=expected)


def _limited_positions(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistakes of positions that do not fit their dtype or their table.

    In int8, 126 127 128 overflow to 126 127 −128; a table of 128 rows may clamp them to 126 127 127.
    """
    if _is_constant(rows.used):
        return
    for dtype in NARROW_DTYPES:
        overflowed = rows.expected.astype(np.int64).astype(dtype).astype(np.float64)
        yield PossibleMistake(overflowed, PositionMistake(Misplacement.OVERFLOW, dtype=dtype))
    largest = rows.used.max()
    clamped = np.minimum(rows.expected, largest)
    yield PossibleMistake(clamped, PositionMistake(Misplacement.CLAMPED, by=int(largest)))


def _whole_sequences(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield mistakes in counting that concern all rows: padding was counted, or nothing was.

    After 3 rows of left padding, tokens at 3 4 5 instead of 0 1 2 were counted from the first row of the
    batch on, as if the padding were tokens.
    """
    if rows.padding > 0:
        from_row_0 = rows.expected[0] + rows.padding + np.arange(len(rows.used))
        yield PossibleMistake(from_row_0, PositionMistake(Misplacement.PADDING_IGNORED))
    if rows.rotated:
        zeros = np.zeros_like(rows.used)
        yield PossibleMistake(zeros, PositionMistake(Misplacement.NOT_ROTATED))
    if not _is_constant(rows.expected):
        first = np.full_like(rows.used, rows.used[0])
        yield PossibleMistake(first, PositionMistake(Misplacement.ONE_POSITION))
    yield PossibleMistake(-rows.expected, PositionMistake(Misplacement.REVERSED))


def _decoded_tokens(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistake of decoded tokens that stay at one position: 0 1 2 3 0 0 0, or 0 1 2 3 0.

    A single decoded token has to be at position 0, where code without a cache begins: any other
    position is a shift of one row.
    """
    first_wrong = rows.first_wrong
    decoded = rows.used[first_wrong:]
    may_be_stuck = len(decoded) > 1 or decoded[0] == 0
    if first_wrong >= 2 and may_be_stuck:
        stuck = np.concatenate([rows.expected[:first_wrong], np.full_like(decoded, decoded[0])])
        row = rows.padding + first_wrong
        mistake = PositionMistake(Misplacement.STUCK, by=int(decoded[0]), row=row)
        yield PossibleMistake(stuck, mistake)


def _packed_as_one(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistake of packed sequences that are counted as one: 0 1 2 3 4 5, not 0 1 2 0 1 2."""
    if _are_packed(rows.expected):
        mistake = PositionMistake(Misplacement.NOT_RESET)
        yield PossibleMistake(positions=rows.counted, mistake=mistake)


def _one_as_packed(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistake of one sequence that is counted like packed ones: 0 1 2 0 1 2, not 0 1 2 3 4 5."""
    is_one_sequence = _counts_up(rows.expected)
    if is_one_sequence and _falls(rows.used):
        rows_of_each_run = _rows_of_each_run(rows.used)
        mistake = PositionMistake(Misplacement.RESTARTED, by=rows_of_each_run)
        yield PossibleMistake(positions=_counted_from_zeros(rows.used), mistake=mistake)


def _counted_from_zeros(positions: Floats) -> Floats:
    """Return positions that are 0 in the same rows, and one after the row before in all others.

    0 1 2 0 1 2 remain what they are, since each packed sequence begins at 0. 0 1 2 1 2 3 become
    0 1 2 3 2 3: a fall from 2 to 1 is no beginning of a sequence.
    """
    one_after_row_before = np.append(positions[:1], positions[:-1] + 1)
    return np.where(positions == 0, 0.0, one_after_row_before)


def _rows_of_each_run(positions: Floats) -> int:
    """Return how many rows each run of positions has, 3 of 0 1 2 0 1 2; 0 if runs differ."""
    is_first_position_again = positions[1:] == positions[0]
    length = 1 + int(is_first_position_again.argmax())
    first_run = positions[:length]
    equal_runs = np.tile(first_run, len(positions) // length)
    return length if np.array_equal(equal_runs, positions) else 0


def _rows_before(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield mistakes by which rows have positions of rows before them: 0 0 1 2 3, or 0 0 1 1 2 2."""
    expected = rows.expected
    row_before = np.append(expected[:1], expected[:-1])
    yield PossibleMistake(row_before, PositionMistake(Misplacement.ROW_BEFORE))
    repeats = int((rows.used == rows.used[0]).sum())  # 2 of 0 0 1 1 2 2
    if repeats > 1:
        shared = PositionMistake(Misplacement.SHARED, by=repeats)
        yield PossibleMistake(expected // repeats, shared)


def _shifts(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the shift of all rows, or of all from the first one that is off.

    0 1 2 5 6 for 0 1 2 3 4 is a shift by 2 from row 3 on. A shift of all rows is stated without a row.
    """
    by = float(rows.used[-1] - rows.expected[-1])
    if not by.is_integer():
        return
    first_wrong = rows.first_wrong
    is_shifted = np.arange(len(rows.used)) >= first_wrong
    row = rows.padding + first_wrong if first_wrong > 0 else 0
    mistake = PositionMistake(Misplacement.SHIFTED, by=int(by), row=row)
    yield PossibleMistake(rows.expected + by * is_shifted, mistake)


def _row_numbers(rows: TokenPositions) -> Iterator[PossibleMistake]:
    """Yield the mistake of tokens at the numbers of their rows: 0 1 2 3 for tokens at 4 1 7 0.

    The slots of a cache may hold tokens in any order, so that each position is expected once. If
    several rows are expected at one position, they are padding or several sequences.
    """
    is_each_position_once = len(np.unique(rows.expected)) == len(rows.expected)
    if is_each_position_once:
        row_numbers = rows.padding + np.arange(len(rows.used), dtype=np.float64)
        yield PossibleMistake(row_numbers, PositionMistake(Misplacement.ROW_NUMBER))


_POSSIBLE_MISTAKES: tuple[Callable[[TokenPositions], Iterator[PossibleMistake]], ...] = (
    _cache_moved_wrongly,
    _limited_positions,
    _whole_sequences,
    _decoded_tokens,
    _packed_as_one,
    _one_as_packed,
    _rows_before,
    _shifts,
    _row_numbers,
)
"""The known mistakes of positions, the most special ones first."""


def _counts_up(positions: Floats) -> bool:
    """Return True if each position is one more than the position before."""
    return bool((np.diff(positions) == 1).all())


def _are_packed(positions: Floats) -> bool:
    """Return True if positions count up in each of several sequences, as in 0 1 2 0 1 2.

    Each sequence begins at 0, or where the first one begins: 5 6 5 6 are packed. 4 1 7 0 are not,
    since they do not count up, and 0 0 0 1 2 are rather one sequence after padding.
    """
    counts_up = np.diff(positions) == 1
    begins = (positions[1:] == 0) | (positions[1:] == positions[0])
    return _falls(positions) and bool((counts_up | begins).all())


def _falls(positions: Floats) -> bool:
    """Return True if some position is less than the position before, as where packed sequences begin."""
    return bool((np.diff(positions) < 0).any())


def _is_constant(positions: Floats) -> bool:
    """Return True if all rows are at one position."""
    return bool((positions == positions[0]).all())
