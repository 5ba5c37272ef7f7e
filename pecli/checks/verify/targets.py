"""The tables that a tensor of a file may hold: the tables of a scheme, or of a model's encodings.

A configuration fixes the numbers, not how they are arranged: that is up to the file, and found out in `reading`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.verify.alibi_parts import alibi_parts
from pecli.compare.forms import DOUBLED_LAYOUTS
from pecli.compare.target import PLURALS, Making, Origin, Target, fixed
from pecli.engine.arrays import (
    COMPLEX,
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Floats,
    as_dtype,
    dtype_name,
    round_to,
    widened,
)
from pecli.engine.named_values import NamedValues
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
from pecli.files.contents import LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import Encoding

OWN_POSITIONS = ("positions", "grid", "keep", "grid_base", "grid_scale")
"""Options that state where rows are, if they are not a range."""
COS_FIRST = ("cos", "sin")  #: the order in names such as freqs_cis, which do not state it
ALIBI_FORMS = ("symmetric", "causal", "key", "key-last")
PLACES: Mapping[str, Parameter] = {
    "offset": Whole(help="position of the first row", low=0, high=LAST_POSITION),
    "length": Whole(help="the length that dynamic scalings are read at", high=LAST_POSITION),
    "recipe": RECIPE,
    "runtime": rope_parameters.RUNTIME,
    "layout": Choice(help="how columns are doubled", options=DOUBLED_LAYOUTS),
    "seq_axis": Whole(help="the axis of positions of queries or keys", low=-64, high=64),
    **{name: Rope.parameters()[name] for name in OWN_POSITIONS},
}
"""The positions of a model's tables, and the way they were computed."""


@dataclass(frozen=True)
class Place:
    """The positions of a table, and the way it was computed.

    Attributes:
        offset: The position of its first row.
        length: The length at which dynamic scalings are read.
        recipe: The precision recipe that computed it.
        runtime: The runtime that computed it.
        layout: How columns are meant to be doubled.
        ends: Where tables in the same file end; frequencies may have been read there as well.
        own: `positions`, or `grid` and its options, if rows are not a range.
    """

    offset: int | None = None
    length: int | None = None
    recipe: str = "exact"
    runtime: str = "none"
    layout: str = ""
    ends: tuple[int, ...] = ()
    own: NamedValues = field(default_factory=dict)

    @classmethod
    def of(cls, given: NamedValues) -> "Place":
        """Return the place that options describe.

        Raises:
            ParameterError: If an option breaks its rule, or does not go with the others.
        """
        for name in given:
            if name not in PLACES or name == "seq_axis":
                raise KindError(name, "given", "a model has no such option", "leave it out")
        own: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None:
                fields = own if name in OWN_POSITIONS else options
                fields[name] = PLACES[name].check(name, value)
        if own and "offset" in options:
            rule = "positions are given otherwise"
            raise ParameterError("offset", options["offset"], rule, "leave it out")
        return cls(**options, own=own)

    @property
    def position_axes(self) -> tuple[tuple[float, ...], ...]:
        """The given positions, axis by axis; empty if none are given."""
        if "positions" not in self.own:
            return ()
        axes: tuple[tuple[float, ...], ...] = self.own["positions"].axes
        return axes

    def rope(self, encoding: Encoding, count: int, **others: Any) -> Rope:
        rows = self.own or {"seq_len": count, "offset": self.offset or 0}
        return encoding.rope(
            **rows, length=self.length, recipe=self.recipe, runtime=self.runtime, **others
        )


def scheme_targets(scheme: Scheme) -> list[Target]:
    """Return the tables of a scheme; of a bundle, those of each of its parts by their own names."""
    targets: list[Target] = []
    for name, part in scheme.named_parts():
        targets += _part_targets(scheme, part, f"{name}." if name else "")
    return targets


def _part_targets(scheme: Scheme, part: Scheme, prefix: str) -> Iterator[Target]:
    """Yield the tables of a part of a bundle, or of the only part of a scheme.

    The array of a .npy file is one of the tensors, or cosines and sines in one, or has another name.
    """
    tables = {table.name: table for table in part.tensors()}
    if {*PLURALS} <= tables.keys():
        yield from _scheme_waves(scheme, part, prefix)
    options: NamedValues = {
        "quantised": "pe" in tables,
        "masked": "bias" in tables,
        "grid": _grid_of(scheme),
    }
    for name, table in tables.items():
        if name not in PLURALS:
            yield fixed({prefix + name: table}, scheme, **options)
    if holds_several(scheme):
        return
    single = scheme.single_array()
    if single.name not in (*tables, "cos_sin"):
        yield fixed({single.name: single}, scheme)


