"""Figures: saved the same every time, and refused before any work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pecli.errors import ParameterError
from pecli.views.pictures import figure, palettes
from pecli.views.pictures.panels import HeatmapPanel, Picture
from tests.pixels import decoded


def drawn(folder: Path, name: str = "x.png", *, dark: bool = False) -> bytes:
    panel = HeatmapPanel("costs $5 and $6 位置 🙂", np.tile(np.linspace(-1, 1, 64), (64, 1)))
    figure.save(figure.render(Picture("", [panel]), size=(4, 3), dark=dark), str(folder / name))
    return (folder / name).read_bytes()


def test_a_gradient_has_the_colours_of_the_palette_on_light_and_dark_paper(tmp_path: Path) -> None:
    pixels = decoded(drawn(tmp_path))
    assert pixels.shape == (300, 400, 3)
    for colour in (palettes.DIVERGING[0], palettes.DIVERGING[-1]):
        assert np.abs(pixels[150].astype(int) - np.array(colour)).max(axis=1).min() <= 3
    assert pixels[0, 0].min() > 200
    assert decoded(drawn(tmp_path, dark=True))[0, 0].max() < 60


SCRIPT = """
import sys, numpy as np
from pecli.views.pictures import figure
from pecli.views.pictures.panels import Chart, Curve, Picture
made = figure.render(Picture("", [Chart("", [Curve("", np.arange(5.0), np.arange(5.0))])]))
for path in sys.argv[1:]:
    figure.save(made, path)
assert "matplotlib.pyplot" not in sys.modules
"""


def test_the_same_figure_is_the_same_bytes(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "matplotlibrc").write_text("figure.facecolor: red\nlines.linewidth: 9\nno.such.key: 1\n")
    monkeypatch.setenv("MPLBACKEND", "module://nowhere")
    written = []
    for k, folder in enumerate((Path.cwd(), tmp_path)):
        paths = [tmp_path / f"{k}.{suffix}" for suffix in ("png", "svg", "pdf")]
        settings = {**os.environ, "PYTHONPATH": str(Path.cwd()), "SOURCE_DATE_EPOCH": str(k * 1000)}
        command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
        result = subprocess.run(command, cwd=folder, env=settings, capture_output=True)
        assert (result.returncode, result.stderr) == (0, b"")
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]
    for word in (b"Matplotlib v", b"CreationDate", b"dc:date"):
        assert not any(word in data for data in written[0])


@pytest.mark.parametrize("path", ["x.gif", "x", "", "png", "x.png.txt"])
def test_suffixes_that_are_no_pictures(path: str) -> None:
    with pytest.raises(ParameterError, match=r"\.png, \.svg, \.pdf"):
        figure.check_suffix(path)


def test_text_in_vector_figures_is_text(tmp_path: Path) -> None:
    assert b">costs $5 and $6 \xe4\xbd\x8d\xe7\xbd\xae" in drawn(tmp_path, "x.svg")
    assert b"/Type /Font" in drawn(tmp_path, "x.pdf")
