"""What a tensor of a file can be, for a model: every table of its encodings that has such a shape.

A configuration fixes the numbers, not their layout: each reading is one layout that the tensor may have, with the
table that it then has to equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.same_table import Reading, changed
from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table, cast, reshaped, stacked, table_of
from pecli.errors import KindError, ParameterError
from pecli.explain.forms import ARRANGEMENTS, Form, columns
from pecli.models.encoding import Encoding

if TYPE_CHECKING:
    from pecli.engine.schemes.alibi import Alibi

_PLURALS = {"cos": "cosines", "sin": "sines"}
_BOTH = ("cos", "sin")
_ORDERS = {"both": (_BOTH,), "complex": (_BOTH,), None: (_BOTH, _BOTH[::-1])}
"""Which function may come first, by what a name says: where it says nothing, either, as GPT-J has sines first."""
_FORMS = (
    *(Form("alone", doubled) for doubled in ("", "halves", "interleaved")),
    *(Form("halves"), Form("interleaved")),
    *(Form("stacked", doubled) for doubled in ("", "halves", "interleaved")),
    *(Form("pairs"), Form("complex")),
)
"""The likelier ones first."""


OWN_POSITIONS = ("positions", "grid", "keep", "grid_base", "grid_scale")
"""What says where rows are if not one after the other."""


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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Place:
        """As the options of a check say."""
        for name in given:
            if name not in ("offset", "length", "recipe", "runtime", *OWN_POSITIONS):
                raise KindError(name, "given", "a model has no such option", "leave it out")
        rules = Rope.parameters()
        own = {name: rules[name].check(name, given[name]) for name in OWN_POSITIONS if given.get(name) is not None}
        if own and given.get("offset") is not None:
            raise ParameterError("offset", given["offset"], "positions are given otherwise", "leave it out")
        return cls(**{name: value for name, value in given.items() if name not in OWN_POSITIONS}, own=own)

    def rows(self, count: int) -> dict[str, Any]:
        """The parameters that say where so many rows are."""
        return dict(self.own) if self.own else {"seq_len": count, "offset": self.offset or 0}

    def computed(self) -> dict[str, str]:
        """What rotary schemes are made with."""
        return {"recipe": self.recipe, "runtime": self.runtime}


def readings(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    """Everything that a tensor of this role can be of this encoding, the likelier things first. Complex numbers have
    a last axis of two, and a role of their own; without a role, it can be anything.
    """
    kinds = {"rope": _rope, "alibi": _alibi, "sinusoidal": _sinusoidal, "learned": _learned, "relative": _relative}
    if encoding.scheme in kinds and view.size:
        yield from kinds[encoding.scheme](encoding, view, role, place)


def _dtype(table: Table, *, relative: bool = False) -> str:
    """That of the expected table: the file's own, where a table can have it; frequencies and slopes are not expected
    in half precision.
    """
    return table.dtype if table.dtype in (("float64",) if relative else SIGNIFICAND_BITS) else "float32"


def _rope(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    role = None if role == "rows" else role  # which says that it is a table, not of what
    half = (encoding.axis_dim or 0) // 2
    if role in ("inv_freq", None) and view.size == half == max(view.shape, default=1):
        yield from _inverse_frequencies(encoding, view, place)
    in_a_plane = "axes" in encoding.extra and not place.own  # so that no row is one position
    if in_a_plane or len(view.shape) < 2:
        return
    if place.own:
        half = encoding.rope(**place.own).rotary_dim // 2
    ropes: dict[int, Any] = {}
    for form in _FORMS:
        count = view.shape[1] if form.arrangement == "stacked" else view.shape[0]
        if view.shape != _shape(form, count, half) or (form.arrangement == "complex") != (role == "complex"):
            continue
        if count not in ropes:
            common: dict[str, Any] = {"dtype": _dtype(view), **place.computed()}
            ropes[count] = encoding.rope(**place.rows(count), length=place.length, **common)
        if ropes[count].seq_len != count:
            continue
        alone = [(function,) for function in _BOTH if role in (function, None)]
        for functions in alone if form.arrangement == "alone" else _ORDERS.get(role, ()):
            yield _rotary(encoding, view, ropes[count], form, functions)


def _shape(form: Form, positions: int, half: int) -> tuple[int, ...]:
    width = 2 * half if form.doubled or form.arrangement in ("halves", "interleaved") else half
    shapes = {"stacked": (2, positions, width), "pairs": (positions, half, 2), "complex": (positions, half, 2)}
    return shapes.get(form.arrangement, (positions, width))


def _rotary(encoding: Encoding, view: Table, rope: Rope, form: Form, functions: tuple[str, ...]) -> Reading:
    """One or both functions of a compact rope, in that form and order."""
    tables = {table.name: table for table in rope.tensors()}
    made = [tables[function] for function in functions]
    name, words = "cos_sin", ARRANGEMENTS[form.arrangement].format(*map(_PLURALS.get, functions))
    flat = Form("interleaved") if form.arrangement in ("pairs", "complex") else form  # the same, without an axis
    if len(functions) == 1:
        (name,), words = functions, columns(form.doubled)
        parts, expected = {name: view}, _joined(made, form)
    elif form.arrangement == "stacked":
        rows, count = reshaped(view, (2 * rope.seq_len, view.shape[-1])), rope.seq_len
        parts = {each: _cut(rows, k * count, count) for k, each in enumerate(functions)}
        expected = stacked(name, [_joined([table], Form("alone", form.doubled)) for table in made])
        words = f"{words}, {columns(form.doubled)}" if form.doubled else words
    else:
        rows = reshaped(view, (rope.seq_len, view.size // rope.seq_len))
        splits = [partial(_split, flat, k) for k in range(2)]
        parts = {each: changed(rows, split, rows.width // 2) for each, split in zip(functions, splits, strict=True)}
        expected = reshaped(_joined(made, flat), view.shape)
    scheme = replace(rope, layout=form.doubled or "compact")
    return Reading(view, replace(expected, name=name), parts, words, form.doubled, scheme, encoding)


def _split(form: Form, number: int, rows: Array) -> Array:
    return (form.split(rows) or ())[number]


def _joined(parts: list[Table], form: Form) -> Table:
    """Parts of (positions, frequencies) joined row by row."""

    def fill(start: int, out: Array) -> None:
        out[...] = form.join(*(part.read(start, start + len(out)) for part in parts))

    width = len(parts) * parts[0].width * (2 if form.doubled else 1)
    return replace(parts[0], shape=(parts[0].rows, width), fill=fill)


def _cut(table: Table, first: int, count: int) -> Table:
    """Some rows of a table."""
    return replace(table, shape=(count, table.width), fill=lambda start, out: table.fill(first + start, out))


def _inverse_frequencies(encoding: Encoding, view: Table, place: Place) -> Iterator[Reading]:
    """As before any call, or as at the length of tables beside; in the model's order, or as tables have them."""
    order = encoding.extra.get("order")
    orders = {"": None} if order is None else {"axis by axis": order, "interleaved": None}
    lengths = {"": place.length or 1}
    if place.length is None and encoding.follows_length:
        lengths |= {f"at length {end}": end for end in place.ends}
    flat = reshaped(view, (view.size,))
    for at, length in lengths.items():
        rope = encoding.frequency_rope(length, **place.computed())
        (made,) = (cast(each, _dtype(view, relative=True)) for each in rope.tensors() if each.name == "inv_freq")
        for how, kept in orders.items():
            expected = made if kept is None else table_of("inv_freq", made.array()[kept])
            words = ", ".join(filter(None, (how, at)))
            yield Reading(flat, expected, {"inv_freq": flat}, words, "", rope, encoding)


