"""Contents of a file, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING

from pecli.engine.arrays import Array, dtype_name, indices
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.errors import FileError, ParameterError, brief, counted, number
from pecli.files.contents import LoadedFile, UnreadTensor, carried_spec
from pecli.files.output import KEY
from pecli.views import screen
from pecli.views.screen import Styled
from pecli.views.text_table import print_table

if TYPE_CHECKING:
    from pecli.checks.identify import Match

MAX_SHOWN = 100_000
"""Elements that are shown at once."""

_PLAIN_TYPES: dict[str, type[bool | int | str]] = {"b": bool, "i": int, "u": int, "c": str}
"""Python's types for the elements of arrays, by the kind of the dtype; all others are floats."""

STATISTICS = ("min", "max", "mean", "std")
"""Statistics with a column of their own in the table of tensors."""


@dataclass
class Numbers:
    """Some elements of a tensor that is seen as rows."""

    rows: list[int]
    columns: list[int]
    values: list[list[bool | int | float | str]]

    def as_json(self) -> JsonObject:
        return {"rows": self.rows, "columns": self.columns, "values": self.values}


@dataclass
class TensorSummary:
    """A tensor of a file."""

    name: str
    dtype: str
    shape: list[int]
    nbytes: int | None  #: None if the format does not define it, as for an unknown GGML type
    statistics: NamedValues = field(default_factory=dict)
    numbers: Numbers | None = None

    def as_json(self) -> JsonObject:
        """Return the tensor for JSON; its statistics and numbers only if they were requested."""
        entry = {
            "name": self.name,
            "dtype": self.dtype,
            "shape": self.shape,
            "bytes": self.nbytes,
            **self.statistics,
        }
        if self.numbers is not None:
            entry["numbers"] = self.numbers.as_json()
        return entry


@dataclass
class FileSummary:
    """The tensors of a file and its metadata."""

    file: str
    format: str
    tensor_count: int  #: of all tensors, also those that are not listed
    tensors: list[TensorSummary]
    metadata: JsonObject
    matches: Sequence[Match] | None = None  #: schemes that made the tensors; None if not searched
    sha256_holds: bool | None = None  #: None if the file carries no SHA-256, or it was not computed

    def as_json(self) -> JsonObject:
        """Return the file for JSON; matches and the verdict on its SHA-256 only with `--stats`."""
        summary = {
            "file": self.file,
            "format": self.format,
            "tensor_count": self.tensor_count,
            "tensors": [tensor.as_json() for tensor in self.tensors],
            "metadata": self.metadata,
        }
        if self.matches is not None:
            summary["matches"] = [match.as_json() for match in self.matches]
        if self.sha256_holds is not None:
            summary["sha256_holds"] = self.sha256_holds
        return summary


def describe(
    file: LoadedFile, name: str, chosen: Mapping[str, Array], unread: Sequence[UnreadTensor] = ()
) -> FileSummary:
    """Return the names, types and sizes of a file's tensors, and its metadata.

    Args:
        file: The file.
        name: The name by which the user called it.
        chosen: Tensors to list.
        unread: Tensors of a type that pecli does not read; they come last.
    """
    tensors = []
    for tensor_name, array in chosen.items():
        dtype = dtype_name(array.dtype)
        tensors.append(TensorSummary(tensor_name, dtype, list(array.shape), array.nbytes))
    for tensor in unread:
        shape = list(tensor.shape)
        tensors.append(TensorSummary(tensor.name, tensor.dtype, shape, tensor.nbytes))
    tensor_count = len(file.tensors) + len(file.unread)
    return FileSummary(name, file.format, tensor_count, tensors, _metadata(file))


def _metadata(file: LoadedFile) -> dict[str, object]:
    """Return the metadata of a file; a spec in it is parsed, and left as text if it cannot be."""
    metadata: JsonObject = dict(file.metadata)
    with suppress(FileError):
        spec = carried_spec(file.path, file.metadata)
        if spec is not None:
            metadata[KEY] = spec
    return metadata


