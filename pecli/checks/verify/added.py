"""Inputs after a table of positions was added, compared with those before plus the rows of their positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare import Comparison, compare_arrays, problems_of
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.rotated import Sides, both_sides
from pecli.checks.verify.verification import Verification, diagnosis
from pecli.engine.arrays import Array, Floats, Indices, as_dtype, widened
from pecli.errors import ParameterError, bracketed
from pecli.explain.acceptance import Judge
from pecli.explain.edits import Errors, Explanation, Positions
from pecli.explain.sample import Sample
from pecli.explain.used_positions import runs, situation
from pecli.tensors.apply import RowPositions
from pecli.tensors.inputs import Input

if TYPE_CHECKING:
    from pecli.files.load import Given

BLOCK_ELEMENTS = 1 << 22  #: distances between rows that are in memory at once


def verify_added(
    after: Given, before: Given, table: Array, rows: RowPositions, tolerance: Tolerance, name: str, reasons: bool
) -> Verification:
    """Compare tensors (L, D) or (batch, L, D) with those before plus the rows of a table (rows, D)."""
    weight = np.asarray(widened(table))
    label, pairs = both_sides(after, before)
    results: list[Comparison] = []
    why: list[Explanation] = []
    for sides in pairs:
        shape = sides.after.shape
        if weight.ndim != 2 or weight.shape[1] != shape[-1] or len(shape) > 3:
            rule = f"{sides.label} is of shape {bracketed(shape)}"
            advice = "they must be (rows, D) and (L, D) or (batch, L, D)"
            raise ParameterError("table", f"of shape {bracketed(weight.shape)}", rule, advice)
        (places,), seen = rows.places(Input(sides.after, sides.label), -2)
        last = int(places.max(initial=0))
        if last >= len(weight):
            raise ParameterError("table", f"of {len(weight):,} rows", f"row {last:,} is needed", "give a longer one")
        which = slice(None) if len(shape) > 2 else 0
        expected = np.where(seen[which][..., None], widened(sides.before) + weight[places[which]], sides.after)
        results.append(compare_arrays(as_dtype(expected, sides.dtype), sides.after, tolerance, name=sides.name))
        if reasons and not results[-1].passed:
            why += _by_positions(sides, weight, places, seen, tolerance.atol)
    lines = diagnosis(why, results, tolerance)
    return Verification(label, name, tuple(results), problems_of(results), tuple(lines), {}, tuple(why), ())


def _by_positions(sides: Sides, weight: Floats, places: Indices, seen: Array, atol: float) -> Iterator[Explanation]:
    """Which rows of the table were added, sequence by sequence, where they are others than expected."""
    shape = (-1, *sides.after.shape[-2:])
    before, after = (widened(side).reshape(shape) for side in (sides.before, sides.after))
    step = max(1, BLOCK_ELEMENTS // len(weight))
    size = (weight**2).sum(axis=1)
    for k, (x, y) in enumerate(zip(before, after, strict=True)):
        own, shown = places[min(k, len(places) - 1)], seen[min(k, len(seen) - 1)]
        nearest = [(size - 2 * (y - x)[at : at + step] @ weight.T).argmin(axis=1) for at in range(0, len(x), step)]
        used = np.concatenate([*nearest, np.empty(0, np.intp)])
        if (used == own)[shown].all():
            continue
        edit = Positions(runs(own), runs(used), situation(own, used, int(shown.argmax())))
        name = f"sequence {k}" if len(after) > 1 else "after"
        judge = Judge({name: Sample(name, sides.dtype, y.shape, y, np.arange(len(y)))}, atol, sides.dtype)
        left = np.where(shown[:, None], y - x - weight[used], 0.0)
        yield from judge.accepted([Explanation((edit,), None, (name,), Errors(left, y))])
