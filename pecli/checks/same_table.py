"""One table in the shapes that dumps give it: with axes of length 1, repeated along a batch or head axis, with its last
axis doubled, flat, or as the lines of a .csv. Every check reads a tensor through here, so that all of them agree.

Nothing is taken on trust: it is the expected table that is repeated and doubled, and every element is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare.error_summary import widest
from pecli.checks.tensor_roles import ANYTHING, role_of
from pecli.engine.arrays import Array, Indices
from pecli.engine.table import Table, reshaped, squeezed_views
from pecli.errors import bracketed
from pecli.explain.forms import DOUBLINGS, Form, columns, halved

if TYPE_CHECKING:  # comparing two files needs neither
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding

MAX_AXES = 5
"""Axes of a tensor in which repetitions are searched for."""
MAX_DISTANCE = 0.1
"""The largest mean error of a table that is recognised by its values."""
MAX_ERROR = 2.0
"""What an element counts for that is further off than this, or is no number."""
PROBE_ROWS, PROBE_GROUPS, PROBE_ELEMENTS = 4, 16, 1 << 16
"""What tells readings apart: the first positions, one in the middle and the last, of some heads; much of a vector."""
_DOUBLED_ROLES = ("cos", "sin", "both", ANYTHING, None)


@dataclass(frozen=True)
class View:
    """A tensor without its axes of length 1, and one of its copies where some axes only repeat a table."""

    tensor: Table
    one: Table
    rows: Indices | None = None
    """Of copies, for every row of the tensor, by its axes: the row of `one` that it has to equal."""
    note: str = ""

    def expand(self, expected: Table) -> Table:
        """The table that the tensor has to equal, where its copies have to equal this one."""
        if self.rows is None:
            return expected
        width = self.one.shape[-1]  # the expected table may be a vector with one element per line
        return _gathered(reshaped(expected, (expected.size // width, width)), self.rows)

    def copies_differ(self) -> bool:
        """Whether what is repeated is not the same everywhere."""
        blocks = zip(self.tensor.blocks(), self.expand(self.one).blocks(), strict=True)
        return any(ours.tobytes() != theirs.tobytes() for ours, theirs in blocks)


def _views(table: Table) -> Iterator[View]:
    """The table as it is, and without its axes of length 1."""
    for view in squeezed_views(table):
        yield View(view, view, None, "" if view.shape == table.shape else "axes of length 1 dropped")


def _in_rows(table: Table, shapes: Iterable[tuple[int, ...]]) -> Iterator[View]:
    """A vector as a table of these shapes, where it has as many elements: C programs write no shape."""
    for shape in shapes if len(table.shape) == 1 else ():
        if len(shape) > 1 and math.prod(shape) == table.size:
            rows = reshaped(table, shape)
            yield View(rows, rows, None, f"read as {bracketed(shape)}")


def _repeats(table: Table) -> Iterator[View]:
    """The table as one that is repeated along some of its axes, the fewest first; the last axis never is."""
    *_, plain = _views(table)
    tensor, (*leading, width) = plain.tensor, plain.tensor.shape
    if not 1 <= len(leading) < MAX_AXES or not tensor.size:
        return
    named = [axis for axis, length in enumerate(table.shape) if length != 1]  # in the file, by axis of the tensor
    every, axes = np.arange(tensor.rows).reshape(leading), range(len(leading))
    for repeated in (some for count in axes for some in combinations(axes, count + 1)):
        first = every[tuple(slice(1 if axis in repeated else None) for axis in axes)]
        shape = tuple(length for axis, length in enumerate(leading) if axis not in repeated)
        rows = np.broadcast_to(np.arange(first.size).reshape(first.shape), leading)
        words = (f"repeated {leading[axis]}× along axis {named[axis]}" for axis in repeated)
        yield View(tensor, reshaped(_gathered(tensor, first), (*shape, width)), rows, _listed(plain.note, *words))


def _gathered(table: Table, rows: Indices) -> Table:
    """Rows of a table, by their numbers, which have the axes before the last."""

    def fill(start: int, out: Array) -> None:
        distinct, where = np.unique(rows.flat[start : start + len(out)], return_inverse=True)
        out[...] = table.pick(distinct)[where]

    return replace(table, shape=(*rows.shape, table.shape[-1]), fill=fill)


@dataclass(frozen=True)
class Candidate:
    """A table that a tensor may have to equal, and what makes it."""

    table: Table
    scheme: Scheme | None = None
    """What makes the table, unless that is learned or another file's."""
    words: str = ""
    encoding: Encoding | None = None
    """That of a model which has such a table."""
    split: Callable[[Table], Mapping[str, Table]] | None = None
    """The cosines and sines of a tensor that holds both."""

    def readings(self, tensor: Table, *, lines: bool = False) -> Iterator[Reading]:
        """A tensor as this table, if its shape allows it; the lines of a .csv have no other axes, and rows may be all
        cosines, then all sines.
        """
        for expected in squeezed_views(self.table):
            leading = expected.shape[:-1]
            one = tensor
            if lines and leading and tensor.rows == expected.rows:
                one = reshaped(tensor, (*leading, tensor.width))
            elif _is_concatenated(tensor, expected):
                apart = reshaped(tensor, (*leading, tensor.width))
                some = (each for each in self.readings(apart) if self.encoding is not None or each.is_near())
                how = f"read as {bracketed(apart.shape)}"
                yield from (replace(each, words=_listed(each.words, how)) for each in some)
            if one.shape == expected.shape:
                yield self._reading(one, expected)
                return
            if leading and one.shape[:-1] == leading and role_of(expected.name) in _DOUBLED_ROLES:
                yield from self._doubled(one, expected)

    def _doubled(self, one: Table, expected: Table) -> Iterator[Reading]:
        """Two columns per frequency where one is expected, or one where two are; of a model, which has the dim,
        whatever the values are.
        """
        for way in filter(None, DOUBLINGS):
            if one.shape[-1] == 2 * expected.shape[-1]:
                reading = self._reading(one, joined([expected], Form("alone", way)), way)
                if self.encoding is not None or reading.is_doubled() or reading.is_near():
                    yield reading
            elif 2 * one.shape[-1] == expected.shape[-1] and _is_doubled(expected, way):
                words = f"each column once, where {columns(way)} is expected"
                yield replace(self._reading(one, part_of(expected, way)), words=words)
                return

    def _reading(self, one: Table, expected: Table, doubled: str = "") -> Reading:
        scheme: Any = self.scheme
        if doubled and scheme is not None and "layout" in scheme.parameters():
            scheme = replace(scheme, layout=doubled)
        parts = self.split(one) if self.split else {expected.name: one}
        if doubled and scheme is self.scheme:
            parts = {name: part_of(part, doubled) for name, part in parts.items()}
        words = _listed("" if self.words == columns("") else self.words, columns(doubled)) if doubled else self.words
        return Reading(one, expected, parts, words, doubled, scheme, self.encoding)


