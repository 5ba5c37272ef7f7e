"""Pictures as matplotlib figures: the same picture is the same bytes everywhere, as nothing of a user's matplotlibrc
counts, and pyplot is not used. The constrained layout makes room for every label."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pecli.engine.arrays import Floats
from pecli.errors import ParameterError, nearest
from pecli.views.pictures import palettes
from pecli.views.pictures.axis_labels import MAX_VALUE, typeset
from pecli.views.pictures.axis_labels import fit_text as fitted
from pecli.views.pictures.downsample import envelope, fitted_to
from pecli.views.pictures.panels import Chart, HeatmapPanel, Panel, Picture
from pecli.views.screen import escaped

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.colors import Colormap

Figure: TypeAlias = (
    "matplotlib.figure.Figure"  #: By its name, as matplotlib is imported when a figure is made
)
INK, PAPER, FAINT = ("#1b1f24", "#e8eaed"), ("#ffffff", "#15181c"), ("#d5d9de", "#3a4048")
"""Text, background and lines that only help the eye: each light and dark."""
_STYLE = {
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), "small"),
    "figure.titlesize": "large",
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "lines.linewidth": 1.4,
    "image.aspect": "auto",
    "image.interpolation": "none",  # one pixel per cell, also in .svg and .pdf
    "text.parse_math": False,  # a $ in a title is a $
    "svg.hashsalt": "pecli",
    "svg.fonttype": "none",  # text that can be searched and edited
    "pdf.fonttype": 42,
}

LETTERS_PER_INCH = 13.0  #: Of text of 10 points, on average
AXES_SHARE = 0.75  #: Of the room of a panel, what its axes take beside their numbers and names
BAR_SHARE = 0.85  #: The same of the label of a colour bar, which may be a little longer than that
PAD = 0.08  #: Inches between panels beside each other, on either side
MIN_SCALE = 0.15  #: Of letters, below which nobody reads them
MAX_POINTS = 2000  #: Points of a curve, twice as many as a figure has columns
MAX_FINE_RATIO = 1000.0
"""Largest number of a logarithmic axis over the smallest, up to which 2 and 5 times powers of ten are numbered, too."""
MAX_ENDS, END_LINES = 7, 4  #: Curves that are named where they end, and the lines of such a name
END_SHARE, END_INCHES = (
    0.22,
    0.15,
)  #: Of the width of a panel what these names take, and the height of a line
CLOSE = 2.0  #: The ratio of two levels of a logarithmic axis, below which only one of them has its word above it
MARKERS = "os^Dv<>p"  #: Of points that no line joins, open ones, so that those below are seen
BAND_SHADES = (0.04, 0.12, 0.24)  #: How dark the bands are, one after the other


def render(
    picture: Picture,
    *,
    size: tuple[float, float] | None = None,
    dpi: float = 100,
    dark: bool = False,
    cmap: str | None = None,
) -> Figure:
    """A figure of so many inches, or as large as the picture wants; in a small one, letters are smaller, too. A heatmap
    has about a row of pixels for each of its rows when the figure is saved with these dots per inch."""
    width, height = size or picture.inches
    rows = picture.rows(picture.across)
    across = max(map(len, rows), default=1)
    shares = [min(panel.share for panel in row) for row in rows]
    scale = max(
        MIN_SCALE, min(1.0, width / (2.4 + 1.4 * across), height / (2.2 + 1.6 * sum(shares)))
    )
    made = _blank((width, height), scale, dark=dark)
    letters = width / scale * LETTERS_PER_INCH
    if picture.title:
        made.suptitle(_fitted(picture.title, letters / 1.25, 4), x=0.01, ha="left")
    if picture.subtitle:
        made.supxlabel(_fitted(picture.subtitle, letters, 4), x=0.01, ha="left", fontsize="medium")
    if not rows:
        return made
    places = _places(made, rows, shares)
    heats: list[tuple[HeatmapPanel, Any]] = []
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            inches = width / (1 if _is_alone(row) else across), height * shares[down] / sum(shares)
            axes = made.add_subplot(
                places[down, right], projection="polar" if panel.polar else None
            )
            room = (
                AXES_SHARE * min(inches)
                if isinstance(panel, HeatmapPanel) and panel.is_square
                else inches[0]
            )
            title = _fitted(panel.title, room / scale * LETTERS_PER_INCH * AXES_SHARE, 3)
            if isinstance(panel, Chart):
                _draw_chart(axes, panel, title, (inches[0] / scale, inches[1] / scale), dark)
                continue
            axes.set_title(title)
            _draw_heatmap(axes, panel, (inches[0] * dpi, inches[1] * dpi), inches[1] / scale, cmap)
            left = row[right - 1] if right else None
            if isinstance(left, HeatmapPanel) and panel.has_rows_of(left):
                axes.set_ylabel("")  # that of its neighbour
                axes.tick_params(labelleft=False)
            heats.append((panel, axes))
    alike = (
        len({(panel.shape, panel.first_row, panel.columns, panel.reduction) for panel, _ in heats})
        == 1
    )
    if alike and len(heats) == len(rows) * across:  # the outer axes speak for all
        for _, axes in heats:
            axes.label_outer()
    _add_colour_bars(made, heats, BAR_SHARE * height / len(rows) / scale * LETTERS_PER_INCH)
    return made


def _shown(text: str) -> str:
    """A text that a figure can hold: names come from files, and may have what no font shows and XML refuses."""
    return typeset(escaped(text))


def _fitted(text: str, letters: float, lines: int) -> str:
    given = text.split("\n", lines - 1)
    return "\n".join(
        line for each in given for line in fitted(_shown(each), letters, lines // len(given))
    )


def _is_alone(row: Sequence[Panel]) -> bool:
    return len(row) == 1 and isinstance(row[0], Chart)


def _places(
    made: Figure, rows: Sequence[Sequence[Panel]], shares: Sequence[float]
) -> dict[tuple[int, int], Any]:
    """The place of each panel; charts across the whole figure are in a grid of their own, which leaves others alone."""
    groups = [
        list(group) for _, group in groupby(range(len(rows)), lambda down: _is_alone(rows[down]))
    ]
    outer = made.add_gridspec(
        len(groups), 1, height_ratios=[sum(shares[down] for down in group) for group in groups]
    )
    places = {}
    for k, group in enumerate(groups):
        across = max(len(rows[down]) for down in group)
        grid = outer[k].subgridspec(
            len(group), across, height_ratios=[shares[down] for down in group]
        )
        places.update(
            {
                (down, right): grid[down - group[0], right]
                for down in group
                for right in range(across)
            }
        )
    return places


def _blank(size: tuple[float, float], scale: float, *, dark: bool) -> Figure:
    """A blank figure with letters of that scale. Its axes take the style that is set here: one is drawn at a time."""
    import logging

    logging.getLogger("matplotlib").setLevel(
        logging.ERROR
    )  # of a folder that it may not write to, say
    os.environ.pop("MPLBACKEND", None)  # a notebook's, say, which need not exist here
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    settings: Any = matplotlib.rcParams
    kept = ("backend", "backend_fallback")
    settings.update(
        {name: value for name, value in matplotlib.rcParamsDefault.items() if name not in kept}
    )
    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    paper = ("figure.facecolor", "savefig.facecolor", "axes.facecolor")
    colours = [_rgb(each) for each in (palettes.BRIGHT if dark else palettes.CURVES)]
    dashes = ["-", "--"] * 5 + [
        ":",
        "-.",
    ] * 5  # a curve that lies on its neighbour hides only a part of it
    settings.update(
        {**_STYLE, **dict.fromkeys(ink, INK[dark]), **dict.fromkeys(paper, PAPER[dark])}
    )
    curves = cycler(color=colours * 2, linestyle=dashes)
    settings.update(
        {"grid.color": FAINT[dark], "font.size": 10.0 * scale, "axes.prop_cycle": curves}
    )
    figure = Figure(figsize=size, dpi=100, layout=ConstrainedLayoutEngine(w_pad=PAD * scale))
    FigureCanvasAgg(figure)
    return figure


def _colours(name: str | None = None, *, centred: bool = False) -> Colormap:
    """matplotlib's colour map of that name; without one, the same palettes as in the terminal."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    if name is not None and name not in matplotlib.colormaps:
        rule = (
            "it must be one of matplotlib's colour maps, such as viridis, cividis, gray, RdBu, PuOr"
        )
        raise ParameterError("cmap", repr(name), rule, nearest(name, list(matplotlib.colormaps)))
    own = ListedColormap(
        palettes.steps(palettes.DIVERGING if centred else palettes.SEQUENTIAL) / 255
    )
    return (own if name is None else matplotlib.colormaps[name]).with_extremes(
        bad=_rgb(palettes.UNKNOWN), under="none"
    )


