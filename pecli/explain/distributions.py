"""Whether numbers look like independent draws, from which distribution, and which project starts its tables so."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Floats

_SOME = 1 << 12
_KOLMOGOROV = 1.95
"""√n times the largest distance of the distribution functions: beyond it in one of a thousand samples."""
_CUT = 0.8796256610342398
"""The standard deviation of a normal distribution cut at ±2σ, in σ."""
_PHI_TWO = 0.022750131948179209


def describe(table: Floats) -> list[str]:
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
        f"so start: {', '.join(starts)}" for starts in [list(_starts(table, words, std, padding))] if starts
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
