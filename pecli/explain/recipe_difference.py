"""Tables of a file beside those that the engine makes by a recipe, such as float32."""

import math
from collections.abc import Mapping

import numpy as np

from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.table import Table
from pecli.explain.changed_schemes import permitted
from pecli.explain.observations import finest_dtype


def difference_from_recipe(scheme: Scheme, tensors: Mapping[str, Array], recipe: str) -> float:
    """Return the largest difference of tensors from the tables that a scheme makes by a recipe.

    A recipe such as «float32» states how each step is rounded, as PyTorch does it. The tables have
    the dtype of the tensors, and those of integers with a scale are float64.

    Args:
        scheme: The scheme.
        tensors: Tensors by the scheme's names for them.
        recipe: The recipe.

    Returns:
        The difference; infinity if the scheme makes no such tables. One that states a runtime has the
        arithmetic of the runtime, and refuses a recipe.
    """
    held_dtype = finest_dtype(tensors.values(), default="float64")
    scheme_with_recipe = permitted(scheme, recipe=recipe, dtype=held_dtype)
    if scheme_with_recipe is None:
        return math.inf
    tables = named_tensors(scheme_with_recipe)
    differences = [_largest_difference(array, tables.get(name)) for name, array in tensors.items()]
    # Rows that there was no time to compare may hold NaN, which fmax ignores.
    return float(np.fmax.reduce(differences, initial=0.0))


def _largest_difference(array: Array, table: Table | None) -> float:
    """Return the largest difference of an array from a table; infinity if they cannot be compared.

    Args:
        array: Numbers of a file.
        table: The table; None if the scheme makes none of this name.
    """
    if table is None or table.shape != array.shape:
        return math.inf
    differences = np.abs(widened(array) - widened(table.array()))
    return float(differences.max(initial=0.0))
