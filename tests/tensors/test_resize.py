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
def test_kept_rows_stay_and_leading_axes_too(dtype: str) -> None:
    """One kept row and 6 x 5 cells are 31 rows."""
    given = TABLE_17_BY_4.astype(dtype)[None]
    made = resize(given, (6, 5), grid=(4, 4), keep=1)

    assert made.shape == (1, 31, 4)
    assert made.dtype == given.dtype
    assert np.array_equal(made[0, 0], given[0, 0])
    assert resize(given, (4, 4), grid=(4, 4), keep=1).tobytes() == given.tobytes()


def test_a_grid_is_rows_by_columns() -> None:
    """A table that depends on the column alone still does so."""
    cells = np.tile(np.arange(6.0), 3).reshape(18, 1)
    made = resize(cells, "5x12", grid="3x6", method="linear").reshape(5, 12)

    assert np.ptp(made, axis=0).max() < 1e-12
    assert np.allclose(made[0, 1:-1], (np.arange(1, 11) + 0.5) / 2 - 0.5)


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
    given = {"grid": grid, "method": "cubic", "antialias": antialias, "keep": 1}
    whole = resize(TABLE_17_BY_4, to, **given)

    for elements in (1, 30, 200):
        monkeypatch.setattr("pecli.tensors.resize._ELEMENTS", elements)
        assert resize(TABLE_17_BY_4, to, **given).tobytes() == whole.tobytes()


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, -1.7e308])
def test_nan_and_infinity_are_resized_without_a_warning(value: float) -> None:
    """Row 3 of 16 holds the value; the last of 5 rows is made of rows far from it. Warnings of
    NumPy are errors in tests.
    """
    array = np.ones((16, 4))
    array[3] = value
    made = resize(array, 5, method="cubic")

    assert np.isfinite(made[-1]).all()
    assert made.shape == (5, 4)


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
    """interpolate.json holds tables before and after torch's F.interpolate with the options of each
    case.
    """
    given = decoded(case["given"], case["old"])
    made = resize(given, tuple(case["new"]), grid=tuple(case["old"]), **options_of(case))

    # torch works out the places in float32: 128 rows · 2**-24 · a difference of 0.1 between neighbours
    assert np.abs(made - decoded(case["made"], case["new"])).max() < 1e-6


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), [(1, 7), (7, 1), (5, 5), (3, 100), (100, 3), (16, 24)])
def test_weights_of_an_interpolation_add_up_to_1(
    kernel: str, antialias: bool, old: int, new: int
) -> None:
    """Each new row is a weighted mean of old ones: weights add up to 1, and a table of 3 stays 3."""
    made = Interpolation(kernel, antialias).taps(old, new)
    assert np.abs(made.weights.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(made.apply(np.full((old, 2), 3.0)) - 3).max() < 1e-14
    assert made.rows.min() >= 0
    assert made.rows.max() < old


@pytest.mark.parametrize(
    ("kernel", "antialias"), [("linear", False), ("linear", True), ("cubic", True)]
)
def test_a_straight_line_stays_straight_inside(kernel: str, antialias: bool) -> None:
    """From 40 to 100 rows a slope of 1 becomes 40 / 100; ten rows at either end are affected by the
    border.
    """
    taps = Interpolation(kernel, antialias).taps(40, 100)
    made = taps.apply(np.arange(40.0)[:, None])[:, 0]

    assert np.abs(np.diff(made)[10:90] - 0.4).max() < 1e-12


def test_the_ends_stay_if_corners_are_aligned() -> None:
    """0, 1, 2, 3 is resized to 7 numbers, of which the first and last stay: 0, 0.5, …, 3, as
    SciPy's zoom(range(4), 7 / 4, order=1).
    """
    made = resize(np.arange(4.0)[:, None], 7, align_corners=True)[:, 0]
    assert made.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]


def test_slice_copies_the_first_cells_and_crop_the_middle_ones() -> None:
    """Cells of a grid of 4 x 5 are numbered from 0 to 19."""
    cells = np.arange(20.0)[:, None]
    corner = resize(cells, (2, 3), grid=(4, 5), method="slice")[:, 0]

    assert corner.tolist() == [0, 1, 2, 5, 6, 7]

    middle = resize(cells, (2, 3), grid=(4, 5), method="crop")[:, 0]
    assert middle.tolist() == [6, 7, 8, 11, 12, 13]


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
    ("way", "words"),
    [
        (Interpolation("cubic"), "cubic"),
        (Interpolation("linear", antialias=True), "linear with antialias"),
        (
            Interpolation("cubic", scale_offset=0.1),
            "cubic with scale factors of (size + 0.1) / old size",
        ),
    ],
)
def test_an_interpolation_is_described_in_words(way: Interpolation, words: str) -> None:
    """The words are those of reports."""
    assert str(way) == words


def test_a_single_row_with_aligned_corners_is_the_first_one() -> None:
    """torch.nn.functional.interpolate(…, align_corners=True) does so."""
    table = np.arange(8.0).reshape(4, 2)
    assert resize(table, 1, method="linear", align_corners=True).tolist() == [[0, 1]]


def test_two_rows_with_aligned_corners_are_the_ends() -> None:
    """Four rows are resized to two; aligned corners keep the first and the last row."""
    table = np.arange(8.0).reshape(4, 2)
    assert resize(table, 2, method="linear", align_corners=True).tolist() == [[0, 1], [6, 7]]
