"""What comparing a file with what it should be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pecli.checks.compare import Comparison, as_json
from pecli.explain.edits import Explanation
from pecli.explain.words import sentence


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
