"""Rotary tables: cosines and sines that rotate pairs of channels, and their frequencies."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.application import rotated
from pecli.engine.arrays import Array, ArrayLike, Complex, Indices, Singles
from pecli.engine.named_values import MutableValues
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.axis_tables import Coordinates, listed_coordinates, picked_rows
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.runtimes import runtime_named
from pecli.engine.runtimes.runtime import AngleFunction
from pecli.engine.scalings import PARAMETERS, SCALINGS, name_of
from pecli.engine.schemes.aliases import with_aliases
from pecli.engine.schemes.given_positions import whole_positions
from pecli.engine.schemes.recipe_tables import (
    Filler,
    PairAngles,
    divisors_between,
    fills_scattered_rows,
    float32_powers,
    multiples_of,
    recurrent_angles,
    rounded,
)
from pecli.engine.schemes.recipes import EXACT, PrecisionRecipe, recipe_named
from pecli.engine.schemes.rope_parameters import RotaryParameters
from pecli.engine.schemes.scheme import Axes, runtime_names
from pecli.engine.table import Table, stacked
from pecli.errors import ParameterError


class _Columns(NamedTuple):
    """The columns of a table in one layout.

    Attributes:
        name: what a column stands for, a pair or a channel.
        per_pair: the columns of each pair: 2 if every one is there twice.
        step: the columns from one pair to the next.
        rotates: the layout of the vectors that the table rotates.
    """

    name: str
    per_pair: int
    step: int
    rotates: str


_COLUMNS = {
    "compact": _Columns("pair", per_pair=1, step=1, rotates="halves"),
    "halves": _Columns("channel", per_pair=2, step=1, rotates="halves"),
    "interleaved": _Columns("channel", per_pair=2, step=2, rotates="interleaved"),
}


_NAMES_OF_ELEMENTS = {"inv_freq": "frequency", "axis": "axis", "cos": "cosine", "sin": "sine"}
"""The elements of each tensor, by its name, for pictures and messages."""


@with_aliases
@dataclass(frozen=True, repr=False)
class Rope(RotaryParameters):
    """Rotary position embedding (RoPE; Su et al., 2021, https://arxiv.org/abs/2104.09864).

    Pair i of channels is rotated by the angle position · base^(−2i/dim). The tensors are `cos` and
    `sin`, one row per position, `inv_freq`, one number per pair, and `axis` if positions have
    several axes.

    Args:
        seq_len: rows of the table: positions offset, offset + 1, … Not with `positions` or `grid`.
        dim: rotary dimension, an even number of channels; by default the sum of `axes`.
        base: base of the frequencies; `theta` is the same parameter.
        offset: position of the first row.
        layout: `compact` has one column per pair; `halves` repeats them as c0 c1 … c0 c1 …
            (GPT-NeoX, Hugging Face); `interleaved` as c0 c0 c1 c1 … (GPT-J, Meta).
        scaling: method that extends the context a model was trained on: none, linear, ntk, dynamic,
            yarn, longrope, llama3, proportional or ntk-fixed. The parameters up to `length` belong
            to scalings.
        factor: how many times longer the context becomes.
        original_max_position_embeddings: context that the model was trained on; `original_len` is
            the same.
        max_position_embeddings: context after scaling, as the model states it; `max_len` is the
            same.
        attention_factor: yarn, longrope: factor of cos and sin, by default computed from `factor`.
        beta_fast: yarn: pairs that turn more often than this within the original context keep their
            frequency (32).
        beta_slow: yarn: pairs that turn less often than this are slowed by the whole factor (1).
        truncate: yarn: round the limits of the ramp between them to whole pairs (true).
        mscale: yarn: scales the attention factor, as in DeepSeek.
        mscale_all_dim: yarn: divides the attention factor, as in DeepSeek.
        low_freq_factor: llama3: pairs that turn less often than this are slowed by the whole
            factor.
        high_freq_factor: llama3: pairs that turn more often than this keep their frequency.
        short_factor: longrope: a divisor per pair, for lengths up to the original one.
        long_factor: longrope: a divisor per pair, for longer ones.
        length: dynamic, longrope: length at which they are evaluated, by default the end of the
            table.
        partial_rotary_factor: share of `dim` that is rotary, such as 0.25 in GPT-NeoX.
        mrope_section: M-RoPE: how many pairs follow each axis of positions (time, height, width).
        mrope_interleaved: M-RoPE: the sections take turns, as in Qwen3-VL, instead of following
            each other.
        positions: a row for each of these numbers, (L,), or (axes, L) for several axes.
        grid: a row for each point of a grid, (H, W) or (T, H, W), row-major; needs a `style` or
            `axes`.
        keep: extra rows for tokens beside the grid, such as CLS.
        grid_base: points from which the axes of the grid are resampled: one number, or one per
            axis.
        grid_scale: numbers that divide the positions of the grid's axes: one, or one per axis.
        style: project whose conventions the grid follows, such as flux, wan, qwen2-vl or pixtral.
        axes: channels that each axis of positions rotates.
        axis_factors: an NTK factor per axis, which stretches its base.
        inv_freq: frequencies of your own, in radians per position, one per pair; `dim` is then
            twice their number, and no base, scaling, axes or runtime may be given.
        runtime: the table that this runtime computes; `length` is then its served context.
        recipe: precision recipe that is emulated, such as float32 or bfloat16-autocast; exact
            rounds once.
        dtype: type of the numbers in the tables: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter, or parameters contradict each
        other.

    >>> rope = Rope(seq_len=4, dim=8, theta=500000)
    >>> sorted(rope.tables())
    ['cos', 'inv_freq', 'sin']
    >>> rope.tables()["cos"].shape
    (4, 4)
    >>> Rope(seq_len=4, dim=8, scaling="linear", factor=2).inverse_frequencies()[0]
    0.5
    """

    name = "rope"
    applied_as = "rotation"
    derived_tensors = frozenset({"inv_freq", "axis"})

    @property
    def _columns(self) -> "_Columns":
        return _COLUMNS[self.layout]

    def frequencies(self) -> Frequencies:
        """Return the exact frequencies of all pairs, in radians per position, after scaling."""
        if self.axis_blocks:
            return super().frequencies()
        scaled = self.scaling_value.frequencies(self.base, self.exponent_dim)
        rotating = scaled.values[: self.rotating_pairs]
        # Pairs beyond the rotating ones have the frequency 0, and stay as they are.
        still = (0,) * (len(scaled.values) - len(rotating))
        return Frequencies((*rotating, *still), scaled.bits)

    def attention_factor_value(self) -> float:
        return self.scaling_value.attention_value

    @property
    def _amplitude(self) -> float:
        return self.attention_factor_value()

    def waves(self, unit: Fraction = Fraction(1)) -> ExactWaves:
        """Return the exact frequencies of the rotating pairs, for positions that count units.

        With the unit 1/2, the position 1.5 is 3 units, and frequencies are half as large. The
        amplitude is the attention factor, by which a scaling multiplies cosines and sines.
        """
        if self.axis_blocks:
            rotating = self._block_frequencies()
        else:
            rotating = self.frequencies().take(range(self.rotating_pairs))
        amplitude = self.scaling_value.exact_attention or self.scaling_value.attention
        return ExactWaves.from_frequencies(
            rotating, scale=unit, amplitude=amplitude, in_turns=self._in_turns
        )

    def _angle_functions(self, recipe: PrecisionRecipe) -> Iterator[PairAngles]:
        """Yield the functions that compute the angles of the pairs, in the order of the pairs.

        There is one function for all pairs, unless each axis of positions, such as the rows and the
        columns of an image, has frequencies of its own: then there is one per axis.

        Args:
            recipe: The precision to imitate; it may round frequencies, positions and angles.
        """
        if self.axis_blocks:  # one per axis
            yield from super()._angle_functions(recipe)
        else:
            angles_of = self._angles_of_all_pairs(recipe)
            yield PairAngles(angles_of, columns=range(self.rotating_pairs))

    def _angles_of_all_pairs(self, recipe: PrecisionRecipe) -> AngleFunction:
        """Return a function from positions to angles, as a runtime or a recipe computes them.

        A runtime such as llama.cpp computes them in float32, in steps of its own. A recipe only
        imitates a precision, in the steps that transformers takes.
        """
        if self.runtime == "none":
            return self._angles_by_recipe(recipe)
        runtime = runtime_named(self.runtime)
        return runtime.angle_function(self._definition(self.scaling_value))

    def _angles_by_recipe(self, recipe: PrecisionRecipe) -> AngleFunction:
        """Return a function from positions to angles in float32, with the roundings of a recipe.

        A recipe imitates one of two programs. In transformers, pair i has the frequency
        base^(−2i/dim). ggml multiplies the angle by base^(−2/dim) from pair to pair.

        A scaling stretches the context by a larger base (NTK) or other frequencies (YaRN).
        """
        scaling = self.scaling_value
        dim = self.exponent_dim
        half_dim = Fraction(dim, 2)
        pairs = self.rotating_pairs
        scaled_base = scaling.float32_base(self.base, dim)
        imitates_ggml = recipe.recurrence
        if imitates_ggml:
            divisors = self._divisors_of_scaling(scaled_base, half_dim)
            return recurrent_angles(scaled_base, half_dim, pairs, divisors)
        powers = float32_powers(scaled_base, half_dim, range(pairs))  # base^(2i/dim)
        frequencies = scaling.float32_frequencies(
            powers, self.base, dim
        )  # their reciprocals, scaled
        return multiples_of(rounded(frequencies, recipe.frequency_dtype))

    def _divisors_of_scaling(self, base: float, half_dim: Fraction) -> Singles | None:
        """Return the number by which the scaling divides each of the frequencies base^(−i/half_dim).

        It is None for a scaling that changes only the base: `base` is the changed one.
        """
        if not self.scaling_value.per_frequency:
            return None
        unscaled_frequencies = numerics.geometric(base, half_dim, self.rotating_pairs)
        return divisors_between(unscaled_frequencies, self.frequencies())

    def computed_as(self, way: str) -> "Rope":
        """Return the scheme as a recipe (such as "float32") or a runtime ("vllm") computes it."""
        if way in runtime_names(type(self)):
            return replace(self, recipe="exact", runtime=way)
        # Without a runtime, a length is a parameter of the scaling, not a served context.
        length = self.length if "length" in SCALINGS[self.scaling].names() else None
        return replace(self, recipe=way, runtime="none", length=length)

    @property
    def _recipe(self) -> PrecisionRecipe:
        """Return the precision in which the tables are computed; runtimes compute in float32."""
        return recipe_named(self.recipe) if self.runtime == "none" else PrecisionRecipe()

    def at(self, position_ids: ArrayLike) -> dict[str, Array]:
        """Return cos and sin of positions, one column per frequency.

        Args:
            position_ids: whole numbers (L,), or (axes, L) if positions have several axes.

        >>> Rope(seq_len=1, dim=2, dtype="float64").at([0, 1])["cos"].round(4).tolist()
        [[1.0], [0.5403]]
        """
        return {table.name: table.read(0, table.rows) for table in tables_at(self, position_ids)}

    def _checked_ids(self, position_ids: ArrayLike) -> Indices:
        """Return position ids as an array (axes, L), or (1, L) if all axes have the same."""
        ids_by_axis = np.atleast_2d(whole_positions("position_ids", position_ids))
        axes = self.position_axes
        if ids_by_axis.ndim != 2 or len(ids_by_axis) not in (1, axes):
            rule = f"they must be of shape (L,) or ({axes}, L)"
            raise ParameterError("position_ids", f"of shape {ids_by_axis.shape}", rule)
        return ids_by_axis

    def inverse_frequencies(self) -> list[float]:
        """Return radians per position of every pair, rounded if a recipe or runtime rounds them."""
        if self._recipe.is_exact:
            return self.frequencies().floats()
        rotating = self._rounded_frequencies()
        not_rotating = [0.0] * (self.rotary_dim // 2 - len(rotating))
        return rotating + not_rotating

    def _rounded_frequencies(self) -> list[float]:
        """Return radians per position of the rotating pairs, as the recipe or runtime computes them.

        A recipe is a precision to imitate. The results are the angles at position 1. Some styles of
        grids have positions in turns of 2π.
        """
        position_one = np.ones((1, 1), np.float32)
        radians_per_unit = 2 * math.pi if self._in_turns else 1.0
        frequencies = []
        for angles_of, columns in self._angle_functions(self._recipe):
            (angles,) = angles_of(position_one)  # one row
            frequencies += [radians_per_unit * float(angles[column]) for column in columns]
        return frequencies

    def tensors(self) -> tuple[Table, ...]:
        """Return `cos`, `sin` and `inv_freq`, and `axis` if positions have several axes."""
        pairs = self.rotary_dim // 2
        tables = self._cos_sin()
        tables.append(_vector("inv_freq", "float64", self.inverse_frequencies, pairs))
        if self.position_axes > 1:
            tables.append(_vector("axis", "int32", lambda: self.pair_axes, pairs))
        return tuple(tables)

    def _cos_sin(self) -> list[Table]:
        """Return the tables `cos` and `sin`, whose rows are computed when they are read.

        They are (seq_len, d/2), or (seq_len, d) in a layout that has every column twice.
        """
        filler = self._row_filler(self._recipe)  # It computes the columns of rotating pairs.
        width = self.rotary_dim // 2 * self._columns.per_pair
        shape = (self.seq_len, width)
        tables = []
        for function in self._functions:  # "cos", "sin"
            fill_rows = partial(
                self._fill_rows, filler=filler, function=function, offset=self.offset
            )
            # Readers may pick scattered rows, such as 5 and 9000: all at once, if `fill_rows` can.
            table = Table(
                function, self.dtype, shape, fill_rows, gathers=fills_scattered_rows(filler)
            )
            tables.append(table)
        return tables

    def _fill_rows(
        self, start: Any, out: Array, *, filler: Filler, function: str, offset: int
    ) -> None:
        """Write rows of cos or sin into `out`: one column per pair, or every column twice.

        For 2 pairs, the layout `halves` has the columns c0 c1 c0 c1, and `interleaved` c0 c0 c1 c1.

        Args:
            start: The first row, or an array of row numbers.
            out: The rows to fill.
            filler: Computes the columns of the pairs that rotate.
            function: "cos" or "sin".
            offset: The position of row 0. It is 0 if positions are listed; the filler then takes
                rows.
        """
        columns, copies = self._columns_and_copies(out)
        rotating = columns[:, : self.rotating_pairs]
        not_rotating = columns[:, self.rotating_pairs :]
        filler.fill(function, offset + start, rotating, self.dtype)
        not_rotating[...] = 1 if function == "cos" else 0  # cos 0 and sin 0
        if copies is not None:
            copies[...] = columns

    def _columns_and_copies(self, out: Array) -> tuple[Array, Array | None]:
        """Return a column of `out` for each pair, and the columns for copies, if there are any.

        Both are views. In c0 c0 c1 c1, the copies are the columns 1 and 3; in c0 c1 c0 c1, 2 and 3.
        """
        pairs = self.rotary_dim // 2
        has_copies = out.shape[1] > pairs
        if not has_copies:
            return out, None
        has_copies_beside_originals = self._columns.step == 2
        if has_copies_beside_originals:
            return out[:, ::2], out[:, 1::2]
        return out[:, :pairs], out[:, pairs:]

    def single_array(self) -> Table:
        """Return cos and sin, one after the other: (2, seq_len, width)."""
        return stacked("cos_sin", self._cos_sin())

    def axes_of(self, tensor: str) -> Axes:
        """Return the names of a tensor's axes and of its elements, for pictures and messages.

        `cos` has the axes ("position", "pair") and the elements "cosine".
        """
        element = _NAMES_OF_ELEMENTS.get(tensor, "value")
        is_vector = tensor in self.derived_tensors  # `inv_freq` or `axis`
        if is_vector:
            return Axes(("pair",), value=element)
        names: tuple[str, ...] = ("position", self._columns.name)
        if tensor == "cos_sin":  # It has two parts, cosines and sines.
            names = ("part", *names)
        return Axes(names, self.offset, value=element, step=self._columns.step)

    def factors(self, positions: range | Indices) -> Complex:
        """Return the complex factors cos + i·sin that rotate rows, (n, d/2) in float64.

        Args:
            positions: a range, or whole numbers (n,) or (n, axes). If the scheme has positions or a
                grid, they are numbers of its rows.
        """
        if isinstance(positions, range):
            self._check_rows(positions.stop)
            coordinates = None if self.is_range else self.coordinates()
            return self._factors_at(coordinates, positions.start, len(positions))
        last_position = int(positions.max(initial=-1))
        self._check_rows(last_position + 1)
        return self._factors_at(self._coordinates_of(positions), 0, len(positions))

    def _factors_at(self, coordinates: Coordinates | None, first: int, count: int) -> Complex:
        """Return the factors cos + i·sin of rows first, first + 1, …, (count, d/2).

        Pairs that do not rotate have the factor 1.

        Args:
            coordinates: The position of each row on each axis; None if a row is a position.
            first: The first row.
            count: The number of rows.
        """
        recipe = self._recipe if rows_are_listed(self) else EXACT
        filler = self._filler(recipe, count, coordinates)
        factors = np.ones((count, self.rotary_dim // 2), np.complex128)
        # Complex numbers lie in memory as cos, sin, cos, sin, …, which are written as two columns.
        cos_sin_columns = factors.view(np.float64)
        rotating_columns = cos_sin_columns[:, : 2 * self.rotating_pairs]
        filler.fill("cos,sin", first, rotating_columns, "float64")
        return factors

    def _coordinates_of(self, positions: Indices) -> Coordinates:
        """Return the coordinates of some rows: the position of each row on each axis.

        Args:
            positions: (n,) or (n, axes); with a list or a grid, the numbers (n,) of its rows.
        """
        if not self.is_range:
            return picked_rows(self.coordinates(), positions)
        positions_by_axis = positions.reshape(len(positions), -1).T  # (axes, n)
        return listed_coordinates(positions_by_axis.tolist())

    def applied_to(self, x: ArrayLike) -> Array:
        """Return x (…, seq_len, D) rotated; compact tables rotate the pairs (i, i + d/2)."""
        factors = self.factors(range(self.offset, self.offset + self.seq_len))
        return rotated(x, factors, self._columns.rotates)


def tables_at(rope: Rope, position_ids: ArrayLike) -> list[Table]:
    """Return the tables of cos and sin at some positions, computed when their rows are read.

    Args:
        position_ids: whole numbers (L,), or (axes, L) if positions have several axes.
    """
    coordinates = listed_coordinates(rope._checked_ids(position_ids).tolist())
    filler = rope._filler(rope._recipe, rows=0, coordinates=coordinates)
    shape = (coordinates.rows, rope.rotary_dim // 2)
    tables = []
    for function in rope._functions:
        fill = partial(rope._fill_rows, filler=filler, function=function, offset=0)
        tables.append(Table(function, rope.dtype, shape, fill))
    return tables


def as_read_by_runtime(rope: Rope) -> Rope:
    """Return a rope without its runtime, and with the scaling that the runtime reads.

    SGLang reads dynamic NTK as NTK with a constant factor, for example: the result has that. It is
    computed exactly, without the roundings of the runtime. A rope whose runtime no single scaling
    describes, because it changes with the position, is returned as it is.
    """
    if rope.runtime_reading.by_position:
        return rope
    scaling = rope.scaling_value  # as the runtime reads it
    parameters: MutableValues = dict.fromkeys(PARAMETERS)
    parameters.update(vars(scaling))
    parameters["scaling"] = name_of(scaling)
    return replace(rope, **parameters, runtime="none")


def rows_are_listed(rope: Rope) -> bool:
    """Return True if the factors that rotate are the numbers of the scheme's tables, row by row.

    That is so for a list of positions or a grid, and for a recipe that rounds. Otherwise factors can
    be computed at any position.
    """
    return not rope.is_range or not rope._recipe.is_exact


def _vector(name: str, dtype: str, values: Callable[[], list[Any]], count: int) -> Table:
    """Return a table of one axis whose numbers are computed when they are needed."""

    def fill(start: int, out: Array) -> None:
        out[:, 0] = values()[start : start + len(out)]

    return Table(name, dtype, (count,), fill)
