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
TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_tensors_of_floats_are_read_from_gguf() -> None:
    """tiny.gguf was written with the gguf package: a matrix of 0 to 5 in three float types."""
    found = load(TINY_GGUF)
    assert list(found) == ["rope_freqs.weight", "matrix", "half", "brain"]
    np.testing.assert_array_equal(found["rope_freqs.weight"], np.array([1, 2, 4, 8], np.float32))
    for name, dtype in (
        ("matrix", np.float32),
        ("half", np.float16),
        ("brain", ml_dtypes.bfloat16),
    ):
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name], TABLE.astype(dtype))


def test_a_quantised_tensor_is_listed_with_its_type_and_its_elements_are_refused(
    run_pecli: Callable[..., Any],
) -> None:
    """Q4_0 stores 32 elements in a block of 18 bytes, so 2 rows of 32 take 36. Elements of such a
    tensor are not decoded, and asking for them is an error.
    """
    found = run_pecli("inspect", TINY_GGUF, "--json").json
    expected = {"name": "blk.0.attn_q.weight", "dtype": "Q4_0", "shape": [2, 32], "bytes": 36}

    assert found["format"] == "gguf"
    assert found["tensors"][-1] == expected
    assert run_pecli("inspect", TINY_GGUF, "--filter", "blk.*", "--json").json["tensors"] == [
        expected
    ]

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


def test_changed_bytes_of_gguf_are_read_or_refused_and_cut_files_refused(
    working_folder: Path,
) -> None:
    """One byte in eleven is changed, in turn; nothing but a FileError of one line may be raised.
    More than 30 of the 213 changes must be noticed (others change numbers); every file that is cut
    is refused.
    """
    good = TINY_GGUF.read_bytes()
    assert count_refused_mutations(good, "x.gguf", step=11) > 30

    for length in (4, 20, 100, 1000, 2000, 2300):
        Path("x.gguf").write_bytes(good[:length])
        with pytest.raises(FileError, match=r"is truncated|GGUF"):
            load("x.gguf")


def gguf_reader_of(*parts: bytes) -> Reader:
    return Reader(Contents("x.gguf", memoryview(b"".join(parts))))


def length(number: int) -> bytes:
    return number.to_bytes(8, "little")


def test_a_text_of_a_mebibyte_is_kept_and_a_longer_one_skipped() -> None:
    """MAX_TEXT is 2^20 bytes; no setting about positions is that long, and a skipped text reads as
    empty.
    """
    assert gguf_reader_of(length(MAX_TEXT), bytes(MAX_TEXT)).text() == "\0" * MAX_TEXT
    assert gguf_reader_of(length(MAX_TEXT + 1), bytes(MAX_TEXT + 1)).text() == ""


def test_an_array_of_4096_numbers_is_kept_and_a_longer_one_skipped() -> None:
    """MAX_ARRAY is 4,096; vocabularies are longer and are not needed. A skipped array reads as
    None.
    """
    bytes_type = bytes(4)
    assert (
        gguf_reader_of(bytes_type, length(MAX_ARRAY), bytes(MAX_ARRAY)).value(ARRAY)
        == [0] * MAX_ARRAY
    )
    assert (
        gguf_reader_of(bytes_type, length(MAX_ARRAY + 1), bytes(MAX_ARRAY + 1)).value(ARRAY) is None
    )
