"""Cases with one, two or three supposed mistakes: those that the data suggest, the likeliest first."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from pecli.explain.catalogue import DAMAGE, MISTAKES
from pecli.explain.catalogue.kinds import ScheduleMistake
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.time_limit import check_time


def cases_with_mistakes(cases: Iterable[Case], count: int) -> Iterator[Case]:
    """Yield each case (the numbers of a file) with every set of so many mistakes supposed in it.

    All mistakes but the last are supposed first, such as exchanged columns. The last one is then
    measured in the data as if the others were undone: the base follows from the frequencies of the
    exchanged columns. Mistakes that are found in several orders are yielded once.
    """
    for case in cases:
        if count == 0:
            yield case
        else:
            yield from _each_set_once(_last_suppositions(case, count))


class Supposition(NamedTuple):
    """A case, and one more mistake to be supposed in it."""

    case: Case
    mistake: Mistake


def _each_set_once(suppositions: Iterable[Supposition]) -> Iterator[Case]:
    """Yield each case with the mistake that is to be supposed in it, every set of mistakes only once.

    Another base after exchanged columns is the same set as exchanged columns after another base.
    """
    seen: set[frozenset[Mistake]] = set()
    for case, mistake in suppositions:
        mistakes = frozenset((*case.mistakes, mistake))
        if mistakes not in seen:
            seen.add(mistakes)
            yield case.supposing(mistake)


class OpenCase(NamedTuple):
    """A case in which one mistake is still to be supposed.

    Most kinds count as one mistake. A base and a factor that are both wrong are one kind, since
    neither can be measured before the other is known; it counts as two.
    """

    case: Case
    counts_as: int
    """The number of mistakes that the missing one counts as."""


def _last_suppositions(case: Case, count: int) -> Iterator[Supposition]:
    """Yield the last of so many mistakes, each with the case in which all others are supposed already.

    Of exchanged columns and another base, the base is the last: it is measured once the columns are right.
    """
    for incomplete in _all_but_the_last(case, count):
        for kind in _possible_kinds(incomplete):
            for mistake in kind.proposals(incomplete.case):
                check_time()
                yield Supposition(incomplete.case, mistake)


def _all_but_the_last(case: Case, count: int) -> Iterator[OpenCase]:
    """Yield a case with all mistakes supposed except one, which is then measured in the data.

    The missing one may count as two mistakes: a base and a factor that are both wrong can only be solved
    together. That is soon done, so that these cases come first. Beside the two, only mistakes are
    supposed that change how data are read, such as exchanged columns.

    Args:
        case: The numbers of a file, with the mistakes that are supposed so far.
        count: The number of mistakes to be supposed, including the last one.
    """
    if count >= 2:
        for reading in _with_changes_of_reading(case, count - 2):
            yield OpenCase(reading, counts_as=2)
    for supposed in _likeliest_first(case, count - 1):
        yield OpenCase(supposed, counts_as=1)


def _likeliest_first(case: Case, count: int) -> Iterator[Case]:
    """Yield a case with each set of so many mistakes supposed, the likeliest set first.

    One more mistake can then be measured in the data, as if those that are supposed were undone.

    1. Mistakes that only change how columns and rows are read, such as exchanged columns: to
       suppose them requires no measurement.
    2. All others, those first that lead to the measured frequencies.

    Damage is never supposed before another mistake, since any mistake looks like damage.
    """
    if count == 0:
        yield case
        return
    yield from _with_changes_of_reading(case, count)
    yield from _confirmed_first(_with_measured_mistakes(case, count))


def _confirmed_first(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the likelier cases first: those that suppose the frequencies which the data show.

    If the data show those of base 500000, these are the cases with base 500000.
    """
    others: list[Case] = []
    for case in cases:
        if case.frequencies_are_confirmed:
            yield case
        else:
            others.append(case)
    yield from others


def _with_measured_mistakes(case: Case, count: int) -> Iterator[Case]:
    """Yield a case with so many mistakes, the last of which leaves rows and columns as they are: another base, say."""
    for incomplete in _all_but_the_last(case, count):
        for supposition in _first_suppositions(incomplete, changes_reading=False):
            yield supposition.case.supposing(supposition.mistake)


def _with_changes_of_reading(case: Case, count: int) -> Iterator[Case]:
    """Yield the numbers of a file with so many mistakes that change how they are read.

    Exchanged columns and reversed rows are such mistakes: once they are undone, frequencies can be
    measured. Two of them are yielded once, in whichever order they were supposed.
    """
    if count == 0:
        yield case
        return
    yield from _each_set_once(_changes_of_reading(case, count))


def _changes_of_reading(case: Case, count: int) -> Iterator[Supposition]:
    """Yield the last of so many mistakes that change how the numbers of a file are read."""
    for fewer in _with_changes_of_reading(case, count - 1):
        yield from _first_suppositions(OpenCase(fewer, counts_as=1), changes_reading=True)


def _first_suppositions(incomplete: OpenCase, *, changes_reading: bool) -> Iterator[Supposition]:
    """Yield mistakes that may be supposed before the last one is measured, each with its case.

    Exchanged columns have no number, so that they are just supposed. Another base can be as well,
    with the number that is measured so far.

    Args:
        incomplete: The numbers of a file, with the mistakes that are supposed so far.
        changes_reading: True for mistakes that change how rows and columns are read, such as
            exchanged columns; False for all others.
    """
    case = incomplete.case
    for kind in _possible_kinds(incomplete):
        if kind.changes_reading == changes_reading and _may_come_first(kind, case):
            for mistake in kind.suppositions(case):
                check_time()
                yield Supposition(case, mistake)


