"""A whole file converted: pairs moved, dtypes cast, another format; everything else is copied byte for byte."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Floats, widened
from pecli.engine.table import Table, cast
from pecli.errors import FileError, ParameterError, listed, quoted
from pecli.files import LoadedFile, format_of, save_tables
from pecli.files.output import OnBlock
from pecli.files.provenance import KEY, carried_spec
from pecli.tensors.head_layout import Heads, Layer, in_columns, in_heads, layers, of_other_part, projection

MAX_LISTED = 4
"""How many tensors an error names."""


@dataclass(frozen=True)
class Conversion:
    """What is to happen to which tensors."""

    source: str | None = None
    target: str | None = None
    heads: Heads | None = None
    """How projections are divided into heads; without it, columns of tables are moved."""
    rotary_dim: int | None = None
    trailing: bool = False
    include: tuple[str, ...] = ()
    dtype: str | None = None

    @property
    def moves(self) -> bool:
        return self.source is not None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            name = "from" if self.source is None else "to"
            raise ParameterError(name, "missing", "a conversion goes from one layout to another")
        if self.source is None and (self.heads or self.rotary_dim or self.trailing or self.include):
            raise ParameterError(
                "from", "missing", "`heads`, `rotary_dim` and `include` say how pairs move, from where to where"
            )
        for name, given in (("source", self.source), ("target", self.target)):
            if given is not None:
                object.__setattr__(self, name, self._plain(given))

    def _plain(self, pairing: str) -> str:
        """DeepSeek's mixed form is one of the other two: weights make interleaved channels, tables have halves."""
        takes, gives = LAYOUTS[pairing]
        return takes if self.heads else gives


@dataclass(frozen=True)
class ScoreCheck:
    """What a check of attention scores found."""

    change: float
    """The largest change of a score, relative to the largest score of its layer."""
    layers: int
    unpaired: tuple[str, ...] = ()
    """Weights that were moved and not checked: the file has no partner for them."""


@dataclass
class Converted:
    """A file on its way: its tables as they will be, and what was done to them."""

    file: LoadedFile
    conversion: Conversion
    tables: dict[str, Table] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)
    cast: list[str] = field(default_factory=list)
    whole: bool = True
    """Whether these are all tensors of the file."""

    @property
    def changed(self) -> bool:
        return bool(self.moved or self.cast) or not self.whole

    def save(self, path: str, on_block: OnBlock | None = None) -> None:
        """Write it all; a checkpoint whose dtypes stay keeps every other byte, in the same order."""
        spec, texts = self._texts()
        kind = format_of(path)
        same = kind == self.file.format == "safetensors" and self.whole and not self.cast
        if same and (not self.moved or KEY not in self.file.metadata):
            self._copy(path, on_block)
        else:
            save_tables(path, list(self.tables.values()), spec, metadata=texts, on_block=on_block)

    def _copy(self, path: str, on_block: OnBlock | None) -> None:
        from pecli.files.safetensors import prepare_copy
        from pecli.files.save import write_file

        assert self.file.contents is not None
        changed = {name: self.tables[name] for name in self.moved}
        write = prepare_copy(self.file.contents, self.file.tables, changed)
        write_file(path, write, sum(table.nbytes for table in self.file.tables), on_block)

    def _texts(self) -> tuple[Mapping[str, Any] | None, dict[str, str]]:
        """The spec, which holds only while nothing changes, and the other metadata."""
        texts = {name: text for name, text in self.file.metadata.items() if name != KEY}
        spec = None if self.changed else carried_spec(self.file.path, self.file.metadata)
        return ({name: value for name, value in spec.items() if name != "sha256"} if spec else None), texts

    @property
    def loses_spec(self) -> bool:
        """Whether the file carried a spec that no longer says what it holds."""
        return self.changed and KEY in self.file.metadata

    def moved_tables(self) -> list[Table]:
        """The tables that were moved, as they are in the file."""
        moved = set(self.moved)
        return [table for table in self.file.tables if table.name in moved]

    def check(self) -> ScoreCheck:
        """How far attention scores change, over all layers of which the file has both query and key."""
        layout = self.conversion.heads
        source, target = self.conversion.source, self.conversion.target
        if layout is None or source is None or target is None:
            advice = "give `from`, `to` and `heads`, or the model with `config`"
            raise ParameterError("check", "given", "scores are those of projections", advice)
        old = {table.name: table for table in self.file.tables}
        moved = {table.name for table in self.moved_tables() if len(table.shape) == 2}
        found = [layer for layer in layers(old) if {layer.query, layer.key} <= moved]
        if not found:
            raise FileError(self.file.path, "has no query and key weights that go together", "convert unchecked")
        before, after = Scores(old, layout, source), Scores(self.tables, layout, target)
        paired = {name for layer in found for name in (layer.query, layer.key)}
        unpaired = tuple(name for name in sorted(moved - paired) if not layout.named(old[name]).norm)
        return ScoreCheck(max(change(before, after, layer) for layer in found), len(found), unpaired)


