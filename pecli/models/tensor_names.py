"""The names that tensors have in Hugging Face's and Meta's checkpoints, and GGUF's names for them, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pecli.engine.arrays import Array
from pecli.models.keys import plain_name

_NAMES = """
token_embd embed_tokens tok_embeddings embed_in wte word_embeddings
position_embd wpe
output lm_head embed_out output
output_norm norm final_layer_norm final_layernorm ln_f
attn_norm input_layernorm attention_norm ln_1
attn_q self_attn.q_proj attention.wq
attn_k self_attn.k_proj attention.wk
attn_v self_attn.v_proj attention.wv
attn_qkv self_attn.qkv_proj attention.query_key_value self_attention.query_key_value attn.c_attn
attn_output self_attn.o_proj attention.wo attention.dense self_attn.dense self_attention.dense attn.c_proj
attn_q_norm self_attn.q_norm attention.q_norm
attn_k_norm self_attn.k_norm attention.k_norm
attn_sinks self_attn.sinks
attn_q_a self_attn.q_a_proj
attn_q_a_norm self_attn.q_a_layernorm
attn_q_b self_attn.q_b_proj
attn_kv_a_mqa self_attn.kv_a_proj_with_mqa
attn_kv_a_norm self_attn.kv_a_layernorm
attn_kv_b self_attn.kv_b_proj
ffn_norm post_attention_layernorm ffn_norm pre_feedforward_layernorm ln_2
ffn_gate mlp.gate_proj feed_forward.w1
ffn_up mlp.up_proj feed_forward.w3 mlp.gate_up_proj mlp.dense_h_to_4h mlp.fc1 mlp.c_fc
ffn_down mlp.down_proj feed_forward.w2 mlp.dense_4h_to_h mlp.fc2 mlp.c_proj
ffn_gate_inp mlp.gate block_sparse_moe.gate mlp.router
ffn_gate_exps mlp.experts.gate_proj block_sparse_moe.experts.w1
ffn_up_exps mlp.experts.up_proj block_sparse_moe.experts.w3
ffn_down_exps mlp.experts.down_proj block_sparse_moe.experts.w2
ffn_gate_shexp mlp.shared_expert.gate_proj mlp.shared_experts.gate_proj
ffn_up_shexp mlp.shared_expert.up_proj mlp.shared_experts.up_proj
ffn_down_shexp mlp.shared_expert.down_proj mlp.shared_experts.down_proj
ffn_gate_inp_shexp mlp.shared_expert_gate
exp_probs_b mlp.gate.e_score_correction
post_ffw_norm post_feedforward_layernorm
"""
NAMES = {word: row.split()[0] for row in _NAMES.strip().split("\n") for word in row.split()[1:]}
"""GGUF's names by those of Hugging Face and Meta."""
AFTER_ATTENTION = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3", "gpt_oss"))
"""Families whose post_attention_layernorm is just that, and not the norm before the feed-forward layer."""
TRANSPOSED = {"gpt2": re.compile(r"c_attn|c_proj|c_fc"), "gpt_oss": re.compile(r"experts\.(?:down|gate_up)_proj")}
"""Weights that Hugging Face keeps with inputs as rows, by family."""
_NAME = re.compile(
    r"(?:(?:model|language_model|gpt_neox|transformer)\.)*(?:(?:layers|h)\.(\d+)\.)?(.+?)(?:[._](weight|bias))?"
)


def canonical(name: str, model_type: str | None) -> str:
    """GGUF's name of a tensor of Hugging Face's or Meta's; empty where it is not known.

    >>> canonical("model.layers.3.self_attn.q_proj.weight", "llama"), canonical("layers.3.attention.wq.weight", None)
    ('blk.3.attn_q.weight', 'blk.3.attn_q.weight')
    >>> canonical("model.layers.0.mlp.experts.7.up_proj.weight", "qwen3_moe")
    'blk.0.ffn_up_exps.7.weight'
    """
    parts = _NAME.fullmatch(name)
    layer, stem, suffix = parts.groups() if parts else (None, "", "")
    stem, expert = re.sub(r"(?<=experts)\.\d+", "", stem), re.search(r"(?<=experts)\.\d+", stem)
    own = stem == "post_attention_layernorm" and plain_name(model_type) in AFTER_ATTENTION
    known = "post_attention_norm" if own else NAMES.get(stem)
    where = f"blk.{layer}." if layer else ""
    return f"{where}{known}{expert.group() if expert else ''}.{suffix or 'weight'}" if known else ""


def as_in_gguf(name: str, array: Array, model_type: str | None) -> Iterator[tuple[str, Array]]:
    """GGUF's names of a tensor of Hugging Face's or Meta's, or of its parts, with views of them; none if not known."""
    family, is_bias = plain_name(model_type), name.endswith("bias")
    if array.ndim > 1 and not is_bias and family in TRANSPOSED and TRANSPOSED[family].search(name):
        array = array.swapaxes(-1, -2)
    parts = {"gate_up_proj": array}
    if "experts.gate_up_proj" in name and array.ndim > 1:
        count = array.shape[1]
        rows = (
            (slice(0, None, 2), slice(1, None, 2))
            if family == "gpt_oss"
            else (slice(count // 2), slice(count // 2, None))
        )
        parts = {"gate_proj": array[:, rows[0]], "up_proj": array[:, rows[1]]}
    for word, part in parts.items():
        if known := canonical(name.replace("gate_up_proj", word), model_type):
            yield known, part
