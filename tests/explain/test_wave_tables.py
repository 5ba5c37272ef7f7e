"""Sinusoidal and rotary schemes described as waves, in common parameters, and schemes made from
such a description.

A WaveTable has a base, an exponent (frequencies are base^(−i/exponent)), a scale, an amplitude, a
scaling, and the order of columns; the search for reasons changes these. Expected values are the
scheme that was described, or arithmetic in the docstrings.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import pytest

from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.frequency_schedule import wave_table_without_position_list
from pecli.explain.wave_tables import WaveTable, scheme_of_waves, wave_edit, wave_table

YARN = Rope(64, 32, 500000.0, scaling="yarn", factor=8.0, original_max_position_embeddings=16)
LONG = Rope(
    8,
    4,
    500000.0,
    scaling="longrope",
    factor=4.0,
    original_max_position_embeddings=16,
    short_factor=(1.0, 1.5),
    long_factor=(2.0, 8.0),
    length=32,
    attention_factor=1.25,
)
LLAMA3 = Rope(
    16,
    8,
    scaling="llama3",
    factor=8.0,
    original_max_position_embeddings=64,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
)


def waves_of(scheme: Scheme) -> WaveTable:
    waves = wave_table(scheme)
    assert waves is not None
    return waves


@pytest.mark.parametrize(
    "scheme",
    [
        Sinusoidal(16, 8, style="whisper"),
        Sinusoidal(16, 9, style="flux", offset=3),
        Sinusoidal(16, 7, cos_first=True, amplitude=0.25),
        Rope(16, 8, 500.0, offset=2, layout="halves"),
        Rope(16, 8, scaling="linear", factor=4.0),
        Rope(16, 8, scaling="dynamic", factor=2.0, max_position_embeddings=8, length=32),
        Rope(16, 8, scaling="proportional", partial_rotary_factor=0.5),
        LLAMA3,
        YARN,
        LONG,
    ],
    ids=str,
)
def test_a_scheme_is_recovered_from_its_waves(scheme: Scheme) -> None:
    """`waves_of` describes a scheme by base, exponent, scale and so on, and `scheme_of_waves` goes
    back. The recovered scheme may have other parameters, but must make the same bytes. Without a
    scaling, frequency i is scale · base^(−i/exponent), by the fields of the description.
    """
    waves = waves_of(scheme)
    recovered = scheme_of_waves(waves, dtype=scheme.dtype)

    assert type(recovered) is type(scheme)
    assert recovered is not None

    tables = recovered.tables()
    for name, table in scheme.tables().items():
        assert tables[name].tobytes() == table.tobytes()
    if waves.scaling == Scaling():
        angles = [
            waves.scale * waves.base ** (-i / waves.denominator)
            for i in range(waves.rotating_pairs)
        ]
        assert scheme.angular_frequencies() == pytest.approx(angles, rel=1e-14)


@pytest.mark.parametrize(
    "scheme", [Alibi(4), LearnedInit(4, 4), Rope(2, 4, positions=(5, 1))], ids=str
)
def test_schemes_without_waves_at_consecutive_positions_have_no_description(scheme: Scheme) -> None:
    """ALiBi has slopes, LearnedInit drawn weights, and the positions 5 and 1 are not consecutive."""
    assert wave_table(scheme) is None


ROTARY = waves_of(Rope(4, 8))
LINEAR = waves_of(Rope(4, 8, layout="halves", scaling="linear", factor=2.0))


@pytest.mark.parametrize(
    "waves",
    [
        pytest.param(ROTARY._replace(denominator=3.0), id="exponents over 3 pairs of 4"),
        pytest.param(ROTARY._replace(base=-1.0), id="a negative base"),
        pytest.param(ROTARY._replace(separate=False), id="one compact table of both functions"),
        pytest.param(LINEAR._replace(separate=False), id="one scaled table of both functions"),
        pytest.param(
            waves_of(Sinusoidal(4, 8))._replace(separate=True, denominator=3.0),
            id="sinusoidal, with exponents over 3 pairs of 4",
        ),
    ],
)
def test_waves_that_no_scheme_has_make_none(waves: WaveTable) -> None:
    """ROTARY and LINEAR describe Rope(4, 8), unscaled and scaled by 2, with frequencies
    base^(−i/4). Impossible are an exponent of 3, a negative base, and one table for both functions
    (`separate` is False) that is compact or scaled; rotary tables are separate, sinusoidal not.
    """
    assert scheme_of_waves(waves) is None


def test_an_amplitude_without_a_scaling_is_an_attention_factor() -> None:
    """ROTARY describes Rope(4, 8), here with the amplitude 1.5: a scheme with this attention factor,
    whose frequencies are unscaled.
    """
    louder = scheme_of_waves(ROTARY._replace(amplitude=1.5))
    assert louder is not None
    assert louder.attention_factor_value() == 1.5
    assert louder.inverse_frequencies() == Rope(4, 8).inverse_frequencies()


@pytest.mark.parametrize(
    ("pairs", "rotating"),
    [(22, 15), (23, 13), (4, 1), (4, 3)],
    ids=["15 of 22", "13 of 23", "1 of 4", "3 of 4"],
)
def test_the_number_of_rotating_pairs_is_kept_although_its_share_is_rounded(
    pairs: int, rotating: int
) -> None:
    """A scheme states the share of rotating pairs as a float, partial_rotary_factor. 15/22 times 22,
    for example, may fall just below 15, but 15 pairs must rotate.
    """
    waves = waves_of(Rope(2, 8, scaling="proportional", partial_rotary_factor=0.5))
    rope = scheme_of_waves(
        waves._replace(dim=2 * pairs, denominator=pairs, rotating_pairs=rotating)
    )

    assert isinstance(rope, Rope)
    assert rope.rotating_pairs == rotating


def test_a_share_of_pairs_is_a_plain_number_if_it_can_be() -> None:
    """One of the four pairs of 8 channels rotates: partial_rotary_factor is 0.25 exactly."""
    waves = waves_of(Rope(2, 8, scaling="proportional", partial_rotary_factor=0.5))
    rope = scheme_of_waves(waves._replace(rotating_pairs=1))

    assert rope is not None
    assert rope.value_of("partial_rotary_factor") == 0.25


class ParameterChange(NamedTuple):
    """The change of a scheme's parameter, in the order in which `wave_edit` returns it."""

    name: str
    expected: float
    found: float


