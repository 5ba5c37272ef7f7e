"""Explanations: a few edits, a scheme if one was found, and what they leave.

The edits themselves are in `pecli.engine.edits`, the sentences about them in `pecli.explain.words`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pecli.engine.arrays import AnyArray
from pecli.engine.edits import (
    Bits,
    Channels,
    ColumnsWrong,
    Decimals,
    Dtype,
    Edit,
    ElementsWrong,
    FixedPoint,
    Heads,
    HeadsWrong,
    Incomplete,
    Layout,
    Mask,
    Negated,
    Noise,
    Parameter,
    Positions,
    Recipe,
    Repeated,
    Rotation,
    RoundingMode,
    RowRange,
    Rows,
    RowShift,
    RowsWrong,
    RowsZero,
    Runtime,
    Scaled,
    Swapped,
    Transposed,
    Uninitialised,
)
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import spelled

__all__ = [
    "INCOMPLETE",
    "Bits",
    "Channels",
    "ColumnsWrong",
    "ComparedRows",
    "Decimals",
    "Dtype",
    "Edit",
    "ElementsWrong",
    "Errors",
    "Explanation",
    "FixedPoint",
    "Heads",
    "HeadsWrong",
    "Incomplete",
    "Layout",
    "Mask",
    "Negated",
    "Noise",
    "Parameter",
    "Positions",
    "Recipe",
    "Repeated",
    "Rotation",
    "RoundingMode",
    "RowRange",
    "RowShift",
    "Rows",
    "RowsWrong",
    "RowsZero",
    "Runtime",
    "Scaled",
    "Swapped",
    "Transposed",
    "Uninitialised",
    "best",
    "merged",
    "parameter",
    "parameter_edits",
]


INCOMPLETE = ("halves", "interleaved", "angles")  # ways in which a table is left unfinished


def parameter_edits(
    expected: Scheme, found: Scheme, skipped: Collection[str] = ()
) -> Iterator[Parameter]:
    """Yield the parameters that have another value in a second scheme.

    The dtype and the recipe have edits of their own, and a parameter that is inert in both schemes
    changes nothing.
    """
    inert = expected.inert_parameters & found.inert_parameters
    skipped = {*skipped, "dtype", "recipe", *inert}
    for name in expected.parameters():
        ours = getattr(expected, name)
        theirs = getattr(found, name)
        if name not in skipped and ours != theirs:
            yield parameter(name, ours, theirs)


def parameter(name: str, expected: Any, found: Any) -> Parameter:
    """Return the edit of a parameter, with lists as they are typed on the command line.

    >>> parameter("mrope_section", (16, 24, 24), None)
    Parameter(name='mrope_section', expected='16,24,24', found=None)
    """
    return Parameter(name, _typed(expected), _typed(found))


def _typed(value: Any) -> Any:
    return spelled(value) if isinstance(value, tuple) else value


class Errors(NamedTuple):
    """Differences that edits leave, element by element, and what may excuse them."""

    left: AnyArray
    """The table at hand minus the table that the edits make."""
    values: AnyArray
    """The elements of the table at hand."""
    drift: AnyArray | float = 0.0
    """How far phases computed in float32 may have moved an element, beyond any tolerance."""
    rounding: AnyArray | float = 0.0
    """How far the arithmetic of a rotation may have moved an element."""


@dataclass(frozen=True)
class ComparedRows:
    """The rows that there was time to compare, of all."""

    count: int
    total: int


@dataclass(frozen=True)
class Explanation:
    """Edits that turn the expected table into the table at hand.

    A search proposes it with the errors that it leaves; `acceptance` decides whether it explains
    the table, and measures residual and noise.
    """

    edits: tuple[Edit, ...]
    scheme: Scheme | None
    """The scheme that makes the table at hand, if one was found."""
    tensors: tuple[str, ...]
    errors: Errors | Callable[[Mapping[str, Any]], Errors] | None = field(
        default=None, repr=False, compare=False
    )
    """What the edits leave, or a function of samples of the tensors that returns it.

    Rows and columns that the edits name as wrong are left out.
    """
    extra: float = 0.0
    """The cost beside that of the edits: digits of fitted numbers."""
    open: tuple[str, ...] = ()
    """What the data do not decide, a sentence each."""
    residual: float = 0.0
    """The largest difference that the edits do not explain."""
    recipe_residual: float = 0.0
    """The largest difference from the table that the engine makes by the recipe, if the edits name one."""
    noise: float = 0.0
    """The root mean square of the differences that are left."""
    beyond: int = 0
    """The number of elements off by more than the tolerance, though not by more than phases drift."""
    compared: ComparedRows | None = None
    """The rows that were compared, if not all were."""

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits) + self.extra

    @property
    def mistakes(self) -> tuple[Edit, ...]:
        """The edits that say which values differ, not how values were stored."""
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


def _length(scheme: Scheme | None) -> int:
    """Return the number of rows of a scheme, 0 if it has none."""
    if scheme is None:
        return 0
    return scheme.value_of("seq_len") or 0


def merged(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return the explanations, with one for all tensors that have the same mistakes."""
    by_mistakes: dict[object, Explanation] = {}
    for explanation in explanations:
        # Tensors without mistakes are not alike: each keeps its own entry.
        key = explanation.mistakes or len(by_mistakes)
        first = by_mistakes.get(key)
        by_mistakes[key] = explanation if first is None else _merged_pair(first, explanation)
    return list(by_mistakes.values())


def _merged_pair(first: Explanation, second: Explanation) -> Explanation:
    # A vector of frequencies has no length; the scheme of the table beside it has.
    longest = max(first.scheme, second.scheme, key=_length)
    # The mistakes are equal, so the one with more edits says more about storage.
    fuller = max(first, second, key=lambda explanation: len(explanation.edits))
    return replace(
        fuller,
        scheme=longest,
        tensors=(*first.tensors, *second.tensors),
        residual=max(first.residual, second.residual),
        beyond=first.beyond + second.beyond,
    )


def best(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return the explanations, cheapest first and closest among equals, each list of edits once."""
    unique: dict[tuple[Edit, ...], Explanation] = {}
    for explanation in sorted(explanations, key=lambda each: (round(each.cost, 6), each.residual)):
        unique.setdefault(explanation.edits, explanation)
    return list(unique.values())
