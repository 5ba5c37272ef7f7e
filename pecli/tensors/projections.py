"""Which tensors are query, key and fused projections, by the names that checkpoints give them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BLOCKS = "blocks"
_WORDS = {
    "q": "q wq query attn_q q_proj q_b_proj wq_b attn_q_b",
    "k": "k wk key attn_k k_proj",
    "latent": "kv_a_proj_with_mqa attn_kv_a_mqa",
    "qkv": "qkv qkv_proj Wqkv wqkv attn_qkv query_key_value linear_qkv c_attn W_pack",
}
_NORMS = {
    "q": "q_norm attn_q_norm q_layernorm query_layernorm q_ln",
    "k": "k_norm attn_k_norm k_layernorm key_layernorm k_ln",
}
_KINDS = {
    word: (kind, norm)
    for table, norm in ((_WORDS, False), (_NORMS, True))
    for kind in table
    for word in table[kind].split()
}
_NAME = re.compile(
    rf"(?P<prefix>(?:.*[._/])?)(?P<word>{'|'.join(sorted(_KINDS, key=len, reverse=True))})"
    r"(?P<suffix>(?:[._](?:weight|bias))?|\..*)",
    re.DOTALL,
)
_TOLD = re.compile(r"(?:^|[./])(?:attn_qkv|Wqkv|self_attn\.qkv_proj)(?=[._]|$)")
"""Names that tell the order of their rows: ggml's, flash-attention's (MPT, ModernBERT), Phi-3's and vLLM's. CodeGen's
`attn.qkv_proj` has another, and `query_key_value` has three, by family."""
_OTHER_PART = re.compile(r"(?:^|\.)(?:vision|visual|audio|speech|image)\w*\.")


@dataclass(frozen=True)
class Projection:
    """What a name says of a tensor: `kind` is q, k, qkv, or latent (a key that all heads share, after other rows)."""

    kind: str
    prefix: str
    word: str
    suffix: str
    norm: bool = False
    order: str | None = None
    """The order of fused rows, where the name tells it."""

    @property
    def is_bias(self) -> bool:
        return self.suffix.endswith("bias")

    @property
    def bias(self) -> str:
        """The name of the bias that goes with a weight."""
        return f"{self.prefix}{self.word}{re.sub(r'weight$', 'bias', self.suffix)}"


def projection(name: str) -> Projection | None:
    """What a tensor's name says; None unless it is that of a query, key or fused projection, or of its norm.

    >>> projection("model.layers.0.self_attn.k_proj.weight").kind
    'k'
    >>> projection("model.layers.0.mlp.up_proj.weight") is None
    True
    """
    found = _NAME.fullmatch(name)
    if found is None or ".lora_A" in found["suffix"]:
        return None
    kind, norm = _KINDS[found["word"]]
    order = BLOCKS if kind == "qkv" and _TOLD.search(name) else None
    return Projection(kind, found["prefix"], found["word"], found["suffix"], norm, order)


def of_other_part(name: str) -> bool:
    """Whether a name is that of a tower for images or sound, which has heads of its own."""
    return _OTHER_PART.search(name) is not None


@dataclass(frozen=True)
class Layer:
    """The weights that the scores of one layer come from; a fused one is both."""

    query: str
    key: str
    query_norm: str | None = None
    key_norm: str | None = None


def layers(names: Iterable[str]) -> list[Layer]:
    """Which query weight goes with which key weight: those whose names differ in that alone."""
    found = {name: each for name in names if (each := projection(name)) is not None}
    weights = {name: each for name, each in found.items() if not each.norm and not each.is_bias}
    norms = {(each.kind, each.prefix): name for name, each in found.items() if each.norm and not each.is_bias}
    keys = {(each.prefix, each.suffix): name for name, each in weights.items() if each.kind in ("k", "latent")}
    pairs = [(each, name, name) for name, each in weights.items() if each.kind == "qkv"]
    for name, each in weights.items():
        partner = keys.get((each.prefix, each.suffix))
        if each.kind == "q" and partner is not None:
            pairs.append((each, name, partner))
    return [
        Layer(query, key, norms.get(("q", each.prefix)), norms.get(("k", each.prefix))) for each, query, key in pairs
    ]
