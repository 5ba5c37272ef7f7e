"""The command that draws, and the option of the generators."""

from __future__ import annotations

import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pecli

SMALL = ["sinusoidal", "--seq-len", "64", "--dim", "16"]


def test_a_picture_in_a_pipe_is_plain_text(pecli_cli) -> None:
    shown = pecli_cli("plot", *SMALL)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    lines = shown.out.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert lines[0] == "sinusoidal, dim 16: value by position and channel"


def test_the_option_draws_what_the_command_draws(pecli_cli, tmp_path: Path) -> None:
    drawn = pecli_cli("plot", *SMALL).out
    assert pecli_cli(*SMALL, "--plot").out == drawn
    beside = pecli_cli(*SMALL, "--plot", "-o", tmp_path / "pe.npy")
    assert beside.out.endswith(drawn)
    assert beside.out.startswith(str(tmp_path / "pe.npy"))
    assert (tmp_path / "pe.npy").exists()
    assert pecli_cli(*SMALL, "--plot", "-q").out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["rope", "--seq-len", "64", "--dim", "16"],
        ["alibi", "--heads", "4", "--seq-len", "16"],
        ["alibi", "--heads", "4"],
        ["learned-init", "--max-len", "64", "--dim", "16"],
        ["rope", "--model", "gemma-3-1b", "--seq-len", "16"],
    ],
)
def test_every_generator_draws(pecli_cli, words: list[str]) -> None:
    shown = pecli_cli(*words, "--plot")
    assert (shown.code, shown.err) == (0, "")
    assert len(shown.out.splitlines()) > 8


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_command_writes_the_same_bytes(process, pecli_cli, tmp_path: Path, suffix: str) -> None:
    result = process("plot", *SMALL, "-o", f"a.{suffix}")
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(f"a.{suffix}: 8 × 5 inches, ".encode())
    assert pecli_cli("plot", *SMALL, "-o", tmp_path / f"b.{suffix}").code == 0
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_size_and_dots(pecli_cli, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    assert pecli_cli("plot", *SMALL, "-o", path, "--size", "4x3", "--dpi", "50", "--dark", "-q").out == ""
    assert struct.unpack(">II", path.read_bytes()[16:24]) == (200, 150)


@pytest.mark.parametrize("name", ["\x1b[31m", "a\x00b", "\ufffe", "日本語", "\u202e"], ids=ascii)
@pytest.mark.parametrize("kind", ["heatmap", "curves"])
def test_names_that_no_font_has_break_no_figure(pecli_cli, tmp_path: Path, name: str, kind: str) -> None:
    table = np.arange(12.0).reshape(3, 4)
    pecli.save(tmp_path / "x.safetensors", {name: table, "other": table})
    made = pecli_cli("plot", tmp_path / "x.safetensors", "--kind", kind, "-o", tmp_path / "x.svg", "--title", name[:1])
    assert (made.code, made.err) == (0, "")
    texts = [text for each in ElementTree.parse(tmp_path / "x.svg").iter() for text in each.itertext()]
    shown = name if name.isprintable() else name.encode("unicode_escape").decode()
    assert any(shown in text for text in texts)


def test_a_name_that_is_no_text_is_drawn_all_the_same(pecli_cli, tmp_path: Path) -> None:
    np.save(tmp_path / "\udcff.npy", np.ones((3, 4)))
    for suffix in ("svg", "png", "pdf"):
        made = pecli_cli("plot", tmp_path / "\udcff.npy", "-o", tmp_path / f"x.{suffix}")
        assert (made.code, made.err) == (0, "")


EXTREMES = {
    "the smallest number": np.eye(6, 8) * 5e-324,
    "tiny": np.arange(48.0).reshape(6, 8) * 1e-310,
    "one large number": np.full((6, 8), 1e300),
    "large neighbours": 1e300 * (1 + np.arange(48).reshape(6, 8) % 3 * 2.3e-16),
    "the largest number": np.where(np.eye(6, 8), 1.7976931348623157e308, 0.0),
    "products that are hardly apart": -np.ones((6, 8)),
}


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity"])
@pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)
def test_numbers_at_the_ends_of_float64_are_drawn_or_refused(pecli_cli, tmp_path: Path, values, kind: str) -> None:
    np.save(tmp_path / "x.npy", values)
    for output in ([], ["-o", tmp_path / "x.svg"]):
        drawn = pecli_cli("plot", tmp_path / "x.npy", "--kind", kind, *output)
        assert (drawn.code, drawn.err) == (0, "") or (drawn.code == 2 and drawn.err.count("\n") == 1)


@pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)
def test_errors_at_the_ends_of_float64_are_drawn(pecli_cli, tmp_path: Path, values) -> None:
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "y.npy", values[::-1] * 0.5)
    drawn = pecli_cli("diff", tmp_path / "x.npy", tmp_path / "y.npy", "--plot", "-o", tmp_path / "x.svg")
    assert (drawn.code, drawn.err) == (1, "")


def test_files_and_schemes_beside_each_other(pecli_cli, tmp_path: Path) -> None:
    pecli_cli(*SMALL, "-o", tmp_path / "pe.safetensors")
    np.save(tmp_path / "w.npy", np.ones((8, 4)))
    assert pecli_cli("plot", tmp_path / "pe.safetensors").out.startswith("pe.safetensors: value by position")
    assert pecli_cli("plot", tmp_path / "pe.safetensors", "--kind", "wavelengths").code == 0
    both = pecli_cli("plot", tmp_path / "pe.safetensors:pe", tmp_path / "w.npy", "--against", "rope", "--dim", "4")
    assert both.code == 0
    assert "w.npy" in both.out
    assert "rope" in both.out


def test_the_next_scheme_takes_over_what_it_leaves_out(pecli_cli) -> None:
    words = ["--against", "rope", "--theta", "10000", "--kind", "wavelengths"]
    shown = pecli_cli("plot", "rope", "--model", "llama-3.1-8b", *words)
    assert shown.code == 0
    assert "llama-3.1-8b" in shown.out
    assert "trained on 8,192" in shown.out
    assert "extended to 131,072" in shown.out


@pytest.mark.parametrize(("suffix", "said"), [("png", True), ("pdf", True), ("svg", False)])
def test_characters_without_a_picture_are_named_in_one_line(process, suffix: str, said: bool) -> None:
    result = process("plot", *SMALL, "--title", "漢字 of 1", "-o", f"x.{suffix}")
    assert result.returncode == 0
    line = (
        f"pecli: note: x.{suffix}: the font of figures has no 字漢; boxes stand for it, and an .svg has the text itself"
    )
    assert result.stderr.decode().splitlines() == [line] * said
    assert process("plot", *SMALL, "--title", "漢", "-q", "-o", f"x.{suffix}").stderr == b""


ERRORS = [
    (["rope", "--kind", "wavelength"], 2, "one of heatmap, curves, .*did you mean 'wavelengths'"),
    (["alibi", "--kind", "circle", "-o", "x.png"], 2, "alibi has no such picture; take one of heatmap"),
    (["alibi", "--kind", "circle"], 2, "alibi has no such picture; take one of heatmap"),
    (["rope", "--kind", "circle"], 2, "not drawn in a terminal"),
    (["rope", "-o", "x.gif"], 2, r"\.png, \.svg, \.pdf"),
    (["rope", "-o", "-"], 2, r"\.png, \.svg, \.pdf"),
    (["rope", "-o", "no/x.png"], 3, "does not exist"),
    (["ropee"], 3, "a scheme is one of sinusoidal"),
    (["missing.npy"], 3, "does not exist"),
    (["broken.npy"], 3, "broken.npy: "),
    (["vector.npy"], 2, "no table with rows and columns"),
    (["table.npy", "--kind", "wavelengths"], 2, "which pecli identify does not know, has no such"),
    (["table.npy", "--dim", "4"], 2, "--dim is unknown"),
    (["rope", "--dimm", "4"], 2, "did you mean --dim"),
    (["rope", "--dim", "7"], 2, "--dim is 7"),
    (["rope", "--against"], 2, "stands before a scheme"),
    (["rope", "--size", "8", "-o", "x.png"], 2, "such as 8x5"),
    (["rope", "--size", "8x5"], 2, "add -o x.png"),
    (["rope", "--dark"], 2, "--dark is given; it only applies with -o"),
    (["rope", "--dpi", "1", "-o", "x.png"], 2, "--dpi"),
    (["rope", "--dpi", "2400", "-o", "x.png"], 2, "more than 67,108,864 pixels"),
    (["rope", "--dpi", "10", "--size", "100x100", "-o", "x.png"], 2, "more than 67,108,864 pixels"),
    (["table.npy"] * 13, 2, "more than 12 panels"),
    (["table.npy"] * 13 + ["--kind", "similarity"], 2, "more than 12 panels"),
    (["rope", "--channels", ",".join("0" * 13), "--kind", "circle", "-o", "x.png"], 2, "more than 12 panels"),
    (["rope", "--cmap", "viridiss", "-o", "x.png"], 2, "did you mean 'viridis'"),
    (["rope", "--channels", "99", "--kind", "curves"], 2, "numbered from 0"),
    (["rope", "--channels", "1,2", "--kind", "wavelengths"], 2, "--channels is 1,2; wavelengths shows all of them"),
    (
        ["rope", "--channels", "0,1,2,3,4,5,6,7,8,9,10,11,12", "--kind", "curves"],
        2,
        "13 lines; a picture has room for 12",
    ),
    (["rope", "--kind", "decay", "--against", "alibi"], 2, "no common axis"),
]


