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
from pecli.explain.known_mistakes import mistaken_schemes

LAYOUTS = ("compact", "halves", "interleaved")


@dataclass(frozen=True)
class SchemeTables:
    """Tensors that may be tables of a scheme, and the edits that say how they differ from the expected ones.

    An array (64, 8), where a table (8, 64) is expected, may be its transpose (8, 64) with the edit
    «transposed», or a table of 64 rows and a dim of 8, of a scheme with these parameters.
    """

    scheme: Positioned
    tensors: Mapping[str, Array]
    edits: tuple[Edit, ...] = ()
    exponent_dim: int | None = None  # if it is not that of the scheme

    @property
    def name(self) -> str:
        """The scheme's name for the first tensor, such as «cos»."""
        return next(iter(self.tensors))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensors[self.name].shape

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def columns(self) -> int:
        return self.shape[1]

    @property
    def expected_shape(self) -> tuple[int, int]:
        """The rows and columns that the first tensor should have; a vector has one row."""
        table = named_tensors(self.scheme)[self.name]
        rows, columns = (1, *table.shape)[-2:]
        return rows, columns


def fit_shapes(scheme: Positioned, tensors: Mapping[str, Array]) -> Iterator[SchemeTables]:
    """Yield the ways in which tensors of one shape can be tables of a scheme, those with fewer edits first.

    If a table (8, 64) is expected, an array (64, 8) may be its transpose, (16, 64) a longer table, (8, 32)
    one column per pair instead of two, and (2, 8, 64) two copies of it. Nothing is yielded for tensors
    that the scheme does not have, such as «cos» of a sinusoidal one.
    """
    tables = SchemeTables(scheme, tensors)
    if tables.name not in named_tensors(scheme):
        return
    for matrices in _as_matrices(tables):
        yield from _with_scheme_of_their_shape(matrices)


