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

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Indices
from pecli.errors import counted
from pecli.files.contents import Contents, LoadedFile, PrintedPart, PrintedText
from pecli.files.number_text import NumberList, Piece, error_at, pieces

MAX_DIM = 4096  # channels of a head
MAX_OPERATIONS = 100_000
BEFORE = "_before"  # what the name of a tensor before ROPE ends in
_OPERATION = re.compile(
    rb"^(?:.*?: )?[ \t]*(?P<name>\S[^=\n]{0,200}?)[ \t]+= \((?P<type>\w+)\)[ \t]+(?P<operation>\w+)\("
    rb"(?P<source>[^{}\n]{0,200})\{.*\}\)[ \t]+= "
    rb"\{(?P<ggml_shape>\d{1,9}, \d{1,9}, \d{1,9}, \d{1,9})\}[ \t\r]*$",
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
        ggml_shape: the shape of the result: (D, heads, tokens, batch).
        start: the offset at which its elements begin.
        stop: the offset at which they end.
    """

    name: str
    operation: str
    source: str
    ggml_shape: tuple[int, ...]
    start: int
    stop: int

    def rotates(self, source: "_Operation") -> bool:
        """Return True for a ROPE operation on a single batch, whose input has the same shape."""
        *_, batch = self.ggml_shape
        return self.operation == "ROPE" and batch == 1 and source.ggml_shape == self.ggml_shape


def read(contents: Contents) -> LoadedFile:
    """Return the inputs and results of all ROPE operations, as (heads, tokens, D).

    The result of `Qcur-0` has this name, and its input is called `Qcur-0_before`. If a name comes
    again, in a second evaluation, only the first is read.

    Raises:
        FileError: no ROPE has elements of its input and its result, or elements are not as stated.
    """
    operations = _operations_in_log(contents)
    rotations = list(_rotations_with_inputs(operations))
    contents.require(
        rotations,
        "has no ROPE operation that can be read",
        "print all operations of llama-eval-callback, as it prints them, for one sequence at a time",
    )
    first_rotations: dict[str, _Rotation] = {}
    for rotation in rotations:
        first_rotations.setdefault(rotation.result.name, rotation)
    printed_tensors: dict[str, _PrintedTensor] = {}
    all_numbers = NumberList()  # Each tensor adds its own, for the decimals of all that is printed.
    for name, rotation in first_rotations.items():
        before = _read_printed_tensor(contents, rotation.source, all_numbers)
        printed_tensors[f"{name}{BEFORE}"] = before
        printed_tensors[name] = _read_printed_tensor(contents, rotation.result, all_numbers)
    read_count = len(first_rotations)
    return LoadedFile(
        path=contents.path,
        format="text",
        tensors={name: printed.values for name, printed in printed_tensors.items()},
        printed=PrintedText(all_numbers.decimals, are_rows=False),
        notes=_notes_on_operations(read_count, left_out_count=len(rotations) - read_count),
        parts=_parts_of_cut_tensors(printed_tensors),
    )


def _parts_of_cut_tensors(printed_tensors: "dict[str, _PrintedTensor]") -> dict[str, PrintedPart]:
    """Return the printed heads, tokens and channels of tensors of which others are left out."""
    parts: dict[str, PrintedPart] = {}
    for name, printed in printed_tensors.items():
        if not printed.part.is_whole:
            parts[name] = printed.part
    return parts


def _notes_on_operations(read_count: int, left_out_count: int) -> tuple[str, ...]:
    """Return notes on the number of operations that were read, and on those of later evaluations."""
    note = f"{counted(read_count, 'ROPE operation')} of llama.cpp, (heads, tokens, D)"
    if left_out_count:
        return note, f"{left_out_count} of later evaluations left out"
    return (note,)


def _operations_in_log(contents: Contents) -> list[_Operation]:
    """Return the operations of llama.cpp's graph that a log shows, in the order of the text.

    Each begins with a line such as «Qcur-0 = (f32) ROPE(…) = {128, 32, 8, 1}», and its elements are
    printed from there to the next such line, or to the end of the log.
    """
    headers: list[re.Match[bytes]] = []  # the first line of each operation
    for header in _OPERATION.finditer(contents.data):
        has_too_many = len(headers) == MAX_OPERATIONS
        contents.refuse_if(has_too_many, f"has more than {MAX_OPERATIONS:,} operations")
        headers.append(header)
    operations: list[_Operation] = []
    end_of_elements = len(contents.data)
    for header in reversed(headers):
        operations.append(_operation_of_header(header, end_of_elements))
        end_of_elements = header.start()  # for the operation before this one
    operations.reverse()
    return operations


def _operation_of_header(header: re.Match[bytes], end_of_elements: int) -> _Operation:
    """Return the operation that a line of the log begins, whose elements end at an offset."""
    return _Operation(
        name=header["name"].decode("utf-8", "replace"),
        operation=header["operation"].decode(),
        source=header["source"].decode("utf-8", "replace").strip(),
        ggml_shape=tuple(int(side) for side in header["ggml_shape"].split(b",")),
        start=header.end(),
        stop=end_of_elements,
    )


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
        if source is not None and operation.rotates(source):
            yield _Rotation(result=operation, source=source)
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
        from_beginning = np.arange(self.first)
        from_end = np.arange(length - self.last, length)
        return np.concatenate([from_beginning, from_end])


class _PrintedTensor(NamedTuple):
    """The printed elements of a tensor."""

    values: AnyArray  #: (heads, tokens, D), NaN between the printed channels
    part: PrintedPart


def _read_printed_tensor(
    contents: Contents, operation: _Operation, all_numbers: NumberList
) -> _PrintedTensor:
    """Return the elements that are printed below an operation, as (heads, tokens, D).

    llama.cpp prints the first and the last three indices of each axis: of 128 channels 0, 1, 2, 125,
    126 and 127. The other channels are NaN; the other heads and tokens are left out.

    Args:
        contents: The file.
        operation: The name and shape of the tensor, and the place of the text below it.
        all_numbers: The numbers of all tensors so far; those of this one are added.
    """
    reader = _ListReader(contents, all_numbers)
    reader.read_lines(pieces(contents, operation.start, operation.stop))
    printed_numbers = reader.printed_numbers()
    part = reader.printed_part(operation)  # the indices of printed heads, tokens and channels
    dim, *_ = operation.ggml_shape
    is_empty = printed_numbers.size == 0
    if dim > MAX_DIM or is_empty or printed_numbers.size != part.printed_size:
        problem = f"the elements of {operation.name} are not those of its shape"
        raise error_at(contents, operation.start, problem, "the file seems to be cut short")
    # The text lists tokens, then the heads of each token, then the channels of each head.
    by_token = printed_numbers.reshape(len(part.tokens), len(part.heads), len(part.channels))
    by_head = by_token.swapaxes(0, 1)
    values = np.full((len(part.heads), len(part.tokens), dim), np.nan)
    values[..., part.channels] = by_head
    return _PrintedTensor(values=values, part=part)


class _ListReader:
    """A reader of the nested lists of one tensor: brackets, dots, and rows of numbers."""

    def __init__(self, contents: Contents, numbers: NumberList) -> None:
        self.contents = contents
        self.numbers = numbers  # of all tensors; those of this one are added at the end
        self._numbers_before = len(numbers.values)  # those of the tensors before this one
        self.depth = 0  # lists that are open
        self.tokens = _PrintedAxis()
        self.heads = _PrintedAxis()  # those of the last token; all tokens have the same
        self.columns = _PrintedAxis()
        self.is_complete = False

    def read_lines(self, lines: Iterable[Piece]) -> None:
        """Read lines to the end of the tensor, after which others follow."""
        for line in lines:
            self._read_line(line.text.strip(), line.offset)
            if self.is_complete:
                return

    def _read_line(self, line: bytes, offset: int) -> None:
        """Read a line of the nested lists that llama.cpp prints.

        Depth 1 is the list of tokens, and 2 the list of a token's heads, each in one line:

            [                              opens the list of tokens: depth 1
             [                             opens the heads of token 0: depth 2
              [ 0.1, 0.2, ..., 0.9 ],      a head
              ...,                         heads that are left out
             ],                            depth 1
             ...,                          tokens that are left out
            ]                              depth 0: the tensor is complete

        Lines of other programs between them are ignored.
        """
        is_in_list_of_heads = self.depth == 2
        if line == b"[":
            self._open()
        elif line.startswith(b"]"):
            self.depth -= 1
            self.is_complete = self.depth <= 0
        elif line.startswith(_DOTS):  # They stand for tokens or heads that are left out.
            axis = self.tokens if self.depth == 1 else self.heads
            axis.is_cut = True
        elif is_in_list_of_heads and line.startswith(b"["):
            self._read_row(line, offset)

    def printed_numbers(self) -> AnyArray:
        """Return the numbers of this tensor, in the order of the text."""
        return np.array(self.numbers.values[self._numbers_before :], np.float64)

    def printed_part(self, operation: _Operation) -> PrintedPart:
        """Return the heads, tokens and channels of the tensor that were printed."""
        dim, heads, tokens, _ = operation.ggml_shape
        return PrintedPart(
            shape=(heads, tokens, dim),
            heads=self.heads.indices(heads),
            tokens=self.tokens.indices(tokens),
            channels=self.columns.indices(dim),
        )

    def _open(self) -> None:
        """Open the list of tokens, or that of the heads of a token."""
        if self.depth == 1:
            self.tokens.count()
            self.heads = _PrintedAxis()
        self.depth += 1

    def _read_row(self, line: bytes, offset: int) -> None:
        """Read the channels of a head: `[-1.1135, 1.4604, ..., 0.7500],`."""
        self.heads.count()
        first, dots, last = line.strip(b"[], ").partition(_DOTS)
        self.columns = _PrintedAxis()
        self.columns.count(self.numbers.scan(self.contents, first, offset))
        if dots:
            self.columns.is_cut = True
            self.columns.count(self.numbers.scan(self.contents, last, offset))
