"""The RoPE that a runtime computes for a model's encoding, and why that departs from the model."""

from typing import NamedTuple

from pecli.engine.named_values import NamedValues, required
from pecli.engine.runtimes import runtime_named
from pecli.engine.runtimes.runtime import RuntimeProfile
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.schemes.rope import Rope
from pecli.models.encoding import Encoding


class Served(NamedTuple):
    """The context that a model states, and the one that it is served with."""

    context: int | None
    length: int


class RuntimeRope(NamedTuple):
    """The RoPE of an encoding as one runtime reads it.

    Attributes:
        rope: The scheme with the parameters that the runtime computes.
        causes: What it reads differently than the model defines it.
        rows: The number of its positions, if they end before the context does.
        short_prompts: What prompts get that are much shorter than the context, if it is wrong.
    """

    rope: Rope
    causes: tuple[str, ...]
    rows: int | None
    short_prompts: str


def rope_of_runtime(encoding: Encoding, name: str, served: Served) -> RuntimeRope:
    """Return an encoding as a runtime reads it, at the served context.

    Args:
        encoding: The encoding that the model defines.
        name: The name of the runtime.
        served: The context that the model states, and the one that is served.

    Raises:
        UnsupportedError: The runtime has no such table.
    """
    runtime = runtime_named(name)
    rope = encoding.rope(1, length=served.length, runtime=name)
    causes = rope.runtime_reading.causes
    adaptation = runtime.adapted(encoding)
    if adaptation.cause:
        causes = (adaptation.cause, *causes)
    return RuntimeRope(
        rope,
        causes,
        rows=_count_rows(runtime, rope, served),
        short_prompts=_find_problem_of_short_prompts(encoding, runtime, rope, served.length),
    )


def describe_rows(rows: int) -> str:
    """Return «its table ends at position 4,095» for 4,096 rows."""
    return f"its table ends at position {rows - 1:,}"


def _count_rows(runtime: RuntimeProfile, rope: Rope, served: Served) -> int | None:
    """Return the number of rows of a runtime's table if they are fewer than the served context.

    Some runtimes build a table for the context in config.json, times the factor of linear scaling:
    4,096 positions and a factor of 4 are 16,384 rows. If the model is served with 32,768 positions,
    those beyond have no row. None if there are enough rows.

    Args:
        runtime: The runtime.
        rope: The scheme as the runtime reads it.
        served: The context that the config states, and the one that is served.
    """
    rows = rope.runtime_reading.rows
    if rows is None and runtime.limits_to_context and served.context is not None:
        rows = served.context
        if rope.scaling == "linear":
            rows = int(served.context * required(rope.factor))
    if not rows or rows >= served.length:
        return None
    return rows


def _find_problem_of_short_prompts(
    encoding: Encoding, runtime: RuntimeProfile, rope: Rope, length: int
) -> str:
    """Return a sentence on what a runtime computes wrong for short prompts; empty if nothing is wrong.

    Longrope has other factors for prompts within the original context. A runtime that chooses its
    factors before it has seen a prompt uses the long ones for these prompts as well.

    Args:
        encoding: The encoding that the model defines.
        runtime: The runtime.
        rope: The scheme as the runtime reads it.
        length: The served context.
    """
    scaling = rope.runtime_reading.scaling
    has_long_factors = isinstance(scaling, LongRope) and scaling.is_long
    # Without an original context, no prompt counts as short.
    original = encoding.parameters.get("original_max_position_embeddings") or length
    has_short_prompts = length > original
    if runtime.ignores_prompt and has_long_factors and has_short_prompts:
        return _describe_long_factors(encoding.parameters, original)
    # Other differences are known for the runtime: `short_prompts` is a sentence or empty.
    return rope.runtime_reading.short_prompts


def _describe_long_factors(parameters: NamedValues, original: int) -> str:
    """Return the sentence that short prompts get the long factors; empty if both factors are equal.

    Longrope (Phi-3) has short factors for prompts up to the original context of 4,096 positions,
    and long ones beyond. A runtime that builds one table for the served context, before it has seen
    a prompt, uses the long factors for all prompts.
    """
    if parameters["short_factor"] == parameters["long_factor"]:
        return ""
    return (
        f"prompts of up to {original:,} tokens get the long factors, too; "
        "the model has the short ones for them"
    )
