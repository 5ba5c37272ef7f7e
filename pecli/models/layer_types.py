"""Which layer types rotate, where the settings of each are, how wide its heads are, and how much of them rotates. Flat
settings, which name no layer types, still mean two tables where a model keeps another base beside them, or where its
family scales only some of its layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pecli.engine.scalings import PARAMETERS
from pecli.errors import FileError, listed
from pecli.models.data import synonyms
from pecli.models.families import Family
from pecli.models.keys import Keys, Setting, default

THETAS = synonyms("theta")
LOCAL_THETAS = synonyms("local_theta")
PARTIALS = synonyms("partial")
SETTINGS = ("rope_parameters", "rope_scaling")
EVIDENCE = (
    *THETAS,
    *LOCAL_THETAS,
    *PARTIALS,
    *SETTINGS,
    "rope_ratio",
    "rotary_dim",
    "qk_rope_head_dim",
)
"""Keys that only models with rotary encodings have."""
MROPE, MSCALES = ("mrope_section", "xdrope_section"), ("short_mscale", "long_mscale")
_OWN = (
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "alpha",
    "mrope_interleaved",
    "llama_4_scaling_beta",
)
SHARED = frozenset(
    (*_OWN, *PARTIALS, *MROPE, *MSCALES, *PARAMETERS)
)  #: What settings may hold beside layer types
MAX_TYPES, MAX_LAYERS, MAX_LISTED = 64, 4096, 32


@dataclass(frozen=True)
class Layer:
    """A layer type of a model: its settings among the model's keys, and its base where that is given elsewhere."""

    name: str
    own: Keys
    keys: Keys
    family: Family
    warnings: list[str]
    theta: Setting[Any] | None = None


Parts = dict[str, tuple[Keys, Setting[Any] | None]]  #: Settings and base by layer type


def layers_of(keys: Keys, family: Family, warnings: list[str]) -> list[Layer]:
    """The layer types that rotate; one without a name where all layers share their settings."""
    settings = _settings(keys, warnings)
    if (parts := _nested(keys, settings, family, warnings)) is None:
        parts = _flat(keys, settings, family)
    return [Layer(name, own, keys, family, warnings, theta) for name, (own, theta) in parts.items()]


def _settings(keys: Keys, warnings: list[str]) -> Keys:
    """The settings: `rope_scaling` if given, else `rope_parameters`, else what the class has for it."""
    old, new = keys.section("rope_scaling"), keys.section("rope_parameters")
    if old is not None and new is not None and dict(old.data) == dict(new.data):
        _mark_all(new)
    elif old is not None and new is not None:
        warnings.append(
            "rope_scaling and rope_parameters are both given and differ; rope_scaling wins"
        )
    implied = keys.value("rope_parameters")
    if old or new or implied is None:
        return old or new or Keys({}, keys.path, keys.prefix, account=keys.account)
    values = dict(implied.value)
    if keys.any(*THETAS):  # which stand in the file; compressed layers have a key of their own
        values.pop("rope_theta", None)
        for name, inner in values.items():
            if isinstance(inner, Mapping) and name != "compress":
                values[name] = {key: value for key, value in inner.items() if key != "rope_theta"}
    return Keys(values, keys.path, f"{implied.source}.", account=keys.account)


def _mark_all(keys: Keys) -> None:
    keys.mark(*keys.data)
    for inner in filter(None, map(keys.part, keys.data)):
        _mark_all(inner)


def _nested(keys: Keys, settings: Keys, family: Family, warnings: list[str]) -> Parts | None:
    """The settings by layer type; None where they are flat."""
    types = set(keys.words("layer_types"))
    nested = [
        name
        for name, value in settings.data.items()
        if isinstance(value, Mapping)
        or name in types
        or (value is None and "_att" in name and name not in SHARED)
    ]
    if not nested:
        return None
    if len(nested) > MAX_TYPES:
        raise FileError(
            keys.path, f"has settings for {len(nested)} layer types, more than any model has"
        )
    unused = [name for name in nested if name not in types]
    if unused and len(unused) < len(
        nested
    ):  # else they are not names of layer types at all, as in DeepSeek-V4
        warnings.append(
            f"settings of {', '.join(unused)} are not used: layer_types names no such layer"
        )
        nested = [name for name in nested if name in types]
    without = [name for name in nested if not settings.data[name]]
    if without and family.local_theta is None:
        warnings.append(
            f"layers of type {', '.join(without)} have no positional encoding: their settings are null"
        )
    shared = {name: value for name, value in settings.data.items() if name in SHARED}
    found: Parts = {}
    for name in nested:
        if section := settings.section(name):
            places = {key: settings.full_name(key) for key in shared if key not in section.data}
            own = replace(section, data={**shared, **section.data}, origins=places)
            is_local = name == "sliding_attention" and "rope_theta" not in own
            found[name] = own, _local_theta(keys, family) if is_local else None
    absent = (types or {*SIZES_OF_LAYERS}) - found.keys()
    if absent and family.local_theta is not None:  # whose class has settings for them
        others = _flat(keys, Keys({}, keys.path, keys.prefix, account=keys.account), family)
        found |= {name: part for name, part in others.items() if name in absent}
    return found


