"""Tables read from text: .csv, .txt and .tsv files, and pecli's own .json. Nothing is evaluated.

Text is read whole, so its size is limited.
"""

from __future__ import annotations

import io
import json
import re
from itertools import chain
from typing import Any

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, numpy_dtype, round_to
from pecli.errors import FileError, quoted
from pecli.files.contents import CHUNK, JSON_FORM, Contents, LoadedFile, data_bytes, parsed_json
from pecli.files.npy import ARRAY_NAME
from pecli.files.output import KEY, is_text

MAX_BYTES = 256 << 20  # of a text file that is read
MAX_LISTS = 4 << 20
"""Brackets, braces and quotes in .json: what they enclose becomes Python objects of a hundred bytes."""
MAX_TENSORS = 10_000
INFINITIES = {"NaN": float("nan"), "-Infinity": -float("inf"), "Infinity": float("inf")}
_WORD = re.compile(rb'\s*(?:"[^"]*"|#.*|(?!(?:nan|inf|infinity)\s*$)[a-z_\x80-\xff].*)?', re.IGNORECASE | re.DOTALL)


def _whole_text(contents: Contents) -> bytes:
    if len(contents.data) > MAX_BYTES:
        raise contents.error(f"has more than {MAX_BYTES >> 20} MiB of text", "convert it to .npy with another tool")
    return bytes(contents.data)


def read_csv(contents: Contents) -> LoadedFile:
    """A table of float64, one row per line; without fractions and exponents it holds integers. The first line may be a
    header; where its first cell is empty, the first column numbers the rows, as pandas writes it. A .txt or .tsv file
    may have spaces or tabs between its numbers, as np.savetxt writes it."""
    text = _whole_text(contents).removeprefix(b"\xef\xbb\xbf").strip()
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first = text[: text.find(b"\n") % (len(text) + 1)]  # up to the end where there is one line; no copy of the others
    if has_header := _is_header(first):
        text = text[len(first) + 1 :]
    if not text:
        raise contents.error("is blank")
    if not contents.path.lower().endswith(".csv") and b"," not in text:
        text = text.replace(b"\t", b" ")
        while b"  " in text:
            text = text.replace(b"  ", b" ")
        text = text.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip().replace(b" ", b",")
    try:
        values = _numbers(text)
    except (ValueError, OverflowError) as problem:
        raise _explained(contents, text, str(problem)) from None
    return LoadedFile(contents.path, "csv", {ARRAY_NAME: values[:, has_header and first.startswith(b",") :]})


def _is_header(line: bytes) -> bool:
    """Whether a line names columns: its first cell is a word or empty, the others are words or whole numbers. Anything
    else is a row, and an error where it holds a word."""
    first, *others = line.split(b",")
    return _WORD.fullmatch(first) is not None and all(
        cell.strip().isdigit() or _WORD.fullmatch(cell) for cell in others
    )


def _numbers(text: bytes) -> AnyArray:
    """All numbers of a text, some lines at a time: most are JSON's own, NumPy reads the others, such as nan and +.5."""
    import orjson

    dtype = np.dtype(np.float64 if re.search(rb"[.eEnN]", text) else np.int64)
    columns = text.count(b",", 0, text.find(b"\n") % (len(text) + 1)) + 1
    pieces: list[AnyArray] = []
    start = number = 0
    while start <= len(text):
        end = text.find(b"\n", start + CHUNK) % (len(text) + 1)
        lines = text[start:end].split(b"\n")
        for line in lines:
            number += 1
            if (count := line.count(b",") + bool(line)) != columns:
                raise ValueError(f"line {number} has {count} numbers, and the first has {columns}")
        piece = b",".join(lines)
        try:
            values = np.array(orjson.loads(b"[%b]" % piece))
            if values.ndim != 1 or values.dtype.kind not in "iuf":
                raise TypeError
            values = values.astype(dtype, casting="same_kind" if dtype.kind == "i" else "unsafe")
        except (ValueError, TypeError):
            if not piece.isascii():
                raise ValueError from None
            values = np.loadtxt(io.BytesIO(piece.replace(b",", b"\n")), dtype, comments=None, delimiter=",", ndmin=1)
            if len(values) != columns * len(lines):  # blank lines are passed over
                raise ValueError from None
        pieces.append(values)
        start = end + 1
    return np.concatenate(pieces).reshape(-1, columns)


