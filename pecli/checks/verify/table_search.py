"""The tensors of a file that are to be checked against a model: found by their names, or by their values."""

from pecli.checks.verify.model_tensors import ModelTensors
from pecli.compare.reading import Reading
from pecli.engine.arrays import Array, dtype_name
from pecli.files.tensor_roles import ANYTHING, role_of, schemes_of

MAX_RECOGNISED = 16  #: tensors of a file that are recognised by their values if no name has a role
NUMBER_ROLES = ("index", "cos", "sin", "both")
"""Roles of tensors that may hold integers: T5's buckets, and quantised cosines and sines."""
ROW_SCHEMES = {"sinusoidal", "learned"}  #: schemes of tables whose rows are added to inputs


Tables = dict[str, Reading | None]
"""The reading that fits each tensor best; None if its shape is that of no table."""


def find_tables(tensors: ModelTensors) -> Tables:
    """Return the tensors of a file that are tables, each with the way in which its axes and columns are read.

    The only tensor of a file is its table. Of several, those count whose names state a table, such
    as `rope.cos`. If no name does, tensors count whose values are near a table of the model.
    """
    names = [*tensors.tensors]
    if len(names) == 1:
        return {names[0]: _read_only_table(tensors, names[0])}
    by_name = _find_by_name(tensors)
    if by_name or len(names) > MAX_RECOGNISED:
        return by_name
    return _find_by_values(tensors)


def _read_only_table(tensors: ModelTensors, name: str) -> Reading | None:
    """Read the only tensor of a file, as what its name states if it can be that."""
    return tensors.find_reading(name, tensors.role(name)) or tensors.find_reading(name, None)


def _find_by_name(tensors: ModelTensors) -> Tables:
    """Return the tensors whose names state a table of the model, each with the best way to read it.

    A tensor `inv_freq` whose shape is that of no table is wrong: it is returned with None, so that the
    check fails. One named `rope.buffer` may be something else, and is left out if it does not fit.
    """
    tables: Tables = {}
    for name in tensors.tensors:
        role = role_of(name)
        if role is None or not _is_named_as_table(tensors, name, role):
            continue
        reading = tensors.find_reading(name, role)
        if reading is not None or _must_be_table(tensors, role):
            tables[name] = reading
    return tables


def _is_named_as_table(tensors: ModelTensors, name: str, role: str) -> bool:
    """Return True if a name states a role that one of the model's encodings has, and the dtype allows it."""
    has_scheme = bool(schemes_of(role) & tensors.schemes)
    has_dtype = _holds_floats(tensors.tensors[name]) or role in NUMBER_ROLES
    return has_scheme and has_dtype and not tensors.is_of_other_part(name)


def _must_be_table(tensors: ModelTensors, role: str) -> bool:
    """Return True if a tensor of a role is wrong when its shape is that of no table.

    `rope.buffer` may be something else, and so may `pos_embed` in a model that adds no rows.
    """
    if role == "rows":
        return bool(tensors.schemes & ROW_SCHEMES)
    return role != ANYTHING


def _find_by_values(tensors: ModelTensors) -> Tables:
    """Return the tensors whose values are near a table of the model, whatever their names are."""
    tables: Tables = {}
    for name, array in tensors.tensors.items():
        if not _holds_floats(array):
            continue
        reading = tensors.find_reading(name, None)
        if reading is not None and reading.is_near:
            tables[name] = reading
    return tables


def _holds_floats(array: Array) -> bool:
    return dtype_name(array.dtype).startswith(("float", "bfloat", "complex"))
