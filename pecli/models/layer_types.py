"""The layer types of a model that rotate, and the rotary settings of each.

Settings come in three forms: flat, for all layers; flat, beside a second base for sliding layers
(`rope_local_base_freq` of Gemma 3); or nested, an object per layer type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pecli.errors import FileError, listed
from pecli.models.families import ModelFamily
from pecli.models.key_names import (
    FULL,
    LOCAL_THETAS,
    SHARED,
    SLIDING,
    THETAS,
)
from pecli.models.keys import Keys, Origin, Setting, computed, default, nonzero

MAX_TYPES = 64
MAX_LAYERS = 4096
MAX_LISTED = 32
NO_LAYERS: Setting[tuple[int, ...]] = Setting((), "")


@dataclass(frozen=True)
class Layer:
    """A layer type of a model.

    Attributes:
        name: The name, such as `sliding_attention`; empty if all layers share their settings.
        settings: The rotary settings of these layers, such as those in `rope_scaling`.
        keys: The keys of the model.
        family: The family of the model.
        theta: The base, if it is given outside the settings.
    """

    name: str
    settings: Keys
    keys: Keys
    family: ModelFamily
    theta: Setting[float] | None = None


class Layers(NamedTuple):
    """The layer types that rotate, and warnings about their settings."""

    layers: list[Layer]
    warnings: list[str]


class _Settings(NamedTuple):
    """The rotary settings of a configuration, such as its `rope_scaling`, and warnings about them."""

    keys: Keys
    warnings: list[str]


def layers_of(keys: Keys, family: ModelFamily) -> Layers:
    """Return the types of layers that rotate, each with the settings that count for it.

    Gemma 3 has two, `full_attention` and `sliding_attention`. If all layers share their settings,
    there is one type, without a name.
    """
    settings, warnings = _rotary_settings(keys)
    layer_types = set(keys.words("layer_types"))
    names = _layer_names(settings, layer_types)
    if not names:
        return Layers(_layers_without_names(keys, settings, family), warnings)
    named = _layers_of_settings_by_type(keys, settings, family, names, layer_types)
    return Layers(named.layers, [*warnings, *named.warnings])


def _rotary_settings(keys: Keys) -> _Settings:
    """Return the object of a config.json that holds the rotary settings, such as the scaling.

    Its key is `rope_scaling`, or `rope_parameters` since transformers 5. If a file has both, the
    older key counts. If it has neither, the default of the model's class does.
    """
    old = keys.section("rope_scaling")
    new = keys.section("rope_parameters")
    # `section` finds objects of the file only. If the key is not there, `value` finds the default of
    # the model's class, which is an object as well.
    default_of_class = keys.value("rope_parameters")
    if old and new:
        return _Settings(old, warnings=_warnings_of_both(old, new))
    if old or new:
        return _Settings(old or new, warnings=[])
    if default_of_class is not None:
        return _Settings(_class_settings(keys, default_of_class), warnings=[])
    return _Settings(keys.empty(), warnings=[])


def _warnings_of_both(old: Keys, new: Keys) -> list[str]:
    """Return a warning if both spellings of the settings are given and differ.

    If they are equal, the new one only repeats the old, and its keys count as read.
    """
    if dict(old.data) != dict(new.data):
        return ["rope_scaling and rope_parameters are both given and differ; rope_scaling wins"]
    _mark_all(new)
    return []


def _class_settings(keys: Keys, implied: Setting[object]) -> Keys:
    """Return the settings that a class has by default, without its base if the file has one."""
    assert isinstance(implied.value, Mapping)  # A value in the file would be a section.
    values = dict(implied.value)
    if keys.has_any(*THETAS):
        values = _without_theta(values)
    prefix = f"{implied.source}."
    return Keys(values, keys.path, prefix, usage=keys.usage, is_implied=True)


def _without_theta(values: Mapping[str, object]) -> dict[str, object]:
    """Return class defaults without their bases, which a base in the file replaces.

    Compressed layers (DeepSeek-V4) keep theirs: the file has `compress_rope_theta` for it.
    """
    kept = _without("rope_theta", values)
    for name, value in kept.items():
        if isinstance(value, Mapping) and name != "compress":
            kept[name] = _without("rope_theta", value)
    return kept


def _without(key: str, values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if name != key}


def _mark_all(keys: Keys) -> None:
    """Record all keys of an object as read, and those of the objects within."""
    keys.mark_as_read(*keys.data)
    for name in keys.data:
        _mark_all(keys.inner(name))


def _layers_of_settings_by_type(
    keys: Keys,
    rotary_settings: Keys,
    family: ModelFamily,
    types_in_settings: list[str],
    listed_types: set[str],
) -> Layers:
    """Return the layer types that rotate, for rotary settings with an object per layer type.

    Gemma 3 has `{"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}`
    in transformers 5. A null in place of an object means that layers of this type do not rotate.

    Args:
        keys: The whole configuration.
        rotary_settings: Its `rope_parameters` or `rope_scaling`.
        family: The family whose defaults apply.
        types_in_settings: The layer types that the rotary settings have an object or a null for.
        listed_types: The types that the key `layer_types` lists; empty without the key.
    """
    types_of_no_layer = _unused_names(types_in_settings, listed_types)
    used_types = [name for name in types_in_settings if name not in types_of_no_layer]
    rotating = _layers_with_settings(used_types, rotary_settings, keys, family)
    # Gemma 3's class has settings for a layer type that the file leaves out.
    rotating += _layers_left_out_of_file(keys, family, listed_types, rotating)
    types_without_rope = _names_with_null_settings(used_types, rotary_settings, family)
    return Layers(rotating, _nested_warnings(types_of_no_layer, types_without_rope))


def _names_with_null_settings(
    names: list[str], rotary_settings: Keys, family: ModelFamily
) -> list[str]:
    """Return the layer types that do not rotate, because their settings are null.

    There are none in a family with two bases: Gemma 3's class fills in the default base of a layer
    type whose settings are null.
    """
    if _has_two_bases(family):
        return []
    return [name for name in names if not rotary_settings.data[name]]


def _has_two_bases(family: ModelFamily) -> bool:
    """Return True if sliding layers have a base of their own by default: 1e4 in Gemma 3."""
    return family.local_theta is not None


def _layer_names(settings: Keys, types: set[str]) -> list[str]:
    """Return the keys of the settings that are layer types.

    Raises:
        FileError: There are more than any model has.
    """
    names = [name for name, value in settings.data.items() if _names_layers(name, value, types)]
    if len(names) > MAX_TYPES:
        problem = f"has settings for {len(names)} layer types, more than any model has"
        raise FileError(settings.path, problem)
    return names


def _nested_warnings(unused: Sequence[str], unrotated: Sequence[str]) -> list[str]:
    """Return warnings about layer types that no layer has, and about those whose settings are null."""
    warnings = []
    if unused:
        warnings.append(
            f"settings of {', '.join(unused)} are not used: layer_types names no such layer"
        )
    if unrotated:
        names = ", ".join(unrotated)
        warnings.append(
            f"layers of type {names} have no positional encoding: their settings are null"
        )
    return warnings


def _unused_names(names: list[str], types: set[str]) -> list[str]:
    """Return the names of settings that no layer has.

    If none of the names is a layer type, all of them count as used, since they are names of another
    kind: DeepSeek-V4 has settings for `main` and `compress`, and layer types with other names.
    """
    unused = [name for name in names if name not in types]
    return unused if len(unused) < len(names) else []


def _layers_with_settings(
    names: list[str], settings: Keys, keys: Keys, family: ModelFamily
) -> list[Layer]:
    """Return the layer types that have settings; those whose settings are null do not rotate.

    Args:
        names: The layer types that the settings name, and that some layer has.
        settings: The rotary settings, with an object per layer type.
        keys: The whole configuration.
        family: The family whose defaults apply.
    """
    layers = []
    for name in names:
        settings_of_type = settings.section(name)
        if settings_of_type:
            layer = _nested_layer(name, settings_of_type, settings, keys, family)
            layers.append(layer)
    return layers


def _names_layers(name: str, value: object, types: set[str]) -> bool:
    """Return True if a key of the settings is a layer type.

    `{"full_attention": {…}, "sliding_attention": null}` names two of them: layers whose settings
    are null do not rotate.
    """
    if isinstance(value, Mapping) or name in types:
        return True
    # A null with another name, such as `factor`, is a parameter that is left out.
    return value is None and "_att" in name and name not in SHARED


def _nested_layer(
    name: str, settings_of_type: Keys, all_settings: Keys, keys: Keys, family: ModelFamily
) -> Layer:
    """Return a layer type with its own settings, and with those that stand beside the layer types.

    `{"rope_theta": 1e6, "full_attention": {"rope_type": "yarn", …}}` has a base for all types.
    Sliding layers without any base in these settings have the one outside of them, such as
    `rope_local_base_freq`.

    Args:
        name: The layer type, such as `full_attention`.
        settings_of_type: The object of this name in the rotary settings.
        all_settings: The rotary settings around it: `rope_parameters`.
        keys: The whole configuration.
        family: The family whose defaults apply.
    """
    layer_settings = _with_shared_settings(settings_of_type, all_settings)
    theta = None
    if name == SLIDING and "rope_theta" not in layer_settings:
        theta = _local_theta(keys, family)
    return Layer(name, settings=layer_settings, keys=keys, family=family, theta=theta)


def _with_shared_settings(settings_of_type: Keys, all_settings: Keys) -> Keys:
    """Return the settings of a layer type, and the ones beside it that all layer types share.

    In `{"rope_theta": 1e6, "full_attention": {"rope_type": "yarn"}}`, full attention has both keys.
    """
    shared_values = {}
    shared_origins = {}
    for name, value in all_settings.data.items():
        if name in SHARED and name not in settings_of_type.data:
            shared_values[name] = value
            shared_origins[name] = all_settings.origin(name)
    return replace(
        settings_of_type,
        data={**shared_values, **settings_of_type.data},
        origins={**settings_of_type.origins, **shared_origins},
    )


def _layers_left_out_of_file(
    keys: Keys, family: ModelFamily, listed_types: set[str], layers_with_settings: list[Layer]
) -> list[Layer]:
    """Return the layer types without settings in the file, as the class of the model has them.

    A Gemma 3 may have settings for `full_attention` only: its `sliding_attention` has the base 1e4
    of the class. Classes of other families, without a second base, have no such layers.

    Args:
        keys: The whole configuration.
        family: The family whose defaults apply.
        listed_types: The layer types that the configuration lists; empty if it lists none, which
            stands for full and sliding attention.
        layers_with_settings: The layer types that have settings.
    """
    expected_types = listed_types or {FULL, SLIDING}
    absent_types = expected_types - {layer.name for layer in layers_with_settings}
    if not absent_types or not _has_two_bases(family):
        return []
    layers_of_class = _layers_without_names(keys, settings=keys.empty(), family=family)
    return [layer for layer in layers_of_class if layer.name in absent_types]


def _local_theta(keys: Keys, family: ModelFamily) -> Setting[float] | None:
    """Return the base of sliding layers; None if it is not a separate one."""
    return keys.number(*LOCAL_THETAS) or default(family.local_theta, family.source)


def _layers_without_names(keys: Keys, settings: Keys, family: ModelFamily) -> list[Layer]:
    """Return the layer types of rotary settings that do not name any: one, or two with two bases.

    A second base belongs to sliding layers (Gemma 3: 1e6 and 1e4) or to DeepSeek-V4's layers that
    compress their keys.

    Args:
        keys: The whole configuration.
        settings: The rotary settings in it, such as `rope_scaling`.
        family: The family whose defaults apply.
    """
    base_of_sliding = _local_theta(keys, family)
    if base_of_sliding is not None:
        return _full_and_sliding_layers(keys, settings, family, base_of_sliding)
    base_of_compressed = keys.number("compress_rope_theta")
    if base_of_compressed is not None:
        return _main_and_compressed_layers(keys, settings, family, base_of_compressed)
    return [Layer("", settings=settings, keys=keys, family=family)]


def _full_and_sliding_layers(
    keys: Keys, settings: Keys, family: ModelFamily, base_of_sliding: Setting[float]
) -> list[Layer]:
    """Return full layers, and sliding layers with a base of their own.

    A scaling is for the full layers only in Gemma 3, and for all layers in ModernBERT.
    """
    of_sliding = settings if family.scales_all_layers else keys.empty()
    full = Layer(FULL, settings=settings, keys=keys, family=family)
    sliding = Layer(SLIDING, settings=of_sliding, keys=keys, family=family, theta=base_of_sliding)
    return [full, sliding]


def _main_and_compressed_layers(
    keys: Keys, settings: Keys, family: ModelFamily, base_of_compressed: Setting[float]
) -> list[Layer]:
    """Return DeepSeek-V4's layers: main ones, and those that compress their keys.

    Its YaRN is for the compressed layers, which see the whole context. The main ones only see a
    window of it, and are not scaled.
    """
    main = Layer("main", settings=keys.empty(), keys=keys, family=family)
    of_compressed = _compressed_settings(settings)
    compressed = Layer(
        "compress", settings=of_compressed, keys=keys, family=family, theta=base_of_compressed
    )
    return [main, compressed]


def _compressed_settings(settings: Keys) -> Keys:
    """Return the settings of DeepSeek-V4's compressed layers, which have a base of their own.

    Their YaRN does not multiply cos and sin: its attention factor is 1 unless the file states one.
    """
    data = _without("rope_theta", settings.data)
    if "yarn" in (data.get("rope_type"), data.get("type")):
        data.setdefault("attention_factor", 1.0)
    origins = {**settings.origins, "attention_factor": Origin("compressed layers have none")}
    return replace(settings, data=data, origins=origins)


class Unrotated(NamedTuple):
    """Settings of layers without rope, by the names of `UnrotatedLayers`, and warnings about them."""

    settings: dict[str, Setting[object]]
    warnings: list[str]


def unrotated_layers(keys: Keys, family: ModelFamily) -> Unrotated:
    """Return the layers without rope (NoPE), and what their queries are multiplied by instead.

    Llama 4 leaves every fourth layer unrotated, and multiplies its queries by a factor that grows
    with the position. Warnings name the layers and the factor, which no table shows.
    """
    # Some files list a base per layer; 0 stands for a layer without rope.
    no_list: Setting[list[float]] = Setting([], source="")
    base_by_layer = keys.numbers("layer_rope_theta") or no_list
    warnings = _warnings_of_several_bases(base_by_layer)
    nope_layers = _numbers_of_unrotated_layers(keys, base_by_layer, family)
    if not nope_layers.value:
        return Unrotated({}, warnings)
    numbers = listed([str(number) for number in nope_layers.value], MAX_LISTED)
    warnings.append(f"layers {numbers} have no rope: {nope_layers.source}")
    settings: dict[str, Setting[object]] = {"nope_layers": nope_layers}
    query_factor = _factor_of_unrotated_queries(keys)
    if query_factor is not None:
        warnings.append(query_factor.warning)
        settings["attn_scale"] = query_factor.scale
        settings["floor_scale"] = query_factor.floor
    return Unrotated(settings, warnings)


def _warnings_of_several_bases(thetas: Setting[list[float]]) -> list[str]:
    """Return a warning if layers have different bases; a 0 stands for a layer without rope."""
    bases = sorted(set(thetas.value) - {0})
    if len(bases) <= 1:
        return []
    shown = ", ".join(map(str, bases))
    return [f"layers have bases of their own: {thetas.source} holds {shown}"]


class QueryFactor(NamedTuple):
    """Llama 4's factor of queries without rope, which grows by the logarithm of the position."""

    scale: Setting[float]
    floor: Setting[int]

    @property
    def warning(self) -> str:
        factor = f"1 + {self.scale.value:g}·ln(1 + ⌊(p + 1)/{self.floor.value}⌋) at position p"
        return f"queries of layers without rope are multiplied by {factor}, outside the table"


