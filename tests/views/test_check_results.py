"""Pictures of errors: one that stands alone is seen, and colours begin at no error."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pecli.checks.compare import Comparison
from pecli.checks.diff import ErrorMap
from pecli.views import check_results
from pecli.views.pictures import palettes
from tests.pixels import decoded


def pixels(path: Path, *maps: ErrorMap) -> np.ndarray:
    check_results.save_errors(str(path / "x.png"), maps, ("a.npy", "b.npy"))
    return decoded((path / "x.png").read_bytes()).astype(int)


def seen(drawn: np.ndarray, colour: palettes.Colour) -> int:
    """How many pixels of the matrix, left of its colour bar, have a colour."""
    return int((np.abs(drawn[:, :650] - np.array(colour)).max(axis=2) <= 2).sum())


def test_one_error_among_many_has_the_colour_of_the_largest(tmp_path: Path) -> None:
    cells = np.zeros((512, 512))
    cells[300, 200] = 2.0
    drawn = pixels(tmp_path, ErrorMap("pe", 4096, 512, cells))
    assert seen(drawn, palettes.SEQUENTIAL[-1]) >= 1
    cells[100] = np.inf
    assert seen(pixels(tmp_path, ErrorMap("pe", 4096, 512, cells)), palettes.UNKNOWN) > 400


def test_no_error_to_draw_is_said(tmp_path: Path) -> None:
    assert (pixels(tmp_path) == 255).mean() > 0.9


@pytest.mark.parametrize(("shape", "words"), [((6, 4), "position ↓  channel →"), ((1, 12), "element →")])
def test_colours_in_the_terminal_span_a_decade_at_least(capsys, shape: tuple[int, int], words: str) -> None:
    check_results.show_errors(ErrorMap("pe", *shape, np.full(shape, 0.25)))
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(rf"{words}   0\.025 .* 0\.25", last)


def test_small_errors_are_told_from_none_and_from_large_ones(tmp_path: Path) -> None:
    cells = np.zeros((90, 6))
    cells[30:60], cells[60:] = 1e-6, 1.0
    drawn = pixels(tmp_path, ErrorMap("pe", 90, 6, cells))
    column = drawn[:, 300]
    assert seen(drawn, palettes.SEQUENTIAL[0]) > 10_000  # the smallest error, where a linear scale had black on black
    assert seen(drawn, palettes.SEQUENTIAL[-1]) > 10_000
    assert (column == 255).all(axis=1).sum() > 100, "no error is as blank as the paper"


def test_units_of_the_last_place_are_counted_up_to_a_million() -> None:
    off = Comparison("cos", (2,), 2, "float32", "float32", 1, 0.5, 0.5, 2**31, 7, (1,), (1,), 0.0, 0.5)
    assert check_results.parts_of(off)[-1] == "max error 0.5 (7 ulp) at [1]: expected 0, found 0.5"
    off.worst_ulp = 2**31
    assert check_results.parts_of(off)[-1] == "max error 0.5 at [1]: expected 0, found 0.5"
