"""Output of llama.cpp's `llama-eval-callback`: queries and keys before and after ROPE.

Each operation is a line with the shape {D, heads, tokens, batch}, followed by its elements:

    ggml_debug:  Qcur-0 = (f32)  ROPE(Qcur-0 (reshaped){80, 32, 4, 1}, inp_pos{4, 1, 1, 1}}) = {80, 32, 4, 1}
        [
            [
                [     -1.1135,       1.4604,      -1.9226, ...,      0.1250,      0.5000,      0.7500],
                ...,

Of a long axis only the first and the last three indices are printed. The elements between them are
NaN in the tensor, and missing heads and tokens are left out: `LoadedFile.parts` states which tokens.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Indices
from pecli.errors import counted
from pecli.files.contents import Contents, LoadedFile, Printed, PrintedPart
from pecli.files.number_text import NumberList, error_at, pieces

MAX_DIM = 4096  # channels of a head
MAX_OPERATIONS = 100_000
BEFORE = "_before"  # what the name of a tensor before ROPE ends in
_OPERATION = re.compile(
    rb"^(?:.*?: )?[ \t]*(?P<name>\S[^=\n]{0,200}?)[ \t]+= \((?P<type>\w+)\)[ \t]+(?P<operation>\w+)\("
    rb"(?P<source>[^{}\n]{0,200})\{.*\}\)[ \t]+= "
    rb"\{(?P<sides>\d{1,9}, \d{1,9}, \d{1,9}, \d{1,9})\}[ \t\r]*$",
    re.MULTILINE,
)
_ROPE = re.compile(rb"= \(\w+\)[ \t]+ROPE\(")
_DOTS = b"..."


def is_dump(contents: Contents) -> bool:
    """Return True if a text has a ROPE operation of llama-eval-callback."""
    return _ROPE.search(contents.data) is not None


class _Operation(NamedTuple):
    """An operation of the graph.

    Attributes:
        name: the name of its result.
        operation: such as ROPE or MUL_MAT.
        source: the name of its first input.
        sides: the shape of the result: (D, heads, tokens, batch).
        start: the offset at which its elements begin.
        stop: the offset at which they end.
    """

    name: str
    operation: str
    source: str
    sides: tuple[int, ...]
    start: int
    stop: int


def read(contents: Contents) -> LoadedFile:
    """Return the inputs and results of all ROPE operations, as (heads, tokens, D).

    The result of `Qcur-0` has this name, and its input is called `Qcur-0_before`. If a name comes
    again, in a second evaluation, only the first is read.

    Raises:
        FileError: no ROPE has elements of its input and its result, or elements are not as stated.
    """
    tensors: dict[str, AnyArray] = {}
    parts: dict[str, PrintedPart] = {}
    repeated = 0
    numbers = NumberList()
    for result, source in _rotations_with_inputs(_operations_in_log(contents)):
        if result.name in tensors:
            repeated += 1
            continue
        for name, operation in ((f"{result.name}{BEFORE}", source), (result.name, result)):
            block = _read_block(contents, operation, numbers)
            tensors[name] = block.values
            if not block.part.is_whole:
                parts[name] = block.part
    problem = "has ROPE operations, and the elements of their inputs are not printed"
    contents.refuse_if(not tensors, problem, "print all operations, without a filter")
    notes = [f"{counted(len(tensors) // 2, 'ROPE operation')} of llama.cpp, (heads, tokens, D)"]
    if repeated:
        notes.append(f"{repeated} of later evaluations left out")
    printed = Printed(numbers.decimals, are_rows=False)
    return LoadedFile(
        contents.path, "text", tensors, printed=printed, notes=tuple(notes), parts=parts
    )


def _operations_in_log(contents: Contents) -> list[_Operation]:
    """Return the operations of llama.cpp's graph that a log shows, in the order of the text.

    Each begins with a line such as «Qcur-0 = (f32) ROPE(…) = {128, 32, 8, 1}», and its elements are
    printed from there to the next such line.
    """
    operations: list[_Operation] = []
    for match in _OPERATION.finditer(contents.data):
        if operations:
            operations[-1] = operations[-1]._replace(stop=match.start())
        contents.refuse_if(
            len(operations) >= MAX_OPERATIONS, f"has more than {MAX_OPERATIONS:,} operations"
        )
        operations.append(
            _Operation(
                match["name"].decode("utf-8", "replace"),
                match["operation"].decode(),
                match["source"].decode("utf-8", "replace").strip(),
                tuple(int(side) for side in match["sides"].split(b",")),
                match.end(),
                len(contents.data),
            )
        )
    return operations


class _Rotation(NamedTuple):
    """A ROPE operation, and the operation that made its input."""

    result: _Operation
    source: _Operation


def _rotations_with_inputs(operations: Sequence[_Operation]) -> Iterator[_Rotation]:
    """Yield the ROPE operations whose input was printed before, in the same shape.

    A name comes several times: `Qcur-0` is the product with the weights, then the sum with the bias,
    and then the rotation. The last one before the rotation is its input.
    """
    latest: dict[str, _Operation] = {}
    for operation in operations:
        source = latest.get(operation.source)
        is_rotation = operation.operation == "ROPE" and operation.sides[3] == 1
        if is_rotation and source is not None and source.sides == operation.sides:
            yield _Rotation(operation, source)
        latest[operation.name] = operation


class _PrintedAxis:
    """The indices of an axis that were printed: all, or some from its beginning and its end."""

    def __init__(self) -> None:
        self.first = 0  # indices before the dots
        self.last = 0  # indices after them
        self.is_cut = False

    def count(self, number: int = 1) -> None:
        if self.is_cut:
            self.last += number
        else:
            self.first += number

    def indices(self, length: int) -> Indices:
        """Return the printed indices of an axis; none if it cannot have this length.

        >>> axis = _PrintedAxis(); axis.count(2); axis.is_cut = True; axis.count(2); axis.indices(9)
        array([0, 1, 7, 8])
        """
        total = self.first + self.last
        fits = total < length if self.is_cut else total == length
        if not fits:
            return np.arange(0)
        return np.concatenate([np.arange(self.first), np.arange(length - self.last, length)])


class _Block(NamedTuple):
    """The printed elements of a tensor."""

    values: AnyArray  #: (heads, tokens, D), NaN between the printed channels
    part: PrintedPart


def _read_block(contents: Contents, operation: _Operation, numbers: NumberList) -> _Block:
    """Return the elements of a tensor that llama.cpp prints below an operation.

    It prints the first and last three along every axis, with dots between them: of 128 channels 0,
    1, 2, 125, 126 and 127. The result has all channels, of which the others are NaN, but only the
    tokens and heads that are printed.

    Args:
        contents: The file.
        operation: The name and shape of the tensor, and the place of the text below it.
        numbers: Takes all numbers that are read, to count their decimals.
    """
    reader = _BlockReader(contents, numbers)
    for piece in pieces(contents, operation.start, operation.stop):
        reader.read_line(piece.text.strip(), piece.offset)
        if reader.is_complete:
            break
    dim, heads, tokens, _ = operation.sides
    printed_tokens = reader.planes.indices(tokens)
    printed_heads = reader.rows.indices(heads)
    printed_channels = reader.columns.indices(dim)
    printed = np.array(numbers.values[reader.start :], np.float64)
    shape = (len(printed_tokens), len(printed_heads), len(printed_channels))
    if dim > MAX_DIM or not printed.size or printed.size != math.prod(shape):
        problem = f"the elements of {operation.name} are not those of its shape"
        raise error_at(contents, operation.start, problem, "the file seems to be cut short")
    values = np.full((*shape[:2], dim), np.nan)  # (tokens, heads, D)
    values[..., printed_channels] = printed.reshape(shape)
    part = PrintedPart((heads, tokens, dim), printed_heads, printed_tokens, printed_channels)
    return _Block(values.swapaxes(0, 1), part)


class _BlockReader:
    """The lines of a block: brackets, dots, and rows of numbers."""

    def __init__(self, contents: Contents, numbers: NumberList) -> None:
        self.contents = contents
        self.numbers = numbers
        self.start = len(numbers.values)
        self.depth = 0
        self.planes = _PrintedAxis()  # tokens
        self.rows = _PrintedAxis()  # heads of the last token; all tokens have the same
        self.columns = _PrintedAxis()
        self.is_complete = False

    def read_line(self, line: bytes, offset: int) -> None:
        """Read a line of the nested lists that llama.cpp prints.

        Depth 1 is the list of tokens, 2 that of a token's heads. A line of dots stands for tokens
        or heads that are left out. Lines of other programs are ignored.
        """
        if line == b"[":
            self._open()
        elif line.startswith(b"]"):
            self.depth -= 1
            self.is_complete = self.depth <= 0
        elif line.startswith(_DOTS):
            axis = self.planes if self.depth == 1 else self.rows
            axis.is_cut = True
        elif line.startswith(b"[") and self.depth == 2:
            self._read_row(line, offset)

    def _open(self) -> None:
        if self.depth == 1:
            self.planes.count()
            self.rows = _PrintedAxis()
        self.depth += 1

    def _read_row(self, line: bytes, offset: int) -> None:
        self.rows.count()
        first, dots, last = line.strip(b"[], ").partition(_DOTS)
        self.columns = _PrintedAxis()
        self.columns.count(self.numbers.scan(self.contents, first, offset))
        if dots:
            self.columns.is_cut = True
            self.columns.count(self.numbers.scan(self.contents, last, offset))
