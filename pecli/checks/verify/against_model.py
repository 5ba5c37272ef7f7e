"""A file, or arrays, compared with what a model's configuration asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison, compare, problems_of
from pecli.checks.same_table import MAX_DISTANCE
from pecli.checks.tensor_roles import ANYTHING, layer_named, role_of, schemes_of
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.checks.verify.expected_tables import Place, Reading, readings
from pecli.checks.verify.verification import (
    Suspect,
    Verification,
    diagnosis,
    explanations,
    open_for_checks,
    weak_checks,
)
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table, reshaped
from pecli.engine.text import begun, bracketed
from pecli.errors import KindError, NoTablesError, ParameterError
from pecli.explain.edits import Explanation
from pecli.explain.forms import DOUBLINGS
from pecli.files import LoadedFile
from pecli.files.load import opened
from pecli.files.npy import ARRAY_NAME
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import config_file
from pecli.models.gguf import LONG, factor_frequencies

if TYPE_CHECKING:
    from pecli.files.load import Given

MAX_UNNAMED = 16
"""Tensors of a file that are looked at when no name tells anything."""

_PARTS = ("vision", "audio")
_UNKNOWN: dict[str, Any] = {"max_abs_error": None, "max_rel_error": None, "max_ulp_error": None}


def verify_model(
    path: Given,
    model: ModelEncodings,
    tolerance: Tolerance = EXACT,
    *,
    layer_type: str | None = None,
    offset: int | None = None,
    length: int | None = None,
    recipe: str = "exact",
    runtime: str = "none",
    **own: Any,
) -> Verification:
    """Compare the tensors of a file that belong to a model's encodings with what they should be.

    Tensors are found by name, and where names do not tell, by content; nothing else of the file is read. How many
    positions a table has, and how it is laid out, is up to the file; `positions`, or `grid` with `keep`, `grid_base`
    and `grid_scale`, say where they are if not one after the other.
    """
    own = _checked_place(own, offset)
    encodings = model.encodings if layer_type is None else (model.one(layer_type),)
    if not encodings:
        raise ParameterError("model", repr(model.file), "it has no positional encoding to check", "see pecli config")
    label, file = opened(path, open_for_checks)
    with file:
        file.check()
        layer_types = [encoding.layer_type for encoding in model.encodings]
        place = Place(offset, length, recipe, runtime, _ends(file.tables, offset or 0), own)
        found = [
            _Search(label, part.read_as("float32"), encodings, layer_types, at).verified(tolerance.against_model())
            for part, at in _with_frequencies(file, encodings, place)
        ]
    return found[0] if len(found) == 1 else _merged(found)


def _with_frequencies(file: LoadedFile, encodings: Sequence[Encoding], place: Place) -> list[tuple[LoadedFile, Place]]:
    """The file; of a .gguf, with frequencies instead of the factors that divide them, those for lengths beyond the
    original one apart.
    """
    path = config_file(file.path) if file.format == "folder" else file.path
    made = factor_frequencies(path) if file.format == "gguf" or path.endswith(".gguf") else {}
    tables = [made.get(table.name, table) for table in file.tables]
    if LONG not in made:
        return [(replace(file, tables=tuple(tables)), place)]
    original = max((each.parameters.get("original_max_position_embeddings") or 0 for each in encodings), default=0)
    beyond = replace(place, length=place.length or original + 1)
    short = tuple(table for table in tables if table is not made[LONG])
    return [(replace(file, tables=short), place), (replace(file, tables=(made[LONG],)), beyond)]


def _merged(found: Sequence[Verification]) -> Verification:
    """One answer of several about one file."""
    return replace(
        found[0],
        tensors=tuple(tensor for each in found for tensor in each.tensors),
        problems=tuple(problem for each in found for problem in each.problems),
        diagnosis=tuple(dict.fromkeys(line for each in found for line in each.diagnosis)),
        readings={name: words for each in found for name, words in each.readings.items()},
        explanations=tuple(one for each in found for one in each.explanations),
        weak=tuple(dict.fromkeys(line for each in found for line in each.weak)),
        unchecked=tuple(name for each in found for name in each.unchecked),
    )


def _checked_place(own: dict[str, Any], offset: int | None) -> dict[str, Any]:
    known = {name: Rope.parameters().get(name) for name in own}
    for name, rule in known.items():
        if rule is None or name not in ("positions", "grid", "keep", "grid_base", "grid_scale"):
            raise KindError(name, "given", "a model has no such option", "leave it out")
    if offset is not None and own:
        raise ParameterError("offset", offset, "positions are given otherwise", "leave it out")
    return {name: rule.check(name, own[name]) for name, rule in known.items() if rule and own[name] is not None}


class _Search:
    """The tensors of one file that belong to some encodings, each with its best reading."""

    def __init__(
        self, path: str, file: LoadedFile, encodings: Sequence[Encoding], layer_types: Sequence[str], place: Place
    ) -> None:
        self.path, self.file, self.encodings, self.place = path, file, encodings, place
        self._layer_types = layer_types  # of the whole model
        self._several = len({encoding.layer_type for encoding in encodings}) > 1

    def verified(self, tolerance: Tolerance) -> Verification:
        tensors, words = [], {}
        failed: dict[str, tuple[list[Suspect], list[Comparison]]] = {}
        moved: dict[str, list[str]] = {}
        passed: list[Suspect] = []
        found = self._found()
        for table, reading in found:
            name = _label(table, reading)
            if reading is None:
                tensors.append(_unfit(name, table, self._shapes(table)))
            else:
                tensors.append(_compared(name, reading, tolerance))
                words[name] = self._words(table, name, reading)
            if tensors[-1].passed:
                passed += self._suspect(table, reading)
                continue
            if reading is not None and reading.copies_differ():
                tensors[-1].problem = "its copies differ"
            else:
                self._failed(table, reading, tensors[-1], failed, moved, tolerance)
        schemes = {each.encoding.scheme for _, each in found if each} or {each.scheme for each in self.encodings}
        readings = {name: text for name, text in words.items() if text}
        scheme = ", ".join(sorted(schemes))
        problems = (*_doubled_otherwise(found), *problems_of(tensors))
        why: list[Explanation] = []
        lines = [f"{', '.join(names)}: right for {layers} layers" for layers, names in moved.items()]
        for prefix, (suspects, results) in failed.items():
            some = explanations(suspects, tolerance)
            why += some
            said = diagnosis(some, results, [each for each, _, _ in suspects])
            lines += [_about(prefix, line) for line in said]
        right = not problems and all(tensor.passed for tensor in tensors)
        weak = weak_checks(passed, tolerance) if right else ()
        checked = {table.name for table, _ in found}
        others = tuple(table.name for table in self.file.tables if table.name not in checked)
        reasons = tuple(dict.fromkeys(lines))
        return Verification(
            self.path, scheme, tuple(tensors), problems, reasons, readings, tuple(why), weak, unchecked=others
        )

    def _failed(
        self,
        table: Table,
        reading: Reading | None,
        result: Comparison,
        failed: dict[str, tuple[list[Suspect], list[Comparison]]],
        moved: dict[str, list[str]],
        tolerance: Tolerance,
    ) -> None:
        """Take note of a tensor that failed; of one that is right for other layers, only that."""
        other = self._other_layers(table, reading, tolerance)
        if other:
            moved.setdefault(other, []).append(result.name)
            return
        suspects, results = failed.setdefault(self._prefix(reading), ([], []))
        suspects += self._suspect(table, reading)
        results.append(result)

    def _words(self, table: Table, name: str, reading: Reading) -> str:
        known = name == reading.name or role_of(name) not in (None, ANYTHING)
        doubled = reading.layout.form.doubled if reading.layout else ""
        paired = {"deepseek": "halves"}.get(reading.encoding.layout or "", reading.encoding.layout)
        unlike = f"though the model rotates {paired}" if doubled and paired and doubled != paired else ""
        parts = ("" if known else reading.name, self._layers(table, reading), reading.words, unlike)
        return ", ".join(filter(None, parts))

    def _suspect(self, table: Table, reading: Reading | None) -> list[Suspect]:
        """A tensor that did not pass, with the scheme that it fails; where none fits, with the likeliest."""
        if reading is not None:
            scheme = reading.scheme
            return [] if scheme is None else [(scheme, name, part) for name, part in reading.parts().items()]
        ropes = [each for each in self._likely(table) if each.is_rotary and not each.no_table]
        if not ropes or not table.size:
            return []
        role = self._said(table)
        half, pairs = (ropes[0].axis_dim or 0) // 2, ropes[0].layout
        layout = "compact" if half in table.shape else "interleaved" if pairs == "interleaved" else "halves"
        common = {**self.place.rows(max(table.shape, default=1)), "layout": layout, "recipe": self.place.recipe}
        rope = ropes[0].rope(length=self.place.length, **common)
        return [(rope, role if role in ("cos", "sin", "inv_freq") else "cos_sin", table)]

    def _prefix(self, reading: Reading | None) -> str:
        """What tells tensors of one name apart, where layers have each their own."""
        return (reading.encoding.layer_type or "") if self._several and reading else ""

    def _other_layers(self, table: Table, reading: Reading | None, tolerance: Tolerance) -> str:
        """The layers that a tensor would be right for, where its name says others."""
        if reading is None or not self._named(table):
            return ""
        others = [each for each in self.encodings if each.layer_type != reading.encoding.layer_type]
        repeated = bool(reading.view and reading.view.repeated)
        seen = (readings(other, table, reading.name, self.place, repeated=repeated) for other in others)
        for each in (one for found in seen for one in found):
            if each.words == reading.words and _compared(table.name, each, tolerance).passed:
                return each.encoding.layer_type or ""
        return ""

    def _found(self) -> list[tuple[Table, Reading | None]]:
        """The tensors to check: the only one, or those whose names say so, or those that look like it."""
        tables = self.file.tables
        if len(tables) == 1:
            return [(tables[0], self._best(tables[0], self._role(tables[0])))]
        found = []
        kinds = {encoding.scheme for encoding in self.encodings}
        for table in tables:
            role = role_of(table.name)
            if (
                role is None
                or not schemes_of(role) & kinds
                or not (_is_float(table) or role == "index")
                or self._is_foreign(table)
            ):
                continue
            best = self._best(table, role)
            if best is not None or _must_fit(role, kinds):
                found.append((table, best))
        if not found and len(tables) <= MAX_UNNAMED:
            likely = ((table, self._best(table, None)) for table in tables if _is_float(table))
            found = [(table, best) for table, best in likely if best is not None and best.distance() < MAX_DISTANCE]
        if not found:
            kind = " or ".join(sorted(kinds))
            count = len(tables) + len(self.file.unread)
            names = f": {begun([table.name for table in tables], 4)}" if tables else ""
            problem = f"has no positional tables of {kind} ({count:,} tensors{names})"
            advice = "modern checkpoints compute them: use a dump, or name a tensor, FILE:NAME"
            raise NoTablesError(self.path, problem, advice)
        return found

    def _is_foreign(self, table: Table) -> bool:
        """Whether it is of layers that were not asked for, or of a part that the configuration does not describe."""
        named, name = self._named(table), _plain(table.name)
        if named is not None:
            return all(each.layer_type != named for each in self.encodings)
        return any(part in name and not any(part in each for each in self._layer_types) for part in _PARTS)

    def _role(self, table: Table) -> str | None:
        """What the name of the tensor or the file says that it is, unless the shape says otherwise."""
        role = self._said(table)
        ways = ((each, repeated) for repeated in (False, True) for each in self.encodings)
        fits = any(readings(each, table, role, self.place, repeated=repeated) for each, repeated in ways)
        return role if fits else None

    def _said(self, table: Table) -> str | None:
        """What the name of the tensor says, or that of the file where the tensor has none."""
        stem = os.path.splitext(os.path.basename(self.file.path))[0]
        return role_of(stem if table.name == ARRAY_NAME else table.name)

    def _best(self, table: Table, role: str | None) -> Reading | None:
        """The reading that comes nearest, of the layer type that the name says if it does; of those that double
        columns as the table does, if there are any: its values may be anything. Where none is near, it may be copies.
        """
        best = self._nearest(table, role, repeated=False)
        if best is not None and best.distance() < MAX_DISTANCE:
            return best
        copies = self._nearest(table, role, repeated=True)
        return copies if copies and (copies.distance() < MAX_DISTANCE or not copies.copies_differ()) else best

    def _nearest(self, table: Table, role: str | None, *, repeated: bool) -> Reading | None:
        ways = ((each, view) for view in self._seen(table) for each in self._likely(table))
        found = [one for each, view in ways for one in readings(each, view, role, self.place, repeated=repeated)]
        found = [reading for reading in found if len(found) > 1 and reading.is_doubled()] or found
        return found[0] if len(found) == 1 else min(found, key=Reading.distance, default=None)

    def _seen(self, table: Table) -> list[Table]:
        """The table; lines of a .csv also as cosines above sines, which is how pecli writes both to one."""
        rows = table.shape[0] if self.file.format == "csv" and len(table.shape) == 2 else 1
        return [table] if rows % 2 else [table, reshaped(table, (2, rows // 2, table.shape[1]))]

    def _likely(self, table: Table) -> Sequence[Encoding]:
        return [each for each in self.encodings if each.layer_type == self._named(table)] or self.encodings

    def _named(self, table: Table) -> str | None:
        return layer_named(_plain(table.name), self._layer_types)

    def _layers(self, table: Table, reading: Reading) -> str:
        if not self._several or not reading.encoding.layer_type:
            return ""
        layers = f"{reading.encoding.layer_type} layers"
        return layers if self._named(table) else f"{layers}, which it fits best"

    def _shapes(self, table: Table) -> str:
        return " or ".join(dict.fromkeys(_shapes_of(each) for each in self._likely(table)))


def _ends(tables: Sequence[Table], offset: int) -> tuple[int, ...]:
    """Where tables of cosines and sines may end, by their shapes."""
    rotary = (table for table in tables if role_of(table.name) in ("cos", "sin", "both"))
    return tuple(sorted({offset + count for table in rotary for count in table.shape[:-1]})[:MAX_UNNAMED])


def _plain(name: str) -> str:
    """A tensor's name, with the part that sees under one word."""
    return name.replace("visual", "vision")


