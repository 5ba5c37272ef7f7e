"""Mistakes of the catalogue, planted in the expected tables: those with which they would pass as well."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.compare.comparison import compare_arrays
from pecli.compare.tolerance import DRIFT, FREQ_RTOL, Tolerance, is_relative
from pecli.engine.arrays import Floats, Indices, round_to
from pecli.engine.edits import Edit
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.table import Table
from pecli.errors import PecliError
from pecli.explain import catalogue
from pecli.explain.hypothesis import Mistake, Stage
from pecli.explain.planting import Tensors, makings

STAGES = (Stage.PARAMETERS, Stage.FREQUENCIES, Stage.POSITIONS, Stage.FORM)
"""Stages whose mistakes a pass should exclude: arithmetic and storage are what tolerances are for."""

MAX_ROWS = 1 << 20
"""Rows of the longest table that is tried, if the one that was compared does not show a mistake."""

MAX_ELEMENTS = 1 << 22
"""Elements in one row of a longer table, or in all of a longer bias."""

MAX_KEPT = 1 << 17
"""Elements of rows without a mistake that are kept for the next mistake: 1 MiB per length."""

PROBED_ROWS = 16
"""Rows of the second half of a table that are looked at first: they show most mistakes."""

COARSEST_UNIT = 2.0**-7
"""The unit of the last place of bfloat16, relative to a value: no dtype of tables has a larger one."""

FIRST_ROWS = 512
SPREAD_ROWS = 128
"""Rows that are looked at next: the first ones, and some of the rest."""


Places = Callable[[int], Indices]
"""Returns the rows of a head that are looked at, of as many as it has."""


class ExpectedRows(NamedTuple):
    """Rows of tables without a mistake, and their values by the names of tensors."""

    rows: Indices
    values: Mapping[str, Floats]


class Undetected(NamedTuple):
    """A known mistake that compared tables do not show.

    Attributes:
        edits: The mistake.
        length: The number of rows that would show it; None if no number would.
    """

    edits: tuple[Edit, ...]
    length: int | None


def undetected_mistakes(
    scheme: Scheme, names: Sequence[str], tolerance: Tolerance
) -> Iterator[Undetected]:
    """Yield the mistakes of the catalogue with which the tables of a scheme would have passed.

    Those of parameters come first: the base, then the scaling and its numbers.
    """
    compared = Compared(scheme, names, tolerance)
    if not compared.tensors:
        return
    kinds = [kind for kind in catalogue.MISTAKES if kind.stage in STAGES]
    for kind in sorted(kinds, key=lambda kind: (kind.stage, kind.rank)):
        for number, mistake in enumerate(compared.examples(kind)):
            if compared.shows(mistake):
                continue
            longer = compared.longer_tables(kind, number, mistake)
            does_harm = longer.error > 1
            if does_harm:
                yield Undetected(compared.tensors[0].edits(mistake), longer.length)


class LongerTables(NamedTuple):
    """The tables that were tried because those that were compared do not show a mistake.

    Attributes:
        length: The number of rows that shows the mistake; None if no number does.
        error: The largest error that it causes, as a multiple of one that does no harm; infinity if
            it shows.
    """

    length: int | None
    error: float


class Compared:
    """The tables of a scheme that were compared, in which mistakes are planted."""

    def __init__(self, scheme: Scheme, names: Sequence[str], tolerance: Tolerance) -> None:
        self.scheme = scheme
        self.names = names
        self.tolerance = tolerance
        self.tensors = list(makings(scheme, names))
        # Every mistake is planted in the same tables, here and in longer ones.
        self._expected: dict[tuple[Places, int], ExpectedRows] = {}
        self._longer_tables: dict[int, Compared | None] = {}

    def examples(self, kind: type[Mistake]) -> list[Mistake]:
        """Return typical mistakes of a kind: as many, and in the same order, for any length."""
        main = self.tensors[0]
        return list(kind.examples(main.making, main.scheme))

    def shows(self, mistake: Mistake) -> bool:
        """Return True if the comparison would have failed with a mistake."""
        few = self.error(mistake, _last_places)
        return few == math.inf or self.error(mistake, _many_places) == math.inf

    def longer_tables(self, kind: type[Mistake], number: int, mistake: Mistake) -> "LongerTables":
        """Return how long tables must be to show a mistake: the example of a kind with this number."""
        error = self.error(mistake, _many_places)
        for length, longer in self._longer():
            examples = longer.examples(kind)
            if number >= len(examples):
                break  # Longer tables cannot have this mistake.
            error = max(error, longer.error(examples[number], _last_places))
            if error == math.inf:
                return LongerTables(length, error)
        return LongerTables(None, error)

    def error(self, mistake: Mistake, places: Places) -> float:
        """Return the largest error that a mistake causes, as a multiple of one that does no harm.

        Args:
            mistake: A mistake of at least one of the tensors.
            places: Returns the rows to look at, of as many as there are per head.

        Returns:
            The multiple; infinity if the comparison shows the mistake.
        """
        error = 0.0
        for number, tensors in enumerate(self.tensors):
            try:
                wrong = tensors.with_mistake(mistake)
            except TypeError:  # Frequencies have no columns that could be exchanged.
                continue
            expected = self._expected_rows(number, places)
            for name, found in wrong.rows(expected.rows).items():
                error = max(error, self._difference(name, expected.values[name], found))
        return error

    def _expected_rows(self, number: int, places: Places) -> ExpectedRows:
        """Return some rows of the tensors with a number, without any mistake."""
        key = (places, number)
        if key in self._expected:
            return self._expected[key]
        tensors = self.tensors[number]
        rows = _rows(tensors, places)
        expected = ExpectedRows(rows, tensors.rows(rows))
        if sum(values.size for values in expected.values.values()) <= MAX_KEPT:
            self._expected[key] = expected
        return expected

    def _difference(self, name: str, expected: Floats, found: Floats) -> float:
        """Return the difference of two arrays, as a multiple of one that does no harm.

        The largest harmless errors are those that float32 arithmetic makes of frequencies, and those that an audit
        allows for tables.
        """
        if self._is_far_off(name, expected, found):
            return math.inf
        dtype = self.scheme.dtype
        right = round_to(expected, dtype)
        wrong = round_to(found, dtype)
        result = compare_arrays(right, wrong, self.tolerance, name=name)
        if not result.passed:
            return math.inf
        if is_relative(name):
            return (result.max_rel_error or 0.0) / FREQ_RTOL
        return (result.max_abs_error or 0.0) / DRIFT

    def _is_far_off(self, name: str, expected: Floats, found: Floats) -> bool:
        """Return True if arrays differ so much that no comparison is needed to see it."""
        allowed = self.tolerance.for_tensor(name)
        is_number = np.isfinite(expected) & np.isfinite(found)  # Masks are infinite.
        expected = expected[is_number]
        found = found[is_number]
        size = float(np.abs(expected).max(initial=0.0))
        units = (allowed.max_ulp + 1) * COARSEST_UNIT
        limit = allowed.atol + (allowed.rtol + units) * size
        return bool(np.abs(found - expected).max(initial=0.0) > 2 * limit)

    def _longer(self) -> Iterator[tuple[int, "Compared"]]:
        """Yield longer and longer tables, with their lengths, until they are too large to be made.

        Nothing is yielded for frequencies and slopes: they have no rows, and are the same for any length.
        """
        scheme = self.scheme
        if scheme.value_of("positions") is not None:
            scheme = _at_consecutive_positions(scheme)
        length = scheme.value_of("seq_len") or 0
        has_rows = any(tensors.making.rows > 1 or length == 1 for tensors in self.tensors)
        if not length or not has_rows:
            return
        while 2 * length <= MAX_ROWS:
            length *= 2
            if length not in self._longer_tables:
                self._longer_tables[length] = self._with_length(scheme, length)
            longer = self._longer_tables[length]
            if longer is None:
                return
            yield length, longer

    def _with_length(self, scheme: Scheme, length: int) -> "Compared | None":
        """Return the tables of a scheme with so many rows; None if they are too large or none."""
        longer = _with_length(scheme, length)
        if longer is None or not all(map(_is_affordable, longer.tensors())):
            return None
        return Compared(longer, self.names, self.tolerance)


def _at_consecutive_positions(scheme: Scheme) -> Scheme:
    """Return a scheme with two rows from 0 on instead of positions that were given."""
    rows: NamedValues = {"positions": None, "seq_len": 2}
    with suppress(PecliError):  # Some options need the positions that are given.
        return replace(scheme, **rows)
    return scheme


def _with_length(scheme: Scheme, length: int) -> Scheme | None:
    """Return a scheme with so many rows; None if it cannot have them, as a scaling may end before."""
    rows: NamedValues = {"seq_len": length}
    try:
        return replace(scheme, **rows)
    except PecliError:
        return None


def _is_affordable(table: Table) -> bool:
    if len(table.shape) < 2:
        return True
    if len(table.shape) > 2:
        return table.size <= MAX_ELEMENTS  # The distances of all queries and keys are kept.
    return table.size // table.shape[-2] <= MAX_ELEMENTS


def _rows(tensors: Tensors, places: Places) -> Indices:
    """Return some rows of each head: heads lie below each other."""
    shape = named_tensors(tensors.scheme)[tensors.names[0]].shape
    count = shape[-2] if len(shape) > 1 else tensors.making.rows
    starts = np.arange(0, tensors.making.rows, count)
    return (starts[:, None] + places(count)).reshape(-1)


def _last_places(count: int) -> Indices:
    """Return a few rows of the second half, which show most mistakes."""
    return np.unique(np.linspace(count // 2, count - 1, PROBED_ROWS).astype(np.intp))


def _many_places(count: int) -> Indices:
    """Return the first rows, and some of the rest, ever further apart."""
    first = np.arange(min(count, FIRST_ROWS))
    rest = np.geomspace(min(count, FIRST_ROWS), count, SPREAD_ROWS).astype(np.intp) - 1
    return np.unique(np.concatenate([first, rest]))
