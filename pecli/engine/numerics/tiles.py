"""Small tables whose products are cosines and sines, and tiles of such products, rounded.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written as a number of four digits,

    p = ((stretch · leaps + leap) · anchors + anchor) · fine + row,

and a few values of E are computed for each digit. Every element is a product of those, in float64: off by at most
`ERROR`, which decides how nearly all of them round. The few others are found by a cheap test.

The test: in units somewhat larger than 2·ERROR, every value at which the rounding changes is an integer with at most
significand + 1 leading bits (or smaller than any such unit). So the values are scaled to those units and rounded to
integers; an integer with all lower bits zero is in doubt, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Complex, Floats, Indices, Ints, aligned_buffer, round_to
from pecli.engine.numerics import double_double, phases
from pecli.engine.numerics.double_double import DoubleDouble
from pecli.engine.numerics.phases import Waves

if TYPE_CHECKING:
    Views = tuple[Floats, Floats, Ints]
    Directions = tuple[DoubleDouble, DoubleDouble]


ERROR = 2.4e-15
"""Bound on the error of a product, for amplitude 1. In units of 2**-53: a direction is off by 0.85, a complex product
adds √5, the amplitude two roundings. A row, an anchor and a leap are products of two directions each, the start of a
stretch is one, and three products join them: 7 · 0.85 + 6 · √5 + 2 = 21.4 in all, 2.37e-15.
"""

_UNIT = 2.0**47
"""1 / (unit of the test): ERROR is 0.34 of a unit, below a half."""

COLUMNS = 512
"""Waves of a tile, at most."""


def _tile_size() -> int:
    """Waves × rows of a tile: half of the second-level cache in complex128, where the system tells how large that is.

    Larger tiles mean fewer calls, between which threads wait for each other.
    """
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size", encoding="ascii") as file:
            cache = file.read().strip()
    except (OSError, ValueError):
        cache = ""
    return 1 << 16 if cache.endswith("K") and cache[:-1].isdigit() and int(cache[:-1]) >= 2048 else 1 << 15


TILE = _tile_size()
_ROWS = 1 << 10
_LEAPS = 16
_TOGETHER = 8
"""Stretches whose starts are computed in one go, and how many such groups are remembered."""
_CHUNK = 1 << 12
"""Elements of the small tables computed at once, so that intermediate arrays stay in the first-level cache."""
_DIGITS = 5
"""Of the frequencies: as many as count for a direction at the farthest position, and one for `cos_sin` to leave out."""
_MAX_ZEROS = 6
"""Zeros of a tile that are searched for one by one."""
_BUFFER = 256
"""NumPy copies a row that meets many others again and again, to fill its buffer; not if the row is the longer one."""


def power_of_two(number: int) -> int:
    """The smallest that is not less."""
    return 1 << max(0, number - 1).bit_length()


def multiples(many: int, step: int) -> Ints:
    """0, step, 2·step, …: a row each."""
    return np.arange(many, dtype=np.uint64)[:, None] * np.uint64(step)


class Factors:
    """The small tables from which a part of some waves is made, in units of the test.

    Pairs are complex numbers: cos + i·sin, or, turning the other way, sin + i·cos = i·conj(cos + i·sin).
    """

    def __init__(self, waves: Waves, columns: slice, part: str, count: int) -> None:
        self.columns, self.part = columns, part
        self._backwards = part == "sin,cos"
        self._limbs = np.ascontiguousarray(waves.limbs[-_DIGITS:, None, columns])
        fitting = TILE // self._limbs.shape[-1]
        self.height = min(power_of_two(count), _ROWS, 1 << fitting.bit_length() - 1)
        self.fine = min(self.height, 1 << (self.height.bit_length() + 3) // 2)
        self.anchors = min(max(1, self.height // 4), power_of_two(-(-count // self.fine)))
        self.leap = self.anchors * self.fine
        self.stretch = self.leap * min(_LEAPS, power_of_two(-(-count // self.leap)))
        amplitude = float(waves.factor.hi)
        self.unit = _UNIT / 2.0 ** np.ceil(np.log2(amplitude))
        self._amplitude = amplitude * self.unit * (1j if self._backwards else 1)
        small = self._products(self.fine, 1)
        self.rows = (small,) if "," in part else (small.real.copy(), small.imag.copy())
        self.steps = self._products(self.anchors, self.fine)
        self._leaps = self._products(self.stretch // self.leap, self.leap)
        self._lock = Lock()
        self._starts: dict[int, Complex] = {}

    def _products(self, many: int, step: int) -> Complex:
        """E(0), E(step), E(2·step), …: a power of two of them, products of what two shorter tables hold."""
        few = 1 << many.bit_length() // 2
        fine, coarse = self._turns(multiples(few, step)), self._turns(multiples(many // few, few * step))
        return (coarse[:, None] * fine).reshape(many, -1)

    def _turns(self, positions: Ints) -> Complex:
        """E of the positions: a row each."""
        columns = self._limbs.shape[-1]
        out = np.empty((len(positions), columns), np.complex128)
        rows = max(1, _CHUNK // columns)
        for row in range(0, len(positions), rows):
            cosines, sines = phases.cos_sin(self._limbs, positions[row : row + rows])
            out.real[row : row + rows] = cosines
            out.imag[row : row + rows] = -sines if self._backwards else sines
        return out

    def leaps(self, stretch: int) -> Complex:
        """E at every leap of a stretch, times the amplitude."""
        group, place = divmod(stretch, _TOGETHER)
        with self._lock:
            if group not in self._starts:
                if len(self._starts) == _TOGETHER:
                    del self._starts[next(iter(self._starts))]
                positions = multiples(_TOGETHER, self.stretch) + np.uint64(group * _TOGETHER * self.stretch)
                self._starts[group] = self._turns(positions) * self._amplitude
            start = self._starts[group][place]
        turned: Complex = self._leaps * start
        return turned


class Tile:
    """Some rows of some waves, made in memory that is used again for every tile.

    Threads wait for each other whenever Python runs between two NumPy calls, and fall asleep over it: as little as
    can be is left to do there.
    """

    def __init__(self, factors: Factors, columns: int, dtype: str) -> None:
        self.factors, self.columns, self.dtype = factors, columns, dtype
        together = factors.height // factors.fine
        self._shift = np.array(64 - (53 - SIGNIFICAND_BITS[dtype] - 1), np.uint64)
        self._scale = np.array(1 / factors.unit, np.float32)
        self._work = tuple(aligned_buffer(together * t.size, t.dtype).reshape(-1, *t.shape) for t in factors.rows)
        self._steps = aligned_buffer(factors.steps.size, factors.steps.dtype).reshape(factors.steps.shape)
        pairs = len(self._work) == 1
        self._anchors = (self._steps,) if pairs else tuple(np.empty(self._steps.shape) for _ in self._work)
        self._whole = self._views(0, factors.height)
        self._turns = [self._turn(anchor, together) for anchor in range(0, factors.anchors, together)]
        self._leaps = factors.steps
        self._stretch = self._leap = -1

    def fill(self, first: int, out: Array) -> Iterator[tuple[Indices, Indices]]:
        """Write positions first, first + 1, … into the rows of `out`. What comes back are the rows and columns of
        elements that are in doubt, wherever there are any.
        """
        usual = np.setbufsize(_BUFFER)
        try:
            row = 0
            while row < len(out):
                leap, inside = divmod(first + row, self.factors.leap)
                self._move(leap)
                stop = min(row + self.factors.leap - inside, len(out))
                if stop - row == self.factors.leap:
                    turns, views = self._turns, self._whole
                else:
                    anchor, start = divmod(inside, self.factors.fine)
                    stop = min(stop, row + self.factors.height - start)
                    turns = [self._turn(anchor, -(-(start + stop - row) // self.factors.fine))]
                    views = self._views(start, stop - row)
                for rows, columns in self._make(first + row, turns, views, out[row:stop]):
                    yield row + rows, columns
                row = stop
        finally:
            np.setbufsize(usual)

    def _make(
        self, first: int, turns: list[Callable[[], object]], views: Views, out: Array
    ) -> Iterator[tuple[Indices, Indices]]:
        """Tiles of one height that lie one below the other, each from its own turn."""
        values, kept, bits = views
        height = len(kept)
        single, scale, shift = self.dtype == "float32", self._scale, self._shift
        multiply, rint, left_shift, argmin = np.multiply, np.rint, np.left_shift, bits.argmin
        tiles = out.reshape(-1, height, self.columns)
        for row, turn, target in zip(range(0, len(out), height), turns, tiles, strict=True):
            turn()
            self._adjust(first + row, values)
            if single:
                target[...] = kept
                multiply(target, scale, target)
            else:
                target[...] = round_to(kept * float(scale), self.dtype)
            rint(values, values)
            left_shift(bits, shift, bits)
            smallest = argmin()
            if not bits[smallest]:
                rows, columns = np.divmod(_zeros(bits, int(smallest)), bits.size // height)
                wanted = columns < self.columns
                yield row + rows[wanted], columns[wanted]

    def _adjust(self, first: int, values: Floats) -> None:
        """What is left to do to the values at positions first, first + 1, … before they are rounded."""

    def _move(self, leap: int) -> None:
        """Turn the anchors to where a leap begins."""
        if leap == self._leap:
            return
        stretch, inside = divmod(leap * self.factors.leap, self.factors.stretch)
        if stretch != self._stretch:
            self._leaps, self._stretch = self.factors.leaps(stretch), stretch
        np.multiply(self.factors.steps, self._leaps[inside // self.factors.leap], self._steps)
        if len(self._anchors) == 2:
            self._anchors[0][...], self._anchors[1][...] = self._steps.real, self._steps.imag
        self._leap = leap

    def _views(self, start: int, many: int) -> Views:
        """So many rows of the work from `start` on: all values in a line, the columns that are wanted, and the bits
        of all.
        """
        values = self._work[0].view(np.float64)
        values = values.reshape(self.factors.height, -1)[start : start + many]
        return values.reshape(-1), values[:, : self.columns], values.reshape(-1).view(np.uint64)

    def _turn(self, anchor: int, many: int) -> Callable[[], object]:
        """What makes the rows of so many anchors, in units of the test."""
        rows, work = self.factors.rows, tuple(table[:many] for table in self._work)
        anchors = tuple(table[anchor : anchor + many, None] for table in self._anchors)
        if len(work) == 1:
            return partial(np.multiply, anchors[0], rows[0], work[0])
        if self.factors.part == "sin":
            rows = rows[::-1]
        join = np.subtract if self.factors.part == "cos" else np.add
        return partial(_joined, join, anchors, rows, work)


def _zeros(bits: Ints, first: int) -> Indices:
    """Where the zeros are, of which the first is known. There are seldom more: the rest is searched as often as one
    is found, which is cheaper than to look at each element.
    """
    found = [first]
    while len(found) < _MAX_ZEROS:
        rest = bits[found[-1] + 1 :]
        place = int(rest.argmin()) if rest.size else 0
        if not rest.size or rest[place]:
            return np.array(found)
        found.append(found[-1] + 1 + place)
    return np.flatnonzero(bits == 0)


def _joined(join: np.ufunc, anchors: Iterable[Array], rows: Iterable[Array], work: tuple[Array, ...]) -> None:
    """The sum or difference of two products, in the memory for the first."""
    for factors in zip(anchors, rows, work, strict=True):
        np.multiply(*factors)
    join(*work, work[0])


_HEAD = 2.0**-26
_ERROR = 2.0**-75
"""Bound on the error of a product, for amplitude 1. A tail is at most 2**-27. In units of 2**-78: the tails and the
numbers that they are multiplied by are off by 1.25, the four products of tails add 1, three sums of them 3, and taking
the error off or adding it 1: 6.25 in all.
"""
_ANCHORS = 64


class _Split(NamedTuple):
    """Numbers of 106 bits as head + tail, off by 2**-80."""

    head: Floats
    tail: Floats

    @classmethod
    def of(cls, value: DoubleDouble, unit: float) -> _Split:
        """Heads are multiples of a unit."""
        head = np.rint(value.hi * (1 / unit)) * unit
        return cls(head, (value.hi - head) + value.lo)


class WideTiles:
    """The same tables in float64, which has no wider type to round from: products of small tables in about 75 bits,
    for about `count` positions, wherever they start.

    A position is written p = (large · anchors + anchor) · rows + row. Of the two directions that are multiplied, each
    number is split into a head of 26 bits after the binary point and a tail. Products of heads are exact, and so are
    their sums; what the tails add is small, and its rounding errors are smaller still. Elements whose last bit those
    leave in doubt are rounded one by one, elsewhere.
    """

    def __init__(self, waves: Waves, count: int) -> None:
        self._waves = waves
        self._limbs = waves.limbs[:, None, :]
        wanted = max(1, min(TILE // 2 // min(COLUMNS, len(waves.turns)), 1024, int(count**0.5)))
        self._rows = power_of_two(wanted)
        self._anchors = min(_ANCHORS, power_of_two(-(-count // self._rows)))
        self._small = [
            _Split.of(each, _HEAD) for each in phases.cos_sin_double_double(self._limbs, multiples(self._rows, 1))
        ]
        self._steps = phases.cos_sin_double_double(self._limbs, multiples(self._anchors, self._rows))
        self._scale = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))

    def fill(self, part: str, first: int, out: Array) -> Iterator[tuple[Indices, Indices]]:
        """Write positions first, first + 1, … into the rows of `out`; `part` is "cos" or "sin". What comes back is
        what `Tile.fill` gives.
        """
        width = out.shape[1]
        work = [aligned_buffer(self._rows * width, np.float64).reshape(self._rows, width) for _ in range(3)]
        anchors, known, row = self._steps, -1, 0
        while row < len(out):
            step, start = divmod(first + row, self._rows)
            large, anchor = divmod(step, self._anchors)
            if large != known:
                anchors, known = self._turned(large), large
            many = min(self._rows - start, len(out) - row)
            turn = [each.take((anchor, slice(width))) for each in anchors]
            doubtful = self._product(part, turn, start, [each[:many] for each in work])
            out[row : row + many] = work[0][:many]
            if doubtful.any():
                rows, columns = np.nonzero(doubtful)
                yield row + rows, columns
            row += many

    def _product(self, part: str, turn: list[DoubleDouble], start: int, work: list[Floats]) -> Array:
        """The cosine or sine of sums of angles, in the first of three arrays; which of them are in doubt.

        cos (a + b) = cos a · cos b − sin a · sin b, sin (a + b) = cos a · sin b + sin a · cos b
        """
        high, low, product = work
        rows, width = slice(start, start + len(high)), high.shape[1]
        small = self._small if part == "cos" else self._small[::-1]
        join = np.subtract if part == "cos" else np.add
        (c, s), (cos, sin) = ([_Split.of(each, _HEAD * self._scale) for each in turn], small)
        cos_head, cos_tail, sin_head, sin_tail = (each[rows, :width] for each in (*cos, *sin))
        np.multiply(c.head, cos_head, high)
        join(high, np.multiply(s.head, sin_head, product), high)
        np.multiply(turn[0].hi, cos_tail, low)
        low += np.multiply(c.tail, cos_head, product)
        join(low, np.multiply(turn[1].hi, sin_tail, product), low)
        join(low, np.multiply(s.tail, sin_head, product), low)
        error = _ERROR * self._scale
        np.subtract(low, error, product)
        product += high
        low += error
        high += low
        return np.not_equal(high, product)

    def _turned(self, large: int) -> Directions:
        """The anchors of a large step, times the amplitude."""
        position = np.array([[large * self._anchors * self._rows]], np.uint64)
        cosines, sines = phases.cos_sin_double_double(self._limbs, position)
        factor = self._waves.factor
        base = (double_double.multiply(cosines, factor), double_double.multiply(sines, factor))
        return _directions("cos", base, self._steps), _directions("sin", base, self._steps)


def _directions(part: str, a: Directions, b: Directions) -> DoubleDouble:
    """The cosine or sine of a sum of angles in 106 bits, from the (cosine, sine) of each."""
    if part == "cos":
        return double_double.add(double_double.multiply(a[0], b[0]), -double_double.multiply(a[1], b[1]))
    return double_double.add(double_double.multiply(a[0], b[1]), double_double.multiply(a[1], b[0]))
