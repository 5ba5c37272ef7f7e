"""The tensors that an encoding is applied to: opened, chosen, named, and of a shape that it can work on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pecli.engine.arrays import SIGNIFICAND_BITS, Array
from pecli.engine.schemes import Parameter
from pecli.engine.table import Table
from pecli.errors import FileError, KindError, ParameterError, listed, nearest, quoted
from pecli.files.load import LoadedFile, load_file, open_tensors, split_name
from pecli.files.npy import ARRAY_NAME
from pecli.files.provenance import KEY

FLOATS = (*SIGNIFICAND_BITS, "float8_e4m3fn", "float8_e5m2")
"""What encodings are applied to; the last two lie in .safetensors files alone."""
MAX_LISTED = 8
"""Tensors that an error names."""


@dataclass(frozen=True)
class Input:
    """A tensor, under the name that it has in the output; `label` is what errors call it."""

    table: Table
    label: str
    unnamed: bool = False
    """Whether the file has no name for it: one array in a .npy."""

    def wrong(self, rule: str, advice: str = "") -> ParameterError:
        """The error of a tensor whose shape breaks a rule."""
        return ParameterError(self.label, f"of shape {self.table.shape}", rule, advice)


@dataclass(frozen=True)
class Inputs:
    """All that a command works on, and the texts that came with it."""

    tensors: tuple[Input, ...]
    metadata: dict[str, str]


def open_inputs(files: Sequence[str], chosen: Sequence[str], held: ExitStack) -> Inputs:
    """Open files (or FILE:NAME), keep the tensors of the chosen names, or all; `held` closes the files in the end.

    The array of a .npy takes the file's name. What a file says about its origin is not true of the result any more.
    """
    found: list[Input] = []
    metadata: dict[str, str] = {}
    opened: list[LoadedFile] = []
    for text in files:
        path, name = split_name(text)
        loaded = held.enter_context(load_file(path))
        opened.append(loaded)
        inputs = [_input(loaded, table) for table in loaded.tables]
        found += inputs if name is None else _named([name], inputs, path)
        for key, value in loaded.metadata.items():
            metadata.setdefault(key, value)
    metadata.pop(KEY, None)
    if chosen:
        found = _named(chosen, found, ", ".join(files))
    if not found:
        raise ParameterError("FILE", ", ".join(files), "there is no tensor in it")
    _check_names(found)
    for loaded in opened:
        loaded.check(each.table for each in found)
    return Inputs(tuple(found), metadata)


def open_file(text: str) -> LoadedFile:
    """Open `FILE`, or one tensor of it with `FILE:NAME`."""
    path, name = split_name(text)
    loaded = load_file(path)
    if name is None and loaded.unread:
        loaded.close()
        first = loaded.unread[0]
        problem = f"tensor {quoted(first.name)} is stored as {first.dtype}, which is not read"
        raise FileError(path, problem, "name a tensor: FILE:NAME")
    if name is None:
        return loaded
    try:
        inputs = [Input(table, table.name, unnamed=loaded.format == "npy") for table in loaded.tables]
        chosen = {each.table.name: loaded.tensors[each.table.name] for each in _named([name], inputs, path)}
    except ParameterError:
        loaded.close()
        raise
    return replace(loaded, tensors=chosen)


def _named(names: Sequence[str], inputs: Sequence[Input], files: str) -> list[Input]:
    """The inputs of those names, in the order of the files; every name has to be there."""
    known = {each.table.name for each in inputs} | {ARRAY_NAME for each in inputs if each.unnamed}
    for name in names:
        if name not in known:
            rule = f"{files} has {_listed([each.table for each in inputs])}"
            raise ParameterError("the tensor", repr(name), rule, nearest(name, known))
    return [each for each in inputs if each.table.name in names or (each.unnamed and ARRAY_NAME in names)]


def _input(loaded: LoadedFile, table: Table) -> Input:
    if loaded.format != "npy":
        return Input(table, f"{table.name} of {loaded.path}")
    stem = os.path.splitext(os.path.basename(os.fsencode(loaded.path)))[0].decode("utf-8", "replace")
    known = loaded.path != "standard input"
    return Input(replace(table, name=stem) if known and stem else table, f"the array of {loaded.path}", unnamed=True)


def _check_names(found: Sequence[Input]) -> None:
    labels: dict[str, str] = {}
    for each in found:
        name = each.table.name
        if name in labels:
            rule = f"{labels[name]} has the same name, and a file holds one tensor of a name"
            raise ParameterError(each.label, "given too", rule, "apply to one after the other")
        labels[name] = each.label


def check_alone(name: str, file: str, tables: Sequence[Table]) -> None:
    """Refuse a file, given for a parameter, that has not one tensor but none or several."""
    if len(tables) != 1:
        raise ParameterError(name, file, f"it has {_listed(tables)}", "name one, as FILE:NAME")


def _listed(tables: Sequence[Table]) -> str:
    """The tensors there are, with their shapes."""
    return listed([f"{table.name} {table.shape}" for table in tables], MAX_LISTED) or "no tensors"


def check_floating(each: Input) -> None:
    """Refuse numbers that nothing can be added to without changing their kind."""
    if each.table.dtype not in FLOATS:
        given = f"of shape {each.table.shape} and dtype {each.table.dtype}"
        raise KindError(each.label, given, f"it must be {', '.join(FLOATS[:-1])} or {FLOATS[-1]}")


SEQ_AXIS = -2
"""The axis of positions in (…, L, D)."""


def check_sequence(each: Input, seq_axis: int = SEQ_AXIS) -> tuple[int, int]:
    """L and D of a floating tensor (…, L, D), or with L on another axis."""
    check_floating(each)
    shape = each.table.shape
    if len(shape) < 2:
        raise each.wrong("it must be (…, L, D)", "positions are the axis before the last")
    if not -len(shape) <= seq_axis < len(shape) - 1 or seq_axis == -1:
        rule = f"{each.label} is of shape {shape}, whose positions are on one of the axes 0 … {len(shape) - 2}"
        raise ParameterError("seq_axis", seq_axis, rule)
    return shape[seq_axis], shape[-1]


def check_dim(each: Input, rule: Parameter, advice: str = "") -> None:
    """Refuse a tensor (…, L, D) whose D breaks the rule of a scheme's dim."""
    try:
        rule.check("D", each.table.shape[-1])
    except ParameterError as problem:
        raise each.wrong(f"D, the last axis, {problem.rule.removeprefix('it ')}", advice) from None


VECTORS = ("positions",)
"""Parameters that are vectors, which a text file may hold with one number per line."""


def read_numbers(name: str, text: str) -> Array:
    """The one array of a file that is given for a parameter; float64 where the file has no dtype of its own."""
    with open_tensors(text) as loaded:
        check_alone(name, text, loaded.tables)
        loaded.check()
        array = loaded.read_as("float64").tables[0].array()
        is_column = name in VECTORS and loaded.format == "csv" and array.shape[1:] == (1,)
        return array[:, 0] if is_column else array
