"""Tables of random schemes are written to files and identified; the printed command is run, and what it makes is
compared with the file.
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

DTYPES = ("float32", "float16", "bfloat16")
UNKNOWN = 12345.0  # a base of no model
BASES = (
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
    UNKNOWN,
    25000.0,
)


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
        return pecli.Sinusoidal(
            draw.length(), dim, style=draw.one(*sorted(STYLES)), dtype=draw.one(*DTYPES)
        )
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
    scaling = draw.one(
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
    layout = draw.one("compact", "halves", "interleaved")
    known = [
        base for base in BASES if base != UNKNOWN or scaling != "longrope"
    ]  # which has a number per frequency
    given = {
        "base": draw.one(*known),
        "offset": draw.offset(),
        "layout": layout,
        "dtype": draw.one(*DTYPES),
    }
    return pecli.Rope(
        draw.length(), dim, scaling=scaling, **given, **scaling_parameters(draw, scaling, dim)
    )


def scaling_parameters(draw: Draw, scaling: str, dim: int) -> dict[str, Any]:
    if scaling in ("none", "proportional"):
        return {}
    given = {"factor": draw.one(2.0, 4.0, 8.0, 2.5, 32.0)}
    if scaling == "dynamic":
        given["max_position_embeddings"] = draw.one(64, 256, 2048)
    if scaling in ("yarn", "longrope", "llama3"):
        given["original_max_position_embeddings"] = draw.one(
            128 if scaling == "longrope" else 2048, 4096, 8192, 32768
        )
    if scaling == "llama3":
        given |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if scaling == "longrope":
        given["short_factor"] = tuple(np.round(1 + draw.rng.random(dim // 2), 2).tolist())
        given["long_factor"] = tuple(
            np.sort(np.round(1 + 30 * draw.rng.random(dim // 2) ** 2, 2)).tolist()
        )
    if scaling == "yarn":
        given["truncate"] = draw.one(True, True, False)
        given |= draw.one(
            {}, {}, {"beta_fast": draw.one(16.0, 64.0), "beta_slow": draw.one(1.0, 2.0)}
        )
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


def random_scheme(draw: Draw) -> pecli.Scheme:
    while True:
        with contextlib.suppress(ParameterError):
            scheme: pecli.Scheme = draw.one(sinusoidal, sinusoidal, rope, rope, rope, rope, alibi)(
                draw
            )
            return scheme


def attempt(seed: int) -> tuple[str, str]:
    """Make a table, identify it, make it again: its kind, and why it was not made again."""
    draw = Draw(seed)
    scheme = random_scheme(draw)
    suffix = (
        ".safetensors" if scheme.dtype == "bfloat16" else draw.one(".npy", ".npz", ".safetensors")
    )
    tables = {"array": scheme.single_array().array()} if suffix == ".npy" else scheme.tables()
    if draw.one(False, True):
        tables.pop("inv_freq", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"unknown{suffix}"
        pecli.save(path, tables.get("array", tables))
        answer = pecli.identify(path)
        problem = f"nothing found: {' | '.join(answer.description)}"
        if answer.matches:
            problem = made_again(answer.matches[0], tables, Path(folder))
    kind = f"{scheme.name} {getattr(scheme, 'scaling', '')}".strip()
    return kind, f"{scheme!r:.400} in {suffix}\n    {problem}" if problem else ""


def made_again(match: Match, tables: dict[str, np.ndarray], folder: Path) -> str:
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
        if problem := difference(tables[name], other):
            return f"{name}: {problem}"
    return ""


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """How two tables differ by more than two units of the last place of the largest element."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{other.dtype} {other.shape}, not {one.dtype} {one.shape}"
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(a == b, 0.0, np.abs(a - b)).max(initial=0)
    allowed = 2.0 ** (2 - SIGNIFICAND_BITS[one.dtype.name]) * np.abs(a[np.isfinite(a)]).max(
        initial=0
    )
    return "" if error <= allowed else f"an error of {error:.3g}, where {allowed:.3g} is allowed"
