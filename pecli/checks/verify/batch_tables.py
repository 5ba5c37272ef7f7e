"""Tables that a model made for a batch, (batch, L, D): a row for each token, at the token's position."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.checks.verification import Verification
from pecli.checks.verify.targets import PLACES
from pecli.compare.forms import joined
from pecli.compare.problems import PaddingNotFinite
from pecli.compare.tolerance import Tolerance
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Array, widest
from pecli.engine.named_values import MutableValues
from pecli.errors import ParameterError, bracketed
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import Encoding
from pecli.models.find import Model

if TYPE_CHECKING:
    from pecli.tensors.row_positions import RowPositions

Tables = Mapping[str, Array]


class TokenTables(NamedTuple):
    """Tables with a row for each token that is not padding.

    Attributes:
        tables: The tables; those that are not per batch as they are.
        positions: The positions of the tokens.
        notes: A note for each table that is per batch.
        problems: Sentences on padding that holds infinities or NaN.
    """

    tables: dict[str, Array]
    positions: Any
    notes: dict[str, str]
    problems: tuple[str, ...]


def per_batch(array: Array) -> Array:
    """Return a table as (batch, L, …), without an axis of one head."""
    if array.ndim < 3:
        return array[None]
    if array.ndim == 4:
        for axis in (1, 2):
            if array.shape[axis] == 1:
                return array.squeeze(axis)
    return array


def token_tables(label: str, tables: Tables, rows: "RowPositions", axes: int) -> TokenTables:
    """Return tables per batch, (batch, L, …), with a row for each token that is not padding.

    Args:
        label: The file, as it was given.
        tables: The tables.
        rows: Where the tokens of a batch stand.
        axes: The axes of positions that the model has.

    Raises:
        ParameterError: If a mask is given, and no table is per batch.
    """
    ids = rows.arranged(axes)
    assert ids is not None
    if rows.seen is None:
        seen = np.ones(ids.shape[1:], bool)
    else:
        seen = rows.seen.reshape(ids.shape[1:])
    shape = bracketed(seen.shape)
    batched = [name for name, table in tables.items() if _is_per_batch(name, table, seen.shape)]
    if not batched and rows.seen is not None:
        rule = f"no table of {label or 'these arrays'} is {shape[:-1]}, …)"
        advice = "leave it out, or dump tables per batch"
        raise ParameterError(rows.name, f"of shape {shape}", rule, advice)
    positions: Any = rows.ids
    if batched:
        positions = ids[:, seen] if len(ids) > 1 else ids[0, seen]
    by_token = {name: table[seen] if name in batched else table for name, table in tables.items()}
    note = f"{seen.sum():,} tokens of {shape}, one after the other"
    checked = PLACES["positions"].check("positions", positions)
    problems = []
    for name in batched:
        strange = int(np.count_nonzero(~np.isfinite(widest(tables[name][~seen]))))
        if strange:
            problems.append(f"{name}: {PaddingNotFinite(strange)}")
    return TokenTables(by_token, checked, dict.fromkeys(batched, note), tuple(problems))


def _is_per_batch(name: str, table: Array, shape: tuple[int, ...]) -> bool:
    """Return True if a table has a row for each token of a batch.

    Two tables without a name are cosines and sines, not a batch of two.
    """
    return table.shape[:2] == shape and (role_of(name) is not None or shape[0] != 2)


def counted_rows(tables: Tables) -> "RowPositions | None":
    """Return the rows of every sequence from 0 on, if cosines (batch, L, D) differ from sequence to sequence.

    If there are more sequences than rows, the first axis may be that of positions.
    """
    for name, array in tables.items():
        if role_of(name) != "cos" or array.ndim != 3 or len(array) > array.shape[1]:
            continue
        differs_by_sequence = (array != array[:1]).any()
        differs_by_row = (array != array[:, :1]).any()
        if differs_by_sequence and differs_by_row:
            from pecli.tensors.row_positions import row_positions

            return row_positions(np.tile(np.arange(array.shape[1]), (len(array), 1)))
    return None


def solved_positions(
    tables: Tables,
    rows: "RowPositions",
    model: Model,
    encoding: Encoding,
    tolerance: Tolerance,
) -> Verification | None:
    """Return the check that names the positions at which tables per batch were made.

    Tables are what a rotation makes of (1, 0), so that they are explained as rotated queries are.
    """
    from pecli.checks.verify.rotated import verify_rotated
    from pecli.engine.edits import Positions

    waves = []
    for role in ("cos", "sin"):
        waves += [table for name, table in tables.items() if role_of(name) == role]
    if len(waves) != 2 or waves[0].shape != waves[1].shape:
        return None
    pairs = min(waves[0].shape[-1], encoding.rope(1).rotary_dim // 2)
    cos = waves[0][..., :pairs]
    sin = waves[1][..., :pairs]
    takes, gives = LAYOUTS[encoding.layout or "halves"]
    before = joined((np.ones_like(cos), np.zeros_like(sin)), takes)
    after = joined((cos, sin), gives)
    options: MutableValues = {"layer_type": encoding.layer_type or None, "seq_axis": -2}
    if rows.seen is None:
        options["positions"] = rows.ids
    else:
        options["attention_mask"] = rows.seen
    with suppress(ParameterError):  # Tables may have another width.
        result = verify_rotated(after, before, model, tolerance, True, **options)
        edits = [edit for each in result.explanations for edit in each.edits]
        if any(isinstance(edit, Positions) for edit in edits):
            return result
    return None
