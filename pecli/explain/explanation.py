"""Explanations: the edits that turn an expected table into the one at hand, and what they leave.

`hypothesis.accept` is the only constructor. Later steps copy an explanation by its methods: they
may say of which tensors it is, or in which reading it holds, but never that it explains more than
was compared.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from pecli.engine.edits import Edit, Recipe, Runtime
from pecli.engine.schemes.scheme import Scheme

ARRANGED_COST = 0.9
"""Cost of each edit of the shape, where a mistake costs about 1: it is seen, not inferred."""


@dataclass(frozen=True)
class ComparedRows:
    """The rows that there was time to compare, of all."""

    count: int
    total: int


@dataclass(frozen=True)
class Explanation:
    """Edits with which an expected table becomes the table at hand, every compared element of it."""

    edits: tuple[Edit, ...]
    scheme: Scheme | None
    """The scheme that makes the table at hand; None if none does, or if no command should be
    printed.
    """
    tensors: tuple[str, ...]
    cost: float = 0.0
    """The length of the explanation, about 1 per mistake and 0.2 per fitted digit: the shortest one
    is preferred.
    """
    open: tuple[str, ...] = ()
    """What the data do not decide, a sentence each."""
    residual: float = 0.0
    """The largest difference that the edits do not explain."""
    recipe_residual: float = 0.0
    """The largest difference from the table that the engine makes by the recipe, if the edits name
    one.
    """
    noise: float = 0.0
    """The root mean square of the differences that are left."""
    compared: ComparedRows | None = None
    """The rows that were compared, if not all were."""
    is_cut_short: bool = False
    """True if the time limit ended the search, so that a shorter explanation may exist."""
    is_recipe_of_all: bool = True
    """False if other tensors of the file would not pass with the recipe that the edits name."""

    @property
    def mistakes(self) -> tuple[Edit, ...]:
        """The edits that say which values differ, not how values were stored."""
        return tuple(edit for edit in self.edits if not edit.storage)

    @property
    def rounding(self) -> tuple[Edit, ...]:
        """The edits that say to which numbers values were rounded, not how they were computed."""
        return tuple(
            edit for edit in self.edits if edit.storage and not isinstance(edit, (Recipe, Runtime))
        )

    def has_edit(self, *kinds: type[Edit]) -> bool:
        """Return True if one of the edits is of one of these kinds."""
        return any(isinstance(edit, kinds) for edit in self.edits)

    def renamed(self, tensors: Iterable[str]) -> "Explanation":
        """Return the explanation with the names that its tensors have in the file."""
        return replace(self, tensors=tuple(tensors))

    def with_each(self, change: Callable[[Edit], Edit]) -> "Explanation":
        """Return the explanation with every edit as `change` returns it.

        Changes are those of places: the column 5 of a head may be column 133 of a file.
        """
        return replace(self, edits=tuple(map(change, self.edits)))

    def with_scheme_of_command(self, scheme: Scheme | None) -> "Explanation":
        """Return the explanation with the scheme whose command is printed; None for no command."""
        return replace(self, scheme=scheme)

    def without_command(self) -> "Explanation":
        """Return the explanation without the command that makes a table with its mistakes."""
        return self.with_scheme_of_command(None)

    def without(self, edit: Edit) -> "Explanation":
        """Return the explanation without an edit that goes without saying."""
        others = tuple(other for other in self.edits if other != edit)
        return replace(self, edits=others)

    def with_recipe_of_some(self) -> "Explanation":
        """Return the explanation as one whose recipe other tensors of the file do not have.

        If only sines were computed in float16, `--recipe float16` would make other cosines as well.
        """
        return replace(self, is_recipe_of_all=False)

    def without_parameter(self, name: str) -> "Explanation":
        """Return the explanation without an edit of a parameter that nobody stated."""
        return replace(self, edits=tuple(edit for edit in self.edits if edit.subject != name))

    def beside(self, damage: Edit) -> "Explanation":
        """Return the explanation of the rest, with an edit that names the part that was left out."""
        return replace(self, edits=(*self.edits, damage))

    def with_suppositions(
        self, edits: tuple[Edit, ...], cost: float, doubts: tuple[str, ...]
    ) -> "Explanation":
        """Return the explanation of tensors that were read in some way, by a schedule that was supposed.

        Args:
            edits: How the tensors were read, such as transposed.
            cost: The cost of the numbers of the schedule.
            doubts: What the data do not decide about the schedule, a sentence each.
        """
        return replace(
            self,
            edits=(*edits, *self.edits),
            cost=self.cost + cost + ARRANGED_COST * len(edits),
            open=(*doubts, *self.open),
        )

    def with_doubts(self, doubts: tuple[str, ...]) -> "Explanation":
        """Return the explanation with more that the data do not decide, a sentence each."""
        return replace(self, open=(*doubts, *self.open))

    def merged_with(self, other: "Explanation") -> "Explanation":
        """Return one explanation for the tensors of two that have the same mistakes.

        «base is 500000» of `cos` and of `sin` is stated once, for both.
        """
        # A vector of frequencies has no length; the scheme of the table beside it has.
        scheme_of_longest = max(self.scheme, other.scheme, key=_length)
        # The mistakes are equal, so the one with more edits says more about storage.
        fuller = max(self, other, key=lambda explanation: len(explanation.edits))
        return replace(
            fuller,
            scheme=scheme_of_longest,
            tensors=(*self.tensors, *other.tensors),
            residual=max(self.residual, other.residual),
            is_cut_short=self.is_cut_short or other.is_cut_short,
        )

    def cut_short(self) -> "Explanation":
        """Return the explanation as the best one so far of a search that the time limit ended."""
        return replace(self, is_cut_short=True)

    def as_json(self, text: str) -> dict[str, Any]:
        return {
            "edits": [edit.as_json() for edit in self.edits],
            "residual": _finite(self.residual),
            "noise": _finite(self.noise),
            "tensors": list(self.tensors),
            "text": text,
        }


def _finite(value: float) -> float | None:
    """Return a number for JSON, which has none for infinity and NaN: None stands for these."""
    return value if math.isfinite(value) else None


def _length(scheme: Scheme | None) -> int:
    """Return the number of rows of a scheme, 0 if there is none."""
    return 0 if scheme is None else scheme.value_of("seq_len") or 0


def merged(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return the explanations, with one for all tensors that have the same mistakes.

    «base is 10000» of `cos` and of `sin` becomes one explanation of both, unless only `cos` was
    rounded to bfloat16: then both are stated.
    """
    by_mistakes: dict[object, Explanation] = {}
    for explanation in explanations:
        # Explanations without mistakes are kept apart: the number of entries is a key of their own.
        key: object = len(by_mistakes)
        if explanation.mistakes:
            key = (explanation.mistakes, explanation.rounding)
        if key in by_mistakes:
            explanation = by_mistakes[key].merged_with(explanation)
        by_mistakes[key] = explanation
    return list(by_mistakes.values())


def best(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return the explanations, cheapest first and closest among equals, each list of edits once.

    Two readings of a file may both have the edit «base is 10000»: the closer one is kept.
    """
    unique: dict[tuple[Edit, ...], Explanation] = {}
    # Costs are sums of decimals, such as 0.1 + 0.2, which are equal if they agree in six places.
    cheapest_first = sorted(
        explanations, key=lambda explanation: (round(explanation.cost, 6), explanation.residual)
    )
    for explanation in cheapest_first:
        unique.setdefault(explanation.edits, explanation)
    return list(unique.values())
