"""What the tests of files share: tables of every kind, and a spec."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pecli.engine.table import Table, table_of

SPEC = {"scheme": "rope", "parameters": {"base": 10000.0, "dim": 8, "note": "a*/b/*c"}, "version": "0.1.0"}
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
    return {"cos": cos, "inv_freq": 10000.0 ** -np.arange(0, 1, 0.25), "bias": np.sin(angles).reshape(2, 5, 4)}


@pytest.fixture
def tables(arrays: dict[str, NDArray[np.generic]]) -> list[Table]:
    return [table_of(name, array) for name, array in arrays.items()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
