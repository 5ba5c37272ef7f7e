"""Known mistakes of ports: tables that a check must reject, each with the reason it must name.

They are the mistakes of the catalogue, planted in small tables.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import GridSize, PositionList
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain import catalogue
from pecli.explain.exact_tables import exact_tensors
from pecli.explain.hypothesis import Mistake
from pecli.explain.planting import Tensors, tensors_made_together

TEXT = "a known mistake: this must be rejected, for this reason"

IMAGE = (
    (0, 1, *[2] * 24, 8, 9, 10, 11, 12, 13),
    (0, 1, *np.repeat(range(2, 6), 6).tolist(), 8, 9, 10, 11, 12, 13),
    (0, 1, *np.tile(range(2, 8), 4).tolist(), 8, 9, 10, 11, 12, 13),
)
"""Positions of two tokens, an image of 4 × 6 patches, and six tokens along time, height and width."""

SCHEMES: tuple[Scheme, ...] = (
    Rope(36, 16, 500000.0, dtype="float64"),
    Rope(40, 16, scaling="linear", factor=4.0, dtype="float64"),
    Rope(
        40, 32, scaling="yarn", factor=4.0, original_max_position_embeddings=4096, dtype="float64"
    ),
    Rope(
        40,
        32,
        500000.0,
        scaling="llama3",
        factor=8.0,
        original_max_position_embeddings=8192,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        dtype="float64",
    ),
    Rope(300, 8, scaling="dynamic", factor=2.0, max_position_embeddings=128, dtype="float64"),
    Rope(
        40,
        16,
        scaling="longrope",
        short_factor=(1.0,) * 8,
        long_factor=(1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5),
        original_max_position_embeddings=32,
        max_position_embeddings=64,
        dtype="float64",
    ),
    Sinusoidal(40, 16, dtype="float64"),
    Sinusoidal(dim=16, grid=GridSize((8, 6)), style="mae", dtype="float64"),
    Rope(dim=32, mrope_section=(4, 6, 6), positions=PositionList(IMAGE), dtype="float64"),
    Alibi(10, 14, dtype="float64"),
    Alibi(4, 10, form="causal", dtype="float64"),
)
"""Small schemes in which the mistakes are planted; 300 positions are more than a byte counts."""


class MistakenTable(NamedTuple):
    """The scheme that was meant, a mistake in its tensors, and the edits that name it."""

    name: str
    scheme: Scheme
    mistake: Mistake
    tensors: dict[str, Floats]
    edits: tuple[Edit, ...]


def mistakes() -> Iterator[MistakenTable]:
    """Yield one wrong table for each known kind of mistake: exchanged sines, another base, …

    A kind is planted in the first right table that can have it. A wrong slope, for example, goes
    only into an ALiBi bias.
    """
    kinds_without_table = list(catalogue.every_kind())
    for right_tensors in _right_tensors():
        # The loop changes the list, so it runs over a copy.
        for kind in list(kinds_without_table):
            wrong_table = _table_with_mistake(right_tensors, kind)
            if wrong_table is not None:
                yield wrong_table
                kinds_without_table.remove(kind)


def _right_tensors() -> Iterator[Tensors]:
    """Yield the tensors of each scheme that are made at once; derived ones are left out."""
    for scheme in SCHEMES:
        names = [name for name in named_tensors(scheme) if name not in scheme.derived_tensors]
        yield from tensors_made_together(scheme, names)


def _table_with_mistake(tensors: Tensors, kind: type[Mistake]) -> MistakenTable | None:
    """Return the tensors with the first typical mistake of a kind that changes their numbers.

    Of «another base», for example, typical mistakes are 10000 instead of 500000, and so on. None if
    no mistake of the kind goes with the scheme, or none of them shows.
    """
    right = tensors.rows(np.arange(tensors.computation.rows))
    for mistake in kind.examples(tensors.computation, tensors.scheme):
        wrong = exact_tensors(tensors, mistake)
        if wrong is not None and not _are_close(wrong, right):
            return _table_of_mistake(tensors, mistake, wrong, f"mistake-{slug(kind)}")
    return None


def _table_of_mistake(
    tensors: Tensors, mistake: Mistake, wrong: Mapping[str, Floats], name: str
) -> MistakenTable:
    """Return wrong numbers in the shapes of the scheme's tensors, with the edits that name them."""
    tables = named_tensors(tensors.scheme)
    shaped = {tensor: array.reshape(tables[tensor].shape) for tensor, array in wrong.items()}
    return MistakenTable(name, tensors.scheme, mistake, shaped, tensors.edits(mistake))


def _are_close(wrong: Mapping[str, Floats], right: Mapping[str, Floats]) -> bool:
    """Return True if a mistake does not show in any tensor."""
    return all(np.allclose(wrong[name], right[name]) for name in right)


def slug(kind: type[Mistake]) -> str:
    """Return the name of a kind of mistake as a word of file names.

    >>> from pecli.explain.catalogue import SwappedFunctions
    >>> slug(SwappedFunctions)
    'swapped-functions'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