def _rgb(colour: palettes.Colour) -> tuple[float, float, float]:
    return colour[0] / 255, colour[1] / 255, colour[2] / 255


def _drawable(values: Floats) -> Floats:
    """Values that matplotlib can draw; NaN for what is not finite."""
    return np.where(np.isfinite(values), np.clip(values, -MAX_VALUE, MAX_VALUE), np.nan)


def _draw_heatmap(
    axes: Any, panel: HeatmapPanel, pixels: tuple[float, float], height: float, cmap: str | None
) -> None:
    """Rows are averaged here and nowhere else: matplotlib's own filter would mix columns, too."""
    from matplotlib.colors import LogNorm, Normalize

    wide, high = (max(1, round(AXES_SHARE * length)) for length in pixels)
    values = fitted_to(_drawable(panel.values), high, wide, panel.reduction)
    if panel.log:
        values = np.where(
            values == 0, panel.ends[0] / 2, values
        )  # no error at all: below every colour
    rows, columns = panel.shape
    top = panel.first_row - 0.5
    norm = (LogNorm if panel.log else Normalize)(*panel.ends)
    extent = (-0.5, columns - 0.5, top + rows, top)
    axes.imshow(
        np.ma.masked_invalid(values), _colours(cmap, centred=panel.is_centred), norm, extent=extent
    )
    axes.spines[:].set_visible(False)
    if panel.is_square:
        axes.set_box_aspect(rows / columns)
    down, across = panel.axis_names(*values.shape)
    axes.set(
        xlabel=across,
        ylabel=down if len(down) < AXES_SHARE * height * LETTERS_PER_INCH else panel.rows,
    )
    _set_numbers(axes.xaxis, whole=True)
    _set_numbers(axes.yaxis, whole=True)


