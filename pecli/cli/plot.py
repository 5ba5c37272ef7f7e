"""`pecli plot`: pictures of schemes and files, in the terminal or in a file."""

import os
from collections.abc import Sequence
from typing import Any

from pecli.cli import command, made_by, options
from pecli.engine.schemes import SCHEMES, ListOf, Real, Whole, scheme_named
from pecli.errors import FileError, ParameterError
from pecli.files.load import SHARD_KINDS, open_tensors
from pecli.models.find import NamedModel, config_file, find_model, is_config, named_model
from pecli.views.pictures import kinds as figures
from pecli.views.pictures import subjects as plotted
from pecli.views.pictures.figure_files import check_suffix, save
from pecli.views.pictures.identification import identified
from pecli.views.pictures.kinds import KINDS
from pecli.views.pictures.subjects import PlotRequest, Subject
from pecli.views.pictures.titles import labelled

DEFAULTS = {"seq_len": "512", "max_len": "512", "dim": "64", "heads": "8"}
"""For what a scheme must be told, and a picture need not."""
SIZE, DPI = (
    Real(help="inches", above=0.99, up_to=100),
    Whole(help="dots per inch", low=10, high=2400),
)
CHANNELS = ListOf(help="channels", each=Whole(help="a channel", low=0, high=2**40))
MAX_PIXELS = 1 << 26
"""Pixels of a figure, each of which takes a dozen bytes on the way; it is laid out at 100 dots per inch at least."""

_LOOK = "Look"
_KIND = f"{', '.join(KINDS)}; see below. (default: heatmap, or what fits)"
_WHAT = "Files (or FILE:NAME; - is a .npy on standard input); a scheme with its options; or a model, with --layer-type"
_WHAT += " for one of its encodings. More of them come after --against."


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
    options.text("--dpi", "INTEGER", "Dots per inch. (default: 100)", _LOOK, rule=DPI),
    options.flag("--dark", "Dark theme.", _LOOK),
    options.text("--cmap", "NAME", "One of matplotlib's colour maps.", _LOOK),
    options.QUIET,
    shown=["", *(f"{name:<11}  {kind.summary}" for name, kind in KINDS.items())],
    context_settings={"ignore_unknown_options": True},
)
def plot(what: list[str], kind: str | None, output: str | None, quiet: bool, **given: Any) -> None:
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
    channels = None if given["channels"] is None else CHANNELS.parse("channels", given["channels"])
    inches, dots = _size(given["size"]), given["dpi"] or 100
    wide, high = inches or (8, 5)
    if kind is not None:
        figures.check(kind)
    if output is None:
        if kind is not None and KINDS[kind].moves:
            raise ParameterError(
                "kind", kind, "it is not drawn in a terminal", "write it to a file with -o x.gif"
            )
        for name in ("size", "dpi", "dark", "cmap"):
            if given[name] not in (None, False):
                said = "given" if given[name] is True else given[name]
                raise ParameterError(name, said, "it only applies with -o", "add -o x.png")
        request = PlotRequest(channels=channels)
    else:
        check_suffix(output, moving=kind is not None and KINDS[kind].moves)
        if wide * high * max(dots, 100) ** 2 > MAX_PIXELS:
            rule = f"the figure would have more than {MAX_PIXELS:,} pixels"
            raise ParameterError("dpi", dots, rule, "make it smaller")
        request = PlotRequest(round(4 * high * dots), round(wide * dots), channels)
    subjects = [identified(each, kind) for each in _subjects(what, given["label"] or (), kind)]
    picture = figures.titled(subjects, request, kind, given["title"])
    if output is not None:
        from pecli.views import screen
        from pecli.views.pictures import figure

        made = figure.render(picture, size=inches, dpi=dots, dark=given["dark"], cmap=given["cmap"])
        about = made_by(["plot", *what], {"kind": kind, **given})
        about["specs"] = [
            {"label": each.label, **each.scheme.spec()}
            for each in subjects
            if each.scheme is not None
        ]
        save(made, output, dots, about)
        if not quiet:
            width, height = made.get_size_inches()
            screen.print_written(output, f"{width:g} × {height:g} inches, ")
    if output is None and not quiet:
        from pecli.views.pictures.terminal_render import show

        show(picture)


