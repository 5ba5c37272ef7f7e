"""A scheme is one class: a triangle wave with one parameter, registered here, works with every command."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import pecli
from pecli.cli.app import run
from pecli.engine.arrays import round_to
from pecli.engine.schemes import SCHEMES, Real, Whole
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table


@dataclass(frozen=True)
class Triangle(Scheme):
    """|((p + c) mod period) / period − 1/2| · 4 − 1, with p the position and c the channel."""

    name = "triangle"
    summary = "Make, show or check triangle waves."
    examples = ("pecli triangle --seq-len 64 --dim 8",)

    seq_len: Annotated[int, Whole(help="rows of the table")]
    dim: Annotated[int, Whole(help="channels of a row")]
    period: Annotated[float, Real(help="positions of a wave", above=0)] = 16.0

    def tensors(self) -> tuple[Table, ...]:
        def fill(start: int, out: np.ndarray) -> None:
            places = np.arange(start, start + len(out))[:, None] + np.arange(self.dim)
            out[...] = round_to(np.abs(places % self.period / self.period - 0.5) * 4 - 1, self.dtype)

        return (Table("pe", self.dtype, (self.seq_len, self.dim), fill),)


WORDS = ("triangle", "--seq-len", "64", "--dim", "8", "--period", "12")
TABLE = np.array([[abs((p + c) % 12 / 12 - 0.5) * 4 - 1 for c in range(8)] for p in range(64)])


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "triangle", Triangle)


def command(*words: object) -> tuple[int, str]:
    """The exit code and what was printed."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run([str(word) for word in words])
    return code, out.getvalue()


def test_generate_shows_it() -> None:
    code, out = command(*WORDS)
    assert (code, "triangle seq_len=64 dim=8 period=12" in out) == (0, True)
    code, out = command(*WORDS, "--json")
    assert json.loads(out)["tensors"]["pe"]["max"] == TABLE.max()
    assert "--period" in command("triangle", "--help")[1]


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "csv", "json"])
def test_every_format_is_written_read_and_verified(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    assert command(*WORDS, "--dtype", "float64", "-o", path)[0] == 0
    (found,) = pecli.load(path).values()
    assert np.array_equal(found, TABLE)
    assert command("inspect", path)[0] == 0
    assert command(*WORDS, "--verify", path)[0] == 0
    wrong = [*WORDS[:-1], "13"]
    assert command(*wrong, "--verify", path)[0] == 1


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_file_is_verified_by_the_spec_it_carries(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    assert command(*WORDS, "-o", path)[0] == 0
    assert command("verify", path)[0] == 0


def test_diff_compares_two(tmp_path: Path) -> None:
    for name, period in (("a", "12"), ("b", "12"), ("c", "13")):
        assert command(*WORDS[:-1], period, "-o", tmp_path / f"{name}.npz")[0] == 0
    assert command("diff", tmp_path / "a.npz", tmp_path / "b.npz")[0] == 0
    assert command("diff", tmp_path / "a.npz", tmp_path / "c.npz")[0] == 1


@pytest.mark.parametrize("period", ["16", "13", "47", "12.375", "7.25"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_wrong_parameter_is_named(tmp_path: Path, period: str, dtype: str) -> None:
    assert command(*WORDS[:-1], period, "--dtype", dtype, "-o", tmp_path / "t.npy")[0] == 0
    _, out = command(*WORDS, "--verify", tmp_path / "t.npy", "--atol", "1e-5")
    assert f"period is {period} (the spec says 12)" in out


def test_the_wrong_shape_is_named(tmp_path: Path) -> None:
    assert command("triangle", "--seq-len", "64", "--dim", "6", "--period", "12", "-o", tmp_path / "t.npy")[0] == 0
    assert "dim is 6 (the spec says 8)" in command(*WORDS, "--verify", tmp_path / "t.npy")[1]


def test_no_parameter_is_named_for_another_table(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.random.default_rng(5).uniform(-1, 1, (64, 8)))
    code, out = command(*WORDS, "--verify", tmp_path / "t.npy")
    assert (code, "the spec says" in out) == (1, False)


def test_audit_says_how_far_storage_drifts() -> None:
    code, out = command("audit", *WORDS, "--json")
    assert code == 0
    found = {each["recipe"]: each["max_abs_error"] for each in json.loads(out)["recipes"]}
    exact = TABLE.astype(np.float32).astype(np.float64)
    drift = float(np.abs(TABLE.astype(np.float16).astype(np.float64) - exact).max())
    assert found["float16-table"] == pytest.approx(drift, rel=1e-6)
    assert set(found) == {"float16-table", "bfloat16-table"}
    code, out = command("audit", *WORDS)
    assert (code, "largest error, by column" in out) == (0, True)


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity"])
def test_pictures(tmp_path: Path, kind: str) -> None:
    assert command("plot", *WORDS, "--kind", kind)[0] == 0
    assert command("plot", *WORDS, "--kind", kind, "-o", tmp_path / "t.svg")[0] == 0
    code, out = command("plot", *WORDS, "--kind", "wavelengths")
    assert (code, "take one of heatmap, curves, similarity" in out) == (2, True)


def test_it_is_applied_to_an_input() -> None:
    x = np.ones((2, 5, 8), np.float32)
    assert np.array_equal(Triangle(64, 8, 12.0).applied_to(x), (x + TABLE[:5]).astype(np.float32))


def test_the_command_apply_adds_it(tmp_path: Path) -> None:
    x = np.ones((2, 5, 8), np.float32)
    np.save(tmp_path / "x.npy", x)
    assert command("apply", "triangle", tmp_path / "x.npy", "--period", "12", "-o", tmp_path / "y.npy")[0] == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), (x + TABLE[:5]).astype(np.float32))
