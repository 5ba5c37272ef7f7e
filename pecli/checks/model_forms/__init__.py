"""Comparing a model in two formats, such as a Hugging Face folder and a .gguf file.

Names are mapped to GGUF's, encodings compared by the frequencies that they mean, queries and keys
through the order of rows that each format requires, and all other tensors by value.
"""

import os
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypedDict

from pecli.checks.model_forms.findings import TensorDifference
from pecli.checks.model_forms.matching import match_tensors
from pecli.checks.model_forms.model_files import ModelFormat, Source, find_source, read_model
from pecli.checks.model_forms.pair import Pair
from pecli.checks.model_forms.reasons import find_reason
from pecli.checks.model_forms.sentences import (
    BothModels,
    describe_lost_scaling,
    describe_settings_problem,
    describe_tensors,
)
from pecli.checks.model_forms.settings import compare_settings, find_lost_scaling
from pecli.compare.comparison import Comparison
from pecli.compare.tolerance import Tolerance
from pecli.engine import table
from pecli.engine.numerics.kernels import announce_work
from pecli.errors import listed
from pecli.models.encoding import Encoding

MAX_NAMES = 6  #: tensors that are listed as not compared
GGUF = ModelFormat.GGUF
NOTHING_COMPARED = "no tensor of A can be compared with one of B"


class ModelDifference(TypedDict):
    """The fields of a `Difference` of a model in two formats."""

    diagnosis: tuple[str, ...]
    tensors: tuple[Comparison, ...]
    weak: tuple[str, ...]
    forms: str


class ComparedPair(NamedTuple):
    """A tensor in both formats, and how it differs."""

    pair: Pair
    result: Comparison


def diff_models(
    a: str | os.PathLike[str], b: str | os.PathLike[str], tolerance: Tolerance
) -> ModelDifference | None:
    """Compare a model in two formats, such as a Hugging Face folder and a .gguf file.

    Returns:
        The fields of the answer; None if the files have to be compared as any others: they are not
        models, or two folders of one project, whose tensors have the same names and values.
    """
    source_a = find_source(a)
    source_b = find_source(b)
    if source_a is None or source_b is None:
        return None
    if not _are_two_forms(source_a.format, source_b.format):
        return None
    return _compare_models(_read_both(source_a, source_b), tolerance)


def _are_two_forms(format_a: ModelFormat, format_b: ModelFormat) -> bool:
    """Return True for different formats, and for two .gguf files, whose quantisation may differ."""
    return format_a != format_b or format_a == ModelFormat.GGUF


def _compare_models(models: BothModels, tolerance: Tolerance) -> ModelDifference:
    """Compare the settings and the tensors of two models.

    Returns:
        Sentences on what differs (`diagnosis`), the tensors that differ, sentences on those that were
        not compared (`weak`), and a line that counts the others (`forms`).
    """
    matched = match_tensors(models.reference, models.checked)
    compared = _compare_pairs(matched.pairs, tolerance)
    changed = [item for item in compared if item.result.mismatched]
    changed_with_reasons = _explain_changed_tensors(changed, models, tolerance)
    tensor_problems = [*matched.problems, *changed_with_reasons]
    diagnosis = [*_describe_settings(models), *describe_tensors(tensor_problems, models)]
    if not matched.pairs and not tensor_problems:
        diagnosis.append(NOTHING_COMPARED)
    return {
        "diagnosis": tuple(diagnosis),
        "tensors": tuple(item.result for item in changed),
        "weak": _list_not_compared(models),
        "forms": _summarise(compared, len(changed), models),
    }


def _explain_changed_tensors(
    changed: Sequence[ComparedPair], models: BothModels, tolerance: Tolerance
) -> Iterator[TensorDifference]:
    """Yield the tensors that differ, each with the converter's mistake that explains it."""
    pairs = [item.pair for item in changed]
    findings = table.results_in_order(lambda pair: find_reason(pair, *models, tolerance), pairs)
    for (pair, result), finding in zip(changed, findings, strict=True):
        yield TensorDifference(pair.name, finding, result.largest_error)


def _describe_settings(models: BothModels) -> Iterator[str]:
    """Yield a sentence for each setting that both models state differently."""
    for problem in compare_settings(*models):
        yield describe_settings_problem(problem, models.checked.label)


def _read_both(a: Source, b: Source) -> BothModels:
    """Read both models; that of Hugging Face, if there is one, is the reference."""
    model_a = read_model("A", a)
    model_b = read_model("B", b)
    if model_b.format == ModelFormat.HUGGING_FACE:
        return BothModels(reference=model_b, checked=model_a)
    return BothModels(reference=model_a, checked=model_b)


def _compare_pairs(pairs: Sequence[Pair], tolerance: Tolerance) -> list[ComparedPair]:
    """Compare tensors in several threads, and return them in order."""
    announce_work(sum(pair.elements_for_compiled_loops for pair in pairs))
    results = table.results_in_order(lambda pair: pair.compare(tolerance), pairs)
    return [ComparedPair(*item) for item in zip(pairs, results, strict=True)]


def _list_not_compared(models: BothModels) -> tuple[str, ...]:
    """Return a sentence per model about its tensors that are not compared, A before B."""
    sentences = []
    for model in sorted(models, key=attrgetter("label")):
        if model.unread:
            names = [*dict.fromkeys(model.unread.values())]
            sentences.append(f"not compared: {listed(names, MAX_NAMES)} ({model.label})")
    return tuple(sentences)


def _summarise(compared: Sequence[ComparedPair], changed: int, models: BothModels) -> str:
    """Return a line on the tensors that are equal, and on those that differ by rounding.

    «291 tensors, Hugging Face and GGUF: 65 equal, 226 within the rounding of Q8_0, bfloat16»

    Args:
        compared: The tensors that were compared.
        changed: The number of those that differ by more than rounding.
        models: Both models.
    """
    dtypes = set()
    equal = 0
    for pair, result in compared:
        dtypes |= {pair.reference.dtype, pair.checked.dtype}
        equal += result.max_abs_error == 0
    rounded = len(compared) - equal - changed
    formats = f"{models.reference.format} and {models.checked.format}"
    counts = f"{equal} equal, {rounded} within the rounding of {', '.join(sorted(dtypes))}"
    return f"{len(compared)} tensors, {formats}: {counts}"


def lost_scaling(encoding: Encoding, model_format: ModelFormat) -> str:
    """Return a sentence about a file that lacks the scaling that the model has."""
    return describe_lost_scaling(find_lost_scaling(encoding, model_format))
