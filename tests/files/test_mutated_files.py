"""Every byte of small good files, changed: reading succeeds or raises a FileError, nothing else ever comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.files import SINGLE, save_tables
from tests.files.conftest import is_read, refusals

TABLES = [
    table_of("cos", np.cos(np.arange(6.0)).reshape(2, 3).astype(np.float32)),
    table_of("inv_freq", np.arange(3.0)),
    table_of("é", np.array([[True, False]])),
]
SPEC: dict[str, object] = {"scheme": "rope", "parameters": {"dim": 6}, "version": "0.1.0"}


def write_good(kind: str) -> None:
    if kind == "fortran.npy":
        np.save("good", np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8"))
        Path("good.npy").rename("good")
    elif kind == "deflated.npz":
        np.savez_compressed("good.npz", cos=np.arange(6.0).reshape(2, 3), b=np.zeros(50))
        Path("good.npz").rename("good")
    else:
        save_tables(f"good.{kind}", TABLES[:1] if kind in SINGLE else TABLES, SPEC)
        Path(f"good.{kind}").rename("good")


@pytest.mark.parametrize("kind", ["npy", "fortran.npy", "npz", "deflated.npz", "safetensors", "json", "csv"])
def test_every_byte_changed_removed_doubled_or_last(folder: Path, kind: str) -> None:
    write_good(kind)
    good = Path("good").read_bytes()
    name = "mutated.csv" if kind == "csv" else "mutated"
    others = {0, 0x20, 0x2C, 0x39, 0xFF}
    refused = refusals(good, name, others=lambda byte: {*others, byte ^ 1, byte ^ 0x80} - {byte})
    assert refused > len(good) // 4
    for place in range(len(good)):
        for data in (good[:place], good[:place] + good[place + 1 :], good[: place + 1] + good[place:]):
            Path(name).write_bytes(data)
            read = is_read(name)
            assert not (read and data == good[:place]) or kind in ("csv", "json")
    Path(name).write_bytes(good)
    assert is_read(name)
