"""An unknown table, or a file of them: what made it, or what can be said of it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.compare.forms import from_integers
from pecli.compare.waves import row_widths, wave_readings
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, dtype_name, round_to, widened
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.scheme import Scheme, runtime_names
from pecli.explain.edits import (
    Edit,
    Explanation,
    Incomplete,
    Layout,
    Noise,
    Recipe,
    Runtime,
    parameter_edits,
)
from pecli.explain.recipe_search import explain_computed
from pecli.explain.sample import MAX_FULL_READ, sample
from pecli.explain.search import recognise
from pecli.explain.sinusoid_readings import finished, groups
from pecli.explain.time_limit import limited, time_limit
from pecli.explain.words import (
    NOTHING,
    Context,
    clause,
    command_of,
    describe,
    lacking,
    undetermined,
)
from pecli.files.contents import LoadedFile
from pecli.files.decimals import numerals
from pecli.files.load import Given, opened
from pecli.files.tensor_roles import role_of

MAX_UNNAMED = 8  #: a file of so many tensors is looked at whole; of more, only those whose names speak of positions
MAX_VECTOR = (
    1 << 13
)  #: elements of a vector that may be frequencies or slopes: no model has as many
MAX_TENSORS = 256  #: tensors that are looked at in one file
_POSITIONAL = re.compile(
    r"(^|[^a-z])(pos|pe|wpe|rope|rotary|alibi|slopes?|inv_?freqs?|freqs?|cos|sin|relative|time_?embed\w*)([^a-z]|$)"
    r"|pos_?emb|position|rotary|rope_|alibi|inv_freq|freqs_cis|rel_pos|relative_attention_bias|time_proj",
    re.IGNORECASE,
)
_DTYPES = (
    "float32",
    "float16",
    "bfloat16",
)  #: of lines of text: the likeliest first; float64 is what is left
_MAX_SPELT = 4096
_PLACES = ("seq_len", "offset", "layout", "form", "slopes", "length", "attention_factor")
"""Parameters by which tables of one law may differ."""


@dataclass(frozen=True)
class Match:
    """One explanation: the scheme with every parameter, how far the table is from it, and what stays open."""

    scheme: Scheme
    max_abs_error: float  #: of the elements that were looked at, but for rows and columns that edits name as wrong
    tensors: tuple[str, ...]  #: which tensors of the file it explains
    edits: tuple[Edit, ...] = ()  #: how the file differs from the scheme's own tables
    undetermined: tuple[str, ...] = ()  #: what the data do not decide, a sentence each
    runtimes: tuple[str, ...] = ()  #: the runtimes that compute such a table

    @property
    def recipe(self) -> str:
        return str(self.scheme.value_of("recipe", "exact"))

    @property
    def form(self) -> str:
        """The edits in words."""
        return ", ".join(clause(edit, Context(NOTHING)) for edit in self.edits)

    @property
    def lacking(self) -> tuple[Edit, ...]:
        """The edits that the command does not make."""
        return lacking(self.edits, self.scheme)

    @property
    def command(self) -> str:
        return command_of(self.scheme, len(self.tensors))

    def as_json(self) -> JsonObject:
        fields = (
            "recipe",
            "runtimes",
            "max_abs_error",
            "command",
            "tensors",
            "edits",
            "form",
            "undetermined",
        )
        return {**self.scheme.spec(), **plain_fields(self, *fields)}


@dataclass(frozen=True, repr=False)
class Identification(Answer):
    """The explanations of tables, the best first, and sentences about tables that have none."""

    file: str
    matches: tuple[Match, ...]
    description: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.matches)

    identified = passed

    def words(self) -> tuple[str, ...]:
        return (self.file, *(match.command for match in self.matches), *self.description)

    def as_json(self) -> JsonObject:
        return plain_fields(self, "file", "identified", "matches", "description")


def identify(source: Given) -> Identification:
    """Say which scheme makes a table: that of a file (or FILE:NAME), an array, or arrays by name.

    >>> import pecli
    >>> identify(pecli.Alibi(heads=12).tables()).matches[0].command
    'pecli alibi --heads 12 --slopes -o again.npy'
    """
    path, file = opened(source)
    for tensors in _printed_readings(file):
        found = identify_tensors(path, tensors)
        if found.identified:
            return found
    return identify_tensors(path, file.tensors)


def _printed_readings(file: LoadedFile) -> Iterator[Mapping[str, Array]]:
    """Yield the numbers of a text in the dtypes and shapes that they may have had; none for other files."""
    if file.printed is None:
        return
    if file.has_rows_only and len(file.tensors) == 1:
        ((name, lines),) = file.tensors.items()
        if lines.ndim == 2:
            for array in _lines(lines):
                yield {name: array}
            return
    for dtype in _DTYPES:
        yield file.read_as(dtype).tensors


def identify_tensors(file: str, tensors: Mapping[str, Array]) -> Identification:
    """Identify the tensors of an open file; `file` is the name that the user gave it."""
    named = [name for name in tensors if len(tensors) <= MAX_UNNAMED or _POSITIONAL.search(name)]
    chosen = groups({name: tensors[name] for name in named[:MAX_TENSORS]})
    if not chosen:
        none = "it holds no tensor" if not tensors else ""
        many = f"it holds {len(tensors)} tensors, and no name speaks of positions: name one, as {file or 'FILE'}:NAME"
        return Identification(file, (), (none or many,))
    matches: list[Match] = []
    description: list[str] = []
    for group in chosen:
        with time_limit():  # for what belongs together, and for each tensor of it alone
            found = _first_matches(group)
            for name, array in group.items() if not found else ():
                alone = _first_matches({name: array}) if len(group) > 1 else []
                found = [*found, *alone]
                description += describe(sample(name, array)) if not alone else []
        matches += found
    return Identification(file, tuple(_merged(matches)), tuple(description))


def _first_matches(group: Mapping[str, Array]) -> list[Match]:
    return next(filter(None, map(_matches, _views(group))), [])


def _views(group: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """Tensors as they are, integers with their scale, without axes of length 1, and flat ones in rows."""
    if all(array.size <= MAX_FULL_READ for array in group.values()) and (
        numbers := from_integers(group)
    ):
        yield numbers
    yield group
    if any(1 in array.shape for array in group.values()):
        yield {name: np.squeeze(array) for name, array in group.items() if array.size > 1}
    for width in sorted(set.intersection(*({*row_widths(array)} for array in group.values()))):
        yield {name: array.reshape(-1, width) for name, array in group.items()}


def _matches(group: Mapping[str, Array]) -> list[Match]:
    if not group or not all(array.size for array in group.values()):
        return []
    if any(max(array.shape, default=1) == array.size > MAX_VECTOR for array in group.values()):
        return []
    found = [
        _match(each, each.scheme, group) for each in recognise(group) if each.scheme is not None
    ]
    if not found and len(group) == 1:
        found = _by_parts(*next(iter(group.items())))
    if any(role_of(name) == "both" for name in group):
        found.sort(key=lambda match: match.scheme.applied_as != "rotation")
    return [each for each in found if each.runtimes] or found


def _by_parts(name: str, array: Array) -> list[Match]:
    """Return the matches of the cosines and sines in complex numbers, matrices, or angles."""
    for edit, parts in _parts(array):
        found = recognise(dict(zip(("cos", "sin"), parts, strict=True)))
        told = [(each, each.scheme) for each in found if each.scheme is not None]
        if told:
            return [
                Match(scheme, each.residual, (name,), (edit, *each.edits), undetermined(each))
                for each, scheme in told
            ]
    return []


def _parts(array: Array) -> Iterator[tuple[Edit, tuple[Array, Array]]]:
    is_complex = array.dtype.kind == "c"
    if (
        (dtype_name(array.dtype) not in SIGNIFICAND_BITS and not is_complex)
        or array.ndim < 2
        or len(array) < 2
    ):
        return
    for reading in wave_readings(array) if array.size <= MAX_FULL_READ else ():
        if reading.has_equal_copies():
            (_, cos), (_, sin) = reading.pairs().values()
            yield Layout("compact", "complex" if is_complex else reading.form.name), (cos, sin)
    angles = [
        sample(name, array, whole=True) for name in ("cos", "sin") if array.ndim == 2
    ]  # of lines, row to row
    taken = [one.values for each in angles for one in finished("angles", each)]
    if len(taken) == 2:
        yield Incomplete("angles"), (taken[0], taken[1])


def _match(found: Explanation, scheme: Scheme, tensors: Mapping[str, Array]) -> Match:
    """The match as a recipe or a runtime computes it, where one makes these tables."""
    edits, residual = [edit for edit in found.edits if not isinstance(edit, Recipe)], found.residual
    how = [edit.found for edit in found.edits if isinstance(edit, Recipe)]
    runtimes: list[str] = []
    if runtime_names(type(scheme)):
        samples = {name: sample(name, tensors[name]) for name in found.tensors}
        computed = None
        with limited():  # what there is no time for is not claimed
            computed = explain_computed(scheme.computed_as("exact"), samples)
        if computed is not None:
            recipes = [edit.found for edit in computed.edits if isinstance(edit, Recipe)]
            known = [edit for edit in computed.edits if isinstance(edit, Runtime)]
            runtimes = [name for edit in known for name in (edit.found, *edit.also)]
            how, residual = [*recipes, *runtimes], computed.residual
            edits = [edit for edit in edits if not isinstance(edit, Noise)]
    scheme = scheme.computed_as(how[0]) if how else scheme
    return Match(
        scheme, residual, found.tensors, tuple(edits), undetermined(found), tuple(runtimes)
    )


def _is_alone(edit: Edit) -> bool:
    """Return True if a table has only cosines, or only sines; another tensor has the others."""
    return isinstance(edit, Layout) and edit.found.endswith(" alone")


def _merged(matches: Iterable[Match]) -> list[Match]:
    """Matches that differ by rows and layout alone made into one: frequencies belong to their table, as slopes do;
    cosines and sines that are not two parts of one table stay apart."""
    merged: list[Match] = []
    for match in matches:
        for number, other in enumerate(merged):
            alike = other.scheme.name == match.scheme.name and not {*other.tensors} & {
                *match.tensors
            }
            halves = any(map(_is_alone, other.edits)) and any(map(_is_alone, match.edits))
            layouts = {each.scheme.value_of("layout", "") for each in (other, match)}
            alike = alike and not (halves and len(layouts) > 1)
            if alike and not any(parameter_edits(other.scheme, match.scheme, _PLACES)):
                main = max(
                    other,
                    match,
                    key=lambda each: (bool(each.scheme.value_of("seq_len", 0)), len(each.tensors)),
                )
                error = max(match.max_abs_error, other.max_abs_error)
                edits = tuple(edit for edit in main.edits if not (halves and _is_alone(edit)))
                names = (*other.tensors, *match.tensors)
                merged[number] = replace(main, tensors=names, max_abs_error=error, edits=edits)
                break
        else:
            merged.append(match)
    return merged


def _lines(lines: Array) -> Iterator[Array]:
    """Lines of text in every dtype that their decimals are the shortest of, in the shapes whose rows they can be."""
    rows, width = lines.shape
    some = lines[: max(1, _MAX_SPELT // max(1, width))]
    for dtype in (*_DTYPES, "float64"):
        array = round_to(widened(lines), dtype)
        spelt = [float(text) for text in numerals(array[: len(some)])]
        if dtype == "float64" or np.array_equal(spelt, some.reshape(-1), equal_nan=True):
            yield array
            if rows % 2 == 0:  # cosines, then sines
                yield array.reshape(2, rows // 2, width)
            if width and rows % width == 0:  # the biases of heads
                yield array.reshape(rows // width, width, width)
