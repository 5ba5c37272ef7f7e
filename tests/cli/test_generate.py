"""The four generators: what they print, write, check, and refuse."""

from __future__ import annotations

import json
import math
from hashlib import sha256

import numpy as np
import pytest
from safetensors.numpy import load_file

import pecli

SMALL = {
    "sinusoidal": ["--seq-len", "6", "--dim", "4"],
    "rope": ["--seq-len", "6", "--dim", "4"],
    "alibi": ["--heads", "3", "--seq-len", "5"],
    "learned-init": ["--max-len", "6", "--dim", "4"],
}
TENSORS = {
    "sinusoidal": {"pe": [6, 4]},
    "rope": {"cos": [6, 2], "sin": [6, 2], "inv_freq": [2]},
    "alibi": {"bias": [3, 5, 5], "slopes": [3]},
    "learned-init": {"weight": [6, 4]},
}
PLAIN = {"sinusoidal": (6, 4), "rope": (2, 6, 2), "alibi": (3, 5, 5), "learned-init": (6, 4)}
SUFFIXES = ["npy", "npz", "safetensors", "csv", "json", "h"]


@pytest.mark.parametrize("scheme", SMALL)
def test_json_has_the_fields_of_the_contract(pecli_cli, scheme, tmp_path) -> None:
    path = tmp_path / "t.safetensors"
    outcome = pecli_cli(scheme, *SMALL[scheme], "-o", path, "--json")
    assert outcome.code == 0
    assert outcome.err == ""
    result = outcome.json
    assert result["scheme"] == scheme
    assert result["output"] == str(path)
    assert {name: tensor["shape"] for name, tensor in result["tensors"].items()} == TENSORS[scheme]
    assert result["parameters"]["dtype"] == "float32"
    for name, array in load_file(path).items():
        tensor = result["tensors"][name]
        assert (tensor["dtype"], tensor["min"], tensor["max"]) == (str(array.dtype), array.min(), array.max())
        assert tensor["mean"] == pytest.approx(array.astype(np.float64).mean(), rel=1e-12)
        assert tensor["sha256"] == sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("scheme", SMALL)
def test_every_format_holds_the_same_table(pecli_cli, scheme, tmp_path) -> None:
    described = {**pecli_cli(scheme, *SMALL[scheme], "--json").json, "output": ""}
    for suffix in ("npy", "npz", "safetensors"):
        path = tmp_path / f"t.{suffix}"
        written = pecli_cli(scheme, *SMALL[scheme], "-o", path, "--json").json
        assert {**written, "output": ""} == described
        checked = pecli_cli(scheme, *SMALL[scheme], "--verify", path, "--json")
        assert (checked.code, checked.json["passed"], checked.json["diagnosis"]) == (0, True, [])
    assert np.load(tmp_path / "t.npy").shape == PLAIN[scheme]
    assert pecli_cli(scheme, *SMALL[scheme], "-o", tmp_path / "t.npy").out.startswith(str(tmp_path / "t.npy"))


@pytest.mark.parametrize("scheme", SMALL)
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.sample(8)
def test_the_same_command_gives_the_same_bytes(pecli_cli, scheme, suffix, tmp_path, monkeypatch) -> None:
    for threads in ("1", "8"):
        monkeypatch.setenv("PECLI_THREADS", threads)
        assert pecli_cli(scheme, *SMALL[scheme], "-q", "-o", tmp_path / f"{threads}.{suffix}").out == ""
    assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"8.{suffix}").read_bytes()


@pytest.mark.parametrize("scheme", SMALL)
def test_verify_refuses_one_wrong_element(pecli_cli, scheme, tmp_path) -> None:
    path = tmp_path / "t.npy"
    pecli_cli(scheme, *SMALL[scheme], "-o", path)
    table = np.load(path)
    place = (1,) * (table.ndim - 1) + (0,)
    right = table[place]
    table[place] = np.nextafter(right, np.float32(9))
    np.save(path, table)
    outcome = pecli_cli(scheme, *SMALL[scheme], "--verify", path, "--json")
    assert outcome.code == 1
    (tensor,) = outcome.json["tensors"]
    assert outcome.json["passed"] is False
    assert tensor["mismatched"] == 1
    assert tensor["max_ulp_error"] == 1
    assert tensor["worst_index"] == list(place)
    assert tensor["expected"] == float(right)
    assert tensor["found"] == float(table[place])
    for tolerance in (["--max-ulp", "1"], ["--atol", "1e-6"], ["--rtol", "1e-6"]):
        assert pecli_cli(scheme, *SMALL[scheme], "--verify", path, *tolerance).code == 0


