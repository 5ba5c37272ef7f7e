"""Sentences about edits and explanations, commands, and tables that nothing explains.

All sentences about edits are written here. No code reads them: what a sentence depends on is a
field of the edit, of the explanation, or of the `Context`.
"""

import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from typing import Any, NamedTuple

from pecli.engine.edits import (
    AddedRows,
    Bits,
    Channels,
    ColumnsWrong,
    Decimals,
    Dtype,
    Edit,
    ElementsWrong,
    ExpectedDtype,
    FixedPoint,
    Heads,
    HeadsWrong,
    Incomplete,
    Layout,
    Mask,
    MemoryOrder,
    Misplacement,
    Negated,
    Noise,
    Parameter,
    PositionMistake,
    Positions,
    Recipe,
    Repeated,
    Rotation,
    RoundingMode,
    RowRange,
    Rows,
    RowShift,
    RowsWrong,
    RowsZero,
    Runtime,
    Scaled,
    SomeRows,
    Swapped,
    Transposed,
    UninitialisedValues,
    applied_twice,
)
from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
from pecli.errors import bracketed, number, spelled
from pecli.explain.explanation import ComparedRows, Explanation

PARAMETERS_WITHOUT_OPTION = ("position_axis", "inv_freq", "distance", "slopes", "pi")
"""Names of edits that look like parameters, and that no option of a command changes."""

CUT_SHORT = "the time limit ended the search: a shorter reason may exist"
LONG_NUMBER = 10_000  # integers from here on have separators: 131,072
MAX_LISTED = 8  # rows, columns or channels that a sentence names
MAX_COMMAND = 200  # letters: nobody reads a longer command, such as one with LongRoPE's lists


@dataclass(frozen=True)
class Reference:
    """The words for whatever a table is compared with: a specification, or another file."""

    quote: str
    """Begins the quotation of an expected value: «(the spec says 500000)»."""
    agreement: str
    """Follows a value that is as expected: «base is 10000, as the spec says»."""
    subject: str = ""
    """Begins a sentence, if it must say which table it is about."""

    def quoted(self, value: str) -> str:
        """Return an expected value as an aside; empty if nothing is expected."""
        return f"{self.quote} {value}" if self.quote else ""


SPEC = Reference("the spec says", ", as the spec says")
FILE_A = Reference("in A", ", as in A", "in B, ")
NOTHING = Reference("", "")  # `identify` has only the table at hand


@dataclass(frozen=True)
class Context:
    """The circumstances that change the words for an edit."""

    reference: Reference = SPEC
    is_rotary: bool = True
    """If false, `dim` is not the rotary dimension of a head."""
    is_sine: bool = False
    """True if only sines are at hand: at position 0 they are 0, wherever the cosines are."""


BY_SPEC = Context()


class Clause(NamedTuple):
    """The words for an edit: a statement, and an aside that is printed in brackets."""

    statement: str
    aside: str = ""

    def __str__(self) -> str:
        return f"{self.statement} ({self.aside})" if self.aside else self.statement


def clause(edit: Edit, context: Context = BY_SPEC) -> str:
    """Return an edit in words, as a clause of a sentence.

    >>> clause(Parameter("base", 500000.0, 10000.0))
    'base is 10000 (the spec says 500000)'
    >>> clause(Parameter("base", 500000.0, 10000.0), Context(FILE_A))
    'base is 10000 (in A 500000)'
    >>> clause(Negated("sin"), Context(NOTHING))
    'sin is negated (it rotates the other way)'
    """
    return str(_WRITERS[type(edit)](edit, context))


