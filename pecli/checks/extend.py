"""`pecli.extend`: the settings that stretch a model's context; who honours them is measured."""

from dataclasses import replace
from typing import NamedTuple

from pecli.checks.extension import FACTOR_TENSORS, Extension
from pecli.checks.rope_settings import Settings, unscaled_parameters
from pecli.checks.runtimes import RuntimeResult, rotary_layers, runtimes
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.parameters import Choice, Whole
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import family_of
from pecli.models.find import Model, find_model


class Recommendation(NamedTuple):
    """The method that the makers of a family use, and where they state it."""

    method: str
    source: str


_QWEN3 = Recommendation("yarn", "Qwen3's model card: yarn, factor 4, original 32768")
_GEMMA3 = Recommendation("linear", "Gemma 3's own config: linear, factor 8, on its global layers")
RECOMMENDED = {
    "qwen2": Recommendation("yarn", "Qwen2.5's model card: yarn, factor 4, original 32768"),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "deepseek_v3": Recommendation(
        "yarn", "DeepSeek-V3's own config: yarn, factor 40, original 4096"
    ),
    "gpt_oss": Recommendation("yarn", "gpt-oss's own config: yarn, factor 32, original 4096"),
    "phi3": Recommendation(
        "ntk", "Phi's config.json takes no scaling but longrope, whose factors are searched for"
    ),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
}
"""Recommendations by model_type."""
DEFAULT = Recommendation("yarn", "")
SHORT_PROMPTS = {
    "yarn": "every prompt is encoded with the stretched frequencies, short ones too: "
    "leave it out for those",
    "linear": "every prompt is encoded with the stretched positions, short ones too: "
    "fine-tuning is usually needed",
    "ntk": "every prompt is encoded with the larger base, short ones too",
    "dynamic": "prompts up to {original:,} positions are encoded as before; "
    "longer ones as their length asks for",
}
"""The effect of each method on short prompts."""
METHODS = tuple(SHORT_PROMPTS)
METHOD = Choice(help="how frequencies are stretched", options=METHODS)
TO = Whole(help="positions of the longer context", high=LAST_POSITION)
KEPT = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
"""Parameters of a model's own YaRN that stay if it is stretched further."""


def extend(
    model: Model, to: int, method: str | None = None, *, layer_type: str | None = None
) -> Extension:
    """Return the settings that stretch a model's context, and what runtimes make of them.

    Args:
        model: A path, a preset, a configuration, or a model that was loaded.
        to: Positions of the longer context.
        method: `yarn`, `linear`, `ntk` or `dynamic`; by default the one that the family's makers
            use, or else yarn.
        layer_type: The layers to stretch; by default those with the largest base, which see the
            whole context.

    Raises:
        ParameterError: The model has that many positions already, does not state how many it has,
            or its configuration cannot express the method.

    >>> import pecli
    >>> pecli.extend("qwen2.5-7b", 131072).rope_scaling
    {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32768}
    """
    encodings = find_model(None, model)
    length = TO.check("to", to)
    ropes = rotary_layers(encodings, layer_type, "it has no rotary encoding to stretch")
    encoding = max(ropes, key=lambda rope: float(rope.parameters["base"]))
    lengths = _lengths(encodings, encoding, length)
    chosen = _choose_method(encodings.model_type, method)
    _require_in_config(encodings.model_type, chosen.method)
    factor = length / lengths.original
    after = _stretched(encoding, chosen.method, lengths.original, factor)
    context = _stated_context(encodings, chosen.method, lengths.original, length)
    others = [
        rope for rope in encodings.ropes() if rope.part == encoding.part and rope is not encoding
    ]
    changed_lengths = {}
    if context and context != encodings.context:
        changed_lengths["max_position_embeddings"] = context
    return Extension(
        model=encodings.file,
        to=length,
        method=chosen.method,
        reason=chosen.reason,
        original=lengths.original,
        longest=lengths.longest,
        factor=factor,
        before=encoding,
        after=after,
        runtimes=_measure(encodings, encoding, after, context, length),
        notes=_notes(encoding, chosen.method, lengths.original),
        lengths=changed_lengths,
        others=tuple(others),
    )


class ChosenMethod(NamedTuple):
    """A method, and why it was chosen."""

    method: str
    reason: str


def _choose_method(model_type: str | None, method: str | None) -> ChosenMethod:
    """Return the method that the user gave, or else the one that the model's makers recommend.

    The reason is empty if there is nothing to explain: the user's method is the makers' own, or
    they recommend none.
    """
    recommended = RECOMMENDED.get(model_type or "", DEFAULT)
    if method is None:
        without_source = "yarn, which needs the least fine-tuning; the makers name none"
        return ChosenMethod(recommended.method, recommended.source or without_source)
    chosen = METHOD.check("method", method)
    if not recommended.source or chosen == recommended.method:
        return ChosenMethod(chosen, "")
    reason = f"as asked; the makers use {recommended.method} ({recommended.source})"
    return ChosenMethod(chosen, reason)


def _require_in_config(model_type: str | None, method: str) -> None:
    """Raise ParameterError if the family's config.json cannot express a method.

    Phi-3's own code takes `yarn` for another name of longrope.
    """
    family = family_of(model_type)
    if family is None or family.renamed.before != "yarn" or method == "ntk":
        return
    takes = "takes no scaling but longrope, whose factors are searched for"
    rule = f"config.json of {family.name} {takes}"
    raise ParameterError("method", method, rule, "take ntk, which changes the base alone")


class Lengths(NamedTuple):
    """The positions of a model without any scaling, and as it is."""

    original: int
    longest: int