def numbers(array: Array, rows: str, columns: str) -> Numbers:
    """Return some elements of a tensor, for `pecli inspect --rows 0:4 --cols 0:8`.

    All axes except the last are flattened to rows: of a tensor (2, 8, 64), row 9 is [1, 1].

    Args:
        array: The tensor; a vector has one column.
        rows: A range of rows, such as `0:8` or `-4:`.
        columns: A range of columns.

    Raises:
        ParameterError: A range is not valid, or has too many elements.
    """
    matrix = _as_matrix(array)
    height, width = matrix.shape
    shown_rows = indices("rows", rows, height)
    shown_columns = indices("cols", columns, width)
    _check_size(len(shown_rows), len(shown_columns))
    row_slice = slice(shown_rows.start, shown_rows.stop)
    column_slice = slice(shown_columns.start, shown_columns.stop)
    values = _plain_values(matrix[row_slice, column_slice])
    return Numbers(list(shown_rows), list(shown_columns), values)


def _as_matrix(array: Array) -> Array:
    """Return a tensor (2, 8, 64) as a matrix (16, 64), and a vector as one column."""
    if array.ndim < 2:
        return array.reshape(array.size, 1)
    *leading, width = array.shape
    return array.reshape(math.prod(leading), width)


def _check_size(row_count: int, column_count: int) -> None:
    """Raise ParameterError if too many elements are to be shown.

    Rows without columns still take a line each, so they count as one element.
    """
    if max(1, row_count) * max(1, column_count) > MAX_SHOWN:
        rule = f"at most {MAX_SHOWN:,} elements are shown at once"
        raise ParameterError("rows", f"{row_count} × {column_count}", rule)


def _plain_values(matrix: Array) -> list[list[bool | int | float | str]]:
    """Return the elements as Python's values, by the kind of their dtype.

    Elements of bfloat16 and float8 arrays are not Python's floats yet. JSON has no complex numbers,
    so they become texts.
    """
    plain_type = _PLAIN_TYPES.get(matrix.dtype.kind, float)
    return [list(map(plain_type, row)) for row in matrix.tolist()]


def show(summary: FileSummary) -> None:
    """Print a line for the file, a table of its tensors, their statistics and numbers, and the metadata."""
    total_bytes = sum(tensor.nbytes or 0 for tensor in summary.tensors)
    about = f"  {summary.format}  {_count(summary)}  {screen.size(total_bytes)}"
    screen.print_styled(Styled(summary.file, "bold"), Styled(about))
    if summary.tensors:
        _show_tensors(summary.tensors)
    for tensor in summary.tensors:
        _show_contents(tensor)
    for match in summary.matches or ():
        screen.print_wrapped(f"{', '.join(match.tensors)}: as made by {_source(match)}")
    _show_metadata(summary)


def _show_metadata(summary: FileSummary) -> None:
    """Print the metadata of a file, and if its data still have the SHA-256 that is stored in it."""
    for key, value in summary.metadata.items():
        screen.print_wrapped(f"{key}  {_metadata_line(value)}")
    if summary.sha256_holds is not None:
        screen.print_styled(_sha256_verdict(holds=summary.sha256_holds))


def _show_contents(tensor: TensorSummary) -> None:
    """Print the statistics and the numbers of a tensor, if the command has asked for them."""
    if tensor.statistics:
        _show_statistics(tensor.name, tensor.statistics)
    if tensor.numbers is not None:
        _show_numbers(tensor.name, tensor.numbers)


def _source(match: Match) -> str:
    """Return the command of a match without an output file; only its scheme if the command is too long to be read."""
    from pecli.explain.words import is_readable

    command = match.command.partition(" -o ")[0]
    if is_readable(command):
        return command
    return f"pecli {match.scheme.name} …"


def _count(summary: FileSummary) -> str:
    """Return the number of tensors: «3 tensors», or «2 of 3 tensors» if some are not listed."""
    all_tensors = counted(summary.tensor_count, "tensor")
    if len(summary.tensors) < summary.tensor_count:
        return f"{len(summary.tensors):,} of {all_tensors}"
    return all_tensors


