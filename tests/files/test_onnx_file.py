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
    model = onnx_model(onnx, onnx_tensor(onnx, "a"), onnx_tensor(onnx, "a"))
    Path("x.onnx").write_bytes(model)
    with pytest.raises(FileError, match="names the tensor 'a' twice"):
        load("x.onnx")


@pytest.fixture
def inspect_model_with(
    onnx: Any, working_folder: Path, run_pecli: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that runs `pecli inspect` on a model of one tensor with some fields changed.

    The model is in an empty folder.
    """

    def inspect(**changed: Any) -> Any:
        Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, "a", **changed)))
        return run_pecli("inspect", "x.onnx")

    return inspect


def assert_refused(result: Any, problem: str) -> None:
    """Assert that a command prints nothing but one line about the tensor «a»."""
    assert result.exit_code == FILE_ERROR
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "tensor 'a' " in result.err
    assert problem in result.err


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_tensor_with_more_or_fewer_bytes_than_its_shape_needs_is_refused(
    inspect_model_with: Callable[..., Any], size: int
) -> None:
    """The tensor has four float32 numbers: 16 bytes. The onnx package finds that it has not."""
    assert_refused(inspect_model_with(raw_data=bytes(size)), "cannot be read: ")


@pytest.mark.parametrize(
    ("dims", "size", "problem"),
    [
        pytest.param([-4], 16, "an impossible shape", id="a negative length"),
        pytest.param([1 << 40, 1 << 40], 16, "an impossible shape", id="2^80 elements"),
        pytest.param([1 << 60, 0], 0, "an impossible shape", id="2^60 times 0 elements"),
        pytest.param([1] * 70 + [4], 16, "has 71 axes, more than 32", id="4 elements, 71 axes"),
    ],
)
def test_a_tensor_of_an_impossible_shape_is_refused(
    inspect_model_with: Callable[..., Any], dims: list[int], size: int, problem: str
) -> None:
    """`dims` is the shape that is stored, and `size` the number of bytes. NumPy 1 allows 32 axes, and
    no array whose sides other than 0 are too long for memory.
    """
    assert_refused(inspect_model_with(dims=dims, raw_data=bytes(size)), problem)


@pytest.fixture
def folder_beside_data(working_folder: Path) -> None:
    """Change to the folder «inside» with a folder, a pipe, and «data» of 16 bytes.

    «../data» exists as well, so that only the rule about paths can refuse it.
    """
    Path("data").write_bytes(bytes(16))
    (working_folder / "inside").mkdir()
    os.chdir("inside")
    Path("data").write_bytes(bytes(16))
    Path("folder").mkdir()
    os.mkfifo("pipe")


@pytest.mark.usefixtures("folder_beside_data")
def test_external_data_are_read_from_a_file_beside_the_model(onnx: Any) -> None:
    """«External data» are the bytes of a tensor in another file. The file «data» has the 16 zeros of
    four float32 numbers.
    """
    tensor = onnx_tensor(onnx, "a", external={"location": "data", "offset": 0, "length": 16})
    Path("x.onnx").write_bytes(onnx_model(onnx, tensor))

    np.testing.assert_array_equal(load("x.onnx")["a"], np.zeros(4, np.float32), strict=True)


@pytest.mark.usefixtures("folder_beside_data")
@pytest.mark.parametrize(
    ("location", "problem"),
    [
        pytest.param("../data", "not a file in its own folder", id="outside of the folder"),
        pytest.param("x/../../data", "not a file in its own folder", id="outside, longer way"),
        pytest.param("/etc/passwd", "not a file in its own folder", id="an absolute path"),
        pytest.param("folder", "not a file in its own folder", id="a folder"),
        pytest.param("pipe", "not a file in its own folder", id="a pipe"),
        pytest.param(None, "not a file in its own folder", id="no location"),
        pytest.param("missing", "names 'missing', which does not exist", id="a missing file"),
    ],
)
def test_external_data_that_are_no_file_of_the_models_folder_are_refused(
    inspect_model_with: Callable[..., Any], location: str | None, problem: str
) -> None:
    """A model must not make pecli read files elsewhere on the machine, or wait for a pipe. The model's
    folder has a folder and a pipe of these names, and ../data is a file of the right size.
    """
    external = {} if location is None else {"location": location}
    assert_refused(inspect_model_with(external=external), problem)


@pytest.mark.usefixtures("folder_beside_data")
@pytest.mark.parametrize(
    ("part", "problem"),
    [
        pytest.param(
            {"length": 12},
            "needs 16 bytes, and its entry states 12 in 'data'",
            id="12 bytes of 16",
        ),
        pytest.param(
            {"length": 20},
            "needs 16 bytes, and its entry states 20 in 'data'",
            id="20 bytes instead of 16",
        ),
        pytest.param(
            {"offset": 8},
            "needs 16 bytes from byte 8 of 'data', which has 16",
            id="8 bytes too far",
        ),
        pytest.param({"offset": -8}, "needs 16 bytes from byte -8", id="before the beginning"),
        pytest.param({"offset": 1 << 70}, "needs 16 bytes from byte 11805916207", id="at 2^70"),
        pytest.param({"offset": "x"}, "cannot be read: ", id="no number"),
    ],
)
def test_external_data_of_another_size_or_place_are_refused(
    inspect_model_with: Callable[..., Any], part: dict[str, Any], problem: str
) -> None:
    """The tensor has four float32 numbers, 16 bytes, and so has the file «data»: only the part from
    byte 0 with all of its 16 bytes fits. 2^70 is 1,180,591,620,717,411,303,424.
    """
    assert_refused(inspect_model_with(external={"location": "data", **part}), problem)


@pytest.fixture
def small_model(onnx: Any, working_folder: Path) -> bytes:
    """Return a model of two tensors, 69 bytes. The working folder is empty."""
    model = onnx_model(onnx, onnx_tensor(onnx, "a"), onnx_tensor(onnx, "b"))
    assert len(model) == 69
    return model


def test_changed_onnx_files_are_read_or_refused_in_one_line(small_model: bytes) -> None:
    """Every other byte has its lowest bit flipped, and then its highest, and each file is read.
    `count_refused_mutations` fails if anything but a FileError of one line is raised. 30 of the 69
    bytes are field numbers, lengths and types; at least a third of the files must be refused, since
    fields of unknown numbers are skipped. The other bytes are names and numbers.
    """
    files = 2 * len(range(0, len(small_model), 2))
    refused = count_refused_mutations(
        small_model, "x.onnx", step=2, replacements=lambda byte: [byte ^ 1, byte ^ 128]
    )

    assert refused > files / 3


def test_onnx_files_that_are_cut_are_refused(small_model: bytes) -> None:
    """The last of a model's fields is the version of the operators, which has 4 bytes here: a file
    that ends before it is a whole model with the two tensors. No other beginning of the file is one.
    """
    without_version = len(small_model) - 4
    lengths_that_are_read = []
    for length in range(len(small_model)):
        Path("x.onnx").write_bytes(small_model[:length])
        if is_read("x.onnx"):
            lengths_that_are_read.append(length)

    assert lengths_that_are_read == [without_version]


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
