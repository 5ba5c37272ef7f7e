"""From a scheme to the computation of its tables, and back to the scheme that makes them."""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.changed_schemes import SchemeT
from pecli.explain.computation import (
    Columns,
    Computation,
    FrequencyComputation,
    SchemeComputation,
    Vector,
    WaveComputation,
)
from pecli.explain.frequency_schedule import (
    FrequencySchedule,
    schedule_of,
    wave_parameters_of_schedule,
    wave_parameters_without_position_list,
    with_frequencies_of,
)
from pecli.explain.wave_tables import WaveParameters, scheme_with_wave_parameters


def computation_of(scheme: Positioned, tensors: tuple[str, ...]) -> WaveComputation:
    """Return the steps by which a scheme makes some of its tensors: frequencies, positions, columns and so on.

    To find out why a file differs, a search changes one of these steps (another base, two columns
    exchanged) and compares the result with the file.

    Args:
        scheme: A rotary or sinusoidal scheme.
        tensors: The names of the tensors: ("cos", "sin"), one of them, ("pe",) or ("inv_freq",).
    """
    schedule = _schedule_of_scheme(scheme)
    frequencies = _frequencies(scheme, schedule)
    if tensors == ("inv_freq",):
        return _computation_of_vector(frequencies, schedule)
    return _computation_of_table(scheme, tensors, frequencies, schedule)


def _computation_of_table(
    scheme: Positioned,
    tensors: tuple[str, ...],
    frequencies: Floats,
    schedule: FrequencySchedule | None,
) -> WaveComputation:
    """Return the steps that make a table, amplitude · cos(position · frequency) and the sines likewise.

    The position of a pair is that of the row along one axis. On a grid of patches, some pairs have the
    row's height as their position, and the others its width.

    Args:
        scheme: The scheme, which states the positions of the rows and the order of the columns.
        tensors: The names of its tables.
        frequencies: Radians per position, one per pair of cosine and sine.
        schedule: The formula of the frequencies; None if they have no single one.
    """
    pairs = len(frequencies)
    # 0 0 1 1 on a grid: height, height, width, width. A table of one channel has no pair.
    axis_of_each_pair = np.array(scheme.pair_axes[:pairs], np.intp)
    positions = _positions_of_rows(scheme)
    return WaveComputation(
        frequencies=frequencies,
        axes=axis_of_each_pair,
        positions=positions,
        amplitude=_amplitude(scheme),
        form=_columns(scheme, tensors, pairs),  # the cosine or sine in each column
        schedule=schedule,
        empty_rows=_empty_rows(scheme, positions),  # those that hold zeros, as of padding
    )


def _schedule_of_scheme(scheme: Positioned) -> FrequencySchedule | None:
    """Return the formula of a scheme's frequencies, such as base^(−i/32) with the base 10000.

    None is returned for schemes on a grid, whose axes may each have a formula of their own, and for
    frequencies that are given one by one.
    """
    parameters = wave_parameters_without_position_list(scheme)
    return None if parameters is None else schedule_of(parameters)


def _computation_of_vector(
    frequencies: Floats, schedule: FrequencySchedule | None
) -> FrequencyComputation:
    """Return the steps that make a vector of frequencies: a single row with the angles at position 1.

    It has only one axis of positions, since a vector does not show along which axis a pair turns.
    """
    return FrequencyComputation(
        frequencies=frequencies,
        axes=np.zeros(len(frequencies), np.intp),
        positions=np.ones((1, 1)),
        amplitude=1.0,
        form=Vector(),
        schedule=schedule,
    )


def _frequencies(scheme: Positioned, schedule: FrequencySchedule | None) -> Floats:
    """Return the radians per position of each pair: by its formula, or else as the engine has them."""
    if schedule is not None:
        return schedule.frequencies
    return np.array(scheme.angular_frequencies())


def _amplitude(scheme: Positioned) -> float:
    """Return what cosines and sines are multiplied by: rotary schemes have an attention factor for it."""
    return float(scheme.value_of("amplitude", scheme.attention_factor_value()))


def _positions_of_rows(scheme: Positioned) -> Floats:
    """Return the position of each row of a scheme's table along each axis, (axes, rows).

    The rows 5 6 7 of a text are at 5 6 7 on its only axis. With M-RoPE, they are at 5 6 7 on the axes
    of time, height and width alike.
    """
    if not scheme.is_range:
        return _positions_of_placed_rows(scheme)
    first = scheme.first_position
    positions = np.arange(first, first + scheme.seq_len, dtype=np.float64)
    highest_axis = max(scheme.pair_axes, default=0)  # of all axes that some pair follows
    return np.broadcast_to(positions, (highest_axis + 1, scheme.seq_len))


