"""Explanations in plain English, and the command that makes a table again: the only place where edits become text."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pecli.engine.schemes.parameters import Flag
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.text import begun, spelled
from pecli.explain.edits import (
    Arithmetic,
    Channels,
    ColumnsWrong,
    Decimals,
    Dtype,
    Edit,
    Explanation,
    FixedPoint,
    Heads,
    Layout,
    Mask,
    Negated,
    Noise,
    Parameter,
    Recipe,
    Repeated,
    Rotation,
    Rows,
    RowShift,
    RowsWrong,
    Runtime,
    Scaled,
    Swapped,
    Transposed,
    Uninitialised,
)

MAX_LISTED = 8

_NAMES = {
    "dim": "rotary dimension",
    "attention_factor": "attention factor",
    "exponent_dim": "dimension in the exponent",
    "position_axis": "the axis of positions",
}
_ROWS = {
    "reversed": "rows are in reverse order",
    "wrapped": "positions wrap at row {at:,}",
    "padded": "the table starts after {at:,} rows of padding",
    "padded at the end": "the last {at:,} rows are padding",
    "shifted": "rows are shifted by {at:,}",
    "permuted": "rows are in another order",
    "constant": "all rows are at position {at:,}",
}
_ROTATIONS = {
    "none": "nothing is rotated: the values are those before",
    "no minus": "rotate_half has no minus: a·cos + b·sin, b·cos + a·sin",
    "two minuses": "the sign of the second channel is wrong: a·cos − b·sin, b·cos − a·sin",
    "in place": "the second channel of a pair is computed from the first one after its rotation",
    "first half": "only the first channel of each pair is rotated",
    "second half": "only the second channel of each pair is rotated",
    "first channels": "the first channels of a head are rotated, not the last",
    "last channels": "the last channels of a head are rotated, not the first",
}
_NEGATED = {
    "all": "the sign is flipped",
    "sin": "sin is negated (it rotates the other way)",
    "cos": "cos is negated",
    "first": "the first of the two functions is negated",
    "second": "the second of the two functions is negated",
}
_POSITIONS = {
    (False, "0, 1, 2, …"): "positions are 0, 1, 2, …, not those given",
    (True, "others"): "positions are not 0, 1, 2, …: give them with --positions",
}
_DIVISORS = {
    "reversed": "{0} is in reverse order",
    "multiplied": "frequencies are multiplied by {0}, not divided",
    "other": "{0} has other values",
}
_DEGREES = {
    180 / math.pi: "radians are taken for degrees twice over",
    math.pi / 180: "angles are in degrees, not radians",
}


def said(value: Any) -> str:
    """A value as people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return spelled(value) if not isinstance(value, str) else value
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10000 else str(value)
    short = f"{value:.7g}"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else short


def _parameter(edit: Parameter) -> str:
    name, expected, found = edit.name, edit.expected, edit.found
    spec = f"(the spec says {said(expected)})"
    if expected == found:  # in a table of another scaling
        return f"{_NAMES.get(name, name)} is {said(found)}, as the spec says"
    if name == "offset":
        return f"positions start at {found:,} (the spec says {expected:,})"
    if name == "scaling":
        if found == "none":
            return f"the {expected} scaling is missing"
        return f"the {expected} scaling is applied twice" if found.endswith("twice") else f"scaling is {found} {spec}"
    if name == "scale":
        if expected == 1 and found in _DEGREES:
            return _DEGREES[found]
        return f"positions are multiplied by {said(found)} {spec}"
    if name == "positions":
        return _POSITIONS.get((expected is None, found), "positions are not those given")
    if name == "axes of positions":
        return f"positions are those of the axes {found} {spec}"
    if name == "padding_idx":
        return "the row of padding_idx is not zeros" if found is None else f"the row of position {found} is zeros"
    if name == "divisors":
        return _DIVISORS.get(found, "{1} is used where {0} belongs").format(expected, found)
    if name == "exponent_dim":
        return f"the exponent is over {said(found)} {spec}"
    return f"{_NAMES.get(name, name)} is {said(found)}" + (f" {spec}" if expected is not None else "")


def _places(name: str, which: tuple[int, ...]) -> str:
    few = begun([str(place) for place in which], MAX_LISTED)
    return f"only {name} {few} differs" if len(which) == 1 else f"only {name}s {few} differ"


def _order(name: str, order: str | tuple[int, ...]) -> str:
    if order == "reversed":
        return f"{name}s are in reverse order"
    if isinstance(order, str):
        return f"{name}s are {order}"
    return f"{name}s are in another order ({begun([str(each) for each in order], MAX_LISTED)})"


def _runtime(edit: Runtime) -> str:
    *most, last = (edit.found, *edit.also)
    names = f"{', '.join(most)} and {last} compute it" if most else f"{last} computes it"
    return "; ".join((f"as {names}", *edit.causes))


def _arithmetic(edit: Arithmetic) -> str:
    *most, last = edit.which
    what = f"{', '.join(most)} and {last}" if most else last
    words = f"computed in {edit.dtype}" if len(most) == 2 else f"{what} are rounded to {edit.dtype}"
    if not edit.pairs:
        return words
    count = len(edit.pairs)
    where = (
        f"pair{'s' * (count > 1)} {', '.join(map(str, edit.pairs))}"
        if count <= MAX_LISTED
        else f"at least {count} pairs"
    )
    return f"{words} (inv_freq is off by {'up to ' if edit.ulp > 1 else ''}{edit.ulp} ulp in {where})"


