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
    SideNames,
    comparison_picture,
    error_picture,
    table_panels,
)
from pecli.views.screen import Terminal

RNG = np.random.default_rng(0)


def worst_by_loop(a: np.ndarray, b: np.ndarray, down: int, across: int) -> np.ndarray:
    """(3, down, across): A, B and |A − B| of the worst element of each cell, over all
    leading axes.
    """
    height, width = a.shape[-2:]
    cells = np.full((3, down, across), -1.0)
    for index in np.ndindex(a.shape):
        row = index[-2] * down // height
        column = index[-1] * across // width
        error = abs(a[index] - b[index])
        if error > cells[2, row, column]:
            cells[:, row, column] = a[index], b[index], error
    return cells


def only_error_map(a: object, b: object, *, rows: int = 192, columns: int = 192) -> ErrorMap:
    """Return the map of the only tensor in which two inputs differ."""
    (tensor,) = pecli.diff(a, b, reasons=False).tensors
    (errors,) = error_maps(tensor, rows, columns)
    return errors


def maps_by_tensor(a: object, b: object, **tolerance: float) -> dict[str, ErrorMap]:
    tensors = pecli.diff(a, b, reasons=False, **tolerance).tensors
    return {tensor.name: next(error_maps(tensor)) for tensor in tensors}


@pytest.mark.parametrize("shape", [(6, 4), (50, 30), (3, 17, 23)], ids=str)
def test_each_cell_of_a_map_is_the_worst_element_that_it_stands_for(shape: tuple[int, ...]) -> None:
    """A map has at most 10 × 7 cells. `worst_by_loop` finds the worst element of each cell, over
    all matrices, by a plain loop. About half of the elements differ; a cell without any error has
    equal values on both sides.
    """
    a = RNG.standard_normal(shape)
    b = a + RNG.standard_normal(shape) * (RNG.random(shape) < 0.5)
    errors = only_error_map(a, b, rows=10, columns=7)
    size = min(10, shape[-2]), min(7, shape[-1])
    expected, found, worst = worst_by_loop(a, b, *size)

    assert errors.shape == shape[-2:]
    assert errors.errors.shape == size
    np.testing.assert_array_equal(errors.errors, worst)

    differs = worst > 0
    np.testing.assert_array_equal(errors.expected[differs], expected[differs])
    np.testing.assert_array_equal(errors.found[differs], found[differs])
    np.testing.assert_array_equal(errors.expected[~differs], errors.found[~differs])


@pytest.mark.parametrize(("shape", "layers"), [((6, 4), 1), ((3, 17, 23), 3)], ids=str)
def test_a_map_counts_the_matrices_that_it_stands_for(shape: tuple[int, ...], layers: int) -> None:
    """A table of two axes is one matrix; of three axes, the first counts matrices."""
    a = RNG.standard_normal(shape)
    assert only_error_map(a, a + 1.0).layers == layers


@pytest.mark.parametrize(
    ("tolerance", "limit", "is_relative"),
    [
        pytest.param({"atol": 1e-3}, 1e-3, False, id="absolute"),
        pytest.param({"rtol": 1e-4}, 1e-4, True, id="relative"),
        pytest.param({"atol": 1e-3, "rtol": 1e-4}, 0.0, False, id="both"),
        pytest.param({"max_ulp": 2}, 0.0, False, id="ULPs"),
        pytest.param({}, 0.0, False, id="none"),
        pytest.param({"atol": 1e-3, "max_ulp": 2}, 0.0, False, id="absolute and ULPs"),
    ],
)
def test_a_map_marks_its_tolerance_only_if_that_is_a_single_limit(
    tolerance: dict[str, float], limit: float, is_relative: bool
) -> None:
    """The limit is 0 if the tolerance is no single number for all elements: atol + rtol · |A|,
    ULPs, or none at all. Only if rtol is given without another tolerance, errors are divided by
    |A|.
    """
    a = np.linspace(1.0, 4.0, 24).reshape(6, 4)
    b = np.linspace(1.0, 5.0, 24).reshape(6, 4)
    (tensor,) = pecli.diff(a, b, Tolerance(**tolerance), reasons=False).tensors
    (errors,) = error_maps(tensor)

    assert errors.tolerance == limit
    assert errors.is_relative == is_relative
    np.testing.assert_array_equal(errors.errors, abs(a - b) / (a if is_relative else 1))


