"""Pictures and results for notebooks: `pecli.plot`, and how schemes, models and results display themselves."""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pecli.checks.audit import Audit
from pecli.checks.diff import Difference
from pecli.checks.identify import Identification
from pecli.checks.runtimes import RuntimeComparison
from pecli.checks.verification import Verification
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.load import opened
from pecli.models.encoding import ModelEncodings
from pecli.models.find import named_model
from pecli.views import check_results, drift
from pecli.views.pictures import figure, kinds, subjects
from pecli.views.pictures.figure import Figure
from pecli.views.pictures.figure_files import encoded
from pecli.views.pictures.mistakes import comparison_picture
from pecli.views.pictures.subjects import PlotRequest, Subject
from pecli.views.report import drawn_picture, html_of

MAX_ROWS = 4096  #: Rows of a table that a display shows

STYLE = (
    "<style>.pecli .said { margin: 0; white-space: pre-wrap } .pecli .number { text-align: right } "
)
STYLE += ".pecli .good { color: #2a9d3a } .pecli .bad { color: #e5484d } .pecli .warn { color: #d97706 }</style>"
"""Colours of verdicts, which can be read on light and dark notebooks."""


def plot(
    *what: Any,
    kind: str | None = None,
    channels: Sequence[int] | None = None,
    labels: Sequence[str] = (),
    title: str | None = None,
    size: tuple[float, float] | None = None,
    dpi: float = 100,
    dark: bool = False,
    cmap: str | None = None,
) -> "Figure":
    """A matplotlib figure of schemes, models (as `load_model` gives them, or by name), files, or arrays.

    Kinds are those of `pecli plot --kind`; channels are channels, pairs or heads to draw; size is in inches.
    """
    if not what:
        raise ParameterError(
            "what", "missing", "a picture shows a scheme, a model, a file or an array", "name one"
        )
    wide, high = size or (8.0, 5.0)
    request = PlotRequest(
        round(4 * high * dpi), round(wide * dpi), None if channels is None else tuple(channels)
    )
    found = subjects.labelled(
        [subject for each in what for subject in _subjects(each, kind)], labels
    )
    picture = kinds.titled([kinds.identified(each, kind) for each in found], request, kind, title)
    made: Any = figure.render(picture, size=size, dpi=dpi, dark=dark, cmap=cmap)
    made._repr_png_ = partial(encoded, made)  # notebooks show other figures only through pyplot
    return cast("Figure", made)


def _subjects(what: Any, kind: str | None) -> list[Subject]:
    if isinstance(what, Scheme):
        return subjects.of_scheme(what)
    is_config = hasattr(what, "to_dict")
    if isinstance(what, Mapping):  # and no arrays by name
        is_config = any(isinstance(value, (str, int, Mapping)) for value in what.values())
    is_named = is_config or isinstance(what, (ModelEncodings, str, os.PathLike))
    if is_named and (model := named_model(what)) is not None:
        return subjects.of_model(model.encodings, model.label, kind)
    name, file = opened(what)
    name = name or (", ".join(what) if isinstance(what, Mapping) else "array")
    return subjects.of_file(name, file)


def html(value: Any) -> str:
    """What the command shows of a scheme, a model or a result, as a part of a page."""
    said = f'{STYLE}<div class="pecli">{html_of(partial(check_results.show, value))}</div>'
    if (image := png(value)) is None:
        return said
    data = base64.b64encode(image).decode()
    return f'{said}<img alt="" style="max-width: 100%" src="data:image/png;base64,{data}">'


def png(value: Any) -> bytes | None:
    """A picture of a scheme, a model, an identified table, a failure, or of errors by position; else None."""
    if isinstance(value, (Verification, Difference)):
        return None if value.passed else encoded(figure.render(comparison_picture([value])))
    if isinstance(value, Audit):
        return encoded(drift.audit_picture(value))
    if isinstance(value, RuntimeComparison):
        return encoded(drift.runtimes_picture(value))
    if isinstance(value, ModelEncodings):
        drawn = subjects.of_model(value, value.file, "wavelengths")
        fits = all("wavelengths" in subject.picture_kinds for subject in drawn)
        return encoded(drawn_picture(drawn, "wavelengths" if fits else None)[1]) if drawn else None
    if isinstance(value, Identification):
        value = value.matches[0].scheme if value.matches else None
    if not isinstance(value, Scheme):
        return None
    drawn = [
        subject._replace(tables=tuple(map(_first_rows, subject.tables)))
        for subject in subjects.of_scheme(value)
    ]
    return encoded(drawn_picture(drawn, None)[1])


def _first_rows(table: Table) -> Table:
    return (
        replace(table, shape=(min(table.rows, MAX_ROWS), table.width))
        if len(table.shape) == 2
        else table
    )
