"""The order of the search: storage, a damaged part, one mistake, two, three, until time is up."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product

import numpy as np

from pecli.engine.edits import Recipe
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.catalogue import DAMAGE
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.catalogue.rotation_mistakes import ZeroRows
from pecli.explain.catalogue.runtimes import ComputedByRuntime
from pecli.explain.catalogue.used_rows import OtherPaddingRow, PaddedRows
from pecli.explain.explanation import Explanation
from pecli.explain.hypothesis import Case, Mistake, accept
from pecli.explain.readable import may_have_several_mistakes
from pecli.explain.suppositions import cases_with_mistakes
from pecli.explain.time_limit import OutOfTimeError

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

CLEARLY_SMALLER = 0.75
"""Share of the differences from the exact table that a runtime's table may leave."""

MAX_MISTAKES = 3
"""Mistakes that are supposed at once: four would explain nearly anything."""


def explain_cases(cases: Sequence[Case], tolerance: float, most_mistakes: int) -> list[Explanation]:
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
    """The explanations found so far, with ever more mistakes.

    Attributes:
        tolerance: How far numbers may be off, as the user granted.
        cases: The cases to which mistakes are added, each with one supposition of how its numbers
            were stored: as they were computed, or rounded.
        cut_off_cases: The same cases with numbers that were cut off instead of rounded, or rounded
            twice.
        least_cost: The cost of the cheapest case before any mistake is added, which all
            explanations share. It is that of edits such as «transposed».
        exact: The explanations that hold to the last place that the data show.
        within_tolerance: The explanations that hold only within the tolerance.
    """

    def __init__(self, cases: Sequence[Case], tolerance: float) -> None:
        """Begin a search that has no explanations yet.

        A case is a file's numbers with the scheme that should have made them. It is searched once for
        each way in which its numbers may have been stored. The numbers 0.540 and −0.416 may be as they
        were computed, or rounded to 0.001: these become two of `cases`. They may also have been cut off
        after three decimals, toward zero or down: these become two of `cut_off_cases`.

        Args:
            cases: One case per way to read the shape of the numbers.
            tolerance: How far numbers may be off; 0 if they have to hold to the last place.
        """
        self.tolerance = tolerance
        tolerant_cases = [case.within(tolerance) for case in cases]
        self.cases = _with_each(with_storages, tolerant_cases)
        self.cut_off_cases = _with_each(_with_other_roundings, tolerant_cases)
        # Each edit of an explanation has a cost. Those of the shape, such as «transposed», are in all.
        self.least_cost = min((case.cost for case in self.cases), default=0.0)
        self.exact: list[Explanation] = []
        self.within_tolerance: list[Explanation] = []

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

        It is over if more mistakes are unlikely to make a shorter explanation. Up to two mistakes
        have a step of their own each, which does something more than to test all combinations.

        Args:
            count: The number of mistakes; it is called with 0 first, then with 1, 2, ….
        """
        match count:
            case 0:
                return self._find_tables_without_mistake()
            case 1:
                return self._find_single_mistakes()
            case 2:
                return self._find_pairs()
        return self._find_combinations_of(count)

    def _find_pairs(self) -> bool:
        """Keep the explanations with two mistakes, of cases that show something of the scheme.

        Combinations of two and more mistakes are many. So the cases that show nothing, such as
        random numbers, are removed from the search before, for three mistakes as well.
        """
        self.cases = [case for case in _coarsest(self.cases) if may_have_several_mistakes(case)]
        return self._find_combinations_of(2)

    def _find_combinations_of(self, count: int) -> bool:
        """Keep the explanations with so many mistakes at once; return True if the search is over."""
        return self._test_cases_with(count) or self._conclude_after(count)

    def _find_tables_without_mistake(self) -> bool:
        """Keep the explanations without a mistake; return True if there are any.

        The table is then right, but may be transposed, stored in float16, or computed in float32. A
        runtime that computes such numbers says more than «float32», so it comes first.
        """
        self._test_cases_with(0)
        self.exact = [*_explain_by_runtime(self.cases, self.explanations), *self.exact]
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
        return self._find_combinations_of(1)

    def _conclude_after(self, count: int) -> bool:
        """Return True if more than so many mistakes are unlikely to make a shorter explanation.

        On the way, those that need the tolerance are dropped if a short one holds exactly.
        """
        if self.are_settled(self.exact, count):
            self.within_tolerance = []
        return self.are_settled(self.explanations, count)

    def are_settled(self, explanations: Sequence[Explanation], count: int) -> bool:
        """Return True if more mistakes are unlikely to make a shorter explanation than these.

        Without a mistake, any explanation settles the search: the table is right in some shape. The
        shortest one with mistakes settles it if it is damage of a small part, or cheap for so many
        mistakes. Edits of the shape, such as «transposed», which every case has, are not counted.

        Args:
            explanations: What was found so far.
            count: The number of mistakes that were tried.
        """
        if not explanations or count == 0:
            return bool(explanations)
        shortest, *_ = ranked(explanations)
        is_small_damage = all(edit.kind in DAMAGES for edit in shortest.mistakes)
        cost_of_mistakes = shortest.cost - self.least_cost
        return is_small_damage or cost_of_mistakes <= count * CHEAP

    def _find_small_damage(self, cases: Sequence[Case]) -> bool:
        """Keep only the damage of a small part if the rest is right, and return True if so.

        «Rows 5 and 6 are wrong» replaces all other explanations: nothing is left for them.
        """
        small = explain_by_small_damage(cases)
        if small:
            self.exact = small
            self.within_tolerance = []
        return bool(small)

    def _test_cases_with(self, count: int) -> bool:
        """Test all cases with so many mistakes; return True at once if a plain explanation holds.

        Combinations of two or more are many, so the first plain one ends the test. A single mistake
        never does: all others are tested as well, since one of them may be plainer. Numbers that
        were cut off (0.378 stored as 0.37) instead of rounded (0.38) are rare. They are supposed
        only if nothing else holds, and with one mistake at most.

        Args:
            count: The number of mistakes that are supposed at once.
        """
        for case in cases_with_mistakes(self.cases, count):
            explanations = self._test(case)
            is_plain = any(explanation.cost <= PLAIN * count for explanation in explanations)
            if is_plain and count > 1:
                return True
        if count <= 1 and not self.explanations:
            for case in cases_with_mistakes(self.cut_off_cases, count):
                self._test(case)
        return False

    def _test(self, case: Case) -> list[Explanation]:
        """Add the explanation to those found if the supposed mistakes make the data, and return it.

        It is tested without a tolerance first, and added to `exact` if it holds. One that holds
        only within the user's tolerance, such as 1e-4, is added to `within_tolerance`. An empty list is
        returned if neither holds, or if a few rows already reject the case.
        """
        if not self._is_worth_comparing(case):
            return []
        exact = [*accepted([case.within(0.0)])]
        self.exact += exact
        if exact or not self.tolerance:
            return exact
        tolerable = [*accepted([case.within(self.tolerance)])]
        self.within_tolerance += tolerable
        return tolerable

    def _is_worth_comparing(self, case: Case) -> bool:
        """Return True if a case may be the best explanation, and a few rows do not reject it.

        A case that costs more than an explanation at hand would not be preferred, unless it supposes
        only how numbers were stored: a table that is right within the errors of float32 arithmetic
        may be exactly right if it was stored in float32.
        """
        costs_more = any(case.cost > explanation.cost for explanation in self.exact)
        if costs_more and case.mistakes_beside_storage:
            return False
        return not case.is_refuted_by_few_rows


SMALL_PARTS: tuple[type[Mistake], ...] = (OtherPaddingRow, PaddedRows, ZeroRows, *DAMAGE)
"""Mistakes of a small part of a table. Rows of zeros have names of their own."""


def explain_by_small_damage(cases: Sequence[Case]) -> list[Explanation]:
    """Return the small part of a table that is wrong, if the rest is right: then it is the answer.

    «Rows 5 and 6 are wrong» is a better answer than two mistakes that change all rows. Parts that
    are too large cost more than SMALL_DAMAGE_COST.

    Args:
        cases: The same file, read in several shapes.
    """
    explanations: list[Explanation] = []
    for case, kind in product(cases, SMALL_PARTS):
        explanations += explain_by_kind(case, kind)
    return [damage for damage in explanations if damage.cost <= SMALL_DAMAGE_COST]


def _explain_by_runtime(
    cases: Sequence[Case], without_mistake: Sequence[Explanation]
) -> list[Explanation]:
    """Return explanations such as «as vLLM computes it» of a table that is right except for rounding.

    Runtimes are programs such as vLLM and llama.cpp. Each computes the table in float32 by steps of
    its own, which leave rounding differences of their own. There is one explanation per runtime that
    makes the table at hand.

    Args:
        cases: The comparisons of the file with its scheme, one per way to read the file's shape.
        without_mistake: The explanations by which the table is right; empty if it is wrong.
    """
    if not without_mistake:
        return []
    best, *_ = ranked(without_mistake)
    if _begins_with_float32(best):
        # «As vLLM computes it» says more than «computed in float32».
        return _explain_by_any_runtime(cases)
    # Otherwise, a runtime may explain small differences from the exact table (`noise`, their root
    # mean square), unless there are none or an edit such as «stored in bfloat16» explains them.
    are_differences_left = not best.edits and best.noise > 0
    if not are_differences_left:
        return []
    # A short table is near to those of all runtimes. So only clearly smaller differences count.
    largest_noise = CLEARLY_SMALLER * best.noise
    by_runtimes = _explain_by_any_runtime(cases)
    return [explanation for explanation in by_runtimes if explanation.noise <= largest_noise]


def _explain_by_any_runtime(cases: Sequence[Case]) -> list[Explanation]:
    """Return an explanation for each runtime, such as vLLM, that computes the numbers of a case."""
    by_runtimes: list[Explanation] = []
    for case in cases:
        by_runtimes += explain_by_kind(case, ComputedByRuntime)
    return by_runtimes


def _begins_with_float32(explanation: Explanation) -> bool:
    """Return True if an explanation begins with «computed in float32»."""
    return explanation.edits[:1] == (Recipe("float32"),)


def ranked(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations with the cheapest first, and the closest first among equally cheap ones.

    Costs are sums of decimals, which are equal if they agree in six places.
    """
    return sorted(
        explanations, key=lambda explanation: (round(explanation.cost, 6), explanation.noise)
    )


