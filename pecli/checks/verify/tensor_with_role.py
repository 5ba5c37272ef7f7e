"""A tensor of a file that may hold a table of a model, and what its name states about it."""

from typing import NamedTuple

from pecli.checks.verify.candidates import COS_FIRST, has_order, real_dtype, role_of_table
from pecli.compare.candidate import CandidateTable
from pecli.engine.arrays import COMPLEX, SIGNIFICAND_BITS, AnyArray, dtype_name
from pecli.files.tensor_roles import ANYTHING, function_order


class TensorWithRole(NamedTuple):
    """A tensor, and the table that its name states.

    Attributes:
        array: The tensor.
        role: The table that its name states, such as «cos»; None if it may be any.
        order: The order of cosines and sines, if it holds both; None if they may have either.
    """

    array: AnyArray
    role: str | None
    order: tuple[str, str] | None

    @classmethod
    def of(cls, array: AnyArray, role: str | None, name: str) -> "TensorWithRole":
        """Return a tensor with what its name and its dtype state.

        `freqs_cis` holds both functions in an order that it does not state: cosines first, as in
        complex numbers cos + i·sin. `rope.buffer` states that it is a table (ANYTHING), but not
        which one.

        Args:
            array: The tensor.
            role: Its role, as `role_of` has it; None if it may be any table.
            name: The name that may state the order of functions, as `sin_cos` does.
        """
        if dtype_name(array.dtype) in COMPLEX:
            return cls(array, "both", COS_FIRST)
        order = function_order(name)
        if role == "both":
            order = order or COS_FIRST
        return cls(array, None if role == ANYTHING else role, order)

    def may_hold(self, candidate: CandidateTable) -> bool:
        """Return True if a table has the role that the name states, and its functions that order."""
        return self.role in (None, role_of_table(candidate.name)) and has_order(
            candidate, self.order
        )

    @property
    def table_dtype(self) -> str:
        """The dtype of the expected table: the file's, if a table can have it."""
        name = real_dtype(self.array)
        return name if name in SIGNIFICAND_BITS else "float32"

    @property
    def wide_dtype(self) -> str:
        """The dtype of expected frequencies or slopes, which half precision would spoil."""
        return "float64" if real_dtype(self.array) == "float64" else "float32"
