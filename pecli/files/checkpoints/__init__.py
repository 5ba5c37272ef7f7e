"""Folders of tensors, and the index of a checkpoint in shards: which files to open, and which tensors each holds."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any

from pecli.errors import FileError, failure, quoted
from pecli.files.contents import INDEX, unique

MAX_INDEX = 16 << 20
MAX_SHARDS = 1024
KINDS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".npz", ".npy")
"""Files of tensors in a folder; those of the first kind that is there are read."""
NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "optimizer.bin"})
"""What trainers leave beside a checkpoint."""

Shards = dict[str, tuple[str, ...] | None]
"""Paths of files, and the tensors that are wanted of each; None where all are."""


def shards_of(path: str) -> Shards:
    """The files that hold the tensors of a folder or of an index."""
    return _in_folder(path) if os.path.isdir(path) else _indexed(path)


def path_beside(folder: str, name: str, complain: Callable[[str], FileError]) -> str:
    """The path of a file that another one names, which has to be in the same folder or below it.

    Links are followed, since the snapshots of a Hugging Face cache hold nothing else; but what is there has to be a
    file, since opening a pipe would wait for ever.
    """
    if not name or os.path.isabs(name) or "\0" in name or "\\" in name or ".." in name.split("/"):
        raise complain(f"names {quoted(name)}, which is not a file in its own folder")
    path = os.path.join(folder, name)
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError) as problem:
        raise complain(f"names {quoted(name)}, which {failure(path, problem).problem}") from None
    if not regular:
        raise complain(f"names {quoted(name)}, which is not a file")
    return path


def _in_folder(folder: str) -> Shards:
    try:
        names = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    except OSError as problem:
        raise failure(folder, problem) from None
    for kind in KINDS:
        indices = [name for name in names if name.endswith(f"{kind}{INDEX}")]
        if len(indices) == 1:
            return _indexed(os.path.join(folder, indices[0]))
        found = [name for name in names if name.endswith(kind) and name not in NOT_WEIGHTS]
        main = [name for name in found if name in (f"model{kind}", f"pytorch_model{kind}")]
        if found and not indices:
            return dict.fromkeys(os.path.join(folder, name) for name in main or found)
        if indices:
            raise FileError(folder, f"has several indices, {', '.join(map(quoted, indices[:4]))}", "name one of them")
    raise FileError(folder, "is a folder without a file of tensors", f"known are {', '.join(KINDS)}")


def _indexed(path: str) -> Shards:
    """The shards of an index, and the names that it has for each."""
    folder = os.path.dirname(path)
    by_file: dict[str, list[str]] = {}
    for tensor, file in _weight_map(path).items():
        if file.lower().endswith(INDEX):
            raise FileError(path, f"names {quoted(file)}, which is an index itself")
        by_file.setdefault(file, []).append(tensor)
    if len(by_file) > MAX_SHARDS:
        raise FileError(path, f"names {len(by_file)} files, more than {MAX_SHARDS}")
    return {
        path_beside(folder, file, lambda problem: FileError(path, problem)): tuple(names)
        for file, names in by_file.items()
    }


def _weight_map(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_INDEX + 1)
    except (OSError, ValueError) as problem:
        raise failure(path, problem) from None
    if len(data) > MAX_INDEX:
        raise FileError(path, f"is larger than {MAX_INDEX >> 20} MB, too large for an index")
    try:
        index = json.loads(data, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise FileError(path, "is not the JSON of an index, or names a tensor twice") from None
    found: Any = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(found, dict) or not found or not all(isinstance(file, str) for file in found.values()):
        raise FileError(path, "has no weight_map, which says where each tensor is")
    return found
