"""What a tensor of a file can be, for a model: the tables of its encodings, in every layout.

A configuration fixes the numbers, not their layout: each candidate is one layout that the tensor may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.same_table import Candidate, changed, joined, part_of
from pecli.checks.tensor_roles import role_of
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, round_to, widened
from pecli.engine.schemes.positions import PositionList
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table, cast, reshaped, stacked, table_of
from pecli.errors import KindError, ParameterError
from pecli.explain.forms import ARRANGEMENTS, Form, columns
from pecli.models.encoding import Encoding

if TYPE_CHECKING:
    from pecli.engine.schemes.alibi import Alibi

_PLURALS = {"cos": "cosines", "sin": "sines"}
_ARRANGEMENTS = ("halves", "interleaved", "stacked", "pairs")
"""Of cosines and sines in one array of real numbers, the likelier ones first."""

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

    def rope(self, encoding: Encoding, count: int, **others: Any) -> Rope:
        """The rotary scheme of an encoding for so many rows."""
        rows = self.own or {"seq_len": count, "offset": self.offset or 0}
        return encoding.rope(**rows, length=self.length, recipe=self.recipe, runtime=self.runtime, **others)


def candidates(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    """Every table of an encoding that a tensor of this role can be, the likelier ones first. Complex numbers have a
    last axis of two, and a role of their own; without a role, it can be anything.
    """
    kinds = {"rope": _rope, "alibi": _alibi, "sinusoidal": _sinusoidal, "learned": _learned, "relative": _relative}
    if role == "rows" and encoding.is_rotary:
        role = None  # it says that it is a table, not of what
    if encoding.scheme not in kinds or not tensor.shape or not tensor.size:
        return
    for each in kinds[encoding.scheme](encoding, tensor, role, place):
        name = each.table.name
        if role is None or (role_of(name) or name) == ("both" if role == "complex" else role):
            yield replace(each, encoding=encoding)


def _dtype(table: Table, *, relative: bool = False) -> str:
    """That of the expected table: the file's own, where a table can have it; frequencies and slopes are not expected
    in half precision.
    """
    return table.dtype if table.dtype in (("float64",) if relative else SIGNIFICAND_BITS) else "float32"


def _rope(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    if role in ("inv_freq", None):
        yield from _inverse_frequencies(encoding, tensor, place)
    if role == "inv_freq" or len(tensor.shape) < 2:
        return
    dim = encoding.axis_dim or 0
    no_rows = "axes" in encoding.extra or encoding.no_table  # that are at one position each
    if not place.own and (no_rows or tensor.shape[-1] not in (2, dim // 2, dim)):
        return
    for count in filter(None, dict.fromkeys((tensor.shape[0], tensor.rows // 2))):
        rope = place.rope(encoding, count, dtype=_dtype(tensor))
        tables = {table.name: table for table in rope.tensors()}
        if role != "complex":
            yield from (Candidate(tables[name], rope, columns("")) for name in _PLURALS)
            yield from _by_axis(encoding, tensor, place)
        for first, second in (("cos", "sin"), ("sin", "cos")) if role is None else (("cos", "sin"),):
            for arrangement in ("complex",) if role == "complex" else _ARRANGEMENTS:
                expected = _arranged([tables[first], tables[second]], arrangement)
                words = ARRANGEMENTS[arrangement].format(_PLURALS[first], _PLURALS[second])
                yield Candidate(expected, rope, words, split=partial(_split, (first, second), arrangement))


def _by_axis(encoding: Encoding, tensor: Table, place: Place) -> Iterator[Candidate]:
    """A table for each axis of positions, before sections are taken from them, as Qwen2-VL's rotary module has it."""
    axes: tuple[tuple[Any, ...], ...] = place.own["positions"].axes if "positions" in place.own else ()
    if len(axes) < 2 or tensor.shape[0] != len(axes) or "axes" in encoding.extra:
        return
    every = PositionList(chain.from_iterable(axes))
    rope = replace(place, own={"positions": every}).rope(encoding, len(every), dtype=_dtype(tensor))
    rope = replace(rope, mrope_section=None, mrope_interleaved=None)
    for table in rope.tensors():
        if table.name in _PLURALS:
            expected = reshaped(table, (len(axes), len(axes[0]), table.width))
            split = partial(_in_one_axis, table.name)
            yield Candidate(expected, rope, "one table per axis of positions: sections do not show", split=split)


def _in_one_axis(name: str, tensor: Table) -> dict[str, Table]:
    return {name: reshaped(tensor, (tensor.rows, tensor.width))}


