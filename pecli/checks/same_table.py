"""One table in the shapes that dumps give it: with axes of length 1, repeated along a batch or head axis, with its last
axis doubled. Every check reads a tensor through here, so that all of them know it again alike.

Nothing is taken on trust: it is the expected table that is repeated and doubled, and every element is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare.error_summary import widest
from pecli.checks.tensor_roles import ANYTHING, role_of
from pecli.engine.arrays import Array, Indices
from pecli.engine.table import Table, reshaped, squeezed_views
from pecli.explain.forms import DOUBLINGS, Form, columns

if TYPE_CHECKING:  # comparing two files needs neither
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding

MAX_AXES = 5
"""Axes of a tensor that repetitions are looked for in."""
MAX_DISTANCE = 0.1
"""How near, on the whole, a tensor has to be that only its content speaks for."""
MAX_ERROR = 2.0
"""What an element counts for that is further off than this, or is no number."""
PROBE_ROWS, PROBE_GROUPS, PROBE_ELEMENTS = 4, 16, 1 << 16
"""What tells readings apart: the first positions, one in the middle and the last, of some heads; much of a vector."""
_DOUBLED_ROLES = ("cos", "sin", "both", ANYTHING, None)


@dataclass(frozen=True)
class View:
    """A tensor without its axes of length 1, and one of its copies where some axes only repeat a table."""

    whole: Table
    one: Table
    steps: tuple[int, ...] = ()
    """Of copies, by axis of `whole` before the last: how many rows of `one` apart neighbours are, 0 if repeated."""
    note: str = ""

    def expand(self, expected: Table) -> Table:
        """The table that `whole` has to equal, where its copies have to equal this one."""
        if not self.steps:
            return expected
        rows = reshaped(expected, (expected.size // expected.shape[-1], expected.shape[-1]))
        return _gathered(rows, self.whole.shape[:-1], self.steps)

    def copies_differ(self) -> bool:
        """Whether what is repeated is not the same everywhere."""
        if not self.steps:
            return False
        blocks = zip(self.whole.blocks(), self.expand(self.one).blocks(), strict=True)
        return any(ours.tobytes() != theirs.tobytes() for ours, theirs in blocks)


def _views(table: Table) -> Iterator[View]:
    """The table as it is, and without its axes of length 1."""
    for seen in squeezed_views(table):
        yield View(seen, seen, (), "" if seen.shape == table.shape else "axes of length 1 dropped")


def _repeats(table: Table) -> Iterator[View]:
    """The table as one that is repeated along some of its axes, the fewest first; the last axis never is."""
    *_, plain = _views(table)
    whole = plain.whole
    if not 2 <= len(whole.shape) <= MAX_AXES or not whole.size:
        return
    named = [axis for axis, length in enumerate(table.shape) if length != 1]  # of the file, by axis of `whole`
    leading, width = whole.shape[:-1], whole.shape[-1]
    axes, apart = range(len(leading)), _steps(leading)
    for repeated in (some for count in axes for some in combinations(axes, count + 1)):
        kept = [axis for axis in axes if axis not in repeated]
        lengths = tuple(leading[axis] for axis in kept)
        one = _gathered(whole, lengths or (1,), [apart[axis] for axis in kept] or [0])
        steps = dict(zip(kept, _steps(lengths), strict=True))
        words = (f"repeated {leading[axis]}× along axis {named[axis]}" for axis in repeated)
        note = _listed(plain.note, *words)
        yield View(whole, reshaped(one, (*lengths, width)), tuple(steps.get(axis, 0) for axis in axes), note)


def _steps(shape: Sequence[int]) -> list[int]:
    """How many rows apart neighbours along each axis are."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _gathered(table: Table, leading: tuple[int, ...], steps: Sequence[int]) -> Table:
    """A table with these axes before the last, whose rows are those of another, so many apart along each axis."""

    def fill(start: int, out: Array) -> None:
        places = np.unravel_index(np.arange(start, start + len(out)), leading)
        rows = sum(place * step for place, step in zip(places, steps, strict=True))
        distinct, where = np.unique(rows, return_inverse=True)
        out[...] = table.pick(distinct)[where]

    return replace(table, shape=(*leading, table.shape[-1]), fill=fill)


