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
from pecli.engine.runtimes.runtime import Phases, recurrence
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.schemes.recipes import PrecisionRecipe

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 16
"""Elements that are computed at once: few enough for the cache, many enough for threads."""
_RATIO_BITS = 128
"""Fractional bits of a ratio of frequencies, before it is rounded to float32."""


def geometric_phases(
    recipe: PrecisionRecipe,
    base: float,
    denominator: Fraction,
    count: int,
    frequencies_of_powers: Callable[[Singles], Singles] = reciprocal,
    exact_frequencies: Callable[[], Frequencies] | None = None,
) -> Phases:
    """Return a function from positions to angles, computed in float32 as a recipe does it.

    A recipe is a precision to imitate. Usual code computes the powers base^(i/denominator), takes
    their reciprocals as frequencies, which a recipe may round to float16, and multiplies positions
    by them. One recipe imitates ggml instead: the angle of each pair is that of the pair before
    times a constant ratio (a recurrence), which adds up errors.

    Args:
        recipe: the dtype of the frequencies, and whether angles are a recurrence.
        base: the base of the powers.
        denominator: half the dimension, in most schemes.
        count: the number of frequencies.
        frequencies_of_powers: returns the frequencies of float32 powers, 1 / power unless a scaling
            changes them. The recurrence has no powers, and does not call it.
        exact_frequencies: returns the frequencies of a scaling that changes each of them
            differently; None without one. Only the recurrence calls it: it divides the angles of
            each pair by as much as the scaling divides the frequency, as ggml does.
    """
    if recipe.recurrence:
        return _recurrent_phases(base, denominator, count, exact_frequencies)
    powers = _float32_powers(base, denominator, range(count))
    frequencies = frequencies_of_powers(np.array(powers, np.float32))
    return multiples_of(rounded(frequencies, recipe.frequency_dtype))


def multiples_of(frequencies: Singles) -> Phases:
    """Return the function from positions (n, 1) to angles position · frequency, (n, pairs)."""
    return partial(np.multiply, frequencies)


def _recurrent_phases(
    base: float,
    denominator: Fraction,
    count: int,
    exact_frequencies: Callable[[], Frequencies] | None,
) -> Phases:
    """Return a function from positions to angles, each of which is the one before times a ratio.

    With the ratio base^(−1/denominator) = 1/10, position 500 has the angles 500, 50, 5, … The
    arguments are those of `geometric_phases`.
    """
    divisors = None
    if exact_frequencies is not None:
        unscaled = numerics.geometric(base, denominator, count)
        divisors = _divisors_of_scaling(unscaled, exact_frequencies())
    (ratio_of_pairs,) = _float32_powers(base, denominator, [-1])
    return partial(recurrence, pairs=count, ratio=ratio_of_pairs, divisors=divisors)


def _float32_powers(base: float, denominator: Fraction, indices: Iterable[int]) -> list[float]:
    """Return base^(i/denominator) for some i; the base, each exponent and power are float32."""
    base_float32 = round_single(base)
    denominator_float32 = np.float32(float(denominator))
    powers = []
    for index in indices:
        exponent = np.float32(index) / denominator_float32
        powers.append(power(base_float32, float(exponent)))
    return powers


