"""What checks found, for people; many checks as a table, and for CI as JUnit's XML and annotations of GitHub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison, problems_of
from pecli.errors import FileError, PecliError, brief, counted, listed, number
from pecli.files.load import split_name
from pecli.files.output import open_output
from pecli.views import screen
from pecli.views.screen import escaped

if TYPE_CHECKING:
    from pecli.checks.diff import Difference
    from pecli.checks.identify import Identification
    from pecli.checks.run import Outcome

_LAYER = re.compile(r"\.\d+\.")
MAX_LINE = 96  #: Characters of a line about a tensor; a longer one is broken between its parts
MAX_LISTED = 4  #: Numbers and names of a list that are all shown
MAX_ULP = 1_000_000  #: Units of the last place that are shown: more of them say nothing that the error itself does not

VERDICTS = {
    "passed": ("passed", "bold green"),
    "failed": ("FAILED", "bold red"),
    "weak": ("WEAK", "bold red"),
    "skipped": ("skipped", "dim"),
    "error": ("error", "bold red"),
}
"""By status, the word for people and its style."""


def printed(result: Any) -> str:
    """What the command prints of a result, in plain text."""
    with redirect_stdout(StringIO()) as output:
        show(result)
    return output.getvalue().rstrip("\n")


VIEWS = {
    "Scheme": "preview.show",
    "ModelEncodings": "encodings.show",
    "Verification": "check_results.show_verification",
    "Difference": "check_results.show_difference",
    "Identification": "check_results.show_identification",
    "Audit": "drift.show_audit",
    "RuntimeComparison": "drift.show_runtimes",
    "Extension": "drift.show_extension",
}


def show(value: Any) -> None:
    """What the command shows of a scheme, a model or a result."""
    module, view = next(
        VIEWS[kind.__name__] for kind in type(value).__mro__ if kind.__name__ in VIEWS
    ).split(".")
    getattr(import_module(f"pecli.views.{module}"), view)(value)


def show_verification(result: Verification, status: str = "") -> None:
    """The verdict first, then what is behind it; `status` is another than that of the tensors."""
    verdict = VERDICTS[status or ("passed" if result.passed else "failed")]
    screen.say_labelled(*verdict, f"  {result.file or 'arrays'}  {result.scheme}")
    say_findings(result)
    if result.unchecked:
        screen.say_wrapped(f"  not checked: {listed(result.unchecked, MAX_LISTED)}")


def show_difference(result: Difference) -> None:
    """The verdict, one line per finding, one per tensor."""
    exact = all(tensor.worst_index is None for tensor in result.tensors)
    verdict = ("equal" if exact else "within tolerance") if result.passed else "DIFFERENT"
    verdict = "same model" if result.passed and result.forms else verdict
    sides = f"  A: {result.a or 'arrays'}  B: {result.b or 'arrays'}"
    screen.say_labelled(verdict, "bold green" if result.passed else "bold red", sides)
    if result.forms:
        screen.say_wrapped(f"  {result.forms}")
        result = replace(result, tensors=())  # whose lines are joined by layers
    say_findings(result)
    if not (result.passed or result.diagnosis):
        screen.say("  no known transform maps A to B; pecli identify may say what each of them is")


def say_findings(
    result: Verification | Difference, indent: str = "  ", *, passed: bool = True
) -> None:
    """Reasons, what makes a pass weak, and tensors: each in one line, or where that is long, in one line per part."""
    width = (
        min(MAX_LINE, screen.console().width - len(indent)) if screen.is_terminal() else MAX_LINE
    )
    for line in reasons(result):
        screen.say_wrapped(indent + line)
    for line in result.weak:
        screen.say_labelled(f"{indent}weak", "bold yellow", f": {line}")
    for parts in tensor_lines(result, passed=passed):
        whole = "  ".join(parts)
        for line in (
            [whole] if len(whole) <= width else [parts[0], *(f"    {part}" for part in parts[1:])]
        ):
            screen.say_wrapped(indent + line)


def reasons(result: Verification | Difference) -> list[str]:
    """What is known beside the shapes and numbers of the tensors."""
    said = problems_of(result.tensors)
    return [line for line in result.diagnosis if line not in said]


def tensor_lines(result: Verification | Difference, *, passed: bool) -> list[list[str]]:
    """Of every tensor, how it was read, and its errors, in parts. Those that a verification passed are told in a few
    words, those of identical layers in one line: «80 layers: inv_freq, exact»."""
    verified = isinstance(result, Verification)
    sides = ("expected", "found") if verified else ("A", "B")
    failed = [tensor for tensor in result.tensors if not (verified and tensor.passed)]
    lines = [[line] for line in _passed_tensors(result)] if verified and passed else []
    said = {""}  # how cos was read is not said again of sin
    mistakes = [edit for each in result.explanations for edit in each.mistakes]
    with_place = all(edit.kind.endswith("_wrong") for edit in mistakes)  # or nothing is known
    for tensor in failed:
        head, *rest = parts_of(tensor, sides, with_place=with_place)
        reading = result.readings.get(tensor.name, "")
        lines.append([head if reading in said else f"{head}, {reading}", *rest])
        said.add(reading)
    return lines


def _passed_tensors(result: Verification | Difference) -> list[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for tensor in result.tensors:
        if tensor.passed:
            verdict = (
                "exact"
                if tensor.worst_index is None
                else f"max error {number(tensor.max_abs_error or 0, 3)}"
            )
            verdict = "" if tensor.max_abs_error is None else verdict
            alike = screen.shape(tensor.shape), result.readings.get(tensor.name, ""), verdict
            groups.setdefault((_LAYER.sub(".N.", tensor.name), *alike), []).append(tensor.name)
    together: dict[tuple[str, ...], list[str]] = {}  # names that say the same, such as cos and sin
    for (name, *words), names in groups.items():
        last = name.removesuffix(".weight").rpartition(".")[2]
        key = ("", *words[1:], f"{len(names)} layers") if len(names) > 1 else (*words, "")
        together.setdefault(key, []).append(last if len(names) > 1 else names[0])
    lines = []
    for (shape, *words, layers), names in together.items():
        head = (
            f"{layers}: {listed(names, MAX_LISTED)}"
            if layers
            else f"{listed(names, MAX_LISTED)}  {shape}"
        )
        lines.append(", ".join(filter(None, [head, *words])))
    return lines


def failures(result: Verification | PecliError) -> list[str]:
    """Why a check did not pass, a line each; of one that did, what makes it weak."""
    if isinstance(result, PecliError):
        return [str(result)]
    if result.passed:
        return [f"weak: {line}" for line in result.weak]
    return [*reasons(result), *map("  ".join, tensor_lines(result, passed=False))]


def parts_of(tensor: Comparison, sides: tuple[str, str], *, with_place: bool = False) -> list[str]:
    """A tensor's name and shape, then its errors; the words are for the two sides."""
    parts = [*filter(None, [f"{tensor.name}  {screen.shape(tensor.shape)}", tensor.problem])]
    if tensor.mismatched is None:
        return parts
    if tensor.worst_index is None and not tensor.mismatched:
        if tensor.max_abs_error is None or tensor.undecided:  # learned, or not finite
            return parts
        same = "every element is exact" if sides[0] == "expected" else "every element is equal"
        return [*parts, "the values themselves are equal" if tensor.problem else same]
    parts.append(
        f"{tensor.mismatched:,} of {tensor.size:,} out of tolerance{_place(tensor) if with_place else ''}"
    )
    if tensor.first_index not in (None, tensor.worst_index):
        parts[-1] += f", the first at {[*(tensor.first_index or ())]}"
    if tensor.worst_index is not None:
        parts.append(worst_element(tensor, sides))
        if (
            units(tensor.worst_ulp)
            and units(tensor.max_ulp_error)
            and tensor.worst_ulp != tensor.max_ulp_error
        ):
            parts[-1] += f"  (elsewhere up to {units(tensor.max_ulp_error)})"
    strange = zip((tensor.strange_expected, tensor.strange_found), sides, strict=True)
    return [*parts, *(f"{count:,} not finite ({side})" for count, side in strange if count)]


