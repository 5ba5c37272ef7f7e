""".npz files: read by NumPy and zipfile, and everything that NumPy writes read here."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files import save_tables
from pecli.files.load import load_file

Arrays = dict[str, NDArray[np.generic]]


def test_numpy_and_zipfile_read_it(folder: Path, arrays: Arrays, tables: list[Table], spec: dict[str, object]) -> None:
    save_tables("a.npz", tables, spec)
    with np.load("a.npz", allow_pickle=False) as loaded:
        assert sorted(loaded.files) == ["bias", "cos", "inv_freq", "pecli"]
        for name, array in arrays.items():
            assert np.array_equal(loaded[name], array)
        noted = json.loads(str(loaded["pecli"]))
    assert {key: noted[key] for key in spec} == spec
    order = [arrays[name] for name in ("bias", "inv_freq", "cos")]
    assert noted["sha256"] == hashlib.sha256(b"".join(array.tobytes() for array in order)).hexdigest()
    with zipfile.ZipFile("a.npz") as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    found = load_file("a.npz")
    found.check()
    assert list(found.tensors) == ["bias", "inv_freq", "cos"]
    assert all(np.array_equal(array, arrays[name]) for name, array in found.tensors.items())
    assert json.loads(found.metadata["pecli"]) == noted


def test_the_data_is_aligned(folder: Path, tables: list[Table], arrays: Arrays) -> None:
    save_tables("a.npz", tables, None)
    raw = Path("a.npz").read_bytes()
    for array in arrays.values():
        assert raw.index(array.tobytes()) % 64 == 0


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(folder: Path, arrays: Arrays, write: object) -> None:
    more = {
        **arrays,
        "größe/x": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "zeros": np.zeros((300, 1000), ">f4"),
    }
    write("a.npz", **more)  # type: ignore[operator]
    with load_file("a.npz") as loaded:
        assert set(loaded.tensors) == set(more)
        for name, array in loaded.tensors.items():
            assert np.array_equal(array, more[name])
        loaded.check()


def test_damage_is_found_by_the_checksum(folder: Path) -> None:
    for write in (np.savez, np.savez_compressed):
        write("a.npz", a=np.arange(1000.0))
        raw = bytearray(Path("a.npz").read_bytes())
        raw[500] ^= 1
        Path("a.npz").write_bytes(raw)
        with pytest.raises(FileError, match=r"member 'a\.npy' is damaged"):
            load_file("a.npz").check()


@pytest.mark.parametrize("name", ["pecli", "../a", "/a", "a\\b", "", "a/../b"])
def test_names_that_lead_elsewhere_are_not_written(folder: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="cannot be called that"):
        save_tables("a.npz", [table_of(name, np.zeros(2))], None)


def test_names_as_long_as_an_archive_has_room_for(folder: Path) -> None:
    longest = "ü" * 32_765 + "y"
    save_tables("a.npz", [table_of(longest, np.arange(3.0))], None)
    assert np.load("a.npz").files == [longest]
    with load_file("a.npz") as loaded:
        assert list(loaded.tensors) == [longest]
    with pytest.raises(ParameterError, match=r"at most 65,531 bytes; write \.safetensors"):
        save_tables("b.npz", [table_of(longest + "y", np.arange(3.0))], None)
    assert not Path("b.npz").exists()


def test_a_compressed_file_is_inspected_by_its_headers(folder: Path, pecli_cli) -> None:
    """Data that cannot be unpacked are no obstacle, until they are asked for."""
    np.savez_compressed("a.npz", a=np.random.default_rng(0).random((300, 40)))
    raw = bytearray(Path("a.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    Path("a.npz").write_bytes(raw)
    assert pecli_cli("inspect", "a.npz", "--json").json["tensors"][0]["shape"] == [300, 40]
    assert pecli_cli("inspect", "a.npz", "--stats").code == 3
