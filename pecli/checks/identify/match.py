"""A scheme that explains a table, and the command that makes it again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pecli.engine.schemes.parameters import Flag
from pecli.engine.text import spelled

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme


@dataclass(frozen=True)
class Match:
    """One explanation: the scheme with every parameter, how far the table is from it, and what stays open."""

    scheme: Scheme
    max_abs_error: float
    """The largest distance of an element that was looked at from the scheme's."""
    tensors: tuple[str, ...]
    """Which tensors of the file it explains."""
    form: str = ""
    """How the file lays the numbers out, where that is not the scheme's own way."""
    undetermined: tuple[str, ...] = ()
    """What the data do not decide, a sentence each."""

    @property
    def recipe(self) -> str:
        return str(getattr(self.scheme, "recipe", "exact"))

    @property
    def output(self) -> str:
        """A file that can hold it: .npy where a plain array does, .safetensors for bfloat16 and for several tensors."""
        single = self.scheme.dtype != "bfloat16" and self.scheme.name != "rope" and len(self.tensors) == 1
        return "again.npy" if single else "again.safetensors"

    @property
    def command(self) -> str:
        """What to type to make the table again."""
        import shlex

        return shlex.join(["pecli", self.scheme.name, *options(self.scheme), "-o", self.output])

    def as_json(self) -> dict[str, Any]:
        return {
            "scheme": self.scheme.name,
            "parameters": self.scheme.spec()["parameters"],
            "recipe": self.recipe,
            "max_abs_error": self.max_abs_error if math.isfinite(self.max_abs_error) else None,
            "command": self.command,
            "tensors": list(self.tensors),
            "form": self.form,
            "undetermined": list(self.undetermined),
        }


def options(scheme: Scheme) -> Iterator[str]:
    """The options that ask for a scheme: those that count and differ from the defaults; each parses to its value."""
    for name, parameter in scheme.parameters().items():
        value, default = getattr(scheme, name), scheme.default_of(name)
        if value is None or name in scheme.inert_parameters or (value == default and type(value) is type(default)):
            continue
        long = parameter.aliases[0] if parameter.aliases else f"--{name.replace('_', '-')}"
        if type(parameter) is Flag:
            yield long if value else long.replace("--", "--no-", 1)
        else:
            yield from (long, spelled(value))
