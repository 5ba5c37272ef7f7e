"""Contents of files as text, as `pecli inspect` prints them. Expected elements are NumPy's slices."""

import numpy as np
import pytest

from pecli.views import file_summary
from pecli.views.file_summary import FileSummary, TensorSummary


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
@pytest.mark.parametrize("columns", ["0", "1:3", "-2:", ":"])
def test_rows_and_columns_select_elements_as_slices_of_numpy_do(rows: str, columns: str) -> None:
    """`pecli inspect --rows ROWS --cols COLUMNS` prints elements of a table, here of 7 × 5. A
    single number k is the slice k:k+1, and −1 the last row.
    """

    def slice_of(text: str) -> slice:
        if ":" not in text:
            index = int(text)
            return slice(index, None if index == -1 else index + 1)
        return slice(*(int(part) if part else None for part in text.split(":")))

    array = np.arange(35.0).reshape(7, 5)
    expected = array[slice_of(rows), slice_of(columns)].tolist()

    assert file_summary.numbers(array, rows, columns).values == expected


def test_a_tensor_of_unknown_type_has_no_size_and_unlisted_tensors_are_counted(capsys) -> None:
    """The file x has two tensors, of which one is listed. How many bytes an unknown type of GGUF
    takes is not known.
    """
    tensor = TensorSummary("a", "ggml type 99", [2], None)
    file_summary.show(FileSummary("x", "gguf", 2, [tensor], metadata={}))

    assert capsys.readouterr().out.splitlines() == [
        "x  gguf  1 of 2 tensors  0 bytes",
        "name  dtype         shape  bytes",
        "a     ggml type 99  2",
    ]


def test_the_spec_in_metadata_is_printed_in_one_line_without_what_is_not_set(capsys) -> None:
    """`a` is None and left out. The parameters of a spec stand beside its other keys; a mapping
    among them is in brackets.
    """
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
def test_printed_elements_are_written_by_their_dtype(array: np.ndarray, shown: str, capsys) -> None:
    """The last line of the output is row 0 with its only element: a bool as in JSON, an integer
    with commas between thousands.
    """
    tensor = TensorSummary("a", str(array.dtype), [1], array.nbytes)
    tensor.numbers = file_summary.numbers(array, ":", ":")
    file_summary.show(FileSummary("x", "npy", 1, [tensor], {}))

    assert capsys.readouterr().out.splitlines()[-1].split() == ["0", shown]
