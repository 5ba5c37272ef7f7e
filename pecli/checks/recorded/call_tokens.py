"""Positions of the tokens of a recorded call, and the options of a check that state them."""

from collections.abc import Iterator

import numpy as np

from pecli.checks.file_problems import WrongIds
from pecli.checks.recorded.run_tensors import RecordedCall
from pecli.engine.arrays import Array, Flags, Indices
from pecli.engine.named_values import MutableValues


class CallTokens:
    """The positions of the tokens of a call, and which of them are padding.

    Attributes:
        axes: The axes of a position: 3 for M-RoPE (time, row, column), otherwise 1.
        right_ids: The positions that tokens should have, (axes, batch, L); (1, batch, L) if they are
            the same on all axes.
        used_ids: The positions that the model's own code used, (axes or 1, batch or 1, L); the right
            ones if they were not seen.
        has_images: True if some tokens are those of images, so that the used ids count as right.
        is_token: False for padding, (batch, L).
    """

    def __init__(self, call: RecordedCall, axes: int) -> None:
        """Take the right positions of the tokens from a call, and those that the model's code used.

        Args:
            call: The call. `positions` are those that its arguments require, `position_ids` those that
                the model's code used, if they were recorded.
            axes: The axes of a position in the model's encoding.
        """
        assert call.positions is not None  # Runs without positions are refused before.
        self.axes = axes
        self.right_ids: Indices = _arrange_by_axis(call.positions, axes)
        self.is_token: Flags = _find_tokens(call.attention_mask, self.right_ids[0].shape)
        self.used_ids: Indices = self.right_ids
        self.has_images = False
        if call.position_ids is None:
            return
        self.used_ids = _arrange_by_axis(call.position_ids, axes)
        # Text has the same id on all axes. Patches of an image differ in time, row and column.
        self.has_images = len(self.used_ids) > 1
        if self.has_images:
            # Their positions depend on image sizes, which are not recorded. So all used ids count as
            # right, also those of padding, which then need not be left out.
            self.right_ids = self.used_ids
            self.is_token = np.ones(self.used_ids[0].shape, bool)

    @property
    def positions(self) -> Indices:
        """The positions (batch, L); of several axes, those of the first."""
        first: Indices = self.right_ids[0]
        return first

    @property
    def length(self) -> int:
        return int(self.right_ids.shape[-1])

    @property
    def last(self) -> int:
        """The largest position."""
        return int(self.right_ids.max(initial=0))

    @property
    def has_padding(self) -> bool:
        return not self.is_token.all()

    def options(self, array: Array) -> MutableValues:
        """Return the options of `verify` that state the positions of a tensor's rows.

        They are an attention mask, `{"offset": 7}` if all sequences have the positions 7, 8, 9, …,
        or a list of positions. The shortest is chosen: reasons for an error are clearer then.
        """
        has_batch = array.ndim > 2 and len(self.positions) in array.shape[:-2]
        if not has_batch:
            return self._state_without_batch(array)
        if self.has_padding and self.axes == 1:
            return {"attention_mask": self.is_token.astype(np.int64)}
        return self._state_shortly(self._ids_of_all_tokens)

    def options_of_all_tokens(self) -> MutableValues:
        """Return the option of `verify` that lists the position of every token."""
        return self._state_on_all_axes(self._ids_of_all_tokens)

    @property
    def _ids_of_all_tokens(self) -> Indices:
        """The right positions of tokens; padding has none, so that the model's own ids state it."""
        ids: Indices = np.where(self.is_token, self.right_ids, self.used_ids)
        return ids

    def _state_shortly(self, positions: Indices) -> MutableValues:
        """Return the shorter option for positions (axes or 1, …, L): `{"offset": 7}`, or a list of all."""
        rows = positions.reshape(-1, self.length)
        if _are_consecutive(rows):
            return {"offset": int(rows[0, 0])}
        return self._state_on_all_axes(positions)

    def _state_on_all_axes(self, positions: Indices) -> MutableValues:
        """Return the option of `verify` for positions (axes or 1, …, L).

        With M-RoPE's three axes, positions (1, L), which all axes share, become (3, L).
        """
        if self.axes == 1:
            return {"positions": positions[0]}
        return {"positions": np.broadcast_to(positions, (self.axes, *positions.shape[1:]))}

    def _state_without_batch(self, array: Array) -> MutableValues:
        """Return the options of `verify` for a table (L, D) that all sequences share.

        Its rows are those of the sequence with the least padding. A table of another length is that
        of all positions from 0 on, which needs no option.
        """
        if array.shape[-2] != self.length:
            return {}
        sequence = int(self.is_token.sum(axis=1).argmax())
        return self._state_shortly(self.right_ids[:, sequence])

    def find_id_problems(self) -> Iterator[WrongIds]:
        """Yield a problem for the first sequence whose tokens were not at the positions that they need.

        An id is the position that the model's code used. With left padding, mask 0 0 1 1 1, the three
        tokens need the ids 0, 1, 2; code that ignores the mask uses 2, 3, 4. Padding may have any ids.
        """
        # Of images, all ids count as right, so that none differ. Text has the same ids on all axes:
        # (batch, L), or (1, L) for all sequences.
        ids_of_text = self.used_ids[0]
        used_ids = np.broadcast_to(ids_of_text, self.positions.shape)
        for sequence, is_token in enumerate(self.is_token):
            used = used_ids[sequence, is_token]
            expected = self.positions[sequence, is_token]
            if not np.array_equal(used, expected):
                has_padding = not is_token.all()
                # Wrong ids beside padding are most likely wrong because they count it.
                yield WrongIds(sequence, ids=used, expected=expected, count_padding=has_padding)
                return


def _find_tokens(attention_mask: Array | None, shape: tuple[int, ...]) -> Flags:
    """Return True for each token of a call, and False for padding; without a mask, all are tokens.

    Args:
        attention_mask: 1 for tokens and 0 for padding, (batch, L); None if the call had none.
        shape: The shape (batch, L) of the flags without a mask.
    """
    if attention_mask is None:
        return np.ones(shape, bool)
    return np.asarray(attention_mask != 0)


def _arrange_by_axis(ids: Array, axes: int) -> Indices:
    """Return ids as (axes, batch, L), or as (1, batch, L) if they are the same along all axes.

    Those of text are the same. Qwen2.5-VL passes four axes: the position in the text, then time, row
    and column. The last three rotate.
    """
    whole = ids.astype(np.int64)
    if whole.ndim < 3:  # (L,) or (batch, L)
        return np.atleast_2d(whole)[None]
    by_axis = whole[-axes:]
    first_axis = by_axis[:1]
    are_axes_equal = (by_axis == first_axis).all()
    return first_axis if are_axes_equal else by_axis


def _are_consecutive(positions: Indices) -> bool:
    """Return True if every sequence, or every axis, has the same positions n, n + 1, n + 2, …"""
    first = int(positions[0, 0])
    return bool((positions == np.arange(first, first + positions.shape[-1])).all())
