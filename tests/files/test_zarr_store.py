"""Zarr stores, folders with one file per chunk of an array, hold the bytes of the table, and appear
when they are complete.

The zarr package reads what pecli writes and writes what pecli reads; expected arrays are the tables
themselves, of a rope of 1,000 positions and 64 channels (32 columns). Blocks are made small, so
that a chunk has 128 rows, and the table 8 chunks.
"""

import json
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

import pecli
from pecli.engine import table as table_module
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files import save_tables
from pecli.files.zarr_store import chunk_shape

ROPE_1000_BY_64 = pecli.Rope(1000, 64)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 1 << 14)  # 128 rows of cos


def test_zarr_reads_what_was_written(tmp_path: Path) -> None:
    """The zarr package opens the group; a chunk has 128 rows."""
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    group = zarr.open_group(tmp_path / "t.zarr", mode="r")

    for name, array in ROPE_1000_BY_64.tables().items():
        assert group[name][...].tobytes() == array.tobytes()
    assert group.attrs["pecli"]["scheme"] == "rope"

    chunk = (tmp_path / "t.zarr/cos/c/1/0").read_bytes()
    assert chunk == ROPE_1000_BY_64.tables()["cos"][128:256].tobytes()


def test_arrays_of_any_shape_come_back_from_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pecli writes some shapes with chunks of 400 bytes; zarr itself writes one, in chunks that
    divide every axis.
    """
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 400)
    for number, shape in enumerate([(7,), (60, 5), (3, 20, 9), (8, 3, 2, 11), (7, 1), ()]):
        array = np.random.default_rng(0).standard_normal(shape)
        save_tables(str(tmp_path / f"{number}.zarr"), [table_of("a", array)], None)
        assert pecli.load(tmp_path / f"{number}.zarr")["a"].tobytes() == array.tobytes()

    array = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    zarr.create_array(tmp_path / "t.zarr", data=array, chunks=(2, 4, 3), compressors=None)
    assert pecli.load(tmp_path / "t.zarr")["array"].tobytes() == array.tobytes()


def test_without_zarr_installed_writing_a_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None in sys.modules makes `import zarr` fail."""
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ParameterError, match=r"^output is \.zarr; the zarr package"):
        pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)


