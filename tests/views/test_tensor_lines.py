"""Lines about tensors: how many elements are wrong and where, and tensors that passed alike.

Comparisons are made by hand; expected lines are written by hand.
"""

from dataclasses import replace
from typing import Any

import pytest

from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.engine.edits import ColumnsWrong, Edit, Parameter, RowsWrong
from pecli.explain.explanation import Explanation
from pecli.views.tensor_lines import (
    COMPARED,
    VERIFIED,
    error_in_words,
    failed_tensor_lines,
    line_parts,
    passed_tensor_lines,
    units,
)
from tests.views.problems import Stated

EXACT = Comparison(name="cos", shape=(8, 4), size=32)
"""A tensor «cos» of 8 × 4 elements, all of which were compared and have no error."""

WRONG = Comparison(
    name="cos",
    shape=(8, 4),
    size=32,
    mismatched=3,
    max_abs_error=0.25,
    max_ulp_error=3,
    worst_ulp=3,
    worst_index=(1, 3),
    first_index=(0, 3),
    expected=0.5,
    found=0.75,
)
"""3 of the 32 elements are wrong, from [0, 3] on; the worst is [1, 3], which is 0.75 instead of 0.5."""

WORST = "max error 0.25 (3 ulp) at [1, 3]: expected 0.5, found 0.75"
OUT = "3 of 32 out of tolerance"
FIRST = ", the first at [0, 3]"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        pytest.param({}, [f"{OUT}{FIRST}", WORST], id="as it is"),
        pytest.param({"first_index": (1, 3)}, [OUT, WORST], id="the first is also the worst"),
        pytest.param(
            {"max_ulp_error": 9},
            [f"{OUT}{FIRST}", f"{WORST}  (elsewhere up to 9 ulp)"],
            id="another element has more ulps",
        ),
        pytest.param(
            {"max_ulp_error": 2**31},
            [f"{OUT}{FIRST}", WORST],
            id="another element has too many ulps to show",
        ),
        pytest.param(
            {"nonfinite_found": 1200},
            [f"{OUT}{FIRST}", WORST, "1,200 not finite (found)"],
            id="found values are infinite",
        ),
        pytest.param(
            {"nonfinite_expected": 2},
            [f"{OUT}{FIRST}", WORST, "2 not finite (expected)"],
            id="expected values are infinite",
        ),
        pytest.param(
            {"finding": Stated("its copies differ")},
            ["its copies differ", f"{OUT}{FIRST}", WORST],
            id="a finding comes first",
        ),
        pytest.param({"worst_index": None}, [f"{OUT}{FIRST}"], id="the worst element is not known"),
    ],
)
def test_the_line_about_a_wrong_tensor_has_its_errors(
    changes: dict[str, Any], parts: list[str]
) -> None:
    """WRONG is a tensor «cos» of 8 × 4, of which 3 elements are wrong, the worst at [1, 3]. Each
    case changes one of its fields. OUT, FIRST and WORST are the words about these elements.

    The worst element has the largest absolute error, 0.25, which is 3 ulp there. A small value
    elsewhere may be off by more ulps, which a note adds: «elsewhere up to 9 ulp». Counts above
    MAX_ULP, a million, are not shown: 2^31 is about the distance from −1 to 1 in float32, and states
    no more than the absolute error does. Without a `worst_index`, no element is known to which
    «max error … at [1, 3]» could refer, and that part is left out.
    """
    assert line_parts(replace(WRONG, **changes), VERIFIED) == ["cos  8 × 4", *parts]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"columns": [(3, 3)], "rows": [(0, 2)]}, ", all in rows 0–2, column 3"),
        ({"columns": [(0, 1)]}, ", all in columns 0–1"),
        ({"columns": [(0, 2)], "rows": [(0, 4)]}, ""),
        ({"rows": [(0, 0), (2, 2), (7, 7)]}, ", all in rows 0, 2, 7"),
        ({}, ""),
    ],
    ids=str,
)
def test_places_of_errors_are_named_if_they_are_at_most_half_of_an_axis(
    where: dict[str, Any], words: str
) -> None:
    """`where` has ranges of the 8 rows and 4 columns of WRONG in which the wrong elements are; half
    of an axis or less is worth a mention: 4 rows, 2 columns.
    """
    _, mismatches, _ = line_parts(replace(WRONG, where=where), VERIFIED, with_ranges=True)
    assert mismatches == f"{OUT}{words}{FIRST}"

    _, without_ranges, _ = line_parts(replace(WRONG, where=where), VERIFIED)
    assert without_ranges == f"{OUT}{FIRST}"


