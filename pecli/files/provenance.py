"""The text under the metadata key `pecli`: what made the tensors, and the sha256 of their bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pecli.engine.arrays import numpy_dtype
from pecli.engine.table import Table
from pecli.errors import FileError
from pecli.files.output import Spec

KEY = "pecli"
NO_DIGEST = "0" * 64
"""Stands in the place of the sha256 until that is known."""
MAX_DEPTH = 32


def provenance(spec: Spec, digest: str) -> str:
    """One JSON text, the same for the same spec and bytes."""
    return compact({**spec, "sha256": digest})


def compact(value: object) -> str:
    """JSON without spaces, dates or chance: keys sorted, no NaN."""
    import json

    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def file_order(tables: Sequence[Table]) -> list[Table]:
    """Large elements first, so that tensors packed tightly are all aligned; names decide among equals."""
    return sorted(tables, key=lambda table: (-numpy_dtype(table.dtype).itemsize, table.name))


def carried_spec(path: str, metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """The spec in a file's metadata, if there is one: scheme, parameters, version and sha256."""
    import json

    text = metadata.get(KEY)
    if text is None:
        return None
    try:
        spec = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        raise FileError(path, "its pecli metadata is not JSON, or holds a number out of range") from None
    if _depth(spec) > MAX_DEPTH:
        raise FileError(path, f"its pecli metadata is nested more than {MAX_DEPTH} levels deep")
    if not isinstance(spec, dict):
        raise FileError(path, "its pecli metadata is not a JSON object")
    if not isinstance(spec.get("parameters", {}), dict):
        raise FileError(path, "the parameters in its pecli metadata are not a JSON object")
    return spec


def _refuse(literal: str) -> Any:
    raise ValueError(literal)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _depth(value: Any) -> int:
    """How deep lists and objects are nested, counted level by level: recursion has a limit of its own."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth
