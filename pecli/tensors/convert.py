"""A whole file converted: pairs moved, dtypes cast, another format; everything else is copied byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from pecli.engine.apply_rotation import LAYOUTS
from pecli.engine.table import Table, cast
from pecli.engine.text import listed, quoted
from pecli.errors import FileError, ParameterError
from pecli.files import LoadedFile, format_of, save_tables
from pecli.files.provenance import KEY, carried_spec
from pecli.files.tee_blocks import OnBlock
from pecli.tensors.head_layout import Heads, in_columns, in_heads
from pecli.tensors.projections import layers, of_other_part, projection
from pecli.tensors.score_check import Scores, change

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

        changed = {name: self.tables[name] for name in self.moved}
        write = prepare_copy(self.file.source, self.file.tables, changed)
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
        layout = conversion.heads.settled([table for table in file.tables if table.name in chosen])
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
