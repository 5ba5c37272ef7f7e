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
from tests.exit_codes import SUCCESS

Arrays = dict[str, NDArray[np.generic]]


def test_csv_is_read_by_python_as_the_same_values(working_folder: Path) -> None:
    """Python's csv and float read the text, which is rounded to the dtype again: four dtypes,
    infinities included.
    """
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        array = np.sin(np.arange(1200.0)).reshape(300, 4).astype(dtype)
        array[0] = np.array([-np.inf, np.inf, 0, -1]).astype(dtype)
        save_tables("a.csv", [table_of("a", array)], None)
        with open("a.csv") as file:
            header, *texts = csv.reader(file)
        assert header == ["a_0", "a_1", "a_2", "a_3"]
        assert np.array(texts, float).astype(dtype).tobytes() == array.tobytes()


def test_csv_has_the_shortest_digits_and_a_header_of_names(working_folder: Path) -> None:
    """Numbers have the fewest digits that round back to the same float32, as repr writes them; a
    column named «nan» is renamed, because it would read as a number.
    """
    array = np.array([[math.sin(1), -math.inf, 1e-7], [0, 3, math.nan]], np.float32)
    save_tables("a.csv", [table_of("a", array)], None)

    assert Path("a.csv").read_text() == "a_0,a_1,a_2\n0.84147096,-inf,1e-7\n0.0,3.0,nan\n"

    save_tables("b.csv", [table_of("nan", np.array([0.1, 2.0]))], None)
    assert Path("b.csv").read_text() == "table_nan\n0.1\n2.0\n"

    pecli.save("c.csv", array, header=False)
    assert Path("c.csv").read_text() == "0.84147096,-inf,1e-7\n0.0,3.0,nan\n"
    for name, shape in (("a", (2, 3)), ("b", (2, 1)), ("c", (2, 3))):
        assert pecli.load(f"{name}.csv")["array"].shape == shape


def test_sixteen_bits_are_written_in_few_digits() -> None:
    """5 significant digits tell all float16 numbers apart (11 bits), 4 all of bfloat16 (8 bits)."""
    some = np.random.default_rng(0).integers(0, 2**16, 500, np.uint16)
    bits = np.concatenate([some, np.array([0x7BF0, 0x7BFF, 0xFBFF], np.uint16)])  # near the largest

    for dtype, most in ((np.float16, 5), (ml_dtypes.bfloat16, 4)):
        array = bits.view(dtype)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            finite = array[np.isfinite(array.astype(float))]
        texts = numerals(finite)
        assert np.array(texts, float).astype(dtype).tobytes() == finite.tobytes()
        assert max(len(significant(f"{float(each):e}")) for each in texts) <= most


def significant(numeral: str) -> str:
    """The digits of a number, without zeros before and after them."""
    return numeral.partition("e")[0].replace(".", "").strip("-0")


def test_json_is_read_by_python_as_the_same_lists(
    working_folder: Path, arrays: Arrays, tables: list[Table], spec: dict
) -> None:
    """Python's json must find no infinity or NaN as a bare word, which JSON lacks: they are texts."""
    save_tables("a.json", tables, spec)
    loaded = json.loads(Path("a.json").read_text(), parse_constant=pytest.fail)

    assert loaded["pecli"] == spec
    assert list(loaded["tensors"]) == sorted(arrays)
    for name, array in arrays.items():
        found = loaded["tensors"][name]
        assert found["dtype"] == array.dtype.name
        assert found["shape"] == list(array.shape)
        assert np.array_equal(np.array(found["data"]).astype(array.dtype), array)
    assert loaded["tensors"]["cos"]["data"][3][1:] == ["-Infinity", "Infinity", -0.0]


