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
    stated,
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
    names = [name for name in LISTS if isinstance(keys.data.get(name), list)]
    if not names:
        return keys
    types = keys.words("layer_types")
    if not types:
        raise keys.wrong(names[0], "a list needs layer_types, which name the type of each layer")
    nested = {kind: _settings_of_type(keys, names, types, kind) for kind in dict.fromkeys(types)}
    keys.mark_as_read(*names)
    replaced = (*names, *SETTINGS)
    data = {name: value for name, value in keys.data.items() if name not in replaced}
    data["rope_scaling"] = {kind: values_of(settings) for kind, settings in nested.items()}
    # The class of transformers reads no lists, so that what it ignores is beside the point.
    defaults = replace(keys.defaults, ignores=frozenset())
    origins = {**keys.origins, **_origins(nested)}
    return replace(keys, data=data, origins=origins, defaults=defaults)


def _settings_of_type(
    keys: Keys, names: Sequence[str], types: list[str], layer_type: str
) -> dict[str, Setting[object]]:
    """Return the settings of a layer type: its scaling, and its values in the named lists."""
    settings = _scaling_of(keys, layer_type)
    for name in names:
        value = _value_of_type(keys, name, types, layer_type)
        settings[LISTS[name]] = stated(value, keys.full_name(name))
    return settings


def _origins(nested: Mapping[str, Settings]) -> dict[str, Origin]:
    """Return the keys of the file by the names of nested settings, `rope_scaling.full.rope_theta`."""
    origins = {"rope_scaling": origin_at("settings")}
    for layer_type, settings in nested.items():
        section = f"rope_scaling.{layer_type}"
        origins[section] = origin_at(f"settings of {layer_type}")
        for name, origin in origins_of(settings).items():
            origins[f"{section}.{name}"] = origin
    return origins


def _scaling_of(keys: Keys, layer_type: str) -> dict[str, Setting[object]]:
    """Return the scaling of a layer type with the sources of its values; empty if it has none."""
    scaled = keys.words(SCALED_TYPES)
    section = keys.section("rope_scaling") or keys.section("rope_parameters")
    if section is None or (scaled and layer_type not in scaled):
        return {}
    return {name: stated(value, section.full_name(name)) for name, value in section.data.items()}


def _value_of_type(keys: Keys, name: str, types: list[str], layer_type: str) -> float:
    """Return the one number that a list with an item per layer has for all layers of a type.

    Step-3.5 names the types of 48 layers and has values for as many, of which 3 only predict
    further tokens; a shorter list is read as far as it goes.

    Raises:
        FileError: The list has other items than numbers, or several values for the type.
    """
    values = as_numbers(keys.data[name])
    if values is None:
        raise keys.wrong(name, "it must be a list of finite numbers, up to 1e+30")
    numbers = {value for value, kind in zip(values, types, strict=False) if kind == layer_type}
    if len(numbers) != 1:
        problem = (
            f"{keys.full_name(name)} has {len(numbers)} values for layers of {layer_type[:40]!r}"
        )
        raise FileError(keys.path, problem, "one value per layer type can be read")
    return numbers.pop()
