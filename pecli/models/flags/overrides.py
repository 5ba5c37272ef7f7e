"""Flags of vLLM, SGLang and transformers, which replace keys of config.json before it is read."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pecli.engine.named_values import MutableValues, NamedValues
from pecli.errors import ParameterError
from pecli.models.dialects import read_object
from pecli.models.encoding import ModelEncodings
from pecli.models.flag_report import Problem
from pecli.models.flags.command_line import plain_flag
from pecli.models.flags.flag_findings import Applied, Findings, warn_of_replaced_scaling
from pecli.models.flags.servers import Meaning, Server
from pecli.models.flags.values import FlagSettings
from pecli.models.key_names import MROPE, ORIGINAL, PARTIALS, SETTINGS, TEXTS, THETAS
from pecli.models.keys import as_number, as_whole

THETA = "rope_theta"
#: Objects that flags replace as a whole, by their meanings.
WHOLE = {Meaning.ROPE_SCALING: "rope_scaling", Meaning.ROPE_PARAMETERS: "rope_parameters"}
#: Keys within rotary settings that an override without them loses.
LOST = (*MROPE, *PARTIALS)


class Override(NamedTuple):
    """A configuration with replaced keys.

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
) -> Applied:
    """Apply flags of vLLM, SGLang or transformers to a config.json, and read the result.

    `--rope-scaling '{"rope_type": "yarn", …}'` replaces a key of the configuration. What that loses,
    such as the base in transformers 5, is reported.

    Args:
        model: The encodings without the flags.
        config: The configuration; None if the model is a .gguf file.
        settings: The flags.
        server: The server, whose base counts if an override loses the model's own.
        findings: Where warnings are added.

    Raises:
        ParameterError: The model has no config.json.
    """
    if config is None:
        rule = f"{server.name} reads flags into a config.json, and {model.file} is a .gguf"
        raise ParameterError("flags", "given", rule, "name the folder with its config.json")
    override = _with_flags(config, settings)
    _warn_of_lost_keys(config, override, model, server, findings)
    served = settings.get(Meaning.CONTEXT)
    context = served.value if served else _stretched_context(override, model)
    after = read_object(override.values, model.file, origins=override.origins, served=context)
    _warn_of_replaced_scalings(model, after, override, findings)
    return Applied(after.encodings, context, after.warnings)


def _with_flags(config: NamedValues, settings: FlagSettings) -> Override:
    """Return the configuration with the keys that flags replace.

    A flag for one key counts more than `--hf-overrides`, which counts more than a flag for all
    rotary settings.
    """
    override = Override(dict(config), {})
    section = _text_section(override.values)
    for meaning, key in WHOLE.items():
        if meaning in settings:
            setting = settings[meaning]
            _replace_key(override, (*section, key), setting.value, setting.source)
    if Meaning.CONFIG in settings:
        overrides = settings[Meaning.CONFIG]
        for leaf in _leaves(overrides.value, override.values):
            source = f"{overrides.source}.{'.'.join(leaf.path)}"
            _replace_key(override, leaf.path, leaf.value, source)
    if Meaning.BASE in settings:
        _replace_base(override, section, settings)
    return override


def _text_section(config: NamedValues) -> tuple[str, ...]:
    """Return the object that holds the language model of a larger one; empty if it is the file."""
    for name in TEXTS:
        if isinstance(config.get(name), Mapping):
            return (name,)
    return ()


class Leaf(NamedTuple):
    """A key that an override replaces, by the names of the objects that lead to it."""

    path: tuple[str, ...]
    value: object


def _leaves(overrides: NamedValues, config: NamedValues, path: tuple[str, ...] = ()) -> list[Leaf]:
    """Return the keys that overrides replace, with their values.

    Objects are replaced as a whole, as servers do, except configurations within the configuration
    (`text_config`), whose keys are replaced one by one.
    """
    leaves = []
    for key, value in overrides.items():
        is_config = isinstance(config.get(key), Mapping) and key not in SETTINGS
        if is_config and isinstance(value, Mapping):
            leaves += _leaves(value, config[key], (*path, key))
        else:
            leaves.append(Leaf((*path, key), value))
    return leaves