def format_value(value: Any) -> str:
    """Return the value of a parameter as people write it.

    >>> format_value(131072), format_value(500000.0), format_value(None)
    ('131,072', '500000', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, int) and abs(value) >= LONG_NUMBER:
        return f"{value:,}"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.7g}"
    return spelled(value)


class _Template(NamedTuple):
    """Words for a parameter, with the fields {name}, {expected}, {found} and {agreement}."""

    text: str
    adds_expected: bool = False
    """True if the expected value follows in brackets: «(the spec says 500000)»."""


_DISPLAY_NAMES = {
    "dim": "rotary dimension",
    "attention_factor": "attention factor",
    "exponent_dim": "dimension in the exponent",
}
_BY_NAME = {
    "scale": _Template("positions are multiplied by {found}", adds_expected=True),
    "positions": _Template("positions are not those given"),
    "axis_frequencies": _Template(
        "axes share the frequencies of the whole dim in sections, as in M-RoPE"
    ),
    "axes of positions": _Template("positions are those of the axes {found}", adds_expected=True),
    "padding_idx": _Template("the row of position {found} is zeros"),
    "pi": _Template("arguments of cosines and sines are reduced with π = {found}"),
    "position_axis": _Template("positions are along axis {found}, not {expected}"),
    "divisors": _Template("{found} is used where {expected} belongs"),
    "inv_freq": _Template("inv_freq holds {found}, not {expected}"),
    "exponent_dim": _Template("frequencies are over {found} channels", adds_expected=True),
    "slopes of heads": _Template("slopes are the first {expected} of those of {found} heads"),
    "slopes": _Template("slopes are rounded to {found} before they are multiplied"),
    "distance": _Template("distances are off by one: {found}, not {expected}"),
}
_BY_FOUND: Mapping[tuple[str, Any], _Template] = {
    ("scaling", "none"): _Template("the {expected} scaling is missing"),
    ("positions", "0, 1, 2, …"): _Template("positions are 0, 1, 2, …, not {expected}"),
    ("mrope_interleaved", False): _Template(
        "M-RoPE sections are blocked, where the model interleaves them"
    ),
    ("mrope_interleaved", True): _Template(
        "M-RoPE sections are interleaved, where the model has them one after the other"
    ),
    ("padding_idx", None): _Template("the row of padding_idx is not zeros"),
    ("divisors", "reversed"): _Template("{expected} is in reverse order"),
    ("divisors", "multiplied"): _Template("frequencies are multiplied by {expected}, not divided"),
    ("ntk exponent", "1"): _Template(
        "the base is multiplied by NTK's factor as it is, not by its power {expected}"
    ),
    ("wavelengths", "1/f"): _Template(
        "wavelengths lack 2π: the limits of the scaling are compared with {found}, not with {expected}"
    ),
    ("divisors", "other"): _Template("{expected} has other values"),
    ("exponent_dim", "same"): _Template("frequencies are over {expected} channels{agreement}"),
    ("scheme", "sinusoidal"): _Template(
        "this is a sinusoidal table, not the cosines and sines of a rotary one"
    ),
}
_BY_CHANGE: Mapping[tuple[str, Any, Any], _Template] = {
    ("scale", 1, 180 / math.pi): _Template(
        "angles are converted to degrees, and taken for radians"
    ),
    ("first pair", 0, 1): _Template(
        "pairs are counted from 1, not from 0: the first exponent is that of pair 1"
    ),
    ("scale", 1, math.pi / 180): _Template("angles are in degrees, not radians"),
    ("scale", 1, 2): _Template(
        "positions are multiplied by 2, as by a second rotation", adds_expected=True
    ),
    ("positions", "those of the grid", "others"): _Template("positions are not those of the grid"),
}


def _parameter(edit: Parameter, context: Context) -> Clause:
    """Return the words for another value of a parameter: «base is 10000 (the spec says 500000)».

    An offset is the position of the first row, which people read with separators: «positions start at
    4,096». All other parameters have a template of words.
    """
    is_other_offset = edit.name == "offset" and edit.expected != edit.found
    if is_other_offset:
        expected_start = context.reference.quoted(f"{edit.expected:,}")
        return Clause(f"positions start at {edit.found:,}", expected_start)
    is_shift_of_grid = edit.name.startswith(("positions along", "all positions"))
    if is_shift_of_grid:
        return Clause(f"{edit.name} are off by {format_value(edit.found)}")
    return _parameter_by_template(edit, context)


def _parameter_by_template(edit: Parameter, context: Context) -> Clause:
    """Return the words for a parameter that has another value than expected.

    If the base should be 500000, they are the statement «base is 10000» and the aside «the spec says 500000».
    """
    template = _parameter_template(edit)
    expected = format_value(edit.expected)
    # «{name} is {found}» becomes «base is 10000».
    statement = template.text.format(
        name=_display_name(edit.name, context),
        expected=expected,
        found=format_value(edit.found),
        agreement=context.reference.agreement,  # «, as the spec says», for an expected value
    )
    if not template.adds_expected:  # The statement may name the expected value itself.
        return Clause(statement)
    return Clause(statement, aside=context.reference.quoted(expected))


def _display_name(name: str, context: Context) -> str:
    """Return a parameter's name as people call it: «rotary dimension» for the dim of a rotary scheme."""
    if name == "dim" and not context.is_rotary:
        return name
    return _DISPLAY_NAMES.get(name, name)


