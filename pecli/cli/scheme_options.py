"""Options that derive from a scheme's parameters or name a model, and the scheme that they make."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, replace
from functools import singledispatch
from inspect import Parameter as Option
from typing import TYPE_CHECKING, NamedTuple

from pecli.cli import options
from pecli.cli.commands import command_of
from pecli.cli.messages import option_name, print_note
from pecli.cli.options import Values
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.parameters import Choice, Flag, ParameterRule
from pecli.engine.schemes.scheme import Scheme, default_of, require_parameters
from pecli.errors import ParameterError, spelled

if TYPE_CHECKING:
    from pecli.models.encoding import Encoding, ModelEncodings

MAX_METAVAR = 16
"""Characters of choices in brackets; help on 80 columns would break longer ones inside of a word."""


def options_of(scheme_type: type[Scheme]) -> list[Option]:
    """Return the options that make a scheme of a kind, from its parameters or from a model."""
    parameters = "the parameters from a model that has such a table"
    if scheme_type.applied_as == "rotation":
        parameters = "--dim, --theta, --scaling, … from a model"
    help = f"Take {parameters}: {options.MODEL}. Options override it; --config is the same."
    return [*options.model_options(help), *parameter_options(scheme_type)]


def parameter_options(scheme_type: type[Scheme], without: Collection[str] = ()) -> list[Option]:
    """Return the parameters of a scheme as options."""
    parameters = options.without(scheme_type.parameters(), without)
    return [
        parameter_option(name, parameter, scheme_type) for name, parameter in parameters.items()
    ]


def parameter_option(name: str, parameter: ParameterRule, scheme_type: type[Scheme]) -> Option:
    """Return a parameter of a scheme as an option of its command: `base` becomes `--base`, `--theta`.

    Its value stays a text, so that the parameter's own rule reports what is wrong with it.
    """
    long_name = f"--{name.replace('_', '-')}"
    panel = parameter.panel or options.TABLE
    if type(parameter) is Flag:
        names = f"{long_name}/--no-{long_name[2:]}"
        return options.flag(names, _sentence(parameter.help), panel, default=None)
    shown = _shown_choices(parameter)
    help = _sentence(shown.help) + _default(default_of(scheme_type, name))
    names = " ".join(sorted((long_name, *parameter.aliases), key=len))  # the shortest stands first
    return options.text(names, shown.metavar, help, panel, choices=shown.choices, name=name)


class _ShownChoices(NamedTuple):
    """The choices of a parameter, and how help shows them."""

    choices: tuple[str, ...]  #: empty if its values are not a few names
    metavar: str  #: the placeholder for the value
    help: str


def _shown_choices(parameter: ParameterRule) -> _ShownChoices:
    """Return how help shows the values of a parameter.

    A few choices are the placeholder, `[yes|no]`. Longer ones are listed in the help, and the
    placeholder is `NAME`. Other parameters have their own, such as `INTEGER`.
    """
    if not isinstance(parameter, Choice):
        return _ShownChoices((), parameter.metavar, parameter.help)
    choices = tuple(parameter.options)
    joined = "|".join(choices)
    if len(joined) > MAX_METAVAR:
        return _ShownChoices(choices, "NAME", f"{parameter.help}: {', '.join(choices)}")
    return _ShownChoices(choices, f"[{joined}]", parameter.help)


@singledispatch
def _default(value: object) -> str:
    """Return the end of a parameter's help: « (default: 10000)», « (required)», or nothing."""
    return f" (default: {value})"


@_default.register
def _(value: float) -> str:
    return f" (default: {value:g})"


@_default.register
def _(value: None) -> str:
    return ""


@_default.register(type(MISSING))
def _(value: object) -> str:
    return " (required)"


def _sentence(text: str) -> str:
    """Return a help text as a sentence; names before a colon keep their spelling.

    >>> _sentence("rows of the table"), _sentence("yarn, ntk: the factor")
    ('Rows of the table.', 'yarn, ntk: the factor.')
    """
    begins_with_names = re.match(r"\w+(, \w+)*: ", text)
    if begins_with_names:
        return f"{text}."
    return f"{text[:1].upper()}{text[1:]}."


class ParsedScheme(NamedTuple):
    """A scheme, and the model and layer type that it was taken from, if any."""

    scheme: Scheme
    model: str | None
    layer_type: str | None


_DETERMINED_BY = {"seq_len": ("positions", "grid"), "dim": ("axes", "inv_freq", "config", "model")}
"""Options that determine a parameter, which then needs no default.

A grid has as many rows as points, for example. All other parameters are determined by a model.
"""


def parse_scheme(name: str, words: Sequence[str], defaults: Mapping[str, str]) -> ParsedScheme:
    """Parse the options of a scheme, such as `["--dim", "64", "--theta", "1e6"]`.

    Args:
        name: The scheme's name.
        words: Its options.
        defaults: Texts of parameters, such as `seq_len`. Each counts if the words leave it out, and
            have no other option that determines it, as `--positions` determines the length.
    """
    scheme_type: type[Scheme] = scheme_named(name)
    values = _option_values(scheme_type, words)
    for parameter, text in defaults.items():
        determining_options = (parameter, *_DETERMINED_BY.get(parameter, ("config", "model")))
        if all(values.get(option) is None for option in determining_options):
            values[parameter] = text
    scheme = scheme_from(scheme_type, values)
    return ParsedScheme(scheme, values["config"] or values["model"], values["layer_type"])


