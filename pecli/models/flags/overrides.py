"""Flags of vLLM, SGLang and transformers, which replace keys of config.json before it is read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pecli.engine.named_values import MutableValues, NamedValues
from pecli.errors import ParameterError
from pecli.models.data import object_at
from pecli.models.dialects import read_object
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagProblem
from pecli.models.flags.command_line import plain_flag
from pecli.models.flags.flag_findings import EncodingsWithFlags, Findings, warn_of_replaced_scaling
from pecli.models.flags.servers import Meaning, Server
from pecli.models.flags.values import NO_KEYS, FlagSettings, served_context
from pecli.models.key_names import MROPE, ORIGINAL, PARTIALS, SETTINGS, TEXTS, THETAS
from pecli.models.keys import Setting, as_number, as_whole

THETA = "rope_theta"
#: Objects that flags replace as a whole, by their meanings.
WHOLE = {Meaning.ROPE_SCALING: "rope_scaling", Meaning.ROPE_PARAMETERS: "rope_parameters"}
#: Keys within rotary settings that an override without them loses.
LOST = (*MROPE, *PARTIALS)


class ChangedConfig(NamedTuple):
    """A configuration some of whose keys flags have replaced.

    Attributes:
        values: The configuration.
        origins: The flags that its replaced keys come from, by full names of keys.
    """

    values: MutableValues
    origins: dict[str, str]


def apply_overrides(
    model: ModelEncodings,
    config: NamedValues | None,
    settings: FlagSettings,
    server: Server,
    findings: Findings,
) -> EncodingsWithFlags:
    """Return the encodings that a model has when vLLM, SGLang or transformers gets flags.

    Flags replace keys in a copy of the config.json, which is then read again: `--rope-theta 1e6`
    replaces its base, and `--rope-scaling '{"rope_type": "yarn", …}'` all of its rotary settings.

    Args:
        model: The encodings without the flags.
        config: The configuration; None if the model is a .gguf file.
        settings: The flags.
        server: The server. Its default base counts if new rotary settings lack the model's.
        findings: Where warnings are added.

    Raises:
        ParameterError: The model has no config.json.
    """
    if config is None:
        rule = f"{server.name} reads flags into a config.json, and {model.file} is a .gguf"
        raise ParameterError("flags", "given", rule, "name the folder with its config.json")
    changed_config = _copy_config_with_flags(config, settings)
    replaced_settings = _find_settings_replaced_by_flags(config, changed_config)
    # The loop adds warnings to `findings`, and lost bases to `changed_config`.
    for replaced in replaced_settings:
        _warn_of_lost_keys(replaced, findings)
        _add_servers_base_if_lost(replaced, changed_config, model, server, findings)
    # A server may serve less than what the settings are made for: `--max-model-len 32768` does not
    # contradict a factor of 32 for 131,072 positions.
    intended_context = _context_of_settings(replaced_settings, model.context)
    model_with_flags = read_object(
        changed_config.values,
        model.file,
        origins=changed_config.origins,
        intended_context=intended_context,
    )
    _warn_of_layers_with_other_scaling(model, model_with_flags, changed_config, findings)
    # A base that is only in `rope_theta` is noted. It is no longer true if a flag states the base
    # within `rope_parameters` as well. Notes that only the flags cause are left out: warnings report
    # them.
    notes = tuple(note for note in model.notes if note in model_with_flags.notes)
    context = served_context(intended_context, settings)
    return EncodingsWithFlags(
        model_with_flags.encodings, context, model_with_flags.warnings, notes=notes
    )


def _copy_config_with_flags(config: NamedValues, settings: FlagSettings) -> ChangedConfig:
    """Return the configuration with the keys that flags replace.

    A flag for one key (`--rope-theta`) counts more than `--hf-overrides`, which counts more than a
    flag for all rotary settings (`--rope-scaling`). Therefore they are applied in the opposite
    order, so that the last one wins.
    """
    changed_config = ChangedConfig(values=dict(config), origins={})
    text_path = _path_of_text_model(changed_config.values)
    # 1. `--rope-scaling '{"rope_type": "yarn", …}'` replaces the whole object.
    for meaning, key in WHOLE.items():
        if meaning in settings:
            new_object = settings[meaning]
            _replace_key(changed_config, (*text_path, key), new_object.value, new_object.source)
    # 2. `--hf-overrides '{"text_config": {"rope_theta": 1e6}}'` replaces single keys.
    hf_overrides = settings.get(Meaning.CONFIG, NO_KEYS)
    for leaf in _replaced_keys(hf_overrides.value, changed_config.values):
        full_name = ".".join(leaf.path)
        _replace_key(changed_config, leaf.path, leaf.value, f"{hf_overrides.source}.{full_name}")
    # 3. `--rope-theta 1e6` replaces the base.
    if Meaning.BASE in settings:
        _replace_base(changed_config, text_path, settings[Meaning.BASE])
    return changed_config


def _path_of_text_model(config: NamedValues) -> tuple[str, ...]:
    """Return the path to the language model of a larger one: `("text_config",)`; else an empty one."""
    for name in TEXTS:
        if isinstance(config.get(name), Mapping):
            return (name,)
    return ()


class Leaf(NamedTuple):
    """A key that an override replaces, by the names of the objects that lead to it."""

    path: tuple[str, ...]
    value: object


def _replaced_keys(
    overrides: NamedValues, config: NamedValues, path: tuple[str, ...] = ()
) -> list[Leaf]:
    """Return the keys that overrides replace, with their values.

    Objects are replaced as a whole, as servers do, except configurations within the configuration
    (`text_config`), whose keys are replaced one by one.

    Args:
        overrides: The new values, in the form of a configuration.
        config: The configuration whose keys they replace.
        path: The names of the objects around both; empty at the top.
    """
    leaves = []
    for key, value in overrides.items():
        is_config = isinstance(config.get(key), Mapping) and key not in SETTINGS
        if is_config and isinstance(value, Mapping):
            leaves += _replaced_keys(value, config[key], (*path, key))
        else:
            leaves.append(Leaf((*path, key), value))
    return leaves


def _replace_key(
    changed_config: ChangedConfig, path: tuple[str, ...], value: object, source: str
) -> None:
    """Replace the key that a path leads to, such as `("text_config", "rope_theta")`."""
    *parents, key = path
    section = _copied_section(changed_config.values, parents)
    if key in SETTINGS:
        _remove_settings(changed_config, section, parents)
    section[key] = value
    changed_config.origins[".".join(path)] = source


def _copied_section(values: MutableValues, path: Sequence[str]) -> MutableValues:
    """Return the object that a path leads to, for changes of it; it is made if it is absent.

    The objects on the path are replaced by copies in the values, because the model still has the
    original ones.
    """
    section = values
    for name in path:
        copied: MutableValues = dict(section.get(name) or {})
        section[name] = copied
        section = copied
    return section


def _remove_settings(
    changed_config: ChangedConfig, section: MutableValues, path: list[str]
) -> None:
    """Remove rotary settings under both names, which mean the same in transformers 5.

    `rope_scaling` of the model and `rope_parameters` of a flag would contradict each other. The base
    stays where transformers 4 has it, beside the settings.

    Args:
        changed_config: The configuration, whose origins of these settings are removed as well.
        section: The object in it that holds the settings, which is changed.
        path: The path to this object.
    """
    model_settings = _rotary_settings_in(section).values
    for name in SETTINGS:
        section.pop(name, None)
        changed_config.origins.pop(".".join((*path, name)), None)
    if THETA in model_settings and THETA not in section:
        section[THETA] = model_settings[THETA]


class RotarySettings(NamedTuple):
    """An object of rotary settings, and its key: `rope_parameters` or `rope_scaling`."""

    key: str
    values: NamedValues


def _rotary_settings_in(section: NamedValues) -> RotarySettings:
    """Return the rotary settings of an object; empty ones without a key if it has none."""
    for key in SETTINGS:
        if isinstance(section.get(key), Mapping):
            return RotarySettings(key, section[key])
    return RotarySettings("", {})


def _replace_base(
    changed_config: ChangedConfig, path: tuple[str, ...], base: Setting[float]
) -> None:
    """Replace the base of the frequencies by that of `--rope-theta`, at the place of the model's.

    Files of transformers 4 have `rope_theta` at the top, those of transformers 5 within the rotary
    settings: `{"rope_parameters": {"rope_theta": 1e6, …}}`. One without a base gets it at the top.

    Args:
        changed_config: The configuration, which is changed.
        path: The path to the language model in it.
        base: The flag.
    """
    language_model = object_at(changed_config.values, path)
    settings = _rotary_settings_in(language_model)
    place = (*path, THETA)
    if THETA in settings.values:
        place = (*path, settings.key, THETA)
    _replace_key(changed_config, place, base.value, base.source)


class ReplacedSettings(NamedTuple):
    """Rotary settings that a flag has replaced.

    Attributes:
        source: The flag.
        path: The objects of the configuration that they are in.
        section: The innermost of these objects.
        settings: The new settings.
        model_settings: The model's own settings at this place; empty if it has none.
    """

    source: str
    path: tuple[str, ...]
    section: NamedValues
    settings: NamedValues
    model_settings: NamedValues

    @property
    def lost_keys(self) -> list[str]:
        kept = self.settings
        return [name for name in LOST if name in self.model_settings and name not in kept]

    @property
    def has_layer_types(self) -> bool:
        """True if there are settings per layer type, as Gemma 3 has them in transformers 5."""
        return any(isinstance(value, Mapping) for value in self.settings.values())


def _add_servers_base_if_lost(
    replaced: ReplacedSettings,
    changed_config: ChangedConfig,
    model: ModelEncodings,
    server: Server,
    findings: Findings,
) -> None:
    """Add the base that a server takes if the rotary settings of a flag lack the model's base.

    A model has `{"rope_theta": 1e6, …}`, and the flag `{"rope_type": "yarn", "factor": 4}`. vLLM then
    takes the base 10000, and a warning reports that. If the server's base is not known, there is only
    the warning.

    Args:
        replaced: The settings before and after the flag.
        changed_config: The configuration with the flags, to which the base is added.
        model: The encodings without flags.
        server: The server, whose default base counts.
        findings: Where the warning is added.
    """
    model_base = _base_of_model(replaced)
    server_base = _default_base(replaced, model, server)
    has_lost_base = model_base not in (None, server_base)
    if not has_lost_base or _keeps_base(replaced, changed_config, server):
        return
    effect = f"with transformers 5 it replaces the base {model_base:.10g} as well"
    if server_base is not None:
        effect = f"{server.name} takes {server_base:.10g}, not {model_base:.10g}"
        place = (*replaced.path, THETA)
        _replace_key(changed_config, place, server_base, f"default of {server.name}")
    repair = f'add "rope_theta": {model_base:.10g}'
    findings.warn(FlagProblem.BASE_LOST, f"{replaced.source} has no rope_theta: {effect}; {repair}")


def _warn_of_lost_keys(replaced: ReplacedSettings, findings: Findings) -> None:
    """Warn of sections of M-RoPE and partial factors that new rotary settings do not have."""
    lost = ", ".join(replaced.lost_keys)
    if lost:
        sentence = f"{replaced.source} has no {lost}, which the model's own has"
        findings.warn(FlagProblem.KEYS_LOST, sentence)


def _find_settings_replaced_by_flags(
    config: NamedValues, changed_config: ChangedConfig
) -> list[ReplacedSettings]:
    """Return the objects of rotary settings that flags replaced, each beside the model's own.

    `--rope-scaling '{…}'` replaces one of them; `--rope-theta 1e6` replaces a single key, and none.

    Args:
        config: The configuration without flags.
        changed_config: The configuration with them.
    """
    replaced = []
    for full_name, flag in changed_config.origins.items():
        *path, key = full_name.split(".")
        section = object_at(changed_config.values, path)
        is_settings_object = key in SETTINGS and isinstance(section[key], Mapping)
        if is_settings_object:
            model_section = object_at(config, path)
            replaced.append(
                ReplacedSettings(
                    source=flag,
                    path=tuple(path),
                    section=section,
                    settings=section[key],
                    model_settings=_rotary_settings_in(model_section).values,
                )
            )
    return replaced


def _keeps_base(replaced: ReplacedSettings, changed_config: ChangedConfig, server: Server) -> bool:
    """Return True if replaced settings do not lose the model's base.

    Flags state it, or the settings of each layer type do. Versions that had a flag of its own for
    the settings (`--rope-scaling`) kept the base beside them.
    """
    if THETA in replaced.settings or ".".join((*replaced.path, THETA)) in changed_config.origins:
        return True
    return replaced.has_layer_types or plain_flag(replaced.source) in server.removed


def _default_base(
    replaced: ReplacedSettings, model: ModelEncodings, server: Server
) -> float | None:
    """Return the base that a server takes if the settings have none; None if it is not known.

    vLLM takes a default by the model type if `rope_parameters` has none.
    """
    if not replaced.source.endswith("rope_parameters"):
        return None
    base_of_any_type = server.default_base.get("")
    return server.default_base.get(model.model_type or "", base_of_any_type)


def _base_of_model(replaced: ReplacedSettings) -> float | None:
    """Return the model's base: in its settings, or beside them; None if the file states none."""
    beside = [replaced.section.get(name) for name in THETAS]
    stated = map(as_number, [replaced.model_settings.get(THETA), *beside])
    return next(filter(None, stated), None)


