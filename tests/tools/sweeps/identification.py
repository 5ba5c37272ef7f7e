"""Tables of random schemes are written to files and identified.

The command that is printed is run, and its table is compared with the file.
"""

import contextlib
import io
import math
import shlex
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pecli
from pecli.checks.identify import Match
from pecli.cli.app import run
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.errors import ParameterError
from tests.tools.sweeps import Attempt

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float16", "bfloat16")
USUAL_BASES = (
    10000.0,
    10000.0,
    500000.0,
    1e6,
    100.0,
    150000.0,
    5e6,
    160000.0,
    1000.0,
    8e6,
    25000.0,
)
UNUSUAL_BASE = 12345.0  #: a base of no model
SCALINGS = (
    "none",
    "none",
    "linear",
    "ntk",
    "dynamic",
    "yarn",
    "yarn",
    "longrope",
    "llama3",
    "proportional",
)


class Draw:
    """Random choices by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choice(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def length(self) -> int:
        return int(self.choice(64, 100, 128, 256, 512, 1000, self.integer(64, 2048)))

    def offset(self) -> int:
        return int(self.choice(0, 0, 0, 1, 2, 100, self.integer(1, 5000)))


def draw_sinusoidal(draw: Draw) -> pecli.Scheme:
    dim = draw.choice(16, 32, 64, 128, 256, 2 * draw.integer(8, 128), draw.integer(16, 128))
    if draw.chance(0.3):
        style = draw.choice(*sorted(STYLES))
        return pecli.Sinusoidal(draw.length(), dim, style=style, dtype=draw.choice(*DTYPES))
    offset = draw.offset()
    usual_amplitudes = (1.0, 1.0, 1.0, 0.1, 2.5)
    return pecli.Sinusoidal(
        draw.length(),
        dim,
        base=draw.choice(*USUAL_BASES, UNUSUAL_BASE),
        layout=draw.choice("interleaved", "halves"),
        cos_first=draw.choice(False, True),
        freq_shift=draw.choice(0.0, 0.0, 1.0, 0.5),
        offset=offset,
        scale=draw.choice(1.0, 1.0, 1.0, 0.5, 0.1, 2.0, 0.25),
        amplitude=draw.choice(*usual_amplitudes, 1 / math.sqrt(dim), math.sqrt(2 / dim)),
        padding_idx=draw.choice(None, None, None, offset, offset + 1),
        dtype=draw.choice(*DTYPES),
    )


def draw_rope(draw: Draw) -> pecli.Scheme:
    dim = draw.choice(16, 32, 64, 96, 128, 128, 2 * draw.integer(8, 128))
    scaling = draw.choice(*SCALINGS)
    bases = USUAL_BASES
    if scaling != "longrope":  # It has a number per frequency, which hides an unusual base.
        bases = (*USUAL_BASES, UNUSUAL_BASE)
    return pecli.Rope(
        draw.length(),
        dim,
        layout=draw.choice("compact", "halves", "interleaved"),
        base=draw.choice(*bases),
        offset=draw.offset(),
        dtype=draw.choice(*DTYPES),
        scaling=scaling,
        **scaling_parameters(draw, scaling, dim),
    )


def scaling_parameters(draw: Draw, scaling: str, dim: int) -> dict[str, Any]:
    if scaling in ("none", "proportional"):
        return {}
    parameters: dict[str, Any] = {"factor": draw.choice(2.0, 4.0, 8.0, 2.5, 32.0)}
    match scaling:
        case "dynamic":
            parameters["max_position_embeddings"] = draw.choice(64, 256, 2048)
        case "llama3":
            parameters["original_max_position_embeddings"] = draw.choice(2048, 4096, 8192, 32768)
            parameters["low_freq_factor"] = 1.0
            parameters["high_freq_factor"] = 4.0
        case "longrope":
            parameters["original_max_position_embeddings"] = draw.choice(128, 4096, 8192, 32768)
            parameters |= longrope_factors(draw, dim // 2)
        case "yarn":
            parameters["original_max_position_embeddings"] = draw.choice(2048, 4096, 8192, 32768)
            parameters |= yarn_parameters(draw)
    return parameters


def longrope_factors(draw: Draw, pairs: int) -> dict[str, Any]:
    short = np.round(1 + draw.rng.random(pairs), 2)
    long = np.sort(np.round(1 + 30 * draw.rng.random(pairs) ** 2, 2))
    return {"short_factor": tuple(short.tolist()), "long_factor": tuple(long.tolist())}


def yarn_parameters(draw: Draw) -> dict[str, Any]:
    betas = {"beta_fast": draw.choice(16.0, 64.0), "beta_slow": draw.choice(1.0, 2.0)}
    scales = {"mscale": draw.choice(1.0, 0.707), "mscale_all_dim": draw.choice(1.0, 0.707)}
    attention = {"attention_factor": draw.choice(1.0, 1.1, 0.9)}
    return {
        "truncate": draw.choice(True, True, False),
        **draw.choice({}, {}, betas),
        **draw.choice({}, {}, {}, attention, scales),
    }


def draw_alibi(draw: Draw) -> pecli.Scheme:
    return pecli.Alibi(
        draw.integer(3, 64),
        draw.choice(16, 64, 100, 128, None),
        rule=draw.choice("paper", "paper", "naive"),
        max_bias=draw.choice(8.0, 8.0, 16.0, 4.0, 10.0, 7.5),
        form=draw.choice("symmetric", "causal", "key", "key-last"),
        dtype=draw.choice(*DTYPES),
    )


DRAWS = (draw_sinusoidal, draw_sinusoidal, draw_rope, draw_rope, draw_rope, draw_rope, draw_alibi)


def draw_scheme(draw: Draw) -> pecli.Scheme:
    """Return a random scheme whose parameters go together."""
    while True:
        with contextlib.suppress(ParameterError):
            scheme: pecli.Scheme = draw.choice(*DRAWS)(draw)
            return scheme


def attempt_identification(seed: int) -> Attempt:
    """Write a random table, identify it, and make it again by the printed command."""
    draw = Draw(seed)
    scheme = draw_scheme(draw)
    suffix = ".safetensors"
    if scheme.dtype != "bfloat16":
        suffix = draw.choice(".npy", ".npz", ".safetensors")
    tables = scheme.tables()
    if suffix == ".npy":
        tables = {"array": scheme.single_array().array()}
    if draw.chance(0.5):
        tables.pop("inv_freq", None)
    kind = scheme.name
    if isinstance(scheme, pecli.Rope):
        kind = f"rope {scheme.scaling}"
    problem = problem_of(tables, suffix)
    if problem:
        problem = f"{scheme!r:.400} in {suffix}\n    {problem}"
    return Attempt(kind, problem)


def problem_of(tables: dict[str, Array], suffix: str) -> str:
    """Return why tables were not identified and made again; empty if they were."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"unknown{suffix}"
        pecli.save(path, tables.get("array", tables))
        answer = pecli.identify(path)
        if not answer.matches:
            return f"nothing identified: {' | '.join(answer.description)}"
        return difference_of_command(answer.matches[0], tables, Path(folder))


