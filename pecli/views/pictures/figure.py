"""Figures in files: a blank one in the house style, and saving it so that the same figure is the same bytes.

matplotlib's Figure is used as it is, without pyplot. Nothing of a user's matplotlibrc counts, so that a figure looks
the same everywhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from pecli.errors import ParameterError
from pecli.files.output import open_output
from pecli.views.pictures import palettes
from pecli.views.screen import escaped

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

FONT = "DejaVu Sans"
SUFFIXES = ("png", "svg", "pdf")
_NEEDED = ("matplotlib.figure", "matplotlib.backends.backend_agg")

_INK, _PAPER, _FAINT = ("#1b1f24", "#e8eaed"), ("#ffffff", "#15181c"), ("#d5d9de", "#3a4048")
"""Text, background and lines that only help the eye: each light and dark."""


_SIZES = {
    "font.size": 10.0,
    "figure.titlesize": 12.0,
    "axes.titlesize": 11.0,
    "axes.titlepad": 6.0,
    "axes.labelsize": 10.0,
    "axes.labelpad": 4.0,
    "axes.linewidth": 0.8,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.0,
    "legend.fontsize": 9.0,
    **{
        f"{axis}tick.{name}": points
        for axis in "xy"
        for name, points in (("labelsize", 9.0), ("major.size", 3.5), ("major.width", 0.8), ("major.pad", 3.5))
    },
}
"""All that is measured in points."""


MARGIN = 0.08
"""Inches around axes and titles."""


class Look(NamedTuple):
    """How a figure is to look."""

    dark: bool = False
    cmap: str | None = None
    scale: float = 1.0
    """Of letters and lines, against a figure that has room for them."""


PLAIN = Look()


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


def new(width: float = 8.0, height: float = 5.0, look: Look = PLAIN) -> Figure:
    """A blank figure of so many inches. Its axes take the style that is set here, so draw one figure at a time."""
    _import_quietly()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    settings: Any = matplotlib.rcParams
    kept = ("backend", "backend_fallback")
    settings.update({name: value for name, value in matplotlib.rcParamsDefault.items() if name not in kept})
    settings.update(_style(look))
    pad = MARGIN * look.scale
    layout = ConstrainedLayoutEngine(w_pad=pad, h_pad=pad)
    figure = Figure(figsize=(width, height), dpi=100, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def make_legible(figure: Figure) -> None:
    """Escape in all texts what no font shows and XML cannot hold: names come from files, and may hold anything."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        found = text.get_text()
        shown = "\n".join(map(escaped, found.split("\n")))
        if shown != found:
            text.set_text(shown)


def save(figure: Figure, path: str, dpi: float = 100, about: Mapping[str, Any] | None = None) -> str:
    """Write a figure as its path's suffix asks: no dates, and the file appears when it is complete.

    `about` goes with it as one line of JSON: the command and the specs that it was drawn from. Returns the characters
    that the font lacks, for which boxes stand; an .svg holds the text and leaves it to others.
    """
    kind = check_suffix(path)
    make_legible(figure)
    with no_remarks():
        data = _written(figure, kind, dpi, about)
    with open_output(path) as output:
        output.write(data)
    return _lacking(figure) if kind != "svg" else ""


@contextmanager
def no_remarks() -> Iterator[None]:
    """matplotlib says of every character that its font lacks that it lacks it, each time that it measures a text."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _lacking(figure: Figure) -> str:
    from matplotlib.font_manager import findfont, get_font
    from matplotlib.text import Text

    font = get_font(findfont(FONT))
    texts = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    return "".join(sorted({c for text in texts for c in text if c.isprintable() and not font.get_char_index(ord(c))}))


def colours(name: str | None = None, *, centred: bool = False) -> Colormap:
    """matplotlib's colour map of that name; without one, the same palettes as in the terminal."""
    _import_quietly()
    import matplotlib
    from matplotlib.colors import ListedColormap

    if name is None:
        table = palettes.steps(palettes.DIVERGING if centred else palettes.SEQUENTIAL) / 255
        return ListedColormap(table, name="pecli").with_extremes(bad=_rgb(palettes.UNKNOWN))
    if name not in matplotlib.colormaps:
        from pecli.errors import nearest

        rule = "it must be one of matplotlib's colour maps, such as viridis, cividis, gray, RdBu, PuOr"
        raise ParameterError("cmap", repr(name), rule, nearest(name, list(matplotlib.colormaps)))
    return matplotlib.colormaps[name].with_extremes(bad=_rgb(palettes.UNKNOWN))


