"""The names that tensors have in Hugging Face's and Meta's checkpoints, and GGUF's names for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Array
from pecli.models.keys import plain_name, stored

NAMES = {word: name for name, words in stored("tensor_names.json").items() for word in words.split()}
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
    words, parts = ["gate_up_proj"], [array]
    if "experts.gate_up_proj" in name and array.ndim > 1:
        words = ["gate_proj", "up_proj"]
        parts = [array[:, ::2], array[:, 1::2]] if family == "gpt_oss" else np.array_split(array, 2, axis=1)
    for word, part in zip(words, parts, strict=True):
        if known := canonical(name.replace("gate_up_proj", word), model_type):
            yield known, part
