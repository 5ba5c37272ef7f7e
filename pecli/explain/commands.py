"""The command that makes a scheme's table again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pecli.engine.schemes.parameters import Flag
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.text import spelled


def command_of(scheme: Scheme, tensors: int = 1, output: bool = True) -> str:
    """What to type to make the table again: a plain array in .npy, bfloat16 and several tensors in .safetensors."""
    single = scheme.dtype != "bfloat16" and scheme.single_array().name in [each.name for each in scheme.tensors()]
    file = ["-o", "again.npy" if single and tensors == 1 else "again.safetensors"] if output else []
    return shlex.join(["pecli", scheme.name, *options(scheme), *file])


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
