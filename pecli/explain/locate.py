"""Which part of a table is wrong, before any reason is looked for.

Where a small part is wrong and the rest is exact, that part is the answer: no edit of the whole table is invented for
it. Where the rows from one on are wrong, those are a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.acceptance import Judge, out_of_tolerance
from pecli.explain.edits import ColumnsWrong, Edit, ElementsWrong, Errors, Explanation, HeadsWrong, RowsWrong
from pecli.explain.recipe_search import scheme_errors
from pecli.explain.sample import Sample

MAX_ELEMENTS = 8  # wrong elements that are named one by one
MAX_SHARE = 0.25  # of the rows, columns or heads, that may be wrong in a table that is right otherwise
MAX_LISTED = 64
FREQUENCY_RTOL = 1e-5  # what frequencies and slopes of other programs are off by at most, relatively


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

    def _parts(self) -> Iterator[tuple[float, type[Any], Flags]]:
        """Elements, where they are few; else rows, columns and heads: the share that is wrong, the kind of edit, and
        the wrong ones.
        """
        count = np.count_nonzero(self.wrong)
        whole_rows = self.wrong.ndim > 1 and self.wrong.shape[-1] > 1 and self.wrong.all(axis=-1).any()
        if 0 < count <= min(MAX_ELEMENTS, MAX_SHARE * self.wrong.size) and not whole_rows:
            yield 0.0, ElementsWrong, self.wrong
        elif self.wrong.ndim > 1:
            leading = tuple(range(self.wrong.ndim - 2))
            for kind, axes in (
                (RowsWrong, (-2,)),
                (ColumnsWrong, (-1,)),
                *([(HeadsWrong, leading)] if leading else []),
            ):
                flags = self.along(axes)
                if 0 < flags.mean() <= MAX_SHARE:
                    yield float(flags.mean()), kind, flags

    def explanations(self, scheme: Scheme | None = None) -> Iterator[Explanation]:
        """The smallest part that is wrong, with what is left of all others."""
        for _, kind, flags in sorted(self._parts(), key=lambda each: each[0])[:1]:
            is_row, is_head = kind is RowsWrong, kind is HeadsWrong
            named = flags[:, None] if is_row else flags[..., None, None] if is_head else flags
            places = [tuple(place) for place in np.argwhere(flags).tolist()]
            which = [place[0] for place in places] if kind in (RowsWrong, ColumnsWrong) else places
            errors = self.errors._replace(left=np.where(named, 0.0, self.errors.left))
            yield Explanation((kind(tuple(which[:MAX_LISTED])),), scheme, (self.one.name,), errors)

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


def explain_part(prior: Scheme, judge: Judge, *, surely: bool) -> Iterator[Explanation]:
    """The part that is wrong, as the whole answer; `surely` where no parameter or order of rows may be the reason."""
    (one,) = judge.samples.values()
    found = located(prior, one, 0.0)
    for each in found.explanations(prior) if found is not None else ():
        if not surely or (found and found.is_no_scheme(each.edits[0])):
            yield from judge.accepted([each])
