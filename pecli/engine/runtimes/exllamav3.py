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
    """Return YaRN as exllamav3 reads it: its factor is the context over the original length.

    A Qwen3 config with factor 4 and a context of 40,960 departs: 40,960 / 32,768 is 1.25.
    """
    yarn = definition.scaling
    if yarn.max_position_embeddings is None:
        return RuntimeReading(yarn)
    with_factor_of_context = replace(yarn, factor=None)
    factor_of_context = float(with_factor_of_context.divisor())
    factor_of_config = float(yarn.divisor())
    if factor_of_context == factor_of_config:
        return RuntimeReading(with_factor_of_context)
    cause = (
        f"YaRN's factor is max_position_embeddings / original, {factor_of_context:g}; "
        f"it ignores factor, {factor_of_config:g}"
    )
    return RuntimeReading(with_factor_of_context, (cause,))


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as exllamav3 reads it: the context of the model alone selects the factors.

    Phi-3-mini-128k has a context of 131,072 and an original length of 4,096, so it gets the long
    factors, also for prompts of up to 4,096 tokens. A model whose context is its original length
    gets the short ones, also when it is served with more tokens.
    """
    longrope = definition.scaling
    context = longrope.max_position_embeddings
    if context is None:
        return RuntimeReading(longrope)
    original = longrope.original_max_position_embeddings
    reading = with_attention_of_context(definition)
    is_beyond_original = required(longrope.length) > original
    if context > original and not is_beyond_original:
        cause = (
            "uses the long factors from position 0 on; "
            f"the model uses the short ones up to {original:,}"
        )
        return _with_length(reading, original + 1, cause)
    if context <= original and is_beyond_original:
        cause = (
            f"uses the short factors at any length, since max_position_embeddings, {context:,}, is "
            f"not above {original:,}; the model uses the long ones beyond {original:,}"
        )
        return _with_length(reading, original, cause)
    return reading


def _with_length(
    reading: RuntimeReading[LongRope], length: int, cause: str
) -> RuntimeReading[LongRope]:
    """Return a reading with the factors that LongRoPE has at a length, and with one more cause."""
    scaling = replace(reading.scaling, length=length)
    return replace(reading, scaling=scaling, causes=(cause, *reading.causes))


def _adapted_to_exllamav3(encoding: ModelRope) -> Adaptation:
    """Return the parameters that exllamav3 ignores in a model's config, and what that changes.

    Each is replaced by None, so that the table is computed as if the config lacked it. The cause is
    the sentence for users why the table then differs from the model's definition; it is empty if the
    table stays the same.
    """
    parameters = encoding.parameters
    ignored: MutableValues = {}
    cause = ""

    # exllamav3 uses context / original length instead of YaRN's factor. If the config lacks the
    # original length, it uses the factor, as the model's own code does: nothing differs. Without
    # max_position_embeddings, the context, `_read_yarn` keeps to the factor as well.
    is_yarn_with_factor = parameters["scaling"] == "yarn" and "factor" in parameters
    if is_yarn_with_factor and encoding.lacks_original_length:
        ignored["max_position_embeddings"] = None

    # YaRN multiplies cosines and sines by an attention factor: 0.1 · ln factor + 1 (1.37 for factor
    # 40), or a ratio of two numbers if the config has both mscales. exllamav3 has that ratio only
    # for DeepSeek-V3.
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
