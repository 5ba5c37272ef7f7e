"""The ends of axes, and the round numbers at them (ticks), in borderline cases.

Expected numbers follow from the rules in the docstrings of `apart` and `ticks`.
"""

import pytest
from matplotlib.figure import Figure

from pecli.views.pictures.axis_labels import apart, ticks
from pecli.views.pictures.figure_text import number_axis


@pytest.mark.parametrize(
    ("high", "ends"),
    [(1e-300, (0.0 - 0.5, 0.0 + 0.5)), (1.1e-300, (0.0, 1.1e-300))],
    ids=["no extent", "an extent"],
)
def test_an_axis_of_no_extent_is_one_unit_long(high: float, ends: tuple[float, float]) -> None:
    """The axis goes from 0 to `high`. At most 1e-300 is taken for no extent, of which no scale can
    be computed; the ends are moved half a unit apart then.
    """
    assert apart(0.0, high) == ends


def test_a_tick_next_to_the_end_of_the_axis_survives_rounding() -> None:
    """The axis ends at 1.000000001; its tick is the round number 1."""
    assert ticks(0, 1.000000001, 1) == [0.0, 1.0]


def test_the_ticks_of_an_axis_without_extent_are_its_two_ends() -> None:
    """The axis goes from 5 to 5 and has room for four numbers."""
    assert ticks(5.0, 5.0, 4) == [5.0, 5.0]


def test_a_short_logarithmic_axis_has_finer_numbers_if_it_is_vertical() -> None:
    """From 10 to 50, a vertical axis has room for the numbers 10, 20 and 50, one above the other; a
    horizontal one shows only the power of ten.
    """
    axes = Figure().subplots()
    axes.loglog([10.0, 50.0], [10.0, 50.0])
    places = {}
    for axis in (axes.xaxis, axes.yaxis):
        number_axis(axis, log_ends=(10.0, 50.0))
        places[axis.axis_name] = [x for x in axis.get_majorticklocs() if 10 <= x <= 50]

    assert places == {"x": [10.0], "y": [10.0, 20.0, 50.0]}
