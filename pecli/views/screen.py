"""Standard output: styled lines on a terminal, plain text that is never cut in a pipe."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console

#: GitHub Actions and Azure Pipelines run this as a command wherever it stands in a line.
_CI_COMMAND = re.compile(r"##(?=\[|vso\[)")
#: GitHub Actions run this as a command at the beginning of a line, after any spaces.
_CI_COMMAND_AT_START = re.compile(r"^(\s*)::")

MIN_WRAP_WIDTH = 20
"""Columns that wrapped text takes at least; a narrower terminal wraps the lines once more."""


class Styled(NamedTuple):
    """A text with its rich style; a pipe shows only the text."""

    text: str
    style: str = ""


Cell = str | Styled
"""A cell of a table."""


class RecordedTable(NamedTuple):
    """A table that a view printed."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Styled]]
    right: bool


RecordedLine = tuple[Styled, ...]
"""A line that a view printed, in parts."""


class StandardOutput(Protocol):
    """The kind of standard output, on which the form of a line depends."""

    @property
    def width(self) -> int:
        """The characters that fit into a line; a pipe or a page has room for all."""

    def line(self, parts: Sequence[Styled]) -> None:
        """Print one line of texts, each in its style if there are styles."""

    def labelled(self, label: Styled, text: str) -> None:
        """Print a label and a text after it; a narrow terminal breaks them between words."""


class Recorder(io.StringIO):
    """A standard output that keeps lines and tables with their styles, so that HTML can be made of them."""

    width = sys.maxsize

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[RecordedLine | RecordedTable] = []

    def line(self, parts: Sequence[Styled]) -> None:
        self.recorded.append(tuple(parts))

    def labelled(self, label: Styled, text: str) -> None:
        self.line([label, Styled(text)])


class _Pipe:
    """Plain text in lines of any length."""

    @property
    def width(self) -> int:
        return sys.maxsize

    def line(self, parts: Sequence[Styled]) -> None:
        line = "".join(part.text for part in parts).rstrip()
        # A file's name at the beginning of a line must not run as a command of a CI system.
        print(_CI_COMMAND_AT_START.sub(r"\1\\x3a:", printable(line)))

    def labelled(self, label: Styled, text: str) -> None:
        self.line([label, Styled(text)])


class _Screen(_Pipe):
    """A terminal with styles, whose lines are as long as it is wide."""

    @property
    def width(self) -> int:
        return console().width

    def line(self, parts: Sequence[Styled]) -> None:
        if not any(part.style for part in parts):
            super().line(parts)
            return
        from rich.text import Text

        pieces = [(printable(part.text), part.style) for part in parts]
        console().print(Text.assemble(*pieces), soft_wrap=True)

    def labelled(self, label: Styled, text: str) -> None:
        """Print a label and a text, with further lines indented like the first."""
        from rich.text import Text

        line = label.text + text
        indent = " " * (len(line) - len(line.lstrip()))
        shown = Text("\n".join(wrapped(line, indent)))
        if text:
            shown.stylize(label.style, 0, len(label.text))
        else:  # A label without a text may be wrapped, which adds characters: all of it is styled.
            shown.stylize(label.style)
        console().print(shown, soft_wrap=True)


def output() -> StandardOutput:
    """Return standard output by its kind."""
    if isinstance(sys.stdout, Recorder):
        return sys.stdout
    return _Screen() if is_terminal() else _Pipe()


def is_terminal() -> bool:
    """Return True if standard output is a terminal that understands colours and cursor movement."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def console() -> Console:
    """Return rich's console on standard output; rich itself honours NO_COLOR."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def printable(text: str, stream: TextIO | None = None) -> str:
    """Escape what a terminal or a CI system would act on, and what a stream cannot encode.

    >>> printable("a\x1b[2J")
    'a\\\\x1b[2J'
    """
    shown = _CI_COMMAND.sub(lambda match: "\\x23" + match[0][1:], escaped(text))
    encoding = (stream or sys.stdout).encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def escaped(text: str) -> str:
    """Escape the characters that cannot be seen, as Python's `repr` does.

    >>> escaped("a\x07b")
    'a\\\\x07b'
    """
    if text.isprintable():  # Nearly every text is, and looking at it as a whole is fast.
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    """Return a character, or its escape sequence if it cannot be seen."""
    if character.isprintable():
        return character
    # "surrogatepass" keeps the halves of undecodable file names, which UTF-8 cannot hold.
    return character.encode("unicode_escape", "surrogatepass").decode()


