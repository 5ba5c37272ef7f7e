"""What a check compared, as a picture: numbers, words, and pixels of zero, errors and missing values."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pecli
from pecli.checks.compare import Comparison
from pecli.views import check_results
from pecli.views.pictures import palettes, terminal_render
from pecli.views.pictures.figure import encoded, render
from pecli.views.pictures.mistakes import comparison_picture, error_picture
from pecli.views.pictures.panels import Chart, Picture
from pecli.views.screen import Terminal
from tests.pixels import decoded


def drawn(a: np.ndarray, b: np.ndarray, **tolerance: float) -> Picture:
    return comparison_picture([pecli.diff(a, b, **tolerance)])


def pixels(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The pixels of the third column, left of its colour bar."""
    return decoded(encoded(render(drawn(a, b)))).astype(int)[50:380, 650:915]


def seen(area: np.ndarray, colour: palettes.Colour) -> int:
    return int((np.abs(area - np.array(colour)).max(axis=2) <= 2).sum())


A = np.sin(np.outer(np.arange(512), 10000.0 ** (-np.arange(64) / 64)))


def with_errors(**at: float) -> np.ndarray:
    b = A.copy()
    for name, value in at.items():
        row, column = map(int, name[1:].split("_"))
        b[row, column] += value
    return b


def test_expected_found_and_difference_have_these_numbers_limits_and_words() -> None:
    b = with_errors(_300_20=2.0, _10_3=1e-5)
    picture = drawn(A, b, atol=1e-3)
    one, other, apart = picture.heatmaps
    assert [panel.title for panel in picture.heatmaps] == ["array, A", "array, B", "difference"]
    reach = float(f"{np.abs(b).max():.3g}")
    assert one.limits == other.limits == (-reach, reach)
    np.testing.assert_array_equal(apart.values > 0, one.values != other.values)
    np.testing.assert_allclose(np.sort(apart.values[apart.values > 0]), [1e-5, 2.0], rtol=1e-9)
    np.testing.assert_allclose(apart.ends, (1e-5, 2.0), rtol=1e-9)
    assert (apart.marked, apart.reduce, apart.meaning) == (("tolerance", 1e-3), "max", "|A − B|, none: blank")
    figure = render(picture)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[:3] == ["position (worst of 3 rows)", "", "position (maximum of 3 rows)"]
    assert "|A − B|, none: blank, line: tolerance 0.001" in labels
    assert "max error 2 at [300, 20]" in picture.title


def test_the_title_has_the_reason_and_what_is_left_out_is_named() -> None:
    right, wrong = pecli.Rope(64, 32, base=5e5), pecli.Rope(64, 32).tables()
    picture = comparison_picture([pecli.verify(wrong, right, atol=1e-3)])
    assert "FAILED. cos, sin, inv_freq: base is 10000 (the spec says 500000)" in picture.title
    charts = [panel for panel in picture.panels if isinstance(panel, Chart)]
    assert [chart.title for chart in charts] == ["inv_freq", "difference"], "a vector is lines"
    assert [level for _, level in charts[1].levels] == [1e-5]
    np.testing.assert_allclose(charts[1].curves[0].y[1:], 50 ** (np.arange(1, 16) / 16) - 1, rtol=1e-9)
    many = {f"t{k}": A[:9] for k in range(6)}
    others = {name: -array for name, array in many.items()} | {"bias": np.ones((2, 2))}
    left = comparison_picture([pecli.diff(many | {"bias": np.ones((3, 3))}, others)])
    shape = "bias (its shape is (2, 2) where (3, 3) is expected)"
    assert (len(left.heatmaps), left.subtitle) == (12, f"Left out: t4, t5, {shape}")


def test_pixels_of_zero_errors_and_missing_values() -> None:
    b = with_errors(_300_20=2.0)
    area = pixels(A, b)
    assert seen(area, palettes.SEQUENTIAL[-1]) >= 1, "one error among many has the colour of the largest"
    assert (area == 255).mean() > 0.98, "no error is as blank as the paper"
    b[100:200] = np.nan
    assert seen(pixels(A, b), palettes.UNKNOWN) > 10_000


def test_no_error_to_draw_is_said() -> None:
    picture = drawn(A, A)
    assert (picture.panels, "all are equal" in picture.subtitle) == ([], True)


@pytest.mark.parametrize("colours", [0, 256, 1 << 24])
def test_zero_is_blank_in_the_terminal(colours: int) -> None:
    a = np.zeros((4, 6))
    b = a.copy()
    b[0, 1], b[3, 2], b[2, 4] = 1e-6, 1.0, np.nan
    picture = error_picture(pecli.diff(a, b).tensors[0], 22, 80)
    assert picture is not None
    cells = terminal_render.lines(picture, Terminal(lines=16, colours=colours))
    shown = [line.partition("│")[2] for line in cells if "│" in line]
    bare = re.sub(r"\x1b\[[0-9;]*m", "", "".join(shown))
    assert len(set(bare) - {" "}) in ((3,) if not colours else (1, 2)), "the smallest error, the largest, and a NaN"
    assert bare.count(" ") >= 0.7 * len(bare)
    if colours:
        darkest = "48;2;18;16;58" if colours > 256 else f"48;5;{palettes.SEQUENTIAL_256[0]}"
        assert "".join(shown).count(darkest) <= 4, "no zero has the colour of the smallest error"
    assert "none: blank" in cells[-1]


def test_units_of_the_last_place_are_counted_up_to_a_million() -> None:
    off = Comparison("cos", (2,), 2, "float32", "float32", 1, 0.5, 0.5, 2**31, 7, (1,), (1,), 0.0, 0.5)
    assert check_results.parts_of(off)[-1] == "max error 0.5 (7 ulp) at [1]: expected 0, found 0.5"
    off.worst_ulp = 2**31
    assert check_results.parts_of(off)[-1] == "max error 0.5 at [1]: expected 0, found 0.5"
