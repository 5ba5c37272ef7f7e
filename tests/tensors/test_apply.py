"""`pecli.apply`: what NumPy computes in a line or two, and what the command does to files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pecli

RNG = np.random.default_rng(0)
Q = RNG.normal(size=(2, 4, 6, 128)).astype(np.float32)
X = RNG.normal(size=(2, 7, 16)).astype(np.float32)


def turned(x: np.ndarray, positions: Any, base: float = 10000.0) -> np.ndarray:
    """Pairs (i, i + D/2) as complex numbers, rotated."""
    half = x.shape[-1] // 2
    angles = np.multiply.outer(np.asarray(positions, float), base ** (-np.arange(half) / half))
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], -1)


@pytest.mark.parametrize("rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr)
def test_rotations(rope: Any) -> None:
    found = pecli.apply(Q, rope, offset=3)
    assert found.dtype == np.float32
    assert np.abs(found - turned(Q, range(3, 9))).max() < 3e-7
    assert np.abs(pecli.apply(found, rope, offset=3, inverse=True) - Q).max() < 6e-7
    assert np.abs(pecli.apply(found, rope, shift=-3) - turned(Q, range(6))).max() < 6e-7
    ids = np.array([[5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]])
    assert np.abs(pecli.apply(Q, rope, positions=ids) - turned(Q, ids[:, None])).max() < 3e-7
    other = pecli.apply(Q.swapaxes(1, 2), rope, seq_axis=-3)
    assert np.array_equal(other.swapaxes(1, 2), pecli.apply(Q, rope))


def test_layouts_and_partial_rotations() -> None:
    pairs = np.arange(128).reshape(2, 64).T.ravel()  # interleaved: channels of halves, in another order
    found = pecli.apply(Q[..., pairs], pecli.Rope(6, 128), layout="interleaved")
    assert np.array_equal(found, pecli.apply(Q, pecli.Rope(6, 128))[..., pairs])
    assert np.array_equal(found, pecli.apply(Q[..., pairs], pecli.Rope(6, 128, layout="interleaved")))
    some = pecli.apply(Q, pecli.Rope(6, 32, offset=2), trailing=True)
    assert np.array_equal(some[..., :96], Q[..., :96])
    assert np.abs(some[..., 96:] - turned(Q[..., 96:], range(2, 8))).max() < 3e-7


def test_sums() -> None:
    table = RNG.normal(size=(20, 16)).astype(np.float32)
    assert np.array_equal(pecli.apply(X, table, offset=4), (X.astype(float) + table[4:11]).astype(np.float32))
    exact = pecli.Sinusoidal(7, 16, dtype="float64").tables()["pe"]
    assert np.array_equal(pecli.apply(X, pecli.Sinusoidal(7, 16)), (X + exact).astype(np.float32))
    scores = np.zeros((2, 3, 5))
    expected = -np.array([[[0.0625]], [[0.00390625]]]) * abs(np.arange(5) - np.arange(2, 5)[:, None])
    assert np.array_equal(pecli.apply(scores, pecli.Alibi(2)), expected)


@pytest.mark.parametrize(
    ("encoding", "options", "words"),
    [
        ("gemma-3-12b", {}, "layer_type is missing"),
        ("gpt2", {}, "its encoding is learned, not rope"),
        ("llama-2-7b", {"offset": 1, "positions": range(6)}, "positions say where every row stands"),
        ("llama-2-7b", {"positions": range(5)}, "L = 6 rows"),
        ("llama-2-7b", {"shift": 1, "offset": 1}, "a shift needs no positions"),
        ("llama-2-7b", {"layout": "pairs"}, "it must be one of halves"),
        ("gpt-oss-20b", {}, "a head of gpt-oss-20b has 64 channels"),
        (pecli.Sinusoidal(6, 128), {"inverse": True}, "sinusoidal has no use for it"),
        (np.ones((3, 128)), {}, "asks for rows up to 6 of 3"),
        (3, {}, "it must be a path, a preset"),
    ],
)
def test_what_cannot_be_applied(encoding: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        pecli.apply(Q, encoding, **options)


def test_heads_are_not_taken_for_positions() -> None:
    heads = np.zeros((1, 6, 32, 128), np.float32)
    with pytest.raises(ValueError, match="32 is a number of heads of llama-2-7b"):
        pecli.apply(heads, "llama-2-7b")
    assert pecli.apply(heads, "llama-2-7b", shift=3).shape == heads.shape  # the same at all positions


class Broken:
    """Something that says it is an array, and gives nothing up."""

    dtype = "float32"

    def __array__(self, *given: Any, **more: Any) -> np.ndarray:
        raise OSError("not here")

    def detach(self) -> Any:
        raise OSError("not here")


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (Q, {"seq_axis": "x"}, "seq_axis is 'x'"),
        (Q, {"seq_axis": 1.5}, "seq_axis is 1.5"),
        (Q, {"inverse": "no"}, "inverse is 'no'"),
        (Q, {"trailing": 1}, "trailing is 1"),
        (Q, {"offset": "3"}, "offset is '3'"),
        (Q, {"shift": None, "positions": [[1, 2], [3]]}, "positions is a list of lists of unlike lengths"),
        (Q, {"layout": 3}, "layout is 3"),
        (np.ma.masked_greater(Q, 0), {}, "masked"),
        (np.rec.fromarrays([Q[0, 0, :, 0]], names="a"), {}, "a table holds numbers"),
        (Broken(), {}, "cannot be had"),
    ],
)
def test_wrong_calls_are_errors_of_ours_in_a_line(x: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(pecli.PecliError) as problem:
        pecli.apply(x, pecli.Rope(6, 128), **options)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_recipe_counts() -> None:
    """Angles rounded to float32 are off by up to 2**-24 of the position."""
    far = {"offset": 10**6}
    exact, rounded = (pecli.apply(Q, pecli.Rope(6, 128, recipe=recipe), **far) for recipe in ("exact", "float32"))
    assert 1e-4 < np.abs(exact - rounded).max() < 1
