"""Arrays: names for annotations, dtypes, rounding once, and arrays of other libraries.

NumPy has no bfloat16 and no float8; `ml_dtypes` has, and is imported only if one is needed.
"""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.errors import KindError, ParameterError, ResourceError, bracketed, quoted

if TYPE_CHECKING:  # numpy.typing takes 10 ms to import.
    from numpy.typing import ArrayLike as ArrayLike
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[np.generic]
    AnyArray = NDArray[Any]
    ForeignArray = Any  # of torch, JAX or MLX, none of which is imported
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Ints = NDArray[np.uint64]
    Positions = NDArray[np.int64]
    Indices = NDArray[np.intp]
    Flags = NDArray[np.bool_]
    Complex = NDArray[np.complex128]
else:
    ArrayLike = object
    ForeignArray = object
    Array = AnyArray = Floats = Singles = Ints = Positions = Indices = Flags = Complex = object

SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""The dtypes of tables, with their bits of precision, the leading one included."""
FLOATS = (*SIGNIFICAND_BITS, "float8_e4m3fn", "float8_e5m2")
"""The dtypes that encodings are applied to; only .safetensors files hold the last two."""
FLOAT8 = {"float8_e4m3fn": 4, "float8_e5m2": 3, "float8_e4m3fnuz": 4, "float8_e5m2fnuz": 3}
"""The dtypes of eight bits that arrays to compare may have, with their bits of precision."""
COMPLEX = {"complex64": "float32", "complex128": "float64"}
"""Complex dtypes, with the dtypes of their parts."""

BLOCK_ELEMENTS = 1 << 20
"""Elements of a large array that are converted at once, so that there is no second copy of all."""

MAX_REPEATED_BYTES = 1 << 33
"""Bytes of a view that repeats its elements (np.broadcast_to, torch's expand), which copies fill."""

_FROM_ML_DTYPES = frozenset(
    {
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    }
)


# Dtypes and rounding


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the NumPy dtype with a name."""
    if name not in _FROM_ML_DTYPES:
        return np.dtype(name)
    import ml_dtypes

    kind: type[np.generic] = getattr(ml_dtypes, name)
    return np.dtype(kind)


@lru_cache  # NumPy composes the name at every call.
def dtype_name(dtype: "DTypeLike") -> str:
    """Return the name of a dtype, such as "float32"."""
    return str(np.dtype(dtype).name)


def round_to(values: Floats, dtype: str) -> Array:
    """Return float64 values in the named dtype, each rounded once to nearest-even.

    NumPy casts to float32 and float16 in one step. `ml_dtypes` goes through float32, and would
    round 1 + 2**-8 + 2**-40 first to 1 + 2**-8, a tie of bfloat16, and then down to 1:

    >>> float(round_to(np.array([1 + 2**-8 + 2**-40]), "bfloat16")[0])
    1.0078125
    """
    with np.errstate(over="ignore"):
        if dtype in _FROM_ML_DTYPES:
            return _odd_singles(values).astype(numpy_dtype(dtype))
        return values.astype(numpy_dtype(dtype))


_DROPPED_BITS = np.uint64((1 << 29) - 1)
"""The lowest bits of a float64 number, which float32 does not have."""
_MIN_NORMAL_SINGLE = 2.0**-126
_UNDERFLOW = 1.5 * 2.0**-81
"""A number whose ULP is 2**-133, the least bfloat16: adding it rounds to multiples of that."""


def _odd_singles(values: Floats) -> Singles:
    """Return float64 values rounded to odd in float32, from which any narrower dtype rounds right.

    Rounding twice goes wrong if the first rounding makes a tie: 1 + 2**-8 + 2**-40 becomes
    1 + 2**-8 in float32, which is halfway between two numbers of bfloat16. Rounding to odd takes,
    of the two float32 neighbours of a value that float32 does not hold, the one whose last bit is
    1. Ties of narrower dtypes end in 0, so the result is a tie only if the value is one.
    """
    is_small = np.abs(values) < _MIN_NORMAL_SINGLE
    if is_small.any():  # Below 2**-126, float32 has fewer bits than those that are kept below.
        values = values.copy()
        values[is_small] = _rounded_underflow(values[is_small])
    odd_bits = _cut_to_odd(values.view(np.uint64))
    odd_doubles: Floats = odd_bits.view(np.float64)
    return odd_doubles.astype(np.float32)  # exact, because float32 holds all bits that are left


def _cut_to_odd(bits: Ints) -> Ints:
    """Return the bits of float64 numbers without the 29 lowest, the dropped bits.

    The last bit that is kept becomes 1 if any dropped bit is 1. With two kept and two dropped bits
    instead of 35 and 29, the bits 10|01 become 11|00, and 10|00 stay as they are.
    """
    odd = bits & _DROPPED_BITS  # 10|01 → 00|01
    # The largest number that fits into the dropped bits is added: 00|01 + 00|11 = 01|00. The sum
    # reaches the last kept bit unless all dropped bits are 0, and never a higher one.
    odd += _DROPPED_BITS
    odd |= bits  # 01|00 or 10|01 = 11|01
    odd &= ~_DROPPED_BITS  # 11|01 → 11|00
    return odd


def _rounded_underflow(values: Floats) -> Floats:
    """Return values below 2**-126 rounded to multiples of 2**-133, the least number of bfloat16.

    float32 has fewer than 24 bits there, and rounding to odd would need another bit for each power
    of two. Of the narrower dtypes, only bfloat16 has such small numbers, and they are these
    multiples.

    _UNDERFLOW is so large that its ULP is 2**-133: a sum with it is rounded to such a multiple. In
    decimal, with 3 digits: 100 + 2.7 is rounded to 103, and 103 − 100 is 3.
    """
    return np.copysign(np.abs(values) + _UNDERFLOW - _UNDERFLOW, values)


def as_dtype(values: Array, dtype: str) -> Array:
    """Return values in another dtype; one that is narrower rounds once."""
    kind = numpy_dtype(dtype)
    if values.dtype == kind:
        return values
    if dtype in ("float32", "float64"):
        return values.astype(kind)
    return round_to(widened(values), dtype)


def widened(block: Array) -> Floats:
    """Return any numbers as float64."""
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        return block.astype(np.float64)


def row_blocks(shape: Sequence[int]) -> Iterator[slice]:
    """Yield slices of the first axis of an array that have about BLOCK_ELEMENTS elements each.

    >>> [*row_blocks((5, 1 << 19))]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    elements_per_row = max(1, math.prod(shape[1:]))
    step = max(1, BLOCK_ELEMENTS // elements_per_row)
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


def round_in_blocks(values: Array, dtype: str) -> Array:
    """Return numbers in a dtype, each rounded once, without a float64 copy of all of them.

    Args:
        values: The numbers of a text, with one axis or more.
        dtype: The dtype.
    """
    rounded = np.empty(values.shape, numpy_dtype(dtype))
    for rows in row_blocks(values.shape):
        rounded[rows] = round_to(widened(values[rows]), dtype)
    return rounded


def widest(values: Array) -> AnyArray:
    """Return any numbers as float64, or as complex128 if they are complex."""
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        return values.astype(wide)


def holds(dtype: str, values: Floats) -> bool:
    """Return True if a dtype has every one of these values.

    >>> holds("bfloat16", np.array([1.5, 1 + 2**-7]))
    True
    >>> holds("bfloat16", np.array([1 + 2**-8]))
    False
    """
    return np.array_equal(widened(round_to(values, dtype)), values)


CACHE_LINE = 64
"""Bytes. Vector loads that cross a line take twice as long."""
_PAGE = 1 << 12
_PLACE = 1 << 10
"""Bytes from one place of a page to the next."""


def aligned_buffer(count: int, dtype: np.dtype[np.generic] | type, *, place: int = 0) -> AnyArray:
    """Return an uninitialised flat array that begins at a cache line.

    A processor lets a load wait for an earlier store if the last twelve bits of their addresses are
    the same. Large arrays begin at the same place of a page, and loops over several of them take up
    to twice as long as loops over arrays that begin at different places.

    Args:
        count: The number of elements.
        dtype: Their dtype.
        place: The quarter of a page at which it begins, 0 to 3. Arrays that one loop reads and
            writes have different ones.
    """
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + _PAGE, np.uint8)
    start = (place * _PLACE - raw.ctypes.data) % _PAGE
    return raw[start : start + size].view(dtype)


# Differences


def ulps_apart(a: Array, b: Array) -> AnyArray:
    """Return the distance of two arrays in ULPs, element by element; −0 and 0 are the same.

    >>> a = np.array([1, -0.0], np.float16)
    >>> ulps_apart(a, np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    first = _ordinals(a)
    second = _ordinals(b)
    # The difference of two signed numbers may have one bit more, which an unsigned one has.
    unsigned = f"u{a.dtype.itemsize}"
    larger = np.maximum(first, second).view(unsigned)
    smaller = np.minimum(first, second).view(unsigned)
    return np.asarray(larger - smaller)


def _ordinals(a: Array) -> AnyArray:
    """Return the number of floats from zero to each element, negative for negative ones.

    The bits of a positive float, read as an integer, are that number. For a negative float, it is
    the bits without the sign, negated. There is no branch, which random signs would make slow.
    """
    bits = a.astype(a.dtype.newbyteorder("="), copy=False).view(f"i{a.dtype.itemsize}")
    magnitude = bits & np.iinfo(bits.dtype).max
    return np.asarray(magnitude * np.sign(bits))


class AbsoluteErrors(NamedTuple):
    """The comparison of two arrays, element by element.

    Attributes:
        alike: True for elements that are equal, or both NaN.
        errors: The absolute differences.
    """

    alike: AnyArray
    errors: Floats


def absolute_errors(ours: Array, theirs: Array) -> AbsoluteErrors:
    """Return the absolute errors of elements, and which of them are alike: equal, or both NaN.

    Errors of alike elements are 0. Any other error with an infinity or a NaN in it is infinite.
    """
    expected = widest(ours)
    actual = widest(theirs)
    both_nan = np.isnan(expected) & np.isnan(actual)
    alike = np.asarray((expected == actual) | both_nan)
    with np.errstate(invalid="ignore", over="ignore"):
        errors: Floats = np.abs(expected - actual)
    errors[alike] = 0  # The difference ∞ − ∞ is NaN, and so is that of two NaNs.
    errors[np.isnan(errors)] = np.inf
    return AbsoluteErrors(alike, errors)


# Arrays of other libraries


def as_numpy(name: str, values: object) -> AnyArray:
    """Return values of any library as a NumPy array, in their own dtype.

    Args:
        name: The name of the argument, for the error.
        values: A list, or an array of NumPy, torch, JAX or MLX.

    Raises:
        KindError: The values cannot be converted, or some are masked.
    """
    if isinstance(values, np.ndarray):
        _check_mask(name, values)
        _check_repetition(name, values)
        return np.asarray(values)
    if isinstance(values, (list, tuple)):
        return _from_list(name, values)
    try:
        return _foreign_array(values)
    except MemoryError:
        raise
    except Exception as problem:  # Every library raises errors of its own.
        rule = "its values cannot be converted to a NumPy array"
        raise KindError(name, _type_and_dtype(values), rule) from problem


def _type_and_dtype(values: ForeignArray) -> str:
    """Return what an object is, for an error: «a Tensor of dtype float8_e4m3fn»."""
    description = f"a {type(values).__name__}"
    dtype = _dtype_word(values)
    return f"{description} of dtype {dtype}" if dtype else description


def _check_mask(name: str, values: AnyArray) -> None:
    """Raise KindError if some values are masked."""
    # Not isinstance(values, np.ma.MaskedArray): numpy.ma takes time to import.
    if hasattr(values, "mask") and np.any(values.mask):
        advice = "fill them first: x.filled(0)"
        raise KindError(name, "a masked array", "its masked values would be used", advice)


def _check_repetition(name: str, values: AnyArray) -> None:
    """Raise ResourceError for a view that repeats a few elements more often than memory holds."""
    if 0 in values.strides and values.nbytes > MAX_REPEATED_BYTES:
        shape = bracketed(values.shape)
        size = f"{values.nbytes >> 30:,} GiB"
        raise ResourceError(f"{name} repeats its elements to {shape}, {size}; give a part of it")


def _from_list(name: str, values: Sequence[object]) -> AnyArray:
    try:
        return np.asarray(values)
    except ValueError as problem:
        description = "a list of lists of different lengths"
        raise KindError(name, description, "a table has rows of one length") from problem


def numbers(name: str, values: object) -> AnyArray:
    """Return values of any library as a NumPy array of numbers, or raise KindError."""
    array = as_numpy(name, values)
    # bfloat16 has the kind "V" of structured arrays, and is not one of them.
    is_structured = issubclass(array.dtype.type, np.void)
    if array.dtype.kind not in "biufcV" or is_structured or array.dtype.hasobject:
        raise KindError(name, _of_dtype(array), "a table holds numbers")
    return array


def floating(name: str, values: object, dtypes: Sequence[str] = FLOATS[:4]) -> AnyArray:
    """Return values of any library as a NumPy array of one of the dtypes, or raise KindError."""
    array = as_numpy(name, values)
    if dtype_name(array.dtype) in dtypes:
        return array
    rule = f"it must be {', '.join(dtypes[:-1])} or {dtypes[-1]}"
    is_complex = array.dtype.kind == "c"  # A conversion would drop the imaginary parts.
    advice = "" if is_complex else "convert it first, as with x.astype('float32')"
    raise KindError(name, _of_dtype(array), rule, advice)


def _of_dtype(array: AnyArray) -> str:
    """Return the dtype for an error: «of dtype int64», cut if it is long, as of records."""
    quoted_name = quoted(str(array.dtype))
    return f"of dtype {quoted_name[1:-1]}"


def _dtype_word(values: ForeignArray) -> str:
    """Return the name of the dtype of any library's array, or "" if it has none."""
    try:
        return str(values.dtype).rpartition(".")[2]  # torch.bfloat16, mlx.core.bfloat16
    except Exception:
        return ""


def _foreign_array(values: ForeignArray) -> AnyArray:
    """Return an array of another library, such as torch or JAX, as an array of NumPy.

    There are three ways, the fastest and most usual one first.
    """
    if hasattr(values, "detach"):
        values = _torch_on_cpu(values)
    for convert in (np.asarray, np.from_dlpack):
        with suppress(TypeError, ValueError, RuntimeError, BufferError, AttributeError):
            array: AnyArray = convert(values)
            # For a dtype that NumPy lacks, this may be an array of Python objects.
            has_lost_dtype = array.dtype.kind == "O" and hasattr(values, "dtype")
            if not has_lost_dtype:
                return array
    # NumPy has no bfloat16, so that both have failed. float32 holds all of its values.
    singles = np.asarray(_as_singles(values))
    return singles.astype(numpy_dtype(_dtype_word(values)))


def _torch_on_cpu(values: ForeignArray) -> ForeignArray:
    """Return a torch tensor without its graph, in memory that NumPy can read."""
    values = values.detach().cpu()
    if hasattr(values, "resolve_neg"):  # A lazy conjugate or negation is not yet in memory.
        values = values.resolve_conj().resolve_neg()
    return values


def _as_singles(values: ForeignArray) -> ForeignArray:
    """Return an array of another library in its own float32."""
    if hasattr(values, "float"):  # torch
        return values.float()
    home = sys.modules.get(type(values).__module__)
    if home is not None and hasattr(home, "float32"):  # MLX has dtypes of its own.
        return values.astype(home.float32)
    return values.astype(np.float32)


def like(sample: object, array: AnyArray) -> ForeignArray:
    """Return a NumPy array as an array of the library of `sample`.

    For torch it is on the same device; a library other than torch, JAX and MLX gets NumPy's. A
    library that has made the sample is imported already, and importing others would take long.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(sample, torch.Tensor):
        return _as_torch(torch, array).to(sample.device)
    library = type(sample).__module__.partition(".")[0]
    if library in ("jax", "jaxlib"):
        return sys.modules["jax"].numpy.asarray(array)
    if library == "mlx":
        return _as_mlx(array)
    return array


def _as_torch(torch: ModuleType, array: AnyArray) -> ForeignArray:
    name = dtype_name(array.dtype)
    if name in _FROM_ML_DTYPES:  # torch reads only NumPy's own dtypes.
        array = array.view(f"i{array.itemsize}")
    return torch.from_numpy(array).view(getattr(torch, name))


def _as_mlx(array: AnyArray) -> ForeignArray:
    core = sys.modules["mlx.core"]
    name = dtype_name(array.dtype)
    if name == "bfloat16":  # MLX reads only NumPy's own dtypes.
        array = array.astype(np.float32)
    return core.array(array).astype(getattr(core, name))


# Ranges

_INTEGER = "-?[0-9]{1,18}"
_RANGE = f"({_INTEGER})|({_INTEGER})?:({_INTEGER})?"


def indices(name: str, text: str, count: int) -> range:
    """Return the rows or columns, out of `count`, that `3`, `0:8`, `-4:` or `:` means.

    >>> indices("rows", "-2:", 10), indices("rows", "-2", 10)
    (range(8, 10), range(8, 9))
    """
    match = re.fullmatch(_RANGE, text.strip())
    if not match:
        rule = "it must be a number or a range, such as 0:8, -4: or :"
        raise ParameterError(name, repr(text), rule)
    single, start, stop = match.groups()
    if single is None:
        return range(count)[slice(_integer(start), _integer(stop))]
    try:
        index = range(count)[int(single)]  # A negative number counts from the end.
    except IndexError:
        raise ParameterError(name, text, f"there are {count}") from None
    return range(index, index + 1)


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)
