"""The range of values that a picture shows, and which pictures have none."""

import numpy as np
import pytest

from pecli.errors import ParameterError
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture
from pecli.views.pictures.value_range import ValueRange, check_range, parse_range, with_range

CHART = Chart("x", (Curve("a", np.arange(3.0), np.arange(3.0)),))


def picture_of(**fields: object) -> Picture:
    return Picture("x", (Chart("x", CHART.curves, **fields),))  # type: ignore[arg-type]


def test_a_range_is_two_numbers_the_smaller_first() -> None:
    """On the command line it is LOW:HIGH, in Python a pair of numbers; None is no range."""
    assert parse_range(None) is None
    assert check_range(None) is None
    assert parse_range("-1:1e3") == ValueRange(-1, 1000)
    assert check_range([-1, 2]) == ValueRange(-1, 2)


@pytest.mark.parametrize("text", ["1", "1:2:3", "1:1", "2:1", "a:1", "1:inf", ":"])
def test_texts_that_are_not_two_rising_numbers_are_refused_as_a_range(text: str) -> None:
    """The option is LOW:HIGH, with finite numbers; the error names the option, range."""
    with pytest.raises(ParameterError, match=r"^range"):
        parse_range(text)


@pytest.mark.parametrize("value", [3, (1,), (1, 2, 3), (2, 1), (1, 1), ("1", 2)])
def test_values_that_are_not_two_rising_numbers_are_refused_as_a_range(value: object) -> None:
    """The argument is a pair (low, high) of numbers; the error names the argument, value_range."""
    with pytest.raises(ParameterError, match=r"^value_range"):
        check_range(value)


def test_a_picture_shows_its_range_except_where_panels_show_another_quantity() -> None:
    """A chart and a heatmap get the range −1 to 2 as their ends. A chart with share=0.5, such as
    the stretch below wavelengths, shows another quantity in half the height, and keeps its own
    ends.
    """
    small = Chart("stretch", CHART.curves, share=0.5)
    heatmap = HeatmapPanel("x", np.eye(2))
    changed = with_range(Picture("x", (CHART, small, heatmap)), ValueRange(-1, 2))
    chart, below, map_of_values = changed.panels

    assert isinstance(chart, Chart)
    assert isinstance(below, Chart)
    assert isinstance(map_of_values, HeatmapPanel)
    assert chart.y_limits == (-1, 2)
    assert below.y_limits is None
    assert map_of_values.limits == (-1, 2)


def test_without_a_range_a_picture_stays_as_it_is() -> None:
    """A picture of circles has no range, and none is given: it is the same object."""
    picture = picture_of(polar=True)
    assert with_range(picture, None) is picture


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_logarithmic_range_begins_above_zero(low: float) -> None:
    """Zero and negative numbers have no place on a logarithmic axis; on a linear one they have."""
    with pytest.raises(ParameterError, match=r"on a logarithmic scale it must begin above 0"):
        with_range(picture_of(log_y=True), ValueRange(low, 2))
    with_range(picture_of(log_y=True), ValueRange(1e-9, 2))
    with_range(picture_of(), ValueRange(low, 2))


def test_circles_have_no_range() -> None:
    """A polar chart shows angles, of which 0 to 2 would be a sector."""
    with pytest.raises(ParameterError, match="circles show angles; leave it out"):
        with_range(picture_of(polar=True), ValueRange(0, 2))
