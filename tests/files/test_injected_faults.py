"""A few of the faults that `python -m tests.tools.inject_faults` tries."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.tools.inject_faults import inject


def can_trace() -> bool:
    """Whether strace is there and may look into other processes."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
@pytest.mark.parametrize("writer", ["safetensors", "copy"])
def test_a_system_call_that_fails_leaves_the_old_file_or_the_new_one(writer: str) -> None:
    tried, wrong = inject([writer], most=6)
    assert tried >= 6
    assert not wrong
