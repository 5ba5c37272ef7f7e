"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written p = (64·m + j)·R + q; three small tables are made
(one row for m, 64 for j, R for q), and every element is the product of three of their entries, in float64. Such a
product is off by at most `ERROR`, which decides how nearly every element rounds. The few others are found by a cheap
test and settled one by one, so the result is the correctly rounded value, however the table is cut into blocks.

The test: in units somewhat larger than 2·ERROR, every value at which the rounding changes is an integer with at most
significand + 1 leading bits (or smaller than any such unit). So the values are scaled to those units and rounded to
integers; an integer with all lower bits zero is in doubt, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine import doubled, phases
from pecli.engine.doubled import Doubled
from pecli.engine.dtypes import KINDS
from pecli.engine.phases import Waves
from pecli.engine.rounding import round_to, undecided
from pecli.engine.settle import settle

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Complex, Floats, Ints, Places


ERROR = 1.75e-15
"""Bound on the error of a product, for amplitude 1. In units of 2**-53: a direction is off by 0.85, a complex product
adds √5, the amplitude two roundings. Rows for q and for j are products of two directions, that for m is one, and two
products join them: 5 · 0.85 + 4 · √5 + 2 = 15.2 in all, 1.69e-15.
"""

_UNIT = 2.0**47
"""1 / (unit of the test): ERROR is 0.25 of a unit, safely below a half."""

_DOUBLED_ERROR = 2.0**-94
_ANCHORS = 64
_TILE = 1 << 15
"""Waves × rows of a tile: 512 KiB of complex128, to stay in the second-level cache."""
_COLUMNS = 512
_CHUNK = 1 << 12
"""Elements of the small tables computed at once, so that intermediate arrays stay in the first-level cache."""
_TOGETHER = 8
"""How many large steps are computed in one go."""
_BUFFER = 256
"""NumPy copies a row that meets many others again and again, to fill its buffer; not if the row is the longer one."""


