"""The ways in which programs lay out the cosines and sines of positions × frequencies, and how to read them all.

Behind every layout are one or two parts (positions, frequencies): cosines, sines or both; which, it does not say.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name, widened

ARRANGEMENTS: Mapping[str, tuple[str, str]] = {
    "alone": ("f", "{0}"),
    "halves": ("p f", "all {0}, then all {1}"),
    "interleaved": ("f p", "{0} and {1} interleaved"),
    "stacked": ("f", "the {0}, then the {1}"),
    "rows": ("f", "rows of {0}, then rows of {1}"),
    "pairs": ("f, p", "pairs of {0} and {1}"),
    "complex": ("f, p", "complex numbers"),
    "matrices": ("f, r, c", "2 × 2 rotation matrices"),
}
"""How the two functions lie beside each other. First the last axes of a tensor, slow factors first: frequencies f, the
two parts p, rows r and columns c of a matrix. Then the words, for the names of both."""

DOUBLINGS: Mapping[str, str] = {"": "", "halves": "c0 c1 … c0 c1 …", "interleaved": "c0 c0 c1 c1 …"}
"""How often each column of a part is there: once, or twice, in that order."""

DOUBLED_AXES: Mapping[str, str] = {
    "": "f",
    "halves": "d f",
    "interleaved": "f d",
}  # for f where each comes twice, d

STEPS: Mapping[str, tuple[int, ...]] = {
    "int8": (127, 128, 64),
    "uint8": (255, 128),
    "int16": (32767, 32768, 16384),
    "int32": (2**31 - 1, 2**31, 2**30),
}
"""By dtype, the integers that stand for 1 in quantised tables."""
MAX_SIGMAS = 7.5  # of the noise of doubled columns, by which one of them may differ from the other
MAX_WRONG = 0.2  # of the rows, that may be wrong in a table that is right otherwise
EMPTY = 1e-3  # of the largest value: below it, rows and columns are zeros but for noise
PartView = tuple[
    int, "AnyArray", bool
]  # which part, its values (copies…, positions, frequencies), whether negated
PLACES: Mapping[str, Sequence[tuple[int, int, tuple[int, ...]]]] = {
    "alone": ((0, 1, ()),),
    "both": ((0, 1, (0,)), (1, 1, (1,))),
    "matrices": ((0, 1, (0, 0)), (0, 1, (1, 1)), (1, 1, (1, 0)), (1, -1, (0, 1))),
}
"""Where the parts are: the number of the part, its sign, and the places along p, or along r and c."""


def stands_for_one(array: Array) -> int:
    """The integer that stands for 1, going by the largest; 0 where none does."""
    largest = int(np.abs(array.astype(np.int64)).max(initial=0)) if array.dtype.kind in "iu" else 0
    return min(
        (one for one in STEPS.get(dtype_name(array.dtype), ()) if 0.99 * one <= largest <= one),
        default=0,
    )


def from_integers(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What integers stand for that belong together; nothing where some are none, or stand for others."""
    ones = {*map(stands_for_one, arrays.values())}
    if len(ones) != 1 or ones == {0}:
        return {}
    return {name: (widened(array) / max(ones)).astype(np.float32) for name, array in arrays.items()}


def columns(way: str) -> str:
    """The columns of a part, in words."""
    return f"two columns per frequency ({DOUBLINGS[way]})" if way else "one column per frequency"