def _as_matrices(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield tensors as matrices (rows, columns): as they are, and transposed if they may be.

    A vector is a matrix of one row. Tensors of three axes, such as (2, 8, 64), are matrices if they hold
    one several times. Others are none.
    """
    match len(tables.shape):
        case 1:
            rows = {name: array[None] for name, array in tables.tensors.items()}
            yield replace(tables, tensors=rows)
        case 2:
            yield tables
            if tables.rows > 1 and _may_be_transposed(tables):
                yield _transposed(tables)
        case 3:
            if all(map(_are_copies, tables.tensors.values())):
                yield _first_copies(tables)


def _may_be_transposed(tables: SchemeTables) -> bool:
    """Return True unless the tensors have the expected shape: then only a square one may be transposed."""
    rows, columns = tables.shape
    return rows == columns or tables.expected_shape != tables.shape


def _transposed(tables: SchemeTables) -> SchemeTables:
    """Return tensors with their two axes exchanged."""
    tensors = {name: array.T for name, array in tables.tensors.items()}
    return SchemeTables(tables.scheme, tensors, (*tables.edits, Transposed((1, 0))))


def _are_copies(array: Array) -> bool:
    """Return True if all matrices along the first axis of an array equal the first one."""
    return np.array_equal(np.broadcast_to(array[:1], array.shape), array, equal_nan=True)


def _first_copies(tables: SchemeTables) -> SchemeTables:
    """Return the first of the equal matrices in tensors of three axes, with the edit that counts them.

    (2, 8, 64) becomes (8, 64), «repeated 2× along axis 0».
    """
    first_copies = {name: array[0] for name, array in tables.tensors.items()}
    edits = tables.edits
    times = tables.shape[0]
    if times > 1:  # A first axis of length 1 goes without saying.
        edits = (*edits, Repeated(axis=0, times=times))
    return SchemeTables(tables.scheme, first_copies, edits)


def _with_scheme_of_their_shape(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield matrices with the scheme changed so that its tables have their rows and columns.

    If 64 rows of 32 columns are expected, 128 rows are a length of 128, or a known mistake in placing
    them if positions are listed. 16 columns are another layout, or another dim.
    """
    for with_rows in _with_rows_of_tensors(tables):
        yield from _with_columns_of_tensors(with_rows)


def _with_rows_of_tensors(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield tensors with a scheme that has as many rows as they have.

    - If 64 rows are expected and there are 64, it is the scheme as it is.
    - If 64 are expected at positions 0 … 63 and there are 128, it is the scheme of length 128.
    - If rows are expected at certain positions, such as those of a grid, a scheme has no parameter
      for their number: a known mistake in placing them may explain another one.
    """
    expected_rows, _ = tables.expected_shape
    is_range = tables.scheme.is_range  # True if rows are at consecutive positions.
    if tables.rows == expected_rows:
        yield tables
    elif is_range:
        yield from _with_another_length(tables)
    else:
        yield from _with_misplaced_rows(tables)


def _with_another_length(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield a scheme of consecutive positions with the length of the tensors, if it may be so long."""
    edit = Parameter("seq_len", tables.scheme.seq_len, tables.rows)
    for scheme in _changed(tables.scheme, seq_len=tables.rows):
        yield replace(tables, scheme=scheme, edits=(*tables.edits, edit))


def _with_columns_of_tensors(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield the scheme with as many columns as the tensors have: as it is, or in another layout or dim.

    A scheme of 64 columns is compared with 32 columns in the compact layout, or with a dim of 32.
    """
    _, expected_columns = tables.expected_shape
    if tables.columns == expected_columns:
        yield tables
        # If half of a head rotates, a compact table of the whole head has the same width.
        yield from _with_all_channels(tables)
        return
    yield from _in_another_layout(tables)
    yield from _with_another_dim(tables)


def _in_another_layout(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield a rotary scheme in each other layout that has the columns of the tensors."""
    expected = tables.scheme.value_of("layout")
    for other in _layouts_of_width(tables.scheme, tables.name, tables.columns):
        edit = Layout(expected, other.value_of("layout"))
        yield replace(tables, scheme=other, edits=(*tables.edits, edit))


@singledispatch
def _layouts_of_width(scheme: Positioned, name: str, width: int) -> Iterator[Positioned]:
    """Yield the scheme in each other layout whose tables have so many columns; only rotary ones have any."""
    yield from ()


@_layouts_of_width.register
def _rotary_layouts_of_width(scheme: Rope, name: str, width: int) -> Iterator[Positioned]:
    """Yield a rotary scheme in each other layout of so many columns: compact has half of the others' columns."""
    for layout in LAYOUTS:
        for other in _changed(scheme, layout=layout):
            columns = named_tensors(other)[name].shape[-1]
            if layout != scheme.layout and columns == width:
                yield other


def _with_another_dim(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield the scheme with the dim of the tensors; the exponents may still have the expected dim.

    With 48 columns where 64 are expected, pair i has the frequency base^(−2i/48), or still base^(−2i/64).
    """
    dim = _dim_of(tables.scheme)
    same_exponents = Parameter("exponent_dim", dim, "same")
    for other in _of_width(tables.scheme, tables.name, tables.columns):
        edits = (*tables.edits, Parameter("dim", dim, other.dim))
        yield replace(tables, scheme=other, edits=edits)
        yield replace(tables, scheme=other, edits=(*edits, same_exponents), exponent_dim=dim)


def _with_all_channels(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield the scheme that rotates all channels of the head, if its table has the same columns.

    If 32 of 64 channels rotate, 32 columns are those of 16 frequencies, each twice. They may also be
    the 32 frequencies of all channels, once.
    """
    head_dim = tables.scheme.dim
    expected_dim = _dim_of(tables.scheme)
    for other in _of_width(tables.scheme, tables.name, tables.columns):
        if other.dim == head_dim != expected_dim:
            edit = Parameter("dim", expected_dim, head_dim)
            yield replace(tables, scheme=other, edits=(*tables.edits, edit))


@singledispatch
def _dim_of(scheme: Positioned) -> int:
    """Return the channels that a scheme encodes: of a rotary one, those that rotate."""
    return scheme.dim


@_dim_of.register
def _rotary_dim_of(scheme: Rope) -> int:
    return scheme.rotary_dim


def _with_misplaced_rows(tables: SchemeTables) -> Iterator[SchemeTables]:
    """Yield known mistakes in placing rows that have as many rows as the tensors."""
    for mistaken in mistaken_schemes(tables.scheme):
        if named_tensors(mistaken.scheme)[tables.name].shape == tables.shape:
            assert isinstance(mistaken.scheme, Positioned)
            yield replace(tables, scheme=mistaken.scheme, edits=(*tables.edits, *mistaken.edits))


@singledispatch
def _of_width(scheme: Positioned, name: str, width: int) -> Iterator[Positioned]:
    """Yield a scheme with another dim, so that its tensor of some name has so many columns."""
    yield from _changed(scheme, dim=width)


@_of_width.register
def _rope_of_width(scheme: Rope, name: str, width: int) -> Iterator[Positioned]:
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
