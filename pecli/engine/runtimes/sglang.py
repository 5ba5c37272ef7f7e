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
"""Relative difference of factors that are the same except for float64's rounding: 3.7, for example,
is no exact float. With a prompt longer by one position, the factor is larger by more than 1e-9.
"""


def _read_dynamic(definition: Definition[Dynamic]) -> RuntimeReading[Ntk]:
    """Return the scaling that SGLang computes for a model with dynamic NTK, and how it differs.

    NTK scaling stretches the context by a factor, through a larger base. In dynamic NTK, the factor
    grows with the prompt. SGLang takes the factor of the longest prompt for all of them.
    """
    dynamic = definition.scaling
    sglang_factor = _factor_at_longest_prompt(dynamic.factor)
    model_factor = float(dynamic.stretch())  # for a prompt as long as this table
    sglang_scaling = Ntk(sglang_factor)
    are_tables_equal = math.isclose(model_factor, sglang_factor, rel_tol=_ROUNDING)
    if not are_tables_equal:
        cause = (
            "its dynamic NTK is not dynamic: the base is that of NTK with factor "
            f"{sglang_factor:g}, at any length"
        )
        return RuntimeReading(sglang_scaling, causes=(cause,))
    if sglang_factor == 1:  # Then the model stretches no prompt either.
        return RuntimeReading(sglang_scaling)
    # The longest prompt, of this table, has the model's base. Shorter ones have another.
    difference = "shorter prompts get the same base; the model's base follows their length"
    return RuntimeReading(sglang_scaling, short_prompts=difference)


def _factor_at_longest_prompt(factor: float) -> float:
    """Return the factor that dynamic NTK reaches at the longest prompt that it is meant for.

    It is f·L/M − (f − 1) for a prompt of length L, if the model was trained on M positions and its
    config states f. The longest prompt is L = f·M, which gives f² − f + 1.

    >>> _factor_at_longest_prompt(2.0)
    3.0
    """
    return factor**2 - factor + 1


def _adapted_to_sglang(encoding: ModelRope) -> Adaptation:
    """Return the parameters that SGLang takes from the key `alpha` of any config.

    It applies NTK scaling (a larger base for longer contexts) with the factor alpha. The code of
    most models ignores the key. So the result also states why its tables differ from the model's.

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
    # It is None without the key, and for Hunyuan, whose own code has read it: its parameters have it.
    if encoding.alpha is None:
        return UNCHANGED
    parameters = {"scaling": "ntk", "factor": encoding.alpha, "max_position_embeddings": None}
    cause = f"reads alpha, {encoding.alpha:g}, as NTK's factor; the model's own code does not"
    return Adaptation(parameters, cause)


RUNTIME = like_transformers(
    "sglang", {"dynamic": _read_dynamic, "ntk": as_defined}, adapted=_adapted_to_sglang
)
