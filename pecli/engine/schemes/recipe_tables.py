"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Floats, Indices, Singles, as_dtype, numpy_dtype
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.numerics.axis_tables import AxisFiller, Coordinates
from pecli.engine.numerics.cos_sin_tables import ExactFiller
from pecli.engine.numerics.float32_functions import power, round_single
from pecli.engine.numerics.float32_waves import write_waves
from pecli.engine.runtimes.runtime import AngleFunction, recurrence
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.schemes.recipes import PrecisionRecipe

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 16
"""Elements that are computed at once: few enough for the cache, many enough for threads."""
_RATIO_BITS = 128
"""Fractional bits of a ratio of frequencies, before it is rounded to float32."""


def geometric_angles(
    recipe: PrecisionRecipe, base: float, denominator: Fraction, count: int
) -> AngleFunction:
    """Return a function from positions to the angles position · base^(−i/denominator), i < count.

    It rounds as a recipe, a precision to imitate. Usual code computes the powers
    base^(i/denominator) in float32 and takes their reciprocals as frequencies, which some recipes
    round to float16 or bfloat16. One recipe imitates ggml, which computes no frequencies.

    Args:
        recipe: The dtype of the frequencies, and True as its `recurrence` if it imitates ggml.
        base: The base of the powers.
        denominator: Half the dimension, in most schemes.
        count: The number of frequencies.
    """
    if recipe.recurrence:
        return recurrent_angles(base, denominator, count)
    frequencies = reciprocal(float32_powers(base, denominator, range(count)))
    return multiples_of(rounded(frequencies, recipe.frequency_dtype))


def multiples_of(frequencies: Singles) -> AngleFunction:
    """Return the function from positions (n, 1) to angles position · frequency, (n, pairs)."""
    return partial(np.multiply, frequencies)


def recurrent_angles(
    base: float, denominator: Fraction, count: int, divisors: Singles | None = None
) -> AngleFunction:
    """Return a function from positions to angles, each of which is the one before times a ratio.

    ggml computes angles so, and adds up errors. With the ratio base^(−1/denominator) = 1/10,
    position 500 has the angles 500, 50, 5, …

    Args:
        base: The base of the ratio.
        denominator: Half the dimension, in most schemes.
        count: The number of angles.
        divisors: The number by which a scaling divides each angle at the end; None if it divides
            none.
    """
    (ratio,) = float32_powers(base, denominator, [-1])
    return partial(recurrence, pairs=count, ratio=float(ratio), divisors=divisors)


def float32_powers(base: float, denominator: Fraction, indices: Iterable[int]) -> Singles:
    """Return base^(i/denominator) for some i; the base, each exponent and power are float32."""
    base_float32 = round_single(base)
    denominator_float32 = np.float32(float(denominator))
    powers = []
    for index in indices:
        exponent = np.float32(index) / denominator_float32
        powers.append(power(base_float32, float(exponent)))
    return np.array(powers, np.float32)


def divisors_between(before: Frequencies, after: Frequencies) -> Singles:
    """Return the number by which a scaling divided the frequency of each pair, in float32.

    A frequency of 1/10 that becomes 1/40 has the divisor 4. Frequencies are integers over 2**bits,
    and the two lists may have different bits.
    """
    ratios = []
    for old, new in zip(before.values, after.values[: len(before.values)], strict=True):
        exact_ratio = Fraction(old << after.bits, new << before.bits)
        fixed_ratio = numerics.fixed(exact_ratio, _RATIO_BITS)
        ratios.append(round_fixed(fixed_ratio, _RATIO_BITS, "float32"))
    return np.array(ratios, np.float32)


def rounded(values: Singles, dtype: str) -> Singles:
    """Return values rounded to float16, where they saturate, or to bfloat16, in float32."""
    if dtype not in ("float16", "bfloat16"):
        return values
    if dtype == "float16":
        values = np.clip(values, -MAX_FLOAT16, MAX_FLOAT16)
    return values.astype(numpy_dtype(dtype)).astype(np.float32)


class PairAngles(NamedTuple):
    """The angles of some neighbouring pairs of channels, which one function computes.

    Attributes:
        angles_of: The function. It returns a row per position, and a column per frequency.
        columns: The column of each pair. If the rows and columns of an image share the frequencies,
            the pairs that follow its rows have the columns 0, 2, 4, …
    """

    angles_of: AngleFunction
    columns: range


class RecipeWaves(NamedTuple):
    """The waves of a scheme as a recipe computes them.

    Attributes:
        angle_functions: Yields the functions that compute the angles of the pairs, in the order of
            the pairs. It is called when the first rows are filled.
        axes: The axis of positions that each pair follows.
        amplitude: The factor of cos and sin.
        scale: The factor of positions.
        in_turns: True if positions are turns: angles are 2π times position and frequency.
    """

    angle_functions: Callable[[], Iterator[PairAngles]]
    axes: Sequence[int]
    amplitude: float
    scale: float
    in_turns: bool


