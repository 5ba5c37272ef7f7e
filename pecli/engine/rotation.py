"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written p = (64·m + j)·R + q; three small tables are
computed directly (one row for m, 64 for j, R for q), and every element is the product of three of their entries, in
float64. Such a product is off by at most `ERROR`, which decides how nearly every element rounds. The few others are
found by a cheap test and settled one by one, so the result is the correctly rounded value, however the table is cut
into blocks.

The test: in units of 2·ERROR, every value at which the rounding changes is an integer with at most significand + 1
leading bits (or smaller than any such unit). So the values are scaled to those units and rounded to integers; an
integer with all lower bits zero is in doubt, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine import doubled, phases
from pecli.engine.doubled import Doubled
from pecli.engine.phases import Waves
from pecli.engine.rounding import round_to, significand, undecided
from pecli.engine.settle import settle

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Complex, Floats, Ints, Places


ERROR = 1e-15
"""Bound on the error of a product, for amplitude 1: table entries are within 0.6 ulp, each complex product adds
√5·2**-53.
"""

_UNIT = 2.0**48
"""1 / (units of the test): ERROR is 0.28 of a unit, safely below a half."""

_DOUBLED_ERROR = 2.0**-94
_ANCHORS = 64
_TILE = 1 << 15
"""Waves × rows of a tile: 512 KiB of complex128, to stay in the second-level cache."""
_COLUMNS = 512


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

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`.

        `part` is "cos" or "sin" for a column a wave, "cos,sin" or "sin,cos" for two; with two, the very last column
        may be missing.
        """
        with self._lock:  # the small tables are made once, by whoever comes first
            _ = self._doubled if dtype == "float64" else self._plain
        if dtype == "float64":
            pairs = part.split(",")
            for k, single in enumerate(pairs):
                self._fill_float64(single, first, out[:, k :: len(pairs)])
            return
        doubts = _Doubts()
        for columns in range(0, len(self.waves.turns), _COLUMNS):
            self._fill_columns(part, first, out, dtype, columns, doubts)
        doubts.settle(self.waves, first, out, part, dtype)

    @cached_property
    def waves(self) -> Waves:
        return self._make_waves()

    def _split(self, first: int, stop: int) -> list[tuple[int, int, int, int]]:
        """The range of positions as tiles: (large step, anchor, first row of the small table, how many)."""
        tiles = []
        while first < stop:
            step, row = divmod(first, self.rows)
            large, anchor = divmod(step, self.anchors)
            many = min(self.rows - row, stop - first)
            tiles.append((large, anchor, row, many))
            first += many
        return tiles

    def _positions(self, many: int, step: int) -> Ints:
        return np.arange(many, dtype=np.uint64)[:, None] * np.uint64(step)

    @cached_property
    def _plain(self) -> tuple[Complex, Complex]:
        """E(q) and E(j·R) for every wave, in complex128."""
        limbs = self.waves.limbs[:, None, :]
        small = phases.cos_sin(limbs, self._positions(self.rows, 1))
        large = phases.cos_sin(limbs, self._positions(self.anchors, self.rows))
        return _complex(*small), _complex(*large)

    @cached_property
    def _doubled(self) -> tuple[tuple[Doubled, Doubled], tuple[Doubled, Doubled]]:
        limbs = self.waves.limbs[:, None, :]
        small = phases.cos_sin_doubled(limbs, self._positions(self.rows, 1))
        return small, phases.cos_sin_doubled(limbs, self._positions(self.anchors, self.rows))

    def _start(self, large: int) -> Ints:
        return np.array([[large * self.anchors * self.rows]], np.uint64)

    def _fill_columns(self, part: str, first: int, out: Array, dtype: str, column: int, doubts: _Doubts) -> None:
        """Some waves of all rows; they are few enough for a tile to stay in the cache."""
        waves = slice(column, min(column + _COLUMNS, len(self.waves.turns)))
        small, steps = (table[:, waves] for table in self._plain)
        width = len(part.split(","))
        target = out[:, column * width : waves.stop * width]
        amplitude = float(self.waves.factor.hi)
        unit = _UNIT / 2.0 ** np.ceil(np.log2(amplitude))
        tile = _Tile(part, small, target.shape[1], unit, dtype)
        row, known = 0, -1
        anchors = steps
        for large, anchor, start, many in self._split(first, first + len(out)):
            if large != known:
                base = _complex(*phases.cos_sin(self.waves.limbs[:, None, waves], self._start(large)))
                anchors, known = steps * (base * (amplitude * unit)), large
            doubtful = tile.fill(anchors[anchor], start, target[row : row + many])
            doubts.add(doubtful, row, tile.columns, column * width)
            row += many

    def _fill_float64(self, part: str, first: int, out: Array) -> None:
        """float64 has no wider type to be rounded from: the same products in 106 bits."""
        small, steps = self._doubled
        factor = self.waves.factor
        row, known = 0, -1
        anchors = steps
        doubts = _Doubts()
        for large, anchor, start, many in self._split(first, first + len(out)):
            if large != known:
                base = phases.cos_sin_doubled(self.waves.limbs[:, None, :], self._start(large))
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


class _Tile:
    """Some rows of some waves, made in memory that is used again for every tile."""

    def __init__(self, part: str, small: Complex, columns: int, unit: float, dtype: str) -> None:
        self.part, self.columns, self.unit, self.dtype = part, columns, unit, dtype
        self.shift = np.uint64(64 - (53 - significand(dtype) - 1))
        if part in ("cos", "sin"):
            self.small: tuple[Array, ...] = (
                np.ascontiguousarray(small.real),
                np.ascontiguousarray(small.imag),
            )
            self.values: Floats = np.empty(small.shape)
            self.spare: Floats = np.empty(small.shape)
        else:
            self.small = (np.conj(small) if part == "sin,cos" else small,)
            self.pairs: Complex = np.empty(small.shape, np.complex128)
            self.values = self.pairs.view(np.float64)

    def fill(self, anchor: Complex, start: int, out: Array) -> Places:
        """Write the rows start, start + 1, … of the small table turned by the anchor; say which elements are in
        doubt.
        """
        many = len(out)
        rows = slice(start, start + many)
        if self.part == "cos":
            self._turn(anchor.real, self.small[0][rows], anchor.imag, self.small[1][rows], np.subtract)
        elif self.part == "sin":
            self._turn(anchor.real, self.small[1][rows], anchor.imag, self.small[0][rows], np.add)
        else:  # sin + i·cos = i·conj(cos + i·sin)
            turned = 1j * np.conj(anchor) if self.part == "sin,cos" else anchor
            np.multiply(turned, self.small[0][rows], out=self.pairs[:many])
        values = self.values[:many]
        self._round(values, out)
        np.rint(values, out=values)
        bits = values.view(np.uint64)
        np.left_shift(bits, self.shift, out=bits)
        if bits.min():
            return np.empty(0, np.intp)
        return np.flatnonzero(bits[:, : self.columns] == 0)

    def _turn(self, a: Floats, b: Array, c: Floats, d: Array, combine: np.ufunc) -> None:
        values, spare = self.values[: len(b)], self.spare[: len(b)]
        np.multiply(np.ascontiguousarray(a), b, out=values)
        np.multiply(np.ascontiguousarray(c), d, out=spare)
        combine(values, spare, out=values)

    def _round(self, values: Floats, out: Array) -> None:
        values = values[:, : out.shape[1]]
        if self.dtype == "float32":
            np.copyto(out, values, casting="same_kind")
            np.multiply(out, np.float32(1 / self.unit), out=out, casting="same_kind")
        else:
            out[...] = round_to(values * (1 / self.unit), self.dtype)


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


def _complex(real: Floats, imaginary: Floats) -> Complex:
    out = np.empty(real.shape, np.complex128)
    out.real, out.imag = real, imaginary
    return out


def _product(part: str, a: tuple[Doubled, Doubled], b: tuple[Doubled, Doubled]) -> Doubled:
    """The cosine or sine of a sum of angles, from the (cosine, sine) of each."""
    if part == "cos":
        return doubled.add(doubled.multiply(a[0], b[0]), -doubled.multiply(a[1], b[1]))
    return doubled.add(doubled.multiply(a[0], b[1]), doubled.multiply(a[1], b[0]))
