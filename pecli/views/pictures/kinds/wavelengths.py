"""The wavelengths of pairs, beside the contexts of the model, and the effect of a scaling on them.

A pair of channels turns once within its wavelength. Pairs whose wavelength is longer than the
context that a model was trained on have never turned once; scalings treat them differently.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import singledispatch
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Floats
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import number, spanned
from pecli.views.pictures.kinds.contexts import contexts_of, trained_length
from pecli.views.pictures.kinds.frequencies import angular_frequencies, scaled_rope
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.kinds.mrope_sections import section_bands, section_note
from pecli.views.pictures.panels import Band, Chart, Curve, Level, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import sentence

REL_TOL = 1e-9  #: Wavelengths that differ by less were not stretched.
STRETCH_DIGITS = 9  #: Digits of a stretch that are exact.
STRETCH_SHARE = 0.3  #: Height of the chart of the stretch, as a share of the other.
MAX_RANGES = 3  #: Ranges of pairs that are shaded: kept, blended, stretched.


class Wave(NamedTuple):
    """The wavelengths of a source, at one of the lengths where its scaling differs.

    LongRoPE, for example, has one set of factors up to the trained context and another beyond, so
    that a Phi-3 is two waves.
    """

    source: PlotSource
    read_at: str  #: The length at which it is read; empty if the scaling does not depend on it.
    lengths: Floats  #: The wavelength of each pair.
    unscaled: Floats  #: The wavelengths without the scaling.
    stretch: Floats  #: The factor by which the scaling stretched each of them.

    @property
    def is_scaled(self) -> bool:
        finite = self.stretch[np.isfinite(self.stretch)]
        return not np.allclose(finite, 1, rtol=0, atol=REL_TOL)

    @property
    def pair_numbers(self) -> Floats:
        return np.arange(len(self.lengths), dtype=np.float64)


class _Charts(NamedTuple):
    """The charts of a picture, and sentences for its caption."""

    charts: list[Chart]
    notes: list[str]


def wavelengths(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a chart of wavelengths, and one of their stretch below it if any is scaled.

    A pair of channels turns once within its wavelength. A scaling stretches wavelengths so that a
    model accepts a longer context.
    """
    waves: list[Wave] = []
    for source in sources:
        waves += waves_of(source)
    if len(sources) == 1:
        drawn = _charts_of_one(sources[0], waves)
    else:
        drawn = _charts_of_several(waves)
    is_rotary = all(source.applied_as == "rotation" for source in sources)
    pair = "rotary pair" if is_rotary else "sine and cosine pair"
    distinct_notes = dict.fromkeys(filter(None, drawn.notes))
    caption = ". ".join(distinct_notes)
    return Picture(f"wavelength of each {pair}", drawn.charts, across=1, subtitle=caption)


WAVELENGTHS = PictureKind(
    "wavelengths", "the wavelength of each pair, and what a scaling does to it", wavelengths
)


def waves_of(source: PlotSource) -> list[Wave]:
    """Return the wavelengths of a source, at all lengths that matter if its scaling depends on them."""
    rope = scaled_rope(source)
    if rope is None or rope.length is not None or "length" not in rope.scaling_value.names():
        return [_wave(source, "")]
    waves = []
    for length, words in _lengths_to_draw(rope, source.context).items():
        source_at_length = source._replace(scheme=replace(rope, length=length))
        waves.append(_wave(source_at_length, words))
    return waves


def _wave(source: PlotSource, read_at: str) -> Wave:
    """Compute the wavelengths of a source, and their ratio to those without its scaling."""
    lengths = 2 * math.pi / angular_frequencies(source)
    rope = scaled_rope(source)
    unscaled = lengths if rope is None else unscaled_wavelengths(rope)
    stretch = np.round(lengths / unscaled, STRETCH_DIGITS)
    return Wave(source, read_at, lengths, unscaled, stretch)


def _lengths_to_draw(rope: Rope, context: int | None) -> dict[int, str]:
    """Return the prompt lengths for which wavelengths are drawn, with the labels of their curves.

    Dynamic scaling and LongRoPE give shorter and longer prompts different wavelengths, so that the
    chart has a curve for each.

    Args:
        rope: An encoding with such a scaling.
        context: The longest context that its model declares, if there is a model.
    """
    length_of_table = rope.effective_length
    trained = trained_length(rope) or length_of_table
    is_longrope = rope.long_factor is not None
    if is_longrope:
        return _lengths_of_longrope(trained)
    declared = context or rope.max_position_embeddings or 0
    return _lengths_of_dynamic(trained, longest=max(declared, length_of_table, trained))


