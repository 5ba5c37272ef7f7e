"""Tables as text, .csv, .json and .h: every number reads back as itself; text that is no table is
refused.

What pecli writes is read back by Python's csv and json modules, by a C compiler, or by pecli
itself, and compared with the saved arrays bit by bit. Text of other writers (NumPy, pandas) is
read, and each broken text has one mistake.
"""

import csv
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pecli
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files import save_tables
from pecli.files.csv_file import is_header
from pecli.files.decimals import numerals
from pecli.golden import write
from pecli.notes import passed_to
from tests.exit_codes import SUCCESS

Arrays = dict[str, NDArray[np.generic]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_csv_is_read_by_python_as_the_same_values(working_folder: Path, dtype: type) -> None:
    """Python's csv and float read the text, and the float64 numbers are rounded to the dtype again;
    infinities are included.
    """
    array = np.sin(np.arange(1200.0)).reshape(300, 4).astype(dtype)
    array[0] = np.array([-np.inf, np.inf, 0, -1]).astype(dtype)
    save_tables("a.csv", [table_of("a", array)], None)
    with open("a.csv") as file:
        header, *rows = csv.reader(file)

    assert header == ["a_0", "a_1", "a_2", "a_3"]
    assert np.array(rows, float).astype(dtype).tobytes() == array.tobytes()


def test_csv_has_the_shortest_digits_and_a_header_of_names(working_folder: Path) -> None:
    """Numbers have the fewest digits that round back to the same float32, as repr writes them:
    sin 1 = 0.8414709848… is 0.84147096 there.
    """
    array = np.array([[math.sin(1), -math.inf, 1e-7], [0, 3, math.nan]], np.float32)
    save_tables("a.csv", [table_of("a", array)], None)

    assert Path("a.csv").read_text() == "a_0,a_1,a_2\n0.84147096,-inf,1e-7\n0.0,3.0,nan\n"
    assert pecli.load("a.csv")["array"].shape == (2, 3)


def test_csv_is_written_without_a_header_if_the_caller_wants_none(working_folder: Path) -> None:
    """All rows are numbers, which are read back as two rows of three."""
    array = np.array([[0.5, -math.inf, 1e-7], [0, 3, math.nan]], np.float32)
    pecli.save("a.csv", array, header=False)

    assert Path("a.csv").read_text() == "0.5,-inf,1e-7\n0.0,3.0,nan\n"
    assert pecli.load("a.csv")["array"].shape == (2, 3)


def test_a_column_of_csv_is_not_named_nan(working_folder: Path) -> None:
    """A header «nan» would be read as a row with a number, so that the column is «table_nan»."""
    save_tables("a.csv", [table_of("nan", np.array([0.1, 2.0]))], None)

    assert Path("a.csv").read_text() == "table_nan\n0.1\n2.0\n"
    assert pecli.load("a.csv")["array"].shape == (2, 1)


@pytest.mark.parametrize(
    ("dtype", "most_digits", "largest"),
    [
        pytest.param(np.float16, 5, 0x7BFF, id="float16"),
        pytest.param(ml_dtypes.bfloat16, 4, 0x7F7F, id="bfloat16"),
    ],
)
def test_sixteen_bits_are_written_in_few_digits(
    dtype: type, most_digits: int, largest: int
) -> None:
    """A fraction of b bits needs up to 1 + ⌈b · log10 2⌉ significant digits: 5 for float16 (11 bits),
    and 4 for bfloat16 (8 bits). 500 random patterns of bits, `largest`, which is the largest number,
    its negative and a number near it are written and read back.
    """
    random_bits = np.random.default_rng(0).integers(0, 2**16, 500, np.uint16)
    sign = 0x8000
    near_the_largest = np.array([largest, largest | sign, largest - 15], np.uint16)
    array = np.concatenate([random_bits, near_the_largest]).view(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        finite = array[np.isfinite(array.astype(float))]
    texts = numerals(finite)

    assert np.array(texts, float).astype(dtype).tobytes() == finite.tobytes()
    assert max(map(significant_digits, texts)) <= most_digits


def significant_digits(numeral: str) -> int:
    """Count the digits of a number without the zeros around them: 1 of 6e-08, 4 of -65440.0."""
    mantissa, _, _ = numeral.partition("e")
    return len(mantissa.replace(".", "").strip("-0"))


def test_json_is_read_by_python_as_the_same_lists(
    working_folder: Path, arrays: Arrays, tables: list[Table], spec: dict
) -> None:
    """`arrays` are three arrays of several shapes and dtypes, `tables` the same as pecli's tables,
    and `spec` is a note about their origin. Tensors are in the order of their names. Python's float
    also reads the texts that stand for infinities.
    """
    save_tables("a.json", tables, spec)
    loaded = json.loads(Path("a.json").read_text())

    assert loaded["pecli"] == spec
    assert list(loaded["tensors"]) == sorted(arrays)
    for name, array in arrays.items():
        tensor = loaded["tensors"][name]
        assert tensor["dtype"] == array.dtype.name
        assert tensor["shape"] == list(array.shape)
        numbers = np.vectorize(float)(np.array(tensor["data"], object)).astype(array.dtype)
        assert numbers.tobytes() == array.tobytes()


def test_infinities_and_nan_are_texts_in_json(working_folder: Path) -> None:
    """JSON has no such numbers; bare words, which Python's json would pass to `parse_constant`, are
    an error elsewhere. −0 keeps its sign.
    """
    array = np.array([-np.inf, np.inf, np.nan, -0.0, 1.5])
    save_tables("a.json", [table_of("a", array)], None)
    text = Path("a.json").read_text()
    data = json.loads(text, parse_constant=pytest.fail)["tensors"]["a"]["data"]

    assert data == ["-Infinity", "Infinity", "NaN", -0.0, 1.5]
    assert math.copysign(1, data[3]) == -1


@pytest.mark.parametrize("shape", [(), (3,), (9,), (17,), (4, 3), (2, 1, 3), (2, 2, 2, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool"])
def test_arrays_of_any_shape_are_nested_lists_in_json(
    working_folder: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    """NumPy's tolist has the expected lists."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    save_tables("a.json", [table_of("a", array)], None)
    assert json.loads(Path("a.json").read_text())["tensors"]["a"]["data"] == array.tolist()


def tables_of_many_dtypes() -> list[Table]:
    """Return nine tables of seven dtypes, with special, smallest and largest numbers."""
    special = np.array([[-np.inf, np.inf, np.nan, -0.0], [5e-324, 1.7e308, -1 / 3, 2.0**-149]])
    return [
        table_of("f64", special),
        table_of("f32", np.sin(np.arange(60.0)).reshape(3, 4, 5).astype(np.float32)),
        table_of("tiny", np.array([1e-45, -1.2e-38, 3.4e38, 0], np.float32)),
        table_of("f16", np.sin(np.arange(5.0)).astype(np.float16)),
        table_of("bf16", np.sin(np.arange(5.0)).astype(ml_dtypes.bfloat16)),
        table_of("i64", np.array([1 - 2**63, 2**63 - 1, -(2**31), 7])),
        table_of("u64", np.array([2**63 - 1, 0], np.uint64)),
        table_of("flags", np.array([True, False])),
        table_of("one", np.array(2.5)),
    ]


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_a_compiled_header_holds_the_bits_of_the_tables(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """A C program includes the header twice and prints the memory of the arrays, which must be that
    of NumPy's. The compiler may not warn. `spec` is written as a comment, and has a text with «*/».
    """
    tables = tables_of_many_dtypes()
    save_tables("a.h", tables, spec)
    names = [f"a_{table.name}" for table in tables]
    dumps = "".join(f"fwrite(&{name}, sizeof {name}, 1, stdout);" for name in names)
    includes = '#include <stdio.h>\n#include "a.h"\n#include "a.h"\n'
    Path("a.c").write_text(f"{includes}int main(void) {{ {dumps} return 0; }}\n")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *strict, "a.c", "-o", "a"], check=True)
    printed = subprocess.run(["./a"], check=True, capture_output=True).stdout

    expected = [table.array() for table in tables]
    # Element (0, 2) of the first table is NaN. Which of its bits are set, the compiler decides.
    expected[0][0, 2] = np.frombuffer(printed, np.float64, 8)[2]
    assert printed == b"".join(array.tobytes() for array in expected)


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no C++ compiler")
def test_a_header_is_accepted_by_a_cpp_compiler(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """The header holds nine tables of seven dtypes, and `spec` as a comment, in which a text has
    «*/». The compiler checks it as a header of C++17, and may not warn.
    """
    save_tables("a.h", tables_of_many_dtypes(), spec)
    options = ("-std=c++17", "-x", "c++-header", "-Wall", "-Werror", "-fsyntax-only")
    subprocess.run(["c++", *options, "a.h"], check=True)


def test_a_header_states_shape_values_and_parameters(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """The header a.h has the lengths of the axes, a C array, and a comment with the parameters;
    sin(1) is 0.84147096 in float32.
    """
    array = np.array([[math.sin(1), 1.5]], np.float32)
    save_tables("a.h", [table_of("pe", array)], {**spec, "scheme": "sinusoidal"})
    text = Path("a.h").read_text()

    assert "#define A_PE_DIM0 1\n#define A_PE_DIM1 2\n" in text
    assert "static const float a_pe[1][2] =\n{{0.84147096f,1.5f}};\n" in text

    comment = text.split("*/")[0].removeprefix("/* pecli: ")
    assert json.loads(comment) == {**spec, "scheme": "sinusoidal"}


@pytest.mark.parametrize(
    ("array", "declaration"),
    [
        (np.array([[1, -2]], np.float16), "uint16_t a_x[1][2] =\n{{0x3c00,0xc000}};"),
        (np.array([1, -2], ml_dtypes.bfloat16), "uint16_t a_x[2] =\n{0x3f80,0xc000};"),
        (np.array([1, -2], ml_dtypes.float8_e4m3fn), "uint8_t a_x[2] =\n{0x38,0xc0};"),
        (np.array([1, -2], ml_dtypes.float8_e5m2), "uint8_t a_x[2] =\n{0x3c,0xc0};"),
        (np.array([True, False]), "uint8_t a_x[2] =\n{0x01,0x00};"),
        (np.array([-1, 2], np.int16), "int16_t a_x[2] =\n{-1,2};"),
        (np.array([1.5, -np.inf, np.nan]), "double a_x[3] =\n{1.5,-INFINITY,NAN};"),
        (np.array([1.5, np.inf], np.float32), "float a_x[2] =\n{1.5f,INFINITY};"),
        (np.array(2.5), "double a_x =\n2.5;"),
    ],
    ids=lambda value: value.dtype.name if isinstance(value, np.ndarray) else "",
)
def test_an_element_of_a_header_has_the_c_type_of_its_dtype(
    working_folder: Path, array: np.ndarray, declaration: str
) -> None:
    """C99 has no small floats, which are bit patterns. 1 is 0x3c00 in float16 (5 bits of exponent,
    bias 15), 0x3f80 in bfloat16 (the upper half of float32), and −2 has the sign and one more in
    the exponent. Infinities are macros, which take no suffix.
    """
    save_tables("a.h", [table_of("x", array)], None)
    text = Path("a.h").read_text()

    assert text.startswith("#ifndef PECLI_A_H\n#define PECLI_A_H\n")
    assert f"static const {declaration}\n" in text


def array_of_header(dtype: str) -> np.ndarray:
    """Return numbers of which no two have the same bits, for a header; floats have infinities."""
    if dtype == "bool":
        return np.array([[True, False]])
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return np.array([[max(limits.min, -(2**53)), 3, min(limits.max, 2**53)]], dtype)
    return np.array([[0.1, -0.0, np.inf], [-np.inf, np.nan, 3e-8]]).astype(dtype)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint16", "uint8", "bool"],
)
def test_a_header_is_loaded_with_the_same_dtypes_and_bits(working_folder: Path, dtype: str) -> None:
    """C has no float16 and no bfloat16; a comment states which of them the bits are of."""
    array = array_of_header(dtype)
    pecli.save("a.h", {"x": array})
    loaded = pecli.load("a.h")["x"]

    assert loaded.dtype == array.dtype
    assert loaded.shape == array.shape
    assert have_equal_bits(loaded, array)


@pytest.mark.parametrize("shape", [(), (3,), (9,), (2, 1, 3)], ids=str)
def test_a_header_is_loaded_with_the_same_shape(
    working_folder: Path, shape: tuple[int, ...]
) -> None:
    """A number that is alone has no braces, and vectors have several lines of eight."""
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + np.float32(0.5)
    pecli.save("a.h", {"x": array})
    np.testing.assert_array_equal(pecli.load("a.h")["x"], array, strict=True)


def test_tables_of_a_header_are_loaded_without_the_prefix_of_their_names_in_c(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """The prefix is known from the include guard, PECLI_MYROPE_H, which has it in upper case, so that
    a prefix of small and capital letters must be found as well.
    """
    tables = [table_of("cos", np.ones(2)), table_of("inv_freq", np.ones(2))]
    save_tables("a.h", tables, spec, prefix="myRope")
    text = Path("a.h").read_text()

    assert "#define PECLI_MYROPE_H\n" in text
    assert " myRope_cos[2] " in text
    assert " myRope_inv_freq[2] " in text
    assert [*pecli.load("a.h")] == ["cos", "inv_freq"]


def test_a_header_of_windows_is_read(working_folder: Path, spec: dict[str, object]) -> None:
    """Git for Windows ends lines with CR and LF."""
    save_tables("a.h", [table_of("x", np.float16([0.5, 2]))], spec)
    text = Path("a.h").read_bytes()
    Path("a.h").write_bytes(text.replace(b"\n", b"\r\n"))

    assert pecli.load("a.h")["x"].tolist() == [0.5, 2]


def test_a_header_with_a_licence_before_its_spec_is_read(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """The licence is a comment of one line."""
    save_tables("a.h", [table_of("x", np.float16([0.5, 2]))], spec)
    Path("a.h").write_text("// SPDX-License-Identifier: MIT\n" + Path("a.h").read_text())

    assert pecli.load("a.h")["x"].tolist() == [0.5, 2]


HEADER_OF_FLOAT16 = """\
#ifndef PECLI_A_H
#define PECLI_A_H

#include <math.h>
#include <stdint.h>

#define A_X_DIM0 1
#define A_X_DIM1 2
/* bits of float16 */
static const uint16_t a_x[1][2] =
{{0x3c00,0xc000}};

#endif /* PECLI_A_H */
"""


def test_a_header_of_float16_has_a_guard_the_lengths_the_dtype_and_the_bits(
    working_folder: Path,
) -> None:
    """1 and −2 are 0x3c00 and 0xc000 in float16: 5 bits of exponent with the bias 15 after the sign."""
    save_tables("a.h", [table_of("x", np.array([[1, -2]], np.float16))], None)

    assert Path("a.h").read_text() == HEADER_OF_FLOAT16
    assert pecli.load("a.h")["x"].tolist() == [[1, -2]]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        pytest.param("#endif", "", "is truncated", id="no #endif"),
        pytest.param(
            "}};\n\n#endif /* PECLI_A_H */",
            "",
            "the file seems to be cut short",
            id="cut behind the numbers",
        ),
        pytest.param(
            "[1][2]",
            "[2][1]",
            "has numbers of the shape (1, 2), and is declared as (2, 1)",
            id="another shape",
        ),
        pytest.param(
            "float16 */", "bfloat17 */", "which pecli does not write", id="an unknown dtype"
        ),
        pytest.param(
            "/* bits of float16 */\n",
            "",
            "has bits of a dtype that is not stated",
            id="no dtype of the bits",
        ),
        pytest.param("uint16_t", "uint8_t", "which pecli does not write", id="8 bits for float16"),
        pytest.param(
            "0x3c00", "0x1ffff", "holds a number that float16 does not hold", id="17 bits"
        ),
        pytest.param(
            "0x3c00", "0.5", "holds a number that float16 does not hold", id="a decimal for bits"
        ),
        pytest.param("0x3c00", "one", "'one' is not a number", id="a word for bits"),
        pytest.param("static const", "static", "declares no tables", id="a variable"),
        pytest.param("{{", "", "has no braces", id="no opening braces"),
    ],
)
def test_a_header_that_is_not_as_it_was_written_is_refused(
    working_folder: Path, before: str, after: str, problem: str
) -> None:
    """HEADER_OF_FLOAT16, which pecli writes, is read without this one change."""
    assert before in HEADER_OF_FLOAT16
    changed = HEADER_OF_FLOAT16.replace(before, after, 1)
    assert problem in refusal_of(working_folder / "a.h", changed)


HEADER_WITH_SPEC = '/* pecli: {"scheme":"rope"} */\n#ifndef PECLI_A_H\n#define PECLI_A_H\n'


@pytest.mark.parametrize(
    "text",
    [
        HEADER_WITH_SPEC[:20],
        HEADER_WITH_SPEC.partition("\n")[0],
        HEADER_WITH_SPEC.partition("#")[0],
        HEADER_WITH_SPEC.partition("_A_H")[0],
        HEADER_WITH_SPEC,
    ],
    ids=["in the spec", "after the spec", "before the guard", "in the guard", "before the tables"],
)
def test_a_header_that_ends_before_its_tables_is_truncated(tmp_path: Path, text: str) -> None:
    """A C header of pecli has a comment with the spec, an include guard, and then the tables."""
    (tmp_path / "a.h").write_bytes(text.encode())
    with pytest.raises(FileError, match="is truncated"):
        pecli.load(tmp_path / "a.h")


def test_a_header_with_a_spec_and_without_a_guard_is_not_called_truncated(
    working_folder: Path,
) -> None:
    """Somebody has removed the lines of the guard; the rest is there."""
    text = '/* pecli: {"scheme":"rope"} */\n\nstatic const float a_x[1] =\n{0.5f};\n'
    assert "has no include guard" in refusal_of(working_folder / "a.h", text)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".h"])
@pytest.mark.parametrize(
    ("dtype", "advised_suffix"),
    [
        pytest.param(np.complex128, ".npz", id="complex"),
        pytest.param(ml_dtypes.float8_e4m3fnuz, ".safetensors", id="float8"),
    ],
)
def test_dtypes_that_text_cannot_hold_are_refused_with_a_format_that_can(
    working_folder: Path, suffix: str, dtype: type, advised_suffix: str
) -> None:
    """Nothing is written. Then the advice is followed, and must be good."""
    table = table_of("a", np.zeros(2, dtype))
    with pytest.raises(ParameterError, match=f"cannot hold it; write .*{advised_suffix}") as caught:
        save_tables("a" + suffix, [table], None)

    assert caught.value.given == table.dtype
    assert list(working_folder.iterdir()) == []
    save_tables(f"a{advised_suffix}", [table], None)


@pytest.mark.parametrize(
    ("path", "shape", "problem"),
    [
        ("a.csv", (4, 0), r"at least one number; write \.npy"),
        ("a.csv", (0, 2), r"at least one number; write \.npy"),
        ("a.h", (0, 2), "at least one number"),
    ],
)
def test_tables_without_numbers_are_not_written_as_text(
    working_folder: Path, path: str, shape: tuple[int, int], problem: str
) -> None:
    """An empty file, or empty lines, could not be read again, and C has no empty arrays."""
    with pytest.raises(ParameterError, match=problem):
        save_tables(path, [table_of("a", np.zeros(shape))], None)
    assert list(working_folder.iterdir()) == []


def test_names_that_are_one_name_in_c_are_refused(working_folder: Path) -> None:
    """In the header a.h, both «a-b» and «a_b» would be a_a_b, because names in C have no hyphen."""
    tables = [table_of("a-b", np.zeros(2)), table_of("a_b", np.zeros(2))]
    with pytest.raises(ParameterError, match="same name in C"):
        save_tables("a.h", tables, None)
    assert list(working_folder.iterdir()) == []


NUMBERS = [0.1, -0.0, 3e38, 1e-45, np.inf, -np.inf, np.nan, 1 / 3]


def arrays_of_many_dtypes() -> dict[str, np.ndarray]:
    bits = np.random.default_rng(0).integers(0, 2**32, 300, np.uint32)
    single = bits.view(np.float32)
    return {
        "plain": np.array(NUMBERS, np.float32).reshape(2, 4),
        "double": np.array([*NUMBERS, 2 / 3, 5e-324], np.float64).reshape(5, 2),
        "any": single[np.isfinite(single)][:200].reshape(10, 20),
        "small": np.linspace(-2, 2, 24, dtype=np.float16).reshape(2, 3, 4),
        "brain": np.linspace(-2, 2, 6).astype(ml_dtypes.bfloat16),
        "whole": np.array([[-(2**63), 2**63 - 1], [0, 1]], np.int64),
        "natural": np.array([2**64 - 1, 0, 7], np.uint64),
        "truth": np.array([[True, False]]),
        "scalar": np.array(2.5, np.float32),
    }


def have_equal_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if all bits are equal, or all values if NaN is among them."""
    return a.tobytes() == b.tobytes() or np.array_equal(a, b, True)


@pytest.mark.parametrize("name", arrays_of_many_dtypes())
def test_json_is_loaded_with_the_same_dtypes_and_bits(tmp_path: Path, name: str) -> None:
    """Integers up to the ends of 64 bits, booleans and floats, with denormal and infinite ones, are
    saved under their name. All bits must be equal, except that there is only one NaN.
    """
    array = arrays_of_many_dtypes()[name]
    pecli.save(tmp_path / "all.json", {name: array})
    loaded = pecli.load(tmp_path / "all.json")[name]

    assert loaded.dtype == array.dtype
    assert loaded.shape == array.shape
    assert have_equal_bits(loaded, array)


@pytest.mark.parametrize("name", ["plain", "double", "any"])
def test_csv_is_loaded_as_float64_that_rounds_to_the_saved_bits(tmp_path: Path, name: str) -> None:
    """CSV states no dtype. Two of the arrays are float32 («any» has random bits), and one float64;
    all have two axes.
    """
    array = arrays_of_many_dtypes()[name]
    pecli.save(tmp_path / "t.csv", array)
    loaded = pecli.load(tmp_path / "t.csv")["array"]

    assert loaded.dtype == np.float64
    assert loaded.shape == array.shape
    assert have_equal_bits(loaded.astype(array.dtype), array)


def test_whole_numbers_of_csv_are_loaded_as_int64(tmp_path: Path) -> None:
    """9007199254740993 is 2^53 + 1, which float64 does not hold, but int64 does."""
    (tmp_path / "t.csv").write_text("1,-2\n9007199254740993,4\n")
    assert pecli.load(tmp_path / "t.csv")["array"].tolist() == [[1, -2], [2**53 + 1, 4]]


def refusal_of(path: Path, text: str) -> str:
    """Return the message of the error that reading this text raises."""
    path.write_bytes(text.encode("latin-1") + b"\n")
    with pytest.raises(FileError) as caught:
        pecli.load(path)
    return str(caught.value)


@pytest.mark.parametrize(("suffix", "text"), [("csv", "1,2\n3"), ("txt", "1 2\n3\n")])
def test_a_row_that_is_too_short_is_refused_with_its_line(
    tmp_path: Path, suffix: str, text: str
) -> None:
    """The first line has two numbers, the second one."""
    assert "line 2 has 1 " in refusal_of(tmp_path / f"x.{suffix}", text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0.1x,2\n3,4", id="a letter after a number"),
        pytest.param("a,2.5\n3,4", id="a word in a first row of numbers"),
        pytest.param("1,b\n3,4", id="a word after a number in the first row"),
        pytest.param("a,b\nc,d\n1,2", id="two rows of words before the numbers"),
        pytest.param("a,b", id="only a header"),
        pytest.param("1,99999999999999999999", id="an integer beyond int64"),
        pytest.param("one,two", id="only words"),
        pytest.param("\n \n", id="only blank lines"),
        pytest.param("1,\n2,3", id="a number is missing at the end"),
        pytest.param("1, \n2,3.5", id="a number is missing at the end: a space"),
        pytest.param("1,2\n\t,3.5", id="a number is missing at the beginning"),
        pytest.param("1,- 2", id="a space after the sign"),
        pytest.param("1,-\n2,3", id="a minus sign without a number"),
        pytest.param("1,2\n3,+", id="a plus sign without a number"),
        pytest.param("1 2,3", id="two separators"),
        pytest.param("1\n\n2", id="an empty line within a column"),
        pytest.param("1,2\n3\n4,5,6", id="rows of 2, 1 and 3 numbers"),
        pytest.param("1\ntrue", id="a truth value"),
        pytest.param("1,\n2", id="a comma at the end of one line of two"),
        pytest.param("1,\xa02\n3,4.5", id="a no-break space"),
        pytest.param("1,2;\n3,4;\n", id="semicolons at the ends of lines"),
    ],
)
def test_csv_that_is_no_table_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    """Each text has one mistake, such as rows of unequal length or words among numbers."""
    assert "\n" not in refusal_of(tmp_path / "x.csv", text)


def test_words_among_numbers_of_a_text_are_refused_in_one_line(tmp_path: Path) -> None:
    """The suffix .txt stands for printed text."""
    assert "\n" not in refusal_of(tmp_path / "x.txt", "1 x\n")


def json_of_tensor(data: str, dtype: str, shape: str) -> str:
    """Return pecli's JSON of one tensor «a»."""
    return f'{{"tensors":{{"a":{{"data":{data},"dtype":"{dtype}","shape":{shape}}}}}}}'


INT8_ONE = '{"data":[1],"dtype":"int8","shape":[1]}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json_of_tensor("[300]", "uint8", "[1]"), id="300 as uint8"),
        pytest.param(json_of_tensor("[-1]", "uint64", "[1]"), id="-1 as uint64"),
        pytest.param(
            json_of_tensor(f"[{2**64 - 1},{2**64}]", "uint64", "[2]"), id="2^64 as uint64"
        ),
        pytest.param(json_of_tensor(f"[{-(2**63) - 1}]", "int64", "[1]"), id="-2^63 - 1 as int64"),
        pytest.param(json_of_tensor("[2]", "bool", "[1]"), id="2 as a truth value"),
        pytest.param(json_of_tensor("[1]", "object", "[1]"), id="unknown dtype"),
        pytest.param(json_of_tensor("[[],[]]", "float32", "[0,2]"), id="empty lists"),
        pytest.param(json_of_tensor("[1,2]", "float32", "[3]"), id="2 numbers of 3"),
        pytest.param(
            json_of_tensor("[1]", "float32", f"[{'9' * 5000}]"), id="a length of 5,000 digits"
        ),
        pytest.param(
            json_of_tensor("[1]", "float32", "[4000000000,4000000000]"), id="1.6e19 elements"
        ),
        pytest.param(
            json_of_tensor(f"[{'[],' * 5_000_000}[]]", "float32", "[1]"), id="5,000,001 lists"
        ),
        pytest.param(json_of_tensor("[" * 100_000, "float32", "[1]"), id="100,000 levels"),
        pytest.param(
            f'{{"tensors":{{"a":{INT8_ONE},"a":{INT8_ONE}}}}}', id="two tensors of one name"
        ),
        pytest.param(
            '{"tensors":{' + ",".join(f'"{i}":{INT8_ONE}' for i in range(10_001)) + "}}",
            id="10,001 tensors",
        ),
        pytest.param('{"tensors":{"' + "\\\\n" * 3_000_000, id="a name of six million letters"),
        pytest.param('{"a": {"b": 4}}', id="no list of numbers"),
        pytest.param('{"a": [1, 2, 3], "b": 4', id="cut after a number"),
        pytest.param('{"tensors":{"a":{"data":[1],"dtype":"float32"', id="cut after a dtype"),
    ],
)
def test_json_that_is_no_table_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    """Shape, dtype, nesting or names of each text are impossible, or it is cut."""
    assert "\n" not in refusal_of(tmp_path / "x.json", text)


def test_the_keys_of_json_may_come_in_any_order(tmp_path: Path) -> None:
    """The tensors are called «a"data» and «data», so that names are not taken for keys. Their keys
    are in another order than pecli writes (data, dtype, shape), and its note is at the end.
    """
    text = (
        '{"tensors": {"a\\"data": {"shape": [2], "data": [1, 2], "dtype": "int8"},'
        ' "data": {"dtype": "bool", "shape": [], "data": true}}, "pecli": {"scheme": "x"}}'
    )
    (tmp_path / "t.json").write_text(text)
    loaded = pecli.load(tmp_path / "t.json")

    assert [*loaded] == ['a"data', "data"]
    assert loaded['a"data'].tolist() == [1, 2]
    assert loaded["data"].tolist() is True


def test_ten_thousand_tensors_of_json_are_read(tmp_path: Path) -> None:
    """10,000 is the limit; 10,001 are refused in another test."""
    tensors = ",".join(f'"{number}":{INT8_ONE}' for number in range(10_000))
    (tmp_path / "t.json").write_text(f'{{"tensors":{{{tensors}}}}}')

    assert len(pecli.load(tmp_path / "t.json")) == 10_000


@pytest.fixture
def limit_of_three_tensors_and_six_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pecli.files.plain_json.MAX_TENSORS", 3)
    monkeypatch.setattr("pecli.files.plain_json.MAX_LISTS", 6)


@pytest.mark.usefixtures("limit_of_three_tensors_and_six_lists")
def test_the_limit_of_tensors_does_not_count_their_shapes(tmp_path: Path) -> None:
    """Each of three tensors has two lists, its data and its shape, which are within the limits of 3
    tensors and 6 lists.
    """
    tensors = {name: {"data": [1, 2], "shape": [2, 1]} for name in "abc"}
    (tmp_path / "t.json").write_text(json.dumps(tensors))

    assert [*pecli.load(tmp_path / "t.json")] == ["a", "b", "c"]


@pytest.mark.usefixtures("limit_of_three_tensors_and_six_lists")
@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param("abcd", "has more than 3 tensors", id="4 tensors"),
        pytest.param("abcdefg", "has more than 6 lists", id="7 lists"),
    ],
)
def test_more_tensors_or_lists_than_the_limit_are_refused(
    tmp_path: Path, names: str, problem: str
) -> None:
    """The limits are lowered to 3 tensors and 6 lists of numbers. Each letter of `names` is the
    name of a tensor, which is one list here. Lists are counted first, while the text is scanned.
    """
    tensors = {name: [1, 2] for name in names}
    (tmp_path / "t.json").write_text(json.dumps(tensors))
    with pytest.raises(FileError, match=problem):
        pecli.load(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        pytest.param(
            "0,1,2\n0.5,1,2\n",
            [[0.5, 1, 2]],
            "its first line numbers the columns",
            id="pandas, without its index",
        ),
        pytest.param(
            "pos,a,b\n3,0.5,1\n4,0.25,2\n",
            [[0.5, 1], [0.25, 2]],
            "its first column, pos, numbers the rows",
            id="an index with a name",
        ),
        pytest.param(
            "a,b\n1,0.5,1\n2,0.25,2\n",
            [[0.5, 1], [0.25, 2]],
            "its first column, which has no name, numbers the rows",
            id="R, or pandas with index_label=False",
        ),
        pytest.param(
            "0,5;1\n0,25;2\n",
            [[0.5, 1], [0.25, 2]],
            "a comma is a decimal point",
            id="a spreadsheet in Europe",
        ),
        pytest.param(
            "0.5;1\n0.25;2\n",
            [[0.5, 1], [0.25, 2]],
            "semicolons separate the columns",
            id="semicolons",
        ),
    ],
)
def test_a_reading_of_csv_that_the_text_does_not_state_is_noted(
    tmp_path: Path, text: str, expected: list[list[float]], note: str
) -> None:
    """pandas numbers columns from 0, and has the names of its index above the rows. R numbers rows
    from 1, and has no name above them.
    """
    (tmp_path / "x.csv").write_text(text)
    notes: list[str] = []
    with passed_to(notes.append):
        loaded = pecli.load(tmp_path / "x.csv")["array"]

    assert loaded.tolist() == expected
    assert len(notes) == 1
    assert note in notes[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "0,1,2\n1,0,1\n",
            [[0, 1, 2], [1, 0, 1]],
            id="0,1,2 above whole numbers: buckets of relative positions",
        ),
        pytest.param(
            "0,1\n0.5,0.25\n", [[0, 1], [0.5, 0.25]], id="only two columns: a sine and a cosine"
        ),
        pytest.param("pos,a\n3,0.5\n5,0.25\n", [[3, 0.5], [5, 0.25]], id="a column pos with a gap"),
        pytest.param(
            "a,b\n3,0.5\n4,0.25\n", [[3, 0.5], [4, 0.25]], id="a counting column of another name"
        ),
    ],
)
def test_numbers_of_csv_that_may_belong_to_the_table_are_read(
    tmp_path: Path, text: str, expected: list[list[float]]
) -> None:
    """pandas numbers columns in a first line 0, 1, 2, …, and people number rows in a column «pos». Such
    a line must stand above decimals and have three numbers or more, as 0, 1 is a sine and a cosine;
    the column must have such a name and count up by one.
    """
    (tmp_path / "x.csv").write_text(text)
    assert pecli.load(tmp_path / "x.csv")["array"].tolist() == expected


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tabs_separate_the_columns_of_pandas(tmp_path: Path, suffix: str) -> None:
    """`frame.to_csv(path, sep="\\t")` leaves the first cell of the header empty."""
    path = tmp_path / f"x{suffix}"
    path.write_text("\t0\t1\n0\t0.5\t1\n1\t0.25\t2\n")
    assert pecli.load(path)["array"].tolist() == [[0.5, 1], [0.25, 2]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("cos,sin\n1,0\n0.5,0.25\n", [[1, 0], [0.5, 0.25]], id="words"),
        pytest.param("position,0,1\n0,1.5,2\n", [[0, 1.5, 2]], id="a word and columns from 0"),
        pytest.param('"dim 0","dim 1"\r\n0.5,1\r\n', [[0.5, 1]], id="quoted words"),
        pytest.param("# cos, sin\n0.5,1\n", [[0.5, 1]], id="a comment"),
    ],
)
def test_the_header_of_a_csv_is_not_read_as_a_row(
    tmp_path: Path, text: str, expected: list[list[float]]
) -> None:
    """The first line of each text is a header: words, or numbers that count the columns after a word.
    `expected` has the numbers below it.
    """
    (tmp_path / "x.csv").write_bytes(text.encode())
    assert pecli.load(tmp_path / "x.csv")["array"].tolist() == expected


