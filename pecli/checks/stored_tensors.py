"""Tensors as the forms of a model keep them, in a dtype or quantised, and whether two are equal but for rounding."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from pecli.compare.comparison import Comparison
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Array, Indices, dtype_name

_BITS = "Q4_0 4 32, Q4_1 4 32, Q4_K 4 32, Q5_0 5 32, Q5_1 5 32, Q5_K 5 32, Q8_0 8 32, Q6_K 6 16, Q3_K 3 16, Q2_K 2 16"
BITS = {name: (int(bits), int(shared)) for name, bits, shared in map(str.split, _BITS.split(","))}
"""Bits of an element, and how many elements share a scale, of the quantised types that are compared."""
SUPER_BLOCK, SCALE_SHARE = 256, 1 / 40
"""The scales of K-quants are multiples of one of 256 elements, whose rounding is below this share of the largest."""
MAX_STEPS = 4  #: that one element may be off, where its row as a whole is off by less than one
ROUNDING = {"float64": (2.0**-22, 0.0), "float32": (2.0**-22, 0.0), "float16": (2.0**-10, 2.0**-24)}
ROUNDING["bfloat16"] = (2.0**-7, 0.0)
"""Of dtypes that are compared: relative, and absolute."""
PIECE = (
    1 << 20
)  #: elements that are compared at once: fewer calls weigh more than what a core's own cache holds
SAMPLED = 256  #: columns that tell what happened to a tensor
EXPERT = re.compile(r"(?<=_exps)\.(\d+)")
BLOCK = 32  #: elements whose errors are bounded together, in all quantised types
MIN_SCALED = (
    64  #: of 127, what the largest element of a block has at least where its scale tells the step
)


class Stored(NamedTuple):
    """A tensor as a form keeps it, in a dtype or quantised; Meta's in shards."""

    kind: str
    shape: tuple[int, ...]
    array: (
        Any  #: of elements; of bytes, row by row, where it is quantised; None where it is not read
    )
    others: tuple[Array, ...] = ()  #: further shards

    @classmethod
    def of(cls, array: Array, others: Sequence[Array] = ()) -> "Stored":
        return cls(dtype_name(array.dtype), array.shape, array, tuple(others))

    @property
    def is_read(self) -> bool:
        return (self.kind in BITS or self.kind in ROUNDING) and self.array is not None

    @property
    def rows(self) -> AnyArray:
        alone = self.array.ndim < 2 and self.kind not in BITS
        return np.asarray(self.array.reshape(-1, 1 if alone else self.array.shape[-1]))

    def by_expert(self, name: str) -> "Iterator[tuple[str, Stored]]":
        """Stacked experts one by one, each with its number in the name."""
        stem, stacked, suffix = name.partition("_exps.")
        if suffix not in ("weight", "bias") or len(self.shape) < 2:
            yield name, self
            return
        for number, array in enumerate(self.array):
            others = tuple(each[number] for each in self.others)
            yield (
                f"{stem}{stacked}{number}.{suffix}",
                Stored(self.kind, self.shape[1:], array, others),
            )

    def fitted(self, shape: tuple[int, ...]) -> "Stored":
        """Shards as one tensor, along the axis that gives it the shape (those of a norm are all the same), and axes of
        length 1 left out, as in GGUF."""
        if self.shape == shape:
            return self
        if self.kind in ROUNDING and [size for size in self.shape if size > 1] == [*shape]:
            return Stored.of(self.array.reshape(shape))
        axes = range(len(self.shape) if self.others else 0)
        joined = (np.concatenate([self.array, *self.others], axis) for axis in axes)
        return next((Stored.of(each) for each in joined if each.shape == shape), self)

    def floats(self, rows: Array, out: AnyArray) -> AnyArray:
        """Some of its rows as floats, which are put into the first rows of an array."""
        out = out[: len(rows)]
        if (
            self.kind == "Q8_0"
        ):  # for which the gguf package takes twice the time, and as long to be imported
            blocks = _blocks(rows)
            out.reshape(-1)[...] = blocks["elements"].copy().view(np.int8)
            elements = out.reshape(-1, 32)
            elements *= blocks["scale"].astype(np.float32)[:, None]
        elif self.kind in BITS:
            from gguf import GGMLQuantizationType
            from gguf.quants import dequantize

            out[...] = dequantize(np.ascontiguousarray(rows), GGMLQuantizationType[self.kind])
        elif self.kind == "bfloat16" and out.dtype == np.float32:  # the upper half of a float32
            np.left_shift(rows.view(np.uint16), 16, out=out.view(np.uint32), dtype=np.uint32)
        else:
            out[...] = rows
        return out

    def sample(self, places: Indices) -> AnyArray:
        """The first columns of some rows."""
        rows = self.rows
        width = math.prod(self.shape) // max(1, len(rows))
        count = min(width, SAMPLED)
        out = np.empty((len(places), count), np.float64 if self.kind == "float64" else np.float32)
        return self.floats(rows[places, : rows.shape[1] * count // width], out)

    def steps(self, values: AnyArray, rows: Array | None = None) -> AnyArray:
        """How far values that are stored like this may be off: a column for each of them, or for each block."""
        if self.kind not in BITS:
            relative, absolute = ROUNDING[self.kind]
            return np.asarray(np.abs(values) * np.float32(relative) + np.float32(absolute))
        bits, shared = BITS[self.kind]
        if self.kind == "Q8_0" and rows is not None:
            steps = np.abs(_blocks(rows)["scale"].astype(np.float32)).reshape(len(rows), -1)
            if (
                _squares(values) >= MIN_SCALED**2 * _squares(steps)
            ).all():  # the largest of a block is 127 steps
                return steps
        blocks = values.reshape(len(values), -1, shared)
        largest = np.maximum(blocks.max(axis=-1), -blocks.min(axis=-1))
        steps = np.asarray(largest * np.float32(2 / (2**bits - 1)))
        if self.kind.endswith("K"):
            scales = largest.reshape(len(values), -1, SUPER_BLOCK // shared).max(axis=-1)
            steps += np.repeat(scales * np.float32(SCALE_SHARE), SUPER_BLOCK // shared, axis=-1)
        return steps


class Pair(NamedTuple):
    """A tensor in both forms; the second should have these rows of the first, with so much added."""

    name: str
    ours: Stored
    theirs: Stored
    order: Indices | None
    added: int

    @np.errstate(all="ignore")
    def compared(self, allowed: Tolerance) -> Comparison:
        ours, theirs = self.ours.rows, self.theirs.rows
        shape, same_kind = self.theirs.shape, self.ours.kind == self.theirs.kind and not self.added
        result = Comparison(self.name, shape, math.prod(shape), self.ours.kind, self.theirs.kind)
        result.mismatched, result.max_abs_error = 0, 0.0
        width = result.size // max(1, len(theirs))
        floats = np.float64 if "float64" in (self.ours.kind, self.theirs.kind) else np.float32
        step = max(1, PIECE // max(1, width))
        buffers = np.empty((2, min(step, len(theirs)), width), floats)
        for start in range(0, len(theirs), step):
            one = ours[
                slice(start, start + step)
                if self.order is None
                else self.order[start : start + step]
            ]
            other = theirs[start : start + step]
            if same_kind and _same_bytes(one, other):
                continue
            expected, found = (
                self.ours.floats(one, buffers[0]),
                self.theirs.floats(other, buffers[1]),
            )
            if self.added:
                expected += np.float32(self.added)
            bad, errors = self.bad_rows(expected, found, allowed, other)
            largest = float(errors.max(initial=0))
            result.max_abs_error = max(
                result.max_abs_error, math.inf if math.isnan(largest) else largest
            )
            result.mismatched += int(bad.sum()) * width
        return result

    def bad_rows(
        self, ours: AnyArray, theirs: AnyArray, allowed: Tolerance, stored: Array | None = None
    ) -> tuple[AnyArray, AnyArray]:
        """Which rows are out of tolerance, and the largest error of each, or less where none is; overwrites ours."""
        kinds = [each for each in self[1:3] if each.kind in BITS] or [*self[1:3]]
        rounds = bool(self.added) or self.ours.kind != self.theirs.kind
        slack = (
            np.float32(allowed.atol) + np.float32(allowed.rtol) * np.abs(ours)
            if allowed.atol or allowed.rtol
            else 0
        )
        error = np.subtract(ours, theirs, out=ours)
        if kinds[0].kind not in BITS:
            errors = _largest(error)
            if (
                errors <= max(ROUNDING[each.kind][1] for each in kinds) * rounds
            ).all():  # equal, or too small for one
                return np.zeros(len(error), bool), errors
        limits = [
            each.steps(theirs, stored if each is self.theirs else None) for each in kinds if rounds
        ]
        limits, width = limits or [np.zeros((len(error), 1), np.float32)], error.shape[1]
        if isinstance(slack, np.ndarray):
            limits = [np.repeat(limit, width // limit.shape[1], axis=1) + slack for limit in limits]
        if kinds[0].kind not in BITS:  # what overflows has an infinite limit, too
            return np.any(~(np.abs(error) <= reduce(np.maximum, limits)), axis=1) | ~np.isfinite(
                errors
            ), errors
        squares = reduce(
            np.maximum, [_squares(limit) * np.float32(width / limit.shape[1]) for limit in limits]
        )
        largest = reduce(np.maximum, [limit.max(axis=1) for limit in limits])
        blocks = _squares(error.reshape(-1, BLOCK)).reshape(len(error), -1)
        within = blocks.sum(axis=1) <= squares
        bounds = np.sqrt(blocks.max(axis=1))
        if (within & np.isfinite(bounds) & (bounds <= MAX_STEPS * largest)).all():
            return ~within, bounds / np.float32(
                math.sqrt(BLOCK)
            )  # which some element is off by at least
        errors = _largest(error)
        return ~(within & (errors <= MAX_STEPS * largest) & np.isfinite(errors)), errors


def _blocks(rows: Array) -> AnyArray:
    """Those of rows in Q8_0."""
    return np.ascontiguousarray(rows).reshape(-1).view([("scale", np.float16), ("elements", "V32")])


def _largest(error: AnyArray) -> AnyArray:
    return np.asarray(np.maximum(error.max(axis=1), -error.min(axis=1)))


def _squares(values: AnyArray) -> AnyArray:
    """The sum of the squares of each row."""
    return np.asarray(np.einsum("ij,ij->i", values, values))


def _same_bytes(one: Array, other: Array) -> bool:
    size = next(size for size in (8, 4, 2, 1) if one.shape[1] * one.itemsize % size == 0)
    words = [np.ascontiguousarray(rows).view(f"u{size}") for rows in (one, other)]
    return np.array_equal(words[0], words[1])
