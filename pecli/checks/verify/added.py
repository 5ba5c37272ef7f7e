"""Inputs compared with those before rows of a table were added."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.diagnosis import diagnosis
from pecli.checks.printed import printed_tolerance
from pecli.checks.verification import Verification
from pecli.checks.verify.tensor_pairs import TensorPair, tensor_pairs
from pecli.compare.comparison import Comparison, compare_arrays, problems_of
from pecli.compare.problems import NotFinite, PaddingNotFinite, Problem
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import (
    Array,
    Flags,
    Floats,
    Indices,
    as_dtype,
    dtype_name,
    numbers,
    widened,
)
from pecli.engine.edits import Edit, Rotation
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError, bracketed
from pecli.explain import search
from pecli.explain.array_making import ArrayMaking, ArrayObservations, array_case
from pecli.explain.array_transforms import Sides, factor_edits, plain_factor
from pecli.explain.explanation import Explanation, merged
from pecli.explain.hypotheses import explain_cases
from pecli.explain.misplacements import find_position_mistake, positions_edit
from pecli.explain.storage import half_ulp
from pecli.explain.wave_tables import wave_table
from pecli.files.load import Given
from pecli.tensors.inputs import Input
from pecli.tensors.row_positions import RowPositions, row_positions

BLOCK_ELEMENTS = 1 << 22  #: distances between rows and table that are in memory at once
ROUNDINGS = 4  #: roundings of a sum: of the inputs, the row, the sum and its storage
TOKEN_OPTIONS = {"positions", "attention_mask", "offset"}


class _Sums(NamedTuple):
    """Inputs to which rows of a table should have been added.

    Attributes:
        pair: The inputs before and after.
        places: The rows that should be added, (batch, L) or (1, L).
        seen: False for padding, of the same shape.
        expected: The sums, in float64, (batch, L, D); padding as it is.
    """

    pair: TensorPair
    places: Indices
    seen: Flags
    expected: Floats


def verify_added(
    after: Given,
    table: "Scheme | Array",
    tolerance: Tolerance,
    reasons: bool,
    *,
    before: Given,
    **tokens: Any,
) -> Verification:
    """Compare inputs with those before plus rows of a scheme's table, or of a learned one.

    Args:
        after: Inputs with rows added, (L, D) or (batch, L, D).
        table: A scheme whose rows are added, or weights (rows, D).
        tolerance: The errors that pass.
        reasons: Whether reasons for failures are searched for.
        before: Inputs without them.
        tokens: `positions`, an `attention_mask` or an `offset`.
    """
    for name in tokens.keys() - TOKEN_OPTIONS:
        rule = "inputs have positions, an offset or an attention_mask"
        raise KindError(name, "given", rule, "leave it out")
    weight = _weight(table)
    rows = row_positions(**tokens)
    matched = tensor_pairs(after, before)
    tolerance = printed_tolerance(matched.label, tolerance, matched.rounding)
    results: list[Comparison] = []
    explanations: list[Explanation] = []
    for pair in matched.pairs:
        sums = _sums(pair, weight, rows)
        expected = as_dtype(sums.expected.reshape(pair.after.shape), pair.dtype)
        result = compare_arrays(expected, pair.after, tolerance, name=pair.name)
        results.append(result)
        strange = _strange_values(sums, result)
        if strange is not None:
            result.finding = strange
        elif reasons and not result.passed:
            explanations += _explained(table, sums, weight, tolerance.atol)
    lines = [line.text for line in diagnosis(explanations, results, tolerance)]
    return Verification(
        matched.label,
        table.name if isinstance(table, Scheme) else "learned table",
        tuple(results),
        problems_of(results),
        tuple(lines),
        explanations=tuple(explanations),
        unchecked=matched.unmatched,
    )


def _strange_values(sums: _Sums, result: Comparison) -> Problem | None:
    """Return a problem if infinities or NaN are expected, or came into padding, which is not compared."""
    count = _not_finite(sums)
    if count:
        return NotFinite(count, "of the sums")
    count = _strange_padding(sums)
    if count and not result.mismatched:
        return PaddingNotFinite(count)
    return None


def _explained(
    table: "Scheme | Array", sums: _Sums, weight: Floats, atol: float
) -> list[Explanation]:
    """Return why inputs are wrong: other rows of the table were added, or rows of another table."""
    other_rows = [*_rows_added(sums, weight, atol)]
    if other_rows or not isinstance(table, Scheme):
        return other_rows
    return merged(_table_added(table, sums, atol))


def _weight(table: object) -> Floats:
    """Return the rows of a scheme, or of a learned table, in float64."""
    values = table.single_array().array() if isinstance(table, Scheme) else table
    array = numbers("table", values)
    if array.dtype.kind == "c":
        given = f"of dtype {dtype_name(array.dtype)}"
        raise ParameterError("table", given, "rows that are added are real")
    return np.asarray(widened(array))


def _check_shapes(weight: Floats, pair: TensorPair) -> None:
    shape = pair.after.shape
    if weight.ndim == 2 and weight.shape[1] == shape[-1] and len(shape) <= 3:
        return
    rule = f"{pair.label} is of shape {bracketed(shape)}"
    advice = "they must be (rows, D) and (L, D) or (batch, L, D)"
    raise ParameterError("table", f"of shape {bracketed(weight.shape)}", rule, advice)


def _sums(pair: TensorPair, weight: Floats, rows: RowPositions) -> _Sums:
    """Return the sums of inputs and the rows of a table at the positions of their tokens.

    Raises:
        ParameterError: If shapes do not belong together, or the table is too short.
    """
    if not pair.has_equal_shapes or pair.after.ndim < 2:
        raise pair.unlike_shapes()
    _check_shapes(weight, pair)
    (places,), seen = rows.places(Input(pair.after, pair.label), -2)
    last = int(places.max(initial=0))
    if last >= len(weight):
        given = f"of {len(weight):,} rows"
        raise ParameterError("table", given, f"row {last:,} is needed", "give a longer one")
    added = widened(pair.before) + weight[places]
    expected = np.where(seen[..., None], added, pair.after)
    return _Sums(pair, places, seen, expected)


def _not_finite(sums: _Sums) -> int:
    """Return how many of the expected sums are not finite, padding apart."""
    strange = ~np.isfinite(sums.expected)
    return int(np.count_nonzero(strange[np.broadcast_to(sums.seen, strange.shape[:-1])]))


def _strange_padding(sums: _Sums) -> int:
    """Return how many values of padding are finite before, and infinite or not numbers after."""
    before = widened(sums.pair.before).reshape(sums.expected.shape)
    after = widened(sums.pair.after).reshape(sums.expected.shape)
    is_new = np.isfinite(before) & ~np.isfinite(after)
    return int(np.count_nonzero(is_new[~np.broadcast_to(sums.seen, is_new.shape[:-1])]))


class _Sequence(NamedTuple):
    """One sequence of inputs, (L, D) each.

    Attributes:
        name: The name of the sequence in results.
        before: The inputs without rows of the table.
        after: The inputs with them.
        places: The rows that should be added.
        seen: False for padding.
    """

    name: str
    before: Floats
    after: Floats
    places: Indices
    seen: Flags

    @property
    def added(self) -> Floats:
        """The differences that the addition made, 0 in padding."""
        return np.where(self.seen[:, None], self.after - self.before, 0.0)


def _sequences(sums: _Sums) -> Iterator[_Sequence]:
    pair = sums.pair
    before = widened(pair.before).reshape(-1, *pair.before.shape[-2:])
    after = widened(pair.after).reshape(-1, *pair.after.shape[-2:])
    for number, (x, y) in enumerate(zip(before, after, strict=True)):
        name = f"sequence {number}" if len(after) > 1 else "after"
        places = sums.places[min(number, len(sums.places) - 1)]
        seen = sums.seen[min(number, len(sums.seen) - 1)]
        yield _Sequence(name, x, y, places, seen)


def _rows_added(sums: _Sums, weight: Floats, atol: float) -> Iterator[Explanation]:
    """Yield the rows of the table that were added to each sequence, if they are not the expected ones."""
    for sequence in _sequences(sums):
        observed = ArrayObservations({sequence.name: as_dtype(sequence.after, sums.pair.dtype)})
        for proposal in _proposals(sequence, weight):
            # Padding is not compared.
            made = np.where(sequence.seen[:, None], sequence.before + proposal.rows, sequence.after)
            making = ArrayMaking((made,), is_computed=True)
            found = explain_cases([array_case(making, observed, proposal.edits)], atol, most=0)
            if found:
                yield found[0].renamed(proposal.tensors)
                break


class _Proposal(NamedTuple):
    """Rows that may have been added instead of the expected ones, and where the mistake is."""

    edits: tuple[Edit, ...]
    rows: Floats
    tensors: tuple[str, ...]


def _proposals(sequence: _Sequence, weight: Floats) -> Iterator[_Proposal]:
    """Yield no rows at all, the expected ones times a factor, and other rows of the table."""
    added = sequence.added
    expected = np.where(sequence.seen[:, None], weight[sequence.places], 0.0)
    if not added.any() and expected.any():
        yield _Proposal((Rotation("none added"),), added, (sequence.name,))
        return
    factor = plain_factor(Sides(expected, added))
    if factor is not None:
        names = ("table", sequence.name) if sequence.name != "after" else ("table",)
        yield _Proposal(factor_edits(factor), factor * expected, names)
    with np.errstate(invalid="ignore"):  # Values may be infinite.
        used = np.where(sequence.seen, _nearest_rows(added, weight), sequence.places)
    if (used != sequence.places).any():
        first = int(sequence.seen.argmax())
        mistake = find_position_mistake(sequence.places, used, first, rotated=False)
        edits = (positions_edit(sequence.places, used, mistake),)
        yield _Proposal(edits, weight[used], (sequence.name,))


def _nearest_rows(added: Floats, weight: Floats) -> Indices:
    """Return the row of the table that is nearest to each of the rows that were added."""
    sizes = (weight**2).sum(axis=1)
    step = max(1, BLOCK_ELEMENTS // len(weight))
    nearest: list[Indices] = [np.empty(0, np.intp)]
    for start in range(0, len(added), step):
        # |a - w|² is |a|² - 2 a·w + |w|², and |a|² is the same for all rows w.
        distances = sizes - 2 * added[start : start + step] @ weight.T
        nearest.append(distances.argmin(axis=1))
    return np.concatenate(nearest)


def _table_added(scheme: Scheme, sums: _Sums, atol: float) -> Iterator[Explanation]:
    """Explain the differences of each sequence as a table, if its rows follow each other.

    after − before is the table that was added, up to the rounding of the sums: in bfloat16, inputs
    of 8 leave errors of up to 1/32 in a table of sines.
    """
    are_consecutive = sums.seen.all() and (np.diff(sums.places) == 1).all()
    if wave_table(scheme) is None or not are_consecutive:
        return
    pair = sums.pair
    after = widened(pair.after)
    tables = (after - widened(pair.before)).reshape(-1, *after.shape[-2:])
    largest = np.abs(after).max(keepdims=True).reshape(1)
    rounding = ROUNDINGS * float(half_ulp(largest, pair.dtype)[0])
    limit = max(atol, rounding)
    for number, table in enumerate(tables):
        first = int(sums.places[min(number, len(sums.places) - 1), 0])
        offset = scheme.value_of("offset", 0) + first
        rows: NamedValues = {"seq_len": len(table), "offset": offset}
        expected = replace(scheme, **rows)
        name = f"sequence {number}" if len(tables) > 1 else "after"
        for reason in search.explain(expected, {expected.single_array().name: table}, limit):
            if reason.mistakes:
                yield reason.made_by(None).renamed([name])
