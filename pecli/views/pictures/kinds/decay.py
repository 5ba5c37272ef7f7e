"""Attention by distance: the score of equal rotated vectors, or the weights that ALiBi leaves."""

from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, number
from pecli.views.pictures.kinds.alibi_heads import heads_of
from pecli.views.pictures.kinds.frequencies import angular_frequencies, scaled_rope
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.subjects import PlotRequest, Subject, are_biases
from pecli.views.pictures.titles import names_of

MAX_POINTS = 1200  #: Distances that are drawn.
MIN_WEIGHT = 1e-9  #: Weights below this are not drawn.


def decay(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """Return RoPE's score of q = k and its bound, or ALiBi's weights after softmax."""
    if are_biases(subjects):
        return _alibi_weights(subjects, request)
    if any(subject.applied_as == "bias" for subject in subjects):
        rule = "ALiBi's weights and rotary scores have no common axis"
        raise ParameterError("kind", "decay", rule, "draw them apart")
    return _rotary_scores(subjects)


DECAY = PictureKind(
    "decay",
    "the score of q = k by distance, with its bound; of ALiBi, weights",
    decay,
    takes_channels=True,
)


def _alibi_weights(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    curves = []
    for head in heads_of(subjects, request):
        distances = np.unique(np.rint(np.linspace(0, head.keys - 1, MAX_POINTS)))
        curves.append(Curve(head.label, distances, weights(head.slope, distances, head.keys)))
    chart = Chart(
        "",
        curves,
        x="distance",
        y="weight after softmax",
        log_y=True,
        ordered=len(subjects) == 1,
    )
    return Picture("attention weight by distance, content aside", [chart])


def _rotary_scores(subjects: Sequence[Subject]) -> Picture:
    scores_by_distance = []
    bounds_by_distance = []
    factor_notes = []
    for subject, label in zip(subjects, names_of(subjects), strict=True):
        assert subject.scheme is not None
        rope = scaled_rope(subject)
        factor = 1.0 if rope is None else rope.attention_factor_value()
        distances = _distances(subject.scheme)
        score, bound = scores(angular_frequencies(subject), distances, factor)
        scores_by_distance.append(Curve(label, distances, score))
        bounds_by_distance.append(Curve(label, distances, bound))
        if factor != 1:
            prefix = f"{label}: " if label else ""
            factor_notes.append(f"{prefix}attention factor {number(factor)}")
    charts = [
        Chart("score of q = k, |q| = 1", scores_by_distance, x="distance", y="score", log_x=True),
        Chart(
            "bound of Su et al. (2021)",
            bounds_by_distance,
            x="distance",
            y="bound, up to a factor",
            log_x=True,
        ),
    ]
    subtitle = ""
    if factor_notes:
        subtitle = f"{'; '.join(factor_notes)}: it multiplies q and k, and scores by its square"
    return Picture("how scores fall with distance", charts, across=2, subtitle=subtitle)


def _distances(scheme: Scheme) -> Floats:
    """Return all distances within a table, or `MAX_POINTS` of them in a geometric sequence."""
    last = max(2, scheme.tensors()[0].rows - 1)
    if last <= MAX_POINTS:
        return np.arange(1.0, last + 1)
    return np.unique(np.rint(np.geomspace(1, last, MAX_POINTS)))


def scores(frequencies: Floats, distances: Floats, factor: float = 1.0) -> tuple[Floats, Floats]:
    """Return the score of q = k and the bound of any score, by distance.

    The score of equal unit vectors at distance d is the mean of cos(d·θ_i) over the pairs i. Su et
    al. (2021) bound any score, up to a factor that depends on the content, by the mean over i of
    |Σ e^{i·d·θ_j}|, where j runs from 0 to i.

    Args:
        frequencies: θ, in radians per position.
        distances: The distances d between query and key.
        factor: The attention factor. It multiplies q and k, and a score by its square.
    """
    phases = np.exp(1j * distances[:, None] * frequencies)
    score = phases.real.mean(axis=1)
    bound = np.abs(np.cumsum(phases, axis=1)).mean(axis=1)
    return factor**2 * score, factor**2 * bound


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """Return the attention weights of a query that sees `length` keys of equal content.

    They are e^(−m·d) / Σ e^(−m·d') for the slope m; NaN if they are next to nothing.
    """
    if slope:
        total = -np.expm1(-slope * length) / -np.expm1(-slope)
    else:
        total = float(length)
    weight = np.exp(-slope * distances) / total
    return np.where(weight < MIN_WEIGHT, np.nan, weight)
