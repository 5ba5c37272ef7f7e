"""The choice among schedules that all explain a table: a plain one, one that is exact, or else the plainest."""

from collections.abc import Callable, Iterable

from pecli.explain.explanation import Explanation
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.time_limit import check_time

PLAIN_COST = 0.4
"""Cost of a schedule from which on its numbers are fitted, four digits of a base: another digit may make
the table exact.
"""

ExplainPrior = Callable[[SchedulePrior], Explanation | None]
"""Returns the explanation of a table by one schedule; None if the schedule does not make the table."""


def explain_by_priors(
    priors: Iterable[SchedulePrior], explain: ExplainPrior, exact: float
) -> Explanation | None:
    """Return the explanation by the first schedule that is plain or exact, or else by the first one.

    A schedule is a rule for all frequencies, such as base^(−2i/dim) with a base of 10000. One with
    fitted numbers, such as base 50478.6, may only come near: with base 50478.634 the table may be exact.
    So it is the answer only if it is exact, or if no later schedule explains the table better.

    Args:
        priors: The schedules to try, the plainest first.
        explain: Explains the table by one of them.
        exact: The largest residual of an explanation that no other number can improve.
    """
    first_fitted: Explanation | None = None
    for prior in priors:
        check_time()
        explanation = explain(prior)
        if explanation is None:
            continue
        explanation = explanation.with_suppositions(edits=(), cost=prior.cost, doubts=prior.open)
        if prior.cost < PLAIN_COST or explanation.residual <= exact:
            return explanation
        first_fitted = first_fitted or explanation
    return first_fitted
