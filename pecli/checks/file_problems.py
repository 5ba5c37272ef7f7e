"""Problems of a file that no single tensor's values show: codes with fields, and their sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

from pecli.checks.finding import Finding
from pecli.compare.problems import Problem
from pecli.engine.arrays import Indices
from pecli.errors import listed

MAX_LISTED = 8  #: tensors, layers or position ids that a sentence names


class FileProblem(Finding):
    """A reason for which a file fails, whatever the values of its tensors are."""


# Tensors that should be there, or should not


@dataclass(frozen=True)
class MissingTable(FileProblem):
    """A table of a scheme that no tensor of a file is."""

    name: str
    held: Sequence[str]  #: the tensors of the file

    def __str__(self) -> str:
        advice = "no tensor is there at all"
        if self.held:
            names = listed(list(self.held), MAX_LISTED)
            advice = f"the file has {names}, and FILE:NAME checks one alone"
        return f"{self.name}: the tensor is missing; {advice}"


@dataclass(frozen=True)
class MissingTensor(FileProblem):
    """A tensor that the spec in a file has, and the file has not."""

    name: str

    sentence = "{name}: the tensor is missing"


@dataclass(frozen=True)
class UnexpectedTensor(FileProblem):
    """A tensor of a file that the spec in it does not have."""

    name: str
    scheme: str

    sentence = "{name}: {scheme} has no such tensor"


@dataclass(frozen=True)
class OnlyInOneFile(FileProblem):
    """A tensor that one of two files has."""

    name: str
    owner: str  #: A or B
    other: str

    sentence = "{name}: only {owner} has it, {other} does not"


@dataclass(frozen=True)
class NoTensors(FileProblem):
    """Two files without any tensor: that they agree would prove nothing."""

    sentence = "there is nothing to compare: neither A nor B holds a tensor"


@dataclass(frozen=True)
class NothingInCommon(FileProblem):
    """Two files without a tensor that has the same name, or the same role, in both."""

    command: str  #: a command that compares one tensor of each

    sentence = "no tensors belong together by their names; compare one of each: {command}"


# Tensors that do not belong together


@dataclass(frozen=True)
class ChangedAfterWriting(FileProblem):
    """The hash that pecli stored in a file is not that of its tensors."""

    def __str__(self) -> str:
        return (
            "the stored sha256 is not that of the data: the file was changed after it was written"
        )


@dataclass(frozen=True)
class TensorProblem(FileProblem):
    """A problem of one tensor that the comparison of its values does not report."""

    name: str
    problem: Problem

    sentence = "{name}: {problem}"


# Recorded runs


@dataclass(frozen=True, eq=False)
class WrongIds(FileProblem):
    """Position ids of a sequence that are not the positions of its tokens."""

    sequence: int
    ids: Indices
    expected: Indices
    count_padding: bool  #: True if the sequence is padded, which ids must not count

    def __str__(self) -> str:
        sentence = f"position ids of sequence {self.sequence} are {_quote_first_ids(self.ids)}"
        sentence += f", not {_quote_first_ids(self.expected)}"
        return f"{sentence}; they count its padding" if self.count_padding else sentence


def _quote_first_ids(ids: Indices) -> str:
    """Return the first ids: `4, 5, 6, …`."""
    words = [str(number) for number in ids[:MAX_LISTED]]
    if len(ids) > MAX_LISTED:
        words.append("…")
    return ", ".join(words)


@dataclass(frozen=True)
class LayersNotRotated(FileProblem):
    """Layers that do not rotate queries and keys, although the configuration requires it."""

    layers: Sequence[int]

    def __str__(self) -> str:
        first = self.layers[0]
        return f"layer {first} is the first that does not rotate (layers {layer_list(self.layers)})"


@dataclass(frozen=True)
class RotatedNopeLayers(FileProblem):
    """Layers that rotate, although the configuration has no rotation there (NoPE)."""

    layers: Sequence[int]

    def __str__(self) -> str:
        sentence = f"layer {self.layers[0]} is the first that rotates though it should not"
        layers = layer_list(self.layers)
        return f"{sentence}: the configuration has no rotation in layers {layers} (NoPE)"


@dataclass(frozen=True)
class InCall(FileProblem):
    """A problem in one of several calls of a model."""

    call: int
    problem: FileProblem

    sentence = "call {call}: {problem}"


def layer_list(layers: Sequence[int]) -> str:
    """Return the numbers of layers, the first ones of many."""
    return listed([str(layer) for layer in layers], MAX_LISTED)
