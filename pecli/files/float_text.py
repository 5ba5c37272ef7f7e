"""Numbers as text: the shortest decimal that reads back as the same value of its dtype, or hexadecimal as in C.

A float32 is turned into text by arithmetic on whole arrays. Scaled to nine digits in front of the point, it lies in the
middle of an interval of numbers that all read back as itself; the number with the fewest digits in there is looked for
by rounding to tens, hundreds and thousands. The few for which float64 cannot tell, and what is zero, huge or tiny, are
left to NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Flags, Floats
from pecli.engine.table import Table
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

ELEMENTS = 1 << 16
"""How many elements are turned into text at once: as text they take some twenty times the memory."""

_TOLERANCE = 1e-5
"""Of comparisons between nine-digit numbers, which float64 holds to 3e-7."""
_SMALLEST, _LARGEST = (int(np.float32(limit).view(np.uint32)) for limit in (1.2e-38, 1e4))
"""The bits of the numbers that arithmetic turns into text: of full precision, and with at most four digits before the
point.
"""


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
    return b",".join(decimal_rows(block.reshape(1, -1))).decode("ascii").split(",") if block.size else []


def decimal_rows(block: Array) -> list[bytes]:
    """The rows of a two-dimensional block, commas between the numbers.

    >>> decimal_rows(np.float32([[0.1, -1 / 3], [2.0**-24, 1e30]]))
    [b'0.1,-0.33333334', b'5.9604645e-08,1e+30']
    """
    if block.dtype == np.float32:
        return _rows(_decimals(block.reshape(-1)), block.shape[1])
    if block.dtype == np.float64 or block.dtype.kind in "iub":
        plain = block.view(np.uint8) if block.dtype == np.bool_ else block
        return [repr(row)[1:-1].replace(" ", "").encode("ascii") for row in plain.tolist()]
    return _rows(_few_values(block.reshape(-1)), block.shape[1])


def hexadecimal_rows(block: Array) -> list[bytes]:
    """The rows of a block of float32 or float64 as C has them, exact whatever its rounding.

    >>> hexadecimal_rows(np.float32([[0.1, -3], [np.inf, 0]]))
    [b'0x1.99999ap-4f,-0x1.8p+1f', b'INFINITY,0x0p+0f']
    """
    return _rows(_hexadecimals(block.reshape(-1)), block.shape[1])


def _rows(words: Words, width: int) -> list[bytes]:
    """Texts in pieces of four bytes, filled up with zeros, one line of `words` for each number; before it goes what
    separates it from the number before, and its sign.
    """
    words.reshape(-1, width, words.shape[1])[:, 0, 0] ^= _words([b","])[0] ^ _words([b"\n"])[0]
    return words.tobytes().translate(None, b"\0")[1:].split(b"\n")


def _words(texts: list[bytes]) -> Words:
    """Texts of up to four bytes as numbers."""
    return np.frombuffer(b"".join(text.ljust(4, b"\0") for text in texts), np.uint32)


def _signs(negative: Flags) -> Words:
    return _words([b",", b",-"])[negative.view(np.uint8)]


def _put(words: Words, places: Array, texts: list[str]) -> None:
    """Whole texts, signs included, in the place of what stands there."""
    room = words.shape[1] - 1
    words[places, 0] = _words([b","])
    words[places, 1:] = np.array(texts, f"S{4 * room}").view(np.uint32).reshape(-1, room)


def _few_values(flat: Array) -> Words:
    """Numbers of few bits: each value that occurs is worked out once."""
    values, places = np.unique(flat.view(f"u{flat.itemsize}"), return_inverse=True)
    words = np.zeros((len(values), 8), np.uint32)
    found = values.view(flat.dtype)
    texts = found.astype("U").tolist() if flat.dtype in (np.float16, np.float32) else [_shortest(v) for v in found]
    _put(words, np.arange(len(values)), texts)
    return words[places]


def _shortest(value: np.generic) -> str:
    """The text of a value whose dtype NumPy has none for."""
    number = float(value)
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if value.dtype.type(float(text)) == value:
            return repr(float(text))
    return repr(number)


@cache
def _binary_exponents() -> tuple[Array, Floats, Floats]:
    """For each exponent of a float32: the decimal exponent of the smallest such number, the power of ten at which the
    next one begins, and half a unit of the last place.
    """
    powers = [2.0**e for e in range(-127, 129)]
    lowest = [int(f"{power:.17e}".partition("e")[2]) for power in powers]
    return (
        np.array(lowest, np.intp),
        np.array([float(f"1e{e + 1}") for e in lowest]),
        np.array([power * 2.0**-24 for power in powers]),
    )


@cache
def _decimal_exponents() -> tuple[Floats, Floats, Words, Words]:
    """For decimal exponents −38 … 3: what makes nine digits of a number; what is divided by to get those before the
    point; the zeros after the point; and the exponent as it is written, if it is.
    """
    every = range(-38, 4)
    return (
        np.array([float(f"1e{8 - e}") for e in every]),
        np.array([1e8 if e < -4 else 10.0 ** (8 - max(e, -1)) for e in every]),
        _words([b"." + b"0" * (-1 - e if -5 < e < 0 else 0) for e in every]),
        _words([b"e-%02d" % -e if e < -4 else b"" for e in every]),
    )


@cache
def _digit_groups(digits: int, base: int) -> Words:
    """All groups of so many digits; then the same without zeros at their ends."""
    form = f"%0{digits}{'d' if base == 10 else 'x'}"
    full = [(form % number).encode() for number in range(base**digits)]
    return _words(full + [text.rstrip(b"0") for text in full])


def _put_groups(words: Words, groups: list[AnyArray], digits: int, base: int) -> None:
    """Groups of digits side by side, without the zeros at the end of them all."""
    table, count = _digit_groups(digits, base), base**digits
    zero: AnyArray | int = count
    for place in range(len(groups) - 1, -1, -1):
        words[:, place] = table[groups[place] + zero]
        zero = np.where(groups[place] == 0, zero, 0)


@cache
def _whole_numbers() -> Words:
    return _words([b"%d" % number for number in range(10_000)])


def _decimals(flat: Array) -> Words:
    """The shortest decimals of float32 numbers, as NumPy writes them."""
    bits = flat.view(np.uint32) & np.uint32(0x7FFFFFFF)
    slow = (bits < _SMALLEST) | (bits >= _LARGEST)
    if slow.any():
        bits[slow] = _SMALLEST
    exponent, digits, doubtful = _nine_digits(bits)
    slow |= doubtful
    _, divisors, points, powers = _decimal_exponents()
    divisor = divisors[exponent]
    whole = np.floor(digits / divisor)
    rest = ((digits - whole * divisor) * (1e9 / divisor)).astype(np.uint32)
    high, low = np.divmod(rest, np.uint32(1000))
    words = np.empty((len(flat), 7), np.uint32)
    words[:, 0] = _signs(np.signbit(flat))
    words[:, 1] = _whole_numbers()[whole.astype(np.intp)]
    words[:, 2] = points[exponent]
    _put_groups(words[:, 3:6], [*np.divmod(high, np.uint32(1000)), low], 3, 10)
    words[:, 6] = powers[exponent]
    short = rest == 0
    if short.any():
        written = words[:, 6] != 0
        words[short & written, 2] = 0
        words[short & ~written, 3] = _words([b"0"])
    places = np.flatnonzero(slow)
    if places.size:
        words[places] = _few_values(flat[places])[:, :7]
    return words


def _nine_digits(bits: NDArray[np.uint32]) -> tuple[Array, Floats, Flags]:
    """Of positive float32 numbers: decimal exponents, counted from −38; integers of nine digits, the last of which are
    zeros where fewer suffice; and which of them are in doubt.
    """
    size = bits.view(np.float32).astype(np.float64)
    lowest, next_power, half_unit = _binary_exponents()
    binary = bits >> np.uint32(23)
    exponent = lowest[binary] + (size >= next_power[binary]) + 38
    scale = _decimal_exponents()[0][exponent]
    scaled, reach = size * scale, half_unit[binary] * scale
    digits = np.rint(scaled)
    doubtful = np.abs(digits - scaled) > 0.5 - _TOLERANCE
    for step in (10.0, 100.0, 1000.0):
        rounded = np.rint(scaled * (1 / step))
        rounded *= step
        off = np.abs(rounded - scaled)
        doubtful |= (np.abs(off - reach) < _TOLERANCE) | (off > step / 2 - _TOLERANCE)
        inside = off < reach
        np.copyto(digits, rounded, where=inside)
    doubtful |= ~inside & (bits << np.uint32(9) == 0)  # below a power of two, the interval is half as wide
    doubtful |= (digits < 1e8) | (digits >= 1e9)
    return exponent, digits, doubtful


@cache
def _hexadecimal_exponents(ending: bytes) -> Words:
    """By the exponent of a float64, two words each."""
    texts = [b"p%+d%s" % (max(e, 1) - 1023, ending) for e in range(2048)]
    return _words([text.ljust(8, b"\0") for text in texts]).reshape(-1, 2)


def _hexadecimals(flat: Array) -> Words:
    single = flat.dtype == np.float32
    groups = 2 if single else 5
    with np.errstate(invalid="ignore"):
        values: Floats = flat.astype(np.float64)
    bits = values.view(np.uint64)
    exponent = (bits >> np.uint64(52)).astype(np.intp) & 0x7FF
    mantissa = bits & np.uint64(2**52 - 1)
    mantissa <<= np.uint64(8)  # 60 bits, fifteen digits
    words = np.empty((len(flat), groups + 4), np.uint32)
    words[:, 0] = _signs(np.signbit(values))
    words[:, 1] = _words([b"0x1.", b"0x1", b"0x0.", b"0x0"])[(mantissa == 0) + 2 * (exponent == 0)]
    shifts = accumulate(repeat(12, groups - 1), lambda shift, step: shift - step, initial=48)
    _put_groups(words[:, 2:-2], [(mantissa >> np.uint64(s) & np.uint64(0xFFF)).astype(np.intp) for s in shifts], 3, 16)
    words[:, -2:] = _hexadecimal_exponents(b"f" if single else b"")[np.where(values == 0, 1023, exponent)]
    places = np.flatnonzero(exponent == 0x7FF)
    if places.size:
        names = np.where(np.isnan(values[places]), "NAN", np.where(values[places] > 0, "INFINITY", "-INFINITY"))
        _put(words, places, names.tolist())
    return words
