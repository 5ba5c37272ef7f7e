"""What an explanation is, and which of several is the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LISTED, FITTED, ODD = 1.0, 1.5, 2.25
"""What a cause costs: one of the known mistakes, a value that was fitted to the table, and one that is not round."""

LEVELS = (0.0, 1.0, 1.5, 2.0, 2.25, 2.5, 3.0, 3.25)
"""What causes may cost together."""

DEAREST = LEVELS[-1]
"""An explanation of more than about three causes is none."""

_ALIKE = 4.0
"""Residuals within this factor of each other do not tell two explanations apart."""


@dataclass(frozen=True)
class Cause:
    """One thing that somebody did otherwise, as the end of «matches if …»."""

    words: str
    cost: float = LISTED


def cost_of(causes: Iterable[Cause]) -> float:
    """What causes cost together."""
    return sum(cause.cost for cause in causes)


@dataclass(frozen=True)
class Explanation:
    """Causes that together make the table that was found, up to the residual."""

    causes: tuple[Cause, ...]
    residual: float

    @property
    def cost(self) -> float:
        return cost_of(self.causes)

    def words(self) -> str:
        return " and ".join(cause.words for cause in self.causes)


def best(explanations: Iterable[Explanation], at_most: int = 3) -> list[Explanation]:
    """The cheapest explanations, and of those the ones that fit about as well as the best; the likelier ones first."""
    found = list(explanations)
    if not found:
        return []
    lowest = min(each.cost for each in found)
    cheapest = [each for each in found if each.cost == lowest]
    limit = _ALIKE * min(each.residual for each in cheapest) + 1e-12
    kept: dict[str, Explanation] = {}
    for each in cheapest:
        if each.residual <= limit:
            kept.setdefault(each.words(), each)
    return list(kept.values())[:at_most]


def sentence(names: Sequence[str], explanations: Sequence[Explanation]) -> str:
    """«cos, sin: matches if theta is 10000 (the spec says 500000); residual 3e-08»."""
    verb = "matches" if len(names) == 1 else "match"
    choices = ", or if ".join(each.words() for each in explanations)
    residual = max(each.residual for each in explanations)
    return f"{', '.join(names)}: {verb} if {choices}; residual {residual:.2g}"


def together(found: dict[str, list[Explanation]]) -> list[str]:
    """One sentence for all tensors that the same causes explain."""
    found = {name: each for name, each in found.items() if each}
    if not found:
        return []
    common = set.intersection(*({each.words() for each in explanations} for explanations in found.values()))
    if common:
        found = {name: [each for each in found[name] if each.words() in common] for name in found}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, explanations in found.items():
        groups.setdefault(tuple(sorted(each.words() for each in explanations)), []).append(name)
    sentences = []
    for names in groups.values():
        worst = [
            Explanation(
                each.causes, max(e.residual for name in names for e in found[name] if e.words() == each.words())
            )
            for each in found[names[0]]
        ]
        sentences.append(sentence(names, worst))
    return sentences