@pytest.mark.parametrize(
    ("text", "names", "numbers"),
    [
        pytest.param("a,b,c\n1", "3 names", "1 number", id="more names than numbers"),
        pytest.param("a,b\n1,0.5,3\n5,0.25,4", "2 names", "3 numbers", id="fewer names"),
        pytest.param("0,1,2\n0.5,1", "3 names", "2 numbers", id="numbered columns"),
        pytest.param(",0,1\n0,1.5", "3 names", "2 numbers", id="below the corner of pandas"),
        pytest.param(",a,b\n0,1,2,3\n1,1,2,3", "3 names", "4 numbers", id="beside that corner"),
        pytest.param("a;b;c\n1,5;2", "3 names", "2 numbers", id="semicolons"),
        pytest.param("a,b,c,\n1,2", "3 names", "2 numbers", id="a comma at the end of the header"),
    ],
)
def test_a_csv_whose_header_has_another_count_than_its_rows_is_refused(
    tmp_path: Path, text: str, names: str, numbers: str
) -> None:
    """A column is missing from the rows or from the header, and nothing states which."""
    problem = f"its first line has {names}, and the rows below it have {numbers}"
    assert problem in refusal_of(tmp_path / "x.csv", text)


@pytest.mark.parametrize(
    "first_line",
    [
        pytest.param("# base 10000, dim 6", id="a comment"),
        pytest.param("Table of cosines", id="a title"),
        pytest.param("sep=,", id="the separator, as Excel reads it"),
        pytest.param("a,b,c,", id="a comma at the end"),
        pytest.param("a,b,", id="an empty name of the last column"),
    ],
)
def test_a_first_line_that_does_not_name_each_column_of_a_csv_may_stand_above_it(
    tmp_path: Path, first_line: str
) -> None:
    (tmp_path / "x.csv").write_text(f"{first_line}\n0.5,1,2\n")
    assert pecli.load(tmp_path / "x.csv")["array"].tolist() == [[0.5, 1, 2]]