def _parameter_template(edit: Parameter) -> _Template:
    """Return a template of words for the value that a parameter has in a file.

    For most parameters, it is «{name} is {found}», which becomes «base is 10000».
    """
    is_as_expected = edit.expected == edit.found
    if is_as_expected:
        # Beside another kind of scaling, its factor is stated: «factor is 4, as the spec says».
        return _Template("{name} is {found}{agreement}")
    if edit.found == applied_twice(edit.expected):
        return _Template("the {expected} scaling is applied twice")
    if edit.name == "attention_factor" and _is_square(edit.found, edit.expected or 1.0):
        return _Template("the attention factor is applied twice: {found}, not {expected}")
    return _most_special_template(edit)


def _most_special_template(edit: Parameter) -> _Template:
    """Return the words for another value of a parameter from the tables above, the most special ones there are.

    A scale of 2 where 1 is expected has words of its own: «… as by a second rotation». Any other scale has
    the words for its name, «positions are multiplied by 3». A base is in no table: «base is 10000».
    """
    general = _Template("{name} is {found}", adds_expected=edit.expected is not None)
    by_name = _BY_NAME.get(edit.name, general)
    by_found = _BY_FOUND.get((edit.name, edit.found), by_name)
    return _BY_CHANGE.get((edit.name, edit.expected, edit.found), by_found)


def _is_square(value: float, root: float) -> bool:
    """Return True if a value is the square of a factor, which multiplied it twice: 1.44 of 1.2."""
    return math.isclose(value, root**2, rel_tol=1e-6)


def _layout(edit: Layout, context: Context) -> Clause:
    return Clause(f"layout is {edit.found}", context.reference.quoted(edit.expected))


_NEGATED = {
    "all": Clause("the sign is flipped"),
    "sin": Clause("sin is negated", "it rotates the other way"),
    "cos": Clause("cos is negated"),
    "first": Clause("the first function of each pair is negated"),
    "second": Clause("the second function of each pair is negated"),
}
_ROTATIONS = {
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
    "across the head": "channels are paired across the whole head, not in its rotary part",
}
_ROWS = {
    "reversed": "rows are in reverse order",
    "wrapped": "positions wrap at row {at:,}",
    "padded": "the table starts at row {at:,}, after padding",
    "padded at the end": "the last {at:,} rows are padding",
    "cut": "truncated to the first {at:,} rows",
    "shifted": "rows are shifted by {at:,}",
    "permuted": "rows are in another order",
    "constant": "all rows are at position {at:,}",
}
_BITS = {
    "bfloat16": "values are the bits of bfloat16",
    "float16": "values are the bits of float16",
    "float32": "values are the bits of float32",
    "swapped": "values are byte-swapped",
}
_INCOMPLETE = {
    "halves": "columns are not doubled: the second half is zeros",
    "interleaved": "columns are not doubled: every other one is zeros",
    "angles": "values are the angles, position × inv_freq, and not their cosines or sines",
}


def _negated(edit: Negated, _: Context) -> Clause:
    return _NEGATED[edit.which]


def _scaled(edit: Scaled, _: Context) -> Clause:
    return Clause(f"values are scaled by {format_value(edit.by)}")


def _rotation(edit: Rotation, _: Context) -> Clause:
    return Clause(_ROTATIONS[edit.found])


def _bits(edit: Bits, _: Context) -> Clause:
    return Clause(_BITS[edit.found])


def _incomplete(edit: Incomplete, _: Context) -> Clause:
    return Clause(_INCOMPLETE[edit.found])


def _positions(edit: Positions, _: Context) -> Clause:
    """Return the words for other positions: «positions are 1 … 8; expected 0 … 7: all 1 too far»."""
    statement = f"positions are {edit.found}; expected {edit.expected}"
    if edit.reason:
        statement = f"{statement}: {edit.reason}"
    return Clause(statement)


