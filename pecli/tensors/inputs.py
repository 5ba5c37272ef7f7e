"""Tensors that encodings are applied to: read from files, chosen by name, checked for shape."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pecli.engine.arrays import FLOATS, Array, floating
from pecli.engine.schemes.parameters import ParameterRule
from pecli.errors import FileError, ParameterError, bracketed, listed, quoted
from pecli.files.contents import LoadedFile
from pecli.files.load import NAMELESS_FORMATS, name_of, open_tensors
from pecli.files.output import KEY

MAX_LISTED = 8  # tensors that an error names
SEQ_AXIS = -2  # the axis of positions in (…, L, D)


class SequenceShape(NamedTuple):
    """The length and the channels of a tensor (…, L, D)."""

    length: int
    dim: int


@dataclass(frozen=True, eq=False)
class Input:
    """A tensor to work on.

    Attributes:
        array: its elements.
        label: its name in errors, such as «q of cache.npz».
        name: its name in the output.
    """

    array: Array
    label: str
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __str__(self) -> str:
        return f"{quoted(self.name)} {bracketed(self.shape)}"

    def wrong(self, rule: str, advice: str = "") -> ParameterError:
        """Return the error for a tensor whose shape breaks a rule."""
        return ParameterError(self.label, f"of shape {self.shape}", rule, advice)

    def check_floating(self) -> None:
        floating(self.label, self.array, FLOATS)

    def checked_sequence_shape(self, seq_axis: int = SEQ_AXIS) -> SequenceShape:
        """Return the lengths L of the axis of positions and D of the last axis.

        For the shape (2, 8, 10, 64), they are 10 and 64. With `seq_axis` 1, they are 8 and 64.

        Raises:
            ParameterError: The tensor has fewer than two axes, or `seq_axis` is the last one or none.
            KindError: Its dtype is not a floating one.
        """
        self.check_floating()
        axis_count = len(self.shape)
        if axis_count < 2:
            raise self.wrong("it must be (…, L, D)", "positions are the axis before the last")
        last_axis = axis_count - 1
        axis_exists = -axis_count <= seq_axis <= last_axis
        is_last_axis = seq_axis in (-1, last_axis)
        if not axis_exists or is_last_axis:
            rule = (
                f"{self.label} is of shape {self.shape},"
                f" whose positions are on one of the axes 0 … {last_axis - 1}"
            )
            raise ParameterError("seq_axis", seq_axis, rule)
        return SequenceShape(length=self.shape[seq_axis], dim=self.shape[-1])

    def check_dim(self, rule: ParameterRule, advice: str = "") -> None:
        """Raise a ParameterError unless D, the last axis, is a value of a scheme's `dim`."""
        dim = self.shape[-1]
        try:
            rule.check("D", dim)
        except ParameterError as problem:
            full = f"D, the last axis, is {dim}; {problem.rule}"
            raise self.wrong(full, advice) from None


class OpenedInputs(NamedTuple):
    """Tensors of files, and the metadata that came with them."""

    tensors: list[Input]
    metadata: dict[str, str]


def open_inputs(files: Sequence[str], chosen: Collection[str]) -> OpenedInputs:
    """Read tensors from files, and the metadata that came with them.

    The spec of the files is not part of the metadata: it does not describe the result.

    Args:
        files: paths, or FILE:NAME.
        chosen: the names of the tensors to read; all of them if empty.
    """
    every_tensor: list[Input] = []
    metadata: dict[str, str] = {}
    for file in files:
        loaded = open_tensors(file)
        every_tensor += _inputs_of(loaded)
        metadata = {**loaded.metadata, **metadata}  # The first file wins.
    metadata.pop(KEY, None)
    tensors = _by_name(every_tensor, chosen)
    for name in chosen:
        if name not in tensors:
            raise _missing_tensor(repr(name), files, every_tensor)
    if not tensors:
        raise _missing_tensor("missing", files, every_tensor)
    return OpenedInputs(list(tensors.values()), metadata)


def _by_name(tensors: Sequence[Input], chosen: Collection[str]) -> dict[str, Input]:
    """Return the chosen tensors by name, or all if none is chosen; each name must come once."""
    inputs: dict[str, Input] = {}
    for tensor in tensors:
        if chosen and tensor.name not in chosen:
            continue
        if tensor.name in inputs:
            raise _same_name(tensor, inputs[tensor.name])
        inputs[tensor.name] = tensor
    return inputs


def _missing_tensor(
    given: str, files: Sequence[str], every_tensor: Sequence[Input]
) -> ParameterError:
    """Return the error for a tensor that the files lack; it lists those that they have."""
    shapes = _shapes({tensor.name: tensor.array for tensor in every_tensor})
    return ParameterError("tensor", given, f"{', '.join(files)} has {shapes}")


def _shapes(tensors: Mapping[str, Array]) -> str:
    """Return the names and shapes of some tensors, for an error."""
    shapes = [f"{name} {array.shape}" for name, array in tensors.items()]
    return listed(shapes, MAX_LISTED) or "no tensors"


def _inputs_of(loaded: LoadedFile) -> list[Input]:
    """Return the tensors of a file, labelled «q of cache.npz» for errors."""
    inputs = []
    for key, array in loaded.tensors.items():
        source = "the array" if loaded.format in NAMELESS_FORMATS else key
        label = f"{source} of {loaded.path}"
        inputs.append(Input(array, label, name=name_of(loaded, key)))
    return inputs


def _same_name(tensor: Input, first: Input) -> ParameterError:
    rule = f"{first.label} has the same name, and a file holds one tensor of a name"
    return ParameterError(tensor.label, "given too", rule, "apply to one after the other")


def open_file(text: str) -> LoadedFile:
    """Read `FILE`, or one tensor of it with `FILE:NAME`; refuse tensors that cannot be read."""
    loaded = open_tensors(text)
    for tensor in loaded.unread:
        problem = f"tensor {quoted(tensor.name)} is stored as {tensor.dtype}, which is not read"
        raise FileError(loaded.path, problem, "name a tensor: FILE:NAME")
    return loaded


def read_numbers(name: str, text: str) -> Array:
    """Return the array of a file that is the value of a parameter.

    Numbers of a format without dtypes are float64. A .csv of one column is a vector of positions.
    """
    loaded = open_tensors(text)
    tensors = loaded.read_as("float64").tensors
    if len(tensors) != 1:
        rule = f"it has {_shapes(tensors)}"
        raise ParameterError(name, text, rule, "name one, as FILE:NAME")
    (array,) = tensors.values()
    is_column = loaded.has_rows_only and array.shape[1:] == (1,)
    if name == "positions" and is_column:
        return array[:, 0]
    return array
