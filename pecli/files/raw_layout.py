"""The dtype and the shape of raw files, which have no header that states them."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import NamedTuple

from pecli.engine.arguments import text_of
from pecli.errors import ParameterError, nearest, quoted

Shape = tuple[int, ...]

DTYPE_NAMES = {
    "float64": ("f64", "fp64", "double"),
    "float32": ("f32", "fp32", "float", "single", "f4"),
    "float16": ("f16", "fp16", "half", "f2"),
    "bfloat16": ("bf16", "bfloat"),
    "float8_e4m3fn": ("f8_e4m3", "f8_e4m3fn", "fp8_e4m3", "e4m3", "float8_e4m3"),
    "float8_e5m2": ("f8_e5m2", "fp8_e5m2", "e5m2"),
    "int64": ("i64", "long"),
    "int32": ("i32", "i4", "int"),
    "int16": ("i16", "i2", "short"),
    "int8": ("i8", "i1", "char"),
    "uint64": ("u64",),
    "uint32": ("u32", "u4"),
    "uint16": ("u16", "u2"),
    "uint8": ("u8", "u1", "byte"),
    "bool": (),
    "complex64": ("c64",),
    "complex128": ("c128",),
}
"""The dtypes of raw files, with the names that C, Rust, NumPy and torch have for them.

Names with two meanings are missing: `f8` has 8 bytes in NumPy and 8 bits elsewhere.
"""
_NUMPY_CODES = {"f8": "float64", "i8": "int64", "u8": "uint64", "c8": "complex64"}
"""Codes that are NumPy's, in bytes, if a sign of the byte order precedes them: `>f8`."""
_SHORT_NAMES = "f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64 … i8, u64 … u8, or >f4 for big-endian"
FLAT: Shape = (-1,)
_LENGTH = re.compile(r"-1|[0-9]{1,18}")


class RawLayout(NamedTuple):
    """The elements of a raw file.

    Attributes:
        shape: the lengths of the axes; one of them may be -1, for as many as there are.
        dtype: the name of the dtype; None if only the shape is stated, for numbers in text.
        big_endian: whether the most significant byte of an element comes first.
    """

    shape: Shape
    dtype: str | None
    big_endian: bool = False

    @property
    def is_flat(self) -> bool:
        """True if no shape is stated."""
        return self.shape in (FLAT, NO_LAYOUT.shape)

    def filled_in(self, count: int) -> Shape:
        """Return the shape with the length that -1 stands for, if it is to have `count` elements.

        No length may fit: (-1, 7) becomes (3, 7) for 21 elements, and for 24.
        """
        stated_lengths = [length for length in self.shape if length != -1]
        open_length = count // math.prod(stated_lengths)
        filled = list(self.shape)
        if -1 in filled:
            filled[filled.index(-1)] = open_length
        return tuple(filled)


NO_LAYOUT = RawLayout(shape=(), dtype=None)
"""The layout if neither a shape nor a dtype is stated: no file is taken for a raw one."""
_layout: ContextVar[RawLayout] = ContextVar("raw_layout", default=NO_LAYOUT)


def current_layout() -> RawLayout:
    """Return the layout of raw files, as `raw_files` set it; NO_LAYOUT if nothing states it."""
    return _layout.get()


@contextmanager
def raw_files(layout: RawLayout) -> Iterator[None]:
    """Read files that no other format claims as raw files of a layout, inside the block.

    A layout applies to every raw file of a command, and commands read files at many places;
    therefore it belongs to the context, as the precision of `decimal` does. NO_LAYOUT leaves the
    layout of a block around this one in force.
    """
    token = _layout.set(_layout.get() if layout == NO_LAYOUT else layout)
    try:
        yield
    finally:
        _layout.reset(token)


