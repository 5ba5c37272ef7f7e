"""`pecli plot`: pictures of schemes, models and files, in the terminal or in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from pecli.cli import options, scheme_options
from pecli.cli.answers import provenance
from pecli.cli.commands import command
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.parameters import ListOf, Real, Whole
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile
from pecli.files.load import SHARD_KINDS, open_tensors
from pecli.models.config_files import config_file, is_config
from pecli.models.find import NamedModel, find_model, named_model
from pecli.views.pictures import kinds as figures
from pecli.views.pictures import subjects as plotted
from pecli.views.pictures.figure_files import check_suffix, save
from pecli.views.pictures.identification import identified
from pecli.views.pictures.kinds import KINDS
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.subjects import PlotRequest, Subject
from pecli.views.pictures.titles import labelled

DEFAULTS = {"seq_len": "512", "max_len": "512", "dim": "64", "heads": "8"}
"""Values of parameters that a table requires, and that a picture need not be given."""

DPI = Whole(help="dots per inch", low=10, high=2400)
DEFAULT_DPI = 100
INCHES = Real(help="inches", above=0.99, up_to=100)
CHANNELS = ListOf(help="channels", each=Whole(help="a channel", low=0, high=2**40))

MAX_PIXELS = 1 << 26
"""Pixels of a figure. Each takes a dozen bytes while it is drawn."""

MIN_LAYOUT_DPI = 100
"""Figures are laid out at this resolution at least, so that is what their pixels are counted at."""

DEFAULT_INCHES = (8.0, 5.0)
"""Size by which the resolution of the data is chosen if no size is given."""

ROWS_PER_DOT = 4
"""Rows that are read per dot of a figure's height; they are averaged."""

_LOOK = "Look"
_KIND = f"{', '.join(KINDS)}; see below. (default: heatmap, or the kind that fits)"
_WHAT = (
    "Files (or FILE:NAME; - is a .npy on standard input); a scheme with its options; or a model, "
    "with --layer-type for one of its encodings. More of them come after --against."
)


@command(
    options.argument("what", "FILE…|SCHEME…|MODEL…", _WHAT, several=True),
    options.text("--kind -k", "NAME", _KIND, choices=tuple(KINDS)),
    options.output(
        "Write a figure instead of drawing in the terminal: .png, .svg, .pdf; circles also as .gif.",
        "",
    ),
    options.text("--channels", "INTEGER,…", "Channels, pairs or heads to draw."),
    options.text(
        "--label", "TEXT", "Name a curve or panel; once for each, in order.", several=True
    ),
    options.text("--title", "TEXT", "Override the title.", _LOOK),
    options.text(
        "--size",
        "WxH",
        "Size of a figure in inches. (default: 8 wide, the height by its panels)",
        _LOOK,
    ),
    options.text("--dpi", "INTEGER", f"Dots per inch. (default: {DEFAULT_DPI})", _LOOK, rule=DPI),
    options.flag("--dark", "Dark theme.", _LOOK),
    options.text("--cmap", "NAME", "One of matplotlib's colour maps.", _LOOK),
    options.QUIET,
    shown=["", *(f"{name:<11}  {kind.summary}" for name, kind in KINDS.items())],
    context_settings={"ignore_unknown_options": True},
)
def plot(what: list[str], kind: str | None, output: str | None, quiet: bool, **values: Any) -> None:
    """Draw tables: as colours, as curves, or what follows from them. Several are drawn beside each other.

    Examples:
      pecli plot sinusoidal --seq-len 512 --dim 64
      pecli plot rope.safetensors --kind similarity -o rope.png
      pecli plot before.npy after.npy -o both.svg
      pecli plot rope --model llama-3.1-8b --against rope --theta 10000 --kind wavelengths
      pecli plot llama-2-7b llama-3.1-8b --kind wavelengths -o models.png
      pecli plot vit.npy --kind patch --grid 14x14 --keep 1 -o patch.png

      What each kind shows:

    """
    channels = None
    if values["channels"] is not None:
        channels = CHANNELS.parse("channels", values["channels"])
    size = _size(values["size"])
    dpi = values["dpi"] or DEFAULT_DPI
    is_animated = False
    if kind is not None:
        figures.check(kind)
        is_animated = KINDS[kind].moves
    if output is None:
        _check_terminal(kind, values, is_animated=is_animated)
        request = PlotRequest(channels=channels)
    else:
        check_suffix(output, moving=is_animated)
        request = _figure_request(size, dpi, channels)
    subjects = _Subjects(kind).of(what, values["label"] or ())
    subjects = [identified(subject, kind) for subject in subjects]
    picture = figures.titled(subjects, request, kind, values["title"])
    if output is not None:
        about = provenance(["plot", *what], {"kind": kind, **values})
        about["specs"] = [
            {"label": subject.label, **subject.scheme.spec()}
            for subject in subjects
            if subject.scheme is not None
        ]
        style = _FigureStyle(size, dpi, values["dark"], values["cmap"])
        _save(picture, output, style, about, quiet=quiet)
    elif not quiet:
        from pecli.views.pictures.terminal_render import show

        show(picture)


