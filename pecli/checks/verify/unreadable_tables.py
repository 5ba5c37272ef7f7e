"""Tensors that are named as a table of a model, and have the shape of none."""

import math
from dataclasses import replace

from pecli.checks.checked_tensor import CheckedTensor
from pecli.checks.verify.model_tensors import ModelTensors
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherShape
from pecli.compare.reading import FoundTables
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Array
from pecli.engine.schemes.rope import Rope
from pecli.errors import spelled
from pecli.models.encoding import Encoding

EXPLAINED_TABLES = ("cos", "sin", "inv_freq")
"""Tables that a search for reasons knows by these names; any other array may hold cosines and sines."""


def make_shape_failure(tensors: ModelTensors, name: str) -> CheckedTensor:
    """Return the failure of a tensor whose shape is that of no table of the model.

    The failure lists the shapes that were expected, and states whether the tensor fits transposed. It
    also holds what a search for the reason starts from.

    Args:
        tensors: The tensors of a file, and the encodings of a model.
        name: The tensor.
    """
    shape = tensors.tensors[name].shape
    encodings = tensors.find_likely_encodings(name)
    possible_shapes = dict.fromkeys(map(_describe_possible_shapes, encodings))
    problem = OtherShape(shape, " or ".join(possible_shapes), _fits_transposed(tensors, name))
    to_explain = _find_table_and_scheme_to_explain(tensors, name)
    return CheckedTensor(
        tensor=name,
        result=Comparison.impossible(name, shape, problem),
        scheme=to_explain.scheme,
        found_tables=to_explain.tables,
        has_length=False,  # The number of rows of the scheme is a guess.
    )


def _fits_transposed(tensors: ModelTensors, name: str) -> bool:
    """Return True if a tensor is a table of the model with its axes exchanged, (64, 4096) for (4096, 64)."""
    reading = tensors.find_reading_of_transpose(name, tensors.role(name))
    if reading is None:
        return False
    # A learned table has no expected values to be near to, so that its shape is enough.
    return reading.is_learned or reading.is_near


def _find_table_and_scheme_to_explain(tensors: ModelTensors, name: str) -> FoundTables:
    """Return a tensor of a wrong shape, and the scheme that should make it, to search for the mistake.

    The search changes parameters of the scheme until it makes a table of this shape: 128 columns
    instead of 64 are those of another rotary dimension. The result is empty if no rotary encoding of
    the model makes tables, since only these can be searched.
    """
    array = tensors.tensors[name]
    settings = tensors.choose_settings(name)
    has_grid = "grid" in settings.stated_rows
    encodings = tensors.find_likely_encodings(name)
    ropes = [encoding for encoding in encodings if _makes_table(encoding, has_grid=has_grid)]
    if not ropes or not array.size:
        return FoundTables(None, {})
    likeliest = ropes[0]
    # The layout depends on the widths of tables, which are known once the scheme is made.
    compact = settings.rope(likeliest, _most_rows(array), layout="compact")
    scheme = replace(compact, layout=_guess_layout(likeliest, compact, array))
    return FoundTables(scheme, {_name_of_table(tensors.role(name)): array})


def _makes_table(encoding: Encoding, *, has_grid: bool) -> bool:
    """Return True for a rotary encoding, if it has a table: that of an image needs a grid."""
    return encoding.is_rotary and (has_grid or not encoding.no_table)


def _most_rows(array: Array) -> int:
    """Return the number of rows that is enough for a table, whichever of its axes is that of positions."""
    return max(array.shape, default=1)


def _name_of_table(role: str | None) -> str:
    """Return the name by which a search for reasons knows a table: `cos`, `sin`, `inv_freq` or `cos_sin`.

    A tensor whose name states none of the first three may hold cosines, sines or both.
    """
    if role in EXPLAINED_TABLES:
        return role
    return "cos_sin"


def _guess_layout(encoding: Encoding, compact: Rope, array: Array) -> str:
    """Return the layout that a table has most likely, judging by its width and the model.

    On a grid, a compact table has a column for each pair of channels of all axes: 16 of the height
    and 16 of the width.

    Args:
        encoding: The encoding of the model.
        compact: Its scheme in the compact layout.
        array: The table.
    """
    if compact.rotary_dim // 2 in array.shape:
        return "compact"
    return LAYOUTS[encoding.layout or "halves"].after


def _count_pairs(encoding: Encoding) -> int:
    """Return the pairs of channels that a rotary encoding rotates, along each axis of positions."""
    return (encoding.axis_dim or 0) // 2


def _describe_possible_shapes(encoding: Encoding) -> str:
    """Return the shapes that tables of an encoding may have, for a sentence.

    Of a rotary encoding of 128 channels: «(64), (positions, 64) or (positions, 128)».
    """
    parameters = encoding.parameters
    if encoding.is_rotary:
        pairs = _count_pairs(encoding)
        return f"({pairs}), (positions, {pairs}) or (positions, {2 * pairs})"
    if "heads" in parameters:
        return f"({parameters['heads']}) or ({parameters['heads']}, …, positions)"
    if {"grid", "dim"}.issubset(parameters):
        rows = math.prod(parameters["grid"]) + parameters.get("keep", 0)
        grid = spelled(parameters["grid"])
        return f"({rows}, {parameters['dim']}) of the grid {grid} (or give --grid)"
    rows = parameters.get("max_len", "positions")
    return f"({rows}, {parameters.get('dim', rows)})"
