"""Checkpoints in several files: folders, and indices that list which file holds a tensor."""

import os
from collections.abc import Iterable, Sequence

from pecli.engine.grouping import grouped
from pecli.errors import FileError, quoted
from pecli.files.contents import INDEX, Contents, read_contents
from pecli.files.output import blamed_on
from pecli.files.strict_json import parsed_json

MAX_INDEX = 16 << 20  # bytes
MAX_SHARDS = 1024
SHARD_KINDS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".npz", ".npy")
"""Suffixes of files of tensors in a folder. Only files of the first suffix that is there are read:
checkpoints are often published in several formats side by side."""
NOT_WEIGHTS = frozenset(
    {"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "optimizer.bin"}
)
"""Files that Hugging Face's Trainer writes beside a checkpoint."""

Shards = dict[str, tuple[str, ...] | None]
"""Paths of files, and the names of the tensors wanted from each; None for all of them."""


def shards_in_folder(folder: str) -> Shards:
    """Return the files of tensors in a folder, as its index lists them if it has one.

    Only files of one kind are read: the first of SHARD_KINDS that is there.
    """
    names = _file_names(folder)
    for kind in SHARD_KINDS:
        index = _index_of_kind(folder, names, kind)
        if index is not None:
            return shards_of_index(os.path.join(folder, index))
        files = _weight_files(names, kind)
        if files:
            return dict.fromkeys(os.path.join(folder, name) for name in files)
    kinds = ", ".join(SHARD_KINDS)
    raise FileError(folder, "is a folder without a file of tensors", f"known are {kinds}")


def _index_of_kind(folder: str, names: Sequence[str], kind: str) -> str | None:
    """Return the index of the files of a suffix, None if there is none; refuse several."""
    indices = [name for name in names if name.endswith(f"{kind}{INDEX}")]
    if len(indices) > 1:
        problem = f"has several indices, {', '.join(map(quoted, indices[:4]))}"
        raise FileError(folder, problem, "name one of them")
    return next(iter(indices), None)


def _file_names(folder: str) -> list[str]:
    """Return the names of the regular files in a folder, sorted."""
    with blamed_on(folder):
        names = os.listdir(folder)
    return sorted(name for name in names if os.path.isfile(os.path.join(folder, name)))


def _weight_files(names: Sequence[str], kind: str) -> list[str]:
    """Return the files of a suffix, or only those with the usual name of a whole model."""
    files = [name for name in names if name.endswith(kind) and name not in NOT_WEIGHTS]
    usual_names = (f"model{kind}", f"pytorch_model{kind}")
    return [name for name in files if name in usual_names] or files


def shards_of_index(path: str) -> Shards:
    """Return the files that an index lists, with the names of their tensors."""
    contents = read_contents(path)
    is_too_large = len(contents.data) > MAX_INDEX
    contents.refuse_if(is_too_large, f"is larger than {MAX_INDEX >> 20} MB, too large for an index")
    file_of_tensor = _weight_map(contents)
    names_by_file = grouped(file_of_tensor, lambda tensor: file_of_tensor[tensor])
    for file in names_by_file:
        is_index = file.lower().endswith(INDEX)
        contents.refuse_if(is_index, f"names {quoted(file)}, which is an index itself")
    count = len(names_by_file)
    contents.refuse_if(count > MAX_SHARDS, f"names {count} files, more than {MAX_SHARDS}")
    return {contents.path_beside(file): tuple(names) for file, names in names_by_file.items()}


def _weight_map(contents: Contents) -> dict[str, str]:
    """Return the file of each tensor, by its name: {"weight_map": {"wte.weight": "a.safetensors"}}."""
    match parsed_json(bytes(contents.data), contents.error):
        case {"weight_map": dict(weight_map)} if weight_map and _are_texts(weight_map.values()):
            return weight_map
    raise contents.error("has no weight_map, which says where each tensor is")


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
