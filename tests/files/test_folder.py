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
    """One tiny Llama is stored in tests/files/data as a single .safetensors file, which has the
    expected tensors, as shards with an index, and as torch.save writes it (.bin).
    """
    expected = load(TINY_LLAMA / "one_file" / "model.safetensors")
    loaded = load(TINY_LLAMA / path)

    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(loaded[name], array)


def test_arrays_of_a_folder_take_the_names_of_their_files(working_folder: Path) -> None:
    """A .npy file holds one array without a name: that of cos.npy is called «cos»."""
    np.save("cos.npy", np.ones(2))
    np.save("sin.npy", np.zeros(2))
    loaded = {name: array.tolist() for name, array in load(".").items()}

    assert loaded == {"cos": [1, 1], "sin": [0, 0]}


def test_a_folder_without_a_file_of_tensors_is_refused(working_folder: Path) -> None:
    """The training_args.bin that trainers leave in a folder is a pickle without tensors."""
    Path("training_args.bin").write_bytes(b"\x80\x02")
    with pytest.raises(FileError, match="folder without a file of tensors"):
        load(".")


def test_shards_without_an_index_are_joined(working_folder: Path) -> None:
    """A folder has a.safetensors with the tensor a.weight, b.safetensors with b.weight, and no
    model.safetensors.index.json that would list them.
    """
    write_shards(a=1, b=2)
    assert sorted(load(".")) == ["a.weight", "b.weight"]


def test_a_name_that_several_files_have_gets_the_name_of_the_file_before_it(
    working_folder: Path,
) -> None:
    """The folder has a.weight in a.safetensors and in c.safetensors, as in a dump per layer; the
    name of the file is put before each of them, and not before b.weight.
    """
    write_shards(a=1, b=2)
    save_file({"a.weight": np.zeros(1)}, "c.safetensors")

    assert sorted(load(".")) == ["a.a.weight", "b.weight", "c.a.weight"]


def test_names_that_repeat_even_with_the_name_of_the_file_are_refused(
    working_folder: Path,
) -> None:
    """a.weight of the file a becomes a.a.weight, because the file c has a.weight, too; but the
    file d has a tensor a.a.weight already.
    """
    write_shards(a=1)
    save_file({"a.weight": np.zeros(1)}, "c.safetensors")
    save_file({"a.a.weight": np.zeros(1)}, "d.safetensors")

    with pytest.raises(FileError, match=r"'a.a.weight' in several files; name one"):
        load(".")


def test_of_a_folder_with_a_file_called_model_only_that_file_is_read(working_folder: Path) -> None:
    """A folder has model.safetensors and a.safetensors; the latter may be an adapter, and not a
    shard of the model.
    """
    write_shards(a=1, model=3)
    assert sorted(load(".")) == ["model.weight"]


def test_an_index_decides_which_files_of_a_folder_are_read(working_folder: Path) -> None:
    """The index model.safetensors.index.json lists only b.weight in b.safetensors; neither
    a.safetensors nor model.safetensors is read beside it.
    """
    write_shards(a=1, b=2, model=3)
    write_index(**{"b.weight": "b.safetensors"})

    assert sorted(load(".")) == ["b.weight"]


def test_a_folder_with_several_indices_is_refused(working_folder: Path) -> None:
    """An index model.fp16.safetensors.index.json could be of another precision than
    model.safetensors.index.json, and only the user knows which is meant.
    """
    write_shards(b=2)
    write_index(**{"b.weight": "b.safetensors"})
    Path("model.fp16.safetensors.index.json").write_text("{}")
    problem = r"has several indices, 'model.fp16.\S+, 'model.safetensors.index.json'; name"
    with pytest.raises(FileError, match=problem):
        load(".")


