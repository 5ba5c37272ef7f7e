"""Laws of frequencies in float64: by base, dim and scaling; the numbers that fit measured ones; schemes that have them.

The engine's exact frequencies take a millisecond a time; a search asks thousands of times, and its data carry noise.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pecli.compare.forms import Form
from pecli.engine.arrays import Flags, Floats
from pecli.engine.scalings import SCALINGS, name_of, new_parameters
from pecli.engine.schemes.scheme import Scheme
from pecli.explain import time_limit, wave_measurement
from pecli.explain.edits import Edit, Parameter
from pecli.explain.known_mistakes import wave_neighbours
from pecli.explain.sample import BASES, digits, plain, plainest
from pecli.explain.wave_tables import WaveTable, scheme_of_waves, wave_edit, wave_table

Value = TypeVar("Value")
NO_SCALING = SCALINGS["none"]()
MIN_BASE = (
    2.0  # of a law that is claimed of any table: below it, all frequencies are about the same
)
SIGMAS = 5.0  # standard errors within which a plain number is taken for the measured one
MAX_MISFIT = 12.0  # standard errors that a frequency may be off its law, since errors are themselves estimates
USUAL_MISFIT = 2.5  # root mean square, in standard errors, at which a usual number needs no search
GRID = 64  # values of a parameter that a search starts from
MIN_PROGRESS = (
    0.9  # what a step of a fit has to leave of the squares at most, to be followed by another
)
FINER = 16  # how many values on either side of the best each finer grid has
ROUNDS = 5
HOPELESS = 40.0  # root mean square, in hundredths of the frequencies, beyond which no value near a start will fit
ORIGINAL = "original_max_position_embeddings"
LENGTHS = (*(float(1 << k) for k in range(8, 21)), 1e6, 128000.0, 100000.0, 32000.0)
COMPACT = Form("alone")
ATTENTION_BITS = 64
SCALES = (
    180 / math.pi,
    math.pi / 180,
    2 * math.pi,
)  # of positions: degrees for radians, the other way round, turns
MAX_COSTLY_DIGITS = (
    5  # a number with more digits was not chosen for its plainness: how near it comes decides
)
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 10.0, 2.5, 3.0)
_OF_LENGTHS = (64.0, 2.0**22, LENGTHS)
SEARCHED: dict[str, tuple[float, float, tuple[float, ...]]] = {
    "base": (1.5, 1e12, BASES),
    "factor": (0.01, 1e4, FACTORS),
    ORIGINAL: _OF_LENGTHS,
    "max_position_embeddings": _OF_LENGTHS,
    "length": _OF_LENGTHS,
    "beta_fast": (0.25, 2048.0, (32.0, 64.0, 16.0, 128.0, 8.0, 24.0, 48.0)),
    "beta_slow": (0.01, 256.0, (1.0, 2.0, 4.0, 0.5, 8.0)),
    "low_freq_factor": (0.05, 64.0, (1.0, 2.0, 4.0, 0.5)),
    "high_freq_factor": (0.1, 256.0, (4.0, 8.0, 2.0, 16.0, 32.0)),
    "scale": (1e-4, 3000.0, (1.0, 1000.0, 0.5, 2.0, *SCALES, math.pi)),
    **{name: (new.search_from, new.search_to, new.usual) for name, new in new_parameters().items()},
}
"""From where to where values of a parameter are looked for, and those that models have, the likeliest first."""


@dataclass(frozen=True)
class Curve:
    """Frequencies by channel, with errors; `folded` where signs are lost (one function alone)."""

    frequency: Floats
    error: Floats
    folded: bool = False
    drift: float = 0.0  # the relative error that was added to the measured ones, as float32 arithmetic makes it
    aliased: bool = (
        True  # whether whole turns per row are lost, as in tables; not in vectors of frequencies
    )

    @property
    def known(self) -> Flags:
        return np.asarray((self.error < 0.25 * np.abs(self.frequency)) & (self.frequency != 0))

    def misfits(self, frequency: Floats) -> Floats:
        """How far off each frequency of a law is, in standard errors."""
        off = frequency - self.frequency
        off = np.abs(wave_measurement.wrap(off) if self.aliased else off)
        if self.folded:
            off = np.minimum(off, np.abs(wave_measurement.wrap(frequency + self.frequency)))
        return np.asarray(off / self.error)

    def misfit(self, frequencies: Floats) -> Any:
        """The same of all together, for a law or for each of several: the root of the mean square, with a limit."""
        return np.sqrt(np.mean(np.minimum(self.misfits(frequencies), 1e15) ** 2, axis=-1))

    def tight(self) -> "Curve":
        """The same with the measured errors alone."""
        square = self.error**2 - (self.drift * self.frequency) ** 2
        return replace(self, error=np.sqrt(np.maximum(square, 1e-32)), drift=0.0)

    def loosened(self, relative: float) -> "Curve":
        return replace(self, error=np.hypot(self.error, relative * np.abs(self.frequency)))


@dataclass(frozen=True)
class Law:
    """base^(−i/half), for i < count, after a scaling; positions times `scale`; from pair `rotating` on, 0."""

    count: int
    half: float
    base: float = 10000.0
    scale: float = 1.0
    scaling: Any = NO_SCALING
    times: int = 1  # how often the scaling is applied, or its ratios are
    again: bool = False  # whether it is applied to what it made
    rotating: int | None = None
    ramp: float | None = (
        None  # what the scaling takes for half of the dimension, where that is not `half`
    )

    def having(self, **changes: Any) -> "Law":
        """The law with other values of some parameters: a search asks ten thousand times, hence not `replace`."""
        own = {name: changes.pop(name) for name in [*changes] if name in Law.__dataclass_fields__}
        if changes:
            own["scaling"] = _changed(own.get("scaling", self.scaling), changes)
        return _changed(self, own)

    def frequencies(self) -> Floats:
        """Radians per row. A parameter that is a column of numbers gives a row of frequencies for each of them."""
        with np.errstate(all="ignore"):
            index = np.arange(self.count)
            plain = found = np.exp(-index / self.half * np.log(self.base))
            for _ in range(1 + self.again):
                found = self.scaling.approximate(found, self.base, self.ramp or self.half)
            found = found if self.times == 1 else plain * (found / plain) ** self.times
            if self.rotating is not None:
                found = np.where(index < self.rotating, found, 0.0)
            return np.asarray(found * self.scale)


def _changed(value: Value, changes: dict[str, Any]) -> Value:
    other = object.__new__(type(value))
    other.__dict__.update(value.__dict__, **changes)
    return other


@dataclass(frozen=True)
class Fit:
    """A law that frequencies follow, how well, and how far-fetched its numbers are."""

    law: Law
    misfit: float
    cost: float
    open: tuple[str, ...] = ()

    def costing(self, more: float, *said: str) -> "Fit":
        return replace(self, cost=self.cost + more, open=said or self.open)


def _searched(law: Law, name: str) -> tuple[float, float, tuple[float, ...]]:
    """The same for a law: of lengths first the one that others of its numbers tell; up to M, none changes a base."""
    (low, high, usual), own = SEARCHED[name], vars(law.scaling)
    if name == ORIGINAL and own.get("factor"):
        return low, high, (own[ORIGINAL] * own["factor"], *usual)
    low = max(low, own["max_position_embeddings"]) if name == "length" else low
    return low, high, tuple(value for value in usual if value > low)


def fitted(law: Law, name: str, curve: Curve) -> Iterator[Fit]:
    """The law with the value of one parameter that comes nearest, as somebody would have written it."""
    time_limit.check_time()
    low, high, usual = _searched(law, name)
    for known, off in zip(usual, _misfits(law, name, curve, usual), strict=True):
        if off < USUAL_MISFIT:
            yield Fit(law.having(**{name: known}), float(off), 0.0)
            return
    rough = curve.loosened(0.01)
    grid = np.linspace(math.log(low), math.log(high), GRID)
    starts = _misfits(law, name, rough, np.exp(grid))
    if not np.isfinite(starts).any() or np.nanmin(starts) > HOPELESS:
        return
    best, width = float(grid[np.nanargmin(starts)]), float(grid[1] - grid[0])
    for of, reach in (
        (rough, width),
        (curve.loosened(1e-5), width / 20),
        (curve, 1e-4),
        (curve, 1e-9),
    ):
        best = _nearest(law, name, of, best, reach)
    yield from _written(law, name, curve, best)
    if curve.drift:
        tight = curve.tight()
        best = _nearest(law, name, tight, best, 1e-4)
        yield from (fit.costing(0.2) for fit in _written(law, name, tight, best))


def _misfits(law: Law, name: str, curve: Curve, values: Sequence[float] | Floats) -> Floats:
    return np.asarray(
        curve.misfit(law.having(**{name: np.array(values).reshape(-1, 1)}).frequencies())
    )


def _nearest(law: Law, name: str, curve: Curve, log: float, reach: float) -> float:
    """The logarithm of the value that fits best within reach of one, by ever finer grids."""
    least = (
        math.log(law.scaling.max_position_embeddings) if name == "length" else -math.inf
    )  # up to M, all are alike
    for _ in range(ROUNDS):
        grid = np.maximum(log + reach * np.linspace(-1, 1, 2 * FINER + 1), least)
        misfits = _misfits(law, name, curve, np.exp(grid))
        if not np.isfinite(misfits).any():
            return log
        log, reach = float(grid[np.nanargmin(misfits)]), 1.5 * reach / FINER
    return log


def _written(law: Law, name: str, curve: Curve, log: float) -> Iterator[Fit]:
    """The value as somebody would have written it: the plainest that fits about as well as the best."""
    value, (_, _, usual) = math.exp(log), _searched(law, name)
    least = float(_misfits(law, name, curve, [value])[0])
    allowed = math.sqrt(least**2 + SIGMAS**2 * max(1.0, least**2) / max(1, len(curve.frequency)))
    near = [each for each in usual if abs(math.log(each / value)) < 0.2]
    candidates = [
        *sorted(near, key=lambda each: abs(math.log(each / value))),
        *plain(value, 0.05 * value),
    ]
    if SEARCHED[name][2] is LENGTHS:
        candidates = [length for length in candidates if length == round(length)]
    for candidate, off in zip(candidates, _misfits(law, name, curve, candidates), strict=True):
        if off <= allowed:
            cost = (0.15 if name == "base" else 0.1) * min(digits(candidate), MAX_COSTLY_DIGITS)
            yield Fit(
                law.having(**{name: candidate}), float(off), 0.0 if candidate in usual else cost
            )
            return


def fitted_pair(law: Law, names: tuple[str, str], curve: Curve) -> Iterator[Fit]:
    """Two parameters at once, by least squares of the logarithms; then each as somebody would have written it."""
    use = curve.known & (curve.frequency > 0)
    if use.sum() < 6:
        return
    measured, error = (
        np.log(curve.frequency[use]),
        np.maximum(curve.error[use] / curve.frequency[use], 1e-7),
    )

    def misfits(logs: Floats) -> Floats:
        """In standard errors, for rows of two logarithms."""
        both = {
            name: np.exp(np.minimum(column, 40.0))[:, None]
            for name, column in zip(names, logs.T, strict=True)
        }
        with np.errstate(all="ignore"):
            off = (
                np.log(np.maximum(law.having(**both).frequencies()[:, use], 1e-30)) - measured
            ) / error
        return np.asarray(np.clip(np.nan_to_num(off, nan=1e9), -1e9, 1e9))

    start = {**vars(law.scaling), **vars(law)}
    at = np.log([start[name] for name in names])
    for _ in range(20):
        here, *near = misfits(at + 1e-6 * np.array([[0, 0], [1, 0], [0, 1]]))
        slopes = np.stack([each - here for each in near], axis=1) / 1e-6
        move = np.clip(-np.linalg.pinv(slopes, rcond=1e-9) @ here, -2, 2)
        shorter = at + move * 4.0 ** -np.arange(12)[:, None]
        squares = (misfits(shorter) ** 2).sum(axis=1)
        at = shorter[np.argmin(squares)]
        if squares.min() > MIN_PROGRESS * (here**2).sum():
            break
    if np.sqrt(np.mean(misfits(at[None]) ** 2)) <= MAX_MISFIT:
        values = dict(zip(names, np.exp(at).tolist(), strict=True))
        for first, last in (names, names[::-1]):
            rounded = plainest(values[first], 1e-3 * values[first])
            yield from fitted(law.having(**{**values, first: rounded}), last, curve)


@dataclass(frozen=True)
class WaveScheme:
    """A scheme of waves as the search sees it."""

    scheme: Any
    law: Law
    amplitude: float
    offset: int
    length: int
    cos_first: bool
    form: Form
    one: str = ""  # the only function, where one tensor alone is looked at
    rotary: bool = False


def wave_scheme(scheme: Scheme, names: tuple[str, ...]) -> WaveScheme | None:
    """The scheme for tensors of these names; None where it has no waves, or its rows do not follow each other."""
    waves = wave_table(scheme)
    if waves is None:
        return None
    form, one = Form(waves.layout, padded=waves.layout == "halves" and waves.dim % 2 == 1), ""
    if waves.separate:
        alone = len(names) == 2 or names[0] in ("cos", "sin")
        form = Form(
            "alone" if alone else "stacked", "" if waves.layout == "compact" else waves.layout
        )
        one = names[0] if len(names) == 1 and alone else ""
    law, rotary = wave_law(waves), scheme.applied_as == "rotation"
    return WaveScheme(
        scheme, law, waves.amplitude, waves.offset, waves.length, waves.cos_first, form, one, rotary
    )


def wave_law(waves: WaveTable) -> Law:
    """The law of the frequencies of some waves."""
    pairs = max(1, waves.dim // 2)
    rotating = waves.rotating if waves.rotating < pairs else None
    return Law(
        pairs, waves.exponent, waves.base, waves.scale, waves.scaling.complete(), rotating=rotating
    )


def neighbours(prior: WaveScheme) -> Iterator[Law]:
    """Laws of known mistakes that no single number makes of the prior's."""
    law = prior.law
    if law.scaling != NO_SCALING:
        yield replace(law, scaling=NO_SCALING, rotating=None)
        yield from (replace(law, times=2), replace(law, again=True))
    for each in map(wave_law, wave_neighbours(prior.scheme)):
        resized = replace(
            each, count=law.count, half=each.half * law.count / each.count
        )  # as the prior was
        yield resized
        if resized.half != law.half and law.scaling != NO_SCALING:
            yield replace(resized, ramp=law.half)
    yield from (replace(law, scale=law.scale * scale) for scale in SCALES)
    if law.scale != 1:
        yield replace(law, scale=1.0)


