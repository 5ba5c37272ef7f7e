"""A report as one page of HTML: what a model uses or a file holds, pictures, checks, and the commands behind them. It
needs no network and no scripts, follows the reader's light or dark, and prints."""

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from pecli.checks.diff import Difference, diff
from pecli.checks.verification import Verification
from pecli.checks.verify import verify
from pecli.compare.tolerance import Tolerance, tolerance_of
from pecli.engine import __version__
from pecli.engine.schemes.rope_parameters import RUNTIME
from pecli.engine.table import table_of
from pecli.errors import PecliError, path_of
from pecli.files.load import open_tensors
from pecli.files.output import KEY, open_output
from pecli.models.find import Model, NamedModel, named_model
from pecli.views import check_results, drift, encodings, file_summary
from pecli.views.pictures import kinds
from pecli.views.pictures.figure import Figure, render
from pecli.views.pictures.figure_files import svg
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.subjects import (
    PlotRequest,
    Subject,
    labelled,
    of_file,
    of_model,
    of_scheme,
)
from pecli.views.screen import Recorder, Rows, escaped, shape, size

MAX_ROWS = 256
MAX_COLUMNS = 4096  #: Rows and columns of a tensor that a page shows
AUDITED_ROWS = 4096  #: Positions that drift is measured over; the command beside it takes others
_CLASSES = {
    "green": "good",
    "red": "bad",
    "yellow": "warn",
    "dim": "quiet",
}  #: By the colour of a style


class Page(str):
    """The text of a page, which a notebook shows as such."""

    answers: list[
        bool | PecliError
    ]  #: Of its checks: whether they passed, or what kept them from being made

    def __bool__(self) -> bool:
        return all(answer is True for answer in self.answers)

    def __repr__(self) -> str:
        return f"<Page of {size(len(self))} of HTML>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" style="width: 100%; height: 40em; border: 0"></iframe>'


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
    tolerance = tolerance_of(tolerance, max_ulp, atol, rtol)
    RUNTIME.check("runtime", runtime)
    found = [(source, named_model(source)) for source in sources]
    models = [model for _, model in found if model is not None]
    names = [
        (model.name if model else path_of("sources", source)).rstrip("/") for source, model in found
    ]
    files = [name for name, (_, model) in zip(names, found, strict=True) if model is None]
    draft = _Draft()
    for model in models:
        _add_model(draft, model)
    every = [
        subject
        for model in models
        for subject in of_model(model.encodings, model.label, "wavelengths")
    ]
    waving = [subject for subject in every if "wavelengths" in subject.picture_kinds]
    if len(models) > 1 and len(waving) > 1:
        draft.heading("Wavelengths of all models")
        draft.subjects(waving, "wavelengths")
    for file in files:
        _add_file(draft, file, models[:1], tolerance, runtime if models else "none")
    for other in files[1:]:
        draft.heading(" and ".join(os.path.basename(file) for file in (files[0], other)))
        words = ["pecli", "diff", files[0], other, *_options(tolerance)]
        draft.check(partial(diff, files[0], other, tolerance), words)
    words = ["pecli", "report", *names, *_options(tolerance, runtime), "-o", "report.html"]
    page = draft.page(", ".join(map(os.path.basename, names)), shlex.join(words))
    if output is not None:
        with open_output(path_of("output", output)) as file_out:
            file_out.write(page.encode())
    return page


def _options(tolerance: Tolerance, runtime: str = "none") -> list[str]:
    values = {"--max-ulp": tolerance.max_ulp, "--atol": tolerance.atol, "--rtol": tolerance.rtol}
    found = [word for name, value in values.items() if value for word in (name, f"{value:g}")]
    return found if runtime == "none" else [*found, "--runtime", runtime]


