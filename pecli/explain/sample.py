"""Samples of tensors: the rows that are looked at, how values were quantised, and the number that somebody wrote."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Floats,
    Indices,
    dtype_name,
    holds,
    widest,
)
from pecli.explain.edits import Decimals, Dtype, Edit, FixedPoint, Noise

MAX_FULL_READ = 1 << 21  # elements of a tensor that is read whole
MAX_ELEMENTS = 1 << 18  # elements that are measured
RUN, SPREAD = 1024, 256
RESTART_ROWS, RESTART_COLUMNS, RESTART_SLACK = (
    32,
    16,
    0.05,
)  # of a table that starts again; how nearly that shows
UNITS = (
    4  # of the last place, that sines and powers of other libraries, rotations and factors may lose
)
MAX_DECIMALS = 9
STEPS = tuple(
    1 / float(count) for bits in (7, 8, 14, 15, 16) for count in ((1 << bits) - 1, 1 << bits)
)
"""Steps of fixed point: 1/127, 1/128, 1/255 and so on."""
SOME, FEW = 1 << 14, 64  # values that are looked at, and of them first
FLOAT32_SLACK, MAX_SLACK = (
    2e-7,
    0.45,
)  # relative error of a decimal in float32; the most of its step that it may be
FLOAT8, MIN_FLOAT8_VALUES = {"float8_e5m2": (3, 2.0**-17), "float8_e4m3fn": (4, 2.0**-10)}, 24
"""Bits of precision, and half of the smallest step; and the different values that are no accident in eight bits."""
STEP_SLACK, MIN_STEPS = (
    1e-3,
    8,
)  # in steps: what a multiple may be off by, and what the largest value is at least
BASES = (
    10000.0, 500000.0, 1e6, 150000.0, 1000.0, 100.0, 1e5, 5e6, 1e7, 160000.0, 2e6, 8e6, 1e8, 25000.0, 40000.0, 32000.0,
)  # fmt: skip
"""Bases that models have, the likeliest first."""
MAX_DIGITS = 16


@dataclass(frozen=True)
class Sample:
    """A tensor, or some places of its last axis but one; values in float64 or complex128."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: AnyArray
    rows: Indices  # which places of the last axis but one

    @property
    def whole(self) -> bool:
        return self.values.shape == self.shape

    @property
    def is_vector(self) -> bool:
        """Whether one axis at most is longer than 1, of real numbers."""
        return max(self.shape, default=1) == self.values.size and not np.iscomplexobj(self.values)

    @property
    def float_dtype(self) -> str:
        """The dtype of a scheme that makes such a tensor."""
        return self.dtype if self.dtype in SIGNIFICAND_BITS else "float32"


Samples = Mapping[str, Sample]


def samples_of(arrays: Mapping[str, Array], *, whole: bool = False) -> dict[str, Sample]:
    """Samples of tensors that belong together: of the same rows, where they have as many."""
    large = [
        array
        for array in arrays.values()
        if array.size > MAX_FULL_READ and array.ndim > 1 and not whole
    ]
    restarts = np.concatenate([np.arange(0), *map(_restart, large)])
    return {name: sample(name, array, whole, restarts) for name, array in arrays.items()}


