"""Numbers as text: the shortest decimal that reads back as the same value of its dtype."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError

ELEMENTS = 1 << 16
"""How many elements are turned into text at once."""
PLAIN: Mapping[bytes, bytes] = {b"nan": b"nan", b"-inf": b"-inf", b"inf": b"inf"}
"""What stands for numbers that are not finite."""


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
    ['0.1', '-inf', '1e-7', '3.0']
    """
    return b",".join(decimal_rows(block.reshape(1, -1))).decode("ascii").split(",") if block.size else []


def decimal_rows(block: Array, special: Mapping[bytes, bytes] = PLAIN) -> list[bytes]:
    """The rows of a two-dimensional block, commas between the numbers.

    >>> decimal_rows(np.float32([[0.1, -1 / 3], [2.0**-24, 1e30]]))
    [b'0.1,-0.33333334', b'5.9604645e-8,1e30']
    """
    if block.dtype == np.bool_:
        block = block.view(np.uint8)
    if block.dtype.kind in "iu" or (block.dtype in (np.float32, np.float64) and np.isfinite(block).all()):
        return _json(np.ascontiguousarray(block))[2:-2].split(b"],[")
    words = _words(block.reshape(-1), special)
    width = block.shape[1]
    return [b",".join(words[start : start + width]) for start in range(0, len(words), width)]


def _json(array: Array) -> bytes:
    """An array as orjson writes it; some versions write 1e30, others 1e+30, and files are the same everywhere."""
    import orjson

    return orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY).replace(b"e+", b"e")


def _words(flat: Array, special: Mapping[bytes, bytes]) -> list[bytes]:
    """Numbers one by one, of which some are not finite; of those of few bits, each value is worked out once."""
    if flat.dtype not in (np.float32, np.float64):
        values, places = np.unique(flat.view(f"u{flat.itemsize}"), return_inverse=True)
        texts = [_shortest(value, special) for value in values.view(flat.dtype)]
        return [texts[place] for place in places.tolist()]
    finite = np.isfinite(flat)
    words = _json(np.where(finite, flat, flat.dtype.type(0)))[1:-1].split(b",")
    for place in np.flatnonzero(~finite).tolist():
        words[place] = special[str(float(flat[place])).encode()]
    return words


def _shortest(value: np.generic, special: Mapping[bytes, bytes]) -> bytes:
    """The text of a value whose dtype orjson does not know."""
    number = float(value)
    if not np.isfinite(number):
        return special[str(number).encode()]
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if value.dtype.type(float(text)) == value:
            break
    return repr(float(text)).encode()
