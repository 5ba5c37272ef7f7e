"""The answer among candidates that are tried in order of preference: the first that explains the data.

Of schedules, which all explain a table more or less closely, a plain or an exact one is preferred.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from pecli.explain.explanation import Explanation
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.time_limit import check_time

PLAIN_COST = 0.4
"""Cost of a schedule from which on its numbers are fitted, four digits of a base: another digit may make
the table exact.
"""

ExplainPrior = Callable[[SchedulePrior], Iterable[Explanation]]
"""Yields the explanations of a table by one schedule, the best first; none if it does not make the table."""


Candidate = TypeVar("Candidate")


def explain_by_first(
    candidates: Iterable[Candidate],
    explain: Callable[[Candidate], Iterable[Explanation]],
    most: int | None = None,
) -> list[Explanation]:
    """Return the explanations by the first candidate that has any; an empty list if none has.

    Candidates are what may have made some data: schemes, ways to read a tensor, arrays. Later ones
    are less likely, and not looked at if an earlier one explains the data.

    Args:
        candidates: What may have made the data, the likeliest first.
        explain: Explains the data by one candidate.
        most: How many of its explanations are wanted; None for all.

    >>> explain_by_first([], explain=list)
    []
    """
    for candidate in candidates:
        check_time()
        explanations = [*islice(explain(candidate), most)]
        if explanations:
            return explanations
    return []


def explain_by_plain_or_exact_schedule(
    schedules: Iterable[SchedulePrior], explain: ExplainPrior, largest_exact_residual: float
) -> list[Explanation]:
    """Return the explanation of a table by one of several rules for its frequencies (schedules).

    It is by the first schedule that has plain numbers, such as base 10000, or that makes the table
    exactly. If there is none, it is by the first of the others, whose numbers were fitted: base 50478.6.

    Args:
        schedules: The schedules to try, the plainest first.
        explain: Explains the table by one of them.
        largest_exact_residual: The residual up to which no other number can improve an explanation.

    Returns:
        One explanation; an empty list if no schedule explains the table.
    """
    by_inexact_fits: list[Explanation] = []
    for prior in schedules:
        check_time()
        best = next(iter(explain(prior)), None)
        if best is None:
            continue
        # An answer costs more, the less usual its numbers are, and states what is doubtful about them.
        explanation = best.with_suppositions(edits=(), cost=prior.cost, doubts=prior.doubts)
        has_plain_numbers = prior.cost < PLAIN_COST
        is_exact = explanation.residual <= largest_exact_residual
        if has_plain_numbers or is_exact:
            return [explanation]
        by_inexact_fits.append(explanation)
    return by_inexact_fits[:1]
