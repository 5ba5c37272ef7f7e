"""Identify many random tables: `python -m tests.tools.sweep_identify --specs 2000 [--seed N] [--processes 2]`.

Not part of the test suite. Tables of random schemes are written to files and identified; the printed command is run,
and what it makes is compared with the file. Prints how many were made again, and every failure with its spec; exits 1
if fewer than 99.5% were.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pecli
from pecli.checks.identify import Match
from pecli.cli.app import run
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.schemes import Choice
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.errors import ParameterError

DTYPES = ("float32", "float16", "bfloat16")
BASES = (10000.0, 10000.0, 500000.0, 1e6, 100.0, 150000.0, 5e6, 160000.0, 1000.0, 8e6, 12345.0, 25000.0)
NOISE = 1e-5
MIN_MADE_AGAIN = 0.995


class Draw:
    """Random numbers by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def length(self) -> int:
        return int(self.one(64, 100, 128, 256, 512, 1000, self.integer(64, 2048)))

    def offset(self) -> int:
        return int(self.one(0, 0, 0, 1, 2, 100, self.integer(1, 5000)))


def sinusoidal(draw: Draw) -> pecli.Scheme:
    dim = draw.one(16, 32, 64, 128, 256, 2 * draw.integer(8, 128), draw.integer(16, 128))
    if draw.chance(0.3):
        return pecli.Sinusoidal(draw.length(), dim, style=draw.one(*sorted(STYLES)), dtype=draw.one(*DTYPES))
    offset = draw.offset()
    return pecli.Sinusoidal(
        draw.length(),
        dim,
        base=draw.one(*BASES),
        layout=draw.one("interleaved", "halves"),
        cos_first=draw.one(False, True),
        freq_shift=draw.one(0.0, 0.0, 1.0, 0.5),
        offset=offset,
        scale=draw.one(1.0, 1.0, 1.0, 0.5, 0.1, 2.0, 0.25),
        amplitude=draw.one(1.0, 1.0, 1.0, 0.1, 2.5, 1 / math.sqrt(dim), math.sqrt(2 / dim)),
        padding_idx=draw.one(None, None, None, offset, offset + 1),
        dtype=draw.one(*DTYPES),
    )


def rope(draw: Draw) -> pecli.Scheme:
    dim = draw.one(16, 32, 64, 96, 128, 128, 2 * draw.integer(8, 128))
    scaling = draw.one("none", "none", "linear", "ntk", "dynamic", "yarn", "yarn", "longrope", "llama3", "proportional")
    layout = draw.one("compact", "halves", "interleaved")
    given = {"base": draw.one(*BASES), "offset": draw.offset(), "layout": layout, "dtype": draw.one(*DTYPES)}
    return pecli.Rope(draw.length(), dim, scaling=scaling, **given, **scaling_parameters(draw, scaling, dim))


