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
        log_ends: The ends of a logarithmic axis.
        whole: True if only whole numbers have a meaning.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if log_ends is not None:
        low, high = log_ends
        # Side by side, numbers need more room: only vertical axes have the finer ones.
        is_fine = axis.axis_name == "y" and high < MAX_FINE_RATIO * low
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_fine else (1.0,)))
        axis.set_minor_locator(NullLocator())
    elif whole:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    label = typeset if log_ends is None else log_label
    axis.set_major_formatter(FuncFormatter(lambda value, place: label(value)))
