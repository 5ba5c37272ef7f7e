"""Encodings applied to arrays, as a model's layer would: computed in float64, rounded once to the input's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.apply_rotation import turn_in_place
from pecli.engine.arrays import Array, Complex
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.table import Table
from pecli.engine.text import bracketed
from pecli.errors import KindError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def add_rows(x: ArrayLike, rows: Table) -> Array:
    """x (…, L, D) plus the first L rows of a table of D columns."""
    values = _floating(x)
    length, dim = values.shape[-2:]
    if dim != rows.width or length > rows.rows:
        shape = bracketed(rows.shape)
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", f"the table of {shape} does not fit it")
    return _sum(values, rows.read(0, length))


def add_bias(scores: ArrayLike, bias: Table) -> Array:
    """Scores (…, H, Lq, Lk) plus a bias (H, L, Lk), of which the last Lq queries count."""
    values = _floating(scores)
    heads, queries, keys = values.shape[-3:] if values.ndim > 2 else (0, 0, 0)
    if heads != bias.shape[0] or keys != bias.shape[2] or queries > keys:
        rule = f"the bias of {bracketed(bias.shape)} does not fit them"
        raise ParameterError("scores", f"of shape {bracketed(values.shape)}", rule)
    return _sum(values, bias.array()[:, -queries:])


def rotate(x: ArrayLike, factors: Complex, layout: str) -> Array:
    """x (…, L, D) with its first d channels rotated by factors (L, d/2); `layout` is halves or interleaved."""
    values = _floating(x)
    dim = 2 * factors.shape[1]
    if values.shape[-1] < dim or values.shape[-2] != len(factors):
        rule = f"{len(factors)} positions of {dim} channels are to be rotated"
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", rule)
    out = values.copy()
    for block in out.reshape(-1, *out.shape[-2:]):
        turn_in_place(block[:, :dim], factors, layout, layout)
    return out


def _floating(x: ArrayLike) -> Array:
    values: Array = np.asarray(x)
    if dtype_name(values.dtype) not in SIGNIFICAND_BITS:
        raise KindError("x", f"of dtype {values.dtype}", "it must be of a floating dtype")
    if values.ndim < 2:
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", "it must be (…, L, D)")
    return values


def _sum(values: Array, addend: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return round_to(widened(values) + widened(addend), dtype_name(values.dtype))
