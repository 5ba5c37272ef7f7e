"""Limits of the readers: a file that is exactly at a limit is read, one beyond it is refused.

Every case names a file, a limit (a constant of pecli.files), and a function that measures how much
of it the file has, without pecli's readers: t.json has 3 tensors, so it is read with
json_file.MAX_TENSORS at 3 and refused at 2. The files are small samples, so that no test has to
write gigabytes.
"""

import io
import json
import pickle
import pickletools
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import save_tables
from tests.files.conftest import SPEC, is_read

DATA = Path(__file__).parent / "data"
TABLES = [
    table_of("cos", np.cos(np.arange(6.0)).reshape(2, 3).astype(np.float32)),
    table_of("inv_freq", np.arange(3.0)),
    table_of("é", np.array([[True, False]])),
]


@pytest.fixture
def samples(working_folder: Path) -> Path:
    """A folder with one file of each kind that needs no optional package.

    t.npy and t.csv have the first of TABLES; t.npz, t.safetensors and t.json have all three.
    """
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
    """Return the size of an archive's member when it is unpacked."""
    return zipfile.ZipFile(path).getinfo(name).file_size


def unpacked_size(path: Path) -> int:
    return sum(member.file_size for member in zipfile.ZipFile(path).infolist())


class Limit(NamedTuple):
    file: str  # of the fixture `samples`
    name: str  # of the constant, in pecli.files
    measure: Callable[[Path], int]  # of how much the file has

    def assert_exact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Assert that the file is read with the constant at what it has, and refused with one less."""
        amount = self.measure(Path(self.file))
        monkeypatch.setattr(f"pecli.files.{self.name}", amount)
        assert is_read(self.file)

        monkeypatch.setattr(f"pecli.files.{self.name}", amount - 1)
        assert not is_read(self.file)


def each_of(limits: list[Limit]) -> pytest.MarkDecorator:
    """Parametrise a test by limits, with the file and the constant as ids."""
    return pytest.mark.parametrize("limit", limits, ids=lambda limit: f"{limit.file}-{limit.name}")


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit("t.npy", "npy.MAX_HEADER", lambda path: little_endian(path, 8, 10)),
        Limit("t.npy", "contents.MAX_AXES", lambda path: len(["rows", "columns"])),
        Limit("t.npy", "contents.MAX_BYTES", lambda path: 2 * 3 * 4),
        Limit("empty.npy", "contents.MAX_EMPTY_ROWS", lambda path: 3),
        Limit("t.safetensors", "safetensors.MAX_HEADER", lambda path: little_endian(path, 0, 8)),
        Limit(
            "t.safetensors", "safetensors.MAX_QUOTES", lambda path: path.read_bytes().count(b'"')
        ),
    ]
)
def test_npy_and_safetensors_files_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """t.npy has 2 × 3 numbers of float32, and empty.npy 3 rows without columns. The size of the header
    is in bytes 8 and 9 of .npy and in the first 8 of .safetensors, whose header is JSON.
    """
    limit.assert_exact(monkeypatch)


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit("t.npz", "zip_archive.MAX_DIRECTORY", lambda path: little_endian(path, -10, -6)),
        Limit("t.npz", "npz.MAX_TEXT", lambda path: member_size(path, "pecli.npy")),
        Limit("deflated.npz", "zip_archive.MAX_UNPACKED", unpacked_size),
        Limit("bomb.npz", "zip_archive.BOMB_BYTES", lambda path: member_size(path, "a.npy")),
        Limit("shards.npz.index.json", "shards.MAX_INDEX", lambda path: path.stat().st_size),
        Limit("shards.npz.index.json", "shards.MAX_SHARDS", lambda path: 2),
    ]
)
def test_archives_and_shards_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """A zip archive ends with a record of 22 bytes, whose bytes 12 to 15 are the size of the directory.
    pecli.npy is the note that pecli writes. bomb.npz has one member that unpacks to more than 100
    times its size, which is a bomb if it is beyond BOMB_BYTES. The index names two files.
    """
    limit.assert_exact(monkeypatch)


def bracket_and_quote_count(path: Path) -> int:
    """Count the signs at which a list, an object or a text of JSON begins, and the ends of texts."""
    text = path.read_bytes()
    return text.count(b"[") + text.count(b"{") + text.count(b'"')


def operation_count(path: Path) -> int:
    """Count the operations in a log of llama.cpp's eval-callback, each of which begins a line."""
    return path.read_text().count("ggml_debug:")


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit("t.csv", "decimals.MAX_TEXT", lambda path: path.stat().st_size),
        Limit("rows.txt", "number_text.MAX_TEXT", lambda path: path.stat().st_size),
        Limit("rows.txt", "text_file.MAX_TENSORS", lambda path: len(["q", "k", "v"])),
        Limit("phi2.log", "eval_callback.MAX_OPERATIONS", operation_count),
        Limit("phi2.log", "eval_callback.MAX_DIM", lambda path: 80),
        Limit("t.json", "json_file.MAX_LISTS", bracket_and_quote_count),
        Limit("t.json", "json_file.MAX_TENSORS", lambda path: len(["cos", "inv_freq", "é"])),
        Limit("typed_rows.json", "plain_json.MAX_ARRAYS", lambda path: 2),
    ]
)
def test_text_files_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """rows.txt has rows called q, k and v; phi2.log is a log of llama.cpp with heads of 80 channels;
    typed_rows.json is a list of two objects. Sizes of texts are those of the files, in bytes.
    """
    limit.assert_exact(monkeypatch)


