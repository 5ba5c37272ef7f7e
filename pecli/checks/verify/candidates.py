"""The tables of a scheme that a tensor of a file may hold, and what the name of the tensor states about them.

A scheme fixes the numbers, not how they are arranged: that is up to the file, and found out by
`find_best_reading`.
"""

import os
from collections.abc import Iterator
from dataclasses import replace

from pecli.compare.candidate import CandidateTable, MadeTables, candidate_of
from pecli.compare.forms import DOUBLED_LAYOUTS
from pecli.engine.arrays import COMPLEX, AnyArray, dtype_name
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
from pecli.engine.table import Table
from pecli.files.contents import LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import function_order, role_of

COS_AND_SIN = ("cos", "sin")  #: names of the tables of a rope
COS_FIRST = ("cos", "sin")  #: the order in names such as freqs_cis, which do not state it


def find_scheme_candidates(scheme: Scheme) -> list[CandidateTable]:
    """Return the tables of a scheme that a tensor of a file may hold.

    A bundle holds several schemes: Gemma 3's has a rope for sliding and one for full layers. Its
    tables have the layers in their names, `sliding.cos` and `full.cos`.
    """
    candidates: list[CandidateTable] = []
    for layer_type, part in scheme.by_layer_type():
        candidates_of_part = _find_single_scheme_candidates(part)
        if layer_type:
            candidates += [
                _as_part_of_bundle(candidate, scheme, layer_type)
                for candidate in candidates_of_part
            ]
        else:
            candidates += candidates_of_part
    return candidates


def _as_part_of_bundle(
    candidate: CandidateTable, bundle: Scheme, layer_type: str
) -> CandidateTable:
    """Return a table of one scheme in a bundle under the name that it has there: `cos` becomes `sliding.cos`.

    A bundle holds a scheme per type of layers. If the file has a wrong table, the mistake is searched
    for in the bundle, which makes the table by that name.

    Args:
        candidate: The table, or the cosines and sines.
        bundle: All schemes.
        layer_type: The layers that the table is for, such as `sliding`.
    """

    def make(rows: int) -> MadeTables:
        tables = candidate.make(rows).tables
        return MadeTables(bundle, {f"{layer_type}.{name}": table for name, table in tables.items()})

    names = tuple(f"{layer_type}.{name}" for name in candidate.names)
    return replace(candidate, names=names, make=make)


def _find_single_scheme_candidates(scheme: Scheme) -> Iterator[CandidateTable]:
    """Yield the tables of a scheme, which is no bundle, that a tensor of a file may hold.

    For a rope, these are `cos`, `sin`, both in one array, and `inv_freq`; for a sinusoidal scheme
    `pe`, and for ALiBi `bias` and `slopes`.
    """
    tables = tensors_by_name(scheme)
    is_rotary = "cos" in tables and "sin" in tables
    if is_rotary:
        yield from _find_cosines_and_sines(scheme)
    # Sinusoidal tables may be stored as integers, 127 for 1.0.
    may_be_quantised = "pe" in tables
    # A bias may hide keys by −∞, or by the most negative number of a dtype.
    may_be_masked = "bias" in tables
    for name, table in tables.items():
        if name not in COS_AND_SIN:  # Those of a rope were yielded above, as one array or two.
            yield candidate_of(
                {name: table},
                scheme,
                quantised=may_be_quantised,
                masked=may_be_masked,
                grid=grid_of(scheme),
            )


def grid_of(scheme: Scheme) -> tuple[int, ...]:
    """Return the sides of a scheme's grid; empty if it has none."""
    return tuple(scheme.value_of("grid", None) or ())


def _find_cosines_and_sines(rope: Scheme) -> Iterator[CandidateTable]:
    """Yield the tables that a tensor may hold: the cosines of a rope, the sines, or both.

    The tables have one column per frequency, c0 c1. A tensor may have two, c0 c1 c0 c1 (halves) or
    c0 c0 c1 c1 (interleaved). If the rope has one of these layouts, the tensor needs the same one.
    """
    layout: str = rope.value_of("layout", "")
    if layout in DOUBLED_LAYOUTS:
        compact_rope = _with_one_column_per_frequency(rope)
        required_layout = layout
    else:
        compact_rope = rope
        required_layout = ""  # any
    cosines_and_sines = candidate_of(
        make_cosines_and_sines(compact_rope),
        compact_rope,
        layout=required_layout,
        grid=grid_of(rope),
    )
    yield from find_wave_candidates(cosines_and_sines)


def _with_one_column_per_frequency(scheme: Scheme) -> Scheme:
    """Return a rotary scheme whose tables have one column per frequency."""
    compact_layout: NamedValues = {"layout": "compact"}
    return replace(scheme, **compact_layout)


def make_cosines_and_sines(rope: Scheme) -> dict[str, Table]:
    """Return the tables `cos` and `sin` of a rotary scheme, without its frequencies."""
    tables = tensors_by_name(rope)
    return {name: tables[name] for name in COS_AND_SIN}


def find_wave_candidates(both: CandidateTable) -> Iterator[CandidateTable]:
    """Yield the tables that a tensor may hold: only cosines, only sines, or both in either order."""
    cos, sin = both.names
    for names in ((cos,), (sin,), (cos, sin), (sin, cos)):
        yield replace(both, names=names, has_frequencies=True, transposable=True, quantised=True)


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


def role_of_table(name: str) -> str:
    """Return the role of tensors that are a table of a scheme: «both» for `cos_sin`."""
    return role_of(name) or name


def has_order(candidate: CandidateTable, order: tuple[str, str] | None) -> bool:
    """Return True unless a candidate has cosines and sines in another order than a name states."""
    if order is None or len(candidate.names) < 2:
        return True
    return tuple(name.rpartition(".")[2] for name in candidate.names) == order


def real_dtype(array: AnyArray) -> str:
    """Return the name of an array's dtype; for complex numbers, the dtype of their parts."""
    name = dtype_name(array.dtype)
    return COMPLEX.get(name, name)
