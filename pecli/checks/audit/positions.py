"""A scheme's numbers as rows by position, whichever scheme it is: what an audit runs over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme


@dataclass(frozen=True)
class ByPosition:
    """`read(start, stop)` gives rows, the first of them at the position `first`; a column belongs to a frequency, or
    to a head.
    """

    first: int
    count: int
    kind: str
    """What the columns go by: frequencies or slopes."""
    values: list[float]
    """Those frequencies or slopes."""
    groups: Indices
    """Which of them each column belongs to."""
    names: tuple[str, ...]
    """What each column is: sin, cos, bias."""
    read: Callable[[int, int], Array]


def by_position(scheme: Scheme) -> ByPosition:
    """The numbers of a scheme by position; ParameterError where they have none that could be computed otherwise."""
    if isinstance(scheme, Rope):
        return _of_rope(scheme)
    if isinstance(scheme, Sinusoidal):
        return _of_sinusoidal(scheme)
    if isinstance(scheme, Alibi):
        return _of_alibi(scheme)
    raise ParameterError("the scheme", repr(scheme.name), "it has no recipes: its numbers are drawn, not computed")


def _of_rope(rope: Rope) -> ByPosition:
    """Columns of cos and sin in turns; the layouts only repeat them."""
    filler, moving = rope.filler(), rope.rotating_pairs

    def read(start: int, stop: int) -> Array:
        out = np.empty((stop - start, 2 * moving), numpy_dtype(rope.dtype))
        filler.fill("cos,sin", rope.offset + start, out, rope.dtype)
        return out

    values = replace(rope, recipe="exact").inverse_frequencies()[:moving]
    groups = np.arange(2 * moving) // 2
    return ByPosition(rope.offset, rope.seq_len, "frequencies", values, groups, ("cos", "sin") * moving, read)


def _of_sinusoidal(scheme: Sinusoidal) -> ByPosition:
    """All columns but the zeros that pad an odd dim."""
    (table,) = scheme.tensors()
    values = scheme.inverse_frequencies()
    if not values:
        raise ParameterError("dim", scheme.dim, "in halves, that leaves no frequency at all")
    columns = np.arange(scheme.dim - (scheme.layout == "halves" and scheme.dim % 2))
    pair = ("cos", "sin") if scheme.cos_first else ("sin", "cos")
    if scheme.layout == "interleaved":
        groups, second = columns // 2, columns % 2
    else:
        second, groups = np.divmod(columns, len(values))
    names = tuple(pair[k] for k in second)

    def read(start: int, stop: int) -> Array:
        return table.read(start, stop)[:, : len(columns)]

    return ByPosition(scheme.offset, scheme.seq_len, "frequencies", values, groups, names, read)


def _of_alibi(scheme: Alibi) -> ByPosition:
    """Distances stand for positions: the bias of a matrix depends on nothing else."""
    if scheme.seq_len is None:
        raise ParameterError("seq_len", "missing", "an audit runs over distances", "say how far")
    slopes = replace(scheme, slopes=True, recipe="exact", dtype="float64").tables()["slopes"]
    values = [float(slope) for slope in slopes]

    def read(start: int, stop: int) -> Array:
        return scheme.at(start, stop - start)

    return ByPosition(0, scheme.seq_len, "slopes", values, np.arange(scheme.heads), ("bias",) * scheme.heads, read)
