"""Rotary encodings of a configuration. Three spellings say the same: `rope_theta` and `rope_scaling` at the top (old),
`rope_parameters` (new), and `rope_parameters` by layer type (nested). A value is looked for in the layer's own
settings, then at the top under all the names that it goes by, then among what the family implies."""

import math
from collections.abc import Mapping
from typing import Any

from pecli.engine.scalings import SCALINGS, yarn
from pecli.engine.scalings.yarn import Yarn, magnitude
from pecli.errors import FileError
from pecli.models.data import stored, synonyms
from pecli.models.encoding import Encoding, Mscales
from pecli.models.families import DEEPSEEK, HALVES, INTERLEAVED, Family
from pecli.models.keys import Keys, Setting, default
from pecli.models.layer_types import (
    MROPE,
    MSCALES,
    SHARED,
    THETAS,
    Head,
    Layer,
    head_of,
    layers_of,
    unrotated_layers,
)

KINDS = {
    **{name: name for name in SCALINGS},
    **{"default": "none", "mrope": "none", "axial": "none", "xdrope": "dynamic", "su": "longrope"},
    **{"deepseek_yarn": "yarn", "telechat3-yarn": "yarn"},
}  #: The names of rope types in configurations, and pecli's names for them
MAGNITUDES = {
    "telechat3-yarn": 0.07
}  #: What multiplies ln f in the attention factor of YaRN where it is not 0.1
LENGTHS = synonyms("length")
LENGTH, ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"
READERS = {"short_factor": Keys.numbers, "long_factor": Keys.numbers, "truncate": Keys.flag}
"""How parameters of scalings are read that are no single numbers."""


def rope_encodings(
    keys: Keys, family: Family, warnings: list[str], *, vision: bool = False
) -> list[Encoding]:
    """All rotary encodings that the keys and the family ask for."""
    layers = layers_of(keys, family, warnings)
    keys.account.looked_for.update(SHARED)  # which are known names, wherever they stand
    if keys.prefix:  # a part, whose length no table depends on
        keys.mark(LENGTH)
    unrotated = unrotated_layers(keys, warnings)
    for name, text in stored(
        "warned_keys.json"
    ).items():  # which change positions or scores as no encoding says
        if keys.data.get(name):
            keys.mark(name)
            warnings.append(f"{keys.prefix}{name} is given: {text}")
    if family.note:
        warnings.append(family.note)
    if family.no_table:
        warnings.append(f"there is no table over positions 0, 1, 2, …: {family.no_table}")
    return [_encoding(layer, unrotated, vision=vision) for layer in layers]


def _encoding(layer: Layer, unrotated: Mapping[str, Setting[Any]], *, vision: bool) -> Encoding:
    own, family = layer.own, layer.family
    kind, source = _kind(layer)
    scaling = KINDS[kind]
    axes = default(family.axes or None, family.source)
    if axes is None and (kind == "axial" or vision):
        axes = Setting(2, source if kind == "axial" else "default: it reads images")
    head = head_of(layer, axes=axes.value if axes else 0, scaled=scaling != "none")
    found = {"dim": head.dim, "base": _theta(layer)}
    if head.partial is not None:
        found["partial_rotary_factor"] = head.partial
    unread = (
        own.data.get("alpha")
        if scaling == "dynamic" and family.name and not family.reads_alpha
        else None
    )
    alpha = (
        own.number("alpha")
        if scaling == "dynamic" and (family.reads_alpha or not family.name)
        else None
    )
    if alpha is not None and alpha.value:
        own.mark(
            "factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow"
        )  # which Hunyuan's code leaves unread
        found |= {"scaling": Setting("ntk", f"{source} with alpha"), "factor": alpha}
    else:
        found |= {"scaling": Setting(scaling, source), **_scaling_values(layer, scaling)}
        found = _filled(found, MAGNITUDES.get(kind))
    extra = {**_sections(own, head, family), **_extra(own, axes, family, scaling), **unrotated}
    fields = {
        "layer_type": layer.name,
        "head_dim": head.size,
        "layout": _layout(layer.keys, family),
    }
    fields |= {
        "family": family.name,
        "prefix": layer.keys.prefix,
        "use_fope": own.data.get("use_fope") is True,
    }
    fields |= {"tables_in_halves": family.tables_in_halves, "no_table": family.no_table}
    # Only a scaling that has the parameter may look for it: a key that is looked for counts as read.
    if ORIGINAL in found:
        is_given = own.resolves(ORIGINAL) or layer.keys.resolves(ORIGINAL)
        fields["lacks_original_length"] = not is_given
    fields["trailing"] = family.trailing or (head.latent and head.size.value > head.dim.value)
    fields["alpha"] = unread if isinstance(unread, (int, float)) and 1 <= unread < 2**64 else None
    encoding = Encoding.of("rope", found, extra, **fields).checked(own.path)
    _warn(layer, encoding, head)
    return encoding


