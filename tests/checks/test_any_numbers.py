"""Tables that no solver was made for: an answer, and never an error of ours."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli

REVERSED = 500000.0 ** (-np.arange(64) / 64)[::-1]


@pytest.mark.parametrize("values", [REVERSED, REVERSED[::-1] * 1e-6, np.random.default_rng(3).permutation(REVERSED)])
def test_frequencies_in_another_order_or_far_too_small(pecli_cli: Any, tmp_path: Path, values) -> None:
    np.savez(tmp_path / "f.npz", inv_freq=values)
    pecli.save(tmp_path / "golden.npz", pecli.Rope(4, 128, theta=500000))
    assert pecli_cli("verify", tmp_path / "f.npz", "--model", "llama-3-8b").code == 1
    rope = ["rope", "--seq-len", 4, "--dim", 128, "--theta", 500000, "--verify", f"{tmp_path}/f.npz:inv_freq"]
    assert pecli_cli(*rope).code == 1
    assert pecli_cli("diff", f"{tmp_path}/golden.npz:inv_freq", tmp_path / "f.npz").code == 1


def test_a_manifest_goes_on_after_such_a_file(pecli_cli: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "reversed.npz", inv_freq=REVERSED)
    np.savez(tmp_path / "right.npz", inv_freq=REVERSED[::-1])
    names = "reversed", "right"
    text = "".join(f'[[check]]\nfile = "{name}.npz"\nmodel = "llama-3-8b"\n' for name in names)
    (tmp_path / "pecli.toml").write_text(text)
    outcome = pecli_cli("verify", tmp_path / "pecli.toml", "--json")
    assert outcome.code == 1
    assert [json.loads(line)["passed"] for line in outcome.out.splitlines()] == [False, True]


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_any_order_that_begins_with_row_0(seed) -> None:
    count = 96 + seed
    order = np.r_[0, 1 + np.random.default_rng(seed).permutation(count - 1)] if seed else -np.arange(count) % count
    rope = pecli.Rope(count, 16)
    found = {name: rope.tables()[name][order] for name in ("cos", "sin")}
    result = pecli.verify(found, rope)
    assert result.diagnosis[0].startswith("cos, sin: rows are in another order")


@pytest.mark.parametrize(
    "values",
    [
        1e-310 * 10.0 ** -np.arange(4),
        [1e20, 0.1, 0.01, 0.001],
        [np.inf, 0.1, 0.01],
        [1.0, np.inf, 0.1, 0.0],
        [5e-324] * 5,
    ],
    ids=str,
)
def test_numbers_that_no_scheme_can_have_are_not_identified(pecli_cli: Any, tmp_path: Path, values) -> None:
    np.save(tmp_path / "t.npy", values)
    outcome = pecli_cli("identify", tmp_path / "t.npy")
    assert (outcome.code, outcome.err) == (1, "")
    outcome = pecli_cli("inspect", tmp_path / "t.npy", "--stats")
    assert (outcome.code, outcome.err) == (0, "")


LENGTH, DIM = 512, 64


def test_both_functions_are_explained_where_float32_numbers_are_scaled_in_float64() -> None:
    exponents = np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM)
    angles = np.arange(LENGTH, dtype=np.float32)[:, None] / np.float32(10000) ** exponents
    found = {"cos": np.cos(angles).astype(np.float64) * 1.25, "sin": np.sin(angles).astype(np.float64) * 1.25}
    diagnosis = pecli.verify(found, pecli.Rope(LENGTH, DIM)).diagnosis
    for name in found:
        assert any(name in line.partition(":")[0] and "scaled by 1.25" in line for line in diagnosis)


def test_both_functions_are_explained_where_the_exponent_divides_by_one_less() -> None:
    frequencies = np.array([math.pow(500000, -i / (DIM // 2 - 1)) for i in range(DIM // 2)])
    angles = np.arange(LENGTH)[:, None] * frequencies
    found = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    (line,) = pecli.verify(found, pecli.Rope(LENGTH, DIM, theta=500000)).diagnosis
    assert line.startswith(f"cos, sin: the exponent is over {DIM - 2} (the spec says {DIM})")
