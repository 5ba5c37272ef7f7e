"""Loops that numba compiles. They need the extra `fast`; `kernels` decides when they are used.

NumPy passes over memory once per operation: a tile of a table is multiplied, rounded, scaled and
tested in six passes. Here, an element is finished before the next one is begun. The loops are
compiled when this module is imported, and numba keeps the machine code on disk for the next
process.

The results have the same bytes as NumPy's. Rotations perform the same operations in the same order.
Elements of tables are correctly rounded, because those that an error could change are listed and
computed one by one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from pecli.engine.arrays import AnyArray, Complex, Floats, Positions, Singles
from pecli.engine.numerics.float32_waves import DROPPED_BITS, ROUNDING_CONSTANT
from pecli.engine.numerics.kernels import RotationLoop

Loop = TypeVar("Loop", bound=Callable[..., object])


def _compiled(*signatures: Any) -> Callable[[Loop], Loop]:
    """Return the decorator that compiles a loop for some types of its arguments."""
    decorator: Callable[[Loop], Loop] = numba.njit(
        list(signatures), cache=True, nogil=True, error_model="numpy"
    )
    return decorator


def _inlined(function: Loop) -> Loop:
    """Make a function part of the loops that call it."""
    inlined: Loop = numba.njit(inline="always")(function)
    return inlined


@_inlined
def _is_in_doubt(value: np.float64, ignored_bits: np.uint64) -> np.bool_:
    """Return True if a value may round to either of two float32 numbers, because of its error.

    Values are scaled so that the error is less than 1/4. A tie between two float32 numbers is then
    an integer whose lower bits are 0, and a value near it rounds to it.

    Args:
        value: The value.
        ignored_bits: The number of its upper bits that may be anything.
    """
    bits = np.float64(np.rint(value)).view(np.uint64)
    has_zeros_below: np.bool_ = bits << ignored_bits == 0
    return has_zeros_below


_FACTORS = types.Array(types.float64, 2, "C", readonly=True)


@_compiled(
    types.int64(
        *(_FACTORS, _FACTORS, _FACTORS, _FACTORS, types.int64),
        types.Array(types.float32, 1, "C"),
        *(types.int64, types.int64, types.float32, types.uint64),
        types.Array(types.int64, 1, "C"),
    )
)
def add_products(
    first_anchors: Floats,
    second_anchors: Floats,
    first_rows: Floats,
    second_rows: Floats,
    start: int,
    out: Singles,
    row_length: int,
    columns: int,
    scale_back: np.float32,
    ignored_bits: np.uint64,
    doubtful: Positions,
) -> int:
    """Write rows of a table: first anchor · first row + second anchor · second row per element.

    An anchor is a position whose cosines and sines are known. By the addition theorems, those of the
    rows after it are sums of two products. With 64 rows per anchor and `start` = 100, the first row
    of `out` is row 36 after anchor 1.

    Args:
        first_anchors: Factors (anchors, columns), scaled for the test of doubtful elements.
        second_anchors: Factors (anchors, columns), scaled as well.
        first_rows: Factors (rows per anchor, columns).
        second_rows: Factors (rows per anchor, columns).
        start: The rows between the first anchor and the first row of `out`.
        out: The memory to write to, from the first element of the first row on.
        row_length: Elements of `out` from one row to the next, at least as many as columns.
        columns: The number of columns.
        scale_back: The factor that undoes the scale of the test, a power of two.
        ignored_bits: The number of upper bits of a float64 that the test ignores.
        doubtful: Room for the elements whose rounding the error leaves in doubt. Each is written as
            row · columns + column.

    Returns:
        The number of elements in doubt.
    """
    rows_per_anchor = len(first_rows)
    rows = -(-len(out) // row_length)  # rounded up: the last row ends with its last column
    count = 0
    for row in range(rows):
        anchor = (start + row) // rows_per_anchor
        row_after_anchor = (start + row) % rows_per_anchor
        first_anchor = first_anchors[anchor]
        second_anchor = second_anchors[anchor]
        first_row = first_rows[row_after_anchor]
        second_row = second_rows[row_after_anchor]
        # A slice, whose indices begin at 0, and one flag for all columns let the compiler compute
        # several columns at once.
        row_out = out[row * row_length : row * row_length + columns]
        row_is_in_doubt: np.bool_ = np.bool_(False)
        for column in range(columns):
            first_product = first_anchor[column] * first_row[column]
            value = first_product + second_anchor[column] * second_row[column]
            row_out[column] = np.float32(value) * scale_back
            row_is_in_doubt |= _is_in_doubt(value, ignored_bits)
        if row_is_in_doubt:
            for column in range(columns):
                first_product = first_anchor[column] * first_row[column]
                value = first_product + second_anchor[column] * second_row[column]
                if _is_in_doubt(value, ignored_bits):
                    doubtful[count] = row * columns + column
                    count += 1
    return count


_TIE = 1 << (DROPPED_BITS - 1)
_DROPPED = (1 << DROPPED_BITS) - 1
_RUN = 512
"""Angles whose intermediate numbers are in memory at a time."""


@_inlined
def _is_near_tie(value: np.float64, error: int) -> np.bool_:
    """Return True if a number is within the error, in ULPs, of a tie between two float32 numbers.

    The 29 bits that float32 drops are 100…0 at a tie. With that taken off and the error added,
    numbers within the error of a tie, on either side, have 0 … 2 · error.
    """
    shifted_bits = np.float64(value).view(np.int64) + (error - _TIE)
    is_near: np.bool_ = (shifted_bits & _DROPPED) <= 2 * error
    return is_near


@_inlined
def _last_bits_of_integer(integer_plus_constant: np.float64, mask: np.uint64) -> np.uint64:
    """Return the last bits of an integer to which ROUNDING_CONSTANT was added.

    The sum is a float of at least 2**52, whose last bits in memory are those of the integer. With
    the mask 8191, 13 bits of 1, the result is the integer modulo 8192.
    """
    bits_of_float = np.float64(integer_plus_constant).view(np.uint64)
    last_bits: np.uint64 = bits_of_float & mask
    return last_bits


@_inlined
def _subtract_sectors(
    angle: np.float64, count: np.float64, sector_angle: tuple[float, float, float]
) -> np.float64:
    """Return angle − count · sector angle, precisely, although both are nearly equal.

    355 radians less 462,848 sectors are 0.00003: with one product, its rounding error would count
    for much. So the sector's angle is given as large + medium + small (Cody and Waite). The products
    with the first two are exact, and so is the first difference; the errors of the other two are
    relative to smaller numbers.
    """
    large, medium, small = sector_angle
    without_large = angle - count * large
    without_medium = without_large - count * medium
    remainder: np.float64 = without_medium - count * small
    return remainder


@_inlined
def _split_into_sectors(
    angles: Singles,
    sector_angle: tuple[float, float, float],
    last_sector: np.uint64,
    remainders: Floats,
    sectors: AnyArray,
) -> None:
    """Write the sector of the circle that is nearest to each angle, and the rest of the angle.

    A sector is 1/8192 of the circle. 355 radians are 462,848 sectors and a rest of 0.00003 radians.
    Without whole turns, of 8192 sectors each, that is sector 4,096.

    Args:
        angles: Angles in radians (n,).
        sector_angle: Three numbers whose sum is the angle of a sector, 2π/8192, with more digits
            than a float has.
        last_sector: The number of the last sector, 8191, whose 13 bits are all 1.
        remainders: The array for the rests in radians, at least (n,).
        sectors: The array for the numbers of sectors, at least (n,).
    """
    large, medium, small = sector_angle
    sectors_per_radian = 1 / (large + medium + small)
    for place in range(len(angles)):
        angle = np.float64(angles[place])
        # Floats as large as the constant, 1.5 · 2**52, are 1 apart. So the sum is rounded to an
        # integer, and the difference is the nearest whole number of sectors.
        count_plus_constant = angle * sectors_per_radian + ROUNDING_CONSTANT
        count = count_plus_constant - ROUNDING_CONSTANT
        # The last 13 bits of the count are the count modulo 8192, without whole turns.
        sectors[place] = _last_bits_of_integer(count_plus_constant, last_sector)
        remainders[place] = _subtract_sectors(angle, count, sector_angle)


@_inlined
def _look_up(table: Floats, indices: AnyArray, reals: Floats, imags: Floats) -> None:
    """Write the complex numbers with these indices in a table of two parts by turns."""
    for place in range(len(indices)):
        index = np.uint64(2) * indices[place]  # Signed indices would be tested for the sign.
        reals[place] = table[index]
        imags[place] = table[index + np.uint64(1)]


@_inlined
def _turn_by_remainders(remainders: Floats, sign: float, reals: Floats, imags: Floats) -> None:
    """Turn directions cos + i·sin by small angles x, in place.

    They are multiplied by cos x + i·sin x, of which two terms of the series suffice: 1 − x²/2 and
    x − x³/6. Directions that have the sine first, sin + i·cos, turn the other way: the factor is
    cos x − i·sin x.

    Args:
        remainders: The angles x, at most half a sector each.
        sign: −1 if directions have the sine first, otherwise 1.
        reals: The real parts of the directions, which are replaced.
        imags: Their imaginary parts, which are replaced.
    """
    for place in range(len(remainders)):
        x = remainders[place]
        x_squared = x * x
        cos_x = 1 - x_squared / 2
        signed_sin_x = (sign - x_squared * (sign / 6)) * x  # sign · (x − x³/6)
        real = reals[place]
        imag = imags[place]
        reals[place] = real * cos_x - imag * signed_sin_x
        imags[place] = real * signed_sin_x + imag * cos_x


@_compiled(
    types.int64(
        types.Array(types.float32, 1, "C", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.UniTuple(types.float64, 3),
        types.float64,
        types.int64,
        types.Array(types.float32, 1, "C"),
        types.Array(types.int64, 1, "C"),
    )
)
def write_directions(
    angles: Singles,
    sector_directions: Floats,
    sector_angle: tuple[float, float, float],
    sign: float,
    error: int,
    out: Singles,
    doubtful: Positions,
) -> int:
    """Write the direction of each angle, by the steps that `float32_waves` explains.

    The steps are loops of their own, so that the compiler computes several angles at once in all of
    them but one: what is looked up in a table has to be fetched number by number.

    Args:
        angles: Angles in radians, from 0 to 2**18.
        sector_directions: The real and imaginary parts of the directions of all sectors, by turns.
        sector_angle: Three numbers whose sum is the angle of a sector.
        sign: −1 if sines come first in directions, otherwise 1.
        error: The bound on the error of a part, in ULPs of float64.
        out: The array for the result, real and imaginary parts by turns.
        doubtful: Room for the indices in `out` of parts whose rounding the error leaves in doubt.

    Returns:
        The number of parts in doubt.
    """
    last_sector = np.uint64(len(sector_directions) // 2 - 1)
    remainders = np.empty(_RUN)
    sectors = np.empty(_RUN, np.uint64)
    reals = np.empty(_RUN)
    imags = np.empty(_RUN)
    count = 0
    for start in range(0, len(angles), _RUN):
        run = angles[start : start + _RUN]
        _split_into_sectors(run, sector_angle, last_sector, remainders, sectors)
        _look_up(sector_directions, sectors[: len(run)], reals, imags)
        _turn_by_remainders(remainders[: len(run)], sign, reals, imags)
        run_out = out[2 * start : 2 * (start + _RUN)]
        run_is_in_doubt: np.bool_ = np.bool_(False)
        for place in range(len(run)):
            run_out[2 * place] = np.float32(reals[place])
            run_out[2 * place + 1] = np.float32(imags[place])
            run_is_in_doubt |= _is_near_tie(reals[place], error)
            run_is_in_doubt |= _is_near_tie(imags[place], error)
        if run_is_in_doubt:  # Few runs are, so that their parts are only tested again in those.
            for place in range(len(run)):
                if _is_near_tie(reals[place], error):
                    doubtful[count] = 2 * (start + place)
                    count += 1
                if _is_near_tie(imags[place], error):
                    doubtful[count] = 2 * (start + place) + 1
                    count += 1
    return count


def _rotation_types(values: str, factors: str) -> Any:
    """Return the types of the arguments of a loop such as `rotate_halves`.

    The source and the factors are read-only, because they may be files that are mapped.

    Args:
        values: The type of the numbers that are rotated, such as "float32".
        factors: The type of the factors, such as "complex128".
    """
    value_type = getattr(types, values)
    source = types.Array(value_type, 4, "C", readonly=True)
    target = types.Array(value_type, 4, "C")
    table = types.Array(getattr(types, factors), 2, "C", readonly=True)
    limits = [types.int64] * 5  # first and end position, first and end batch, first channel
    return types.void(source, target, table, *limits)


@_compiled(
    _rotation_types("float32", "complex64"),
    _rotation_types("float32", "complex128"),
    _rotation_types("float64", "complex128"),
)
def rotate_halves(
    source: AnyArray,
    target: AnyArray,
    factors: AnyArray,
    first_position: int,
    end_position: int,
    first_batch: int,
    end_batch: int,
    first_channel: int,
) -> None:
    """Rotate the pairs (i, i + d/2) of some positions and batches; leave other channels alone.

    Args:
        source: An array (batches, positions, heads, channels).
        target: The array for the result, which may be the source.
        factors: The complex factors (positions, d/2) of positions from `first_position` on, or one
            row (1, d/2) for all positions.
        first_position: The first position.
        end_position: The position after the last one.
        first_batch: The first batch.
        end_batch: The batch after the last one.
        first_channel: The first of the d rotary channels.
    """
    half = factors.shape[1]
    middle = first_channel + half
    end = middle + half
    # Cosines in a row of their own are read faster, and all batches share them.
    cosines = factors.real.copy()
    sines = factors.imag.copy()
    for batch in range(first_batch, end_batch):
        for position in range(first_position, end_position):
            # A single row of factors is for all positions.
            row = min(position - first_position, len(factors) - 1)
            cosine = cosines[row]
            sine = sines[row]
            for head in range(source.shape[2]):
                old = source[batch, position, head]
                new = target[batch, position, head]
                # Slices whose indices begin at 0 let the compiler rotate several pairs at once.
                old_u = old[first_channel:middle]
                old_v = old[middle:end]
                new_u = new[first_channel:middle]
                new_v = new[middle:end]
                for pair in range(half):
                    u = old_u[pair]
                    v = old_v[pair]
                    new_u[pair] = u * cosine[pair] - v * sine[pair]
                    new_v[pair] = v * cosine[pair] + u * sine[pair]


@intrinsic  # type: ignore[untyped-decorator]
def _fused(context: object, a: Any, b: Any, c: Any) -> object:
    """Return a · b + c, rounded once, in the type of b.

    numba calls this while it compiles a loop. It wants the types of the function and a function
    that generates LLVM's instruction `fma`.
    """

    def generate(context: object, builder: Any, signature: object, arguments: Any) -> object:
        return builder.fma(*arguments)

    return b(b, b, b), generate


@_compiled(_rotation_types("float32", "complex128"))
def rotate_pairs(
    source: AnyArray,
    target: AnyArray,
    factors: AnyArray,
    first_position: int,
    end_position: int,
    first_batch: int,
    end_batch: int,
    first_channel: int,
) -> None:
    """Rotate the pairs (2i, 2i + 1) of some positions and batches; leave other channels alone.

    A pair (u, v) and its factor c + i·s are multiplied as complex numbers:

        (u + i·v) · (c + i·s) = (u·c − v·s) + i·(u·s + v·c)

    The loop writes the bytes that NumPy's product has. Where the processor has a fused multiply-add
    (a·b + c, rounded once), NumPy rounds v·s, v·c and the sums, but not u·c and u·s.

    The arguments are those of `rotate_halves`, with numbers in float32 and factors in complex128. If
    both have one precision, NumPy's own product is as fast.
    """
    pairs = factors.shape[1]
    end_channel = first_channel + 2 * pairs
    for batch in range(first_batch, end_batch):
        for position in range(first_position, end_position):
            # A single row of factors is for all positions.
            row = min(position - first_position, len(factors) - 1)
            factor = factors[row]
            for head in range(source.shape[2]):
                old = source[batch, position, head][first_channel:end_channel]
                new = target[batch, position, head][first_channel:end_channel]
                for pair in range(pairs):
                    c = factor[pair].real
                    s = factor[pair].imag
                    u = old[2 * pair]
                    v = old[2 * pair + 1]
                    new[2 * pair] = _fused(u, c, -(v * s))
                    new[2 * pair + 1] = _fused(u, s, v * c)


def rotation_loop(layout: str) -> RotationLoop | None:
    """Return the loop that makes the same bytes as NumPy; None if there is none.

    Args:
        layout: The layout of pairs, "halves" or "interleaved".
    """
    if layout == "halves":
        return rotate_halves
    return rotate_pairs if _numpy_fuses_products() else None


@cache
def _numpy_fuses_products() -> bool:
    """Return True if NumPy rounds complex products as `rotate_pairs` does.

    The real part of a product is u·c − v·s. With u = c = 1 + e, v = 1 + 2e and s = 1, it is e²; but
    if u·c is rounded first, e² is lost, because it is less than half a ULP of 1. NumPy has loops
    for several lengths of arrays, which all have to agree.
    """
    e = 2.0**-27
    for length in range(1, 18):
        pairs: Complex = np.full(length, complex(1 + e, 1 + 2 * e))
        factors: Complex = np.full(length, complex(1 + e, 1))
        products = pairs * factors
        if not np.all(products.real == e * e):
            return False
    return True


_HALF_SIGN_AND_DIGITS = np.int32(-0x70002000)
"""The bits of a float16 number that was shifted to the place of float32's: 0x8FFFE000."""
_HALF_INFINITY = np.int32(0x0F800000)
_INFINITY = np.int32(0x7F800000)
_HALF_SCALE = np.float32(2.0**112)
"""The exponents of float16 begin at 2^-15, and those of float32 at 2^-127."""


