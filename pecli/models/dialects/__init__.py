"""Dialects of configurations: by which keys each is recognised, and what reads it. A dialect is imported when a file is
written in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import TEXTS
from pecli.models.keys import Keys, plain_name, unread_keys
from pecli.models.rope import LENGTHS, ORIGINAL

_LATENT = ("qk_rope_head_dim", "kv_lora_rank", "q_lora_rank")
_DEEPSEEK = ("inter_dim", "moe_inter_dim", "n_dense_layers", "n_activated_experts", "n_routed_experts")
_EXECUTORCH = (
    *("use_hf_rope", "rope_freq_base", "local_rope_theta", "rope_scaling_short_factor", "no_rope_layer_interval"),
    *("partial_rotary_factor", "qk_norm_before_rope", "model_architecture", "attention_qkv_bias", "bos_idx"),
)
_NEOX = ("pos_emb", "pipe_parallel_size", "model_parallel_size", "rotary_pct", "no_weight_tying", "gpt_j_residual")
_MOSHI = ("positional_embedding", "depformer_dim", "max_period")
_LITGPT = ("rotary_percentage", "rope_condense_ratio", "rope_adjustments")
_MEGATRON = ("rotary_base", "rotary_percentage", "rotary_seq_len_interpolation_factor", "encoder_seq_length")
_OLMO_TYPES = ("olmo", "hf_olmo", "llada", "mmada")
_OLMO = ("rope", "alibi", "block_type", "layer_norm_type", "mlp_ratio", "mlp_hidden_size")


@dataclass(frozen=True)
class Dialect:
    """How one project spells its configurations."""

    reader: str  #: Module and function; it takes the keys, and a list that it adds warnings to
    has: tuple[str, ...] = ()
    has_one: tuple[tuple[str, ...], ...] = ()  #: Keys of each of which one is there
    lacks: tuple[str, ...] = ()
    model_types: tuple[str, ...] | None = ()  #: What model_type may be, where it is given; None for anything
    inside: str = ""  #: An object that may hold the keys instead

    def recognises(self, config: Mapping[str, Any]) -> bool:
        if self.model_types is not None and config.get("model_type") not in (None, *self.model_types):
            return False
        inner = config.get(self.inside)
        for values in (config, inner if isinstance(inner, Mapping) else {}):
            names = {plain_name(name) for name, value in values.items() if value is not None}
            if names >= {*self.has} and not names & {*self.lacks} and all(map(names.intersection, self.has_one)):
                return True
        return False

    def read(self, keys: Keys, warnings: list[str]) -> list[Encoding]:
        module, function = self.reader.split(".")
        found: list[Encoding] = getattr(import_module(f"{__name__}.{module}"), function)(keys, warnings)
        return found


DIALECTS = (
    Dialect("diffusers.read", ("_class_name",), model_types=None),
    Dialect("own_code.mlc", has_one=(("model_config", "position_embedding_base"),), model_types=None),
    Dialect("own_code.gpt_oss", has_one=(("initial_context_length", "rope_ntk_alpha", "rope_ntk_beta"),)),
    Dialect("own_code.deepseek4", ("dim", "rope_head_dim", "compress_rope_theta")),
    Dialect("own_code.deepseek", ("dim",), (_LATENT, _DEEPSEEK), lacks=("yarn",)),
    Dialect("own_code.executorch", ("dim", "n_heads"), (_EXECUTORCH,), lacks=("hidden_size", "kv_lora_rank")),
    Dialect("own_code.moshi", ("dim", "num_heads"), (_MOSHI,), model_types=None),
    Dialect("own_code.olmo", ("d_model", "n_heads"), (_OLMO,), ("rope_parameters",), _OLMO_TYPES, inside="model"),
    Dialect("own_code.litgpt", ("n_embd", "n_head"), (_LITGPT,)),
    Dialect("own_code.megatron", ("num_attention_heads",), (_MEGATRON,), lacks=("architectures",), inside="model"),
    Dialect("own_code.neox", ("hidden_size", "num_attention_heads"), (_NEOX,), lacks=("architectures",)),
    Dialect("own_code.meta", ("dim", "n_heads"), lacks=("hidden_size",)),
    Dialect("huggingface.read", model_types=None),
)
"""The first that recognises a file reads it."""
CONTEXTS = (
    *LENGTHS,
    *("initial_context_length", "max_context_len", "max_seqlen", "context_window_size", "context"),
    *("seq-length", "max-position-embeddings"),
)
"""Keys that say how long a context is, in all dialects."""
WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")
LLAMA3_BASE, LLAMA3_CONTEXT = 500000.0, 131072


def read_object(config: Mapping[str, Any], label: str) -> ModelEncodings:
    """The encodings of a configuration that is read already."""
    keys = Keys(config, label)
    warnings: list[str] = []
    found = next(each for each in DIALECTS if each.recognises(config)).read(keys, warnings)
    said = keys.word("model_type", "_class_name")
    model_type = said.value if said else None
    parts = [keys, *(inner for name in TEXTS if (inner := keys.part(name)))]
    context = _first_positive(parts, CONTEXTS)
    windows = () if any(part.data.get("use_sliding_window") is False for part in parts) else WINDOWS
    warnings += _inconsistencies(found, context, model_type)
    warnings += unread_keys(keys, {each.scheme for each in found})
    window = _first_positive(parts, windows)
    return ModelEncodings(label, model_type, tuple(found), tuple(dict.fromkeys(warnings)), context, window)


def _first_positive(parts: Sequence[Keys], names: Iterable[str]) -> int | None:
    """The first of the keys that is a number above 0; those that say the same count as read, too."""
    values = [(part, name, part.data.get(name)) for part in parts for name in (*names, ORIGINAL)]
    found = next((each for _, _, each in values if isinstance(each, int) and each > 0), None)
    for part, name, value in values:
        if found is not None and value == found:
            part.mark(name)
    return found


def _inconsistencies(encodings: Sequence[Encoding], context: int | None, model_type: str | None) -> Iterator[str]:
    """Settings that do not fit one another, or that leave out what they seem to need."""
    for encoding in encodings:
        given = encoding.parameters
        if not encoding.is_rotary or encoding.part or context is None:
            continue
        scaling, factor, original = given["scaling"], given.get("factor"), given.get(ORIGINAL)
        if scaling in ("yarn", "longrope") and factor and original and round(factor * original) != context:
            yield (
                f"{encoding.sources.get('factor', 'factor')} {factor:g} × {original} positions make "
                f"{factor * original:.12g}, but the model says {context} (max_position_embeddings): check which of "
                "them is meant"
            )
        if scaling == "none" and given["base"] == LLAMA3_BASE and context == LLAMA3_CONTEXT and model_type == "llama":
            yield (
                f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but its scaling (llama3, "
                "factor 8) is not given: rope_scaling may have been lost"
            )
