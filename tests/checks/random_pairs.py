"""Random pairs of arrays for `diff`: all dtypes, infinities, NaN and masks; other axes, copies and orders; tolerances."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tests.checks.waves import Array

Random = np.random.Generator
DTYPES: tuple[Any, ...] = (
    "float64", "float32", ">f4", "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
)  # fmt: skip
SHAPES = (
    (5, 7),
    (6, 6),
    (2, 4, 6),
    (3, 1, 5),
    (12,),
    (1, 8),
    (4, 8),
    (2, 2, 4, 6),
    (8, 4),
    (0, 3),
    (),
)
NAMES = ("", "cos", "sin", "inv_freq", "slopes", "bias", "pe", "cos_sin_cache", "x")
TOLERANCES: tuple[dict[str, float], ...] = (
    {}, {"atol": 1e-3}, {"atol": 0.2}, {"rtol": 1e-2}, {"max_ulp": 4}, {"atol": 1e-3, "rtol": 0.1},
)  # fmt: skip
STRANGE = (np.nan, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, -65504.0, 0.0, -0.0)
"""Values that replace one element."""
MASKS = (-3.4028235e38, -65504.0, -1e9, float(np.finfo(np.float64).min))
"""Values that replace −inf."""


class Pair(NamedTuple):
    """Two arrays, alone or by name, and the tolerance of their comparison."""

    a: Array | Mapping[str, Array]
    b: Array | Mapping[str, Array]
    tolerance: dict[str, float]


def with_strange_element(rng: Random, array: Array) -> Array:
    if array.size:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice(STRANGE)
    return array


def remasked(rng: Random, array: Array) -> Array:
    return np.where(np.isinf(array), rng.choice(MASKS), array)


CHANGES: tuple[Callable[[Random, Array], Array], ...] = (
    lambda rng, array: array,
    lambda rng, array: array + 1e-3 * rng.standard_normal(array.shape),
    lambda rng, array: array * (1 + rng.choice([1e-7, 1e-3, 0.1])),
    with_strange_element,
    remasked,
    lambda rng, array: -array,
    lambda rng, array: np.rint(array * 127),
    lambda rng, array: array.T,
    lambda rng, array: np.stack([array] * int(rng.integers(1, 4))),
    lambda rng, array: np.atleast_1d(array)[::-1],
    lambda rng, array: np.atleast_1d(array)[:-1],
    lambda rng, array: np.concatenate([np.atleast_1d(array)] * 2, -1),
    lambda rng, array: np.repeat(np.atleast_1d(array), 2, -1),
    lambda rng, array: array.reshape(-1),
    lambda rng, array: array[..., None],
)
"""What may make one array of the other; two of them are applied at most."""


def drawn(rng: Random) -> Array:
    """Return numbers of any kind: noise, small integers, waves, a masked bias, or steps of 1/127."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    match int(rng.integers(5)):
        case 0:
            return np.asarray(rng.standard_normal(shape))
        case 1:
            return np.asarray(rng.integers(0, 6, shape), np.float64)
        case 2 if len(shape) == 2:
            return np.cos(np.outer(np.arange(shape[0]), 10.0 ** -np.arange(shape[1])))
        case 3 if len(shape) >= 2:
            return np.where(np.tri(*shape[-2:]) > 0, rng.integers(0, 3, shape), -np.inf)
    return np.asarray(rng.integers(-127, 128, shape) / 127)


def stored(array: Array, dtype: Any) -> Array:
    """Return an array in a dtype; integers hold finite numbers up to 100."""
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind in "iub":
            array = np.nan_to_num(array, nan=0, posinf=100, neginf=0)
            array = array.clip(-100 if np.dtype(dtype).kind == "i" else 0, 100)
        return array.astype(dtype)


def random_pair(seed: int) -> Pair:
    rng = np.random.default_rng(seed)
    first = drawn(rng)
    second = first.copy()
    for _ in range(int(rng.integers(1, 3))):
        change = CHANGES[rng.integers(len(CHANGES))]
        with np.errstate(all="ignore"):
            second = np.array(change(rng, second))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    has_same_dtype = rng.random() < 0.5
    other = dtype if has_same_dtype else DTYPES[rng.integers(len(DTYPES))]
    a = stored(first, dtype)
    b = stored(second, other)
    name = NAMES[rng.integers(len(NAMES))]
    tolerance = TOLERANCES[rng.integers(len(TOLERANCES))]
    return Pair({name: a}, {name: b}, tolerance) if name else Pair(a, b, tolerance)


def random_pairs(seeds: range) -> Iterator[tuple[int, Pair]]:
    for seed in seeds:
        yield seed, random_pair(seed)
