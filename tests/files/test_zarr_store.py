"""Zarr stores hold the bytes of the table, however many processes write them and however often they are stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine import table as table_module
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files.save import save_scheme, save_tables
from pecli.files.zarr_store import chunk_shape, chunks_of

zarr = pytest.importorskip("zarr", reason="the extra pecli[zarr] is not installed")

SCHEME = pecli.Rope(1000, 64)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 1 << 14)  # 128 rows of cos


def files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def test_zarr_reads_what_was_written(tmp_path: Path) -> None:
    pecli.save(tmp_path / "t.zarr", SCHEME)
    group = zarr.open_group(tmp_path / "t.zarr", mode="r")
    for name, array in SCHEME.tables().items():
        assert group[name][...].tobytes() == array.tobytes()
    assert group.attrs["pecli"]["scheme"] == "rope"
    chunk = (tmp_path / "t.zarr/cos/c/1/0").read_bytes()
    assert chunk == SCHEME.tables()["cos"][128:256].tobytes()


def test_pecli_reads_what_zarr_wrote(tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    zarr.create_array(tmp_path / "t.zarr", data=array, chunks=(2, 4, 3))
    assert pecli.load(tmp_path / "t.zarr")["array"].tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(7,), (300, 5), (3, 50, 9), (40, 3, 2, 11), (1, 1)])
def test_any_shape_comes_back_whole_and_in_parts(tmp_path: Path, shape: tuple[int, ...], monkeypatch) -> None:
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 400)
    array = np.random.default_rng(0).standard_normal(shape)
    save_tables(str(tmp_path / "t.zarr"), [table_of("a", array)], None)
    from pecli.files import load_file

    with load_file(str(tmp_path / "t.zarr")) as file:
        (table,) = file.tables
        assert table.array().tobytes() == array.tobytes()
        rows = array.reshape(table.rows, table.width)
        for start in range(0, table.rows, 7):
            assert table.read(start, min(start + 13, table.rows)).tobytes() == rows[start : start + 13].tobytes()


def test_chunks_cover_every_row_once() -> None:
    for shape in ((7,), (300, 5), (3, 5000, 9), (40, 3, 20, 11), (4000, 4000), (8, 1 << 20)):
        table = Table("a", "float32", shape, lambda start, out: None)
        chunks = list(chunks_of(table))
        assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
        assert chunks[-1].stop == table.rows
        assert len(chunk_shape(table)) == len(shape)


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    pecli.save(tmp_path / "whole.zarr", SCHEME)

    class StoppedError(Exception):
        pass

    seen: list[int] = []

    def stop(table: Table, block: np.ndarray) -> None:
        seen.append(len(block))
        if len(seen) == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        save_scheme(str(tmp_path / "t.zarr"), SCHEME, on_block=stop)
    with pytest.raises(FileError, match="is not complete: 5 of 8 chunks of cos are missing"):
        pecli.verify(tmp_path / "t.zarr")
    seen.clear()
    save_scheme(str(tmp_path / "t.zarr"), SCHEME, on_block=lambda table, block: seen.append(len(block)))
    assert len(seen) == 5 + 8 + 1  # of cos, sin and inv_freq
    assert files(tmp_path / "t.zarr") == files(tmp_path / "whole.zarr")
    assert pecli.verify(tmp_path / "t.zarr").passed


def test_several_processes_write_one_store(tmp_path: Path) -> None:
    pecli.save(tmp_path / "whole.zarr", SCHEME)
    code = f"""
