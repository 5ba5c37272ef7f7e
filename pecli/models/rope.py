"""Rotary encodings of a configuration: settings by layer type, each value with its source.

Three spellings say the same: `rope_theta` and `rope_scaling` at the top (old), `rope_parameters` (new), and
`rope_parameters` by layer type (nested). A value is looked for in the layer's own settings, then at the top under all
the names that it goes by, then among what the family implies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from pecli.engine.scalings import SCALINGS, yarn
from pecli.engine.scalings.yarn import Yarn, magnitude
from pecli.errors import FileError
from pecli.models.encoding import Encoding
from pecli.models.families import DEEPSEEK, INTERLEAVED, Family
from pecli.models.layer_types import MROPE, THETAS, Head, Layer, head_of, layers_of, unrotated_layers
from pecli.models.values import Keys, Value, default

KINDS = {
    "default": "none",
    "none": "none",
    "mrope": "none",
    "axial": "none",
    "linear": "linear",
    "ntk": "ntk",
    "ntk-fixed": "ntk-fixed",
    "dynamic": "dynamic",
    "xdrope": "dynamic",
    "yarn": "yarn",
    "deepseek_yarn": "yarn",
    "telechat3-yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
    "llama3": "llama3",
    "proportional": "proportional",
}
"""The names of rope types in configurations, and pecli's names for them."""

MAGNITUDES = {"telechat3-yarn": 0.07}
"""What multiplies ln f in the attention factor of YaRN where it is not 0.1."""

LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_sequence_length", "n_ctx")
LENGTH, ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"


def rope_encodings(keys: Keys, family: Family, warnings: list[str], *, vision: bool = False) -> list[Encoding]:
    """All rotary encodings that the keys and the family ask for."""
    layers = layers_of(keys, family, warnings)
    unrotated = unrotated_layers(keys, warnings)
    warn_of_keys(keys, warnings)
    warnings.extend(
        filter(
            None, (family.note, family.no_table and f"there is no table over positions 0, 1, 2, …: {family.no_table}")
        )
    )
    several = len(layers) > 1
    found = [_encoding(keys, layer, family, warnings, vision=vision, several=several) for layer in layers]
    return [encoding.with_extra(unrotated) for encoding in found]


def _encoding(
    keys: Keys, layer: Layer, family: Family, warnings: list[str], *, vision: bool, several: bool
) -> Encoding:
    own = layer.own
    kind, kind_source = _kind(own, family, warnings)
    axes = _axes(kind, kind_source, family, vision=vision)
    head = head_of(
        keys, own, family, layer.name, axes=axes.value if axes else 0, several=several, scaled=KINDS[kind] != "none"
    )
    theta = _theta(keys, own, layer, family)
    found: dict[str, Value] = {"dim": head.dim, "base": theta}
    if head.partial is not None:
        found["partial_rotary_factor"] = head.partial
    scaling = KINDS[kind]
    found["scaling"] = Value(scaling, kind_source)
    alpha = own.number("alpha") if scaling == "dynamic" and (family.reads_alpha or not family.name) else None
    if alpha is not None and alpha.value:
        scaling, found["factor"] = "ntk", alpha
        own.mark("factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow")  # which Hunyuan's code leaves unread
        found["scaling"] = Value(scaling, f"{kind_source} with alpha")
    else:
        found |= _scaling_values(keys, own, scaling, family, layer, warnings)
        found = filled(found, MAGNITUDES.get(kind))
    extra = _sections(own, head, family) | _extra(own, axes, family, scaling)
    layout = _layout(keys, family)
    encoding = Encoding.of(
        "rope",
        found,
        extra,
        layer_type=layer.name,
        sources={"head_dim": head.size.source, "layout": layout.source},
        layout=layout.value,
        head_dim=head.size.value,
        trailing=family.trailing or (head.latent and head.size.value > head.dim.value),
        tables_in_halves=family.tables_in_halves,
        no_table=family.no_table,
    )
    encoding = replace(encoding, extra={**encoding.extra, **_order(own, head, family)})
    encoding.check(keys.path)
    warn_of_contradictions(keys, own, layer.name, KINDS, warnings)
    warn(own, encoding, head, warnings)
    return encoding