def _place(tensor: Comparison) -> str:
    """The part of each axis that is out of tolerance, where that is half of it at most."""
    words = []
    for name, size in zip(
        ("columns", "rows", "heads", "batch"), reversed(tensor.shape), strict=False
    ):
        runs = [*tensor.where.get(name, ())]
        if 0 < 2 * sum(last - first + 1 for first, last in runs) <= size:
            spelt = [f"{first}–{last}" if last > first else f"{first}" for first, last in runs]
            several = len(runs) > 1 or runs[0][1] > runs[0][0]
            words.append(
                f"{name if several else name.removesuffix('s')} {listed(spelt, MAX_LISTED)}"
            )
    return f", all in {', '.join(reversed(words))}" if words else ""


def worst_element(tensor: Comparison, sides: tuple[str, str]) -> str:
    """The largest error, where it is, and what the two sides have there."""
    in_units = units(tensor.worst_ulp)
    ours, theirs = _told_apart(tensor.expected, tensor.found)
    error = f"max error {number(tensor.max_abs_error or 0, 3)}{in_units and f' ({in_units})'}"
    return f"{error} at {[*(tensor.worst_index or ())]}: {sides[0]} {ours}, {sides[1]} {theirs}"


def units(count: int | None) -> str:
    """Units of the last place; empty where they are not counted."""
    return "" if count is None or count > MAX_ULP else f"{count:,} ulp"


