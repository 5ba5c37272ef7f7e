"""Notes on how a tensor was read: «two columns per frequency, transposed»."""

from collections.abc import Iterator

import numpy as np

from pecli.compare.candidate import PLURALS
from pecli.compare.factors import first_along
from pecli.compare.forms import ARRANGEMENTS, columns
from pecli.compare.reading import Reading
from pecli.engine.arrays import AnyArray, widest


def describe_arrangement(reading: Reading) -> str:
    """Return a note on the arrangement of a tensor; empty if it was read as it stands."""
    return ", ".join(filter(None, _make_remarks(reading)))


def _make_remarks(reading: Reading) -> Iterator[str]:
    """Yield remarks on how a tensor was read; one that does not apply is an empty text."""
    yield reading.candidate.words
    yield from _make_remarks_on_columns(reading)
    yield reading.arrangement.folding.note
    yield _describe_dropped_axes(reading)
    for axis in reading.arrangement.copy_axes:
        yield f"repeated {reading.array.shape[axis]}× along axis {axis}"
    if reading.step:
        yield f"integers with a scale of 1/{round(1 / reading.step)}"
    yield _describe_masks(reading)


def _is_one_table_of_model(reading: Reading) -> bool:
    """Return True for the cosines or the sines of a model, in a tensor of their own."""
    is_of_model = reading.candidate.origin is not None
    return is_of_model and reading.candidate.has_frequencies and not reading.holds_both


def _make_remarks_on_columns(reading: Reading) -> Iterator[str]:
    """Yield remarks on what the columns hold: «all cosines, then all sines», «one column per frequency».

    The number of columns goes without saying for two files that agree in it, but not for a
    table of a model: some runtimes store each frequency once, others twice.
    """
    if reading.holds_both:
        yield _describe_functions(reading)
    are_columns_doubled = bool(reading.form.doubled)
    if are_columns_doubled or _is_one_table_of_model(reading):
        yield columns(reading.form.doubled)
    if reading.form.is_signed:
        yield "the first of them negated: the sign of the rotation is folded in"


def _describe_functions(reading: Reading) -> str:
    """Return how cosines and sines lie beside each other: «the cosines, then the sines»."""
    names = [PLURALS.get(name, name) for name in reading.candidate.names]
    arrangement = "complex" if reading.is_complex else reading.form.arrangement
    return ARRANGEMENTS[arrangement].words.format(*names)


def _describe_dropped_axes(reading: Reading) -> str:
    has_dropped_axes = reading.array.shape.count(1) > reading.candidate.shape.count(1)
    return "axes of length 1 dropped" if has_dropped_axes else ""


def _describe_masks(reading: Reading) -> str:
    """Return a remark if two files write a mask in two ways: «-3.4e+38 stands for -inf».

    A table that a model requires has −∞, so that nothing has to be stated about it.
    """
    part = reading.parts[0]
    if not part.masked or not isinstance(part.expected, np.ndarray) or not part.found.size:
        return ""
    expected = _find_smallest_of_first_row(part.expected)
    found = _find_smallest_of_first_row(part.first_copy)
    return "" if found == expected else f"{found:.3g} stands for {expected:.3g}"


def _find_smallest_of_first_row(bias: AnyArray) -> float:
    """Return the smallest value of the first query, which sees no later key in a causal bias."""
    first_row = first_along(bias, bias.ndim - 1)
    return float(widest(first_row).min())
