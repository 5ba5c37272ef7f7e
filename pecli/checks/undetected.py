"""Mistakes of the catalogue, planted in the expected tables: those with which they would pass as well."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pecli.compare.comparison import Comparison, are_far_apart, compare_arrays
from pecli.compare.tolerance import DRIFT, FREQ_RTOL, Tolerance, is_relative
from pecli.engine.arrays import Floats, Indices, round_to
from pecli.engine.edits import Edit
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.table import Table
from pecli.errors import PecliError
from pecli.explain import catalogue
from pecli.explain.hypothesis import Mistake, Stage
from pecli.explain.planting import Tensors, tensors_made_together

STAGES = (Stage.PARAMETERS, Stage.FREQUENCIES, Stage.POSITIONS, Stage.FORM)
"""Stages whose mistakes a pass should exclude: arithmetic and storage are what tolerances are for."""

MAX_ROWS = 1 << 20
"""Rows of the longest table that is tried, if the one that was compared does not show a mistake."""

MAX_TABLE_ELEMENTS = 1 << 22
"""Elements in one row of a longer table, or in all of a longer bias."""

MAX_REMEMBERED = 64
"""Schemes whose undetected mistakes are remembered; each answer takes a few KiB."""

MAX_KEPT = 1 << 17
"""Elements of rows without a mistake that are kept for the next mistake: 1 MiB per length."""

HARMLESS = 1.0
"""The largest error that does no harm; errors are multiples of it."""

DETECTED = math.inf
"""The error that stands for a mistake with which the comparison would fail, however large it is."""

PROBED_ROWS = 16
"""Rows of the second half of a table that are looked at first: they show most mistakes."""

FIRST_ROWS = 512
SPREAD_ROWS = 128
"""Rows that are looked at next: the first ones, and some of the rest."""


Probe = Callable[[int], Indices]
"""A function that chooses rows of a table to look at for a mistake, of as many as a head has."""


class RightRows(NamedTuple):
    """Rows of tables without a mistake, and their values by the names of tensors."""

    rows: Indices
    values: Mapping[str, Floats]

    @classmethod
    def compute(cls, tensors: Tensors, probe: Probe) -> "RightRows":
        """Return the rows of tables that a probe looks at."""
        rows = _choose_rows_of_all_heads(tensors, probe)
        return cls(rows, tensors.rows(rows))

    @property
    def element_count(self) -> int:
        return sum(values.size for values in self.values.values())


class Undetected(NamedTuple):
    """A known mistake that compared tables do not show.

    Attributes:
        edits: The mistake.
        length: The number of rows that would show it; None if no number would.
    """

    edits: tuple[Edit, ...]
    length: int | None


@lru_cache(maxsize=MAX_REMEMBERED)
def find_undetected_mistakes(
    scheme: Scheme, names: tuple[str, ...], tolerance: Tolerance
) -> tuple[Undetected, ...]:
    """Return the known mistakes that a comparison with a scheme's tables would not have noticed.

    Two rows look nearly the same with llama3 scaling and without it: that they passed does not prove
    that the scaling is right. Every known mistake is planted in the expected tables, and these are
    compared with the right ones.

    The answer depends on no file. It is remembered, since the files that one process checks are often
    of the same model.

    Args:
        scheme: The expected scheme.
        names: Its tables that were compared and passed.
        tolerance: The errors that passed.
    """
    compared = Compared(scheme=scheme, names=names, tolerance=tolerance)
    if not compared.tensors:
        return ()
    kinds = [kind for kind in catalogue.MISTAKES if kind.stage in STAGES]
    undetected: list[Undetected] = []
    # Wrong parameters come first: the base, then the scaling and its numbers.
    for kind in sorted(kinds, key=lambda kind: (kind.stage, kind.rank)):
        undetected += compared.find_undetected(kind)
    return tuple(undetected)


class Compared:
    """The tables of a scheme that were compared, in which mistakes are planted."""

    def __init__(self, scheme: Scheme, names: Sequence[str], tolerance: Tolerance) -> None:
        """Prepare to plant mistakes in tables of a scheme, such as its `cos` and `sin`."""
        self.scheme = scheme
        self.names = names
        self.tolerance = tolerance
        self.tensors = list(tensors_made_together(scheme, names))
        # Every mistake is planted in the same tables, here and in longer ones.
        self._expected: dict[tuple[Probe, int], RightRows] = {}

    def examples(self, kind: type[Mistake]) -> list[Mistake]:
        """Return typical mistakes of a kind: as many, and in the same order, for any length."""
        main = self.tensors[0]
        return list(kind.examples(main.computation, main.scheme))

    def find_undetected(self, kind: type[Mistake]) -> Iterator[Undetected]:
        """Yield the mistakes of a kind, such as a wrong base, that the comparison would not have noticed.

        A mistake that makes hardly any difference, even in longer tables, is harmless and left out.
        """
        for example_index, mistake in enumerate(self.examples(kind)):
            if not self.detects(mistake):
                undetected = self._find_length_that_shows(kind, example_index, mistake)
                if undetected is not None:
                    yield undetected

    def detects(self, mistake: Mistake) -> bool:
        """Return True if the comparison would have failed with a mistake."""
        # A few rows show most mistakes, and take less time than many.
        return any(
            self.measure_largest_harm(mistake, probe) == DETECTED
            for probe in (_choose_last_rows, _choose_many_rows)
        )

    def _find_length_that_shows(
        self, kind: type[Mistake], example_index: int, mistake: Mistake
    ) -> Undetected | None:
        """Return an undetected mistake, with the number of rows of a table that would show it.

        The mistake is planted in tables of 2, 4, 8, … times as many rows, until a comparison fails. If
        none fails, the number is None. A mistake that hardly changes any of the tables is harmless:
        the result is None.

        Args:
            kind: The kind of the mistake, such as rows that are shifted.
            example_index: The index of the mistake among the examples of its kind. Longer tables have
                examples in the same order: one of 4,000 rows may be shifted by more rows than one of 2.
            mistake: The mistake, as an example for the tables that were compared.
        """
        main = self.tensors[0]  # describes the mistake by its effect on the compared tables
        largest_harm = self.measure_largest_harm(mistake, _choose_many_rows)
        for length, longer in self.longer_tables:
            examples = longer.examples(kind)
            if example_index >= len(examples):
                break  # Longer tables cannot have this mistake.
            # Many rows from the first on were examined above. In longer tables, errors are largest
            # at the end.
            harm = longer.measure_largest_harm(examples[example_index], _choose_last_rows)
            would_fail = harm == DETECTED
            if would_fail:
                return Undetected(main.edits(mistake), length)
            largest_harm = max(largest_harm, harm)
        if largest_harm > HARMLESS:
            return Undetected(main.edits(mistake), length=None)
        return None

    def measure_largest_harm(self, mistake: Mistake, probe: Probe) -> float:
        """Return the largest error of tables with a mistake, as a multiple of a harmless error.

        For cosines that are off by 0.0005, it is 0.5, since 0.001 is harmless. If a comparison of the
        wrong tables would fail, it is DETECTED, which is infinity.

        Args:
            mistake: A mistake of at least one of the tables.
            probe: Chooses the rows to look at.
        """
        largest = 0.0
        for number, right_tables in enumerate(self.tensors):
            try:
                wrong_tables = right_tables.with_mistake(mistake)
            except TypeError:  # Frequencies have no columns that could be exchanged.
                continue
            right = self._compute_right_rows(number, probe)
            for name, wrong_rows in wrong_tables.rows(right.rows).items():
                harm = self._measure_harm(name, right.values[name], wrong_rows)
                largest = max(largest, harm)
        return largest

    def _compute_right_rows(self, number: int, probe: Probe) -> RightRows:
        """Return some rows of the right tables, which every mistake is compared with.

        They are kept, unless they are large: a search plants a hundred mistakes in the same tables.

        Args:
            number: The index of the tables in `self.tensors`.
            probe: Chooses the rows to look at.
        """
        key = (probe, number)
        if key in self._expected:
            return self._expected[key]
        expected = RightRows.compute(self.tensors[number], probe)
        if expected.element_count <= MAX_KEPT:
            self._expected[key] = expected
        return expected

    def _measure_harm(self, name: str, right: Floats, wrong: Floats) -> float:
        """Return the difference of a right and a wrong table, as a multiple of one that does no harm.

        Returns:
            The multiple: 2.5 for cosines that differ by 0.0025, since 0.001 does no harm. DETECTED
            if the comparison would fail with the wrong table.
        """
        tolerance = self.tolerance.for_tensor(name)
        if are_far_apart(right, wrong, tolerance):  # This detects most mistakes at once.
            return DETECTED
        dtype = self.scheme.dtype
        result = compare_arrays(
            round_to(right, dtype), round_to(wrong, dtype), self.tolerance, name=name
        )
        return _divide_by_harmless_error(result) if result.passed else DETECTED

    @cached_property
    def longer_tables(self) -> list[tuple[int, "Compared"]]:
        """Pairs of a number of rows and the tables of the same scheme with so many rows.

        The numbers are 2, 4, 8, … times the number of rows that were compared: 4, 8, 16, … for 2 rows.
        They end before a table is too large, or impossible, as a scaling may end at the longest context
        of its model. Nothing of a table is computed before its rows are read.
        """
        scheme = self._find_growing_scheme()
        if scheme is None:
            return []
        tables = []
        length = 2 * scheme.value_of("seq_len")
        with suppress(PecliError):
            while length <= MAX_ROWS:
                rows: NamedValues = {"seq_len": length}
                longer = replace(scheme, **rows)
                if not all(map(_is_affordable, longer.tensors())):
                    break
                compared = Compared(scheme=longer, names=self.names, tolerance=self.tolerance)
                tables.append((length, compared))
                length *= 2
        return tables

    def _find_growing_scheme(self) -> Scheme | None:
        """Return the scheme with the positions 0, 1, 2, …, so that its tables may have more rows.

        None if more rows are impossible: frequencies and slopes have no rows for positions, and those
        of a grid are not consecutive.
        """
        scheme = self.scheme
        are_positions_listed = scheme.value_of("positions") is not None
        if are_positions_listed:
            scheme = _place_consecutively(scheme)  # A list such as 5, 900 cannot be continued.
        if scheme.is_range and self._has_row_per_position(scheme.value_of("seq_len")):
            return scheme
        return None

    def _has_row_per_position(self, length: int | None) -> bool:
        """Return True if some table has a row per position, so that a longer one has more rows.

        Vectors such as `inv_freq` (64,) count as tables of one row, whatever the length of the scheme
        is. So several rows are those of positions, and so may be one row if the length is 1.

        Args:
            length: The number of positions of the scheme; None if it has none, as for slopes.
        """
        has_several_rows = any(tensors.computation.rows > 1 for tensors in self.tensors)
        return length is not None and (length == 1 or has_several_rows)


def _divide_by_harmless_error(result: Comparison) -> float:
    """Return the largest error of a comparison as a multiple of one that does no harm.

    Frequencies may have relative errors of 1e-5, as float32 arithmetic makes them. All other tables
    may have absolute errors of 1e-3, as an audit allows them.
    """
    if is_relative(result.name):
        return (result.max_rel_error or 0.0) / FREQ_RTOL
    return result.largest_error / DRIFT


def _place_consecutively(scheme: Scheme) -> Scheme:
    """Return a scheme with two rows from 0 on instead of positions that were given."""
    rows: NamedValues = {"positions": None, "seq_len": 2}
    with suppress(PecliError):  # Some options need the positions that are given.
        return replace(scheme, **rows)
    return scheme


def _is_affordable(table: Table) -> bool:
    """Return True if rows of a table, or all of a bias (heads, L, L), are not too large to be made."""
    if len(table.shape) == 2:
        return table.shape[-1] <= MAX_TABLE_ELEMENTS
    return table.size <= MAX_TABLE_ELEMENTS  # The distances of all queries and keys are kept.


def _choose_rows_of_all_heads(tensors: Tensors, probe: Probe) -> Indices:
    """Return some rows of each head of a bias (heads, L, L), whose heads lie below each other."""
    shape = named_tensors(tensors.scheme)[tensors.names[0]].shape
    count = shape[-2] if len(shape) > 1 else tensors.computation.rows
    starts = np.arange(0, tensors.computation.rows, count)
    return (starts[:, None] + probe(count)).reshape(-1)


def _choose_last_rows(count: int) -> Indices:
    """Return a few rows of the second half, which show most mistakes."""
    return np.unique(np.linspace(count // 2, count - 1, PROBED_ROWS).astype(np.intp))


def _choose_many_rows(count: int) -> Indices:
    """Return the first rows, and some of the rest, ever further apart."""
    first = np.arange(min(count, FIRST_ROWS))
    rest = np.geomspace(min(count, FIRST_ROWS), count, SPREAD_ROWS).astype(np.intp) - 1
    return np.unique(np.concatenate([first, rest]))
