"""Tables on grids as other projects make them: which axes, which share of the channels each has, and at which
positions its points are.

E(p, d) = p · base^(−i/(d/2)), i < d/2, are the angles of an axis of d channels at position p. A style is data; two
families of them, one for tables that are added and one for rotations, are what `Sinusoidal` and `Rope` take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.numerics.axis_tables import Coordinates
from pecli.engine.schemes.scheme import AxisBlock
from pecli.errors import ParameterError, spelled

AXES = "thw"  #: time, rows and columns: the order of a grid's sizes, and of the axes of given positions

Split = Callable[[int], Sequence[int]]


def shares(*parts: Fraction | float) -> Split:
    """Channels in these proportions, rounded down."""
    return lambda dim: [math.floor(dim * Fraction(part)) for part in parts]


def _wan(dim: int) -> tuple[int, int, int]:
    each = 2 * (dim // 6)
    return dim - 2 * each, each, each


COORDINATES: dict[str, Callable[[int, int, str], Fraction]] = {
    "index": lambda i, n, axis: Fraction(i),
    "from one": lambda i, n, axis: Fraction(i + 1),
    "centred": lambda i, n, axis: Fraction(i if axis == "t" else i - (n - n // 2)),  # time starts at 0
    "-1 to 1": lambda i, n, axis: Fraction(2 * i + 1, n) - 1,
    "share": lambda i, n, axis: (i + 1) / (n + Fraction(1, 10**6)),
}
"""The position of point i of n along an axis."""


@dataclass(frozen=True)
class GridStyle:
    """One project's conventions."""

    name: str
    axes: str  #: the axes in the order of their channels, of time, rows and columns
    split: Split  #: how many of dim channels each of them has
    base: float = 10000.0
    layout: str = ""  #: how the sines and cosines of an axis lie, where a table is added: halves or interleaved
    sines_first: bool = False  #: all sines come before all cosines; else each axis has its own halves
    coordinate: str = "index"  #: which of COORDINATES are the positions along an axis
    in_turns: bool = False  #: positions are multiplied by 2π
    shared_frequencies: bool = False
    """The axes share the frequencies of the whole dim, one after the other; else each has its own."""
    keep: int = 0  #: rows for other tokens where nothing is said
    keep_last: bool = False  #: these come after the grid
    merge: int = 1  #: points come in blocks of merge × merge, which a model makes one token of
    repeats_time: bool = False  #: each image of a video has the same rows

    @property
    def sorted_axes(self) -> str:
        """The axes in the order of a grid's sizes."""
        return "".join(sorted(self.axes, key=AXES.index))

    def blocks(self, dim: int, channels: Sequence[int] | None = None) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis, in the order of the channels; `channels` replace the style's own shares."""
        split = tuple(channels or self.split(dim))
        if len(split) != len(self.axes):
            rule = f"the {self.name} style has the axes {', '.join(self.axes)}"
            raise ParameterError("axes", spelled(split), rule, "give the channels of each")
        said = ", ".join(f"{axis} {count}" for axis, count in zip(self.axes, split, strict=True))
        if sum(split) != dim or any(count < 2 or count % 2 for count in split):
            rule = f"the {self.name} style gives its axes {said} channels, which must be even and add up to dim"
            raise ParameterError("axes" if channels else "dim", spelled(split) if channels else dim, rule)
        places = [self.sorted_axes.index(axis) for axis in self.axes]
        if not self.shared_frequencies:
            pairs = zip(places, split, strict=True)
            return tuple(AxisBlock(place, count, Fraction(count, 2)) for place, count in pairs)
        many = len(self.axes)
        return tuple(AxisBlock(place, split[k], Fraction(dim, 2), k, many) for k, place in enumerate(places))

    def check(
        self, grid: Sequence[int], base: Sequence[float] | None = None, scale: Sequence[float] | None = None
    ) -> None:
        """Refuse a grid that the style has no table of."""
        given = "x".join(map(str, grid))
        if len(grid) == 3 and "t" not in self.axes and not self.repeats_time:
            raise ParameterError("grid", given, f"the {self.name} style has no axis of time", "give HxW")
        if grid[-1] % self.merge or grid[-2] % self.merge:
            points = f"{self.merge} x {self.merge} points"
            raise ParameterError("grid", given, f"the {self.name} style merges {points}; H and W are not multiples")
        for name, values in (("grid_base", base), ("grid_scale", scale)):
            if values is not None and self.coordinate != "index":
                rule = f"the {self.name} style has positions of its own along a grid"
                raise ParameterError(name, spelled(values), rule, "leave it out")
            if values is not None and len(values) not in (1, len(grid)):
                rule = f"it must be one number, or one for each axis of the grid {given}"
                raise ParameterError(name, spelled(values), rule)

    def coordinates(
        self, grid: Sequence[int], keep: int, base: Sequence[float] | None, scale: Sequence[float] | None
    ) -> Coordinates:
        time, height, width = (1, *grid) if len(grid) == 2 else grid
        sizes, merge, points = {"t": time, "h": height, "w": width}, self.merge, time * height * width
        values = []
        for axis in self.sorted_axes:
            n, place = sizes[axis], AXES.index(axis) - (3 - len(grid))
            per_point = _at(base, place, n) / n / _at(scale, place, 1)
            values.append([*(COORDINATES[self.coordinate](i, n, axis) * per_point for i in range(n)), Fraction(0)])

        def index(start: int, stop: int) -> Indices:
            rows = np.arange(start, stop) - (0 if self.keep_last else keep)
            inside = (rows >= 0) & (rows < points)
            shape = (time, height // merge, width // merge, merge, merge)
            t, h, w, down, across = np.unravel_index(np.where(inside, rows, 0), shape)
            found = {"t": t, "h": h * merge + down, "w": w * merge + across}
            return np.array([np.where(inside, found[axis], sizes[axis]) for axis in self.sorted_axes])

        return Coordinates(tuple(values), points + keep, index)


def _at(values: Sequence[float] | None, place: int, default: int) -> Fraction:
    """The number of one axis, where there may be one for all."""
    if values is None or place < 0:
        return Fraction(default)
    return Fraction(values[0] if len(values) == 1 else values[place])


_HALF = Fraction(1, 2)
_HALVES = shares(_HALF, _HALF)
_VIDEO = shares(Fraction(1, 4), Fraction(3, 8), Fraction(3, 8))
_FLUX = shares(Fraction(1, 8), Fraction(7, 16), Fraction(7, 16))

_ADDED = (
    GridStyle("mae", "wh", _HALVES, layout="halves"),
    GridStyle("vit-mae", "hw", _HALVES, layout="halves"),
    GridStyle("sd3", "wh", _HALVES, layout="halves"),
    GridStyle("cogvideox", "twh", _VIDEO, layout="halves"),
    GridStyle("detr", "hw", _HALVES, layout="interleaved", coordinate="share", in_turns=True),
    GridStyle("timm", "hw", _HALVES, layout="halves", sines_first=True),
)
ADDED = {style.name: style for style in _ADDED}  #: of tables that are added

_ROTARY = (
    GridStyle("flux", "thw", _FLUX),
    GridStyle("wan", "thw", _wan),
    GridStyle("cogvideox", "thw", _VIDEO),
    GridStyle("hunyuan-video", "thw", _FLUX, base=256.0),
    GridStyle("qwen2-vl", "hw", _HALVES, merge=2, repeats_time=True),
    GridStyle("pixtral", "hw", _HALVES, shared_frequencies=True),
    GridStyle("llama4-vision", "wh", _HALVES, coordinate="from one", keep=1, keep_last=True),
    GridStyle("dinov3", "hw", _HALVES, base=100.0, coordinate="-1 to 1", in_turns=True),
    GridStyle("eva", "hw", _HALVES),
    GridStyle("sam2", "wh", _HALVES),
    GridStyle("qwen-image", "thw", _FLUX, coordinate="centred"),
)
ROTARY = {style.name: style for style in _ROTARY}  #: of rotations
