"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written as a number of three digits,

    p = (leap · anchors + anchor) · fine + row,

and every element is a product of the few values of E that are computed for each digit, in float64: off by at most
`ERROR`, which decides how nearly all of them round. The others are found by a cheap test and computed one by one (Ziv,
1991), so the result is correctly rounded, however the table is cut into blocks. For float64 itself the products have
about 75 bits, in two parts.

The test: in units somewhat larger than 2·ERROR, every value at which the rounding changes is an integer with at most
significand + 1 leading bits (or smaller than any such unit). So the values are scaled to those units and rounded to
integers; an integer with all lower bits zero is in doubt, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from threading import Lock

import numpy as np

from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    Array,
    Complex,
    Floats,
    Indices,
    Ints,
    aligned_buffer,
    round_to,
)
from pecli.engine.numerics import DoubleDouble, phases
from pecli.engine.numerics.phases import Waves, cos_sin_double_double, round_waves

Places = Iterator[tuple[Indices, Indices]]
COLUMNS = 512  #: waves of a tile, at most
_MAX_IDLE_TILES = 8  #: tiles that are kept for the next block

ERROR = 1.7e-15
"""Bound on the error of a product, for amplitude 1. In units of 2**-53: a direction is off by 0.85, a complex product
adds √5, the amplitude two roundings. A row and an anchor are products of two directions each, the start of a leap is
one, and two products join them: 5 · 0.85 + 4 · √5 + 2 = 15.2 in all, 1.69e-15.
"""

_UNIT = 2.0**47  #: 1 / (unit of the test): ERROR is 0.24 of a unit, below a half

_ROWS = 1 << 10
_DIGITS = 5
"""Of the frequencies: as many as count for a direction at the farthest position, and one for `cos_sin` to leave out."""
_BUFFER = 256
"""NumPy copies a row that meets many others again and again, to fill its buffer; not if the row is the longer one."""


def _power_of_two(number: int) -> int:
    """The smallest that is not less."""
    return 1 << max(0, number - 1).bit_length()


def _multiples(first: int, many: int, step: int) -> Ints:
    """first·step, (first + 1)·step, …: a row each."""
    return np.arange(first, first + many, dtype=np.uint64)[:, None] * np.uint64(step)


