"""What a tensor of a file can be: the tables of a scheme, or of a model's encodings.

A configuration fixes the numbers, not how they are arranged: that is up to the file, and found out in `reading`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from pecli.compare.target import PLURALS, Making, Origin, Target, fixed
from pecli.engine.arrays import (
    COMPLEX,
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    as_dtype,
    dtype_name,
    round_to,
    widened,
)
from pecli.engine.schemes import rope_parameters
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import LAST_POSITION, PositionList
from pecli.engine.schemes.parameters import Choice, Parameter, Whole
from pecli.engine.schemes.recipes import RECIPE
from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme, holds_several
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import Encoding

OWN_POSITIONS = (
    "positions",
    "grid",
    "keep",
    "grid_base",
    "grid_scale",
)  #: what says where rows are if in no range
DOUBLED_LAYOUTS = ("halves", "interleaved")
PLACES: Mapping[str, Parameter] = {
    "offset": Whole(help="position of the first row", low=0, high=LAST_POSITION),
    "length": Whole(help="the length that dynamic scalings are read at", high=LAST_POSITION),
    "recipe": RECIPE,
    "runtime": rope_parameters.RUNTIME,
    "layout": Choice(help="how columns come twice", options=DOUBLED_LAYOUTS),
    "seq_axis": Whole(help="the axis of positions of queries or keys", low=-64, high=64),
    **{name: Rope.parameters()[name] for name in OWN_POSITIONS},
}
"""Where the tables of a model are read, and how they were computed."""


@dataclass(frozen=True)
class Place:
    """Where a table is read, and how it was computed."""

    offset: int | None = None  #: the position of its first row
    length: int | None = None  #: what dynamic scalings go by
    recipe: str = "exact"
    runtime: str = "none"
    layout: str = ""  #: how columns are meant to be doubled
    ends: tuple[
        int, ...
    ] = ()  #: where tables in the same file end, which frequencies may have been read at, too
    own: Mapping[str, Any] = field(
        default_factory=dict
    )  #: `positions`, or `grid` and its own, where they are no range

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Place":
        for name in given:
            if name not in PLACES or name == "seq_axis":
                raise KindError(name, "given", "a model has no such option", "leave it out")
        known = {
            name: PLACES[name].check(name, value)
            for name, value in given.items()
            if value is not None
        }
        own = {name: known.pop(name) for name in OWN_POSITIONS if name in known}
        if own and "offset" in known:
            raise ParameterError(
                "offset", known["offset"], "positions are given otherwise", "leave it out"
            )
        return cls(**known, own=own)

    def rope(self, encoding: Encoding, count: int, **others: Any) -> Rope:
        rows = self.own or {"seq_len": count, "offset": self.offset or 0}
        return encoding.rope(
            **rows, length=self.length, recipe=self.recipe, runtime=self.runtime, **others
        )


def scheme_targets(scheme: Scheme) -> list[Target]:
    """The tables of a scheme; of a bundle, those of each of its parts by their own names."""
    targets: list[Target] = []
    for part, one in scheme.named_parts():
        prefix = f"{part}." if part else ""
        layout: str = one.value_of("layout", "")
        tables = {table.name: table for table in one.tensors()}
        if {*PLURALS} <= tables.keys():
            changes: dict[str, Any] = {} if layout in ("", "compact") else {"layout": "compact"}
            compact = replace(one, **changes)
            waves = {
                prefix + table.name: table for table in compact.tensors() if table.name in PLURALS
            }
            doubled = layout if layout in DOUBLED_LAYOUTS else ""
            targets += _wave_targets(fixed(waves, scheme if part else compact, layout=doubled))
        common = {"quantised": "pe" in tables, "masked": "bias" in tables}
        others = [table for name, table in tables.items() if name not in PLURALS]
        targets += [fixed({prefix + table.name: table}, scheme, **common) for table in others]
        if not holds_several(scheme) and (single := scheme.single_array()).name not in (
            *tables,
            "cos_sin",
        ):
            targets.append(fixed({single.name: single}, scheme))
    return targets


def _wave_targets(both: Target) -> Iterator[Target]:
    cos, sin = both.names
    for some in ((cos,), (sin,), (cos, sin), (sin, cos)):
        yield replace(both, names=some, waves=True, transposable=True, quantised=True)


def model_targets(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    """Every table of an encoding that a tensor of this role, or of any, can be, the likelier ones first."""
    kinds = {
        "rope": _rope,
        "alibi": _alibi,
        "sinusoidal": _sinusoidal,
        "learned": _learned,
        "relative": _relative,
    }
    if role == "rows" and encoding.is_rotary:
        role = None  # it says that it is a table, not of what
    if encoding.scheme not in kinds or not array.shape or not array.size:
        return
    for target in kinds[encoding.scheme](encoding, array, role, place):
        if role is None or (
            (role_of(target.name) or target.name) == role and target.names != ("sin", "cos")
        ):
            yield replace(target, origin=Origin(encoding.scheme, encoding.layer_type))


def real_dtype(array: AnyArray) -> str:
    """The name of an array's dtype, of complex numbers that of their parts."""
    name = dtype_name(array.dtype)
    return COMPLEX.get(name, name)


