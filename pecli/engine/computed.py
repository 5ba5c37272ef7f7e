"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have.

Of a scaled RoPE, the inverse frequencies after scaling are exact up to here, then rounded to float32 once; libraries
take a few float32 steps more, which may move a last bit. In the recurrence the phases are divided by how much the
scaling slows each frequency, as ggml does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine import fixed, frequencies
from pecli.engine.dtypes import numpy_dtype
from pecli.engine.frequencies import Frequencies
from pecli.engine.recipes import Recipe
from pecli.engine.rounding import as_dtype, round_fixed
from pecli.engine.singles import power, round_single, rounded, waves_of

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Places, Singles
    from pecli.engine.rotation import Rotation

_CHUNK = 1 << 13
"""Elements dealt with at once, so that intermediate arrays stay in the cache."""


@dataclass(frozen=True)
class Course:
    """What a recipe needs to know of a scheme: the frequencies base^(−i/denominator), and what else acts on them."""

    base: float
    denominator: Fraction
    count: int
    scale: float = 1.0
    amplitude: float = 1.0
    scaled: Callable[[], Frequencies] | None = None
    """The exact frequencies after scaling, where there is one."""


class Computed:
    """Makes rows of cos and sin tables by a recipe. Rows do not depend on each other, so blocks may be cut anyhow."""

    def __init__(self, recipe: Recipe, course: Course) -> None:
        self._recipe, self._course = recipe, course
        self._amplitude = np.float32(course.amplitude)

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`; see `Rotation.fill`."""
        self.fill_at(part, np.arange(first, first + len(out), dtype=np.int64), out, dtype)

    def fill_at(self, part: str, positions: Places, out: Array, dtype: str) -> None:
        """Write the given positions into the rows of `out`."""
        parts = part.split(",")
        step = max(1, _CHUNK // max(1, self._course.count))
        for start in range(0, len(out), step):
            angles = self.angles(positions[start : start + step])
            for k, single in enumerate(parts):
                target = out[start : start + step, k :: len(parts)]
                values = waves_of(angles[:, : target.shape[1]], sine=single == "sin")
                if self._amplitude != 1:
                    values *= self._amplitude
                target[...] = as_dtype(values, dtype)

    def at(self, part: str, positions: Places, axes: Places, dtype: str) -> Array:
        """The cos or sin of a few positions; see `Rotation.at`."""
        out = np.empty((positions.shape[1], len(axes)), numpy_dtype(dtype))
        whole = np.empty_like(out)
        for axis, places in enumerate(positions):
            self.fill_at(part, places, whole, dtype)
            out[:, axes == axis] = whole[:, axes == axis]
        return out

    def angles(self, positions: Places) -> Singles:
        """The phases, in float32: a row a position."""
        places = rounded(positions.astype(np.float32), self._recipe.positions)[:, None]
        if self._course.scale != 1:
            places = places * np.float32(self._course.scale)
        if not self._recipe.recurrence:
            return rounded(places * self.inv_freq, self._recipe.phases)
        found = np.full((len(places), self._course.count), self._ratio)
        found[:, :1] = places
        np.multiply.accumulate(found, axis=1, out=found)
        return found if self._slowing is None else found / self._slowing

    @cached_property
    def inv_freq(self) -> Singles:
        """What positions are multiplied by, in effect."""
        course = self._course
        if self._recipe.recurrence:
            steps = np.full(course.count, self._ratio)
            steps[:1] = 1
            np.multiply.accumulate(steps, out=steps)
            return steps if self._slowing is None else steps / self._slowing
        if course.scaled is not None:
            found = course.scaled()
            values = [round_fixed(value, found.bits, "float32") for value in found.values[: course.count]]
            return rounded(np.array(values, np.float32), self._recipe.inv_freq)
        exponents = np.arange(course.count, dtype=np.float32) / np.float32(float(course.denominator))
        base = round_single(course.base)
        powers = np.array([power(base, float(exponent)) for exponent in exponents], np.float32)
        return rounded(np.float32(1) / powers, self._recipe.inv_freq)

    @cached_property
    def _ratio(self) -> np.float32:
        """Of a frequency to the one before."""
        exponent = np.float32(-1) / np.float32(float(self._course.denominator))
        return np.float32(power(round_single(self._course.base), float(exponent)))

    @cached_property
    def _slowing(self) -> Singles | None:
        """How many times slower scaling makes each frequency."""
        course = self._course
        if course.scaled is None:
            return None
        before, after = frequencies.geometric(course.base, course.denominator, course.count), course.scaled()
        pairs = zip(before.values, after.values[: course.count], strict=True)
        ratios = [Fraction(old << after.bits, new << before.bits) for old, new in pairs]
        return np.array([round_fixed(fixed.fixed(ratio, 128), 128, "float32") for ratio in ratios], np.float32)


class Narrowed:
    """The exact values, rounded to a dtype on the way."""

    def __init__(self, exact: Rotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """See `Rotation.fill`."""
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)

    def at(self, part: str, positions: Places, axes: Places, dtype: str) -> Array:
        """See `Rotation.at`."""
        return as_dtype(self._exact.at(part, positions, axes, self._through), dtype)
