"""A problem of a tensor with a sentence of the test's choice."""

from dataclasses import dataclass

from pecli.compare.problems import Problem


@dataclass(frozen=True)
class Stated(Problem):
    text: str

    def __str__(self) -> str:
        return self.text
