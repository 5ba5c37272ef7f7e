"""Other parameters of schemes of which no more is known than the tables that they make."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Self

from pecli.engine.edits import Edit, Parameter
from pecli.engine.schemes.bias_parts import HeadSlice
from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.explain.changed_schemes import permitted, with_parameters
from pecli.explain.computation import Computation, SchemeComputation
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.numbers import digits

SKIPPED = frozenset({"dtype", "recipe", "runtime", "seed", "seq_len", "max_len"})
"""Parameters that say how many rows there are, how they are computed, or that have no likely
values.
"""

NUMBER_COST = 0.01
"""Cost per digit of a value: it only decides between values that make the same table."""

MOST_SHARDS = 64
"""Shards of heads that are tried; those that a model does not have are refused."""

USUAL_NUMBERS = (
    *range(33), 40, 48, 50, 64, 80, 96, 100, 128, 160, 192, 200, 256, 320, 384, 400, 500, 512, 640, 768, 800,
    1000, 1024, 2048, 4096, 10000,
)  # fmt: skip
"""Numbers that somebody may have written for a parameter: a max_distance of T5, a number of
buckets.
"""


def _of_scheme(computation: Computation) -> SchemeComputation:
    """Return a computation as one of a scheme, in which alone the mistake is possible."""
    assert isinstance(computation, SchemeComputation)
    return computation


def are_of_scheme(case: Case) -> bool:
    """Return True if nothing is known of the expected tables but their scheme.

    A table of cosines and sines that a runtime is supposed to have made is one of a scheme too.
    """
    return isinstance(case.specification, SchemeComputation)


@dataclass(frozen=True)
class OtherSchemeParameter(Mistake):
    """Another value of one parameter: the default, an option, a usual number."""

    name: str
    value: object
    summary = "another value of a parameter: the default, another option, a usual number"
    stage = Stage.PARAMETERS
    computation_type = SchemeComputation
    data_needs = (are_of_scheme,)

    def plant(self, computation: Computation) -> Computation:
        return self.in_scheme(_of_scheme(computation))

    def in_scheme(self, computation: SchemeComputation) -> SchemeComputation:
        """Return the tables of the scheme with the other value."""
        return replace(computation, scheme=self.scheme_after(computation.scheme))

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        yield from cls._with_same_shapes(_of_scheme(case.computation))

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield parameters at their defaults and other options; a usual number would be a guess."""
        made = _of_scheme(computation)
        for mistake in cls._with_same_shapes(made):
            is_choice = isinstance(mistake.value, (bool, str))
            if is_choice or mistake.value == default_of(type(made.scheme), mistake.name):
                yield mistake

    @classmethod
    def _with_same_shapes(cls, computation: SchemeComputation) -> Iterator[Self]:
        """Yield other values of each parameter for which the scheme's tables keep their shape.

        T5 with 64 buckets for 32 is one; a table of another length is no mistake of a parameter,
        and values that the scheme refuses are skipped.
        """
        scheme = computation.scheme
        shapes = _shapes(computation)
        for name, value in _other_values(scheme):
            other = permitted(scheme, **{name: value})
            if other is not None and _shapes(replace(computation, scheme=other)) == shapes:
                yield cls(name, value)

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return with_parameters(scheme, **{self.name: self.value})

    @property
    def cost(self) -> float:
        """Of values that make the same table, the plainer one is named."""
        if isinstance(self.value, (int, float)):
            return self.weight + NUMBER_COST * digits(self.value)
        return self.weight

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter(self.name, getattr(case.scheme, self.name), self.value),)


def _shapes(computation: SchemeComputation) -> list[tuple[int, ...]]:
    return [table.shape for table in computation.tables]


def _other_values(scheme: Scheme) -> Iterator[tuple[str, object]]:
    """Yield names of parameters, each with other values that somebody may have written by mistake.

    A flag is turned round, an option replaced by each other one, a window of 8×6 becomes 6×8, a
    shard of heads another shard, and a number its default, its double, or a usual number.
    """
    has_no_mistakes = SKIPPED | scheme.inert_parameters
    for name, parameter in scheme.parameters().items():
        value = getattr(scheme, name)
        for likely_value in _likely_values(parameter, value, default_of(type(scheme), name)):
            if name not in has_no_mistakes and likely_value != value:
                yield name, likely_value


@singledispatch
def _likely_values(parameter: object, value: Any, default: object) -> Iterable[object]:
    """Return what may be written for a value of some kind of parameter, the value itself included.

    A window of 8×6 may become 6×8, and a shard of heads any other shard.
    """
    if isinstance(value, GridSize):
        return (GridSize(reversed(value)),)
    if isinstance(value, HeadSlice):
        return value.shards(MOST_SHARDS)
    return ()


@_likely_values.register
def _values_of_flag(parameter: Flag, value: bool, default: object) -> Iterable[object]:
    return (not value,)


@_likely_values.register
def _values_of_choice(parameter: Choice, value: Any, default: object) -> Iterable[object]:
    return parameter.options


@_likely_values.register
def _values_of_real(parameter: Real, value: float | None, default: object) -> Iterable[object]:
    return map(float, _likely_numbers(value, default))


@_likely_values.register
def _values_of_whole(parameter: Whole, value: int | None, default: object) -> Iterable[object]:
    return _whole(_likely_numbers(value, default))


def _whole(numbers: Iterable[float]) -> list[int]:
    """Return the numbers that are integers: of 4.0 and 2.5, only 4."""
    return [int(number) for number in numbers if number == int(number)]


def _likely_numbers(value: float | None, default: object) -> list[float]:
    """Return what is written for a number by mistake: its default, its double or half, one off, or
    a usual number; nothing for a number that is not set.
    """
    if value is None:
        return []
    near = [2 * value, value / 2, value + 1, value - 1, 10 * value, value / 10]
    if isinstance(default, (int, float)):
        near.insert(0, default)
    return list(dict.fromkeys((*near, *USUAL_NUMBERS)))
