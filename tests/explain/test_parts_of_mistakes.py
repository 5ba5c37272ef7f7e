"""Parts of the catalogue of mistakes: what a mistake applies to, what it costs, and the scheme that
reproduces it.

Schemes are made by hand; slopes are 2^(−8k/12), the rule that the paper has for powers of two.
"""

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

TWELVE_HEADS = pecli.Alibi(12, 8)
NAIVE = OtherRule(rule="naive", heads=12, max_bias=8.0)
"""The mistake that 12 heads, which are no power of two, have the slopes 2^(−8k/12) nevertheless."""


def test_the_scheme_that_reproduces_slopes_of_another_rule_has_that_rule() -> None:
    """ALiBi's paper has a rule of its own for 12 heads. If the naive rule was used, `pecli alibi` with
    the naive rule makes the same slopes.
    """
    assert NAIVE.scheme_after(TWELVE_HEADS) == pecli.Alibi(heads=12, seq_len=8, rule="naive")


def test_slopes_of_more_heads_are_made_by_no_scheme() -> None:
    """The mistake is that 12 heads have the first 12 slopes of 16 heads. No options of 12 heads make
    those, so that there is no scheme after the mistake.
    """
    slopes_of_16_heads = OtherRule(rule="paper", heads=16, max_bias=8.0)
    assert slopes_of_16_heads.scheme_after(TWELVE_HEADS) is None


def test_a_mistake_in_slopes_makes_the_slopes_of_the_naive_formula() -> None:
    """`pecli golden` writes tables with a mistake, which a port must reject. The naive slopes of 12
    heads are 2^(−8k/12) for k = 1 … 12.
    """
    (tensors,) = tensors_made_together(TWELVE_HEADS, ["slopes"])
    wrong = exact_tensors(tensors, NAIVE)

    assert wrong is not None
    assert wrong["slopes"].ravel() == pytest.approx(2.0 ** (-8 * np.arange(1, 13) / 12))


def test_sections_of_mrope_may_be_mistaken_only_if_positions_are_listed_per_axis() -> None:
    """Sections share the pairs among the axes time, row and column. Without listed positions all
    three axes count 0, 1, 2, …, so that other sections would change nothing.
    """
    per_axis = ((0, 1), (0, 2), (0, 3))
    listed = pecli.Rope(positions=per_axis, dim=8, mrope_section=(1, 2, 1))
    counted = pecli.Rope(seq_len=2, dim=8, mrope_section=(1, 2, 1))

    assert has_mrope_sections(listed)
    assert not has_mrope_sections(counted)


def test_a_mistake_with_a_usual_factor_costs_less_than_one_with_a_rare_factor() -> None:
    """The mistake of the lowest cost is reported. Scalings are more often by 2 than by 3."""
    by_2 = OtherScalingNumber("factor", 2.0)
    by_3 = OtherScalingNumber("factor", 3.0)
    assert by_2.cost < by_3.cost


@pytest.mark.parametrize(
    ("size", "is_known"),
    [
        pytest.param(MAX_VECTOR, True, id="at the limit"),
        pytest.param(MAX_VECTOR + 1, False, id="one more"),
    ],
)
def test_a_vector_of_frequencies_is_identified_up_to_a_limit_of_its_size(
    size: int, is_known: bool
) -> None:
    """The vector is 10000^(−i/n) for i = 0 … n − 1, by NumPy. A vector of more than MAX_VECTOR numbers
    has more frequencies than any model, and is not searched.
    """
    frequencies = (1e4 ** (-np.arange(size) / size)).astype(np.float32)
    assert pecli.identify({"inv_freq": frequencies}).passed is is_known


@pytest.mark.parametrize("value", [0.0, 1e-16])
def test_frequencies_that_are_all_tiny_are_called_never_initialised(value: float) -> None:
    """The first frequency of every model is about 1, so that eight frequencies of 0 or 1e-16 are what
    the memory happened to hold.
    """
    never_set = {"inv_freq": np.full(8, value, np.float32)}
    result = pecli.verify(never_set, pecli.Rope(seq_len=4, dim=16))
    assert result.diagnosis == ("inv_freq: values were never initialised; exact",)


def test_rows_counted_from_0_are_named_if_other_positions_are_given() -> None:
    """The spec lists the positions 5, 9, 2 and 7; the table's four rows are at 0, 1, 2 and 3."""
    counted = pecli.Rope(seq_len=4, dim=16).tables()
    result = pecli.verify(counted, pecli.Rope(dim=16, positions=(5, 9, 2, 7)))
    assert "positions are 0, 1, 2, …, not those given" in result.diagnosis[0]


def case_of_table(found: pecli.Rope) -> Case:
    """Return the case that the cosines and sines of `found` are those of Rope(40, 16)."""
    expected = pecli.Rope(40, 16)
    (expected_tensors,) = tensors_made_together(expected, ["cos", "sin"])
    (found_tensors,) = tensors_made_together(found, ["cos", "sin"])
    observations = Observations(found_tensors.every_row, "float32")
    return Case.of(expected, expected_tensors.computation, observations)


@pytest.mark.parametrize(
    ("found", "agrees"),
    [
        pytest.param(pecli.Rope(40, 16), True, id="the expected table"),
        pytest.param(pecli.Rope(40, 16, base=5e5), False, id="another base"),
        pytest.param(pecli.Rope(40, 16, offset=3), False, id="rows that begin at 3"),
    ],
)
def test_measured_waves_agree_with_the_expected_table_only(found: pecli.Rope, agrees: bool) -> None:
    """Frequencies, positions and amplitude are measured in the table of `found`, and compared with
    those of Rope(40, 16), which has base 10000 and begins at 0.
    """
    assert agrees_with_measurements(case_of_table(found)) is agrees


@pytest.mark.parametrize(
    ("found", "is_wrong"),
    [
        pytest.param(pecli.Rope(40, 16), False, id="the expected table"),
        pytest.param(pecli.Rope(40, 16, base=5e5), True, id="another base"),
        pytest.param(pecli.Rope(40, 16, offset=3), True, id="rows that begin at 3"),
    ],
)
def test_a_few_rows_show_that_a_table_is_not_the_expected_one(
    found: pecli.Rope, is_wrong: bool
) -> None:
    """`fails_in_few_rows` compares the elements of a few rows with those of Rope(40, 16), so that most
    wrong suppositions need no comparison of the whole table.
    """
    assert case_of_table(found).fails_in_few_rows is is_wrong