def _option_values(scheme_type: type[Scheme], words: Sequence[str]) -> MutableValues:
    """Return the values of a scheme's options by name, which Typer parses from words.

    `pecli plot` takes the options of all schemes, so that Typer cannot parse them with its own.
    A command with the options of one scheme is made for it, which only keeps their values.
    """
    values: MutableValues = {}

    def keep(**parsed_values: object) -> None:
        values.update(parsed_values)

    command = command_of(scheme_type.name, keep, options_of(scheme_type), (), add_help_option=False)
    with command.make_context("pecli plot", list(words)) as context:
        command.invoke(context)
    return values


def scheme_from(scheme_type: type[Scheme], values: Values) -> Scheme:
    """Return the scheme that the options of a command describe, from a model if one is named.

    `--dim 64 --seq-len 8` are parameters; `--model llama-3.1-8b` stands for the model's own. Only
    parameters that were given are passed on, so that a style can fill in the others.
    """
    parameters = options.parsed(scheme_type.parameters(), values)
    model = options.model_name(values)
    if model is None:
        require_parameters(scheme_type, parameters)
        return scheme_type(**parameters)
    if scheme_type.applied_as == "rotation":
        return _rotary_scheme(values, parameters)
    return _table_of_model(scheme_type, values, parameters)


def _table_of_model(scheme_type: type[Scheme], values: Values, parameters: NamedValues) -> Scheme:
    """Return the table of a model that does not rotate, such as the learned table of gpt2.

    Args:
        scheme_type: The scheme of the table.
        values: The options, of which `model`, `config` and `layer_type` count.
        parameters: Parameters that replace the model's own.

    Raises:
        ParameterError: The model has no such table, or several without a layer type.
    """
    from pecli.models.find import find_model

    model = find_model(values["config"], values["model"])
    # Models call learned-init «learned».
    names = (scheme_type.name, scheme_type.name.removesuffix("-init"))
    encodings = tuple(encoding for encoding in model if encoding.scheme in names)
    if not encodings:
        raise _no_such_table(model, scheme_type)
    model_with_these = replace(model, encodings=encodings)
    encoding = model_with_these.one(values["layer_type"])
    model_parameters = options.only(encoding.parameters, scheme_type.parameters())
    combined = {**model_parameters, **parameters}
    return scheme_type(**combined)


def _no_such_table(model: ModelEncodings, scheme_type: type[Scheme]) -> ParameterError:
    """Return the error for a model without a table of a scheme; it names the model's schemes."""
    schemes = ", ".join(dict.fromkeys(encoding.scheme for encoding in model))
    encodings_of_model = schemes or "no encoding that pecli makes"
    rule = f"it has no {scheme_type.name} table, but {encodings_of_model}"
    return ParameterError("model", repr(model.file), rule)


def _rotary_scheme(values: Values, parameters: NamedValues) -> Scheme:
    """Return the rotary table of a model, or a bundle of one per layer type."""
    from pecli.engine.schemes.bundle import Bundle

    has_rows = not parameters.keys().isdisjoint(("positions", "grid", "seq_len"))
    if not has_rows:
        rule = scheme_named("rope").parameters()["seq_len"].rule
        raise ParameterError("seq_len", "missing", rule)
    resolved = model_encodings(values, parameters)
    rope_by_layer_type = {
        encoding.layer_type: encoding.rope(**resolved.table_parameters)
        for encoding in resolved.encodings
    }
    if len(rope_by_layer_type) == 1:
        (rope,) = rope_by_layer_type.values()
        return rope
    dtype = resolved.table_parameters.get("dtype", "float32")
    return Bundle(tuple(rope_by_layer_type.items()), dtype=dtype)


_ONLY_OF_TABLES = frozenset(
    (
        "seq_len",
        "offset",
        "layout",
        "length",
        "recipe",
        "runtime",
        "dtype",
        "positions",
        "grid",
        "keep",
        "grid_base",
        "grid_scale",
    )
)
"""Parameters of tables that no model defines. All others, given beside a model, replace its own."""


class ModelRopes(NamedTuple):
    """The rotary encodings of a model, as options change them.

    Attributes:
        model: The model, unchanged.
        encodings: Its rotary encodings of the chosen layers, with the parameters of the options.
        table_parameters: Parameters of the options that no model defines, such as `seq_len`.
    """

    model: ModelEncodings
    encodings: tuple[Encoding, ...]
    table_parameters: NamedValues


def model_encodings(values: Values, parameters: NamedValues) -> ModelRopes:
    """Return the rotary encodings of the model that options name, one per layer type.

    A note is printed if parameters replace some of the model's.

    Args:
        values: The options that name the model, and perhaps one type of its layers.
        parameters: Parameters that were given.
    """
    model = _rotary_model(values)
    return _with_given_parameters(model, model.ropes_of(values["layer_type"]), parameters)


