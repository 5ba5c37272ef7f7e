"""What can be said of a table that no scheme explains: shape, range, rank, periods, smoothness, distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Floats
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
    return lines + [
        f"initialised as by {', '.join(starts)}" for starts in [list(_starts(table, words, std, padding))] if starts
    ]


def distribution(table: Floats) -> tuple[str, float] | None:
    """The distribution that the elements follow, in words, and its standard deviation; None if it is none of these."""
    flat = table.reshape(-1)
    std, largest = float(flat.std()), float(np.abs(flat).max())
    if not std or abs(float(flat.mean())) > 6 * std / math.sqrt(len(flat)):
        return None
    some = np.sort(flat[:: max(1, len(flat) // _SOME)])
    inside = largest < 2.4 * std  # of 500 normal numbers hardly ever all
    if inside and _follows(some * (_CUT / std), lambda x: (_normal(x) - _PHI_TWO) / (1 - 2 * _PHI_TWO)):
        return f"normal, std {std / _CUT:.4g}, cut at ±2 std", std / _CUT
    if _follows(some / std, _normal):
        return f"normal, std {std:.4g}", std
    if _follows(some / std, lambda x: x / math.sqrt(12) + 0.5) and largest < 1.8 * std:
        return f"uniform, from −{largest:.4g} to {largest:.4g}", std
    return None


def untrained(table: Floats) -> bool:
    """Whether neighbours are as unlike, and singular values as even, as those of independent draws."""
    part = table[:512, :512]
    rows, columns = part.shape
    spread = float(part.std()) or 1.0
    for a, b in ((part[1:], part[:-1]), (part[:, 1:], part[:, :-1])):
        if a.size and abs(float(np.mean(a * b))) > 6 * spread**2 / math.sqrt(a.size):
            return False
    largest = _largest_singular_value(part)
    norms = np.linalg.norm(part, axis=1)
    uneven = float(norms.std() / norms.mean()) > 4 / math.sqrt(2 * columns)
    return largest < 1.25 * spread * (math.sqrt(rows) + math.sqrt(columns)) and not uneven


def _largest_singular_value(part: Floats) -> float:
    """From below, by repeated multiplication; far quicker than all of them."""
    vector = np.ones(part.shape[1])
    for _ in range(30):
        vector = part.T @ (part @ (vector / np.linalg.norm(vector)))
    return math.sqrt(float(np.linalg.norm(vector)))


def _follows(ordered: Floats, cumulative: object) -> bool:
    """Kolmogorov and Smirnov's test."""
    assert callable(cumulative)
    expected = np.clip(cumulative(ordered), 0, 1)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(float(np.abs(expected - steps[1:]).max()), float(np.abs(expected - steps[:-1]).max()))
    return distance * math.sqrt(len(ordered)) < _KOLMOGOROV


def _normal(x: Floats) -> Floats:
    return np.array([math.erf(value) for value in (x * math.sqrt(0.5)).tolist()]) / 2 + 0.5


def _starts(table: Floats, words: str, std: float, padding: list[int]) -> Iterator[str]:
    """Projects whose tables start like that."""
    rows, dim = table.shape
    room = 5 / math.sqrt(2 * table.size) + 1e-3
    near = [name for name, value in (("0.02", 0.02), ("1", 1.0), ("D", dim**-0.5)) if abs(std / value - 1) < room]
    if "cut" in words and "0.02" in near:
        yield "ViT and others in JAX or TensorFlow, N(0, 0.02) cut at ±2 std"
    elif words.startswith("normal"):
        yield from (
            text
            for name, text in (
                ("0.02", "GPT-2 and BERT, N(0, 0.02)"),
                ("1", "torch's nn.Embedding, N(0, 1)"),
                ("D", "fairseq, N(0, dim^−0.5)" + ("" if padding else " (there with a row of zeros for padding)")),
            )
            if name in near
        )
    elif abs(std / math.sqrt(2 / (rows + dim)) - 1) < room:
        yield "xavier-uniform tables, ±√(6/(rows + dim))"
