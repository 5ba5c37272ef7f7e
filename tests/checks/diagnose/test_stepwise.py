"""Right frequencies whose waves are reckoned badly: sums of angles, turned rows, a typed π, sines that are none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose.stepwise import reckoned_otherwise
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import float32_waves, halves, inverse, narrowed, sinusoidal, waves

Array = np.ndarray[Any, Any]
ROWS, DIM, BASE = 2048, 64, 5e5
INVERSE = inverse(DIM, BASE)
ANGLES = np.outer(np.arange(ROWS), INVERSE)


def woven(sin: Array, cos: Array) -> Array:
    return np.stack([sin, cos], axis=-1).reshape(len(sin), -1).astype(np.float32)


def said(diagnosed: Diagnosed, cos: Array, sin: Array, words: str) -> None:
    """Of rotary tables in two layouts, and of a sinusoidal one."""
    cos, sin = cos.astype(np.float32), sin.astype(np.float32)
    assert diagnosed(Rope(ROWS, DIM, base=BASE), cos=cos, sin=sin).startswith(f"cos, sin: {words}")
    text = diagnosed(Rope(ROWS, DIM, base=BASE, layout="halves"), cos=halves(cos), sin=halves(sin))
    assert text.startswith(f"cos, sin: {words}")
    assert diagnosed(Sinusoidal(ROWS, DIM, base=BASE), pe=woven(sin, cos)).startswith(f"pe: {words}")


def test_angles_that_are_added_up(diagnosed: Diagnosed) -> None:
    angle, rows = np.zeros(DIM // 2, np.float32), []
    for _ in range(ROWS):
        rows.append(angle)
        angle = angle + INVERSE.astype(np.float32)
    words = "each angle is the one before plus the frequency, in float32"
    said(diagnosed, np.cos(np.array(rows)), np.sin(np.array(rows)), words)


def test_rows_that_are_turned(diagnosed: Diagnosed) -> None:
    turn, step, rows = np.ones(DIM // 2, np.complex64), np.exp(1j * INVERSE).astype(np.complex64), []
    for _ in range(ROWS):
        rows.append(turn)
        turn = turn * step
    words = "each row is the one before turned by one step, in float32"
    said(diagnosed, np.array(rows).real, np.array(rows).imag, words)


def test_one_turn_with_another_pi(diagnosed: Diagnosed) -> None:
    reduced = np.fmod(ANGLES, 2 * 3.1416)
    said(diagnosed, np.cos(reduced), np.sin(reduced), "angles are brought into one turn with π typed as 3.1416")


@pytest.mark.parametrize("pi", [3.14, 3.1416, 3.14159])
def test_one_turn_from_either_end(pi: float) -> None:
    for reduced in (np.fmod(ANGLES, 2 * pi), np.fmod(ANGLES + pi, 2 * pi) - pi):
        words = reckoned_otherwise(Rope(ROWS, DIM, base=BASE), "cos", table_of("cos", np.cos(reduced)))
        assert words == f"angles are brought into one turn with π typed as {pi:g}"


def test_a_quarter_of_a_turn_with_another_pi(diagnosed: Diagnosed) -> None:
    pe = woven(np.sin(ANGLES), np.sin(ANGLES + 3.1416 / 2))
    text = diagnosed(Sinusoidal(ROWS, DIM, base=BASE), pe=pe)
    assert text == "pe: cosines are sines a quarter of a turn later, with π typed as 3.1416"


def parabola(angles: Array) -> Array:
    """A well-known fast sine, off by 1e-3."""
    x = np.mod(angles + math.pi, 2 * math.pi) - math.pi
    y = 4 / math.pi * x - 4 / math.pi**2 * x * np.abs(x)
    return np.asarray(0.225 * (y * np.abs(y) - y) + y)


def looked_up(angles: Array) -> Array:
    """A table of 1,024 sines, without interpolation."""
    return np.asarray(np.sin(2 * math.pi / 1024 * np.floor(np.mod(angles, 2 * math.pi) * (1024 / (2 * math.pi)))))


def series(angles: Array) -> Array:
    x = np.mod(angles + math.pi, 2 * math.pi) - math.pi
    return np.asarray(x - x**3 / 6 + x**5 / 120 - x**7 / 5040 + x**9 / 362880)


@pytest.mark.parametrize("sine", [parabola, looked_up, series])
def test_approximations(diagnosed: Diagnosed, sine: Any) -> None:
    cos, sin = sine(ANGLES + math.pi / 2).astype(np.float32), sine(ANGLES).astype(np.float32)
    words = "the angles are right, but sine and cosine are approximations: off by up to "
    lines = diagnosed(Rope(ROWS, DIM, base=BASE), cos=cos, sin=sin).splitlines()
    assert [line.partition(words)[1] for line in lines] == [words] * len(lines)
    assert {name for line in lines for name in line.partition(": ")[0].split(", ")} == {"cos", "sin"}
    assert diagnosed(Sinusoidal(ROWS, DIM, base=BASE), pe=woven(sin, cos)).startswith(f"pe: {words}")


def test_sound_tables_are_not_accused() -> None:
    scheme, cos, sin = Rope(ROWS, DIM, base=BASE), *waves(ROWS, INVERSE)
    noise = np.random.default_rng(4).normal(0, 1e-3, cos.shape)
    for found in (cos, float32_waves(ROWS, DIM, BASE)[0], narrowed(cos, "bfloat16"), cos + noise.astype(np.float32)):
        assert reckoned_otherwise(scheme, "cos", table_of("cos", found)) == ""
    for factor in (1 + 1e-5, 1 + 1e-3, 1.5):
        cos, sin = waves(ROWS, INVERSE * factor)
        assert reckoned_otherwise(scheme, "cos", table_of("cos", cos)) == ""
        assert reckoned_otherwise(scheme, "sin", table_of("sin", sin)) == ""
    for style in ("paper", "tensor2tensor", "fairseq"):
        pe = Sinusoidal(300, 64, style=style)
        other = sinusoidal(300, 64, base=9990.0)
        assert reckoned_otherwise(pe, "pe", table_of("pe", pe.tables()["pe"])) == ""
        assert reckoned_otherwise(pe, "pe", table_of("pe", other)) == ""
