"""Other parameters of schemes of which no more is known than the tables that they make."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from pecli.engine.edits import Edit, Parameter
from pecli.engine.schemes.bias_parts import HeadSlice
from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.parameters import Parameter as SchemeParameter
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.errors import ParameterError
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.making import Making, SchemeMaking
from pecli.explain.numbers import digits

SKIPPED = frozenset({"dtype", "recipe", "runtime", "seed", "seq_len", "max_len"})
"""Parameters that say how many rows there are, how they are computed, or that have no likely values."""

NUMBER_COST = 0.01
"""Cost per digit of a value: it only decides between values that make the same table."""

MOST_SHARDS = 64
"""Shards of heads that are tried; those that a model does not have are refused."""

USUAL_NUMBERS = (
    *range(33), 40, 48, 50, 64, 80, 96, 100, 128, 160, 192, 200, 256, 320, 384, 400, 500, 512, 640, 768, 800,
    1000, 1024, 2048, 4096, 10000,
)  # fmt: skip
"""Numbers that somebody may have written for a parameter: a max_distance of T5, a number of buckets."""


@dataclass(frozen=True)
class OtherSchemeParameter(Mistake):
    """Another value of one parameter: the default, an option, a usual number."""

    name: str
    value: Any
    summary = "another value of a parameter: the default, another option, a usual number"
    stage = Stage.PARAMETERS

    def plant(self, making: Making) -> Making:
        if not isinstance(making, SchemeMaking):
            raise TypeError("only tables of a scheme have parameters")
        changes = {self.name: self.value}
        return replace(making, scheme=replace(making.scheme, **changes))

    @classmethod
    def proposals(cls, case: Case) -> Iterator[Self]:
        is_of_scheme = isinstance(case.specification, SchemeMaking)
        if is_of_scheme and isinstance(case.making, SchemeMaking):
            yield from cls._possible(case.making)

    @classmethod
    def examples(cls, making: Making, scheme: Scheme) -> Iterator[Self]:
        """Yield parameters at their defaults and other options; a usual number would be a guess."""
        if not isinstance(making, SchemeMaking):
            return
        for mistake in cls._possible(making):
            is_choice = isinstance(mistake.value, (bool, str))
            if is_choice or mistake.value == default_of(type(making.scheme), mistake.name):
                yield mistake

    @classmethod
    def _possible(cls, making: SchemeMaking) -> Iterator[Self]:
        """Yield the values for which the scheme can be made, and has the same shape."""
        scheme = making.scheme
        shapes = [table.shape for table in making.tables]
        for name, parameter in scheme.parameters().items():
            if name in SKIPPED or name in scheme.inert_parameters:
                continue
            for value in _values(scheme, name, parameter):
                mistake = cls(name, value)
                try:
                    other = mistake.plant(making)
                except ParameterError:
                    continue
                if [table.shape for table in other.tables] == shapes:  # type: ignore[attr-defined]
                    yield mistake

    def scheme_after(self, scheme: Scheme) -> Scheme:
        changes = {self.name: self.value}
        return replace(scheme, **changes)

    @property
    def cost(self) -> float:
        """Of values that make the same table, the plainer one is named."""
        is_number = isinstance(self.value, (int, float))
        return self.weight + (NUMBER_COST * digits(self.value) if is_number else 0.0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter(self.name, getattr(case.scheme, self.name), self.value),)


def _values(scheme: Scheme, name: str, parameter: SchemeParameter) -> Iterator[Any]:
    """Yield other values of a parameter that somebody may have written."""
    given = getattr(scheme, name)
    if isinstance(parameter, Flag):
        yield not given
    elif isinstance(parameter, Choice):
        yield from (option for option in parameter.options if option != given)
    elif isinstance(given, GridSize):
        if len(set(given)) > 1:
            yield GridSize(reversed(given))  # A window of 6×8 for 8×6.
    elif isinstance(given, HeadSlice):
        yield from (shard for shard in given.shards(MOST_SHARDS) if shard != given)
    elif isinstance(parameter, (Whole, Real)) and given is not None:
        kind = int if isinstance(parameter, Whole) else float
        for number in _other_numbers(given, default_of(type(scheme), name)):
            if kind(number) == number and number != given:
                yield kind(number)


def _other_numbers(given: float, default: object) -> list[float]:
    """Return what is written for a number by mistake: its default, its double or half, one off, or a usual number."""
    near = [2 * given, given / 2, given + 1, given - 1, 10 * given, given / 10]
    if isinstance(default, (int, float)):
        near.insert(0, default)
    return list(dict.fromkeys((*near, *USUAL_NUMBERS)))
