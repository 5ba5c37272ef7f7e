"""identify finds the scheme of a table in lines of text, in files of several tensors, and in other
forms of a table.

A form is an arrangement of the columns or axes, such as complex numbers or [cos | sin]. The tables
are those of a scheme, or COS and SIN: NumPy's of 12 positions, 16 channels and base 500000
(rope_dumps.py). Expected commands are the parameters of that scheme.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.edits import Dtype, ElementsWrong, Negated
from tests.checks.rope_dumps import COS, INV_FREQ, SIN, as_cos_sin_cache, fixed_point
from tests.checks.waves import Array

SLOPES = 2.0 ** -np.arange(1, 9)


@pytest.mark.parametrize(
    ("table", "command"),
    [
        (
            pecli.Rope(8, 8).tables()["cos"],
            "pecli rope --seq-len 8 --dim 8 -o again.safetensors",
        ),
        (
            np.vstack([COS, SIN]),
            "pecli rope --seq-len 12 --dim 16 --theta 500000 -o again.safetensors",
        ),
        (
            pecli.Alibi(4, 6).tables()["bias"].reshape(-1, 6),
            "pecli alibi --heads 4 --seq-len 6 -o again.npy",
        ),
    ],
    ids=["cosines", "cosines above sines", "biases of four heads, one below the other"],
)
def test_a_table_in_lines_of_text_is_identified_without_its_axes(
    tmp_path: Path, table: Array, command: str
) -> None:
    """A CSV file has lines and columns, and no other axes. It must lead to the command that makes the
    table again: COS and SIN are NumPy's of 12 positions, 16 channels and base 500000; the other
    commands have the parameters of the scheme in their row.
    """
    file = tmp_path / "t.csv"
    np.savetxt(file, table, delimiter=",", fmt="%s")

    assert pecli.identify(str(file)).matches[0].command == command


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_dtype_of_a_table_in_lines_of_text_is_found_from_its_digits(
    tmp_path: Path, dtype: str
) -> None:
    """NumPy prints a number with the fewest digits that identify it in its dtype: sin 1 is 0.84147096
    in float32, and 0.8413 in float16. A CSV file states no dtype, so that `identify` must find it
    from these digits.
    """
    table = pecli.Sinusoidal(seq_len=9, dim=8, dtype=dtype).tables()["pe"]
    file = tmp_path / "t.csv"
    np.savetxt(file, table, delimiter=",", fmt="%s")

    assert pecli.identify(str(file)).matches[0].scheme.dtype == dtype


def test_two_copies_of_the_cosines_and_their_sines_are_one_match() -> None:
    """«cos» and «COS» hold the same cosines, and «sin» the sines. Equal copies belong to one table, so
    that a single match lists all three tensors.
    """
    (match,) = pecli.identify({"cos": COS, "COS": COS, "sin": SIN}).matches
    assert {*match.tensors} == {"cos", "COS", "sin"}


def test_copies_of_cosines_and_sines_in_two_tensors_are_one_table() -> None:
    """«a» has three copies of the cosines, «b» three of the sines, as for a batch of three
    sequences. `identify` must find one table in both, and describe the copies.
    """
    arrays = {"a": np.stack([COS, COS, COS]), "b": np.stack([SIN, SIN, SIN])}
    match = pecli.identify(arrays).matches[0]

    assert match.tensors == ("a", "b")
    assert match.form == "repeated 3× along axis 0"


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        (
            pecli.Alibi(12).tables(),
            "<Identification passed: pecli alibi --heads 12 --slopes -o again.npy>",
        ),
        (np.ones((3, 3)), "<Identification failed: array: 3 × 3, float64, all 1>"),
    ],
    ids=["passed", "failed"],
)
def test_the_repr_of_an_identification_has_the_command_or_else_the_description(
    arrays: Array, text: str
) -> None:
    """Slopes of 12 heads are identified, so that the repr has the command that makes them; a matrix
    of ones is not, and is described.
    """
    assert repr(pecli.identify(arrays)) == text


def test_angles_are_distinguished_from_their_cosines_and_sines() -> None:
    """The array has the angles of 64 positions, position · 500000^(-2i/16), themselves; `identify`
    finds the rotary table with base 500000, and states that the values are angles.
    """
    match = pecli.identify(np.outer(np.arange(64), INV_FREQ)).matches[0]
    rope = "pecli rope --seq-len 64 --dim 16 --theta 500000 --dtype float64"

    assert match.command == f"{rope} -o again.safetensors"

    form = "values are the angles, position × inv_freq, and not their cosines or sines"
    assert match.form == form


def test_cosines_beside_sines_are_identified_as_halves() -> None:
    """vLLM keeps [cos | sin] under the name cos_sin_cache; COS and SIN have 12 positions, 16
    channels and base 500000.
    """
    match = pecli.identify(as_cos_sin_cache(np.hstack([COS, SIN]))).matches[0]

    command = "pecli rope --seq-len 12 --dim 16 --theta 500000 -o again.safetensors"
    assert match.command == command
    assert match.form == "layout is halves"


@pytest.mark.parametrize("row", [0, 1, 40])
def test_a_doubled_table_is_identified_although_one_element_is_wrong(row: int) -> None:
    """The columns are NumPy's cosines of base 10000, as c0 c0 c1 c1 …; one element of one of the 64
    rows is 0.5 instead.
    """
    cosines = np.cos(np.arange(64)[:, None] * 10000.0 ** (-np.arange(16) / 16))
    table = np.repeat(cosines, 2, axis=1)
    table[row, 3] = 0.5
    (match,) = pecli.identify({"cos": table}).matches

    assert match.command.startswith("pecli rope --seq-len 64 --dim 32 --layout interleaved")
    assert ElementsWrong(((row, 3),)) in match.edits


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_a_cache_in_which_every_frequency_is_there_twice_is_rotary(base: float) -> None:
    """The columns are c0 c1 … c0 c1 … s0 s1 … s0 s1 …. A sinusoidal table has every frequency once,
    so `identify` must find the rotary scheme, and only that.
    """
    scheme = pecli.Rope(64, 16, base, layout="halves")
    tables = scheme.tables()
    (match,) = pecli.identify(np.hstack([tables["cos"], tables["sin"]])).matches

    assert match.scheme == scheme


@pytest.mark.parametrize(
    ("table", "form"),
    [
        (COS, "layout is cos alone"),
        (COS[:, None], "layout is cos alone"),
        (COS.ravel(), "layout is cos alone"),
        (COS + 1j * SIN, "layout is complex"),
        (np.stack([COS, SIN], -1), "layout is pairs"),
    ],
    ids=["cosines", "an axis of length 1", "flat", "complex", "pairs"],
)
def test_the_form_of_a_rotary_table_is_named(table: Array, form: str) -> None:
    """COS and SIN are tables of 12 positions and 8 frequencies: cosines alone, with an axis of
    length 1, or as a vector; both as cos + i·sin, or as pairs along a last axis of 2.
    """
    assert pecli.identify(table).matches[0].form == form


def test_a_table_on_a_grid_is_identified_with_axes_of_length_1() -> None:
    """MAE's table of 8 × 8 patches and 32 channels, (64, 32), is dumped as (1, 64, 1, 32)."""
    scheme = pecli.Sinusoidal(dim=32, grid=(8, 8), style="mae")
    dump = scheme.tables()["pe"].reshape(1, 64, 1, 32)

    assert pecli.identify(dump).matches[0].scheme == scheme


