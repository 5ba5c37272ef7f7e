"""Random dumps of right and wrong tables, by formulas of their own, through every door that judges tables.

Nothing of pecli makes a table here: parameters of real models, formulas in plain NumPy float64, mistakes one or two at
a time, damages that files have, storage, shape, tolerance and door are drawn at random. A verdict is wrong if it is
not what comparing the numbers element by element says, or if anything is raised. A search is wrong if its first reason
is not the planted mistakes, if a claim leaves more than the tolerance and its own storage explain, or if it takes more
than two seconds of CPU.
"""

import contextlib
import io
import json
import math
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import pecli
from pecli.cli.app import run
from tests import oracle

Array = np.ndarray[Any, Any]
Random = np.random.Generator
MAX_CPU_SECONDS = 2.0


@dataclass(frozen=True)
class Waves:
    """What tables of cosines and sines depend on; a mistake replaces a field, or changes the tables."""

    dim: int
    base: float
    scaling: Mapping[str, Any] = field(default_factory=dict)
    exponent_dim: float | None = None
    offset: int = 0
    amplitude_power: int = 1

    @property
    def config(self) -> dict[str, Any]:
        """The same as a configuration in Hugging Face's words."""
        heads = {"hidden_size": 4 * self.dim, "num_attention_heads": 4, "head_dim": self.dim}
        scaling = (
            {"rope_scaling": {"rope_type": self.scaling["type"], **self.parameters}}
            if self.scaling
            else {}
        )
        rope = {"rope_theta": self.base, "max_position_embeddings": 8192}
        return {"model_type": "llama", **heads, **rope, **scaling}

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in self.scaling.items() if name != "type"}

    def scheme(self, rows: int) -> pecli.Scheme:
        return pecli.Rope(
            rows, self.dim, self.base, scaling=self.scaling.get("type", "none"), **self.parameters
        )

    def frequencies(self) -> tuple[Array, float]:
        """Radians per position and the factor of cosines and sines, from the papers' formulas."""
        given = {
            "dim": self.dim,
            "base": self.base,
            "exponent_dim": self.exponent_dim,
            **self.parameters,
        }
        inverse, amplitude = oracle.frequencies(
            {"scaling": self.scaling.get("type", "none"), **given}
        )
        return np.array([float(value) for value in inverse]), float(amplitude)

    def tables(self, rows: int) -> tuple[Array, ...]:
        inverse, amplitude = self.frequencies()
        angles = np.outer(np.arange(rows) + self.offset, inverse)
        amplitude **= self.amplitude_power
        return amplitude * np.cos(angles), amplitude * np.sin(angles)


class Sinusoids(Waves):
    """The table of the first paper: one tensor, a sine and a cosine for every frequency."""

    def scheme(self, rows: int) -> pecli.Scheme:
        return pecli.Sinusoidal(rows, self.dim, base=self.base)


@dataclass(frozen=True)
class Biases:
    """What ALiBi's biases depend on."""

    heads: int
    naive: bool = False
    sign: int = 1

    def scheme(self, rows: int) -> pecli.Scheme:
        return pecli.Alibi(self.heads, rows)

    def tables(self, rows: int) -> tuple[Array, ...]:
        naive = 8 * np.arange(1, self.heads + 1) / self.heads
        exponents = naive if self.naive else np.array(oracle.get_slopes(self.heads), float)
        distance = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
        return (-self.sign * 2.0 ** -exponents[:, None, None] * distance,)


