"""Maps of errors: a compared table in cells, each of which shows the worst element that it stands for.

The expected worst elements are found by a plain loop over all elements; other expected errors are
those that the test itself adds to a table.
"""

import numpy as np
import pytest

import pecli
from pecli.compare.tolerance import Tolerance
from pecli.views.pictures import terminal_render
from pecli.views.pictures.error_map import ErrorMap, error_maps
from pecli.views.pictures.figure import render
from pecli.views.pictures.mistakes import (
    ColourScale,
    Sides,
    comparison_picture,
    error_picture,
    table_panels,
)
from pecli.views.screen import Terminal

RNG = np.random.default_rng(0)


def worst_by_loop(a: np.ndarray, b: np.ndarray, down: int, across: int) -> np.ndarray:
    """(3, down, across): A, B and |A − B| of the worst element of each cell, over all leading axes."""
    height, width = a.shape[-2:]
    cells = np.full((3, down, across), -1.0)
    for index in np.ndindex(a.shape):
        row, column = index[-2] * down // height, index[-1] * across // width
        error = abs(a[index] - b[index])
        if error > cells[2, row, column]:
            cells[:, row, column] = a[index], b[index], error
    return cells


@pytest.mark.parametrize("shape", [(6, 4), (50, 30), (3, 17, 23)], ids=str)
def test_cells_are_the_worst_elements(shape: tuple[int, ...]) -> None:
    """A plain loop over elements finds the worst one of each cell."""
    a = RNG.standard_normal(shape)
    b = a + RNG.standard_normal(shape) * (RNG.random(shape) < 0.5)
    (errors,) = error_maps(pecli.diff(a, b, reasons=False).tensors[0], 10, 7)
    size = min(10, shape[-2]), min(7, shape[-1])
    expected = worst_by_loop(a, b, *size)

    assert errors.shape == shape[-2:]
    assert errors.errors.shape == size
    np.testing.assert_array_equal(errors.errors, expected[2])

    off = errors.errors > 0
    np.testing.assert_array_equal(errors.expected[off], expected[0][off])
    np.testing.assert_array_equal(errors.found[off], expected[1][off])
    np.testing.assert_array_equal(errors.expected[~off], errors.found[~off])
    assert errors.layers == (3 if len(shape) == 3 else 1)


@pytest.mark.parametrize(
    ("tolerance", "limit", "relative"),
    [
        ({"atol": 1e-3}, 1e-3, False), ({"rtol": 1e-4}, 1e-4, True), ({"atol": 1e-3, "rtol": 1e-4}, 0.0, False),
        ({"max_ulp": 2}, 0.0, False), ({}, 0.0, False), ({"atol": 1e-3, "max_ulp": 2}, 0.0, False),
    ],
    ids=str,
)  # fmt: skip
def test_the_tolerance_is_the_one_applied(
    tolerance: dict[str, float], limit: float, relative: bool
) -> None:
    """0 stands for a tolerance that is no single limit, such as a sum of two."""
    a, b = np.linspace(1.0, 4.0, 24).reshape(6, 4), np.linspace(1.0, 5.0, 24).reshape(6, 4)
    (errors,) = error_maps(pecli.diff(a, b, Tolerance(**tolerance), reasons=False).tensors[0])

    assert errors.tolerance == limit
    assert errors.is_relative == relative
    np.testing.assert_array_equal(errors.errors, abs(a - b) / (a if relative else 1))


def test_frequencies_are_judged_relatively() -> None:
    """(10000 / 9000)^(i/8) − 1 is the relative error of another base."""
    a, b = pecli.Rope(4, 16).tables(), pecli.Rope(4, 16, base=9000.0).tables()
    maps = {
        tensor.name: next(error_maps(tensor))
        for tensor in pecli.diff(a, b, atol=1e-3, reasons=False).tensors
    }
    found = maps["inv_freq"]

    assert found.rows == ""
    assert found.columns == "pair"
    assert found.tolerance == 1e-5
    assert found.is_relative
    np.testing.assert_allclose(found.errors[0], (10 / 9) ** (np.arange(8) / 8) - 1, atol=1e-12)
    assert maps["cos"].rows == "position"
    assert maps["cos"].columns == "pair"
    assert maps["cos"].tolerance == 1e-3
    assert [
        [*panel.curves[0].x]
        for panel in table_panels(found, Sides("a", "b"), ColourScale(1e-9, 1.0))
    ] == [[*range(8)]] * 2


def test_axes_are_named_as_the_table_has_them() -> None:
    rope, wrong = (
        pecli.Rope(64, 16, layout="halves"),
        pecli.Rope(64, 16, layout="halves", base=500.0),
    )
    names = {
        each.name: next(error_maps(each)).columns
        for each in pecli.diff(rope.tables(), wrong.tables(), reasons=False).tensors
    }

    assert names == {"cos": "channel", "sin": "channel", "inv_freq": "pair"}

    bias = pecli.Alibi(4, 8).tables()["bias"]
    (errors,) = error_maps(pecli.diff({"bias": bias}, {"bias": bias / 2}, reasons=False).tensors[0])
    assert errors.rows == "query"
    assert errors.columns == "key"
    assert errors.layers == 4


