"""Advice on tolerances: errors of a few ULPs, and quantised tables that are off by a step.

Two numbers are compared in a dtype, whose ULPs near 1 follow from its bits: 2^-7 in bfloat16, 2^-23
in float32. Expected sentences are written by hand.
"""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.diagnosis import Line, diagnose, explanations_as_json
from pecli.compare.comparison import Comparison, compare_arrays
from pecli.engine.edits import Edit, Negated, Parameter, Recipe, Runtime
from pecli.explain.explanation import Explanation

BFLOAT16 = ml_dtypes.bfloat16
ULP_OF_BFLOAT16 = 2.0**-7
ULP_OF_FLOAT32 = 2.0**-23
CANNOT_HOLD = "bfloat16 cannot hold 0.001: near 1 its steps are 0.0078"
LAST_PLACE = "the last place differs, as sines and powers of other libraries do"


def advice_on(
    expected: list[float], found: list[float], dtype: Any = BFLOAT16, atol: float = 0.0
) -> list[str]:
    """Return the sentences about numbers that were found instead of the expected ones, in a dtype."""
    tolerance = pecli.Tolerance(atol=atol)
    result = compare_arrays(np.array(expected, dtype), np.array(found, dtype), tolerance, name="x")
    return [line.text for line in diagnose([], [result], tolerance)]


@pytest.mark.parametrize("ulps", [1, 4])
def test_a_tolerance_that_bfloat16_cannot_hold_is_named(ulps: int) -> None:
    """Near 1, bfloat16 has steps of 2^-7 = 0.0078, larger than the tolerance of 0.001. If a value
    is off by 1 to 4 of them, which is rounding, the advice is to allow as many ULPs.
    """
    advice = advice_on([1, 0.5], [1 + ulps * ULP_OF_BFLOAT16, 0.5], atol=1e-3)
    assert advice == [f"{CANNOT_HOLD}; allow --max-ulp {ulps}"]


def test_more_than_four_ulps_are_no_rounding() -> None:
    """pecli takes errors of up to 4 ULPs for rounding, the most that it advises to allow."""
    assert advice_on([1, 0.5], [1 + 5 * ULP_OF_BFLOAT16, 0.5], atol=1e-3) == []
    assert advice_on([1, 0.5], [1 + 5 * ULP_OF_FLOAT32, 0.5], np.float32) == []


@pytest.mark.parametrize(("ulps", "advised"), [(1, [1]), (4, [4]), (5, [])])
def test_small_values_may_be_off_by_many_ulps_within_an_absolute_tolerance(
    ulps: int, advised: list[int]
) -> None:
    """1 is off by so many ULPs of bfloat16; up to 4 are advised to be allowed. That 1e-5 instead of
    2e-5 is off by 128 ULPs does not matter, as it is off by less than 1e-3.
    """
    lines = advice_on([1, 1e-5], [1 + ulps * ULP_OF_BFLOAT16, 2e-5], atol=1e-3)
    assert lines == [f"{CANNOT_HOLD}; allow --max-ulp {count}" for count in advised]


def test_errors_of_integers_are_no_rounding() -> None:
    """3 instead of 2 is off by one step of the dtype, int32. Integers are not rounded, so that no
    ULPs are advised to be allowed.
    """
    assert advice_on([1, 2], [1, 3], np.int32) == []


@pytest.mark.parametrize("atol", [0.0, 1e-3], ids=["no tolerance", "a tolerance of 0.001"])
def test_an_error_that_no_few_ulps_allow_leaves_no_advice_on_rounding(atol: float) -> None:
    """1 is off by one ULP, as by rounding, and 0.015 instead of 0.01 by 0.005. Near 0.01 bfloat16 has
    steps of 2^-14 = 0.00006, so that these are about 80 ULPs: `--max-ulp 1` would not let it pass.
    """
    assert advice_on([1, 0.01], [1 + ULP_OF_BFLOAT16, 0.015], atol=atol) == []