def print_line(text: str = "") -> None:
    """Print a line without a style."""
    print_styled(Styled(text))


def print_styled(*parts: Styled) -> None:
    """Print one line of texts, each in its style on a terminal.

    A report records the line instead of printing it, and shows it as HTML.
    """
    output().line(parts)


def print_heading(text: str, style: str = "bold cyan") -> None:
    """Print a heading, after an empty line."""
    print_line()
    print_labelled(text, style)


def print_wrapped(text: str) -> None:
    """Print a line; a terminal that is too narrow breaks it between words."""
    print_labelled("", "", text)


def print_labelled(label: str, style: str, text: str = "") -> None:
    """Print a label in a style and a text after it; a narrow terminal breaks them between words."""
    output().labelled(Styled(label, style), text)


def wrapped(text: str, indent: str) -> list[str]:
    """Break a text into lines as wide as the terminal, all but the first indented by two more columns.

    Lines are broken only at spaces, so that options, paths and numbers stay in one piece.
    """
    import textwrap

    return textwrap.wrap(
        printable(text.strip()),
        max(MIN_WRAP_WIDTH, console().width),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_json(value: object) -> None:
    """Print a value as one line of JSON in ASCII, which every encoding can hold; NaN and infinity are null."""
    import json

    from pecli.checks import plain

    text = json.dumps(plain(value), allow_nan=False)
    # Only a string can hold the marks of a CI command, and in a string they can be escaped.
    print(_CI_COMMAND.sub(lambda match: "\\u0023" + match[0][1:], text))


def print_written(path: str, before_size: str = "", after_size: str = "") -> None:
    """Print a file's name and size, with texts around the size; print nothing if it is a stream.

    A stream may be standard output, where the line would end up inside the data.
    """
    from pecli.files.output import is_stream

    if is_stream(path):
        return
    print_wrapped(f"{path}: {before_size}{size(_bytes_at(path))}{after_size}")


def _bytes_at(path: str) -> int:
    """Return the size of a file, or of all files in a folder (a .zarr store)."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            total += os.path.getsize(os.path.join(folder, name))
    return total


def size(count: int) -> str:
    """Format a number of bytes.

    >>> size(1023), size(10235), size(128 << 10)
    ('1023 bytes', '10.0 KiB', '128 KiB')
    """
    if count < 1024:
        return f"{count} bytes"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB")
    # 2**10 ≤ count < 2**20 is in KiB: such counts have 11 to 20 bits.
    power = min((count.bit_length() - 1) // 10, len(units))
    value = count / 1024**power
    digits = 1 if value < 10 else 0
    return f"{value:.{digits}f} {units[power - 1]}"


def shape(dimensions: Sequence[int]) -> str:
    """Format a tensor's shape.

    >>> shape((512, 64)), shape(())
    ('512 × 64', 'scalar')
    """
    return " × ".join(map(str, dimensions)) or "scalar"


MIN_PICTURE_COLUMNS = 24
MIN_PICTURE_LINES = 10
"""The smallest picture that can still be read; a smaller terminal wraps it."""


_COLOUR_COUNTS = {"truecolor": 2**24, "256": 256}
"""The colours of rich's systems that have enough for a scale; the others have 16 or 8."""


class Terminal(NamedTuple):
    """The place that a picture is drawn in."""

    columns: int = 80
    lines: int = 24
    colours: int = 0  #: 2**24 or 256; 0 draws with characters only
    unicode: bool = True


def terminal() -> Terminal:
    """Describe standard output; a pipe is 80 × 24 without colours, so that files are the same everywhere."""
    encoding = re.sub("[-_]", "", sys.stdout.encoding or "").lower()  # "UTF-8", "utf8", "utf_8"
    unicode = encoding == "utf8"
    if not sys.stdout.isatty():
        return Terminal(unicode=unicode)
    output = console()
    return Terminal(
        columns=max(output.width, MIN_PICTURE_COLUMNS),
        lines=max(output.height, MIN_PICTURE_LINES),
        colours=_colour_count(output),
        unicode=unicode,
    )


def _colour_count(output: Console) -> int:
    """Return how many colours a console shows; 0 if they are unwanted or fewer than 256."""
    if output.no_color:
        return 0
    return _COLOUR_COUNTS.get(output.color_system or "", 0)
