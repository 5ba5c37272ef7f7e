"""Frequencies that are given one by one."""

from typing import Any

from pecli.engine.arrays import as_numpy
from pecli.engine.schemes.given_positions import NOT_REAL_NUMBERS, looks_like_list
from pecli.engine.schemes.parameters import ListOf, Real
from pecli.errors import KindError, ParameterError, bracketed

_MAX_FREQUENCIES = 32768
_LARGEST = 2.0**63
"""Radians per position; exact phases allow frequencies below 2^64."""


class GivenFrequencies(ListOf):
    """Radians per position of each pair: a list on the command line, an array, or a file of it."""

    def __init__(self, help: str, *, omitted_default: object) -> None:
        """Describe the frequencies; each is 0 or more."""
        each = Real("a frequency", at_least=0, up_to=_LARGEST)
        super().__init__(help, each=each, omitted_default=omitted_default)
        self.metavar = "LIST|FILE"
        self.rule = f"there must be one to {_MAX_FREQUENCIES:,} frequencies, a number per pair"

    def is_value(self, text: str) -> bool:
        """Return True for a list, False for the name of a file."""
        return looks_like_list(text)

    def check(self, name: str, value: object) -> tuple[Any, ...]:
        """Return frequencies from a list, or from an array that is a row or a column of them."""
        numbers = self._numbers_of_array(name, value) if hasattr(value, "shape") else value
        frequencies = super().check(name, numbers)
        if not 1 <= len(frequencies) <= _MAX_FREQUENCIES:
            raise ParameterError(name, f"{len(frequencies)} numbers", self.rule)
        return frequencies

    def _numbers_of_array(self, name: str, value: object) -> list[Any]:
        """Return the numbers of an array (n,), (1, n) or (n, 1), as text with one per line is."""
        array = as_numpy(name, value)
        if array.ndim == 2 and 1 in array.shape:
            array = array.reshape(-1)
        description = f"of shape {bracketed(array.shape)} and dtype {array.dtype}"
        if array.ndim != 1 or len(array) > _MAX_FREQUENCIES:
            raise ParameterError(name, description, self.rule)
        if array.dtype.kind in NOT_REAL_NUMBERS:
            raise KindError(name, description, self.rule)
        numbers: list[Any] = array.tolist()
        return numbers
