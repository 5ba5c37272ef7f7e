"""Waves: a table of sines and cosines, alone or as a pair, with or without its frequencies beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.forms import without_ones
from pecli.checks.identify import beside
from pecli.checks.identify.intervals import spacing
from pecli.checks.identify.numerals import digits
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.beginning import Beginning
    from pecli.checks.identify.match import Match

_FEW = 4
_FALLING = -0.7
"""The correlation of a channel's place and the logarithm of its frequency."""
_CHOSEN = 2
"""Digits of a base that somebody chose."""
_SHIFTS = (0.0, 1.0, 0.5)
_OF_THE_TABLE = ("seq_len", "offset", "layout", "dtype", "recipe")
"""What frequencies say nothing about."""


def recognise(samples: Sequence[Beginning], inv_freq: Beginning | None = None) -> list[Match]:
    """The schemes of waves that one tensor, or a pair of cosines and sines, is, best first."""
    found = _waves(samples)
    if inv_freq is None or inv_freq.array.ndim != 1 or not inv_freq.floating:
        return found
    agreed = [match for match in found if _agrees(match, inv_freq)]
    if not agreed or _divided(agreed[0]):
        alone = _waves([inv_freq])
        joined = [both for match in found for other in alone if (both := _together(match, other, samples))]
        agreed = joined or [both for other in alone if (both := beside.explained(other, samples))] or agreed
        if not agreed:
            return [*found, *alone] if found else []
    return [replace(match, tensors=(*match.tensors, inv_freq.name)) for match in agreed]


def _waves(samples: Sequence[Beginning]) -> list[Match]:
    from pecli.checks.identify.waves import recognise

    if any(not one.array.size or (one.array == one.array.flat[0]).all() for one in samples):
        return []
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # a search passes impossible parameters
        found = recognise(
            {one.name: one.array for one in samples},
            {one.name: one.dtype for one in samples},
            {one.name: one.shape for one in samples},
        )
    if not found and len(samples) == 1 and samples[0].array.ndim == 1:
        found = beside.geometric(samples[0])
    plainer = [_plainer(match, samples) for match in found if _believable(match)]
    return [_with_alternatives(match) for match in plainer]


def _plainer(match: Match, samples: Sequence[Beginning]) -> Match:
    """The same sinusoidal frequencies with a usual shift, a round base and scale, where those come about as near."""
    scheme, found = match.scheme, samples[0].array
    if not isinstance(scheme, Sinusoidal) or (_round(scheme.base) and _round(scheme.scale)) or found.ndim != 2:
        return match
    if not match.max_abs_error:
        return match
    half, scale = scheme.half, float(f"{scheme.scale:.3g}")
    for shift in dict.fromkeys((scheme.freq_shift, *_SHIFTS)):
        if half - max(shift, scheme.freq_shift) < 1:
            continue
        base = float(f"{scheme.base ** ((half - shift) / (half - scheme.freq_shift)):.3g}")
        other = replace(scheme, base=base, freq_shift=shift, scale=scale)
        table = other.single_array()
        if table.shape[1] != found.shape[1]:
            continue
        error = float(np.abs(widened(table.read(0, len(found))) - widened(found)).max())
        if error <= max(2 * match.max_abs_error, scheme.amplitude * 2.0 ** -SIGNIFICAND_BITS[scheme.dtype]):
            said = f"base and freq_shift: {scheme.base:g} with {scheme.freq_shift:g} comes as near"
            lines = match.undetermined if shift == scheme.freq_shift else (said,)
            return replace(match, scheme=other, max_abs_error=error, undetermined=lines)
    return match


