"""The range of values that a picture shows: the ends of its colours, or of its vertical axis."""

from dataclasses import replace
from typing import NamedTuple

from pecli.engine.arguments import two_of
from pecli.engine.schemes.parameters import Real
from pecli.errors import ParameterError, quoted, spelled
from pecli.views.pictures.panels import Panel, Picture

END = Real(help="an end of a range")
RULE = "it must be two numbers, the smaller first, such as"


class ValueRange(NamedTuple):
    """The ends of colours, or of a vertical axis."""

    low: float
    high: float


def parse_range(text: str | None) -> ValueRange | None:
    """Return the two ends that `--range` gives, such as «-1:1»; None without the option.

    Raises:
        ParameterError: The text is not two numbers, the smaller one first.

    >>> parse_range("-1:0.5")
    ValueRange(low=-1.0, high=0.5)
    """
    if text is None:
        return None
    parts = text.split(":")
    rule = f"{RULE} -1:1"
    if len(parts) != 2:
        raise ParameterError("range", quoted(text), rule)
    low = END.parse("range", parts[0])
    high = END.parse("range", parts[1])
    return _in_order("range", low, high, rule)


def check_range(value: object) -> ValueRange | None:
    """Return the range that an argument gives as (low, high); None stays None."""
    if value is None:
        return None
    rule = f"{RULE} (-1, 1)"
    first, second = two_of("value_range", value, rule)
    low = END.check("value_range[0]", first)
    high = END.check("value_range[1]", second)
    return _in_order("value_range", low, high, rule)


def _in_order(name: str, low: float, high: float, rule: str) -> ValueRange:
    if low >= high:
        raise ParameterError(name, f"{spelled(low)}:{spelled(high)}", rule)
    return ValueRange(low, high)


def with_range(picture: Picture, values: ValueRange | None, name: str = "range") -> Picture:
    """Return a picture that shows a range of values; values beyond it have the colour of its end.

    Panels of a smaller share, such as the stretch below wavelengths, show another quantity.

    Args:
        picture: The picture.
        values: The range; None leaves the picture as it is.
        name: The name of the argument, for errors.

    Raises:
        ParameterError: The picture has a logarithmic scale, and the range does not begin above 0;
            or it shows angles.
    """
    if values is None:
        return picture
    for panel in picture.panels:
        _check_panel(panel, values, name)
    return replace(picture, panels=[panel.with_ends(*values) for panel in picture.panels])


def _check_panel(panel: Panel, values: ValueRange, name: str) -> None:
    shown = f"{spelled(values.low)}:{spelled(values.high)}"
    if panel.polar:
        raise ParameterError(name, shown, "circles show angles", "leave it out")
    if panel.is_logarithmic and values.low <= 0:
        raise ParameterError(name, shown, "on a logarithmic scale it must begin above 0")
