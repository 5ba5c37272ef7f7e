"""Contents of files as text, as `pecli inspect` prints them. Expected elements are NumPy's slices."""

import json
from hashlib import sha256

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.identify import Match
from pecli.checks.statistics import profile
from pecli.errors import ParameterError
from pecli.files.contents import LoadedFile
from pecli.views import file_summary
from pecli.views.file_summary import FileSummary, TensorSummary
from tests.views.conftest import said


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


def shown_statistics(array: np.ndarray) -> list[str]:
    """Return the lines of a tensor x below the table of tensors, without its SHA-256."""
    tensor = TensorSummary("x", str(array.dtype), [*array.shape], array.nbytes, profile(array))
    text = said(file_summary.show, FileSummary("f", "npz", 1, [tensor], {}))
    lines = text.split("\nx\n", 1)[1].splitlines()
    assert lines.pop().split() == ["sha256", sha256(array.tobytes()).hexdigest()]
    return lines


SHARES = (1, 25, 50, 75, 99)
"""The shares of the elements, in per cent, below each quantile."""


@pytest.mark.parametrize(
    "numbers", [[0.0, 0.0, 3.0, 4.0], [0.0, 1.0, 2.0]], ids=["4 numbers", "3 numbers"]
)
def test_quantiles_are_elements_of_the_tensor(numbers: list[float]) -> None:
    """The quantile 75 % of 0, 0, 3, 4 lies between 3 and 4: of two neighbours, the lower one is
    printed, as NumPy's method «lower» has it. In sorted numbers it is at ⌊0.75 · (4 − 1)⌋ = 2.
    """
    lower = {f"{share}%": np.quantile(numbers, share / 100, method="lower") for share in SHARES}
    words = [f"{share} {value:g}" for share, value in lower.items()]

    line_of_quantiles, *_ = shown_statistics(np.array(numbers))
    assert line_of_quantiles == f"  quantiles   {'   '.join(words)}"


def test_statistics_of_a_matrix_are_quantiles_counts_and_norms_of_rows() -> None:
    """Counted by hand: of 0, 0, 3, 4, half are zero, and the lower neighbour of the quantile 75 % is
    3. The rows (3, 4) and (0, 0) have the norms 5 and 0, and only the second is constant.
    """
    assert shown_statistics(np.array([[3.0, 4.0], [0.0, 0.0]])) == [
        "  quantiles   1% 0   25% 0   50% 0   75% 3   99% 3",
        "  zeros 2   NaN 0   inf 0",
        "  norm of a row   0 … 5, mean 2.5",
        "  constant rows 1",
    ]


def test_statistics_of_a_vector_are_not_about_rows() -> None:
    """A vector has no rows, and so no norms of rows and no constant rows."""
    assert shown_statistics(np.arange(3)) == [
        "  quantiles   1% 0   25% 0   50% 1   75% 1   99% 1",
        "  zeros 1   NaN 0   inf 0",
    ]


def test_complex_numbers_have_no_quantiles() -> None:
    """Neither of two complex numbers is the larger one."""
    assert shown_statistics(np.array([1 + 1j, 2])) == ["  zeros 0   NaN 0   inf 0"]


def test_rows_with_nan_or_infinity_have_no_norm() -> None:
    """Each of the rows (NaN, 1) and (NaN, ∞) has something that is not finite. Quantiles are of the
    finite numbers, here only 1.
    """
    assert shown_statistics(np.array([[np.nan, 1.0], [np.nan, np.inf]])) == [
        "  quantiles   1% 1   25% 1   50% 1   75% 1   99% 1",
        "  zeros 0   NaN 2   inf 1",
        "  constant rows 0",
    ]


def test_a_tensor_without_elements_has_counts_only() -> None:
    """The tensor has 0 × 2 elements: no row, and nothing to be a quantile or a norm."""
    assert shown_statistics(np.zeros((0, 2))) == ["  zeros 0   NaN 0   inf 0", "  constant rows 0"]


def test_statistics_have_columns_in_the_table_of_tensors() -> None:
    """Of two tensors, x has statistics: the numbers 3, 4, 0, 0 have min 0, max 4, mean 1.75 and the
    standard deviation √((1.25² + 2.25² + 2 · 1.75²) / 4) = 1.785357.
    """
    array = np.array([[3.0, 4.0], [0.0, 0.0]])
    with_statistics = TensorSummary("x", "float64", [2, 2], 32, profile(array))
    without = TensorSummary("y", "float64", [2], 16)
    lines = said(file_summary.show, FileSummary("f", "npz", 2, [with_statistics, without], {}))
    _, heading, x, y, *_ = lines.splitlines()

    assert heading.split() == ["name", "dtype", "shape", "bytes", "min", "max", "mean", "std"]
    assert x.split() == ["x", "float64", "2", "×", "2", "32", "0", "4", "1.75", "1.785357"]
    assert y.split() == ["y", "float64", "2", "16"]


@pytest.mark.parametrize(
    ("holds", "line"),
    [
        (True, "stored SHA-256 matches"),
        (False, "stored SHA-256 does NOT match: the data changed"),
        (None, "f  npz  0 tensors  0 bytes"),
    ],
)
def test_the_stored_hash_is_judged_if_it_was_computed(holds: bool | None, line: str) -> None:
    """A file may carry the SHA-256 of its data. The last line states whether it holds; if it was
    not computed, None, the only line is that about the file.
    """
    summary = FileSummary("f", "npz", 0, [], {}, sha256_holds=holds)
    assert said(file_summary.show, summary).splitlines()[-1] == line
    assert summary.as_json().get("sha256_holds") is holds


