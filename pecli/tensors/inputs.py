"""The tensors that an encoding is applied to: opened, chosen, named, and of a shape that it can work on."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pecli.engine.arrays import FLOATS, Array, floating
from pecli.engine.schemes import Parameter
from pecli.errors import FileError, ParameterError, bracketed, listed, quoted
from pecli.files.contents import LoadedFile
from pecli.files.load import name_of, open_tensors
from pecli.files.output import KEY

MAX_LISTED = 8  # tensors that an error names
SEQ_AXIS = -2  # the axis of positions in (…, L, D)


@dataclass(frozen=True, eq=False)
class Input:
    """A tensor, under the name that it has in the output; `label` is what errors call it."""

    array: Array
    label: str
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __str__(self) -> str:
        return f"{quoted(self.name)} {bracketed(self.shape)}"

    def wrong(self, rule: str, advice: str = "") -> ParameterError:
        return ParameterError(self.label, f"of shape {self.shape}", rule, advice)

    def check_floating(self) -> None:
        floating(self.label, self.array, FLOATS)

    def check_sequence(self, seq_axis: int = SEQ_AXIS) -> tuple[int, int]:
        """L and D of a floating tensor (…, L, D), or with L on another axis."""
        self.check_floating()
        if len(self.shape) < 2:
            raise self.wrong("it must be (…, L, D)", "positions are the axis before the last")
        if not -len(self.shape) <= seq_axis < len(self.shape) - 1 or seq_axis == -1:
            axes = f"whose positions are on one of the axes 0 … {len(self.shape) - 2}"
            raise ParameterError(
                "seq_axis", seq_axis, f"{self.label} is of shape {self.shape}, {axes}"
            )
        return self.shape[seq_axis], self.shape[-1]

    def check_dim(self, rule: Parameter, advice: str = "") -> None:
        try:
            rule.check("D", self.shape[-1])
        except ParameterError as problem:
            raise self.wrong(
                f"D, the last axis, {problem.rule.removeprefix('it ')}", advice
            ) from None


def open_inputs(
    files: Sequence[str], chosen: Collection[str] = ()
) -> tuple[list[Input], dict[str, str]]:
    """The tensors of files (or FILE:NAME) that have the chosen names, or all, and the texts that came with them, but
    for those about their origin, which is not the result's."""
    inputs: dict[str, Input] = {}
    metadata: dict[str, str] = {}
    known = []
    for text in files:
        loaded = open_tensors(text)
        metadata = loaded.metadata | metadata
        for label, array in loaded.tensors.items():
            name = name_of(loaded, label)
            tensor = Input(
                array, f"{'the array' if loaded.format == 'npy' else label} of {loaded.path}", name
            )
            known.append(f"{name} {array.shape}")
            if chosen and name not in chosen:
                continue
            if name in inputs:
                rule = (
                    f"{inputs[name].label} has the same name, and a file holds one tensor of a name"
                )
                raise ParameterError(
                    tensor.label, "given too", rule, "apply to one after the other"
                )
            inputs[name] = tensor
    metadata.pop(KEY, None)
    missing = [repr(name) for name in chosen if name not in inputs]
    if missing or not inputs:
        rule = f"{', '.join(files)} has {listed(known, MAX_LISTED) or 'no tensors'}"
        raise ParameterError("tensor", missing[0] if missing else "missing", rule)
    return list(inputs.values()), metadata


def open_file(text: str) -> LoadedFile:
    """Open `FILE`, or one tensor of it with `FILE:NAME`."""
    loaded = open_tensors(text)
    for tensor in loaded.unread:
        problem = f"tensor {quoted(tensor.name)} is stored as {tensor.dtype}, which is not read"
        raise FileError(loaded.path, problem, "name a tensor: FILE:NAME")
    return loaded


def read_numbers(name: str, text: str) -> Array:
    """The one array of a file that is given for a parameter; float64 where the file has no dtype of its own."""
    loaded = open_tensors(text)
    tensors = loaded.read_as("float64").tensors
    if len(tensors) != 1:
        known = [f"{label} {array.shape}" for label, array in tensors.items()]
        rule = f"it has {listed(known, MAX_LISTED) or 'no tensors'}"
        raise ParameterError(name, text, rule, "name one, as FILE:NAME")
    (array,) = tensors.values()
    is_column = name == "positions" and loaded.format == "csv" and array.shape[1:] == (1,)
    return array[:, 0] if is_column else array
