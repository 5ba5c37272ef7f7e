"""What to beware of in rotary settings that are valid all the same."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pecli.engine.scalings.yarn import Yarn, magnitude
from pecli.models.encoding import Encoding
from pecli.models.heads import Head
from pecli.models.values import Keys


def warn(where: str, encoding: Encoding, head: Head, warnings: list[str]) -> None:
    """What runtimes treat differently, what does not add up, and what lives outside the table."""
    given = encoding.parameters
    if given.get("attention_factor") is not None:
        warnings.append(
            f"{where}attention_factor is given: final in transformers, dropped by vLLM, ignored by mlx-lm, "
            "recomputed by llama.cpp"
        )
    if given.get("truncate") is False:
        warnings.append(f"{where}truncate is false, which ggml and mlx-lm do not know: their limits are rounded")
    section = encoding.extra.get("mrope_section")
    if section is not None and sum(section) * 2 != encoding.rotary_dim:
        warnings.append(f"{where}mrope_section adds up to {sum(section)}, not to half of {encoding.rotary_dim}")
    if "order" in encoding.extra:
        warnings.append("frequencies are kept axis by axis: rows, columns, the rest; a table has them in turn")
    if given["scaling"] == "yarn" and given.get("mscale_all_dim") and head.latent:
        rope = encoding.rope(1)
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


def warn_of_still_layers(keys: Keys, warnings: list[str]) -> None:
    """Layers that the lists in a configuration leave without rotation, or give a base of their own."""
    rotates = keys.numbers("no_rope_layers") or keys.numbers("no_rope_layer_flags")
    thetas = keys.numbers("layer_rope_theta")
    for found in filter(None, (rotates, thetas)):
        still = sum(not value for value in found.value)
        if still:
            warnings.append(f"{still} of {len(found.value)} layers turn nothing: {found.source} is 0 there")
    if thetas is not None:
        others = sorted({value for value in thetas.value if value})
        if len(others) > 1:
            warnings.append(f"layers have bases of their own: {thetas.source} holds {', '.join(map(str, others))}")
