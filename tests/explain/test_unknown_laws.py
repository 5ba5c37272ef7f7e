"""Frequencies that follow the law of no scaling: nothing is claimed of them.

YaRN blends two laws linearly in the index. A blend by a power of the index, division by 4^(x^e)
with x = i/32, looks much like it and is none of it: a scaling whose parameters come near would be
invented.
"""

import numpy as np
import pytest

import pecli

PAIRS = 32
ROWS = 200
SPECS = {
    "none": pecli.Rope(ROWS, 2 * PAIRS),
    "linear": pecli.Rope(ROWS, 2 * PAIRS, scaling="linear", factor=4.0),
    "yarn": pecli.Rope(
        ROWS, 2 * PAIRS, scaling="yarn", factor=4.0, original_max_position_embeddings=4096
    ),
    "llama3": pecli.Rope(
        ROWS,
        2 * PAIRS,
        scaling="llama3",
        factor=4.0,
        original_max_position_embeddings=8192,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    ),
}
EXPONENTS = (1.1, 1.2, 1.3, 1.4, 1.5, 1.6)


def frequencies(exponent: float) -> np.ndarray:
    share = np.arange(PAIRS) / PAIRS
    return 1e4**-share / 4.0 ** (share**exponent)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.sample("1.2-none")
def test_frequencies_of_an_unknown_law_have_no_explanation(spec: str, exponent: float) -> None:
    """The frequencies 10000^(-i/32) are divided by 4^((i/32)^exponent), which no scaling does. The
    specs are unscaled, linear, YaRN and Llama 3, each by factor 4: all fail, and no mistake that
    pecli knows leads from one of them to these frequencies.
    """
    inv_freq = frequencies(exponent).astype(np.float32)
    result = pecli.verify({"inv_freq": inv_freq}, SPECS[spec])

    assert not result.passed
    assert not result.explanations


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.thorough
def test_tables_of_an_unknown_law_have_no_explanation(
    spec: str, exponent: float, dtype: str
) -> None:
    """The tables have frequencies 10000^(-i/32) divided by 4^((i/32)^exponent), which no scaling does.
    The specs are unscaled, linear, YaRN and Llama 3, each by factor 4: all fail, and no mistake that
    pecli knows leads from one of them to these tables.
    """
    angles = np.outer(np.arange(ROWS), frequencies(exponent))
    tables = {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    result = pecli.verify(tables, SPECS[spec], atol=1e-6)

    assert not result.passed
    assert not result.explanations
