"""Explanations, and the words for their edits, which are `pecli.engine.edits`.

An explanation is a few edits, a scheme where one was found, and the residual beside the noise that was measured.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pecli.engine.arrays import AnyArray
from pecli.engine.edits import (
    Bits,
    Channels,
    ColumnsWrong,
    Decimals,
    Dtype,
    Edit,
    ElementsWrong,
    FixedPoint,
    Heads,
    HeadsWrong,
    Incomplete,
    Layout,
    Mask,
    Negated,
    Noise,
    Parameter,
    Positions,
    Recipe,
    Repeated,
    Rotation,
    RoundingMode,
    RowRange,
    Rows,
    RowShift,
    RowsWrong,
    Runtime,
    Scaled,
    Swapped,
    Transposed,
    Uninitialised,
)
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import spelled

__all__ = [
    "NAMES",
    "Bits",
    "Channels",
    "ColumnsWrong",
    "Decimals",
    "Dtype",
    "Edit",
    "ElementsWrong",
    "Errors",
    "Explanation",
    "FixedPoint",
    "Heads",
    "HeadsWrong",
    "Incomplete",
    "Layout",
    "Mask",
    "Negated",
    "Noise",
    "Parameter",
    "Positions",
    "Recipe",
    "Repeated",
    "Rotation",
    "RoundingMode",
    "RowRange",
    "RowShift",
    "Rows",
    "RowsWrong",
    "Runtime",
    "Scaled",
    "Swapped",
    "Transposed",
    "Uninitialised",
    "best",
    "clause",
    "merged",
    "parameter",
    "parameter_edits",
    "said",
]

MAX_LISTED = 8  # rows, columns or channels that a sentence names

NAMES = {
    "dim": "rotary dimension",
    "attention_factor": "attention factor",
    "exponent_dim": "dimension in the exponent",
}
_SPEC = "(the spec says {expected})"
_PARAMETERS: Mapping[Any, str] = {
    "scale": f"positions are multiplied by {{found}} {_SPEC}",
    ("scale", 1, 180 / math.pi): "angles are converted to degrees, and taken for radians",
    ("scale", 1, math.pi / 180): "angles are in degrees, not radians",
    ("scale", 1, 2): f"positions are multiplied by 2 {_SPEC}, as by a second rotation",
    ("scaling", "none"): "the {expected} scaling is missing",
    "positions": "positions are not those given",
    ("positions", "0, 1, 2, …"): "positions are 0, 1, 2, …, not {expected}",
    ("positions", "those of the grid", "others"): "positions are not those of the grid",
    ("positions", None, "others"): "positions are not 0, 1, 2, …: give them with --positions",
    "axes of positions": f"positions are those of the axes {{found}} {_SPEC}",
    ("mrope_interleaved", False): "M-RoPE sections are blocked, where the model interleaves them",
    (
        "mrope_interleaved",
        True,
    ): "M-RoPE sections are interleaved, where the model has them one after the other",
    "padding_idx": "the row of position {found} is zeros",
    ("padding_idx", None): "the row of padding_idx is not zeros",
    "position_axis": "positions are along axis {found}, not {expected}",
    "divisors": "{found} is used where {expected} belongs",
    ("divisors", "reversed"): "{expected} is in reverse order",
    ("divisors", "multiplied"): "frequencies are multiplied by {expected}, not divided",
    ("divisors", "other"): "{expected} has other values",
    "inv_freq": "inv_freq holds {found}, not {expected}",
    "exponent_dim": f"frequencies are over {{found}} channels {_SPEC}",
    ("exponent_dim", "same"): "frequencies are over {expected} channels, as the spec says",
    (
        "scheme",
        "sinusoidal",
    ): "this is a sinusoidal table, not the cosines and sines of a rotary one",
    "slopes of heads": "slopes are the first {expected} of those of {found} heads",
    "slopes": "slopes are rounded to {found} before they are multiplied",
    "distance": "distances are off by one: {found}, not {expected}",
}
"""Of a parameter, one value of it, or one for another: the narrowest counts."""
NEGATED = {
    "all": "the sign is flipped",
    "sin": "sin is negated (it rotates the other way)",
    "cos": "cos is negated",
    "first": "the first function of each pair is negated",
    "second": "the second function of each pair is negated",
}
ROTATIONS = {
    "none": "nothing is rotated: the values are those before",
    "none added": "nothing is added: the values are those before",
    "no minus": "rotate_half has no minus: a·cos + b·sin, b·cos + a·sin",
    "two minuses": "the sign of the second channel is wrong: a·cos − b·sin, b·cos − a·sin",
    "in place": "the second channel of a pair is computed from the first one after its rotation",
    "first half": "only the first channel of each pair is rotated",
    "second half": "only the second channel of each pair is rotated",
    "in bfloat16": "rotated in bfloat16, which rounds the tables, each product and each sum",
    "in float16": "rotated in float16, which rounds the tables, each product and each sum",
    "first channels": "the first channels of a head are rotated, not the last",
    "last channels": "the last channels of a head are rotated, not the first",
}
ROWS = {
    "reversed": "rows are in reverse order",
    "wrapped": "positions wrap at row {at:,}",
    "padded": "the table starts at row {at:,}, after padding",
    "padded at the end": "the last {at:,} rows are padding",
    "cut": "truncated to the first {at:,} rows",
    "shifted": "rows are shifted by {at:,}",
    "permuted": "rows are in another order",
    "constant": "all rows are at position {at:,}",
}
BITS = {name: f"values are the bits of {name}" for name in ("bfloat16", "float16", "float32")}
INCOMPLETE = {
    "halves": "columns are not doubled: the second half is zeros",
    "interleaved": "columns are not doubled: every other one is zeros",
    "angles": "values are the angles, position × inv_freq, and not their cosines or sines",
}


def said(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= 10000 else str(value)
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.7g}"
    return "none" if value is None else spelled(value)


def _parameter(edit: "Parameter") -> str:
    name, expected, found = edit.name, edit.expected, edit.found
    if name == "offset" and expected != found:
        return f"positions start at {found:,} (the spec says {expected:,})"
    if name.startswith(("positions along", "all positions")):
        return f"{name} are off by {said(found)}"
    keys = ((name, expected, found), (name, found), name)
    unknown = "{name} is {found}" if expected is None else f"{{name}} is {{found}} {_SPEC}"
    words = next((_PARAMETERS[key] for key in keys if key in _PARAMETERS), unknown)
    if expected == found:  # in a table of another scaling
        words = "{name} is {found}, as the spec says"
    elif found == f"{expected}, applied twice":
        words = "the {expected} scaling is applied twice"
    elif name == "attention_factor" and math.isclose(found, (expected or 1.0) ** 2, rel_tol=1e-6):
        words = "the attention factor is applied twice: {found}, not {expected}"
    return words.format(name=NAMES.get(name, name), expected=said(expected), found=said(found))


def _which(edit: Any) -> str:
    """Which rows, columns, heads or elements; runs of more than two as «29–34»."""
    runs: list[list[Any]] = []
    for place in edit.which:
        one = place[0] if isinstance(place, tuple) and len(place) == 1 else place
        if runs and isinstance(one, int) and one - 1 in runs[-1][-1:]:
            runs[-1].append(one)
        else:
            runs.append([list(one) if isinstance(one, tuple) else one])
    spelt = [
        [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(place) for place in run] for run in runs
    ]
    few, name = _few([word for words in spelt for word in words]), edit.kind.removesuffix("s_wrong")
    return f"only {name} {few} differs" if len(edit.which) == 1 else f"only {name}s {few} differ"


def _few(words: list[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + " …" * (len(words) > MAX_LISTED)


def _order(edit: Any) -> str:
    if isinstance(edit.order, str):
        return f"{edit.kind} are {'in reverse order' if edit.order == 'reversed' else edit.order}"
    return f"{edit.kind} are in another order ({_few([str(each) for each in edit.order])})"


def _runtime(edit: Any) -> str:
    names = (edit.found, *edit.also)
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return "; ".join((f"as {listed} {'compute' if edit.also else 'computes'} it", *edit.causes))


def _step(edit: Any) -> str:
    count = round(1 / edit.step) if edit.step < 1 else 0
    step = (
        f"1/{count:,}" if math.isclose(count * edit.step, 1, rel_tol=1e-9) else f"{edit.step:.4g}"
    )
    return "rounded to integers" if edit.step == 1 else f"rounded to steps of {step}"


Words = str | Mapping[str, str] | Callable[[Any], str]
"""A format of an edit's fields; one such format per value of its first field; or a function of the edit."""