def test_the_index_that_pandas_writes_into_a_csv_is_left_out(tmp_path: Path) -> None:
    """pandas counts columns in the first line and rows in the first column, and leaves the corner
    empty. Neither count is a part of the table.
    """
    (tmp_path / "x.csv").write_text(",0,1\n0,0.5,1\n1,0.25,2\n")
    assert pecli.load(tmp_path / "x.csv")["array"].tolist() == [[0.5, 1], [0.25, 2]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("nan,1\n0.5,1\n", [[np.nan, 1], [0.5, 1]], id="nan is a number"),
        pytest.param("-inf,1\n0.5,1\n", [[-np.inf, 1], [0.5, 1]], id="inf is a number"),
        pytest.param("\n1, 2\r\n3,4\r5,6\n\n", [[1, 2], [3, 4], [5, 6]], id="three line ends"),
    ],
)
def test_a_first_line_of_numbers_is_a_row_of_a_csv(
    tmp_path: Path, text: str, expected: list[list[float]]
) -> None:
    """The texts have no header: nan and inf count as numbers, and an empty line above the first row
    does not count at all.
    """
    (tmp_path / "x.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(pecli.load(tmp_path / "x.csv")["array"], expected)


@pytest.mark.parametrize(
    ("name", "separator"),
    [
        pytest.param("t.txt", " ", id="a space"),
        pytest.param("t.txt", "  ", id="two spaces"),
        pytest.param("t.txt", ",", id="a comma"),
        pytest.param("t.tsv", "\t", id="a tab"),
    ],
)
def test_text_is_read_as_np_savetxt_writes_it(tmp_path: Path, name: str, separator: str) -> None:
    """np.savetxt prints 18 digits after the point, in which float16 is exact."""
    table = pecli.Rope(7, 6).tables()["sin"].astype(np.float16)
    np.savetxt(tmp_path / name, table, delimiter=separator)

    assert np.array_equal(pecli.load(tmp_path / name)["array"].astype(np.float16), table)


def test_written_json_has_eight_elements_of_a_vector_per_line(tmp_path: Path) -> None:
    """Lines stay short enough for editors and diffs."""
    pecli.save(tmp_path / "t.json", {"a": np.arange(9)})
    assert (tmp_path / "t.json").read_bytes() == (
        b'{"tensors":{\n"a":{"data":[0,1,2,3,4,5,6,7,\n8],"dtype":"int64","shape":[9]}}}\n'
    )


def test_written_json_has_one_row_per_line_and_tensors_in_the_order_of_names(
    tmp_path: Path,
) -> None:
    """«b» was given before «a», and is written after it."""
    a = np.array([[[1.5, -np.inf], [np.nan, 2.0]]])
    pecli.save(tmp_path / "t.json", {"b": np.array([[True]]), "a": a})

    assert (tmp_path / "t.json").read_bytes() == (
        b'{"tensors":{\n'
        b'"a":{"data":[[[1.5,"-Infinity"],\n["NaN",2.0]]],"dtype":"float64","shape":[1,2,2]},\n'
        b'"b":{"data":[[true]],"dtype":"bool","shape":[1,1]}}}\n'
    )


def header_lines(path: Path) -> list[str]:
    """Return the lines of a C header from the first to the last table.

    Empty lines separate the guard, the includes, each table, and #endif; they are left out.
    """
    guard, includes, *tables, end = path.read_text().split("\n\n")
    assert guard.startswith("#ifndef")
    assert includes.startswith("#include")
    assert end.startswith("#endif")
    return "\n".join(tables).splitlines()


def test_a_c_header_declares_axes_and_elements(tmp_path: Path) -> None:
    """C has INFINITY in math.h; each number ends with f, for float."""
    array = np.array([[1, np.inf], [0.1, -0.5]], np.float32)
    pecli.save(tmp_path / "t.h", {"a": array})

    assert header_lines(tmp_path / "t.h") == [
        "#define T_A_DIM0 2",
        "#define T_A_DIM1 2",
        "static const float t_a[2][2] =",
        "{{1.0f,INFINITY},",
        "{0.1f,-0.5f}};",
    ]


def test_float16_numbers_in_a_c_header_are_bit_patterns(tmp_path: Path) -> None:
    """C has no float16, so its bits are written as integers; 0x3c00 is 1."""
    pecli.save(tmp_path / "t.h", {"a": np.float16([1])})
    assert header_lines(tmp_path / "t.h") == [
        "#define T_A_DIM0 1",
        "/* bits of float16 */",
        "static const uint16_t t_a[1] =",
        "{0x3c00};",
    ]


def test_a_c_header_has_eight_elements_of_a_vector_per_line(tmp_path: Path) -> None:
    """Lines stay short enough for editors and diffs; the ninth element begins a new one."""
    pecli.save(tmp_path / "t.h", {"a": np.arange(9, dtype=np.int8)})
    assert header_lines(tmp_path / "t.h") == [
        "#define T_A_DIM0 9",
        "static const int8_t t_a[9] =",
        "{0,1,2,3,4,5,6,7,",
        "8};",
    ]


def test_tables_of_a_c_header_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    """«b» was given before «a», and is written after it, so that equal tables are equal files."""
    pecli.save(tmp_path / "t.h", {"b": np.zeros(1, np.int8), "a": np.zeros(1, np.int8)})
    lines = header_lines(tmp_path / "t.h")

    assert lines[1] == "static const int8_t t_a[1] ="
    assert lines[4] == "static const int8_t t_b[1] ="


def test_a_column_of_csv_is_named_after_its_tensor(tmp_path: Path) -> None:
    """The first line of a CSV file that `save` writes has the name of the tensor; signs that are no
    letters become underscores.
    """
    pecli.save(tmp_path / "t.csv", {"a-b": np.arange(3)})
    assert (tmp_path / "t.csv").read_bytes() == b"a_b\n0\n1\n2\n"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"a,b", id="words"),
        pytest.param(b",0,1", id="an empty corner and columns from 0, as pandas writes"),
        pytest.param(b'"x",1', id="a quoted word"),
        pytest.param(b"#,b", id="a comment"),
        pytest.param(b"", id="an empty line"),
    ],
)
def test_a_first_line_of_words_is_a_header(line: bytes) -> None:
    """`is_header` distinguishes the first line of a CSV file from a row of numbers."""
    assert is_header(line)