def law_edits(expected: WaveScheme, law: Law) -> tuple[Edit, ...]:
    """The difference of two laws, parameter by parameter."""
    scheme, prior = expected.scheme, expected.law
    rows: list[tuple[str, Any, Any]] = []
    if law.count != prior.count:
        waves = wave_table(scheme)
        assert waves is not None
        rows.append(("dim", waves.dim, 2 * law.count))
        prior = replace(prior, count=law.count, half=prior.half * law.count / prior.count)
    rows.append(("base", prior.base, law.base))
    name, *values = wave_edit(scheme, "exponent", prior.half, law.half)
    usual, found = (round(value) if abs(value - round(value)) < 1e-9 else value for value in values)
    kept = law.count != expected.law.count and law.half == expected.law.half
    rows.append((name, round(2 * law.half), "same") if kept else (name, usual, found))
    kind, other = name_of(prior.scaling), name_of(law.scaling)
    twice = "" if (law.times, law.again) == (prior.times, prior.again) else ", applied twice"
    rows += [("scale", prior.scale, law.scale), ("scaling", kind, f"{other}{twice}")]
    for name in law.scaling.frequency_parameters():
        ours: Any = getattr(prior.scaling, name) if kind == other else None
        theirs = getattr(law.scaling if kind == other else law.scaling.brief(), name)
        is_list = name == "divisors" and ours not in (None, theirs)
        rows.append((name, *(_which_divisors(scheme, ours, theirs) if is_list else (ours, theirs))))
    if kind == other:
        rows.append(("rotating_pairs", prior.rotating or prior.count, law.rotating or law.count))
    return tuple(Parameter(*row) for row in rows if row[1] != row[2])


