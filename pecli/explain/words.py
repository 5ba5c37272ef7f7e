"""Explanations in plain English, and the command that makes a table again: the only place where edits become text."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pecli.engine.schemes import Flag
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import begun, number, spelled
from pecli.explain.edits import Edit, Explanation, Layout, Parameter, Recipe, Rotation, Runtime, Swapped

MAX_LISTED = 8

_NAMES = {
    "dim": "rotary dimension",
    "attention_factor": "attention factor",
    "exponent_dim": "dimension in the exponent",
    "position_axis": "the axis of positions",
}
_SPEC = "(the spec says {expected})"
_PARAMETERS: Mapping[Any, str] = {
    "scale": f"positions are multiplied by {{found}} {_SPEC}",
    ("scale", 1, 180 / math.pi): "angles are converted to degrees, and taken for radians",
    ("scale", 1, math.pi / 180): "angles are in degrees, not radians",
    ("scaling", "none"): "the {expected} scaling is missing",
    "positions": "positions are not those given",
    ("positions", "0, 1, 2, …"): "positions are 0, 1, 2, …, not those given",
    ("positions", "those of the grid", "others"): "positions are not those of the grid",
    ("positions", None, "others"): "positions are not 0, 1, 2, …: give them with --positions",
    "axes of positions": f"positions are those of the axes {{found}} {_SPEC}",
    ("mrope_interleaved", False): "M-RoPE sections are blocked, where the model interleaves them",
    ("mrope_interleaved", True): "M-RoPE sections are interleaved, where the model has them one after the other",
    "padding_idx": "the row of position {found} is zeros",
    ("padding_idx", None): "the row of padding_idx is not zeros",
    "divisors": "{found} is used where {expected} belongs",
    ("divisors", "reversed"): "{expected} is in reverse order",
    ("divisors", "multiplied"): "frequencies are multiplied by {expected}, not divided",
    ("divisors", "other"): "{expected} has other values",
    "inv_freq": "inv_freq holds {found}, not {expected}",
    "exponent_dim": f"frequencies are over {{found}} channels {_SPEC}",
    ("exponent_dim", "same"): "frequencies are over {expected} channels, as the spec says",
    ("scheme", "sinusoidal"): "this is a sinusoidal table, not the cosines and sines of a rotary one",
    "slopes": "slopes are rounded to {found} before they are multiplied",
    "distance": "distances are off by one: {found}, not {expected}",
}
"""Of a parameter, one value of it, or one for another: the narrowest counts."""


def said(value: Any) -> str:
    """A value as people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else spelled(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10000 else str(value)
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.7g}"


def _parameter(edit: Parameter) -> str:
    name, expected, found = edit.name, edit.expected, edit.found
    if name == "offset" and expected != found:
        return f"positions start at {found:,} (the spec says {expected:,})"
    if name.startswith("positions along"):
        return f"{name} are off by {said(found)}"
    keys = ((name, expected, found), (name, found), name)
    words = next((_PARAMETERS[key] for key in keys if key in _PARAMETERS), "{name} is {found} " + _SPEC)
    if expected is None and name not in _PARAMETERS:
        words = "{name} is {found}"
    if expected == found:  # in a table of another scaling
        words = "{name} is {found}, as the spec says"
    elif found == f"{expected}, applied twice":
        words = "the {expected} scaling is applied twice"
    elif name == "attention_factor" and math.isclose(found, (expected or 1.0) ** 2, rel_tol=1e-6):
        words = "the attention factor is applied twice: {found}, not {expected}"
    return words.format(name=_NAMES.get(name, name), expected=said(expected), found=said(found))


def _places(name: str, which: Sequence[Any]) -> str:
    """Which rows, columns, heads or elements, runs of more than two as «29–34»."""
    few = begun(_runs(which), MAX_LISTED)
    return f"only {name} {few} differs" if len(which) == 1 else f"only {name}s {few} differ"


def _runs(which: Sequence[Any]) -> list[str]:
    if not all(isinstance(place, int) for place in which):
        return [", ".join(map(str, place)) if len(place) == 1 else str(list(place)) for place in which]
    runs: list[list[int]] = []
    for place in which:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    spelt = [[f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(place) for place in run] for run in runs]
    return [word for words in spelt for word in words]


