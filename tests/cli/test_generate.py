"""The commands that make tables (`pecli rope`, `sinusoidal`, `alibi`, `learned-init`).

They print tables, write them in every format, and compare files with them (`--verify`). Expected
values are formulas in the tests, ALiBi's published slopes, and tables of the Python classes.
"""

import math
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import pecli
from tests.exit_codes import CHECK_FAILED, SUCCESS

SMALL_OPTIONS = {
    "sinusoidal": ["--seq-len", "6", "--dim", "4"],
    "rope": ["--seq-len", "6", "--dim", "4"],
    "alibi": ["--heads", "3", "--seq-len", "5"],
    "learned-init": ["--max-len", "6", "--dim", "4"],
}
SHAPES_OF_TENSORS = {
    "sinusoidal": {"pe": [6, 4]},
    "rope": {"cos": [6, 2], "sin": [6, 2], "inv_freq": [2]},
    "alibi": {"bias": [3, 5, 5], "slopes": [3]},
    "learned-init": {"weight": [6, 4]},
}
SHAPES_OF_NPY = {
    "sinusoidal": (6, 4),
    "rope": (2, 6, 2),
    "alibi": (3, 5, 5),
    "learned-init": (6, 4),
}
ROPE = ("rope", *SMALL_OPTIONS["rope"])
SINUSOIDAL = ("sinusoidal", *SMALL_OPTIONS["sinusoidal"])


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_a_written_table_of_every_format_passes_the_check_by_its_own_command(
    run_pecli, scheme: str, suffix: str
) -> None:
    """The command that wrote the file, with --verify instead of -o, compares it without any
    tolerance.
    """
    words = (scheme, *SMALL_OPTIONS[scheme])
    written = run_pecli(*words, "-o", f"t.{suffix}")
    checked = run_pecli(*words, "--verify", f"t.{suffix}", "--json")

    assert written.exit_code == SUCCESS
    assert written.err == ""
    assert written.out.startswith(f"t.{suffix}: ")
    assert checked.exit_code == SUCCESS
    assert checked.json["passed"]
    assert checked.json["diagnosis"] == []


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_a_npy_file_holds_one_array_of_the_scheme(run_pecli, scheme: str) -> None:
    """The tables have 6 positions and 4 channels, or 5 positions and 3 heads (ALiBi). Cosines and
    sines of a rope are stacked: (2, 6, 2).
    """
    run_pecli(scheme, *SMALL_OPTIONS[scheme], "-o", "t.npy")
    assert np.load("t.npy").shape == SHAPES_OF_NPY[scheme]


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_a_scheme_as_json_has_the_shapes_of_its_tensors(run_pecli, scheme: str) -> None:
    """The tables have 6 positions and 4 channels, or 5 positions and 3 heads (ALiBi), as
    SMALL_OPTIONS state: cosines of a rope are 6 × 2, for example.
    """
    described = run_pecli(scheme, *SMALL_OPTIONS[scheme], "--json").json
    shapes = {name: tensor["shape"] for name, tensor in described["tensors"].items()}

    assert described["scheme"] == scheme
    assert described["output"] is None
    assert described["parameters"]["dtype"] == "float32"
    assert shapes == SHAPES_OF_TENSORS[scheme]


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_the_json_of_a_scheme_that_is_written_adds_only_the_name_of_the_file(
    run_pecli, scheme: str
) -> None:
    """A command that makes tables, such as `pecli rope --json`, prints the same JSON with and
    without -o, except for the field «output».
    """
    words = (scheme, *SMALL_OPTIONS[scheme], "--json")
    described = run_pecli(*words).json
    assert run_pecli(*words, "-o", "t.npz").json == {**described, "output": "t.npz"}


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_json_has_the_statistics_of_the_written_tensors(run_pecli, scheme: str) -> None:
    """The command writes tables and prints JSON; the expected statistics are NumPy's, of the arrays
    in the file.
    """
    words = (scheme, *SMALL_OPTIONS[scheme], "-o", "t.safetensors", "--json")
    described = run_pecli(*words).json["tensors"]
    for name, array in load_file("t.safetensors").items():
        tensor = described[name]
        assert tensor["dtype"] == str(array.dtype)
        assert tensor["min"] == array.min()
        assert tensor["max"] == array.max()
        assert tensor["mean"] == pytest.approx(array.astype(np.float64).mean(), rel=1e-12)
        assert tensor["sha256"] == sha256(array.tobytes()).hexdigest()


