"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

Nearly all elements come from products of small tables, in tiles (`tiles`, `float64_tiles`). Each
product has a proven error bound, and the few elements that it leaves in doubt are computed one by
one (`correct_rounding`). So every element is correctly rounded, however the table is cut into
blocks.
"""

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.correct_rounding import rounded_elements
from pecli.engine.numerics.kernels import compiled_loops
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.numerics.tiles import Doubtful, Factors, Tile

if TYPE_CHECKING:
    from pecli.engine.numerics.float64_tiles import Float64Tiles

_FREQUENCIES_PER_TILE = 512
"""The frequencies whose columns are made at a time, at most."""
_MAX_IDLE_TILES = 8
"""Tiles that are kept for the next block."""


class ExactFiller:
    """Makes rows of cos and sin tables of some waves.

    Nothing is computed before the first `fill`, which may be called from several threads.

    Args:
        make_waves: Makes the waves; called again with more bits if a rounding is hard to decide.
        count: About how many positions will be needed, wherever they start.
    """

    def __init__(self, make_waves: Callable[[], ExactWaves], count: int) -> None:
        self._make_waves = make_waves
        self._count = count
        self._lock = Lock()
        self._factors: dict[tuple[str, int], Factors] = {}
        self._idle: list[Tile] = []

    def fill(self, functions: str, first: int, out: Array, dtype: str) -> None:
        """Write cosines and sines of positions first, first + 1, … into the rows of `out`.

        Every element is correctly rounded.

        Args:
            functions: "cos" or "sin" for one column per frequency, "cos,sin" or "sin,cos" for two.
            first: The position of the first row.
            out: The array to fill; with two columns per frequency, the very last one may be
                missing.
            dtype: The name of the dtype of `out`.
        """
        if not out.size:
            # Proportional scaling may leave no pair that rotates, and so no column.
            return
        if dtype == "float64":
            # It takes more digits than float64 has, which are computed for one function at a time.
            names = functions.split(",")
            for place, function in enumerate(names):
                columns_of_function = out[:, place :: len(names)]
                self._fill_float64(function, first, columns_of_function)
            return
        # Float64 decides nearly all roundings to a narrower dtype.
        doubtful = self._fill_from_float64(functions, first, out, dtype)
        self._recompute(doubtful, functions, first, out, dtype)

    def _fill_from_float64(
        self, functions: str, first: int, out: Array, dtype: str
    ) -> list[Doubtful]:
        """Write cosines and sines, computed in float64; return places that may be rounded wrongly.

        The columns of 512 frequencies are written at a time. The memory for that, called a tile, is
        kept for the next rows.

        Args:
            functions: "cos", "sin", "cos,sin" or "sin,cos".
            first: The position of the first row; the next rows are first + 1, first + 2, ….
            out: The array to fill.
            dtype: The dtype of `out`, narrower than float64.
        """
        columns_per_frequency = len(functions.split(","))
        columns_per_tile = _FREQUENCIES_PER_TILE * columns_per_frequency
        doubtful: list[Doubtful] = []
        for first_frequency in range(0, self._count_frequencies(), _FREQUENCIES_PER_TILE):
            first_column = first_frequency * columns_per_frequency
            some_columns = out[:, first_column : first_column + columns_per_tile]
            tile = self._borrow_tile(functions, first_frequency, some_columns, dtype)
            for places in tile.fill(first, some_columns):
                # The tile numbers its columns from 0 on.
                doubtful.append(Doubtful(places.rows, first_column + places.columns))
            self._return_tile(tile)
        return doubtful

    def _count_frequencies(self) -> int:
        """Return the number of frequencies; the first thread computes them, and others wait."""
        with self._lock:
            return len(self.waves.turns)

    def _fill_float64(self, function: str, first: int, out: Array) -> None:
        """Write cosines or sines of positions first, first + 1, … into `out`, which is float64."""
        with self._lock:
            tiles = self._float64_tiles
        doubtful = list(tiles.fill(function, first, out))
        self._recompute(doubtful, function, first, out, "float64")

    def _recompute(
        self, doubtful: list[Doubtful], functions: str, first: int, out: Array, dtype: str
    ) -> None:
        """Compute some elements of a table again, correctly rounded, and write them to `out`.

        Args:
            doubtful: The rows and columns of these elements, which may be rounded wrongly.
            functions: The functions of the columns in turn. With "cos,sin", columns 4 and 5 are the
                cosine and the sine of frequency 2.
            first: The position of row 0; row 3 is at the position first + 3.
            out: The table.
            dtype: The dtype of the table.
        """
        if not doubtful:
            return
        rows = np.concatenate([places.rows for places in doubtful])
        columns = np.concatenate([places.columns for places in doubtful])
        positions = rows.astype(np.uint64) + np.uint64(first)
        function_names = np.array(functions.split(","))
        frequency_indices = columns // len(function_names)
        function_of_element = function_names[columns % len(function_names)]
        out[rows, columns] = rounded_elements(
            self.waves,
            self._make_waves,  # for the rare elements that need more bits than `self.waves` has
            positions=positions,
            wave_indices=frequency_indices,
            is_sine=function_of_element == "sin",
            dtype=dtype,
        )

    def _borrow_tile(self, functions: str, first_wave: int, target: Array, dtype: str) -> Tile:
        """Return a tile, memory in which some columns of a table are made, for the caller alone.

        The caller fills the columns and returns the tile. Then it is idle, and is lent again for the
        same columns of other rows. A new tile is only made if no idle one fits.

        Args:
            functions: The functions of the columns in turn: "cos", "sin", "cos,sin" or "sin,cos".
            first_wave: The first of the waves (frequencies) that the columns are for.
            target: The columns to fill.
            dtype: The dtype of their elements.
        """
        columns = target.shape[1]
        loops = _loops_for(target, dtype)
        with self._lock:  # Two threads must not take the same tile, or make the same factors.
            factors = self._factors_from(functions, first_wave)
            tile = self._take_idle(factors, columns, dtype, loops)
        if tile is None:
            tile = _new_tile(factors, columns, dtype, loops)
        return tile

    def _take_idle(
        self, factors: Factors, columns: int, dtype: str, loops: ModuleType | None
    ) -> Tile | None:
        """Remove and return an idle tile such as `_new_tile` would make; None if there is none.

        New memory would have to be mapped by the system, which takes as long as the arithmetic.
        """
        is_compiled = loops is not None
        for index, tile in enumerate(self._idle):
            if tile.fits(factors, columns, dtype, is_compiled=is_compiled):
                return self._idle.pop(index)
        return None

    def _factors_from(self, functions: str, first_wave: int) -> Factors:
        """Return the small tables of the waves from `first_wave` on, made once."""
        key = (functions, first_wave)
        if key not in self._factors:
            waves = slice(first_wave, first_wave + _FREQUENCIES_PER_TILE)
            self._factors[key] = Factors(self.waves, waves, functions, self._count)
        return self._factors[key]

    def _return_tile(self, tile: Tile) -> None:
        """Keep a tile for the next block of rows; the oldest are dropped if there are too many."""
        with self._lock:
            self._idle.append(tile)
            del self._idle[:-_MAX_IDLE_TILES]

    @cached_property
    def waves(self) -> ExactWaves:
        return self._make_waves()

    @cached_property
    def _float64_tiles(self) -> "Float64Tiles":
        from pecli.engine.numerics.float64_tiles import Float64Tiles  # few tables need it

        return Float64Tiles(self.waves, self._count)


def _new_tile(factors: Factors, columns: int, dtype: str, loops: ModuleType | None) -> Tile:
    """Return new memory for some columns, which compiled loops fill if there are any, else NumPy.

    Args:
        factors: The small tables of cosines and sines whose products the columns are.
        columns: The number of columns.
        dtype: The dtype of the columns, float32 if there are loops.
        loops: The module of compiled loops, or None.
    """
    if loops is None:
        return Tile(factors, columns, dtype)
    from pecli.engine.numerics.compiled_tiles import CompiledTile  # large tables need it

    return CompiledTile(factors, columns, loops)


def _loops_for(target: Array, dtype: str) -> ModuleType | None:
    """Return the compiled loops if they can fill some columns of a table, else None.

    They make float32 only, and write to neighbouring elements. The columns of cosines in a table of
    cosines and sines by turns, for example, are no neighbours.
    """
    has_adjacent_columns = target.strides[1] == target.itemsize
    if dtype == "float32" and has_adjacent_columns:
        return compiled_loops(target.size)
    return None