@_inlined
def _half_to_single(bits: np.int16) -> np.float32:
    """Return a float16 number, given as its bits, in float32, which holds all of them.

    The sign, the exponent and the digits are moved to their places in float32. There the exponent
    means a number that is smaller by 2**112, except that the largest exponent, of infinity and NaN,
    has to be the largest again. 1.0 is 0x3C00; moved, 0x07800000 is 2**-112; scaled, 1.0 again.
    """
    shifted = (np.int32(bits) << np.int32(13)) & _HALF_SIGN_AND_DIGITS
    is_finite = (shifted & _HALF_INFINITY) != _HALF_INFINITY
    finite = np.int32(shifted).view(np.float32) * _HALF_SCALE
    not_finite = np.int32(shifted | _INFINITY).view(np.float32)
    return finite if is_finite else not_finite


_BLOCK_VALUES = 32
"""Elements of a block of ggml's Q8_0, one signed byte each."""
_SCALE_BYTES = 2
"""Bytes of the scale, a float16 number that stands before the elements of its block."""
_BLOCK_BYTES = _SCALE_BYTES + _BLOCK_VALUES
_BLOCK_HALVES = _BLOCK_BYTES // 2
"""Integers of 16 bits in a block, the first of which is the scale."""

_BYTES = types.Array(types.int8, 1, "C", readonly=True)
_HALF_BITS = types.Array(types.int16, 1, "C", readonly=True)
_SINGLES = types.Array(types.float32, 1, "C")