@pytest.mark.parametrize("line", [b"1,2", b"a,1.5", b"nan,1", b"a,nan"])
def test_a_first_line_with_a_number_is_a_row(line: bytes) -> None:
    """`is_header` distinguishes the first line of a CSV file from a row of numbers: one number in
    it, NaN included, makes it a row.
    """
    assert not is_header(line)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("a.txt", b"1, 2\n3, 4", [[1, 2], [3, 4]], id="no comma at the end"),
        pytest.param("a.csv", b"1,2,\n3,4,\n", [[1, 2], [3, 4]], id="rows"),
        pytest.param("a.csv", b"1.5, \r\n2,\r\n", [[1.5], [2]], id="a column"),
        pytest.param("a.csv", b"a,b,\n1,2,\n", [[1, 2]], id="a header"),
    ],
)
def test_a_comma_at_the_end_of_every_line_is_ignored(
    tmp_path: Path, name: str, text: bytes, expected: list[list[float]]
) -> None:
    """Loops that print a comma after each number leave one at the end."""
    (tmp_path / name).write_bytes(text)
    assert pecli.load(tmp_path / name)["array"].tolist() == expected


def compiles(working_folder: Path, *headers: str) -> bool:
    """Return True if a C file that includes these headers compiles."""
    lines = [f'#include "{header}"\n' for header in headers]
    (working_folder / "both.c").write_text("".join(lines) + "int main(void) { return 0; }\n")
    words = ["cc", "-std=c99", "-fsyntax-only", "both.c"]
    return subprocess.run(words, cwd=working_folder, capture_output=True).returncode == SUCCESS


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_c_headers_of_two_models_compile_together(working_folder: Path) -> None:
    """The headers of a golden suite have tensors of the same names, and differ by the model's."""
    write(str(working_folder / "suite"), ["phi-2", "llama-3.1-8b"], ("h",))
    headers = [str(path) for path in sorted((working_folder / "suite").glob("model-*.h"))]

    assert len(headers) == 2
    assert compiles(working_folder, *headers)


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_c_headers_with_names_of_their_own_compile_together(working_folder: Path) -> None:
    """Names and include guards begin with the name of the file, or with the prefix if one is
    given, so that the tables of all three files can be used in one program.
    """
    pecli.save("one.h", pecli.Rope(4, 8))
    pecli.save("two.h", pecli.Rope(4, 8, theta=500000))
    pecli.save("three.h", pecli.Rope(4, 8), prefix="other_one")

    assert "static const float two_cos[4][4]" in Path("two.h").read_text()
    assert "#ifndef PECLI_OTHER_ONE_H" in Path("three.h").read_text()
    assert compiles(working_folder, "one.h", "two.h", "three.h")


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_c_headers_with_one_prefix_do_not_compile_together(working_folder: Path) -> None:
    """Both define one_cos. The include guard of the second is changed, because the compiler would
    skip a header with a guard that it has seen. This shows that the compiler notices equal names.
    """
    pecli.save("one.h", pecli.Rope(4, 8))
    pecli.save("four.h", pecli.Rope(4, 8, theta=500000), prefix="one")
    text = Path("four.h").read_text()
    Path("four.h").write_text(text.replace("PECLI_ONE_H", "PECLI_FOUR_H"))

    assert not compiles(working_folder, "one.h", "four.h")


