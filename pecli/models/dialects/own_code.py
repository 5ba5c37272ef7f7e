"""Configurations that projects write for their own code: each is brought into Hugging Face's spelling, together with
what its code defaults to where keys are left out.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pecli.errors import FileError
from pecli.models.dialects import huggingface
from pecli.models.encoding import Encoding
from pecli.models.families import INTERLEAVED, Family
from pecli.models.keys import Account, ClassDefaults, Keys, Value
from pecli.models.non_rotary import Biased, Kind, Learned, RelativeBuckets, Sinusoidal
from pecli.models.rope import ORIGINAL, multiplied_queries, rope_encodings

Settings = dict[str, Value | None]


def _ropes(
    keys: Keys, reads: str, family: Family, warnings: list[str], settings: Settings, others: Settings | None = None
) -> list[Encoding]:
    """Rotary encodings by the names that the project's code reads as Hugging Face does, and by others translated."""
    known = {name: keys.data[name] for name in reads.split() if name in keys.data}
    keys.account.asked.update(reads.split())
    own = replace(keys, data=known, account=Account(keys.account.used))
    return rope_encodings(own.translated(settings, others), family, warnings)


def _named(keys: Keys, names: str) -> Settings:
    """Settings of Hugging Face's by the names that a project has for them, whose kinds are checked where they are
    used: `factor=rope_factor`, or one word where the names are the same."""
    pairs = (name.split("=") for name in names.split())
    return {pair[0]: keys.value(pair[-1]) for pair in pairs}


