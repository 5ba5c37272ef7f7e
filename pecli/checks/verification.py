"""The result of comparing a file with what it should be: the answer, its reasons, and what a pass does not prove."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.checks.diagnosis import Reasons, diagnosis, explanations_json
from pecli.checks.doubts import Doubt, SinesFirst, UnnamedTable
from pecli.checks.file_problems import MAX_LISTED, FileProblem
from pecli.checks.weak_checks import Tables, looks_like_table, weak_checks
from pecli.compare.comparison import Comparison, problems_of, where_json
from pecli.compare.problems import CopiesDiffer, LearnedConstant, LearnedNotFinite, Problem
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import note_on
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.engine.grouping import grouped
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import listed
from pecli.files.tensor_roles import function_order, layer_number

if TYPE_CHECKING:  # Explanations are imported if a check fails.
    from pecli.explain.explanation import Explanation

MAX_COPY_ERROR = 1e-5  #: error by which copies of a table may differ that have one reason
MAX_EXPLAINED_GROUPS = 4  #: groups of layers, each with tables of its own, that are explained
BLOCK_ELEMENTS = 1 << 22  #: elements of a learned table that are looked at at once


@dataclass(frozen=True, repr=False)
class Verification(Answer):
    """The answer for a file, tensor by tensor.

    Attributes:
        file: The file, as it was given.
        scheme: The schemes that it was compared with.
        tensors: The comparisons.
        problems: What makes it fail beside values: sentences.
        reasons: Why values differ: sentences.
        readings: By tensor, how it was read, if not as it stands.
        explanations: The reasons as data.
        weak: After a pass, known mistakes that the same data would have passed as well.
        unchecked: Tensors of the file that belong to no table.
        strict: True if a weak answer counts as failed.
    """

    file: str
    scheme: str
    tensors: tuple[Comparison, ...]
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    explanations: "tuple[Explanation, ...]" = ()
    weak: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    strict: bool = False

    @property
    def passed(self) -> bool:
        if self.strict and self.weak:
            return False
        return not self.problems and all(tensor.passed for tensor in self.tensors)

    @property
    def diagnosis(self) -> tuple[str, ...]:
        return (*self.reasons, *self.problems)

    def words(self) -> tuple[str, ...]:
        words = (self.file, self.scheme, *self.diagnosis)
        if self.strict:
            words += self.weak
        return words

    def with_doubts(self, doubts: Iterable[Doubt | str]) -> Self:
        """Return an answer that passed, with further doubts about what it proves; each of them once."""
        weak = dict.fromkeys((*self.weak, *map(str, doubts)))
        return replace(self, weak=tuple(weak))

    def as_json(self) -> JsonObject:
        """Return the object that `pecli verify --json` prints."""
        fields = plain_fields(
            self,
            "file",
            "scheme",
            "passed",
            "tensors",
            "readings",
            "weak",
            "unchecked",
            "diagnosis",
        )
        fields["explanations"] = explanations_json(self.explanations)
        fields["where"] = where_json(self.tensors)
        return fields


@dataclass(frozen=True)
class CheckedTensor:
    """A tensor of a file that was compared with what it should be.

    Attributes:
        tensor: Its name in the file.
        result: The comparison.
        scheme: The scheme that makes the expected tables; None if they are learned.
        found: One copy of what was found, by the scheme's names.
        note: How it was read.
        layers: The layer type that it belongs to, if there are several.
        right_for: Another layer type whose table it is.
        doubt: Why a pass proves less than it seems to.
        has_length: False if the scheme's number of rows is a guess at the one in the file, since a
            model does not state it.
    """

    tensor: str
    result: Comparison
    scheme: Scheme | None = None
    found: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    layers: str = ""
    right_for: str = ""
    doubt: Doubt | None = None
    has_length: bool = True

    @classmethod
    def from_reading(
        cls,
        tensor: str,
        label: str,
        reading: Reading,
        tolerance: Tolerance,
        *,
        any_dtype: bool = True,
        stated: str = "",
    ) -> "CheckedTensor":
        """Compare a tensor with the tables that it was read as.

        Args:
            tensor: Its name in the file.
            label: Its name in the result.
            reading: How its axes and columns were matched with the expected tables.
            tolerance: The errors that pass.
            any_dtype: True if another dtype is not a finding.
            stated: The name that may state the order of cosines and sines, by default the label.
        """
        scheme, found = reading.tables_to_explain()
        result = compare_reading(label, reading, tolerance, any_dtype=any_dtype)
        doubt = _doubt_about_order(label, stated or label, reading)
        return cls(
            tensor=tensor,
            result=result,
            scheme=scheme,
            found=found,
            note=note_on(reading),
            doubt=doubt,
        )

    @property
    def is_to_explain(self) -> bool:
        """True if values differ, and copies of the table do not differ from each other."""
        return self.result.mismatched != 0 and not isinstance(self.result.finding, CopiesDiffer)


def _doubt_about_order(label: str, stated: str, reading: Reading) -> Doubt | None:
    """Return a doubt if sines come before cosines, and the name of the tensor does not state it."""
    names = reading.candidate.names
    if len(names) < 2 or names[0] != "sin" or function_order(stated) == names:
        return None
    return SinesFirst(label)


def compare_reading(
    label: str, reading: Reading, tolerance: Tolerance, *, any_dtype: bool = True
) -> Comparison:
    """Compare a tensor with the tables that it was read as.

    No scheme makes a learned table: its values pass unless training cannot have left them so. A
    tensor whose copies differ, as of the sequences of a batch, is marked so that no single reason is
    looked for.
    """
    if reading.is_learned:
        return Comparison.learned(label, reading.array.shape, _learned_problem(reading.array))
    result = reading.compare(tolerance, name=label, any_dtype=any_dtype)
    if not result.mismatched or result.finding is not None:
        return result
    # Both columns of a frequency are explained together, so that they may differ.
    limit = max(tolerance.atol, MAX_COPY_ERROR)
    if not reading.has_equal_copies(limit, columns_may_differ=True):
        result.finding = CopiesDiffer()
    return result


def _learned_problem(values: Array) -> Problem | None:
    """Return why a learned table cannot be the result of training; None if it can.

    It cannot hold infinities or NaN, nor one number only, as memory that was never written does. A
    table of a large model is read in blocks, since its float64 copy would not fit into memory.
    """
    low = np.inf
    high = -np.inf
    for rows in np.array_split(values, max(1, values.size // BLOCK_ELEMENTS)):
        wide = widened(rows)
        if not np.isfinite(wide).all():
            return LearnedNotFinite()
        low = min(low, float(wide.min()))
        high = max(high, float(wide.max()))
    return LearnedConstant(low) if low == high else None


def conclusion(
    path: str,
    scheme: str,
    checked: Sequence[CheckedTensor],
    tolerance: Tolerance,
    problems: Iterable[FileProblem | str],
    reasons: bool,
    present: Mapping[str, Array] | None = None,
) -> Verification:
    """Return the answer about a file, from the comparisons of its tensors.

    A failure gets the reasons for it. A pass gets the doubts that remain: mistakes with which the
    same tensors would have passed as well.

    Args:
        path: The file, as it was given.
        scheme: The schemes that it was compared with.
        checked: The tensors that were compared.
        tolerance: The errors that pass.
        problems: Problems of the file that no tensor has.
        reasons: Whether reasons for failures are searched for.
        present: All tensors of the file, if a pass is to be examined for what it does not prove.
    """
    failures = _reasons_for_failures(checked, tolerance, search=reasons)
    results = tuple(tensor.result for tensor in checked)
    unchecked = _unchecked(checked, present or {})
    answer = Verification(
        path,
        scheme,
        tensors=results,
        problems=(*map(str, problems), *problems_of(results)),
        reasons=tuple(dict.fromkeys(failures.lines)),
        readings={tensor.result.name: tensor.note for tensor in checked if tensor.note},
        explanations=tuple(failures.explanations),
        unchecked=tuple(unchecked),
    )
    if not answer.passed or present is None:
        return answer
    return answer.with_doubts(_doubts_about_pass(checked, unchecked, tolerance))


def _unchecked(checked: Iterable[CheckedTensor], present: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors of a file that nothing is compared with.

    They are read as well: a damaged file is an error, whichever of its tensors is damaged.
    """
    names_checked = {tensor.tensor for tensor in checked}
    return {name: array for name, array in present.items() if name not in names_checked}


