"""What a verification found, for people."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pecli.checks.compare import Comparison, problems_of
from pecli.checks.verify.verification import Verification
from pecli.errors import PecliError
from pecli.views import screen

_LAYER = re.compile(r"\.\d+\.")
MAX_LINE = 96
"""Characters of a line about a tensor; a longer one is broken between its parts."""


def show(result: Verification) -> None:
    """The verdict first, then one line per finding, then the tensors: passed ones in one line, others in detail."""
    verdict = ("passed", "bold green") if result.passed else ("FAILED", "bold red")
    screen.say_styled(verdict, (f"  {result.file}  ", ""), (result.scheme, "dim"))
    for line in _reasons(result):
        screen.say_wrapped(f"  {line}")
    for line in result.weak:
        screen.say_styled(("  weak", "bold yellow"), (f": {line}", ""))
    for line in _grouped(result):
        screen.say(f"  {line}")
    for tensor in result.tensors:
        if not tensor.passed:
            say_parts(_read(tensor, result.readings.get(tensor.name, "")))


def _grouped(result: Verification) -> list[str]:
    """Tensors that passed, one line each; those of identical layers in one: «80 layers: inv_freq, exact»."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for tensor in result.tensors:
        if tensor.passed:
            reading = result.readings.get(tensor.name, "")
            alike = _LAYER.sub(".N.", tensor.name), screen.shape(tensor.shape), reading, _passed(tensor)
            groups.setdefault(alike, []).append(tensor)
    lines = []
    for (name, shape, reading, verdict), tensors in groups.items():
        if len(tensors) > 1:
            last = name.removesuffix(".weight").rpartition(".")[2]
            lines.append(f"{len(tensors)} layers: {', '.join(filter(None, (last, reading, verdict)))}")
        else:
            lines.append(", ".join(filter(None, (f"{tensors[0].name}  {shape}", reading, verdict))))
    return lines


def _passed(tensor: Comparison) -> str:
    """How well a tensor passed, without counts of units."""
    if tensor.max_abs_error is None:
        return ""
    return f"max error {tensor.max_abs_error:.3g}" if tensor.worst_index is not None else "exact"


def say_parts(parts: Sequence[str], indent: str = "  ") -> None:
    """What there is to say of a tensor: one line, or where that is long, one line per part."""
    whole = "  ".join(parts)
    width = min(MAX_LINE, screen.console().width - len(indent)) if screen.is_terminal() else MAX_LINE
    for line in [whole] if len(whole) <= width else [parts[0], *(f"    {part}" for part in parts[1:])]:
        screen.say_wrapped(indent + line)


def say_failures(result: Verification, indent: str) -> None:
    """Why a check failed, where that is known, then the tensors that did not pass."""
    for line in _reasons(result):
        screen.say_wrapped(indent + line)
    for tensor in result.tensors:
        if not tensor.passed:
            say_parts(_read(tensor, result.readings.get(tensor.name, "")), indent)


def failures(result: Verification | PecliError) -> list[str]:
    """The same, a line each."""
    if not isinstance(result, Verification):
        return [str(result)]
    tensors = [each for each in result.tensors if not each.passed]
    described = ["  ".join(_read(each, result.readings.get(each.name, ""))) for each in tensors]
    return [*_reasons(result), *described]


def _reasons(result: Verification) -> list[str]:
    """What is known beside the shapes and numbers of the tensors."""
    said = problems_of(result.tensors)
    return [line for line in result.sentences if line not in said]


def _read(tensor: Comparison, reading: str) -> list[str]:
    """A tensor's errors, and how it was read."""
    head, *rest = parts_of(tensor)
    if tensor.passed and tensor.max_abs_error is None:  # values that nothing can be compared with
        return [head, reading]
    return [f"{head}, {reading}" if reading else head, *rest]


def parts_of(tensor: Comparison, sides: tuple[str, str] = ("expected", "found"), same: str = "exact") -> list[str]:
    """A tensor's name and shape, then its errors; the words are for the two sides, and for no error."""
    parts = [f"{tensor.name}  {screen.shape(tensor.shape)}"]
    if tensor.problem:
        parts.append(tensor.problem)
    if tensor.mismatched is None:
        return parts
    if tensor.worst_index is None and not tensor.mismatched:
        parts.append(f"every element is {'equal' if tensor.problem else same}")
        return parts
    parts.append(f"{tensor.mismatched:,} of {tensor.size:,} out of tolerance")
    if tensor.first_index not in (None, tensor.worst_index):
        parts[-1] += f", the first at {_place(tensor.first_index)}"
    if tensor.worst_index is not None:
        in_units = "" if tensor.worst_ulp is None else f" ({units(tensor.worst_ulp)})"
        ours, theirs = (_value(value, tensor.dtype) for value in (tensor.expected, tensor.found))
        parts.append(
            f"max error {tensor.max_abs_error:.3g}{in_units} at {_place(tensor.worst_index)}:"
            f" {sides[0]} {ours}, {sides[1]} {theirs}"
        )
        if tensor.max_ulp_error is not None and tensor.worst_ulp != tensor.max_ulp_error:
            parts[-1] += f"  (elsewhere up to {units(tensor.max_ulp_error)})"
    for count, side in ((tensor.strange_expected, sides[0]), (tensor.strange_found, sides[1])):
        if count:
            parts.append(f"{count:,} not finite ({side})")
    return parts


def units(count: int) -> str:
    """Units of the last place; nobody counts millions of them."""
    return f"{count:,} ulp" if count < 1_000_000 else f"{count:.1e} ulp"


def _value(value: object, dtype: str) -> str:
    """A number with as many digits as its dtype has."""
    digits = {"float32": 9, "float16": 5, "bfloat16": 4}.get(dtype, 17)
    return f"{value:.{digits}g}" if isinstance(value, float) else repr(value)


def _place(index: tuple[int, ...] | None) -> str:
    return f"[{', '.join(map(str, index or ()))}]"
