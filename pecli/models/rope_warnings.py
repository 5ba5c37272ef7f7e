"""Warnings about rotary settings: contradictions, and values that runtimes treat differently."""

from collections.abc import Iterator

from pecli.engine.scalings.yarn import Yarn, attention_term
from pecli.models.encoding import Encoding
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting, contradictions
from pecli.models.layer_types import Layer
from pecli.models.rope_scaling import KINDS

#: Fractional bits of the exact magnitudes of YaRN.
MAGNITUDE_BITS = 64


def layer_warnings(layer: Layer, encoding: Encoding, *, is_latent: bool) -> Iterator[str]:
    """Yield warnings about the rotary encoding of a layer type.

    They are about values that contradict each other, and about steps that no table of cos and sin
    shows, such as a factor of the queries.

    Args:
        layer: The layer type, such as sliding attention.
        encoding: Its encoding.
        is_latent: True for latent attention (MLA), as in DeepSeek-V3.
    """
    yield from _contradicting_values(layer)
    yield from _keys_that_runtimes_read_differently(layer.settings, encoding)
    yield from _sections_of_wrong_sum(layer.settings, encoding)
    original_context = encoding.parameters.get(ORIGINAL)
    # Ministral 3 multiplies queries by a factor that grows at each multiple of that context.
    if encoding.llama_4_scaling_beta is not None and original_context:
        yield multiplied_queries(encoding.llama_4_scaling_beta, original_context)
    if encoding.order is not None:
        yield "frequencies are stored axis by axis: rows, columns, the rest; a table interleaves them"
    # With `mscale_all_dim`, latent attention multiplies the scores as well.
    if is_latent and encoding.parameters.get("mscale_all_dim"):
        yield _warning_of_softmax_scale(encoding)


def _sections_of_wrong_sum(settings: Keys, encoding: Encoding) -> Iterator[str]:
    """Yield a warning if the sections of M-RoPE do not add up to the number of frequencies.

    16, 24 and 24 fit 128 rotating channels, which have 64 frequencies.
    """
    sections = encoding.sections.mrope_section
    if sections is None:
        return
    count = sum(sections)
    if count * 2 != encoding.rotary_dim:
        yield (
            f"{settings.prefix}mrope_section adds up to {count}, not to half of"
            f" {encoding.rotary_dim}"
        )


def _contradicting_values(layer: Layer) -> Iterator[str]:
    """Yield warnings about values that are given twice and differ: the base, and the scaling.

    A base at the top contradicts one in `rope_scaling`, but not the bases that settings by layer
    type have. The scaling may be named by `rope_type` and by its old key, `type`.
    """
    has_settings_by_type = bool(layer.name)
    if not has_settings_by_type:
        inner = layer.settings.number("rope_theta")
        yield from contradictions(inner, layer.keys.number("rope_theta"))
    new = layer.settings.word("rope_type")
    old = layer.settings.word("type")
    if _scaling_of_type(new) != _scaling_of_type(old):
        yield from contradictions(new, old)


def _scaling_of_type(rope_type: Setting[str] | None) -> str | None:
    """Return pecli's scaling for a rope type; None if it is missing or unknown."""
    if rope_type is None:
        return None
    return KINDS.get(rope_type.value.lower())


def _keys_that_runtimes_read_differently(settings: Keys, encoding: Encoding) -> Iterator[str]:
    """Yield warnings about keys that runtimes are known to read differently."""
    parameters = encoding.parameters
    if "attention_factor" in parameters and settings.spells("attention_factor"):
        yield (
            f"{encoding.sources['attention_factor']} is given: final in transformers, dropped by vLLM,"
            " ignored by mlx-lm, recomputed by llama.cpp"
        )
    if parameters.get("truncate") is False:
        name = settings.full_name("truncate")
        yield f"{name} is false, which ggml and mlx-lm do not know: their limits are rounded"


def _warning_of_softmax_scale(encoding: Encoding) -> str:
    """Return a warning that latent attention also multiplies the softmax scale, outside the table.

    The factor is the square of YaRN's magnitude 0.1 · mscale_all_dim · ln(factor) + 1. DeepSeek-V3
    has an mscale_all_dim of 1 and the factor 40: (0.1 ln 40 + 1)² = 1.8739.
    """
    rope = encoding.frequency_rope()
    scaling = rope.scaling_value
    assert isinstance(scaling, Yarn)  # Only YaRN has an mscale_all_dim.
    yarn_magnitude = _yarn_magnitude(scaling, encoding.parameters["mscale_all_dim"])
    softmax_factor = yarn_magnitude * yarn_magnitude
    table_factor = rope.attention_factor_value()
    return (
        f"the softmax scale is multiplied by {softmax_factor:.7g} (= {yarn_magnitude:.7g}²) outside"
        f" the table, for mscale_all_dim; cos and sin are multiplied by {table_factor:.7g}"
    )


def _yarn_magnitude(scaling: Yarn, mscale: float) -> float:
    """Return 0.1 · mscale · ln(factor) + 1 for the factor by which YaRN extends the context."""
    factor = scaling.divisor()
    magnitude_in_steps = attention_term(
        factor, mscale, MAGNITUDE_BITS
    )  # steps of 2^-MAGNITUDE_BITS
    return float(magnitude_in_steps / 2**MAGNITUDE_BITS)


def multiplied_queries(beta: float, length: int) -> str:
    """Return a warning about queries that grow with their positions, as in Llama 4."""
    return f"queries are multiplied by 1 + {beta:g}·ln(1 + ⌊p/{length}⌋) at position p, outside the table"
