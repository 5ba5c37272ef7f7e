"""What people see: sizes, shapes, previews."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import pecli
from pecli import views
from pecli.checks.audit import audit
from pecli.views import drift, encodings, file_summary, preview, screen


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_sizes() -> None:
    sizes = {0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 10_240: "10 KiB", 2**52: "4.0 PiB"}
    assert {count: screen.size(count) for count in sizes} == sizes
    assert screen.shape(()) == "scalar"


@pytest.mark.parametrize("rows", [1, 6, 7, 8, 500])
def test_a_corner_holds_the_first_and_last_rows(rows: int) -> None:
    scheme = pecli.Sinusoidal(rows, 4)
    _, shown = preview.corner(scheme.tensors()[0])
    labels = [row[0] for row in shown if row]
    assert labels[0] == "0"
    assert labels[-1] == str(rows - 1)
    assert (None in shown) == (rows > 7)
    table = scheme.tables()["pe"]
    for row in filter(None, shown):
        assert row[1] == table[int(row[0])].tolist()


def test_rows_of_higher_tensors_are_named_by_all_indices() -> None:
    _, rows = preview.corner(pecli.Alibi(2, 3).tensors()[0])
    assert [row[0] for row in rows if row] == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


def test_a_very_long_table_is_previewed_at_once() -> None:
    _, rows = preview.corner(pecli.Rope(2**40, 4).tensors()[0])
    assert rows[-1] is not None
    assert rows[-1][0] == str(2**40 - 1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scheme", [pecli.Sinusoidal, pecli.Rope, pecli.Alibi, pecli.LearnedInit])
def test_a_terminal_of_80_columns_is_enough(terminal, monkeypatch, scheme, dtype) -> None:
    shown = terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    preview.show(scheme(64, 512, dtype=dtype))
    lines = without_colours(shown.getvalue()).splitlines()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 80
    numbers = [line for line in lines if line.strip()[:1].isdigit()]
    assert all(line.count("…") <= 1 for line in numbers), "a number was cut"


def test_styles_are_for_terminals(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    screen.say_styled(("FAILED", "bold red"), ("  a\x1b[2J", ""))
    assert capsys.readouterr().out == "FAILED  a\\x1b[2J\n"
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen.say_styled(("FAILED", "bold red"), ("  a\x1b[2J" * 30, ""))
    assert re.fullmatch(r"\x1b\[1;31mFAILED\x1b\[0m(  a\\x1b\[2J){30}\n", capsys.readouterr().out)


@pytest.mark.parametrize("width", [30, 40, 60, 79])
def test_a_narrow_terminal_shows_fewer_columns_and_cuts_no_number(terminal, monkeypatch, width: int) -> None:
    shown = terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    preview.show(pecli.Sinusoidal(200, 64))
    lines = [without_colours(line).split() for line in shown.getvalue().splitlines()]
    lines = lines[next(k for k, line in enumerate(lines) if line[:1] == ["pe"]) :]
    first, second = (next(line for line in lines if line[:1] == [row]) for row in ("1", "2"))
    heads = lines[next(k for k, line in enumerate(lines) if line[:1] == ["0"] and line[-1] == "63")]
    assert len(heads) == len(first) - 1 == len(second) - 1 >= 3
    assert (first[1], first[-1], second[1]) == (f"{math.sin(1):.4f}", "1.0000", f"{math.sin(2):.4f}")


def test_an_audit_in_a_narrow_terminal_has_all_its_digits(terminal, monkeypatch) -> None:
    rope, recipes = pecli.Rope(4096, 64), ("float32", "bfloat16-positions")
    found = audit(rope, recipes, 0.001)
    monkeypatch.setenv("COLUMNS", "300")
    wide = terminal()
    drift.show_audit({"": found})
    monkeypatch.setenv("COLUMNS", "40")
    narrow = terminal()
    drift.show_audit({"": found})
    numbers = [re.findall(r"\d+\.\d+(?:e-\d+)?", without_colours(each.getvalue())) for each in (wide, narrow)]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) > 20


def test_a_model_in_a_narrow_terminal_is_not_written_downwards(terminal, monkeypatch) -> None:
    shown = terminal()
    monkeypatch.setenv("COLUMNS", "40")
    encodings.show(pecli.load_model("deepseek-v3"), None)
    assert "  factor\n    40  rope_scaling.factor\n" in shown.getvalue()


PRESETS = ("llama-3.1-8b", "deepseek-v3", "gemma-3-12b", "phi-3-mini-128k-2024-04", "qwen3-vl-2b")


@pytest.mark.parametrize("names", [*((name,) for name in PRESETS), PRESETS[:3]], ids=" ".join)
def test_models_in_80_columns_have_whole_words(terminal, monkeypatch, names: tuple[str, ...]) -> None:
    models = [pecli.load_model(name) for name in names]
    shown = []
    for columns in ("400", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        stream = terminal()
        encodings.show(models[0], None) if len(models) == 1 else encodings.show_differences(models, None)
        shown.append(without_colours(stream.getvalue()))
    assert shown[0].split() == shown[1].split()
    assert max(map(len, shown[1].splitlines())) <= 80


def test_elements_that_have_no_room_beside_each_other_are_below(terminal, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    values = np.pi * np.arange(40.0).reshape(2, 20)
    shown = terminal()
    file_summary._show_numbers("x", {"rows": [3, 4], "columns": [*range(20)], "values": values.tolist()})
    lines = [line.split() for line in without_colours(shown.getvalue()).splitlines()[2:]]
    assert [word for line in lines[0::3] for word in line] == [str(k) for k in range(20)]
    for row, start in enumerate((1, 2)):
        assert {line[0] for line in lines[start::3]} == {str(3 + row)}
        assert [word for line in lines[start::3] for word in line[1:]] == [f"{value:.7g}" for value in values[row]]


def test_a_label_keeps_its_style_and_its_text_is_wrapped(terminal, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = terminal()
    screen.say_labelled("warning", "bold yellow", "  the limits of this scaling are rounded")
    assert shown.getvalue() == "\x1b[1;33mwarning\x1b[0m  the limits of this\n  scaling are rounded\n"


WORDS = "an element 0.42169650342858223 at [107, 5] where (64), (positions, 64) or (positions, 128) is expected"


def test_a_narrow_terminal_breaks_lines_between_words(terminal, monkeypatch) -> None:
    shown = terminal()
    for columns in ("80", "50", "30"):
        monkeypatch.setenv("COLUMNS", columns)
        shown.truncate(0)
        screen.say_wrapped(f"  {WORDS}")
        lines = shown.getvalue().strip("\0").splitlines()
        assert " ".join(line.strip() for line in lines) == WORDS
        assert max(map(len, lines)) <= int(columns)
        assert all(line.startswith("    ") for line in lines[1:])


def test_a_pipe_has_lines_as_long_as_they_are(capsys) -> None:
    screen.say_wrapped(f"  {WORDS}" * 3)
    assert capsys.readouterr().out == f"  {WORDS}" * 3 + "\n"


def test_columns_that_do_not_fit_have_the_first_one_on_lines_of_its_own(terminal, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = terminal()
    name = "model.language_model.layers.31.self_attn.rotary_embedding.inverse_frequencies"
    screen.say_table(["name", "dtype", "shape"], [[name, "float32", "4096 × 64"], ["b", "float64", "8"]])
    lines = [without_colours(line) for line in shown.getvalue().splitlines()]
    assert [" ".join(line.split()) for line in lines] == [
        "name",
        "dtype shape",
        name,
        "float32 4096 × 64",
        "b",
        "float64 8",
    ]


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
def test_elements_are_cut_as_numpy_cuts(rows: str) -> None:
    def cut(text: str) -> slice:
        parts = [int(part) if part else None for part in text.split(":")]
        return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)

    array = np.arange(35.0).reshape(7, 5)
    for columns in ("0", "1:3", "-2:", ":"):
        assert file_summary.numbers(array, rows, columns)["values"] == array[cut(rows), cut(columns)].tolist()


@pytest.mark.parametrize("text", ["7", "-8", "1:2:3", "a", "", "1e3"])
def test_what_is_no_part_of_seven_rows(text: str) -> None:
    with pytest.raises(pecli.ParameterError, match="rows is"):
        file_summary.numbers(np.zeros((7, 2)), text, ":")


@pytest.mark.parametrize("shape", [(file_summary.MAX_SHOWN, 2), (file_summary.MAX_SHOWN + 1, 0)])
def test_more_than_can_be_shown_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(pecli.ParameterError, match="at most 100,000"):
        file_summary.numbers(np.empty(shape, np.float32), ":", ":")


@pytest.mark.parametrize("colour", [preview.POSITIVE, preview.NEGATIVE])
def test_numbers_are_legible_on_white_and_on_black(colour: str) -> None:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]  # by WCAG 2.1
    assert 1.05 / (luminance + 0.05) > 4
    assert (luminance + 0.05) / 0.05 > 4


@pytest.mark.parametrize("bytes", [True, False])
def test_a_dumb_terminal_sees_no_progress(bytes, monkeypatch, capsys) -> None:
    monkeypatch.setattr(views, "MIN_SECONDS", -1.0)
    seen = {}
    for term in ("xterm-256color", "dumb"):
        monkeypatch.setenv("TERM", term)
        bar = views.Progress("work", 2, bytes=bytes)
        bar.advance(1)
        bar.close()
        seen[term] = capsys.readouterr().err
    assert seen["xterm-256color"]
    assert seen["dumb"] == ""
