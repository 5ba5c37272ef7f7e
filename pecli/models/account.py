"""The account of keys: what looks like positions and was read by nobody is named, with the nearest key that is known;
and settings that do not fit one another are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pecli.errors import nearest, quoted
from pecli.models.encoding import Encoding
from pecli.models.values import Keys

POSITIONS = re.compile(
    r"rope|rotary|theta|position|pos_?emb|pos_embed|alibi|freq|yarn|mscale|scaling|(attn|attention)_factor|max_period"
    r"|ntk|sinusoid|rel_pos|relative|wavelen|no_?pe_"
)
"""What names of keys about positions have in them."""
_OTHER_MATTERS = """
    moe_layer_freq expert_layer_freq layer_freq routed_scaling_factor moe_routed_scaling_factor router_scaling_factor
    logits_scaling lm_head_scaling apply_query_key_layer_scaling embedding_scaling loss_scaling lora_scaling
    cross_attention_freq sampling_frequency frequency_penalty log_freq save_freq eval_freq checkpoint_freq
    num_frequency_bins freq_mask spec_augment_freq mask_freq_prob scaling_attention_heads gradient_scaling
    softmax_scaling query_pre_attn_scaling mup_scaling scaling_factor_of_vae vae_scaling_factor
    flash_rotary rotary_triton use_flash_rotary rope_fusion fused_rope use_fused_rope apply_rope_fusion
    position_ids return_position_ids
"""
OTHER_MATTERS = frozenset(_OTHER_MATTERS.split())
"""Names of keys that look like positions and are about something else, or about how a kernel computes."""
OPAQUE = frozenset(("quantization_config", "compression_config", "generation_config", "auto_map", "optimizer"))
"""Objects whose keys are about something else."""
SWITCH = re.compile(r"(use|apply|with|enable|has)?_?(rope|rotary|alibi)(_?(pos|position|positional))?(_?emb\w*)?")
"""Keys that turn an encoding on or off: false is a statement of theirs."""
MAX_NAMED, MAX_DEPTH = 16, 8


class Unread(NamedTuple):
    """A key that nobody read."""

    section: str
    name: str
    value: Any


def looks_like_positions(name: str) -> bool:
    """Whether a key seems to be about positions, by its name.

    >>> looks_like_positions("attn_factor"), looks_like_positions("moe_layer_freq"), looks_like_positions("use_fope")
    (True, False, True)
    """
    plain = name.lower().replace("-", "_")
    return plain not in OTHER_MATTERS and (POSITIONS.search(plain) is not None or "fope" in plain)


def unread_keys(keys: Keys, harmless: frozenset[str], schemes: Collection[str]) -> list[str]:
    """Warnings about keys of a whole file that nobody read, although they look like positions."""
    known = sorted(name for name in keys.account.asked if looks_like_positions(name))
    plain: dict[str, list[str]] = {}
    warnings = []
    unread = _unread(keys.data, keys, "", MAX_DEPTH)
    found = [each for each in unread if each.name not in harmless and not _is_true_switch(each, schemes)]
    for each in found[:MAX_NAMED]:
        full = each.section + each.name
        if full in keys.account.ignored:
            warnings.append(f"{full} is {quoted(each.value)}, which the code of {keys.account.ignored[full]} ignores")
            continue
        advice = nearest(each.name, [name for name in known if name != each.name])
        if advice:
            said = f"{each.section}{each.name[:60]} is {quoted(each.value)}, and nothing here reads it"
            warnings.append(f"{said}: {advice}")
        else:
            plain.setdefault(each.section, []).append(f"{each.name[:60]} ({quoted(each.value)})")
    for section, names in plain.items():
        where = f"{section.rstrip('.')} has" if section else "it has"
        warnings.append(f"{where} {', '.join(names)}, which nothing here reads")
    if len(found) > MAX_NAMED:
        warnings.append(f"{len(found) - MAX_NAMED} more keys look like positions, and nothing here reads them")
    return warnings


def _unread(data: Mapping[str, Any], keys: Keys, section: str, depth: int, *, within: bool = False) -> Iterator[Unread]:
    """Keys that nobody read; of settings for positions all keys count, whatever their names."""
    for name, value in data.items():
        full = section + name
        counts = (within and not name.startswith("_")) or looks_like_positions(name)
        is_used = full in keys.account.used
        if isinstance(value, Mapping) and value and (is_used or not counts):
            if depth and name not in OPAQUE:
                yield from _unread(value, keys, f"{full}.", depth - 1, within=counts)
        elif counts and not is_used and _says_something(name, value):
            yield Unread(section, name, value)


def _is_true_switch(key: Unread, schemes: Collection[str]) -> bool:
    """Whether a key turns on what was found, or off what was not."""
    switch = SWITCH.fullmatch(key.name.lower().replace("-", "_"))
    return switch is not None and key.value is (("alibi" if switch[2] == "alibi" else "rope") in schemes)


def _says_something(name: str, value: Any) -> bool:
    if value is False:
        return SWITCH.fullmatch(name.lower().replace("-", "_")) is not None
    return value is not None and value not in ("", [], {}, ())


LLAMA3_BASE, LLAMA3_CONTEXT = 500000.0, 131072


def inconsistencies(
    encodings: Sequence[Encoding], context: int | None, model_type: str | None, checked: str = "max_position_embeddings"
) -> Iterator[str]:
    """Settings that do not fit one another, or that leave out what they seem to need."""
    for encoding in encodings:
        given = encoding.parameters
        if not encoding.is_rotary or encoding.part or context is None:
            continue
        scaling, factor = given["scaling"], given.get("factor")
        original = given.get("original_max_position_embeddings")
        if scaling in ("yarn", "longrope") and factor and original and round(factor * original) != context:
            source = encoding.sources.get("factor", "factor")
            yield (
                f"{source} {factor:g} × {original} positions make {factor * original:.12g}, but the model says "
                f"{context} ({checked}): check which of them is meant"
            )
        if scaling == "none" and given["base"] == LLAMA3_BASE and context == LLAMA3_CONTEXT and model_type == "llama":
            yield (
                f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but its scaling (llama3, "
                "factor 8) is not given: rope_scaling may have been lost"
            )