def _lengths_of_longrope(trained: int) -> dict[int, str]:
    """Return a length for each list of factors: the long ones are used beyond the trained length.

    >>> _lengths_of_longrope(4096)
    {4096: 'short factors, up to 4,096', 4097: 'long factors, beyond 4,096'}
    """
    return {
        trained: f"short factors, up to {trained:,}",
        trained + 1: f"long factors, beyond {trained:,}",
    }


def _lengths_of_dynamic(trained: int, longest: int) -> dict[int, str]:
    """Return the longest length, and before it the trained one, up to which nothing is scaled.

    >>> _lengths_of_dynamic(trained=4096, longest=16384)
    {4096: 'up to 4,096', 16384: 'at length 16,384'}
    >>> _lengths_of_dynamic(trained=4096, longest=4096)
    {4096: 'at length 4,096'}
    """
    labels = {trained: f"up to {trained:,}"}
    labels[longest] = f"at length {longest:,}"  # Replaces the other label if both are one length.
    return labels


def unscaled_wavelengths(rope: Rope) -> Floats:
    """Return 2π · b^(2i/d), the wavelengths before any scaling."""
    pairs = np.arange(rope.rotary_dim // 2)
    return np.asarray(2 * math.pi * rope.base ** (2 * pairs / rope.exponent_dim))


def _charts_of_one(source: PlotSource, waves: Sequence[Wave]) -> _Charts:
    """Return the charts of one model: the wavelength of each pair, over the number of the pair.

    Horizontal lines are at the context lengths of the model, such as 8,192 and 131,072. If a scaling
    stretches the wavelengths, a second chart shows by which factors.

    Args:
        source: The model or scheme.
        waves: Its wavelengths; several times, if the scaling depends on the length of the prompt.
    """
    context_lines = _lines_of_contexts(source)
    notes = [sentence(_scaling_note(wave.source)) for wave in waves]
    notes.append(section_note(source))
    if any(wave.is_scaled for wave in waves):
        ranges = scaled_ranges(waves)
        notes.append(_ranges_note(source, ranges))
        return _Charts(_scaled_charts(waves, context_lines, ranges), notes)
    chart = _length_chart([_context_curve(wave, "") for wave in waves], "pair")
    chart = replace(chart, levels=context_lines, bands=section_bands(source))
    return _Charts([chart], notes)


def _ranges_note(source: PlotSource, ranges: Sequence["PairRange"]) -> str:
    """Return the pairs that a scaling treats alike: «Kept: pairs 0–17 (over 32 turns); blended: …»."""
    limits = _turn_limits_of(source.scheme)
    return sentence("; ".join(_range_note(limits, pairs) for pairs in ranges))


def _scaled_charts(
    waves: Sequence[Wave], context_lines: Sequence[Level], ranges: Sequence["PairRange"]
) -> list[Chart]:
    """Return a chart of scaled wavelengths, and one of the factors by which they are stretched.

    The first also has the unscaled wavelengths, as a dotted curve. In both, the pairs that the
    scaling keeps, blends and stretches are shaded bands.

    Args:
        waves: The curves of one model.
        context_lines: Horizontal lines at the context lengths of the model.
        ranges: The pairs that the scaling treats alike.
    """
    curves = [_context_curve(wave, "scaled") for wave in waves]
    unscaled = Curve("unscaled", waves[0].pair_numbers, waves[0].unscaled, reference=True)
    bands = _range_bands(ranges)
    lengths = _length_chart([*curves, unscaled], "pair")
    stretches = _stretch_chart([_stretch_curve(wave, wave.pair_numbers) for wave in waves], "pair")
    return [
        replace(lengths, levels=context_lines, bands=bands),
        replace(stretches, bands=_without_labels(bands)),  # The chart above names them already.
    ]


def scaled_ranges(waves: Sequence[Wave]) -> list["PairRange"]:
    """Return the ranges of pairs that a scaling treats alike; none if it depends on the length."""
    if len(waves) > 1:
        return []
    return pair_ranges(waves[0].stretch)


def _range_bands(ranges: Sequence["PairRange"]) -> list[Band]:
    return [Band(pairs.label, float(pairs.first), float(pairs.last)) for pairs in ranges]


def _context_curve(wave: Wave, label: str) -> Curve:
    """Return the wavelengths of a wave; its label is the context at which it is read, if any."""
    return Curve(wave.read_at or label, wave.pair_numbers, wave.lengths)


def _without_labels(bands: Sequence[Band]) -> list[Band]:
    return [band._replace(label="") for band in bands]


def _lines_of_contexts(source: PlotSource) -> list[Level]:
    """Return a line per context: pairs above it do not turn once within it."""
    levels = []
    for context in sorted(contexts_of(source)):
        levels.append(Level(f"{context.label} {context.length:,.0f}", context.length))
    return levels


def _charts_of_several(waves: Sequence[Wave]) -> _Charts:
    """Return the charts of several models: a curve of wavelengths per model, over the pairs.

    The context lengths of each model are dots on its curve. If a scaling stretches the wavelengths
    of a model, a second chart shows by which factors.
    """
    axis = _common_axis(waves)
    curves = list(map(_curve_with_contexts, waves, axis.places))
    notes = [_labelled_note(wave.source) for wave in waves]
    has_dots = any(curve.marks for curve in curves)
    if has_dots:
        notes.append("Dots: contexts and windows")
    bands = _bands_of_several(waves, axis)
    charts = [replace(_length_chart(curves, axis.name), bands=bands)]
    if any(wave.is_scaled for wave in waves):
        stretch_curves = list(map(_stretch_curve, waves, axis.places))
        stretch_chart = _stretch_chart(stretch_curves, axis.name)
        charts.append(replace(stretch_chart, bands=_without_labels(bands)))
    return _Charts(charts, notes)


def _bands_of_several(waves: Sequence[Wave], axis: "_PairAxis") -> list[Band]:
    """Return the ranges of pairs that a scaling treats alike, if only one of the models has one.

    Bands of several scalings would overlap, and an axis of shares has no pairs for them.
    """
    scaled = [wave for wave in waves if wave.is_scaled]
    if len(scaled) != 1 or not axis.counts_pairs:
        return []
    return _range_bands(pair_ranges(scaled[0].stretch))


class _PairAxis(NamedTuple):
    """A horizontal axis for the pairs of several waves."""

    name: str
    counts_pairs: bool  #: False if pairs are shares of all.
    places: list[Floats]  #: The place of each pair on the axis, per wave.


def _common_axis(waves: Sequence[Wave]) -> _PairAxis:
    """Return the numbers of the pairs; or, if models have different numbers of them, shares.

    Pair 16 of 32 and pair 32 of 64 are both at 0.5 then, and have the same wavelength if their
    models have the same base.
    """
    numbers = [wave.pair_numbers for wave in waves]
    if len(set(map(len, numbers))) == 1:
        return _PairAxis("pair", counts_pairs=True, places=numbers)
    shares = [pairs / len(pairs) for pairs in numbers]
    return _PairAxis("pair, as a share of all", counts_pairs=False, places=shares)


def _curve_with_contexts(wave: Wave, x: Floats) -> Curve:
    """Return the wavelengths of a model; its label has the contexts that are dots on the curve."""
    words = [wave.source.label, wave.read_at, _contexts_in_words(wave.source)]
    return Curve(", ".join(filter(None, words)), x, wave.lengths, marks=_marks(wave, x))


def _labelled_note(source: PlotSource) -> str:
    """Return «llama-3.1-8b: llama3 scaling, factor 8, …»; empty for a model without a scaling."""
    details = "; ".join(filter(None, [_scaling_note(source), section_note(source)]))
    if not details:
        return ""
    return f"{source.label}: {details}"


def _length_chart(curves: Sequence[Curve], axis: str) -> Chart:
    return Chart("", curves, axis, "wavelength, in positions", log_y=True)


def _stretch_chart(curves: Sequence[Curve], axis: str) -> Chart:
    return Chart("", curves, axis, "stretch", share=STRETCH_SHARE, continues=True)


def _stretch_curve(wave: Wave, x: Floats) -> Curve:
    """Return the stretch of each pair; a wave without a scaling keeps its colour but has no line."""
    if wave.is_scaled:
        return Curve("", x, wave.stretch)
    return Curve("", x, np.full(len(x), np.nan))


def _scaling_note(source: PlotSource) -> str:
    """Return «yarn scaling, factor 4, attention factor 1.1386»; empty without a scaling."""
    rope = scaled_rope(source)
    if rope is None:
        return ""
    factor = "" if rope.factor is None else f", factor {number(rope.factor)}"
    attention = number(rope.attention_factor_value())
    return f"{rope.scaling} scaling{factor}, attention factor {attention}"


class Treatment(Enum):
    """The effect of a scaling on a pair."""

    KEPT = "kept"
    BLENDED = "blended"
    STRETCHED = "stretched"


class PairRange(NamedTuple):
    """Neighbouring pairs that a scaling treats alike."""

    treatment: Treatment
    first: int
    last: int
    factor: float  #: The factor by which the stretched pairs are stretched.

    @property
    def label(self) -> str:
        if self.treatment is Treatment.STRETCHED:
            return f"stretched ×{number(self.factor)}"
        return str(self.treatment.value)


def pair_ranges(stretch: Floats) -> list[PairRange]:
    """Return the ranges of pairs that a scaling keeps, blends, or stretches by one factor.

    YaRN has these three ranges. A scaling without such ranges gives an empty list.

    Args:
        stretch: The factor of each pair. YaRN by 4 has 1, 1, …, 1.3, 2.6, …, 4, 4.
    """
    largest = float(np.nanmax(stretch))
    treatments = _treatments(stretch, largest)
    if _differs_from_pair_to_pair(treatments):
        return []
    changes = np.flatnonzero(treatments[1:] != treatments[:-1]) + 1
    edges = [0, *changes.tolist(), len(stretch)]
    ranges = []
    for start, stop in pairwise(edges):
        ranges.append(PairRange(treatments[start], start, stop - 1, largest))
    if len(ranges) > MAX_RANGES:  # They come again: kept, blended, kept, blended, …
        return []
    return ranges


def _differs_from_pair_to_pair(treatments: AnyArray) -> bool:
    """Return True if every pair has a factor of its own, as LongRoPE can give: 1.1, 1.2, …, 64.

    No pair is kept then, and no two pairs share the largest factor.
    """
    keeps_any = (treatments == Treatment.KEPT).any()
    largest_count = (treatments == Treatment.STRETCHED).sum()
    return not keeps_any and largest_count <= 1


def _treatments(stretch: Floats, largest: float) -> AnyArray:
    """Return the effect of a scaling on each pair, by its factor: 1, the largest, or between."""
    treatments = np.full(len(stretch), Treatment.BLENDED)
    treatments[np.isclose(stretch, largest, rtol=REL_TOL, atol=0)] = Treatment.STRETCHED
    treatments[np.isclose(stretch, 1, rtol=0, atol=REL_TOL)] = Treatment.KEPT
    return treatments


_TURNS_OF_RANGE = {
    Treatment.KEPT: " (over {fast} turns)",
    Treatment.BLENDED: "",
    Treatment.STRETCHED: " (under {slow})",
}
"""The limits of a range in turns within the trained context, in words."""


def _range_note(limits: "TurnLimits | None", pairs: PairRange) -> str:
    """Return a range by its pairs and by the turns that limit it: «kept: pairs 0–17 (over 32 turns)»."""
    note = f"{pairs.label}: {spanned('pair', pairs.first, pairs.last)}"
    if limits is None:
        return note
    turns = _TURNS_OF_RANGE[pairs.treatment]
    return note + turns.format(fast=number(limits.fast), slow=number(limits.slow))


class TurnLimits(NamedTuple):
    """Turns within the trained context by which a scaling chooses the pairs that it stretches."""

    fast: float  #: Pairs that turn more often are kept.
    slow: float  #: Pairs that turn less often are stretched by the whole factor.


@singledispatch
def turn_limits(scaling: Scaling) -> TurnLimits | None:
    """Return the limits of a scaling, None if it treats all pairs by one rule."""
    return None


@turn_limits.register
def _(scaling: Yarn) -> TurnLimits | None:
    return TurnLimits(*scaling.betas())


@turn_limits.register
def _(scaling: Llama3) -> TurnLimits | None:
    return TurnLimits(scaling.high_freq_factor, scaling.low_freq_factor)


@singledispatch
def _turn_limits_of(scheme: Scheme) -> TurnLimits | None:
    """Return the limits of a scheme's scaling; only RoPE has a scaling."""
    return None


@_turn_limits_of.register
def _(scheme: Rope) -> TurnLimits | None:
    return turn_limits(scheme.defined_scaling)


def _contexts_in_words(source: PlotSource) -> str:
    """Return the contexts of a source, such as «8,192 → 131,072, window 512»."""
    lengths = []
    for context in sorted(contexts_of(source)):
        if not context.is_table and not context.is_window:
            lengths.append(f"{context.length:,.0f}")
    words = [" → ".join(lengths)]
    if source.window:
        words.append(f"window {source.window:,}")
    return ", ".join(filter(None, words))


def _marks(wave: Wave, x: Floats) -> list[tuple[float, float]]:
    """Return the points of a curve at which the wavelength is one of the model's contexts.

    A context lies between two pairs, so the point is interpolated, on the logarithmic axis.
    """
    turns = np.isfinite(wave.lengths)
    log_lengths = np.log(wave.lengths[turns])
    marks = []
    for context in contexts_of(wave.source):
        height = math.log(context.length)
        if not context.is_table and log_lengths[0] <= height <= log_lengths[-1]:
            marks.append((float(np.interp(height, log_lengths, x[turns])), context.length))
    return marks
