"""Figures in files: a blank one in the house style, and saving it so that the same figure is the same bytes.

matplotlib's Figure is used as it is, without pyplot. Nothing of a user's matplotlibrc counts, so that a figure looks
the same everywhere.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pecli.errors import ParameterError, nearest
from pecli.files.output import open_output
from pecli.views.pictures import palettes
from pecli.views.screen import escaped

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

FONT = "DejaVu Sans"
SUFFIXES = ("png", "svg", "pdf")
_INK, _PAPER, _FAINT = ("#1b1f24", "#e8eaed"), ("#ffffff", "#15181c"), ("#d5d9de", "#3a4048")
"""Text, background and lines that only help the eye: each light and dark."""
_STYLE = {
    "figure.titlesize": "large",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "lines.linewidth": 1.4,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "image.aspect": "auto",
    "image.interpolation": "none",  # one pixel per cell, also in .svg and .pdf
    "text.parse_math": False,  # a $ in a title is a $
    "svg.hashsalt": "pecli",
    "svg.fonttype": "none",  # text that can be searched and edited
    "pdf.fonttype": 42,
}


def check_suffix(path: str) -> str:
    """The format that a path's suffix asks for; refused before any work is done.

    >>> check_suffix("rope.PNG")
    'png'
    """
    suffix = os.path.splitext(path)[1]
    if suffix[1:].lower() in SUFFIXES:
        return suffix[1:].lower()
    known = ", ".join("." + name for name in SUFFIXES)
    raise ParameterError("output", path or "''", f"the suffix of a picture must be one of {known}")


def new(width: float = 8.0, height: float = 5.0, *, dark: bool = False, scale: float = 1.0) -> Figure:
    """A blank figure of so many inches. Its axes take the style that is set here, so draw one figure at a time.

    The scale is that of its letters, against a figure that has room for them.
    """
    _import_quietly()
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = matplotlib.rcParams
    kept = ("backend", "backend_fallback")
    settings.update({name: value for name, value in matplotlib.rcParamsDefault.items() if name not in kept})
    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    paper = ("figure.facecolor", "savefig.facecolor", "axes.facecolor")
    colours = [_rgb(each) for each in (palettes.BRIGHT if dark else palettes.CURVES)]
    dashes = ["-", "--"] * 5 + [":", "-."] * 5  # a curve that lies on its neighbour hides only a part of it
    settings.update(
        {
            **_STYLE,
            **dict.fromkeys(ink, _INK[dark]),
            **dict.fromkeys(paper, _PAPER[dark]),
            "grid.color": _FAINT[dark],
            "font.size": 10.0 * scale,
            "axes.prop_cycle": cycler(color=colours * 2, linestyle=dashes),
        }
    )
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _import_quietly() -> None:
    """Import matplotlib without its remarks: about a folder that it may not write to, or a cache that it builds."""
    import logging

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    os.environ.pop("MPLBACKEND", None)  # a notebook's, say, which need not exist here
    import matplotlib.figure  # noqa: F401


def colours(name: str | None = None, *, centred: bool = False) -> Colormap:
    """matplotlib's colour map of that name; without one, the same palettes as in the terminal."""
    _import_quietly()
    import matplotlib
    from matplotlib.colors import ListedColormap

    if name is None:
        table = palettes.steps(palettes.DIVERGING if centred else palettes.SEQUENTIAL) / 255
        return ListedColormap(table, name="pecli").with_extremes(bad=_rgb(palettes.UNKNOWN))
    if name not in matplotlib.colormaps:
        rule = "it must be one of matplotlib's colour maps, such as viridis, cividis, gray, RdBu, PuOr"
        raise ParameterError("cmap", repr(name), rule, nearest(name, list(matplotlib.colormaps)))
    return matplotlib.colormaps[name].with_extremes(bad=_rgb(palettes.UNKNOWN))


def _rgb(colour: palettes.Colour) -> tuple[float, float, float]:
    return colour[0] / 255, colour[1] / 255, colour[2] / 255


def save(figure: Figure, path: str, dpi: float = 100, about: Mapping[str, Any] | None = None) -> str:
    """Write a figure as its path's suffix asks: no dates, and the file appears when it is complete.

    `about` goes with it as one line of JSON: the command and the specs that it was drawn from. Returns the characters
    that the font lacks, for which boxes stand; an .svg holds the text and leaves it to others.
    """
    from matplotlib.font_manager import findfont, get_font
    from matplotlib.text import Text

    kind = check_suffix(path)
    data = _written(figure, kind, dpi, about)
    with open_output(path) as output:
        output.write(data)
    if kind == "svg":
        return ""
    font = get_font(findfont(FONT))
    letters = {letter for text in figure.findobj(Text) if text.get_visible() for letter in text.get_text()}
    return "".join(sorted(c for c in letters if c.isprintable() and not font.get_char_index(ord(c))))


_METADATA: dict[str, tuple[tuple[str, ...], str]] = {
    "png": (("Software",), "pecli"),
    "svg": (("Date", "Creator"), "Description"),
    "pdf": (("CreationDate", "Creator", "Producer"), "Subject"),
}
"""By format: the entries that are left out, so that the same figure is the same bytes, and the one for `about`."""


def _written(figure: Figure, kind: str, dpi: float = 100, about: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of a figure; in its texts, what no font shows and XML cannot hold is escaped: names come from files,
    and may hold anything.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        shown = "\n".join(map(escaped, text.get_text().split("\n")))
        if shown != text.get_text():
            text.set_text(shown)
    omitted, place = _METADATA[kind]
    metadata: dict[str, str | None] = dict.fromkeys(omitted)
    if about is not None:
        metadata[place] = json.dumps(about, sort_keys=True)
    data = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters that the font lacks, each time that a text is measured
        figure.savefig(data, format=kind, dpi=dpi, metadata=metadata)
    return data.getvalue()


def png_of(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG."""
    return _written(figure, "png")


def svg(figure: Figure, prefix: str) -> str:
    """A light figure as a part of an HTML page: its colours are the page's variables, its ids begin with the prefix."""
    text = _written(figure, "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style type=.*?</style>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}", text)
    named = {"ink": _INK[0], "paper": _PAPER[0], "faint": _FAINT[0], "quiet": "#666666"}
    named |= {f"c{k}": "#{:02x}{:02x}{:02x}".format(*colour) for k, colour in enumerate(palettes.CURVES)}
    for name, colour in named.items():
        text = text.replace(colour, f"var(--{name})")
    return text.strip()
