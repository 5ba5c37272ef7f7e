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
ROPE, SINUSOIDAL = ("rope", *SMALL_OPTIONS["rope"]), ("sinusoidal", *SMALL_OPTIONS["sinusoidal"])


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_every_format_holds_the_same_table_and_json_describes_it(run_pecli, scheme) -> None:
    described = run_pecli(scheme, *SMALL_OPTIONS[scheme], "--json").json
    for suffix in ("npy", "npz", "safetensors"):
        outcome = run_pecli(scheme, *SMALL_OPTIONS[scheme], "-o", f"t.{suffix}", "--json")
        assert outcome.exit_code == SUCCESS
        assert outcome.err == ""
        assert outcome.json == {**described, "output": f"t.{suffix}"}
        checked = run_pecli(scheme, *SMALL_OPTIONS[scheme], "--verify", f"t.{suffix}", "--json")
        assert checked.exit_code == SUCCESS
        assert checked.json["passed"]
        assert checked.json["diagnosis"] == []
    assert np.load("t.npy").shape == SHAPES_OF_NPY[scheme]
    assert run_pecli(scheme, *SMALL_OPTIONS[scheme], "-o", "t.npy").out.startswith("t.npy: ")
    assert described["scheme"] == scheme
    assert described["output"] is None
    assert {
        name: tensor["shape"] for name, tensor in described["tensors"].items()
    } == SHAPES_OF_TENSORS[scheme]
    assert described["parameters"]["dtype"] == "float32"
    for name, array in load_file("t.safetensors").items():
        tensor = described["tensors"][name]
        assert tensor["dtype"] == str(array.dtype)
        assert tensor["min"] == array.min()
        assert tensor["max"] == array.max()
        assert tensor["mean"] == pytest.approx(array.astype(np.float64).mean(), rel=1e-12)
        assert tensor["sha256"] == sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("scheme", SMALL_OPTIONS)
def test_verify_refuses_one_wrong_element(run_pecli, scheme) -> None:
    """One element is moved by 1 ULP: it fails exactly, and passes within a tolerance."""
    run_pecli(scheme, *SMALL_OPTIONS[scheme], "-o", "t.npy")
    table = np.load("t.npy")
    place = (1,) * (table.ndim - 1) + (0,)
    right = table[place]
    table[place] = np.nextafter(right, np.float32(9))
    np.save("t.npy", table)
    outcome = run_pecli(scheme, *SMALL_OPTIONS[scheme], "--verify", "t.npy", "--json")

    assert outcome.exit_code == CHECK_FAILED
    assert not outcome.json["passed"]

    (tensor,) = outcome.json["tensors"]
    assert tensor["mismatched"] == 1
    assert tensor["max_ulp_error"] == 1
    assert tensor["worst_index"] == list(place)
    assert tensor["expected"] == float(right)
    assert tensor["found"] == float(table[place])
    for tolerance in (["--max-ulp", "1"], ["--atol", "1e-6"], ["--rtol", "1e-6"]):
        assert (
            run_pecli(scheme, *SMALL_OPTIONS[scheme], "--verify", "t.npy", *tolerance).exit_code
            == SUCCESS
        )


def test_slopes_in_a_pipe_are_one_per_line(run_pecli) -> None:
    """The slopes of 12 heads by ALiBi's code: 2^-1 … 2^-8, then every other one of 16 heads."""
    outcome = run_pecli("alibi", "--heads", "12", "--slopes")
    expected = [2.0**-k for k in range(1, 9)] + [2.0**-k for k in (0.5, 1.5, 2.5, 3.5)]

    assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(expected, rel=1e-7)
    assert run_pecli("alibi", "--heads", "12").out == outcome.out


def test_preview_in_a_pipe_is_whole_and_plain(run_pecli) -> None:
    """Row 511 begins with sin(511) and cos(511), from the paper's formula."""
    out = run_pecli("sinusoidal", "--seq-len", "512", "--dim", "64").out
    assert "\x1b" not in out
    assert "…" not in out
    assert "pe  512 × 64  float32" in out

    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["511"])
    assert [float(value) for value in row[1:3]] == pytest.approx(
        [math.sin(511), math.cos(511)], rel=1e-6
    )

    out = run_pecli("sinusoidal", "--seq-len", "3", "--dim", "2", "--offset", "70").out
    assert [line.split()[0] for line in out.splitlines()[-3:]] == ["70", "71", "72"]

    words = ["rope", "--seq-len", "2", "--dim", "4", "--json"]
    assert run_pecli(*words, "--theta", "5e5").json == run_pecli(*words, "--base", "500000").json


def test_a_single_tensor_is_recognised_by_its_shape_or_name(run_pecli) -> None:
    tables = pecli.Rope(6, 4).tables()
    np.savez("t.npz", **tables)

    for name in ("cos", "sin", "inv_freq"):
        np.save("t.npy", tables[name])
        for file in ("t.npy", f"t.npz:{name}"):
            outcome = run_pecli(*ROPE, "--verify", file, "--json")
            assert outcome.exit_code == SUCCESS
            assert [tensor["name"] for tensor in outcome.json["tensors"]] == [name]


def test_a_file_without_an_essential_tensor_fails(run_pecli) -> None:
    """Cosines need sines, but neither needs inv_freq, and inv_freq alone is enough."""
    tables = pecli.Rope(6, 4).tables()
    codes = {("cos", "inv_freq"): 1, ("sin",): 1, ("inv_freq",): 0, ("cos", "sin"): 0}

    for names, code in codes.items():
        np.savez("t.npz", **{name: tables[name] for name in names})
        assert run_pecli(*ROPE, "--verify", "t.npz").exit_code == code
        diagnosis = run_pecli(*ROPE, "--verify", "t.npz", "--json").json["diagnosis"]
        assert any("missing" in text for text in diagnosis) == (code == 1)


def test_the_ulps_shown_are_those_of_the_element_shown(run_pecli) -> None:
    """The element with the largest error is not the one with the most ULPs: a zero is 700,000
    denormal steps off.
    """
    table = pecli.Sinusoidal(6, 4).tables()["pe"]
    table[0, 0], table[2, 1] = 700_000 * 2.0**-149, table[2, 1] + np.float32(2**-6)
    np.save("t.npy", table)
    outcome = run_pecli(*SINUSOIDAL, "--verify", "t.npy")
    expected, found = np.float32(math.cos(2)), np.float32(math.cos(2)) + np.float32(2**-6)
    apart = abs(int(expected.view(np.int32)) - int(found.view(np.int32)))

    assert f"max error 0.0156 ({apart:,} ulp) at [2, 1]" in outcome.out
    assert "(elsewhere up to 700,000 ulp)" in outcome.out


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_positions_may_stand_one_per_line(run_pecli, suffix: str) -> None:
    Path(f"positions.{suffix}").write_text("0\n5\n7\n")
    assert (
        run_pecli(
            "rope", "--dim", "4", "--positions", f"positions.{suffix}", "-o", "rope.npy"
        ).exit_code
        == SUCCESS
    )
    assert np.array_equal(
        np.load("rope.npy"), pecli.Rope(8, 4).single_array().array()[:, [0, 5, 7]]
    )

    np.save("x.npy", np.ones((3, 4)))
    assert (
        run_pecli(
            "apply", "rope", "x.npy", "--positions", f"positions.{suffix}", "-o", "y.npy"
        ).exit_code
        == SUCCESS
    )
    assert np.array_equal(
        np.load("y.npy"), pecli.apply(np.ones((3, 4)), pecli.Rope(3, 4), positions=[0, 5, 7])
    )
