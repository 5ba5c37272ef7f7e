"""An explanation is accepted only if the data show each of its mistakes.

`accept` takes a case (a spec, tables, and the mistakes that are assumed) and returns an
explanation, or None if a mistake changes nothing that the tables could show. The tables are
NumPy's: base 500000 instead of the spec's 10000, 16 positions, rounded to four decimals.
"""

import numpy as np
import pytest

import pecli
from pecli.explain.catalogue.arithmetic import CoarsePi
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.catalogue.schedule_numbers import OtherBase
from pecli.explain.hypothesis import Case, accept
from pecli.explain.storage import decimals
from pecli.explain.tables import cases_of

ROWS = 16
"""Positions 0 … 15, so that the angles are 15 radians at most: two turns."""


def case_of_another_base() -> Case:
    """Return the case that supposes base 500000 of a table which NumPy made with it.

    The spec has base 10000, and the table is rounded to four decimals.
    """
    angles = np.outer(np.arange(ROWS), 500000.0 ** (-np.arange(32) / 32))
    tables = {"cos": np.cos(angles).round(4), "sin": np.sin(angles).round(4)}
    spec = pecli.Rope(ROWS, 64, base=10000.0, layout="compact")
    case = next(iter(cases_of(spec, tables)))
    return case.supposing(Stored(decimals(4))).supposing(OtherBase(500000.0))


def test_a_mistake_that_the_data_show_is_accepted() -> None:
    """The table was made with base 500000 and the spec says 10000. The case supposes just that, so
    `accept` returns an explanation instead of None.
    """
    explanation = accept(case_of_another_base())
    assert explanation is not None


@pytest.mark.parametrize("pi", [3.1415927, 3.1415926, 3.141593, 3.14159])
def test_a_second_mistake_that_changes_no_element_is_not_accepted(pi: float) -> None:
    """The base explains the table, so a coarse π beside it is one supposition too many: `accept`
    returns None. Some programs subtract whole turns of 2π from an angle. With π = 3.14159, two turns
    (angles are 15 at most) are wrong by 4 · 2.7e-6 = 1.1e-5, which four decimals do not show.
    """
    wrong_base_and_coarse_pi = case_of_another_base().supposing(CoarsePi(pi))
    assert accept(wrong_base_and_coarse_pi) is None


def test_a_second_mistake_that_changes_elements_the_wrong_way_is_not_accepted() -> None:
    """With π = 3.14, two turns are wrong by 4 · 1.6e-3 = 6e-3, which four decimals would show."""
    wrong_base_and_coarse_pi = case_of_another_base().supposing(CoarsePi(3.14))
    assert accept(wrong_base_and_coarse_pi) is None
