"""The indices of elements in a whole tensor, of which a search looks at a part."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pecli.engine.arrays import Flags


@dataclass(frozen=True, eq=False)
class ElementPlaces:
    """The indices that the heads and rows of a part have in the whole tensor.

    A search for mistakes looks at some heads, or leaves out rows of padding. If it starts at row 3,
    its row 7 is row 10 of the tensor.

    Attributes:
        heads: The index of each head along the axes before rows: (1, 0) for head 0 of sequence 1.
        rows: The number of each row.
        are_axes_exchanged: True if rows are before heads in the tensor: (…, rows, heads, channels).
    """

    heads: Sequence[tuple[int, ...]]
    rows: Sequence[int]
    are_axes_exchanged: bool = False

    @classmethod
    def of_whole(cls, head_shape: tuple[int, ...], rows: int) -> Self:
        """Return the places in a tensor (*head_shape, rows, channels)."""
        return cls(heads=[*np.ndindex(head_shape)], rows=range(rows))

    @property
    def have_head_axis(self) -> bool:
        """True if the tensor has an axis before rows."""
        return len(self.heads[0]) > 0

    @property
    def has_axis_before_heads(self) -> bool:
        """True if the tensor has an axis of sequences before that of heads."""
        return len(self.heads[0]) > 1

    def at_heads(self, numbers: Iterable[int]) -> Self:
        """Return the places of some heads, given their numbers among those that are here."""
        return replace(self, heads=[self.heads[number] for number in numbers])

    def at_rows(self, rows: Flags) -> Self:
        """Return the places of some rows, True in a flag per row."""
        return replace(self, rows=[self.rows[number] for number in np.flatnonzero(rows).tolist()])

    def with_axes_exchanged(self) -> Self:
        """Return the places if heads are taken for rows: of 8 heads of 32 rows, 32 heads of 8 rows."""
        sequences = dict.fromkeys(head[:-1] for head in self.heads)  # each of them once
        heads_per_sequence = len(self.heads) // len(sequences)
        return replace(
            self,
            heads=[(*sequence, row) for sequence in sequences for row in self.rows],
            rows=range(heads_per_sequence),
            are_axes_exchanged=True,
        )

    def head(self, number: int) -> int | tuple[int, ...]:
        """Return the index of a head in the whole tensor, a number if it has a single axis of heads.

        >>> ElementPlaces(heads=[(0,), (2,)], rows=[3]).head(1)
        2
        """
        index = self.heads[number]
        return index[0] if len(index) == 1 else index

    def element(self, head: int, row: int, channel: int) -> tuple[int, ...]:
        """Return the index of an element in the whole tensor.

        >>> ElementPlaces(heads=[(0, 2)], rows=[3, 4, 5]).element(head=0, row=1, channel=7)
        (0, 2, 4, 7)
        """
        head_index = self.heads[head]
        row_number = self.rows[row]
        if self.are_axes_exchanged:
            *sequence, head_number = head_index
            return (*sequence, row_number, head_number, channel)
        return (*head_index, row_number, channel)
