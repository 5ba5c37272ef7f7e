"""exllamav3: YaRN's factor and LongRoPE's list of factors follow from the context of the model."""

from dataclasses import replace

from pecli.engine.named_values import MutableValues, required
from pecli.engine.runtimes.runtime import (
    Adaptation,
    Definition,
    ModelRope,
    RuntimeReading,
    with_attention_of_lengths,
)
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as exllamav3 computes it: with the factor context / original length.

    With a context of 40,960 and an original length of 32,768, the factor is 1.25. If the config
    states another one, such as 4, the result also has a text why the tables differ.
    """
    yarn = definition.scaling
    context = yarn.max_position_embeddings
    if context is None:
        return RuntimeReading(yarn)
    # Without a factor, `Yarn` divides the context by the original length as well.
    yarn_by_lengths = replace(yarn, factor=None)
    factor_by_lengths = context / yarn.original_max_position_embeddings
    factor_of_model = float(yarn.divisor())
    if factor_by_lengths == factor_of_model:
        return RuntimeReading(yarn_by_lengths)
    cause = (
        f"YaRN's factor is max_position_embeddings / original, {factor_by_lengths:g}; "
        f"it ignores factor, {factor_of_model:g}"
    )
    return RuntimeReading(yarn_by_lengths, (cause,))


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as exllamav3 computes it, and why that differs from the model.

    LongRoPE divides frequencies by one of two lists of factors. The model takes the long list if
    the prompt exceeds the original length, such as 4,096. exllamav3 takes it for all prompts if the
    context of the config exceeds that length.
    """
    longrope = definition.scaling
    context = longrope.max_position_embeddings
    if context is None:
        return RuntimeReading(longrope)
    original = longrope.original_max_position_embeddings
    reading = with_attention_of_lengths(definition)
    model_takes_long_list = required(longrope.length) > original
    runtime_takes_long_list = context > original
    if model_takes_long_list == runtime_takes_long_list:
        return reading
    if runtime_takes_long_list:
        cause = (
            "uses the long factors from position 0 on; "
            f"the model uses the short ones up to {original:,}"
        )
        length_of_long_list = original + 1  # the shortest prompt for which `LongRope` takes it
        return _with_list_for_length(length_of_long_list, reading, cause)
    cause = (
        f"uses the short factors at any length, since max_position_embeddings, {context:,}, is "
        f"not above {original:,}; the model uses the long ones beyond {original:,}"
    )
    return _with_list_for_length(original, reading, cause)


def _with_list_for_length(
    length: int, reading: RuntimeReading[LongRope], cause: str
) -> RuntimeReading[LongRope]:
    """Return LongRoPE with the list of factors for prompts of a length, and with one more cause.

    The original length has the short list, and a length of one more the long list.
    """
    scaling = replace(reading.scaling, length=length)
    return replace(reading, scaling=scaling, causes=(cause, *reading.causes))


def _adapted_to_exllamav3(encoding: ModelRope) -> Adaptation:
    """Return the parameters of a model that exllamav3 ignores, each replaced by None.

    The result also states why the tables then differ from the model's; that is empty if they do
    not.
    """
    parameters = encoding.parameters
    replaced: MutableValues = {}
    cause = ""

    # exllamav3's factor of YaRN is context / original length. If the config has no original length,
    # it is the factor of the config. `_read_yarn` takes that if there is no context.
    is_yarn_with_factor = parameters["scaling"] == "yarn" and "factor" in parameters
    if is_yarn_with_factor and encoding.lacks_original_length:
        replaced["max_position_embeddings"] = None

    # YaRN multiplies cosines and sines by an attention factor: 0.1 · ln factor + 1, which is 1.37
    # for factor 40. With both mscales, it is a ratio, which exllamav3 has only for DeepSeek-V3.
    has_both_mscales = parameters.get("mscale") and parameters.get("mscale_all_dim")
    if has_both_mscales and encoding.family != "deepseek_v3":
        replaced["mscale"] = None
        replaced["mscale_all_dim"] = None
        cause = "uses the ratio of both mscales only for DeepSeek-V3"
    return Adaptation(replaced, cause)


RUNTIME = like_transformers(
    "exllamav3",
    {"yarn": _read_yarn, "longrope": _read_longrope, "dynamic": "it raises an error"},
    ignores_prompt=True,
    adapted=_adapted_to_exllamav3,
)
