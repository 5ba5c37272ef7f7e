"""Tables of cosines and sines in words that rotary and sinusoidal schemes share."""

import math
from functools import singledispatch
from typing import Any, NamedTuple

from pecli.engine.named_values import without_none
from pecli.engine.scalings import name_of
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

USUAL_SHIFTS = (0.0, 0.5, 1.0)
"""Values of `freq_shift` that projects use; another one is an exponent over another dimension."""


class WaveParameters(NamedTuple):
    """The parameters of a table of cosines and sines at consecutive positions, rotary or sinusoidal.

    The frequency of pair i is scale · base^(−i/denominator), changed by the scaling, and 0 from pair
    `rotating_pairs` on.
    """

    dim: int
    denominator: float
    base: float
    scale: float
    scaling: Scaling
    rotating_pairs: int
    amplitude: float
    offset: int
    length: int
    layout: str
    cos_first: bool
    separate: bool  #: True if cosines and sines are two tensors, False if one tensor has both


class WaveEdit(NamedTuple):
    """One of the wave parameters with another value than expected, as a parameter of its scheme."""

    parameter: str  #: empty if the scheme has no such parameter
    expected: float
    found: float


@singledispatch
def wave_parameters(scheme: Scheme) -> WaveParameters | None:
    """Return the parameters of a scheme's table of cosines and sines: base, offset, layout and so on.

    None is returned if it has no such table, or if the rows of the table are not consecutive positions.
    """
    return None


@wave_parameters.register
def _table_of_rope(scheme: Rope) -> WaveParameters | None:
    """Return the parameters of a rotary scheme's tables of cosines and sines: base, offset and so on.

    None is returned if they are not enough to describe the tables: for positions on a grid or from a
    list, and for frequencies that are given one by one (`inv_freq`).
    """
    are_frequencies_listed = scheme.inv_freq is not None
    if are_frequencies_listed or not scheme.is_range:
        return None
    return WaveParameters(
        dim=scheme.rotary_dim,
        denominator=scheme.exponent_dim / 2,  # Pair i has base^(−2i/exponent_dim).
        base=scheme.base,
        scale=1.0,  # Rotary schemes do not multiply positions.
        scaling=scheme.scaling_value,
        rotating_pairs=scheme.rotating_pairs,
        amplitude=scheme.attention_factor_value(),
        offset=scheme.offset,
        length=scheme.seq_len,
        layout=scheme.layout,
        cos_first=True,  # `cos` comes before `sin`.
        separate=True,  # These are two tensors.
    )


@wave_parameters.register
def _table_of_sinusoidal(scheme: Sinusoidal) -> WaveParameters | None:
    """Return the parameters of a sinusoidal scheme's table: one tensor of cosines and sines, without a scaling.

    None is returned for positions on a grid or from a list, which these parameters do not describe.
    """
    if not scheme.is_range:
        return None
    # Consecutive positions are one axis, and all pairs follow it: pair i has base^(−i/denominator).
    (only_axis,) = scheme.axis_blocks
    return WaveParameters(
        dim=scheme.dim,
        denominator=float(only_axis.denominator),
        base=scheme.base,
        scale=scheme.scale,
        scaling=Scaling(),
        rotating_pairs=only_axis.pairs,
        amplitude=scheme.amplitude,
        offset=scheme.offset,
        length=scheme.seq_len,
        layout=scheme.layout,
        cos_first=scheme.cos_first,
        separate=False,
    )


def scheme_with_wave_parameters(
    waves: WaveParameters, **other_parameters: Any
) -> Positioned | None:
    """Return the scheme that makes a table of cosines and sines; None if no scheme does.

    Args:
        waves: The parameters of the table: base, offset, layout and so on.
        other_parameters: Parameters of the scheme that are not among these, such as its dtype.
    """
    try:
        if waves.separate:
            return _rope_of_waves(waves, other_parameters)
        return _sinusoidal_of_waves(waves, other_parameters)
    except ParameterError:
        return None


def _rope_of_waves(waves: WaveParameters, other_parameters: dict[str, Any]) -> Rope | None:
    """Return the rotary scheme that makes a table of cosines and sines; None if no rotary scheme does.

    Args:
        waves: The parameters of the table.
        other_parameters: Parameters of the scheme that are not among these, such as its dtype.
    """
    pairs = waves.dim // 2
    # Rotary schemes have base^(−i/pairs) for pair i, and do not multiply positions by a scale.
    has_rotary_frequencies = waves.denominator == pairs and waves.scale == 1
    if not has_rotary_frequencies:
        return None
    parameters = _scaling_parameters(waves.scaling, waves.amplitude, pairs)
    parameters.update(other_parameters)
    do_only_first_pairs_rotate = waves.rotating_pairs < pairs
    if do_only_first_pairs_rotate:
        parameters["partial_rotary_factor"] = _rotating_share(waves)
    return Rope(
        seq_len=waves.length,
        dim=waves.dim,
        base=waves.base,
        offset=waves.offset,
        layout=waves.layout,
        **parameters,
    )


