"""Base classes of mistakes: of cosines and sines, and of the law that frequencies follow."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from pecli.engine.schemes.scheme import Scheme
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.law import Law
from pecli.explain.making import Making, WaveMaking


@dataclass(frozen=True, eq=False)
class WaveMistake(Mistake):
    """A mistake in making cosines and sines."""

    def plant(self, making: Making) -> Making:
        if not isinstance(making, WaveMaking):
            raise TypeError(f"{type(self).__name__} is a mistake of cosines and sines")
        return self.in_waves(making)

    @abstractmethod
    def in_waves(self, waves: WaveMaking) -> WaveMaking:
        """Return the waves with this mistake in them."""

    @classmethod
    def proposals(cls, case: Case) -> Iterator[Self]:
        if case.waves is not None:
            yield from cls.proposals_for(case, case.waves)

    @classmethod
    def proposals_for(cls, case: Case, waves: WaveMaking) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones, which need no
        measurement.
        """
        yield from cls.examples_for(waves)

    @classmethod
    def examples(cls, making: Making, scheme: Scheme) -> Iterator[Self]:
        if isinstance(making, WaveMaking):
            yield from cls.examples_for(making)

    @classmethod
    def examples_for(cls, waves: WaveMaking) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()


def _measured_frequencies(case: Case, waves: WaveMaking) -> tuple[object, ...]:
    """Return a key of the measured frequencies, to float32; the reading of the data if none could
    be measured.
    """
    if case.frequencies is None:
        return waves.reading
    return case.frequencies.values.astype(np.float32).tobytes(), waves.storage


@dataclass(frozen=True, eq=False)
class LawMistake(WaveMistake):
    """A mistake in the law of the frequencies."""

    stage = Stage.PARAMETERS

    def in_waves(self, waves: WaveMaking) -> WaveMaking:
        if waves.law is None:
            raise TypeError(f"{type(self).__name__} is a mistake of a law of frequencies")
        return waves.with_law(self.in_law(waves.law))

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme if its parameters follow from the law, as those of consecutive
        positions do.
        """
        return scheme if scheme.is_range else None

    @abstractmethod
    def in_law(self, law: Law) -> Law:
        """Return the law with this mistake in it."""

    @classmethod
    def proposals_for(cls, case: Case, waves: WaveMaking) -> Iterator[Self]:
        """Yield the mistakes that give the measured frequencies, computed once per law and reading
        of the data.
        """
        law = waves.law
        if law is None:
            return
        # Fits take most of the time, and depend on no mistake that leaves the law and the
        # frequencies as they are: a table with exchanged and negated columns may turn as the right
        # one does.
        key = (cls, law, waves.arithmetic.frequencies, *_measured_frequencies(case, waves))
        yield from case.once(key, lambda: list(cls._agreeing(case, law)))

    @classmethod
    def _agreeing(cls, case: Case, law: Law) -> Iterator[Self]:
        is_judged = case.frequencies_agree is not None
        for mistake in cls.laws_proposed(case, law):
            if not is_judged or case.has_frequencies(mistake.in_law(law).frequencies):
                yield mistake

    @classmethod
    def suppositions(cls, case: Case) -> Iterator[Self]:
        """Yield proposals, and typical instances: another mistake of the law may follow."""
        if case.law is None:
            return
        typical = list(cls.typical(case.law))
        yield from typical
        for mistake in cls.proposals(case):
            if mistake not in typical:
                yield mistake

    @classmethod
    def laws_proposed(cls, case: Case, law: Law) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones."""
        yield from cls.typical(law)

    @classmethod
    def examples_for(cls, waves: WaveMaking) -> Iterator[Self]:
        if waves.law is not None:
            yield from cls.typical(waves.law)

    @classmethod
    def typical(cls, law: Law) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()
