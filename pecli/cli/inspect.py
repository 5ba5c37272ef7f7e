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
from pecli.views.file_summary import FileSummary

MAX_IDENTIFIED = 8
"""Tensors of a file that are identified; of more, the search would take too long."""

DEFAULT_RANGE = "0:8"
"""Rows or columns that are shown if only the others are given."""


@command(
    options.argument(
        "file",
        "FILE",
        "A file or a folder, or FILE:NAME for one tensor; - is a .npy on standard input.",
    ),
    options.flag(
        "--stats", "Read the data too: range, mean, quantiles, zeros, NaN, norms of rows, SHA-256."
    ),
    options.text("--filter", "PATTERN", "Only tensors whose names match, such as '*.wpe.*'."),
    options.text("--rows", "RANGE", "Show the numbers of these rows, such as 0:8 or -4:."),
    options.text("--cols", "RANGE", "Show the numbers of these columns. (default: 0:8)"),
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
    summary, names = _listed(loaded, file, filter)
    shows_numbers = rows is not None or cols is not None
    if stats or shows_numbers:
        tensors = {name: loaded.tensors[name] for name in names}
        for entry in summary.tensors:
            if entry.name in tensors and shows_numbers:
                array = tensors[entry.name]
                entry.numbers = file_summary.numbers(
                    array, rows or DEFAULT_RANGE, cols or DEFAULT_RANGE
                )
    if stats:
        _add_statistics(summary, loaded, tensors, is_whole=file in (loaded.path, "-"))
    answer(summary, file_summary.show, json=json)


def _listed(loaded: LoadedFile, file: str, pattern: str | None) -> tuple[FileSummary, list[str]]:
    """Return a summary of the tensors whose names match, and the names of those that can be read."""
    readable = {
        name: array for name, array in loaded.outlines.items() if fnmatchcase(name, pattern or "*")
    }
    unread = [tensor for tensor in loaded.unread if fnmatchcase(tensor.name, pattern or "*")]
    count = len(loaded.tensors) + len(loaded.unread)
    if count and not readable and not unread:
        problem = f"has no tensor that matches {pattern!r}"
        raise FileError(file, problem, f"it has {count}; see them without --filter")
    return file_summary.describe(loaded, file, readable, unread), list(readable)


def _add_statistics(
    summary: FileSummary, loaded: LoadedFile, tensors: Mapping[str, Array], *, is_whole: bool
) -> None:
    """Add statistics of tensors, the schemes that made them, and the check of a stored SHA-256.

    Args:
        summary: The summary to complete.
        loaded: The file.
        tensors: The tensors of the file that match.
        is_whole: True unless the user named a single tensor.
    """
    for entry in summary.tensors:
        if entry.name in tensors:
            entry.statistics = profile(tensors[entry.name])
    if len(tensors) <= MAX_IDENTIFIED:
        from pecli.checks.identify import identify_tensors  # imports all searches, which is slow

        summary.matches = identify_tensors(loaded.path, tensors).matches
    spec = summary.metadata.get(KEY)
    stored_digest = spec.get("sha256") if isinstance(spec, dict) else None
    has_all_tensors = is_whole and len(tensors) == len(loaded.tensors)
    if stored_digest is not None and has_all_tensors:
        summary.sha256_holds = stored_digest == _digest(tensors)


def _digest(tensors: Mapping[str, Array]) -> str:
    digest = sha256()
    for array in tensors.values():
        digest.update(raw_bytes(array))
    return digest.hexdigest()
