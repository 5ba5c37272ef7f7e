"""A table has a column that is a wave or a line, and random numbers have none.

Waves are NumPy's sines and cosines of 32 rows.
"""

from typing import Any

import numpy as np
import pytest

from pecli.checks.wave_columns import has_waves

TURNS = np.arange(32.0)[:, None]


@pytest.mark.parametrize(
    "column",
    [np.sin(TURNS), np.cos(0.01 * TURNS), 3 * TURNS, np.zeros((3, 2))],
    ids=["a sine", "a slow cosine", "a line", "zeros"],
)
def test_a_column_that_is_a_wave_or_a_line_is_recognised(column: np.ndarray[Any, Any]) -> None:
    """`has_waves` is True if neighbouring rows of each column follow from each other, as in a sine
    of one radian per row, a slow cosine, a line, or zeros.
    """
    assert has_waves(column)


def test_a_sine_among_columns_of_noise_is_recognised() -> None:
    """Four columns of normal noise have no wave; with a fifth, a sine, there is one."""
    noise = np.random.default_rng(0).normal(size=(32, 4))
    assert not has_waves(noise)
    assert has_waves(np.hstack([noise, np.sin(TURNS)]))


def test_two_rows_are_too_few_to_be_a_wave() -> None:
    """A wave is determined by three rows at least: `has_waves` is False for two, even of zeros."""
    assert not has_waves(np.zeros((2, 2)))
