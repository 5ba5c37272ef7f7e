"""A page in the making: its parts, and the verdicts of its checks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from html import escape
from string import Template
from typing import NamedTuple

from pecli.checks.diff import Difference
from pecli.checks.identify import Identification
from pecli.checks.verification import Verification
from pecli.engine import __version__
from pecli.errors import PecliError
from pecli.package_data import package_text
from pecli.views import check_results
from pecli.views.html import Html, block, element, html_of, lines, table, text
from pecli.views.interactive import slider_parts
from pecli.views.interactive.rope_sliders import RopeSettings
from pecli.views.pictures import kinds
from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_files import svg
from pecli.views.pictures.figure_size import Inches
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.panels import Panel, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import labelled
from pecli.views.screen import size
from pecli.views.show import show

MAX_PICTURE_SIZE = 1000
"""Rows and columns of a table that a picture shows."""

ALONE_INCHES = Inches(6.0, 4.0)
BESIDE_INCHES = Inches(4.0, 3.2)
"""The size of a panel alone, and beside others: letters are as large as those of the page."""

DRAWN_DPI = 150.0
"""The resolution by which the cells of a heatmap are chosen."""

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
        self.failures: list[Html] = []  #: the evidence below that table
        self.drawing_count = 0
        self.sliders: list[RopeSettings] = []  #: encodings that a reader can change in the page
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

    def paragraph(self, words: str) -> None:
        self.parts.append(element("p", words))

    def picture(self, picture: Picture) -> None:
        self.parts.append(self._figure_html(picture))

    def _figure_html(self, picture: Picture) -> Html:
        """Return a picture: an SVG per panel, which wrap on a narrow screen, and a caption."""
        groups = _panel_groups(picture)
        size = BESIDE_INCHES
        css_class = "beside"
        if len(groups) == 1:
            size = ALONE_INCHES
            css_class = "alone"
        drawings = [self._drawing(group, size) for group in groups]
        caption = ". ".join(filter(None, [picture.title, picture.subtitle]))
        panels = element("div", block(*drawings), class_=css_class, role="img", aria_label=caption)
        return element("figure", block(element("figcaption", caption), panels))

    def _drawing(self, group: Sequence[Panel], size: Inches) -> Html:
        """Return panels below each other as an SVG; `size` is that of a panel of full height.

        The ids of an SVG begin with its number, so that no other SVG of the page has them.
        """
        self.drawing_count += 1
        height = size.height * sum(panel.share for panel in group)
        figure = render(Picture("", group), size=(size.width, height), dpi=DRAWN_DPI)
        return Html(svg(figure, f"f{self.drawing_count}-"))

    def plot(self, sources: Sequence[PlotSource], kind: str | None) -> None:
        self.picture(picture_of(sources, kind))

    def commands(self, *commands: str) -> None:
        self.parts.append(_commands(*commands))

    def check(
        self, run: Callable[[], CheckResult], command: Sequence[str] = (), fix: str = ""
    ) -> None:
        """Run a check; add its verdict, its text and its command, and the evidence of a failure.

        A check that cannot be made is added as an error.

        Args:
            run: The check.
            command: The command that repeats it.
            fix: The command that generates the table that was expected, if there is one.
        """
        try:
            result = run()
        except PecliError as problem:
            self._add_error(problem)
            return
        self.answers.append(bool(result))
        self._add_verdict_row(_verdict_of_check(result))
        self.view(lambda: show(result))
        command_line = shlex.join(command)
        if command_line:
            self.commands(command_line)
        if isinstance(result, Identification):
            return  # There are no expected values that could be drawn.
        if not result:
            self._add_failure(result, command_line, fix)

    def _add_failure(self, result: Verification | Difference, command: str, fix: str) -> None:
        """Add a failed check to the top of the page, below the table of verdicts.

        Args:
            result: The check.
            command: The command that repeats it.
            fix: The command that generates the expected table; empty if there is none.
        """
        parts = [element("h3", self.headings[-1])]
        reason, *details = check_results.reasons(result) or ["No known mistake explains it."]
        parts.append(element("p", reason, class_="reason"))
        parts += [element("p", detail) for detail in details]
        if fix:
            parts.append(element("p", "Fix: compute what this command writes, then check again."))
            parts.append(_commands(fix, command))
        parts.append(self._figure_html(comparison_picture([result])))
        self.failures += parts

    def _add_error(self, problem: PecliError) -> None:
        self.answers.append(problem)
        self._add_verdict_row(_Verdict("error", "bad", str(problem)))
        self.parts.append(element("p", element("span", "error", class_="bad"), " ", str(problem)))

    def _add_verdict_row(self, verdict: _Verdict) -> None:
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
        """Return the whole page of HTML: verdicts and failures first, then all sections.

        Args:
            title: The title of the page.
            command: The command that writes it, which the page states.
        """
        parts = [*self._verdicts_and_failures(), self._contents(), *self.parts]
        template = Template(package_text("pecli.views.report", "page.html"))
        sliders = slider_parts(self.sliders)
        page = Page(
            template.substitute(
                title=text(title),
                version=__version__,
                command=text(command),
                parts=lines(parts),
                policy=sliders.policy,
                slider_style=sliders.style,
                slider_body=sliders.body,
            )
        )
        page.answers = self.answers
        return page

    def _verdicts_and_failures(self) -> list[Html]:
        """Return the table of verdicts, then what is wrong; nothing if the page has no checks."""
        if not self.verdicts:
            return []
        rows = table(("file", "verdict", "reason"), self.verdicts)
        heading = element("h2", "Verdicts")
        section = element("section", block(heading, rows), class_="verdicts")
        return [section, *self.failures]

    def _contents(self) -> Html:
        items: list[Html] = []
        for number, words in enumerate(self.headings, 1):
            items.append(element("li", element("a", words, href=f"#part{number}")))
        return element("nav", block(element("ul", block(*items))), aria_label="Contents")


def _verdict_of_check(result: CheckResult) -> _Verdict:
    """Return the verdict of a check with the most important reason or weakness.

    An identification has sentences about the tensors that match no scheme instead.
    """
    if isinstance(result, Identification):
        sentences = list(result.description)
        is_weak = False
    else:
        sentences = [*check_results.reasons(result), *result.weak]
        is_weak = bool(result.weak)
    reason = next(iter(sentences), "")
    if not result:
        return _Verdict("FAILED", "bad", reason)
    if is_weak:
        return _Verdict("weak", "warn", reason)
    return _Verdict("passed", "good", reason)


def _commands(*commands: str) -> Html:
    return element("pre", "\n".join(commands))


def _panel_groups(picture: Picture) -> list[list[Panel]]:
    """Return the panels one by one; a chart that continues another stays below it."""
    groups: list[list[Panel]] = []
    for panel in picture.panels:
        if panel.continues:
            groups[-1].append(panel)
        else:
            groups.append([panel])
    return groups


def picture_of(sources: Sequence[PlotSource], kind: str | None) -> Picture:
    """Return the picture of sources of that kind, or of the kind that fits."""
    request = PlotRequest(MAX_PICTURE_SIZE, MAX_PICTURE_SIZE)
    return kinds.titled(labelled(sources), request, kind)
