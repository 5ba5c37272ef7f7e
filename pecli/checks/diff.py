"""Two files compared, tensor by tensor."""

import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.checks.diagnosis import explanations_as_json
from pecli.checks.file_problems import FileProblem, NoTensors, NothingInCommon, OnlyInOneFile
from pecli.checks.printed import widen_for_printed
from pecli.checks.tensor_matches import ReadMatch, TensorMatch, match_tensors
from pecli.compare.comparison import Comparison, problems_of, where_json
from pecli.compare.reading_conflicts import Doubling, find_doubling_problems
from pecli.compare.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.arguments import flag_of, within_limits
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import PecliError
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.load import Given, Opened, opened

if TYPE_CHECKING:  # Explanations are imported if files differ.
    from pecli.explain.explanation import Explanation

MODELS = (".gguf", ".json", ".safetensors", ".bin", ".pth", ".pt")
"""Suffixes of files that may be models."""


@dataclass(frozen=True, repr=False)
class Difference(Answer):
    """The differences of two files.

    Attributes:
        a: The first file, as it was given.
        b: The second.
        tensors: The comparisons; for two forms of a model, of the tensors that differ.
        diagnosis: Sentences on what differs, and why.
        explanations: The reasons as data.
        readings: By tensor, how its axes were read if they differ.
        weak: If values agree within a tolerance, known mistakes in B that would have agreed as well.
        forms: For two forms of a model, what was compared.
    """

    a: str
    b: str
    tensors: tuple[Comparison, ...]
    diagnosis: tuple[str, ...] = ()
    explanations: "tuple[Explanation, ...]" = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    weak: tuple[str, ...] = ()
    forms: str = ""

    @property
    def passed(self) -> bool:
        return not self.diagnosis and all(tensor.passed for tensor in self.tensors)

    def words(self) -> tuple[str, ...]:
        different = [f"{tensor.name} differs" for tensor in self.tensors if not tensor.passed]
        files = " and ".join(filter(None, (self.a, self.b)))
        return (files, *self.diagnosis, *different)

    def as_json(self) -> JsonObject:
        """Return the object that `pecli diff --json` prints."""
        fields = plain_fields(self, "passed", "a", "b", "tensors", "diagnosis", "readings", "weak")
        if self.forms:
            fields["forms"] = self.forms
        fields["explanations"] = explanations_as_json(self.explanations, between_files=True)
        fields["where"] = where_json(self.tensors)
        return fields


