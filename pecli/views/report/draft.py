"""A page in the making: its parts, and the verdicts of its checks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from pecli.checks.diff import Difference
from pecli.checks.identify import Identification
from pecli.checks.verification import Verification
from pecli.engine import __version__
from pecli.errors import PecliError
from pecli.views import check_results
from pecli.views.pictures import kinds
from pecli.views.pictures.figure import Figure, render
from pecli.views.pictures.figure_files import svg
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.subjects import PlotRequest, Subject
from pecli.views.pictures.titles import labelled
from pecli.views.report.html import Html, block, element, html_of, lines, table, text
from pecli.views.screen import size
from pecli.views.show import show

MAX_PICTURE_SIZE = 1000
"""Rows and columns of a table that a picture shows."""

CheckResult = Verification | Difference | Identification


class Page(str):
    """The text of a page, which a notebook shows as such. It is true if all its checks passed."""

    answers: list[bool | PecliError]  #: of its checks: passed, failed, or the error instead

    def __bool__(self) -> bool:
        return all(answer is True for answer in self.answers)

    def __repr__(self) -> str:
        return f"<Page of {size(len(self))} of HTML>"

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape(self)}" style="{style}"></iframe>'


class Drawing(NamedTuple):
    """A figure, and the title under which a screen reader announces it."""

    title: str
    figure: Figure


class _Verdict(NamedTuple):
    """The conclusion of a check."""

    word: str
    css_class: str
    reason: str = ""


class Draft:
    """The parts of a page in their order."""

    def __init__(self) -> None:
        self.parts: list[Html] = []
        self.answers: list[bool | PecliError] = []
        self.verdicts: list[Html] = []  #: rows of a table
        self.headings: list[str] = []

    def heading(self, words: str) -> None:
        """Begin a section that the table of contents lists."""
        self.headings.append(words)
        self.parts.append(element("h2", words, id=f"part{len(self.headings)}"))

    def subheading(self, words: str) -> None:
        self.parts.append(element("h3", words))

    def view(self, print_view: Callable[[], None]) -> None:
        """Add the output of a view."""
        self.parts.append(html_of(print_view))

    def figure(self, drawing: Drawing) -> None:
        """Add a figure, as SVG whose ids no other figure of the page has."""
        drawn = Html(svg(drawing.figure, f"f{len(self.parts)}-"))
        self.parts.append(element("figure", block(drawn), role="img", aria_label=drawing.title))

    def subjects(self, subjects: Sequence[Subject], kind: str | None) -> None:
        self.figure(drawing_of(subjects, kind))

    def commands(self, *commands: str) -> None:
        self.parts.append(element("pre", "\n".join(commands)))

    def check(self, run: Callable[[], CheckResult], command: Sequence[str] = ()) -> None:
        """Run a check and add its verdict, its text, a picture if it failed, and its command."""
        try:
            result = run()
        except PecliError as problem:
            self._add_error(problem)
            return
        self.answers.append(bool(result))
        self._conclude(_verdict(result))
        self.view(lambda: show(result))
        if not isinstance(result, Identification) and not result:
            picture = comparison_picture([result])
            self.figure(Drawing(picture.title, render(picture)))
        if command:
            self.commands(shlex.join(command))

    def _add_error(self, problem: PecliError) -> None:
        self.answers.append(problem)
        self._conclude(_Verdict("error", "bad", str(problem)))
        self.parts.append(element("p", element("span", "error", class_="bad"), " ", str(problem)))

    def _conclude(self, verdict: _Verdict) -> None:
        """Add a row to the verdicts at the beginning of the page, with a link to this section."""
        section = f"#part{len(self.headings)}"
        link = element("a", self.headings[-1], href=section)
        word = element("span", verdict.word, class_=verdict.css_class)
        row = element(
            "tr",
            element("th", link, scope="row"),
            element("td", word),
            element("td", verdict.reason),
        )
        self.verdicts.append(row)

    def page(self, title: str, command: str) -> Page:
        """Return the page: the verdicts, the table of contents, and the sections."""
        parts: list[Html] = []
        if self.verdicts:
            heading = element("h2", "Verdicts")
            rows = table(("file", "verdict", "reason"), self.verdicts)
            parts.append(element("section", block(heading, rows), class_="verdicts"))
        parts.append(self._contents())
        parts += self.parts
        template = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
        page = Page(
            template.substitute(
                title=text(title), version=__version__, command=text(command), parts=lines(parts)
            )
        )
        page.answers = self.answers
        return page

    def _contents(self) -> Html:
        items: list[Html] = []
        for number, words in enumerate(self.headings, 1):
            items.append(element("li", element("a", words, href=f"#part{number}")))
        return element("nav", block(element("ul", block(*items))), aria_label="Contents")


def _verdict(result: CheckResult) -> _Verdict:
    """Return the verdict of a check with the most important reason or weakness."""
    weak: Sequence[str] = ()
    if isinstance(result, Identification):
        findings = list(result.description)
    else:
        weak = result.weak
        findings = [*check_results.reasons(result), *weak]
    reason = findings[0] if findings else ""
    if not result:
        return _Verdict("FAILED", "bad", reason)
    if weak:
        return _Verdict("weak", "warn", reason)
    return _Verdict("passed", "good", reason)


def drawing_of(subjects: Sequence[Subject], kind: str | None) -> Drawing:
    """Draw subjects as a picture of that kind, or of the kind that fits."""
    request = PlotRequest(MAX_PICTURE_SIZE, MAX_PICTURE_SIZE)
    picture = kinds.titled(labelled(subjects), request, kind)
    title = f"{picture.title} {picture.subtitle}".strip()
    return Drawing(title, render(picture))