def _replace_key(override: Override, path: tuple[str, ...], value: object, source: str) -> None:
    """Replace a key; the objects on its path are copied first, since the model still has them."""
    *parents, key = path
    section = override.values
    for name in parents:
        section[name] = dict(section.get(name) or {})
        section = section[name]
    if key in SETTINGS:
        _remove_settings(override, section, parents)
    section[key] = value
    override.origins[".".join(path)] = source


def _remove_settings(override: Override, section: MutableValues, path: list[str]) -> None:
    """Remove rotary settings under both names, which mean the same in transformers 5.

    `rope_scaling` of the model and `rope_parameters` of a flag would contradict each other. The base
    stays where transformers 4 has it, beside the settings.
    """
    own = _rotary_settings_in(section)
    for name in SETTINGS:
        section.pop(name, None)
        override.origins.pop(".".join((*path, name)), None)
    if THETA in own and THETA not in section:
        section[THETA] = own[THETA]


def _rotary_settings_in(section: NamedValues) -> NamedValues:
    for name in SETTINGS:
        if isinstance(section.get(name), Mapping):
            settings: NamedValues = section[name]
            return settings
    return {}


def _replace_base(override: Override, section: tuple[str, ...], settings: FlagSettings) -> None:
    """Replace the base of the frequencies by that of `--rope-theta`.

    transformers 5 has the base within the rotary settings (`rope_parameters`), older files beside
    them: it is replaced where the model has it.
    """
    base = settings[Meaning.BASE]
    holder = _section_at(override.values, section)
    inner = _rotary_settings_in(holder)
    if THETA in inner:
        name = next(name for name in SETTINGS if isinstance(holder.get(name), Mapping))
        replaced = {**inner, THETA: base.value}
        override.origins[".".join((*section, name, THETA))] = base.source
        _section_at(override.values, section)[name] = replaced
        return
    _replace_key(override, (*section, THETA), base.value, base.source)


def _section_at(values: MutableValues, path: tuple[str, ...]) -> MutableValues:
    for name in path:
        values = values[name]
    return values


class ReplacedSettings(NamedTuple):
    """Rotary settings that a flag has replaced.

    Attributes:
        source: The flag.
        path: The objects of the configuration that they are in.
        section: The innermost of these objects.
        settings: The new settings.
        own: The model's own settings at this place; empty if it has none.
    """

    source: str
    path: tuple[str, ...]
    section: NamedValues
    settings: NamedValues
    own: NamedValues

    @property
    def lost_keys(self) -> list[str]:
        return [name for name in LOST if name in self.own and name not in self.settings]

    @property
    def has_layer_types(self) -> bool:
        """True if there are settings per layer type, as Gemma 3 has them in transformers 5."""
        return any(isinstance(value, Mapping) for value in self.settings.values())


def _warn_of_lost_keys(
    config: NamedValues,
    override: Override,
    model: ModelEncodings,
    server: Server,
    findings: Findings,
) -> None:
    """Warn of keys that are lost because a flag replaces the rotary settings as a whole.

    They are the sections of M-RoPE, the share of channels that rotates, and the base, for which
    some servers then take a default of their own: it becomes a key of the configuration.
    """
    for replaced in _replaced_settings(config, override):
        lost = ", ".join(replaced.lost_keys)
        if lost:
            sentence = f"{replaced.source} has no {lost}, which the model's own has"
            findings.warn(Problem.KEYS_LOST, sentence)
        if _keeps_base(replaced, override, server):
            continue
        default = _base_after_override(replaced, model, server, findings)
        if default is not None:
            source = f"default of {server.name}"
            _replace_key(override, (*replaced.path, THETA), default, source)


