"""YaRN with parameters that float32 holds as 0 or as infinity, as runtimes computing in float32
read them.

llama.cpp (ggml) cuts the limits of YaRN's ramp to the channels 0 … dim − 1. Expected frequencies
are those of a parameter that is far beyond the cut as well but an ordinary float32 number.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import pecli

YARN: dict[str, Any] = {
    "scaling": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 4096,
}


def yarn_frequencies(**changes: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table: np.ndarray = pecli.Rope(2, 64, **{**YARN, **changes}).tables()["inv_freq"]
    return table


@pytest.mark.parametrize("beta", [1e-45, 1e-50, 1e-300])
def test_the_ramp_of_llama_cpp_ends_at_the_last_channel(beta: float) -> None:
    """YaRN blends frequencies between two channels that follow from beta_fast and beta_slow. A tiny
    beta_slow becomes 0 or a subnormal number in float32, and the ramp's end infinite: ggml takes the
    smaller of dim − 1 and ceil(∞). 1e-30 gives a finite end beyond all channels, hence the same.
    """
    expected = yarn_frequencies(beta_slow=1e-30, runtime="llama.cpp")
    assert np.array_equal(yarn_frequencies(beta_slow=beta, runtime="llama.cpp"), expected)


@pytest.mark.parametrize("beta", [1e39, 1e60, 1e300])
def test_the_ramp_of_llama_cpp_begins_at_the_first_channel(beta: float) -> None:
    """YaRN blends frequencies between two channels that follow from beta_fast and beta_slow. A huge
    beta_fast becomes infinite in float32, and the ramp's start −∞: ggml takes the larger of 0 and
    floor(−∞). 1e30 gives a finite negative start, hence the same.
    """
    expected = yarn_frequencies(beta_fast=1e30, runtime="llama.cpp")
    assert np.array_equal(yarn_frequencies(beta_fast=beta, runtime="llama.cpp"), expected)


@pytest.mark.parametrize("factor", [1e39, 1e45])
def test_a_factor_beyond_float32_stops_slow_frequencies_in_candle(factor: float) -> None:
    """YaRN divides the slow frequencies by the factor, which becomes infinite in candle's float32: the
    last frequency divided by it is 0.
    """
    assert yarn_frequencies(factor=factor, runtime="candle")[-1] == 0
