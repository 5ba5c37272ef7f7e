"""What checks found, for people: verifications, differences with a picture of the errors, identified tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, problems_of
from pecli.errors import PecliError, listed, spelled
from pecli.views import screen

if TYPE_CHECKING:
    from pecli.checks.diff import Difference, ErrorMap
    from pecli.checks.identify import Identification, Match
    from pecli.checks.verify.verification import Verification
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

    with redirect_stdout(StringIO()) as output:
        match type(result).__name__:
            case "Verification":
                show_verification(result)
            case "Difference":
                show_difference(result)
            case "Identification":
                show_identification(result)
            case name:
                from pecli.views import drift

                drift.show_audit({"": result}) if name == "Audit" else drift.show_runtimes(result)
    return output.getvalue().rstrip("\n")


def show_verification(result: Verification, status: str = "") -> None:
    """The verdict first, then one line per finding, then the tensors: passed ones in one line, others in detail."""
    verdict = VERDICTS[status or ("passed" if result.passed else "failed")]
    screen.say_labelled(*verdict, f"  {result.file}  {result.scheme}")
    for line in _reasons(result):
        screen.say_wrapped(f"  {line}")
    say_weak(result.weak)
    for line in _grouped(result):
        screen.say(f"  {line}")
    for parts in _failed_tensors(result):
        say_parts(parts)
    if result.unchecked:
        screen.say_wrapped(f"  not checked: {listed(result.unchecked, MAX_LISTED)}")


def say_weak(lines: Sequence[str], indent: str = "  ") -> None:
    """What makes a pass weak."""
    for line in lines:
        screen.say_labelled(f"{indent}weak", "bold yellow", f": {line}")


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
    for parts in [*([line] for line in _reasons(result)), *_failed_tensors(result)]:
        say_parts(parts, indent)


def failures(result: Verification | PecliError) -> list[str]:
    """The same, a line each; of a check that passed, what makes it weak."""
    if isinstance(result, PecliError):
        return [str(result)]
    if result.passed:
        return [f"weak: {line}" for line in result.weak]
    return [*_reasons(result), *map("  ".join, _failed_tensors(result))]


def _reasons(result: Verification) -> list[str]:
    """What is known beside the shapes and numbers of the tensors."""
    said = problems_of(result.tensors)
    return [line for line in result.sentences if line not in said]


def _failed_tensors(result: Verification) -> list[list[str]]:
    """Of every tensor that did not pass, how it was read, and its errors."""
    described = [(parts_of(each), result.readings.get(each.name, "")) for each in result.tensors if not each.passed]
    return [[f"{head}, {reading}" if reading else head, *rest] for (head, *rest), reading in described]


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


def show_difference(result: Difference) -> None:
    """The verdict, one line per finding, one per tensor."""
    exact = all(tensor.worst_index is None for tensor in result.tensors)
    verdict = ("equal" if exact else "within tolerance") if result.passed else "DIFFERENT"
    style = "bold green" if result.passed else "bold red"
    screen.say_labelled(verdict, style, f"  A: {result.a}  B: {result.b}")
    problems = problems_of(result.tensors)
    for line in result.diagnosis:
        if line not in problems:
            screen.say_wrapped(f"  {line}")
    for tensor in result.tensors:
        head, *rest = parts_of(tensor, ("A", "B"), "equal")
        note = result.readings.get(tensor.name, "")
        say_parts([f"{head}, {note}" if note else head, *rest])
    say_weak(result.weak)
    if not (result.passed or result.diagnosis):
        screen.say("  no known transform maps A to B; pecli identify may say what each of them is")


def show_errors(errors: ErrorMap) -> None:
    """The errors of a tensor in the terminal."""
    from dataclasses import replace

    from pecli.views.pictures.terminal_render import heatmap_lines

    screen.say()
    panel = replace(_error_panel(errors), title=f"|A − B| of {errors.name}")
    print("\n".join(heatmap_lines(panel, screen.terminal(), height=PICTURE_LINES)))


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
    picture = Picture(title, [_error_panel(errors, atol) for errors in maps], subtitle=nothing)
    figure.save(mpl_render.render(picture, height=1.0 + 3.2 * len(maps) + (not maps)), path, about=about)


def _error_panel(errors: ErrorMap, atol: float = 0.0) -> HeatmapPanel:
    """Errors on a logarithmic scale, with the tolerance on it; what is infinite cannot be drawn to scale."""
    from pecli.views.pictures.panels import HeatmapPanel

    cells = np.where(np.isfinite(errors.cells), errors.cells, np.nan)
    found = [*cells[cells > 0].tolist(), *([atol] if atol > 0 else [])]
    low, high = (min(found), max(*found, MIN_ERROR)) if found else (0.1, 1.0)
    return HeatmapPanel(
        errors.name,
        cells,
        rows="position" if errors.positions > 1 else "",
        columns="channel" if errors.positions > 1 else "element",
        row_count=errors.positions,
        column_count=errors.channels,
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
