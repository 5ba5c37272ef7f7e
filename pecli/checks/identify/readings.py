"""From the parts of a table to schemes that may have made it: offset, law and scaling, most likely first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.identify import aliases, frequencies, heights, laws, positions, refine
from pecli.checks.identify.curve import Curve, geometric
from pecli.checks.identify.frequencies import Channels, silent_rows
from pecli.checks.identify.heights import Height
from pecli.engine.rope import Rope
from pecli.engine.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.waves import Source
    from pecli.engine.arrays import Floats
    from pecli.engine.scheme import Scheme

_MOST = 1 << 18
"""Elements of a part from which frequencies are measured; all are compared at the end."""


@dataclass(frozen=True)
class Look:
    """The parts with a meaning: which is the cosine, where the positions start, how fast each channel turns."""

    curve: Curve
    offset: int
    height: Height
    sine_first: bool = False
    sine: bool = False
    """Of one function alone: it is the sine."""
    open_offsets: tuple[int, ...] = ()

    @property
    def amplitude(self) -> float:
        return self.height.value

    def angles(self, rows: int) -> Floats:
        """The largest angle of each row."""
        fastest = float(np.abs(self.curve.frequency).max(initial=0.0))
        return (self.offset + np.arange(rows, dtype=np.float64)) * fastest


@dataclass(frozen=True)
class Proposal:
    """A scheme to be held against the table."""

    scheme: Scheme
    form: str
    undetermined: tuple[str, ...]
    enough: int = 1
    """How many schemes explain such a table."""


def looks(parts: tuple[Floats, ...], unit: float) -> Iterator[Look]:
    """Every meaning that the parts can have."""
    rows = min(len(parts[0]), max(64, _MOST // parts[0].shape[1]))
    parts = tuple(np.asarray(part[:rows], np.float64) for part in parts)
    if len(parts) == 1:
        yield from sorted(_looks_at_one(parts[0], unit), key=lambda look: look.offset)
    elif frequencies.constant_size((parts[0], parts[1]), unit):
        yield from _looks_at_both(parts[0], parts[1], unit)


def _looks_at_both(first: Floats, second: Floats, unit: float) -> Iterator[Look]:
    measured = frequencies.two_functions(first, second, unit)
    significant = np.abs(measured.frequency) > 8 * measured.frequency_error
    slowest = np.where(significant, np.abs(measured.frequency), np.inf).argmin()
    backwards = bool(measured.frequency[slowest] < 0)
    for sine_first in (backwards, not backwards):
        cosine, sine = (second, first) if sine_first else (first, second)
        channels = _turned_over(measured) if sine_first else measured
        channels = aliases.unfolded(channels)
        rough = Height(channels.amplitude, channels.amplitude * unit / 4)
        for offset, start in _starts(channels):
            curve = Curve(*refine.from_both(cosine, sine, offset, start, unit))
            height = heights.measured({"cos": cosine, "sin": sine}, curve, offset, rough, unit)
            yield Look(curve, offset, height, sine_first)


def _turned_over(channels: Channels) -> Channels:
    """The channels with cosine and sine exchanged."""
    return replace(channels, frequency=-channels.frequency, phase=frequencies.wrapped(np.pi / 2 - channels.phase))


def _looks_at_one(values: Floats, unit: float) -> Iterator[Look]:
    measured = frequencies.one_function(values, unit)
    if measured is None:
        return
    rough = Height(measured.amplitude, max(measured.amplitude_error, measured.amplitude * unit / 4))
    amplitude = 1.0 if rough.near(1.0) else measured.amplitude
    known = np.isfinite(measured.frequency_error)
    for sine in (False, True):
        phase = frequencies.wrapped(measured.phase + (np.pi / 2 if sine else 0.0))
        channels = replace(measured, phase=phase)
        for offset, start in _starts(channels):
            law = geometric(
                Curve(np.where(known, start, 0.0), np.where(known, measured.frequency_error, np.inf)).loosened(1e-7)
            )
            start = np.where(known, start, np.exp(law.logs(len(start))) if law else 0.1 / (offset + len(values)))
            found, error = refine.from_one(values / amplitude, sine, offset, start, ~known, unit)
            curve = Curve(found, error)
            name = {"sin" if sine else "cos": values}
            yield Look(curve, offset, heights.measured(name, curve, offset, rough, unit), sine=sine)


def _starts(channels: Channels) -> Iterator[tuple[int, Floats]]:
    """Offsets with the frequencies that go with them: measured ones, or those of a law with round parameters."""
    done = set()
    for frequency, error in _guesses(channels):
        for offset in positions.offsets(frequency, error, channels.phase, channels.phase_error):
            if offset not in done:
                done.add(offset)
                here = replace(channels, frequency=frequency, frequency_error=error)
                yield offset, refine.at_offset(here, offset)


def _guesses(channels: Channels) -> Iterator[tuple[Floats, Floats]]:
    """The frequencies as measured, then as laws with round parameters have them, which are sharper."""
    yield channels.frequency, channels.frequency_error
    curve, count = Curve(channels.frequency, channels.frequency_error), len(channels.frequency)
    law = geometric(curve.inflated(3), 0.0) or geometric(curve.inflated(3))
    if law is not None and np.isfinite(law.step_error):
        for level in laws.round_levels(law):
            fixed = geometric(curve.inflated(4), level) or law
            for shift in (0.0, 1.0):
                for reading in laws.shifted(fixed, count, shift):
                    step = np.log(reading.parameters["base"]) / (count - shift)
                    yield np.exp(level - step * np.arange(count)), np.zeros(count)
        return
    for reading in islice(laws.rope(curve, Height(channels.amplitude, channels.amplitude * 1e-2)), 6):
        scheme = _made(Rope, seq_len=1, dim=2 * count, **reading.parameters)
        if isinstance(scheme, Rope) and reading.parameters.get("scaling") != "longrope":
            yield np.array(scheme.frequencies().floats()), np.zeros(count)


def proposals(look: Look, source: Source) -> Iterator[Proposal]:
    """Schemes that would give what was seen."""
    arrangement, doubled = source.form.arrangement, source.form.doubled
    flat = arrangement in ("interleaved", "halves") and not doubled and len(source.parts) == 2
    if flat:
        yield from _sinusoidal(look, source)
    padded = source.form.padded or (len(source.parts) == 2 and silent_rows(*source.parts).any())
    if not padded:
        yield from _rope(look, source, flat)


def _sinusoidal(look: Look, source: Source) -> Iterator[Proposal]:
    dim = source.whole.shape[1]
    halves = source.form.arrangement == "halves"
    silent = np.flatnonzero(silent_rows(*source.parts))
    if len(silent) > 1:
        return
    fixed: dict[str, Any] = {
        "layout": source.form.arrangement,
        "cos_first": not look.sine_first,
        "offset": look.offset,
        "padding_idx": look.offset + int(silent[0]) if len(silent) else None,
        "dtype": source.dtype,
    }
    half = dim // 2 if halves else dim / 2
    for reading in laws.sinusoidal(look.curve, half, look.height, dim):
        scheme = _made(Sinusoidal, seq_len=source.length, dim=dim, **fixed, **reading.parameters)
        if scheme is not None:
            both = not look.sine_first and reading.parameters["scale"] == 1 and dim % 2 == 0
            form = "transposed" if source.form.transposed else ""
            yield Proposal(scheme, form, reading.undetermined, 1 + both)


def _rope(look: Look, source: Source, flat: bool) -> Iterator[Proposal]:
    arrangement, doubled = source.form.arrangement, source.form.doubled
    own = arrangement in ("stacked", "alone") and not source.form.transposed
    paired = len(source.names) == 2 or arrangement == "stacked"
    words = source.form.words() if not (own and paired) else ""
    if len(source.names) == 2 and source.form.transposed:
        words = "transposed"
    if arrangement == "alone" and len(source.names) == 1:
        words = words.replace("one function of the angle", "the sine alone" if look.sine else "the cosine alone")
    if look.sine_first and len(source.names) == 1:
        words = ", ".join(filter(None, [words, "sine first"]))
    half = source.parts[0].shape[1]
    for reading in laws.rope(look.curve, look.height):
        if flat and reading.parameters.get("scaling") == "longrope" and reading.cost >= 1000:
            continue
        scheme = _made(
            Rope,
            seq_len=source.length,
            dim=2 * half,
            layout=doubled or "compact",
            offset=look.offset,
            dtype=source.dtype,
            **reading.parameters,
        )
        if scheme is not None:
            yield Proposal(scheme, words, reading.undetermined, 2 if flat else 1)


def _made(kind: type[Scheme], **parameters: Any) -> Scheme | None:
    try:
        return kind(**parameters)
    except ParameterError:
        return None