def test_verify_finds_shapes_and_dtypes_that_differ(pecli_cli, tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.zeros((6, 5), np.float32))
    shape = pecli_cli("sinusoidal", *SMALL["sinusoidal"], "--verify", tmp_path / "t.npy", "--json")
    np.save(tmp_path / "t.npy", np.zeros((6, 4), np.float64))
    words = [*SMALL["sinusoidal"], "--dtype", "float32", "--verify", tmp_path / "t.npy", "--json"]
    dtype = pecli_cli("sinusoidal", *words)
    assert shape.code == dtype.code == 1
    assert "(6, 5)" in shape.json["diagnosis"][0]
    assert "float64" in dtype.json["diagnosis"][0]


def test_one_tensor_of_a_file_is_addressed_by_name(pecli_cli, tmp_path) -> None:
    path = tmp_path / "t.safetensors"
    pecli_cli("rope", *SMALL["rope"], "-o", path)
    outcome = pecli_cli("rope", *SMALL["rope"], "--verify", f"{path}:sin", "--json")
    assert outcome.code == 0
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["sin"]


def test_slopes_are_one_a_line_in_a_pipe(pecli_cli) -> None:
    outcome = pecli_cli("alibi", "--heads", "12", "--slopes")
    expected = [2.0**-k for k in range(1, 9)] + [2.0**-k for k in (0.5, 1.5, 2.5, 3.5)]
    assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(expected, rel=1e-7)
    assert pecli_cli("alibi", "--heads", "12").out == outcome.out


def test_preview_in_a_pipe_is_whole_and_plain(pecli_cli) -> None:
    outcome = pecli_cli("sinusoidal", "--seq-len", "512", "--dim", "64")
    assert "\x1b" not in outcome.out
    assert "…" not in outcome.out
    assert "pe  512 × 64  float32" in outcome.out
    row = next(line.split() for line in outcome.out.splitlines() if line.split()[:1] == ["511"])
    assert float(row[1]) == pytest.approx(math.sin(511), rel=1e-6)
    assert float(row[2]) == pytest.approx(math.cos(511), rel=1e-6)


def test_preview_numbers_rows_by_position(pecli_cli) -> None:
    outcome = pecli_cli("sinusoidal", "--seq-len", "3", "--dim", "2", "--offset", "70")
    assert [line.split()[0] for line in outcome.out.splitlines()[-3:]] == ["70", "71", "72"]


def test_style_sets_and_an_option_beside_it_wins(pecli_cli) -> None:
    whisper = pecli_cli("sinusoidal", "--seq-len", "4", "--dim", "8", "--style", "whisper", "--json").json
    assert whisper["parameters"]["layout"] == "halves"
    assert whisper["parameters"]["freq_shift"] == 1
    mixed = pecli_cli("sinusoidal", "--seq-len", "4", "--dim", "8", "--style", "whisper", "--freq-shift", "0", "--json")
    assert mixed.json["parameters"]["freq_shift"] == 0


def test_theta_is_base(pecli_cli) -> None:
    words = ["rope", "--seq-len", "2", "--dim", "4", "--json"]
    assert pecli_cli(*words, "--theta", "5e5").json == pecli_cli(*words, "--base", "500000").json


