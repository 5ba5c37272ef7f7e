"""A report as one page of HTML: what a model uses or a file holds, checks, pictures, and their commands.

The page needs no network and, unless it has sliders, no scripts. It follows the reader's light or dark theme, and can be printed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.diff import diff
from pecli.checks.verify import verify
from pecli.compare.tolerance import Tolerance, tolerance_of
from pecli.engine.arguments import flag_of, within_limits
from pecli.engine.schemes.rope_parameters import RUNTIME
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, path_of
from pecli.files.contents import LoadedFile
from pecli.files.load import open_tensors
from pecli.files.output import KEY, open_output
from pecli.models.encoding import Encoding
from pecli.models.find import Model, NamedModel, named_model
from pecli.views import drift, drift_pictures, encodings, file_summary, runtime_results
from pecli.views.command_lines import command_line, option_words
from pecli.views.interactive.rope_sliders import slider_settings
from pecli.views.pictures.plot_sources import (
    UNKNOWN,
    PlotSource,
    fitting,
    of_file,
    of_model,
    of_scheme,
)
from pecli.views.report.draft import Draft, Page
from pecli.views.report.scaling_prose import scaling_sentences
from pecli.views.screen import shape

MAX_ROWS = 256
MAX_COLUMNS = 4096
"""Rows and columns of a tensor that a page shows."""

AUDITED_ROWS = 4096
"""Positions over which drift is measured if the model does not state its context."""

MAX_AUDITED_ROWS = 1 << 18
"""Positions over which drift is measured at most, in about 15 seconds of one core."""

NO_RUNTIME = "none"


@within_limits
def report(
    *sources: Model,
    output: str | os.PathLike[str] | None = None,
    tolerance: Tolerance | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    runtime: str = NO_RUNTIME,
    before: str | os.PathLike[str] | None = None,
    interactive: bool = False,
) -> Page:
    """Return a page of HTML about models and files of tensors.

    Files are verified against the first model, or against the spec they carry if there is no model, and
    compared with the first file.

    Args:
        sources: Models (all that `load_model` accepts) and paths of files.
        output: The path to write the page to.
        tolerance: The tolerance of the checks; exact by default.
        atol: Its absolute part, instead of `tolerance`.
        rtol: Its relative part, instead of `tolerance`.
        max_ulp: Its part in ULPs, instead of `tolerance`.
        runtime: The runtime whose tables the files should hold.
        before: Queries or keys before the rotation; the files hold them after it.
        interactive: Add sliders for the settings of rotary encodings; plotly has to be installed.

    Returns:
        The page, a `str` that is true if all checks passed.

    Raises:
        ParameterError: A source, a tolerance or the runtime is not valid.
        FileError: A file cannot be read, or the page cannot be written.

    >>> import pecli
    >>> page = pecli.report("gpt2")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    tolerance = tolerance_of(tolerance, max_ulp, atol, rtol)
    RUNTIME.check("runtime", runtime)
    named = _models_and_files(sources)
    source = None if before is None else path_of("before", before)
    if source is not None and not named.models:
        raise ParameterError("before", source, "a model rotates them", "name one: llama-3.1-8b")
    settings = _ReportSettings(tolerance, runtime if named.models else NO_RUNTIME, source)
    draft = Draft()
    if len(named.models) > 1:
        _add_model_comparison(draft, named.models)
    for model in named.models:
        _add_model(draft, model, with_sliders=flag_of("interactive", interactive))
    for file in named.files:
        _add_file(draft, file, named.models, settings)
    for file in named.files[1:]:
        _add_comparison(draft, named.files[0], file, tolerance)
    setting_words = _settings_as_options(_ReportSettings(tolerance, runtime, source))
    words = ["report", *named.names, *setting_words]
    command = f"{command_line(words, {'interactive': bool(interactive)})} -o report.html"
    page = draft.page(", ".join(map(os.path.basename, named.names)), command)
    if output is not None:
        with open_output(path_of("output", output)) as stream:
            stream.write(page.encode())
    return page


class _Sources(NamedTuple):
    """The models and files of a report."""

    names: list[str]  #: of all of them, in the order of the user
    models: list[NamedModel]
    files: list[str]


def _models_and_files(sources: Sequence[Model]) -> _Sources:
    """Sort sources into models and files: everything that is not a model is a file."""
    names: list[str] = []
    models: list[NamedModel] = []
    files: list[str] = []
    for source in sources:
        model = named_model(source)
        if model is not None:
            models.append(model)
            names.append(model.name.rstrip("/"))
        else:
            file = path_of("sources", source).rstrip("/")
            files.append(file)
            names.append(file)
    return _Sources(names, models, files)


