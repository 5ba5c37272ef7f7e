"""A report as one page of HTML: what a model uses or a file holds, pictures, checks, and the commands behind them.

The page needs no network and no scripts, follows the reader's light or dark, and prints.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from pecli.checks.audit import Audit
from pecli.checks.diff import Difference, diff
from pecli.checks.identify import Identification
from pecli.checks.runtimes import RuntimeComparison
from pecli.checks.tolerance import EXACT, Tolerance, tolerance_of
from pecli.checks.verify import verify
from pecli.checks.verify.verification import Verification
from pecli.engine import __version__
from pecli.engine.schemes.rope_parameters import RUNTIME
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import FileError, PecliError, path_of
from pecli.files import open_tensors
from pecli.files.contents import carried_spec
from pecli.files.output import open_output
from pecli.models.encoding import ModelEncodings
from pecli.models.find import Model, NamedModel, named_model
from pecli.views import check_results, drift, encodings, file_summary
from pecli.views.pictures.figure import svg
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.mpl_render import drawn
from pecli.views.pictures.panels import PlotRequest, Subject
from pecli.views.pictures.subjects import labelled, of_file, of_model, of_scheme
from pecli.views.screen import escaped, shape, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 256
MAX_COLUMNS = 4096  #: Rows and columns of a tensor that a page shows
AUDITED_ROWS = 4096  #: Positions that drift is measured over; the command beside it takes others


def report(
    *sources: Model,
    output: str | os.PathLike[str] | None = None,
    tolerance: Tolerance | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    runtime: str = "none",
) -> Page:
    """A page about models (all that `load_model` takes) and files of tensors; written where `output` says.

    Files are verified against the first model, as `runtime` computes it if one is named, or against the spec they
    carry, and compared with the first file.
    """
    return Page(written(sources, output, tolerance_of(tolerance, max_ulp, atol, rtol), runtime).html)


class Page(str):
    """The text of a page, which a notebook shows as such."""

    def __repr__(self) -> str:
        return f"<Page of {size(len(self))} of HTML>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" style="width: 100%; height: 40em; border: 0"></iframe>'


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
    page = _Page()
    for model in models:
        _add_model(page, model)
    every = [subject for model in models for subject in of_model(model.encodings, model.label)]
    waving = [subject for subject in every if "wavelengths" in subject.picture_kinds]
    if len(models) > 1 and len(waving) > 1:
        page.heading("Wavelengths of all models")
        page.subjects(waving, "wavelengths")
    for file in files:
        _add_file(page, file, models[:1], tolerance, runtime if models else "none")
    for other in files[1:]:
        name = " and ".join(os.path.basename(file) for file in (files[0], other))
        page.heading(name)
        words = ["pecli", "diff", files[0], other, *_options(tolerance)]
        page.check(partial(diff, files[0], other, tolerance), words, name=name)
    words = ["pecli", "report", *names, *_options(tolerance, runtime), "-o", "report.html"]
    html = page.html(", ".join(map(os.path.basename, names)), shlex.join(words))
    if output is not None:
        with open_output(path_of("output", output)) as file_out:
            file_out.write(html.encode())
    return Report(html, page.answers)


def _options(tolerance: Tolerance, runtime: str = "none") -> list[str]:
    """A tolerance and a runtime as options of a command."""
    values = {"--max-ulp": tolerance.max_ulp, "--atol": tolerance.atol, "--rtol": tolerance.rtol}
    found = [word for name, value in values.items() if value for word in (name, f"{value:g}")]
    return found if runtime == "none" else [*found, "--runtime", runtime]


class _Page:
    """A page while it is made."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.answers: list[bool | PecliError] = []
        self.verdicts: list[str] = []  #: a row of a table for each check
        self.headings: list[str] = []

    def heading(self, words: str) -> None:
        """A part of the page, which its contents name."""
        self.headings.append(words)
        self.parts.append(f'<h2 id="part{len(self.headings)}">{text(words)}</h2>')

    def picture(self, drawn: Figure, caption: str) -> None:
        """A drawing, whose ids no other has, and what is to be seen in it."""
        drawing = svg(drawn, f"f{len(self.parts)}-")
        self.parts.append(f'<figure role="img" aria-label="{text(caption)}">\n{drawing}\n</figure>')

    def subjects(self, subjects: Sequence[Subject], kind: str | None) -> None:
        title, drawn = drawn_picture(subjects, kind)
        self.picture(drawn, title)

    def commands(self, *lines: str) -> None:
        self.parts.append(f"<pre>{text(chr(10).join(lines))}</pre>")

    def check(self, check: Callable[[], Any], words: Sequence[str] = (), about: str = "", name: str = "") -> None:
        """The answer of a check, its reasons, its picture, and its command; or what keeps it from being made."""
        try:
            result = check()
        except PecliError as problem:
            self.answers.append(problem)
            self._conclude(name, "bad", "error", str(problem))
            self.parts.append(f'<p><span class="bad">error</span> {text(problem)}</p>')
            return
        self.answers.append(bool(result))
        compared = isinstance(result, (Verification, Difference))
        known = [*check_results.reasons(result), *result.weak] if compared else [*result.description]
        kind, word = ("warn", "weak") if result and compared and result.weak else ("good", "passed")
        self._conclude(name, *((kind, word) if result else ("bad", "FAILED")), *known[:1])
        self.parts.append(described(result, about))
        if compared and not result:
            picture = comparison_picture([result])
            self.picture(drawn(picture), picture.title)
        if words:
            self.commands(shlex.join(words))

    def _conclude(self, name: str, kind: str, word: str, reason: str = "") -> None:
        cells = f'<td><span class="{kind}">{word}</span></td><td>{text(reason)}</td>'
        link = f'<a href="#part{len(self.headings)}">{text(name)}</a>'
        self.verdicts.append(f'<tr><th scope="row">{link}</th>{cells}</tr>')

    def _summary(self) -> str:
        """The verdicts, and what is on the page."""
        heads = "".join(f'<th scope="col">{word}</th>' for word in ("file", "verdict", "reason"))
        rows = "\n".join(self.verdicts)
        box = f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>" if rows else ""
        links = [f'<li><a href="#part{k}">{text(words)}</a></li>' for k, words in enumerate(self.headings, 1)]
        verdicts = f'<section class="verdicts">\n<h2>Verdicts</h2>\n{box}\n</section>\n' if box else ""
        return f'{verdicts}<nav aria-label="Contents">\n<ul>\n{chr(10).join(links)}\n</ul>\n</nav>'

    def html(self, title: str, command: str) -> str:
        page = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
        words = {"title": text(title), "version": __version__, "command": text(command)}
        return page.substitute(words, parts="\n".join([self._summary(), *self.parts]))