def _add_colour_bars(
    made: Figure, heats: Sequence[tuple[HeatmapPanel, Any]], letters: float
) -> None:
    """A colour bar beside all panels of one scale; beside one panel, a line of its label has so many letters."""
    groups: dict[Any, list[tuple[HeatmapPanel, Any]]] = {}
    for panel, axes in heats:
        groups.setdefault((panel.ends, panel.log, panel.meaning, panel.marked), []).append(
            (panel, axes)
        )
    for group in groups.values():
        first = group[0][0]
        beside = [axes for _, axes in group]
        places = [axes.get_subplotspec() for axes in beside]
        down, across = (
            len({*spans}) for spans in zip(*((p.rowspan, p.colspan) for p in places), strict=True)
        )
        shape = max(30, 30 * down / across)  # as high as the panels that it is for
        bar = made.colorbar(beside[0].images[0], ax=beside, aspect=shape, fraction=0.06, pad=0.015)
        bar.outline.set_visible(False)
        unknown = np.concatenate([panel.values[~np.isfinite(panel.values)] for panel, _ in group])
        grey = (
            f"grey: {'−inf' if np.isneginf(unknown).all() else 'not finite'}"
            if unknown.size
            else ""
        )
        line = f"line: {first.marked[0]} {typeset(first.marked[1])}" if first.marked else ""
        bar.set_label(
            _fitted(", ".join(filter(None, [first.meaning, grey, line])), letters * down, 3)
        )
        _set_numbers(bar.ax.yaxis, first.ends if first.log else None)
        if first.marked is not None:
            for colour, points in (("white", 2.5), ("black", 1.2)):
                bar.ax.axhline(first.marked[1], color=colour, linewidth=points)


