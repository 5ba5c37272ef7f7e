"""Displays for notebooks: `pecli.plot`, and how schemes, models and results show themselves."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any, TypeGuard, cast

from pecli.checks.audit import Audit
from pecli.checks.diff import Difference
from pecli.checks.identify import Identification
from pecli.checks.runtimes import RuntimeComparison
from pecli.checks.verification import Verification
from pecli.engine.arguments import flag_of, text_of, texts_of, within_limits
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.load import opened
from pecli.models.encoding import ModelEncodings
from pecli.models.find import Model, named_model
from pecli.views import drift_pictures
from pecli.views.html import html_of
from pecli.views.pictures import figure, kinds, plot_sources
from pecli.views.pictures.figure_files import encoded
from pecli.views.pictures.figure_size import (
    CHANNELS,
    DEFAULT_DPI,
    DPI,
    check_size,
    data_request,
)
from pecli.views.pictures.identification import identified
from pecli.views.pictures.matplotlib_types import Figure
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.plot_sources import PlotSource
from pecli.views.pictures.titles import labelled
from pecli.views.pictures.value_range import check_range, with_range
from pecli.views.report.draft import picture_of
from pecli.views.show import show

MAX_ROWS = 4096
"""Rows of a table that a display shows."""

STYLE = """<style>
.pecli .said { margin: 0; white-space: pre-wrap; font-family: monospace; text-align: left }
.pecli table { margin: 0.3em 0; border: 0 }
.pecli tr :is(th, td) { text-align: left; vertical-align: top; white-space: pre-wrap }
.pecli tr .number { text-align: right; font-variant-numeric: tabular-nums }
.pecli .good { color: #2a9d3a } .pecli .bad { color: #e5484d } .pecli .warn { color: #d97706 }
</style>"""
"""The look of results in notebooks, which would align all cells to the right, in a wide font.

Lines have the columns of a terminal. The colours of verdicts can be read on light and dark paper.
"""


@within_limits
def plot(
    *what: Any,
    kind: str | None = None,
    channels: Sequence[int] | None = None,
    labels: Sequence[str] = (),
    title: str | None = None,
    size: tuple[float, float] | None = None,
    value_range: tuple[float, float] | None = None,
    dpi: float = DEFAULT_DPI,
    dark: bool = False,
    cmap: str | None = None,
) -> Figure:
    """Return a matplotlib figure of schemes, models, files or arrays.

    Args:
        what: Schemes, models (as `load_model` returns them, or by name), paths, arrays, or mappings of them.
        kind: One of the kinds of `pecli plot --kind`; by default the one that fits.
        channels: The channels, pairs or heads to draw.
        labels: Names of the curves or panels, in order.
        title: A title that replaces the default one.
        size: Width and height in inches.
        value_range: The ends of the colours, or of the vertical axis.
        dpi: Dots per inch.
        dark: Use a dark theme.
        cmap: A colour map of matplotlib.

    Returns:
        A figure that a notebook displays without pyplot.

    Raises:
        ParameterError: There is nothing to draw, or an argument is not valid.
        FileError: A file cannot be read.

    >>> import pecli
    >>> figure = pecli.plot(pecli.Rope(64, 16), kind="curves", channels=[0, 7])
    >>> figure.get_size_inches().tolist()
    [8.0, 5.0]
    """
    if not what:
        rule = "a picture shows a scheme, a model, a file or an array"
        raise ParameterError("what", "missing", rule, "name one")
    inches = check_size(size)
    values = check_range(value_range)
    dpi = DPI.check("dpi", dpi)
    dark = flag_of("dark", dark)
    if kind is not None:
        kinds.check(text_of("kind", kind))
    title = _optional_text("title", title)
    cmap = _optional_text("cmap", cmap)
    names = texts_of("labels", labels)
    request = data_request(inches, dpi, _checked_channels(channels))
    sources = labelled(_sources_of_values(what, kind), names)
    sources = [identified(source, kind) for source in sources]
    picture = with_range(kinds.titled(sources, request, kind, title), values, "value_range")
    rendered: Any = figure.render(picture, size=inches, dpi=dpi, dark=dark, cmap=cmap)
    rendered.set_dpi(dpi)
    # Notebooks know figures of pyplot only.
    rendered._repr_png_ = partial(encoded, rendered, dpi=dpi)
    return cast("Figure", rendered)


def _optional_text(name: str, value: object) -> str | None:
    """Return an argument that is a text or None."""
    if value is None:
        return None
    return text_of(name, value)


def _checked_channels(channels: object) -> tuple[int, ...] | None:
    """Return the channels to draw; None leaves the choice to the picture."""
    if channels is None:
        return None
    chosen: tuple[int, ...] = CHANNELS.check("channels", channels)
    if not chosen:
        raise ParameterError("channels", "empty", "a picture shows one at least", "leave it out")
    return chosen


def _sources_of_values(values: Sequence[object], kind: str | None) -> list[PlotSource]:
    """Return the tables to draw of all values."""
    sources: list[PlotSource] = []
    for value in values:
        sources += _sources_of_value(value, kind)
    if not sources:
        raise ParameterError("what", "a model without encodings", "there is nothing to draw")
    return sources


def _sources_of_value(value: object, kind: str | None) -> list[PlotSource]:
    """Return the tables to draw of a scheme, a model, a path or arrays.

    Args:
        value: What to draw. A name is a model if there is such a preset, and a path otherwise.
        kind: The kind of picture, if it was chosen.
    """
    if isinstance(value, Scheme):
        return plot_sources.of_scheme(value)
    if _may_be_model(value):
        model = named_model(value)
        if model is not None:
            return plot_sources.of_model(model.encodings, model.label, kind)
    path, file = opened(value)
    label = path or _label_of_arrays(value)
    return plot_sources.of_file(label, file)


def _label_of_arrays(value: object) -> str:
    """Return a label for what has no path: the keys of a mapping of arrays, or «array»."""
    if isinstance(value, Mapping):
        return ", ".join(value)
    return "array"


def _may_be_model(value: object) -> TypeGuard[Model]:
    """Return True if a value is a configuration, a name or a path, not arrays."""
    if isinstance(value, Mapping):
        # A configuration has numbers and texts; a mapping of arrays has none.
        return any(isinstance(item, (str, int, Mapping)) for item in value.values())
    is_transformers_config = hasattr(value, "to_dict")
    return is_transformers_config or isinstance(value, (ModelEncodings, str, os.PathLike))


def html(value: object) -> str:
    """Return the command's output for a scheme, a model or a result as HTML, with a picture if there is one."""
    text = f'{STYLE}<div class="pecli">{html_of(lambda: show(value))}</div>'
    image = png(value)
    if image is None:
        return text
    inches = _png_width(image) / DEFAULT_DPI
    style = f"max-width: 100%; width: {inches:g}in"
    data = base64.b64encode(image).decode()
    return f'{text}<img alt="" style="{style}" src="data:image/png;base64,{data}">'


def _png_width(image: bytes) -> int:
    """Return the width of a .png in pixels.

    The file has a signature of 8 bytes, the length and name of its first chunk in 8 more, and then
    the width as a big-endian number of 4 bytes.
    """
    return int.from_bytes(image[16:20], "big")


@singledispatch
def png(value: object) -> bytes | None:
    """Return a picture of a scheme, a model or a result; None if it has none."""
    return None


@png.register
def _(result: Verification) -> bytes | None:
    return _failure_png(result)


@png.register
def _(result: Difference) -> bytes | None:
    return _failure_png(result)


def _failure_png(result: Verification | Difference) -> bytes | None:
    """Return a picture of what is wrong; None if nothing is."""
    if result.passed:
        return None
    return encoded(figure.render(comparison_picture([result])))


@png.register
def _(result: Audit) -> bytes:
    return encoded(drift_pictures.audit_figure(result))


@png.register
def _(result: RuntimeComparison) -> bytes:
    return encoded(drift_pictures.runtimes_figure(result))


@png.register
def _(result: Identification) -> bytes | None:
    if not result.matches:
        return None
    return png(result.matches[0].scheme)


@png.register
def _(model: ModelEncodings) -> bytes | None:
    drawn = plot_sources.of_model(model, model.file, "wavelengths")
    if not drawn:
        return None
    # They are those with wavelengths, or all of them if none has any.
    kind = "wavelengths" if plot_sources.fitting(drawn, "wavelengths") else None
    return encoded(figure.render(picture_of(drawn, kind)))


@png.register
def _(scheme: Scheme) -> bytes:
    drawn: list[PlotSource] = []
    for source in plot_sources.of_scheme(scheme):
        tables = tuple(map(_first_rows, source.tables))
        drawn.append(source._replace(tables=tables))
    return encoded(figure.render(picture_of(drawn, None)))


def _first_rows(table: Table) -> Table:
    """Cut a long table; a bias of queries and keys per head is never long."""
    if len(table.shape) != 2:
        return table
    return replace(table, shape=(min(table.rows, MAX_ROWS), table.width))
