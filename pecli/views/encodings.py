"""Encodings of models as tables: values beside their sources, differences between models, presets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import singledispatch
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.compare.tolerance import FREQ_RTOL
from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, counted, number
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagReport, ParameterChange
from pecli.models.presets import Preset
from pecli.views import screen
from pecli.views.model_tables import table_scheme
from pecli.views.screen import Styled
from pecli.views.text_table import print_table

FIRST_SHOWN = 2
LAST_SHOWN = 1
"""Numbers that are shown from the beginning and from the end of a long list."""


class Row(NamedTuple):
    """A value of an encoding, and the config key or rule that it comes from."""

    name: str
    value: str
    source: str = ""


def show(model: ModelEncodings, seq_len: int | None = None, *, first: bool = True) -> None:
    """Print a line for the model, a table per encoding, and a line per warning.

    Args:
        model: The model.
        seq_len: The context length at which scalings that depend on it are resolved.
        first: False if another model was printed before: an empty line separates them.
    """
    if not first:
        screen.print_line()
    screen.print_styled(Styled(_heading(model), "bold"))
    for encoding in model.encodings:
        head = f"{encoding.layer_type or 'all layers'}: {encoding.scheme}"
        print_table((head, "value", "source"), rows_of(encoding, seq_len), indent="  ")
    if model.flags is not None:
        _show_flags(model.flags)
    for warning in model.warnings:
        screen.print_labelled("warning", "bold yellow", f"  {warning}")
    for note in model.notes:
        screen.print_labelled("note", "bold", f"  {note}")


def _heading(model: ModelEncodings) -> str:
    """Return «gemma-3-1b  gemma3_text  2 encodings»."""
    count = len(model.encodings)
    how_many = counted(count, "encoding") if count else "no encodings"
    return f"{model.file}  {model.model_type or 'no model_type'}  {how_many}"


def _show_flags(report: FlagReport) -> None:
    """Print what the flags of a server (vLLM, say) change in a model's encodings, and notes on them."""
    heading = f"flags of {report.server} {report.version}"
    if report.changes:
        screen.print_heading(heading)
        heads = ("", "model", "with the flags", "source")
        print_table(heads, list(map(_row_of_change, report.changes)), indent="  ")
    else:
        screen.print_heading(f"{heading}: nothing changes")
    for note in report.notes:
        screen.print_wrapped(f"  {note}")


def _row_of_change(change: ParameterChange) -> tuple[str, str, str, str]:
    name = _of_layers(change.layer_type, change.name)
    return name, cell(change.before), cell(change.after), change.source


def _of_layers(layer_type: str, name: str) -> str:
    """Return the name of a value with the type of its layers, if the model has several types.

    >>> _of_layers("sliding", "base"), _of_layers("", "base")
    ('sliding.base', 'base')
    """
    return f"{layer_type}.{name}".removeprefix(".")


def rows_of(encoding: Encoding, seq_len: int | None) -> list[Row]:
    """Return the parameters of an encoding, and what follows from them, one row per name."""
    by_name: dict[str, Row] = {}
    for name, value in encoding.described().items():
        by_name[name] = _row_with_source(encoding, name, cell(value))
    if encoding.is_rotary:
        for row in _rotary_rows(encoding, seq_len):
            # A parameter has precedence over what is computed from it.
            by_name.setdefault(row.name, row)
    return list(by_name.values())


def _rotary_rows(encoding: Encoding, seq_len: int | None) -> list[Row]:
    """Return the rows that only rotary encodings have: their dimensions, and what they rotate by.

    Args:
        encoding: A rotary encoding.
        seq_len: The context length at which dynamic scalings are resolved; frequencies and the
            attention factor then have it as their source.
    """
    rows: list[Row] = []
    if encoding.head_dim is not None:
        rows.append(_row_with_source(encoding, "head_dim", cell(encoding.head_dim)))
    channels = "the last channels of a head" if encoding.trailing else ""
    rows.append(Row("rotary_dim", cell(encoding.rotary_dim), channels))
    rows.append(_row_with_source(encoding, "layout", encoding.layout or ""))

    factor = cell(encoding.attention_factor(seq_len))
    frequencies = encoding.inverse_frequencies(seq_len) or []
    if seq_len is None:
        rows.append(Row("attention_factor", factor, "multiplies cos and sin"))
        rows.append(Row("inv_freq", _ends(frequencies), f"{len(frequencies)} values"))
    else:
        rows.append(Row("attention_factor", factor, f"at length {seq_len}"))
        rows.append(Row("inv_freq", _ends(frequencies), f"at length {seq_len}"))
    return rows


def _row_with_source(encoding: Encoding, name: str, text: str) -> Row:
    """Return a value with the config key that it comes from, if it comes from one."""
    return Row(name, text, encoding.sources.get(name, ""))


