"""What a scheme answers about itself."""

import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal

EVERY = [
    Sinusoidal(16, 8, style="whisper"),
    Rope(16, 8, layout="halves", mrope_section=(1, 2, 1)),
    Alibi(6, 12),
    Alibi(6, 12, form="key"),
    Alibi(6),
    LearnedInit(16, 8),
]


@pytest.mark.parametrize("scheme", EVERY, ids=str)
def test_every_axis_of_a_tensor_has_a_name(scheme: Scheme) -> None:
    for table in scheme.tensors():
        assert len(scheme.axes_of(table.name).names) == len(table.shape)


def test_float32_steps_of_other_scalings() -> None:
    index, plain = np.arange(16), 10000.0 ** -(np.arange(16) / 16)
    limits = {
        "original_max_position_embeddings": 64,
        "low_freq_factor": 2.0,
        "high_freq_factor": 2.0,
    }
    step = np.where(2 * np.pi / plain > 32, plain / 8, plain)
    for scaling, expected in (
        ({"scaling": "ntk-fixed", "factor": 4.0}, 40000.0 ** -(index / 16) / 4 ** (2 / 32)),
        ({"scaling": "llama3", "factor": 8.0, **limits}, step),
    ):
        found = Rope(4, 32, recipe="float32", **scaling).inverse_frequencies()
        assert found == pytest.approx(expected, rel=1e-6)
        assert found == [float(np.float32(value)) for value in found]
        phases = Rope(4, 32, recipe="float32-recurrence", **scaling).inverse_frequencies()
        assert phases == pytest.approx(found, rel=1e-5)


def test_longrope_has_no_frequencies_of_another_dim() -> None:
    """Its lists of divisors fit one number of frequencies only."""
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
