"""exllamav3: YaRN's factor from the context, LongRoPE's long factors from position 0 on."""

from dataclasses import replace

from pecli.engine.named_values import MutableValues, required
from pecli.engine.runtimes.runtime import Adaptation, Definition, ModelRope, RuntimeReading
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
    """Return LongRoPE as exllamav3 reads it: with the long factors, also for short prompts.

    That holds for models whose context is longer than the original length. Phi-3-mini-128k has
    131,072 and 4,096: prompts of up to 4,096 tokens have the short factors in the model. Here they
    are read with a length of 4,097, the least that has the long ones.
    """
    longrope = definition.scaling
    original = longrope.original_max_position_embeddings
    has_longer_context = (longrope.max_position_embeddings or 0) > original
    is_short_prompt = required(longrope.length) <= original
    departs = has_longer_context and is_short_prompt
    if not departs:
        return RuntimeReading(longrope)
    cause = (
        "uses the long factors from position 0 on; "
        f"the model uses the short ones up to {original:,}"
    )
    with_long_factors = replace(longrope, length=original + 1)
    return RuntimeReading(with_long_factors, (cause,))


def _adapted_to_exllamav3(encoding: ModelRope) -> Adaptation:
    """Return the parameters of a model that exllamav3 does not use, each replaced by None.

    The cause states why its result then differs from the model's definition; it is empty if the
    result is the same.
    """
    parameters = encoding.parameters
    replaced: MutableValues = {}
    cause = ""

    # exllamav3 divides the context by the original length to get YaRN's factor. If the config lacks
    # that length, it takes the factor of the config, as the model's own code does: no cause.
    is_yarn_with_factor = parameters["scaling"] == "yarn" and "factor" in parameters
    if is_yarn_with_factor and encoding.lacks_original_length:
        replaced["max_position_embeddings"] = None

    # With both mscales, the attention factor is by definition the ratio of two numbers that follow
    # from them. exllamav3 has that ratio only for DeepSeek-V3; others get 0.1 · ln factor + 1.
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
