"""What checks found, for people: verifications, differences with a picture of the errors, identified tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, problems_of
from pecli.checks.verify.verification import Verification
from pecli.errors import PecliError, listed, spelled
from pecli.views import screen

if TYPE_CHECKING:
    from pecli.checks.diff import Difference, ErrorMap
    from pecli.checks.identify import Identification, Match
    from pecli.views.pictures.panels import HeatmapPanel

_LAYER = re.compile(r"\.\d+\.")
MAX_LINE = 96
"""Characters of a line about a tensor; a longer one is broken between its parts."""
PICTURE_LINES = 16
"""How much of a terminal the errors of a tensor take."""
MIN_ERROR = 1e-280
"""The smallest error that has a colour of its own, as a power of ten."""
MIN_SHARE = 1e-16
"""Of the largest error, what the colours reach down to."""
MAX_LISTED = 4
"""Numbers and names of a list that are all shown."""
MAX_ULP = 1_000_000
"""Units of the last place that are shown: more of them say nothing that the error itself does not."""


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
    from contextlib import redirect_stdout
    from io import StringIO

    from pecli.views import drift

    shown: dict[str, Callable[[Any], None]] = {
        "Verification": show_verification,
        "Difference": show_difference,
        "Identification": show_identification,
        "Audit": lambda audit: drift.show_audit({"": audit}),
        "RuntimeComparison": drift.show_runtimes,
    }
    with redirect_stdout(StringIO()) as output:
        shown[type(result).__name__](result)
    return output.getvalue().rstrip("\n")


def show_verification(result: Verification, status: str = "") -> None:
    """The verdict first, then what is behind it; `status` is another than that of the tensors."""
    verdict = VERDICTS[status or ("passed" if result.passed else "failed")]
    screen.say_labelled(*verdict, f"  {result.file}  {result.scheme}")
    say_findings(result)
    if result.unchecked:
        screen.say_wrapped(f"  not checked: {listed(result.unchecked, MAX_LISTED)}")


def show_difference(result: Difference) -> None:
    """The verdict, one line per finding, one per tensor."""
    exact = all(tensor.worst_index is None for tensor in result.tensors)
    verdict = ("equal" if exact else "within tolerance") if result.passed else "DIFFERENT"
    verdict = "same model" if result.passed and result.forms else verdict
    screen.say_labelled(verdict, "bold green" if result.passed else "bold red", f"  A: {result.a}  B: {result.b}")
    if result.forms:
        screen.say_wrapped(f"  {result.forms}")
        result = replace(result, tensors=())  # whose lines are joined by layers
    say_findings(result)
    if not (result.passed or result.diagnosis):
        screen.say("  no known transform maps A to B; pecli identify may say what each of them is")


def say_findings(result: Verification | Difference, indent: str = "  ", *, passed: bool = True) -> None:
    """Reasons, what makes a pass weak, and tensors: each in one line, or where that is long, in one line per part."""
    width = min(MAX_LINE, screen.console().width - len(indent)) if screen.is_terminal() else MAX_LINE
    for line in reasons(result):
        screen.say_wrapped(indent + line)
    for line in result.weak:
        screen.say_labelled(f"{indent}weak", "bold yellow", f": {line}")
    for parts in tensor_lines(result, passed=passed):
        whole = "  ".join(parts)
        for line in [whole] if len(whole) <= width else [parts[0], *(f"    {part}" for part in parts[1:])]:
            screen.say_wrapped(indent + line)


def reasons(result: Verification | Difference) -> list[str]:
    """What is known beside the shapes and numbers of the tensors."""
    said = problems_of(result.tensors)
    known = result.sentences if isinstance(result, Verification) else result.diagnosis
    return [line for line in known if line not in said]


def tensor_lines(result: Verification | Difference, *, passed: bool = True) -> list[list[str]]:
    """Of every tensor, how it was read, and its errors, in parts. Those that a verification passed are told in a few
    words, those of identical layers in one line: «80 layers: inv_freq, exact».
    """
    readings = {tensor.name: result.readings.get(tensor.name, "") for tensor in result.tensors}
    verified = isinstance(result, Verification)
    sides, same = (("expected", "found"), "exact") if verified else (("A", "B"), "equal")
    lines = [[line] for line in _passed_tensors(result.tensors, readings)] if verified and passed else []
    for tensor in result.tensors:
        if not (verified and tensor.passed):
            head, *rest = parts_of(tensor, sides, same)
            lines.append([", ".join(filter(None, [head, readings[tensor.name]])), *rest])
    return lines


def _passed_tensors(tensors: Sequence[Comparison], readings: Mapping[str, str]) -> list[str]:
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for tensor in tensors:
        if tensor.passed:
            verdict = "exact" if tensor.worst_index is None else f"max error {tensor.max_abs_error:.3g}"
            verdict = "" if tensor.max_abs_error is None else verdict
            alike = _LAYER.sub(".N.", tensor.name), screen.shape(tensor.shape), readings[tensor.name], verdict
            groups.setdefault(alike, []).append(tensor)
    lines = []
    for (name, shape, *words), group in groups.items():
        last = name.removesuffix(".weight").rpartition(".")[2]
        head = f"{len(group)} layers: {last}" if len(group) > 1 else f"{group[0].name}  {shape}"
        lines.append(", ".join(filter(None, [head, *words])))
    return lines


def failures(result: Verification | PecliError) -> list[str]:
    """Why a check did not pass, a line each; of one that did, what makes it weak."""
    if isinstance(result, PecliError):
        return [str(result)]
    if result.passed:
        return [f"weak: {line}" for line in result.weak]
    return [*reasons(result), *map("  ".join, tensor_lines(result, passed=False))]


def parts_of(tensor: Comparison, sides: tuple[str, str] = ("expected", "found"), same: str = "exact") -> list[str]:
    """A tensor's name and shape, then its errors; the words are for the two sides, and for no error."""
    parts = [f"{tensor.name}  {screen.shape(tensor.shape)}"]
    if tensor.problem:
        parts.append(tensor.problem)
    if tensor.mismatched is None:
        return parts
    if tensor.worst_index is None and not tensor.mismatched:
        return [*parts, f"every element is {'equal' if tensor.problem else same}"]
    parts.append(f"{tensor.mismatched:,} of {tensor.size:,} out of tolerance")
    if tensor.first_index not in (None, tensor.worst_index):
        parts[-1] += f", the first at {_place(tensor.first_index)}"
    if tensor.worst_index is not None:
        in_units = units(tensor.worst_ulp)
        ours, theirs = (_value(value, tensor.dtype) for value in (tensor.expected, tensor.found))
        parts.append(
            f"max error {tensor.max_abs_error:.3g}{in_units and f' ({in_units})'} at {_place(tensor.worst_index)}:"
            f" {sides[0]} {ours}, {sides[1]} {theirs}"
        )
        if in_units and units(tensor.max_ulp_error) and tensor.worst_ulp != tensor.max_ulp_error:
            parts[-1] += f"  (elsewhere up to {units(tensor.max_ulp_error)})"
    for count, side in ((tensor.strange_expected, sides[0]), (tensor.strange_found, sides[1])):
        if count:
            parts.append(f"{count:,} not finite ({side})")
    return parts


