"""Channels move where the public conversions of weights move them."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.pair_permutation import reorder


@pytest.mark.parametrize("channels", [2, 6, 64, 128])
def test_interleaved_to_halves_is_the_known_view_and_swap(channels: int) -> None:
    weight = np.arange(channels * 3).reshape(channels, 3)
    known = weight.reshape(channels // 2, 2, 3).swapaxes(0, 1).reshape(channels, 3)
    assert (weight[reorder(channels, "interleaved", "halves")] == known).all()
    assert (known[reorder(channels, "halves", "interleaved")] == weight).all()


def test_a_layout_is_itself() -> None:
    assert reorder(8, "halves", "halves").tolist() == list(range(8))
