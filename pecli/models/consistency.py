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
            yield from _stretched_length(encoding, context, length_key)
            if model_type == "llama" and _lost_scaling(encoding, context):
                numbers = f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions"
                lost = f"{scaling_key} may have been lost"
                yield (
                    f"{numbers} are those of Llama 3.1, but its scaling (llama3, factor 8)"
                    f" is not given: {lost}"
                )


def _stretched_length(encoding: Encoding, context: int, length_key: str) -> Iterator[str]:
    """Yield a warning if the factor of a scaling does not lead to the context that a model declares.

    4 × 32768 must make 131072. Files that were edited by hand often change only one of them.
    """
    parameters = encoding.parameters
    factor = parameters.get("factor")
    original = parameters.get(ORIGINAL)
    if parameters["scaling"] not in ("yarn", "longrope") or not factor or not original:
        return
    stretched = factor * original
    if round(stretched) == context:
        return
    source = encoding.sources.get("factor", "factor")
    yield (
        f"{source} {factor:g} × {original} positions make {stretched:.12g},"
        f" but the model says {context} ({length_key}): check which of them is meant"
    )


def _lost_scaling(encoding: Encoding, context: int) -> bool:
    """Return True for an encoding with the base and context of Llama 3.1 that is not scaled."""
    parameters = encoding.parameters
    is_llama3 = parameters["base"] == LLAMA3_BASE and context == LLAMA3_CONTEXT
    return is_llama3 and parameters["scaling"] == "none"
