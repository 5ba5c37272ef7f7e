"""Configurations that projects write for their own code: each is brought into Hugging Face's spelling, together with
what its code defaults to where keys are left out."""

import math
import re
from dataclasses import replace
from typing import Any

from pecli.models.data import stored
from pecli.models.dialects import huggingface
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES, INTERLEAVED, Family
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import NO_CLASS, Account, ClassDefaults, Keys, Setting
from pecli.models.non_rotary import project_rules
from pecli.models.rope import rope_encodings
from pecli.models.rope_warnings import multiplied_queries

Settings = dict[str, Setting[Any] | None]


def ropes(
    keys: Keys,
    reads: str,
    family: Family,
    warnings: list[str],
    settings: Settings,
    others: Settings | None = None,
) -> list[Encoding]:
    """Rotary encodings by the names that the project's code reads as Hugging Face does, and by others translated."""
    known = {name: keys.data[name] for name in reads.split() if name in keys.data}
    keys.account.looked_for.update(reads.split())
    implied = {name: keys.value(name) for name in reads.split() if name not in keys}
    own = replace(keys, data=known, account=Account(keys.account.read), defaults=NO_CLASS)
    found, more = rope_encodings(own.translated(settings, {**implied, **(others or {})}), family)
    warnings += more
    return found


def named(keys: Keys, names: str) -> Settings:
    """Settings of Hugging Face's by the names that a project has for them, whose kinds are checked where they are
    used: `factor=rope_factor` or `factor=rope_factor,scale`, or one word where the names are the same."""
    pairs = (name.split("=") for name in names.split())
    return {pair[0]: keys.value(*pair[-1].split(",")) for pair in pairs}


def with_defaults(keys: Keys, name: str) -> Keys:
    """The same with the defaults of a class, as defaults.json has them."""
    return replace(keys, defaults=ClassDefaults(name, stored("dialects/defaults.json")[name]))


NANOTRON = re.compile(r"is_(\w+)_config")


