"""A new format is one module and one row of the registry.

The module below holds a toy format, one line of text per tensor. With its row in FORMATS, tables are
saved, loaded, converted and listed in messages like those of any other format.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import pecli
from pecli.errors import FileError, ParameterError
from pecli.files import formats
from pecli.files.contents import Contents, LoadedFile
from pecli.files.output import open_output
from pecli.files.writing import WriteRequest, check_storable
from tests.exit_codes import SUCCESS

MAGIC = b"TOY\n"


def read(contents: Contents) -> LoadedFile:
    tensors = {}
    lines = bytes(contents.data).removeprefix(MAGIC).decode().splitlines()
    for line in lines:
        name, _, values = line.partition(":")
        contents.refuse_if(not values, "has a line without numbers")
        tensors[name] = np.array(values.split(), np.float64)
    return LoadedFile(contents.path, "toy", tensors)


def write(request: WriteRequest) -> None:
    check_storable(request.tables, ".toy", {"float64"})
    with open_output(request.path, request.tables) as output:
        output.write(MAGIC)
        for table in request.tables:
            values = " ".join(str(value) for value in table.array().reshape(-1))
            output.write(f"{table.name}:{values}\n".encode())


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("toy_format")
    module.read = read  # type: ignore[attr-defined]
    module.write = write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_format", module)
    row = formats.Format(
        "toy", "toy_format", (".toy",), formats.begins_with(MAGIC), is_written=True
    )
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS, row])


def test_arrays_are_saved_and_loaded_in_a_format_that_a_test_registered(
    working_folder: Path,
) -> None:
    """The format «toy», which this module registers, is the line TOY and a line NAME:NUMBERS per
    tensor.
    """
    pecli.save("a.toy", {"a": np.array([1.0, 2.5]), "b": np.array([3.0])})
    assert Path("a.toy").read_bytes() == b"TOY\na:1.0 2.5\nb:3.0\n"
    assert pecli.load("a.toy:a")["a"].tolist() == [1.0, 2.5]


def test_commands_read_and_write_a_format_that_a_test_registered(
    working_folder: Path, run_pecli: Callable
) -> None:
    """`alibi` writes the format «toy», `convert` reads it, and `diff` finds the same numbers in
    both files.
    """
    slopes = run_pecli("alibi", "--heads", "4", "--slopes", "--dtype", "float64", "-o", "a.toy")
    assert slopes.exit_code == SUCCESS, slopes.err

    converted = run_pecli("convert", "a.toy", "-o", "a.npz")
    assert converted.exit_code == SUCCESS, converted.err
    assert run_pecli("diff", "a.toy", "a.npz").exit_code == SUCCESS


def test_messages_list_a_format_that_a_test_registered() -> None:
    """The suffix .toy is among those that may be written, and among the formats that were tried."""
    with pytest.raises(ParameterError, match=r"one of .*, \.toy"):
        pecli.save("a.unknown", np.zeros(1))
    with pytest.raises(FileError, match=r"is not a .* or \.toy file of tables"):
        formats.format_of_bytes("a", b"unknown bytes")


def test_the_message_of_a_format_that_a_test_registered_gets_the_path_before_it(
    working_folder: Path,
) -> None:
    """The reader of the format «toy» only states what is wrong."""
    Path("a.toy").write_bytes(MAGIC + b"a:\n")
    with pytest.raises(FileError, match=r"^a\.toy: has a line without numbers$"):
        pecli.load("a.toy")


def test_a_format_that_a_test_registered_refuses_dtypes_that_it_does_not_hold(
    working_folder: Path,
) -> None:
    """The writer of the format «toy» states that it holds float64."""
    with pytest.raises(ParameterError, match=r"\.toy cannot hold it"):
        pecli.save("a.toy", np.zeros(1, np.float32))
