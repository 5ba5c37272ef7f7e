"""Known mistakes planted in tables: what a pass does not exclude, negative golden vectors, and the field guide."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.edits import Edit
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.explain.bias_making import BiasMaking
from pecli.explain.hypothesis import Case, Mistake, Observations
from pecli.explain.making import FLOAT32, Making, SchemeMaking
from pecli.explain.subject import making_of

WAVES = ("cos", "sin", "pe")
"""Tensors that one making makes together, if a scheme has several of them."""


class Tensors(NamedTuple):
    """Some tensors of a scheme that are made together."""

    scheme: Scheme
    names: tuple[str, ...]
    making: Making

    def with_mistake(self, mistake: Mistake) -> "Tensors":
        """Return the tensors with a mistake in them.

        Raises:
            TypeError: The mistake is one of other tensors; frequencies have no columns to exchange.
        """
        return self._replace(making=mistake.plant(self.making))

    def rows(self, rows: Indices) -> dict[str, Floats]:
        """Return some rows of each tensor, where damaged elements hold the damage's filler."""
        values = self.making.rendered(rows)
        if self.making.storage is not None:
            values = self.making.storage.rounded(values)
        if self.making.damaged is not None:
            values = np.where(self.making.damaged[rows], self.making.filler, values)
        parts = np.split(values, len(self.names), axis=1)
        return dict(zip(self.names, parts, strict=True))

    def edits(self, mistake: Mistake) -> tuple[Edit, ...]:
        """Return a mistake in the vocabulary of results."""
        every_row = np.arange(self.making.rows)
        wrong = self.with_mistake(mistake).rows(every_row)
        case = Case.of(self.scheme, self.making, Observations(wrong, "float64"))
        return mistake.edits(case.given(mistake))


@singledispatch
def makings(scheme: Scheme, names: Sequence[str]) -> Iterator[Tensors]:
    """Yield those of a scheme's tensors that have these names, with what makes them.

    Of schemes without a making of their own, only the parameters are known.
    """
    for name in names:
        if len(named_tensors(scheme)[name].shape) > 1:
            yield Tensors(scheme, (name,), SchemeMaking(scheme, (name,)))


@makings.register
def _(scheme: Positioned, names: Sequence[str]) -> Iterator[Tensors]:
    waves = tuple(name for name in WAVES if name in names)
    for together in (waves, ("inv_freq",)):
        if not set(together) <= set(names) or not together:
            continue
        making = making_of(scheme, together)
        if making is not None:
            yield Tensors(scheme, together, making)


@makings.register
def _(scheme: Alibi, names: Sequence[str]) -> Iterator[Tensors]:
    for name in names:
        yield Tensors(scheme, (name,), BiasMaking.of(scheme, name))


class Planted(NamedTuple):
    """A scheme, a mistake in making its tensors, these tensors, and the edits that name the mistake."""

    scheme: Scheme
    mistake: Mistake
    tensors: dict[str, Floats]
    edits: tuple[Edit, ...]


def planted(
    scheme: Scheme, kinds: Iterable[type[Mistake]], names: Sequence[str]
) -> Iterator[Planted]:
    """Yield a scheme's tensors with each typical mistake of some kinds; those that change nothing are left out."""
    for tensors in makings(scheme, names):
        shapes = {name: named_tensors(scheme)[name].shape for name in tensors.names}
        every_row = np.arange(tensors.making.rows)
        in_float32 = tensors._replace(making=replace(tensors.making, arithmetic=FLOAT32))
        right = (tensors.rows(every_row), in_float32.rows(every_row))
        for kind in kinds:
            for mistake in kind.examples(tensors.making, scheme):
                wrong = tensors.with_mistake(mistake).rows(every_row)
                if any(_are_equal(wrong, tables) for tables in right):
                    continue
                arrays = {name: array.reshape(shapes[name]) for name, array in wrong.items()}
                yield Planted(scheme, mistake, arrays, tensors.edits(mistake))


def _are_equal(tensors: Mapping[str, Floats], others: Mapping[str, Floats]) -> bool:
    return all(np.array_equal(array, others[name]) for name, array in tensors.items())
