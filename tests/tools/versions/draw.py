"""Random numbers and choices by a seed."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


class Draw:
    """A source of random choices. The same seed makes the same choices on every machine."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, items: Sequence[Item]) -> Item:
        return items[int(self.rng.integers(len(items)))]

    def some(self, options: dict[str, Sequence[Any]], probability: float) -> dict[str, Any]:
        """Return a value for each option that is drawn, each with the same probability."""
        drawn = {}
        for name, values in options.items():
            if self.chance(probability):
                drawn[name] = self.choice(values)
        return drawn

    def normal(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.rng.standard_normal(shape)