WORDS: Mapping[type[Edit], Words] = {
    Parameter: _parameter,
    Layout: f"layout is {{found}} {_SPEC}",
    Swapped: "sin and cos are swapped",
    Negated: NEGATED,
    Scaled: lambda edit: f"values are scaled by {said(edit.by)}",
    Rotation: ROTATIONS,
    Positions: lambda edit: (
        f"positions are {edit.found}; expected {edit.expected}{edit.reason and ': '}{edit.reason}"
    ),
    Transposed: "the table is transposed",
    Repeated: "repeated {times}× along axis {axis}",
    Rows: ROWS,
    Channels: _order,
    Heads: _order,
    Mask: "mask differs: {found}",
    RowShift: "a constant is added to each row, which softmax ignores",
    Dtype: "rounded to {found}",
    RoundingMode: "rounded {mode} to {found}, not to nearest",
    Decimals: "rounded to {digits} decimals",
    FixedPoint: _step,
    Noise: "noise of {size:g}",
    Recipe: "computed by the recipe {found}",
    Runtime: _runtime,
    RowsWrong: _which,
    ColumnsWrong: _which,
    HeadsWrong: _which,
    ElementsWrong: _which,
    RowRange: "only in rows {first:,} to {last:,}",
    Bits: {**BITS, "swapped": "values are byte-swapped"},
    Incomplete: INCOMPLETE,
    Uninitialised: "values were never initialised",
}


