"""Identification of a table that nothing is known of, or of a file of them."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.checks.text_readings import find_readings_of_text
from pecli.compare.forms import from_integers
from pecli.compare.waves import find_row_widths
from pecli.engine.arguments import within_limits
from pecli.engine.arrays import Array, widened
from pecli.engine.edits import ONLY_FUNCTION_BY_EDIT, Dtype, Edit, Incomplete, Recipe, Runtime
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.description import MAX_FULL_READ, describe
from pecli.explain.explanation import Explanation
from pecli.explain.recognition import groups, is_vector, priors_of, recognise
from pecli.explain.schedule_priors import SchedulePrior
from pecli.explain.time_limit import time_limit
from pecli.explain.unfinished import are_angles
from pecli.explain.words import (
    NOTHING,
    Context,
    clause,
    command_of,
    not_made_by_command,
    undetermined,
)
from pecli.files.load import Given, opened
from pecli.files.tensor_roles import role_of

MAX_UNNAMED = 8
"""Tensors of a file that are all looked at; of more, only those whose names speak of positions."""

MAX_TENSORS = 256
"""Tensors that are looked at in one file."""

_POSITIONAL = re.compile(
    r"(^|[^a-z])(pos|pe|wpe|rope|rotary|alibi|slopes?|inv_?freqs?|freqs?|cos|sin|relative|time_?embed\w*)([^a-z]|$)"
    r"|pos_?emb|position|rotary|rope_|alibi|inv_freq|freqs_cis|rel_pos|relative_attention_bias|time_proj",
    re.IGNORECASE,
)

_ROW_PARAMETERS = ("seq_len", "offset", "layout", "form", "slopes", "length", "attention_factor")
"""Parameters that choose the rows of a table and their arrangement, not its frequencies or slopes."""

CUT_OFF = "the time limit ended the search: a scheme that was not tried may make these numbers"

_STORAGE = ("dtype", "recipe")  #: parameters that state how numbers were rounded


@dataclass(frozen=True)
class Match:
    """A scheme that makes tensors of a file.

    Attributes:
        scheme: The scheme with every parameter.
        max_abs_error: The largest error of an element; rows and columns that edits name as wrong are left out.
        tensors: The tensors that it explains.
        edits: How the file differs from the scheme's own tables.
        undetermined: What the data do not decide, a sentence each.
        runtimes: The runtimes that compute such a table.
    """

    scheme: Scheme
    max_abs_error: float
    tensors: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    undetermined: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        return str(self.scheme.value_of("recipe", "exact"))

    @property
    def form(self) -> str:
        """The edits in words."""
        return ", ".join(clause(edit, Context(NOTHING)) for edit in self.edits)

    @property
    def only_functions(self) -> set[str]:
        """The function of tensors that are cosines only, or sines only: {"cos"}; empty for others."""
        return {ONLY_FUNCTION_BY_EDIT[edit] for edit in self.edits if edit in ONLY_FUNCTION_BY_EDIT}

    @property
    def has_length(self) -> bool:
        """True if the tensors state a number of rows.

        Vectors do not: `inv_freq` is identified as a table of one row, and `slopes` without a length.
        """
        return self.scheme.value_of("seq_len") not in (None, 1)

    @property
    def lacking(self) -> tuple[Edit, ...]:
        """The edits that the command does not make: it writes the numbers as the scheme's dtype holds them.

        A command makes no mistakes such as negated sines, and rounds to no coarser numbers, such as
        those of bfloat16 in a float32 file.
        """
        dtype = Dtype(self.scheme.dtype)
        other_roundings = [edit for edit in self.edits if edit.storage and edit != dtype]
        not_made = not_made_by_command(self.edits, self.scheme)
        return tuple(dict.fromkeys((*not_made, *other_roundings)))

    @property
    def command(self) -> str:
        return command_of(self.scheme, len(self.tensors))

    def as_json(self) -> JsonObject:
        """Return one of the `matches` that `pecli identify --json` prints."""
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
    """The schemes of a file's tensors, the best first, and sentences about tensors that have none."""

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


@within_limits
def identify(source: Given) -> Identification:
    """Return the scheme that makes a table: of a file (or FILE:NAME), an array, or arrays by name.

    >>> import pecli
    >>> identify(pecli.Alibi(heads=12).tables()).matches[0].command
    'pecli alibi --heads 12 --slopes -o again.npy'
    """
    path, file = opened(source)
    for tensors in (*find_readings_of_text(file), file.tensors):
        found = identify_tensors(path, tensors)
        if found.identified:
            break
    return found


def identify_tensors(file: str, tensors: Mapping[str, Array]) -> Identification:
    """Find the schemes that make the tensors of a file: rope with base 10000, ALiBi for 12 heads.

    Of a checkpoint with hundreds of tensors, only those are tried whose names speak of positions.

    Args:
        file: The name of the file, as the user gave it.
        tensors: Its tensors.
    """
    if not tensors:
        return Identification(file=file, matches=(), description=("it holds no tensor",))
    names = _find_positional_names(tensors)
    if not names:
        advice = f"no name speaks of positions: name one, as {file or 'FILE'}:NAME"
        sentence = f"it holds {len(tensors)} tensors, and {advice}"
        return Identification(file=file, matches=(), description=(sentence,))
    matches: list[Match] = []
    description: list[str] = []
    for group in _identify_groups(groups({name: tensors[name] for name in names})):
        matches += group.matches
        description += group.description
    return Identification(
        file=file, matches=tuple(_merge_matches(matches)), description=tuple(description)
    )


