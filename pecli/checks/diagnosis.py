"""Lines that say why tensors fail: explanations, commands that reproduce them, and rounding."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pecli.compare.comparison import Comparison, compare_parts
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import FLOAT8, SIGNIFICAND_BITS
from pecli.engine.named_values import JsonObject

if TYPE_CHECKING:  # Explanations are imported if a check fails.
    from pecli.explain.explanation import Explanation

MAX_ROUNDING_ULP = (
    4  #: ULPs by which sines and powers of other libraries differ if all else is right
)
FLOAT64_BITS = 53
FLOAT32_ROUNDING = 2.0**-24  #: error of an expected value up to 1
STEP_SLACK = 1e-6  #: share of a step that float32 arithmetic may add to an error

MAX_RECIPE_RESIDUAL = 1e-2
"""Absolute difference from a recipe's table beyond which a tolerance that allows it would verify nothing."""


class Line(NamedTuple):
    """A line of a diagnosis."""

    text: str
    is_advice: bool = False  #: True for a line that does not begin with the name of a tensor

    def about(self, layers: str) -> str:
        """Return the line with the layers that it is about, if they are some of several."""
        if not layers:
            return self.text
        if self.is_advice:
            return f"{layers}: {self.text}"
        return f"{layers} {self.text}"


class Reasons(NamedTuple):
    """The reasons for which tensors are wrong, in lines and as data."""

    lines: Sequence[str] = ()
    explanations: "Sequence[Explanation]" = ()


def diagnose(
    explanations: "Sequence[Explanation]",
    results: Sequence[Comparison],
    tolerance: Tolerance,
    *,
    takes_recipe: bool = True,
) -> list[Line]:
    """Return explanations in sentences, each with the command that makes such a table.

    If errors are as small as rounding makes them, or as the steps of a quantised table are, there is
    a line on the tolerance that allows them.

    Args:
        explanations: The mistakes that a search has found, if any.
        results: The comparisons of all tensors.
        tolerance: The errors that pass.
        takes_recipe: True if the check can be repeated with another recipe. A golden suite defines its
            own, so that only a tolerance can allow the errors.
    """
    failed = [result for result in results if not result.passed]
    lines: list[Line] = []
    for explanation in explanations:
        recipe = find_passing_recipe(explanation)
        advice = _write_advice_to_pass(recipe, explanation.recipe_residual, tolerance)
        if not takes_recipe:
            advice = _write_advice_on_tolerance(recipe, failed)
        lines += _write_lines_about(explanation, advice)
    # Of a tensor with another problem, such as another shape, no tolerance is enough.
    if failed and not any(result.finding for result in failed):
        lines = _add_advice_on_rounding(lines, failed, tolerance)
        lines += _advise_on_quantised_tables(failed)
    return [*dict.fromkeys(lines)]


