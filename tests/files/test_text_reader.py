"""Tables written as text are read back, bit for bit; text that is no table is refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.errors import FileError

FLOATS = [0.1, -0.0, 3e38, 1e-45, np.inf, -np.inf, np.nan, 1 / 3]


def arrays() -> dict[str, np.ndarray]:
    bits = np.random.default_rng(0).integers(0, 2**32, 300, np.uint32)
    single = bits.view(np.float32)
    return {
        "plain": np.array(FLOATS, np.float32).reshape(2, 4),
        "double": np.array([*FLOATS, 2 / 3, 5e-324], np.float64).reshape(5, 2),
        "any": single[np.isfinite(single)][:200].reshape(10, 20),
        "small": np.linspace(-2, 2, 24, dtype=np.float16).reshape(2, 3, 4),
        "brain": np.linspace(-2, 2, 6).astype(ml_dtypes.bfloat16),
        "whole": np.array([[-(2**63), 2**63 - 1], [0, 1]], np.int64),
        "natural": np.array([2**64 - 1, 0, 7], np.uint64),
        "truth": np.array([[True, False]]),
        "scalar": np.array(2.5, np.float32),
        "none": np.empty((0, 3), np.float32),
    }


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and (a.tobytes() == b.tobytes() or np.array_equal(a, b, True))


def test_more_tensors_than_a_text_has_are_refused_unread(tmp_path) -> None:
    one = '"{}":{{"data":[1],"dtype":"float32","shape":[1]}}'
    path = tmp_path / "x.json"
    path.write_text('{"tensors":{' + ",".join(one.format(number) for number in range(10_001)) + "}}")
    with pytest.raises(FileError, match="more than 10000 tensors"):
        pecli.load(path)


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    pecli.save(tmp_path / "all.json", arrays())
    found = pecli.load(tmp_path / "all.json")
    assert {name: same(found[name], array) for name, array in arrays().items()} == dict.fromkeys(arrays(), True)


def test_csv_comes_back_as_float64_or_integers(tmp_path: Path) -> None:
    for name in ("plain", "double", "any"):
        array = arrays()[name]
        pecli.save(tmp_path / "t.csv", array)
        found = pecli.load(tmp_path / "t.csv")["array"]
        assert found.dtype == np.float64
        assert same(found.astype(array.dtype), array)
    (tmp_path / "t.csv").write_text("1,-2\n9007199254740993,4\n")
    assert pecli.load(tmp_path / "t.csv")["array"].tolist() == [[1, -2], [9007199254740993, 4]]


@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), ("\t", "tabs"), (" | ", "bars")])
@pytest.mark.parametrize("number", ["1.5", "1,5"])
def test_csv_of_another_separator_is_told_so(tmp_path: Path, sign: str, name: str, number: str) -> None:
    (tmp_path / "t.csv").write_text(f"a{sign}b\n{number}{sign}2\n3{sign}4\n")
    with pytest.raises(FileError, match=f"separates numbers by {name}; a .csv has commas"):
        pecli.load(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.txt", {}),
        ("t.txt", {"fmt": "%12.6f"}),
        ("t.txt", {"header": "cos of pair"}),
        ("t.tsv", {"delimiter": "\t", "newline": "\r\n"}),
        ("t.txt", {"delimiter": ","}),
    ],
)
def test_text_is_read_as_np_savetxt_writes_it(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    table = pecli.Rope(7, 6).tables()["sin"].astype(np.float16)
    np.savetxt(tmp_path / name, table, **options)  # type: ignore[arg-type]
    assert np.array_equal(pecli.load(tmp_path / name)["array"].astype(np.float16), table)


@pytest.mark.parametrize(("text", "problem"), [("1 2\n3\n", "line 2 has 1 numbers"), ("1 x\n", "other words")])
def test_text_with_spaces_is_a_whole_table_of_numbers(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(FileError, match=problem):
        pecli.load(tmp_path / "t.txt")


BROKEN = {
    "large.csv": b"1,99999999999999999999\n",
    "large.json": b'{"tensors":{"a":{"data":[300],"dtype":"uint8","shape":[1]}}}',
    "words.csv": b"one,two\n",
    "space.csv": b"\n \n",
    "ragged.csv": b"1,2\n3\n",
    "blank.csv": b"1,\n2,3\n",
    "nothing.csv": b"1, \n2,3.5\n",
    "unfilled.csv": b"1,2\n\t,3.5\n",
    "sign.csv": b"1,- 2\n",
    "minus.csv": b"1,-\n2,3\n",
    "plus.csv": b"1,2\n3,+\n",
    "two.csv": b"1 2,3\n",
    "gap.csv": b"1\n\n2\n",
    "wide.csv": b"1,2\n3,4\n5,6,7\n",
    "sign.json": b'{"tensors":{"a":{"data":[-1],"dtype":"uint64","shape":[1]}}}',
    "larger.json": b'{"tensors":{"a":{"data":[%d,%d],"dtype":"uint64","shape":[2]}}}' % (2**64 - 1, 2**64),
    "least.json": b'{"tensors":{"a":{"data":[-9223372036854775809],"dtype":"int64","shape":[1]}}}',
    "empty.json": b'{"tensors":{"a":{"data":[[],[]],"dtype":"float32","shape":[0,2]}}}',
    "truth.json": b'{"tensors":{"a":{"data":[2],"dtype":"bool","shape":[1]}}}',
    "digits.json": b'{"tensors":{"a":{"data":[1],"dtype":"float32","shape":[' + b"9" * 5000 + b"]}}}",
    "twice.json": b'{"tensors":{' + b",".join([b'"a":{"data":[1],"dtype":"int8","shape":[1]}'] * 2) + b"}}",
    "hidden.json": b'{"tensors":{"a":{"data":[' + b"[]," * 5_000_000 + b'[]],"dtype":"float32","shape":[1]}}}',
    "name.json": b'{"tensors":{"' + b"\\\\n" * 3_000_000,
    "other.json": b'{"a": [1, 2, 3], "b": 4}',
    "short.json": b'{"tensors":{"a":{"data":[1,2],"dtype":"float32","shape":[3]}}}',
    "dtype.json": b'{"tensors":{"a":{"data":[1],"dtype":"object","shape":[1]}}}',
    "huge.json": b'{"tensors":{"a":{"data":[1],"dtype":"float32","shape":[4000000000,4000000000]}}}',
    "cut.json": b'{"tensors":{"a":{"data":[1],"dtype":"float32"',
    "deep.json": b'{"tensors":{"a":{"data":' + b"[" * 100_000 + b',"dtype":"float32","shape":[1]}}}',
}


def test_the_keys_of_json_may_come_in_any_order(tmp_path: Path) -> None:
    text = '{"tensors": {"a\\"data": {"shape": [2], "data": [1, 2], "dtype": "int8"}, "data": {"dtype": "bool", '
    text += '"shape": [], "data": true}}, "pecli": {"scheme": "x"}}'
    (tmp_path / "t.json").write_text(text)
    found = pecli.load(tmp_path / "t.json")
    assert {name: array.tolist() for name, array in found.items()} == {'a"data': [1, 2], "data": True}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_table_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(FileError) as problem:
        pecli.load(tmp_path / name)
    assert "\n" not in str(problem.value)


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
def test_a_header_of_csv_is_no_row(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(pecli.load(tmp_path / "x.csv")["array"], expected)


@pytest.mark.parametrize("text", ["0.1x,2\n3,4\n", "a,2.5\n3,4\n", "1,b\n3,4\n", "a,b\nc,d\n1,2\n", "a,b\n"])
def test_a_row_with_a_word_is_no_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(FileError):
        pecli.load(tmp_path / "x.csv")
