"""Tables of cosines and sines: readings, frequencies, positions, roundings and amplitudes tried against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, product

import numpy as np

from pecli.checks.diagnose import fit, precision
from pecli.checks.diagnose.angles import Option, options, usual
from pecli.checks.diagnose.causes import FITTED, LEVELS, Cause, Explanation, best, cost_of
from pecli.checks.diagnose.channels import own_frequencies
from pecli.checks.diagnose.match import Agreement, Matcher
from pecli.checks.diagnose.plainly import written_rows
from pecli.checks.diagnose.readings import Wanted, WaveReading, expected, readings
from pecli.checks.diagnose.roundings import Rounding, roundings
from pecli.checks.diagnose.sample import samples
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table

_MUCH = 4.0
"""An explanation is better than none by this factor at least."""


_SMALL = 1 << 20
"""Elements of a table that is searched for rows of zeros."""


@dataclass(frozen=True)
class Shift:
    """Positions that start elsewhere."""

    causes: tuple[Cause, ...]
    by: int

    @property
    def cost(self) -> float:
        return cost_of(self.causes)


def explain_waves(scheme: Rope | Sinusoidal, name: str, table: Table) -> tuple[list[Explanation], str]:
    """The explanations of one tensor, equally good ones together, or words about waves of no rule."""
    layout = expected(scheme, name)
    if layout is None:
        return [], ""
    original = getattr(scheme, "original_max_position_embeddings", None) or 0
    telling = [original - scheme.offset]
    if isinstance(scheme, Sinusoidal) and table.rows == scheme.seq_len and table.size <= _SMALL and not table.in_order:
        telling.append(written_rows(table))  # so that rows of zeros are counted from the first of them
    every: list[WaveReading] = []
    for sample in samples(table, scheme.seq_len, telling):
        every += readings(sample, layout, scheme.seq_len)
    every = [each for each in every if each.columns == layout.columns] or every
    every = [each for each in every if all(np.isfinite(part).all() for part in each.parts)]
    search = WaveSearch(scheme, layout, every)
    found = search.run()
    if found or search.right:
        return found, ""
    if isinstance(scheme, Sinusoidal):
        return [], own_frequencies(scheme, table)
    words = next((each for each in (fit.garbage(scheme, reading) for reading in every if not reading.cost) if each), "")
    return [], words


def shifts(scheme: Rope | Sinusoidal) -> list[Shift]:
    """The positions that rows may have been given."""
    first, padding = scheme.offset, getattr(scheme, "padding_idx", None)
    listed = {0, -2, -1, 1, 2, -first}
    if padding is not None:
        listed |= {padding + 1, -padding - 1, padding, -padding}
    found = []
    for by in sorted({*listed, *range(-16, 17)}, key=abs):
        words = f"positions start at {first + by} (the spec says {first})"
        if padding is not None and by == padding + 1:
            words = f"positions start at {first + by}, padding_idx + 1 later than the spec says ({first})"
        elif padding is not None and by == -padding - 1:
            words = f"positions start at {first + by}, without the padding_idx + 1 (the spec says {first})"
        cause = Cause(words, 1.0 if by in listed else FITTED)
        found.append(Shift((cause,) if by else (), by))
    return found


class WaveSearch:
    """All combinations of causes, the cheap ones first, until one level has explanations."""

    def __init__(self, scheme: Rope | Sinusoidal, layout: Wanted, every: Sequence[WaveReading]) -> None:
        self.scheme: Rope | Sinusoidal = replace(scheme, recipe="exact")
        self.layout, self.readings = layout, every
        self.recipe, self.roundings = scheme.recipe, roundings(scheme.recipe)
        self._table_dtype = scheme.recipe.removesuffix("-table") if scheme.recipe.endswith("-table") else ""
        self._matchers: dict[int, Matcher] = {}
        self._options: dict[int, list[Option]] = {}
        self._unexplained = np.inf
        self.right = False

    def run(self) -> list[Explanation]:
        """The best explanations; none where the table is right."""
        right = self._right()
        if right is not None:
            return right
        found: list[Explanation] = []
        for level in LEVELS:
            for place, reading in enumerate(self.readings):
                found += self._at(reading, self._matcher(place), level - reading.cost)
            cheap = [each for each in found if each.cost <= level]
            if cheap:
                return best(cheap)
        return []

    def _matcher(self, place: int) -> Matcher:
        if place not in self._matchers:
            self._matchers[place] = Matcher(self.scheme, self.readings[place], self._table_dtype)
        return self._matchers[place]

    def _right(self) -> list[Explanation] | None:
        """What to say of a table whose layout and angles are those of the scheme; None if they are not."""
        for place, reading in enumerate(self.readings):
            if reading.cost or reading.columns != self.layout.columns:
                continue
            matcher = self._matcher(place)
            own = usual(self.scheme, reading.columns)
            rounding = self.roundings[0]
            matches = list(matcher.matches(own, 0, rounding))
            right = next((each for each in matches if each.rounded_only), None)
            if right is not None:
                self.right = True
                rival = self.roundings[-1] if rounding == Rounding() else self.roundings[1]
                return self._precise(reading, right, rival, list(matcher.matches(own, 0, rival)))
            self._unexplained = min(self._unexplained, matcher.residual(own, rounding))
        return None

    def _precise(
        self, reading: WaveReading, right: Agreement, rival: Rounding, rivals: Sequence[Agreement]
    ) -> list[Explanation]:
        """A right table may still have been rounded, or have phases of another kind of float32."""
        causes = (*reading.causes, *right.causes, *precision.stored(reading.dtype, self.scheme.dtype))
        better = min((each.residual for each in rivals), default=np.inf)
        if not right.tight and _MUCH * better <= right.residual:
            return [Explanation((*causes, *rival.causes), better)]
        if not right.tight and self.recipe in ("exact", "bfloat16-table", "float16-table"):
            causes = (*causes, precision.float32_phases(right.residual))
        if right.tight and self.recipe == "float32" and not causes:
            causes = (Cause("the recipe is exact (the spec says float32)"),)
        return [Explanation(causes, right.residual)] if causes else []

    def options(self, reading: WaveReading) -> list[Option]:
        """Frequencies to try; an odd sinusoidal dim has others in another layout."""
        scheme, layout = self.scheme, reading.form.arrangement
        key = id(reading.parts)  # which readings of one form share
        if key not in self._options:
            if isinstance(scheme, Sinusoidal) and layout in ("halves", "interleaved"):
                scheme = replace(scheme, layout=layout)
            self._options[key] = options(scheme, reading.columns, fit.fitted(scheme, reading))
        return self._options[key]

    def _at(self, reading: WaveReading, matcher: Matcher, cost: float) -> Iterator[Explanation]:
        """Explanations from combinations that cost so much beside the reading."""
        if cost < 0:
            return
        for option in self.options(reading):
            for rounding, together in self._moves.get(cost - option.cost, {}).items():
                likely = matcher.likely(option, [shift.by for shift in together], rounding)
                for shift in compress(together, likely):
                    yield from self._matched(reading, matcher, option, shift, rounding)

    @cached_property
    def _moves(self) -> dict[float, dict[Rounding, list[Shift]]]:
        """Roundings, each with its shifts, by what they cost together."""
        found: dict[float, dict[Rounding, list[Shift]]] = {}
        for shift, rounding in product(shifts(self.scheme), self.roundings):
            found.setdefault(shift.cost + rounding.cost, {}).setdefault(rounding, []).append(shift)
        return found

    def _matched(
        self, reading: WaveReading, matcher: Matcher, option: Option, shift: Shift, rounding: Rounding
    ) -> Iterator[Explanation]:
        for each in matcher.matches(option, shift.by, rounding):
            if _MUCH * each.residual <= self._unexplained:
                causes = (*option.causes, *shift.causes, *reading.causes, *rounding.causes, *each.causes)
                stored = precision.stored(reading.dtype, self.scheme.dtype)
                yield Explanation((*causes, *stored), each.residual)
