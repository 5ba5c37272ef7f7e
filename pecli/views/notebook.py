"""Pictures and results for notebooks: `pecli.plot`, and how schemes, models and results display themselves."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.audit import Audit
from pecli.checks.diff import Difference
from pecli.checks.identify import Identification
from pecli.checks.runtimes import RuntimeComparison
from pecli.checks.verify.verification import Verification
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.load import opened
from pecli.models.encoding import ModelEncodings
from pecli.models.find import named_model
from pecli.views import encodings
from pecli.views.pictures import kinds, subjects
from pecli.views.pictures.panels import PlotRequest, Subject
from pecli.views.report import (
    described_encodings,
    difference,
    drawn_picture,
    drifts,
    identification,
    runtime_results,
    table,
    text,
    verification,
)
from pecli.views.screen import shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 4096
"""Rows of a table that a display shows."""


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
) -> Figure:
    """A matplotlib figure of schemes, models (as `load_model` gives them, or by name), files, or arrays.

    Kinds are those of `pecli plot --kind`; channels are channels, pairs or heads to draw; size is in inches.
    """
    from pecli.views.pictures import mpl_render

    if not what:
        raise ParameterError("what", "missing", "a picture shows a scheme, a model, a file or an array", "name one")
    wide, high = size or (8.0, 5.0)
    request = PlotRequest(round(4 * high * dpi), round(wide * dpi), None if channels is None else tuple(channels))
    with ExitStack() as open_files:
        found = subjects.labelled([subject for each in what for subject in _subjects(each, open_files)], labels)
        picked = kind or kinds.default_kind(found)
        kinds.check(picked)
        picture = kinds.titled(kinds.fitting(picked, found), request, picked, title)
    width, height = size or mpl_render.size_of(picture)
    return mpl_render.render(picture, width=width, height=height, dpi=dpi, dark=dark, cmap=cmap)


def _subjects(what: Any, open_files: ExitStack) -> list[Subject]:
    if isinstance(what, Scheme):
        return subjects.of_scheme(what)
    if isinstance(what, (ModelEncodings, str, os.PathLike)) or _is_config(what):
        model = named_model(what)
        if model is not None:
            return subjects.of_model(model.encodings, model.label)
    name, file = opened(what)
    name = name or (", ".join(what) if isinstance(what, Mapping) else "array")
    return subjects.of_file(name, open_files.enter_context(file))


def _is_config(what: Any) -> bool:
    """Whether it is a model's configuration, and no arrays by name."""
    if isinstance(what, Mapping):
        return any(isinstance(value, (str, int, Mapping)) for value in what.values())
    return hasattr(what, "to_dict")


def html(value: Any) -> str:
    """A scheme, a model or a result as a part of a page."""
    described = next(describe for kind, describe in _DESCRIBED.items() if isinstance(value, kind))(value)
    image = png(value)
    if image is None:
        return described
    data = base64.b64encode(image).decode()
    return f'{described}<img alt="" style="max-width: 100%" src="data:image/png;base64,{data}">'


def png(value: Any) -> bytes | None:
    """A picture of a scheme, a model, of what was identified, or of errors by position; None where there is none."""
    from pecli.views import drift
    from pecli.views.pictures import figure

    if isinstance(value, Audit):
        return figure.png_of(drift.audit_picture({"": value}))
    if isinstance(value, RuntimeComparison):
        return figure.png_of(drift.runtimes_picture(value))
    found, kind = _pictured(value)
    return figure.png_of(drawn_picture(found, kind)[1]) if found else None


def _pictured(value: Any) -> tuple[list[Subject], str | None]:
    """What to draw of a value, and how."""
    if isinstance(value, ModelEncodings):
        return subjects.of_model(value, value.file), "wavelengths"
    if isinstance(value, Identification):
        value = value.matches[0].scheme if value.matches else None
    if not isinstance(value, Scheme):
        return [], None
    return [each._replace(tables=tuple(map(_beginning, each.tables))) for each in subjects.of_scheme(value)], None


def _beginning(whole: Table) -> Table:
    """The first rows of a long matrix."""
    return replace(whole, shape=(min(whole.rows, MAX_ROWS), whole.width)) if len(whole.shape) == 2 else whole


def _scheme(scheme: Scheme) -> str:
    given = {name: value for name, value in scheme.spec()["parameters"].items() if value is not None}
    values = ", ".join(f"{name} {encodings.cell(value)}" for name, value in given.items())
    rows = [(each.name, each.dtype, shape(each.shape)) for each in scheme.tensors()]
    return f"<p><b>{text(scheme.name)}</b> {text(values)}</p>{table(('tensor', 'dtype', 'shape'), rows)}"


def _model(model: ModelEncodings) -> str:
    head = f"<p><b>{text(model.file)}</b> {text(model.model_type or '')}</p>"
    return "".join([head, *described_encodings(model)])


_DESCRIBED: dict[type, Callable[[Any], str]] = {
    Scheme: _scheme,
    ModelEncodings: _model,
    Verification: lambda result: verification(result, f"{result.file} {result.scheme}"),
    Difference: difference,
    Identification: lambda result: identification(result, result.file),
    Audit: lambda result: drifts({"": result}),
    RuntimeComparison: lambda result: f"<p><b>{text(result.model)}</b></p>{runtime_results(result)}",
}
