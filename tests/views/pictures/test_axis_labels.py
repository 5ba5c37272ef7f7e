"""The ends of axes, and the round numbers at them (ticks), in borderline cases.

Expected numbers follow from the rules in the docstrings of `apart` and `ticks`.
"""

import pytest
from matplotlib.figure import Figure

from pecli.views.pictures.axis_labels import apart, fit_text, log_label, ticks, typeset
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


def test_a_tick_just_inside_the_end_of_an_axis_is_kept() -> None:
    """One tick is asked for, so that ticks are a whole axis, 1.000000001, apart. This is rounded to
    the step 1, whose multiples on the axis are 0 and 1.
    """
    assert ticks(low=0, high=1.000000001, tick_count=1) == [0.0, 1.0]


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


@pytest.mark.parametrize(
    ("low", "high", "tick_count", "numbers"),
    [
        pytest.param(0, 10, 5, [0, 2, 4, 6, 8, 10], id="steps of 2"),
        pytest.param(-1, 1, 4, [-1, -0.5, 0, 0.5, 1], id="steps of 0.5"),
        pytest.param(1, 3, 3, [1, 2, 3], id="steps of 1"),
        pytest.param(7, 9, 100, [7 + k / 50 for k in range(101)], id="steps of 0.02"),
        pytest.param(0, 1, 1, [0, 1], id="room for one step"),
        pytest.param(0, 3, 2, [0, 2], id="no number at the end"),
        pytest.param(0, float("inf"), 4, [0, float("inf")], id="infinitely long"),
    ],
)
def test_ticks_are_multiples_of_1_2_and_5(
    low: float, high: float, tick_count: int, numbers: list[float]
) -> None:
    """An axis from `low` to `high` has about `tick_count` numbers; their distance is 1, 2 or 5
    times a power of ten. One that is infinitely long has its two ends only.
    """
    assert ticks(low, high, tick_count) == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("low", "high", "tick_count", "numbers"),
    [
        pytest.param(1, 1e6, 6, [10.0**k for k in range(7)], id="6 decades, 6 steps of 1"),
        pytest.param(1, 1e6, 3, [1, 100, 1e4, 1e6], id="6 decades, 3 steps of 2"),
        pytest.param(1, 1e6, 4, [1, 100, 1e4, 1e6], id="6 decades, 4 steps: 6 / 4 rounded up to 2"),
        pytest.param(0.02, 30, 8, [0.1, 1, 10], id="ends between powers"),
    ],
)
def test_a_logarithmic_axis_shows_every_nth_power_of_ten(
    low: float, high: float, tick_count: int, numbers: list[float]
) -> None:
    """An axis with three powers of ten or more shows nothing but powers of ten. Of d decades, they
    divide at most `tick_count` steps: n = ⌈d / tick_count⌉ is the exponents' distance.
    """
    assert ticks(low, high, tick_count, log=True) == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("tick_count", "numbers"),
    [
        pytest.param(2, [1, 10], id="room for two numbers"),
        pytest.param(3, [1, 2, 5, 10], id="room for three numbers"),
    ],
)
def test_a_logarithmic_axis_of_one_decade_has_2_and_5_as_well_if_there_is_room(
    tick_count: int, numbers: list[float]
) -> None:
    """The axis goes from 1 to 10, which are its only powers of ten. `tick_count` is the room, in
    numbers; from 3 on, 2 and 5 times the powers are shown too, as on logarithmic paper.
    """
    assert ticks(low=1, high=10, tick_count=tick_count, log=True) == pytest.approx(numbers)


def test_a_logarithmic_axis_without_a_power_of_ten_has_equally_spaced_numbers() -> None:
    """From 3 to 9, three steps are 2 long; the multiples of 2 on the axis are 4, 6 and 8."""
    assert ticks(low=3, high=9, tick_count=3, log=True) == pytest.approx([4, 6, 8])


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1000.0, "1000"), (0.001, "0.001"), (1e4, "10⁴"), (1e-4, "10⁻⁴"), (1.0, "1"),
        (2e4, "20000"), (0.0, "0"),
    ],
)  # fmt: skip
def test_large_powers_of_ten_are_written_as_powers(value: float, label: str) -> None:
    """Powers of ten from 10⁴ on, and up to 10⁻⁴, are written as powers; other numbers as
    they are.
    """
    assert log_label(value) == label


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        (-1e-5, "−1e−5"),
        (float("-inf"), "−inf"),
        ("llama-3-8b", "llama-3-8b"),
        ("v-1.5x -2", "v-1.5x −2"),
        ("from -3 to -1e-7", "from −3 to −1e−7"),
    ],
)
def test_numbers_have_minus_signs_and_names_hyphens(text: str | float, set_as: str) -> None:
    """A hyphen before a number is a minus, also in an exponent; one within a word stays."""
    assert typeset(text) == set_as


@pytest.mark.parametrize(
    ("text", "width", "lines", "fitted"),
    [
        pytest.param("short", 10, 1, ["short"], id="shorter"),
        pytest.param("as long as it", 13, 1, ["as long as it"], id="as long as a line"),
        pytest.param("one two three", 7, 2, ["one two", "three"], id="two lines"),
        pytest.param("one two three four", 7, 1, ["one…our"], id="longer"),
        pytest.param("abcdefgh", 2, 1, ["ab…h"], id="a line of two letters"),
        pytest.param("", 5, 1, [], id="empty"),
    ],
)
def test_a_text_that_is_too_long_loses_its_middle(
    text: str, width: float, lines: int, fitted: list[str]
) -> None:
    """A text is broken into at most `lines` lines of `width` letters; what has no room loses its
    middle, for which «…» stands. A line has at least three letters beside it.
    """
    assert fit_text(text, width, lines) == fitted


def test_ends_of_an_axis_are_cut_at_numbers_whose_squares_are_finite() -> None:
    """(1e150)² = 1e300 is below the largest float64 number, 1.8e308."""
    assert apart(-1e200, 1e200) == (-1e150, 1e150)


def test_ends_of_an_axis_that_differ_by_rounding_only_are_each_moved_by_a_half() -> None:
    """The axis from 5 to 5 + 1e-13 becomes one from 4.5 to 5.5 + 1e-13."""
    assert apart(5.0, 5.0 + 1e-13) == (4.5, 5.5 + 1e-13)


def test_equal_ends_of_an_axis_that_are_large_are_each_moved_by_a_billionth() -> None:
    """A half is little beside 1e12. A billionth of it is 1000, at both ends."""
    low, high = apart(1e12, 1e12)
    assert low == pytest.approx(1e12 - 1000, abs=1)
    assert high == pytest.approx(1e12 + 1000, abs=1)


def test_a_logarithmic_axis_with_one_power_of_ten_has_equally_spaced_numbers() -> None:
    """Between 5 and 28, the only power of ten is 10, and a single number shows no scale.

    `tick_count` is a wish. Three steps would be 23 / 3 = 7.7, rounded up to 10, and show two numbers
    only, 10 and 20. An axis has at least three, so that six steps are taken: 3.8, rounded up to 5.
    """
    numbers = ticks(low=5, high=28, tick_count=3, log=True)
    assert numbers == [5.0, 10.0, 15.0, 20.0, 25.0]
