"""Arrays: names for annotations, dtypes, one rounding from one dtype to another, arrays of other libraries as NumPy's.

NumPy has no bfloat16 of its own; `ml_dtypes` lends it one and is imported only when a bfloat16 array is made.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.errors import KindError, ParameterError, quoted

if TYPE_CHECKING:  # numpy.typing takes its time to import
    from numpy.typing import ArrayLike as ArrayLike
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[np.generic]
    AnyArray = NDArray[Any]
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Ints = NDArray[np.uint64]
    Positions = NDArray[np.int64]
    Indices = NDArray[np.intp]
    Flags = NDArray[np.bool_]
    Complex = NDArray[np.complex128]
else:
    ArrayLike = Array = AnyArray = Floats = Singles = Ints = Positions = Indices = Flags = (
        Complex
    ) = object

SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""The dtypes by name, with their bits of precision, the leading one included."""
FLOATS = (*SIGNIFICAND_BITS, "float8_e4m3fn", "float8_e5m2")
"""What encodings are applied to; the last two lie in .safetensors files alone."""
COMPLEX = {
    "complex64": "float32",
    "complex128": "float64",
}  #: complex dtypes, and those of their parts

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


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy dtype of that name."""
    if name not in _FROM_ML_DTYPES:
        return np.dtype(name)
    import ml_dtypes

    kind: type[np.generic] = getattr(ml_dtypes, name)
    return np.dtype(kind)


def dtype_name(dtype: "DTypeLike") -> str:
    """The name under which pecli speaks of a NumPy dtype."""
    return str(np.dtype(dtype).name)


def round_to(values: Floats, dtype: str) -> Array:
    """float64 values in the named dtype, each rounded once.

    >>> float(round_to(np.array([1 + 2**-8 + 2**-40]), "bfloat16")[0])
    1.0078125
    """
    with np.errstate(over="ignore"):
        return (_odd_singles(values) if dtype in _FROM_ML_DTYPES else values).astype(
            numpy_dtype(dtype)
        )


_DROPPED = np.uint64((1 << 29) - 1)  #: the bits of a float64 that float32 does not have
_UNDERFLOW = (
    1.5 * 2.0**-81
)  #: what this is added to is rounded to a multiple of 2**-133, the least bfloat16


def _odd_singles(values: Floats) -> Singles:
    """float32 values, rounded to odd: another rounding, to fewer bits, cannot mistake them for a tie. Where float32 has
    fewer bits, the values are rounded for bfloat16, the only one of these dtypes that has any there."""
    if (small := np.abs(values) < 2.0**-126).any():
        values = values.copy()
        values[small] = np.copysign(np.abs(values[small]) + _UNDERFLOW - _UNDERFLOW, values[small])
    bits = values.view(np.uint64)
    odd = (bits & _DROPPED) + _DROPPED
    odd |= bits
    odd &= ~_DROPPED
    return odd.view(np.float64).astype(np.float32)


def widened(block: Array) -> Floats:
    """Any numbers as float64, signalling NaNs included, about which NumPy would warn."""
    with np.errstate(invalid="ignore"):
        return block.astype(np.float64)


def ulps_apart(a: Array, b: Array) -> AnyArray:
    """The distance of two arrays in floats of their dtype, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    first, second = _ordinals(a), _ordinals(b)
    unsigned = f"u{a.dtype.itemsize}"  # the difference has one bit more than its signed parts
    return np.asarray(
        np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned)
    )


def _ordinals(a: Array) -> AnyArray:
    """Floats numbered from zero, negative below; without branches, which random signs would make slow."""
    bits = a.astype(a.dtype.newbyteorder("="), copy=False).view(f"i{a.dtype.itemsize}")
    below = bits >> (8 * a.dtype.itemsize - 1)  # −1 where negative, or else 0
    return np.asarray(((bits & np.iinfo(bits.dtype).max) ^ below) - below)


def widest(values: Array) -> AnyArray:
    """Numbers as float64, or as complex128."""
    with np.errstate(invalid="ignore"):  # as above
        return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def absolute_errors(ours: Array, theirs: Array) -> tuple[AnyArray, Floats]:
    """Which elements are alike, and absolute errors: infinite where only one side is finite, or is a number."""
    expected, found = widest(ours), widest(theirs)
    alike = np.asarray(
        (expected == found) | (np.isnan(expected) & np.isnan(found))
    )  # one NaN is as good as another
    with np.errstate(invalid="ignore", over="ignore"):
        error: Floats = np.abs(expected - found)
    error[alike] = 0
    error[np.isnan(error)] = np.inf
    return alike, error


def holds(dtype: str, values: Floats) -> bool:
    """Whether a dtype has every one of these values.

    >>> holds("bfloat16", np.array([1.5, 1 + 2**-7])), holds("bfloat16", np.array([1 + 2**-8]))
    (True, False)
    """
    return np.array_equal(widened(round_to(values, dtype)), values)


def as_dtype(values: Array, dtype: str) -> Array:
    """Values in another dtype, wider or narrower; a narrower one rounds."""
    kind = numpy_dtype(dtype)
    if values.dtype == kind:
        return values
    return (
        values.astype(kind) if dtype in ("float32", "float64") else round_to(widened(values), dtype)
    )