def _context_of_settings(
    replaced_settings: Sequence[ReplacedSettings], context: int | None
) -> int | None:
    """Return the context that replaced settings are made for: factor times original length.

    vLLM derives it in the same way, if no flag states it. It is the model's own context if no
    settings were replaced, or they have no factor.
    """
    for replaced in replaced_settings:
        factor = as_number(replaced.settings.get("factor"))
        original = as_whole(replaced.settings.get(ORIGINAL, context))
        if factor and original:
            return as_whole(round(factor * original))
    return context


def _warn_of_layers_with_other_scaling(
    model: ModelEncodings,
    model_with_flags: ModelEncodings,
    changed_config: ChangedConfig,
    findings: Findings,
) -> None:
    """Warn of each layer type whose own scaling a flag has replaced by another one.

    Args:
        model: The encodings without flags.
        model_with_flags: The encodings of the changed configuration.
        changed_config: That configuration, and the flags that changed it.
        findings: Where warnings are added.
    """
    flags = _flags_of_settings(changed_config)
    if not flags:
        return  # A flag for a single key, such as `--rope-theta`, replaces no scaling.
    ropes_of_model = {rope.layer_type: rope for rope in model.ropes()}
    for new in model_with_flags.ropes():
        old = ropes_of_model.get(new.layer_type, new)
        if _has_lost_scaling(old, new):
            warn_of_replaced_scaling(findings, flags[0], old)


def _has_lost_scaling(old: Encoding, new: Encoding) -> bool:
    """Return True if an encoding was scaled, and its frequencies have changed."""
    is_scaled = bool(old.parameters["scaling"] != "none")
    return is_scaled and old.inverse_frequencies() != new.inverse_frequencies()


def _flags_of_settings(changed_config: ChangedConfig) -> list[str]:
    """Return the flags that replaced rotary settings as a whole."""
    origins = changed_config.origins
    return [origins[name] for name in origins if name.rpartition(".")[2] in SETTINGS]
