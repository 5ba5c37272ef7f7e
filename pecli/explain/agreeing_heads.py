"""Heads that were rotated alike: all of them, or most, by the expected formula or by a wrong one.

All heads of a position are rotated by the same angles. This holds whatever base, scaling or positions were used, so that
it shows the layout of pairs, and the heads with a mistake of their own, before anything is searched.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.explain.catalogue.rotation_mistakes import OtherFormula, OtherPairs, RotationMistake
from pecli.explain.hypothesis import Case
from pecli.explain.rotated_computation import MAX_MISFIT, RotatedComputation

MIN_AGREEING_SHARE = 0.75
"""Share of the heads that were rotated alike, if the others have mistakes of their own."""

REFERENCE_HEADS = 3
"""Heads with which the others are compared, one after the other: the first may be a wrong one."""


class Agreement(NamedTuple):
    """A way in which most heads were rotated alike.

    Attributes:
        mistake: The wrong layout of pairs, or the wrong formula; None for the expected ones.
        odd_heads: The heads that were rotated by other angles.
    """

    mistake: RotationMistake | None = None
    odd_heads: tuple[int, ...] = ()


def find_agreement(case: Case) -> Agreement:
    """Return how most heads were rotated by the same angles: as expected if no known way is that of most heads.

    If all heads were rotated in interleaved pairs instead of halves, and head 7 at other positions, it
    is interleaved pairs with head 7 as an odd one. Two heads are the fewest that can agree.

    Args:
        case: Queries or keys, beside the rotation that they should have, without supposed mistakes.
    """
    rotated = case.computation
    assert isinstance(rotated, RotatedComputation)
    if rotated.heads.before.count < 2:
        return Agreement()
    for mistake in _possible_mistakes(rotated):
        supposed = rotated if mistake is None else mistake.plant_in_rotation(rotated)
        is_alike = _find_most_alike(case, supposed)
        if is_alike.mean() >= MIN_AGREEING_SHARE:
            return Agreement(mistake, odd_heads=tuple(np.flatnonzero(~is_alike).tolist()))
    return Agreement()


def _possible_mistakes(rotated: RotatedComputation) -> Iterator[RotationMistake | None]:
    """Yield no mistake, then other layouts of pairs and other formulas."""
    yield None
    yield from OtherPairs.examples_for_rotation(rotated)
    yield from OtherFormula.examples_for_rotation(rotated)


def _find_most_alike(case: Case, rotated: RotatedComputation) -> Flags:
    """Return for each head whether it agrees with a reference head: the one with which most do."""
    rows = case.observations.tested_rows
    found = case.observations.matrix(rows)  # (rows, heads · channels)
    most_alike = np.zeros(rotated.heads.before.count, bool)
    for reference in range(min(REFERENCE_HEADS, len(most_alike))):
        is_alike = _are_rotated_as(reference, rotated, found, rows)
        if np.count_nonzero(is_alike) > np.count_nonzero(most_alike):
            most_alike = is_alike
    return most_alike


def _are_rotated_as(
    reference: int, rotated: RotatedComputation, found: Floats, rows: Indices
) -> Flags:
    """Return for each head whether the angles of a reference head explain it in a few rows.

    Args:
        reference: The number of the head whose angles are measured: they explain it in any case.
        rotated: The steps of the rotation, with the layout and the formula that are supposed.
        found: These rows of all heads after the rotation, (rows, heads · channels).
        rows: The indices of the rows.
    """
    form = rotated.heads
    by_head = found.reshape(len(found), form.before.count, form.before.channels)
    before = form.channels.pair(form.before.at(rows), form.channels.layout_before)
    after = form.channels.pair(by_head, form.channels.layout_after)
    only_reference = slice(reference, reference + 1)
    phasors = form.formula.phasors(
        before.of_heads(only_reference), after.of_heads(only_reference)
    )  # (rows, pairs)
    if phasors is None:
        return np.zeros(form.before.count, bool)
    predicted = form.matrix_of(phasors, rows).reshape(by_head.shape)
    errors = np.linalg.norm(by_head - predicted, axis=(0, 2))
    norms = np.linalg.norm(by_head, axis=(0, 2))
    return np.asarray(errors <= MAX_MISFIT * norms)
