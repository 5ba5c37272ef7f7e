"""Configurations of what trains models: litgpt, MaxText, Megatron and NeMo, OLMo, GPT-NeoX, StripedHyena."""

import math
import os
from dataclasses import replace
from typing import Any, cast

from pecli.errors import FileError, quoted
from pecli.models.dialects import huggingface
from pecli.models.dialects.own_code import (
    Settings,
    llama3,
    magnitude,
    named,
    ropes,
    warn_of_softmax,
    with_defaults,
)
from pecli.models.encoding import Encoding
from pecli.models.families import DEEPSEEK, HALVES, INTERLEAVED, Family
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting
from pecli.models.non_rotary import project_rules
from pecli.models.table_rules import AlibiRule, LearnedRule


def _plain(keys: Keys, warnings: list[str]) -> Keys:
    """The same with underscores in all names, which may have hyphens, in front, too."""
    names: dict[str, str] = {}
    for full, value in keys.data.items():
        name = full.lstrip("-").replace("-", "_")
        other = names.get(name, full)
        names[name] = full
        if keys.data[other] != value:
            keys.mark(other)
            both = [
                f"{keys.full_name(each)} is {quoted(keys.data[each])}" for each in (other, full)
            ]
            warnings.append(f"{' and '.join(both)}, which are one key: the last one counts")
    places = {name: keys.full_name(full) for name, full in names.items()}
    return replace(
        keys, data={name: keys.data[full] for name, full in names.items()}, origins=places
    )