class PairBand(NamedTuple):
    """Neighbouring pairs of channels that follow one axis of positions.

    Attributes:
        angles_of: Returns the angles of positions, a column per frequency.
        axis: The axis of positions.
        angle_columns: The columns of these pairs among those that `angles_of` returns.
        pairs: Their numbers among all pairs.
    """

    angles_of: AngleFunction
    axis: int
    angle_columns: slice
    pairs: range


class RecipeFiller:
    """Fills rows of cos and sin by a recipe, at consecutive positions or at coordinates."""

    def __init__(
        self, waves: RecipeWaves, recipe: PrecisionRecipe, coordinates: Coordinates | None
    ) -> None:
        """Prepare to fill tables; nothing is computed before the first `fill`.

        Args:
            waves: The waves.
            recipe: The dtypes to which each step of the computation is rounded.
            coordinates: The positions of the rows; None for consecutive positions.
        """
        self._waves = waves
        self._recipe = recipe
        self._amplitude = np.float32(waves.amplitude)
        self._scale = np.float32(waves.scale)
        self._coordinates = coordinates
        # For each axis, the different positions of the rows.
        self._distinct_positions: list[Floats] = []
        if coordinates is not None:
            # Positions that are turns are multiplied by 2π, as 1.5 turns are 9.42 radians.
            radians_per_unit = 2 * np.pi if waves.in_turns else 1.0
            for axis_positions in coordinates.values:
                plain_positions = np.array([float(position) for position in axis_positions])
                self._distinct_positions.append(plain_positions * radians_per_unit)

    @property
    def accepts_scattered_positions(self) -> bool:
        """Return True if `fill` accepts an array of positions instead of the first one."""
        return self._coordinates is None

    @cached_property
    def _bands(self) -> list[PairBand]:
        """All pairs of channels, in bands: neighbouring pairs that follow one axis of positions.

        If five pairs follow the axes 0 0 1 1 1, the bands are pairs 0–1 and pairs 2–4.
        """
        bands: list[PairBand] = []
        first_pair = 0
        # One function computes the angles of all pairs, or there is one per axis, each for the pairs
        # that come next.
        for pair_angles in self._all_pair_angles():
            end_pair = first_pair + len(pair_angles.columns)
            axes_of_pairs = self._waves.axes[first_pair:end_pair]
            bands += _divided_by_axis(pair_angles, axes_of_pairs, first_pair)
            first_pair = end_pair
        return bands

    def _all_pair_angles(self) -> list[PairAngles]:
        """Return the functions that compute angles, in the order of the pairs.

        Making them computes float32 frequencies. A runtime may divide these by factors such as
        1e39, which are infinite in float32: that is no reason for a warning.
        """
        with np.errstate(all="ignore"):
            return list(self._waves.angle_functions())

    def fill(self, functions: str, first: int | Indices, out: Array, dtype: str) -> None:
        """Write the rows of positions first, first + 1, …, or of an array of positions, into `out`.

        Args:
            functions: `cos`, `sin`, or both in the order of the columns: `cos,sin`.
            first: the first position, or all positions; with coordinates, the first row.
            out: one column per pair and function.
            dtype: the dtype of the numbers.
        """
        names = functions.split(",")
        positions = self._positions(first, len(out))
        for band in self._bands:
            float32_positions = positions[band.axis].astype(np.float32)
            band_positions = rounded(float32_positions, self._recipe.position_dtype)
            self._fill_band(band, names, band_positions, out, dtype)

    def _positions(self, first: int | Indices, count: int) -> Sequence[Indices | Floats]:
        """Return the positions of `count` rows: an array (count,) for each axis of positions.

        Consecutive positions have one axis, and the points of an image two, its rows and columns.

        Args:
            first: The first position, or an array of all positions. With coordinates, the number
                of the first row.
            count: The number of rows.
        """
        if self._coordinates is not None:
            return self._positions_of_rows(self._coordinates, int(first), count)
        if isinstance(first, int):
            return [np.arange(first, first + count, dtype=np.int64)]
        return [first]

    def _positions_of_rows(
        self, coordinates: Coordinates, first_row: int, count: int
    ) -> list[Floats]:
        """Return the positions of some rows that have coordinates: an array (count,) for each axis.

        Each axis has a list of its different positions, and each row the index of its position
        there. The rows of a grid of 2 × 2 have the indices 0 0 1 1 on one axis and 0 1 0 1 on the
        other, in the lists 0 1 and 0 1.
        """
        indices_by_axis = coordinates.index(first_row, first_row + count)  # (axes, count)
        axes = zip(self._distinct_positions, indices_by_axis, strict=True)
        return [distinct_positions[indices] for distinct_positions, indices in axes]

    def _fill_band(
        self, band: PairBand, functions: list[str], positions: Singles, out: Array, dtype: str
    ) -> None:
        """Write cos and sin of neighbouring pairs into their columns of `out`: a row per position.

        Distant positions may round to one number, whose row is computed only once: in bfloat16,
        1024 and 1025 are both 1024.
        """
        columns_per_pair = len(functions)
        columns = out[:, band.pairs.start * columns_per_pair : band.pairs.stop * columns_per_pair]
        distinct_positions, index_of_row = np.unique(positions, return_inverse=True)
        have_many_copies = 2 * len(distinct_positions) < len(out)
        if not have_many_copies:
            self._fill_columns(band, functions, positions, columns, dtype)
            return
        distinct_rows = np.empty((len(distinct_positions), columns.shape[1]), out.dtype)
        self._fill_columns(band, functions, distinct_positions, distinct_rows, dtype)
        columns[...] = distinct_rows[index_of_row.reshape(-1)]

    def _fill_columns(
        self, band: PairBand, functions: list[str], positions: Singles, out: Array, dtype: str
    ) -> None:
        """Fill the columns `out` of a band, some rows at a time."""
        step = max(1, _CHUNK // max(1, len(band.pairs)))
        for start in range(0, len(out), step):
            chunk = out[start : start + step]
            self._fill_chunk(band, functions, positions[start : start + step], chunk, dtype)

    def _fill_chunk(
        self, band: PairBand, functions: list[str], positions: Singles, out: Array, dtype: str
    ) -> None:
        """Write cos and sin of neighbouring pairs at some positions into `out`.

        They are computed in float32, rounded to the dtype in which the imitated program stores its
        table, such as bfloat16, and then written in the dtype of `out`.

        Args:
            band: The pairs, and how their angles are computed.
            functions: `cos`, `sin` or both, in the order of the columns of a pair.
            positions: The positions (n,), rounded already.
            out: The columns of the pairs: (n, pairs · functions), or one less with an odd dim.
            dtype: The dtype of `out`.
        """
        waves = np.empty((len(out), len(band.pairs), len(functions)), np.float32)
        self._write_waves(band, functions, positions, waves)
        columns = waves.reshape(len(out), -1)[:, : out.shape[1]]
        as_stored = as_dtype(columns, self._recipe.table_dtype or "float32")
        out[...] = as_dtype(as_stored, dtype)

    def _write_waves(
        self, band: PairBand, functions: list[str], positions: Singles, out: Singles
    ) -> None:
        """Write amplitude · cos and sin of position · scale · frequency, in float32.

        Angles are computed for positions without a sign, so that they are rounded alike on both
        sides of 0. Then the sines of negative positions are negated.

        Args:
            band: The pairs, and how their angles are computed.
            functions: `cos`, `sin` or both.
            positions: The positions (n,).
            out: The array for the result (n, pairs, functions).
        """
        scaled_positions = np.abs(positions)[:, None] * self._scale  # (n, 1)
        all_angles = band.angles_of(scaled_positions)  # also of other pairs of the same function
        angles = all_angles[:, band.angle_columns]  # (n, pairs)
        write_waves(rounded(angles, self._recipe.product_dtype), functions, out)
        is_negative = np.signbit(positions)
        if is_negative.any() and "sin" in functions:
            out[is_negative, :, functions.index("sin")] *= -1
        out *= self._amplitude


def _divided_by_axis(
    pair_angles: PairAngles, axes_of_pairs: Sequence[int], first_pair: int
) -> Iterator[PairBand]:
    """Yield some pairs of channels in bands: neighbouring pairs that follow one axis of positions.

    If pairs 8 … 12 follow the axes 0 0 1 1 1, the bands are pairs 8–9 and pairs 10–12.

    Args:
        pair_angles: The function that computes the angles of these pairs, and the column of its
            result that each pair has.
        axes_of_pairs: The axis that each pair follows.
        first_pair: The number of the first pair.
    """
    start = 0  # counted from the first pair
    for axis, axes_of_band in groupby(axes_of_pairs):
        stop = start + len([*axes_of_band])
        columns = pair_angles.columns[start:stop]  # a range
        yield PairBand(
            angles_of=pair_angles.angles_of,
            axis=axis,
            angle_columns=slice(columns.start, columns.stop, columns.step),
            pairs=range(first_pair + start, first_pair + stop),
        )
        start = stop


class CastFiller:
    """Fills rows with the exact values, rounded to another dtype on the way."""

    def __init__(self, exact: ExactFiller | AxisFiller, through: str) -> None:
        """Take the object that makes the exact values, and the dtype they are rounded to first."""
        self._exact = exact
        self._through = through

    def fill(self, functions: str, first: int, out: Array, dtype: str) -> None:
        """Write the rows of positions first, first + 1, … into `out`."""
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(functions, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)


Filler = ExactFiller | AxisFiller | RecipeFiller | CastFiller
"""Objects that fill tables of cos and sin."""


def fills_scattered_rows(filler: Filler) -> bool:
    """Return True if `fill` accepts an array of positions, such as 5 and 9000, not only the first.

    A recipe computes every position by itself. The others compute consecutive ones, which is faster
    together.
    """
    return isinstance(filler, RecipeFiller) and filler.accepts_scattered_positions
