"""Folders of tensors and indices of shards are read as one set of tensors, whatever files they are
in.

A shard is one of several files of a checkpoint; an index (model.safetensors.index.json, in Hugging
Face's format) maps each tensor's name to its file. `write_shards(a=1)` writes a.safetensors with
one tensor a.weight of ones.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pecli.errors import FileError
from pecli.files.load import load
from tests.exit_codes import FILE_ERROR
from tests.files.conftest import is_read

TINY_LLAMA = Path(__file__).parent / "data" / "tiny_llama"


def write_shards(**arrays: int) -> None:
    """Files a.safetensors, b.safetensors, … with tensors of those values."""
    for name, value in arrays.items():
        save_file({f"{name}.weight": np.full(3, value, np.float32)}, f"{name}.safetensors")


def write_index(**weight_map: object) -> str:
    Path("model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )
    return "model.safetensors.index.json"


@pytest.mark.parametrize(
    "path", ["shards", "shards/model.safetensors.index.json", "bin", "bin/pytorch_model.bin"]
)
def test_every_form_of_a_checkpoint_holds_the_same_tensors(path: str) -> None:
    """The stored files are the same tiny Llama, as safetensors in one file, as shards, and as
    torch.save writes it.
    """
    expected = load(TINY_LLAMA / "one_file" / "model.safetensors")
    found = load(TINY_LLAMA / path)

    assert found.keys() == expected.keys()
    assert all((found[name] == expected[name]).all() for name in expected)


def test_arrays_of_a_folder_take_the_names_of_their_files(working_folder: Path) -> None:
    """Files without tensors, such as the training_args.bin that trainers leave, do not count."""
    np.save("cos.npy", np.ones(2))
    np.save("sin.npy", np.zeros(2))

    assert {name: array.tolist() for name, array in load(".").items()} == {
        "cos": [1, 1],
        "sin": [0, 0],
    }

    (working_folder / "sub").mkdir()
    Path("sub/training_args.bin").write_bytes(b"\x80\x02")  # which trainers leave
    with pytest.raises(FileError, match="folder without a file of tensors"):
        load("sub")


def test_shards_without_an_index_are_joined(working_folder: Path) -> None:
    """A folder with two safetensors files of one tensor each, and no model.safetensors.index.json."""
    write_shards(a=1, b=2)
    assert sorted(load(".")) == ["a.weight", "b.weight"]


def test_tensors_of_one_name_in_several_files_have_the_files_names_before_it(
    working_folder: Path,
) -> None:
    """The folder has a.weight in a.safetensors and in c.safetensors, as in a dump per layer; the
    name of the file is put before each of them, and before no other tensor.
    """
    write_shards(a=1, b=2)
    save_file({"a.weight": np.zeros(1)}, "c.safetensors")

    assert sorted(load(".")) == ["a.a.weight", "b.weight", "c.a.weight"]


def test_names_that_repeat_even_with_the_files_names_are_refused(working_folder: Path) -> None:
    """a.a.weight is a.weight of the file a, which c has as well, and a tensor of the file d."""
    write_shards(a=1)
    save_file({"a.weight": np.zeros(1)}, "c.safetensors")
    save_file({"a.a.weight": np.zeros(1)}, "d.safetensors")

    with pytest.raises(FileError, match=r"'a.a.weight' in several files; name one"):
        load(".")


def test_a_file_called_model_is_taken_alone(working_folder: Path) -> None:
    """A folder has model.safetensors and a.safetensors; the latter may be an adapter, and not a
    shard of the model.
    """
    write_shards(a=1, model=3)
    assert sorted(load(".")) == ["model.weight"]


def test_an_index_decides_which_files_of_a_folder_are_read(working_folder: Path) -> None:
    """It names b.safetensors alone, and precedes model.safetensors."""
    write_shards(a=1, b=2, model=3)
    write_index(**{"b.weight": "b.safetensors"})

    assert sorted(load(".")) == ["b.weight"]


def test_a_folder_with_several_indices_is_refused(working_folder: Path) -> None:
    """One of them could be of another precision, and only the user knows which is meant."""
    write_shards(b=2)
    write_index(**{"b.weight": "b.safetensors"})
    Path("model.fp16.safetensors.index.json").write_text("{}")
    with pytest.raises(
        FileError,
        match=r"has several indices, 'model.fp16.\S+, 'model.safetensors.index.json'; name",
    ):
        load(".")


def test_links_to_files_are_followed(working_folder: Path) -> None:
    """In a snapshot of a Hugging Face cache, model.safetensors is a link to a file in blobs/."""
    write_shards(a=1)
    Path("blobs").mkdir()
    Path("a.safetensors").rename("blobs/0123")
    Path("snapshot").mkdir()
    Path("snapshot/model.safetensors").symlink_to("../blobs/0123")

    assert load("snapshot")["a.weight"].tolist() == [1, 1, 1]


OUTSIDE = (
    "../a.safetensors",
    "/etc/passwd",
    "sub/../../a.safetensors",
    "a\0b",
    "",
    "/dev/zero",
    "a\\b",
)
INDEXED = {
    **dict.fromkeys(OUTSIDE, "not a file in its own folder"),
    **dict.fromkeys(("folder", "pipe"), "is not a file"),
    **dict.fromkeys(("missing.safetensors", "dangling", "loop"), "does not exist"),
    "index.safetensors": "is truncated",
    "model.safetensors.index.json": "which is an index itself",
}


@pytest.mark.parametrize(("file", "problem"), INDEXED.items())
def test_an_index_that_names_no_plain_file_is_refused_in_one_line(
    working_folder: Path, run_pecli: Callable[..., Any], file: str, problem: str
) -> None:
    """Paths outside of the folder, devices, pipes, folders, links to nothing, and indices of
    indices.
    """
    write_shards(a=1)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nowhere")
    Path("index.safetensors").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00{")

    index = write_index(**{"a.weight": "a.safetensors", "b.weight": file})
    result = run_pecli("inspect", index)

    assert result.exit_code == FILE_ERROR
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert problem in result.err


def test_broken_indices_are_refused(working_folder: Path) -> None:
    """No JSON, lists, nesting of 100,000 levels, one tensor in two files, and a tensor that its
    file does not have.
    """
    write_shards(a=1, b=2)
    twice = '{"weight_map": {"a.weight": "a.safetensors", "a.weight": "b.safetensors"}}'
    maps = ["{}", "5", '{"a.weight": 5}', '{"c.weight": "a.safetensors"}']

    for text in (
        "",
        "[]",
        "{",
        "\x00",
        "[" * 100_000,
        twice,
        *(f'{{"weight_map": {value}}}' for value in maps),
    ):
        Path("model.safetensors.index.json").write_text(text)
        assert not is_read("model.safetensors.index.json"), text[:100]


def test_a_pipe_in_a_folder_is_no_configuration(
    working_folder: Path, run_pecli: Callable[..., Any]
) -> None:
    """Opening a pipe would wait for a writer for ever."""
    write_shards(a=1)
    for name in ("config.json", "params.json", "m.gguf"):
        os.mkfifo(name)
        for command in ("config", "verify"):
            result = run_pecli(command, ".")
            assert result.exit_code == FILE_ERROR
            assert result.err.count("\n") == 1
        os.unlink(name)


def test_verifying_a_shard_of_ten_gigabytes_takes_little_memory(
    working_folder: Path, peak_memory: Callable[..., int]
) -> None:
    """A sparse shard has 10 GiB of zeros, and the table of frequencies at its end. Python with
    NumPy takes about 100 MiB; 150 are allowed.
    """
    size = 10 << 30
    header = {
        "model.layers.0.mlp.up_proj.weight": {
            "dtype": "BF16",
            "shape": [size >> 1],
            "data_offsets": [0, size],
        },
        "model.rotary_emb.inv_freq": {
            "dtype": "F32",
            "shape": [64],
            "data_offsets": [size, size + 256],
        },
    }
    text = json.dumps(header).encode()
    with open("a.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.seek(size, os.SEEK_CUR)
        file.write((10000.0 ** (-np.arange(64) / 64)).astype("<f4").tobytes())
    write_index(**dict.fromkeys(header, "a.safetensors"))
    config = {
        "model_type": "llama",
        "hidden_size": 128,
        "num_attention_heads": 1,
        "rope_theta": 10000.0,
    }
    Path("config.json").write_text(json.dumps(config))

    assert peak_memory("-m", "pecli", "verify", ".") < 150


def test_the_checksums_of_archives_in_a_folder_are_compared(working_folder: Path) -> None:
    """One flipped bit in b.npz contradicts the checksum that zip stores."""
    np.savez("a.npz", cos=np.ones(4))
    np.savez("b.npz", sin=np.ones(4))
    damaged = bytearray(Path("b.npz").read_bytes())
    damaged[damaged.index(np.ones(4).tobytes())] ^= 1
    Path("b.npz").write_bytes(damaged)

    with pytest.raises(FileError, match="its checksum does not match"):
        load(".")