def difference_of_command(match: Match, tables: dict[str, Array], folder: Path) -> str:
    """Run the command of a match; return how its tables differ, empty if they do not."""
    *words, output = shlex.split(match.command)
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run([*words[1:], str(folder / output), "-q"])
    if code:
        return f"the command ends with {code}: {errors.getvalue()}"
    again: dict[str, Any] = pecli.load(folder / output)
    for name in match.tensors:
        problem = difference(tables[name], table_made_again(name, tables[name], again))
        if problem:
            return f"{name}: {problem}"
    return ""


def table_made_again(name: str, table: Array, again: dict[str, Any]) -> Array:
    """Return the table that corresponds to a tensor, which may hold cosines and sines stacked."""
    if name in again:
        found: Array = again[name]
    elif table.ndim == 3 and "cos" in again:
        found = np.stack([again["cos"], again["sin"]])
    else:
        found = next(iter(again.values()))
    return found


def difference(table: Array, again: Array) -> str:
    """Return how two tables differ by more than two ULPs of the largest element."""
    if table.shape != again.shape or table.dtype != again.dtype:
        return f"{again.dtype} {again.shape}, not {table.dtype} {table.shape}"
    expected = table.astype(np.float64)
    values = again.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(expected == values, 0.0, np.abs(expected - values)).max(initial=0)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    allowed = 2.0 ** (2 - SIGNIFICAND_BITS[table.dtype.name]) * largest
    if error <= allowed:
        return ""
    return f"an error of {error:.3g}, but {allowed:.3g} is allowed"
