"""Mistakes of those who compute tables, and damages of files that hold them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.tools.sweeps.tables import Array, Biases, Subject, Tables, Waves

Random = np.random.Generator
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)


def _same_parameters(subject: Any, rng: Random) -> Any:
    return subject


def _same_tables(*tables: Array) -> Tables:
    return tables


@dataclass(frozen=True)
class Mistake:
    """A planted mistake.

    Attributes:
        name: Its name.
        edits: The edits that explain it, by the names that `verify` has for them.
        parameters: Changes the numbers that tables depend on.
        tables: Changes the tables.
    """

    name: str
    edits: tuple[str, ...]
    parameters: Callable[[Any, Random], Any] = _same_parameters
    tables: Callable[..., Tables] = _same_tables


def _other_base(case: Waves, rng: Random) -> Waves:
    return replace(case, base=500000.0 if case.base == 10000.0 else 10000.0)


def _other_factor(case: Waves, rng: Random) -> Waves:
    if "factor" not in case.scaling:
        return replace(case, base=case.base * 50)
    others = [value for value in FACTORS if value != case.scaling["factor"]]
    return replace(case, scaling={**case.scaling, "factor": float(rng.choice(others))})


def _other_offset(case: Waves, rng: Random) -> Waves:
    return replace(case, offset=int(rng.choice([-1, 1, 2, 7])))


BIAS_MISTAKES = (
    Mistake("naive slopes", ("rule",), lambda case, rng: replace(case, naive=True)),
    Mistake("sign", ("negated",), lambda case, rng: replace(case, sign=-1)),
    Mistake("heads reversed", ("heads",), tables=lambda bias: (bias[::-1],)),
    Mistake("scaled", ("scaled", "max_bias"), tables=lambda bias: (0.125 * bias,)),
)
WAVE_MISTAKES = (
    Mistake("base", ("base",), _other_base),
    Mistake("scaling missing", ("scaling",), lambda case, rng: replace(case, scaling={})),
    Mistake("factor", ("factor", "base", "scaling"), _other_factor),
    Mistake("offset", ("offset",), _other_offset),
    Mistake(
        "exponent",
        ("exponent_dim",),
        lambda case, rng: replace(case, exponent_dim=2.0 * case.dim),
    ),
    Mistake(
        "exponent - 1",
        ("exponent_dim", "freq_shift"),
        lambda case, rng: replace(case, exponent_dim=case.dim - 2),
    ),
    Mistake(
        "amplitude squared",
        ("attention_factor",),
        lambda case, rng: replace(case, amplitude_power=2),
    ),
    Mistake(
        "amplitude dropped",
        ("attention_factor",),
        lambda case, rng: replace(case, amplitude_power=0),
    ),
    Mistake("swapped", ("swapped",), tables=lambda cos, sin: (sin, cos)),
    Mistake("sin negated", ("negated",), tables=lambda cos, sin: (cos, -sin)),
    Mistake("rows reversed", ("rows", "offset"), tables=lambda cos, sin: (cos[::-1], sin[::-1])),
    Mistake(
        "frequencies reversed",
        ("channels",),
        tables=lambda cos, sin: (cos[:, ::-1], sin[:, ::-1]),
    ),
    Mistake(
        "scaled",
        ("scaled", "attention_factor", "amplitude"),
        tables=lambda cos, sin: (1.5 * cos, 1.5 * sin),
    ),
)
SINUSOID_MISTAKES = ("base", "offset", "exponent - 1", "swapped", "rows reversed", "scaled")
"""Names of the mistakes that the sinusoidal table has as well."""


def mistakes_of(subject: Subject) -> Sequence[Mistake]:
    if isinstance(subject, Biases):
        return BIAS_MISTAKES
    if type(subject) is Waves:
        return WAVE_MISTAKES
    return [mistake for mistake in WAVE_MISTAKES if mistake.name in SINUSOID_MISTAKES]


def wrong_tables(subject: Subject, mistakes: Sequence[Mistake], rows: int, seed: int) -> Tables:
    """Return the tables with all mistakes; each draws the same numbers beside any others."""
    for mistake in mistakes:
        rng = np.random.default_rng([seed, *mistake.name.encode()])
        subject = mistake.parameters(subject, rng)
    tables = subject.tables(rows)
    for mistake in mistakes:
        tables = mistake.tables(*tables)
    return tables


def _rows_at(x: Array, places: Array) -> Array:
    return np.take(x, places, axis=-2)


def _columns_at(x: Array, places: Array) -> Array:
    return np.take(x, places, axis=-1)


def _shuffle_all_but_the_first_row(x: Array, rng: Random) -> Array:
    return _rows_at(x, np.r_[0, 1 + rng.permutation(x.shape[-2] - 1)])


def _exchange_neighbours(x: Array, rng: Random) -> Array:
    last = x.shape[-1] - 1
    return _columns_at(x, np.minimum(np.arange(last + 1) ^ 1, last))


def _read_halves_as_interleaved(x: Array, rng: Random) -> Array:
    return _columns_at(x, np.argsort(np.arange(x.shape[-1]) % 2, kind="stable"))


def _negate_half(x: Array, rng: Random) -> Array:
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], -x[..., half:]], axis=-1)


def _change_an_element(x: Array, rng: Random) -> Array:
    value = float(rng.choice([0.0, 0.5, -3.0, 1e3, np.nan, np.inf]))
    changed = x.copy()
    changed.reshape(-1)[rng.integers(x.size)] = value
    return changed


def _add_noise(x: Array, rng: Random) -> Array:
    return x + 10.0 ** rng.integers(-9, 0) * rng.standard_normal(x.shape)


DAMAGES: Mapping[str, Callable[[Array, Random], Array]] = {
    "rows shuffled": lambda x, rng: _rows_at(x, rng.permutation(x.shape[-2])),
    "rows shuffled but the first": _shuffle_all_but_the_first_row,
    "rows rolled": lambda x, rng: np.roll(x, rng.integers(1, 4), axis=-2),
    "rows one late": lambda x, rng: _rows_at(x, np.maximum(0, np.arange(x.shape[-2]) - 1)),
    "rows repeated": lambda x, rng: _rows_at(x, np.arange(x.shape[-2]) // 2),
    "rows missing": lambda x, rng: x[..., :-1, :],
    "columns shuffled": lambda x, rng: _columns_at(x, rng.permutation(x.shape[-1])),
    "columns swapped": _exchange_neighbours,
    "halves as interleaved": _read_halves_as_interleaved,
    "scaled": lambda x, rng: x * rng.choice([1e-6, 0.5, 1.001, 8.0, 1e20]),
    "denormal": lambda x, rng: x * 1e-310,
    "half negated": _negate_half,
    "absolute": lambda x, rng: np.abs(x),
    "squared": lambda x, rng: x * x,
    "inverted": lambda x, rng: 1 / np.where(x == 0, 1, x),
    "cast to integers": lambda x, rng: np.rint(x),
    "fixed point": lambda x, rng: np.rint(np.clip(x, -1, 1) * 127),
    "noise": _add_noise,
    "an element": _change_an_element,
    "all NaN": lambda x, rng: np.full_like(x, np.nan),
    "all zero": lambda x, rng: np.zeros_like(x),
    "all one": lambda x, rng: np.ones_like(x),
    "bytes swapped": lambda x, rng: x.astype(np.float32).byteswap().astype(np.float64),
    "other numbers": lambda x, rng: rng.standard_normal(x.shape),
}
"""What becomes of a file that has nothing to do with how tables are computed."""
