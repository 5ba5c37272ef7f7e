"""Which part of a table is wrong, before any reason is looked for.

Where a small part is wrong and the rest is exact, that part is the answer: no edit of the whole table is invented for
it. Where the rows from one on are wrong, those are a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.acceptance import out_of_tolerance
from pecli.explain.edits import ColumnsWrong, Edit, ElementsWrong, Errors, Explanation, HeadsWrong, RowsWrong
from pecli.explain.recipe_search import scheme_errors
from pecli.explain.sample import Sample

MAX_ELEMENTS = 8
"""Wrong elements that are named one by one."""
MAX_SHARE = 0.25
"""Of the rows, columns or heads, that may be wrong in a table that is right otherwise."""
MAX_LISTED = 64
FREQUENCY_RTOL = 1e-5
"""What frequencies and slopes of other programs are off by at most, relatively."""


@dataclass(frozen=True)
class Located:
    """The elements of one tensor that are not what a scheme makes."""

    one: Sample
    errors: Errors
    wrong: Flags

    def along(self, axes: tuple[int, ...]) -> Flags:
        """Which places of some axes have a wrong element."""
        others = tuple(axis for axis in range(self.wrong.ndim) if axis not in [each % self.wrong.ndim for each in axes])
        return np.asarray(self.wrong.any(axis=others))

    @property
    def first_wrong_row(self) -> int | None:
        """The row from which on all are wrong, where all before are right, or the other way round."""
        rows = self.along((-2,))
        changes = np.flatnonzero(np.diff(rows)) + 1
        return int(changes[0]) if len(changes) == 1 else None

    def edits(self) -> list[Edit]:
        """What may be named as wrong: elements; else rows, columns or heads, whichever are the smaller part."""
        places = np.argwhere(self.wrong)
        whole_rows = self.wrong.ndim > 1 and self.wrong.shape[-1] > 1 and self.wrong.all(axis=-1).any()
        if 0 < len(places) <= min(MAX_ELEMENTS, MAX_SHARE * self.wrong.size) and not whole_rows:
            return [ElementsWrong(tuple(tuple(place) for place in places.tolist()))]
        if self.wrong.ndim < 2:
            return []
        found: list[tuple[float, Edit]] = []
        for kind, axis in ((RowsWrong, -2), (ColumnsWrong, -1)):
            flags = self.along((axis,))
            which = tuple(np.flatnonzero(flags).tolist())
            found.append((float(flags.mean()), kind(which)))
        if self.wrong.ndim > 2:
            flags = self.along(tuple(range(self.wrong.ndim - 2)))
            heads = tuple(tuple(place) for place in np.argwhere(flags).tolist())
            found.append((float(flags.mean()), HeadsWrong(heads)))
        return [edit for share, edit in sorted(found, key=lambda each: each[0]) if 0 < share <= MAX_SHARE][:1]

    def explanation(self, scheme: Scheme | None = None) -> Explanation | None:
        """The part that is wrong, with what is left of all others."""
        edit: Any = next(iter(self.edits()), None)
        if edit is None:
            return None
        left = np.where(_named(self.wrong.shape, edit), 0.0, self.errors.left)
        errors = Errors(left, self.errors.values, self.errors.drift)
        edit = type(edit)(edit.which[:MAX_LISTED])
        largest = float(np.abs(left).max())
        return Explanation((edit,), scheme, largest, 0.0, (self.one.name,), errors=lambda _: errors)

    def is_no_scheme(self, edit: Edit) -> bool:
        """Whether wrong rows are no padding, nor another beginning or end, which have names of their own; columns and
        heads may be wrong by a parameter.
        """
        if not isinstance(edit, RowsWrong):
            return isinstance(edit, ElementsWrong) and self.wrong.ndim > 1
        rows = self.along((-2,))
        values = np.moveaxis(self.one.values, -2, 0)[rows]
        at_an_end = (rows[0] or rows[-1]) and np.count_nonzero(rows) > 1
        return bool(np.abs(values).max(initial=0.0) > 0) and not at_an_end


def located(prior: Scheme, one: Sample, atol: float) -> Located | None:
    """Where a tensor is not what the prior makes, beyond the tolerance and rounding; None where shapes differ."""
    if not one.whole or np.iscomplexobj(one.values):
        return None
    errors = scheme_errors(prior, drifts=True)({one.name: one})
    if len(one.shape) == 1:
        return Located(one, errors, ~(np.abs(errors.left) <= FREQUENCY_RTOL))
    if errors.left.shape != one.shape:
        return None
    return Located(one, errors, out_of_tolerance(errors, one.values, one.dtype, atol))


def explain_part(prior: Scheme, alone: Mapping[str, Sample], atol: float, *, surely: bool) -> Explanation | None:
    """The part that is wrong, as the whole answer; `surely` where no parameter or order of rows may be the reason."""
    (one,) = alone.values()
    found = located(prior, one, 0.0)
    right = found.explanation(prior) if found is not None else None
    return None if right is None or (surely and not (found and found.is_no_scheme(right.edits[0]))) else right


def _named(shape: tuple[int, ...], edit: Any) -> Flags:
    """The elements that an edit names."""
    named = np.zeros(shape, bool)
    if isinstance(edit, (ElementsWrong, HeadsWrong)):
        for place in edit.which:
            named[place] = True
    else:
        named[(..., list(edit.which)) if isinstance(edit, ColumnsWrong) else (..., list(edit.which), slice(None))] = (
            True
        )
    return named