@pytest.mark.parametrize("prefix", ["", "3d", "a-b", "nan", "é"])
def test_a_prefix_that_is_no_name_in_c_is_refused(working_folder: Path, prefix: str) -> None:
    """Names in C begin with a letter and have letters, digits and underscores of ASCII; «nan» is a
    function of math.h.
    """
    with pytest.raises(ParameterError, match="it must be a name in C"):
        pecli.save("a.h", np.zeros(2), prefix=prefix)


def test_a_prefix_for_another_format_than_a_header_is_refused(working_folder: Path) -> None:
    """A .npy file holds no names, and in other formats names are the tensors' own."""
    with pytest.raises(ParameterError, match=r"only names in \.h files have one"):
        pecli.save("a.npy", np.zeros(2), prefix="a")


def test_the_option_prefix_names_the_arrays_of_a_header(
    working_folder: Path, run_pecli: Callable
) -> None:
    """--prefix replaces the name of the file, «a», before the tensor's name."""
    done = run_pecli("alibi", "--heads", "2", "--slopes", "-o", "a.h", "--prefix", "model_a", "-q")
    assert done.exit_code == SUCCESS, done.err
    assert "static const float model_a_slopes[2]" in Path("a.h").read_text()


PIECE = 65_536
"""Bytes of a long line that are read at once."""
MAX_REST = 4_096
"""Bytes of a word that may follow a piece which would cut it."""


