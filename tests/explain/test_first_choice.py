"""The first of several attempts that explains the data is the answer, except for schedules with
fitted numbers.

A schedule is a rule for all frequencies, which the functions that explain a table here ignore: they
return explanations made by hand.
"""

from collections.abc import Iterator

import numpy as np
import pytest

import pecli
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first, explain_by_plain_or_exact_schedule
from pecli.explain.frequency_schedule import schedule_of
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.wave_tables import wave_parameters

WAVES = wave_parameters(pecli.Rope(4, 8))
assert WAVES is not None
SCHEDULE = schedule_of(WAVES)  # Which one it is does not matter to the choice.
LARGEST_EXACT_RESIDUAL = 1e-9

# A schedule with plain numbers costs less than 0.4.
PLAIN = SchedulePrior(SCHEDULE, cost=0.39, doubts=("plain",))
FITTED = SchedulePrior(SCHEDULE, cost=0.4, doubts=("fitted",))
EXACTLY_FITTED = SchedulePrior(SCHEDULE, cost=1.0, doubts=("exactly fitted",))
UNRELATED = SchedulePrior(SCHEDULE, cost=0.0, doubts=("unrelated",))

RESIDUALS = {"plain": 1e-3, "fitted": 1e-3, "exactly fitted": LARGEST_EXACT_RESIDUAL}
"""The error that is left after each schedule; UNRELATED does not make the table at all."""


def explain(prior: SchedulePrior) -> Iterator[Explanation]:
    """Yield an explanation by a schedule, of cost 0.5, and a worse one; none by UNRELATED."""
    (name,) = prior.doubts
    if name in RESIDUALS:
        yield Explanation((), None, ("cos",), cost=0.5, residual=RESIDUALS[name])
        yield Explanation((), None, ("cos",), cost=0.5, residual=1.0)


def answer_among(*schedules: SchedulePrior) -> Explanation:
    """Return the explanation that is chosen; its doubt, such as «plain», names the schedule."""
    (explanation,) = explain_by_plain_or_exact_schedule(
        schedules, explain, largest_exact_residual=LARGEST_EXACT_RESIDUAL
    )
    return explanation


@pytest.mark.parametrize(
    ("schedules", "chosen"),
    [
        pytest.param((PLAIN, EXACTLY_FITTED), "plain", id="a plain one before an exact one"),
        pytest.param((UNRELATED, PLAIN), "plain", id="the first that makes the table"),
        pytest.param(
            (FITTED, EXACTLY_FITTED, PLAIN), "exactly fitted", id="an exact one before a plain one"
        ),
        pytest.param((FITTED, PLAIN), "plain", id="a plain one after a fitted one"),
        pytest.param((FITTED, FITTED), "fitted", id="only fitted ones"),
    ],
)
def test_the_first_plain_or_exact_schedule_is_the_answer(
    schedules: tuple[SchedulePrior, ...], chosen: str
) -> None:
    """Schedules are tried in the given order. A fitted one, which leaves an error of 1e-3, is the
    answer only if none has plain numbers (base 10000) and none makes the table exactly.
    """
    assert answer_among(*schedules).open == (chosen,)


def test_the_best_explanation_by_the_chosen_schedule_is_the_answer() -> None:
    """`explain` yields two explanations by PLAIN, with the errors 1e-3 and 1."""
    assert answer_among(PLAIN).residual == 1e-3


@pytest.mark.parametrize(
    ("schedule", "cost"),
    [
        pytest.param(PLAIN, 0.5 + 0.39, id="plain"),
        pytest.param(FITTED, 0.5 + 0.4, id="fitted"),
        pytest.param(EXACTLY_FITTED, 0.5 + 1.0, id="exactly fitted"),
    ],
)
def test_the_cost_of_a_schedule_is_added_to_that_of_the_explanation(
    schedule: SchedulePrior, cost: float
) -> None:
    """Every explanation that `explain` yields costs 0.5 without its schedule."""
    assert answer_among(schedule).cost == pytest.approx(cost)


def test_schedules_that_do_not_make_the_table_explain_nothing() -> None:
    """Nothing is an explanation by the only schedule, however much error is allowed."""

    def explain_nothing(schedule: SchedulePrior) -> list[Explanation]:
        return []

    found = explain_by_plain_or_exact_schedule(
        [PLAIN], explain_nothing, largest_exact_residual=np.inf
    )
    assert found == []


def as_many_explanations(count: int) -> Iterator[Explanation]:
    """Yield so many explanations, with the costs 0, 1, 2, …"""
    for cost in range(count):
        yield Explanation((), None, ("cos",), cost=float(cost))


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
