"""The vocabulary of explanations: what can differ between a table and the one it should be, as data.

An explanation is a few edits, a scheme where one was found, and the residual beside the noise that was measured.
Sentences are made of edits in `words` and nowhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from pecli.engine.arrays import AnyArray
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import spelled


@dataclass_transform(frozen_default=True)
class Edit:
    """One difference: a subclass is a frozen dataclass, whose name in JSON is that of the class."""

    kind: ClassVar[str]
    cost: ClassVar[float]  # ranks explanations: the likelier a mistake, the cheaper
    storage: ClassVar[bool]  # whether it says how values were stored or computed, not which they are

    def __init_subclass__(cls, cost: float = 1.0, storage: bool = False) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        cls.cost, cls.storage = cost, storage
        dataclass(frozen=True)(cls)

    def as_json(self) -> dict[str, Any]:
        return {"edit": self.kind, **{name: _plain(value) for name, value in vars(self).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class _Found(Edit):
    found: str


class _Which(Edit):
    which: tuple[Any, ...]


class _Order(Edit):
    order: str | tuple[int, ...]


class Parameter(Edit):
    """Another value of a parameter."""

    name: str
    expected: Any
    found: Any


class Layout(Edit):
    """Columns laid out otherwise."""

    expected: str
    found: str


class Swapped(Edit):
    """Sines where cosines should be, and the other way round."""


class Negated(Edit):
    """The sign of all values, or of one function's: `which` is all, cos or sin."""

    which: str = "all"


class Scaled(Edit, cost=1.5):
    """All values times a factor that is no parameter of the scheme."""

    by: float


class Rotation(_Found):
    """Queries or keys that are rotated by another formula, in part, or not at all."""


class Positions(Edit):
    """Positions by which queries or keys are rotated, in runs, and what is known to lead to such."""

    expected: str
    found: str
    reason: str = ""


class Transposed(Edit):
    """Axes exchanged."""

    axes: tuple[int, ...]


class Repeated(Edit):
    """The table several times along an axis."""

    axis: int
    times: int


class Rows(Edit):
    """Rows in another order, or cut to the first `at`; `words` lists the orders."""

    order: str
    at: int | None = None


class Channels(_Order, cost=1.5):
    """Channels in another order: a word, or for each channel found the one it should be."""


class Heads(_Order):
    """Heads in another order."""


class Mask(_Found):
    """What stands where a bias is masked, and where that is."""


class RowShift(Edit, cost=1.2):
    """A constant per row, which softmax ignores."""


class Dtype(_Found, cost=0.1, storage=True):
    """Values rounded to a dtype."""


class Decimals(Edit, cost=0.1, storage=True):
    """Values rounded to decimals."""

    digits: int


class FixedPoint(Edit, cost=0.1, storage=True):
    """Values rounded to multiples of a step."""

    step: float


class Noise(Edit, cost=0.2, storage=True):
    """Values off by noise of that standard deviation."""

    size: float


class Recipe(_Found, cost=0.0, storage=True):
    """Computed by a recipe other than the expected one."""


class Runtime(_Found, cost=0.5):
    """Computed by a runtime; others may compute the same, and `causes` are what it reads otherwise than the spec."""

    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


class RowsWrong(_Which, cost=2.0):
    """Right but for these rows."""


class ColumnsWrong(_Which, cost=2.0):
    """Right but for these columns."""


class HeadsWrong(_Which, cost=2.0):
    """Right but for these heads, or places of the axes before the rows."""


class ElementsWrong(_Which, cost=2.0):
    """Right but for these elements."""


class RowRange(Edit, cost=0.5):
    """The other edits are those of these rows alone, from the first to the last; all others are right."""

    first: int
    last: int


class Bits(_Found):
    """Right bits, read as numbers of another dtype; `swapped` where bytes are in reverse order."""


class Incomplete(_Found):
    """Written a step too early: columns not doubled (as halves, interleaved), the rest zeros; or angles as they are."""


class Uninitialised(Edit):
    """Frequencies that nobody set: zeros, or no numbers."""


def parameter_edits(expected: Scheme, found: Scheme, skipped: Collection[str] = ()) -> Iterator[Parameter]:
    """The parameters of one scheme that have other values in another, where they count."""
    skipped = {*skipped, "dtype", "recipe", *(expected.inert_parameters & found.inert_parameters)}
    for name in expected.parameters():
        ours, theirs = getattr(expected, name), getattr(found, name)
        if name not in skipped and ours != theirs:
            yield parameter(name, ours, theirs)


def parameter(name: str, expected: Any, found: Any) -> Parameter:
    """A parameter, lists as somebody writes them."""
    return Parameter(name, *(spelled(each) if isinstance(each, tuple) else each for each in (expected, found)))


class Errors(NamedTuple):
    """What edits leave of some elements."""

    left: AnyArray
    values: AnyArray  # those that it is left of
    drift: AnyArray | float = 0.0  # what float32 phases may have changed them by


@dataclass(frozen=True)
class Explanation:
    """Edits that make the table of the prior, or of the scheme that was found, the table at hand.

    A search proposes it with what it leaves; `acceptance` says whether it is one, and measures residual and noise.
    """

    edits: tuple[Edit, ...]
    scheme: Scheme | None
    tensors: tuple[str, ...]
    errors: Errors | Callable[[Mapping[str, Any]], Errors] | None = field(default=None, repr=False, compare=False)
    """What the edits leave, or leave of samples of the tensors, but for rows and columns that they name as wrong."""
    extra: float = 0.0  # cost beside that of the edits: digits of the numbers that were fitted
    open: tuple[str, ...] = ()  # what the data do not decide, a sentence each
    residual: float = 0.0  # the largest difference that the edits do not explain
    noise: float = 0.0  # the root mean square of what is left

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits) + self.extra

    @property
    def mistakes(self) -> tuple[Edit, ...]:
        """The edits, storage apart."""
        return tuple(edit for edit in self.edits if not edit.storage)

    def as_json(self, text: str) -> dict[str, Any]:
        numbers = {"residual": self.residual, "noise": self.noise}
        return {
            "edits": [edit.as_json() for edit in self.edits],
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "tensors": list(self.tensors),
            "text": text,
        }


def merged(found: Iterable[Explanation]) -> list[Explanation]:
    """Explanations of other tensors by the same edits made into one."""
    out: list[Explanation] = []
    for each in found:
        other = next((other for other in out if each.mistakes == other.mistakes and each.mistakes), None)
        if other is None:
            out.append(each)
            continue
        longest = max(other.scheme, each.scheme, key=lambda scheme: getattr(scheme, "seq_len", 0) or 0)
        out[out.index(other)] = replace(
            max(other, each, key=lambda one: len(one.edits)),
            scheme=longest,  # a vector of frequencies has no length
            tensors=(*other.tensors, *each.tensors),
            residual=max(other.residual, each.residual),
        )
    return out


def best(found: Iterable[Explanation]) -> list[Explanation]:
    """The explanations, each list of edits once, the cheapest first and among equals the closest."""
    unique: dict[tuple[Edit, ...], Explanation] = {}
    for each in sorted(found, key=lambda one: (round(one.cost, 6), one.residual)):
        unique.setdefault(each.edits, each)
    return list(unique.values())