def _with_each(
    ways_to_store: Callable[[Case], Iterator[Case]], cases: Iterable[Case]
) -> list[Case]:
    """Return every case in each way in which its numbers may have been stored.

    Exact numbers are not supposed to be computed in float32: see `with_exact_angles_if_shown`.
    """
    stored = chain.from_iterable(map(ways_to_store, cases))
    return [case.with_exact_angles_if_shown() for case in stored]


def with_storages(case: Case) -> Iterator[Case]:
    """Yield the case as it is, and rounded to each grid on which all values lie.

    Values that are all multiples of 0.001 may have been printed with three decimals.
    """
    yield case
    for stored in Stored.proposals(case):
        yield case.supposing(stored)


def _coarsest(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that suppose the coarsest storage, such as four decimals, and similar ones.

    Each case supposes another way in which the numbers were stored. Numbers with four decimals are
    float32 numbers as well, but that is no news, and would make the search twice as long.
    """
    coarsest = max(map(_rounding_of_one, cases), default=0.0)
    return [case for case in cases if _rounding_of_one(case) >= coarsest / SIMILAR_GRIDS]


def _rounding_of_one(case: Case) -> float:
    """Return how far the supposed storage may round a number of size 1: 0.00005 for four decimals.

    It is 0 if no storage is supposed, or if the data are not made of cosines and sines.
    """
    if case.waves is None:
        return 0.0
    return float(case.waves.storage.half_unit(np.ones(1))[0])


def _with_other_roundings(case: Case) -> Iterator[Case]:
    """Yield the case with each rare way in which its values may have been stored: cut off, or rounded twice.

    0.378 in two decimals is 0.38 if it was rounded, and 0.37 if it was cut off. Nothing is yielded for
    biases: right ones may differ from the expected ones in one direction, as cut-off numbers do.
    """
    if isinstance(case.computation, BiasComputation):
        return
    for stored in Stored.proposals(case):
        for rounded in stored.roundings:
            yield case.supposing(rounded)


def explain_by_kind(case: Case, kind: type[Mistake]) -> Iterator[Explanation]:
    """Yield the explanations of a case by one more mistake of some kind."""
    yield from accepted(map(case.supposing, kind.proposals(case)))


def accepted(cases: Iterable[Case]) -> Iterator[Explanation]:
    """Yield the explanations of the cases whose supposed mistakes make the data."""
    for case in cases:
        explanation = accept(case)
        if explanation is not None:
            yield explanation
