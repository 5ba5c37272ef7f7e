"""The known interpolations that make a resized table from the old one."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from pecli.checks.verify.resizing import Resizing
from pecli.errors import ParameterError
from pecli.tensors.interpolation import CUBIC, PROJECTS, Interpolation, known_interpolations

MOST_ALIKE = 6  #: interpolations that a line names as making the same table


def find_fitting_ways(resizing: Resizing, coefficient: float = CUBIC) -> tuple[Interpolation, ...]:
    """Return the known interpolations that make the new table, with this coefficient if cubic."""
    ways = []
    for way in known_interpolations():
        if resizing.fits(replace(way, coefficient=coefficient)):
            ways.append(way)
    return tuple(ways)


def find_nearest_way(resizing: Resizing) -> Interpolation:
    """Return the known interpolation whose table has the smallest mean absolute error.

    It is the default one if no interpolation makes as many rows as the new table has, for example
    because rows for other tokens are missing.
    """
    errors = {}
    for way in known_interpolations():
        with suppress(ParameterError):  # A slice cannot grow.
            table = resizing.make(way)
            if table.shape == resizing.new.shape:
                errors[way] = float(np.nan_to_num(np.abs(table - resizing.new)).mean())
    return min(errors, key=lambda way: errors[way], default=Interpolation())


def describe_ways(ways: tuple[Interpolation, ...]) -> str:
    """Return the words for interpolations that all make the same table.

    «cubic, as in transformers' ViT, …» or «slice (crop would make the same table)», for example.
    """
    if len(ways) > MOST_ALIKE:
        return "as most interpolations make it"
    first, *others = ways
    words = str(first)
    if first in PROJECTS:
        words += f", as in {PROJECTS[first]}"
    if others:
        same = " and ".join(map(str, others))
        words += f" ({same} would make the same table)"
    return words