REFUSED = [
    ("sinusoidal", "--seq-len 0 --dim 4", "--seq-len is 0; it must be a whole number from 1 to 2^40"),
    ("sinusoidal", "--seq-len -1 --dim 4", "--seq-len is -1;"),
    ("sinusoidal", f"--seq-len {2**63} --dim 4", f"--seq-len is {2**63};"),
    ("sinusoidal", f"--seq-len {'9' * 5000} --dim 4", "--seq-len is 999"),
    ("sinusoidal", "--seq-len 1.5 --dim 4", "--seq-len is '1.5';"),
    ("sinusoidal", "--seq-len 4 --dim 0", "--dim is 0; it must be a whole number from 1 to 65,536"),
    ("sinusoidal", "--seq-len 4 --dim 65537", "--dim is 65537;"),
    ("sinusoidal", "--dim 4", "--seq-len is missing;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --base nan", "--base is nan; it must be a finite number above 0"),
    ("rope", "--seq-len 4 --dim 4 --theta nan", "--theta is nan; it must be a finite number above 0"),
    ("rope", "--seq-len 4 --dim 4 --theta=0", "--theta is 0;"),
    ("rope", "--seq-len 4 --dim 4 --base 0", "--base is 0;"),
    ("rope", "--seq-len 4 --dim 4 --scaling yarn --factor 2 --original-len 0", "--original-len is 0;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --base inf", "--base is inf;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --base 0", "--base is 0;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --base -3", "--base is -3;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --base 1e-300", "--base is 1e-300; frequencies must stay below 2^64"),
    ("sinusoidal", "--seq-len 4 --dim 4 --dtype float31", "did you mean 'float32'?"),
    ("sinusoidal", "--seq-len 4 --dim 4 --layout halfs", "did you mean 'halves'?"),
    ("sinusoidal", "--seq-len 4 --dim 4 --style wisper", "did you mean 'whisper'?"),
    ("sinusoidal", "--seq-len 4 --dim 5 --style mlx", "--dim is 5; the mlx style has even dims only"),
    ("sinusoidal", "--seq-len 4 --dim 8 --freq-shift 4", "--freq-shift is 4;"),
    ("sinusoidal", f"--seq-len 4 --dim 4 --offset {2**40 - 2}", "the last position must be at most 2^40"),
    ("sinusoidal", "--seq-len 4 --dim 4 -o t.foo", "--output is t.foo; the suffix must be one of .npy"),
    ("sinusoidal", "--seq-len 4 --dim 4 -o t.npz --dtype bfloat16", "--dtype is bfloat16;"),
    ("sinusoidal", "--seq-len 4 --dim 4 -o t.npy --verify t.npy", "either written or checked"),
    ("sinusoidal", "--seq-len 4 --dim 4 --verify t.npy --max-ulp -1", "--max-ulp is -1;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --verify t.npy --atol nan", "--atol is nan;"),
    ("sinusoidal", "--seq-len 4 --dim 4 --atol 1", "tolerances require --verify"),
    ("sinusoidal", "--seq-lne 4", "did you mean --seq-len? no such option: --seq-lne"),
    ("sinusoidal", "--seq-len 4 --dim 4 more", "unexpected extra argument"),
    ("rope", "--seq-len 4 --dim 5", "--dim is 5; it must be an even whole number from 2 to 65,536"),
    ("alibi", "--heads 0", "--heads is 0;"),
    ("alibi", "--heads 4 --max-bias 0", "--max-bias is 0;"),
    ("learned-init", "--max-len 4 --dim 4 --std nan", "--std is nan;"),
    (
        "learned-init",
        f"--max-len 4 --dim 4 --seed {2**64}",
        f"--seed is {2**64}; it must be a whole number from 0 to 2^64",
    ),
    ("sinusoidl", "--seq-len 4", "did you mean 'sinusoidal'?"),
]


