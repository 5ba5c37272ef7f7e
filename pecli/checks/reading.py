"""One reading of a tensor, whichever check asks: the arrangement that it is in, as views that are one table each.

Axes of length 1, copies along a batch or head axis, doubled columns, cosines and sines in one array, flat and
transposed dumps, integers with a scale. Nothing is taken on trust: every element is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Part, copy_axes, numbered
from pecli.checks.compare.element_errors import widest
from pecli.engine.arrays import COMPLEX, AnyArray, Array, Indices, dtype_name, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import bracketed
from pecli.explain.forms import ARRANGEMENTS, DOUBLINGS, READABLE, Form, columns

if TYPE_CHECKING:  # comparing two files needs neither
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding

MAX_DISTANCE = 0.1
"""The largest mean error of a table that is recognised by its values."""
MAX_ERROR = 2.0
"""What an element counts for that is further off than this, or is no number."""
PROBE_ROWS, PROBE_GROUPS, PROBE_ELEMENTS = 4, 16, 1 << 16
"""What tells readings apart: the first positions, one in the middle and the last, of some heads; much of a vector."""
MIN_FLAT_ROWS = 8
"""Of a table that a vector may be whatever its values: shorter ones are rather frequencies of another dim."""
MAX_AXES = 6
"""Axes of a tensor in which positions are looked for."""
CONSTANT = 0.1
"""How far cos² + sin² may vary, relative to its mean."""
STEPS: Mapping[str, tuple[int, ...]] = {
    "int8": (127, 128, 64),
    "uint8": (255, 128),
    "int16": (32767, 32768, 16384),
    "int32": (2**31 - 1, 2**31, 2**30),
}
"""By dtype, the integers that stand for 1 in quantised tables."""
PLURALS = {"cos": "cosines", "sin": "sines"}
_ALONE = (Form("alone"),)

Expected = Table | Array
Making = tuple["Scheme | None", Mapping[str, Expected]]


@dataclass(frozen=True)
class Target:
    """What a tensor may hold: one table, or cosines and sines in this order."""

    names: tuple[str, ...]
    shape: tuple[int | None, ...]
    """Of each table; None stands for as many rows as there are."""
    make: Callable[[int], Making]
    """The scheme, if one makes the tables, and the tables by name, for so many rows."""
    waves: bool = False
    """Whether its columns belong to frequencies, and may be arranged in any form."""
    transposable: bool = False
    """Whether rows may be its frequencies: unnamed matrices that are transposed are another thing."""
    layout: str = ""
    """How columns are doubled for the rotation: halves, interleaved; nothing where either will do."""
    words: str = ""
    encoding: Encoding | None = None
    quantised: bool = False
    """Whether integers may stand for its values."""
    masked: bool = False
    """Whether the most negative number of a dtype may stand for −∞."""

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else "cos_sin"

    def forms(self) -> list[Form]:
        if not self.waves:
            return [*_ALONE]
        forms = [form for form in READABLE if (form.arrangement == "alone") == (len(self.names) == 1)]
        return sorted(forms, key=lambda form: bool(self.layout and form.doubled) and form.doubled != self.layout)


def always(scheme: Scheme | None, tables: Mapping[str, Expected]) -> Callable[[int], Making]:
    """Tables that have so many rows as they have."""
    return lambda rows: (scheme, tables)


def fixed(name: str, expected: Expected, scheme: Scheme | None = None, **others: Any) -> Target:
    """One table, which has its shape."""
    return Target((name,), expected.shape, always(scheme, {name: expected}), **others)


@dataclass(frozen=True)
class Reading:
    """A tensor, and the views of it that have to equal tables."""

    array: AnyArray
    target: Target
    form: Form
    parts: tuple[Part, ...]
    numbers: tuple[int, ...]
    """Of each part: which of the target's names it has."""
    scheme: Scheme | None
    arranged: AnyArray
    """One copy, doubled columns included."""
    words: str = ""

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def encoding(self) -> Encoding | None:
        return self.target.encoding

    @property
    def is_learned(self) -> bool:
        """Whether the values are learned, so that little can be right or wrong about them."""
        return self.encoding is not None and self.scheme is None

    @property
    def is_misaligned(self) -> bool:
        """Whether columns are doubled otherwise than they are rotated."""
        return bool(self.form.doubled and self.target.layout) and self.form.doubled != self.target.layout

    def explained(self) -> tuple[Scheme | None, dict[str, AnyArray]]:
        """One copy of what was found, by the names of a scheme that makes such tables, and the scheme."""
        scheme: Any = self.scheme
        if self.form.arrangement == "alone":
            if self.form.doubled and scheme is not None and "layout" in scheme.parameters():
                return replace(scheme, layout=self.form.doubled), {self.name: self._rows()}
            if not self.form.doubled:
                return scheme, {self.name: self._rows()}
        first: dict[str, AnyArray] = {}
        for number, part in zip(self.numbers, self.parts, strict=True):
            first.setdefault(self.target.names[number], part.found[(0,) * len(part.copies)])
        return scheme, first

    def _rows(self) -> AnyArray:
        """One copy; one table per axis of positions is one table of them all."""
        return self.arranged.reshape(-1, self.arranged.shape[-1]) if self.target.waves else self.arranged

    @cached_property
    def distance(self) -> float:
        """The mean error, going by a few positions; what is no number counts as 2, infinite in both as right."""
        return float(np.mean([_distance(part) for part in self.parts])) if self.array.size else 0.0

    @property
    def is_near(self) -> bool:
        """Whether its values are those expected, roughly."""
        return self.distance < MAX_DISTANCE

    @cached_property
    def is_plausible(self) -> bool:
        """Whether its copies are alike, or cos² + sin² is constant, whatever the values are."""
        samples = [_sample(part) for part in self.parts]
        if self.form.doubled or (self.form.arrangement == "alone" and any(part.copies for part in self.parts)):
            return all(_alike(sample, len(part.copies)) for sample, part in zip(samples, self.parts, strict=True))
        if len(self.target.names) < 2:
            return True
        with np.errstate(all="ignore"):
            power = samples[0] ** 2 + samples[-1] ** 2
            return bool(np.ptp(power) <= CONSTANT * np.abs(power.mean()))


