"""A report as one page of HTML: what a model uses or a file holds, pictures, checks, and the commands behind them.

The page needs no network and no scripts, follows the reader's light or dark, and prints.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pecli.checks.diff import Difference, diff
from pecli.checks.tolerance import EXACT, Tolerance, tolerance_of
from pecli.checks.verify import verify
from pecli.engine import __version__
from pecli.engine.schemes.rope_parameters import RUNTIME
from pecli.engine.table import table_of
from pecli.errors import FileError, PecliError, path_of
from pecli.files import LoadedFile, open_tensors
from pecli.files.contents import carried_spec
from pecli.files.output import open_output
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, NamedModel, named_model
from pecli.views import check_results, drift, encodings, file_summary
from pecli.views.pictures.figure import svg
from pecli.views.pictures.panels import PlotRequest, Subject
from pecli.views.pictures.subjects import labelled, of_file, of_model, of_scheme
from pecli.views.screen import escaped, shape, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pecli.checks.audit import Audit
    from pecli.checks.compare import Comparison
    from pecli.checks.identify import Identification
    from pecli.checks.runtimes import RuntimeComparison
    from pecli.checks.verify.verification import Verification

MAX_ROWS = 256
MAX_COLUMNS = 4096
"""Rows and columns of a tensor that a page shows."""
AUDITED_ROWS = 4096
"""Positions that drift is measured over; the command beside it takes others."""


def report(
    *sources: Model,
    output: str | os.PathLike[str] | None = None,
    tolerance: Tolerance | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    runtime: str = "none",
) -> str:
    """A page about models (all that `load_model` takes) and files of tensors; written where `output` says.

    Files are verified against the first model, as `runtime` computes it if one is named, or against the spec they
    carry, and compared with the first file.
    """
    return written(sources, output, tolerance_of(tolerance, max_ulp, atol, rtol), runtime).html


class Report(NamedTuple):
    """A page, and what its checks answered: whether they passed, or what kept them from being made."""

    html: str
    answers: list[bool | PecliError]


def written(
    sources: Sequence[Model],
    output: str | os.PathLike[str] | None = None,
    tolerance: Tolerance = EXACT,
    runtime: str = "none",
) -> Report:
    """The same page, with the answers that an exit code tells."""
    RUNTIME.check("runtime", runtime)
    found = [named_model(source) for source in sources]
    models = [each for each in found if each is not None]
    names = [each.name if each else path_of("sources", source) for source, each in zip(sources, found, strict=True)]
    files = [name for name, each in zip(names, found, strict=True) if each is None]
    numbers = count()
    parts = [part for model in models for part in _model_parts(model, numbers)]
    answers: list[bool | PecliError] = []
    for file in files:
        parts += _file_parts(file, models[:1], tolerance, runtime, answers, numbers)
    for other in files[1:]:
        parts += _diff_parts(files[0], other, tolerance, answers)
    made = shlex.join(["pecli", "report", *names, *_options(tolerance, runtime), "-o", "report.html"])
    page = _page(", ".join(map(os.path.basename, names)), parts, made)
    if output is not None:
        with open_output(path_of("output", output)) as file_out:
            file_out.write(page.encode())
    return Report(page, answers)


def _options(tolerance: Tolerance, runtime: str = "none") -> list[str]:
    """A tolerance and a runtime as options of a command."""
    values = {"--max-ulp": tolerance.max_ulp, "--atol": tolerance.atol, "--rtol": tolerance.rtol}
    found = [word for name, value in values.items() if value for word in (name, f"{value:g}")]
    return found if runtime == "none" else [*found, "--runtime", runtime]


def _page(title: str, parts: Sequence[str], command: str) -> str:
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{allowed}">
<title>{text(title)} – pecli report</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<h1>{text(title)}</h1>
{chr(10).join(parts)}
<h2>This page</h2>
<p class="quiet">Made by pecli {__version__} with</p>
<pre>{text(command)}</pre>
</body>
</html>
"""