def _order(name: str, order: str | tuple[int, ...]) -> str:
    if order == "reversed":
        return f"{name}s are in reverse order"
    if isinstance(order, str):
        return f"{name}s are {order}"
    return f"{name}s are in another order ({begun([str(each) for each in order], MAX_LISTED)})"


def _runtime(edit: Runtime) -> str:
    names = (edit.found, *edit.also)
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return "; ".join((f"as {listed} {'compute' if edit.also else 'computes'} it", *edit.causes))


_WORDS: Mapping[str, str | Mapping[str, str] | Callable[[Any], str]] = {
    "parameter": _parameter,
    "layout": f"layout is {{found}} {_SPEC}",
    "swapped": "sin and cos are swapped",
    "negated": {
        "all": "the sign is flipped",
        "sin": "sin is negated (it rotates the other way)",
        "cos": "cos is negated",
        "first": "the first function of each pair is negated",
        "second": "the second function of each pair is negated",
    },
    "scaled": lambda edit: f"values are scaled by {said(edit.by)}",
    "transposed": "the table is transposed",
    "repeated": "repeated {times}× along axis {axis}",
    "rotation": {
        "none": "nothing is rotated: the values are those before",
        "no minus": "rotate_half has no minus: a·cos + b·sin, b·cos + a·sin",
        "two minuses": "the sign of the second channel is wrong: a·cos − b·sin, b·cos − a·sin",
        "in place": "the second channel of a pair is computed from the first one after its rotation",
        "first half": "only the first channel of each pair is rotated",
        "second half": "only the second channel of each pair is rotated",
        "in bfloat16": "rotated in bfloat16, which rounds the tables, each product and each sum",
        "in float16": "rotated in float16, which rounds the tables, each product and each sum",
        "first channels": "the first channels of a head are rotated, not the last",
        "last channels": "the last channels of a head are rotated, not the first",
    },
    "positions": lambda edit: (
        f"positions are {edit.found}; expected {edit.expected}" + f": {edit.reason}" * bool(edit.reason)
    ),
    "rows": {
        "reversed": "rows are in reverse order",
        "wrapped": "positions wrap at row {at:,}",
        "padded": "the table starts after {at:,} rows of padding",
        "padded at the end": "the last {at:,} rows are padding",
        "cut": "truncated to the first {at:,} rows",
        "shifted": "rows are shifted by {at:,}",
        "permuted": "rows are in another order",
        "constant": "all rows are at position {at:,}",
    },
    "channels": lambda edit: _order("channel", edit.order),
    "heads": lambda edit: _order("head", edit.order),
    "mask": "mask differs: {found}",
    "row_shift": "a constant is added to each row, which softmax ignores",
    "dtype": "rounded to {found}",
    "decimals": "rounded to {digits} decimals",
    "fixed_point": lambda edit: "rounded to integers" if edit.step == 1 else f"rounded to steps of {edit.step:.4g}",
    "noise": "noise of {size:g}",
    "recipe": "computed by the recipe {found}",
    "runtime": _runtime,
    "rows_wrong": lambda edit: _places("row", edit.which),
    "columns_wrong": lambda edit: _places("column", edit.which),
    "elements_wrong": lambda edit: _places("element", edit.which),
    "heads_wrong": lambda edit: _places("head", edit.which),
    "row_range": "only in rows {first:,} to {last:,}",
    "bits": lambda edit: f"values are {'byte-swapped' if edit.found == 'swapped' else f'the bits of {edit.found}'}",
    "incomplete": {
        "halves": "columns are not doubled: the second half is zeros",
        "interleaved": "columns are not doubled: every other one is zeros",
        "angles": "values are the angles, position × inv_freq, and not their cosines or sines",
    },
    "uninitialised": "inv_freq was never initialised",
}
"""Of every kind of edit, with its fields; by its first field, where it is one of a few words."""


def clause(edit: Edit) -> str:
    """One edit in words."""
    words, fields = _WORDS[edit.kind], vars(edit)
    if isinstance(words, Mapping):
        words = words[next(iter(fields.values()))]
    return words.format(**fields) if isinstance(words, str) else words(edit)