def _grid_of(scheme: Scheme) -> tuple[int, ...]:
    """Return the sides of a scheme's grid; empty if it has none."""
    return tuple(scheme.value_of("grid", None) or ())


def _scheme_waves(scheme: Scheme, part: Scheme, prefix: str) -> Iterator[Target]:
    """Yield the cosines and sines of a scheme, or of a part of a bundle, with one column per frequency.

    How a file doubles columns is found by the reading; the layout of the scheme is the one wanted.
    """
    layout: str = part.value_of("layout", "")
    compact = part
    if layout not in ("", "compact"):
        changes: NamedValues = {"layout": "compact"}
        compact = replace(part, **changes)
    waves = {prefix + table.name: table for table in compact.tensors() if table.name in PLURALS}
    doubled = layout if layout in DOUBLED_LAYOUTS else ""
    maker = scheme if prefix else compact
    yield from _wave_targets(fixed(waves, maker, layout=doubled, grid=_grid_of(part)))


def _wave_targets(both: Target) -> Iterator[Target]:
    """Yield cosines, sines, and both in either order."""
    cos, sin = both.names
    for names in ((cos,), (sin,), (cos, sin), (sin, cos)):
        yield replace(both, names=names, waves=True, transposable=True, quantised=True)


def model_targets(
    encoding: Encoding,
    array: AnyArray,
    role: str | None,
    place: Place,
    order: tuple[str, str] | None = None,
) -> Iterator[Target]:
    """Yield every table of an encoding that a tensor can be, the likelier ones first.

    Args:
        encoding: One of the model's encodings.
        array: The tensor.
        role: What its name states that it holds; None if it may hold anything.
        place: Where tables are read.
        order: The order of cosines and sines that its name states; None if they may have either.
    """
    tables_of = _TABLES_BY_SCHEME.get(encoding.scheme)
    if tables_of is None or not array.size:
        return
    if role == "rows" and encoding.is_rotary:
        role = None  # The name states that it is a table, not of what.
    if role == "both" and order is None:
        order = COS_FIRST
    origin = Origin(encoding.scheme, encoding.layer_type)
    for target in tables_of(encoding, array, role, place):
        if _has_role(target, role) and has_order(target, order):
            yield replace(target, origin=origin)


def _has_role(target: Target, role: str | None) -> bool:
    """Return True if a target holds what a name states; any target does if the name states nothing."""
    if role is None:
        return True
    return role == (role_of(target.name) or target.name)


def stated_name(file: LoadedFile, tensor: str) -> str:
    """Return the name of a tensor, or that of its file if it has none: `sin_cos.npy` states an order."""
    if tensor == ARRAY_NAME:
        return os.path.splitext(os.path.basename(file.path))[0]
    return tensor


def has_order(target: Target, order: tuple[str, str] | None) -> bool:
    """Return True unless a target has cosines and sines in another order than a name states."""
    if order is None or len(target.names) < 2:
        return True
    return tuple(name.rpartition(".")[2] for name in target.names) == order


def real_dtype(array: AnyArray) -> str:
    """Return the name of an array's dtype; for complex numbers, the dtype of their parts."""
    name = dtype_name(array.dtype)
    return COMPLEX.get(name, name)


def _dtype(array: AnyArray) -> str:
    """Return the dtype of an expected table: the file's, if a table can have it."""
    name = real_dtype(array)
    return name if name in SIGNIFICAND_BITS else "float32"


def _wide_dtype(array: AnyArray) -> str:
    """Return the dtype of expected frequencies or slopes, which half precision would spoil."""
    return "float64" if real_dtype(array) == "float64" else "float32"


