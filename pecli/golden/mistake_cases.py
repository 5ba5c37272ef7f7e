"""Known mistakes of ports: tables that a check must reject, each with the reason it must name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from pecli.engine.arrays import AnyArray as Array
from pecli.engine.arrays import round_to, widened
from pecli.engine.edits import edit_of
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme

TEXT = "a known mistake: this must be rejected, for this reason"

Tables = tuple[Array, Array]  #: cosines and sines


class MistakenTable(NamedTuple):
    """A mistake in how right tables were stored."""

    edit: JsonObject  #: the reason, as in the JSON of `verify`
    change: Callable[[Array, Array], Tables]


def _to_bfloat16(table: Array) -> Array:
    return widened(round_to(table, "bfloat16"))


MISTAKEN_TABLES = {
    "swapped": MistakenTable({"edit": "swapped"}, lambda cos, sin: (sin, cos)),
    "sin-negated": MistakenTable({"edit": "negated", "which": "sin"}, lambda cos, sin: (cos, -sin)),
    "rows-reversed": MistakenTable(
        {"edit": "rows", "order": "reversed"}, lambda cos, sin: (cos[::-1], sin[::-1])
    ),
    "frequencies-reversed": MistakenTable(
        {"edit": "channels", "order": "reversed"},
        lambda cos, sin: (cos[:, ::-1], sin[:, ::-1]),
    ),
    "stored-as-bfloat16": MistakenTable(
        {"edit": "dtype", "found": "bfloat16"},
        lambda cos, sin: (_to_bfloat16(cos), _to_bfloat16(sin)),
    ),
}


class Mistake(NamedTuple):
    """The scheme that was meant, the tensors that were made, and the edits between them."""

    name: str
    scheme: Scheme
    tensors: dict[str, Array]
    edits: tuple[NamedValues, ...]


def mistakes(rows: Mapping[str, Mapping[str, object]]) -> Iterator[Mistake]:
    """Yield wrong parameters, which are rows of cases.json, then wrongly stored tables."""
    for name, row in rows.items():
        yield _wrong_parameters(name, row)
    scheme = Rope(seq_len=64, dim=32, dtype="float64")
    tables = scheme.tables()
    for name, mistake in MISTAKEN_TABLES.items():
        cos, sin = mistake.change(tables["cos"], tables["sin"])
        yield Mistake(f"mistake-{name}", scheme, {"cos": cos, "sin": sin}, (mistake.edit,))


def _wrong_parameters(name: str, row: NamedValues) -> Mistake:
    """Return the tables of a scheme some of whose parameters are wrong."""
    scheme: Scheme = scheme_named(row["scheme"])(**row["right"], dtype="float64")
    made = replace(scheme, **row["wrong"]).tables()
    tensors = {key: array for key, array in made.items() if key not in scheme.derived_tensors}
    edits = []
    for key, value in row["wrong"].items():
        if value is not None:
            edits.append(edit_of(key, scheme.value_of(key), value).as_json())
    return Mistake(f"mistake-{name}", scheme, tensors, tuple(edits))
