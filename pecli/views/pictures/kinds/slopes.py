"""ALiBi's slopes, head by head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.engine.rounding import widened
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A curve a subject."""
    curves = []
    for subject in subjects:
        slopes = widened(next(table for table in subject.tables if table.name == "slopes").array())
        label = subject.label if len(subjects) > 1 else ""
        curves.append(Curve(label, np.arange(len(slopes), dtype=np.float64), slopes))
    return Picture("slope of each head", [Chart("", curves, x="head", y="slope", log_y=True, points=True)])
