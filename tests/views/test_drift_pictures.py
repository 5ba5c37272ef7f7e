"""Figures of audits, runtimes and extensions: which curves there are, and that every word can be read."""

import numpy as np
import pytest

import pecli
from pecli.checks.audit import audit
from pecli.checks.position_errors import ErrorCurve
from pecli.views.drift_pictures import audits_figure, merged_curves
from tests.views.pictures.test_figure import assert_readable

RECIPES = ("float32", "bfloat16-positions", "bfloat16-table")


def test_one_scheme_is_the_title_and_recipes_are_named() -> None:
    """One unnamed scheme of 1,024 positions with the tolerance 0.001; each recipe names its curve."""
    made = audits_figure({"": audit(pecli.Rope(1024, 64), RECIPES, 0.001)})
    shown = set(assert_readable(made))

    assert {
        "rope, dim 64: largest error by position",
        "position",
        "largest absolute error",
        "tolerance 0.001",
    } <= shown
    assert set(RECIPES) <= shown

    (axes,) = made.axes
    assert axes.get_xscale() == "log"
    assert axes.get_yscale() == "log"
    assert axes.get_title(loc="left") == ""
    assert made.get_size_inches().tolist() == [8.0, 5.0]


def test_layers_are_below_each_other() -> None:
    """Two layer types with bases 10^6 and 10^4; the titles have the parameters that differ."""
    parts = {"full": pecli.Rope(512, 32, base=1e6), "sliding": pecli.Rope(512, 32)}
    made = audits_figure({name: audit(part, RECIPES[1:], 0.5) for name, part in parts.items()})
    shown = assert_readable(made)

    assert {
        "Largest error by position",
        "rope, dim 32, base 1e6: full",
        "rope, dim 32: sliding",
    } <= set(shown)

    upper, lower = made.axes
    assert upper.bbox.y0 > lower.bbox.y1


def test_biases_have_distances_and_a_recipe_without_an_error_says_so() -> None:
    """Slopes of 8 heads are powers of two, which no rounding changes."""
    made = audits_figure({"": audit(pecli.Alibi(12, 64), ("exact", "float16-table"), 0.0)})
    shown = {
        "alibi, 12 heads: largest error by distance",
        "distance",
        "float16-table",
        "No error: exact",
    }

    assert shown <= set(assert_readable(made))

    made = audits_figure(
        {"": audit(pecli.Alibi(8, 64), None, 5e-324)}
    )  # all slopes are powers of two
    assert not made.axes
    assert "No error to draw: " in " ".join(assert_readable(made))


@pytest.mark.parametrize("tolerance", [0.0, 5e-324, 1e308])
def test_the_first_position_alone_and_extreme_tolerances_have_no_place_on_the_axes(
    tolerance: float,
) -> None:
    assert_readable(audits_figure({"": audit(pecli.Rope(1, 8), ("float32",), tolerance)}))


def error_curve(*errors: float) -> ErrorCurve:
    return ErrorCurve(np.arange(1.0, len(errors) + 1), np.array(errors))


def test_curves_within_a_factor_of_three_are_one_range() -> None:
    """Two recipes at two positions, with the errors 1e-3, 2e-3 and 2.9e-3, 1e-3. The largest is
    drawn, the smallest ends the range.
    """
    (curve,) = merged_curves({"a": error_curve(1e-3, 2e-3), "b": error_curve(2.9e-3, 1e-3)})
    assert curve.label == "b, a"
    assert curve.y.tolist() == [2.9e-3, 2e-3]
    assert curve.spread is not None
    assert curve.spread.low.tolist() == [1e-3, 1e-3]


def test_curves_farther_apart_at_one_position_stay_apart() -> None:
    """At the second position, 4e-3 is more than three times 1e-3."""
    curves = merged_curves({"a": error_curve(1e-3, 1e-3), "b": error_curve(1e-3, 4e-3)})
    assert [curve.label for curve in curves] == ["b", "a"]


def test_a_missing_error_is_not_a_small_one() -> None:
    """NaN stands for a position that was not measured."""
    curves = merged_curves({"a": error_curve(np.nan, 1.0), "b": error_curve(1.0, 1.0)})
    assert len(curves) == 2


def test_curves_are_the_worst_first() -> None:
    """Each recipe has one error: 1, 1e-3 and 1e-6."""
    errors = {"small": error_curve(1e-6), "large": error_curve(1.0), "middle": error_curve(1e-3)}
    assert [curve.label for curve in merged_curves(errors)] == ["large", "middle", "small"]


def test_every_recipe_of_an_audit_is_named_at_the_end_of_a_curve() -> None:
    measured = audit(pecli.Rope(1024, 64))
    made = audits_figure({"": measured})
    (axes,) = made.axes
    names = ", ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    named = set(names.split(", "))

    assert {drift.recipe for drift in measured.drifts} <= named

    colours = [line.get_color() for line in axes.lines if line.get_linestyle() != "--"]
    assert axes.get_legend() is None
    assert len(set(colours)) == len(colours)
