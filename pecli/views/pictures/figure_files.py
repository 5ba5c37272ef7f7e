"""Figures in files, and as parts of a page: the same figure is the same bytes everywhere."""

import json
import os
import re
import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError
from pecli.files.output import open_output
from pecli.views.pictures import palettes
from pecli.views.pictures.figure_pixels import whole_pixels
from pecli.views.pictures.figure_size import DEFAULT_DPI
from pecli.views.pictures.matplotlib_types import Artist, Axes, Figure, Line2D, RasterImage
from pecli.views.pictures.theme import LIGHT

SUFFIXES = ("png", "svg", "pdf")
MAX_FRAMES = 200  #: Frames of a .gif.
FRAME_MS = 50  #: Milliseconds of a frame.
LAST_FRAME_MS = 1500  #: Milliseconds of the last frame, before the picture starts again.
GIF_COLOURS = 16  #: Colours of all frames.


def is_page(path: str) -> bool:
    """Return True if a path is that of an interactive page."""
    return path.lower().endswith((".html", ".htm"))


def check_suffix(path: str, *, moving: bool = False, page: bool = False) -> str:
    """Return the format that a path's suffix names, before any work is done.

    Args:
        path: The path of a picture.
        moving: True if the picture can move, so that it may be a .gif.
        page: True if it could also be an interactive page, which the message names.

    Raises:
        ParameterError: There is no such format.

    >>> check_suffix("rope.PNG")
    'png'
    """
    suffix = os.path.splitext(path)[1]
    format_name = suffix[1:].lower()
    formats = [*SUFFIXES]
    if moving:
        formats.append("gif")
    if format_name in formats:
        return format_name
    if page:
        formats.append("html")
    names = ", ".join(f".{name}" for name in formats)
    rule = f"the suffix of a picture must be one of {names}"
    advice = "pecli plot rope --kind circle -o x.gif makes a .gif" if suffix == ".gif" else ""
    raise ParameterError("output", path or "''", rule, advice)


def save(
    figure: Figure, path: str, dpi: float = DEFAULT_DPI, about: Mapping[str, object] | None = None
) -> None:
    """Write a figure in the format of its path's suffix; the file appears when it is complete.

    Args:
        figure: The figure.
        path: Where to write it.
        dpi: Dots per inch.
        about: The command and the specs that it was drawn from, for the metadata of the file.
    """
    format_name = check_suffix(path, moving=True)
    if format_name == "gif":
        data = _animated_gif(figure, dpi, about)
    else:
        data = encoded(figure, format_name, dpi, about)
    with open_output(path) as output:
        output.write(data)


class _Metadata(NamedTuple):
    """The metadata of a format.

    Attributes:
        omitted: Entries for dates and versions. Without them, the same figure is the same bytes.
        place: The entry for the command that made the figure.
    """

    omitted: tuple[str, ...]
    place: str


_METADATA = {
    "png": _Metadata(("Software",), "pecli"),
    "svg": _Metadata(("Date", "Creator"), "Description"),
    "pdf": _Metadata(("CreationDate", "Creator", "Producer"), "Subject"),
}


def encoded(
    figure: Figure, kind: str = "png", dpi: float = DEFAULT_DPI, about: NamedValues | None = None
) -> bytes:
    """Return the bytes of a figure in a format, without a date, so that they are always the same.

    Args:
        figure: The figure.
        kind: One of SUFFIXES.
        dpi: Dots per inch.
        about: The command and the specs that it was drawn from, for the metadata.
    """
    omitted, place = _METADATA[kind]
    metadata: dict[str, str | None] = dict.fromkeys(omitted)  # matplotlib leaves out None.
    if about is not None:
        metadata[place] = json.dumps(about, sort_keys=True)
    data = BytesIO()
    with warnings.catch_warnings():
        # Characters that the font lacks are reported each time that a text is measured.
        warnings.simplefilter("ignore")
        if kind == "png":
            _print_png(figure, dpi, data, metadata)
        else:
            figure.savefig(data, format=kind, dpi=dpi, metadata=metadata)
    return data.getvalue()


def _print_png(
    figure: Figure, dpi: float, data: BytesIO, metadata: Mapping[str, str | None]
) -> None:
    """Write a .png; savefig would draw it twice, the first time only for its layout."""
    canvas: Any = figure.canvas
    figure.set_dpi(dpi)
    with whole_pixels(figure):
        canvas.print_png(data, metadata=metadata)


class _Spiral(NamedTuple):
    """A panel of a moving picture."""

    dots: "Line2D"  #: The line of dots, which grows.
    hand: "Line2D"  #: A radius that points at the last dot.
    angles: Floats
    positions: Floats

    def show(self, count: int) -> None:
        """Show the first dots, and point at the last of them."""
        self.dots.set_data(self.angles[:count], self.positions[:count])
        self.hand.set_xdata([self.angles[count - 1]] * 2)


