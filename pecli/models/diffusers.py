"""Configurations of diffusers' transformers, which name their class: positions of images and videos.

A class is a row of `CLASSES`; where keys are left out, its values count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pecli.engine.schemes.positions import GridSize
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.values import Keys, Value

CLASS = "_class_name"


def looks_like(keys: Keys) -> bool:
    """Whether it is the configuration of a class of diffusers."""
    return CLASS in keys


def read(keys: Keys) -> ModelEncodings:
    """The encodings of such a configuration."""
    name = keys.word(CLASS)
    reader = CLASSES.get(name.value) if name else None
    if name is None or reader is None:
        known = ", ".join(CLASSES)
        return ModelEncodings(keys.path, None, (), (f"{CLASS} {name.value if name else ''!r} is none of {known}",))
    return ModelEncodings(keys.path, name.value, tuple(reader(keys)))


def _whole(keys: Keys, name: str, default: int) -> Value:
    return keys.whole(name) or Value(default, "default")


def _rotary(
    style: str, theta: float, axes: str = "", channels: tuple[int, ...] = ()
) -> Callable[[Keys], list[Encoding]]:
    """Axes of positions, each with its own channels; or shares of a head that the style has."""

    def read(keys: Keys) -> list[Encoding]:
        base = keys.number("rope_theta", "theta") or Value(theta, "default")
        given = keys.numbers(axes) if axes else None
        split = given or (Value(list(channels), "default") if channels else None)
        head = Value(sum(map(int, split.value)), f"the sum of {split.source}") if split else _head(keys)
        extra = {"axes": Value(3, "family"), "style": Value(style, "family")}
        if split:
            extra["axis_channels"] = Value([int(count) for count in split.value], split.source)
        found = {"dim": head, "base": base, "scaling": Value("none", "default")}
        sources = {"head_dim": head.source, "layout": "family"}
        return [Encoding.of("rope", found, extra, layout="interleaved", head_dim=head.value, sources=sources)]

    return read


def _head(keys: Keys) -> Value:
    return _whole(keys, "attention_head_dim", 64)


def _width(keys: Keys, heads: int) -> Value:
    count, head = _whole(keys, "num_attention_heads", heads), _head(keys)
    return Value(count.value * head.value, f"{count.source} · {head.source}")


def _sd3(keys: Keys) -> list[Encoding]:
    """A table of the largest grid, from which the middle is cut."""
    size, patch = _whole(keys, "sample_size", 128), _whole(keys, "patch_size", 2)
    most = keys.whole("pos_embed_max_size")
    grid = most or Value(size.value // patch.value, f"{size.source} // {patch.source}")
    found = {
        "grid": Value(GridSize((grid.value, grid.value)), grid.source),
        "dim": _width(keys, 18),
        "style": Value("sd3", "family"),
        "base": Value(10000.0, "default"),
        "grid_base": Value((float(size.value // patch.value),), f"{size.source} // {patch.source}"),
    }
    return [Encoding.of("sinusoidal", found)]


def _cogvideox(keys: Keys) -> list[Encoding]:
    """Rotary where it says so; else an added table of 3 axes."""
    rotary = keys.flag("use_rotary_positional_embeddings")
    if rotary is not None and rotary.value:
        return _rotary("cogvideox", 10000.0)(keys)
    patch = _whole(keys, "patch_size", 2)
    height, width = _whole(keys, "sample_height", 60), _whole(keys, "sample_width", 90)
    frames, ratio = _whole(keys, "sample_frames", 49), _whole(keys, "temporal_compression_ratio", 4)
    time = (frames.value - 1) // ratio.value + 1
    space = keys.number("spatial_interpolation_scale") or Value(1.875, "default")
    pace = keys.number("temporal_interpolation_scale") or Value(1.0, "default")
    found: dict[str, Any] = {
        "grid": Value(
            GridSize((time, height.value // patch.value, width.value // patch.value)),
            f"({frames.source} − 1) // {ratio.source} + 1, {height.source}, {width.source} // {patch.source}",
        ),
        "dim": _width(keys, 30),
        "style": Value("cogvideox", "family"),
        "base": Value(10000.0, "default"),
        "grid_scale": Value((pace.value, space.value, space.value), f"{pace.source}, {space.source}"),
    }
    return [Encoding.of("sinusoidal", found)]


CLASSES: dict[str, Callable[[Keys], list[Encoding]]] = {
    "FluxTransformer2DModel": _rotary("flux", 10000.0, "axes_dims_rope", (16, 56, 56)),
    "QwenImageTransformer2DModel": _rotary("qwen-image", 10000.0, "axes_dims_rope", (16, 56, 56)),
    "HunyuanVideoTransformer3DModel": _rotary("hunyuan-video", 256.0, "rope_axes_dim", (16, 56, 56)),
    "WanTransformer3DModel": _rotary("wan", 10000.0),
    "CogVideoXTransformer3DModel": _cogvideox,
    "SD3Transformer2DModel": _sd3,
}
