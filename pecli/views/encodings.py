"""What a model uses, for people: one table per encoding, values beside their sources; what differs between models."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pecli.compare.tolerance import FREQ_RTOL
from pecli.engine.schemes import options, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, counted, number
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.presets import Preset
from pecli.views import screen

SHOWN = (2, 1)  #: How many of the first and of the last numbers of a long list are shown


def show(model: ModelEncodings, seq_len: int | None = None, *, first: bool = True) -> None:
    """A line for the model, a table for each encoding, a line for each warning."""
    if not first:
        screen.say()
    count = len(model.encodings)
    said = counted(count, "encoding") if count else "no encodings"
    screen.say_styled((f"{model.file}  {model.model_type or 'no model_type'}  {said}", "bold"))
    for encoding in model.encodings:
        head = f"{encoding.layer_type or 'all layers'}: {encoding.scheme}"
        screen.say_table((head, "value", "source"), rows_of(encoding, seq_len), indent="  ")
    for warning in model.warnings:
        screen.say_labelled("warning", "bold yellow", f"  {warning}")


def rows_of(encoding: Encoding, seq_len: int | None) -> list[tuple[str, str, str]]:
    """Name, value and source of everything that is known."""
    rows = [
        (name, cell(value), encoding.sources.get(name, ""))
        for name, value in encoding.described().items()
    ]
    if encoding.is_rotary:
        if encoding.head_dim is not None:
            rows.append(("head_dim", cell(encoding.head_dim), encoding.sources.get("head_dim", "")))
        at = "" if seq_len is None else f"at length {seq_len}"
        values = encoding.inverse_frequencies(seq_len) or []
        rows += [
            (
                "rotary_dim",
                cell(encoding.rotary_dim),
                "the last channels of a head" if encoding.trailing else "",
            ),
            ("layout", encoding.layout or "", encoding.sources.get("layout", "")),
            (
                "attention_factor",
                cell(encoding.attention_factor(seq_len)),
                at or "multiplies cos and sin",
            ),
            ("inv_freq", _ends(values), at or f"{len(values)} values"),
        ]
    names = [row[0] for row in rows]
    return [row for k, row in enumerate(rows) if row[0] not in names[:k]]


def cell(value: Any) -> str:
    """A value in few words."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, (list, tuple)):
        return _ends(list(value))
    return str(value)


def _ends(values: Sequence[float]) -> str:
    shown = [number(value, 6) for value in values]
    if len(shown) > sum(SHOWN):
        shown = [*shown[: SHOWN[0]], "…", *shown[-SHOWN[1] :]]
    return " ".join(shown)


def show_differences(models: Sequence[ModelEncodings], seq_len: int | None) -> None:
    """What is not the same in all models, side by side."""
    values: dict[str, list[str]] = {}
    for place, model in enumerate(models):
        for encoding in model.encodings:
            prefix = f"{encoding.layer_type}." if encoding.layer_type else ""
            for name, value, _ in [("scheme", encoding.scheme, ""), *rows_of(encoding, seq_len)]:
                values.setdefault(prefix + name, ["–"] * len(models))[place] = value
    rows = [[name, *cells] for name, cells in values.items() if len(set(cells)) > 1]
    same = (
        "; frequencies and attention factors are the same"
        if rows and _rotate_alike(models, seq_len)
        else ""
    )
    screen.say_heading(f"differences{same}" if rows else "no differences", "bold")
    if rows:
        screen.say_table(["", *(model.file for model in models)], rows, indent="  ")


def _rotate_alike(models: Sequence[ModelEncodings], seq_len: int | None) -> bool:
    """Whether they rotate by the same numbers, also beyond their contexts, where dynamic scaling begins."""
    lengths = (seq_len, seq_len or 2 * max(model.context or 1 for model in models))
    ropes = [
        [each.frequency_rope(at) for each in model if each.is_rotary for at in lengths]
        for model in models
    ]
    found = [
        [x for rope in row for x in (rope.attention_factor_value(), *rope.frequencies().floats())]
        for row in ropes
    ]
    return all(
        len(one) == len(found[0]) > 0 and np.allclose(one, found[0], rtol=FREQ_RTOL, atol=0)
        for one in found
    )


def show_presets(presets: Sequence[tuple[Preset, ModelEncodings]]) -> None:
    """One line per preset with its context; a terminal shows families apart, and --json has the rest."""
    families: dict[str, list[list[str]]] = {}
    for preset, model in presets:
        kinds = "; ".join(dict.fromkeys(map(_brief, model.encodings))) or "none that pecli makes"
        context = f"{model.context:,}" if model.context else ""
        families.setdefault(preset.family, []).append([preset.name, context, kinds])
    if screen.is_terminal():
        for family, rows in families.items():
            screen.say_table([family, "context", "encodings"], rows)
        screen.say("aliases, repositories and sources: pecli models --json")
    else:
        screen.say_table(
            ["name", "context", "encodings"], [row for rows in families.values() for row in rows]
        )


def searched_text(preset: Preset, model: ModelEncodings) -> str:
    """What the words of `pecli models` are looked for in."""
    kinds = (_brief(encoding) for encoding in model.encodings)
    return " ".join(
        (preset.name, preset.family, preset.repository, *preset.aliases, *kinds)
    ).lower()


def _brief(encoding: Encoding) -> str:
    given = encoding.parameters
    if encoding.is_rotary:
        scaling = "" if given["scaling"] == "none" else f" {given['scaling']}"
        return f"rope {encoding.rotary_dim}, base {number(given['base'])}{scaling}"
    sizes = [given[name] for name in ("max_len", "seq_len", "heads", "dim") if name in given]
    return f"{encoding.scheme} {' × '.join(map(str, sizes))}"


_ROWS = 4096  #: Rows of a rotary table where no length is asked for
_KEYS = 512  #: Of a bias, which may have as many queries
_GRID = (16, 16)  #: Of one on a grid


def commands(model: ModelEncodings, given: str, length: int | None = None) -> list[str]:
    """The commands that make a model's tables: one for all rotary encodings, read again from what was `given`, and one
    for each other. Rotary tables end at the length, on which some scalings depend; without one, within the context."""
    rows, keys = (length or min(most, model.context or most) for most in (_ROWS, _KEYS))
    lines = []
    schemes = [encoding.scheme for encoding in model.encodings]
    for encoding in model.encodings:
        axes, style = encoding.grid.axes, encoding.grid.style
        if encoding.is_rotary and not style:
            lines += (
                [] if axes else [f"pecli rope {given} --seq-len {rows} -o rope.safetensors"]
            )  # else an image's
            continue
        with suppress(ParameterError):  # of a configuration that says too little
            if encoding.is_rotary:  # over a grid; else a table whose size the model says itself
                layout = "interleaved" if encoding.layout == "interleaved" else "halves"
                scheme: Scheme = encoding.rope(grid=_GRID, layout=layout)
            else:
                kind = scheme_named(
                    "learned-init" if encoding.scheme == "learned" else encoding.scheme
                )
                settings = {
                    **encoding.parameters,
                    **({"seq_len": keys} if "form" in encoding.parameters else {}),
                }
                scheme = kind(
                    **{key: value for key, value in settings.items() if key in kind.parameters()}
                )
            alone = not encoding.layer_type or (schemes.count(encoding.scheme) == 1 and not style)
            file = scheme.name if alone else f"{scheme.name}-{encoding.layer_type}"
            words = [*options(scheme), "-o", f"{file}.{'safetensors' if style else 'npy'}"]
            lines.append(shlex.join(["pecli", scheme.name, *words]))
    return list(dict.fromkeys(lines))
