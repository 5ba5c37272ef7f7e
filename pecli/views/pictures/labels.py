"""Numbers and texts for axes, titles and legends: round numbers, short numbers, lines that fit."""

from __future__ import annotations

import math
import re
import sys

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PARTS = re.compile(r"[^./_-]*[./_-]?")
"""The parts of a name that has no spaces."""


def round_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (and their tenths) that cuts a span into no more than `most` pieces.

    >>> round_step(511, 6)
    100.0
    """
    if not 1e-300 < span < math.inf:  # powers of ten end where numbers do
        return 1.0
    rough = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough * (1 - 1e-9)), 10 * power)


def round_values(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, no more than `most` + 1.

    >>> round_values(0, 1, 5)
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    """
    if not math.isfinite(high - low) or high - low < 1e-12 * max(abs(low), abs(high)):  # no room for round numbers
        return [low, high] if high > low else [low]
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def round_powers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten from low to high; 2 and 5 times them where there are few; any round numbers where there are none.

    >>> round_powers(1, 5000, 8), round_powers(3, 60, 8)
    ([1.0, 10.0, 100.0, 1000.0], [5.0, 10.0, 20.0, 50.0])
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first) // most))
    found = [10.0**power for power in range(first, last + 1, step)]
    if len(found) * 3 <= most + 3 and step == 1:
        finer = [part * 10.0**power for power in range(first - 1, last + 1) for part in (1, 2, 5)]
        found = [value for value in finer if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9)]
    return found if len(found) > 2 or step > 1 else [value for value in round_values(low, high, most) if value > 0]


def round_ends(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, moved to round numbers where those are close.

    >>> round_ends(0.0, 0.9999)
    (0.0, 1.0)
    """
    if not math.isfinite(high - low):
        return low, high
    step, room = round_step(high - low, 5), (high - low) / 20
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    return below if low - below < room else low, above if above - high < room else high


def apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, moved apart where hardly any numbers lie between them.

    >>> apart(0.0, 2.0), apart(3.0, 3.0)
    ((0.0, 2.0), (2.5, 3.5))
    """
    reach = max(abs(low), abs(high))
    if high - low > max(1e-300, 1e-12 * reach):
        return low, high
    room = max(0.5, 1e-9 * reach)
    return max(low - room, -sys.float_info.max), min(high + room, sys.float_info.max)


def indices(first: int, count: int, most: int) -> list[int]:
    """Indices on an axis of whole numbers: round ones, and every one where there are few.

    >>> indices(0, 512, 4), indices(3, 3, 5)
    ([0, 200, 400], [3, 4, 5])
    """
    if count <= most:
        return list(range(first, first + count))
    step = max(1, round(round_step(count - 1, most)))
    return list(range(-(-first // step) * step, first + count, step))


def short(value: float) -> str:
    """A number in a few characters.

    >>> short(0.6000000000000001), short(-1.0), short(1048576), short(1.5e-7), short(65536)
    ('0.6', '-1', '1.05e6', '1.5e-7', '65536')
    """
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def power(value: float) -> str:
    """A number on a logarithmic axis: powers of ten as such, of an axis whose plain digits would be long.

    >>> power(100.0), power(1e-05), power(2e7)
    ('10²', '10⁻⁵', '2·10⁷')
    """
    if not value > 0:
        return plain(value)
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{'' if mantissa == '1' else mantissa + '·'}10{str(int(exponent)).translate(_RAISED)}"


def uneven_values(low: float, high: float) -> list[float]:
    """Round numbers for a scale that is wide near zero.

    >>> uneven_values(-63.5, 0.0)
    [-60.0, -20.0, -6.0, -0.6000000000000001, -0.0]
    """
    reach = max(abs(low), abs(high))
    if not reach > 1e-300:  # powers of ten end where numbers do
        return [low, high]
    rounded = [0.0]
    for value in (reach * share for share in (0.01, 0.1, 0.4, 1.0)):
        ten = 10.0 ** math.floor(math.log10(value))
        rounded.append(value // ten * ten)
    return sorted({sign * value for value in rounded for sign in (-1.0, 1.0) if low <= sign * value <= high})


def plain(value: float) -> str:
    """A number in plain digits, as far as that is shorter.

    >>> plain(1000000.0), plain(-0.5), plain(1e-05)
    ('1,000,000', '−0.5', '1e−5')
    """
    value = round(value, 12) + 0.0  # no −0
    text = f"{value:,.0f}" if value == round(value) and abs(value) < 1e7 else short(value)
    return text.replace("-", "−")


def fitted(text: str, room: int, lines: int, mark: str = "…") -> list[str]:
    """At most so many lines of so many letters. The middle goes first: the end often tells a text from its like.

    >>> fitted("rope, base 10000, cos", 12, 2), fitted("vision_model.position_embedding.weight", 16, 2)
    (['rope, base', '10000, cos'], ['vision_model.', 'p…bedding.weight'])
    """
    if len(text) <= room:
        return [text] if text else []
    text, room = " ".join(text.split()), max(3 + len(mark), room)
    found, kept = _broken(text, room), min(len(text), room * lines)
    while len(found) > lines:
        kept -= 1
        head, tail = text[: kept - kept // 2].rstrip(), text[len(text) - kept // 2 :].lstrip()
        found = _broken(f"{head}{mark}{tail}", room)
    return found


def _broken(text: str, room: int) -> list[str]:
    """Lines of so many letters, or more of them: between words, or inside of a word that has no line of its own."""
    found = [""]
    for word in text.split(" "):
        whole = len(word) <= room
        for number, part in enumerate([word] if whole else _parts(word, room)):
            gap = " " if found[-1] and not number else ""
            if len(found[-1]) + len(gap) + len(part) <= room:
                found[-1] += gap + part
            else:
                found.append(part)
    return found if found[0] else found[1:]


def _parts(word: str, room: int) -> list[str]:
    parts = [part for part in _PARTS.findall(word) if part]
    return [part[k : k + room] for part in parts for k in range(0, len(part), room)]


def axis_name(name: str, *, every: int = 1, means: float = 1.0) -> str:
    """What an axis counts, and what of it is shown: every how many, or the means of how many.

    >>> axis_name("channel", every=2), axis_name("position", means=2000.4), axis_name("pair")
    ('channel (every 2nd)', 'position (means of 2,000)', 'pair')
    """
    if not name:
        return name
    if every > 1:
        ending = "th" if every % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
        return f"{name} (every {every:,}{ending})"
    return f"{name} (means of {means:,.0f})" if means >= 1.5 else name
