"""Where output goes: a terminal in colour, or a pipe in plain text that nothing cuts."""

import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from pecli.engine.table import Table

_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""What GitHub Actions and Azure Pipelines take for a command, wherever it is in a line."""
_LEADING = re.compile(
    r"^(\s*)::"
)  #: What GitHub Actions take for one at the beginning of a line, spaces aside
MIN_SECONDS = 1.0  #: Before a bar of progress appears


def is_terminal() -> bool:
    """Whether standard output is a terminal that can do more than print."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def console() -> "Console":
    """rich's console on standard output; NO_COLOR is its business."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def printable(text: str, stream: TextIO | None = None) -> str:
    """A text with everything escaped that a terminal would act on, or that a stream (standard output) cannot show.

    >>> printable("a\x1b[2J")
    'a\\\\x1b[2J'
    """
    shown = _COMMAND.sub(lambda match: "\\x23" + match[0][1:], escaped(text))
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def escaped(text: str) -> str:
    """A text with everything escaped, as Python would write it, that is not there to be seen."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


Cell = str | tuple[str, str]  #: A text, or a text with its style on a terminal


class Rows(NamedTuple):
    """A table as it was said."""

    heads: Sequence[str]
    rows: Sequence[Sequence[tuple[str, str]]]
    right: bool


class Recorder(io.StringIO):
    """A standard output that keeps lines and tables with their styles, for another medium than text."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[tuple[str, str], ...] | Rows] = []


def say(text: str = "") -> None:
    """A line of plain text."""
    say_styled((text, ""))


def say_styled(*parts: tuple[str, str]) -> None:
    """A line of texts, each with its style on a terminal. A name at its beginning is no command to a CI system."""
    if isinstance(sys.stdout, Recorder):
        sys.stdout.said.append(parts)
    elif is_terminal() and any(style for _, style in parts):
        from rich.text import Text

        console().print(
            Text.assemble(*((printable(text), style) for text, style in parts)), soft_wrap=True
        )
    else:
        print(_LEADING.sub(r"\1\\x3a:", printable("".join(text for text, _ in parts).rstrip())))


def say_heading(text: str, style: str = "bold cyan") -> None:
    """A line above others, apart from those before it."""
    say()
    say_labelled(text, style)


def say_wrapped(text: str) -> None:
    """A line on standard output; on a terminal that is too narrow, several, broken between words."""
    say_labelled("", "", text)


def say_labelled(label: str, style: str, text: str = "") -> None:
    """A word with a style, and a text after it; broken between words as above."""
    if not is_terminal():
        say_styled((label, style), (text, ""))
        return
    indent = " " * (len(label + text) - len((label + text).lstrip()))
    from rich.text import Text

    shown = Text("\n".join(_filled(label + text, indent)))
    shown.stylize(style, 0, len(label) if text else None)
    console().print(shown, soft_wrap=True)


def _filled(text: str, indent: str) -> list[str]:
    """Lines as wide as the terminal, broken at spaces alone, all but the first indented further."""
    import textwrap

    how: dict[str, Any] = {
        "break_long_words": False,
        "break_on_hyphens": False,
        "subsequent_indent": f"{indent}  ",
    }
    return textwrap.wrap(
        printable(text.strip()), max(20, console().width), initial_indent=indent, **how
    )


def say_table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, indent: str = "", right: bool = False
) -> None:
    """Columns of text under their heads, nothing cut; `right` is for numbers, in all but the first column. On a narrow
    terminal, as many columns of numbers are shown at a time as fit; of text, all but the first cell are below it."""
    styled = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    if isinstance(sys.stdout, Recorder):
        sys.stdout.said.append(Rows(heads, styled, right))
        return
    styled = [[(head, "dim") for head in heads], *styled] if any(heads) else styled
    lines = [[(printable(text), style) for text, style in line] for line in styled]
    widths = [max(len(line[k][0]) for line in lines) for k in range(len(heads))] if lines else []
    room = console().width - len(indent) if is_terminal() else sys.maxsize
    if right and len(heads) > 2 and sum(widths) + 2 * len(widths[1:]) > room:
        step = max(1, (room - widths[0]) // (max(widths[1:]) + 2))
        for part in (slice(start, start + step) for start in range(1, len(heads), step)):
            say_table(
                [heads[0], *heads[part]],
                [[row[0], *row[part]] for row in rows],
                indent=indent,
                right=True,
            )
        return
    for line in lines:
        parts = [(indent, "")]
        for k, ((text, style), width) in enumerate(zip(line, widths, strict=True)):
            last = k == len(line) - 1
            padded = text.rjust(width) if right and k else text if last else text.ljust(width)
            parts += [(padded, style), ("" if last else "  ", "")]
        if sum(len(text) for text, _ in parts) - len(indent) <= room:
            say_styled(*parts)
            continue
        if line[0][0]:
            say_styled((indent, ""), line[0])
        for text in _filled("  ".join(text for text, _ in line[1:]), f"{indent}  "):
            say_styled((text, line[-1][1]))


def say_json(value: Any) -> None:
    """A line of JSON on standard output, in ASCII, which passes everywhere; null for what is not finite."""
    import json

    from pecli.checks import plain

    text = json.dumps(plain(value), allow_nan=False)
    print(
        _COMMAND.sub(lambda match: "\\u0023" + match[0][1:], text)
    )  # which only a string can hold


def say_written(path: str, about: str = "", after: str = "") -> None:
    """A line about a file that was written, with its size; none about a stream."""
    from pecli.files.output import is_stream

    if not is_stream(path):
        inside = [
            os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
        ]  # of a store
        say_wrapped(f"{path}: {about}{size(sum(map(os.path.getsize, inside or [path])))}{after}")


def size(count: int) -> str:
    """A number of bytes for people, such as 128 KiB."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"


