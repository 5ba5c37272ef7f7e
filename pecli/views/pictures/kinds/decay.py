"""How attention falls with distance, when the content says nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.errors import ParameterError
from pecli.views.pictures.kinds.slopes import heads_of
from pecli.views.pictures.kinds.wavelengths import angles
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish

_POINTS = 1200
FAINTEST = 1e-9
"""Weights below this are not drawn."""


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """RoPE's expected score and its bound; ALiBi's weights after softmax."""
    biased = [subject.applied_as == "bias" for subject in subjects]
    if all(biased):
        return Picture("attention weight by distance", [_weights(subjects, wish)])
    if any(biased):
        raise ParameterError(
            "kind", "decay", "ALiBi's weights and rotary scores have no common axis", "draw them apart"
        )
    expected, limits = [], []
    for subject in subjects:
        steps = _distances(int(getattr(subject.scheme, "seq_len", 1)))
        score, limit = scores(angles(subject.scheme), steps)
        label = subject.label if len(subjects) > 1 else ""
        expected.append(Curve(label, steps, score))
        limits.append(Curve(label, steps, limit))
    charts = [
        Chart("expected score where q = k", expected, x="distance", y="score", log_x=True),
        Chart("bound of Su et al. (2021)", limits, x="distance", y="bound, up to a factor", log_x=True),
    ]
    return Picture("how scores fall with distance", charts, across=2)


def _distances(length: int) -> Floats:
    """Whole numbers from 1 on, all of them or evenly on a logarithmic axis."""
    last = max(2, length - 1)
    if last <= _POINTS:
        return np.arange(1, last + 1, dtype=np.float64)
    return np.unique(np.rint(np.geomspace(1, last, _POINTS)))


def scores(angles: Floats, distances: Floats) -> tuple[Floats, Floats]:
    """The score of equal vectors, the mean of cos(d·θ_i), and what Su et al. (2021) bound any score by, up to a
    factor that is the content's: the mean over i of |Σ e^{i·d·θ_j}|, j = 0 … i.
    """
    phases = np.exp(1j * distances[:, None] * angles)
    return phases.real.mean(axis=1), np.abs(np.cumsum(phases, axis=1)).mean(axis=1)


def _weights(subjects: Sequence[Subject], wish: Wish) -> Chart:
    curves = []
    for head in heads_of(subjects, wish):
        distances = np.unique(np.rint(np.linspace(0, head.keys - 1, _POINTS)))
        curves.append(Curve(head.label, distances, weights(head.slope, distances, head.keys)))
    alone = len(subjects) == 1
    return Chart("", curves, x="distance", y="weight after softmax", log_y=True, ordered=alone)


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """e^(−m·d) / Σ e^(−m·d'), for a query that sees `length` keys of equal content; NaN where it is next to nothing."""
    total = -np.expm1(-slope * length) / -np.expm1(-slope) if slope else float(length)
    found = np.exp(-slope * distances) / total
    return np.where(found < FAINTEST, np.nan, found)
