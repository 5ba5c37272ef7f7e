"""Base classes of mistakes: of cosines and sines, and of the schedule that frequencies follow."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.needs import has_schedule
from pecli.explain.computation import Computation, WaveComputation
from pecli.explain.frequency_schedule import FrequencySchedule
from pecli.explain.hypothesis import Case, Mistake, Needs, Stage


@dataclass(frozen=True, eq=False)
class WaveMistake(Mistake):
    """A mistake in making cosines and sines."""

    computation_type: ClassVar[type[Any]] = WaveComputation

    def plant(self, computation: Computation) -> Computation:
        return self.plant_in_waves(_waves(computation))

    @abstractmethod
    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the waves with this mistake in them."""

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        yield from cls.proposals_for_waves(case, waves_of(case))

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones, which need no
        measurement.
        """
        yield from cls.examples_for_waves(waves)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        yield from cls.examples_for_waves(_waves(computation))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()


def _waves(computation: Computation) -> WaveComputation:
    """Return a computation as one of cosines and sines, in which alone the mistakes are possible."""
    assert isinstance(computation, WaveComputation)
    return computation


def waves_of(case: Case) -> WaveComputation:
    """Return the computation of a case with the mistakes that are supposed so far."""
    return _waves(case.computation)


def schedule_of_waves(waves: WaveComputation) -> FrequencySchedule:
    """Return the schedule of frequencies, for mistakes that need one.

    Raises:
        TypeError: There is none, since each axis of a grid has its own.
    """
    if waves.schedule is None:
        raise TypeError("only a schedule of frequencies can have this mistake")
    return waves.schedule


def _key_of_frequencies(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases in which the same frequencies are measured.

    It is made of the frequencies in float32 and of the supposed storage. If none could be measured,
    it is the way in which columns and rows are read.
    """
    if case.measured_frequencies is None:
        return case.computation.reading
    frequencies = case.measured_frequencies.values.astype(np.float32)
    return frequencies.tobytes(), case.computation.storage


def _has_specified_schedule(case: Case) -> bool:
    """Return True if the specification is of waves whose frequencies follow one schedule."""
    specification = case.specification
    return isinstance(specification, WaveComputation) and specification.schedule is not None


@dataclass(frozen=True, eq=False)
class ScheduleMistake(WaveMistake):
    """A mistake in the schedule of the frequencies."""

    stage = Stage.PARAMETERS
    computation_needs: ClassVar[Needs] = (has_schedule,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return waves.with_schedule(self.plant_in_schedule(schedule_of_waves(waves)))

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme if its parameters follow from the schedule, as those of consecutive
        positions do.
        """
        return scheme if scheme.is_range else None

    @classmethod
    def proposals(cls, case: Case) -> Iterator[Self]:
        """Yield the instances worth testing, if it is the specified schedule that may be wrong.

        A grid whose axes have frequencies of their own has no schedule. If it is supposed that rows lie
        in consecutive order instead, there is one, which nobody specified.
        """
        if _has_specified_schedule(case):
            yield from super().proposals(case)

    @abstractmethod
    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        """Return the schedule with this mistake in it."""

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the mistakes that change the schedule and give the measured frequencies.

        They are computed once per schedule and reading of the data.
        """
        schedule = schedule_of_waves(waves)
        # Fits take most of the time, and depend on no mistake that leaves the schedule and the
        # frequencies as they are: a table with exchanged and negated columns may turn as the right
        # one does.
        key = (cls, schedule, waves.arithmetic.frequencies, *_key_of_frequencies(case))
        yield from case.once(key, lambda: list(cls._agreeing(case, schedule)))

    @classmethod
    def _agreeing(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the proposals that change the schedule, and whose frequencies the data may have."""
        for mistake in cls.proposals_for_schedule(case, schedule):
            changed = mistake.plant_in_schedule(schedule)
            if changed != schedule and case.may_have(changed.frequencies):
                yield mistake

    @classmethod
    def suppositions_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield proposals, and typical instances: another mistake of the schedule may follow."""
        if not _has_specified_schedule(case):
            return
        examples = cls.examples_for_schedule(schedule_of_waves(waves_of(case)))
        yield from dict.fromkeys((*examples, *cls.proposals(case)))

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones.

        Those that leave the schedule as it is may be among them: `proposals` leaves them out.
        """
        yield from cls.examples_for_schedule(schedule)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield from cls.examples_for_schedule(schedule_of_waves(waves))

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()
