"""Attention by distance: the score of equal rotated vectors, or the weights that ALiBi leaves."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.errors import ParameterError, number
from pecli.views.pictures.downsample import stride
from pecli.views.pictures.kinds.alibi_heads import heads_note, heads_of
from pecli.views.pictures.kinds.frequencies import angular_frequencies, scaled_rope
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture, Spread
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, are_biases
from pecli.views.pictures.titles import names_of, sentence

MAX_POINTS = 1200  #: Distances that are drawn one by one.
MAX_BINS = 300  #: Points of a curve of more distances: about a pixel each.
MAX_TERMS = 1 << 24  #: Terms of all sums over pairs: 262,144 distances of 64 pairs, in a second.
BLOCK_TERMS = 1 << 20  #: Terms that are in memory at a time.
MIN_WEIGHT = 1e-9  #: Weights below this are not drawn.


def decay(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return RoPE's score of q = k and its bound, or ALiBi's weights after softmax."""
    if are_biases(sources):
        return _alibi_weights(sources, request)
    if any(source.applied_as == "bias" for source in sources):
        rule = "ALiBi's weights and rotary scores have no common axis"
        raise ParameterError("kind", "decay", rule, "draw them apart")
    return _rotary_scores(sources)


def _has_heads(source: PlotSource) -> bool:
    """Return True for ALiBi, whose weights are a curve per head; rotary scores sum over all pairs."""
    return source.applied_as == "bias"


DECAY = PictureKind(
    "decay",
    "the score of q = k by distance, with its bound; of ALiBi, weights",
    decay,
    takes_channels=_has_heads,
)


