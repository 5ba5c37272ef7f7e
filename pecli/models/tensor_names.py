"""The names that tensors have in Hugging Face's and Meta's checkpoints, and GGUF's names for them."""

from __future__ import annotations

import re

from pecli.models.keys import plain_name, stored

NAMES = {word: name for name, words in stored("tensor_names.json").items() for word in words.split()}
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