def part(name: str | None, dark: bool) -> Colormap:
    """The colours of lines and points: without the end that is as dark or as light as the paper."""
    if name is not None:
        return colours(name)
    from matplotlib.colors import ListedColormap

    table = palettes.steps(palettes.SEQUENTIAL)
    return ListedColormap(table[76:] / 255 if dark else table[:235] / 255, name="pecli")


def _rgb(colour: palettes.Colour) -> tuple[float, float, float]:
    return colour[0] / 255, colour[1] / 255, colour[2] / 255


def _import_quietly() -> None:
    """Import matplotlib without its remarks: about a folder that it may not write to, or a cache that it builds.

    The garbage collector would look through its modules again and again, a fifth of the time: they stay anyway.
    """
    import gc
    import logging
    import sys
    from importlib import import_module

    if all(name in sys.modules for name in _NEEDED):
        return
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    os.environ.pop("MPLBACKEND", None)  # a notebook's, say, which need not exist here
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in _NEEDED:
            import_module(name)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


def _style(look: Look) -> dict[str, Any]:
    from cycler import cycler

    dark = look.dark
    ink, paper, faint = _INK[dark], _PAPER[dark], _FAINT[dark]
    return {
        **{name: points * look.scale for name, points in _SIZES.items()},
        "figure.facecolor": paper,
        "savefig.facecolor": paper,
        "axes.facecolor": paper,
        "axes.edgecolor": ink,
        "axes.labelcolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.grid": False,
        "axes.prop_cycle": cycler(color=[_rgb(each) for each in (palettes.BRIGHT if dark else palettes.CURVES)]),
        "grid.color": faint,
        "text.color": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "legend.frameon": False,
        "image.aspect": "auto",
        "image.interpolation": "nearest",
        "text.parse_math": False,  # a $ in a title is a $
        "svg.hashsalt": "pecli",
        "svg.fonttype": "none",  # text that can be searched and edited
        "pdf.fonttype": 42,
    }


def png_of(figure: Figure, dpi: float = 100) -> bytes:
    """A figure as the bytes of a PNG."""
    return _written(figure, "png", dpi, None)


_METADATA: dict[str, tuple[tuple[str, ...], str]] = {
    "png": (("Software",), "pecli"),
    "svg": (("Date", "Creator"), "Description"),
    "pdf": (("CreationDate", "Creator", "Producer"), "Subject"),
}
"""By format: the entries that are left out, so that the same figure is the same bytes, and the one for `about`."""


def _written(figure: Figure, kind: str, dpi: float, about: Mapping[str, Any] | None) -> bytes:
    omitted, place = _METADATA[kind]
    metadata: dict[str, str | None] = dict.fromkeys(omitted)
    if about is not None:
        metadata[place] = json.dumps(about, sort_keys=True)
    data = BytesIO()
    figure.savefig(data, format=kind, dpi=dpi, metadata=metadata)
    return data.getvalue()


def svg(figure: Figure, prefix: str) -> str:
    """A light figure as a part of an HTML page: its colours are the page's variables, its ids begin with the prefix."""
    make_legible(figure)
    with no_remarks():
        text = _written(figure, "svg", 100, None).decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style type=.*?</style>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}", text)
    named = dict(zip(("ink", "paper", "faint"), (_INK[0], _PAPER[0], _FAINT[0]), strict=True))
    named |= {f"c{k}": "#{:02x}{:02x}{:02x}".format(*colour) for k, colour in enumerate(palettes.CURVES)}
    for name, colour in {**named, "quiet": "#666666"}.items():
        text = text.replace(colour, f"var(--{name})")
    return text.strip()