from pecli.engine import table; table.BLOCK_BYTES = {1 << 14}
from pecli.cli.app import run
import sys
import zlib
from collections.abc import Callable
raise SystemExit(run(["rope", "--seq-len", "1000", "--dim", "64", "-q", "-o", "t.zarr", "--rows", sys.argv[1]]))"""
    parts = ("0:256", "256:640", "640:1000", "256:640")  # one of them twice
    processes = [subprocess.Popen([sys.executable, "-c", code, rows], cwd=tmp_path) for rows in parts]
    assert [process.wait() for process in processes] == [0] * len(parts)
    assert files(tmp_path / "t.zarr") == files(tmp_path / "whole.zarr")


def test_a_changed_chunk_is_found(tmp_path: Path) -> None:
    pecli.save(tmp_path / "t.zarr", SCHEME)
    path = tmp_path / "t.zarr/sin/c/2/0"
    raw = bytearray(path.read_bytes())
    raw[4 * (5 * 32 + 7) + 2] ^= 0x40
    path.write_bytes(raw)
    result = pecli.verify(tmp_path / "t.zarr")
    assert not result.passed
    assert [(each.name, each.worst_index) for each in result.tensors if not each.passed] == [("sin", (261, 7))]


def test_what_a_store_cannot_take_is_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "t.zarr")
    with pytest.raises(ParameterError, match="a chunk has 128 rows"):
        save_scheme(store, SCHEME, rows="0:100")
    with pytest.raises(ParameterError, match=r"only a \.zarr store"):
        save_scheme(str(tmp_path / "t.npz"), SCHEME, rows="0:128")
    with pytest.raises(ParameterError, match=r"bfloat16; \.zarr cannot hold it"):
        save_scheme(store, pecli.Rope(4, 4, dtype="bfloat16"))
    assert list(tmp_path.iterdir()) == []
    pecli.save(store, SCHEME)
    with pytest.raises(FileError, match="a store of another table"):
        pecli.save(store, pecli.Rope(1000, 64, base=1e6))
    with pytest.raises(FileError, match="a store of another table"):
        pecli.save(store, {"cos": np.zeros(3)})


@pytest.mark.parametrize("text", ["", "{", json.dumps({"zarr_format": 3, "node_type": "array", "shape": [-1]})])
def test_broken_stores_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr/zarr.json").write_text(text)
    with pytest.raises(FileError, match="Zarr store") as problem:
        pecli.load(tmp_path / "t.zarr")
    assert "\n" not in str(problem.value)


def hostile(store: Path, chunk: bytes = bytes(64), **changes: object) -> Path:
    """A store of one chunk, by hand."""
    said = {"zarr_format": 2, "shape": [4, 4], "chunks": [4, 4], "dtype": "<f4", "compressor": None, "fill_value": 0}
    store.mkdir()
    (store / "0.0").write_bytes(chunk)
    (store / ".zarray").write_text(json.dumps({**said, "order": "C", "filters": None, **changes}))
    return store


def zstd_frame(size: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + bytes(9)


@pytest.mark.parametrize(
    ("chunk", "changes", "said"),
    [
        (zlib.compress(bytes(1 << 22)), {"compressor": {"id": "zlib", "level": 9}}, "zlib, which is not read"),
        (zstd_frame(1 << 31), {"compressor": {"id": "zstd", "level": 1}}, "not what its zstd header says"),
        (zstd_frame(64), {"compressor": {"id": "zstd", "level": 1}}, "a chunk cannot be read"),
        (b"x" * 64, {"compressor": {"id": "blosc"}}, "not what its blosc header says"),
        (bytes(64), {"shape": [10**9, 64]}, "chunks of array are missing"),
        (bytes(64), {"chunks": [0, 0]}, "store"),
        (bytes(8), {}, "a chunk cannot be read"),
    ],
)
def test_hostile_stores_are_refused(tmp_path: Path, chunk: bytes, changes: dict[str, object], said: str) -> None:
    with pytest.raises(FileError, match=said):
        pecli.load(hostile(tmp_path / "t.zarr", chunk, **changes))


@pytest.mark.parametrize("name", ["0.0", ".zarray"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_pipes_and_links_are_no_chunks(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    store = hostile(tmp_path / "t.zarr")
    (store / name).unlink()
    make(store / name)
    with pytest.raises(FileError, match="not a plain file"):
        pecli.load(store)


def test_a_url_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pecli.save("s3://bucket/t.zarr", SCHEME)
    assert (tmp_path / "s3:/bucket/t.zarr/zarr.json").is_file()
