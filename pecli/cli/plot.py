"""`pecli plot`: pictures of schemes, models and files, in the terminal or in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from pecli.cli import options, scheme_options
from pecli.cli.answers import provenance
from pecli.cli.commands import command
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.scheme import stated_parameters
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile
from pecli.files.load import SHARD_KINDS, open_tensors
from pecli.models.config_files import config_file, is_config
from pecli.models.encoding import ModelEncodings
from pecli.models.find import NamedModel, find_model, named_model
from pecli.views.pictures import plot_sources as plotted
from pecli.views.pictures.figure_files import check_suffix, is_page, save
from pecli.views.pictures.figure_size import (
    CHANNELS,
    DEFAULT_DPI,
    GIF_DPI,
    WHOLE_DPI,
    Inches,
    data_request,
    parse_size,
)
from pecli.views.pictures.identification import identified
from pecli.views.pictures.kinds import KINDS
from pecli.views.pictures.kinds import check as check_kind
from pecli.views.pictures.kinds import titled as titled_picture
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import labelled
from pecli.views.pictures.value_range import parse_range, with_range

DEFAULTS = {"seq_len": "512", "max_len": "512", "dim": "64", "heads": "8"}
"""Sizes of the tables that are drawn if the user gives none: `pecli plot rope` is a valid command.

