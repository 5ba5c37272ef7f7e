"""The vocabulary of differences: what can differ between a table and the one that it should be.

An edit is data: a frozen dataclass with a kind, fields, and JSON. Sentences about edits are written
in `pecli.explain`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

from pecli.engine.named_values import JsonObject


class Edit:
    """One difference between a table and the one that it should be.

    A subclass is a frozen dataclass; `kind` is its name in JSON.
    """

    kind: ClassVar[str]
    storage: ClassVar[bool] = False
    """True for edits that describe how values were stored or computed, not which they are."""

    @property
    def subject(self) -> str:
        """Return the name of the thing that differs: a parameter, or the kind of the edit."""
        return self.kind

    def as_json(self) -> JsonObject:
        """Return the edit as plain data, such as {"edit": "layout", "expected": …, "found": …}."""
        fields = {name: _plain(value) for name, value in vars(self).items()}
        return {"edit": self.kind, **fields}


def _plain(value: object) -> object:
    """Return a value that JSON can hold: lists instead of tuples, text instead of NaN and inf."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True)
class Parameter(Edit):
    """A parameter of the scheme, or something like one, has another value."""

    kind = "parameter"

    name: str
    expected: Any
    found: Any

    @property
    def subject(self) -> str:
        return self.name


def applied_twice(scaling: str) -> str:
    """Return the value of the parameter `scaling` for one that is applied twice: «yarn, applied twice»."""
    return f"{scaling}, applied twice"


@dataclass(frozen=True)
class Layout(Edit):
    """Cosines and sines lie in the columns of another layout."""

    kind = "layout"

    expected: str
    found: str


ONLY_FUNCTION_BY_EDIT: Mapping[Edit, str] = {
    Layout("cos and sin", "cos alone"): "cos",
    Layout("cos and sin", "sin alone"): "sin",
}
"""The edits of a table that holds one function only, with the name of this function."""


@dataclass(frozen=True)
class Swapped(Edit):
    """Sines and cosines are exchanged."""

    kind = "swapped"


@dataclass(frozen=True)
class Negated(Edit):
    """A sign is flipped: of all values, of sin or cos, or of the first or second of each pair."""

    kind = "negated"

    which: str = "all"


@dataclass(frozen=True)
class Scaled(Edit):
    """All values are multiplied by a number."""

    kind = "scaled"

    by: float


@dataclass(frozen=True)
class Rotation(Edit):
    """Queries or keys are rotated by another formula, or not at all."""

    kind = "rotation"

    found: str


class Misplacement(Enum):
    """Known ways in which the rows of a sequence get wrong positions."""

    CACHE_NOT_MOVED = auto()
    CACHE_MOVED_TWICE = auto()
    CACHE_MOVED_BACK = auto()
    CACHE_MOVED_OTHERWISE = auto()
    CACHE_MOVED = auto()
    """The cache is moved, and no move was expected: two files are compared."""
    OVERFLOW = auto()
    CLAMPED = auto()
    PADDING_IGNORED = auto()
    NOT_ROTATED = auto()
    ONE_POSITION = auto()
    REVERSED = auto()
    NOT_RESET = auto()
    RESTARTED = auto()
    ROW_BEFORE = auto()
    ROW_NUMBER = auto()
    """Slots of a cache that hold tokens in another order are taken for their positions."""
    SHARED = auto()
    SHIFTED = auto()
    STUCK = auto()
    """Decoded tokens stay at one position."""
    ONE_AXIS = auto()
    """The positions of text are given to all axes of M-RoPE."""
    OTHER_AXES = auto()
    """The axes of M-RoPE are in another order."""


@dataclass(frozen=True)
class PositionMistake:
    """One known way in which positions are wrong, with its numbers."""

    kind: Misplacement
    by: int = 0
    """A number that depends on the kind of mistake.

    SHIFTED, CACHE_MOVED and the like: by how many positions rows are too far.
    CLAMPED: the largest position.
    SHARED: the number of rows that share a position.
    STUCK: the position at which rows stay.
    RESTARTED: the rows of each run of positions; 0 if runs have different lengths.
    """
    expected: int = 0
    """CACHE_MOVED_OTHERWISE: the positions that the cache should have been moved by."""
    row: int = 0
    """SHIFTED, STUCK: the first row that is off, 0 if all are."""
    dtype: str = ""
    """OVERFLOW: the dtype that the positions overflow."""
    axes: tuple[int, ...] = ()
    """OTHER_AXES: for each axis the one whose positions it has."""


@dataclass(frozen=True)
class Positions(Edit):
    """Rows are rotated by other positions."""

    kind = "positions"

    expected: str
    found: str
    reason: str = ""
    """The mistake in words."""
    mistake: PositionMistake | None = field(default=None, compare=False, repr=False)
    """The mistake as data, if it is one that can be made with a single list of positions."""

    def as_json(self) -> JsonObject:
        """Return the edit as plain data; the mistake is in it as its reason."""
        fields = super().as_json()
        del fields["mistake"]
        return fields


