"""Maps of tables on grids: which number is where."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pecli.cli.app import run
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.views.pictures import kinds, subjects
from pecli.views.pictures.panels import Picture, PlotRequest


def drawn(kind: str, scheme: Scheme, channels: tuple[int, ...] | None = None) -> Picture:
    return kinds.picture(kind, subjects.labelled(subjects.of_scheme(scheme)), PlotRequest(channels=channels))


def test_channels_are_maps_of_rows_and_columns() -> None:
    """In MAE's tables channel 0 is sin w, and channel D/2 is sin h; the row before the grid is left out."""
    first, second = drawn("maps", Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=1), (0, 8)).panels
    np.testing.assert_allclose(first.values, [[math.sin(w) for w in range(5)]] * 3, atol=1e-7)
    np.testing.assert_allclose(second.values, [[math.sin(h)] * 5 for h in range(3)], atol=1e-7)
    assert (first.rows, first.columns) == ("row", "column")


def test_merged_patches_are_put_back() -> None:
    rows, columns = drawn("maps", Rope(grid=(4, 6), dim=8, style="qwen2-vl"), (0, 2)).panels
    np.testing.assert_allclose(rows.values, [[math.cos(h)] * 6 for h in range(4)], atol=1e-7)
    np.testing.assert_allclose(columns.values, [[math.cos(w) for w in range(6)]] * 4, atol=1e-7)


def test_maps_are_chosen_where_values_vary() -> None:
    """Of EVA's 16 pairs on a grid of 4 × 4, those of one axis have wavelengths from 2π up to 2π · 10000^(7/8)."""
    found = drawn("maps", Rope(grid=(4, 4), dim=32, style="eva"))
    assert found.title == "pairs over the grid"
    assert [panel.title for panel in found.panels] == [f"cos, pair {k}" for k in (0, 1, 8, 9)]
    for k, rate in {0: 1.0, 1: 10000 ** (-1 / 8)}.items():
        assert np.ptp(found.panels[k].values) == pytest.approx(1 - math.cos(3 * rate), abs=1e-6)


def test_a_patch_is_most_similar_to_itself() -> None:
    """The similarity of two rotations is the mean of the cosines of what they differ by."""
    (panel,) = drawn("patch", Rope(grid=(3, 5), dim=4, style="eva")).panels
    wanted = [[(math.cos(h - 1) + math.cos(w - 2)) / 2 for w in range(5)] for h in range(3)]
    np.testing.assert_allclose(panel.values, wanted, atol=1e-6)
    assert panel.values[1, 2] == panel.values.max()


def test_only_grids_have_maps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plot", "rope", "--seq-len", "16", "--dim", "8", "--kind", "maps"]) == 2
    assert "no such picture" in capsys.readouterr().err
    assert run(["plot", "sinusoidal", "--grid", "4x4", "--dim", "8", "--style", "mae", "--kind", "patch"]) == 0
