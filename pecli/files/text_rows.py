"""Rows of printed numbers, and the axes that their labels imply.

A loop over heads and positions prints `q[0][0] = …`, `q[0][1] = …`, and so on: these rows of D
numbers are (heads, positions, D).
"""

import math
from array import array
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Indices
from pecli.errors import FileError, counted, listed
from pecli.files.contents import Contents
from pecli.files.number_text import NumberList, line_of

MAX_NAMED = 6  # labels that a note names


class _RowOrder(NamedTuple):
    """The places of rows on the axes that the indices in their labels count.

    Attributes:
        axis_lengths: the lengths of the axes.
        places: the place of each row in C order.
        first: the smallest index of each axis in the labels.
    """

    axis_lengths: tuple[int, ...]
    places: Indices
    first: tuple[int, ...]


class TextRows:
    """The rows of a tensor: lines, or lists without lists in them.

    Attributes:
        numbers: the numbers of all rows.
        count: how many rows have ended.
        width: how many numbers a row has; a complex number is two.
    """

    def __init__(self) -> None:
        self.numbers = NumberList()
        self.count = 0
        self.width = 0
        self._is_list = False  # whether the last row has brackets around it
        self._index_count = 0  # how many indices the label of the first row has: 2 of x[0][3]
        self._labels = array("q")  # the indices of all rows that have as many

    def end_row(
        self, contents: Contents, indices: tuple[int, ...], offset: int, *, is_list: bool
    ) -> None:
        """End a row: count the numbers since the last row as one, and keep the indices of its label.

        If there are no numbers since then, nothing is done.

        Args:
            contents: the file, for errors.
            indices: the indices in the label of the row.
            offset: the place in the file at which the row ends.
            is_list: whether there are brackets around it.

        Raises:
            FileError: the row has more or fewer numbers than the first one.
        """
        width = self._width_of_open_row()
        if width == 0:
            return
        is_first = self.count == 0
        if is_first:
            self.width = width
            self._index_count = len(indices)
        elif width != self.width:
            raise self._error_for_width(contents, width, offset)
        self.count += 1
        self._is_list = is_list
        # A label that cannot be compared with the first one is not kept: `x[1][0]` after `x[0]`. If
        # there are fewer labels than rows, none is used, and rows keep the order of the text.
        has_as_many_indices_as_first = len(indices) == self._index_count
        if has_as_many_indices_as_first:
            self._labels.extend(indices)

    def _error_for_width(self, contents: Contents, width: int, offset: int) -> FileError:
        """Return the error for a row that has more or fewer numbers than the first one."""
        row = counted(width, "number")
        problem = f"line {line_of(contents, offset)} has {row}, and the first has {self.width}"
        return contents.error(problem)

    def _width_of_open_row(self) -> int:
        """Return how many numbers follow those of the rows that have ended.

        After 3 rows of 4 numbers, and 14 numbers in all, the next row has 2 so far.
        """
        numbers_of_ended_rows = self.count * self.width
        return len(self.numbers.values) - numbers_of_ended_rows

    def add_column(self, contents: Contents, text: bytes, offset: int) -> None:
        """Add rows of one number each, without labels; the first row has one number as well."""
        if not self.count:
            self.width = 1
        self.count += self.numbers.scan(contents, text, offset)
        self._is_list = False

    def array(self, contents: Contents) -> AnyArray:
        """Return the rows in the order of their labels, with an axis for each index of a label.

        Four rows of 64 numbers with the labels x[0][0], x[0][1], x[1][0] and x[1][1] are (2, 2, 64).
        Rows without such labels are (4, 64), in the order of the text.
        """
        rows = self.numbers.array(contents, (self.count, self.width))
        is_single_list = self._is_list and self.count == 1
        if is_single_list:  # [1, 2, 3] is a vector.
            return rows.reshape(-1)
        row_order = self._order_of_labels()
        if row_order is None:  # There are no labels, or they do not number the rows.
            return rows
        ordered = np.empty_like(rows)
        ordered[row_order.places] = rows
        # x[0][1] = 0.5 is an element, not a row of one.
        row_shape = () if self._are_single_elements else rows.shape[1:]
        return ordered.reshape(*row_order.axis_lengths, *row_shape)

    @property
    def _are_single_elements(self) -> bool:
        """True if every row is one number, real or complex: `x[0][1] = 0.5` is no row of x."""
        return self.width == (2 if self.numbers.complex_count else 1)

    def _label_table(self) -> Indices:
        """Return the indices of labels, (labels, axes), without leading axes on which all agree.

        Of q[3][0], q[3][1] and q[3][2], the last index counts the rows: they are (0,), (1,), (2,).
        """
        labels = np.array(self._labels, np.int64).reshape(-1, max(1, self._index_count))
        while labels.shape[1] > 1 and (labels[:, 0] == labels[0, 0]).all():
            labels = labels[:, 1:]
        return labels

    def _order_of_labels(self) -> _RowOrder | None:
        """Return where the labels of rows place them; None unless they number every place once.

        Rows labelled x[0][0], x[0][1], x[1][0], x[1][1] have axes of (2, 2) and the places 0, 1, 2,
        3. Labels may start at 1, or come in any order.
        """
        labels = self._label_table()  # (labels, axes)
        if len(labels) != self.count:
            return None  # Some rows have no label.
        first = labels.min(axis=0)
        from_zero = labels - first
        axis_lengths = tuple((from_zero.max(axis=0) + 1).tolist())
        if math.prod(axis_lengths) != self.count:
            return None  # There are more places than rows, or fewer.
        places = np.ravel_multi_index(tuple(from_zero.T), axis_lengths)
        has_repeated_place = np.bincount(places).max() > 1
        if has_repeated_place:
            return None
        return _RowOrder(axis_lengths=axis_lengths, places=places, first=tuple(first.tolist()))

    def notes_on_labels(self, tensor_name: str) -> list[str]:
        """Return a note if the labels of the rows are not 0, 1, 2, …; an empty list if they are.

        Rows are read as positions from 0 on, whatever their labels are. For the labels 5, 6, 7 the
        note advises `--offset 5`. For labels with gaps, such as 0, 2, 5, it advises `--positions`.
        """
        labels = self._label_table()  # (labels, axes)
        has_no_row_labels = len(labels) == 0 or self._are_single_elements
        if has_no_row_labels:
            return []
        row_order = self._order_of_labels()
        if row_order is None:  # The labels have gaps, or one comes twice.
            first_indices = [str(index) for index in labels[:, 0].tolist()]
            advice = "rows are read as 0, 1, …; --positions states others"
            return [f"{tensor_name}: labels are {listed(first_indices, MAX_NAMED)}, {advice}"]
        if not any(row_order.first):
            return []
        start = ",".join(map(str, row_order.first))
        advice = f"rows are read as 0, 1, …; --offset {row_order.first[-1]} states it"
        return [f"{tensor_name}: labels start at {start}, {advice}"]