def _size(text: str | None) -> tuple[float, float] | None:
    """Parse the width and height of a figure."""
    if text is None:
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2:
        raise ParameterError("size", repr(text), "it must be two numbers of inches, such as 8x5")
    return INCHES.parse("size", parts[0]), INCHES.parse("size", parts[1])


def _check_terminal(kind: str | None, values: options.Values, *, is_animated: bool) -> None:
    """Raise ParameterError for options that need a figure in a file."""
    if is_animated:
        rule = "it is not drawn in a terminal"
        raise ParameterError("kind", kind, rule, "write it to a file with -o x.gif")
    for name in ("size", "dpi", "dark", "cmap"):
        value = values[name]
        if value is None or value is False:
            continue
        shown = "given" if value is True else value
        raise ParameterError(name, shown, "it only applies with -o", "add -o x.png")


def _figure_request(
    size: tuple[float, float] | None, dpi: int, channels: tuple[int, ...] | None
) -> PlotRequest:
    """Return the resolution of a figure's data."""
    wide, high = size or DEFAULT_INCHES
    if wide * high * max(dpi, MIN_LAYOUT_DPI) ** 2 > MAX_PIXELS:
        rule = f"the figure would have more than {MAX_PIXELS:,} pixels"
        raise ParameterError("dpi", dpi, rule, "make it smaller")
    return PlotRequest(round(ROWS_PER_DOT * high * dpi), round(wide * dpi), channels)


class _FigureStyle(NamedTuple):
    """The look of a figure."""

    size: tuple[float, float] | None
    dpi: int
    dark: bool
    cmap: str | None


def _save(
    picture: Picture, output: str, style: _FigureStyle, about: dict[str, Any], *, quiet: bool
) -> None:
    from pecli.views import screen
    from pecli.views.pictures import figure

    drawn = figure.render(picture, size=style.size, dpi=style.dpi, dark=style.dark, cmap=style.cmap)
    save(drawn, output, style.dpi, about)
    if not quiet:
        width, height = drawn.get_size_inches()
        screen.print_written(output, f"{width:g} × {height:g} inches, ")