@pytest.mark.parametrize(
    ("dtype", "ulp"), [(np.float32, ULP_OF_FLOAT32), (np.float64, 2.0**-52), (np.float16, 2.0**-10)]
)
def test_four_ulps_of_an_exact_comparison_are_rounding(dtype: Any, ulp: float) -> None:
    """Without a tolerance, numbers that are off by up to 4 ULPs get advice on rounding; 5 do not, by
    test_more_than_four_ulps_are_no_rounding.
    """
    advice = advice_on([1, 0.5], [1 + 4 * ulp, 0.5], dtype)
    assert advice == [f"{LAST_PLACE}; allow --max-ulp 4"]


def test_float32_is_coarser_than_a_tolerance_of_a_billionth() -> None:
    """Near 1, the steps of float32 are 2^-23 = 1.2e-7. The first number is off by four of them."""
    advice = advice_on([1, 0.5], [1 + 4 * ULP_OF_FLOAT32, 0.5], np.float32, atol=1e-9)
    steps = "near 1 its steps are 1.2e-07"
    assert advice == [f"float32 cannot hold 1e-09: {steps}; allow --max-ulp 4"]


def test_float8_is_coarser_than_a_tolerance_of_a_tenth() -> None:
    """Near 1, the steps of float8_e4m3fn are 2^-3 = 0.125. The first number is off by one of them."""
    advice = advice_on([1, 0.5], [1.125, 0.5], ml_dtypes.float8_e4m3fn, atol=0.1)
    steps = "near 1 its steps are 0.12"
    assert advice == [f"float8_e4m3fn cannot hold 0.1: {steps}; allow --max-ulp 1"]


def test_a_tensor_of_another_shape_leaves_no_advice_on_rounding() -> None:
    """Tensor x is off by one ULP, which alone gets advice; beside it, y has the shape (2,) instead of
    (3,), which no tolerance allows.
    """
    one = np.array([1], BFLOAT16)
    next_number = np.array([1 + ULP_OF_BFLOAT16], BFLOAT16)
    off_by_one_ulp = compare_arrays(one, next_number, pecli.Tolerance(), name="x")
    other_shape = Comparison.of_shape("y", (3,), "(2,)")

    assert diagnose([], [off_by_one_ulp], pecli.Tolerance())
    assert diagnose([], [off_by_one_ulp, other_shape], pecli.Tolerance()) == []


def test_what_passes_gets_no_advice() -> None:
    """Numbers that are equal, or no numbers at all."""
    assert advice_on([1, 0.5], [1, 0.5]) == []
    assert diagnose([], [], pecli.Tolerance()) == []


IN_FLOAT32 = Explanation((Recipe("float32"),), pecli.Rope(4, 8), ("cos",), recipe_residual=3e-5)
"""«cos was computed by the recipe float32»: in float32 throughout, which leaves errors of 3e-5."""


def recipe_advice_on(explanation: Explanation, atol: float = 0.0) -> list[str]:
    """Return the lines «verify with …» about a table that was compared within this tolerance."""
    lines = diagnose([explanation], [], pecli.Tolerance(atol=atol))
    return [line.text for line in lines if line.text.startswith("verify with")]


@pytest.mark.parametrize(
    ("error_that_remains", "options"),
    [
        pytest.param(0.0, "--recipe float32", id="no error remains"),
        pytest.param(3e-5, "--recipe float32 --atol 1e-4", id="3e-5 is below 1e-4"),
        pytest.param(2e-3, "--recipe float32 --atol 1e-2", id="2e-3 is below 1e-2"),
        pytest.param(1e-2, "--recipe float32 --atol 1e-2", id="1e-2 is a power of ten itself"),
    ],
)
def test_a_table_that_was_computed_by_a_recipe_may_be_verified_with_it(
    error_that_remains: float, options: str
) -> None:
    """A table fails because it was computed in other dtypes, those of the recipe float32. The advice
    is to verify it by that recipe; if it is still off a little, with the tolerance that allows
    this: the least power of ten that is not below the error.
    """
    explanation = replace(IN_FLOAT32, recipe_residual=error_that_remains)
    assert recipe_advice_on(explanation) == [f"verify with {options}"]


