"""The names that tensors have in Hugging Face's and Meta's checkpoints, and GGUF's names for them, as data."""

from __future__ import annotations

import re

from pecli.models.keys import plain_name

_NAMES = """
token_embd embed_tokens tok_embeddings embed_in
output lm_head embed_out output
output_norm norm final_layer_norm final_layernorm
attn_norm input_layernorm attention_norm
attn_q self_attn.q_proj attention.wq
attn_k self_attn.k_proj attention.wk
attn_v self_attn.v_proj attention.wv
attn_qkv self_attn.qkv_proj attention.query_key_value
attn_output self_attn.o_proj attention.wo attention.dense self_attn.dense
attn_q_norm self_attn.q_norm attention.q_norm
attn_k_norm self_attn.k_norm attention.k_norm
ffn_norm post_attention_layernorm ffn_norm pre_feedforward_layernorm
ffn_gate mlp.gate_proj feed_forward.w1
ffn_up mlp.up_proj feed_forward.w3 mlp.gate_up_proj mlp.dense_h_to_4h mlp.fc1 mlp.c_fc
ffn_down mlp.down_proj feed_forward.w2 mlp.dense_4h_to_h mlp.fc2 mlp.c_proj
ffn_gate_inp mlp.gate block_sparse_moe.gate
post_ffw_norm post_feedforward_layernorm
"""
NAMES = {word: row.split()[0] for row in _NAMES.strip().split("\n") for word in row.split()[1:]}
"""GGUF's names by those of Hugging Face and Meta."""
AFTER_ATTENTION = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3"))
"""Families whose post_attention_layernorm is just that, and not the norm before the feed-forward layer."""
_NAME = re.compile(r"(?:(?:model|language_model|gpt_neox|transformer)\.)*(?:(?:layers|h)\.(\d+)\.)?(.+)\.(weight|bias)")


def canonical(name: str, model_type: str | None) -> str:
    """GGUF's name of a tensor of Hugging Face's or Meta's; empty where it is not known.

    >>> canonical("model.layers.3.self_attn.q_proj.weight", "llama"), canonical("layers.3.attention.wq.weight", None)
    ('blk.3.attn_q.weight', 'blk.3.attn_q.weight')
    """
    parts = _NAME.fullmatch(name)
    layer, stem, suffix = parts.groups() if parts else (None, "", "")
    own = stem == "post_attention_layernorm" and plain_name(model_type) in AFTER_ATTENTION
    known = "post_attention_norm" if own else NAMES.get(stem)
    return f"{f'blk.{layer}.' if layer else ''}{known}.{suffix}" if known else ""
