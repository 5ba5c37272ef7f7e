"""Rows that stand further up or down in one table than in the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.diff.samples import run
from pecli.engine.arrays import Indices

if TYPE_CHECKING:
    from numpy.typing import NDArray


FEWEST = 4
"""Rows that must overlap."""
MOST_COLUMNS = 128
"""By which rows are found again: those that change most."""


def shifts(a: NDArray[Any], b: NDArray[Any], places: Indices) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Likely shifts in words, with the rows of both that should then be equal."""
    if a.ndim < 2 or a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-1]:
        return
    known = run(places)
    lengths = a.shape[-2], b.shape[-2]
    a, b = a[..., :known, :], b[..., :known, :]
    shortest = min(a.shape[-2], b.shape[-2])
    if shortest < FEWEST:
        return
    tried = []
    if lengths[0] != lengths[1]:
        tried.append(0)
    telling = _telling(a)
    down, up = _likeliest(a[..., telling], b[..., telling]), _likeliest(b[..., telling], a[..., telling])
    tried += [by for by in (down[0], -up[0], down[1], -up[1]) if by]
    for by in dict.fromkeys(tried):
        ours = a[..., by:, :] if by >= 0 else a
        theirs = b if by >= 0 else b[..., -by:, :]
        count = min(ours.shape[-2], theirs.shape[-2])
        if count >= max(FEWEST, shortest // 4):
            yield _words(by, lengths), ours[..., :count, :], theirs[..., :count, :]


def _telling(a: NDArray[Any]) -> Indices | slice:
    """Some columns of a wide table: those that change most from row to row."""
    if a.shape[-1] <= MOST_COLUMNS:
        return slice(None)
    change = np.nan_to_num(np.abs(np.diff(a, axis=-2)), nan=0.0).max(axis=tuple(range(a.ndim - 1)))
    return np.sort(np.argsort(change, kind="stable")[-MOST_COLUMNS:])


def _likeliest(a: NDArray[Any], b: NDArray[Any]) -> tuple[int, int]:
    """How far down in the first table the first few rows of the second one are: as near as they get, and as parallel,
    whatever the factor.
    """
    count, axes = a.shape[-2] - FEWEST + 1, (*range(a.ndim - 2), a.ndim - 1)
    apart, product, power = np.zeros(count), np.zeros(count), np.zeros(count)
    with np.errstate(invalid="ignore", over="ignore"):
        for k in range(FEWEST):
            ours, theirs = a[..., k : k + count, :], b[..., k : k + 1, :]
            apart = np.maximum(apart, np.abs(ours - theirs).max(axis=axes))
            product = product + (ours * theirs).real.sum(axis=axes)
            power = power + (np.abs(ours) ** 2).sum(axis=axes)
        parallel = np.abs(product) / np.sqrt(np.where(power > 0, power, np.inf))
    return int(np.nan_to_num(apart, nan=np.inf).argmin()), int(np.nan_to_num(parallel, nan=0.0, posinf=0.0).argmax())


def _words(by: int, lengths: tuple[int, int]) -> str:
    more = f"A has {lengths[0]:,} rows, B {lengths[1]:,}" if lengths[0] != lengths[1] else ""
    if by == 0:
        return f"{more}, and those that both have are alike"
    moved = f"row i of B is row i + {by} of A" if by > 0 else f"row i + {-by} of B is row i of A"
    return f"rows shifted by {abs(by)} ({moved})" + (f", {more}" if more else "")
