"""An unknown table, or a file of them: what made it, or what can be said of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.statistics import has_waves
from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, cast, is_floating, reshaped, table_of
from pecli.explain.describe import describe
from pecli.explain.edits import Edit, Explanation, Layout, Noise, Recipe, Runtime, parameter_edits
from pecli.explain.recipe_search import explain_computed
from pecli.explain.sample import MAX_FULL_READ, sample
from pecli.explain.search import recognise
from pecli.explain.sinusoid_readings import named_pairs
from pecli.explain.words import clause, command_of, lacking
from pecli.files.load import opened
from pecli.files.number_text import numerals

if TYPE_CHECKING:
    from pecli.files.load import Given

MAX_UNNAMED = 8
"""A file of so many tensors is looked at whole; of more, only those whose names speak of positions."""
FIRST_ROWS = 64
"""Of a table of many, searched before all are."""
MIN_ELEMENTS = 1 << 17
"""Of a table for which that is worth it."""
MEASURED_ROWS = 256
"""Whose rounding errors are measured; those of all others are alike."""
SQUARES = 0.05
"""By how much cos² + sin² may vary, in dumps of few digits."""
MAX_TENSORS = 256
"""Tensors that are looked at in one file."""
_POSITIONAL = re.compile(
    r"(^|[^a-z])(pos|pe|wpe|rope|rotary|alibi|slopes?|inv_?freqs?|freqs?|cos|sin|relative|time_?embed\w*)([^a-z]|$)"
    r"|pos_?emb|position|rotary|rope_|alibi|inv_freq|freqs_cis|rel_pos|relative_attention_bias|time_proj",
    re.IGNORECASE,
)
_DTYPES = ("float32", "float16", "bfloat16")
"""Of lines of text: the likeliest first; float64 is what is left."""
_MAX_SPELT = 4096


@dataclass(frozen=True)
class Match:
    """One explanation: the scheme with every parameter, how far the table is from it, and what stays open."""

    scheme: Scheme
    max_abs_error: float
    """The largest distance of an element that was looked at from the scheme's, but for rows and columns that edits name
    as wrong.
    """
    tensors: tuple[str, ...]
    """Which tensors of the file it explains."""
    edits: tuple[Edit, ...] = ()
    """How the file differs from the scheme's own tables."""
    undetermined: tuple[str, ...] = ()
    """What the data do not decide, a sentence each."""
    runtimes: tuple[str, ...] = ()
    """The runtimes that compute such a table."""

    @property
    def recipe(self) -> str:
        return str(getattr(self.scheme, "recipe", "exact"))

    @property
    def form(self) -> str:
        """The edits in words."""
        return ", ".join(clause(edit).partition(" (the spec says")[0] for edit in self.edits)  # there is no spec

    @property
    def lacking(self) -> tuple[Edit, ...]:
        """The edits that the command does not make."""
        return lacking(self.edits, self.scheme)

    @property
    def command(self) -> str:
        """What to type to make the table again."""
        return command_of(self.scheme, len(self.tensors))

    def as_json(self) -> dict[str, Any]:
        return {
            "scheme": self.scheme.name,
            "parameters": self.scheme.spec()["parameters"],
            "recipe": self.recipe,
            "runtimes": list(self.runtimes),
            "max_abs_error": self.max_abs_error if math.isfinite(self.max_abs_error) else None,
            "command": self.command,
            "tensors": list(self.tensors),
            "edits": [edit.as_json() for edit in self.edits],
            "form": self.form,
            "undetermined": list(self.undetermined),
        }


@dataclass(frozen=True)
class Identification:
    """What was found: explanations, the best first, and sentences about what has none."""

    file: str
    matches: tuple[Match, ...]
    description: tuple[str, ...] = ()

    @property
    def identified(self) -> bool:
        return bool(self.matches)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "identified": self.identified,
            "matches": [match.as_json() for match in self.matches],
            "description": list(self.description),
        }