LLAMA3 = {
    "type": "llama3",
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
MODELS = (
    Waves(128, 10000.0),
    Waves(64, 10000.0),
    Waves(128, 1000000.0),
    Waves(128, 500000.0, {**LLAMA3, "factor": 8.0}),
    Waves(64, 500000.0, {**LLAMA3, "factor": 32.0}),
    Waves(128, 1000000.0, {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    Waves(64, 150000.0, {"type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}),
    Waves(64, 10000.0, {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}),
    Waves(128, 10000.0, {"type": "linear", "factor": 4.0}),
    Waves(96, 10000.0, {"type": "linear", "factor": 2.0}),
)  # fmt: skip
"""Shapes and settings of public models."""
SUBJECTS = (
    *MODELS,
    Sinusoids(64, 10000.0),
    Sinusoids(128, 10000.0),
    Biases(8),
    Biases(12),
    Biases(6),
)


@dataclass(frozen=True)
class Mistake:
    """A planted mistake, of the parameters or of the tables; `names` are the edits that tell it."""

    name: str
    names: tuple[str, ...]
    parameters: Callable[[Any, Random], Any] = lambda case, rng: case
    tables: Callable[..., tuple[Array, ...]] = lambda *tables: tables


def _other_factor(case: Waves, rng: Random) -> Waves:
    if "factor" not in case.scaling:
        return replace(case, base=case.base * 50)
    others = [
        value for value in (2.0, 4.0, 8.0, 16.0, 32.0, 40.0) if value != case.scaling["factor"]
    ]
    return replace(case, scaling={**case.scaling, "factor": float(rng.choice(others))})


BIAS_MISTAKES = (
    Mistake("naive slopes", ("rule",), lambda case, rng: replace(case, naive=True)),
    Mistake("sign", ("negated",), lambda case, rng: replace(case, sign=-1)),
    Mistake("heads reversed", ("heads",), tables=lambda bias: (bias[::-1],)),
    Mistake("scaled", ("scaled", "max_bias"), tables=lambda bias: (0.125 * bias,)),
)
SINUSOID_MISTAKES = ("base", "offset", "exponent - 1", "swapped", "rows reversed", "scaled")
MISTAKES = (
    Mistake("base", ("base",), lambda case, rng: replace(case, base=10000.0 if case.base != 10000.0 else 500000.0)),
    Mistake("scaling missing", ("scaling",), lambda case, rng: replace(case, scaling={})),
    Mistake("factor", ("factor", "base", "scaling"), _other_factor),
    Mistake("offset", ("offset",), lambda case, rng: replace(case, offset=int(rng.choice([-1, 1, 2, 7])))),
    Mistake("exponent", ("exponent_dim",), lambda case, rng: replace(case, exponent_dim=2.0 * case.dim)),
    Mistake("exponent - 1", ("exponent_dim", "freq_shift"), lambda case, rng: replace(case, exponent_dim=case.dim - 2)),
    Mistake("amplitude squared", ("attention_factor",), lambda case, rng: replace(case, amplitude_power=2)),
    Mistake("amplitude dropped", ("attention_factor",), lambda case, rng: replace(case, amplitude_power=0)),
    Mistake("swapped", ("swapped",), tables=lambda cos, sin: (sin, cos)),
    Mistake("sin negated", ("negated",), tables=lambda cos, sin: (cos, -sin)),
    Mistake("rows reversed", ("rows", "offset"), tables=lambda cos, sin: (cos[::-1], sin[::-1])),
    Mistake("frequencies reversed", ("channels",), tables=lambda cos, sin: (cos[:, ::-1], sin[:, ::-1])),
    Mistake("scaled", ("scaled", "attention_factor", "amplitude"), tables=lambda cos, sin: (1.5 * cos, 1.5 * sin)),
)  # fmt: skip


SHAPES: Mapping[str, Callable[..., dict[str, Array]]] = {
    "compact": lambda cos, sin: {"cos": cos, "sin": sin},
    "halves": lambda cos, sin: {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)},
    "cos | sin": lambda cos, sin: {"cos_sin_cache": np.concatenate([cos, sin], -1)},
    "cos cos | sin sin": lambda cos, sin: {
        "cos_sin_cache": np.concatenate([cos, cos, sin, sin], -1)
    },
    "pairs": lambda cos, sin: {"freqs_cis": np.stack([cos, sin], -1)},
    "complex": lambda cos, sin: {"freqs_cis": cos + 1j * sin},
    "matrices": lambda cos, sin: {
        "freqs": np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    },
    "stacked": lambda cos, sin: {"cos_sin": np.stack([cos, sin])},
    "batch": lambda cos, sin: {"cos": np.stack([cos] * 2), "sin": np.stack([sin] * 2)},
    "batch and head": lambda cos, sin: {
        "cos": np.tile(cos, 2)[None, None],
        "sin": np.tile(sin, 2)[None, None],
    },
}
SINUSOID_SHAPES: Mapping[str, Callable[..., dict[str, Array]]] = {
    "pe": lambda cos, sin: {"pe": np.stack([sin, cos], -1).reshape(len(cos), -1)},
    "pe in a batch": lambda cos, sin: {
        "pe": np.stack([np.stack([sin, cos], -1).reshape(len(cos), -1)] * 3)
    },
}
BIAS_SHAPES: Mapping[str, Callable[..., dict[str, Array]]] = {
    "bias": lambda bias: {"bias": bias},
    "one batch": lambda bias: {"bias": bias[None]},
}
STORAGES: Mapping[str, tuple[Any, float]] = {
    "float64": (np.float64, 2**-52),
    "float32": (np.float32, 2**-23),
    "float16": (np.float16, 2**-10),
    "bfloat16": (ml_dtypes.bfloat16, 2**-7),
    "6 decimals": (6, 1e-6),
    "4 decimals": (4, 1e-4),
}
"""How values are kept, and the distance between neighbours of order one."""


def _taken(x: Array, axis: int, order: Callable[[int], Any]) -> Array:
    return np.take(x, order(x.shape[axis]), axis)


def _with_element(x: Array, rng: Random, value: float) -> Array:
    changed = x.copy()
    changed.reshape(-1)[rng.integers(x.size)] = value
    return changed


DAMAGES: Mapping[str, Callable[[Array, Random], Array]] = {
    "rows shuffled": lambda x, rng: _taken(x, -2, rng.permutation),
    "rows shuffled but the first": lambda x, rng: _taken(
        x, -2, lambda n: np.r_[0, 1 + rng.permutation(n - 1)]
    ),
    "rows rolled": lambda x, rng: np.roll(x, rng.integers(1, 4), -2),
    "rows one late": lambda x, rng: _taken(x, -2, lambda n: np.maximum(0, np.arange(n) - 1)),
    "rows repeated": lambda x, rng: _taken(x, -2, lambda n: np.arange(n) // 2),
    "rows missing": lambda x, rng: x[..., :-1, :],
    "columns shuffled": lambda x, rng: _taken(x, -1, rng.permutation),
    "columns swapped": lambda x, rng: _taken(x, -1, lambda n: np.minimum(np.arange(n) ^ 1, n - 1)),
    "halves as interleaved": lambda x, rng: _taken(
        x, -1, lambda n: np.argsort(np.arange(n) % 2, kind="stable")
    ),
    "scaled": lambda x, rng: x * rng.choice([1e-6, 0.5, 1.001, 8.0, 1e20]),
    "denormal": lambda x, rng: x * 1e-310,
    "half negated": lambda x, rng: np.concatenate(
        [x[..., : x.shape[-1] // 2], -x[..., x.shape[-1] // 2 :]], -1
    ),
    "absolute": lambda x, rng: np.abs(x),
    "squared": lambda x, rng: x * x,
    "inverted": lambda x, rng: 1 / np.where(x == 0, 1, x),
    "cast to integers": lambda x, rng: np.rint(x),
    "fixed point": lambda x, rng: np.rint(np.clip(x, -1, 1) * 127),
    "noise": lambda x, rng: x + 10.0 ** rng.integers(-9, 0) * rng.standard_normal(x.shape),
    "an element": lambda x, rng: _with_element(
        x, rng, float(rng.choice([0.0, 0.5, -3.0, 1e3, np.nan, np.inf]))
    ),
    "all NaN": lambda x, rng: np.full_like(x, np.nan),
    "all zero": lambda x, rng: np.zeros_like(x),
    "all one": lambda x, rng: np.ones_like(x),
    "bytes swapped": lambda x, rng: x.astype(np.float32).byteswap().astype(np.float64),
    "other numbers": lambda x, rng: rng.standard_normal(x.shape),
}
"""What becomes of a file that has nothing to do with how tables are computed."""


@dataclass(frozen=True)
class Dump:
    """One random dump: what it should be, what it is, and how it is judged."""

    case: Any
    mistakes: tuple[Mistake, ...]
    rows: int
    shape: str
    storage: str
    atol: float
    door: str
    right: tuple[Array, ...]
    found: tuple[Array, ...]
    damage: str = ""

    def errors(self) -> tuple[float, float]:
        """The largest error against the true values, and against those rounded as the dump is."""
        rounded = stored(self.right, self.storage, self.shape)
        return largest_error(self.right, self.found), largest_error(rounded, self.found)

    def arrays(self) -> dict[str, Array]:
        made = shapes_of(self.case)[self.shape](*self.found)
        kind = STORAGES[self.storage][0] if "decimals" not in self.storage else np.float32
        kind = np.complex64 if self.shape == "complex" else kind
        return {name: array.astype(kind) for name, array in made.items()}

    def __str__(self) -> str:
        names = " + ".join(mistake.name for mistake in self.mistakes) or self.damage or "right"
        return f"{names}; {self.case}; {self.rows} rows, {self.shape}, {self.storage}, atol {self.atol:g}, {self.door}"


def largest_error(right: Sequence[Array], found: Sequence[Array]) -> float:
    """Infinite where shapes differ or a value is none."""
    pairs = list(zip(right, found, strict=True))
    if any(one.shape != other.shape for one, other in pairs):
        return math.inf
    error = float(np.max([np.abs(one - other).max() for one, other in pairs]))
    return math.inf if math.isnan(error) else error


def shapes_of(case: Any) -> Mapping[str, Callable[..., dict[str, Array]]]:
    return (
        BIAS_SHAPES
        if isinstance(case, Biases)
        else SINUSOID_SHAPES
        if isinstance(case, Sinusoids)
        else SHAPES
    )


def mistakes_of(case: Any) -> Sequence[Mistake]:
    if isinstance(case, Biases):
        return BIAS_MISTAKES
    return [
        mistake for mistake in MISTAKES if type(case) is Waves or mistake.name in SINUSOID_MISTAKES
    ]


def stored(parts: Sequence[Array], storage: str, shape: str) -> tuple[Array, ...]:
    kind = np.float32 if shape == "complex" else STORAGES[storage][0]
    if isinstance(kind, int):
        return tuple(np.round(part, kind).astype(np.float32).astype(np.float64) for part in parts)
    return tuple(part.astype(kind).astype(np.float64) for part in parts)


def wrong_tables(case: Any, mistakes: Sequence[Mistake], rows: int, seed: int) -> tuple[Array, ...]:
    for mistake in mistakes:
        case = mistake.parameters(case, np.random.default_rng([seed, *mistake.name.encode()]))
    tables: tuple[Array, ...] = case.tables(rows)
    for mistake in mistakes:
        tables = mistake.tables(*tables)
    return tables


@np.errstate(all="ignore")
def draw(rng: Random, *, search: bool) -> Dump:
    case = SUBJECTS[rng.integers(len(SUBJECTS))]
    rows = int(rng.choice([64, 128, 300, 512] if search else [5, 16, 33, 64, 128, 300]))
    rows = min(rows, 64) if isinstance(case, Biases) else rows
    count = 1 + int(rng.random() < 0.25) if search else int(rng.choice([0, 0, 1, 2]))
    known = mistakes_of(case)
    mistakes = tuple(known[k] for k in rng.choice(len(known), count, replace=False))
    shape, storage = (str(rng.choice([*names])) for names in (shapes_of(case), STORAGES))
    storage = "float32" if shape == "complex" else storage
    atol = float(rng.choice([1e-3, 1e-2] if STORAGES[storage][1] > 1e-4 else [1e-5, 1e-4, 1e-3]))
    atol *= (
        64.0 if isinstance(case, Biases) and STORAGES[storage][1] > 1e-4 else 1.0
    )  # biases reach the number of rows
    seed = int(rng.integers(1 << 30))
    tables = wrong_tables(case, mistakes, rows, seed)
    for left_out in mistakes if search else ():  # only mistakes that show, each of them
        others = wrong_tables(
            case, [mistake for mistake in mistakes if mistake is not left_out], rows, seed
        )
        if largest_error(tables, others) < 30 * atol:
            return draw(rng, search=search)
    doors = ["scheme", "diff", "model", "file"] if type(case) is Waves else ["scheme", "diff"]
    damage = ""
    if not mistakes and rng.random() < 0.6:
        damage = str(rng.choice([*DAMAGES]))
        doors = ["scheme", "diff", "identify", "inspect"]
        shape = next(iter(shapes_of(case)))
        tables = tuple(DAMAGES[damage](part, np.random.default_rng(seed)) for part in tables)
    found = stored(tables, storage, shape)
    return Dump(
        case,
        mistakes,
        rows,
        shape,
        storage,
        atol,
        str(rng.choice(doors)),
        case.tables(rows),
        found,
        damage,
    )


def _diff(dump: Dump, reasons: bool) -> dict[str, Any]:
    first_shape = next(iter(shapes_of(dump.case).values()))
    return pecli.diff(
        first_shape(*dump.right), dump.arrays(), atol=dump.atol, reasons=reasons
    ).as_json()


def _verify(dump: Dump, spec: Any, reasons: bool) -> dict[str, Any]:
    return pecli.verify(dump.arrays(), spec, atol=dump.atol, reasons=reasons).as_json()


def _command(dump: Dump, words: str) -> dict[str, Any]:
    """What a command says about files of the dump and of the model's configuration."""
    out = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
    ):
        pecli.save("dump.safetensors", dump.arrays())
        Path("config.json").write_text(
            json.dumps(getattr(dump.case, "config", {})), encoding="utf-8"
        )
        assert run([*words.split(), "--json"]) in (0, 1)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


DOORS: Mapping[str, Callable[[Dump, bool], Any]] = {
    "scheme": lambda dump, reasons: _verify(dump, dump.case.scheme(dump.rows), reasons),
    "model": lambda dump, reasons: _verify(dump, dump.case.config, reasons),
    "diff": _diff,
    "file": lambda dump, _: _command(
        dump, f"verify dump.safetensors --config config.json --atol {dump.atol!r}"
    ),
    "identify": lambda dump, _: {"matches": pecli.identify(dump.arrays()).matches},
    "inspect": lambda dump, _: _command(dump, "inspect dump.safetensors --stats"),
}
"""What each says of a dump; with reasons, or with the verdict alone, where it can be had."""


def verdict_problem(dump: Dump) -> str:
    errors = dump.errors()
    undecided = any(abs(error - dump.atol) < 1e-9 + 0.02 * dump.atol for error in errors)
    if undecided or (errors[0] <= dump.atol) != (errors[1] <= dump.atol):
        return ""
    right = errors[0] <= dump.atol
    passed = bool(DOORS[dump.door](dump, False).get("passed", right))
    return (
        ""
        if passed == right
        else f"false {'pass' if passed else 'failure'} (off by {errors[0]:.3g})"
    )


def search_problem(dump: Dump) -> str:
    if dump.errors()[0] <= 3 * max(dump.atol, STORAGES[dump.storage][1]):
        return ""
    start = time.process_time()
    answer = DOORS[dump.door](dump, True)
    spent = time.process_time() - start
    if spent > MAX_CPU_SECONDS * 1.25:
        return f"slow ({spent:.1f} s)"
    reasons = answer["explanations"]
    size = max(1.0, *(float(np.abs(part).max()) for part in dump.found))
    allowed = 1.05 * max(dump.atol, 4 * STORAGES[dump.storage][1] * size)
    if any(reason["residual"] is None or reason["residual"] > allowed for reason in reasons):
        return f"a claim leaves {max(reason['residual'] or math.inf for reason in reasons):.3g}: {answer['diagnosis']}"
    named = {edit.get("name", edit["edit"]) for reason in reasons for edit in reason["edits"]}
    missing = [mistake.name for mistake in dump.mistakes if not named & {*mistake.names}]
    return f"not named: {', '.join(missing)}; said {answer['diagnosis']}" if missing else ""


def verdict(seed: int) -> tuple[str, str]:
    """A random dump's door, and what is wrong with the verdict there."""
    return _attempt(draw(np.random.default_rng([seed, 0]), search=False), verdict_problem)


def search(seed: int) -> tuple[str, str]:
    """A random dump's door, and what is wrong with the reasons for its failure."""
    return _attempt(draw(np.random.default_rng([seed, 1]), search=True), search_problem)


def _attempt(dump: Dump, problem_of: Callable[[Dump], str]) -> tuple[str, str]:
    try:
        problem = problem_of(dump)
    except Exception:
        problem = f"raised {traceback.format_exc(limit=-2)}"
    return dump.door, f"{problem}\n    {dump}" if problem else ""
