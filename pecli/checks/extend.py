"""`pecli.extend`: the settings that stretch a model's context; who honours them is measured."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pecli.checks.extension import FACTOR_TENSORS, Extension
from pecli.checks.extension_methods import AS_IT_IS, Method
from pecli.checks.extension_methods import METHODS as METHODS_BY_NAME
from pecli.checks.runtimes import RuntimeResult, rotary_layers, runtimes
from pecli.engine.arguments import within_limits
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.parameters import Choice, Real, Whole
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import family_of
from pecli.models.find import Model, find_model


class Recommendation(NamedTuple):
    """A method that stretches the context, and why it is chosen.

    Attributes:
        method: The method.
        reason: Where and how the makers of a family state it; empty for a method that the user gave.
        original: The original context length that they state; None if the config has it.
        context: The context of the models that it is meant for; None for all of the family. Qwen3's
            card is meant for models of 40,960 positions, not for those of 262,144 (2507).
    """

    method: str
    reason: str = ""
    original: int | None = None
    context: int | None = None


_LONG_QWEN = "yarn, original 32768, factor 4 for 131072 positions"
_QWEN3 = Recommendation("yarn", f"Qwen3's model card: {_LONG_QWEN}", original=32768, context=40960)
_GEMMA3 = Recommendation("linear", "Gemma 3's own config: linear, factor 8, on its global layers")
_QWEN25_VL = Recommendation(
    "yarn",
    f"Qwen2.5-VL's model card: {_LONG_QWEN}; not for finding places in images or times in videos",
    original=32768,
)
_QWEN3_VL = Recommendation(
    "yarn",
    "Qwen3-VL's model card: yarn, original 262144; --factor 3 for 1000000 tokens with images, which"
    " take fewer positions than text",
)
RECOMMENDED: Mapping[str | None, Recommendation] = {
    "qwen2": Recommendation(
        "yarn", f"Qwen2.5's model card: {_LONG_QWEN}", original=32768, context=32768
    ),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_next": Recommendation("yarn", "Qwen3-Next's model card: yarn, original 262144"),
    "qwen2_5_vl": _QWEN25_VL,
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_moe": _QWEN3_VL,
    "deepseek_v3": Recommendation(
        "yarn",
        "DeepSeek-V3's own config: yarn, original 4096, factor 40 for 163840 positions",
    ),
    "gpt_oss": Recommendation(
        "yarn", "gpt-oss's own config: yarn, original 4096, factor 32 for 131072 positions"
    ),
    "phi3": Recommendation(
        "ntk",
        "Phi's config.json: ntk, since it takes no scaling but longrope, which is searched for",
    ),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
}
"""Recommendations by model_type."""
DEFAULT = Recommendation("yarn", "yarn, which needs the least fine-tuning; the makers name none")
"""The method for models whose makers recommend none."""
METHODS = tuple(METHODS_BY_NAME)
METHOD = Choice(help="how frequencies are stretched", options=METHODS)


class ContextLength(Whole):
    """A number of positions, which may be written as 128k or 1M: 131,072 and 1,048,576."""

    def check(self, name: str, value: Any) -> int:
        return self.parse(name, value) if isinstance(value, str) else super().check(name, value)

    def parse(self, name: str, text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([kKmM])", text)
        if match is None:
            return super().parse(name, text)
        unit = 1024 if match[2] in "kK" else 1024**2
        return super().check(name, round(float(match[1]) * unit))


TO = ContextLength(help="positions of the longer context", high=LAST_POSITION)
ORIGINAL_LEN = ContextLength(help="the context without any scaling", high=LAST_POSITION)
FACTOR = Real(help="the factor of the scaling", at_least=1, up_to=1e30)
FACTOR_SCALINGS = ("yarn", "linear", "llama3")
"""Scalings that stretch the original context by their factor."""


@within_limits
def extend(
    model: Model,
    to: int | str | None = None,
    method: str | None = None,
    *,
    factor: float | None = None,
    original_len: int | str | None = None,
    layer_type: str | None = None,
) -> Extension:
    """Return the settings that stretch a model's context, and what runtimes make of them.

    For a length that the model has already, they are those that serve it as it is, unless a method
    or a factor is given.

    Args:
        model: A path, a preset, a configuration, or a model that was loaded.
        to: Positions of the longer context, such as 131072 or "128k"; by default the factor times
            the original context.
        method: `yarn`, `linear`, `ntk` or `dynamic`; by default the one that the family's makers
            use, or else yarn.
        factor: The factor of the scaling; by default the longer context over the original one.
        original_len: The context without any scaling; by default as the makers state it, or else
            as the configuration does.
        layer_type: The layers to stretch; by default those with the largest base, which see the
            whole context.

    Raises:
        ParameterError: The model does not state how many positions it has, its configuration
            cannot express the method, or neither a length nor a factor is given.

    >>> import pecli
    >>> pecli.extend("qwen2.5-7b", 131072).rope_scaling
    {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32768}
    """
    encodings = find_model(None, model)
    encoding = _find_encoding_to_stretch(encodings, layer_type)
    chosen = _choose_method(encodings, method)
    lengths = _read_model_lengths(encodings, encoding, chosen, original_len)
    length = _choose_length(to, factor, lengths.original)
    longer_context = _LongerContext(encodings, encoding, lengths, length)
    is_given = method is not None or factor is not None
    if length <= lengths.longest and not is_given:
        return longer_context.describe_unchanged_model()
    _require_in_config(encodings.model_type, chosen.method)
    return longer_context.describe_stretched_model(
        METHODS_BY_NAME[chosen.method],
        _choose_factor(factor, length, lengths.original),
        reason=chosen.reason,
    )


def _find_encoding_to_stretch(model: ModelEncodings, layer_type: str | None) -> Encoding:
    """Return the encoding of the layers with the largest base, which see the whole context.

    Gemma 3's sliding layers have the base 10,000 and see 1,024 positions; its full layers have the
    base 1,000,000, and only these are stretched.
    """
    ropes = rotary_layers(model, layer_type, "it has no rotary encoding to stretch")
    return max(ropes, key=lambda rope: float(rope.parameters["base"]))


class _LongerContext(NamedTuple):
    """A model, and the longer context that it should have.

    Attributes:
        model: The model.
        encoding: The encoding of its layers that see the whole context.
        lengths: The positions that it has.
        length: Positions of the longer context.
    """

    model: ModelEncodings
    encoding: Encoding
    lengths: "Lengths"
    length: int

    def describe_unchanged_model(self) -> Extension:
        """Return the answer for a length that the model has without any change of its settings.

        It still states the flags of each runtime: a server has to be told the length.
        """
        scaling = self.encoding.parameters["scaling"]
        own_scaling = "" if scaling == "none" else f", with its own {scaling} scaling"
        has = f"it has {self.lengths.longest:,} positions as it is"
        return self._make_extension(
            method=AS_IT_IS.name,
            reason=f"{has}{own_scaling}: nothing needs to change",
            factor=1.0,
            after=self.encoding,
            context=self.model.context,
            notes=(),
        )

    def describe_stretched_model(self, method: Method, factor: float, *, reason: str) -> Extension:
        """Return the settings with which a scaling stretches the context, for config.json and runtimes.

        Args:
            method: The scaling, such as YaRN.
            factor: The factor of the scaling: 4 for 131,072 positions of a model of 32,768.
            reason: Why this method.
        """
        original = self.lengths.original
        stretched = method.stretch(self.encoding, original, factor)
        # With YaRN, config.json states the longer context; with linear scaling, the model's own.
        context_in_config = method.stated_context(self.model, original, self.length)
        notes = [
            *_write_notes_for_user(self.encoding, method, original),
            *_note_short_reach(original, factor, self.length),
        ]
        return self._make_extension(
            method=method.name,
            reason=reason,
            factor=factor,
            after=stretched,
            context=context_in_config,
            notes=tuple(notes),
        )

    def _make_extension(
        self,
        *,
        method: str,
        reason: str,
        factor: float,
        after: Encoding,
        context: int | None,
        notes: tuple[str, ...],
    ) -> Extension:
        """Return the answer.

        Args:
            method: The name of the method.
            reason: Why this method.
            factor: Its factor; 1 if nothing changes.
            after: The encoding of the layers that see the whole context, stretched.
            context: The `max_position_embeddings` of the new config.json.
            notes: Remarks for the user.
        """
        changed_lengths = {}
        if context and context != self.model.context:
            changed_lengths["max_position_embeddings"] = context
        return Extension(
            model=self.model.file,
            to=self.length,
            method=method,
            reason=reason,
            original=self.lengths.original,
            longest=self.lengths.longest,
            factor=factor,
            before=self.encoding,
            after=after,
            runtimes=_measure_runtimes(self.model, after, context, self.length),
            notes=notes,
            lengths=changed_lengths,
            layers=_list_layers_of_part(self.model, self.encoding.part),
        )


def _choose_length(to: int | str | None, factor: float | None, original: int) -> int:
    """Return the length of the longer context: as given, or the factor times the original one."""
    if to is not None:
        return TO.check("to", to)
    if factor is None:
        advice = "pecli extend MODEL --to 131072"
        raise ParameterError("to", "missing", TO.rule, advice)
    return int(original * FACTOR.check("factor", factor))


def _choose_factor(factor: float | None, length: int, original: int) -> float:
    """Return the factor: as given, or the longer context over the original one.

    131,072 positions over 32,768 are a factor of 4.

    Raises:
        ParameterError: The longer context is shorter than the original one.
    """
    if factor is not None:
        checked: float = FACTOR.check("factor", factor)
        return checked
    if length < original:
        rule = f"there is nothing to stretch from {original:,} positions"
        raise ParameterError("to", length, rule, "give a longer one, or `factor`")
    return length / original


def _note_short_reach(original: int, factor: float, length: int) -> Iterator[str]:
    """Yield a note if a given factor does not reach the length.

    Factor 2 of 32,768 positions reaches 65,536, which are fewer than 131,072.
    """
    reached = round(original * factor)
    if reached < length:
        product = f"factor {factor:g} of {original:,} positions"
        yield f"{product} reaches {reached:,}, fewer than {length:,}"


def _list_layers_of_part(model: ModelEncodings, part: str) -> tuple[Encoding, ...]:
    """Return the encodings of all layer types of one part of a model."""
    return tuple(rope for rope in model.ropes() if rope.part == part)


def _choose_method(model: ModelEncodings, method: str | None) -> Recommendation:
    """Return the method (yarn, linear, …) that the user gave, or that the model's makers recommend.

    For Qwen2.5 without a method, it is yarn with the reason «Qwen2.5's model card: yarn, original
    32768, …». A user's method needs no reason. If it is another than the makers', it starts from the
    original length that the config states.
    """
    recommended = RECOMMENDED.get(model.model_type, DEFAULT)
    if recommended.context not in (None, model.context):
        recommended = DEFAULT
    if method is None:
        return recommended
    users_method = METHOD.check("method", method)
    original = recommended.original if users_method == recommended.method else None
    return Recommendation(users_method, original=original)


def _require_in_config(model_type: str | None, method: str) -> None:
    """Raise ParameterError if the family's config.json cannot express a method.

    Phi-3's own code takes `yarn` for another name of longrope.
    """
    family = family_of(model_type)
    means_longrope_by_yarn = family.renamed.before == "yarn"
    changes_only_base = method == "ntk"
    if not means_longrope_by_yarn or changes_only_base:
        return
    takes = "takes no scaling but longrope, whose factors are searched for"
    rule = f"config.json of {family.name} {takes}"
    raise ParameterError("method", method, rule, "take ntk, which changes the base alone")


class Lengths(NamedTuple):
    """The numbers of positions that a model has before it is extended.

    Attributes:
        original: Without any scaling.
        longest: With the scaling that its configuration has.
    """

    original: int
    longest: int


def _read_model_lengths(
    model: ModelEncodings,
    encoding: Encoding,
    chosen: Recommendation,
    original_len: int | str | None,
) -> Lengths:
    """Return how many positions a model has without any scaling, and with its own one.

    DeepSeek-V3 has 4,096 positions, and a scaling by 40: its lengths are 4,096 and 163,840. A new
    scaling to 327,680 positions has the factor 80, from the first length.

    Args:
        model: The model.
        encoding: Its rotary encoding, with the scaling that it has already.
        chosen: The new scaling, for which the model's makers may recommend a length without scaling.
        original_len: The length without scaling that the user gave, if any.

    Raises:
        ParameterError: They are unknown, or the model's scaling cannot be replaced.
    """
    _require_replaceable_scaling(model, encoding)
    original = _read_original_length(model, encoding, chosen.original)
    stretched = _compute_stretched_length(encoding, original)
    longest = max(stretched, int(model.context or 0))
    if original_len is not None:
        original = ORIGINAL_LEN.check("original_len", original_len)
    return Lengths(original, longest)


def _require_replaceable_scaling(model: ModelEncodings, encoding: Encoding) -> None:
    """Raise ParameterError for proportional scaling, which rotates only a part of the pairs.

    Every other scaling rotates all of them: it cannot take its place.
    """
    if encoding.parameters["scaling"] == "proportional":
        rule = "no other scaling has its proportional frequencies, of which a part rotates"
        raise ParameterError("model", model.file, rule)


def _compute_stretched_length(encoding: Encoding, original: int) -> int:
    """Return the length that a model's own scaling reaches: the original one times its factor.

    Dynamic scaling has a factor as well, but changes with the prompt. Without a factor, transformers
    derives YaRN's from the context that the config states.
    """
    factor = encoding.parameters.get("factor")
    if factor is None or encoding.parameters["scaling"] not in FACTOR_SCALINGS:
        return original
    return max(original, int(original * float(factor)))


def _read_original_length(
    model: ModelEncodings, encoding: Encoding, length_of_makers: int | None
) -> int:
    """Return the number of positions that a model has without any scaling.

    Most scalings state it as `original_max_position_embeddings`; of models without one, the makers
    may state it. Linear scaling does not: its `max_position_embeddings` counts stretched positions,
    16,384 with factor 4 for 4,096.
    """
    stated = encoding.parameters.get("original_max_position_embeddings", length_of_makers)
    if stated is not None:
        return int(stated)
    if model.context is None:
        rule = "it does not say for how many positions it was trained"
        advice = "add that key to its config"
        raise ParameterError("model", "without max_position_embeddings", rule, advice)
    if encoding.parameters["scaling"] == "linear":
        return int(model.context / encoding.parameters["factor"])
    return int(model.context)


def _write_notes_for_user(encoding: Encoding, method: Method, original: int) -> Iterator[str]:
    """Yield what a user should know before stretching the context of a model.

    The notes are on the model's own scaling if it has one, which is replaced, on the effect on short
    prompts, and on .gguf files if they must be converted again.

    Args:
        encoding: The encoding before it is stretched.
        method: The new scaling.
        original: The context without any scaling.
    """
    old_scaling = encoding.parameters["scaling"]
    if old_scaling != "none":
        yield (
            f"this replaces the model's own {old_scaling} scaling, "
            f"which starts at {original:,} positions"
        )
    template_on_short_prompts = method.short_prompts
    yield template_on_short_prompts.format(original=original)
    if old_scaling in FACTOR_TENSORS:
        yield (
            f"a .gguf keeps the {old_scaling} factors in {FACTOR_TENSORS[old_scaling]}, "
            "whatever the flags of llama-server say: "
            "convert the model again, with this config.json in its folder"
        )


def _measure_runtimes(
    model: ModelEncodings, after: Encoding, context: int | None, length: int
) -> tuple[RuntimeResult, ...]:
    """Return how far each runtime is from the stretched encoding, if it gets the new settings.

    Args:
        model: The model.
        after: The stretched encoding.
        context: The context that config.json states after the change.
        length: The context that is served.
    """
    stretched = ModelEncodings(model.file, model.model_type, (after,), context=context)
    return runtimes(stretched, length).layers[after.layer_type]
