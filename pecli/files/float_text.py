"""Numbers as text: the shortest decimal that reads back as the same value of its dtype."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError

ELEMENTS = 1 << 16
"""How many elements are turned into text at once: as text they take some twenty times the memory."""


def check_real(table: Table, suffix: str) -> None:
    """Refuse what is not a real number."""
    if not re.fullmatch(r"(bfloat|u?int)\d+|bool|float(16|32|64|8_e4m3fn|8_e5m2)", table.dtype):
        other = ".npy or .npz" if table.dtype.startswith("complex") else ".safetensors"
        raise ParameterError("dtype", table.dtype, f"{suffix} cannot hold it", f"write {other}")


def text_blocks(table: Table) -> Iterator[Array]:
    """The table in blocks that are small enough to be held as text."""
    return table.blocks(max(1, ELEMENTS // max(1, table.width)))


def numerals(block: Array) -> list[str]:
    """Every element of a block as text, in C order.

    >>> numerals(np.float32([[0.1, -np.inf], [1e-7, 3]]))
    ['0.1', '-inf', '1e-07', '3.0']
    """
    flat = block.reshape(-1)
    if flat.dtype == np.float64 or flat.dtype.kind in "iu":
        return [repr(value) for value in flat.tolist()]
    if flat.dtype == np.bool_:
        return ["1" if value else "0" for value in flat.tolist()]
    if flat.dtype in (np.float32, np.float16):
        return flat.astype("U").tolist()
    return _few(flat)


def _few(flat: Array) -> list[str]:
    """The same for dtypes that NumPy has no text for; they have few values, each that occurs is worked out once."""
    values, places = np.unique(flat.view(f"u{flat.itemsize}"), return_inverse=True)
    texts = [_shortest(value) for value in values.view(flat.dtype)]
    return [texts[place] for place in places.tolist()]


def _shortest(value: np.generic) -> str:
    number = float(value)
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if value.dtype.type(float(text)) == value:
            return repr(float(text))
    return repr(number)
