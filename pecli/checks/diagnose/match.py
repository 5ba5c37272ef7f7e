"""Whether frequencies, positions and a rounding make the table that was read, and with which amplitude."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.diagnose import amplitude
from pecli.checks.diagnose.angles import Option
from pecli.checks.diagnose.causes import Cause
from pecli.checks.diagnose.padding import Padding
from pecli.checks.diagnose.precision import (
    INFORMATIVE,
    cast,
    drift,
    grain,
    places,
    rounding_error,
)
from pecli.checks.diagnose.readings import WaveReading
from pecli.checks.diagnose.roundings import Rounding
from pecli.checks.diagnose.sample import few
from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

_COLUMNS = 64
_MOST_DRIFT = 0.1
"""Phases that are off by more are not explained as drift, however far out the positions are."""
_EVEN = 1e-6
"""Elements that drift less than this weigh about the same."""
_SCREEN = 12
"""Rows and columns that a combination must fit before all of the sample is looked at."""


@dataclass(frozen=True)
class Agreement:
    """That a combination makes the table: what it needs beyond what was tried, and what is left."""

    causes: tuple[Cause, ...]
    residual: float
    tight: bool
    """Whether no drift of float32 phases had to be allowed."""
    rounded_only: bool
    """Whether the causes are about rounding alone."""


class _Grid(NamedTuple):
    """Some rows and columns of the parts."""

    rows: Floats
    columns: Indices
    parts: tuple[Floats, ...]


class _Model(NamedTuple):
    """What a combination makes of a grid, for each shift: a wave for each part, and what may be off for an amplitude of
    1, (shifts, rows, columns) each.
    """

    waves: tuple[Floats, ...]
    exact: Floats
    float32: Floats
    open: Flags | None


class Matcher:
    """Holds one reading of a table against waves."""

    def __init__(self, scheme: Rope | Sinusoidal, reading: WaveReading, table_dtype: str = "") -> None:
        self.scheme, self.reading = scheme, reading
        self.padding = Padding(scheme, reading)
        rows = self.padding.others
        columns = few(reading.columns, _COLUMNS)
        self._whole = self._grid(rows, columns)
        self._screen = self._grid(rows[few(len(rows), _SCREEN)], columns[few(len(columns), _SCREEN)])
        narrow = min(reading.dtype, scheme.dtype, table_dtype or scheme.dtype, key=places)
        self.dtypes: list[tuple[str, tuple[Cause, ...]]] = [(narrow, ())]
        stored = grain(np.stack(reading.parts).astype(reading.dtype)) if reading.parts else narrow
        if places(stored) < places(narrow):
            self.dtypes.append((stored, (cast(stored),)))

    def _grid(self, rows: Indices, columns: Indices) -> _Grid:
        parts = tuple(part[np.ix_(rows, columns)] for part in self.reading.parts)
        positions = (self.reading.rows[rows] + self.scheme.offset).astype(np.float64)
        return _Grid(positions, columns, parts)

    def residual(self, option: Option, rounding: Rounding) -> float:
        """How far the table is from these waves as they are."""
        if option.frequencies is None or any(self.padding.causes(0)) or not self._whole.rows.size:
            return np.inf
        model = self._model(self._whole, option.frequencies, [0], rounding)
        one = np.ones(1)
        return float(_errors(self._whole.parts, model, option.amplitude * one, [one] * len(model.waves)).max())

    def likely(self, option: Option, shifts: Sequence[int], rounding: Rounding) -> Iterator[bool]:
        """Whether these waves make a small part of the table, with positions that are shifted by so much: all shifts
        are looked at together, which takes hardly longer than one.
        """
        if option.frequencies is None or not self._whole.rows.size:
            return iter([False] * len(shifts))
        parts, model = self._screen.parts, self._model(self._screen, option.frequencies, shifts, rounding)
        heights, signs = _fitted(parts, model)
        errors = _errors(parts, model, heights, signs)
        dtype, _ = self.dtypes[-1]
        allowed = 2 * _spread(heights) * (rounding_error(np.array(1.0), dtype) + model.float32) + 1e-30
        return iter(((heights > 0) & (errors <= allowed).all(axis=(0, 2, 3))).tolist())

    def matches(self, option: Option, shift: int, rounding: Rounding) -> Iterator[Agreement]:
        """The amplitudes with which these waves make the table."""
        if option.frequencies is None or not self._whole.rows.size:
            return
        model = self._model(self._whole, option.frequencies, [shift], rounding)
        heights, signs = _fitted(self._whole.parts, model)
        if not heights[0]:
            return
        for value, causes in amplitude.candidates(self.scheme, option.amplitude, float(heights[0])):
            found = self._accepted(model, value, signs)
            if found is not None:
                rounded, residual, tight = found
                causes = (*causes, *_negated(self.reading.functions, signs), *self.padding.causes(shift))
                yield Agreement((*causes, *rounded), residual, tight, not causes)
                return

    def _model(self, grid: _Grid, frequencies: Floats, shifts: Sequence[int], rounding: Rounding) -> _Model:
        chosen, shape = frequencies[grid.columns], (len(shifts), len(grid.rows), len(grid.columns))
        flat, open_ = rounding.angles(np.add.outer(shifts, grid.rows).reshape(-1), frequencies, grid.columns)
        angles = flat.reshape(shape)
        with np.errstate(invalid="ignore"):  # float16 has infinite phases
            waves = tuple(np.cos(angles) if name == "cos" else np.sin(angles) for name in self.reading.functions)
        single = drift(angles, chosen, 24)
        exact = single * 2.0**-27
        phases = exact if rounding.phases else np.minimum(single, _MOST_DRIFT)
        return _Model(waves, exact, phases, None if open_ is None else open_.reshape(shape))

    def _accepted(
        self, model: _Model, height: float, signs: Sequence[Floats]
    ) -> tuple[tuple[Cause, ...], float, bool] | None:
        errors = _errors(self._whole.parts, model, np.array([height]), signs)
        for dtype, causes in self.dtypes:
            lost = [rounding_error(wave, dtype) for wave in model.waves]
            for tight, phases in ((True, model.exact), (False, model.float32)):
                if not tight and (phases < INFORMATIVE).mean() < 0.1:
                    continue
                allowed = height * (np.stack(lost) + phases)
                if (errors <= allowed).all():
                    return causes, float(errors.max()), tight
        return None


def _spread(values: Any) -> Any:
    """A value a shift, beside rows and columns."""
    return values[:, None, None]


def _errors(parts: tuple[Floats, ...], model: _Model, heights: Floats, signs: Sequence[Floats]) -> Floats:
    """What is left of each part, (parts, shifts, rows, columns)."""
    errors = np.stack(
        [
            np.abs(part - _spread(heights * sign) * wave)
            for part, wave, sign in zip(parts, model.waves, signs, strict=True)
        ]
    )
    if model.open is not None:
        errors[:, model.open] = 0
    return errors


def _fitted(parts: tuple[Floats, ...], model: _Model) -> tuple[Floats, list[Floats]]:
    """The amplitude for each shift, by least squares where the waves can be told, and the sign of each part."""
    telling = (model.float32 < INFORMATIVE).any(axis=(1, 2))
    drift = np.where(_spread(telling), model.float32, model.exact)
    weights = np.where(drift < INFORMATIVE, (drift + _EVEN) ** -2.0, 0.0)
    if model.open is not None:
        weights[model.open] = 0
    products = [(weights * part * wave).sum(axis=(1, 2)) for part, wave in zip(parts, model.waves, strict=True)]
    squares = sum((weights * wave * wave).sum(axis=(1, 2)) for wave in model.waves)
    enough = squares > 1e-12 * weights.sum(axis=(1, 2))
    heights = np.divide(sum(map(np.abs, products)), squares, out=np.zeros(len(enough)), where=enough)
    return heights, [np.where(product < 0, -1.0, 1.0) for product in products]


def _negated(functions: tuple[str, ...], of_parts: Sequence[Floats]) -> tuple[Cause, ...]:
    signs = [float(sign[0]) for sign in of_parts]
    if min(signs) > 0:
        return ()
    if len(functions) > 1 and max(signs) < 0:
        return (Cause("it is negated"),)
    (name,) = (function for function, sign in zip(functions, signs, strict=True) if sign < 0)
    return (Cause(f"{name} is negated" + (" (it turns the other way)" if name == "sin" else "")),)
