"""Sentences about a table that no scheme explains."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name, widest

MAX_FULL_READ = 1 << 21
"""Elements of a tensor that is read whole."""

MAX_SIDE = 256
"""Rows and columns of the corner whose rank is computed."""

LOW_RANK = 1e-5
"""Share of the largest singular value below which others are the rounding of coarse dtypes."""


class SampledTensor(NamedTuple):
    """A tensor, and those of its elements that are looked at.

    Attributes:
        array: The whole tensor.
        values: The elements that are looked at.
        part: Their number in words; empty if these are all elements.
    """

    array: Array
    values: AnyArray
    part: str = ""


def _sample(array: Array) -> SampledTensor:
    """Return a tensor whole if it is small, or else evenly spaced rows or elements of it.

    Of 10,000,000 rows of 64 numbers, every 306th is read: statistics of a tensor of gigabytes need no
    more than some millions of its elements.
    """
    if array.size <= MAX_FULL_READ:
        return SampledTensor(array, widest(array))
    step = math.ceil(array.size / MAX_FULL_READ)
    if array.ndim == 1:
        elements = array[::step]
        return SampledTensor(array, widest(elements), f"{len(elements):,} elements")
    rows = array[..., ::step, :]  # At least one row of each matrix is left.
    if rows.size <= 2 * MAX_FULL_READ:
        return SampledTensor(array, widest(rows), f"{rows.shape[-2]:,} rows")
    # These rows are too long: only the first elements of each are looked at.
    row_count = math.prod(rows.shape[:-1])
    first_elements = rows[..., : MAX_FULL_READ // row_count]
    return SampledTensor(array, widest(first_elements), f"{first_elements.size:,} elements")


@np.errstate(all="ignore")  # Any tensor is described, also one whose squares are infinite.
def describe(name: str, array: Array) -> list[str]:
    """Return short sentences about a table that no scheme explains, the most telling first.

    The first has its shape, dtype and range, the second its rank if that is not full.

    >>> describe("w", np.full((2, 3), 0.5))
    ['w: 2 × 3, float64, all 0.5']
    """
    shape = " × ".join(map(str, array.shape)) or "a single number"
    facts = [f"{name}: {shape}", dtype_name(array.dtype)]
    if not array.size:
        return [", ".join([*facts, "empty"])]
    sampled = _sample(array)  # A large tensor is not read whole.
    first_sentence = ", ".join([*facts, *_facts_about_values(sampled)])
    if not np.isfinite(sampled.values).all():
        return [first_sentence]  # A matrix with infinities or NaN has no rank.
    return [first_sentence, *_rank_of(sampled)]


def _facts_about_values(sampled: SampledTensor) -> Iterator[str]:
    """Yield how much of a tensor was read, how many elements are not finite, and the range of the others."""
    values = sampled.values
    if sampled.part:
        yield f"of which {sampled.part} were looked at"
    finite = values[np.isfinite(values)]
    not_finite = values.size - finite.size
    if not_finite:
        yield f"{not_finite:,} of {values.size:,} elements are infinite or not numbers"
    if finite.size:
        sizes = np.abs(finite) if np.iscomplexobj(values) else finite
        yield _range_of(sizes)


def _range_of(values: AnyArray) -> str:
    low = float(values.min())
    high = float(values.max())
    if low == high:
        return f"all {low:g}"
    return f"from {low:.6g} to {high:.6g}, std {float(values.std()):.4g}"


def _rank_of(sampled: SampledTensor) -> Iterator[str]:
    """Yield a sentence if a matrix has less than full rank, as products of a few vectors have.

    A table of cosines and sines of one frequency has rank 2, and learned embeddings full rank. Of
    a large matrix only the first rows and columns are looked at, since a decomposition is slow.
    """
    values = sampled.values
    if not _has_telling_rank(values):
        return
    corner = values.reshape(-1, values.shape[-1])[:MAX_SIDE, :MAX_SIDE]
    singular_values = np.linalg.svd(corner, compute_uv=False)
    full_rank = len(singular_values)
    rank = np.count_nonzero(singular_values > LOW_RANK * singular_values[0])
    if not 0 < rank < full_rank:
        return
    part = ""
    if corner.size < sampled.array.size:
        part = f"{len(corner)} × {corner.shape[1]} of its elements are "
    yield f"{part}of rank {rank}, not {full_rank}"


def _has_telling_rank(values: AnyArray) -> bool:
    """Return True for matrices of real numbers, unless they overflow or are constant.

    If the standard deviation overflows, so would the decomposition; a constant has rank 1, which says
    no more than that it is constant.
    """
    is_matrix = values.ndim > 1 and min(values.shape[-2:]) > 1
    if not is_matrix or np.iscomplexobj(values):
        return False
    overflows = not np.isfinite(values.std())
    is_constant = bool((values == values.flat[0]).all())
    return not (overflows or is_constant)
