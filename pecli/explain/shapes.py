"""Tables whose shape is not the expected one: transposed, repeated, of other lengths, widths or layouts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.edits import Edit, Layout, Parameter, Repeated, Transposed
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import named_tensors
from pecli.errors import ParameterError
from pecli.explain.known_mistakes import neighbours

LAYOUTS = ("compact", "halves", "interleaved")


@dataclass(frozen=True)
class Shaped:
    """Tensors as matrices (rows, columns), the scheme whose shapes they have, and the edits that this takes."""

    scheme: Positioned
    tensors: Mapping[str, Array]
    edits: tuple[Edit, ...] = ()
    exponent_dim: int | None = None  # if it is not that of the scheme

    @property
    def shape(self) -> tuple[int, ...]:
        return next(iter(self.tensors.values())).shape


def shaped(scheme: Positioned, tensors: Mapping[str, Array]) -> Iterator[Shaped]:
    """Yield the ways in which tensors of one shape can be tables of a scheme, those with fewer edits first.

    If a table (8, 64) is expected, an array (64, 8) may be its transpose, (16, 64) a longer table, (8, 32)
    one column per pair instead of two, and (2, 8, 64) two copies of it.
    """
    given = Shaped(scheme, tensors)
    if any(np.iscomplexobj(array) for array in tensors.values()):
        return
    if len(given.shape) == 1:
        given = replace(given, tensors={name: array[None] for name, array in tensors.items()})
    if len(given.shape) == 2:
        yield from resized(given)
        if given.shape[0] > 1 and _may_be_transposed(given):
            yield from resized(transposed(given))
    copies = repeated(given)
    if copies is not None:
        yield from resized(copies)


def _may_be_transposed(given: Shaped) -> bool:
    """Return True unless the tensors have the expected shape: then only a square one may be transposed."""
    rows, columns = given.shape
    return rows == columns or expected_shape(given) != given.shape


def expected_shape(given: Shaped) -> tuple[int, int] | None:
    """Return the rows and columns of the scheme's first tensor; None if it has no tensor of that name."""
    name = next(iter(given.tensors))
    table = named_tensors(given.scheme).get(name)
    if table is None:
        return None
    rows, columns = (1, *table.shape)[-2:]
    return rows, columns


def transposed(given: Shaped) -> Shaped:
    """Return tensors with their two axes exchanged."""
    tensors = {name: array.T for name, array in given.tensors.items()}
    return Shaped(given.scheme, tensors, (*given.edits, Transposed((1, 0))))


def repeated(given: Shaped) -> Shaped | None:
    """Return one of several equal copies along the first axis; None if they are not copies."""
    if len(given.shape) != 3:
        return None
    for array in given.tensors.values():
        if not all(np.array_equal(array[0], copy, equal_nan=True) for copy in array[1:]):
            return None
    tensors = {name: array[0] for name, array in given.tensors.items()}
    edits = (*given.edits, Repeated(0, given.shape[0])) if given.shape[0] > 1 else given.edits
    return Shaped(given.scheme, tensors, edits)


def resized(given: Shaped) -> Iterator[Shaped]:
    """Yield the scheme with parameters that give it the rows and columns of the tensors.

    Other rows are another length, or a known mistake in placing them if positions were given one by one.
    Other columns are another layout, or another dim.
    """
    expected = expected_shape(given)
    if expected is None:
        return
    rows, width = expected
    found_rows, found_width = given.shape
    if found_rows != rows:
        if not given.scheme.is_range:
            yield from _neighbours_of_shape(given)
            return
        given = _with_length(given, found_rows)
    if found_width == width:
        yield given
        return
    yield from _in_another_layout(given)
    yield from _with_another_dim(given)


def _with_length(given: Shaped, rows: int) -> Shaped:
    """Return tensors with a scheme of another length; with the expected one if no scheme has that length."""
    longer = next(_changed(given.scheme, seq_len=rows), given.scheme)
    edit = Parameter("seq_len", given.scheme.seq_len, rows)
    return replace(given, scheme=longer, edits=(*given.edits, edit))


