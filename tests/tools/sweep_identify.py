"""Identify many random tables: `python -m tests.tools.sweep_identify --specs 2000 [--seed N] [--processes 2]`.

Not part of the test suite. Tables of random schemes are written to files and identified; the printed command is run,
and what it makes is held against the file. Prints how many were found, and every failure with its spec; exits 1 if
fewer than 99.5% were.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import pecli
from pecli.checks.identify import Match
from pecli.cli.app import run as run_command
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.schemes import Choice
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import STYLES, Sinusoidal
from pecli.errors import ParameterError

Rng = np.random.Generator
DTYPES = ("float32", "float16", "bfloat16")
BASES = (10000.0, 10000.0, 500000.0, 1e6, 100.0, 150000.0, 5e6, 160000.0, 1000.0, 8e6, 12345.0, 25000.0)
KINDS = ("sinusoidal", "sinusoidal", "rope", "rope", "rope", "rope", "alibi")


def random_scheme(rng: Rng, recipes: float = 0.0) -> Scheme:
    """A scheme with random parameters that fit together; that share of them by a recipe that is not exact."""
    while True:
        try:
            scheme = _MAKERS[str(rng.choice(KINDS))](rng)
            return _by_recipe(rng, scheme) if rng.random() < recipes else scheme
        except ParameterError:
            continue


def _by_recipe(rng: Rng, scheme: Scheme) -> Scheme:
    choice = scheme.parameters().get("recipe")
    return replace(scheme, recipe=_one(rng, choice.options)) if isinstance(choice, Choice) else scheme


def _one(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _length(rng: Rng) -> int:
    return int(_one(rng, (64, 100, 128, 256, 512, 1000, int(rng.integers(64, 2049)))))


def _offset(rng: Rng) -> int:
    return int(_one(rng, (0, 0, 0, 1, 2, 100, int(rng.integers(1, 5000)))))


def _sinusoidal(rng: Rng) -> Scheme:
    dim = int(_one(rng, (16, 32, 64, 128, 256, 2 * int(rng.integers(8, 129)), int(rng.integers(16, 129)))))
    length, dtype = _length(rng), str(_one(rng, DTYPES))
    if rng.random() < 0.3:
        return Sinusoidal(length, dim, style=_one(rng, sorted(STYLES)), dtype=dtype)
    offset = _offset(rng)
    return Sinusoidal(
        length,
        dim,
        base=_one(rng, BASES),
        layout=_one(rng, ("interleaved", "halves")),
        cos_first=bool(rng.random() < 0.5),
        freq_shift=_one(rng, (0.0, 0.0, 1.0, 0.5)),
        offset=offset,
        scale=_one(rng, (1.0, 1.0, 1.0, 0.5, 0.1, 2.0, 0.25)),
        amplitude=_one(rng, (1.0, 1.0, 1.0, 0.1, 2.5, 1 / math.sqrt(dim), math.sqrt(2 / dim))),
        padding_idx=_one(rng, (None, None, None, offset, offset + 1)),
        dtype=dtype,
    )


def _rope(rng: Rng) -> Scheme:
    dim = int(_one(rng, (16, 32, 64, 96, 128, 128, 2 * int(rng.integers(8, 129)))))
    scaling = str(_one(rng, ("none", "none", "linear", "ntk", "dynamic", "yarn", "yarn", "longrope", "llama3")))
    return Rope(
        _length(rng),
        dim,
        base=_one(rng, BASES),
        offset=_offset(rng),
        layout=_one(rng, ("compact", "halves", "interleaved")),
        scaling=scaling if rng.random() < 0.95 else "proportional",
        dtype=_one(rng, DTYPES),
        **(_SCALINGS[scaling](rng, dim)),
    )


def _yarn(rng: Rng, dim: int) -> dict[str, Any]:
    found = {"factor": _one(rng, (2.0, 4.0, 8.0, 32.0, 40.0)), "original_max_position_embeddings": _original(rng)}
    if rng.random() < 0.3:
        found["truncate"] = False
    if rng.random() < 0.3:
        found |= {"beta_fast": _one(rng, (16.0, 64.0)), "beta_slow": _one(rng, (1.0, 2.0))}
    extra = rng.random()
    if extra < 0.2:
        found["attention_factor"] = _one(rng, (1.0, 1.1, 0.9))
    elif extra < 0.4:
        found |= {"mscale": _one(rng, (1.0, 0.707)), "mscale_all_dim": _one(rng, (1.0, 0.707))}
    return found


def _longrope(rng: Rng, dim: int) -> dict[str, Any]:
    factors = np.sort(np.round(1 + 30 * rng.random(dim // 2) ** 2, 2)).tolist()
    short = np.round(1 + rng.random(dim // 2), 2).tolist()
    return {
        "factor": _one(rng, (8.0, 32.0)),
        "original_max_position_embeddings": int(_one(rng, (128, 4096))),
        "short_factor": tuple(short),
        "long_factor": tuple(factors),
    }


def _original(rng: Rng) -> int:
    return int(_one(rng, (2048, 4096, 8192, 32768)))


_SCALINGS: dict[str, Any] = {
    "none": lambda rng, dim: {},
    "linear": lambda rng, dim: {"factor": _one(rng, (2.0, 4.0, 8.0, 2.5))},
    "ntk": lambda rng, dim: {"factor": _one(rng, (2.0, 4.0, 8.0))},
    "dynamic": lambda rng, dim: {
        "factor": _one(rng, (2.0, 4.0, 10.0)),
        "max_position_embeddings": int(_one(rng, (64, 256, 2048))),
    },
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": lambda rng, dim: {
        "factor": _one(rng, (8.0, 32.0)),
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}


def _alibi(rng: Rng) -> Scheme:
    return Alibi(
        int(rng.integers(3, 65)),
        int(_one(rng, (16, 64, 100, 128))) if rng.random() < 0.75 else None,
        rule=_one(rng, ("paper", "paper", "naive")),
        max_bias=_one(rng, (8.0, 8.0, 16.0, 4.0, 10.0, 7.5)),
        form=_one(rng, ("symmetric", "causal", "key", "key-last")),
        dtype=_one(rng, DTYPES),
    )


_MAKERS: dict[str, Any] = {"sinusoidal": _sinusoidal, "rope": _rope, "alibi": _alibi}


VERDICTS = ("found", "unsaid", "wrong", "lost")
SPOKEN = {
    "attention factor": "attention_factor mscale mscale_all_dim",
    r"original lengths?": "original_max_position_embeddings",
    "divisors": "short_factor long_factor",
    "dynamic scaling": "max_position_embeddings",
}
"""Parameters in other words."""


@dataclass(frozen=True)
class Outcome:
    """What became of one table: nothing found, made again or not, and which parameters are not the true ones."""

    scheme: Scheme
    suffix: str
    seconds: float
    problem: str = ""
    wrong: tuple[str, ...] = ()
    same: bool = False
    """Whether the scheme that was found makes the very same bits."""
    found: Scheme | None = None
    undetermined: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """lost: not made again; wrong: other parameters; unsaid: those, but the table is the same to the last bit."""
        return "lost" if self.problem else "found" if not self.wrong else "unsaid" if self.same else "wrong"

    @property
    def kind(self) -> str:
        scaling = getattr(self.scheme, "scaling", "")
        return f"{self.scheme.name} {scaling}".strip()


def tables_of(scheme: Scheme, suffix: str) -> dict[str, np.ndarray]:
    """What a file of that format holds."""
    return {"array": scheme.single_array().array()} if suffix == ".npy" else scheme.tables()


def noisy(tables: dict[str, np.ndarray], kept: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Tables as float32 with noise of 1e-5, or rounded to five decimals."""
    change = {"noise": lambda x: x + 1e-5 * rng.normal(size=x.shape), "decimals": lambda x: np.round(x, 5)}[kept]
    return {name: change(table.astype(np.float64)).astype(np.float32) for name, table in tables.items()}


