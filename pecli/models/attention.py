"""How a model divides its query, key and value projections: heads, their size, and the order of fused rows.

Families that keep q, k and v in one tensor, or whose number of key heads no key gives, are rows of qkv_layouts.json;
orders have the names that `pecli.tensors.head_layout` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import TEXTS, class_defaults, variants
from pecli.models.find import Model, describe
from pecli.models.keys import Keys, plain_name, stored
from pecli.models.layer_types import HEADS, head_size

KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "attention.head_count_kv")
GATED = frozenset(("qwen3_next", "qwen3_5", "qwen3_5_moe"))
"""Families whose q_proj holds the query of each head, followed by an output gate of the same size."""


@dataclass(frozen=True)
class QkvLayout:
    """How a family fuses q, k and v, and how many key heads it has where a flag of its configuration is set."""

    order: str | None  #: The order of rows in a fused projection; None for projections of their own
    flag: str = ""  #: The key that must be true for this row to apply; without one it always does
    flag_default: bool = False
    kv_keys: tuple[str, ...] = KV_HEADS
    kv_default: int | Literal["heads"] | None = None
    """Key heads where no key says it; None where the class default is not known, and the tensors decide."""

    def applies(self, keys: Keys) -> bool:
        given = keys.flag(self.flag) if self.flag else None
        return bool(given.value) if given is not None else self.flag_default or not self.flag


QKV_LAYOUTS = {
    name: tuple(QkvLayout(**{**layout, "kv_keys": tuple(layout.get("kv_keys", KV_HEADS))}) for layout in row["layouts"])
    for row in stored("qkv_layouts.json")
    for name in row["names"].split()
}
"""By model_type; the first row whose flag is true applies."""


@dataclass(frozen=True)
class Attention:
    """How the rows of query and key projections are divided; None where nothing says it."""

    heads: int | None
    kv_heads: int | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None  #: Rotary dimension of a head; None where nothing is known to rotate
    trailing: bool = False  #: The last channels of a head rotate, as DeepSeek has them, not the first
    fused: str | None = None  #: The order of rows in fused projections whose names do not imply it
    gated: bool = False  #: Query projections hold each head's query, then an output gate of the same size
    rotates: bool = True  #: False for a model that has another encoding, such as ALiBi: channels may have any order
    model: str = ""  #: What says so; empty where nothing but the command line does


def attention_of(model: Model | None, layer_type: str | None = None) -> Attention:
    """The heads of a model's language part, for all its layers or for those of one type."""
    described = describe(model)
    found = described.encodings()
    keys, model_type = Keys(described.values, described.label), found.model_type
    if inner := next(filter(None, map(keys.part, TEXTS)), None):
        said = inner.word("model_type")
        keys, model_type = inner, said.value if said else model_type
    is_gguf = "general.architecture" in keys  # whose architectures have names and orders of their own
    keys = keys if is_gguf else replace(keys, defaults=class_defaults(model_type))
    heads = _whole(keys, (*HEADS, "attention.head_count"))
    encoding = _encoding(found, layer_type)
    known = next((QKV_LAYOUTS[name] for name in variants(model_type) if name in QKV_LAYOUTS), ())
    row = next((each for each in known if each.applies(keys)), None) if not is_gguf else None
    size = head_size(keys).value if encoding is None and heads else None
    return Attention(
        heads,
        _kv_heads(keys, row or QkvLayout(None), heads),
        encoding.head_dim if encoding else size,
        encoding.rotary_dim if encoding else None,
        encoding is not None and encoding.trailing,
        row.order if row else None,
        plain_name(model_type).removesuffix("_text") in GATED,
        encoding is not None or not any(not each.is_rotary and not each.part for each in found),
        found.file,
    )


def _encoding(found: ModelEncodings, layer_type: str | None) -> Encoding | None:
    """The rotary encoding whose heads all layers share; None where the model has none."""
    if layer_type is not None:
        chosen = found.one(layer_type)
        return chosen if chosen.is_rotary else None
    ropes = [each for each in found.ropes() if not each.part and "axes" not in each.extra]
    if len({(each.head_dim, each.rotary_dim, each.layout, each.trailing) for each in ropes}) > 1:
        names = ", ".join(f"{each.layer_type!r} (heads of {each.head_dim})" for each in ropes)
        advice = "name one, and its tensors with `include`"
        raise ParameterError("layer_type", "missing", f"{found.file} has layers that differ: {names}", advice)
    return ropes[0] if ropes else None


def _kv_heads(keys: Keys, row: QkvLayout, heads: int | None) -> int | None:
    within = keys.part("attn_config") if row.kv_keys else None
    found = _whole(keys, row.kv_keys) or (_whole(within, ("kv_n_heads",)) if within else None)
    return found or (heads if row.kv_default == "heads" else row.kv_default)


def _whole(keys: Keys, names: tuple[str, ...]) -> int | None:
    """A whole number; a list, with one for each layer, counts as absent."""
    known = tuple(name for name in names if not isinstance(keys.data.get(name), list))
    found = keys.whole(*known) if keys.any(*known) or len(known) == len(names) else None
    return found.value if found else None
