"""Angles in other units are named, and so is the π that somebody typed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import inverse, narrowed, sinusoidal, waves, yarn_factor

PI = [(math.pi, ""), (3.14, ", with π typed as 3.14"), (3.1416, ", with π typed as 3.1416"), (3.14159, "3.14159")]
UNITS: list[tuple[Any, str]] = [
    (lambda pi: 180 / pi, "angles are in degrees, where sine and cosine take radians"),
    (lambda pi: 2 * pi, "angles are multiplied by 2π, as if frequencies were turns a position, not radians"),
    (lambda pi: 1 / (2 * pi), "angles are divided by 2π, as where they are counted in turns"),
    (lambda pi: pi / 180, "angles are multiplied by π/180, as if frequencies were degrees a position"),
]


@pytest.mark.parametrize(("pi", "typed"), PI, ids=["π", "3.14", "3.1416", "3.14159"])
@pytest.mark.parametrize(("unit", "words"), UNITS, ids=["degrees", "turns", "in turns", "radians"])
def test_other_units(diagnosed: Diagnosed, pi: float, typed: str, unit: Any, words: str) -> None:
    told = f"match if {words}" + (", with π typed as 3.14159" if typed == "3.14159" else typed)
    cos, sin = waves(2000, unit(pi) * inverse(64, 5e5))
    assert diagnosed(Rope(2000, 64, base=5e5), cos=cos, sin=sin).startswith(f"cos, sin: {told}; residual ")
    pe = sinusoidal(2000, 64, scale=unit(pi))
    assert diagnosed(Sinusoidal(2000, 64), pe=pe).startswith(f"pe: {told.replace('match', 'matches')}; residual ")


@pytest.mark.parametrize("by", [7.3, 50.0])
def test_any_other_unit(diagnosed: Diagnosed, by: float) -> None:
    """The fast columns turn by more than half a turn a row, which was called memory that nobody initialised."""
    cos, sin = waves(500, by * inverse(128, 5e5))
    text = diagnosed(Rope(500, 128, base=5e5), cos=cos, sin=sin)
    assert text.startswith(f"cos, sin: match if positions are multiplied by {by:g}; residual ")


def test_a_rounded_table_is_not_said_to_have_another_pi(diagnosed: Diagnosed) -> None:
    wrong = (narrowed(each, "bfloat16") for each in waves(100, 2 * math.pi * inverse(64, 1e4)))
    cos, sin = wrong
    text = diagnosed(Rope(100, 64, dtype="bfloat16"), cos=cos, sin=sin)
    assert "angles are multiplied by 2π" in text
    assert "typed" not in text


@pytest.mark.parametrize("pi", [3.14, 3.1416])
def test_pi_in_the_llama3_scaling(diagnosed: Diagnosed, pi: float) -> None:
    """As in the reference: by the wavelengths, 2π/f."""
    inv, original, factor, low, high = inverse(128, 5e5), 8192, 8.0, 1.0, 4.0
    found = []
    for each in inv:
        length = 2 * pi / each
        smooth = (original / length - low) / (high - low)
        mixed = (1 - smooth) * each / factor + smooth * each
        found.append(each if length < original / high else each / factor if length > original / low else mixed)
    cos, sin = waves(3000, np.array(found))
    scheme = Rope(
        3000, 128, base=5e5, scaling="llama3", factor=factor, original_max_position_embeddings=original,
        low_freq_factor=low, high_freq_factor=high,
    )  # fmt: skip
    text = diagnosed(scheme, cos=cos, sin=sin)
    assert text.startswith(f"cos, sin: match if π is typed as {pi:g} in the llama3 scaling; residual ")


def test_pi_in_the_yarn_scaling(diagnosed: Diagnosed) -> None:
    inv, base, original, factor = inverse(64, 150000.0), 150000.0, 4096, 32.0
    low, high = (64 * math.log(original / (turns * 2 * 3.14)) / (2 * math.log(base)) for turns in (32, 1))
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    cos, sin = waves(3000, inv / factor * ramp + inv * (1 - ramp), height=yarn_factor(factor))
    scheme = Rope(
        3000, 64, base=base, scaling="yarn", factor=factor, original_max_position_embeddings=original, truncate=False
    )
    text = diagnosed(scheme, cos=cos, sin=sin)
    assert text.startswith("cos, sin: match if π is typed as 3.14 in the yarn scaling; residual ")


def test_exponents_of_the_wrong_sign_or_none(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, 1 / inverse(64, 1e4))
    words = "the exponent has the wrong sign: frequencies grow from"
    assert diagnosed(Rope(300, 64), cos=cos, sin=sin).startswith(f"cos, sin: match if {words} pair to pair; residual ")
    cos, sin = waves(300, 1 / inverse(64, 1e4) / 4)
    text = diagnosed(Rope(300, 64, scaling="linear", factor=4.0), cos=cos, sin=sin)
    assert text.startswith(f"cos, sin: match if {words} pair to pair; residual ")
    pe = sinusoidal(300, 64, base=1e-4)
    assert diagnosed(Sinusoidal(300, 64), pe=pe).startswith(f"pe: matches if {words} channel to channel; residual ")
    pe = sinusoidal(300, 64, base=1.0)
    words = "pe: matches if the exponent is 0 for all, as where whole numbers are divided; residual "
    assert diagnosed(Sinusoidal(300, 64), pe=pe).startswith(words)