def sentence(explanation: Explanation) -> str:
    """An explanation in one line: the tensors, the mistakes, how values were stored, and the residual.

    >>> sentence(Explanation((Parameter("base", 500000.0, 10000.0),), None, ("cos", "sin"), residual=3e-8))
    'cos, sin: base is 10000 (the spec says 500000); explains every element (to 3e-8)'
    """
    parts = ", and ".join(map(clause, explanation.mistakes))
    if explanation.scheme is not None and explanation.scheme.applied_as != "rotation":
        parts = parts.replace(_NAMES["dim"], "dim")
    named = any(isinstance(edit, Runtime) for edit in explanation.edits)  # whose recipe goes without saying
    storage = ", ".join(
        clause(edit) for edit in explanation.edits if edit.storage and not (named and isinstance(edit, Recipe))
    )
    residual = f"explains every element (to {number(explanation.residual, 2)})"
    residual = "" if not math.isfinite(explanation.residual) else residual if explanation.residual else "exact"
    return f"{', '.join(explanation.tensors)}: {'; '.join(filter(None, (parts, storage, residual)))}"


def comparison(explanation: Explanation) -> str:
    """The same of two tables, neither of which is a spec.

    >>> comparison(Explanation((Swapped(),), None, ("pe",)))
    'pe: in B, sin and cos are swapped; exact'
    """
    names, _, words = sentence(explanation).partition(": ")
    return f"{names}: in B, {words.replace('(the spec says', '(in A')}"


def lacking(edits: Iterable[Edit], scheme: Any) -> tuple[Edit, ...]:
    """Which of the edits the command that makes a scheme does not make: all but those that an option is for."""

    def lacks(edit: Edit) -> bool:
        if isinstance(edit, Layout):
            return edit.found not in (getattr(scheme, "layout", ""), "stacked", "cos alone", "sin alone")
        if isinstance(edit, Swapped):
            return not hasattr(scheme, "cos_first")
        if isinstance(edit, Parameter):
            factor = edit.name == "attention_factor" and scheme.attention_factor_value() != edit.found
            return bool(factor or edit.name in ("position_axis", "inv_freq", "distance", "scheme", "slopes"))
        return not (edit.storage or isinstance(edit, (Rotation, Runtime)))

    return tuple(edit for edit in edits if lacks(edit))


MAX_COMMAND = 2000  # letters of a command that somebody may want to copy; a list of all positions is longer


def reproduction(explanation: Explanation) -> Iterator[str]:
    """The command that makes the table, as a sentence; what it does not make is said; nothing where that is all."""
    scheme, mistakes = explanation.scheme, explanation.mistakes
    without = lacking(explanation.edits, scheme) if scheme is not None else ()
    if scheme is None or not {*mistakes} - {*without} or len(command := command_of(scheme, output=False)) > MAX_COMMAND:
        return
    if without:
        yield f"apart from that ({', '.join(map(clause, without))}), reproduce with {command}"
    else:
        yield f"reproduce with {command}"


def command_of(scheme: Scheme, tensors: int = 1, output: bool = True) -> str:
    """What to type to make the table again: a plain array in .npy, bfloat16 and several tensors in .safetensors."""
    single = scheme.dtype != "bfloat16" and scheme.single_array().name in [each.name for each in scheme.tensors()]
    file = ["-o", "again.npy" if single and tensors == 1 else "again.safetensors"] if output else []
    return shlex.join(["pecli", scheme.name, *options(scheme), *file])


def options(scheme: Scheme) -> Iterator[str]:
    """The options that ask for a scheme: those that count and differ from the defaults; each parses to its value."""
    for name, parameter in scheme.parameters().items():
        value, default = getattr(scheme, name), scheme.default_of(name)
        if value is None or name in scheme.inert_parameters or (value == default and type(value) is type(default)):
            continue
        long = parameter.aliases[0] if parameter.aliases else f"--{name.replace('_', '-')}"
        if type(parameter) is Flag:
            yield long if value else long.replace("--", "--no-", 1)
        else:
            yield from (long, spelled(value))