def _kind(own: Keys, family: Family, warnings: list[str]) -> tuple[str, str]:
    """The rope type as the configuration spells it, and where from."""
    found = own.word("rope_type", "type")
    if found is None:
        return "default", "default: no scaling is asked for"
    kind, source = found.value.lower(), found.source
    if "rope_type" not in own and (family.local_theta is not None or family.scales_full_layers):
        said = f"transformers 5 reads rope_type alone in {family.name}, and would leave it unscaled"
        warnings.append(f"{source} is {kind}: {said}")
    if kind in family.renamed:
        return family.renamed[kind], f"{source} ({kind} means {family.renamed[kind]} in {family.name})"
    if kind not in KINDS:
        raise FileError(own.path, f"{source} is {found.value[:40]!r}", f"known are {', '.join(KINDS)}")
    if kind == "ntk":
        warnings.append(
            f"{source} is ntk, which has two meanings: base b·f^(d/(d−2)), as read here, or (b·f)^(−2i/d) / f^(2/d), "
            "as in vLLM and GTE, which is --scaling ntk-fixed"
        )
    return kind, source


def filled(found: dict[str, Value], magnitude: float | None = None) -> dict[str, Value]:
    """The parameters of a rotary scheme, those included that count without being said."""
    scaling = found["scaling"].value
    length, original = found.get(LENGTH), found.get(ORIGINAL)
    more = {name: Value(value, "default") for name, value in yarn.DEFAULTS.items()} if scaling == "yarn" else {}
    if scaling in ("yarn", "longrope") and length and original and "attention_factor" not in found:
        ratio, rest = divmod(length.value, original.value)
        if ratio and not rest:  # else the scheme divides, without a rounding
            more["factor"] = Value(float(ratio), f"{length.source} / {original.source}")
    found = {**found, **{name: value for name, value in more.items() if name not in found}}
    factor = found.get("factor") or (Value(length.value / original.value, "") if length and original else None)
    if magnitude is not None and factor is not None and "attention_factor" not in found:
        value = 1 + magnitude * math.log(max(factor.value, 1.0))
        found["attention_factor"] = Value(value, f"1 + {magnitude:g} · ln factor, as {found['scaling'].source} has it")
    return found


def _theta(keys: Keys, own: Keys, layer: Layer, family: Family) -> Value:
    within = keys.part("attn_config")
    found = (
        layer.theta
        or own.number("rope_theta")
        or keys.number(*THETAS)
        or (within and within.number("rope_theta"))
        or ((ratio := keys.number("rope_ratio")) and Value(10000.0 * ratio.value, f"10000 · {ratio.source}"))
        or default(family.theta, family.source)
        or Value(10000.0, "default")
    )
    if found.value <= 0:
        raise FileError(keys.path, f"{found.source} is {found.value:g}", "a base must be above 0")
    return found


def _scaling_values(
    keys: Keys, own: Keys, scaling: str, family: Family, layer: Layer, warnings: list[str]
) -> dict[str, Value]:
    """The parameters that the scaling uses."""
    used = (*SCALINGS[scaling].required(), *SCALINGS[scaling].optional())
    found: dict[str, Value | None] = {}
    for name in used:
        if name in ("short_factor", "long_factor"):
            found[name] = own.numbers(name)
        elif name == "truncate":
            found[name] = own.flag(name)
        elif name == ORIGINAL:
            found[name] = _original(keys, own, layer, family, warnings)
        elif name == LENGTH:
            found[name] = keys.whole(*LENGTHS)
        elif name != "length":
            found[name] = own.number(name)
    if found.get("factor") is not None and scaling != "dynamic":
        found.pop(LENGTH, None)
    if scaling == "none" and own.any("factor", "short_factor", "low_freq_factor", "beta_fast"):
        warnings.append(f"{own.prefix}rope_type is default, so the scaling values beside it are not used")
    return {name: value for name, value in found.items() if value is not None}


def _original(keys: Keys, own: Keys, layer: Layer, family: Family, warnings: list[str]) -> Value | None:
    """O: at the top it wins over the one in flat settings, as transformers has it."""
    inner, outer = own.whole(ORIGINAL), keys.whole(ORIGINAL)
    if inner and outer and inner.value != outer.value:
        winner = inner if layer.name else outer
        warnings.append(f"{outer.source} is {outer.value} and {inner.source} is {inner.value}; {winner.source} wins")
    found = (inner or outer) if layer.name else (outer or inner)
    length = keys.whole(*LENGTHS)
    if found is not None or length is None:
        return found
    if "yarn" not in family.renamed:  # which is documented to leave it out
        warnings.append(f"{own.prefix}{ORIGINAL} is missing: {length.source} is used instead, as in transformers")
    return Value(length.value, f"{length.source}, for want of {ORIGINAL}")