class _Animation:
    """Spirals whose dots appear position by position, with a hand that points at the last one.

    Only the things that move are drawn again in each frame.
    """

    def __init__(self, figure: Figure) -> None:
        """Add a hand to each panel and a caption, and draw once what does not move.

        The background, without the moving things, is kept as pixels. A frame begins with a copy of
        them, over which the moving things are drawn (matplotlib calls this blitting).
        """
        self.figure = figure
        canvas: Any = figure.canvas  # Its declared type, FigureCanvasBase, has no copy_from_bbox.
        self.canvas = canvas
        self.spirals = [_spiral_with_hand(axes) for axes in figure.axes]
        self.caption = figure.text(0.99, 0.01, "", ha="right", va="bottom")
        for artist in self._moving_artists():
            artist.set_animated(True)  # Drawing the figure leaves these out.
        self.canvas.draw()
        self.background: Any = self.canvas.copy_from_bbox(figure.bbox)

    def _moving_artists(self) -> list["Artist"]:
        """Return what moves, in the order in which it is drawn: a hand lies above all dots."""
        dots = [spiral.dots for spiral in self.spirals]
        hands = [spiral.hand for spiral in self.spirals]
        return [*dots, *hands, self.caption]

    def frame(self, count: int) -> "RasterImage":
        """Return an image of the first `count` positions; frames can be drawn in any order."""
        from PIL import Image

        self.canvas.restore_region(self.background)
        last_position = self.spirals[0].positions[count - 1]
        self.caption.set_text(f"position {last_position:,.0f}")
        for spiral in self.spirals:
            spiral.show(count)
        for artist in self._moving_artists():
            self.figure.draw_artist(artist)
        pixels = np.asarray(self.canvas.buffer_rgba())
        return Image.fromarray(pixels).convert("RGB")


def _spiral_with_hand(axes: "Axes") -> _Spiral:
    """Return the spiral of a panel, to which a hand is added."""
    dots = axes.lines[0]
    (hand,) = axes.plot([0, 0], axes.get_ylim(), linestyle="-", linewidth=2)
    angles = np.asarray(dots.get_xdata(), np.float64)
    positions = np.asarray(dots.get_ydata(), np.float64)
    return _Spiral(dots, hand, angles, positions)


def _animated_gif(figure: Figure, dpi: float, about: NamedValues | None) -> bytes:
    """Return a .gif in which dots appear position by position, and a hand points at the last.

    All frames have the colours of the last one, so that each is stored as its difference from the
    frame before.

    Args:
        figure: The figure, whose panels are spirals of dots.
        dpi: Dots per inch.
        about: The command and the specs that it was drawn from, for the comment of the file.
    """
    from PIL import Image

    figure.set_dpi(dpi)
    animation = _Animation(figure)
    dot_counts = _frame_counts(len(animation.spirals[0].positions))
    last_frame = animation.frame(dot_counts[-1])
    colours = last_frame.quantize(GIF_COLOURS, Image.Quantize.MAXCOVERAGE)
    frames = []
    for dot_count in dot_counts:
        frame = animation.frame(dot_count)
        frames.append(frame.quantize(palette=colours, dither=Image.Dither.NONE))
    return _gif_bytes(frames, about)


def _frame_counts(length: int) -> list[int]:
    """Return the number of dots of each frame, from one to all of them."""
    last_dots = np.linspace(length - 1, 0, MAX_FRAMES).round().astype(int)
    return [int(last) + 1 for last in np.unique(last_dots)]


def _gif_bytes(frames: "list[RasterImage]", about: Mapping[str, object] | None) -> bytes:
    """Return an animation that repeats for ever, and stays longer at its last frame."""
    comment = {"comment": json.dumps(about, sort_keys=True)} if about else {}
    data = BytesIO()
    frames[0].save(
        data,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS],
        loop=0,
        **comment,
    )
    return data.getvalue()


def svg(figure: Figure, prefix: str) -> str:
    """Return a light figure as a part of an HTML page.

    Its colours become variables of the page, such as `var(--ink)`, so that it follows the page's
    theme. Its ids begin with the prefix, because several figures share the page.
    """
    text = encoded(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style type=.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}", text)
    for name, colour in _page_colours().items():
        text = text.replace(colour, f"var(--{name})")
    return text.strip()


def _page_colours() -> dict[str, str]:
    """Return the colours of a light figure by the names of the page's variables."""
    colours = {"ink": LIGHT.ink, "paper": LIGHT.paper, "faint": LIGHT.faint, "quiet": LIGHT.grey}
    paper = palettes.from_hex(LIGHT.paper)
    for number, colour in enumerate(LIGHT.curves):
        colours[f"c{number}"] = palettes.as_hex(colour)
        letters = palettes.as_hex(palettes.legible(colour, paper))
        colours[f"t{number}"] = letters
    return colours
