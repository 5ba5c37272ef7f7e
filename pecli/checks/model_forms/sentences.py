"""The sentences for differences between a model in two formats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pecli.checks.model_forms.findings import (
    AttentionFactorChanged,
    BeyondRounding,
    ConverterMistake,
    DifferentShape,
    Finding,
    FrequenciesDiffer,
    MissingKey,
    Multiplied,
    NormOffset,
    NoRotaryEncoding,
    PermutedInHeads,
    ScalingLost,
    SectionsChanged,
    SettingsProblem,
    SwappedLayer,
    SwappedTensor,
    TensorDifference,
    UnmatchedTensor,
    ValueChanged,
)
from pecli.checks.model_forms.model_files import ModelFiles
from pecli.checks.model_forms.tensor_names import TensorName
from pecli.compare.comparison import ranges
from pecli.errors import bracketed, listed, span
from pecli.tensors.head_layout import ORDERS

MAX_LINES = 12  #: lines about tensors; further ones are counted
MAX_NAMES = 6  #: tensors that a line names


class Verbs(NamedTuple):
    """The words of a sentence that follow the number of its subject."""

    be: str
    have: str
    their: str


SINGULAR = Verbs(be="is", have="has", their="its")
PLURAL = Verbs(be="are", have="have", their="their")


class BothModels(NamedTuple):
    """The model that defines what is right, and the one that is checked."""

    reference: ModelFiles
    checked: ModelFiles


def describe_settings_problem(problem: SettingsProblem, label: str) -> str:
    """Return a sentence about a setting: «B: base 10000 → 500000 (rope.freq_base)».

    Args:
        problem: What differs, or is missing.
        label: The model that is checked, A or B.
    """
    match problem:
        case NoRotaryEncoding():
            return f"{problem.label}: no rotary encoding"
        case MissingKey():
            return f"{label}: {problem.key} is missing"
    where = f" ({problem.layer_type})" if problem.layer_type else ""
    return f"{label}: {_describe_change(problem)}{where}"


def _describe_change(
    change: ValueChanged
    | SectionsChanged
    | ScalingLost
    | FrequenciesDiffer
    | AttentionFactorChanged,
) -> str:
    """Return the words for a setting that differs: «base 10000 → 500000 (rope.freq_base)»."""
    match change:
        case ValueChanged():
            values = f"{change.name} {change.expected:g} → {change.value:g}"
            if change.is_key_missing:
                return f"{values}: {change.key} is missing"
            return f"{values} ({change.key})"
        case SectionsChanged():
            return f"M-RoPE sections {bracketed(change.expected)} → {bracketed(change.sections)}"
        case ScalingLost():
            return f"{change.key} is missing: the {change.scaling} scaling is lost"
        case FrequenciesDiffer():
            pairs = number_ranges(change.pairs)
            return f"frequencies of pairs {pairs} differ{_describe_length(change.length)}"
        case AttentionFactorChanged():
            factors = f"{change.expected:.6g} → {change.factor:.6g}"
            return f"attention factor {factors}{_describe_length(change.length)}"


def _describe_length(length: int | None) -> str:
    return f" at {length:,} positions" if length else ""


def describe_lost_scaling(problem: ScalingLost) -> str:
    """Return a sentence about a scaling that a file lacks, without naming the file."""
    return _describe_change(problem)


@dataclass
class Affected:
    """The layers and experts in which a tensor has a problem, and its largest error there."""

    layers: set[int] = field(default_factory=set)
    experts: set[int] = field(default_factory=set)
    max_abs_error: float = 0.0


class Group(NamedTuple):
    """Tensors with the same problem in the same layers."""

    finding: Finding
    layers: tuple[int, ...]


class Subject(NamedTuple):
    """A tensor of a group, as it is named in a sentence."""

    name: TensorName
    affected: Affected

    @property
    def text(self) -> str:
        experts = sorted(self.affected.experts)
        if not experts:
            return self.name.whole
        noun = "expert" if len(experts) == 1 else "experts"
        return f"{self.name.whole} ({noun} {number_ranges(experts)})"

    @property
    def rank(self) -> tuple[bool, int, str]:
        """The place in a sentence: weights before biases, queries before keys before values."""
        return self.name.is_bias, "qkv".find(self.name.part[0]), self.text


def describe_tensors(problems: Iterable[TensorDifference], models: BothModels) -> list[str]:
    """Return one line for all tensors with the same problem in the same layers.

    «B: q and k of layers 0–31 are not permuted; llama in GGUF form is», for example.
    """
    lines = []
    for group, unsorted_subjects in _group_problems(problems).items():
        subjects = sorted(unsorted_subjects, key=lambda subject: subject.rank)
        names = _join_layers([subject.text for subject in subjects])
        verbs = SINGULAR if len(subjects) == 1 else PLURAL
        largest_error = max(subject.affected.max_abs_error for subject in subjects)
        predicate = _describe_finding(group.finding, models, verbs, largest_error)
        lines.append(f"{models.checked.label}: {names}{_in_layers(group.layers)} {predicate}")
    if len(lines) > MAX_LINES:
        return [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more such lines"]
    return lines


def _group_problems(problems: Iterable[TensorDifference]) -> dict[Group, list[Subject]]:
    """Collect the tensors that have the same problem in the same layers.

    If the queries and the keys of layers 0 to 31 are not permuted, 64 problems become one group:
    the problem, the 32 layers, and the subjects q and k.
    """
    groups: dict[Group, list[Subject]] = {}
    for (finding, name), affected in _find_affected_layers(problems).items():
        group = Group(finding, tuple(sorted(affected.layers)))
        groups.setdefault(group, []).append(Subject(name, affected))
    return groups


def _find_affected_layers(
    problems: Iterable[TensorDifference],
) -> dict[tuple[Finding, TensorName], Affected]:
    """Return, by problem and tensor, the layers and experts that have it.

    Names are those within a layer: `blk.0.attn_q` and `blk.1.attn_q` are both `q`.
    """
    by_tensor: dict[tuple[Finding, TensorName], Affected] = {}
    for problem in problems:
        name = TensorName.parse(problem.name)
        name_in_layer = name._replace(layer="", expert=None)
        affected = by_tensor.setdefault((problem.finding, name_in_layer), Affected())
        affected.max_abs_error = max(affected.max_abs_error, problem.max_abs_error)
        if name.layer:
            affected.layers.add(int(name.layer))
        if name.expert is not None:
            affected.experts.add(name.expert)
    return by_tensor


def _join_layers(names: Sequence[str]) -> str:
    if len(names) == 2:
        return " and ".join(names)
    return listed(names, MAX_NAMES)


def _in_layers(layers: Sequence[int]) -> str:
    if not layers:
        return ""
    noun = "layer" if len(layers) == 1 else "layers"
    return f" of {noun} {number_ranges(layers)}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges.

    >>> number_ranges([8, 0, 1, 2, 5, 7])
    '0–2, 5, 7–8'
    """
    runs = ranges(np.array(sorted(numbers)))
    return ", ".join([span(first, last) for first, last in runs])