class Factors:
    """The small tables from which a part of some waves is made, in units of the test. Pairs are complex numbers:
    cos + i·sin, or, turning the other way, sin + i·cos = i·conj(cos + i·sin)."""

    def __init__(self, waves: Waves, columns: slice, part: str, count: int) -> None:
        self.part, self.columns, self._backwards = part, columns, part == "sin,cos"
        self._limbs = np.ascontiguousarray(waves.limbs[-_DIGITS:, None, columns])
        fitting = phases.TILE // self._limbs.shape[-1]
        self.height = min(_power_of_two(count), _ROWS, 1 << fitting.bit_length() - 1)
        self.fine = min(self.height, 1 << (self.height.bit_length() + 3) // 2)
        self.anchors = min(max(1, self.height // 4), _power_of_two(-(-count // self.fine)))
        self.leap = self.anchors * self.fine
        amplitude = float(waves.factor.hi)
        self.unit = _UNIT / 2.0 ** np.ceil(np.log2(amplitude))
        self._amplitude = amplitude * self.unit * (1j if self._backwards else 1)
        small = self._products(self.fine, 1)
        self.rows = (small,) if "," in part else (small.real.copy(), small.imag.copy())
        self.steps = self._products(self.anchors, self.fine)

    def _products(self, many: int, step: int) -> Complex:
        """E(0), E(step), E(2·step), …: a power of two of them, products of what two shorter tables hold."""
        few = 1 << many.bit_length() // 2
        fine, coarse = (
            self._turns(_multiples(0, few, step)),
            self._turns(_multiples(0, many // few, few * step)),
        )
        return (coarse[:, None] * fine).reshape(many, -1)

    def _turns(self, positions: Ints) -> Complex:
        turns = phases.directions(self._limbs, positions)
        return turns.conj() if self._backwards else turns

    def starts(self, leaps: range) -> Complex:
        """E at the first position of every leap, times the amplitude."""
        starts: Complex = (
            self._turns(_multiples(leaps.start, len(leaps), self.leap)) * self._amplitude
        )
        return starts


class Tile:
    """Some rows of some waves, made in memory that is used again for every tile. Threads wait for each other whenever
    Python runs between two NumPy calls: as little as can be is left to do there."""

    def __init__(self, factors: Factors, columns: int, dtype: str) -> None:
        self.factors, self.columns, self.dtype = factors, columns, dtype
        together = factors.height // factors.fine
        self._shift = np.array(64 - (53 - SIGNIFICAND_BITS[dtype] - 1), np.uint64)
        self._scale = np.array(1 / factors.unit, np.float32)
        self._work = tuple(
            aligned_buffer(together * t.size, t.dtype).reshape(-1, *t.shape) for t in factors.rows
        )
        self._steps = aligned_buffer(factors.steps.size, factors.steps.dtype).reshape(
            factors.steps.shape
        )
        pairs = len(self._work) == 1
        self._anchors = (
            (self._steps,) if pairs else tuple(np.empty(self._steps.shape) for _ in self._work)
        )
        self._values = self._work[0].view(np.float64).reshape(factors.height, -1)
        self._leap = -1

    def fill(self, first: int, out: Array) -> Places:
        """Write positions first, first + 1, … into the rows of `out`; yields rows and columns of elements in doubt."""
        factors, row = self.factors, 0
        leaps = range(first // factors.leap, -(-(first + len(out)) // factors.leap))
        starts = factors.starts(leaps[leaps[0] == self._leap :])
        usual = np.setbufsize(_BUFFER)
        try:
            for leap in leaps:
                if leap != self._leap:
                    self._move(leap, starts[leap - leaps.stop])
                end = min((leap + 1) * factors.leap - first, len(out))
                while row < end:
                    anchor, start = divmod(first + row - leap * factors.leap, factors.fine)
                    stop = min(end, row + factors.height - start)
                    for rows, columns in self._make(anchor, start, out[row:stop]):
                        yield row + rows, columns
                    row = stop
        finally:
            np.setbufsize(usual)

    def _make(self, anchor: int, start: int, out: Array) -> Places:
        self._turn(anchor, -(-(start + len(out)) // self.factors.fine))
        made = self._values[start : start + len(out)]
        values = made.reshape(-1)
        bits = values.view(np.uint64)
        if self.dtype == "float32":
            out[...] = made[:, : self.columns]
            np.multiply(out, self._scale, out)
        else:
            out[...] = round_to(made[:, : self.columns] * float(self._scale), self.dtype)
        np.rint(values, values)
        np.left_shift(bits, self._shift, bits)
        if not bits[bits.argmin()]:
            rows, columns = np.divmod(np.flatnonzero(bits == 0), made.shape[1])
            wanted = columns < self.columns
            yield rows[wanted], columns[wanted]

    def _move(self, leap: int, start: Complex) -> None:
        np.multiply(self.factors.steps, start, self._steps)
        if len(self._anchors) == 2:
            self._anchors[0][...], self._anchors[1][...] = self._steps.real, self._steps.imag
        self._leap = leap

    def _turn(self, anchor: int, many: int) -> None:
        part, rows, first = self.factors.part, self.factors.rows, self._work[0][:many]
        for turns, small, work in zip(
            self._anchors, rows[::-1] if part == "sin" else rows, self._work, strict=True
        ):
            np.multiply(turns[anchor : anchor + many, None], small, work[:many])
        if "," not in part:  # the sum or difference of two products
            (np.subtract if part == "cos" else np.add)(first, self._work[1][:many], first)


_HEAD = 2.0**-26
_FLOAT64_ERROR = 2.0**-75
"""Bound on the error of a product in two parts, for amplitude 1. A tail is at most 2**-27. In units of 2**-78: the
tails and the numbers that they are multiplied by are off by 1.25, the four products of tails add 1, three sums of them
3, and taking the error off or adding it 1: 6.25 in all.
"""
_ANCHORS = 64


def _split(value: DoubleDouble, unit: float) -> tuple[Floats, Floats]:
    """Numbers of 106 bits as head + tail, off by 2**-80; heads are multiples of the unit."""
    head = np.rint(value.hi * (1 / unit)) * unit
    return head, (value.hi - head) + value.lo


class Float64Tiles:
    """Makes rows for about `count` positions, wherever they start.

    Of the two directions that are multiplied, each number is split into a head of 26 bits after the binary point and a
    tail. Products of heads are exact, and so are their sums; what the tails add is small, and its rounding errors are
    smaller still. Elements whose last bit those leave in doubt are rounded one by one, elsewhere.
    """

    def __init__(self, waves: Waves, count: int) -> None:
        self._factor, self._limbs = waves.factor, waves.limbs[:, None, :]
        wanted = max(
            1, min(phases.TILE // 2 // min(COLUMNS, len(waves.turns)), 1024, int(count**0.5))
        )
        self._rows = _power_of_two(wanted)
        self._anchors = min(_ANCHORS, _power_of_two(-(-count // self._rows)))
        self._small = [
            _split(part, _HEAD)
            for part in cos_sin_double_double(self._limbs, _multiples(0, self._rows, 1))
        ]
        self._steps = cos_sin_double_double(self._limbs, _multiples(0, self._anchors, self._rows))
        self._scale = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))

    def fill(self, part: str, first: int, out: Array) -> Places:
        width = out.shape[1]
        work = [
            aligned_buffer(self._rows * width, np.float64).reshape(self._rows, width)
            for _ in range(3)
        ]
        anchors, known, row = self._steps, -1, 0
        while row < len(out):
            step, start = divmod(first + row, self._rows)
            leap, anchor = divmod(step, self._anchors)
            if leap != known:
                anchors, known = self._turned(leap), leap
            many = min(self._rows - start, len(out) - row)
            turn = [direction[anchor, :width] for direction in anchors]
            doubtful = self._product(part, turn, start, [array[:many] for array in work])
            out[row : row + many] = work[0][:many]
            if doubtful.any():
                rows, columns = np.nonzero(doubtful)
                yield row + rows, columns
            row += many

    def _product(
        self, part: str, turn: list[DoubleDouble], start: int, work: list[Floats]
    ) -> Array:
        """The cosine or sine of sums of angles, in the first of three arrays; which of them are in doubt."""
        high, low, product = work
        rows, width = slice(start, start + len(high)), high.shape[1]
        small = self._small if part == "cos" else self._small[::-1]
        join = np.subtract if part == "cos" else np.add
        (cos_head, cos_tail), (sin_head, sin_tail) = (
            [half[rows, :width] for half in halves] for halves in small
        )
        (c_head, c_tail), (s_head, s_tail) = (
            _split(direction, _HEAD * self._scale) for direction in turn
        )
        np.multiply(c_head, cos_head, high)
        join(high, np.multiply(s_head, sin_head, product), high)
        np.multiply(turn[0].hi, cos_tail, low)
        low += np.multiply(c_tail, cos_head, product)
        join(low, np.multiply(turn[1].hi, sin_tail, product), low)
        join(low, np.multiply(s_tail, sin_head, product), low)
        error = _FLOAT64_ERROR * self._scale
        np.subtract(low, error, product)
        product += high
        low += error
        high += low
        return np.not_equal(high, product)

    def _turned(self, leap: int) -> tuple[DoubleDouble, DoubleDouble]:
        """Cosines and sines of the anchors of a leap, times the amplitude."""
        directions = cos_sin_double_double(
            self._limbs, _multiples(leap, 1, self._anchors * self._rows)
        )
        cosine, sine = (direction * self._factor for direction in directions)
        step_cosine, step_sine = self._steps
        return cosine * step_cosine - sine * step_sine, cosine * step_sine + sine * step_cosine


class Rotation:
    """Makes rows of cos and sin tables of some waves, for about `count` positions, wherever they start. Nothing is
    computed before the first `fill`, which may be called from several threads."""

    def __init__(self, make_waves: Callable[[], Waves], count: int) -> None:
        self._make_waves, self._count = make_waves, count
        self._lock = Lock()
        self._made: dict[tuple[str, int], Factors] = {}
        self._idle: list[Tile] = []

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`. `part` is "cos" or "sin" for one column per wave,
        "cos,sin" or "sin,cos" for two; with two, the very last column may be missing."""
        width = len(part.split(","))
        if dtype == "float64" and width > 1:
            for k, single in enumerate(part.split(",")):
                self.fill(single, first, out[:, k::width], dtype)
            return
        with self._lock:
            waves, tiles = self.waves, self._float64_tiles if dtype == "float64" else None
        undecided: list[tuple[Indices, Indices]] = []
        if tiles is not None:
            undecided.extend(tiles.fill(part, first, out))
        else:
            for column in range(0, len(waves.turns), COLUMNS):
                target = out[:, column * width : (column + COLUMNS) * width]
                tile = self._tile(part, column, target.shape[1], dtype)
                undecided += [
                    (rows, columns + column * width) for rows, columns in tile.fill(first, target)
                ]
                with self._lock:
                    self._idle.append(tile)
                    del self._idle[:-_MAX_IDLE_TILES]
        if any(rows.size for rows, _ in undecided):
            rows, columns = (np.concatenate(places) for places in zip(*undecided, strict=True))
            sine = (
                (columns % 2 == (part == "cos,sin"))
                if width == 2
                else np.full(len(rows), part == "sin")
            )
            places = rows.astype(np.uint64) + np.uint64(first)
            out[rows, columns] = round_waves(
                waves, self._make_waves, places, columns // width, sine, dtype
            )

    def _tile(self, part: str, column: int, columns: int, dtype: str) -> Tile:
        """One that nobody works with, whose memory has been touched already, or a new one."""
        with self._lock:
            if (part, column) not in self._made:
                self._made[part, column] = Factors(
                    self.waves, slice(column, column + COLUMNS), part, self._count
                )
            factors = self._made[part, column]
            for place, tile in enumerate(self._idle):
                if (tile.factors, tile.columns, tile.dtype) == (factors, columns, dtype):
                    return self._idle.pop(place)
        return Tile(factors, columns, dtype)

    @cached_property
    def waves(self) -> Waves:
        return self._make_waves()

    @cached_property
    def _float64_tiles(self) -> Float64Tiles:
        return Float64Tiles(self.waves, self._count)
