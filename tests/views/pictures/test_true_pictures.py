"""Pictures do not mislead: scales, samples and means are what the labels state, on the drawn data."""

import numpy as np
import pytest

import pecli
from pecli.files.load import opened
from pecli.views.pictures import kinds, terminal_render
from pecli.views.pictures.subjects import PlotRequest, of_file
from pecli.views.screen import Terminal
from tests.views.pictures.drawing import made, plain

VIDEO = pecli.Rope(grid=(4, 6, 6), axes=(8, 12, 12))


def last_line(kind: str, scheme: pecli.Scheme, terminal: Terminal) -> str:
    return plain(terminal_render.lines(made(kind, scheme), terminal))[-1]


def test_a_constant_panel_does_not_widen_the_common_scale() -> None:
    picture = made("heatmap", VIDEO)
    assert any(np.ptp(panel.values) == 0 for panel in picture.heatmaps)
    for panel in picture.heatmaps:
        assert panel.ends == (-1.0, 1.0)


def test_panels_of_one_constant_have_a_scale_around_it() -> None:
    picture = made("heatmap", pecli.LearnedInit(4, 4, init="zeros"))
    assert picture.heatmaps[0].ends == (-0.5, 0.5)


@pytest.mark.parametrize("kind", ["heatmap", "patch"])
def test_the_frame_of_a_video_is_named(kind: str) -> None:
    for panel in made(kind, VIDEO).panels:
        assert panel.title.endswith(", frame 0 of 4")


@pytest.mark.parametrize("kind", ["heatmap", "patch"])
def test_an_image_has_no_frames(kind: str) -> None:
    image = pecli.Rope(grid=(6, 6), axes=(16, 16))
    for panel in made(kind, image).panels:
        assert "frame" not in panel.title


@pytest.mark.parametrize("terminal", [Terminal(), Terminal(colours=256)], ids=["grey", "colour"])
def test_a_terminal_states_of_how_many_rows_a_line_is_the_mean(terminal: Terminal) -> None:
    line = last_line("heatmap", pecli.Sinusoidal(512, 64), terminal)
    drawn_rows = 19 * (2 if terminal.colours else 1)
    assert line.startswith(f"position (means of {512 / drawn_rows:.0f}) ↓  channel →")


def test_a_narrow_terminal_states_it_without_the_names_of_the_axes() -> None:
    line = last_line("heatmap", pecli.Sinusoidal(512, 64), Terminal(40))
    assert line.startswith("means of 27, one in 2   ")


def test_a_terminal_names_the_unit_of_its_colours() -> None:
    line = last_line("heatmap", pecli.Alibi(8, 64), Terminal(120))
    assert " |bias| 0.003906 " in line


def test_pairs_of_positions_are_not_called_all_if_every_second_is_drawn() -> None:
    shown = plain(terminal_render.lines(made("similarity", pecli.Rope(100, 32)), Terminal(120)))
    assert not any("all pairs" in line for line in shown)
    assert "position (one in " in shown[-1]


def test_matrices_of_four_axes_are_named_by_both_indices() -> None:
    array = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    (subject,) = of_file("x", opened({"x": array})[1])
    panels = kinds.picture("heatmap", [subject], PlotRequest()).heatmaps
    assert [panel.title for panel in panels] == [
        "x[0, 0]",
        "x[0, 1]",
        "x[0, 2]",
        "x[1, 0]",
        "x[1, 1]",
        "x[1, 2]",
    ]
    np.testing.assert_array_equal(panels[4].values, array[1, 1])


def test_a_curve_is_named_by_the_parameter_that_it_lacks() -> None:
    picture = made("curves", pecli.Sinusoidal(9, 4), pecli.Sinusoidal(9, 4, padding_idx=0))
    labels = {curve.label.rpartition(", ")[0] for curve in picture.panels[0].curves}
    assert labels == {"sinusoidal, no padding_idx", "sinusoidal, padding_idx 0"}
