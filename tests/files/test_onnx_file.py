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


def test_without_the_onnx_package_the_command_that_installs_it_is_named(
    run_pecli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None in sys.modules makes `import onnx` fail."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run_pecli("inspect", TINY_LLAMA / "onnx" / "model.onnx")

    assert result.exit_code == FILE_ERROR
    assert result.err.endswith("which the onnx package reads; pip install onnx\n")


@pytest.mark.parametrize("form", ["onnx", "onnx_external", "onnx/model.onnx"])
def test_initialisers_are_those_of_the_checkpoint(form: str) -> None:
    """The stored models are one tiny Llama, exported with its data inside of the file and beside
    it.
    """
    expected = load(TINY_LLAMA / "one_file" / "model.safetensors")
    found = load(TINY_LLAMA / form)

    assert expected.keys() <= found.keys()
    assert all((found[name] == expected[name]).all() for name in expected)


@pytest.fixture
def onnx() -> Any:
    import onnx

    return onnx


def onnx_model(onnx: Any, *tensors: Any, nodes: tuple[Any, ...] = ()) -> bytes:
    graph = onnx.helper.make_graph(list(nodes), "graph", [], [], initializer=list(tensors))
    data: bytes = onnx.helper.make_model(graph).SerializeToString()
    return data


def onnx_tensor(onnx: Any, name: str = "a", **changed: Any) -> Any:
    """Four floats, with some fields changed; `external` are entries of external data."""
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


FLOATS = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "COMPLEX64")


@pytest.mark.parametrize("raw", [True, False])
def test_tensors_of_every_dtype_are_read_as_onnx_reads_them(
    onnx: Any, working_folder: Path, raw: bool
) -> None:
    """Numbers are stored as bytes (raw) or as fields of the message; onnx.numpy_helper has the
    expected arrays.
    """
    for kind in (*FLOATS, "INT64", "INT32", "INT16", "UINT8", "UINT64", "BOOL"):
        code = getattr(onnx.TensorProto, kind)
        values = np.array([[0, 1, 1], [1, 0, 1]]).astype(onnx.helper.tensor_dtype_to_np_dtype(code))
        made = onnx.numpy_helper.from_array(values, "a")
        if not raw:
            made = onnx.helper.make_tensor("a", code, values.shape, values.reshape(-1).tolist())
        Path("x.onnx").write_bytes(onnx_model(onnx, made))
        found = load("x.onnx")["a"]
        assert found.dtype == values.dtype, kind
        assert found.shape == (2, 3), kind
        np.testing.assert_array_equal(found, onnx.numpy_helper.to_array(made))


def test_a_constant_has_the_name_of_its_nodes_output(onnx: Any, working_folder: Path) -> None:
    """A tensor of a Constant node has the name of the node's output; a number alone, and nodes of
    other kinds, are no tensors.
    """
    made = (
        ("Constant", "b", onnx_tensor(onnx, "unused")),
        ("Constant", "c", 1.0),
        ("ConstantOfShape", "d", onnx_tensor(onnx)),
    )
    nodes = tuple(
        onnx.helper.make_node(kind, [], [name], value=value) for kind, name, value in made
    )
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx), nodes=nodes))
    found = {name: array.tolist() for name, array in load("x.onnx").items()}

    assert found == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


def test_tensors_of_text_are_left_unread_and_repeated_names_refused(
    onnx: Any, working_folder: Path
) -> None:
    """Texts have no dtype of NumPy: they are listed as unread. One name for two tensors would hide
    one of them.
    """
    text = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [1], [b"word"])
    Path("x.onnx").write_bytes(onnx_model(onnx, text, onnx_tensor(onnx)))
    file = load_file("x.onnx")

    assert list(file.tensors) == ["a"]
    assert [each.name for each in file.unread] == ["words"]

    Path("x.onnx").write_bytes(onnx_model(onnx, text, onnx_tensor(onnx), onnx_tensor(onnx)))
    with pytest.raises(FileError, match="twice"):
        load("x.onnx")


EXTERNAL: dict[str, Any] = {"location": "data"}
HOSTILE_TENSORS: list[dict[str, Any]] = [
    *({"raw_data": bytes(size)} for size in (0, 15, 17)),
    *({"dims": dims} for dims in ([-4], [1 << 40, 1 << 40], [1] * 70 + [4])),
    {"dims": [1 << 60, 0], "raw_data": b""},
    *(
        {"external": {"location": name}}
        for name in ("../data", "x/../../data", "/etc/passwd", "no", "folder", "pipe")
    ),
    *({"external": {**EXTERNAL, "offset": offset}} for offset in (8, -8, 1 << 70, "x")),
    *({"external": said} for said in ({**EXTERNAL, "length": 12}, {})),
]


def test_external_data_outside_of_the_folder_or_of_another_size_are_refused(
    onnx: Any, working_folder: Path, run_pecli: Callable[..., Any]
) -> None:
    """Also sizes, shapes and offsets that do not fit the 16 bytes of data. The file «../data»
    exists, so that only the rule refuses it.
    """
    Path("data").write_bytes(bytes(16))
    (working_folder / "inside").mkdir()
    os.chdir("inside")
    Path("data").write_bytes(bytes(16))
    Path("folder").mkdir()
    os.mkfifo("pipe")

    for changes in HOSTILE_TENSORS:
        Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, **changes)))
        result = run_pecli("inspect", "x.onnx")
        assert result.exit_code == FILE_ERROR, changes
        assert result.out == "", changes
        assert result.err.count("\n") == 1, changes
        assert "'a'" in result.err


def test_truncated_or_changed_files_are_refused_in_one_line(
    onnx: Any, working_folder: Path
) -> None:
    """Every other byte has its lowest or highest bit flipped, or is the last one. At least a third
    of these files must be refused; the others have other names or numbers.
    """
    good = onnx_model(onnx, onnx_tensor(onnx), onnx_tensor(onnx, "b"))
    refused = count_refused_mutations(
        good, "x.onnx", 2, replacements=lambda byte: [byte ^ 1, byte ^ 128]
    )
    for length in range(0, len(good), 2):
        Path("x.onnx").write_bytes(good[:length])
        refused += not is_read("x.onnx")

    assert refused > len(good) // 2


def test_more_tensors_than_the_limit_are_refused(
    onnx: Any, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tensors, with the limit lowered to 1."""
    Path("x.onnx").write_bytes(onnx_model(onnx, onnx_tensor(onnx, "a"), onnx_tensor(onnx, "b")))
    monkeypatch.setattr("pecli.files.onnx_file.MAX_TENSORS", 1)

    with pytest.raises(FileError, match="has more than 1 tensors"):
        load("x.onnx")


def test_names_of_tensors_that_are_not_read_may_not_repeat_either(
    onnx: Any, working_folder: Path
) -> None:
    """Tensors of text are listed by their names, which have to be unique, too."""
    text = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [1], [b"word"])
    Path("x.onnx").write_bytes(onnx_model(onnx, text, text))
    with pytest.raises(FileError, match="names the tensor 'words' twice"):
        load("x.onnx")


def test_a_type_of_a_later_version_is_listed_and_not_read(onnx: Any, working_folder: Path) -> None:
    """No version of ONNX has a data type 99 so far."""
    later = onnx.TensorProto(name="later", data_type=99, dims=[1])
    Path("x.onnx").write_bytes(onnx_model(onnx, later, onnx_tensor(onnx)))
    file = load_file("x.onnx")
    assert [*file.tensors] == ["a"]
    assert [unread.dtype for unread in file.unread] == ["onnx type 99"]
