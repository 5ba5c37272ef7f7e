"""Names of query, key and fused projections, as checkpoints spell them."""

import re
from typing import NamedTuple

from pecli.engine.arrays import Array
from pecli.errors import quoted
from pecli.models.data import stored
from pecli.tensors.inputs import Input


class ProjectionWord(NamedTuple):
    """The meaning of a word in a tensor's name."""

    kind: str  #: q, k, qkv or latent
    norm: bool  #: True for the norm of a projection


def _words() -> dict[str, ProjectionWord]:
    """Return the words of projection_names.json, such as `q_proj`, with their meanings."""
    words = {}
    for row in stored("projection_names.json"):
        for word in row["words"].split():
            words[word] = ProjectionWord(row["kind"], row["norm"])
    return words


_WORDS = _words()
_LONGEST_FIRST = sorted(_WORDS, key=len, reverse=True)  # so that q_norm is not taken for q
_NAME = re.compile(
    rf"(?P<layer>(?:.*[._/])?)(?P<word>{'|'.join(_LONGEST_FIRST)})"
    r"(?P<suffix>(?:[._](?:weight|bias))?|\..*)",
    re.DOTALL,
)
_BLOCK_NAMES = re.compile(r"(?:^|[./])(?:attn_qkv|Wqkv|self_attn\.qkv_proj)(?=[._]|$)")
"""Names that imply the order `blocks` of their rows: ggml's, flash-attention's (MPT, ModernBERT),
Phi-3's and vLLM's. CodeGen's `attn.qkv_proj` has another order, and `query_key_value` has three,
by family."""


class Projection(NamedTuple):
    """A query, key or fused projection, by its name.

    Attributes:
        kind: q, k, qkv (fused), or latent: a key that all heads share, after other rows (DeepSeek).
        layer: the beginning that all projections of one attention layer have in common.
        norm: True for the norm of a projection.
        order: the order of fused rows, if the name implies it.
    """

    kind: str
    layer: str
    norm: bool = False
    order: str | None = None


def projection(name: str) -> Projection | None:
    """Parse a tensor's name; return None unless it is a projection of queries or keys.

    >>> projection("h.0.attn.k_proj.weight")
    Projection(kind='k', layer='h.0.attn.', norm=False, order=None)
    >>> projection("blk.0.attn_qkv.weight")
    Projection(kind='qkv', layer='blk.0.', norm=False, order='blocks')
    >>> projection("model.layers.0.mlp.up_proj.weight") is None
    True
    """
    match = _NAME.fullmatch(name)
    # The first factor of a LoRA has rows of its rank, not of heads.
    if match is None or ".lora_A" in match["suffix"]:
        return None
    word = _WORDS[match["word"]]
    # ggml joins `attn_` and the word: blk.0.attn_q and blk.0.attn_k are of the layer blk.0.
    layer = match["layer"].removesuffix("attn_")
    implies_blocks = word.kind == "qkv" and _BLOCK_NAMES.search(name) is not None
    order = "blocks" if implies_blocks else None
    return Projection(word.kind, layer, word.norm, order)


def weight_of(name: str, array: Array) -> Input:
    """Return a tensor of a checkpoint."""
    return Input(array, f"the tensor {quoted(name)}", name)
