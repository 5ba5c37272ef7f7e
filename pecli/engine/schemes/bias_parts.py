"""Parts of a bias: the heads of one shard, and the last queries."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pecli.engine.schemes.parameters import ParameterRule, Whole, whole_numbers_of
from pecli.errors import ParameterError, quoted


class HeadSlice(NamedTuple):
    """Consecutive heads: the first one, and the one after the last, as in Python's slices."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def shards(self, count: int) -> "Iterator[HeadSlice]":
        """Yield consecutive slices of this size from head 0 on, such as 0:4, 4:8 and 8:12.

        Args:
            count: The number of slices.
        """
        for number in range(count):
            start = number * self.size
            yield HeadSlice(start, start + self.size)

    def spelled(self) -> str:
        """Return the heads as the command line takes them: 4:8."""
        return f"{self.start}:{self.stop}"


class HeadRange(ParameterRule):
    """A:B, the heads A … B − 1."""

    metavar = "A:B"
    rule = "it must be A:B, the first head and the one after the last, such as 0:8"

    def parse(self, name: str, text: str) -> HeadSlice:
        numbers = re.fullmatch(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,9})\s*", text)
        if numbers is None:
            raise ParameterError(name, quoted(text), self.rule)
        return self.check(name, (int(numbers[1]), int(numbers[2])))

    def check(self, name: str, value: object) -> HeadSlice:
        """Return the heads of a tensor-parallel shard: "4:8", or (4, 8), are heads 4 to 7."""
        if isinstance(value, str):
            return self.parse(name, value)
        match whole_numbers_of(name, value, self.rule, most=3):
            case [start, stop] if 0 <= start < stop:
                return HeadSlice(start, stop)
        raise ParameterError(name, quoted(value), self.rule)


HEAD_RANGE = HeadRange(
    "heads A … B − 1 only, as one tensor-parallel shard has them", omitted_default=None
)
QUERIES = Whole("the last so many queries only, as in decoding", high=1 << 24, omitted_default=None)


def check_head_range(heads: HeadSlice, total: int) -> None:
    """Raise ParameterError if a range ends after the last head."""
    if heads.stop > total:
        rule = f"there are {total} heads, 0 … {total - 1}"
        raise ParameterError("head_range", heads.spelled(), rule)


def check_queries(queries: int, total: int) -> None:
    """Raise ParameterError if there are not so many queries."""
    if queries > total:
        raise ParameterError("queries", queries, f"there are {total} in all")
