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
def test_numbers_go_up_to_1e30(value: float) -> None:
    """1e30 is Gemma 4's divisor of pairs that do not rotate, the largest number of published
    configs.
    """
    number = keys_where_a_is(value).number("a")
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(("value", "low", "whole"), [(2**40, 1, 2**40), (8.0, 1, 8), (0, 0, 0)])
def test_whole_numbers_may_be_written_as_floats(value: float, low: int, whole: int) -> None:
    """JSON of some writers has 8.0; 2^40 is the largest position that pecli computes."""
    number = keys_where_a_is(value).whole_number("a", low=low)
    assert number is not None
    assert number.value == whole
    assert isinstance(number.value, int)


@pytest.mark.parametrize(
    ("value", "pair"),
    [({"height": 3, "width": 4}, (3, 4)), (3, (3, 3)), (1, (1, 1)), ([5, 6], (5, 6))],
)
def test_one_number_stands_for_height_and_width(value: object, pair: tuple[int, int]) -> None:
    """As in `image_size` and `patch_size` of vision configs."""
    assert keys_where_a_is(value).pair("a").value == pair


@pytest.mark.parametrize("value", [[0, 3], [1, 2, 3]])
def test_a_list_that_is_no_height_and_width_is_refused(value: list[int]) -> None:
    """No size may be 0, and three numbers are no height and width."""
    with pytest.raises(PecliError) as caught:
        keys_where_a_is(value).pair("a")
    assert str(caught.value) == f"f: a is {value}; it must be a whole number, or two"


def test_a_setting_has_the_full_name_of_its_key() -> None:
    """Reports show it, so that users find the key in a nested object."""
    inner = Keys({"text_config": {"head_dim": 64}}, "f").section("text_config")
    assert inner is not None

    size = inner.whole_number("head_dim")
    assert size is not None
    assert size.source == "text_config.head_dim"