def _lengths(model: ModelEncodings, encoding: Encoding, length: int) -> Lengths:
    """Return the lengths of a model.

    Raises:
        ParameterError: They are unknown, the model has `length` positions already, or its scaling
            cannot be replaced.
    """
    scaling = encoding.parameters["scaling"]
    if scaling == "proportional":
        rule = "no other scaling has its proportional frequencies, of which a part rotates"
        raise ParameterError("model", model.file, rule)
    original = _original_length(model, encoding)
    stretched = original
    factor = encoding.parameters.get("factor")
    if factor is not None and scaling in ("yarn", "linear", "llama3"):
        # Without a factor, transformers derives YaRN's from the context that the config states.
        stretched = int(original * float(factor))
    longest = max(original, stretched, int(model.context or 0))
    if length <= longest:
        scaled = "" if scaling == "none" else f", with its own {scaling} scaling"
        rule = f"{model.file} has {longest:,} positions as it is{scaled}"
        raise ParameterError("to", length, rule, "name a longer context")
    return Lengths(original, longest)


def _original_length(model: ModelEncodings, encoding: Encoding) -> int:
    """Return the context without any scaling.

    Transformers divides by the factor of a linear scaling without stating a shorter context, so
    `max_position_embeddings` counts stretched positions.
    """
    stated = encoding.parameters.get("original_max_position_embeddings")
    if stated is not None:
        return int(stated)
    if model.context is None:
        rule = "it does not say for how many positions it was trained"
        advice = "add that key to its config"
        raise ParameterError("model", "without max_position_embeddings", rule, advice)
    if encoding.parameters["scaling"] == "linear":
        return int(model.context / encoding.parameters["factor"])
    return int(model.context)


def _stated_context(model: ModelEncodings, method: str, original: int, length: int) -> int | None:
    """Return the `max_position_embeddings` that config.json needs for a method.

    vLLM multiplies it by the factor of linear scaling, so it stays; Gemma 3's own config states the
    longer context nevertheless. Dynamic scaling starts at it.
    """
    is_gemma3 = "gemma3" in (model.model_type or "")
    if method == "linear" and not is_gemma3:
        return model.context
    if method == "dynamic":
        return original
    return length


def _stretched(encoding: Encoding, method: str, original: int, factor: float) -> Encoding:
    """Return an encoding with another scaling.

    NTK scaling is a larger base and nothing else: b · f^(d / (d − 2)) for the factor f and the
    rotary dimension d, so that the slowest pair is stretched by f and the fastest not at all.
    The parameters that are new have «printed» as their source: they are not in the configuration.
    """
    plain = unscaled_parameters(encoding)
    scaling: Settings = {}
    match method:
        case "yarn":
            scaling["original_max_position_embeddings"] = original
            scaling |= _stated_yarn(encoding)
        case "ntk":
            dim = Rope(1, **plain).rotary_dim
            scaling["base"] = plain["base"] * factor ** (dim / (dim - 2))
        case "dynamic":
            scaling["max_position_embeddings"] = original
    parameters = {**plain, "scaling": method, "factor": factor, **scaling}
    printed = [*scaling]
    if method == "ntk":
        # The larger base is the whole scaling.
        parameters["scaling"] = "none"
        del parameters["factor"]
        printed += ["scaling", "factor"]
    sources = {**encoding.sources, **dict.fromkeys(printed, "printed")}
    return replace(encoding, parameters=parameters, sources=sources, lacks_original_length=False)


def _stated_yarn(encoding: Encoding) -> Settings:
    """Return the parameters of the model's own YaRN that its configuration states."""
    if encoding.parameters["scaling"] != "yarn":
        return {}
    stated = {}
    for name in KEPT:
        if encoding.sources.get(name, "default") != "default":
            stated[name] = encoding.parameters[name]
    return stated


def _notes(encoding: Encoding, method: str, original: int) -> tuple[str, ...]:
    """Return what a user should know: what is replaced, short prompts, and .gguf files.

    Args:
        encoding: The encoding before it is stretched.
        method: The new scaling.
        original: The context without any scaling.
    """
    scaling = encoding.parameters["scaling"]
    notes = []
    if scaling != "none":
        replaced = f"this replaces the model's own {scaling} scaling"
        notes.append(f"{replaced}, which starts at {original:,} positions")
    notes.append(SHORT_PROMPTS[method].format(original=original))
    if scaling in FACTOR_TENSORS:
        kept = f"a .gguf keeps the {scaling} factors in {FACTOR_TENSORS[scaling]}"
        flags = "whatever the flags of llama-server say"
        notes.append(
            f"{kept}, {flags}: convert the model again, with this config.json in its folder"
        )
    return tuple(notes)


def _measure(
    model: ModelEncodings, before: Encoding, after: Encoding, context: int | None, length: int
) -> tuple[RuntimeResult, ...]:
    """Return what runtimes make of the settings.

    For a model whose .gguf keeps the factors of its old scaling in a tensor, the result of
    llama.cpp holds only for a .gguf that is converted again, which is added as a note.

    Args:
        model: The model.
        before: Its encoding.
        after: The stretched encoding.
        context: The context that config.json states after the change.
        length: The context that is served.
    """
    stretched = ModelEncodings(model.file, model.model_type, (after,), context=context)
    results = runtimes(stretched, length).layers[after.layer_type]
    if before.parameters["scaling"] not in FACTOR_TENSORS:
        return results
    noted = []
    for result in results:
        if result.runtime == "llama.cpp":
            notes = (*result.notes, "of a .gguf that is converted again")
            result = replace(result, notes=notes)
        noted.append(result)
    return tuple(noted)