def test_links_in_a_snapshot_of_a_cache_are_followed(working_folder: Path) -> None:
    """In a snapshot of a Hugging Face cache, model.safetensors is a link to a file in blobs/."""
    Path("blobs").mkdir()
    save_file({"a.weight": np.ones(3, np.float32)}, "blobs/0123")
    Path("snapshot").mkdir()
    Path("snapshot/model.safetensors").symlink_to("../blobs/0123")

    assert load("snapshot")["a.weight"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("../a.safetensors", "not a file in its own folder"),
        ("/etc/passwd", "not a file in its own folder"),
        ("sub/../../a.safetensors", "not a file in its own folder"),
        ("a\0b", "not a file in its own folder"),
        ("", "not a file in its own folder"),
        ("/dev/zero", "not a file in its own folder"),
        ("a\\b", "not a file in its own folder"),
        ("folder", "is not a file"),
        ("pipe", "is not a file"),
        ("missing.safetensors", "does not exist"),
        ("link_to_nothing", "does not exist"),
        ("link_to_itself", "does not exist"),
        ("cut.safetensors", "is truncated"),
        ("model.safetensors.index.json", "which is an index itself"),
    ],
    ids=lambda text: text.replace("\0", "NUL"),
)
def test_an_index_that_names_no_plain_file_is_refused_in_one_line(
    working_folder: Path, run_pecli: Callable[..., Any], file: str, problem: str
) -> None:
    """The index maps the tensor b.weight to `file`, which is no file of the folder that could be
    read.
    """
    write_shards(a=1)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("link_to_itself").symlink_to("link_to_itself")
    Path("link_to_nothing").symlink_to("nowhere")
    Path("cut.safetensors").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00{")

    index = write_index(**{"a.weight": "a.safetensors", "b.weight": file})
    result = run_pecli("inspect", index)

    assert result.exit_code == FILE_ERROR
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert problem in result.err


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param("{", id="cut JSON"),
        pytest.param("\x00", id="no text"),
        pytest.param("[" * 100_000, id="100,000 levels"),
        pytest.param(
            '{"weight_map": {"a.weight": "a.safetensors", "a.weight": "b.safetensors"}}',
            id="one tensor in two files",
        ),
        pytest.param('{"weight_map": {}}', id="no tensors"),
        pytest.param('{"weight_map": 5}', id="a map that is a number"),
        pytest.param('{"weight_map": {"a.weight": 5}}', id="a file that is a number"),
        pytest.param(
            '{"weight_map": {"c.weight": "a.safetensors"}}', id="a tensor that its file has not"
        ),
    ],
)
def test_broken_indices_of_shards_are_refused(working_folder: Path, text: str) -> None:
    """a.safetensors has the tensor a.weight, and b.safetensors b.weight. `is_read` also checks that
    the refusal is a FileError of one line.
    """
    write_shards(a=1, b=2)
    Path("model.safetensors.index.json").write_text(text)
    assert not is_read("model.safetensors.index.json")


@pytest.mark.parametrize("name", ["config.json", "params.json", "m.gguf"])
@pytest.mark.parametrize("command", ["config", "verify"])
def test_a_pipe_with_the_name_of_a_configuration_is_refused(
    working_folder: Path, run_pecli: Callable[..., Any], name: str, command: str
) -> None:
    """Opening a pipe would wait for a writer for ever. The command reads the folder, which has
    weights and the pipe in place of the model's configuration.
    """
    write_shards(a=1)
    os.mkfifo(name)
    result = run_pecli(command, ".")

    assert result.exit_code == FILE_ERROR
    assert result.err.count("\n") == 1


def test_verifying_a_shard_of_ten_gigabytes_takes_little_memory(
    working_folder: Path, peak_memory: Callable[..., int]
) -> None:
    """A sparse file has 10 GiB of zeros, which are the weights of a layer, and the frequencies
    10000^(−i/64) of the configuration at its end. Python with NumPy takes about 100 MiB; 150 are
    allowed.
    """
    weights_bytes = 10 << 30
    frequencies = (10000.0 ** (-np.arange(64) / 64)).astype("<f4")
    header = {
        "model.layers.0.mlp.up_proj.weight": {
            "dtype": "BF16",
            "shape": [weights_bytes // 2],
            "data_offsets": [0, weights_bytes],
        },
        "model.rotary_emb.inv_freq": {
            "dtype": "F32",
            "shape": [64],
            "data_offsets": [weights_bytes, weights_bytes + 64 * 4],
        },
    }
    text = json.dumps(header).encode()
    with open("a.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.seek(weights_bytes, os.SEEK_CUR)
        file.write(frequencies.tobytes())
    write_index(**dict.fromkeys(header, "a.safetensors"))
    config = {
        "model_type": "llama",
        "hidden_size": 128,
        "num_attention_heads": 1,
        "rope_theta": 10000.0,
    }
    Path("config.json").write_text(json.dumps(config))

    peak_in_mib = peak_memory("-m", "pecli", "verify", ".")
    assert peak_in_mib < 150


def test_the_checksums_of_archives_in_a_folder_are_compared(working_folder: Path) -> None:
    """One flipped bit in b.npz contradicts the checksum that zip stores."""
    np.savez("a.npz", cos=np.ones(4))
    np.savez("b.npz", sin=np.ones(4))
    damaged = bytearray(Path("b.npz").read_bytes())
    damaged[damaged.index(np.ones(4).tobytes())] ^= 1
    Path("b.npz").write_bytes(damaged)

    with pytest.raises(FileError, match="its checksum does not match"):
        load(".")
