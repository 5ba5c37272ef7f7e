"""Rotary settings that a configuration lists by layer, as Step-3.5's does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pecli.errors import FileError
from pecli.models.key_names import PARTIAL, SETTINGS
from pecli.models.keys import (
    Keys,
    Origin,
    Setting,
    Settings,
    as_numbers,
    origin_at,
    origins_of,
    setting_from_key,
    values_of,
)

#: Keys that may be lists, with the names that their values have in the settings of a layer type.
LISTS = {"rope_theta": "rope_theta", "partial_rotary_factors": PARTIAL}
#: The layer types that a scaling is for; all of them if the key is absent.
SCALED_TYPES = "yarn_only_types"


def by_layer_type(keys: Keys) -> Keys:
    """Return the keys with settings by layer type instead of lists by layer.

    With the `layer_types` full, sliding, full, a `rope_theta` of [5e6, 1e4, 5e6] becomes
    `{"full": {"rope_theta": 5e6}, "sliding": {"rope_theta": 1e4}}`. Keys without such lists are
    returned as they are.

    Raises:
        FileError: There are no layer types, or layers of one type have different values.
    """
    list_names = [name for name in LISTS if isinstance(keys.data.get(name), list)]
    if not list_names:
        return keys
    types = keys.words("layer_types")
    if not types:
        rule = "a list needs layer_types, which name the type of each layer"
        raise keys.wrong(list_names[0], rule)
    distinct_types = dict.fromkeys(types)  # The order of the layers stays.
    settings_by_type = {
        layer_type: _settings_of_type(keys, list_names, types, layer_type)
        for layer_type in distinct_types
    }
    keys.mark_as_read(*list_names)
    return _with_settings_by_type(keys, list_names, settings_by_type)


def _with_settings_by_type(
    keys: Keys, list_names: Sequence[str], settings_by_type: Mapping[str, Settings]
) -> Keys:
    """Return the keys with an object of settings per layer type in place of lists by layer.

    `{"rope_theta": [5e6, 1e4]}` becomes `{"rope_scaling": {"full": {"rope_theta": 5e6}, "sliding":
    {"rope_theta": 1e4}}}`.

    Args:
        keys: The keys of the file.
        list_names: The keys that are lists by layer, such as `rope_theta`.
        settings_by_type: The settings of each layer type, which the new object holds.
    """
    # An object of rotary settings in the file, under one of the names SETTINGS, is replaced as well:
    # `settings_by_type` has its values.
    replaced_names = (*list_names, *SETTINGS)
    data = {name: value for name, value in keys.data.items() if name not in replaced_names}
    data["rope_scaling"] = {
        layer_type: values_of(settings) for layer_type, settings in settings_by_type.items()
    }
    origins = {**keys.origins, **_origins(settings_by_type)}
    # Files with lists are for the model's own code, which may read what its class in transformers
    # ignores. So no key counts as ignored.
    defaults = replace(keys.defaults, ignores=frozenset())
    return replace(keys, data=data, origins=origins, defaults=defaults)


def _settings_of_type(
    keys: Keys, lists: Sequence[str], types: list[str], layer_type: str
) -> dict[str, Setting[object]]:
    """Return the settings of a layer type: its scaling, and its values in the lists.

    Args:
        keys: The keys of the file.
        lists: The names of the keys that are lists by layer.
        types: The type of each layer.
        layer_type: The type.
    """
    settings = _scaling_of(keys, layer_type)
    for name in lists:
        value = _value_of_type(keys, name, types, layer_type)
        settings[LISTS[name]] = setting_from_key(value, keys.full_name(name))
    return settings


def _origins(settings: Mapping[str, Settings]) -> dict[str, Origin]:
    """Return the keys of the file by the names of nested settings, `rope_scaling.full.rope_theta`."""
    origins = {"rope_scaling": origin_at("settings")}
    for layer_type, of_type in settings.items():
        section = f"rope_scaling.{layer_type}"
        origins[section] = origin_at(f"settings of {layer_type}")
        for name, origin in origins_of(of_type).items():
            origins[f"{section}.{name}"] = origin
    return origins


def _scaling_of(keys: Keys, layer_type: str) -> dict[str, Setting[object]]:
    """Return the scaling of a layer type with the sources of its values; empty if it has none."""
    scaled_types = keys.words(SCALED_TYPES)
    section = keys.section("rope_scaling") or keys.section("rope_parameters")
    is_scaled = not scaled_types or layer_type in scaled_types
    if not is_scaled:
        return {}
    return {
        name: setting_from_key(value, section.full_name(name))
        for name, value in section.data.items()
    }


def _value_of_type(keys: Keys, name: str, types: list[str], layer_type: str) -> float:
    """Return the one number that a list with an item per layer has for all layers of a type.

    Step-3.5 names the types of 48 layers and has values for as many, of which 3 only predict
    further tokens; a shorter list is read as far as it goes.

    Args:
        keys: The keys of the file.
        name: The key of the list, such as `rope_theta`.
        types: The type of each layer.
        layer_type: The type whose number is returned.

    Raises:
        FileError: The list has other items than numbers, or several values for the type.
    """
    numbers = as_numbers(keys.data[name])
    if numbers is None:
        raise keys.wrong(name, "it must be a list of finite numbers, up to 1e+30")
    types_of_numbers = zip(numbers, types, strict=False)
    distinct_numbers = {number for number, kind in types_of_numbers if kind == layer_type}
    if len(distinct_numbers) != 1:
        count = f"{len(distinct_numbers)} values for layers of {layer_type[:40]!r}"
        problem = f"{keys.full_name(name)} has {count}"
        raise FileError(keys.path, problem, "one value per layer type can be read")
    (number_of_type,) = distinct_numbers
    return number_of_type