They are texts, as if they had been typed, so that the scheme's own rules parse them.
"""

MODEL_OPTIONS = ("--model", "--config")

PAGE_ROWS = 600
PAGE_COLUMNS = 800
"""Rows and columns of a heatmap in an interactive page: about one per dot of a screen."""

_LOOK = "Look"
_KIND = f"{', '.join(KINDS)}; see below. (default: heatmap, or the kind that fits)"
_WHAT = (
    "Files (or FILE:NAME; - is standard input (.npy, JSON, text)); a scheme with its options; or a model, "
    "with --layer-type for one of its encodings. More of them come after --against."
)


_OPTIONS = (
    options.argument("what", "FILE…|SCHEME…|MODEL…", _WHAT, several=True),
    options.text("--kind -k", "NAME", _KIND, choices=tuple(KINDS)),
    options.output(
        "Write a figure instead of drawing in the terminal: .png, .svg, .pdf; .html to hover, zoom "
        "and move sliders; circles also as .gif.",
        None,
    ),
    options.text("--channels", "INTEGER,…", "Channels, pairs or heads to draw."),
    options.text(
        "--label", "TEXT", "Name a curve or panel; once for each, in order.", several=True
    ),
    options.server_flags(),
    options.text("--title", "TEXT", "Override the title.", _LOOK),
    options.text(
        "--size",
        "WxH",
        "Size of a figure in inches. (default: 8 wide, the height by its panels)",
        _LOOK,
    ),
    options.text(
        "--range",
        "LOW:HIGH",
        "Ends of the colours, or of the vertical axis. (default: those of the data)",
        _LOOK,
    ),
    options.text(
        "--dpi",
        "INTEGER",
        f"Dots per inch. (default: {DEFAULT_DPI}; of a .gif {GIF_DPI})",
        _LOOK,
        rule=WHOLE_DPI,
    ),
    options.flag("--dark", "Dark theme.", _LOOK),
    options.text("--cmap", "NAME", "One of matplotlib's colour maps.", _LOOK),
    *options.RAW,
    options.QUIET,
)
_KINDS_IN_HELP = (
    "",
    "What each kind shows:",
    "",
    *(f"{name:<11}  {kind.summary}" for name, kind in KINDS.items()),
)
"""Lines at the end of the help."""


@command(*_OPTIONS, shown=_KINDS_IN_HELP, context_settings={"ignore_unknown_options": True})
def plot(what: list[str], kind: str | None, output: str | None, quiet: bool, **values: Any) -> None:
    """Draw tables: as colours, as curves, or what follows from them. Several are drawn beside each other.

    Examples:
      pecli plot sinusoidal --seq-len 512 --dim 64
      pecli plot rope.safetensors --kind similarity --range 0:1 -o rope.png
      pecli plot before.npy after.npy -o both.svg
      pecli plot rope --model llama-3.1-8b --against rope --theta 10000 --kind wavelengths
      pecli plot llama-2-7b llama-3.1-8b --kind wavelengths -o models.png
      pecli plot llama-2-7b --flags '--rope-freq-base 40000' --kind wavelengths
      pecli plot llama-3.1-8b --kind wavelengths -o sliders.html
      pecli plot vit.npy --kind patch --grid 14x14 --keep 1 -o patch.png
    """
    # `values` has the other options by name, such as "title".
    style = _parse_style(output, values)
    value_range = parse_range(values["range"])
    is_animated = _is_animated(kind)
    destination = _destination(output, style)  # a terminal, a page, or a figure
    plot_request = destination.plot_request(values, is_animated=is_animated)

    reader = _SourceReader(kind, values["flags"])
    sources = reader.read(what, values["label"])  # tables of schemes, models and files
    # The scheme of a file without a spec is searched for: it names rows and columns.
    sources = [identified(source, kind) for source in sources]
    if is_animated and output is None:
        raise _animation_in_terminal_error(kind, sources)

    whole_picture = titled_picture(sources, plot_request, kind, values["title"])
    picture = with_range(whole_picture, value_range)
    metadata = provenance(["plot", *what], {"kind": kind, **values})
    metadata["specs"] = _labelled_specs(sources)
    print_result = destination.draw_and_write(picture, sources, metadata)
    if not quiet:
        print_result()


class _FigureStyle(NamedTuple):
    """The look of a figure.

    Attributes:
        channels: Channels, pairs or heads to draw; None: chosen for the user.
        size: The size; None lets the number of panels decide the height.
        dpi: Dots per inch.
        dark: True for a dark theme.
        cmap: The name of a colour map of matplotlib; None for the default.
    """

    channels: tuple[int, ...] | None
    size: Inches | None
    dpi: int
    dark: bool
    cmap: str | None


def _parse_style(output: str | None, values: options.Values) -> _FigureStyle:
    """Return the look of a figure by the options of the command line."""
    channels = values["channels"]
    return _FigureStyle(
        channels=None if channels is None else CHANNELS.parse("channels", channels),
        size=parse_size(values["size"]),
        dpi=values["dpi"] or _default_dpi(output),
        dark=values["dark"],
        cmap=values["cmap"],
    )


def _is_animated(kind: str | None) -> bool:
    """Return True for a kind of picture that moves; raise ParameterError if there is no such kind."""
    if kind is None:
        return False
    check_kind(kind)
    return KINDS[kind].moves


PrintResult = Callable[[], None]
"""A function that prints a picture in the terminal, or the name and the size of its file.

