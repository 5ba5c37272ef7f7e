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
FOR_SIN = Explanation((OTHER_BASE,), pecli.Rope(6, 8), ("sin",), residual=1e-6, is_cut_short=True)


def test_rounding_to_a_dtype_is_a_difference_and_no_mistake() -> None:
    """The table has another base and negated sines, and it is stored in float16."""
    explanation = replace(FOR_COS, edits=(OTHER_BASE, ROUNDED, Negated("sin")))
    assert explanation.mistakes == (OTHER_BASE, Negated("sin"))


def test_an_explanation_has_an_edit_if_it_has_one_of_the_given_classes() -> None:
    """The differences of the explanation are a parameter, a dtype and a sign; no axes exchanged."""
    explanation = replace(FOR_COS, edits=(OTHER_BASE, ROUNDED, Negated("sin")))
    assert explanation.has_edit(Dtype)
    assert explanation.has_edit(Transposed, Negated)
    assert not explanation.has_edit(Transposed)


def test_an_explanation_is_copied_without_a_difference_or_a_parameter() -> None:
    """The copy keeps the order of the other differences, and all if it lacks the parameter."""
    explanation = replace(FOR_COS, edits=(OTHER_BASE, OTHER_LENGTH, ROUNDED))
    assert explanation.without(ROUNDED).edits == (OTHER_BASE, OTHER_LENGTH)
    assert explanation.without_parameter("seq_len").edits == (OTHER_BASE, ROUNDED)
    assert explanation.without_parameter("offset").edits == explanation.edits


def test_an_explanation_is_copied_with_one_more_difference_at_the_end() -> None:
    """FOR_COS has another base; the copy also has a wrong row."""
    assert FOR_COS.beside(RowsWrong((3,))).edits == (OTHER_BASE, RowsWrong((3,)))


def test_an_explanation_is_copied_with_other_names_of_tensors() -> None:
    """FOR_COS is about the tensor cos; the copy is about a and b."""
    assert FOR_COS.renamed(["a", "b"]).tensors == ("a", "b")


def test_an_explanation_is_copied_without_the_scheme_of_its_command() -> None:
    """`with_scheme_of_command` states the scheme by which a command makes the table; None if no command does."""
    assert FOR_COS.with_scheme_of_command(None).scheme is None


def test_an_explanation_of_a_search_that_ran_out_of_time_is_marked_in_a_copy() -> None:
    """Explanations are immutable: FOR_COS itself stays unmarked."""
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


def test_what_the_reading_of_a_table_leaves_open_is_said_first() -> None:
    """`open` holds sentences about what the numbers do not decide, in the order in which they are
    printed. How the table was read, which axis holds positions, comes before its parameters.
    """
    explanation = replace(FOR_COS, open=("either base may be meant",))
    of_table_as_read = explanation.with_suppositions(
        edits=(), cost=0.0, doubts=("either axis may be the positions",)
    )
    assert of_table_as_read.open == ("either axis may be the positions", "either base may be meant")


def test_tensors_with_the_same_mistakes_share_an_explanation() -> None:
    """Both cosines and sines have another base. Sines have 6 rows where cosines have 4, and a larger
    error; their search ran out of time. All of this is kept.
    """
    (both,) = merged([FOR_COS, FOR_SIN])

    assert both.edits == (OTHER_BASE,)
    assert both.scheme == pecli.Rope(6, 8)
    assert both.residual == 1e-6
    assert both.is_cut_short


@pytest.mark.parametrize(
    ("explanations", "tensors"),
    [
        pytest.param([FOR_COS, FOR_SIN], ("cos", "sin"), id="cosines first"),
        pytest.param([FOR_SIN, FOR_COS], ("sin", "cos"), id="sines first"),
    ],
)
def test_a_shared_explanation_names_its_tensors_in_their_order(
    explanations: list[Explanation], tensors: tuple[str, ...]
) -> None:
    """Both have another base; the scheme of 6 rows is kept in either order."""
    (both,) = merged(explanations)
    assert both.tensors == tensors
    assert both.scheme == pecli.Rope(6, 8)


def test_tensors_of_which_one_is_rounded_have_an_explanation_each() -> None:
    """Cosines and sines have the same wrong base, but only sines are stored in float16."""
    rounded_sines = replace(FOR_SIN, edits=(OTHER_BASE, ROUNDED))
    assert merged([FOR_COS, rounded_sines]) == [FOR_COS, rounded_sines]


def test_tensors_without_mistakes_or_with_others_are_not_merged() -> None:
    """Rounding is no mistake; a negated table and another base are different mistakes."""
    right = replace(FOR_COS, edits=(ROUNDED,))
    negated = replace(FOR_COS, edits=(Negated("all"),))
    assert merged([right, right]) == [right, right]
    assert merged([FOR_COS, negated, right]) == [FOR_COS, negated, right]


def test_equal_mistakes_are_merged_with_the_scheme_that_one_of_them_has() -> None:
    """One explanation has no scheme (no command makes its table); the other has Rope(4, 8)."""
    without_scheme = replace(FOR_COS, scheme=None)
    (both,) = merged([without_scheme, FOR_COS])
    assert both.scheme == pecli.Rope(4, 8)