def _factor_of_unrotated_queries(keys: Keys) -> QueryFactor | None:
    """Return the numbers of the factor by which queries grow with the position, as in Llama 4.

    It is 1 + attn_scale · ln(1 + ⌊(p + 1) / floor_scale⌋) at position p. None if
    `attn_temperature_tuning` switches it off, or one of the numbers is missing.
    """
    tuned = nonzero(keys.value("attn_temperature_tuning"))
    scale = keys.number("attn_scale")
    floor = keys.whole_number("floor_scale")
    if tuned is None or scale is None or floor is None:
        return None
    return QueryFactor(scale, floor)


def _numbers_of_unrotated_layers(
    keys: Keys, base_by_layer: Setting[list[float]], family: ModelFamily
) -> Setting[tuple[int, ...]]:
    """Return the numbers of the layers without rope.

    A list with a number per layer has a 0 for each of them. Llama 4's `no_rope_layers` are flags, [1,
    1, 1, 0, …]; `layer_rope_theta` are bases, [1e4, 1e4, 0, …]. Other files have an interval: 4
    means the layers 3, 7, 11, …

    Args:
        keys: The keys of the model.
        base_by_layer: The list `layer_rope_theta`; empty if the file has none.
        family: The family of the model.
    """
    # All keys are read in any case, so that none is reported as a key that nothing reads.
    flag_by_layer = keys.numbers("no_rope_layers", "no_rope_layer_flags")
    interval = keys.whole_number("no_rope_layer_interval")
    layer_count = keys.whole_number("num_hidden_layers")
    number_by_layer = base_by_layer if flag_by_layer is None else flag_by_layer
    has_list = len(number_by_layer.value) > 0
    if has_list:
        return _layers_of_zeros(number_by_layer)
    if layer_count is None:
        return NO_LAYERS
    return _unrotated_at_intervals(min(layer_count.value, MAX_LAYERS), interval, family)


