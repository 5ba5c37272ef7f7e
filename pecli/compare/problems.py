"""Problems of a tensor beside wrong values: codes with fields, and their sentences."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pecli.compare.factors import Shape
from pecli.compare.forms import DOUBLINGS
from pecli.errors import bracketed


class Problem(ABC):
    """A reason for which a tensor fails, whatever its values are."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the sentence for it, which follows the name of the tensor."""


@dataclass(frozen=True)
class OtherShape(Problem):
    """No arrangement of the expected table has the tensor's shape."""

    shape: Shape
    expected: str  #: one or several shapes
    fits_transposed: bool = False

    def __str__(self) -> str:
        sentence = f"its shape is {bracketed(self.shape)} where {self.expected} is expected"
        if self.fits_transposed:
            return f"{sentence}; transposed, it fits"
        return sentence


@dataclass(frozen=True)
class OtherDtype(Problem):
    """The dtype is not the expected one, and no tolerance allows another."""

    dtype: str
    expected: str

    def __str__(self) -> str:
        return f"its dtype is {self.dtype} where {self.expected} is expected"


@dataclass(frozen=True)
class DoubledDifferently(Problem):
    """Every frequency has two columns, in another order than the model rotates them."""

    found: str  #: one of DOUBLINGS
    expected: str

    def __str__(self) -> str:
        rotates = f"the model rotates {self.expected} ({DOUBLINGS[self.expected]})"
        advice = f"--layout {self.found} if the weights are permuted for it"
        return f"its columns are doubled as {DOUBLINGS[self.found]}; {rotates}; {advice}"


@dataclass(frozen=True)
class CopiesDiffer(Problem):
    """Copies that a batch or heads have of one table are not the same, so no single reason explains them."""

    def __str__(self) -> str:
        return "its copies differ"


@dataclass(frozen=True)
class NotFinite(Problem):
    """Values on which the comparison depends are infinite or not numbers."""

    count: int
    which: str  #: the values, as «of its values before»

    def __str__(self) -> str:
        return f"{self.count:,} {self.which} are no finite numbers, of which nothing can be told"


@dataclass(frozen=True)
class PaddingNotFinite(Problem):
    """Padding, which is not compared, holds infinities or values that are not numbers."""

    count: int

    def __str__(self) -> str:
        return f"{self.count:,} of its values in padding are infinite or not numbers"


@dataclass(frozen=True)
class LearnedNotFinite(Problem):
    """A learned table holds values that training cannot leave."""

    def __str__(self) -> str:
        return "it holds values that are infinite or not numbers"


@dataclass(frozen=True)
class LearnedConstant(Problem):
    """A learned table holds one value only, as uninitialised memory does."""

    value: float

    def __str__(self) -> str:
        return f"all its values are {self.value:g}"