def test_an_interrupted_store_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C after the first block; the folder must be empty, without a temporary store."""

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_tables(
            str(tmp_path / "t.zarr"),
            ROPE_1000_BY_64.tensors(),
            ROPE_1000_BY_64.spec(),
            on_block=stop,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_changed_chunk_fails_at_its_element_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    """A bit of element (5, 7) is flipped in the chunk that begins at row 256: row 5 of it is row
    261. 1,000 rows are 8 chunks of up to 128.
    """
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    path = tmp_path / "t.zarr/sin/c/2/0"
    raw = bytearray(path.read_bytes())
    raw[4 * (5 * 32 + 7) + 2] ^= 0x40
    path.write_bytes(raw)
    result = pecli.verify(tmp_path / "t.zarr")

    assert [(each.name, each.worst_index) for each in result.tensors if not each.passed] == [
        ("sin", (261, 7))
    ]

    path.unlink()
    with pytest.raises(FileError, match="is not complete: 1 of 8 chunks are missing"):
        pecli.verify(tmp_path / "t.zarr")


def test_bfloat16_is_not_written_to_a_store(tmp_path: Path) -> None:
    """Zarr has no such dtype; nothing may be left of the refused store."""
    with pytest.raises(ParameterError, match=r"bfloat16; \.zarr cannot hold it"):
        pecli.save(tmp_path / "t.zarr", pecli.Rope(4, 4, dtype="bfloat16"))
    assert list(tmp_path.iterdir()) == []


def test_an_array_without_elements_is_not_written_to_a_store(tmp_path: Path) -> None:
    """It would have no chunk."""
    with pytest.raises(ParameterError, match="at least one number"):
        save_tables(str(tmp_path / "t.zarr"), [table_of("a", np.zeros((0, 2)))], None)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    """A Zarr store is a folder, which cannot be replaced in one step as a file can: the second
    `save` is refused.
    """
    store = str(tmp_path / "t.zarr")
    pecli.save(store, ROPE_1000_BY_64)
    with pytest.raises(FileError, match="is there already; remove it"):
        pecli.save(store, ROPE_1000_BY_64)


@pytest.mark.parametrize(
    "text", ["", "{", json.dumps({"zarr_format": 3, "node_type": "array", "shape": [-1]})]
)
def test_a_store_with_broken_metadata_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    """Metadata that are empty, cut, or have a negative length: one line."""
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr/zarr.json").write_text(text)

    with pytest.raises(FileError, match="Zarr store") as problem:
        pecli.load(tmp_path / "t.zarr")
    assert "\n" not in str(problem.value)


def hostile_store(store: Path, chunk: bytes = bytes(64), **changes: object) -> Path:
    """A store of one chunk, by hand."""
    said = {
        "zarr_format": 2,
        "shape": [4, 4],
        "chunks": [4, 4],
        "dtype": "<f4",
        "compressor": None,
        "fill_value": 0,
    }
    store.mkdir()
    (store / "0.0").write_bytes(chunk)
    (store / ".zarray").write_text(json.dumps({**said, "order": "C", "filters": None, **changes}))
    return store


@pytest.mark.parametrize(
    ("chunk", "changes", "said"),
    [
        (
            zlib.compress(bytes(1 << 22)),
            {"compressor": {"id": "zlib", "level": 9}},
            "zlib, which is not read",
        ),
        (b"x" * 64, {"compressor": {"id": "zstd", "level": 1}}, "zstd, which is not read"),
        (b"x" * 64, {"compressor": {"id": "blosc"}}, "blosc, which is not read"),
        (bytes(64), {"shape": [10**9, 64]}, "more than 4,294,967,296 bytes"),
        (bytes(64), {"shape": [10**6, 64]}, "chunks are missing"),
        (bytes(64), {"chunks": [0, 0]}, "store"),
        (bytes(64), {"dtype": "<M8[s]"}, "dtype datetime64"),
        (bytes(8), {}, "missing, or of another size"),
    ],
)
def test_hostile_stores_are_refused(
    tmp_path: Path, chunk: bytes, changes: dict[str, object], said: str
) -> None:
    """The store is written by hand in Zarr's version 2, with one chunk and changed metadata:
    compressed chunks are not read (they could be bombs), and sizes must fit the files.
    """
    with pytest.raises(FileError, match=said):
        pecli.load(hostile_store(tmp_path / "t.zarr", chunk, **changes))


@pytest.mark.parametrize("name", ["0.0", ".zarray"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_pipes_and_links_are_no_chunks(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    """Reading /dev/zero or a pipe would never end."""
    store = hostile_store(tmp_path / "t.zarr")
    (store / name).unlink()
    make(store / name)

    with pytest.raises(FileError, match="not a plain file"):
        pecli.load(store)


def table_without_values(shape: tuple[int, ...]) -> Table:
    return Table("a", "float32", shape, lambda start, out: None)


def test_a_vector_has_chunks_of_one_block() -> None:
    """10^9 numbers in one chunk would have to fit into memory."""
    vector = table_without_values((10**9,))
    assert chunk_shape(vector) == (vector.block_rows(),)


def test_an_empty_axis_has_chunks_of_one_row() -> None:
    """A chunk needs at least one element along each axis: the lengths 3, 0 and 5 become 1, 1 and 5."""
    assert chunk_shape(table_without_values((3, 0, 5))) == (1, 1, 5)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ("{", "its metadata are not JSON"),
        ("[]", "its metadata are broken, or name a version, dtype or codec that is not known"),
        ('{"zarr_format": 9}', "its metadata are broken, or name a version"),
    ],
)
def test_damaged_metadata_are_reported_in_words_of_pecli(
    tmp_path: Path, metadata: str, reason: str
) -> None:
    """zarr's own messages are long and name its classes."""
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    (tmp_path / "t.zarr/zarr.json").write_text(metadata)

    with pytest.raises(pecli.FileError, match=reason):
        pecli.load(tmp_path / "t.zarr")


def test_a_store_without_metadata_is_refused(tmp_path: Path) -> None:
    """An empty folder whose name ends with .zarr."""
    (tmp_path / "t.zarr").mkdir()
    with pytest.raises(pecli.FileError, match="it has no metadata"):
        pecli.load(tmp_path / "t.zarr")


def test_a_store_without_arrays_is_refused(tmp_path: Path) -> None:
    """zarr makes an empty group."""
    zarr.open_group(tmp_path / "t.zarr", mode="w")
    with pytest.raises(FileError, match="has no arrays"):
        pecli.load(tmp_path / "t.zarr")


def test_an_array_that_is_stored_in_shards_is_refused(tmp_path: Path) -> None:
    """Zarr 3 can store several chunks in one file, a shard."""
    path = tmp_path / "t.zarr"
    array = zarr.create_array(
        path, shape=(8,), shards=(4,), chunks=(2,), dtype="f4", compressors=None
    )
    array[:] = 1
    with pytest.raises(FileError, match="array is stored with shards, which is not read"):
        pecli.load(path)
