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
    ropes_of_text = [encoding for encoding in encodings if encoding.is_rope_of_text]
    for rope in ropes_of_text:
        yield from _contradicting_factor(rope, context, length_key)
        if model_type == "llama":
            yield from _lost_llama3_scaling(rope, context, scaling_key)


def _contradicting_factor(rope: Encoding, context: int, length_key: str) -> Iterator[str]:
    """Yield a warning if the factor of a scaling does not lead to the context that a model declares.

    4 × 32768 must make 131072. Files that were edited by hand often change only one of them.
    """
    parameters = rope.parameters
    factor = parameters.get("factor")
    original = parameters.get(ORIGINAL)
    extends_context = parameters["scaling"] in ("yarn", "longrope")
    if not extends_context or not factor or not original:
        return
    extended_context = factor * original
    if round(extended_context) == context:
        return
    source = rope.sources.get("factor", "factor")
    yield (
        f"{source} {factor:g} × {original} positions make {extended_context:.12g},"
        f" but the model says {context} ({length_key}): check which of them is meant"
    )


def _lost_llama3_scaling(rope: Encoding, context: int, scaling_key: str) -> Iterator[str]:
    """Yield a warning about an encoding with the base and context of Llama 3.1 and no scaling."""
    has_llama3_numbers = rope.parameters["base"] == LLAMA3_BASE and context == LLAMA3_CONTEXT
    is_unscaled = rope.parameters["scaling"] == "none"
    if has_llama3_numbers and is_unscaled:
        yield (
            f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but its"
            f" scaling (llama3, factor 8) is not given: {scaling_key} may have been lost"
        )
