"""The first of several attempts that explains the data is the answer, except for schedules with
fitted numbers.

A schedule is a rule for all frequencies, which the functions that explain a table here ignore: they
return explanations made by hand.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import pecli
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first, explain_by_plain_or_exact_schedule
from pecli.explain.frequency_schedule import schedule_of
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.wave_tables import wave_table

WAVES = wave_table(pecli.Rope(4, 8))
assert WAVES is not None
PLAIN = SchedulePrior(schedule_of(WAVES), cost=0.39, doubts=("plain",))
FITTED = replace(PLAIN, cost=0.4, doubts=("fitted",))
EXACTLY_FITTED = replace(PLAIN, cost=1.0, doubts=("exactly fitted",))
UNRELATED = replace(PLAIN, cost=0.0, doubts=("unrelated",))
BY_SCHEDULE = Explanation((), None, ("cos",), cost=0.5)
LIMIT = 1e-9


def explain(prior: SchedulePrior) -> Iterator[Explanation]:
    """Yield a good and a worse explanation by a schedule; none by UNRELATED."""
    if prior == UNRELATED:
        return
    residual = LIMIT if prior == EXACTLY_FITTED else 1e-3
    yield replace(BY_SCHEDULE, residual=residual)
    yield replace(BY_SCHEDULE, residual=1.0)


@pytest.mark.parametrize(
    ("priors", "doubt"),
    [
        ((PLAIN, EXACTLY_FITTED), "plain"),
        ((UNRELATED, PLAIN), "plain"),
        ((FITTED, EXACTLY_FITTED, PLAIN), "exactly fitted"),
        ((FITTED, PLAIN), "plain"),
        ((FITTED, FITTED), "fitted"),
    ],
    ids=["plain", "the first that explains", "exact", "plain after fitted", "only fitted"],
)
def test_the_first_plain_or_exact_schedule_is_the_answer(
    priors: tuple[SchedulePrior, ...], doubt: str
) -> None:
    """A schedule is plain if it costs less than 0.4, and exact if it leaves at most LIMIT. If there is
    neither, the answer is the first that explains. The cost of a schedule and its doubts are added
    to those of the explanation by it, which costs 0.5.
    """
    (explanation,) = explain_by_plain_or_exact_schedule(
        priors, explain, largest_exact_residual=LIMIT
    )

    assert explanation.open == (doubt,)
    assert explanation.residual < 1
    assert explanation.cost == pytest.approx(0.5 + {"plain": 0.39, "fitted": 0.4}.get(doubt, 1.0))


def test_schedules_that_do_not_make_the_table_explain_nothing() -> None:
    """`explain` yields no explanation by UNRELATED, which is the only schedule here."""
    found = explain_by_plain_or_exact_schedule((UNRELATED,), explain, largest_exact_residual=LIMIT)
    assert found == []


def as_many_explanations(count: int) -> Iterator[Explanation]:
    """Yield so many explanations, with the costs 0, 1, 2, …"""
    for cost in range(count):
        yield replace(BY_SCHEDULE, cost=float(cost))


def test_all_explanations_by_the_first_attempt_that_has_any_are_returned() -> None:
    """Each attempt is a number here, and has so many explanations: the first none, the second three,
    of the costs 0, 1 and 2, and the third five.
    """
    explanations = explain_by_first((0, 3, 5), as_many_explanations)
    assert [explanation.cost for explanation in explanations] == [0, 1, 2]


def test_attempts_after_the_first_that_has_an_explanation_are_not_made() -> None:
    """An attempt may take seconds. The attempts have 0, 3 and 5 explanations, so that the second is
    the last one made.
    """
    tried = []

    def explain_and_note(count: int) -> Iterator[Explanation]:
        tried.append(count)
        yield from as_many_explanations(count)

    explain_by_first((0, 3, 5), explain_and_note)
    assert tried == [0, 3]


def test_no_more_explanations_are_returned_than_asked_for() -> None:
    """The second attempt has three explanations; `most` is 1."""
    assert len(explain_by_first((0, 3), as_many_explanations, most=1)) == 1


def test_nothing_is_returned_if_none_explains() -> None:
    assert explain_by_first((0,), as_many_explanations) == []
