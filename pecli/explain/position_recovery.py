"""Where rows are when they do not follow each other: on grids, or at given positions.

On a grid a column depends on one axis alone. So the sizes show without any frequency: for the right ones, all rows
with the same place along a column's axis are equal. The few rows of each axis then are waves.

At given positions the slowest channels do not turn once: their angles are position · frequency, and the ratio of two of
them is that of the frequencies, whatever the positions are. From there each faster channel sharpens the positions, or
shows another axis.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pecli.engine.arrays import Complex, Floats, Indices
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, GridStyle
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain import frequency_laws, rotation, time_limit, used_positions, wave_measurement
from pecli.explain.acceptance import Judge
from pecli.explain.edits import Errors, Explanation, Parameter
from pecli.explain.recipe_search import by_scheme, constructed, distance, scheme_errors
from pecli.explain.sample import BASES, Sample, Samples, digits, plainest, precision
from pecli.explain.sinusoid_readings import Reading, readings

MIN_POINTS, MAX_POINTS = 4, 1 << 14
FEW_ROWS = 8  # rows of a scheme that are made before all are
MIN_STEP, MIN_EQUAL = (
    0.02,
    0.3,
)  # of a column of a slow axis: its largest step, and the rows that equal the one before
LOOKED_AT = 64  # rows that are compared before all are
GRID_SLACK = 1e-5  # what other programs' float32 angles of a few radians are off by
KNOWN_AXES = (
    (16, 56, 56),
    (32, 48, 48),
    (32, 112, 112),
    (16, 24, 24),
    (8, 28, 28),
)  # channels of t, h and w
STEPS = 16  # of rounding, that values may be off by
MIN_ROWS, MIN_PAIRS = (
    8,
    8,
)  # rows that tell axes from other frequencies; pairs that tell where fewer rows are
MAX_ROWS = 4096  # that are at positions of their own, which a command lists
SLOW = 1.2  # radians that the channels stay below from which the base is measured
ANGLE_NOISE = 2e-7  # of an angle in float32; relative where it is small
MIN_ANGLE = 1e-9
MAX_BASE_DIGITS = 4  # of a base beside positions that are all fitted, too
SLACK = 2e-4  # what other programs' float32 angles of a thousand radians are off by


def tolerance(one: Sample, scheme: Any = None) -> float:
    """How far values may be from those of a scheme, whose angles may be many radians."""
    angle = 0.0
    if scheme is not None:
        furthest = max(
            abs(float(value)) for values in scheme.coordinates().values for value in values
        )
        angle = furthest * float(max(scheme.inverse_frequencies()))
    return GRID_SLACK + STEPS * precision(one.dtype) + ANGLE_NOISE * angle


def recognise_grid(judge: Judge, prior: Any = None) -> Iterator[Explanation]:
    """Schemes on grids that make the tables; those of the prior's style and grid are tried first."""
    one, *_ = judge.samples.values()
    if _is_whole(judge) and one.shape[-2] <= MAX_POINTS:
        yield from _first_match(_on_grids(judge.samples, prior), judge, partial(tolerance, one))


def recognise_positions(judge: Judge) -> Iterator[Explanation]:
    """Schemes at given positions that make the tables."""
    one, *_ = judge.samples.values()
    if _is_whole(judge) and one.shape[-2] <= MAX_ROWS and one.dtype in ("float32", "float64"):
        yield from _first_match(_at_positions(judge.samples), judge, lambda scheme: SLACK)


def _plain_readings(samples: Samples) -> Iterator[Reading]:
    """Readings of both functions, axes being as schemes have them; one row is read as the first of two."""
    alone = all(one.shape[-2:-1] == (1,) for one in samples.values())
    if alone:
        samples = {
            name: replace(one, values=np.repeat(one.values, 2, axis=-2))
            for name, one in samples.items()
        }
    for each in readings(samples):
        if (
            len(each.parts) == 2
            and not each.edits
            and each.form.arrangement not in ("pairs", "complex")
        ):
            first = tuple(part[:1] for part in each.parts)
            yield replace(each, parts=first, rows=each.rows[:1], length=1) if alone else each


def _is_whole(judge: Judge) -> bool:
    """Whether all rows are there, and not several that are the same, on which every grid would do."""
    some = list(judge.samples.values())
    whole = (
        all(one.whole and np.isfinite(one.values).all() for one in some) and len(some[0].shape) > 1
    )
    return whole and (
        some[0].shape[-2] == 1 or any((one.values != one.values[..., :1, :]).any() for one in some)
    )


