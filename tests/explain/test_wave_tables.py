"""Sinusoidal and rotary schemes described as waves, in common parameters, and schemes made from
such a description.

WaveParameters have a base, a denominator (frequencies are base^(−i/denominator)), a scale, an
amplitude, a scaling, and the order of columns; the search for reasons changes these. Expected
values are the scheme that was described, or arithmetic in the docstrings.
"""

import math
from dataclasses import replace

import pytest

from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.frequency_schedule import wave_parameters_without_position_list
from pecli.explain.wave_tables import (
    WaveEdit,
    WaveParameters,
    scheme_with_wave_parameters,
    wave_edit,
    wave_parameters,
)

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


def waves_of(scheme: Scheme) -> WaveParameters:
    """Return the description of a scheme by the parameters of its waves."""
    waves = wave_parameters(scheme)
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
    """`waves_of` describes a scheme by base, denominator, scale and so on, and
    `scheme_with_wave_parameters` goes back. The recovered scheme may have other parameters, but must
    make the same bytes. Without a scaling, frequency i is scale · base^(−i/denominator), by the
    fields of the description.
    """
    waves = waves_of(scheme)
    recovered = scheme_with_wave_parameters(waves, dtype=scheme.dtype)

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
    assert wave_parameters(scheme) is None


ROTARY = waves_of(Rope(4, 8))
"""Rope(4, 8): frequencies base^(−i/4) of 4 pairs, cosines and sines in separate tables."""
LINEAR = waves_of(Rope(4, 8, layout="halves", scaling="linear", factor=2.0))
"""Rope(4, 8) in the layout halves, with frequencies divided by 2."""
SINUSOIDAL = waves_of(Sinusoidal(4, 8))
"""Sinusoidal(4, 8): frequencies base^(−i/4) of 4 pairs, sines and cosines in one table."""


@pytest.mark.parametrize(
    "waves",
    [
        pytest.param(ROTARY._replace(denominator=3.0), id="a denominator of 3 for 4 rotary pairs"),
        pytest.param(
            SINUSOIDAL._replace(denominator=3.0, separate=True),
            id="a denominator of 3 in separate tables",
        ),
        pytest.param(ROTARY._replace(base=-1.0), id="a negative base"),
    ],
)
def test_frequencies_that_no_scheme_has_make_none(waves: WaveParameters) -> None:
    """Frequencies are base^(−i/denominator). A rotary scheme has its number of pairs as denominator,
    here 4. Only a sinusoidal one may have a smaller one, 4 − freq_shift, and its sines and cosines
    are in one table.
    """
    assert scheme_with_wave_parameters(waves) is None


def test_a_smaller_denominator_in_one_table_is_the_shift_of_a_sinusoidal_scheme() -> None:
    """The denominator of 4 pairs is 4 − freq_shift: 3 is a shift of 1."""
    scheme = scheme_with_wave_parameters(SINUSOIDAL._replace(denominator=3.0))
    assert scheme is not None
    assert scheme.value_of("freq_shift") == 1.0


@pytest.mark.parametrize(
    "waves",
    [
        pytest.param(ROTARY._replace(separate=False), id="compact"),
        pytest.param(LINEAR._replace(separate=False), id="with a scaling"),
    ],
)
def test_one_table_of_both_functions_that_only_separate_ones_can_be_makes_none(
    waves: WaveParameters,
) -> None:
    """One table of sines and cosines (separate=False) is sinusoidal. Such tables have no compact layout
    and no scaling, which rotary tables have.
    """
    assert scheme_with_wave_parameters(waves) is None


def test_an_amplitude_without_a_scaling_is_an_attention_factor() -> None:
    """ROTARY describes Rope(4, 8), here with the amplitude 1.5: a scheme with this attention factor,
    whose frequencies are unscaled.
    """
    louder = scheme_with_wave_parameters(ROTARY._replace(amplitude=1.5))
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
    rope = scheme_with_wave_parameters(
        waves._replace(dim=2 * pairs, denominator=pairs, rotating_pairs=rotating)
    )

    assert isinstance(rope, Rope)
    assert rope.rotating_pairs == rotating


