"""The registry of formats decides which format a file has, by its first bytes, or else by its
suffix.

Each format is a row of FORMATS, with a `signature` that recognises its first bytes if it is read.
The bytes are those of the formats' own specifications.
"""

import struct
from pathlib import Path

import pytest

import pecli
from pecli.files.formats import (
    FORMATS,
    format_of_bytes,
    one_of,
    readable_suffixes,
    written_suffixes,
)


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x93NUMPY", "npy"),
        (b"PK\5\6", "npz"),
        (b"GGUF", "gguf"),
        (b'{"tensors', "json"),
        # A header of 123 bytes, whose length is spelled like an opening brace
        (b"{\0\0\0\0\0\0\0{", "safetensors"),
        (b"\2\0\0\0\0\0\0\0{}", "safetensors"),
    ],
)
def test_first_bytes_select_the_format(start: bytes, name: str) -> None:
    """Magic numbers of the formats, whatever the file is called; .safetensors begins with the
    length of its header, in 8 bytes.
    """
    assert format_of_bytes("x", start).name == name


@pytest.mark.parametrize(
    ("path", "name"), [("a.CSV", "csv"), ("a.txt", "text"), ("a.tsv", "csv"), ("a.onnx", "onnx")]
)
def test_suffix_selects_a_format_without_magic_bytes(path: str, name: str) -> None:
    """All four files hold the same text, «1 2»."""
    assert format_of_bytes(path, b"1 2").name == name


def test_an_empty_archive_is_no_torch_file_whatever_its_comment() -> None:
    """The end record of an empty archive has other fields where a member has its name."""
    length = len("a/data.pkl").to_bytes(2, "little")
    start = b"PK\5\6" + bytes(22) + length + bytes(2) + b"a/data.pkl"

    assert format_of_bytes("x", start).name == "npz"


def test_every_format_is_read_or_written() -> None:
    """A row without either would be of no use."""
    for each in FORMATS:
        assert each.signature is not None or each.is_written, each.name


def test_names_of_formats_are_unique() -> None:
    """Messages and `inspect --json` name a format by it."""
    names = [each.name for each in FORMATS]
    assert len({*names}) == len(names)


def test_all_written_suffixes_but_h_and_zarr_are_listed_as_readable() -> None:
    """Two suffixes are written, but not listed among the readable ones: C headers are read as
    printed text, and a Zarr store is a folder.
    """
    assert {*written_suffixes()} - {*readable_suffixes()} == {".h", ".zarr"}


@pytest.mark.parametrize(("words", "text"), [([".h"], ".h"), ([".npy", ".npz"], ".npy or .npz")])
def test_alternatives_are_joined_with_or(words: list[str], text: str) -> None:
    """Error messages list suffixes so."""
    assert one_of(words) == text


@pytest.mark.parametrize(
    ("length", "suffix"), [(123, ".json"), (0x227B, ".safetensors")], ids=["{", '{"']
)
def test_a_safetensors_file_whose_length_spells_a_brace_is_not_taken_for_json(
    tmp_path: Path, length: int, suffix: str
) -> None:
    """The first bytes are the length of the header, and 123 is the code of «{», 0x227B that of
    «{"»: the beginning of JSON.
    """
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    path = tmp_path / f"x{suffix}"
    path.write_bytes(struct.pack("<Q", length) + header.ljust(length) + struct.pack("<2f", 1, 2))
    assert pecli.load(path)["a"].tolist() == [1, 2]


def test_columns_of_a_tsv_may_be_separated_by_commas(tmp_path: Path) -> None:
    """The suffix promises tabs, but the text decides."""
    path = tmp_path / "x.tsv"
    path.write_text("1, 2\n3, 4\n")
    assert pecli.load(path)["array"].tolist() == [[1, 2], [3, 4]]
