"""Waves: a table of sines and cosines, alone or as a pair, with or without its frequencies beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pecli.checks.identify.match import Match
    from pecli.checks.identify.sample import Sample


def recognise(samples: Sequence[Sample], inv_freq: Sample | None) -> list[Match]:
    """The schemes of waves that one tensor, or a pair of cosines and sines, is."""
    try:
        waves: Any = import_module("pecli.checks.identify.waves")
    except ModuleNotFoundError:
        return []
    tensors = {one.name: one.array for one in samples}
    found: list[Match] = waves.recognise(tensors, {one.name: one.dtype for one in samples})
    return [_whole(match, samples) for match in found]


def _whole(match: Match, samples: Sequence[Sample]) -> Match:
    """The match of a table's beginning as one of the whole table."""
    seen: int = getattr(match.scheme, "seq_len", 0)
    for one in samples:
        for part, length in zip(one.array.shape, one.shape, strict=True):
            if part == seen < length:
                return replace(match, scheme=_longer(match.scheme, length))
    return match


def _longer(scheme: Any, length: int) -> Any:
    changes: dict[str, Any] = {"seq_len": length}
    if getattr(scheme, "scaling", "none") in ("dynamic", "longrope"):
        changes["length"] = scheme.read_at
    return replace(scheme, **changes)
