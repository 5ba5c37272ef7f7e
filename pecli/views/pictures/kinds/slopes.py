"""The slopes of ALiBi's heads."""

from collections.abc import Sequence

import numpy as np

from pecli.views.pictures.kinds.alibi_heads import slopes_of
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import names_of


def slopes(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a point per head; no line joins them, as the order of heads has no meaning."""
    curves = []
    for source, name in zip(sources, names_of(sources), strict=True):
        values = slopes_of(source)
        heads = np.arange(len(values), dtype=np.float64)
        curves.append(Curve(name, heads, values))
    chart = Chart("", curves, x="head", y="slope", log_y=True, joined=False)
    return Picture("slope of each head", [chart])


SLOPES = PictureKind("slopes", "ALiBi's slopes, head by head", slopes)
