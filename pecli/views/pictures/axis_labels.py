"""Round numbers for axes, and texts that fit into the room they have."""

import math
import re
import textwrap

from pecli.errors import number

MAX_VALUE = 1e150
"""The largest end of an axis: the square of it, and the difference of two ends, are finite."""

_NUMBER = re.compile(r"(?<![\w.-])-?(?:inf|\d[\d.]*(?:e-?\d+)?)(?![\w-])")
"""A number in a text. The hyphens of `llama-3-8b` are not minus signs."""

MIN_SPAN = 1e-12
"""The shortest axis, relative to its larger end: float64 has 16 digits, and four differ on it."""

SMALLEST_MAGNITUDE = 1e-280  #: A shorter axis around zero would have subnormal steps.

MIN_TICKS = 3  #: Numbers that an axis has, if there is room for them.
_TICK_FACTORS = (1, 2, 5, 10)  #: Ticks are these multiples of a power of ten apart.


def ticks(low: float, high: float, tick_count: int, *, log: bool = False) -> list[float]:
    """Return the numbers at an axis: about `tick_count` round ones between its ends.

    There are more if they would be only two, which is too few to read values from. On a logarithmic
    axis they are powers of ten, if at least two of them lie on it, and 2 and 5 times these if it is
    only two.

    >>> ticks(0, 511, 6)
    [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    >>> ticks(5, 28, 3)
    [5.0, 10.0, 15.0, 20.0, 25.0]
    >>> ticks(0.004, 0.5, 4, log=True)
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    >>> ticks(1, 5000, 8, log=True)
    [1.0, 10.0, 100.0, 1000.0]
    >>> ticks(2, 50, 4, log=True)
    [10.0, 20.0, 30.0, 40.0, 50.0]
    """
    if log:
        values = _logarithmic_ticks(low, high, tick_count)
        if values:
            return values
    if not _has_room_for_numbers(low, high):
        return [low, high]
    values = _equally_spaced(low, high, tick_count)
    if len(values) < MIN_TICKS <= tick_count:
        return _equally_spaced(low, high, 2 * tick_count)
    return values


def _logarithmic_ticks(low: float, high: float, tick_count: int) -> list[float]:
    """Return powers of ten on an axis, with 2 and 5 times them if they are two; none if it is short."""
    powers = _powers_of_ten(low, high, tick_count)
    if len(powers) == 2 and tick_count > 2:
        return _multiples_of_powers(low, high)
    return powers


def _has_room_for_numbers(low: float, high: float) -> bool:
    """Return True if a finite axis is long enough that float64 has round numbers between its ends."""
    magnitude = max(abs(low), abs(high), SMALLEST_MAGNITUDE)
    return MIN_SPAN * magnitude < high - low < math.inf


def _equally_spaced(low: float, high: float, tick_count: int) -> list[float]:
    """Return multiples of a round number between two ends, or beyond them by a twentieth of it."""
    step = _tick_step((high - low) / max(1, tick_count))
    first_multiple = math.ceil(low / step - 0.05)
    last_multiple = math.floor(high / step + 0.05)
    return [multiple * step for multiple in range(first_multiple, last_multiple + 1)]


def _multiples_of_powers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two ends."""
    values = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        values += [float(f"{factor}e{power}") for factor in (1, 2, 5)]
    return [value for value in values if low / 1.001 <= value <= high * 1.001]


def _powers_of_ten(low: float, high: float, tick_count: int) -> list[float]:
    """Return the powers of ten on an axis, or none if there are fewer than two.

    If there are too many, every n-th is left. One may lie beyond an end by 0.02 decades, or 5 %.
    """
    first_exponent = math.ceil(math.log10(low) - 0.02)
    last_exponent = math.floor(math.log10(high) + 0.02)
    if last_exponent <= first_exponent:
        return []
    step = max(1, -(-(last_exponent - first_exponent) // tick_count))  # rounded up
    return [10.0**exponent for exponent in range(first_exponent, last_exponent + 1, step)]


def _tick_step(min_step: float) -> float:
    """Return the smallest round number (1, 2, 5, 10, 20, …) that is not below `min_step`."""
    power = 10.0 ** math.floor(math.log10(min_step))
    rounded_down = min_step * (1 - 1e-9)  # 0.2 may be 0.2 and the error of float64.
    return next(factor * power for factor in _TICK_FACTORS if factor * power >= rounded_down)


def typeset(text: str | float) -> str:
    """Return a number, or a text with numbers, with minus signs instead of hyphens.

    >>> typeset(-1e-5), typeset("llama-3-8b: -0.5 at [-1, 2]")
    ('−1e−5', 'llama-3-8b: −0.5 at [−1, 2]')
    """
    plain = text if isinstance(text, str) else number(text)
    return _NUMBER.sub(lambda match: match[0].replace("-", "−"), plain)


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_PLAIN_POWER = 3  #: 1000 and 0.001 are written out; 10⁴ and 10⁻⁴ are powers.


def log_label(value: float) -> str:
    """Return the label of a number on a logarithmic axis: powers of ten are written as such.

    >>> log_label(1000), log_label(1e6), log_label(1e-7), log_label(20000)
    ('1000', '10⁶', '10⁻⁷', '20000')
    """
    power = round(math.log10(value)) if value > 0 else 0
    is_power = math.isclose(value, 10.0**power)
    if is_power and abs(power) > MAX_PLAIN_POWER:
        return "10" + str(power).translate(_SUPERSCRIPTS)
    return typeset(value)


def apart(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis, moved apart if hardly any numbers lie between them.

    >>> apart(0.0, 2.0), apart(3.0, 3.0), apart(0.0, 1.7e308)
    ((0.0, 2.0), (2.5, 3.5), (0.0, 1e+150))
    """
    low = min(max(low, -MAX_VALUE), MAX_VALUE)
    high = min(max(high, -MAX_VALUE), MAX_VALUE)
    magnitude = max(abs(low), abs(high))
    if high - low > max(1e-300, 1e-12 * magnitude):
        return low, high
    room = max(0.5, 1e-9 * magnitude)
    return low - room, high + room


def fit_text(text: str, width: float, lines: int, mark: str = "…") -> list[str]:
    """Return a text in at most `lines` lines of `width` letters.

    A text that is too long loses its middle, because names often differ at their ends. Lines are
    broken between words, so letters are removed one by one until it fits.

    >>> fit_text("rope, base 10000, cos", 12, 2)
    ['rope, base', '10000, cos']
    >>> fit_text("vision_model.position_embedding.weight", 16, 1)
    ['vision_m….weight']
    """
    narrowest = 3 + len(mark)  # The mark with a few letters around it.
    letters_per_line = max(narrowest, int(width))
    wrapped = textwrap.wrap(text, letters_per_line)
    kept_letters = min(len(text), letters_per_line * lines)
    while len(wrapped) > lines:
        kept_letters -= 1
        wrapped = textwrap.wrap(_without_middle(text, kept_letters, mark), letters_per_line)
    return wrapped


def _without_middle(text: str, kept_letters: int, mark: str) -> str:
    """Return the two ends of a text with a mark between them.

    >>> _without_middle("position_ids", 5, "…")
    'pos…ds'
    """
    at_end = kept_letters // 2
    at_start = kept_letters - at_end
    return text[:at_start] + mark + text[len(text) - at_end :]