def _alibi(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    """Exact; and as the model computes it, from rounded slopes, divided as the scores are."""
    from pecli.engine.schemes.alibi import Alibi

    heads, shape = encoding.parameters["heads"], view.shape
    rounded, divisor = encoding.extra.get("slope_dtype"), encoding.extra.get("bias_divisor")
    common = {"heads": heads, "max_bias": encoding.parameters["max_bias"]}
    if role in ("slopes", None) and shape == (heads,):
        scheme = Alibi(slopes=True, dtype=_dtype(view, relative=True), **common)
        found = {"": scheme.tensors()[0]}
        if rounded:
            found[f"rounded to {rounded}"] = cast(scheme.in_dtype(rounded).tensors()[0], scheme.dtype)
        for words, expected in found.items():
            yield Reading(view, expected, {"slopes": view}, words, "", scheme, encoding)
    by_key = len(shape) == 2 or (len(shape) == 3 and shape[1] == 1)
    if role not in ("bias", None) or shape[:1] != (heads,) or not (by_key or shape[1:] == shape[-1:] * 2):
        return
    forms = ["key", "key-last"] if by_key else ["symmetric", "causal"]
    for form in sorted(forms, key=lambda form: form != encoding.parameters["form"]):
        scheme = Alibi(seq_len=shape[-1], form=form, dtype=_dtype(view), **common)
        found = {"": scheme.tensors()[0]}
        if rounded and form == "key":
            found[f", slopes and products rounded to {rounded}"] = _product(scheme, rounded)
        if divisor:
            found |= {f"{words}, divided by √head_dim": _divided(table, divisor) for words, table in found.items()}
        for words, expected in found.items():
            bias = reshaped(expected, shape)
            yield Reading(view, bias, {"bias": view}, f"in the {form} form{words}", "", scheme, encoding)


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
    return changed(table, lambda rows: round_to(widened(rows) / by, table.dtype), table.width)


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
            yield Reading(view, scheme.tensors()[0], {"pe": view}, f"as in {given['style']}", "", scheme, encoding)
        return
    for offset in dict.fromkeys((stated, 0) if place.offset is None else (place.offset,)):
        scheme = Sinusoidal(**{**given, "seq_len": view.shape[0]}, offset=offset)
        words = f"as in {given['style']}" + (f", from position {offset}" if offset or stated else "")
        yield Reading(view, scheme.tensors()[0], {"pe": view}, words, "", scheme, encoding)


def _relative(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    from pecli.engine.schemes.relative import Relative

    given: dict[str, Any] = {name: value for name, value in encoding.parameters.items() if name != "seq_len"}
    if role not in ("index", None) or len(view.shape) != 2 or view.shape[0] != view.shape[1]:
        return
    scheme = Relative(**given, seq_len=None if "grid" in given else view.shape[0])
    if scheme.length == view.shape[0]:
        yield Reading(view, scheme.tensors()[0], {"index": view}, f"as in {scheme.style}", "", scheme, encoding)


def _learned(encoding: Encoding, view: Table, role: str | None, place: Place) -> Iterator[Reading]:
    shape = (encoding.parameters["max_len"], encoding.parameters["dim"])
    if role in ("rows", None) and view.shape == shape:
        words = "values are learned; the shape is right"
        yield Reading(view, replace(view, name="weight"), {}, words, "", None, encoding)
