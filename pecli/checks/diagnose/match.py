"""Whether frequencies, positions and a rounding make the table that was read, and with which amplitude."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
from pecli.engine.rope import Rope
from pecli.engine.sinusoidal import Sinusoidal

if TYPE_CHECKING:
    from pecli.engine.arrays import Flags, Floats, Places

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
    columns: Places
    parts: tuple[Floats, ...]


class _Model(NamedTuple):
    """What a combination makes of a grid: a wave for each part, and what may be off for an amplitude of 1."""

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

    def _grid(self, rows: Places, columns: Places) -> _Grid:
        parts = tuple(part[np.ix_(rows, columns)] for part in self.reading.parts)
        positions = (self.reading.rows[rows] + self.scheme.offset).astype(np.float64)
        return _Grid(positions, columns, parts)

    def residual(self, option: Option, rounding: Rounding) -> float:
        """How far the table is from these waves as they are."""
        if option.frequencies is None or any(self.padding.causes(0)) or not self._whole.rows.size:
            return np.inf
        model = self._model(self._whole, option.frequencies, 0, rounding)
        return float(_errors(self._whole.parts, model, option.amplitude, (1,) * len(model.waves)).max())

    def matches(self, option: Option, shift: int, rounding: Rounding) -> Iterator[Agreement]:
        """The amplitudes with which these waves make the table."""
        if option.frequencies is None or not self._whole.rows.size:
            return
        for grid in (self._screen, self._whole):
            model = self._model(grid, option.frequencies, shift, rounding)
            height, signs = _fitted(grid.parts, model)
            if not height or (grid is self._screen and not self._likely(model, height, signs)):
                return
        for value, causes in amplitude.candidates(self.scheme, option.amplitude, height):
            found = self._accepted(model, value, signs)
            if found is not None:
                rounded, residual, tight = found
                causes = (*causes, *_negated(self.reading.functions, signs), *self.padding.causes(shift))
                yield Agreement((*causes, *rounded), residual, tight, not causes)
                return

    def _model(self, grid: _Grid, frequencies: Floats, shift: int, rounding: Rounding) -> _Model:
        chosen = frequencies[grid.columns]
        angles, open_ = rounding.angles(grid.rows + shift, frequencies, grid.columns)
        with np.errstate(invalid="ignore"):  # float16 has infinite phases
            waves = tuple(np.cos(angles) if name == "cos" else np.sin(angles) for name in self.reading.functions)
        exact = drift(angles, chosen, 51)
        phases = exact if rounding.phases else np.minimum(drift(angles, chosen, 24), _MOST_DRIFT)
        return _Model(waves, exact, phases, open_)

    def _likely(self, model: _Model, height: float, signs: tuple[int, ...]) -> bool:
        errors = _errors(self._screen.parts, model, height, signs)
        dtype, _ = self.dtypes[-1]
        return bool((errors <= 2 * height * (rounding_error(np.array(1.0), dtype) + model.float32) + 1e-30).all())

    def _accepted(
        self, model: _Model, height: float, signs: tuple[int, ...]
    ) -> tuple[tuple[Cause, ...], float, bool] | None:
        errors = _errors(self._whole.parts, model, height, signs)
        for dtype, causes in self.dtypes:
            lost = [rounding_error(wave, dtype) for wave in model.waves]
            for tight, phases in ((True, model.exact), (False, model.float32)):
                if not tight and (phases < INFORMATIVE).mean() < 0.1:
                    continue
                allowed = height * (np.stack(lost) + phases)
                if (errors <= allowed).all():
                    return causes, float(errors.max()), tight
        return None


def _errors(parts: tuple[Floats, ...], model: _Model, height: float, signs: tuple[int, ...]) -> Floats:
    errors = np.stack(
        [np.abs(part - height * sign * wave) for part, wave, sign in zip(parts, model.waves, signs, strict=True)]
    )
    if model.open is not None:
        errors[:, model.open] = 0
    return errors


def _fitted(parts: tuple[Floats, ...], model: _Model) -> tuple[float, tuple[int, ...]]:
    """The amplitude, by least squares where the waves can be told, and the sign of each part."""
    drift = model.float32 if (model.float32 < INFORMATIVE).any() else model.exact
    weights = np.where(drift < INFORMATIVE, (drift + _EVEN) ** -2.0, 0.0)
    if model.open is not None:
        weights[model.open] = 0
    products = [float((weights * part * wave).sum()) for part, wave in zip(parts, model.waves, strict=True)]
    squares = sum(float((weights * wave * wave).sum()) for wave in model.waves)
    height = sum(map(abs, products)) / squares if squares > 1e-12 * weights.sum() else 0.0
    return height, tuple(-1 if x < 0 else 1 for x in products)


def _negated(functions: tuple[str, ...], signs: tuple[int, ...]) -> tuple[Cause, ...]:
    if min(signs) > 0:
        return ()
    if len(functions) > 1 and max(signs) < 0:
        return (Cause("it is negated"),)
    (name,) = (function for function, sign in zip(functions, signs, strict=True) if sign < 0)
    return (Cause(f"{name} is negated" + (" (it turns the other way)" if name == "sin" else "")),)
