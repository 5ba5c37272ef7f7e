"""How the tests ask for a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pecli.checks.compare import compare
from pecli.checks.diagnose import explain
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.scheme import Scheme
from pecli.engine.table import table_of

Array = np.ndarray[Any, Any]
Diagnosed = Callable[..., str]


def passes(scheme: Scheme, tolerance: Tolerance, **arrays: Array) -> bool:
    """Whether the comparison itself has nothing to say."""
    own = {table.name: table for table in (*scheme.tensors(), scheme.plain())}
    return all(compare(own[name], table_of(name, array), tolerance).passed for name, array in arrays.items())


@pytest.fixture
def diagnosed() -> Diagnosed:
    """The diagnosis of some tensors, as one text; they do not pass the comparison."""

    def diagnose(scheme: Scheme, tolerance: Tolerance = EXACT, **arrays: Array) -> str:
        assert not passes(scheme, tolerance, **arrays)
        found = {name: table_of(name, np.ascontiguousarray(array)) for name, array in arrays.items()}
        return "\n".join(explain(scheme, found, tolerance))

    return diagnose