def _explained(contents: Contents, text: bytes, uneven: str) -> FileError:
    """Why a text is no table of numbers; `uneven` names a line that has more or fewer than the first."""
    if separator := re.search(rb"[0-9][ ]*([;\t|])", text):
        sign = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}[separator[1]]
        return contents.error(f"separates numbers by {sign}", "a .csv has commas: replace them")
    if uneven.startswith("line "):
        return contents.error(uneven)
    if re.search(rb"[^-+0-9.,eEinfaFNIty \t\n]", text):
        return contents.error("is not a table of numbers: it holds other words")
    if re.search(rb"[^, \t\n][ \t]++[^, \t\n]", text):
        return contents.error("is not a table of numbers: some have spaces in them, or no comma between them")
    return contents.error("holds something that is not a number, or an integer beyond int64")


def read_json(contents: Contents) -> LoadedFile:
    """What pecli's own .json files hold: every tensor with its dtype and shape, and the spec."""
    text = _whole_text(contents)
    if sum(text.count(mark) for mark in (b"[", b"{", b'"')) > MAX_LISTS:
        raise contents.error(f"has more than {MAX_LISTS:,} lists and texts", "write .npz or .safetensors")
    try:
        value = parsed_json(text, finite=False)
    except ValueError:
        raise contents.error("is broken, has a name twice, or is not JSON at all", JSON_FORM) from None
    match value:
        case {"tensors": dict(tensors)} if len(tensors) <= MAX_TENSORS:
            arrays = {name: _array(contents, name, tensor) for name, tensor in tensors.items()}
        case {"tensors": dict(_)}:
            raise contents.error(f"has more than {MAX_TENSORS} tensors")
        case _:
            raise contents.error("is not a .json file of tables", JSON_FORM)
    return LoadedFile(contents.path, "json", arrays, {KEY: json.dumps(value[KEY])} if KEY in value else {})


def _array(contents: Contents, name: str, tensor: Any) -> Array:
    complain = contents.complaint(name)
    match tensor:
        case {"data": data, "dtype": str(dtype), "shape": [*sides]} if len(tensor) == 3 and is_text(name):
            shape = tuple(sides)
        case _:
            raise contents.error("has a tensor that is not one", JSON_FORM)
    if dtype not in (*SIGNIFICAND_BITS, "bool") and not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        raise complain(f"has dtype {quoted(dtype)}, which is not known")
    if not all(type(side) is int and 0 <= side < 1 << 63 for side in shape):
        raise complain("has a shape that is not a list of lengths")
    data_bytes(shape, numpy_dtype(dtype).itemsize, complain)
    flat = [data]
    for side in shape:
        if not all(type(part) is list and len(part) == side for part in flat):
            raise complain(f"is not nested as its shape, {shape}, asks for")
        flat = list(chain.from_iterable(flat))
    is_float = dtype in SIGNIFICAND_BITS
    kinds = set(map(type, flat))
    if is_float and str in kinds:
        flat = [INFINITIES.get(value, value) if type(value) is str else value for value in flat]
        kinds = set(map(type, flat))
    if not kinds <= ({float, int} if is_float else {bool} if dtype == "bool" else {int}):
        raise complain(f"holds something that is not a number of {dtype}")
    try:
        return (round_to(np.array(flat, np.float64), dtype) if is_float else np.array(flat, dtype)).reshape(shape)
    except OverflowError:
        raise complain(f"holds a number that {dtype} does not hold") from None
