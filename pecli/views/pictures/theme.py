"""The look of figures: colours, letters, and matplotlib settings that ignore a user's own."""

from __future__ import annotations

import logging
import os
from typing import Any, NamedTuple

from pecli.errors import ParameterError, nearest, quoted
from pecli.views.pictures import palettes
from pecli.views.pictures.matplotlib_types import Colormap, Figure

LETTERS_PER_INCH = 13.0  #: Letters of text of 10 points, on average.
FONT_POINTS = 10.0
PANEL_PADDING = 0.08  #: Inches on either side of a panel.


class Theme(NamedTuple):
    """The colours of a figure."""

    ink: str  #: Text and axes.
    paper: str
    faint: str  #: Lines that only help the eye.
    grey: str  #: Curves and levels that are there for comparison.
    curves: palettes.Palette


LIGHT = Theme("#1b1f24", "#ffffff", "#d5d9de", "#666666", palettes.CURVES)
DARK = Theme("#e8eaed", "#15181c", "#3a4048", "#a6a6a6", palettes.BRIGHT)

_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.titlesize": "large",
    "legend.fontsize": "small",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "image.aspect": "auto",
    "image.interpolation": "none",  # One pixel per cell, also in .svg and .pdf.
    "text.parse_math": False,  # A $ in a title is a $.
    "svg.hashsalt": "pecli",  # Identifiers are the same every time.
    "svg.fonttype": "none",  # Text stays text, which can be searched and edited.
    "pdf.fonttype": 42,
}
_INK_SETTINGS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_PAPER_SETTINGS = ("figure.facecolor", "savefig.facecolor", "axes.facecolor")
_KEPT_SETTINGS = ("backend", "backend_fallback")  #: Setting them would import a backend.
_LINE_STYLES = ["-", "--"] * 5 + [":", "-."] * 5
"""A curve that lies on its neighbour hides only a part of it. There are two per colour."""


def theme(*, dark: bool) -> Theme:
    """Return the colours on dark or on light paper."""
    return DARK if dark else LIGHT


def blank_figure(size: tuple[float, float], scale: float, colours: Theme) -> Figure:
    """Return a figure without panels.

    matplotlib's settings are global and count when axes are made: one figure is drawn at a time.

    Args:
        size: Width and height in inches.
        scale: The size of letters; 1 is 10 points.
        colours: The colours of the paper.
    """
    # matplotlib warns of a configuration folder that it may not write to, for example.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # A notebook's backend need not exist in this environment.
    os.environ.pop("MPLBACKEND", None)

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    _apply_settings(scale, colours)
    layout = ConstrainedLayoutEngine(w_pad=PANEL_PADDING * scale)
    figure = Figure(figsize=size, dpi=100, layout=layout)
    FigureCanvasAgg(figure)  # It becomes the figure's canvas.
    return figure


def _apply_settings(scale: float, colours: Theme) -> None:
    """Reset matplotlib to its defaults, without the user's matplotlibrc, and apply the theme."""
    import matplotlib
    from cycler import cycler

    settings: Any = matplotlib.rcParams
    defaults = matplotlib.rcParamsDefault.items()
    settings.update({name: value for name, value in defaults if name not in _KEPT_SETTINGS})
    settings.update(_STYLE)
    settings.update(dict.fromkeys(_INK_SETTINGS, colours.ink))
    settings.update(dict.fromkeys(_PAPER_SETTINGS, colours.paper))
    curves = [rgb(colour) for colour in colours.curves]
    settings["axes.prop_cycle"] = cycler(color=curves * 2, linestyle=_LINE_STYLES)
    settings["grid.color"] = colours.faint
    settings["font.size"] = FONT_POINTS * scale


def colour_map(name: str | None = None, *, centred: bool = False) -> Colormap:
    """Return matplotlib's colour map of that name; by default, one of the terminal's palettes.

    Values that are not finite are grey, values below the scale have no colour.

    Args:
        name: The name of a colour map of matplotlib.
        centred: True for the palette that has zero in its middle.

    Raises:
        ParameterError: matplotlib has no such colour map.
    """
    import matplotlib
    from matplotlib.colors import ListedColormap

    colours: Colormap
    if name is None:
        palette = palettes.palette(centred=centred)
        colours = ListedColormap(palettes.steps(palette) / 255)
    elif name in matplotlib.colormaps:
        colours = matplotlib.colormaps[name]
    else:
        examples = "such as viridis, cividis, gray, RdBu, PuOr"
        rule = f"it must be one of matplotlib's colour maps, {examples}"
        raise ParameterError("cmap", quoted(name), rule, nearest(name, list(matplotlib.colormaps)))
    return colours.with_extremes(bad=rgb(palettes.UNKNOWN), under="none")


def rgb(colour: palettes.Colour) -> tuple[float, float, float]:
    """Return a colour as matplotlib takes it, from 0 to 1."""
    red, green, blue = colour
    return red / 255, green / 255, blue / 255