def convert(file: LoadedFile, conversion: Conversion, *, whole: bool = True) -> Converted:
    """The file's tables after the conversion, made when they are read; `whole` if none of them was left out."""
    _check_source(file, conversion)
    result = Converted(file, conversion, whole=whole)
    chosen = set(_chosen(file, conversion)) if conversion.moves else set()
    if conversion.heads is not None:
        layout = conversion.heads.completed([table for table in file.tables if table.name in chosen])
        conversion = result.conversion = replace(conversion, heads=layout)
    for table in file.tables:
        made = _moved(table, conversion) if table.name in chosen else table
        if made is not table:
            result.moved.append(table.name)
        if conversion.dtype is not None and (casted := cast(made, conversion.dtype)) is not made:
            made = casted
            result.cast.append(table.name)
        result.tables[table.name] = made
    return result


def _check_source(file: LoadedFile, conversion: Conversion) -> None:
    """Refuse to move columns from a layout that the file says it does not have."""
    spec = carried_spec(file.path, file.metadata) if conversion.moves and not conversion.heads else None
    said = (spec or {}).get("parameters", {}).get("layout", conversion.source)
    if said == "compact":
        rule = f"{file.path} is compact: it has one column per pair, and nothing to move"
        raise ParameterError("from", repr(conversion.source), rule, "make the table in the layout that is wanted")
    if said != conversion.source:
        raise ParameterError("from", repr(conversion.source), f"the spec of {file.path} says {said}")


def _moved(table: Table, conversion: Conversion) -> Table:
    source, target = conversion.source or "", conversion.target or ""
    if source == target:
        return table
    if conversion.heads is not None:
        return in_heads(table, conversion.heads, source, target)
    return in_columns(table, source, target, conversion.rotary_dim, conversion.trailing)


def _chosen(file: LoadedFile, conversion: Conversion) -> Sequence[str]:
    """The tensors to move: those that the patterns name, else queries and keys, or all tables."""
    names = [table.name for table in file.tables]
    if conversion.include:
        for pattern in conversion.include:
            if not any(fnmatchcase(name, pattern) for name in names):
                rule = f"{file.path} has no tensor of such a name; it has {_listed(file.tables)}"
                raise ParameterError("include", repr(pattern), rule)
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in conversion.include)]
    projections = [table for table in file.tables if projection(table.name)]
    if conversion.heads is None:
        if projections:
            rule = f"{file.path} has projections, {_listed(projections)}, whose rows move, head by head"
            raise ParameterError("heads", "missing", rule, "give it or `config`, or name tables with `include`")
        return [table.name for table in file.tables if len(table.shape) > 1]
    _check_one_part(file, projections)
    found = [table.name for table in projections] or (names if len(names) == 1 else [])
    if not found:
        rule = f"no tensor of {file.path} is called like a query or key projection; it has {_listed(file.tables)}"
        raise ParameterError("include", "missing", rule, "name them")
    return found


