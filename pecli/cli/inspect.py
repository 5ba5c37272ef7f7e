"""`pecli inspect`: the contents of a file."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import sha256

from pecli.checks.statistics import profile
from pecli.cli import options
from pecli.cli.answers import answer
from pecli.cli.commands import command
from pecli.engine.arrays import Array
from pecli.engine.table import raw_bytes
from pecli.errors import FileError
from pecli.files.contents import LoadedFile
from pecli.files.load import open_tensors
from pecli.files.output import KEY
from pecli.views import file_summary
from pecli.views.file_summary import FileSummary, TensorSummary

MAX_IDENTIFIED = 8
"""Tensors of a file that are identified; of more, the search would take too long."""

DEFAULT_RANGE = "0:8"
"""Rows or columns that are shown if only the others are given."""


@command(
    options.argument(
        "file",
        "FILE",
        "A file or a folder, or FILE:NAME for one tensor; - is standard input (.npy, JSON, text).",
    ),
    options.flag(
        "--stats", "Read the data too: range, mean, quantiles, zeros, NaN, norms of rows, SHA-256."
    ),
    options.text("--filter", "PATTERN", "Only tensors whose names match, such as '*.wpe.*'."),
    options.text("--rows", "RANGE", "Show the numbers of these rows, such as 0:8 or -4:."),
    options.text("--cols", "RANGE", "Show the numbers of these columns. (default: 0:8)"),
    *options.RAW,
    options.JSON,
)
def inspect(
    file: str, stats: bool, filter: str | None, rows: str | None, cols: str | None, json: bool
) -> None:
    """Show the contents of a file: tensors, dtypes, shapes, and the spec that made it.

    Only the header is read, unless --stats, --rows or --cols is given.

    Examples:
      pecli inspect rope.safetensors
      pecli inspect pe.npy --stats
      pecli inspect model.safetensors --filter '*rotary*'
      pecli inspect model.safetensors:wpe.weight --rows 0:8 --cols 0:6
    """
    loaded = open_tensors(file)
    summary = _summary_of_matching(loaded, file, filter)
    if stats:
        _add_statistics(summary, loaded, is_whole=file in (loaded.path, "-"))
    if rows is not None or cols is not None:
        _add_numbers(summary, loaded, rows or DEFAULT_RANGE, cols or DEFAULT_RANGE)
    answer(summary, file_summary.show, json=json)


def _summary_of_matching(loaded: LoadedFile, file: str, pattern: str | None) -> FileSummary:
    """Summarise the tensors whose names match a pattern; None and an empty one match all.

    Args:
        loaded: The open file.
        file: Its name as the user typed it, perhaps with a tensor's: FILE:NAME.
        pattern: A pattern of the shell, such as `*rotary*`.

    Raises:
        FileError: No name matches.
    """
    shown = pattern or "*"
    names = [name for name in loaded.outlines if fnmatchcase(name, shown)]
    outlines = options.only(loaded.outlines, names)
    unread = [tensor for tensor in loaded.unread if fnmatchcase(tensor.name, shown)]
    summary = file_summary.describe(loaded, file, outlines, unread)
    no_name_matches = summary.tensor_count > 0 and not summary.tensors
    if no_name_matches:
        problem = f"has no tensor that matches {pattern!r}"
        advice = f"it has {summary.tensor_count}; see them without --filter"
        raise FileError(file, problem, advice)
    return summary


def _readable_tensors(
    summary: FileSummary, loaded: LoadedFile
) -> list[tuple[TensorSummary, Array]]:
    """Return the tensors of a summary that can be read, each with its array.

    A GGUF may hold quantised types, which are only listed.
    """
    tensors = loaded.tensors
    return [(entry, tensors[entry.name]) for entry in summary.tensors if entry.name in tensors]


def _add_numbers(summary: FileSummary, loaded: LoadedFile, rows: str, columns: str) -> None:
    """Add the elements in some rows and columns of every tensor; both are ranges such as «0:8»."""
    for entry, array in _readable_tensors(summary, loaded):
        entry.numbers = file_summary.numbers(array, rows, columns)


def _add_statistics(summary: FileSummary, loaded: LoadedFile, *, is_whole: bool) -> None:
    """Add statistics of tensors, the schemes that made them, and the check of a stored SHA-256.

    Args:
        summary: The summary to complete.
        loaded: The file.
        is_whole: True unless the user named a single tensor.
    """
    tensors: dict[str, Array] = {}
    for entry, array in _readable_tensors(summary, loaded):
        entry.statistics = profile(array)
        tensors[entry.name] = array
    if len(tensors) <= MAX_IDENTIFIED:
        from pecli.checks.identify import identify_tensors  # imports all searches, which is slow

        summary.matches = identify_tensors(loaded.path, tensors).matches
    has_all_tensors = is_whole and len(tensors) == len(loaded.tensors)
    stored_digest = _stored_digest(summary)
    if stored_digest is not None and has_all_tensors:
        summary.sha256_holds = stored_digest == _digest(tensors)


def _stored_digest(summary: FileSummary) -> object:
    """Return the SHA-256 in the spec that a file carries; None without a valid spec."""
    spec = summary.metadata.get(KEY)
    if isinstance(spec, dict):
        return spec.get("sha256")
    return None


def _digest(tensors: Mapping[str, Array]) -> str:
    """Return the SHA-256 of the bytes of tensors in their order, as `save_tables` stores it."""
    digest = sha256()
    for array in tensors.values():
        digest.update(raw_bytes(array))
    return digest.hexdigest()
