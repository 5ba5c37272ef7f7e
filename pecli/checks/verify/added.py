"""Inputs compared with those before rows of a table were added, as GPT-2 adds `wpe` to its tokens."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.diagnosis import diagnose
from pecli.checks.printed import widen_for_printed
from pecli.checks.verification import Verification
from pecli.checks.verify.table_settings import refuse_options
from pecli.checks.verify.tensor_pairs import TensorPair, pair_tensors
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
from pecli.errors import ParameterError, bracketed
from pecli.explain import search
from pecli.explain.array_computation import ArrayComputation, ArrayObservations, case_of_arrays
from pecli.explain.array_values import ExpectedAndFound, factor_edits, plain_factor
from pecli.explain.explanation import Explanation, merged
from pecli.explain.hypotheses import explain_cases
from pecli.explain.misplacements import find_position_mistake, positions_edit
from pecli.explain.storage import half_ulp
from pecli.explain.wave_tables import wave_parameters
from pecli.files.load import Given
from pecli.tensors.inputs import SEQ_AXIS, Input
from pecli.tensors.row_positions import (
    RowPositions,
    count_of_tokens,
    note_on_padding,
    row_positions,
)

COMPARED_ELEMENTS = 1 << 22  #: distances between rows and table that are in memory at once
ROUNDINGS = 4  #: roundings of a sum: of the inputs, the row, the sum and its storage


class _Sums(NamedTuple):
    """Inputs to which rows of a table should have been added.

    Attributes:
        pair: The inputs before and after.
        row_numbers: The rows of the table that should be added, (batch, L), or (1, L) if they are
            the same for all sequences.
        is_token: False for padding, of the same shape.
        expected: The sums, in float64, (batch, L, D); padding as it is.
    """

    pair: TensorPair
    row_numbers: Indices
    is_token: Flags
    expected: Floats


def verify_added(
    after: Given,
    table: "Scheme | Array",
    tolerance: Tolerance,
    reasons: bool,
    *,
    before: Given,
    positions: object = None,
    attention_mask: object = None,
    offset: object = None,
    **others: object,
) -> Verification:
    """Compare inputs with those before plus rows of a scheme's table, or of a learned one.

    Args:
        after: Inputs with rows added, (L, D) or (batch, L, D).
        table: A scheme whose rows are added, or weights (rows, D).
        tolerance: The errors that pass.
        reasons: Whether reasons for failures are searched for.
        before: Inputs without them.
        positions: The row of the table for each token, (L,) or (batch, L).
        attention_mask: Instead, 0 for padding: tokens are counted, (batch, L).
        offset: Instead, the row for the first token.
        others: Options of `verify` that do not go with added rows.

    Raises:
        KindError: If there are such options.
        ParameterError: If shapes do not belong together, or the table is too short.
    """
    refuse_options(others, "inputs have positions, an offset or an attention_mask", "leave it out")
    added_table = _AddedTable.of(table)
    rows = row_positions(positions, attention_mask, offset=offset)
    matched = pair_tensors(after, before)
    # Numbers of a printed tensor are as coarse as their digits, which must not fail the check.
    tolerance = widen_for_printed(matched.label, tolerance, matched.rounding)
    results: list[Comparison] = []
    explanations: list[Explanation] = []
    readings: dict[str, str] = {}
    for pair in matched.pairs:
        sums = _make_expected_sums(pair, added_table.rows, rows)
        result = _compare_sums(sums, tolerance)
        results.append(result)
        if reasons and result.mismatched and result.finding is None:
            explanations += _explain(added_table, sums, tolerance.atol)
        if not sums.is_token.all():
            readings[result.name] = note_on_padding(sums.is_token)
    return Verification(
        file=matched.label,
        scheme=added_table.title,
        tensors=tuple(results),
        problems=problems_of(results),
        reasons=tuple(line.text for line in diagnose(explanations, results, tolerance)),
        explanations=tuple(explanations),
        readings=readings,
        unchecked=matched.unmatched,
    )


class _AddedTable(NamedTuple):
    """A table whose rows are added to inputs.

    Attributes:
        title: Its name in results.
        rows: Its rows in float64, (rows, D).
        scheme: The scheme that makes it; None if it is learned.
    """

    title: str
    rows: Floats
    scheme: Scheme | None

    @classmethod
    def of(cls, table: "Scheme | Array") -> "_AddedTable":
        """Return the table of a scheme, or a learned one.

        Raises:
            ParameterError: If it is complex.
        """
        if isinstance(table, Scheme):
            return cls(table.name, _read_rows(table.single_array().array()), table)
        return cls("learned table", _read_rows(table), None)


def _compare_sums(sums: _Sums, tolerance: Tolerance) -> Comparison:
    """Compare the inputs after the addition with the expected sums, in the dtype of the file."""
    pair = sums.pair
    expected = as_dtype(sums.expected.reshape(pair.after.shape), pair.dtype)
    result = compare_arrays(expected, pair.after, tolerance, name=pair.name)
    return replace(
        result,
        finding=_find_strange_values(sums, result),
        size=count_of_tokens(result.size, sums.is_token),
    )


def _find_strange_values(sums: _Sums, result: Comparison) -> Problem | None:
    """Return a problem if infinities or NaN are expected, or came into padding; else that of the comparison.

    Padding is not compared. But attention multiplies it by 0, and 0 · NaN is NaN: it spoils tokens.
    """
    count = _count_not_finite(sums)
    if count:
        return NotFinite(count, "of the sums")
    count = _count_spoilt_padding(sums)
    if count and not result.mismatched:
        return PaddingNotFinite(count)
    return result.finding


def _explain(table: _AddedTable, sums: _Sums, atol: float) -> list[Explanation]:
    """Return why inputs are wrong: other rows of the table were added, or rows of another table."""
    by_rows: list[Explanation] = []
    for sequence in _split_into_sequences(sums):
        by_rows += _explain_sequence(sequence, table.rows, sums.pair.dtype, atol)
    if by_rows or table.scheme is None:
        return by_rows
    return merged(_explain_by_tables(table.scheme, sums, atol))


def _read_rows(table: object) -> Floats:
    """Return the rows of a table in float64; raise ParameterError if they are complex."""
    array = numbers("table", table)
    if array.dtype.kind == "c":
        given = f"of dtype {dtype_name(array.dtype)}"
        raise ParameterError("table", given, "rows that are added are real")
    return np.asarray(widened(array))


def _check_shapes(weight: Floats, pair: TensorPair) -> None:
    shape = pair.after.shape
    # (rows, D) and (…, D): the table has one other axis, and as many columns.
    if weight.shape[1:] == shape[-1:] and len(shape) <= 3:
        return
    rule = f"{pair.label} is of shape {bracketed(shape)}"
    advice = "they must be (rows, D) and (L, D) or (batch, L, D)"
    raise ParameterError("table", f"of shape {bracketed(weight.shape)}", rule, advice)


def _make_expected_sums(pair: TensorPair, weight: Floats, rows: RowPositions) -> _Sums:
    """Return what inputs should be after the addition: each with the row at the position of its token.

    Tokens at positions 0, 1, 2 need `before + weight[[0, 1, 2]]`.

    Args:
        pair: The inputs before and after, (L, D) or (batch, L, D).
        weight: The table, (rows, D).
        rows: The positions of the tokens, as the user states them.

    Raises:
        ParameterError: If shapes do not belong together, or the table is too short.
    """
    if not pair.has_equal_shapes or pair.after.ndim < 2:
        raise pair.make_shape_error()
    _check_shapes(weight, pair)
    positions = rows.positions_of(Input(pair.after, pair.label), SEQ_AXIS)
    (row_numbers,) = positions.ids  # (1, batch, L): the rows of a table have one axis of positions.
    _require_rows(weight, row_numbers)
    sums = widened(pair.before) + weight[row_numbers]  # (batch, L, D)
    # Any row is right for padding: what was found there is expected, so that it never differs.
    expected = np.where(positions.is_token[..., None], sums, pair.after)
    return _Sums(pair=pair, row_numbers=row_numbers, is_token=positions.is_token, expected=expected)


def _require_rows(weight: Floats, row_numbers: Indices) -> None:
    """Raise ParameterError if a table (rows, D) is too short for some of the row numbers."""
    last = int(row_numbers.max(initial=0))
    if last >= len(weight):
        given = f"of {len(weight):,} rows"
        raise ParameterError("table", given, f"row {last:,} is needed", "give a longer one")


def _count_not_finite(sums: _Sums) -> int:
    """Return how many of the expected sums are infinite or NaN, except for padding."""
    is_strange = ~np.isfinite(sums.expected)
    is_token = np.broadcast_to(sums.is_token, is_strange.shape[:-1])
    return int(np.count_nonzero(is_strange[is_token]))


def _count_spoilt_padding(sums: _Sums) -> int:
    """Return how many values of padding are finite before, and infinite or NaN after."""
    before = widened(sums.pair.before).reshape(sums.expected.shape)
    after = widened(sums.pair.after).reshape(sums.expected.shape)
    is_spoilt = np.isfinite(before) & ~np.isfinite(after)
    is_token = np.broadcast_to(sums.is_token, is_spoilt.shape[:-1])
    return int(np.count_nonzero(is_spoilt[~is_token]))


class _Sequence(NamedTuple):
    """One sequence of inputs, (L, D) each.

    Attributes:
        name: The name of the sequence in results.
        before: The inputs without rows of the table.
        after: The inputs with them.
        row_numbers: The rows of the table that should be added, (L,).
        is_token: False for padding, (L,).
    """

    name: str
    before: Floats
    after: Floats
    row_numbers: Indices
    is_token: Flags

    @property
    def added(self) -> Floats:
        """The differences that the addition made, 0 in padding."""
        return np.where(self.is_token[:, None], self.after - self.before, 0.0)

    def with_rows_added(self, rows: Floats) -> Floats:
        """Return the inputs that an addition of these rows (L, D) would have made.

        What is added to padding does not matter. It is as it was observed, so that it agrees
        whatever the rows are.
        """
        return np.where(self.is_token[:, None], self.before + rows, self.after)


def _split_into_sequences(sums: _Sums) -> Iterator[_Sequence]:
    """Yield each sequence of a batch, so that it can be explained by itself.

    A batch of inputs (3, L, D) has three sequences (L, D), which results call «sequence 0» to «sequence
    2». Inputs (L, D) are a single one, which results call «after», as they call the whole tensor.

    Args:
        sums: The inputs of all sequences, before and after rows of the table were added to them.
    """
    pair = sums.pair
    before = widened(pair.before).reshape(-1, *pair.before.shape[-2:])  # (batch, L, D)
    after = widened(pair.after).reshape(-1, *pair.after.shape[-2:])
    batch, length, _ = after.shape
    row_numbers = np.broadcast_to(sums.row_numbers, (batch, length))
    is_token = np.broadcast_to(sums.is_token, (batch, length))
    for number in range(batch):
        name = f"sequence {number}" if batch > 1 else "after"
        yield _Sequence(
            name=name,
            before=before[number],
            after=after[number],
            row_numbers=row_numbers[number],
            is_token=is_token[number],
        )


def _explain_sequence(
    sequence: _Sequence, weight: Floats, dtype: str, atol: float
) -> list[Explanation]:
    """Return the first usual mistake that makes the observed inputs of a sequence, or an empty list.

    A port that counts positions from 1 adds rows 1, 2, 3 of the table instead of 0, 1, 2. This is
    returned if `before + table[[1, 2, 3]]` is what was observed.

    Args:
        sequence: The inputs before and after, (L, D), and the rows that should have been added.
        weight: The table, (rows, D).
        dtype: The dtype of the file: sums are as coarse as its numbers.
        atol: The tolerance of the check.
    """
    observed = ArrayObservations({sequence.name: as_dtype(sequence.after, dtype)})
    for addition in _find_wrong_additions(sequence, weight):
        explanations = _explain_by_addition(addition, sequence, observed, atol)
        if explanations:
            return explanations
    return []


def _explain_by_addition(
    addition: "_WrongAddition", sequence: _Sequence, observed: ArrayObservations, atol: float
) -> list[Explanation]:
    """Return the explanation that wrong rows were added to a sequence, if that fits.

    Args:
        addition: The rows.
        sequence: The inputs before and after.
        observed: The inputs after, in the dtype of the file.
        atol: The tolerance of the check.
    """
    wrong_sums = sequence.with_rows_added(addition.rows)
    # Computed numbers may be off by a rounding of float32; copied ones would have to be equal.
    computation = ArrayComputation((wrong_sums,), is_computed=True)
    case = case_of_arrays(computation, observed, addition.edits)
    # The addition is itself the mistake: no further one is tried.
    explanations = explain_cases([case], atol, most_mistakes=0)[:1]
    # Results name what the mistake is in: the table, or this sequence.
    return [explanation.renamed(addition.tensors) for explanation in explanations]


class _WrongAddition(NamedTuple):
    """Rows that may have been added instead of the expected ones.

    Attributes:
        edits: The mistake, as results state it.
        rows: What was added to each token, (L, D).
        tensors: What the mistake is in: the table, or a sequence.
    """

    edits: tuple[Edit, ...]
    rows: Floats
    tensors: tuple[str, ...]


def _find_wrong_additions(sequence: _Sequence, weight: Floats) -> Iterator[_WrongAddition]:
    """Yield what a port may have added by mistake: nothing, the right rows times a factor, or other rows.

    A factor is √D, for example: token embeddings are to be multiplied by it, and rows of the table
    are not. What was added is after − before, which a factor or other rows are fitted to.
    """
    added = sequence.added  # (L, D), 0 in padding, and so is what should have been added
    expected = np.where(sequence.is_token[:, None], weight[sequence.row_numbers], 0.0)
    nothing_was_added = expected.any() and not added.any()
    if nothing_was_added:
        yield _WrongAddition(edits=(Rotation("none added"),), rows=added, tensors=(sequence.name,))
        return
    yield from _find_factor(sequence, expected)
    yield from _find_other_rows_added(sequence, weight)


def _find_factor(sequence: _Sequence, expected: Floats) -> Iterator[_WrongAddition]:
    """Yield the addition of the right rows times a factor, if a round one fits: 22.627 = √512.

    Args:
        sequence: The inputs before and after.
        expected: What should have been added, (L, D).
    """
    factor = plain_factor(ExpectedAndFound(expected, sequence.added))
    if factor is not None:
        is_whole_tensor = sequence.name == "after"
        tensors = ("table",) if is_whole_tensor else ("table", sequence.name)
        yield _WrongAddition(edits=factor_edits(factor), rows=factor * expected, tensors=tensors)


def _find_other_rows_added(sequence: _Sequence, weight: Floats) -> Iterator[_WrongAddition]:
    """Yield the addition of other rows of the table than those that should have been added.

    The row that was added to a token is the one nearest to after − before. If tokens that need rows
    0, 1, 2 got rows 1, 2, 3, their positions were counted from 1. Nothing is yielded if all tokens
    got the rows that they need: the mistake is not in the positions then.
    """
    with np.errstate(invalid="ignore"):  # Values may be infinite.
        nearest_rows = _find_nearest_rows(sequence.added, weight)  # (L,)
    expected_rows = sequence.row_numbers
    # What is added to padding does not matter: it counts as right.
    added_rows = np.where(sequence.is_token, nearest_rows, expected_rows)
    if np.array_equal(added_rows, expected_rows):
        return
    left_padding = int(sequence.is_token.argmax())  # The mask 0 0 1 1 has 2 rows before a token.
    mistake = find_position_mistake(expected_rows, added_rows, left_padding, rotated=False)
    edit = positions_edit(expected_rows, added_rows, mistake)
    yield _WrongAddition(edits=(edit,), rows=weight[added_rows], tensors=(sequence.name,))


def _find_nearest_rows(added: Floats, weight: Floats) -> Indices:
    """Return the row of the table that is nearest to each of the rows that were added, (L,).

    Args:
        added: The differences after − before of one sequence, (L, D).
        weight: The table, (rows, D).
    """
    sizes = (weight**2).sum(axis=1)
    step = max(1, COMPARED_ELEMENTS // len(weight))
    nearest: list[Indices] = [np.empty(0, np.intp)]
    for start in range(0, len(added), step):
        # |a - w|² is |a|² - 2 a·w + |w|², and |a|² is the same for all rows w.
        distances = sizes - 2 * added[start : start + step] @ weight.T
        nearest.append(distances.argmin(axis=1))
    return np.concatenate(nearest)


def _explain_by_tables(scheme: Scheme, sums: _Sums, atol: float) -> Iterator[Explanation]:
    """Explain what was added to each sequence as a table that was made by mistake, such as another base.

    after − before is that table, if its rows are consecutive. Only tables of cosines and sines have
    known mistakes.
    """
    are_consecutive = sums.is_token.all() and (np.diff(sums.row_numbers) == 1).all()
    if wave_parameters(scheme) is None or not are_consecutive:
        return
    limit = max(atol, _bound_rounding_of_sums(sums.pair))
    for sequence in _split_into_sequences(sums):
        yield from _explain_added_table(scheme, sequence, limit)


def _explain_added_table(
    scheme: Scheme, sequence: _Sequence, limit: float
) -> Iterator[Explanation]:
    """Yield the mistakes in a table whose rows were added to one sequence, such as a wrong base.

    The table is found by subtraction: after − before. If it has base 1,000 where 10,000 was expected,
    this base is yielded as a mistake of «sequence 0».

    Args:
        scheme: The scheme of the table that should have been added.
        sequence: The inputs before and after, (L, D), at consecutive positions.
        limit: The error of after − before that is no mistake.
    """
    added_table = sequence.after - sequence.before  # (L, D)
    first_row = int(sequence.row_numbers[0])
    # The table of the scheme has more rows than were added: those before and after are cut off.
    expected = _make_scheme_of_rows(scheme, first_row, len(added_table))
    table_name = expected.single_array().name  # «pe»
    for explanation in search.explain(expected, {table_name: added_table}, limit):
        if explanation.mistakes:
            # A command could make the table, but not the sums, which are what the file holds. So the
            # mistake is stated without one, and about the sequence instead of «pe».
            yield explanation.without_command().renamed([sequence.name])


def _bound_rounding_of_sums(pair: TensorPair) -> float:
    """Return how far after − before may be from the rows that were added, by rounding alone.

    Sums are as coarse as the largest of them: 10 in bfloat16 is rounded by up to 1/32, four times
    which is 1/8. This hides the digits of a sine.
    """
    largest = np.abs(widened(pair.after)).max()
    return ROUNDINGS * float(half_ulp(np.array([largest]), pair.dtype)[0])


def _make_scheme_of_rows(scheme: Scheme, first_row: int, count: int) -> Scheme:
    """Return the scheme of a table that has only some rows of the table of another scheme.

    Rows 5, 6, 7 of a table whose first row is position 2 are positions 7, 8, 9: its offset is 7, and
    its length 3.
    """
    offset = scheme.value_of("offset", 0) + first_row
    rows: NamedValues = {"seq_len": count, "offset": offset}
    return replace(scheme, **rows)