def test_a_word_that_ends_4096_bytes_after_a_piece_of_a_line_or_later_is_refused(
    tmp_path: Path,
) -> None:
    """Both texts have one word of digits and then the number 2. The place is that at which the first
    piece of the line ends and the second begins, column 65,537. A word that is shorter by one digit
    is read as a whole number, and refused because float64 does not hold it.
    """
    path = tmp_path / "x.txt"
    path.write_text("1" * (PIECE + MAX_REST) + " 2\n")
    with pytest.raises(FileError, match=f"column {PIECE + 1}: a word of thousands of letters"):
        pecli.load(path)

    path.write_text("1" * (PIECE + MAX_REST - 1) + " 2\n")
    with pytest.raises(FileError, match=r"holds whole numbers beyond 2\^53"):
        pecli.load(path)


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        pytest.param(
            '"\\ud800": {"dtype": "float32", "data": [1], "shape": [1]}',
            "has a tensor that is not one; a .json has the form",
            id="half a letter",
        ),
        pytest.param(
            '"a": {"dtype": "float32", "data": [1], "shape": [1], "more": 1}',
            "has a tensor that is not one; a .json has the form",
            id="another key",
        ),
        pytest.param(
            '"a": {"dtype": "float32", "data": [1], "shape": [true]}',
            "tensor 'a' has a shape that is not a list of lengths",
            id="a truth value",
        ),
        pytest.param(
            '"a": {"dtype": "float32", "data": [1], "shape": [-1]}',
            "tensor 'a' has a shape that is not a list of lengths",
            id="a negative length",
        ),
        pytest.param(
            f'"a": {{"dtype": "float32", "data": [{10**400}], "shape": [1]}}',
            "tensor 'a' holds a number that float32 does not hold",
            id="a large number",
        ),
    ],
)
def test_a_broken_tensor_of_json_is_refused_by_its_mistake(
    tmp_path: Path, tensor: str, problem: str
) -> None:
    """The tensor's name is half a surrogate pair; it has a key «more»; its shape holds a truth
    value or a negative length; or a number, 10^400, exceeds float32.
    """
    text = f'{{"tensors": {{{tensor}}}}}'
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileError, match=problem):
        pecli.load(tmp_path / "x.json")
