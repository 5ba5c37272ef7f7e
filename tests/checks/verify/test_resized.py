"""Tables that were resized: the interpolation is named, and mistakes are."""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.errors import FileError, ParameterError
from pecli.tensors.interpolation import Interpolation
from tests.tensors.test_resize import CASES, case_name, decoded, options_of

GROWN_OR_SHRUNK = [case for case in CASES if case["old"] != case["new"]]
RNG = np.random.default_rng(7)
OLD = (RNG.standard_normal((1 + 5 * 6, 12)) * 0.02).astype(np.float32)
GRID = (5, 6)


def others_of(interpolation: Interpolation, case: dict[str, Any]) -> list[np.ndarray]:
    """Return what torch made of the same table with the same options: its rows."""
    tables = []
    for other in CASES:
        if other["given"] == case["given"] and Interpolation(**options_of(other)) == interpolation:
            tables.append(decoded(other["made"], other["new"]))
    return tables


@pytest.mark.parametrize("keep", [0, 1, 5])
@pytest.mark.parametrize("case", GROWN_OR_SHRUNK, ids=case_name)
@pytest.mark.sample(50)
def test_the_interpolation_of_torch_is_named(case: dict[str, Any], keep: int) -> None:
    kept = np.random.default_rng(keep).standard_normal((keep, 2)).astype(np.float32)
    old = np.concatenate((kept, decoded(case["given"], case["old"]))).astype(np.float32)
    torch_made = decoded(case["made"], case["new"])
    new = np.concatenate((kept, torch_made)).astype(np.float32)
    grid = tuple(case["old"])
    result = pecli.verify(new, resized_from=old, grid=grid, to=tuple(case["new"]), keep=keep)
    assert result.passed
    assert Interpolation(**options_of(case)) in result.interpolations
    # Others are named only if torch makes the same table with them.
    for interpolation in result.interpolations:
        for table in others_of(interpolation, case):
            assert np.abs(table - torch_made).max() < 1e-6


def resized(to: tuple[int, int] = (9, 8), **options: Any) -> np.ndarray:
    return pecli.resize(OLD, to, grid=GRID, keep=1, **options)


def verified(new: np.ndarray, **options: Any) -> Any:
    return pecli.verify(new, resized_from=OLD, grid=GRID, keep=1, **options)


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
def test_the_project_is_named(options: dict[str, Any], project: str, dtype: str) -> None:
    result = verified(resized(**options).astype(dtype))
    assert result.passed
    assert result.interpolations == (Interpolation(**options),)
    assert project in str(result)


def test_the_new_grid_is_found() -> None:
    """62 rows beside the class token may be 2x31 as well."""
    result = verified(resized((9, 8)))
    assert result.passed
    assert "5x6 → 9x8" in result.readings["array"]


@pytest.mark.parametrize("method", ["slice", "crop"])
def test_parts_of_a_grid_are_named(method: str) -> None:
    result = verified(resized((3, 4), method=method))
    assert result.interpolations == (Interpolation(method),)


def test_a_shorter_context_is_a_slice() -> None:
    result = pecli.verify(OLD[:20], resized_from=OLD)
    assert result.interpolations == (Interpolation("slice"),)


def column_by_column() -> np.ndarray:
    table = resized()
    cells = table[1:].reshape(9, 8, 12).swapaxes(0, 1).reshape(72, 12)
    return np.concatenate((table[:1], cells))


def with_other_first_row() -> np.ndarray:
    table = resized()
    table[0] = 0.5
    return table


MISTAKES = {
    "the new rows come column by column": column_by_column(),
    "the old rows are taken for 6x5": pecli.resize(OLD, (9, 8), grid=(6, 5), keep=1),
    "the new rows are made for 8x9": resized((8, 9)),
    "6x5 becomes 8x9": pecli.resize(OLD, (8, 9), grid=(6, 5), keep=1),
    "are resized as well": pecli.resize(OLD, 73),
    "are missing": resized()[1:],
    "are not the old ones": with_other_first_row(),
    "as if they were no grid": pecli.resize(OLD, 73, keep=1, method="cubic"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_named(words: str) -> None:
    result = verified(MISTAKES[words], to=(9, 8))
    assert not result.passed
    assert words in result.diagnosis[0]


def test_a_table_that_was_not_resized() -> None:
    result = pecli.verify(OLD[1:], resized_from=OLD[1:], grid=(5, 6), to=(6, 5))
    assert not result.passed
    assert "it is not resized" in result.diagnosis[0]


def test_another_interpolation_than_the_required_one() -> None:
    result = verified(resized(antialias=True), method="cubic")
    assert not result.passed
    expected = "it is resized by cubic with antialias, as in timm, open_clip and DINOv2 with registers, not by cubic"
    assert result.diagnosis[0] == expected


def test_the_required_interpolation_passes() -> None:
    assert verified(resized(antialias=True), method="cubic", antialias=True).passed


def test_a_grid_that_was_not_stated_is_proposed() -> None:
    old = OLD[:26]
    new = pecli.resize(old, (9, 9), grid=(5, 5), keep=1)
    result = pecli.verify(new, resized_from=old)
    assert not result.passed
    assert "add --grid 5x5 --keep 1" in result.diagnosis[0]


def test_unrelated_numbers_are_not_explained() -> None:
    noise = RNG.standard_normal((73, 12)).astype(np.float32)
    result = verified(noise)
    assert not result.passed
    assert result.interpolations == ()
    assert "no known interpolation makes this table" in result.diagnosis[0]


def test_a_table_that_holds_nan_fails() -> None:
    table = resized()
    table[5, 3] = np.nan
    assert not verified(table).passed


def test_a_table_that_shows_no_interpolation_is_weak() -> None:
    result = verified(OLD)
    assert result.passed
    assert "does not show which was used" in result.weak[0]


def test_json_has_the_options_that_reproduce_it() -> None:
    fields = verified(resized(antialias=True)).as_json()
    assert fields["interpolations"][0]["options"] == "--method cubic --antialias"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": (4, 4)}, "30 rows|31 rows"),
        ({"keep": 80}, "one must be left"),
        ({"to": (3, 3)}, "73 rows"),
        ({"antialias": True}, "belong to a method"),
        ({"offset": 3}, "does not go with a resized table"),
        ({"method": "lanczos"}, "method"),
    ],
    ids=["grid", "keep", "to", "no method", "offset", "unknown"],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    given = {"grid": GRID, "keep": 1, **options}
    with pytest.raises(ParameterError, match=words):
        pecli.verify(resized(), resized_from=OLD, **given)


def test_several_tables_must_be_named() -> None:
    with pytest.raises(FileError, match="name one"):
        pecli.verify({"a": OLD, "b": OLD}, resized_from=OLD)


def test_a_model_does_not_go_with_it() -> None:
    with pytest.raises(ParameterError, match="leave it out"):
        pecli.verify(OLD, "gpt2", resized_from=OLD)