@singledispatch
def cell(value: object) -> str:
    """Format a value of a configuration briefly.

    >>> cell(True), cell(500000.0), cell([1.0, 2.0, 3.0, 4.0, 5.0])
    ('true', '500000', '1 2 … 5')
    """
    return str(value)


@cell.register(bool)
@cell.register(type(None))
def _(value: bool | None) -> str:
    """Return «true», «false» or «none»."""
    return str(value).lower()


@cell.register
def _(value: float) -> str:
    return f"{value:.10g}"


@cell.register(list)
@cell.register(tuple)
def _(value: Sequence[float]) -> str:
    return _ends(value)


def _ends(values: Sequence[float]) -> str:
    """Return the first two numbers and the last: «1 0.8660254 … 1.33e-05»."""
    texts = [number(value, 6) for value in values]
    if len(texts) > FIRST_SHOWN + LAST_SHOWN:
        texts[FIRST_SHOWN:-LAST_SHOWN] = ["…"]
    return " ".join(texts)


def show_differences(models: Sequence[ModelEncodings], seq_len: int | None) -> None:
    """Print the values that are not the same in all models, side by side."""
    rows: list[list[str]] = []
    for name, values in _side_by_side(models, seq_len).items():
        if len(set(values)) > 1:
            rows.append([name, *values])
    if not rows:
        screen.print_heading("no differences", "bold")
        return
    title = "differences"
    if _rotate_alike(models, seq_len):
        title += "; frequencies and attention factors are the same"
    screen.print_heading(title, "bold")
    print_table(["", *(model.file for model in models)], rows, indent="  ")


def _side_by_side(models: Sequence[ModelEncodings], seq_len: int | None) -> dict[str, list[str]]:
    """Return the values of all models by name, such as `base`: one per model, «–» for a missing one.

    Two models of base 10000 and 500000, the second with a scaling:
    {"base": ["10000", "500000"], "scaling": ["–", "llama3"]}.
    """
    no_values = ["–"] * len(models)
    values_by_name: dict[str, list[str]] = {}
    for index, model in enumerate(models):
        for row in _rows_of_model(model, seq_len):
            values = values_by_name.setdefault(row.name, list(no_values))
            values[index] = row.value
    return values_by_name


def _rows_of_model(model: ModelEncodings, seq_len: int | None) -> Iterator[Row]:
    """Yield the values of all encodings of a model, with their layer types: `sliding.base`."""
    for encoding in model.encodings:
        scheme = Row("scheme", encoding.scheme)
        for row in [scheme, *rows_of(encoding, seq_len)]:
            yield row._replace(name=_of_layers(encoding.layer_type, row.name))


def _rotate_alike(models: Sequence[ModelEncodings], seq_len: int | None) -> bool:
    """Return True if all models rotate by the same numbers, although their configurations differ.

    They are compared at `seq_len`, or else within and beyond their contexts.
    """
    lengths = [seq_len]
    if seq_len is None:
        # Dynamic scaling starts to differ beyond the context: twice the longest one is enough.
        lengths.append(2 * max(model.context or 1 for model in models))
    first, *others = [_rotation(model, lengths) for model in models]
    return bool(first) and all(_is_close(first, other) for other in others)


