"""A problem of a tensor with any sentence."""

from dataclasses import dataclass

from pecli.compare.problems import Problem


@dataclass(frozen=True)
class Stated(Problem):
    text: str

    def __str__(self) -> str:
        return self.text
