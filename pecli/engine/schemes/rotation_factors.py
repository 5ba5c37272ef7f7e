"""Complex factors that rotate pairs of channels, cached for layers and tensors."""

from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pecli.engine.arrays import AnyArray, Complex
from pecli.engine.numerics import phases
from pecli.engine.schemes.rope import Rope, rows_are_listed

Positions = range | NDArray[np.int64]

MAX_CACHED_BYTES = 1 << 27
"""Bytes of factors that are kept; factors of more positions are computed again for every block."""
ALWAYS_CACHED_BYTES = 1 << 24
"""Bytes up to which factors are kept, however few of them are needed."""
MAX_PRECOMPUTED_BYTES = 1 << 30
"""Bytes of the largest table that is computed because a layer has a limit on positions."""
_RUN = 256
"""Positions in a row whose factors are products of two: of the first one of the run, and of a
distance.
"""
_GROWTH = Lock()
"""Guards the caches. It belongs to the module, so that layers can be copied and pickled."""


def _span_of(positions: Positions) -> range:
    """Return the range from the least position to the largest: 2 … 7 for 5, 2 and 7."""
    if isinstance(positions, range):
        return positions
    return range(int(positions.min()), int(positions.max()) + 1)


class _CachedTable(NamedTuple):
    """The factors (n, d/2) of the positions first, first + 1, …, first + n − 1."""

    first: int
    factors: AnyArray

    def covers(self, span: range) -> bool:
        """Return True if the table has the factors of all positions of a range."""
        end = self.first + len(self.factors)
        return self.first <= span.start <= span.stop <= end

    def rows_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the table that positions have: row 2 for position first + 2."""
        return positions - self.first


class RotationFactors:
    """The factors of a rotary scheme at any positions, in a cache that threads can share.

    For amplitude 1 they are within 0.6·2^−53 of the true value. Unless they have to be `exact`,
    factors of neighbouring positions are products of two such, within 4·2^−53. If positions are
    listed, or a recipe or runtime computes them, the factors are the numbers of the tables.

    Args:
        rope: the scheme.
        dtype: the precision of the factors, float64 or float32.
        exact: compute every factor from its own angle, never as a product of two.
        inverse: return factors that undo the rotation, its amplitude included.
        limit: positions stay below this; the first call computes the factors of all of them.
    """

    def __init__(
        self,
        rope: Rope,
        dtype: str = "float64",
        *,
        exact: bool = False,
        inverse: bool = False,
        limit: int = 0,
    ) -> None:
        """Prepare an empty cache; nothing is computed before the first call."""
        self.rope = rope
        self._exact = exact
        self._inverse = inverse
        self._dtype = np.dtype(np.complex128 if dtype == "float64" else np.complex64)
        self._pairs = rope.rotary_dim // 2
        self._rotating_pairs = rope.rotating_pairs  # The first so many pairs rotate.
        self._row_bytes = self._pairs * self._dtype.itemsize

        # The cache is one table, with a row of factors per position: from position 0 on, and no
        # rows at first.
        no_factors = np.empty((0, self._pairs), self._dtype)
        self._table = _CachedTable(first=0, factors=no_factors)
        # It grows with the positions that are needed, up to a largest size. With a limit, it gets
        # all rows up to that at once, unless they are too many.
        can_be_precomputed = limit * self._row_bytes <= MAX_PRECOMPUTED_BYTES
        self._limit = limit if can_be_precomputed else 0
        # `reserve` sets this to False if it announces more positions than are worth their memory.
        self._may_grow = True

    def at(self, positions: Positions) -> AnyArray:
        """Return the factors (n, d/2) of n positions: a range, (n,), or (n, axes).

        They are rows of the cached table. If it does not cover all positions, because it would be
        too large, they are computed.
        """
        span = _span_of(positions)
        table = self._table_grown_for(span, len(positions))
        if not table.covers(span):
            return self._factors_without_cache(positions)
        if isinstance(positions, range):
            return table.factors[span.start - table.first : span.stop - table.first]
        if positions.ndim == 1:
            return table.factors[table.rows_of(positions)]
        # Each pair of channels follows one axis, such as the row or the column of an image. So the
        # factor of pair i is in column i of the table, in the row of the position on that axis.
        position_of_pair = positions[:, self.rope.pair_axes]  # (n, d/2)
        columns = np.arange(self._pairs)  # (d/2,)
        return table.factors[table.rows_of(position_of_pair), columns]

    def reserve(self, low: int, high: int) -> None:
        """Compute the factors of a range now, or in every call if they are too many to keep."""
        span = range(low, high)
        self._may_grow = (high - low) * self._row_bytes <= MAX_CACHED_BYTES
        with _GROWTH:
            if self._may_grow and not self._table.covers(span):
                self._keep_table_of(span)

    def _table_grown_for(self, span: range, count: int) -> _CachedTable:
        """Return the cached table of factors, which grows first if it lacks some of the positions.

        It does not grow if it would be too large; the caller checks whether it has all positions.

        Args:
            span: The range of the positions that are needed.
            count: How many positions are needed, perhaps only a few of the range.
        """
        with _GROWTH:
            is_missing = not self._table.covers(span)
            if is_missing and self._may_grow and span.stop <= self._largest_end(count):
                self._keep_table_of(range(self._end_of_next_table(span.stop)))
            return self._table

    def _largest_end(self, count: int) -> int:
        """Return the end of the largest table that is kept for a call with so many positions.

        A table is not computed up to a distant position for the sake of a few: it may have four
        times as many rows as are needed, twice as many as before, or ALWAYS_CACHED_BYTES. With 64
        pairs in complex128, a row has 1 KiB: 16,384 rows are always kept, and 131,072 at most.
        """
        most_rows = MAX_CACHED_BYTES // self._row_bytes
        always_kept_rows = ALWAYS_CACHED_BYTES // self._row_bytes
        worthwhile_rows = max(always_kept_rows, 2 * len(self.kept), 4 * count)
        return max(min(most_rows, worthwhile_rows), self._limit)

    def _end_of_next_table(self, high: int) -> int:
        """Return the position after the last one of a larger table that has all below `high`.

        It is the limit if there is one. Otherwise tables double, so that a text that grows token by
        token needs few of them: 100 rows are followed by 200, although only 101 are needed.
        """
        if high <= self._limit:
            return self._limit
        most_rows = MAX_CACHED_BYTES // self._row_bytes
        return max(high, min(most_rows, 2 * len(self.kept)))

    @property
    def kept(self) -> AnyArray:
        """The factors that are kept, a row per position; empty before the first call."""
        return self._table.factors

    def _keep_table_of(self, span: range) -> None:
        """Replace the kept table by that of a range of positions."""
        factors = self._factors_without_cache(span)
        factors.flags.writeable = False
        self._table = _CachedTable(span.start, factors)

    def _factors_without_cache(self, positions: Positions) -> AnyArray:
        """Return the factors of positions, or those that undo the rotation, without the cache.

        Factors from tables (see `_rotating_factors`) have rounded lengths, and are inverted by division.
        """
        are_listed = rows_are_listed(self.rope)
        factors = self._rotating_factors(positions, are_listed=are_listed)
        if self._inverse and are_listed:
            factors = 1 / factors
        elif self._inverse:
            self._invert_in_place(factors)
        return factors.astype(self._dtype, copy=False)

    def _invert_in_place(self, factors: Complex) -> None:
        """Replace factors a·e^(iφ) by their inverses a·e^(−iφ)/a², which undo the rotation.

        Pairs that do not rotate have the factor 1, without the amplitude a.
        """
        amplitude = self.rope.attention_factor_value()
        np.conjugate(factors, out=factors)
        factors[:, : self._rotating_pairs] /= amplitude**2

    def _rotating_factors(self, positions: Positions, *, are_listed: bool) -> Complex:
        """Return the factors a · (cos + i·sin) that rotate pairs; a is the attention factor.

        Those of a range are products of two factors, which is fast, and has a slightly larger error
        than if they had to be exact. Those of scattered positions are computed one by one.

        Args:
            positions: A range, (n,), or (n, axes).
            are_listed: True if the scheme has a list of positions or a grid, or a recipe rounds. Then
                the factors are the numbers of its tables; of a list or a grid, `positions` are rows.
        """
        if are_listed or (self._exact and isinstance(positions, range)):
            return self.rope.factors(positions)
        if isinstance(positions, range):
            factors = self._factors_of_range(positions)
        else:
            factors = self._unit_factors(positions)
        factors[:, : self._rotating_pairs] *= self.rope.attention_factor_value()
        return factors

    @cached_property
    def _frequency_digits(self) -> AnyArray:
        return np.ascontiguousarray(self.rope.waves().digits[:, None, :])

    @cached_property
    def _within_run(self) -> Complex:
        """The factors (_RUN, d/2) of the distances 0, 1, … from the start of a run."""
        return self._unit_factors(np.arange(_RUN))

    def _factors_of_range(self, positions: range) -> Complex:
        """Return the factors of a range, in runs that begin at multiples of _RUN, 256.

        The factor of position 1000 is that of 768, where its run begins, times that of the distance
        232. So it is the same whatever the range is.
        """
        out = np.empty((len(positions), self._pairs), np.complex128)
        first = positions.start
        start_of_first_run = first - first % _RUN
        run_starts = range(start_of_first_run, positions.stop, _RUN)
        start_factors = self._unit_factors(np.array(run_starts))  # (runs, d/2)
        for start_factor, run_start in zip(start_factors, run_starts, strict=True):
            # The first run may begin before the range, and the last one end after it.
            begin = max(run_start, first)
            end = min(run_start + _RUN, positions.stop)
            distance_factors = self._within_run[begin - run_start : end - run_start]  # (n, d/2)
            np.multiply(start_factor, distance_factors, out=out[begin - first : end - first])
        return out

    def _unit_factors(self, positions: NDArray[np.int64]) -> Complex:
        """Return the factors cos + i·sin of position · frequency, (n, d/2), without the amplitude.

        Pairs that do not rotate, which come last, have the factor 1. Angles are computed without
        error: frequencies are integers, fractions of a turn as digits in base 2^32.

        Args:
            positions: (n,), or (n, axes) if positions have several axes, of which each pair follows
                one. They are not negative.
        """
        # Unsigned, as the digits by which positions are multiplied.
        positions_of_pairs = self._positions_of_rotating_pairs(positions).astype(np.uint64)
        factors = np.ones((len(positions), self._pairs), np.complex128)
        factors[:, : self._rotating_pairs] = phases.directions(
            self._frequency_digits, positions_of_pairs
        )
        return factors

    def _positions_of_rotating_pairs(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions with a column per rotating pair, or one column for all pairs: (n, 1).

        If the pairs follow the axes 0 0 1, the position (3, 5) has the columns 3 3 5.
        """
        if positions.ndim == 1:
            return positions[:, None]
        axis_of_rotating_pair = self.rope.pair_axes[: self._rotating_pairs]
        return positions[:, axis_of_rotating_pair]

    def shift(self, places: int) -> Complex:
        """Return the factors (1, d/2) that move rotated rows by so many positions.

        Rows of position 5 times the factors for 3 places are those of position 8. A negative number
        of places moves them back. The amplitude is in the rows already.
        """
        forward = self._unit_factors(np.array([abs(places)]))
        return forward if places >= 0 else forward.conj()
