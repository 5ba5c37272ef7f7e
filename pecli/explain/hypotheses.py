"""The order of the search: storage, a damaged part, one mistake, two, three; until one is short or the time is up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pecli.engine.edits import Recipe
from pecli.explain.catalogue import DAMAGE, MISTAKES
from pecli.explain.catalogue.kinds import LawMistake
from pecli.explain.catalogue.runtimes import ComputedByRuntime
from pecli.explain.catalogue.stored import Stored
from pecli.explain.catalogue.used_rows import PaddedRows
from pecli.explain.edits import Explanation
from pecli.explain.hypothesis import Case, Mistake, accept
from pecli.explain.time_limit import OutOfTimeError, check_time

CHEAP = 1.5
"""Cost of a single mistake beyond which two may be the shorter explanation: many digits, a long list of rows."""

PLAIN = 1.05
"""Cost per mistake at which several are so plain that no shorter explanation is looked for."""

DAMAGES = ("elements_wrong", "rows_wrong", "columns_wrong", "heads_wrong")
"""Edits that name a small part of a table: if the rest is right, that is the answer."""

SMALL_DAMAGE_COST = 2.02
"""Cost of a damaged part that is at most a fiftieth of the table."""

MAX_MISTAKES = 3


def explain_cases(
    cases: Sequence[Case], tolerance: float, most: int = MAX_MISTAKES
) -> list[Explanation]:
    """Return accepted explanations, the shortest first; none if nothing in the catalogue makes the data.

    The cases read the same tensors in different shapes; `most` is the number of mistakes that are supposed at once. The tolerance is granted only if no explanation with as many
    mistakes holds to the last place that the data show.
    """
    explanations: list[Explanation] = []
    try:
        for count in range(most + 1):
            for allowed in dict.fromkeys((0.0, tolerance)):
                variants = [stored for case in cases for stored in storages(case.within(allowed))]
                small = located(variants) if count == 1 else []
                if small:
                    return ranked(small)
                for case in variants:
                    for explanation in accepted(hypotheses(case, count)):
                        explanations.append(explanation)
                        if count > 1 and explanation.cost <= PLAIN * count:
                            return ranked(explanations)
                if count == 0:
                    explanations = [*by_runtime(variants, explanations), *explanations]
                if is_settled(explanations, count):
                    return ranked(explanations)
    except OutOfTimeError:
        pass
    return ranked(explanations)


def located(cases: Sequence[Case]) -> list[Explanation]:
    """Return the part of a table that is wrong, if it is small and the rest is right: then it is the answer."""
    found: list[Explanation] = []
    for case in cases:
        kinds: tuple[type[Mistake], ...] = (PaddedRows, *DAMAGE)
        for kind in kinds:
            found += accepted(case.given(mistake) for mistake in kind.proposals(case))
    return [each for each in found if each.cost <= SMALL_DAMAGE_COST]


def by_runtime(cases: Sequence[Case], explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return the runtimes that compute such a table, if float32 arithmetic explains it: they say more."""
    if not explanations or ranked(explanations)[0].edits[:1] != (Recipe("float32"),):
        return []
    found: list[Explanation] = []
    for case in cases:
        found += accepted(case.given(mistake) for mistake in ComputedByRuntime.proposals(case))
    return [replace(each, extra=each.extra - each.cost) for each in found]


def ranked(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations with the shortest first; of equally short ones, the one that leaves least."""
    return sorted(explanations, key=lambda each: (round(each.cost, 6), each.noise))


def is_settled(explanations: Sequence[Explanation], count: int) -> bool:
    """Return True if more mistakes are unlikely to make a shorter explanation."""
    if not explanations:
        return False
    best = ranked(explanations)[0]
    is_small_damage = all(edit.kind in DAMAGES for edit in best.mistakes)
    return is_small_damage or best.cost <= max(1, count) * CHEAP


def storages(case: Case) -> Iterator[Case]:
    """Yield the case as it is, and with each grid on which all values lie."""
    yield case
    for stored in Stored.proposals(case):
        yield case.given(stored)


def hypotheses(case: Case, count: int) -> Iterator[Case]:
    """Yield the case with so many mistakes added; the last is measured with those before it taken for granted."""
    if count == 0:
        yield case
        return
    seen: set[frozenset[Mistake]] = set()
    for fewer in (1, 2):
        for rest in supposed(case, count - fewer):
            for kind in kinds_after(rest, fewer):
                for mistake in kind.proposals(rest):
                    check_time()
                    mistakes = frozenset((*rest.mistakes, mistake))
                    if mistakes not in seen:
                        seen.add(mistakes)
                        yield rest.given(mistake)


def supposed(case: Case, count: int) -> Iterator[Case]:
    """Yield the case with so many mistakes taken for granted. Damage is never one of them: it comes last."""
    if count < 0:
        return
    if count == 0:
        yield case
        return
    for fewer in supposed(case, count - 1):
        for kind in kinds_after(fewer, 1):
            if kind not in DAMAGE:
                for mistake in kind.suppositions(fewer):
                    check_time()
                    yield fewer.given(mistake)


def kinds_after(case: Case, count: int) -> Iterator[type[Mistake]]:
    """Yield the kinds of mistakes that may be left and that stand for so many.

    If the supposed frequencies are the measured ones, none is left in the law. If a mistake of the law was supposed and
    they are not, another one is left in it.
    """
    present = {type(mistake) for mistake in case.mistakes}
    is_in_law = any(isinstance(mistake, LawMistake) for mistake in case.mistakes)
    kinds: Iterable[type[Mistake]] = (*DAMAGE, *MISTAKES)
    if case.frequencies_agree is False:
        kinds = sorted(kinds, key=lambda kind: not issubclass(kind, LawMistake))
    for kind in kinds:
        concerns_law = issubclass(kind, LawMistake)
        is_idle = concerns_law and case.frequencies_agree is True
        is_early = is_in_law and not concerns_law and case.frequencies_agree is False
        is_possible = kind not in present and kind.counts_as == count
        if is_possible and not is_idle and not is_early:
            yield kind


def accepted(cases: Iterable[Case]) -> Iterator[Explanation]:
    """Yield the explanations of the cases that explain something."""
    for case in cases:
        explanation = accept(case)
        if explanation is not None:
            yield explanation
