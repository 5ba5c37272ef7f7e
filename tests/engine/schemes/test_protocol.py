"""What a scheme answers about itself: known mistakes, and the waves that it is made of."""

from dataclasses import replace

import numpy as np
import pytest

from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal

YARN = Rope(64, 32, 500000.0, scaling="yarn", factor=8.0, original_max_position_embeddings=16)
LONG = Rope(
    8, 4, 500000.0, scaling="longrope", factor=4.0, original_max_position_embeddings=16,
    short_factor=(1.0, 1.5), long_factor=(2.0, 8.0),
)  # fmt: skip
EVERY = [
    Sinusoidal(16, 8, style="whisper"), Rope(16, 8, layout="halves", mrope_section=(1, 2, 1)), YARN, LONG, Alibi(6, 12),
    Alibi(6, 12, form="key"), Alibi(6), LearnedInit(16, 8),
]  # fmt: skip


@pytest.mark.parametrize("scheme", EVERY, ids=lambda scheme: scheme.name)
def test_known_mistakes_make_other_tables(scheme: Scheme) -> None:
    """Each is told by its edits, and has tables of its own; every axis of these has a name."""
    own = {name: table.tobytes() for name, table in scheme.tables().items()}
    assert all(
        len(scheme.axes_of(table.name).names) == len(table.shape) for table in scheme.tensors()
    )
    found = scheme.neighbours()
    assert found
    for edits, other in found:
        assert edits
        assert all(edit.expected != edit.found for edit in edits)
        assert {name: table.tobytes() for name, table in other.tables().items()} != own


def test_mistakes_of_scalings_are_named() -> None:
    def changes(rope: Rope) -> set[tuple[str, object]]:
        return {(edit.subject, edit.found) for edits, _ in rope.neighbours() for edit in edits}

    assert {("base", 10000.0), ("offset", 1), ("scaling", "none"), ("truncate", False)} <= changes(
        YARN
    )
    assert {found for name, found in changes(YARN) if name == "factor"} == {4, 16}
    attention = 0.1 * np.log(8) + 1
    factors = sorted(found for name, found in changes(YARN) if name == "attention_factor")
    assert factors == pytest.approx([1.0, attention**2], rel=1e-12)
    assert all(len(edits) == 1 for edits, _ in YARN.neighbours())
    (other,) = (other for edits, other in LONG.neighbours() if edits[0].subject == "length")
    assert other.inverse_frequencies() == pytest.approx([0.5, 500000.0**-0.5 / 8], rel=1e-15)
    linear = changes(Rope(4, 8, offset=3, scaling="linear", factor=4.0))
    assert {("factor", 16.0), ("offset", 2), ("offset", 4)} <= linear


def test_the_exponent_over_the_whole_head() -> None:
    rope = Rope(4, 16, 500000.0, partial_rotary_factor=0.5)
    found = [other for edits, other in rope.neighbours() if edits[0].subject == "exponent_dim"]
    assert found[0].inverse_frequencies() == pytest.approx(
        [500000.0 ** (-2 * i / 16) for i in range(4)], rel=1e-14
    )


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


WAVES = [
    Sinusoidal(16, 8, style="whisper"),
    Sinusoidal(16, 9, style="flux", offset=3),
    Sinusoidal(16, 7, cos_first=True, amplitude=0.25),
    Rope(16, 8, 500.0, offset=2, layout="halves"),
    Rope(16, 8, scaling="linear", factor=4.0),
    Rope(16, 8, scaling="dynamic", factor=2.0, max_position_embeddings=8, length=32),
    Rope(16, 8, scaling="proportional", partial_rotary_factor=0.5),
    Rope(16, 8, scaling="llama3", factor=8.0, original_len=64, low_freq_factor=1.0, high_freq_factor=4.0),
    YARN,
    replace(LONG, length=32, attention_factor=1.25),
]  # fmt: skip


@pytest.mark.parametrize("scheme", WAVES, ids=str)
def test_a_scheme_of_waves_is_recovered_from_them(scheme: Scheme) -> None:
    waves = scheme.wave_table()
    assert waves is not None
    kinds = [kind for name in SCHEMES if (kind := scheme_named(name)).from_waves(waves) is not None]
    assert kinds == [type(scheme)]
    found = kinds[0].from_waves(waves, dtype=scheme.dtype)
    assert [each.tobytes() for each in found.tables().values()] == [
        each.tobytes() for each in scheme.tables().values()
    ]
    if waves.scaling == Scaling():
        angles = [waves.scale * waves.base ** (-i / waves.exponent) for i in range(waves.rotating)]
        assert scheme.angular_frequencies() == pytest.approx(angles, rel=1e-14)


def test_waves_that_are_none_or_no_scheme_has() -> None:
    waves = Rope(4, 8).wave_table()
    assert waves is not None
    assert (
        Rope.from_waves(waves._replace(exponent=3.0))
        is Rope.from_waves(waves._replace(base=-1.0))
        is None
    )
    louder = Rope.from_waves(waves._replace(amplitude=1.5))
    assert louder is not None
    assert (louder.attention_factor_value(), louder.inverse_frequencies()) == (
        1.5,
        Rope(4, 8).inverse_frequencies(),
    )


def test_known_mistakes_of_scalings_as_waves() -> None:
    flipped, swapped = (each.scaling for each in YARN.wave_neighbours() if each.exponent == 16)
    assert (flipped.truncate, flipped.betas()) == (False, YARN.scaling_value.betas())
    assert (swapped.truncate, swapped.betas()) == (None, YARN.scaling_value.betas()[::-1])
    lists = [each.scaling.divisors for each in LONG.wave_neighbours() if each.exponent == 2]
    assert lists == [
        (1.5, 1.0),
        (1.0, 1 / 1.5),
        (2.0, 8.0),
    ]  # reversed, multiplied by, the other list
    assert np.isnan(
        LONG.scaling_value.approximate(np.ones(3), 500000.0, 3.0)
    ).all()  # of another dim