def _doubts_about_pass(
    checked: Sequence[CheckedTensor], unchecked: Mapping[str, Array], tolerance: Tolerance
) -> Iterator[Doubt]:
    """Yield what a pass does not prove, such as a base that so few rows do not determine.

    Args:
        checked: The tensors that passed.
        unchecked: Tensors of the file that nothing was compared with. If one of them holds waves,
            the file may have a table that was overlooked.
        tolerance: The errors that passed.
    """
    yield from weak_checks(_by_scheme(checked), tolerance)
    for tensor in checked:
        if tensor.doubt is not None:
            yield tensor.doubt
    for name, array in unchecked.items():
        if looks_like_table(array):
            yield UnnamedTable(name)


def _reasons_for_failures(
    checked: Sequence[CheckedTensor], tolerance: Tolerance, *, search: bool
) -> Reasons:
    """Return the reasons for all failures, in lines and as data.

    Some are seen at once, such as a bias of zeros. For others a search changes the expected scheme
    until it makes the wrong table, which takes seconds and is left out unless `search` is set.
    """
    lines: list[str] = []
    explanations: list[Explanation] = []
    for failure in _failures(checked):
        obvious_reason = _obvious_reason(failure.checked)
        if obvious_reason:
            names = [tensor.result.name for tensor in failure.checked]
            lines.append(f"{listed(names, MAX_LISTED)}: {obvious_reason}")
            continue
        found = _search_reasons(failure.checked, tolerance) if search else []
        explanations += found
        results = [tensor.result for tensor in failure.checked]
        lines += [line.about(failure.layers) for line in diagnosis(found, results, tolerance)]
    return Reasons(lines, explanations)


