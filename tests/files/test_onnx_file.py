"""Tensors of .onnx files, which the onnx package reads (`pip install onnx`).

Initialisers are a model's stored tensors; «external data» are bytes in a file beside it. Expected
values are those of the onnx package itself, or of the same tiny Llama stored as safetensors.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.errors import FileError
from pecli.files.load import load, load_file
from tests.exit_codes import FILE_ERROR
from tests.files.conftest import count_refused_mutations, is_read

TINY_LLAMA = Path(__file__).parent / "data" / "tiny_llama"


def test_without_the_onnx_package_the_error_names_the_command_that_installs_it(
    run_pecli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None in sys.modules makes `import onnx` fail."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run_pecli("inspect", TINY_LLAMA / "onnx" / "model.onnx")

    assert result.exit_code == FILE_ERROR
    assert result.err.endswith("which the onnx package reads; pip install onnx\n")


@pytest.mark.parametrize("form", ["onnx", "onnx_external", "onnx/model.onnx"])
def test_initialisers_are_those_of_the_checkpoint(form: str) -> None:
    """One tiny Llama is stored in tests/files/data as .safetensors and as ONNX models, with the
    data inside of the file and beside it. The tensors of the former are the expected ones; a
    model has some constants more.
    """
    expected = load(TINY_LLAMA / "one_file" / "model.safetensors")
    loaded = load(TINY_LLAMA / form)

    assert expected.keys() <= loaded.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(loaded[name], array)


@pytest.fixture
def onnx() -> Any:
    import onnx

    return onnx


def onnx_model(onnx: Any, *tensors: Any, nodes: tuple[Any, ...] = ()) -> bytes:
    graph = onnx.helper.make_graph(list(nodes), "graph", [], [], initializer=list(tensors))
    data: bytes = onnx.helper.make_model(graph).SerializeToString()
    return data


def onnx_tensor(onnx: Any, name: str = "a", **changed: Any) -> Any:
    """Return a tensor of 0 to 3 in float32, with some fields of the message changed.

    `external` are the entries that state where the 16 bytes are, instead of the bytes.
    """
    made = onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), name)
    external = changed.pop("external", None)
    if external is not None:
        made.ClearField("raw_data")
        made.data_location = onnx.TensorProto.EXTERNAL
        for key, value in external.items():
            made.external_data.add(key=key, value=str(value))
    if "dims" in changed:
        made.ClearField("dims")
        made.dims.extend(changed.pop("dims"))
    for key, value in changed.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize("is_raw", [True, False], ids=["stored as bytes", "stored as fields"])
@pytest.mark.parametrize(
    "data_type",
    [
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "COMPLEX64"),
        *("INT64", "INT32", "INT16", "UINT8", "UINT64", "BOOL"),
    ],
)
def test_tensors_of_every_dtype_are_read_as_onnx_reads_them(
    onnx: Any, working_folder: Path, data_type: str, is_raw: bool
) -> None:
    """The onnx package makes the tensor and reads it back (numpy_helper.to_array), which gives the
    expected array of shape (2, 3).
    """
    code = getattr(onnx.TensorProto, data_type)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    if is_raw:
        stored = onnx.numpy_helper.from_array(values, "a")
    else:
        stored = onnx.helper.make_tensor("a", code, values.shape, values.reshape(-1).tolist())
    Path("x.onnx").write_bytes(onnx_model(onnx, stored))

    expected = onnx.numpy_helper.to_array(stored)
    assert expected.dtype == dtype
    np.testing.assert_array_equal(load("x.onnx")["a"], expected, strict=True)


def test_a_constant_has_the_name_of_its_nodes_output(onnx: Any, working_folder: Path) -> None:
    """The model has an initialiser «a», a Constant node with the output «b», whose tensor is called
    «unused», a Constant «c» that is a single number, and a node of another kind with the output
    «d». Only «a» and «b» are tensors; both hold 0 to 3.
    """

    def node(kind: str, output: str, value: Any) -> Any:
        return onnx.helper.make_node(kind, [], [output], value=value)

    nodes = (
        node("Constant", "b", onnx_tensor(onnx, "unused")),
        node("Constant", "c", 1.0),
        node("ConstantOfShape", "d", onnx_tensor(onnx)),
    )
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, "a"), nodes=nodes))
    loaded = {name: array.tolist() for name, array in load("x.onnx").items()}

    assert loaded == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


def test_a_byte_of_a_name_that_is_not_utf_8_is_replaced(onnx: Any, working_folder: Path) -> None:
    """No character of UTF-8 begins with the byte FF; U+FFFD stands for it in the name."""
    data = onnx_model(onnx, onnx_tensor(onnx, "a?b"))
    Path("x.onnx").write_bytes(data.replace(b"a?b", b"a\xffb"))

    assert [*load("x.onnx")] == ["a\ufffdb"]


def onnx_text(onnx: Any) -> Any:
    """Return a tensor of texts called «words»."""
    return onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [1], [b"word"])


def test_tensors_of_texts_are_listed_as_unread(onnx: Any, working_folder: Path) -> None:
    """NumPy has no dtype of numbers for texts."""
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_text(onnx), onnx_tensor(onnx, "a")))
    file = load_file("x.onnx")

    assert list(file.tensors) == ["a"]
    assert [tensor.name for tensor in file.unread] == ["words"]


def test_a_name_that_two_tensors_have_is_refused(onnx: Any, working_folder: Path) -> None:
    """One name for two tensors would hide one of them."""
    model = onnx_model(onnx, onnx_text(onnx), onnx_tensor(onnx, "a"), onnx_tensor(onnx, "a"))
    Path("x.onnx").write_bytes(model)
    with pytest.raises(FileError, match="twice"):
        load("x.onnx")


@pytest.fixture
def folder_beside_data(working_folder: Path) -> None:
    """Change to a folder with «data» of 16 bytes, a folder and a pipe; «../data» exists as well, so
    that only the rule about paths refuses it.
    """
    Path("data").write_bytes(bytes(16))
    (working_folder / "inside").mkdir()
    os.chdir("inside")
    Path("data").write_bytes(bytes(16))
    Path("folder").mkdir()
    os.mkfifo("pipe")


@pytest.mark.usefixtures("folder_beside_data")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"raw_data": b""}, id="no data"),
        pytest.param({"raw_data": bytes(15)}, id="15 bytes"),
        pytest.param({"raw_data": bytes(17)}, id="17 bytes"),
        pytest.param({"dims": [-4]}, id="a negative length"),
        pytest.param({"dims": [1 << 40, 1 << 40]}, id="2^80 elements"),
        pytest.param({"dims": [1] * 70 + [4]}, id="71 axes"),
        pytest.param({"dims": [1 << 60, 0], "raw_data": b""}, id="2^60 times 0 elements"),
        pytest.param({"external": {"location": "../data"}}, id="outside of the folder"),
        pytest.param({"external": {"location": "x/../../data"}}, id="outside, on a longer way"),
        pytest.param({"external": {"location": "/etc/passwd"}}, id="an absolute path"),
        pytest.param({"external": {"location": "missing"}}, id="a missing file"),
        pytest.param({"external": {"location": "folder"}}, id="a folder"),
        pytest.param({"external": {"location": "pipe"}}, id="a pipe"),
        pytest.param({"external": {}}, id="no location"),
        pytest.param({"external": {"location": "data", "length": 12}}, id="12 bytes of 16"),
        pytest.param({"external": {"location": "data", "offset": 8}}, id="8 bytes too far"),
        pytest.param({"external": {"location": "data", "offset": -8}}, id="before the beginning"),
        pytest.param({"external": {"location": "data", "offset": 1 << 70}}, id="at 2^70"),
        pytest.param({"external": {"location": "data", "offset": "x"}}, id="no number"),
    ],
)
def test_a_tensor_whose_data_are_elsewhere_or_of_another_size_is_refused(
    onnx: Any, run_pecli: Callable[..., Any], changes: dict[str, Any]
) -> None:
    """The good tensor «a» holds four float32 numbers, 16 bytes; external data are bytes in a file
    of the model's folder.
    """
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, "a", **changes)))
    result = run_pecli("inspect", "x.onnx")

    assert result.exit_code == FILE_ERROR
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "'a'" in result.err


def test_truncated_or_changed_onnx_files_are_read_or_refused_in_one_line(
    onnx: Any, working_folder: Path
) -> None:
    """Every other byte has its lowest or its highest bit flipped, or is the last one: three files
    for each two bytes. At least a third of them must be refused; the others have other names or
    numbers.
    """
    good = onnx_model(onnx, onnx_tensor(onnx, "a"), onnx_tensor(onnx, "b"))
    refused = count_refused_mutations(
        good, "x.onnx", step=2, replacements=lambda byte: [byte ^ 1, byte ^ 128]
    )
    for length in range(0, len(good), 2):
        Path("x.onnx").write_bytes(good[:length])
        refused += not is_read("x.onnx")

    files = 3 * len(good) / 2
    assert refused > files / 3


def test_more_tensors_than_the_limit_are_refused(
    onnx: Any, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has two tensors, and MAX_TENSORS is lowered to 1."""
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, "a"), onnx_tensor(onnx, "b")))
    monkeypatch.setattr("pecli.files.onnx_file.MAX_TENSORS", 1)

    with pytest.raises(FileError, match="has more than 1 tensors"):
        load("x.onnx")


def test_names_of_tensors_that_are_not_read_may_not_repeat_either(
    onnx: Any, working_folder: Path
) -> None:
    """Tensors of texts are listed by their names, which have to be unique, too."""
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_text(onnx), onnx_text(onnx)))
    with pytest.raises(FileError, match="names the tensor 'words' twice"):
        load("x.onnx")


def test_a_tensor_of_an_unknown_data_type_is_listed_and_not_read(
    onnx: Any, working_folder: Path
) -> None:
    """No version of ONNX has a data type 99 so far; a later one could."""
    later = onnx.TensorProto(name="later", data_type=99, dims=[1])
    Path("x.onnx").write_bytes(onnx_model(onnx, later, onnx_tensor(onnx)))
    file = load_file("x.onnx")
    assert [*file.tensors] == ["a"]
    assert [unread.dtype for unread in file.unread] == ["onnx type 99"]
