"""Tensors of a model that are not what they should be, gathered until it can be said why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pecli.checks.compare import Comparison
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.explain_failures import reasons

if TYPE_CHECKING:
    from pecli.checks.verify.explain_failures import Suspect


class Suspects:
    """Tensors that failed, layer type by layer type, and those that are right for other layers."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[list[Suspect], list[Comparison]]] = {}
        self._moved: dict[str, list[str]] = {}

    def add(self, suspects: Sequence[Suspect], result: Comparison, prefix: str, other_layers: str) -> None:
        """Take note of a tensor that failed; of one that is right for other layers, only that."""
        if other_layers:
            self._moved.setdefault(other_layers, []).append(result.name)
            return
        tables, results = self._failed.setdefault(prefix, ([], []))
        tables += suspects
        results.append(result)

    def reasons(self, tolerance: Tolerance) -> tuple[str, ...]:
        """Sentences about all of them."""
        moved = [f"{', '.join(names)}: right for {layers} layers" for layers, names in self._moved.items()]
        each = (
            f"{prefix}{sentence}"
            for prefix, (tables, results) in self._failed.items()
            for sentence in reasons(tables, results, tolerance)
        )
        return tuple(dict.fromkeys((*moved, *each)))
