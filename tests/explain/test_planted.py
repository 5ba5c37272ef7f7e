"""Every known mistake, planted in every scheme that can have it, is the first explanation.

Here the catalogue of mistakes plants the tables itself, and names the edits (differences from the
spec) that must be found; tables of independent formulas are in test_reasons.py. A cell is a
mistake, a scheme and a storage, such as four decimals.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification
from pecli.engine.edits import Edit, Negated, Parameter, RowsWrong, Runtime, Swapped
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.explain import catalogue
from pecli.explain.catalogue.used_rows import PaddedRows
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import explain_by_kind
from pecli.explain.hypothesis import Mistake, Stage
from pecli.explain.planting import WrongTensors, wrong_tensors
from pecli.explain.tables import cases_of
from pecli.explain.words import MAX_COMMAND
from pecli.golden.mistake_cases import SCHEMES, slug
from tests.checks.waves import Array

STORAGES: dict[str, Callable[[Array], Array]] = {
    "float32": lambda values: values.astype(np.float32),
    "float16": lambda values: values.astype(np.float16),
    "6 decimals": lambda values: np.round(values, 6),
    "4 decimals": lambda values: np.round(values, 4),
}

SGLANG_AT_256 = Runtime(
    "sglang",
    causes=(
        "its dynamic NTK is not dynamic: the base is that of NTK with factor 3, at any length",
    ),
)

EQUIVALENT: tuple[tuple[tuple[Edit, ...], tuple[Edit, ...]], ...] = (
    # Only the sines, or only the cosines, fail: what is explained has no other function.
    ((Negated("sin"),), (Negated("all"),)),
    ((Negated("cos"),), (Negated("all"),)),
    # The order of functions is a parameter of sinusoidal schemes.
    ((Parameter("cos_first", False, True),), (Swapped(),)),
    # Both axes of a grid are all of its axes.
    ((Parameter("positions along h and w", 0, 1.0),), (Parameter("all positions", 0, 1),)),
    ((Parameter("positions along h and w", 0, -1.0),), (Parameter("all positions", 0, -1),)),
    # A damaged row that holds zeros is the row of a padding index.
    ((RowsWrong((20,)),), (Parameter("padding_idx", None, 20),)),
    # SGLang evaluates dynamic scaling by 2 of 128 positions at 256, however long the sequence is.
    ((Parameter("length", 300, 256.0),), (SGLANG_AT_256,)),
    # Slopes of ten heads have so few bits that both dtypes round them to the same numbers.
    ((Parameter("slopes", "exact", "float16"),), (Parameter("slopes", "exact", "bfloat16"),)),
)
"""Edits that describe the same tables, as planted and as found."""

SAME_TABLE = 1e-9
"""Difference within which two schemes make the same table: then either of them is the answer."""


KINDS_OF_PRECISION = [
    kind for kind in catalogue.every_kind() if kind.stage in (Stage.STORAGE, Stage.ARITHMETIC)
]
"""Kinds of mistakes that only round a table, such as four decimals or a coarse π."""

OTHER_KINDS = [kind for kind in catalogue.every_kind() if kind not in KINDS_OF_PRECISION]
"""Kinds of mistakes such as another base or reversed rows."""


class Cell(NamedTuple):
    """A planted mistake, as a storage keeps it."""

    planted: WrongTensors
    storage: str

    @property
    def name(self) -> str:
        scheme = self.planted.scheme
        scaling = scheme.value_of("scaling", "")
        return f"{slug(type(self.planted.mistake))}-{scheme.name}-{scaling}-{self.storage}"


def cells(storages: tuple[str, ...]) -> Iterator[Cell]:
    """Yield all mistakes but those of storage and arithmetic, which another storage hides."""
    for scheme in SCHEMES:
        for mistake in wrong_tensors(scheme, OTHER_KINDS, tensor_names(scheme)):
            for storage in storages:
                yield Cell(mistake, storage)


def tensor_names(scheme: Scheme) -> list[str]:
    return [name for name in named_tensors(scheme) if name not in scheme.derived_tensors]


def is_named(explanation: Explanation, planted: WrongTensors) -> bool:
    """Return True if an explanation is the planted mistake, or as short and makes the same tables."""
    mistakes = tuple(edit for edit in explanation.edits if not edit.storage)
    if mistakes == planted.edits or (planted.edits, mistakes) in EQUIVALENT:
        return True
    if explanation.scheme is None or len(mistakes) > len(planted.edits):
        return False
    made = explanation.scheme.in_dtype("float64").tables()
    return all(
        name in made and np.allclose(made[name], array, rtol=0, atol=SAME_TABLE)
        for name, array in planted.tensors.items()
    )


CELLS = [*cells(tuple(STORAGES))]
EVERY_31ST_CELL = CELLS[::31]
"""One of 31 cells; the number is odd, so that all storages take turns."""


@pytest.mark.parametrize("cell", EVERY_31ST_CELL, ids=lambda cell: cell.name)
@pytest.mark.sample(20)  # The other cells of EVERY_31ST_CELL are thorough.
def test_a_planted_mistake_is_the_first_explanation(cell: Cell) -> None:
    """A cell plants one mistake of the catalogue, for example another base, in the tables of a
    scheme, and stores them as float32, float16 or rounded decimals. `verify` against the right
    scheme must give this mistake as its first explanation; another one counts only if it is as
    short and makes the same tables, or is listed in EQUIVALENT. The commands in the diagnosis have
    at most MAX_COMMAND letters.
    """
    answer = verification_of(cell)

    assert_mistake_is_first(answer, cell.planted)
    assert_commands_are_short(answer)


@pytest.mark.thorough
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_planted_mistake_is_the_first_explanation(cell: Cell) -> None:
    """A cell plants one mistake of the catalogue, for example another base, in the tables of a
    scheme, and stores them as float32, float16 or rounded decimals. `verify` against the right
    scheme must give this mistake as its first explanation; another one counts only if it is as
    short and makes the same tables, or is listed in EQUIVALENT. The commands in the diagnosis have
    at most MAX_COMMAND letters.
    """
    answer = verification_of(cell)

    assert_mistake_is_first(answer, cell.planted)
    assert_commands_are_short(answer)


def verification_of(cell: Cell) -> Verification:
    """Verify the tables with the planted mistake, as they are stored, against the right scheme."""
    store = STORAGES[cell.storage]
    tensors = {name: store(array) for name, array in cell.planted.tensors.items()}
    return pecli.verify(tensors, cell.planted.scheme, atol=1e-6)


def assert_mistake_is_first(answer: Verification, mistake: WrongTensors) -> None:
    assert answer.explanations, answer.diagnosis
    assert is_named(answer.explanations[0], mistake), answer.diagnosis


def assert_commands_are_short(answer: Verification) -> None:
    assert all(len(command) <= MAX_COMMAND for command in commands(answer.diagnosis))


def one_planted_in_each_scheme(kind: type[Mistake]) -> Iterator[WrongTensors]:
    """Yield one mistake of a kind in the tables of every scheme that can have it.

    One will do: a sixth digit of π is as good as a fifth one.
    """
    for scheme in SCHEMES:
        yield from islice(wrong_tensors(scheme, [kind], tensor_names(scheme)), 1)


def explanations_by_kind(
    kind: type[Mistake], scheme: Scheme, tensors: Mapping[str, Array]
) -> Iterator[Explanation]:
    """Yield what the search finds in tables if it tries mistakes of this kind only."""
    for case in cases_of(scheme, tensors):
        yield from explain_by_kind(case, kind)


@pytest.mark.parametrize("kind", OTHER_KINDS, ids=slug)
def test_a_planted_mistake_is_found_if_only_its_kind_is_tried(kind: type[Mistake]) -> None:
    """A kind is a class of the catalogue, such as «another base». It must find its own mistake in the
    tables, stored in float32, of every scheme that can have it; an explanation that is as short and
    makes the same tables counts as well (`is_named`).
    """
    not_found = []
    for mistake in one_planted_in_each_scheme(kind):
        stored = {name: array.astype(np.float32) for name, array in mistake.tensors.items()}
        explanations = explanations_by_kind(kind, mistake.scheme, stored)
        if not any(is_named(explanation, mistake) for explanation in explanations):
            not_found.append((mistake.scheme, mistake.edits))

    assert not_found == []


@pytest.mark.parametrize("kind", KINDS_OF_PRECISION, ids=slug)
def test_a_planted_rounding_is_found_if_only_its_kind_is_tried(kind: type[Mistake]) -> None:
    """A kind is a class of the catalogue, such as «four decimals». It must find its own rounding in the
    tables of every scheme; they are not stored in another dtype, which would round them again.
    """
    not_found = []
    for mistake in one_planted_in_each_scheme(kind):
        rounding, *_ = mistake.edits
        explanations = explanations_by_kind(kind, mistake.scheme, mistake.tensors)
        if not any(rounding in explanation.edits for explanation in explanations):
            not_found.append((mistake.scheme, mistake.edits))

    assert not_found == []


@pytest.mark.parametrize(("padding_idx", "count"), [(None, 2), (1, 0)])
def test_padding_rows_are_planted_unless_the_scheme_has_a_padding_row(
    padding_idx: int | None, count: int
) -> None:
    """PaddedRows of the catalogue has two mistakes: a row of zeros before the table, and one after
    it. A scheme with a padding_idx has a row of zeros already in the right table, so nothing is
    planted.
    """
    scheme = pecli.Sinusoidal(40, 16, padding_idx=padding_idx)
    mistakes = [*wrong_tensors(scheme, [PaddedRows], ["pe"])]

    assert len(mistakes) == count


def commands(lines: Iterable[str]) -> Iterator[str]:
    """Yield the commands that lines print: «reproduce with pecli rope --dim 64»."""
    for line in lines:
        _, name, options = line.partition("pecli ")
        yield name + options
