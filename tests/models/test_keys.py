"""`Keys` reads values of a configuration, checks their kind, and remembers the key that each came
from.

A value that is read is a Setting: its number, and its source, the full name of the key. «f» stands
for the file's name in messages.
"""

import pytest

from pecli.errors import PecliError
from pecli.models.keys import Keys


def keys_where_a_is(value: object) -> Keys:
    return Keys({"a": value}, "f")


@pytest.mark.parametrize("value", [1e30, -1e30])
def test_numbers_of_a_config_may_be_as_large_as_1e30(value: float) -> None:
    """1e30 is Gemma 4's divisor of pairs that do not rotate, the largest number of published
    configs.
    """
    number = keys_where_a_is(value).number("a")
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("value", "low", "whole"),
    [
        pytest.param(8.0, 1, 8, id="a whole number written as a float"),
        pytest.param(2**40, 1, 2**40, id="the largest number of positions"),
        pytest.param(0, 0, 0, id="the least number that is allowed"),
    ],
)
def test_whole_numbers_of_a_config_are_read_as_int(value: float, low: int, whole: int) -> None:
    """`low` is the least number that the caller allows. JSON of some writers has 8.0; 2^40 is the
    largest position that pecli computes.
    """
    number = keys_where_a_is(value).whole_number("a", low=low)
    assert number is not None
    assert number.value == whole
    assert isinstance(number.value, int)


@pytest.mark.parametrize(
    ("value", "pair"),
    [
        pytest.param({"height": 3, "width": 4}, (3, 4), id="an object"),
        pytest.param(3, (3, 3), id="one number"),
        pytest.param(1, (1, 1), id="the smallest number"),
        pytest.param([5, 6], (5, 6), id="a list"),
    ],
)
def test_height_and_width_are_an_object_a_list_or_one_number_for_both(
    value: object, pair: tuple[int, int]
) -> None:
    """These are the spellings of `image_size` and `patch_size` in vision configs."""
    assert keys_where_a_is(value).pair("a").value == pair


@pytest.mark.parametrize("value", [[True, 1], [1.0, 10**31], [1, None]], ids=str)
def test_a_list_with_something_else_than_numbers_of_a_config_is_refused(
    value: list[object],
) -> None:
    """JSON's true is no number, and no number is above 1e30."""
    with pytest.raises(PecliError, match="it must be a list of finite numbers, up to 1e\\+30"):
        keys_where_a_is(value).numbers("a")


@pytest.mark.parametrize("value", [[0, 3], [1, 2, 3]])
def test_a_list_that_is_no_height_and_width_is_refused(value: list[int]) -> None:
    """No size may be 0, and three numbers are no height and width. «f» is the name of the file."""
    with pytest.raises(PecliError) as caught:
        keys_where_a_is(value).pair("a")
    assert str(caught.value) == f"f: a is {value}; it must be a whole number, or two"


def test_the_source_of_a_value_in_a_nested_object_is_the_full_path_of_its_key() -> None:
    """Reports show the source, so that users find the key."""
    inner = Keys({"text_config": {"head_dim": 64}}, "f").section("text_config")
    size = inner.whole_number("head_dim")
    assert size is not None
    assert size.source == "text_config.head_dim"