def _write_lines_about(explanation: "Explanation", advice: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines of a report on one mistake: a sentence, and commands to try.

    If a table is right except for its precision, a command that accepts it comes first. The last one
    makes a table with the mistake, for a user who wants to see it.

    Args:
        explanation: The mistake.
        advice: The lines with options that accept the table; none if it has another mistake.
    """
    from pecli.explain.words import reproduction, sentence  # It is needed only if a check fails.

    yield Line(sentence(explanation))
    yield from advice
    for line in reproduction(explanation):
        yield Line(line, is_advice=True)


def _write_advice_to_pass(recipe: str, residual: float, tolerance: Tolerance) -> Iterator[Line]:
    """Yield «verify with --recipe float32» for a table that is right except for its precision.

    If it differs by 3e-5 from the table of the recipe, it needs «--recipe float32 --atol 1e-4».

    Args:
        recipe: The precision; empty if no recipe lets the table pass.
        residual: The largest error that is left with the recipe.
        tolerance: The errors that pass without an option.
    """
    if not recipe:
        return
    options = f"--recipe {recipe}"
    if residual > tolerance.atol:
        options += f" --atol 1e{_exponent_above(residual)}"
    yield Line(f"verify with {options}", is_advice=True)


def _write_advice_on_tolerance(recipe: str, failed: Sequence[Comparison]) -> Iterator[Line]:
    """Yield «verify with --atol 1e-2» if a table is right except for its precision, and its errors are below 0.01.

    Args:
        recipe: The precision; empty if the table has another mistake.
        failed: The comparisons of the tensors that did not pass.
    """
    largest_error = max((result.largest_error for result in failed), default=0.0)
    if recipe and 0 < largest_error <= MAX_RECIPE_RESIDUAL:
        yield Line(f"verify with --atol 1e{_exponent_above(largest_error)}", is_advice=True)


def atol_with_recipe(residual: float, tolerance: Tolerance) -> float:
    """Return the absolute tolerance that is advised with a recipe: the given one if it suffices.

    Args:
        residual: The largest error that is left with the recipe.
        tolerance: The errors that pass without an option.
    """
    if residual > tolerance.atol:
        return float(10.0 ** _exponent_above(residual))
    return tolerance.atol


def _exponent_above(residual: float) -> int:
    """Return the exponent of the next power of ten, which is not below an error: −4 for 3e-5."""
    return math.ceil(math.log10(residual))


def explanations_as_json(
    explanations: "Sequence[Explanation]", *, between_files: bool = False
) -> list[JsonObject]:
    """Return the field `explanations` of a result, each of them with its sentence.

    Args:
        explanations: The explanations.
        between_files: True if they explain file B by file A, and not a file by its spec.
    """
    if not explanations:
        return []  # Most checks pass: then nothing is imported that words mistakes.
    from pecli.explain.words import FILE_A, SPEC, sentence

    reference = FILE_A if between_files else SPEC
    return [explanation.as_json(sentence(explanation, reference)) for explanation in explanations]


def find_passing_recipe(explanation: "Explanation") -> str:
    """Return the recipe with which a tensor would pass; empty if it has another mistake.

    A table that was computed with float32 angles has the recipe float32. A table that is wrong in
    another way too, or is off by more than 0.01 from the recipe's, would not pass with it. None is
    returned if other tensors of the file would not pass with it.
    """
    from pecli.engine.edits import Recipe, Runtime

    has_mistakes = not all(isinstance(edit, Runtime) for edit in explanation.mistakes)
    if has_mistakes or not explanation.is_recipe_of_all:
        return ""
    recipes = [edit.found for edit in explanation.edits if isinstance(edit, Recipe)]
    is_near = explanation.recipe_residual <= MAX_RECIPE_RESIDUAL
    if len(recipes) == 1 and is_near:  # No option combines two.
        return recipes[0]
    return ""


def _add_advice_on_rounding(
    lines: list[Line], failed: Sequence[Comparison], tolerance: Tolerance
) -> list[Line]:
    """Return the lines of a report, with advice on `--max-ulp` if all errors are a few ULPs.

    A dtype whose numbers are further apart than the tolerance cannot pass: this comes first,
    whatever other reasons there are. Otherwise rounding is the reason only if there is no other.

    Args:
        lines: The lines so far, one or more for each reason that was found.
        failed: The comparisons of the tensors that did not pass.
        tolerance: The errors that pass.
    """
    ulps = _find_rounding_ulps(failed)
    if not ulps:
        return lines
    coarse_dtype = _find_coarse_dtype(failed, tolerance)
    if coarse_dtype:
        return [_describe_coarse_dtype(coarse_dtype, tolerance, ulps), *lines]
    cause = "the last place differs, as sines and powers of other libraries do"
    return lines or [Line(f"{cause}; allow --max-ulp {ulps}", is_advice=True)]


def _find_coarse_dtype(failed: Iterable[Comparison], tolerance: Tolerance) -> str:
    """Return the first dtype whose steps near 1 are larger than the absolute tolerance; empty if none is.

    With `--atol 1e-4`, bfloat16 is such a dtype. A tolerance of 0 requires equal numbers, which
    every dtype can hold: none is too coarse for it.
    """
    atol = tolerance.atol
    return next((result.dtype for result in failed if 0 < atol < _step_at_one(result.dtype)), "")


def _describe_coarse_dtype(dtype: str, tolerance: Tolerance, ulps: int) -> Line:
    """Return the line for a dtype that is coarser than the absolute tolerance.

    With `--atol 1e-4`, bfloat16 cannot pass: its steps near 1 are 0.0078.
    """
    step = f"near 1 its steps are {_step_at_one(dtype):.2g}"
    return Line(f"{dtype} cannot hold {tolerance.atol:g}: {step}; allow --max-ulp {ulps}")


def _advise_on_quantised_tables(failed: Sequence[Comparison]) -> Iterator[Line]:
    """Yield advice on `--atol` for quantised tables, if all their errors are within one step.

    A quantised table holds integers n that stand for n · step. In int8 with a step of 1/128, the
    largest number is 127/128, so that a cosine of 1 is off by a step, 0.0078. Programs that truncate
    instead of rounding are off by up to a step everywhere. Neither is a mistake of the encoding.
    """
    steps = {result.parts[0].step for result in failed}  # 0 for floats
    step = max(steps)
    largest_error = max(result.largest_error for result in failed)
    is_off_by_one_step = 0 < largest_error <= _bound_error_of_one_step(step)
    if steps == {step} and step > 0 and is_off_by_one_step:
        # The error may be larger than one step of int32, 5e-10: rounding to float32 adds up to 6e-8.
        tolerance = _round_up_to_two_digits(max(step, largest_error))
        words = f"integers with a scale of 1/{round(1 / step)} have steps of {step:.2g}"
        yield Line(f"{words}; allow --atol {tolerance}", is_advice=True)


def _bound_error_of_one_step(step: float) -> float:
    """Return the largest error that is measured for a number that is wrong by one step.

    It is a little more than the step, since both sides are rounded to float32: the product of an
    integer and the step, and the expected value.
    """
    return step * (1 + STEP_SLACK) + FLOAT32_ROUNDING


def _round_up_to_two_digits(number: float) -> str:
    """Return two digits of a tolerance, rounded up so that errors of this size pass.

    >>> _round_up_to_two_digits(1 / 127)
    '0.0079'
    """
    digit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / digit) * digit:.2g}"


def _find_rounding_ulps(failed: Sequence[Comparison]) -> int:
    """Return the fewest ULPs with which all tensors would pass; 0 if it takes more than rounding does.

    Values near 0 may be off by many ULPs and pass nevertheless, if an absolute tolerance allows their
    errors: a bfloat16 of 1e-5 instead of 2e-5 is off by 128 ULPs. The largest errors are not allowed,
    so that their ULPs are needed at least.
    """
    largest = max(result.max_ulp_error or MAX_ROUNDING_ULP + 1 for result in failed)
    if largest <= MAX_ROUNDING_ULP:
        return largest  # Nothing is off by more, so that large tensors are not compared again.
    fewest = max(result.worst_ulp or MAX_ROUNDING_ULP + 1 for result in failed)
    for ulps in range(fewest, MAX_ROUNDING_ULP + 1):
        if all(_passes_within(result, ulps) for result in failed):
            return ulps
    return 0


def _step_at_one(dtype: str) -> float:
    """Return the distance from 1 to the next number of a dtype: 2^-7 for bfloat16, with 8 bits."""
    bits = {**SIGNIFICAND_BITS, **FLOAT8}.get(dtype, FLOAT64_BITS)
    return float(2.0 ** (1 - bits))


def _passes_within(result: Comparison, ulps: int) -> bool:
    """Return True if a tensor would pass with so many ULPs."""
    tolerance = replace(result.allowed, max_ulp=ulps)
    return compare_parts(result.parts, tolerance, name=result.name, any_dtype=True).passed