def _first_match(
    schemes: Iterator[Scheme], judge: Judge, limit_of: Callable[[Scheme], float]
) -> Iterator[Explanation]:
    """The first scheme whose tables are these, but for what float32 angles are off by; a few rows rule out most."""
    for scheme in schemes:
        names = (scheme.single_array().name,) if len(judge.samples) == 1 else ("cos", "sin")
        samples, limit = dict(zip(names, judge.samples.values(), strict=True)), limit_of(scheme)
        if distance(scheme, samples, FEW_ROWS).largest <= limit:
            errors = scheme_errors(scheme)(samples)._replace(drift=limit)
            if (right := judge(Explanation((), scheme, tuple(judge.samples), errors))) is not None:
                yield right
                return


def _on_grids(samples: Samples, prior: Any) -> Iterator[Scheme]:
    """Tables of every style; other tokens have rows of no rotation, or of zeros."""
    one = next(iter(samples.values()))
    rotary = next(
        (reading for reading in _plain_readings(samples) if not reading.is_sinusoidal), None
    )
    if rotary is None and (one.values.ndim != 2 or one.dtype.startswith(("int", "uint"))):
        return
    dim, limit, common = one.values.shape[1], tolerance(one), {"dtype": one.float_dtype}
    if rotary is not None:
        dim, common = 2 * rotary.channels, {**common, "layout": rotary.form.doubled or "compact"}
    styles: list[tuple[GridStyle, Any]] = [
        (style, None) for style in (ROTARY if rotary else ADDED).values()
    ]
    styles += [(ROTARY["flux"], known) for known in KNOWN_AXES if rotary and sum(known) == dim]
    style_of, grid_of = (getattr(prior, name, None) for name in ("style", "grid"))
    for style, channels in sorted(styles, key=lambda each: each[0].name != style_of):
        try:
            blocks = style.blocks(dim, channels)
        except ParameterError:
            continue
        waves = np.asarray(
            rotary.values(True) if rotary else _in_pairs(one.values, style, blocks), np.complex128
        )
        if not waves.size:  # no pair of channels
            continue
        still = np.abs(waves - (1 if rotary else 0)).max(axis=1) == 0
        if style.counted:  # the grid is at one place along the axis that other tokens count along
            axis = style.sorted_axes.index(style.counted[0])
            own = waves[:, [block.axis == axis for block in blocks for _ in block.indices]]
            apart = np.abs(own - own[0 if style.keep_last else -1]).max(axis=1) > limit
            still = np.logical_or.accumulate(apart[:: 1 if style.keep_last else -1])[
                :: 1 if style.keep_last else -1
            ]
        before, after = (int(np.argmin(np.append(each, False))) for each in (still, still[::-1]))
        keeps = (
            {after}
            if style.keep_last
            else {before, before + 1 if style.counted else max(0, before - 1)}
        )
        for keep in sorted(keeps):
            points = waves[: len(waves) - keep] if style.keep_last else waves[keep:]
            if len(points) < MIN_POINTS or np.abs(np.abs(points) - 1).max() > limit:
                continue
            given = {**common, "dim": dim, "axes": channels, "style": style.name}
            given["keep"] = keep if keep != style.keep else None
            grids = sorted(_grids(len(points), style), key=lambda grid: grid != grid_of)
            for more in _grid_parameters(style, grids, blocks, points, keep, limit):
                yield from constructed(Rope if rotary else Sinusoidal, **given, **more)


