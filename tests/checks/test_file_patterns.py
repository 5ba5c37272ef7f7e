"""Patterns of files in a manifest of checks, such as d/*.npz:cos.

The folder of each test has d/a.npz, d/b.npz, c.npy and q[1].npy; expected files are listed by hand,
in order.
"""

from pathlib import Path

import pytest

from pecli.checks.file_patterns import find_files

CURRENT_FOLDER = ""
"""The folder from which `find_files` matches a pattern, if no other is given."""


@pytest.fixture(autouse=True)
def current_folder_with_four_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter a new folder that has d/a.npz, d/b.npz, c.npy and q[1].npy."""
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    for name in ("d/b.npz", "d/a.npz", "c.npy", "q[1].npy"):
        Path(name).write_text("x")


@pytest.mark.usefixtures("current_folder_with_four_files")
@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        pytest.param("*.npy", ["c.npy", "q[1].npy"], id="in the folder"),
        pytest.param("d/*.npz", ["d/a.npz", "d/b.npz"], id="in a folder of it"),
        pytest.param("**/b.npz", ["d/b.npz"], id="at any depth"),
    ],
)
def test_a_pattern_matches_files_in_alphabetical_order(pattern: str, files: list[str]) -> None:
    """The current folder has d/a.npz, d/b.npz, c.npy and q[1].npy."""
    assert find_files(CURRENT_FOLDER, pattern) == files


@pytest.mark.usefixtures("current_folder_with_four_files")
def test_the_tensor_behind_the_colon_of_a_pattern_is_that_of_each_file() -> None:
    """The current folder has d/a.npz and d/b.npz, and «:cos» names the tensor «cos» in both."""
    assert find_files(CURRENT_FOLDER, "d/*.npz:cos") == ["d/a.npz:cos", "d/b.npz:cos"]


@pytest.mark.parametrize("name", ["c.npy", "q[1].npy", "no*", "d*"])
def test_a_name_that_exists_or_matches_no_file_stays_as_it_is(name: str) -> None:
    """The files c.npy and q[1].npy exist, though the latter looks like a pattern; no* matches
    nothing, and d* only a folder.
    """
    assert find_files(CURRENT_FOLDER, name) == [name]


def test_a_pattern_that_ends_with_a_slash_matches_folders() -> None:
    """Besides files, the current folder has one folder, d; «d*/» matches folders only."""
    assert find_files(CURRENT_FOLDER, "d*/") == ["d/"]


@pytest.mark.parametrize(
    ("pattern", "files"), [("*.npz", ["a.npz", "b.npz"]), ("a.npz", ["a.npz"])]
)
def test_a_pattern_is_matched_from_a_given_folder(pattern: str, files: list[str]) -> None:
    """The folder d has a.npz and b.npz; `find_files` returns paths relative to it."""
    assert find_files("d", pattern) == files


def test_a_pattern_of_a_thousand_folders_matches_nothing() -> None:
    """Python's glob would exceed the limit of recursion on «*/*/*/…». `find_files` returns a
    pattern that matches nothing as it is.
    """
    pattern = f"{'*/' * 1000}*"
    assert find_files(CURRENT_FOLDER, pattern) == [pattern]


def test_a_pattern_of_more_than_a_hundred_folders_is_returned_as_it_is() -> None:
    """Python's glob recurses once per folder, so that patterns are limited to 100 folders. One of 101
    is not expanded, although it matches a file.
    """
    hundred_folders = "d/" * 100
    Path(hundred_folders, "d").mkdir(parents=True)
    for name in (f"{hundred_folders}a.npz", f"{hundred_folders}d/a.npz"):
        Path(name).write_text("x")
    of_100 = f"{hundred_folders}*.npz"
    of_101 = f"{hundred_folders}d/*.npz"

    assert find_files(CURRENT_FOLDER, of_100) == [f"{hundred_folders}a.npz"]
    assert find_files(CURRENT_FOLDER, of_101) == [of_101]
