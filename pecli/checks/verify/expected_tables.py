"""What a tensor of a file can be, for a model: every table of its encodings that has such a shape.

A configuration fixes the numbers, not their layout: each reading is one layout that the tensor may have, with the
table that it then has to equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.same_table import View, distance, is_doubled, repeats, views
from pecli.checks.tensor_roles import ANYTHING
from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import COMPLEX, SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, as_pairs, cast, reshaped, stacked
from pecli.explain.forms import ARRANGEMENTS, Form, columns
from pecli.models.encoding import Encoding

if TYPE_CHECKING:
    from pecli.engine.schemes.alibi import Alibi
    from pecli.engine.schemes.rope import Rope

_PLURALS = {"cos": "cosines", "sin": "sines"}
ORDERS = {"both": (("cos", "sin"),), None: (("cos", "sin"), ("sin", "cos"))}
"""Which function may come first, by what a name says: where it says nothing, either, as GPT-J has sines first."""


@dataclass(frozen=True)
class Layout:
    """A form, and the functions in it: one, or both in their order."""

    form: Form
    functions: tuple[str, ...]

    def words(self) -> str:
        if len(self.functions) == 1:
            return columns(self.form.doubled)
        both = ARRANGEMENTS[self.form.arrangement].format(*(_PLURALS[each] for each in self.functions))
        return f"{both}, {columns(self.form.doubled)}" if self.form.doubled else both


def layouts(shape: tuple[int, ...], half: int, role: str | None, *, pairs_are_complex: bool) -> Iterator[Layout]:
    """The layouts of cos and sin over positions × `half` frequencies that have such a shape and such a name."""
    singles = [function for function in ("cos", "sin") if role in (function, None)]
    orders = ORDERS.get(role, ())
    if pairs_are_complex:
        if len(shape) == 3 and shape[1:] == (half, 2) and orders:
            yield Layout(Form("complex"), ("cos", "sin"))
        return
    if len(shape) == 2 and shape[1] == half:
        yield from (Layout(Form("alone"), (each,)) for each in singles)
    if len(shape) == 2 and shape[1] == 2 * half:
        for doubled in ("halves", "interleaved"):
            yield from (Layout(Form("alone", doubled), (each,)) for each in singles)
        for arrangement in ("halves", "interleaved"):
            yield from (Layout(Form(arrangement), order) for order in orders)
    if len(shape) == 3 and shape[0] == 2 and shape[2] in (half, 2 * half):
        for doubled in ("",) if shape[2] == half else ("halves", "interleaved"):
            yield from (Layout(Form("stacked", doubled), order) for order in orders)
    if len(shape) == 3 and shape[1:] == (half, 2):
        yield from (Layout(Form("pairs"), order) for order in orders)


def positions_in(shape: tuple[int, ...], layout: Layout) -> int:
    """How many positions a table of that shape and layout covers."""
    return shape[1] if layout.form.arrangement == "stacked" else shape[0]


def laid_out(rope: Rope, layout: Layout, shape: tuple[int, ...]) -> Table:
    """The table of a compact rope in a layout that gives it this shape."""
    parts = {table.name: table for table in rope.tensors()}
    tables = [parts[function] for function in layout.functions]
    form = layout.form
    if form.arrangement == "stacked":
        alone = replace(form, arrangement="alone")
        return stacked(tables[0].name, [_joined([table], alone, shape[1:]) for table in tables])
    return _joined(tables, replace(form, arrangement="pairs") if form.arrangement == "complex" else form, shape)


def _joined(parts: list[Table], form: Form, shape: tuple[int, ...]) -> Table:
    """Parts of (positions, frequencies) joined position by position."""
    table = replace(parts[0], shape=shape)
    each = math.prod(shape[1:])

    def fill(start: int, out: Array) -> None:
        begin, end = start * table.width, start * table.width + out.size
        first = begin // each
        block = form.join(*(part.read(first, -(-end // each)) for part in parts))
        out[...] = np.asarray(block).reshape(-1)[begin - first * each :][: out.size].reshape(out.shape)

    return replace(table, fill=fill)


def taken_apart(table: Table, layout: Layout) -> dict[str, Table]:
    """The functions of a table in that layout, each a table of its own, one row per position."""
    positions = positions_in(table.shape, layout)
    if len(layout.functions) == 1:
        return {layout.functions[0]: table}
    if layout.form.arrangement == "stacked":
        rows = reshaped(table, (2 * positions, table.shape[-1]))
        starts = zip(layout.functions, (0, positions), strict=True)
        return {name: _cut(name, rows, range(start, start + positions), slice(None)) for name, start in starts}
    rows = reshaped(table, (positions, table.size // positions))
    half = rows.width // 2
    in_turn = slice(0, None, 2), slice(1, None, 2)
    columns = (slice(0, half), slice(half, None)) if layout.form.arrangement == "halves" else in_turn
    parts = zip(layout.functions, columns, strict=True)
    return {name: _cut(name, rows, range(positions), part) for name, part in parts}


def _cut(name: str, table: Table, rows: range, columns: slice) -> Table:
    """Some rows and columns of a table."""
    width = len(range(*columns.indices(table.width)))

    def fill(start: int, out: Array) -> None:
        out[...] = table.read(rows.start + start, rows.start + start + len(out))[:, columns]

    return Table(name, table.dtype, (len(rows), width), fill, table.in_order)


@dataclass(frozen=True)
class Place:
    """Where a table is read, and how it was computed: the position of its first row, the length that dynamic scalings
    go by, the recipe or the runtime.
    """

    offset: int | None = None
    length: int | None = None
    recipe: str = "exact"
    runtime: str = "none"
    ends: tuple[int, ...] = ()
    """Where tables in the same file end, which frequencies may have been read at, too."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Positions that are no range: `positions`, or `grid` and what belongs to it."""

    def rows(self, count: int) -> dict[str, Any]:
        """The parameters that say where so many rows are."""
        return dict(self.own) if self.own else {"seq_len": count, "offset": self.offset or 0}

    def computed(self) -> dict[str, str]:
        """What rotary schemes are made with."""
        return {"recipe": self.recipe, "runtime": self.runtime}


