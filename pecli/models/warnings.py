"""What to beware of in rotary settings that are valid all the same."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pecli.engine.scalings.yarn import Yarn, magnitude
from pecli.models.encoding import Encoding
from pecli.models.heads import Head
from pecli.models.values import Keys


def warn(own: Keys, encoding: Encoding, head: Head, warnings: list[str]) -> None:
    """What runtimes treat differently, what does not add up, and what lives outside the table."""
    given, where = encoding.parameters, own.prefix
    if given.get("attention_factor") is not None and "attention_factor" in own:
        warnings.append(
            f"{where}attention_factor is given: final in transformers, dropped by vLLM, ignored by mlx-lm, "
            "recomputed by llama.cpp"
        )
    if given.get("truncate") is False:
        warnings.append(f"{where}truncate is false, which ggml and mlx-lm do not know: their limits are rounded")
    section = encoding.extra.get("mrope_section")
    if section is not None and sum(section) * 2 != encoding.rotary_dim:
        warnings.append(f"{where}mrope_section adds up to {sum(section)}, not to half of {encoding.rotary_dim}")
    if "mixed_b" in own:
        warnings.append(f"{where}mixed_b is given: ntk with an exponent of its own, which is not applied here")
    beta, original = encoding.extra.get("llama_4_scaling_beta"), given.get("original_max_position_embeddings")
    if beta is not None and original:
        warnings.append(
            f"queries are multiplied by 1 + {beta:g}·ln(1 + ⌊p/{original}⌋) at position p, outside the table"
        )
    if "order" in encoding.extra:
        warnings.append("frequencies are kept axis by axis: rows, columns, the rest; a table has them in turn")
    if given["scaling"] == "yarn" and given.get("mscale_all_dim") and head.latent:
        rope = encoding.frequency_rope()
        assert isinstance(rope.scaling_value, Yarn)
        g = magnitude(rope.scaling_value.divisor(), Fraction(given["mscale_all_dim"]))(64) / 2**64
        warnings.append(
            f"the softmax scale is multiplied by {g * g:.7g} (= {g:.7g}²) outside the table, for mscale_all_dim; "
            f"cos and sin are multiplied by {rope.attention_factor_value():.7g}"
        )


def warn_of_contradictions(
    keys: Keys, own: Keys, layer_type: str, kinds: Mapping[str, str], warnings: list[str]
) -> None:
    """Two keys for one thing that say different things; layers of several kinds have their own."""
    inner, outer = own.number("rope_theta"), keys.number("rope_theta")
    if inner and outer and inner.value != outer.value and not layer_type:
        said = f"{outer.source} is {outer.value:.12g} and {inner.source} is {inner.value:.12g}"
        warnings.append(f"{said}; {inner.source} wins, as in transformers")
    new, old = own.word("rope_type"), own.word("type")
    if new and old and kinds.get(new.value.lower()) != kinds.get(old.value.lower()):
        said = f"{old.source} is {old.value[:40]} and {new.source} is {new.value[:40]}"
        warnings.append(f"{said}; {new.source} wins, as in transformers")


KEYS = {
    "dual_chunk_attention_config": "dual chunk attention takes positions within chunks once a context is longer",
    "rotary_scaling_factor": "the base grows with the length (dynamic NTK), which is not applied here",
    "use_dynamic_ntk": "the base grows with the length (dynamic NTK) beyond seq_length, which is not applied here",
    "use_logn_attn": "queries beyond seq_length n are multiplied by log(p)/log(n) at position p, outside the table",
}
"""Keys that change positions or scores in ways that the encodings do not tell."""


def warn_of_keys(keys: Keys, warnings: list[str]) -> None:
    """What else the keys say about positions."""
    warnings.extend(f"{keys.prefix}{name} is given: {text}" for name, text in KEYS.items() if keys.data.get(name))
