"""Where output goes: a terminal in colour, or a pipe in plain text that nothing cuts."""

from __future__ import annotations

import codecs
import math
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console


_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""What GitHub Actions and Azure Pipelines take for a command, wherever it is in a line."""
MIN_LAST = 16
"""Characters that a last column needs, so that its cells are wrapped in it."""
MAX_GROUP = 24
"""Letters that stay in one line between gaps of several spaces."""
_LEADING = re.compile(r"^(\s*)::")
"""What GitHub Actions take for one at the beginning of a line, spaces aside."""


def is_terminal() -> bool:
    """Whether standard output is a terminal that can do more than print."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def console() -> Console:
    """rich's console on standard output; NO_COLOR is its business."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def printable(text: str, stream: TextIO | None = None) -> str:
    """A text with everything escaped that a terminal would act on, or that a stream (standard output) cannot show.

    >>> printable("a\x1b[2J")
    'a\\\\x1b[2J'
    """
    shown = _COMMAND.sub(lambda found: "\\x23" + found[0][1:], escaped(text))
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def escaped(text: str) -> str:
    """A text with everything escaped, as Python would write it, that is not there to be seen."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def say(text: str = "") -> None:
    """A line on standard output; a name from a file at its beginning is no command to a CI system, as `::error` is."""
    shown = printable(text)
    print(_LEADING.sub(r"\1\\x3a:", shown))


def say_wrapped(text: str) -> None:
    """A line on standard output; on a terminal that is too narrow, several, broken between words."""
    indent = text[: len(text) - len(text.lstrip())]
    for line in _wrapped(text, indent) if is_terminal() else [text]:
        say(line)


def say_labelled(label: str, style: str, text: str = "") -> None:
    """A word with a style, and a text after it; broken between words as above."""
    if not is_terminal():
        say(label + text)
        return
    first, *rest = _wrapped(label + text, label[: len(label) - len(label.lstrip())])
    if text and first.startswith(label):
        say_styled((label, style), (first.removeprefix(label), ""))
    else:
        say_styled((first, style))
    for line in rest:
        say_styled((line, "" if text else style))


def _wrapped(text: str, indent: str) -> list[str]:
    """Lines broken between words; what is short and stands between wider gaps stays in one line, as «99% 0.5» does."""
    parts = re.split("( {2,})", printable(text.strip()))
    kept = [part.replace(" ", "\xa0") if part.strip() and len(part) <= MAX_GROUP else part for part in parts]
    return filled("".join(kept) if len(parts) > 1 else parts[0], indent, f"{indent}  ")


def filled(text: str, indent: str, next_indent: str) -> list[str]:
    """Lines as wide as the terminal, broken at spaces alone."""
    import textwrap

    width = max(20, console().width)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=next_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]


def say_styled(*parts: tuple[str, str]) -> None:
    """A line of texts, each with its style, which shows on a terminal."""
    if not is_terminal():
        say("".join(text for text, _ in parts))
        return
    from rich.text import Text

    console().print(Text.assemble(*((printable(text), style) for text, style in parts)), soft_wrap=True)


Cell = str | tuple[str, str]
"""A text, or a text with its style on a terminal."""


