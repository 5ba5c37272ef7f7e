"""The .csv format: one row of the table a line, no header."""

from __future__ import annotations

from collections.abc import Sequence

from pecli.engine.table import Table
from pecli.files.float_text import check_real, numerals, text_blocks
from pecli.files.output import Output
from pecli.files.tee_blocks import OnBlock, Spec, Write


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes the one table there is; the format has no place for a spec."""
    (table,) = tables
    check_real(table, ".csv")

    def write(output: Output, on_block: OnBlock | None) -> None:
        for block in text_blocks(table):
            texts = numerals(block)
            lines = [",".join(texts[at : at + table.width]) + "\n" for at in range(0, len(texts), table.width or 1)]
            output.write("".join(lines).encode("ascii"))
            if on_block is not None:
                on_block(table, block)

    return write
