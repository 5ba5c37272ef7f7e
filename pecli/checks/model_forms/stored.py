"""Tensors as the files of a model store them: in a dtype, quantised in blocks, or in shards."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.compare.factors import without_ones
from pecli.engine.arrays import AnyArray, Array, Indices, dtype_name
from pecli.engine.numerics.kernels import compiled_loops

EXPERT = re.compile(r"(?<=_exps)\.(\d+)")
"""The number of an expert in the name that `Stored.by_expert` gives it."""
SAMPLED_COLUMNS = 256  #: enough to tell what happened to a tensor
Q8_0 = "Q8_0"


class Quantisation(NamedTuple):
    """A quantised type of ggml: the bits of an element, and how many elements share a scale."""

    bits: int
    elements_per_scale: int


QUANTISED = {
    "Q4_0": Quantisation(4, 32),
    "Q4_1": Quantisation(4, 32),
    "Q4_K": Quantisation(4, 32),
    "Q5_0": Quantisation(5, 32),
    "Q5_1": Quantisation(5, 32),
    "Q5_K": Quantisation(5, 32),
    Q8_0: Quantisation(8, 32),
    "Q6_K": Quantisation(6, 16),
    "Q3_K": Quantisation(3, 16),
    "Q2_K": Quantisation(2, 16),
}
"""The quantised types that are compared (ggml-common.h of llama.cpp)."""
SUPER_BLOCK = 256
"""Elements of a K-quant whose scales are themselves stored as small multiples of one number."""
SCALE_SHARE = 1 / 40
"""Error of a stored scale of a K-quant, at most, as a share of the largest scale of its super-block:
scales have 4 to 6 bits, so that half a step is 1/126 to 1/30, and ggml searches for the best."""
MIN_SCALED_STEPS = 64
"""The largest element of a Q8_0 block is 127 steps of its scale. If the values of a row are smaller
than this many steps, the scale belongs to other values and does not tell their rounding."""


class Rounding(NamedTuple):
    """The largest error of a number that was rounded to a dtype: a share of it, or a constant."""

    relative: float
    absolute: float


ROUNDING = {
    "float64": Rounding(2.0**-22, 0.0),
    "float32": Rounding(2.0**-22, 0.0),
    "float16": Rounding(2.0**-10, 2.0**-24),  # below 2^-14 its steps are 2^-24
    "bfloat16": Rounding(2.0**-7, 0.0),
}
"""The dtypes that are compared. A step of each, rather than half of one: converters round twice."""


class StoredTensor(NamedTuple):
    """A tensor as a file stores it.

    Attributes:
        dtype: The dtype, or the quantised type of ggml.
        shape: The shape in elements.
        array: The elements; the bytes of each row if it is quantised; None if the type is not read.
        shards: Further parts of the tensor, from Meta's other files.
    """

    dtype: str
    shape: tuple[int, ...]
    array: AnyArray | None
    shards: tuple[Array, ...] = ()

    @classmethod
    def of(cls, array: Array, shards: Sequence[Array] = ()) -> "StoredTensor":
        return cls(
            dtype=dtype_name(array.dtype), shape=array.shape, array=array, shards=tuple(shards)
        )

    @property
    def is_quantised(self) -> bool:
        return self.dtype in QUANTISED

    @property
    def is_read(self) -> bool:
        return self.array is not None and (self.is_quantised or self.dtype in ROUNDING)

    @property
    def values(self) -> AnyArray:
        """The array of a tensor that is read."""
        assert self.array is not None
        return self.array

    @property
    def rows(self) -> AnyArray:
        """The array with two axes; a vector becomes a column, so that its elements are rows."""
        is_vector = self.values.ndim < 2 and not self.is_quantised
        width = 1 if is_vector else self.values.shape[-1]
        return self.values.reshape(-1, width)

    def by_expert(self, name: str) -> Iterator[tuple[str, "StoredTensor"]]:
        """Yield stacked experts one by one, each with its number in the name.

        `blk.0.ffn_up_exps.weight` of shape (2, 8, 4) becomes `blk.0.ffn_up_exps.0.weight` and
        `blk.0.ffn_up_exps.1.weight`, (8, 4) each. Any other tensor is yielded as it is.
        """
        stem, stacked, suffix = name.partition("_exps.")
        if suffix not in ("weight", "bias") or len(self.shape) < 2:
            yield name, self
            return
        for number, array in enumerate(self.values):
            shards = tuple(shard[number] for shard in self.shards)
            expert = StoredTensor(
                dtype=self.dtype, shape=self.shape[1:], array=array, shards=shards
            )
            yield f"{stem}{stacked}{number}.{suffix}", expert

    def with_shape(self, shape: tuple[int, ...]) -> "StoredTensor":
        """Return the tensor in a shape that it has in another file; unchanged if that is impossible.

        The shape may lack axes of length 1, which GGUF drops: (1, 6, 1) becomes (6,). Or the tensor
        may be one of several shards, which are joined: (4, 8) and (4, 8) become (8, 8).
        """
        if self.shape == shape:
            return self
        has_elements = self.dtype in ROUNDING  # A quantised array holds bytes, in another shape.
        if has_elements and without_ones(self.shape) == shape:
            return StoredTensor.of(self.values.reshape(shape))
        return self._join_shards(shape)

    def _join_shards(self, shape: tuple[int, ...]) -> "StoredTensor":
        """Return all shards as one tensor, joined along the axis that gives a shape.

        The tensor is returned unchanged if no axis does, or if there are no shards. Those of a norm
        are copies of each other, so that any of them is the whole tensor already.
        """
        if not self.shards:
            return self
        for axis in range(len(self.shape)):
            joined = np.concatenate([self.values, *self.shards], axis)
            if joined.shape == shape:
                return StoredTensor.of(joined)
        return self

    def floats(self, rows: Array, out: AnyArray) -> AnyArray:
        """Write some rows of the array as floats into the first rows of `out`, and return these.

        Args:
            rows: Rows as they are stored: numbers, or the bytes of quantised blocks.
            out: Memory for the floats, (at least as many rows, elements per row).
        """
        floats = out[: len(rows)]
        if self.dtype == Q8_0:
            _dequantise_q8_0(rows, floats)
        elif self.is_quantised:
            from gguf import GGMLQuantizationType
            from gguf.quants import dequantize

            floats[...] = dequantize(np.ascontiguousarray(rows), GGMLQuantizationType[self.dtype])
        elif self.dtype == "bfloat16" and floats.dtype == np.float32:
            # A bfloat16 is the upper half of a float32; a shift is faster than a cast.
            bits = floats.view(np.uint32)
            np.left_shift(rows.view(np.uint16), 16, out=bits, dtype=np.uint32)
        elif self.dtype == "float16" and floats.dtype == np.float32:
            _widen_halves(rows, floats)
        else:
            floats[...] = rows
        return floats

    def sample(self, row_numbers: Indices) -> AnyArray:
        """Return the first columns of some rows as floats, (row numbers, columns).

        A row of 4096 elements in Q8_0 has 4352 bytes, of which the first 272 are 256 elements.
        """
        rows = self.rows
        width = math.prod(self.shape) // max(1, len(rows))
        columns = min(width, SAMPLED_COLUMNS)
        stored_columns = rows.shape[1] * columns // width  # columns are bytes if it is quantised
        dtype = np.float64 if self.dtype == "float64" else np.float32
        out = np.empty((len(row_numbers), columns), dtype)
        return self.floats(rows[row_numbers, :stored_columns], out)

    def rounding_of_dtype(self, values: AnyArray) -> AnyArray:
        """Return the largest rounding error of each value in the dtype of this tensor, (rows, columns).

        It is a share of the value, 2^-7 for bfloat16, and at least the smallest step of the dtype.
        """
        rounding = ROUNDING[self.dtype]
        relative = np.abs(values) * np.float32(rounding.relative)
        return np.asarray(relative + np.float32(rounding.absolute))

    def quantisation_steps(self, values: AnyArray, rows: Array | None = None) -> AnyArray:
        """Return the steps of values that are quantised like this tensor, (rows, blocks).

        A block of 32 values shares a scale, and the values are multiples of it: the step. Stored rows
        in Q8_0 state their scales; otherwise the scale follows from the largest value of the block.

        Args:
            values: The values, (rows, columns).
            rows: Their bytes as this tensor stores them; None if they are not at hand.
        """
        if self.dtype == Q8_0 and rows is not None:
            stored_steps = _read_q8_0_steps(rows)
            if _may_be_steps_of(values, stored_steps):
                return stored_steps
        return self._estimate_steps(values)

    def _estimate_steps(self, values: AnyArray) -> AnyArray:
        """Return the step of each block if its scale is that of its largest value, (rows, blocks).

        Of b bits, 2^b − 1 steps cover the numbers from −m to m, if m is the largest of the block: a
        block of Q4_0 that goes to 1.5 has steps of 2 · 1.5 / 15 = 0.2. K-quants round the scales of
        a super-block as well.
        """
        bits, elements_per_scale = QUANTISED[self.dtype]
        blocks = values.reshape(len(values), -1, elements_per_scale)
        largest = np.maximum(blocks.max(axis=-1), -blocks.min(axis=-1))  # (rows, blocks)
        steps = np.asarray(largest * np.float32(2 / (2**bits - 1)))
        is_k_quant = self.dtype.endswith("K")
        if is_k_quant:
            steps += _bound_scale_errors(largest, SUPER_BLOCK // elements_per_scale)
        return steps


def q8_0_blocks(rows: Array) -> AnyArray:
    """Return the blocks of rows in Q8_0: a float16 scale and 32 signed bytes each."""
    block = [("scale", np.float16), ("elements", "V32")]
    return np.ascontiguousarray(rows).reshape(-1).view(block)


def _bound_scale_errors(largest: AnyArray, blocks_per_super_block: int) -> AnyArray:
    """Return the error of a K-quant's values that comes from the rounding of their scale.

    It is a share of the largest value of the super-block: with two blocks in each, the largest
    values 4, 40, 8, 0 become 1, 1, 0.2, 0.2.

    Args:
        largest: The largest absolute value of each block, (rows, blocks).
        blocks_per_super_block: The blocks whose scales are rounded together.
    """
    by_super_block = largest.reshape(len(largest), -1, blocks_per_super_block)
    scale_errors = by_super_block.max(axis=-1) * np.float32(SCALE_SHARE)
    return np.repeat(scale_errors, blocks_per_super_block, axis=-1)


def _read_q8_0_steps(rows: Array) -> AnyArray:
    """Return the step of each block of rows in Q8_0, (rows, blocks): the size of its scale."""
    scales = q8_0_blocks(rows)["scale"].astype(np.float32)
    return np.asarray(np.abs(scales).reshape(len(rows), -1))


def find_largest_q8_0_errors(expected: Array, stored: Array) -> AnyArray | None:
    """Return the largest absolute difference of each row of two arrays in Q8_0; None without compiled code.

    The compiled loop reads the bytes of both, while NumPy would have to write and read floats.
    """
    loops = compiled_loops(stored.size)
    if loops is None:
        return None
    expected_elements, expected_scales = _q8_0_elements_and_scales(expected)
    stored_elements, stored_scales = _q8_0_elements_and_scales(stored)
    largest_errors = np.empty(len(stored), np.float32)
    # The loop compares floats by their bits, as integers, and writes the largest ones as such.
    bits_of_largest_errors = largest_errors.view(np.int32)  # the same memory
    loops.find_largest_q8_0_errors(
        expected_elements,
        expected_scales,
        stored_elements,
        stored_scales,
        bits_of_largest_errors,
    )
    return largest_errors


def _q8_0_elements_and_scales(rows: Array) -> tuple[AnyArray, AnyArray]:
    """Return the bytes of rows in Q8_0 as signed integers, and the same as integers of 16 bits.

    Every 17th of the latter is the bits of a scale.
    """
    elements = np.ascontiguousarray(rows).reshape(-1).view(np.int8)
    # Integers of two bytes must begin at an even address (A).
    scales = np.require(elements.view(np.int16), requirements=["C", "A"])
    return elements, scales


def _may_be_steps_of(values: AnyArray, steps: AnyArray) -> bool:
    """Return True if values are large enough to have been stored with these steps, in all rows.

    The largest value of a block is 127 steps, so that values of a few steps were stored with others:
    the rows compared may be those of another tensor.
    """
    smallest_sum = MIN_SCALED_STEPS**2 * sum_of_squares(steps)
    return bool((sum_of_squares(values) >= smallest_sum).all())


def _dequantise_q8_0(rows: Array, out: AnyArray) -> None:
    """Write rows of Q8_0 as floats, twice as fast as the gguf package, which is not imported.

    A block has 34 bytes, a float16 scale and 32 signed bytes: 0.5 and 1, −2, 3, … become 0.5, −1,
    1.5, …
    """
    loops = compiled_loops(out.size)
    if loops is not None and out.dtype == np.float32:
        loops.dequantise_q8_0(*_q8_0_elements_and_scales(rows), out.reshape(-1))
        return
    _dequantise_q8_0_by_numpy(rows, out)


def _dequantise_q8_0_by_numpy(rows: Array, out: AnyArray) -> None:
    """Write rows of Q8_0 as floats if there is no compiled loop, or the floats are float64."""
    blocks = q8_0_blocks(rows)
    # Elements of different blocks are not adjacent, because of the scales, until they are copied.
    elements = blocks["elements"].copy().view(np.int8)
    out.reshape(-1)[...] = elements
    out_by_block = out.reshape(-1, 32)
    out_by_block *= blocks["scale"].astype(np.float32)[:, None]


def _widen_halves(rows: Array, out: AnyArray) -> None:
    """Write rows of float16 in float32; NumPy converts them one by one."""
    loops = compiled_loops(out.size)
    if loops is None:
        out[...] = rows
        return
    # Tensors of a file may begin at any byte.
    bits = np.require(rows, np.float16, ["C", "A"]).reshape(-1).view(np.int16)
    loops.widen_halves(bits, out.reshape(-1))


def sum_of_squares(values: AnyArray) -> AnyArray:
    """Return the sum of squares of each row."""
    return np.asarray(np.einsum("ij,ij->i", values, values))