def text(value: object) -> str:
    """A text from anywhere, for HTML."""
    return escape("\n".join(map(escaped, str(value).split("\n"))))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], numeric: Sequence[int] = ()) -> str:
    """A table; the cells of some columns are numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        kinds = [' class="number"' if place in numeric else "" for place in range(len(cells))]
        kinds = [f' scope="col"{kind}' for kind in kinds] if tag == "th" else kinds
        inside = "".join(f"<{tag}{kind}>{text(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{inside}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>\n<thead>{line(heads, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def drawn_picture(subjects: Sequence[Subject], kind: str | None) -> tuple[str, Figure]:
    """A picture of that kind, or of the one that fits, as large as it likes; its title first."""
    from pecli.views.pictures import kinds, mpl_render

    picture = kinds.titled(labelled(subjects), PlotRequest(1000, 1000), kind)
    return " ".join(filter(None, [picture.title, picture.subtitle])), mpl_render.drawn(picture)


def _add_model(page: _Page, model: NamedModel) -> None:
    """What a model uses, scaling explained, a heatmap, drift by recipe and by runtime, and commands."""
    from pecli.checks.audit import audit
    from pecli.checks.runtimes import runtimes

    found = model.encodings
    given = f"{model.option} {shlex.quote(model.name)}"
    kind = found.model_type or "no model_type"
    page.heading(model.label)
    page.parts += [f'<p class="quiet">{text(kind)}</p>', described(found)]
    commands = encodings.commands(found, given, context=found.context)
    if ropes := [encoding for encoding in found.ropes() if not encoding.no_table]:
        scaled = any(each.parameters.get("scaling", "none") != "none" for each in ropes)
        page.parts.append("<h3>Scaling explained</h3>" if scaled else "<h3>Wavelengths</h3>")
        page.subjects(of_model(found, model.label), "wavelengths")
        page.parts.append("<h3>The table</h3>")
        page.subjects(of_scheme(ropes[0].rope(MAX_ROWS), model.label), "heatmap")
        rows = min(AUDITED_ROWS, found.context or AUDITED_ROWS)
        audits = {encoding.layer_type: audit(encoding.rope(rows)) for encoding in ropes}
        how = "when they are computed as runtimes compute them"
        about = f"The largest absolute error of cos and sin over {rows:,} positions, {how}."
        page.parts += ["<h3>Drift by recipe</h3>", f"<p>{about}</p>", drifts(audits)]
        page.picture(drift.audit_picture(audits), "largest error by position")
        page.commands(f"pecli audit rope {given} --seq-len {rows}")
        page.parts += ["<h3>What runtimes compute</h3>", described(runtimes(model.given))]
        page.commands(f"pecli runtimes {given}")
        commands.append(f"pecli plot rope {given} --kind wavelengths -o wavelengths.svg")
    elif tables := of_model(found, model.label, MAX_ROWS):
        page.parts.append("<h3>The table</h3>")
        page.subjects(tables[:1], None)
    page.parts.append("<h3>Commands</h3>")
    page.commands(*commands)


def _add_file(page: _Page, name: str, models: Sequence[NamedModel], tolerance: Tolerance, runtime: str) -> None:
    """What a file holds, a heatmap of it, and whether it holds what it should."""
    from pecli.checks.identify import identify

    with open_tensors(name) as file:
        file.check()
        found = file_summary.describe(file, name, file.tensors)
        total = size(sum(each["bytes"] for each in found["tensors"]))
        heads = ["name", "dtype", "shape", "bytes"]
        page.heading(os.path.basename(name) or name)
        page.parts += [
            f'<p class="quiet">{text(found["format"])}, {total}</p>',
            table(["tensor", *heads[1:]], file_summary.rows_of(found["tensors"], heads), (3,)),
        ]
        tables = [table for subject in of_file(name, file) for table in subject.tables]
        for matrix in [table for table in tables if len(table.shape) > 1 and table.size][:1]:
            rows = matrix.read(0, min(matrix.rows, MAX_ROWS))[:, :MAX_COLUMNS]
            title = f"{matrix.name}, {shape(matrix.shape)} {matrix.dtype}"
            page.subjects([Subject(title, (table_of(matrix.name, rows),))], "heatmap")
        try:
            is_specified = carried_spec(file.path, file.metadata) is not None
        except FileError:
            is_specified = True  # which verify says what is wrong with
    page.parts.append("<h3>Verified</h3>")
    words, label = ["pecli", "verify", name, *_options(tolerance, runtime)], os.path.basename(name) or name
    if models:
        model = models[0]
        words[3:3] = [model.option, model.name]
        about = f"against {model.name}"
        page.check(lambda: verify(name, model.encodings, tolerance, runtime=runtime), words, about, label)
    elif is_specified:
        page.check(lambda: verify(name, None, tolerance), words, "against the spec that it carries", label)
    else:
        page.check(lambda: identify(name), about="it carries no spec, and no model is named", name=label)


def described(value: Any, about: str = "") -> str:
    """A scheme, a model or a result as a part of a page; a verdict says what it is about."""
    return next(describe for kind, describe in _DESCRIBED.items() if isinstance(value, kind))(value, about)


def _scheme(scheme: Scheme, about: str) -> str:
    given = {name: value for name, value in scheme.spec()["parameters"].items() if value is not None}
    values = ", ".join(f"{name} {encodings.cell(value)}" for name, value in given.items())
    rows = [(each.name, each.dtype, shape(each.shape)) for each in scheme.tensors()]
    return f"<p><b>{text(scheme.name)}</b> {text(values)}</p>{table(('tensor', 'dtype', 'shape'), rows)}"


def _model(model: ModelEncodings, about: str) -> str:
    """A table for each encoding of a model, and its warnings."""
    parts = []
    for encoding in model.encodings:
        parts.append(f"<h3>{text(encoding.layer_type or 'all layers')}: {text(encoding.scheme)}</h3>")
        parts.append(table(("", "value", "source"), encodings.rows_of(encoding, None)))
    parts += [f'<p><span class="warn">warning</span> {text(warning)}</p>' for warning in model.warnings]
    return "\n".join(parts)


def _comparison(result: Verification | Difference, about: str) -> str:
    """What `verify` or `diff` answered, and why."""
    if isinstance(result, Difference):
        verdict = _answer(
            result.passed, ("equal within the tolerance", "DIFFERENT"), f"A is {result.a}, B is {result.b}"
        )
    else:
        verdict = _answer(result.passed, ("passed", "FAILED"), about or f"{result.file} {result.scheme}")
    weak = [f"weak: {line}" for line in result.weak]
    items = [*check_results.reasons(result), *weak, *map("; ".join, check_results.tensor_lines(result))]
    return verdict + "<ul>\n" + "\n".join(f"<li>{text(item)}</li>" for item in dict.fromkeys(items)) + "\n</ul>"


def _identification(result: Identification, about: str) -> str:
    """What `identify` found, with the commands that make it again."""
    parts = [_answer(result.identified, ("identified", "not identified"), about or result.file)]
    for match in result.matches:
        parts += [f"<p>{text(line)}</p>" for line in check_results.match_lines(match)]
        parts.append(f"<pre>{text(match.command)}</pre>")
    return "".join(parts + [f"<p>{text(line)}</p>" for line in result.description])


def drifts(audits: Mapping[str, Audit]) -> str:
    """The errors of every recipe, for each kind of layer."""
    lines = [[name, *row] for name, found in audits.items() for row in drift.summary_rows(found)]
    return table(("", "recipe", *drift.SUMMARY[1:]), lines, (2, 3, 4, 5))


def _runtimes(found: RuntimeComparison, about: str) -> str:
    return table(("", "runtime", f"with a context of {found.length:,}", "why"), drift.runtime_rows(found))


def _answer(yes: bool, words: tuple[str, str], about: str) -> str:
    """A verdict: the word for yes or for no, and what it is about."""
    kind = "good" if yes else "bad"
    return f'<p><span class="{kind}">{words[not yes]}</span> <span class="quiet">{text(about)}</span></p>'


_DESCRIBED: dict[type, Callable[[Any, str], str]] = {
    Scheme: _scheme,
    ModelEncodings: _model,
    Verification: _comparison,
    Difference: _comparison,
    Identification: _identification,
    Audit: lambda audit, about: drifts({"": audit}),
    RuntimeComparison: _runtimes,
}