def test_a_tensor_without_errors_is_exact() -> None:
    """A line is the name and the shape of the tensor, and then a sentence on its values."""
    assert line_parts(EXACT, VERIFIED) == ["cos  8 × 4", "every element is exact"]


def test_a_tensor_is_not_exact_if_only_its_values_are_equal() -> None:
    """A finding is a problem of a tensor that is not one of its values, such as another dtype; here
    it is one with the words «its dtype». The line has the name and shape, the finding, and that the
    values are equal. Without the finding it would be «every element is exact».
    """
    in_another_dtype = replace(EXACT, finding=Stated("its dtype"))

    assert line_parts(in_another_dtype, VERIFIED) == [
        "cos  8 × 4",
        "its dtype",
        "the values themselves are equal",
    ]
    assert line_parts(EXACT, VERIFIED) == ["cos  8 × 4", "every element is exact"]


def test_the_values_of_a_learned_table_have_no_sentence() -> None:
    """Only the shape of a learned table is known before. No value was expected, so that there is no
    error, not even of 0: `max_abs_error` is None.
    """
    learned = replace(EXACT, max_abs_error=None)
    assert line_parts(learned, VERIFIED) == ["cos  8 × 4"]


def test_the_values_of_a_tensor_of_another_shape_have_no_sentence() -> None:
    """The elements have no counterparts to be compared with, so that none were counted as wrong or
    right: `mismatched` is None. The finding stands by itself.
    """
    of_another_shape = replace(EXACT, mismatched=None, finding=Stated("its shape"))
    assert line_parts(of_another_shape, VERIFIED) == ["cos  8 × 4", "its shape"]


def test_sides_of_a_difference_are_called_a_and_b() -> None:
    """WRONG is a tensor whose worst element, at [1, 3], is 0.75 instead of 0.5; EXACT has no
    errors. COMPARED are the words of a difference, in which neither file is the right one.
    """
    assert line_parts(EXACT, COMPARED)[-1] == "every element is equal"
    assert line_parts(WRONG, COMPARED)[-1].endswith("at [1, 3]: A 0.5, B 0.75")


def test_a_reading_is_stated_once() -> None:
    """A reading is how a tensor was understood, such as transposed. cos and sin of the same reading
    follow each other, and only the first line states it; x has a reading of its own.
    """
    sin = replace(WRONG, name="sin")
    readings = {"cos": "transposed", "sin": "transposed", "x": "flat"}
    x = replace(WRONG, name="x")
    result = Verification("f", "rope", (WRONG, sin, x), readings=readings)
    heads = [head for head, *_ in failed_tensor_lines(result.tensors, result, VERIFIED)]

    assert heads == ["cos  8 × 4, transposed", "sin  8 × 4", "x  8 × 4, flat"]


