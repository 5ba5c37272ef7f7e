"""Results of verify, diff and identify as text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pecli.compare.comparison import problems_of
from pecli.engine.grouping import grouped
from pecli.engine.schemes.scheme import stated_parameters
from pecli.errors import PecliError, brief, listed, number
from pecli.views import screen
from pecli.views.screen import Styled
from pecli.views.tensor_lines import (
    COMPARED,
    MAX_LISTED,
    VERIFIED,
    LineParts,
    failed_tensor_lines,
    passed_tensor_lines,
)
from pecli.views.text_table import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pecli.checks.diff import Difference
    from pecli.checks.identify import Identification, Match
    from pecli.checks.recorded.run_result import RunVerification
    from pecli.checks.verification import Verification

MAX_LINE = 96
"""Characters of a line about a tensor; a longer one is broken between its parts."""

VERDICTS = {
    "passed": Styled("passed", "bold green"),
    "failed": Styled("FAILED", "bold red"),
    "weak": Styled("WEAK", "bold red"),
    "skipped": Styled("skipped", "dim"),
    "error": Styled("error", "bold red"),
}
"""The word for each status of a check."""


class Checked(Protocol):
    """A result that passed or failed."""

    @property
    def passed(self) -> bool: ...


def status_of(result: Checked) -> str:
    """Return the key of VERDICTS for a result."""
    return "passed" if result.passed else "failed"


def show_verification(result: Verification, status: str = "") -> None:
    """Print the verdict, then its reasons and tensors.

    Args:
        result: The verification.
        status: The key of VERDICTS to print; by default «passed» or «failed». A strict check passes
            a status of its own, «weak», for a result that has passed with weaknesses.
    """
    from pecli.checks.recorded.run_result import RunVerification

    verdict = VERDICTS[status or status_of(result)]
    screen.print_labelled(*verdict, f"  {result.file or 'arrays'}  {result.scheme}")
    if isinstance(result, RunVerification):
        _print_run(result)
    else:
        print_findings(result)
    if result.unchecked:
        screen.print_wrapped(f"  not checked: {listed(result.unchecked, MAX_LISTED)}")


def _print_run(result: RunVerification) -> None:
    """Print the findings of a recorded run: the tensors of the first wrong place, and counts of all.

    A place is a layer as the model names it: `model.layers.3.q` is the tensor `q` of
    `model.layers.3`.
    """
    wrong_at_first_place = []
    for tensor in result.tensors:
        place = tensor.name.rpartition(".")[0]
        if not tensor.passed and place == result.first_place:
            wrong_at_first_place.append(tensor)
    print_findings(replace(result, tensors=tuple(wrong_at_first_place[:MAX_LISTED])))
    print_table(("tensors", "right", "wrong", "max error"), [*_rows_by_kind(result)], indent="  ")


def _rows_by_kind(result: RunVerification) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each kind of recorded tensor, such as `q`, over all layers of a run.

    The cells are its name, how many tensors are right, how many are wrong, and the largest error
    of the right ones, which shows how close the model's arithmetic comes.
    """
    by_kind = grouped(result.tensors, lambda tensor: tensor.name.rpartition(".")[2])
    for kind, tensors in by_kind.items():
        right = [tensor for tensor in tensors if tensor.passed]
        largest_error = ""
        if right:
            largest_error = number(max(tensor.largest_error for tensor in right), 3)
        yield kind, str(len(right)), str(len(tensors) - len(right)), largest_error


def show_difference(result: Difference) -> None:
    """Print the verdict on two files, then a line per finding and a line per tensor."""
    sides = f"  A: {result.a or 'arrays'}  B: {result.b or 'arrays'}"
    screen.print_labelled(*_difference_verdict(result), sides)
    are_forms_of_a_model = bool(result.forms)  # a checkpoint and its GGUF, for example
    if are_forms_of_a_model:
        screen.print_wrapped(f"  {result.forms}")
        # The diagnosis sums up their tensors by layers already.
        print_findings(replace(result, tensors=()))
    else:
        print_findings(result)
    if not result.passed and not result.diagnosis:
        screen.print_line(
            "  no known transform maps A to B; pecli identify may say what each of them is"
        )


def _difference_verdict(result: Difference) -> Styled:
    """Return the first words about a difference; a tensor without a worst element is exactly equal."""
    if not result.passed:
        return Styled("DIFFERENT", "bold red")
    if result.forms:
        return Styled("same model", "bold green")
    if all(tensor.worst_index is None for tensor in result.tensors):
        return Styled("equal", "bold green")
    return Styled("within tolerance", "bold green")


def print_findings(result: Verification | Difference) -> None:
    """Print the reasons of a failure, the weaknesses of a pass, and a line per tensor."""
    _print_reasons(result, "  ")
    _print_tensors(tensor_lines(result), "  ")


def print_failures(result: Verification, indent: str) -> None:
    """Print the findings without the tensors that passed; `indent` is the spaces before each line."""
    _print_reasons(result, indent)
    _print_tensors(_failed_lines(result), indent)


