"""Positions that queries and keys were rotated by, solved row by row, and the mistakes behind them.

The quotient of pairs after and before is a direction per row and frequency; at the position, all
frequencies agree.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Indices, widened
from pecli.engine.edits import Misplacement, PositionMistake
from pecli.engine.schemes.rope import Rope
from pecli.explain.edits import Edit, Explanation, Parameter, Positions
from pecli.explain.recipe_search import constructed
from pecli.explain.rotation import UNKNOWN, HeadRotation, Rotated, quotient, solve
from pecli.explain.sample import grain, rms
from pecli.explain.time_limit import limited
from pecli.explain.words import position_mistake_words

MIN_ERROR = 1e-3  # relative error by which a head is rotated wrongly
MIN_COARSE_ERROR = 0.02  # the same of values in 16 bits
SAMPLED_ROWS = 128  # rows that show which heads are wrong
MAX_HEADS = 2  # wrong heads from which the positions are solved
MAX_RUNS = 6  # runs of positions that a sentence shows
NARROW_DTYPES = ("int8", "uint8", "int16", "uint16")  # dtypes that positions overflow


class _Run(NamedTuple):
    """Rows whose positions are equal (step 0) or consecutive (step 1); or a single row."""

    first: int
    rows: int
    step: int

    def __str__(self) -> str:
        if self.first == UNKNOWN:
            return "unknown"
        if self.rows == 1:
            return f"{self.first:,}"
        if self.step == 0:
            return f"{self.first:,} × {self.rows:,}"
        return f"{self.first:,} … {self.first + self.rows - 1:,}"


def runs(places: Indices) -> str:
    """Return positions in runs.

    >>> runs(np.array([0, 0, 0, 0, 1, 2, 3]))
    '0 × 3, then 0 … 3'
    """
    words = [str(run) for run in _runs(places)]
    if len(words) > MAX_RUNS:
        words[MAX_RUNS:] = ["…"]
    return ", then ".join(words)


def _runs(places: Indices) -> Iterator[_Run]:
    steps = np.diff(places)
    start = 0
    while start < len(places):
        stop = start + 1
        step = int(steps[start]) if stop < len(places) else 0
        if step in (0, 1):
            while stop < len(places) and steps[stop - 1] == step:
                stop += 1
        # Padding at position 0 is followed by a sequence that starts at 0, too: 0 0 0 1 2 is
        # 0 × 2, then 0 … 2. A run of one other number, as in 3 3 4, is no padding.
        is_at_zero = step == 0 and places[start] == 0
        if is_at_zero and stop < len(places) and steps[stop - 1] == 1:
            stop -= 1
        yield _Run(int(places[start]), stop - start, step)
        start = stop


def positions_edit(expected: Indices, used: Indices, mistake: PositionMistake | None) -> Positions:
    """Return the edit for positions used instead of the expected ones, with the mistake if known."""
    reason = position_mistake_words(mistake) if mistake else ""
    return Positions(runs(expected), runs(used), reason, mistake)


def find_position_mistake(
    expected: Indices, used: Indices, padding: int = 0, *, rotated: bool = True
) -> PositionMistake | None:
    """Return the known mistake that turns the expected positions of a sequence into those used.

    Args:
        expected: The position of each row, of padding, too.
        used: The positions that were solved for, UNKNOWN if a row has none.
        padding: The number of rows of left padding, which are not looked at.
        rotated: False for tables and embeddings: there, position 0 is not «nothing is rotated».

    Returns:
        None if no known mistake leads to these positions, or some are unknown.
    """
    expected = expected[padding:]
    used = used[padding:]
    if not len(used) or (used == UNKNOWN).any():
        return None
    is_still = not np.ptp(expected) and not np.ptp(used)
    if is_still and len(used) > 1:
        return _move_mistake(int(expected[0]), int(used[0]))
    mistakes = (
        _of_dtype(expected, used),
        _of_sequence(expected, used, padding, rotated),
        _of_packing(expected, used),
        _of_rows(expected, used),
        _shift(expected, used, padding),
    )
    return next(filter(None, mistakes), None)


def _move_mistake(expected: int, used: int) -> PositionMistake | None:
    """Return the mistake of a cache whose rows are all moved by as many positions."""
    if used == expected:
        return None
    if expected == 0:
        return PositionMistake(Misplacement.CACHE_MOVED, by=used)
    if used == 0:
        return PositionMistake(Misplacement.CACHE_NOT_MOVED)
    if used == 2 * expected:
        return PositionMistake(Misplacement.CACHE_MOVED_TWICE)
    if used == -expected:
        return PositionMistake(Misplacement.CACHE_MOVED_BACK)
    return PositionMistake(Misplacement.CACHE_MOVED_OTHERWISE, by=used, expected=expected)


def _of_dtype(expected: Indices, used: Indices) -> PositionMistake | None:
    """Return an overflow (127 is followed by −128 in int8), or positions clamped at the largest."""
    if not np.ptp(used) or (used == expected).all():
        return None
    for dtype in NARROW_DTYPES:
        if (expected.astype(dtype) == used).all():
            return PositionMistake(Misplacement.OVERFLOW, dtype=dtype)
    largest = int(used.max())
    if (np.minimum(expected, largest) == used).all():
        return PositionMistake(Misplacement.CLAMPED, by=largest)
    return None


def _of_sequence(
    expected: Indices, used: Indices, padding: int, rotated: bool
) -> PositionMistake | None:
    """Return a mistake that all rows share."""
    if padding > 0 and _counts_up(used) and used[0] - expected[0] == padding:
        return PositionMistake(Misplacement.PADDING_IGNORED)
    if rotated and not used.any():
        return PositionMistake(Misplacement.NOT_ROTATED)
    if np.ptp(expected) and not np.ptp(used):
        return PositionMistake(Misplacement.ONE_POSITION)
    if (used == -expected).all():
        return PositionMistake(Misplacement.REVERSED)
    return None


def _of_packing(expected: Indices, used: Indices) -> PositionMistake | None:
    """Return a mistake of packed sequences, whose positions are 0 1 2 0 1 2 3 …"""
    if _counts_up(used) and (np.diff(expected) < 0).any():
        return PositionMistake(Misplacement.NOT_RESET)
    steps = np.diff(used)
    restarts = (steps < 0).any() and ((steps == 1) | (used[1:] == 0)).all()
    if _counts_up(expected) and restarts:
        return PositionMistake(Misplacement.RESTARTED)
    return None


def _of_rows(expected: Indices, used: Indices) -> PositionMistake | None:
    """Return a mistake by which rows have positions of other rows: 0 0 1 2 3, or 0 0 1 1 2 2."""
    row_before = np.append(expected[:1], expected[:-1])
    if len(used) > 1 and (used == row_before).all():
        return PositionMistake(Misplacement.ROW_BEFORE)
    repeats = int((used == used[0]).sum())
    if repeats > 1 and (used == expected // repeats).all():
        return PositionMistake(Misplacement.SHARED, by=repeats)
    return None


def _shift(expected: Indices, used: Indices, padding: int) -> PositionMistake | None:
    """Return the shift of all rows, or of all from the first one that is off."""
    differences = used - expected
    by = int(differences[-1])
    first = int((differences != 0).argmax())
    if by == 0 or (differences[first:] != by).any():
        return None
    return PositionMistake(Misplacement.SHIFTED, by=by, row=padding + first if first else 0)


def _counts_up(places: Indices) -> bool:
    return bool((np.diff(places) == 1).all())


def explain_positions(
    before: Array,
    after: Array,
    plan: HeadRotation,
    places: Indices,
    seen: np.ndarray,
    atol: float,
    dtype: str,
) -> list[Explanation]:
    """Other positions that a sequence (heads, positions, channels) is rotated by; rows of padding are not `seen`."""
    with limited():
        shown = np.flatnonzero(seen)
        if not len(shown):
            return []
        some = shown[np.unique(np.linspace(0, len(shown) - 1, SAMPLED_ROWS).astype(np.intp))]
        x, y = widened(before[:, some]), widened(after[:, some])
        least = MIN_ERROR if grain(y) is None else MIN_COARSE_ERROR

        def wrong(plan: HeadRotation) -> Indices:
            off = y - plan.rotated(x, plan.waves(some))
            return np.flatnonzero(
                [rms(one) > least * rms(other) for one, other in zip(off, y, strict=True)]
            )

        heads = wrong(plan)
        if not len(heads):
            return []
        few = heads[:MAX_HEADS]
        both = Rotated(
            widened(before[few]),
            widened(after[few]),
            plan,
            atol,
            dtype,
            np.arange(before.shape[-2]),
        )
        for edit, other in _proposals(both, places, seen):
            made = other.rotated(both.before, other.waves(both.rows))
            left = both.errors(np.where(seen[:, None], made, both.after))
            found = [*both.judge.accepted([Explanation((edit,), None, ("after",), left)])]
            if not found or not {*heads}.isdisjoint(wrong(other)):
                continue
            if len(heads) < len(before):
                which = (
                    f"head {heads[0]}" if len(heads) == 1 else f"heads {', '.join(map(str, heads))}"
                )
                return [replace(found[0], tensors=(which,))]
            return found
    return []


def _proposals(
    both: Rotated, places: Indices, seen: np.ndarray
) -> Iterator[tuple[Edit, HeadRotation]]:
    """The positions that were used; for M-RoPE, sections that are interleaved or not."""
    plan = both.plan
    rope = plan.rope
    turned, _ = quotient(
        both.before, both.after, plan.channels(both.before.shape[-1]), plan.layouts
    )
    frequencies, owners = plan.frequencies(), np.array(rope.pair_axes)
    used, shift = np.array(places), np.zeros_like(places[0])
    for k in sorted(range(len(places)), key=lambda k: np.abs(frequencies[owners == k]).min()):
        used[k] = solve(turned[:, owners == k], frequencies[owners == k], places[k] + shift)
        shift = np.where(
            used[k] == UNKNOWN, 0, used[k] - places[k]
        )  # an axis of fast pairs alone is off as others are
    padding = int(seen.argmax())
    if (used == places)[:, seen].all():
        return
    for dim in (
        {both.before.shape[-1] // by for by in (1, 2, 4)} - {rope.rotary_dim}
        if len(places) == 1
        else ()
    ):
        for other in (
            constructed(Rope, seq_len=1, dim=dim, base=rope.base) if rope.scaling == "none" else ()
        ):
            yield Parameter("dim", rope.rotary_dim, dim), replace(plan, rope=other)
    if len(places) > 1:
        switched = None if rope.mrope_interleaved else True
        other = replace(plan, rope=replace(rope, mrope_interleaved=switched))
        yield Parameter("mrope_interleaved", bool(rope.mrope_interleaved), bool(switched)), other
        one_axis = np.broadcast_to(used[:1], places.shape)
        yield _by_axes(plan, places, one_axis, "1-D positions are given to M-RoPE")
        for order in [*permutations(range(len(places)))][1:]:
            yield _by_axes(plan, places, places[[*order]], f"the axes are those of {order}")
    mistake = find_position_mistake(places[0], used[0], padding)
    reason = position_mistake_words(mistake) if mistake else ""
    yield _by_axes(plan, places, np.where(used == UNKNOWN, places, used), reason, mistake)


def _by_axes(
    plan: HeadRotation,
    expected: Indices,
    used: Indices,
    reason: str,
    mistake: PositionMistake | None = None,
) -> tuple[Positions, HeadRotation]:
    """Return a proposal of other positions; both arrays are (axes, rows)."""
    edit = Positions(_runs_of_axes(expected), _runs_of_axes(used), reason, mistake)
    return edit, replace(plan, places=used)


def _runs_of_axes(places: Indices) -> str:
    """Return the positions of all axes in runs; axes with equal positions are written once."""
    return "; ".join(dict.fromkeys(map(runs, places)))