@dataclass(frozen=True)
class Reading:
    """A tensor as it was found, the table that it has to equal in that shape, and how the one is read as the other."""

    found: Table
    expected: Table
    """By the scheme's name for it."""
    parts: Mapping[str, Table]
    """What was found, by the names of the scheme's tensors; of copies, one: explanations are searched for in these."""
    words: str = ""
    doubled: str = ""
    """How columns are doubled, if they are."""
    scheme: Scheme | None = None
    encoding: Encoding | None = None
    copies_differ: bool = False
    """Whether it is read as copies of one table that are not all alike."""

    def through(self, view: View, copies_differ: bool = False) -> Reading:
        """The same reading of all copies of the table."""
        found = self.found if view.rows is None else view.tensor
        expected, words = view.expand(self.expected), _listed(self.words, view.note)
        return replace(self, found=found, expected=expected, words=words, copies_differ=copies_differ)

    @property
    def is_learned(self) -> bool:
        """Whether the values are learned, so that only the shape can be right or wrong."""
        return self.encoding is not None and self.scheme is None

    def distance(self) -> float:
        """The mean error, going by a few positions; what is no number counts as 2, infinite in both as right."""
        rows = _probes(self.expected)
        with np.errstate(invalid="ignore", over="ignore"):
            expected, found = widest(self.expected.pick(rows)), widest(self.found.pick(rows))
            error = np.where(expected == found, 0.0, np.abs(expected - found))
        return float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean()) if error.size else 0.0

    def is_near(self) -> bool:
        """Whether its values are those expected, roughly."""
        return self.distance() < MAX_DISTANCE

    def is_doubled(self) -> bool:
        """Whether columns come twice in the very way of this reading, whatever the values are."""
        return bool(self.doubled) and _is_doubled(self.found, self.doubled)


