"""Tables whose rows are the points of a grid: which grid, whose style, which base.

On a grid a column depends on one axis alone. So the sizes show without any frequency: for the right ones, all rows
with the same place along a column's axis are alike. The few rows of each axis then are waves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import Complex, Floats, Indices
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, AxisBlock, GridStyle
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain import storage
from pecli.explain.edits import Explanation
from pecli.explain.numbers import digits, plainest
from pecli.explain.sample import Sample

MAX_ROWS = 1 << 14
LOOKED_AT = 64
"""Rows that are compared before all are."""
SLACK = 1e-5
"""What other programs' float32 angles of a few radians are off by."""
KNOWN_AXES = ((16, 56, 56), (32, 48, 48), (32, 112, 112), (16, 24, 24), (8, 28, 28))
"""Channels of time, rows and columns in models."""
STEPS = 16
"""Of rounding, that values may be off by."""


def tolerance(one: Sample) -> float:
    """How far values may be from those of a scheme."""
    return SLACK + STEPS * storage.precision(one.dtype)


def doubling(values: Floats) -> tuple[str, Floats]:
    """How the columns of a rotary table come twice, and one of each; in compact tables they come once."""
    width = values.shape[1]
    if width % 2 == 0 and width >= 4:
        if np.array_equal(values[:, : width // 2], values[:, width // 2 :]):
            return "halves", values[:, : width // 2]
        if np.array_equal(values[:, 0::2], values[:, 1::2]):
            return "interleaved", values[:, 0::2]
    return "compact", values


def rotary_parts(samples: Sequence[Sample]) -> tuple[str, Complex] | None:
    """The layout, and cos + i·sin, one column per pair; of two tables, or of one that stacks them."""
    if len(samples) == 1 and samples[0].values.ndim == 3 and len(samples[0].values) == 2:
        cos, sin = samples[0].values
    elif len(samples) == 2 and samples[0].values.ndim == samples[1].values.ndim == 2:
        cos, sin = samples[0].values, samples[1].values
    else:
        return None
    (layout, first), (other, second) = doubling(cos), doubling(sin)
    return (layout, first + 1j * second) if layout == other else None


def recognise_grid(samples: Mapping[str, Sample]) -> Iterator[Explanation]:
    """Schemes on grids that make the tables."""
    some = list(samples.values())
    if not all(one.whole and np.isfinite(one.values).all() for one in some) or len(some[0].shape) < 2:
        return
    if not 4 <= some[0].shape[-2] <= MAX_ROWS:
        return
    for scheme in _rotary(some) if rotary_parts(some) else _added(some[0]):
        made = {table.name: table for table in (scheme.single_array(), *scheme.tensors())}
        expected = (
            [made["cos_sin"]]
            if len(some) == 1 and "cos" in made
            else [made[n] for n in ("cos", "sin", "pe") if n in made]
        )
        left = [
            float(np.abs(each.array().astype(np.float64) - one.values).max())
            for each, one in zip(expected, some, strict=True)
        ]
        if max(left) <= tolerance(some[0]):
            yield Explanation((), scheme, max(left), max(left), tuple(samples))
            return


def _added(one: Sample) -> Iterator[Scheme]:
    """Sinusoidal tables: zeros first, then points."""
    if one.values.ndim != 2 or one.dtype.startswith(("int", "uint")):
        return
    dim = one.values.shape[1]
    keep = int(np.argmax(np.append(np.abs(one.values).max(axis=1) > 0, True)))
    for name, style in ADDED.items():
        try:
            blocks = style.blocks(dim)
        except ParameterError:
            continue
        waves = _in_pairs(one.values, style, blocks)
        if np.abs(np.abs(waves[keep:]) - 1).max(initial=0.0) > tolerance(one):
            continue
        common = {"dim": dim, "style": name, "keep": keep or None, "dtype": _dtype(one)}
        yield from _schemes(Sinusoidal, style, blocks, waves, keep, common, tolerance(one))


def _in_pairs(values: Floats, style: GridStyle, blocks: Sequence[AxisBlock]) -> Complex:
    """cos + i·sin, one column per frequency."""
    if style.layout == "interleaved":
        return values[:, 1::2] + 1j * values[:, 0::2]
    half = values.shape[1] // 2
    if style.sines_first:
        return values[:, half:] + 1j * values[:, :half]
    found, done = [], 0
    for block in blocks:
        sines = values[:, done : done + block.pairs]
        found.append(values[:, done + block.pairs : done + block.channels] + 1j * sines)
        done += block.channels
    return np.concatenate(found, axis=1)


def _rotary(samples: Sequence[Sample]) -> Iterator[Scheme]:
    layout, waves = rotary_parts(samples) or ("", np.empty((0, 0), np.complex128))
    limit = tolerance(samples[0])
    if np.abs(np.abs(waves) - 1).max(initial=0.0) > limit:
        return
    still = np.abs(waves - 1).max(axis=1) == 0
    before = int(np.argmin(np.append(still, False)))
    after = int(np.argmin(np.append(still[::-1], False)))
    dim = 2 * waves.shape[1]
    shares: list[tuple[GridStyle, tuple[int, ...] | None]] = [(style, None) for style in ROTARY.values()]
    shares += [(ROTARY["flux"], known) for known in KNOWN_AXES if sum(known) == dim]
    for style, channels in shares:
        try:
            blocks = style.blocks(dim, channels)
        except ParameterError:
            continue
        common = {"dim": dim, "axes": channels, "style": style.name, "layout": layout, "dtype": _dtype(samples[0])}
        for keep in {after} if style.keep_last else sorted({before, max(0, before - 1)}):
            given = {**common, "keep": keep if keep != style.keep else None}
            yield from _schemes(Rope, style, blocks, waves, keep, given, limit)


def _dtype(one: Sample) -> str:
    return one.dtype if one.dtype in ("float64", "float32", "float16", "bfloat16") else "float32"


def _schemes(
    kind: type[Scheme],
    style: GridStyle,
    blocks: Sequence[AxisBlock],
    waves: Complex,
    keep: int,
    common: Mapping[str, Any],
    limit: float,
) -> Iterator[Scheme]:
    """Schemes of a style for every grid that the rows may be."""
    points = len(waves) - keep
    for grid in _grids(points, style):
        first, last = (0, points) if style.keep_last else (keep, len(waves))
        if not _may_be(waves[first:last], grid, style, blocks, limit):
            continue
        coordinates = style.coordinates(grid, keep, None, None)
        index = coordinates.index(first, last)
        tables = _by_axis(waves[first:last], index, blocks, limit)
        if tables is None:
            continue
        steps = {block.axis: coordinates.values[block.axis][1] - coordinates.values[block.axis][0] for block in blocks}
        for more in _numbers(style, blocks, tables, {axis: float(step) for axis, step in steps.items()}, grid):
            try:
                given = {key: value for key, value in {**common, **more}.items() if value is not None}
                scheme: Any = kind
                yield scheme(grid=grid, **given)
            except ParameterError:
                continue


def _grids(points: int, style: GridStyle) -> Iterator[tuple[int, ...]]:
    """The sizes that have so many points: first those of images, the squarest first."""
    pairs = sorted(_factors(points), key=lambda pair: abs(pair[0] - pair[1]))
    flat = [pair for pair in pairs if pair[0] > 1 or pair[1] < 3]
    found: list[tuple[int, ...]] = [*flat]
    if "t" in style.axes or style.repeats_time:
        found += [
            (time, *pair) for time, rest in _factors(points) if time > 1 for pair in _factors(rest) if min(pair) > 1
        ]
    for grid in found:
        try:
            style.check(grid)
        except ParameterError:
            continue
        yield grid


def _factors(number: int) -> list[tuple[int, int]]:
    return [(k, number // k) for k in range(1, number + 1) if number % k == 0] if number > 0 else []


def _may_be(waves: Complex, grid: tuple[int, ...], style: GridStyle, blocks: Sequence[AxisBlock], limit: float) -> bool:
    """Whether two rows with the same place along an axis are alike, for each axis."""
    height, width = grid[-2:]
    same = {"w": width if style.merge == 1 else style.merge, "h": 1, "t": 1}
    several = {"w": height > 1, "h": width > 1, "t": width > 1}
    done = 0
    for block in blocks:
        axis, columns = style.sorted_axes[block.axis], slice(done, done + block.pairs)
        if several[axis] and np.abs(waves[same[axis], columns] - waves[0, columns]).max() > limit:
            return False
        done += block.pairs
    return True


def _by_axis(waves: Complex, index: Indices, blocks: Sequence[AxisBlock], limit: float) -> list[Complex] | None:
    """The rows of each block by place along its axis; None where rows of one place differ."""
    found, done = [], 0
    for block in blocks:
        part, place = waves[:, done : done + block.pairs], index[block.axis]
        first = np.zeros(int(place.max()) + 1, np.intp)
        first[place[::-1]] = np.arange(len(place))[::-1]
        table, some = part[first], slice(None, None, max(1, len(place) // LOOKED_AT))
        for rows in (some, slice(None)):
            if np.abs(table[place[rows]] - part[rows]).max(initial=0.0) > limit:
                return None
        found.append(table)
        done += block.pairs
    return found


def _numbers(
    style: GridStyle,
    blocks: Sequence[AxisBlock],
    tables: Sequence[Complex],
    steps: Mapping[int, float],
    grid: tuple[int, ...],
) -> Iterator[dict[str, Any]]:
    """The style's own base and positions, then those that the angles between neighbouring points say."""
    yield {}
    bases, scales = [], {}
    for block, table in zip(blocks, tables, strict=True):
        if len(table) < 2 or block.pairs < 2:
            continue
        angle = np.angle((table[1:] * table[:-1].conj()).mean(axis=0))
        known = (np.abs(angle) > 1e-4) & (np.abs(angle) < 2.5) & (angle * steps[block.axis] > 0)
        if np.count_nonzero(known) < 2:
            continue
        exponents = np.array([float(i / block.denominator) for i in block.indices])[known]
        slope, level = np.polyfit(exponents, np.log(np.abs(angle[known])), 1)
        bases.append(math.exp(-slope))
        unit = abs(steps[block.axis]) * (2 * math.pi if style.in_turns else 1.0)
        scales[block.axis] = math.exp(level) / unit
    if not bases:
        return
    base = plainest(float(np.median(bases)), 1e-3 * float(np.median(bases)))
    given = {} if math.isclose(base, style.base, rel_tol=1e-3) else {"base": base}
    if given:
        yield given
    if scales and max(abs(scale - 1) for scale in scales.values()) > 1e-4 and not style.in_turns:
        yield from ({**given, **more} for more in _resampled(style, scales, grid))


def _resampled(style: GridStyle, scales: Mapping[int, float], grid: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Positions that are multiplied by something: one base size or one scale for all axes, or one scale for each."""
    sizes = [1, *grid] if len(grid) == 2 else [*grid]
    sizes = [sizes["thw".index(axis)] for axis in style.sorted_axes]
    counts = [plainest(scale * sizes[axis], 1e-3 * scale * sizes[axis]) for axis, scale in scales.items()]
    divisors = [plainest(1 / scale, 1e-3 / scale) for scale in scales.values()]
    ways: list[dict[str, Any]] = []
    if len({*counts}) == 1:
        ways.append({"grid_base": (counts[0],)})
    if len({*divisors}) == 1:
        ways.append({"grid_scale": (divisors[0],)})
    if len(divisors) == len(grid):
        order = sorted(scales)
        ways.append({"grid_scale": tuple(divisors[list(scales).index(axis)] for axis in order)})
    yield from sorted(ways, key=lambda way: sum(digits(value) for values in way.values() for value in values))