def text(value: object) -> str:
    """A text from anywhere, for HTML."""
    return escape("\n".join(map(escaped, str(value).split("\n"))))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], numeric: Sequence[int] = ()) -> str:
    """A table; the cells of some columns are numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        kinds = [' class="number"' if place in numeric else "" for place in range(len(cells))]
        inside = "".join(f"<{tag}{kind}>{text(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{inside}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>\n<thead>{line(heads, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _model_parts(model: NamedModel, numbers: Iterator[int]) -> Iterator[str]:
    """What a model uses, scaling explained, a heatmap, drift, and commands."""
    found = model.encodings
    yield f"<h2>{text(model.label)}</h2>"
    yield f'<p class="quiet">{text(found.model_type or "no model_type")}</p>'
    yield from described_encodings(found)
    ropes = [encoding for encoding in found.ropes() if not encoding.no_table]
    if ropes:
        yield "<h3>Scaling explained</h3>" if any(_is_scaled(each) for each in ropes) else "<h3>Wavelengths</h3>"
        yield _picture(of_model(found, model.label), "wavelengths", numbers)
        yield "<h3>The table</h3>"
        yield _picture(of_scheme(ropes[0].rope(MAX_ROWS), model.label), "heatmap", numbers)
        yield from _drift(model, ropes, numbers)
        yield from _runtimes(model)
    commands = encodings.commands(found, _given(model), context=found.context)
    if ropes:
        commands.append(f"pecli plot rope {_given(model)} --kind wavelengths -o wavelengths.svg")
    yield f"<h3>Commands</h3>\n<pre>{text(chr(10).join(commands))}</pre>"


def described_encodings(model: ModelEncodings) -> Iterator[str]:
    """A table for each encoding of a model, and its warnings."""
    for encoding in model.encodings:
        yield f"<h3>{text(encoding.layer_type or 'all layers')}: {text(encoding.scheme)}</h3>"
        yield table(("", "value", "source"), encodings.rows_of(encoding, None))
    for warning in model.warnings:
        yield f'<p><span class="warn">warning</span> {text(warning)}</p>'


def _given(model: NamedModel) -> str:
    """The option that names a model to a command."""
    return f"{model.option} {shlex.quote(model.name)}"


def _is_scaled(encoding: Encoding) -> bool:
    return bool(encoding.parameters.get("scaling", "none") != "none")


def _picture(subjects: Sequence[Subject], kind: str, numbers: Iterator[int]) -> str:
    """A picture of that kind as a part of the page; the numbers keep the ids of drawings apart."""
    title, drawn = drawn_picture(subjects, kind)
    return _figure(svg(drawn, f"f{next(numbers)}-"), title)


def drawn_picture(subjects: Sequence[Subject], kind: str | None) -> tuple[str, Figure]:
    """A picture of that kind, or of the one that fits, as large as it likes; its title first."""
    from pecli.views.pictures import kinds, mpl_render

    picture = kinds.titled(labelled(subjects), PlotRequest(), kind)
    width, height = mpl_render.size_of(picture)
    return picture.title, mpl_render.render(picture, width=width, height=height)


def _figure(drawing: str, caption: str) -> str:
    return f'<figure role="img" aria-label="{text(caption)}">\n{drawing}\n</figure>'


def _drift(model: NamedModel, ropes: Sequence[Encoding], numbers: Iterator[int]) -> Iterator[str]:
    """How far each recipe drifts from the exact table."""
    from pecli.checks.audit import audit

    rows = min(AUDITED_ROWS, model.encodings.context or AUDITED_ROWS)
    audits = {encoding.layer_type: audit(encoding.rope(rows)) for encoding in ropes}
    yield "<h3>Drift by recipe</h3>"
    yield (
        f"<p>The largest absolute error of cos and sin over {rows:,} positions, when they are computed as runtimes"
        " compute them.</p>"
    )
    yield drifts(audits)
    yield _figure(svg(drift.audit_picture(audits), f"f{next(numbers)}-"), "largest error by position")
    yield f"<pre>{text(f'pecli audit rope {_given(model)} --seq-len {rows}')}</pre>"


def _runtimes(model: NamedModel) -> Iterator[str]:
    """What each runtime makes of the model."""
    from pecli.checks.runtimes import runtimes

    yield "<h3>What runtimes compute</h3>"
    yield runtime_results(runtimes(model.given))
    yield f"<pre>{text(f'pecli runtimes {_given(model)}')}</pre>"


def _file_parts(
    name: str,
    models: Sequence[NamedModel],
    tolerance: Tolerance,
    runtime: str,
    answers: list[bool | PecliError],
    numbers: Iterator[int],
) -> Iterator[str]:
    """What a file holds, a heatmap of it, and whether it holds what it should."""
    with open_tensors(name) as file:
        file.check()
        found = file_summary.describe(file, name, file.tensors)
        yield f"<h2>{text(os.path.basename(name) or name)}</h2>"
        yield f'<p class="quiet">{text(found["format"])}, {size(sum(each["bytes"] for each in found["tensors"]))}</p>'
        rows = [
            (each["name"], each["dtype"], shape(tuple(each["shape"])), f"{each['bytes']:,}")
            for each in found["tensors"]
        ]
        yield table(("tensor", "dtype", "shape", "bytes"), rows, (3,))
        drawn = next((subject for subject in _matrices(name, file)), None)
        if drawn is not None:
            yield _picture([drawn], "heatmap", numbers)
        spec = _carried(file)
    yield "<h3>Verified</h3>"
    try:
        if models or spec:
            yield from _verified(name, models, tolerance, runtime if models else "none", answers)
        else:
            from pecli.checks.identify import identify

            known = identify(name)
            answers.append(known.identified)
            yield identification(known, "it carries no spec, and no model is named")
    except PecliError as problem:
        answers.append(problem)
        yield f'<p><span class="bad">error</span> {text(problem)}</p>'


def _matrices(name: str, file: LoadedFile) -> Iterator[Subject]:
    """The first rows of every tensor that has rows and columns."""
    for subject in of_file(name, file):
        for table in subject.tables:
            if len(table.shape) > 1 and table.size:
                rows = table.read(0, min(table.rows, MAX_ROWS))[:, :MAX_COLUMNS]
                title = f"{table.name}, {shape(table.shape)} {table.dtype}"
                yield Subject(title, (table_of(table.name, rows),))


def _carried(file: LoadedFile) -> bool:
    try:
        return carried_spec(file.path, file.metadata) is not None
    except FileError:
        return True  # which verify says what is wrong with


def _verified(
    name: str, models: Sequence[NamedModel], tolerance: Tolerance, runtime: str, answers: list[bool | PecliError]
) -> Iterator[str]:
    """The answer of `verify`, its reasons, and its command."""
    model = models[0].encodings if models else None
    result = verify(name, model, tolerance, runtime=runtime) if models else verify(name, None, tolerance)
    answers.append(result.passed)
    yield verification(result, f"against {models[0].name}" if models else "against the spec that it carries")
    words = [shlex.quote(name), *map(_given, models), *_options(tolerance, runtime)]
    yield f"<pre>{text(' '.join(['pecli', 'verify', *words]))}</pre>"


def _diff_parts(a: str, b: str, tolerance: Tolerance, answers: list[bool | PecliError]) -> Iterator[str]:
    yield f"<h2>{text(os.path.basename(a))} and {text(os.path.basename(b))}</h2>"
    try:
        result = diff(a, b, tolerance)
    except PecliError as problem:
        answers.append(problem)
        yield f'<p><span class="bad">error</span> {text(problem)}</p>'
        return
    answers.append(result.passed)
    yield difference(result)
    yield f"<pre>{text(shlex.join(['pecli', 'diff', a, b, *_options(tolerance)]))}</pre>"


def verification(result: Verification, about: str) -> str:
    """What `verify` answered, and why."""
    weak = [f"weak: {line}" for line in result.weak]
    verdict = _answer(result.passed, ("passed", "FAILED"), about)
    return verdict + _reasons([*result.sentences, *weak], result.tensors, ("expected", "found"))


def difference(result: Difference) -> str:
    """What `diff` answered, and why."""
    verdict = _answer(result.passed, ("equal within the tolerance", "DIFFERENT"), f"A is {result.a}, B is {result.b}")
    return verdict + _reasons(result.diagnosis, result.tensors, ("A", "B"))


def identification(result: Identification, about: str) -> str:
    """What `identify` found, with the commands that make it again."""
    parts = [_answer(result.identified, ("identified", "not identified"), about)]
    for match in result.matches:
        parts += [f"<p>{text(line)}</p>" for line in check_results.match_lines(match)]
        parts.append(f"<pre>{text(match.command)}</pre>")
    return "".join(parts + [f"<p>{text(line)}</p>" for line in result.description])


def drifts(audits: Mapping[str, Audit]) -> str:
    """The errors of every recipe, for each kind of layer."""
    lines = [[name, *row] for name, found in audits.items() for row in drift.summary_rows(found)]
    return table(("", "recipe", *drift.SUMMARY[1:]), lines, (2, 3, 4, 5))


def runtime_results(found: RuntimeComparison) -> str:
    """What every runtime does, and why."""
    return table(("", "runtime", f"with a context of {found.length:,}", "why"), drift.runtime_rows(found))


def _answer(yes: bool, words: tuple[str, str], about: str) -> str:
    """A verdict: the word for yes or for no, and what it is about."""
    kind = "good" if yes else "bad"
    return f'<p><span class="{kind}">{words[not yes]}</span> <span class="quiet">{text(about)}</span></p>'


def _reasons(sentences: Sequence[str], tensors: Sequence[Comparison], sides: tuple[str, str]) -> str:
    """What is behind a verdict, and the errors of each tensor."""
    described = [check_results.parts_of(tensor, sides) for tensor in tensors]
    items = [*sentences, *(": ".join(filter(None, [head, "; ".join(rest)])) for head, *rest in described)]
    return "<ul>\n" + "\n".join(f"<li>{text(item)}</li>" for item in dict.fromkeys(items)) + "\n</ul>"
