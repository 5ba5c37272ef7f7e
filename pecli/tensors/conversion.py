"""Tensors on their way to another layout or dtype, and the check of their attention scores."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pecli.engine.application import rotate
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    Array,
    Complex,
    Floats,
    dtype_name,
    round_to,
    widened,
)
from pecli.engine.named_values import required
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, quoted
from pecli.tensors.head_layout import HeadDivision, Move, first_rotary_channel
from pecli.tensors.inputs import Input
from pecli.tensors.projections import projection, weight_of

MAX_SCORE_CHANGE = 1e-9  # relative to the largest score: what float64 arithmetic may lose
_POSITIONS = np.array([0, 3, 17, 1000])
"""Positions, near and far, of the random inputs whose attention scores must not change."""
_BASE = 10000.0  # of the rotation in the check; any other would do


class ScoreCheck(NamedTuple):
    """The result of a check of attention scores.

    Attributes:
        change: the largest change, relative to the largest score; infinite if it is not finite.
        layers: the number of layers that were checked.
        unpaired: tensors that moved and were not checked: their layers lack queries or keys.
    """

    change: float
    layers: int
    unpaired: list[str]

    @property
    def passed(self) -> bool:
        return self.change < MAX_SCORE_CHANGE


@dataclass(frozen=True, eq=False)
class Converted:
    """A planned conversion: tensors, and what is done to each when it is read.

    Attributes:
        arrays: the tensors as they are.
        moves: how some of them move, by name.
        source: the pair layout that they have.
        target: the pair layout that they get.
        heads: how projections are divided; None if columns of tables move.
        dtype: the dtype that floating tensors get; None to keep theirs.
    """

    arrays: Mapping[str, Array]
    moves: Mapping[str, Move]
    source: str
    target: str
    heads: HeadDivision | None
    dtype: str | None

    @cached_property
    def cast(self) -> list[str]:
        """The tensors whose dtype changes: floating ones, except for float8.

        Tensors of eight bits have scales beside them, without which their numbers mean nothing.
        """
        if self.dtype is None:
            return []
        return [name for name, array in self.arrays.items() if self._is_cast(array)]

    def _is_cast(self, array: Array) -> bool:
        dtype = dtype_name(array.dtype)
        return dtype in SIGNIFICAND_BITS and dtype != self.dtype

    @property
    def moved(self) -> list[Input]:
        return [weight_of(name, self.arrays[name]) for name in self.moves]

    def table(self, name: str) -> Table:
        """Return a tensor in its new layout and dtype, as a table that is computed when written.

        A checkpoint may be larger than memory: the function `fill` reorders and rounds only one
        block of rows at a time.
        """
        unconverted = table_of(name, self.arrays[name])
        rows = self.arrays[name].reshape(unconverted.rows, unconverted.width)
        move = self.moves.get(name)  # the new order of its rows or columns; None if they stay
        dtype = required(self.dtype) if name in self.cast else unconverted.dtype

        def fill(start: int, out: Array) -> None:
            """Write the converted rows from `start` on into `out`."""
            block = _rows_in_new_order(rows, move, slice(start, start + len(out)))
            out[...] = block if dtype == unconverted.dtype else round_to(widened(block), dtype)

        return replace(unconverted, dtype=dtype, fill=fill)

    def array(self, name: str) -> Array:
        """Return a converted tensor in memory; one that does not change is not copied."""
        if name in self.cast or name in self.moves:
            return self.table(name).array()
        return self.arrays[name]

    def check(self) -> ScoreCheck:
        """Compare attention scores before and after, for layers with both queries and keys.

        Scores stay the same if every query and key, rotated in its new layout, is as before except
        for one order of channels that all of them share. So each tensor of a layer can be checked
        alone, if the whole layer moved.
        """
        heads = self._heads_of_moves()
        moved = {weight.name: heads.projection_of(weight) for weight in self.moved}
        self._refuse_partial_layers({named.layer for named in moved.values()})
        paired = self._paired_layers(heads)
        unpaired = [name for name, named in moved.items() if named.layer not in paired]
        checked = moved.keys() - {*unpaired}
        return ScoreCheck(self._largest_change(checked, heads), len(paired), unpaired)

    def _heads_of_moves(self) -> HeadDivision:
        """Return how the moving projections are divided; refuse to check anything else."""
        if self.heads is not None and self.moves:
            return self.heads
        rule = "scores are those of projections that move"
        advice = "give `from`, `to` and `heads`, or the model with `config`"
        raise ParameterError("check", "given", rule, advice)

    def _largest_change(self, names: Collection[str], heads: HeadDivision) -> float:
        """Return the largest change of some tensors; infinity if one is not a finite number."""
        with np.errstate(invalid="ignore", over="ignore"):  # Weights may not be finite.
            changes = [self._relative_change(name, heads) for name in names]
        return float(np.nan_to_num(changes, nan=np.inf, posinf=np.inf).max())

    def _refuse_partial_layers(self, layers: Collection[str]) -> None:
        """Refuse layers of which some queries or keys moved and others did not.

        If the `q_proj` of layer 3 moved and its `k_proj` did not, their pairs of channels differ.

        Args:
            layers: The layers of tensors that moved.
        """
        for name in self.arrays:
            named = projection(name)
            is_in_layer = named is not None and named.layer in layers
            if is_in_layer and name not in self.moves:
                others = "other tensors of its layer did, so that scores change"
                rule = f"{quoted(name)} did not move, and {others}"
                raise ParameterError("check", "given", rule, "name it with `include`, too")

    def _paired_layers(self, heads: HeadDivision) -> set[str]:
        """Return the layers with weights of both queries and keys; there must be one.

        A fused projection (qkv) has both. Norms and biases are not weights.
        """
        letters_by_layer: dict[str, set[str]] = {}
        for weight in self.moved:
            named = heads.projection_of(weight)
            is_matrix = len(weight.shape) == 2  # (rows, inputs), not a bias
            if is_matrix and not named.norm:
                letters = letters_by_layer.setdefault(named.layer, set())
                letters.update(heads.head_letters(weight))
        paired = {layer for layer, letters in letters_by_layer.items() if letters >= {"q", "k"}}
        if not paired:
            rule = "there are no query and key weights that go together"
            raise ParameterError("check", "given", rule, "convert unchecked")
        return paired

    def _relative_change(self, name: str, heads: HeadDivision) -> float:
        """Return the largest change of a tensor's rotated heads for random inputs.

        The heads before the conversion are rotated in the old pair layout, and their channels are
        then put into the new order. The converted heads, rotated in the new layout, must be the same.
        The change is relative to the largest number.

        Args:
            name: The tensor, one of those that move.
            heads: Which channels of a head rotate.
        """
        move = self.moves[name]
        unconverted = table_of(name, self.arrays[name])
        before = _rotated_heads(unconverted, move, heads, self.source)
        expected = before[..., move.channels]  # (heads, positions, channels)
        after = _rotated_heads(self.table(name), move, heads, self.target)
        largest_change = np.abs(after - expected).max(initial=0)
        largest_number = np.abs(expected).max(initial=0)
        if largest_number == 0:  # All weights are 0: any change counts as it is.
            return float(largest_change)
        return float(largest_change / largest_number)


def _rotated_heads(table: Table, move: Move, division: HeadDivision, layout: str) -> Floats:
    """Return the rotated queries or keys (heads, positions, channels) of random inputs.

    A projection makes them of one random input per position. Every call has the same inputs, so that
    a right conversion changes only the order of channels.

    Args:
        table: A projection (heads · channels, inputs). A bias or a norm (heads · channels,) counts
            as a projection of one input.
        move: The heads that the conversion reorders, and the new order of their channels.
        division: The channels of a head that rotate.
        layout: The layout of pairs in the table.
    """
    vectors = _projected_random_inputs(table, move)  # (heads, positions, channels)
    head_dim = len(move.channels)
    rotary_dim = division.rotary_dim or head_dim  # All channels, unless the division states it.
    factors = _rotation_factors(rotary_dim)  # (positions, pairs)
    return rotate(
        vectors,
        # `rotate` calls this with the start and the stop of each block of positions.
        lambda start, stop: factors[start:stop],
        layout_before=layout,
        layout_after=layout,
        first_channel=first_rotary_channel(head_dim, rotary_dim, division.trailing),
    )


def _projected_random_inputs(table: Table, move: Move) -> Floats:
    """Return the moving heads that a projection makes of random inputs.

    The rows of a projection are those of one head after the other. A projection of 2 heads of 64 rows
    makes (128, positions), of which the heads are (2, positions, 64).
    """
    products = _random_products(table, move)  # (heads · channels, positions)
    head_dim = len(move.channels)
    channels_by_head = products.reshape(-1, head_dim, len(_POSITIONS))
    moving_heads = channels_by_head[move.heads]  # (heads, channels, positions)
    return moving_heads.swapaxes(1, 2)


def _rotation_factors(rotary_dim: int) -> Complex:
    """Return the factors e^(i·position·frequency) of the check, (positions, pairs)."""
    frequencies = _BASE ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    return np.exp(1j * np.outer(_POSITIONS, frequencies))


def _random_products(table: Table, move: Move) -> Floats:
    """Return a projection of one random input per position, (rows, positions).

    A bias, or a norm with a row per head, is multiplied by one random number per position. The seed
    is the number of inputs, so that they are the same before and after a conversion.

    Args:
        table: A projection (rows, inputs), or a bias or norm.
        move: How it moves: along axis 0 if it is a projection.
    """
    input_count = table.width if move.axis == 0 else 1
    generator = np.random.default_rng(input_count)
    inputs = generator.standard_normal((input_count, len(_POSITIONS)))
    products = [widened(block).reshape(-1, input_count) @ inputs for block in table.blocks()]
    return np.concatenate(products)


def _rows_in_new_order(rows: Array, move: Move | None, places: slice) -> Array:
    """Return some rows of a tensor whose rows or columns were put into a new order.

    Args:
        rows: All rows of the tensor as it is.
        move: The new order; None if the tensor stays as it is.
        places: The rows of the result.
    """
    if move is None:
        return rows[places]
    if move.axis == 0:
        return rows[move.order[places]]
    return np.take(rows[places], move.order, axis=1)
