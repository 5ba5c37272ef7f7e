"""Queries and keys of which only some elements were printed, compared at these elements.

llama.cpp prints the first and the last three indices of each axis. A rotated element follows from
the two channels of its pair: with interleaved pairs, 0 and 1 are both printed; with halves of 128
channels, 0 belongs to 64, which is not. What cannot be computed is left out and counted.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.doubts import FewElements
from pecli.checks.printed import widen_for_printed
from pecli.checks.verification import Verification
from pecli.checks.verify.rotation_job import RotationJob, Tokens, has_permuted_weights
from pecli.compare.comparison import Comparison, compare_arrays, problems_of
from pecli.compare.factors import Index
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, Flags, Floats, Indices, as_dtype, widened
from pecli.engine.named_values import NamedValues
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile, PrintedPart
from pecli.models.encoding import Encoding
from pecli.models.find import Model
from pecli.tensors.inputs import SEQ_AXIS, Input
from pecli.tensors.row_positions import RowPositions

PRINT_ALL = (
    "print all elements: in llama.cpp's common/debug.cpp, call common_debug_print_tensor with 4096 "
    "instead of 3"
)


class PrintedPair(NamedTuple):
    """A tensor before and after a rotation, (heads, tokens, D), NaN at channels that were not printed."""

    name: str
    before: Array
    after: Array
    part: PrintedPart


def verify_printed(
    label: str,
    after: LoadedFile,
    before: LoadedFile,
    model: Model,
    tolerance: Tolerance,
    options: NamedValues,
) -> Verification:
    """Compare the printed elements of rotated tensors with the rotation of those before.

    Args:
        label: The file, as it was given.
        after: Tensors after the rotation.
        before: The tensors of the same names before it.
        model: The model whose layers rotate them.
        tolerance: The errors that pass.
        options: `layer_type`, `positions` or `offset`, and where dynamic scalings are read.

    Raises:
        FileError: If no element can be computed from those that were printed.
    """
    # A rotated element is x·cos − y·sin. If the printed x and y are off by ε each, it is off by at
    # most ε·(|cos| + |sin|) ≤ √2·ε, beside the rounding of the element that it is compared with.
    rounding = after.rounding + math.sqrt(2) * before.rounding
    allowed = widen_for_printed(label, tolerance, rounding)
    # To explain a failure, a search would need elements that were not printed.
    job = RotationJob.from_options(model, allowed, reasons=False, options=options)
    compared = [
        _compare_with_nearest_rotation(label, pair, job) for pair in _pair_printed(before, after)
    ]
    results = tuple(tensor.result for tensor in compared)
    answer = Verification(
        file=label,
        scheme="rope",
        tensors=results,
        problems=problems_of(results),
        readings={tensor.result.name: tensor.note for tensor in compared},
    )
    # Each tensor has the same doubt, with other numbers: that of the first one stands for all.
    return answer.with_doubts([compared[0].doubt])


def _pair_printed(before: LoadedFile, after: LoadedFile) -> Iterator[PrintedPair]:
    """Yield the tensors of two files that have the same names, before and after a rotation."""
    tensors_before = before.read_as("float32").tensors
    for name, values in after.read_as("float32").tensors.items():
        yield PrintedPair(
            name=name, before=tensors_before[name], after=values, part=after.parts[name]
        )


class _Compared(NamedTuple):
    """A comparison of some elements of a tensor.

    Attributes:
        result: The comparison.
        elements: The number of elements that were compared.
        total: The number of elements that the whole tensor has.
    """

    result: Comparison
    elements: int
    total: int

    @property
    def note(self) -> str:
        return f"{self.elements:,} of {self.total:,} elements compared"

    @property
    def doubt(self) -> FewElements:
        """The doubt that a pass of so few elements leaves about the tensor."""
        return FewElements(
            tensor=self.result.name, compared=self.elements, total=self.total, advice=PRINT_ALL
        )


def _compare_with_nearest_rotation(label: str, pair: PrintedPair, job: RotationJob) -> _Compared:
    """Compare a printed tensor with each rotation of the model, and return the best comparison.

    The rotation depends on the layer, and on the channels that make a pair, which a log often does not
    state. The one that leaves the fewest wrong elements is most likely the model's.

    Raises:
        FileError: If no printed element has both channels of its pair printed.
    """
    comparisons = []
    for encoding in job.find_encodings_for(pair.name, pair.part.shape[-1]):
        for layout in _find_layouts(encoding, job):
            comparisons.append(_compare_printed_elements(pair, encoding, job, layout))
    best = min(comparisons, key=_rank_by_wrong_elements)  # Comparisons of no element come last.
    if not best.elements:
        problem = f"no printed element of {pair.name} has both channels of its pair"
        raise FileError(label, problem, PRINT_ALL)
    return best


def _rank_by_wrong_elements(compared: _Compared) -> tuple[bool, int]:
    """Return the number of wrong elements, with True before it if no element was compared.

    The smallest is the best comparison: (False, 3) comes before (False, 90) and (True, 0).
    """
    return compared.elements == 0, compared.result.mismatched or 0


def _find_layouts(encoding: Encoding, job: RotationJob) -> tuple[str, ...]:
    """Return the layouts of pairs that llama.cpp may have; an empty one is the model's own.

    Its converter permutes the weights of Llama and some others so that pairs are neighbours. Of
    these, the printed channels 0 1 2 … 125 126 127 hold whole pairs; of halves, (0, 64), none.
    """
    if job.settings.layout:
        return (job.settings.layout,)
    models_own = ""
    return ("interleaved", models_own) if has_permuted_weights(encoding) else (models_own,)


def _compare_printed_elements(
    pair: PrintedPair, encoding: Encoding, job: RotationJob, layout: str
) -> _Compared:
    """Compare the printed elements of a rotated tensor with those that a rotation makes.

    A rotated element is computed from the two channels of its pair. It is compared if it was printed
    after the rotation, and both channels were printed before it.
    """
    expected = _rotate_printed(pair, encoding, job, layout)  # NaN if a channel was not printed
    is_compared = np.isfinite(expected) & _mark_printed_elements(pair)
    result = compare_arrays(
        _replace_by_zero(expected, ~is_compared),
        _replace_by_zero(pair.after, ~is_compared),
        job.tolerance,
        name=pair.name,
    )
    count = int(np.count_nonzero(is_compared))
    # The arrays hold the printed heads and tokens only, but a report names those of the whole tensor.
    result = _translate_to_whole_tensor(result, pair.part, count)
    return _Compared(result, elements=count, total=pair.part.size)


def _rotate_printed(pair: PrintedPair, encoding: Encoding, job: RotationJob, layout: str) -> Floats:
    """Return the rotation of a tensor by an encoding, (heads, tokens, D), NaN where it is not known.

    An element is x·cos − y·sin of the two channels of its pair. If x or y was not printed, it is NaN,
    and so is the element.
    """
    before = Input(widened(pair.before), pair.name)
    rows = RowPositions(ids=_find_positions(pair.part, job))
    rotation = job.make_rotation(before, encoding, rows, seq_axis=SEQ_AXIS, layout=layout)
    return widened(rotation.apply(before))


def _replace_by_zero(values: Array, is_left_out: Flags) -> Array:
    """Return values in float32, with 0 for those that are left out of a comparison.

    They are 0 on both sides then, and never differ.
    """
    return as_dtype(np.where(is_left_out, 0.0, values), "float32")


def _mark_printed_elements(pair: PrintedPair) -> Flags:
    """Return True for each element after the rotation whose channel was printed, (heads, tokens, D)."""
    is_printed = np.zeros(pair.after.shape, bool)
    is_printed[..., pair.part.channels] = True
    return is_printed


def _find_positions(part: PrintedPart, job: RotationJob) -> Indices:
    """Return the positions of the tokens that were printed, which rotate them.

    Of a prompt of 40 tokens, llama.cpp prints those with the indices 0, 1, 2, 37, 38 and 39. These
    are their positions if the user states none. An offset is added to them; of a list with the
    positions of all 40, those six are taken.

    Raises:
        ParameterError: If the user states them by other options, or not for each token.
    """
    _refuse_mask_and_shift(job.tokens)
    printed_indices = part.tokens
    if job.tokens.positions is None:
        return printed_indices + job.settings.first_position
    positions_of_all = np.asarray(job.tokens.positions)
    _, token_count, _ = part.shape
    if positions_of_all.shape != (token_count,):
        rule = f"the dump has {token_count} tokens"
        raise ParameterError("positions", f"of shape {positions_of_all.shape}", rule)
    return positions_of_all[printed_indices]


def _refuse_mask_and_shift(stated: Tokens) -> None:
    """Raise ParameterError if the user states positions by a mask, or by a shift.

    A mask marks the padding in a batch, and a shift moves the keys of a cache. A log is of one prompt
    without padding or cache, so that only `positions` or `offset` can be meant.
    """
    if stated.attention_mask is not None or stated.shift is not None:
        rule = "of tokens that were not printed, nothing is known"
        raise ParameterError("positions", "missing", rule, "give `positions` or `offset`")


def _translate_to_whole_tensor(result: Comparison, part: PrintedPart, count: int) -> Comparison:
    """Return a result with the indices of the whole tensor, and the number of elements that were compared.

    Of (32, 40, 128), heads and tokens 0, 1, 2 and the last three were printed: the compared arrays
    are (6, 6, 128), and their index (3, 4, 0) is (29, 38, 0) in the tensor.
    """
    return replace(
        result,
        shape=part.shape,
        size=count,
        worst_index=_translate_index(result.worst_index, part),
        first_index=_translate_index(result.first_index, part),
        # What these say of rows and heads is about the small arrays, and is left out.
        where={},
        parts=(),
    )


def _translate_index(index: Index | None, part: PrintedPart) -> Index | None:
    """Return the index in the whole tensor of an element of the printed heads and tokens."""
    if index is None:
        return None
    head, token, channel = index
    return int(part.heads[head]), int(part.tokens[token]), channel
