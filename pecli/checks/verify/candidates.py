"""The tables that a tensor of a file may hold: the tables of a scheme, or of a model's encodings.

A configuration fixes the numbers, not how they are arranged: that is up to the file, and found out
in `reading`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.checks.verify.alibi_parts import alibi_parts
from pecli.checks.verify.table_settings import TABLE_PARAMETERS, TableSettings
from pecli.compare.candidate import PLURALS, CandidateTable, MadeTables, Origin, candidate_of
from pecli.compare.forms import DOUBLED_LAYOUTS
from pecli.engine.application import LAYOUTS
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
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import PositionList
from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table
from pecli.files.contents import LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import function_order, role_of
from pecli.models.encoding import Encoding

COS_FIRST = ("cos", "sin")  #: the order in names such as freqs_cis, which do not state it
ALIBI_FORMS = ("symmetric", "causal", "key", "key-last")


def scheme_candidates(scheme: Scheme) -> list[CandidateTable]:
    """Return the tables of a scheme; of a bundle, those of each of its parts by their own names."""
    candidates: list[CandidateTable] = []
    for name, part in scheme.by_layer_type():
        candidates += _part_candidates(scheme, part, f"{name}." if name else "")
    return candidates


def _part_candidates(scheme: Scheme, part: Scheme, prefix: str) -> Iterator[CandidateTable]:
    """Yield the tables that a tensor of a file may hold, for one part of a scheme.

    A bundle has several parts, whose tensors have a prefix: `sliding.cos` and `full.cos` of Gemma
    3. Any other scheme is its own only part, without a prefix.
    """
    tables = tensors_by_name(part)
    if {*PLURALS} <= tables.keys():
        yield from _scheme_waves(scheme, part, prefix)
    options: NamedValues = {
        "quantised": "pe" in tables,
        "masked": "bias" in tables,
        "grid": _grid_of(scheme),
    }
    for name, table in tables.items():
        if name not in PLURALS:
            yield candidate_of({prefix + name: table}, scheme, **options)


def _grid_of(scheme: Scheme) -> tuple[int, ...]:
    """Return the sides of a scheme's grid; empty if it has none."""
    return tuple(scheme.value_of("grid", None) or ())


def _scheme_waves(scheme: Scheme, part: Scheme, prefix: str) -> Iterator[CandidateTable]:
    """Yield the cosines and sines of a part of a scheme, with one column per frequency.

    A file may hold each column twice, as halves (c0 c1 c0 c1) or interleaved (c0 c0 c1 c1). Reading
    the file finds out which, so that tables are made without doubled columns here, and the layout
    that the scheme requires is only noted.
    """
    layout: str = part.value_of("layout", "")
    compact = part
    required_layout = ""
    if layout in DOUBLED_LAYOUTS:
        changes: NamedValues = {"layout": "compact"}
        compact = replace(part, **changes)
        required_layout = layout
    tables = {prefix + name: table for name, table in _cosines_and_sines(compact).items()}
    maker = scheme if prefix else compact
    yield from _wave_candidates(
        candidate_of(tables, maker, layout=required_layout, grid=_grid_of(part))
    )


def _cosines_and_sines(rope: Scheme) -> dict[str, Table]:
    """Return the tables `cos` and `sin` of a rotary scheme, without its frequencies."""
    tables = tensors_by_name(rope)
    return {name: tables[name] for name in PLURALS}


def _wave_candidates(both: CandidateTable) -> Iterator[CandidateTable]:
    """Yield the tables that a tensor may hold: only cosines, only sines, or both in either order."""
    cos, sin = both.names
    for names in ((cos,), (sin,), (cos, sin), (sin, cos)):
        yield replace(both, names=names, has_frequencies=True, transposable=True, quantised=True)


