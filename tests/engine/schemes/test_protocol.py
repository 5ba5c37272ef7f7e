"""Every scheme describes its tensors, and a rotary scheme its frequencies in float32.

Expected frequencies are the formulas of two scalings, written out in NumPy: ntk-fixed, and llama3
with equal factors for low and high frequencies.
"""

from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal

SCHEMES_OF_ALL_KINDS = [
    Sinusoidal(16, 8, style="whisper"),
    Rope(16, 8, layout="halves", mrope_section=(1, 2, 1)),
    Alibi(6, 12),
    Alibi(6, 12, form="key"),
    Alibi(6),
    LearnedInit(16, 8),
]


@pytest.mark.parametrize("scheme", SCHEMES_OF_ALL_KINDS, ids=str)
def test_every_axis_of_a_tensor_has_a_name(scheme: Scheme) -> None:
    """For each tensor of each kind of scheme, `axes_of` has as many names as the tensor has axes."""
    for table in scheme.tensors():
        assert len(scheme.axes_of(table.name).names) == len(table.shape)


BASE, DIM, PAIRS = 10000.0, 32, 16
UNSCALED = BASE ** -(np.arange(PAIRS) / PAIRS)
"""The frequencies base^(-2i/dim) of 16 pairs of channels."""


def ntk_fixed_frequencies(factor: float) -> np.ndarray:
    """Return (factor · base)^(-2i/dim) / factor^(2/dim), the `rope_type: ntk` of vLLM and GTE."""
    return (factor * BASE) ** -(np.arange(PAIRS) / PAIRS) / factor ** (2 / DIM)


def llama3_frequencies(factor: float, original_length: int, turns: float) -> np.ndarray:
    """Return the frequencies that turn fewer times in the original length divided by the factor, the
    others as they are: Llama 3's formula if low_freq_factor and high_freq_factor are both `turns`.
    """
    wavelengths = 2 * np.pi / UNSCALED
    return np.where(wavelengths > original_length / turns, UNSCALED / factor, UNSCALED)


SCALED = {
    "ntk-fixed": (
        {"scaling": "ntk-fixed", "factor": 4.0},
        ntk_fixed_frequencies(factor=4.0),
    ),
    # Equal factors leave no ramp between pairs that are kept and pairs that are divided.
    "llama3": (
        {
            "scaling": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "low_freq_factor": 2.0,
            "high_freq_factor": 2.0,
        },
        llama3_frequencies(factor=8.0, original_length=64, turns=2.0),
    ),
}
"""Parameters of a scaling, and its frequencies by the formula in NumPy, in float64."""


@pytest.mark.parametrize(("parameters", "expected"), SCALED.values(), ids=SCALED)
def test_scaled_frequencies_of_the_recipe_float32_are_float32_numbers_near_the_formula(
    parameters: dict[str, Any], expected: np.ndarray
) -> None:
    """The recipe float32 computes frequencies in float32, as most projects do. A power, a division and
    the scaling are some roundings of 2^-24 = 6e-8 each, less than 1e-6 together.
    """
    rope = Rope(seq_len=4, dim=DIM, base=BASE, recipe="float32", **parameters)
    frequencies = rope.inverse_frequencies()

    assert frequencies == pytest.approx(expected, rel=1e-6)
    assert frequencies == [float(np.float32(value)) for value in frequencies]


@pytest.mark.parametrize(("parameters", "expected"), SCALED.values(), ids=SCALED)
def test_scaled_frequencies_of_the_recurrence_in_float32_are_close_to_the_formula(
    parameters: dict[str, Any], expected: np.ndarray
) -> None:
    """As ggml does, the recipe float32-recurrence gets each frequency from the one before, by a factor
    in float32. Over 15 steps, roundings of the factor and of the products, 6e-8 each, add up to
    15 · 2 · 6e-8 = 1.8e-6; the bound leaves as much again for the scaling.
    """
    rope = Rope(seq_len=4, dim=DIM, base=BASE, recipe="float32-recurrence", **parameters)

    assert rope.inverse_frequencies() == pytest.approx(expected, rel=3.6e-6)


@pytest.mark.parametrize(
    ("frequencies", "expected"),
    [
        pytest.param([1.0, 0.25], [1 / 2, 0.25 / 8], id="as many as factors"),
        pytest.param([1.0, 0.5, 0.25], [np.nan] * 3, id="one more than factors"),
    ],
)
def test_longrope_cannot_scale_another_number_of_frequencies_than_its_factors(
    frequencies: list[float], expected: list[float]
) -> None:
    """LongRoPE divides frequency i by factor i; here 2 and 8, the long factors. The search for the
    parameters of a table also tries other dims, of which no frequency is known: NaN matches no table,
    where an error would end the search.
    """
    rope = Rope(
        seq_len=17,  # beyond the original length
        dim=4,
        scaling="longrope",
        factor=4.0,
        original_max_position_embeddings=16,
        short_factor=(1.0, 1.5),
        long_factor=(2.0, 8.0),
    )
    half_of_dim = len(frequencies)
    scaled = rope.scaling_value.approximate(
        np.array(frequencies), base=rope.base, half=float(half_of_dim)
    )
    np.testing.assert_array_equal(scaled, expected)
