"""The order of the search: storage, a damaged part, one mistake, two, three, until time is up."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.edits import Recipe
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.catalogue import DAMAGE, MISTAKES
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.catalogue.kinds import ScheduleMistake
from pecli.explain.catalogue.rotation_mistakes import ZeroRows
from pecli.explain.catalogue.runtimes import ComputedByRuntime
from pecli.explain.catalogue.used_rows import OtherPaddingRow, PaddedRows
from pecli.explain.explanation import Explanation
from pecli.explain.hypothesis import Case, Mistake, Stage, accept
from pecli.explain.readable import is_readable
from pecli.explain.time_limit import OutOfTimeError, check_time

CHEAP = 1.5
"""Cost of a single mistake beyond which two may be the shorter explanation: many digits, a long
list of rows.
"""

PLAIN = 1.05
"""Cost per mistake at which several are so plain that no shorter explanation is looked for."""

DAMAGES = ("elements_wrong", "rows_wrong", "columns_wrong", "heads_wrong")
"""Edits that name a small part of a table: if the rest is right, that is the answer."""

SMALL_DAMAGE_COST = 2.02
"""Cost of a damaged part that is at most a fiftieth of the table."""

SIMILAR_GRIDS = 8.0
"""Ratio of the units of two grids that both may hold the data: finer ones hold any data."""

MAX_MISTAKES = 3
SEVERAL = 2
"""Mistakes from which on their combinations are many: data that show nothing are given up before.
"""


def explain_cases(
    cases: Sequence[Case], tolerance: float, most_mistakes: int = MAX_MISTAKES
) -> list[Explanation]:
    """Search for the mistakes that make a file's numbers; return explanations, the shortest first.

    An explanation is a set of mistakes with which the numbers are made again, such as «the base is
    30000 instead of 10000». No mistake is tried first, then every single one, then two and three at
    once, until an explanation is so short that more mistakes are unlikely to be a better one.

    Args:
        cases: The numbers with the scheme that should have made them, one case per way to read
            their shape: (64, 64) may be a table as it is, or transposed.
        tolerance: Granted only if no explanation with as many mistakes holds to the last place.
        most_mistakes: The number of mistakes that are tried at once.

    Returns:
        The explanations; empty if no known mistakes make the numbers. If the time was up, they are
        marked as cut short unless they are short.
    """
    search = Search(cases, tolerance)
    try:
        for mistake_count in range(most_mistakes + 1):
            is_over = search.find_explanations_with(mistake_count)
            if is_over:
                break
    except OutOfTimeError:
        return search.explanations_when_time_is_up()
    return ranked(search.explanations)


class Search:
    """The explanations found so far, with ever more mistakes."""

    def __init__(self, cases: Sequence[Case], tolerance: float) -> None:
        self.tolerance = tolerance
        self.cases = [stored for case in cases for stored in storages(case.within(tolerance))]
        self.rounded = [
            rounded for case in cases for rounded in other_roundings(case.within(tolerance))
        ]
        self.least_cost = min((case.cost for case in self.cases), default=0.0)
        self.exact: list[Explanation] = []  # those that hold to the last place that the data show
        self.within_tolerance: list[Explanation] = []  # those that hold only within it

    @property
    def explanations(self) -> list[Explanation]:
        return [*self.exact, *self.within_tolerance]

    def explanations_when_time_is_up(self) -> list[Explanation]:
        """Return what was found so far, the shortest first, marked as cut short if it is doubtful.

        The base 30000 is a short reason, and stays without a mark. The base 31082.2 has many
        digits: two mistakes that were not tried might explain it better. With 64 channels, it is
        the base 10000 after NTK scaling by 3.
        """
        explanations = ranked(self.explanations)
        if self.are_settled(explanations, 1):
            return explanations
        return [explanation.cut_short() for explanation in explanations]

    def find_explanations_with(self, count: int) -> bool:
        """Keep the explanations with so many mistakes; return True if the search is over then.

        It is over if more mistakes are unlikely to make a shorter explanation.
        """
        match count:
            case 0:
                return self._find_tables_without_mistake()
            case 1:
                return self._find_single_mistakes()
        if count == SEVERAL:
            self.cases = [case for case in _coarsest(self.cases) if is_readable(case)]
        return self._test_hypotheses(count) or self._conclude_after(count)

    def _find_tables_without_mistake(self) -> bool:
        """Keep the explanations without a mistake; return True if there are any.

        The table is then right, but may be transposed, stored in float16, or computed in float32. A
        runtime that computes such numbers says more than «float32», so it comes first.
        """
        self._test_hypotheses(0)
        self.exact = [*by_runtime(self.cases, self.explanations), *self.exact]
        return self._conclude_after(0)

    def _find_single_mistakes(self) -> bool:
        """Keep the explanations with one mistake; return True if two need not be tried.

        Damage («rows 5 and 6 are wrong, all others are right») is tried before the mistakes that
        change a whole table, but only with no tolerance for the other rows. With one, a slightly
        wrong table looks damaged: with base 10001 for 10000, only rows 26 and 29 to 31 of 32 differ
        by more than 1e-4 (64 channels). The base is the better answer, so damage within the
        tolerance is tried like any other mistake.
        """
        without_tolerance = [case.within(0.0) for case in self.cases]
        if self._find_small_damage(without_tolerance):
            return True
        return self._test_hypotheses(1) or self._conclude_after(1)

    def _conclude_after(self, count: int) -> bool:
        """Return True if more than so many mistakes are unlikely to make a shorter explanation.

        On the way, those that need the tolerance are dropped if a short one holds exactly.
        """
        return self._prefer_exact_ones(count) or self.are_settled(self.explanations, count)

    def _prefer_exact_ones(self, count: int) -> bool:
        """Drop those that need the tolerance if a short one holds exactly; return True if so."""
        is_settled = self.are_settled(self.exact, count)
        if is_settled:
            self.within_tolerance = []
        return is_settled

    def are_settled(self, explanations: Sequence[Explanation], count: int) -> bool:
        """Return True if more mistakes are unlikely to make a shorter explanation than these.

        If the table is right in some shape, that is the reason; edits of the shape which every case
        has are not counted.
        """
        if not explanations or count == 0:
            return bool(explanations)
        best = ranked(explanations)[0]
        is_small_damage = all(edit.kind in DAMAGES for edit in best.mistakes)
        return is_small_damage or best.cost - self.least_cost <= count * CHEAP

    def _find_small_damage(self, cases: Sequence[Case]) -> bool:
        """Keep only the damage of a small part if the rest is right, and return True if so.

        «Rows 5 and 6 are wrong» replaces all other explanations: nothing is left for them.
        """
        small = located(cases)
        if small:
            self.exact = small
            self.within_tolerance = []
        return bool(small)

    def _test_hypotheses(self, count: int) -> bool:
        """Test all hypotheses of so many mistakes; return True at once if a plain one holds.

        A single mistake is always compared with all other single ones. Values that were cut off
        instead of rounded are supposed only if nothing else holds.
        """
        for hypothesis in hypotheses(self.cases, count):
            explanation = self._tested(hypothesis)
            if explanation is not None and count > 1 and explanation.cost <= PLAIN * count:
                return True
        if count < SEVERAL and not self.explanations:
            for hypothesis in hypotheses(self.rounded, count):
                self._tested(hypothesis)
        return False

    def _tested(self, hypothesis: Case) -> Explanation | None:
        """Keep and return the explanation if supposed mistakes make the data; None if they do not.

        It is kept as exact, or as one within the tolerance that the user granted.
        """
        if self._is_not_worth_comparing(hypothesis):
            return None
        exact = accept(hypothesis.within(0.0))
        if exact is not None:
            self.exact.append(exact)
            return exact
        explanation = accept(hypothesis) if self.tolerance else None
        if explanation is not None:
            self.within_tolerance.append(explanation)
        return explanation

    def _is_not_worth_comparing(self, hypothesis: Case) -> bool:
        """Return True if a hypothesis would not be preferred, or fails in a few rows already.

        One that is longer than an explanation at hand would not be preferred. Storage is always
        compared: a table that is right within float32 arithmetic may be exactly right in float32.
        """
        is_only_stored = all(mistake.stage == Stage.STORAGE for mistake in hypothesis.mistakes)
        is_longer = any(hypothesis.cost > explanation.cost for explanation in self.exact)
        if is_longer and not is_only_stored:
            return True
        return hypothesis.is_far_off or hypothesis.fails_in_few_rows


SMALL_PARTS: tuple[type[Mistake], ...] = (OtherPaddingRow, PaddedRows, ZeroRows, *DAMAGE)
"""Mistakes of a small part of a table. Rows of zeros have names of their own."""


def located(cases: Sequence[Case]) -> list[Explanation]:
    """Return the small part of a table that is wrong, if the rest is right: then it is the answer.

    «Rows 5 and 6 are wrong» is a better answer than two mistakes that change all rows. Parts that
    are too large cost more than SMALL_DAMAGE_COST.

    Args:
        cases: The same file, read in several shapes.
    """
    damaged: list[Case] = []
    for case in cases:
        for kind in SMALL_PARTS:
            damaged += map(case.supposing, kind.proposals(case))
    return [small for small in accepted(damaged) if small.cost <= SMALL_DAMAGE_COST]


def by_runtime(cases: Sequence[Case], explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return the runtimes that compute such a table, if float32 arithmetic explains it: they say
    more.
    """
    if not explanations or ranked(explanations)[0].edits[:1] != (Recipe("float32"),):
        return []
    found: list[Explanation] = []
    for case in cases:
        found += accepted(case.supposing(mistake) for mistake in ComputedByRuntime.proposals(case))
    return found


