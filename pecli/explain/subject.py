"""From a scheme to the making of its tables, and back to the scheme that makes them."""

from dataclasses import replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.law import Law, consecutive, law_of, waves_of_law, with_law
from pecli.explain.making import Columns, FrequencyMaking, Making, SchemeMaking, Vector, WaveMaking
from pecli.explain.wave_tables import scheme_of_waves


def making_of(scheme: Scheme, tensors: tuple[str, ...]) -> WaveMaking | None:
    """Return the making of some tensors of a scheme; None if they are not cosines, sines or frequencies."""
    if not isinstance(scheme, Positioned):
        return None
    waves = consecutive(scheme)
    law = law_of(waves) if waves is not None else None
    frequencies = _frequencies(scheme, law)
    pairs = len(frequencies)
    axes = np.array((scheme.pair_axes or [0] * pairs)[:pairs])
    if tensors == ("inv_freq",):
        vector = np.ones((1, 1))
        return FrequencyMaking(frequencies, 0 * axes, vector, 1.0, Vector(), law)
    positions = _positions(scheme)
    return WaveMaking(
        frequencies,
        axes,
        positions,
        _amplitude(scheme),
        _columns(scheme, tensors, pairs),
        law,
        empty_rows=_empty_rows(scheme, positions),
    )


def _frequencies(scheme: Positioned, law: Law | None) -> Floats:
    if law is not None:
        return law.frequencies
    return np.array(scheme.angular_frequencies())


def _amplitude(scheme: Any) -> float:
    """Return what cosines and sines are multiplied by."""
    if scheme.applied_as == "rotation":
        return float(scheme.attention_factor_value())
    return float(scheme.amplitude)


def _positions(scheme: Positioned) -> Floats:
    """Return the positions of all rows, (axes, rows)."""
    if scheme.is_range:
        first = scheme.first_position
        positions = np.arange(first, first + scheme.seq_len, dtype=np.float64)
        return np.tile(positions, (max(scheme.pair_axes, default=0) + 1, 1))
    coordinates = scheme.coordinates()
    index = coordinates.index(0, coordinates.rows)
    return np.array(
        [
            np.array([float(value) for value in values])[places]
            for values, places in zip(coordinates.values, index, strict=True)
        ]
    )


def _columns(scheme: Any, tensors: tuple[str, ...], pairs: int) -> Columns:
    if scheme.applied_as == "rotation":
        return Columns(tensors, scheme.layout, pairs, scheme.rotary_dim)
    blocks: tuple[int, ...] = ()
    if scheme.layout == "halves":
        blocks = tuple(block.left.stop - block.left.start for block in scheme.half_columns())
    return Columns(tensors, scheme.layout, pairs, scheme.dim, scheme.cos_first, blocks)


def _empty_rows(scheme: Any, positions: Floats) -> Flags | None:
    """Return which rows hold zeros: that of padding, and those beside a grid."""
    if scheme.applied_as != "rows":
        return None
    empty = np.zeros(positions.shape[1], bool)
    if scheme.padding_idx is not None:
        empty |= positions[0] == scheme.padding_idx
    empty[: scheme.keep or 0] = True
    return empty if empty.any() else None


def scheme_of(making: Making, specification: Scheme) -> Scheme | None:
    """Return the scheme with the parameters of a making; None if no scheme has them.

    What no parameter tells (swapped columns, rows in another order) is left out: explanations state it.
    """
    if not making.is_of_scheme:
        return None
    if isinstance(making, SchemeMaking):
        return making.scheme
    if not isinstance(making, WaveMaking):
        return specification
    law = making.law
    form = making.form
    if law is None or not specification.is_range:
        return specification
    is_expressible = law.applied == "once" and law.scaling_half is None
    if not is_expressible:
        return None
    positions = making.positions[0]
    if making.places_tokens:
        return _rotating(specification, law, making)
    if not isinstance(form, Columns):
        return _with_law(specification, law)
    first = int(positions[0]) if len(positions) else 0
    is_rotary = specification.applied_as == "rotation"
    waves = waves_of_law(law, form.dim, rows=len(positions))._replace(
        amplitude=making.amplitude,
        offset=max(0, first),
        layout=form.layout,
        cos_first=form.cos_first or is_rotary,
        separate=is_rotary,
    )
    return scheme_of_waves(waves, dtype=specification.dtype)


def _rotating(specification: Scheme, law: Law, making: WaveMaking) -> Scheme | None:
    """Return the scheme that rotates queries as a making does, from its first position on."""
    waves = consecutive(specification)
    if waves is None:
        return None
    first = int(making.positions[0, 0])
    if law == law_of(waves) and making.amplitude == waves.amplitude:
        changes: Any = {"offset": max(0, first)}
        return replace(specification, **changes)
    changed = with_law(waves, law)._replace(
        dim=2 * law.pairs, amplitude=making.amplitude, offset=max(0, first)
    )
    return scheme_of_waves(changed, dtype=specification.dtype)


def _with_law(specification: Scheme, law: Law) -> Scheme | None:
    """Return a scheme with the frequencies of a law, and everything else as specified."""
    waves = consecutive(specification)
    if waves is None:
        return None
    changed = with_law(waves, law)._replace(amplitude=law.scaling.attention_value)
    return scheme_of_waves(changed, dtype=specification.dtype)
