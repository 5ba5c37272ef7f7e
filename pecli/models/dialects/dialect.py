"""What a dialect of configurations is, and the rotary encoding that most of them spell in a few keys of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.encoding import Encoding
from pecli.models.values import Keys, Value

Reader = Callable[[Keys, list[str]], list[Encoding]]
"""Takes the keys, and a list that it adds warnings to."""
UNSCALED = {"scaling": Value("none", "default: no scaling is asked for")}


@dataclass(frozen=True)
class Dialect:
    """How one project spells its configurations: how they are recognised, and how they are read."""

    name: str
    recognises: Callable[[Keys], bool]
    read: Reader
    lengths: tuple[str, ...] = ()
    """Keys that say how long a context is, beside those of Hugging Face."""
    harmless: frozenset[str] = frozenset()
    """Keys that look like positions and say nothing about them."""
    is_general: bool = False
    """Whether it recognises files that are none of its own, too, for want of a better reader."""
    names_model: bool = False
    """Whether `model_type` names a model of the dialect."""


def head_width(keys: Keys, width: str, heads: str, *sizes: str) -> Value:
    """The width of a head: a key of its own, or that of the model shared among its heads."""
    if size := keys.whole(*sizes):
        return size
    total = keys.needed(keys.whole(width), width)
    count = keys.needed(keys.whole(heads), heads)
    return keys.positive(Value(total.value // count.value, f"{total.source} // {count.source}"))


def base_of(keys: Keys, *names: str, default: float = 10000.0) -> Value:
    """The base of the frequencies."""
    return keys.positive(keys.number(*names) or Value(default, "default"))


def rotary(
    keys: Keys,
    head: Value,
    base: Value,
    layout: tuple[str, str],
    scaling: Mapping[str, Value | None] | None = None,
    *,
    dim: Value | None = None,
    partial: Value | None = None,
    layer_type: str = "",
    extra: Mapping[str, Value] | None = None,
) -> Encoding:
    """A rotary encoding of heads; `dim` and `partial` where only a part of them rotates. `layout` comes with its
    source.
    """
    found = {"dim": dim or head, "base": base, **UNSCALED}
    if partial is not None and partial.value != 1:
        found["partial_rotary_factor"] = partial
    found |= {name: value for name, value in (scaling or {}).items() if value is not None}
    encoding = Encoding.of(
        "rope",
        found,
        extra,
        layer_type=layer_type,
        sources={"head_dim": head.source, "layout": layout[1]},
        layout=layout[0],
        head_dim=head.value,
        trailing=dim is not None and dim.value < head.value,
    )
    encoding.check(keys.path)
    return encoding


def sinusoidal(style: str, rows: Value, dim: Value, base: Value, layer_type: str = "", **more: Value) -> Encoding:
    """A table of sines and cosines in a style that pecli has."""
    said = {"layout": "interleaved", "freq_shift": 0.0, **STYLES[style]}
    found = {"seq_len": rows, "dim": dim, "style": Value(style, "dialect"), "base": base, **more}
    found |= {name: Value(said[name], f"style {style}") for name in ("layout", "freq_shift")}
    return Encoding.of("sinusoidal", found, layer_type=layer_type)