def test_tensors_that_passed_alike_share_a_line() -> None:
    """Passed are inv_freq of 3 layers, cos and sin, which are exact, a table that is 1.5e-7 off, a
    learned one, and one that was read as transposed. What is alike shares a line; the wrong tensor
    has none.
    """
    layers = [
        replace(EXACT, name=f"model.layers.{layer}.rotary_emb.inv_freq", shape=(4,))
        for layer in range(3)
    ]
    tables = [EXACT, replace(EXACT, name="sin")]
    near = replace(EXACT, name="near", max_abs_error=1.5e-7, worst_index=(0, 0))
    learned = replace(EXACT, name="wpe.weight", max_abs_error=None)
    read = replace(EXACT, name="read")
    tensors = (*layers, *tables, near, learned, read, WRONG)
    result = Verification("f", "rope", tensors, readings={"read": "transposed"})

    assert passed_tensor_lines(result) == [
        "3 layers: inv_freq, exact",
        "cos, sin  8 × 4, exact",
        "near  8 × 4, max error 1.5e-7",
        "wpe.weight  8 × 4",
        "read  8 × 4, transposed, exact",
    ]


def test_weights_of_layers_are_named_without_their_suffix() -> None:
    """Two layers have h.0.attn.bias.weight and h.1.attn.bias.weight: «bias» is the last word that
    is not «weight».
    """
    tensors = tuple(
        replace(EXACT, name=f"h.{layer}.attn.bias.weight", max_abs_error=None) for layer in (0, 1)
    )
    assert passed_tensor_lines(Verification("f", "learned", tensors)) == ["2 layers: bias"]


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ("abcd", "a, b, c, d  8 × 4, exact"),
        ("abcde", "a, b, c, d and 1 more  8 × 4, exact"),
        ("abcdef", "a, b, c, d and 2 more  8 × 4, exact"),
    ],
    ids=["four tensors", "five tensors", "six tensors"],
)
def test_a_line_about_tensors_that_passed_alike_has_four_names_at_most(
    names: str, line: str
) -> None:
    """Each letter is the name of a tensor of 8 × 4 elements without errors."""
    tensors = tuple(replace(EXACT, name=name) for name in names)
    assert passed_tensor_lines(Verification("f", "rope", tensors)) == [line]


@pytest.mark.parametrize(
    ("error", "ulp", "words"),
    [(0.5, 7, "0.5 (7 ulp)"), (0.5, None, "0.5"), (1e-7, 2**31, "1e-7"), (0.25, 0, "0.25 (0 ulp)")],
)
def test_an_error_has_its_ulps_if_they_are_few(error: float, ulp: int | None, words: str) -> None:
    """The error in units in the last place is left out if it was not measured or exceeds a
    million.
    """
    assert error_in_words(error, ulp) == words
    assert units(0) == "0 ulp"


@pytest.mark.parametrize(
    ("mistakes", "has_ranges"),
    [
        ((), True),
        ((RowsWrong((1,)), ColumnsWrong((3,))), True),
        ((Parameter("base", 1.0, 2.0),), False),
        ((RowsWrong((1,)), Parameter("base", 1.0, 2.0)), False),
    ],
    ids=["nothing", "parts", "a parameter", "a parameter in a part"],
)
def test_places_of_errors_are_the_best_clue_unless_the_mistake_is_known(
    mistakes: tuple[Edit, ...], has_ranges: bool
) -> None:
    """All wrong elements are in row 1. The line states it if no mistake was found, or if the
    mistake is only that a row or a column is wrong; another base, for example, explains all of it.
    """
    wrong = replace(WRONG, where={"rows": [(1, 1)]})
    explanations = (Explanation(mistakes, None, ("cos",)),) if mistakes else ()
    result = Verification("f", "rope", (wrong,), explanations=explanations)
    ((_, mismatches, _),) = failed_tensor_lines(result.tensors, result, VERIFIED)

    assert (", all in row 1" in mismatches) == has_ranges


def test_complex_numbers_and_integers_in_a_line_are_shown_as_python_shows_them() -> None:
    """The worst element is 3 instead of 1 + 2i."""
    line = line_parts(replace(WRONG, expected=1 + 2j, found=3), VERIFIED)[-1]
    assert line.endswith("expected (1+2j), found 3")