def sample(
    name: str, array: Array, whole: bool = False, more: Sequence[int] | Indices = ()
) -> Sample:
    """The values to look at: some rows of a large tensor and these, unless the whole is asked for."""
    shape, rows = array.shape, np.arange(array.shape[-2] if array.ndim > 1 else array.size)
    if not whole and array.size > MAX_FULL_READ and array.ndim > 1:
        rows = np.unique(
            [*chosen(shape[-2], array.size // shape[-2]), *(row for row in more if row < shape[-2])]
        )
        array = array[..., rows, :]
    return Sample(name, dtype_name(array.dtype), shape, widest(array), rows)


def _restart(array: Array) -> Indices:
    """The first rows that look like the beginning of the table once more, as where positions wrap, if there are any."""
    table = array[(0,) * (array.ndim - 2)]
    some = widest(table[:, np.linspace(0, table.shape[1] - 1, RESTART_COLUMNS).astype(np.intp)])
    with np.errstate(invalid="ignore"):
        same = np.abs(some - some[0]).max(axis=1) < RESTART_SLACK
    apart = int(np.argmin(same))  # a table may begin with rows of padding
    again = np.flatnonzero(same[apart:])[:1] + apart
    return (
        (again + np.arange(RESTART_ROWS)[:, None]).reshape(-1)[: len(table) - int(again[0])]
        if len(again)
        else again
    )


def chosen(length: int, width: int, start: int = 0) -> Indices:
    """Which of so many rows to look at: a run from `start` on, and later ones ever further apart.

    >>> chosen(5, 4).tolist()
    [0, 1, 2, 3, 4]
    """
    run = max(32, min(RUN, MAX_ELEMENTS // max(1, width)))
    if length - start <= run + 16:
        return np.arange(start, length)
    far = np.geomspace(start + run, length - 1, min(SPREAD, run)).astype(np.intp)
    even = np.linspace(start + run, length - 1, min(SPREAD, run) // 2).astype(np.intp)
    return np.unique(np.concatenate([np.arange(start, start + run), far, even]))


def rms(values: AnyArray) -> float:
    """The root mean square; by sums, as threads of BLAS wait for each other longer than most of these take."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float((values.conj() * values).real.sum()) / max(1, values.size)
    return math.sqrt(mean) if math.isfinite(mean) else math.inf


def grain(values: AnyArray) -> Edit | None:
    """The coarsest quantisation that has all of these numbers; None where it is float32 or finer."""
    some = _some(values)
    if len(some) < 4:
        return None
    many = len(np.unique(np.abs(some))) >= MIN_FLOAT8_VALUES
    few = some[:: max(1, len(some) // FEW)]  # which rule most of them out
    for dtype in (
        *(FLOAT8 if many else ()),
        "bfloat16",
        "float16",
    ):  # whose numbers have few decimals, too
        if holds(dtype, few) and holds(dtype, some):
            return Dtype(dtype)
    size = float(np.abs(some).max())
    for digits in range(1, MAX_DECIMALS):
        if size < 0.5 * 10.0**-digits:  # all of them would be 0
            continue
        if FLOAT32_SLACK * size > MAX_SLACK * 10.0**-digits:  # every float32 is that near a decimal
            break
        both = ((part, np.round(part, digits)) for part in (few, some))
        if all(
            (np.abs(x - y) <= FLOAT32_SLACK * np.maximum(np.abs(x), 10.0**-digits)).all()
            for x, y in both
        ):
            return Decimals(digits)
    largest = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    for unit in sorted((unit for step in STEPS for unit in (step, step * largest)), reverse=True):
        ratios = (part / unit for part in (few, some))
        if size > MIN_STEPS * unit and all(
            (np.abs(each - np.rint(each)) < STEP_SLACK).all() for each in ratios
        ):
            return FixedPoint(unit)
    return None


def rounding(values: AnyArray) -> tuple[float, float]:
    """The relative and the absolute error of values, going by their quantisation."""
    return rounding_by(grain(values), values)


def rounding_by(how: Edit | None, values: AnyArray) -> tuple[float, float]:
    """The same where that is known."""
    some = _some(values)
    if len(some) and (some == np.rint(some)).all() and np.abs(some).max() > MIN_STEPS:
        return 0.0, 0.5
    if isinstance(how, Dtype):
        return precision(how.found), FLOAT8.get(how.found, (0, 0.0))[1]
    if isinstance(how, Decimals):
        return 0.0, 0.5 * 10.0**-how.digits
    return 0.0, how.step / 2 if isinstance(how, FixedPoint) else 0.0


def _some(values: AnyArray) -> Floats:
    flat = values.reshape(-1)
    flat = np.concatenate([flat.real, flat.imag]) if np.iscomplexobj(values) else flat
    few = flat[:: max(1, len(flat) // SOME)]
    finite = few[np.isfinite(few)]
    if len(finite) < len(few) / 2:  # a mask, say: the numbers are elsewhere
        every = flat[np.isfinite(flat)]
        finite = every[:: max(1, len(every) // SOME)]
    return np.asarray(finite, np.float64)


def precision(dtype: str) -> float:
    """Half a unit of the last place of 1, in a dtype."""
    return float(2.0 ** -(FLOAT8[dtype][0] if dtype in FLOAT8 else SIGNIFICAND_BITS.get(dtype, 24)))


def rounding_units(one: Sample) -> float:
    """The rounding error that a value may have."""
    size = np.abs(one.values[np.isfinite(one.values)])
    return UNITS * precision(one.dtype) * (float(np.quantile(size, 0.9)) if size.size else 1.0)


def quantised_storage(
    values: AnyArray, dtype: str, noise: float, expected_dtype: str
) -> tuple[Edit, ...]:
    """The edits that say how values were quantised, beyond their own dtype and the one that was expected."""
    some = _some(values)
    usual = max(precision(dtype), precision(expected_dtype)) * (rms(some) or 1.0)
    if not len(some) or noise <= 4 * usual:  # values that every dtype has are not rounded
        return ()
    found = FixedPoint(1.0) if (some == np.rint(some)).all() else grain(values)
    if found == Dtype(dtype):
        return ()
    if found is None and dtype == "float64" and holds("float32", some):
        found = Dtype("float32")
    if isinstance(found, Dtype) and precision(found.found) <= precision(expected_dtype):
        found = None
    if found is None and noise > 8 * usual and math.isfinite(noise):
        found = Noise(float(f"{noise:.2g}"))
    return () if found is None else (found,)


def digits(value: float) -> int:
    """How many digits a number needs; powers of two count as short ones, as people write those too.

    >>> digits(10000.0), digits(0.25), digits(131072.0), digits(1.2345)
    (1, 2, 2, 5)
    """
    if not math.isfinite(value):
        return MAX_DIGITS
    written = repr(float(f"{value:.15g}")).split("e")[0].replace(".", "").strip("-0")
    power_of_two = abs(math.frexp(value)[0]) == 0.5 and value >= 1
    return min(len(written), 2) if power_of_two else max(1, len(written))


def plain(value: float, error: float) -> Iterator[float]:
    """Numbers within the error of a value that people would write, the plainest first; the value itself last.

    >>> next(plain(9999.98, 0.1)), next(plain(8190.0, 5.0)), next(plain(0.3333, 1e-6))
    (10000.0, 8192.0, 0.3333)
    """
    written = [float(f"{value:.{places}e}") for places in range(MAX_DIGITS)]
    if value >= 64:  # powers of two are plainer than other numbers of three digits
        written.insert(2, 2.0 ** round(math.log2(value)))
    yield from (each for each in dict.fromkeys(written) if abs(each - value) <= error)
    if value not in written:
        yield value


def plainest(value: float, error: float) -> float:
    """The first of them."""
    return next(plain(value, error))
