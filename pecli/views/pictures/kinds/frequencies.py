"""Pictures of frequencies and slopes: wavelengths and contexts, scores and weights by distance, rotating pairs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.engine.scalings.yarn import DEFAULTS
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError, number
from pecli.views.pictures.panels import Band, Chart, Curve, Level, Picture
from pecli.views.pictures.subjects import PlotRequest, Subject, check_panels, chosen, names_of

WINDOW = "sliding window"
REL_TOL = 1e-9
LIMITS = {"yarn": ("beta_fast", "beta_slow"), "llama3": ("high_freq_factor", "low_freq_factor")}
"""Scalings that keep some pairs and stretch others: turns above and below which they do."""
MAX_POINTS = 1200
MAX_POSITIONS, MAX_TURNS = (
    2000,
    8.0,
)  #: Positions of a spiral, and turns of the pairs that are chosen for one
MIN_WEIGHT = 1e-9  #: Weights below this are not drawn
MANY_HEADS, FEW_HEADS = 8, 3  #: Heads that are chosen of one subject, and of each of several
DEFAULT_KEYS = 1024  #: Keys that a query sees where nobody says how many


def wavelengths(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A curve per subject, and what its scaling does: the bands it treats alike, and the stretch of every pair. The
    contexts of one subject are lines across the chart, those of several are dots on their curves."""
    waves = [wave for subject in subjects for wave in waves_of(subject)]
    several, rope = len(subjects) > 1, scaled_rope(subjects[0])
    every_stretch = [_stretch(subject) for subject, _ in waves]
    scaled = any(map(_is_scaled, every_stretch))
    shares = len(set(map(len, every_stretch))) > 1
    curves, stretches, words = [], [], []
    for (subject, read_at), stretch in zip(waves, every_stretch, strict=True):
        x = np.arange(len(stretch)) / (len(stretch) if shares else 1)
        parts = [subject.label, read_at, _contexts_in_words(subject)]
        label = ", ".join(filter(None, parts)) if several else read_at or "scaled" * scaled
        curves.append(
            Curve(label, x, _lengths(subject), marks=_marks(subject, x) if several else ())
        )
        stretches.append(Curve("", x, stretch if _is_scaled(stretch) else np.full(len(x), np.nan)))
        words.append(_scaling(subject, several))
    axis = "pair, as a share of all" if shares else "pair"
    shown: list[Band] = []
    if scaled and not several and rope is not None:
        shown = bands(every_stretch[0]) if len(waves) == 1 else []
        curves.append(Curve("unscaled", curves[0].x, unscaled_wavelengths(rope), reference=True))
        words.append("; ".join(_in_words(rope, band) for band in shown))
    words.append("dots: contexts and windows" if any(curve.marks for curve in curves) else "")
    lengths = {} if several else contexts(subjects[0])
    levels = [Level(f"{word} {length:,.0f}", length) for length, word in sorted(lengths.items())]
    panels = [
        Chart("", curves, axis, "wavelength, in positions", log_y=True, levels=levels, bands=shown)
    ]
    if scaled:
        unlabelled = [band._replace(label="") for band in shown]
        panels.append(Chart("", stretches, axis, "stretch", bands=unlabelled, share=0.3))
    rotary = all(subject.applied_as == "rotation" for subject in subjects)
    title = f"wavelength of each {'rotary' if rotary else 'sine and cosine'} pair"
    return Picture(title, panels, 1, ". ".join(dict.fromkeys(filter(None, words))))


def waves_of(subject: Subject) -> list[tuple[Subject, str]]:
    """The subject; of a scaling that follows the length, at the lengths that matter, each in words."""
    rope = scaled_rope(subject)
    if rope is None or rope.length is not None or "length" not in rope.scaling_value.names():
        return [(subject, "")]
    trained = (
        rope.original_max_position_embeddings
        or rope.max_position_embeddings
        or rope.effective_length
    )
    longest = max(
        subject.context or rope.max_position_embeddings or 0, rope.effective_length, trained
    )
    if rope.long_factor is not None:
        words = {
            trained: f"short factors, up to {trained:,}",
            trained + 1: f"long factors, beyond {trained:,}",
        }
    else:
        words = {trained: f"up to {trained:,}", longest: f"at length {longest:,}"}
    return [
        (subject._replace(scheme=replace(rope, length=length)), word)
        for length, word in words.items()
    ]


def _lengths(subject: Subject) -> Floats:
    return 2 * math.pi / angular_frequencies(subject)


def _stretch(subject: Subject) -> Floats:
    """By how much each wavelength was stretched, to digits that are exact; pairs that do not rotate have none."""
    rope, lengths = scaled_rope(subject), _lengths(subject)
    return np.round(lengths / (lengths if rope is None else unscaled_wavelengths(rope)), 9)


def _is_scaled(stretch: Floats) -> bool:
    return bool(np.any(np.abs(stretch[np.isfinite(stretch)] - 1) > REL_TOL))