def identify(source: Given) -> Identification:
    """Say which scheme makes a table: that of a file (or FILE:NAME), an array, or arrays by name.

    >>> import pecli
    >>> identify(pecli.Alibi(heads=12).tables()).matches[0].command
    'pecli alibi --heads 12 --slopes -o again.npy'
    """
    path, file = opened(source)
    with file:
        tables = [table_of(name, array) for name, array in file.tensors.items()]
        file.check(table.name for group in groups(tables) for table in group)
        for table in _lines(tables[0]) if file.format == "csv" else ():
            found = identify_tables(path, [table])
            if found.identified:
                return found
        return identify_tables(path, tables)


def identify_tables(file: str, tables: Sequence[Table]) -> Identification:
    """The same for tables of an open file, under the name that it was asked for by."""
    chosen = groups(tables)
    if not chosen:
        none = "it holds no tensor" if not tables else ""
        many = f"it holds {len(tables)} tensors, and no name speaks of positions: name one, as {file or 'FILE'}:NAME"
        return Identification(file, (), (none or many,))
    matches: list[Match] = []
    description: list[str] = []
    while chosen:
        group = chosen.pop(0)
        if found := _matches(group) or _matches(_apart(group)):
            matches += found
        elif len(group) > 1:  # what is no pair may still be something alone
            chosen[:0] = [[table] for table in group]
        else:
            description += describe(sample(group[0].name, group[0].array()))
    return Identification(file, tuple(_merged(matches)), tuple(description))


