"""Reasons for queries or keys that are not rotated as they should be: one for all heads, or for each wrong part."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pecli.compare.tolerance import FREQ_RTOL
from pecli.engine.arrays import Array, Flags, Floats, Indices
from pecli.engine.edits import Edit, Misplacement, Parameter, Recipe, RowsWrong
from pecli.explain.catalogue import MISTAKES
from pecli.explain.catalogue.token_positions import OtherTokenPositions
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import MAX_MISTAKES, explain_cases, located, ranked
from pecli.explain.hypothesis import Case, Stage, accept
from pecli.explain.rotated_heads import Heads
from pecli.explain.rotated_making import (
    HeadObservations,
    HeadRotation,
    RotatedMaking,
    rotated_making,
    turn_fit,
)
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

OF_FORMULA = (Misplacement.REVERSED, Misplacement.NOT_ROTATED)
"""Mistakes of positions that are those of the formula as well, unless the right positions are stated."""

Passes = Callable[[Array, Array], bool]

WHOLE = "after"
"""The name of the tensor after the rotation, if it is explained as a whole."""


@dataclass(frozen=True, eq=False)
class RotatedTensor:
    """Queries or keys before and after a rotation, and the rotation that should be between them."""

    before: Array  # (sequences, heads, rows, channels)
    after: Array
    plan: HeadRotation
    places: Indices  # (axes, sequences, rows); one sequence if the positions are those of all
    seen: Flags  # (sequences, rows): False for padding
    are_stated: bool  # whether somebody stated where tokens stand
    dtype: str
    head_shape: tuple[int, ...]  # the axes before positions and channels, as they were given

    @property
    def sequences(self) -> int:
        return len(self.after)

    @property
    def heads(self) -> int:
        return int(self.after.shape[1])

    @property
    def has_common_positions(self) -> bool:
        """True if all sequences should be rotated by the same positions."""
        return len(self.seen) == 1

    @property
    def whole(self) -> "Part":
        """All heads of all sequences."""
        return Part(range(self.sequences), range(self.heads))

    def part(self, part: "Part") -> "RotatedTensor":
        """Return some heads of some sequences, as tokens whose positions are stated."""
        rows = [min(sequence, len(self.seen) - 1) for sequence in part.sequences]
        which = np.ix_(part.sequences, part.heads)
        return replace(
            self,
            before=self.before[which],
            after=self.after[which],
            places=self.places[:, rows[:1]],
            seen=self.seen[rows[:1]],
            are_stated=True,
            head_shape=(len(part.heads),),
        )

    def at_rows(self, rows: Flags) -> "RotatedTensor":
        """Return some rows of all heads."""
        return replace(
            self,
            before=self.before[:, :, rows],
            after=self.after[:, :, rows],
            places=self.places[:, :, rows],
            seen=self.seen[:, rows],
        )

    def count_not_finite_before(self) -> int:
        """Return how many values before the rotation are not finite, except for padding."""
        is_strange = ~np.isfinite(self.before)
        return int(np.count_nonzero(is_strange & self.seen[:, None, :, None]))

    @property
    def is_finite(self) -> bool:
        """True if all values are finite, except for padding."""
        has_finite_rows = np.isfinite(self.before) & np.isfinite(self.after)
        return bool((has_finite_rows | ~self.seen[:, None, :, None]).all())

    def count_spoilt_padding(self) -> int:
        """Return how many values of padding are finite before the rotation, and not after it."""
        is_spoilt = np.isfinite(self.before) & ~np.isfinite(self.after)
        return int(np.count_nonzero(is_spoilt & ~self.seen[:, None, :, None]))

    def has_strange_padding(self) -> bool:
        """Return True if padding holds infinities or NaN after the rotation."""
        is_strange = ~np.isfinite(self.after)
        return bool((is_strange & ~self.seen[:, None, :, None]).any())

    def sequences_apart(self) -> list["RotatedTensor"]:
        """Return all sequences together if they have common positions, else each of them."""
        if self.has_common_positions:
            return [self]
        every = range(self.heads)
        return [self.part(Part([sequence], every)) for sequence in range(self.sequences)]

    @cached_property
    def tokens(self) -> TokenRows:
        """The rows of sequences that have common positions, with the positions at which padding was rotated.

        Padding has no right position. Those that it was given show how a model counts: from 0 through
        the padding, or from 0 at the first token.
        """
        expected = self.places[:, 0].astype(np.float64)
        is_token = self.seen[0]
        tokens = TokenRows(expected, is_token, expected, self.are_stated)
        if is_token.all():
            return tokens
        measured = self._measured_padding(~is_token, expected[:, ~is_token])
        if measured is None:
            return tokens
        positions = expected.copy()
        is_measured = ~np.isnan(measured)
        positions[:, ~is_token] = np.where(is_measured, measured, expected[:, ~is_token])
        return replace(tokens, padding=positions)

    def _measured_padding(self, is_padding: Flags, expected: Floats) -> Floats | None:
        """Return the positions (axes, rows) at which rows of padding were rotated; NaN for rows at none."""
        every_row = np.ones(expected.shape[1], bool)
        making = rotated_making(
            self.plan,
            Heads(self.before[:, :, is_padding]),
            TokenRows(expected, every_row, expected, True),
            self.dtype,
            self.head_shape,
        )
        rows = np.arange(making.rows)
        after = Heads(self.after[:, :, is_padding]).few.matrix(rows)
        with np.errstate(all="ignore"):  # Padding may hold anything.
            return making.measured_positions(after, rows)

    @cached_property
    def case(self) -> Case:
        """The case of sequences that have common positions; rows of padding are left out."""
        before = self.before
        after = self.after
        if not self.seen[0].all():
            before = before[:, :, self.seen[0]]
            after = after[:, :, self.seen[0]]
        making = rotated_making(self.plan, Heads(before), self.tokens, self.dtype, self.head_shape)
        observations = HeadObservations(Heads(after), self.dtype)
        return Case.of(self.plan.rope, making, observations)

    @property
    def along_heads(self) -> Iterator[Case]:
        """The case in which positions are where heads were taken to be, if there is one.

        A shard of a model has fewer heads, so that their number does not tell which axis is which.
        """
        rows = self.after.shape[2]
        if self.are_stated or len(self.head_shape) == 0 or min(self.heads, rows) < 2:
            return
        axis = self.plan.axis
        edit = Parameter("position_axis", axis, -3 if axis == -2 else -2)
        places = np.arange(self.heads)[None, None] + self.plan.rope.offset
        turned = replace(
            self,
            before=self.before.swapaxes(1, 2),
            after=self.after.swapaxes(1, 2),
            places=np.broadcast_to(places, (len(self.places), 1, self.heads)),
            seen=np.ones((1, self.heads), bool),
            head_shape=(*self.head_shape[:-1], rows),
        )
        case = turned.case
        assert isinstance(case.making, RotatedMaking)
        some = case.observations.tested_rows
        fit = turn_fit(case.making, case.observations.measured(some), some)
        if fit is not None and fit.shows_turns:
            yield replace(case, arranged=(edit,))


class Part(NamedTuple):
    """Some heads of some sequences."""

    sequences: Sequence[int]
    heads: Sequence[int]


def explain_rotated(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return why a tensor is not rotated as planned: one explanation, or one for each wrong part."""
    explanations: list[Explanation] = []
    if not tensor.after.size or tensor.count_not_finite_before():
        return []
    with limited():
        if tensor.is_finite:
            explanations.extend(_explained(tensor, tolerance))
        elif tensor.has_common_positions and np.isfinite(tensor.after).any():
            explanations.extend(_explained_beside_nan(tensor, tolerance))
    return explanations