def _doubled_otherwise(found: Sequence[tuple[Table, Reading | None]]) -> Iterator[str]:
    """Cosines and sines of the same layers, each right, that no rotation can use together."""
    ways: dict[str, dict[str, set[str]]] = {}
    for _, reading in found:
        if reading is not None and reading.layout is not None and reading.is_doubled():
            functions = ways.setdefault(reading.encoding.layer_type, {})
            functions.setdefault(reading.name, set()).add(DOUBLINGS[reading.layout.form.doubled])
    for layers, functions in ways.items():
        cos, sin = (functions.get(name, set()) for name in ("cos", "sin"))
        if len(cos) == len(sin) == 1 and cos != sin:
            whose = f"{layers} " if layers else ""
            yield f"{whose}cos is doubled as {cos.pop()}, sin as {sin.pop()}: no rotation takes both"


def _about(layers: str, line: str) -> str:
    """A line of some layers: «full_attention cos, sin: base is …», «full_attention: reproduce with …»."""
    is_advice = line.startswith(("reproduce with", "without this", "verify with", "the last place"))
    return f"{layers}{': ' if is_advice else ' '}{line}" if layers else line


def _is_float(table: Table) -> bool:
    return table.dtype.startswith(("float", "bfloat", "complex"))


def _must_fit(role: str, kinds: set[str]) -> bool:
    """Whether a tensor of that name is wrong where its shape is; other names may mean other things."""
    return role != ANYTHING and (role != "rows" or bool(kinds & {"sinusoidal", "learned"}))


