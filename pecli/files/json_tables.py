"""The .json format: the spec, and every tensor as nested lists; infinities and NaN, which JSON lacks, are strings.

{"pecli": {"scheme": "rope", …},
 "tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.float_text import check_real, decimal_rows
from pecli.files.output import OnBlock, Output, Spec, Write
from pecli.files.provenance import KEY, compact
from pecli.files.source import Source
from pecli.files.text_tables import MAX_TENSORS, Found, check_names, nested_table, whole_text, write_nested

JSON_FORM = (
    'a .json of tables has the form {"tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}'
)
"""What to do about JSON of another form."""
MAX_EMPTY = 1 << 20
"""How long the axes of a table without elements may be."""
MAX_FRAME = 4 << 20
"""Bytes of a file besides its numbers: they become Python objects, which take twenty times as much."""

_WORDS = ((b"nan", b'"NaN"'), (b"-inf", b'"-Infinity"'), (b"inf", b'"Infinity"'))
_DATA = re.compile(rb'(?<!\\)"data"\s*+:\s*+(?!\{)')
"""The key, not the end of a name or the whole of one."""
_AFTER_DATA = re.compile(rb'\]\s*+,\s*+"')
"""The end of a list, and the next key; inside, a list is followed by a list."""


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes all the tables, one row per line, and the spec that made them."""
    ordered = sorted(tables, key=lambda table: table.name)
    for table in ordered:
        check_real(table, ".json")
        if not table.size and math.prod(filter(None, table.shape)) > MAX_EMPTY:
            raise ParameterError("output", f".json for {table.shape}", "so many lists would all be empty", "write .npy")
    beginning = "{" if spec is None else f'{{"{KEY}":{compact(dict(spec))},\n'

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write((beginning + '"tensors":{').encode("ascii"))
        for place, table in enumerate(ordered):
            output.write(f'{"," if place else ""}\n{compact(table.name)}:{{"data":'.encode("ascii"))
            if table.size:
                write_nested(output, table, _literals, b"[]", on_block)
            else:
                output.write(compact(np.empty(table.shape).tolist()).encode("ascii"))
            output.write(f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'.encode("ascii"))
        output.write(b"}}\n")

    return write


def _literals(block: Array) -> list[bytes]:
    if block.dtype == np.bool_:
        return [compact(row).encode("ascii")[1:-1] for row in block.tolist()]
    rows = decimal_rows(block)
    if block.dtype.kind not in "iu" and any(b"n" in row for row in rows):  # nan, inf
        for word, literal in _WORDS:
            rows = [row.replace(word, literal) for row in rows]
    return rows


def read_json(source: Source) -> Found:
    """What pecli's own .json files hold: the spec and every tensor with its dtype and shape."""
    frame, numbers = _split(source, whole_text(source))
    try:
        found = json.loads(frame, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise source.error("is broken, or not JSON at all", JSON_FORM) from None
    if not isinstance(found, _Pairs) or not isinstance(found.get("tensors"), _Pairs):
        raise source.error("is not a .json file of tables", JSON_FORM)
    tensors: _Pairs = found["tensors"]
    check_names(source, tensors.names)
    tables = tuple(_table(source, name, tensor, numbers) for name, tensor in tensors.items())
    return tables, {KEY: json.dumps(found[KEY])} if KEY in found else {}


class _Pairs(dict[str, Any]):
    """A JSON object, and all its names as they came."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.names = [name for name, _ in pairs]


def _split(source: Source, text: bytes) -> tuple[bytes, list[bytes]]:
    """The text with the numbers of its tensors taken out, each list replaced by its place among them; and those."""
    pieces: list[bytes] = []
    numbers: list[bytes] = []
    at = 0
    found = _DATA.search(text, max(text.find(b'"tensors"'), 0))
    while found:
        start = found.end()
        stop = text.find(b"}", start)
        stop = len(text) if stop < 0 else stop
        end = _AFTER_DATA.search(text, start, stop)
        if end is not None:
            stop = end.start() + 1
        elif text[start : start + 16].lstrip()[:1] not in (b"[", b""):  # a number alone
            comma = text.find(b",", start, stop)
            stop = stop if comma < 0 else comma
        pieces += [text[at:start], b"%d" % len(numbers)]
        numbers.append(text[start:stop])
        at = stop
        if len(numbers) > MAX_TENSORS:
            raise source.error(f"has more than {MAX_TENSORS} tensors")
        found = _DATA.search(text, at)
    rest = len(text) - at + sum(map(len, pieces))
    if rest > MAX_FRAME:
        raise source.error(f"has {rest:,} bytes of text that is no number", f"at most {MAX_FRAME:,} are read")
    return b"".join([*pieces, text[at:]]), numbers


def _table(source: Source, name: str, tensor: object, numbers: list[bytes]) -> Table:
    """One tensor, whose data are a place among the lists of numbers."""
    given = tensor if isinstance(tensor, _Pairs) else {}
    data, dtype, shape = (given.get(key) for key in ("data", "dtype", "shape"))
    sides = isinstance(shape, list) and all(type(side) is int and 0 <= side < 1 << 63 for side in shape)
    if len(given) != 3 or type(data) is not int or not isinstance(dtype, str) or not sides or not _is_text(name):
        raise source.error("has a tensor that is not one", JSON_FORM)
    assert isinstance(shape, list)
    text = numbers[data]
    if b'"' in text:
        for word, literal in _WORDS:
            text = text.replace(literal, word)
    return nested_table(source, name, dtype, tuple(shape), text)


def _is_text(name: str) -> bool:
    """Whether a name can be written down: half a surrogate pair cannot."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