def _replaced_settings(config: NamedValues, override: Override) -> Iterator[ReplacedSettings]:
    """Yield the objects of rotary settings that flags replaced, each beside the model's own."""
    for full_name, source in [*override.origins.items()]:
        *path, key = full_name.split(".")
        if key not in SETTINGS:
            continue
        own = _rotary_settings_in(_section_of(config, path))
        section = _section_at(override.values, tuple(path))
        settings = section[key]
        if isinstance(settings, Mapping):
            yield ReplacedSettings(source, tuple(path), section, settings, own)


def _keeps_base(replaced: ReplacedSettings, override: Override, server: Server) -> bool:
    """Return True if replaced settings do not lose the model's base.

    Flags state it, or the settings of each layer type do. Versions that had a flag of its own for
    the settings (`--rope-scaling`) kept the base beside them.
    """
    if THETA in replaced.settings or ".".join((*replaced.path, THETA)) in override.origins:
        return True
    return replaced.has_layer_types or plain_flag(replaced.source) in server.removed


def _section_of(config: NamedValues, path: list[str]) -> NamedValues:
    for name in path:
        inner = config.get(name)
        config = inner if isinstance(inner, Mapping) else {}
    return config


def _base_after_override(
    replaced: ReplacedSettings, model: ModelEncodings, server: Server, findings: Findings
) -> float | None:
    """Warn that settings without a base lose the model's; return the one that the server then takes.

    With transformers 5 the base is a key of the settings, and an override replaces them all. vLLM
    takes the base of the model's class (10000 for most) if `rope_parameters` lacks it. None if the
    model's base stays, or if it is not known what counts instead of it.
    """
    base = _base_of_model(replaced)
    if base is None:
        return None
    source = replaced.source
    default = None
    if server.default_base and source.endswith("rope_parameters"):
        default = float(server.default_base.get(model.model_type or "", server.default_base[""]))
        if default == base:
            return None
        effect = f"{server.name} takes {default:.10g}, not {base:.10g}"
    else:
        effect = f"with transformers 5 it replaces the base {base:.10g} as well"
    repair = f'add "rope_theta": {base:.10g}'
    findings.warn(Problem.BASE_LOST, f"{source} has no rope_theta: {effect}; {repair}")
    return default


def _base_of_model(replaced: ReplacedSettings) -> float | None:
    """Return the model's base: in its settings, or beside them; None if the file states none."""
    beside = [replaced.section.get(name) for name in THETAS]
    stated = map(as_number, [replaced.own.get(THETA), *beside])
    return next(filter(None, stated), None)


def _stretched_context(override: Override, model: ModelEncodings) -> int | None:
    """Return the context that replaced settings are made for: factor times original length.

    vLLM derives it in the same way, if no flag states it; None if no settings were replaced.
    """
    for replaced in _replaced_settings({}, override):
        settings = replaced.settings
        factor = as_number(settings.get("factor"))
        original = as_whole(settings.get(ORIGINAL)) or model.context
        if factor and original:
            return as_whole(round(factor * original)) or model.context
    return model.context


def _warn_of_replaced_scalings(
    before: ModelEncodings, after: ModelEncodings, override: Override, findings: Findings
) -> None:
    """Warn of each layer type whose own scaling has been replaced by another one."""
    source = _flag_of_settings(override)
    if source is None:
        return
    for encoding in after.ropes():
        if encoding.layer_type not in before.layer_types():
            continue
        own = before.one(encoding.layer_type)
        is_changed = own.is_rotary and own.inverse_frequencies() != encoding.inverse_frequencies()
        if is_changed and own.parameters["scaling"] != "none":
            warn_of_replaced_scaling(findings, source, own)


def _flag_of_settings(override: Override) -> str | None:
    """Return the first flag that replaced rotary settings as a whole; None if none did."""
    for full_name, source in override.origins.items():
        if full_name.rpartition(".")[2] in SETTINGS:
            return source
    return None