def test_arrays_of_any_shape_are_nested_lists_in_json(working_folder: Path) -> None:
    """NumPy's tolist has the expected lists."""
    for dtype in ("int8", "uint64", "bool"):
        for shape in ((), (3,), (9,), (17,), (4, 3), (2, 1, 3), (2, 2, 2, 3)):
            array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            save_tables("a.json", [table_of("a", array)], None)
            assert json.loads(Path("a.json").read_text())["tensors"]["a"]["data"] == array.tolist()


def header_tables() -> list[Table]:
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
    """A C program includes the header twice and prints the arrays' memory, without any warning of
    the compiler; a C++ compiler accepts the header, too.
    """
    tables = header_tables()
    save_tables("a.h", tables, {**spec, "scheme": "learned-init"})
    names = [f"a_{table.name}" for table in tables]
    dumps = "".join(f"fwrite(&{name}, sizeof {name}, 1, stdout);" for name in names)
    includes = '#include <stdio.h>\n#include "a.h"\n#include "a.h"\n'
    Path("a.c").write_text(f"{includes}int main(void) {{ {dumps} return 0; }}\n")
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "a.c", "-o", "a"], check=True
    )
    found = subprocess.run(["./a"], check=True, capture_output=True).stdout
    expected = [table.array() for table in tables]
    expected[0][0, 2] = np.frombuffer(found, np.float64, 8)[
        2
    ]  # which NaN it is, the compiler decides

    assert found == b"".join(array.tobytes() for array in expected)

    if shutil.which("c++"):
        options = ("-std=c++17", "-x", "c++-header", "-Wall", "-Werror", "-fsyntax-only")
        subprocess.run(["c++", *options, "a.h"], check=True)


