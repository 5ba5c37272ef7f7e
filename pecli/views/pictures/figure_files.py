"""Figures in files, and as parts of a page: the same figure is the same bytes everywhere."""

import json
import os
import re
import warnings
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np

from pecli.errors import ParameterError
from pecli.files.output import open_output
from pecli.views.pictures import palettes
from pecli.views.pictures.figure import FAINT, INK, PAPER, Figure

SUFFIXES = ("png", "svg", "pdf")
MAX_FRAMES, FRAME_MS, GIF_COLOURS = (
    200,
    50,
    16,
)  #: Frames of a .gif, the milliseconds of each, and the colours of all


def check_suffix(path: str, *, moving: bool = False) -> str:
    """The format that a path's suffix asks for; refused before any work is done. Pictures that move may be a .gif.

    >>> check_suffix("rope.PNG")
    'png'
    """
    suffix = os.path.splitext(path)[1]
    formats = (*SUFFIXES, "gif") if moving else SUFFIXES
    if suffix[1:].lower() in formats:
        return suffix[1:].lower()
    known = ", ".join("." + name for name in formats)
    advice = "pecli plot --kind circle makes a .gif" if suffix == ".gif" else ""
    raise ParameterError(
        "output", path or "''", f"the suffix of a picture must be one of {known}", advice
    )


def save(
    figure: Figure, path: str, dpi: float = 100, about: Mapping[str, Any] | None = None
) -> None:
    """Write a figure as its path's suffix asks: no dates, and the file appears when it is complete. `about` goes with
    it as one line of JSON: the command and the specs that it was drawn from."""
    kind = check_suffix(path, moving=True)
    data = (turning if kind == "gif" else partial(encoded, kind=kind))(figure, dpi=dpi, about=about)
    with open_output(path) as output:
        output.write(data)


_METADATA: dict[str, tuple[tuple[str, ...], str]] = {
    "png": (("Software",), "pecli"),
    "svg": (("Date", "Creator"), "Description"),
    "pdf": (("CreationDate", "Creator", "Producer"), "Subject"),
}
"""By format: the entries that are left out, so that the same figure is the same bytes, and the one for `about`."""


def encoded(
    figure: Figure, kind: str = "png", dpi: float = 100, about: Mapping[str, Any] | None = None
) -> bytes:
    """The bytes of a figure in that format, without a date."""
    omitted, place = _METADATA[kind]
    metadata: dict[str, str | None] = dict.fromkeys(omitted)
    if about is not None:
        metadata[place] = json.dumps(about, sort_keys=True)
    data = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of characters that the font lacks, each time that a text is measured
        if kind == "png":  # which savefig would draw twice, the first time for its layout alone
            canvas: Any = figure.canvas
            figure.set_dpi(dpi)
            canvas.print_png(data, metadata=metadata)
        else:
            figure.savefig(data, format=kind, dpi=dpi, metadata=metadata)
    return data.getvalue()


def turning(figure: Figure, dpi: float, about: Mapping[str, Any] | None = None) -> bytes:
    """Dots appear position by position, and a hand points at the last of them. Only what moves is drawn again, and all
    frames have the colours of the last, so that each is stored as what differs from the one before."""
    from PIL import Image

    figure.set_dpi(dpi)
    canvas: Any = figure.canvas
    dots: list[Any] = [axes.lines[0] for axes in figure.axes]
    every = [(line.get_xdata(), line.get_ydata()) for line in dots]
    hands: list[Any] = [
        axes.plot([0, 0], axes.get_ylim(), linestyle="-", linewidth=2)[0] for axes in figure.axes
    ]
    words: Any = figure.text(0.99, 0.01, "", ha="right", va="bottom")
    moving = (*dots, *hands, words)
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    paper = canvas.copy_from_bbox(figure.bbox)
    frames: list[Image.Image] = []
    colours = None
    for last in np.unique(np.linspace(len(every[0][0]) - 1, 0, MAX_FRAMES).round().astype(int))[
        ::-1
    ].tolist():
        canvas.restore_region(paper)
        words.set_text(f"position {every[0][1][last]:,.0f}")
        for line, hand, (angles, positions) in zip(dots, hands, every, strict=True):
            line.set_data(angles[: last + 1], positions[: last + 1])
            hand.set_xdata([angles[last]] * 2)
        for artist in moving:
            figure.draw_artist(artist)
        frame = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        colours = colours or frame.quantize(GIF_COLOURS, Image.Quantize.MAXCOVERAGE)
        frames.insert(0, frame.quantize(palette=colours, dither=Image.Dither.NONE))
    data, more = BytesIO(), {"comment": json.dumps(about, sort_keys=True)} if about else {}
    frames[0].save(
        data, "GIF", save_all=True, append_images=frames[1:], duration=FRAME_MS, loop=0, **more
    )
    return data.getvalue()


def svg(figure: Figure, prefix: str) -> str:
    """A light figure as a part of an HTML page: its colours are the page's variables, its ids begin with the prefix."""
    text = encoded(figure, "svg").decode()
    text = re.sub(
        r"<metadata>.*?</metadata>|<style type=.*?</style>",
        "",
        text[text.index("<svg") :],
        flags=re.S,
    )
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}", text)
    named = {"ink": INK[0], "paper": PAPER[0], "faint": FAINT[0], "quiet": "#666666"}
    named |= {
        f"c{k}": "#{:02x}{:02x}{:02x}".format(*colour) for k, colour in enumerate(palettes.CURVES)
    }
    for name, colour in named.items():
        text = text.replace(colour, f"var(--{name})")
    return text.strip()
