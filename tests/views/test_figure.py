"""Figures: saved the same every time, and refused before any work."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from pecli.errors import FileError, ParameterError
from pecli.views import figure, palettes
from pecli.views.png import encode


def decoded(data: bytes) -> np.ndarray:
    """The pixels of an RGB PNG whose lines are not filtered."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, found = 8, b""
    while place < len(data):
        (length,), kind = struct.unpack(">I", data[place : place + 4]), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length :][:4])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        found += body if kind == b"IDAT" else b""
        place += 12 + length
    lines = np.frombuffer(zlib.decompress(found), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_png_holds_the_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    np.testing.assert_array_equal(decoded(encode(pixels, 100)), pixels)


def drawn(folder: Path, name: str = "x.png", **options: object) -> bytes:
    made = figure.new(4, 3, **options)
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
from pecli.views import figure
made = figure.new(4, 3)
made.subplots().plot(np.arange(5.0))
figure.save(made, sys.argv[1])
"""


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_bytes(tmp_path: Path, monkeypatch, suffix: str) -> None:
    (tmp_path / "matplotlibrc").write_text("figure.facecolor: red\nlines.linewidth: 9\nno.such.key: 1\n")
    monkeypatch.setenv("MPLBACKEND", "module://nowhere")
    found = []
    for number in range(2):
        path = tmp_path / f"{number}.{suffix}"
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(number * 1000))
        folder = tmp_path if number else Path.cwd()
        command = [sys.executable, "-c", SCRIPT, str(path)]
        result = subprocess.run(
            command, cwd=folder, env={**__import__("os").environ, "PYTHONPATH": str(Path.cwd())}, capture_output=True
        )
        assert (result.returncode, result.stderr) == (0, b"")
        found.append(path.read_bytes())
    assert found[0] == found[1]
    for word in (b"Matplotlib v", b"CreationDate", b"dc:date"):
        assert word not in found[0]


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
