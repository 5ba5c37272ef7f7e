"""Powers against those of PyTorch (make_torch_powers.py), bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pecli.engine.numerics.float32_functions import log_single, torch_powers

DATA = np.load(Path(__file__).with_name("torch_powers.npz"))
f32 = np.float32


@pytest.mark.parametrize("name", DATA.files)
@pytest.mark.sample(8)
def test_powers_are_those_of_pytorch(name: str) -> None:
    base, dim = (float(part) for part in name.split(","))
    exponents = np.arange(0, dim, 2, dtype=f32) / f32(dim)
    np.testing.assert_array_equal(torch_powers(base, exponents), DATA[name])


def test_they_are_not_all_correctly_rounded() -> None:
    """Else there would be no need for them: two of gpt-oss's frequencies are a unit off."""
    exponents = np.arange(0, 64, 2, dtype=f32) / f32(64)
    rounded = (150000.0 ** exponents.astype(np.float64)).astype(f32)
    assert np.flatnonzero(torch_powers(150000.0, exponents) != rounded).tolist() == [6, 10]


@pytest.mark.parametrize("value", [0.25, 1.0, 3.0, 150000.0])
def test_logarithms_are_rounded_once(value: float) -> None:
    assert log_single(value) == f32(np.log(value))
