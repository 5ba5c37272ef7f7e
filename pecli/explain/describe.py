"""What can be said of a table that no scheme explains: shape, range, rank, periods, smoothness, distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain.draws import independent
from pecli.explain.sample import Sample

_SIDE = 256
"""Rows and columns that are looked at closely."""


@np.errstate(all="ignore")
def describe(sample: Sample) -> list[str]:
    """Short sentences, what is most telling first."""
    head = f"{sample.name}: {' × '.join(map(str, sample.shape)) or 'a single number'}, {sample.dtype}"
    values = sample.values
    if not values.size:
        return [f"{head}, empty"]
    finite = values[np.isfinite(values)]
    strange = values.size - finite.size
    if strange:
        head += f", {strange:,} of {values.size:,} elements are infinite or not numbers"
    lines = [head + _range(np.abs(finite) if np.iscomplexobj(values) else finite)]
    if strange or np.iscomplexobj(values) or not np.isfinite(values.std()) or not np.ptp(values):
        return lines
    table = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values[:, None]
    drawn = describe_draws(table) if table.size >= 2 * _SIDE else []
    return lines + (drawn or list(_structure(table, square=values.ndim == 2)))


def _range(values: Floats) -> str:
    if not values.size:
        return ""
    low, high = float(values.min()), float(values.max())
    return f", all {low:g}" if low == high else f", from {low:.6g} to {high:.6g}, std {float(values.std()):.4g}"


def _structure(table: Floats, *, square: bool) -> Iterator[str]:
    part = table[:_SIDE, :_SIDE]
    rows, columns = part.shape
    for name, lines in (("rows", part), ("columns", part.T)):
        count = len(np.unique(lines, axis=0))
        if count < len(lines):
            yield f"{count} different {name} among {len(lines)}"
    if square and rows == columns == len(table):
        if np.array_equal(part, part.T):
            yield "symmetric"
        if all(np.ptp(np.diagonal(part, k)) <= 1e-6 * np.abs(part).max() for k in range(1 - rows, rows)):
            yield "constant along its diagonals (Toeplitz)"
    if min(rows, columns) > 1:
        singular = np.linalg.svd(part, compute_uv=False)
        rank = np.count_nonzero(singular > 1e-5 * singular[0])  # the rounding of the coarsest dtypes
        if 0 < rank < len(singular):
            yield f"of rank {rank}, not {len(singular)}"
        norms = np.linalg.norm(part, axis=1)
        if norms.std() < 1e-3 * norms.mean():
            yield f"all rows have the norm {norms.mean():.6g}"
    if rows >= 16:
        yield from _along_rows(table[: 8 * _SIDE, :_SIDE])


def _along_rows(table: Floats) -> Iterator[str]:
    """Down the columns: waving with periods, smooth, or jumping about."""
    centred = table - table.mean(axis=0)
    energy = np.sum(centred**2, axis=0)
    live = energy > 1e-12 * max(float(energy.max()), 1e-300)
    if not live.any():
        yield "every column is constant"
        return
    lines = np.abs(np.fft.rfft(centred[:, live] * np.hanning(len(table))[:, None], axis=0)) ** 2
    peak = lines[1:].argmax(axis=0) + 1
    around = sum(np.take_along_axis(lines, np.clip(peak + k, 1, len(lines) - 1)[None], 0)[0] for k in (-1, 0, 1))
    waving = (around > 0.9 * lines[1:].sum(axis=0)) & (peak > 2)
    if waving.sum() > max(1, live.sum() // 8):
        periods = len(table) / peak[waving]
        count = f"{int(waving.sum())} of {len(live)} columns are waves"
        yield f"{count}, with periods of {periods.min():.4g} … {periods.max():.4g} rows"
    jumps = float(np.median(np.sum(np.diff(centred, axis=0) ** 2, axis=0)[live] / energy[live]))
    if jumps < 0.05:
        yield "smooth down the rows"
    elif 1.5 < jumps < 2.5:
        yield "neighbouring rows are unrelated"


_SOME = 1 << 12
_KOLMOGOROV = 1.95
"""√n times the largest distance of the distribution functions: beyond it in one of a thousand samples."""
_CUT = 0.8796256610342398
"""The standard deviation of a normal distribution cut at ±2σ, in σ."""
_PHI_TWO = 0.022750131948179209


def describe_draws(table: Floats) -> list[str]:
    """Sentences about a (rows, dim) table: its distribution, what starts so, and whether training shows."""
    padding = [row for row in range(min(2, len(table))) if len(table) > 2 and not table[row].any()]
    rows = np.delete(table, padding, axis=0) if padding else table
    found = distribution(rows)
    if found is None:
        return []
    words, std = found
    if not untrained(rows):
        return [f"{words} as a whole, but rows or columns are related: trained weights look so"]
    lines = [f"looks like independent draws: {words}"]
    lines += [f"row {padding[0]} is zeros, as padding is"] if padding else []
    starts = ", ".join(_starts(table, words, std))
    return [*lines, f"initialised as by {starts}"] if starts else lines


def distribution(table: Floats) -> tuple[str, float] | None:
    """The distribution that the elements follow, in words, and its standard deviation; None if it is none of these."""
    flat = table.reshape(-1)
    std, largest = float(flat.std()), float(np.abs(flat).max())
    if not std or abs(float(flat.mean())) > 6 * std / math.sqrt(len(flat)):
        return None
    some = np.sort(flat[:: max(1, len(flat) // _SOME)]) / std
    inside = largest < 2.4 * std  # of 500 normal numbers hardly ever all
    if inside and _follows(some, lambda x: (_normal(_CUT * x) - _PHI_TWO) / (1 - 2 * _PHI_TWO)):
        return f"normal, std {std / _CUT:.4g}, cut at ±2 std", std / _CUT
    if _follows(some, _normal):
        return f"normal, std {std:.4g}", std
    if largest < 1.8 * std and _follows(some, lambda x: x / math.sqrt(12) + 0.5):
        return f"uniform, from −{largest:.4g} to {largest:.4g}", std
    return None


def untrained(table: Floats) -> bool:
    """Whether neighbours are as unlike, and singular values as even, as those of independent draws."""
    part = table[:_SIDE, :_SIDE]
    norms, most = np.linalg.norm(part, axis=1), float(part.std()) * sum(map(math.sqrt, part.shape))
    even = float(norms.std() / norms.mean()) <= 4 / math.sqrt(2 * part.shape[1])
    return even and independent(part) and float(np.linalg.norm(part, 2)) < 1.25 * most


def _follows(ordered: Floats, cumulative: Callable[[Floats], Floats]) -> bool:
    """Kolmogorov and Smirnov's test."""
    expected = np.clip(cumulative(ordered), 0, 1)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(float(np.abs(expected - steps[1:]).max()), float(np.abs(expected - steps[:-1]).max()))
    return distance * math.sqrt(len(ordered)) < _KOLMOGOROV


def _normal(x: Floats) -> Floats:
    return np.array([math.erf(value) for value in (x * math.sqrt(0.5)).tolist()]) / 2 + 0.5


def _starts(table: Floats, words: str, std: float) -> Iterator[str]:
    """Projects whose tables start like that."""
    rows, dim = table.shape
    kind = "cut" if "cut" in words else words.partition(",")[0]
    for name, its, project in (
        ("cut", 0.02, "ViT and others in JAX or TensorFlow, N(0, 0.02) cut at ±2 std"),
        ("normal", 0.02, "GPT-2 and BERT, N(0, 0.02)"),
        ("normal", 1.0, "torch's nn.Embedding, N(0, 1)"),
        ("normal", dim**-0.5, "fairseq, N(0, dim^−0.5), there with a row of zeros for padding"),
        ("uniform", math.sqrt(2 / (rows + dim)), "xavier-uniform tables, ±√(6/(rows + dim))"),
    ):
        if kind == name and abs(std / its - 1) < 5 / math.sqrt(2 * table.size) + 1e-3:
            yield project
