"""Moving the channels of turning pairs: in the rows of projection weights, head by head, or in a table's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.pair_permutation import reorder
from pecli.engine.table import Table
from pecli.engine.text import bracketed, quoted
from pecli.errors import ParameterError

_QUERY = re.compile(r"(?:^|[._])(?:q|wq|query|attn_q|q_proj|q_b_proj|q_norm|attn_q_norm|q_layernorm)(?=[._]|$)")
_KEY = re.compile(r"(?:^|[._])(?:k|wk|key|attn_k|k_proj|k_norm|attn_k_norm|k_layernorm)(?=[._]|$)")
_FUSED = re.compile(r"(?:^|[._])(?:qkv|qkv_proj|Wqkv|attn_qkv)(?=[._]|$)")


@dataclass(frozen=True)
class Heads:
    """How the rows of query and key projections are divided."""

    heads: int
    kv_heads: int | None = None
    """Key heads; as many as the keys' rows make unless given."""
    head_dim: int | None = None
    """Channels of a head; the queries' rows over the heads unless given."""
    rotary_dim: int | None = None
    """Channels of a head that turn; all of them unless given."""
    trailing: bool = False
    """Whether the channels that turn are a head's last ones, as DeepSeek has them."""

    def __post_init__(self) -> None:
        if self.kv_heads is not None and self.heads % self.kv_heads:
            rule = f"heads share keys evenly, and {self.heads} heads are no multiple of {self.kv_heads}"
            raise ParameterError("kv_heads", self.kv_heads, rule)

    def settled(self, tables: Sequence[Table]) -> Heads:
        """With everything that was left open, as the projections have it: all heads are of one size."""
        for table in tables:
            _check_rank(table)
        dim = self.head_dim or self._size(tables)
        keys = self.kv_heads or next((_rows(table) // dim for table in tables if _is(table, "k")), self.heads)
        if keys == 0 or any(_rows(table) % dim for table in tables if _is(table, "k")):
            at = next(table for table in tables if _is(table, "k"))
            raise _refusal(at, f"its rows must be heads of {dim}, as the queries have", "check `heads` and `kv_heads`")
        return replace(self, kv_heads=keys, head_dim=dim)

    def _size(self, tables: Sequence[Table]) -> int:
        """Channels of a head."""
        for kind, heads in (("q", self.heads), ("k", self.kv_heads), ("qkv", self._fused()), ("", self.heads)):
            for table in tables:
                if heads and _is(table, kind):
                    if _rows(table) % heads or not _rows(table):
                        rule = f"{_rows(table)} rows are not {heads} heads"
                        raise _refusal(table, rule, "check `heads` and `kv_heads`, or give `head_dim`")
                    return _rows(table) // heads
        advice = "give `kv_heads` or `head_dim`"
        raise ParameterError("head_dim", "missing", "no query projection tells how large a head is", advice)

    def _fused(self) -> int:
        return self.heads + 2 * (self.kv_heads or self.heads)


def role(name: str) -> str:
    """Whether a tensor's name is that of a query, a key or a fused projection: "q", "k", "qkv", or "" for none.

    >>> role("model.layers.0.self_attn.k_proj.weight"), role("model.layers.0.mlp.up_proj.weight")
    ('k', '')
    """
    if _FUSED.search(name):
        return "qkv"
    return "q" if _QUERY.search(name) else "k" if _KEY.search(name) else ""


def in_heads(table: Table, layout: Heads, source: str, target: str) -> Table:
    """A projection's weight or bias with the rows of every head in another order."""
    _check_rank(table)
    if layout.head_dim is None or layout.kv_heads is None:
        layout = layout.settled([table])
    head_dim, keys = layout.head_dim or 1, layout.kv_heads or 1
    kind, heads = role(table.name), _rows(table) // head_dim
    moving = layout.heads + keys if kind == "qkv" else keys if kind == "k" else layout.heads
    whole = moving + keys if kind == "qkv" else moving
    if _rows(table) % head_dim or heads not in ({whole, 1} if "norm" in table.name else {whole}):
        rule = f"{whole} heads of {head_dim} have {whole * head_dim} rows"
        raise _refusal(table, rule, "check `heads`, `kv_heads` and `head_dim`")
    return _rows_moved(table, head_dim, _turning(table, layout, head_dim, source, target), min(moving, heads))


def _check_rank(table: Table) -> None:
    if len(table.shape) not in (1, 2):
        raise _refusal(table, "a projection is (rows, inputs), its bias (rows,)")


def _rows(table: Table) -> int:
    return table.shape[0] if table.shape else 0


def _is(table: Table, kind: str) -> bool:
    """Whether it is a projection of that kind; a norm's weights may be those of one head."""
    return role(table.name) == kind and "norm" not in table.name


def _turning(table: Table, layout: Heads, head_dim: int, source: str, target: str) -> Indices:
    """The order of a head's rows."""
    turning = head_dim if layout.rotary_dim is None else layout.rotary_dim
    if turning % 2 or not 0 < turning <= head_dim:
        rule = f"channels turn in pairs, at most the {head_dim} of a head"
        raise ParameterError("rotary_dim", turning, rule, f"{quoted(table.name)} is {bracketed(table.shape)}")
    order = np.arange(head_dim)
    first = head_dim - turning if layout.trailing else 0
    order[first : first + turning] = first + reorder(turning, source, target)
    return order


def _rows_moved(table: Table, head_dim: int, order: Indices, heads: int) -> Table:
    """The table with the rows of its first heads in that order, read a few whole heads at a time."""

    def fill(start: int, out: Array) -> None:
        moving = min(len(out), max(0, heads * head_dim - start))
        if moving:
            first, last = start // head_dim, -(-(start + moving) // head_dim)
            read = table.read(first * head_dim, last * head_dim)
            rows = np.arange(start, start + moving)
            out[:moving] = read[rows // head_dim * head_dim - first * head_dim + order[rows % head_dim]]
        if moving < len(out):
            table.fill(start + moving, out[moving:])

    return replace(table, fill=fill)


def in_columns(table: Table, source: str, target: str, rotary_dim: int | None, trailing: bool = False) -> Table:
    """A table with the columns of its last axis in another order."""
    width = table.shape[-1] if table.shape else 0
    if len(table.shape) < 2:
        raise _refusal(table, "a table has rows and columns", "give `heads` to convert a bias")
    order = _turning(table, Heads(1, rotary_dim=rotary_dim, trailing=trailing), width, source, target)

    def fill(start: int, out: Array) -> None:
        np.take(table.read(start, start + len(out)), order, axis=1, out=out)

    return replace(table, fill=fill)


def layers(names: Sequence[str]) -> list[tuple[str, str]]:
    """Which query projection goes with which key projection: weights whose names differ in that alone."""
    keys = {_KEY.sub("", name): name for name in names if role(name) == "k"}
    found = ((name, keys.get(_QUERY.sub("", name))) for name in names if role(name) == "q")
    return [(query, key) for query, key in found if key is not None]


def _refusal(table: Table, rule: str, advice: str = "") -> ParameterError:
    return ParameterError(f"the tensor {quoted(table.name)}", bracketed(table.shape), rule, advice)
