"""Reasons for queries or keys that are not rotated as they should be: one for all heads, or for each wrong part."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from pecli.compare.factors import without_ones
from pecli.compare.tolerance import FREQ_RTOL
from pecli.engine.arrays import Array, Flags, Floats, Indices
from pecli.engine.edits import (
    Edit,
    ElementsWrong,
    HeadsWrong,
    MemoryOrder,
    Misplacement,
    Parameter,
    Recipe,
    Rows,
    RowsWrong,
)
from pecli.explain.agreeing_heads import Agreement, find_agreement
from pecli.explain.catalogue import MISTAKES
from pecli.explain.catalogue.arithmetic import Float32Recipe
from pecli.explain.catalogue.rotation_mistakes import OtherPairs
from pecli.explain.catalogue.token_positions import OtherTokenPositions
from pecli.explain.element_places import ElementPlaces
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import (
    MAX_MISTAKES,
    accepted,
    explain_by_small_damage,
    explain_cases,
    ranked,
)
from pecli.explain.hypothesis import Case, Mistake, Stage, accept
from pecli.explain.rotated_computation import (
    HeadObservations,
    HeadRotation,
    RotatedComputation,
    rotated_computation,
    rotation_fit,
)
from pecli.explain.rotated_heads import ConvertedHeads
from pecli.explain.time_limit import limited
from pecli.explain.token_rows import TokenRows

PART_MISTAKES = 2
"""Mistakes that a part of the heads may have at once; if these are more, the part is only named."""

BATCH_MISTAKES = 1
"""Mistakes that all sequences of a batch are tested for together; several at once are found in each of them."""

SAMPLES = (2, 16)
"""Rows that are compared before all are, to see whether a mistake shows."""

UNSEEN = (Stage.ARITHMETIC, Stage.DAMAGE, Stage.STORAGE)
"""Stages of mistakes that a tolerance is meant to allow, or that need no known mistake to be seen."""

MOVED_SHARE = 0.9
"""Share of rows that are moved by one number; the others may be damaged."""

NORM_RTOL = 0.01
"""Relative difference of norms before and after a rotation in bfloat16; those of random rows differ by more."""

OF_FORMULA = (Misplacement.REVERSED, Misplacement.NOT_ROTATED)
"""Mistakes of positions that are those of the formula as well, unless the right positions are stated."""

Passes = Callable[[Array, Array], bool]

IN_FLOAT32 = (Recipe("float32"),)
"""The edits of a tensor that is right, except that its angles were computed in float32."""

WHOLE = "after"
"""The name of the tensor after the rotation, if it is explained as a whole."""


@dataclass(frozen=True, eq=False)
class RotatedTensor:
    """Queries or keys before and after a rotation, and the rotation that should be between them."""

    before: Array  # (sequences, heads, rows, channels)
    after: Array
    plan: HeadRotation
    positions: Indices  # (axes, sequences, rows); one sequence if the positions are those of all
    is_token: Flags  # (sequences, rows): False for padding
    are_stated: bool  # whether somebody stated where tokens stand
    dtype: str
    places: ElementPlaces  # the heads and rows in the tensor as it was given
    is_shifted: bool = False  # whether rotated keys of a cache were moved to other positions

    @property
    def sequences(self) -> int:
        return len(self.after)

    @property
    def heads(self) -> int:
        return int(self.after.shape[1])

    @property
    def rows(self) -> int:
        return int(self.after.shape[2])

    @property
    def has_sequence_axis(self) -> bool:
        """True if the tensor as it was given has an axis of sequences, of which there may be only one."""
        return self.sequences > 1 or self.places.has_axis_before_heads

    @property
    def has_common_positions(self) -> bool:
        """True if all sequences should be rotated by the same positions."""
        return len(self.is_token) == 1

    def with_only(self, selection: "SomeHeads") -> "RotatedTensor":
        """Return some heads of one sequence, as a tensor of shape (1, heads, rows, channels).

        A part of the heads may have a mistake of its own, which is looked for in these heads only.
        """
        sequence = slice(selection.sequence, selection.sequence + 1)  # A slice keeps the axis.
        positions = self.positions
        is_token = self.is_token
        if not self.has_common_positions:  # Each sequence then has positions of its own.
            positions = positions[:, sequence]
            is_token = is_token[sequence]
        return replace(
            self,
            before=self.before[sequence][:, selection.heads],
            after=self.after[sequence][:, selection.heads],
            positions=positions,
            is_token=is_token,
            # No command rotates only some heads. If positions count as stated, none is suggested.
            are_stated=True,
            places=self.places.at_heads(self._numbers_of(selection)),
        )

    def _numbers_of(self, selection: "SomeHeads") -> list[int]:
        """Return the numbers of some heads among those of all sequences: 8 + 3 for (1, [3]), with 8 each."""
        first_head = selection.sequence * self.heads
        return [first_head + head for head in selection.heads]

    def at_rows(self, rows: Flags) -> "RotatedTensor":
        """Return the tensor with only some rows of all heads, True in a flag per row: 3 of 5 for 1 1 0 1 0."""
        return replace(
            self,
            before=self.before[:, :, rows],
            after=self.after[:, :, rows],
            positions=self.positions[:, :, rows],
            is_token=self.is_token[:, rows],
            places=self.places.at_rows(rows),
        )

    @property
    def _is_of_token(self) -> Flags:
        """True for each value of a token: flags that broadcast to (sequences, heads, rows, channels)."""
        return self.is_token[:, None, :, None]

    def count_not_finite_before(self) -> int:
        """Return how many values before the rotation are infinite or NaN, except for padding."""
        is_not_finite = ~np.isfinite(self.before)
        return int(np.count_nonzero(is_not_finite & self._is_of_token))

    @property
    def is_finite(self) -> bool:
        """True if no value before or after the rotation is infinite or NaN, except for padding."""
        is_finite = np.isfinite(self.before) & np.isfinite(self.after)
        return bool((is_finite | ~self._is_of_token).all())

    def count_spoilt_padding(self) -> int:
        """Return how many values of padding are finite before the rotation, and not after it."""
        is_spoilt = np.isfinite(self.before) & ~np.isfinite(self.after)
        return int(np.count_nonzero(is_spoilt & ~self._is_of_token))

    def has_strange_padding(self) -> bool:
        """Return True if padding holds infinities or NaN after the rotation."""
        is_not_finite = ~np.isfinite(self.after)
        return bool((is_not_finite & ~self._is_of_token).any())

    def sequences_apart(self) -> list["RotatedTensor"]:
        """Return all sequences together if they have common positions, else each of them."""
        if self.has_common_positions:
            return [self]
        return [self.with_only(self.all_heads(sequence)) for sequence in range(self.sequences)]

    def all_heads(self, sequence: int) -> "SomeHeads":
        """Return the selection of all heads of one sequence."""
        return SomeHeads(sequence, list(range(self.heads)))

    @cached_property
    def tokens(self) -> TokenRows:
        """The rows of sequences that have common positions, with the positions at which padding was rotated.

        Padding has no right position, and is not compared. But the positions that it was given show how a
        model counts: from 0 through the padding, or from 0 at the first token.
        """
        expected = self.positions[:, 0].astype(np.float64)  # (axes, rows)
        is_token = self.is_token[0]  # the same for all sequences, as the positions are
        is_padding = ~is_token
        positions = expected.copy()
        if is_padding.any():
            padding = self.at_rows(is_padding)
            positions[:, is_padding] = padding._positions_used(expected[:, is_padding])
        return TokenRows(expected, is_token, positions, self.are_stated)

    def _positions_used(self, expected: Floats) -> Floats:
        """Return the position at which each row of this tensor was rotated, (axes, rows).

        It follows from the angles: if a pair of frequency 0.1 turned by 0.5, its row was at position 5. A
        row that shows no position keeps the expected one.

        Args:
            expected: The position at which each row should have been rotated, (axes, rows).
        """
        measured = self._measured_positions(expected)
        if measured is None:
            return expected
        return np.where(np.isnan(measured), expected, measured)

    def _measured_positions(self, expected: Floats) -> Floats | None:
        """Return the position that each row shows, NaN for a row that shows none; None if no row does."""
        # The rows are padding, but are measured as any token is.
        rotation = self._rotation_at(TokenRows.only_tokens(expected))
        every_row = np.arange(self.rows)
        # A few heads are enough to show a position.
        heads_after = ConvertedHeads(self.after).first_few.matrix(every_row)
        with np.errstate(all="ignore"):  # Rows of padding may hold anything.
            return rotation.measured_positions(heads_after, every_row)

    def _rotation_at(self, tokens: TokenRows) -> RotatedComputation:
        """Return the steps by which the rows of this tensor should have been rotated.

        Args:
            tokens: The expected positions; as many rows of them are tokens as this tensor has rows.
        """
        before = ConvertedHeads(self.before)
        return rotated_computation(self.plan, before, tokens, self.dtype, self.places)

    @cached_property
    def case(self) -> Case:
        """The values of the tensor, beside the steps that should have made them, without rows of padding.

        A search for mistakes changes these steps, and compares their results with the values. All
        sequences of the tensor must have common positions.
        """
        is_token = self.is_token[0]  # the same for all sequences, as the positions are
        only_tokens = self
        if not is_token.all():  # Without padding, nothing is copied.
            only_tokens = self.at_rows(is_token)
        computation = only_tokens._rotation_at(self.tokens)
        observations = HeadObservations(ConvertedHeads(only_tokens.after), self.dtype)
        return Case.of(self.plan.rope, computation, observations)

    def possible_cases(self) -> Iterator[Case]:
        """Yield what is to be explained: the tensor as it is expected, then with its axes rearranged.

        A dump (8, 32, 128) should be 8 heads of 32 positions, but may be 32 heads of 8 positions. The
        model's number of heads does not decide it, since a shard of the model has fewer. It is
        rearranged only if all heads then have the same rotation at each position.
        """
        yield self._case_in_layout_of_heads
        for rearranged in self._rearrangements():
            case = rearranged.tensor.case
            if _are_heads_rotated_alike(case):
                # Every explanation then states it as well: «position_axis is −3 instead of −2».
                yield replace(case, arranged=(rearranged.edit,))

    @cached_property
    def agreement(self) -> Agreement:
        """The way in which most heads were rotated alike."""
        return find_agreement(self.case)

    @property
    def _case_in_layout_of_heads(self) -> Case:
        """The tensor as expected, with another layout of pairs supposed if all heads agree only by that.

        A port with the defaults of another one may have interleaved pairs, another base and no scaling.
        Once the pairs are supposed, two mistakes are left to be searched. A formula is not supposed:
        one with a wrong sign and one with another wrong sign differ only in the direction of angles.
        """
        mistake = self.agreement.mistake
        if isinstance(mistake, OtherPairs) and not self.agreement.odd_heads:
            return self.case.supposing(mistake)
        return self.case

    def _rearrangements(self) -> Iterator["RearrangedTensor"]:
        """Yield the tensor with other axes, another order in memory, and rows moved back."""
        yield from self._with_other_axes()
        moved_by = find_moved_rows(self.before, self.after)
        if moved_by:
            yield RearrangedTensor(self._with_rows_moved_back(moved_by), Rows("shifted", moved_by))

    def _with_other_axes(self) -> Iterator["RearrangedTensor"]:
        """Yield the tensor with its axes exchanged, and in another order in memory.

        A kernel writes 40 rows of 8 heads, (40, 8, 128), and the dump is labelled (8, 40, 128). Both
        have as many numbers, so that only values show it. It may be the dump before the rotation, the
        one after it, or both.
        """
        has_heads_and_rows = self.places.have_head_axis and min(self.heads, self.rows) > 1
        if not has_heads_and_rows:
            return
        if not self.are_stated:
            # Of (8, 32, 128), the last axis holds channels, and the others heads and positions.
            other_axis = -3 if self.plan.axis == -2 else -2
            edit = Parameter("position_axis", self.plan.axis, other_axis)
            yield RearrangedTensor(self._with_heads_as_rows(), edit)
        before = self._in_other_memory_order(self.before)
        after = self._in_other_memory_order(self.after)
        rearranged = {
            "after": replace(self, after=after),
            "before": replace(self, before=before),
            "both": replace(self, before=before, after=after),
        }
        if (self.positions == self.positions[:, :, :1]).all():
            # All rows of a cache that is shifted rotate by the same angles, in whichever order.
            del rearranged["both"]
        for which, tensor in rearranged.items():
            yield RearrangedTensor(tensor, self._edit_of_memory_order(which))

    def _in_other_memory_order(self, tensor: Array) -> Array:
        """Return (sequences, heads, rows, channels), which lies in memory with rows before heads, or the reverse."""
        sequences, heads, rows, channels = tensor.shape
        if self.plan.axis == -2:
            return tensor.reshape(sequences, rows, heads, channels).swapaxes(1, 2)
        # It is labelled (rows, heads, channels), and heads come before rows in memory.
        return tensor.swapaxes(1, 2).reshape(tensor.shape)

    def _edit_of_memory_order(self, which: str) -> MemoryOrder:
        """Return the edit that states the order of axes in memory; a single sequence has no axis."""
        heads_first = without_ones(self.after.shape)
        rows_first = without_ones(self.after.swapaxes(1, 2).shape)
        if self.plan.axis == -2:
            return MemoryOrder(expected=heads_first, found=rows_first, which=which)
        return MemoryOrder(expected=rows_first, found=heads_first, which=which)

    def _with_rows_moved_back(self, by: int) -> "RotatedTensor":
        """Return the tensor with rows that were moved down, the last ones to the top, where they were."""
        order = np.roll(np.arange(self.rows), -by)
        return replace(
            self,
            after=self.after[:, :, order],
            places=replace(self.places, rows=[self.places.rows[row] for row in order.tolist()]),
        )

    def _with_heads_as_rows(self) -> "RotatedTensor":
        """Return the tensor with the axes of heads and rows exchanged, since a file may have them in either order.

        (1, 8, 32, 128) with 8 heads of 32 rows becomes (1, 32, 8, 128) with 32 heads of 8 rows. Nothing states
        the positions of the new rows: they are consecutive, 0 to 7.
        """
        rows = self.heads  # 8
        positions = np.arange(rows) + self.plan.rope.offset
        axes_of_positions = len(self.positions)
        return replace(
            self,
            before=self.before.swapaxes(1, 2),
            after=self.after.swapaxes(1, 2),
            # All sequences have these positions, along all axes.
            positions=np.broadcast_to(positions, (axes_of_positions, 1, rows)),
            is_token=np.ones((1, rows), bool),
            places=self.places.with_axes_exchanged(),
        )


class RearrangedTensor(NamedTuple):
    """A tensor with its axes in another order, and the edit that states the order it has."""

    tensor: RotatedTensor
    edit: Edit


def find_moved_rows(before: Array, after: Array) -> int:
    """Return by how many rows all rows were moved down, the last ones to the top; 0 if by none.

    A rotation keeps the norm of each head in each row. If row 0 of the first heads had the norms
    8, 11 and 10, and row 1 has these after the rotation, rows were moved by 1.

    Args:
        before: Queries or keys before the rotation, (sequences, heads, rows, channels).
        after: Queries or keys after it.
    """
    norms_before = _norms_of_rows(before)
    norms_after = _norms_of_rows(after)
    is_first_row = np.isclose(norms_after, norms_before[0], rtol=NORM_RTOL, atol=0).all(axis=1)
    for moved_by in np.flatnonzero(is_first_row).tolist():
        moved_norms = np.roll(norms_before, moved_by, axis=0)
        is_row_alike = np.isclose(norms_after, moved_norms, rtol=NORM_RTOL, atol=0).all(axis=1)
        if is_row_alike.mean() >= MOVED_SHARE:
            return int(moved_by)
    return 0


def _norms_of_rows(heads: Array) -> Floats:
    """Return the norm of each row of the first few heads, (rows, heads)."""
    first_heads = ConvertedHeads(heads).first_few.at(slice(None))
    return np.asarray(np.linalg.norm(first_heads, axis=-1))


def _are_heads_rotated_alike(case: Case) -> bool:
    """Return True if, in a few rows, all heads of a row are rotated by the same angles."""
    computation = case.computation
    assert isinstance(computation, RotatedComputation)
    few_rows = case.observations.tested_rows
    fit = rotation_fit(computation, case.observations.measured(few_rows), few_rows)
    return fit.shows_rotation


class SomeHeads(NamedTuple):
    """Some heads of one sequence of a batch."""

    sequence: int
    heads: Sequence[int]


def explain_rotated(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return why queries or keys are not rotated as planned, as far as the time limit allows.

    There is one explanation of all heads of all sequences if possible; otherwise each wrong sequence, or
    the wrong heads of each sequence, have their own. Nothing can be found out if values before the
    rotation are infinite or NaN.
    """
    if not tensor.after.size or tensor.count_not_finite_before():
        return []
    explanations: list[Explanation] = []
    with limited():  # It ends the block without an error if time is up.
        if tensor.is_finite:
            explanations.extend(_explain_finite(tensor, tolerance))
        elif tensor.has_common_positions and np.isfinite(tensor.after).any():
            explanations.extend(_explain_partly_finite(tensor, tolerance))
    return explanations


