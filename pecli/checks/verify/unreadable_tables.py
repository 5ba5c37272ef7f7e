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
    found = _find_table_and_scheme(tensors, name)
    return CheckedTensor(
        tensor=name,
        result=Comparison.impossible(name, shape, problem),
        scheme=found.scheme,
        found_tables=found.tables,
        has_length=False,  # The number of rows of the scheme is a guess.
    )


def _fits_transposed(tensors: ModelTensors, name: str) -> bool:
    """Return True if a tensor is a table of the model with its axes exchanged, (64, 4096) for (4096, 64)."""
    reading = tensors.find_reading_of_transpose(name, tensors.role(name))
    if reading is None:
        return False
    # A learned table has no expected values to be near to, so that its shape is enough.
    return reading.is_learned or reading.is_near


def _find_table_and_scheme(tensors: ModelTensors, name: str) -> FoundTables:
    """Return a tensor of a wrong shape, and the rotary scheme that should have made it.

    A search for the mistake needs both: 128 columns instead of 64 may be those of another rotary
    dimension. The result is empty if no rotary encoding of the model makes tables.
    """
    array = tensors.tensors[name]
    settings = tensors.choose_settings(name)
    is_grid_stated = "grid" in settings.stated_rows
    encodings = tensors.find_likely_encodings(name)
    ropes = [encoding for encoding in encodings if _makes_table(encoding, has_grid=is_grid_stated)]
    if not ropes or not array.size:
        return FoundTables(scheme=None, tables={})
    likeliest = ropes[0]
    compact = settings.rope(likeliest, _most_rows(array), layout="compact")
    pairs = compact.rotary_dim // 2
    scheme = replace(compact, layout=_guess_layout(likeliest, pairs, array))
    table_name = _name_of_table(tensors.role(name))
    return FoundTables(scheme=scheme, tables={table_name: array})


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


def _guess_layout(encoding: Encoding, pairs: int, array: Array) -> str:
    """Return the layout that a table has most likely, judging by its width and the model.

    Args:
        encoding: The encoding of the model.
        pairs: The number of its pairs of channels, each of which has one column in a compact table.
            On a grid, these are the pairs of all axes: 16 of the height and 16 of the width.
        array: The table.
    """
    if pairs in array.shape:
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
    has_bias_per_head = "heads" in parameters  # ALiBi, for example: slopes, or a bias
    if has_bias_per_head:
        return f"({parameters['heads']}) or ({parameters['heads']}, …, positions)"
    is_on_grid = {"grid", "dim"}.issubset(parameters)
    if is_on_grid:
        patches = math.prod(parameters["grid"])
        other_tokens = parameters.get("keep", 0)  # such as CLS, whose rows come first
        grid = spelled(parameters["grid"])
        return (
            f"({patches + other_tokens}, {parameters['dim']}) of the grid {grid} (or give --grid)"
        )
    rows = parameters.get("max_len", "positions")
    columns = parameters.get("dim", rows)  # Without a width, it is a matrix of pairs of positions.
    return f"({rows}, {columns})"
