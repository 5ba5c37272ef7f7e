"""What people see: sizes, shapes, previews, tables and wrapped lines, in terminals and pipes."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

import pecli
from pecli.checks.audit import audit
from pecli.views import drift, encodings, file_summary, preview, screen


@pytest.mark.parametrize("rows", [1, 6, 7, 8, 500])
def test_a_corner_holds_the_first_and_last_rows(rows: int) -> None:
    scheme = pecli.Sinusoidal(rows, 4)
    _, shown = preview.corner(scheme.tensors()[0])
    labels = [label for label, _ in shown]
    assert (labels[0], labels[-1], "" in labels) == ("0", str(rows - 1), rows > 7)
    table = scheme.tables()["pe"]
    for label, values in shown:
        assert values == (table[int(label)].tolist() if label else [None] * 4)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scheme", [pecli.Sinusoidal, pecli.Rope, pecli.Alibi, pecli.LearnedInit])
def test_a_terminal_of_80_columns_is_enough(terminal, scheme, dtype) -> None:
    shown = terminal()
    preview.show(scheme(64, 512, dtype=dtype))
    lines = shown.plain()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 80
    assert all(line.count("…") <= 1 for line in lines if line.strip()[:1].isdigit()), (
        "a number was cut"
    )


@pytest.mark.parametrize("width", [30, 40, 60, 79])
def test_a_narrow_terminal_shows_some_columns_at_a_time_and_cuts_no_number(
    terminal, width: int
) -> None:
    shown = terminal(width)
    preview.show(pecli.Sinusoidal(200, 64))
    assert max(map(len, shown.plain())) <= width
    lines = [line.split() for line in shown.plain()]
    first, last = ([line for line in lines if line[:1] == [row]] for row in ("1", "199"))
    assert (first[0][1], last[0][1]) == (f"{math.sin(1):.4f}", f"{math.sin(199):.4f}")
    assert last[-1][-1] == f"{math.cos(199 / 10000 ** (62 / 64)):.4f}"


def test_styles_are_for_terminals(capsys, terminal) -> None:
    screen.say_styled(("FAILED", "bold red"), ("  a\x1b[2J", ""))
    assert capsys.readouterr().out == "FAILED  a\\x1b[2J\n"
    shown = terminal()
    screen.say_styled(("FAILED", "bold red"), ("  a\x1b[2J" * 30, ""))
    assert re.fullmatch(r"\x1b\[1;31mFAILED\x1b\[0m(  a\\x1b\[2J){30}\n", shown.getvalue())
    shown = terminal(30)
    screen.say_labelled("warning", "bold yellow", "  the limits of this scaling are rounded")
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
        lambda: drift.show_audit({"": audit(pecli.Rope(4096, 64), RECIPES, 0.001)}, details=True),
    ),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_terminal_has_the_same_whole_words(terminal, name: str) -> None:
    columns, show = NARROW[name]
    shown = []
    for width in (400, columns):
        stream = terminal(width)
        show()
        shown.append(stream.plain())
    assert {*" ".join(shown[0]).split()} == {*" ".join(shown[1]).split()}
    assert len(shown[0]) > 5
    assert max(map(len, shown[1])) <= columns


WORDS = "an element 0.42169650342858223 at [107, 5] where (64), (positions, 64) or (positions, 128) is expected"


def test_a_narrow_terminal_breaks_lines_between_words_and_a_pipe_none(terminal, capsys) -> None:
    screen.say_wrapped(f"  {WORDS}" * 3)
    assert capsys.readouterr().out == f"  {WORDS}" * 3 + "\n"
    for columns in (80, 50, 30):
        shown = terminal(columns)
        screen.say_wrapped(f"  {WORDS}")
        lines = shown.plain()
        assert " ".join(line.strip() for line in lines) == WORDS
        assert max(map(len, lines)) <= columns
        assert all(line.startswith("    ") for line in lines[1:])


def test_tables_that_are_too_wide_have_lines_below_for_text_and_columns_below_for_numbers(
    terminal,
) -> None:
    shown = terminal(60)
    name = "model.language_model.layers.31.self_attn.rotary_embedding"
    screen.say_table(
        ["name", "dtype", "shape"], [[name, "float32", "4096 × 64"], ["b", "float64", "8"]]
    )
    assert [line.strip() for line in shown.plain()[:4]] == [
        "name",
        "dtype  shape",
        name,
        "float32  4096 × 64",
    ]
    shown = terminal(60)
    screen.say_table(["a", "b"], [["x" * 50, "y" * 8], ["x" * 50, "y" * 9]])
    assert [len(line) for line in shown.plain()[1:]] == [
        60,
        50,
        11,
    ]  # all of 60 columns, and one more
    values = np.pi * np.arange(40.0).reshape(2, 20)
    shown = terminal()
    file_summary._show_numbers(
        "x", {"rows": [3, 4], "columns": [*range(20)], "values": values.tolist()}
    )
    lines = [line.split() for line in shown.plain()[2:]]
    assert [word for line in lines[0::3] for word in line] == [str(k) for k in range(20)]
    for row, start in enumerate((1, 2)):
        assert {line[0] for line in lines[start::3]} == {str(3 + row)}
        assert [word for line in lines[start::3] for word in line[1:]] == [
            f"{value:.7g}" for value in values[row]
        ]


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
def test_elements_are_cut_as_numpy_cuts(rows: str) -> None:
    def cut(text: str) -> slice:
        parts = [int(part) if part else None for part in text.split(":")]
        return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)

    array = np.arange(35.0).reshape(7, 5)
    for columns in ("0", "1:3", "-2:", ":"):
        assert (
            file_summary.numbers(array, rows, columns)["values"]
            == array[cut(rows), cut(columns)].tolist()
        )


def test_a_dumb_terminal_sees_no_progress(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for term, option, least in (("xterm", "", -1), *(("xterm", each, -1) for each in ("quiet", "no_progress")),
                                ("dumb", "", -1), ("xterm", "", 99)):  # fmt: skip
        monkeypatch.setattr(screen, "MIN_SECONDS", least)
        monkeypatch.setenv("TERM", term)
        with screen.counting(
            "work", 3, {"quiet": False, "no_progress": False, option: True}
        ) as advance:
            advance(1)
            advance(1)
        assert ("67%" in capsys.readouterr().err) == ((term, option, least) == ("xterm", "", -1))
