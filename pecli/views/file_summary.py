"""What is in a file, for people and for scripts."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pecli.engine.arrays import Array, dtype_name, indices
from pecli.errors import FileError, ParameterError, brief, number
from pecli.files.contents import LoadedFile, UnreadTensor, carried_spec
from pecli.files.output import KEY
from pecli.views import screen

MAX_SHOWN = 100_000  #: Elements shown at once
STATISTICS = ("min", "max", "mean", "std")


def describe(
    file: LoadedFile, name: str, chosen: Mapping[str, Array], unread: Sequence[UnreadTensor] = ()
) -> dict[str, Any]:
    """Tensors of the file, those that are only named last, and its metadata as JSON data; a spec in it is unpacked."""
    metadata: dict[str, Any] = dict(file.metadata)
    with suppress(FileError):  # of a spec that is shown as the text it is
        if (spec := carried_spec(file.path, file.metadata)) is not None:
            metadata[KEY] = spec
    about = {
        "file": name,
        "format": file.format,
        "tensor_count": len(file.tensors) + len(file.unread),
    }
    rows: list[Any] = [
        (key, dtype_name(array.dtype), array.shape, array.nbytes) for key, array in chosen.items()
    ]
    rows += [(tensor.name, tensor.dtype, tensor.shape, tensor.nbytes) for tensor in unread]
    tensors = [
        {"name": name, "dtype": dtype, "shape": [*shape], "bytes": size}
        for name, dtype, shape, size in rows
    ]
    return {**about, "tensors": tensors, "metadata": metadata}


def numbers(array: Array, rows: str, columns: str) -> dict[str, Any]:
    """Some elements of a tensor seen as rows, with their indices."""
    width = array.shape[-1] if array.ndim > 1 else 1
    matrix = array.reshape(math.prod(array.shape[:-1]) if array.ndim > 1 else array.size, width)
    down = indices("rows", rows, len(matrix))
    across = indices("cols", columns, width)
    if (
        max(1, len(down)) * max(1, len(across)) > MAX_SHOWN
    ):  # of rows without elements, their numbers are shown
        rule = f"at most {MAX_SHOWN:,} elements are shown at once"
        raise ParameterError("rows", f"{len(down)} × {len(across)}", rule)
    values = matrix[down.start : down.stop, across.start : across.stop].tolist()
    plain = {"b": bool, "i": int, "u": int, "c": str}.get(array.dtype.kind, float)
    return {
        "rows": list(down),
        "columns": list(across),
        "values": [[plain(value) for value in row] for row in values],
    }


def show(found: dict[str, Any]) -> None:
    """A line for the file, a table of its tensors, what was read of them, a line for its spec."""
    tensors = found["tensors"]
    total = sum(tensor["bytes"] or 0 for tensor in tensors)
    of_all = f" of {found['tensor_count']:,}" if len(tensors) < found["tensor_count"] else ""
    count = f"{len(tensors):,}{of_all} tensor{'' if found['tensor_count'] == 1 else 's'}"
    screen.say_styled(
        (found["file"], "bold"), (f"  {found['format']}  {count}  {screen.size(total)}", "")
    )
    heads = [
        "name",
        "dtype",
        "shape",
        "bytes",
        *(name for name in STATISTICS if any(name in each for each in tensors)),
    ]
    if tensors:
        screen.say_table(heads, [[_cell(tensor.get(head)) for head in heads] for tensor in tensors])
    for tensor in tensors:
        if "sha256" in tensor:
            _show_profile(tensor)
        if "numbers" in tensor:
            _show_numbers(tensor["name"], tensor["numbers"])
    for match in found.get("matches", ()):
        screen.say_wrapped(
            f"{', '.join(match['tensors'])}: as made by {match['command'].partition(' -o ')[0]}"
        )
    for key, value in found["metadata"].items():
        screen.say_wrapped(f"{key}  {_line(value)}")
    if "sha256_holds" in found:
        lost = ("stored SHA-256 does NOT match: the data changed", "bold red")
        screen.say_styled(("stored SHA-256 matches", "green") if found["sha256_holds"] else lost)


def _show_profile(tensor: dict[str, Any]) -> None:
    screen.say_heading(tensor["name"], "bold")
    if tensor["quantiles"]:
        parts = (
            f"{float(share):.0%} {_cell(value)}" for share, value in tensor["quantiles"].items()
        )
        screen.say_wrapped(f"  quantiles   {'   '.join(parts)}")
    screen.say_wrapped(
        f"  zeros {tensor['zeros']:,}   NaN {tensor['nan']:,}   inf {tensor['inf']:,}"
    )
    if "rows" in tensor:
        if norm := tensor["rows"]["norm"]:
            low, high, mean = (_cell(norm[name]) for name in ("min", "max", "mean"))
            screen.say_wrapped(f"  norm of a row   {low} … {high}, mean {mean}")
        screen.say_wrapped(f"  constant rows {tensor['rows']['constant']:,}")
    screen.say_wrapped(f"  sha256      {tensor['sha256']}")


def _show_numbers(name: str, shown: dict[str, Any]) -> None:
    screen.say_heading(name, "bold")
    margin = max((len(str(row)) for row in shown["rows"]), default=0)
    rows = zip(shown["rows"], shown["values"], strict=True)
    lines = [[str(row).rjust(margin), *map(_cell, values)] for row, values in rows]
    screen.say_table([" " * margin, *map(str, shown["columns"])], lines, right=True)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return screen.shape(tuple(value))
    if isinstance(value, float):
        return number(value, 7)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    flat = {k: v for k, v in value.items() if k != "parameters"} | (value.get("parameters") or {})
    shown = {
        k: f"({_line(v)})" if isinstance(v, dict) else brief(v)
        for k, v in flat.items()
        if v is not None
    }
    return "  ".join(f"{k}={text}" for k, text in shown.items())