def shape(dimensions: tuple[int, ...]) -> str:
    """A tensor's shape for people, such as 512 × 64."""
    return " × ".join(map(str, dimensions)) or "scalar"


@contextmanager
def counting(label: str, total: int, values: Mapping[str, Any]) -> Iterator[Callable[[int], None]]:
    """A function that counts what is done; after MIN_SECONDS it draws a bar, where that can be erased."""
    unwanted = values["quiet"] or values["no_progress"] or os.environ.get("TERM", "") == "dumb"
    if unwanted or not sys.stderr.isatty():
        yield lambda count: None
        return
    start, done, bar = time.monotonic(), 0, None
    with ExitStack() as drawn:

        def advance(count: int) -> None:
            nonlocal done, bar
            done += count
            if bar is None and time.monotonic() - start > MIN_SECONDS:
                from rich.console import Console
                from rich.progress import Progress

                bar = drawn.enter_context(Progress(console=Console(stderr=True), transient=True))
                bar.add_task(label, total=total)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)

        yield advance


def described(label: str, tables: "Sequence[Table]", values: Mapping[str, Any]) -> dict[str, Any]:
    """What --json says of tables, by their names; `values` are the command's options."""
    from pecli.checks import statistics

    with counting(label, sum(table.nbytes for table in tables), values) as advance:
        return {table.name: statistics.described(table, advance) for table in tables}


MIN_SIZE = (
    24,
    10,
)  #: Columns and lines below which a picture is no picture; a smaller terminal wraps it


class Terminal(NamedTuple):
    """Where a picture is drawn."""

    columns: int = 80
    lines: int = 24
    colours: int = 0  #: 2**24, 256, or 0 where nothing but characters is wanted
    unicode: bool = True


def terminal() -> Terminal:
    """Standard output as it is now. A pipe is a terminal of 80 × 24 without colours, so that files are the same."""
    unicode = re.sub("[-_]", "", sys.stdout.encoding or "").lower() == "utf8"
    if not sys.stdout.isatty():
        return Terminal(unicode=unicode)
    screen = console()
    colours = {"truecolor": 1 << 24, "256": 256}.get(screen.color_system or "", 0)
    columns, lines = max(screen.width, MIN_SIZE[0]), max(screen.height, MIN_SIZE[1])
    return Terminal(columns, lines, 0 if screen.no_color else colours, unicode)