def _positions_of_placed_rows(scheme: Positioned) -> Floats:
    """Return the positions (axes, rows) of rows that lie on a grid, or are listed by the scheme.

    Rows of a 2 × 3 grid have the positions 0 0 0 1 1 1 along the first axis, and 0 1 2 0 1 2 along the
    second. The engine has the second axis as the values 0 1 2 and the index 0 1 2 0 1 2 into these.
    """
    coordinates = scheme.coordinates()
    index_of_all_rows = coordinates.index(0, coordinates.rows)  # (axes, rows)
    positions_of_axes = []
    for values, index in zip(coordinates.values, index_of_all_rows, strict=True):
        values_of_axis = np.array([float(value) for value in values])
        positions_of_axes.append(values_of_axis[index])
    return np.array(positions_of_axes)


@singledispatch
def _columns(scheme: Positioned, tensors: tuple[str, ...], pairs: int) -> Columns:
    """Return what each column of some tensors of a scheme holds."""
    raise TypeError(f"the columns of a {type(scheme).__name__} are unknown")


@_columns.register
def _rotary_columns(scheme: Rope, tensors: tuple[str, ...], pairs: int) -> Columns:
    return Columns(tensors, scheme.layout, pairs, scheme.rotary_dim)


@_columns.register
def _sinusoidal_columns(scheme: Sinusoidal, tensors: tuple[str, ...], pairs: int) -> Columns:
    """Return the columns of a table, whose axes may each have halves of their own.

    A block is a number of pairs. On an image, MAE's table of 64 columns has two blocks of 16: 16 sines and
    16 cosines of the height, then those of the width.
    """
    blocks: tuple[int, ...] = ()
    if scheme.layout == "halves":
        blocks = tuple(half.left.stop - half.left.start for half in scheme.half_columns())
    return Columns(tensors, scheme.layout, pairs, scheme.dim, scheme.cos_first, blocks)


def _empty_rows(scheme: Positioned, positions: Floats) -> Flags:
    """Return True for each row that holds zeros: that of padding, and those of class tokens.

    With padding_idx 1, it is the row at position 1. A grid with keep = 1 begins with a row for the
    class token. Rotary schemes have no rows of zeros: they do not rotate a class token.
    """
    if scheme.applied_as != "rows":
        return np.zeros(positions.shape[1], bool)
    is_empty = np.asarray(positions[0] == scheme.value_of("padding_idx"))  # all False for None
    class_tokens = scheme.keep or 0
    is_empty[:class_tokens] = True
    return is_empty


@singledispatch
def scheme_of(computation: Computation, specification: Scheme) -> Scheme | None:
    """Return the scheme that makes such tensors, for the command that reproduces them: `pecli rope --base …`.

    Mistakes for which a scheme has no parameter (swapped columns, rows in another order) are left out,
    since explanations state them beside the command.

    Args:
        computation: The steps that made the tensors, including mistakes.
        specification: The scheme that should have made them.

    Returns:
        The scheme; None if no scheme has such frequencies (a scaling that is applied twice).
    """
    return specification


@scheme_of.register
def _scheme_of_parameters(computation: SchemeComputation, specification: Scheme) -> Scheme | None:
    return computation.scheme


@scheme_of.register
def _scheme_of_waves(computation: WaveComputation, specification: Scheme) -> Scheme | None:
    """Return the scheme that makes the cosines and sines, or the frequencies, of a file; None if none does.

    `pecli rope --base 10000` should have made the file. If its frequencies are those of base 500000, the
    scheme of `pecli rope --base 500000` is returned.

    Args:
        computation: The steps that made the numbers of the file, mistakes included.
        specification: The scheme that should have made them.
    """
    has_consecutive_positions = specification.is_range
    if not has_consecutive_positions:
        # Wave parameters, such as the offset, do not describe rows on a grid or at listed positions.
        return specification
    schedule = computation.schedule  # the formula of the frequencies, base^(−i/denominator)
    if schedule is None or not _can_schemes_have(schedule):
        return None
    holds_queries_or_keys = computation.are_rows_tokens
    if holds_queries_or_keys:
        return _scheme_of_rotation(specification, schedule, computation)
    if isinstance(computation.form, Columns):  # The file holds a table of cosines and sines.
        return _scheme_of_table(specification, schedule, computation, computation.form)
    return _scheme_of_vector(specification, schedule)  # It holds one row of frequencies.


def _can_schemes_have(schedule: FrequencySchedule) -> bool:
    """Return True if a scheme can have frequencies of some formula, since it has parameters for it.

    It has none for a scaling that is applied twice, or that uses another dimension than the exponents.
    """
    return schedule.applied == "once" and schedule.scaling_denominator is None


