"""The answer about a file that was compared with what it should be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from pecli.checks import Answer, plain_fields
from pecli.checks.diagnosis import explanations_as_json
from pecli.checks.doubts import Doubt
from pecli.compare.comparison import Comparison, where_json
from pecli.engine.named_values import JsonObject

if TYPE_CHECKING:  # Explanations are imported if a check fails.
    from pecli.explain.explanation import Explanation


@dataclass(frozen=True, repr=False)
class Verification(Answer):
    """The answer for a file, tensor by tensor.

    Attributes:
        file: The file, as it was given.
        scheme: The schemes that it was compared with.
        tensors: The comparisons.
        problems: What makes it fail beside values: sentences.
        reasons: Why values differ: sentences.
        readings: By tensor, how it was read, if not as it stands.
        explanations: The reasons as data.
        weak: After a pass, known mistakes that the same data would have passed as well.
        unchecked: Tensors of the file that belong to no table.
        strict: True if a weak answer counts as failed.
    """

    file: str
    scheme: str
    tensors: tuple[Comparison, ...]
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    explanations: "tuple[Explanation, ...]" = ()
    weak: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    strict: bool = False

    @property
    def passed(self) -> bool:
        if self.strict and self.weak:
            return False
        return not self.problems and all(tensor.passed for tensor in self.tensors)

    @property
    def diagnosis(self) -> tuple[str, ...]:
        return (*self.reasons, *self.problems)

    def words(self) -> tuple[str, ...]:
        words = (self.file, self.scheme, *self.diagnosis)
        if self.strict:
            words += self.weak
        return words

    def with_doubts(self, doubts: Iterable[Doubt | str]) -> Self:
        """Return an answer with further doubts about what a pass proves, each of them once; a failed one as it is."""
        if not self.passed:
            return self
        weak = dict.fromkeys((*self.weak, *map(str, doubts)))
        return replace(self, weak=tuple(weak))

    def as_json(self) -> JsonObject:
        """Return the object that `pecli verify --json` prints."""
        fields = plain_fields(
            self,
            "file",
            "scheme",
            "passed",
            "tensors",
            "readings",
            "weak",
            "unchecked",
            "diagnosis",
        )
        fields["explanations"] = explanations_as_json(self.explanations)
        fields["where"] = where_json(self.tensors)
        return fields
