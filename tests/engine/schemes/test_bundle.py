"""Several schemes in one: names, specs, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

LAYERS = Bundle((("full", pecli.Rope(6, 8, 1e6, scaling="linear", factor=8.0)), ("sliding", pecli.Rope(6, 8))))


def test_tensors_are_named_after_their_layers() -> None:
    tables = LAYERS.tables()
    assert sorted(tables) == sorted(f"{a}.{b}" for a in ("full", "sliding") for b in ("cos", "sin", "inv_freq"))
    for name, scheme in LAYERS.parts:
        for tensor, array in scheme.tables().items():
            assert np.array_equal(tables[f"{name}.{tensor}"], array)


def test_specs_and_files_come_back(tmp_path) -> None:
    assert Scheme.from_spec(json.loads(json.dumps(LAYERS.spec()))) == LAYERS
    pecli.save(tmp_path / "t.safetensors", LAYERS)
    assert pecli.verify(tmp_path / "t.safetensors").passed
    with pytest.raises(ParameterError, match="full, sliding"):  # one array is not enough
        pecli.save(tmp_path / "t.npy", LAYERS)


@pytest.mark.parametrize("parts", [{}, (), None, 3, "full", {"full": None}, {"a": {"scheme": "rope"}}, {"a": LAYERS}])
def test_what_is_no_set_of_schemes_is_refused(parts) -> None:
    with pytest.raises(ParameterError):
        Bundle(parts)