def _rope(encoding: Encoding, array: AnyArray, role: str | None, place: Place) -> Iterator[Target]:
    """Yield frequencies, and cosines and sines at the positions of a place, if they are known."""
    if role in ("inv_freq", None):
        yield from _inverse_frequencies(encoding, array, place)
    place = _with_grid_of_array(encoding, array, place)
    if role != "inv_freq" and _has_rows(encoding, place):
        yield from _rope_waves(encoding, _dtype(array), place)


def _rope_waves(encoding: Encoding, dtype: str, place: Place) -> Iterator[Target]:
    """Yield cosines and sines, with as many rows as the file has unless the place states them."""
    layout = place.layout or _doubling(encoding)
    make = cache(partial(_rope_rows, encoding, dtype, place))
    rows, width = make(1).tables["cos"].shape
    shape = (rows if place.own else None, width)
    grid = tuple(place.own.get("grid") or ())
    yield from _wave_targets(Target((*PLURALS,), shape, make, layout=layout, grid=grid))
    if len(place.position_axes) > 1 and not encoding.grid.axes:
        yield from _tables_per_axis(encoding, place, dtype, layout)


def _rope_rows(encoding: Encoding, dtype: str, place: Place, rows: int) -> Making:
    """Return cosines and sines with so many rows from the first position of a place on."""
    rope = place.rope(encoding, rows, dtype=dtype)
    waves = {table.name: table for table in rope.tensors() if table.name in PLURALS}
    return Making(rope, waves)


def _with_grid_of_array(encoding: Encoding, array: AnyArray, place: Place) -> Place:
    """Return a place with the grid that an array has axes for, if the encoding needs one and none is given.

    A table of DINOv3 for an image of 6 × 8 patches is (48, D), or (6, 8, D), which states its grid.
    """
    sides = encoding.grid.axes or 0
    if place.own or not encoding.grid.style or array.ndim <= sides:
        return place
    grid = array.shape[-1 - sides : -1]
    return replace(place, own={"grid": PLACES["grid"].check("grid", grid)})


def _has_rows(encoding: Encoding, place: Place) -> bool:
    """Return True if an encoding has a table whose rows are at known positions."""
    is_on_grid = bool(encoding.grid.axes) or encoding.no_table
    if is_on_grid and not place.own:
        return False
    axes = len(place.position_axes)
    # Positions (t, h, w) of the text are not those of a vision tower's patches.
    is_of_text = bool(encoding.part) and axes > (encoding.grid.axes or axes)
    return not is_of_text


def _doubling(encoding: Encoding) -> str:
    """Return how a model's tables double columns; empty if either way will do."""
    if encoding.layout is None or encoding.tables_in_halves:
        return ""
    return "interleaved" if encoding.layout == "interleaved" else "halves"


def _tables_per_axis(encoding: Encoding, place: Place, dtype: str, layout: str) -> Iterator[Target]:
    """Yield a table for each axis of positions, before sections are taken from them, as Qwen2-VL's module has it."""
    axes = place.position_axes
    positions = PositionList(chain.from_iterable(axes))
    rope = replace(place, own={"positions": positions}).rope(encoding, len(positions), dtype=dtype)
    rope = replace(rope, mrope_section=None, mrope_interleaved=None)
    words = "one table per axis of positions: sections do not show"
    for table in rope.tensors():
        if table.name in PLURALS:
            expected = replace(table, shape=(len(axes), len(axes[0]), table.width))
            yield fixed({table.name: expected}, rope, waves=True, layout=layout, words=words)


def _inverse_frequencies(encoding: Encoding, array: AnyArray, place: Place) -> Iterator[Target]:
    """Yield frequencies as before any call, or at the length of tables in the same file.

    With a dynamic scaling, transformers computes `inv_freq` anew for every longer prompt, so that a
    dump after 8,192 tokens has the frequencies of that length.
    """
    dtype = _wide_dtype(array)
    yield from _frequencies_at(place.length or 1, "", encoding, dtype, place)
    if place.length is None and encoding.follows_length:
        for end in place.ends:
            yield from _frequencies_at(end, f"at length {end}", encoding, dtype, place)


def _frequencies_at(
    length: int, length_words: str, encoding: Encoding, dtype: str, place: Place
) -> Iterator[Target]:
    """Yield the frequencies that an encoding has for prompts of a length."""
    rope = encoding.frequency_rope(length, recipe=place.recipe, runtime=place.runtime)
    tables = {table.name: table for table in rope.tensors()}
    frequencies = as_dtype(tables["inv_freq"].array(), dtype)
    for order_words, expected in _orders_of_axes(encoding, frequencies).items():
        words = ", ".join(filter(None, (order_words, length_words)))
        yield fixed({"inv_freq": expected}, rope, words=words)