def test_the_cheapest_explanation_is_the_best_and_the_closest_among_equals() -> None:
    """`far` and `near` cost the same in six places, and `near` has the smaller error. `again` has the
    same difference as `far`, another base, and is left out: each is returned once.
    """

    def explained(edit: Edit, cost: float, residual: float) -> Explanation:
        return replace(FOR_COS, edits=(edit,), cost=cost, residual=residual)

    far = explained(OTHER_BASE, 1.0, 1e-3)
    near = explained(Negated("all"), 1.0 + 1e-9, 1e-8)
    expensive = explained(OTHER_LENGTH, 1.1, 0.0)
    again = explained(OTHER_BASE, 2.0, 0.0)

    assert best([expensive, again, far, near]) == [near, far, expensive]


def test_the_json_of_an_explanation_has_its_tensors_sentence_and_residual() -> None:
    """The residual is the largest error that the explanation leaves, 1e-8 for FOR_COS."""
    fields = FOR_COS.as_json("a sentence")
    assert fields["tensors"] == ["cos"]
    assert fields["text"] == "a sentence"
    assert fields["residual"] == 1e-8


def test_the_json_of_an_explanation_has_null_for_infinity_and_nan() -> None:
    """JSON has neither."""
    fields = replace(FOR_COS, residual=math.inf, noise=math.nan).as_json("a sentence")
    assert fields["residual"] is None
    assert fields["noise"] is None


TABLE = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        pytest.param(("cos", "sin"), [["cos", "sin"]], id="cosines first"),
        pytest.param(("sin", "cos"), [["cos", "sin"]], id="sines first"),
        pytest.param(
            ("a.sin", "a.cos", "b.cos"), [["a.cos", "a.sin"], ["b.cos"]], id="one pair of two"
        ),
        pytest.param(("a.cos", "b.sin"), [["a.cos"], ["b.sin"]], id="of two modules"),
        pytest.param(
            ("Cos_cached", "sin_cached", "x"),
            [["Cos_cached", "sin_cached"], ["x"]],
            id="a capital letter",
        ),
    ],
)
def test_cosines_belong_to_the_sines_of_their_name(
    names: tuple[str, ...], pairs: list[list[str]]
) -> None:
    """Tensors are explained together if their names differ in «cos» and «sin» only; cosines come
    first, and any other tensor stays alone.
    """
    assert [[*group] for group in groups(dict.fromkeys(names, TABLE))] == pairs


@pytest.mark.parametrize("sines", [TABLE[:1], TABLE.astype(np.float16)], ids=["shape", "dtype"])
def test_cosines_do_not_belong_to_sines_of_another_shape_or_dtype(sines: np.ndarray) -> None:
    """The cosines are 2 × 3 in float32, and the sines have one row, or are in float16: each tensor is
    explained by itself.
    """
    assert [[*group] for group in groups({"cos": TABLE, "sin": sines})] == [["cos"], ["sin"]]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5,), True), ((1, 5, 1), True), ((), True), ((1,), True), ((2, 5), False), ((5, 5), False)],
    ids=str,
)
def test_a_vector_has_one_long_axis_at_most(shape: tuple[int, ...], expected: bool) -> None:
    """An axis is long if it has more than one element: (1, 5, 1) has one, and (2, 5) two."""
    assert is_vector(np.zeros(shape)) == expected


def test_float32_numbers_in_float64_are_taken_for_float32() -> None:
    """Text and JSON are read in float64, whatever the dtype of the numbers was."""
    numbers = np.array([[0.1, -1 / 3], [np.nan, 0.0]], np.float32)
    in_float64 = numbers.astype(np.float64)

    assert as_float32(in_float64).dtype == np.float32
    assert np.array_equal(as_float32(in_float64), numbers, equal_nan=True)


def test_nine_digits_of_a_float32_number_are_taken_for_it() -> None:
    """The float32 number next to 0.1 is 0.100000001490…"""
    assert as_float32(np.array([0.100000001])).dtype == np.float32


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.array([0.1]), id="float64: 0.1 is between two numbers of float32"),
        pytest.param(np.array(0.5), id="a single number, which shows little of its dtype"),
        pytest.param(np.array([0.1], np.float32), id="float32 already"),
        pytest.param(np.arange(3), id="integers"),
    ],
)
def test_only_float64_arrays_of_float32_numbers_are_converted_to_float32(array: np.ndarray) -> None:
    """`as_float32` converts a float64 array if all of its numbers are float32's, as [0.5] is. It returns
    any other array itself; also a single number without an axis, here 0.5.
    """
    assert as_float32(np.array([0.5])).dtype == np.float32
    assert as_float32(array) is array


def test_an_explanation_costs_nothing_and_leaves_no_error_unless_stated() -> None:
    """Residuals and noise are errors that it leaves; the explanation is made without any of them."""
    explanation = Explanation(edits=(), scheme=None, tensors=("x",))
    assert explanation.cost == 0
    assert explanation.residual == 0
    assert explanation.recipe_residual == 0
    assert explanation.noise == 0
