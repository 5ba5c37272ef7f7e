"""How attention depends on distance: scores of rotary pairs, pairs as they rotate, ALiBi's slopes and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.errors import ParameterError
from pecli.views.pictures.kinds.wavelengths import angular_frequencies, attention_factor, informative_pairs
from pecli.views.pictures.labels import short
from pecli.views.pictures.panels import Chart, CirclePanel, Curve, Picture, PlotRequest, Subject, check_panels, chosen

MAX_POINTS = 1200
MAX_POSITIONS, MAX_TURNS = 2000, 8.0
"""Positions of a spiral, and turns of the pairs that are chosen for one."""
MIN_WEIGHT = 1e-9
"""Weights below this are not drawn."""
MANY_HEADS, FEW_HEADS = 8, 3
"""Heads that are chosen of one subject, and of each of several."""
DEFAULT_KEYS = 1024
"""Keys that a query sees where nobody says how many."""


def decay(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """RoPE's score of q = k and its bound; ALiBi's weights after softmax."""
    biased = [subject.applied_as == "bias" for subject in subjects]
    if all(biased):
        return Picture("attention weight by distance, content aside", [_weights(subjects, request)])
    if any(biased):
        raise ParameterError(
            "kind", "decay", "ALiBi's weights and rotary scores have no common axis", "draw them apart"
        )
    expected, limits, factors = [], [], {}
    for subject in subjects:
        steps = _distances(int(getattr(subject.scheme, "seq_len", 1)))
        factor = attention_factor(subject)
        score, limit = scores(angular_frequencies(subject), steps, factor)
        label = subject.label if len(subjects) > 1 else ""
        expected.append(Curve(label, steps, score))
        limits.append(Curve(label, steps, limit))
        if factor != 1:
            factors[label] = f"{label}{': ' if label else ''}attention factor {short(factor)}"
    charts = [
        Chart("score of q = k, |q| = 1", expected, x="distance", y="score", log_x=True),
        Chart("bound of Su et al. (2021)", limits, x="distance", y="bound, up to a factor", log_x=True),
    ]
    subtitle = f"{'; '.join(factors.values())}: it multiplies q and k, and scores by its square" if factors else ""
    return Picture("how scores fall with distance", charts, across=2, subtitle=subtitle)


def _distances(length: int) -> Floats:
    """Whole numbers from 1 on, all of them or evenly on a logarithmic axis."""
    last = max(2, length - 1)
    if last <= MAX_POINTS:
        return np.arange(1, last + 1, dtype=np.float64)
    return np.unique(np.rint(np.geomspace(1, last, MAX_POINTS)))


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
    alone = len(subjects) == 1
    return Chart("", curves, x="distance", y="weight after softmax", log_y=True, ordered=alone)


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """e^(−m·d) / Σ e^(−m·d'), for a query that sees `length` keys of equal content; NaN where it is next to nothing."""
    total = -np.expm1(-slope * length) / -np.expm1(-slope) if slope else float(length)
    found = np.exp(-slope * distances) / total
    return np.where(found < MIN_WEIGHT, np.nan, found)


class Head(NamedTuple):
    """A head, under the name that tells it from the others."""

    label: str
    slope: float
    keys: int


def slopes(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A point per head; heads are in no order that a line would tell."""
    curves = []
    for subject in subjects:
        values = _slopes(subject)
        label = subject.label if len(subjects) > 1 else ""
        curves.append(Curve(label, np.arange(len(values), dtype=np.float64), values))
    chart = Chart("", curves, x="head", y="slope", log_y=True, points=True, joined=False)
    return Picture("slope of each head", [chart])


def heads_of(subjects: Sequence[Subject], request: PlotRequest) -> Iterator[Head]:
    """The heads that were asked for, or a few of every subject."""
    for subject in subjects:
        values = _slopes(subject)
        prefix = f"{subject.label}, " if len(subjects) > 1 else ""
        keys = int(getattr(subject.scheme, "seq_len", None) or DEFAULT_KEYS)
        for head in chosen(request, len(values), MANY_HEADS if len(subjects) == 1 else FEW_HEADS, "heads"):
            yield Head(f"{prefix}head {head}", float(values[head]), keys)


def _slopes(subject: Subject) -> Floats:
    return widened(next(table for table in subject.tables if table.name == "slopes").array())


def circle(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A spiral per pair: where it points over the table, from the first position to the last."""
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
        panels.append(CirclePanel(f"pair {pair}: {words}", positions * frequencies[pair], positions))
    return Picture("pairs rotating with the position", panels, across=min(3, len(panels)))