def _obvious_reason(checked: Sequence[CheckedTensor]) -> str:
    """Return the reason for a failure that needs no search; empty if there is none."""
    right_for = checked[0].right_for
    if right_for:
        return f"right for {right_for} layers"
    if all(map(_is_no_bias, checked)):
        return "all values are 0: there is no bias"
    return ""


def _is_no_bias(checked: CheckedTensor) -> bool:
    """Return True for slopes or a bias, as ALiBi has them, if all of it is zero."""
    is_bias = bool(checked.found) and {"bias", "slopes"}.issuperset(checked.found)
    return is_bias and not any(table.any() for table in checked.found.values())


class _Failure(NamedTuple):
    """Tensors that failed for the same reason."""

    layers: str  #: the layers that they belong to, in words; empty if all do
    checked: list[CheckedTensor]


def _failures(checked: Sequence[CheckedTensor]) -> Iterator[_Failure]:
    """Yield the tensors that failed, those together that have the same reason.

    If 28 layers have the same wrong table, that is one failure. If only layers 3 and 4 have it, the
    failure states their numbers: «layers 3, 4», or «sliding_attention layers 3, 4» in a model with
    several layer types.
    """
    layer_counts = _layer_counts(checked)
    for layer_type, layers in _failed_layers(checked):
        for alike_layers in _alike_layers(layers)[:MAX_EXPLAINED_GROUPS]:
            words = layer_type
            are_some_of_several = len(alike_layers) < layer_counts[layer_type]
            if are_some_of_several:
                numbers = [*filter(None, alike_layers)]
                words = f"{layer_type} {_layers_named(numbers)}".strip()
            yield _Failure(words, [*chain(*alike_layers.values())])


