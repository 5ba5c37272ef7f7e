"""An explanation is accepted only if the data show each of its mistakes.

`accepted_explanation` takes a case (a spec, tables, and the mistakes that are assumed) and returns an
explanation, or None if a mistake changes nothing that the tables could show. The tables are
NumPy's: base 500000 instead of the spec's 10000, 16 positions, rounded to four decimals.
"""

import numpy as np
import pytest

import pecli
from pecli.explain.catalogue.arithmetic import COARSE_PIS, CoarsePi
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.catalogue.schedule_numbers import OtherBase
from pecli.explain.hypothesis import Case, accepted_explanation
from pecli.explain.storage import decimals
from pecli.explain.tables import cases_of

ROWS = 16
"""Angles up to 15 radians make two turns, which π = 3.14159 moves by 1.1e-5."""


@pytest.fixture(name="other_base")
def _other_base() -> Case:
    """Return the case of another base, in tables that NumPy makes of it and four decimals hold."""
    angles = np.outer(np.arange(ROWS), 500000.0 ** (-np.arange(32) / 32))
    tables = {"cos": np.cos(angles).round(4), "sin": np.sin(angles).round(4)}
    case = next(iter(cases_of(pecli.Rope(ROWS, 64, layout="compact"), tables)))
    return case.supposing(Stored(decimals(4))).supposing(OtherBase(500000.0))


def test_a_mistake_that_the_data_show_is_accepted(other_base: Case) -> None:
    """The table was made with base 500000 and the spec says 10000. The case `other_base` supposes
    just that, so `accepted_explanation` returns an explanation instead of None.
    """
    explanation = accepted_explanation(other_base)
    assert explanation is not None


@pytest.mark.parametrize("pi", COARSE_PIS[:4])
def test_a_second_mistake_that_changes_no_element_is_not_accepted(
    other_base: Case, pi: float
) -> None:
    """The table has the wrong base and four decimals. To suppose also that it was computed with a
    coarse π, such as 3.14159, moves its angles (15 at most) by 1.1e-5, which four decimals do not
    show: `accepted_explanation` returns None.
    """
    wrong_base_and_coarse_pi = other_base.supposing(CoarsePi(pi))
    assert accepted_explanation(wrong_base_and_coarse_pi) is None