def _layers_of_zeros(number_by_layer: Setting[list[float]]) -> Setting[tuple[int, ...]]:
    """Return the indices of zeros in a list with a number per layer.

    >>> from pecli.models.keys import setting_from_key
    >>> _layers_of_zeros(setting_from_key([1, 1, 1, 0, 1, 1, 1, 0], "no_rope_layers"))
    Setting(value=(3, 7), source='no_rope_layers is 0 there', stated_by=('no_rope_layers',))
    """
    layers = tuple(layer for layer, number in enumerate(number_by_layer.value) if number == 0)
    return computed(layers, "{} is 0 there", number_by_layer)


def _unrotated_at_intervals(
    layer_count: int, interval: Setting[int] | None, family: ModelFamily
) -> Setting[tuple[int, ...]]:
    """Return the numbers of layers without rope, if they come at a fixed interval.

    An interval of 4 in the file means layers 3, 7, 11, … Families may count from the last layer
    instead: of 30 layers, one in 4, these are 1, 5, …, 29.

    Args:
        layer_count: The number of layers of the model.
        interval: The interval in the file; None if it states none.
        family: The family of the model.
    """
    if interval is not None:
        first = interval.value - 1
        layers = tuple(range(first, layer_count, interval.value))
        return interval.implying(layers, f"one layer in {interval.value} ({interval.source})")
    step = family.unrotated_from_last
    if step:
        last = layer_count - 1
        first = last % step
        layers = tuple(range(first, layer_count, step))
        return Setting(layers, f"one layer in {step}, counted from the last ({family.source})")
    return NO_LAYERS


def unrotated_type(keys: Keys, family: ModelFamily) -> str:
    """Return the layer type that has no rope; empty if the family has none.

    Exaone 4 rotates all layers if its `sliding_window` is null, as in its model of 1.2B.
    """
    window_is_null = keys.data.get("sliding_window", ()) is None
    if family.rotates_without_window and window_is_null:
        return ""
    return family.unrotated
