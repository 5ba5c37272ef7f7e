"""Warnings about settings of a model that do not fit one another."""

from collections.abc import Iterator, Sequence

from pecli.models.encoding import Encoding
from pecli.models.key_names import ORIGINAL

#: Base and context of Llama 3.1; a file with both and without a scaling has lost it.
LLAMA3_BASE = 500000.0
LLAMA3_CONTEXT = 131072


def inconsistencies(
    encodings: Sequence[Encoding],
    context: int | None,
    model_type: str | None,
    *,
    length_key: str,
    scaling_key: str,
) -> Iterator[str]:
    """Yield warnings about the language model's rotary encodings and its context length.

    Args:
        encodings: All encodings of the model.
        context: The context length; without one there is nothing to compare with.
        model_type: The model type.
        length_key: The key of the context length, for messages.
        scaling_key: The key or tensor of the scaling, for messages.
    """
    if context is None:
        return
    for encoding in encodings:
        if encoding.is_rope_of_text:
            yield from _contradicting_factor(encoding, context, length_key)
            yield from _lost_llama3_scaling(encoding, context, model_type, scaling_key)


def _contradicting_factor(rope: Encoding, context: int, length_key: str) -> Iterator[str]:
    """Yield a warning if the factor of a scaling does not lead to the context that a model declares.

    4 × 32768 must make 131072. Files that were edited by hand often change only one of them.
    """
    parameters = rope.parameters
    factor = parameters.get("factor", 0.0)
    original = parameters.get(ORIGINAL, 0)
    extended_context = factor * original  # 0 if one of them is missing
    is_contradicted = round(extended_context) not in (0, context)
    if parameters["scaling"] in ("yarn", "longrope") and is_contradicted:
        source = rope.sources.get("factor", "factor")
        yield (
            f"{source} {factor:g} × {original} positions make {extended_context:.12g},"
            f" but the model says {context} ({length_key}): check which of them is meant"
        )


def _lost_llama3_scaling(
    rope: Encoding, context: int, model_type: str | None, scaling_key: str
) -> Iterator[str]:
    """Yield a warning about an encoding with the base and context of Llama 3.1 and no scaling."""
    settings = (model_type, rope.parameters["base"], context, rope.parameters["scaling"])
    if settings == ("llama", LLAMA3_BASE, LLAMA3_CONTEXT, "none"):
        yield (
            f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but its"
            f" scaling (llama3, factor 8) is not given: {scaling_key} may have been lost"
        )