class ChangedField(NamedTuple):
    """A field of the waves of a scheme that differs, and the parameter that it means."""

    scheme: Scheme
    field: str
    expected: float
    found: float
    parameter: ParameterChange


CHANGED_FIELDS = {
    "one pair less in the exponents is a shift": ChangedField(
        Sinusoidal(4, 8), "denominator", 4.0, 3.0, ParameterChange("freq_shift", 0.0, 1.0)
    ),
    "half a pair less is a shift": ChangedField(
        Sinusoidal(4, 8), "denominator", 4.0, 3.5, ParameterChange("freq_shift", 0.0, 0.5)
    ),
    "a missing shift": ChangedField(
        Sinusoidal(4, 8, freq_shift=1.0),
        "denominator",
        3.0,
        4.0,
        ParameterChange("freq_shift", 1.0, 0.0),
    ),
    "exponents of half of the channels": ChangedField(
        Sinusoidal(4, 8), "denominator", 4.0, 2.0, ParameterChange("exponent_dim", 8.0, 4.0)
    ),
    "exponents of all channels where half of them rotate": ChangedField(
        Rope(4, 16, partial_rotary_factor=0.5),
        "denominator",
        4.0,
        8.0,
        ParameterChange("exponent_dim", 8.0, 16.0),
    ),
    "a base": ChangedField(
        Sinusoidal(4, 8), "base", 10000.0, 9999.0, ParameterChange("base", 10000.0, 9999.0)
    ),
    "the amplitude of a scaled rope": ChangedField(
        YARN, "amplitude", 1.25, 1.0, ParameterChange("attention_factor", 1.25, 1.0)
    ),
    "the amplitude of an unscaled rope, which is no parameter": ChangedField(
        Rope(4, 8), "amplitude", 1.0, 2.0, ParameterChange("", 1.0, 2.0)
    ),
}


@pytest.mark.parametrize("name", CHANGED_FIELDS)
def test_a_difference_of_waves_is_a_parameter(name: str) -> None:
    """Frequencies are base^(−i/exponent), where the exponent of 8 channels is 8/2 − freq_shift, and
    exponent_dim/2 if that is no plain shift: 3 is a shift of 1, and 2 is that of 4 channels.
    """
    case = CHANGED_FIELDS[name]
    edit = wave_edit(case.scheme, case.field, case.expected, case.found)

    assert edit == case.parameter


def test_waves_have_the_attention_factor_that_a_scheme_was_given() -> None:
    """LONG has LongRoPE and an attention factor of 1.25 that is given."""
    assert waves_of(LONG).amplitude == 1.25


def test_waves_have_the_attention_factor_that_longrope_computes_otherwise() -> None:
    """LONG has factor 4 and original length 16; here, no attention factor is given. The formula is
    that of LongRoPE's paper.
    """
    without_attention_factor = replace(LONG, attention_factor=None)
    by_longrope = math.sqrt(1 + math.log(4) / math.log(16))

    assert waves_of(without_attention_factor).amplitude == pytest.approx(by_longrope, rel=1e-12)


def test_a_scheme_at_listed_positions_has_the_waves_of_consecutive_ones() -> None:
    """The frequencies do not depend on the positions, which are 3, 1 and 2 here; those of YARN are
    consecutive already.
    """
    listed = Rope(positions=(3, 1, 2), dim=8, base=500.0)

    assert wave_table(listed) is None
    assert wave_table_without_position_list(listed) == wave_table(Rope(1, 8, base=500.0))
    assert wave_table_without_position_list(YARN) == wave_table(YARN)


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(Rope(grid=(2, 2), dim=16, style="eva"), id="a grid has two axes"),
        pytest.param(Alibi(4, 4), id="ALiBi has no waves"),
    ],
)
def test_a_scheme_without_waves_along_one_axis_has_no_wave_table(
    scheme: Scheme,
) -> None:
    """`wave_table_without_position_list` describes a scheme by waves along one axis of positions."""
    assert wave_table_without_position_list(scheme) is None
