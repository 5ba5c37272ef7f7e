"""Elements of random tables, drawn in pairs of (position, wave): sine and cosine must have the bits of the oracle."""

from fractions import Fraction

import numpy as np

import pecli
from tests import oracle

DTYPES = ("float32", "bfloat16", "float16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 2.0, 1e20, 0.5, 150000.0, 10000.000001)
DIMS = (2, 64, 96, 127, 128, 512, 1024, 4096, 65536)
REGIONS = {"0 …": (0, 1), "… 2^20": (0, 2**20), "≈ 10^6": (10**6 - 2048, 10**6), "≈ 2^40": (2**40 - 2**21, 2**40)}
PAIRS = 2048


def attempt(seed: int) -> tuple[str, str]:
    """The dtype and where the positions are; the first of the misrounded elements."""
    rng = np.random.default_rng(seed)
    dtype, region = str(rng.choice(DTYPES)), str(rng.choice([*REGIONS]))
    base, dim = float(rng.choice(BASES)), int(rng.choice(DIMS))
    rows = int(rng.integers(1, 1 + min(1024, max(8, 2**21 // dim))))
    low, high = REGIONS[region]
    offset = int(rng.integers(low, max(low + 1, high - rows)))
    row = np.sort(rng.integers(0, rows, PAIRS))
    wave = rng.choice(rng.integers(0, (dim + 1) // 2, 64), PAIRS)
    given = {"base": base, "offset": offset, "dtype": dtype}
    way = str(rng.choice(["rope", "halves", "interleaved"])) if dim % 2 == 0 else "interleaved"
    if way == "rope":
        made = pecli.Rope(rows, dim, **given).tables()
        tables = {"sin": made["sin"], "cos": made["cos"]}
    else:
        pe = pecli.Sinusoidal(rows, dim, layout=way, **given).tables()["pe"]
        first, second = (pe[:, : dim // 2], pe[:, dim // 2 :]) if way == "halves" else (pe[:, 0::2], pe[:, 1::2])
        tables = {"sin": first, "cos": second}
    right = oracle.waves(base, Fraction(dim, 2), (row + offset).tolist(), wave.tolist())
    wrong = []
    for (name, table), digits in zip(tables.items(), right, strict=True):
        there = np.flatnonzero(wave < table.shape[1])
        differs = oracle.bits(table[row[there], wave[there]]) != digits.take(there).round(dtype)
        wrong += [f"{name} at position {row[k] + offset}, wave {wave[k]}" for k in there[differs]]
    problem = f"{len(wrong)} misrounded, base {base!r}, dim {dim}, {way}: {wrong[0]}" if wrong else ""
    return f"{dtype}, {region}", problem