_WORDS: Mapping[type[Edit], Callable[[Any], str]] = {
    Parameter: _parameter,
    Layout: lambda edit: f"layout is {edit.found} (the spec says {edit.expected})",
    Swapped: lambda edit: "sin and cos are swapped",
    Negated: lambda edit: _NEGATED[edit.which],
    Scaled: lambda edit: f"values are scaled by {said(edit.by)}",
    Transposed: lambda edit: "the table is transposed",
    Repeated: lambda edit: f"repeated {edit.times}× along axis {edit.axis}",
    Rotation: lambda edit: _ROTATIONS[edit.found],
    Rows: lambda edit: _ROWS[edit.order].format(at=edit.at or 0),
    Channels: lambda edit: _order("channel", edit.order),
    Heads: lambda edit: _order("head", edit.order),
    Mask: lambda edit: f"masked otherwise: {edit.found}",
    RowShift: lambda edit: "a constant is added to each row, which softmax ignores",
    Dtype: lambda edit: f"rounded to {edit.found}",
    Decimals: lambda edit: f"rounded to {edit.digits} decimals",
    FixedPoint: lambda edit: "rounded to integers" if edit.step == 1 else f"rounded to steps of {edit.step:.4g}",
    Noise: lambda edit: f"noise of {edit.size:g}",
    Recipe: lambda edit: f"computed by the recipe {edit.found}",
    Arithmetic: _arithmetic,
    Runtime: _runtime,
    RowsWrong: lambda edit: _places("row", edit.which),
    ColumnsWrong: lambda edit: _places("column", edit.which),
    Uninitialised: lambda edit: "inv_freq was never initialised",
}


def clause(edit: Edit) -> str:
    """One edit in words."""
    return _WORDS[type(edit)](edit)


def clauses(explanation: Explanation) -> str:
    """The edits of an explanation in words, the mistakes first."""
    parts = [clause(edit) for edit in explanation.mistakes]
    if explanation.scheme is not None and explanation.scheme.applied_as != "rotation":
        parts = [part.replace(_NAMES["dim"], "dim") for part in parts]
    kept = [clause(edit) for edit in explanation.edits if edit.storage]
    return ", and ".join(parts) + ("; " if parts and kept else "") + ", ".join(kept)


def sentence(explanation: Explanation) -> str:
    """An explanation in one line: the tensors, what is different, and what that leaves.

    >>> sentence(Explanation((Parameter("base", 500000.0, 10000.0),), None, 3e-8, 1e-8, ("cos", "sin")))
    'cos, sin: base is 10000 (the spec says 500000); max residual 3e-08'
    """
    left = f"; max residual {explanation.residual:.2g}" if math.isfinite(explanation.residual) else ""
    if explanation.residual == 0:
        left = "; exact"
    return f"{', '.join(explanation.tensors)}: {clauses(explanation)}{left}"


def comparison(explanation: Explanation) -> str:
    """The same of two tables, neither of which is a spec.

    >>> comparison(Explanation((Negated("all"),), None, 0.0, 0.0, ("pe",)))
    'pe: in B, the sign is flipped; exact'
    """
    names, _, words = sentence(explanation).partition(": ")
    return f"{names}: in B, {words.replace('(the spec says', '(in A')}"


_NO_OPTION = (
    Arithmetic, Channels, ColumnsWrong, Heads, Mask, Negated, Repeated, Rows, RowShift, RowsWrong, Scaled, Swapped,
    Transposed, Uninitialised,
)  # fmt: skip
"""Edits that no option makes; --cos-first apart."""


def lacking(edits: Iterable[Edit], scheme: Any) -> tuple[Edit, ...]:
    """Which of the edits the command that makes a scheme does not make."""

    def lacks(edit: Edit) -> bool:
        if isinstance(edit, Layout):
            return edit.found not in (getattr(scheme, "layout", ""), "stacked", "cos alone", "sin alone")
        if isinstance(edit, Swapped):
            return not hasattr(scheme, "cos_first")
        if isinstance(edit, Parameter) and edit.name == "attention_factor":
            return bool(scheme.attention_factor_value() != edit.found)
        if isinstance(edit, Parameter) and edit.name == "position_axis":
            return True
        return isinstance(edit, _NO_OPTION)

    return tuple(edit for edit in edits if lacks(edit))


MAX_COMMAND = 2000
"""Letters of a command that somebody may want to copy; a list of all positions is longer."""


def reproduction(explanation: Explanation) -> Iterator[str]:
    """The command that makes the table, as a sentence; what it does not make is said; nothing where that is all."""
    scheme, mistakes = explanation.scheme, explanation.mistakes
    without = lacking(explanation.edits, scheme) if scheme is not None else ()
    if scheme is None or not {*mistakes} - {*without} or len(command := command_of(scheme, output=False)) > MAX_COMMAND:
        return
    if without:
        yield f"without this ({', '.join(map(clause, without))}), {command} makes it"
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