@dataclass(frozen=True)
class Transposed(Edit):
    """The axes of the table are in another order."""

    kind = "transposed"

    axes: tuple[int, ...]


@dataclass(frozen=True)
class MemoryOrder(Edit):
    """Numbers lie in memory in the order of other axes: their shape has as many, in another order."""

    kind = "memory_order"

    expected: tuple[int, ...]
    found: tuple[int, ...]
    which: str = "after"
    """The tensor that lies so: the one before the rotation, the one after it, or both."""


@dataclass(frozen=True)
class Repeated(Edit):
    """The table is repeated along an axis."""

    kind = "repeated"

    axis: int
    times: int


@dataclass(frozen=True)
class Rows(Edit):
    """Rows are in another order, or some are missing."""

    kind = "rows"

    order: str
    at: int | None = None


@dataclass(frozen=True)
class SomeRows(Edit):
    """Only some of the expected rows are there, in this order."""

    kind = "some_rows"

    which: tuple[int, ...]


@dataclass(frozen=True)
class AddedRows(Edit):
    """All expected rows are there in their order, with other rows between, before or after them."""

    kind = "added_rows"

    which: tuple[int, ...]


@dataclass(frozen=True)
class Channels(Edit):
    """Channels are in another order: a word, or for each channel found the one it should be."""

    kind = "channels"

    order: str | tuple[int, ...]


@dataclass(frozen=True)
class Heads(Edit):
    """Heads are in another order: a word, or for each head found the one it should be."""

    kind = "heads"

    order: str | tuple[int, ...]


@dataclass(frozen=True)
class Mask(Edit):
    """A bias is masked differently."""

    kind = "mask"

    found: str


@dataclass(frozen=True)
class RowShift(Edit):
    """A constant is added to each row of a bias, which softmax ignores."""

    kind = "row_shift"


@dataclass(frozen=True)
class Dtype(Edit):
    """Values are rounded to a dtype."""

    kind = "dtype"
    storage = True

    found: str


@dataclass(frozen=True)
class ExpectedDtype(Edit):
    """The expected values are those found, rounded to a dtype: the first of two files was rounded."""

    kind = "expected_dtype"
    storage = True

    expected: str


@dataclass(frozen=True)
class RoundingMode(Edit):
    """Values are rounded toward zero or down, not to nearest."""

    kind = "rounding_mode"
    storage = True

    mode: str
    found: str


@dataclass(frozen=True)
class Decimals(Edit):
    """Values are rounded to some decimals, as in printed text."""

    kind = "decimals"
    storage = True

    digits: int


@dataclass(frozen=True)
class FixedPoint(Edit):
    """Values are rounded to multiples of a step, as by quantisation."""

    kind = "fixed_point"
    storage = True

    step: float


@dataclass(frozen=True)
class Noise(Edit):
    """Values have noise of this standard deviation."""

    kind = "noise"
    storage = True

    size: float


@dataclass(frozen=True)
class Recipe(Edit):
    """Values are computed by a precision recipe."""

    kind = "recipe"
    storage = True

    found: str


@dataclass(frozen=True)
class Runtime(Edit):
    """Values are computed as a runtime computes them.

    `also` names other runtimes with the same values, and `causes` what they read differently than
    the scheme.
    """

    kind = "runtime"

    found: str
    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowsWrong(Edit):
    """Only some rows differ."""

    kind = "rows_wrong"

    which: tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class RowsZero(Edit):
    """Some rows of queries or keys hold zeros, as those after the end of a prompt do in a buffer."""

    kind = "rows_zero"

    which: tuple[int, ...]
    side: str = "after"
    """`after` if only the rotated rows are zeros, `before` if only those before the rotation are."""


@dataclass(frozen=True)
class ColumnsWrong(Edit):
    """Only some columns differ."""

    kind = "columns_wrong"

    which: tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class HeadsWrong(Edit):
    """Only some heads differ."""

    kind = "heads_wrong"

    which: tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class ElementsWrong(Edit):
    """Only some elements differ."""

    kind = "elements_wrong"

    which: tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class RowRange(Edit):
    """The other edits hold only in these rows."""

    kind = "row_range"

    first: int
    last: int


@dataclass(frozen=True)
class Bits(Edit):
    """Values are the bits of another dtype, or byte-swapped."""

    kind = "bits"

    found: str


@dataclass(frozen=True)
class Incomplete(Edit):
    """A step is missing: columns are not doubled, or values are angles and not their functions."""

    kind = "incomplete"

    found: str


@dataclass(frozen=True)
class UninitialisedValues(Edit):
    """The memory of a tensor, or of some of its rows, was never initialised."""

    kind = "uninitialised"

    rows: tuple[int, ...] = ()
    """The rows; none if all of the tensor was never initialised."""