def _may_come_first(kind: type[Mistake], case: Case) -> bool:
    """Return True if a mistake may be supposed in a case before another one is measured.

    A mistake of the schedule, such as another base, may not if the case has the measured frequencies
    already: it would make them wrong.
    """
    if issubclass(kind, ScheduleMistake) and case.frequencies_are_confirmed:
        return False
    return kind.stage in _stages_that_come_first(case)


def _stages_that_come_first(case: Case) -> set[Stage]:
    """Return the steps of a computation in which a mistake may be supposed before another one is measured.

    Damage is none of them, since any mistake looks like damage. Steps in 16 bits are rarely beside
    two other mistakes: they are supposed first, and nothing else is supposed after them.
    """
    stages_so_far = {mistake.stage for mistake in case.mistakes_beside_storage}
    if not stages_so_far:
        return set(Stage) - {Stage.DAMAGE}
    if Stage.ARITHMETIC in stages_so_far:
        return set()
    return set(Stage) - {Stage.DAMAGE, Stage.ARITHMETIC}


class MistakeGroup(Enum):
    """Groups of mistakes, by what the mistakes that are supposed so far show about them."""

    COLUMNS_AND_ROWS = "how columns and rows are read, such as exchanged columns"
    FREQUENCIES = "the formula of the frequencies, such as another base"
    STEPS_AND_DAMAGE = "steps in 16 bits, and damage"
    POSITIONS_AND_AMPLITUDE = "other positions, another amplitude"


def _group_of(kind: type[Mistake]) -> MistakeGroup:
    """Return the group that the mistakes of a kind belong to."""
    if kind.stage in (Stage.ARITHMETIC, Stage.DAMAGE):
        return MistakeGroup.STEPS_AND_DAMAGE
    if kind.changes_reading:
        return MistakeGroup.COLUMNS_AND_ROWS
    if issubclass(kind, ScheduleMistake):
        return MistakeGroup.FREQUENCIES
    return MistakeGroup.POSITIONS_AND_AMPLITUDE


def _possible_kinds(incomplete: OpenCase) -> Iterator[type[Mistake]]:
    """Yield the kinds of mistakes, such as another base, that the missing mistake may be of.

    A kind is possible if it is not supposed already, if it counts as one or two mistakes as the
    missing one does, and if the mistakes that are supposed leave room for it: beside another base,
    which is measured in the columns as they are read, no exchange of columns is supposed any more.
    """
    supposed_kinds = {type(mistake) for mistake in incomplete.case.mistakes}
    possible_groups = _possible_groups(incomplete.case)
    for kind in _kinds_in_order(incomplete.case):
        is_new = kind not in supposed_kinds and kind.counts_as == incomplete.counts_as
        if is_new and _group_of(kind) in possible_groups:
            yield kind


def _kinds_in_order(case: Case) -> list[type[Mistake]]:
    """Return all kinds of mistakes, those of the schedule first if the case has other frequencies.

    The schedule is the formula of the frequencies, base^(−2i/dim): if 0.2 is expected and 0.3 is
    measured, the reason is most likely in there.
    """
    kinds = [*DAMAGE, *MISTAKES]
    if case.frequencies_are_refuted:
        # Sorting keeps the order among the kinds of the schedule, and among all others.
        kinds.sort(key=lambda kind: issubclass(kind, ScheduleMistake), reverse=True)
    return kinds


def _possible_groups(case: Case) -> set[MistakeGroup]:
    """Return the groups of mistakes to which one more mistake may belong, such as that of the frequencies.

    If a supposed base gives the measured frequencies, no further mistake of the frequencies is tried.

    Args:
        case: The numbers of a file, with the mistakes that are supposed so far.
    """
    groups = set(MistakeGroup)
    if _is_some_mistake_measured(case):
        # Its number, such as a base, would be another one if columns were exchanged as well.
        groups.remove(MistakeGroup.COLUMNS_AND_ROWS)
    if _has_right_schedule(case):
        groups.remove(MistakeGroup.FREQUENCIES)
    if case.has_other_frequencies:
        # The file shows other frequencies than the supposed ones, which other positions of rows, or another
        # amplitude, do not explain.
        groups.remove(MistakeGroup.POSITIONS_AND_AMPLITUDE)
    return groups


def _is_some_mistake_measured(case: Case) -> bool:
    """Return True if a supposed mistake, such as another base, was measured in the columns and rows.

    Mistakes that only change how columns and rows are read, such as exchanged columns, need no measurement.
    """
    return any(not mistake.changes_reading for mistake in case.mistakes)


def _has_right_schedule(case: Case) -> bool:
    """Return True if the supposed mistakes lead to the measured frequencies, so that their formula is right.

    Without a supposed mistake, the formula may be wrong although it agrees with all measured frequencies:
    slow pairs in 16 bits do not show their frequencies, but show that they are not as expected.
    """
    return case.frequencies_are_confirmed and bool(case.mistakes_beside_storage)