def scaling_parameters(draw: Draw, scaling: str, dim: int) -> dict[str, Any]:
    if scaling in ("none", "proportional"):
        return {}
    given = {"factor": draw.one(2.0, 4.0, 8.0, 2.5, 32.0)}
    if scaling == "dynamic":
        given["max_position_embeddings"] = draw.one(64, 256, 2048)
    if scaling in ("yarn", "longrope", "llama3"):
        given["original_max_position_embeddings"] = draw.one(128 if scaling == "longrope" else 2048, 4096, 8192, 32768)
    if scaling == "llama3":
        given |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if scaling == "longrope":
        given["short_factor"] = tuple(np.round(1 + draw.rng.random(dim // 2), 2).tolist())
        given["long_factor"] = tuple(np.sort(np.round(1 + 30 * draw.rng.random(dim // 2) ** 2, 2)).tolist())
    if scaling == "yarn":
        given["truncate"] = draw.one(True, True, False)
        given |= draw.one({}, {}, {"beta_fast": draw.one(16.0, 64.0), "beta_slow": draw.one(1.0, 2.0)})
        scales = {"mscale": draw.one(1.0, 0.707), "mscale_all_dim": draw.one(1.0, 0.707)}
        given |= draw.one({}, {}, {}, {"attention_factor": draw.one(1.0, 1.1, 0.9)}, scales)
    return given


def alibi(draw: Draw) -> pecli.Scheme:
    return pecli.Alibi(
        draw.integer(3, 64),
        draw.one(16, 64, 100, 128, None),
        rule=draw.one("paper", "paper", "naive"),
        max_bias=draw.one(8.0, 8.0, 16.0, 4.0, 10.0, 7.5),
        form=draw.one("symmetric", "causal", "key", "key-last"),
        dtype=draw.one(*DTYPES),
    )


def random_scheme(draw: Draw, recipes: float = 0.0) -> pecli.Scheme:
    """A scheme with random parameters that fit together; that share of them by a recipe that is not exact."""
    while True:
        with contextlib.suppress(ParameterError):
            scheme: pecli.Scheme = draw.one(sinusoidal, sinusoidal, rope, rope, rope, rope, alibi)(draw)
            choice = scheme.parameters().get("recipe")
            if isinstance(choice, Choice) and draw.chance(recipes):
                scheme = replace(scheme, recipe=draw.one(*choice.options))
            return scheme


class Outcome(NamedTuple):
    """What became of one table: why it was not made again, and which parameters are not the true ones, though other
    bits come of them and nothing is said to be undetermined.
    """

    scheme: pecli.Scheme
    seconds: float
    problem: str
    others: str = ""

    @property
    def verdict(self) -> str:
        return "lost" if self.problem else "otherwise" if self.others else "found"

    def __str__(self) -> str:
        given = {name: value for name, value in self.scheme.spec()["parameters"].items() if value is not None}
        return f"{self.verdict} {self.scheme.name} {given}\n    {self.problem or self.others}"


def attempt(seed: int, recipes: float = 0.0, kept: str = "") -> Outcome:
    """Make a table, identify it, make it again."""
    draw = Draw(seed)
    scheme = random_scheme(draw, recipes)
    scheme = scheme.in_dtype("float32") if kept else scheme
    suffix = ".safetensors" if scheme.dtype == "bfloat16" else draw.one(".npy", ".npz", ".safetensors")
    tables = {"array": scheme.single_array().array()} if suffix == ".npy" else scheme.tables()
    if draw.one(False, True):
        tables.pop("inv_freq", None)
    for name, table in tables.items() if kept else ():
        wide = table.astype(np.float64)
        noisy = np.round(wide, 5) if kept == "decimals" else wide + NOISE * draw.rng.normal(size=table.shape)
        tables[name] = noisy.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"unknown{suffix}"
        pecli.save(path, tables.get("array", tables))
        start = time.perf_counter()
        answer = pecli.identify(path)
        seconds = time.perf_counter() - start
        if not answer.matches:
            return Outcome(scheme, seconds, "nothing found: " + " | ".join(answer.description))
        match = answer.matches[0]
        problem = made_again(match, tables, Path(folder), 7 * NOISE if kept else 0.0)
    others = "" if match.undetermined or same_bits(scheme, match.scheme) else f"{match.scheme!r:.300}"
    return Outcome(scheme, seconds, problem, others)


def same_bits(one: pecli.Scheme, other: pecli.Scheme) -> bool:
    """Whether two schemes make the same table; rounded frequencies beside it do not count."""
    mine, yours = one.single_array().array(), other.single_array().array()
    return mine.dtype == yours.dtype and mine.shape == yours.shape and mine.tobytes() == yours.tobytes()


def made_again(match: Match, tables: dict[str, np.ndarray], folder: Path, atol: float) -> str:
    """What differs between the file and the command's, in words; nothing where they agree."""
    *words, output = shlex.split(match.command)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        if code := run([*words[1:], str(folder / output), "-q"]):
            return f"the command ends with {code}: {said.getvalue()}"
    again = pecli.load(folder / output)
    for name in match.tensors:
        other = again.get(name, next(iter(again.values())))
        if name not in again and tables[name].ndim == 3 and "cos" in again:
            other = np.stack([again["cos"], again["sin"]])
        if problem := difference(tables[name], other, atol):
            return f"{name}: {problem}"
    return ""


def difference(one: np.ndarray, other: np.ndarray, atol: float) -> str:
    """How two tables differ by more than two units of the last place of the largest element."""
    if one.shape != other.shape or (one.dtype != other.dtype and not atol):
        return f"{other.dtype} {other.shape}, not {one.dtype} {one.shape}"
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(a == b, 0.0, np.abs(a - b)).max(initial=0)
    allowed = atol + 2.0 ** (2 - SIGNIFICAND_BITS[one.dtype.name]) * np.abs(a[np.isfinite(a)]).max(initial=0)
    return "" if error <= allowed else f"an error of {error:.3g}, where {allowed:.3g} is allowed"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--specs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--recipes", type=float, default=0.0, help="the share that is not made exactly")
    parser.add_argument("--kept", default="", choices=("", "noise", "decimals"), help="how tables are kept")
    options = parser.parse_args()
    seeds = [options.seed * 10**6 + k for k in range(options.specs)]
    counts: Counter[str] = Counter()
    slowest = 0.0
    with get_context("spawn").Pool(options.processes) as pool:
        outcomes = pool.imap(partial(attempt, recipes=options.recipes, kept=options.kept), seeds, chunksize=4)
        for seed, outcome in zip(seeds, outcomes, strict=True):
            slowest = max(slowest, outcome.seconds)
            counts[outcome.verdict] += 1
            if outcome.verdict != "found":
                print(f"{seed}: {outcome}", flush=True)
    made = 1 - counts["lost"] / options.specs
    print(f"made again {made:.2%}, with true parameters {counts['found'] / options.specs:.2%}, slowest {slowest:.2f} s")
    return 0 if made >= MIN_MADE_AGAIN else 1


if __name__ == "__main__":
    sys.exit(main())