def _find_positional_names(tensors: Collection[str]) -> list[str]:
    """Return the tensors to look at: all of a few, or those whose names speak of positions."""
    if len(tensors) <= MAX_UNNAMED:
        return [*tensors]
    return [name for name in tensors if _POSITIONAL.search(name)][:MAX_TENSORS]


class _IdentifiedGroup(NamedTuple):
    """The matches of tensors that belong together, and sentences about those that have none."""

    matches: list[Match]
    description: list[str]


def _identify_groups(groups_of_file: Sequence[Mapping[str, Array]]) -> list[_IdentifiedGroup]:
    """Find the schemes of all groups of a file, and return them in the order of the groups.

    Vectors of frequencies are identified first, as their numbers are sharper than those that tables
    show: `inv_freq` in float64 has 15 digits of a base, of which cosines in bfloat16 show four. The
    bases of vectors are then tried for the tables.
    """
    # False, for a vector, is sorted before True, for a table.
    vectors_first = sorted(enumerate(groups_of_file), key=lambda item: _is_table(item[1]))
    identified: dict[int, _IdentifiedGroup] = {}
    schedules: list[SchedulePrior] = []
    for number, group in vectors_first:
        identified[number] = _identify_group(group, schedules)
        if not _is_table(group):
            schedules += _find_schedules(identified[number])
    return [identified[number] for number in sorted(identified)]


def _find_schedules(vectors: _IdentifiedGroup) -> Iterator[SchedulePrior]:
    """Yield the schedules of identified frequencies, which tables of the same file may have as well."""
    for match in vectors.matches:
        yield from priors_of(match.scheme, match.undetermined)


def _is_table(group: Mapping[str, Array]) -> bool:
    """Return True unless a group is one vector, such as `inv_freq`."""
    return not all(map(is_vector, group.values()))