def _told_apart(*values: object) -> list[str]:
    """Values with as many digits as it takes to tell them apart, six at least."""
    for digits in range(6, 18):
        texts = [
            f"{value:.{digits}g}" if isinstance(value, float) else repr(value) for value in values
        ]
        if len({*texts}) > 1:
            break
    return texts


def show_identification(result: Identification) -> None:
    """The verdict first; then each match, with its command on a line of its own; then what has none."""
    from pecli.explain.edits import Runtime, clause

    verdict = ("not identified", "bold red")
    if result.identified:
        verdict = (
            ("partly identified", "bold yellow")
            if result.description
            else ("identified", "bold green")
        )
    screen.say_labelled(*verdict, f"  {result.file}")
    for match in result.matches:
        parameters = match.scheme.spec()["parameters"]
        kept = {
            name: value
            for name, value in parameters.items()
            if value is not None and name != "recipe"
        }
        how = f"recipe {match.recipe}, max error {number(match.max_abs_error, 3)}"
        lines = [f"{', '.join(match.tensors)}: {match.scheme.name}, {how}"]
        lines.append(
            "  ".join(f"{name}={brief(value, MAX_LISTED)}" for name, value in kept.items())
        )
        if match.runtimes:
            lines.append(clause(Runtime(match.runtimes[0], match.runtimes[1:])))
        if match.form:
            without = "; the command makes the table without that" if match.lacking else ""
            lines.append(f"in the file: {match.form}{without}")
        for line in [*lines, *(f"not determined: {sentence}" for sentence in match.undetermined)]:
            screen.say_wrapped(f"  {line}")
        screen.say_styled((match.command, "bold"))  # alone on its line, so that it can be copied
    for line in result.description:
        screen.say_wrapped(f"  {line}")


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One line per check, what is wrong below it, and the count at the end."""
    labels = [screen.printable(outcome.check.label) for outcome in outcomes]
    width = max(map(len, ["check", *labels]))
    screen.say_styled((f"status  {'check':<{width}}  worst error", "dim"))
    for outcome, label in zip(outcomes, labels, strict=True):
        word, style = VERDICTS[outcome.status]
        screen.say_styled((f"{word:<8}", style), (f"{label:<{width}}  {_worst(outcome)}", ""))
        if isinstance(outcome.result, Verification):
            say_findings(outcome.result, " " * 8, passed=False)
    found = [outcome.status for outcome in outcomes]
    counts = {
        status: found.count(status) for status in ("passed", "skipped", "weak", "failed", "error")
    }
    words = {
        **{status: status for status in counts},
        "error": "errors" if counts["error"] > 1 else "error",
    }
    parts = ", ".join(f"{count} {words[status]}" for status, count in counts.items() if count)
    screen.say(f"{counted(len(found), 'check')}: {parts}")


def _worst(outcome: Outcome) -> str:
    """The largest error of all tensors; the problem where there is none."""
    result = outcome.result
    if not isinstance(result, Verification):
        problem = str(result)
        if isinstance(result, FileError):  # the line names the check's own file already
            problem = (
                result.problem
                if result.path == outcome.check.file
                else f"{result.path}: {result.problem}"
            )
        return screen.printable(" ".join(problem.split()))
    known = [tensor for tensor in result.tensors if tensor.max_abs_error is not None]
    if not known:
        return "the shape is right" if result.passed else "not comparable"
    worst = max(known, key=lambda tensor: tensor.max_abs_error or 0.0)
    if not worst.max_abs_error:
        return "0"
    in_units = "" if result.passed else units(worst.worst_ulp)
    return f"{number(worst.max_abs_error, 3)}{in_units and f' ({in_units})'}"


_JUNIT_KINDS = {
    "failed": "failure",
    "weak": "failure",
    "skipped": "skipped",
    "error": "error",
}  #: By status


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """One test suite per manifest, and one for files that stand for themselves; what XML cannot hold is escaped."""
    from xml.etree import ElementTree

    suites = ElementTree.Element("testsuites", {"name": "pecli verify", **_junit_counts(outcomes)})
    for manifest in dict.fromkeys(outcome.check.manifest for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.check.manifest == manifest]
        name = manifest or "pecli verify"
        suite = ElementTree.SubElement(
            suites, "testsuite", {"name": escaped(name), **_junit_counts(own)}
        )
        for outcome in own:
            names = {"classname": name, "name": outcome.check.label, "file": outcome.check.file}
            case = ElementTree.SubElement(
                suite, "testcase", {key: escaped(value) for key, value in names.items()}
            )
            case.set("time", f"{outcome.seconds:.3f}")
            if kind := _JUNIT_KINDS.get(outcome.status):
                lines = [*map(escaped, failures(outcome.result))]
                element = ElementTree.SubElement(case, kind, {"message": lines[0], "type": kind})
                element.text = "\n".join(lines)
    ElementTree.indent(suites)
    with open_output(path) as output:
        output.write(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")


def _junit_counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    kinds = [_JUNIT_KINDS.get(outcome.status) for outcome in outcomes]
    names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {name: str(kinds.count(kind)) for name, kind in names.items()}
    return {
        "tests": str(len(kinds)),
        **counts,
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = {**_DATA, **str.maketrans({":": "%3A", ",": "%2C"})}


def annotate(outcomes: Sequence[Outcome]) -> None:
    """A workflow command for each check that did not pass; a tensor's name after the file's is left to the title."""
    for outcome in outcomes:
        if outcome.status in ("passed", "skipped"):
            continue
        check, file = outcome.check, outcome.check.file
        with suppress(FileError):
            file = split_name(check.file)[0]
        title = f"pecli verify: {check.label}".translate(_PROPERTY)
        message = "\n".join(failures(outcome.result)).translate(_DATA)
        print(
            screen.printable(f"::error file={file.translate(_PROPERTY)},title={title}::{message}")
        )
