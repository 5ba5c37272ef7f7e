"""Biases of relative positions: looked up, trained, and as transformers computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pecli.errors import ParameterError
from pecli.layers import DebertaRelativeBias, SwinRelativeBias, T5RelativeBias

THEIRS = np.load(Path(__file__).parent / "data" / "deberta-attention.npz")


def test_t5_looks_up_the_bucket_of_every_pair() -> None:
    """With 8 buckets both ways, 0 and ±1 are exact, and 2 … are split at √(2·16) ≈ 5.7."""
    weight = np.arange(16.0).reshape(8, 2)
    bias = T5RelativeBias(weight, 16).get_bias(8)
    row = [weight[bucket, 1] for bucket in (0, 5, 6, 6, 6, 6, 7, 7)]
    assert bias[1, 0].tolist() == row
    assert bias[0, :, 0].tolist() == [weight[bucket, 0] for bucket in (0, 1, 2, 2, 2, 2, 3, 3)]
    causal = T5RelativeBias(weight, 16, causal=True).get_bias(4)
    assert causal[0, 0].tolist() == [0.0] * 4


def test_swin_follows_both_offsets() -> None:
    """Query (h, w) and key (h', w') have the number (h − h' + 1)·5 + w − w' + 2 in a window of 2 x 3."""
    weight = np.arange(15.0)[:, None]
    bias = SwinRelativeBias(weight, (2, 3))(np.zeros((1, 6, 6)))[0]
    wanted = [[(i // 3 - j // 3 + 1) * 5 + i % 3 - j % 3 + 2 for j in range(6)] for i in range(6)]
    assert bias.tolist() == wanted


@pytest.mark.parametrize("layer", [T5RelativeBias(np.zeros((8, 2)), 16), SwinRelativeBias(np.zeros((9, 2)), (2, 2))])
def test_the_gradient_of_the_weights_counts_pairs(layer: T5RelativeBias | SwinRelativeBias) -> None:
    rng = np.random.default_rng(0)
    scores, grad = rng.normal(size=(3, 2, 4, 4)), rng.normal(size=(3, 2, 4, 4))
    layer(scores)
    _, found = layer.backward(grad)
    for bucket in range(len(layer.weight)):
        for head in range(2):
            layer.weight[bucket, head] = 1.0
            used = layer.get_bias(4)
            layer.weight[bucket, head] = 0.0
            assert found[bucket, head] == pytest.approx((used * grad).sum(), abs=1e-12)


def test_deberta_is_what_transformers_computes() -> None:
    layer = DebertaRelativeBias(4, 16)
    given = {name: THEIRS[name] for name in ("q", "k", "pos_key", "pos_query")}
    found = layer(np.zeros((2, 11, 11)), **given)
    np.testing.assert_allclose(found, THEIRS["bias"], rtol=2**-24)  # their square root is a float32


@pytest.mark.parametrize("name", ["q", "k", "pos_key", "pos_query"])
def test_the_gradients_of_deberta(name: str) -> None:
    layer, rng = DebertaRelativeBias(4, 16), np.random.default_rng(1)
    given = {each: THEIRS[each] for each in ("q", "k", "pos_key", "pos_query")}
    scores, grad = np.zeros((2, 11, 11)), rng.normal(size=(2, 11, 11))
    layer(scores, **given)
    found = layer.backward(grad)[name]
    way = rng.normal(size=given[name].shape)
    up, down = (layer(scores, **{**given, name: given[name] + step * way}) for step in (0.5, -0.5))
    assert (found * way).sum() == pytest.approx(((up - down) * grad).sum(), rel=1e-12)  # it is linear in each


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ParameterError, match=r"weight is of shape \(8, 2\); it must be \(9, heads\)"):
        SwinRelativeBias(np.zeros((8, 2)), (2, 2))
    with pytest.raises(ParameterError, match=r"scores is of shape \(3, 4, 4\)"):
        T5RelativeBias(np.zeros((8, 2)), 16)(np.zeros((3, 4, 4)))
    with pytest.raises(ParameterError, match="a window of 2 x 2 has 4 points"):
        SwinRelativeBias(np.zeros((9, 2)), (2, 2))(np.zeros((2, 5, 5)))
    with pytest.raises(ParameterError, match=r"pos_key is of shape"):
        DebertaRelativeBias(4, 16)(np.zeros((1, 2, 2)), *[np.zeros((1, 2, 4))] * 4)