def _scheme_of_table(
    specification: Scheme,
    schedule: FrequencySchedule,
    computation: WaveComputation,
    columns: Columns,
) -> Scheme | None:
    """Return the scheme that makes a table of cosines and sines as it was found in a file; None if none does.

    `pecli rope --base 10000` should have made the table. If the table has the base 500000 and begins at
    position 1, the scheme of `pecli rope --base 500000 --offset 1` is returned.

    Args:
        specification: The scheme that should have made the table.
        schedule: The formula of the table's frequencies. Sinusoidal schemes have none with a scaling.
        computation: The steps that made the table.
        columns: What each column of the table holds: the cosine or the sine of which frequency.

    Returns:
        The scheme; None if none has such parameters: sinusoidal tables have no scaling, for example,
        and each of their frequencies is that of a sine and of a cosine.
    """
    if columns.has_pair_per_column:
        return None
    parameters = _parameters_of_table(
        schedule,
        columns,
        positions=computation.positions[0],  # Consecutive positions are the same on all axes.
        amplitude=computation.amplitude,
    )
    # Rotary schemes have two tensors, `cos` and `sin`. A sinusoidal one holds both functions.
    is_rotary = specification.applied_as == "rotation"
    parameters = parameters._replace(separate=is_rotary)
    return scheme_with_wave_parameters(parameters, dtype=specification.dtype)


def _parameters_of_table(
    schedule: FrequencySchedule, columns: Columns, positions: Floats, amplitude: float
) -> WaveParameters:
    """Return the parameters of a table of cosines and sines: base, offset, amplitude, layout and so on.

    Args:
        schedule: The formula of the frequencies, with the base and the scaling.
        columns: What each column of the table holds.
        positions: The consecutive positions of the rows: 1 2 3 have the offset 1.
        amplitude: The factor of all cosines and sines, such as 1.1.
    """
    usual_parameters = wave_parameters_of_schedule(schedule, columns.dim, rows=len(positions))
    return usual_parameters._replace(
        amplitude=amplitude,
        offset=_offset_of(positions),
        layout=columns.layout,
        cos_first=columns.cos_first,
    )


def _offset_of(positions: Floats) -> int:
    """Return the offset of a scheme whose rows have such positions: 5 for 5 6 7.

    It is 0 if they start below 0, since no scheme has a negative offset. The explanation beside the
    command says which positions were used.
    """
    return max(0, int(positions[0]))


def _scheme_of_rotation(
    specification: Scheme, schedule: FrequencySchedule, computation: WaveComputation
) -> Scheme | None:
    """Return the scheme that rotates queries or keys as they were rotated in a file; None if none does.

    They should have been rotated by `pecli rope --base 10000`. If they were rotated with the base 500000,
    from position 1 on, the scheme of `pecli rope --base 500000 --offset 1` is returned.

    Args:
        specification: The scheme that should have rotated them.
        schedule: The formula of the frequencies by which they were rotated.
        computation: The steps of their rotation, with the positions, and the amplitude of cosines and sines.
    """
    expected = _expected_wave_parameters(specification)
    offset = _offset_of(computation.positions[0])
    has_expected_frequencies = schedule == schedule_of(expected)
    has_expected_amplitude = computation.amplitude == expected.amplitude
    if has_expected_frequencies and has_expected_amplitude:
        # Only positions may differ. This keeps all other options of the expected command.
        return with_parameter(specification, "offset", offset)
    found = with_frequencies_of(schedule, expected)._replace(
        dim=2 * schedule.pairs,  # A pair is two channels.
        amplitude=computation.amplitude,
        offset=offset,
    )
    return scheme_with_wave_parameters(found, dtype=specification.dtype)


def _expected_wave_parameters(specification: Scheme) -> WaveParameters:
    """Return the parameters of the cosines and sines that a scheme makes: base, amplitude, offset, ….

    The frequencies of the scheme must have a formula: then it has cosines and sines.
    """
    parameters = wave_parameters_without_position_list(specification)
    assert parameters is not None
    return parameters


def _scheme_of_vector(specification: Scheme, schedule: FrequencySchedule) -> Scheme | None:
    """Return the scheme that makes a vector of frequencies, with everything else as specified.

    Frequencies do not show an amplitude: it is the default of their scaling.
    """
    expected = _expected_wave_parameters(specification)
    found = with_frequencies_of(schedule, expected)._replace(
        amplitude=schedule.scaling.attention_value
    )
    return scheme_with_wave_parameters(found, dtype=specification.dtype)


def with_parameter(scheme: SchemeT, name: str, value: int) -> SchemeT:
    """Return the scheme with another value of a parameter that it has.

    Raises:
        ParameterError: The scheme refuses the value.
    """
    changes: dict[str, Any] = {name: value}
    return replace(scheme, **changes)