_MISPLACEMENTS = {
    Misplacement.CACHE_NOT_MOVED: "it was not moved",
    Misplacement.CACHE_MOVED_TWICE: "it was moved twice",
    Misplacement.CACHE_MOVED_BACK: "it was moved the other way",
    Misplacement.CACHE_MOVED_OTHERWISE: "it was moved by {by:,}, not {expected:,}",
    Misplacement.CACHE_MOVED: "B is A, whose positions are moved by {by:,}",
    Misplacement.OVERFLOW: "they overflow {dtype}",
    Misplacement.CLAMPED: "they are clamped at {by:,}",
    Misplacement.PADDING_IGNORED: "left padding is ignored",
    Misplacement.NOT_ROTATED: "nothing is rotated",
    Misplacement.ONE_POSITION: "every row is at one position",
    Misplacement.REVERSED: "the direction is reversed",
    Misplacement.NOT_RESET: "positions are not reset where a packed sequence begins",
    Misplacement.RESTARTED: "positions restart, as those of packed sequences",
    Misplacement.ROW_BEFORE: "each row has the position of the row before",
    Misplacement.ROW_NUMBER: "the row number is used as position",
    Misplacement.SHARED: "each position is given to {by:,} rows",
    Misplacement.STUCK: "from row {row:,} on, every row is at position {by:,}",
    Misplacement.ONE_AXIS: "1-D positions are given to M-RoPE",
    Misplacement.OTHER_AXES: "the axes are those of {axes}",
}


def position_mistake_words(mistake: PositionMistake) -> str:
    """Return a mistake of positions in words.

    >>> position_mistake_words(PositionMistake(Misplacement.SHIFTED, by=-9, row=12))
    'from row 12 on, all 9 too low'
    """
    if mistake.kind is Misplacement.SHIFTED:
        since = f"from row {mistake.row:,} on, " if mistake.row else ""
        direction = "far" if mistake.by > 0 else "low"
        return f"{since}all {abs(mistake.by):,} too {direction}"
    return _MISPLACEMENTS[mistake.kind].format(**vars(mistake))


_LYING = {
    "after": "lies",
    "before": "the tensor before the rotation lies",
    "both": "the tensors before and after the rotation lie",
}


def _memory_order(edit: MemoryOrder, _: Context) -> Clause:
    """Return the words for axes in another order: «lies as (40, 8, 128) in memory, not (8, 40, 128)»."""
    return Clause(
        f"{_LYING[edit.which]} as {bracketed(edit.found)} in memory, not {bracketed(edit.expected)}"
    )


def _rows(edit: Rows, context: Context) -> Clause:
    """Return the words for rows in another order or at other positions: «rows are shifted by 2»."""
    if edit.order == "constant" and edit.at == 0 and context.is_sine:
        return Clause("all values are 0")
    if edit.order == "padded at the end" and edit.at == 1:
        return Clause("the last row is padding")
    return Clause(_ROWS[edit.order].format(at=edit.at))


def _some_rows(edit: SomeRows, _: Context) -> Clause:
    """Return the words for rows that are there: «only every 4th row is there, from row 0 on» for 0 4 8 12."""
    rows = edit.which
    steps = {later - row for row, later in pairwise(rows)}
    largest_step = max(steps, default=1)
    are_evenly_spaced = len(steps) == 1 and largest_step > 1
    if are_evenly_spaced:
        ordinal = _ordinal(largest_step)
        return Clause(f"only every {ordinal} row is there, from row {rows[0]:,} on")
    return Clause(f"only rows {_first_few(_ranges(rows))} are there")


def _ordinal(number: int) -> str:
    """Return a number as an ordinal.

    >>> _ordinal(2), _ordinal(3), _ordinal(11), _ordinal(21)
    ('2nd', '3rd', '11th', '21st')
    """
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _added_rows(edit: AddedRows, _: Context) -> Clause:
    return Clause(f"{_with_verb('row', edit.which, 'is', 'are')} added")


def _uninitialised(edit: UninitialisedValues, _: Context) -> Clause:
    subject = "values were"
    if edit.rows:
        subject = _with_verb("row", edit.rows, "was", "were")
    return Clause(f"{subject} never initialised")


