"""Every scheme describes its tensors, and a rotary scheme its frequencies in float32.

Expected frequencies are the formulas of two scalings, written out in NumPy: ntk-fixed, and llama3
with settings that leave no ramp.
"""

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


PAIR = np.arange(16)
UNSCALED = 10000.0 ** -(PAIR / 16)
# Equal factors leave no ramp between the pairs that are kept and those that are divided: wavelengths
# beyond 64 / 2 positions are divided.
NO_RAMP = {
    "original_max_position_embeddings": 64,
    "low_freq_factor": 2.0,
    "high_freq_factor": 2.0,
}
SCALED = {
    "ntk-fixed": ({"factor": 4.0}, 40000.0 ** -(PAIR / 16) / 4 ** (2 / 32)),
    "llama3": (
        {"factor": 8.0, **NO_RAMP},
        np.where(2 * np.pi / UNSCALED > 64 / 2, UNSCALED / 8, UNSCALED),
    ),
}


@pytest.mark.parametrize("scaling", SCALED)
def test_scaled_frequencies_of_the_recipe_float32_are_float32_numbers_near_the_formula(
    scaling: str,
) -> None:
    """ntk-fixed by 4 is (4 · 10000)^(-i/16) / 4^(2/32), and llama3 here divides wavelengths beyond
    32 positions by 8, in NumPy. The recipe float32 computes in float32: 1e-6 near the formula, and
    each frequency is a float32 number.
    """
    parameters, expected = SCALED[scaling]
    found = Rope(4, 32, recipe="float32", scaling=scaling, **parameters).inverse_frequencies()

    assert found == pytest.approx(expected, rel=1e-6)
    assert found == [float(np.float32(value)) for value in found]


@pytest.mark.parametrize("scaling", SCALED)
def test_frequencies_of_the_recurrence_in_float32_are_close_to_the_formula(scaling: str) -> None:
    """The recipe float32-recurrence multiplies 15 times by the step from pair to pair, as ggml
    does, so that rounding errors add up: 1e-5.
    """
    parameters, expected = SCALED[scaling]
    rope = Rope(4, 32, recipe="float32-recurrence", scaling=scaling, **parameters)

    assert rope.inverse_frequencies() == pytest.approx(expected, rel=1e-5)


def test_longrope_cannot_scale_another_number_of_frequencies_than_its_factors() -> None:
    """LongRoPE divides frequencies by two lists of factors: two numbers here for 4 channels. Three
    frequencies, as the search of parameters may try, have no divisors, and become NaN.
    """
    rope = Rope(
        8,
        4,
        500000.0,
        scaling="longrope",
        factor=4.0,
        original_max_position_embeddings=16,
        short_factor=(1.0, 1.5),
        long_factor=(2.0, 8.0),
    )
    assert np.isnan(rope.scaling_value.approximate(np.ones(3), 500000.0, 3.0)).all()
