"""Reading tensors from a file, whose format its first bytes tell, from a folder of files, or from arrays."""

import errno
import os
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, ArrayLike, numbers
from pecli.errors import FileError, KindError, failure, listed, path_of, quoted
from pecli.files.contents import INDEX, JSON_FORM, START, LoadedFile, parsed_json, read_contents
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import role_of

Given = str | os.PathLike[str] | Mapping[str, Any] | ArrayLike | Any
MAX_NAMES = 8  # how many names an error lists
MAX_COMPARED = 2000
MAX_INDEX = 16 << 20
MAX_SHARDS = 1024
NO_FILE = ""  # the path of arrays in memory
SHARD_KINDS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".npz", ".npy")
"""Files of tensors in a folder; those of the first kind that is there are read."""
NOT_WEIGHTS = frozenset(
    {"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "optimizer.bin"}
)
READERS = {
    **{name: f"{name}.read" for name in ("npy", "npz", "safetensors")},
    **{name: f"text.read_{name}" for name in ("csv", "json")},
    **{name: f"{name}_file.read" for name in ("torch", "gguf", "onnx")},
}  #: Functions of this folder that take the contents of a file, by format
_RAW = (".bin", ".raw", ".dat", ".f32", ".f16", ".f64", ".bf16", ".fp32", ".fp16")
ADVICE = {
    **dict.fromkeys(
        _RAW,
        "raw numbers have no shape: numpy.save('x.npy', numpy.fromfile(FILE, 'f4').reshape(…))",
    ),
    ".h": "C headers are written, not read: write .npz or .safetensors as well",
    ".json": JSON_FORM,
}  #: What to do about a file that is of no known format, by its suffix

Shards = dict[
    str, tuple[str, ...] | None
]  #: Paths of files, and the tensors wanted of each; None where all are


def load_file(path: str) -> LoadedFile:
    """Read a file of tensors, or the files of a folder or an index, as one; `-` is standard input."""
    if path.lower().rstrip("/").endswith(".zarr") and os.path.isdir(path):
        from pecli.files.zarr_store import read_store

        return read_store(path)
    if path != "-" and os.path.isdir(path):
        return _load_shards(path, _in_folder(path))
    if path.lower().endswith(INDEX):
        return _load_shards(path, _indexed(path))
    contents = read_contents(path, format_of_bytes)
    module, _, read = READERS[
        format_of_bytes(contents.path, bytes(contents.data[:START]))
    ].partition(".")
    loaded: LoadedFile = getattr(import_module(f"pecli.files.{module}"), read)(contents)
    return loaded


def format_of_bytes(path: str, start: bytes) -> str:
    """Which format a file has, by its first bytes and for some by its name; a FileError where it is none."""
    if not start:
        raise FileError(path, "is empty")
    suffix = os.path.splitext(path.lower())[1]
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return (
            "torch"
            if start[30 : 30 + int.from_bytes(start[26:28], "little")].endswith(b"/data.pkl")
            else "npz"
        )
    if start.startswith(b"GGUF"):
        return "gguf"
    if suffix in (".csv", ".txt", ".tsv"):
        return "csv"
    if (
        start[:1] == b"{" and len(start) > 8 and start[4:8] != bytes(4)
    ):  # a .safetensors begins with a small number
        return "json"
    if start[8:9] == b"{":
        return "safetensors"
    if suffix == ".onnx":
        return "onnx"
    if start.startswith(b"\x80"):
        way = "write the tensors with safetensors.torch.save_file or numpy.save"
        raise FileError(
            path, "is a pickle without an archive around it, and those are never loaded", way
        )
    known = ".npy, .npz, .safetensors, .gguf, .onnx, .pt, .csv, .txt or .json"
    raise FileError(path, f"is not a {known} file of tables", ADVICE.get(suffix, ""))


def _load_shards(path: str, shards: Shards) -> LoadedFile:
    """Several files as one: tensors by name; names that repeat, as in a dump per layer, follow that of their file."""
    tensors: dict[str, Array] = {}
    parts: list[tuple[LoadedFile, dict[str, Array]]] = []
    for file, names in shards.items():
        loaded = load_file(file)
        shard = {name_of(loaded, name): array for name, array in loaded.tensors.items()}
        if names is not None:
            if missing := {*names} - {*shard, *(tensor.name for tensor in loaded.unread)}:
                raise FileError(
                    path, f"index lists {quoted(min(missing))} in {quoted(file)}", "which lacks it"
                )
            shard = {name: shard[name] for name in names if name in shard}
        parts.append((loaded, shard))
    counts = Counter(name for _, shard in parts for name in shard)
    for loaded, shard in parts:
        full = {
            name: name if counts[name] == 1 else f"{_stem(loaded.path)}.{name}" for name in shard
        }
        if both := tensors.keys() & {*full.values()}:
            raise FileError(path, f"has {quoted(min(both))} in several files", "name one of them")
        tensors |= {full[name]: array for name, array in shard.items()}
    unread = tuple(tensor for loaded, _ in parts for tensor in loaded.unread)
    return LoadedFile(path, "folder", tensors, {}, unread)


def name_of(file: LoadedFile, name: str) -> str:
    """A tensor's name among those of other files: the array of a .npy has none of its own, and takes the file's."""
    return _stem(file.path) if file.format == "npy" and file.path != "standard input" else name


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(os.fsencode(path)))[0].decode("utf-8", "replace")


