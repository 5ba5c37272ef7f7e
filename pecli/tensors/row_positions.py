"""Positions of the rows of a tensor: consecutive ones, or ids, also of a batch or of several axes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pecli.engine.arrays import numbers
from pecli.engine.named_values import MutableValues, required, without_none
from pecli.engine.schemes.given_positions import LAST_POSITION, whole_positions
from pecli.engine.schemes.parameters import Whole
from pecli.errors import ParameterError
from pecli.tensors.inputs import Input

OFFSET = Whole(
    help="the position, or the row of a table, for the first row", low=0, high=LAST_POSITION
)
SHIFT = Whole(help="positions to move by", low=-LAST_POSITION, high=LAST_POSITION)

STATED_ROWS = frozenset({"positions", "grid"})
"""Parameters of a rope that state its rows, so that they are not 0, 1, 2, …"""

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


def given_options(**options: object) -> MutableValues:
    """Return the options that were given: all except None, and flags that are not set."""
    return {name: value for name, value in without_none(options).items() if value is not False}


class TensorPositions(NamedTuple):
    """The positions of a tensor's rows, and which of them are padding."""

    ids: Ids  #: (axes, batch, L); batch may be 1
    is_token: Mask  #: (batch, L): False for padding


def count_of_tokens(elements: int, is_token: Mask) -> int:
    """Return how many elements of a tensor belong to tokens, and not to padding.

    >>> count_of_tokens(30, np.array([[False, True, True], [True, True, True]]))
    25

    Args:
        elements: The elements of the tensor, as many for each row.
        is_token: False for rows of padding, (batch, L); batch may be 1.
    """
    return elements * int(np.count_nonzero(is_token)) // max(1, is_token.size)


def note_on_padding(is_token: Mask) -> str:
    """Return the note on rows that are not compared, «7 rows of padding not compared»; empty without any."""
    row_count = np.count_nonzero(~is_token)
    return f"{row_count:,} rows of padding not compared" if row_count else ""


@dataclass(frozen=True, eq=False)
class RowPositions:
    """Positions from `offset` on, or those in `ids`.

    Attributes:
        offset: the position of the first row.
        ids: (L,), (batch, L), or for several axes (axes, L) or (axes, batch, L).
        name: the parameter that they come from.
        is_token: False for padding, if they come from an attention mask.
    """

    offset: int = 0
    ids: Ids | None = None
    name: str = "positions"
    is_token: Mask | None = None

    def span(self, length: int) -> tuple[int, int]:
        """Return the first position and the one after the last, for `length` rows."""
        if self.ids is None:
            return self.offset, self.offset + length
        if not self.ids.size:
            return 0, 0
        return int(self.ids.min()), int(self.ids.max()) + 1

    def table_rows(self, length: int, rope_parameters: Collection[str]) -> int | None:
        """Return how many rows cos and sin tables need for all these positions.

        Args:
            length: The number of positions if they are consecutive.
            rope_parameters: The names of parameters that were given. With `positions` or `grid`,
                these state the rows, and None is returned.
        """
        if not STATED_ROWS.isdisjoint(rope_parameters):
            return None
        if self.ids is not None:
            _, length = self.span(length)
        return max(1, length)

    def arranged(self, axes: int) -> Ids | None:
        """Return the ids as (axes, batch, L), in which axes and batch may be 1.

        For three axes, ids of shape (3, 10) are one sequence and become (3, 1, 10); for one axis
        they are a batch of three and become (1, 3, 10).
        """
        ids = self.ids
        if ids is None:
            return None
        # M-RoPE's ids have one row per axis, or one row for all of them.
        begins_with_axes = axes > 1 and ids.shape[:1] in ((1,), (axes,))
        match ids.ndim:
            case 1:  # (L,)
                return ids[None, None]
            case 2 if axes == 1:  # (batch, L)
                return ids[None]
            case 2 if begins_with_axes:  # (axes, L)
                return ids[:, None]
            case 3 if begins_with_axes:  # (axes, batch, L)
                return ids
        raise self._wrong(f"they must be {_allowed_shapes(axes)}")

    def positions_of(self, tensor: Input, seq_axis: int, axes: int = 1) -> TensorPositions:
        """Return the positions of a tensor's rows, (axes, batch, L).

        For (8, 3, 10, 64) and an offset of 5 these are 5 … 14, (1, 1, 10), for all sequences.

        Args:
            tensor: The tensor.
            seq_axis: Its axis of positions.
            axes: The axes of a position: 3 for M-RoPE (time, row, column).

        Raises:
            ParameterError: the ids do not fit the tensor.
        """
        ids = self.arranged(axes)
        if ids is None:
            ids = self._consecutive(tensor, tensor.shape[seq_axis])
        _, batch, length = ids.shape
        self._check_fit(tensor, seq_axis, batch, length)
        is_token = self.tokens_of((batch, length))
        return TensorPositions(np.broadcast_to(ids, (axes, batch, length)), is_token)

    def tokens_of(self, batch_shape: tuple[int, ...]) -> Mask:
        """Return False for padding, (batch, L); all are tokens unless there is an attention mask."""
        if self.is_token is None:
            return np.ones(batch_shape, bool)
        return self.is_token.reshape(batch_shape)

    def _consecutive(self, tensor: Input, rows: int) -> Ids:
        """Return the positions offset, offset + 1, … of some rows, as (1, 1, rows)."""
        if self.offset + rows - 1 > LAST_POSITION:
            rule = f"with {tensor.label} of shape {tensor.shape} it goes beyond 2^40"
            raise ParameterError("offset", self.offset, rule)
        return np.arange(self.offset, self.offset + rows)[None, None]

    def _check_fit(self, tensor: Input, seq_axis: int, batch: int, length: int) -> None:
        """Raise ParameterError unless ids (batch, length) fit a tensor.

        A batch of ids needs a batch in the tensor, which is its first axis: positions cannot be
        there then.
        """
        if length != tensor.shape[seq_axis]:
            raise self._wrong_length(tensor, seq_axis, length)
        shape = f"{tensor.label} is of shape {tensor.shape}"
        positions_are_first = seq_axis % len(tensor.shape) == 0
        if batch != 1 and (positions_are_first or batch != tensor.shape[0]):
            raise self._wrong(shape, "the first axis of both must agree")

    def _wrong_length(self, tensor: Input, seq_axis: int, length: int) -> ParameterError:
        """Return the error for `length` ids and a tensor of another number of rows.

        (batch, L, heads, D) instead of (batch, heads, L, D) is the usual reason.
        """
        rows = tensor.shape[seq_axis]
        rule = f"{tensor.label} is of shape {tensor.shape}, with L = {rows} rows"
        is_before_heads = tensor.shape[-3:-2] == (length,)
        return self._wrong(rule, "give `seq_axis` -3" if is_before_heads else "")

    def _wrong(self, rule: str, advice: str = "") -> ParameterError:
        return ParameterError(self.name, f"of shape {required(self.ids).shape}", rule, advice)