def opcode_count(path: Path) -> int:
    """Count the opcodes of the pickle in views.pt."""
    pickled = zipfile.ZipFile(path).read("torch_views/data.pkl")
    return len([*pickletools.genops(pickled)])


class Dict(dict[object, object]):
    """A dict that may have attributes, as the OrderedDict of a state dict has."""


class SkeletonUnpickler(pickle.Unpickler):
    """An unpickler of dicts, lists, numbers and texts, which replaces every tensor by None."""

    def find_class(self, module: str, name: str) -> Any:
        return Dict if name == "OrderedDict" else lambda *arguments: None

    def persistent_load(self, storage: object) -> None:
        """Return None for a storage."""


def names_of_values(name: str, value: object) -> Iterator[str]:
    """Yield the name of a value and those of all values in it: "", "nested", "nested.list", …"""
    yield name
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from names_of_values(f"{name}.{key}" if name else str(key), inner)


def letters_of_names(path: Path) -> int:
    """Count 32 for each value in views.pt (29 values), and the letters of their names (221)."""
    pickled = zipfile.ZipFile(path).read("torch_views/data.pkl")
    root = SkeletonUnpickler(io.BytesIO(pickled)).load()
    return sum(32 + len(name) for name in names_of_values("", root))


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit(
            "views.pt",
            "torch_file.MAX_PICKLE",
            lambda path: member_size(path, "torch_views/data.pkl"),
        ),
        Limit("views.pt", "torch_file.MAX_OPCODES", opcode_count),
        Limit("views.pt", "torch_file.MAX_DEPTH", lambda path: len(["nested", "list", "0"])),
        Limit("views.pt", "torch_file.MAX_NAME", lambda path: len("nested.list.0")),
        Limit("views.pt", "torch_file.MAX_LETTERS", letters_of_names),
    ]
)
def test_files_of_torch_save_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """The pickle of views.pt, data.pkl, has tensors in dicts and lists; nested.list.0 is the one with
    the longest name, and the deepest. MAX_LETTERS limits the memory for all names, of which each
    takes 32 bytes besides its letters.
    """
    limit.assert_exact(monkeypatch)


def kept_bytes(path: Path) -> int:
    """Count the letters of the keys, the texts and the tensors' names in tiny.gguf.

    A vocabulary of 100 words is not kept, and counts 8 bytes per word.
    """
    texts = (
        "general.architecture llama llama.context_length llama.embedding_length "
        "llama.attention.head_count llama.rope.dimension_count llama.rope.freq_base "
        "tokenizer.ggml.tokens rope_freqs.weight matrix half brain blk.0.attn_q.weight"
    )
    return len(texts.replace(" ", "")) + 8 * path.read_bytes().count(b"token ")


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit("tiny.gguf", "gguf_file.MAX_TENSORS", lambda path: little_endian(path, 8, 16)),
        Limit("tiny.gguf", "gguf_file.MAX_KEYS", lambda path: little_endian(path, 16, 24)),
        Limit("tiny.gguf", "gguf_file.MAX_AXES", lambda path: len(["rows", "columns"])),
        Limit("tiny.gguf", "gguf_file.MAX_KEPT", kept_bytes),
    ]
)
def test_gguf_files_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """A GGUF header begins with «GGUF», a version of 4 bytes, and the numbers of tensors and of keys,
    of 8 bytes each. tiny.gguf has matrices and vectors.
    """
    limit.assert_exact(monkeypatch)


@pytest.mark.usefixtures("samples")
@each_of(
    [
        Limit("t.zarr", "zarr_store.MAX_BYTES", lambda path: 2 * 3 * 4 + 3 * 8),
        Limit(
            "t.zarr",
            "zarr_store.MAX_METADATA",
            lambda path: max(file.stat().st_size for file in path.rglob("zarr.json")),
        ),
    ]
)
def test_zarr_stores_are_read_at_a_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """The store has the table cos of 2 × 3 float32 numbers and inv_freq of 3 float64 numbers. Each
    array and the store itself have their metadata in a file zarr.json.
    """
    save_tables("t.zarr", TABLES[:2], None)
    limit.assert_exact(monkeypatch)


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


def test_values_beside_the_lists_of_json_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text, a number, null, an object and a list that holds no numbers are five values. The limit,
    lowered to these, bounds the memory for objects of Python, such as the names of members.
    """
    path = tmp_path / "x.json"
    path.write_text('{"a": "text", "b": 1.5, "c": {}, "d": [], "e": [1, 2], "f": null}')
    monkeypatch.setattr("pecli.files.plain_json.MAX_VALUES", 5)
    assert [*pecli.load(path)] == ["e"]

    monkeypatch.setattr("pecli.files.plain_json.MAX_VALUES", 4)
    with pytest.raises(FileError, match="more than 4 values beside its lists"):
        pecli.load(path)


def test_names_in_json_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    """JSON is UTF-8. In UTF-8, 0xff begins no letter: read with a substitute, two names could become one."""
    path = tmp_path / "x.json"
    path.write_bytes(b'{"cos \xff": [1, 2]}')

    with pytest.raises(FileError, match="is not UTF-8 text"):
        pecli.load(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" + " " * 300_000, id="blanks"),
        pytest.param("( " * 300_000, id="parentheses"),
    ],
)
def test_text_of_one_repeated_sign_is_refused_at_once(tmp_path: Path, text: str) -> None:
    """A search that began at every sign, and went on to the end of the line, would take minutes."""
    path = tmp_path / "x.txt"
    path.write_text(text)

    with pytest.raises(FileError, match="holds no numbers"):
        pecli.load(path)
