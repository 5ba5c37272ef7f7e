"""Queries or keys after a rotation, compared with those before it turned as a model asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare import compare, problems_of
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.explain_failures import diagnosis
from pecli.checks.verify.verification import Verification
from pecli.engine.arrays import Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.explain.rotation import explain_rotation, pairs, unpaired
from pecli.files.load import opened
from pecli.models.encoding import ModelEncodings

if TYPE_CHECKING:
    from pecli.files.load import Given

LAYOUTS = {"deepseek": ("interleaved", "halves")}
"""How pairs lie before and after, where that differs."""


def verify_rotated(
    after: Given,
    before: Given,
    model: ModelEncodings,
    tolerance: Tolerance,
    *,
    layer_type: str | None = None,
    offset: int | None = None,
    length: int | None = None,
    recipe: str = "exact",
    runtime: str = "none",
) -> Verification:
    """Compare rotated tensors (…, positions, channels) with the rotation of those before."""
    ropes = [each for each in model.encodings if each.is_rotary]
    encoding = model.one(layer_type) if layer_type is not None else ropes[0] if ropes else None
    if encoding is None or not encoding.is_rotary:
        raise ParameterError("before", "given", "the model has no rotary encoding", "leave it out")
    label, found, name, dtype = _only(after)
    _, source, _, _ = _only(before)
    if found.shape != source.shape or found.ndim < 2:
        raise FileError(
            label,
            f"its shape is {found.shape}, that before {source.shape}",
            "they must be alike, (…, positions, channels)",
        )
    computed = {"recipe": recipe, "runtime": runtime}
    rope = encoding.rope(found.shape[-2], offset=offset or 0, length=length, dtype="float64", **computed)
    dim = rope.rotary_dim
    if dim > found.shape[-1]:
        raise FileError(
            label, f"has {found.shape[-1]} channels, the model rotates {dim}", "name the tensor of one head"
        )
    layouts = LAYOUTS.get(encoding.layout or "", (encoding.layout or "halves",) * 2)
    tables = rope.tables()
    expected = source.copy()
    turned = pairs(source, dim, layouts[0]) * (widened(tables["cos"]) + 1j * widened(tables["sin"]))
    expected[..., :dim] = unpaired(turned, layouts[1])
    result = compare(table_of(name, round_to(expected, dtype)), table_of(name, round_to(found, dtype)), tolerance)
    why = [] if result.passed else explain_rotation(source, found, rope, layouts, tolerance.atol)
    lines = diagnosis(why, [result], [rope])
    return Verification(label, rope.name, (result,), problems_of([result]), lines, {}, tuple(why))


def _only(given: Given) -> tuple[str, Floats, str, str]:
    """The one tensor of a file, in float64, with its name and dtype."""
    label, file = opened(given)
    with file:
        file.check()
        if len(file.tables) != 1:
            raise FileError(label, f"holds {len(file.tables)} tensors", "name one: FILE:NAME")
        table: Table = file.tables[0]
        dtype = table.dtype if table.dtype in SIGNIFICAND_BITS else "float32"
        return label, np.asarray(widened(table.array())), table.name, dtype
