"""HTML from text: everything is escaped unless it is HTML already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from html import escape
from itertools import chain, repeat

from pecli.views.screen import RecordedLine, RecordedTable, Recorder, Styled, escaped

_CLASSES = {"green": "good", "red": "bad", "yellow": "warn", "dim": "quiet"}
"""CSS classes for the colours of a style, such as the red of «bold red»."""


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escape a text from anywhere for HTML; control characters become visible, line breaks stay.

    >>> text("a < b")
    'a &lt; b'
    """
    lines = str(value).split("\n")
    return Html(escape("\n".join(map(escaped, lines))))


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element. Children are escaped unless they are HTML; an empty attribute is left out.

    Names of attributes have an underscore for a hyphen, and after `class`, which Python reserves.

    >>> element("a", "x < y", href="#part1", class_="")
    '<a href="#part1">x &lt; y</a>'
    """
    opening = tag
    for name, value in attributes.items():
        if value:
            opening += f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
    content = "".join(map(_as_html, children))
    return Html(f"<{opening}>{content}</{tag}>")


def _as_html(child: str) -> Html:
    if isinstance(child, Html):
        return child
    return text(child)


def lines(parts: Iterable[Html]) -> Html:
    """Return HTML with each part on a line of its own."""
    return Html("\n".join(parts))


def block(*parts: Html) -> Html:
    """Return the lines of a block element, which begins and ends with a line break."""
    return Html(f"\n{lines(parts)}\n")


def table(heads: Sequence[str], rows: Iterable[Html], number_class: str = "") -> Html:
    """Return a table of rows that are HTML.

    Args:
        heads: The heads of the columns.
        rows: A `tr` element per row.
        number_class: The CSS class of all heads except the first.
    """
    cells = []
    for head, css_class in zip(heads, _column_classes(number_class), strict=False):
        cells.append(element("th", head, scope="col", class_=css_class))
    head_row = element("tr", *cells)
    return element("table", block(element("thead", head_row), element("tbody", block(*rows))))


def html_of(print_view: Callable[[], None]) -> Html:
    """Return what a function prints as HTML: lines are paragraphs, tables are tables, styles are classes.

    Args:
        print_view: A function that prints with `pecli.views.screen` and `print_table`.
    """
    with redirect_stdout(Recorder()) as recorder:
        print_view()
    parts: list[Html] = []
    for recorded in recorder.recorded:
        if isinstance(recorded, RecordedTable):
            parts.append(_recorded_table(recorded))
        elif any(part.text for part in recorded):  # Paragraphs have a distance without empty lines.
            parts.append(_paragraph(recorded))
    return lines(parts)


def _paragraph(line: RecordedLine) -> Html:
    return element("p", *map(_span, line), class_="said")


def _recorded_table(recorded: RecordedTable) -> Html:
    number_class = "number" if recorded.right else ""
    rows = [_row(row, number_class) for row in recorded.rows]
    return table(recorded.heads, rows, number_class)


def _row(row: Sequence[Styled], number_class: str) -> Html:
    cells = []
    for cell, css_class in zip(row, _column_classes(number_class), strict=False):
        cells.append(element("td", _span(cell), class_=css_class))
    return element("tr", *cells)


def _column_classes(number_class: str) -> Iterator[str]:
    """Return the CSS classes of all columns: the first one labels the rows, and has none."""
    return chain([""], repeat(number_class))


def _span(part: Styled) -> Html:
    """Return a styled text: in the class of its colour if it is a verdict's, otherwise bold."""
    if not part.style:
        return text(part.text)
    colour = part.style.rpartition(" ")[2]
    if colour in _CLASSES:
        return element("span", part.text, class_=_CLASSES[colour])
    return element("b", part.text)