def _apart(group: Sequence[Table]) -> list[Table]:
    """Rows of cosines and rows of sines after each other, or the other way round, as two tables in one."""
    first, *others = group
    if others or len(first.shape) != 2 or first.rows % 2 or first.size > MAX_FULL_READ or not is_floating(first):
        return []
    both = reshaped(first, (2, first.rows // 2, first.width))
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (widened(both.array()) ** 2).sum(axis=0)
        return [both] if squares.size and np.ptp(squares) < SQUARES * squares.max() else []


def _matches(group: Sequence[Table]) -> list[Match]:
    if not group or not all(table.size for table in group):
        return []
    if len(group) == 1 and (match := _by_first_rows(group[0])) is not None:
        return [match]
    tables = {table.name: table for table in group}
    found = [
        _match(each, tables)
        for each in recognise({name: table.array() for name, table in tables.items()})
        if each.scheme is not None
    ]
    return [each for each in found if each.runtimes] or found


def _by_first_rows(table: Table) -> Match | None:
    """What makes a table of many rows, where the first of them tell it, and all others are bit for bit what they should
    be. That takes a fraction of a search in all of them.
    """
    if len(table.shape) != 2 or not MIN_ELEMENTS <= table.size <= MAX_FULL_READ or table.dtype not in _DTYPES:
        return None
    first = replace(table, shape=(FIRST_ROWS, table.width))
    if table.rows < MEASURED_ROWS or not has_waves(widened(first.array())):
        return None
    found = recognise({table.name: first.array()})
    if len(found) != 1 or found[0].open or not all(isinstance(edit, Layout) for edit in found[0].edits):
        return None
    scheme: Any = found[0].scheme
    if getattr(scheme, "seq_len", None) != FIRST_ROWS:
        return None
    scheme, values = replace(scheme, dtype=table.dtype, seq_len=table.rows), table.array()
    for made in (scheme.single_array(), *scheme.tensors()):
        if made.shape == table.shape and made.dtype == table.dtype and _same_bits(made.array(), values):
            wide = scheme.in_dtype("float64")
            exact = {each.name: each for each in (wide.single_array(), *wide.tensors())}[made.name]
            error = float(np.abs(widened(exact.read(0, MEASURED_ROWS)) - widened(values[:MEASURED_ROWS])).max())
            told = replace(found[0], scheme=scheme, residual=max(error, found[0].residual))
            return _match(told, {table.name: table})
    return None


def _same_bits(one: Array, other: Array) -> bool:
    return np.array_equal(one.view(f"u{one.itemsize}"), other.view(f"u{other.itemsize}"))


def _match(found: Explanation, tables: Mapping[str, Table]) -> Match:
    """The match as a recipe or a runtime computes it, where one makes these tables."""
    scheme, edits, residual = found.scheme, found.edits, found.residual
    assert scheme is not None
    how = [edit.found for edit in edits if isinstance(edit, Recipe)]
    runtimes: list[str] = []
    if scheme.runtime_names():
        samples = {name: sample(name, tables[name].array()) for name in found.tensors}
        computed = explain_computed(scheme.computed_as("exact"), samples)
        if computed is not None:
            recipes = [edit.found for edit in computed.edits if isinstance(edit, Recipe)]
            runtimes = [
                name for each in computed.edits if isinstance(each, Runtime) for name in (each.found, *each.also)
            ]
            how, residual = [*recipes, *runtimes], computed.residual
            edits = tuple(edit for edit in edits if not isinstance(edit, Noise))
    scheme = scheme.computed_as(how[0]) if how else scheme
    edits = tuple(edit for edit in edits if not isinstance(edit, Recipe))
    return Match(scheme, residual, found.tensors, edits, found.open, tuple(runtimes))


def groups(tables: Sequence[Table]) -> list[list[Table]]:
    """The tensors to look at, cosines with their sines; none where many are there and no name speaks of positions."""
    chosen = list(tables)
    if len(tables) > MAX_UNNAMED:
        chosen = [table for table in tables if _POSITIONAL.search(table.name)][:MAX_TENSORS]
    left = {table.name: table for table in chosen}
    found = []
    for cos, sin in named_pairs([table.name for table in chosen]):
        if cos in left and sin in left and left[cos].shape == left[sin].shape and left[cos].dtype == left[sin].dtype:
            found.append([left.pop(cos), left.pop(sin)])
    return found + [[table] for table in left.values()]


def _merged(matches: Iterable[Match]) -> list[Match]:
    """Matches of one law made into one, of all their tensors: frequencies belong to their table, slopes to the bias."""
    merged: list[Match] = []
    for match in matches:
        same = (
            each for each in merged if _same_law(each.scheme, match.scheme) and not {*each.tensors} & {*match.tensors}
        )
        other = next(same, None)
        if other is None:
            merged.append(match)
            continue
        main = max(other, match, key=lambda each: (bool(getattr(each.scheme, "seq_len", 0)), len(each.tensors)))
        errors = max(match.max_abs_error, other.max_abs_error)
        merged[merged.index(other)] = replace(main, tensors=(*other.tensors, *match.tensors), max_abs_error=errors)
    return merged


_PLACES = ("seq_len", "offset", "layout", "form", "slopes", "length", "attention_factor")


def _same_law(one: Scheme, other: Scheme) -> bool:
    """Whether two schemes differ by rows and layout alone."""
    return one.name == other.name and not any(parameter_edits(one, other, _PLACES))


def _lines(lines: Table) -> Iterator[Table]:
    """Lines of text in every dtype that their decimals are the shortest of, in the shapes whose rows they can be."""
    for dtype in (*_DTYPES, "float64"):
        table = cast(lines, dtype)
        if dtype == "float64" or _is_spelt_in(lines, table):
            yield table
            rows, width = table.rows, table.width
            if rows % 2 == 0:  # cosines, then sines
                yield reshaped(table, (2, rows // 2, width))
            if rows % width == 0:  # the biases of heads
                yield reshaped(table, (rows // width, width, width))


def _is_spelt_in(lines: Table, table: Table) -> bool:
    """Whether decimals are those that pecli, or NumPy, would write for the dtype of the table."""
    some = min(lines.rows, max(1, _MAX_SPELT // max(1, lines.width)))
    again = [float(text) for text in numerals(table.read(0, some))]
    return np.array_equal(again, lines.read(0, some).reshape(-1), equal_nan=True)
