"""Raw binary files have numbers and no header: `--shape` and `--raw-dtype` state what their bytes
mean.

Most files hold 0 to 23 as NumPy's `tofile` writes them, with the shape (2, 3, 4); in a shape, −1
stands for the length that follows from the size of the file, as in NumPy.
"""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.errors import FileError, ParameterError
from pecli.files.raw_layout import DTYPE_NAMES, RawLayout, parse_layout
from pecli.notes import passed_to
from tests.exit_codes import FILE_ERROR, SUCCESS, USAGE_ERROR

pytestmark = pytest.mark.usefixtures("working_folder")

NUMBERS_0_TO_23 = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("dtype", [*DTYPE_NAMES])
def test_raw_numbers_of_every_dtype_are_read_back(dtype: str) -> None:
    """0 to 23 in the shape (2, 3, 4) are written by NumPy's tofile; bfloat16 and 8-bit floats are
    dtypes of the ml_dtypes package.
    """
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    array = NUMBERS_0_TO_23.astype(numpy_dtype)
    array.tofile("x.bin")
    loaded = pecli.load("x.bin", shape=(2, 3, 4), raw_dtype=dtype)["array"]

    assert loaded.dtype == numpy_dtype
    assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("f32", "float32", id="Rust"),
        pytest.param("i8", "int8", id="Rust: 8 bits"),
        pytest.param("u8", "uint8", id="Rust: 8 bits without a sign"),
        pytest.param("BF16", "bfloat16", id="safetensors"),
        pytest.param("torch.bfloat16", "bfloat16", id="PyTorch"),
        pytest.param("half", "float16", id="PyTorch: half"),
        pytest.param("double", "float64", id="C"),
        pytest.param("f8_e4m3", "float8_e4m3fn", id="8-bit float"),
        pytest.param("f4", "float32", id="NumPy: 4 bytes"),
        pytest.param("<i8", "int64", id="NumPy: 8 bytes, little-endian"),
        pytest.param("<f8", "float64", id="NumPy: float of 8 bytes, little-endian"),
    ],
)
def test_other_names_of_dtypes_are_understood(name: str, dtype: str) -> None:
    """In NumPy's codes the number counts bytes: «<i8» is int64, but «i8» without an order is int8,
    as in Rust. Without a shape, the layout is a vector of as many numbers as there are (−1).
    """
    assert parse_layout(None, name) == RawLayout((-1,), dtype)


@pytest.mark.parametrize("code", [">f4", ">f2", ">i2", ">f8"])
def test_big_endian_numbers_are_read_as_native_ones(code: str) -> None:
    """«>» is NumPy's sign for big-endian; the loaded numbers have the order of the machine."""
    NUMBERS_0_TO_23.astype(code).tofile("x.dat")
    loaded = pecli.load("x.dat", shape=(2, 3, 4), raw_dtype=code)["array"]

    assert loaded.dtype.isnative
    assert np.array_equal(loaded, NUMBERS_0_TO_23)


@pytest.mark.parametrize("shape", [(-1, 3, 4), (2, -1, 4), (2, 3, -1)])
def test_a_length_of_minus_1_follows_from_the_size_of_the_file(shape: tuple[int, ...]) -> None:
    """96 bytes are 24 numbers of float32; −1 in the shape stands for 24 divided by the other two
    lengths.
    """
    NUMBERS_0_TO_23.astype("f4").tofile("x")
    assert pecli.load("x", shape=shape, raw_dtype="f32")["array"].shape == (2, 3, 4)


def test_raw_numbers_without_a_shape_are_a_vector() -> None:
    """The file has 96 bytes, which are 24 numbers of float32."""
    NUMBERS_0_TO_23.astype("f4").tofile("x.raw")
    assert pecli.load("x.raw", raw_dtype="f32")["array"].shape == (24,)


@pytest.mark.parametrize(
    ("shape", "dtype", "problem"),
    [
        pytest.param(
            (2, 3, 5),
            "f32",
            "has 96 bytes, and 2,3,5 of float32 takes 120 bytes$",
            id="too many numbers",
        ),
        pytest.param(
            (-1, 7),
            "f32",
            "has 96 bytes, and 3,7 of float32 takes 84 bytes$",
            id="no multiple",
        ),
        pytest.param((2**40, 2**40), "f32", "claims an impossible shape", id="2^80 numbers"),
    ],
)
def test_a_shape_that_does_not_fit_the_size_is_refused_with_both_sizes(
    shape: tuple[int, ...], dtype: str, problem: str
) -> None:
    """The file has 24 float32 numbers: 96 bytes. Three rows of 7 are 84 bytes, and four are 112."""
    NUMBERS_0_TO_23.astype("f4").tofile("x.bin")
    with pytest.raises(FileError, match=problem):
        pecli.load("x.bin", shape=shape, raw_dtype=dtype)


