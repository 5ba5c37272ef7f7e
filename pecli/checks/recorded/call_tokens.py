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
        by_axis: Their positions, (axes, batch, L); one axis stands for all if they agree.
        is_token: False for padding, (batch, L); None if there is no padding.
        used_ids: The ids that the model's own code used, (batch or 1, L), if they were seen.
        are_as_recorded: True if axes of positions differ, as with images: then only the recorded
            ids state where tokens stand.
    """

    def __init__(self, call: RecordedCall, axes: int) -> None:
        """Take the positions that tokens should have, or the recorded ids if there are images."""
        assert call.positions is not None  # Runs without positions are refused before.
        self.axes = axes
        positions = _arrange_by_axis(call.positions, axes)
        self.used_ids: Indices | None = None
        self.are_as_recorded = False
        if call.position_ids is not None:
            ids = _arrange_by_axis(call.position_ids, axes)
            self.used_ids = ids[0]
            # Only tokens of images have a row and a column that differ from their time.
            self.are_as_recorded = bool((ids != ids[:1]).any())
            if self.are_as_recorded:
                positions = ids  # Nothing else states the sizes of the images.
        are_axes_equal = (positions == positions[:1]).all()
        self.by_axis: Indices = positions[:1] if are_axes_equal else positions
        self.is_token = None if self.are_as_recorded else _find_tokens(call.attention_mask)

    @property
    def positions(self) -> Indices:
        """The positions (batch, L); of several axes, those of the first."""
        first: Indices = self.by_axis[0]
        return first

    @property
    def length(self) -> int:
        return int(self.by_axis.shape[-1])

    @property
    def last(self) -> int:
        """The largest position."""
        return int(self.by_axis.max(initial=0))

    def options(self, array: Array) -> MutableValues:
        """Return the options of `verify` that state the positions of a tensor's rows.

        They are an attention mask, `{"offset": 7}` if all sequences have the positions 7, 8, 9, …,
        or a list of positions. The shortest is chosen: reasons for an error are clearer then.
        """
        has_batch = array.ndim > 2 and len(self.positions) in array.shape[:-2]
        if not has_batch:
            return self._state_without_batch(array)
        if self.is_token is not None and self.axes == 1:
            return {"attention_mask": self.is_token.astype(np.int64)}
        if _are_consecutive(self.positions):
            return {"offset": int(self.positions[0, 0])}
        return self.stated()

    def stated(self) -> MutableValues:
        """Return the option that states the position of every token.

        Padding stands wherever the model's own ids have put it: it has no right position.
        """
        positions = self.by_axis
        if self.is_token is not None and self.used_ids is not None:
            positions = np.where(self.is_token, positions, self.used_ids)
        return self._state_on_all_axes(positions)

    def _state_on_all_axes(self, positions: Indices) -> MutableValues:
        """Return the option for positions (axes or 1, …, L): equal ones are repeated for each axis."""
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
        sequence = 0
        if self.is_token is not None:
            sequence = int(self.is_token.sum(axis=1).argmax())
        positions = self.by_axis[:, sequence]
        if _are_consecutive(positions):
            return {"offset": int(positions[0, 0])}
        return self._state_on_all_axes(positions)

    def find_id_problems(self) -> Iterator[WrongIds]:
        """Yield a problem for the first sequence whose ids are not the positions of its tokens.

        With left padding, mask 0 0 1 1 1, the three tokens need the ids 0, 1, 2; code that ignores
        the mask passes 2, 3, 4. Padding may have any ids.
        """
        if self.used_ids is None or self.are_as_recorded:
            return  # No ids were recorded, or they are themselves taken for the right ones.
        used = np.broadcast_to(self.used_ids, self.positions.shape)
        is_token = self.is_token
        if is_token is None:
            is_token = np.ones(self.positions.shape, bool)
        for sequence, tokens in enumerate(is_token):
            ids = used[sequence, tokens]
            expected = self.positions[sequence, tokens]
            if not np.array_equal(ids, expected):
                yield WrongIds(
                    sequence=sequence, ids=ids, expected=expected, count_padding=not tokens.all()
                )
                return


def _arrange_by_axis(ids: Array, axes: int) -> Indices:
    """Return ids as (axes or 1, batch, L).

    Qwen2.5-VL passes four axes: the position in the text, then time, row and column. The last three
    rotate.
    """
    whole = ids.astype(np.int64)
    if whole.ndim == 3:
        return whole[-axes:]
    return np.atleast_2d(whole)[None]


def _find_tokens(mask: Array | None) -> Flags | None:
    """Return False for padding; None if there is none."""
    if mask is None or mask.all():
        return None
    return np.asarray(mask != 0)


def _are_consecutive(positions: Indices) -> bool:
    """Return True if every sequence, or every axis, has the same positions n, n + 1, n + 2, …"""
    first = int(positions[0, 0])
    return bool((positions == np.arange(first, first + positions.shape[-1])).all())
