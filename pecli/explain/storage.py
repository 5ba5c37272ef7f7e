"""Ways in which files hold numbers, and how far a stored number may be from the one that was stored.

A storage is a grid of numbers: those of a dtype, multiples of a step, decimals. Data lie on many grids at once (every
multiple of 1/256 up to 1 is also a bfloat16 number), so each grid that holds them is a hypothesis of its own.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Decimals, Dtype, Edit, FixedPoint, RoundingMode
from pecli.explain.words import grid_words

SIGNIFICANT_BITS = {
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
    "bfloat16": 8,
    "float16": 11,
    "float32": 24,
    "float64": 53,
}
"""Bits of a significand, the leading one included."""

SMALLEST_EXPONENT = {
    "float8_e4m3fn": -5,
    "float8_e5m2": -13,
    "bfloat16": -125,
    "float16": -13,
    "float32": -125,
    "float64": -1021,
}
"""The exponent of the smallest normal number, as `np.frexp` counts it: 2^-14 of float16 is 0.5 · 2^-13."""

FLOAT32_RANGE = 1e38
"""Numbers below it do not overflow in float32."""

ON_GRID = 1e-5
"""Share of a step by which float32 numbers or nine printed digits may miss the grid that they lie on."""

MAX_STEP = 0.11
"""Coarsest step, as a share of the largest value: one decimal of numbers up to 1. Coarser grids explain anything."""

LEVELS = (127, 128, 255, 256, 64, 2**12, 2**14, 2**15 - 1, 2**15, 2**16)
"""Steps per unit of fixed-point formats that kernels use."""

MAX_LEVELS = 2**15
"""Steps from 0 to the largest value: integers of 16 bits with a sign have no more."""

MAX_DECIMALS = 7
SAMPLED = 4096
"""Values that are looked at to find the grids: enough to rule out a wrong one by chance."""


def half_ulp(values: Floats, dtype: str) -> Floats:
    """Return half the distance between neighbouring numbers of a dtype, at each value.

    >>> half_ulp(np.array([1.0, 0.3]), "bfloat16").tolist()
    [0.00390625, 0.0009765625]
    """
    exponent = np.maximum(np.frexp(values)[1], SMALLEST_EXPONENT[dtype])
    return np.asarray(np.ldexp(0.5, exponent - SIGNIFICANT_BITS[dtype]))


def rounded_to(values: Floats, dtype: str | None) -> Floats:
    """Return float64 values rounded to the nearest number of a dtype; its range is not limited.

    None stands for a step that is not rounded, and leaves values as they are.
    """
    if dtype is None:
        return values
    if dtype == "float32" and np.abs(values).max(initial=0.0) < FLOAT32_RANGE:
        return np.asarray(values, np.float32).astype(np.float64)  # The same in half the time.
    unit = 2.0 * half_ulp(values, dtype)
    return np.asarray(np.rint(values / unit) * unit)


class Storage(ABC):
    """The last step of making a table: a grid of numbers that a file or a dtype can hold."""

    @abstractmethod
    def rounded(self, values: Floats) -> Floats:
        """Return the grid's number nearest to each value."""

    @abstractmethod
    def half_unit(self, values: Floats) -> Floats:
        """Return how far each stored value may be from the number that was stored."""

    def middle(self, values: Floats) -> Floats:
        """Return the middle of the numbers that are stored as each value."""
        return values

    @property
    @abstractmethod
    def edit(self) -> Edit:
        """The numbers that the grid has, in the vocabulary of results."""

    def stored(self, values: Floats, dtype: str) -> Floats:
        """Return values as a file holds them: a grid of its own is coarser than the file's dtype."""
        return self.rounded(values)

    def holds(self, values: Floats) -> bool:
        """Return True if storing values once more would change none of them."""
        change = np.abs(self.rounded(values) - values)
        slack = ON_GRID * self.half_unit(values) + 2.0**-24 * np.abs(values)
        return bool((change <= slack).all())


@dataclass(frozen=True)
class Unrounded(Storage):
    """Numbers as they were computed, which nothing rounded."""

    def rounded(self, values: Floats) -> Floats:
        return values

    def half_unit(self, values: Floats) -> Floats:
        return np.zeros(np.shape(values))

    def stored(self, values: Floats, dtype: str) -> Floats:
        return rounded_to(values, dtype)

    @property
    def edit(self) -> Edit:
        return Dtype("float64")


UNROUNDED = Unrounded()


@dataclass(frozen=True)
class FloatStorage(Storage):
    """The numbers of a floating-point dtype."""

    dtype: str

    def holds(self, values: Floats) -> bool:
        """Return True if all values are numbers of the dtype.

        No slack is granted: half a ULP of float32 lies between any float64 number and one of float32.
        """
        return bool((self.rounded(values) == values).all())

    def rounded(self, values: Floats) -> Floats:
        return rounded_to(values, self.dtype)

    def half_unit(self, values: Floats) -> Floats:
        return half_ulp(values, self.dtype)

    @property
    def edit(self) -> Edit:
        return Dtype(self.dtype)


@dataclass(frozen=True)
class StepStorage(Storage):
    """Whole multiples of a step: decimals (10⁻ᵈ), or integers with a scale (1/127)."""

    step: float

    def rounded(self, values: Floats) -> Floats:
        return np.asarray(np.rint(values / self.step) * self.step)

    def half_unit(self, values: Floats) -> Floats:
        return np.full(np.shape(values), 0.5 * self.step)

    @property
    def edit(self) -> Edit:
        """Decimals if the step is a power of ten: 0.001 is three of them."""
        places = -math.log10(self.step)
        if math.isclose(places, round(places), rel_tol=1e-9, abs_tol=1e-9):
            return Decimals(round(places))
        return FixedPoint(self.step)


