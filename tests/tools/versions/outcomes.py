"""Results and exceptions as JSON, so that they can be compared across processes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

import pecli

BYTES_SHOWN = 16


@dataclass(frozen=True)
class Case:
    """An input, described so that a reader can repeat it, and a function that computes its outcome."""

    description: str
    compute: Callable[[], Any]

    def outcome(self) -> Any:
        """Return the result as JSON; an exception is an outcome as well."""
        try:
            return as_json(self.compute())
        except Exception as problem:
            return exception_as_json(problem)


def exception_as_json(problem: Exception) -> dict[str, Any]:
    raised = {"raised": public_class(problem), "message": str(problem)}
    for field in ("name", "path"):
        if isinstance(getattr(problem, field, None), str):
            raised[field] = getattr(problem, field)
    return raised


def public_class(problem: Exception) -> str:
    """Return the class that users can catch: a subclass of it may be added in any version."""
    for kind in type(problem).__mro__:
        if kind.__name__ in pecli.__all__:
            return kind.__name__
    return type(problem).__name__


def as_json(value: Any) -> Any:
    """Return plain data for a result; an array is its shape, dtype and a digest of its bytes."""
    if hasattr(value, "as_json"):
        return as_json(value.as_json())
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return array_as_json(value)
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def array_as_json(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = np.ascontiguousarray(array).tobytes()
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "sha256": sha256(data).hexdigest()[:BYTES_SHOWN],
    }