def _allowed_shapes(axes: int) -> str:
    if axes > 1:
        return f"(L,), (axes, L) or (axes, batch, L) with {axes} axes"
    return "(L,) or (batch, L)"


def row_positions(
    positions: object = None,
    attention_mask: object = None,
    shift: object = None,
    offset: object = None,
) -> RowPositions:
    """Return the positions of rows that the options of a command or function state.

    At most one of them may be given; without any, rows are at 0, 1, 2, …

    Args:
        positions: The position of each row.
        attention_mask: 1 for rows that are counted, and 0 for padding.
        shift: By how much rows of a KV cache are moved. It is only checked: all rows are turned by
            the same angles, wherever they are.
        offset: The position of the first row.

    Raises:
        ParameterError: Two are given, or one breaks its rule.
    """
    _refuse_two_of(positions=positions, attention_mask=attention_mask, shift=shift, offset=offset)
    if shift is not None:
        SHIFT.check("shift", shift)
        return RowPositions()
    if attention_mask is not None:
        return _masked_positions(attention_mask)
    if positions is not None:
        return RowPositions(ids=whole_positions("positions", positions))
    if offset is not None:
        return RowPositions(offset=OFFSET.check("offset", offset))
    return RowPositions()


def _refuse_two_of(**options: object) -> None:
    """Raise ParameterError if more than one of some options was given."""
    match list(given_options(**options)):
        case [first, second, *_]:
            rule = f"`{first}` says where rows stand"
            raise ParameterError(second, "given", rule, "leave out one of them")


def _masked_positions(attention_mask: object) -> RowPositions:
    """Count the tokens of a mask; padding before the first token is at position 0.

    The mask 0 0 1 1 1 0 gives the positions 0 0 0 1 2 2, as Hugging Face's models count them.
    """
    mask = numbers("attention_mask", attention_mask)
    if ((mask != 0) & (mask != 1)).any():
        value = f"of shape {mask.shape} and dtype {mask.dtype}"
        raise ParameterError("attention_mask", value, "it is 1 for tokens and 0 for padding")
    if not mask.any():
        value = f"of shape {mask.shape}"
        raise ParameterError("attention_mask", value, "it has no token at all")
    is_token = mask != 0
    tokens_so_far = np.cumsum(is_token, axis=-1)
    ids = np.maximum(tokens_so_far - 1, 0)
    return RowPositions(ids=ids, name="attention_mask", is_token=is_token)
