"""Everything pecli raises on purpose.

    PecliError
    ├── ParameterError   a parameter breaks its rule (also a ValueError)
    │   ├── KindError    it is not even of the right kind (also a TypeError)
    │   └── UnsupportedError  a runtime does not have what is asked for
    ├── FileError        a file cannot be read or written, or is not what it claims to be
    │   └── NoTablesError  it holds tensors, but no positional tables
    ├── ResourceError    the system has no more memory or threads
    └── DefectError      anything unforeseen: a defect of pecli or of its installation

A message has up to three parts, joined by semicolons: what was given, the rule it breaks, what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NAMED = re.compile("`([a-z_]+)`")


class PecliError(Exception):
    """The root of pecli's errors."""


class ParameterError(PecliError, ValueError):
    """A parameter breaks its rule.

    `name` is the parameter's name in Python, and so is any name that the rule or the advice has in backticks; a command
    line that shows the error spells them as options.
    """

    def __init__(self, name: str, given: object, rule: str, advice: str = "") -> None:
        super().__init__(name, given, rule, advice)
        self.name, self.given, self.rule, self.advice = name, given, rule, advice

    def describe(self, name: str) -> str:
        """The message, with the parameter under the given name."""
        return "; ".join(part for part in (f"{name} is {self.given}", self.rule, self.advice) if part)

    def spelled(self, spell: Callable[[str], str]) -> str:
        """The message, with every parameter that it names called otherwise."""
        rule, advice = (_NAMED.sub(lambda found: spell(found[1]), part) for part in (self.rule, self.advice))
        return ParameterError(self.name, self.given, rule, advice).describe(spell(self.name))

    def __str__(self) -> str:
        return self.describe(self.name)


class KindError(ParameterError, TypeError):
    """A value is of a kind that the parameter can never take, such as integers where floats are added."""


class UnsupportedError(ParameterError):
    """A runtime does not have what is asked for: an answer about that runtime, not a mistake in the question."""


class FileError(PecliError):
    """A file cannot be read or written, or is not what it claims to be."""

    def __init__(self, path: object, problem: str, advice: str = "") -> None:
        super().__init__(path, problem, advice)
        self.path, self.problem, self.advice = path, problem, advice

    def __str__(self) -> str:
        shown = "''" if self.path == "" else self.path
        return "; ".join(part for part in (f"{shown}: {self.problem}", self.advice) if part)


class NoTablesError(FileError):
    """A file holds tensors, none of which is a positional table; of several files, that is an answer."""


class ResourceError(PecliError):
    """The system has no more memory or threads for what was asked."""


class DefectError(PecliError):
    """Something unforeseen, which `__cause__` holds: a defect of pecli or of its installation, not of the input."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.__cause__ = cause

    def __str__(self) -> str:
        what = f"{type(self.__cause__).__name__}: {self.__cause__}".removesuffix(": ")
        where = "this is a defect of pecli or of its installation, not of the input"
        return f"unexpected {what}; {where}; set PECLI_DEBUG=1 to see the traceback, and report it"