def _explain_partly_finite(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the explanations of a tensor in which some rows hold infinities or NaN.

    If rows 5 and 6 hold NaN and all others are right, «only rows 5, 6 differ» is the explanation, as of
    any other small part that is damaged. Otherwise the finite rows have a mistake of their own, or are
    right although they are few.
    """
    damage = explain_by_small_damage([tensor.case.within(tolerance)])
    if damage:
        return ranked(damage)[:1]
    return _explain_finite_rows(tensor, tolerance)


def _explain_finite_rows(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the explanations of the finite rows, each of which also names the rows with infinities or NaN.

    «Base is 10000» becomes «base is 10000, rows 5 and 6 differ», and finite rows that are right become
    «only rows 5 and 6 differ». Nothing is returned if no token has a finite row.
    """
    is_damaged = _are_damaged_tokens(tensor)
    is_finite_token = tensor.is_token[0] & ~is_damaged
    if not is_finite_token.any():
        return []
    with_finite_tokens = tensor.at_rows(~is_damaged)
    explanations = _explain_finite(with_finite_tokens, tolerance)
    if not explanations:
        explanations = [*accepted([with_finite_tokens.case.within(tolerance)])]
    damaged_rows = RowsWrong(tuple(np.flatnonzero(is_damaged).tolist()))
    return [explanation.beside(damaged_rows) for explanation in explanations]


def _are_damaged_tokens(tensor: RotatedTensor) -> Flags:
    """Return for each row True if it is a token that holds infinities or NaN in any sequence or head.

    A row of padding may hold anything, and is not damaged.
    """
    is_element_finite = np.isfinite(tensor.after)  # (sequences, heads, rows, channels)
    is_row_finite = is_element_finite.all(axis=(0, 1, 3))
    return np.asarray(tensor.is_token[0] & ~is_row_finite)


def _explain_finite(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return why a tensor without infinities and NaN is wrong; an empty list if nothing explains it.

    Three assumptions are made in turn, until one leads to an explanation:

    1. Only some heads are wrong, since a kernel skips them, say.
    2. All sequences of the batch have the same mistake.
    3. Each sequence has mistakes of its own. Those of a single one are the mistakes of the whole batch.
    """
    of_wrong_heads = _explain_wrong_heads(tensor, tolerance)
    if tensor.sequences == 1:
        return of_wrong_heads or _likeliest_explanation(tensor, tolerance, MAX_MISTAKES)
    return (
        of_wrong_heads
        or _explain_batch(tensor, tolerance)
        or _explain_each_sequence(tensor, tolerance)
    )


def _explain_batch(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the mistake of all sequences of a batch; none can be found if they have different positions."""
    if not tensor.has_common_positions:
        return []
    return _likeliest_explanation(tensor, tolerance, BATCH_MISTAKES)


def _explain_wrong_heads(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return why some heads are wrong, and others right: one explanation per sequence that has wrong heads.

    Of two sequences of four heads, heads 2 and 3 of sequence 1 may be wrong. An empty list is returned
    unless the wrong heads of all these sequences are explained, and all other heads are right.
    """
    by_sequence = [_are_wrong(tensor, sequence, tolerance) for sequence in range(tensor.sequences)]
    is_wrong = np.stack(by_sequence)  # (sequences, heads), from a few rows
    are_some_wrong = is_wrong.any() and not is_wrong.all()
    if not are_some_wrong or not _are_right(tensor, _parts(~is_wrong), tolerance):
        return []
    explanations: list[Explanation] = []
    for part in _parts(is_wrong):
        of_part = _explain_part(tensor, part, tolerance, PART_MISTAKES)
        if not of_part:
            return []  # A mistake of the whole tensor is likelier, and is searched for by the caller.
        explanations += of_part
    return explanations


def _parts(is_selected: Flags) -> list[SomeHeads]:
    """Return the selected heads (sequences, heads) of each sequence that has any."""
    return [
        SomeHeads(sequence, np.flatnonzero(heads).tolist())
        for sequence, heads in enumerate(is_selected)
        if heads.any()
    ]


def _explain_part(
    tensor: RotatedTensor, part: SomeHeads, tolerance: float, most_mistakes: int
) -> list[Explanation]:
    """Return the likeliest explanation of a part, named after its heads: «sequence 1, heads 0, 1»."""
    explanations = _likeliest_explanation(tensor.with_only(part), tolerance, most_mistakes)
    return [explanation.renamed([_name_of(part, tensor)]) for explanation in explanations]


def _likeliest_explanation(
    tensor: RotatedTensor, tolerance: float, most_mistakes: int
) -> list[Explanation]:
    """Return the likeliest explanation of sequences whose rows have the same positions; an empty list if
    there is none.

    Args:
        tensor: The sequences, before and after their rotation.
        tolerance: The largest error of an element that is right.
        most_mistakes: The number of mistakes that are supposed at once.
    """
    if not tensor.is_token.any():  # All rows are padding.
        return []
    likeliest_first = _explain_most_heads(
        tensor, tolerance, most_mistakes
    ) or _explain_beside_float32(tensor, tolerance, most_mistakes)
    likeliest = likeliest_first[:1]
    if tensor.are_stated:
        # `pecli apply` has no options for stated positions: without a scheme, no command is printed.
        return [explanation.without_command() for explanation in likeliest]
    return likeliest


def _explain_most_heads(
    tensor: RotatedTensor, tolerance: float, most_mistakes: int
) -> list[Explanation]:
    """Return why most heads of a sequence are wrong, with an edit that names the others.

    If all heads lack the scaling, and head 3 is not rotated, it is «the llama3 scaling is missing, and
    only head 3 differs». An empty list is returned if no head is rotated differently than most, or if
    nothing explains these.
    """
    if tensor.sequences != 1 or not tensor.agreement.odd_heads:
        return []
    odd_heads = tensor.agreement.odd_heads
    most_heads = [head for head in range(tensor.heads) if head not in odd_heads]
    part = tensor.with_only(SomeHeads(0, most_heads))
    heads_wrong = HeadsWrong(tuple(map(tensor.places.head, odd_heads)))
    explanations = _likeliest_explanation(part, tolerance, most_mistakes)
    return [explanation.beside(heads_wrong) for explanation in explanations]


def _explain_beside_float32(
    tensor: RotatedTensor, tolerance: float, most_mistakes: int
) -> list[Explanation]:
    """Return the explanations that name more than float32 arithmetic, without naming that.

    Nearly every model rotates in float32, so that this is not a mistake worth reporting: it is an
    explanation only if nothing else is.
    """
    explanations = _explanations_of_rotation(tensor, tolerance, most_mistakes)
    beside_float32 = [explanation.without(Recipe("float32")) for explanation in explanations]
    with_mistakes = [explanation for explanation in beside_float32 if explanation.edits]
    may_be_float32 = any(explanation.edits == IN_FLOAT32 for explanation in explanations)
    if with_mistakes or not may_be_float32:
        return with_mistakes
    return _explain_by_float32(tensor, tolerance)


def _explanations_of_rotation(
    tensor: RotatedTensor, tolerance: float, most_mistakes: int
) -> list[Explanation]:
    """Return the explanation by other positions if these explain every element, or else by known mistakes.

    These are tried one at a time, then two at once, up to a given number. The shortest explanation comes
    first.
    """
    by_positions = _explain_by_positions(tensor.case)
    if by_positions:
        return by_positions
    explanations = explain_cases([*tensor.possible_cases()], tolerance, most_mistakes)
    return [explanation for explanation in explanations if not _has_unknown_indices(explanation)]


def _has_unknown_indices(explanation: Explanation) -> bool:
    """Return True if an explanation names elements of a tensor that lies in memory in another order.

    Element [2, 5, 7] of (40, 8, 128) has other indices in the file, which is labelled (8, 40, 128).
    """
    return explanation.has_edit(MemoryOrder) and explanation.has_edit(ElementsWrong)


def _explain_by_float32(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the explanation «computed by the recipe float32» if this recipe makes every element.

    The search has accepted float32 if some library could compute the elements in it. Far from position
    0, that allows much: at 70,000, angles may be off by 0.025. So the elements are now compared with
    those of the recipe. An empty list is returned if one is wrong, or if no option of `verify` makes them.

    Args:
        tensor: The tensor before and after its rotation.
        tolerance: The largest error of an element that is right.
    """
    by_recipe = Float32Recipe.of_scheme(tensor.plan.rope)
    # `verify --shift` computes exactly, whatever the recipe is.
    if tensor.is_shifted or by_recipe is None:
        return []
    return [*accepted([tensor.case.supposing(by_recipe).within(tolerance)])]


def _explain_by_positions(case: Case) -> list[Explanation]:
    """Return the explanation that rows are rotated by other positions, if it explains every element.

    The position of each row can be solved, so this is tried before anything is searched.
    """
    proposals = OtherTokenPositions.proposals(case)
    reasons = [positions for positions in proposals if _may_be_reason(positions)]
    return [*islice(accepted(map(case.supposing, reasons)), 1)]


def _may_be_reason(positions: OtherTokenPositions) -> bool:
    """Return True if other positions are a mistake of positions, and not of the formula of the rotation.

    Positions that no known mistake leads to, such as 0 3 1 2, count only if somebody stated the right ones.
    """
    mistake = positions.mistake
    has_known_reason = mistake is not None and mistake.kind not in OF_FORMULA
    return has_known_reason or positions.are_stated


def _are_wrong(tensor: RotatedTensor, sequence: int, tolerance: float) -> Flags:
    """Return which heads of a sequence have a wrong element in a few rows."""
    part = tensor.with_only(tensor.all_heads(sequence))
    if not part.is_token.any():
        return np.zeros(tensor.heads, bool)
    case = part.case.within(tolerance)
    return np.asarray(case.computation.by_head(case.wrong_in_few_rows).any(axis=(1, 2)))


def _are_right(tensor: RotatedTensor, parts: Sequence[SomeHeads], tolerance: float) -> bool:
    """Return True if every element of some heads is right; padding is not compared.

    Only a few rows may have been compared before, and others may be wrong.
    """
    for part in map(tensor.with_only, parts):
        if part.is_token.any() and accept(part.case.within(tolerance)) is None:
            return False
    return True


def _name_of(selection: SomeHeads, tensor: RotatedTensor) -> str:
    """Return the words for some heads of one sequence: «sequence 1, heads 0, 3», or «sequence 1» for all.

    In a tensor without an axis of sequences, they are «heads 0, 3».
    """
    noun = "head" if len(selection.heads) == 1 else "heads"
    heads = f"{noun} {', '.join(map(str, selection.heads))}"
    are_all_heads = len(selection.heads) == tensor.heads
    if tensor.has_sequence_axis:
        sequence = f"sequence {selection.sequence}"
        return sequence if are_all_heads else f"{sequence}, {heads}"
    return WHOLE if are_all_heads else heads


def undetected_mistakes(tensor: RotatedTensor, passes: Passes) -> Iterator[tuple[Edit, ...]]:
    """Yield known mistakes that a passed check does not exclude: with them, it would have passed as well.

    Two rows of a long model, for example, hardly differ with and without a scaling. Each typical mistake
    is planted in the expected values, which are then compared with the tensor. Mistakes that change less
    than float32 arithmetic does are not reported.

    Args:
        tensor: A tensor that passes.
        passes: Returns True if the second array passes where the first is expected.
    """
    cases = [part.case for part in tensor.sequences_apart() if part.is_token.any()]
    for mistake in _typical_mistakes(cases[0]):
        planted = [case.supposing(mistake) for case in cases]
        would_pass = all(_would_pass(case, passes) for case in planted)
        if would_pass and not is_harmless(planted[0]):
            yield mistake.edits(planted[0])


def _typical_mistakes(case: Case) -> Iterator[Mistake]:
    """Yield typical mistakes of a rotation, without rounding and damage.

    Rounding is what a tolerance allows, and damage is not a known mistake.
    """
    for kind in MISTAKES:
        if kind.stage not in UNSEEN:
            yield from kind.examples(case.computation, case.scheme)


def _would_pass(case: Case, passes: Passes) -> bool:
    """Return True if the values of a case would pass as the expected ones.

    Few rows show most mistakes, so that 2 and then 16 rows are compared before all are. The last row is
    always among them: a wrong base shows most far away from position 0.
    """
    every_row = np.arange(case.observations.rows)
    for count in (*SAMPLES, len(every_row)):
        step_back = -max(1, len(every_row) // count)
        rows = every_row[::step_back]
        if not passes(case.computation.rendered(rows), case.observations.matrix(rows)):
            return False
    return True


def is_harmless(case: Case) -> bool:
    """Return True if the mistakes of a case change the rotation by less than float32 arithmetic does.

    A base of 10000.01 instead of 10000, for example, or a scaling that begins beyond the last row: no
    data could show it, so a check is not weak for missing it.
    """
    wrong = case.computation  # with the supposed mistakes
    right = case.specification
    assert isinstance(wrong, RotatedComputation)
    assert isinstance(right, RotatedComputation)
    has_same_positions = np.array_equal(wrong.positions, right.positions)
    has_same_axes = np.array_equal(wrong.axes, right.axes)
    if wrong.form != right.form or not (has_same_positions and has_same_axes):
        return False
    has_same_amplitude = np.isclose(wrong.amplitude, right.amplitude, rtol=FREQ_RTOL, atol=0)
    has_same_frequencies = np.allclose(wrong.frequencies, right.frequencies, FREQ_RTOL, atol=0)
    return bool(has_same_amplitude and has_same_frequencies)


def _explain_each_sequence(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the explanation of each sequence of a batch; only one, for the whole, if all are the same.

    If 4 of 4 sequences are rotated with base 10000, that is one mistake of the whole tensor. If sequence 1
    has other positions than sequence 2, each has an explanation of its own.
    """
    explanations: list[Explanation] = []
    for sequence in range(tensor.sequences):
        part = tensor.all_heads(sequence)
        explanations += _explain_part(tensor, part, tolerance, MAX_MISTAKES)
    different_mistakes = {explanation.mistakes for explanation in explanations}
    are_all_explained = len(explanations) == tensor.sequences
    if are_all_explained and len(different_mistakes) == 1:
        return [explanations[0].renamed([WHOLE])]
    return explanations
