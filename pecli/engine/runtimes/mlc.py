"""MLC: reads configs as transformers, except that Gemma 3's linear factor is not applied."""

from pecli.engine.runtimes.runtime import Adaptation, ModelRope
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.runtimes.unscaled_families import without_scaling


def _adapted(encoding: ModelRope) -> Adaptation:
    """Remove the scaling of Gemma 3, which MLC does not read."""
    return without_scaling(encoding, ("gemma3",))


RUNTIME = like_transformers("mlc", {}, adapted=_adapted)