def _with_verb(
    noun: str, places: Sequence[int | tuple[int, ...]], singular: str, plural: str
) -> str:
    """Return rows, columns or other numbered parts as the subject of a sentence, with its verb.

    >>> _with_verb("row", (5,), "is", "are"), _with_verb("head", (5, 7, 8, 9), "differs", "differ")
    ('row 5 is', 'heads 5, 7–9 differ')
    """
    listed = _first_few(_ranges(places))
    if len(places) == 1:
        return f"{noun} {listed} {singular}"
    return f"{noun}s {listed} {plural}"


def _order(edit: Channels | Heads, _: Context) -> Clause:
    """Return the words for channels or heads in another order, which is listed if it has no name.

    The list begins where the order changes: after the first eight of 12 heads, «from 8 on: 11, 10, 9, 8».
    """
    if edit.order == "reversed":
        return Clause(f"{edit.kind} are in reverse order")
    if isinstance(edit.order, str):
        return Clause(f"{edit.kind} are {edit.order}")
    kept = [place for place, _ in takewhile(_is_in_place, enumerate(edit.order))]
    listed = _first_few(map(str, edit.order[len(kept) :]))
    if kept:
        listed = f"from {len(kept)} on: {listed}"
    return Clause(f"{edit.kind} are in another order", listed)


def _is_in_place(place_and_number: tuple[int, int]) -> bool:
    """Return True if a head, or a channel, has the number of its place."""
    place, number_there = place_and_number
    return place == number_there


def _first_few(words: Iterable[str]) -> str:
    """Return words in a list, of which only the first eight are named: «1, 2, 3, 4, 5, 6, 7, 8 …»."""
    words = list(words)
    text = ", ".join(words[:MAX_LISTED])
    return f"{text} …" if len(words) > MAX_LISTED else text


PartWrong = RowsWrong | ColumnsWrong | HeadsWrong | ElementsWrong
_PARTS = {RowsWrong: "row", ColumnsWrong: "column", HeadsWrong: "head", ElementsWrong: "element"}


def _part_wrong(edit: PartWrong, _: Context) -> Clause:
    """Return the words for the part of a table that is wrong: «only rows 5, 7–9 differ»."""
    part = _PARTS[type(edit)]
    return Clause(f"only {_with_verb(part, edit.which, 'differs', 'differ')}")


def _rows_zero(edit: RowsZero, _: Context) -> Clause:
    rows = _with_verb("row", edit.which, "is", "are")
    other_side = "before" if edit.side == "after" else "after"
    return Clause(f"{rows} zero {edit.side} the rotation, and not {other_side} it")


def _ranges(places: Sequence[int | tuple[int, ...]]) -> Iterator[str]:
    """Yield rows, columns or elements as text, with three or more in sequence as a range.

    Elements are in sequence along the last axis.

    >>> [*_ranges((5, 7, 8, 29, 30, 31))], [*_ranges(((0, 9), (1, 2), (1, 3), (1, 4)))]
    (['5', '7', '8', '29–31'], ['[0, 9]', '[1, 2]–[1, 4]'])
    """
    indices = map(_index_of, places)
    for _, numbered_run in groupby(enumerate(indices), key=_run_of):
        run = [_place_words(index) for _, index in numbered_run]
        if len(run) > 2:
            yield f"{run[0]}–{run[-1]}"
        else:
            yield from run