def _divisors_of_scaling(before: Frequencies, after: Frequencies) -> Singles:
    """Return by which number a scaling divides the frequency of each pair, in float32.

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


class RecipeWaves(NamedTuple):
    """The waves of a scheme as a recipe computes them.

    Attributes:
        phases: Yields functions from positions to phases, each with the indices of those phases
            that the scheme has.
        axes: The axis of positions that each pair follows.
        amplitude: The factor of cos and sin.
        scale: The factor of positions.
        in_turns: True if positions are turns: angles are 2π times position and frequency.
    """

    phases: Callable[[], Iterator[tuple[Phases, range]]]
    axes: Sequence[int]
    amplitude: float
    scale: float
    in_turns: bool


class PairBand(NamedTuple):
    """Neighbouring pairs of channels that follow one axis of positions.

    Attributes:
        phases: Returns the phases of positions, a column per frequency.
        axis: The axis of positions.
        phase_columns: The columns of the result of `phases` that belong to these pairs.
        pairs: Their numbers among all pairs.
    """

    phases: Phases
    axis: int
    phase_columns: slice
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

    @cached_property
    def _bands_of_pairs(self) -> list[PairBand]:
        """Split the pairs into bands: neighbouring pairs that follow one axis of positions.

        Interleaved M-RoPE has axes 0 1 2 0 1 2 …: every pair is a band. Sections 0 0 1 1 1 are two
        bands. A band does not extend over pairs whose phases another function computes.
        """
        # A runtime divides float32 numbers by factors such as 1e39, which are infinite there.
        with np.errstate(all="ignore"):
            phase_functions = [*self._waves.phases()]
        bands: list[PairBand] = []
        first_pair = 0
        for phases, columns_of_pairs in phase_functions:
            end_pair = first_pair + len(columns_of_pairs)
            axes = self._waves.axes[first_pair:end_pair]
            bands += _bands_of_function(phases, columns_of_pairs, axes, first_pair)
            first_pair = end_pair
        return bands

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
        for band in self._bands_of_pairs:
            float32_positions = positions[band.axis].astype(np.float32)
            band_positions = rounded(float32_positions, self._recipe.position_dtype)
            self._fill_band(band, names, band_positions, out, dtype)

    def _positions(self, first: int | Indices, count: int) -> Sequence[Indices | Floats]:
        """Return the positions of `count` rows: an array (count,) for each axis of positions.

        An image has two axes, and a table of consecutive positions has one.

        Args:
            first: The first row. Without coordinates, a row is a position, and an array of all
                positions may be given instead.
            count: The number of rows.
        """
        if self._coordinates is None:
            if isinstance(first, int):
                return [np.arange(first, first + count, dtype=np.int64)]
            return [first]
        # An axis stores each position only once: row 3 of a grid of 2 × 2 has the index 1 on both.
        start = int(first)
        indices_by_axis = self._coordinates.index(start, start + count)  # (axes, count)
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
        """Write cos and sin of a band of neighbouring pairs into some rows of its columns.

        They are computed in float32, rounded to the dtype that the recipe has for tables, and then
        to the dtype of `out`.

        Args:
            band: The pairs, and how their angles are computed.
            functions: `cos`, `sin` or both, in the order of the columns of a pair.
            positions: The positions (n,) of the rows, rounded already.
            out: The columns of these pairs in these rows: (n, pairs · functions). With an odd
                dimension, the last pair has no second column.
            dtype: The dtype of `out`.
        """
        shape = (len(out), len(band.pairs), len(functions))
        column_count = len(band.pairs) * len(functions)
        table_dtype = self._recipe.table_dtype or "float32"
        needs_no_rounding = table_dtype == dtype == "float32"
        has_all_columns = out.shape[1] == column_count
        if needs_no_rounding and has_all_columns and out.flags.c_contiguous:
            # `out` itself has the memory for the values, which saves a copy.
            table = out.reshape(shape).view(np.float32)  # the same dtype, for type checkers
            self._write_waves(band, functions, positions, table)
            return
        waves = np.empty(shape, np.float32)
        self._write_waves(band, functions, positions, waves)
        columns = waves.reshape(len(out), column_count)[:, : out.shape[1]]
        out[...] = as_dtype(as_dtype(columns, table_dtype), dtype)

    def _write_waves(
        self, band: PairBand, functions: list[str], positions: Singles, out: Singles
    ) -> None:
        """Write cos and sin of pairs at positions in float32: (n, pairs, functions).

        The angles of negative positions are those of the positive ones, so that they are rounded
        alike: the cosine is the same, and the sine is negated.
        """
        distances = np.abs(positions)[:, None] * self._scale  # (n, 1)
        angles = band.phases(distances)[:, band.phase_columns]  # (n, pairs)
        write_waves(rounded(angles, self._recipe.product_dtype), functions, out)
        is_negative = np.signbit(positions)
        if is_negative.any() and "sin" in functions:
            out[is_negative, :, functions.index("sin")] *= -1
        if self._amplitude != 1:
            out *= self._amplitude


def _bands_of_function(
    phases: Phases, indices: range, axes: Sequence[int], first_pair: int
) -> Iterator[PairBand]:
    """Yield the bands of the pairs whose phases one function computes.

    A band is neighbouring pairs on one axis. If pairs 8 … 12 follow the axes 0 0 1 1 1, the bands
    are the pairs 8 and 9 on axis 0, and 10, 11 and 12 on axis 1.

    Args:
        phases: The function from positions to phases.
        indices: The column of its result that each pair has.
        axes: The axis that each pair follows.
        first_pair: The number of the first pair.
    """
    start = 0
    for axis, pairs_of_axis in groupby(axes):
        stop = start + len([*pairs_of_axis])
        columns = indices[start:stop]
        yield PairBand(
            phases=phases,
            axis=axis,
            phase_columns=slice(columns.start, columns.stop, columns.step),
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