def parse_layout(shape: str | Sequence[int] | None, raw_dtype: str | None) -> RawLayout:
    """Return the layout that the values of `shape` and `raw_dtype` state; NO_LAYOUT without both.

    Without a shape, all elements are one vector. Without a dtype, only text is read in that shape.

    >>> parse_layout("2,-1,64", ">f4")
    RawLayout(shape=(2, -1, 64), dtype='float32', big_endian=True)

    Raises:
        ParameterError: one of them is wrong.
    """
    layout = NO_LAYOUT
    if raw_dtype is not None:
        raw_dtype = text_of("raw_dtype", raw_dtype)
        dtype = _parse_dtype(raw_dtype)
        layout = RawLayout(shape=FLAT, dtype=dtype, big_endian=raw_dtype.startswith(">"))
    if shape is not None:
        layout = layout._replace(shape=_parse_shape(shape))
    return layout


def layout_options(layout: RawLayout) -> list[str]:
    """Return the options that state a layout.

    >>> layout_options(RawLayout((4, -1, 64), "float32", big_endian=True))
    ['--shape', '4,-1,64', '--raw-dtype', '>float32']
    """
    options: list[str] = []
    if not layout.is_flat:
        options += ["--shape", spelled(layout.shape)]
    if layout.dtype is not None:
        byte_order = ">" if layout.big_endian else ""
        options += ["--raw-dtype", byte_order + layout.dtype]
    return options


def missing_dtype_error() -> ParameterError:
    """Return the error for a raw file of which only the shape is stated."""
    rule = "raw files do not state their dtype"
    return ParameterError("raw_dtype", "missing", rule, f"give {_SHORT_NAMES}")


def spelled(shape: Shape) -> str:
    """Return a shape as options have it.

    >>> spelled((4, -1, 64))
    '4,-1,64'
    """
    return ",".join(map(str, shape))


def _parse_shape(shape: object) -> Shape:
    """Return the shape of `--shape 2,8,-1,128`, or of a list; one length may be -1, «the rest»."""
    sides = _spelled_sides(shape)
    if sides and all(map(_LENGTH.fullmatch, sides)):
        lengths = tuple(map(int, sides))
        if 0 not in lengths and lengths.count(-1) <= 1:
            return lengths
    rule = "it must be lengths from 1 on with commas between them, one of which may be -1"
    raise ParameterError("shape", quoted(shape), rule, "for example 2,8,24,128")


def _spelled_sides(shape: object) -> list[str]:
    """Return the items of a shape as texts; none if it is neither a text nor a list."""
    if isinstance(shape, str):
        return [word.strip() for word in shape.strip("()[] ").split(",")]
    if isinstance(shape, (list, tuple)):
        return [str(side) for side in shape]
    return []


def _parse_dtype(text: str) -> str:
    """Return the dtype of `--raw-dtype`, in any usual spelling: f16, half, torch.float16, <f2.

    NumPy's codes count bytes and need their mark of the byte order: `<f8` is float64. A bare f8 is
    refused, because it may also mean a float of 8 bits.
    """
    spelling = text.lower().removeprefix("torch.").removeprefix("np.")
    name = spelling.lstrip("<>=")  # The byte order is read from `text` elsewhere.
    has_byte_order = name != spelling
    if has_byte_order and name in _NUMPY_CODES:
        return _NUMPY_CODES[name]
    for dtype, aliases in DTYPE_NAMES.items():
        if name in (dtype, *aliases):
            return dtype
    raise _unknown_dtype(text, name)


def _unknown_dtype(text: str, name: str) -> ParameterError:
    """Return the error for a dtype that does not exist, or whose name has two meanings."""
    if name == "f8":
        rule = "NumPy's f8 has 8 bytes, and a float8 has 8 bits"
        return ParameterError("raw_dtype", quoted(text), rule, "give f64, f8_e4m3 or f8_e5m2")
    all_names = [*DTYPE_NAMES, *chain(*DTYPE_NAMES.values())]
    rule = f"it must be one of {_SHORT_NAMES}"
    return ParameterError("raw_dtype", quoted(text), rule, nearest(name, all_names))
