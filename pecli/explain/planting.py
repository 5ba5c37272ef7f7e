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
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.computation import FLOAT32, Computation, SchemeComputation
from pecli.explain.hypothesis import Case, Mistake
from pecli.explain.observations import Observations
from pecli.explain.subject import computation_of
from pecli.explain.tables import WAVES


class Tensors(NamedTuple):
    """Some tensors of a scheme that are made together."""

    scheme: Scheme
    names: tuple[str, ...]
    computation: Computation

    def with_mistake(self, mistake: Mistake) -> "Tensors":
        """Return the tensors with a mistake in them.

        Raises:
            TypeError: The mistake is one of other tensors; frequencies have no columns to exchange.
        """
        return self._replace(computation=mistake.plant(self.computation))

    def rows(self, rows: Indices) -> dict[str, Floats]:
        """Return some rows of each tensor, mistakes included: elements that were never written hold zeros, say."""
        values = self.computation.as_stored(self.computation.rendered(rows), rows)
        return self.split(values)

    def split(self, values: Floats) -> dict[str, Floats]:
        """Return the columns of each tensor, by its name: those of `cos`, then those of `sin`."""
        parts = np.split(values, len(self.names), axis=1)
        return dict(zip(self.names, parts, strict=True))

    @property
    def every_row(self) -> dict[str, Floats]:
        return self.rows(np.arange(self.computation.rows))

    @property
    def in_float32(self) -> dict[str, Floats]:
        """All rows, computed in float32."""
        computed = replace(self.computation, arithmetic=FLOAT32)
        return self._replace(computation=computed).every_row

    def shaped(self, tensors: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return matrices with the shapes that these tensors have: slopes are a vector, for example."""
        made = named_tensors(self.scheme)
        return {name: array.reshape(made[name].shape) for name, array in tensors.items()}

    def edits(self, mistake: Mistake) -> tuple[Edit, ...]:
        """Return the edits that name a mistake, as an explanation of tensors with it would have them."""
        wrong = self.with_mistake(mistake).every_row
        case = Case.of(self.scheme, self.computation, Observations(wrong, "float64"))
        return mistake.edits(case.supposing(mistake))


@singledispatch
def tensors_made_together(scheme: Scheme, names: Sequence[str]) -> Iterator[Tensors]:
    """Yield some of a scheme's tensors, with the steps that make them; `cos` and `sin` belong together.

    A mistake is planted in all tensors that are made together. Schemes that are not registered here are
    made by the engine as a whole, so that only their parameters can be wrong.
    """
    for name in names:
        if len(named_tensors(scheme)[name].shape) > 1:
            yield Tensors(scheme, (name,), SchemeComputation(scheme, (name,)))


@tensors_made_together.register
def _wave_tensors(scheme: Positioned, names: Sequence[str]) -> Iterator[Tensors]:
    """Yield the tables of cosines and sines together, then the vector of frequencies on its own."""
    for made_together in (WAVES, ("inv_freq",)):
        wanted_names = tuple(name for name in made_together if name in names)
        if wanted_names:
            yield Tensors(scheme, wanted_names, computation_of(scheme, wanted_names))


@tensors_made_together.register
def _alibi_tensors(scheme: Alibi, names: Sequence[str]) -> Iterator[Tensors]:
    for name in names:
        yield Tensors(scheme, (name,), BiasComputation.of(scheme, name))


class WrongTensors(NamedTuple):
    """A scheme, a mistake in making its tensors, these tensors, and the edits that name the mistake."""

    scheme: Scheme
    mistake: Mistake
    tensors: dict[str, Floats]
    edits: tuple[Edit, ...]


def wrong_tensors(
    scheme: Scheme, kinds: Iterable[type[Mistake]], names: Sequence[str]
) -> Iterator[WrongTensors]:
    """Yield wrong versions of a scheme's tensors, with one mistake each: another base, reversed rows, ….

    They are test data: a search has to name the mistake of each. Mistakes that change no number of these
    tensors are left out.

    Args:
        scheme: The scheme of the right tensors.
        kinds: The kinds of mistakes. «Another base» is a kind, and 500000 for 10000 one of its mistakes.
        names: The names of the tensors, such as `cos` and `sin`.
    """
    # Tensors that are made together, such as `cos` and `sin`, have the same mistake.
    for tensors in tensors_made_together(scheme, names):
        right = tensors.every_row
        right_in_float32 = tensors.in_float32
        for mistake in _typical_mistakes(tensors, kinds):
            wrong = tensors.with_mistake(mistake).every_row
            # Some mistakes round positions to float16, and compute all else in float32. If rounding changes
            # no position (0 1 2 … are exact in float16), only float32 is left, which is no mistake.
            is_without_effect = _are_equal(wrong, right) or _are_equal(wrong, right_in_float32)
            if not is_without_effect:
                in_shapes_of_scheme = tensors.shaped(wrong)
                yield WrongTensors(scheme, mistake, in_shapes_of_scheme, tensors.edits(mistake))


def _typical_mistakes(tensors: Tensors, kinds: Iterable[type[Mistake]]) -> Iterator[Mistake]:
    """Yield mistakes that these tensors can have, a few of each kind: base 500000 for 10000, say."""
    for kind in kinds:
        yield from kind.examples(tensors.computation, tensors.scheme)


def _are_equal(tensors: Mapping[str, Floats], others: Mapping[str, Floats]) -> bool:
    """Return True if two sets of tensors, by name, hold the same numbers."""
    return all(np.array_equal(array, others[name]) for name, array in tensors.items())
