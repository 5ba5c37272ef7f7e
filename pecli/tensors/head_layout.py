"""Division of query and key projections into heads, and moves of their pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.engine.application import reorder
from pecli.engine.arrays import Array, Indices
from pecli.engine.named_values import required
from pecli.errors import ParameterError, bracketed, counted, quoted
from pecli.tensors.inputs import Input
from pecli.tensors.projections import Projection, projection


class FusedOrder(NamedTuple):
    """The order of heads in a tensor of q, k and v: equal groups, each with a share of all three.

    Attributes:
        groups: the number of groups; None for one per key head.
        parts: the order of q, k and v in a group.
        words: the order in words; {queries} is the queries per key head, {head} a kind of head.
    """

    groups: int | None
    parts: str
    words: str


ORDERS = {
    "blocks": FusedOrder(1, "qkv", "rows q of all heads, then k, then v"),
    "groups": FusedOrder(None, "qkv", "rows {queries}q, k, v of each {head}"),
    "codegen": FusedOrder(4, "qvk", "rows q of all heads, then v, then k, in each of 4 shards"),
}
"""With 4 heads and 2 key heads, `blocks` is qqqqkkvv (Phi-3) and `groups` is qqkvqqkv: the queries
that share a key head, that key and its value (GPT-NeoX, BLOOM, Falcon). `codegen` with 4 heads and
4 key heads is qvkqvkqvkqvk: its four model-parallel shards."""


class Move(NamedTuple):
    """A permutation of a tensor along one axis.

    Attributes:
        axis: 0 for rows of a projection, -1 for columns of a table.
        order: the old index at every new index: 0 2 1 3 exchanges rows 1 and 2.
        channels: the order of channels within each head that moves.
        heads: the heads of the tensor that move.
    """

    axis: int
    order: Indices
    channels: Indices
    heads: Array | slice


@dataclass(frozen=True)
class HeadDivision:
    """The division of query and key projections into heads; None if nothing states it.

    Attributes:
        heads: the number of query heads.
        kv_heads: the number of key heads.
        head_dim: the channels of a head.
        rotary_dim: the channels of a head that rotate; None if nothing is known to rotate.
        trailing: whether the last channels of a head rotate, as in DeepSeek, not the first.
        fused: the order of rows in fused projections whose names do not imply it: one of ORDERS.
        gated: whether query projections hold an output gate after each head's query.
        rotates: False for a model with another encoding, such as ALiBi: any order is right.
        model: the model that states them; empty if the command line does.
        given: names of the fields that the command line adds to those of the model.
    """

    heads: int
    kv_heads: int | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    trailing: bool = False
    fused: str | None = None
    gated: bool = False
    rotates: bool = True
    model: str = ""
    given: tuple[str, ...] = ()

    @property
    def key_heads(self) -> int:
        """The number of key heads: as many as query heads, unless it is stated."""
        return self.kv_heads or self.heads

    def __post_init__(self) -> None:
        """Raise ParameterError unless as many query heads share each key head."""
        if self.kv_heads is not None and self.heads % self.kv_heads:
            multiple = f"{self.heads} heads are not a multiple of {self.kv_heads}"
            rule = f"heads share keys evenly, and {multiple}"
            raise ParameterError("kv_heads", self.kv_heads, rule)

    def completed(self, weights: Sequence[Input]) -> "HeadDivision":
        """Return this division with `head_dim` and `kv_heads`, computed from the rows of weights.

        If 4 query heads have 64 rows, head_dim is 64 / 4 = 16. If the keys then have 32 rows, there
        are 32 / 16 = 2 key heads. Sizes that are known already are kept. A remainder is ignored here:
        `move` refuses rows that are not whole heads of these sizes.

        Raises:
            ParameterError: A weight is no projection, or does not imply the sizes.
        """
        measurable = [weight for weight in weights if self._has_rows_of_each_head(weight)]
        # The number of query heads is known: they imply the size of a head, which the number of key
        # heads follows from.
        queries_first = sorted(
            measurable, key=lambda weight: self.projection_of(weight).kind != "q"
        )
        head_dim = self.head_dim or self._implied_head_dim(queries_first)
        kv_heads = self.kv_heads or self._implied_kv_heads(queries_first, head_dim)
        return replace(self, head_dim=head_dim, kv_heads=kv_heads)

    def _has_rows_of_each_head(self, weight: Input) -> bool:
        """Return True unless a weight is a norm, or a latent key: these may be shared by all heads."""
        named = self.projection_of(weight)
        return not named.norm and named.kind != "latent"

    def _implied_head_dim(self, weights: Sequence[Input]) -> int:
        """Return the channels of a head: the rows of a projection, divided by the heads in it.

        64 rows of queries with 4 query heads are heads of 64 / 4 = 16 channels.

        Args:
            weights: Projections, those of queries first. The first one is used.

        Raises:
            ParameterError: There is no projection, or the number of its heads is not known.
        """
        if not weights:
            rule = "cannot infer head_dim without a query projection"
            raise ParameterError("head_dim", "missing", rule, "give `kv_heads` or `head_dim`")
        first = weights[0]
        head_count = len(self.head_letters(first))
        has_keys = self.projection_of(first).kind != "q"
        if has_keys and self.kv_heads is None:
            rule = f"{first} holds keys of {counted(self.heads, 'head')}"
            advice = "give `kv_heads` or `head_dim`, or the model with `config`"
            raise ParameterError("kv_heads", "missing", rule, advice)
        return max(1, _rows(first) // head_count)

    def _implied_kv_heads(self, weights: Sequence[Input], head_dim: int) -> int:
        """Return the number of key heads that the rows of the first projection with keys imply.

        With heads of 8 channels, 16 rows of keys are 2 heads. Without keys, there are as many key
        heads as query heads.
        """
        for weight in weights:
            kind = self.projection_of(weight).kind
            if kind == "q":
                continue
            count = _rows(weight) // head_dim
            if kind == "qkv":
                # There are as many values as keys: of 12 heads, 8 of them queries, 4 are left, which
                # are 2 keys and 2 values.
                count = (count - self.heads) // 2
            if count < 1 or self.heads % count:
                heads = counted(self.heads, "head")
                rule = (
                    f"{_rows(weight)} rows hold no keys of {head_dim} rows that {heads} can share"
                )
                raise weight.wrong(rule, self._advice)
            return count
        return self.heads

    def projection_of(self, weight: Input) -> Projection:
        """Return what the weight's name states.

        A weight with another name is fused if an order is given, else a query.
        """
        default = Projection("qkv" if self.fused else "q", weight.name)
        return projection(weight.name) or default

    def fused_order_of(self, weight: Input) -> str:
        """Return the order of q, k and v in a fused projection: one of ORDERS.

        The command line overrides the name, which overrides the model. ggml's `attn_qkv` is in
        blocks whatever the model is; `query_key_value` has another order in every family.

        Raises:
            ParameterError: None of them states an order.
        """
        is_from_command_line = not self.model or "fused" in self.given
        if is_from_command_line and self.fused:
            return self.fused
        order = self.projection_of(weight).order or self.fused
        if order is None:
            raise self._unknown_order(weight)
        return order

    def _unknown_order(self, weight: Input) -> ParameterError:
        """Return the error for a fused projection whose order of q, k and v nothing states."""
        advice = f"give `fused` ({', '.join(ORDERS)})"
        if self.model:
            reason = f"neither its name nor {self.model} tells"
        else:
            reason = "its name does not tell"
            advice += ", or the model with `config`"
        rule = f"{weight} holds q, k and v in an order that {reason}"
        return ParameterError("fused", "missing", rule, advice)

    def head_letters(self, weight: Input) -> str:
        """Return a letter for each head in a projection: q, k, v, or g for an output gate.

        A fused projection of 2 query heads and 1 key head is "qqkv". Two query heads with a gate after
        each (Qwen3-Next) are "qgqg".
        """
        named = self.projection_of(weight)
        if named.kind == "qkv":
            return self._letters_of_fused_heads(self.fused_order_of(weight), self.key_heads)
        has_gates = self.gated and not named.norm  # Gates are not normalised.
        letters_by_kind = {
            "q": ("qg" if has_gates else "q") * self.heads,
            "k": "k" * self.key_heads,
            "latent": "k",  # DeepSeek's rotary key is one that all heads share.
        }
        return letters_by_kind[named.kind]

    def _letters_of_fused_heads(self, name: str, kv_heads: int) -> str:
        """Return a letter for each head of a fused projection, in one of ORDERS.

        With 4 heads and 2 key heads, the order `groups` has 2 groups of 2 queries, a key and a value
        each: qqkvqqkv.
        """
        order = ORDERS[name]
        groups = order.groups or kv_heads
        if kv_heads % groups:
            shares = f"{self.heads} heads and {kv_heads} key heads cannot share evenly"
            raise ParameterError("fused", name, f"it has {groups} groups, which {shares}")
        queries_per_group = self.heads // groups
        keys_per_group = kv_heads // groups
        heads_per_group = {"q": queries_per_group, "k": keys_per_group, "v": keys_per_group}
        slots_of_group = "".join(part * heads_per_group[part] for part in order.parts)
        return slots_of_group * groups

    @property
    def _advice(self) -> str:
        if self.model:
            return f"pick the tensors of {self.model} with `include`"
        return "check `heads`, `kv_heads` and `head_dim`"

    def description(self, weights: Sequence[Input]) -> str:
        """Return a phrase on how some weights are divided into heads, which reports show.

        For example «4 heads of 8, the first 4 of 8 channels, 2 kv heads, rows q or k of each head».
        """
        sizes = self._described_sizes()
        keys = self._described_keys(weights)
        row_orders = "; ".join(sorted(set(map(self._described_rows, weights))))
        return f"{sizes}, {keys}, {row_orders}"

    def _described_keys(self, weights: Sequence[Input]) -> str:
        """Return the number of key heads: «2 kv heads»."""
        has_latent_key = any(self.projection_of(weight).kind == "latent" for weight in weights)
        if has_latent_key:  # DeepSeek compresses all keys to one.
            return "1 key that all heads share"
        return counted(required(self.kv_heads), "kv head")

    def _described_rows(self, weight: Input) -> str:
        """Return the order of a weight's rows: «rows q or k of each head».

        Fused projections hold q, k and v of all heads, in one of ORDERS. Others hold only one of
        them, and in a model with gates a gate after each query.
        """
        if self.projection_of(weight).kind == "qkv":
            return self._described_order(self.fused_order_of(weight))
        rows_of_head = "q, gate" if self.gated else "q or k"
        return f"rows {rows_of_head} of each head"

    def _described_sizes(self) -> str:
        """Return the heads and their rotary channels: «4 heads of 8, the first 4 of 8 channels»."""
        head_dim = required(self.head_dim)
        rotary_dim = self.rotary_dim or head_dim
        words = f"{counted(self.heads, 'head')} of {head_dim}"
        if rotary_dim < head_dim:
            side = "last" if self.trailing else "first"
            words += f", the {side} {rotary_dim} of {head_dim} channels"
        if not self.rotates:
            words += ", none of which the model rotates"
        return words

    def _described_order(self, order: str) -> str:
        """Return one of ORDERS in words: «rows 2 q, k, v of each kv head»."""
        sharing = self.heads // required(self.kv_heads)
        if sharing > 1:
            return ORDERS[order].words.format(head="kv head", queries=f"{sharing} ")
        return ORDERS[order].words.format(head="head", queries="")

    def fused_orders(self, weights: Sequence[Input]) -> set[str]:
        """Return the orders of q, k and v in the fused projections among some weights."""
        return {
            self.fused_order_of(weight)
            for weight in weights
            if self.projection_of(weight).kind == "qkv"
        }

    def move(self, weight: Input, source: str, target: str) -> Move:
        """Return how a projection's rows move from one pair layout to another.

        Only queries and keys rotate, so that the rows of their rotary channels move, and those of
        values stay. From interleaved to halves, a fused projection of a query, a key and a value of
        4 rows each gets its old rows in the order 0 2 1 3, 4 6 5 7, 8 9 10 11.

        Args:
            weight: The projection, or its bias or norm.
            source: The pair layout that it has, such as `interleaved`.
            target: The pair layout that it gets.
        """
        heads = self.completed([weight])
        if heads._is_norm_of_each_head(weight):
            return move_in_columns(weight, source, target, self.rotary_dim, self.trailing)
        return heads._move_of_rows(weight, source, target)

    def _move_of_rows(self, weight: Input, source: str, target: str) -> Move:
        """Return the move of a projection whose rows are one head after the other.

        The sizes of all heads must be known. From interleaved to halves, 2 heads of 4 rows get their
        old rows in the order 0 2 1 3, 4 6 5 7.

        Args:
            weight: The projection, or its bias or norm.
            source: The pair layout that it has.
            target: The pair layout that it gets.
        """
        row_count = _rows(weight)
        head_rows = self._rows_of_a_head(weight)
        is_rotated = self._are_rotated(weight, head_rows)  # (heads,)
        channels = _rotary_order(weight, head_rows, source, target, self.rotary_dim, self.trailing)
        old_rows = np.arange(row_count).reshape(-1, head_rows)  # (heads, rows of a head)
        new_order = old_rows.copy()
        new_order[is_rotated] = old_rows[is_rotated][:, channels]
        return Move(axis=0, order=new_order.reshape(-1), channels=channels, heads=is_rotated)

    def _are_rotated(self, weight: Input, head_rows: int) -> Array:
        """Return True for each head of a projection whose rows are a query or a key: (heads,).

        A norm that all heads share (Qwen3) has the rows of one head, but a letter for each of them:
        only the first letter counts.
        """
        head_letters = self._checked_head_letters(weight, head_rows)
        heads = _rows(weight) // head_rows
        return np.isin(list(head_letters), ["q", "k"])[:heads]

    def _is_norm_of_each_head(self, weight: Input) -> bool:
        """Return True for the norm of queries or keys as (heads, head_dim), as Cohere has it.

        The channels of a head are its columns, not rows as in a projection (heads · head_dim, inputs).
        """
        return self.projection_of(weight).norm and weight.shape[1:] == (self.head_dim,)

    def _rows_of_a_head(self, weight: Input) -> int:
        """Return how many rows of a projection belong to one head.

        The latent key of DeepSeek is one head of its own size, whatever the others have: 512 rows of
        a compressed key and value, and then the 64 rows of the rotary key that all heads share.
        """
        if self.projection_of(weight).kind == "latent":
            self._check_latent(weight)
            return _rows(weight)
        assert self.head_dim is not None  # `move` has completed the sizes.
        return self.head_dim

    def _checked_head_letters(self, weight: Input, head_rows: int) -> str:
        """Return the letters of a projection's heads, such as "qqkv"; refuse rows that do not fit.

        Each letter needs `head_rows` rows. The norm of queries or keys may have the rows of a single
        head, which all heads share (Qwen3).
        """
        rows = _rows(weight)
        named = self.projection_of(weight)
        head_letters = self.head_letters(weight)
        is_shared_norm = named.norm and rows == head_rows
        if rows != len(head_letters) * head_rows and not is_shared_norm:
            raise self._wrong_rows(weight, named.kind, len(head_letters), head_rows)
        return head_letters

    def _check_latent(self, weight: Input) -> None:
        """Raise ParameterError unless the rotary rows of a latent key are known to be its last."""
        if self.trailing and self.rotary_dim:
            return
        rule = f"{weight} keeps its rotary key in its last rows"
        advice = "give `rotary_dim` and `trailing`, or the model with `config`"
        raise ParameterError("rotary_dim", "missing", rule, advice)

    def _wrong_rows(self, weight: Input, kind: str, count: int, size: int) -> ParameterError:
        """Return the error for a projection whose rows are not `count` heads of `size` rows.

        Options of the command line are named, so that their sizes are not taken for the model's:
        «config.json with `kv_heads` 1 has 6 q, k and v heads of 8, that is 48 rows».
        """
        contents = {"qkv": "q, k and v heads", "q": "heads", "k": "key heads"}[kind]
        heads = f"{count} {contents} of {size}"
        if not self.model:
            return weight.wrong(f"{_rows(weight)} rows are not {heads}", self._advice)
        fields = vars(self)
        options = " and ".join(f"`{name}` {fields[name]}" for name in self.given)
        source = f"{self.model} with {options}" if options else self.model
        return weight.wrong(f"{source} has {heads}, that is {count * size} rows", self._advice)


def _rows(weight: Input) -> int:
    if len(weight.shape) not in (1, 2):
        raise weight.wrong("a projection is (rows, inputs), its bias (rows,)")
    return weight.shape[0]


def move_in_columns(
    weight: Input, source: str, target: str, rotary_dim: int | None, trailing: bool
) -> Move:
    """Return how the columns of a table move from one pair layout to another."""
    if len(weight.shape) < 2:
        raise weight.wrong("a table has rows and columns", "give `heads` to convert a bias")
    channels = _rotary_order(weight, weight.shape[-1], source, target, rotary_dim, trailing)
    all_heads = slice(None)
    return Move(axis=-1, order=channels, channels=channels, heads=all_heads)


def first_rotary_channel(channels: int, rotary_dim: int, trailing: bool) -> int:
    """Return the first of the channels of a head that rotate: 4 if they are the last 2 of 6."""
    return channels - rotary_dim if trailing else 0


def _rotary_order(
    weight: Input, size: int, source: str, target: str, rotary_dim: int | None, trailing: bool
) -> Indices:
    """Return the old channel at every new channel of a head.

    From interleaved to halves, with the first 4 of 6 channels rotating: 0 2 1 3 4 5. With the last
    4 rotating: 0 1 2 4 3 5.

    Args:
        weight: The tensor, for the message of an error.
        size: The channels of a head.
        source: The pair layout that it has.
        target: The pair layout that it gets.
        rotary_dim: The channels that rotate; None for all.
        trailing: True if the last channels rotate, not the first.
    """
    if rotary_dim is None:
        rotary_dim = size
    are_pairs_of_head = 0 < rotary_dim <= size and rotary_dim % 2 == 0
    if not are_pairs_of_head:
        rule = f"channels rotate in pairs, at most the {size} of a head"
        shape = f"{quoted(weight.name)} is {bracketed(weight.shape)}"
        raise ParameterError("rotary_dim", rotary_dim, rule, shape)
    first = first_rotary_channel(size, rotary_dim, trailing)
    end = first + rotary_dim
    old_channels = np.arange(size)  # Channels that do not rotate stay in their places.
    old_channels[first:end] = first + reorder(rotary_dim, source, target)
    return old_channels
