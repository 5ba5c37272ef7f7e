"""Figures of audits, runtimes and extensions: which curves there are, and that every word can be read."""

import numpy as np
import pytest

import pecli
from pecli.checks.audit import audit
from pecli.checks.position_errors import ErrorCurve
from pecli.views.drift_pictures import audits_figure, merged_curves
from tests.views.pictures.test_figure import assert_readable

RECIPES = ("float32", "bfloat16-positions", "bfloat16-table")


def test_the_figure_of_one_scheme_names_the_scheme_the_axes_and_the_recipes() -> None:
    """`audits_figure` draws the errors that `audit` measured for a rotary table of 1,024 positions,
    a curve per recipe; `assert_readable` returns the texts that can be read in it. They are the
    title, the names of both axes, the level of the tolerance, and the recipes beside their curves.
    """
    made = audits_figure({"": audit(pecli.Rope(1024, 64), RECIPES, tolerance=0.001)})
    shown = set(assert_readable(made))

    assert {
        "rope, dim 64: largest error by position",
        "position",
        "largest absolute error",
        "tolerance 0.001",
    } <= shown
    assert set(RECIPES) <= shown


def test_the_figure_of_one_scheme_has_one_panel_with_logarithmic_axes() -> None:
    """Positions go from 1 to 1,023 and errors over several decades, so both axes are logarithmic.
    The title of the figure names the scheme; its only panel needs none. One panel is 5 inches high
    (SINGLE_CHART_INCHES of the package), and all figures are 8 inches wide.
    """
    made = audits_figure({"": audit(pecli.Rope(1024, 64), RECIPES, tolerance=0.001)})

    (axes,) = made.axes
    assert axes.get_xscale() == "log"
    assert axes.get_yscale() == "log"
    assert axes.get_title(loc="left") == ""
    assert made.get_size_inches().tolist() == [8.0, 5.0]


def test_layer_types_have_panels_below_each_other_with_titles_of_their_own() -> None:
    """The two layer types have bases 10^6 and 10^4, the default, which a title leaves out. The
    panel of «full», which was given first, is the upper one.
    """
    parts = {"full": pecli.Rope(512, 32, base=1e6), "sliding": pecli.Rope(512, 32)}
    recipes = ("bfloat16-positions", "bfloat16-table")
    audits = {name: audit(part, recipes, tolerance=0.5) for name, part in parts.items()}
    made = audits_figure(audits)
    shown = assert_readable(made)

    assert {
        "Largest error by position",
        "rope, dim 32, base 1e6: full",
        "rope, dim 32: sliding",
    } <= set(shown)

    upper, lower = made.axes
    assert upper.bbox.y0 > lower.bbox.y1


def test_errors_of_a_bias_are_drawn_over_distances_and_exact_recipes_are_only_named() -> None:
    """The bias of ALiBi is a slope times a distance. The recipe «exact» has no error by
    construction, and so no curve: a line of text names it.
    """
    recipes = ("exact", "float16-table")
    made = audits_figure({"": audit(pecli.Alibi(12, 64), recipes, tolerance=0.0)})
    shown = {
        "alibi, 12 heads: largest error by distance",
        "distance",
        "float16-table",
        "No error: exact",
    }

    assert shown <= set(assert_readable(made))


@pytest.mark.parametrize("tolerance", [0.0, 0.001], ids=["exact", "with a tolerance"])
def test_a_figure_without_any_error_is_a_sentence(tolerance: float) -> None:
    """The slopes of 8 heads are 1/2, 1/4, …, 1/256, and the bias is a slope times a distance below
    64: float32, float16 and bfloat16 have all of these numbers, so that no program rounds them. The
    level of a tolerance does not need axes by itself.
    """
    programs = ("float32", "float16-table", "bfloat16-table")
    figure = audits_figure({"": audit(pecli.Alibi(8, 64), programs, tolerance=tolerance)})

    assert not figure.axes
    assert "No error to draw: float32, float16-table, bfloat16-table" in " ".join(
        assert_readable(figure)
    )


@pytest.mark.parametrize("tolerance", [0.0, 5e-324, 1e308])
def test_a_figure_of_position_0_and_an_extreme_tolerance_is_readable(tolerance: float) -> None:
    """Neither position 0 nor these tolerances have a place on logarithmic axes; the figure must be
    drawn without an exception, and its texts must not overlap.
    """
    measured = audit(pecli.Rope(1, 8), ("float32",), tolerance)
    assert_readable(audits_figure({"": measured}))


def error_curve(*errors: float) -> ErrorCurve:
    return ErrorCurve(np.arange(1.0, len(errors) + 1), np.array(errors))


def test_curves_within_a_factor_of_three_are_one_range() -> None:
    """Recipe a has the errors 1e-3 and 2e-3 at two positions, recipe b 2.9e-3 and 1e-3: they differ
    by less than ALIKE_RATIO = 3 at both. `merged_curves` makes one curve of the larger errors, with
    a range down to the smaller ones, and lists the recipe with the largest error first.
    """
    (curve,) = merged_curves({"a": error_curve(1e-3, 2e-3), "b": error_curve(2.9e-3, 1e-3)})
    assert curve.label == "b, a"
    assert curve.y.tolist() == [2.9e-3, 2e-3]
    assert curve.spread is not None
    assert curve.spread.low.tolist() == [1e-3, 1e-3]


def test_curves_farther_apart_at_one_position_stay_apart() -> None:
    """The errors of recipes a and b are equal at the first position. At the second, 1e-3 and 4e-3
    differ by more than ALIKE_RATIO = 3, so that `merged_curves` keeps two curves. That of the larger
    error, b, is the first.
    """
    curves = merged_curves({"a": error_curve(1e-3, 1e-3), "b": error_curve(1e-3, 4e-3)})
    assert [curve.label for curve in curves] == ["b", "a"]


def test_curves_over_other_positions_stay_apart() -> None:
    """Both recipes have the error 1e-3, at the positions 1 and 2, and 1 and 4: a common curve would have
    points that were not measured.
    """
    errors = np.array([1e-3, 1e-3])
    farther = ErrorCurve(np.array([1.0, 4.0]), errors)

    assert len(merged_curves({"a": error_curve(1e-3, 1e-3), "b": farther})) == 2


def test_a_missing_error_is_not_a_small_one() -> None:
    """NaN stands for a position that was not measured: `merged_curves` cannot compare the curves
    there, and keeps both.
    """
    curves = merged_curves({"a": error_curve(np.nan, 1.0), "b": error_curve(1.0, 1.0)})
    assert len(curves) == 2


def test_curves_are_the_worst_first() -> None:
    """`merged_curves` sorts the curves of three recipes, with one error of 1, 1e-3 and 1e-6 each,
    from the largest error to the smallest.
    """
    errors = {"small": error_curve(1e-6), "large": error_curve(1.0), "middle": error_curve(1e-3)}
    assert [curve.label for curve in merged_curves(errors)] == ["large", "middle", "small"]


def test_every_recipe_of_an_audit_is_named_at_the_end_of_a_curve() -> None:
    """All recipes of a rotary table are drawn. The texts at the ends of the curves name each of
    them, so there is no legend; every curve has a colour of its own (the dashed line is the
    tolerance).
    """
    measured = audit(pecli.Rope(1024, 64))
    made = audits_figure({"": measured})
    (axes,) = made.axes
    names = ", ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    named = set(names.split(", "))

    assert {drift.recipe for drift in measured.drifts} <= named

    colours = [line.get_color() for line in axes.lines if line.get_linestyle() != "--"]
    assert axes.get_legend() is None
    assert len(set(colours)) == len(colours)
