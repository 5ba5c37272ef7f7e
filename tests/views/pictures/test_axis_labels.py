"""The ends of axes, and the round numbers at them (ticks), in borderline cases.

Expected numbers follow from the rules in the docstrings of `apart` and `ticks`.
"""

import pytest

from pecli.views.pictures.axis_labels import apart, ticks


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
