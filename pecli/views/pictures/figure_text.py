"""Texts, numbers and values as matplotlib can draw them."""

from __future__ import annotations

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures.axis_labels import MAX_VALUE, fit_text, log_label, typeset
from pecli.views.pictures.matplotlib_types import XAxis, YAxis
from pecli.views.screen import escaped

MAX_FINE_RATIO = 1000.0
"""Ratio of the ends of a logarithmic axis up to which 2 and 5 times powers of ten are numbered."""


def drawable_text(text: str) -> str:
    """Return a text that a figure can hold.

    Names come from files, and may contain characters that no font has or XML does not allow.
    """
    return typeset(escaped(text))


def fitted_lines(text: str, letters: float, lines: int) -> str:
    """Return a text in at most `lines` lines of that many letters; its own line breaks stay."""
    paragraphs = text.split("\n", lines - 1)
    fitted = []
    for paragraph in paragraphs:
        fitted += fit_text(drawable_text(paragraph), letters, lines // len(paragraphs))
    return "\n".join(fitted)


def drawable(values: Floats) -> Floats:
    """Return values that matplotlib can draw; NaN for those that are not finite."""
    return np.where(np.isfinite(values), np.clip(values, -MAX_VALUE, MAX_VALUE), np.nan)


def number_axis(
    axis: XAxis | YAxis, log_ends: tuple[float, float] | None = None, *, whole: bool = False
) -> None:
    """Number an axis in plain characters; matplotlib would set powers of ten as formulas.

    Args:
        axis: The horizontal or vertical axis, or the one of a colour bar.
        log_ends: The ends of a logarithmic axis; None for a linear one.
        whole: True if only whole numbers have a meaning.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if log_ends is not None:
        _number_powers_of_ten(axis, log_ends)
        return
    if whole:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, place: typeset(value)))


def _number_powers_of_ten(axis: XAxis | YAxis, ends: tuple[float, float]) -> None:
    """Number a logarithmic axis at powers of ten, and a short vertical one at 2 and 5 times them.

    Numbers of a horizontal axis stand side by side, and need more room.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = ends
    is_short = high < MAX_FINE_RATIO * low
    multiples = (1.0, 2.0, 5.0) if is_short and axis.axis_name == "y" else (1.0,)
    axis.set_major_locator(LogLocator(subs=multiples))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: log_label(value)))
