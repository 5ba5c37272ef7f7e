"""Learned tables that were resized to another grid: the interpolation is named, and mistakes are.

Most tables are torch's (F.interpolate, see tests/tensors/data); others are pecli.resize's, which
tests/tensors/test_resize.py holds against torch. The old table is a random grid of 5 × 6 rows
behind one row for the class token.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.verify.resizing_ways import describe_ways
from pecli.errors import FileError, ParameterError
from pecli.tensors.interpolation import Interpolation, known_interpolations
from tests.tensors.test_resize import INTERPOLATED_BY_TORCH, case_name, decoded, options_of

GROWN_OR_SHRUNK = [case for case in INTERPOLATED_BY_TORCH if case["old"] != case["new"]]
RNG = np.random.default_rng(7)
OLD_TABLE = (RNG.standard_normal((1 + 5 * 6, 12)) * 0.02).astype(np.float32)
GRID = (5, 6)


APPENDED = {
    "repeated": (
        np.concatenate((OLD_TABLE, OLD_TABLE[:9])),
        "repeat it",
    ),
    "zeros": (np.concatenate((OLD_TABLE, np.zeros((9, 12), np.float32))), "are others"),
    "drawn": (np.concatenate((OLD_TABLE, OLD_TABLE[:9] + np.float32(0.01))), "are others"),
}
"""Tables of 40 rows, of which the first 31 are those of OLD_TABLE, and words for the others."""


@pytest.mark.parametrize(("table", "rest"), APPENDED.values(), ids=APPENDED)
def test_rows_that_are_appended_to_the_old_ones_are_named(table: np.ndarray, rest: str) -> None:
    """Rows are appended to the old table by NumPy, instead of resizing it. The old rows stay as they
    are, to the last bit.
    """
    result = pecli.verify(table, resized_from=OLD_TABLE)

    assert not result.passed
    assert result.diagnosis == (
        f"it begins with the old table, unchanged, and not resized; the rows after {rest}",
    )


def test_old_rows_with_another_last_bit_are_not_called_unchanged() -> None:
    """The last element of the old rows differs by one unit in the last place."""
    table = np.concatenate((OLD_TABLE, OLD_TABLE[:9]))
    table[30, 11] = np.nextafter(table[30, 11], np.float32(1))
    assert "unchanged" not in str(pecli.verify(table, resized_from=OLD_TABLE))


def tables_of_torch(interpolation: Interpolation, case: dict[str, Any]) -> list[np.ndarray]:
    """Return the tables that torch made of the same old table with an interpolation."""
    tables = []
    for other in INTERPOLATED_BY_TORCH:
        if other["given"] == case["given"] and Interpolation(**options_of(other)) == interpolation:
            tables.append(decoded(other["made"], other["new"]))
    return tables


def verify_table_of_torch(case: dict[str, Any], keep: int) -> Any:
    """Verify the new table that torch made of an old one, behind `keep` random rows in both."""
    kept = np.random.default_rng(keep).standard_normal((keep, 2)).astype(np.float32)
    old = np.concatenate((kept, decoded(case["given"], case["old"]))).astype(np.float32)
    new = np.concatenate((kept, decoded(case["made"], case["new"]))).astype(np.float32)
    old_grid, new_grid = tuple(case["old"]), tuple(case["new"])
    return pecli.verify(new, resized_from=old, grid=old_grid, to=new_grid, keep=keep)


@pytest.mark.parametrize("keep", [0, 1, 5])
@pytest.mark.parametrize("case", GROWN_OR_SHRUNK, ids=case_name)
@pytest.mark.sample(24)
def test_the_interpolation_of_torch_is_named(case: dict[str, Any], keep: int) -> None:
    """Each case of GROWN_OR_SHRUNK has a table of a small grid, the table that torch's F.interpolate
    made of it for another grid (tests/tensors/data), and torch's options, such as bicubic with
    antialiasing. `keep` rows before the grid, as that of a class token, stay as they are.
    """
    result = verify_table_of_torch(case, keep)

    assert result.passed
    assert Interpolation(**options_of(case)) in result.interpolations


@pytest.mark.parametrize("keep", [0, 1, 5])
@pytest.mark.parametrize("case", GROWN_OR_SHRUNK, ids=case_name)
@pytest.mark.sample(24)
def test_another_interpolation_is_named_only_if_torch_makes_the_same_table_with_it(
    case: dict[str, Any], keep: int
) -> None:
    """Some interpolations make the same table, such as linear with and without antialiasing if a grid
    grows. Each case of GROWN_OR_SHRUNK is a table that torch made; if other interpolations are
    named as well, torch's tables by them (`tables_of_torch`) differ from it by rounding only.
    """
    made = decoded(case["made"], case["new"])
    for interpolation in verify_table_of_torch(case, keep).interpolations:
        for table in tables_of_torch(interpolation, case):
            # torch computes places in float32. Of up to 128 rows, they are off by 128 · 2^-24
            # = 8e-6 rows, and neighbouring values are about 0.1 apart: 8e-7.
            assert np.abs(table - made).max() < 1e-6


def resized_old_table(to: tuple[int, int] = (9, 8), **options: Any) -> np.ndarray:
    return pecli.resize(OLD_TABLE, to, grid=GRID, keep=1, **options)


def verify_against_old_table(new: np.ndarray, **options: Any) -> Any:
    return pecli.verify(new, resized_from=OLD_TABLE, grid=GRID, keep=1, **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("options", "project"),
    [
        ({"method": "cubic"}, "transformers"),
        ({"method": "cubic", "antialias": True}, "timm"),
        ({"method": "cubic", "scale_offset": 0.1}, "DINO"),
        ({"method": "linear", "align_corners": True}, "Qwen3-VL"),
        ({"method": "nearest"}, "TimeSformer"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_interpolation_is_named_with_the_project_that_uses_it(
    options: dict[str, Any], project: str, dtype: str
) -> None:
    """The options are those in the project's own code: timm resizes by cubic with antialias, for
    example. `resized_old_table` resizes a grid of 5 × 6 rows to 9 × 8 with them.
    """
    result = verify_against_old_table(resized_old_table(**options).astype(dtype))
    assert result.passed
    assert result.interpolations == (Interpolation(**options),)
    assert project in str(result)


def test_the_new_grid_is_found_from_the_values() -> None:
    """The old table, a class token and 5 × 6 patches, was resized to 9 × 8 patches. The 72 new rows
    could also be 8 × 9 or 6 × 12; the check is not given the new grid.
    """
    result = verify_against_old_table(resized_old_table(to=(9, 8)))
    assert result.passed
    assert "5x6 → 9x8" in result.readings["array"]


@pytest.mark.parametrize("method", ["slice", "crop"])
def test_a_slice_or_a_crop_of_a_grid_is_named(method: str) -> None:
    """The old table has 5 × 6 rows, the new one 3 × 4 of them: the first of each axis (slice), or
    the middle (crop).
    """
    result = verify_against_old_table(resized_old_table(to=(3, 4), method=method))
    assert result.interpolations == (Interpolation(method),)


def test_the_first_rows_of_a_table_are_named_as_a_slice() -> None:
    """The new table has the first 20 of 31 rows, as is done for a shorter context."""
    result = pecli.verify(OLD_TABLE[:20], resized_from=OLD_TABLE)
    assert result.interpolations == (Interpolation("slice"),)


def column_by_column() -> np.ndarray:
    table = resized_old_table()
    cells = table[1:].reshape(9, 8, 12).swapaxes(0, 1).reshape(72, 12)
    return np.concatenate((table[:1], cells))


def with_other_first_row() -> np.ndarray:
    table = resized_old_table()
    table[0] = 0.5
    return table


MISTAKES_OF_RESIZING = {
    "the new rows come column by column": column_by_column(),
    "the old rows are taken for 6x5": pecli.resize(OLD_TABLE, (9, 8), grid=(6, 5), keep=1),
    "the new rows are made for 8x9": resized_old_table((8, 9)),
    "6x5 becomes 8x9": pecli.resize(OLD_TABLE, (8, 9), grid=(6, 5), keep=1),
    "are resized as well": pecli.resize(OLD_TABLE, 73),
    "are missing": resized_old_table()[1:],
    "are not the old ones": with_other_first_row(),
    "as if they were no grid": pecli.resize(OLD_TABLE, 73, keep=1, method="cubic"),
}


@pytest.mark.parametrize("words", MISTAKES_OF_RESIZING)
def test_a_mistake_of_resizing_is_named(words: str) -> None:
    """The old table is a grid of 5 × 6 after one row for the class token; the new one should be
    1 + 9 · 8 rows. MISTAKES_OF_RESIZING has tables with a mistake, such as a class token that is
    missing, by the words that name it.
    """
    result = verify_against_old_table(MISTAKES_OF_RESIZING[words], to=(9, 8))
    assert not result.passed
    assert words in result.diagnosis[0]


def test_a_table_that_was_not_resized_is_named() -> None:
    """5 × 6 rows should have become 6 × 5, but are the old ones. Both have 30 rows, so that the
    shape does not show it.
    """
    result = pecli.verify(OLD_TABLE[1:], resized_from=OLD_TABLE[1:], grid=(5, 6), to=(6, 5))
    assert not result.passed
    assert "it is not resized" in result.diagnosis[0]


def test_another_interpolation_than_the_required_one_fails_and_is_named() -> None:
    """The table is resized by cubic with antialias, as timm does, and the check requires cubic
    without it.
    """
    result = verify_against_old_table(resized_old_table(antialias=True), method="cubic")
    assert not result.passed

    expected = "it is resized by cubic with antialias, as in timm, open_clip and DINOv2 with registers, not by cubic"
    assert result.diagnosis[0] == expected


def test_the_required_interpolation_passes() -> None:
    """The table was resized by cubic (the default) with antialias, which the check requires."""
    new = resized_old_table(antialias=True)
    assert verify_against_old_table(new, method="cubic", antialias=True).passed


def test_a_grid_that_was_not_stated_is_proposed() -> None:
    """The old table has 26 rows: one of a class token and a grid of 5 × 5, which was resized to 9 ×
    9. Without --grid it is taken for 26 positions in a line, and fails with this advice.
    """
    old = OLD_TABLE[:26]
    new = pecli.resize(old, (9, 9), grid=(5, 5), keep=1)
    result = pecli.verify(new, resized_from=old)

    assert not result.passed
    assert "if the rows are a grid, add --grid HxW, and --keep N" in result.diagnosis[0]


def test_unrelated_numbers_are_not_explained() -> None:
    """The new table is noise in the shape of a resized table: 1 + 9 · 8 = 73 rows of 12
    channels.
    """
    noise = RNG.standard_normal((73, 12)).astype(np.float32)
    result = verify_against_old_table(noise)

    assert not result.passed
    assert result.interpolations == ()
    assert "no known interpolation makes this table" in result.diagnosis[0]


def test_a_table_that_holds_nan_fails() -> None:
    """One element of a table that was resized as it should be is NaN."""
    table = resized_old_table()
    table[5, 3] = np.nan

    assert not verify_against_old_table(table).passed


def test_a_table_that_shows_no_interpolation_is_weak() -> None:
    """The new table is the old one, which any interpolation to its own size makes; `weak` are
    remarks on a pass that proves little.
    """
    result = verify_against_old_table(OLD_TABLE)
    assert result.passed
    assert "does not show which was used" in result.weak[0]


def test_the_json_of_a_resized_table_has_the_options_that_reproduce_it() -> None:
    """The new table is the old one, resized with cubic interpolation and antialiasing. The JSON has
    the options with which `pecli resize` does the same.
    """
    fields = verify_against_old_table(resized_old_table(antialias=True)).as_json()
    assert fields["interpolations"][0]["options"] == "--method cubic --antialias"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"grid": (4, 4)},
            "the old table is of shape (31, 12); it has 31 rows, and 1 + 4x4 are 17; "
            "check `grid` and `keep`",
            id="an old grid of 16 rows",
        ),
        pytest.param(
            {"keep": 80},
            "keep is 80; the tables have 31 and 73 rows, and one must be left",
            id="more rows before the grid than there are",
        ),
        pytest.param(
            {"to": (3, 3)},
            "the new table is of shape (73, 12); it has 73 rows, and 1 + 3x3 are 10; "
            "check `grid` and `keep`",
            id="a new grid of 9 rows",
        ),
        pytest.param(
            {"antialias": True},
            "method is missing; antialias, align_corners and scale_offset belong to a method; "
            "add it, such as cubic",
            id="antialiasing without a method",
        ),
        pytest.param(
            {"offset": 3},
            "offset is given; it does not go with a resized table; leave it out",
            id="a first position",
        ),
        pytest.param(
            {"method": "lanczos"},
            "method is 'lanczos'; it must be one of linear, cubic, nearest, slice, crop",
            id="an unknown method",
        ),
    ],
)
def test_options_that_do_not_fit_the_tables_are_refused(
    options: dict[str, Any], message: str
) -> None:
    """The old table has 1 + 5 · 6 = 31 rows, the new one 1 + 9 · 8 = 73, as `grid` (5, 6) and `keep`
    1 state; 12 are the channels. Each case has one option that contradicts them or means nothing.
    """
    given = {"grid": (5, 6), "keep": 1, **options}
    with pytest.raises(ParameterError) as caught:
        pecli.verify(resized_old_table(to=(9, 8)), resized_from=OLD_TABLE, **given)
    assert str(caught.value) == message


def test_one_of_several_resized_tables_must_be_named() -> None:
    """Two tensors are verified against one old table: which of them was resized is not known."""
    with pytest.raises(FileError, match="name one"):
        pecli.verify({"a": OLD_TABLE, "b": OLD_TABLE}, resized_from=OLD_TABLE)


def test_a_model_is_refused_beside_a_resized_table() -> None:
    """The expected rows come from the old table (`resized_from`), so a model has no meaning."""
    with pytest.raises(ParameterError, match="leave it out"):
        pecli.verify(OLD_TABLE, "gpt2", resized_from=OLD_TABLE)


@pytest.mark.parametrize(("count", "are_named"), [(6, True), (7, False)])
def test_at_most_six_interpolations_are_named_as_making_the_same_table(
    count: int, are_named: bool
) -> None:
    """The first is named with the project that uses it, and each of the others after «and»; seven are
    «most».
    """
    first, *others = [*known_interpolations()][:count]
    words = describe_ways((first, *others))

    assert all(str(other) in words for other in others) == are_named
    assert (words == "as most interpolations make it") != are_named


def test_a_required_interpolation_is_not_weak_if_others_make_the_same_table() -> None:
    """The new table is the old one, which any interpolation to its own size makes. As cubic is
    required, that is all that can be asked; `weak` are remarks on a pass that proves little.
    """
    result = verify_against_old_table(OLD_TABLE, method="cubic")
    assert result.passed
    assert result.weak == ()


def test_the_table_of_which_there_are_several_is_named() -> None:
    """There are two tensors where one table is needed. Arrays have no file, so that the error names
    «the new table» or «the old table».
    """
    several = {"a": OLD_TABLE, "b": OLD_TABLE}
    with pytest.raises(FileError, match=r"^the new table: has 2 tensors: a, b; name one"):
        pecli.verify(several, resized_from=OLD_TABLE)
    with pytest.raises(FileError, match=r"^the old table: has 2 tensors: a, b; name one"):
        pecli.verify(OLD_TABLE, resized_from=several)


def test_the_only_learned_table_of_several_tensors_is_taken() -> None:
    """`pos_embed` is the name of a learned table, here the first 20 rows of the old one; `head` is
    not. With two learned tables, one has to be named.
    """
    tensors = {"head": np.ones((3, 5), np.float32), "pos_embed": OLD_TABLE[:20]}
    assert pecli.verify(tensors, resized_from=OLD_TABLE).passed

    both = {"pos_embed": OLD_TABLE, "wpe": OLD_TABLE}
    with pytest.raises(FileError, match="name one"):
        pecli.verify(both, resized_from=OLD_TABLE)


def test_resized_tables_of_different_widths_are_refused() -> None:
    """Resizing changes rows, and not the 12 columns of the old table."""
    with pytest.raises(ParameterError, match="of 6 columns; the old one's are 12"):
        pecli.verify(OLD_TABLE[:, :6], resized_from=OLD_TABLE)


def test_all_rows_but_one_may_be_kept() -> None:
    """Both tables have 31 rows; kept rows are not resized."""
    assert pecli.verify(OLD_TABLE, resized_from=OLD_TABLE, keep=30).passed


def test_keeping_all_rows_is_refused() -> None:
    """Both tables have 31 rows; if all are kept, none is left to be resized."""
    with pytest.raises(ParameterError, match="31 and 31 rows, and one must be left"):
        pecli.verify(OLD_TABLE, resized_from=OLD_TABLE, keep=31)


def test_a_number_of_rows_may_be_stated_without_a_grid() -> None:
    """31 positions in a line were resized to 20. That they became a grid of 4 × 5 cannot be checked
    without the old grid.
    """
    new = pecli.resize(OLD_TABLE, 20)
    assert pecli.verify(new, resized_from=OLD_TABLE, to=20).passed
    with pytest.raises(ParameterError, match="has 20 rows; a grid needs --grid, too"):
        pecli.verify(new, resized_from=OLD_TABLE, to="4x5")


def test_sizes_are_noted_for_grids_only() -> None:
    """31 positions in a line became 20, which the shapes show; a grid would be noted as 5x6
    → 9x8.
    """
    new = pecli.resize(OLD_TABLE, 20)
    reading = pecli.verify(new, resized_from=OLD_TABLE).readings["array"]
    assert "→" not in reading
    assert "31x1" not in reading


@pytest.mark.parametrize("to", [(11, 1), (1, 11)])
def test_a_grid_may_become_a_line(to: tuple[int, int]) -> None:
    """A grid of 5 × 6 was resized to 11 rows of one patch, or to one row of 11. Both have 11 rows
    in the table, and the right one is found from the values.
    """
    result = verify_against_old_table(resized_old_table(to))
    assert result.passed
    assert f"5x6 → {to[0]}x{to[1]}" in result.readings["array"]