@dataclass(frozen=True)
class Reading:
    """A tensor as the file has it, the table that it should be, and how that is laid out, in words."""

    found: Table
    expected: Table
    encoding: Encoding
    words: str
    scheme: Scheme | None
    """None where the values are learned, so that only the shape can be right or wrong."""
    name: str
    """The scheme's name for such a tensor."""
    layout: Layout | None = None
    view: View | None = None
    """How its axes were seen."""

    def parts(self) -> dict[str, Table]:
        """What was found, by the names of the scheme's tensors; of copies, one."""
        one = self.found if self.view is None or not self.view.repeated else self.view.one
        return {self.name: one} if self.layout is None else taken_apart(one, self.layout)

    def seen(self, view: View) -> Reading:
        """The same reading of all copies of the table."""
        words = ", ".join(filter(None, (self.words, view.note)))
        if not view.repeated:
            return replace(self, words=words, view=view)
        return replace(self, found=view.whole, expected=view.expand(self.expected), words=words, view=view)

    def copies_differ(self) -> bool:
        """Whether it is read as copies of one table that are not all alike."""
        return self.view is not None and self.view.copies_differ()

    def distance(self) -> float:
        """How far off it is on the whole, going by a few positions."""
        return 0.0 if self.scheme is None else distance(self.expected, self.found)

    def is_doubled(self) -> bool:
        """Whether columns come twice in the very way of this reading, whatever the values are."""
        return is_doubled(self.found, "" if self.layout is None else self.layout.form.doubled)


def readings(
    encoding: Encoding, table: Table, role: str | None, place: Place, *, repeated: bool = False
) -> list[Reading]:
    """Everything that the tensor can be of this encoding, the likelier things first; or what it can be if some of its
    axes only repeat a table.
    """
    role = None if role == ANYTHING else role
    kinds = {"rope": _rope, "alibi": _alibi, "sinusoidal": _sinusoidal, "learned": _learned, "relative": _relative}
    if encoding.scheme not in kinds or not table.size or (table.dtype in COMPLEX and not encoding.is_rotary):
        return []
    read = kinds[encoding.scheme]
    if not repeated:
        return [each.seen(view) for view in views(table) for each in read(encoding, view.one, role, place)]
    seen = repeats(as_pairs(table) if table.dtype in COMPLEX else table)
    found = [each.seen(view) for view in seen for each in read(encoding, view.one, role, place)]
    return [each for each in found if each.scheme is not None or not each.copies_differ()]


