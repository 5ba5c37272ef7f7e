"""What layers take: arrays of floating numbers, of the shapes they can work on."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.arrays import dtype_name, floating
from pecli.errors import ParameterError


def gradient(
    grad: ArrayLike, shape: tuple[int, ...] | None, name: str = "grad", advice: str = "call the layer first"
) -> NDArray[Any]:
    """The gradient of the last output, which had that shape; None where there was no call yet."""
    if shape is None:
        raise ParameterError(name, "without a call", "gradients belong to the last call", advice)
    array = floating(name, grad)
    if array.shape != shape:
        raise shape_error(name, array, f"the last output was of shape {shape}", "they must be the same")
    return array


def shape_error(name: str, array: NDArray[Any], rule: str, advice: str = "") -> ParameterError:
    """The error for an array whose shape breaks a rule."""
    return ParameterError(name, f"of shape {array.shape}", rule, advice)


def layer_repr(layer: object) -> str:
    """What makes a layer, without the defaults."""
    rules = signature(type(layer)).parameters
    values = {name: getattr(layer, name) for name in rules if hasattr(layer, name)}
    said = [f"{name}={value!r}" for name, value in values.items() if value != rules[name].default]
    return f"{type(layer).__name__}({', '.join(said)})"


def compute_dtype(*dtypes: np.dtype[Any]) -> str:
    """What numbers of these dtypes are computed in."""
    return "float64" if any(dtype_name(dtype) == "float64" for dtype in dtypes) else "float32"