def test_no_shape_fits_a_file_with_a_part_of_a_number() -> None:
    """26 bytes are 6 numbers of 4 bytes and 2 bytes more; 3 × 3 numbers of float32 would take 36."""
    Path("x.bin").write_bytes(bytes(26))
    with pytest.raises(FileError, match=r"3,3 of float32 takes 36 bytes$"):
        pecli.load("x.bin", shape=(3, 3), raw_dtype="f32")


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param("", id="empty"),
        pytest.param("2,x", id="a letter"),
        pytest.param("0,3", id="zero"),
        pytest.param("-2", id="a negative number"),
        pytest.param("-1,-1", id="two open lengths"),
        pytest.param("2;3", id="another separator"),
        pytest.param("1" * 30, id="30 digits"),
    ],
)
def test_a_text_that_is_no_shape_is_refused(shape: str) -> None:
    """A shape is a list of positive numbers with commas, one of which may be −1."""
    with pytest.raises(ParameterError, match="one of which may be -1"):
        parse_layout(shape, "f32")


def test_the_dtype_f8_is_refused_because_it_has_two_meanings() -> None:
    """In NumPy f8 is a float of 8 bytes, in machine learning one of 8 bits."""
    with pytest.raises(ParameterError, match="give f64, f8_e4m3 or f8_e5m2"):
        parse_layout(None, "f8")


def test_an_unknown_dtype_is_refused_with_a_similar_one() -> None:
    """«flot16» lacks one letter."""
    with pytest.raises(ParameterError, match="did you mean 'float16'"):
        parse_layout(None, "flot16")


def test_a_shape_of_a_binary_file_without_a_dtype_is_refused(run_pecli: Callable) -> None:
    """The shape (2, 12) does not determine how many bytes each number has."""
    Path("x.bin").write_bytes(bytes(96))
    refused = run_pecli("inspect", "x.bin", "--shape", "2,12")

    assert refused.exit_code == USAGE_ERROR
    assert "--raw-dtype is missing" in refused.err


@pytest.mark.parametrize("shape", ["2,3,4", "2,-1,4"])
def test_a_shape_without_a_dtype_arranges_the_numbers_of_a_text(shape: str) -> None:
    """Text states its numbers itself, so a shape alone arranges 24 lines of one number each."""
    Path("x.txt").write_text("".join(f"{value}\n" for value in NUMBERS_0_TO_23.reshape(-1)))
    array = pecli.load("x.txt", shape=[int(side) for side in shape.split(",")])["array"]

    assert array.tolist() == NUMBERS_0_TO_23.tolist()


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        pytest.param(
            "2,12,2", "array has 24 numbers, and --shape 2,12,2 takes 48 numbers", id="too many"
        ),
        pytest.param(
            "-1,7",
            "array has 24 numbers, and --shape 3,7 takes 21 numbers",
            id="no multiple",
        ),
    ],
)
def test_a_shape_that_does_not_fit_the_numbers_of_a_text_is_refused(
    run_pecli: Callable, shape: str, problem: str
) -> None:
    """The text has 24 lines of one number each."""
    Path("x.txt").write_text("".join(f"{value}\n" for value in NUMBERS_0_TO_23.reshape(-1)))
    refused = run_pecli("inspect", "x.txt", "--shape", shape)

    assert refused.exit_code == FILE_ERROR
    assert problem in refused.err


def test_the_error_about_bytes_of_no_format_shows_the_options_for_raw_files(
    run_pecli: Callable,
) -> None:
    """The file x.bin has numbers without a header. The shape in the advice is an example of batch,
    heads, positions and channels.
    """
    NUMBERS_0_TO_23.astype("f4").tofile("x.bin")
    refused = run_pecli("inspect", "x.bin")

    assert refused.exit_code == FILE_ERROR
    assert "--shape 2,8,24,128 --raw-dtype f16" in refused.err


def test_files_of_a_known_format_are_not_read_as_raw_numbers() -> None:
    """A file with a magic number, or with the suffix of a format, is read as that format although
    `raw_dtype` is given.
    """
    np.save("x.npy", NUMBERS_0_TO_23)
    Path("plain").write_bytes(Path("x.npy").read_bytes())
    Path("x.csv").write_text("1,2\n3,4\n")

    assert pecli.load("plain", raw_dtype="f32")["array"].shape == (2, 3, 4)
    assert pecli.load("x.csv", raw_dtype="f32")["array"].tolist() == [[1, 2], [3, 4]]


def random_queries() -> np.ndarray:
    """Return queries of 32 heads, 6 tokens and 128 channels in float16."""
    return np.random.default_rng(0).standard_normal((32, 6, 128)).astype(np.float16)