def _which_divisors(
    scheme: Scheme, ours: tuple[float, ...], theirs: tuple[float, ...]
) -> tuple[str, str]:
    names = {
        scheme.value_of("long_factor"): "long_factor",
        scheme.value_of("short_factor"): "short_factor",
    }
    changed = {ours[::-1]: "reversed", tuple(1 / each for each in ours): "multiplied"}
    return names.get(ours, "factor"), names.get(theirs) or changed.get(theirs, "other")


def expected_amplitude(prior: WaveScheme | None, law: Law) -> float:
    """What the values are multiplied by where a law stands for the prior's."""
    if prior is not None and not prior.rotary:
        return prior.amplitude
    return float(law.scaling.attention(ATTENTION_BITS) / 2**ATTENTION_BITS)


def scheme_of(
    law: Law,
    offset: int,
    length: int,
    amplitude: float,
    form: Form = COMPACT,
    rotary: bool = True,
    **more: Any,
) -> Scheme | None:
    """The scheme with that law; None where there is none. Of rotary ones, cosines and sines are separate tensors."""
    rotary = rotary or law.scaling != NO_SCALING
    cos_first = more.pop("cos_first", True) or rotary
    if law.times != 1 or law.again:
        return None
    scaling = law.scaling.brief()
    lengths = [
        name
        for name in vars(scaling)
        if name.endswith("embeddings") and getattr(scaling, name) is not None
    ]
    scaling = replace(scaling, **{name: int(getattr(scaling, name)) for name in lengths})
    dim = int(more.pop("dim", 2 * law.count + (form.padded and not rotary)))
    layout = (form.doubled or "compact") if rotary else form.arrangement
    rotating = law.count if law.rotating is None else law.rotating
    place = (amplitude, offset, length, layout, cos_first, rotary)
    waves = WaveTable(dim, law.half, law.base, law.scale, scaling, rotating, *place)
    return scheme_of_waves(waves, **more)
