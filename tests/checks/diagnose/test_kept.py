"""Right values that were kept as something else are recognised, and by what they were kept as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose.kept import kept_otherwise
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import (
    bias,
    float32_waves,
    halves,
    inverse,
    narrowed,
    paper_slopes,
    sinusoidal,
    waves,
)

PE = sinusoidal(300, 64, dtype="float64")


def said(scheme: Scheme, name: str, array: Any) -> str:
    return kept_otherwise(scheme, name, table_of(name, array))


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (np.rint(PE * 127).astype(np.int8), "127 times the right value, rounded to int8; divide by 127, and allow"),
        (np.trunc(PE * 127).astype(np.int8), "127 times the right value, cut off to int8; divide by 127, and allow"),
        (np.clip(np.rint(PE * 128), -128, 127).astype(np.int8), "128 times the right value, rounded to int8"),
        (np.rint(PE * 32767).astype(np.int16), "32767 times the right value, rounded to int16"),
        (np.clip(np.rint(PE * 2**15), -(2**15), 2**15 - 1).astype(np.int16), "32768 times the right value, rounded"),
        (np.rint(PE * 2**14).astype(np.int16), "16384 times the right value, rounded to int16"),
        (np.rint(PE * 2**24).astype(np.int32), "16777216 times the right value, rounded to int32"),
        (np.rint(PE * 1000).astype(np.int16), "1000 times the right value, rounded to int16"),
        (np.rint((PE + 1) * 127.5).astype(np.uint8), "127.5 times the right value, plus 127.5, rounded to uint8"),
        (np.rint(PE * 127 + 128).astype(np.uint8), "127 times the right value, plus 128, rounded to uint8"),
    ],
    ids=lambda each: each[:12] if isinstance(each, str) else "",
)
def test_fixed_point(diagnosed: Diagnosed, kept: Any, words: str) -> None:
    assert diagnosed(Sinusoidal(300, 64), pe=kept).startswith(f"pe: it is fixed point: {words}")


def test_fixed_point_of_rotary_tables(diagnosed: Diagnosed) -> None:
    cos, sin = (np.rint(127 * halves(each)).astype(np.int8) for each in float32_waves(300, 64, 5e5))
    start = "cos, sin: it is fixed point: 127 times the right value, rounded to int8; divide by 127, "
    text = diagnosed(Rope(300, 64, base=5e5, layout="halves"), cos=cos, sin=sin)
    assert text == start + "and allow --atol 5e-03"
    text = diagnosed(Rope(300, 64, base=5e5), cos=cos, sin=sin)
    assert text == start + "and allow --atol 5e-03"


def test_fractions_that_a_cast_drops(diagnosed: Diagnosed) -> None:
    words = "the right values were cast to int32, which has no fractions"
    assert diagnosed(Sinusoidal(300, 64), pe=PE.astype(np.int32)) == f"pe: {words}"
    kept = np.rint(bias(paper_slopes(8), 40)).astype(np.int32)
    assert diagnosed(Alibi(8, 40), bias=kept) == f"bias: {words}"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (np.round(PE, 2), "rounded to 2 decimals, as a text may have had (allow --atol 6e-03)"),
        (np.round(PE, 4), "rounded to 4 decimals, as a text may have had (allow --atol 6e-05)"),
        (np.trunc(PE * 1e3) / 1e3, "cut off to 3 decimals, as a text may have had (allow --atol 2e-03)"),
        (np.rint(PE * 127) / 127, "rounded to multiples of 1/127, as if it had been kept as int8 (allow"),
        (np.rint(PE * 2**15) / 2**15, "rounded to multiples of 2^−15, as if it had been kept as fixed point (allow"),
    ],
    ids=["2 decimals", "4 decimals", "3 cut off", "int8", "Q15"],
)
def test_steps(diagnosed: Diagnosed, kept: Any, words: str) -> None:
    text = diagnosed(Sinusoidal(300, 64), pe=kept.astype(np.float32))
    assert text.startswith(f"pe: every value is {words}")


@pytest.mark.parametrize(("dtype", "low"), [("bfloat16", 16), ("float16", 13)])
def test_bits_that_were_dropped(diagnosed: Diagnosed, dtype: str, low: int) -> None:
    kept = (PE.astype(np.float32).view(np.uint32) >> low << low).view(np.float32)
    words = f"pe: the table was cut to {dtype}: low bits were dropped, not rounded"
    assert diagnosed(Sinusoidal(300, 64), pe=kept) == words
    assert diagnosed(Sinusoidal(300, 64), pe=narrowed(kept, dtype)) == words


def test_signs_that_are_lost(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    words = "the signs are lost: every value is positive"
    assert diagnosed(Rope(300, 64), cos=np.abs(cos), sin=np.abs(sin)) == f"cos, sin: {words}"
    kept = np.sqrt(np.maximum(np.float32(1) - cos * cos, 0))
    words = "sin: the signs are lost: every sine is positive, as where it is sqrt(1 − cos²)"
    assert diagnosed(Rope(300, 64), sin=kept) == words


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_what_was_kept_as_it_should_be(dtype: str) -> None:
    assert said(Sinusoidal(300, 64, dtype=dtype), "pe", narrowed(PE, dtype)) == ""
    slopes = paper_slopes(12)
    assert said(Alibi(12, 40, dtype=dtype), "bias", narrowed(bias(slopes, 40), dtype)) == ""
    assert said(Alibi(12, 40, form="causal", dtype=dtype), "bias", narrowed(bias(slopes, 40, "causal"), dtype)) == ""
    cos, sin = (narrowed(each, dtype) for each in float32_waves(300, 64, 1e4))
    assert said(Rope(300, 64, dtype=dtype), "cos", cos) == said(Rope(300, 64, dtype=dtype), "sin", sin) == ""
    weight = LearnedInit(40, 16, dtype=dtype)
    assert said(weight, "weight", weight.tables()["weight"]) == ""


def test_other_values_are_not_explained() -> None:
    scheme = Sinusoidal(300, 64)
    other = sinusoidal(300, 64, base=500.0, dtype="float64")
    assert said(scheme, "pe", np.rint(127 * other).astype(np.int8)) == ""
    assert said(scheme, "pe", np.round(other, 3)) == ""
    assert said(scheme, "pe", np.abs(other)) == ""
    assert said(scheme, "pe", np.zeros((300, 64), np.int8)) == ""
    assert said(scheme, "pe", np.random.default_rng(1).integers(-127, 128, (300, 64)).astype(np.int8)) == ""
