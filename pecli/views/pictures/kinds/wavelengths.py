"""How long the wave of each pair is, beside the contexts that it has to span: the picture that explains scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.views.pictures.labels import short
from pecli.views.pictures.panels import Band, Chart, Curve, Mark, Picture, PlotRequest, Subject

TRAINED, EXTENDED, CONTEXT, WINDOW = "trained on", "extended to", "context", "sliding window"
MAX_LINES, MAX_LETTERS = 2, 24
"""Subjects whose contexts are lines across the chart, and letters of their names; else they are dots on the curves."""
REL_TOL = 1e-9
LIMITS = {
    "yarn": (("beta_fast", 32.0), ("beta_slow", 1.0)),
    "llama3": (("high_freq_factor", 4.0), ("low_freq_factor", 1.0)),
}
"""Scalings that keep some pairs and stretch others: turns within the training length from which on a pair is kept, and
below which it is stretched; with what counts where they are not given.
"""


class Waves(NamedTuple):
    """One curve: a subject's wavelengths, as read at one length, and by how much each of them was stretched."""

    label: str
    lengths: Floats
    stretch: Floats
    subject: Subject

    @property
    def is_scaled(self) -> bool:
        """Whether pairs are stretched; those that do not rotate have no stretch."""
        return bool(np.any(np.abs(self.stretch[np.isfinite(self.stretch)] - 1) > REL_TOL))


