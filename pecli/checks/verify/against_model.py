"""A file, or arrays, compared with what a model's configuration asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison
from pecli.checks.same_table import Reading, best_reading
from pecli.checks.tensor_roles import ANYTHING, layer_named, role_of, schemes_of
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.checks.verify.expected_tables import Place, candidates
from pecli.checks.verify.verification import UNKNOWN, Checked, Verification, compared, conclusion
from pecli.engine.arrays import COMPLEX
from pecli.engine.table import Table, as_pairs, reshaped
from pecli.errors import NoTablesError, ParameterError, begun, bracketed
from pecli.explain.forms import DOUBLINGS
from pecli.files import LoadedFile
from pecli.files.load import opened
from pecli.files.npy import ARRAY_NAME
from pecli.models.dialects.gguf import LONG, factor_frequencies
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import config_file

if TYPE_CHECKING:
    from pecli.files.load import Given

MIN_FLAT_ROWS = 8
"""Of a table that a vector may be: shorter ones are rather frequencies of another dim."""
MAX_UNNAMED = 16
"""Tensors of a file that are recognised by their values when no name has a role."""

_PARTS = ("vision", "audio")


def verify_model(
    path: Given,
    model: ModelEncodings,
    tolerance: Tolerance = EXACT,
    *,
    layer_type: str | None = None,
    **options: Any,
) -> Verification:
    """Compare the tensors of a file that belong to a model's encodings with what they should be.

    Tensors are found by name, and where names do not tell, by content; nothing else of the file is read. How many
    positions a table has, and how it is laid out, is up to the file; options are `offset`, `length`, `recipe`,
    `runtime`, and if rows are not one after the other `positions`, or `grid` with `keep`, `grid_base`, `grid_scale`.
    """
    place = Place.of(options)
    encodings = model.encodings if layer_type is None else (model.one(layer_type),)
    if not encodings:
        raise ParameterError("model", repr(model.file), "it has no positional encoding to check", "see pecli config")
    label, file = opened(path)
    with file:
        file.check()
        layer_types = [encoding.layer_type for encoding in model.encodings]
        place = replace(place, ends=_ends(file.tables, place.offset or 0))
        found = _with_frequencies(file.read_as("float32"))
        return _Search(label, found, encodings, layer_types, place).verified(tolerance.against_model())


def _with_frequencies(file: LoadedFile) -> LoadedFile:
    """The file; of a .gguf, with frequencies instead of the factors that divide them."""
    path = config_file(file.path) if file.format == "folder" else file.path
    made = factor_frequencies(path) if file.format == "gguf" or path.endswith(".gguf") else {}
    tensors = {name: made[name].array() if name in made else array for name, array in file.tensors.items()}
    return replace(file, tensors=tensors)


class _Search:
    """The tensors of one file that belong to some encodings, each with its best reading."""

    def __init__(
        self, path: str, file: LoadedFile, encodings: Sequence[Encoding], layer_types: Sequence[str], place: Place
    ) -> None:
        self.path, self.file, self.encodings, self.place = path, file, encodings, place
        self._layer_types = layer_types  # of the whole model
        self._several = len({encoding.layer_type for encoding in encodings}) > 1

    def verified(self, tolerance: Tolerance) -> Verification:
        checked = [self._checked(table, reading, tolerance) for table, reading in self._found()]
        encodings = [each.reading.encoding for each in checked if each.reading.encoding] or self.encodings
        scheme = ", ".join(sorted({each.scheme for each in encodings}))
        problems = _doubled_otherwise([each.reading for each in checked])
        return conclusion(self.path, scheme, checked, tolerance, problems, self.file.tables)

    def _checked(self, table: Table, reading: Reading | None, tolerance: Tolerance) -> Checked:
        if reading is None:
            shapes = " or ".join(dict.fromkeys(_shapes_of(each) for each in self._likely(table)))
            problem = f"its shape is {bracketed(table.shape)} where {shapes} is expected"
            result = Comparison(table.name, table.shape, table.size, mismatched=None, problem=problem, **UNKNOWN)
            return Checked(self._likeliest(table), result)
        name = reading.expected.name if table.name == ARRAY_NAME else table.name
        result = compared(name, reading, tolerance)
        other = "" if result.passed else self._other_layers(table, reading, tolerance)
        layers = reading.encoding.layer_type if self._several and reading.encoding else ""
        return Checked(replace(reading, words=self._words(table, name, reading, layers)), result, layers, other)

    def _words(self, table: Table, name: str, reading: Reading, layers: str) -> str:
        """How a tensor was read: as what if its name does not say so, of which layers, in which layout."""
        known = name == reading.expected.name or role_of(name) not in (None, ANYTHING)
        fits = f"{layers} layers{'' if self._named(table) else ', which it fits best'}" if layers else ""
        layout = reading.encoding.layout if reading.encoding else ""
        paired = "halves" if layout == "deepseek" else layout
        unlike = f"though the model rotates {paired}" if reading.doubled not in ("", paired) and paired else ""
        return ", ".join(filter(None, ("" if known else reading.expected.name, fits, reading.words, unlike)))

    def _likeliest(self, table: Table) -> Reading:
        """A tensor whose shape is that of no table, as one of the likeliest scheme."""
        ropes = [each for each in self._likely(table) if each.is_rotary and not each.no_table]
        if not ropes or not table.size:
            return Reading(table, table, {})
        role = self._role(table)
        compact = (ropes[0].axis_dim or 0) // 2 in table.shape
        layout = "compact" if compact else "interleaved" if ropes[0].layout == "interleaved" else "halves"
        rope = self._place(table).rope(ropes[0], max(table.shape, default=1), layout=layout)
        name = role if role in ("cos", "sin", "inv_freq") else "cos_sin"
        return Reading(table, table, {name: table}, scheme=rope)

    def _other_layers(self, table: Table, reading: Reading, tolerance: Tolerance) -> str:
        """The layers that a tensor would be right for, where its name says others."""
        named = self._named(table)
        for other in (each for each in self.encodings if named and each.layer_type != named):
            found = self._best(table, role_of(reading.expected.name), [other])
            if found is not None and compared(table.name, found, tolerance).passed:
                return other.layer_type
        return ""

    def _found(self) -> list[tuple[Table, Reading | None]]:
        """The tensors to check: the only one, or those whose names say so, or those that look like it."""
        tables = self.file.tables
        if len(tables) == 1:
            return [(tables[0], self._best(tables[0], self._role(tables[0])) or self._best(tables[0], None))]
        kinds = {encoding.scheme for encoding in self.encodings}
        named = [(table, role_of(table.name)) for table in tables if not self._is_foreign(table)]
        ours = [(table, role) for table, role in named if role and schemes_of(role) & kinds and _is_number(table, role)]
        found = [(table, best) for table, role in ours if (best := self._best(table, role)) or _must_fit(role, kinds)]
        if not found and len(tables) <= MAX_UNNAMED:
            likely = [(table, self._best(table, None)) for table in tables if _is_number(table)]
            found = [(table, best) for table, best in likely if best is not None and best.is_near()]
        if not found:
            count = len(tables) + len(self.file.unread)
            names = f": {begun([table.name for table in tables], 4)}" if tables else ""
            problem = f"has no positional tables of {' or '.join(sorted(kinds))} ({count:,} tensors{names})"
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
        """What the name of the tensor says, or that of the file where the tensor has none."""
        stem = os.path.splitext(os.path.basename(self.file.path))[0]
        return role_of(stem if table.name == ARRAY_NAME else table.name)

    def _best(self, table: Table, role: str | None, encodings: Sequence[Encoding] | None = None) -> Reading | None:
        """The reading that comes nearest, of the layer type that the name says if it does."""
        role = None if role == ANYTHING else role
        likely, place = encodings or self._likely(table), self._place(table)
        if table.dtype in COMPLEX:
            likely = [each for each in likely if each.is_rotary]
            table, role = as_pairs(table), "complex" if role in ("both", None) else role

        def read(view: Table) -> Iterator[Reading]:
            found = (some for each in likely for some in candidates(each, view, role, place))
            return (reading for some in found for reading in some.readings(view, lines=self.file.format == "csv"))

        heads = max((each.parameters["heads"] for each in likely if "max_bias" in each.parameters), default=0)
        if heads and len(table.shape) > 1 and not table.shape[0] % heads and table.shape[0] > heads:
            table = reshaped(table, (table.shape[0] // heads, heads, *table.shape[1:]))  # (batch × heads, …)
        halves = {each.axis_dim // 2 for each in likely if each.is_rotary and each.axis_dim}
        widths = [width for half in halves for width in (half, 2 * half)]
        shapes = [(table.size // width, width) for width in widths if table.size >= MIN_FLAT_ROWS * width]
        return best_reading(table, read, () if self._role(table) == "inv_freq" else shapes)

    def _place(self, table: Table) -> Place:
        """Where a table is read: names of a .gguf tell frequencies for lengths beyond the original one."""
        if not table.name.startswith(LONG):
            return self.place
        original = max(each.parameters.get("original_max_position_embeddings") or 0 for each in self.encodings)
        return replace(self.place, length=self.place.length or original + 1)

    def _likely(self, table: Table) -> Sequence[Encoding]:
        return [each for each in self.encodings if each.layer_type == self._named(table)] or self.encodings

    def _named(self, table: Table) -> str | None:
        return layer_named(_plain(table.name), self._layer_types)


def _ends(tables: Sequence[Table], offset: int) -> tuple[int, ...]:
    """Where tables of cosines and sines may end, by their shapes."""
    rotary = (table for table in tables if role_of(table.name) in ("cos", "sin", "both"))
    return tuple(sorted({offset + count for table in rotary for count in table.shape[:-1]})[:MAX_UNNAMED])


def _plain(name: str) -> str:
    """A tensor's name, with the part that sees under one word."""
    return name.replace("visual", "vision")


def _doubled_otherwise(readings: Sequence[Reading]) -> Iterator[str]:
    """Cosines and sines of the same layers, each right, that no rotation can use together."""
    ways: dict[str, dict[str, str]] = {"cos": {}, "sin": {}}
    for each in readings:
        if each.encoding is not None and each.expected.name in ways and each.is_doubled():
            ways[each.expected.name][each.encoding.layer_type] = DOUBLINGS[each.doubled]
    for layers, cos in ways["cos"].items():
        sin = ways["sin"].get(layers, cos)
        if cos != sin:
            yield f"{layers} cos is doubled as {cos}, sin as {sin}: no rotation takes both".strip()


def _is_number(table: Table, role: str = "") -> bool:
    return table.dtype.startswith(("float", "bfloat", "complex")) or role == "index"


def _must_fit(role: str | None, kinds: set[str]) -> bool:
    """Whether a tensor of that name is wrong where its shape is; other names may mean other things."""
    return role != ANYTHING and (role != "rows" or bool(kinds & {"sinusoidal", "learned"}))


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