class Rotation:
    """Makes rows of cos and sin tables of `width` waves, for about `count` positions, wherever they start.

    Nothing is computed before the first `fill`, which may be called from several threads.
    """

    def __init__(self, make_waves: Callable[[], Waves], width: int, count: int) -> None:
        self._make_waves = make_waves
        wanted = max(1, min(_TILE // min(_COLUMNS, width), 1024, int(count**0.5)))
        self.rows = 1 << (wanted - 1).bit_length()
        self.anchors = min(_ANCHORS, 1 << (max(1, -(-count // self.rows)) - 1).bit_length())
        self._lock = Lock()
        self._made: dict[tuple[str, int], _Factors] = {}

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`.

        `part` is "cos" or "sin" for a column a wave, "cos,sin" or "sin,cos" for two; with two, the very last column
        may be missing.
        """
        if dtype == "float64":
            parts = part.split(",")
            for k, single in enumerate(parts):
                self._fill_float64(single, first, out[:, k :: len(parts)])
            return
        with self._lock:
            waves = self.waves
        doubts = _Doubts()
        width = len(part.split(","))
        usual = np.setbufsize(_BUFFER)
        try:
            for column in range(0, len(waves.turns), _COLUMNS):
                target = out[:, column * width : (column + _COLUMNS) * width]
                tile = _Tile(self._factors(part, column), target.shape[1], dtype)
                row = 0
                for large, anchor, start, many in self._split(first, first + len(out)):
                    doubtful = tile.fill(large, anchor, start, target[row : row + many])
                    if doubtful is not None:
                        doubts.add(doubtful, row, target.shape[1], column * width)
                    row += many
        finally:
            np.setbufsize(usual)
        doubts.settle(waves, first, out, part, dtype)

    def at(self, part: str, positions: Places, axes: Places, dtype: str) -> Array:
        """The cos or sin of a few positions: of (axes, rows) positions, each wave follows one axis."""
        rows, width = positions.shape[1], len(axes)
        columns, sine = np.tile(np.arange(width), rows), np.full(rows * width, part == "sin")
        places = positions.T[:, axes].astype(np.uint64).reshape(-1)
        return settle(self.waves, places, columns, sine, dtype).reshape(rows, width)

    def _split(self, first: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """The range of positions as tiles: (large step, anchor, first row of the small table, how many)."""
        while first < stop:
            step, row = divmod(first, self.rows)
            large, anchor = divmod(step, self.anchors)
            many = min(self.rows - row, stop - first)
            yield large, anchor, row, many
            first += many

    def _factors(self, part: str, column: int) -> _Factors:
        """The small tables of some waves, made once, by whoever comes first."""
        with self._lock:
            if (part, column) not in self._made:
                self._made[part, column] = _Factors(self, part, slice(column, column + _COLUMNS))
            return self._made[part, column]

    @cached_property
    def waves(self) -> Waves:
        return self._make_waves()

    @cached_property
    def _doubled(self) -> tuple[tuple[Doubled, Doubled], tuple[Doubled, Doubled]]:
        limbs = self.waves.limbs[:, None, :]
        small = phases.cos_sin_doubled(limbs, _positions(self.rows, 1))
        return small, phases.cos_sin_doubled(limbs, _positions(self.anchors, self.rows))

    def _fill_float64(self, part: str, first: int, out: Array) -> None:
        """float64 has no wider type to be rounded from: the same products in 106 bits."""
        with self._lock:
            small, steps = self._doubled
        factor = self.waves.factor
        row, known = 0, -1
        anchors = steps
        doubts = _Doubts()
        for large, anchor, start, many in self._split(first, first + len(out)):
            if large != known:
                position = np.array([[large * self.anchors * self.rows]], np.uint64)
                base = phases.cos_sin_doubled(self.waves.limbs[:, None, :], position)
                base = (doubled.multiply(base[0], factor), doubled.multiply(base[1], factor))
                anchors, known = (_product("cos", base, steps), _product("sin", base, steps)), large
            place = (anchors[0].take(anchor), anchors[1].take(anchor))
            rows = slice(start, start + many)
            value = _product(part, place, (small[0].take(rows), small[1].take(rows)))
            out[row : row + many] = value.hi[:, : out.shape[1]]
            open_ = undecided(value, np.array(_DOUBLED_ERROR * float(factor.hi)), "float64")
            doubts.add(np.flatnonzero(open_[:, : out.shape[1]]), row, out.shape[1], 0)
            row += many
        doubts.settle(self.waves, first, out, part, "float64")


def _positions(many: int, step: int) -> Ints:
    return np.arange(many, dtype=np.uint64)[:, None] * np.uint64(step)


class _Factors:
    """The small tables from which a part of some waves is made, in units of the test.

    Pairs are complex numbers: cos + i·sin, or, turning the other way, sin + i·cos = i·conj(cos + i·sin).
    """

    def __init__(self, rotation: Rotation, part: str, columns: slice) -> None:
        self.part = part
        self._backwards = part == "sin,cos"
        self._limbs = np.ascontiguousarray(rotation.waves.limbs[:, None, columns])
        self._stride = rotation.anchors * rotation.rows
        amplitude = float(rotation.waves.factor.hi)
        self.unit = _UNIT / 2.0 ** np.ceil(np.log2(amplitude))
        self._amplitude = amplitude * self.unit * (1j if self._backwards else 1)
        small = self._multiples(rotation.rows, 1)
        self.small = (small,) if "," in part else (small.real.copy(), small.imag.copy())
        self.steps = self._multiples(rotation.anchors, rotation.rows)
        self._lock = Lock()
        self._bases: dict[int, Complex] = {}

    def _multiples(self, many: int, step: int) -> Complex:
        """E(0), E(step), E(2·step), …: a power of two of them, products of what two shorter tables hold."""
        few = 1 << many.bit_length() // 2
        fine, coarse = (self._turns(_positions(n, s)) for n, s in ((few, step), (many // few, few * step)))
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

    def anchors(self, large: int, out: Complex) -> tuple[Array, ...]:
        """E((64·large + j)·R) for all j, times the amplitude, made in `out`."""
        group, place = divmod(large, _TOGETHER)
        with self._lock:
            if group not in self._bases:
                positions = _positions(_TOGETHER, self._stride) + np.uint64(group * _TOGETHER * self._stride)
                self._bases = {group: self._turns(positions) * self._amplitude}
            base = self._bases[group][place]
        np.multiply(self.steps, base, out)
        return (out,) if "," in self.part else (out.real.copy(), out.imag.copy())


class _Tile:
    """Some rows of some waves, made in memory that is used again for every tile.

    Threads wait for each other whenever Python runs between two NumPy calls; so all that can be prepared is.
    """

    def __init__(self, factors: _Factors, columns: int, dtype: str) -> None:
        self.factors, self.columns, self.dtype = factors, columns, dtype
        self.shift = np.uint64(64 - (53 - KINDS[dtype] - 1))
        self.scale = np.float32(1 / factors.unit)
        self._work = tuple(np.empty_like(table) for table in factors.small)
        self._whole = self._views(0, len(self._work[0]))
        self._steps = np.empty_like(factors.steps)
        self._anchors: tuple[Array, ...] = ()
        self._large = -1

    def _views(self, start: int, many: int) -> tuple[tuple[Array, ...], tuple[Array, ...], Floats, Floats, Ints]:
        """Rows of the small tables, the memory for them, and that memory as floats, without spare columns, as bits."""
        small = tuple(table[start : start + many] for table in self.factors.small)
        work = tuple(table[:many] for table in self._work)
        values = work[0].view(np.float64)
        return small, work, values.reshape(-1), values[:, : self.columns], values.view(np.uint64).reshape(-1)

    def fill(self, large: int, anchor: int, start: int, out: Array) -> Places | None:
        """Write rows start, start + 1, … of the small table, turned by an anchor; the elements in doubt, if any."""
        many = len(out)
        small, work, values, kept, bits = self._whole if many == len(self._work[0]) else self._views(start, many)
        if large != self._large:
            self._anchors, self._large = self.factors.anchors(large, self._steps), large
        self._turn(self._anchors, anchor, small, work)
        if self.dtype == "float32":
            out[...] = kept
            np.multiply(out, self.scale, out)
        else:
            out[...] = round_to(kept * float(self.scale), self.dtype)
        np.rint(values, values)
        np.left_shift(bits, self.shift, bits)
        if np.minimum.reduce(bits, None):
            return None
        return np.flatnonzero(bits.reshape(many, -1)[:, : self.columns] == 0)

    def _turn(self, anchors: tuple[Array, ...], anchor: int, small: tuple[Array, ...], work: tuple[Array, ...]) -> None:
        part = self.factors.part
        if part == "cos":
            np.multiply(anchors[0][anchor], small[0], work[0])
            np.multiply(anchors[1][anchor], small[1], work[1])
            np.subtract(work[0], work[1], work[0])
        elif part == "sin":
            np.multiply(anchors[0][anchor], small[1], work[0])
            np.multiply(anchors[1][anchor], small[0], work[1])
            np.add(work[0], work[1], work[0])
        else:
            np.multiply(anchors[0][anchor], small[0], work[0])


class _Doubts:
    """Elements that need a second look."""

    def __init__(self) -> None:
        self.rows: list[Places] = []
        self.columns: list[Places] = []

    def add(self, elements: Places, row: int, width: int, column: int) -> None:
        """Elements of a tile of that width whose corner is at (row, column)."""
        if elements.size:
            rows, columns = np.divmod(elements, width)
            self.rows.append(rows + row)
            self.columns.append(columns + column)

    def settle(self, waves: Waves, first: int, out: Array, part: str, dtype: str) -> None:
        if not self.rows:
            return
        rows, columns = np.concatenate(self.rows), np.concatenate(self.columns)
        pair = len(part.split(","))
        sine = (columns % 2 == (part == "cos,sin")) if pair == 2 else np.full(len(rows), part == "sin")
        positions = rows.astype(np.uint64) + np.uint64(first)
        out[rows, columns] = settle(waves, positions, columns // pair, sine, dtype)


def _product(part: str, a: tuple[Doubled, Doubled], b: tuple[Doubled, Doubled]) -> Doubled:
    """The cosine or sine of a sum of angles, from the (cosine, sine) of each."""
    if part == "cos":
        return doubled.add(doubled.multiply(a[0], b[0]), -doubled.multiply(a[1], b[1]))
    return doubled.add(doubled.multiply(a[0], b[1]), doubled.multiply(a[1], b[0]))
