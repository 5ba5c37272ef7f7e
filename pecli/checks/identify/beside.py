"""Cosines and sines whose frequencies lie beside them: with those known, offset, layout and recipe can be tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.forms import shape_without_ones, without_ones
from pecli.checks.identify.match import Match
from pecli.checks.identify.vectors import LONGEST
from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.recipes import RECIPE
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.beginning import Beginning


_MANY = 1 << 17
"""Elements that are held against a scheme."""
_OFFSETS = 1 << 17
"""Positions that the first row is tried at."""
_NEAR = 0.05
_FEWEST = 8
"""Frequencies that tell a law."""
_SPREAD = 12
"""Frequencies that an offset is read from."""


def explained(frequencies: Match, samples: Sequence[Beginning]) -> Match | None:
    """The rotary scheme with these frequencies that makes the pair, the nearest of all offsets and recipes."""
    scheme = frequencies.scheme
    cosine, sine = (without_ones(one.array) for one in samples)
    layout = _layout(cosine, scheme)
    if layout is None or not isinstance(scheme, Rope) or not np.isfinite([cosine[0], sine[0]]).all():
        return None
    length = shape_without_ones(samples[0].shape)[0]
    size = float(np.median(np.hypot(cosine, sine)))
    shared = {"seq_len": length, "layout": layout, "dtype": samples[0].dtype, **_attention(scheme, size)}
    single = slice(None, None, 2) if layout == "interleaved" else slice(scheme.rotary_dim // 2)
    offsets = _offsets(np.arctan2(sine[0, single], cosine[0, single]), np.array(scheme.frequencies().floats()))
    best: tuple[float, Rope] | None = None
    for offset in offsets:
        for recipe in RECIPE.options:
            try:
                candidate = replace(scheme, offset=offset, recipe=recipe, **shared)
            except ParameterError:
                continue
            error = distance(candidate, cosine, sine)
            if best is None or error < best[0]:
                best = error, candidate
    if best is None or best[0] > size * 2.0 ** (3 - SIGNIFICAND_BITS[samples[0].dtype]):
        return None
    return Match(best[1], best[0], tuple(one.name for one in samples), "", frequencies.undetermined)


def geometric(one: Beginning) -> list[Match]:
    """The rotary scheme of frequencies that other programs computed in float32, where a round base comes near."""
    if one.dtype not in SIGNIFICAND_BITS:
        return []
    values = one.array.astype(np.float64)
    count = len(values)
    if not _FEWEST <= count <= LONGEST or not np.isfinite(values).all() or not (values > 0).all():
        return []
    factor = float(f"{1 / values[0]:.3g}")
    base = float(f"{(values[0] / values[-1]) ** (count / (count - 1)):.3g}")
    if not 1 < base < 1e30 or factor < 1:
        return []
    scaling: dict[str, Any] = {"scaling": "linear", "factor": factor} if factor > 1 else {}
    scheme = Rope(1, 2 * count, base=base, **scaling)
    exact = np.array(scheme.frequencies().floats())
    room = 4 + 2 * np.log(base)  # an exponent rounded to float32 is off by that much in the power
    if (
        np.abs(values / exact - 1) > room * 2.0 ** (1 - min(SIGNIFICAND_BITS[one.dtype], SIGNIFICAND_BITS["float32"]))
    ).any():
        return []
    return [Match(scheme, float(np.abs(values - exact).max()), (one.name,), "inverse frequencies")]


def distance(scheme: Rope, cosine: Array, sine: Array) -> float:
    """How far the first rows of the pair are from the scheme's, at most."""
    tables = {table.name: table for table in scheme.tensors()}
    rows = max(1, min(len(cosine), _MANY // max(1, cosine.shape[1])))
    if tables["cos"].width != cosine.shape[1] or tables["cos"].rows < rows:
        return np.inf
    pairs = ((tables["cos"], cosine), (tables["sin"], sine))
    return max(float(np.abs(widened(table.read(0, rows)) - widened(found[:rows])).max()) for table, found in pairs)


def _layout(cosine: Array, scheme: object) -> str | None:
    """How the columns are doubled, if they are."""
    if not isinstance(scheme, Rope) or cosine.ndim != 2 or not cosine.size:
        return None
    half, width = scheme.rotary_dim // 2, cosine.shape[1]
    if width == half:
        return "compact"
    if width != 2 * half:
        return None
    if np.array_equal(cosine[:, :half], cosine[:, half:]):
        return "halves"
    return "interleaved" if np.array_equal(cosine[:, ::2], cosine[:, 1::2]) else None


def _attention(scheme: Rope, size: float) -> dict[str, Any]:
    """The attention factor, where the scaling's own rule does not give it."""
    if scheme.scaling not in ("yarn", "longrope") or abs(scheme.attention_factor_value() / size - 1) < 1e-3:
        return {}
    return {"attention_factor": float(f"{size:.4g}")}


def _offsets(angles: Floats, frequencies: Floats) -> Iterator[int]:
    """Positions at which the first row's angles are these, the smallest first, and no more than a few."""
    chosen = np.unique(np.linspace(0, len(frequencies) - 1, _SPREAD).astype(int))
    turns = np.arange(_OFFSETS)[:, None] * (frequencies[chosen] / (2 * np.pi)) - angles[chosen] / (2 * np.pi)
    off = np.abs(turns - np.rint(turns)).max(axis=1) * 2 * np.pi
    yield from map(int, np.flatnonzero(off < _NEAR)[:4])
