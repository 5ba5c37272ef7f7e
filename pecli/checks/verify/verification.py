"""What comparing a file with what it should be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, local
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison, as_json
from pecli.engine.arrays import Array
from pecli.errors import FileError
from pecli.explain.edits import Explanation
from pecli.explain.words import sentence
from pecli.files import LoadedFile, open_tensors

if TYPE_CHECKING:
    from pecli.engine.table import Table


@dataclass(frozen=True)
class Verification:
    """The answer, tensor by tensor; what makes it fail beside their values; and why the values may differ."""

    file: str
    scheme: str
    tensors: tuple[Comparison, ...]
    problems: tuple[str, ...] = ()
    diagnosis: tuple[str, ...] = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    """By tensor, how it was read where that was to be found out: as which layout, of which layers."""
    explanations: tuple[Explanation, ...] = ()
    weak: tuple[str, ...] = ()
    """After a pass, known mistakes that the same data would have passed, too."""

    @property
    def passed(self) -> bool:
        return not self.problems and all(tensor.passed for tensor in self.tensors)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        return (*self.problems, *self.diagnosis)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "scheme": self.scheme,
            "passed": self.passed,
            "tensors": [as_json(tensor) for tensor in self.tensors],
            "diagnosis": list(self.sentences),
            "readings": dict(self.readings),
            "explanations": [each.as_json(sentence(each)) for each in self.explanations],
            "weak": list(self.weak),
        }


_thread = local()


@contextmanager
def until(stop: Event) -> Iterator[None]:
    """Files that this thread opens inside the block are read until `stop` is set."""
    _thread.stop = stop
    try:
        yield
    finally:
        del _thread.stop


def open_for_checks(path: str) -> LoadedFile:
    """Open FILE or FILE:NAME; reading on after the end of all checks is an error."""
    file, stop = open_tensors(path), getattr(_thread, "stop", None)
    if stop is None:
        return file
    return replace(file, tables=tuple(_stoppable(table, path, stop) for table in file.tables))


def _stoppable(table: Table, path: str, stop: Event) -> Table:
    def fill(start: int, out: Array) -> None:
        if stop.is_set():
            raise FileError(path, "is not read any further")
        table.fill(start, out)

    return replace(table, fill=fill)
