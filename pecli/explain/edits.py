"""The vocabulary of explanations: what can differ between a table and the one it should be, as data.

An explanation is a few edits, a scheme where one was found, and what is left: the residual beside the noise that was
measured. Sentences are made of edits in `words` and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pecli.engine.schemes.scheme import Scheme


@dataclass(frozen=True)
class Edit:
    """One difference. `cost` ranks explanations: the likelier a mistake, the cheaper."""

    kind: ClassVar[str]
    cost: ClassVar[float] = 1.0
    storage: ClassVar[bool] = False
    """Whether it says how values were kept or computed, not which they are."""

    def as_json(self) -> dict[str, Any]:
        return {"edit": self.kind, **{each.name: _plain(getattr(self, each.name)) for each in fields(self)}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True)
class Parameter(Edit):
    """Another value of a parameter."""

    kind = "parameter"
    name: str
    expected: Any
    found: Any


@dataclass(frozen=True)
class Layout(Edit):
    """Columns laid out otherwise."""

    kind = "layout"
    expected: str
    found: str


@dataclass(frozen=True)
class Swapped(Edit):
    """Sines where cosines should be, and the other way round."""

    kind = "swapped"


@dataclass(frozen=True)
class Negated(Edit):
    """The sign of all values, or of one function's: `which` is all, cos or sin."""

    kind = "negated"
    which: str = "all"


@dataclass(frozen=True)
class Scaled(Edit):
    """All values times a factor that is no parameter of the scheme."""

    kind = "scaled"
    cost = 1.5
    by: float


@dataclass(frozen=True)
class Rotation(Edit):
    """Queries or keys that are rotated by another formula, in part, or not at all."""

    kind = "rotation"
    found: str


@dataclass(frozen=True)
class Transposed(Edit):
    """Axes exchanged."""

    kind = "transposed"
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Repeated(Edit):
    """The table several times along an axis."""

    kind = "repeated"
    axis: int
    times: int


@dataclass(frozen=True)
class Rows(Edit):
    """Rows in another order: reversed, permuted, wrapped or shifted (`at`), padded (by `at` rows), constant."""

    kind = "rows"
    order: str
    at: int | None = None


@dataclass(frozen=True)
class Channels(Edit):
    """Channels in another order: a word, or for each channel found the one it should be."""

    kind = "channels"
    cost = 1.5
    order: str | tuple[int, ...]


@dataclass(frozen=True)
class Heads(Edit):
    """Heads in another order."""

    kind = "heads"
    order: str | tuple[int, ...]


@dataclass(frozen=True)
class Mask(Edit):
    """What stands where a bias is masked, and where that is."""

    kind = "mask"
    found: str


@dataclass(frozen=True)
class RowShift(Edit):
    """A constant per row, which softmax ignores."""

    kind = "row_shift"
    cost = 1.2


@dataclass(frozen=True)
class Dtype(Edit):
    """Values rounded to a dtype."""

    kind = "dtype"
    cost = 0.1
    storage = True
    found: str


@dataclass(frozen=True)
class Decimals(Edit):
    """Values rounded to decimals."""

    kind = "decimals"
    cost = 0.1
    storage = True
    digits: int


@dataclass(frozen=True)
class FixedPoint(Edit):
    """Values rounded to multiples of a step."""

    kind = "fixed_point"
    cost = 0.1
    storage = True
    step: float


@dataclass(frozen=True)
class Noise(Edit):
    """Values off by noise of that standard deviation."""

    kind = "noise"
    cost = 0.2
    storage = True
    size: float


@dataclass(frozen=True)
class Recipe(Edit):
    """Computed by a recipe other than the expected one."""

    kind = "recipe"
    cost = 0.3
    storage = True
    found: str


@dataclass(frozen=True)
class Arithmetic(Edit):
    """Positions, frequencies or phases (`which`) rounded to a dtype, by no recipe that has a name."""

    kind = "arithmetic"
    cost = 0.0
    storage = True
    dtype: str
    which: tuple[str, ...]
    pairs: tuple[int, ...] = ()
    """Whose frequencies are not the nearest numbers of that dtype."""
    ulp: int = 0
    """How far those are off at most."""


@dataclass(frozen=True)
class Runtime(Edit):
    """Computed by a runtime; others may compute the same."""

    kind = "runtime"
    cost = 0.5
    found: str
    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    """What it reads otherwise than the spec says."""


@dataclass(frozen=True)
class RowsWrong(Edit):
    """Right but for these rows."""

    kind = "rows_wrong"
    cost = 2.0
    which: tuple[int, ...]


@dataclass(frozen=True)
class ColumnsWrong(Edit):
    """Right but for these columns."""

    kind = "columns_wrong"
    cost = 2.0
    which: tuple[int, ...]


@dataclass(frozen=True)
class Uninitialised(Edit):
    """Frequencies that nobody set: all zero, or garbage."""

    kind = "uninitialised"
    cost = 1.0


@dataclass(frozen=True)
class Explanation:
    """Edits that make the table of the prior, or of the scheme that was found, the table at hand."""

    edits: tuple[Edit, ...]
    scheme: Scheme | None
    residual: float
    """The largest difference that is left."""
    noise: float
    """The standard deviation of the values about the best waves, slopes or draws: what no explanation can undercut."""
    tensors: tuple[str, ...]
    open: tuple[str, ...] = ()
    """What the data do not decide, a sentence each."""
    extra: float = 0.0
    """Cost beside that of the edits: digits of the numbers that were fitted."""

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits) + self.extra

    @property
    def mistakes(self) -> tuple[Edit, ...]:
        """The edits, storage apart."""
        return tuple(edit for edit in self.edits if not edit.storage)

    def as_json(self, text: str) -> dict[str, Any]:
        return {
            "edits": [edit.as_json() for edit in self.edits],
            "residual": _finite(self.residual),
            "noise": _finite(self.noise),
            "tensors": list(self.tensors),
            "text": text,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def best(found: Iterable[Explanation]) -> list[Explanation]:
    """The explanations, each list of edits once, the cheapest first and among equals the closest."""
    unique: dict[tuple[Edit, ...], Explanation] = {}
    for each in sorted(found, key=lambda one: (round(one.cost, 6), one.residual)):
        unique.setdefault(each.edits, each)
    return list(unique.values())
