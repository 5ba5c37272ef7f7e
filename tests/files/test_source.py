"""Errors of an input are the input's: none is taken for one of the output, none undoes what is complete."""

from __future__ import annotations

import os
from pathlib import Path

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