@pytest.mark.parametrize("atol", [1e-4, 3e-5], ids=["more than the error", "just the error"])
def test_a_given_tolerance_that_covers_the_errors_of_a_recipe_is_not_advised(atol: float) -> None:
    """IN_FLOAT32 leaves errors of 3e-5, which the tolerance that the user has given allows; without
    one, «--atol 1e-4» is advised as well.
    """
    assert recipe_advice_on(IN_FLOAT32, atol=atol) == ["verify with --recipe float32"]
    assert recipe_advice_on(IN_FLOAT32, atol=0) == ["verify with --recipe float32 --atol 1e-4"]


def test_a_recipe_is_not_advised_if_more_than_a_hundredth_remains() -> None:
    """The limit is 0.01: a tolerance of 0.1, the next power of ten above 0.011, is a tenth of the
    largest cosine and would accept wrong tables.
    """
    assert recipe_advice_on(replace(IN_FLOAT32, recipe_residual=0.010))
    assert recipe_advice_on(replace(IN_FLOAT32, recipe_residual=0.011)) == []
    assert recipe_advice_on(replace(IN_FLOAT32, recipe_residual=0.02)) == []


def test_a_recipe_is_advised_for_the_table_of_a_runtime() -> None:
    """Runtime("vllm") says which program computes so: it is no mistake that another option would
    have to mend.
    """
    explanation = replace(IN_FLOAT32, edits=(Runtime("vllm"), Recipe("float32")))
    assert recipe_advice_on(explanation, atol=1e-4) == ["verify with --recipe float32"]


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param((Negated("sin"), Recipe("float32")), id="a wrong sign besides"),
        pytest.param((Recipe("float32"), Recipe("bfloat16-inv-freq")), id="two recipes"),
        pytest.param((), id="no recipe"),
    ],
)
def test_a_recipe_is_not_advised_if_the_table_would_not_pass_by_it(edits: tuple[Edit, ...]) -> None:
    """`verify --recipe` takes one recipe and mends no wrong sign. The recipe float32 alone, which
    the first line has, is advised.
    """
    assert recipe_advice_on(IN_FLOAT32, atol=1e-4) == ["verify with --recipe float32"]
    assert recipe_advice_on(replace(IN_FLOAT32, edits=edits), atol=1e-4) == []


def test_an_error_of_one_ulp_is_called_rounding_only_if_no_reason_is_known() -> None:
    """1 + 2^-23 instead of 1 is off by one ULP of float32. Without a reason, the advice is to allow
    it. If the reason is known, here that the table was computed in float32, that advice is left
    out: the first line states the reason.
    """
    expected = np.array([1.0], np.float32)
    found = np.array([1 + ULP_OF_FLOAT32], np.float32)
    off_by_one_ulp = compare_arrays(expected, found, pecli.Tolerance(), name="cos")
    without_reason = diagnose([], [off_by_one_ulp], pecli.Tolerance())
    with_reason = diagnose([IN_FLOAT32], [off_by_one_ulp], pecli.Tolerance())

    assert [line.text for line in without_reason] == [f"{LAST_PLACE}; allow --max-ulp 1"]
    assert with_reason[0].text.startswith("cos: computed by the recipe float32")
    assert not with_reason[0].is_advice
    assert not any("ulp" in line.text for line in with_reason)


@pytest.mark.parametrize(
    ("is_advice", "text"), [(True, "layers 3, 4: allow more"), (False, "layers 3, 4 allow more")]
)
def test_a_line_names_the_layers_that_it_is_about(is_advice: bool, text: str) -> None:
    """Advice is set off by a colon; other sentences go on after the layers."""
    line = Line("allow more", is_advice=is_advice)
    assert line.about("layers 3, 4") == text
    assert line.about("") == "allow more"


def test_without_explanations_there_are_none_in_json() -> None:
    """The list in the JSON of a check that found no reason is empty."""
    assert explanations_as_json([]) == []


def test_explanations_in_json_name_the_file_or_the_spec() -> None:
    """`verify` compares with a spec, and `diff` with a file A: the base is 500 instead of 10000."""
    other_base = replace(IN_FLOAT32, edits=(Parameter("base", 10000.0, 500.0),))
    (by_spec,) = explanations_as_json([other_base])
    (by_file,) = explanations_as_json([other_base], between_files=True)

    assert "base is 500 (the spec says 10000)" in str(by_spec)
    assert "base is 500 (in A 10000)" in str(by_file)
