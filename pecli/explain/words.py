"""Explanations in plain English, and the command that makes a table again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from pecli.engine.schemes import Flag
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import number, spelled
from pecli.explain.edits import NAMES, Edit, Explanation, Layout, Parameter, Recipe, Rotation, Runtime, Swapped


def sentence(explanation: Explanation) -> str:
    """An explanation in one line: the tensors, the mistakes, how values were stored, and the residual.

    >>> sentence(Explanation((Parameter("base", 500000.0, 10000.0),), None, ("cos", "sin"), residual=3e-8))
    'cos, sin: base is 10000 (the spec says 500000); explains every element (to 3e-8)'
    """
    parts = ", and ".join(edit.clause for edit in explanation.mistakes)
    if explanation.scheme is not None and explanation.scheme.applied_as != "rotation":
        parts = parts.replace(NAMES["dim"], "dim")
    named = any(isinstance(edit, Runtime) for edit in explanation.edits)  # whose recipe goes without saying
    storage = ", ".join(
        edit.clause for edit in explanation.edits if edit.storage and not (named and isinstance(edit, Recipe))
    )
    residual = f"explains every element (to {number(explanation.residual, 2)})"
    residual = "" if not math.isfinite(explanation.residual) else residual if explanation.residual else "exact"
    return f"{', '.join(explanation.tensors)}: {'; '.join(filter(None, (parts, storage, residual)))}"


def comparison(explanation: Explanation) -> str:
    """The same of two tables, neither of which is a spec.

    >>> comparison(Explanation((Swapped(),), None, ("pe",)))
    'pe: in B, sin and cos are swapped; exact'
    """
    names, _, words = sentence(explanation).partition(": ")
    return f"{names}: in B, {words.replace('(the spec says', '(in A')}"


def lacking(edits: Iterable[Edit], scheme: Any) -> tuple[Edit, ...]:
    """Which of the edits the command that makes a scheme does not make: all but those that an option is for."""

    def lacks(edit: Edit) -> bool:
        if isinstance(edit, Layout):
            return edit.found not in (getattr(scheme, "layout", ""), "stacked", "cos alone", "sin alone")
        if isinstance(edit, Swapped):
            return not hasattr(scheme, "cos_first")
        if isinstance(edit, Parameter):
            factor = edit.name == "attention_factor" and scheme.attention_factor_value() != edit.found
            return bool(factor or edit.name in ("position_axis", "inv_freq", "distance", "scheme", "slopes"))
        return not (edit.storage or isinstance(edit, (Rotation, Runtime)))

    return tuple(edit for edit in edits if lacks(edit))


MAX_COMMAND = 2000  # letters of a command that somebody may want to copy; a list of all positions is longer


def reproduction(explanation: Explanation) -> Iterator[str]:
    """The command that makes the table, as a sentence; what it does not make is said; nothing where that is all."""
    scheme, mistakes = explanation.scheme, explanation.mistakes
    without = lacking(explanation.edits, scheme) if scheme is not None else ()
    if scheme is None or not {*mistakes} - {*without} or len(command := command_of(scheme, output=False)) > MAX_COMMAND:
        return
    if without:
        yield f"apart from that ({', '.join(edit.clause for edit in without)}), reproduce with {command}"
    else:
        yield f"reproduce with {command}"


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
