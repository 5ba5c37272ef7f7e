"""Campaigns of hostile inputs, which `tests/tools/campaign.py` runs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Result:
    """The number of cases, how often each outcome came, and what went wrong."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, case: str, outcomes: Iterable[str], problems: Iterable[str]) -> None:
        """Count a case; `case` is what a report calls it."""
        self.cases += 1
        self.outcomes.update(outcomes)
        self.problems += [f"{case}: {problem}" for problem in problems]

    def merge(self, part: "Result") -> None:
        """Add the cases of another part of the campaign."""
        self.cases += part.cases
        self.outcomes += part.outcomes
        self.problems += part.problems
