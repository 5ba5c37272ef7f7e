"""Where tensors are out of tolerance: rows, columns, heads and sequences, as ranges of numbers."""

from collections.abc import Iterable, Mapping

import numpy as np

from pecli.engine.arrays import AnyArray

MAX_RANGES = 64  #: that are listed

Ranges = list[tuple[int, int]]


def ranges(numbers: AnyArray) -> Ranges:
    """The first and the last of those that follow each other, of numbers that rise; of too many, the last holds all."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1)[: MAX_RANGES - 1] + 1)
    return [(int(run[0]), int(run[-1])) for run in runs]


def where_json(places: Iterable[Mapping[str, Ranges]]) -> dict[str, list[list[int]] | None]:
    """What is out of tolerance in any of some tensors, as JSON has it."""
    every, found = [*places], dict[str, list[list[int]] | None]()
    for name in ("rows", "columns", "heads", "batch"):
        numbers = [np.arange(low, high + 1) for each in every for low, high in each.get(name, ())]
        found[name] = [[*pair] for pair in ranges(np.unique(np.concatenate(numbers)))] if numbers else None
    return found