def _identify_group(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> _IdentifiedGroup:
    """Find the scheme of tensors that belong together, such as `cos` and `sin` of one module.

    If no scheme makes them together, each is identified by itself. All of this shares one time limit.

    Args:
        group: The tensors, by name.
        schedules: The schedules of frequencies in vectors of the same file.
    """
    with time_limit() as limit:
        identified = _identify_together_or_apart(group, schedules)
    if limit.has_ended_search:
        _add_doubt(identified)
    return identified


def _add_doubt(identified: _IdentifiedGroup) -> None:
    """Add to the answer of a search that the time limit ended a sentence on that.

    Another run, on a faster machine, may have another answer.
    """
    for number, match in enumerate(identified.matches):
        identified.matches[number] = replace(match, undetermined=(*match.undetermined, CUT_OFF))
    if identified.description:
        identified.description.append(CUT_OFF)


def _identify_together_or_apart(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> _IdentifiedGroup:
    """Return the schemes that make tensors together, or else the schemes of each tensor.

    One rope makes `cos` and `sin` together. A tensor that no scheme makes is described:
    «pe: 64 × 8, float64, from -1 to 1, std 0.71».

    Args:
        group: The tensors, by name.
        schedules: The schedules of frequencies in vectors of the same file.
    """
    identified = _IdentifiedGroup(_find_first_matches(group, schedules), [])
    if identified.matches:
        return identified
    if len(group) == 1:
        ((name, array),) = group.items()
        identified.description.append(describe(name, array))
        return identified
    for name, array in group.items():
        matches, description = _identify_together_or_apart({name: array}, schedules)
        identified.matches.extend(matches)
        identified.description.extend(description)
    return identified


class _Reading(NamedTuple):
    """A way to read tensors of one module."""

    tensors: Mapping[str, Array]
    edits: tuple[Edit, ...] = ()
    """What the file holds instead, such as angles for their cosines."""


def _find_first_matches(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> list[Match]:
    """Return the matches of the first way to read tensors that has any.

    A vector of 8192 numbers has none as it is, and one as 128 rows of 64 cosines.

    Args:
        group: The tensors, by name.
        schedules: The schedules of frequencies in vectors of the same file.
    """
    for reading in _find_ways_to_read(group):
        matches = [
            _make_match(explanation, tuple(group), reading.edits)
            for explanation in recognise(reading.tensors, schedules)
        ]
        if matches:
            return _likeliest_first(matches)
    return []


def _find_ways_to_read(group: Mapping[str, Array]) -> Iterator[_Reading]:
    """Yield the ways to read tensors of one module, which have the same shape, the likeliest first.

    First come the tensors as they are. Integers may stand for other numbers, as 127 in int8 does for 1.0.
    Then come the cosines and sines of angles, and all tensors in rows of the same width, if they were
    written without their shape: 8192 numbers as (128, 64).
    """
    first, *others = group.values()
    if not first.size:
        return
    yield _Reading(group)
    if first.size <= MAX_FULL_READ:
        yield _Reading(from_integers(group))
        if not others:
            yield from _read_angles(first)
    for width in sorted(find_row_widths(first)):
        yield _Reading({name: array.reshape(-1, width) for name, array in group.items()})


def _read_angles(array: Array) -> Iterator[_Reading]:
    """Yield the cosines and sines of a table that holds angles (position × frequency), if it does.

    Some programs store `freqs` (L, d/2) and take cosines and sines of it later.
    """
    is_table_of_floats = array.dtype.kind == "f" and array.ndim == 2
    if is_table_of_floats and are_angles(widened(array)):
        angles = widened(array)
        cos = np.cos(angles).astype(array.dtype)
        sin = np.sin(angles).astype(array.dtype)
        yield _Reading({"cos": cos, "sin": sin}, (Incomplete("angles"),))


def _likeliest_first(matches: list[Match]) -> list[Match]:
    """Return the matches of some tensors, the likeliest first.

    A rotation and a sinusoidal table may have the same values. Names such as `freqs_cis`, which state
    cosines and sines in one array, mean a rotation.
    """
    if any(role_of(name) == "both" for name in matches[0].tensors):
        # False comes before True: rotations are first, and others keep their order.
        matches.sort(key=lambda match: match.scheme.applied_as != "rotation")
    return matches


def _make_match(
    explanation: Explanation, tensors: tuple[str, ...], edits_of_reading: tuple[Edit, ...]
) -> Match:
    """Return the scheme that explains tensors, as `identify` reports it.

    An explanation lists everything by which tensors differ from the scheme's own tables (its edits).
    Two kinds of them are reported elsewhere: the rounding recipe is a parameter of the scheme, and
    the runtimes that compute such tables have a field of their own.

    Args:
        explanation: The explanation of the tensors as they were read.
        tensors: Their names in the file.
        edits_of_reading: What the file holds instead of what was read.
    """
    assert explanation.scheme is not None  # Tables are recognised by the scheme that makes them.
    runtimes: tuple[str, ...] = ()
    edits = [*edits_of_reading]
    for edit in explanation.edits:
        if isinstance(edit, Runtime):
            runtimes = (edit.found, *edit.also)
        elif not isinstance(edit, Recipe):
            edits.append(edit)
    return Match(
        scheme=explanation.scheme,
        max_abs_error=explanation.residual,
        tensors=tensors,
        edits=tuple(edits),
        undetermined=undetermined(explanation),
        runtimes=runtimes,
    )


def _merge_matches(matches: Iterable[Match]) -> list[Match]:
    """Return one match for all tensors of the same table.

    `inv_freq` belongs to the cosines that have these frequencies, and `slopes` to their bias. So a
    file with `cos`, `sin` and `inv_freq` has one match, whose command writes all three. Cosines and
    sines in two layouts are two tables.
    """
    merged: list[Match] = []
    for match in matches:
        for number, earlier in enumerate(merged):
            if _are_parts(earlier, match):
                merged[number] = _join_matches(earlier, match)
                break
        else:  # It is of no table that another match is of.
            merged.append(match)
    return merged


def _are_parts(first: Match, second: Match) -> bool:
    """Return True if two matches are of different tensors of one table.

    Their schemes are of one kind and compute the same function of the position. Rope(seq_len=64, dim=32)
    and Rope(seq_len=128, dim=32, dtype="float16") do: rows and rounding differ, and frequencies do not.
    Cosines in halves and sines interleaved are of two tables: a program that reads both needs one layout.
    """
    share_tensors = not set(first.tensors).isdisjoint(second.tensors)
    if first.scheme.name != second.scheme.name or share_tensors:
        return False
    without_effect = first.scheme.inert_parameters & second.scheme.inert_parameters
    compared = first.scheme.parameters().keys() - {*_ROW_PARAMETERS, *_STORAGE, *without_effect}
    if first.only_functions and second.only_functions:
        compared |= {"layout"} & first.scheme.parameters().keys()
    return all(first.scheme.value_of(name) == second.scheme.value_of(name) for name in compared)


def _join_matches(first: Match, second: Match) -> Match:
    """Return one match for the tensors of two matches, which belong to the same table.

    A match holds the scheme that was found for some tensors. `inv_freq` shows no number of rows, but
    cosines do: the scheme of the cosines is taken for both.
    """
    # The match that states a number of rows; of two such matches, that with more tensors.
    preferred = max(first, second, key=lambda match: (match.has_length, len(match.tensors)))
    edits = preferred.edits
    if len(first.only_functions | second.only_functions) == 2:
        # Together they have cosines and sines, so that «cosines only» or «sines only» is dropped.
        edits = tuple(edit for edit in edits if edit not in ONLY_FUNCTION_BY_EDIT)
    return replace(
        preferred,
        tensors=(*first.tensors, *second.tensors),
        max_abs_error=max(first.max_abs_error, second.max_abs_error),
        edits=edits,
    )