def unscaled_wavelengths(rope: Rope) -> Floats:
    """2π · b^(2i/d), the law before any scaling."""
    pairs = np.arange(rope.rotary_dim // 2)
    return np.asarray(2 * math.pi * rope.base ** (2 * pairs / rope.exponent_dim))


def angular_frequencies(subject: Subject) -> Floats:
    """Radians per position, pair by pair."""
    assert subject.scheme is not None
    return np.array(subject.scheme.angular_frequencies(), np.float64)


def scaled_rope(subject: Subject) -> Rope | None:
    """The scheme of a subject that has a scaling; these are RoPE's alone."""
    return cast("Rope", subject.scheme) if subject.value_of("scaling", "none") != "none" else None


def _scaling(subject: Subject, several: bool) -> str:
    rope = scaled_rope(subject)
    if rope is None:
        return ""
    factor = f", factor {number(rope.factor)}" if rope.factor is not None else ""
    whose = f"{subject.label}: " if several else ""
    return f"{whose}{rope.scaling} scaling{factor}, attention factor {number(rope.attention_factor_value())}"


def bands(stretch: Floats) -> list[Band]:
    """The pairs that are kept, those that are stretched by one factor, and those in between."""
    largest = float(np.nanmax(stretch))
    kept, full = np.abs(stretch - 1) <= REL_TOL, np.abs(stretch / largest - 1) <= REL_TOL
    if not (kept.any() or full.sum() > 1):
        return []  # every pair has a factor of its own
    words = np.where(kept, "kept", np.where(full, f"stretched ×{number(largest)}", "blended"))
    edges = [0, *(np.flatnonzero(words[1:] != words[:-1]) + 1).tolist(), len(words)]
    found = [Band(str(words[a]), float(a), float(b - 1)) for a, b in pairwise(edges)]
    return found if len(found) <= 3 else []


def _in_words(rope: Rope, band: Band) -> str:
    """A band by its pairs, and by the turns that limit it."""
    count = (
        f"pair {band.start:.0f}"
        if band.start == band.stop
        else f"pairs {band.start:.0f}–{band.stop:.0f}"
    )
    if rope.scaling not in LIMITS:
        return f"{band.label}: {count}"
    fast, slow = (getattr(rope, name) or DEFAULTS[name] for name in LIMITS[rope.scaling])
    turns = {"kept": f" (over {number(fast)} turns)", "blended": ""}.get(
        band.label, f" (under {number(slow)})"
    )
    return f"{band.label}: {count}{turns}"


def contexts(subject: Subject) -> dict[float, str]:
    """The lengths that matter to a scheme: what a model was trained on, how far scaling takes it, its window."""
    lengths = subject.scheme.contexts(subject.context) if subject.scheme is not None else {}
    return {**({float(subject.window): WINDOW} if subject.window else {}), **lengths}


def _contexts_in_words(subject: Subject) -> str:
    """For example «8,192 → 131,072, window 512»."""
    known = {length: word for length, word in sorted(contexts(subject).items()) if word != "length"}
    lengths = " → ".join(f"{length:,.0f}" for length, word in known.items() if word != WINDOW)
    return ", ".join(
        filter(None, [lengths, f"window {subject.window:,}" if subject.window else ""])
    )


def _marks(subject: Subject, x: Floats) -> list[tuple[float, float]]:
    lengths = _lengths(subject)
    turning = np.isfinite(lengths)
    heights, x = np.log(lengths[turning]), x[turning]
    reached = [length for length, word in contexts(subject).items() if word != "length"]
    inside = [length for length in reached if heights[0] <= math.log(length) <= heights[-1]]
    return [(float(np.interp(math.log(length), heights, x)), length) for length in inside]


def informative_pairs(frequencies: Floats, length: int, most: int, turns: float) -> list[int]:
    """A few pairs that make between so many turns and half a turn over the length, the fastest first."""
    with np.errstate(divide="ignore"):
        places = np.log(frequencies * max(1, length - 1) / (2 * math.pi))
    wanted = np.linspace(math.log(turns), math.log(0.5), most)
    found: list[int] = []
    for place in wanted.tolist()[: len(frequencies)]:
        away = np.abs(places - place)
        away[found] = np.nan
        found.append(int(np.nanargmin(away)))
    found.sort(key=lambda pair: (-frequencies[pair], pair))
    return [pair for pair in found if places[pair] < math.log(1.6 * turns)] or found[
        -2:
    ]  # more would be bands


def decay(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """RoPE's score of q = k and its bound; ALiBi's weights after softmax."""
    biased = [subject.applied_as == "bias" for subject in subjects]
    if all(biased):
        drawn = []
        for label, slope, keys in heads_of(subjects, request):
            distances = np.unique(np.rint(np.linspace(0, keys - 1, MAX_POINTS)))
            drawn.append(Curve(label, distances, weights(slope, distances, keys)))
        chart = Chart(
            "",
            drawn,
            x="distance",
            y="weight after softmax",
            log_y=True,
            ordered=len(subjects) == 1,
        )
        return Picture("attention weight by distance, content aside", [chart])
    if any(biased):
        rule = "ALiBi's weights and rotary scores have no common axis"
        raise ParameterError("kind", "decay", rule, "draw them apart")
    expected, limits, factors = [], [], []
    for subject, label in zip(subjects, names_of(subjects), strict=True):
        last = max(2, int(subject.value_of("seq_len", 1)) - 1)
        steps = (
            np.unique(np.rint(np.geomspace(1, last, MAX_POINTS)))
            if last > MAX_POINTS
            else np.arange(1.0, last + 1)
        )
        rope = scaled_rope(subject)
        factor = rope.attention_factor_value() if rope is not None else 1.0
        score, limit = scores(angular_frequencies(subject), steps, factor)
        expected.append(Curve(label, steps, score))
        limits.append(Curve(label, steps, limit))
        if factor != 1:
            factors.append(f"{label}{': ' if label else ''}attention factor {number(factor)}")
    charts = [
        Chart("score of q = k, |q| = 1", expected, x="distance", y="score", log_x=True),
        Chart(
            "bound of Su et al. (2021)", limits, x="distance", y="bound, up to a factor", log_x=True
        ),
    ]
    subtitle = (
        f"{'; '.join(factors)}: it multiplies q and k, and scores by its square" if factors else ""
    )
    return Picture("how scores fall with distance", charts, across=2, subtitle=subtitle)


def scores(frequencies: Floats, distances: Floats, factor: float = 1.0) -> tuple[Floats, Floats]:
    """The score of equal unit vectors, the mean of cos(d·θ_i), and what Su et al. (2021) bound any score by, up to a
    factor that is the content's: the mean over i of |Σ e^{i·d·θ_j}|, j = 0 … i. Both times the square of the attention
    factor, which multiplies q and k."""
    phases = np.exp(1j * distances[:, None] * frequencies)
    score, bound = phases.real.mean(axis=1), np.abs(np.cumsum(phases, axis=1)).mean(axis=1)
    return factor**2 * score, factor**2 * bound


def weights(slope: float, distances: Floats, length: int) -> Floats:
    """e^(−m·d) / Σ e^(−m·d'), for a query that sees `length` keys of equal content; NaN where it is next to nothing."""
    total = -np.expm1(-slope * length) / -np.expm1(-slope) if slope else float(length)
    weight = np.exp(-slope * distances) / total
    return np.where(weight < MIN_WEIGHT, np.nan, weight)


def heads_of(subjects: Sequence[Subject], request: PlotRequest) -> Iterator[tuple[str, float, int]]:
    """The heads that were asked for, or a few of every subject: name, slope, and the keys that a query sees."""
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        values = _slopes(subject)
        keys = int(subject.value_of("seq_len") or DEFAULT_KEYS)
        for head in chosen(
            request, len(values), MANY_HEADS if len(subjects) == 1 else FEW_HEADS, "heads"
        ):
            yield f"{name and name + ', '}head {head}", float(values[head]), keys


def slopes(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A point per head; heads are in no order that a line would tell."""
    every = zip(names_of(subjects), map(_slopes, subjects), strict=True)
    curves = [
        Curve(name, np.arange(len(values), dtype=np.float64), values) for name, values in every
    ]
    return Picture(
        "slope of each head", [Chart("", curves, x="head", y="slope", log_y=True, joined=False)]
    )


def _slopes(subject: Subject) -> Floats:
    return widened(next(table for table in subject.tables if table.name == "slopes").array())


def circle(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A spiral per pair: where it points over the table, from the first position in the middle to the last."""
    if len(subjects) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (subject,) = subjects
    frequencies, length = angular_frequencies(subject), int(subject.value_of("seq_len", 1))
    positions = subject.first + np.linspace(0, length - 1, min(length, MAX_POSITIONS))
    pairs = informative_pairs(frequencies, length, 6, MAX_TURNS)
    if request.channels:
        pairs = chosen(request, len(frequencies), 6, "pairs")
    check_panels(len(pairs))
    panels = []
    for pair, frequency in zip(pairs, frequencies[pairs].tolist(), strict=True):
        turns = frequency * max(1, length - 1) / (2 * math.pi)
        words = (
            f"{turns:,.0f} turns"
            if turns >= 100
            else f"{turns:.2g} turns"
            if turns
            else "does not rotate"
        )
        spiral = Curve("", positions * frequency, positions)
        panels.append(
            Chart(f"pair {pair}: {words}", [spiral], "angle", "position", joined=False, polar=True)
        )
    return Picture(f"pairs turning over {length:,} positions", panels, min(3, len(panels)))