def ranked(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations with the shortest first; of equally short ones, the one that leaves
    least.
    """
    return sorted(explanations, key=lambda each: (round(each.cost, 6), each.noise))


def storages(case: Case) -> Iterator[Case]:
    """Yield the case as it is, and with each grid on which all values lie."""
    yield case
    for stored in Stored.proposals(case):
        yield case.supposing(stored)


def _coarsest(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with the coarsest grids of storage: waves that lie on one were rounded to
    it.

    Numbers with four decimals also lie on the grid of float32, which is much finer, and which would
    make the search twice as long.
    """
    units = [_rounding_unit(case) for case in cases]
    least = max(units, default=0.0) / SIMILAR_GRIDS
    return [case for case, unit in zip(cases, units, strict=True) if unit >= least]


def _rounding_unit(case: Case) -> float:
    """Return half a unit of the supposed storage at 1; 0 if none is supposed, or if the data are no
    waves.
    """
    storage = case.computation.storage
    if storage is None or case.waves is None:
        return 0.0
    return float(storage.half_unit(np.ones(1))[0])


def other_roundings(case: Case) -> Iterator[Case]:
    """Yield the case with each grid on which all values lie, not rounded once to nearest.

    Biases that are right lie on grids too, and differ from other biases in one direction.
    """
    if isinstance(case.computation, BiasComputation):
        return
    for stored in Stored.proposals(case):
        for rounded in stored.roundings:
            yield case.supposing(rounded)


def hypotheses(cases: Iterable[Case], count: int) -> Iterator[Case]:
    """Yield each case (the numbers of a file) with every set of so many mistakes supposed in it."""
    for case in cases:
        if count == 0:
            yield case
        else:
            yield from _with_mistakes(case, count)


def _with_mistakes(case: Case, count: int) -> Iterator[Case]:
    """Yield the numbers of a file with every set of so many mistakes supposed in them.

    For two mistakes, one is taken for granted first, such as exchanged columns. The other one is
    then measured in the data as if the first were undone: the base follows from the frequencies
    of the exchanged columns. Two mistakes that are found in either order are yielded once.
    """
    seen: set[frozenset[Mistake]] = set()
    for granted, count_left in _all_but_the_last(case, count):
        for mistake in _proposed_mistakes(granted, count_left):
            mistakes = frozenset((*granted.mistakes, mistake))
            if mistakes not in seen:
                seen.add(mistakes)
                yield granted.supposing(mistake)


def _proposed_mistakes(case: Case, count: int) -> Iterator[Mistake]:
    """Yield the mistakes that the data suggest beside those that are taken for granted.

    Args:
        case: The numbers of a file, and the mistakes that are taken for granted.
        count: The number of mistakes that one stands for: 2 for two numbers of a scaling that are
            solved at once.
    """
    for kind in kinds_after(case, count):
        for mistake in kind.proposals(case):
            check_time()
            yield mistake


def _all_but_the_last(case: Case, count: int) -> Iterator[tuple[Case, int]]:
    """Yield the case with all but one or two mistakes taken for granted, and how many are left.

    Two numbers of one schedule are solved at once, which is soon done.
    """
    if count >= SEVERAL:
        for reading in readings(case, count - 2):
            yield reading, 2
    for granted in supposed(case, count - 1):
        yield granted, 1


def supposed(case: Case, count: int) -> Iterator[Case]:
    """Yield the numbers of a file with so many mistakes taken for granted, the likeliest first.

    One more mistake can then be measured in them. First come mistakes that only change how columns
    and rows are read (exchanged columns), which need no measurement; then those after which the
    frequencies are the measured ones; then all others. Damage is never taken for granted, since any
    other mistake looks like damage.
    """
    if count == 0:
        yield case
        return
    yield from readings(case, count)
    unlikely: list[Case] = []
    for fewer, count_left in _all_but_the_last(case, count):
        for granted in _with_one_more(fewer, count_left, changes_reading=False):
            if granted.frequencies_are_confirmed:
                yield granted
            else:
                unlikely.append(granted)
    yield from sorted(unlikely, key=_has_schedule_mistake)


def readings(case: Case, count: int) -> Iterator[Case]:
    """Yield the numbers of a file with so many mistakes that change how they are read.

    Exchanged columns and reversed rows are such mistakes: once they are undone, frequencies can be
    measured. Two of them are yielded once, in whichever order they were supposed.
    """
    if count == 0:
        yield case
        return
    seen: set[frozenset[Mistake]] = set()
    for fewer in readings(case, count - 1):
        for granted in _with_one_more(fewer, 1, changes_reading=True):
            mistakes = frozenset(granted.mistakes)
            if mistakes not in seen:
                seen.add(mistakes)
                yield granted


def _with_one_more(case: Case, count: int, *, changes_reading: bool) -> Iterator[Case]:
    """Yield the case with one more mistake taken for granted, before another is measured.

    Steps in 16 bits are rarely beside two other mistakes: they are supposed first, or not at all.
    A mistake of the frequencies is not supposed if these are already the measured ones.

    Args:
        case: The numbers of a file, and the mistakes that are taken for granted so far.
        count: The number of mistakes that the kind stands for: 2 for two numbers that are solved at
            once.
        changes_reading: Whether the mistake changes how rows and columns are read.
    """
    stages_so_far = {mistake.stage for mistake in case.mistakes} - {Stage.STORAGE}
    if Stage.ARITHMETIC in stages_so_far:
        return
    excluded_stages = {Stage.DAMAGE}
    if stages_so_far:
        excluded_stages.add(Stage.ARITHMETIC)
    for kind in kinds_after(case, count):
        is_idle = case.frequencies_are_confirmed and issubclass(kind, ScheduleMistake)
        if kind.stage in excluded_stages or is_idle or kind.changes_reading != changes_reading:
            continue
        for mistake in kind.suppositions(case):
            check_time()
            yield case.supposing(mistake)


def _has_schedule_mistake(case: Case) -> bool:
    return any(isinstance(mistake, ScheduleMistake) for mistake in case.mistakes)


class _LeftKinds(NamedTuple):
    """The groups of mistakes that may be left beside those that are supposed."""

    readings: bool
    schedules: bool
    others: bool

    def allows(self, kind: type[Mistake]) -> bool:
        """Return True if a mistake of this kind may be left; steps in 16 bits and damage always
        may.
        """
        if kind.stage in (Stage.ARITHMETIC, Stage.DAMAGE):
            return True
        if kind.changes_reading:
            return self.readings
        if issubclass(kind, ScheduleMistake):
            return self.schedules
        return self.others


def kinds_after(case: Case, count: int) -> Iterator[type[Mistake]]:
    """Yield the kinds of mistakes that may be left and that stand for so many; schedules first if
    frequencies disagree.
    """
    present = {type(mistake) for mistake in case.mistakes}
    left = _left_kinds(case)
    kinds: Iterable[type[Mistake]] = (*DAMAGE, *MISTAKES)
    if case.frequencies_are_refuted:
        kinds = sorted(kinds, key=lambda kind: not issubclass(kind, ScheduleMistake))
    for kind in kinds:
        if kind not in present and kind.counts_as == count and left.allows(kind):
            yield kind


def _left_kinds(case: Case) -> _LeftKinds:
    """Return what may be left beside the supposed mistakes.

    - A mistake that changes how data are read comes before those that are measured in what was
      read.
    - If the supposed frequencies are the measured ones, none is left in the schedule. A single mistake
      may still be in the schedule: slow pairs in 16 bits do not show their frequencies, but show that
      they are not as expected.
    - If they are not, and many rows show it, no other positions or amplitude explain the data; and
      if a mistake of the schedule was supposed, another one is left in it.
    """
    is_measured = any(not mistake.changes_reading for mistake in case.mistakes)
    has_mistakes = any(mistake.stage != Stage.STORAGE for mistake in case.mistakes)
    is_schedule_settled = case.frequencies_are_confirmed and has_mistakes
    is_in_schedule = case.frequencies_are_refuted and _has_schedule_mistake(case)
    return _LeftKinds(
        readings=not is_measured,
        schedules=not is_schedule_settled,
        others=not is_in_schedule and not case.has_other_frequencies,
    )


def accepted(cases: Iterable[Case]) -> Iterator[Explanation]:
    """Yield the explanations of the cases that explain something."""
    for case in cases:
        explanation = accept(case)
        if explanation is not None:
            yield explanation
