"""The computation of an array from another one: the numbers of a file, in the shape of those that they should equal."""

import math
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, widened
from pecli.engine.edits import Edit
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.computation import FLOAT32_FUNCTION, Computation
from pecli.explain.hypothesis import Case
from pecli.explain.observations import Observations
from pecli.explain.subject import scheme_of
from pecli.explain.tables import observed_dtype

UNUSED_SCHEME = LearnedInit(1, 1)
"""A scheme for comparisons of two files, which must have one: no result depends on it."""


@dataclass(frozen=True, eq=False)
class ArrayComputation(Computation):
    """Arrays of one shape (…, rows, columns), as matrices side by side."""

    arrays: tuple[Array, ...]
    is_computed: bool = False  # whether values were multiplied or added to, which rounds them

    @property
    def matrices(self) -> list[Array]:
        return [as_matrix(array) for array in self.arrays]

    @property
    def rows(self) -> int:
        return len(self.matrices[0])

    @property
    def heads(self) -> int:
        """The matrices in each array: 16 in one of the shape (2, 8, 64, 64)."""
        head_shape = self.arrays[0].shape[:-2]
        return math.prod(head_shape)

    def rendered(self, rows: Indices) -> Floats:
        return np.concatenate([as_floats(matrix[rows]) for matrix in self.matrices], axis=1)

    def bound(self, rows: Indices) -> Floats:
        """Return no error for numbers that only moved, and that of float32 arithmetic for others."""
        values = self.rendered(rows)
        if not self.is_computed:
            return np.zeros_like(values)
        return np.where(np.isfinite(values), FLOAT32_FUNCTION * np.abs(values), 0.0)

    def by_head(self, flags: Flags) -> Flags:
        return flags.reshape(self.heads, -1, flags.shape[-1])

    def from_heads(self, flags: Flags) -> Flags:
        return flags.reshape(-1, flags.shape[-1])

    def head_index(self, head: int) -> tuple[int, ...]:
        head_shape = self.arrays[0].shape[:-2]
        return tuple(int(index) for index in np.unravel_index(head, head_shape))


@scheme_of.register
def _scheme_of_arrays(computation: ArrayComputation, specification: Scheme) -> None:
    """Return None: the numbers of another file may be of any scheme."""


def as_matrix(array: Array) -> Array:
    """Return an array as (rows, columns); a vector is one row."""
    if array.ndim < 2:
        return array.reshape(1, -1)
    return array.reshape(-1, array.shape[-1])


def as_floats(matrix: Array) -> Floats:
    """Return numbers in float64; complex ones as two columns."""
    if matrix.dtype.kind == "c":
        wide = matrix.astype(np.complex128)
        return np.stack([wide.real, wide.imag], axis=-1).reshape(len(matrix), -1)
    return widened(matrix)


class ArrayObservations(Observations):
    """Arrays that should equal others, by name."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        """Take arrays of any shape as matrices (rows, columns), with complex numbers in two columns."""
        matrices = {}
        for name, array in arrays.items():
            matrix = as_matrix(array)
            matrices[name] = as_floats(matrix) if matrix.dtype.kind == "c" else matrix
        # The real part of complex numbers has their precision: complex64 is as fine as float32.
        real_parts = {name: array.real for name, array in arrays.items()}
        super().__init__(matrices, observed_dtype(real_parts))


def case_of_arrays(
    changed: ArrayComputation, found: Observations, changes: tuple[Edit, ...]
) -> Case:
    """Return a comparison of two files' arrays for `accept`, which tests if all numbers are equal.

    The arrays of the first file were changed before, for example by reversing their rows. If they
    equal those of the second file, `accept` returns the changes as the explanation.

    Args:
        changed: The arrays of the first file, after the changes.
        found: The arrays of the second file.
        changes: What was changed, as results name it.
    """
    return Case(
        scheme=UNUSED_SCHEME,
        # A search adds mistakes to the second of these two. Here it is as right as the first.
        specification=changed,
        computation=changed,
        observations=found,
        arranged=changes,  # An explanation states them before any mistake.
    )
