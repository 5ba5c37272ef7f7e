"""One reading of a tensor, whichever check asks: the arrangement that it is in, as views that are one table each.

Axes of length 1, copies along a batch or head axis, doubled columns, cosines and sines in one array, flat and
transposed dumps, integers with a scale. Nothing is taken on trust: every element is compared.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.compare.comparison import Comparison, Part, compare, copy_axes
from pecli.compare.forms import (
    ARRANGEMENTS,
    DOUBLINGS,
    READABLE,
    STEPS,
    Form,
    columns,
    joined,
    stands_for_one,
)
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import (
    COMPLEX,
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Indices,
    dtype_name,
    numpy_dtype,
    widest,
)
from pecli.engine.table import Table
from pecli.errors import bracketed
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:  # comparing two files needs no scheme
    from pecli.engine.schemes.scheme import Scheme

SAME = 1e-3  #: the mean error of a table that is the one expected, but for rounding
MAX_DISTANCE = 0.1  #: the largest mean error of a table that is recognised by its values
MAX_ERROR = 2.0  #: what an element counts for that is further off than this, or is no number
PROBE_ROWS, PROBE_GROUPS, PROBE_ELEMENTS = 4, 16, 1 << 16
"""What tells readings apart: the first positions, one in the middle and the last, of some heads; much of a vector."""
MIN_FLAT_ROWS = (
    8  #: of a table that a vector may be: shorter ones are rather frequencies of another dim
)
MAX_FLAT = 1 << 21  #: elements of a vector that may be a table
MAX_AXES = 6  #: axes of a tensor in which positions are looked for
CONSTANT = 0.1  #: how far cos² + sin² may vary, relative to its mean
PLURALS = {"cos": "cosines", "sin": "sines"}

Shape = tuple[int, ...]
Expected = Table | Array
Making = tuple["Scheme | None", Mapping[str, Expected]]


class Origin(NamedTuple):
    """The encoding of a model that a table belongs to."""

    scheme: str
    layer_type: str  #: empty if all layers have the same encoding


@dataclass(frozen=True)
class Target:
    """What a tensor may hold: one table, or cosines and sines in this order."""

    names: tuple[str, ...]
    shape: tuple[int | None, ...]  #: of each table; None stands for as many rows as there are
    make: Callable[
        [int], Making
    ]  #: the scheme, if one makes the tables, and the tables by name, for so many rows
    waves: bool = (
        False  #: whether its columns belong to frequencies, and may be arranged in any form
    )
    transposable: bool = (
        False  #: whether rows may be its frequencies: unnamed matrices, transposed, are others
    )
    layout: str = ""  #: how columns are doubled for the rotation: halves, interleaved; nothing where either will do
    words: str = ""
    origin: Origin | None = None  #: the encoding of a model that it belongs to, if any
    quantised: bool = False  #: whether integers may stand for its values
    masked: bool = False  #: whether the most negative number of a dtype may stand for −∞

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else "cos_sin"

    def forms(self) -> list[Form]:
        if not self.waves:
            return [Form("alone")]
        forms = [
            form for form in READABLE if (form.arrangement == "alone") == (len(self.names) == 1)
        ]
        return sorted(
            forms,
            key=lambda form: bool(self.layout and form.doubled) and form.doubled != self.layout,
        )


def fixed(
    expected: Mapping[str, Expected], scheme: "Scheme | None" = None, **others: Any
) -> Target:
    """One table, or cosines and sines, which have their shape."""
    return Target(
        (*expected,), next(iter(expected.values())).shape, lambda rows: (scheme, expected), **others
    )


@dataclass(frozen=True)
class Reading:
    """A tensor, and the views of it that have to equal tables."""

    array: AnyArray
    target: Target
    form: Form
    parts: tuple[Part, ...]
    scheme: "Scheme | None"
    words: str = ""
    transposed: bool = False

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def is_learned(self) -> bool:
        return self.target.origin is not None and self.scheme is None

    def compared(self, tolerance: Tolerance, *, name: str, any_dtype: bool) -> Comparison:
        """The comparison of all parts; columns that are doubled otherwise than they are rotated are a problem."""
        result = compare(
            self.parts, self.array, tolerance, name=name, role=self.name, any_dtype=any_dtype
        )
        found, wanted = self.form.doubled, self.target.layout
        other = found and wanted and found != wanted and not result.problem
        firsts = (
            part.found[:2].reshape(2, -1)[:, :PROBE_ELEMENTS] for part in self.parts
        )  # of both copies of columns
        if other and (not result.mismatched or all(np.array_equal(*pair) for pair in firsts)):
            rotates = f"the model rotates {wanted} ({DOUBLINGS[wanted]})"
            advice = f"--layout {found} if the weights are permuted for it"
            result.problem = f"its columns are doubled as {DOUBLINGS[found]}; {rotates}; {advice}"
        return result

    def pairs(self) -> dict[str, tuple[Expected, AnyArray]]:
        """What is expected and one copy of what was found, each column once, by the names of the tables."""
        pairs: dict[str, tuple[Expected, AnyArray]] = {}
        for part in self.parts:
            pairs.setdefault(part.name, (part.expected, part.found[(0,) * len(part.copies)]))
        return pairs

    def has_equal_copies(self, atol: float = 0.0, *, doubled: bool = True) -> bool:
        """Whether all that stands for one table is the same, or all but the two columns of a frequency."""
        firsts: dict[str, AnyArray] = {}
        for part in self.parts:
            values = -widest(part.found) if part.negated else widest(part.found)
            own = slice(None if self.form.doubled and not doubled else 1)
            first = firsts.setdefault(
                part.name, values[(own, *[slice(1)] * len(part.copies[1:]))[: len(part.copies)]]
            )
            if not np.isclose(values, first, rtol=0, atol=atol, equal_nan=True).all():
                return False
        return True

    def explained(self) -> "tuple[Scheme | None, dict[str, AnyArray]]":
        """One copy of what was found, by the names of a scheme that makes such tables, and the scheme."""
        scheme: Any = self.scheme
        tables = {name: found for name, (_, found) in self.pairs().items()}
        if self.form.arrangement == "alone":
            if self.form.doubled and scheme is not None and "layout" in scheme.parameters():
                part = self.parts[0]
                one_copy: Any = (slice(None), *(0,) * (len(part.copies) - 1))
                scheme = replace(scheme, layout=self.form.doubled)
                tables = {self.name: joined([*part.found[one_copy]], self.form.doubled)}
            if self.target.waves:  # one table per axis of positions is one table of them all
                tables = {
                    name: table.reshape(-1, table.shape[-1]) for name, table in tables.items()
                }
        return scheme, tables

    @cached_property
    def distance(self) -> float:
        """The mean error, going by a few positions; what is no number counts as 2, infinite in both as right."""
        return float(np.mean([_distance(part) for part in self.parts])) if self.array.size else 0.0

    @property
    def is_near(self) -> bool:
        return self.distance < MAX_DISTANCE

    @cached_property
    def is_plausible(self) -> bool:
        """Whether its copies are alike, or cos² + sin² is constant, whatever the values are."""
        samples = [_sample(part) for part in self.parts]
        if self.form.doubled or (
            self.form.arrangement == "alone" and any(part.copies for part in self.parts)
        ):
            copies = len(self.parts[0].copies)
            firsts = [
                np.broadcast_to(sample[(slice(1),) * copies], sample.shape) for sample in samples
            ]
            if not all(
                np.array_equal(*pair, equal_nan=True) for pair in zip(firsts, samples, strict=True)
            ):
                return False
        return len(self.target.names) < 2 or self.has_constant_power

    @property
    def has_constant_power(self) -> bool:
        with np.errstate(all="ignore"):
            power = _sample(self.parts[0]) ** 2 + _sample(self.parts[-1]) ** 2
            return bool(np.ptp(power) <= CONSTANT * np.abs(power.mean()) < math.inf)

    @property
    def must_be_near(self) -> bool:
        """Whether it means nothing where the values are not those expected."""
        shape, copies = self.parts[0].expected.shape, math.prod(self.parts[0].copies)
        if self.is_learned:
            return False
        if self.transposed:  # frequencies are alike at position 0, and there alone
            rows = widest(self.parts[0].found)
            return bool(
                (rows[..., 0, :] != rows[..., 0, :1]).any()
                or (rows[..., 0] == rows[..., :1, 0]).all()
            )
        if self.array.ndim > 1 and len(shape) < 2:
            return copies > 1
        if self.array.ndim < 2 and len(shape) > 1:
            return shape[-2] < MIN_FLAT_ROWS
        doubled = (
            bool(self.form.doubled) and self.form.doubled == self.target.layout
        )  # as the scheme has its columns
        is_plain = (
            copies == 1 + doubled and len(self.target.names) == 1 and self.array.ndim >= len(shape)
        )
        return self.target.origin is None and not is_plain and not self.is_plausible


def doubling_problems(readings: Iterable[tuple[str, Reading, str]]) -> list[str]:
    """Which layers have cosines doubled in one way and sines in another; given are layers, and how columns are."""
    ways: dict[str, set[str]] = {}
    for layers, reading, doubled in readings:
        if role_of(reading.name) in PLURALS and doubled and reading.is_plausible:
            ways.setdefault(layers, set()).add(doubled)
    both = "cos and sin are doubled in two ways: no rotation takes both"
    return [f"{layers} {both}".strip() for layers, found in ways.items() if len(found) > 1]


def _probes(shape: Shape) -> tuple[Indices, ...]:
    """Some places along each axis but the last."""
    if len(shape) < 2:
        return (np.arange(min(math.prod(shape), PROBE_ELEMENTS)),)
    length = shape[-2]
    rows = np.unique(np.r_[: min(PROBE_ROWS, length), length // 2, length - 1])
    others = [
        np.unique(np.linspace(0, n - 1, min(n, PROBE_GROUPS)).astype(np.intp)) for n in shape[:-2]
    ]
    return (*others, rows)


def _sample(part: Part) -> AnyArray:
    """Some rows of the first and the last copies."""
    ends = part.found[tuple(slice(None, None, max(1, n - 1)) for n in part.copies)]
    probes: Any = (
        ...,
        *np.ix_(*_probes(part.expected.shape)),
        *[slice(None)] * (len(part.expected.shape) > 1),
    )
    return widest(part.decoded(ends[probes]))


def _distance(part: Part) -> float:
    shape = part.expected.shape
    probes = np.ix_(*_probes(shape))
    if isinstance(part.expected, np.ndarray):
        ours = widest(part.expected[probes])
    else:
        rows = np.ravel_multi_index(probes, shape[:-1] or shape)
        ours = widest(part.expected.pick(rows.reshape(-1))).reshape(
            *rows.shape, *shape[len(probes) :]
        )
    with np.errstate(invalid="ignore", over="ignore"):
        expected, found = -ours if part.negated else ours, _sample(part)
        error = np.where(expected == found, 0.0, np.abs(expected - found))
    return (
        float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean())
        if error.size
        else 0.0
    )


def best_reading(
    array: AnyArray, targets: Iterable[Target], *, lines: bool = False
) -> Reading | None:
    """The nearest of all readings of a tensor. Where none is near, its values may be anything, and one whose copies are
    alike counts; the rows of a .csv (`lines`) have no other axes."""
    found = [each for target in targets for each in readings(array, target, lines=lines)]
    if exact := [each for each in found if each.distance < SAME]:
        return min(exact, key=lambda each: each.distance)
    found = [each for each in found if each.is_near or not each.must_be_near]
    one = stands_for_one(array)

    def doubts(each: Reading) -> tuple[Any, ...]:
        step, copies = (
            each.parts[0].step,
            math.prod(each.parts[0].copies),
        )  # a table has rather rows than copies
        is_other_scale = bool(step) and round(1 / step) != one
        return (
            not each.is_plausible,
            each.transposed,
            not each.is_near,
            is_other_scale,
            copies,
            each.distance,
        )

    return min(found, key=doubts, default=None)


def readings(array: AnyArray, target: Target, *, lines: bool = False) -> Iterator[Reading]:
    """A tensor as this target, in all forms that its shape allows; complex numbers are pairs, the real part first."""
    kind = dtype_name(array.dtype)
    real = np.asarray(array, order="C")
    if kind in COMPLEX:
        real = (
            real.astype(kind, copy=False).reshape(*array.shape, 1).view(numpy_dtype(COMPLEX[kind]))
        )
    for form in target.forms() if real.size else ():
        if kind in COMPLEX and form.arrangement != "pairs":
            continue
        if target.names == ("sin", "cos") and (kind in COMPLEX or form.arrangement == "matrices"):
            continue  # a rotation by its own definition: cosines are the real parts, and on the diagonal
        seen = set()
        for note, shape, swap in _shapes(real.shape, target, form, lines):
            view = real.reshape(shape).swapaxes(-1, -2) if swap else real.reshape(shape)
            if (view.shape, swap) not in seen:
                seen.add((view.shape, swap))
                arrangement = "complex" if kind in COMPLEX else form.arrangement
                for parts, scheme in _in_form(view, target, form):
                    words = _words(real, parts[0], target, arrangement, form.doubled, note)
                    yield Reading(real, target, form, parts, scheme, words, swap)


def wave_readings(array: AnyArray) -> Iterator[Reading]:
    """A tensor as cosines and sines of any number of frequencies, where cos² + sin² is constant or copies are alike."""
    widths = {
        size // times
        for size in array.shape[-3:]
        for times in (1, 2, 4)
        if size and not size % times
    }
    for width in sorted(widths, reverse=True):

        def make(rows: int, width: int = width) -> tuple[None, dict[str, Array]]:
            return None, dict.fromkeys(
                PLURALS, np.broadcast_to(np.zeros(()), (rows, width))
            )  # whatever the values

        for reading in readings(array, Target((*PLURALS,), (None, width), make, waves=True)):
            if not reading.is_near and reading.is_plausible:
                yield reading


def row_widths(array: AnyArray) -> tuple[int, ...]:
    """How many columns a flat table may have: at position 0 all cosines are 1, all sines 0; of both, twice as many."""
    is_flat = array.ndim == 1 and MIN_FLAT_ROWS < array.size <= MAX_FLAT
    width = int((array != array[0]).argmax()) if is_flat else 0
    return tuple(
        n
        for n in (width, 2 * width)
        if width > 1 and not array.size % n and array.size >= MIN_FLAT_ROWS * n
    )


def separate_tables(name: str, array: AnyArray) -> tuple[dict[str, AnyArray], str]:
    """A tensor with a row per position, its cosines apart from its sines, and how it was read, if not as it is."""
    role, tables = (
        role_of(name),
        [array.reshape(-1, width) for width in reversed(row_widths(array))],
    )
    holds_both = array.ndim > 2 or array.dtype.kind == "c" or role == "both"
    for table in tables or [array] * holds_both:
        for reading in wave_readings(table):
            if reading.has_constant_power:
                return {part: found for part, (_, found) in reading.pairs().items()}, reading.words
    if tables:
        return {"": tables[-1]}, f"read as {bracketed(tables[-1].shape)}"
    if role in PLURALS and array.ndim == 2 and array.size:
        (down, across) = array[:, 0], array[0]
        if (down == down[0]).all() and (
            across != down[0]
        ).any():  # where all frequencies are at position 0
            return {"": array.T}, "transposed"
    return {"": array}, ""


def _shapes(
    shape: Shape, target: Target, form: Form, lines: bool
) -> Iterator[tuple[str, Shape, bool]]:
    """The shapes that a tensor may have had, with a note, and whether the last two axes are exchanged then."""
    yield "", shape, False
    plain = tuple(length for length in shape if length != 1) or (1,)
    yield "", plain, False
    leading, last = target.shape[:-1], form.axes(target.shape[-1] or 1)
    if (len(shape) == 1 or (lines and len(plain) == 1)) and leading and None not in leading[:-1]:
        rows = plain[0] // math.prod(last) // math.prod(length or 1 for length in leading[:-1])
        stacked = (2,) if form.arrangement == "stacked" else ()
        rows = rows // 2 if stacked else rows
        full = (*stacked, *(length or 1 for length in leading[:-1]), rows, *last)
        if math.prod(full) == plain[0] and (leading[-1] or rows) == rows > 1:
            yield f"read as {bracketed(full)}", full, False
    heads = leading[0] if len(leading) == 2 else None
    if heads and len(shape) > 1 and shape[0] > heads and not shape[0] % heads:
        yield (
            f"{shape[0] // heads} × {heads} heads along axis 0",
            (shape[0] // heads, heads, *shape[1:]),
            False,
        )
    if lines and len(plain) <= 2 and len(leading) > 1 and None not in leading:
        full = (*(length or 1 for length in leading), *last)
        if math.prod(full) == math.prod(shape):
            yield "", full, False
    if target.transposable and len(plain) == 2 and len(last) == 1 and plain[0] == last[0]:
        yield "transposed", plain, True


def _in_form(
    array: AnyArray, target: Target, form: Form
) -> "Iterator[tuple[tuple[Part, ...], Scheme | None]]":
    views = form.undo(array, target.shape[-1] or 1)
    if views is None or array.ndim > MAX_AXES:
        return
    first = 1 if form.doubled else 0
    leading = views[0][1].shape[first:-1]
    ones = [axis for axis, length in enumerate(target.shape) if length == 1]
    for axes in _row_axes(leading, target.shape[:-1]):
        copies = [k for k in range(len(leading)) if k not in axes]
        order = [*range(first), *(first + k for k in (*copies, *axes)), first + len(leading)]
        found = [values.transpose(order) for _, values, _ in views]
        if (
            len(axes) < len(target.shape) - 1
        ):  # the table has axes of length 1 that a dump had dropped
            missing = [found[0].ndim - (len(target.shape) - len(ones)) + axis for axis in ones]
            found = [np.expand_dims(each, missing) for each in found]
        scheme, tables = target.make(found[0].shape[-2] if found[0].ndim > 1 else 1)
        names = tuple(target.names[part] for part, _, _ in views)
        expected = tables[names[0]]
        if found[0].shape[found[0].ndim - len(expected.shape) :] != expected.shape:
            continue
        whole = STEPS.get(dtype_name(array.dtype), ()) if target.quantised else ()
        wanted = expected.dtype if isinstance(expected, Table) else dtype_name(expected.dtype)
        for step in (
            (1 / count for count in whole) if whole and wanted in SIGNIFICAND_BITS else (0.0,)
        ):
            every = zip(names, found, views, strict=True)
            parts = (
                Part(tables[name], own, minus, step, target.masked, name)
                for name, own, (_, _, minus) in every
            )
            yield tuple(parts), scheme


def _row_axes(leading: Shape, wanted: tuple[int | None, ...]) -> Iterator[Shape]:
    """Which axes are those of the table; the others are copies. Rows of a table are never taken for copies of one row:
    where the table has one, so has the tensor."""
    flat = all(length == 1 for length in leading)
    if len(leading) < len(wanted):
        wanted = tuple(length for length in wanted if length != 1)
        every = [tuple(range(len(leading)))] if len(wanted) == len(leading) else []
    else:
        every = [*combinations(range(len(leading)), len(wanted))]
    for axes in reversed(every):
        pairs = zip((leading[k] for k in axes), wanted, strict=True)
        if all((length > 1 or flat) if want is None else length == want for length, want in pairs):
            yield axes


def _words(
    real: AnyArray, part: Part, target: Target, arrangement: str, doubled: str, note: str
) -> str:
    words = [target.words]
    if len(target.names) > 1:
        words.append(
            ARRANGEMENTS[arrangement][1].format(*(PLURALS.get(name, name) for name in target.names))
        )
    if doubled or (target.origin is not None and target.waves and len(target.names) == 1):
        words.append(columns(doubled))
    words.append(note)
    dropped = real.shape.count(1) > target.shape.count(1)
    if dropped and not note.startswith("read as") and real.ndim > 1:
        words.append("axes of length 1 dropped")
    words += [f"repeated {real.shape[axis]}× along axis {axis}" for axis in copy_axes(part, real)]
    words.append(f"integers with a scale of 1/{round(1 / part.step)}" if part.step else "")
    return ", ".join(filter(None, words))
