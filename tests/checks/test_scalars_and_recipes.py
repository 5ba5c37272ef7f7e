"""Files with scalars under the names of tables, and recipes of schemes that have none, are answered
without a wrong pass.

A recipe computes a table in the dtypes of some project.
"""

import numpy as np
import pytest

import pecli

TWO_SCALARS = {"cos": np.float32(1), "sin": np.float32(0.5)}
DUMPS_THAT_ARE_NOT_SCALARS = {
    "one array": {"x": np.ones((4, 8), "f4")},
    "a vector": {"x": np.ones(2, "f4")},
    "tables": {"cos": np.ones((4, 8), "f4"), "sin": np.ones((4, 8), "f4")},
    "a scalar": {"x": np.float32(2)},
}


@pytest.mark.parametrize("name", DUMPS_THAT_ARE_NOT_SCALARS)
def test_scalars_differ_from_tables_in_both_orders(name: str) -> None:
    """cos = 1 and sin = 0.5 in one file; an array, a vector, two tables or one scalar in the other."""
    assert not pecli.diff(TWO_SCALARS, DUMPS_THAT_ARE_NOT_SCALARS[name], reasons=False).passed
    assert not pecli.diff(DUMPS_THAT_ARE_NOT_SCALARS[name], TWO_SCALARS, reasons=False).passed


@pytest.mark.parametrize("recipe", ["bfloat16", "float32", "nonsense"])
@pytest.mark.parametrize("style", ["t5", "deberta"])
def test_an_audit_of_relative_positions_refuses_every_recipe_but_exact(
    style: str, recipe: str
) -> None:
    """An index of buckets holds integers, which no arithmetic rounds: only the recipe «exact» has a
    meaning.
    """
    with pytest.raises(pecli.ParameterError, match="it must be one of exact"):
        pecli.audit(pecli.Relative(style=style, seq_len=8), recipe)
