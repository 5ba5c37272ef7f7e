"""What is in a file, for people and for scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import Array, dtype_name, indices
from pecli.errors import FileError, ParameterError, spelled
from pecli.files import LoadedFile
from pecli.files.contents import carried_spec
from pecli.files.output import KEY
from pecli.views import screen

if TYPE_CHECKING:
    from pecli.files.contents import UnreadTensor

MAX_SHOWN = 100_000
"""Elements shown at once."""
STATISTICS = ("min", "max", "mean", "std")


def describe(file: LoadedFile, name: str, chosen: Mapping[str, Array]) -> dict[str, Any]:
    """Tensors of the file and its metadata as JSON data; a spec in it is unpacked."""
    metadata: dict[str, Any] = dict(file.metadata)
    try:
        spec = carried_spec(file.path, file.metadata)
    except FileError:
        spec = None  # shown as the text it is
    if spec is not None:
        metadata[KEY] = spec
    return {
        "file": name,
        "format": file.format,
        "tensor_count": len(file.tensors) + len(file.unread),
        "tensors": [
            {"name": key, "dtype": dtype_name(array.dtype), "shape": list(array.shape), "bytes": array.nbytes}
            for key, array in chosen.items()
        ],
        "metadata": metadata,
    }


def unread_entry(tensor: UnreadTensor) -> dict[str, Any]:
    """What is known of a tensor that is only named."""
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape), "bytes": tensor.nbytes}


def numbers(array: Array, rows: str, columns: str) -> dict[str, Any]:
    """Some elements of a tensor seen as rows, with their indices."""
    width = array.shape[-1] if array.ndim > 1 else 1
    matrix = array.reshape(math.prod(array.shape[:-1]) if array.ndim > 1 else array.size, width)
    down = indices("rows", rows, len(matrix))
    across = indices("cols", columns, width)
    if max(1, len(down)) * max(1, len(across)) > MAX_SHOWN:  # of rows without elements, their numbers are shown
        rule = f"at most {MAX_SHOWN:,} elements are shown at once"
        raise ParameterError("rows", f"{len(down)} × {len(across)}", rule)
    values = matrix[down.start : down.stop, across.start : across.stop].tolist()
    plain = str if array.dtype.kind == "c" else _plain
    return {"rows": list(down), "columns": list(across), "values": [[plain(value) for value in row] for row in values]}


def _plain(value: Any) -> Any:
    """A number of any dtype as one of Python's."""
    return value if isinstance(value, (bool, int)) else float(value)


def show(found: dict[str, Any]) -> None:
    """A line for the file, a table of its tensors, what was read of them, a line for its spec."""
    tensors = found["tensors"]
    total = sum(tensor["bytes"] or 0 for tensor in tensors)
    of_all = f" of {found['tensor_count']:,}" if len(tensors) < found["tensor_count"] else ""
    count = f"{len(tensors):,}{of_all} tensor{'' if found['tensor_count'] == 1 else 's'}"
    screen.say_styled((found["file"], "bold"), (f"  {found['format']}  {count}  {screen.size(total)}", ""))
    columns = [
        "name",
        "dtype",
        "shape",
        "bytes",
        *(name for name in STATISTICS if any(name in each for each in tensors)),
    ]
    if tensors:
        screen.say_table(columns, [[_cell(tensor.get(column)) for column in columns] for tensor in tensors])
    for tensor in tensors:
        for lines in (_profile(tensor), _numbers(tensor)):
            _say_below(tensor["name"], lines)
    for match in found.get("matches", ()):
        screen.say_wrapped(f"{', '.join(match['tensors'])}: made by {match['command'].partition(' -o ')[0]}")
    for key, value in found["metadata"].items():
        screen.say_wrapped(f"{key}  {_line(value)}")
    if "sha256_holds" in found:
        holds, lost = (
            ("stored SHA-256 matches", "green"),
            ("stored SHA-256 does NOT match: the data changed", "bold red"),
        )
        screen.say_styled(holds if found["sha256_holds"] else lost)


def _say_below(name: str, lines: Sequence[str]) -> None:
    """Lines about a tensor under its name; nothing where there are none."""
    if lines:
        screen.say()
        screen.say_styled((name, "bold"))
    for line in lines:
        screen.say_wrapped(line)


def _profile(tensor: dict[str, Any]) -> list[str]:
    """The distribution of a tensor's data, one line per subject."""
    if "sha256" not in tensor:
        return []
    lines = []
    if tensor["quantiles"]:
        parts = (f"{float(share):.0%} {_cell(value)}" for share, value in tensor["quantiles"].items())
        lines.append(f"  quantiles   {'   '.join(parts)}")
    lines.append(f"  zeros {tensor['zeros']:,}   NaN {tensor['nan']:,}   inf {tensor['inf']:,}")
    if "rows" in tensor:
        lines += _rows(tensor["rows"])
    return [*lines, f"  sha256      {tensor['sha256']}"]


def _rows(rows: dict[str, Any]) -> list[str]:
    lines = []
    if norm := rows["norm"]:
        lines.append(f"  norm of a row   {_cell(norm['min'])} … {_cell(norm['max'])}, mean {_cell(norm['mean'])}")
    lines.append(f"  constant rows {rows['constant']:,}")
    return lines


def _numbers(tensor: dict[str, Any]) -> list[str]:
    """The elements that were asked for, in aligned columns."""
    if "numbers" not in tensor:
        return []
    shown = tensor["numbers"]
    heads = ["", *(str(column) for column in shown["columns"])]
    lines = [[str(row), *map(_cell, values)] for row, values in zip(shown["rows"], shown["values"], strict=True)]
    return [line for block in _blocks([heads, *lines]) for line in screen.aligned(block, right=True)]


def _blocks(lines: Sequence[Sequence[str]]) -> Iterator[list[list[str]]]:
    """On a terminal, as many columns at a time as fit, each time beside the numbers of the rows."""
    widths = [max(map(len, column)) + 2 for column in zip(*lines, strict=True)]
    room = screen.console().width - widths[0] + 2 if screen.is_terminal() else sum(widths)
    start = 1
    while start < len(widths) or start == 1:
        stop = start + 1
        while stop < len(widths) and sum(widths[start : stop + 1]) <= room:
            stop += 1
        yield [[line[0], *line[start:stop]] for line in lines]
        start = stop


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return screen.shape(tuple(value))
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    flat = {**{k: v for k, v in value.items() if not isinstance(v, dict)}, **(value.get("parameters") or {})}
    return "  ".join(f"{k}={spelled(v)}" for k, v in flat.items() if v is not None)