def _kind(layer: Layer) -> tuple[str, str]:
    own, family = layer.own, layer.family
    if (found := own.word("rope_type", "type")) is None:
        return "default", "default: no scaling is asked for"
    kind, source = found.value.lower(), found.source
    if "rope_type" not in own and family.local_theta is not None:
        said = f"transformers 5 reads rope_type alone in {family.name}, and would leave it unscaled"
        layer.warnings.append(f"{source} is {kind}: {said}")
    name, meaning = family.renamed
    if name and kind == name:
        return meaning, f"{source} ({kind} means {meaning} in {family.name})"
    if kind not in KINDS:
        raise FileError(
            own.path, f"{source} is {found.value[:40]!r}", f"known are {', '.join(KINDS)}"
        )
    if kind == "ntk":
        other = "(b·f)^(−2i/d) / f^(2/d), as in vLLM and GTE, which is --scaling ntk-fixed"
        layer.warnings.append(
            f"{source} is ntk, which has two meanings: base b·f^(d/(d−2)), as read here, or {other}"
        )
    return kind, source


def _theta(layer: Layer) -> Setting[Any]:
    keys = layer.keys
    within = keys.part("attn_config")
    found = (
        layer.theta
        or layer.own.number("rope_theta")
        or keys.number(*THETAS)
        or (within and within.number("rope_theta"))
        or (
            (ratio := keys.number("rope_ratio"))
            and Setting(10000.0 * ratio.value, f"10000 · {ratio.source}")
        )
        or default(layer.family.theta, layer.family.source)
        or Setting(10000.0, "default")
    )
    if found.value <= 0:
        raise FileError(keys.path, f"{found.source} is {found.value:g}", "a base must be above 0")
    return found


def _scaling_values(layer: Layer, scaling: str) -> dict[str, Setting[Any]]:
    own = layer.own
    found: dict[str, Setting[Any] | None] = {}
    for name in SCALINGS[scaling].names():
        if name == ORIGINAL:
            found[name] = _original(layer)
        elif name == LENGTH:
            found[name] = layer.keys.whole(*LENGTHS)
        elif name != "length":
            found[name] = READERS.get(name, Keys.number)(own, name)
    if found.get("factor") is not None and scaling != "dynamic":
        found.pop(LENGTH, None)
    if scaling == "none" and own.any("factor", "short_factor", "low_freq_factor", "beta_fast"):
        layer.warnings.append(
            f"{own.prefix}rope_type is default, so the scaling values beside it are not used"
        )
    return {name: value for name, value in found.items() if value is not None}


def _original(layer: Layer) -> Setting[Any] | None:
    """O: at the top it wins over the one in flat settings, as transformers has it."""
    own, keys = layer.own, layer.keys
    inner, outer = own.whole(ORIGINAL), keys.whole(ORIGINAL)
    found = (inner or outer) if layer.name else (outer or inner)
    if found and inner and outer and inner.value != outer.value:
        layer.warnings.append(_both(found, outer if found is inner else inner))
    length = keys.whole(*LENGTHS)
    if found is not None or length is None:
        return found
    if "yarn" not in layer.family.renamed:  # which is documented to leave it out
        layer.warnings.append(
            f"{own.prefix}{ORIGINAL} is missing: {length.source} is used instead, as in transformers"
        )
    return Setting(length.value, f"{length.source} ({ORIGINAL} is missing)")


def _filled(found: dict[str, Setting[Any]], magnitude: float | None) -> dict[str, Setting[Any]]:
    """The parameters of a rotary scheme, those included that count without being said."""
    scaling = found["scaling"].value
    length, original = found.get(LENGTH), found.get(ORIGINAL)
    more = (
        {name: Setting(value, "default") for name, value in yarn.DEFAULTS.items()}
        if scaling == "yarn"
        else {}
    )
    if length and original and "attention_factor" not in found:  # of yarn or longrope
        ratio, rest = divmod(length.value, original.value)
        if not rest:  # else the scheme divides, without a rounding
            more["factor"] = Setting(float(ratio), f"{length.source} / {original.source}")
    found = {**found, **{name: value for name, value in more.items() if name not in found}}
    factor = found.get("factor") or (
        Setting(length.value / original.value, "") if length and original else None
    )
    if magnitude is not None and factor is not None and "attention_factor" not in found:
        value = 1 + magnitude * math.log(max(factor.value, 1.0))
        found["attention_factor"] = Setting(
            value, f"1 + {magnitude:g} · ln factor, as {found['scaling'].source} has it"
        )
    return found


def _extra(
    own: Keys, axes: Setting[Any] | None, family: Family, scaling: str
) -> dict[str, Setting[Any]]:
    """What a model does beyond the scheme: several axes, queries or tables multiplied by their length."""
    extra: dict[str, Setting[Any]] = {}
    if axes is not None:
        extra["axes"] = axes
        if family.style:
            extra["style"] = Setting(family.style, family.source)
        if family.order == "axes":
            extra["axis_frequencies"] = Setting("alternating", family.source)
    if (beta := own.number("llama_4_scaling_beta")) and beta.value:
        extra["llama_4_scaling_beta"] = beta
    is_read = scaling == "longrope" and all(map(own.any, MSCALES)) and "attention_factor" not in own
    if is_read and (short := own.number(MSCALES[0])) and (long := own.number(MSCALES[1])):
        extra["mscales"] = Setting(
            Mscales(short.value, long.value), f"{short.source}, {long.source}"
        )
    return extra


