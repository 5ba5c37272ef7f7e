"""A mistake is one class in the catalogue: `verify`, weak passes, golden vectors and the field
guide follow.

A mistake is a known way in which ports get tables wrong. The toy, added here, squares positions;
tables with it are computed by NumPy. A pass is weak if the dump could not have shown a mistake.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pytest

import pecli
from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Parameter
from pecli.explain import catalogue
from pecli.explain.catalogue.used_rows import RowMistake
from pecli.explain.computation import WaveComputation
from pecli.explain.hypothesis import Case
from pecli.golden.mistake_cases import mistakes
from tests.field_guide import guide

EDIT = Parameter("power of positions", 1, 2)


@dataclass(frozen=True)
class SquaredPositions(RowMistake):
    """Positions are squared."""

    summary = "positions are squared"

    def used(self, expected: Floats) -> Floats:
        return expected**2

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (EDIT,)


@pytest.fixture(autouse=True)
def _toy_mistake() -> Iterator[None]:
    catalogue.MISTAKES.append(SquaredPositions)
    yield
    catalogue.MISTAKES.remove(SquaredPositions)


def tables_at_squares(rows: int) -> dict[str, np.ndarray]:
    """Cosines and sines of 16 channels at the squares of positions, by NumPy."""
    angles = np.outer(np.arange(rows) ** 2, 1e4 ** (-np.arange(8) / 8))
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def test_verify_names_a_mistake_that_was_added_to_the_catalogue() -> None:
    """This module adds the mistake «positions are squared» to the catalogue. The tables are NumPy's at
    the positions 0, 1, 4, 9, …, and the mistake's edit is the first explanation.
    """
    answer = pecli.verify(tables_at_squares(64), pecli.Rope(64, 16), atol=1e-6)
    assert answer.explanations[0].edits == (Parameter("power of positions", 1, 2),)


def test_a_pass_that_does_not_exclude_an_added_mistake_is_weak() -> None:
    """This module adds the mistake «positions are squared» to the catalogue. The squares of 0 and 1 are
    0 and 1, so that a dump of two rows passes with it. The remark states how many rows would show it:
    tables of 4, 8, … rows are tried, and 4 rows have position 2, whose square is 4.
    """
    answer = pecli.verify(tables_at_squares(2), pecli.Rope(2, 16), atol=1e-6)

    assert answer.passed
    assert "2 rows cannot tell power of positions 1 from 2: compare 4 or more" in answer.weak


def test_a_pass_that_excludes_an_added_mistake_has_no_remark_on_it() -> None:
    """This module adds the mistake «positions are squared» to the catalogue. A right table of 4 rows
    has position 2, which squaring would change to 4.
    """
    right = pecli.Rope(seq_len=4, dim=16)
    answer = pecli.verify(right.tables(), right, atol=1e-6)

    assert answer.passed
    assert not any("power of positions" in remark for remark in answer.weak)


def test_the_golden_suite_has_an_added_mistake() -> None:
    """This module adds the mistake «positions are squared» to the catalogue. The golden suite has a
    table for each mistake; this one has 36 positions, 16 channels and base 500000, and its cosines
    are NumPy's at squared positions.
    """
    (case,) = [case for case in mistakes() if case.name == "mistake-squared-positions"]
    angles = np.outer(np.arange(36) ** 2, 500000.0 ** (-np.arange(8) / 8))

    np.testing.assert_allclose(case.tensors["cos"], np.cos(angles), atol=1e-12)
    assert case.edits == (Parameter("power of positions", 1, 2),)


def test_the_field_guide_has_an_added_mistake() -> None:
    """This module adds the class SquaredPositions to the catalogue of mistakes, with the summary
    «positions are squared». The field guide, a page about all mistakes, has a section on it: the
    heading is the name of the class, and the text the summary.
    """
    assert "### Squared positions\n\nPositions are squared.\n" in guide()
