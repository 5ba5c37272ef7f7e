"""Inputs after a table of positions was added, compared with those before plus the rows of their positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare import compare_arrays, problems_of
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.rotated import both_sides
from pecli.checks.verify.token_positions import TokenPositions
from pecli.checks.verify.verification import Verification, diagnosis
from pecli.engine.arrays import Array, Floats, Indices, round_to, widened
from pecli.errors import ParameterError, bracketed
from pecli.explain.edits import Explanation, Positions
from pecli.explain.used_positions import runs, situation

if TYPE_CHECKING:
    from pecli.files.load import Given

BLOCK = 64  #: rows that are looked up in the table at once


def verify_added(
    after: Given, before: Given, table: Array, tokens: TokenPositions, tolerance: Tolerance, name: str, reasons: bool
) -> Verification:
    """Compare tensors (…, L, D) with those before plus the rows of a table (rows, D) at the positions of tokens."""
    rows = np.asarray(widened(table))
    label, pairs = both_sides(after, before)
    results, why = [], []
    for sides in pairs:
        shape = sides.after.shape
        if rows.ndim != 2 or rows.shape[1] != shape[-1]:
            rule = f"{sides.label} is of shape {bracketed(shape)}"
            raise ParameterError("table", f"of shape {bracketed(rows.shape)}", rule, "it must be (rows, D)")
        plain = np.arange(shape[-2])[None, None], np.ones((1, shape[-2]), bool)
        (places,), seen = tokens.places(shape, -2, 1) if tokens else plain
        if places.max(initial=0) >= len(rows) or places.min(initial=0) < 0:
            rule = f"{int(places.max())} is needed"
            raise ParameterError("table", f"of {len(rows):,} rows", rule, "give a longer one")
        axes = (len(places), *(1,) * max(0, len(shape) - 3), *places.shape[1:])
        visible = seen.reshape(*axes, 1) if len(shape) > 2 else seen[0][:, None]
        expected = sides.before + rows[places].reshape(*axes, -1).reshape(*axes[-min(len(shape) - 1, len(axes)) :], -1)
        expected = np.where(visible, expected, sides.after)
        one, other = (round_to(each, sides.dtype) for each in (expected, sides.after))
        results.append(compare_arrays(one, other, tolerance, name=sides.name))
        if reasons and not results[-1].passed:
            added = (sides.after - sides.before).reshape(-1, *shape[-2:])
            why += _by_positions(added, rows, places, seen, tolerance.atol)
    lines = diagnosis([replace(each, scheme=None) for each in why], results, tolerance)
    return Verification(label, name, tuple(results), problems_of(results), tuple(lines), {}, tuple(why), ())


def _by_positions(added: Floats, rows: Floats, places: Indices, seen: Array, atol: float) -> list[Explanation]:
    """Which rows of the table were added, sequence by sequence, where they are others than expected."""
    found = []
    for k, given in enumerate(added):
        own, shown = places[min(k, len(places) - 1)], seen[min(k, len(seen) - 1)]
        used = np.concatenate(
            [
                np.abs(given[start : start + BLOCK, None] - rows).max(axis=-1).argmin(axis=1)
                for start in range(0, len(given), BLOCK)
            ]
        )
        left = np.abs(given - rows[used])[shown]
        if (used == own)[shown].all() or left.max() > max(atol, 1e-2 * float(np.abs(rows).max())):
            continue
        edit = Positions(runs(own), runs(used), situation(own, used, int(shown.argmax())))
        names = (f"sequence {k}",) if len(added) > 1 else ("after",)
        found.append(Explanation((edit,), None, names, residual=float(left.max())))
    return found
