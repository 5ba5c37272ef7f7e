"""How wide a head is, and how much of it turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pecli.errors import FileError
from pecli.models.families import Family
from pecli.models.values import Keys, Value, default

SIZES = ("head_dim", "attention_head_dim", "kv_channels", "attn_head_dim", "d_head", "head_size")
_MEMORY = "memory_attention_hidden_size"
WIDTHS = ("hidden_size", "n_embd", "d_model", "emb_dim", "dim", "hidden_dim", "encoder_embed_dim", "model_dim", _MEMORY)
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "decoder_num_attention_heads",
    "decoder_attention_heads",
    "encoder_num_attention_heads",
    "encoder_attention_heads",
    "memory_attention_num_attention_heads",
)


@dataclass(frozen=True)
class Head:
    """The width of a head, the dim to hand to a scheme, and the share of it that turns where it is given as one."""

    size: Value
    dim: Value
    partial: Value | None = None
    latent: bool = False
    """Only a part made for it turns, beside a larger part that never does."""


def width_of(keys: Keys) -> Value | None:
    """The width of the model; `embed_dim` is the inner one where both are given."""
    return keys.whole("embed_dim") or keys.whole(*WIDTHS)


def head_size(keys: Keys, layer: str = "", *, several: bool = False) -> Value:
    """The width of a head, by the first rule that applies."""
    own = _size_of_layer(keys, layer)
    if own is None and several and layer == "full_attention":
        own = keys.whole("global_head_dim")
    if own is None and several and layer == "sliding_attention":
        own = keys.whole("swa_head_dim")
    found = own or keys.whole(*SIZES)
    if found is not None:
        return found
    width, heads = width_of(keys), keys.whole(*HEADS)
    if width is None or heads is None:
        missing = "head_dim" if width is None else "number of attention heads"
        raise FileError(keys.path, f"{keys.prefix or 'it'} has no {missing}".replace(". ", " "), "it is needed")
    return _quotient(keys, width, heads)


def _quotient(keys: Keys, width: Value, heads: Value) -> Value:
    """The width shared among heads; that of a memory attention is divided before."""
    rate = keys.whole("memory_attention_downsample_rate") if width.source.endswith(_MEMORY) else None
    if rate is not None and rate.value > 1:
        width = Value(width.value // rate.value, f"{width.source} // {rate.source}")
    size = width.value // heads.value
    source = f"{width.source} // {heads.source}"
    if size < 1:
        raise FileError(keys.path, f"{source} is {width.value} // {heads.value}", "a head must have a channel")
    return Value(size, source)


def _size_of_layer(keys: Keys, layer: str) -> Value | None:
    """What `per_layer_config` says for layers of that type."""
    layers = keys.section("per_layer_config")
    types = keys.words("layer_types")
    if layers is None or not layer:
        return None
    for name, value in layers.data.items():
        index = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
        if isinstance(value, Mapping) and 0 <= index < len(types) and types[index] == layer:
            section = layers.section(name)
            return section.whole("head_dim") if section else None
    return None


def head_of(
    keys: Keys, own: Keys, family: Family, layer: str, *, axes: int, several: bool, partials: tuple[str, ...]
) -> Head:
    """The head of a layer type and what of it turns."""
    latent = keys.whole("qk_rope_head_dim", low=0)
    if latent is not None and latent.value:
        return Head(_latent_size(keys, latent), latent, latent=True)
    size = head_size(keys, layer, several=several)
    if axes:
        return Head(size, _axis(size, axes, family))
    given = own.number("partial_rotary_factor") or keys.number(*partials)
    direct = keys.whole("rotary_dim", low=0)
    if direct is not None and direct.value and "partial_rotary_factor" not in own and not family.ignores_rotary_dim:
        return Head(size, direct)
    partial = given or default(family.partial, family.source)
    if partial is None or partial.value == 1:
        return Head(size, size, None)
    if family.wide_partial and partial.value > 1:
        return Head(size, Value(int(size.value * partial.value), f"{size.source} · {partial.source}"))
    return Head(size, size, partial)


def _latent_size(keys: Keys, latent: Value) -> Value:
    whole = keys.whole("qk_head_dim")
    nope = keys.whole("qk_nope_head_dim", low=0)
    if whole is not None:
        return whole
    if nope is None:
        size = keys.whole("head_dim")
        return size if size is not None and size.value > latent.value else latent
    return Value(latent.value + nope.value, f"{nope.source} + {latent.source}")


def _axis(size: Value, axes: int, family: Family) -> Value:
    """The channels of one axis; for most images half of the head, for videos an even third."""
    if family.whole_axes:
        return size
    if axes == 3:
        return Value(2 * (size.value // 3 // 2), f"2 · (({size.source}) // 3 // 2), one of 3 axes")
    return Value(size.value // 2, f"({size.source}) // 2, one of 2 axes")
