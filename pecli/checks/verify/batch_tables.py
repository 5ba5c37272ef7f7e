"""Tables that a model made for a batch, (batch, L, D): a row for each token, at the token's position."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pecli.checks.file_problems import TensorProblem
from pecli.checks.verification import Verification
from pecli.checks.verify.table_settings import TABLE_PARAMETERS
from pecli.compare.candidate import Waves, cos_and_sin
from pecli.compare.forms import joined
from pecli.compare.problems import PaddingNotFinite
from pecli.compare.tolerance import Tolerance
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Array, Flags, Indices, widest
from pecli.engine.edits import Positions
from pecli.engine.schemes.given_positions import PositionList
from pecli.errors import ParameterError, bracketed
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import Encoding
from pecli.models.find import Model
from pecli.tensors.row_positions import RowPositions, row_positions

Tables = Mapping[str, Array]


class TokenTables(NamedTuple):
    """Tables with a row for each token that is not padding.

    Attributes:
        tables: The tables; those that are not per batch as they are.
        positions: The positions of the tokens.
        notes: A note for each table that is per batch.
        problems: Padding that holds infinities or NaN.
    """

    tables: dict[str, Array]
    positions: PositionList
    notes: dict[str, str]
    problems: tuple[TensorProblem, ...]


def arrange_per_batch(array: Array) -> Array:
    """Return a table as (batch, L, …), without an axis of one head.

    (L, D) becomes (1, L, D). Tables that broadcast over heads, (batch, 1, L, D) or (batch, L, 1, D),
    become (batch, L, D).
    """
    if array.ndim < 3:
        return array[None]
    if array.ndim == 4 and 1 in array.shape[1:3]:
        head_axis = 1 + array.shape[1:3].index(1)
        return array.squeeze(head_axis)
    return array


def take_rows_of_tokens(label: str, tables: Tables, rows: RowPositions, axes: int) -> TokenTables:
    """Return tables of a batch as rows of its tokens, (tokens, D), without the rows of padding.

    Padding has no right values: tables (2, 4, D) with one row of padding become (7, D). Tables that
    have no row per token, such as frequencies, stay as they are.

    Args:
        label: The file, as it was given.
        tables: The tables.
        rows: The positions of the batch's tokens, and which of them are padding.
        axes: The axes of positions that the model has.

    Raises:
        ParameterError: If a mask is given, and no table has a row per token.
    """
    ids = rows.arranged(axes)  # the positions, (axes, batch, L)
    assert ids is not None  # The caller recognises a batch by its positions or mask.
    batch_shape = ids.shape[1:]  # (batch, L)
    names = [name for name, table in tables.items() if _is_per_batch(name, table, batch_shape)]
    if not names:
        return _keep_tables_without_batch(label, tables, rows, batch_shape)
    is_token = rows.tokens_of(batch_shape)  # (batch, L), False for padding
    rows_of_tokens = {}
    problems = []
    for name in names:
        rows_of_tokens[name] = tables[name][is_token]  # (tokens, D)
        # Attention multiplies rows of padding by 0, and 0 · NaN is NaN: they spoil tokens as well.
        strange = int(np.count_nonzero(~np.isfinite(widest(tables[name][~is_token]))))
        if strange:
            problems.append(TensorProblem(name, PaddingNotFinite(strange)))
    note = f"{is_token.sum():,} tokens of {bracketed(batch_shape)}, one after the other"
    return TokenTables(
        tables={**tables, **rows_of_tokens},
        positions=_take_positions(ids, is_token),
        notes=dict.fromkeys(names, note),
        problems=tuple(problems),
    )


def _take_positions(ids: Indices, is_token: Flags) -> PositionList:
    """Return the positions of tokens, without padding: (tokens,), or (axes, tokens) for several axes.

    Ids (1, 2, 4) and a mask (2, 4) with one 0 give 7 positions.
    """
    ids_of_tokens = ids[:, is_token]  # (axes, tokens)
    has_several_axes = len(ids) > 1
    return _check_positions(ids_of_tokens if has_several_axes else ids_of_tokens[0])


def _keep_tables_without_batch(
    label: str, tables: Tables, rows: RowPositions, batch_shape: tuple[int, ...]
) -> TokenTables:
    """Return tables that all sequences of a batch share, which have the positions that the user states.

    Raises:
        ParameterError: The user states an attention mask, which needs a table for each sequence.
    """
    has_mask = rows.is_token is not None
    if has_mask:
        raise _make_error_for_no_batch(label, rows.name, batch_shape)
    positions = _check_positions(rows.ids)
    return TokenTables(tables=dict(tables), positions=positions, notes={}, problems=())


def _make_error_for_no_batch(label: str, name: str, shape: tuple[int, ...]) -> ParameterError:
    """Return the error for a mask (batch, L) if no table has these axes."""
    axes = bracketed(shape)
    rule = f"no table of {label or 'these arrays'} is {axes[:-1]}, …)"
    advice = "leave it out, or dump tables per batch"
    return ParameterError(name, f"of shape {axes}", rule, advice)


def _check_positions(positions: object) -> PositionList:
    checked: PositionList = TABLE_PARAMETERS["positions"].check("positions", positions)
    return checked


def _is_per_batch(name: str, table: Array, shape: tuple[int, ...]) -> bool:
    """Return True if a table has a row for each token of a batch.

    Two tables without a name are cosines and sines, not a batch of two.
    """
    return table.shape[:2] == shape and (role_of(name) is not None or shape[0] != 2)


def count_rows_per_sequence(tables: Tables) -> RowPositions | None:
    """Return positions 0, 1, 2, … for every sequence, if cosines (batch, L, D) differ between sequences.

    A model that takes padding into account has other rows for each sequence, although the user has
    given no positions. A search for the positions starts from these. None if there is no such
    table.
    """
    for name, array in tables.items():
        if role_of(name) == "cos" and _differs_by_sequence(array):
            batch, length, _ = array.shape
            return row_positions(np.tile(np.arange(length), (batch, 1)))
    return None


def _differs_by_sequence(array: Array) -> bool:
    """Return True if a table (batch, L, D) has other rows for each sequence of a batch.

    If there are more sequences than rows, the first axis may be that of positions.
    """
    if array.ndim != 3 or len(array) > array.shape[1]:
        return False
    differs_by_sequence = (array != array[:1]).any()
    differs_by_row = (array != array[:, :1]).any()
    return bool(differs_by_sequence and differs_by_row)


def find_wrong_positions(
    tables: Tables,
    rows: RowPositions,
    model: Model,
    encoding: Encoding,
    tolerance: Tolerance,
) -> Iterator[Verification]:
    """Yield a check that names the positions at which wrong tables (batch, L, D) were made, if it finds them.

    There is a search for the positions at which queries were rotated. It also finds those of tables:
    the row of position p, with cos p and sin p for each pair, is what a query whose pairs are all
    (1, 0) becomes by the rotation of position p. So the tables are checked as rotated queries.

    Args:
        tables: Tensors by name, among them `cos` and `sin`, (batch, L, D) each.
        rows: The positions that the rows should have.
        model: The model that makes the tables.
        encoding: Its only rotary encoding in question.
        tolerance: The errors that pass.
    """
    from pecli.checks.verify.rotated import verify_rotated

    waves = cos_and_sin(tables)
    if waves is None:
        return
    queries = _make_queries_from_tables(waves, encoding)
    positions = {"attention_mask": rows.is_token, "positions": rows.ids}[rows.name]
    layer_type = encoding.layer_type or None
    options = {rows.name: positions, "layer_type": layer_type, "seq_axis": -2}
    with suppress(ParameterError):  # Tables may have another width than the queries of the model.
        result = verify_rotated(
            queries.after,
            before=queries.before,
            model=model,
            tolerance=tolerance,
            reasons=True,
            options=options,
        )
        if any(explanation.has_edit(Positions) for explanation in result.explanations):
            yield result


class _Queries(NamedTuple):
    """Queries (batch, L, D) before and after a rotation."""

    before: Array
    after: Array


def _make_queries_from_tables(waves: Waves, encoding: Encoding) -> _Queries:
    """Return queries before and after a rotation, made of cosines and sines.

    A rotation by the angle θ takes the pair (1, 0) to (cos θ, sin θ). So all pairs are (1, 0) before,
    and the columns of the tables after. A check of these queries is one of the tables.

    Two pairs in halves are 1 1 0 0 before, and c0 c1 s0 s1 after. Interleaved, they are 1 0 1 0 before,
    and c0 s0 c1 s1 after.

    Args:
        waves: The tables, (batch, L, D) each.
        encoding: The rotary encoding that should make them.
    """
    # Tables with doubled columns, c0 c1 c0 c1, have two per pair: the first half is enough.
    rotated_pairs = encoding.rope(1).rotary_dim // 2
    pair_count = min(waves.cos.shape[-1], rotated_pairs)
    cos = waves.cos[..., :pair_count]  # (batch, L, pairs)
    sin = waves.sin[..., :pair_count]
    ones = np.ones_like(cos)
    zeros = np.zeros_like(sin)
    # DeepSeek takes queries with interleaved pairs, and returns them in halves.
    layouts = LAYOUTS[encoding.layout or "halves"]
    before = joined((ones, zeros), layouts.before)
    after = joined((cos, sin), layouts.after)
    return _Queries(before, after)
