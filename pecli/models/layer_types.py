"""Which layer types rotate, where the settings of each are, how wide its heads are, and how much of them rotates.

Settings may be flat, for all layers, or hold an object by layer type. Flat ones still mean two tables where a model
keeps another base beside them, or where its family scales only some of its layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pecli.errors import FileError, begun
from pecli.models.families import Family
from pecli.models.values import NO_CLASS, Keys, Value, default

THETAS = (
    "rope_theta",
    "rotary_emb_base",
    "global_rope_theta",
    "rotary_embedding_base",
    "rope_base",
    "rope_freq_base",
    "memory_attention_rope_theta",
)
LOCAL_THETAS = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
PARTIALS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction", "rope_percent", "rotary_percent")
EVIDENCE = (
    *THETAS,
    *LOCAL_THETAS,
    *PARTIALS,
    "rope_parameters",
    "rope_scaling",
    "rope_ratio",
    "rotary_dim",
    "qk_rope_head_dim",
)
"""Keys that only models with rotary encodings have."""

MROPE = ("mrope_section", "xdrope_section")
_OWN = ("rope_type", "type", "rope_theta", "factor", "alpha", "mrope_interleaved", "llama_4_scaling_beta")

MAX_TYPES, MAX_LAYERS, MAX_LISTED = 64, 4096, 32


@dataclass(frozen=True)
class Layer:
    """A layer type with its own settings, and its base where that is given elsewhere."""

    name: str
    own: Keys
    theta: Value | None = None


@cache
def _shared_settings() -> frozenset[str]:
    """What settings may hold beside layer types; to know it takes the files of all scalings."""
    from pecli.engine.scalings import PARAMETERS

    return frozenset((*_OWN, *PARTIALS, *MROPE, *PARAMETERS))


def layers_of(keys: Keys, family: Family, warnings: list[str]) -> list[Layer]:
    """The layer types that rotate; one without a name where all layers share their settings."""
    settings = _settings(keys, warnings)
    nested = _nested(keys, settings, warnings)
    return _flat(keys, settings, family) if nested is None else nested


def _settings(keys: Keys, warnings: list[str]) -> Keys:
    """The settings: `rope_scaling` if given, else `rope_parameters`, else what the class has for it."""
    old, new = keys.section("rope_scaling"), keys.section("rope_parameters")
    if old is not None and new is not None and dict(old.data) != dict(new.data):
        warnings.append("rope_scaling and rope_parameters are both given and differ; rope_scaling wins")
    implied = keys.value("rope_parameters")
    if old or new or implied is None:
        return old or new or keys.replaced({}).with_defaults(NO_CLASS)
    values = dict(implied.value)
    if keys.any(*THETAS):  # which stand in the file; compressed layers have a key of their own
        values = {name: each if name == "compress" else _without_theta(each) for name, each in values.items()}
        values.pop("rope_theta", None)
    return Keys(values, keys.path, f"{implied.source}.", account=keys.account)


def _without_theta(value: Any) -> Any:
    return {key: each for key, each in value.items() if key != "rope_theta"} if isinstance(value, Mapping) else value


def _nested(keys: Keys, settings: Keys, warnings: list[str]) -> list[Layer] | None:
    """The layers of settings by layer type; None where the settings are flat."""
    types = set(keys.words("layer_types"))
    nested = [
        name
        for name, value in settings.data.items()
        if isinstance(value, Mapping)
        or (value is None and (name in types or "_att" in name) and name not in _shared_settings())
    ]
    for name in types & settings.data.keys():
        if settings.data[name] is not None and name not in nested:
            raise settings.wrong(name, "it must be an object or null")
    if not nested:
        return None
    if len(nested) > MAX_TYPES:
        raise FileError(keys.path, f"has settings for {len(nested)} layer types, more than any model has")
    nested = _of_layers(nested, types, warnings)
    without = [name for name in nested if not settings.data[name]]
    if without:
        warnings.append(f"layers of type {', '.join(without)} have no positional encoding: their settings are null")
    shared = {name: value for name, value in settings.data.items() if name in _shared_settings()}
    found = []
    for name in nested:
        section = settings.section(name)
        if section is not None:
            places = {key: settings.full_name(key) for key in shared if key not in section.data}
            found.append(Layer(name, section.replaced({**shared, **section.data}, places)))
    return found


def _of_layers(nested: list[str], types: set[str], warnings: list[str]) -> list[str]:
    """The names that a layer has; all of them where they are not names of layer types at all, as in DeepSeek-V4."""
    used = [name for name in nested if name in types]
    if not used or len(used) == len(nested):
        return nested
    unused = ", ".join(name for name in nested if name not in types)
    warnings.append(f"settings of {unused} are not used: layer_types names no such layer")
    return used


def _flat(keys: Keys, settings: Keys, family: Family) -> list[Layer]:
    """The layers of settings that name no layer types."""
    bare = keys.replaced({}).with_defaults(NO_CLASS)
    local = keys.number(*LOCAL_THETAS) or default(family.local_theta, family.source)
    if local is not None or family.scales_full_layers:
        others = settings if family.scales_all_layers else bare
        return [Layer("full_attention", settings), Layer("sliding_attention", others, local)]
    compressed = keys.number("compress_rope_theta")
    if compressed is not None:
        return [Layer("main", bare), Layer("compress", _compressed(settings), compressed)]
    return [Layer("", settings)]


def _compressed(settings: Keys) -> Keys:
    """Settings of compressed layers: their base is a key of its own, and their cos and sin have no attention factor."""
    own = {name: value for name, value in settings.data.items() if name != "rope_theta"}
    if "yarn" in (own.get("rope_type"), own.get("type")):
        own.setdefault("attention_factor", 1.0)
    return settings.replaced(own)


def unrotated_layers(keys: Keys, warnings: list[str]) -> dict[str, Value]:
    """Layers that have no rope, by number, and what their queries are multiplied by instead.

    They are 0 in a list of all layers; without a list, every so many layers one where the class has an interval.
    """
    _warn_of_thetas(keys, warnings)
    rotates = keys.numbers("no_rope_layers") or keys.numbers("no_rope_layer_flags") or keys.numbers("layer_rope_theta")
    interval, layers = keys.whole("no_rope_layer_interval"), keys.whole("num_hidden_layers")
    if rotates is not None and rotates.value:
        numbers, source = [k for k, value in enumerate(rotates.value) if not value], f"{rotates.source} is 0 there"
    elif interval is not None and layers is not None:
        step, source = interval.value, f"one layer in {interval.value} ({interval.source})"
        numbers = [*range(step - 1, min(layers.value, MAX_LAYERS), step)]
    else:
        return {}
    if not numbers:
        return {}
    warnings.append(f"layers {begun([str(number) for number in numbers], MAX_LISTED)} have no rope: {source}")
    found = {"nope_layers": Value(numbers, source)}
    tuned, scale, floor = keys.value("attn_temperature_tuning"), keys.number("attn_scale"), keys.whole("floor_scale")
    if tuned and tuned.value and scale and floor:
        warnings.append(
            f"queries of layers without rope are multiplied by 1 + {scale.value:g}·ln(1 + ⌊(p + 1)/{floor.value}⌋) "
            "at position p, outside the table"
        )
        found |= {"attn_scale": scale, "floor_scale": floor}
    return found


def _warn_of_thetas(keys: Keys, warnings: list[str]) -> None:
    thetas = keys.numbers("layer_rope_theta")
    others = sorted({value for value in thetas.value if value}) if thetas else []
    if thetas and len(others) > 1:
        warnings.append(f"layers have bases of their own: {thetas.source} holds {', '.join(map(str, others))}")


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
    """The width of a head, the dim of the scheme, and the fraction of it that rotates where given as one."""

    size: Value
    dim: Value
    partial: Value | None = None
    latent: bool = False
    """Whether only a part made for it rotates, beside a larger part that never does."""


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


def head_of(keys: Keys, own: Keys, family: Family, layer: str, *, axes: int, several: bool, scaled: bool) -> Head:
    """The head of a layer type, and how much of it rotates."""
    latent = keys.whole("qk_rope_head_dim", low=0)
    if latent is not None and latent.value:
        return _latent_head(keys, own, family, latent, scaled=scaled)
    size = head_size(keys, layer, several=several)
    if axes:
        return Head(size, _axis(size, axes, family))
    is_read = not family.ignores_rotary_dim and PARTIALS[0] not in own
    direct = keys.whole("rotary_dim", low=0) if is_read else None
    if direct is not None and direct.value:
        return Head(size, direct)
    partial = _partial(keys, own, scaled=scaled) or default(family.partial, family.source)
    if partial is None or partial.value == 1:
        return Head(size, size, None)
    if family.wide_partial and partial.value > 1:
        return Head(size, Value(int(size.value * partial.value), f"{size.source} · {partial.source}"))
    return Head(size, size, partial)


def _partial(keys: Keys, own: Keys, *, scaled: bool) -> Value | None:
    """The fraction that is given; most classes take notice of it only where they scale."""
    ignores = () if scaled else keys.defaults.ignores
    if f"rope_parameters.{PARTIALS[0]}" in ignores:
        own.account.ignored[own.full_name(PARTIALS[0])] = keys.defaults.name
    elif inner := own.number(PARTIALS[0]):
        return inner
    names = [name for name in PARTIALS if name not in ignores]
    return (keys.with_defaults(replace(keys.defaults, ignores=frozenset())) if scaled else keys).number(*names)


def _latent_head(keys: Keys, own: Keys, family: Family, latent: Value, *, scaled: bool) -> Head:
    """The head of latent attention, of which only a part made for it rotates."""
    size, given = _latent_size(keys, latent), keys.whole("head_dim")
    if family.head_dim_rotates and given is not None and "head_dim" in keys:
        latent = given  # as DeepSeek-V3's class in transformers has it
    partial = _partial(keys, own, scaled=scaled)
    if family.partial_of_head and partial is not None:
        return Head(size, Value(int(size.value * partial.value), f"{size.source} · {partial.source}"), latent=True)
    return Head(size, latent, partial if partial is not None and partial.value != 1 else None, latent=True)


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