@dataclass(frozen=True)
class TruncatedStorage(Storage):
    """Numbers of a grid that were not rounded to nearest: C's casts round toward zero, its shifts round down."""

    grid: Storage
    mode: str  # toward zero, or down

    def rounded(self, values: Floats) -> Floats:
        """Return the grid's numbers toward zero or below: of one decimal, 0.3 for 0.38.

        The nearest is 0.4, which lies beyond 0.38 on the wrong side: it is moved by a unit.
        """
        direction = self._direction(values)  # −1 for 0.38
        nearest = self.grid.rounded(values)
        unit = 2 * self.grid.half_unit(nearest)
        is_on_wrong_side = (nearest - values) * direction < 0
        return np.where(is_on_wrong_side, nearest + direction * unit, nearest)

    def half_unit(self, values: Floats) -> Floats:
        """Return half a unit; a whole one at 0, to which numbers of both signs are cut off."""
        half = self.grid.half_unit(values)
        is_cut_off_from_both_sides = (values == 0) & (self.mode == "toward zero")
        return np.where(is_cut_off_from_both_sides, 2 * half, half)

    def middle(self, values: Floats) -> Floats:
        return np.asarray(values - self._direction(values) * self.grid.half_unit(values))

    @property
    def edit(self) -> Edit:
        return RoundingMode(self.mode, grid_words(self.grid.edit))

    def _direction(self, values: Floats) -> Floats:
        """Return the sign of the change by which each value was rounded."""
        return -np.sign(values) if self.mode == "toward zero" else np.full(np.shape(values), -1.0)


@dataclass(frozen=True)
class TwiceRounded(Storage):
    """bfloat16 numbers of float16 ones, which half a last place of either may move."""

    def rounded(self, values: Floats) -> Floats:
        return rounded_to(rounded_to(values, "float16"), "bfloat16")

    def half_unit(self, values: Floats) -> Floats:
        return half_ulp(values, "bfloat16") + half_ulp(values, "float16")

    @property
    def edit(self) -> Edit:
        return Dtype("bfloat16")


MODES = ("toward zero", "down")
"""Ways of rounding that are not to nearest."""


def decimals(digits: int) -> StepStorage:
    """Return the storage of text with so many decimals."""
    return StepStorage(10.0**-digits)


def storages_of(values: Floats, dtype: str) -> list[Storage]:
    """Return the coarser formats in which the values of a file may have been stored before.

    The float32 numbers 0.25, 0.5 and 0.75 may come from float8, from text with two decimals, and from
    multiples of 1/128. Of each of these three kinds, the coarsest format that can hold all values is
    returned.

    Args:
        values: The numbers of a table.
        dtype: The dtype in which the file holds them.
    """
    sample = _sample_of_finite(values)
    are_whole = bool((sample == np.rint(sample)).all())
    if are_whole:
        return []  # Nearly every format can hold whole numbers, also zeros only.
    storages: list[Storage] = []
    for coarsest_first in _coarser_storages_by_kind(dtype):
        storages += _first_that_holds(sample, coarsest_first)
    if not storages:  # They may be integers with a scale of their own, such as 0.0023.
        storages += _first_that_holds(sample, _scaled_integers(sample))
    return storages


def _sample_of_finite(values: Floats) -> Floats:
    """Return the finite values, or evenly spaced ones of them if there are many."""
    finite = values[np.isfinite(values)]
    stride = max(1, finite.size // SAMPLED)
    return np.asarray(finite[::stride])


def _coarser_storages_by_kind(dtype: str) -> Iterator[Sequence[Storage]]:
    """Yield all formats that are coarser than a dtype: first other dtypes, then decimals, then fractions of 1."""
    bits = SIGNIFICANT_BITS.get(dtype, SIGNIFICANT_BITS["float32"])
    yield [FloatStorage(name) for name in SIGNIFICANT_BITS if SIGNIFICANT_BITS[name] < bits]
    yield [decimals(digits) for digits in range(1, MAX_DECIMALS)]
    yield [StepStorage(1.0 / count) for count in LEVELS]


def _first_that_holds(values: Floats, storages: Sequence[Storage]) -> list[Storage]:
    """Return a list with the first format that can hold all values; an empty list if none can.

    Args:
        values: The numbers of a table.
        storages: Formats of one kind, in the order to try them.
    """
    # With steps of more than a tenth of the largest value, nearly any values could be explained.
    largest_step = MAX_STEP * float(np.abs(values).max())
    for storage in storages:
        is_too_coarse = isinstance(storage, StepStorage) and storage.step > largest_step
        if not is_too_coarse and storage.holds(values):
            return [storage]
    return []


def _scaled_integers(values: Floats) -> list[StepStorage]:
    """Return the step of which all values may be whole multiples; none if integers of 16 bits have fewer levels.

    Of 0, 0.1984 and 0.5952, the smallest difference is 0.1984: a third of the largest value.
    """
    sizes = np.unique(np.append(np.abs(values), 0.0))  # ascending, from 0 on
    largest = sizes[-1]
    smallest_difference = np.diff(sizes).min()
    levels = largest / smallest_difference
    if levels > MAX_LEVELS:
        return []
    # The largest value is the most precise one: a whole number of steps ends there.
    return [StepStorage(float(largest / np.rint(levels)))]