def _layer_counts(checked: Sequence[CheckedTensor]) -> Mapping[str, int]:
    """Return the number of layers of each type; tensors without a layer's number count as one."""
    layers = {(tensor.layers, _layer_number(tensor.tensor)) for tensor in checked}
    return Counter(layer_type for layer_type, _ in layers)


def _failed_layers(checked: Iterable[CheckedTensor]) -> "Iterator[tuple[str, Layers]]":
    """Yield the tensors to explain by the numbers of their layers, for each layer type.

    Tensors that are right for other layers share one reason, so that their numbers do not matter.
    """
    failed = [tensor for tensor in checked if tensor.is_to_explain]
    by_reason = grouped(failed, lambda tensor: (tensor.layers, tensor.right_for))
    for (layer_type, right_for), tensors in by_reason.items():
        if right_for:
            yield layer_type, {"": tensors}
        else:
            yield layer_type, grouped(tensors, lambda tensor: _layer_number(tensor.tensor))


def _layer_number(tensor: str) -> str:
    """Return the number of the layer in a tensor's name; empty if it has none."""
    number = layer_number(tensor)
    return "" if number is None else str(number)


def _layers_named(numbers: Sequence[str]) -> str:
    """Return the words for some layers.

    >>> _layers_named(["3", "4"])
    'layers 3, 4'
    """
    if not numbers:
        return ""
    noun = "layer" if len(numbers) == 1 else "layers"
    return f"{noun} {listed(list(numbers), MAX_LISTED)}"


Layers = dict[str, list[CheckedTensor]]
"""Tensors by the number of their layer, as text; empty if their names have none."""


def _alike_layers(layers: Layers) -> list[Layers]:
    """Return groups of layers that have the same tables, so that each group is explained once.

    Args:
        layers: By the number of a layer, as text, its tensors that failed.
    """
    groups: list[Layers] = []
    for number, layer in layers.items():
        for group in groups:
            first_layer = next(iter(group.values()))
            if _are_alike(layer, first_layer):
                group[number] = layer
                break
        else:
            groups.append({number: layer})
    return groups


def _are_alike(layer: Sequence[CheckedTensor], other: Sequence[CheckedTensor]) -> bool:
    tables = _tables_found(layer)
    others = _tables_found(other)
    if tables.keys() != others.keys():
        return False
    return all(np.array_equal(tables[key], others[key]) for key in tables)


def _tables_found(layer: Iterable[CheckedTensor]) -> dict[tuple[Scheme | None, str], Array]:
    tables = {}
    for tensor in layer:
        for name, table in tensor.found.items():
            tables[tensor.scheme, name] = table
    return tables


def _by_scheme(checked: Iterable[CheckedTensor]) -> Tables:
    """Return the tables that were found, by the expected scheme; of several with one name, the first."""
    tables: dict[Scheme, dict[str, Array]] = {}
    for tensor in checked:
        if tensor.scheme is None:
            continue
        by_name = tables.setdefault(tensor.scheme, {})
        for name, table in tensor.found.items():
            by_name.setdefault(name, table)
    return tables


def _search_reasons(checked: Sequence[CheckedTensor], tolerance: Tolerance) -> "list[Explanation]":
    """Search for the mistakes that turn the expected tables into those that were found.

    If nobody stated how many rows a table should have, a different number is not a mistake.
    """
    from pecli.explain.explanation import merged
    from pecli.explain.search import explain
    from pecli.explain.time_limit import time_limit

    explanations: list[Explanation] = []
    with time_limit():
        for scheme, found in _by_scheme(checked).items():
            explanations += explain(scheme, found, tolerance.atol)
        explanations = merged(explanations)
    if all(tensor.has_length for tensor in checked):
        return explanations
    return [reason.without_parameter("seq_len") for reason in explanations]