ROPE_OF_BASE_10000 = pecli.Rope(seq_len=4, dim=16).tables()
ROPE_OF_BASE_9000 = pecli.Rope(seq_len=4, dim=16, base=9000.0).tables()


def test_frequencies_are_judged_relatively() -> None:
    """Frequency i is 10000^(−i/8) and 9000^(−i/8): the relative error is (10000 / 9000)^(i/8) − 1.

    They have a tolerance of their own, 1e-5, whatever the tolerance of cosines is.
    """
    errors = maps_by_tensor(ROPE_OF_BASE_10000, ROPE_OF_BASE_9000, atol=1e-3)["inv_freq"]

    assert errors.is_relative
    assert errors.tolerance == 1e-5
    np.testing.assert_allclose(errors.errors[0], (10 / 9) ** (np.arange(8) / 8) - 1, atol=1e-12)


def test_cosines_are_judged_by_the_tolerance_that_was_given() -> None:
    """The tables have bases 10000 and 9000, and the tolerance is atol 1e-3: absolute errors are
    drawn, by position and pair.
    """
    errors = maps_by_tensor(ROPE_OF_BASE_10000, ROPE_OF_BASE_9000, atol=1e-3)["cos"]
    assert not errors.is_relative
    assert errors.tolerance == 1e-3
    assert errors.rows == "position"
    assert errors.columns == "pair"


def test_frequencies_are_drawn_over_their_pairs() -> None:
    """inv_freq of heads of 16 channels is a vector: it has no rows, and as columns 8 pairs with a
    frequency each. `table_panels` draws two charts over the pairs: one with a curve for each of
    the two files, «a» and «b», and one with their difference.
    """
    errors = maps_by_tensor(ROPE_OF_BASE_10000, ROPE_OF_BASE_9000, atol=1e-3)["inv_freq"]
    assert errors.errors.shape == (1, 8)
    assert errors.rows == ""
    assert errors.columns == "pair"

    any_colours = ColourScale(1e-9, 1.0)
    sides, difference = table_panels(errors, SideNames("a", "b"), any_colours)
    assert [curve.x.tolist() for curve in sides.curves] == [list(range(8)), list(range(8))]
    assert [curve.x.tolist() for curve in difference.curves] == [list(range(8))]


def test_columns_are_channels_in_layout_halves_and_pairs_in_inv_freq() -> None:
    """In layout halves, every frequency has two columns of cosines and of sines, one per channel of
    the pair; inv_freq has one element per pair.
    """
    right = pecli.Rope(64, 16, layout="halves").tables()
    wrong = pecli.Rope(64, 16, layout="halves", base=500.0).tables()
    maps = maps_by_tensor(right, wrong)

    assert maps["cos"].columns == "channel"
    assert maps["sin"].columns == "channel"
    assert maps["inv_freq"].columns == "pair"


def test_the_map_of_a_bias_has_queries_as_rows_and_keys_as_columns() -> None:
    """The bias has 4 heads, each of which is a matrix."""
    bias = pecli.Alibi(heads=4, seq_len=8).tables()["bias"]
    errors = only_error_map({"bias": bias}, {"bias": bias / 2})
    assert errors.rows == "query"
    assert errors.columns == "key"
    assert errors.layers == 4


def test_a_relative_error_beside_infinity_is_infinite() -> None:
    """∞ − 1 is no share of ∞, and larger than any other; the number beside it is off by half."""
    expected = np.array([[np.inf, 0.5, 0.25]])
    found = np.array([[1.0, 0.75, 0.25]])
    map_of_x = maps_by_tensor({"x": expected}, {"x": found}, rtol=1e-4)["x"]

    assert map_of_x.errors.tolist() == [[np.inf, 0.5, 0.0]]
    assert map_of_x.found.tolist() == [[1.0, 0.75, 0.25]]