def only_model_encoding(values: Values, parameters: NamedValues) -> ModelRopes:
    """Return the only rotary encoding of the model that options name; see `model_encodings`.

    Raises:
        ParameterError: The model has several, and no layer type selects one.
    """
    model = _rotary_model(values)
    return _with_given_parameters(model, (model.one(values["layer_type"]),), parameters)


def _rotary_model(values: Values) -> ModelEncodings:
    """Return the model that options name; raise ParameterError unless it has rotary encodings."""
    from pecli.models.find import find_model

    model = find_model(values["config"], values["model"])
    if not model.ropes():
        raise _not_rotary(model, "config" if values["config"] else "model")
    return model


def _with_given_parameters(
    model: ModelEncodings, encodings: tuple[Encoding, ...], parameters: NamedValues
) -> ModelRopes:
    """Return rotary encodings of a model in which given parameters replace the model's own.

    Args:
        model: The model, whose file and context are needed.
        encodings: Its encodings of the chosen layers, at least one.
        parameters: The given parameters: `base` replaces the model's base, for example, and
            `seq_len` is only one of the table that is made.
    """
    table_parameters = options.only(parameters, _ONLY_OF_TABLES)
    replaced = options.without(parameters, _ONLY_OF_TABLES)
    if not replaced:
        return ModelRopes(model, encodings, table_parameters)
    # One note is enough: it compares with the first type of layers.
    _note_changes(model.file, encodings[0], replaced)
    changed_encodings = tuple(
        _with_changed_parameters(encoding, replaced, model.context) for encoding in encodings
    )
    return ModelRopes(model, changed_encodings, table_parameters)


def _not_rotary(model: ModelEncodings, option: str) -> ParameterError:
    schemes = ", ".join(sorted({encoding.scheme for encoding in model})) or "none"
    return ParameterError(option, model.file, f"it has no rotary encoding (found: {schemes})")


def _note_changes(file: str, encoding: Encoding, changes: NamedValues) -> None:
    """Print which parameters of a model are replaced: «--theta 10000 instead of 500000».

    A parameter that is stated as the model has it is no change.
    """
    rope_parameters = scheme_named("rope").parameters()
    values_of_model = encoding.described()
    notes: list[str] = []
    for name, new_value in changes.items():
        old_value = values_of_model.get(name)
        if new_value == old_value:
            continue
        spellings = (*rope_parameters[name].aliases, option_name(name))
        note = f"{spellings[0]} {spelled(new_value)}"
        if old_value is not None:
            note += f" instead of {spelled(old_value)}"
        notes.append(note)
    if notes:
        print_note(f"not as {file} has it: {', '.join(notes)}")


def _with_changed_parameters(
    encoding: Encoding, changes: NamedValues, context: int | None
) -> Encoding:
    """Return a model's encoding with the parameters that the user gave in place of the model's own.

    If the scaling changes (from linear to yarn, say), the parameters of the old one are removed.

    Args:
        encoding: The encoding of a model.
        changes: The parameters that the user gave.
        context: The model's context, for a scaling that needs the length of the training.
    """
    old_scaling = encoding.parameters.get("scaling")
    new_scaling = changes.get("scaling", old_scaling)
    changes_scaling = new_scaling != old_scaling
    parameters = dict(encoding.parameters)
    if changes_scaling:
        parameters = _without_old_scaling(parameters, new_scaling, context)

    # Some models have two attention factors, for short and for long contexts. The user's factor
    # replaces both, and another scaling has none of them.
    attention_factors = encoding.mscales
    if changes_scaling or "attention_factor" in changes:
        attention_factors = None

    # These are lengths in the model's configuration. The user's length is not in it.
    lengths_in_configuration = encoding.stated_lengths
    if changes_scaling or "original_max_position_embeddings" in changes:
        lengths_in_configuration = None

    return replace(
        encoding,
        parameters={**parameters, **changes},
        mscales=attention_factors,
        stated_lengths=lengths_in_configuration,
    )


def _without_old_scaling(
    parameters: Mapping[str, object], new_scaling: str, context: int | None
) -> dict[str, object]:
    """Return parameters without those of the old scaling, except for the length of the training.

    A scaling such as YaRN needs this length, sometimes under another name. One that does not need
    it, such as linear scaling, does not get it.

    Args:
        parameters: The parameters of a model's encoding.
        new_scaling: The name of the new scaling.
        context: The model's context. If the old scaling had no length, it was trained on this one.
    """
    from pecli.engine.scalings import PARAMETERS, SCALINGS

    remaining = options.without(parameters, PARAMETERS)
    trained_length = parameters.get("original_max_position_embeddings") or context
    names = SCALINGS[new_scaling].names()
    # Yarn and llama3 call it by the first of these names, dynamic scaling by the second.
    for name in ("original_max_position_embeddings", "max_position_embeddings"):
        if name in names and trained_length is not None:
            return {**remaining, name: trained_length}
    return remaining
