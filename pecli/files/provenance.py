"""The text under the metadata key `pecli`: what made the tensors, and the sha256 of their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.table import Table
from pecli.errors import FileError
from pecli.files.tee_blocks import Spec

KEY = "pecli"
NO_DIGEST = "0" * 64
"""Stands in the place of the sha256 until that is known."""


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
        spec = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise FileError(path, "its pecli metadata is not JSON") from None
    if not isinstance(spec, dict):
        raise FileError(path, "its pecli metadata is not a JSON object")
    if not isinstance(spec.get("parameters", {}), dict):
        raise FileError(path, "the parameters in its pecli metadata are not a JSON object")
    return spec


def _refuse(literal: str) -> Any:
    raise ValueError(literal)