def test_cosines_and_sines_in_one_array_are_two_maps() -> None:
    """Only the sines are 0.01 off."""
    cos, sin = (pecli.Rope(32, 16).tables()[name] for name in ("cos", "sin"))
    packed = np.concatenate([cos, sin + np.float32(0.01)], axis=1)
    result = pecli.verify(packed, pecli.Rope(32, 16), atol=1e-6, reasons=False)
    maps = {errors.name: errors for errors in error_maps(result.tensors[0])}

    assert list(maps) == ["cos_sin: cos", "cos_sin: sin"]
    assert maps["cos_sin: cos"].errors.max() == 0
    np.testing.assert_allclose(maps["cos_sin: sin"].errors, 0.01, atol=1e-6)
    np.testing.assert_array_equal(maps["cos_sin: sin"].expected, sin)


def test_sides_are_as_the_files_were_given_whichever_was_read() -> None:
    cos, sin = (pecli.Rope(32, 16).tables()[name] for name in ("cos", "sin"))
    packed = {"freqs": np.concatenate([cos, sin], axis=1) * np.float32(0.5)}
    maps = [
        next(error_maps(pecli.diff(*pair, reasons=False).tensors[0]))
        for pair in (({"cos": cos, "sin": sin}, packed),)
    ]
    maps += [
        next(error_maps(pecli.diff(packed, {"cos": cos, "sin": sin}, reasons=False).tensors[0]))
    ]
    for (one, other), errors in zip(((cos, cos / 2), (cos / 2, cos)), maps, strict=True):
        np.testing.assert_array_equal(errors.expected, one)
        np.testing.assert_array_equal(errors.found, other)


def test_nan_and_infinity_are_infinitely_far_off() -> None:
    a = np.ones((4, 4))
    b = a.copy()
    b[1, 2], b[3, 3] = np.nan, np.inf
    (errors,) = error_maps(pecli.diff(a, b, reasons=False).tensors[0])

    assert np.argwhere(np.isinf(errors.errors)).tolist() == [[1, 2], [3, 3]]
    assert not list(error_maps(pecli.diff(a, a, reasons=False).tensors[0]))


def error_map_of(name: str, table: np.ndarray) -> ErrorMap:
    (errors,) = error_maps(pecli.diff({name: table}, {name: table + 1.0}).tensors[0])
    return errors


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ([1.0, 2.0, 1.0, 2.0], "channel"),
        ([1.0, 1.0, 2.0, 2.0], "channel"),
        ([1.0, 2.0, 1.0, 3.0], "pair"),
        ([1.0, 1.0, 1.0], "pair"),
    ],
    ids=["halves", "interleaved", "compact", "odd"],
)
def test_columns_of_cosines_are_channels_if_every_frequency_is_there_twice(
    row: list[float], columns: str
) -> None:
    errors = error_map_of("cos", np.tile(row, (9, 1)))
    assert errors.rows == "position"
    assert errors.columns == columns


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [
        ("x", (4, 4), ("position", "channel")),
        ("bias", (4, 4), ("position", "channel")),
        ("bias", (2, 4, 5), ("query", "key")),
        ("x", (2, 5, 5), ("query", "key")),
        ("x", (2, 4, 5), ("position", "channel")),
        ("inv_freq", (4,), ("", "pair")),
        ("slopes", (4,), ("", "head")),
        ("x", (4,), ("", "element")),
    ],
)
def test_axes_are_named_by_the_tensor_and_its_shape(
    name: str, shape: tuple[int, ...], axes: tuple[str, str]
) -> None:
    errors = error_map_of(name, np.ones(shape))
    rows, columns = axes

    assert errors.rows == rows
    assert errors.columns == columns


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (3, "position (maximum of 2 rows)"),
        (4, "position (maximum of 2 rows)"),
        (5, "position"),
    ],
)
def test_a_terminal_states_how_many_rows_a_line_stands_for(rows: int, name: str) -> None:
    comparison = pecli.diff(np.zeros((6, 2)), np.ones((6, 2))).tensors[0]
    picture = error_picture(comparison, rows, 2)

    assert picture is not None
    assert picture.title == "|A − B| of array"
    assert f"{name} ↓" in terminal_render.lines(picture, Terminal())[-1]


def test_matrices_and_copies_are_counted() -> None:
    two_matrices = np.array([[[1.0]], [[5.0]]])
    assert error_map_of("x", two_matrices).layers == 2

    cos = 1.01 * pecli.Rope(64, 128, layout="halves").tables()["cos"]
    result = pecli.verify({"cos": np.stack([cos] * 3)}, "llama-2-7b", Tolerance(atol=1e-3))
    assert next(error_maps(result.tensors[0])).layers == 3


def test_the_label_of_the_colour_bar_fits_beside_one_table() -> None:
    cos = 1.01 * pecli.Rope(64, 128, layout="halves").tables()["cos"]
    cos[5, 3] = np.nan
    tables = {"cos": np.stack([cos] * 3)}
    result = pecli.verify(tables, "llama-2-7b", Tolerance(atol=1e-3), reasons=False)
    label = render(comparison_picture([result])).axes[-1].get_ylabel()

    assert max(len(line) for line in label.splitlines()) < 47


def test_the_worst_element_lies_in_the_marked_cell() -> None:
    """8192 rows are drawn in 192 cells, so that row 3629 is at the middle of its cell."""
    expected = np.zeros((8192, 64), np.float32)
    found = expected.copy()
    found[3629, 31] = 2.0
    found[100, 5] = 1.0
    result = pecli.diff(expected, found, reasons=False)
    (errors,) = error_maps(result.tensors[0])

    assert abs(errors.worst.row - 3629) <= 8192 / 192 / 2
    assert errors.worst.column == 31

    *_, difference = comparison_picture([result]).heatmaps
    assert difference.worst == errors.worst
