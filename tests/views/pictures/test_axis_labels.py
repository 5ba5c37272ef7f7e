"""The ends of axes, and the round numbers at them (ticks), in borderline cases.

Expected numbers follow from the rules in the docstrings of `apart` and `ticks`.
"""

import pytest
from matplotlib.figure import Figure

from pecli.views.pictures.axis_labels import apart, ticks
from pecli.views.pictures.figure_text import number_axis


@pytest.mark.parametrize(
    ("high", "ends"),
    [(1e-300, (-0.5, 0.5)), (1.1e-300, (0.0, 1.1e-300))],
)
def test_ends_are_moved_apart_if_hardly_any_number_lies_between(
    high: float, ends: tuple[float, float]
) -> None:
    """An extent of at most 1e-300 is taken for none, and half a unit is added at both ends."""
    assert apart(0.0, high) == ends


def test_a_tick_just_beyond_the_end_is_drawn() -> None:
    """Rounding must not lose the number at the end: 1 is drawn at 1.000000001."""
    assert ticks(0, 1.000000001, 1) == [0.0, 1.0]


def test_an_axis_without_extent_has_its_two_ends() -> None:
    """Both ends are 5."""
    assert ticks(5.0, 5.0, 4) == [5.0, 5.0]


def test_a_short_logarithmic_axis_has_finer_numbers_if_it_is_vertical() -> None:
    """From 10 to 50, numbers 10, 20 and 50 have room one above the other, and only 10 side by side."""
    axes = Figure().subplots()
    axes.loglog([10.0, 50.0], [10.0, 50.0])
    places = {}
    for axis in (axes.xaxis, axes.yaxis):
        number_axis(axis, log_ends=(10.0, 50.0))
        places[axis.axis_name] = [x for x in axis.get_majorticklocs() if 10 <= x <= 50]

    assert places == {"x": [10.0], "y": [10.0, 20.0, 50.0]}