def _sections(own: Keys, head: Head, family: Family) -> dict[str, Setting[Any]]:
    """How many frequencies follow time, rows and columns, whether these are interleaved, and in which order they are
    kept: even ones for rows, then odd ones for columns; then those of time, which only Ernie 4.5 VL has."""
    found: dict[str, Setting[Any]] = {}
    section = next(filter(None, map(own.numbers, MROPE)), None)
    if family.order:
        count = head.dim.value // 2
        last = section.value[-1] if section and section.value else 20
        moving = count - int(last) if family.order == "ernie" and 0 <= last <= count else count
        found["order"] = Setting(
            [*range(0, moving, 2), *range(1, moving, 2), *range(moving, count)], ""
        )
    rotary = head.dim.value * (head.partial.value if head.partial else 1)
    if section is None and family.sections and sum(family.sections) == rotary / 2:
        section = Setting([*family.sections], family.source)
    if section is not None:
        mixed = own.flag("mrope_interleaved", "interleaved") or Setting(False, "default")
        own.mark(*(["interleaved"] if own.data.get("interleaved") is mixed.value else []))
        if family.mixed_sections and not mixed.value:
            mixed = Setting(True, family.source)
        found |= {"mrope_section": section, "mrope_interleaved": mixed}
    return found


def _layout(keys: Keys, family: Family) -> Setting[Any]:
    interleave = keys.flag("rope_interleave", "rotary_emb_interleaved", "rope_interleaved")
    latent = "qk_rope_head_dim" in keys
    if interleave is not None:
        return Setting(
            (DEEPSEEK if latent else INTERLEAVED) if interleave.value else HALVES, interleave.source
        )
    if family.name:
        return Setting(family.layout, family.source)
    if latent and "kv_lora_rank" in keys:
        return Setting(DEEPSEEK, "as models with qk_rope_head_dim and kv_lora_rank do")
    return Setting(HALVES, "default")


def _both(winner: Setting[Any], other: Setting[Any]) -> str:
    shown = [
        f"{each:.12g}" if isinstance(each, float) else str(each)[:40]
        for each in (other.value, winner.value)
    ]
    return f"{other.source} is {shown[0]} and {winner.source} is {shown[1]}; {winner.source} wins, as in transformers"


def multiplied_queries(beta: float, length: int) -> str:
    """What is said of queries that are scaled as in Llama 4."""
    return f"queries are multiplied by 1 + {beta:g}·ln(1 + ⌊p/{length}⌋) at position p, outside the table"


def _warn(layer: Layer, encoding: Encoding, head: Head) -> None:
    own, given, warn = layer.own, encoding.parameters, layer.warnings.append
    inner = (
        own.number("rope_theta") if not layer.name else None
    )  # layers of several kinds have their own
    if inner and (outer := layer.keys.number("rope_theta")) and inner.value != outer.value:
        warn(_both(inner, outer))
    new, old = own.word("rope_type"), own.word("type")
    if new and old and KINDS.get(new.value.lower()) != KINDS.get(old.value.lower()):
        warn(_both(new, old))
    if (source := encoding.sources.get("attention_factor", "")).endswith(".attention_factor"):
        said = "final in transformers, dropped by vLLM, ignored by mlx-lm, recomputed by llama.cpp"
        warn(f"{source} is given: {said}")
    if given.get("truncate") is False:
        warn(
            f"{own.full_name('truncate')} is false, which ggml and mlx-lm do not know: their limits are rounded"
        )
    section = encoding.sections.mrope_section
    if section is not None and sum(section) * 2 != encoding.rotary_dim:
        warn(
            f"{own.prefix}mrope_section adds up to {sum(section)}, not to half of {encoding.rotary_dim}"
        )
    beta, original = encoding.llama_4_scaling_beta, given.get(ORIGINAL)
    if beta is not None and original:
        warn(multiplied_queries(beta, original))
    if encoding.order is not None:
        warn(
            "frequencies are stored axis by axis: rows, columns, the rest; a table interleaves them"
        )
    if given.get("mscale_all_dim") and head.latent:
        rope = encoding.frequency_rope()
        assert isinstance(rope.scaling_value, Yarn)
        g = magnitude(rope.scaling_value.divisor(), given["mscale_all_dim"], 64) / 2**64
        said = f"{g * g:.7g} (= {g:.7g}²) outside the table, for mscale_all_dim"
        factor = rope.attention_factor_value()
        warn(
            f"the softmax scale is multiplied by {said}; cos and sin are multiplied by {factor:.7g}"
        )