def _describe_finding(
    finding: Finding, models: BothModels, verbs: Verbs, max_abs_error: float
) -> str:
    """Return the predicate of a sentence about one or several tensors: «are all zeros»."""
    be = verbs.be
    match finding:
        case ConverterMistake():
            return _describe_mistake(finding, models, verbs)
        case UnmatchedTensor():
            return f"{be} missing in {finding.label}"
        case DifferentShape():
            is_reversed = finding.shape == finding.expected[::-1]
            transposed = "transposed: " if is_reversed else ""
            shapes = f"{bracketed(finding.shape)}, not {bracketed(finding.expected)}"
            return f"{be} {transposed}{shapes}"
        case PermutedInHeads():
            noun = "kv heads" if finding.are_kv_heads else "heads"
            model = f"the model has {finding.expected} {noun} (llama.cpp#3364)"
            return f"{be} permuted in {finding.heads} heads; {model}"
        case NormOffset():
            size = "small" if finding.offset < 0 else "large"
            added = "with" if finding.is_one_added else "without"
            norms = f"{models.checked.format} keeps norms of {models.checked.architecture}"
            return f"{be} 1 too {size}: {norms} {added} 1 added"
        case Multiplied():
            return f"{be} multiplied by {finding.factor:g}"
        case SwappedLayer():
            return f"{be} layer {finding.layer} of {models.reference.label}"
        case SwappedTensor():
            return f"{be} {finding.name} of {models.reference.label}"
        case BeyondRounding():
            rounding = f"beyond the rounding of {finding.storage}"
            return f"{be} off by up to {max_abs_error:.3g}, {rounding}"


def _describe_mistake(mistake: ConverterMistake, models: BothModels, verbs: Verbs) -> str:
    """Return the predicate of a sentence about a mistake: «is not permuted; llama in GGUF form is».

    Args:
        mistake: The mistake.
        models: The model in both formats, whose names and labels the words contain.
        verbs: «is» and «has» for one tensor, «are» and «have» for several.
    """
    be, have, their = verbs
    form = models.checked.description
    reference = models.reference.label
    words = {
        ConverterMistake.HALVES_EXCHANGED: f"{have} {their} halves exchanged",
        ConverterMistake.FUSED_ORDER_KEPT: (
            f"{be} in the order of {reference}; {form} has {ORDERS['blocks'].words}"
        ),
        ConverterMistake.QUERIES_AND_KEYS_PERMUTED: f"{be} permuted in q and k; {form} is not",
        ConverterMistake.KEYS_AND_VALUES_EXCHANGED: f"{have} {their} k and v exchanged",
        ConverterMistake.NOT_PERMUTED: f"{be} not permuted; {form} is",
        ConverterMistake.PERMUTED: f"{be} permuted; {form} is not",
        ConverterMistake.PERMUTED_TWICE: f"{be} permuted twice",
        ConverterMistake.PERMUTED_BACKWARDS: f"{be} permuted the wrong way, from interleaved to halves",
        ConverterMistake.ALL_ZEROS: f"{be} all zeros",
        ConverterMistake.TRANSPOSED: f"{be} transposed",
    }
    return words[mistake]
