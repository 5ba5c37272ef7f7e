"""What can be said of a table that no scheme explains: shape, range, repetitions, rank, distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain.sample import Sample

MAX_SIDE = 256  # rows and columns that are looked at closely
MAX_DRAWS = 1 << 12  # elements whose distribution is tested
KOLMOGOROV = 1.95  # √n times the largest distance of the distribution functions: beyond it in one of a thousand samples
CUT_STD = 0.8796256610342398  # the standard deviation of a normal distribution cut at ±2σ, in σ
BELOW_CUT = 0.022750131948179209  # the probability that a normal number is below −2σ
MAX_MEAN_SIGMAS = 6.0  # standard errors by which the mean of independent draws may be off zero


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
    finite = np.abs(finite) if np.iscomplexobj(values) else finite
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        head += f", all {low:g}" if low == high else f", from {low:.6g} to {high:.6g}, std {float(finite.std()):.4g}"
    if strange or np.iscomplexobj(values) or not np.isfinite(values.std()) or not np.ptp(values):
        return [head]
    table = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values[:, None]
    drawn = distribution(table) if table.size >= 2 * MAX_SIDE and independent(table[:MAX_SIDE, :MAX_SIDE]) else ""
    return [head, f"looks like independent draws: {drawn}"] if drawn else [head, *_structure(table)]


def independent(values: Floats) -> bool:
    """Whether neighbours are as unlike each other as draws are, whose mean is zero."""
    values = values / values.std()
    products = (values, values[:, 1:] * values[:, :-1], values[1:] * values[:-1])
    return all(abs(each.mean()) * math.sqrt(each.size) < MAX_MEAN_SIGMAS for each in products if each.size)


def _structure(table: Floats) -> Iterator[str]:
    part = table[:MAX_SIDE, :MAX_SIDE]
    for name, lines in (("rows", part), ("columns", part.T)):
        count = len(np.unique(lines, axis=0))
        if count < len(lines):
            yield f"{count} different {name} among {len(lines)}"
    if min(part.shape) > 1:
        if np.abs(part[1:, 1:] - part[:-1, :-1]).max() <= 1e-6 * np.abs(part).max():
            yield "constant along its diagonals (Toeplitz)"
        singular = np.linalg.svd(part, compute_uv=False)
        rank = np.count_nonzero(singular > 1e-5 * singular[0])  # the rounding of the coarsest dtypes
        if 0 < rank < len(singular):
            yield f"of rank {rank}, not {len(singular)}"


def distribution(table: Floats) -> str:
    """The distribution that the elements follow, in words; nothing where it is none of these."""
    flat = table.reshape(-1)
    std, largest = float(flat.std()), float(np.abs(flat).max())
    some = np.sort(flat[:: max(1, len(flat) // MAX_DRAWS)]) / std
    for most, cumulative, words in (
        (
            2.4,
            lambda x: (_normal(CUT_STD * x) - BELOW_CUT) / (1 - 2 * BELOW_CUT),
            f"normal, std {std / CUT_STD:.4g}, cut at ±2 std",
        ),  # of 500 normal numbers hardly ever all
        (math.inf, _normal, f"normal, std {std:.4g}"),
        (1.8, lambda x: x / math.sqrt(12) + 0.5, f"uniform, from −{largest:.4g} to {largest:.4g}"),
    ):
        if largest < most * std and _follows(some, cumulative):
            return words
    return ""


def _follows(ordered: Floats, cumulative: Callable[[Floats], Floats]) -> bool:
    """Kolmogorov and Smirnov's test."""
    expected = np.clip(cumulative(ordered), 0, 1)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(float(np.abs(expected - steps[1:]).max()), float(np.abs(expected - steps[:-1]).max()))
    return distance * math.sqrt(len(ordered)) < KOLMOGOROV


def _normal(x: Floats) -> Floats:
    return np.array([math.erf(value) for value in (x * math.sqrt(0.5)).tolist()]) / 2 + 0.5
