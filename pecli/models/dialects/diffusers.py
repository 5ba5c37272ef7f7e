"""Transformers of diffusers, whose configuration names its class; that says what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pecli.engine.schemes.grid_styles import ROTARY
from pecli.engine.schemes.positions import GridSize
from pecli.errors import quoted
from pecli.models.dialects.dialect import Dialect
from pecli.models.encoding import Encoding
from pecli.models.families import INTERLEAVED
from pecli.models.values import ClassDefaults, Keys, Value

DIFFUSERS_CLASS = "_class_name"


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    name = keys.word(DIFFUSERS_CLASS)
    known = readers()
    if name is None or name.value not in known:
        note = _data()["notes"].get(name.value if name else "")
        said = f"{DIFFUSERS_CLASS} {quoted(name.value if name else '')}"
        warnings.append(f"{said}: {note}" if note else f"{said} is none of {', '.join(known)}")
        return []
    reader, values = known[name.value]
    return [reader(keys.with_defaults(ClassDefaults(name.value, values)))]


def _size(keys: Keys, name: str) -> Value:
    return keys.needed(keys.whole(name), name)


def _width(keys: Keys) -> Value:
    count, head = _size(keys, "num_attention_heads"), _size(keys, "attention_head_dim")
    return Value(count.value * head.value, f"{count.source} · {head.source}")


def _axial_rope(style: str, axes: str = "") -> Callable[[Keys], Encoding]:
    """Axes of positions, each with the channels that a key gives it; or with a share of the head, as the style has."""

    def read(keys: Keys) -> Encoding:
        split = keys.numbers(axes) if axes else None
        if split is None:
            head = _size(keys, "attention_head_dim")
            split = Value(ROTARY[style].split(head.value), f"{head.source}, shared out by the style {style}")
        else:
            head = Value(sum(map(int, split.value)), f"the sum of {split.source}")
        extra = {
            "axes": Value(len(split.value), "family"),
            "axis_channels": Value([int(count) for count in split.value], split.source),
        }
        reason = f"its positions have {len(split.value)} axes, which --axes and --positions give channels and numbers"
        if style:
            extra["style"] = Value(style, "family")
            reason = "its positions have three axes, time, rows and columns; give a grid"
        base = keys.number("rope_theta", "theta") or Value(10000.0, "default")
        return Encoding.of(
            "rope",
            {"dim": head, "base": base, "scaling": Value("none", "default")},
            extra,
            layout=INTERLEAVED,
            head_dim=head.value,
            sources={"head_dim": head.source, "layout": "family"},
            no_table=reason,
        )

    return read


def _sd3(keys: Keys) -> Encoding:
    """A table of the largest grid, from which the middle is cut; PixArt has one of its own grid, and stretches it."""
    size, patch = _size(keys, "sample_size"), _size(keys, "patch_size")
    side = Value(size.value // patch.value, f"{size.source} // {patch.source}")
    grid = keys.whole("pos_embed_max_size") or side
    found = {
        "grid": Value(GridSize((grid.value, grid.value)), grid.source),
        "dim": _width(keys),
        "style": Value("sd3", "family"),
        "base": Value(10000.0, "default"),
        "grid_base": Value((float(side.value),), side.source),
    }
    return Encoding.of("sinusoidal", found)


def _pixart(keys: Keys) -> Encoding:
    size, given = _size(keys, "sample_size"), keys.number("interpolation_scale")
    scale = given or Value(float(max(size.value // 64, 1)), f"max({size.source} // 64, 1)")
    encoding = _sd3(keys)
    return replace(
        encoding,
        parameters={**encoding.parameters, "grid_scale": (scale.value,)},
        sources={**encoding.sources, "grid_scale": scale.source},
    )


def _cogvideox(keys: Keys) -> Encoding:
    """Rotary where it says so; else an added table of 3 axes."""
    rotary = keys.flag("use_rotary_positional_embeddings")
    if rotary is not None and rotary.value:
        return _axial_rope("cogvideox")(keys)
    patch, height, width = _size(keys, "patch_size"), _size(keys, "sample_height"), _size(keys, "sample_width")
    frames, ratio = _size(keys, "sample_frames"), _size(keys, "temporal_compression_ratio")
    time = (frames.value - 1) // ratio.value + 1
    space = keys.number("spatial_interpolation_scale") or Value(1.0, "default")
    pace = keys.number("temporal_interpolation_scale") or Value(1.0, "default")
    found = {
        "grid": Value(
            GridSize((time, height.value // patch.value, width.value // patch.value)),
            f"({frames.source} − 1) // {ratio.source} + 1, {height.source}, {width.source} // {patch.source}",
        ),
        "dim": _width(keys),
        "style": Value("cogvideox", "family"),
        "base": Value(10000.0, "default"),
        "grid_scale": Value((pace.value, space.value, space.value), f"{pace.source}, {space.source}"),
    }
    return Encoding.of("sinusoidal", found)


_PATCHES = {"sample_size": 128, "patch_size": 2}
DIFFUSERS: dict[str, tuple[Callable[[Keys], Encoding], dict[str, Any]]] = {
    "CogVideoXTransformer3DModel": (
        _cogvideox,
        {
            "num_attention_heads": 30,
            "attention_head_dim": 64,
            "sample_width": 90,
            "sample_height": 60,
            "sample_frames": 49,
            "patch_size": 2,
            "temporal_compression_ratio": 4,
            "spatial_interpolation_scale": 1.875,
            "temporal_interpolation_scale": 1.0,
        },
    ),
    "SD3Transformer2DModel": (
        _sd3,
        {**_PATCHES, "num_attention_heads": 18, "attention_head_dim": 64, "pos_embed_max_size": 96},
    ),
    "PixArtTransformer2DModel": (_pixart, {**_PATCHES, "num_attention_heads": 16, "attention_head_dim": 72}),
}
"""How the configuration of each class is read, and what it means by keys that are left out."""


@cache
def _data() -> dict[str, Any]:
    """Classes that rotate by several axes, each with the key of its channels and its defaults, from diffusers.json."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "diffusers.json").read_text("utf-8"))
    return found


@cache
def readers() -> dict[str, tuple[Callable[[Keys], Encoding], dict[str, Any]]]:
    """How the configuration of each class is read, and what it means by keys that are left out."""
    axial = {name: (_axial_rope(row["style"], row["axes"]), row["values"]) for name, row in _data()["axial"].items()}
    wan = {name: (_axial_rope("wan"), {"attention_head_dim": 128}) for name in _data()["wan"]}
    return {**axial, **wan, **DIFFUSERS}


DIALECT = Dialect("a configuration of diffusers", lambda keys: DIFFUSERS_CLASS in keys, _read, names_model=True)