def sine_table() -> np.ndarray:
    return pecli.Rope(64, 64).tables()["sin"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("values", [random_queries, sine_table], ids=["queries", "table"])
def test_a_byte_order_that_gives_absurd_numbers_is_noted(
    dtype: str, values: Callable[[], np.ndarray]
) -> None:
    """Floats whose bytes are in reverse order have absurd exponents. `big.bin` holds the numbers in
    big-endian order, which «>» before the dtype states; each file is read both ways, and only the
    wrong way has a note, with the option for the right one.
    """
    array = values().astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    array.tofile("little.bin")
    array.view(f"u{array.itemsize}").byteswap().tofile("big.bin")

    assert notes_of("little.bin", dtype) == []
    assert notes_of("big.bin", f">{dtype}") == []

    (note,) = notes_of("big.bin", dtype)
    assert f"the byte order seems wrong; --raw-dtype '>{dtype}'" in note

    (note,) = notes_of("little.bin", f">{dtype}")
    assert f"--raw-dtype '{dtype}'" in note


def notes_of(path: str, dtype: str) -> list[str]:
    notes: list[str] = []
    with passed_to(notes.append):
        pecli.load(path, raw_dtype=dtype)
    return notes


def test_a_raw_layout_counts_for_all_files_of_a_command(run_pecli: Callable) -> None:
    """pecli rotates queries, and both are written without a header: the `--before` file and two
    copies of the result are read by the one --shape and --raw-dtype.
    """
    queries = random_queries()
    np.save("queries.npy", queries)
    rotation = ("rope", "queries.npy", "--model", "llama-3.1-8b", "-o", "rotated.npy", "-q")
    applied = run_pecli("apply", *rotation)
    assert applied.exit_code == SUCCESS, applied.err

    queries.tofile("before.bin")
    rotated = np.load("rotated.npy")
    rotated.tofile("after_1.bin")
    rotated.tofile("after_2.bin")
    checked = run_pecli(
        *("verify", "after_1.bin", "after_2.bin", "--before", "before.bin"),
        *("--model", "llama-3.1-8b", "--shape", "32,-1,128", "--raw-dtype", "f16"),
    )

    assert checked.exit_code == SUCCESS, checked.err
    assert checked.out.count("passed") == 2


def test_a_manifest_states_shape_and_dtype_of_raw_files_per_check(run_pecli: Callable) -> None:
    """A manifest, pecli.toml, lists checks. One table of 6 positions and 8 channels is stored
    twice: little.bin is float32 in the machine's order, big.bin is big-endian.
    """
    table = pecli.Sinusoidal(6, 8).tables()["pe"]
    table.tofile("little.bin")
    table.astype(">f4").tofile("big.bin")
    Path("pecli.toml").write_text("""
[[check]]
file = "little.bin"
scheme = "sinusoidal"
seq_len = 6
dim = 8
shape = [6, 8]
raw_dtype = "f32"

[[check]]
file = "big.bin"
scheme = "sinusoidal"
seq_len = 6
dim = 8
shape = "-1,8"
raw_dtype = ">f4"
""")
    checked = run_pecli("verify", "pecli.toml")

    assert checked.exit_code == SUCCESS, checked.out + checked.err
    assert "2 passed" in checked.out


def test_a_shape_in_a_manifest_that_is_a_number_is_refused(run_pecli: Callable) -> None:
    """The manifest has `shape = 3`; a shape is a list, or a text such as "-1,8"."""
    Path("pecli.toml").write_text('[[check]]\nfile = "a.bin"\nshape = 3\nraw_dtype = "f32"\n')
    refused = run_pecli("verify", "pecli.toml")

    assert refused.exit_code == USAGE_ERROR
    assert "shape is 3; it must be a list of lengths" in refused.err


def test_raw_numbers_are_read_from_standard_input(process: Callable) -> None:
    """The bytes of a sinusoidal table of 6 positions and 8 channels are piped into a process, which
    verifies them against the same table.
    """
    data = pecli.Sinusoidal(6, 8).tables()["pe"].tobytes()
    scheme = ("sinusoidal", "--seq-len", 6, "--dim", 8)
    raw_layout = ("--shape", "6,8", "--raw-dtype", "f32")
    done = process(*scheme, "--verify", "-", *raw_layout, input=data)

    assert done.returncode == SUCCESS, done.stderr


def test_no_shape_is_proposed_for_a_file_that_ends_within_a_number() -> None:
    """26 bytes are six numbers of float32 and a half, so that no shape fits."""
    Path("x.bin").write_bytes(bytes(26))
    with pytest.raises(FileError) as caught:
        pecli.load("x.bin", shape=(2, 4), raw_dtype="float32")

    message = str(caught.value)
    assert "has 26 bytes, and 2,4 of float32 takes 32 bytes" in message
    assert "--shape" not in message
