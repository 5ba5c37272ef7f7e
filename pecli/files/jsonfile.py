"""The .json format: the spec, and every tensor as nested lists; infinities and NaN, which JSON has not, are strings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.float_text import check_real, numerals
from pecli.files.nested import write_nested
from pecli.files.output import Output
from pecli.files.provenance import KEY, compact
from pecli.files.tee_blocks import OnBlock, Spec, Write

MOST_EMPTY = 1 << 20
"""How long the axes of a table without elements may be."""
NOT_FINITE = {"inf": '"Infinity"', "-inf": '"-Infinity"', "nan": '"NaN"'}


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes all the tables, one row a line, and the spec that made them."""
    ordered = sorted(tables, key=lambda table: table.name)
    for table in ordered:
        check_real(table, ".json")
        if not table.size and math.prod(filter(None, table.shape)) > MOST_EMPTY:
            raise ParameterError("output", f".json for {table.shape}", "so many lists would all be empty", "write .npy")
    beginning = "{" if spec is None else f'{{"{KEY}":{compact(dict(spec))},\n'

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write((beginning + '"tensors":{').encode("ascii"))
        for place, table in enumerate(ordered):
            output.write(f'{"," if place else ""}\n{compact(table.name)}:{{"data":'.encode("ascii"))
            if table.size:
                write_nested(output, table, _literals, "[]", on_block)
            else:
                output.write(compact(np.empty(table.shape).tolist()).encode("ascii"))
            output.write(f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'.encode("ascii"))
        output.write(b"}}\n")

    return write


def _literals(block: Array) -> list[str]:
    if block.dtype == np.bool_:
        return ["true" if value else "false" for value in block.reshape(-1).tolist()]
    return [NOT_FINITE.get(text, text) for text in numerals(block)]
