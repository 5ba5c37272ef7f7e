"""Files with scalars under the names of tables, and recipes of schemes that have none, are answered
without a wrong pass.

A recipe computes a table in the dtypes of some project.
"""

import numpy as np
import pytest

import pecli


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param({"x": np.ones((4, 8), "f4")}, id="one array"),
        pytest.param({"x": np.ones(2, "f4")}, id="a vector"),
        pytest.param({"cos": np.ones((4, 8), "f4"), "sin": np.ones((4, 8), "f4")}, id="tables"),
        pytest.param({"x": np.float32(2)}, id="a scalar"),
    ],
)
def test_scalars_differ_from_tables_in_both_orders(tables: dict[str, np.ndarray]) -> None:
    """cos = 1 and sin = 0.5 in one file; an array, a vector, two tables or one scalar in the other."""
    scalars = {"cos": np.float32(1), "sin": np.float32(0.5)}

    assert not pecli.diff(scalars, tables, reasons=False).passed
    assert not pecli.diff(tables, scalars, reasons=False).passed


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