@pytest.mark.parametrize(("command", "words", "message"), REFUSED)
def test_a_wrong_command_line_is_one_clear_line(pecli_cli, command, words, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pecli_cli(command, *words.split())
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("pecli: error: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_a_file_problem(pecli_cli, tmp_path) -> None:
    outcome = pecli_cli("sinusoidal", "--seq-len", "4", "--dim", "4", "-o", tmp_path / "no" / "t.npy")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert "does not exist" in outcome.err


def test_bfloat16_is_written_where_it_can_be(pecli_cli, tmp_path) -> None:
    words = ["sinusoidal", *SMALL["sinusoidal"], "--dtype", "bfloat16"]
    for suffix in ("safetensors", "h", "csv", "json"):
        assert pecli_cli(*words, "-o", tmp_path / f"t.{suffix}").code == 0
    assert pecli_cli("verify", tmp_path / "t.safetensors").code == 0
    assert json.loads((tmp_path / "t.json").read_text())["tensors"]["pe"]["dtype"] == "bfloat16"


def test_infinities_are_no_json_literals(pecli_cli, tmp_path) -> None:
    words = ["alibi", "--heads", "2", "--seq-len", "3", "--form", "causal"]
    described = pecli_cli(*words, "--json")
    assert described.json["tensors"]["bias"]["min"] is None
    assert "Infinity" not in described.out
    pecli_cli(*words, "-o", tmp_path / "t.safetensors")
    assert pecli_cli("verify", tmp_path / "t.safetensors").code == 0


def test_a_single_tensor_is_told_by_its_shape(pecli_cli, tmp_path) -> None:
    tables = pecli.Rope(6, 4).tables()
    for name in ("cos", "sin", "inv_freq"):
        np.save(tmp_path / "t.npy", tables[name])
        outcome = pecli_cli("rope", *SMALL["rope"], "--verify", tmp_path / "t.npy", "--json")
        assert outcome.code == 0
        assert outcome.json["tensors"][0]["name"] == name


def test_a_file_without_an_essential_tensor_fails(pecli_cli, tmp_path) -> None:
    tables = pecli.Rope(6, 4).tables()
    np.savez(tmp_path / "t.npz", cos=tables["cos"], inv_freq=tables["inv_freq"])
    outcome = pecli_cli("rope", *SMALL["rope"], "--verify", tmp_path / "t.npz", "--json")
    assert outcome.code == 1
    assert outcome.json["diagnosis"][0].startswith("sin: the tensor is missing")
    np.savez(tmp_path / "t.npz", inv_freq=tables["inv_freq"])
    assert pecli_cli("rope", *SMALL["rope"], "--verify", tmp_path / "t.npz").code == 1
    assert pecli_cli("rope", *SMALL["rope"], "--verify", f"{tmp_path / 't.npz'}:inv_freq").code == 0
    np.savez(tmp_path / "t.npz", cos=tables["cos"], sin=tables["sin"])
    assert pecli_cli("rope", *SMALL["rope"], "--verify", tmp_path / "t.npz").code == 0


def test_a_flag_can_be_taken_back_from_a_style(pecli_cli) -> None:
    words = ["sinusoidal", *SMALL["sinusoidal"], "--style", "dit", "--json"]
    assert pecli_cli(*words).json["parameters"]["cos_first"] is True
    assert pecli_cli(*words, "--no-cos-first").json["parameters"]["cos_first"] is False


def test_the_ulps_shown_are_those_of_the_element_shown(pecli_cli, tmp_path) -> None:
    table = pecli.Sinusoidal(6, 4).tables()["pe"]
    table[0, 0], table[2, 1] = 700_000 * 2.0**-149, table[2, 1] + np.float32(2**-6)
    np.save(tmp_path / "t.npy", table)
    outcome = pecli_cli("sinusoidal", *SMALL["sinusoidal"], "--verify", tmp_path / "t.npy")
    expected, found = np.float32(math.cos(2)), np.float32(math.cos(2)) + np.float32(2**-6)
    apart = abs(int(expected.view(np.int32)) - int(found.view(np.int32)))
    assert f"max error 0.0156 ({apart:,} ulp) at [2, 1]" in outcome.out
    assert "(elsewhere up to 700,000 ulp)" in outcome.out


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_positions_may_stand_one_per_line(pecli_cli, tmp_path, suffix: str) -> None:
    positions, output = tmp_path / f"positions.{suffix}", tmp_path / "rope.npy"
    positions.write_text("".join(f"{number}\n" for number in (0, 5, 7)))
    assert pecli_cli("rope", "--dim", "4", "--positions", positions, "-o", output).code == 0
    assert np.array_equal(np.load(output), pecli.Rope(8, 4).single_array().array()[:, [0, 5, 7]])
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.ones((3, 4)))
    assert pecli_cli("apply", "rope", x, "--positions", positions, "-o", y).code == 0
    assert np.array_equal(np.load(y), pecli.apply(np.ones((3, 4)), pecli.Rope(3, 4), positions=[0, 5, 7]))
