"""What is in a file, for people and for scripts."""

from __future__ import annotations

from typing import Any

from pecli.errors import FileError
from pecli.files import LoadedFile
from pecli.files.provenance import KEY, carried_spec
from pecli.views import screen


def describe(file: LoadedFile, name: str) -> dict[str, Any]:
    """The file's tensors and metadata as JSON data; a spec in it is unpacked."""
    tensors = [
        {"name": table.name, "dtype": table.dtype, "shape": list(table.shape), "bytes": table.nbytes}
        for table in file.tables
    ]
    metadata: dict[str, Any] = dict(file.metadata)
    try:
        spec = carried_spec(file.path, file.metadata)
    except FileError:
        spec = None  # shown as the text it is
    if spec is not None:
        metadata[KEY] = spec
    return {"file": name, "format": file.format, "tensors": tensors, "metadata": metadata}


def show(found: dict[str, Any]) -> None:
    """A line for the file, a table of its tensors, a line for its spec."""
    total = sum(tensor["bytes"] for tensor in found["tensors"])
    plural = "" if len(found["tensors"]) == 1 else "s"
    screen.say(f"{found['file']}  {found['format']}  {len(found['tensors'])} tensor{plural}  {screen.size(total)}")
    columns = ["name", "dtype", "shape", "bytes", "min", "max", "mean", "sha256"]
    columns = [column for column in columns if any(column in tensor for tensor in found["tensors"])]
    rows = [[_cell(tensor.get(column)) for column in columns] for tensor in found["tensors"]]
    if rows:
        _show_grid(columns, rows)
    for key, value in found["metadata"].items():
        screen.say(f"{key}  {_line(value)}")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return screen.shape(tuple(value))
    if isinstance(value, float):
        return f"{value:.7g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    flat = {**{k: v for k, v in value.items() if not isinstance(v, dict)}, **(value.get("parameters") or {})}
    return "  ".join(f"{k}={v}" for k, v in flat.items() if v is not None)


def _show_grid(columns: list[str], rows: list[list[str]]) -> None:
    """Aligned columns; nothing is cut but hashes, and those on a terminal only."""
    if "sha256" in columns and screen.is_terminal():
        rows = [[*row[:-1], f"{row[-1][:8]}…"] for row in rows]
    screen.say_columns(columns, rows)
