"""Limits of the readers: a file that is exactly at a limit is read, one beyond it is refused.

Every case names a file, a limit (a constant of pecli.files), and a function that measures how much
of it the file has, without pecli's readers: t.json has 3 tensors, so it is read with
json_file.MAX_TENSORS at 3 and refused at 2. The files are small samples, so that no test has to
write gigabytes.
"""

import json
import pickletools
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import save_tables
from pecli.files.contents import Contents
from tests.files.conftest import SPEC, is_read

DATA = Path(__file__).parent / "data"
TABLES = [
    table_of("cos", np.cos(np.arange(6.0)).reshape(2, 3).astype(np.float32)),
    table_of("inv_freq", np.arange(3.0)),
    table_of("é", np.array([[True, False]])),
]


@pytest.fixture
def samples(working_folder: Path) -> Path:
    """A folder with one file of each kind that needs no optional package."""
    for suffix in ("npz", "safetensors", "json"):
        save_tables(f"t.{suffix}", TABLES, SPEC)
    for suffix in ("npy", "csv"):
        save_tables(f"t.{suffix}", TABLES[:1], SPEC)
    np.save("empty.npy", np.zeros((3, 0)))
    np.savez_compressed("deflated.npz", cos=np.arange(6.0).reshape(2, 3), b=np.zeros(50))
    np.savez_compressed("bomb.npz", a=np.zeros(1 << 14))
    index = {"cos": "t.npz", "b": "deflated.npz"}
    Path("shards.npz.index.json").write_text(json.dumps({"weight_map": index}))
    shutil.copy(DATA / "torch_views.pt", "views.pt")
    shutil.copy(DATA / "tiny.gguf", "tiny.gguf")
    shutil.copy(DATA / "eval_callback_phi2.log", "phi2.log")
    Path("rows.txt").write_text("q 1 2\nk 3 4\nv = [[5, 6]]\n")
    Path("typed_rows.json").write_text('[{"0": 1, "1": 2}, {"0": 3, "1": 4}]')
    return working_folder


def little_endian(path: Path, start: int, stop: int | None) -> int:
    return int.from_bytes(path.read_bytes()[start:stop], "little")


def member_size(path: Path, name: str) -> int:
    return zipfile.ZipFile(path).getinfo(name).file_size


def unpacked_size(path: Path) -> int:
    return sum(member.file_size for member in zipfile.ZipFile(path).infolist())


def bracket_and_quote_count(path: Path) -> int:
    text = path.read_bytes()
    return text.count(b"[") + text.count(b"{") + text.count(b'"')


def opcode_count(path: Path) -> int:
    pickled = zipfile.ZipFile(path).read("torch_views/data.pkl")
    return sum(1 for _ in pickletools.genops(pickled))


def kept_bytes(path: Path) -> int:
    """Letters of the keys, the texts and the tensors' names; eight bytes per skipped token."""
    texts = (
        "general.architecture llama llama.context_length llama.embedding_length "
        "llama.attention.head_count llama.rope.dimension_count llama.rope.freq_base "
        "tokenizer.ggml.tokens rope_freqs.weight matrix half brain blk.0.attn_q.weight"
    )
    return len(texts.replace(" ", "")) + 8 * path.read_bytes().count(b"token ")


def operation_count(path: Path) -> int:
    return path.read_text().count("ggml_debug:")


def largest_metadata(path: Path) -> int:
    return max(file.stat().st_size for file in path.rglob("zarr.json"))


def array_bytes(path: Path) -> int:
    return sum(array.nbytes for array in pecli.load(path).values())


class Limit(NamedTuple):
    file: str
    name: str  # of the constant, in pecli.files
    measure: Callable[[Path], int]