def test_cosines_and_sines_in_one_array_are_two_maps() -> None:
    """The columns of the array are [cos | sin], and 0.01 is added to the sines only."""
    tables = pecli.Rope(32, 16).tables()
    wrong_sines = tables["sin"] + np.float32(0.01)
    packed = np.concatenate([tables["cos"], wrong_sines], axis=1)
    result = pecli.verify(packed, pecli.Rope(32, 16), atol=1e-6, reasons=False)
    maps = {errors.name: errors for errors in error_maps(result.tensors[0])}

    assert list(maps) == ["cos_sin: cos", "cos_sin: sin"]
    assert maps["cos_sin: cos"].errors.max() == 0
    np.testing.assert_allclose(maps["cos_sin: sin"].errors, 0.01, atol=1e-6)
    np.testing.assert_array_equal(maps["cos_sin: sin"].expected, tables["sin"])


COS = pecli.Rope(seq_len=32, dim=16).tables()["cos"]
SIN = pecli.Rope(seq_len=32, dim=16).tables()["sin"]
TWO_TABLES = {"cos": COS, "sin": SIN}
ONE_ARRAY_OF_HALVES = {"freqs": np.concatenate([COS / 2, SIN / 2], axis=1)}
"""The columns [cos | sin] in one array, all of them half as large as in TWO_TABLES."""


@pytest.mark.parametrize(
    ("first_file", "second_file", "expected_cos", "found_cos"),
    [
        pytest.param(ONE_ARRAY_OF_HALVES, TWO_TABLES, COS / 2, COS, id="first file is split"),
        pytest.param(TWO_TABLES, ONE_ARRAY_OF_HALVES, COS, COS / 2, id="second file is split"),
    ],
)
def test_the_expected_side_is_the_first_file_whichever_was_split(
    first_file: dict[str, np.ndarray],
    second_file: dict[str, np.ndarray],
    expected_cos: np.ndarray,
    found_cos: np.ndarray,
) -> None:
    """An array [cos | sin] is split into cosines and sines to be compared with two tables. In the
    map of the cosines, «expected» is from the first file and «found» from the second.
    """
    difference = pecli.diff(first_file, second_file, reasons=False)
    errors_of_cos = next(error_maps(difference.tensors[0]))

    np.testing.assert_array_equal(errors_of_cos.expected, expected_cos)
    np.testing.assert_array_equal(errors_of_cos.found, found_cos)


def test_nan_and_infinity_are_infinitely_far_off() -> None:
    """A is all ones; B has NaN at (1, 2) and infinity at (3, 3). The error map is infinite at these
    two places only.
    """
    a = np.ones((4, 4))
    b = a.copy()
    b[1, 2] = np.nan
    b[3, 3] = np.inf
    errors = only_error_map(a, b).errors
    assert np.argwhere(np.isinf(errors)).tolist() == [[1, 2], [3, 3]]


def test_equal_tensors_have_no_map() -> None:
    """A 4 × 4 table is compared with itself; `error_maps` yields maps of errors, of which there are
    none.
    """
    a = np.ones((4, 4))
    (tensor,) = pecli.diff(a, a, reasons=False).tensors
    assert not list(error_maps(tensor))


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
    """Each number stands for a frequency: a, b, a, b are halves and a, a, b, b neighbours;
    otherwise a column is a pair.
    """
    errors = error_map_of("cos", np.tile(row, (9, 1)))
    assert errors.rows == "position"
    assert errors.columns == columns


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [
        pytest.param("x", (4, 4), ("position", "channel"), id="a square matrix"),
        pytest.param("bias", (4, 4), ("position", "channel"), id="a square bias"),
        pytest.param("bias", (2, 4, 5), ("query", "key"), id="heads of a bias"),
        pytest.param("x", (2, 5, 5), ("query", "key"), id="square matrices"),
        pytest.param("x", (2, 4, 5), ("position", "channel"), id="other matrices"),
        pytest.param("inv_freq", (4,), ("", "pair"), id="frequencies"),
        pytest.param("slopes", (4,), ("", "head"), id="slopes"),
        pytest.param("x", (4,), ("", "element"), id="a vector"),
    ],
)
def test_axes_are_named_by_the_tensor_and_its_shape(
    name: str, shape: tuple[int, ...], axes: tuple[str, str]
) -> None:
    """`name` is the tensor's. Matrices of a bias with heads, and square ones of any tensor of three
    axes, are query by key; others are position by channel. A vector has no rows.
    """
    errors = error_map_of(name, table=np.ones(shape))
    rows, columns = axes

    assert errors.rows == rows
    assert errors.columns == columns


