"""A tensor of a file that may hold a table of a model, and what its name states about it."""

from typing import NamedTuple

from pecli.checks.verify.candidates import real_dtype
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray


class TensorWithRole(NamedTuple):
    """A tensor, and the table that its name states.

    Attributes:
        array: The tensor.
        role: The table that its name states, such as «cos»; None if it may be any.
    """

    array: AnyArray
    role: str | None

    @property
    def table_dtype(self) -> str:
        """The dtype of the expected table: the file's, if a table can have it."""
        name = real_dtype(self.array)
        return name if name in SIGNIFICAND_BITS else "float32"

    @property
    def wide_dtype(self) -> str:
        """The dtype of expected frequencies or slopes, which half precision would spoil."""
        return "float64" if real_dtype(self.array) == "float64" else "float32"