def model_candidates(
    encoding: Encoding,
    array: AnyArray,
    role: str | None,
    settings: TableSettings,
    order: tuple[str, str] | None = None,
) -> Iterator[CandidateTable]:
    """Yield every table of an encoding that a tensor may hold, the likelier ones first.

    A tensor `cos` of a Llama checkpoint may hold cosines; a tensor without a name, frequencies,
    cosines, sines, or both. Whether it does is decided later, by its values.

    Args:
        encoding: One of the model's encodings.
        array: The tensor.
        role: The table that its name states, such as «cos»; None if it may be any.
        settings: Where the rows of tables are, and how they were computed.
        order: The order of cosines and sines that its name states; None if they may have either.
    """
    if not array.size:
        return
    if role == "rows" and encoding.is_rotary:
        role = None  # The name states that it is a table, not of what.
    if role == "both" and order is None:
        order = COS_FIRST
    origin = Origin(encoding.scheme, encoding.layer_type)
    candidates_of = _CANDIDATES_BY_SCHEME[encoding.scheme]
    for candidate in candidates_of(encoding, array, role, settings):
        if _has_role(candidate, role) and has_order(candidate, order):
            yield replace(candidate, origin=origin)


def _has_role(candidate: CandidateTable, role: str | None) -> bool:
    """Return True if a candidate holds what a name states; any candidate does if the name states nothing."""
    if role is None:
        return True
    return role == (role_of(candidate.name) or candidate.name)


def stated_name(file: LoadedFile, tensor: str) -> str:
    """Return the name of a tensor, or that of its file if it has none: `sin_cos.npy` states an order."""
    if tensor == ARRAY_NAME:
        return os.path.splitext(os.path.basename(file.path))[0]
    return tensor


def stated_order(name: str, array: AnyArray) -> tuple[str, str] | None:
    """Return the order of cosines and sines that the name of a tensor states; None if it does not.

    Of complex numbers, cosines are the real parts, whatever the name states.
    """
    is_complex = dtype_name(array.dtype) in COMPLEX
    return None if is_complex else function_order(name)


def has_order(candidate: CandidateTable, order: tuple[str, str] | None) -> bool:
    """Return True unless a candidate has cosines and sines in another order than a name states."""
    if order is None or len(candidate.names) < 2:
        return True
    return tuple(name.rpartition(".")[2] for name in candidate.names) == order


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