class _Draft:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.answers: list[bool | PecliError] = []
        self.verdicts: list[str] = []  #: a row of a table for each check
        self.headings: list[str] = []

    def heading(self, words: str) -> None:
        """A part of the page, which its contents name."""
        self.headings.append(words)
        self.parts.append(f'<h2 id="part{len(self.headings)}">{text(words)}</h2>')

    def subheading(self, words: str) -> None:
        self.parts.append(f"<h3>{text(words)}</h3>")

    def show(self, view: Callable[..., None], *what: Any) -> None:
        self.parts.append(html_of(partial(view, *what)))

    def picture(self, caption: str, drawn: Figure) -> None:
        """A drawing, whose ids no other has, and what is to be seen in it."""
        drawing = svg(drawn, f"f{len(self.parts)}-")
        self.parts.append(f'<figure role="img" aria-label="{text(caption)}">\n{drawing}\n</figure>')

    def subjects(self, subjects: Sequence[Subject], kind: str | None) -> None:
        self.picture(*drawn_picture(subjects, kind))

    def commands(self, *lines: str) -> None:
        self.parts.append(f"<pre>{text(chr(10).join(lines))}</pre>")

    def check(self, check: Callable[[], Any], words: Sequence[str] = ()) -> None:
        """The answer of a check, its reasons, its picture, and its command; or what keeps it from being made."""
        try:
            result = check()
        except PecliError as problem:
            self.answers.append(problem)
            self._conclude("bad", "error", str(problem))
            self.parts.append(f'<p><span class="bad">error</span> {text(problem)}</p>')
            return
        self.answers.append(bool(result))
        compared = isinstance(result, (Verification, Difference))
        known = (
            [*check_results.reasons(result), *result.weak] if compared else [*result.description]
        )
        kind, word = ("warn", "weak") if result and compared and result.weak else ("good", "passed")
        self._conclude(*((kind, word) if result else ("bad", "FAILED")), *known[:1])
        self.show(check_results.show, result)
        if compared and not result:
            picture = comparison_picture([result])
            self.picture(picture.title, render(picture))
        if words:
            self.commands(shlex.join(words))

    def _conclude(self, kind: str, word: str, reason: str = "") -> None:
        cells = f'<td><span class="{kind}">{word}</span></td><td>{text(reason)}</td>'
        link = f'<a href="#part{len(self.headings)}">{text(self.headings[-1])}</a>'
        self.verdicts.append(f'<tr><th scope="row">{link}</th>{cells}</tr>')

    def page(self, title: str, command: str) -> Page:
        """The verdicts first, then what is on the page, and all of it."""
        links = [
            f'<li><a href="#part{k}">{text(words)}</a></li>'
            for k, words in enumerate(self.headings, 1)
        ]
        start = [f'<nav aria-label="Contents">\n<ul>\n{chr(10).join(links)}\n</ul>\n</nav>']
        if self.verdicts:
            box = _table(("file", "verdict", "reason"), self.verdicts)
            start.insert(0, f'<section class="verdicts">\n<h2>Verdicts</h2>\n{box}\n</section>')
        template = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
        words = {"title": text(title), "version": __version__, "command": text(command)}
        made = Page(template.substitute(words, parts="\n".join([*start, *self.parts])))
        made.answers = self.answers
        return made


def text(value: object) -> str:
    """A text from anywhere, for HTML."""
    return escape("\n".join(map(escaped, str(value).split("\n"))))


def html_of(show: Callable[[], None]) -> str:
    """What a view says, as a part of a page: lines are paragraphs, tables are tables, styles are classes."""
    with redirect_stdout(Recorder()) as recorder:
        show()
    parts = []
    for said in recorder.said:
        if isinstance(said, Rows):
            right = ' class="number"' if said.right else ""
            rows = (
                [f"<td{right if k else ''}>{_span(*cell)}</td>" for k, cell in enumerate(row)]
                for row in said.rows
            )
            parts.append(_table(said.heads, [f"<tr>{''.join(row)}</tr>" for row in rows], right))
        elif line := "".join(_span(*part) for part in said):
            parts.append(f'<p class="said">{line}</p>')
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[str], right: str = "") -> str:
    cells = "".join(
        f'<th scope="col"{right if k else ""}>{text(head)}</th>' for k, head in enumerate(heads)
    )
    return f"<table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"


def _span(words: str, style: str) -> str:
    if kind := _CLASSES.get(style.rpartition(" ")[2]):
        return f'<span class="{kind}">{text(words)}</span>'
    return f"<b>{text(words)}</b>" if style else text(words)


