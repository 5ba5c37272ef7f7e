"""Right tables of random specs, changed in every way that ports and files have, through every command that judges them.

Nothing may raise, a right table passes, and a changed one passes only if the change is within the tolerance, which is
judged here by plain NumPy. The tests run some thousand cases; `python -m tests.tools.fuzz --cases 100000` runs more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import pecli
from pecli.cli.app import run
from tests.tools.random_specs import random_scheme

Array = np.ndarray[Any, Any]
Tables = dict[str, Array]
Random = np.random.Generator

HALF = ("float16", "bfloat16")
RELATIVE = ("inv_freq", "slopes")
TOLERANCES = ({}, {}, {"atol": 1e-3}, {"atol": 1e-3}, {"rtol": 1e-4}, {"max_ulp": 2}, {"atol": 1e-6, "rtol": 1e-6})


def _rows(array: Array, order: Callable[[int], Any]) -> Array:
    axis = max(0, array.ndim - 2)
    return np.take(array, order(array.shape[axis]), axis)


def _columns(array: Array, order: Callable[[int], Any]) -> Array:
    return np.take(array, order(array.shape[-1]), -1)


def _element(rng: Random, array: Array, value: Any) -> Array:
    changed = array.copy()
    changed.reshape(-1)[rng.integers(array.size)] = value
    return changed


def _row_zero_first(rng: Random, count: int) -> Any:
    return np.r_[0, 1 + rng.permutation(count - 1)] if rng.random() < 0.7 else -np.arange(count) % count


def _times(array: Array, factor: float) -> Array:
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * factor).astype(array.dtype)


def _as(array: Array, kind: Any) -> Array:
    with np.errstate(all="ignore"):
        return array.astype(np.float64).astype(kind)


def _noise(rng: Random, array: Array) -> Array:
    size = 10.0 ** rng.integers(-9, 0)
    return (array.astype(np.float64) + size * rng.standard_normal(array.shape)).astype(array.dtype)


CHANGES: Mapping[str, Callable[[Random, Array], Array]] = {
    "rows reversed": lambda rng, x: _rows(x, lambda n: np.arange(n)[::-1]),
    "rows shuffled": lambda rng, x: _rows(x, rng.permutation),
    "rows shuffled, row 0 first": lambda rng, x: _rows(x, lambda n: _row_zero_first(rng, n)),
    "rows rolled": lambda rng, x: _rows(x, lambda n: np.roll(np.arange(n), rng.integers(1, 9))),
    "rows late": lambda rng, x: _rows(x, lambda n: np.maximum(0, np.arange(n) - 1)),
    "rows repeated": lambda rng, x: _rows(x, lambda n: np.arange(n) // 2),
    "rows wrap": lambda rng, x: _rows(x, lambda n: np.arange(n) % max(1, n // 2)),
    "rows missing": lambda rng, x: _rows(x, lambda n: np.arange(max(1, n - 1))),
    "columns reversed": lambda rng, x: _columns(x, lambda n: np.arange(n)[::-1]),
    "columns shuffled": lambda rng, x: _columns(x, rng.permutation),
    "columns missing": lambda rng, x: _columns(x, lambda n: np.arange(max(1, n // 2))),
    "halves as interleaved": lambda rng, x: _columns(x, lambda n: np.argsort(np.arange(n) % 2, kind="stable")),
    "columns swapped": lambda rng, x: _columns(x, lambda n: np.minimum(np.arange(n) ^ 1, n - 1)),
    "scaled": lambda rng, x: _times(x, float(rng.choice([1e-6, 0.125, 0.5, 1.001, 1.25, 2.0, 8.0, 1e6, 1e20]))),
    "denormal": lambda rng, x: x.astype(np.float64) * 1e-310,
    "negated": lambda rng, x: -x,
    "half negated": lambda rng, x: np.concatenate([x[..., : x.shape[-1] // 2], -x[..., x.shape[-1] // 2 :]], -1),
    "absolute": lambda rng, x: np.abs(x),
    "squared": lambda rng, x: x * x,
    "inverted": lambda rng, x: _as(1 / np.where(x == 0, 1, x.astype(np.float64)), x.dtype),
    "transposed": lambda rng, x: np.ascontiguousarray(np.swapaxes(x, -1, -2)) if x.ndim > 1 else x[::-1].copy(),
    "cast": lambda rng, x: _as(x, rng.choice(["float16", "float32", "float64"])),
    "cast to bfloat16": lambda rng, x: _as(x, ml_dtypes.bfloat16),
    "cast to integers": lambda rng, x: _as(np.clip(np.nan_to_num(x.astype(np.float64)), -1e9, 1e9), np.int32),
    "fixed point": lambda rng, x: _as(np.rint(np.clip(np.nan_to_num(x.astype(np.float64)), -1, 1) * 127), np.int8),
    "rounded to half": lambda rng, x: _as(_as(x, rng.choice([np.float16, ml_dtypes.bfloat16])), x.dtype),
    "few decimals": lambda rng, x: _as(np.round(x.astype(np.float64), int(rng.integers(1, 7))), x.dtype),
    "noise": _noise,
    "an element": lambda rng, x: _element(rng, x, rng.choice([0.0, 0.5, -3.0, 1e3])),
    "a NaN": lambda rng, x: _element(rng, x, np.nan),
    "an infinity": lambda rng, x: _element(rng, x, rng.choice([-np.inf, np.inf])),
    "all NaN": lambda rng, x: np.full_like(x, np.nan),
    "all zero": lambda rng, x: np.zeros_like(x),
    "all one": lambda rng, x: np.ones_like(x),
    "bytes swapped": lambda rng, x: x.byteswap() if x.dtype.kind == "f" else x.view(np.uint16).byteswap().view(x.dtype),
    "other numbers": lambda rng, x: rng.standard_normal(x.shape).astype(x.dtype),
    "a huge first value": lambda rng, x: np.concatenate([np.full(1, 1e4, x.dtype), x.reshape(-1)[1:]]).reshape(x.shape),
}
DRESSINGS: Mapping[str, Callable[[Random, Array], Array]] = {
    "as it is": lambda rng, x: x,
    "axes of length 1": lambda rng, x: x.reshape((1,) * int(rng.integers(1, 3)) + x.shape),
    "a batch": lambda rng, x: np.stack([x] * int(rng.integers(2, 4))),
    "heads": lambda rng, x: np.stack([np.stack([x] * 3)] * int(rng.integers(1, 3))),
}


@dataclass(frozen=True)
class Case:
    """What is given to a command, what it is compared with, and by how much it may be off."""

    label: str
    scheme: pecli.Scheme
    right: Tables
    given: Tables
    tolerance: dict[str, Any]
    changed: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return not self.changed

    def must_fail(self) -> bool:
        return any(_differs(name, self.right[name], self.given[name], self.tolerance) for name in self.right)


def _differs(name: str, right: Array, given: Array, tolerance: dict[str, Any]) -> bool:
    """Whether a change surely exceeds the tolerance: by a tenth more, and by more than another dtype rounds off."""
    half = right.shape[-1] // 2
    if name in ("cos", "sin") and given.shape[-1] == half and np.array_equal(right[..., :half], right[..., half:]):
        right = right[..., :half]  # the same table, whose columns are not doubled
    if np.squeeze(right).shape != np.squeeze(given).shape:
        return True
    a, b = (np.squeeze(each).astype(np.float64) for each in (right, given))
    atol, rtol = tolerance.get("atol", 0.0), tolerance.get("rtol", 0.0)
    if name in RELATIVE:
        atol, rtol = 0.0, rtol or (1e-5 if tolerance else 0.0)
    if tolerance.get("max_ulp") or str(given.dtype) in HALF or given.dtype != right.dtype:
        half = str(given.dtype) in HALF
        coarse = 2.0**-7 if half and name not in RELATIVE else 2.0**-9
        asked = tolerance.get("max_ulp", 0) * 2.0**-7 if half and given.dtype == right.dtype else 1e-5
        atol, rtol = atol + (0.0 if name in RELATIVE else coarse), rtol + (asked if name in RELATIVE else coarse)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.abs(a - b) <= 1.1 * (atol + rtol * np.abs(a))) | (np.isnan(a) & np.isnan(b))
    return not bool(near.all())


def small_scheme(rng: Random) -> pecli.Scheme:
    """A random scheme with real dims and bases, of few rows."""
    while True:
        scheme = random_scheme(rng, 0.1)
        length = int(rng.integers(2, 25))
        try:
            if isinstance(scheme, pecli.LearnedInit):
                return replace(scheme, max_len=length, dim=min(scheme.dim, 32))
            if isinstance(scheme, pecli.Alibi):
                return scheme if scheme.seq_len is None else replace(scheme, seq_len=min(scheme.seq_len, length))
            if isinstance(scheme, (pecli.Rope, pecli.Sinusoidal)):
                return replace(scheme, seq_len=length)
        except pecli.ParameterError:
            continue


def random_case(rng: Random) -> Case:
    scheme, tolerance = small_scheme(rng), dict(TOLERANCES[rng.integers(len(TOLERANCES))])
    right = scheme.tables()
    given = {name: array.copy() for name, array in right.items()}
    dressing = str(rng.choice([*DRESSINGS]))
    if rng.random() < 0.25:
        label = f"right, {dressing}"
        given = {name: DRESSINGS[dressing](rng, array) for name, array in given.items()}
        return Case(label, scheme, right, given, tolerance)
    change = str(rng.choice([*CHANGES]))
    names = [name for name in given if rng.random() < 0.7] or [next(iter(given))]
    with np.errstate(all="ignore"):
        given |= {name: np.ascontiguousarray(CHANGES[change](rng, given[name])) for name in names}
    if "cos" in given and rng.random() < 0.1:
        given["cos"], given["sin"] = given["sin"], given["cos"]
        change, names = f"{change}, cos and sin swapped", [*names, "cos", "sin"]
    return Case(f"{change} of {', '.join(names)}", scheme, right, given, tolerance, tuple(names))


def _verified(case: Case, folder: Path) -> bool:
    return pecli.verify(case.given, case.scheme, **case.tolerance).passed


def _differed(case: Case, folder: Path) -> bool:
    return pecli.diff(case.right, case.given, **case.tolerance).passed


def _identified(case: Case, folder: Path) -> None:
    pecli.identify(case.given)


def _file_verified(case: Case, folder: Path) -> bool:
    """The file as the command of its scheme checks it."""
    pecli.save(folder / "golden.safetensors", case.scheme)
    pecli.save(folder / "given.safetensors", case.given)
    options = [text for name, value in case.tolerance.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    return _command("diff", folder / "golden.safetensors", folder / "given.safetensors", *options)


def _inspected(case: Case, folder: Path) -> None:
    pecli.save(folder / "given.safetensors", case.given)
    assert _command("inspect", folder / "given.safetensors", "--stats", "--json")


def _command(*words: object) -> bool:
    """Whether a command line succeeds; any other answer than yes or no is a defect."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run([str(word) for word in words])
    assert code in (0, 1), f"exit code {code}: {errors.getvalue()}"
    return code == 0


