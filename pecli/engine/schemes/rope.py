"""Rotary tables: the cosines and sines by which pairs of channels are rotated, and their inverse frequencies."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pecli.engine.application import rotated
from pecli.engine.arrays import Array, ArrayLike, Complex, Indices, numpy_dtype
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.axis_tables import listed_coordinates
from pecli.engine.numerics.phases import Waves
from pecli.engine.runtimes import runtime_named
from pecli.engine.runtimes.runtime import Phases
from pecli.engine.scalings import SCALINGS, name_of
from pecli.engine.schemes import EXACT, Recipe, recipe_named, with_aliases
from pecli.engine.schemes.given_positions import whole_positions
from pecli.engine.schemes.recipe_tables import Filler, RecipeFiller, geometric_phases
from pecli.engine.schemes.rope_parameters import RotaryParameters
from pecli.engine.schemes.scheme import Axes
from pecli.engine.table import Table, stacked
from pecli.errors import ParameterError

USUAL_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)
"""Factors of scalings that models have: one is easily taken for another."""


@with_aliases
@dataclass(frozen=True, repr=False)
class Rope(RotaryParameters):
    """Rotary position embedding (Su et al., 2021): angle = position · base^(−2i/dim).

    >>> sorted(Rope(seq_len=4, dim=8).tables())
    ['cos', 'inv_freq', 'sin']
    """

    name = "rope"
    applied_as = "rotation"
    derived_tensors = frozenset({"inv_freq", "axis"})

    def frequencies(self) -> Frequencies:
        if self.axis_blocks:
            return super().frequencies()
        every, count = (
            self.scaling_value.frequencies(self.base, self.exponent_dim),
            self.rotating_pairs,
        )
        return Frequencies((*every.values[:count], *[0] * (len(every.values) - count)), every.bits)

    def attention_factor_value(self) -> float:
        """What cos and sin are multiplied by, as float64."""
        return self.scaling_value.attention_value

    amplitude_value = property(attention_factor_value)

    def waves(self, unit: Fraction = Fraction(1)) -> Waves:
        rotating = (
            self.block_frequencies()
            if self.axis_blocks
            else self.frequencies().take(range(self.rotating_pairs))
        )
        amplitude = self.scaling_value.exact_attention or self.scaling_value.attention
        return Waves.of(rotating, scale=unit, amplitude=amplitude, in_turns=self.in_turns)

    def recipe_phases(self, recipe: Recipe) -> Iterator[tuple[Phases, range]]:
        if self.axis_blocks:
            yield from super().recipe_phases(recipe)
            return
        scaling, d, every = self.scaling_value, self.exponent_dim, range(self.rotating_pairs)
        if self.runtime != "none":
            yield runtime_named(self.runtime).phases(self._given(scaling)), every
            return
        steps = partial(scaling.float32_steps, base=self.base, dim=d)
        scaled = self.frequencies if scaling.per_frequency else None
        base = scaling.float32_base(self.base, d)
        yield geometric_phases(recipe, base, Fraction(d, 2), len(every), steps, scaled), every

    def computed_as(self, way: str) -> "Rope":
        if way in self.runtime_names():
            return replace(self, recipe="exact", runtime=way)
        length = self.length if "length" in SCALINGS[self.scaling].names() else None
        return replace(self, recipe=way, runtime="none", length=length)

    def as_read(self) -> "Rope":
        """What the runtime makes of the parameters, computed exactly where a scaling can say it."""
        if self.runtime != "none" and self.runtime_reading.by_position:
            return self
        scaling = self.scaling_value
        parameters = {
            **dict.fromkeys(self.scaling_parameters()),
            **vars(scaling),
            "scaling": name_of(scaling),
        }
        return replace(self, **parameters, runtime="none")

    @property
    def _recipe(self) -> Recipe:
        return recipe_named(self.recipe) if self.runtime == "none" else Recipe()

    def at(self, position_ids: ArrayLike) -> dict[str, Array]:
        """cos and sin, one column per frequency, of positions (L,), or (axes, L) where there are sections."""
        ids, count = (
            np.atleast_2d(whole_positions("position_ids", position_ids)),
            self.position_axes,
        )
        if ids.ndim != 2 or len(ids) not in (1, count):
            rule = f"they must be of shape (L,) or ({count}, L)"
            raise ParameterError("position_ids", f"of shape {ids.shape}", rule)
        filler = self.filler(self._recipe, 0, listed_coordinates(ids.tolist()))
        tables = {
            part: np.empty((ids.shape[1], self.rotary_dim // 2), numpy_dtype(self.dtype))
            for part in self.parts
        }
        for part, table in tables.items():
            self._fill(filler, part, 0, 0, table)
        return tables

    def inverse_frequencies(self) -> list[float]:
        """As float64; where a recipe rounds them, as rounded."""
        if self._recipe.is_exact:
            return self.frequencies().floats()
        turn = 2 * math.pi if self.in_turns else 1.0
        one = np.ones((1, 1), np.float32)
        parts = [(phases(one)[0], indices) for phases, indices in self.recipe_phases(self._recipe)]
        rotating = [turn * float(inv_freq[k]) for inv_freq, indices in parts for k in indices]
        return rotating + [0.0] * (self.rotary_dim // 2 - len(rotating))

    def tensors(self) -> tuple[Table, ...]:
        inv_freq = _vector("inv_freq", "float64", self.inverse_frequencies, self.rotary_dim // 2)
        axis = _vector("axis", "int32", lambda: self.pair_axes, self.rotary_dim // 2)
        return *self._cos_sin(), inv_freq, *([axis] if self.position_axes > 1 else [])

    def _cos_sin(self) -> list[Table]:
        filler = self.row_filler(self._recipe)
        shape = self.seq_len, self.rotary_dim // (2 if self.layout == "compact" else 1)
        gathers = isinstance(filler, RecipeFiller) and self.is_range
        fills = {part: partial(self._fill, filler, part, self.offset) for part in self.parts}
        return [Table(part, self.dtype, shape, fill, gathers) for part, fill in fills.items()]

    def _fill(self, filler: Filler, part: str, offset: int, start: Any, out: Array) -> None:
        """Pairs that rotate, those whose angle is 0, and the copies of both, if the array has room for them."""
        pairs, rotating = self.rotary_dim // 2, self.rotating_pairs
        single, copies = out[:, :pairs], out[:, pairs:]
        if copies.size and self.layout == "interleaved":
            single, copies = out[:, ::2], out[:, 1::2]
        filler.fill(part, offset + start, single[:, :rotating], self.dtype)
        single[:, rotating:] = 1 if part == "cos" else 0
        copies[...] = single[:, : copies.shape[1]]

    def single_array(self) -> Table:
        """cos and sin, one after the other: (2, seq_len, width)."""
        return stacked("cos_sin", self._cos_sin())

    def axes_of(self, tensor: str) -> Axes:
        if tensor in ("inv_freq", "axis"):
            return Axes(("pair",), value="frequency" if tensor == "inv_freq" else "axis")
        column = "pair" if self.layout == "compact" else "channel"
        stack = ("part",) if tensor == "cos_sin" else ()
        value = {"cos": "cosine", "sin": "sine"}.get(tensor, "value")
        return Axes(
            (*stack, "position", column),
            self.offset,
            value,
            2 if self.layout == "interleaved" else 1,
        )

    @property
    def rows_are_listed(self) -> bool:
        """Whether rows are rotated by the numbers of its tables: positions are listed, or a recipe computes them."""
        return not (self.is_range and self._recipe.is_exact)

    def factors(self, positions: range | Indices) -> Complex:
        """What rotates rows at these positions, (n,) or (n, axes), in float64; where rows are listed, these rows."""
        if isinstance(positions, range):
            first, stop, coordinates = (
                positions.start,
                positions.stop,
                None if self.is_range else self.coordinates(),
            )
        else:
            first, stop = 0, int(positions.max(initial=-1)) + 1
            coordinates = listed_coordinates(positions.reshape(len(positions), -1).T.tolist())
            if not self.is_range:
                own = self.coordinates()
                index = own.index(0, own.rows)[:, positions]
                coordinates = replace(
                    own, rows=len(positions), index=lambda start, stop: index[:, start:stop]
                )
        self.check_rows(stop)
        factors = np.ones((len(positions), self.rotary_dim // 2), np.complex128)
        pairs = factors.view(np.float64)[:, : 2 * self.rotating_pairs]
        recipe = self._recipe if self.rows_are_listed else EXACT
        self.filler(recipe, len(positions), coordinates).fill("cos,sin", first, pairs, "float64")
        return factors

    def applied_to(self, x: ArrayLike) -> Array:
        """x (…, seq_len, D), its first channels rotated; compact tables are of pairs (i, i + d/2)."""
        factors = self.factors(range(self.offset, self.offset + self.seq_len))
        return rotated(x, factors, "interleaved" if self.layout == "interleaved" else "halves")


def _vector(name: str, dtype: str, values: Callable[[], list[Any]], count: int) -> Table:
    def fill(start: int, out: Array) -> None:
        out[:, 0] = values()[start : start + len(out)]

    return Table(name, dtype, (count,), fill)
