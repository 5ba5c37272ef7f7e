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


BLOCK_BYTES = 16_384
"""Bytes of a block, and so of a chunk, in all tests of this file: 128 rows of 32 float32 numbers."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "BLOCK_BYTES", BLOCK_BYTES)


def test_the_zarr_package_reads_what_pecli_writes(tmp_path: Path) -> None:
    """The store is of a rope of 1,000 positions and 64 channels, and has its arrays and the scheme."""
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    group = zarr.open_group(tmp_path / "t.zarr", mode="r")

    for name, array in ROPE_1000_BY_64.tables().items():
        assert group[name][...].tobytes() == array.tobytes()
    assert group.attrs["pecli"]["scheme"] == "rope"


def test_a_chunk_of_a_store_is_a_file_with_the_rows_of_a_block(tmp_path: Path) -> None:
    """A rope of 64 channels has 32 columns of float32, so that a block of BLOCK_BYTES has 128 rows.
    Zarr calls the file of chunk 1 along the rows and chunk 0 along the columns c/1/0.
    """
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    chunk = (tmp_path / "t.zarr/cos/c/1/0").read_bytes()

    assert len(chunk) == BLOCK_BYTES
    assert chunk == ROPE_1000_BY_64.tables()["cos"][128:256].tobytes()


@pytest.mark.parametrize("shape", [(7,), (60, 5), (3, 20, 9), (8, 3, 2, 11), (7, 1), ()], ids=str)
def test_arrays_of_any_shape_come_back_from_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    """pecli writes chunks of 400 bytes, which are 50 numbers, and reads them back."""
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 400)
    array = np.random.default_rng(0).standard_normal(shape)
    save_tables(str(tmp_path / "t.zarr"), [table_of("a", array)], None)

    np.testing.assert_array_equal(pecli.load(tmp_path / "t.zarr")["a"], array, strict=True)


def test_a_store_of_zarr_with_several_chunks_along_every_axis_is_read(tmp_path: Path) -> None:
    """The zarr package writes an array of 5 × 6 × 7 in chunks of 2 × 4 × 3: 3 · 2 · 3 chunks, of
    which those at the ends are not full. pecli itself would split the first axes only.
    """
    array = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    zarr.create_array(tmp_path / "t.zarr", data=array, chunks=(2, 4, 3), compressors=None)

    np.testing.assert_array_equal(pecli.load(tmp_path / "t.zarr")["array"], array, strict=True)


def test_without_the_zarr_package_writing_a_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None in sys.modules makes `import zarr` fail."""
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ParameterError, match=r"^output is \.zarr; the zarr package"):
        pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)


def test_writing_a_store_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
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


def test_a_changed_number_of_a_store_fails_at_its_index(tmp_path: Path) -> None:
    """Chunks have 128 rows of 32 float32 numbers, so that chunk 2 begins at row 256. A bit of its
    row 5, column 7 is flipped, which is element (261, 7) of the table of sines.
    """
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    chunk = tmp_path / "t.zarr/sin/c/2/0"
    data = bytearray(chunk.read_bytes())
    number = 5 * 32 + 7
    data[4 * number + 2] ^= 0x40
    chunk.write_bytes(data)
    result = pecli.verify(tmp_path / "t.zarr")

    (failed,) = [tensor for tensor in result.tensors if not tensor.passed]
    assert failed.name == "sin"
    assert failed.worst_index == (261, 7)


def test_a_store_of_which_a_chunk_is_missing_is_refused(tmp_path: Path) -> None:
    """1,000 rows are 8 chunks of up to 128."""
    pecli.save(tmp_path / "t.zarr", ROPE_1000_BY_64)
    (tmp_path / "t.zarr/sin/c/2/0").unlink()

    with pytest.raises(FileError, match="is not complete: 1 of 8 chunks are missing"):
        pecli.verify(tmp_path / "t.zarr")


def test_bfloat16_is_not_written_to_a_store(tmp_path: Path) -> None:
    """Zarr has no such dtype; nothing may be left of the refused store."""
    with pytest.raises(ParameterError, match=r"bfloat16; \.zarr cannot hold it"):
        pecli.save(tmp_path / "t.zarr", pecli.Rope(4, 4, dtype="bfloat16"))
    assert list(tmp_path.iterdir()) == []


