"""ONNX Runtime GenAI: YaRN only if the config has `beta_fast`, with limits that it never rounds."""

import math
from collections.abc import Iterator
from dataclasses import replace

from pecli.engine.runtimes.runtime import (
    UNCHANGED,
    Adaptation,
    Definition,
    ModelRope,
    RuntimeReading,
)
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Scaling]:
    """Return YaRN as ONNX Runtime GenAI computes it, with the causes why it differs from the model.

    YaRN blends two frequencies in the pairs between two limits, such as 8 and 18. It multiplies
    cosines and sines by an attention factor. This runtime

    - applies YaRN only if the config has `beta_fast`;
    - computes the limits for all channels of a head, and does not round them;
    - takes `mscale` for the attention factor, unless the config has `mscale_all_dim`.
    """
    yarn = definition.scaling
    if yarn.beta_fast is None:
        cause = "applies YaRN only if the config has beta_fast, which is missing: nothing is scaled"
        return RuntimeReading(Scaling(), (cause,))
    attention_factor = None  # computed from the factor and the mscales
    if yarn.mscale and not yarn.mscale_all_dim:
        attention_factor = yarn.mscale
    yarn_of_runtime = replace(
        _with_limits_over_head(yarn, definition), truncate=False, attention_factor=attention_factor
    )
    causes = tuple(_causes_of_other_limits(definition))
    reading = RuntimeReading(yarn_of_runtime, causes)
    # This adds a cause if the attention factor is not the model's.
    return reading.with_attention_cause(definition, "computes it from factor, or uses mscale")


def _causes_of_other_limits(definition: Definition[Yarn]) -> Iterator[str]:
    """Yield why the limits are not those of the model's definition."""
    if definition.scaling.truncate is not False:
        yield "does not round YaRN's limits"
    if definition.head != definition.dim:
        yield (
            f"computes YaRN's limits over the head size, {definition.head}, "
            f"not the rotary dimension, {definition.dim}"
        )


def _with_limits_over_head(yarn: Yarn, definition: Definition[Yarn]) -> Yarn:
    """Return YaRN with other betas, which have the limits that the runtime computes with its own.

    A limit is dim · ln(c/β) / (2 · ln b) with c = O/2π. The runtime takes the head size instead of
    the rotary dimension, dim. So β' has the same limit over dim as β over the head if c/β' =
    (c/β)^(head/dim).
    """
    if definition.head == definition.dim:
        return yarn
    c = yarn.original_max_position_embeddings / (2 * math.pi)
    exponent = definition.head / definition.dim
    betas = yarn.betas()
    fast = c * (betas.fast / c) ** exponent
    slow = c * (betas.slow / c) ** exponent
    return replace(yarn, beta_fast=fast, beta_slow=slow)


def _adapted(encoding: ModelRope) -> Adaptation:
    """Leave out a beta_fast that the config does not have."""
    if "beta_fast" in encoding.parameters and not encoding.stated_by("beta_fast"):
        return Adaptation({"beta_fast": None}, "")
    return UNCHANGED


RUNTIME = like_transformers("onnxruntime-genai", {"yarn": _read_yarn}, adapted=_adapted)