def test_a_table_of_int8_with_a_scale_of_127_is_identified() -> None:
    """A sinusoidal table of 64 positions and 8 channels is stored as 127 times its numbers, rounded to
    int8: `identify` must find its parameters, and the command that makes it.
    """
    dump = fixed_point(pecli.Sinusoidal(64, 8).tables()["pe"], 127, "int8")
    command = "pecli sinusoidal --seq-len 64 --dim 8 -o again.npy"

    assert pecli.identify(dump).matches[0].command == command


def test_rounding_to_bfloat16_in_a_float32_file_is_not_made_by_the_command() -> None:
    """NumPy's table of 300 positions, rounded to bfloat16 and stored in float32, is off by up to 0.002
    from the float32 table that `pecli rope --seq-len 300 --dim 128` writes.
    """
    angles = np.outer(np.arange(300), 1e4 ** (-np.arange(64) / 64))
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    dump = {name: table.astype(ml_dtypes.bfloat16) for name, table in tables.items()}
    stored = {name: table.astype(np.float32) for name, table in dump.items()}

    assert pecli.identify(stored).matches[0].lacking == (Dtype("bfloat16"),)


def test_slopes_that_are_powers_of_two_are_assigned_to_no_runtime() -> None:
    """ALiBi's slopes of 8 heads are 1/2, 1/4, …, 1/256. Powers of two are the same in every
    precision, so nothing shows which program made them: the recipe is «exact».
    """
    match = pecli.identify(2.0 ** -np.arange(1, 9)).matches[0]
    assert match.recipe == "exact"
    assert match.runtimes == ()


@pytest.mark.parametrize(
    ("sign", "form"), [(1, ""), (-1, "the sign is flipped")], ids=["as by the paper", "negated"]
)
def test_what_the_command_does_not_make_again_is_stated(sign: int, form: str) -> None:
    """`form` states in words how the file differs from the scheme's own table, and `lacking` has what
    of this the command of the match does not make. ALiBi's bias for 8 heads and 12 positions is
    −slope · distance, and no option of `pecli alibi` negates it.
    """
    distances = np.abs(np.arange(12)[:, None] - np.arange(12))
    match = pecli.identify(sign * -SLOPES[:, None, None] * distances).matches[0]

    assert match.form == form
    assert match.lacking == (() if sign == 1 else (Negated("all"),))