CACHE_LINE = 64  #: Bytes. Vector loads that cross a line take twice as long.


def aligned_buffer(count: int, dtype: np.dtype[Any] | type) -> AnyArray:
    """An uninitialised flat array that begins at a cache line."""
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype)


def as_numpy(name: str, values: Any) -> AnyArray:
    """Values of any library (lists, NumPy, torch, JAX, MLX) as a NumPy array, in their own dtype, or a KindError."""
    mask = (
        getattr(values, "mask", None) if isinstance(values, np.ndarray) else None
    )  # numpy.ma takes time to import
    if mask is not None and np.any(mask):
        raise KindError(
            name, "a masked array", "its hidden values would count", "fill them first: x.filled(0)"
        )
    if isinstance(values, (list, tuple)):
        try:
            return np.asarray(values)
        except ValueError as problem:
            raise KindError(
                name, "a list of lists of unlike lengths", "a table has rows of one length"
            ) from problem
    try:
        return np.asarray(values) if isinstance(values, np.ndarray) else _foreign_array(values)
    except MemoryError:
        raise
    except Exception as problem:
        dtype = f" of dtype {kind}" if (kind := _dtype_word(values)) else ""
        rule = "its values cannot be had as a NumPy array"
        raise KindError(name, f"a {type(values).__name__}{dtype}", rule) from problem


def numbers(name: str, values: Any) -> AnyArray:
    """The same, unless they are no numbers."""
    array = as_numpy(name, values)
    if (
        array.dtype.kind not in "biufcV"
        or issubclass(array.dtype.type, np.void)
        or array.dtype.hasobject
    ):
        raise KindError(name, f"of dtype {quoted(str(array.dtype))[1:-1]}", "a table holds numbers")
    return array


def floating(name: str, values: Any, dtypes: Sequence[str] = FLOATS[:4]) -> AnyArray:
    """The same, unless they are of no floating dtype."""
    array = as_numpy(name, values)
    if dtype_name(array.dtype) not in dtypes:
        rule = f"it must be {', '.join(dtypes[:-1])} or {dtypes[-1]}"
        advice = f"convert it first, as with {name}.astype('float32')"
        is_castable = name.isidentifier() and array.dtype.kind != "c"
        raise KindError(
            name, f"of dtype {quoted(str(array.dtype))[1:-1]}", rule, advice * is_castable
        )
    return array


def _dtype_word(values: Any) -> str:
    try:
        return str(values.dtype).rpartition(".")[2]
    except Exception:
        return ""


def _foreign_array(values: Any) -> AnyArray:
    """bfloat16, which few hand over, by way of float32."""
    if hasattr(
        values, "detach"
    ):  # torch: not in a graph, and not on a device that NumPy cannot reach
        values = values.detach().cpu()
        if hasattr(values, "resolve_neg"):  # views by a sign alone, which memory does not show
            values = values.resolve_conj().resolve_neg()
    for convert in (np.asarray, np.from_dlpack):
        try:
            array: AnyArray = convert(values)
        except (TypeError, ValueError, RuntimeError, BufferError, AttributeError):
            continue
        if array.dtype.kind != "O" or not hasattr(values, "dtype"):
            return array
    home = sys.modules.get(type(values).__module__)  # MLX has dtypes of its own
    singles = (
        values.float()
        if hasattr(values, "float")
        else values.astype(getattr(home, "float32", np.float32))
    )
    return np.asarray(singles).astype(numpy_dtype(_dtype_word(values)))


def like(given: Any, array: AnyArray) -> Any:
    """An array as the library of `given` has it: torch (on the same device), JAX or MLX; else NumPy's, as it is."""
    name, library = dtype_name(array.dtype), type(given).__module__.partition(".")[0]
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        bits = array.view(f"i{array.itemsize}") if name in _FROM_ML_DTYPES else array
        return torch.from_numpy(bits).view(getattr(torch, name)).to(given.device)
    if library in ("jax", "jaxlib"):
        return sys.modules["jax"].numpy.asarray(array)
    if library == "mlx":
        core: Any = sys.modules["mlx.core"]
        return core.array(array.astype(np.float32) if name == "bfloat16" else array).astype(
            getattr(core, name)
        )
    return array


def indices(name: str, text: str, count: int) -> range:
    """The rows or columns that `3`, `0:8`, `-4:` or `:` stand for, of `count`.

    >>> indices("rows", "-2:", 10)
    range(8, 10)
    """
    match = re.fullmatch(r"(-?[0-9]{1,18})|(-?[0-9]{1,18})?:(-?[0-9]{1,18})?", text.strip())
    if not match:
        raise ParameterError(
            name, repr(text), "it must be a number or a range, such as 0:8, -4: or :"
        )
    if match[1] is not None:
        place = int(match[1]) + (count if int(match[1]) < 0 else 0)
        if not 0 <= place < count:
            raise ParameterError(name, text, f"there are {count}")
        return range(place, place + 1)
    start, stop = (None if each is None else int(each) for each in match.groups()[1:])
    return range(count)[slice(start, stop)]