@dataclass(frozen=True)
class Form:
    """One layout: how the functions lie, and whether columns are doubled."""

    arrangement: str
    doubled: str = ""
    padded: bool = False  # a column of zeros at the end, which makes an odd dim

    @property
    def name(self) -> str:
        if self.arrangement == "alone":
            return self.doubled or "compact"
        return (
            f"{self.arrangement}, columns doubled: {self.doubled}"
            if self.doubled
            else self.arrangement
        )

    def axes(self, frequencies: int) -> tuple[int, ...]:
        return tuple(
            math.prod(frequencies if k == "f" else 2 for k in axis) for axis in self._factors()
        )

    def undo(self, array: AnyArray, frequencies: int) -> list[PartView] | None:
        """Views of the parts of an array (…, positions, frequencies), doubled columns along a first axis; else None."""
        factors = self._factors()
        last, leading = self.axes(frequencies), array.shape[: max(0, array.ndim - len(factors))]
        if array.shape[len(leading) :] != last or (
            self.arrangement == "stacked" and leading[:1] != (2,)
        ):
            return None
        if self.arrangement == "rows":
            if not leading or leading[-1] % 2:
                return None
            leading = (*leading[:-1], 2, leading[-1] // 2)
        letters = [k for axis in factors for k in axis]
        names = ["-"] * len(leading) + letters
        if self.arrangement in ("rows", "stacked"):
            names[-2 - len(letters) if self.arrangement == "rows" else 0] = "p"
        array = array.reshape(*leading, *(frequencies if k == "f" else 2 for k in letters))
        array = array.transpose(
            sorted(range(array.ndim), key=lambda axis: "rcpd-f".index(names[axis]))
        )
        places = PLACES.get(self.arrangement, PLACES["both"])
        return [(part, array[place], sign < 0) for part, sign, place in places]

    def _factors(self) -> list[list[str]]:
        axes, _ = ARRANGEMENTS[self.arrangement]
        return [axis.replace("f", DOUBLED_AXES[self.doubled]).split() for axis in axes.split(", ")]

    def _views(self, array: Array) -> list[PartView] | None:
        """The parts of an array of one table, whatever its values are; an odd column has a sine and no cosine."""
        if (self.arrangement == "complex") != (array.dtype.kind == "c"):
            return None
        if self.arrangement == "complex":
            array = np.stack([array.real, array.imag], axis=-1)
        elif self.arrangement == "interleaved":
            array = array[..., : array.shape[-1] // 2 * 2]
        last = self.axes(1)
        if array.ndim != 1 + len(last) + (self.arrangement == "stacked"):
            return None
        return self.undo(array, array.shape[-len(last)] // last[0])

    def split(self, array: Array, noise: float = 0.0) -> tuple[Array, ...] | None:
        """The parts of an array, each (positions, frequencies); None where it is in another form. With noise, doubled
        columns may differ by that much of the largest, root mean square; a few that differ by more become NaN."""
        if self.padded:
            if array.ndim != 2 or not array.shape[1] % 2:
                return None
            if not np.abs(array[:, -1]).max(initial=0) <= (
                EMPTY * np.abs(array).max() if noise else 0
            ):
                return None
            array = array[:, :-1]
        views = self._views(array) or []
        every = [_undoubled(values, noise) if self.doubled else values for _, values, _ in views]
        parts = [part for part in every if part is not None and part.size]
        return tuple(parts) if views and len(parts) == len(views) else None

    def join(self, *parts: Array) -> Array:
        wide = [joined([part, part], self.doubled) if self.doubled else part for part in parts]
        array = joined(wide, self.arrangement)
        return (
            np.concatenate([array, np.zeros_like(array[:, :1])], axis=1) if self.padded else array
        )


READABLE = tuple(
    Form(arrangement, doubled)
    for arrangement in ARRANGEMENTS
    for doubled in DOUBLED_AXES
    if arrangement != "complex"
    and (not doubled or arrangement in ("alone", "halves", "stacked", "rows", "pairs"))
)
"""The forms that every check reads, the likelier ones first; complex numbers are read as pairs."""


SEARCHED = (
    "interleaved",
    "halves",
    "alone",
    "stacked",
    "pairs",
    "complex",
)  # told by the values, the likelier first


def forms(array: Array) -> Iterator[Form]:
    """The forms that an array of such a shape may have, the likelier ones first."""
    for arrangement in SEARCHED:
        if Form(arrangement)._views(array) is not None:
            yield from (Form(arrangement, doubled) for doubled in DOUBLINGS)


def halved(array: AnyArray, layout: str) -> tuple[AnyArray, AnyArray]:
    """The two parts of the last axis: its halves, or every other place."""
    half = array.shape[-1] // 2
    return (
        (array[..., :half], array[..., half:])
        if layout == "halves"
        else (array[..., 0::2], array[..., 1::2])
    )


def _undoubled(both: Array, noise: float) -> Array | None:
    """Columns that are there twice, where both copies are the same."""
    one, other = both
    if not noise:
        same = (
            np.array_equal(one[rows], other[rows], equal_nan=True)
            for rows in (slice(1), slice(1, None))
        )
        return one if all(same) else None
    x, y = np.asarray(one, np.float64), np.asarray(other, np.float64)
    off = np.nan_to_num(np.abs(x - y), nan=np.inf)
    size = float(np.median(np.nan_to_num(np.fmax.reduce(np.abs(x), axis=1))))
    wrong = off > max(EMPTY * size, 1.5 * MAX_SIGMAS * float(np.median(off)))
    apart = math.sqrt(
        (off**2).sum(axis=0, where=~wrong).max(initial=0.0) / max(1, len(off))
    )  # fast columns, too
    few = np.mean(wrong.any(axis=1)) <= MAX_WRONG
    return np.where(wrong, np.nan, x) if few and apart < noise * (size + 1e-300) else None


def joined(parts: Sequence[Array], arrangement: str) -> Array:
    """One array of several parts."""
    if arrangement == "alone":
        return parts[0]
    if arrangement == "complex":
        return np.asarray(parts[0] + np.multiply(parts[1], 1j))
    if arrangement == "stacked":
        return np.stack(parts)
    if arrangement == "halves":
        return np.concatenate(parts, axis=-1)
    pairs = np.stack(parts, axis=-1)
    return pairs if arrangement == "pairs" else pairs.reshape(*pairs.shape[:-2], -1)
