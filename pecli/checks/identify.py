"""Identification of a table that nothing is known of, or of a file of them."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
    def holds_one_function(self) -> bool:
        """True if its tensors are cosines only, or sines only; another tensor has the others."""
        return bool(self.only_functions)

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
        not_made = not_made_by_command(self.edits, self.scheme)
        rounding_of_dtype = Dtype(self.scheme.dtype)
        lacking = []
        for edit in self.edits:
            is_other_rounding = edit.storage and edit != rounding_of_dtype
            if edit in not_made or is_other_rounding:
                lacking.append(edit)
        return tuple(lacking)

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
    for tensors in find_readings_of_text(file):
        found = identify_tensors(path, tensors)
        if found.identified:
            return found
    return identify_tensors(path, file.tensors)


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
        description = f"it holds {len(tensors)} tensors, and {advice}"
        return Identification(file=file, matches=(), description=(description,))
    identified = _identify_groups(groups({name: tensors[name] for name in names}))
    matches = chain.from_iterable(group.matches for group in identified)
    sentences = chain.from_iterable(group.description for group in identified)
    return Identification(
        file=file, matches=tuple(_merge_matches(matches)), description=tuple(sentences)
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
    return _with_doubt(identified) if limit.has_ended_search else identified


def _identify_together_or_apart(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> _IdentifiedGroup:
    """Return the schemes that make tensors together, or else the schemes of each tensor.

    One rope makes `cos` and `sin` together. A tensor that no scheme makes is described by its shape
    and values.

    Args:
        group: The tensors, by name.
        schedules: The schedules of frequencies in vectors of the same file.
    """
    matches = _find_first_matches(group, schedules)
    if matches:
        return _IdentifiedGroup(matches, [])
    if len(group) > 1:
        return _identify_one_by_one(group, schedules)
    ((name, array),) = group.items()  # A single tensor has been tried already.
    return _IdentifiedGroup([], [describe(name, array)])


def _with_doubt(identified: _IdentifiedGroup) -> _IdentifiedGroup:
    """Return the answer of a search that the time limit ended, with a sentence on that.

    Another run, on a faster machine, may have another answer.
    """
    matches = [
        replace(match, undetermined=(*match.undetermined, CUT_OFF)) for match in identified.matches
    ]
    description = [*identified.description, CUT_OFF] if identified.description else []
    return _IdentifiedGroup(matches, description)


def _identify_one_by_one(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> _IdentifiedGroup:
    """Find the scheme of each tensor of a group that no scheme makes as a whole.

    A tensor that no scheme makes is described: «pe: 64 × 8, float64, from -1 to 1, std 0.71».
    """
    matches: list[Match] = []
    description: list[str] = []
    for name, array in group.items():
        matches_of_tensor = _find_first_matches({name: array}, schedules)
        matches += matches_of_tensor
        if not matches_of_tensor:
            description.append(describe(name, array))
    return _IdentifiedGroup(matches, description)


def _find_first_matches(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> list[Match]:
    """Return the matches of the first way to read tensors that has any; none for empty tensors.

    A vector of 8192 numbers has none as it is, and one as 128 rows of 64 cosines.

    Args:
        group: The tensors, by name.
        schedules: The schedules of frequencies in vectors of the same file.
    """
    if not all(array.size for array in group.values()):
        return []
    for tensors in _find_ways_to_read(group):
        matches = _find_matching_schemes(tensors, schedules)
        if matches:
            return matches
    return []


def _find_ways_to_read(group: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """Yield the ways to read tensors of one module, the likeliest first.

    Integers stand for other numbers, as 127 in int8 does for 1.0; that is tried unless there are too
    many elements. Then come the tensors as they are, and then all of them in rows of the same width,
    if they were written without their shape: 8192 numbers as (128, 64).
    """
    if all(array.size <= MAX_FULL_READ for array in group.values()):
        numbers = from_integers(group)
        if numbers:
            yield numbers
    yield group
    widths_by_tensor = [{*find_row_widths(array)} for array in group.values()]
    for width in sorted(set.intersection(*widths_by_tensor)):
        yield {name: array.reshape(-1, width) for name, array in group.items()}


def _find_matching_schemes(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> list[Match]:
    """Return the schemes that make some tensors, the likeliest first.

    A rotation and a sinusoidal table may have the same values. Names such as `freqs_cis`, which state
    cosines and sines in one array, mean a rotation.
    """
    matches = _recognise_schemes(group, schedules)
    if any(role_of(name) == "both" for name in group):
        # False comes before True: rotations are first, and others keep their order.
        matches.sort(key=lambda match: match.scheme.applied_as != "rotation")
    # If vLLM computes just these numbers, other schemes that come near to them are not meant.
    by_runtime = [match for match in matches if match.runtimes]
    return by_runtime or matches


def _recognise_schemes(
    group: Mapping[str, Array], schedules: Sequence[SchedulePrior]
) -> list[Match]:
    """Return the schemes that make some tensors, or the cosines and sines of angles that a tensor holds."""
    matches = [_make_match(explanation) for explanation in recognise(group, schedules)]
    if matches or len(group) > 1:
        return matches
    ((name, array),) = group.items()
    return _match_angles(name, array, schedules)


def _make_match(explanation: Explanation) -> Match:
    """Return the scheme that explains tensors, as `identify` reports it.

    An explanation lists everything by which tensors differ from the scheme's own tables (its edits).
    Two kinds of them are reported elsewhere: the rounding recipe is a parameter of the scheme, and
    the runtimes that compute such tables have a field of their own.
    """
    assert explanation.scheme is not None  # Tables are recognised by the scheme that makes them.
    runtimes: tuple[str, ...] = ()
    for edit in explanation.edits:
        if isinstance(edit, Runtime):
            runtimes = (edit.found, *edit.also)
    reported_elsewhere = (Runtime, Recipe)
    edits = [edit for edit in explanation.edits if not isinstance(edit, reported_elsewhere)]
    return Match(
        scheme=explanation.scheme,
        max_abs_error=explanation.residual,
        tensors=explanation.tensors,
        edits=tuple(edits),
        undetermined=undetermined(explanation),
        runtimes=runtimes,
    )


def _match_angles(name: str, array: Array, schedules: Sequence[SchedulePrior]) -> list[Match]:
    """Return the schemes of a table that holds angles (position × frequency), not their cosines.

    Some programs store `freqs` (L, d/2) and take cosines and sines of it later. So both are
    computed here and identified, and the match states that the file has angles.
    """
    is_table_of_floats = array.dtype.kind == "f" and array.ndim == 2
    if not is_table_of_floats or array.size > MAX_FULL_READ:
        return []
    angles = widened(array)
    if not are_angles(angles):
        return []
    cos_sin = {
        "cos": np.cos(angles).astype(array.dtype),
        "sin": np.sin(angles).astype(array.dtype),
    }
    matches = []
    for match in _find_matching_schemes(cos_sin, schedules):
        edits = (Incomplete("angles"), *match.edits)
        matches.append(replace(match, tensors=(name,), edits=edits))
    return matches


def _merge_matches(matches: Iterable[Match]) -> list[Match]:
    """Return one match for all tensors of the same table.

    `inv_freq` belongs to the cosines that have these frequencies, and `slopes` to their bias. So a
    file with `cos`, `sin` and `inv_freq` has one match, whose command writes all three. Cosines and
    sines in two layouts are two tables.
    """
    merged: list[Match] = []
    for match in matches:
        number = _find_same_table(merged, match)
        if number is None:
            merged.append(match)
        else:
            merged[number] = _join_matches(merged[number], match)
    return merged


def _find_same_table(earlier: Sequence[Match], match: Match) -> int | None:
    """Return the index of the first earlier match of the same table; None if there is none."""
    for number, earlier_match in enumerate(earlier):
        if _are_parts(earlier_match, match):
            return number
    return None


def _are_parts(first: Match, second: Match) -> bool:
    """Return True if two matches are of different tensors of one table.

    `cos` and `inv_freq` with the base 10000 are. Cosines in halves and sines interleaved are not: a
    program that reads both needs one layout.
    """
    share_tensors = not set(first.tensors).isdisjoint(second.tensors)
    if first.scheme.name != second.scheme.name or share_tensors:
        return False
    layout = first.scheme.value_of("layout", "")
    if _hold_one_function_each(first, second) and layout != second.scheme.value_of("layout", ""):
        return False
    return _have_one_law(first.scheme, second.scheme)


def _have_one_law(first: Scheme, second: Scheme) -> bool:
    """Return True if two schemes of one kind compute the same function of the position.

    Rope(seq_len=64, dim=32) and Rope(seq_len=128, dim=32, dtype="float16") do: rows and rounding
    differ, and frequencies do not. With the base 500000, one would have other frequencies.
    """
    without_effect = first.inert_parameters & second.inert_parameters
    ignored = {*_ROW_PARAMETERS, *_STORAGE, *without_effect}
    names = first.parameters().keys() - ignored
    return all(getattr(first, name) == getattr(second, name) for name in names)


def _hold_one_function_each(first: Match, second: Match) -> bool:
    """Return True if each of two matches is of cosines only, or of sines only."""
    return first.holds_one_function and second.holds_one_function


def _join_matches(first: Match, second: Match) -> Match:
    """Return one match for the tensors of two matches, which belong to the same table.

    A match holds the scheme that was found for some tensors. `inv_freq` shows no number of rows, but
    cosines do: the scheme of the cosines is taken for both.
    """
    preferred = _choose_more_complete(first, second)
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


def _choose_more_complete(first: Match, second: Match) -> Match:
    """Return the match that states a number of rows; of two such matches, that with more tensors."""
    return max(first, second, key=lambda match: (match.has_length, len(match.tensors)))