@dataclass(frozen=True)
class Reading:
    """A tensor as it was found, the table that it has to equal in that shape, and how the one is read as the other."""

    found: Table
    expected: Table
    """By the scheme's name for it."""
    parts: Mapping[str, Table]
    """What was found, by the names of the scheme's tensors; of copies, one: a mistake is sought in there."""
    words: str = ""
    doubled: str = ""
    """How each column is there twice, if it is."""
    scheme: Scheme | None = None
    """What makes the expected table, unless that is learned or another file's."""
    encoding: Encoding | None = None
    """That of a model which has such a table."""
    view: View | None = None
    """How its axes were seen."""

    def seen(self, view: View) -> Reading:
        """The same reading of all copies of the table."""
        expected = view.expand(self.expected)
        found = view.whole if view.steps else self.found
        return replace(self, found=found, expected=expected, words=_listed(self.words, view.note), view=view)

    @property
    def is_learned(self) -> bool:
        """Whether the values are learned, so that only the shape can be right or wrong."""
        return self.encoding is not None and self.scheme is None

    def copies_differ(self) -> bool:
        """Whether it is read as copies of one table that are not all alike."""
        return self.view is not None and self.view.copies_differ()

    def distance(self) -> float:
        """The mean error, going by a few positions; what is no number counts as 2."""
        rows = _probes(self.expected)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(widest(self.expected.pick(rows)) - widest(self.found.pick(rows)))
        return float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean()) if error.size else 0.0

    def is_near(self) -> bool:
        """Whether its content speaks for this reading."""
        return self.distance() < MAX_DISTANCE

    def is_doubled(self) -> bool:
        """Whether columns come twice in the very way of this reading, whatever the values are."""
        return bool(self.doubled) and _is_doubled(self.found, self.doubled)


def best_reading(table: Table, read: Callable[[Table], Iterable[Reading]]) -> Reading | None:
    """The nearest of all readings that there are of a tensor's views; of those that double columns as the table does,
    if there are any: its values may be anything. Where none is near, it may be copies; of a vector, if those are near.
    """
    plain = _nearest([each.seen(view) for view in _views(table) for each in read(view.one)])
    copies = [(view, each.seen(view)) for view in _repeats(table) for each in read(view.one)]
    if not copies or (plain is not None and plain.is_near()):
        return plain
    differ = {view.steps: view.copies_differ() for view, _ in copies}
    alike = [
        each
        for view, each in copies
        if not (differ[view.steps] or (plain is not None and len(view.one.shape) < 2))
        or (not each.is_learned and each.is_near())
    ]
    return _nearest(alike) or plain


def _nearest(found: list[Reading]) -> Reading | None:
    found = [each for each in found if len(found) > 1 and each.is_doubled()] or found
    return found[0] if len(found) == 1 else min(found, key=Reading.distance, default=None)


def fitted(found: Table, expected: Iterable[Table], scheme: Scheme | None = None) -> Reading | None:
    """The found table read as one of the expected ones; None where its shape allows none."""
    targets = [view.whole for each in expected if not _has_other_rows(found, each) for view in _views(each)]
    return best_reading(found, lambda one: (each for target in targets for each in _as_table(one, target, scheme)))


def _has_other_rows(found: Table, expected: Table) -> bool:
    """Whether rows would be taken for copies: the expected table has one row, and another has more of them."""
    if not 1 < len(found.shape) <= len(expected.shape):
        return False
    return expected.shape[-2] == 1 and 1 not in found.shape[-2:]


def _as_table(one: Table, expected: Table, scheme: Scheme | None) -> Iterator[Reading]:
    name, shape, wanted = expected.name, one.shape, expected.shape
    if shape == wanted:
        yield Reading(one, expected, {name: one}, scheme=scheme)
        return
    wide = len(shape) > 1 and shape[:-1] == wanted[:-1] and {role_of(one.name), role_of(name)} <= {*_DOUBLED_ROLES}
    for way in filter(None, DOUBLINGS if wide else ()):
        if shape[-1] == 2 * wanted[-1]:
            doubled = changed(expected, Form("alone", way).join, shape[-1])
            reading = Reading(one, doubled, {name: _single(one, way)}, columns(way), way, scheme)
            if reading.is_doubled() or reading.is_near():
                yield reading
        elif 2 * shape[-1] == wanted[-1] and _is_doubled(expected, way):
            words = f"each column once, where {columns(way)} is expected"
            yield Reading(one, _single(expected, way), {name: one}, words, scheme=scheme)
            return


def changed(table: Table, change: Callable[[Array], Array], width: int) -> Table:
    """The table with every row changed, into one of that width."""

    def fill(start: int, out: Array) -> None:
        out[...] = change(table.read(start, start + len(out)))

    return replace(table, shape=(*table.shape[:-1], width), fill=fill)


def _single(table: Table, way: str) -> Table:
    """Each column once."""
    half = table.shape[-1] // 2
    part = slice(0, half) if way == "halves" else slice(0, None, 2)
    return changed(table, lambda rows: rows[:, part], half)


def _is_doubled(table: Table, way: str) -> bool:
    return Form("alone", way).split(table.pick(_probes(table))) is not None


def _probes(table: Table) -> Indices:
    """The numbers of some rows: in each of some groups along the axis before the last, which are positions or heads."""
    if len(table.shape) < 2:
        return np.arange(min(table.rows, PROBE_ELEMENTS))
    length = table.shape[-2]
    groups = table.rows // max(1, length)
    starts = np.unique(np.linspace(0, groups - 1, min(groups, PROBE_GROUPS)).astype(np.intp)) * length
    within = np.unique(np.r_[: min(PROBE_ROWS, length), length // 2, length - 1])
    return np.asarray((starts[:, None] + within).reshape(-1))


def _listed(*words: str) -> str:
    return ", ".join(filter(None, words))