def best_reading(
    table: Table, read: Callable[[Table], Iterable[Reading]], shapes: Iterable[tuple[int, ...]] = ()
) -> Reading | None:
    """The nearest of all readings of a tensor's views; of those that double columns as the table does, if there are
    any: its values may be anything. Where none is near, it may be copies; of a vector, if those are near. A vector may
    also be a table of one of the `shapes`.
    """
    views = (*_views(table), *_in_rows(table, shapes))
    plain = _nearest([each.through(view) for view in views for each in read(view.one)])
    if plain is not None and plain.is_near():
        return plain
    copies = []
    for view in _repeats(table):
        if found := list(read(view.one)):
            differ = view.copies_differ()
            alike = not differ and (plain is None or len(view.one.shape) > 1)
            every = [each.through(view, differ) for each in found]
            copies += [each for each in every if alike or (not each.is_learned and each.is_near())]
    return _nearest(copies) or plain


def _nearest(found: list[Reading]) -> Reading | None:
    found = [each for each in found if len(found) > 1 and each.is_doubled()] or found
    return found[0] if len(found) == 1 else min(found, key=Reading.distance, default=None)


def fitted(
    found: Table, expected: Iterable[Table], scheme: Scheme | None = None, *, lines: bool = False
) -> Reading | None:
    """The found table read as one of the expected ones; None where its shape allows none."""
    candidates = [Candidate(each, scheme) for each in expected if not _has_other_rows(found, each, lines)]
    sizes = [each.table.shape for each in candidates]
    shapes = [*sizes, *((*shape[:-1], 2 * shape[-1]) for shape in sizes if shape)]
    return best_reading(
        found, lambda one: (each for some in candidates for each in some.readings(one, lines=lines)), shapes
    )


def _is_concatenated(found: Table, expected: Table) -> bool:
    """Whether rows may be those of cosines, then those of sines."""
    stacked = len(expected.shape) == 3 and expected.shape[0] == 2 and expected.name == "cos_sin"
    return stacked and len(found.shape) == 2 and found.rows == expected.rows


def _has_other_rows(found: Table, expected: Table, lines: bool) -> bool:
    """Whether rows would be taken for copies: the expected table has one row, and another has more of them."""
    if not 1 < len(found.shape) <= len(expected.shape) or (lines and found.rows == expected.rows):
        return False
    return expected.shape[-2] == 1 and 1 not in found.shape[-2:]


def changed(table: Table, change: Callable[[Array], Array]) -> Table:
    """The table with every row changed, in the same shape."""
    return _combined([table], change, table.shape[-1])


def joined(parts: list[Table], form: Form) -> Table:
    """Tables of one shape joined row by row."""
    return _combined(parts, form.join, len(parts) * parts[0].shape[-1] * (2 if form.doubled else 1))


def part_of(table: Table, layout: str, number: int = 0) -> Table:
    """One of the two parts of a table's columns, which are halves or interleaved."""
    return _combined([table], lambda rows: halved(rows, layout)[number], table.shape[-1] // 2)


def _combined(parts: list[Table], combine: Callable[..., Array], width: int) -> Table:
    def fill(start: int, out: Array) -> None:
        out[...] = combine(*(part.read(start, start + len(out)) for part in parts))

    return replace(parts[0], shape=(*parts[0].shape[:-1], width), fill=fill)


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
