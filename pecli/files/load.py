"""Reading tensors from a file, from the files of a folder or an index, or from arrays."""

import errno
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arguments import within_limits
from pecli.engine.arrays import Array, ArrayLike, numbers
from pecli.errors import FileError, KindError, failure, listed, path_of, quoted
from pecli.files.contents import (
    INDEX,
    MAX_STREAM,
    MAX_TEXT,
    STANDARD_INPUT,
    START,
    LazyTensors,
    LoadedFile,
    read_contents,
)
from pecli.files.formats import format_of_bytes
from pecli.files.npy import ARRAY_NAME
from pecli.files.raw_layout import parse_layout, raw_files
from pecli.files.shards import SHARD_KINDS as SHARD_KINDS
from pecli.files.shards import Shards, shards_in_folder, shards_of_index
from pecli.files.stated_shape import in_stated_shape
from pecli.files.torch_module import positional_tensors
from pecli.notes import note

Given = str | os.PathLike[str] | Mapping[str, object] | ArrayLike | object
MAX_NAMES = 8  # names that an error lists
MAX_COMPARED = 2000  # names that are searched for similar ones
NAMELESS_FORMATS = ("npy", "raw")  # formats whose only array has no name
NO_FILE = ""  # the path of arrays in memory


def load_file(path: str) -> LoadedFile:
    """Read a file of tensors, or the files of a folder or an index; `-` is standard input."""
    if path != "-" and os.path.isdir(path):
        return _load_folder(path)
    if path.lower().endswith(INDEX):
        return _load_shards(path, shards_of_index(path))
    contents = read_contents(path, _pipe_limit)
    file_format = format_of_bytes(contents.path, bytes(contents.data[:START]))
    loaded = in_stated_shape(file_format.read(contents))
    for text in loaded.notes:
        note(f"{loaded.path}: {text}")
    return loaded


def _load_folder(path: str) -> LoadedFile:
    """Read a Zarr store, which is a folder, or the files of tensors in any other folder."""
    if path.lower().rstrip("/").endswith(".zarr"):
        from pecli.files.zarr_store import read_store

        return read_store(path)
    return _load_shards(path, shards_in_folder(path))


def _pipe_limit(name: str, first_bytes: bytes) -> int:
    """Return the most bytes of a pipe that are read; numbers in text take several times as many.

    Raises:
        FileError: no format begins with these bytes.
    """
    return MAX_TEXT if format_of_bytes(name, first_bytes).is_text else MAX_STREAM


class TensorPlace(NamedTuple):
    """A tensor of a file, by its name there."""

    file: LoadedFile
    name: str

    def read(self) -> Array:
        return self.file.tensors[self.name]


class Shard(NamedTuple):
    """One of several files, and the names of the tensors that are wanted from it.

    Attributes:
        file: the file, whose tensors may be unread until they are needed.
        names: by name among those of all shards, the name in the file.
    """

    file: LoadedFile
    names: dict[str, str]


def _load_shards(path: str, shards: Shards) -> LoadedFile:
    """Read several files as one, whose tensors are read when they are needed."""
    loaded_shards = [_load_shard(path, file, names) for file, names in shards.items()]
    places = _places_by_name(path, loaded_shards)
    outlines = {name: place.file.outlines[place.name] for name, place in places.items()}
    tensors = LazyTensors(outlines, lambda name: places[name].read())
    unread = chain.from_iterable(shard.file.unread for shard in loaded_shards)
    return LoadedFile(path=path, format="folder", tensors=tensors, unread=tuple(unread))


def _places_by_name(path: str, loaded_shards: Sequence[Shard]) -> dict[str, TensorPlace]:
    """Return the tensors of all files by names that distinguish them.

    A name that occurs in several files, as in a dump per layer, is preceded by the file's name:
    `layer0.npz` and `layer1.npz`, both with a tensor `q`, become `layer0.q` and `layer1.q`.

    Raises:
        FileError: Even so, names are the same: a/x.npz and b/x.npz are both preceded by `x`.
    """
    counts = Counter(chain.from_iterable(shard.names for shard in loaded_shards))
    places: dict[str, TensorPlace] = {}
    for shard in loaded_shards:
        for name, name_in_file in shard.names.items():
            if counts[name] > 1:
                name = f"{_stem(shard.file.path)}.{name}"
            if name in places:
                problem = f"has {quoted(name)} in several files"
                raise FileError(path, problem, "name one of them")
            places[name] = TensorPlace(shard.file, name_in_file)
    return places


def _load_shard(path: str, file: str, indexed_names: Iterable[str] | None) -> Shard:
    """Open one of the files of a folder or of an index.

    Args:
        path: The folder or the index, which errors name.
        file: The file.
        indexed_names: The tensors of the file that the index lists; None without an index: then all
            tensors of the file count.
    """
    loaded = load_file(file)
    name_in_file = {name_of(loaded, name): name for name in loaded.outlines}
    if indexed_names is None:
        return Shard(file=loaded, names=name_in_file)
    unread_names = {tensor.name for tensor in loaded.unread}
    missing = set(indexed_names) - name_in_file.keys() - unread_names
    if missing:
        problem = f"index lists {quoted(min(missing))} in {quoted(file)}"
        raise FileError(path, problem, "which lacks it")
    wanted = {name: name_in_file[name] for name in indexed_names if name in name_in_file}
    return Shard(file=loaded, names=wanted)


def name_of(file: LoadedFile, name: str) -> str:
    """Return a tensor's name among those of other files.

    The array of a .npy or raw file has no name; it takes the file's.
    """
    if file.format in NAMELESS_FORMATS and file.path != STANDARD_INPUT:
        return _stem(file.path)
    return name