@_compiled(types.void(_HALF_BITS, _SINGLES))
def widen_halves(bits: AnyArray, out: Singles) -> None:
    """Write float16 numbers, given as their bits, in float32."""
    for place in range(len(bits)):
        out[place] = _half_to_single(bits[place])


@_inlined
def _scale_of_block(halves: AnyArray, block: int) -> np.float32:
    """Return the scale of a block of Q8_0, the first of its 17 integers of 16 bits.

    The scale is a float16 number, whose bits are such an integer. It is returned in float32.
    """
    return _half_to_single(halves[_BLOCK_HALVES * block])


@_inlined
def _elements_of_block(stored: AnyArray, block: int) -> AnyArray:
    """Return the 32 elements of a block of Q8_0, which has 34 bytes: two of the scale come first."""
    start = _BLOCK_BYTES * block + _SCALE_BYTES
    return stored[start : start + _BLOCK_VALUES]


@_compiled(types.void(_BYTES, _HALF_BITS, _SINGLES))
def dequantise_q8_0(stored: AnyArray, scales: AnyArray, out: Singles) -> None:
    """Write the elements of blocks of ggml's Q8_0: 32 signed bytes after a scale of two bytes.

    Args:
        stored: The bytes of all blocks, 34 each.
        scales: The same bytes as integers of 16 bits, of which every 17th is a scale.
        out: The array for 32 numbers per block.
    """
    for block in range(len(stored) // _BLOCK_BYTES):
        scale = _scale_of_block(scales, block)
        elements = _elements_of_block(stored, block)
        numbers = out[_BLOCK_VALUES * block : _BLOCK_VALUES * (block + 1)]
        for place in range(_BLOCK_VALUES):
            numbers[place] = np.float32(elements[place]) * scale


_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)
"""The mask of all bits of a float32 number but the sign."""