def mlc(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """MLC's mlc-chat-config.json: a configuration of Hugging Face in `model_config`, with a base of its own name; or
    nanotron's, whose `is_llama_config` says what it is of, and whose code knows no other positional encoding."""
    outer = keys.part("model") or keys
    own = outer.part("model_config") or keys
    given = own.data.get("position_embedding_base")  # which counts as read where its value is taken
    theta = (
        Setting(given, own.full_name("position_embedding_base")) if given else None
    )  # 0 stands for none
    model_type = None if "model_type" in own else keys.word("model_type")
    if said := next(
        (name for name, value in own.data.items() if NANOTRON.fullmatch(name) and value is True),
        None,
    ):
        model_type = Setting(NANOTRON.sub(r"\1", said), own.full_name(said))
        theta = theta or own.number("rope_theta") or Setting(10000.0, "default of nanotron")
    others = {"rope_theta": theta, "rotary_emb_base": theta, "model_type": model_type}
    return huggingface.read(own.translated({}, others), warnings)


def gpt_oss(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """OpenAI's own config.json of gpt-oss: YaRN with its limits unrounded, from `initial_context_length`."""
    keys = with_defaults(keys, "gpt-oss's ModelConfig")
    family = Family("gpt-oss's code", theta=150000.0)
    factor = keys.number("rope_scaling_factor")
    names = f"factor=rope_scaling_factor {ORIGINAL}=initial_context_length "
    settings = named(keys, names + "beta_fast=rope_ntk_beta beta_slow=rope_ntk_alpha")
    settings["rope_type"] = Setting("yarn", "as in gpt-oss's code")
    settings["truncate"] = Setting(False, "truncate of gpt-oss's code")
    reads = "hidden_size num_attention_heads head_dim rope_theta"
    return ropes(keys, reads, family, warnings, settings if factor and factor.value > 1 else {})


def magnitude(factor: Setting[Any] | None, mscale: Setting[Any] | None) -> float:
    """YaRN's 0.1 · m · ln f + 1; 1 where one is missing, or where nothing is stretched."""
    if factor is None or mscale is None or factor.value <= 1:
        return 1.0
    return float(0.1 * mscale.value * math.log(factor.value) + 1)


def warn_of_softmax(
    factor: Setting[Any] | None, mscale: Setting[Any] | None, warnings: list[str]
) -> None:
    """Scores that are multiplied outside the table."""
    if (g := magnitude(factor, mscale)) != 1:
        warnings.append(
            f"the softmax scale is multiplied by {g * g:.7g} (= {g:.7g}²) outside the table, for mscale"
        )


def deepseek(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """DeepSeek's own inference configurations: YaRN by default, once the context exceeds the original one. Cos and sin
    are not multiplied by anything, the softmax scale is."""
    keys = with_defaults(keys, "DeepSeek's ModelArgs")
    length = keys.needed(keys.whole("max_seq_len"), "max_seq_len")
    original = keys.needed(keys.whole("original_seq_len"), "original_seq_len")
    factor, mscale = keys.number("rope_factor"), keys.number("mscale")
    settings: Settings = {}
    if length.value > original.value:
        settings = named(
            keys, f"factor=rope_factor {ORIGINAL}=original_seq_len beta_fast beta_slow"
        )
        said = f"{length.source}: {length.value} exceeds {original.value} ({original.source})"
        settings["rope_type"] = Setting("yarn", said)
        settings["attention_factor"] = Setting(
            1.0, "DeepSeek's code leaves cos and sin as they are"
        )
        warn_of_softmax(factor, mscale, warnings)
    if keys.any("index_n_heads", "index_head_dim"):
        warnings.append(
            "queries and keys of the indexer rotate halves, not pairs, by the same frequencies"
        )
    family = Family("DeepSeek's inference code", layout=INTERLEAVED)
    return ropes(keys, "qk_rope_head_dim qk_nope_head_dim rope_theta", family, warnings, settings)


def deepseek4(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """DeepSeek-V4's own: the last channels of a head rotate; layers that compress have YaRN, and a base for it."""
    names = f"factor=rope_factor {ORIGINAL}=original_seq_len beta_fast beta_slow"
    settings = {"rope_type": Setting("yarn", "as in DeepSeek-V4's code"), **named(keys, names)}
    family = Family("DeepSeek-V4's code", layout=INTERLEAVED, trailing=True)
    reads, others = (
        "head_dim rope_theta compress_rope_theta",
        named(keys, "qk_rope_head_dim=rope_head_dim"),
    )
    return ropes(keys, reads, family, warnings, settings, others)


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
"""What `use_scaled_rope` stands for in Meta's code; the factor may be given."""


def llama3(keys: Keys, names: str = "", flag: str = "use_scaled_rope") -> Settings:
    """Llama 3.1's scaling where a flag asks for it; some of its numbers may be given by names."""
    if not keys.is_true(flag):
        return {}
    source, given = keys.full_name(flag), named(keys, names)
    found = {name: given.get(name) or Setting(value, source) for name, value in LLAMA3.items()}
    return {"rope_type": Setting("llama3", source), **found}


TOWERS = {"vision_encoder": "pixtral", "vision_args": "llama4_vision_model"}
"""Objects of params.json that hold a tower for images, and its model_type in transformers."""


def meta(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Meta's and Mistral's own params.json: `dim`, `n_heads`, pairs interleaved; Mistral's `yarn`, whose alpha and beta
    are the slow and the fast limit. Lingua's YAML has the same in `model`."""
    keys = keys if "dim" in keys else keys.part("model") or keys
    settings = llama3(
        keys, "factor=rope_scale_factor,rope_scaling_factor high_freq_factor=rope_high_freq_factor"
    )
    if yarn := keys.section("yarn"):
        settings = named(yarn, f"factor {ORIGINAL} beta_fast=beta beta_slow=alpha")
        settings["rope_type"] = Setting("yarn", "yarn")
        if (applies := yarn.flag("apply_scale")) and not applies.value:
            settings["attention_factor"] = Setting(1.0, "yarn.apply_scale is false")
    others = {
        "no_rope_layer_interval": keys.whole("nope_layer_interval"),
        "num_hidden_layers": keys.whole("n_layers"),
    }
    family = Family("the code that params.json is for", layout=INTERLEAVED)
    reads = "dim n_heads head_dim rope_theta qk_rope_head_dim qk_nope_head_dim vision_chunk_size "
    reads += "attn_temperature_tuning attn_scale floor_scale"
    found = ropes(keys, reads, family, warnings, settings, others)
    tuned = keys.section("llama_4_scaling")
    if tuned and (beta := tuned.number("beta")):
        warnings.append(
            multiplied_queries(beta.value, tuned.needed(tuned.whole(ORIGINAL), ORIGINAL).value)
        )
        found = [replace(each, llama_4_scaling_beta=beta.value) for each in found]
    for name, model_type in TOWERS.items():
        if inner := keys.part(name):
            data = {"vision_config": {"model_type": model_type, **inner.data}}
            towers = huggingface.read(
                replace(keys, data=data, origins={"vision_config": name}), warnings
            )
            found += [replace(each, layout=each.layout and INTERLEAVED) for each in towers]
    return found


def executorch(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """executorch's configurations of its Llama code: Meta's keys, and what other models need beside them."""
    halves = keys.flag("use_hf_rope")
    interleave = halves and Setting(not halves.value, halves.source)
    reads = "dim n_heads head_dim rope_theta rope_freq_base local_rope_theta no_rope_layer_interval"
    if halves is not None and halves.value:
        short, long = (
            keys.numbers("rope_scaling_short_factor"),
            keys.numbers("rope_scaling_long_factor"),
        )
        settings: Settings = {
            "rope_type": Setting("longrope", "rope_scaling_short_factor, rope_scaling_long_factor"),
            "short_factor": short or long,
            "long_factor": long or short,
            "attention_factor": keys.number("rope_scaling_attention_factor"),
        }
        settings = settings if short or long else {}
        reads += f" partial_rotary_factor max_position_embeddings {ORIGINAL}"
    else:
        settings = llama3(keys, "factor=rope_scale_factor high_freq_factor")
    family = Family("executorch's code", layout=INTERLEAVED, scales_all_layers=True)
    others = {"num_hidden_layers": keys.whole("n_layers"), "rope_interleave": interleave}
    return ropes(keys, reads, family, warnings, settings, others)


TENSORRT = {
    "rope_gptj": INTERLEAVED,
    "chatglm": INTERLEAVED,
}  #: Layouts of its types of positions; others are halves
TENSORRT |= dict.fromkeys(("rope_gpt_neox", "yarn", "long_rope", "mrope"), HALVES)


def tensorrt(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """TensorRT-LLM's config.json, that of an engine in `pretrained_config`."""
    own = keys.part("pretrained_config") or keys
    others = project_rules("tensorrt-llm")
    said = own.needed(own.word("position_embedding_type"), "position_embedding_type")
    if (kind := keys.known_kind(said, *TENSORRT, *others)) in others:
        return others[kind].encodings(own)
    names = "rope_theta=rotary_base rope_scaling=rotary_scaling partial_rotary_factor=rotary_pct head_dim=head_size"
    reads = "hidden_size num_attention_heads max_position_embeddings qk_rope_head_dim qk_nope_head_dim rotary_dim "
    return ropes(
        own,
        reads + ORIGINAL,
        Family("TensorRT-LLM", layout=TENSORRT[kind]),
        warnings,
        {},
        named(own, names),
    )


def moshi(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Kyutai's configurations of Moshi and its relatives, and of their depth transformers, whose keys have a prefix:
    `positional_embedding` with `max_period` as the base."""
    prefix = "depformer_"
    names = {name.removeprefix(prefix): name for name in keys.data if name.startswith(prefix)}
    inner = replace(
        keys, data={name: keys.data[full] for name, full in names.items()}, origins=names
    )
    parts = {
        "": (
            keys,
            keys.word("positional_embedding") or Setting("sin", "default of moshi's transformer"),
        )
    }
    if "positional_embedding" not in keys:
        warnings.append(
            "positional_embedding is not given: moshi's transformer then adds sines and cosines"
        )
    if inside := inner.word("pos_emb", "positional_embedding"):
        parts["depformer"] = inner, inside
    found: list[Encoding] = []
    for name, (own, given) in parts.items():
        kind = keys.known_kind(given, "rope", "sin_rope", "rope_concat", "sin", "none")
        base, interleave = own.number("max_period"), Setting(kind != "rope_concat", given.source)
        others: Settings = {"rope_theta": base, "rope_interleave": interleave}
        made = ropes(own, "dim num_heads", Family(), warnings, {}, others) if "rope" in kind else []
        if kind.startswith("sin"):
            made += project_rules("moshi")["sin"].encodings(
                with_defaults(own, "moshi's transformer")
            )
        found += [replace(each, layer_type=name, part=name) for each in made]
    if not found:
        warnings.append(
            f"{parts[''][1].source} is {parts[''][1].value}: the model has no positional encoding"
        )
    return found
