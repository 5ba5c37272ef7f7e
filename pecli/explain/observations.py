"""Observations: the numbers of some tensors, and the few of their rows that are looked at first."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, dtype_name, row_blocks, widened
from pecli.explain.storage import SIGNIFICANT_BITS

TESTED_ROWS = 8
"""Rows that are compared before all are: they reject nearly every wrong case."""

BLOCK_ELEMENTS = 1 << 18
"""Elements that are compared at once, so that they stay in the cache."""

MEASURED_ROWS = 512
"""Consecutive rows from which frequencies are measured."""

SPREAD_ROWS = 128
"""Rows over the rest of a long table that sharpen the frequencies."""

SAMPLED_ELEMENTS = 1 << 23
"""Elements that are measured at most: 64 MiB in float64, of which there are several copies."""

MIN_SAMPLED_ROWS = 80
"""Rows that are measured however long they are."""

LOCATED_ELEMENTS = 1 << 21
"""Elements of a table whose rows are all looked up: a quarter of a second."""


def finest_dtype(arrays: Iterable[Array], default: str) -> str:
    """Return the floating-point dtype of some arrays that has the most bits; the default if none has any."""
    dtypes = {dtype_name(array.dtype) for array in arrays}
    floating = dtypes & SIGNIFICANT_BITS.keys()
    return max(floating, key=SIGNIFICANT_BITS.__getitem__, default=default)


class Observations:
    """The numbers of some tensors, side by side: a matrix with one row per position.

    A tensor may be large and on disk; only the rows that are asked for are converted to float64.
    """

    def __init__(self, tensors: Mapping[str, Array], dtype: str) -> None:
        self.tensors = dict(tensors)
        self.dtype = dtype
        self.rows = len(next(iter(self.tensors.values())))
        self.columns: int = sum(array.shape[1] for array in self.tensors.values())

    def matrix(self, rows: Indices | slice) -> Floats:
        """Return some rows of all tensors in float64."""
        return np.concatenate([widened(array[rows]) for array in self.tensors.values()], axis=1)

    def measured(self, rows: Indices | slice) -> Floats:
        """Return the columns of some rows from which frequencies and positions are measured.

        They are all columns of a table. Of rotated queries, a few heads are enough: all heads are
        rotated by the same angles.
        """
        return self.matrix(rows)

    def at_rows(self, rows: slice) -> "Observations":
        """Return the observations of some rows."""
        tensors = {name: array[rows] for name, array in self.tensors.items()}
        return Observations(tensors, self.dtype)

    @cached_property
    def held_dtype(self) -> str:
        """The finest floating-point dtype of the tensors; integers with a scale are float64 here."""
        return finest_dtype(self.tensors.values(), default="float64")

    def rows_of_zeros(self) -> Flags:
        """Return True for each row in which all numbers are 0."""
        is_empty = np.ones(self.rows, np.bool_)
        for rows in row_blocks((self.rows, self.columns)):
            is_empty[rows] = ~self.matrix(rows).any(axis=1)
        return is_empty

    @cached_property
    def sampled_rows(self) -> Indices:
        """The indices of the rows from which frequencies are measured: all rows of a short table.

        Of a long table, they are the first 512 rows (MEASURED_ROWS), which show how far pairs turn from
        row to row, and 128 later ones (SPREAD_ROWS), ever farther apart, which make the result precise.
        They are fewer if rows are so long that these would take too much memory.
        """
        most_rows = self._most_sampled_rows
        later_count = min(SPREAD_ROWS, most_rows // 5)
        first_count = min(MEASURED_ROWS, most_rows - later_count)
        if self.rows <= first_count + later_count:
            return np.arange(self.rows)
        first_rows = np.arange(first_count)
        last_row = self.rows - 1
        later_rows = np.geomspace(first_count, last_row, later_count).astype(np.intp)
        return np.unique(np.concatenate([first_rows, later_rows]))

    @property
    def _most_sampled_rows(self) -> int:
        """The number of rows that fit the memory for measurements, and at least MIN_SAMPLED_ROWS.

        For rows of 100,000 numbers, as a transposed table may have, it is 83.
        """
        columns = max(1, self.measured_columns)
        return max(MIN_SAMPLED_ROWS, SAMPLED_ELEMENTS // columns)

    @property
    def measured_columns(self) -> int:
        """The number of columns from which frequencies and positions are measured."""
        return self.columns

    @cached_property
    def sample(self) -> Floats:
        """The numbers of the sampled rows."""
        return self.measured(self.sampled_rows)

    @cached_property
    def tested_rows(self) -> Indices:
        """A few rows that are compared before all are, evenly spread over the table.

        The first row is not one of them if there are others: at position 0, all cosines are 1
        whatever the frequencies are.
        """
        last = self.rows - 1
        first = min(1, last)
        return np.unique(np.linspace(first, last, TESTED_ROWS).astype(np.intp))

    @cached_property
    def tested(self) -> Floats:
        """The numbers of the tested rows."""
        return self.matrix(self.tested_rows)

    @cached_property
    def probed_rows(self) -> Indices:
        """Two of the tested rows, from the middle of the table: they are looked at before all others."""
        middle = len(self.tested_rows) // 2
        return self.tested_rows[middle : middle + 2]

    @cached_property
    def probed(self) -> Floats:
        """The numbers of the probed rows."""
        return self.matrix(self.probed_rows)

    @cached_property
    def size(self) -> float:
        """The largest finite value of the sample."""
        finite = self.sample[np.isfinite(self.sample)]
        return float(np.abs(finite).max(initial=0.0))

    @cached_property
    def located_rows(self) -> Indices:
        """Rows whose positions are solved: all of them, unless that takes too long."""
        if self.rows * self.measured_columns <= LOCATED_ELEMENTS:
            return np.arange(self.rows)
        return self.sampled_rows

    def blocks(self) -> Iterator[Indices]:
        """Yield all rows in blocks that fit the cache."""
        step = max(1, BLOCK_ELEMENTS // max(1, self.columns))
        for start in range(0, self.rows, step):
            yield np.arange(start, min(start + step, self.rows))

    def by_tensor(self, flags: Flags) -> dict[str, Flags]:
        """Split flags of the matrix (…, columns) into those of each tensor.

        If `cos` and `sin` have 64 columns each, columns 0 to 63 are those of `cos`.
        """
        widths = [array.shape[1] for array in self.tensors.values()]
        *starts_of_others, _total = np.cumsum(widths).tolist()  # 64, and 128 in all
        parts = np.split(flags, starts_of_others, axis=-1)
        return dict(zip(self.tensors, parts, strict=True))
