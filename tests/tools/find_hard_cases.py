"""Search for elements that are hard to round, and keep the hardest.

    python -m tests.tools.find_hard_cases [--seconds 120]

Writes `hard_cases.json`, beside this file. Two kinds are looked for, neither with pecli's help:

- **found**: elements of ordinary tables (well-known bases and dims, positions to 2^20 and just below 2^40). All of a
  table is made in float64 (products of two small tables from flint, good to about 4e-16); elements whose bits look like
  a tie of float32, float16 or bfloat16 are computed again as balls, and the closest are kept. Of n elements the closest
  lies about 1/(2n) ulp from a tie, so this finds what any user may meet: some 1e-10 ulp after a few minutes.
- **made**: elements whose amplitude was chosen to bring them close to a tie. There is one amplitude within 2^-54 of the
  ideal one; of many tried, a few come within 1e-14 ulp of float32, 1e-18 ulp of bfloat16. Closer still come cosines of
  tiny angles times an amplitude that is itself a tie: 1e-28 ulp and less, which 106 bits do not always decide.

The file kept in the repository is from a search of 1.1e10 elements.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx

from tests.oracle import FORMATS, rational

KEPT = Path(__file__).parents[1] / "engine/numerics/hard_cases.json"
NARROW = ("float32", "float16", "bfloat16")
TABLES = [(b, d) for b in (10000.0, 500000.0, 1e6, 100.0, 150000.0, 1e20, 2.0, 0.5) for d in (64, 128, 2, 3, 1024)]
ROWS, STEPS, WAVES = 2048, 512, 32


def frequency(base: float, dim: int, wave: int) -> arb:
    return arb(base) ** rational(Fraction(-2 * wave, dim)) if wave else arb(1)


def distance(value: arb, dtype: str) -> tuple[Fraction, float]:
    """The tie nearest to a value, and how many ulps away it is."""
    middle = Fraction(*_ratio(value))
    size = abs(middle)
    leading = size.numerator.bit_length() - size.denominator.bit_length()
    leading -= size < Fraction(2) ** leading
    precision, exponent_bits = FORMATS[dtype]
    ulp = Fraction(2) ** (max(leading, 2 - (1 << (exponent_bits - 1))) - precision + 1)
    tie = (middle // ulp + Fraction(1, 2)) * ulp
    away = abs(value - rational(tie)) / rational(ulp)
    return tie, float(away.mid())


def _ratio(value: arb) -> tuple[int, int]:
    man, exp = (int(part) for part in value.mid().man_exp())
    return (man << exp, 1) if exp >= 0 else (man, 1 << -exp)


def ordinary(base: float, dim: int, first: int) -> Iterator[dict[str, Any]]:
    """Elements of 2^20 rows of a table that look like ties in float64, with their true distances."""
    count = (dim + 1) // 2
    chosen = sorted(random.sample(range(count), min(WAVES, count)))
    turns = [frequency(base, dim, wave) for wave in chosen]
    small = _directions(turns, range(ROWS))
    for step in range(STEPS):
        start = first + step * ROWS
        pairs = small * _directions(turns, [start])
        for dtype in NARROW:
            spare = 53 - FORMATS[dtype][0]
            slack = max(8, 1 << (spare - 26))
            low = (pairs.view(np.uint64) + np.uint64((1 << (spare - 1)) + slack)) & np.uint64((1 << spare) - 1)
            for row, column in zip(*np.nonzero(low <= 2 * slack), strict=True):
                part = "sin" if column % 2 else "cos"
                found = case(dtype, base, dim, start + int(row), chosen[column // 2], part)
                if found:
                    yield found


def _directions(turns: list[arb], positions: Any) -> np.ndarray:
    rows = []
    for position in positions:
        pairs = [(turn * position).sin_cos() for turn in turns]
        rows.append([complex(float(cosine), float(sine)) for sine, cosine in pairs])
    return np.array(rows)


def case(
    dtype: str, base: float, dim: int, position: int, wave: int, part: str, amplitude: float = 1.0
) -> dict[str, Any] | None:
    if 2 * wave + (part == "cos") >= dim:  # an odd dim has no last cosine
        return None
    angle = frequency(base, dim, wave) * position
    value = (angle.sin() if part == "sin" else angle.cos()) * arb(amplitude)
    _, ulps = distance(value, dtype)
    if value.is_exact() or not ulps:  # position 0 is easy
        return None
    return {
        "dtype": dtype,
        "base": base,
        "dim": dim,
        "position": position,
        "wave": wave,
        "part": part,
        "amplitude": amplitude,
        "ulps": ulps,
    }


def made(dtype: str, tries: int, near_one: bool) -> Iterator[dict[str, Any]]:
    """Elements whose amplitude brings them close to a tie."""
    for _ in range(tries):
        base, dim = random.choice(TABLES)
        wave, part = random.randrange((dim + 1) // 2), random.choice(("sin", "cos"))
        position = random.choice((random.randrange(1, 2**12), random.randrange(1, 2**40)))
        angle = frequency(base, dim, wave) * position
        value = angle.sin() if part == "sin" else angle.cos()
        if not (abs(float(value)) > 0.9999999 if near_one else 1e-3 < abs(float(value)) < 0.99):
            continue
        precision = FORMATS[dtype][0]
        tie = Fraction(2 * random.randrange(1 << (precision - 1), 1 << precision) + 1, 1 << (precision + 1))
        amplitude = abs(float(rational(tie) / value))
        found = case(dtype, base, dim, position, wave, part, amplitude)
        if found:
            yield found


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for elements that are hard to round.")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--tries", type=int, default=60000, help="amplitudes tried for each dtype")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    ctx.prec = 256
    found: list[dict[str, Any]] = []
    searched, end = 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        base, dim = random.choice(TABLES)
        first = random.choice((0, 0, 2**40 - ROWS * STEPS))
        found += ordinary(base, dim, first)
        searched += ROWS * STEPS * 2 * min(WAVES, (dim + 1) // 2)
        print(f"{searched:,} elements searched, {len(found)} looked close", file=sys.stderr)
    hardest = [c for dtype in NARROW for c in _hardest(found, dtype, 7 if dtype == "float32" else 5)]
    for dtype in NARROW:
        hardest += _hardest(list(made(dtype, options.tries, near_one=False)), dtype, 4)
        hardest += _hardest(list(made(dtype, options.tries // 10, near_one=True)), dtype, 2)
    lines = ",\n".join("  " + json.dumps(entry) for entry in hardest)
    KEPT.write_text(f"[\n{lines}\n]\n")
    return 0


def _hardest(cases: list[dict[str, Any]], dtype: str, count: int) -> list[dict[str, Any]]:
    unique = {c["ulps"]: c for c in cases if c["dtype"] == dtype}  # one value may have several names
    return sorted(unique.values(), key=lambda c: c["ulps"])[:count]


if __name__ == "__main__":
    sys.exit(main())