def save_with_one_element_1_ulp_too_large(run_pecli, scheme: str) -> tuple[int, ...]:
    """Write t.npy, move one of its elements to the next larger float32, and return its index."""
    run_pecli(scheme, *SMALL_OPTIONS[scheme], "-o", "t.npy")
    table = np.load("t.npy")
    index = (*[1] * (table.ndim - 1), 0)
    table[index] = np.nextafter(table[index], np.float32(np.inf))
    np.save("t.npy", table)
    return index


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_verify_refuses_a_table_with_one_element_1_ulp_too_large(run_pecli, scheme: str) -> None:
    """The error is one step between float32 numbers (1 ULP): the expected value is the next smaller
    one. Without a tolerance, the table fails, and the element is reported.
    """
    index = save_with_one_element_1_ulp_too_large(run_pecli, scheme)
    outcome = run_pecli(scheme, *SMALL_OPTIONS[scheme], "--verify", "t.npy", "--json")
    assert outcome.exit_code == CHECK_FAILED
    assert not outcome.json["passed"]

    (tensor,) = outcome.json["tensors"]
    wrong_value = np.load("t.npy")[index]
    next_smaller = np.nextafter(wrong_value, np.float32(-np.inf))
    assert tensor["mismatched"] == 1
    assert tensor["max_ulp_error"] == 1
    assert tensor["worst_index"] == list(index)
    assert tensor["expected"] == float(next_smaller)
    assert tensor["found"] == float(wrong_value)


@pytest.mark.parametrize("tolerance", ["--max-ulp 1", "--atol 1e-6", "--rtol 1e-6"])
@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
@pytest.mark.sample(6)
def test_verify_allows_an_error_within_the_tolerance(
    run_pecli, scheme: str, tolerance: str
) -> None:
    """One element is 1 ULP too large. The elements are below 8, where an ULP of float32 is at most
    2^-21 = 4.8e-7, less than 1e-6.
    """
    save_with_one_element_1_ulp_too_large(run_pecli, scheme)
    words = (*SMALL_OPTIONS[scheme], "--verify", "t.npy", *tolerance.split())
    assert run_pecli(scheme, *words).exit_code == SUCCESS


@pytest.mark.parametrize("words", [("--slopes",), ()], ids=["--slopes", "without a length"])
def test_slopes_in_a_pipe_are_one_per_line(run_pecli, words: tuple[str, ...]) -> None:
    """The slopes of 12 heads by ALiBi's code are those of 8 heads, 2^-1 … 2^-8, and then every
    other one of 16 heads, 2^-0.5, 2^-1.5, ….
    """
    outcome = run_pecli("alibi", "--heads", "12", *words)
    slopes_of_8_heads = [2.0**-k for k in range(1, 9)]
    slopes_of_16_heads = [2.0 ** (-k / 2) for k in range(1, 17)]
    expected = slopes_of_8_heads + slopes_of_16_heads[::2][:4]

    assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(expected, rel=1e-7)


def test_a_preview_in_a_pipe_is_plain_text_with_the_numbers_of_the_formula(run_pecli) -> None:
    """By the paper's formula, row 511 begins with sin(511) and cos(511). Colours (ESC) and dots for
    numbers that were left out are for terminals.
    """
    text = run_pecli("sinusoidal", "--seq-len", "512", "--dim", "64").out
    assert "\x1b" not in text
    assert "…" not in text
    assert "pe  512 × 64  float32" in text

    (row,) = [line.split() for line in text.splitlines() if line.split()[:1] == ["511"]]
    assert float(row[1]) == pytest.approx(math.sin(511), rel=1e-6)
    assert float(row[2]) == pytest.approx(math.cos(511), rel=1e-6)


def test_rows_of_a_preview_are_numbered_from_the_offset(run_pecli) -> None:
    """Three rows from position 70 on are the last lines of the output."""
    text = run_pecli("sinusoidal", "--seq-len", "3", "--dim", "2", "--offset", "70").out
    assert [line.split()[0] for line in text.splitlines()[-3:]] == ["70", "71", "72"]


def test_theta_is_another_name_for_the_base(run_pecli) -> None:
    """`pecli rope --theta 5e5` and `pecli rope --base 500000` print the same JSON."""
    words = ("rope", "--seq-len", "2", "--dim", "4", "--json")
    assert run_pecli(*words, "--theta", "5e5").json == run_pecli(*words, "--base", "500000").json


