"""Arguments that are too long for a list, or too large for memory, are refused with an error that
says so.
"""

import itertools
from typing import NoReturn

import numpy as np
import pytest

import pecli
from pecli.engine.arguments import items_of
from pecli.errors import ResourceError


@pytest.mark.parametrize(
    "axes",
    [itertools.repeat(2), range(10**30), [2] * ((1 << 20) + 1)],
    ids=["without an end", "whose length is no number of C", "one too many"],
)
def test_a_list_of_more_than_a_million_items_is_refused(axes: object) -> None:
    """The limit is 2^20 = 1,048,576 items, so that an endless iterator is not read for ever."""
    with pytest.raises(ResourceError, match="axes has more than 1,048,576 items"):
        pecli.Rope(4, 8, axes=axes)


class _UnreadList:
    """A list of more than 2^20 items that fails if its items are read, such as a file of 64 GiB."""

    def __len__(self) -> int:
        return (1 << 20) + 1

    def __iter__(self) -> NoReturn:
        raise AssertionError


def test_a_list_that_states_its_length_is_refused_without_reading_its_items() -> None:
    """`_UnreadList` has one item more than the limit of 2^20 = 1,048,576."""
    with pytest.raises(ResourceError, match="axes has more than 1,048,576 items"):
        pecli.Rope(4, 8, axes=_UnreadList())


def test_as_many_items_as_the_limit_are_listed() -> None:
    """A generator has no length: its items are counted as they come."""
    assert items_of("x", iter("abc"), "it must be a list", max_items=3) == ["a", "b", "c"]

    with pytest.raises(ResourceError, match="x has more than 2 items"):
        items_of("x", iter("abc"), "it must be a list", max_items=2)


def test_an_array_without_dimensions_is_refused_as_a_list() -> None:
    """`axes` is a list of numbers; np.array(3) is one number in an array, and cannot be iterated."""
    with pytest.raises(pecli.KindError, match=r"axes is array\(3\)"):
        pecli.Rope(4, 8, axes=np.array(3))


MROPE_IDS = np.array([[0, 1, 1, 2], [0, 1, 2, 3], [0, 1, 1, 3]])
"""Positions of four tokens on the three axes of M-RoPE."""


def test_positions_of_a_batch_are_those_of_its_sequences_if_they_are_the_same() -> None:
    """Position ids of transformers are (axes, batch, L). A batch of two equal sequences gives the
    scheme of one of them.
    """
    batch = np.stack([MROPE_IDS, MROPE_IDS], axis=1)
    of_batch = pecli.Rope(dim=16, mrope_section=(2, 3, 3), positions=batch)
    of_one_sequence = pecli.Rope(dim=16, mrope_section=(2, 3, 3), positions=MROPE_IDS)

    assert of_batch == of_one_sequence


def test_positions_of_different_sequences_are_refused() -> None:
    """A table has the positions of a single sequence; the second one is a token further."""
    batch = np.stack([MROPE_IDS, MROPE_IDS + 1], axis=1)
    with pytest.raises(pecli.ParameterError, match=r"positions is of shape \(3, 2, 4\)"):
        pecli.Rope(dim=16, mrope_section=(2, 3, 3), positions=batch)


class _TooLarge:
    """An array of another library that does not fit into memory."""

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        raise MemoryError


def test_an_array_that_does_not_fit_into_memory_is_a_resource_error() -> None:
    """`_TooLarge` stands for a file or lazy array: turning it into an array raises MemoryError."""
    with pytest.raises(ResourceError, match="there is not enough memory"):
        pecli.convert(_TooLarge(), "interleaved", "halves")