def test_an_array_without_elements_is_not_written_to_a_store(tmp_path: Path) -> None:
    """An array of 0 × 2 elements would have no chunk."""
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
    "metadata",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut"),
        pytest.param(
            '{"zarr_format": 3, "node_type": "array", "shape": [-1]}', id="a negative length"
        ),
    ],
)
def test_a_store_with_broken_metadata_is_refused_in_one_line(tmp_path: Path, metadata: str) -> None:
    """zarr.json has the metadata of a store."""
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr/zarr.json").write_text(metadata)

    with pytest.raises(FileError, match="Zarr store") as problem:
        pecli.load(tmp_path / "t.zarr")
    assert "\n" not in str(problem.value)


def hand_written_store(store: Path, chunk: bytes = bytes(64), **changes: object) -> Path:
    """Write a store of version 2 with one chunk of 4 × 4 float32 numbers, or changed metadata."""
    metadata = {
        "zarr_format": 2,
        "shape": [4, 4],
        "chunks": [4, 4],
        "dtype": "<f4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    store.mkdir()
    (store / "0.0").write_bytes(chunk)
    (store / ".zarray").write_text(json.dumps({**metadata, **changes}))
    return store


@pytest.mark.parametrize(
    ("chunk", "changes", "problem"),
    [
        pytest.param(
            zlib.compress(bytes(1 << 22)),
            {"compressor": {"id": "zlib", "level": 9}},
            "zlib, which is not read",
            id="4 MiB packed by zlib",
        ),
        pytest.param(
            b"x" * 64,
            {"compressor": {"id": "zstd", "level": 1}},
            "zstd, which is not read",
            id="packed by zstd",
        ),
        pytest.param(
            b"x" * 64,
            {"compressor": {"id": "blosc"}},
            "blosc, which is not read",
            id="packed by blosc",
        ),
        pytest.param(
            bytes(64), {"shape": [10**9, 64]}, "more than 4,294,967,296 bytes", id="256 GB"
        ),
        pytest.param(
            bytes(64),
            {"shape": [10**6, 64]},
            "4,000,000 chunks, and the store 2 files",
            id="256 MB",
        ),
        pytest.param(bytes(64), {"chunks": [0, 0]}, "store", id="chunks without elements"),
        pytest.param(bytes(64), {"dtype": "<M8[s]"}, "dtype datetime64", id="dates"),
        pytest.param(bytes(8), {}, "missing, or of another size", id="a chunk of 8 bytes"),
    ],
)
def test_hostile_stores_are_refused(
    tmp_path: Path, chunk: bytes, changes: dict[str, object], problem: str
) -> None:
    """A store is written by hand in Zarr's version 2, with one chunk of 4 × 4 float32 numbers (64
    bytes), and then with `changes` of its metadata. Compressed chunks are not read (they could be
    bombs), and sizes must fit the files.
    """
    store = hand_written_store(tmp_path / "t.zarr", chunk, **changes)
    with pytest.raises(FileError, match=problem):
        pecli.load(store)


@pytest.mark.parametrize("file", ["0.0", ".zarray"], ids=["the chunk", "the metadata"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="a pipe"),
        pytest.param(lambda path: os.symlink("/dev/zero", path), id="a link to a device"),
    ],
)
def test_pipes_and_links_in_a_store_are_refused(
    tmp_path: Path, file: str, make: Callable[[Path], None]
) -> None:
    """Reading /dev/zero or a pipe would never end."""
    store = hand_written_store(tmp_path / "t.zarr")
    (store / file).unlink()
    make(store / file)

    with pytest.raises(FileError, match="not a plain file"):
        pecli.load(store)


def table_without_values(shape: tuple[int, ...]) -> Table:
    return Table("a", "float32", shape, lambda start, out: None)


def test_chunks_of_a_long_vector_have_the_numbers_of_one_block() -> None:
    """A block of BLOCK_BYTES has 4,096 numbers of float32. 10^9 numbers in one chunk would have to
    fit into memory.
    """
    assert chunk_shape(table_without_values((10**9,))) == (BLOCK_BYTES // 4,)


def test_a_chunk_of_an_array_without_rows_has_one_row() -> None:
    """Zarr allows no chunk of the length 0. A chunk has whole rows, of 5 numbers here, and one index
    along each axis of rows, 3 and 0: without rows, no number of them would fill a block.
    """
    assert chunk_shape(table_without_values((3, 0, 5))) == (1, 1, 5)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ("{", "its metadata are not JSON"),
        ("[]", "its metadata are broken, or name a version, dtype or codec that is not known"),
        ('{"zarr_format": 9}', "its metadata are broken, or name a version"),
    ],
)
def test_damaged_metadata_of_a_store_are_reported_in_words_of_pecli(
    tmp_path: Path, metadata: str, reason: str
) -> None:
    """zarr's own messages are long and name its classes. The metadata of a good store, zarr.json,
    are replaced.
    """
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
    """The zarr package makes an empty group."""
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
