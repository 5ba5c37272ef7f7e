"""A sentence about a table that no scheme explains."""

import math
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name, widest

MAX_FULL_READ = 1 << 21
"""Elements of a tensor that is read whole."""

DESCRIBED_ELEMENTS = 1 << 20
"""Elements of a larger tensor that are read."""

RUN = 1 << 16
"""Neighbouring elements of a larger tensor that are read together: 256 KiB of float32, since the
system maps 64 KiB of a file at least."""


@np.errstate(all="ignore")  # Any tensor is described, also one whose squares are infinite.
def describe(name: str, array: Array) -> str:
    """Return a short sentence about a table that no scheme explains: its shape, dtype and range.

    >>> describe("w", np.full((2, 3), 0.5))
    'w: 2 × 3, float64, all 0.5'
    """
    shape = " × ".join(map(str, array.shape)) or "a single number"
    facts = [f"{name}: {shape}", dtype_name(array.dtype)]
    if array.size:
        facts += _facts_about_values(array)
    else:
        facts.append("empty")
    return ", ".join(facts)


def _facts_about_values(array: Array) -> Iterator[str]:
    """Yield how much of a tensor was read, how many elements are not finite, and the range of the others."""
    values = _sample(array)
    if values.size < array.size:
        yield f"of which {values.size:,} elements were looked at"
    finite = values[np.isfinite(values)]
    not_finite = values.size - finite.size
    if not_finite:
        yield f"{not_finite:,} of {values.size:,} elements are infinite or not numbers"
    if finite.size:
        yield _range_of(np.abs(finite) if np.iscomplexobj(values) else finite)


def _sample(array: Array) -> AnyArray:
    """Return the elements of a tensor, or evenly spaced runs of them if there are many.

    Statistics of a tensor of gigabytes need no more than a million of its elements. Only the
    pages of a mapped file that hold these runs are read: of 10,000,000 elements, every tenth run.
    """
    if array.size <= MAX_FULL_READ:
        return widest(array)
    elements = array.ravel(order="K")  # No copy is made of a table that is contiguous.
    run_count = array.size // RUN
    runs = elements[: run_count * RUN].reshape(run_count, RUN)
    step = math.ceil(array.size / DESCRIBED_ELEMENTS)
    return widest(runs[::step])


def _range_of(values: AnyArray) -> str:
    low = float(values.min())
    high = float(values.max())
    if low == high:
        return f"all {low:g}"
    return f"from {low:.6g} to {high:.6g}, std {float(values.std()):.4g}"
