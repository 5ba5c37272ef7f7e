"""executorch's configurations of its Llama code: Meta's keys, and what other models need beside them."""

from __future__ import annotations

from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary
from pecli.models.dialects.meta import llama3_scaling
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES, INTERLEAVED
from pecli.models.values import Keys, Value

_SIGNS = (
    "use_hf_rope",
    "rope_freq_base",
    "local_rope_theta",
    "rope_scaling_short_factor",
    "no_rope_layer_interval",
    "partial_rotary_factor",
    "qk_norm_before_rope",
    "model_architecture",
    "attention_qkv_bias",
    "bos_idx",
)
MAX_LAYERS = 4096


def _longrope(keys: Keys) -> dict[str, Value | None]:
    short, long = keys.numbers("rope_scaling_short_factor"), keys.numbers("rope_scaling_long_factor")
    if short is None and long is None:
        return {}
    original, length = keys.whole("original_max_position_embeddings"), keys.whole("max_position_embeddings")
    attention = keys.number("rope_scaling_attention_factor")
    return {
        "scaling": Value("longrope", "rope_scaling_short_factor, rope_scaling_long_factor"),
        "short_factor": short or long,
        "long_factor": long or short,
        "original_max_position_embeddings": keys.needed(original, "original_max_position_embeddings"),
        "max_position_embeddings": None if attention else length,
        "attention_factor": attention,
    }


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    head = head_width(keys, "dim", "n_heads", "head_dim")
    theta = base_of(keys, "rope_theta", "rope_freq_base")
    halves = keys.flag("use_hf_rope")
    if halves is not None and halves.value:
        layout, partial, scaling = (HALVES, halves.source), keys.number("partial_rotary_factor"), _longrope(keys)
    else:
        layout = (INTERLEAVED, halves.source if halves else "default: use_hf_rope is not given")
        partial = None
        scaling = {**llama3_scaling(keys, factor=("rope_scale_factor",), high_freq_factor=("high_freq_factor",))}
    extra = _unrotated(keys, warnings)
    local = keys.number("local_rope_theta")
    bases = {"": theta} if local is None else {"full_attention": theta, "sliding_attention": local}
    return [
        rotary(keys, head, base, layout, scaling, partial=partial, layer_type=name, extra=extra)
        for name, base in bases.items()
    ]


def _unrotated(keys: Keys, warnings: list[str]) -> dict[str, Value]:
    step, layers = keys.whole("no_rope_layer_interval"), keys.whole("n_layers")
    if step is None or layers is None:
        return {}
    numbers = [*range(step.value - 1, min(layers.value, MAX_LAYERS), step.value)]
    warnings.append(f"one layer in {step.value} has no rope, the last of each: {step.source}")
    return {"nope_layers": Value(numbers, step.source)}


def _recognises(keys: Keys) -> bool:
    meta = "model_type" not in keys and "dim" in keys and "n_heads" in keys and "hidden_size" not in keys
    return meta and keys.any(*_SIGNS) and "kv_lora_rank" not in keys


DIALECT = Dialect(
    "an executorch configuration",
    _recognises,
    _read,
    lengths=("max_context_len", "max_seq_len"),
    harmless=frozenset(("qk_norm_before_rope",)),
)