def _axes(kind: str, source: str, family: Family, *, vision: bool) -> Value | None:
    """How many axes positions have, where that is more than one."""
    if family.axes:
        return Value(family.axes, family.source)
    if kind == "axial":
        return Value(2, source)
    return Value(2, "default: it reads images") if vision else None


def _extra(own: Keys, axes: Value | None, family: Family, scaling: str) -> dict[str, Value]:
    extra: dict[str, Value] = {}
    if axes is not None:
        extra["axes"] = axes
        if family.style:
            extra["style"] = Value(family.style, family.source)
        if family.whole_axes:
            extra["axis_frequencies"] = Value("alternating", family.source)
    beta = own.number("llama_4_scaling_beta")
    if beta is not None and beta.value:
        extra["llama_4_scaling_beta"] = beta
    short, long = own.number("short_mscale"), own.number("long_mscale")
    if scaling == "longrope" and short and long and "attention_factor" not in own:
        extra["mscales"] = Value([short.value, long.value], f"{short.source}, {long.source}")
    return extra


def _given_sections(own: Keys) -> Value | None:
    return next(filter(None, map(own.numbers, MROPE)), None)


def _sections(own: Keys, head: Head, family: Family) -> dict[str, Value]:
    """How many frequencies follow time, rows and columns, and whether these are interleaved, in vision models."""
    implied = family.source
    rotary = head.dim.value * (head.partial.value if head.partial else 1)
    section = _given_sections(own)
    if section is None and family.sections and sum(family.sections) == rotary / 2:
        section = Value([*family.sections], implied)
    if section is None:
        return {}
    mixed = own.flag("mrope_interleaved") or Value(False, "default")
    if family.mixed_sections and not mixed.value:
        mixed = Value(True, implied)
    return {"mrope_section": section, "mrope_interleaved": mixed}


def _order(own: Keys, head: Head, family: Family) -> dict[str, list[int]]:
    """Even frequencies for rows, then odd ones for columns; then those of time, which only Ernie 4.5 VL has."""
    if not family.order:
        return {}
    given, count = _given_sections(own), head.dim.value // 2
    last = given.value[-1] if given and given.value else 20
    moving = count - int(last) if family.order == "ernie" and 0 <= last <= count else count
    return {"order": [*range(0, moving, 2), *range(1, moving, 2), *range(moving, count)]}


def _layout(keys: Keys, family: Family) -> Value:
    interleave = keys.flag("rope_interleave") or keys.flag("rotary_emb_interleaved") or keys.flag("rope_interleaved")
    latent = "qk_rope_head_dim" in keys
    if interleave is not None:
        into = (DEEPSEEK if latent else INTERLEAVED) if interleave.value else "halves"
        return Value(into, interleave.source)
    if family.name:
        return Value(family.layout, family.source)
    if latent and "kv_lora_rank" in keys:
        return Value(DEEPSEEK, "as models with qk_rope_head_dim and kv_lora_rank do")
    return Value("halves", "default")


def warn(own: Keys, encoding: Encoding, head: Head, warnings: list[str]) -> None:
    """Warn of settings that runtimes treat differently, that are inconsistent, or that act outside the table."""
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
        own.mark("mixed_b")
        warnings.append(f"{where}mixed_b is given: ntk with an exponent of its own, which is not applied here")
    beta, original = encoding.extra.get("llama_4_scaling_beta"), given.get("original_max_position_embeddings")
    if beta is not None and original:
        warnings.append(
            f"queries are multiplied by 1 + {beta:g}·ln(1 + ⌊p/{original}⌋) at position p, outside the table"
        )
    if "order" in encoding.extra:
        warnings.append("frequencies are stored axis by axis: rows, columns, the rest; a table interleaves them")
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


WARNED_KEYS = {
    "dual_chunk_attention_config": "dual chunk attention takes positions within chunks once a context is longer",
    "rotary_scaling_factor": "the base grows with the length (dynamic NTK), which is not applied here",
    "use_dynamic_ntk": "the base grows with the length (dynamic NTK) beyond seq_length, which is not applied here",
    "use_logn_attn": "queries beyond seq_length n are multiplied by log(p)/log(n) at position p, outside the table",
}


def warn_of_keys(keys: Keys, warnings: list[str]) -> None:
    """Warn of keys that change positions or scores in ways that the encodings do not describe."""
    for name, text in WARNED_KEYS.items():
        if keys.data.get(name):
            keys.mark(name)
            warnings.append(f"{keys.prefix}{name} is given: {text}")
