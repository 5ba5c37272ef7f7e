"""Learned tables of positions change their length by interpolation, and nothing else.

Rows are positions, or cells of a grid in row order after `keep` rows for other tokens. Expected
values are results of torch.nn.functional.interpolate stored in interpolate.json, and properties of
interpolation: constants and straight lines stay.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.errors import ParameterError
from pecli.tensors.interpolation import Interpolation
from pecli.tensors.resize import resize

TABLE_17_BY_4 = np.random.default_rng(3).standard_normal((17, 4)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_row_of_a_class_token_stays_and_dtype_and_leading_axes_too(dtype: str) -> None:
    """A table of a vision model has a row for its class token (keep 1) and 4 x 4 cells; resized to
    6 x 5 cells it has 1 + 30 rows.
    """
    table = TABLE_17_BY_4.astype(dtype)[None]
    resized = resize(table, (6, 5), grid=(4, 4), keep=1)

    assert resized.shape == (1, 1 + 6 * 5, 4)
    assert resized.dtype == table.dtype
    assert np.array_equal(resized[0, 0], table[0, 0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_table_that_is_resized_to_its_own_size_stays_byte_by_byte(dtype: str) -> None:
    """The table has a row that is kept, and 4 x 4 cells."""
    table = TABLE_17_BY_4.astype(dtype)[None]
    assert resize(table, (4, 4), grid=(4, 4), keep=1).tobytes() == table.tobytes()


def test_the_cells_of_a_grid_are_in_row_order() -> None:
    """3 x 6 cells hold the number of their column, 0 to 5. Resized to 5 x 12, they still depend on the
    column only: the centre of column j is at (j + 0.5) · 6 / 12 − 0.5 of the old ones, except for the
    two at the border, where there is nothing to interpolate.
    """
    cells = np.tile(np.arange(6.0), 3).reshape(18, 1)
    resized = resize(cells, "5x12", grid="3x6", method="linear").reshape(5, 12)
    inner_columns = np.arange(1, 11)

    assert np.ptp(resized, axis=0).max() < 1e-12
    assert np.allclose(resized[0, 1:-1], (inner_columns + 0.5) * 6 / 12 - 0.5)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(
    ("grid", "to"), [((4, 4), (6, 5)), ((16, 1), (37, 1)), ((16, 1), (3, 1)), ((2, 8), (9, 2))]
)
def test_the_size_of_blocks_changes_no_byte_of_a_resized_table(
    grid: tuple[int, int], to: tuple[int, int], antialias: bool, monkeypatch
) -> None:
    """Large tables are resized in blocks; with 1, 30 and 200 elements per block the bytes are those
    of one block.
    """
    options = {"grid": grid, "method": "cubic", "antialias": antialias, "keep": 1}
    in_one_block = resize(TABLE_17_BY_4, to, **options)

    for elements in (1, 30, 200):
        monkeypatch.setattr("pecli.tensors.resize._ELEMENTS", elements)
        assert resize(TABLE_17_BY_4, to, **options).tobytes() == in_one_block.tobytes()


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, -1.7e308])
def test_nan_infinity_and_overflow_stay_near_their_row_and_cause_no_warning(value: float) -> None:
    """Row 3 of 16 holds the value; the last of 5 rows is made of rows far from it, and must be finite.
    Warnings of NumPy are errors in tests.
    """
    array = np.ones((16, 4))
    array[3] = value
    resized = resize(array, 5, method="cubic")

    assert resized.shape == (5, 4)
    assert np.isfinite(resized[-1]).all()


INTERPOLATED_BY_TORCH = json.loads(Path(__file__).with_name("interpolate.json").read_text("ascii"))[
    "cases"
]


def decoded(text: str, grid: list[int]) -> np.ndarray:
    return (
        np.frombuffer(base64.b64decode(text), "<f4")
        .reshape(grid[0] * grid[1], 2)
        .astype(np.float64)
    )


METHODS = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "nearest": "nearest"}


def options_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `resize` that are torch's options of a case."""
    options = {"method": METHODS[case["mode"]], "antialias": case["antialias"]}
    for name in ("align_corners", "scale_offset"):
        if name in case:
            options[name] = case[name]
    return options


def case_name(case: dict[str, Any]) -> str:
    words = [case["mode"]]
    for name in ("antialias", "align_corners", "scale_offset"):
        if case.get(name):
            words.append(name)
    return f"{'-'.join(words)}-{case['old']}-{case['new']}"