def _in_pairs(values: Floats, style: GridStyle, blocks: Sequence[AxisBlock]) -> Complex:
    """cos + i·sin, one column per frequency."""
    if style.layout == "interleaved":
        return values[:, 1::2] + 1j * values[:, 0:-1:2]
    pairs = [values.shape[1] // 2] if style.sines_first else [block.pairs for block in blocks]
    parts = np.split(values, np.cumsum(np.repeat(pairs, 2)), axis=1)
    return np.concatenate(
        [cos + 1j * sin for sin, cos in zip(parts[::2], parts[1::2], strict=False)], axis=1
    )


def _grid_parameters(
    style: GridStyle,
    grids: Sequence[Any],
    blocks: Sequence[AxisBlock],
    waves: Complex,
    keep: int,
    limit: float,
) -> Iterator[dict[str, Any]]:
    """Those grids whose equal places have equal rows (points, pairs), with the numbers that may go with it."""
    steps = np.abs(np.diff(waves, axis=0))  # along a slow axis, rows are equal until the next place
    if not ((steps.max(axis=0) > MIN_STEP) & (np.mean(steps <= limit, axis=0) > MIN_EQUAL)).any():
        return
    first = 0 if style.keep_last else keep
    axes = np.array([block.axis for block in blocks for _ in block.indices][: waves.shape[1]])
    own = [axes == axis for axis in range(len(style.axes))]
    for grid in grids:
        time_limit.check_time()
        coordinates = style.coordinates(grid, keep, None, None)
        index = coordinates.index(first, first + len(waves))
        tables = [
            _by_place(waves[:, columns], place, limit)
            for columns, place in zip(own, index, strict=True)
        ]
        if any(table is None for table in tables):
            continue
        yield {"grid": grid}
        measured = []
        for axis, table in enumerate(tables):
            one, *others = coordinates.values[axis]
            spacing = float(others[0] - one) if others else 1.0  # of one place, nothing is measured
            measured.append(
                _measured([block for block in blocks if block.axis == axis], table, spacing, style)
            )
        yield from (
            {"grid": grid, **numbers} for numbers in _numbers(style, blocks, grid, measured)
        )


def _by_place(part: Complex, place: Indices, limit: float) -> Complex | None:
    """The rows by place along an axis; None where rows of one place differ."""
    first = np.zeros(int(place.max()) + 1, np.intp)
    first[place[::-1]] = np.arange(len(place))[::-1]
    for rows in (slice(None, None, max(1, len(place) // LOOKED_AT)), slice(None)):
        if np.abs(part[first[place[rows]]] - part[rows]).max(initial=0.0) > limit:
            return None
    return np.asarray(part[first])


def _measured(
    blocks: Sequence[AxisBlock], table: Any, spacing: float, style: GridStyle
) -> tuple[float, float] | None:
    """The base of an axis and what its positions are divided by, as the angles between neighbouring points say."""
    moving = [block.law != "still" for block in blocks for _ in block.indices][: table.shape[1]]
    angle = np.angle((table[1:] * table[:-1].conj()).sum(axis=0)[moving]) * np.sign(spacing)
    exponents = np.array([float(i / block.denominator) for block in blocks for i in block.indices])
    exponents = exponents[: len(moving)][moving]
    known = (angle > 1e-4) & (angle < 2.5)
    if style.law or style.mixed:  # rising: beyond the first that turns too far, all do
        known = np.logical_and.accumulate(known)
    if np.count_nonzero(known) < 2:
        return None
    unit = abs(spacing) * (2 * math.pi if style.in_turns else 1.0)
    if style.law == "linear":
        slope, level = np.polyfit(exponents[known], angle[known], 1)
        return 1 + slope / level, unit / level
    slope, level = np.polyfit(exponents[known], np.log(angle[known]), 1)
    return math.exp(-slope), unit / math.exp(level)


def _numbers(
    style: GridStyle,
    blocks: Sequence[AxisBlock],
    grid: Sequence[int],
    measured: Sequence[tuple[float, float] | None],
) -> Iterator[dict[str, Any]]:
    """The base, or the sizes that positions were resampled from, where points are not where the style has them."""

    def plain(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(plainest(value, 1e-3 * abs(value)) for value in values)

    sizes, default = (1, *grid)[-3:], style.grid_scale or (1.0, 1.0, 1.0)
    rates = {
        axis: each[1]
        for axis, each in zip(style.sorted_axes, measured, strict=True)
        if each is not None
    }
    yield from ({"base": plain([each[0]])[0]} for each in measured if each is not None)
    yield from (
        {"grid_base": plain([sizes["thw".index(axis)] / rate])} for axis, rate in rates.items()
    )
    scales = plain(
        [old * rates.get(axis, 1.0) for axis, old in zip("thw", default, strict=True)][-len(grid) :]
    )
    yield from ({"grid_scale": (scale,)} for scale in dict.fromkeys(scales))
    yield {"grid_scale": scales}
    if style.factors:
        ratios = [(measured[block.axis] or (style.base,))[0] / style.base for block in blocks]
        factors = plain(
            [ratio ** (1 - 2 / block.channels) for ratio, block in zip(ratios, blocks, strict=True)]
        )
        yield from ({"axis_factors": factors, **more} for more in ({}, {"grid_scale": scales}))


def _grids(points: int, style: GridStyle) -> Iterator[tuple[int, ...]]:
    """The sizes that have so many points: first those of images, the squarest first."""

    def factors(number: int) -> list[tuple[int, int]]:
        return [(k, number // k) for k in range(1, number + 1) if number % k == 0]

    images = sorted(factors(points), key=lambda pair: abs(pair[0] - pair[1]))
    videos = [(time, *pair) for time, rest in factors(points) if time > 1 for pair in factors(rest)]
    for grid in (*images, *(videos if "t" in style.axes or style.repeats_time else ())):
        if min(grid[-2:]) > 1:
            with contextlib.suppress(ParameterError):
                style.check(grid)
                yield grid


def other_positions(
    prior: frequency_laws.WaveScheme, judge: Judge, *, named: bool = False
) -> Iterator[Explanation]:
    """The prior at other whole positions, which its own frequencies tell row by row: those with a name, or any few."""
    length = (0, 0, *next(iter(judge.samples.values())).shape)[-2]
    if (
        not length
        or not all(one.whole for one in judge.samples.values())
        or not (named or length <= MAX_ROWS)
    ):
        return
    for step in (1 + length // LOOKED_AT, 1):  # a few rows rule most tables out
        some = {
            name: replace(one, values=one.values[..., ::step, :])
            for name, one in judge.samples.items()
        }
        fitting = (
            each for each in _plain_readings(some) if MIN_PAIRS <= each.channels == prior.law.count
        )
        if (reading := next(fitting, None)) is None:
            return
        waves, expected = (
            np.asarray(reading.values(prior.cos_first), np.complex128),
            prior.offset + step * reading.rows,
        )
        if rotation.UNKNOWN in (places := rotation.solve(waves, prior.law.frequencies(), expected)):
            return
        if named and step == 1:
            yield from judge.accepted(_named_positions(prior, reading, waves, places))
            return
    if places.min() < 0 or places.max() > wave_measurement.MAX_OFFSET:
        return
    more, edits = {"offset": int(places[0])}, [Parameter("offset", prior.offset, int(places[0]))]
    edits = edits if (places != expected).any() else []
    if (np.diff(places) != 1).any():
        if not np.ptp(places) or {*places} == {*expected}:
            return  # one row of a range, or all in another order
        more, edits = (
            {"positions": places.tolist(), "offset": 0},
            [Parameter("positions", None, "others")],
        )
    for scheme in constructed(partial(replace, prior.scheme), **more):
        yield from judge.accepted([by_scheme(edits, scheme, judge.samples)])


def _named_positions(
    prior: Any, reading: Reading, waves: Complex, used: Indices
) -> Iterator[Explanation]:
    """A prior's waves at positions that have a name, unless they step evenly, or wrap: rows tell that as well."""
    expected, steps = prior.offset + reading.rows, np.diff(used)
    period = 1 + int(np.append(np.flatnonzero(used[1:] == used[0]), len(steps))[0])
    mistake = used_positions.find_position_mistake(expected, used, rotated=False)
    if mistake and (steps != steps[:1]).any() and (used != used[0] + reading.rows % period).any():
        left = waves - prior.amplitude * np.exp(
            1j * np.multiply.outer(used, prior.law.frequencies())
        )
        edit = used_positions.positions_edit(expected, used, mistake)
        yield Explanation((edit,), None, reading.tensors, Errors(left, waves))


def _at_positions(samples: Samples) -> Iterator[Scheme]:
    """Schemes at the positions that the slowest channels tell: along one axis, then along several."""
    several: list[Iterable[Scheme]] = []
    for reading in _plain_readings(samples):
        pairs, rotary, few = (
            reading.channels,
            not reading.is_sinusoidal,
            len(reading.rows) < MIN_ROWS,
        )
        if few and pairs < MIN_PAIRS:
            continue
        layout = (reading.form.doubled or "compact") if rotary else reading.form.arrangement
        common: dict[str, Any] = {"dim": 2 * pairs, "dtype": reading.dtype, "layout": layout}
        if rotary and not few:
            several.append(_on_axes(reading, common))
        for cos_first in (True,) if rotary else (False, True):
            waves = np.asarray(reading.values(cos_first), np.complex128)
            for base, denominator in _bases(waves, (pairs,) if rotary else (pairs, pairs - 1)):
                places, follows = _axes(waves, base ** (-np.arange(pairs) / denominator)) or (
                    [],
                    [],
                )
                if len(places) > 1:
                    sections = _sections(places, follows) if rotary and not few else ()
                    several += [constructed(Rope, base=base, **common, **more) for more in sections]
                elif places:
                    more = _along_one_axis(places[0], rotary=rotary)
                    if not rotary:
                        more |= {"cos_first": cos_first, "freq_shift": float(pairs - denominator)}
                    yield from constructed(
                        Rope if rotary else Sinusoidal, base=base, **common, **more
                    )
    yield from chain.from_iterable(several)


def _along_one_axis(places: list[float], *, rotary: bool) -> dict[str, Any]:
    half = (len(places) + 1) // 2
    if half > 1 and not rotary and places == [*range(half - 1, -half, -1)]:
        return {"relative": True, "seq_len": half}
    if isinstance(places[0], int) and places[0] >= 0 and (np.diff(places) == 1).all():
        return {"offset": places[0], "seq_len": len(places)}
    return {"positions": places}


def _on_axes(reading: Reading, common: Mapping[str, Any]) -> Iterator[Scheme]:
    """Schemes whose axes have frequencies of their own, from 1 on each."""
    waves, dim = np.asarray(reading.values(True), np.complex128), 2 * reading.channels
    for axes in (*KNOWN_AXES, (dim // 3,) * 3, (dim // 2,) * 2):
        parts = (
            np.split(waves, np.cumsum(axes)[:-1] // 2, axis=1)
            if sum(axes) == dim and not axes[0] % 2
            else []
        )
        for base, _ in _bases(parts[-1], (axes[-1] // 2,)) if parts else ():
            every = [
                _axes(part, base ** (-np.arange(part.shape[1]) / part.shape[1])) for part in parts
            ]
            places = [each[0][0] for each in every if each and len(each[0]) == 1]
            if len(places) == len(parts):
                yield from constructed(Rope, base=base, axes=axes, positions=places, **common)


def _bases(waves: Complex, denominators: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Bases with what their exponents are over, from the ratio of the slowest angles; the plainest first."""
    if np.abs(np.abs(waves) - 1).max(initial=0.0) > 1e-5:
        return
    found: dict[tuple[float, float], None] = {}
    for many in (8, 4, 3):  # sections of other axes may come before the last few
        angles = np.abs(np.angle(waves[:, -many:]))
        size = angles.sum(axis=0)  # proportional to the frequencies, whatever the positions
        if len(size) < many or angles.max() > SLOW or size[-1] < MIN_ANGLE or size[-1] >= size[0]:
            continue
        for denominator in denominators:
            value = (size[0] / size[-1]) ** (denominator / (many - 1))
            error = 16 * ANGLE_NOISE * denominator * value
            known = [base for base in BASES if abs(base - value) <= 4 * error]
            found |= dict.fromkeys((base, denominator) for base in (*known, plainest(value, error)))
    plain = [each for each in found if each[0] in BASES or digits(each[0]) <= MAX_BASE_DIGITS]
    yield from sorted(plain, key=lambda each: digits(each[0]))


def _axes(waves: Complex, frequency: Floats) -> tuple[list[list[float]], list[int]] | None:
    """The positions of each axis, and which axis each channel follows; from the slowest channel on."""
    angles, count = np.angle(waves), waves.shape[1]
    places: list[Floats] = []
    errors: list[float] = []
    follows = [0] * count
    for column in range(count - 1, -1, -1):
        theta, angle = float(frequency[column]), angles[:, column]
        for axis, known in enumerate(places):
            turns = np.rint((known * theta - angle) / (2 * np.pi))
            sharper = (angle + 2 * np.pi * turns) / theta
            error = _error(sharper, theta)
            slack = 8 * errors[axis] + 4 * SLACK + 8 * error
            if np.abs(sharper - known).max() <= slack and slack * theta < 2.5:
                if error < errors[axis]:
                    places[axis], errors[axis] = sharper, error
                follows[column] = axis
                break
        else:
            if len(places) == 3 or np.abs(angle).max() > 3:
                return None
            follows[column] = len(places)
            places.append(angle / theta)
            errors.append(_error(angle / theta, theta))
    return [_written(axis) for axis in places], follows


def _written(positions: Floats) -> list[float]:
    """Whole numbers, where all are near some; else as somebody would have written them."""
    whole = np.rint(positions)
    if np.abs(positions - whole).max() < 0.02:
        return [int(value) for value in whole]
    return [plainest(value, 4 * SLACK) for value in positions.tolist()]


def _error(positions: Floats, theta: float) -> float:
    """Of positions that are read off angles."""
    return min(ANGLE_NOISE / theta, 8 * ANGLE_NOISE * float(np.abs(positions).max()) + ANGLE_NOISE)


def _sections(places: list[list[float]], follows: list[int]) -> Iterator[dict[str, Any]]:
    order = list(dict.fromkeys(follows))
    counts = [follows.count(axis) for axis in order]
    positions = [places[axis] for axis in order]
    named = [order.index(axis) for axis in follows]
    for mixed in (None, True):
        more = {"positions": positions, "mrope_section": tuple(counts), "mrope_interleaved": mixed}
        for scheme in constructed(Rope, dim=2 * len(follows), **more):
            if getattr(scheme, "pair_axes", None) == named:
                yield more