def _with_alternatives(match: Match) -> Match:
    """The match with what no table can tell apart: how a base or an attention factor came about."""
    scheme, said = match.scheme, []
    if isinstance(scheme, Rope) and scheme.scaling == "none":
        said.append(
            "scaling: one that leaves these frequencies alone (dynamic below its length, proportional) is the same"
        )
        stretched = any("scaling of another base" in line for line in match.undetermined)
        vague = any("the base is known within" in line for line in match.undetermined)
        if (digits(scheme.base) > _CHOSEN or vague) and not stretched:
            said.append(
                "base and scaling: ntk or dynamic (factor, max_position_embeddings) makes the same of another base"
            )
    elif isinstance(scheme, Rope) and scheme.scaling == "linear":
        said.append("scaling: proportional with this factor is the same")
    known = "attention factor" in " ".join(match.undetermined)
    if isinstance(scheme, Rope) and scheme.attention_factor is not None and not known:
        said.append("attention_factor: it may be given, or follow from factor, lengths and mscale")
    if match.recipe.startswith("float32") and scheme.dtype in ("float16", "bfloat16"):
        said.append("recipe: so coarse a dtype hardly shows it, and other numbers may come as near exactly")
    return replace(match, undetermined=(*match.undetermined, *said))


def _round(number: float) -> bool:
    return float(f"{number:.3g}") == number


def _believable(match: Match) -> bool:
    """Whether frequencies fall from channel to channel: with a divisor for each, longrope would explain any waves, and
    with a base of one any stripes.
    """
    if getattr(match.scheme, "base", math.inf) <= 1:
        return False
    if not isinstance(match.scheme, Rope) or not _divided(match):
        return True
    frequencies = np.array(match.scheme.frequencies().floats())
    if len(frequencies) < _FEW or not (frequencies > 0).all():
        return False
    return float(np.corrcoef(np.log(frequencies), np.arange(len(frequencies)))[0, 1]) < _FALLING


def _divided(match: Match) -> bool:
    return isinstance(match.scheme, Rope) and match.scheme.scaling == "longrope"


def _agrees(match: Match, inv_freq: Beginning) -> bool:
    """Whether the scheme has these inverse frequencies, to the last places of their dtype."""
    if not isinstance(match.scheme, Rope):
        return False
    (mine,) = (table.array() for table in match.scheme.tensors() if table.name == "inv_freq")
    yours = inv_freq.array.astype(np.float64)
    if mine.shape != yours.shape:
        return False
    singles = np.array_equal(widened(yours.astype(np.float32)), yours)
    coarse = (
        inv_freq.dtype if SIGNIFICAND_BITS[inv_freq.dtype] < SIGNIFICAND_BITS["float32"] or not singles else "float32"
    )
    off = np.abs(widened(mine) - yours)
    return bool(np.all(off <= 4 * spacing(yours, coarse)))


def _together(match: Match, other: Match, samples: Sequence[Beginning]) -> Match | None:
    """The frequencies of one match with the layout and positions of the other, if that is the table, too."""
    if not isinstance(match.scheme, Rope) or not isinstance(other.scheme, Rope):
        return None
    changes: dict[str, Any] = {name: getattr(match.scheme, name) for name in _OF_THE_TABLE}
    if other.scheme.scaling in ("yarn", "longrope"):
        changes["attention_factor"] = match.scheme.attention_factor_value()
    twofold = other.scheme.scaling == "longrope" and other.scheme.short_factor != other.scheme.long_factor
    if (twofold or other.scheme.scaling == "dynamic") and other.scheme.length is None:
        changes["length"] = other.scheme.effective_length
    parts = [without_ones(one.array) for one in samples]
    tried = []
    for recipe in dict.fromkeys(("exact", match.recipe)):
        try:
            scheme = replace(other.scheme, **{**changes, "recipe": recipe})
        except ParameterError:
            return None
        tried.append((beside.distance(scheme, *parts), scheme))
    error, scheme = min(tried, key=lambda each: each[0])
    if not error <= max(2 * match.max_abs_error, 2.0 ** (2 - SIGNIFICAND_BITS[scheme.dtype])):
        return None
    kept = (line for line in match.undetermined if line.startswith(_OF_THE_TABLE))
    return replace(match, scheme=scheme, max_abs_error=error, undetermined=(*other.undetermined, *kept))
