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
    stretched = replace(yarn, factor=None)
    factor = float(stretched.divisor())
    defined = float(yarn.divisor())
    if factor == defined:
        return RuntimeReading(stretched)
    cause = (
        f"YaRN's factor is max_position_embeddings / original, {factor:g}; "
        f"it ignores factor, {defined:g}"
    )
    return RuntimeReading(stretched, (cause,))


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as exllamav3 reads it: with the long factors, also for short prompts.

    That holds for models whose context is longer than the original length.
    """
    longrope = definition.scaling
    original = longrope.original_max_position_embeddings
    is_extended = (longrope.max_position_embeddings or 0) > original
    is_long_prompt = required(longrope.length) > original
    if not is_extended or is_long_prompt:
        return RuntimeReading(longrope)
    cause = (
        "uses the long factors from position 0 on; "
        f"the model uses the short ones up to {original:,}"
    )
    with_long_factors = replace(longrope, length=original + 1)
    return RuntimeReading(with_long_factors, (cause,))


def _adapted_to_exllamav3(encoding: ModelRope) -> Adaptation:
    """Return the parameters that exllamav3 reads differently, by the model and its config.

    The ratio of both mscales is used only for DeepSeek-V3. If the config has no original length,
    the context cannot be divided by it, and YaRN's factor is read after all.
    """
    parameters = encoding.parameters
    replaced: MutableValues = {}
    is_yarn = parameters["scaling"] == "yarn"
    if is_yarn and encoding.lacks_original_length and "factor" in parameters:
        replaced["max_position_embeddings"] = None
    has_ratio_of_mscales = parameters.get("mscale") and parameters.get("mscale_all_dim")
    if has_ratio_of_mscales and encoding.family != "deepseek_v3":
        replaced["mscale"] = None
        replaced["mscale_all_dim"] = None
        return Adaptation(replaced, "uses the ratio of both mscales only for DeepSeek-V3")
    return Adaptation(replaced, cause="")


RUNTIME = like_transformers(
    "exllamav3",
    {"yarn": _read_yarn, "longrope": _read_longrope, "dynamic": "it raises an error"},
    ignores_prompt=True,
    adapted=_adapted_to_exllamav3,
)
