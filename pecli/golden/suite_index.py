"""The index of a golden suite: index.json, with one entry per case.

The index is read strictly: a suite may have been changed by hand or damaged.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pecli.engine import __version__
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme, stated_parameters
from pecli.errors import FileError, ParameterError, quoted
from pecli.files.contents import Contents, read_contents
from pecli.files.output import open_output
from pecli.files.strict_json import MAX_DEPTH, parsed_json
from pecli.golden.cases import POSITIONS, GoldenCase

INDEX = "index.json"
WRONG_DIGEST = "its sha256 is not that of the index"
NOT_AN_INDEX = "is not the index of a golden suite"
ADVICE = "pecli golden -o FOLDER writes one"
MAX_INDEX = 16 << 20  # bytes
MAX_CASE = 64 << 20  # bytes of a case's file
SETTINGS = frozenset({"offset", "positions", "layout", "trailing", "inverse", "shift", "seq_axis"})
"""Keyword arguments of `apply` that a case may have."""
IsRight = Callable[[object], bool]
"""Returns False for a value that the index must not have."""


@dataclass(frozen=True)
class Entry:
    """A case as the index of a suite describes it.

    Attributes:
        folder: the suite.
        name: the case.
        scheme: the scheme that makes its tensors, or is applied to its tensor `before`.
        settings: how the scheme is applied; empty for a table.
        reasons: for a known mistake, why it must be rejected, such as `base` or `swapped`.
        tolerances: the maximum error by dtype.
        shapes: the shapes of its tensors by name.
        files: the sha256 of its files by name.
    """

    folder: str
    name: str
    scheme: Scheme
    settings: NamedValues
    reasons: tuple[str, ...]
    tolerances: Mapping[str, float]
    shapes: Mapping[str, tuple[int, ...]]
    files: Mapping[str, str]

    @property
    def is_mistake(self) -> bool:
        """Return True for a table with a known mistake."""
        return bool(self.reasons)

    @property
    def is_rotation(self) -> bool:
        """Return True for a tensor before and after a rotation, False for tables."""
        return bool(self.settings)

    def path(self, file: str) -> str:
        return os.path.join(self.folder, file)

    def error(self, problem: str) -> FileError:
        return FileError(os.path.join(self.folder, INDEX), f"case {quoted(self.name)} {problem}")

    def damaged_files(self) -> list[str]:
        """Return the files that are missing or whose sha256 is not that of the index."""
        damaged = []
        for file, digest in self.files.items():
            if _digest(self.path(file)) != digest:
                damaged.append(file)
        return damaged

    def check_files(self) -> None:
        """Raise a FileError if a file of the case is damaged."""
        for file in self.damaged_files():
            advice = "write the suite again with pecli golden"
            raise FileError(self.path(file), WRONG_DIGEST, advice)


def _digest(path: str) -> str:
    """Return the sha256 of a regular file; nothing if there is none, or it is too large."""
    if not os.path.isfile(path):  # Opening a pipe would wait for ever.
        return ""
    contents = read_contents(path)
    if len(contents.data) > MAX_CASE:
        return ""
    return hashlib.sha256(contents.data).hexdigest()


def sha256_of(path: str) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(read_contents(path).data).hexdigest()


def entry_json(case: GoldenCase, files: Mapping[str, str]) -> dict[str, object]:
    """Return the entry of a case in index.json: its scheme, its tolerances, and the files it is in.

    Args:
        case: The case.
        files: The sha256 of its files by name.
    """
    entry: JsonObject = {
        "scheme": case.scheme.name,
        "parameters": stated_parameters(case.scheme),
        "name": case.name,
        "tests": case.tests,
        "tolerances": case.tolerances(),
        "tensors": {name: list(array.shape) for name, array in case.tensors.items()},
        "files": dict(files),
    }
    if case.is_rotation:
        entry["settings"] = case.settings
    if case.is_mistake:
        entry["edits"] = case.edits
    return entry


def write_index(folder: str, entries: Sequence[Mapping[str, object]]) -> None:
    """Write the index of a suite."""
    index = {"version": 1, "pecli": __version__, "positions": list(POSITIONS), "cases": entries}
    text = json.dumps(index, indent=1, sort_keys=True)
    with open_output(os.path.join(folder, INDEX)) as file:
        file.write(f"{text}\n".encode())


def read_index(folder: str) -> dict[str, Entry]:
    """Return the entries of a suite by name.

    Raises:
        FileError: there is no index, or it is damaged.
    """
    path = os.path.join(folder, INDEX)
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileError(path, "is not a regular file")
    contents = read_contents(path)
    entries: dict[str, Entry] = {}
    for row in _index_rows(contents):
        entry = _read_entry(folder, contents, row)
        contents.refuse_if(entry.name in entries, f"lists {quoted(entry.name)} twice")
        entries[entry.name] = entry
    contents.require(entries, "lists no cases", ADVICE)
    return entries


def _index_rows(contents: Contents) -> Iterator[NamedValues]:
    """Yield the rows of an index, each of which has a name.

    Raises:
        FileError: The file is too large, not JSON, or not {"cases": [{"name": …, …}, …]}.
    """
    contents.refuse_if(len(contents.data) > MAX_INDEX, f"has more than {MAX_INDEX >> 20} MB")
    error = partial(contents.error, advice=ADVICE)
    match parsed_json(bytes(contents.data), error, max_depth=MAX_DEPTH):
        case {"cases": [*rows]}:
            for row in rows:
                yield _named_row(row, error)
        case _:
            raise error(NOT_AN_INDEX)


def _named_row(row: object, error: Callable[[str], FileError]) -> NamedValues:
    if isinstance(row, dict) and isinstance(row.get("name"), str):
        return row
    raise error(NOT_AN_INDEX)


def _read_entry(folder: str, contents: Contents, row: NamedValues) -> Entry:
    """Return an entry of the index; raise a FileError if something in it is missing or wrong."""
    name = row["name"]
    about = Contents(contents.path, contents.data, f"case {quoted(name)}")
    return Entry(
        folder,
        name,
        settings=_read_settings(about, row),
        scheme=_read_scheme(about, row),
        reasons=_read_reasons(about, row),
        tolerances=_read_tolerances(about, row),
        shapes=_read_shapes(about, row),
        files=_read_files(about, row),
    )


def _read_settings(about: Contents, row: NamedValues) -> NamedValues:
    """Return the options of `apply` in a case, such as an offset; a table has none."""
    settings = row.get("settings", {})
    if not isinstance(settings, dict) or not settings.keys() <= SETTINGS:
        raise about.error("has settings that are not known")
    return settings


def _read_scheme(about: Contents, row: NamedValues) -> Scheme:
    """Return the scheme of a case; raise a FileError if its parameters do not make one."""
    parameters = _read_object(about, row, "parameters", "has no parameters by name")
    try:
        scheme: Scheme = scheme_named(row.get("scheme"))(**parameters)
    except ParameterError as problem:
        raise about.error(f"has a wrong scheme: {problem}") from None
    except TypeError:  # The class has no parameter of that name.
        raise about.error("has parameters that its scheme lacks") from None
    return scheme


def _read_reasons(about: Contents, row: NamedValues) -> tuple[str, ...]:
    """Return the reasons for which a known mistake must be rejected, such as `base` or `swapped`.

    The index has them as the JSON of `verify` does: {"edit": "parameter", "name": "base", …} or
    {"edit": "swapped"}. A table without a mistake has none.
    """
    edits = row.get("edits", [])
    about.require(isinstance(edits, list), "has no list of edits")
    return tuple(_reason_of_edit(about, edit) for edit in edits)


def _reason_of_edit(about: Contents, edit: object) -> str:
    """Return the parameter that an edit changes, or the kind of any other edit."""
    match edit:
        case {"edit": "parameter", "name": str(parameter)}:
            return parameter
        case {"edit": str(kind)} if kind != "parameter":
            return kind
    raise about.error("has an edit without a kind")


def _read_object(
    about: Contents,
    row: NamedValues,
    key: str,
    problem: str,
    is_right: IsRight = lambda value: True,
) -> dict[str, Any]:
    """Return an object of a case by its key, such as {"cos": [12, 64]} of `tensors`.

    Args:
        about: The case, for the error.
        row: The case.
        key: The key.
        problem: The rest of the sentence if it is no object, or if one of its values is wrong.
        is_right: Returns False for a wrong value.

    Raises:
        FileError: It is no object, or one of its values is wrong.
    """
    values = row.get(key)
    if not isinstance(values, dict) or not all(map(is_right, values.values())):
        raise about.error(problem)
    return values


def _read_tolerances(about: Contents, row: NamedValues) -> dict[str, float]:
    """Return the largest error by dtype: {"float32": 1e-6, …}."""
    return _read_object(about, row, "tolerances", "has no tolerances by dtype", _is_tolerance)


def _is_tolerance(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= sys.float_info.max  # A text can state 10^400 as an integer.


def _read_shapes(about: Contents, row: NamedValues) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors by name: {"cos": (12, 64), …}."""
    problem = "has no shapes of tensors by name"
    shapes = _read_object(about, row, "tensors", problem, is_shape)
    about.require(shapes, problem)
    return {name: tuple(shape) for name, shape in shapes.items()}


def is_shape(value: object) -> bool:
    """Return True for a list of lengths, none of which is 0."""
    if not isinstance(value, list):
        return False
    return all(type(side) is int and side > 0 for side in value)


def _read_files(about: Contents, row: NamedValues) -> dict[str, str]:
    """Return digests by file names: {"rope.json": "9f86d08…"}.

    Raises:
        FileError: There are none, or a name leads out of the suite's folder, as `../x` does.
    """
    problem = "has no sha256 of files by name"
    files = _read_object(about, row, "files", problem)
    about.require(files, problem)
    for file, digest in files.items():
        about.require(isinstance(digest, str), f"has no sha256 of {quoted(file)}")
        is_name = file not in ("", ".", "..") and not {"/", "\\", "\0"} & {*file}
        about.require(is_name, f"names {quoted(file)}, which is no file in its own folder")
    return files
