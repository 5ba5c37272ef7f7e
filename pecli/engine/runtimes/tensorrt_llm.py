"""TensorRT-LLM, an older version: YaRN always rounded, 1,024 for a missing original length."""

from dataclasses import replace

from pecli.engine.runtimes.runtime import (
    ORIGINAL_LENGTH,
    UNCHANGED,
    Adaptation,
    Definition,
    ModelRope,
    RuntimeReading,
    with_rounded_limits,
)
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.yarn import Yarn

_DEFAULT_ORIGINAL_LENGTH = 1024


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as TensorRT-LLM reads it: with rounded limits, without `attention_factor`."""
    reading = with_rounded_limits(definition)
    scaling = replace(reading.scaling, attention_factor=None)
    reason = "attention_factor is not passed on"
    return replace(reading, scaling=scaling).with_attention_cause(definition, reason)


def _adapted(encoding: ModelRope) -> Adaptation:
    """Replace an original length that the config does not have by 1,024."""
    is_yarn = encoding.parameters["scaling"] == "yarn"
    if not is_yarn or not encoding.lacks_original_length:
        return UNCHANGED
    cause = f"assumes {_DEFAULT_ORIGINAL_LENGTH:,} for {ORIGINAL_LENGTH}, which is missing"
    return Adaptation({ORIGINAL_LENGTH: _DEFAULT_ORIGINAL_LENGTH}, cause)


RUNTIME = like_transformers("tensorrt-llm", {"yarn": _read_yarn}, version="older", adapted=_adapted)
