"""Lines of text on terminals and in pipes: wrapping, escaping, and sizes and shapes in words.

Expected texts are written by hand.
"""

import io
import re
from collections.abc import Callable

import pytest

import pecli
from pecli.checks.audit import audit
from pecli.views import drift, encodings, screen
from pecli.views.screen import Styled


def test_a_pipe_gets_no_styles_and_escape_sequences_of_a_text_are_escaped(capsys) -> None:
    """ESC [2J in a text, such as the name of a tensor, would clear the screen of whoever
    prints it.
    """
    screen.print_styled(Styled("FAILED", "bold red"), Styled("  a\x1b[2J"))
    assert capsys.readouterr().out == "FAILED  a\\x1b[2J\n"


def test_a_terminal_gets_styles_and_escape_sequences_of_a_text_are_escaped(
    turn_to_terminal,
) -> None:
    """ESC [1;31m is bold red, and ESC [0m ends it. ESC [2J in the text would clear the screen; a
    line of it that is wider than the terminal is not broken.
    """
    shown = turn_to_terminal()
    screen.print_styled(Styled("FAILED", "bold red"), Styled("  a\x1b[2J" * 30))
    assert re.fullmatch(r"\x1b\[1;31mFAILED\x1b\[0m(  a\\x1b\[2J){30}\n", shown.getvalue())


def test_a_labelled_line_is_broken_at_the_width_of_the_terminal(turn_to_terminal) -> None:
    """The terminal has 30 columns. ESC [1;33m is bold yellow, for the label only; what continues
    below is indented by two spaces.
    """
    shown = turn_to_terminal(columns=30)
    screen.print_labelled("warning", "bold yellow", "  the limits of this scaling are rounded")
    assert (
        shown.getvalue() == "\x1b[1;33mwarning\x1b[0m  the limits of this\n  scaling are rounded\n"
    )


def shown_model(name: str) -> Callable[[], None]:
    return lambda: encodings.show(pecli.load_model(name), None)


PRESETS = ("llama-3.1-8b", "deepseek-v3", "gemma-3-12b", "phi-3-mini-128k-2024-04", "qwen3-vl-2b")
RECIPES = ("float32", "bfloat16-positions")
NARROW: dict[str, tuple[int, Callable[[], None]]] = {
    **{name: (80, shown_model(name)) for name in PRESETS},
    "differences": (
        80,
        lambda: encodings.show_differences([pecli.load_model(name) for name in PRESETS[:3]], None),
    ),
    "audit": (
        60,
        lambda: drift.show_audits({"": audit(pecli.Rope(4096, 64), RECIPES, 0.001)}, details=True),
    ),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_terminal_shows_all_words_of_a_wide_one_and_none_is_broken(
    turn_to_terminal, name: str
) -> None:
    """NARROW has results (models, differences, an audit), each with the width of a narrow terminal
    and the function that prints it. At 400 columns nothing is broken; the set of words is the same.
    """
    columns, show = NARROW[name]
    wide = turn_to_terminal(columns=400)
    show()
    narrow = turn_to_terminal(columns=columns)
    show()

    assert {*" ".join(narrow.plain()).split()} == {*" ".join(wide.plain()).split()}
    assert len(wide.plain()) > 5
    assert max(map(len, narrow.plain())) <= columns


WORDS = "an element 0.42169650342858223 at [107, 5] where (64), (positions, 64) or (positions, 128) is expected"


def test_a_pipe_gets_lines_of_any_length(capsys) -> None:
    """WORDS is a sentence of 102 characters; three of them are one line."""
    screen.print_wrapped(f"  {WORDS}" * 3)
    assert capsys.readouterr().out == f"  {WORDS}" * 3 + "\n"


@pytest.mark.parametrize("columns", [80, 50, 30])
def test_a_terminal_breaks_lines_between_words(turn_to_terminal, columns: int) -> None:
    """WORDS is a sentence of 102 characters. Lines that continue it are indented by four spaces."""
    shown = turn_to_terminal(columns)
    screen.print_wrapped(f"  {WORDS}")
    lines = shown.plain()

    assert " ".join(line.strip() for line in lines) == WORDS
    assert max(map(len, lines)) <= columns
    assert all(line.startswith("    ") for line in lines[1:])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (10 * 1024 - 5, "10.0 KiB"),
        (10 * 1024, "10 KiB"),
        (2**20 - 1, "1024 KiB"),
        (2**20, "1.0 MiB"),
        (2**52, "4.0 PiB"),
        (9 * 2**60, "9216 PiB"),
    ],
)
def test_sizes_are_written_in_binary_units(count: int, text: str) -> None:
    """A KiB has 1024 bytes, a MiB 2^20, a PiB, the largest unit, 2^50. A number has one decimal
    below ten units, and none from ten on.
    """
    assert screen.size(count) == text


@pytest.mark.parametrize(("shape", "text"), [((3,), "3"), ((), "scalar"), ((2, 3), "2 × 3")])
def test_shapes_are_written_with_a_times_sign(shape: tuple[int, ...], text: str) -> None:
    """A tensor without axes is a scalar."""
    assert screen.shape(shape) == text


def test_characters_that_cannot_be_seen_are_escaped() -> None:
    """U+0085 is a control character and U+D800 a lone surrogate, which are written as Python would
    write them in a literal; é can be seen.
    """
    assert screen.escaped("é\x85\ud800") == "é\\x85\\ud800"


def test_commands_of_ci_systems_are_escaped() -> None:
    """Azure and GitHub run «##[…» and «##vso[…» if they read them in a log: one # is replaced by
    its hexadecimal code, 23. «##a» is no command.
    """
    assert screen.printable("a ##[x ##vso[ ##a") == "a \\x23#[x \\x23#vso[ ##a"


def test_a_picture_is_drawn_for_80_by_24_without_colours_by_default() -> None:
    """80 columns and 24 lines are the size of the terminal VT100, which is assumed everywhere."""
    assert screen.Terminal() == screen.Terminal(columns=80, lines=24, colours=0, unicode=True)


def test_a_stream_without_an_encoding_gets_no_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    """io.StringIO has encoding None, so it is not known whether it can show anything but ASCII."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)

    assert stream.encoding is None
    assert not screen.terminal().unicode
