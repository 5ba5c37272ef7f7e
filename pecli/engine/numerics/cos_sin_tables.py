"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written as a number of four digits,

    p = ((stretch · leaps + leap) · anchors + anchor) · fine + row,

and a few values of E are computed for each digit. Every element is a product of those, in float64: off by at most
`ERROR`, which decides how nearly all of them round. The few others are found by a cheap test and computed one by one
(Ziv, 1991), so the result is the correctly rounded value, however the table is cut into blocks.

The test: in units somewhat larger than 2·ERROR, every value at which the rounding changes is an integer with at most
significand + 1 leading bits (or smaller than any such unit). So the values are scaled to those units and rounded to
integers; an integer with all lower bits zero is in doubt, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Complex, Flags, Floats, Indices, Ints, aligned_buffer, round_to
from pecli.engine.numerics import phases
from pecli.engine.numerics.phases import COLUMNS, Waves, multiples, power_of_two, round_waves

if TYPE_CHECKING:
    from pecli.engine.numerics.float64_tables import Float64Tiles

    Views = tuple[Floats, Floats, Ints]


_MAX_IDLE_TILES = 8  #: tiles that are kept for the next block

ERROR = 2.4e-15
"""Bound on the error of a product, for amplitude 1. In units of 2**-53: a direction is off by 0.85, a complex product
adds √5, the amplitude two roundings. A row, an anchor and a leap are products of two directions each, the start of a
stretch is one, and three products join them: 7 · 0.85 + 6 · √5 + 2 = 21.4 in all, 2.37e-15.
"""

_UNIT = 2.0**47  #: 1 / (unit of the test): ERROR is 0.34 of a unit, below a half

_ROWS = 1 << 10
_LEAPS = 16
_TOGETHER = 8  #: stretches whose starts are computed in one go, and how many such groups are remembered
_CHUNK = 1 << 12
"""Elements of the small tables computed at once, so that intermediate arrays stay in the first-level cache."""
_DIGITS = 5
"""Of the frequencies: as many as count for a direction at the farthest position, and one for `cos_sin` to leave out."""
_MAX_ZEROS = 6  #: zeros of a tile that are searched for one by one
_BUFFER = 256
"""NumPy copies a row that meets many others again and again, to fill its buffer; not if the row is the longer one."""


class Factors:
    """The small tables from which a part of some waves is made, in units of the test.

    Pairs are complex numbers: cos + i·sin, or, turning the other way, sin + i·cos = i·conj(cos + i·sin).
    """

    def __init__(self, waves: Waves, columns: slice, part: str, count: int) -> None:
        self.columns, self.part = columns, part
        self._backwards = part == "sin,cos"
        self._limbs = np.ascontiguousarray(waves.limbs[-_DIGITS:, None, columns])
        fitting = phases.TILE // self._limbs.shape[-1]
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
        elements that are in doubt, wherever there are any."""
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
        of all."""
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
        return partial(_joined, np.subtract if self.factors.part == "cos" else np.add, anchors, rows, work)


def _zeros(bits: Ints, first: int) -> Indices:
    """Where the zeros are, of which the first is known. There are seldom more: the rest is searched as often as one
    is found, which is cheaper than to look at each element."""
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


class Rotation:
    """Makes rows of cos and sin tables of some waves, for about `count` positions, wherever they start.

    Nothing is computed before the first `fill`, which may be called from several threads.
    """

    def __init__(self, make_waves: Callable[[], Waves], count: int) -> None:
        self._make_waves, self._count = make_waves, count
        self._lock = Lock()
        self._made: dict[tuple[str, int], Factors] = {}
        self._idle: list[Tile] = []

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`.

        `part` is "cos" or "sin" for one column per wave, "cos,sin" or "sin,cos" for two; with two, the very last column
        may be missing.
        """
        width = len(part.split(","))
        if dtype == "float64" and width > 1:
            for k, single in enumerate(part.split(",")):
                self.fill(single, first, out[:, k::width], dtype)
            return
        with self._lock:
            waves = self.waves
        undecided: list[tuple[Indices, Indices]] = []
        if dtype == "float64":
            with self._lock:
                tiles = self._float64_tiles
            undecided.extend(tiles.fill(part, first, out))
        else:
            for column in range(0, len(waves.turns), COLUMNS):
                target = out[:, column * width : (column + COLUMNS) * width]
                tile = self._tile(self._factors(part, column), target.shape[1], dtype)
                undecided += [(rows, columns + column * width) for rows, columns in tile.fill(first, target)]
                with self._lock:
                    self._idle.append(tile)
                    del self._idle[:-_MAX_IDLE_TILES]
        if any(rows.size for rows, _ in undecided):
            rows, columns = (np.concatenate(places) for places in zip(*undecided, strict=True))
            sine = (columns % 2 == (part == "cos,sin")) if width == 2 else np.full(len(rows), part == "sin")
            out[rows, columns] = self._rounded(rows.astype(np.uint64) + np.uint64(first), columns // width, sine, dtype)

    def _factors(self, part: str, column: int) -> Factors:
        """The small tables of some waves, made once, by whoever comes first."""
        with self._lock:
            if (part, column) not in self._made:
                self._made[part, column] = Factors(self.waves, slice(column, column + COLUMNS), part, self._count)
            return self._made[part, column]

    def _tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        """One that nobody works with, whose memory has been touched already, or a new one."""
        with self._lock:
            for place, tile in enumerate(self._idle):
                if (tile.factors, tile.columns, tile.dtype) == (factors, columns, dtype):
                    return self._idle.pop(place)
        return self._new_tile(factors, columns, dtype)

    def _new_tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        return Tile(factors, columns, dtype)

    def _rounded(self, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
        return round_waves(self.waves, positions, columns, sine, dtype)

    @cached_property
    def waves(self) -> Waves:
        return self._make_waves()

    @cached_property
    def _float64_tiles(self) -> Float64Tiles:
        from pecli.engine.numerics.float64_tables import Float64Tiles

        return Float64Tiles(self.waves, self._count)