def _size(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2:
        raise ParameterError("size", repr(text), "it must be two numbers of inches, such as 8x5")
    return SIZE.parse("size", parts[0]), SIZE.parse("size", parts[1])


def _subjects(words: Sequence[str], names: Sequence[str], kind: str | None) -> list[Subject]:
    """What the words name: parts separated by --against, each a scheme with its options, or files."""
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
        part, on_grid = _on_grid(part)
        for word in part:
            if word.startswith("-") and word != "-":
                rule = "files take no such option"
                raise ParameterError(f"the option {word}", "unknown", rule, "see pecli plot --help")
            if _model_option(word):
                found += _of_model(word, kind, defaults)
                continue
            try:
                file = open_tensors(word)
            except FileError as problem:
                if "." in word or problem.problem != "does not exist":
                    raise
                advice = f"a scheme is one of {', '.join(SCHEMES)}; pecli models lists models"
                raise FileError(word, problem.problem, advice) from None
            alike = [other for other in words if os.path.basename(other) == os.path.basename(word)]
            files = plotted.of_file(word, file, word if len(set(alike)) > 1 else "")
            found += [subject._replace(**on_grid) for subject in files]
    return labelled(found, names)


def _on_grid(part: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Words without `--grid` and `--keep`, and what these say of files: on which grid their rows lie."""
    words, found = list(part), {}
    for name in ("grid", "keep"):
        if f"--{name}" in words[:-1]:
            place = words.index(f"--{name}")
            found[name] = scheme_named("rope").parameters()[name].parse(name, words[place + 1])
            del words[place : place + 2]
    return words, found


def _scheme_words(part: Sequence[str]) -> Sequence[str]:
    """A scheme and its options; of a model that is named without one, its rotary scheme. Empty for files."""
    if part[0] in SCHEMES:
        return part
    if part[0].startswith("--") and any(
        word.split("=", 1)[0] in ("--model", "--config") for word in part
    ):
        return ["rope", *part]
    option = _model_option(part[0]) if part[1:] and part[1].startswith("--") else ""
    return ["rope", option, *part] if option else ()


def _model_option(word: str) -> str:
    """The option that takes a word for a model; empty where it names a file or a folder of tensors, or nothing."""
    if (
        os.path.isdir(word)
        and config_file(word)
        and not any(name.endswith(SHARD_KINDS) for name in os.listdir(word))
    ):
        return "--config"
    if os.path.lexists(word):
        return "--config" if is_config(word) and not word.endswith(".gguf") else ""
    return "" if named_model(word) is None else "--model"


def _named(name: str) -> NamedModel:
    encodings = find_model(name)
    return NamedModel(encodings.file, "", encodings)  # whose own name a short one stands for


def _of_model(word: str, kind: str | None, defaults: dict[str, str]) -> list[Subject]:
    options.note_preset(word)
    named = _named(word)
    if made := plotted.of_model(named.encodings, named.label, kind, int(defaults["seq_len"])):
        return _taken_over(made, defaults)
    kinds = ", ".join(dict.fromkeys(encoding.scheme for encoding in named.encodings)) or "none"
    raise ParameterError(
        "model", word, f"no table follows from its configuration ({kinds})", "plot its checkpoint"
    )


def _of_scheme(words: Sequence[str], defaults: dict[str, str]) -> list[Subject]:
    scheme, model, layer_type = options.parse_scheme(words[0], words[1:], defaults)
    if model is None:
        return _taken_over(plotted.of_scheme(scheme), defaults)
    named = _named(model)
    label = f"{named.label} {layer_type or ''}".strip()
    return _taken_over(
        plotted.of_scheme(scheme, label, named.encodings.context, named.encodings.window), defaults
    )


def _taken_over(made: list[Subject], defaults: dict[str, str]) -> list[Subject]:
    """The same; what the next schemes leave out is as in these."""
    values = made[0].scheme.spec()["parameters"] if made[0].scheme else {}
    defaults |= {name: str(values[name]) for name in DEFAULTS if values.get(name) is not None}
    return made
