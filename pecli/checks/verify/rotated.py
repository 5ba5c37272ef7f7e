"""Queries or keys compared with the rotation of those before it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from pecli.checks.diagnosis import diagnose
from pecli.checks.doubts import Doubt
from pecli.checks.printed import widen_for_printed
from pecli.checks.verification import Verification
from pecli.checks.verify.head_tensors import (
    HeadSizes,
    HeadTensor,
    arrange_heads,
    refuse_flat,
    unfold_positions,
)
from pecli.checks.verify.rotated_check import RotatedCheck, UnrotatedCheck
from pecli.checks.verify.rotation_advice import find_advice
from pecli.checks.verify.rotation_job import RotationJob
from pecli.checks.verify.tensor_pairs import TensorPair, TensorPairs, pair_tensors
from pecli.compare.comparison import Comparison, problems_of
from pecli.compare.tolerance import Tolerance
from pecli.engine.named_values import NamedValues
from pecli.explain.explanation import Explanation
from pecli.files.load import Given
from pecli.models.encoding import Encoding
from pecli.models.find import Model
from pecli.tensors.inputs import SEQ_AXIS, Input


def verify_rotated(
    after: Given,
    before: Given,
    model: Model,
    tolerance: Tolerance,
    reasons: bool,
    options: NamedValues,
) -> Verification:
    """Compare queries or keys after a model's rotation with the exact rotation of those before it.

    Args:
        after: The tensors after the rotation, (…, L, D), or with heads folded into columns or
            positions on another axis.
        before: The tensors of the same names before it.
        model: The model whose layers rotate them.
        tolerance: The errors that pass.
        reasons: True if reasons for failures are searched for.
        options: `layer_type`, `seq_axis`, the positions of tokens, and the length at which dynamic
            scalings are read.
    """
    job = RotationJob.from_options(model, tolerance, reasons, options)
    assert job.rotary_encodings  # A model without any is refused before files are read.
    matched = pair_tensors(after, before)
    # Numbers of a printed tensor are as coarse as their digits, which must not fail the check.
    job = replace(job, tolerance=widen_for_printed(matched.label, tolerance, matched.rounding))
    checks = [check_pair(pair, job) for pair in matched.pairs]
    return _join_checks(checks, matched, tolerance)


def _join_checks(
    checks: Sequence[RotatedCheck], matched: TensorPairs, tolerance: Tolerance
) -> Verification:
    """Return the result for all tensors of a file.

    Args:
        checks: The check of each tensor.
        matched: The tensors, and those that are only in the file before the rotation.
        tolerance: The errors that pass, as the user states them.
    """
    comparisons = tuple(check.result for check in checks)
    # The mistakes that explain failures, as data; `reasons` states them in words.
    mistakes = tuple(chain.from_iterable(check.reasons for check in checks))
    return Verification(
        file=matched.label,
        scheme="rope",
        tensors=comparisons,
        problems=problems_of(comparisons),
        reasons=tuple(_find_reasons_and_advice(checks, comparisons, mistakes, tolerance)),
        readings={check.name: check.note for check in checks if check.note},
        explanations=mistakes,
        weak=tuple(map(str, _find_doubts(checks))),
        unchecked=matched.unmatched,
    )


def _find_reasons_and_advice(
    checks: Sequence[RotatedCheck],
    results: Sequence[Comparison],
    explanations: Sequence[Explanation],
    tolerance: Tolerance,
) -> Iterator[str]:
    """Yield sentences on the mistakes in all tensors, and then advice on each of them.

    Args:
        checks: The checks of all tensors.
        results: Their comparisons.
        explanations: The mistakes that explain their failures.
        tolerance: The errors that pass.
    """
    # An explanation has a command that makes a wrong table, `pecli rope --base 500000`. That does not
    # rotate queries. The advice below has one that does: `pecli apply rope q.npy --base 500000`.
    without_commands = [explanation.without_command() for explanation in explanations]
    for line in diagnose(without_commands, results, tolerance):
        yield line.text
    for check in checks:
        yield from find_advice(check.wrong_rotation, check.reasons)
        if not check.result.passed:
            yield from check.advise_on_layer()


def _find_doubts(checks: Sequence[RotatedCheck]) -> Iterator[Doubt]:
    """Yield the mistakes that tensors which passed may still have."""
    for check in checks:
        if check.result.passed:
            yield from check.find_other_doubts()
            yield from check.find_weaknesses()


def check_pair(pair: TensorPair, job: RotationJob) -> RotatedCheck:
    """Compare queries or keys with the rotation of each layer type that they may belong to.

    Gemma 3 rotates by another base in sliding than in full layers, and `q.npy` does not state its
    layer. The first check that passes is returned, or else the one that needs the fewest mistakes.
    A layer without rope (NoPE) has to leave the tensor as it is.
    """
    tensor = _identify_axes(pair, job.find_encodings_named(pair.title), job)
    head_width = tensor.before.shape[-1]
    encodings = job.find_encodings_for(pair.title, head_width)
    if job.is_unrotated(pair.title):
        return UnrotatedCheck(tensor=tensor, encoding=encodings[0], job=job)
    checks = [RotatedCheck(tensor=tensor, encoding=encoding, job=job) for encoding in encodings]
    first = max(checks, key=lambda check: check.result.passed)  # the first that passes, if any does
    if not first.result.passed:
        return min(checks, key=RotatedCheck.misfit)
    first.rivals = checks  # A pass is doubtful if another layer type does not pass.
    return first


def _identify_axes(pair: TensorPair, encodings: Sequence[Encoding], job: RotationJob) -> HeadTensor:
    """Return a tensor before and after the rotation with its axes of heads and positions identified.

    Of a model with 4 heads of 64 channels, ports dump 12 positions in several shapes:

    - (4, 12, 64) and (12, 4, 64) have both axes, which the number of heads distinguishes;
    - (12, 256) has all heads of a position in a row: `arrange_heads` makes (12, 4, 64) of it;
    - (4, 768) has all positions of a head in a row: `unfold_positions` makes (4, 12, 64) of it;
    - (3072,) may be any of these, and is refused.

    Args:
        pair: The tensor before and after, as it was dumped.
        encodings: The encodings of the layers that the tensor may belong to.
        job: The model, and the options of the user.
    """
    # DeepSeek rotates 64 of the 192 channels of a head, and dumps often hold only these.
    widths = [(encoding.head_dim, encoding.rotary_dim) for encoding in encodings]
    stated_widths = filter(None, chain.from_iterable(widths))
    heads = HeadSizes([*dict.fromkeys(stated_widths)], job.head_counts)
    refuse_flat(pair, heads)
    unfolded = unfold_positions(pair, heads)
    position_axis = _choose_position_axis(unfolded, heads, job)
    return arrange_heads(unfolded, heads, position_axis)


def _choose_position_axis(pair: TensorPair, heads: HeadSizes, job: RotationJob) -> int:
    """Return the axis of positions: as the user states it, or else as shapes and head counts tell.

    Raises:
        ParameterError: If the tensor has no such axis as the user states.
    """
    if job.seq_axis is not None:
        Input(pair.before, pair.label).checked_sequence_shape(job.seq_axis)
        return job.seq_axis
    if heads.are_folded(pair.before.shape):
        return SEQ_AXIS  # The columns of each position hold all heads.
    return job.find_position_axis(pair.before.shape)
