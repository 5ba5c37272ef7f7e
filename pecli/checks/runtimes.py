"""What runtimes compute for a model: as it is defined, or where they depart from that, by how much, and why. What they
read otherwise is compared exactly with the definition; what float32 arithmetic adds is listed separately."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from pecli.checks import Answer, plain, plain_fields
from pecli.checks.audit import Audit, measure
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.arrays import Array, Floats, Positions, widened
from pecli.engine.runtimes import EMULATED, RUNTIMES, runtime_named
from pecli.engine.schemes import Choice, Whole
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import ByPosition
from pecli.errors import NoScalingError, ParameterError, UnsupportedError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model

DENSE_POSITIONS = 8192  #: positions that are all compared, from the first on
PER_DOUBLING = 256  #: positions that are compared beyond those, each time the position doubles
DEFAULT_LENGTH = 4096  #: of a model without max_position_embeddings
LENGTH = Whole(help="a served context", high=LAST_POSITION)
NAME = Choice(help="a runtime", options=tuple(RUNTIMES))


@dataclass(frozen=True)
class RuntimeResult:
    """What one runtime makes of one encoding."""

    runtime: str
    version: str
    lacks: str = ""  #: why the runtime has no such table at all
    causes: tuple[str, ...] = ()  #: what it reads otherwise than the model defines it
    notes: tuple[str, ...] = ()
    short_prompts: str = ""  #: what prompts get that are much shorter than the context
    rows: int | None = None  #: how many positions it has, where they end before the context does
    departure: float = 0.0  #: the largest error that comes of the causes
    first_beyond: int | None = None  #: the first position where that exceeds the tolerance
    pairs: tuple[int, int] | None = None  #: the first and the last pair for which it does
    max_abs_error: float = 0.0  #: the largest error of what it computes, float32 included
    curve: tuple[Floats, Floats] | None = None  #: positions, and the largest errors around them
    no_scaling: bool = (
        False  #: True if it lacks the table because it does not implement the scaling
    )

    @property
    def departs(self) -> bool:
        """Whether it is off by more than the tolerance, or lacks something."""
        return (
            bool(self.lacks or self.short_prompts)
            or self.rows is not None
            or self.first_beyond is not None
        )

    def as_json(self) -> dict[str, Any]:
        return {
            **plain_fields(
                self, "runtime", "version", "departs", "causes", "notes", "departure", "pairs"
            ),
            "max_abs_error": None if self.lacks else plain(self.max_abs_error),
            "lacks": self.lacks or None,
            "positions": self.rows,
            "first_beyond_tolerance": self.first_beyond,
        }


@dataclass(frozen=True, repr=False)
class RuntimeComparison(Answer):
    """The runtimes for every kind of layer of a model, served at a context of `length` positions."""

    model: str
    length: int
    tolerance: float
    layers: Mapping[str, tuple[RuntimeResult, ...]]

    @property
    def passed(self) -> bool:
        return not any(result.departs for results in self.layers.values() for result in results)

    agree = passed  #: whether no runtime departs by more than the tolerance

    def words(self) -> tuple[str, ...]:
        departing = dict.fromkeys(
            each.runtime for results in self.layers.values() for each in results if each.departs
        )
        return self.model, f"length {self.length:,}", ", ".join(departing)

    def as_json(self) -> dict[str, Any]:
        layers = [
            {"layer_type": name, "runtimes": plain(results)}
            for name, results in self.layers.items()
        ]
        return {**plain_fields(self, "model", "length", "tolerance", "agree"), "layers": layers}


def runtimes(
    model: Model,
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
    ropes = rotary_layers(
        found, layer_type, "it has no rotary table, and runtimes are described for that alone"
    )
    served = LENGTH.check("length", (found.context or DEFAULT_LENGTH) if length is None else length)
    limit = ERROR.check("tolerance", tolerance)
    chosen = [NAME.check("names", name) for name in names]
    layers = {
        each.layer_type: tuple(_result(each, name, served, found, limit) for name in chosen)
        for each in ropes
    }
    return RuntimeComparison(found.file, served, limit, layers)


def rotary_layers(found: ModelEncodings, layer_type: str | None, rule: str) -> list[Encoding]:
    """The encodings of a model, or of some of its layers, that are rotary tables; an error with that rule for none."""
    every = (found.one(layer_type),) if layer_type is not None else found.ropes()
    encodings = [each for each in every if each.is_rotary and not each.no_table]
    if not encodings:
        raise ParameterError("model", found.file, rule)
    return encodings


def _result(
    encoding: Encoding, name: str, length: int, model: ModelEncodings, tolerance: float
) -> RuntimeResult:
    runtime, context, own = runtime_named(name), model.context, encoding.parameters
    more = (
        {"max_position_embeddings": own.get("max_position_embeddings", context)}
        if own["scaling"] == "yarn"
        else {}
    )
    try:
        rope = encoding.rope(1, length=length, runtime=name, **more)
    except UnsupportedError as lacking:
        no_scaling = isinstance(lacking, NoScalingError)
        return RuntimeResult(name, runtime.version, lacking.rule, no_scaling=no_scaling)
    defined, reading = encoding.rope(1, length=length), rope.runtime_reading
    causes = (*filter(None, [runtime.adapted(encoding)[1]]), *reading.causes)
    ends = reading.rows
    if ends is None and runtime.limits_to_context and context is not None:
        ends = int(context * (rope.factor or 1)) if rope.scaling == "linear" else context
    notes, short = reading.notes, reading.short_prompts
    if runtime.text_only and encoding.sections.mrope_section is not None:
        notes += ("as defined for text; no M-RoPE for images",)
    original = encoding.parameters.get("original_max_position_embeddings") or length
    if runtime.ignores_prompt and rope.scaling == "longrope" and length > original:
        short = f"prompts of up to {original:,} tokens get the long factors, too; the model has the short ones for them"
        short *= encoding.parameters["short_factor"] != encoding.parameters["long_factor"]
    count, departs = min(length, ends or length), bool(causes)
    rope = (
        rope if departs or name in EMULATED else replace(rope, runtime="transformers")
    )  # which computes the same
    measured = _measured(defined, rope, count, departs, tolerance)
    computed = measured.drifts[0]
    rows = ends if count < length else None
    notes += (short,) if short else ()
    result = RuntimeResult(
        name, runtime.version, causes=causes, notes=notes, short_prompts=short, rows=rows
    )
    result = replace(result, max_abs_error=computed.max_abs_error, curve=measured.curve(computed))
    if not departs:
        return result
    departure = measured.drifts[1]
    pairs = np.flatnonzero(departure.by_frequency > tolerance).tolist()
    first = departure.first_beyond
    if first is not None:  # or one of the positions that were skipped just before it
        places, _ = _exact(defined, count)
        between = np.arange(
            places[max(int(np.searchsorted(places, first)) - 1, 0)], first + 1, dtype=np.int64
        )
        read, expected = (
            widened(_rows(each, between).read(0, len(between)))
            for each in (rope.as_read(), defined)
        )
        first = int(between[np.argmax(np.abs(read - expected).max(axis=1) > tolerance)])
    limits = (pairs[0], pairs[-1]) if pairs else None
    return replace(result, departure=departure.max_abs_error, first_beyond=first, pairs=limits)


@lru_cache(maxsize=8)
def _measured(defined: Rope, rope: Rope, count: int, departs: bool, tolerance: float) -> Audit:
    """The errors of what is computed, and where it departs of what is read, against what is defined."""
    places, exact = _exact(defined, count)
    tables = {"computed": rope, **({"read": rope.as_read()} if departs else {})}
    return measure(
        rope,
        exact,
        {name: _rows(table, places) for name, table in tables.items()},
        tolerance,
        places,
    )


@lru_cache(maxsize=1)
def _exact(defined: Rope, count: int) -> tuple[Positions, ByPosition]:
    """The first positions, some of the others, and the last, with the exact rows that runtimes are compared with."""
    near = np.arange(min(count, DENSE_POSITIONS), dtype=np.int64)
    doublings = max(0.0, np.log2(count / DENSE_POSITIONS))
    far = DENSE_POSITIONS * 2.0 ** (np.arange(1, np.ceil(doublings * PER_DOUBLING)) / PER_DOUBLING)
    places = np.unique(np.concatenate([near, far.astype(np.int64), [count - 1]]))
    rows = _rows(defined, places)
    exact = rows.read(0, len(places))
    return places, replace(rows, read=lambda start, stop: exact[start:stop])


def _rows(rope: Rope, places: Positions) -> ByPosition:
    frequencies, parts = list(rope.angular_frequencies()), ("cos", "sin")
    groups = np.tile(np.arange(len(frequencies)), len(parts))

    def read(start: int, stop: int) -> Array:
        tables = rope.at(places[start:stop])
        return np.concatenate([tables[part] for part in parts], axis=1)

    return ByPosition(0, len(places), "frequencies", frequencies, groups, read)