def _rope_candidates(
    encoding: Encoding, array: AnyArray, role: str | None, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield frequencies, and cosines and sines at the positions of the rows, if they are known."""
    if role in ("inv_freq", None):
        yield from _inverse_frequencies(encoding, array, settings)
    settings = _with_grid_of_array(encoding, array, settings)
    if role != "inv_freq" and _has_rows(encoding, settings):
        yield from _rope_waves(encoding, _dtype(array), settings)


def _rope_waves(
    encoding: Encoding, dtype: str, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield cosines and sines, with as many rows as the file has unless the settings state them."""
    layout = settings.layout or _doubling(encoding)
    # Several arrangements of the same file ask for the same number of rows.
    make = cache(partial(_rope_rows, encoding, dtype, settings))
    rows, width = make(1).tables["cos"].shape
    shape = (rows if settings.stated_rows else None, width)
    grid = tuple(settings.stated_rows.get("grid") or ())
    yield from _wave_candidates(
        CandidateTable(names=(*PLURALS,), shape=shape, make=make, layout=layout, grid=grid)
    )
    if len(settings.position_axes) > 1 and not encoding.grid.axes:
        yield from _tables_per_axis(encoding, settings, dtype, layout)


def _rope_rows(encoding: Encoding, dtype: str, settings: TableSettings, rows: int) -> MadeTables:
    """Return cosines and sines with so many rows from the first position on."""
    rope = settings.rope(encoding, rows, dtype=dtype)
    return MadeTables(rope, _cosines_and_sines(rope))


def _with_grid_of_array(
    encoding: Encoding, array: AnyArray, settings: TableSettings
) -> TableSettings:
    """Return settings with the grid that an array has axes for, if the encoding needs one and none is given.

    A table of DINOv3 for an image of 6 × 8 patches is (48, D), or (6, 8, D), which states its grid.
    """
    sides = encoding.grid.axes or 0
    if settings.stated_rows or not encoding.grid.style or array.ndim <= sides:
        return settings
    grid = array.shape[-1 - sides : -1]
    return replace(settings, stated_rows={"grid": TABLE_PARAMETERS["grid"].check("grid", grid)})


def _has_rows(encoding: Encoding, settings: TableSettings) -> bool:
    """Return True if an encoding has a table whose rows are at known positions."""
    is_on_grid = bool(encoding.grid.axes) or encoding.no_table
    if is_on_grid and not settings.stated_rows:
        return False
    axes = len(settings.position_axes)
    # Positions (t, h, w) of the text are not those of a vision tower's patches.
    is_of_text = bool(encoding.part) and axes > (encoding.grid.axes or axes)
    return not is_of_text


def _doubling(encoding: Encoding) -> str:
    """Return how a model's tables double columns; empty if either way will do."""
    if encoding.layout is None or encoding.tables_in_halves:
        return ""
    return LAYOUTS[encoding.layout].after


def _tables_per_axis(
    encoding: Encoding, settings: TableSettings, dtype: str, layout: str
) -> Iterator[CandidateTable]:
    """Yield cosines and sines with a table for each axis of positions: (3, L, D/2) for M-RoPE.

    Qwen2-VL's module returns tables for time, row and column. Only attention takes a section of the
    columns from each, so that a dump of the module's output shows nothing of the sections.
    """
    axes = settings.position_axes
    # One table of all positions, axis after axis, has the rows of all three.
    positions = PositionList(chain.from_iterable(axes))
    at_all_axes = replace(settings, stated_rows={"positions": positions})
    rope = at_all_axes.rope(encoding, len(positions), dtype=dtype)
    rope = replace(rope, mrope_section=None, mrope_interleaved=None)
    words = "one table per axis of positions: sections do not show"
    for name, table in _cosines_and_sines(rope).items():
        by_axis = replace(table, shape=(len(axes), len(axes[0]), table.width))
        yield candidate_of({name: by_axis}, rope, has_frequencies=True, layout=layout, words=words)


def _inverse_frequencies(
    encoding: Encoding, array: AnyArray, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield frequencies as before any call, or at the length of tables in the same file.

    With a dynamic scaling, transformers computes `inv_freq` anew for every longer prompt, so that a
    dump after 8,192 tokens has the frequencies of that length.
    """
    dtype = _wide_dtype(array)
    yield from _frequencies_at(settings.length or 1, "", encoding, dtype, settings)
    if settings.length is None and encoding.follows_length:
        for end in settings.ends:
            yield from _frequencies_at(end, f"at length {end}", encoding, dtype, settings)


def _frequencies_at(
    length: int, length_words: str, encoding: Encoding, dtype: str, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the frequencies that an encoding has for prompts of a length."""
    rope = encoding.frequency_rope(length, recipe=settings.recipe, runtime=settings.runtime)
    frequencies = as_dtype(tensors_by_name(rope)["inv_freq"].array(), dtype)
    for order_words, expected in _orders_of_axes(encoding, frequencies).items():
        words = ", ".join(filter(None, (order_words, length_words)))
        yield candidate_of({"inv_freq": expected}, rope, words=words)


def _orders_of_axes(encoding: Encoding, frequencies: Array) -> dict[str, Array]:
    """Return the orders in which a model may hold its frequencies, by the words for them.

    A vision tower with the frequencies r0 r1 of rows and c0 c1 of columns rotates its channels by
    r0 c0 r1 c1; its module may hold them so, or axis by axis: r0 r1 c0 c1.
    """
    if encoding.order is None:
        return {"": frequencies}
    by_axis = frequencies[list(encoding.order)]
    return {"axis by axis": by_axis, "interleaved": frequencies}


def _alibi_candidates(
    encoding: Encoding, array: AnyArray, role: str | None, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield ALiBi's slopes (heads,), and its biases (heads, queries, keys) in each of their forms.

    The model's own form comes first: a bias of few positions may be the same in several forms.
    """
    yield from _slope_candidates(encoding, array)
    model_form = encoding.parameters["form"]
    other_forms = [form for form in ALIBI_FORMS if form != model_form]
    for form in (model_form, *other_forms):
        scheme = Alibi(
            seq_len=array.shape[-1],
            form=form,
            dtype=_dtype(array),
            heads=encoding.parameters["heads"],
            max_bias=encoding.parameters["max_bias"],
        )
        yield from _bias_candidates(encoding, scheme, array)


def _slope_scheme(encoding: Encoding, dtype: str) -> Alibi:
    """Return the scheme whose only table is a model's slopes."""
    heads = encoding.parameters["heads"]
    return Alibi(heads=heads, max_bias=encoding.parameters["max_bias"], slopes=True, dtype=dtype)


def _slope_candidates(encoding: Encoding, array: AnyArray) -> Iterator[CandidateTable]:
    """Yield slopes: of all heads, of the heads of a shard, and rounded as the model rounds them."""
    scheme = _slope_scheme(encoding, _wide_dtype(array))
    yield candidate_of({"slopes": scheme.tensors()[0]}, scheme)
    yield from alibi_parts(scheme, array)
    if encoding.slope_dtype:
        rounded = _slope_scheme(encoding, encoding.slope_dtype).tensors()[0].array()
        words = f"rounded to {encoding.slope_dtype}"
        yield candidate_of({"slopes": as_dtype(rounded, scheme.dtype)}, scheme, words=words)


def _bias_candidates(
    encoding: Encoding, scheme: Alibi, array: AnyArray
) -> Iterator[CandidateTable]:
    """Yield the biases of one form: all of them, a part of them, and as the model computes them."""
    words = f"in the {scheme.form} form"
    yield candidate_of({"bias": scheme.tensors()[0]}, scheme, words=words, masked=True)
    yield from alibi_parts(scheme, array)
    if scheme.form != "key":
        return  # Only biases of the key form, Falcon's, are rounded or divided by a model.
    for computed in _computed_biases(encoding, scheme):
        expected = {"bias": round_to(computed.values, scheme.dtype)}
        yield candidate_of(expected, scheme, words=f"{words}, {computed.words}", masked=True)


class _ComputedBias(NamedTuple):
    """A bias as a model computes it, and the words for how that differs from the exact one."""

    words: str
    values: Floats


def _computed_biases(encoding: Encoding, scheme: Alibi) -> list[_ComputedBias]:
    """Return biases in the key form as a model computes them, if that is not exact.

    transformers' Falcon rounds slopes, positions and products to bfloat16, and divides by
    √head_dim, as attention divides the scores. Runtimes do one of these or both.
    """
    biases: list[_ComputedBias] = []
    if encoding.slope_dtype:
        slopes = _slope_scheme(encoding, encoding.slope_dtype).tensors()[0].array()
        biases.append(_rounded_bias(slopes, scheme.tensors()[0].shape[-1], encoding.slope_dtype))
    if encoding.bias_divisor:
        divisor = float(np.float32(encoding.bias_divisor))
        exact = widened(scheme.tensors()[0].array())
        divided = [_ComputedBias("divided by √head_dim", exact / divisor)]
        for words, values in biases:
            divided.append(_ComputedBias(f"{words}, divided by √head_dim", values / divisor))
        biases += divided
    return biases


def _rounded_bias(slopes: Array, keys: int, dtype: str) -> _ComputedBias:
    """Return slope · position for each head and key, (heads, 1, keys), with each step rounded.

    In bfloat16, position 257 becomes 256: it has 8 significant bits.
    """
    positions = widened(round_to(np.arange(keys, dtype=np.float64), dtype))
    products = widened(slopes)[:, None, None] * positions
    words = f"slopes and products rounded to {dtype}"
    return _ComputedBias(words, widened(round_to(products, dtype)))


def _sinusoidal_candidates(
    encoding: Encoding, array: AnyArray, role: str | None, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the sinusoidal tables that a model may store: on a grid, or with as many rows as the array."""
    is_placed_by_user = bool(settings.stated_rows)
    if is_placed_by_user or "grid" in encoding.parameters:
        return _sinusoidal_on_grid(encoding, array, settings)
    return _sinusoidal_from_offsets(encoding, array, settings)


def _sinusoidal_parameters(
    encoding: Encoding, array: AnyArray, settings: TableSettings
) -> NamedValues:
    """Return the parameters of a table, except the position of its first row."""
    parameters = dict(encoding.parameters)
    parameters.pop("offset", None)
    parameters["recipe"] = settings.recipe
    parameters["dtype"] = _dtype(array)
    return parameters


def _sinusoidal_on_grid(
    encoding: Encoding, array: AnyArray, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the table at the points of a grid, or at positions that the user gave.

    MAE's table for 14 × 14 patches has a row of zeros for CLS, (197, D), which `keep` counts. An
    array (14, 14, D) has an axis for each side of the grid and so no room for that row: then the
    table without it is yielded as well.
    """
    parameters = _sinusoidal_parameters(encoding, array, settings)
    words = f"as in {parameters['style']}"
    yield _candidate_on_grid(parameters, settings, words)
    # If only the user states the grid, the model has no sides to count, and both are yielded.
    sides = len(parameters.get("grid", ()))
    has_axis_per_side = array.ndim > sides
    if parameters.get("keep") and has_axis_per_side:
        without_other_tokens = {**parameters, "keep": 0}
        yield _candidate_on_grid(
            without_other_tokens, settings, f"{words}, without rows for other tokens"
        )


def _sinusoidal_from_offsets(
    encoding: Encoding, array: AnyArray, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield tables whose rows are consecutive positions, for each position that the first may have.

    It is the one that the user states. Otherwise it is the model's, or 0: fairseq's first position
    is 2, after the rows of padding, and dumps leave those rows out as often as not.
    """
    parameters = _sinusoidal_parameters(encoding, array, settings)
    model_offset = encoding.parameters.get("offset", 0)
    offsets = [model_offset, 0] if settings.offset is None else [settings.offset]
    for offset in dict.fromkeys(offsets):
        words = f"as in {parameters['style']}"
        if offset or model_offset:
            words = f"{words}, from position {offset}"
        make = cache(partial(_sinusoidal_rows, parameters, offset))
        yield CandidateTable(
            names=("pe",), shape=(None, parameters["dim"]), make=make, words=words, quantised=True
        )


def _candidate_on_grid(
    parameters: NamedValues, settings: TableSettings, words: str
) -> CandidateTable:
    """Return the table on a grid, whose size and style give its rows, layout and exponents."""
    follows_from_grid = ("seq_len", "layout", "freq_shift")
    others = {name: value for name, value in parameters.items() if name not in follows_from_grid}
    scheme = Sinusoidal(**{**others, **settings.stated_rows})
    table = scheme.tensors()[0]
    return candidate_of({"pe": table}, scheme, words=words, quantised=True, grid=_grid_of(scheme))


def _sinusoidal_rows(parameters: NamedValues, offset: int, rows: int) -> MadeTables:
    """Return the table with so many rows from a position on."""
    scheme = Sinusoidal(**{**parameters, "seq_len": rows}, offset=offset)
    return MadeTables(scheme, {"pe": scheme.tensors()[0]})


def _relative_candidates(
    encoding: Encoding, array: AnyArray, role: str | None, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the numbers of relative positions (L, L), or the learned biases that they select.

    T5 has 32 such numbers (buckets of distances), and a learned bias for each of them and each
    head, (32, heads). Only the shape of biases can be checked; the numbers are those of the scheme.
    """
    parameters = dict(encoding.parameters)
    parameters["seq_len"] = None if "grid" in parameters else array.shape[-1]
    scheme = Relative(**parameters)
    if role == "bias_rows":
        yield _learned_table(role, array, (scheme.numbers, array.shape[-1]))
    else:
        yield candidate_of({"index": scheme.tensors()[0]}, scheme, words=f"as in {scheme.style}")


def _learned_candidates(
    encoding: Encoding, array: AnyArray, role: str | None, settings: TableSettings
) -> Iterator[CandidateTable]:
    yield _learned_table(
        "weight", array, (encoding.parameters["max_len"], encoding.parameters["dim"])
    )


def _learned_table(name: str, array: AnyArray, shape: tuple[int, int]) -> CandidateTable:
    """Return a candidate with zeros in place of the values, which are never compared."""
    nothing = np.broadcast_to(np.zeros((), array.dtype), shape)
    return candidate_of({name: nothing}, words="values are learned; the shape is right")


_CANDIDATES_BY_SCHEME: Mapping[
    str, Callable[[Encoding, AnyArray, str | None, TableSettings], Iterator[CandidateTable]]
] = {
    "rope": _rope_candidates,
    "alibi": _alibi_candidates,
    "sinusoidal": _sinusoidal_candidates,
    "learned": _learned_candidates,
    "relative": _relative_candidates,
}
"""By scheme, the function that yields the tables of an encoding that an array may be.

All take the same arguments; those of schemes with one kind of table ignore the role.
"""
