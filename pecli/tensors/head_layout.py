"""Query, key and fused projections: which tensors they are, how rows make heads, and how the channels of pairs move."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.application import reorder
from pecli.engine.arrays import Array, Indices
from pecli.errors import ParameterError, bracketed, quoted


class Weight(NamedTuple):
    """A tensor of a checkpoint."""

    name: str
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 0

    def refusal(self, rule: str, advice: str = "") -> ParameterError:
        """The error of a tensor whose shape breaks a rule."""
        return ParameterError(f"the tensor {quoted(self.name)}", bracketed(self.shape), rule, advice)


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
_BLOCK_NAMES = re.compile(r"(?:^|[./])(?:attn_qkv|Wqkv|self_attn\.qkv_proj)(?=[._]|$)")
"""Names that imply the order of their rows: ggml's, flash-attention's (MPT, ModernBERT), Phi-3's and vLLM's. CodeGen's
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
    """The order of fused rows, where the name implies it."""

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
    order = BLOCKS if kind == "qkv" and _BLOCK_NAMES.search(name) else None
    return Projection(kind, found["prefix"], found["word"], found["suffix"], norm, order)


def of_other_part(name: str) -> bool:
    """Whether a name is that of a tower for images or sound, which has heads of its own."""
    return _OTHER_PART.search(name) is not None


class Layer(NamedTuple):
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


class FusedOrder(NamedTuple):
    """The order of heads in a tensor of q, k and v: equal groups, each with its share of every part."""

    groups: int | None
    """How many groups there are; None for one per key head."""
    parts: str
    words: str


ORDERS = {
    "blocks": FusedOrder(1, "qkv", "rows q of all heads, then k, then v"),
    "groups": FusedOrder(None, "qkv", "rows {queries}q, k, v of each {head}"),
    "codegen": FusedOrder(4, "qvk", "rows q of all heads, then v, then k, in each of 4 shards"),
}
"""`blocks`: Phi-3. `groups`: the q heads that share a key head, that k head and its v head, and so on: q, k, v of each
head where none share (GPT-NeoX, BLOOM, Falcon). `codegen`: four shards."""


