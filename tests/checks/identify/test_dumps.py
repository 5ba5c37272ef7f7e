"""Tables as programs that reckon in float32 leave them, written here by their formulas; and drawn tables, which are
described by their distribution.
"""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from tests.checks.waves import LLAMA3, halves, powers
from tests.tools.attack import Waves

YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192, "beta_fast": 64}


def dumped(frequency: np.ndarray, rows: int, offset: int = 0, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Cosines and sines (1, rows, dim) with both halves alike; angles are products in float32."""
    angles = np.arange(offset, offset + rows, dtype=np.float32)[:, None] * frequency.astype(np.float32)
    return {"cos": np.cos(halves(angles)[None]).astype(dtype), "sin": np.sin(halves(angles)[None]).astype(dtype)}


def test_bfloat16_beyond_the_first_positions() -> None:
    (match,) = pecli.identify(dumped(powers(10000.0, 128), 512, 17, ml_dtypes.bfloat16)).matches
    rope = pecli.Rope(512, 128, offset=17, layout="halves", dtype="bfloat16")
    assert match.scheme in {rope, replace(rope, recipe="float32")}


def test_llama3_and_yarn_are_told_from_few_rows() -> None:
    cosine = dumped(Waves(128, 500000.0, {"type": "llama3", **LLAMA3, "factor": 16.0}).frequencies()[0], 2048)["cos"]
    found: Any = pecli.identify(cosine).matches[0].scheme
    assert (found.base, found.scaling, found.factor) == (500000.0, "llama3", 16.0)
    assert (found.original_max_position_embeddings, found.layout, found.offset) == (8192, "halves", 0)
    # 64 channels, limits at 64 rotations and 1: no line of a coarse grid.
    tables = dumped(Waves(128, 10000.0, YARN).frequencies()[0], 1000, dtype=np.float16)
    found: Any = pecli.identify(tables).matches[0].scheme
    assert (found.base, found.scaling, found.factor, found.truncate) == (10000.0, "yarn", 4.0, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_divided_frequencies_in_one_tensor(dtype: type) -> None:
    """Cosines beside sines, as vLLM keeps them, with a divisor for each frequency."""
    divisors = np.round(1 + 30 * np.linspace(0, 1, 32) ** 2, 2)
    tables = dumped(powers(10000.0, 64) / divisors, 512)
    cache = np.concatenate([tables["cos"][0, :, :32], tables["sin"][0, :, :32]], axis=1).astype(dtype)
    (match,) = pecli.identify({"cos_sin_cache": cache}).matches
    found: Any = match.scheme
    assert (found.scaling, found.layout, found.rotary_dim) == ("longrope", "compact", 64)
    expected = powers(10000.0, 64) / divisors
    np.testing.assert_allclose(np.array(found.frequencies().floats())[:16], expected[:16], rtol=1e-5)
    assert match.max_abs_error <= (1e-4 if dtype == np.float32 else 1e-3)


@pytest.mark.parametrize("count", [8, 64])
def test_falling_vectors_are_not_frequencies_yet(count: int) -> None:
    """Short numbers fit into any dtype, which must not make them coarse."""
    place = np.arange(count)
    for vector in (1 - place / count, 1 / (1 + place), (1 - place / count) ** 2, np.cos(place / count)):
        assert not pecli.identify(vector.astype(np.float32)).matches
