"""Tensors of a file, read as the tables that they may be, and compared with these."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from pecli.checks.checked_tensor import CheckedTensor
from pecli.compare.reading import Reading
from pecli.compare.reading_conflicts import Doubling, find_doubling_problems, find_lone_transposes

Readings = Mapping[str, Reading | None]
"""By tensor, the way to read it as the nearest table; None if its shape is that of no table."""


class ReadingCheck(ABC):
    """The tensors of a file, and the tables that they may be.

    A subclass states which tables these are: those of a scheme, or those of a model. How tensors are
    read and compared is the same for both.
    """

    @abstractmethod
    def find_reading(self, tensor: str, *, upright: bool = False) -> Reading | None:
        """Return the way to read a tensor (an order of axes and columns) that is nearest to a table.

        Args:
            tensor: Its name.
            upright: True if rows must be positions, so that it is not read transposed.
        """

    @abstractmethod
    def compare_with_table(self, tensor: str, reading: Reading) -> CheckedTensor:
        """Compare a tensor with the table that it is read as."""

    @abstractmethod
    def fail_for_shape(self, tensor: str) -> CheckedTensor:
        """Return the failure of a tensor that has the shape of no table."""

    @abstractmethod
    def find_layers(self, reading: Reading) -> str:
        """Return the layers that a table is for, in words; empty if all have the same tables."""

    def read_all(self, tensors: Iterable[str]) -> Readings:
        """Return the best way to read each tensor."""
        readings = {tensor: self.find_reading(tensor) for tensor in tensors}
        return self.read_upright_if_lone(readings)

    def read_upright_if_lone(self, readings: Readings) -> Readings:
        """Return readings, with cosines and sines of a module either all transposed or none.

        64 positions of 64 frequencies may be read transposed. If cosines fit upright (a row per
        position), and sines only transposed, the sines are wrong: then they are read upright as well,
        and fail.
        """
        upright = {
            name: self.find_reading(name, upright=True) for name in find_lone_transposes(readings)
        }
        return {**readings, **upright}

    def compare_all(self, readings: Readings) -> list[CheckedTensor]:
        """Compare each tensor with the table that it is read as; one that has the shape of none fails."""
        checked = []
        for tensor, reading in readings.items():
            if reading is None:
                checked.append(self.fail_for_shape(tensor))
            else:
                checked.append(self.compare_with_table(tensor, reading))
        return checked

    def find_doubling_problems(self, readings: Readings) -> list[str]:
        """Return a sentence for all layers whose cosines and sines are doubled in two ways.

        Cosines c0 c1 c0 c1 are right beside s0 s1 s0 s1, and not beside s0 s0 s1 s1: no rotation can
        use both.
        """
        doublings = [
            Doubling(self.find_layers(reading), reading, doubled=reading.form.doubled)
            for reading in filter(None, readings.values())
        ]
        return find_doubling_problems(doublings)