def _arranged(parts: list[Table], arrangement: str) -> Table:
    """Cosines and sines of (positions, frequencies) in one array."""
    if arrangement == "stacked":
        return stacked("cos_sin", parts)
    rows = replace(joined(parts, Form("halves" if arrangement == "halves" else "interleaved")), name="cos_sin")
    return reshaped(rows, (*parts[0].shape, 2)) if arrangement in ("pairs", "complex") else rows


def _split(names: tuple[str, str], arrangement: str, tensor: Table) -> dict[str, Table]:
    """The parts of a tensor that is so arranged."""
    if arrangement == "stacked":
        count = tensor.rows // 2
        half = replace(tensor, shape=tensor.shape[1:])
        second = replace(half, fill=lambda start, out: tensor.fill(count + start, out))
        return dict(zip(names, (half, second), strict=True))
    rows = reshaped(tensor, (tensor.shape[0], tensor.size // tensor.shape[0]))
    layout = "halves" if arrangement == "halves" else "interleaved"
    return {name: part_of(rows, layout, number) for number, name in enumerate(names)}


def _inverse_frequencies(encoding: Encoding, tensor: Table, place: Place) -> Iterator[Candidate]:
    """As before any call, or as at the length of tables beside; in the model's order, or as tables have them."""
    order = encoding.extra.get("order")
    orders = {"": None} if order is None else {"axis by axis": order, "interleaved": None}
    lengths = {"": place.length or 1}
    if place.length is None and encoding.follows_length:
        lengths |= {f"at length {end}": end for end in place.ends}
    for at, length in lengths.items():
        rope = encoding.frequency_rope(length, recipe=place.recipe, runtime=place.runtime)
        (made,) = (cast(each, _dtype(tensor, relative=True)) for each in rope.tensors() if each.name == "inv_freq")
        for how, places in orders.items():
            expected = made if places is None else table_of("inv_freq", made.array()[places])
            yield Candidate(expected, rope, ", ".join(filter(None, (how, at))))


def _alibi(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    """Exact; and as the model computes it, from rounded slopes, divided as the scores are."""
    from pecli.engine.schemes.alibi import Alibi

    rounded, divisor = encoding.extra.get("slope_dtype"), encoding.extra.get("bias_divisor")
    common = {name: encoding.parameters[name] for name in ("heads", "max_bias")}
    scheme = Alibi(slopes=True, dtype=_dtype(tensor, relative=True), **common)
    yield Candidate(scheme.tensors()[0], scheme)
    if rounded:
        yield Candidate(cast(scheme.in_dtype(rounded).tensors()[0], scheme.dtype), scheme, f"rounded to {rounded}")
    forms = ("symmetric", "causal", "key", "key-last")
    for form in sorted(forms, key=lambda form: form != encoding.parameters["form"]):
        scheme = Alibi(seq_len=tensor.shape[-1], form=form, dtype=_dtype(tensor), **common)
        found = {f"in the {form} form": scheme.tensors()[0]}
        if rounded and form == "key":
            found[f"in the {form} form, slopes and products rounded to {rounded}"] = _product(scheme, rounded)
        if divisor:
            found |= {f"{words}, divided by √head_dim": _divided(table, divisor) for words, table in found.items()}
        yield from (Candidate(table, scheme, words) for words, table in found.items())


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
    return changed(table, lambda rows: round_to(widened(rows) / by, table.dtype))


def _sinusoidal(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    from pecli.engine.schemes.sinusoidal import Sinusoidal

    given = {**encoding.parameters, "recipe": place.recipe, "dtype": _dtype(tensor)}
    stated = given.pop("offset", 0)
    words = f"as in {given['style']}"
    if place.own or "grid" in given:
        given = {key: value for key, value in given.items() if key not in ("seq_len", "layout", "freq_shift")}
        scheme = Sinusoidal(**{**given, **place.own})
        yield Candidate(scheme.tensors()[0], scheme, words)
        return
    for offset in dict.fromkeys((stated, 0) if place.offset is None else (place.offset,)):
        scheme = Sinusoidal(**{**given, "seq_len": tensor.shape[0]}, offset=offset)
        yield Candidate(scheme.tensors()[0], scheme, words + (f", from position {offset}" if offset or stated else ""))


def _relative(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    from pecli.engine.schemes.relative import Relative

    given: dict[str, Any] = {name: value for name, value in encoding.parameters.items() if name != "seq_len"}
    scheme = Relative(**given, seq_len=None if "grid" in given else tensor.shape[-1])
    yield Candidate(scheme.tensors()[0], scheme, f"as in {scheme.style}")


def _learned(encoding: Encoding, tensor: Table, role: str | None, place: Place) -> Iterator[Candidate]:
    if tensor.shape == (encoding.parameters["max_len"], encoding.parameters["dim"]):
        yield Candidate(replace(tensor, name="weight"), words="values are learned; the shape is right")
