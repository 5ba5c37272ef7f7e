"""The report about server flags that were applied to a model."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pecli.engine.named_values import MutableValues


class FlagProblem(StrEnum):
    """A kind of mistake that flags make."""

    INVERTED = "inverted-scale"
    REPLACED = "replaces-scaling"
    STACKED = "scales-twice"
    BEYOND = "beyond-context"
    REMOVED = "removed-flag"
    IGNORED = "ignored-flag"
    BASE_LOST = "base-lost"
    KEYS_LOST = "keys-lost"
    NO_TABLE = "no-table"
    DEPARTS = "departs"


class FlagWarning(NamedTuple):
    """A mistake, as a kind and as a sentence."""

    problem: FlagProblem
    text: str


class ParameterChange(NamedTuple):
    """A parameter of an encoding that flags have changed; None if it is absent before or after."""

    layer_type: str
    name: str
    before: object
    after: object
    source: str


@dataclass(frozen=True)
class FlagReport:
    """The changes that flags make, and their mistakes.

    Attributes:
        server: The server that the flags belong to.
        version: The version of it whose rules were applied.
        changes: The parameters that differ from the model's own.
        warnings: Mistakes.
        notes: What the flags are equivalent to.
    """

    server: str
    version: str
    changes: tuple[ParameterChange, ...] = ()
    warnings: tuple[FlagWarning, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> MutableValues:
        return {
            "server": self.server,
            "version": self.version,
            "changes": [change._asdict() for change in self.changes],
            "warnings": [warning._asdict() for warning in self.warnings],
            "notes": list(self.notes),
        }
