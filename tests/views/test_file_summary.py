"""Contents of files as text, as `pecli inspect` prints them. Expected elements are NumPy's slices."""

import numpy as np
import pytest

from pecli.views import file_summary
from pecli.views.file_summary import FileSummary, TensorSummary


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
def test_elements_are_cut_as_numpy_cuts(rows: str) -> None:
    """`cut` makes a slice of the text; a single number k is the slice k:k+1."""

    def cut(text: str) -> slice:
        parts = [int(part) if part else None for part in text.split(":")]
        return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)

    array = np.arange(35.0).reshape(7, 5)

    for columns in ("0", "1:3", "-2:", ":"):
        assert (
            file_summary.numbers(array, rows, columns).values
            == array[cut(rows), cut(columns)].tolist()
        )


def test_a_tensor_of_unknown_type_has_no_size_and_others_are_counted(capsys) -> None:
    """One of two tensors is listed; how many bytes an unknown type takes is not known."""
    tensor = TensorSummary("a", "ggml type 99", [2], None)
    file_summary.show(FileSummary("x", "gguf", 2, [tensor], {}))

    assert capsys.readouterr().out.splitlines() == [
        "x  gguf  1 of 2 tensors  0 bytes",
        "name  dtype         shape  bytes",
        "a     ggml type 99  2",
    ]


def test_metadata_is_flat_and_without_what_is_not_set(capsys) -> None:
    """`a` is None; the parameters stand beside the other keys."""
    metadata = {"pecli": {"a": None, "parameters": {"b": {"c": 1}}, "d": 2.0}}
    file_summary.show(FileSummary("x", "npz", 0, [], metadata))

    assert capsys.readouterr().out.splitlines()[-1] == "pecli  d=2  b=(c=1)"


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (np.array([True]), "true"),
        (np.array([12345]), "12,345"),
        (np.array([0.5]), "0.5"),
    ],
    ids=["bool", "integer", "float"],
)
def test_numbers_of_every_dtype(array: np.ndarray, shown: str, capsys) -> None:
    """The last line of the output is row 0 with its only number."""
    tensor = TensorSummary("a", str(array.dtype), [1], array.nbytes)
    tensor.numbers = file_summary.numbers(array, ":", ":")
    file_summary.show(FileSummary("x", "npy", 1, [tensor], {}))

    assert capsys.readouterr().out.splitlines()[-1].split() == ["0", shown]