def _rotating_share(waves: WaveParameters) -> float:
    """Return the share of the dim with which a scheme rotates as many pairs as a table does.

    A scheme multiplies the dim by the share and rounds down. For 15 of 22 pairs, 44 · (15/22) is
    29.999999999999996 in floating point: that loses a pair, unless the share is the next larger number.
    """
    share = waves.rotating_pairs / (waves.dim // 2)
    _, rotating_pairs = waves.scaling.rotary(waves.dim, share)
    return share if rotating_pairs == waves.rotating_pairs else math.nextafter(share, 2.0)


def _scaling_parameters(scaling: Scaling, amplitude: float, pairs: int) -> dict[str, Any]:
    """Return the parameters of a rotary scheme that has a scaling, and cosines of some amplitude.

    YaRN of factor 4 multiplies cosines and sines by 0.1·ln(4) + 1 = 1.139 unless an attention factor
    is given. So an amplitude of 1.139 takes no parameter beside the factor, and 1.2 takes one.
    """
    parameters = without_none(vars(scaling))
    parameters["scaling"] = name_of(scaling)
    has_default_amplitude = math.isclose(amplitude, scaling.attention_value, rel_tol=1e-9)
    if has_default_amplitude:
        return parameters
    return {**parameters, **_parameters_of_amplitude(scaling, amplitude, pairs)}


def _parameters_of_amplitude(scaling: Scaling, amplitude: float, pairs: int) -> dict[str, Any]:
    """Return the parameters that give cosines an amplitude other than that of their scaling.

    - YaRN and LongRoPE have the attention factor.
    - Without a scaling, a LongRoPE stands in for it.
    - Linear and NTK scalings have no such parameter: explanations state the amplitude beside them.
    """
    has_attention_factor = "attention_factor" in scaling.names()
    is_unscaled = scaling == Scaling()
    if has_attention_factor:
        return {"attention_factor": amplitude}
    if is_unscaled:
        return _longrope_for_amplitude(amplitude, pairs)
    return {}


def _longrope_for_amplitude(amplitude: float, pairs: int) -> dict[str, Any]:
    """Return the parameters of a LongRoPE that changes only the amplitude of cosines.

    LongRoPE is the only scaling that has an attention factor and can leave frequencies as they are:
    it divides each of them by a number of a list, which is 1 here. It must have an original length,
    which then makes no difference; 4096 is Phi-3's.
    """
    divisors = (1.0,) * pairs
    return {
        "scaling": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "original_max_position_embeddings": 4096,
        "attention_factor": amplitude,
    }


def has_longrope_for_amplitude(scheme: Scheme) -> bool:
    """Return True if LongRoPE only stands in for an amplitude, as in `_longrope_for_amplitude`.

    The model has no such scaling then, so that none can be missing in other tables.
    """
    return set(scheme.value_of("short_factor", None) or ()) == {1.0}


def _sinusoidal_of_waves(
    waves: WaveParameters, other_parameters: dict[str, Any]
) -> Sinusoidal | None:
    """Return the sinusoidal scheme that makes a table of sines and cosines.

    A table has the frequencies base^(−i/denominator), a scheme has base^(−i/(dim/2 − freq_shift)).
    In fairseq, 512 channels have the denominator 255, so that freq_shift is 256 − 255 = 1.

    Args:
        waves: The parameters of the table.
        other_parameters: Parameters of the scheme that are not among these, such as its dtype.

    Returns:
        The scheme; None if the frequencies are scaled (YaRN, NTK), as only rotary schemes do it.
    """
    if waves.scaling != Scaling():
        return None
    half_dim = waves.dim / 2  # Sines and cosines in turn: 2.5 for 5 channels, s0 c0 s1 c1 s2.
    if waves.layout == "halves":
        half_dim = waves.dim // 2  # An odd channel is zeros: 2 for 5 channels, s0 s1 c0 c1 0.
    return Sinusoidal(
        seq_len=waves.length,
        dim=waves.dim,
        base=waves.base,
        layout=waves.layout,
        cos_first=waves.cos_first,
        freq_shift=half_dim - waves.denominator,
        offset=waves.offset,
        scale=waves.scale,
        amplitude=waves.amplitude,
        **other_parameters,
    )


@singledispatch
def wave_edit(scheme: Scheme, field: str, expected: float, found: float) -> WaveEdit:
    """Return the parameter of a scheme by which a field of its waves differs, with both values.

    Most fields, such as `base`, are parameters of the same name. The denominator of exponents, 32 for 64
    channels, is half of the parameter `exponent_dim`.
    """
    if field == "denominator":
        return WaveEdit("exponent_dim", 2 * expected, 2 * found)
    return WaveEdit(field, expected, found)


_any_wave_edit = wave_edit.dispatch(Scheme)


@wave_edit.register
def _edit_of_rope(scheme: Rope, field: str, expected: float, found: float) -> WaveEdit:
    """Return the edit of a rotary scheme: its amplitude is the attention factor, which only some scalings have."""
    if field == "amplitude":
        has_factor = "attention_factor" in scheme.scaling_value.names()
        return WaveEdit("attention_factor" if has_factor else "", expected, found)
    return _any_wave_edit(scheme, field, expected, found)


@wave_edit.register
def _edit_of_sinusoidal(scheme: Sinusoidal, field: str, expected: float, found: float) -> WaveEdit:
    """Return the edit of a sinusoidal scheme, whose denominator of exponents is dim/2 − freq_shift.

    If 256 is expected for 512 channels and 255 found, freq_shift is 1 instead of 0.
    """
    shift_found = scheme.freq_shift + expected - found
    if field == "denominator" and shift_found in USUAL_SHIFTS:
        return WaveEdit("freq_shift", scheme.freq_shift, shift_found)
    return _any_wave_edit(scheme, field, expected, found)