@pytest.mark.parametrize(
    ("count", "ending", "passed"), [(8, "", True), (9, "", False), (9, ".slopes", True)]
)
def test_more_than_eight_tensors_are_searched_only_if_their_names_speak_of_positions(
    count: int, ending: str, passed: bool
) -> None:
    """A checkpoint has hundreds of tensors; a search of each would take minutes. Here each of 8 or 9
    tensors holds ALiBi's slopes, under the names x0, x1, … or x0.slopes, x1.slopes, ….
    """
    arrays = {f"x{number}{ending}": SLOPES for number in range(count)}
    assert pecli.identify(arrays).passed == passed


@pytest.mark.parametrize(
    ("arrays", "description"),
    [
        ({}, "it holds no tensor"),
        (
            {f"x{k}": SLOPES for k in range(9)},
            "it holds 9 tensors, and no name speaks of positions: name one, as FILE:NAME",
        ),
        (np.zeros(8), "array: 8, float64, all 0"),
        (np.zeros(8193), "array: 8193, float64, all 0"),
    ],
    ids=["nothing", "nine tensors", "zeros", "a vector that is too long to be searched"],
)
def test_a_file_that_is_not_identified_is_described(arrays: Array, description: str) -> None:
    """Up to 8 tensors are all searched; of 9, none whose name is as «x0», although each has slopes of
    ALiBi. A vector of zeros is of no scheme, and longer ones than 8192 are not even searched. The
    description states why nothing is identified, or else shape, dtype and range.
    """
    assert pecli.identify(arrays).description == (description,)


def test_numbers_that_bfloat16_does_not_have_are_not_identified_as_bfloat16(tmp_path: Path) -> None:
    """Twelve rows of NumPy's cosines, printed with four decimals as torch prints them. 0.5403 is not
    among the numbers of bfloat16, which has 0.5391 and 0.543 beside it.
    """
    angles = np.outer(np.arange(12), 500_000.0 ** (-np.arange(0, 64, 2) / 64))
    lines = [", ".join(f"{number:.4f}" for number in row) for row in np.cos(angles)]
    file = tmp_path / "printed.txt"
    rows = "],\n        [".join(lines)
    file.write_text(f"tensor([[{rows}]])\n", encoding="utf-8")
    dtypes = {match.scheme.dtype for match in pecli.identify(str(file)).matches}

    assert "bfloat16" not in dtypes


def test_numbers_with_all_digits_are_identified_in_the_dtype_that_prints_them_so(
    tmp_path: Path,
) -> None:
    """The lists in the file are NumPy's cosines and sines of 9 positions and base 10000 in float16,
    each number with the fewest digits that identify it: 0.5405, and not the exact 0.54052734375.
    """
    angles = np.outer(np.arange(9), 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    lists = []
    for name, table in {"cos": np.cos(angles), "sin": np.sin(angles)}.items():
        rows = [", ".join(map(str, row)) for row in table.astype(np.float16)]
        lists.append(f'"{name}": [[{"], [".join(rows)}]]')
    file = tmp_path / "printed.json"
    file.write_text(f"{{{', '.join(lists)}}}", encoding="utf-8")

    command = "pecli rope --seq-len 9 --dim 8 --dtype float16 -o again.safetensors"
    assert pecli.identify(str(file)).matches[0].command == command


ANGLES = np.outer(np.arange(12), 500_000.0 ** (-np.arange(0, 32, 2) / 32))


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        (np.cos(ANGLES).tolist(), "float64"),
        (np.cos(ANGLES).astype(np.float32).tolist(), "float32"),
        (
            [[float(f"{x:.9g}") for x in row] for row in np.cos(ANGLES).astype(np.float32)],
            "float32",
        ),
        ([[float(str(x)) for x in row] for row in np.cos(ANGLES).astype(np.float16)], "float16"),
    ],
    ids=[
        "float64",
        "float32, with all digits of float64",
        "float32, with nine digits",
        "float16, with the fewest digits that identify a number",
    ],
)
def test_cosines_in_a_text_are_identified_in_the_dtype_that_they_were_printed_from(
    tmp_path: Path, numbers: list[list[float]], dtype: str
) -> None:
    """NumPy's cosines of 12 positions, 32 channels and base 500000 are rounded to `dtype` and printed
    as lists in JSON, which states no dtype. It must be found from the digits: cos 1 is 0.5403023 in
    float32, and 0.5405 in float16.
    """
    file = tmp_path / "cos.json"
    file.write_text(json.dumps({"cos": numbers}), encoding="utf-8")
    (match,) = pecli.identify(str(file)).matches

    assert match.scheme.dtype == dtype