@pytest.mark.parametrize(
    ("cells_down", "name"),
    [
        pytest.param(3, "position (maximum of 2 rows)", id="6 rows in 3 cells: 2 rows each"),
        pytest.param(4, "position (maximum of 2 rows)", id="6 rows in 4 cells: 1.5, rounded to 2"),
        pytest.param(5, "position", id="6 rows in 5 cells: 1.2, rounded to 1"),
        pytest.param(6, "position", id="6 rows in 6 cells"),
    ],
)
def test_a_terminal_states_how_many_rows_a_cell_of_an_error_map_stands_for(
    cells_down: int, name: str
) -> None:
    """A map of errors has at most `cells_down` cells below each other; each shows the largest error
    of its rows. The line below the map names the vertical axis, with the rows per cell: 6 divided
    by the cells and rounded. It is left out if that is 1.
    """
    comparison = pecli.diff(np.zeros((6, 2)), np.ones((6, 2))).tensors[0]
    picture = error_picture(comparison, rows=cells_down, columns=2)

    assert picture is not None
    line_below_the_map = terminal_render.lines(picture, Terminal())[-1]
    assert line_below_the_map.startswith(f"{name} ↓  channel →")


def test_the_map_of_errors_in_a_terminal_has_the_name_of_the_tensor_as_its_title() -> None:
    """Two files without names for their arrays are compared: A and B, with one tensor, «array»."""
    comparison = pecli.diff(np.zeros((6, 2)), np.ones((6, 2))).tensors[0]
    picture = error_picture(comparison, rows=6, columns=2)

    assert picture is not None
    assert picture.title == "|A − B| of array"


def test_a_map_counts_the_matrices_of_an_array_of_three_axes() -> None:
    """The array has two matrices of one element each."""
    two_matrices = np.array([[[1.0]], [[5.0]]])
    assert error_map_of("x", two_matrices).layers == 2


def test_a_map_counts_the_copies_of_a_table() -> None:
    """Three copies of Llama 2's cosines, 64 positions of 128 channels, are all 1 % too large."""
    cos = 1.01 * pecli.Rope(64, 128, layout="halves").tables()["cos"]
    result = pecli.verify({"cos": np.stack([cos] * 3)}, "llama-2-7b", Tolerance(atol=1e-3))
    assert next(error_maps(result.tensors[0])).layers == 3


def test_a_long_label_of_a_colour_bar_is_broken_into_lines_and_stays_on_the_paper() -> None:
    """Three copies of Llama 2's cosines are 1 % too large, and one element is NaN, so that the label
    explains blank cells, grey ones and the line at the tolerance. It has two lines and, as painted
    by matplotlib, reaches neither above nor below the paper.
    """
    cos = 1.01 * pecli.Rope(64, 128, layout="halves").tables()["cos"]
    cos[5, 3] = np.nan
    tables = {"cos": np.stack([cos] * 3)}
    result = pecli.verify(tables, "llama-2-7b", Tolerance(atol=1e-3), reasons=False)
    figure = render(comparison_picture([result]))
    figure.canvas.draw()
    label = figure.axes[-1].yaxis.label
    painted = label.get_window_extent()

    assert label.get_text().splitlines() == [
        "|expected − found|, none: blank, grey: not",
        "finite, line: tolerance 0.001",
    ]
    assert 0 <= painted.y0 < painted.y1 <= figure.bbox.y1


def test_the_worst_element_lies_in_the_marked_cell() -> None:
    """8192 rows are drawn in 192 cells of 8192 / 192 rows. The worst of two errors is at [3629,
    31]; its ring is at the middle of its cell, at most half a cell from row 3629.
    """
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


def axes_of(name: str, expected: np.ndarray, found: np.ndarray) -> tuple[str, str]:
    (tensor,) = pecli.diff({name: expected}, {name: found}, reasons=False).tensors
    (errors,) = error_maps(tensor)
    return errors.rows, errors.columns


WIDE = RNG.standard_normal((6, 4))


