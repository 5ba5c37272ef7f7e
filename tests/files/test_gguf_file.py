"""Tensors of .gguf files, llama.cpp's format: floats are read, quantised ones are listed by name
and type.

tiny.gguf was written with llama.cpp's gguf package: the matrix of 0 to 5 as float32, float16 and
bfloat16, the divisors 1, 2, 4, 8 as rope_freqs.weight, and one tensor in Q4_0. Limits keep a
hostile header from filling the memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.errors import FileError
from pecli.files.contents import Contents
from pecli.files.gguf_file import ARRAY, MAX_ARRAY, MAX_TEXT, Reader
from pecli.files.load import load
from tests.exit_codes import FILE_ERROR
from tests.files.conftest import count_refused_mutations

TINY_GGUF = Path(__file__).parent / "data" / "tiny.gguf"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("matrix", np.float32), ("half", np.float16), ("brain", ml_dtypes.bfloat16)],
)
def test_tensors_of_floats_are_read_from_gguf(name: str, dtype: type) -> None:
    """tiny.gguf was written with llama.cpp's gguf package: the matrix ((0, 1, 2), (3, 4, 5)) in
    three float types.
    """
    loaded = load(TINY_GGUF)[name]
    expected = np.array([[0, 1, 2], [3, 4, 5]], dtype)
    np.testing.assert_array_equal(loaded, expected, strict=True)


def test_all_tensors_of_floats_are_read_from_gguf() -> None:
    """tiny.gguf has four of them, in this order; its fifth tensor is quantised. llama.cpp stores
    divisors of frequencies, here 1, 2, 4 and 8, as the tensor rope_freqs.weight.
    """
    loaded = load(TINY_GGUF)
    assert list(loaded) == ["rope_freqs.weight", "matrix", "half", "brain"]

    divisors = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_array_equal(loaded["rope_freqs.weight"], divisors, strict=True)


def test_a_quantised_tensor_is_listed_with_its_type(run_pecli: Callable[..., Any]) -> None:
    """Q4_0 stores 32 elements in a block of 18 bytes, so 2 rows of 32 take 36."""
    whole = run_pecli("inspect", TINY_GGUF, "--json").json
    filtered = run_pecli("inspect", TINY_GGUF, "--filter", "blk.*", "--json").json
    expected = {"name": "blk.0.attn_q.weight", "dtype": "Q4_0", "shape": [2, 32], "bytes": 36}

    assert whole["format"] == "gguf"
    assert whole["tensors"][-1] == expected
    assert filtered["tensors"] == [expected]


def test_elements_of_a_quantised_tensor_are_refused(run_pecli: Callable[..., Any]) -> None:
    """Blocks of Q4_0 are not decoded, so that the tensor has no elements to print."""
    result = run_pecli("inspect", f"{TINY_GGUF}:blk.0.attn_q.weight")
    assert result.exit_code == FILE_ERROR
    assert "is stored as Q4_0" in result.err


def test_a_file_with_quantised_tensors_is_not_converted(
    run_pecli: Callable[..., Any], tmp_path: Path
) -> None:
    """`pecli convert` of a GGUF file with quantised weights, which it cannot decode: they would be
    missing in the output, so nothing is written.
    """
    result = run_pecli("convert", TINY_GGUF, "--dtype", "float16", "-o", tmp_path / "x.safetensors")
    assert result.exit_code == FILE_ERROR
    assert "blk.0.attn_q.weight" in result.err
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize("row", [16, 40])
def test_rows_of_a_quantised_tensor_that_are_no_whole_blocks_are_refused(
    working_folder: Path, run_pecli: Callable[..., Any], row: int
) -> None:
    """Q4_0 stores blocks of 32 elements, and tiny.gguf has a tensor of 2 rows of 32. llama.cpp
    refuses a row that is not a multiple of a block (gguf.cpp: «not a multiple of block size»).
    """
    entry = b"blk.0.attn_q.weight" + (2).to_bytes(4, "little") + uint64(32) + uint64(2)
    damaged_entry = entry.replace(uint64(32), uint64(row))
    data = TINY_GGUF.read_bytes()
    Path("x.gguf").write_bytes(data.replace(entry, damaged_entry))
    result = run_pecli("inspect", "x.gguf")

    assert entry in data
    assert result.exit_code == FILE_ERROR
    assert f"has rows of {row} elements, and Q4_0 stores blocks of 32" in result.err


def test_changed_bytes_of_gguf_are_read_or_refused(working_folder: Path) -> None:
    """Every eleventh byte of tiny.gguf has its lowest bit flipped, in turn, and each file is read;
    `count_refused_mutations` fails if anything but a FileError of one line is raised. A third of
    the bytes are the lengths of the 100 words of a vocabulary, and after a wrong length nothing is
    at its place, so that at least a quarter of the files must be refused.
    """
    good = TINY_GGUF.read_bytes()
    files = len(good) // 11
    bytes_of_lengths = 100 * 8

    assert bytes_of_lengths > len(good) / 3
    assert count_refused_mutations(good, "x.gguf", step=11) > files / 4


@pytest.mark.parametrize("length", [4, 20, 100, 1000, 2000, 2300])
def test_a_gguf_that_is_cut_is_refused(working_folder: Path, length: int) -> None:
    """Only the first bytes of tiny.gguf, which has 2,336, are kept: its mark, parts of its
    header, or all but the end of its last tensor.
    """
    Path("x.gguf").write_bytes(TINY_GGUF.read_bytes()[:length])
    with pytest.raises(FileError, match=r"is truncated|GGUF"):
        load("x.gguf")


def gguf_reader_of(*parts: bytes) -> Reader:
    return Reader(Contents("x.gguf", memoryview(b"".join(parts))))


def uint64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def test_a_text_of_a_mebibyte_is_kept_and_a_longer_one_skipped() -> None:
    """GGUF stores a text as its length in 8 bytes, and its letters. MAX_TEXT is 2^20 bytes; no
    setting about positions is that long, and a skipped text reads as empty.
    """
    longest = gguf_reader_of(uint64(MAX_TEXT), bytes(MAX_TEXT))
    too_long = gguf_reader_of(uint64(MAX_TEXT + 1), bytes(MAX_TEXT + 1))

    assert longest.text() == "\0" * MAX_TEXT
    assert too_long.text() == ""


def test_an_array_of_4096_numbers_is_kept_and_a_longer_one_skipped() -> None:
    """GGUF stores an array as the type of its elements (0 is uint8), their number in 8 bytes, and
    the elements. MAX_ARRAY is 4,096; vocabularies are longer and are not needed. A skipped array
    reads as None.
    """
    uint8 = (0).to_bytes(4, "little")
    longest = gguf_reader_of(uint8, uint64(MAX_ARRAY), bytes(MAX_ARRAY))
    too_long = gguf_reader_of(uint8, uint64(MAX_ARRAY + 1), bytes(MAX_ARRAY + 1))

    assert longest.value(ARRAY) == [0] * MAX_ARRAY
    assert too_long.value(ARRAY) is None
