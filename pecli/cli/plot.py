"""`pecli plot`: pictures of schemes and files, in the terminal or in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import Exit, command_line, command_of, options, print_note
from pecli.cli.options import completer
from pecli.engine.schemes import SCHEMES, ListOf, Real, Whole
from pecli.errors import FileError, ParameterError
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.kinds import KINDS

if TYPE_CHECKING:
    from pecli.views.pictures.panels import Picture, Subject

EXAMPLES = (
    "pecli plot sinusoidal --seq-len 512 --dim 64",
    "pecli plot rope.safetensors --kind similarity -o rope.png",
    "pecli plot before.npy after.npy -o both.svg",
    "pecli plot rope --model llama-3.1-8b --against rope --theta 10000 --kind wavelengths",
    "pecli plot llama-2-7b llama-3.1-8b --kind wavelengths -o models.png",
    "",
    "What each kind shows:",
    "",
    *(f"{name:<11}  {kind.summary}" for name, kind in KINDS.items()),
)
DEFAULTS = {"seq_len": "512", "max_len": "512", "dim": "64", "heads": "8"}
"""For what a scheme must be told, and a picture need not."""
SIZE, DPI = Real(help="inches", above=0.99, up_to=100), Whole(help="dots per inch", low=10, high=2400)
CHANNELS = ListOf(help="channels", each=Whole(help="a channel", low=0, high=2**40))
MAX_PIXELS = 1 << 26
"""Pixels of a figure, each of which takes a dozen bytes on the way; it is laid out at 100 dots per inch at least."""

_LOOK = "Look"
What = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE…|SCHEME…|MODEL…",
        help="Files (or FILE:NAME; - is a .npy on standard input); or a scheme with its options, or a model, which"
        " stands for rope --model MODEL; and more of them after --against.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        "-k",
        metavar="NAME",
        help=f"{', '.join(KINDS)}; see below. (default: heatmap)",
        autocompletion=completer(tuple(KINDS)),
    ),
]
Output = Annotated[str | None, options.output("Write .png, .svg or .pdf; else draw in the terminal.", panel=None)]
Channels = Annotated[str | None, options.text("--channels", "INTEGER,…", "Channels, pairs or heads to draw.")]
Label = Annotated[list[str] | None, options.text("--label", "TEXT", "Name a curve or panel; once for each, in order.")]
Title = Annotated[str | None, options.text("--title", "TEXT", "Override the title.", _LOOK)]
_INCHES = "Inches of a figure. (default: 8 wide, as high as the panels are)"
Size = Annotated[str | None, options.text("--size", "WxH", _INCHES, _LOOK)]
Dpi = Annotated[str | None, options.text("--dpi", "INTEGER", "Dots per inch. (default: 100)", _LOOK)]
Dark = Annotated[bool, typer.Option("--dark", help="Dark theme.", rich_help_panel=_LOOK)]
Cmap = Annotated[str | None, options.text("--cmap", "NAME", "One of matplotlib's colour maps.", _LOOK)]


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return command_of(plot, name, EXAMPLES, context_settings={"ignore_unknown_options": True})


def plot(
    what: What,
    kind: Kind = None,
    output: Output = None,
    channels: Channels = None,
    label: Label = None,
    title: Title = None,
    size: Size = None,
    dpi: Dpi = None,
    dark: Dark = False,
    cmap: Cmap = None,
    quiet: options.Quiet = False,
) -> int:
    """Draw tables: as colours, as curves, or what follows from them. Several are drawn beside each other."""
    from pecli.views.pictures.panels import PlotRequest

    picked = None if channels is None else CHANNELS.parse("channels", channels)
    inches, dots = _size(size), 100 if dpi is None else DPI.parse("dpi", dpi)
    if kind is not None:
        figures.check(kind)
    if output is None:
        _refuse(size=size, dpi=dpi, dark=dark or None, cmap=cmap)
        request = PlotRequest(channels=picked)
    else:
        _check_figure(output, inches or (8, 5), dots)
        wide, high = inches or (8, 5)
        request = PlotRequest(round(4 * high * dots), round(wide * dots), picked)
    with ExitStack() as open_files:
        subjects = _subjects(what, label or (), open_files)
        if kind is not None:
            subjects = figures.fitting(kind, subjects, terminal=output is None)
        picture = figures.titled(subjects, request, kind, title)
        if output is not None:
            given = {"kind": kind, "channels": channels, "label": label, "title": title}
            look = {"size": size, "dpi": dpi, "dark": dark, "cmap": cmap}
            about = figures.about(command_line(["plot", *what], {**given, **look}), subjects)
            return _write(picture, output, inches, dots, {"dark": dark, "cmap": cmap}, about, quiet=quiet)
    if not quiet:
        from pecli.views.pictures.terminal_render import show

        show(picture)
    return Exit.DONE


def _write(
    picture: Picture,
    path: str,
    inches: tuple[float, float] | None,
    dots: int,
    look: dict[str, Any],
    about: dict[str, Any],
    *,
    quiet: bool,
) -> int:
    """The picture as a figure in a file."""
    from pecli.views import screen
    from pecli.views.pictures import figure, mpl_render

    width, height = inches or mpl_render.size_of(picture)
    made = mpl_render.render(picture, width=width, height=height, dpi=dots, **look)
    boxes = figure.save(made, path, dots, about)
    if boxes and not quiet:
        print_note(f"{path}: the font of figures has no {boxes}; boxes stand for it, and an .svg has the text itself")
    if not quiet:
        screen.say_written(path, f"{width:g} × {height:g} inches, ")
    return Exit.DONE


def _subjects(words: Sequence[str], names: Sequence[str], open_files: ExitStack) -> list[Subject]:
    """What the words name: parts separated by --against, each a scheme with its options, or files."""
    from pecli.views.pictures import subjects

    parts: list[list[str]] = [[]]
    for word in words:
        if word == "--against":
            parts.append([])
        else:
            parts[-1].append(word)
    found: list[Subject] = []
    defaults = dict(DEFAULTS)
    for part in parts:
        if not part:
            raise ParameterError("against", "alone", "it stands before a scheme or a file")
        if scheme := _scheme_words(part):
            found += _of_scheme(scheme, defaults)
            continue
        for word in part:
            if word.startswith("-") and word != "-":
                raise ParameterError(
                    f"the option {word}", "unknown", "files take no such option", "see pecli plot --help"
                )
            if option := _model_option(word):
                found += _of_scheme(["rope", option, word], defaults)
                continue
            file = open_files.enter_context(_opened(word))
            file.check()
            alike = [other for other in words if os.path.basename(other) == os.path.basename(word)]
            found += subjects.of_file(word, file, word if len(set(alike)) > 1 else "")
    return subjects.labelled(found, names)


def _scheme_words(part: Sequence[str]) -> Sequence[str]:
    """A scheme and its options; of a model that is named without one, its rotary scheme. Empty for files."""
    if part[0] in SCHEMES:
        return part
    if part[0].startswith("--") and any(word.split("=", 1)[0] in ("--model", "--config") for word in part):
        return ["rope", *part]
    option = _model_option(part[0]) if part[1:] and part[1].startswith("--") else ""
    return ["rope", option, *part] if option else ()


def _model_option(word: str) -> str:
    """The option that takes a word for a model; empty where it names a file or a folder of tensors, or nothing."""
    if os.path.lexists(word):
        return "--config" if os.path.basename(word).endswith(("config.json", "params.json")) else ""
    from pecli.models.find import named_model

    return "" if named_model(word) is None else "--model"


def _of_scheme(words: Sequence[str], defaults: dict[str, str]) -> list[Subject]:
    """A scheme; what the next ones leave out is as in this one."""
    from pecli.views.pictures import subjects

    scheme = options.parse_scheme(words[0], words[1:], defaults)
    apart = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    given = {word: after for word, after in pairwise(apart) if word in ("--model", "--config")}
    made = subjects.of_scheme(scheme, _name(given), *_reach(given))
    for subject in made[:1]:
        values = subject.scheme.spec()["parameters"] if subject.scheme else {}
        defaults.update({name: str(values[name]) for name in DEFAULTS if values.get(name) is not None})
    return made


def _name(given: Mapping[str, str]) -> str:
    """What to call a model: by its preset, or by its file; where that is called as all are, by its folder."""
    path = given.get("--config", "").rstrip(os.sep)
    folder, file = os.path.split(path)
    return given.get("--model") or (os.path.basename(folder) if file in ("config.json", "params.json") else "") or file


def _reach(given: Mapping[str, str]) -> tuple[int | None, int | None]:
    """The context and the sliding window of the model that is named."""
    if not given:
        return None, None
    from pecli.models.find import find_model

    model = find_model(given.get("--config"), given.get("--model"))
    return model.context, model.window


def _opened(word: str) -> Any:
    from pecli.files import open_tensors

    try:
        return open_tensors(word)
    except FileError as problem:
        if problem.problem != "does not exist":
            raise
        advice = "" if "." in word else f"a scheme is one of {', '.join(SCHEMES)}; pecli models lists models"
        raise FileError(word, problem.problem, advice) from None


def _size(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2:
        raise ParameterError("size", repr(text), "it must be two numbers of inches, such as 8x5")
    return SIZE.parse("size", parts[0]), SIZE.parse("size", parts[1])


def _refuse(**given: Any) -> None:
    """Options that only apply to figures in files."""
    for name, value in given.items():
        if value is not None:
            said = "given" if value is True else value
            raise ParameterError(name, said, "it only applies with -o", "add -o x.png")


def _check_figure(output: str, inches: tuple[float, float], dots: int) -> None:
    """All refusals that need no work."""
    from pecli.views.pictures import figure

    figure.check_suffix(output)
    if inches[0] * inches[1] * max(dots, 100) ** 2 > MAX_PIXELS:
        raise ParameterError("dpi", dots, f"the figure would have more than {MAX_PIXELS:,} pixels", "make it smaller")
