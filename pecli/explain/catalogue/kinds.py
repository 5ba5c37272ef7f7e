"""Base classes of mistakes: of cosines and sines, and of the schedule that frequencies follow."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from pecli.engine.schemes.scheme import Scheme
from pecli.explain.computation import Computation, WaveComputation
from pecli.explain.frequency_schedule import FrequencySchedule
from pecli.explain.hypothesis import Case, Mistake, Stage


@dataclass(frozen=True, eq=False)
class WaveMistake(Mistake):
    """A mistake in making cosines and sines."""

    def plant(self, computation: Computation) -> Computation:
        assert isinstance(computation, WaveComputation)
        return self.plant_in_waves(computation)

    @abstractmethod
    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the waves with this mistake in them."""

    @classmethod
    def proposals(cls, case: Case) -> Iterator[Self]:
        if case.waves is not None:
            yield from cls.proposals_for_waves(case, case.waves)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones, which need no
        measurement.
        """
        yield from cls.examples_for_waves(waves)

    @classmethod
    def examples(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        if isinstance(computation, WaveComputation):
            yield from cls.examples_for_waves(computation)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()


def _key_of_frequencies(case: Case, waves: WaveComputation) -> tuple[object, ...]:
    """Return a key of the measured frequencies, to float32; the reading of the data if none could
    be measured.
    """
    if case.measured_frequencies is None:
        return waves.reading
    return case.measured_frequencies.values.astype(np.float32).tobytes(), waves.storage


@dataclass(frozen=True, eq=False)
class ScheduleMistake(WaveMistake):
    """A mistake in the schedule of the frequencies."""

    stage = Stage.PARAMETERS

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        if waves.schedule is None:
            raise TypeError(f"{type(self).__name__} is a mistake of a schedule of frequencies")
        return waves.with_schedule(self.plant_in_schedule(waves.schedule))

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme if its parameters follow from the schedule, as those of consecutive
        positions do.
        """
        return scheme if scheme.is_range else None

    @abstractmethod
    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        """Return the schedule with this mistake in it."""

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the mistakes that give the measured frequencies, computed once per schedule and reading
        of the data.
        """
        schedule = waves.schedule
        if schedule is None:
            return
        # Fits take most of the time, and depend on no mistake that leaves the schedule and the
        # frequencies as they are: a table with exchanged and negated columns may turn as the right
        # one does.
        key = (cls, schedule, waves.arithmetic.frequencies, *_key_of_frequencies(case, waves))
        yield from case.once(key, lambda: list(cls._agreeing(case, schedule)))

    @classmethod
    def _agreeing(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        for mistake in cls.proposals_for_schedule(case, schedule):
            if not case.can_judge_frequencies or case.agrees_with(
                mistake.plant_in_schedule(schedule).frequencies
            ):
                yield mistake

    @classmethod
    def suppositions(cls, case: Case) -> Iterator[Self]:
        """Yield proposals, and typical instances: another mistake of the schedule may follow."""
        if case.schedule is not None:
            yield from dict.fromkeys(
                (*cls.examples_for_schedule(case.schedule), *cls.proposals(case))
            )

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones."""
        yield from cls.examples_for_schedule(schedule)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.schedule is not None:
            yield from cls.examples_for_schedule(waves.schedule)

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()