def _alike(sample: AnyArray, copies: int) -> bool:
    first = sample[(slice(1),) * copies]
    return bool(np.array_equal(np.broadcast_to(first, sample.shape), sample, equal_nan=True))


def _probes(shape: tuple[int, ...]) -> tuple[Indices, ...]:
    """Some places along each axis but the last."""
    if len(shape) < 2:
        return (np.arange(min(math.prod(shape), PROBE_ELEMENTS)),)
    length = shape[-2]
    rows = np.unique(np.r_[: min(PROBE_ROWS, length), length // 2, length - 1])
    others = [np.unique(np.linspace(0, n - 1, min(n, PROBE_GROUPS)).astype(np.intp)) for n in shape[:-2]]
    return (*others, rows)


def _sample(part: Part) -> AnyArray:
    """Some rows of the first and the last copies."""
    shape = part.expected.shape
    ends = part.found[tuple(slice(None, None, max(1, n - 1)) for n in part.copies)]
    probes = _probes(shape)
    picked = ends[(..., *np.ix_(*probes), *(() if len(shape) < 2 else (slice(None),)))]
    return widest(part.decoded(picked))


def _distance(part: Part) -> float:
    shape = part.expected.shape
    probes = _probes(shape)
    if isinstance(part.expected, np.ndarray):
        ours = widest(part.expected[np.ix_(*probes)])
    else:
        rows = np.ravel_multi_index(np.ix_(*probes), shape[:-1] if len(shape) > 1 else shape)
        ours = widest(part.expected.pick(rows.reshape(-1))).reshape(
            *rows.shape, *(shape[-1:] if len(shape) > 1 else ())
        )
    with np.errstate(invalid="ignore", over="ignore"):
        expected, found = -ours if part.negated else ours, _sample(part)
        error = np.where(expected == found, 0.0, np.abs(expected - found))
    return float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean()) if error.size else 0.0


def in_pairs(array: AnyArray) -> AnyArray:
    """Complex numbers as (…, 2): the real part, then the imaginary one; others as they are."""
    kind = dtype_name(array.dtype)
    if kind not in COMPLEX:
        return array
    return np.ascontiguousarray(array).reshape(*array.shape, 1).view(numpy_dtype(COMPLEX[kind]))


def best_reading(array: AnyArray, targets: Iterable[Target], *, lines: bool = False) -> Reading | None:
    """The nearest of all readings of a tensor. Where none is near, its values may be anything, and one whose copies are
    alike counts; the rows of a .csv (`lines`) have no other axes.
    """
    found = [each for target in targets for each in readings(array, target, lines=lines)]
    near = [each for each in found if each.is_near]
    if near:
        return min(near, key=lambda each: each.distance)
    found = [each for each in found if not _must_be_near(each)]
    return min(found, key=lambda each: (not each.is_plausible, not each.form.doubled, each.distance), default=None)


def _must_be_near(reading: Reading) -> bool:
    """Whether a reading means nothing where the values are not those expected."""
    shape, copies = reading.parts[0].expected.shape, math.prod(reading.parts[0].copies)
    if reading.is_learned:
        return False
    if reading.array.ndim > 1 and len(shape) < 2:
        return copies > 1
    if reading.array.ndim < 2 and len(shape) > 1:
        return shape[-2] < MIN_FLAT_ROWS
    is_plain = copies == 1 and len(reading.target.names) == 1 and reading.array.ndim >= len(shape)
    return reading.encoding is None and not is_plain and not reading.is_plausible


def readings(array: AnyArray, target: Target, *, lines: bool = False) -> Iterator[Reading]:
    """A tensor as this target, in all forms that its shape allows."""
    is_complex = dtype_name(array.dtype) in COMPLEX
    real = in_pairs(array)
    if target.make is None or not real.size:
        return
    marks = numbered(real.shape)
    for form in target.forms():
        if is_complex and form.arrangement != "pairs":
            continue
        if target.names == ("sin", "cos") and (is_complex or form.arrangement == "matrices"):
            continue  # a rotation by its own definition: cosines are the real parts, and on the diagonal
        seen = set()
        for note, shape, swap in _shapes(real.shape, target, form, lines):
            arrays = [_shaped(each, shape, swap) for each in (real, marks)]
            if (arrays[0].shape, swap) in seen:
                continue
            seen.add((arrays[0].shape, swap))
            yield from _in_form(real, arrays[0], arrays[1], target, form, note)


def _shaped(array: AnyArray, shape: tuple[int, ...], swap: bool) -> AnyArray:
    view = array.reshape(shape)
    return view.swapaxes(-1, -2) if swap else view


def _shapes(
    shape: tuple[int, ...], target: Target, form: Form, lines: bool
) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """The shapes that a tensor may have had, with a note, and whether the last two axes are exchanged then."""
    yield "", shape, False
    plain = tuple(length for length in shape if length != 1) or (1,)
    yield "", plain, False
    width = target.shape[-1] or 1
    leading = target.shape[:-1]
    last = form.axes(width)
    if (len(shape) == 1 or (lines and len(plain) == 1)) and leading and None not in leading[:-1]:
        rows = plain[0] // math.prod(last) // math.prod(length or 1 for length in leading[:-1])
        stacked = (2,) if form.arrangement == "stacked" else ()
        full = (*stacked, *leading[:-1], rows // (2 if stacked else 1), *last)
        if math.prod(full) == plain[0] and (leading[-1] or full[-len(last) - 1]) == full[-len(last) - 1] > 1:
            yield f"read as {bracketed(full)}", full, False
    heads = leading[0] if len(leading) == 2 else None
    if heads and len(shape) > 1 and shape[0] > heads and not shape[0] % heads:
        yield f"{shape[0] // heads} × {heads} heads along axis 0", (shape[0] // heads, heads, *shape[1:]), False
    if lines and len(plain) <= 2 and len(leading) > 1 and None not in leading:
        full = (*leading, *last)
        if math.prod(full) == math.prod(shape):
            yield "", full, False
    if target.transposable and len(plain) == 2 and len(last) == 1 and plain[0] == last[0]:
        yield "transposed", plain, True


def _in_form(
    real: AnyArray, array: AnyArray, marks: AnyArray, target: Target, form: Form, note: str
) -> Iterator[Reading]:
    width = target.shape[-1] or 1
    views, places = form.undo(array, width), form.undo(marks, width)
    if views is None or places is None or array.ndim > MAX_AXES:
        return
    first = 1 if form.doubled else 0
    leading = views[0].values.shape[first:-1]
    for axes in _row_axes(leading, target.shape[:-1]):
        order = [*range(first), *(first + k for k in range(len(leading)) if k not in axes), *(first + k for k in axes)]
        missing = len(target.shape) - 1 - len(axes)

        def placed(view: AnyArray, order: list[int] = order, missing: int = missing) -> AnyArray:
            moved = view.transpose(*order, view.ndim - 1)
            return _expanded(moved, target.shape) if missing else moved

        found = [placed(view.values) for view in views]
        rows = found[0].shape[-2] if found[0].ndim > 1 else 1
        scheme, tables = target.make(rows)
        expected = [tables[target.names[view.part]] for view in views]
        if found[0].shape[found[0].ndim - len(expected[0].shape) :] != expected[0].shape:
            continue
        copies = found[0].shape[first : found[0].ndim - len(expected[0].shape)]
        arranged = _one_copy(array, form, axes, len(leading)) if form.arrangement == "alone" else array
        arranged = _expanded(arranged, target.shape) if missing else arranged
        for step in _steps(real, target, expected[0]):
            parts = tuple(
                Part(one, values, placed(place.values), view.negated, step, target.masked)
                for one, values, place, view in zip(expected, found, places, views, strict=True)
            )
            words = _words(real, parts[0], target, form, note, step, dropped=len(leading) - len(axes) > len(copies))
            yield Reading(real, target, form, parts, tuple(v.part for v in views), scheme, arranged, words)


def _expanded(array: AnyArray, shape: tuple[int | None, ...]) -> AnyArray:
    """With the axes of length 1 that a table has, and a dump had dropped."""
    places = [axis for axis, length in enumerate(shape) if length == 1]
    copies = array.ndim - (len(shape) - len(places))
    return np.expand_dims(array, [copies + axis for axis in places])


def _one_copy(array: AnyArray, form: Form, axes: tuple[int, ...], leading: int) -> AnyArray:
    return array[tuple(slice(None) if k in axes else 0 for k in range(leading))]


def _row_axes(leading: tuple[int, ...], wanted: tuple[int | None, ...]) -> Iterator[tuple[int, ...]]:
    """Which axes are those of the table; the others are copies. Rows of a table are never taken for copies of one row:
    where the table has one, so has the tensor.
    """
    flat = all(length == 1 for length in leading)

    def fits(axes: tuple[int, ...]) -> bool:
        return all(
            (leading[k] > 1 or flat) if want is None else leading[k] == want
            for k, want in zip(axes, wanted, strict=True)
        )

    if len(leading) >= len(wanted):
        every = [*combinations(range(len(leading)), len(wanted))]
        yield from (axes for axes in reversed(every) if fits(axes))
        return
    wanted = tuple(length for length in wanted if length != 1)
    axes = tuple(range(len(leading)))
    if len(wanted) == len(leading) and fits(axes):
        yield axes


def _steps(array: AnyArray, target: Target, expected: Expected) -> tuple[float, ...]:
    """What one may mean in integers that stand for numbers."""
    kind = dtype_name(array.dtype)
    dtype = expected.dtype if isinstance(expected.dtype, str) else dtype_name(expected.dtype)
    if target.quantised and kind in STEPS and dtype not in STEPS:
        return tuple(1 / count for count in STEPS[kind])
    return (0.0,)


def _words(real: AnyArray, part: Part, target: Target, form: Form, note: str, step: float, dropped: bool) -> str:
    """How a tensor was read."""
    words = [target.words]
    if len(target.names) > 1:
        arrangement = "complex" if real.base is not None and real.base.dtype.kind == "c" else form.arrangement
        words.append(ARRANGEMENTS[arrangement].format(*(PLURALS.get(name, name) for name in target.names)))
    if form.doubled or (target.encoding is not None and target.waves and len(target.names) == 1):
        words.append(columns(form.doubled))
    words.append(note)
    repeated = copy_axes(part, real.shape)
    extra = [length for length in real.shape if length == 1]
    if not note.startswith("read as") and len(extra) > sum(length == 1 for length in target.shape) and real.ndim > 1:
        words.append("axes of length 1 dropped")
    words += [f"repeated {real.shape[axis]}× along axis {axis}" for axis in repeated]
    words.append(f"integers with a scale of 1/{round(1 / step)}" if step else "")
    return ", ".join(filter(None, words))


def misaligned(reading: Reading) -> str:
    """What is wrong with columns that are doubled otherwise than they are rotated."""
    found, wanted = reading.form.doubled, reading.target.layout
    return (
        f"its columns are doubled as {DOUBLINGS[found]}, and rotated as {wanted} ({DOUBLINGS[wanted]});"
        f" --layout {found} if the weights are permuted for it"
    )