class _ReportSettings(NamedTuple):
    """The settings of the checks."""

    tolerance: Tolerance
    runtime: str = NO_RUNTIME
    before: str | None = None  #: the file of queries or keys before the rotation


def _settings_as_options(settings: _ReportSettings) -> list[str]:
    """Return the settings of a report as options, for the command that repeats it.

    A tolerance of 1e-6 against vLLM's tables: `--atol 1e-06 --runtime vllm`.
    """
    tolerance = settings.tolerance
    values = {
        "before": settings.before,
        "max_ulp": f"{tolerance.max_ulp:g}",
        "atol": f"{tolerance.atol:g}",
        "rtol": f"{tolerance.rtol:g}",
        "runtime": settings.runtime,
    }
    defaults = (None, "0", NO_RUNTIME)
    return option_words({name: value for name, value in values.items() if value not in defaults})


def _add_model(draft: Draft, model: NamedModel, *, with_sliders: bool) -> None:
    """Add a model to a page: its encodings, pictures of them, and the commands that make its tables.

    Args:
        draft: The page.
        model: The model.
        with_sliders: Also add sliders for the settings of its rotary encodings.
    """
    option = f"{model.option} {shlex.quote(model.name)}"
    draft.heading(model.label)
    draft.view(lambda: encodings.show(model.encodings))
    commands = encodings.commands(model.encodings, option)
    ropes = [rope for rope in model.encodings.ropes() if not rope.no_table]
    if ropes:
        _add_ropes(draft, model, ropes, option)
        commands.append(f"pecli plot rope {option} --kind wavelengths -o wavelengths.svg")
        if with_sliders:
            draft.sliders += slider_settings(of_model(model.encodings, model.label, "wavelengths"))
    else:
        _add_first_table(draft, model)
    _add_patches(draft, model)
    draft.subheading("Commands")
    draft.commands(*commands)


def _add_ropes(draft: Draft, model: NamedModel, ropes: Sequence[Encoding], option: str) -> None:
    """Add the sections about a model's rotary encodings to the page.

    They are the wavelengths, with the scaling in words if there is one; a table as a heatmap; how
    far rounding drifts from it; and what each runtime computes.

    Args:
        draft: The page.
        model: The model.
        ropes: Its rotary encodings.
        option: The option that names the model in commands, such as `--model llama-3.1-8b`.
    """
    scalings = {rope.parameters.get("scaling", "none") for rope in ropes}
    is_scaled = scalings != {"none"}
    draft.subheading("Scaling explained" if is_scaled else "Wavelengths")
    rotary = replace(model.encodings, encodings=tuple(ropes))
    sources = of_model(rotary, model.label)
    paragraphs = dict.fromkeys(map(scaling_sentences, sources))  # Layer types may have the same.
    for sentences in filter(None, paragraphs):
        draft.paragraph(sentences)
    draft.plot(sources, "wavelengths")
    draft.subheading("The table")
    draft.plot(of_scheme(ropes[0].rope(MAX_ROWS), model.label), "heatmap")
    _add_drift(draft, model, ropes, option)
    _add_runtimes(draft, model, option)


def _add_drift(draft: Draft, model: NamedModel, ropes: Sequence[Encoding], option: str) -> None:
    """Add an audit of the rotary tables, as text and as a figure.

    Args:
        draft: The page.
        model: The model.
        ropes: Its rotary encodings.
        option: The option that names the model on a command line.
    """
    from pecli.checks.audit import audit

    rows = min(model.encodings.context or AUDITED_ROWS, MAX_AUDITED_ROWS)
    audits = {rope.layer_type: audit(rope.rope(rows)) for rope in ropes}
    draft.subheading("Drift by recipe")
    draft.view(lambda: drift.show_audits(audits))
    draft.picture(drift_pictures.audits_picture(audits))
    draft.commands(f"pecli audit rope {option} --seq-len {rows}")


def _add_runtimes(draft: Draft, model: NamedModel, option: str) -> None:
    from pecli.checks.runtimes import runtimes

    draft.subheading("What runtimes compute")
    draft.view(lambda: runtime_results.show_runtimes(runtimes(model.encodings)))
    draft.commands(f"pecli runtimes {option}")


