"""The target of a check in a manifest: a scheme, a model, a table, or the file's own spec."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from pecli.checks.manifest_keys import COMMON, TARGETS, Keys, require_known, text_of
from pecli.checks.verification import Verification
from pecli.checks.verify import verify
from pecli.checks.verify.table_settings import VECTOR_PARAMETERS
from pecli.compare.tolerance import Tolerance
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.aliases import by_parameter_name
from pecli.engine.schemes.parameters import Choice, ParameterRule
from pecli.engine.schemes.scheme import Scheme, require_parameters
from pecli.errors import ParameterError, PecliError, quoted
from pecli.models import presets
from pecli.models.encoding import ModelEncodings
from pecli.models.find import find_model
from pecli.tensors.inputs import read_numbers
from pecli.tensors.row_positions import SHIFT

RULES: Mapping[str, ParameterRule] = {**VECTOR_PARAMETERS, "shift": SHIFT}
"""Keys that state how the rows of a model's tables were computed."""
Numbers = list[object] | str
"""Nested lists of numbers, or the path of a file that holds them."""
MODEL_KEYS = ("layer_type", "before", "attention_mask", *RULES)
TABLE_KEYS = ("before", "positions", "attention_mask", "offset")


@dataclass(frozen=True)
class Target:
    """Arguments of `verify` beside the file.

    Attributes:
        options: Arguments that are known when the manifest is read.
        arrays: Arguments that are lists of numbers, or files of them, read when the check runs.
        problem: A reason why the check cannot run, which is raised when it does.
    """

    options: NamedValues = field(default_factory=dict)
    arrays: Mapping[str, Numbers] = field(default_factory=dict)
    problem: PecliError | None = None

    def verify(self, file: str, tolerance: Tolerance, *, reasons: bool) -> Verification:
        """Compare a file with what its [[check]] in the manifest states.

        Arrays such as `positions = "ids.npy"` are read now, so that a missing file fails this check
        and not the whole manifest.
        """
        if self.problem is not None:
            raise self.problem
        arguments = dict(self.options)
        for name, values in self.arrays.items():
            arguments[name] = read_numbers(name, values) if isinstance(values, str) else values
        return verify(file, tolerance=tolerance, reasons=reasons, **arguments)


class FoundModel(NamedTuple):
    """A model that a manifest names: its path or preset, and its encodings."""

    path: str
    encodings: ModelEncodings


