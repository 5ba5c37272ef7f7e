"""SGLang: dynamic NTK with a constant base; reads `alpha` and `use_fope` of any model."""

from pecli.engine.runtimes.runtime import (
    UNCHANGED,
    Adaptation,
    Definition,
    ModelRope,
    RuntimeReading,
    as_defined,
)
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.ntk import Dynamic, Ntk
from pecli.errors import UnsupportedError


def _read_dynamic(definition: Definition[Dynamic]) -> RuntimeReading[Ntk]:
    """Return dynamic NTK as SGLang reads it: at any length L as if L were f times the context M.

    Dynamic NTK stretches the base by f·L/M − (f − 1), which follows the length of the prompt. SGLang
    has the stretch of L = f·M at any length: f² − f + 1, which is 3 for factor 2.
    """
    factor = definition.scaling.factor
    stretch_at_any_length = factor**2 - factor + 1
    scaling = Ntk(stretch_at_any_length)
    is_same_at_this_length = definition.scaling.stretch() == stretch_at_any_length
    if not is_same_at_this_length:
        cause = (
            "its dynamic NTK is not dynamic: the base is that of NTK with factor "
            f"{stretch_at_any_length:g}, at any length"
        )
        return RuntimeReading(scaling, causes=(cause,))
    short_prompts = ""
    if stretch_at_any_length != 1:
        short_prompts = "shorter prompts get the same base; the model's base follows their length"
    return RuntimeReading(scaling, short_prompts=short_prompts)


def _adapted_to_sglang(encoding: ModelRope) -> Adaptation:
    """Return the scaling parameters that SGLang takes from the key `alpha` of any model's config.

    It applies NTK-aware scaling (a larger base for longer contexts) with the factor alpha. Hunyuan's
    own code also does so. The code of other models ignores the key, so that the result differs from
    the definition, and the adaptation has a cause.

    Raises:
        UnsupportedError: The config has use_fope (Fourier position embeddings), whose tables depend
            on learned coefficients.
    """
    if encoding.use_fope:
        rule = (
            "it reads use_fope: cos and sin are then sums of all frequencies, with coefficients "
            "that were learned for each kv head; pecli does not compute them"
        )
        raise UnsupportedError("runtime", "sglang", rule)
    if encoding.alpha is None:  # Also for Hunyuan, whose alpha is in the parameters already.
        return UNCHANGED
    parameters = {"scaling": "ntk", "factor": encoding.alpha, "max_position_embeddings": None}
    cause = f"reads alpha, {encoding.alpha:g}, as NTK's factor; the model's own code does not"
    return Adaptation(parameters, cause)


RUNTIME = like_transformers(
    "sglang", {"dynamic": _read_dynamic, "ntk": as_defined}, adapted=_adapted_to_sglang
)