def _add_first_table(draft: Draft, model: NamedModel) -> None:
    """Add a picture of the first table of a model without rotary encodings, if there is one."""
    tables = of_model(model.encodings, model.label, seq_len=MAX_ROWS)
    if tables:
        draft.subheading("The table")
        draft.plot(tables[:1], None)


def _add_patches(draft: Draft, model: NamedModel) -> None:
    """Add a picture of the places in an image, if the model has tables over a grid."""
    towers = fitting(of_model(model.encodings, model.label, "patch"), "patch")
    if towers:
        draft.subheading("Places in an image")
        draft.plot(towers, "patch")


def _add_model_comparison(draft: Draft, models: Sequence[NamedModel]) -> None:
    """Add the differences of several models as a table, and their wavelengths in one figure."""
    draft.heading("Comparison")
    encodings_of_all = [model.encodings for model in models]
    draft.view(lambda: encodings.show_differences(encodings_of_all, None))
    sources: list[PlotSource] = []
    for model in models:
        drawn = of_model(model.encodings, model.label, "wavelengths")
        sources += fitting(drawn, "wavelengths")
    if len(sources) > 1:
        draft.plot(sources, "wavelengths")
    names = [shlex.quote(model.name) for model in models]
    draft.commands(f"pecli config {' '.join(names)}")


def _add_file(
    draft: Draft, name: str, models: Sequence[NamedModel], settings: _ReportSettings
) -> None:
    """Add a file: its contents, a picture, and a check.

    It is verified against the first model of the page, or else against the spec that it carries;
    without both, it is identified.
    """
    file = open_tensors(name)
    draft.heading(os.path.basename(name))
    draft.view(lambda: file_summary.show(file_summary.describe(file, name, file.tensors)))
    _add_first_matrix(draft, name, file)
    carries_spec = KEY in file.metadata
    if models:
        _add_check_against_model(draft, name, models[0], settings)
    elif carries_spec:
        draft.subheading("Verified against the spec that it carries")
        command = ["pecli", "verify", name, *_settings_as_options(settings)]
        draft.check(lambda: verify(name, None, settings.tolerance), command)
    else:
        from pecli.checks.identify import identify

        draft.subheading("Identified, as it carries no spec, and no model is named")
        draft.check(lambda: identify(name))


def _add_check_against_model(
    draft: Draft, name: str, model: NamedModel, settings: _ReportSettings
) -> None:
    """Add the verification of a file against a model, and the command that repeats it.

    If it fails, the page also has the command that makes the model's first table.
    """
    draft.subheading(f"Verified against {model.name}")
    command = ["pecli", "verify", name, model.option, model.name, *_settings_as_options(settings)]
    option = f"{model.option} {shlex.quote(model.name)}"
    table_commands = encodings.commands(model.encodings, option)
    draft.check(
        lambda: verify(
            name,
            model.encodings,
            settings.tolerance,
            runtime=settings.runtime,
            before=settings.before,
        ),
        command,
        fix=next(iter(table_commands), ""),
    )


def _add_first_matrix(draft: Draft, name: str, file: LoadedFile) -> None:
    """Add a heatmap of the first rows of the first tensor that has at least two axes."""
    for source in of_file(name, file):
        for table in source.tables:
            if len(table.shape) > 1 and table.size:
                draft.plot([_first_rows(source, table)], "heatmap")
                return


def _first_rows(source: PlotSource, table: Table) -> PlotSource:
    """Return the first rows and columns of a table as a source of its own, with its size in the title.

    A row of some files is longer than all that is drawn, so that rows are read one by one, and only
    their first columns are kept in memory.
    """
    corner = []
    for row in range(min(table.rows, MAX_ROWS)):
        (columns,) = table.read(row, row + 1)
        corner.append(columns[:MAX_COLUMNS].copy())
    title = f"{table.name}, {shape(table.shape)} {table.dtype}"
    # A table over a grid is drawn as maps, which need all its rows, unless its scheme is unknown.
    scheme = UNKNOWN if "patch" in source.picture_kinds else source.scheme
    return PlotSource(title, (table_of(table.name, np.stack(corner)),), scheme)


def _add_comparison(draft: Draft, first: str, second: str, tolerance: Tolerance) -> None:
    draft.heading(f"{os.path.basename(first)} and {os.path.basename(second)}")
    command = ["pecli", "diff", first, second, *_settings_as_options(_ReportSettings(tolerance))]
    draft.check(lambda: diff(first, second, tolerance), command)