def _dtype(table: Table, *, relative: bool = False) -> str:
    """That of the expected table: the file's own, where a table can have it; frequencies and slopes are not expected
    in half precision.
    """
    return table.dtype if table.dtype in (("float64",) if relative else SIGNIFICAND_BITS) else "float32"


def _rope(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    role = None if role == "rows" else role  # which says that it is a table, not of what
    half, complex_numbers = (encoding.axis_dim or 0) // 2, view.dtype in COMPLEX
    if role in ("inv_freq", None) and view.size == half == max(view.shape, default=1) and not complex_numbers:
        yield from _inverse_frequencies(encoding, view, place)
    if "axes" in encoding.extra and not place.own:  # positions in a plane: no row is one position
        return
    if place.own:
        half = encoding.rope(**place.own).rotary_dim // 2
    found = as_pairs(view) if complex_numbers else view
    ropes: dict[int, Any] = {}
    for layout in layouts(found.shape, half, role, pairs_are_complex=complex_numbers):
        count = positions_in(found.shape, layout)
        if count not in ropes:
            common: dict[str, Any] = {"dtype": _dtype(found), **place.computed()}
            ropes[count] = encoding.rope(**place.rows(count), length=place.length, **common)
        rope = ropes[count]
        if rope.seq_len != count:
            continue
        expected = laid_out(rope, layout, found.shape)
        name = layout.functions[0] if len(layout.functions) == 1 else "cos_sin"
        scheme = replace(rope, layout=layout.form.doubled or "compact")
        yield Reading(found, expected, encoding, layout.words(), scheme, name, layout)


def _inverse_frequencies(encoding: Encoding, view: Table, place: Place) -> Iterator[Reading]:
    """As before any call, or as at the length of tables beside; in the model's order, or as tables have them."""
    order = encoding.extra.get("order")
    orders = {"": None} if order is None else {"axis by axis": order, "interleaved": None}
    lengths = {"": place.length or 1}
    if place.length is None and encoding.follows_length:
        lengths |= {f"at length {end}": end for end in place.ends}
    for at, length in lengths.items():
        rope = encoding.frequency_rope(length, **place.computed())
        for how, kept in orders.items():
            yield _frequencies(encoding, view, rope, kept, ", ".join(filter(None, (how, at))))


def _frequencies(encoding: Encoding, view: Table, rope: Rope, order: list[int] | None, words: str) -> Reading:
    from pecli.engine.numerics.rounding import round_fixed

    dtype = _dtype(view, relative=True)

    def numbers() -> list[float]:
        if rope.recipe != "exact" or rope.runtime != "none":
            (table,) = (each for each in rope.tensors() if each.name == "inv_freq")
            return [float(value) for value in cast(table, dtype).array()]
        values, bits, _ = rope.frequencies()
        return [round_fixed(value, bits, dtype) for value in values]

    def fill(start: int, out: Array) -> None:
        values = numbers()
        kept = values if order is None else [values[k] for k in order]
        out[:, 0] = kept[start : start + len(out)]

    flat = reshaped(view, (view.size,))
    expected = Table("inv_freq", dtype, flat.shape, fill)
    return Reading(flat, expected, encoding, words, rope, "inv_freq")


def _alibi(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    from pecli.engine.schemes.alibi import Alibi

    heads = encoding.parameters["heads"]
    common = {"heads": heads, "max_bias": encoding.parameters["max_bias"], "dtype": _dtype(view)}
    if role in ("slopes", None) and view.shape == (heads,):
        scheme = Alibi(slopes=True, **{**common, "dtype": _dtype(view, relative=True)})
        for expected, words in _slopes(scheme, encoding):
            yield Reading(view, expected, encoding, words, scheme, "slopes")
    if role not in ("bias", None) or view.shape[:1] != (heads,) or len(view.shape) not in (2, 3):
        return
    length = view.shape[-1]
    forms = ["key", "key-last"] if len(view.shape) == 2 or view.shape[1] == 1 else ["symmetric", "causal"]
    if len(view.shape) == 3 and view.shape[1] not in (1, length):
        return
    for form in sorted(forms, key=lambda form: form != encoding.parameters["form"]):
        scheme = Alibi(seq_len=length, form=form, **common)
        for expected, words in _biases(scheme, encoding):
            yield Reading(view, reshaped(expected, view.shape), encoding, f"in the {form} form{words}", scheme, "bias")


def _slopes(scheme: Alibi, encoding: Encoding) -> Iterator[tuple[Table, str]]:
    """The slopes, and as the model rounds them."""
    yield scheme.tensors()[0], ""
    if rounded := encoding.extra.get("slope_dtype"):
        yield cast(replace(scheme, dtype=rounded).tensors()[0], scheme.dtype), f"rounded to {rounded}"


def _biases(scheme: Alibi, encoding: Encoding) -> Iterator[tuple[Table, str]]:
    """The bias, and as the model computes it: from rounded slopes, divided as the scores are."""
    exact, rounded, divisor = scheme.tensors()[0], encoding.extra.get("slope_dtype"), encoding.extra.get("bias_divisor")
    found = [(exact, "")]
    if rounded and scheme.form == "key":
        found.append((_product(scheme, rounded), f", slopes and products rounded to {rounded}"))
    yield from found
    if divisor:
        for table, words in found:
            yield _divided(table, divisor), f"{words}, divided by √head_dim"


def _product(scheme: Alibi, dtype: str) -> Table:
    """Slope times position with both factors and the product in a dtype, as transformers computes Falcon's."""
    (bias,) = scheme.tensors()[:1]
    (slopes,) = replace(scheme, slopes=True, dtype=dtype).tensors()

    def fill(start: int, out: Array) -> None:
        positions = widened(round_to(np.arange(out.shape[1], dtype=np.float64), dtype))
        heads = widened(slopes.read(start, start + len(out))).reshape(-1, 1)
        out[...] = round_to(widened(round_to(heads * positions, dtype)), bias.dtype)

    return replace(bias, fill=fill)


def _divided(table: Table, divisor: float) -> Table:
    by = float(np.float32(divisor))

    def fill(start: int, out: Array) -> None:
        out[...] = round_to(widened(table.read(start, start + len(out))) / by, table.dtype)

    return replace(table, fill=fill)


def _sinusoidal(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    from pecli.engine.schemes.sinusoidal import Sinusoidal

    given = {**encoding.parameters, "recipe": place.recipe, "dtype": _dtype(view)}
    if role not in ("rows", None) or len(view.shape) != 2 or view.shape[1] != given["dim"]:
        return
    stated = given.pop("offset", 0)
    if place.own or "grid" in given:
        given = {key: value for key, value in given.items() if key not in ("seq_len", "layout", "freq_shift")}
        scheme = Sinusoidal(**{**given, **place.own})
        if scheme.rows == view.shape[0]:
            yield Reading(view, scheme.tensors()[0], encoding, f"as in {given['style']}", scheme, "pe")
        return
    for offset in dict.fromkeys((stated, 0) if place.offset is None else (place.offset,)):
        scheme = Sinusoidal(**{**given, "seq_len": view.shape[0]}, offset=offset)
        words = f"as in {given['style']}" + (f", from position {offset}" if offset or stated else "")
        yield Reading(view, scheme.tensors()[0], encoding, words, scheme, "pe")


def _relative(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    from pecli.engine.schemes.relative import Relative

    given: dict[str, Any] = {name: value for name, value in encoding.parameters.items() if name != "seq_len"}
    if role not in ("index", None) or len(view.shape) != 2 or view.shape[0] != view.shape[1]:
        return
    scheme = Relative(**given, seq_len=None if "grid" in given else view.shape[0])
    if scheme.length == view.shape[0]:
        yield Reading(view, scheme.tensors()[0], encoding, f"as in {scheme.style}", scheme, "index")


def _learned(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    shape = (encoding.parameters["max_len"], encoding.parameters["dim"])
    if role in ("rows", None) and view.shape == shape:
        words = "values are learned; the shape is right"
        yield Reading(view, replace(view, name="weight"), encoding, words, None, "weight")