def _in_folder(folder: str) -> Shards:
    try:
        names = sorted(
            name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))
        )
    except OSError as problem:
        raise failure(folder, problem) from None
    for kind in SHARD_KINDS:
        indices = [name for name in names if name.endswith(f"{kind}{INDEX}")]
        if len(indices) > 1:
            raise FileError(
                folder,
                f"has several indices, {', '.join(map(quoted, indices[:4]))}",
                "name one of them",
            )
        if indices:
            return _indexed(os.path.join(folder, indices[0]))
        files = [name for name in names if name.endswith(kind) and name not in NOT_WEIGHTS]
        main = [name for name in files if name in (f"model{kind}", f"pytorch_model{kind}")]
        if files:
            return dict.fromkeys(os.path.join(folder, name) for name in main or files)
    raise FileError(
        folder, "is a folder without a file of tensors", f"known are {', '.join(SHARD_KINDS)}"
    )


def _indexed(path: str) -> Shards:
    """The shards of an index, and the names that it has for each."""
    contents = read_contents(path)
    contents.refuse_if(
        len(contents.data) > MAX_INDEX,
        f"is larger than {MAX_INDEX >> 20} MB, too large for an index",
    )
    match parsed_json(bytes(contents.data), contents.error):
        case {"weight_map": dict(weights)} if {*map(type, weights.values())} == {str}:
            by_file: dict[str, list[str]] = {}
        case _:
            raise contents.error("has no weight_map, which says where each tensor is")
    for tensor, file in weights.items():
        contents.refuse_if(
            file.lower().endswith(INDEX), f"names {quoted(file)}, which is an index itself"
        )
        by_file.setdefault(file, []).append(tensor)
    contents.refuse_if(
        len(by_file) > MAX_SHARDS, f"names {len(by_file)} files, more than {MAX_SHARDS}"
    )
    return {contents.path_beside(file): tuple(names) for file, names in by_file.items()}


def open_tensors(text: str) -> LoadedFile:
    """Read `FILE`, or only the tensor NAME of it with `FILE:NAME`; a file of the very name comes first."""
    path, name = split_name(text)
    loaded = load_file(path)
    if name is None:
        return loaded
    if name in loaded.tensors:
        return loaded.only(name)
    for tensor in loaded.unread:
        if tensor.name == name:
            raise FileError(
                path, f"tensor {quoted(name)} is stored as {tensor.dtype}", "which is not read"
            )
    from difflib import get_close_matches

    close = get_close_matches(name, list(loaded.tensors)[:MAX_COMPARED], n=MAX_NAMES, cutoff=0.4)
    likeliest = [*close, *(other for other in loaded.tensors if other not in close)]
    raise FileError(
        path,
        f"has no tensor {quoted(name)}",
        f"it has {listed(likeliest, MAX_NAMES, quoted) or 'none'}",
    )


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """All tensors of a file by name, or one with `FILE:NAME`; that of a .npy or .csv file is called "array".

    They are in memory, and yours to change: what becomes of the file is no matter to them.
    """
    file = open_tensors(path_of("path", path))
    return {name: np.array(array, order="C") for name, array in file.tensors.items()}


def split_name(text: str) -> tuple[str, str | None]:
    """The path in `FILE`, or the path and the name in `FILE:NAME`; a file of the very name comes first. Either may have
    colons, as in `dense/kernel:0`: of several files, the one with the longest name is meant."""
    drive, path = ("", text) if text.startswith("-:") else os.path.splitdrive(text)  # C: is no file
    if text == "-" or not path.rfind(":") > 0 or os.path.exists(text):
        return text, None
    while (
        (path := path.rpartition(":")[0])
        and drive + path != "-"
        and not os.path.exists(drive + path)
    ):
        pass
    if not path:
        raise failure(text, FileNotFoundError(errno.ENOENT, ""))
    path = drive + path
    return path, text[len(path) + 1 :]


def opened(given: Given) -> tuple[str, LoadedFile]:
    """A file (or FILE:NAME), an array, arrays by name, or a torch module: what it was asked for by, and its tensors. Of
    a module they are the buffers and parameters whose names speak of positions; all buffers where none does."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return path, open_tensors(path)
    try:
        if hasattr(given, "named_buffers"):
            module: Any = given
            buffers = dict(module.named_buffers())
            tensors = {**buffers, **dict(module.named_parameters())}
            given = {name: tensor for name, tensor in tensors.items() if role_of(name)} or buffers
        named = dict(given.items()) if isinstance(given, Mapping) else {ARRAY_NAME: given}
    except Exception as problem:  # of whoever wrote that mapping
        raise KindError(
            "arrays", f"a {type(given).__name__}", "its items cannot be had"
        ) from problem
    for name in named:
        if not isinstance(name, str):
            raise KindError("name", quoted(name), "the names of arrays must be texts")
    arrays = {name: numbers(name, array) for name, array in named.items()}
    for name, array in arrays.items():
        if array.dtype.char in "gG":
            rule, advice = "such numbers differ between machines", "convert it to float64 first"
            raise KindError(name, f"an array of {array.dtype}", rule, advice)
    return NO_FILE, LoadedFile(NO_FILE, "arrays", arrays)