class _Subjects:
    """Reads the subjects of a picture from the words of a command line.

    Parameters that a scheme leaves out are those of the scheme before it, so that `rope --seq-len 64
    --against sinusoidal` compares tables of the same length.
    """

    def __init__(self, kind: str | None) -> None:
        self.kind = kind
        self.defaults = dict(DEFAULTS)

    def of(self, words: Sequence[str], labels: Sequence[str]) -> list[Subject]:
        """Return the subjects of parts that are separated by `--against`."""
        subjects: list[Subject] = []
        for part in _split(words, "--against"):
            if not part:
                raise ParameterError("against", "alone", "it stands before a scheme or a file")
            scheme_words = _scheme_words(part)
            if scheme_words:
                subjects += self._of_scheme(scheme_words)
            else:
                subjects += self._of_names(part, words)
        return labelled(subjects, labels)

    def _of_scheme(self, words: Sequence[str]) -> list[Subject]:
        name, *arguments = words
        parsed = scheme_options.parse_scheme(name, arguments, self.defaults)
        if parsed.model is None:
            return self._remember(plotted.of_scheme(parsed.scheme))
        model = _named(parsed.model)
        label = model.label
        if parsed.layer_type:
            label += f" {parsed.layer_type}"
        encodings = model.encodings
        return self._remember(
            plotted.of_scheme(parsed.scheme, label, encodings.context, encodings.window)
        )

    def _of_names(self, part: Sequence[str], words: Sequence[str]) -> list[Subject]:
        """Return the subjects of files and models, which may be mixed."""
        names, on_grid = _split_grid(part)
        subjects: list[Subject] = []
        for name in names:
            if name.startswith("-") and name != "-":
                rule = "files take no such option"
                raise ParameterError(f"the option {name}", "unknown", rule, "see pecli plot --help")
            if _model_option(name):
                subjects += self._of_model(name)
            else:
                label = name if _is_ambiguous(name, words) else ""
                files = plotted.of_file(name, _opened(name), label)
                subjects += [subject._replace(**on_grid) for subject in files]
        return subjects

    def _of_model(self, name: str) -> list[Subject]:
        options.note_preset(name)
        model = _named(name)
        seq_len = int(self.defaults["seq_len"])
        subjects = plotted.of_model(model.encodings, model.label, self.kind, seq_len)
        if subjects:
            return self._remember(subjects)
        schemes = ", ".join(dict.fromkeys(encoding.scheme for encoding in model.encodings))
        rule = f"no table follows from its configuration ({schemes or 'none'})"
        raise ParameterError("model", name, rule, "plot its checkpoint")

    def _remember(self, subjects: list[Subject]) -> list[Subject]:
        """Take the parameters of the first scheme as defaults of the next ones."""
        scheme = subjects[0].scheme
        parameters = scheme.spec()["parameters"] if scheme else {}
        for name in DEFAULTS:
            if parameters.get(name) is not None:
                self.defaults[name] = str(parameters[name])
        return subjects


def _split(words: Sequence[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _split_grid(part: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Separate `--grid` and `--keep`, which describe the rows of files, from the files' names."""
    words = list(part)
    grid: dict[str, Any] = {}
    for name in ("grid", "keep"):
        option = f"--{name}"
        if option in words[:-1]:
            index = words.index(option)
            rule = scheme_named("rope").parameters()[name]
            grid[name] = rule.parse(name, words[index + 1])
            del words[index : index + 2]
    return words, grid


def _is_ambiguous(name: str, words: Sequence[str]) -> bool:
    """Return True if another file has the same name in another folder."""
    base = os.path.basename(name)
    alike = {word for word in words if os.path.basename(word) == base}
    return len(alike) > 1


def _opened(name: str) -> LoadedFile:
    try:
        return open_tensors(name)
    except FileError as problem:
        if "." in name or name == "-" or os.path.lexists(name):
            raise
        advice = f"a scheme is one of {', '.join(SCHEMES)}; pecli models lists models"
        raise FileError(name, problem.problem, advice) from None


def _scheme_words(part: Sequence[str]) -> Sequence[str]:
    """Return a scheme and its options; a model with options is its rotary scheme. Empty for files."""
    first = part[0]
    if first in SCHEMES:
        return part
    names_model = any(word.split("=", 1)[0] in ("--model", "--config") for word in part)
    if first.startswith("--") and names_model:
        return ["rope", *part]
    has_options = len(part) > 1 and part[1].startswith("--")
    option = _model_option(first) if has_options else ""
    return ["rope", option, *part] if option else ()


def _model_option(word: str) -> str:
    """Return the option that names a model; empty if a word is not a model, but a file or folder of tensors."""
    if os.path.isdir(word) and config_file(word) and not _has_tensors(word):
        return "--config"
    if os.path.lexists(word):
        is_only_config = is_config(word) and not word.endswith(".gguf")
        return "--config" if is_only_config else ""
    return "--model" if named_model(word) is not None else ""


def _has_tensors(folder: str) -> bool:
    return any(name.endswith(SHARD_KINDS) for name in os.listdir(folder))


def _named(name: str) -> NamedModel:
    """Return a model under its full name, of which the user may have typed a short one."""
    encodings = find_model(name)
    return NamedModel(encodings.file, "", encodings)
