"""Mistakes to plant in the tensors and keys of a .gguf file."""

import re
from collections.abc import Callable

import numpy as np

from tests.checks.model_forms.model_files import Array, Arrays, Settings

Plant = Callable[[Arrays, Settings], None]


def edit_tensors(pattern: str, edit: Callable[[Array], Array]) -> Plant:
    """Return a mistake that edits all tensors whose names match."""

    def plant(tensors: Arrays, keys: Settings) -> None:
        names = [name for name in tensors if re.search(pattern, name)]
        assert names
        for name in names:
            tensors[name] = np.ascontiguousarray(edit(tensors[name]))

    return plant


def exchange_tensors(word: str, twin_word: str) -> Plant:
    """Return a mistake that exchanges the tensors with two words in their names."""

    def plant(tensors: Arrays, keys: Settings) -> None:
        for name in [name for name in tensors if word in name]:
            twin = name.replace(word, twin_word)
            tensors[name], tensors[twin] = tensors[twin], tensors[name]

    return plant


def leave_out(*names: str) -> Plant:
    """Return a mistake that leaves out tensors or keys."""

    def plant(tensors: Arrays, keys: Settings) -> None:
        for name in names:
            missing_from = tensors if name in tensors else keys
            del missing_from[name]

    return plant
