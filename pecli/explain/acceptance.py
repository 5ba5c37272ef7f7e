"""The one place that says whether edits explain a table: with all of them applied, next to nothing may be left.

What is left of every element is compared with the tolerance, or with the rounding that the storage of the values makes:
their dtype, their decimals, their steps; float32 phases, where a recipe is among the edits; or noise, where what is
left has no structure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Flags, dtype_name
from pecli.explain.edits import Decimals, Edit, Errors, Explanation, Noise, Recipe
from pecli.explain.sample import Sample, grain, precision, quantised_storage, rms, rounding, wide
from pecli.explain.time_limit import OutOfTimeError, check_time

UNITS = 4
"""Units of the last place that sines and powers of other libraries lose."""
ROUNDED = 1.05
"""Times half a step: what rounding makes, where the number that was rounded is itself off a little."""
TRUNCATED = 2.05
"""Times half a step: what cutting off decimals makes."""
MAX_STEP = 0.11
"""Of the largest value: the error of values with one decimal that were cut off; coarser ones explain anything."""
BLOCK_ELEMENTS = 1 << 20
"""Elements of a large tensor that are compared at once."""
MAX_SIGMAS = 7.5
"""Standard deviations of the largest of some million elements, where they are noise."""
EXTREME_SIGMAS = 2.0
"""Standard deviations that the largest of n may be beyond √(2·ln n)."""
MAX_UNEVENNESS = 2.0
"""Times the standard deviation of noise: that of one row or column."""
MAX_NOISE = 0.25
"""Of the values, root mean square by root mean square: more would explain any numbers."""
MAX_CORRELATION = 0.15
"""Of neighbours, where what is left is noise."""
MIN_LINE = 16
"""Elements of a row or column whose standard deviation says something."""

MASKED, MASK_SHARE = -1e4, 0.05
"""A value below the one that makes up more than such a share of all is a mask."""

Samples = Mapping[str, Sample]


def accepted(
    found: Explanation, samples: Samples, arrays: Mapping[str, Array], atol: float, expected_dtype: str
) -> Explanation | None:
    """The explanation with its residual on all elements, and with how values were stored; None where it is none."""
    if found.errors is None:
        return found
    own = {name: samples[name] for name in found.tensors}
    one, errors = own[found.tensors[0]], found.errors(own)
    storage = storage_of(errors, _unmasked(one.values), one.dtype, found.edits, atol, expected_dtype)
    if storage is None or not (found.edits or storage):
        return None
    found = replace(found, edits=(*found.edits, *storage), residual=_largest(errors.left), noise=rms(errors.left))
    return found if one.whole else _on_all_rows(found, one, arrays, atol)


def _unmasked(values: AnyArray) -> AnyArray:
    """The values without those of a mask, which are no numbers, or the most negative one many times over."""
    finite = values[np.isfinite(values)]
    least = finite.real.min(initial=0.0)
    masked = least <= MASKED and np.count_nonzero(finite == least) > MASK_SHARE * finite.size
    return finite[finite != least] if masked else finite


def storage_of(
    errors: Errors, values: AnyArray, dtype: str, edits: Sequence[Edit], atol: float, expected_dtype: str
) -> tuple[Edit, ...] | None:
    """The edits that say how values were stored, such that no more is left than that; None where more is left."""
    largest, noise = _largest(errors.left), rms(errors.left)
    if not math.isfinite(largest):
        return None
    storage = quantised_storage(values, dtype, noise, expected_dtype)
    if any(edit.storage and edit != Recipe("exact") for edit in edits):
        storage = tuple(edit for edit in storage if not isinstance(edit, Noise) and edit not in edits)
    if not storage or not isinstance(storage[0], Noise):
        return storage if _within(errors, values, dtype, atol) else None
    if noise <= MAX_NOISE * rms(errors.values) and _is_noise(errors.left, largest, noise):
        return storage
    return () if _within(errors, values, dtype, atol) else None


def _on_all_rows(found: Explanation, one: Sample, arrays: Mapping[str, Array], atol: float) -> Explanation | None:
    """The same with the residual of all rows, as far as there is time for them."""
    assert found.errors is not None
    noise = max((edit.size for edit in found.edits if isinstance(edit, Noise)), default=0.0)
    largest, done = found.residual, 0
    try:
        for rows in _blocks(one):
            check_time()
            errors = found.errors({name: _rows(name, arrays[name], rows) for name in found.tensors})
            largest, done = max(largest, _largest(errors.left)), rows.stop
            if not _within(errors, _unmasked(one.values), one.dtype, max(atol, MAX_SIGMAS * noise)):
                return None
    except OutOfTimeError:
        return replace(found, residual=largest, open=(*found.open, f"{done:,} of {one.shape[-2]:,} rows were compared"))
    return replace(found, residual=largest)


def _blocks(one: Sample) -> Iterator[slice]:
    width = math.prod(one.shape) // one.shape[-2]
    step = max(1, BLOCK_ELEMENTS // width)
    return (slice(start, min(start + step, one.shape[-2])) for start in range(0, one.shape[-2], step))


def _rows(name: str, array: Array, rows: slice) -> Sample:
    values = wide(array[..., rows, :])
    return Sample(name, dtype_name(array.dtype), array.shape, values, np.arange(rows.start, rows.stop))


def _largest(left: AnyArray) -> float:
    if not left.size:
        return 0.0
    return float(max(np.abs(left.real).max(), np.abs(left.imag).max()) if np.iscomplexobj(left) else np.abs(left).max())


def out_of_tolerance(errors: Errors, values: AnyArray, dtype: str, atol: float) -> Flags:
    """Which elements are off by more than the tolerance, and by more than rounding may have changed them."""
    relative, absolute = rounding(values)
    with np.errstate(
        all="ignore"
    ):  # wrong numbers may be as large as can be: rounding is that of the smaller of the two
        sizes = np.minimum(np.abs(errors.values), np.abs(errors.values - errors.left))
    size = max(1.0, float(np.nan_to_num(sizes).max(initial=0.0)))
    absolute *= TRUNCATED if isinstance(grain(values), Decimals) else ROUNDED
    absolute = min(absolute, MAX_STEP * size)
    floor = UNITS * max(precision("float32"), 0.0 if relative else precision(dtype)) * size + absolute
    allowed = np.maximum(atol, floor + ROUNDED * relative * sizes) + errors.drift
    return np.asarray(~(np.maximum(np.abs(errors.left.real), np.abs(errors.left.imag)) <= allowed))


def _within(errors: Errors, values: AnyArray, dtype: str, atol: float) -> bool:
    return not out_of_tolerance(errors, values, dtype, atol).any()


def _is_noise(left: AnyArray, largest: float, noise: float) -> bool:
    """Whether what is left has no structure: nothing sticks out, neighbours have nothing to do with each other."""
    if largest > (math.sqrt(2 * math.log(left.size)) + EXTREME_SIGMAS) * noise:
        return False
    if left.ndim < 2:
        return True
    table = left.reshape(-1, left.shape[-1])
    for axis in (0, 1):
        if table.shape[axis] < MIN_LINE:
            continue
        lines = np.sqrt(np.mean(np.abs(table) ** 2, axis=axis))
        neighbours = table[1:] * table[:-1].conj() if axis == 0 else table[:, 1:] * table[:, :-1].conj()
        slack = MAX_SIGMAS / math.sqrt(max(1, neighbours.size))
        if lines.max() > MAX_UNEVENNESS * noise * (1 + 4 / math.sqrt(table.shape[axis])):
            return False
        if abs(neighbours.real.mean()) > (MAX_CORRELATION + slack) * noise**2:
            return False
    return True