def _alibi_weights(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a curve per head: the weight of a key by its distance, if all keys have equal content."""
    curves = []
    for head in heads_of(sources, request):
        all_distances = np.linspace(0, head.keys - 1, MAX_POINTS)
        distances = np.unique(np.rint(all_distances))
        curves.append(Curve(head.label, distances, weights(head.slope, distances, head.keys)))
    chart = Chart(
        "",
        curves,
        x="distance",
        y="weight after softmax",
        log_y=True,
        ordered=len(sources) == 1,  # Heads of one source have an order, by their slopes.
    )
    title = "attention weight by distance, content aside"
    return Picture(title, [chart], subtitle=heads_note(sources, request))


class _DecayCurves(NamedTuple):
    """The curves of one source: its score of q = k, and the bound of any score, by distance."""

    score: Curve
    bound: Curve
    factor: float  #: The attention factor.


def _rotary_scores(sources: Sequence[PlotSource]) -> Picture:
    """Return two charts with a curve per source: the score of q = k, and the bound of any score."""
    drawn = []
    for source, label in zip(sources, names_of(sources), strict=True):
        drawn.append(_decay_curves(source, label))
    has_spread = any(curves.score.spread is not None for curves in drawn)
    note = ": median, min–max" if has_spread else ""
    score_chart = Chart(
        f"score of q = k, |q| = 1{note}",
        [curves.score for curves in drawn],
        x="distance",
        y="score",
        log_x=True,
    )
    bound_chart = Chart(
        f"bound of Su et al. (2021){note}",
        [curves.bound for curves in drawn],
        x="distance",
        y="bound, 1 if all phases agree",
        log_x=True,
    )
    return Picture(
        "how scores fall with distance",
        [score_chart, bound_chart],
        across=2,
        subtitle=_factor_notes(drawn),
    )


def _decay_curves(source: PlotSource, label: str) -> _DecayCurves:
    """Return the curves of a rotary source, for all distances within its table.

    One is the score of equal vectors q = k. The other is the bound of Su et al. (2021), which holds
    for the scores of any vectors.
    """
    rope = scaled_rope(source)
    factor = 1.0 if rope is None else rope.attention_factor_value()
    frequencies = angular_frequencies(source)
    last_distance = source.scheme.tensors()[0].rows - 1
    # There may be more distances than pixels: each bin of distances becomes one point of a curve.
    bins = binned_distances(last_distance, len(frequencies))
    by_distance = scores(frequencies, bins.distances, factor)
    score_curve = _summary_curve(label, bins, by_distance.score)
    bound_curve = _summary_curve(label, bins, by_distance.bound)
    return _DecayCurves(score_curve, bound_curve, factor)


def _factor_notes(drawn: Sequence[_DecayCurves]) -> str:
    """Return the attention factors of sources that have one, for the caption."""
    notes = []
    for curves in drawn:
        if curves.factor != 1:
            notes.append(_factor_note(curves.score.label, curves.factor))
    if not notes:
        return ""
    return f"{'; '.join(notes)}: it multiplies q and k, and scores by its square"


def _factor_note(label: str, factor: float) -> str:
    """Return «yarn: attention factor 1.139», or without a label «Attention factor 1.139»."""
    note = f"attention factor {number(factor)}"
    if label:
        return f"{label}: {note}"
    return sentence(note)


class BinnedDistances(NamedTuple):
    """Distances in bins, each of which is one point of a curve.

    In bins that double, the distances 1 to 15 are

        distances         1 | 2 3 | 4 5 6 7 | 8 … 15
        first_indices     0   1     3         7
        last_distances    1     3         7       15

    Attributes:
        distances: The distances at which scores are computed, in order. Of a large bin they are
            only every n-th one, as all of them would take too long.
        first_indices: The index in `distances` at which each bin begins.
        last_distances: The last distance of each bin, at which its point is drawn.
    """

    distances: Floats
    first_indices: Indices
    last_distances: Floats


def binned_distances(last: int, pair_count: int) -> BinnedDistances:
    """Return the distances from 1 to `last` in bins, each of which becomes a point of a curve.

    A curve over 131,072 distances would have more points than pixels. It is drawn as the median,
    minimum and maximum of some hundred bins. Up to `MAX_POINTS` distances are a bin each.

    Args:
        last: The largest distance; 2 is taken for less, so that there is a curve.
        pair_count: The pairs over which the score of each distance is summed.
    """
    last = max(2, last)
    if last <= MAX_POINTS:
        distances = np.arange(1.0, last + 1)
        return BinnedDistances(distances, first_indices=np.arange(last), last_distances=distances)
    edges = _bin_edges(last)  # where bins begin: 1, 2, 4, 8, and 16, the end of the last one
    most_per_bin = _most_distances_per_bin(len(edges), pair_count)
    distances_of_bins: list[Floats] = []
    first_indices: list[int] = []
    next_index = 0
    for start, stop in pairwise(edges.tolist()):
        every_nth = stride(stop - start, most_per_bin)  # A large bin has too many distances.
        distances_of_bin = np.arange(start, stop, every_nth, dtype=np.float64)
        distances_of_bins.append(distances_of_bin)
        first_indices.append(next_index)
        next_index += len(distances_of_bin)
    return BinnedDistances(
        distances=np.concatenate(distances_of_bins),
        first_indices=np.array(first_indices),
        last_distances=(edges[1:] - 1).astype(np.float64),
    )


def _most_distances_per_bin(bin_count: int, pair_count: int) -> int:
    """Return how many distances a bin may have so that all scores take at most `MAX_TERMS` terms.

    A score is a sum with a term per pair: 300 bins of 873 distances with 64 pairs have 2^24 terms.
    """
    most_distances = MAX_TERMS // pair_count
    return max(1, most_distances // bin_count)


def _bin_edges(last: int) -> Indices:
    """Return the first distance of each bin, and `last` + 1: a geometric sequence from 1.

    Its bins are equally wide on a logarithmic axis: 1, 2, 4, 8, …, if it doubles.
    """
    sequence = np.geomspace(1, last + 1, MAX_BINS + 1)
    return np.unique(np.rint(sequence)).astype(np.int64)


def _summary_curve(label: str, bins: BinnedDistances, values: Floats) -> Curve:
    """Return the median of each bin, between its smallest and its largest value."""
    if len(bins.first_indices) == len(values):
        return Curve(label, bins.last_distances, values)
    low = np.minimum.reduceat(values, bins.first_indices)
    high = np.maximum.reduceat(values, bins.first_indices)
    medians = [np.median(part) for part in np.split(values, bins.first_indices[1:])]
    return Curve(label, bins.last_distances, np.array(medians), spread=Spread(low, high))


class ScoresByDistance(NamedTuple):
    """The score of q = k and the bound of any score, one value per distance."""

    score: Floats
    bound: Floats


def scores(frequencies: Floats, distances: Floats, factor: float = 1.0) -> ScoresByDistance:
    """Return the score of q = k and the bound of any score, by distance.

    The bound is relative to that at distance 0, which is (n + 1) / 2 for n pairs, so that those of
    different dimensions can share an axis.

    Args:
        frequencies: θ, in radians per position.
        distances: The distances between query and key.
        factor: The attention factor. It multiplies q and k, and a score by its square.
    """
    pair_count = len(frequencies)
    block_count = 1 + len(distances) * pair_count // BLOCK_TERMS  # Memory holds a block at a time.
    blocks = [_plain_scores(frequencies, part) for part in np.array_split(distances, block_count)]
    score = factor**2 * np.concatenate([block.score for block in blocks])
    largest_bound = (pair_count + 1) / 2
    bound = factor**2 * np.concatenate([block.bound for block in blocks]) / largest_bound
    return ScoresByDistance(score, bound)


def _plain_scores(frequencies: Floats, distances: Floats) -> ScoresByDistance:
    """Return scores without an attention factor, and bounds that are not divided by the largest one.

    At distance d, pair j turns by the phase e^{i·d·θ_j}. The score of equal unit vectors is the mean
    of the phases' real parts, cos(d·θ_j). Any other score is a sum of phases with complex weights
    h_0 … h_(n−1). Su et al. (2021) write it with the partial sums S_j, the phases of the pairs 0 to j
    added up, and h_n = 0:

        |Σ h_j · e^{i·d·θ_j}| = |Σ S_j · (h_j − h_(j+1))| ≤ max |h_j − h_(j+1)| · Σ |S_j|

    The maximum depends on the content of q and k. The bound is what the rotation contributes, the
    mean of |S_j|: it is small if the phases point in many directions.
    """
    phases = np.exp(1j * distances[:, None] * frequencies)  # (distances, pairs)
    partial_sums = np.cumsum(phases, axis=1)
    return ScoresByDistance(
        score=phases.real.mean(axis=1),
        bound=np.abs(partial_sums).mean(axis=1),
    )


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """Return the attention weights of a query that sees `length` keys of equal content.

    They are e^(−m·d) / Σ e^(−m·d') for the slope m; NaN if they are next to nothing.
    """
    # The sum over d' from 0 to n − 1 is the geometric series (1 − e^(−m·n)) / (1 − e^(−m)).
    total = float(length)
    if slope:
        total = -np.expm1(-slope * length) / -np.expm1(-slope)
    weight = np.exp(-slope * distances) / total
    return np.where(weight < MIN_WEIGHT, np.nan, weight)