def test_a_share_of_pairs_is_a_plain_number_if_it_can_be() -> None:
    """One of the four pairs of 8 channels rotates: partial_rotary_factor is 0.25 exactly."""
    waves = waves_of(Rope(2, 8, scaling="proportional", partial_rotary_factor=0.5))
    rope = scheme_with_wave_parameters(waves._replace(rotating_pairs=1))

    assert rope is not None
    assert rope.value_of("partial_rotary_factor") == 0.25


@pytest.mark.parametrize(
    ("freq_shift", "expected", "found", "found_shift"),
    [
        pytest.param(0.0, 4.0, 3.0, 1.0, id="3 is a shift of 1"),
        pytest.param(0.0, 4.0, 3.5, 0.5, id="3.5 is a shift of 0.5"),
        pytest.param(1.0, 3.0, 4.0, 0.0, id="4 is no shift"),
    ],
)
def test_another_denominator_of_a_sinusoidal_scheme_is_a_shift_of_at_most_1(
    freq_shift: float, expected: float, found: float, found_shift: float
) -> None:
    """Frequencies are base^(−i/denominator). Of 8 channels the denominator is 8/2 − freq_shift, and
    schemes have the shifts 0, 0.5 and 1.
    """
    scheme = Sinusoidal(4, 8, freq_shift=freq_shift)
    edit = wave_edit(scheme, "denominator", expected, found)

    assert edit == WaveEdit("freq_shift", expected=freq_shift, found=found_shift)


@pytest.mark.parametrize(
    ("scheme", "found", "exponent_dim"),
    [
        pytest.param(Sinusoidal(4, 8), 2.0, 4.0, id="2 would be a shift of 2"),
        pytest.param(Rope(4, 16, partial_rotary_factor=0.5), 8.0, 16.0, id="rope has no shift"),
    ],
)
def test_a_denominator_that_is_no_shift_is_that_of_other_channels(
    scheme: Scheme, found: float, exponent_dim: float
) -> None:
    """Both schemes have 8 channels with frequencies base^(−i/4). A denominator of 2 or 8 is that of 4
    or 16 channels: twice the denominator.
    """
    edit = wave_edit(scheme, "denominator", 4.0, found)
    assert edit == WaveEdit("exponent_dim", expected=8.0, found=exponent_dim)


def test_another_base_of_waves_is_the_parameter_of_this_name() -> None:
    edit = wave_edit(Sinusoidal(4, 8), "base", 10000.0, 9999.0)
    assert edit == WaveEdit("base", expected=10000.0, found=9999.0)


@pytest.mark.parametrize(
    ("scheme", "parameter"),
    [
        pytest.param(YARN, "attention_factor", id="YaRN"),
        pytest.param(Rope(4, 8), "", id="no scaling, and no parameter"),
    ],
)
def test_another_amplitude_of_a_rope_is_the_attention_factor_if_its_scaling_has_one(
    scheme: Scheme, parameter: str
) -> None:
    """YaRN multiplies cosines and sines by its attention factor. Without a scaling no parameter does,
    for which the empty name stands.
    """
    edit = wave_edit(scheme, "amplitude", 1.25, 1.0)
    assert edit == WaveEdit(parameter, expected=1.25, found=1.0)


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
    """`wave_parameters` describes only schemes at consecutive positions, which 3, 1 and 2 are not. As
    the frequencies do not depend on positions, `wave_parameters_without_position_list` returns the
    description of one position with the same frequencies.
    """
    listed = Rope(positions=(3, 1, 2), dim=8, base=500.0)
    assert wave_parameters(listed) is None

    one_position = wave_parameters(Rope(seq_len=1, dim=8, base=500.0))
    assert one_position is not None
    assert wave_parameters_without_position_list(listed) == one_position


def test_a_scheme_at_consecutive_positions_has_its_own_waves_there() -> None:
    """YARN is at the positions 0 to 63, so that both functions describe it in the same way."""
    described = wave_parameters(YARN)
    assert described is not None
    assert wave_parameters_without_position_list(YARN) == described


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(Rope(grid=(2, 2), dim=16, style="eva"), id="a grid has two axes"),
        pytest.param(Alibi(4, 4), id="ALiBi has no waves"),
    ],
)
def test_a_scheme_without_waves_along_one_axis_has_no_wave_parameters(
    scheme: Scheme,
) -> None:
    """`wave_parameters_without_position_list` describes a scheme by waves along one axis of positions."""
    assert wave_parameters_without_position_list(scheme) is None
