"""From the parts of a table to schemes that may have made it: offset, law and scaling, most likely first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.identify import aliases, frequencies, heights, laws, positions, refine, spoilt
from pecli.checks.identify.curve import Curve, Guess, geometric
from pecli.checks.identify.frequencies import Channels, silent_rows
from pecli.checks.identify.heights import Height
from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.waves import Source


_MOST = 1 << 18
"""Elements of a part from which frequencies are measured; all are compared at the end."""


Candidate = tuple[Scheme, tuple[str, ...]]
"""A scheme, and what it leaves open."""


_TURN = 0.3
"""Radians that the fastest channel turns at least: what hardly changes is no table of positions."""


@dataclass(frozen=True)
class Look:
    """The parts with a meaning: which is the cosine, where the positions start, how fast each channel turns."""

    curve: Curve
    offset: int
    height: Height
    sine_first: bool = False
    sine: bool = False
    """Of one function alone: it is the sine."""

    @property
    def amplitude(self) -> float:
        return self.height.value

    def angles(self, rows: int) -> Floats:
        """The largest angle of each row."""
        fastest = float(np.abs(self.curve.frequency).max(initial=0.0))
        return (self.offset + np.arange(rows, dtype=np.float64)) * fastest


@dataclass(frozen=True)
class Proposals:
    """Schemes of one kind to be held against the table, the likeliest first, with what each leaves open."""

    kind: str
    form: str
    tiers: Iterator[Iterator[Candidate]]
    more: bool = False
    """Whether schemes of another kind explain such a table, too."""


def ways_to_look(parts: tuple[Floats, ...], unit: float) -> Iterator[tuple[str, Iterator[Look]]]:
    """Meanings of the parts, as they are; then as recipes would have spoilt them that leave no pure waves."""
    rows = min(len(parts[0]), max(64, _MOST // parts[0].shape[1]))
    some = tuple(np.asarray(part[:rows], np.float64) for part in parts)
    if len(parts) == 1:
        measured = frequencies.one_function(some[0], unit)
        if measured is not None and measured.pure:
            turning = int(np.isfinite(measured.frequency_error).sum())
            for reaches in _reaches(some)[: 1 + (turning > 3)]:
                yield "", _looks_at_one(some[0], measured, unit, reaches)
    elif frequencies.constant_size((some[0], some[1]), unit):
        measured = frequencies.two_functions(some[0], some[1], unit)
        if (np.abs(measured.frequency) * rows).max() < _TURN:
            return
        for reaches in _reaches(some) if measured.pure else ():
            yield "", _looks_at_both(some[0], some[1], measured, unit, reaches)
        yield from _spoilt(some[0], some[1], unit)


def _reaches(parts: tuple[Floats, ...]) -> tuple[tuple[int, ...], ...]:
    """How far out the first row may be: where all sines are zero it is position 0, which no far one looks like."""
    if any(not part[0].any() for part in parts):
        return (positions.NEAR,)
    return positions.NEAR, positions.FAR_OFF


def _spoilt(first: Floats, second: Floats, unit: float) -> Iterator[tuple[str, Iterator[Look]]]:
    """Meanings of tables whose positions or angles were rounded to bfloat16."""
    height = Height(float(np.hypot(first, second).max()), unit / 4)

    def look(curve: Curve, offset: int, sine_first: bool) -> Look:
        parts = {"cos": second, "sin": first} if sine_first else {"cos": first, "sin": second}
        return Look(curve, offset, heights.measured(parts, curve, offset, height, unit), sine_first)

    first, second = spoilt.filled(first, second)
    row = spoilt.repeated(first, second)
    if row is not None and spoilt.enough_rows(row):
        head = first[: row + 1], second[: row + 1]
        measured = frequencies.two_functions(*head, unit)
        yield "bfloat16-positions", _looks_at_both(*head, measured, unit, positions.NEAR)
    elif row is not None:
        yield "bfloat16-positions", (look(*each) for each in spoilt.by_steps(first, second, unit))
    yield "bfloat16-phases", (look(*each) for each in spoilt.by_rounded_angles(first, second, unit))


def _looks_at_both(
    first: Floats, second: Floats, measured: Channels, unit: float, reaches: tuple[int, ...]
) -> Iterator[Look]:
    significant = np.abs(measured.frequency) > 8 * measured.frequency_error
    slowest = np.where(significant, np.abs(measured.frequency), np.inf).argmin()
    backwards = bool(measured.frequency[slowest] < 0)
    for sine_first in (backwards, not backwards):
        cosine, sine = (second, first) if sine_first else (first, second)
        channels = aliases.unfolded(frequencies.turned_over(measured) if sine_first else measured)
        rough = Height(channels.amplitude, channels.amplitude * unit / 4)
        for offset, start in _starts(channels, reaches):
            curve = Curve(*refine.from_both(cosine, sine, offset, start, unit))
            height = heights.measured({"cos": cosine, "sin": sine}, curve, offset, rough, unit)
            yield Look(curve, offset, height, sine_first)


def _looks_at_one(values: Floats, measured: Channels, unit: float, reaches: tuple[int, ...]) -> Iterator[Look]:
    rough = Height(measured.amplitude, max(measured.amplitude_error, measured.amplitude * unit / 4))
    amplitude = 1.0 if rough.near(1.0) else measured.amplitude
    known = np.isfinite(measured.frequency_error)
    found: list[tuple[int, bool, Floats]] = []
    for sine in (False, True):
        phase = frequencies.wrapped(measured.phase + (np.pi / 2 if sine else 0.0))
        found += [(offset, sine, start) for offset, start in _starts(replace(measured, phase=phase), reaches)]
    for offset, sine, start in sorted(found, key=lambda each: each[0]):
        seen = Curve(np.where(known, start, 0.0), np.where(known, measured.frequency_error, np.inf))
        law = geometric(seen.loosened(1e-7))
        slow = np.exp(law.logs(len(start))) if law else 0.1 / (offset + len(values))
        start = np.where(known, start, slow)
        curve = Curve(*refine.from_one(values / amplitude, sine, offset, start, ~known, unit))
        name = "sin" if sine else "cos"
        yield Look(curve, offset, heights.measured({name: values}, curve, offset, rough, unit), sine=sine)


def _starts(channels: Channels, reaches: tuple[int, ...]) -> Iterator[tuple[int, Floats]]:
    """Offsets with the frequencies that go with them: measured ones, or those of a law with round parameters."""
    done, search = set(), positions.OffsetSearch(reaches)
    for frequency, error in _guesses(channels):
        here = replace(channels, frequency=frequency, frequency_error=error)
        for relative in (0.0, positions.SINGLE):
            for offset in search.offsets(here, relative):
                if offset not in done:
                    done.add(offset)
                    yield offset, refine.at_offset(here, offset)
    if not done and reaches is positions.NEAR:
        yield 0, channels.frequency


def _guesses(channels: Channels) -> Iterator[tuple[Floats, Floats]]:
    """The frequencies as measured, then as laws with round parameters have them, which are sharper."""
    yield channels.frequency, channels.frequency_error
    curve, count = Curve(channels.frequency, channels.frequency_error), len(channels.frequency)
    law = geometric(curve.inflated(3), 0.0) or geometric(curve.inflated(3))
    if law is not None and np.isfinite(law.step_error):
        for level in laws.round_levels(law):
            fixed = geometric(curve.inflated(4), level) or law
            for shift in (0.0, 1.0):
                for guess in laws.shifted(fixed, count, shift):
                    step = np.log(guess.parameters["base"]) / (count - shift)
                    yield np.exp(level - step * np.arange(count)), np.zeros(count)
        return
    bent = laws.bent(curve.inflated(3), Height(channels.amplitude, channels.amplitude * 1e-2))
    for guess in islice(bent, 6):
        scheme = _made(Rope, seq_len=1, dim=2 * count, **guess.parameters)
        if isinstance(scheme, Rope):
            yield np.array(scheme.frequencies().floats()), np.zeros(count)


def propose(look: Look, source: Source) -> Iterator[Proposals]:
    """Schemes that would give what was seen."""
    form = source.form
    flat = form.arrangement in ("interleaved", "halves") and not form.doubled and len(source.parts) == 2
    if flat:
        both = not look.sine_first and look.height.near(1.0) and source.whole.shape[1] % 2 == 0
        yield Proposals("sinusoidal", "transposed" if form.transposed else "", iter([_sinusoidal(look, source)]), both)
    if form.padded or (len(source.parts) == 2 and silent_rows(*source.parts).any()):
        return
    yield Proposals("rope", _words(look, source), _rope(look, source, flat))


def _sinusoidal(look: Look, source: Source) -> Iterator[Candidate]:
    dim = source.whole.shape[1]
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
    half = dim // 2 if source.form.arrangement == "halves" else dim / 2
    for guess in distinct(laws.sinusoidal(look.curve, half, look.height, dim)):
        scheme = _made(Sinusoidal, seq_len=source.length, dim=dim, **fixed, **guess.parameters)
        if scheme is not None:
            yield scheme, guess.undetermined


def _words(look: Look, source: Source) -> str:
    """How the file lays a rotary table out, where that is not the scheme's own way."""
    form = source.form
    paired = len(source.names) == 2 or form.arrangement == "stacked"
    words = form.words(alone="the sine alone" if look.sine else "the cosine alone")
    if paired:
        words = "transposed" if form.transposed else ""
    if look.sine_first and len(source.names) == 1:
        words = ", ".join(filter(None, [words, "sine first"]))
    if len(source.names) == 2 and look.sine_first == ("cos" in source.names[0].lower()):
        exchanged = f"exchanged: {source.names[0]} holds the {'sines' if look.sine_first else 'cosines'}"
        words = ", ".join(filter(None, [words, exchanged]))
    return words


def _rope(look: Look, source: Source, flat: bool) -> Iterator[Iterator[Candidate]]:
    fixed: dict[str, Any] = {
        "dim": 2 * source.parts[0].shape[1],
        "layout": source.form.doubled or "compact",
        "offset": look.offset,
        "dtype": source.dtype,
    }

    def schemes(tier: Iterator[Guess]) -> Iterator[Candidate]:
        for guess in distinct(tier):
            scheme = _made(Rope, seq_len=source.length, **fixed, **guess.parameters)
            if scheme is not None:
                yield scheme, guess.undetermined

    cached = source.form.arrangement == "halves" and not look.sine_first  # as vLLM keeps them
    free = (cached or not flat) and look.offset < positions.NEAR[-1]
    for tier in laws.rope(look.curve, look.height, free=free):
        yield schemes(tier)


def distinct(found: Iterator[Guess]) -> Iterator[Guess]:
    """Each guess once."""
    seen = set()
    for guess in found:
        key = repr(sorted(guess.parameters.items()))
        if key not in seen:
            seen.add(key)
            yield guess


def _made(kind: type[Scheme], **parameters: Any) -> Scheme | None:
    try:
        return kind(**parameters)
    except ParameterError:
        return None