@pytest.mark.parametrize(
    ("name", "table", "axes"),
    [
        pytest.param("x", WIDE, ("position", "channel"), id="a matrix"),
        pytest.param("cos", WIDE, ("position", "pair"), id="cosines"),
        pytest.param("sin", np.tile(WIDE, 2), ("position", "channel"), id="sines twice in halves"),
        pytest.param(
            "cos",
            np.repeat(WIDE, 2, axis=1),
            ("position", "channel"),
            id="cosines twice side by side",
        ),
        pytest.param("cos", WIDE[:, :3], ("position", "pair"), id="cosines of 3 columns"),
        pytest.param("x", np.stack([WIDE, WIDE + 1]), ("position", "channel"), id="two matrices"),
        pytest.param(
            "x", RNG.standard_normal((2, 4, 4)), ("query", "key"), id="two square matrices"
        ),
        pytest.param(
            "bias", np.stack([WIDE, WIDE + 1]), ("query", "key"), id="two matrices of a bias"
        ),
        pytest.param("bias", WIDE, ("position", "channel"), id="one matrix of a bias"),
        pytest.param("inv_freq", WIDE[0], ("", "pair"), id="frequencies"),
        pytest.param("slopes", WIDE[0], ("", "head"), id="slopes"),
        pytest.param("x", WIDE[0], ("", "element"), id="a vector"),
    ],
)
def test_axes_are_named_by_the_table_and_its_columns(
    name: str, table: np.ndarray, axes: tuple[str, str]
) -> None:
    """WIDE is a matrix of 6 × 4 random numbers. Columns of cosines are pairs unless each is there
    twice, in halves or side by side; of two matrices, those of a bias are query by key, and so are
    square ones. A vector has no rows.
    """
    assert axes_of(name, table, table * 1.5) == axes


def test_a_map_of_several_axes_counts_the_matrices_of_all() -> None:
    """An array of 3 × 2 matrices has 6, over which a cell of the map is the worst; WIDE is one."""
    heads = RNG.standard_normal((3, 2, 6, 4))
    assert only_error_map(heads, heads + 1).layers == 6
    assert only_error_map(WIDE, WIDE + 1).layers == 1


@pytest.mark.parametrize(
    ("tolerance", "shown"),
    [
        pytest.param({"atol": 1e-3}, 1e-3, id="absolute"),
        pytest.param({"rtol": 1e-4}, 1e-4, id="relative"),
        pytest.param({"atol": 1e-3, "rtol": 1e-4}, 0, id="both"),
        pytest.param({"atol": 1e-3, "max_ulp": 1}, 0, id="absolute and ULPs"),
        pytest.param({}, 0, id="none"),
    ],
)
def test_a_tolerance_is_drawn_if_it_is_the_same_for_all_elements(
    tolerance: dict[str, float], shown: float
) -> None:
    """Two tables differ by 1. 0 stands for a tolerance that no contour can show: the sum of an
    absolute and a relative one, or ULPs, depends on the element.
    """
    assert maps_by_tensor(WIDE, WIDE + 1, **tolerance)["array"].tolerance == shown


def test_a_relative_tolerance_has_relative_errors() -> None:
    """With rtol only, errors are divided by the expected magnitudes: (3 − 2) / 2 and (5 − 4) / 4.
    Zeros that agree have none. With atol as well, errors are absolute.
    """
    expected = np.array([[2.0, 0.0], [-4.0, 1.0]])
    found = np.array([[3.0, 0.0], [-5.0, 1.0]])
    relative = maps_by_tensor(expected, found, rtol=1e-6)["array"]
    both = maps_by_tensor(expected, found, rtol=1e-6, atol=1e-6)["array"]

    assert relative.is_relative
    assert relative.errors.tolist() == [[0.5, 0], [0.25, 0]]
    assert not both.is_relative
    assert both.errors.tolist() == [[1, 0], [1, 0]]


def test_the_worst_place_is_the_middle_of_its_cell() -> None:
    """Of 8 rows in 2 cells, the first stands for rows 0 to 3, whose middle is 1.5, and the second
    for rows 4 to 7, whose middle is 5.5. The worst is at row 5, until row 0 holds NaN, which is
    worse than any error.
    """
    expected = np.zeros((8, 4))
    found = expected.copy()
    found[5, 2] = 3
    place = only_error_map(expected, found, rows=2, columns=4).worst
    assert place.row == 5.5
    assert place.column == 2

    found[0, 0] = np.nan
    assert only_error_map(expected, found, rows=2, columns=4).worst.row == 1.5
