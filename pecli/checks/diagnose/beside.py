"""All of a table beside all of the one that it should be, where both are small enough to be looked at whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pecli.checks.diagnose.precision import places
from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table

_WHOLE = 1 << 22
"""Elements of a table that is looked at whole."""


@dataclass(frozen=True)
class Beside:
    """Rows as they should be and rows as they are, of as many columns."""

    own: Floats
    raw: Array
    """The rows that were found, in their own dtype."""
    offset: int | None
    """The position of the first row; None where rows are no positions of waves."""
    layout: str
    """Words about columns that are laid out otherwise."""

    @property
    def found(self) -> Floats:
        return widened(self.raw)

    @property
    def dtype(self) -> str:
        return str(self.raw.dtype.name)

    @property
    def height(self) -> float:
        """The largest size of a right value."""
        return float(np.abs(self.own[np.isfinite(self.own)]).max(initial=0.0))

    def allowed(self) -> Floats:
        """What elements may be off by where angles are computed in float32, and powers."""
        rows = np.zeros(len(self.own)) if self.offset is None else self.offset + np.arange(len(self.own), dtype=float)
        size = np.where(np.isfinite(self.own), np.abs(self.own), 0.0)
        return np.asarray(2.0**-22 * (size + self.height * (rows[:, None] + (self.offset is not None))))


def beside(scheme: Scheme, name: str, table: Table) -> Iterator[Beside]:
    """The table beside its own scheme's, in each layout that has as many columns; nothing where it is too large."""
    sizes = tuple(size for size in table.shape if size != 1)
    if not 1 < table.size <= _WHOLE or table.dtype.startswith("complex") or table.width < 2:
        return
    for own, words in _own(scheme, name):
        alike = tuple(size for size in own.shape if size != 1)
        rows_differ = len(alike) == len(sizes) == 2 and alike[1] == sizes[1] and not isinstance(scheme, LearnedInit)
        if (alike == sizes or rows_differ) and own.size <= _WHOLE and own.width == table.width:
            offset = scheme.offset if isinstance(scheme, (Rope, Sinusoidal)) and name != "inv_freq" else None
            yield Beside(widened(own.read(0, own.rows)), table.read(0, table.rows), offset, words)


def _own(scheme: Scheme, name: str) -> Iterator[tuple[Table, str]]:
    """The tensor of that name, as finely as it can be had; of rotary schemes in every layout, the own one first."""
    layouts = [getattr(scheme, "layout", "")]
    if isinstance(scheme, Rope):
        layouts += [each for each in ("compact", "halves", "interleaved") if each != scheme.layout]
    for layout in layouts:
        changes = {"layout": layout} if layout else {}
        changes |= {"dtype": "float64"} if places(getattr(scheme, "dtype", "float32")) >= places("float32") else {}
        other = replace(scheme, **changes)
        told = f"; and the layout is {layout} (the spec says {layouts[0]})" if layout != layouts[0] else ""
        yield from ((each, told) for each in other.tensors() if each.name == name)
