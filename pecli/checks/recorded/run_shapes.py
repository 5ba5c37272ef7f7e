"""Rules for the shapes and dtypes of a recorded run, which may come from a damaged file."""

from collections.abc import Iterator, Mapping

import numpy as np

from pecli.checks.recorded.run_tensors import (
    AFTER,
    BEFORE,
    MASK,
    POSITIONS,
    ROWS,
    USED_IDS,
    RecordedCall,
    RecordedRun,
)
from pecli.engine.arrays import FLOATS, Array, dtype_name
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.errors import FileError, bracketed


def check_shapes(run: RecordedRun, label: str) -> None:
    """Raise FileError if tensors of a run do not belong together.

    Args:
        run: The run.
        label: The file, for the error.
    """
    for place, weight in run.weights.items():
        if weight.ndim != 2 or not weight.size or not _is_float(weight):
            raise FileError(label, _wrong(f"{place}.weight", weight, "(rows, D), floats"))
    for number, call in enumerate(run.calls):
        for problem in _problems_of(call, run.weights):
            raise FileError(label, f"calls.{number}.{problem}", "record the run again")


def _problems_of(call: RecordedCall, weights: Mapping[str, Array]) -> Iterator[str]:
    if call.positions is None:
        yield f"{POSITIONS} is missing"
        return
    yield from _problems_of_positions(call, call.positions)
    for name, array in call.tensors.items():
        if not array.size or not array.ndim or not _is_float(array):
            yield _wrong(name, array, "an array of floats")
        else:
            yield from _problems_of_tensor(name, call, call.positions, weights)


def _problems_of_tensor(
    name: str, call: RecordedCall, positions: Array, weights: Mapping[str, Array]
) -> Iterator[str]:
    """Yield a sentence if a tensor of floats has not the shape that its role requires."""
    array = call.tensors[name]
    place, _, role = name.rpartition(".")
    if name.endswith((BEFORE, AFTER)):
        yield from _problems_of_vector(name, call.tensors)
    elif role == ROWS:
        yield from _problems_of_rows(name, array, weights.get(place), positions)
    elif array.ndim < 2 and role in ("cos", "sin"):
        yield _wrong(name, array, "(…, L, D)")


def _problems_of_positions(call: RecordedCall, positions: Array) -> Iterator[str]:
    if positions.ndim not in (2, 3) or not positions.size or not _are_positions(positions):
        yield _wrong(POSITIONS, positions, "(batch, L) or (axes, batch, L), whole numbers ≥ 0")
    batch_and_length = positions.shape[-2:]
    mask = call.attention_mask
    if mask is not None and mask.shape != batch_and_length:
        yield _wrong(MASK, mask, bracketed(batch_and_length))
    ids = call.position_ids
    if ids is not None and not (_have_batch(ids, batch_and_length) and _are_positions(ids)):
        yield _wrong(USED_IDS, ids, f"{bracketed(batch_and_length)}, whole numbers ≥ 0")


def _have_batch(ids: Array, batch_and_length: tuple[int, ...]) -> bool:
    """Return True if ids are (L,), (batch, L) or (axes, batch, L); one sequence may stand for all."""
    if ids.ndim > 3:
        return False
    *_, batch, length = (1, 1, *ids.shape)
    return length == batch_and_length[-1] and batch in (1, batch_and_length[0])


def _are_positions(array: Array) -> bool:
    """Return True for whole numbers from 0 to the largest position that is supported."""
    if array.dtype.kind not in "iu":
        return False
    positions = array.astype(np.int64)
    return bool(((positions >= 0) & (positions <= LAST_POSITION)).all())


def _problems_of_vector(name: str, tensors: Mapping[str, Array]) -> Iterator[str]:
    """Yield a sentence if queries or keys have no other side, or one of another shape."""
    if name.endswith(BEFORE):
        other = name.removesuffix(BEFORE) + AFTER
    else:
        other = name.removesuffix(AFTER) + BEFORE
    if other not in tensors:
        yield f"{name} is there, and {other.rpartition('.')[2]} is missing"
    elif tensors[name].ndim < 2 or tensors[name].shape != tensors[other].shape:
        yield _wrong(name, tensors[name], f"(…, L, D), as {bracketed(tensors[other].shape)}")


def _problems_of_rows(
    name: str, rows: Array, weight: Array | None, positions: Array
) -> Iterator[str]:
    """Yield a sentence if rows are not those of a learned table that is recorded."""
    if weight is None:
        yield f"{name} is there, and the table with its weight is missing"
        return
    batch = positions.shape[-2]
    has_batch = rows.ndim == 2 or (rows.ndim == 3 and len(rows) in (1, batch))
    if not has_batch or rows.shape[-1] != weight.shape[-1]:
        yield _wrong(name, rows, f"({batch}, L, {weight.shape[-1]})")


def _is_float(array: Array) -> bool:
    return dtype_name(array.dtype) in FLOATS


def _wrong(name: str, array: Array, rule: str) -> str:
    shape = bracketed(np.shape(array))
    return f"{name} is {shape}, {dtype_name(array.dtype)}; it must be {rule}"
