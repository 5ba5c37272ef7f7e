"""One table in the shapes that dumps give it: with axes of length 1, repeated along a batch or head axis, with its last
axis doubled. Every check reads a table through here, so that all of them know it again alike.

Nothing is taken on trust: it is the expected table that is repeated and doubled, and every element is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pecli.checks.compare.error_summary import widest
from pecli.checks.tensor_roles import ANYTHING, role_of
from pecli.engine.arrays import Array
from pecli.engine.table import Table, reshaped, squeezed_views
from pecli.explain.forms import Form, columns

MAX_AXES = 5
"""Axes of a tensor that repetitions are looked for in."""
MAX_DISTANCE = 0.1
"""How near, on the whole, a tensor has to be that only its content speaks for."""
MAX_ERROR = 2.0
"""What an element counts for that is further off than this, or is no number."""
PROBE_ROWS = 4
"""Positions at the beginning that tell readings apart, beside one in the middle and the last."""
_DOUBLINGS = ("halves", "interleaved")
_DOUBLED_ROLES = ("cos", "sin", "both", ANYTHING, None)


@dataclass(frozen=True)
class View:
    """A tensor without its axes of length 1, and one of its copies where some axes only repeat a table."""

    whole: Table
    one: Table
    repeated: tuple[int, ...] = ()
    """The axes of `whole` along which it may be repeated."""
    note: str = ""

    def expand(self, expected: Table) -> Table:
        """The table that `whole` has to equal, where its copies have to equal this one."""
        if not self.repeated:
            return expected
        kept = _kept(self.whole.shape, self.repeated)
        rows = reshaped(expected, (math.prod(kept), expected.shape[-1]))

        def fill(start: int, out: Array) -> None:
            places = np.unravel_index(np.arange(start, start + len(out)), self.whole.shape[:-1])
            left = [place for axis, place in enumerate(places) if axis not in self.repeated]
            wanted = np.ravel_multi_index(left, kept) if kept else np.zeros(len(out), np.intp)
            distinct, where = np.unique(wanted, return_inverse=True)
            out[...] = rows.pick(distinct)[where]

        return replace(expected, shape=(*self.whole.shape[:-1], expected.shape[-1]), fill=fill)

    def copies_differ(self) -> bool:
        """Whether what is repeated is not the same everywhere."""
        if not self.repeated:
            return False
        step = self.whole.block_rows()
        expected = self.expand(self.one)
        for start in range(0, self.whole.rows, step):
            stop = min(start + step, self.whole.rows)
            if not np.array_equal(_bits(self.whole.read(start, stop)), _bits(expected.read(start, stop))):
                return True
        return False


def _bits(block: Array) -> Array:
    return np.ascontiguousarray(block).view(np.uint8)


def views(table: Table) -> Iterator[View]:
    """The table as it is, and without its axes of length 1."""
    for seen in squeezed_views(table):
        note = "" if seen.shape == table.shape else "axes of length 1 dropped"
        yield View(seen, seen, (), note)


def repeats(table: Table) -> Iterator[View]:
    """The table as one that is repeated along some of its axes, the fewest first; the last axis never is."""
    *_, plain = views(table)
    whole = plain.whole
    if not 2 <= len(whole.shape) <= MAX_AXES or not whole.size:
        return
    axes = [axis for axis, length in enumerate(table.shape) if length != 1]  # of the file, by axis of `whole`
    for count in range(1, len(whole.shape)):
        for repeated in combinations(range(len(whole.shape) - 1), count):
            words = (f"repeated {whole.shape[axis]}× along axis {axes[axis]}" for axis in repeated)
            note = ", ".join(filter(None, (plain.note, *words)))
            yield View(whole, _first_copy(whole, repeated), repeated, note)


def _kept(shape: tuple[int, ...], repeated: tuple[int, ...]) -> tuple[int, ...]:
    """The axes before the last that are positions and functions, not copies."""
    return tuple(length for axis, length in enumerate(shape[:-1]) if axis not in repeated)


def _first_copy(whole: Table, repeated: tuple[int, ...]) -> Table:
    kept = _kept(whole.shape, repeated)

    def fill(start: int, out: Array) -> None:
        if not kept:  # a vector, whose rows are its elements
            out[:, 0] = whole.read(0, 1).reshape(-1)[start : start + len(out)]
            return
        left = iter(np.unravel_index(np.arange(start, start + len(out)), kept))
        zeros = np.zeros(len(out), np.intp)
        places = [zeros if axis in repeated else next(left) for axis in range(len(whole.shape) - 1)]
        out[...] = whole.pick(np.ravel_multi_index(places, whole.shape[:-1]))

    return Table(whole.name, whole.dtype, (*kept, whole.shape[-1]), fill, whole.in_order)


@dataclass(frozen=True)
class Fit:
    """A tensor as it was found, what it has to equal in that shape, and how the one was seen as the other."""

    found: Table
    expected: Table
    one: Table
    """One copy, each column once: the table that a mistake is sought in."""
    view: View
    note: str = ""
    doubled: str = ""

    def copies_differ(self) -> bool:
        """Whether it is seen as copies of one table that are not all alike."""
        return self.view.copies_differ()

    def distance(self) -> float:
        """How far off it is on the whole, going by a few positions."""
        return distance(self.expected, self.found)


def fitted(found: Table, expected: Table) -> Fit | None:
    """The found table as the expected one; None where its shape does not allow it."""
    targets = [view.whole for view in views(expected)]
    for candidates in (views(found), repeats(found)):
        fits = [fit for view in candidates for each in targets for fit in _fits(view, each)]
        fits = [
            fit for fit in fits if not fit.view.repeated or fit.distance() < MAX_DISTANCE or not fit.copies_differ()
        ]
        fits = [fit for fit in fits if is_doubled(fit.found, fit.doubled)] or [
            fit for fit in fits if not fit.doubled or fit.distance() < MAX_DISTANCE
        ]
        if fits:
            return fits[0] if len(fits) == 1 else min(fits, key=Fit.distance)
    return None


def _fits(view: View, expected: Table) -> Iterator[Fit]:
    shape, wanted = view.one.shape, expected.shape
    if shape == wanted:
        yield Fit(view.whole, view.expand(expected), view.one, view, view.note)
        return
    roles = role_of(view.whole.name), role_of(expected.name)
    wide = len(shape) > 1 and shape[:-1] == wanted[:-1] and all(role in _DOUBLED_ROLES for role in roles)
    if wide and shape[-1] == 2 * wanted[-1]:
        for way in _DOUBLINGS:
            note = ", ".join(filter(None, (view.note, columns(way))))
            right = view.expand(_doubled(expected, way))
            yield Fit(view.whole, right, _single(view.one, way), view, note, way)
    elif wide and 2 * shape[-1] == wanted[-1]:
        for way in _DOUBLINGS:
            if is_doubled(expected, way):
                note = ", ".join(filter(None, (view.note, f"each column once, where {columns(way)} is expected")))
                yield Fit(view.whole, view.expand(_single(expected, way)), view.one, view, note)
                return


def _doubled(table: Table, way: str) -> Table:
    form = Form("alone", way)

    def fill(start: int, out: Array) -> None:
        out[...] = form.join(table.read(start, start + len(out)))

    return replace(table, shape=(*table.shape[:-1], 2 * table.shape[-1]), fill=fill)


def _single(table: Table, way: str) -> Table:
    """Each column once."""
    half = table.shape[-1] // 2
    part = slice(0, half) if way == "halves" else slice(0, None, 2)

    def fill(start: int, out: Array) -> None:
        out[...] = table.read(start, start + len(out))[:, part]

    return replace(table, shape=(*table.shape[:-1], half), fill=fill)


def is_doubled(table: Table, way: str) -> bool:
    """Whether columns come twice in that very way, whatever the values are, going by a few positions."""
    form = Form("alone", way)
    return bool(way) and all(form.split(table.read(start, stop)) is not None for start, stop in probes(table))


def distance(expected: Table, found: Table) -> float:
    """The mean error of two tables of one shape, going by a few positions; what is no number counts as 2."""
    errors = []
    for start, stop in probes(expected):
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(widest(expected.read(start, stop)) - widest(found.read(start, stop)))
        errors.append(np.minimum(np.where(np.isnan(error), MAX_ERROR, error), MAX_ERROR).reshape(-1))
    return float(np.concatenate(errors).mean()) if errors else 0.0


def probes(table: Table) -> Iterator[tuple[int, int]]:
    """Some rows of each function: where there are three axes, the first may count functions, or positions."""
    shape = table.shape
    if len(shape) < 2:
        yield 0, min(table.rows, 1 << 16)
        return
    each = shape[1] if len(shape) == 3 and shape[-1] == 2 else 1  # rows a position
    starts = range(0, table.rows, shape[1]) if len(shape) == 3 and each == 1 else (0,)
    length = shape[1] if len(shape) == 3 and each == 1 else table.rows // each
    for start in list(starts)[:64]:
        yield start, start + min(PROBE_ROWS, length) * each
        for position in sorted({length // 2, length - 1} - set(range(PROBE_ROWS))):
            yield start + position * each, start + (position + 1) * each