LIMITS_OF_FILES = [
    Limit("t.npy", "npy.MAX_HEADER", lambda path: little_endian(path, 8, 10)),
    Limit("t.npy", "contents.MAX_AXES", lambda path: 2),
    Limit("t.npy", "contents.MAX_BYTES", lambda path: 24),
    Limit("empty.npy", "contents.MAX_EMPTY_ROWS", lambda path: 3),
    Limit("t.npz", "zip_archive.MAX_DIRECTORY", lambda path: little_endian(path, -10, -6)),
    Limit("t.npz", "npz.MAX_TEXT", lambda path: member_size(path, "pecli.npy")),
    Limit("deflated.npz", "zip_archive.MAX_UNPACKED", unpacked_size),
    Limit("bomb.npz", "zip_archive.BOMB_BYTES", lambda path: member_size(path, "a.npy")),
    Limit("t.safetensors", "safetensors.MAX_HEADER", lambda path: little_endian(path, 0, 8)),
    Limit("t.safetensors", "safetensors.MAX_QUOTES", lambda path: path.read_bytes().count(b'"')),
    Limit("t.csv", "decimals.MAX_TEXT", lambda path: path.stat().st_size),
    Limit("rows.txt", "number_text.MAX_TEXT", lambda path: path.stat().st_size),
    Limit("rows.txt", "text_file.MAX_TENSORS", lambda path: len(["q", "k", "v"])),
    Limit("phi2.log", "eval_callback.MAX_OPERATIONS", operation_count),
    Limit("phi2.log", "eval_callback.MAX_DIM", lambda path: 80),
    Limit("t.json", "json_file.MAX_LISTS", bracket_and_quote_count),
    Limit("t.json", "json_file.MAX_TENSORS", lambda path: 3),
    Limit("typed_rows.json", "plain_json.MAX_ROWS", lambda path: 2),
    Limit("shards.npz.index.json", "shards.MAX_INDEX", lambda path: path.stat().st_size),
    Limit("shards.npz.index.json", "shards.MAX_SHARDS", lambda path: 2),
    Limit(
        "views.pt",
        "torch_file.MAX_PICKLE",
        lambda path: member_size(path, "torch_views/data.pkl"),
    ),
    Limit("views.pt", "torch_file.MAX_OPCODES", lambda path: opcode_count(path) - 1),
    Limit("views.pt", "torch_file.MAX_DEPTH", lambda path: len(["nested", "list", "0"])),
    Limit("views.pt", "torch_file.MAX_NAME", lambda path: len("nested.list.0")),
    # 29 dicts, lists, tensors and numbers, at 32 each, and the letters of all their names
    Limit("views.pt", "torch_file.MAX_LETTERS", lambda path: 32 * (1 + 15 + 2 + 2 + 9) + 221),
    Limit("tiny.gguf", "gguf_file.MAX_TENSORS", lambda path: little_endian(path, 8, 16)),
    Limit("tiny.gguf", "gguf_file.MAX_KEYS", lambda path: little_endian(path, 16, 24)),
    Limit("tiny.gguf", "gguf_file.MAX_AXES", lambda path: 2),
    Limit("tiny.gguf", "gguf_file.MAX_KEPT", kept_bytes),
    Limit("t.zarr", "zarr_store.MAX_BYTES", array_bytes),
    Limit("t.zarr", "zarr_store.MAX_METADATA", largest_metadata),
]


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize("limit", LIMITS_OF_FILES, ids=lambda limit: f"{limit.file}-{limit.name}")
def test_a_file_is_read_at_a_limit_and_refused_one_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """For example t.json has 3 tensors, so it must be read with json_file.MAX_TENSORS = 3, and
    refused with 2. `limit.measure` finds the 3 without pecli's readers; nothing but the limit
    changes, so that only the limit can be the cause of the refusal.
    """
    if limit.file == "t.zarr":
        save_tables("t.zarr", TABLES[:2], None)
    amount = limit.measure(Path(limit.file))
    constant = f"pecli.files.{limit.name}"

    monkeypatch.setattr(constant, amount)
    assert is_read(limit.file)

    monkeypatch.setattr(constant, amount - 1)
    assert not is_read(limit.file)


@pytest.mark.parametrize(
    ("beyond", "problem"), [(0, "is truncated"), (1, "claims a header of")], ids=["at", "beyond"]
)
def test_a_safetensors_header_of_more_than_16_mib_is_refused_as_such(
    tmp_path: Path, beyond: int, problem: str
) -> None:
    """The first 8 bytes of a .safetensors file state the length of its header. Only two bytes follow
    here: at the limit of 16 MiB the file is therefore cut short; beyond it the length is refused.
    """
    path = tmp_path / "h.safetensors"
    path.write_bytes((2**24 + beyond).to_bytes(8, "little") + b"{}")

    with pytest.raises(FileError, match=problem):
        pecli.load(path)


def test_bytes_in_memory_are_kept() -> None:
    """`forget_before(2)` drops the pages of a mapped file that were read. Bytes in memory, such as
    those of standard input, must stay.
    """
    contents = Contents("x.npy", memoryview(b"abc"))
    contents.forget_before(2)
    assert bytes(contents.data) == b"abc"