def _index_of(place: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the indices of an element as they are, and a number of a row or head as a single one."""
    return place if isinstance(place, tuple) else (place,)


def _run_of(numbered: tuple[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return what all places of a run have in common, given one of them and its number in a list.

    In 5 7 8 9, the numbers are 0 1 2 3. The difference of both is 5 in the first run, and 6 in 7 8 9.
    """
    number, (*axes_before, last) = numbered
    return (*axes_before, last - number)


def _place_words(index: tuple[int, ...]) -> str:
    """Return a row or head as a number, 5 for (5,), and an element as a list, [2, 5]."""
    return str(index[0]) if len(index) == 1 else str([*index])


def _runtime(edit: Runtime, _: Context) -> Clause:
    """Return the words for runtimes that compute a table: «as vLLM, SGLang and TGI compute it; …»."""
    if edit.also:
        *more, last = edit.also
        names = ", ".join((edit.found, *more))
        statement = f"as {names} and {last} compute it"
    else:
        statement = f"as {edit.found} computes it"
    return Clause("; ".join((statement, *edit.causes)))


def grid_words(storage: Edit) -> str:
    """Return the numbers that a storage can hold, in words that follow «rounded to».

    >>> grid_words(Decimals(4)), grid_words(FixedPoint(1 / 127)), grid_words(Dtype("float16"))
    ('4 decimals', 'steps of 1/127', 'float16')
    """
    match storage:
        case Dtype(found):
            return found
        case Decimals(digits):
            return f"{digits} decimals"
    assert isinstance(storage, FixedPoint)
    return _steps(storage.step)


def _steps(step: float) -> str:
    """Return the words for a step between stored numbers: «integers» for 1, «steps of 1/127» for 0.00787."""
    if step == 1:
        return "integers"
    count = round(1 / step)
    if math.isclose(count * step, 1, rel_tol=1e-9):
        return f"steps of 1/{count:,}"
    return f"steps of {step:.4g}"


def _rounded(edit: Dtype | Decimals | FixedPoint, _: Context) -> Clause:
    return Clause(f"rounded to {grid_words(edit)}")


def _not_rounded(edit: ExpectedDtype, context: Context) -> Clause:
    """Return the words for values that only the other file rounded: «not rounded (in A to float32)»."""
    return Clause("not rounded", context.reference.quoted(f"to {edit.expected}"))


_Writer = Callable[[Any, Context], Clause]


def _fields_of(template: str) -> _Writer:
    """Return a writer that puts the fields of an edit into a template."""
    return lambda edit, _: Clause(template.format(**vars(edit)))


_WRITERS: Mapping[type[Edit], _Writer] = {
    Parameter: _parameter,
    Layout: _layout,
    Swapped: _fields_of("sin and cos are swapped"),
    Negated: _negated,
    Scaled: _scaled,
    Rotation: _rotation,
    Positions: _positions,
    RowsZero: _rows_zero,
    Transposed: _fields_of("the table is transposed"),
    MemoryOrder: _memory_order,
    Repeated: _fields_of("repeated {times}× along axis {axis}"),
    Rows: _rows,
    SomeRows: _some_rows,
    AddedRows: _added_rows,
    Channels: _order,
    Heads: _order,
    Mask: _fields_of("mask differs: {found}"),
    RowShift: _fields_of("a constant is added to each row, which softmax ignores"),
    Dtype: _rounded,
    ExpectedDtype: _not_rounded,
    RoundingMode: _fields_of("rounded {mode} to {found}, not to nearest"),
    Decimals: _rounded,
    FixedPoint: _rounded,
    Noise: _fields_of("noise of {size:g}"),
    Recipe: _fields_of("computed by the recipe {found}"),
    Runtime: _runtime,
    RowsWrong: _part_wrong,
    ColumnsWrong: _part_wrong,
    HeadsWrong: _part_wrong,
    ElementsWrong: _part_wrong,
    RowRange: _fields_of("only in rows {first:,} to {last:,}"),
    Bits: _bits,
    Incomplete: _incomplete,
    UninitialisedValues: _uninitialised,
}


@dataclass(frozen=True)
class Coverage:
    """The part of a table that an explanation covers, and the differences that it leaves."""

    residual: float
    compared: ComparedRows | None = None
    """The rows that were compared, if not all were."""
    is_of_rest: bool = False
    """True if the mistakes name the wrong part: what is covered is the rest."""

    def words(self) -> str:
        """Return the end of a sentence about an explanation.

        >>> Coverage(3e-8).words(), Coverage(0.0).words(), Coverage(0.0, is_of_rest=True).words()
        ('explains every element (to 3e-8)', 'exact', 'all others are exact')
        >>> Coverage(0.0, compared=ComparedRows(3, 9)).words()
        'explains what was compared, 3 of 9 rows (to 0)'
        """
        residual = number(self.residual, 2)
        if self.compared:
            return f"explains what was compared, {_rows_of(self.compared)} (to {residual})"
        if self.residual:
            return f"explains every element (to {residual})"
        return "all others are exact" if self.is_of_rest else "exact"


def _rows_of(compared: ComparedRows) -> str:
    return f"{compared.count:,} of {compared.total:,} rows"


def sentence(explanation: Explanation, reference: Reference = SPEC) -> str:
    """Return an explanation in one line: the tensors, the mistakes, the storage, the residual.

    Args:
        explanation: What is wrong with some tensors.
        reference: What they were compared with: a specification, or file A of `pecli diff A B`.

    >>> base = Parameter("base", 500000.0, 10000.0)
    >>> sentence(Explanation((base,), None, ("cos", "sin"), residual=3e-8))
    'cos, sin: base is 10000 (the spec says 500000); explains every element (to 3e-8)'
    >>> sentence(Explanation((Swapped(),), None, ("pe",)), FILE_A)
    'pe: in B, sin and cos are swapped; exact'
    """
    scheme = explanation.scheme
    context = Context(
        reference,
        is_rotary=scheme is None or scheme.applied_as == "rotation",
        is_sine=explanation.tensors == ("sin",),
    )
    mistakes = ", and ".join(clause(edit, context) for edit in explanation.mistakes)
    # How numbers were rounded or computed follows the mistakes: «rounded to float16».
    stated = _stated(explanation.edits)
    storage = ", ".join(clause(edit, context) for edit in stated if edit.storage)
    coverage = _coverage(explanation).words()
    doubt = CUT_SHORT if explanation.is_cut_short else ""
    statements = [text for text in (mistakes, storage, coverage, doubt) if text]
    names = ", ".join(explanation.tensors)
    return f"{names}: {reference.subject}{'; '.join(statements)}"


def _stated(edits: Sequence[Edit]) -> Sequence[Edit]:
    """Return edits without the recipe of a runtime, which goes without saying: the runtime has no other."""
    if not any(isinstance(edit, Runtime) for edit in edits):
        return edits
    return [edit for edit in edits if not isinstance(edit, Recipe)]


def _coverage(explanation: Explanation) -> Coverage:
    """Return what an explanation covers: all rows, those that were compared, or all but a wrong part."""
    mistakes = explanation.mistakes
    return Coverage(
        explanation.residual,
        explanation.compared,
        is_of_rest=bool(mistakes) and _names_part(mistakes[-1]),
    )


def _names_part(edit: Edit) -> bool:
    """Return True if an edit names a part that is wrong, so that only the rest is explained."""
    if isinstance(edit, UninitialisedValues):
        return bool(edit.rows)
    return isinstance(edit, PartWrong)


def undetermined(explanation: Explanation) -> tuple[str, ...]:
    """Return what the data do not decide, and how many rows were compared if not all were."""
    if explanation.compared is None:
        return explanation.open
    return (*explanation.open, f"{_rows_of(explanation.compared)} were compared")


def not_made_by_command(edits: Sequence[Edit], scheme: Scheme) -> tuple[Edit, ...]:
    """Return the edits that the command for a scheme does not make, such as negated sines."""
    return tuple(edit for edit in _stated(edits) if not _is_made_by_command(edit, scheme))


def _is_made_by_command(edit: Edit, scheme_of_command: Scheme) -> bool:
    """Return True if a command makes tables with one of the differences between expected tables and a file.

    The difference may be the base 500000: `pecli rope --base 500000` makes tables that have it. But no
    command makes negated sines.

    Args:
        edit: The difference.
        scheme_of_command: The scheme of the command, with values of the file such as the base 500000.
    """
    match edit:
        case Parameter():  # `--base`, for example
            return _has_value_of_file(edit, scheme_of_command)
        case Layout(found=layout):  # `--layout`
            return _makes_columns(scheme_of_command, layout)
        case Positions():  # `--positions`
            return _lists_positions(scheme_of_command)
        case Swapped():  # `--cos-first`, which only sinusoidal commands have
            return "cos_first" in scheme_of_command.parameters()
        case Scaled(by=factor):  # `--attention-factor`, which multiplies all cosines and sines
            return scheme_of_command.attention_factor_value() == factor
        case Recipe(found=recipe):  # `--recipe`
            return bool(scheme_of_command.value_of("recipe", "exact") == recipe)
        case Runtime():  # `--runtime`
            return True
        case Rotation():
            # Queries were rotated by a wrong formula, but with the right tables: those of the command.
            return True
        case _:
            # A command must make the same numbers, but may store them differently (`storage`): it need
            # not round them to four decimals. No command makes any other difference.
            return edit.storage


def _makes_columns(scheme_of_command: Scheme, layout: str) -> bool:
    """Return True if a command makes the columns of a file, given their layout, such as «halves».

    A file may hold only one of the tables that the command makes («cos alone»), or both in one array
    («stacked»).
    """
    layout_of_scheme = scheme_of_command.value_of("layout", "")
    return layout in (layout_of_scheme, "stacked", "cos alone", "sin alone")


def _lists_positions(scheme_of_command: Scheme) -> bool:
    """Return True if a command has `--positions`: it lists those at which the rows of the file are."""
    return scheme_of_command.value_of("positions", None) is not None


def _has_value_of_file(edit: Parameter, scheme_of_command: Scheme) -> bool:
    """Return True if a command has the value of a file for one parameter, such as `--base 500000`.

    The command was made from the values of the file, so that it has nearly all of them. Four parameters
    may be exceptions.

    Args:
        edit: The name of the parameter, and the value that the file has (`found`).
        scheme_of_command: The scheme of the command.
    """
    if edit.name in PARAMETERS_WITHOUT_OPTION:
        return False
    value_in_file = edit.found
    match edit.name:
        case "attention_factor":  # Linear scaling has no option for it: the command has 1.
            return bool(scheme_of_command.attention_factor_value() == value_in_file)
        case "offset":  # No option is below 0: the command has 0 for a file from −1 on.
            return bool(scheme_of_command.first_position == value_in_file)
        case "padding_idx":  # A command that was made from measured frequencies has none.
            return bool(scheme_of_command.value_of("padding_idx") == value_in_file)
        case "positions":  # The value is in words, such as «others», and cannot be compared.
            return _lists_positions(scheme_of_command)
        case _:  # The command was made with the value of the file.
            return True


def reproduction(explanation: Explanation) -> Iterator[str]:
    """Yield a line with the command that makes the table of a file again, mistakes included.

    For a table with a wrong base, it is «reproduce with pecli rope … --base 10000». No line is yielded
    unless the command makes at least one mistake of the file.
    """
    scheme = explanation.scheme
    if scheme is None:
        return
    makes_a_mistake = any(_is_made_by_command(edit, scheme) for edit in explanation.mistakes)
    if not makes_a_mistake:
        return
    command = command_of(scheme, output=False)
    if is_readable(command):  # Commands with long lists of numbers are not.
        edits_apart = not_made_by_command(explanation.edits, scheme)
        yield f"{_words_for_edits_apart(edits_apart)}reproduce with {command}"


def _words_for_edits_apart(edits: Sequence[Edit]) -> str:
    """Return «apart from that (sin is negated), » for what a command does not make; empty without edits."""
    if not edits:
        return ""
    statements = [_statement_of(edit) for edit in edits]
    return f"apart from that ({', '.join(statements)}), "


def _statement_of(edit: Edit) -> str:
    """Return an edit in words, without the expected value, whether it is another or the same.

    >>> _statement_of(Parameter("base", 500000.0, 10000.0))
    'base is 10000'
    """
    write = _WRITERS[type(edit)]
    return write(edit, Context(NOTHING)).statement


def is_readable(command: str) -> bool:
    """Return True if a command is short enough to be read; the folders of the user's files do not count."""
    without_folders = " ".join(map(os.path.basename, shlex.split(command)))
    return len(without_folders) <= MAX_COMMAND


def command_of(scheme: Scheme, tensors: int = 1, output: bool = True) -> str:
    """Return the command that makes a table again.

    Args:
        scheme: What makes the table.
        tensors: How many tensors of a file it explains.
        output: Whether the command writes a file. A .npy file holds one array, and no bfloat16:
            anything else is written to a .safetensors file.
    """
    words = ["pecli", scheme.name, *options(scheme)]
    if output:
        is_one_tensor = tensors == 1 and scheme.single_array().name in tensors_by_name(scheme)
        fits_npy = is_one_tensor and scheme.dtype != "bfloat16"
        words += ["-o", "again.npy" if fits_npy else "again.safetensors"]
    return shlex.join(words)
