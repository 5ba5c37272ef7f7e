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
        pytest.param(8190.0, 5.0, [8192.0, 8190.0], id="a power of two"),
        pytest.param(64.1, 0.2, [64.0, 64.1], id="above 64"),
        pytest.param(63.9, 0.2, [64.0, 63.9], id="below 64"),
        pytest.param(
            1234.5, 1e4, [1000.0, 1200.0, 1024.0, 1230.0], id="a power of two after two digits"
        ),
        pytest.param(12.345, 100.0, [10.0, 12.0, 12.3, 12.35], id="four numbers at most"),
    ],
)
def test_numbers_within_the_error_of_a_value_are_listed_with_the_fewest_digits_first(
    value: float, error: float, numbers: list[float]
) -> None:
    """The value was fitted, with an error; the number that was meant is one within it: the value
    rounded to 1, 2, 3, … digits, and the nearest power of two.
    """
    assert [*plain_numbers(value, error)] == numbers


@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_zero_and_numbers_that_are_not_finite_stand_for_no_other_number(value: float) -> None:
    """A fit that gives them has failed."""
    assert [*plain_numbers(value, 1.0)] == []


def test_a_value_from_64_on_may_stand_for_the_nearest_power_of_two() -> None:
    """The numbers are those within 100 of a value, the plainest first: 60 has one digit, 64 two, and
    64 is nearest to 70. Values below 64, such as 60, are not taken for a power of two.
    """
    assert [*plain_numbers(64.0, 100.0)] == [60.0, 64.0]
    assert [*plain_numbers(70.0, 100.0)] == [70.0, 64.0]
    assert [*plain_numbers(60.0, 100.0)] == [60.0]


def test_usual_numbers_are_near_a_value_up_to_its_error_inclusive() -> None:
    """10000 and 9999.5 are both 0.25 away from the value 9999.75: within an error of 0.25, and not
    within one of 0.2499.
    """
    assert numbers_near([10000.0, 500.0, 9999.5], 9999.75, 0.25) == [10000.0, 9999.5]
    assert numbers_near([10000.0, 9999.5], 9999.75, 0.2499) == []