def units(count: int | None) -> str:
    """Units of the last place; empty where they are not counted."""
    return "" if count is None or count > MAX_ULP else f"{count:,} ulp"


def _value(value: object, dtype: str) -> str:
    """A number with as many digits as its dtype has."""
    digits = {"float32": 9, "float16": 5, "bfloat16": 4}.get(dtype, 17)
    return f"{value:.{digits}g}" if isinstance(value, float) else repr(value)


def _place(index: tuple[int, ...] | None) -> str:
    return f"[{', '.join(map(str, index or ()))}]"


def show_errors(errors: ErrorMap) -> None:
    """The errors of a tensor in the terminal."""
    from pecli.views.pictures import terminal_render
    from pecli.views.pictures.panels import Picture

    screen.say()
    picture = Picture(f"|A − B| of {errors.name}", [error_panel("", errors)])
    print("\n".join(terminal_render.lines(picture, screen.terminal()._replace(lines=PICTURE_LINES))))


def save_errors(
    path: str,
    maps: Sequence[ErrorMap],
    names: tuple[str, str],
    atol: float = 0.0,
    about: Mapping[str, Any] | None = None,
) -> None:
    """The errors of some tensors in a file, one below the other, each with colours of its own."""
    from pecli.views.pictures import figure, mpl_render
    from pecli.views.pictures.panels import Picture

    title = f"A: {screen.printable(names[0])}, B: {screen.printable(names[1])}"
    nothing = "" if maps else "no element to draw, as all are equal, or none can be compared"
    picture = Picture(title, [error_panel(errors.name, errors, atol) for errors in maps], subtitle=nothing)
    figure.save(mpl_render.render(picture, height=1.0 + 3.2 * len(maps) + (not maps)), path, about=about)


