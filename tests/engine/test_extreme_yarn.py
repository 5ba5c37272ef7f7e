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
    """The pair that rotates β times within the original length is, with dim 64 and base 10000,

        p(β) = dim · ln(4096 / 2πβ) / (2 · ln base),

    and YaRN's ramp is (pair − low) / (high − low), cut to 0 … 1, from low = max(0, ⌊p(beta_fast)⌋)
    to high = min(dim − 1, ⌈p(beta_slow)⌉). Frequencies are kept at 0 and divided by the factor at 1.

    float32 has no numbers between 0 and 1.4e-45. A beta_slow of 1e-45 becomes 1.4e-45, and 4096 /
    2πβ exceeds 3.4e38 and is infinite; 1e-50 becomes 0, by which it divides. Both make p infinite,
    and high dim − 1 = 63. So does the expected beta of 1e-30, for which p is finite: 262.5.
    """
    expected = yarn_frequencies(beta_slow=1e-30, runtime="llama.cpp")
    assert np.array_equal(yarn_frequencies(beta_slow=beta, runtime="llama.cpp"), expected)


def test_llama_cpp_keeps_all_frequencies_if_the_ramp_begins_beyond_the_last_channel() -> None:
    """The pair that rotates β times is p(β) = dim · ln(4096 / 2πβ) / (2 · ln base), and YaRN's ramp
    begins at low = max(0, ⌊p(beta_fast)⌋). With a beta_fast of 1e-45, 4096 / 2πβ is infinite in
    float32, and so is low: no pair reaches the ramp. The frequencies are those without a scaling,
    10000^(−2i/64).
    """
    frequencies = yarn_frequencies(beta_fast=1e-45, beta_slow=1e-50, runtime="llama.cpp")
    np.testing.assert_allclose(frequencies, 10000 ** (-np.arange(0, 64, 2) / 64), rtol=1e-5)


@pytest.mark.parametrize("beta", [1e39, 1e60, 1e300])
def test_the_ramp_of_llama_cpp_begins_at_the_first_channel(beta: float) -> None:
    """The pair that rotates β times is p(β) = dim · ln(4096 / 2πβ) / (2 · ln base), and YaRN's ramp
    begins at low = max(0, ⌊p(beta_fast)⌋). A beta_fast of 1e39 is infinite in float32, which ends at
    3.4e38: then 4096 / 2πβ is 0, its logarithm −∞, and low 0. So is it for the expected beta of
    1e30, for which p is finite: −217.5.
    """
    expected = yarn_frequencies(beta_fast=1e30, runtime="llama.cpp")
    assert np.array_equal(yarn_frequencies(beta_fast=beta, runtime="llama.cpp"), expected)


@pytest.mark.parametrize("factor", [1e39, 1e45])
def test_a_factor_beyond_float32_stops_slow_frequencies_in_candle(factor: float) -> None:
    """YaRN divides the slow frequencies by the factor, which becomes infinite in candle's float32: the
    last frequency divided by it is 0.
    """
    assert yarn_frequencies(factor=factor, runtime="candle")[-1] == 0
