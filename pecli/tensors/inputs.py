"""The tensors that an encoding is applied to: opened, chosen, named, and of a shape that it can work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pecli.engine.application import FLOATS
from pecli.engine.arrays import Array, dtype_name
from pecli.engine.schemes import Parameter
from pecli.errors import FileError, KindError, ParameterError, listed, nearest, quoted
from pecli.files.contents import LoadedFile
from pecli.files.load import load_file, name_of, open_tensors, split_name
from pecli.files.npy import ARRAY_NAME
from pecli.files.output import KEY

MAX_LISTED = 8  # tensors that an error names
SEQ_AXIS = -2  # the axis of positions in (…, L, D)


@dataclass(frozen=True, eq=False)
class Input:
    """A tensor, under the name that it has in the output; `label` is what errors call it."""

    array: Array
    label: str
    name: str = ""
    unnamed: bool = False  # whether the file has no name for it: one array in a .npy

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def wrong(self, rule: str, advice: str = "") -> ParameterError:
        return ParameterError(self.label, f"of shape {self.shape}", rule, advice)

    def check_floating(self) -> None:
        """Refuse numbers that nothing can be added to without changing their kind."""
        if dtype_name(self.array.dtype) not in FLOATS:
            given = f"of shape {self.shape} and dtype {self.array.dtype}"
            raise KindError(self.label, given, f"it must be {', '.join(FLOATS[:-1])} or {FLOATS[-1]}")

    def check_sequence(self, seq_axis: int = SEQ_AXIS) -> tuple[int, int]:
        """L and D of a floating tensor (…, L, D), or with L on another axis."""
        self.check_floating()
        if len(self.shape) < 2:
            raise self.wrong("it must be (…, L, D)", "positions are the axis before the last")
        if not -len(self.shape) <= seq_axis < len(self.shape) - 1 or seq_axis == -1:
            axes = f"whose positions are on one of the axes 0 … {len(self.shape) - 2}"
            raise ParameterError("seq_axis", seq_axis, f"{self.label} is of shape {self.shape}, {axes}")
        return self.shape[seq_axis], self.shape[-1]

    def check_dim(self, rule: Parameter, advice: str = "") -> None:
        """Refuse a tensor (…, L, D) whose D breaks the rule of a scheme's dim."""
        try:
            rule.check("D", self.shape[-1])
        except ParameterError as problem:
            raise self.wrong(f"D, the last axis, {problem.rule.removeprefix('it ')}", advice) from None


def open_inputs(files: Sequence[str], chosen: Sequence[str] = ()) -> tuple[list[Input], dict[str, str]]:
    """The tensors of files (or FILE:NAME) that have the chosen names, or all, and the texts that came with them.

    The array of a .npy takes the file's name. What a file says about its origin is not true of the result any more.
    """
    inputs: list[Input] = []
    metadata: dict[str, str] = {}
    for text in files:
        loaded, found = _opened(text)
        inputs += found
        metadata = loaded.metadata | metadata
    metadata.pop(KEY, None)
    if chosen:
        inputs = _named(chosen, inputs, ", ".join(files))
    if not inputs:
        raise ParameterError("FILE", ", ".join(files), "there is no tensor in it")
    labels: dict[str, str] = {}
    for tensor in inputs:
        if tensor.name in labels:
            rule = f"{labels[tensor.name]} has the same name, and a file holds one tensor of a name"
            raise ParameterError(tensor.label, "given too", rule, "apply to one after the other")
        labels[tensor.name] = tensor.label
    return inputs, metadata


def _opened(text: str) -> tuple[LoadedFile, list[Input]]:
    """A file, and its tensors, or the one of `FILE:NAME`, their checksums compared."""
    path, name = split_name(text)
    loaded = load_file(path)
    loaded.check(None if name is None else [name])
    unnamed = loaded.format == "npy"
    inputs = [
        Input(array, f"{'the array' if unnamed else label} of {loaded.path}", name_of(loaded, label), unnamed)
        for label, array in loaded.tensors.items()
    ]
    return loaded, inputs if name is None else _named([name], inputs, path)


def _named(names: Sequence[str], inputs: Sequence[Input], files: str) -> list[Input]:
    """The inputs of those names, in the order of the files; every name has to be there."""
    known = {tensor.name for tensor in inputs} | {ARRAY_NAME for tensor in inputs if tensor.unnamed}
    for name in names:
        if name not in known:
            rule = f"{files} has {_listed({tensor.name: tensor.array for tensor in inputs})}"
            raise ParameterError("the tensor", repr(name), rule, nearest(name, known))
    return [tensor for tensor in inputs if tensor.name in names or (tensor.unnamed and ARRAY_NAME in names)]


def open_file(text: str) -> LoadedFile:
    """Open `FILE`, or one tensor of it with `FILE:NAME`."""
    loaded, inputs = _opened(text)
    if text not in (loaded.path, "-"):
        names = [ARRAY_NAME if tensor.unnamed else tensor.name for tensor in inputs]
        return replace(loaded, tensors={name: loaded.tensors[name] for name in names})
    if loaded.unread:
        first = loaded.unread[0]
        problem = f"tensor {quoted(first.name)} is stored as {first.dtype}, which is not read"
        raise FileError(loaded.path, problem, "name a tensor: FILE:NAME")
    return loaded


def only_tensor(name: str, file: str, tensors: Mapping[str, Array]) -> Array:
    """The one tensor of a file that is given for a parameter."""
    if len(tensors) != 1:
        raise ParameterError(name, file, f"it has {_listed(tensors)}", "name one, as FILE:NAME")
    return next(iter(tensors.values()))


def _listed(tensors: Mapping[str, Array]) -> str:
    return listed([f"{name} {array.shape}" for name, array in tensors.items()], MAX_LISTED) or "no tensors"


def read_numbers(name: str, text: str) -> Array:
    """The one array of a file that is given for a parameter; float64 where the file has no dtype of its own."""
    loaded = open_tensors(text)
    loaded.check()
    array = only_tensor(name, text, loaded.read_as("float64").tensors)
    is_column = name == "positions" and loaded.format == "csv" and array.shape[1:] == (1,)
    return array[:, 0] if is_column else array