def _check_one_part(file: LoadedFile, projections: Sequence[Table]) -> None:
    """Refuse to divide towers for images or sound into the heads of a language model."""
    others = [table for table in projections if of_other_part(table.name)]
    if others and len(others) < len(projections):
        rule = f"{file.path} has projections of other parts, {_listed(others)}, which have heads of their own"
        raise ParameterError("include", "missing", rule, "name the tensors to move")


def _listed(tables: Sequence[Table]) -> str:
    """Some tensors with their shapes."""
    return listed([f"{quoted(table.name)} {table.shape}" for table in tables], MAX_LISTED)


_POSITIONS = (0, 3, 17, 1000)
"""Of the random inputs whose attention scores a conversion must not change: near and far."""


@dataclass(frozen=True)
class Scores:
    """The tensors of a checkpoint, and how their heads rotate."""

    tables: Mapping[str, Table]
    heads: Heads
    pairing: str

    def of(self, layer: Layer) -> list[Floats]:
        """Scores (heads, queries, keys); for a latent key those of the rotary channels, and the others as they are."""
        queries = self._rotated(layer.query, "q", layer.query_norm)
        keys = self._rotated(layer.key, "k", layer.key_norm)
        keys = np.repeat(keys, len(queries) // len(keys), axis=0)
        width = min(queries.shape[1], keys.shape[1], self.heads.rotary_dim or queries.shape[1])
        if queries.shape[1] == keys.shape[1]:
            return [np.einsum("hcq,hck->hqk", queries, keys)]
        scores = np.einsum("hcq,hck->hqk", queries[:, -width:], keys[:, -width:])
        return [scores, queries[:, :-width], keys[:, :-width]]

    def _rotated(self, name: str, part: str, norm: str | None) -> Floats:
        """(heads, channels, vectors): the projections of the vectors, each rotated as at its position."""
        table = self.tables[name]
        inputs = np.random.default_rng(table.width).standard_normal((table.width, len(_POSITIONS)))
        products = np.concatenate([widened(block) @ inputs for block in table.blocks()])
        bias = self.tables.get(self.heads.named(table).bias)
        if bias is not None and bias.shape == table.shape[:1]:
            products += widened(bias.read(0, bias.rows))
        slots = np.array(list(self.heads.slots(table)))
        values: Floats = products.reshape(len(slots), -1, len(_POSITIONS))[slots == part]
        weight = self.tables[norm] if norm is not None else None
        if weight is not None and weight.size in (values.shape[1], len(values) * values.shape[1]):
            values = values * widened(weight.read(0, weight.rows)).reshape(-1, values.shape[1], 1)
        return self._rotate(values)

    def _rotate(self, values: Floats) -> Floats:
        channels = values.shape[1]
        rotary = channels if self.heads.rotary_dim is None else self.heads.rotary_dim
        first = channels - rotary if self.heads.trailing else 0
        pairs = np.arange(first, first + rotary)
        halves = self.pairing == "halves"
        one, other = (pairs[: rotary // 2], pairs[rotary // 2 :]) if halves else (pairs[0::2], pairs[1::2])
        angles = 10000.0 ** (-np.arange(0, rotary, 2) / rotary)[:, None] * np.array(_POSITIONS)
        x, y = values[:, one].copy(), values[:, other].copy()
        values[:, one] = x * np.cos(angles) - y * np.sin(angles)
        values[:, other] = y * np.cos(angles) + x * np.sin(angles)
        return values


def change(before: Scores, after: Scores, layer: Layer) -> float:
    """The largest change of a layer's scores, relative to the largest; infinite where scores are not numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        return max(_change(old, new) for old, new in zip(before.of(layer), after.of(layer), strict=True))


def _change(old: Floats, new: Floats) -> float:
    off, largest = float(np.abs(new - old).max(initial=0)), float(np.abs(old).max(initial=0))
    if not math.isfinite(off):
        return math.inf
    return off / largest if largest else off
