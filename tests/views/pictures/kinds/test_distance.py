"""Scores and weights by distance, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pecli
from pecli.views.pictures.kinds import distance
from pecli.views.pictures.panels import PlotRequest
from tests.views.pictures.kinds.drawing import made


def test_the_expected_score_and_its_bound() -> None:
    angles = 10000.0 ** (-np.arange(8) / 8)
    score, bound = distance.scores(angles, np.array([0.0, 3.0]))
    assert score[0] == 1.0
    assert bound[0] == pytest.approx(4.5)  # the mean of 1 … 8
    assert score[1] == pytest.approx(sum(math.cos(3 * angle) for angle in angles) / 8)
    sums = [abs(sum(complex(math.cos(3 * a), math.sin(3 * a)) for a in angles[: i + 1])) for i in range(8)]
    assert bound[1] == pytest.approx(sum(sums) / 8)


def test_scores_grow_with_the_square_of_the_attention_factor() -> None:
    given = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    plain, scaled = (made("decay", pecli.Rope(256, 32, **given, attention_factor=each)) for each in (1.0, 1.5))
    for one, other in zip(plain.panels, scaled.panels, strict=True):
        np.testing.assert_allclose(other.curves[0].y, 2.25 * one.curves[0].y, rtol=1e-12)
    assert (plain.subtitle, scaled.subtitle[:20]) == ("", "attention factor 1.5")
    tables = pecli.Rope(256, 32, **given, attention_factor=1.5, dtype="float64").tables()
    rotated = np.concatenate([tables["cos"], tables["sin"]], axis=1)  # of q = k = (1, 0) in every pair, |q| = 4
    expected = rotated @ rotated[0] / 16
    np.testing.assert_allclose(scaled.panels[0].curves[0].y, expected[1:], atol=1e-12)


@pytest.mark.parametrize("slope", [0.5, 2.0**-8])
def test_weights_after_softmax_add_up_to_one(slope: float) -> None:
    logits = -slope * np.arange(100)
    expected = np.exp(logits) / np.exp(logits).sum()
    found = distance.weights(slope, np.arange(100.0), 100)
    np.testing.assert_allclose(found[np.isfinite(found)], expected[expected >= distance.MIN_WEIGHT], rtol=1e-12)


def test_circles_turn_once_in_a_wavelength() -> None:
    picture = made("circle", pecli.Rope(97, 12), request=PlotRequest(channels=(0, 5)))
    fast, slow = picture.panels
    np.testing.assert_allclose(fast.angles, np.arange(97.0), rtol=1e-12)
    np.testing.assert_allclose(slow.angles, np.arange(97) * 10000 ** (-5 / 6), rtol=1e-12)


def test_slopes_are_the_paper_s() -> None:
    (chart,) = made("slopes", pecli.Alibi(8)).panels
    assert chart.curves[0].y.tolist() == [2.0**-k for k in range(1, 9)]
    assert not chart.joined
