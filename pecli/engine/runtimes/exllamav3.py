"""exllamav3: YaRN's factor and LongRoPE's list of factors follow from the context of the model."""

from dataclasses import replace

from pecli.engine.named_values import MutableValues, required
from pecli.engine.runtimes.runtime import (
    Adaptation,
    Definition,
    ModelRope,
    RuntimeReading,
    with_attention_of_context,
)
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as exllamav3 computes it: with the factor context / original length.

    A Qwen3 config with factor 4, a context of 40,960 and an original length of 32,768 gets the
    factor 1.25. The reading then has the cause why tables differ from the model's.
    """
    yarn = definition.scaling
    if yarn.max_position_embeddings is None:  # the context
        return RuntimeReading(yarn)
    # Without a factor, `divisor` is context / original length.
    yarn_by_lengths = replace(yarn, factor=None)
    factor_by_lengths = float(yarn_by_lengths.divisor())
    factor_of_model = float(yarn.divisor())
    if factor_by_lengths == factor_of_model:
        return RuntimeReading(yarn_by_lengths)
    cause = (
        f"YaRN's factor is max_position_embeddings / original, {factor_by_lengths:g}; "
        f"it ignores factor, {factor_of_model:g}"
    )
    return RuntimeReading(yarn_by_lengths, (cause,))


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as exllamav3 computes it, with the causes why it differs from the model.

    LongRoPE has two lists of divisors of the frequencies. The model takes the long list if the
    prompt exceeds the original length, 4,096 in Phi-3. exllamav3 takes it if the context of the
    config does, 131,072 in Phi-3-mini-128k: for prompts of any length.
    """
    longrope = definition.scaling
    context = longrope.max_position_embeddings
    if context is None:
        return RuntimeReading(longrope)
    original = longrope.original_max_position_embeddings
    reading = with_attention_of_context(definition)
    model_takes_long_list = required(longrope.length) > original
    runtime_takes_long_list = context > original
    if model_takes_long_list == runtime_takes_long_list:
        return reading
    if runtime_takes_long_list:
        cause = (
            "uses the long factors from position 0 on; "
            f"the model uses the short ones up to {original:,}"
        )
        return _with_factors_of_length(reading, original + 1, cause)
    cause = (
        f"uses the short factors at any length, since max_position_embeddings, {context:,}, is "
        f"not above {original:,}; the model uses the long ones beyond {original:,}"
    )
    return _with_factors_of_length(reading, original, cause)


def _with_factors_of_length(
    reading: RuntimeReading[LongRope], length: int, cause: str
) -> RuntimeReading[LongRope]:
    """Return a reading with the list of factors for prompts of a length, and with one more cause.

    The original length has the short list, and a length of one more the long list.
    """
    scaling = replace(reading.scaling, length=length)
    return replace(reading, scaling=scaling, causes=(cause, *reading.causes))


def _adapted_to_exllamav3(encoding: ModelRope) -> Adaptation:
    """Return the keys of a model's config that exllamav3 ignores, with None as their values.

    With them comes the cause why tables then differ from the model's; empty if they do not.
    """
    parameters = encoding.parameters
    ignored: MutableValues = {}
    cause = ""

    # `_read_yarn` divides the context by the original length. Without the latter in the config,
    # exllamav3 uses YaRN's factor, as the model does. `_read_yarn` does so if it sees no context.
    is_yarn_with_factor = parameters["scaling"] == "yarn" and "factor" in parameters
    if is_yarn_with_factor and encoding.lacks_original_length:
        ignored["max_position_embeddings"] = None

    # YaRN multiplies cosines and sines by an attention factor: 0.1 · ln factor + 1, which is 1.37
    # for factor 40. With both mscales, it is a ratio, which exllamav3 has only for DeepSeek-V3.
    has_both_mscales = parameters.get("mscale") and parameters.get("mscale_all_dim")
    if has_both_mscales and encoding.family != "deepseek_v3":
        ignored["mscale"] = None
        ignored["mscale_all_dim"] = None
        cause = "uses the ratio of both mscales only for DeepSeek-V3"
    return Adaptation(ignored, cause)


RUNTIME = like_transformers(
    "exllamav3",
    {"yarn": _read_yarn, "longrope": _read_longrope, "dynamic": "it raises an error"},
    ignores_prompt=True,
    adapted=_adapted_to_exllamav3,
)