def _local_theta(keys: Keys, family: Family) -> Setting[Any] | None:
    return keys.number(*LOCAL_THETAS) or default(family.local_theta, family.source)


def _flat(keys: Keys, settings: Keys, family: Family) -> Parts:
    """Settings that name no layer types. Compressed layers have no attention factor, and a base of their own."""
    bare = Keys({}, keys.path, keys.prefix, account=keys.account)
    if local := _local_theta(keys, family):
        others = settings if family.scales_all_layers else bare
        return {"full_attention": (settings, None), "sliding_attention": (others, local)}
    if (compressed := keys.number("compress_rope_theta")) is None:
        return {"": (settings, None)}
    own = {name: value for name, value in settings.data.items() if name != "rope_theta"}
    if "yarn" in (own.get("rope_type"), own.get("type")):
        own.setdefault("attention_factor", 1.0)
    places = {**settings.origins, "attention_factor": "compressed layers have none"}
    return {
        "main": (bare, None),
        "compress": (replace(settings, data=own, origins=places), compressed),
    }


def unrotated_layers(keys: Keys, warnings: list[str]) -> dict[str, Setting[Any]]:
    """Layers that have no rope, by number, and what their queries are multiplied by instead. They are 0 in a list of
    all layers; without a list, every so many layers one where the class has an interval."""
    thetas = keys.numbers("layer_rope_theta")
    others = sorted({value for value in thetas.value if value}) if thetas else []
    if thetas and len(others) > 1:
        warnings.append(
            f"layers have bases of their own: {thetas.source} holds {', '.join(map(str, others))}"
        )
    rotates = keys.numbers("no_rope_layers", "no_rope_layer_flags") or thetas
    interval, layers = keys.whole("no_rope_layer_interval"), keys.whole("num_hidden_layers")
    numbers, source = list[int](), ""
    if rotates is not None and rotates.value:
        numbers, source = (
            [k for k, value in enumerate(rotates.value) if not value],
            f"{rotates.source} is 0 there",
        )
    elif interval is not None and layers is not None:
        numbers = [*range(interval.value - 1, min(layers.value, MAX_LAYERS), interval.value)]
        source = f"one layer in {interval.value} ({interval.source})"
    if not numbers:
        return {}
    warnings.append(
        f"layers {listed([str(number) for number in numbers], MAX_LISTED)} have no rope: {source}"
    )
    found: dict[str, Setting[Any]] = {"nope_layers": Setting(numbers, source)}
    tuned, scale, floor = (
        keys.value("attn_temperature_tuning"),
        keys.number("attn_scale"),
        keys.whole("floor_scale"),
    )
    if tuned and tuned.value and scale and floor:
        by = f"1 + {scale.value:g}·ln(1 + ⌊(p + 1)/{floor.value}⌋) at position p"
        warnings.append(f"queries of layers without rope are multiplied by {by}, outside the table")
        found |= {"attn_scale": scale, "floor_scale": floor}
    return found


SIZES = synonyms("head_size")
WIDTHS = synonyms("width")
HEADS = synonyms("heads")
SIZES_OF_LAYERS = {"full_attention": "global_head_dim", "sliding_attention": "swa_head_dim"}
"""Keys that hold the width of a head of one layer type."""


@dataclass(frozen=True)
class Head:
    """The width of a head, the dim of the scheme, and the fraction of it that rotates where given as one."""

    size: Setting[Any]
    dim: Setting[Any]
    partial: Setting[Any] | None = None
    latent: bool = (
        False  #: Whether only a part made for it rotates, beside a larger part that never does
    )


def width_of(keys: Keys) -> Setting[Any] | None:
    """The width of the model; `embed_dim` is the inner one where both are given."""
    return keys.whole("embed_dim") or keys.whole(*WIDTHS)


