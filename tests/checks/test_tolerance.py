"""Frequencies and slopes are judged relatively, by every command alike; other tensors by the tolerance as it stands."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli

SCALING = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
    "max_position_embeddings": 131072, "rope_scaling": SCALING,
}  # fmt: skip
PLAIN = np.array([math.pow(500000, -i / 64) for i in range(64)])


def llama3(frequency: float) -> float:
    """As the reference code scales: by the wavelength, with a ramp between 8192/4 and 8192 positions."""
    wavelength = 2 * math.pi / frequency
    smooth = (8192 / wavelength - 1) / 3
    return frequency * min(1.0, max(1 / 8, (1 - smooth) / 8 + smooth))


RIGHT = np.array([llama3(frequency) for frequency in PLAIN])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "config.json"


@pytest.mark.parametrize("options", [[], ["--atol", "1e-3"], ["--max-ulp", "2"], ["--rtol", "1e-5"]])
@pytest.mark.parametrize(("values", "code"), [(RIGHT, 0), (RIGHT * (1 + 4e-6), 0), (PLAIN, 1), (RIGHT * 1.0001, 1)])
def test_frequencies_without_their_scaling_never_pass(pecli_cli: Any, tmp_path, config, options, values, code) -> None:
    save_file({"rotary_emb.inv_freq": values.astype(np.float32)}, tmp_path / "f.safetensors")
    assert pecli_cli("verify", tmp_path / "f.safetensors", "--config", config, *options).code == code


def test_a_manifest_judges_alike(pecli_cli: Any, tmp_path, config) -> None:
    np.savez(tmp_path / "right.npz", inv_freq=RIGHT.astype(np.float32))
    np.savez(tmp_path / "wrong.npz", inv_freq=PLAIN.astype(np.float32))
    checks = (f'[[check]]\nfile = "{name}.npz"\nconfig = "config.json"\natol = 1e-3\n' for name in ("right", "wrong"))
    (tmp_path / "pecli.toml").write_text("".join(checks))
    outcome = pecli_cli("verify", tmp_path / "pecli.toml", "--json")
    assert [json.loads(line)["passed"] for line in outcome.out.splitlines()] == [True, False]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("options", [[], ["--atol", "1e-2"], ["--max-ulp", "4"]])
def test_frequencies_in_half_precision_pass_only_by_a_recipe(pecli_cli: Any, tmp_path, config, dtype, options) -> None:
    save_file({"inv_freq": RIGHT.astype(dtype)}, tmp_path / "f.safetensors")
    words = ["verify", tmp_path / "f.safetensors", "--config", config, *options]
    assert pecli_cli(*words).code == 1
    if dtype is ml_dtypes.bfloat16:
        assert pecli_cli(*words, "--recipe", "bfloat16-inv-freq").code == 0
    rope = ["rope", "--config", config, "--seq-len", 4, "--verify", f"{tmp_path}/f.safetensors:inv_freq", *options]
    assert pecli_cli(*rope).code == 1
    golden = pecli.load_config(CONFIG).one().rope(4)
    pecli.save(tmp_path / "golden.safetensors", golden)
    files = f"{tmp_path}/golden.safetensors:inv_freq", tmp_path / "f.safetensors"
    assert pecli_cli("diff", *files, *options).code == 1


def test_an_absolute_tolerance_does_not_apply_to_slopes() -> None:
    slopes = np.array([2.0 ** -(k + 1) for k in range(8)], np.float32)
    wrong = slopes.copy()
    wrong[-1] *= 1.2  # by 0.0008
    scheme = pecli.Alibi(heads=8, slopes=True)
    assert pecli.verify({"slopes": slopes}, scheme, atol=1e-3).passed
    assert not pecli.verify({"slopes": wrong}, scheme, atol=1e-3).passed
    assert not pecli.diff({"slopes": slopes}, {"slopes": wrong}, atol=1e-3).passed
    assert pecli.diff({"t": slopes}, {"t": wrong}, atol=1e-3).passed  # which may be anything


def test_slopes_in_half_precision_pass_where_the_spec_says_so() -> None:
    slopes = np.array([2 ** (-8 * (k + 1) / 6) for k in range(6)])
    naive = {"heads": 6, "rule": "naive", "slopes": True}
    found = {"slopes": slopes.astype(ml_dtypes.bfloat16)}
    assert not pecli.verify(found, pecli.Alibi(**naive), atol=1e-2).passed
    assert pecli.verify(found, pecli.Alibi(**naive, dtype="bfloat16")).passed


def test_the_exact_table_has_exact_frequencies() -> None:
    found = {"inv_freq": np.array([1.0, 0.1 * (1 + 1e-6), 0.01, 0.001])}
    exact = pecli.verify(found, pecli.Rope(4, 8))
    assert [tensor.passed for tensor in exact.tensors] == [False]
    assert [tensor.passed for tensor in pecli.verify(found, pecli.Rope(4, 8), max_ulp=1).tensors] == [True]


def test_one_tolerance_is_given_once() -> None:
    with pytest.raises(pecli.ParameterError, match="atol is given beside tolerance; they say the same"):
        pecli.verify(np.zeros(4), pecli.Alibi(4), pecli.Tolerance(atol=1), atol=1)
    with pytest.raises(TypeError, match="it must be a Tolerance"):
        pecli.diff(np.zeros(4), np.zeros(4), 1e-3)  # type: ignore[arg-type]
