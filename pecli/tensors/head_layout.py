"""Query, key and fused projections: which tensors they are, how rows make heads, and how the channels of pairs move.

Families that keep q, k and v in one tensor, or whose number of key heads no key gives, are rows of qkv_layouts.json.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.application import reorder
from pecli.engine.arrays import Array, Indices
from pecli.errors import ParameterError, bracketed, counted, quoted
from pecli.models.data import plain_name, stored
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import class_defaults, variants
from pecli.models.find import Model, describe
from pecli.models.heads import head_size
from pecli.models.key_names import HEADS, TEXTS
from pecli.models.keys import Keys
from pecli.tensors.inputs import Input


def weight_of(name: str, array: Array) -> Input:
    """A tensor of a checkpoint."""
    return Input(array, f"the tensor {quoted(name)}", name)


def _rows(weight: Input) -> int:
    if len(weight.shape) not in (1, 2):
        raise weight.wrong("a projection is (rows, inputs), its bias (rows,)")
    return weight.shape[0]


_KINDS = {
    word: (row["kind"], row["norm"])
    for row in stored("projection_names.json")
    for word in row["words"].split()
}
"""What names of projections and of their norms begin with, and what they are."""
_NAME = re.compile(
    rf"(?P<layer>(?:.*[._/])?)(?P<word>{'|'.join(sorted(_KINDS, key=len, reverse=True))})"
    r"(?P<suffix>(?:[._](?:weight|bias))?|\..*)",
    re.DOTALL,
)
_BLOCK_NAMES = re.compile(r"(?:^|[./])(?:attn_qkv|Wqkv|self_attn\.qkv_proj)(?=[._]|$)")
"""Names that imply the order of their rows: ggml's, flash-attention's (MPT, ModernBERT), Phi-3's and vLLM's. CodeGen's
`attn.qkv_proj` has another, and `query_key_value` has three, by family."""


class Projection(NamedTuple):
    """What a name says of a tensor: `kind` is q, k, qkv, or latent (a key that all heads share, after other rows)."""

    kind: str
    layer: str  # what the names of all projections of one attention layer begin with
    norm: bool = False
    order: str | None = None  # the order of fused rows, where the name implies it


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
    order = "blocks" if kind == "qkv" and _BLOCK_NAMES.search(name) else None
    return Projection(kind, found["layer"].removesuffix("attn_"), norm, order)


class FusedOrder(NamedTuple):
    """The order of heads in a tensor of q, k and v: equal groups, each with its share of every part."""

    groups: int | None  # how many groups there are; None for one per key head
    parts: str
    words: str


ORDERS = {
    "blocks": FusedOrder(1, "qkv", "rows q of all heads, then k, then v"),
    "groups": FusedOrder(None, "qkv", "rows {queries}q, k, v of each {head}"),
    "codegen": FusedOrder(4, "qvk", "rows q of all heads, then v, then k, in each of 4 shards"),
}
"""`blocks`: Phi-3. `groups`: the q heads that share a key head, that k head and its v head, and so on: q, k, v of each
head where none share (GPT-NeoX, BLOOM, Falcon). `codegen`: four shards."""

KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "attention.head_count_kv",
)
GATED = frozenset(("qwen3_next", "qwen3_5", "qwen3_5_moe"))
"""Families whose q_proj holds the query of each head, followed by an output gate of the same size."""

QKV_LAYOUTS: dict[str, list[dict[str, Any]]] = {
    name: row["layouts"] for row in stored("qkv_layouts.json") for name in row["names"].split()
}
"""By model_type how q, k and v are fused and how many key heads there are: the first row counts whose `flag`, a key of
the configuration, is true, or without one. `order` is that of rows in a fused projection, null for projections of their
own; key heads are what one of `kv_keys` says, or else `kv_default`, or as many as the tensors have."""


@dataclass(frozen=True)
class Heads:
    """How the rows of query and key projections are divided; None where nothing says it."""

    heads: int
    kv_heads: int | None = None
    head_dim: int | None = None
    rotary_dim: int | None = (
        None  #: Rotary dimension of a head; None where nothing is known to rotate
    )
    trailing: bool = (
        False  #: The last channels of a head rotate, as DeepSeek has them, not the first
    )
    fused: str | None = (
        None  #: The order of rows in fused projections whose names do not imply it: one of ORDERS
    )
    gated: bool = (
        False  #: Query projections hold each head's query, then an output gate of the same size
    )
    rotates: bool = True  #: False for a model that has another encoding, such as ALiBi: channels may have any order
    model: str = ""  #: The model that says so; empty where the command line does
    given: tuple[
        str, ...
    ] = ()  #: Names of fields that the command line adds to what the model says

    def __post_init__(self) -> None:
        if self.kv_heads is not None and self.heads % self.kv_heads:
            rule = f"heads share keys evenly, and {self.heads} heads are not a multiple of {self.kv_heads}"
            raise ParameterError("kv_heads", self.kv_heads, rule)

    def completed(self, weights: Sequence[Input]) -> "Heads":
        """With everything that was left open, as the projections have it: all heads are of one size."""
        measured = []
        for weight in weights:
            _rows(weight)
            named = self.named(weight)
            if not named.norm and named.kind != "latent":
                measured.append((weight, named.kind))
            if named.kind == "qkv":
                self.order(weight)
        measured.sort(key=lambda pair: pair[1] != "q")
        if self.head_dim and self.kv_heads:
            return self
        keys, dim = self.kv_heads, self.head_dim
        for weight, kind in measured:
            whose = {"q": "", "k": "the keys of ", "qkv": "q, k and v of "}[kind] + counted(
                self.heads, "head"
            )
            if kind != "q" and not keys:
                if not dim:
                    advice = "give `kv_heads` or `head_dim`, or the model with `config`"
                    raise ParameterError("kv_heads", "missing", f"{weight} holds {whose}", advice)
                keys = (
                    _rows(weight) // dim
                    if kind == "k"
                    else (_rows(weight) // dim - self.heads) // 2
                )
            parts = {
                "q": self.heads * (1 + self.gated),
                "k": keys or 0,
                "qkv": self.heads + 2 * (keys or 0),
            }[kind]
            size = dim or _rows(weight) // max(parts, 1)
            if not size or not parts or _rows(weight) != parts * size or self.heads % (keys or 1):
                rule = f"{_rows(weight)} rows are not {whose}" + (f" of {dim}" if dim else "")
                raise weight.wrong(rule, self._advice)
            dim = size
        if dim is None:
            rule = "no query projection tells how large a head is"
            raise ParameterError("head_dim", "missing", rule, "give `kv_heads` or `head_dim`")
        return replace(self, head_dim=dim, kv_heads=keys or self.heads)

    def named(self, weight: Input) -> Projection:
        """What the weight is by its name; without a telling name, fused where an order is given, else a query."""
        return projection(weight.name) or Projection("qkv" if self.fused else "q", weight.name)

    def order(self, weight: Input) -> str:
        said = self.fused if not self.model or "fused" in self.given else None
        order = said or self.named(weight).order or self.fused
        if order is None:
            who = (
                f"neither its name nor {self.model} tells"
                if self.model
                else "its name does not tell"
            )
            rule = f"{weight} holds q, k and v in an order that {who}"
            advice = f"give `fused` ({', '.join(ORDERS)})" + (
                "" if self.model else ", or the model with `config`"
            )
            raise ParameterError("fused", "missing", rule, advice)
        return order

    def slots(self, weight: Input) -> str:
        """A letter for each head_dim rows of a projection: q, k, v, or g for a gate."""
        keys = self.kv_heads or self.heads
        named = self.named(weight)
        if named.kind != "qkv":
            queries = ("qg" if self.gated and not named.norm else "q") * self.heads
            return {"q": queries, "k": "k" * keys, "latent": "k"}[named.kind]
        order = ORDERS[self.order(weight)]
        groups = keys if order.groups is None else order.groups
        if keys % groups:
            rule = f"it has {groups} groups, which {self.heads} heads and {keys} key heads cannot share evenly"
            raise ParameterError("fused", self.order(weight), rule)
        share = {"q": self.heads // groups, "k": keys // groups, "v": keys // groups}
        return "".join(part * share[part] for part in order.parts) * groups

    @property
    def _advice(self) -> str:
        if self.model:
            return f"pick the tensors of {self.model} with `include`"
        return "check `heads`, `kv_heads` and `head_dim`"

    def words(self, weights: Sequence[Input]) -> str:
        dim, keys, rotary = (
            self.head_dim or 0,
            self.kv_heads or 0,
            self.rotary_dim or self.head_dim or 0,
        )
        kinds = {self.named(weight).kind for weight in weights}
        some = (
            f", the {'last' if self.trailing else 'first'} {rotary} of {dim} channels"
            if rotary < dim
            else ""
        )
        some += "" if self.rotates else ", none of which the model rotates"
        shared = "1 key that all heads share" if "latent" in kinds else counted(keys, "kv head")
        orders = sorted(
            {self.order(weight) for weight in weights if self.named(weight).kind == "qkv"}
        )
        sharing = self.heads // keys
        head, queries = ("head", "") if sharing == 1 else ("kv head", f"{sharing} ")
        rows = [ORDERS[order].words.format(head=head, queries=queries) for order in orders]
        rows += (
            ["rows q, gate of each head" if self.gated else "rows q or k of each head"]
            if kinds - {"qkv"}
            else []
        )
        return f"{counted(self.heads, 'head')} of {dim}{some}, {shared}, {'; '.join(rows)}"

    def move(self, weight: Input, source: str, target: str) -> "Move":
        """The rotary rows of every query and key head of a projection's weight or bias, in another order."""
        rows = _rows(weight)
        if self.head_dim is None or self.kv_heads is None:
            return self.completed([weight]).move(weight, source, target)
        named = self.named(weight)
        if (
            named.norm and weight.array.ndim == 2 and weight.shape[1] == self.head_dim
        ):  # one row per head, as in Cohere
            return move_in_columns(weight, source, target, self.rotary_dim, self.trailing)
        if named.kind == "latent" and not (self.trailing and self.rotary_dim):
            advice = "give `rotary_dim` and `trailing`, or the model with `config`"
            raise ParameterError(
                "rotary_dim", "missing", f"{weight} keeps its rotary key in its last rows", advice
            )
        slots = self.slots(weight)
        size = (
            rows if named.kind == "latent" else self.head_dim
        )  # which is one head, with rows before it
        if rows != len(slots) * size and not (
            named.norm and rows == size
        ):  # a norm may be of one head
            whole = {"qkv": "q, k and v heads", "q": "heads", "k": "key heads"}[named.kind]
            said = f"{self.model} has " if self.model else ""
            raise weight.wrong(
                f"{said}{len(slots)} {whole} of {size}, that is {len(slots) * size} rows",
                self._advice,
            )
        order = np.arange(rows).reshape(-1, size)
        moving = np.isin(list(slots), ["q", "k"])[: len(order)]
        channels = _rotary_order(weight, size, source, target, self.rotary_dim, self.trailing)
        order[moving] = order[moving][:, channels]
        return Move(0, order.reshape(-1), channels, moving)


