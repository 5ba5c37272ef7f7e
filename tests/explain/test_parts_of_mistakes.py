"""Parts of the catalogue of mistakes: what a mistake applies to, what it costs, and the scheme that
reproduces it.

Schemes are made by hand; slopes are 2^(−8k/12), the rule that the paper has for powers of two.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.explain.catalogue.biases import OtherRule
from pecli.explain.catalogue.placements import has_mrope_sections
from pecli.explain.catalogue.scalings import OtherScalingNumber
from pecli.explain.exact_tables import exact_tensors
from pecli.explain.hypothesis import Case
from pecli.explain.observations import Observations
from pecli.explain.planting import tensors_made_together
from pecli.explain.readable import agrees_with_measurements
from pecli.explain.recognition import MAX_VECTOR

ROPE = pecli.Rope(40, 16)
TWELVE_HEADS = pecli.Alibi(12, 8)
NAIVE = OtherRule(rule="naive", heads=12, max_bias=8.0)
AT_THREE_AXES = ((0, 1), (0, 2), (0, 3))


def test_slopes_of_the_other_rule_are_made_by_the_scheme_with_that_rule() -> None:
    assert NAIVE.scheme_after(TWELVE_HEADS) == pecli.Alibi(12, 8, rule="naive")


def test_slopes_of_more_heads_are_made_by_no_scheme() -> None:
    """The first 12 slopes of 16 heads are no table of 12 heads."""
    assert OtherRule(rule="paper", heads=16, max_bias=8.0).scheme_after(TWELVE_HEADS) is None


def test_slopes_with_a_mistake_are_those_of_the_other_rule() -> None:
    """`pecli golden` writes them as a table that a port must reject."""
    (tensors,) = tensors_made_together(TWELVE_HEADS, ["slopes"])
    wrong = exact_tensors(tensors, NAIVE)

    assert wrong is not None
    assert wrong["slopes"].ravel() == pytest.approx(2.0 ** (-8 * np.arange(1, 13) / 12))


def test_positions_of_three_axes_are_mrope_if_they_are_listed() -> None:
    """Without a list, all axes count 0, 1, 2, … and the sections change nothing."""
    listed = pecli.Rope(positions=AT_THREE_AXES, dim=8, mrope_section=(1, 2, 1))
    assert has_mrope_sections(listed)
    assert not has_mrope_sections(pecli.Rope(2, 8, mrope_section=(1, 2, 1)))


def test_a_usual_number_costs_less_than_another() -> None:
    """A scaling is more often by 2 than by 3."""
    assert OtherScalingNumber("x", 2.0).cost < OtherScalingNumber("x", 3.0).cost


@pytest.mark.parametrize(("size", "is_known"), [(MAX_VECTOR, True), (MAX_VECTOR + 1, False)])
def test_frequencies_are_recognised_up_to_a_limit(size: int, is_known: bool) -> None:
    """They are 10000^(−i/n): of more pairs than any model has, none is looked for."""
    frequencies = (1e4 ** (-np.arange(size) / size)).astype(np.float32)
    assert pecli.identify({"inv_freq": frequencies}).passed is is_known


@pytest.mark.parametrize("value", [0.0, 1e-16])
def test_frequencies_that_are_all_tiny_were_never_initialised(value: float) -> None:
    """The first frequency of every model is about 1."""
    found = pecli.verify({"inv_freq": np.full(8, value, np.float32)}, pecli.Rope(4, 16))
    assert found.diagnosis == ("inv_freq: values were never initialised; exact",)


def test_rows_counted_from_0_are_named_beside_those_given() -> None:
    counted = pecli.Rope(4, 16).tables()
    found = pecli.verify(counted, pecli.Rope(dim=16, positions=(5, 9, 2, 7)))
    assert "positions are 0, 1, 2, …, not those given" in found.diagnosis[0]


@pytest.mark.parametrize(
    ("difference", "is_right"), [({}, True), ({"base": 5e5}, False), ({"offset": 3}, False)]
)
def test_only_the_expected_table_agrees_with_measurements(
    difference: dict[str, Any], is_right: bool
) -> None:
    """Its frequencies, positions and amplitude are measured: those of another base, or of rows that
    begin at 3, are not the supposed ones, and a few rows show it.
    """
    (expected,) = tensors_made_together(ROPE, ["cos", "sin"])
    (found,) = tensors_made_together(replace(ROPE, **difference), ["cos", "sin"])
    observations = Observations(found.every_row, "float32")
    case = Case.of(ROPE, expected.computation, observations)

    assert agrees_with_measurements(case) is is_right
    assert case.fails_in_few_rows is (not is_right)