def head_size(keys: Keys, layer: str = "") -> Setting[Any]:
    """The width of a head, by the first rule that applies; most often that of the model shared among its heads."""
    layers, types = keys.section("per_layer_config"), keys.words("layer_types")
    named = [str(number) for number, name in enumerate(types) if layer and name == layer]
    own = next(filter(None, map(layers.part, named)), None) if layers else None
    found = own.whole("head_dim") if own else None
    if found is None and layer in SIZES_OF_LAYERS:
        found = keys.whole(SIZES_OF_LAYERS[layer])
    if found := found or keys.whole(*SIZES):
        return found
    width, heads = (
        keys.needed(width_of(keys), "head_dim"),
        keys.needed(keys.whole(*HEADS), "number of attention heads"),
    )
    is_memory = width.source.endswith("memory_attention_hidden_size")
    rate = keys.whole("memory_attention_downsample_rate") if is_memory else None
    if rate is not None and rate.value > 1:
        width = Setting(width.value // rate.value, f"{width.source} // {rate.source}")
    size, source = width.value // heads.value, f"{width.source} // {heads.source}"
    if size < 1:
        raise FileError(
            keys.path, f"{source} is {width.value} // {heads.value}", "a head must have a channel"
        )
    return Setting(size, source)


def head_of(layer: Layer, *, axes: int, scaled: bool) -> Head:
    """The head of a layer type, and how much of it rotates."""
    keys, own, family = layer.keys, layer.own, layer.family
    if (latent := keys.whole("qk_rope_head_dim", low=0)) and latent.value:
        return _latent_head(layer, latent, scaled=scaled)
    size = head_size(keys, layer.name)
    if axes == 3:
        return Head(
            size,
            Setting(2 * (size.value // 3 // 2), f"2 · (({size.source}) // 3 // 2), one of 3 axes"),
        )
    if axes:
        half = Setting(size.value // 2, f"({size.source}) // 2, one of 2 axes")
        return Head(size, size if family.order == "axes" else half)
    is_read = not family.ignores_rotary_dim and PARTIALS[0] not in own
    is_own = layer.name == "sliding_attention" and "swa_rotary_dim" in keys
    direct = keys.whole("swa_rotary_dim" if is_own else "rotary_dim", low=0) if is_read else None
    if direct is not None and direct.value:
        return Head(size, direct)
    partial = _partial(keys, own, scaled=scaled) or default(family.partial, family.source)
    if partial is None or partial.value == 1:
        return Head(size, size)
    if family.partial and family.partial > 1 and partial.value > 1:
        return Head(
            size, Setting(int(size.value * partial.value), f"{size.source} · {partial.source}")
        )
    return Head(size, size, partial)


def _partial(keys: Keys, own: Keys, *, scaled: bool) -> Setting[Any] | None:
    """The fraction that is given; most classes take notice of it, however it is spelled, only where they scale."""
    ignores = frozenset() if scaled else keys.defaults.ignores
    nested = f"rope_parameters.{PARTIALS[0]}"
    if nested in ignores:
        own.account.ignored[own.full_name(PARTIALS[0])] = keys.defaults.name
    elif inner := own.number(PARTIALS[0]):
        return inner
    if {nested, PARTIALS[0]} <= ignores:
        ignores |= {*PARTIALS}
        whole = [
            name for name in PARTIALS if keys.data.get(name) == 1 and keys.data[name] is not True
        ]
        keys.mark(*whole)  # all channels rotate, as without the key
    return replace(keys, defaults=replace(keys.defaults, ignores=ignores)).number(*PARTIALS)


def _latent_head(layer: Layer, latent: Setting[Any], *, scaled: bool) -> Head:
    keys, family = layer.keys, layer.family
    given, nope = keys.whole("head_dim"), keys.whole("qk_nope_head_dim", low=0)
    size = keys.whole("qk_head_dim")
    if size is None and nope is not None:
        size = Setting(latent.value + nope.value, f"{nope.source} + {latent.source}")
    elif size is None:
        size = given if given is not None and given.value > latent.value else latent
    if family.head_dim_rotates and given is not None and "head_dim" in keys:
        if given.value != latent.value:
            said = f"{given.source} is {given.value}, for which transformers computes frequencies: they do not fit the"
            layer.warnings.append(
                f"{said} {latent.value} channels of {latent.source}, which other runtimes go by"
            )
        latent = given  # as DeepSeek-V3's class in transformers has it
    partial = _partial(keys, layer.own, scaled=scaled)
    if family.partial_of_head and partial is not None:
        return Head(
            size,
            Setting(int(size.value * partial.value), f"{size.source} · {partial.source}"),
            latent=True,
        )
    return Head(
        size, latent, partial if partial is not None and partial.value != 1 else None, latent=True
    )
