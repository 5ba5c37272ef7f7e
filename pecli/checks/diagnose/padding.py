"""Rows of zeros in sinusoidal tables: the one of padding_idx, and others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pecli.checks.diagnose.causes import Cause
from pecli.checks.diagnose.readings import WaveReading
from pecli.engine.arrays import Indices
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal


class Padding:
    """Which rows of a reading are zeros, and which should be."""

    def __init__(self, scheme: Rope | Sinusoidal, reading: WaveReading) -> None:
        zero = np.zeros(len(reading.rows), bool)
        self._index: int | None = None
        if isinstance(scheme, Sinusoidal) and len(reading.parts) == 2:  # no angle has both sine and cosine zero
            zero = ~np.any([part.any(axis=1) for part in reading.parts], axis=0)
            self._index = None if scheme.padding_idx is None else scheme.padding_idx - scheme.offset
        self._rows = {int(row) for row in reading.rows}
        self._zeros = [int(row) for row in reading.rows[zero]]
        self.others: Indices = np.flatnonzero(~zero)

    def causes(self, shift: int) -> Iterator[Cause]:
        """What is wrong about the zeros where positions are shifted."""
        wanted = None if self._index is None else self._index - shift
        if wanted in self._rows and wanted not in self._zeros:
            yield Cause("the row of padding_idx is not zeros")
        rest = [row for row in self._zeros if row != wanted]
        if rest:
            between = [row for row in self._rows if rest[0] <= row <= rest[-1]]
            several = f"rows {rest[0]} … {rest[-1]}" if len(between) == len(rest) else f"rows {rest[0]}, {rest[1]} …"
            yield Cause(f"row {rest[0]} is zeros" if len(rest) == 1 else f"{several} are zeros")