def _in_another_layout(given: Shaped) -> Iterator[Shaped]:
    """Yield a rotary scheme in each other layout that has the columns of the tensors."""
    name = next(iter(given.tensors))
    expected = given.scheme.value_of("layout")
    for other in _layouts_of_width(given.scheme, name, given.shape[1]):
        moved = Layout(expected, other.value_of("layout"))
        yield replace(given, scheme=other, edits=(*given.edits, moved))


@singledispatch
def _layouts_of_width(scheme: Positioned, name: str, width: int) -> Iterator[Positioned]:
    """Yield the scheme in each other layout whose tables have so many columns; only rotary ones have any."""
    yield from ()


@_layouts_of_width.register
def _(scheme: Rope, name: str, width: int) -> Iterator[Positioned]:
    if name == "inv_freq":
        return
    for layout in LAYOUTS:
        columns = scheme.rotary_dim // 2 if layout == "compact" else scheme.rotary_dim
        if layout != scheme.layout and columns == width:
            yield from _changed(scheme, layout=layout)


def _with_another_dim(given: Shaped) -> Iterator[Shaped]:
    """Yield the scheme with the dim of the tensors; the exponents may still have the expected dim."""
    name = next(iter(given.tensors))
    dim = _dim_of(given.scheme)
    for other in _of_width(given.scheme, name, given.shape[1]):
        edits = (*given.edits, Parameter("dim", dim, other.dim))
        yield replace(given, scheme=other, edits=edits)
        kept = Parameter("exponent_dim", dim, "same")
        yield replace(given, scheme=other, edits=(*edits, kept), exponent_dim=dim)


@singledispatch
def _dim_of(scheme: Positioned) -> int:
    """Return the channels that a scheme encodes: of a rotary one, those that rotate."""
    return scheme.dim


@_dim_of.register
def _(scheme: Rope) -> int:
    return scheme.rotary_dim


def _neighbours_of_shape(given: Shaped) -> Iterator[Shaped]:
    """Yield known mistakes in placing rows that have as many rows as the tensors."""
    name = next(iter(given.tensors))
    for neighbour in neighbours(given.scheme):
        table = named_tensors(neighbour.scheme).get(name)
        if table is not None and table.shape == given.shape:
            assert isinstance(neighbour.scheme, Positioned)
            yield replace(given, scheme=neighbour.scheme, edits=(*given.edits, *neighbour.edits))


@singledispatch
def _of_width(scheme: Positioned, name: str, width: int) -> Iterator[Positioned]:
    """Yield a scheme with another dim, so that its tensor of some name has so many columns."""
    yield from _changed(scheme, dim=width)


@_of_width.register
def _(scheme: Rope, name: str, width: int) -> Iterator[Positioned]:
    """Yield a rotary scheme with another dim, in its own layout and in the compact one.

    Tables of dim 64 have 64 columns in halves or interleaved, and 32 in the compact layout, as `inv_freq`
    has: 48 columns are a dim of 48, or a dim of 96 in the compact layout.
    """
    if scheme.scaling != "proportional":
        # All columns of the table rotate; Phi-2's spec has 0.4 of the 80 channels of a head.
        scheme = replace(scheme, partial_rotary_factor=None)
    if scheme.layout != "compact" and name != "inv_freq":
        yield from _changed(scheme, dim=width)
    yield from _changed(scheme, dim=2 * width, layout="compact")


AnyPositioned = TypeVar("AnyPositioned", bound=Positioned)


def _changed(scheme: AnyPositioned, **changes: Any) -> Iterator[AnyPositioned]:
    """Yield the scheme with other parameters; nothing if it refuses them."""
    try:
        yield replace(scheme, **changes)
    except ParameterError:
        return
