"""`pecli inspect`: what is in a file."""

from fnmatch import fnmatchcase
from hashlib import sha256

from pecli.checks.statistics import profile
from pecli.cli import answer, command, options
from pecli.engine.table import raw_bytes
from pecli.errors import FileError
from pecli.files.load import open_tensors
from pecli.files.output import KEY
from pecli.views import file_summary

MAX_IDENTIFIED = 8  #: Tensors of a file that are looked at for what made them


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
    options.text("--cols", "RANGE", "And of these columns. (default: 0:8)"),
    options.JSON,
)
def inspect(
    file: str, stats: bool, filter: str | None, rows: str | None, cols: str | None, json: bool
) -> None:
    """Say what a file holds: tensors, dtypes, shapes, and the spec that made it.

    Only the header is read, unless asked for more.

    Examples:
      pecli inspect rope.safetensors
      pecli inspect pe.npy --stats
      pecli inspect model.safetensors --filter '*rotary*'
      pecli inspect model.safetensors:wpe.weight --rows 0:8 --cols 0:6
    """
    pattern, numbers = filter or "*", rows is not None or cols is not None
    loaded = open_tensors(file)
    chosen = {name: array for name, array in loaded.outlines.items() if fnmatchcase(name, pattern)}
    unread = [tensor for tensor in loaded.unread if fnmatchcase(tensor.name, pattern)]
    count = len(loaded.tensors) + len(loaded.unread)
    if count and not chosen and not unread:
        raise FileError(
            file,
            f"has no tensor that matches {filter!r}",
            f"it has {count}; see them without --filter",
        )
    found = file_summary.describe(loaded, file, chosen, unread)
    if stats or numbers:
        chosen = {name: loaded.tensors[name] for name in chosen}
    for array, entry in zip(chosen.values(), found.tensors, strict=False):  # those that are read
        if stats:
            entry.statistics = profile(array)
        if numbers:
            entry.numbers = file_summary.numbers(array, rows or "0:8", cols or "0:8")
    if stats and len(chosen) <= MAX_IDENTIFIED:
        from pecli.checks.identify import identify_tensors  # which imports all searches

        found.matches = identify_tensors(loaded.path, chosen).matches
    spec = found.metadata.get(KEY)
    is_whole = len(chosen) == len(loaded.tensors) and file in (loaded.path, "-")
    if stats and isinstance(spec, dict) and "sha256" in spec and is_whole:
        digest = sha256()
        for array in chosen.values():
            digest.update(raw_bytes(array))
        found.sha256_holds = spec["sha256"] == digest.hexdigest()
    answer(found, json, quiet=False, show=file_summary.show)
