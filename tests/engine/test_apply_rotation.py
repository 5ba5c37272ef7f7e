"""Rotating pairs of channels: (u, v) → (u cos − v sin, v cos + u sin), for every layout, axis and
dtype.

"interleaved" pairs channels (0, 1), (2, 3), …; "halves" pairs (i, i + dim/2). Expected values are
the formula in Python loops over rows and pairs (`rotated_pair_by_pair`), and views of NumPy.
"""

import math

import ml_dtypes
import numpy as np
import pytest

from pecli.engine import application
from pecli.engine.application import LAYOUTS, reorder, rotate

LAYOUTS_BEFORE_AND_AFTER = [
    ("interleaved", "interleaved"),
    ("halves", "halves"),
    ("interleaved", "halves"),
    ("halves", "interleaved"),
]


def place(pair: int, part: int, half: int, layout: str) -> int:
    """The channel of one part of a pair."""
    return pair + part * half if layout == "halves" else 2 * pair + part


def rotated_pair_by_pair(x: np.ndarray, angles: np.ndarray, takes: str, gives: str) -> np.ndarray:
    """(u, v) → (u·cos − v·sin, v·cos + u·sin), pair by pair."""
    out = np.empty(x.shape)
    half = x.shape[1] // 2
    for row in range(len(x)):
        for pair in range(half):
            u, v = (float(x[row, place(pair, part, half, takes)]) for part in (0, 1))
            c = math.cos(angles[row, pair])
            s = math.sin(angles[row, pair])
            out[row, place(pair, 0, half, gives)] = u * c - v * s
            out[row, place(pair, 1, half, gives)] = v * c + u * s
    return out


def factors_of(angles: np.ndarray):
    factors = np.exp(1j * angles)
    return lambda start, stop: factors[start:stop]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("takes", "gives"), LAYOUTS_BEFORE_AND_AFTER)
def test_pairs_of_every_layout_are_rotated_as_written_out(takes, gives, dtype):
    """`takes` is the layout of the channels of the input, `gives` that of the result, which may
    differ. `rotated_pair_by_pair` writes out (a cos − b sin, b cos + a sin) for each pair in float64;
    the result is within half a unit of the dtype, so it is rounded once.
    """
    rng = np.random.default_rng(1)
    rows = rng.uniform(-2, 2, (7, 10)).astype(dtype)
    angles = rng.uniform(-9, 9, (7, 5))
    expected = rotated_pair_by_pair(rows, angles, takes, gives)
    rotated = rotate(rows, factors_of(angles), takes, gives)
    step = float(ml_dtypes.finfo(dtype).eps)

    np.testing.assert_allclose(rotated.astype(np.float64), expected, rtol=step / 2, atol=1e-15)


def test_channels_before_and_after_the_rotary_ones_stay():
    """Rows of 12 channels, of which two pairs from channel 3 on are rotated: 3 to 6.
    `rotated_pair_by_pair` is the textbook rotation in float64.
    """
    rows = np.arange(24.0).reshape(2, 12)
    angles = np.full((2, 2), 0.5)
    expected = rows.copy()
    expected[:, 3:7] = rotated_pair_by_pair(rows[:, 3:7], angles, "halves", "halves")
    found = rotate(rows, factors_of(angles), "halves", "halves", first_channel=3)

    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, 2, -4])
def test_positions_may_be_on_any_axis_but_the_last(axis):
    """Axes 0 to 2 of four; the last one has the channels. The result must be that of the textbook
    rotation (`rotated_pair_by_pair`) of an array whose positions are on the usual axis, −2.
    """
    x = np.random.default_rng(4).standard_normal((3, 4, 5, 6))
    angles = np.random.default_rng(5).uniform(-9, 9, (x.shape[axis], 3))
    rotated = rotate(x, factors_of(angles), "halves", "halves", seq_axis=axis)

    usual_x = np.moveaxis(x, axis, -2)
    usual_rotated = np.moveaxis(rotated, axis, -2)
    for place in np.ndindex(usual_rotated.shape[:2]):
        expected = rotated_pair_by_pair(usual_x[place], angles, "halves", "halves")
        np.testing.assert_allclose(usual_rotated[place], expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("shape", [(3, 5, 700, 32), (1, 9, 32), (40, 1, 64), (2, 3, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_threads_and_blocks_change_no_bit_of_a_rotation(layout, shape, dtype, monkeypatch):
    """Three threads on shares and blocks of 1000 numbers, which write into `out`, against one call on
    the whole array.
    """
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, shape).astype(dtype)
    factors = np.exp(1j * rng.uniform(0, 6, (shape[-2], shape[-1] // 2))).astype(np.complex64)
    whole = rotate(x, lambda start, stop: factors[start:stop], layout, layout)
    monkeypatch.setenv("PECLI_THREADS", "3")
    monkeypatch.setattr(application, "_MIN_THREADED_BYTES", 0)
    monkeypatch.setattr(application, "_SHARE_NUMBERS", 1000)
    monkeypatch.setattr(application, "_BLOCK_NUMBERS", 1000)
    room = np.empty_like(x)
    found = rotate(x, lambda start, stop: factors[start:stop], layout, layout, out=room)

    assert found is room
    assert found.tobytes() == whole.tobytes()


def test_rotating_infinities_and_overflowing_raise_no_warning():
    """Warnings of NumPy are errors in all tests. In halves of 4 channels, the pair (∞, NaN) becomes
    NaN, and (3e38, 3e38) turned by 45° has a channel of 3e38 · √2, beyond float32.
    """
    rows = np.array([[np.inf, 1.0, np.nan, 3e38], [1.0, 3e38, 2.0, 3e38]], np.float32)
    rotated = rotate(rows, factors_of(np.full((2, 2), np.pi / 4)), "halves", "halves")

    assert np.isnan(rotated[0, 0])
    assert np.isinf(rotated[1, 3])


@pytest.mark.parametrize("channels", [2, 6, 64, 128])
def test_reordering_channels_is_the_view_and_transpose_of_conversion_scripts(channels: int) -> None:
    """view(d/2, 2) and a transpose, as in Hugging Face's conversion scripts."""
    weight = np.arange(channels * 3).reshape(channels, 3)
    known = weight.reshape(channels // 2, 2, 3).swapaxes(0, 1).reshape(channels, 3)

    assert (weight[reorder(channels, "interleaved", "halves")] == known).all()
    assert (known[reorder(channels, "halves", "interleaved")] == weight).all()
    assert reorder(channels, "halves", "halves").tolist() == list(range(channels))


def test_the_layout_of_deepseek_takes_interleaved_pairs_and_gives_halves() -> None:
    """As in apply_rotary_pos_emb of DeepSeek-V3, which permutes channels before it rotates them."""
    assert LAYOUTS["deepseek"] == ("interleaved", "halves")