def error_panel(title: str, errors: ErrorMap, atol: float = 0.0) -> HeatmapPanel:
    """Errors on a logarithmic scale, with the tolerance on it; what is infinite cannot be drawn to scale."""
    from pecli.views.pictures.panels import HeatmapPanel

    cells = np.where(np.isfinite(errors.cells), errors.cells, np.nan)
    known = [*cells[cells > 0].tolist(), *([atol] if atol > 0 else [])]
    low, high = (min(known), max(*known, MIN_ERROR)) if known else (0.1, 1.0)
    return HeatmapPanel(
        title,
        cells,
        rows="position" if errors.positions > 1 else "",
        columns="channel" if errors.positions > 1 else "element",
        table_shape=(errors.positions, errors.channels),
        limits=(min(max(low, high * MIN_SHARE), high / 10), high),
        meaning="|A − B|, none: blank",
        log=True,
        reduce="max",
        marked=("tolerance", atol) if atol > 0 else None,
    )


def show_identification(result: Identification) -> None:
    """The verdict first; then each match, with its command on a line of its own; then what has none."""
    verdict = ("not identified", "bold red")
    if result.identified:
        verdict = ("partly identified", "bold yellow") if result.description else ("identified", "bold green")
    screen.say_labelled(*verdict, f"  {result.file}")
    for match in result.matches:
        for line in match_lines(match):
            screen.say_wrapped(f"  {line}")
        screen.say_styled((match.command, "bold"))  # alone on its line, so that it can be copied
    for line in result.description:
        screen.say_wrapped(f"  {line}")


def match_lines(match: Match) -> Iterator[str]:
    """A match in a few lines, its command left out."""
    from pecli.explain.edits import Runtime
    from pecli.explain.words import clause

    parameters = match.scheme.spec()["parameters"]
    kept = {name: value for name, value in parameters.items() if value is not None and name != "recipe"}
    how = f"recipe {match.recipe}, max error {match.max_abs_error:.3g}"
    yield f"{', '.join(match.tensors)}: {match.scheme.name}, {how}"
    yield "  ".join(f"{name}={_brief(value)}" for name, value in kept.items())
    if match.runtimes:
        yield clause(Runtime(match.runtimes[0], match.runtimes[1:]))
    if match.form:
        yield f"in the file: {match.form}" + ("; the command makes the table without that" if match.lacking else "")
    for sentence in match.undetermined:
        yield f"not determined: {sentence}"


def _brief(value: object) -> str:
    """A value as text; of a long list its ends, since the command has it all.

    >>> _brief([1.0, 2.0, 3.0, 4.0, 5.5])
    '1,2,3,…,5.5 (5 numbers)'
    """
    if isinstance(value, (list, tuple)) and len(value) > MAX_LISTED:
        return f"{spelled(value[:3])},…,{spelled(value[-1])} ({len(value)} numbers)"
    return spelled(value)
