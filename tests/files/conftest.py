"""What the tests of files share: tables of every kind, and a spec."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pecli.engine.table import Table, table_of
from pecli.errors import FileError
from pecli.files.load import load_file

SPEC = {
    "scheme": "rope",
    "parameters": {"base": 10000.0, "dim": 8, "note": "a*/b/*c"},
    "version": "0.1.0",
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
"""Of a process that imports the same pecli."""


@pytest.fixture
def spec() -> dict[str, object]:
    return dict(SPEC)


@pytest.fixture
def arrays() -> dict[str, NDArray[np.generic]]:
    """Tensors of several shapes and dtypes, infinities among them."""
    angles = np.arange(40.0).reshape(10, 4)
    cos = np.cos(angles).astype(np.float32)
    cos[3, 1:] = [-np.inf, np.inf, -0.0]
    return {
        "cos": cos,
        "inv_freq": 10000.0 ** -np.arange(0, 1, 0.25),
        "bias": np.sin(angles).reshape(2, 5, 4),
    }


@pytest.fixture
def tables(arrays: dict[str, NDArray[np.generic]]) -> list[Table]:
    return [table_of(name, array) for name, array in arrays.items()]


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_read(path: str) -> bool:
    """Return True if a file is read, with its data and checksums.

    Otherwise it must be refused by a FileError of one line with fewer than 300 letters.
    """
    try:
        loaded = load_file(path)
        for array in loaded.tensors.values():
            array.copy()
    except FileError as error:
        message = str(error)
    else:
        return True
    assert "\n" not in message
    assert len(message) < 300
    return False


def count_refused_mutations(
    good: bytes,
    path: str,
    step: int,
    replacements: Callable[[int], Iterable[int]] = lambda byte: [byte ^ 1],
) -> int:
    """Return how many files are refused that differ from a good one in one byte.

    Every `step`-th byte is replaced, in turn, by each of `replacements(byte)`.
    """
    refused = 0
    for place in range(0, len(good), step):
        for replacement in replacements(good[place]):
            # A file that is emptied first would be synchronised to the disk, which takes time.
            mode = "r+b" if os.path.exists(path) else "wb"
            with open(path, mode) as file:
                file.write(good[:place] + bytes([replacement]) + good[place + 1 :])
                file.truncate()
            refused += not is_read(path)
    return refused