class Move(NamedTuple):
    """How a tensor changes: what its axis has in each place, by the old places."""

    axis: int
    order: Indices
    channels: Indices  # the same within one head
    heads: Array | slice  # which heads of the tensor move


def move_in_columns(
    weight: Input, source: str, target: str, rotary_dim: int | None, trailing: bool
) -> Move:
    """The columns of a table's last axis, in another order."""
    if len(weight.shape) < 2:
        raise weight.wrong("a table has rows and columns", "give `heads` to convert a bias")
    channels = _rotary_order(weight, weight.shape[-1], source, target, rotary_dim, trailing)
    return Move(-1, channels, channels, slice(None))


def _rotary_order(
    weight: Input, size: int, source: str, target: str, rotary_dim: int | None, trailing: bool
) -> Indices:
    rotary = size if rotary_dim is None else rotary_dim
    if rotary % 2 or not 0 < rotary <= size:
        rule = f"channels rotate in pairs, at most the {size} of a head"
        raise ParameterError(
            "rotary_dim", rotary, rule, f"{quoted(weight.name)} is {bracketed(weight.shape)}"
        )
    order = np.arange(size)
    first = size - rotary if trailing else 0
    order[first : first + rotary] = first + reorder(rotary, source, target)
    return order


def attention_of(model: Model | None, layer_type: str | None = None) -> dict[str, Any]:
    """What a model says about the heads of its language part, of all layers or of one type: fields of `Heads`."""
    described = describe(model)
    found = described.encodings()
    keys, model_type = Keys(described.values, described.label), found.model_type
    if inner := next(filter(None, map(keys.part, TEXTS)), None):
        said = inner.word("model_type")
        keys, model_type = inner, said.value if said else model_type
    is_gguf = (
        "general.architecture" in keys
    )  # whose architectures have names and orders of their own
    keys = keys if is_gguf else replace(keys, defaults=class_defaults(model_type))
    heads = _whole(keys, (*HEADS, "attention.head_count"))
    encoding = _encoding(found, layer_type)
    known = next(
        (QKV_LAYOUTS[name] for name in variants(model_type) if name in QKV_LAYOUTS and not is_gguf),
        [],
    )
    row: dict[str, Any] = next((each for each in known if _applies(each, keys)), {})
    kv_keys, kv_default = tuple(row.get("kv_keys", KV_HEADS)), row.get("kv_default")
    within = keys.part("attn_config") if kv_keys else None
    kv_heads = _whole(keys, kv_keys) or (_whole(within, ("kv_n_heads",)) if within else None)
    size = head_size(keys).value if encoding is None and heads else None
    fields = {
        "heads": heads,
        "kv_heads": kv_heads or (heads if kv_default == "heads" else kv_default),
        "head_dim": encoding.head_dim if encoding else size,
        "rotary_dim": encoding.rotary_dim if encoding else None,
        "trailing": encoding is not None and encoding.trailing,
        "fused": row.get("order"),
        "gated": plain_name(model_type).removesuffix("_text") in GATED,
        "rotates": encoding is not None
        or not any(not each.is_rotary and not each.part for each in found),
        "model": found.file,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _encoding(found: ModelEncodings, layer_type: str | None) -> Encoding | None:
    """The rotary encoding whose heads all layers share; None where the model has none."""
    if layer_type is not None:
        chosen = found.one(layer_type)
        return chosen if chosen.is_rotary else None
    ropes = [each for each in found.ropes() if not each.part and not each.grid.axes]
    if len({(each.head_dim, each.rotary_dim, each.layout, each.trailing) for each in ropes}) > 1:
        names = ", ".join(f"{each.layer_type!r} (heads of {each.head_dim})" for each in ropes)
        advice = "name one, and its tensors with `include`"
        raise ParameterError(
            "layer_type", "missing", f"{found.file} has layers that differ: {names}", advice
        )
    return ropes[0] if ropes else None


def _applies(row: Mapping[str, Any], keys: Keys) -> bool:
    given = keys.flag(row["flag"]) if "flag" in row else None
    return bool(given.value) if given is not None else row.get("flag_default", "flag" not in row)


def _whole(keys: Keys, names: tuple[str, ...]) -> int | None:
    """A whole number; a list, with one for each layer, counts as absent."""
    known = tuple(name for name in names if not isinstance(keys.data.get(name), list))
    found = keys.whole(*known) if keys.any(*known) or len(known) == len(names) else None
    return found.value if found else None
