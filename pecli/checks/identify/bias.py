"""Reading a tensor as an ALiBi bias, or as slopes: for every head, values that should be its slope times a distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify.intervals import spacing
from pecli.engine.arrays import Floats, Indices

if TYPE_CHECKING:
    from pecli.checks.identify.beginning import Beginning


_MASKED = -1e3
"""A constant below this above the diagonal is a mask, not a bias."""


@dataclass(frozen=True)
class SlopeReading:
    """One way to see slopes in a tensor: `values[h, k]` = slope of head h · `distances[k]`, all above zero."""

    values: Floats
    distances: Floats
    heads: int
    """How many the tensor has; a cut sample shows fewer."""
    length: int | None = None
    form: str = ""
    """As `Alibi.form`; nothing for slopes alone."""
    words: str = ""
    """What is not as pecli would write it."""

    def slopes(self) -> Floats:
        return np.asarray(self.values[:, -1] / self.distances[-1])

    def proportional(self, dtype: str) -> bool:
        """Whether the values are slopes times distances, whatever the slopes."""
        slopes = np.median(self.values / self.distances, axis=1, keepdims=True)
        off = np.abs(self.values - slopes * self.distances)
        return self.values.shape[1] > 2 and bool(np.all(off <= 4 * spacing(self.values, dtype)))


def readings(sample: Beginning) -> Iterator[SlopeReading]:
    """Every way to read the tensor that its shape and signs allow."""
    shape = sample.shape
    if not sample.array.size or sample.array.dtype.kind == "c":
        return
    for reading in _by_shape(sample.array.astype(np.float64), shape):
        signed = _upright(reading)
        if signed is not None:
            own = _own_shape(signed)
            words = [signed.words, "" if shape == own else f"of shape {' × '.join(map(str, shape))}"]
            yield replace(signed, words=", ".join(filter(None, words)))


def _by_shape(array: Floats, shape: tuple[int, ...]) -> Iterator[SlopeReading]:
    long = [size for size in shape if size > 1]
    if len(long) <= 1 and (len(shape) < 2 or shape[-1] == 1 or math.prod(shape[:-1]) == 1):
        yield SlopeReading(array.reshape(-1, 1), np.ones(1), math.prod(shape))
    if len(shape) < 2:
        return
    length, queries = shape[-1], shape[-2]
    if length > 1 and (len(shape) == 2) == (queries > 1):
        count = math.prod(shape[:-1])
        yield from _keys(array.reshape(-1, array.shape[-1]), count, length)
    if length > 1 and queries == length:
        yield from _squares(array.reshape(-1, *array.shape[-2:]), math.prod(shape[:-2]), length)
    elif length > 1 and queries > 1 and len(shape) > 2 and np.array_equal(array[..., :1, :], array[..., -1:, :]):
        rows = array.reshape(-1, *array.shape[-2:])
        if (rows == rows[:, :1]).all():
            for reading in _keys(rows[:, 0], math.prod(shape[:-2]), length):
                yield replace(reading, words="the row repeated for every query")


def _keys(rows: Floats, heads: int, length: int) -> Iterator[SlopeReading]:
    """One row a head: the slope times the key's place, counted from the first or from the last key."""
    if not np.isfinite(rows).all():
        return
    places = np.arange(rows.shape[1], dtype=np.float64)
    if not rows[:, 0].any():
        yield SlopeReading(rows[:, 1:], places[1:], heads, length, "key")
    away = length - 1 - places
    if away[-1] or not rows[:, -1].any():
        yield SlopeReading(-rows[:, away > 0], away[away > 0], heads, length, "key-last")


def _squares(blocks: Floats, heads: int, length: int) -> Iterator[SlopeReading]:
    """A row a query and a column a key: minus the slope times how far back the key lies."""
    queries, keys = blocks.shape[1:]
    back = np.arange(queries)[:, None] - np.arange(keys)
    if blocks[:, back == 0].any() or not np.isfinite(blocks[:, back > 0]).all() or not (back > 0).any():
        return
    above, words = _above(blocks, back)
    if above:
        yield SlopeReading(-blocks[:, back > 0], back[back > 0].astype(np.float64), heads, length, above, words)


def _above(blocks: Floats, back: Indices) -> tuple[str, str]:
    """The form that the part above the diagonal makes it, and in words what differs from pecli's; or nothing."""
    future = blocks[:, back < 0]
    first = float(future.flat[0])
    if (future == first).all() and (first == 0 or first < min(_MASKED, float(blocks[:, back > 0].min()))):
        return "causal", "" if first == -math.inf else f"{first:g} above the diagonal, not −inf"
    side = min(blocks.shape[1:])
    square = blocks[:, :side, :side]
    if np.array_equal(square, square.transpose(0, 2, 1)):
        return "symmetric", ""
    if np.array_equal(square, -square.transpose(0, 2, 1)):
        return "causal", "slope times (key − query) above the diagonal too, not −inf"
    return "", ""


def _upright(reading: SlopeReading) -> SlopeReading | None:
    """With values above zero, turned round if need be; None where signs are mixed."""
    values = reading.values
    if not values.any() or values.shape[1] == 0:
        return None
    if (values >= 0).all():
        return reading
    if (values <= 0).all():
        return replace(reading, values=-values, words=", ".join(filter(None, [reading.words, "the sign turned round"])))
    return None


def _own_shape(reading: SlopeReading) -> tuple[int, ...]:
    """The shape in which pecli writes what was read."""
    if not reading.form or reading.length is None:
        return (reading.heads,)
    return (reading.heads, 1 if reading.form.startswith("key") else reading.length, reading.length)
