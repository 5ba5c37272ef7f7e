"""Tables with planted mistakes by plain NumPy, to attack the search for reasons: nothing of pecli makes them.

A case is wrong if the first reason is another one than the planted mistake, or if it takes more than two
seconds of CPU. Rows, elements, heads and columns are named by number, parameters by their value.
"""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pecli
from tests.tools.sweeps import Attempt
from tests.tools.sweeps.tables import Array, Arrays

Random = np.random.Generator
MAX_CPU_SECONDS = 2.0
SLACK = 1.25
"""Seconds measured per second of CPU: other processes share the cache."""

BASES = (10000.0, 500000.0, 1e6, 150000.0, 100000.0)


@dataclass(frozen=True)
class Attack:
    """A table with mistakes, and the edits that name them.

    Attributes:
        kind: What is attacked.
        spec: What should have made the arrays.
        arrays: Tensors by name.
        edits: For each mistake, the accepted descriptions: fields of an edit, in JSON.
    """

    kind: str
    spec: pecli.Scheme
    arrays: Arrays
    edits: tuple[tuple[Mapping[str, Any], ...], ...]


def waves(positions: Array, base: float, dim: int, exponent_dim: float | None = None) -> Arrays:
    """Return cosines and sines of positions, one column per pair."""
    frequencies = base ** (-2 * np.arange(dim // 2) / (exponent_dim or dim))
    angles = np.multiply.outer(positions, frequencies)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def llama3(base: float, dim: int, factor: float, low: float, high: float) -> Array:
    """Return Llama 3.1's frequencies for an original length of 8,192."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    turns = 8192 * plain / (2 * np.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return plain * kept + plain / factor * (1 - kept)


def _float(name: str) -> Callable[[Array], Array]:
    return lambda values: values.astype(name).astype(np.float32)


STORAGES: dict[str, Callable[[Array], Array]] = {
    "float32": _float("float32"),
    "float16": _float("float16"),
    "bfloat16": lambda values: values.astype(ml_dtypes.bfloat16).astype(np.float32),
    "6 decimals": lambda values: np.round(values, 6).astype(np.float32),
    "4 decimals": lambda values: np.round(values, 4).astype(np.float32),
    "int8": lambda values: (np.rint(values * 127) / 127).astype(np.float32),
}


def _parameter(name: str, found: object) -> tuple[Mapping[str, Any], ...]:
    return ({"edit": "parameter", "name": name, "found": found},)


def _scaled_rope(rows: int, dim: int) -> pecli.Rope:
    return pecli.Rope(
        rows,
        dim,
        500000.0,
        scaling="llama3",
        factor=8.0,
        original_max_position_embeddings=8192,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    )


def _size(rng: Random, fewest: int = 16) -> tuple[int, int]:
    return int(rng.choice([fewest, 48, 64, 200, 512])), int(rng.choice([32, 64, 96, 128]))


def _stored(arrays: Arrays, rng: Random, coarse: bool = True) -> Arrays:
    names = list(STORAGES) if coarse else ["float32", "float16", "6 decimals"]
    store = STORAGES[str(rng.choice(names))]
    return {name: store(array) for name, array in arrays.items()}


def damaged_rows(rng: Random) -> Attack:
    rows, dim = _size(rng, 32)
    arrays = waves(np.arange(rows), 1e4, dim)
    wrong = np.sort(rng.choice(np.arange(1, rows), int(rng.integers(1, 4)), replace=False))
    for array in arrays.values():
        array[wrong] = rng.normal(size=(len(wrong), dim // 2))
    edit = {"edit": "rows_wrong", "which": wrong.tolist()}
    return Attack("rows", pecli.Rope(rows, dim), _stored(arrays, rng), ((edit,),))


def damaged_elements(rng: Random) -> Attack:
    rows, dim = _size(rng, 32)
    arrays = _stored(waves(np.arange(rows), 1e4, dim), rng)
    row = int(rng.integers(rows))
    column = int(rng.integers(dim // 2))
    arrays["cos"][row, column] = 3.0
    edit = {"edit": "elements_wrong", "which": [[row, column]]}
    return Attack("element", pecli.Rope(rows, dim), arrays, ((edit,),))


def damaged_heads(rng: Random) -> Attack:
    heads = int(rng.choice([8, 16, 32]))
    rows = int(rng.choice([16, 64]))
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    distance = -np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
    bias = (slopes[:, None, None] * distance).astype(np.float32)
    wrong = int(rng.integers(heads))
    bias[wrong] *= np.float32(rng.choice([0.0, 3.0, -1.0]))
    edit = {"edit": "heads_wrong", "which": [wrong]}
    return Attack("head", pecli.Alibi(heads, rows), {"bias": bias}, ((edit,),))


def copied_columns(rng: Random) -> Attack:
    rows = int(rng.choice([512, 4096, 8192]))
    dim = 128
    arrays = _stored(waves(np.arange(rows), 1e4, dim), rng, coarse=False)
    wrong = int(rng.integers(4, dim // 2))
    for array in arrays.values():
        array[:, wrong] = array[:, wrong - int(rng.integers(1, 4))]
    edit = {"edit": "columns_wrong", "which": [wrong]}
    return Attack("columns", pecli.Rope(rows, dim), arrays, ((edit,),))


def windows(rng: Random) -> Attack:
    """Positions that wrap at a window, or start again."""
    _, dim = _size(rng)
    rows = int(rng.choice([200, 512]))
    window = int(rng.integers(24, rows - 8))
    arrays = _stored(waves(np.arange(rows) % window, 1e4, dim), rng)
    wrapped = {"edit": "rows", "order": "wrapped", "at": window}
    restarted = {"edit": "positions"}
    return Attack("window", pecli.Rope(rows, dim), arrays, ((wrapped, restarted),))


def other_base(rng: Random) -> Attack:
    rows, dim = _size(rng)
    found = float(rng.choice(BASES[1:]))
    arrays = _stored(waves(np.arange(rows), found, dim), rng)
    which = str(rng.choice(["both", "cos", "sin"]))
    if which != "both":
        arrays = {which: arrays[which]}
    return Attack(f"base, {which}", pecli.Rope(rows, dim), arrays, (_parameter("base", found),))


def other_scaling_number(rng: Random) -> Attack:
    """A number of Llama 3's scaling, of both functions or of sines only."""
    dim = int(rng.choice([64, 128]))
    rows = int(rng.choice([512, 1024]))
    numbers = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    name = str(rng.choice(list(numbers)))
    numbers[name] *= 2.0
    angles = np.multiply.outer(np.arange(rows), llama3(5e5, dim, *numbers.values()))
    arrays = {"sin": np.sin(angles)}
    if rng.random() < 0.5:
        arrays["cos"] = np.cos(angles)
    arrays = _stored(arrays, rng, coarse=False)
    edits = (_parameter(name, numbers[name]),)
    return Attack("llama3", _scaled_rope(rows, dim), arrays, edits)


def missing_scaling(rng: Random) -> Attack:
    rows, dim = _size(rng, 64)
    rows = max(rows, 200)
    arrays = _stored(waves(np.arange(rows), 5e5, dim), rng, coarse=False)
    edits = (_parameter("scaling", "none"),)
    return Attack("missing scaling", _scaled_rope(rows, dim), arrays, edits)


def grid_base(rng: Random) -> Attack:
    """MAE's grid: half of the channels follow columns and half rows, each as sines, then cosines."""
    height, width = (int(size) for size in rng.choice([5, 8, 12, 16, 20], 2, replace=False))
    dim = int(rng.choice([32, 64]))
    found = float(rng.choice([100.0, 1000.0, 500000.0]))
    frequencies = found ** (-np.arange(dim // 4) / (dim // 4))
    y, x = np.divmod(np.arange(height * width), width)
    halves = [np.multiply.outer(axis, frequencies) for axis in (x, y)]
    table = np.hstack([function(half) for half in halves for function in (np.sin, np.cos)])
    spec = pecli.Sinusoidal(dim=dim, grid=(height, width), style="mae")
    arrays = _stored({spec.tensors()[0].name: table}, rng, coarse=False)
    return Attack("grid", spec, arrays, (_parameter("base", found),))


def several(rng: Random, count: int) -> Attack:
    """Two or three of: another base, another start, another amplitude, sines with the other sign."""
    rows, dim = _size(rng, 48)
    chosen = set(rng.choice(["base", "offset", "scaled", "negated"], count, replace=False).tolist())
    base = float(rng.choice(BASES[1:])) if "base" in chosen else 1e4
    offset = int(rng.choice([1, 2, 17])) if "offset" in chosen else 0
    by = float(rng.choice([1.5, 2.0, 0.5])) if "scaled" in chosen else 1.0
    arrays = waves(np.arange(rows) + offset, base, dim)
    arrays = {name: by * array for name, array in arrays.items()}
    if "negated" in chosen:
        arrays["sin"] = -arrays["sin"]
    edits = {
        "base": _parameter("base", base),
        "offset": _parameter("offset", offset),
        "scaled": ({"edit": "scaled", "by": by},),
        "negated": ({"edit": "negated", "which": "sin"},),
    }
    arrays = _stored(arrays, rng, coarse=False)
    planted = tuple(edits[name] for name in sorted(chosen))
    return Attack(f"{count} mistakes", pecli.Rope(rows, dim), arrays, planted)


def two_mistakes(rng: Random) -> Attack:
    return several(rng, 2)


def three_mistakes(rng: Random) -> Attack:
    return several(rng, 3)


KINDS: tuple[Callable[[Random], Attack], ...] = (
    damaged_rows,
    damaged_elements,
    damaged_heads,
    copied_columns,
    windows,
    other_base,
    other_scaling_number,
    missing_scaling,
    grid_base,
    two_mistakes,
    three_mistakes,
)


def attempt_attack(seed: int) -> Attempt:
    """Search for the reason of a random planted mistake."""
    rng = np.random.default_rng([seed, 2])
    attack = KINDS[seed % len(KINDS)](rng)
    try:
        problem = attack_problem(attack)
    except Exception:
        problem = f"raised {traceback.format_exc(limit=-2)}"
    return Attempt(attack.kind, problem)


def attack_problem(attack: Attack) -> str:
    """Return what is wrong with the first reason; empty if nothing is."""
    start = time.process_time()
    answer = pecli.verify(attack.arrays, attack.spec, atol=1e-6)
    seconds = time.process_time() - start
    if seconds > SLACK * MAX_CPU_SECONDS:
        return f"slow ({seconds:.1f} s): {attack.spec}"
    if answer.passed:
        return f"passed: {attack.spec}, {attack.edits}"
    if not answer.explanations:
        return f"no reason: {attack.spec}, {attack.edits}"
    found = [edit.as_json() for edit in answer.explanations[0].mistakes]
    if len(found) == len(attack.edits) and all(_is_named(edit, found) for edit in attack.edits):
        return ""
    return f"{answer.diagnosis[0]}: {attack.spec}, {attack.edits}"


def _is_named(accepted: tuple[Mapping[str, Any], ...], found: list[dict[str, Any]]) -> bool:
    """Return True if an edit has all fields of an accepted description."""
    for fields in accepted:
        for edit in found:
            if all(_is_same(edit.get(name), value) for name, value in fields.items()):
                return True
    return False


def _is_same(found: object, value: object) -> bool:
    if isinstance(found, float) and isinstance(value, float):
        return bool(np.isclose(found, value, rtol=1e-6))
    return bool(found == value)
