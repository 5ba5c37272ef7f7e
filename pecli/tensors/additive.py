"""Encodings that are added: rows of a table to sequences, biases to attention scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from threading import Lock

import numpy as np

from pecli.engine.application import MAX_CACHED_BYTES
from pecli.engine.arrays import Array, Floats, round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.tensors.inputs import Input, check_floating, check_sequence

_TILE = 1 << 15
"""Numbers added at once, so that the float64 copies stay in the cache."""

Addends = Callable[[int, int], "Floats"]
"""`addends(first, count)`: what is added to rows first, first + 1, … of the tensor, in float64."""


def added(table: Table, addends: Addends) -> Table:
    """The tensor with a number added to each element: the sum in float64, rounded once."""
    step = max(1, _TILE // max(1, table.width))

    def fill(start: int, out: Array) -> None:
        table.fill(start, out)
        for row in range(0, len(out), step):
            rows = out[row : row + step]
            with np.errstate(invalid="ignore", over="ignore"):  # infinities, and what is too large for the dtype
                rows[...] = round_to(widened(rows) + addends(start + row, len(rows)), table.dtype)

    return replace(table, fill=fill)


class Rows:
    """Rows `first` … `first + count − 1` of a table in float64, repeated without end; cached where they are small."""

    def __init__(self, table: Table, first: int, count: int) -> None:
        self._table, self._first, self.count = table, first, count
        self._lock = Lock()

    def cycle(self, start: int, count: int) -> Floats:
        """Rows start, start + 1, … of endless repetitions."""
        if self.count * self._table.width * 8 <= MAX_CACHED_BYTES:
            with self._lock:
                kept = self._kept
            start %= self.count
            return kept[start : start + count] if start + count <= self.count else kept[self._indices(start, count)]
        pieces = []
        while count:
            row = start % self.count
            many = min(count, self.count - row)
            pieces.append(self._read(row, row + many))
            start, count = start + many, count - many
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _indices(self, start: int, count: int) -> np.ndarray:
        return np.arange(start, start + count) % self.count

    @cached_property
    def _kept(self) -> Floats:
        return self._read(0, self.count)

    def _read(self, start: int, stop: int) -> Floats:
        return widened(self._table.read(self._first + start, self._first + stop))


def scheme_rows(scheme: Scheme) -> Rows:
    """The rows of a scheme's table, for all tensors that they are added to."""
    table = scheme.in_dtype("float64").single_array()
    return Rows(table, 0, table.rows)


def add_rows(each: Input, rows: Rows) -> Table:
    """x (…, L, D) plus L rows of as many channels."""
    check_sequence(each)
    return added(each.table, rows.cycle)


def add_learned(each: Input, weight: Input, offset: int) -> Table:
    """x (…, L, D) plus rows offset … offset + L − 1 of a table (rows, D)."""
    length, dim = check_sequence(each)
    check_floating(weight)
    shape = weight.table.shape
    if len(shape) != 2:
        raise weight.wrong("a table must be (rows, D)")
    if dim != shape[1]:
        raise each.wrong(f"{weight.label} is of shape {shape}", "they must share D, the last axis")
    if offset + length > shape[0]:
        rule = f"with {each.label} of shape {each.table.shape} it asks for rows up to {offset + length} of {shape[0]}"
        raise ParameterError("offset", offset, rule, "take a longer table, or resize it")
    return added(each.table, Rows(weight.table, offset, length).cycle)


def check_scores(each: Input, heads: int | None) -> tuple[int, int, int]:
    """H, Lq and Lk of attention scores (…, H, Lq, Lk)."""
    check_floating(each)
    shape = each.table.shape
    if len(shape) < 3:
        raise each.wrong("scores must be (…, H, Lq, Lk)", "queries and keys are the last two axes")
    found, queries, keys = shape[-3:]
    if heads not in (None, found):
        raise each.wrong(f"`heads` is {heads}, and H is {found}", "H is the axis before the last two")
    if queries > keys:
        raise each.wrong(f"Lq = {queries} is more than Lk = {keys}", "queries have the last positions of the keys")
    return found, queries, keys


def add_alibi(each: Input, scheme: Alibi) -> Table:
    """Scores (…, H, Lq, Lk) plus the biases; the queries are the last Lq of the Lk positions."""
    heads, queries, keys = check_scores(each, scheme.heads)
    scheme = replace(scheme, dtype="float64")
    slopes = np.array(scheme.slope_values())
    positions = np.arange(keys, dtype=np.float64)

    def addends(first: int, count: int) -> Floats:
        rows = np.arange(first, first + count)
        head, query = rows // queries % heads, (rows % queries + keys - queries).astype(np.float64)
        if scheme.form.startswith("key"):
            distances = np.broadcast_to(positions - (keys - 1 if scheme.form == "key-last" else 0), (count, keys))
        else:
            distances = -np.abs(positions - query[:, None])
        bias: Floats = distances * slopes[head, None]
        if scheme.compute_dtype != "float64":
            bias = widened(round_to(bias, scheme.compute_dtype))
        if scheme.form == "causal":
            bias[positions > query[:, None]] = -np.inf
        return bias

    return added(each.table, addends)