def test_a_header_states_shape_values_and_parameters(
    working_folder: Path, spec: dict[str, object]
) -> None:
    """Lengths of the axes, a C array, and a comment with the parameters; sin(1) is 0.84147096 in
    float32.
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


@pytest.mark.parametrize("suffix", [".csv", ".json", ".h"])
@pytest.mark.parametrize(
    ("dtype", "other"),
    [(np.complex128, ".npz"), (ml_dtypes.float8_e4m3fnuz, ".safetensors")],
    ids=["complex", "float8"],
)
def test_dtypes_that_text_cannot_hold_are_refused_with_a_format_that_can(
    working_folder: Path, suffix: str, dtype: type, other: str
) -> None:
    """The advice is followed, and must be good."""
    table = table_of("a", np.zeros(2, dtype))
    with pytest.raises(ParameterError, match="cannot hold it; write .*" + other) as caught:
        save_tables("a" + suffix, [table], None)
    assert caught.value.given == table.dtype
    assert list(working_folder.iterdir()) == []

    save_tables(f"a{other}", [table], None)


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
    """Both «a-b» and «a_b» would be a_a_b, because names in C have no hyphen."""
    with pytest.raises(ParameterError, match="same name in C"):
        save_tables("a.h", [table_of("a-b", np.zeros(2)), table_of("a_b", np.zeros(2))], None)
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


def are_same_arrays(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and (
        a.tobytes() == b.tobytes() or np.array_equal(a, b, True)
    )


def test_json_is_loaded_with_the_same_dtypes_and_bits(tmp_path: Path) -> None:
    """Values, dtypes and shapes of integers, booleans and floats, denormal and infinite ones
    included.
    """
    pecli.save(tmp_path / "all.json", arrays_of_many_dtypes())
    found = pecli.load(tmp_path / "all.json")

    assert {
        name: are_same_arrays(found[name], array) for name, array in arrays_of_many_dtypes().items()
    } == dict.fromkeys(arrays_of_many_dtypes(), True)


def test_csv_is_loaded_as_float64_or_as_integers(tmp_path: Path) -> None:
    """CSV states no dtype: rounding the float64 back gives the saved bits. 9007199254740993 is 2^53
    + 1, which float64 does not hold, but int64 does.
    """
    for name in ("plain", "double", "any"):
        array = arrays_of_many_dtypes()[name]
        pecli.save(tmp_path / "t.csv", array)
        found = pecli.load(tmp_path / "t.csv")["array"]
        assert found.dtype == np.float64
        assert are_same_arrays(found.astype(array.dtype), array)

    (tmp_path / "t.csv").write_text("1,-2\n9007199254740993,4\n")
    assert pecli.load(tmp_path / "t.csv")["array"].tolist() == [[1, -2], [9007199254740993, 4]]


_CSV = (
    "0.1x,2\n3,4 / a,2.5\n3,4 / 1,b\n3,4 / a,b\nc,d\n1,2 / a,b / 1,99999999999999999999 / one,two / \n \n / 1,2\n3 "
    "/ 1,\n2,3 / 1, \n2,3.5 / 1,2\n\t,3.5 / 1,- 2 / 1,-\n2,3 / 1,2\n3,+ / 1 2,3 / 1\n\n2 / 1,2\n3\n4,5,6 / 1\ntrue"
)
_TENSOR = '{"tensors":{"a":{"data":%s,"dtype":"%s","shape":%s}}}'
_NUMBERS = [
    ("[300]", "uint8", "[1]"), ("[-1]", "uint64", "[1]"), (f"[{2**64 - 1},{2**64}]", "uint64", "[2]"),
    ("[-9223372036854775809]", "int64", "[1]"), ("[[],[]]", "float32", "[0,2]"), ("[2]", "bool", "[1]"),
    ("[1]", "float32", f"[{'9' * 5000}]"), (f"[{'[],' * 5_000_000}[]]", "float32", "[1]"), ("[1,2]", "float32", "[3]"),
    ("[1]", "object", "[1]"), ("[1]", "float32", "[4000000000,4000000000]"), ("[" * 100_000, "float32", "[1]"),
]  # fmt: skip
_ONE = '{"data":[1],"dtype":"int8","shape":[1]}'
BROKEN_TEXTS = [
    *(("csv", each) for each in (*_CSV.split(" / "), "1,\n2", "1,\xa02\n3,4.5")),
    *(("txt", each) for each in ("1 2\n3\n", "1 x\n")),
    *(("json", _TENSOR % each) for each in _NUMBERS),
    ("json", f'{{"tensors":{{"a":{_ONE},"a":{_ONE}}}}}'),
    ("json", '{"tensors":{' + ",".join(f'"{number}":{_ONE}' for number in range(10_001)) + "}}"),
    ("json", '{"tensors":{"' + "\\\\n" * 3_000_000),
    ("json", '{"a": {"b": 4}}'),
    ("json", '{"a": [1, 2, 3], "b": 4'),
    ("json", '{"tensors":{"a":{"data":[1],"dtype":"float32"'),
]


def test_text_that_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    """BROKEN_TEXTS has rows of unequal length, words among numbers, and JSON whose shape, dtype or
    nesting lies. The message ends in its advice or names line and column; here it must be one line.
    """
    for suffix, content in BROKEN_TEXTS:
        (tmp_path / f"x.{suffix}").write_bytes(content.encode("latin-1") + b"\n")
        with pytest.raises(
            FileError, match="line 2 has 1 " if content in ("1,2\n3", "1 2\n3\n") else "x"
        ) as problem:
            pecli.load(tmp_path / f"x.{suffix}")
        assert "\n" not in str(problem.value), content[:100]


def test_the_keys_of_json_may_come_in_any_order(tmp_path: Path) -> None:
    """Names of tensors may be those of keys. 10,000 tensors are the limit, and are read."""
    text = '{"tensors": {"a\\"data": {"shape": [2], "data": [1, 2], "dtype": "int8"}, "data": {"dtype": "bool", '
    text += '"shape": [], "data": true}}, "pecli": {"scheme": "x"}}'
    (tmp_path / "t.json").write_text(text)
    found = pecli.load(tmp_path / "t.json")

    assert {name: array.tolist() for name, array in found.items()} == {
        'a"data': [1, 2],
        "data": True,
    }

    (tmp_path / "t.json").write_text(
        '{"tensors":{' + ",".join(f'"{k}":{_ONE}' for k in range(10_000)) + "}}"
    )
    assert len(pecli.load(tmp_path / "t.json")) == 10_000  # and no more


@pytest.fixture
def limit_of_three_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pecli.files.plain_json.MAX_TENSORS", 3)
    monkeypatch.setattr("pecli.files.plain_json.MAX_LISTS", 6)


@pytest.mark.usefixtures("limit_of_three_tensors")
def test_the_limit_of_tensors_does_not_count_their_shapes(tmp_path: Path) -> None:
    """Three tensors of two lists each, with limits of 3 tensors and 6 lists."""
    tensors = {name: {"data": [1, 2], "shape": [2, 1]} for name in "abc"}
    (tmp_path / "t.json").write_text(json.dumps(tensors))

    assert [*pecli.load(tmp_path / "t.json")] == ["a", "b", "c"]


@pytest.mark.usefixtures("limit_of_three_tensors")
@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        ({name: [1, 2] for name in "abcd"}, "has more than 3 tensors"),
        ({name: [1, 2] for name in "abcdefg"}, "has more than 6 lists"),
    ],
)
def test_more_lists_than_the_limit_are_refused(
    tmp_path: Path, tensors: dict[str, list[int]], problem: str
) -> None:
    """The limits are lowered to 3 tensors and 6 lists of numbers; each file exceeds one of them."""
    (tmp_path / "t.json").write_text(json.dumps(tensors))
    with pytest.raises(FileError, match=problem):
        pecli.load(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cos,sin\n1,0\n0.5,0.25\n", [[1, 0], [0.5, 0.25]]),
        ("position,0,1\n0,1.5,2\n", [[0, 1.5, 2]]),
        ('"dim 0","dim 1"\r\n0.5,1\r\n', [[0.5, 1]]),
        (",0,1\n0,0.5,1\n1,0.25,2\n", [[0.5, 1], [0.25, 2]]),  # what pandas writes with its index
        ("# cos, sin\n0.5,1\n", [[0.5, 1]]),
        ("nan,1\n0.5,1\n", [[np.nan, 1], [0.5, 1]]),
        ("\n1, 2\r\n3,4\r5,6\n\n", [[1, 2], [3, 4], [5, 6]]),
        ("-inf,1\n0.5,1\n", [[-np.inf, 1], [0.5, 1]]),
    ],
)
def test_the_header_of_a_csv_is_not_read_as_a_row(
    tmp_path: Path, text: str, expected: list[list[float]]
) -> None:
    """A first line without numbers is a header, one that counts columns from 0 too; «nan» and «inf»
    are numbers.
    """
    (tmp_path / "x.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(pecli.load(tmp_path / "x.csv")["array"], expected)


def test_text_is_read_as_np_savetxt_writes_it(tmp_path: Path) -> None:
    """Four separators; float16 is exact in the 18 digits of np.savetxt."""
    table = pecli.Rope(7, 6).tables()["sin"].astype(np.float16)
    for name, separator in (("t.txt", " "), ("t.tsv", "\t"), ("u.txt", "  "), ("v.txt", ",")):
        path = tmp_path / name
        np.savetxt(path, table, delimiter=separator)
        assert np.array_equal(pecli.load(path)["array"].astype(np.float16), table)


def test_json_has_eight_elements_of_a_vector_per_line(tmp_path: Path) -> None:
    """Lines stay short enough for editors and diffs."""
    pecli.save(tmp_path / "t.json", {"a": np.arange(9)})
    assert (tmp_path / "t.json").read_bytes() == (
        b'{"tensors":{\n"a":{"data":[0,1,2,3,4,5,6,7,\n8],"dtype":"int64","shape":[9]}}}\n'
    )


def test_json_has_one_row_per_line_and_tensors_by_name(tmp_path: Path) -> None:
    """«a» comes before «b», in which order they were not given."""
    a = np.array([[[1.5, -np.inf], [np.nan, 2.0]]])
    pecli.save(tmp_path / "t.json", {"b": np.array([[True]]), "a": a})

    assert (tmp_path / "t.json").read_bytes() == (
        b'{"tensors":{\n'
        b'"a":{"data":[[[1.5,"-Infinity"],\n["NaN",2.0]]],"dtype":"float64","shape":[1,2,2]},\n'
        b'"b":{"data":[[true]],"dtype":"bool","shape":[1,1]}}}\n'
    )


def header_lines(path: Path) -> list[str]:
    """The declarations of a C header, without its beginning and end."""
    _, _, *declarations, _ = path.read_text().split("\n\n")
    return "\n".join(declarations).splitlines()


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


def test_small_floats_in_a_header_are_bit_patterns(tmp_path: Path) -> None:
    """C has no float16, so its bits are written; 0x3c00 is 1. Vectors have eight elements per line."""
    pecli.save(tmp_path / "t.h", {"b": np.arange(9, dtype=np.int8), "a": np.float16([1])})
    assert header_lines(tmp_path / "t.h") == [
        "#define T_A_DIM0 1",
        "static const uint16_t t_a[1] =",
        "{0x3c00};",
        "#define T_B_DIM0 9",
        "static const int8_t t_b[9] =",
        "{0,1,2,3,4,5,6,7,",
        "8};",
    ]


def test_a_column_of_csv_is_named_after_its_tensor(tmp_path: Path) -> None:
    """The first line of a CSV file that `save` writes has the name of the tensor; signs that are no
    letters become underscores.
    """
    pecli.save(tmp_path / "t.csv", {"a-b": np.arange(3)})
    assert (tmp_path / "t.csv").read_bytes() == b"a_b\n0\n1\n2\n"


@pytest.mark.parametrize("line", [b"a,b", b",0,1", b'"x",1', b"#,b", b""])
def test_a_line_of_words_is_a_header(line: bytes) -> None:
    """Words, quoted words, comments, an empty line, and the numbers of columns after an empty
    corner (pandas).
    """
    assert is_header(line)


@pytest.mark.parametrize("line", [b"1,2", b"a,1.5", b"nan,1", b"a,nan"])
def test_a_line_with_a_number_is_a_row(line: bytes) -> None:
    """`is_header` tells the first line of a CSV file from a row of numbers: one number in it, NaN
    included, makes it a row.
    """
    assert not is_header(line)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", b"1, 2\n3, 4", [[1, 2], [3, 4]]),
        ("a.csv", b"1,2,\n3,4,\n", [[1, 2], [3, 4]]),
        ("a.csv", b"1.5, \r\n2,\r\n", [[1.5], [2]]),
        ("a.csv", b"a,b,\n1,2,\n", [[1, 2]]),
    ],
)
def test_a_comma_at_the_end_of_every_line_is_ignored(
    tmp_path: Path, name: str, text: bytes, expected: list[list[float]]
) -> None:
    """Loops that print a comma after each number leave one at the end."""
    (tmp_path / name).write_bytes(text)
    assert pecli.load(tmp_path / name)["array"].tolist() == expected


def compiles(working_folder: Path, *headers: str) -> bool:
    """Compile a C file that includes headers."""
    lines = [f'#include "{header}"\n' for header in headers]
    (working_folder / "both.c").write_text("".join(lines) + "int main(void) { return 0; }\n")
    words = ["cc", "-std=c99", "-fsyntax-only", "both.c"]
    return subprocess.run(words, cwd=working_folder, capture_output=True).returncode == SUCCESS


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_two_headers_compile_together_and_both_are_seen(working_folder: Path) -> None:
    """Two models of a golden suite have tensors of the same names, and one model may be in two
    files: names and include guards differ by the file's name or the prefix. Two headers with one
    prefix clash, which shows that the compiler would notice.
    """
    write(str(working_folder / "suite"), ["phi-2", "llama-3.1-8b"], ("h",))
    models = [str(path) for path in sorted((working_folder / "suite").glob("model-*.h"))]

    assert len(models) == 2
    assert compiles(working_folder, *models)

    pecli.save("one.h", pecli.Rope(4, 8))
    pecli.save("two.h", pecli.Rope(4, 8, theta=500000))
    pecli.save("three.h", pecli.Rope(4, 8), prefix="other_one")

    assert compiles(working_folder, "one.h", "two.h", "three.h")
    assert "static const float two_cos[4][4]" in Path("two.h").read_text()
    assert "#ifndef PECLI_OTHER_ONE_H" in Path("three.h").read_text()

    pecli.save("four.h", pecli.Rope(4, 8, theta=500000), prefix="one")
    Path("four.h").write_text(Path("four.h").read_text().replace("PECLI_ONE_H", "PECLI_FOUR_H"))
    assert not compiles(working_folder, "one.h", "four.h")  # the compiler would notice equal names


@pytest.mark.parametrize("prefix", ["", "3d", "a-b", "nan", "é"])
def test_a_prefix_that_is_no_name_in_c_is_refused(working_folder: Path, prefix: str) -> None:
    """Names in C begin with a letter and have letters, digits and underscores of ASCII; «nan» is a
    function of math.h.
    """
    with pytest.raises(ParameterError, match="it must be a name in C"):
        pecli.save("a.h", np.zeros(2), prefix=prefix)


def test_a_prefix_for_another_format_than_a_header_is_refused(working_folder: Path) -> None:
    """Names in other formats are the tensors' own."""
    with pytest.raises(ParameterError, match=r"only names in \.h files have one"):
        pecli.save("a.npy", np.zeros(2), prefix="a")