def say_table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, indent: str = "", right: bool = False) -> None:
    """Columns of text under their heads, nothing cut; `right` aligns all but the first column for numbers.

    Where a terminal is too narrow, the last cell takes several lines, or the first cell has a line of its own.
    """
    lines = [[(head, "dim") for head in heads], *([_styled(cell) for cell in row] for row in rows)]
    if not any(heads):
        lines = lines[1:]
    widths = [max(len(line[k][0]) for line in lines) for k in range(len(heads))]
    room = console().width if is_terminal() else sys.maxsize
    before = len(indent) + sum(widths[:-1]) + 2 * (len(widths) - 1)
    for line in lines:
        sides = [str.rjust if right and k else str.ljust for k in range(len(line))]
        padded = [(side(text, width), style) for side, (text, style), width in zip(sides, line, widths, strict=True)]
        if before + len(line[-1][0] if not right else padded[-1][0]) <= room:
            parts = [part for text, style in padded for part in (("  ", ""), (text, style))][1:]
            while parts[1:] and not parts[-1][0].strip():
                parts.pop()
            parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
            say_styled((indent, ""), *parts)
        elif not right and room - before >= max([MIN_LAST, *map(len, line[-1][0].split())]):
            first, *others = filled(line[-1][0], " " * before, " " * before)
            parts = [part for text, style in padded[:-1] for part in ((text, style), ("  ", ""))]
            say_styled((indent, ""), *parts, (first.strip(), line[-1][1]))
            for other in others:
                say_styled((other, line[-1][1]))
        else:
            say_styled((indent + line[0][0], line[0][1]))
            for part in filled(
                "  ".join(text for text, _ in (padded if right else line)[1:]), f"{indent}  ", f"{indent}    "
            ):
                say_styled((part, line[-1][1]))


def _styled(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return printable(text), style


def aligned(lines: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Lines of cells, each column as wide as its longest cell.

    >>> aligned([["a", "b"], ["10", "2"]], right=True)
    [' a  b', '10  2']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    side = str.rjust if right else str.ljust
    return ["  ".join(map(side, line, widths)).rstrip() for line in lines]


def say_json(value: Any) -> None:
    """A line of JSON on standard output, in ASCII, which passes everywhere; null for what is not finite."""
    import json

    text = json.dumps(finite(value), allow_nan=False)
    print(_COMMAND.sub(lambda found: "\\u0023" + found[0][1:], text))  # which only a string can hold


def finite(value: Any) -> Any:
    """JSON data with null for what is not finite.

    >>> finite({"largest": [1.0, float("inf")]})
    {'largest': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say_written(path: str, about: str = "", after: str = "") -> None:
    """A line about a file that was written, with its size; none about a stream."""
    from pecli.files.output import is_stream

    if not is_stream(path):
        inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]  # of a store
        say_wrapped(f"{path}: {about}{size(sum(map(os.path.getsize, inside or [path])))}{after}")


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(131200)
    '128 KiB'
    """
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"


def shape(dimensions: tuple[int, ...]) -> str:
    """A tensor's shape for people.

    >>> shape((512, 64))
    '512 × 64'
    """
    return " × ".join(map(str, dimensions)) or "scalar"


def counted(count: int, noun: str) -> str:
    """A number of things for people.

    >>> counted(1, "tensor"), counted(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


MIN_SIZE = (24, 10)
"""Columns and lines below which a picture is no picture; a smaller terminal wraps it."""


class Terminal(NamedTuple):
    """Where a picture is drawn."""

    columns: int = 80
    lines: int = 24
    colours: int = 0
    """2**24, 256, or 0 where nothing but characters is wanted."""
    unicode: bool = True

    @property
    def dots(self) -> str:
        """The mark for a part of a text that is left out."""
        return "…" if self.unicode else "..."


def terminal() -> Terminal:
    """Standard output as it is now. A pipe is a terminal of 80 × 24 without colours, so that files are the same."""
    try:
        unicode = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    except LookupError:
        unicode = False
    if not sys.stdout.isatty():
        return Terminal(unicode=unicode)
    columns, lines = _size()
    return Terminal(max(columns, MIN_SIZE[0]), max(lines, MIN_SIZE[1]), _colours(), unicode)


def _size() -> tuple[int, int]:
    """COLUMNS and LINES where they are set, else what the terminal says, else 80 × 24."""
    try:
        said = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        said = os.terminal_size((0, 0))
    return _from_environment("COLUMNS") or said.columns or 80, _from_environment("LINES") or said.lines or 24


def _from_environment(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0


def _colours() -> int:
    kind = os.environ.get("TERM", "")
    if os.environ.get("NO_COLOR") or kind in ("", "dumb"):
        return 0
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or kind.endswith("-direct"):
        return 1 << 24
    return 256 if "256color" in kind else 0
