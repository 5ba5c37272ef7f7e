"""Numbers as people write them: the plainest within the error of a fitted value."""

import math

import pytest

from pecli.explain.numbers import digits, numbers_near, plain_numbers


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (10000.0, 1), (1.5, 2), (0.25, 2), (0.125, 3), (1.2345, 5), (-1.2345, 5), (1000001.0, 7),
        (1e-5, 1), (0.0, 1), (1e22, 1), (1.25e-7, 3),
    ],
)  # fmt: skip
def test_digits_are_counted_without_zeros_in_front_and_at_the_end(value: float, count: int) -> None:
    """10000 has one digit, 1.5 two, and 1000001 seven."""
    assert digits(value) == count


@pytest.mark.parametrize(("power", "count"), [(8.0, 1), (16.0, 2), (131072.0, 2)])
def test_a_power_of_two_counts_as_two_digits_at_most(power: float, count: int) -> None:
    """People choose powers of two as they choose round numbers: 131072 is as plain as 16."""
    assert digits(power) == count


@pytest.mark.parametrize(
    ("value", "error", "numbers"),
    [
        pytest.param(9999.98, 0.1, [10000.0, 9999.98], id="10000 is within 0.1"),
        pytest.param(9999.98, 0.001, [9999.98], id="10000 is not within 0.001"),
        pytest.param(500000.4, 1.0, [500000.0, 500000.4], id="six digits"),
        pytest.param(-0.5001, 0.001, [-0.5, -0.5001], id="below 0"),
        pytest.param(64.1, 0.2, [64.0, 64.1], id="64 is 64.1 in two digits"),
        pytest.param(63.9, 0.2, [64.0, 63.9], id="64 is 63.9 in two digits"),
        pytest.param(12.345, 100.0, [10.0, 12.0, 12.3, 12.35], id="four numbers at most"),
    ],
)
def test_a_value_stands_for_its_roundings_to_few_digits_within_its_error(
    value: float, error: float, numbers: list[float]
) -> None:
    """The value was fitted, with an error. The number that was meant is the value rounded to 1, 2, 3,
    … digits, if it is within the error; the fewest digits are listed first.
    """
    assert [*plain_numbers(value, error)] == numbers


@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_zero_and_numbers_that_are_not_finite_stand_for_no_other_number(value: float) -> None:
    """A fit that gives them has failed."""
    assert [*plain_numbers(value, 1.0)] == []


@pytest.mark.parametrize(
    ("value", "error", "numbers"),
    [
        pytest.param(8190.0, 5.0, [8192.0, 8190.0], id="8192 is within 5 of 8190"),
        pytest.param(
            1234.5, 1e4, [1000.0, 1200.0, 1024.0, 1230.0], id="1024 comes after two digits"
        ),
        pytest.param(64.0, 100.0, [60.0, 64.0], id="64 is its own power of two"),
        pytest.param(70.0, 100.0, [70.0, 64.0], id="64 is nearest to 70"),
    ],
)
def test_a_value_from_64_on_may_also_stand_for_the_nearest_power_of_two(
    value: float, error: float, numbers: list[float]
) -> None:
    """Lengths and factors are often powers of two. Besides the value rounded to 1, 2, 3, … digits, the
    nearest power of two is listed if it is within the error, after the numbers of two digits.
    """
    assert [*plain_numbers(value, error)] == numbers


def test_a_value_below_64_stands_for_no_power_of_two() -> None:
    """Of 60, with an error of 100, the nearest power of two would be 64. 60 itself, which has one
    digit, is the only rounding of it.
    """
    assert [*plain_numbers(60.0, 100.0)] == [60.0]


def test_usual_numbers_are_near_a_value_up_to_its_error_inclusive() -> None:
    """10000 and 9999.5 are both 0.25 away from the value 9999.75: within an error of 0.25, and not
    within one of 0.2499.
    """
    assert numbers_near([10000.0, 500.0, 9999.5], 9999.75, 0.25) == [10000.0, 9999.5]
    assert numbers_near([10000.0, 9999.5], 9999.75, 0.2499) == []
