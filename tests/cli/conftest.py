"""What tests of the command line share: each starts in an empty folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