def _show_tensors(tensors: Sequence[TensorSummary]) -> None:
    """Print a table of tensors, with a column for each statistic that any of them has."""
    statistics = [name for name in STATISTICS if _any_has(tensors, name)]
    rows: list[list[str]] = []
    for tensor in tensors:
        row = [tensor.name, tensor.dtype, screen.shape(tensor.shape), _cell_text(tensor.nbytes)]
        row += [_cell_text(tensor.statistics.get(name)) for name in statistics]
        rows.append(row)
    print_table(["name", "dtype", "shape", "bytes", *statistics], rows)


def _any_has(tensors: Sequence[TensorSummary], statistic: str) -> bool:
    return any(statistic in tensor.statistics for tensor in tensors)


def _sha256_verdict(*, holds: bool) -> Styled:
    if holds:
        return Styled("stored SHA-256 matches", "green")
    return Styled("stored SHA-256 does NOT match: the data changed", "bold red")


def _show_statistics(name: str, statistics: NamedValues) -> None:
    """Print the statistics of a tensor that the table of tensors does not have."""
    screen.print_heading(name, "bold")
    if statistics["quantiles"]:  # Complex numbers have none.
        _show_quantiles(statistics["quantiles"])
    counts = f"zeros {statistics['zeros']:,}   NaN {statistics['nan']:,}"
    screen.print_wrapped(f"  {counts}   inf {statistics['inf']:,}")
    if "rows" in statistics:
        _show_rows(statistics["rows"])
    screen.print_wrapped(f"  sha256      {statistics['sha256']}")


def _show_quantiles(quantiles: NamedValues) -> None:
    """Print quantiles by their shares: «0% -1   25% -0.5   50% 0», as of a table of sines."""
    parts = [f"{float(share):.0%} {_cell_text(value)}" for share, value in quantiles.items()]
    screen.print_wrapped(f"  quantiles   {'   '.join(parts)}")


def _show_rows(rows: NamedValues) -> None:
    """Print statistics of a tensor's rows; there are none of norms if no row has a finite one."""
    norm = rows["norm"]
    if norm:
        low, high, mean = (_cell_text(norm[name]) for name in ("min", "max", "mean"))
        screen.print_wrapped(f"  norm of a row   {low} … {high}, mean {mean}")
    screen.print_wrapped(f"  constant rows {rows['constant']:,}")


def _show_numbers(name: str, shown: Numbers) -> None:
    """Print some elements of a tensor under their columns, with the numbers of the rows in a margin."""
    screen.print_heading(name, "bold")
    margin = max((len(str(row)) for row in shown.rows), default=0)
    lines: list[list[str]] = []
    for row, values in zip(shown.rows, shown.values, strict=True):
        lines.append([str(row).rjust(margin), *map(_cell_text, values)])
    print_table([" " * margin, *map(str, shown.columns)], lines, right=True)


@singledispatch
def _cell_text(value: object) -> str:
    """Format a statistic or an element: «1,024», «0.8414710», «true»; empty if it is missing."""
    return str(value)


@_cell_text.register
def _(value: None) -> str:
    return ""


@_cell_text.register
def _(value: bool) -> str:
    return str(value).lower()


@_cell_text.register
def _(value: int) -> str:
    return f"{value:,}"


@_cell_text.register
def _(value: float) -> str:
    return number(value, 7)


def _metadata_line(value: object) -> str:
    """Return metadata in one line; the parameters of a spec stand beside its other fields.

    Parameters without a value are left out. A mapping in a mapping is in parentheses.

    >>> _metadata_line({"scheme": "rope", "parameters": {"dim": 8, "scaling": None}})
    'scheme=rope  dim=8'
    >>> _metadata_line({"scheme": "rope", "grid": {"height": 4}})
    'scheme=rope  grid=(height=4)'
    """
    if not isinstance(value, dict):
        return str(value)
    fields = {name: field_value for name, field_value in value.items() if name != "parameters"}
    fields |= value.get("parameters") or {}
    words: list[str] = []
    for name, field_value in fields.items():
        if isinstance(field_value, dict):
            words.append(f"{name}=({_metadata_line(field_value)})")
        elif field_value is not None:
            words.append(f"{name}={brief(field_value)}")
    return "  ".join(words)
