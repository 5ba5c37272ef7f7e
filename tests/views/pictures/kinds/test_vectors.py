"""How similar rows are."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pecli
from pecli.views.pictures.kinds import vectors
from tests.views.pictures.kinds.drawing import made


def test_similarity_of_sinusoids_depends_on_the_distance_alone() -> None:
    heat, chart = made("similarity", pecli.Sinusoidal(100, 32, dtype="float64")).panels
    distances = np.arange(100)
    expected = np.cos(distances[:, None] * 10000.0 ** (-np.arange(16) / 16)).mean(axis=1)
    np.testing.assert_allclose(chart.curves[0].y, expected, atol=1e-12)
    np.testing.assert_allclose(heat.values[0], expected, atol=1e-12)
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)
    turned = made("similarity", pecli.Rope(100, 32, dtype="float64")).panels[1]
    np.testing.assert_allclose(turned.curves[0].y, expected, atol=1e-12)


def test_the_mean_by_distance_is_that_of_the_diagonals() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 7))
    product = rows @ rows.T
    expected = [np.diagonal(product, k).mean() for k in range(50)]
    np.testing.assert_allclose(vectors.by_distance(rows), expected, atol=1e-12)


@pytest.mark.parametrize("scheme", [pecli.Sinusoidal(1_000_000, 64), pecli.LearnedInit(5000, 16, init="uniform")])
def test_a_long_table_is_sampled_and_every_row_is_like_itself(scheme: pecli.Scheme) -> None:
    heat, chart = made("similarity", scheme).panels
    rows = scheme.tensors()[0].rows
    step = -(-rows // 512)
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)
    assert chart.curves[0].y[0] == pytest.approx(1.0, abs=1e-12)
    assert (heat.column_step, heat.title) == (step, "pairs of sampled positions")
    table = scheme.tensors()[0]
    one, other = (table.read(k * step, k * step + 1)[0].astype(float) for k in (3, 200))
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert heat.values[3, 200] == pytest.approx(expected, abs=1e-12)


def test_rows_without_a_direction_have_no_similarity() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e200, 0.0], [-6e-300, -8e-300]])
    directions = vectors._directions(rows)
    assert np.isnan(directions[1]).all()
    np.testing.assert_allclose(directions[[0, 2, 3]], [[0.6, 0.8], [1.0, 0.0], [-0.6, -0.8]], rtol=1e-12)
    np.testing.assert_allclose(vectors.by_distance(directions), [1.0, -0.6, 0.6, -1.0], atol=1e-12)


def drawn_patch(scheme: pecli.Scheme) -> np.ndarray:
    (panel,) = made("patch", scheme).panels
    assert (panel.rows, panel.columns) == ("row", "column")
    return panel.values


def test_a_patch_is_most_similar_to_itself() -> None:
    """The similarity of two rotations is the mean of the cosines of what they differ by."""
    for style, shape in (("eva", (3, 5)), ("qwen2-vl", (4, 6))):  # the second merges patches, 2 × 2
        height, width = shape
        values = drawn_patch(pecli.Rope(grid=shape, dim=4, style=style))
        wanted = [
            [(math.cos(h - height // 2) + math.cos(w - width // 2)) / 2 for w in range(width)] for h in range(height)
        ]
        np.testing.assert_allclose(values, wanted, atol=1e-6)


def test_rows_before_the_grid_are_left_out() -> None:
    plain, shifted = (drawn_patch(pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=keep)) for keep in (0, 1))
    np.testing.assert_array_equal(plain, shifted)