def drawn_picture(subjects: Sequence[Subject], kind: str | None) -> tuple[str, Figure]:
    """A picture of that kind, or of the one that fits, as large as it likes; its title first."""
    picture = kinds.titled(labelled(subjects), PlotRequest(1000, 1000), kind)
    return " ".join(filter(None, [picture.title, picture.subtitle])), render(picture)


def _add_model(draft: _Draft, model: NamedModel) -> None:
    from pecli.checks.audit import audit
    from pecli.checks.runtimes import runtimes

    found = model.encodings
    given = f"{model.option} {shlex.quote(model.name)}"
    draft.heading(model.label)
    draft.show(check_results.show, found)
    commands = encodings.commands(found, given)
    if ropes := [encoding for encoding in found.ropes() if not encoding.no_table]:
        scaled = any(each.parameters.get("scaling", "none") != "none" for each in ropes)
        draft.subheading("Scaling explained" if scaled else "Wavelengths")
        draft.subjects(of_model(replace(found, encodings=tuple(ropes)), model.label), "wavelengths")
        draft.subheading("The table")
        draft.subjects(of_scheme(ropes[0].rope(MAX_ROWS), model.label), "heatmap")
        rows = min(AUDITED_ROWS, found.context or AUDITED_ROWS)
        audits = {encoding.layer_type: audit(encoding.rope(rows)) for encoding in ropes}
        draft.subheading("Drift by recipe")
        draft.show(drift.show_audit, audits)
        lines = [line for each in audits.values() for line in drift.verdicts(each)]
        verdicts = "; ".join(f"{words.strip()}{recipes}" for words, _, recipes in lines)
        draft.picture(f"largest error by position: {verdicts}", drift.audit_picture(audits))
        draft.commands(f"pecli audit rope {given} --seq-len {rows}")
        draft.subheading("What runtimes compute")
        draft.show(drift.show_runtimes, runtimes(found))
        draft.commands(f"pecli runtimes {given}")
        commands.append(f"pecli plot rope {given} --kind wavelengths -o wavelengths.svg")
    elif tables := of_model(found, model.label, seq_len=MAX_ROWS):
        draft.subheading("The table")
        draft.subjects(tables[:1], None)
    if towers := [
        each for each in of_model(found, model.label, "patch") if "patch" in each.picture_kinds
    ]:
        draft.subheading("Places in an image")
        draft.subjects(towers, "patch")
    draft.subheading("Commands")
    draft.commands(*commands)


def _add_file(
    draft: _Draft, name: str, models: Sequence[NamedModel], tolerance: Tolerance, runtime: str
) -> None:
    from pecli.checks.identify import identify

    file = open_tensors(name)
    draft.heading(os.path.basename(name))
    draft.show(file_summary.show, file_summary.describe(file, name, file.tensors))
    tables = [(subject, table) for subject in of_file(name, file) for table in subject.tables]
    for subject, matrix in [each for each in tables if len(each[1].shape) > 1 and each[1].size][:1]:
        rows = matrix.read(0, min(matrix.rows, MAX_ROWS))[:, :MAX_COLUMNS]
        title = f"{matrix.name}, {shape(matrix.shape)} {matrix.dtype}"
        scheme = (
            None if "patch" in subject.picture_kinds else subject.scheme
        )  # maps would need all rows of a grid
        draft.subjects([Subject(title, (table_of(matrix.name, rows),), scheme)], "heatmap")
    words = ["pecli", "verify", name, *_options(tolerance, runtime)]
    if models:
        model = models[0]
        draft.subheading(f"Verified against {model.name}")
        words[3:3] = [model.option, model.name]
        draft.check(lambda: verify(name, model.encodings, tolerance, runtime=runtime), words)
    elif KEY in file.metadata:
        draft.subheading("Verified against the spec that it carries")
        draft.check(lambda: verify(name, None, tolerance), words)
    else:
        draft.subheading("Identified, as it carries no spec, and no model is named")
        draft.check(lambda: identify(name))
