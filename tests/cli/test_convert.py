"""`pecli convert` and `pecli resize` from the shell: what they write, say and refuse."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pecli


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("pe.npy", rng.standard_normal((17, 8)).astype(np.float32))
    np.save("whole.npy", np.arange(12).reshape(3, 4))
    np.save("scores.npy", rng.standard_normal((2, 4, 3, 8)))
    weights = {
        f"layers.{k}.{name}.weight": rng.standard_normal((16, 6)) for k in range(2) for name in ("q_proj", "k_proj")
    }
    save_file({**weights, "norm": np.ones(3)}, "model.safetensors", metadata={"format": "pt"})


PAIRS = ("--from", "interleaved", "--to", "halves")


@pytest.mark.parametrize("words", [("convert", "pe.npy", "--dtype", "float16"), ("resize", "pe.npy", "--to", "9")])
def test_standard_output_holds_the_table_or_json(pecli_cli, words) -> None:
    refused = pecli_cli(*words, "-o", "-", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "either the table or JSON" in refused.err


def test_a_checkpoint_is_converted_and_proved(pecli_cli) -> None:
    words = ("convert", "model.safetensors", *PAIRS, "--heads", "4", "--check", "-o", "out.safetensors")
    done = pecli_cli(*words)
    assert done.code == 0
    assert "4 moved" in done.out
    assert "scores before and after are the same" in done.out
    old, new = load_file("model.safetensors"), load_file("out.safetensors")
    name = "layers.1.k_proj.weight"
    assert np.array_equal(new[name], old[name].reshape(4, 2, 2, 6).swapaxes(1, 2).reshape(16, 6))
    assert pecli_cli(*words, "--json").json["score_change"] < 1e-12


def test_include_chooses(pecli_cli) -> None:
    words = ["--heads", "4", "--include", "layers.0.[qk]_proj.*", "-o", "o.safetensors", "--json"]
    assert pecli_cli("convert", "model.safetensors", *PAIRS, *words).json["moved"] == [
        "layers.0.k_proj.weight",
        "layers.0.q_proj.weight",
    ]


def test_formats_and_dtypes(pecli_cli) -> None:
    assert pecli_cli("convert", "pe.npy", "-o", "pe.safetensors").code == 0
    assert pecli_cli("convert", "pe.safetensors", "--dtype", "float16", "-o", "half.npz").code == 0
    assert np.array_equal(np.load("half.npz")["array"], np.load("pe.npy").astype(np.float16))
    assert pecli_cli("convert", "pe.npy", "-o", "pe.csv").code == 0
    assert pecli_cli("convert", "pe.csv", "--dtype", "float32", "-o", "again.npy").code == 0
    assert Path("again.npy").read_bytes() == Path("pe.npy").read_bytes()


def test_a_grid_grows(pecli_cli) -> None:
    done = pecli_cli("resize", "pe.npy", "--grid", "4x4", "--to", "6x5", "--keep", "1", "-o", "out.npy")
    assert done.code == 0
    assert "17 × 8 → 31 × 8" in done.out
    assert "norm of a row" in done.out
    assert np.load("out.npy").shape == (31, 8)
    told = pecli_cli("resize", "pe.npy", "--to", "34", "--json").json
    assert told["resized"] == [34, 8]
    assert told["output"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["convert", "pe.npy"], 2, "--output is missing"),
        (["convert", "pe.npy", "-o", "x.foo"], 2, "suffix"),
        (["convert", "none.npy", "-o", "x.npy"], 3, "does not exist"),
        (["convert", "pe.npy", "--from", "halves", "-o", "x.npy"], 2, "--to is missing"),
        (["convert", "pe.npy", "--from", "halfs", "--to", "interleaved", "-o", "x.npy"], 2, "halves"),
        (["convert", "pe.npy", "--dtype", "int8", "-o", "x.npy"], 2, "--dtype"),
        (["convert", "pe.npy", *PAIRS, "--rotary-dim", "10", "-o", "x.npy"], 2, "at most the 8"),
        (["convert", "pe.npy", *PAIRS, "--rotary-dim", "3", "-o", "x.npy"], 2, "pairs"),
        (["convert", "pe.npy", *PAIRS, "--kv-heads", "2", "-o", "x.npy"], 2, "--heads is missing"),
        (["convert", "pe.npy", *PAIRS, "--heads", "0", "-o", "x.npy"], 2, "--heads is 0"),
        (
            ["convert", "model.safetensors", *PAIRS, "--heads", "3", "-o", "x.npz"],
            2,
            "(16, 6); 16 rows are not 3 heads; check --heads, --kv-heads and --head-dim",
        ),
        (["convert", "model.safetensors", *PAIRS, "--heads", "4", "--kv-heads", "3", "-o", "x.npz"], 2, "multiple"),
        (["convert", "model.safetensors", *PAIRS, "--heads", "4", "--include", "wq*", "-o", "x.npz"], 2, "(16, 6)"),
        (["convert", "model.safetensors", "-o", "x.npy"], 2, "one array"),
        (["convert", "pe.npy", "--check"], 2, "--heads"),
        (["convert", "model.safetensors:layers.0.q", "-o", "x.npy"], 2, "(16, 6)"),
        (["convert", "scores.npy", *PAIRS, "--heads", "4", "-o", "x.npy"], 2, "(2, 4, 3, 8); a projection is (rows,"),
        (["convert", "pe.npy", "--rotary-dim", "4", "-o", "x.npy"], 2, "--from is missing; --heads, --rotary-dim and"),
        (["resize", "model.safetensors:wpe", "--to", "5"], 2, "norm (3,)"),
        (["resize", "pe.npy"], 2, "--to is missing"),
        (["resize", "pe.npy", "--to", "0"], 2, "--to is 0"),
        (["resize", "pe.npy", "--to", "5x5"], 2, "--grid is missing"),
        (["resize", "pe.npy", "--to", "5×5"], 2, "--grid is missing"),
        (["resize", "pe.npy", "--grid", "4x", "--to", "5x5"], 2, "such as 14x14"),
        (["resize", "pe.npy", "--grid", "4by4", "--to", "5x5"], 2, "such as 14x14"),
        (["resize", "pe.npy", "--grid", "4x4", "--to", "5x5"], 2, "17 rows, and 4x4 are 16; check --grid and --keep"),
        (["resize", "pe.npy", "--keep", "17", "--to", "20"], 2, "one must be left"),
        (["resize", "whole.npy", "--to", "5"], 2, "floating"),
        (["resize", "model.safetensors", "--to", "5"], 3, "FILE:NAME"),
        (["resize", "model.safetensors:norm", "--to", "5"], 2, "(rows, dim)"),
    ],
)
def test_what_is_wrong_is_one_line(pecli_cli, words: list[str], code: int, said: str) -> None:
    done = pecli_cli(*words)
    assert (done.code, done.err.count("\n")) == (code, int(code != 0))
    assert said in done.err
    assert not list(Path().glob("x.*"))
    assert not re.search(r"\b(kv_heads|head_dim|rotary_dim)\b", done.err), "options go by their own names"
    shown = pecli_cli(words[0], "--help").out
    assert all(option in shown for option in re.findall(r"--[a-z][a-z-]*", done.err))


def test_norms_beyond_all_numbers(pecli_cli) -> None:
    np.save("huge.npy", np.full((4, 4), 1e300))
    done = pecli_cli("resize", "huge.npy", "--to", "8", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["row_norms"]["before"] == {"mean": None, "std": None}


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_one_tensor_of_a_file_is_written_alone(pecli_cli, suffix: str) -> None:
    assert pecli_cli("rope", "--seq-len", "9", "--dim", "8", "-q", "-o", "rope.safetensors").code == 0
    done = pecli_cli("convert", "rope.safetensors:sin", "-o", f"sin.{suffix}")
    assert done.code == 0
    found = pecli.load(f"sin.{suffix}")
    assert list(found) == ["sin"]
    assert np.array_equal(found["sin"], pecli.Rope(9, 8).tables()["sin"])
    assert pecli_cli("verify", f"sin.{suffix}").code == 3  # the spec is that of the whole file