def _dtype(array: AnyArray, *, relative: bool = False) -> str:
    """That of the expected table: the file's own, where a table can have it; no half precision where it is relative."""
    name = real_dtype(array)
    return name if name in (("float64",) if relative else SIGNIFICAND_BITS) else "float32"


def _rope(encoding: Encoding, array: AnyArray, role: str | None, place: Place) -> Iterator[Target]:
    if role in ("inv_freq", None):
        yield from _inverse_frequencies(encoding, array, place)
    no_rows = encoding.grid.axes or encoding.no_table  # that are at one position each
    axes: tuple[tuple[Any, ...], ...] = (
        place.own["positions"].axes if "positions" in place.own else ()
    )
    of_text = encoding.part and len(axes) > (
        encoding.grid.axes or len(axes)
    )  # positions (t, h, w) are no patches'
    if role == "inv_freq" or (no_rows and not place.own) or of_text:
        return
    dtype, layout = (
        _dtype(array),
        place.layout,
    )  # where either way of doubling will do, none is named
    if not layout and encoding.layout is not None and not encoding.tables_in_halves:
        layout = "interleaved" if encoding.layout == "interleaved" else "halves"

    @cache
    def make(rows: int) -> Making:
        rope = place.rope(encoding, rows, dtype=dtype)
        return Making(
            rope, {table.name: table for table in rope.tensors() if table.name in PLURALS}
        )

    rows, width = make(1).tables["cos"].shape
    yield from _wave_targets(
        Target((*PLURALS,), (rows if place.own else None, width), make, layout=layout)
    )
    if len(axes) < 2 or encoding.grid.axes:
        return
    # a table for each axis of positions, before sections are taken from them, as Qwen2-VL's rotary module has it
    every = PositionList(chain.from_iterable(axes))
    rope = replace(place, own={"positions": every}).rope(encoding, len(every), dtype=dtype)
    rope = replace(rope, mrope_section=None, mrope_interleaved=None)
    words = "one table per axis of positions: sections do not show"
    for table in rope.tensors():
        if table.name in PLURALS:
            expected = replace(table, shape=(len(axes), len(axes[0]), table.width))
            yield fixed({table.name: expected}, rope, waves=True, layout=layout, words=words)


def _inverse_frequencies(encoding: Encoding, array: AnyArray, place: Place) -> Iterator[Target]:
    """As before any call, or as at the length of tables beside; in the model's order, or as tables have them."""
    order = encoding.order
    orders = {"": None} if order is None else {"axis by axis": order, "interleaved": None}
    lengths = {"": place.length or 1}
    if place.length is None and encoding.follows_length:
        lengths |= {f"at length {end}": end for end in place.ends}
    for at, length in lengths.items():
        rope = encoding.frequency_rope(length, recipe=place.recipe, runtime=place.runtime)
        (table,) = (table for table in rope.tensors() if table.name == "inv_freq")
        made = as_dtype(table.array(), _dtype(array, relative=True))
        for how, places in orders.items():
            expected: Array = made if places is None else made[list(places)]
            yield fixed({"inv_freq": expected}, rope, words=", ".join(filter(None, (how, at))))


