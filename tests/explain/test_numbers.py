"""Numbers as people write them: the plainest within the error of a fitted value."""

import math

import pytest

from pecli.explain.numbers import digits, numbers_near, plain_numbers


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (10000.0, 1), (1.5, 2), (0.25, 2), (0.125, 3), (131072.0, 2), (8.0, 1), (16.0, 2),
        (1.2345, 5), (-1.2345, 5), (1000001.0, 7), (1e-5, 1), (0.0, 1), (1e22, 1), (1.25e-7, 3),
    ],
)  # fmt: skip
def test_digits_are_those_that_a_number_takes(value: float, count: int) -> None:
    """Powers of two from 1 on count as two at most."""
    assert digits(value) == count


@pytest.mark.parametrize(
    ("value", "error", "numbers"),
    [
        (9999.98, 0.1, [10000.0, 9999.98]),
        (9999.98, 0.001, [9999.98]),
        (500000.4, 1.0, [500000.0, 500000.4]),
        (-0.5001, 0.001, [-0.5, -0.5001]),
        (8190.0, 5.0, [8192.0, 8190.0]),
        (64.1, 0.2, [64.0, 64.1]),
        (63.9, 0.2, [64.0, 63.9]),
        (1234.5, 1e4, [1000.0, 1200.0, 1024.0, 1230.0]),
        (12.345, 100.0, [10.0, 12.0, 12.3, 12.35]),
        (0.0, 1.0, []),
        (math.inf, 1.0, []),
        (math.nan, 1.0, []),
    ],
)
def test_the_plainest_numbers_come_first(value: float, error: float, numbers: list[float]) -> None:
    """At most four; a power of two comes after numbers of two digits, from 64 on."""
    assert [*plain_numbers(value, error)] == numbers


def test_a_value_from_64_on_may_stand_for_the_nearest_power_of_two() -> None:
    """The numbers are those within 100 of a value, the plainest first: 60 has one digit, 64 two, and
    64 is nearest to 70. Values below 64, such as 60, are not taken for a power of two.
    """
    assert [*plain_numbers(64.0, 100.0)] == [60.0, 64.0]
    assert [*plain_numbers(70.0, 100.0)] == [70.0, 64.0]
    assert [*plain_numbers(60.0, 100.0)] == [60.0]


def test_numbers_at_the_error_are_near() -> None:
    assert numbers_near([10000.0, 500.0, 9999.5], 9999.75, 0.25) == [10000.0, 9999.5]
    assert numbers_near([10000.0], 9999.75, 0.2499) == []
