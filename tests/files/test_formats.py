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
    ("first_bytes", "name"),
    [
        pytest.param(b"\x93NUMPY", "npy", id="mark of .npy"),
        pytest.param(b"PK\5\6", "npz", id="mark of an empty zip archive"),
        pytest.param(b"GGUF", "gguf", id="mark of .gguf"),
        pytest.param(b'{"tensors', "json", id="an object of JSON"),
        pytest.param(
            b"{\0\0\0\0\0\0\0{", "safetensors", id="header of 123 bytes, 123 being the code of {"
        ),
        pytest.param(b"\2\0\0\0\0\0\0\0{}", "safetensors", id="header of 2 bytes"),
    ],
)
def test_first_bytes_select_the_format(first_bytes: bytes, name: str) -> None:
    """The file is called «x», without a suffix. .safetensors begins with the length of its header,
    in 8 bytes, and a header in JSON.
    """
    assert format_of_bytes("x", first_bytes).name == name


@pytest.mark.parametrize(
    ("path", "name"), [("a.CSV", "csv"), ("a.txt", "text"), ("a.tsv", "csv"), ("a.onnx", "onnx")]
)
def test_the_suffix_selects_the_format_of_a_file_without_a_mark(path: str, name: str) -> None:
    """All four files hold the same text, «1 2», which begins like none of the formats with a mark
    of their own.
    """
    assert format_of_bytes(path, b"1 2").name == name


def test_an_empty_archive_is_no_torch_file_whatever_its_comment() -> None:
    """An archive of torch.save begins with a member's record: the name's length at byte 26, the
    name at byte 30. The end record of an empty archive has other fields there, and its comment may
    read like the name of torch's first member.
    """
    torch_member = b"a/data.pkl"
    name_length = len(torch_member).to_bytes(2, "little")
    end_record = b"PK\5\6" + bytes(22) + name_length + bytes(2) + torch_member

    assert format_of_bytes("x", end_record).name == "npz"


def test_every_format_is_read_or_written() -> None:
    """FORMATS is the registry. A format that is read has a signature, which recognises its first
    bytes; a row that is neither read nor written would be of no use.
    """
    for format in FORMATS:
        is_read = format.signature is not None
        assert is_read or format.is_written, format.name


def test_names_of_formats_are_unique() -> None:
    """Messages and `inspect --json` name a format of the registry by its name."""
    names = [format.name for format in FORMATS]
    assert len(names) == len(set(names))


def test_all_written_suffixes_except_zarr_are_listed_as_readable() -> None:
    """A Zarr store is a folder, and the list is of single files."""
    assert {*written_suffixes()} - {*readable_suffixes()} == {".zarr"}


@pytest.mark.parametrize(("suffixes", "text"), [([".h"], ".h"), ([".npy", ".npz"], ".npy or .npz")])
def test_alternatives_are_joined_with_or(suffixes: list[str], text: str) -> None:
    """Error messages list the suffixes of formats in this form."""
    assert one_of(suffixes) == text


@pytest.mark.parametrize(
    ("header_length", "suffix"),
    [
        pytest.param(ord("{"), ".json", id="123, the code of {"),
        pytest.param(int.from_bytes(b'{"', "little"), ".safetensors", id='the codes of {"'),
    ],
)
def test_a_safetensors_file_whose_length_spells_a_brace_is_not_taken_for_json(
    tmp_path: Path, header_length: int, suffix: str
) -> None:
    """The first bytes of .safetensors are the length of the header, which may read as the beginning
    of JSON. The header is filled with spaces up to that length.
    """
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(header_length)
    path = tmp_path / f"x{suffix}"
    path.write_bytes(struct.pack("<Q", header_length) + header + struct.pack("<2f", 1, 2))

    assert pecli.load(path)["a"].tolist() == [1, 2]


def test_columns_of_a_tsv_may_be_separated_by_commas(tmp_path: Path) -> None:
    """The suffix .tsv stands for tabs, but the separator is found in the text."""
    path = tmp_path / "x.tsv"
    path.write_text("1, 2\n3, 4\n")
    assert pecli.load(path)["array"].tolist() == [[1, 2], [3, 4]]
