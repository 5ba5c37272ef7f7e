"""What a verification found, for people."""

from __future__ import annotations

from pecli.checks.compare import Comparison, problems_of
from pecli.checks.verify.verification import Verification
from pecli.errors import PecliError
from pecli.views import screen


def show(result: Verification) -> None:
    """The verdict first, then a line a diagnosis, then one a tensor."""
    verdict = ("passed", "bold green") if result.passed else ("FAILED", "bold red")
    screen.say_styled(verdict, (f"  {result.file}  ", ""), (result.scheme, "dim"))
    said = problems_of(result.tensors)
    for line in result.sentences:
        if line not in said:
            screen.say(f"  {line}")
    for tensor in result.tensors:
        screen.say(f"  {_described(tensor, result.readings.get(tensor.name, ''))}")


def failures(result: Verification | PecliError) -> list[str]:
    """What is wrong, a line each: tensors that did not pass, then all that concerns them together."""
    if not isinstance(result, Verification):
        return [str(result)]
    said = problems_of(result.tensors)
    tensors = [_described(each, result.readings.get(each.name, "")) for each in result.tensors if not each.passed]
    return [*tensors, *(line for line in result.sentences if line not in said)]


def _described(tensor: Comparison, reading: str) -> str:
    """A tensor's errors, and how it was read."""
    head = f"{tensor.name}  {screen.shape(tensor.shape)}"
    if tensor.passed and tensor.max_abs_error is None:  # values that nothing can be held against
        return f"{head}  {reading}"
    rest = describe(tensor).removeprefix(head)
    return f"{head}, {reading}{rest}" if reading else head + rest


def describe(tensor: Comparison, sides: tuple[str, str] = ("expected", "found"), same: str = "exact") -> str:
    """A tensor's errors in one line; the words are for the two sides, and for an element without error."""
    parts = [tensor.name, screen.shape(tensor.shape)]
    if tensor.problem:
        parts.append(tensor.problem)
    if tensor.mismatched is None:
        return "  ".join(parts)
    if tensor.worst_index is None and not tensor.mismatched:
        parts.append(f"every element is {'equal' if tensor.problem else same}")
        return "  ".join(parts)
    parts.append(f"{tensor.mismatched:,} of {tensor.size:,} out of tolerance")
    if tensor.first_index not in (None, tensor.worst_index):
        parts[-1] += f", the first at {_place(tensor.first_index)}"
    if tensor.worst_index is not None:
        units = "" if tensor.worst_ulp is None else f" ({_units(tensor.worst_ulp)})"
        ours, theirs = (_value(value, tensor.dtype) for value in (tensor.expected, tensor.found))
        parts.append(
            f"max error {tensor.max_abs_error:.3g}{units} at {_place(tensor.worst_index)}:"
            f" {sides[0]} {ours}, {sides[1]} {theirs}"
        )
        if tensor.max_ulp_error is not None and tensor.worst_ulp != tensor.max_ulp_error:
            parts.append(f"(elsewhere up to {_units(tensor.max_ulp_error)})")
    for count, side in ((tensor.strange_expected, sides[0]), (tensor.strange_found, sides[1])):
        if count:
            parts.append(f"{count:,} not finite ({side})")
    return "  ".join(parts)


def _units(count: int) -> str:
    """Units of the last place; nobody counts millions of them."""
    return f"{count:,} ulp" if count < 1_000_000 else f"{count:.1e} ulp"


def _value(value: object, dtype: str) -> str:
    """A number with the digits that tell it from its neighbours."""
    digits = {"float32": 9, "float16": 5, "bfloat16": 4}.get(dtype, 17)
    return f"{value:.{digits}g}" if isinstance(value, float) else repr(value)


def _place(index: tuple[int, ...] | None) -> str:
    return f"[{', '.join(map(str, index or ()))}]"