def _is_close(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return True if two models have as many frequencies, and nearly the same ones."""
    return len(first) == len(second) and np.allclose(second, first, rtol=FREQ_RTOL, atol=0)


def _rotation(model: ModelEncodings, lengths: Sequence[int | None]) -> list[float]:
    """Return the attention factors and frequencies of a model at some context lengths."""
    numbers: list[float] = []
    for encoding in model:
        if encoding.is_rotary:
            for length in lengths:
                rope = encoding.frequency_rope(length)
                numbers.append(rope.attention_factor_value())
                numbers.extend(rope.frequencies().floats())
    return numbers


def show_presets(presets: Sequence[tuple[Preset, ModelEncodings]]) -> None:
    """Print a line per preset; a terminal shows a table per family."""
    if not screen.is_terminal():
        rows_of_families = _rows_by_family(presets).values()
        print_table(["name", "context", "encodings"], list(chain(*rows_of_families)))
        return
    for family, rows in _rows_by_family(presets).items():
        print_table([family, "context", "encodings"], rows)
    screen.print_line("aliases, repositories and sources: pecli models --json")


def _rows_by_family(
    presets: Sequence[tuple[Preset, ModelEncodings]],
) -> dict[str, list[list[str]]]:
    """Return a row per preset, by its family: its name, its context and its encodings in brief."""
    families: dict[str, list[list[str]]] = {}
    for preset, model in presets:
        schemes = "; ".join(_distinct_encodings(model)) or "none that pecli makes"
        context = f"{model.context:,}" if model.context else ""
        families.setdefault(preset.family, []).append([preset.name, context, schemes])
    return families


def searched_text(preset: Preset, model: ModelEncodings) -> str:
    """Return the text in which `pecli models` searches its words."""
    names = (preset.name, preset.family, preset.repository, *preset.aliases)
    encodings = map(_in_brief, model.encodings)
    return " ".join((*names, *encodings)).lower()


def _distinct_encodings(model: ModelEncodings) -> list[str]:
    return list(dict.fromkeys(map(_in_brief, model.encodings)))


def _in_brief(encoding: Encoding) -> str:
    """Return an encoding in a few words: «rope 128, base 500000 llama3», «learned 1024 × 768»."""
    parameters = encoding.parameters
    if encoding.is_rotary:
        words = f"rope {encoding.rotary_dim}, base {number(parameters['base'])}"
        if parameters["scaling"] == "none":
            return words
        return f"{words} {parameters['scaling']}"
    size_names = [name for name in ("max_len", "seq_len", "heads", "dim") if name in parameters]
    sizes = " × ".join(str(parameters[name]) for name in size_names)
    return f"{encoding.scheme} {sizes}"


DEFAULT_ROWS = 4096
"""Rows of a rotary table if no length is given."""
DEFAULT_KEYS = 512
"""Keys of a bias if no length is given: a bias may have as many queries, so its size is the square."""
DEFAULT_GRID = (16, 16)
"""Grid of a rotary table over an image, whose size a configuration does not define."""


def commands(model: ModelEncodings, model_option: str, length: int | None = None) -> list[str]:
    """Return the `pecli` commands that make a model's tables, for users to copy.

    One command makes all rotary tables over text: `pecli rope --model llama-3.1-8b --seq-len 4096
    -o rope.safetensors`. Every other table, such as a bias, has a command of its own. There is none
    for a table whose positions depend on an image.

    Args:
        model: The model.
        model_option: The option that names it, such as `--model llama-3.1-8b`.
        length: The length of rotary tables and biases. By default they end with the context.
    """
    table_rows = length or _default_length(model, DEFAULT_ROWS)
    bias_keys = length or _default_length(model, DEFAULT_KEYS)
    lines: list[str] = []
    for encoding in model.encodings:
        if not encoding.is_rotary:
            # A configuration may lack a parameter of the table, which then has no command.
            with suppress(ParameterError):
                scheme = table_scheme(encoding, bias_keys)
                lines.append(_table_command(model, encoding, scheme, "npy"))
        elif encoding.grid.style:
            with suppress(ParameterError):
                scheme = _grid_rope(encoding)
                lines.append(_table_command(model, encoding, scheme, "safetensors"))
        elif not encoding.grid.axes:  # With axes, each image defines its own positions.
            lines.append(_rope_command(model, encoding, model_option, table_rows))
    return list(dict.fromkeys(lines))  # one rope command makes the tables of all layer types


def _default_length(model: ModelEncodings, max_length: int) -> int:
    """Return the length of a table if none is given: the model's context, but at most `max_length`."""
    return min(max_length, model.context or max_length)


def _rope_command(model: ModelEncodings, encoding: Encoding, model_option: str, rows: int) -> str:
    """Return the command that makes the rotary tables of a model over text.

    No option of `pecli rope` names server flags. With flags, the parameters are spelled out.
    """
    words = f"{model_option} --seq-len {rows}"
    if model.flags is not None:
        words = shlex.join(options(encoding.rope(rows)))
    return f"pecli rope {words} -o rope.safetensors"


def _table_command(model: ModelEncodings, encoding: Encoding, scheme: Scheme, suffix: str) -> str:
    """Return the command that makes one table from its parameters.

    The file has the scheme's name, and the layer type if the model has several such tables:
    `pecli alibi --heads 8 … -o alibi.npy`.
    """
    name = scheme.name
    if not _has_distinct_scheme(model, encoding):
        name += f"-{encoding.layer_type}"
    return shlex.join(["pecli", scheme.name, *options(scheme), "-o", f"{name}.{suffix}"])


def _has_distinct_scheme(model: ModelEncodings, encoding: Encoding) -> bool:
    """Return True if the scheme's name distinguishes the table's file from those of other layers."""
    if not encoding.layer_type:
        return True
    schemes = [other.scheme for other in model.encodings]
    return schemes.count(encoding.scheme) == 1 and not encoding.is_rotary


def _grid_rope(encoding: Encoding) -> Scheme:
    """Return the rotary table of an image; layouts that only weights have become halves."""
    layout = "interleaved" if encoding.layout == "interleaved" else "halves"
    return encoding.rope(grid=DEFAULT_GRID, layout=layout)