def attempt(seed: int, recipes: float = 0.0, kept: str = "") -> Outcome:
    """Make a table, identify it, make it again."""
    rng = np.random.default_rng(seed)
    scheme = random_scheme(rng, recipes)
    scheme = scheme.in_dtype("float32") if kept else scheme
    suffixes = [".safetensors"] if scheme.dtype == "bfloat16" else [".npy", ".npz", ".safetensors"]
    suffix = suffixes[int(rng.integers(len(suffixes)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"unknown{suffix}"
        tables = tables_of(scheme, suffix)
        if suffix != ".npy" and scheme.name == "rope" and rng.random() < 0.5:
            del tables["inv_freq"]
        tables = noisy(tables, kept, rng) if kept else tables
        pecli.save(path, tables if suffix != ".npy" else tables["array"])
        start = time.perf_counter()
        found = pecli.identify(path)
        seconds = time.perf_counter() - start
        if not found.matches:
            return Outcome(scheme, suffix, seconds, "nothing found: " + " | ".join(found.description))
        match = found.matches[0]
        problem = made_again(match, tables, Path(folder), 7e-5 if kept else 0.0)
    wrong = tuple(wrong_parameters(scheme, match))
    same = bool(wrong) and same_bits(scheme, match.scheme)
    if same and any(line.startswith("scaling:") for line in match.undetermined):
        wrong = ()  # said, with all that belongs to a scaling
    return Outcome(scheme, suffix, seconds, problem, wrong, same, match.scheme, match.undetermined)


def same_bits(one: Scheme, other: Scheme) -> bool:
    """Whether two schemes make the same table; rounded frequencies beside it do not count."""
    mine, yours = one.single_array().array(), other.single_array().array()
    return mine.dtype == yours.dtype and mine.shape == yours.shape and mine.tobytes() == yours.tobytes()


def made_again(match: Match, tables: dict[str, np.ndarray], folder: Path, atol: float = 0.0) -> str:
    """What differs between the file and the command's, in words; nothing where they agree."""
    words = shlex.split(match.command)
    path = folder / words.pop()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = run_command([*words[1:], str(path), "-q"])
    if code:
        return f"the command ends with {code}: {said.getvalue()}"
    again = pecli.load(path)
    for name in match.tensors:
        problem = unlike(tables[name], _counterpart(name, tables[name], again), atol)
        if problem:
            return f"{name}: {problem}"
    return ""


def _counterpart(name: str, table: np.ndarray, again: dict[str, np.ndarray]) -> np.ndarray:
    if name in again:
        return again[name]
    if table.ndim == 3 and "cos" in again:
        return np.stack([again["cos"], again["sin"]])
    return next(iter(again.values()))


def unlike(one: np.ndarray, other: np.ndarray, atol: float = 0.0) -> str:
    """How two tables differ by more than two units of the last place of the largest element."""
    if one.shape != other.shape:
        return f"its shape is {other.shape}, not {one.shape}"
    if one.dtype != other.dtype and not atol:
        return f"its dtype is {other.dtype}, not {one.dtype}"
    a, b = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "other elements are infinite"
    finite = np.isfinite(a)
    allowed = atol + 2.0 ** (2 - SIGNIFICAND_BITS[one.dtype.name]) * float(np.abs(a[finite]).max(initial=0))
    error = float(np.abs(a[finite] - b[finite]).max(initial=0))
    return f"an error of {error:.3g}, where {allowed:.3g} is allowed" if error > allowed else ""


def wrong_parameters(scheme: Scheme, match: Match) -> list[str]:
    """Parameters that are neither the true ones nor said to be undetermined."""
    found = match.scheme
    if scheme.name != found.name:
        return ["scheme"]
    slopes_alone = {"slopes", "seq_len"} if "form" in scheme.inert_parameters else set()
    idle = {*scheme.inert_parameters, *slopes_alone}
    said = " ".join(match.undetermined)
    for words, names in SPOKEN.items():
        said = re.sub(words, names, said)
    spoken = set(re.findall(r"\w+", said))
    return [
        name
        for name in scheme.parameters()
        if name not in idle and getattr(scheme, name) != getattr(found, name) and name not in spoken
    ]


def report(seed: int, outcome: Outcome) -> str:
    """A failure in a few lines: the spec without what is not set, and what was found instead."""
    given = {name: value for name, value in outcome.scheme.spec()["parameters"].items() if value is not None}
    lines = [f"{outcome.verdict} {seed} {outcome.suffix} {outcome.scheme.name} {given}", f"    {outcome.problem}"]
    if outcome.found is not None:
        lines += [f"    {name}: {getattr(outcome.found, name, None)}" for name in outcome.wrong]
    return "\n".join([*filter(str.strip, lines), *(f"    said: {line}" for line in outcome.undetermined)])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--specs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--recipes", type=float, default=0.0, help="the share that is not made exactly")
    parser.add_argument("--kept", default="", choices=("", "noise", "decimals"), help="how tables are kept")
    parser.add_argument("--unsaid", action="store_true", help="print those, too")
    given = parser.parse_args()
    seeds = [given.seed * 10**6 + k for k in range(given.specs)]
    counts: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    with get_context("spawn").Pool(given.processes) as pool:
        for seed, outcome in zip(
            seeds, pool.imap(partial(attempt, recipes=given.recipes, kept=given.kept), seeds, chunksize=4), strict=True
        ):
            slowest = max(slowest, outcome.seconds)
            counts[outcome.kind, outcome.verdict] += 1
            if outcome.verdict in ("lost", "wrong") or (given.unsaid and outcome.verdict == "unsaid"):
                print(report(seed, outcome), flush=True)
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:20}", *(f"{verdict} {counts[kind, verdict]:4}" for verdict in VERDICTS))
    made = given.specs - sum(count for (_, verdict), count in counts.items() if verdict == "lost")
    true = sum(count for (_, verdict), count in counts.items() if verdict == "found")
    print(
        f"made again {made / given.specs:.2%}, with true parameters {true / given.specs:.2%}, slowest {slowest:.2f} s"
    )
    return 0 if made >= 0.995 * given.specs else 1


if __name__ == "__main__":
    sys.exit(main())
