"""Rotations against those of transformers' own models, as `make_data.py rotated` wrote them down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pecli
from tests.tools.make_data import queries

CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "rotated.jsonl").read_text().splitlines()]


def name(case: dict) -> str:
    kind = case["config"].get("rope_parameters", {}).get("rope_type", "default")
    return f"{case['config']['model_type']}-{kind}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_configuration_rotates_as_its_model_does(case, pecli_cli, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    np.save(tmp_path / "ids.npy", case["positions"])
    np.save(tmp_path / "q.npy", np.array([queries(*case["shape"][1:])], np.float32))
    words = ["--config", tmp_path / "config.json", "--positions", tmp_path / "ids.npy", "-o", tmp_path / "y.npy"]
    outcome = pecli_cli("apply", "rope", tmp_path / "q.npy", *words)
    assert outcome.code == 0, outcome.err
    found = pecli.load(tmp_path / "y.npy")["array"]
    expected = np.array(case["rotated"]).reshape(case["shape"])
    # Their phases are float32: the frequency and the product are off by 2**-24 of the angle each.
    tolerance = np.array(case["positions"])[:, None] * 2.0**-23 + 1e-6
    assert (np.abs(found - expected) <= 3 * tolerance).all()