DOORS: Mapping[str, tuple[float, Callable[[Case, Path], bool | None]]] = {
    "verify": (0.5, _verified),
    "diff": (0.25, _differed),
    "identify": (0.15, _identified),
    "pecli diff": (0.05, _file_verified),
    "pecli inspect --stats": (0.05, _inspected),
}


@contextlib.contextmanager
def verdicts_only() -> Iterator[None]:
    """Without the search for a reason, which takes most of the time."""
    import pecli.checks.diff as diff
    import pecli.checks.verify.verification as verify

    kept: tuple[Any, Any] = diff._explained, verify.explanations
    diff._explained, verify.explanations = (lambda *_: []), (lambda *_: ())  # type: ignore[assignment]
    try:
        yield
    finally:
        diff._explained, verify.explanations = kept


def problem_of(seed: int, number: int, folder: Path, thorough: float = 1.0) -> str:
    """What is wrong with the answer to one case; nothing where nothing is. Only that share of the tables is searched
    for reasons and origins, which is slow; of the others, the frequencies and slopes alone are.
    """
    rng = np.random.default_rng([seed, number])
    case = random_case(rng)
    door = str(rng.choice([*DOORS], p=[share for share, _ in DOORS.values()]))
    with contextlib.ExitStack() as stack:
        if rng.random() >= thorough:
            vectors = [name for name, array in case.given.items() if array.ndim == 1]
            if door in ("identify", "pecli inspect --stats") and vectors:
                case = replace(case, given={name: case.given[name] for name in vectors})
            elif case.changed != ("inv_freq",):
                door = door if door in ("verify", "pecli diff") else "diff"
                stack.enter_context(verdicts_only())
        return _problem(case, door, number, folder)


def _problem(case: Case, door: str, number: int, folder: Path) -> str:
    where = f"case {number}: {door}, {case.label}, {case.tolerance}, {case.scheme}"
    try:
        passed = DOORS[door][1](case, folder)
    except Exception:
        return f"{where}: {traceback.format_exc(limit=-4)}"
    if passed is None:
        return ""
    if case.is_right:
        return "" if passed else f"{where}: a right table does not pass"
    return f"{where}: a wrong table passes" if passed and case.must_fail() else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--thorough", type=float, default=1.0, help="the share of the tables that is searched")
    given = parser.parse_args()
    problems: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.first, given.first + given.cases):
            if problem := problem_of(given.seed, number, Path(folder), given.thorough):
                problems[problem.splitlines()[-1][-100:]] += 1
                print(problem, flush=True)
    print(f"{given.cases:,} cases, {sum(problems.values()):,} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
