"""Tables that were written before they were complete: half of the columns, or the angles, are there."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from pecli.compare.forms import halved, joined
from pecli.engine.arrays import Array, Floats, widened

STEP_ERROR = 1e-5
"""Error of the steps of angles that are computed in float32, as a share of 1 or of the largest angle."""


class Completion(NamedTuple):
    """Tables as they would be if they had been completed, and the name of what is missing."""

    missing: str
    """The second copy of columns in «halves» or «interleaved», or the functions of «angles»."""
    tables: dict[str, Array]


class UnfinishedState(ABC):
    """A state in which tables of cosines and sines may be written before they are complete."""

    name: str

    @abstractmethod
    def is_state_of(self, table: Array) -> bool:
        """Return True if a table (rows, columns) is in this state."""

    @abstractmethod
    def completed(self, function: str, table: Array) -> Floats:
        """Return the finished table.

        Args:
            function: cos or sin, the function that it should hold.
            table: The unfinished table.
        """


class FirstColumns(UnfinishedState):
    """Tables in which only the first copy of every column was filled.

    Models that multiply all channels by `cos` have each column twice. A port that fills only the first
    copy leaves (c0, c1, 0, 0) in halves, which becomes (c0, c1, c0, c1); interleaved, (c0, 0, c1, 0)
    becomes (c0, c0, c1, c1).
    """

    def __init__(self, layout: str) -> None:
        self.name = layout

    def is_state_of(self, table: Array) -> bool:
        first_copies, second_copies = halved(table, layout=self.name)
        has_pairs_of_columns = table.shape[1] % 2 == 0
        return has_pairs_of_columns and not second_copies.any() and bool(first_copies.any())

    def completed(self, function: str, table: Array) -> Floats:
        first_copies, _ = halved(widened(table), layout=self.name)
        return np.asarray(joined((first_copies, first_copies), self.name))


class AnglesOnly(UnfinishedState):
    """Tables that hold the angles instead of their cosines and sines.

    A port that forgets to call cos writes position × frequency: a column 0, 1.2, 2.4, … of «cos»
    becomes cos(0), cos(1.2), cos(2.4), ….
    """

    name = "angles"

    def is_state_of(self, table: Array) -> bool:
        return are_angles(table)

    def completed(self, function: str, table: Array) -> Floats:
        functions = {"cos": np.cos, "sin": np.sin}
        return np.asarray(functions[function](widened(table)))


UNFINISHED_STATES: tuple[UnfinishedState, ...] = (
    FirstColumns("halves"),
    FirstColumns("interleaved"),
    AnglesOnly(),
)


def completions(tensors: Mapping[str, Array]) -> Iterator[Completion]:
    """Yield `cos` and `sin` as they would be if they had been completed before they were written.

    Unfinished tables lack the second copy of their columns, or still hold angles: the row c0 c1 0 0 is
    completed to c0 c1 c0 c1, and the angle 1.2 in `cos` to cos(1.2). Nothing is yielded unless all of the
    tables are in the same unfinished state, nor for other tensors than matrices of cosines and sines.
    """
    are_cos_and_sin = {"cos", "sin"}.issuperset(tensors)
    if not are_cos_and_sin or any(array.ndim != 2 for array in tensors.values()):
        return
    for state in UNFINISHED_STATES:
        if all(map(state.is_state_of, tensors.values())):
            completed: dict[str, Array] = {}
            for name, table in tensors.items():
                completed[name] = state.completed(name, table).astype(np.float32)
            yield Completion(state.name, completed)


SCANNED_ELEMENTS = 1 << 20
"""Elements that are looked at together: a large table is not widened as a whole."""
LARGEST_COSINE = 1.5
"""Cosines with an attention factor exceed 1: YaRN's is 0.1·ln(40) + 1 = 1.37 for a factor of 40."""

LARGEST_ANGLE = 1e9
"""Radians of the farthest position that anybody uses: larger numbers are none of a table of angles."""


def are_angles(values: Array) -> bool:
    """Return True if a table (rows, columns) holds angles: position × frequency, not yet their cosines.

    1. Some angle is larger than any cosine, which is at most 1.5 with an attention factor, and none is
       larger than that of the farthest position anybody uses.
    2. Each column grows in equal steps, such as 0 1.2 2.4 3.6. Two rows are too few to show that.
    3. Some column is not constant.
    """
    if len(values) < 3 or values.shape[1] == 0:
        return False
    # Angles that grow in equal steps are largest in the first row or in the last one.
    first_row = widened(values[0])
    last_row = widened(values[-1])
    largest_of_columns = np.maximum(np.abs(first_row), np.abs(last_row))
    # If the table holds NaN, the largest value is NaN, and both comparisons are False.
    if not LARGEST_COSINE < largest_of_columns.max() <= LARGEST_ANGLE:
        return False
    is_some_growing = bool((first_row != last_row).any())
    return is_some_growing and _has_equal_steps(values, largest_of_columns)


def _has_equal_steps(values: Array, largest: Floats) -> bool:
    """Return True if each column of a table grows in equal steps from row to row: 0 1.2 2.4 3.6.

    Args:
        values: The table, (rows, columns).
        largest: The largest absolute value of each column.
    """
    first_row, second_row = widened(values[:2])
    first_step = second_row - first_row
    # Errors of float32 grow with the angle, and small angles may have the absolute error.
    tolerance = STEP_ERROR * largest + STEP_ERROR
    block_rows = max(1, SCANNED_ELEMENTS // values.shape[1])
    step_count = len(values) - 1
    # Tables that are not angles are often large, and end here with their first block.
    for start in range(0, step_count, block_rows):
        # Two steps need three rows. So the last row of a block is also the first of the next one.
        block = widened(values[start : start + block_rows + 1])
        steps = np.diff(block, axis=0)
        is_like_first_step = np.abs(steps - first_step) <= tolerance
        if not is_like_first_step.all():
            return False
    return True
