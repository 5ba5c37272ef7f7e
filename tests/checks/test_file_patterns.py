"""Patterns of files in a manifest of checks, such as d/*.npz:cos.

The folder of each test has d/a.npz, d/b.npz, c.npy and q[1].npy; expected files are listed by hand,
in order.
"""

from pathlib import Path

import pytest

from pecli.checks.file_patterns import find_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    for name in ("d/b.npz", "d/a.npz", "c.npy", "q[1].npy"):
        Path(name).write_text("x")


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*.npy", ["c.npy", "q[1].npy"]),
        ("d/*.npz", ["d/a.npz", "d/b.npz"]),
        ("d/*.npz:cos", ["d/a.npz:cos", "d/b.npz:cos"]),
        ("**/b.npz", ["d/b.npz"]),
    ],
)
def test_a_pattern_matches_files_in_order(pattern: str, files: list[str]) -> None:
    """The folder has d/a.npz, d/b.npz, c.npy and q[1].npy; a tensor may be named after a colon."""
    assert find_files("", pattern) == files


@pytest.mark.parametrize("name", ["c.npy", "q[1].npy", "no*", "d*"])
def test_a_name_that_exists_or_matches_no_file_stays_as_it_is(name: str) -> None:
    """The files c.npy and q[1].npy exist, though the latter looks like a pattern; no* matches
    nothing, and d* only a folder.
    """
    assert find_files("", name) == [name]


def test_a_pattern_that_ends_with_a_slash_matches_folders() -> None:
    """Besides files, the current folder has one folder, d; «d*/» matches folders only."""
    assert find_files("", "d*/") == ["d/"]


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
    assert find_files("", pattern) == [pattern]


def test_a_pattern_may_have_a_hundred_folders() -> None:
    """Of 101 folders, it is a name that matches no file."""
    hundred = "d/" * 100
    Path(hundred, "d").mkdir(parents=True)
    for name in (f"{hundred}a.npz", f"{hundred}d/a.npz"):
        Path(name).write_text("x")

    assert find_files("", f"{hundred}*.npz") == [f"{hundred}a.npz"]
    assert find_files("", f"{hundred}d/*.npz") == [f"{hundred}d/*.npz"]
