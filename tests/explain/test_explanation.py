"""Explanations are copied with other names, without some edits, or merged; the cheapest is the best.

Explanations are made by hand here; an edit is a difference from the spec.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Dtype, Edit, Negated, Parameter, RowsWrong, Transposed
from pecli.explain.explanation import Explanation, best, merged
from pecli.explain.recognition import as_float32, groups, is_vector

OTHER_BASE = Parameter("base", 10000.0, 500000.0)
OTHER_LENGTH = Parameter("seq_len", 4, 8)
ROUNDED = Dtype("float16")
FOR_COS = Explanation((OTHER_BASE,), pecli.Rope(4, 8), ("cos",), cost=1.5, residual=1e-8)


def test_mistakes_are_the_edits_that_are_no_storage() -> None:
    explanation = replace(FOR_COS, edits=(OTHER_BASE, ROUNDED, Negated("sin")))
    assert explanation.mistakes == (OTHER_BASE, Negated("sin"))
    assert explanation.has_edit(Dtype)
    assert explanation.has_edit(Transposed, Negated)
    assert not explanation.has_edit(Transposed)


def test_an_edit_is_left_out_or_added() -> None:
    explanation = replace(FOR_COS, edits=(OTHER_BASE, OTHER_LENGTH, ROUNDED))
    assert explanation.without(ROUNDED).edits == (OTHER_BASE, OTHER_LENGTH)
    assert explanation.without_parameter("seq_len").edits == (OTHER_BASE, ROUNDED)
    assert explanation.without_parameter("offset").edits == explanation.edits
    assert FOR_COS.beside(RowsWrong((3,))).edits == (OTHER_BASE, RowsWrong((3,)))


def test_the_names_of_tensors_and_the_scheme_of_the_command_are_replaced() -> None:
    """`made_by` states the scheme by which a command makes the table; None if no command does."""
    assert FOR_COS.renamed(["a", "b"]).tensors == ("a", "b")
    assert FOR_COS.made_by(None).scheme is None


def test_an_explanation_of_a_search_that_ran_out_of_time_is_marked_in_a_copy() -> None:
    assert FOR_COS.cut_short().is_cut_short
    assert not FOR_COS.is_cut_short


AXES_EXCHANGED = Transposed((1, 0))
SIGN_CHANGED = Negated("all")


def test_changes_by_which_a_table_was_made_to_fit_come_before_its_other_differences() -> None:
    """FOR_COS explains a table by another base. Here that holds after its axes were exchanged and
    its sign was changed.
    """
    supposed = FOR_COS.with_suppositions(edits=(AXES_EXCHANGED, SIGN_CHANGED), cost=0.0, doubts=())
    assert supposed.edits == (AXES_EXCHANGED, SIGN_CHANGED, OTHER_BASE)


def test_each_change_by_which_a_table_was_made_to_fit_costs_nine_tenths() -> None:
    """The cheapest explanation is reported. FOR_COS costs 1.5; two changes cost 0.9 each, and the
    numbers that were supposed cost the stated 0.25.
    """
    supposed = FOR_COS.with_suppositions(edits=(AXES_EXCHANGED, SIGN_CHANGED), cost=0.25, doubts=())
    assert supposed.cost == pytest.approx(1.5 + 2 * 0.9 + 0.25)


def test_questions_about_how_a_table_was_read_come_before_the_other_open_questions() -> None:
    """Sentences about what the numbers do not decide are written below an explanation."""
    explanation = replace(FOR_COS, open=("either base may be meant",))
    supposed = explanation.with_suppositions(
        edits=(), cost=0.0, doubts=("either axis may be the positions",)
    )
    assert supposed.open == ("either axis may be the positions", "either base may be meant")


def test_tensors_with_the_same_mistakes_share_an_explanation() -> None:
    """The longer scheme, the larger residual and the edits of storage are kept."""
    for_sin = Explanation(
        (OTHER_BASE, ROUNDED), pecli.Rope(6, 8), ("sin",), residual=1e-6, is_cut_short=True
    )
    (both,) = merged([FOR_COS, for_sin])

    assert both.tensors == ("cos", "sin")
    assert both.edits == (OTHER_BASE, ROUNDED)
    assert both.scheme == pecli.Rope(6, 8)
    assert both.residual == 1e-6
    assert both.is_cut_short
    (reverse,) = merged([for_sin, FOR_COS])
    assert reverse.tensors == ("sin", "cos")
    assert reverse.scheme == pecli.Rope(6, 8)
    assert reverse.is_cut_short


def test_tensors_without_mistakes_or_with_others_are_not_merged() -> None:
    """Rounding is no mistake; a negated table and another base are different mistakes."""
    right = replace(FOR_COS, edits=(ROUNDED,))
    negated = replace(FOR_COS, edits=(Negated("all"),))
    assert merged([right, right]) == [right, right]
    assert merged([FOR_COS, negated, right]) == [FOR_COS, negated, right]


def test_equal_mistakes_are_merged_with_the_scheme_that_one_of_them_has() -> None:
    without_scheme = replace(FOR_COS, scheme=None)
    (both,) = merged([without_scheme, FOR_COS])
    assert both.scheme == pecli.Rope(4, 8)


def test_the_cheapest_explanation_is_the_best_and_the_closest_among_equals() -> None:
    """Costs are equal if they agree in six places; each list of edits is returned once."""

    def explained(edit: Edit, cost: float, residual: float) -> Explanation:
        return replace(FOR_COS, edits=(edit,), cost=cost, residual=residual)

    far = explained(OTHER_BASE, 1.0, 1e-3)
    near = explained(Negated("all"), 1.0 + 1e-9, 1e-8)
    expensive = explained(OTHER_LENGTH, 1.1, 0.0)
    again = explained(OTHER_BASE, 2.0, 0.0)

    assert best([expensive, again, far, near]) == [near, far, expensive]


def test_json_has_no_infinity() -> None:
    explanation = replace(FOR_COS, residual=math.inf, noise=math.nan)
    fields = explanation.as_json("a sentence")

    assert fields["residual"] is None
    assert fields["noise"] is None
    assert fields["tensors"] == ["cos"]
    assert fields["text"] == "a sentence"
    assert FOR_COS.as_json("")["residual"] == 1e-8


TABLE = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (("cos", "sin"), [["cos", "sin"]]),
        (("sin", "cos"), [["cos", "sin"]]),
        (("a.sin", "a.cos", "b.cos"), [["a.cos", "a.sin"], ["b.cos"]]),
        (("a.cos", "b.sin"), [["a.cos"], ["b.sin"]]),
        (("Cos_cached", "sin_cached", "x"), [["Cos_cached", "sin_cached"], ["x"]]),
    ],
    ids=str,
)
def test_cosines_belong_to_the_sines_of_their_name(
    names: tuple[str, ...], pairs: list[list[str]]
) -> None:
    assert [[*group] for group in groups(dict.fromkeys(names, TABLE))] == pairs


@pytest.mark.parametrize("sines", [TABLE[:1], TABLE.astype(np.float16)], ids=["shape", "dtype"])
def test_cosines_do_not_belong_to_sines_of_another_shape_or_dtype(sines: np.ndarray) -> None:
    assert [[*group] for group in groups({"cos": TABLE, "sin": sines})] == [["cos"], ["sin"]]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5,), True), ((1, 5, 1), True), ((), True), ((1,), True), ((2, 5), False), ((5, 5), False)],
)
def test_a_vector_has_one_long_axis_at_most(shape: tuple[int, ...], expected: bool) -> None:
    assert is_vector(np.zeros(shape)) == expected


def test_float32_numbers_in_float64_are_taken_for_float32() -> None:
    """Nine digits of a float32 number are enough; a number between two of them is none."""
    numbers = np.array([[0.1, -1 / 3], [np.nan, 0.0]], np.float32)
    wide = numbers.astype(np.float64)

    assert as_float32(wide).dtype == np.float32
    assert np.array_equal(as_float32(wide), numbers, equal_nan=True)
    assert as_float32(np.array([0.100000001])).dtype == np.float32
    for other in (np.array([0.1]), np.array(0.5), numbers, np.arange(3)):
        assert as_float32(other) is other


def test_an_explanation_is_exact_and_free_unless_stated() -> None:
    explanation = Explanation((), None, ("x",))
    assert explanation.cost == 0
    assert explanation.residual == 0
    assert explanation.recipe_residual == 0
    assert explanation.noise == 0
