"""Numbers and texts for axes, titles and legends: round numbers, lines that fit."""

from __future__ import annotations

import math
import textwrap

from pecli.errors import number

MAX_VALUE = 1e150  #: Largest end of an axis: the difference of two has to be a number, too


def ticks(low: float, high: float, most: int, *, log: bool = False) -> list[float]:
    """Round numbers between the ends of an axis, about so many; on a logarithmic one powers of ten, if there are two.

    >>> ticks(0, 511, 6), ticks(1, 5000, 8, log=True)
    ([0.0, 100.0, 200.0, 300.0, 400.0, 500.0], [1.0, 10.0, 100.0, 1000.0])
    """
    if log:
        first, last = math.ceil(math.log10(low) - 0.02), math.floor(math.log10(high) + 0.02)
        if last > first:
            return [10.0**power for power in range(first, last + 1, max(1, -(-(last - first) // most)))]
    if not 1e-12 * max(abs(low), abs(high), 1e-280) < high - low < math.inf:  # no room for round numbers
        return [low, high]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [k * step for k in range(math.ceil(low / step - 0.05), math.floor(high / step + 0.05) + 1)]


def typeset(value: float) -> str:
    """A number for a figure, with a minus and no hyphen.

    >>> typeset(-1e-5)
    '−1e−5'
    """
    return number(value).replace("-", "−")


def apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, moved apart where hardly any numbers lie between them.

    >>> apart(0.0, 2.0), apart(3.0, 3.0), apart(0.0, 1.7e308)
    ((0.0, 2.0), (2.5, 3.5), (0.0, 1e+150))
    """
    low, high = (min(max(end, -MAX_VALUE), MAX_VALUE) for end in (low, high))
    reach = max(abs(low), abs(high))
    if high - low > max(1e-300, 1e-12 * reach):
        return low, high
    room = max(0.5, 1e-9 * reach)
    return low - room, high + room


def fitted(text: str, room: float, lines: int, mark: str = "…") -> list[str]:
    """At most so many lines of so many letters. The middle goes first: the end often tells a text from its like.

    >>> fitted("rope, base 10000, cos", 12, 2), fitted("vision_model.position_embedding.weight", 16, 1)
    (['rope, base', '10000, cos'], ['vision_m….weight'])
    """
    width = max(3 + len(mark), int(room))
    broken, kept = textwrap.wrap(text, width), min(len(text), width * lines)
    while len(broken) > lines:
        kept -= 1
        broken = textwrap.wrap(f"{text[: kept - kept // 2]}{mark}{text[len(text) - kept // 2 :]}", width)
    return broken


def axis_name(name: str, every: float, words: str = "one in {}") -> str:
    """What an axis counts, and what of it is shown, where that is not all.

    >>> axis_name("channel", 2), axis_name("position", 2000.4, "means of {}"), axis_name("pair", 1)
    ('channel (one in 2)', 'position (means of 2,000)', 'pair')
    """
    return f"{name} ({words.format(f'{every:,.0f}')})" if name and every >= 1.5 else name