def mlc(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """MLC's mlc-chat-config.json: a configuration of Hugging Face in `model_config`, with a base of its own name."""
    own = keys.part("model_config") or keys
    given = own.data.get("position_embedding_base")  # which counts as read where its value is taken
    theta = Value(given, own.full_name("position_embedding_base")) if given else None  # 0 stands for none
    model_type = None if "model_type" in own else keys.word("model_type")
    others = {"rope_theta": theta, "rotary_emb_base": theta, "model_type": model_type}
    return huggingface.read(own.translated({}, others), warnings)


GPT_OSS = {"rope_scaling_factor": 32.0, "initial_context_length": 4096, "rope_ntk_beta": 32.0, "rope_ntk_alpha": 1.0}


def gpt_oss(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """OpenAI's own config.json of gpt-oss: YaRN with its limits unrounded, from `initial_context_length`."""
    keys = replace(keys, defaults=ClassDefaults("gpt-oss's ModelConfig", GPT_OSS))
    family = Family("gpt-oss's code", theta=150000.0)
    factor = keys.number("rope_scaling_factor")
    names = f"factor=rope_scaling_factor {ORIGINAL}=initial_context_length "
    settings: Settings = {
        "rope_type": Value("yarn", "as in gpt-oss's code"),
        "truncate": Value(False, "truncate of gpt-oss's code"),
        **_named(keys, names + "beta_fast=rope_ntk_beta beta_slow=rope_ntk_alpha"),
    }
    reads = "hidden_size num_attention_heads head_dim rope_theta"
    return _ropes(keys, reads, family, warnings, settings if factor and factor.value > 1 else {})


DEEPSEEK = {
    **{"max_seq_len": 16384, "original_seq_len": 4096, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128},
    **{"rope_factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0},
}


def deepseek(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """DeepSeek's own inference configurations: YaRN by default, once the context exceeds the original one. Cos and sin
    are not multiplied by anything, the softmax scale is."""
    keys = replace(keys, defaults=ClassDefaults("DeepSeek's ModelArgs", DEEPSEEK))
    length = keys.needed(keys.whole("max_seq_len"), "max_seq_len")
    original = keys.needed(keys.whole("original_seq_len"), "original_seq_len")
    factor, mscale = keys.number("rope_factor"), keys.number("mscale")
    settings: Settings = {}
    if length.value > original.value:
        settings = {
            "rope_type": Value("yarn", f"{length.source}: {length.value} exceeds {original.value} ({original.source})"),
            "attention_factor": Value(1.0, "DeepSeek's code leaves cos and sin as they are"),
            **_named(keys, f"factor=rope_factor {ORIGINAL}=original_seq_len beta_fast beta_slow"),
        }
        if factor and mscale and factor.value > 0:
            g = 0.1 * mscale.value * math.log(factor.value) + 1
            warnings.append(
                f"the softmax scale is multiplied by {g * g:.7g} (= {g:.7g}²) outside the table, for mscale"
            )
    if keys.any("index_n_heads", "index_head_dim"):
        warnings.append("queries and keys of the indexer rotate halves, not pairs, by the same frequencies")
    family = Family("DeepSeek's inference code", layout=INTERLEAVED)
    return _ropes(keys, "qk_rope_head_dim qk_nope_head_dim rope_theta", family, warnings, settings)


def deepseek4(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """DeepSeek-V4's own: the last channels of a head rotate; layers that compress have YaRN, and a base for it."""
    names = f"factor=rope_factor {ORIGINAL}=original_seq_len beta_fast beta_slow"
    settings = {"rope_type": Value("yarn", "as in DeepSeek-V4's code"), **_named(keys, names)}
    family = Family("DeepSeek-V4's code", layout=INTERLEAVED, trailing=True)
    reads, others = "head_dim rope_theta compress_rope_theta", _named(keys, "qk_rope_head_dim=rope_head_dim")
    return _ropes(keys, reads, family, warnings, settings, others)


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
"""What `use_scaled_rope` stands for in Meta's code; the factor may be given."""


def _llama3(keys: Keys, flag: str = "use_scaled_rope", **given: Value | None) -> Settings:
    """Llama 3.1's scaling where a flag asks for it; some of its numbers may be given."""
    if not keys.is_true(flag):
        return {}
    source = keys.full_name(flag)
    found = {name: given.get(name) or Value(value, source) for name, value in LLAMA3.items()}
    return {"rope_type": Value("llama3", source), **found}


TOWERS = {"vision_encoder": "pixtral", "vision_args": "llama4_vision_model"}
"""Objects of params.json that hold a tower for images, and its model_type in transformers."""


def meta(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Meta's and Mistral's own params.json: `dim`, `n_heads`, pairs interleaved; Mistral's `yarn`, whose alpha and beta
    are the slow and the fast limit."""
    factor, high = keys.number("rope_scale_factor", "rope_scaling_factor"), keys.number("rope_high_freq_factor")
    settings = _llama3(keys, factor=factor, high_freq_factor=high)
    if yarn := keys.section("yarn"):
        applies = yarn.flag("apply_scale")
        settings = {
            "rope_type": Value("yarn", "yarn"),
            "attention_factor": Value(1.0, "yarn.apply_scale is false") if applies and not applies.value else None,
            **_named(yarn, f"factor {ORIGINAL} beta_fast=beta beta_slow=alpha"),
        }
    others = {"no_rope_layer_interval": keys.whole("nope_layer_interval"), "num_hidden_layers": keys.whole("n_layers")}
    family = Family("the code that params.json is for", layout=INTERLEAVED)
    reads = "dim n_heads head_dim rope_theta qk_rope_head_dim qk_nope_head_dim vision_chunk_size "
    reads += "attn_temperature_tuning attn_scale floor_scale"
    found = _ropes(keys, reads, family, warnings, settings, others)
    tuned = keys.section("llama_4_scaling")
    if tuned and (beta := tuned.number("beta")):
        length = tuned.needed(tuned.whole(ORIGINAL), ORIGINAL).value
        warnings.append(multiplied_queries(beta.value, length))
        found = [replace(each, extra={**each.extra, "llama_4_scaling_beta": beta.value}) for each in found]
    for name, model_type in TOWERS.items():
        if inner := keys.part(name):
            data = {"vision_config": {"model_type": model_type, **inner.data}}
            towers = huggingface.read(replace(keys, data=data, elsewhere={"vision_config": name}), warnings)
            found += [replace(each, layout=each.layout and INTERLEAVED) for each in towers]
    return found


def executorch(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """executorch's configurations of its Llama code: Meta's keys, and what other models need beside them."""
    halves = keys.flag("use_hf_rope")
    interleave = halves and Value(not halves.value, halves.source)
    reads = "dim n_heads head_dim rope_theta rope_freq_base local_rope_theta no_rope_layer_interval"
    if halves is not None and halves.value:
        short, long = keys.numbers("rope_scaling_short_factor"), keys.numbers("rope_scaling_long_factor")
        settings: Settings = {
            "rope_type": Value("longrope", "rope_scaling_short_factor, rope_scaling_long_factor"),
            "short_factor": short or long,
            "long_factor": long or short,
            "attention_factor": keys.number("rope_scaling_attention_factor"),
        }
        settings = settings if short or long else {}
        reads += f" partial_rotary_factor max_position_embeddings {ORIGINAL}"
    else:
        factor, high = keys.number("rope_scale_factor"), keys.number("high_freq_factor")
        settings = _llama3(keys, factor=factor, high_freq_factor=high)
    family = Family("executorch's code", layout=INTERLEAVED, scales_all_layers=True)
    others = {"num_hidden_layers": keys.whole("n_layers"), "rope_interleave": interleave}
    return _ropes(keys, reads, family, warnings, settings, others)


def litgpt(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """litgpt's model_config.yaml: a ratio divides the positions, or adjustments are Llama 3.1's or a factor alone."""
    keys = replace(keys, defaults=ClassDefaults("litgpt's Config", {"rotary_percentage": 0.25}))
    settings: Settings = {}
    adjusted, ratio = keys.section("rope_adjustments"), keys.number("rope_condense_ratio")
    if adjusted and not adjusted.any("beta_fast", "beta_slow"):
        kind = "llama3" if "low_freq_factor" in adjusted else "linear"
        names = f"factor low_freq_factor high_freq_factor {ORIGINAL}=original_max_seq_len"
        settings = {"rope_type": Value(kind, "rope_adjustments"), **_named(adjusted, names)}
    elif ratio and ratio.value != 1:
        settings = {"rope_type": Value("linear", ratio.source), "factor": ratio}
    keys.mark("rope_n_elem", "rope_indices")
    others = _named(keys, "partial_rotary_factor=rotary_percentage")
    reads = "n_embd n_head head_size rope_base rope_local_base_freq rope_interleave"
    return _ropes(keys, reads, Family("litgpt"), warnings, settings, others)


def megatron(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Arguments of Megatron and NeMo, whose files have them in `model`; other encodings than rope as Hugging Face's."""
    own = keys if "num_attention_heads" in keys else keys.part("model") or keys
    kind = own.word("position_embedding_type")
    if kind is None or kind.value != "rope" or own.is_true("multi_latent_attention"):
        return huggingface.read(own, warnings)
    ratio = own.number("rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor")
    settings = _llama3(own, "use_rope_scaling", factor=own.number("rope_scaling_factor"))
    if ratio and not settings:
        settings = {"rope_type": Value("linear", ratio.source), "factor": ratio}
    names = "rope_theta=rotary_base rope_interleave=rotary_interleaved"
    others = {**_named(own, names), "partial_rotary_factor": own.number("rotary_percent", "rotary_percentage")}
    return _ropes(own, "hidden_size num_attention_heads kv_channels", Family("Megatron"), warnings, settings, others)


def _known(keys: Keys, kind: Value, *kinds: str) -> str:
    if kind.value not in kinds:
        raise FileError(keys.path, f"{kind.source} is {kind.value[:40]!r}", f"known are {', '.join(kinds)}")
    return str(kind.value)


MOSHI_SINES = Sinusoidal(
    style="tensor2tensor",
    cos_first=True,
    rows=("context",),
    dim=("dim",),
    base=("max_period",),
    amplitude=("positional_scale",),
)


def moshi(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """Kyutai's configurations of Moshi and its relatives, and of their depth transformers, whose keys have a prefix:
    `positional_embedding` with `max_period` as the base."""
    prefix = "depformer_"
    names = {name.removeprefix(prefix): name for name in keys.data if name.startswith(prefix)}
    inner = replace(keys, data={name: keys.data[full] for name, full in names.items()}, elsewhere=names)
    parts = {"": (keys, keys.word("positional_embedding") or Value("sin", "default of moshi's transformer"))}
    if "positional_embedding" not in keys:
        warnings.append("positional_embedding is not given: moshi's transformer then adds sines and cosines")
    if inside := inner.word("pos_emb", "positional_embedding"):
        parts["depformer"] = inner, inside
    found: list[Encoding] = []
    for name, (own, given) in parts.items():
        kind = _known(keys, given, "rope", "sin_rope", "rope_concat", "sin", "none")
        base, interleave = own.number("max_period"), Value(kind != "rope_concat", given.source)
        others: Settings = {"rope_theta": base, "rope_interleave": interleave}
        made = _ropes(own, "dim num_heads", Family(), warnings, {}, others) if "rope" in kind else []
        if kind.startswith("sin"):
            rows = replace(own, defaults=ClassDefaults("moshi's transformer", {"context": 3000}))
            made += MOSHI_SINES.encodings(rows)
        found += [replace(each, layer_type=name, part=name) for each in made]
    if not found:
        warnings.append(f"{parts[''][1].source} is {parts[''][1].value}: the model has no positional encoding")
    return found


def olmo(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """OLMo's own configurations (config.yaml, or JSON), which that of a training run has in `model`: `rope: true`,
    `alibi: true`, else a learned table."""
    own = keys if "d_model" in keys else keys.part("model") or keys
    if own.is_true("rope"):
        return _ropes(own, "d_model n_heads rope_theta", Family("OLMo's code"), warnings, {})
    if own.is_true("alibi"):
        return Biased(rule="naive").encodings(own)
    warnings.append("neither rope nor alibi is true: OLMo's code then adds a learned table")
    own = replace(own, defaults=ClassDefaults("OLMo's ModelConfig", {"max_sequence_length": 1024}))
    return Learned(rows=("max_sequence_length",), dim=("d_model",)).encodings(own)


NEOX_ROWS = ("max_position_embeddings", "seq_length")
NEOX: dict[str, Kind] = {
    "learned": Learned(rows=NEOX_ROWS),
    "sinusoidal": Sinusoidal(style="roformer", rows=NEOX_ROWS),
    "alibi": Biased(form="causal"),
    "rpe": RelativeBuckets(rows=NEOX_ROWS, prefix="rpe_", parts=("",)),
}


def neox(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """GPT-NeoX's own configurations (YAML): `pos_emb`, with hyphens or underscores in all names."""
    plain = {name.replace("-", "_"): name for name in keys.data}
    keys = replace(keys, data={name: keys.data[full] for name, full in plain.items()}, elsewhere=plain)
    given = keys.word("pos_emb") or Value("learned", "default of GPT-NeoX")
    kind = _known(keys, given, *NEOX, "rotary", "none")
    if kind == "rotary":
        reads = "hidden_size num_attention_heads rotary_emb_base rotary_pct"
        return _ropes(keys, reads, Family("GPT-NeoX"), warnings, {})
    if kind == "none":
        warnings.append(f"{given.source} is none: the model has no positional encoding")
        return []
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    offset = keys.whole("opt_pos_emb_offset", low=0)
    return replace(NEOX[kind], **({"more": offset.value} if offset and kind == "learned" else {})).encodings(keys)
