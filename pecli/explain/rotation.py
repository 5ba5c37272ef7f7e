"""Rotations seen from both sides: the quotient of pairs after and before is the table, and explained as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from pecli.engine.arrays import Complex, Floats
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.edits import Dtype, Edit, Explanation, Layout, Parameter, best
from pecli.explain.forms import Form
from pecli.explain.readings import Reading, padded
from pecli.explain.sample import grain, precision
from pecli.explain.wave_schemes import wave_scheme
from pecli.explain.wave_search import explain_readings

MAX_LEFT = 0.05
"""Of the values after, that a quotient may leave: beyond it, it is no rotation of these pairs."""
FEW = 48
LAYOUTS = ("halves", "interleaved")


@dataclass(frozen=True)
class Turns:
    """How pairs are read, and the quotient: (positions, pairs), with what it leaves of the values."""

    axis: int
    dim: int
    before: str
    after: str
    ratio: Complex
    left: float


def pairs(values: Floats, dim: int, layout: str) -> Complex:
    """The first `dim` channels as complex numbers."""
    turned = values[..., :dim]
    if layout == "halves":
        return np.asarray(turned[..., : dim // 2] + 1j * turned[..., dim // 2 :])
    return np.asarray(turned[..., 0::2] + 1j * turned[..., 1::2])


def unpaired(values: Complex, layout: str) -> Floats:
    """Complex numbers as channels."""
    if layout == "halves":
        return np.concatenate([values.real, values.imag], axis=-1)
    return np.stack([values.real, values.imag], axis=-1).reshape(*values.shape[:-1], -1)


def quotient(before: Floats, after: Floats, axis: int, dim: int, layouts: tuple[str, str]) -> Turns:
    """The rotation of every position and pair that comes nearest, over all heads and batches."""
    x, y = (
        np.moveaxis(pairs(each, dim, layout), axis, 0) for each, layout in zip((before, after), layouts, strict=True)
    )
    x, y = (each.reshape(len(each), -1, each.shape[-1]) for each in (x, y))
    power = np.maximum((np.abs(x) ** 2).sum(axis=1), 1e-300)
    ratio = (y * x.conj()).sum(axis=1) / power
    off = np.abs(y - ratio[:, None] * x) ** 2
    return Turns(axis, dim, *layouts, ratio, float(np.sqrt(off.sum() / max(float((np.abs(y) ** 2).sum()), 1e-300))))


def _few(values: Floats) -> Floats:
    """The first positions and heads, which tell how pairs lie."""
    few = values[..., :FEW, :]
    return few[..., :FEW, :, :] if few.ndim > 2 else few


def _turns(before: Floats, after: Floats, dims: list[int], layouts: tuple[str, str]) -> Iterator[Turns]:
    """Readings of some of the pairs that leave little, the expected ones first."""
    axes = [-2, *([-3] if before.ndim > 2 and before.shape[-3] > 8 else [])]
    before, after = _few(before), _few(after)
    both = dict.fromkeys((layouts, *product(LAYOUTS, LAYOUTS)))
    for dim, axis, each in product(dims, axes, both):
        found = quotient(before, after, axis, dim, each)
        if found.left < MAX_LEFT:
            yield found


def explain_rotation(
    before: Floats, after: Floats, rope: Scheme, layouts: tuple[str, str], atol: float = 0.0
) -> list[Explanation]:
    """Why queries or keys (…, positions, channels) are not rotated as a scheme says; each sequence by itself where
    they are not all alike.
    """
    seen = wave_scheme(rope, ("cos", "sin"))
    if before.shape != after.shape or before.ndim < 2 or seen is None:
        return []
    if before.ndim > 3 and len(before) > 1 and not _alike(before, after, 2 * seen.law.count, layouts):
        each = [explain_rotation(one, other, rope, layouts, atol) for one, other in zip(before, after, strict=True)]
        return [
            replace(found[0], tensors=(f"sequence {k}",)) for k, found in enumerate(each) if found and found[0].edits
        ]
    kept = grain(after)
    if isinstance(kept, Dtype):  # angles that are smaller than half a unit are lost in all heads alike
        atol = max(atol, precision(kept.found))
    dims = _dims(before, after, 2 * seen.law.count)
    every = list(_turns(before, after, dims, layouts))
    least = min((found.left for found in every), default=0.0)
    every.sort(key=lambda found: (found.left > 3 * least + 1e-6, dims.index(found.dim), round(found.left, 3)))
    for turns in every[:4]:
        ratio = quotient(before, after, turns.axis, turns.dim, (turns.before, turns.after)).ratio
        told: list[Edit] = []
        if turns.axis != -2:
            told.append(Parameter("position_axis", -2, turns.axis))
        if (turns.before, turns.after) != layouts:
            told.append(Layout(_named(layouts), _named((turns.before, turns.after))))
        reading = Reading(
            (ratio.real, ratio.imag),
            np.arange(len(ratio)),
            len(ratio),
            Form("alone"),
            tuple(told),
            ("after",),
            "float32",
        )
        with np.errstate(all="ignore"):
            found = best(
                explain_readings(
                    [reading, *padded(reading)], replace(seen, form=Form("alone"), length=len(ratio)), atol
                )
            )
        if found:
            return found
    return []


def _alike(before: Floats, after: Floats, dim: int, layouts: tuple[str, str]) -> bool:
    """Whether one rotation does for all sequences as well as for the first."""
    dims = _dims(before, after, dim)
    every = min((found.left for found in _turns(before, after, dims, layouts)), default=1.0)
    first = min((found.left for found in _turns(before[:1], after[:1], dims, layouts)), default=1.0)
    return every < max(2 * first, 1e-3)


def _dims(before: Floats, after: Floats, expected: int) -> list[int]:
    """Numbers of channels that may be rotated: as expected, as many as changed, all."""
    changed = np.flatnonzero(np.abs(after - before).reshape(-1, before.shape[-1]).max(axis=0) > 0)
    last = int(changed[-1]) + 1 if len(changed) else 0
    width = before.shape[-1]
    changes = last + last % 2
    first = [changes, expected] if changes <= 0.75 * expected else [expected, changes]
    found = [*first, width, width // 2, width // 4]
    return list(dict.fromkeys(dim for dim in found if 2 <= dim <= width and dim % 2 == 0 and dim >= last - 1)) or [
        width - width % 2
    ]


def _named(layouts: tuple[str, str]) -> str:
    return layouts[0] if layouts[0] == layouts[1] else f"{layouts[0]} before, {layouts[1]} after"