@within_limits
def diff(
    a: Given,
    b: Given,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    reasons: bool = True,
) -> Difference:
    """Compare two files, or arrays, tensor by tensor, up to the way their axes lie.

    Args:
        a: A file, one tensor of it with `FILE:NAME`, an array, or arrays by name.
        b: The same for the other side.
        tolerance: The errors that pass; exact by default.
        atol: Instead of `tolerance`, an absolute error.
        rtol: Instead of `tolerance`, a relative error.
        max_ulp: Instead of `tolerance`, an error in ULPs.
        reasons: True if transforms and parameters are searched for that explain a difference.

    Returns:
        A result that is true if both agree.

    Raises:
        FileError: If a file cannot be read.
        ParameterError: If a tolerance breaks its rule.

    >>> import pecli
    >>> difference = diff(pecli.Rope(32, 8).tables(), pecli.Rope(32, 8, theta=500000).tables())
    >>> difference.diagnosis[0].partition(";")[0]
    'cos, sin: in B, base is 500000 (in A 10000)'
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    reasons = flag_of("reasons", reasons)
    forms = _diff_as_models(a, b, allowed)
    if forms is not None:
        return forms
    both = _Both(opened(a), opened(b))
    file_a = both.a.file
    file_b = both.b.file
    printing_error = _printing_error(file_a) + _printing_error(file_b)
    allowed = widen_for_printed(both.b.label, allowed, printing_error)
    # Within a tolerance, another dtype is not a difference, and a mask is a mask.
    is_loose = allowed != EXACT
    matches = match_tensors(file_a, file_b, allowed)
    symmetric = allowed.for_either_order()
    tensors = tuple(match.compare(symmetric, any_dtype=is_loose) for match in matches)
    scheme = _read_carried_scheme(file_a)
    answer = Difference(
        a=both.a.label,
        b=both.b.label,
        tensors=tensors,
        diagnosis=_describe_problems(both, matches, tensors),
        readings=_collect_notes(tensors, matches),
    )
    if not all(tensor.passed for tensor in tensors):
        from pecli.checks.diff_reasons import Files, explain_difference

        files = Files(a=file_a.tensors, b=file_b.tensors, scheme=scheme)
        compare = diff if reasons else None
        explained = explain_difference(files, matches, tensors, allowed, compare)
        return replace(
            answer,
            diagnosis=(*answer.diagnosis, *explained.lines),
            explanations=tuple(explained.explanations),
        )
    if answer.passed and is_loose and scheme is not None:
        return replace(answer, weak=_write_doubts(matches, scheme, allowed))
    return answer


def _printing_error(file: LoadedFile) -> float:
    """Return the largest error that printing made in the numbers of a file; 0 if none was rounded.

    Both parts of a complex number are rounded, so that its error may be √2 times as large.
    """
    has_complex_numbers = any(np.iscomplexobj(tensor) for tensor in file.tensors.values())
    return math.sqrt(2) * file.rounding if has_complex_numbers else file.rounding


def _describe_problems(
    both: "_Both",
    matches: Sequence[TensorMatch],
    tensors: Sequence[Comparison],
) -> tuple[str, ...]:
    """Return sentences on what differs beside values: missing tensors, shapes, doubled columns.

    Args:
        both: The files.
        matches: The tensors that belong together.
        tensors: Their comparisons.
    """
    missing = _find_missing_tensors(both, matches)
    nothing_in_common = _find_nothing_in_common(both, matches)
    other_doublings = find_doubling_problems(_find_doublings(matches))
    return (
        *map(str, missing),
        *map(str, nothing_in_common),
        *problems_of(tensors),
        *other_doublings,
    )


def _collect_notes(tensors: Sequence[Comparison], matches: Sequence[TensorMatch]) -> dict[str, str]:
    """Return a note for each tensor whose axes or columns differ between the two files.

    {"cos": "B: repeated 2× along axis 0"} means that B has two copies of A's table. If the two
    copies have different numbers, the note adds «but its copies differ».
    """
    notes = {}
    for tensor, match in zip(tensors, matches, strict=True):
        note = match.note
        if not note:
            continue
        # In a tensor that passed, every copy agrees with the same table within the tolerance.
        if not tensor.passed and match.has_copies_that_differ:
            note += ", but its copies differ"
        notes[tensor.name] = note
    return notes


class _Both(NamedTuple):
    """Two files that were opened."""

    a: Opened
    b: Opened


def _diff_as_models(a: Given, b: Given, allowed: Tolerance) -> Difference | None:
    """Compare two models as forms of the same one, such as a Hugging Face folder and a .gguf file made of it.

    None is returned if one of them is not a model: they are then compared as files of tensors.
    """
    if not _may_be_model(a) or not _may_be_model(b):
        return None
    from pecli.checks.model_forms import diff_models  # It imports what reads models.

    forms = diff_models(a, b, allowed)
    return None if forms is None else Difference(str(a), str(b), **forms)


def _may_be_model(given: Given) -> TypeGuard[str | os.PathLike[str]]:
    if not isinstance(given, (str, os.PathLike)):
        return False
    path = os.fspath(given)
    return path.endswith(MODELS) or os.path.isdir(path)


def _read_carried_scheme(file: LoadedFile) -> Scheme | None:
    """Return the scheme of the spec that a file carries; None if it carries none that makes a table."""
    try:
        spec = carried_spec(file.path, file.metadata)
        return None if spec is None else Scheme.from_spec(spec)
    except PecliError:
        return None


def _find_derived_tensors(file: LoadedFile) -> frozenset[str]:
    """Return the tensors that follow from others, by the spec that a file carries.

    `inv_freq` may be left out of a file that has cosines and sines.
    """
    scheme = _read_carried_scheme(file)
    return frozenset() if scheme is None else scheme.derived_tensors


def _find_missing_tensors(both: _Both, matches: Sequence[TensorMatch]) -> Iterator[OnlyInOneFile]:
    """Yield a problem for each tensor that only one of two files has, and that does not follow from others.

    Args:
        both: The files.
        matches: The tensors that both have.
    """
    a = both.a.file
    b = both.b.file
    derived = _find_derived_tensors(a) | _find_derived_tensors(b)
    matched_in_a = derived.union(*(match.names_in_a for match in matches))
    matched_in_b = derived.union(*(match.names_in_b for match in matches))
    sides = (("A", "B", a.tensors, matched_in_a), ("B", "A", b.tensors, matched_in_b))
    for owner, other, names, matched in sides:
        for name in names:
            # Frequencies and slopes follow from a table that both have.
            follows_from_others = bool(matches) and is_relative(name)
            if name not in matched and not follows_from_others:
                yield OnlyInOneFile(name=name, owner=owner, other=other)


def _find_nothing_in_common(both: _Both, matches: Sequence[TensorMatch]) -> Iterator[FileProblem]:
    """Yield the problem of two files without tensors, or without tensors of the same name.

    If no names agree, it has the command that compares one tensor of each file, such as «pecli diff
    a.npz:weights b.npz:emb»; arrays in memory have no file to name.
    """
    if not both.a.file.tensors and not both.b.file.tensors:
        yield NoTensors()
        return
    has_files = bool(both.a.label and both.b.label)
    if matches or not has_files:
        return
    words = ["pecli", "diff", _name_first_tensor(both.a), _name_first_tensor(both.b)]
    yield NothingInCommon(shlex.join(words))


def _name_first_tensor(opened_file: Opened) -> str:
    """Return the first tensor of a file as FILE:NAME; the file, if it has only one."""
    names = [*opened_file.file.outlines]
    if len(names) < 2:
        return opened_file.label
    return f"{opened_file.label}:{names[0]}"


def _find_doublings(matches: Iterable[TensorMatch]) -> Iterator[Doubling]:
    """Yield how each table has two columns per frequency: in halves, interleaved, or not at all.

    If `cos` has them in halves and `sin` interleaved, one of them is wrong.
    """
    for match in matches:
        if isinstance(match, ReadMatch):
            layers = match.name.rpartition(".")[0]
            # Either file may have the two columns: the one that was read, or else the other.
            doubled_in_read_file = match.reading.form.doubled
            doubled_in_other_file = match.reading.candidate.layout
            doubled = doubled_in_read_file or doubled_in_other_file
            yield Doubling(layers=layers, reading=match.reading, doubled=doubled)


def _write_doubts(
    matches: Sequence[TensorMatch], scheme: Scheme, allowed: Tolerance
) -> tuple[str, ...]:
    """Return a sentence for each doubt about agreeing files: a known mistake that B may have all the same.

    Two rows of a table agree within 1e-3 whether or not llama3 scaling was applied: a B without it
    would have passed as well.

    Args:
        matches: The tensors of both files that belong together, all of which agree.
        scheme: The scheme that makes the tables of both files.
        allowed: The errors that pass.
    """
    # Few calls of `diff` come here, so that the others do not wait for this import.
    from pecli.checks.weak_checks import find_weaknesses

    tables_of_a = {}
    for match in matches:
        for pair in match.pairs():
            tables_of_a[pair.name] = pair.a
    doubts = find_weaknesses({scheme: tables_of_a}, allowed)
    return tuple(dict.fromkeys(map(str, doubts)))
