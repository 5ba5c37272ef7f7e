"""What tests share: running the command line in this process, and as a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pecli.cli.app import run


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def pecli_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command line in this process."""

    def call(*words: object) -> Outcome:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a command line as a process of its own, in an empty folder."""

    def call(*words: object, **settings: Any) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "pecli", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, **settings)

    return call