def _explained_beside_nan(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return why a tensor that holds infinities or NaN is wrong, in these rows and in all others.

    Nothing is measured in rows that hold values which are not finite, so they are only named.
    """
    damage = located([tensor.case.within(tolerance)])
    if damage:
        return ranked(damage)[:1]
    is_finite = np.isfinite(tensor.after).all(axis=(0, 1, 3)) | ~tensor.seen[0]
    strange_rows = np.flatnonzero(~is_finite)
    if not (is_finite & tensor.seen[0]).any():
        return []
    explanations = _explained(tensor.at_rows(is_finite), tolerance)
    named = RowsWrong(tuple(strange_rows.tolist()))
    return [explanation.beside(named) for explanation in explanations]


def _explained(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    parts = [*_wrong_heads(tensor, tolerance)]
    if parts:
        explanations = [*_of_parts(tensor, parts, tolerance)]
        if len(explanations) == len(parts):
            return explanations
    if tensor.has_common_positions:
        most = MAX_MISTAKES if tensor.sequences == 1 else BATCH_MISTAKES
        explanation = _shortest_explanation(tensor, tolerance, most)
        if explanation is not None:
            return [explanation]
    if tensor.sequences == 1:
        return []
    return _by_sequence(tensor, tolerance)


def _shortest_explanation(
    tensor: RotatedTensor, tolerance: float, most_mistakes: int
) -> Explanation | None:
    """Return the shortest explanation of sequences that have common positions.

    Returns:
        The explanation; None if all rows are padding, if no mistakes of the catalogue explain the
        tensor, or if it is right and only computed in float32.
    """
    if not tensor.seen.any():
        return None
    explanations = _at_other_positions(tensor.case, tolerance)
    if not explanations:
        cases = [tensor.case, *tensor.along_heads]
        explanations = explain_cases(cases, tolerance, most_mistakes)
    for explanation in explanations:
        # Nearly every model rotates in float32, so that this is not a mistake worth reporting.
        reported = explanation.without(Recipe("float32"))
        if not reported.edits:
            continue
        if tensor.are_stated:
            # No command reproduces it: `pecli apply` has no options for stated positions or heads.
            return reported.made_by(None)
        return reported
    return None


def _at_other_positions(case: Case, tolerance: float) -> list[Explanation]:
    """Return the explanation by positions that a known mistake leads to, or by any if the right ones are stated.

    Every row shows its position, so that no other mistake has to be looked for if these explain all elements.
    """
    for mistake in OtherTokenPositions.proposals(case):
        is_known = mistake.mistake is not None and mistake.mistake.kind not in OF_FORMULA
        if not is_known and not mistake.are_stated:
            continue
        moved = case.given(mistake)
        explanation = accept(moved) or accept(moved.within(tolerance))
        if explanation is not None:
            return [explanation]
    return []


def _wrong_heads(tensor: RotatedTensor, tolerance: float) -> Iterator[Part]:
    """Yield the wrong heads of each sequence, if other heads are right."""
    wrong = np.stack([_are_wrong(tensor, number, tolerance) for number in range(tensor.sequences)])
    if wrong.all() or not wrong.any():
        return
    for number, heads in enumerate(wrong):
        if heads.any():
            yield Part([number], np.flatnonzero(heads).tolist())


def _are_wrong(tensor: RotatedTensor, sequence: int, tolerance: float) -> Flags:
    """Return which heads of a sequence have a wrong element in a few rows."""
    part = tensor.part(Part([sequence], range(tensor.heads)))
    if not part.seen.any():
        return np.zeros(tensor.heads, bool)
    case = part.case.within(tolerance)
    return np.asarray(case.making.by_head(case.tested).any(axis=(1, 2)))


def _of_parts(
    tensor: RotatedTensor, parts: Sequence[Part], tolerance: float
) -> Iterator[Explanation]:
    """Yield the explanation of each part, as long as there is one, if all other heads are right."""
    for part in parts:
        others = [head for head in range(tensor.heads) if head not in part.heads]
        (sequence,) = part.sequences
        rest = Part([sequence], others)
        if others and accept(tensor.part(rest).case.within(tolerance)) is None:
            return
        explanation = _shortest_explanation(tensor.part(part), tolerance, PART_MISTAKES)
        if explanation is None:
            return
        yield explanation.renamed([_name(tensor, part)])


def _name(tensor: RotatedTensor, part: Part) -> str:
    """Return the name of a part: «sequence 1, heads 0, 3»."""
    (sequence,) = part.sequences
    if len(part.heads) == tensor.heads:
        return f"sequence {sequence}"
    which = "head" if len(part.heads) == 1 else "heads"
    return f"sequence {sequence}, {which} {', '.join(map(str, part.heads))}"


def undetected_mistakes(tensor: RotatedTensor, passes: Passes) -> Iterator[tuple[Edit, ...]]:
    """Yield known mistakes with which a tensor would have passed as well: it does not show that it has none.

    Args:
        tensor: A tensor that passes.
        passes: Returns True if an array passes as the expected one.
    """
    cases = [part.case for part in tensor.sequences_apart() if part.seen.any()]
    first = cases[0]
    for kind in MISTAKES:
        if kind.stage in UNSEEN:
            continue
        for mistake in kind.examples(first.making, first.scheme):
            planted = [case.given(mistake) for case in cases]
            if all(_would_pass(case, passes) for case in planted) and not is_harmless(planted[0]):
                yield mistake.edits(planted[0])


def _would_pass(case: Case, passes: Passes) -> bool:
    """Return True if the values of a case would pass as the expected ones; few rows show most mistakes."""
    every = np.arange(case.observations.rows)
    for count in (*SAMPLES, len(every)):
        rows = every[:: -max(1, len(every) // count)]
        if not passes(case.making.rendered(rows), case.observations.matrix(rows)):
            return False
    return True


def is_harmless(case: Case) -> bool:
    """Return True if the mistakes of a case change the rotation by less than float32 arithmetic does."""
    found = case.making
    expected = case.specification
    assert isinstance(found, RotatedMaking)
    assert isinstance(expected, RotatedMaking)
    if found.form != expected.form or len(found.frequencies) != len(expected.frequencies):
        return False
    has_frequencies = np.allclose(found.frequencies, expected.frequencies, rtol=FREQ_RTOL, atol=0)
    has_amplitude = np.isclose(found.amplitude, expected.amplitude, rtol=FREQ_RTOL, atol=0)
    return has_frequencies and bool(has_amplitude and _turns_alike(found, expected))


def _turns_alike(found: RotatedMaking, expected: RotatedMaking) -> bool:
    has_positions = np.array_equal(found.positions, expected.positions)
    return has_positions and np.array_equal(found.axes, expected.axes)


def _by_sequence(tensor: RotatedTensor, tolerance: float) -> list[Explanation]:
    """Return the explanation of each sequence; only one if it is that of all."""
    explanations: list[Explanation] = []
    for number in range(tensor.sequences):
        part = Part([number], range(tensor.heads))
        explanation = _shortest_explanation(tensor.part(part), tolerance, MAX_MISTAKES)
        if explanation is not None:
            explanations.append(explanation.renamed([_name(tensor, part)]))
    mistakes = {explanation.mistakes for explanation in explanations}
    if len(explanations) == tensor.sequences and len(mistakes) == 1:
        return [explanations[0].renamed([WHOLE])]
    return explanations