def wavelengths(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A curve per subject, and what its scaling does: the bands it treats alike, and the stretch of every pair."""
    waves = [each for subject in subjects for each in waves_of(subject)]
    several, crowded = len(subjects) > 1, _is_crowded(subjects)
    curves, marks, stretches = [], [], []
    for number, each in enumerate(waves):
        pairs = np.arange(len(each.lengths), dtype=np.float64)
        x = pairs / len(pairs) if several else pairs
        name = _with_contexts(each) if crowded else each.label
        curves.append(Curve(name, x, each.lengths))
        stretches.append(Curve("", x, each.stretch if each.is_scaled else np.full(len(x), np.nan)))
        marks += _marks(number, each, x) if crowded else []
    axis = "pair / pairs" if several else "pair"
    chart = Chart(
        "",
        curves,
        x=axis,
        y="wavelength, in positions",
        log_y=True,
        levels=[] if crowded else _levels(subjects),
        marks=marks,
        points=not several,
    )
    panels = [chart]
    if any(each.is_scaled for each in waves):
        ends = np.array([0.0, max(curve.x[-1] for curve in curves)])
        scaled = np.concatenate([each.stretch for each in waves if each.is_scaled])
        ticks = [1.0, float(scaled[np.isfinite(scaled)].max())]
        stretches.append(Curve("", ends, np.ones(2), reference=True))
        panels.append(Chart("", stretches, x=axis, y="stretch", points=not several, ticks=ticks, share=0.3))
    subtitle = "; ".join(dict.fromkeys(filter(None, (_scaling(each, several) for each in waves))))
    if not several:
        panels, more = _explained(panels, waves)
        subtitle = ". ".join(filter(None, [subtitle, more]))
    rotary = all(subject.applied_as == "rotation" for subject in subjects)
    return Picture(f"wavelength of each {'rotary' if rotary else 'sine and cosine'} pair", panels, 1, subtitle)


def _is_crowded(subjects: Sequence[Subject]) -> bool:
    names = [len(subject.label) for subject in subjects]
    return len(names) > MAX_LINES or (len(names) > 1 and max(names) > MAX_LETTERS)


def waves_of(subject: Subject) -> list[Waves]:
    """The wavelengths of a subject; of a scaling that follows the length, at the lengths that matter."""
    rope = scaled_rope(subject)
    if rope is None or rope.length is not None or "length" not in _parameters_of(rope):
        return [_waves(subject, subject.label)]
    trained = rope.original_max_position_embeddings or rope.max_position_embeddings or rope.effective_length
    longest = max(subject.context or rope.max_position_embeddings or 0, rope.effective_length)
    if rope.long_factor is not None:
        words = {trained: f"short factors, up to {trained:,}", trained + 1: f"long factors, beyond {trained:,}"}
    else:
        words = {trained: f"up to {trained:,}", max(longest, trained): f"at length {max(longest, trained):,}"}
    return [
        _waves(subject._replace(scheme=replace(rope, length=length)), f"{subject.label}, {word}")
        for length, word in words.items()
    ]


def _parameters_of(rope: Rope) -> tuple[str, ...]:
    """What the scaling of a scheme takes."""
    return rope.scaling_value.required() + rope.scaling_value.optional()


def _waves(subject: Subject, label: str) -> Waves:
    with np.errstate(divide="ignore"):
        lengths = 2 * math.pi / angular_frequencies(subject)
    rope = scaled_rope(subject)
    with np.errstate(invalid="ignore"):
        stretch = lengths / (lengths if rope is None else unscaled_wavelengths(rope))
    return Waves(label, lengths, np.round(stretch, 9), subject)  # so many digits are exact


def unscaled_wavelengths(rope: Rope) -> Floats:
    """2π · b^(2i/d), the law before any scaling."""
    pairs = np.arange(rope.rotary_dim // 2)
    return np.asarray(2 * math.pi * rope.base ** (2 * pairs / rope.exponent_dim))


def angular_frequencies(subject: Subject) -> Floats:
    """Radians per position, pair by pair."""
    assert subject.scheme is not None
    return np.array(subject.scheme.angular_frequencies(), np.float64)


def attention_factor(subject: Subject) -> float:
    """What cos and sin are multiplied by."""
    rope = scaled_rope(subject)
    return rope.attention_factor_value() if rope is not None else 1.0


def scaled_rope(subject: Subject) -> Rope | None:
    """The scheme of a subject that has a scaling; these are RoPE's alone."""
    return cast("Rope", subject.scheme) if getattr(subject.scheme, "scaling", "none") != "none" else None


def _read_as(waves: Waves) -> str:
    """What tells the curves of one subject apart: at which length it was read."""
    return waves.label.removeprefix(f"{waves.subject.label}, ") if waves.label != waves.subject.label else "scaled"


def _scaling(waves: Waves, several: bool) -> str:
    """What a scaling is called, its factor, and the attention factor."""
    rope = scaled_rope(waves.subject)
    if rope is None:
        return ""
    factor = f", factor {short(rope.factor)}" if rope.factor is not None else ""
    whose = f"{waves.subject.label}: " if several else ""
    return f"{whose}{rope.scaling} scaling{factor}, attention factor {short(attention_factor(waves.subject))}"


def _explained(panels: list[Chart], waves: Sequence[Waves]) -> tuple[list[Chart], str]:
    """The charts of one subject with the unscaled law, bands and turns; and the bands in words."""
    chart, *stretch = panels
    subject = waves[0].subject
    length = _turns_within(subject)
    if length is not None:
        within = "the training length" if TRAINED in contexts(subject).values() else "the context"
        chart = replace(chart, inverse_axis=(f"turns within {within}, {length:,.0f}", length))
    rope = scaled_rope(subject)
    if not stretch or rope is None:
        return [chart], ""
    law = Curve("unscaled", chart.curves[0].x, unscaled_wavelengths(rope), reference=True)
    named = [curve._replace(label=_read_as(each)) for curve, each in zip(chart.curves, waves, strict=True)]
    found = bands(waves[0].stretch) if len(waves) == 1 else []
    charts = [
        replace(chart, curves=[*named, law], bands=found),
        replace(stretch[0], bands=[band._replace(label="") for band in found]),
    ]
    return charts, "; ".join(_in_words(rope, band) for band in found)


def bands(stretch: Floats) -> list[Band]:
    """The pairs that are kept, those that are stretched by one factor, and those in between."""
    largest = float(np.nanmax(stretch))
    kept, full = np.abs(stretch - 1) <= REL_TOL, np.abs(stretch / largest - 1) <= REL_TOL
    if not (kept.any() or full.sum() > 1):
        return []  # every pair has a factor of its own
    words = np.where(kept, "kept", np.where(full, f"stretched ×{short(largest)}", "blended"))
    edges = [0, *(np.flatnonzero(words[1:] != words[:-1]) + 1).tolist(), len(words)]
    found = [Band(str(words[a]), float(a), float(b - 1)) for a, b in pairwise(edges)]
    return found if len(found) <= 3 else []


def _in_words(rope: Rope, band: Band) -> str:
    """A band by its pairs, and by the turns that limit it."""
    count = f"pair {band.start:.0f}" if band.start == band.stop else f"pairs {band.start:.0f}–{band.stop:.0f}"
    if rope.scaling not in LIMITS:
        return f"{band.label}: {count}"
    fast, slow = (getattr(rope, name) or default for name, default in LIMITS[rope.scaling])
    turns = {"kept": f" (over {short(fast)} turns)", "blended": ""}.get(band.label, f" (under {short(slow)})")
    return f"{band.label}: {count}{turns}"


def contexts(subject: Subject) -> dict[float, str]:
    """The lengths that matter to a scheme: what a model was trained on, how far scaling takes it, its window."""
    found = _lengths(subject)
    if subject.window:
        found.setdefault(float(subject.window), WINDOW)
    return found


def _lengths(subject: Subject) -> dict[float, str]:
    found = subject.scheme.contexts(subject.context) if subject.scheme is not None else {}
    only_table = set(found.values()) == {"length"} and subject.context
    return {float(subject.context or 0): CONTEXT} if only_table else found


def _turns_within(subject: Subject) -> float | None:
    """The length whose turns are counted: that of the training, or the context."""
    found = {word: length for length, word in contexts(subject).items()}
    return next((found[word] for word in (TRAINED, CONTEXT) if word in found), None)


def _levels(subjects: Sequence[Subject]) -> list[tuple[str, float]]:
    """A line for every length that matters; of two subjects, each says whose it is unless it is that of both."""
    words: dict[tuple[float, str], list[str]] = {}
    for subject in subjects:
        for length, word in contexts(subject).items():
            words.setdefault((length, word), []).append(subject.label)
    if {word for _, word in words} & {TRAINED, EXTENDED, CONTEXT, WINDOW}:  # the length of the table says nothing then
        words = {key: labels for key, labels in words.items() if key[1] != "length"}
    return [
        (f"{labels[0]}: {word} {length:,.0f}" if len(subjects) > len(labels) else f"{word} {length:,.0f}", length)
        for (length, word), labels in sorted(words.items())
    ]


def _with_contexts(waves: Waves) -> str:
    """A label that also tells the contexts, which are dots on the curve.

    For example «llama-3.1-8b, 8,192 → 131,072».
    """
    said = [f"{length:,.0f}" for length, word in sorted(_lengths(waves.subject).items()) if word != "length"]
    window = f", window {waves.subject.window:,}" if waves.subject.window else ""
    return f"{waves.label}, {' → '.join(said)}{window}" if said else f"{waves.label}{window}"


def _marks(number: int, waves: Waves, x: Floats) -> list[Mark]:
    """Where a curve reaches its contexts."""
    found, turning = [], np.isfinite(waves.lengths)
    heights, x = np.log(waves.lengths[turning]), x[turning]
    for length, word in contexts(waves.subject).items():
        if word != "length" and heights[0] <= math.log(length) <= heights[-1]:
            place = float(np.interp(math.log(length), heights, x))
            found.append(Mark(number, place, length, is_open=word not in (TRAINED, CONTEXT)))
    return found


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
    return [pair for pair in found if places[pair] < math.log(1.6 * turns)] or found[-2:]  # more would be bands
