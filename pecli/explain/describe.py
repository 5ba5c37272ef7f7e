"""What can be said of a table that no scheme explains: shape, range, rank, periods, smoothness, distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain import distributions
from pecli.explain.sample import Sample

_SIDE = 256
"""Rows and columns that are looked at closely."""


def describe(sample: Sample) -> list[str]:
    """Short sentences, what is most telling first."""
    head = f"{sample.name}: {' × '.join(map(str, sample.shape)) or 'a single number'}, {sample.dtype}"
    array = sample.values
    if not array.size:
        return [f"{head}, empty"]
    strange = int(array.size - np.count_nonzero(np.isfinite(array)))
    if strange:
        kept = array[np.isfinite(array)]
        head += f", {strange:,} of {array.size:,} elements are infinite or not numbers"
        return [head + (_range(np.abs(kept)) if kept.dtype.kind == "c" else _range(kept.astype(np.float64)))]
    if array.dtype.kind == "c":
        even = np.allclose(np.abs(array), np.abs(array.flat[0]), rtol=1e-3)
        return [head + _range(np.abs(array)) + (", all of one magnitude" if even else "")]
    values = array.astype(np.float64)
    lines = [head + _range(values)]
    if values.min() == values.max():
        return lines
    table = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values[:, None]
    drawn = distributions.describe(table) if table.size >= 2 * _SIDE else []
    return lines + (drawn or list(_structure(table, square=values.ndim == 2)))


def _range(values: Floats) -> str:
    if not values.size:
        return ""
    low, high = float(values.min()), float(values.max())
    return f", all {low:g}" if low == high else f", from {low:.6g} to {high:.6g}, std {float(values.std()):.4g}"


def _structure(table: Floats, *, square: bool) -> Iterator[str]:
    part = table[:_SIDE, :_SIDE]
    rows, columns = part.shape
    yield from _repeats(part)
    if square and table.shape[0] == table.shape[1] and rows == table.shape[0]:
        yield from _symmetry(part)
    if columns > 1 and rows > 1:
        yield from _rank(part)
        norms = np.linalg.norm(part, axis=1)
        if norms.std() < 1e-3 * norms.mean():
            yield f"all rows have the norm {norms.mean():.6g}"
    if rows >= 16:
        yield from _along_rows(table[: 8 * _SIDE, :_SIDE])


def _repeats(part: Floats) -> Iterator[str]:
    for name, lines in (("rows", part), ("columns", part.T)):
        count = len(np.unique(lines, axis=0))
        if len(lines) > 1 and count < len(lines):
            yield f"{count} different {name} among {len(lines)}"


def _symmetry(part: Floats) -> Iterator[str]:
    if np.array_equal(part, part.T):
        yield "symmetric"
    if all(np.ptp(np.diagonal(part, k)) <= 1e-6 * np.abs(part).max() for k in range(1 - len(part), len(part))):
        yield "constant along its diagonals (Toeplitz)"


def _rank(part: Floats) -> Iterator[str]:
    """How many directions hold the table, down to the rounding of the coarsest dtypes."""
    part = part / (np.abs(part).max() or 1.0)
    gram = part @ part.T if len(part) < part.shape[1] else part.T @ part
    squares = np.linalg.eigvalsh(gram)[::-1]
    rank = int(np.count_nonzero(squares > 1e-10 * squares[0]))
    energy = np.cumsum(squares) / np.sum(squares)
    most = int(np.searchsorted(energy, 0.99)) + 1
    full = min(part.shape)
    if rank < full:
        yield f"of rank {rank}, not {full}"
    if most < full // 2:
        yield f"99% of its energy in {most} of {full} directions"


def _along_rows(table: Floats) -> Iterator[str]:
    """Down the columns: smooth, waving with periods, or jumping about."""
    centred = table - table.mean(axis=0)
    energy = np.sum(centred**2, axis=0)
    live = energy > 1e-12 * max(float(energy.max()), 1e-300)
    if not live.any():
        yield "every column is constant"
        return
    jumps = np.sum(np.diff(centred, axis=0) ** 2, axis=0)[live] / energy[live]
    lines = np.abs(np.fft.rfft(centred[:, live] * np.hanning(len(table))[:, None], axis=0)) ** 2
    peak = lines[1:].argmax(axis=0) + 1
    around = sum(np.take_along_axis(lines, np.clip(peak + k, 1, len(lines) - 1)[None], 0)[0] for k in (-1, 0, 1))
    share = around / np.maximum(lines[1:].sum(axis=0), 1e-300)
    waving = (share > 0.9) & (peak > 2)
    if waving.sum() > max(1, live.sum() // 8):
        periods = len(table) / peak[waving]
        yield (
            f"{int(waving.sum())} of {len(live)} columns are waves, with periods of "
            f"{periods.min():.4g} … {periods.max():.4g} rows"
        )
    middle = float(np.median(jumps))
    if middle < 0.05:
        yield "smooth down the rows"
    elif 1.5 < middle < 2.5:
        yield "neighbouring rows are unrelated"
    elif math.isfinite(middle) and middle > 3:
        yield "neighbouring rows alternate"
