"""What runtimes compute for a model: as it is defined, or where they depart from that, by how much, and why.

A departure is what a runtime reads otherwise, compared exactly with the definition; what float32 arithmetic adds to it
is listed separately.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks import Answer
from pecli.checks.audit import measure
from pecli.checks.tolerance import DRIFT, ERROR
from pecli.engine.arrays import Array, Floats, Positions, widened
from pecli.engine.runtimes import RUNTIMES, runtime_named
from pecli.engine.schemes import Choice, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.table import ByPosition
from pecli.errors import ParameterError, UnsupportedError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import find_model

if TYPE_CHECKING:
    from pecli.engine.schemes.rope import Rope

DENSE_POSITIONS = 8192
"""Positions that are all compared, from the first on."""
PER_DOUBLING = 256
"""Positions that are compared beyond those, each time the position doubles."""
DEFAULT_LENGTH = 4096
"""Of a model without max_position_embeddings."""
LENGTH = Whole(help="a served context", high=LAST_POSITION)
NAME = Choice(help="a runtime", options=tuple(RUNTIMES))


@dataclass(frozen=True)
class RuntimeResult:
    """What one runtime makes of one encoding."""

    runtime: str
    version: str
    lacks: str = ""
    """Why the runtime has no such table at all."""
    causes: tuple[str, ...] = ()
    """What it reads otherwise than the model defines it."""
    notes: tuple[str, ...] = ()
    rows: int | None = None
    """How many positions it has, where they end before the context does."""
    departure: float = 0.0
    """The largest error that comes of the causes."""
    first_beyond: int | None = None
    """The first position where that exceeds the tolerance."""
    pairs: tuple[int, int] | None = None
    """The first and the last pair for which it does."""
    max_abs_error: float = 0.0
    """The largest error of what it computes, float32 included."""
    worst_position: int = 0
    curve: tuple[Floats, Floats] | None = None
    """Positions, and the largest errors around them."""

    @property
    def departs(self) -> bool:
        """Whether it is off by more than the tolerance, or lacks something."""
        return bool(self.lacks) or self.rows is not None or self.first_beyond is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "runtime": self.runtime,
            "version": self.version,
            "departs": self.departs,
            "lacks": self.lacks or None,
            "causes": list(self.causes),
            "notes": list(self.notes),
            "positions": self.rows,
            "departure": self.departure,
            "first_beyond_tolerance": self.first_beyond,
            "pairs": None if self.pairs is None else list(self.pairs),
            "max_abs_error": None if self.lacks else self.max_abs_error,
            "worst_position": None if self.lacks else self.worst_position,
        }


@dataclass(frozen=True, repr=False)
class RuntimeComparison(Answer):
    """The runtimes for every kind of layer of a model, served at a context of `length` positions."""

    model: str
    length: int
    tolerance: float
    layers: Mapping[str, tuple[RuntimeResult, ...]]

    @property
    def agree(self) -> bool:
        """Whether no runtime departs by more than the tolerance."""
        return not any(result.departs for results in self.layers.values() for result in results)

    @property
    def passed(self) -> bool:
        return self.agree

    def words(self) -> tuple[str, ...]:
        departing = dict.fromkeys(each.runtime for results in self.layers.values() for each in results if each.departs)
        return self.model, f"length {self.length:,}", ", ".join(departing)

    def as_json(self) -> dict[str, Any]:
        layers = [
            {"layer_type": name, "runtimes": [result.as_json() for result in results]}
            for name, results in self.layers.items()
        ]
        return {
            "model": self.model,
            "length": self.length,
            "tolerance": self.tolerance,
            "agree": self.agree,
            "layers": layers,
        }


def runtimes(
    model: ModelEncodings | Encoding | Mapping[str, Any] | str | os.PathLike[str] | Any,
    length: int | None = None,
    *,
    layer_type: str | None = None,
    names: Sequence[str] = tuple(RUNTIMES),
    tolerance: float = DRIFT,
) -> RuntimeComparison:
    """What each runtime computes for a model that it serves with a context of `length` positions (by default the
    longest that the model takes): as defined, or where it departs, by how much, and why.

    >>> import pecli
    >>> found = pecli.runtimes("gpt-oss-20b", 4096, names=["llama.cpp"]).layers[""][0]
    >>> found.causes
    ("rounds YaRN's limits to 8 and 18; the config says truncate: false",)
    """
    found = find_model(None, model)
    every = (found.one(layer_type),) if layer_type is not None else found.ropes()
    encodings = [each for each in every if each.is_rotary and not each.no_table]
    if not encodings:
        rule = "it has no rotary table, and runtimes are described for that alone"
        raise ParameterError("model", found.file, rule)
    context = found.context
    served = LENGTH.check("length", (context or DEFAULT_LENGTH) if length is None else length)
    limit = ERROR.check("tolerance", tolerance)
    chosen = [NAME.check("names", name) for name in names]
    layers = {
        each.layer_type: tuple(_result(each, name, served, context, limit) for name in chosen) for each in encodings
    }
    return RuntimeComparison(found.file, served, limit, layers)


def _result(encoding: Encoding, name: str, length: int, context: int | None, tolerance: float) -> RuntimeResult:
    runtime = runtime_named(name)
    try:
        rope = encoding.rope(1, length=length, runtime=name)
    except UnsupportedError as lacking:
        return RuntimeResult(name, runtime.version, lacks=lacking.rule)
    reading = rope.runtime_reading
    ends = reading.rows
    if ends is None and runtime.limits_to_context and context is not None:
        ends = int(context * (rope.factor or 1)) if rope.scaling == "linear" else context
    count = min(length, ends or length)
    defined = rope.computed_as("exact")
    tables = {"computed": rope, **({"read": rope.as_read()} if reading.causes else {})}
    places, exact = _exact(defined, count)
    measured = measure(rope, exact, {each: _rows(table, places) for each, table in tables.items()}, tolerance, places)
    computed = measured.drifts[0]
    departure = measured.drifts[-1] if reading.causes else None
    pairs = [] if departure is None else np.flatnonzero(departure.by_frequency > tolerance).tolist()
    first = None if departure is None else departure.first_beyond
    return RuntimeResult(
        name,
        runtime.version,
        causes=reading.causes,
        notes=reading.notes,
        rows=ends if ends is not None and ends < length else None,
        departure=0.0 if departure is None else departure.max_abs_error,
        first_beyond=None if first is None else _first_beyond(tables["read"], defined, places, first, tolerance),
        pairs=(pairs[0], pairs[-1]) if pairs else None,
        max_abs_error=computed.max_abs_error,
        worst_position=computed.worst.position if computed.worst else 0,
        curve=measured.curve(computed),
    )


@lru_cache(maxsize=1)
def _exact(defined: Rope, count: int) -> tuple[Positions, ByPosition]:
    """The first positions and some of the others, with the last, and the exact rows there, which every runtime is
    compared with.
    """
    near = np.arange(min(count, DENSE_POSITIONS), dtype=np.int64)
    doublings = max(0.0, np.log2(count / DENSE_POSITIONS))
    far = DENSE_POSITIONS * 2.0 ** (np.arange(1, int(doublings * PER_DOUBLING) + 1) / PER_DOUBLING)
    places = np.unique(np.concatenate([near, far.astype(np.int64), [count - 1]]))
    rows = _rows(defined, places)
    exact = rows.read(0, len(places))
    return places, replace(rows, read=lambda start, stop: exact[start:stop])


def _rows(rope: Rope, places: Positions) -> ByPosition:
    """Cosines and sines at these positions, by pair."""
    pairs = np.arange(len(rope.angular_frequencies()))

    def read(start: int, stop: int) -> Array:
        found = rope.at(places[start:stop])
        return np.concatenate([found["cos"], found["sin"]], axis=1)

    names = ("cos",) * len(pairs) + ("sin",) * len(pairs)
    frequencies = list(rope.angular_frequencies())
    return ByPosition(0, len(places), "frequencies", frequencies, np.concatenate([pairs, pairs]), names, read)


def _first_beyond(read: Rope, defined: Rope, places: Positions, beyond: int, tolerance: float) -> int:
    """The first position beyond the tolerance, the ones that were skipped just before it included."""
    row = int(np.searchsorted(places, beyond))
    between = np.arange(places[max(row - 1, 0)], beyond + 1, dtype=np.int64)
    found, expected = (_rows(rope, between).read(0, len(between)) for rope in (read, defined))
    errors = np.abs(widened(found) - widened(expected)).max(axis=1)
    return int(between[np.argmax(errors > tolerance)])