def _alibi(encoding: Encoding, array: AnyArray, role: str | None, place: Place) -> Iterator[Target]:
    """Exact; and as the model computes it, from rounded slopes, divided as the scores are."""
    rounded, divisor = encoding.slope_dtype, encoding.bias_divisor
    common = {name: encoding.parameters[name] for name in ("heads", "max_bias")}
    scheme = Alibi(slopes=True, dtype=_dtype(array, relative=True), **common)
    yield fixed({"slopes": scheme.tensors()[0]}, scheme)
    slopes = scheme.in_dtype(rounded or "float64").tensors()[0].array()
    if rounded:
        yield fixed(
            {"slopes": as_dtype(slopes, scheme.dtype)}, scheme, words=f"rounded to {rounded}"
        )
    forms = ("symmetric", "causal", "key", "key-last")
    for form in sorted(forms, key=lambda form: form != encoding.parameters["form"]):
        scheme = Alibi(seq_len=array.shape[-1], form=form, dtype=_dtype(array), **common)
        words = f"in the {form} form"
        yield fixed({"bias": scheme.tensors()[0]}, scheme, words=words, masked=True)
        if form != "key" or not (rounded or divisor):
            continue
        biases = {words: widened(scheme.tensors()[0].array())}
        if rounded:  # both factors and the product, as transformers computes Falcon's
            positions = widened(round_to(np.arange(array.shape[-1], dtype=np.float64), rounded))
            product = widened(round_to(widened(slopes)[:, None, None] * positions, rounded))
            biases[f"{words}, slopes and products rounded to {rounded}"] = product
        if divisor:
            scaled = {words: bias / float(np.float32(divisor)) for words, bias in biases.items()}
            biases |= {f"{words}, divided by √head_dim": bias for words, bias in scaled.items()}
        for words, bias in biases.items():
            yield fixed({"bias": round_to(bias, scheme.dtype)}, scheme, words=words, masked=True)


def _sinusoidal(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    given = {**encoding.parameters, "recipe": place.recipe, "dtype": _dtype(array)}
    stated = given.pop("offset", 0)
    words = f"as in {given['style']}"
    if place.own or "grid" in given:
        given = {
            key: value
            for key, value in given.items()
            if key not in ("seq_len", "layout", "freq_shift")
        }
        scheme = Sinusoidal(**{**given, **place.own})
        yield fixed({"pe": scheme.tensors()[0]}, scheme, words=words, quantised=True)
        return
    for offset in dict.fromkeys((stated, 0) if place.offset is None else (place.offset,)):

        @cache
        def make(rows: int, offset: int = offset) -> Making:
            scheme = Sinusoidal(**{**given, "seq_len": rows}, offset=offset)
            return Making(scheme, {"pe": scheme.tensors()[0]})

        where = words + (f", from position {offset}" if offset or stated else "")
        yield Target(("pe",), (None, given["dim"]), make, words=where, quantised=True)


def _relative(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    given: dict[str, Any] = {
        name: value for name, value in encoding.parameters.items() if name != "seq_len"
    }
    scheme = Relative(**given, seq_len=None if "grid" in given else array.shape[-1])
    if role == "bias_rows":  # a row for each number, a column for each head
        yield _values(role, array, (scheme.numbers, array.shape[-1]))
    else:
        yield fixed({"index": scheme.tensors()[0]}, scheme, words=f"as in {scheme.style}")


def _learned(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    yield _values("weight", array, (encoding.parameters["max_len"], encoding.parameters["dim"]))


def _values(name: str, array: AnyArray, shape: tuple[int, int]) -> Target:
    nothing = np.broadcast_to(np.zeros((), array.dtype), shape)
    return fixed({name: nothing}, words="values are learned; the shape is right")