def _draw_chart(
    axes: Any, chart: Chart, title: str, inches: tuple[float, float], dark: bool
) -> None:
    handles = []
    grey = "0.65" if dark else "0.4"
    for k, curve in enumerate(chart.curves):
        style: dict[str, Any] = {"linestyle": curve.dash} if curve.dash else {}
        if chart.ordered:
            style = {
                "linestyle": "-",
                "color": _rgb(palettes.step(k, len(chart.curves), dark=dark)),
            }
        if curve.reference:
            style = {"linestyle": ":", "color": grey}
        if chart.polar:
            style = {"linestyle": "", "marker": ".", "markersize": 3}
        elif not chart.joined:
            style = {"linestyle": "", "marker": MARKERS[k % len(MARKERS)], "fillstyle": "none"}
        handles += axes.plot(*envelope(_drawable(curve.x), _drawable(curve.y), MAX_POINTS), **style)
        for x, y in curve.marks:
            axes.plot(x, y, "o", color=handles[k].get_color())
    for band, shade in zip(chart.bands, BAND_SHADES, strict=False):
        handles.append(
            axes.axvspan(
                band.start - 0.5, band.stop + 0.5, color=grey, alpha=shade, linewidth=0, zorder=0
            )
        )
    for word, level in chart.levels:
        axes.axhline(level, color=grey, linestyle="--", linewidth=1, zorder=1)
        place = {
            "xycoords": ("axes fraction", "data"),
            "textcoords": "offset points",
            "fontsize": "small",
        }
        paper = {"facecolor": axes.get_facecolor(), "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
        below = any(
            level < other < level * CLOSE for _, other in chart.levels
        )  # whose word would be on this one
        axes.annotate(
            _shown(word), (0, level), (3, -10 if below else 2), color=grey, bbox=paper, **place
        )
    _set_axes(axes, chart, inches[1])
    names = [curve.label for curve in chart.curves] if len(handles) > 1 else [""]
    if _name_ends(axes, chart, handles, inches):
        names = [""] * len(names)
    names += [band.label for band in chart.bands]
    if any(names):
        _add_legend(axes, handles, names, title, inches[0])
    else:
        axes.set_title(title)


def _name_ends(
    axes: Any, chart: Chart, handles: Sequence[Any], inches: tuple[float, float]
) -> bool:
    """Name a few curves where they end, none on another; False where names are too many or too long for that."""
    if not (1 < len(chart.curves) <= MAX_ENDS and chart.joined):
        return False
    names, ends = [], []
    axes.get_ylim()  # which the transform below takes as they were last asked for
    to_axes = axes.transScale + axes.transLimits
    for curve in chart.curves:
        whole = re.sub(r" (?=\d+$)", "\xa0", _shown(curve.label))  # «pair 18» is not broken
        room = END_SHARE * inches[0] * LETTERS_PER_INCH
        lines = fitted(whole, room, END_LINES + 1)
        drawn = np.flatnonzero(np.isfinite(curve.y) & ((curve.y > 0) | (not chart.log_y)))
        if (
            not lines
            or len(lines) > END_LINES
            or max(map(len, whole.split())) > room
            or not drawn.size
        ):
            return False
        names.append("\n".join(lines).replace("\xa0", " "))
        ends.append(to_axes.transform((curve.x[drawn[-1]], curve.y[drawn[-1]]))[1])
    order = np.argsort(ends)  # from the lowest to the highest
    heights = (
        np.array([names[k].count("\n") + 1 for k in order]) * END_INCHES / (AXES_SHARE * inches[1])
    )
    stacked = np.cumsum(heights) - heights / 2  # one on the other, without a gap
    if heights.sum() > 1:
        return False
    gaps = np.clip(np.maximum.accumulate(np.array(ends)[order] - stacked), 0, 1 - heights.sum())
    for k, place in zip(order.tolist(), (stacked + gaps).tolist(), strict=True):
        style = {
            "fontsize": "small",
            "va": "center",
            "color": handles[k].get_color(),
            "annotation_clip": False,
        }
        axes.annotate(
            names[k],
            (1, place),
            (4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            **style,
        )
    return True


def _set_axes(axes: Any, chart: Chart, height: float) -> None:
    """Names, numbers and ends of the axes; a name that is too long ends at its comma."""
    axes.grid(True)
    axes.set_axisbelow(True)
    if chart.polar:
        axes.set(xticks=[], yticks=[])
        low, high = chart.curves[0].y[[0, -1]].tolist()
        axes.set_ylim(low, high + 1)
        axes.set_rorigin(
            low - (high - low + 1) / 3
        )  # so that one turn does not hide the one before
        return
    fits = len(chart.y) < (height - 1) * LETTERS_PER_INCH
    axes.set(xlabel=chart.x, ylabel=chart.y if fits else chart.y.partition(",")[0])
    axes.margins(x=0.01 if chart.joined else 0.03)
    places = [(x, 0.0) for curve in chart.curves for x in (*curve.x[:1], *curve.x[-1:])]
    axes.update_datalim(places, updatey=False)  # also where there is a gap
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
        if not any(np.any(curve.y > 0) for curve in chart.curves):  # no curve has a point there
            middle = chart.levels[0][1] if chart.levels else 1.0
            axes.set_ylim(middle / 10, middle * 10)
    whole = any(len(curve.x) and curve.x[-1] > 1 for curve in chart.curves)
    _set_numbers(axes.xaxis, axes.get_xlim() if chart.log_x else None, whole=whole)
    _set_numbers(axes.yaxis, axes.get_ylim() if chart.log_y else None)


def _set_numbers(
    axis: Any, log_ends: tuple[float, float] | None = None, *, whole: bool = False
) -> None:
    """Numbers in plain digits: matplotlib would set powers of ten as formulas."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if log_ends is not None:
        few = (
            axis.axis_name == "y" and log_ends[1] < MAX_FINE_RATIO * log_ends[0]
        )  # side by side they need more room
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_locator(NullLocator())
    elif whole:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, place: typeset(value)))


def _add_legend(
    axes: Any, handles: Sequence[Any], names: Sequence[str], title: str, width: float
) -> None:
    """Above the curves, where it hides none of them, in as many columns as there is room for, under the title."""
    letters = 0.95 * width * LETTERS_PER_INCH  # which are small
    shown = {
        handle: _fitted(name, letters - 5, 8)
        for handle, name in zip(handles, names, strict=True)
        if name
    }
    column = 10 + max(len(line) for name in shown.values() for line in name.split("\n"))
    columns = max(1, min(len(shown), int(letters / column)))
    place = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "alignment": "left",
        "borderaxespad": 0.2,
        "borderpad": 0,
    }
    axes.legend(
        shown, shown.values(), ncols=columns, title=title or None, title_fontsize="medium", **place
    )