@_inlined
def _bits_of_largest_error(
    expected: AnyArray, expected_scale: np.float32, stored: AnyArray, stored_scale: np.float32
) -> np.int32:
    """Return the largest |expected element · its scale − stored element · its scale|, as bits.

    The result is a float32 number, given as its bits. Without the sign, the bits of numbers are
    integers in the same order, with those of NaN above those of infinity. The compiler finds the
    largest of several integers at once, but not of floats, among which NaN has no order.

    Args:
        expected: The elements of a block, a signed byte each.
        expected_scale: What they are multiplied by.
        stored: The elements of the other block.
        stored_scale: What they are multiplied by.
    """
    largest_bits = np.int32(0)
    for place in range(_BLOCK_VALUES):
        expected_value = np.float32(expected[place]) * expected_scale
        stored_value = np.float32(stored[place]) * stored_scale
        error = np.float32(expected_value - stored_value)
        absolute_bits = error.view(np.int32) & _ALL_BUT_SIGN
        largest_bits = max(largest_bits, absolute_bits)
    return largest_bits


@_compiled(types.void(_BYTES, _HALF_BITS, _BYTES, _HALF_BITS, types.Array(types.int32, 1, "C")))
def find_largest_q8_0_errors(
    expected_bytes: AnyArray,
    expected_halves: AnyArray,
    stored_bytes: AnyArray,
    stored_halves: AnyArray,
    largest_errors: AnyArray,
) -> None:
    """Write the largest absolute difference in each row of two arrays that are stored in Q8_0.

    Q8_0 is a format of blocks: a float16 scale, and 32 signed bytes that it multiplies. With the
    scale 0.5, the byte −3 is −1.5.

    Results are float32 numbers, written as their bits. Bits have the order of the numbers if none is
    negative: 1.0 is 0x3F800000, and 2.0 is 0x40000000. Integers are faster to compare.

    Args:
        expected_bytes: The bytes of all blocks, 34 each.
        expected_halves: The same memory as integers of 16 bits, 17 per block; the first is the scale.
        stored_bytes: The bytes of the other array.
        stored_halves: The same memory as integers of 16 bits.
        largest_errors: The array for the results, one per row.
    """
    blocks_per_row = len(stored_bytes) // _BLOCK_BYTES // len(largest_errors)
    for row in range(len(largest_errors)):
        bits_of_largest = np.int32(0)  # the number 0.0
        first_block = row * blocks_per_row
        for block in range(first_block, first_block + blocks_per_row):
            bits_of_error = _bits_of_largest_error(
                _elements_of_block(expected_bytes, block),
                _scale_of_block(expected_halves, block),
                _elements_of_block(stored_bytes, block),
                _scale_of_block(stored_halves, block),
            )
            bits_of_largest = max(bits_of_largest, bits_of_error)
        largest_errors[row] = bits_of_largest
