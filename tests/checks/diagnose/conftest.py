"""How the tests ask for a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pecli.checks.compare import compare
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.checks.verify import verify
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of

Array = np.ndarray[Any, Any]
Diagnosed = Callable[..., str]


def passes(scheme: Scheme, tolerance: Tolerance, **arrays: Array) -> bool:
    """Whether the comparison itself has nothing to say."""
    own = {table.name: table for table in (*scheme.tensors(), scheme.single_array())}
    return all(compare(own[name], table_of(name, array), tolerance).passed for name, array in arrays.items())


@pytest.fixture
def diagnosed(tmp_path: Path) -> Diagnosed:
    """What `verify` says of a file with some tensors, as one text; it does not pass."""

    def diagnose(scheme: Scheme, tolerance: Tolerance = EXACT, **arrays: Array) -> str:
        tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        if any(array.dtype.kind == "c" for array in tensors.values()):
            path = tmp_path / "found.npz"
            np.savez(path, **tensors)  # type: ignore[arg-type]
        else:
            path = tmp_path / "found.safetensors"
            save_file(tensors, path)
        result = verify(path, scheme, tolerance, any_dtype=False)
        assert not result.passed
        return "\n".join(result.diagnosis)

    return diagnose