def test_the_option_prefix_names_the_arrays_of_a_header(
    working_folder: Path, run_pecli: Callable
) -> None:
    """--prefix replaces the name of the file, «a», before the tensor's name."""
    done = run_pecli("alibi", "--heads", "2", "--slopes", "-o", "a.h", "--prefix", "model_a", "-q")
    assert done.exit_code == SUCCESS, done.err
    assert "static const float model_a_slopes[2]" in Path("a.h").read_text()


def test_a_word_of_thousands_of_letters_is_refused_at_its_place(tmp_path: Path) -> None:
    """A piece of a line has 65,536 bytes, and the rest of its last word at most 4,096."""
    path = tmp_path / "x.txt"
    path.write_text("1" * 70_000 + " 2\n")

    with pytest.raises(FileError, match="line 1, column 65537: a word of thousands of letters"):
        pecli.load(path)


@pytest.mark.parametrize(
    ("name", "data", "shape", "problem"),
    [
        ("\\ud800", "[1]", "[1]", "has a tensor that is not one; a .json has the form"),
        ("a", "[1]", '[1],"more":1', "has a tensor that is not one; a .json has the form"),
        ("a", "[1]", "[true]", "tensor 'a' has a shape that is not a list of lengths"),
        ("a", "[1]", "[-1]", "tensor 'a' has a shape that is not a list of lengths"),
        ("a", f"[{10**400}]", "[1]", "tensor 'a' holds a number that float32 does not hold"),
    ],
    ids=["half a letter", "another key", "a truth value", "a negative length", "a large number"],
)
def test_a_broken_tensor_of_json_is_refused_by_its_mistake(
    tmp_path: Path, name: str, data: str, shape: str, problem: str
) -> None:
    """A name, a key, a shape or a number that no tensor of pecli's JSON has; 10^400 exceeds
    float32.
    """
    text = f'{{"tensors":{{"{name}":{{"dtype":"float32","data":{data},"shape":{shape}}}}}}}'
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileError, match=problem):
        pecli.load(tmp_path / "x.json")
