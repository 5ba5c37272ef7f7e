"""Random dumps: a table with mistakes or damages, in some shape and storage, and its tolerance."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tests.tools.sweeps.mistakes import DAMAGES, Mistake, Random, mistakes_of, wrong_tables
from tests.tools.sweeps.tables import (
    SUBJECTS,
    Array,
    Arrays,
    Biases,
    Sinusoids,
    Subject,
    Tables,
    Waves,
)

Arrange = Callable[..., Arrays]


def _rotation_matrices(cos: Array, sin: Array) -> Array:
    first_row = np.stack([cos, -sin], -1)
    second_row = np.stack([sin, cos], -1)
    return np.stack([first_row, second_row], -2)


def _alternating(cos: Array, sin: Array) -> Array:
    return np.stack([sin, cos], -1).reshape(len(cos), -1)


SHAPES: Mapping[str, Arrange] = {
    "compact": lambda cos, sin: {"cos": cos, "sin": sin},
    "halves": lambda cos, sin: {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)},
    "cos | sin": lambda cos, sin: {"cos_sin_cache": np.concatenate([cos, sin], -1)},
    "cos cos | sin sin": lambda cos, sin: {
        "cos_sin_cache": np.concatenate([cos, cos, sin, sin], -1)
    },
    "pairs": lambda cos, sin: {"freqs_cis": np.stack([cos, sin], -1)},
    "complex": lambda cos, sin: {"freqs_cis": cos + 1j * sin},
    "matrices": lambda cos, sin: {"freqs": _rotation_matrices(cos, sin)},
    "stacked": lambda cos, sin: {"cos_sin": np.stack([cos, sin])},
    "batch": lambda cos, sin: {"cos": np.stack([cos] * 2), "sin": np.stack([sin] * 2)},
    "batch and head": lambda cos, sin: {
        "cos": np.tile(cos, 2)[None, None],
        "sin": np.tile(sin, 2)[None, None],
    },
}
SINUSOID_SHAPES: Mapping[str, Arrange] = {
    "pe": lambda cos, sin: {"pe": _alternating(cos, sin)},
    "pe in a batch": lambda cos, sin: {"pe": np.stack([_alternating(cos, sin)] * 3)},
}
BIAS_SHAPES: Mapping[str, Arrange] = {
    "bias": lambda bias: {"bias": bias},
    "one batch": lambda bias: {"bias": bias[None]},
}


def shapes_of(subject: Subject) -> Mapping[str, Arrange]:
    if isinstance(subject, Biases):
        return BIAS_SHAPES
    if isinstance(subject, Sinusoids):
        return SINUSOID_SHAPES
    return SHAPES


class Storage(NamedTuple):
    """How values are kept: in a dtype, or with some decimals.

    `step` is the distance between neighbours of order one.
    """

    dtype: Any
    step: float
    decimals: int | None = None


STORAGES = {
    "float64": Storage(np.float64, 2**-52),
    "float32": Storage(np.float32, 2**-23),
    "float16": Storage(np.float16, 2**-10),
    "bfloat16": Storage(ml_dtypes.bfloat16, 2**-7),
    "6 decimals": Storage(np.float32, 1e-6, decimals=6),
    "4 decimals": Storage(np.float32, 1e-4, decimals=4),
}
COARSE_STEP = 1e-4


def stored(tables: Sequence[Array], storage: str) -> Tables:
    """Return tables rounded as they are kept, in float64."""
    dtype, _, decimals = STORAGES[storage]
    rounded = []
    for table in tables:
        if decimals is not None:
            table = np.round(table, decimals)
        rounded.append(table.astype(dtype).astype(np.float64))
    return tuple(rounded)


class Errors(NamedTuple):
    """The largest error against the true values, and against those rounded as the dump is."""

    to_exact: float
    to_rounded: float


@dataclass(frozen=True)
class Dump:
    """A random dump: what it should be, what it is, and how it is judged.

    Attributes:
        subject: The numbers that the right tables depend on.
        mistakes: The mistakes that were planted.
        rows: The number of rows.
        shape: How the tables are arranged.
        storage: How values are kept.
        atol: The tolerance.
        judge: The function or command that judges it.
        right: The right tables.
        tables: The tables as they are kept.
        damage: What happened to the file; empty if nothing did.
    """

    subject: Subject
    mistakes: tuple[Mistake, ...]
    rows: int
    shape: str
    storage: str
    atol: float
    judge: str
    right: Tables
    tables: Tables
    damage: str = ""

    def errors(self) -> Errors:
        rounded = stored(self.right, self.storage)
        return Errors(largest_error(self.right, self.tables), largest_error(rounded, self.tables))

    def arrays(self) -> Arrays:
        arranged = shapes_of(self.subject)[self.shape](*self.tables)
        dtype = np.complex64 if self.shape == "complex" else STORAGES[self.storage].dtype
        return {name: array.astype(dtype) for name, array in arranged.items()}

    def right_arrays(self) -> Arrays:
        """Return the right tables in the first shape."""
        first_shape = next(iter(shapes_of(self.subject).values()))
        return first_shape(*self.right)

    def __str__(self) -> str:
        names = " + ".join(mistake.name for mistake in self.mistakes)
        how = f"{self.rows} rows, {self.shape}, {self.storage}, atol {self.atol:g}, {self.judge}"
        return f"{names or self.damage or 'right'}; {self.subject}; {how}"


def largest_error(right: Sequence[Array], tables: Sequence[Array]) -> float:
    """Return the largest error; infinity if shapes differ or a value is not a number."""
    errors = []
    for expected, table in zip(right, tables, strict=True):
        if expected.shape != table.shape:
            return math.inf
        errors.append(np.abs(expected - table).max())
    largest = float(np.max(errors))
    return math.inf if math.isnan(largest) else largest


@np.errstate(all="ignore")
def draw_wrong_dump(rng: Random) -> Dump:
    """Return a dump with one or two mistakes, each of which shows."""
    while True:
        subject = draw_subject(rng)
        rows = draw_rows(rng, subject, [64, 128, 300, 512])
        mistakes = draw_mistakes(rng, subject, 1 + int(rng.random() < 0.25))
        shape, storage, atol = draw_storage(rng, subject)
        seed = int(rng.integers(1 << 30))
        tables = wrong_tables(subject, mistakes, rows, seed)
        if all_show(subject, mistakes, rows, seed, tables, atol):
            judges = ["scheme", "diff"]
            if type(subject) is Waves:
                judges += ["model", "file"]
            judge = str(rng.choice(judges))
            right = subject.tables(rows)
            kept = stored(tables, storage)
            return Dump(subject, mistakes, rows, shape, storage, atol, judge, right, kept)


def all_show(
    subject: Subject,
    mistakes: Sequence[Mistake],
    rows: int,
    seed: int,
    tables: Tables,
    atol: float,
) -> bool:
    """Return True if leaving out any mistake changes the tables by much more than the tolerance."""
    for left_out in mistakes:
        others = [mistake for mistake in mistakes if mistake is not left_out]
        without = wrong_tables(subject, others, rows, seed)
        if largest_error(tables, without) < 30 * atol:
            return False
    return True


@np.errstate(all="ignore")
def draw_dump(rng: Random) -> Dump:
    """Return a dump with up to two mistakes, or damaged, or right."""
    subject = draw_subject(rng)
    rows = draw_rows(rng, subject, [5, 16, 33, 64, 128, 300])
    mistakes = draw_mistakes(rng, subject, int(rng.choice([0, 0, 1, 2])))
    shape, storage, atol = draw_storage(rng, subject)
    seed = int(rng.integers(1 << 30))
    tables = wrong_tables(subject, mistakes, rows, seed)
    judges = ["scheme", "diff"]
    if type(subject) is Waves:
        judges += ["model", "file"]
    damage = ""
    if not mistakes and rng.random() < 0.6:
        damage = str(rng.choice([*DAMAGES]))
        judges = ["scheme", "diff", "identify", "inspect"]
        shape = next(iter(shapes_of(subject)))
        tables = tuple(DAMAGES[damage](table, np.random.default_rng(seed)) for table in tables)
    judge = str(rng.choice(judges))
    right = subject.tables(rows)
    kept = stored(tables, storage)
    return Dump(subject, mistakes, rows, shape, storage, atol, judge, right, kept, damage)


def draw_subject(rng: Random) -> Subject:
    return SUBJECTS[rng.integers(len(SUBJECTS))]


def draw_rows(rng: Random, subject: Subject, choices: Sequence[int]) -> int:
    rows = int(rng.choice(choices))
    return min(rows, 64) if isinstance(subject, Biases) else rows


def draw_mistakes(rng: Random, subject: Subject, count: int) -> tuple[Mistake, ...]:
    known = mistakes_of(subject)
    return tuple(known[index] for index in rng.choice(len(known), count, replace=False))


class DrawnStorage(NamedTuple):
    """A shape, a storage, and a tolerance that suits it."""

    shape: str
    storage: str
    atol: float


def draw_storage(rng: Random, subject: Subject) -> DrawnStorage:
    shape = str(rng.choice([*shapes_of(subject)]))
    storage = str(rng.choice([*STORAGES]))
    if shape == "complex":
        storage = "float32"
    is_coarse = STORAGES[storage].step > COARSE_STEP
    atol = float(rng.choice([1e-3, 1e-2] if is_coarse else [1e-5, 1e-4, 1e-3]))
    if is_coarse and isinstance(subject, Biases):
        atol *= 64.0  # Biases are as large as the number of rows.
    return DrawnStorage(shape, storage, atol)
