"""Tables as text in nested brackets, such as JSON and C have, written block by block."""

from __future__ import annotations

import math
from collections.abc import Callable

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.files.float_text import text_blocks
from pecli.files.output import Output
from pecli.files.tee_blocks import OnBlock

ELEMENTS_A_LINE = 8
"""How a vector is broken into lines; a table has one row a line."""


def write_nested(
    output: Output,
    table: Table,
    literals: Callable[[Array], list[str]],
    brackets: str,
    on_block: OnBlock | None,
) -> None:
    """Write every element as the text that `literals` gives for it, every axis as a pair of brackets."""
    is_vector = len(table.shape) < 2
    leading = table.shape if is_vector else table.shape[:-1]
    spans = [math.prod(leading[axis:]) for axis in range(len(leading))]  # rows between the brackets of each axis
    row = 0
    for block in text_blocks(table):
        texts = literals(block)
        pieces = []
        for at in range(0, len(texts), table.width):
            text = ",".join(texts[at : at + table.width])
            if row:
                pieces.append("," if is_vector and row % ELEMENTS_A_LINE else ",\n")
            pieces.append(brackets[0] * sum(row % span == 0 for span in spans))
            pieces.append(text if is_vector else f"{brackets[0]}{text}{brackets[1]}")
            row += 1
            pieces.append(brackets[1] * sum(row % span == 0 for span in spans))
        output.write("".join(pieces).encode("ascii"))
        if on_block is not None:
            on_block(table, block)