def test_the_json_of_a_file_has_only_what_was_computed() -> None:
    """One of 3 tensors is listed. Matches, and numbers of row 1 of the vector (1, 2), are in the
    JSON only if they were computed.
    """
    tensor = TensorSummary("x", "float32", [2], 8)
    plain = FileSummary("f", "npz", 3, [tensor], {"a": 1}).as_json()
    assert plain == {
        "file": "f",
        "format": "npz",
        "tensor_count": 3,
        "tensors": [{"name": "x", "dtype": "float32", "shape": [2], "bytes": 8}],
        "metadata": {"a": 1},
    }

    tensor.numbers = file_summary.numbers(np.array([1.0, 2.0]), "1", ":")
    asked = FileSummary("f", "npz", 3, [tensor], {}, matches=[]).as_json()
    assert asked["matches"] == []
    (entry,) = asked["tensors"]
    assert entry["numbers"] == {"rows": [1], "columns": [0], "values": [[2.0]]}


@pytest.mark.parametrize("shape", [(1000, 100), (100_000, 0)])
def test_at_most_a_hundred_thousand_elements_are_shown(shape: tuple[int, ...]) -> None:
    """1000 · 100 elements are shown, and one row more is refused. A row without columns counts as
    an element, as it takes a line.
    """
    shown = file_summary.numbers(np.zeros(shape, np.float16), ":", ":")
    assert len(shown.rows) == shape[0]

    longer = np.zeros((shape[0] + 1, *shape[1:]), np.float16)
    with pytest.raises(ParameterError, match="at most 100,000 elements are shown at once"):
        file_summary.numbers(longer, ":", ":")


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (np.array([[1, 2]], np.uint8), [[1, 2]]),
        (np.array([[True, False]]), [[True, False]]),
        (np.array([[1 + 2j]]), [["(1+2j)"]]),
        (np.array([[1.5]], ml_dtypes.bfloat16), [[1.5]]),
        (np.arange(8).reshape(2, 2, 2), [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (np.float32(3), [[3.0]]),
    ],
    ids=["integers", "bool", "complex", "bfloat16", "three axes", "a scalar"],
)
def test_elements_are_numbers_that_json_has(array: np.ndarray, values: list[object]) -> None:
    """Elements of any dtype are shown as numbers of Python, and complex ones as text. An array of
    three axes has the rows of its matrices one after the other.
    """
    shown = file_summary.numbers(np.asarray(array), ":", ":").values
    assert shown == values
    assert json.loads(json.dumps(shown)) == values


def test_the_spec_of_a_file_is_decoded_metadata_unless_it_is_not_json() -> None:
    """A spec is JSON under the key «pecli»; other metadata is text."""

    def metadata_of(spec: str) -> object:
        file = LoadedFile("f", "npz", {}, {"pecli": spec, "other": "1"})
        return file_summary.describe(file, "f", {}).metadata

    assert metadata_of('{"scheme": "rope"}') == {"pecli": {"scheme": "rope"}, "other": "1"}
    assert metadata_of("no spec") == {"pecli": "no spec", "other": "1"}


def test_metadata_of_any_type_takes_a_line() -> None:
    """Metadata is a text, a number, and a spec whose only key is not set."""
    summary = FileSummary("f", "npz", 0, [], {"a": "text", "b": 3, "pecli": {"parameters": None}})
    assert said(file_summary.show, summary).splitlines()[1:] == ["a  text", "b  3", "pecli"]


def test_complex_elements_are_shown_as_python_writes_them() -> None:
    """The last line is row 0 with its only element, 1 + 2i."""
    tensor = TensorSummary("z", "complex128", [1], 16)
    tensor.numbers = file_summary.numbers(np.array([1 + 2j]), ":", ":")
    lines = said(file_summary.show, FileSummary("f", "npz", 1, [tensor], {})).splitlines()
    assert lines[-1].split() == ["0", "(1+2j)"]


LONG_FACTORS = tuple(1.0 + k / 7 for k in range(64))
LONGROPE = pecli.Rope(
    4,
    128,
    scaling="longrope",
    short_factor=LONG_FACTORS,
    long_factor=LONG_FACTORS,
    original_max_position_embeddings=2,
    attention_factor=1.0,
)


@pytest.mark.parametrize(
    ("scheme", "command"),
    [(pecli.Rope(4, 8), "pecli rope --seq-len 4 --dim 8"), (LONGROPE, "pecli rope …")],
    ids=["short", "too long to be read"],
)
def test_tensors_are_listed_with_the_command_that_makes_them(
    scheme: pecli.Scheme, command: str
) -> None:
    """The tables cos and sin of a file were made by a scheme. The command of a longrope with lists
    of 64 factors is too long to be read.
    """
    match = Match(scheme, 0.0, ("cos", "sin"))
    summary = FileSummary("f", "npz", 0, [], {}, matches=[match])
    assert said(file_summary.show, summary).splitlines()[1:] == [f"cos, sin: as made by {command}"]