It is called at the end of the command, and not at all by a quiet one.
"""


class _Destination(Protocol):
    """The place of a picture: a terminal, an interactive page, or a figure in a file."""

    def plot_request(self, values: options.Values, *, is_animated: bool) -> PlotRequest:
        """Return the rows and columns of data that there is room for, and the chosen channels.

        Raises:
            ParameterError: An option does not apply here, or there is no such format.
        """

    def draw_and_write(
        self, picture: Picture, sources: Sequence[PlotSource], metadata: dict[str, object]
    ) -> PrintResult:
        """Draw a picture, write its file if it has one, and return how to print the result.

        Args:
            picture: The picture.
            sources: The tables that it shows.
            metadata: The metadata of the file.
        """


def _destination(output: str | None, style: _FigureStyle) -> _Destination:
    """Return the place of a picture that `--output` names; without it, the terminal."""
    if output is None:
        return _InTerminal(style)
    if is_page(output):
        return _InPage(output, style)
    return _InFigure(output, style)


@dataclass(frozen=True)
class _InTerminal:
    """A picture of characters. A quiet command only makes it, so that its errors are found."""

    style: _FigureStyle

    def plot_request(self, values: options.Values, *, is_animated: bool) -> PlotRequest:
        rule = "it only applies with -o"
        options.refuse(values, ("size", "dpi"), rule, "add -o x.png")
        options.refuse(values, ("dark",), rule, "add -o x.png", lambda value: "given")
        options.refuse(values, ("cmap",), rule, "add -o x.png")
        return PlotRequest(channels=self.style.channels)

    def draw_and_write(
        self, picture: Picture, sources: Sequence[PlotSource], metadata: dict[str, object]
    ) -> PrintResult:
        """Return the function that draws the picture in the terminal."""
        from pecli.views.pictures.terminal_render import show

        return partial(show, picture)


@dataclass(frozen=True)
class _InPage:
    """An interactive page, with sliders for the rotary encodings among the sources."""

    path: str
    style: _FigureStyle

    def plot_request(self, values: options.Values, *, is_animated: bool) -> PlotRequest:
        rule = "an .html page has the size of its window, and its own colours"
        options.refuse(values, ("size", "dpi", "cmap"), rule, "write a .png, .svg or .pdf")
        return PlotRequest(PAGE_ROWS, PAGE_COLUMNS, self.style.channels)

    def draw_and_write(
        self, picture: Picture, sources: Sequence[PlotSource], metadata: dict[str, object]
    ) -> PrintResult:
        """Write the page, and return the function that prints its name and size.

        The printed line is «rope.html: interactive, 4.6 MiB».
        """
        from pecli.views import interactive, screen
        from pecli.views.interactive.rope_sliders import slider_settings

        sliders = slider_settings(sources)
        interactive.save(picture, sliders, self.path, metadata, dark=self.style.dark)
        return partial(screen.print_written, self.path, before_size="interactive, ")


@dataclass(frozen=True)
class _InFigure:
    """A figure of matplotlib in a file."""

    path: str
    style: _FigureStyle

    def plot_request(self, values: options.Values, *, is_animated: bool) -> PlotRequest:
        check_suffix(self.path, moving=is_animated, page=True)
        return data_request(self.style.size, self.style.dpi, self.style.channels)

    def draw_and_write(
        self, picture: Picture, sources: Sequence[PlotSource], metadata: dict[str, object]
    ) -> PrintResult:
        """Write the figure, and return the function that prints its name and size.

        The printed line is «rope.png: 8 × 5 inches, 60 KiB».
        """
        from pecli.views import screen
        from pecli.views.pictures import figure

        style = self.style
        drawn = figure.render(
            picture, size=style.size, dpi=style.dpi, dark=style.dark, cmap=style.cmap
        )
        save(drawn, self.path, style.dpi, metadata)
        width, height = drawn.get_size_inches()
        inches = f"{width:g} × {height:g} inches, "
        return partial(screen.print_written, self.path, before_size=inches)


def _labelled_specs(sources: Sequence[PlotSource]) -> list[dict[str, object]]:
    """Return the specs of the sources whose scheme is known, for the metadata of a figure."""
    specs: list[dict[str, object]] = []
    for source in sources:
        if source.is_known:
            specs.append({"label": source.label, **source.scheme.spec()})
    return specs


def _default_dpi(output: str | None) -> int:
    is_gif = output is not None and output.lower().endswith(".gif")
    return GIF_DPI if is_gif else DEFAULT_DPI


def _animation_in_terminal_error(kind: str | None, sources: Sequence[PlotSource]) -> ParameterError:
    """Return the error for an animation without a file, if the kind fits the sources at all."""
    if kind is not None:
        check_kind(kind, sources)
    rule = "it is not drawn in a terminal"
    return ParameterError("kind", kind, rule, "write it to a file with -o x.gif")


class _SourceReader:
    """Reads the sources of a picture (the tables to draw) from the words of a command line.

    Sizes that a scheme leaves out are those of the scheme before it, so that `rope --seq-len 64
    --against sinusoidal` compares two tables of 64 rows. The reader therefore keeps them in
    `defaults` from one scheme to the next.
    """

    def __init__(self, kind: str | None, flags: str | None = None) -> None:
        self.kind = kind  #: the kind of picture that was chosen with `--kind`
        self.flags = flags  #: flags of a server, which apply to all models that are named
        self.defaults = dict(DEFAULTS)
        self.has_model_for_flags = False  #: whether a model was read to which the flags apply
        self.model_of_scheme = ""  #: the last model that is named beside options of a scheme

    def read(self, words: Sequence[str], labels: Sequence[str]) -> list[PlotSource]:
        """Return the tables that a command line of `pecli plot` draws, with their labels.

        `--against` separates parts of the command line. A part is one scheme with its options, or any
        number of files and models: `["rope", "--dim", "64", "--against", "a.npy", "b.npy"]`.

        Args:
            words: The words after `pecli plot`.
            labels: The values of `--label`, for the tables in order.
        """
        sources: list[PlotSource] = []
        for part in _split(words, "--against"):
            if not part:
                raise ParameterError("against", "alone", "it stands before a scheme or a file")
            sources += self._read_part(part, words)
        # `_read_named_model` has noted whether one of the parts is a model without options.
        if self.flags is not None and not self.has_model_for_flags:
            raise self._flags_without_model()
        return labelled(sources, labels)

    def _read_part(self, part: Sequence[str], words: Sequence[str]) -> list[PlotSource]:
        """Return the tables of a part: a scheme with its options, or files and models.

        Args:
            part: The words between two `--against`.
            words: The whole command line, in which another file may have the same name.
        """
        # `--model NAME` alone is the scheme rope with this option, whose parameters are the model's.
        # Server flags, however, change the model itself, as if only its name had been typed.
        only_model = _only_model(part)
        if only_model and self.flags is not None:
            return self._read_named_model(only_model)
        scheme_words = _scheme_words(part)
        if scheme_words:
            return self._read_scheme(scheme_words)
        return self._read_files_and_models(part, words)

    def _flags_without_model(self) -> ParameterError:
        """Return the error for flags that no source takes, with a command that takes them."""
        if self.model_of_scheme:
            rule = "flags apply to a model that is named without options"
        else:
            rule = "flags belong to a model"
        name = self.model_of_scheme or "qwen3-8b"
        advice = f"name one: pecli plot {name} --flags …"
        return ParameterError("flags", repr(self.flags), rule, advice)

    def _read_scheme(self, words: Sequence[str]) -> list[PlotSource]:
        """Return the sources of a scheme with its options, such as `rope --model llama-3.1-8b`.

        There are several if the model has several types of layers. If a model is named, they also
        carry its name, its context and its attention window, which pictures mark.
        """
        name, *arguments = words
        parsed = scheme_options.parse_scheme(name, arguments, self.defaults)
        if parsed.model is None:
            sources = plotted.of_scheme(parsed.scheme)
        else:
            model = _model_with_full_name(parsed.model)
            self.model_of_scheme = parsed.model
            label = model.label
            if parsed.layer_type:
                label += f" {parsed.layer_type}"
            encodings = model.encodings
            sources = plotted.of_scheme(parsed.scheme, label, encodings.context, encodings.window)
        self._keep_sizes(sources[0])
        return sources

    def _read_files_and_models(self, part: Sequence[str], words: Sequence[str]) -> list[PlotSource]:
        """Return the tables of some files and models, in the order of their names.

        Args:
            part: Names of files and models, with `--grid` and `--keep` for the files.
            words: The whole command line, in which another file may have the same name.
        """
        names, grid_fields = _split_grid(part)
        sources: list[PlotSource] = []
        for name in names:
            _refuse_unknown_option(name)
            if _option_for_model(name):  # not empty: the name is a model's
                sources += self._read_named_model(name)
            else:
                sources += self._read_file(name, words, grid_fields)
        return sources

    def _read_file(
        self, name: str, words: Sequence[str], grid_fields: NamedValues
    ) -> list[PlotSource]:
        """Return the tables of a file, whose rows are those of a grid if `--grid` was given.

        Args:
            name: The file, or FILE:NAME.
            words: The whole command line.
            grid_fields: The fields `grid` and `keep` of the tables; none without `--grid`.
        """
        # By default, a label has no folder: pe.npy for ours/pe.npy.
        label = name if _shares_base_name(name, words) else ""
        tables = plotted.of_file(name, _opened(name), label)
        tables_on_grid = [table._replace(**grid_fields) for table in tables]
        _refuse_undrawable_gguf(name, tables_on_grid, self.kind)
        return tables_on_grid

    def _read_named_model(self, name: str) -> list[PlotSource]:
        """Return the tables of a model, and keep its sizes for the schemes after it."""
        self.has_model_for_flags = True
        options.note_preset(name)
        sources = self._read_model(name)
        self._keep_sizes(sources[0])
        return sources

    def _read_model(self, name: str) -> list[PlotSource]:
        """Return the tables of a model, one per encoding that its configuration defines.

        With server flags, the tables without them come first, for comparison.

        Raises:
            ParameterError: It defines none, as for gpt2, whose only table is learned.
        """
        model = _model_with_full_name(name)
        sources = self._sources_of(model.encodings, model.label)
        if not sources:
            schemes = ", ".join(dict.fromkeys(encoding.scheme for encoding in model.encodings))
            rule = f"no table follows from its configuration ({schemes or 'none'})"
            raise ParameterError("model", name, rule, "plot its checkpoint")
        if self.flags is not None:
            encodings_with_flags = find_model(name, flags=self.flags)
            sources += self._sources_of(encodings_with_flags, f"{model.label} with flags")
        return sources

    def _sources_of(self, encodings: ModelEncodings, label: str) -> list[PlotSource]:
        seq_len = int(self.defaults["seq_len"])
        return plotted.of_model(encodings, label, self.kind, seq_len)

    def _keep_sizes(self, source: PlotSource) -> None:
        """Make the sizes of a source (its length, dimension, heads) the defaults of the next scheme."""
        sizes = options.only(stated_parameters(source.scheme), DEFAULTS)
        self.defaults.update({name: str(size) for name, size in sizes.items()})


def _split(words: Sequence[str], separator: str) -> list[list[str]]:
    """Return the words between separators, like `str.split`.

    >>> _split(["a", "--against", "b", "c"], "--against")
    [['a'], ['b', 'c']]
    """
    parts: list[list[str]] = [[]]
    for word in words:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _split_grid(part: Sequence[str]) -> tuple[list[str], NamedValues]:
    """Separate `--grid` and `--keep`, which describe the rows of files, from the files' names.

    Returns:
        The names, and the parsed options as fields of a source: `vit.npy --grid 14x14 --keep 1`
        has the fields `grid`, a grid of 14 × 14 rows, and `keep`, 1 row before them.
    """
    rules = scheme_named("rope").parameters()
    words = list(part)
    grid_fields: MutableValues = {}
    for name in ("grid", "keep"):
        option = f"--{name}"
        has_value = option in words[:-1]
        if has_value:
            index = words.index(option)
            text = words[index + 1]
            grid_fields[name] = rules[name].parse(name, text)
            words = words[:index] + words[index + 2 :]
    return words, grid_fields


def _refuse_unknown_option(word: str) -> None:
    """Raise ParameterError for an option among the names of files; `-` is standard input."""
    is_option = word.startswith("-") and word != "-"
    if is_option:
        rule = "files take no such option"
        raise ParameterError(f"the option {word}", "unknown", rule, "see pecli plot --help")


def _refuse_undrawable_gguf(name: str, sources: Sequence[PlotSource], kind: str | None) -> None:
    """Raise ParameterError for a .gguf whose tensors are not drawn, with how to draw its encoding.

    A .gguf is a file of tensors here. A header alone has none, and `rope_freqs.weight` is a vector.
    """
    if not name.endswith(".gguf") or any(_can_be_drawn(source, kind) for source in sources):
        return
    picture = f"fits `kind` {kind}" if kind else "has rows and columns"
    rule = f"the tensors of a .gguf are drawn, and none of them {picture}"
    raise ParameterError("model", name, rule, f"pecli plot --model {name} draws its encoding")


def _can_be_drawn(source: PlotSource, kind: str | None) -> bool:
    """Return True if a source has a table of rows and columns, and a kind of picture shows it."""
    has_rows_and_columns = any(len(table.shape) > 1 for table in source.tables)
    return has_rows_and_columns and kind in (None, *source.picture_kinds)


def _shares_base_name(name: str, words: Sequence[str]) -> bool:
    """Return True if another word is a file of the same name in another folder.

    The label of each is its whole path: `ours/pe.npy theirs/pe.npy`.
    """
    base = os.path.basename(name)
    paths = {word for word in words if os.path.basename(word) == base}
    return len(paths) > 1


def _opened(name: str) -> LoadedFile:
    """Open a file; if a word is not a path at all, the error lists schemes and models instead.

    `pecli plot roep` is a misspelt scheme, while `pecli plot roep.npy` is a missing file.
    """
    try:
        return open_tensors(name)
    except FileError as problem:
        is_path = "." in name or name == "-" or os.path.lexists(name)
        if is_path:
            raise
        advice = f"a scheme is one of {', '.join(SCHEMES)}; pecli models lists models"
        raise FileError(name, problem.problem, advice) from None


def _scheme_words(part: Sequence[str]) -> list[str]:
    """Return words of a command line as a scheme and its options; empty for files and models.

    Options beside a model are those of `rope`, which is then put first:

        rope --dim 64                      stays as it is
        --model llama-2-7b --seq-len 64    becomes rope --model llama-2-7b --seq-len 64
        llama-2-7b --seq-len 64            becomes the same
        llama-2-7b                         is empty: all encodings of the model are drawn
        pe.npy                             is empty

    Args:
        part: The words between two `--against`, at least one.
    """
    first, *others = part
    if first in SCHEMES:
        return [*part]
    if first.startswith("--"):
        return ["rope", *part] if _contains_model_option(part) else []
    if not others or not others[0].startswith("--"):
        return []
    model_option = _option_for_model(first)
    if not model_option:  # `first` is a file.
        return []
    return ["rope", model_option, first, *others]


def _only_model(part: Sequence[str]) -> str:
    """Return the model of `--model NAME` or `--config PATH` with no other word; empty for any other.

    >>> _only_model(["--model", "llama-2-7b"]), _only_model(["--model=llama-2-7b", "--dim", "64"])
    ('llama-2-7b', '')
    """
    option, separator, name = part[0].partition("=")
    if option not in MODEL_OPTIONS:
        return ""
    names = [name, *part[1:]] if separator else part[1:]
    return names[0] if len(names) == 1 else ""


def _contains_model_option(words: Sequence[str]) -> bool:
    """Return True if words have `--model NAME`, `--model=NAME`, or the same for `--config`."""
    names = {word.partition("=")[0] for word in words}
    return not names.isdisjoint(MODEL_OPTIONS)


def _option_for_model(word: str) -> str:
    """Return the option that takes a word: `--config` for a model's path, `--model` for a preset.

    It is empty if the word is not a model. A folder with a config.json and weights, and a .gguf,
    are not models here: their tensors are drawn.
    """
    if _is_config_without_tensors(word):
        return "--config"
    if os.path.lexists(word) or named_model(word) is None:
        return ""
    return "--model"


def _is_config_without_tensors(path: str) -> bool:
    """Return True for a config.json, or a folder that has one and no weights."""
    if os.path.isdir(path) and config_file(path) and not _has_tensors(path):
        return True
    return os.path.lexists(path) and is_config(path) and not path.endswith(".gguf")


def _has_tensors(folder: str) -> bool:
    return any(name.endswith(SHARD_KINDS) for name in os.listdir(folder))


def _model_with_full_name(name: str) -> NamedModel:
    """Return a model labelled with its full name: `llama-3-8b` for `llama3`."""
    encodings = find_model(name)
    return NamedModel(encodings.file, "", encodings)
