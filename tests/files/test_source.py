"""Errors of an input are the input's: none is taken for one of the output, none undoes what is complete."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.errors import FileError


def fail(*words: object) -> None:
    raise OSError(5, "Input/output error")


def test_an_input_that_cannot_be_closed_has_been_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save("a.npy", np.arange(6.0))
    closed: list[int] = []
    really = os.close

    def close(descriptor: int) -> None:
        really(descriptor)
        closed.append(descriptor)
        fail()

    monkeypatch.setattr(os, "close", close)
    assert pecli.load("a.npy")["array"].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(closed) == 1


def test_an_input_that_cannot_be_looked_at_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save("a.npy", np.arange(6.0))
    before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        with pytest.raises(FileError, match=r"a\.npy: the disk reports an error"):
            pecli.load("a.npy")
    assert len(os.listdir("/dev/fd")) == before


def test_too_few_descriptors_are_one_line(folder: Path, process: Callable[..., Any]) -> None:
    """How many a command needs depends on how Python was installed: with few it works, or says so."""
    np.save("a.npy", np.arange(6.0))
    write = ("sinusoidal", "--seq-len", 8, "--dim", 4, "-o", folder / "b.npy")
    for limit in (5, 6, 8):
        for words in (("inspect", folder / "a.npy"), write):
            limits = (limit, limit)
            done = process(*words, preexec_fn=lambda limits=limits: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
            assert (done.returncode, done.stderr.count(b"\n")) in ((0, 0), (3, 1)), done
            assert done.returncode == 0 or b"too many files are open" in done.stderr


def test_a_fifo_for_a_branch_of_a_cache_is_not_waited_for(folder: Path, process: Callable[..., Any]) -> None:
    (folder / "hub/models--a--b/refs").mkdir(parents=True)
    os.mkfifo("hub/models--a--b/refs/main")
    done = process("config", "--model", "a/b", env={**os.environ, "HF_HUB_CACHE": str(folder / "hub")})
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done
