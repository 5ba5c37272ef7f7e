"""Random elements of random tables against the oracle, which has arbitrary precision."""

from fractions import Fraction
from typing import Any

import numpy as np

import pecli
from tests import oracle
from tests.tools.sweeps import Attempt

DTYPES = ("float32", "bfloat16", "float16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 2.0, 1e20, 0.5, 150000.0, 10000.000001)
DIMS = (2, 64, 96, 127, 128, 512, 1024, 4096, 65536)
REGIONS = {
    "0 …": (0, 1),
    "… 2^20": (0, 2**20),
    "≈ 10^6": (10**6 - 2048, 10**6),
    "≈ 2^40": (2**40 - 2**21, 2**40),
}
"""Where tables begin: the first position is between these."""
PAIRS = 2048  #: cosines and sines that are compared
FREQUENCIES = 64  #: different ones among them

Array = np.ndarray[Any, Any]


def attempt_exactness(seed: int) -> Attempt:
    """Compare 2,048 cosines and as many sines of a random table with the oracle."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(DTYPES))
    region = str(rng.choice([*REGIONS]))
    base = float(rng.choice(BASES))
    dim = int(rng.choice(DIMS))
    rows = int(rng.integers(1, 1 + min(1024, max(8, 2**21 // dim))))
    low, high = REGIONS[region]
    offset = int(rng.integers(low, max(low + 1, high - rows)))
    row = np.sort(rng.integers(0, rows, PAIRS))
    wave = rng.choice(rng.integers(0, (dim + 1) // 2, FREQUENCIES), PAIRS)
    layout = "interleaved"
    if dim % 2 == 0:
        layout = str(rng.choice(["rope", "halves", "interleaved"]))
    tables = sin_and_cos(layout, rows, dim, base=base, offset=offset, dtype=dtype)
    expected = oracle.waves(base, Fraction(dim, 2), (row + offset).tolist(), wave.tolist())
    wrong = []
    for (name, table), digits in zip(tables.items(), expected, strict=True):
        inside = np.flatnonzero(wave < table.shape[1])
        rounded = digits.take(inside).round(dtype)
        is_wrong = oracle.bits(table[row[inside], wave[inside]]) != rounded
        for index in inside[is_wrong]:
            wrong.append(f"{name} at position {row[index] + offset}, wave {wave[index]}")
    problem = ""
    if wrong:
        problem = f"{len(wrong)} misrounded, base {base!r}, dim {dim}, {layout}: {wrong[0]}"
    return Attempt(f"{dtype}, {region}", problem)


def sin_and_cos(layout: str, rows: int, dim: int, **parameters: Any) -> dict[str, Array]:
    """Return sines and cosines of a rotary table, or of a sinusoidal one in a layout."""
    if layout == "rope":
        made = pecli.Rope(rows, dim, **parameters).tables()
        return {"sin": made["sin"], "cos": made["cos"]}
    table = pecli.Sinusoidal(rows, dim, layout=layout, **parameters).tables()["pe"]
    if layout == "halves":
        half = dim // 2
        return {"sin": table[:, :half], "cos": table[:, half:]}
    return {"sin": table[:, 0::2], "cos": table[:, 1::2]}