@pytest.mark.parametrize("case", INTERPOLATED_BY_TORCH, ids=case_name)
def test_a_table_is_resized_as_torch_interpolates_it(case: dict[str, Any]) -> None:
    """interpolate.json has cases of torch.nn.functional.interpolate: a table (`given`, in base 64) of
    the grid `old`, the options, and the table that torch made (`made`) for the grid `new`. torch
    computes places in float32: up to 128 rows, off by 2^-24 each, times 0.1 between neighbours, are
    less than 1e-6.
    """
    table = decoded(case["given"], case["old"])
    by_torch = decoded(case["made"], case["new"])
    resized = resize(table, tuple(case["new"]), grid=tuple(case["old"]), **options_of(case))

    assert np.abs(resized - by_torch).max() < 1e-6


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), [(1, 7), (7, 1), (5, 5), (3, 100), (100, 3), (16, 24)])
def test_weights_of_an_interpolation_add_up_to_1(
    kernel: str, antialias: bool, old: int, new: int
) -> None:
    """`taps` are the rows of which each new row is a weighted mean: weights add up to 1, a table of
    threes stays one, and all are rows of the old table.
    """
    taps = Interpolation(kernel, antialias).taps(old, new)
    assert np.abs(taps.weights.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(taps.apply(np.full((old, 2), 3.0)) - 3).max() < 1e-14
    assert taps.rows.min() >= 0
    assert taps.rows.max() < old


@pytest.mark.parametrize(
    ("kernel", "antialias"), [("linear", False), ("linear", True), ("cubic", True)]
)
def test_a_straight_line_stays_straight_inside(kernel: str, antialias: bool) -> None:
    """From 40 to 100 rows a slope of 1 becomes 40 / 100; ten rows at either end are affected by the
    border.
    """
    taps = Interpolation(kernel, antialias).taps(40, 100)
    resized = taps.apply(np.arange(40.0)[:, None])[:, 0]
    slopes = np.diff(resized)

    assert np.abs(slopes[10:90] - 40 / 100).max() < 1e-12


def test_the_ends_stay_if_corners_are_aligned() -> None:
    """0, 1, 2, 3 is resized to 7 numbers, of which the first and last stay: 0, 0.5, …, 3, as
    SciPy's zoom(range(4), 7 / 4, order=1).
    """
    resized = resize(np.arange(4.0)[:, None], 7, align_corners=True)[:, 0]
    assert resized.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]


def test_slice_copies_the_first_cells_and_crop_the_middle_ones() -> None:
    """Cells of a grid of 4 x 5 are numbered from 0 to 19."""
    cells = np.arange(20.0)[:, None]
    corner = resize(cells, (2, 3), grid=(4, 5), method="slice")[:, 0]

    assert corner.tolist() == [0, 1, 2, 5, 6, 7]

    middle = resize(cells, (2, 3), grid=(4, 5), method="crop")[:, 0]
    assert middle.tolist() == [6, 7, 8, 11, 12, 13]


def test_the_last_of_millions_of_rows_is_a_copy_of_the_last_old_row() -> None:
    """torch computes the old row in float32: 3 / 14,777,224 · 14,777,223 is rounded up to 3.0, and there
    is no row 3 of 3 rows. It takes the last row, 2.
    """
    count = 14_777_224
    nearest = Interpolation("nearest").taps(3, count, part=slice(count - 1, count))

    assert np.float32(3) / np.float32(count) * np.float32(count - 1) == 3
    assert nearest.rows.tolist() == [[2]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "slice"}, "cannot make 9"),
        ({"method": "nearest", "antialias": True}, "nearest copies rows"),
        ({"method": "linear", "align_corners": True, "scale_offset": 0.1}, "leave out one"),
        ({"method": "linear", "scale_offset": -1.0}, "scale_offset"),
        ({"method": "lanczos"}, "method"),
    ],
    ids=["slice", "copies", "two ratios", "negative", "unknown"],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], words: str) -> None:
    """Nine rows of four: slice only shortens, nearest has nothing to smooth, two options state the
    same ratio, a negative offset, and a method that is not known.
    """
    with pytest.raises(ParameterError, match=words):
        resize(np.zeros((4, 2)), 9, **options)


@pytest.mark.parametrize(
    ("interpolation", "words"),
    [
        pytest.param(Interpolation("cubic"), "cubic", id="cubic"),
        pytest.param(
            Interpolation("linear", antialias=True),
            "linear with antialias",
            id="linear with antialias",
        ),
        pytest.param(
            Interpolation("cubic", scale_offset=0.1),
            "cubic with scale factors of (size + 0.1) / old size",
            id="cubic with an offset",
        ),
    ],
)
def test_an_interpolation_is_described_in_words(interpolation: Interpolation, words: str) -> None:
    """Reports show its `str`."""
    assert str(interpolation) == words


def test_a_single_row_with_aligned_corners_is_the_first_one() -> None:
    """torch.nn.functional.interpolate(…, align_corners=True) does so."""
    table = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    assert resize(table, 1, method="linear", align_corners=True).tolist() == [[0, 1]]


def test_two_rows_with_aligned_corners_are_the_ends() -> None:
    """Four rows are resized to two; aligned corners keep the first and the last row."""
    table = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    assert resize(table, 2, method="linear", align_corners=True).tolist() == [[0, 1], [6, 7]]
