"""The effect of a scaling in two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pecli.errors import number, spanned
from pecli.views.pictures.kinds.contexts import NamedLength, contexts_of
from pecli.views.pictures.kinds.frequencies import scaled_rope
from pecli.views.pictures.kinds.wavelengths import (
    PairRange,
    Treatment,
    TurnLimits,
    scaled_ranges,
    turn_limits,
    waves_of,
)
from pecli.views.pictures.plot_sources import PlotSource

_REASONS = {
    Treatment.KEPT: ", as {they_turn} over {fast} times within the training",
    Treatment.BLENDED: "",
    Treatment.STRETCHED: ", as {they_turn} {slow}",
}
"""The reasons why a scaling keeps pairs or stretches them, by their turns within the training."""


def scaling_sentences(source: PlotSource) -> str:
    """Return why a model has its scaling, and what it does to which pairs; empty without one.

    Llama 3.1: «Trained on 8,192 positions, the model serves 131,072: its llama3 scaling slows down
    rotations that would leave the angles of the training. Pairs 0–28 are kept, as they turn over 4
    times within the training; pairs 29–34 are blended; pairs 35–63 are stretched ×8,
    as they turn less than once.»
    """
    rope = scaled_rope(source)
    if rope is None:
        return ""
    lengths = [context for context in contexts_of(source) if not context.is_window]
    purpose = _purpose(rope.scaling, lengths)
    ranges = scaled_ranges(waves_of(source))
    limits = turn_limits(rope.defined_scaling)
    return f"{purpose} {_effect(ranges, limits)}"


def _purpose(scaling: str, lengths: Sequence[NamedLength]) -> str:
    """Return the first sentence: the lengths, and the purpose of a scaling."""
    purpose = (
        f"its {scaling} scaling slows down rotations that would leave the angles of the training"
    )
    if len(lengths) < 2:
        return f"The model serves longer prompts than it was trained on: {purpose}."
    trained, *_, longest = sorted(lengths)
    return f"Trained on {trained.length:,.0f} positions, the model serves {longest.length:,.0f}: {purpose}."


def _effect(ranges: Sequence[PairRange], limits: TurnLimits | None) -> str:
    """Return the second sentence: the ranges of pairs that are kept, blended and stretched."""
    if not ranges:
        return "Every pair is stretched by a factor of its own, which the lower chart shows."
    parts = [_range_words(pairs, limits) for pairs in ranges]
    sentence = f"{'; '.join(parts)}."
    return sentence[0].upper() + sentence[1:]


def _range_words(pairs: PairRange, limits: TurnLimits | None) -> str:
    """Return «pairs 0–17 are kept, as they turn over 32 times within the training».

    Args:
        pairs: Neighbouring pairs that a scaling treats alike.
        limits: The turns by which the scaling chooses them; None if it does not.
    """
    is_single = pairs.first == pairs.last
    verb = "is" if is_single else "are"
    words = f"{spanned('pair', pairs.first, pairs.last)} {verb} {pairs.label}"
    if limits is None:
        return words
    slow = "less than once" if limits.slow == 1 else f"under {number(limits.slow)} times"
    they_turn = "it turns" if is_single else "they turn"
    reason = _REASONS[pairs.treatment]
    return words + reason.format(they_turn=they_turn, fast=number(limits.fast), slow=slow)