def clause(edit: Edit) -> str:
    """Return an edit in words, as a clause of a sentence.

    >>> clause(Parameter("base", 500000.0, 10000.0))
    'base is 10000 (the spec says 500000)'
    """
    words = WORDS[type(edit)]
    if callable(words):
        return words(edit)
    if isinstance(words, Mapping):
        first_field = next(iter(vars(edit).values()))
        words = words[first_field]
    return words.format(**vars(edit))


def parameter_edits(
    expected: Scheme, found: Scheme, skipped: Collection[str] = ()
) -> Iterator[Parameter]:
    """The parameters of one scheme that have other values in another, where they count."""
    skipped = {*skipped, "dtype", "recipe", *(expected.inert_parameters & found.inert_parameters)}
    for name in expected.parameters():
        ours, theirs = getattr(expected, name), getattr(found, name)
        if name not in skipped and ours != theirs:
            yield parameter(name, ours, theirs)


def parameter(name: str, expected: Any, found: Any) -> Parameter:
    """A parameter, lists as somebody writes them."""
    return Parameter(
        name, *(spelled(each) if isinstance(each, tuple) else each for each in (expected, found))
    )


class Errors(NamedTuple):
    """What edits leave of some elements."""

    left: AnyArray
    values: AnyArray  # those that it is left of
    drift: AnyArray | float = (
        0.0  # what float32 phases may have changed them by, beyond any tolerance
    )
    rounding: AnyArray | float = 0.0  # what the arithmetic of a rotation may have


@dataclass(frozen=True)
class Explanation:
    """Edits that make the table of the prior, or of the scheme that was found, the table at hand. A search proposes it
    with what it leaves; `acceptance` says whether it is one, and measures residual and noise."""

    edits: tuple[Edit, ...]
    scheme: Scheme | None
    tensors: tuple[str, ...]
    errors: Errors | Callable[[Mapping[str, Any]], Errors] | None = field(
        default=None, repr=False, compare=False
    )
    """What the edits leave, or leave of samples of the tensors, but for rows and columns that they name as wrong."""
    extra: float = 0.0  # cost beside that of the edits: digits of the numbers that were fitted
    open: tuple[str, ...] = ()  # what the data do not decide, a sentence each
    residual: float = 0.0  # the largest difference that the edits do not explain
    noise: float = 0.0  # the root mean square of what is left
    beyond: int = (
        0  # elements that are off by more than the tolerance, though by no more than phases drift
    )

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits) + self.extra

    @property
    def mistakes(self) -> tuple[Edit, ...]:
        """The edits, storage apart."""
        return tuple(edit for edit in self.edits if not edit.storage)

    def as_json(self, text: str) -> dict[str, Any]:
        edits = [edit.as_json() for edit in self.edits]
        numbers = {"residual": self.residual, "noise": self.noise}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return {"edits": edits, **finite, "tensors": list(self.tensors), "text": text}


def _length(scheme: Scheme | None) -> int:
    """Return the number of rows of a scheme, 0 if it has none."""
    return 0 if scheme is None else scheme.value_of("seq_len") or 0


def merged(found: Iterable[Explanation]) -> list[Explanation]:
    """Explanations of other tensors by the same edits made into one."""
    out: list[Explanation] = []
    for each in found:
        other = next(
            (other for other in out if each.mistakes == other.mistakes and each.mistakes), None
        )
        if other is None:
            out.append(each)
            continue
        longest = max(other.scheme, each.scheme, key=_length)
        out[out.index(other)] = replace(
            max(other, each, key=lambda one: len(one.edits)),
            scheme=longest,  # a vector of frequencies has no length
            tensors=(*other.tensors, *each.tensors),
            residual=max(other.residual, each.residual),
            beyond=other.beyond + each.beyond,
        )
    return out


def best(found: Iterable[Explanation]) -> list[Explanation]:
    """The explanations, each list of edits once, the cheapest first and among equals the closest."""
    unique: dict[tuple[Edit, ...], Explanation] = {}
    for each in sorted(found, key=lambda one: (round(one.cost, 6), one.residual)):
        unique.setdefault(each.edits, each)
    return list(unique.values())