class Models:
    """The models that a manifest names, relative to its folder; each is read once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.find = cache(self._find)

    def _find(self, kind: str, name: str) -> FoundModel:
        """Return the model that `model = name` or `config = name` stands for.

        Args:
            kind: `model`, whose value may be a path in the manifest's folder, a preset or a
                repository, or `config`, which is a path or a preset.
            name: The value: «llama/config.json», or «llama-3-8b».

        Raises:
            PecliError: There is none, or its configuration cannot be read.
        """
        path = os.path.join(self.folder, name)
        # A `config` that is neither is a missing file: then the error names its whole path.
        may_be_name = kind == "model" or presets.find(name) is not None
        if may_be_name and not os.path.exists(path):
            path = name
        return FoundModel(path, find_model(**{kind: path}))


def read_target(keys: Keys, models: Models) -> Target:
    """Return what a [[check]] of a manifest compares its file with.

    One key states it: `scheme = "rope"` with parameters, `model = "qwen3-8b"`, `config = "…"`, or
    `table = "wpe.npy"`. Without any of them, the file carries its spec.

    Args:
        keys: The keys of the check, without those that every check has, such as `file`.
        models: The models that the manifest names.
    """
    targets = [key for key in TARGETS if key in keys]
    if not targets:  # The file carries its spec, and nothing else may be stated about it.
        require_known(keys, (*COMMON, *TARGETS))
        return Target()
    target, *others = targets
    if others:
        # «model beside scheme: a check has one of scheme, model, config, table, or none of them»
        rule = f"a check has one of {', '.join(TARGETS)}, or none of them"
        raise ParameterError(others[0], f"beside {target}", rule)
    match target:
        case "scheme":
            # Unless the check states a dtype, the file may have another one than the scheme makes.
            may_have_any_dtype = "dtype" not in keys
            return Target({"spec": _read_scheme(keys), "any_dtype": may_have_any_dtype})
        case "table":
            return _read_added_table(keys, models.folder)
        case _:  # `model` names a preset or a repository, `config` a path: both lead to a model.
            return _read_model_tables(keys, target, models)


def _read_scheme(keys: Keys) -> Scheme:
    """Return the scheme of a [[check]]: Rope(64, 128) for scheme = "rope", seq_len = 64, dim = 128.

    Parameters may have other usual names, such as `theta` for `base`.

    Raises:
        ParameterError: The scheme or a parameter is unknown, or a required one is missing.
    """
    name = Choice(help="a scheme", options=(*SCHEMES,)).check("scheme", text_of(keys, "scheme"))
    scheme_class: type[Scheme] = scheme_named(name)
    stated = dict(keys)
    del stated["scheme"]
    values = by_parameter_name(scheme_class, stated)
    require_known(values, (*COMMON, "scheme", *scheme_class.parameters()))
    require_parameters(scheme_class, values)
    return scheme_class(**values)


def _read_added_table(keys: Keys, folder: str) -> Target:
    """Return the target of a check whose file holds embeddings plus rows of a learned table.

    GPT-2 adds the rows of `wpe` to its token embeddings. With table = "wpe.npy" and
    before = "tokens.npy", the file should hold their sum.

    Raises:
        ParameterError: A key is unknown or wrong, or `before` is missing.
    """
    table = text_of(keys, "table")
    require_known(keys, (*COMMON, *TARGETS, *TABLE_KEYS))
    embeddings = text_of(keys, "before")
    arrays = _read_arrays(keys, folder, has_before=bool(embeddings))
    options = _read_row_options(keys, arrays)
    if not embeddings:
        rule = "it was added to what is given as before"
        raise ParameterError("table", table, rule, "give that, too")
    options["before"] = os.path.join(folder, embeddings)
    return Target(options, arrays)


def _read_model_tables(keys: Keys, model_key: str, models: Models) -> Target:
    """Return the target of a check that compares its file with a model.

    A wrong name in model = "qwen3-8b" is a mistake of the manifest, and is raised. A config.json that
    cannot be read fails only its own check, so that the others still run: the target holds that
    problem.

    Args:
        keys: The keys of the check.
        model_key: The key that names the model: `model` for a preset, `config` for a path.
        models: The models that the manifest names.

    Raises:
        PecliError: There is no `model` of the name, or it has no such layer type.
    """
    name = text_of(keys, model_key)
    require_known(keys, (*COMMON, *TARGETS, *MODEL_KEYS))
    target = _read_layers_and_rows(keys, models.folder)
    try:
        model = models.find(model_key, name)
    except PecliError as problem:
        if model_key == "model":
            raise
        return Target(problem=problem)
    return _with_model(target, model)


def _read_layers_and_rows(keys: Keys, folder: str) -> Target:
    """Return the target of a check against a model that is not read yet.

    It has the layers and the positions that the check states. With before = "q.npy", the file holds
    queries or keys that the model's rotation makes of those in q.npy; otherwise it holds tables.

    Args:
        keys: The keys of the check.
        folder: The folder of the manifest.
    """
    layer_type = text_of(keys, "layer_type") or None
    before = text_of(keys, "before")
    arrays = _read_arrays(keys, folder, has_before=bool(before))
    options = {**_read_row_options(keys, arrays), "layer_type": layer_type}
    if before:
        options["before"] = os.path.join(folder, before)
    return Target(options, arrays)


def _with_model(target: Target, model: FoundModel) -> Target:
    """Return a target with the model that the file is compared with, `spec` in `verify`.

    Raises:
        PecliError: The model has no layers of the type that the check states.
    """
    layer_type = target.options["layer_type"]
    if layer_type is not None:
        _require_layer_type(model, layer_type)
    # For queries, `verify` reads the numbers of heads from the path: encodings do not have them.
    spec = model.path if "before" in target.options else model.encodings
    return replace(target, options={**target.options, "spec": spec})


def _require_layer_type(model: FoundModel, layer_type: str) -> None:
    """Raise ParameterError unless a model has such layers, as Gemma 3 has `sliding_attention`."""
    model.encodings.one(layer_type)


def _read_arrays(keys: Keys, folder: str, *, has_before: bool) -> dict[str, Numbers]:
    """Return the arguments of `verify` that are arrays: positions = [0, 1, 5], or positions = "ids.npy".

    Args:
        keys: The keys of the check.
        folder: The folder of the manifest.
        has_before: True if the file holds rotated queries, or embeddings with a table added. Only
            then positions are an array; those of tables are a parameter of the scheme.
    """
    arguments = {"table": "spec", "attention_mask": "attention_mask"}
    if has_before:
        arguments["positions"] = "positions"
    return {
        argument: _read_array(key, keys, folder)
        for key, argument in arguments.items()
        if key in keys
    }


def _read_array(name: str, keys: Keys, folder: str) -> Numbers:
    """Return a list of numbers, or the path of a file of them, which is not opened yet."""
    value = keys[name]
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return os.path.join(folder, text_of(keys, name))
    rule = "it must be a list of numbers, or a file of them"
    raise ParameterError(name, quoted(value), rule)


def _read_row_options(keys: Keys, arrays: Mapping[str, object]) -> dict[str, object]:
    """Return the checked values of the keys in RULES, except those that were read as arrays."""
    row_options = {}
    for key, rule in RULES.items():
        if key in keys and key not in arrays:
            row_options[key] = rule.check(key, keys[key])
    return row_options
