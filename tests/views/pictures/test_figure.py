"""Figures: saved the same every time, and refused before any work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pecli.errors import FileError, ParameterError
from pecli.views.pictures import figure, palettes
from tests.pixels import decoded


def drawn(folder: Path, name: str = "x.png", **options: object) -> bytes:
    made = figure.new(4, 3, figure.Look(**options))
    axes = made.subplots()
    axes.imshow(np.tile(np.linspace(-1, 1, 64), (64, 1)), cmap=figure.colours(centred=True))
    axes.set_title("costs $5 and $6")
    figure.save(made, str(folder / name))
    return (folder / name).read_bytes()


def test_a_gradient_has_the_colours_of_the_palette(tmp_path: Path) -> None:
    pixels = decoded(drawn(tmp_path))
    assert pixels.shape == (300, 400, 3)
    row = pixels[150]
    for colour in (palettes.DIVERGING[0], palettes.DIVERGING[-1]):
        assert np.abs(row.astype(int) - np.array(colour)).max(axis=1).min() <= 3


def test_light_and_dark(tmp_path: Path) -> None:
    assert decoded(drawn(tmp_path))[0, 0].min() > 200
    assert decoded(drawn(tmp_path, dark=True))[0, 0].max() < 60


SCRIPT = """
import sys, numpy as np
from pecli.views.pictures import figure
made = figure.new(4, 3)
made.subplots().plot(np.arange(5.0))
for path in sys.argv[1:]:
    figure.save(made, path)
"""


def test_the_same_figure_is_the_same_bytes(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "matplotlibrc").write_text("figure.facecolor: red\nlines.linewidth: 9\nno.such.key: 1\n")
    monkeypatch.setenv("MPLBACKEND", "module://nowhere")
    found = []
    for number in range(2):
        paths = [tmp_path / f"{number}.{suffix}" for suffix in ("png", "svg", "pdf")]
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(number * 1000))
        folder = tmp_path if number else Path.cwd()
        command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
        result = subprocess.run(
            command, cwd=folder, env={**__import__("os").environ, "PYTHONPATH": str(Path.cwd())}, capture_output=True
        )
        assert (result.returncode, result.stderr) == (0, b"")
        found.append([path.read_bytes() for path in paths])
    assert found[0] == found[1]
    for word in (b"Matplotlib v", b"CreationDate", b"dc:date"):
        assert not any(word in data for data in found[0])


@pytest.mark.parametrize("path", ["x.gif", "x", "", "png", "x.png.txt"])
def test_suffixes_that_are_no_pictures(path: str) -> None:
    with pytest.raises(ParameterError, match=r"\.png, \.svg, \.pdf"):
        figure.check_suffix(path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        drawn(tmp_path, "no/x.png")
    assert not list(tmp_path.iterdir())


def test_colour_maps_by_name() -> None:
    assert figure.colours("viridis").name == "viridis"
    with pytest.raises(ParameterError, match="did you mean 'viridis'"):
        figure.colours("viridiss")


def test_characters_without_a_glyph_are_no_trouble(tmp_path: Path) -> None:
    made = figure.new(4, 3)
    made.suptitle("位置 🙂")
    figure.save(made, str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").exists()


def test_text_in_vector_figures_is_text(tmp_path: Path) -> None:
    for suffix in ("svg", "pdf"):
        drawn(tmp_path, f"x.{suffix}")
    assert ">costs $5 and $6</text>" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert b"/Type /Font" in (tmp_path / "x.pdf").read_bytes()


def test_importing_matplotlib_leaves_the_garbage_collector_as_it_was() -> None:
    code = """
import gc, sys
from pecli.views.pictures import figure
{}
was = gc.isenabled()
figure.new()
assert gc.isenabled() == was
assert "matplotlib.pyplot" not in sys.modules
"""
    for before in ("gc.enable()", "gc.disable()"):
        subprocess.run([sys.executable, "-c", code.format(before)], check=True)