@pytest.mark.parametrize("name", ["cos", "sin", "inv_freq"])
@pytest.mark.parametrize("has_a_name", [True, False], ids=["by its name", "by its shape"])
def test_verify_recognises_a_single_tensor_of_a_rope(
    run_pecli, name: str, has_a_name: bool
) -> None:
    """The file has one of cos, sin and inv_freq. A .npy has no names; cosines and sines have the
    same shape, and differ in their first row.
    """
    tables = pecli.Rope(6, 4).tables()
    np.savez("t.npz", **tables)
    np.save("t.npy", tables[name])
    file = f"t.npz:{name}" if has_a_name else "t.npy"
    outcome = run_pecli(*ROPE, "--verify", file, "--json")

    assert outcome.exit_code == SUCCESS
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == [name]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("cos", "inv_freq"), CHECK_FAILED),
        (("sin",), CHECK_FAILED),
        (("inv_freq",), SUCCESS),
        (("cos", "sin"), SUCCESS),
    ],
    ids=["no sines", "no cosines", "only inv_freq", "no inv_freq"],
)
def test_verify_fails_a_file_with_cosines_or_sines_but_not_both(
    run_pecli, names: tuple[str, ...], code: int
) -> None:
    """Cosines are of no use without sines, but neither needs inv_freq, and inv_freq alone is
    enough.
    """
    tables = pecli.Rope(6, 4).tables()
    np.savez("t.npz", **{name: tables[name] for name in names})
    outcome = run_pecli(*ROPE, "--verify", "t.npz", "--json")

    assert outcome.exit_code == code
    is_missing = any("missing" in reason for reason in outcome.json["diagnosis"])
    assert is_missing == (code == CHECK_FAILED)


def test_the_printed_ulps_are_those_of_the_element_with_the_largest_error(run_pecli) -> None:
    """Element [2, 1], which is cos 2, is 2^-6 = 0.0156 too large. Element [0, 0] should be 0, and
    is 700,000 denormal steps (ULPs) of 2^-149 off: many ULPs, but a tiny error.
    """
    table = pecli.Sinusoidal(6, 4).tables()["pe"]
    table[0, 0] = 700_000 * 2.0**-149
    table[2, 1] += np.float32(2**-6)
    np.save("t.npy", table)
    outcome = run_pecli(*SINUSOIDAL, "--verify", "t.npy")

    # Neighbours in float32 have neighbouring bit patterns, so patterns count the steps between.
    right = np.float32(math.cos(2))
    wrong = right + np.float32(2**-6)
    ulps = abs(int(right.view(np.int32)) - int(wrong.view(np.int32)))
    assert f"max error 0.0156 ({ulps:,} ulp) at [2, 1]" in outcome.out
    assert "(elsewhere up to 700,000 ulp)" in outcome.out


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_positions_of_a_table_may_stand_one_per_line_in_a_file(run_pecli, suffix: str) -> None:
    """Of the table of positions 0 to 7, the rows 0, 5 and 7 are written."""
    Path(f"positions.{suffix}").write_text("0\n5\n7\n")
    words = ("--dim", "4", "--positions", f"positions.{suffix}", "-o", "rope.npy")

    assert run_pecli("rope", *words).exit_code == SUCCESS
    every_row = pecli.Rope(8, 4).single_array().array()
    assert np.array_equal(np.load("rope.npy"), every_row[:, [0, 5, 7]])


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_frequencies_may_stand_one_per_line_in_a_file(run_pecli, suffix: str) -> None:
    """--inv-freq takes frequencies of one's own, here 1, 0.5 and 0.3."""
    Path(f"own.{suffix}").write_text("1\n0.5\n0.3\n")
    words = ("--seq-len", "4", "--inv-freq", f"own.{suffix}", "-o", "rope.npz")

    assert run_pecli("rope", *words).exit_code == SUCCESS
    assert np.load("rope.npz")["inv_freq"].tolist() == [1.0, 0.5, 0.3]


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_positions_of_queries_may_stand_one_per_line_in_a_file(run_pecli, suffix: str) -> None:
    """The Python function, which has the positions as a list, gives the expected rotation."""
    Path(f"positions.{suffix}").write_text("0\n5\n7\n")
    x = np.ones((3, 4))
    np.save("x.npy", x)
    words = ("rope", "x.npy", "--positions", f"positions.{suffix}", "-o", "y.npy")

    assert run_pecli("apply", *words).exit_code == SUCCESS
    expected = pecli.apply(x, pecli.Rope(3, 4), positions=[0, 5, 7])
    assert np.array_equal(np.load("y.npy"), expected)


@pytest.mark.parametrize(
    ("options", "code"),
    [((), SUCCESS), (("--dtype", "float16"), SUCCESS), (("--dtype", "float32"), CHECK_FAILED)],
    ids=["any", "the same", "another"],
)
def test_the_dtype_of_a_file_is_checked_if_it_is_given(
    run_pecli, options: tuple[str, ...], code: int
) -> None:
    """The table was rounded correctly to float16, which is no mistake if nobody expects another."""
    size = ("sinusoidal", "--seq-len", 4, "--dim", 4)
    run_pecli(*size, "--dtype", "float16", "-o", "half.npy")

    assert run_pecli(*size, *options, "--verify", "half.npy").exit_code == code
