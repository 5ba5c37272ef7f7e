"""Looking at blocks as they are made: for the progress bar, and for the statistics that --json prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pecli.engine.arrays import Array
from pecli.views.progress import Progress, is_wanted

if TYPE_CHECKING:
    from pecli.checks.statistics import Statistics
    from pecli.engine.table import Table


class Watch:
    """Sees every block of the tables that a command writes; `values` are the command's options.

    `described` are the tables that --json speaks of, where those are not the ones that are written.
    """

    def __init__(
        self, label: str, tables: Sequence[Table], values: Mapping[str, Any], described: Sequence[Table] | None = None
    ) -> None:
        self.tables, self._described = tables, tables if described is None else described
        self._statistics: dict[str, Statistics] = {}
        if values["json"]:
            self._statistics = {table.name: _statistics(table) for table in tables}
        self._progress: Progress | None = None
        if is_wanted(values):
            self._progress = Progress(label, sum(table.nbytes for table in tables or self._described))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._progress is not None:
            self._progress.close()

    def see(self, table: Table, block: Array) -> None:
        """Take note of a block."""
        if table.name in self._statistics:
            self._statistics[table.name].add(block)
        if self._progress is not None:
            self._progress.advance(block.nbytes)

    def tensors(self) -> dict[str, Any]:
        """The statistics of all tables described; those that were not written are made for it."""
        with self:
            for table in self._described:
                if table.name not in self._statistics:
                    self._statistics[table.name] = _statistics(table)
                    for block in table.blocks():
                        self.see(table, block)
        return {table.name: self._statistics[table.name].as_json() for table in self._described}


def _statistics(table: Table) -> Statistics:
    from pecli.checks.statistics import Statistics

    return Statistics(table)
