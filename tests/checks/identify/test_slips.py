"""Tables that something is turned round in are identified all the same, and what it is is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.identify.beginning import Beginning
from pecli.checks.identify.slips import undone

Array = np.ndarray[Any, Any]


def waves(positions: Array, dim: int, base: float) -> tuple[Array, Array]:
    angles = np.outer(positions, base ** (-2 * np.arange(dim // 2) / dim))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def sinusoidal(positions: Array, dim: int = 64, layout: str = "interleaved", base: float = 10000.0) -> Array:
    cos, sin = waves(positions, dim, base)
    if layout == "halves":
        return np.concatenate([sin, cos], axis=1)
    return np.stack([sin, cos], axis=-1).reshape(len(positions), dim)


ROWS = np.arange(200)
TURNED = [
    (ROWS[::-1], "with the rows in reverse order", 200),
    (-ROWS, "with the sines negated: it turns the other way", 200),
    (ROWS - 1, "from position -1 on, which the command leaves out", 199),
]


@pytest.mark.parametrize(("positions", "words", "rows"), TURNED, ids=["reversed", "negated", "from -1"])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoidal_tables(positions: Array, words: str, rows: int, layout: str) -> None:
    match = pecli.identify(sinusoidal(positions, layout=layout)).matches[0]
    assert match.form == words
    assert match.scheme == pecli.Sinusoidal(rows, 64, layout=layout)


@pytest.mark.parametrize(("positions", "words", "rows"), TURNED, ids=["reversed", "negated", "from -1"])
def test_rotary_tables(positions: Array, words: str, rows: int) -> None:
    cos, sin = waves(positions, 128, 5e5)
    match = pecli.identify({"cos": cos, "sin": sin}).matches[0]
    assert match.form == words
    assert match.scheme == pecli.Rope(rows, 128, base=5e5)
    assert match.max_abs_error < 1e-7


@pytest.mark.parametrize(("dtype", "top"), [("int8", 127), ("int16", 32767), ("int16", 16384), ("int32", 2**30)])
def test_fixed_point(dtype: str, top: int) -> None:
    kept = np.rint(sinusoidal(ROWS).astype(np.float64) * top).astype(dtype)
    match = pecli.identify(kept).matches[0]
    assert match.form == f"as {dtype}, {top:g} times the values"
    assert match.scheme == pecli.Sinusoidal(200, 64)
    cos, sin = (np.rint(each.astype(np.float64) * top).astype(dtype) for each in waves(ROWS, 128, 5e5))
    match = pecli.identify({"cos": cos, "sin": sin}).matches[0]
    assert match.form == f"as {dtype}, {top:g} times the values"
    assert isinstance(match.scheme, pecli.Rope)
    assert math.isclose(match.scheme.base, 5e5, rel_tol=1e-2)


@pytest.mark.parametrize(("first", "layout"), [(0, "interleaved"), (0, "halves"), (1, "interleaved"), (77, "halves")])
def test_right_tables_have_no_slip(first: int, layout: str) -> None:
    pe = sinusoidal(first + ROWS, layout=layout)
    assert undone([Beginning("pe", "float32", pe.shape, pe.astype(np.float64))]) is None
    cos, sin = (each.astype(np.float64) for each in waves(first + ROWS, 64, 5e5))
    assert undone([Beginning("cos", "float32", cos.shape, cos), Beginning("sin", "float32", sin.shape, sin)]) is None
    for found in pecli.identify(pe).matches:
        assert found.form == ""


def test_other_whole_numbers_are_nothing() -> None:
    random = np.random.default_rng(5).integers(-127, 128, (200, 64)).astype(np.int8)
    random[0] = np.tile([0, 127], 32)
    assert pecli.identify(random).matches == ()
    assert pecli.identify(np.eye(64, dtype=np.int8)).matches == ()


@pytest.mark.parametrize("bits", [9.21, 9.2103, 13.12])
def test_a_logarithm_that_was_typed(bits: float) -> None:
    """exp(−2i/D · 9.21): the base is e^9.21 with the usual exponent."""
    best = pecli.identify(sinusoidal(np.arange(500), base=math.exp(bits))).matches[0].scheme
    assert isinstance(best, pecli.Sinusoidal)
    assert best.freq_shift == 0
    assert math.isclose(best.base, math.exp(bits), rel_tol=1e-6)


@pytest.mark.parametrize("bits", [9.21, 9.2103])
def test_a_logarithm_that_was_typed_over_one_less(bits: float) -> None:
    """exp(−i/(D/2 − 1) · 9.21), as tensor2tensor divides."""
    angles = np.outer(np.arange(500), np.exp(-np.arange(32) / 31 * bits))
    best = pecli.identify(np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)).matches[0].scheme
    assert isinstance(best, pecli.Sinusoidal)
    assert best.freq_shift == 1
    assert math.isclose(best.base, math.exp(bits), rel_tol=1e-6)


def test_rounded_frequencies_are_not_taken_for_positions_far_out() -> None:
    """Far enough out, float32 angles may be off by anything, and so any table may be such one."""
    inverse = (10000.0 ** (-2 * np.arange(32) / 64)).astype(np.float16).astype(np.float64)
    angles = np.outer(np.arange(512), inverse)
    pe = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(512, 64).astype(np.float32)
    for match in pecli.identify(pe).matches:
        assert match.max_abs_error < 0.1
