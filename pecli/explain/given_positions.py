"""Tables at any positions: which base, and which position each row has, along one axis or several.

The slowest channels do not turn once: their angles are position · frequency, and the ratio of two of them is that of
the frequencies, whatever the positions are. From there each faster channel sharpens the positions, or shows another
axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import Complex, Floats, Indices
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain.edits import Explanation
from pecli.explain.grids import rotary_parts
from pecli.explain.numbers import BASES, digits, plainest
from pecli.explain.sample import Sample

MAX_ROWS = 512
"""Positions that a command lists."""
SLOW = 1.2
"""Radians that the channels stay below from which the base is measured."""
NOISE = 2e-7
"""Of an angle in float32; relative where it is small."""
MIN_ANGLE = 1e-9
SLACK = 2e-4
"""What other programs' float32 angles of a thousand radians are off by."""


def recognise_positions(samples: Mapping[str, Sample]) -> Iterator[Explanation]:
    """Schemes at given positions that make the tables."""
    some = list(samples.values())
    if not all(one.whole and np.isfinite(one.values).all() for one in some) or len(some[0].shape) < 2:
        return
    if not 2 <= some[0].shape[-2] <= MAX_ROWS or some[0].dtype not in ("float32", "float64"):
        return
    for scheme in _rotary(some) if rotary_parts(some) else _added(some[0]):
        made = {table.name: table for table in (scheme.single_array(), *scheme.tensors())}
        names = ("cos_sin",) if len(some) == 1 and "cos" in made else ("cos", "sin") if "cos" in made else ("pe",)
        pairs = zip((made[name].array().astype(np.float64) for name in names), some, strict=True)
        left = max(float(np.abs(expected - one.values).max()) for expected, one in pairs)
        if left <= SLACK and not _in_sequence(scheme):
            yield Explanation((), scheme, left, left, tuple(samples))
            return


def _in_sequence(scheme: Scheme) -> bool:
    """Whether positions are those of a range, which other searches explain."""
    given = getattr(scheme, "positions", None)
    steps = np.diff(np.array(given, np.float64)) if given is not None and len(given.shape) == 1 else np.zeros(0)
    return bool(steps.size and (steps == 1).all())


def _rotary(samples: Sequence[Sample]) -> Iterator[Scheme]:
    layout, waves = rotary_parts(samples) or ("", np.empty((0, 0), np.complex128))
    pairs = waves.shape[1]
    for base in _bases(waves, (float(pairs),)):
        found = _axes(waves, base[0] ** (-np.arange(pairs) / pairs))
        if found is None:
            continue
        places, follows = found
        common = {"dim": 2 * pairs, "base": base[0], "layout": layout, "dtype": samples[0].dtype}
        for more in _sections(places, follows):
            yield from _made(Rope, **common, **more)


def _added(one: Sample) -> Iterator[Scheme]:
    values, dim = one.values, one.values.shape[-1]
    if values.ndim != 2 or dim < 6 or dim % 2:
        return
    ways = {"interleaved": (values[:, 0::2], values[:, 1::2]), "halves": (values[:, : dim // 2], values[:, dim // 2 :])}
    for layout, parts in ways.items():
        for cos_first in (False, True):
            cos, sin = parts if cos_first else parts[::-1]
            waves = cos + 1j * sin
            for base, denominator in _bases(waves, (dim / 2, dim / 2 - 1)):
                found = _axes(waves, base ** (-np.arange(dim // 2) / denominator))
                if found is None or len(found[0]) > 1:
                    continue
                shift = dim / 2 - denominator
                common = {"dim": dim, "base": base, "layout": layout, "cos_first": cos_first, "freq_shift": shift}
                yield from _made(Sinusoidal, dtype=one.dtype, **common, **_place(found[0][0]))


def _made(kind: type[Scheme], **parameters: Any) -> Iterator[Scheme]:
    try:
        yield kind(**parameters)
    except ParameterError:
        return


def _place(positions: list[float]) -> dict[str, Any]:
    """Positions as parameters: those of relative tables by their length."""
    half = (len(positions) + 1) // 2
    if half > 1 and positions == [*range(half - 1, -half, -1)]:
        return {"relative": True, "seq_len": half}
    return {"positions": positions}


def _bases(waves: Complex, denominators: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Bases with what their exponents are over, from the ratios of the slowest angles; the plainest first."""
    if np.abs(np.abs(waves) - 1).max(initial=0.0) > 1e-5 or waves.shape[1] < 4:
        return
    angles = np.angle(waves)
    slow = np.abs(angles).max(axis=0) < SLOW
    first = waves.shape[1] - int(np.argmin(np.append(slow[::-1], False)))
    for many in (8, 4, 3):  # sections of other axes may come before the last few
        columns = np.arange(max(first, waves.shape[1] - many), waves.shape[1])
        if len(columns) > 1:
            yield from _from_ratios(angles, columns, denominators)


def _from_ratios(angles: Floats, columns: Indices, denominators: Sequence[float]) -> Iterator[tuple[float, float]]:
    moving = np.abs(angles[:, columns[-1]]) > MIN_ANGLE
    if not moving.any():
        return
    weights = np.abs(angles[moving][:, columns])
    logs = np.log(weights[:, 1:] / weights[:, :-1])
    step = float(np.average(logs, weights=weights[:, 1:]))
    if not step < -1e-4:
        return
    found = []
    for denominator in denominators:
        value = math.exp(-step * denominator)
        room = 16 * NOISE * denominator * value
        known = [base for base in BASES if abs(base - value) <= 4 * room]
        found += [(base, denominator) for base in (*known, plainest(value, room))]
    yield from sorted(dict.fromkeys(found), key=lambda each: digits(each[0]))


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
            room = 8 * errors[axis] + 4 * SLACK + 8 * error
            if np.abs(sharper - known).max() <= room and room * theta < 2.5:
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


def _error(positions: Floats, theta: float) -> float:
    """Of positions that are read off angles."""
    return min(NOISE / theta, 8 * NOISE * float(np.abs(positions).max()) + NOISE)


def _written(positions: Floats) -> list[float]:
    """Positions as somebody wrote them: integers where they are, else the plainest decimals."""
    near = np.rint(positions)
    if np.abs(positions - near).max() < 0.02:
        return [int(value) for value in near]
    return [plainest(float(value), 4 * SLACK) for value in positions]


def _sections(places: list[list[float]], follows: list[int]) -> Iterator[dict[str, Any]]:
    """One axis, sections one after the other, or interleaved ones."""
    if len(places) == 1:
        yield {"positions": places[0]}
        return
    order = list(dict.fromkeys(follows))
    counts = [follows.count(axis) for axis in order]
    positions = [places[axis] for axis in order]
    named = [order.index(axis) for axis in follows]
    for mixed in (None, True):
        more = {"positions": positions, "mrope_section": tuple(counts), "mrope_interleaved": mixed}
        for scheme in _made(Rope, dim=2 * len(follows), **more):
            if getattr(scheme, "pair_axes", None) == named:
                yield more