@dataclass(frozen=True)
class Heads:
    """How the rows of query and key projections are divided."""

    heads: int
    kv_heads: int | None = None
    """Key heads; as many as the keys' rows make unless given."""
    head_dim: int | None = None
    """Channels of a head; the queries' rows over the heads unless given."""
    rotary_dim: int | None = None
    """Rotary dimension of a head; all of it unless given."""
    trailing: bool = False
    """Whether the last channels of a head rotate, as DeepSeek has them, not the first."""
    fused: str | None = None
    """The order of rows in fused projections whose names do not imply it: one of ORDERS."""
    gated: bool = False
    """Whether query projections hold each head's query, then an output gate of the same size."""
    rotates: bool = True
    """False for a model that has no rotary encoding: its channels may have any order."""
    model: str = ""
    """The model that says so; empty where the command line does."""
    given: tuple[str, ...] = ()
    """What the command line adds to a model that does not say it: names of these fields."""

    def __post_init__(self) -> None:
        if self.kv_heads is not None and self.heads % self.kv_heads:
            rule = f"heads share keys evenly, and {self.heads} heads are not a multiple of {self.kv_heads}"
            raise ParameterError("kv_heads", self.kv_heads, rule)

    def completed(self, weights: Sequence[Weight]) -> Heads:
        """With everything that was left open, as the projections have it: all heads are of one size."""
        for weight in weights:
            _check_rank(weight)
        named = [(weight, each.kind) for weight in weights if not (each := self.named(weight)).norm]
        counted = sorted((pair for pair in named if pair[1] != "latent"), key=lambda pair: pair[1] != "q")
        for weight, kind in counted:
            if kind == "qkv":
                self.order(weight)
        if self.head_dim and self.kv_heads:
            return self
        is_open = not self.kv_heads and any(kind != "q" for _, kind in counted)
        shared = [keys for keys in range(self.heads, 0, -1) if self.heads % keys == 0]
        fits = [(keys, self.head_dim) for keys in (shared if is_open else [self.kv_heads or self.heads])]
        for weight, kind in counted:
            fits = self._narrowed(fits, weight, kind)
        keys, dim = fits[0]
        is_guess = is_open and not self.head_dim and counted[0][1] == "qkv"
        if len(fits) > 1 or is_guess:
            weight, kind = counted[0]
            ways = " or ".join(f"{_counted(keys, 'kv head')} of {dim}" for keys, dim in fits)
            what = {"k": "k", "qkv": "q, k and v"}[kind]
            rule = f"{quoted(weight.name)} {bracketed(weight.shape)} holds {what} of {_counted(self.heads, 'head')}"
            advice = "give `kv_heads` or `head_dim`, or the model with `config`"
            raise ParameterError("kv_heads", "missing", f"{rule}, which fits {ways}", advice)
        if dim is None:
            rule = "no query projection tells how large a head is"
            raise ParameterError("head_dim", "missing", rule, "give `kv_heads` or `head_dim`")
        return replace(self, head_dim=dim, kv_heads=keys)

    def _narrowed(self, fits: Sequence[tuple[int, int | None]], weight: Weight, kind: str) -> list[Any]:
        """Which numbers of key heads, and sizes of a head, the rows of a projection allow."""
        left = []
        for keys, dim in fits:
            count = {"q": self.heads * (1 + self.gated), "k": keys, "qkv": self.heads + 2 * keys}[kind]
            size, rest = divmod(weight.rows, count)
            if size and not rest and dim in (None, size):
                left.append((keys, size))
        if not left:
            dims = {dim for _, dim in fits}
            size_words = f" of {dims.pop()}" if len(dims) == 1 and None not in dims else ""
            parts = {"q": "", "k": "the keys of ", "qkv": "q, k and v of "}[kind]
            rule = f"{weight.rows} rows are not {parts}{_counted(self.heads, 'head')}{size_words}"
            raise weight.refusal(rule, self._advice())
        return left

    def named(self, weight: Weight) -> Projection:
        """What the weight is by its name; without a telling name, fused where an order is given, else a query."""
        return projection(weight.name) or Projection("qkv" if self.fused else "q", "", weight.name, "")

    def order(self, weight: Weight) -> str:
        """The order of a fused weight's rows."""
        implied = self.named(weight).order
        said = self.fused if not self.model or "fused" in self.given else None
        order = said or implied or self.fused
        if order is None:
            who = f"neither its name nor {self.model} tells" if self.model else "its name does not tell"
            rule = f"{quoted(weight.name)} {bracketed(weight.shape)} holds q, k and v in an order that {who}"
            advice = f"give `fused` ({', '.join(ORDERS)})" + ("" if self.model else ", or the model with `config`")
            raise ParameterError("fused", "missing", rule, advice)
        return order

    def slots(self, weight: Weight) -> str:
        """A letter for each head_dim rows of a projection: q, k, v, or g for a gate."""
        heads, keys, named = self.heads, self.kv_heads or self.heads, self.named(weight)
        kind = named.kind
        if kind == "q":
            return ("qg" if self.gated and not named.norm else "q") * heads
        if kind in ("k", "latent"):
            return "k" * (keys if kind == "k" else 1)
        order = ORDERS[self.order(weight)]
        groups = keys if order.groups is None else order.groups
        if heads % groups or keys % groups:
            rule = f"it has {groups} groups, which {heads} heads and {keys} key heads cannot share evenly"
            raise ParameterError("fused", self.order(weight), rule)
        share = {"q": heads // groups, "k": keys // groups, "v": keys // groups}
        return "".join(part * share[part] for part in order.parts) * groups

    def head_rows(self, weight: Weight) -> int:
        """Rows of a slot; a latent key is one head, with the rows before its rotary ones."""
        return weight.rows if self.named(weight).kind == "latent" else self.head_dim or 1

    def _advice(self) -> str:
        return (
            f"pick the tensors of {self.model} with `include`"
            if self.model
            else "check `heads`, `kv_heads` and `head_dim`"
        )

    def check_rows(self, weight: Weight) -> None:
        """Refuse a projection whose rows are not those of the heads; a norm may have those of one head."""
        slots, size, rows = self.slots(weight), self.head_rows(weight), weight.rows
        if self.named(weight).kind == "latent" and not (self.trailing and self.rotary_dim):
            rule = f"{quoted(weight.name)} {bracketed(weight.shape)} keeps its rotary key in its last rows"
            raise ParameterError(
                "rotary_dim", "missing", rule, "give `rotary_dim` and `trailing`, or the model with `config`"
            )
        if rows == len(slots) * size or (self.named(weight).norm and rows == size):
            return
        whole = {"qkv": "q, k and v heads", "q": "heads", "k": "key heads"}[self.named(weight).kind]
        said = f"{self.model} has " if self.model else ""
        rule = f"{said}{len(slots)} {whole} of {size}, that is {len(slots) * size} rows"
        raise weight.refusal(rule, self._advice())

    def words(self, weights: Sequence[Weight]) -> str:
        """What is assumed about some projections, for people."""
        dim, keys, rotary = self.head_dim or 0, self.kv_heads or 0, self.rotary_dim or self.head_dim or 0
        kinds = {self.named(weight).kind for weight in weights}
        some = f", the {'last' if self.trailing else 'first'} {rotary} of {dim} channels" if rotary < dim else ""
        some += "" if self.rotates else ", none of which the model rotates"
        shared = "1 key that all heads share" if "latent" in kinds else _counted(keys, "kv head")
        orders = sorted({self.order(weight) for weight in weights if self.named(weight).kind == "qkv"})
        sharing = self.heads // keys
        head, queries = ("head", "") if sharing == 1 else ("kv head", f"{sharing} ")
        rows = [ORDERS[order].words.format(head=head, queries=queries) for order in orders]
        rows += ["rows q, gate of each head" if self.gated else "rows q or k of each head"] if kinds - {"qkv"} else []
        return f"{_counted(self.heads, 'head')} of {dim}{some}, {shared}, {'; '.join(rows)}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


class Move(NamedTuple):
    """How a tensor changes: what its axis has in each place, by the old places."""

    axis: int
    order: Indices

    def apply(self, array: Array) -> Array:
        return np.take(array, self.order, axis=self.axis)


def move_in_heads(weight: Weight, layout: Heads, source: str, target: str) -> Move:
    """The rotary rows of every query and key head of a projection's weight or bias, in another order."""
    _check_rank(weight)
    if layout.head_dim is None or layout.kv_heads is None:
        layout = layout.completed([weight])
    norm = layout.named(weight).norm
    if norm and len(weight.shape) == 2 and weight.shape[1] == layout.head_dim:  # one row per head, as Cohere has it
        return move_in_columns(weight, source, target, layout.rotary_dim, layout.trailing)
    layout.check_rows(weight)
    size = layout.head_rows(weight)
    order = np.arange(weight.rows).reshape(-1, size)
    moving = np.isin(list(layout.slots(weight)), ["q", "k"])[: len(order)]
    order[moving] = order[moving][:, _rotary_order(weight, layout, size, source, target)]
    return Move(0, order.reshape(-1))


def move_in_columns(weight: Weight, source: str, target: str, rotary_dim: int | None, trailing: bool = False) -> Move:
    """The columns of a table's last axis, in another order."""
    if len(weight.shape) < 2:
        raise weight.refusal("a table has rows and columns", "give `heads` to convert a bias")
    layout = Heads(1, rotary_dim=rotary_dim, trailing=trailing)
    return Move(-1, _rotary_order(weight, layout, weight.shape[-1], source, target))


def _check_rank(weight: Weight) -> None:
    if len(weight.shape) not in (1, 2):
        raise weight.refusal("a projection is (rows, inputs), its bias (rows,)")


def _rotary_order(weight: Weight, layout: Heads, size: int, source: str, target: str) -> Indices:
    """The order of a head's rows."""
    rotary = size if layout.rotary_dim is None else layout.rotary_dim
    if rotary % 2 or not 0 < rotary <= size:
        rule = f"channels rotate in pairs, at most the {size} of a head"
        raise ParameterError("rotary_dim", rotary, rule, f"{quoted(weight.name)} is {bracketed(weight.shape)}")
    order = np.arange(size)
    first = size - rotary if layout.trailing else 0
    order[first : first + rotary] = first + reorder(rotary, source, target)
    return order
