"""Tables on grids as other projects make them: which axes, with which share of the channels, at which positions.

Of an axis of d channels, the angles at position p are p · base^(−i/(d/2)), i < d/2. Styles are data: one family of them
for tables that are added (`Sinusoidal`), and one for rotations (`Rope`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.numerics.axis_tables import Coordinates
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.errors import ParameterError, spelled

AXES = "thwl"
"""Time, rows and columns, which a grid has, and text beside it: the order of the axes of given positions."""

Split = Callable[[int], Sequence[int]]


def shares(*parts: Fraction | float) -> Split:
    """Channels in these proportions, rounded down."""
    return lambda dim: [math.floor(dim * Fraction(part)) for part in parts]


def _wan(dim: int) -> tuple[int, int, int]:
    each = 2 * (dim // 6)
    return dim - 2 * each, each, each


_HALF = Fraction(1, 2)
COORDINATES: dict[str, Callable[[int, int, str], Fraction]] = {
    "index": lambda i, n, axis: Fraction(i),
    "from one": lambda i, n, axis: Fraction(i + 1),
    "centred": lambda i, n, axis: Fraction(
        i if axis == "t" else i - (n - n // 2)
    ),  # time starts at 0
    "video latents": lambda i, n, axis: (
        i + (_HALF if axis != "t" else Fraction(-3, 8) if i else Fraction(1, 16))
    ),
    "edge to edge": lambda i, n, axis: Fraction(i, max(1, n - 1)) - _HALF,
    "-1 to 1": lambda i, n, axis: Fraction(2 * i + 1, n) - 1,
    "share": lambda i, n, axis: (i + 1) / (n + Fraction(1, 10**6)),
}
"""The position of point i of n along an axis. Latents are at their middles; the first of a video is of one frame."""


@dataclass(frozen=True)
class GridStyle:
    """One project's conventions."""

    name: str
    axes: str  #: the axes in the order of their channels, of time, rows and columns
    split: Split  #: how many of dim channels each of them has
    base: float = 10000.0
    layout: str = ""  #: how the sines and cosines of an axis lie, where a table is added: halves or interleaved
    sines_first: bool = (
        False  #: all sines come before all cosines; else each axis has its own halves
    )
    coordinate: str = "index"  #: which of COORDINATES are the positions along an axis
    in_turns: bool = False  #: positions are multiplied by 2π
    shared_frequencies: bool = False
    """The axes share the frequencies of the whole dim, one after the other; else each has its own."""
    keep: int = 0  #: rows for other tokens where nothing is said
    keep_last: bool = False  #: these come after the grid
    counted: str = ""  #: axes along which these count, from `first` on; where time is one, the grid comes at the next
    first: int = 0
    merge: int = 1  #: points come in blocks of merge × merge, which a model makes one token of
    repeats_time: bool = False  #: each image of a video has the same rows
    law: str = ""  #: frequencies rise from 1 to the base, as "rising" powers or "linear"; else they fall from 1
    mixed: bool = False  #: the axes take turns at each frequency, after pairs of angle 0 where those do not share dim
    alternating: bool = False  #: the axes take turns at each frequency, which falls from 1
    cut: bool = False  #: the last channels are left out where the axes have more than dim
    factors: tuple[float, ...] = ()  #: by which NTK stretches the base of each axis
    grid_base: tuple[float, ...] | None = (
        None  #: where nothing is said; positions are rounded down then
    )
    grid_scale: tuple[float, ...] | None = (
        None  #: where nothing is said; positions p are at p/2 − 1/4 then
    )

    @property
    def sorted_axes(self) -> str:
        """The axes in the order of a grid's sizes."""
        return "".join(sorted(self.axes, key=AXES.index))

    def blocks(self, dim: int, channels: Sequence[int] | None = None) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis, in the order of the channels; `channels` replace the style's own shares."""
        split = tuple(channels or self.split(dim))
        places = [self.sorted_axes.index(axis) for axis in self.axes]
        if self.mixed and channels is None and (many := dim // 2 // len(places)) > 1:
            still = AxisBlock(0, dim - 2 * many * len(places), Fraction(1), law="still")
            rising = (
                AxisBlock(place, 2, Fraction(1 - many), k) for k in range(many) for place in places
            )
            return still, *rising
        if self.alternating and channels is None and dim % 4 == 0:
            return tuple(
                AxisBlock(place, 2, Fraction(dim, 4), k)
                for k in range(dim // 4)
                for place in places
            )
        if len(split) != len(self.axes):
            rule = f"the {self.name} style has the axes {', '.join(self.axes)}"
            raise ParameterError("axes", spelled(split), rule, "give the channels of each")
        said = ", ".join(f"{axis} {count}" for axis, count in zip(self.axes, split, strict=True))
        if (
            sum(split) < dim
            or (sum(split) > dim and not self.cut)
            or any(count < 2 or count % 2 for count in split)
        ):
            rule = f"the {self.name} style gives its axes {said} channels, which must be even and add up to dim"
            raise ParameterError(
                "axes" if channels else "dim", spelled(split) if channels else dim, rule
            )
        if self.law:
            signs = {"rising": -1, "linear": 1}
            ends = [signs[self.law] * Fraction(max(1, count // 2 - 1)) for count in split]
            law = self.law.removeprefix("rising")
            return tuple(
                AxisBlock(*block, law=law) for block in zip(places, split, ends, strict=True)
            )
        if not self.shared_frequencies:
            pairs = zip(places, split, strict=True)
            return tuple(AxisBlock(place, count, Fraction(count, 2)) for place, count in pairs)
        many = len(self.axes)
        return tuple(
            AxisBlock(place, split[k], Fraction(dim, 2), k, many) for k, place in enumerate(places)
        )

    def check(
        self,
        grid: Sequence[int],
        base: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
    ) -> None:
        """Refuse a grid that the style has no table of."""
        given = "x".join(map(str, grid))
        if len(grid) == 3 and "t" not in self.axes and not self.repeats_time:
            raise ParameterError(
                "grid", given, f"the {self.name} style has no axis of time", "give HxW"
            )
        if grid[-1] % self.merge or grid[-2] % self.merge:
            points = f"{self.merge} x {self.merge} points"
            raise ParameterError(
                "grid", given, f"the {self.name} style merges {points}; H and W are not multiples"
            )
        for name, values in (("grid_base", base), ("grid_scale", scale)):
            own = self.coordinate != "index" and not self.grid_scale
            if values is not None and own:
                rule = f"the {self.name} style has positions of its own along a grid"
                raise ParameterError(name, spelled(values), rule, "leave it out")
            if values is not None and len(values) not in (1, len(grid)):
                rule = f"it must be one number, or one for each axis of the grid {given}"
                raise ParameterError(name, spelled(values), rule)

    def coordinates(
        self,
        grid: Sequence[int],
        keep: int,
        base: Sequence[float] | None,
        scale: Sequence[float] | None,
    ) -> Coordinates:
        time, height, width = (1, *grid) if len(grid) == 2 else grid
        sizes, merge = {"t": time, "h": height, "w": width, "l": 1}, self.merge
        points, first = time * height * width, self.first
        values = []
        for axis in self.sorted_axes:
            n, place = sizes[axis], AXES.index(axis) - (3 - len(grid))
            per_point = (
                _at(base or self.grid_base, place, n) / n / _at(scale or self.grid_scale, place, 1)
            )
            found = [COORDINATES[self.coordinate](i, n, axis) * per_point for i in range(n)]
            if self.grid_base:
                found = [Fraction(math.floor(value)) for value in found]
            if self.grid_scale:
                found = [value / 2 - Fraction(1, 4) for value in found]
            if axis == "t" and "t" in self.counted:
                found = [value + first + keep for value in found]
            beside = range(first, first + keep) if axis in self.counted else (0,)
            values.append([*found, *map(Fraction, beside)])

        def index(start: int, stop: int) -> Indices:
            rows = np.arange(start, stop) - (0 if self.keep_last else keep)
            inside = (rows >= 0) & (rows < points)
            shape = (time, height // merge, width // merge, merge, merge)
            t, h, w, down, across = np.unravel_index(np.where(inside, rows, 0), shape)
            found = {"t": t, "h": h * merge + down, "w": w * merge + across, "l": 0 * t}
            beside = np.where(rows < 0, rows + keep, rows - points)
            kept = {axis: size + beside * (axis in self.counted) for axis, size in sizes.items()}
            return np.array(
                [np.where(inside, found[axis], kept[axis]) for axis in self.sorted_axes]
            )

        return Coordinates(tuple(values), points + keep, index)


def _at(values: Sequence[float] | None, place: int, default: int) -> Fraction:
    """The number of one axis, where there may be one for all."""
    if values is None or place < 0 or 1 < len(values) <= place:
        return Fraction(default)
    return Fraction(values[0] if len(values) == 1 else values[place])


_HALVES = shares(_HALF, _HALF)
_VIDEO = shares(Fraction(1, 4), Fraction(3, 8), Fraction(3, 8))
_FLUX = shares(Fraction(1, 8), Fraction(7, 16), Fraction(7, 16))
_THIRDS = shares(*[Fraction(1, 3)] * 3)

_ADDED = (
    GridStyle("mae", "wh", _HALVES, layout="halves"),
    GridStyle("vit-mae", "hw", _HALVES, layout="halves"),
    GridStyle("sd3", "wh", _HALVES, layout="halves"),
    GridStyle("cogvideox", "twh", _VIDEO, layout="halves"),
    GridStyle("detr", "hw", _HALVES, layout="interleaved", coordinate="share", in_turns=True),
    GridStyle("timm", "hw", _HALVES, layout="halves", sines_first=True),
    GridStyle(
        "positional-encodings-2d",
        "hw",
        lambda dim: [-(-dim // 4) * 2] * 2,
        layout="interleaved",
        cut=True,
    ),
    GridStyle(
        "positional-encodings-3d",
        "thw",
        lambda dim: [-(-dim // 6) * 2] * 3,
        layout="interleaved",
        cut=True,
    ),
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
    GridStyle("moonvit", "wh", _HALVES, alternating=True),
    GridStyle("qwen-image", "thw", _FLUX, coordinate="centred"),
    GridStyle("qwen-image-2.1", "thw", _FLUX, coordinate="centred", counted="thw"),
    GridStyle("flux2", "thwl", shares(*[Fraction(1, 4)] * 4), base=2000.0, counted="l"),
    GridStyle("z-image", "thw", _VIDEO, base=256.0, keep_last=True, counted="t", first=1),
    GridStyle("lumina2", "thw", _THIRDS, counted="t"),
    GridStyle("hidream", "thw", shares(_HALF, _HALF / 2, _HALF / 2), keep_last=True),
    GridStyle("kandinsky5", "thw", _VIDEO),
    GridStyle("hunyuan-image", "hw", _HALVES, base=256.0),
    GridStyle("cogview4", "hw", _HALVES, grid_base=(256.0,)),
    GridStyle("glm-image", "hw", _HALVES),
    GridStyle("cosmos", "thw", _wan, factors=(2.0, 1.0, 1.0)),
    GridStyle("ltx", "thw", _THIRDS, mixed=True, in_turns=True, grid_scale=(62.5, 64.0, 64.0)),
    GridStyle(
        "ltx2",
        "thw",
        _THIRDS,
        mixed=True,
        in_turns=True,
        grid_scale=(60.0, 64.0, 64.0),
        coordinate="video latents",
    ),
    GridStyle(
        "pixel", "hw", _HALVES, base=5.0, law="linear", coordinate="edge to edge", in_turns=True
    ),
    GridStyle(
        "timm-pixel",
        "hw",
        _HALVES,
        base=112.0,
        law="rising",
        coordinate="edge to edge",
        in_turns=True,
    ),
)
ROTARY = {style.name: style for style in _ROTARY}  #: of rotations
PLAIN = {2: replace(ROTARY["eva"], name="axes"), 3: replace(ROTARY["flux"], name="axes")}
"""Grids with channels given for each of so many axes, and no style."""