@pytest.mark.parametrize(("words", "code", "message"), ERRORS, ids=lambda value: str(value)[:40])
def test_errors_are_one_line(pecli_cli, tmp_path: Path, monkeypatch, words: list[str], code: int, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.ones((4, 4)))
    np.save("vector.npy", np.ones(4))
    Path("broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    before = set(os.listdir())
    found = pecli_cli("plot", *words)
    assert found.code == code
    assert re.search(message, found.err)
    assert found.err.count("\n") == 1
    assert set(os.listdir()) == before


@pytest.mark.parametrize("words", [["--json"], ["-o", "-"], ["--verify", "x.npy"]])
def test_a_picture_does_not_mix_with_data(pecli_cli, words: list[str]) -> None:
    assert pecli_cli(*SMALL, "--plot", *words).code == 2


def test_only_figures_import_matplotlib(tmp_path: Path) -> None:
    for words in (["plot", *SMALL], [*SMALL, "--plot"], ["plot", "--help"], SMALL):
        code = f"import sys; from pecli.cli.app import run; run({words})\n"
        code += "print('matplotlib' in sys.modules, file=sys.stderr)"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stderr == "False\n"


def test_a_home_that_cannot_be_written_to(process, monkeypatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    result = process("plot", *SMALL, "-o", "x.png")
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity"])
def test_a_large_file_is_drawn_in_flat_memory(pecli_cli, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "large.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 19, 128)})
        file.truncate(file.tell() + (1 << 28))  # with nothing in it
    tracemalloc.start()
    try:
        assert pecli_cli("plot", path, "--kind", kind).code == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 26


def test_a_long_table_is_drawn_in_flat_memory(pecli_cli) -> None:
    tracemalloc.start()
    try:
        shown = pecli_cli("plot", "sinusoidal", "--seq-len", 1_000_000, "--dim", 64)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < pecli.Sinusoidal(1_000_000, 64).tensors()[0].nbytes / 2
    assert "800000" in shown.out


@pytest.mark.parametrize("words", [["--model", "llama-3.1-8b"], ["--config=llama-3.1-8b"], ["llama-3.1-8b"]])
def test_a_model_stands_for_its_rotary_scheme(pecli_cli, words) -> None:
    expected = pecli_cli("plot", "rope", "--model", "llama-3.1-8b", "--kind", "wavelengths")
    assert pecli_cli("plot", *words, "--kind", "wavelengths").out == expected.out != ""


def test_models_beside_each_other_and_with_options(pecli_cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})
    )
    pair = ["--model", "llama-2-7b", "--against", "rope", "--config", tmp_path / "config.json"]
    expected = pecli_cli("plot", "rope", *pair, "--kind", "decay")
    shown = pecli_cli("plot", "llama-2-7b", tmp_path / "config.json", "--kind", "decay")
    assert (shown.code, shown.out) == (0, expected.out)
    expected = pecli_cli("plot", "rope", "--model", "llama-2-7b", "--seq-len", "16")
    assert pecli_cli("plot", "llama-2-7b", "--seq-len", "16").out == expected.out != ""


def test_what_is_neither_a_file_nor_a_scheme_nor_a_model(pecli_cli) -> None:
    shown = pecli_cli("plot", "llama-9")
    assert (shown.code, shown.err.count("\n")) == (3, 1)
    assert "a scheme is one of sinusoidal" in shown.err


def carried(path: Path) -> dict[str, Any]:
    """What a figure carries, as readers of its format find it."""
    data = path.read_bytes()
    if path.suffix == ".png":
        (length,) = struct.unpack(">I", data[(place := data.index(b"tEXt")) - 4 : place])
        keyword, _, text = data[place + 4 : place + 4 + length].partition(b"\0")
        assert keyword == b"pecli"
        return json.loads(text)
    if path.suffix == ".svg":
        root = ElementTree.parse(path).getroot()
        (found,) = root.iter("{http://purl.org/dc/elements/1.1/}description")
        return json.loads(found.text or "")
    text = re.search(rb"/Subject \((.*?[^\\])\)", data, re.S)[1]
    return json.loads(re.sub(rb"\\(.)", rb"\1", text))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_figure_carries_its_command_and_its_specs(pecli_cli, tmp_path: Path, suffix: str) -> None:
    words = [
        "rope",
        "--model",
        "llama-3.1-8b",
        "--seq-len",
        "64",
        "--against",
        "rope",
        "--seq-len",
        "64",
        "--dim",
        "32",
    ]
    given = ["--kind", "wavelengths", "--label", "scaled (3.1)", "--label", "plain"]
    path = tmp_path / f"x{suffix}"
    assert pecli_cli("plot", *words, *given, "-o", path).code == 0
    found = carried(path)
    assert found["command"] == "pecli " + shlex.join(["plot", *words, *given])
    assert [spec["label"] for spec in found["specs"]] == ["scaled (3.1)", "plain"]
    first, second = (
        pecli.Scheme.from_spec({name: spec[name] for name in ("scheme", "parameters")}) for spec in found["specs"]
    )
    assert first == pecli.load_model("llama-3.1-8b").one().rope(64)
    assert second == pecli.Rope(64, 32)
    again = tmp_path / f"y{suffix}"
    assert pecli_cli(*shlex.split(found["command"])[1:], "-o", again).code == 0
    assert again.read_bytes() == path.read_bytes()


def test_audits_and_differences_carry_their_commands_too(pecli_cli, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    np.save(tmp_path / "b.npy", np.ones((4, 4)))
    pecli_cli("diff", tmp_path / "a.npy", tmp_path / "b.npy", "--atol", "0.5", "-o", tmp_path / "x.png", "-q")
    command = shlex.join(["pecli", "diff", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--atol", "0.5"])
    assert carried(tmp_path / "x.png")["command"] == command
    pecli_cli("audit", "rope", "--dim", "8", "--seq-len", "64", "--recipes", "float32", "-o", tmp_path / "y.png", "-q")
    found = carried(tmp_path / "y.png")
    assert found["command"] == "pecli audit rope --seq-len 64 --dim 8 --recipes float32 --tolerance 0.001"
    assert found["specs"] == [json.loads(json.dumps(pecli.Rope(64, 8).spec()))]


def test_labels_name_curves_and_their_number_is_checked(pecli_cli) -> None:
    words = ["plot", "rope", "--against", "rope", "--theta", "500", "--kind", "decay"]
    shown = pecli_cli(*words, "--label", "ours", "--label", "theirs").out
    assert "* ours   o theirs" in shown
    wrong = pecli_cli(*words, "--label", "ours")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "there are 2 subjects" in wrong.err


def test_a_table_that_identify_knows_has_wavelengths(pecli_cli, tmp_path: Path) -> None:
    np.save(tmp_path / "pe.npy", pecli.Sinusoidal(256, 32, base=500.0).tables()["pe"])
    shown = pecli_cli("plot", tmp_path / "pe.npy", "--kind", "wavelengths", "-o", tmp_path / "x.svg")
    assert (shown.code, shown.err) == (0, "")
    (spec,) = carried(tmp_path / "x.svg")["specs"]
    assert (spec["parameters"]["base"], spec["label"]) == (500.0, "pe.npy (identified: sinusoidal)")


def test_files_of_one_name_are_called_by_their_paths(pecli_cli, tmp_path: Path) -> None:
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "pe.npy", np.ones((4, 4)))
    shown = pecli_cli("plot", tmp_path / "ours" / "pe.npy", tmp_path / "theirs" / "pe.npy", "-o", tmp_path / "x.svg")
    texts = " ".join((tmp_path / "x.svg").read_text(encoding="utf-8").split())
    assert shown.code == 0
    assert "ours/" in texts
    assert "theirs/" in texts
