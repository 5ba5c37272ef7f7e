"""Every byte of small good files, changed: reading succeeds or raises a FileError, nothing else ever comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import SINGLE, save_tables
from pecli.files.load import load_file

TABLES = [
    table_of("cos", np.cos(np.arange(6.0)).reshape(2, 3).astype(np.float32)),
    table_of("inv_freq", np.arange(3.0)),
    table_of("é", np.array([[True, False]])),
]
SPEC: dict[str, object] = {"scheme": "rope", "parameters": {"dim": 6}, "version": "0.1.0"}


def write_good(kind: str) -> None:
    Path("mutated").touch()
    if kind == "fortran.npy":
        np.save("good", np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8"))
        Path("good.npy").rename("good")
    elif kind == "deflated.npz":
        np.savez_compressed("good.npz", cos=np.arange(6.0).reshape(2, 3), b=np.zeros(50))
        Path("good.npz").rename("good")
    else:
        save_tables(f"good.{kind}", TABLES[:1] if kind in SINGLE else TABLES, SPEC)
        Path(f"good.{kind}").rename("good")


def outcome(data: bytes, name: str = "mutated") -> str:
    """How reading these bytes ends; any exception but a FileError fails the test."""
    with open(name, "r+b") as file:  # emptied first, it would be written to disk at every close
        file.write(data)
        file.truncate()
    try:
        with load_file(name) as loaded:
            for array in loaded.tensors.values():
                array.copy()
            loaded.check()
    except FileError as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("kind", ["npy", "fortran.npy", "npz", "deflated.npz", "safetensors"])
def test_every_byte_changed(folder: Path, kind: str) -> None:
    write_good(kind)
    good = Path("good").read_bytes()
    assert outcome(good) == "read"
    refusals = 0
    for place, byte in enumerate(good):
        for other in {0, 0x20, 0x39, 0xFF, byte ^ 1, byte ^ 0x80} - {byte}:
            refusals += outcome(good[:place] + bytes([other]) + good[place + 1 :]) != "read"
    assert refusals > len(good) // 4


@pytest.mark.parametrize("kind", ["npy", "fortran.npy", "npz", "deflated.npz", "safetensors"])
def test_every_byte_removed_doubled_or_last(folder: Path, kind: str) -> None:
    write_good(kind)
    good = Path("good").read_bytes()
    for place in range(len(good)):
        assert outcome(good[:place]) != "read"
        outcome(good[:place] + good[place + 1 :])
        outcome(good[: place + 1] + good[place:])


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_every_byte_of_text_changed(folder: Path, kind: str) -> None:
    write_good(kind)
    good = Path("good").read_bytes()
    Path("mutated").rename("mutated.csv") if kind == "csv" else None
    name = "mutated.csv" if kind == "csv" else "mutated"
    assert outcome(good, name) == "read"
    for place, byte in enumerate(good):
        for other in {0, 0x2C, 0x39, 0xFF, byte ^ 1} - {byte}:
            outcome(good[:place] + bytes([other]) + good[place + 1 :], name)
        outcome(good[:place], name)
