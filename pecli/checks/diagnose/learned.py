"""Learned tables: rows that are shifted, turned or scaled, and other ways to draw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pecli.checks.diagnose import precision
from pecli.checks.diagnose.causes import DEAREST, FITTED, Cause, Explanation, best
from pecli.checks.diagnose.sample import SomeRows, samples
from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.table import Table
from pecli.errors import ParameterError

Causes = tuple[Cause, ...]

_MOST = 1 << 22
"""Elements of a stream that are drawn again, to see whether it was that one."""
_FEW = 24
"""Rows that are compared."""


def explain_learned(scheme: LearnedInit, table: Table) -> list[Explanation]:
    """The explanations of a `weight`."""
    seen = [each for each in samples(table, scheme.max_len) if each.array.ndim == 2]
    seen = [each for each in seen if each.array.shape[1] == scheme.dim and np.isfinite(widened(each.array)).all()]
    found: list[Explanation] = []
    for sample in seen:
        for causes, other, by in _others(scheme):
            for each in _explained(scheme, sample, causes, other, by):
                if not each.cost:  # the numbers are right; at most their dtype or their count is not
                    return [each] if each.causes else []
                found.append(each)
    return best(each for each in found if each.cost <= DEAREST)


def _others(scheme: LearnedInit) -> Iterator[tuple[Causes, LearnedInit, int]]:
    """The scheme, its rows shifted, and schemes that draw the same seed otherwise."""
    yield (), scheme, 0
    for by in (2, -2, 1, -1):
        place = f"row {max(0, -by)} of the file is row {max(0, by)}"
        yield (Cause(f"rows are shifted by {abs(by)}: {place}"),), scheme, by
    kinds = type(scheme).parameters()
    for name in ("rng", "init"):
        own = getattr(scheme, name)
        for value in getattr(kinds[name], "options", ()):
            if value not in (own, "zeros", "sinusoidal"):
                try:
                    changed = replace(scheme, **{name: value})
                except ParameterError:
                    continue
                yield (Cause(f"{name} is {value} (the spec says {own})"),), changed, 0


def _explained(
    scheme: LearnedInit, sample: SomeRows, causes: Causes, other: LearnedInit, by: int
) -> Iterator[Explanation]:
    """Whether row r of the file is row r + by of the table, and with which standard deviation."""
    here = _compared(sample.rows + by, other.max_len)
    if not here.size or (other.rng != "pecli" and other.max_len * other.dim > _MOST):
        return
    found, ours = widened(sample.array[here]), _rows(other, sample.rows[here] + by)
    square = float((ours * ours).sum())
    scale = float((found * ours).sum()) / square if square else 1.0
    std = float(f"{scale * other.std:.4g}")
    if std <= 0:
        return
    dtype = str(sample.array.dtype.name)
    heights: list[tuple[float, Causes]] = [(1.0, ())]
    heights.append((std / other.std, (Cause(f"std is {std:g} (the spec says {other.std:g})", FITTED),)))
    for height, scaled in heights:
        for kind, cast in _kinds(scheme, dtype, found):
            errors = np.abs(found - height * ours)
            if (errors <= _allowed(height * ours, kind)).all():
                told = (*_shape(scheme, sample), *precision.stored(dtype, scheme.dtype))
                yield Explanation((*causes, *scaled, *cast, *told), float(errors.max()))
                return


def _compared(rows: Indices, length: int) -> Indices:
    """Which of the sampled rows are rows of the table at all; not all of them are needed."""
    inside = np.flatnonzero((rows >= 0) & (rows < length))
    return inside[np.linspace(0, len(inside) - 1, min(_FEW, len(inside))).astype(np.intp)]


def _shape(scheme: LearnedInit, sample: SomeRows) -> Iterator[Cause]:
    if sample.transposed:
        yield Cause("the table is transposed")
    if sample.length != scheme.max_len:
        yield Cause(f"max_len is {sample.length} (the spec says {scheme.max_len})", 0.0)


def _kinds(scheme: LearnedInit, dtype: str, found: Floats) -> Iterator[tuple[str, Causes]]:
    narrow, grain = min(dtype, scheme.dtype, key=precision.places), precision.grain(found)
    yield narrow, ()
    if precision.places(grain) < precision.places(narrow):
        yield grain, (precision.cast(grain),)


def _allowed(values: Floats, dtype: str) -> Floats:
    """One rounding, and the noise of a generator that works in float32."""
    least = 2.0**-25 if dtype == "float16" else 0.0
    return np.abs(values) * (1.01 * 2.0 ** -precision.places(dtype) + 16 * 2.0**-24) + least


def _rows(scheme: LearnedInit, rows: Indices) -> Floats:
    (table,) = replace(scheme, dtype="float64").tensors()
    if not table.in_order:
        return widened(table.pick(rows))
    return widened(table.array()[rows])
