"""identify finds a scheme from a table alone: among several that fit, the plain one is preferred.

Tables are NumPy's cosines and sines of position · base^(-2i/d), some of them rounded to 16 bits;
the expected scheme is the one whose formula made them.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from tests.checks.waves import LLAMA3, cos_and_sin_tables, inverse_frequencies

PAIRS = 64


def identified_scheme(tables: Any) -> Any:
    return pecli.identify(tables).matches[0].scheme


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 1e7])
def test_coarse_frequencies_have_a_plain_base(base: float, dtype: type) -> None:
    """base^(-2i/128) rounded to 16 bits fits many bases and scalings; `identify` must choose the
    plain one, which made it, and name the rounding as the recipe.
    """
    scheme = identified_scheme({"inv_freq": inverse_frequencies(base, 2 * PAIRS).astype(dtype)})
    assert scheme.base == base
    assert scheme.scaling == "none"
    assert scheme.recipe == f"{np.dtype(dtype).name}-inv-freq"


@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_frequencies_divided_by_a_constant_are_identified_as_linear_scaling(
    factor: float, dtype: type
) -> None:
    """The vector is NumPy's 10000^(-2i/128) / factor; another base would not fit all of it."""
    scheme = identified_scheme((inverse_frequencies(10000.0, 2 * PAIRS) / factor).astype(dtype))
    assert scheme.base == 10000.0
    assert scheme.scaling == "linear"
    assert scheme.factor == factor


@pytest.mark.parametrize("factor", [2.5, 4.0, 8.0])
def test_a_cache_of_vllm_with_linear_scaling_is_identified_as_rotary(factor: float) -> None:
    """vLLM keeps cosines and sines side by side under the name cos_sin_cache. A sinusoidal table at
    positions p / factor has the same numbers, so that the name decides.
    """
    cos, sin = cos_and_sin_tables(400, inverse_frequencies(10000.0, 64) / factor).values()
    scheme = identified_scheme({"cos_sin_cache": np.concatenate([cos, sin], axis=1)})

    assert scheme.name == "rope"
    assert scheme.scaling == "linear"
    assert scheme.factor == factor


@pytest.mark.parametrize("freq_shift", [0.0, 1.0, 0.5])
def test_a_round_base_is_preferred_among_bases_that_make_the_same_frequencies(
    freq_shift: float,
) -> None:
    """Frequencies are 10000^(-i / (32 − freq_shift)), as several projects have them. 10000^(-i/31)
    is also 11601.55^(-i/31.5), since 10000^(31.5/31) = 11601.55; the round base must be found.
    """
    pairs = 32
    angles = np.outer(np.arange(200), 10000.0 ** (-np.arange(pairs) / (pairs - freq_shift)))
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    scheme = identified_scheme(table)

    assert scheme.base == 10000.0
    assert scheme.freq_shift == freq_shift


def test_two_frequencies_are_enough_for_a_base() -> None:
    """Heads of 4 channels have the frequencies 1 and 777^(−1/2), on one line by any base."""
    scheme = identified_scheme(cos_and_sin_tables(64, inverse_frequencies(777.0, 4)))
    assert scheme.base == 777.0
    assert scheme.scaling == "none"


@pytest.mark.parametrize("factor", [2.0, 4.0, 1.25, 12.5])
def test_a_base_stretched_by_a_factor_is_identified_as_ntk_scaling(factor: float) -> None:
    """NTK scaling of d channels replaces a base by base · factor^(d / (d − 2)); here d is 64. The
    table would also be an unscaled one of that odd base. Factors have up to three digits.
    """
    stretched_base = 10000.0 * factor ** (64 / 62)
    scheme = identified_scheme(cos_and_sin_tables(300, inverse_frequencies(stretched_base, 64)))

    assert scheme.scaling == "ntk"
    assert scheme.base == 10000.0
    assert scheme.factor == factor


@pytest.mark.parametrize(
    "recipe", ["bfloat16-inv-freq", "float16-inv-freq", "bfloat16-positions", "bfloat16-phases"]
)
@pytest.mark.sample("bfloat16-inv-freq", "float16-inv-freq")
def test_the_step_that_was_computed_in_16_bits_is_recognised(recipe: str) -> None:
    """A recipe names what was rounded to 16 bits: the frequencies (inv-freq), the positions, or
    their products (phases). The tables of 600 positions are made by the recipe itself.
    """
    tables = pecli.Rope(600, 64, layout="halves", recipe=recipe).tables()
    scheme = identified_scheme({name: tables[name] for name in ("cos", "sin")})

    assert scheme.base == 10000.0
    assert scheme.recipe == recipe


@pytest.mark.parametrize("style", ["hunyuan-image", "hunyuan-video", "z-image"])
@pytest.mark.sample(2)
def test_a_table_on_a_grid_is_identified_by_the_style_of_its_base(style: str) -> None:
    """A style is a project's rule for grids, and has a base of its own. Another style with this
    base given makes the same tables of a grid of 6 × 8; the style that has it anyway is found.
    """
    tables = pecli.Rope(dim=64, grid=(6, 8), style=style).tables()
    scheme = identified_scheme({name: tables[name] for name in ("cos", "sin")})

    assert scheme.style == style


def test_llama3_scaling_is_recognised_in_sines_without_cosines() -> None:
    """`identify` is given only the sines of a table with Llama 3.1's scaling by a factor of 8."""
    scheme = pecli.Rope(400, 64, 500000.0, scaling="llama3", **LLAMA3)
    found = identified_scheme({"sin": scheme.tables()["sin"]})

    assert found.scaling == "llama3"
    assert found.factor == LLAMA3["factor"]


@pytest.mark.parametrize("exponent", [1.1, 1.2, 1.4, 1.6])
@pytest.mark.parametrize("as_table", [True, False], ids=["table", "frequencies"])
@pytest.mark.sample("frequencies-1.1", "frequencies-1.6")
def test_frequencies_of_an_unknown_law_are_not_claimed(exponent: float, as_table: bool) -> None:
    """Frequencies 10000^(-i/32) are divided by 4^((i/32)^exponent): the divisors grow from 1 to 4,
    as YaRN's do, but by the law of no scaling, so nothing may be claimed. They are given as such,
    or as cosines and sines.
    """
    index = np.arange(32)
    divisors = 4 ** ((index / 32) ** exponent)
    frequencies = 1e4 ** (-index / 32) / divisors
    tables: Any = (
        cos_and_sin_tables(512, frequencies) if as_table else frequencies.astype(np.float32)
    )

    assert pecli.identify(tables).matches == ()
