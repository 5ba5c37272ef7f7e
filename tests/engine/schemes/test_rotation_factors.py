"""Factors at any positions, against rigorous balls."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.schemes import rotation_factors as module
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import RotationFactors

PLACES = [0, 1, 255, 256, 257, 4095, 131071, 10**6, 2**32 + 5, 2**40]


def largest_error(found: np.ndarray, positions, dim: int) -> float:
    """How far cosines and sines are from the true values, at most."""
    errors = []
    with ctx.workprec(200):
        for row, position in zip(found, positions, strict=True):
            for pair, factor in enumerate(row):
                angle = arb(10000) ** (arb(-2 * pair) / dim) * int(position)
                errors += [arb(factor.real) - angle.cos(), arb(factor.imag) - angle.sin()]
        return max(abs(float(error)) for error in errors)


@pytest.mark.parametrize("keep", [True, False])
def test_listed_positions_are_computed_directly(keep, monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", (1 << 27) if keep else 0)
    places = [place for place in PLACES if place < 10**5] if keep else PLACES
    turns = RotationFactors(Rope(1, 16), exact=True)
    assert largest_error(turns.at(np.array(places)), places, 16) <= 0.6 * 2**-53


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("start", [0, 250, 10**6 - 20, 2**40 - 600])
def test_neighbours_are_products(start, keep, monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", (1 << 27) if keep else 0)
    wanted = range(start, start + 40)
    found = RotationFactors(Rope(1, 16)).at(wanted)
    assert largest_error(found, wanted, 16) <= 4 * 2**-53


@pytest.mark.parametrize("exact", [True, False])
def test_blocks_change_nothing(exact, monkeypatch):
    kept = RotationFactors(Rope(1, 32), exact=exact)
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 0)
    anew = RotationFactors(Rope(1, 32), exact=exact)
    whole = anew.at(range(100, 1500))
    for start, stop in ((100, 1500), (101, 103), (255, 257), (256, 700), (1499, 1500)):
        assert anew.at(range(start, stop)).tobytes() == whole[start - 100 : stop - 100].tobytes()
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 1 << 27)
    assert kept.at(range(100, 1500)).tobytes() == whole.tobytes()


def test_the_inverse_undoes_the_amplitude_too():
    rope = Rope(8, 16, scaling="yarn", factor=4, original_max_position_embeddings=1024)
    assert rope.attention_factor_value() > 1.1
    there, back = (RotationFactors(rope, inverse=inverse).at(range(8)) for inverse in (False, True))
    np.testing.assert_allclose(there * back, 1, rtol=1e-15)
    np.testing.assert_allclose(np.abs(there), rope.attention_factor_value(), rtol=1e-15)


@pytest.mark.parametrize("places", [1, -1, 4096, -(2**40)])
def test_a_shift_is_a_pure_rotation(places):
    yarn = Rope(8, 16, scaling="yarn", factor=4, original_max_position_embeddings=1024)
    np.testing.assert_allclose(np.abs(RotationFactors(yarn).shift(places)), 1, rtol=3e-16)
    found = RotationFactors(Rope(8, 16)).shift(places)
    assert found.shape == (1, 8)
    assert largest_error(found, [places], 16) <= 0.6 * 2**-53