def _label(table: Table, reading: Reading | None) -> str:
    """The tensor's name in the report; an array without a name goes by what it is."""
    return table.name if table.name != ARRAY_NAME or reading is None else reading.name


def _compared(name: str, reading: Reading, tolerance: Tolerance) -> Comparison:
    if reading.scheme is None:
        return Comparison(name, reading.found.shape, reading.found.size, **_UNKNOWN)
    found = replace(reading.found, name=reading.name)  # which says what it holds, whatever the file calls it
    return compare(replace(reading.expected, name=name), found, tolerance, any_dtype=True)


def _unfit(name: str, table: Table, shapes: str) -> Comparison:
    problem = f"its shape is {bracketed(table.shape)} where {shapes} is expected"
    return Comparison(name, table.shape, table.size, mismatched=None, problem=problem, **_UNKNOWN)


def _shapes_of(encoding: Encoding) -> str:
    """The shapes that tables of an encoding have, in words."""
    given = encoding.parameters
    if encoding.is_rotary:
        dim = encoding.axis_dim or 0
        return f"({dim // 2}), (positions, {dim // 2}) or (positions, {dim})"
    if "heads" in given:
        return f"({given['heads']}) or ({given['heads']}, …, positions)"
    rows = given.get("max_len", "positions")
    return f"({rows}, {given.get('dim', rows)})"