def _print_reasons(result: Verification | Difference, indent: str) -> None:
    """Print the reasons of a failure and the weaknesses of a pass, one per line."""
    for reason in reasons(result):
        # The terminal breaks long lines, so that a command among them can be copied.
        screen.print_line(indent + reason)
    for weakness in result.weak:
        screen.print_labelled(f"{indent}weak", "bold yellow", f": {weakness}")


def _print_tensors(lines: Sequence[LineParts], indent: str) -> None:
    """Print a line per tensor, or several if its parts do not fit into one."""
    width = min(MAX_LINE, screen.output().width - len(indent))
    for parts in lines:
        for line in _in_one_line_or_more(parts, width):
            screen.print_wrapped(indent + line)


def _in_one_line_or_more(parts: LineParts, width: int) -> list[str]:
    """Return the parts as one line if it fits, otherwise as one line per part.

    >>> _in_one_line_or_more(["cos  4 × 8", "max error 1e-6"], width=20)
    ['cos  4 × 8', '    max error 1e-6']
    """
    line = "  ".join(parts)
    if len(line) <= width:
        return [line]
    head, *details = parts
    return [head, *(f"    {detail}" for detail in details)]


def reasons(result: Verification | Difference) -> list[str]:
    """Return the diagnosis without the problems that the lines of the tensors show anyway."""
    problems = problems_of(result.tensors)
    return [line for line in result.diagnosis if line not in problems]


def tensor_lines(result: Verification | Difference) -> list[LineParts]:
    """Return a line per tensor; tensors that passed a verification come first, and share lines."""
    from pecli.checks.diff import Difference

    if isinstance(result, Difference):
        return failed_tensor_lines(result.tensors, result, COMPARED)
    lines_of_passed = [[line] for line in passed_tensor_lines(result)]
    return lines_of_passed + _failed_lines(result)


def _failed_lines(result: Verification) -> list[LineParts]:
    """Return a line per tensor that failed."""
    failed = [tensor for tensor in result.tensors if not tensor.passed]
    return failed_tensor_lines(failed, result, VERIFIED)


def failures(result: Verification | PecliError) -> list[str]:
    """Return the reasons why a check did not pass, or, if it did, its weaknesses."""
    if isinstance(result, PecliError):
        return [str(result)]
    if result.passed:
        return [f"weak: {weakness}" for weakness in result.weak]
    tensors = ["  ".join(parts) for parts in _failed_lines(result)]
    return reasons(result) + tensors


def show_identification(result: Identification) -> None:
    """Print the verdict, then each match with its command on a line of its own, then the rest."""
    screen.print_labelled(*_identification_verdict(result), f"  {result.file}")
    for match in result.matches:
        for line in _match_lines(match):
            screen.print_wrapped(f"  {line}")
        _show_command(match.command)
    for line in result.description:
        screen.print_wrapped(f"  {line}")


def _show_command(command: str) -> None:
    """Print a command alone on its line, so that it can be copied; one that lists factors is too long for that."""
    from pecli.explain.words import is_readable

    if is_readable(command):
        screen.print_styled(Styled(command, "bold"))
    else:
        screen.print_wrapped(f"  its command has {len(command):,} letters: --json prints it")


def _identification_verdict(result: Identification) -> Styled:
    """Return the first words about an identification; a description is about tensors without a match."""
    if not result.identified:
        return Styled("not identified", "bold red")
    if result.description:
        return Styled("partly identified", "bold yellow")
    return Styled("identified", "bold green")


def _match_lines(match: Match) -> list[str]:
    """Return lines about the scheme that made some tensors of a file.

    The first is «cos, sin: rope, recipe exact, max error 0», with the precision in which they were
    computed. The parameters follow, then the runtimes that compute such a table, then how the file
    stores it differently (with doubled columns, for example), then the parameters that these tensors
    do not determine.
    """
    precision = f"recipe {match.recipe}, max error {number(match.max_abs_error, 3)}"
    lines = [f"{', '.join(match.tensors)}: {match.scheme.name}, {precision}", _parameters(match)]
    if match.runtimes:
        lines.append(_runtimes_clause(match.runtimes))
    if match.form:
        without = "; the command makes the table without that" if match.lacking else ""
        lines.append(f"in the file: {match.form}{without}")
    for sentence in match.undetermined:
        lines.append(f"not determined: {sentence}")
    return lines


def _runtimes_clause(runtimes: Sequence[str]) -> str:
    """Return a clause on the runtimes that compute such a table: the first, and others like it."""
    from pecli.engine.edits import Runtime
    from pecli.explain.words import clause

    first, *others = runtimes
    return clause(Runtime(first, tuple(others)))


def _parameters(match: Match) -> str:
    """Return the parameters that are set; the recipe has its place in the line above."""
    parameters = stated_parameters(match.scheme)
    parameters.pop("recipe", None)
    return "  ".join(f"{name}={brief(value, MAX_LISTED)}" for name, value in parameters.items())
