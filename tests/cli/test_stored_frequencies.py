"""`config FOLDER`: frequencies in the weights that the configuration does not ask for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.cli.app import run


@pytest.mark.parametrize(("theta", "warned"), [(10000.0, False), (500000.0, True)])
def test_frequencies_in_the_weights_are_compared(
    theta: float, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 10000.0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    stored = (theta ** (-np.arange(8) / 8)).astype(np.float32)
    pecli.save(tmp_path / "model.safetensors", {"model.layers.0.self_attn.rotary_emb.inv_freq": stored})
    assert run(["config", str(tmp_path), "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert any("inv_freq in the weights" in line for line in warnings) == warned