def _orders_of_axes(encoding: Encoding, frequencies: Array) -> dict[str, Array]:
    """Return the orders in which a model may hold its frequencies, by the words for them.

    A vision tower with the frequencies r0 r1 of rows and c0 c1 of columns rotates its channels by
    r0 c0 r1 c1; its module may hold them so, or axis by axis: r0 r1 c0 c1.
    """
    if encoding.order is None:
        return {"": frequencies}
    by_axis = frequencies[list(encoding.order)]
    return {"axis by axis": by_axis, "interleaved": frequencies}


def _alibi(encoding: Encoding, array: AnyArray, role: str | None, place: Place) -> Iterator[Target]:
    """Yield slopes and biases, exact, and as the model computes them."""
    common = {name: encoding.parameters[name] for name in ("heads", "max_bias")}
    scheme = Alibi(slopes=True, dtype=_wide_dtype(array), **common)
    yield fixed({"slopes": scheme.tensors()[0]}, scheme)
    yield from alibi_parts(scheme, array)
    rounded = encoding.slope_dtype
    slopes = scheme.in_dtype(rounded or "float64").tensors()[0].array()
    if rounded:
        words = f"rounded to {rounded}"
        yield fixed({"slopes": as_dtype(slopes, scheme.dtype)}, scheme, words=words)
    # The model's own form comes first; tables of a few rows may have several.
    for form in sorted(ALIBI_FORMS, key=lambda form: form != encoding.parameters["form"]):
        scheme = Alibi(seq_len=array.shape[-1], form=form, dtype=_dtype(array), **common)
        yield from _alibi_biases(encoding, scheme, array, slopes)


def _alibi_biases(
    encoding: Encoding, scheme: Alibi, array: AnyArray, slopes: Array
) -> Iterator[Target]:
    """Yield the biases of a form: all, parts of them, and as the model computes them."""
    words = f"in the {scheme.form} form"
    yield fixed({"bias": scheme.tensors()[0]}, scheme, words=words, masked=True)
    yield from alibi_parts(scheme, array)
    if scheme.form != "key":
        return
    for computed in _computed_biases(encoding, scheme, slopes):
        expected = {"bias": round_to(computed.values, scheme.dtype)}
        yield fixed(expected, scheme, words=f"{words}, {computed.words}", masked=True)


class _ComputedBias(NamedTuple):
    """A bias as a model computes it, and the words for how that differs from the exact one."""

    words: str
    values: Floats


def _computed_biases(encoding: Encoding, scheme: Alibi, slopes: Array) -> Iterator[_ComputedBias]:
    """Yield biases in the key form as a model computes them, if that is not exact.

    transformers' Falcon rounds slopes, positions and products to bfloat16, and divides by √head_dim, as the scores are.
    Runtimes do one of these or both.
    """
    table = scheme.tensors()[0]
    biases: list[_ComputedBias] = []
    if encoding.slope_dtype:
        dtype = encoding.slope_dtype
        positions = widened(round_to(np.arange(table.shape[-1], dtype=np.float64), dtype))
        product = widened(round_to(widened(slopes)[:, None, None] * positions, dtype))
        biases.append(_ComputedBias(f"slopes and products rounded to {dtype}", product))
    yield from biases
    if encoding.bias_divisor:
        divisor = float(np.float32(encoding.bias_divisor))
        yield _ComputedBias("divided by √head_dim", widened(table.array()) / divisor)
        for words, bias in biases:
            yield _ComputedBias(f"{words}, divided by √head_dim", bias / divisor)


