"""SGLang: dynamic NTK with a constant base; reads `alpha` and `use_fope` of any model."""

import math

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

_ROUNDING = 1e-12
"""Relative difference of factors that are the same but for float64's rounding. With a prompt longer
by one position, the factor is larger by more than 1e-9.
"""


def _read_dynamic(definition: Definition[Dynamic]) -> RuntimeReading[Ntk]:
    """Return dynamic NTK as SGLang reads it: as NTK with the same factor at any length.

    NTK replaces the base of the frequencies by a larger one, which follows from its factor. Dynamic
    NTK has a factor that grows with the length L of the prompt beyond the context M: with f in the
    config, f·L/M − (f − 1). SGLang computes it once, for L = f·M: f² − f + 1, or 3 for f = 2.

    The reading states as a cause that the tables differ from the model's. If they are the same at
    this length, it states what differs for shorter prompts.
    """
    dynamic = definition.scaling
    sglang_factor = dynamic.factor**2 - dynamic.factor + 1
    scaling = Ntk(sglang_factor)
    model_factor = float(dynamic.stretch())  # at the length of the table
    # A factor of 3.7 has no exact float, so that the two differ by a rounding for L = 3.7·M.
    if not math.isclose(model_factor, sglang_factor, rel_tol=_ROUNDING):
        cause = (
            "its dynamic NTK is not dynamic: the base is that of NTK with factor "
            f"{sglang_factor:g}, at any length"
        )
        return RuntimeReading(scaling, causes=(cause,))
    if sglang_factor == 1:  # Neither changes the base, up to this length.
        return RuntimeReading(scaling)
    difference = "shorter prompts get the same base; the model's base follows their length"
    return RuntimeReading(scaling, short_prompts=difference)


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