def litgpt(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """litgpt's model_config.yaml: a ratio divides the positions, or adjustments are Llama 3.1's or a factor alone."""
    keys = with_defaults(keys, "litgpt's Config")
    settings: Settings = {}
    adjusted, ratio = keys.section("rope_adjustments"), keys.number("rope_condense_ratio")
    if adjusted and adjusted.any("beta_fast", "beta_slow"):
        said = "which litgpt's code blends the other way round: it divides high frequencies and keeps low ones"
        raise FileError(
            keys.path, f"rope_adjustments is YaRN's, {said}", "read the model's own config.json"
        )
    if adjusted:
        kind = "llama3" if "low_freq_factor" in adjusted else "linear"
        names = f"factor low_freq_factor high_freq_factor {ORIGINAL}=original_max_seq_len"
        settings = {"rope_type": Setting(kind, "rope_adjustments"), **named(adjusted, names)}
    elif ratio and ratio.value != 1:
        settings = {"rope_type": Setting("linear", ratio.source), "factor": ratio}
    keys.mark("rope_n_elem", "rope_indices")
    others = named(keys, "partial_rotary_factor=rotary_percentage")
    reads = "n_embd n_head head_size rope_base rope_local_base_freq rope_interleave"
    return ropes(keys, reads, Family("litgpt"), warnings, settings, others)


PARTIALS = {
    "megatron_griffin": 0.5
}  #: Models of NeMo whose code rotates a part of a head where no key says so


def megatron(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Arguments of Megatron and NeMo, in objects of files; other encodings than rope are Hugging Face's."""
    within = keys.part("model") or keys.part("MODEL_ARGS")
    own = _plain(within if within and "num_attention_heads" not in keys else keys, warnings)
    kind = own.word("position_embedding_type")
    if own.is_true("multi_latent_attention"):
        return _latent(own, warnings)
    word = "rope" if own.is_true("use_rotary_position_embeddings") else kind.value if kind else ""
    if word in ("", "learned_absolute"):
        warnings += (
            []
            if word
            else ["position_embedding_type is not given: Megatron then adds a learned table"]
        )
        return LearnedRule(rows=("max_position_embeddings",)).encodings(own)
    if word != "rope":
        return huggingface.read(own, warnings)
    ratio = own.number("rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor")
    settings = llama3(own, "factor=rope_scaling_factor", "use_rope_scaling")
    if ratio and not settings:
        settings = {"rope_type": Setting("linear", ratio.source), "factor": ratio}
    names = "rope_theta=rotary_base rope_interleave=rotary_interleaved"
    others = {
        **named(own, names),
        "partial_rotary_factor": own.number("rotary_percent", "rotary_percentage"),
    }
    family = Family("Megatron", partial=PARTIALS.get(str(keys.data.get("name"))))
    return ropes(
        own, "hidden_size num_attention_heads kv_channels", family, warnings, settings, others
    )


def _latent(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Megatron's latent attention, with YaRN unless it says otherwise."""
    keys = with_defaults(keys, "Megatron's MLATransformerConfig")
    kind, settings = (
        keys.known_kind(keys.needed(keys.word("rope_type"), "rope_type"), "yarn", "rope"),
        Settings(),
    )
    if kind == "yarn":
        names = f"rope_type factor=rotary_scaling_factor {ORIGINAL} beta_fast beta_slow mscale mscale_all_dim"
        settings = named(keys, names)
        factor, mscale, other = map(
            keys.number, ("rotary_scaling_factor", "mscale", "mscale_all_dim")
        )
        ratio = magnitude(factor, mscale) / (magnitude(factor, other) or math.inf)
        settings["attention_factor"] = Setting(
            ratio, "g(mscale) / g(mscale_all_dim), g(m) = 0.1 · m · ln factor + 1"
        )
    others = named(
        keys,
        "rope_theta=rotary_base qk_rope_head_dim=qk_pos_emb_head_dim qk_nope_head_dim=qk_head_dim",
    )
    if kind == "rope":
        others["partial_rotary_factor"] = keys.number("rotary_percent")
    return ropes(keys, "", Family("Megatron", layout=DEEPSEEK), warnings, settings, others)


def maxtext(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """MaxText's configs/models/*.yml, over the defaults of its base.yml. A name that starts with llama3.1 is enough for
    that scaling, whose pairs are interleaved; the name of a model is that of its file."""
    keys = with_defaults(keys, "MaxText's base.yml")
    learned = keys.number("trainable_position_size")
    if learned and learned.value > 0:
        return LearnedRule(rows=("trainable_position_size",), dim=("base_emb_dim",)).encodings(keys)
    kind = keys.needed(keys.word("rope_type"), "rope_type")
    name = str(keys.data.get("model_name") or os.path.basename(keys.path))
    others = named(keys, "rope_theta=rope_max_timescale num_hidden_layers=base_num_decoder_layers")
    local, interval = keys.number("local_rope_max_timescale"), keys.number("nope_layer_interval")
    others["local_rope_theta"] = local if local and local.value > 0 else None
    others["no_rope_layer_interval"] = interval if interval and interval.value > 0 else None
    settings: Settings = {}
    layout, linear = HALVES, keys.number("rope_linear_scaling_factor")
    if kind.value.startswith("llama3.1") or name.startswith("llama3.1"):
        layout, settings = INTERLEAVED, llama3(keys, flag="rope_use_scale")
    elif kind.value.startswith("yarn"):
        interleave = keys.flag("rope_interleave")
        layout = HALVES if interleave and not interleave.value else DEEPSEEK
        factor = keys.number("rope_factor")
        multiplied = (
            magnitude(factor, Setting(1.0, "")) if keys.is_true("rope_attention_scaling") else 1.0
        )
        settings = named(
            keys,
            f"rope_type factor=rope_factor {ORIGINAL} beta_fast beta_slow truncate=rope_truncate",
        )
        settings["attention_factor"] = Setting(
            multiplied, "rope_attention_scaling, which is false by default"
        )
    elif linear and linear.value != 1:
        settings = {"rope_type": Setting("linear", linear.source), "factor": linear}
    if keys.is_true("use_mrope"):
        settings |= {
            "mrope_section": keys.numbers("mrope_section"),
            "mrope_interleaved": Setting(True, "use_mrope"),
        }
    is_latent = keys.data.get("attention_type") == "mla"
    if is_latent and (mscale := keys.number("mscale")):
        warn_of_softmax(keys.number("rope_factor"), mscale, warnings)
    reads = "qk_rope_head_dim qk_nope_head_dim" if is_latent else "head_dim partial_rotary_factor"
    family = Family(
        "MaxText", layout=layout, scales_all_layers=keys.data.get("decoder_block") != "gemma3"
    )
    return ropes(keys, reads, family, warnings, settings, others)


def stripedhyena(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """StripedHyena's and Evo's YAML: some of the layers attend, with positions divided where it says so."""
    ratio = (
        keys.number("rotary_emb_scaling_factor")
        if keys.is_true("use_interpolated_rotary_pos_emb")
        else None
    )
    settings: Settings = (
        {"rope_type": Setting("linear", ratio.source), "factor": ratio} if ratio else {}
    )
    return ropes(
        keys,
        "hidden_size num_attention_heads rotary_emb_base",
        Family("StripedHyena"),
        warnings,
        settings,
    )


def olmo(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """OLMo's own configurations (config.yaml, or JSON), which that of a training run has in `model`: `rope: true`,
    `alibi: true`, else a learned table."""
    own = keys if "d_model" in keys else keys.part("model") or keys
    if own.is_true("rope"):
        return ropes(own, "d_model n_heads rope_theta", Family("OLMo's code"), warnings, {})
    if own.is_true("alibi"):
        return AlibiRule(rule="naive").encodings(own)
    warnings.append("neither rope nor alibi is true: OLMo's code then adds a learned table")
    return LearnedRule(rows=("max_sequence_length",), dim=("d_model",)).encodings(
        with_defaults(own, "OLMo's ModelConfig")
    )


OLMO_SCALINGS = {
    "PIRoPEScalingConfig": ("linear", "factor"),
    "YaRNRoPEScalingConfig": ("yarn", f"factor beta_fast beta_slow {ORIGINAL}=old_context_len"),
    "StepwiseRoPEScalingConfig": ("llama3", f"factor {ORIGINAL}=old_context_len"),
    "ABFRoPEScalingConfig": ("default", "rope_theta=new_theta"),
}  #: Scalings of OLMo-core: what they are called by Hugging Face, and their names there


def olmo_core(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """OLMo-core's config.json: a block whose attention has `rope`, an object."""
    own = keys if "d_model" in keys else keys.part("model") or keys
    block = own.part("block") or own
    attention = block.part("attention") or block.part("sequence_mixer") or block
    rope = attention.part("rope")
    if rope is None:
        warnings.append(
            "the block of the model has no rope, and OLMo-core has no other positional encoding"
        )
        return []
    rope, scaling, settings = (
        with_defaults(rope, "OLMo-core's RoPEConfig"),
        rope.part("scaling"),
        Settings(),
    )
    if scaling and (kind := scaling.word("_CLASS_", "type")):
        name = keys.known_kind(replace(kind, value=kind.value.rpartition(".")[2]), *OLMO_SCALINGS)
        word, names = OLMO_SCALINGS[name]
        scaling = with_defaults(scaling, name)
        settings = {"rope_type": Setting(word, kind.source), **named(scaling, names)}
        if scaling.data.get("attention_rescale_factor") == 1:  # others are named as unread
            scaling.mark("attention_rescale_factor")
        low, high = scaling.number("low_freq_proportion"), scaling.number("high_freq_proportion")
        if low and high and low.value < 1 and high.value:
            settings["low_freq_factor"] = Setting(1 / (1 - low.value), f"1 / (1 − {low.source})")
            settings["high_freq_factor"] = Setting(1 / high.value, f"1 / {high.source}")
    for part, name in ((own, "block_overrides"), (rope, "no_global_rope")):
        if part.data.get(name):
            part.mark(name)
            warnings.append(
                f"{part.full_name(name)} is given: layers differ, and only those of `block` are described"
            )
    rope.mark("full_precision", "_CLASS_")
    others = {
        **named(rope, "rope_theta=theta partial_rotary_factor"),
        **named(attention, "n_heads head_dim"),
    }
    layout, width = rope.word("name"), own.whole("d_model")
    family = Family(
        "OLMo-core", layout=INTERLEAVED if layout and layout.value == "complex" else HALVES
    )
    return ropes(own, "", family, warnings, settings, {**others, "hidden_size": width})


NEOX = project_rules("gpt-neox")


def neox(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """GPT-NeoX's own configurations (YAML): `pos_emb`, with hyphens or underscores in all names."""
    keys = _plain(keys, warnings)
    given = keys.word("pos_emb") or Setting("learned", "default of GPT-NeoX")
    kind = keys.known_kind(given, *NEOX, "rotary", "none")
    if kind == "rotary":
        reads = "hidden_size num_attention_heads rotary_emb_base rotary_pct"
        return ropes(keys, reads, Family("GPT-NeoX"), warnings, {})
    if kind == "none":
        warnings.append(f"{given.source} is none: the model has no positional encoding")
        return []
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    offset = keys.whole("opt_pos_emb_offset", low=0)
    return replace(
        NEOX[kind], **cast(Any, {"more": offset.value} if offset and kind == "learned" else {})
    ).encodings(keys)
