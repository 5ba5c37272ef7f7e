"""How positions relate: similar rows, scores and weights by distance, pairs as they rotate, ALiBi's slopes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError, number
from pecli.views.pictures.downsample import check_width, stride
from pecli.views.pictures.kinds.wavelengths import angular_frequencies, attention_factor, informative_pairs
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, PlotRequest, Subject, check_panels, chosen

MAX_SAMPLES = 512  #: Positions of a similarity matrix
MAX_DISTANCES, MAX_ELEMENTS = 4096, 1 << 24  #: Positions whose distances are looked at, and their elements
MAX_WIDTH = 16384
MAX_MAP_POINTS = 1 << 18  #: Points of a grid that are drawn
MAX_POINTS = 1200
MAX_POSITIONS, MAX_TURNS = 2000, 8.0  #: Positions of a spiral, and turns of the pairs that are chosen for one
MIN_WEIGHT = 1e-9  #: Weights below this are not drawn
MANY_HEADS, FEW_HEADS = 8, 3  #: Heads that are chosen of one subject, and of each of several
DEFAULT_KEYS = 1024  #: Keys that a query sees where nobody says how many


def similarity(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A matrix per subject, and one chart for all."""
    check_panels(len(subjects))
    panels: list[HeatmapPanel | Chart] = []
    curves, looked, several = [], 0, len(subjects) > 1
    for subject in subjects:
        table = vectors(subject)
        every = stride(table.rows, min(request.rows, MAX_SAMPLES))
        sampled = directions(widened(table.pick(np.arange(0, table.rows, every))))
        words = [subject.label if several else "", "" if several else "all pairs of positions"]
        cosines = sampled @ sampled.T
        panels.append(
            HeatmapPanel(
                ", ".join(filter(None, [words[0], "pairs of sampled positions"] if every > 1 else words)),
                cosines,
                columns="position",
                first_row=subject.first,
                table_shape=(table.rows, table.rows),
                limits=_limits(cosines),
                reduce="sample",
            )
        )
        start = replace(table, shape=(min(table.rows, MAX_DISTANCES, MAX_ELEMENTS // table.width), table.width))
        rows = directions(widened(start.array()))
        looked = max(looked, len(rows)) if table.rows > len(rows) else looked
        curves.append(Curve(words[0], np.arange(len(rows), dtype=np.float64), by_distance(rows)))
    note = f", of the first {looked:,} positions" if looked else ""
    panels.append(Chart(f"mean by distance{note}", curves, x="distance", y="cosine similarity"))
    across = 2 if len(subjects) in (1, 2, 4) else min(3, len(subjects))
    return Picture("cosine similarity of positions", panels, across)


def _limits(cosines: Floats) -> tuple[float, float]:
    """All that cosines can be; those of the data where none is negative, or little of the colours would be used."""
    low = float(np.nanmin(cosines)) if np.isfinite(cosines).any() else -1.0
    return (low, 1.0) if 0 <= low < 1 else (-1.0, 1.0)


def vectors(subject: Subject) -> Table:
    """The rows that stand for positions; for RoPE cosines and sines side by side."""
    tables = subject.matrices
    if subject.applied_as == "rotation":
        cos, sin = (next(table for table in tables if table.name == name) for name in ("cos", "sin"))

        def fill(start: int, out: Array) -> None:
            cos.fill(start, out[:, : cos.width])
            sin.fill(start, out[:, cos.width :])

        return replace(cos, name="cos, sin", shape=(cos.rows, 2 * cos.width), fill=fill)
    if len(tables) != 1:
        names = f": {', '.join(table.name for table in tables[:8])}" if tables else ""
        rule = f"{subject.label} has {len(tables)} tables with rows and columns{names}"
        raise ParameterError("kind", "similarity", rule, "name one as FILE:NAME" if tables else "")
    check_width(tables[0], "similarity", MAX_WIDTH)
    return tables[0]


def directions(rows: Floats) -> Floats:
    """Each row divided by its norm; a row of zeros, or one that is not finite, has no direction, and is NaN."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)  # whose squares neither overflow nor vanish
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def by_distance(rows: Floats) -> Floats:
    """The mean of p·q over all positions at each distance, through the power spectrum; rows of NaN do not count."""
    length = len(rows)
    known: Floats = np.asarray(np.isfinite(rows).all(axis=1, keepdims=True), np.float64)
    products = _autocorrelation(np.where(known > 0, rows, 0.0))
    pairs = np.rint(_autocorrelation(known))
    return np.asarray(np.divide(products, pairs, out=np.full(length, np.nan), where=pairs > 0))


def _autocorrelation(rows: Floats) -> Floats:
    size = 1 << (2 * len(rows) - 1).bit_length()
    power = np.zeros(size // 2 + 1)
    step = max(1, (1 << 22) // size)
    for first in range(0, rows.shape[1], step):
        power += np.sum(np.abs(np.fft.rfft(rows[:, first : first + step], size, axis=0)) ** 2, axis=1)
    return np.asarray(np.fft.irfft(power, size)[: len(rows)])


def patch(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The patch in the middle, compared with every other."""
    panels = []
    for subject in subjects:
        rows = grid_rows(subject)
        parts = [widened(table.pick(rows.reshape(-1))) for table in subject.matrices]
        vectors = np.concatenate(parts, axis=1)
        size = np.linalg.norm(vectors, axis=1)
        row, column = rows.shape[0] // 2, rows.shape[1] // 2
        middle = row * rows.shape[1] + column
        alike = vectors @ vectors[middle] / np.where(size > 0, size * size[middle], 1)
        title = f"row {row}, column {column}" if len(subjects) == 1 else subject.label
        values = alike.reshape(rows.shape)
        panels.append(
            HeatmapPanel(title, values, "row", "column", limits=_limits(values), meaning="cosine similarity"),
        )
    return Picture("similarity of one patch to all others", panels, min(2, len(panels)))


def grid_rows(subject: Subject) -> Indices:
    """Which row of the table each point of the first frame has: (H, W)."""
    scheme = subject.scheme
    grid, style = getattr(scheme, "grid", None), getattr(scheme, "grid_style", None)
    assert grid is not None
    assert style is not None
    height, width = grid[-2:]
    if height * width > MAX_MAP_POINTS:
        raise ParameterError("the picture", "too large", f"a map has at most {MAX_MAP_POINTS:,} points")
    keep = 0 if style.keep_last else getattr(scheme, "keep", None) or 0
    m = style.merge
    blocks = np.arange(height * width).reshape(height // m, width // m, m, m)
    return keep + blocks.transpose(0, 2, 1, 3).reshape(height, width)


def decay(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """RoPE's score of q = k and its bound; ALiBi's weights after softmax."""
    biased = [subject.applied_as == "bias" for subject in subjects]
    if all(biased):
        return Picture("attention weight by distance, content aside", [_weights(subjects, request)])
    if any(biased):
        rule = "ALiBi's weights and rotary scores have no common axis"
        raise ParameterError("kind", "decay", rule, "draw them apart")
    expected, limits, factors = [], [], []
    for subject in subjects:
        last = max(2, int(getattr(subject.scheme, "seq_len", 1)) - 1)
        steps = np.unique(np.rint(np.geomspace(1, last, MAX_POINTS))) if last > MAX_POINTS else np.arange(1.0, last + 1)
        factor = attention_factor(subject)
        score, limit = scores(angular_frequencies(subject), steps, factor)
        label = subject.label if len(subjects) > 1 else ""
        expected.append(Curve(label, steps, score))
        limits.append(Curve(label, steps, limit))
        if factor != 1:
            factors.append(f"{label}{': ' if label else ''}attention factor {number(factor)}")
    charts = [
        Chart("score of q = k, |q| = 1", expected, x="distance", y="score", log_x=True),
        Chart("bound of Su et al. (2021)", limits, x="distance", y="bound, up to a factor", log_x=True),
    ]
    subtitle = f"{'; '.join(factors)}: it multiplies q and k, and scores by its square" if factors else ""
    return Picture("how scores fall with distance", charts, across=2, subtitle=subtitle)


def scores(frequencies: Floats, distances: Floats, factor: float = 1.0) -> tuple[Floats, Floats]:
    """The score of equal unit vectors, the mean of cos(d·θ_i), and what Su et al. (2021) bound any score by, up to a
    factor that is the content's: the mean over i of |Σ e^{i·d·θ_j}|, j = 0 … i. Both times the square of the attention
    factor, which multiplies q and k.
    """
    phases = np.exp(1j * distances[:, None] * frequencies)
    score, bound = phases.real.mean(axis=1), np.abs(np.cumsum(phases, axis=1)).mean(axis=1)
    return factor**2 * score, factor**2 * bound


def _weights(subjects: Sequence[Subject], request: PlotRequest) -> Chart:
    curves = []
    for head in heads_of(subjects, request):
        distances = np.unique(np.rint(np.linspace(0, head.keys - 1, MAX_POINTS)))
        curves.append(Curve(head.label, distances, weights(head.slope, distances, head.keys)))
    return Chart("", curves, x="distance", y="weight after softmax", log_y=True, ordered=len(subjects) == 1)


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """e^(−m·d) / Σ e^(−m·d'), for a query that sees `length` keys of equal content; NaN where it is next to nothing."""
    total = -np.expm1(-slope * length) / -np.expm1(-slope) if slope else float(length)
    weight = np.exp(-slope * distances) / total
    return np.where(weight < MIN_WEIGHT, np.nan, weight)


class Head(NamedTuple):
    """A head, under the name that tells it from the others."""

    label: str
    slope: float
    keys: int


def heads_of(subjects: Sequence[Subject], request: PlotRequest) -> Iterator[Head]:
    """The heads that were asked for, or a few of every subject."""
    for subject in subjects:
        values = _slopes(subject)
        prefix = f"{subject.label}, " if len(subjects) > 1 else ""
        keys = int(getattr(subject.scheme, "seq_len", None) or DEFAULT_KEYS)
        for head in chosen(request, len(values), MANY_HEADS if len(subjects) == 1 else FEW_HEADS, "heads"):
            yield Head(f"{prefix}head {head}", float(values[head]), keys)


def slopes(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A point per head; heads are in no order that a line would tell."""
    curves = []
    for subject in subjects:
        values = _slopes(subject)
        label = subject.label if len(subjects) > 1 else ""
        curves.append(Curve(label, np.arange(len(values), dtype=np.float64), values))
    return Picture("slope of each head", [Chart("", curves, x="head", y="slope", log_y=True, joined=False)])


def _slopes(subject: Subject) -> Floats:
    return widened(next(table for table in subject.tables if table.name == "slopes").array())


def circle(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A spiral per pair: where it points over the table, from the first position in the middle to the last."""
    if len(subjects) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (subject,) = subjects
    frequencies = angular_frequencies(subject)
    length = int(getattr(subject.scheme, "seq_len", 1))
    positions = subject.first + np.linspace(0, length - 1, min(length, MAX_POSITIONS))
    if request.channels:
        pairs = chosen(request, len(frequencies), 6, "pairs")
    else:
        pairs = informative_pairs(frequencies, length, 6, MAX_TURNS)
    check_panels(len(pairs))
    panels = []
    for pair in pairs:
        turns = float(frequencies[pair]) * max(1, length - 1) / (2 * np.pi)
        words = f"{turns:,.0f} turns" if turns >= 100 else f"{turns:.2g} turns" if turns else "does not rotate"
        spiral = Curve("", positions * frequencies[pair], positions)
        panels.append(Chart(f"pair {pair}: {words}", [spiral], "angle", "position", joined=False, polar=True))
    return Picture("pairs rotating with the position", panels, across=min(3, len(panels)))