def _stem(path: str) -> str:
    """Return a file's name without folder and suffix; bytes that are not UTF-8 are replaced."""
    stem, _ = os.path.splitext(os.path.basename(os.fsencode(path)))
    return stem.decode("utf-8", "replace")


def open_tensors(text: str) -> LoadedFile:
    """Read `FILE`, or one tensor of it with `FILE:NAME`.

    An existing path takes precedence: `a:b` is the file of that name if there is one.
    """
    path, name = split_name(text)
    loaded = load_file(path)
    if name is None:
        return loaded
    if name in loaded.tensors:
        return loaded.only(name)
    raise _no_tensor(loaded, path, name)


def _no_tensor(file: LoadedFile, path: str, name: str) -> FileError:
    """Return the error for a tensor that a file does not have, or has in a form that is not read."""
    from difflib import SequenceMatcher

    for tensor in file.unread:
        if tensor.name == name:
            problem = f"tensor {quoted(name)} is stored as {tensor.dtype}"
            return FileError(path, problem, "which is not read")
    matcher = SequenceMatcher(b=name)

    def similarity(candidate: str) -> float:
        matcher.set_seq1(candidate)
        return matcher.ratio()

    similar_first = sorted(list(file.tensors)[:MAX_COMPARED], key=similarity, reverse=True)
    candidates = listed(similar_first, MAX_NAMES, quoted)
    return FileError(path, f"has no tensor {quoted(name)}", f"it has {candidates or 'none'}")


@within_limits
def load(
    path: str | os.PathLike[str],
    *,
    shape: Sequence[int] | None = None,
    raw_dtype: str | None = None,
) -> dict[str, Array]:
    """Read the tensors of a file into memory.

    Args:
        path: a file, a folder or an index of a checkpoint; or `FILE:NAME` for one tensor.
        shape: the shape of a raw binary file, or of numbers in text; one length may be -1.
        raw_dtype: the dtype of a raw file, such as "f16"; ">f4" is big-endian.

    Returns:
        Arrays by name. The array of a .npy, .csv or raw file is called "array". They are copies:
        changing them does not change the file.

    Raises:
        FileError: the file cannot be read, or is not what it claims to be.

    >>> import pecli, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pecli.save(f"{folder}/a.npz", {"cos": [1.0, 0.5], "sin": [0.0, 0.8]})
    ...     pecli.load(f"{folder}/a.npz:sin")
    {'sin': array([0. , 0.8])}
    """
    with raw_files(parse_layout(shape, raw_dtype)):
        file = open_tensors(path_of("path", path))
    return {name: np.array(array, order="C") for name, array in file.tensors.items()}


def split_name(text: str) -> tuple[str, str | None]:
    """Split `FILE:NAME` into the path and the name; the name is None for a path alone.

    An existing path takes precedence. Both path and name may contain colons, as in
    `model.npz:dense/kernel:0`: the longest path that exists is taken, here `model.npz`, and the
    name is `dense/kernel:0`. `-:cos` is the tensor `cos` of standard input.

    Raises:
        FileError: there is a colon, and no part before a colon is a path that exists.
    """
    drive = ""
    without_drive = text
    if not text.startswith("-:"):
        drive, without_drive = os.path.splitdrive(text)  # The colon of C: separates nothing.
    if ":" not in without_drive or os.path.exists(text):
        return text, None
    parts = without_drive.split(":")
    for count in range(len(parts) - 1, 0, -1):  # `a:b:c` may be the path `a:b`, or `a`.
        beginning = ":".join(parts[:count])
        path = drive + beginning
        if beginning and (path == "-" or os.path.exists(path)):
            return path, text.removeprefix(f"{path}:")
    raise failure(text, FileNotFoundError(errno.ENOENT, ""))


class Opened(NamedTuple):
    """The tensors of a file, or arrays, and what the user called them."""

    label: str  #: the path, or FILE:NAME; NO_FILE for arrays in memory
    file: LoadedFile


def opened(source: Given) -> Opened:
    """Return the tensors of a file, of arrays, or of a torch module.

    Args:
        source: a path or `FILE:NAME`; an array; arrays by name; or a torch module, whose buffers,
            parameters and tensor attributes with positional names are taken, or all buffers
            and tensor attributes if none has one. What is opened already stays as it is.
    """
    if isinstance(source, Opened):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return Opened(label=path, file=open_tensors(path))
    named = _named_arrays(source)
    arrays = {name: _checked_array(name, values) for name, values in named.items()}
    return Opened(label=NO_FILE, file=LoadedFile(NO_FILE, "arrays", arrays))


def _checked_array(name: object, values: ArrayLike) -> Array:
    """Return an array of NumPy.

    Raises:
        KindError: the name is no text, the values are no numbers, or they are numbers of 80 or
            128 bits, which differ between machines.
    """
    if not isinstance(name, str):
        raise KindError("name", quoted(name), "the names of arrays must be texts")
    array = numbers(name, values)
    if array.dtype.type in (np.longdouble, np.clongdouble):
        rule = "such numbers differ between machines"
        raise KindError(name, f"an array of {array.dtype}", rule, "convert it to float64 first")
    return array


def _named_arrays(source: Any) -> dict[Any, Any]:
    """Return the arrays of a torch module or a mapping by name; a single array has a usual name.

    Code of the user runs here (properties of a module, a mapping of any kind), whose errors are
    reported as errors of the argument.
    """
    try:
        if hasattr(source, "named_buffers"):
            return positional_tensors(source)
        if isinstance(source, Mapping):
            return dict(source.items())
    except KindError:
        raise
    except Exception as problem:  # A mapping or module of the user can raise any.
        kind = f"a {type(source).__name__}"
        raise KindError("arrays", kind, "its items cannot be had") from problem
    return {ARRAY_NAME: source}
