"""Learned tables: rows that are shifted, turned or scaled, and other ways to draw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.diagnose import precision
from pecli.checks.diagnose.causes import DEAREST, FITTED, Cause, Explanation, best
from pecli.checks.diagnose.sample import Sample, samples
from pecli.engine.learned import LearnedInit
from pecli.engine.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Floats

_MOST = 1 << 22
"""Elements of a stream that are drawn again, to see whether it was that one."""


def explain_learned(scheme: LearnedInit, table: Table) -> list[Explanation]:
    """The explanations of a `weight`."""
    found: list[Explanation] = []
    for sample in samples(table, scheme.max_len):
        if (
            sample.array.ndim != 2
            or sample.array.shape[1] != scheme.dim
            or not np.isfinite(widened(sample.array)).all()
        ):
            continue
        for causes, other in _others(scheme):
            for by in (0, 2, -2, 1, -1):
                found += _explained(scheme, sample, causes, other, by)
    right = [each for each in found if not each.cost]
    return (
        [each for each in right[:1] if each.causes] if right else best(each for each in found if each.cost <= DEAREST)
    )


def _others(scheme: LearnedInit) -> Iterator[tuple[tuple[Cause, ...], LearnedInit]]:
    """The scheme, and those that draw the same seed otherwise."""
    yield (), scheme
    kinds = type(scheme).parameters()
    for name in ("rng", "init"):
        for value in getattr(kinds[name], "options", ()):
            if value not in (getattr(scheme, name), "zeros", "sinusoidal"):
                try:
                    words = f"{name} is {value} (the spec says {getattr(scheme, name)})"
                    yield (Cause(words),), replace(scheme, **{name: value})
                except ParameterError:
                    continue


def _explained(
    scheme: LearnedInit, sample: Sample, causes: tuple[Cause, ...], other: LearnedInit, by: int
) -> Iterator[Explanation]:
    """Whether row r of the file is row r + by of the table."""
    rows = sample.rows + by
    inside = (rows >= 0) & (rows < other.max_len)
    if not inside.any() or (other.rng != "pecli" and other.max_len * other.dim > _MOST):
        return
    found, ours = widened(sample.array[inside]), _rows(other, rows[inside])
    square = float((ours * ours).sum())
    scale = float((found * ours).sum()) / square if square else 0.0
    if scale <= 0:
        return
    dtype = str(sample.array.dtype.name)
    if by:
        causes = (*causes, Cause(f"rows are shifted by {abs(by)}: row {max(0, -by)} of the file is row {max(0, by)}"))
    if sample.transposed:
        causes = (*causes, Cause("the table is transposed"))
    if sample.length != scheme.max_len:
        causes = (*causes, Cause(f"max_len is {sample.length} (the spec says {scheme.max_len})", 0.0))
    std = float(f"{scale * other.std:.4g}")
    for height, scaled in (
        (1.0, ()),
        (std / other.std, (Cause(f"std is {std:g} (the spec says {other.std:g})", FITTED),)),
    ):
        for kind, cast in _kinds(scheme, dtype, found):
            errors = np.abs(found - height * ours)
            least = 2.0**-25 if kind == "float16" else 0.0
            allowed = height * np.abs(ours) * (1.01 * 2.0 ** -precision.places(kind) + 16 * 2.0**-24) + least
            if (errors <= allowed).all():
                told = precision.stored(dtype, scheme.dtype)
                yield Explanation((*causes, *scaled, *cast, *told), float(errors.max()))
                return


def _kinds(scheme: LearnedInit, dtype: str, found: Floats) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    narrow, grain = min(dtype, scheme.dtype, key=precision.places), precision.grain(found)
    yield narrow, ()
    if precision.places(grain) < precision.places(narrow):
        yield grain, (precision.cast(grain),)


def _rows(scheme: LearnedInit, rows: Array) -> Floats:
    (table,) = replace(scheme, dtype="float64").tensors()
    if scheme.rng == "pecli" or scheme.init == "sinusoidal":
        return widened(np.concatenate([table.read(int(row), int(row) + 1) for row in rows]))
    return widened(table.array()[rows])