def _sinusoidal(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    """Yield the sinusoidal tables that a model may store: on a grid, or with as many rows as the array."""
    is_placed_by_user = bool(place.own)
    if is_placed_by_user or "grid" in encoding.parameters:
        return _sinusoidal_on_grid(encoding, array, place)
    return _sinusoidal_from_offsets(encoding, array, place)


def _sinusoidal_parameters(encoding: Encoding, array: AnyArray, place: Place) -> NamedValues:
    """Return the parameters of a table, except the position of its first row."""
    parameters = dict(encoding.parameters)
    parameters.pop("offset", None)
    parameters["recipe"] = place.recipe
    parameters["dtype"] = _dtype(array)
    return parameters


def _sinusoidal_on_grid(encoding: Encoding, array: AnyArray, place: Place) -> Iterator[Target]:
    """Yield the table at the points of a grid, or at positions that the user gave.

    MAE's table for 14 × 14 patches has a row of zeros for CLS, (197, D), which `keep` counts. An
    array (14, 14, D) has an axis for each side of the grid and so no place for that row: then the
    table without it is yielded as well.
    """
    parameters = _sinusoidal_parameters(encoding, array, place)
    words = f"as in {parameters['style']}"
    yield _on_grid(parameters, place, words)
    # If only the user states the grid, the model has no sides to count, and both are yielded.
    sides = len(parameters.get("grid", ()))
    has_axis_per_side = array.ndim > sides
    if parameters.get("keep") and has_axis_per_side:
        without_other_tokens = {**parameters, "keep": 0}
        yield _on_grid(without_other_tokens, place, f"{words}, without rows for other tokens")


def _sinusoidal_from_offsets(encoding: Encoding, array: AnyArray, place: Place) -> Iterator[Target]:
    """Yield tables whose rows are consecutive positions, for each position that the first may have.

    It is the one that the user states. Otherwise it is the model's, or 0: fairseq's first position
    is 2, after the rows of padding, and dumps leave those rows out as often as not.
    """
    parameters = _sinusoidal_parameters(encoding, array, place)
    model_offset = encoding.parameters.get("offset", 0)
    offsets = [model_offset, 0] if place.offset is None else [place.offset]
    for offset in dict.fromkeys(offsets):
        words = f"as in {parameters['style']}"
        if offset or model_offset:
            words = f"{words}, from position {offset}"
        make = cache(partial(_sinusoidal_rows, parameters, offset))
        yield Target(("pe",), (None, parameters["dim"]), make, words=words, quantised=True)


def _on_grid(parameters: NamedValues, place: Place, words: str) -> Target:
    """Return the table on a grid, whose size and style give its rows, layout and exponents."""
    follows_from_grid = ("seq_len", "layout", "freq_shift")
    others = {name: value for name, value in parameters.items() if name not in follows_from_grid}
    scheme = Sinusoidal(**{**others, **place.own})
    table = scheme.tensors()[0]
    return fixed({"pe": table}, scheme, words=words, quantised=True, grid=_grid_of(scheme))


def _sinusoidal_rows(parameters: NamedValues, offset: int, rows: int) -> Making:
    """Return the table with so many rows from a position on."""
    scheme = Sinusoidal(**{**parameters, "seq_len": rows}, offset=offset)
    return Making(scheme, {"pe": scheme.tensors()[0]})


def _relative(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    parameters = dict(encoding.parameters)
    parameters["seq_len"] = None if "grid" in parameters else array.shape[-1]
    scheme = Relative(**parameters)
    if role == "bias_rows":  # A row for each bucket, a column for each head.
        yield _values(role, array, (scheme.numbers, array.shape[-1]))
    else:
        yield fixed({"index": scheme.tensors()[0]}, scheme, words=f"as in {scheme.style}")


def _learned(
    encoding: Encoding, array: AnyArray, role: str | None, place: Place
) -> Iterator[Target]:
    yield _values("weight", array, (encoding.parameters["max_len"], encoding.parameters["dim"]))


def _values(name: str, array: AnyArray, shape: tuple[int, int]) -> Target:
    """Return the target of a learned table, of which only the shape is known."""
    nothing = np.broadcast_to(np.zeros((), array.dtype), shape)
    return fixed({name: nothing}, words="values are learned; the shape is right")


_TABLES_BY_SCHEME: Mapping[
    str, Callable[[Encoding, AnyArray, str | None, Place], Iterator[Target]]
] = {
    "rope": _rope,
    "alibi": _alibi,
    "sinusoidal": _sinusoidal,
    "learned": _learned,
    "relative": _relative,
}
"""By scheme, the function that yields the tables of an encoding that an array may be.

All take the same arguments; those of schemes with one kind of table ignore the role.
"""
