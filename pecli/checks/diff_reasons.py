"""Reasons for which two files differ: another dtype, a transform, or other parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.layer_departures import Compare, first_departure
from pecli.checks.tensor_fits import Fit, TablePair
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherDtype
from pecli.compare.target import PLURALS
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import FLOAT8, SIGNIFICAND_BITS, Array, dtype_name, round_to, widened
from pecli.engine.schemes.scheme import Scheme, holds_several
from pecli.explain import array_transforms, search, sinusoid_readings, time_limit
from pecli.explain.edits import ColumnsWrong, Dtype, Explanation, Layout, Scaled, merged
from pecli.explain.words import FILE_A, sentence
from pecli.files.tensor_roles import role_of

MAX_EXPLAINED = 16  #: tables of one file whose differences are explained
MIN_ELEMENTS = 8  #: elements of a table whose scheme is searched for
MAX_NOISE_ULP = 8  #: ULPs that no transform would leave
ONE_FUNCTION = {Layout("cos and sin", f"{function} alone"): function for function in PLURALS}
"""Edits of tables that hold one function, and which."""


class Files(NamedTuple):
    """The tensors of two files, and the scheme that A carries."""

    a: Mapping[str, Array]
    b: Mapping[str, Array]
    scheme: Scheme | None


class DifferenceReasons(NamedTuple):
    """Sentences on why files differ, and the explanations as data."""

    sentences: list[str]
    explanations: list[Explanation]


def explain_difference(
    files: Files,
    fits: Sequence[Fit],
    tensors: Sequence[Comparison],
    tolerance: Tolerance,
    compare: Compare | None,
) -> DifferenceReasons:
    """Explain the difference of two files.

    Args:
        files: Both files.
        fits: The tensors that belong together.
        tensors: Their comparisons.
        tolerance: The errors that pass.
        compare: Compares the tables of two rotations; None if no reasons are searched for.
    """
    departure = first_departure(files.a, files.b, tensors, compare)
    if compare is None or departure.is_explained:
        return DifferenceReasons(departure.sentences, [])
    explanations = _explained(fits, tensors, files.scheme, tolerance)
    reasons = [sentence(explanation, FILE_A) for explanation in explanations]
    sentences = [*departure.sentences, *reasons]
    return DifferenceReasons(sentences, explanations)


def _explained(
    fits: Sequence[Fit],
    tensors: Sequence[Comparison],
    scheme: Scheme | None,
    tolerance: Tolerance,
) -> list[Explanation]:
    """Return what makes B of A. Differences in the last place have no reason."""
    explanations: list[Explanation] = []
    pairs: list[TablePair] = []
    for fit, result in zip(fits, tensors, strict=True):
        if result.passed:
            continue
        ulps = result.max_ulp_error
        if isinstance(result.finding, OtherDtype) and all(map(_is_rounded, fit.pairs())):
            if not result.max_abs_error:
                continue
            rounded = (Dtype(result.dtype),)
            error = result.max_abs_error
            explanations.append(Explanation(rounded, None, (result.name,), residual=error))
        elif result.finding is not None or ulps is None or ulps > MAX_NOISE_ULP:
            pairs += fit.pairs()
    with time_limit.time_limit():
        return explanations + _by_tables(pairs[:MAX_EXPLAINED], scheme, tolerance)


def _is_rounded(pair: TablePair) -> bool:
    """Return True if B holds the numbers of A, rounded to its own dtype."""
    dtype = dtype_name(pair.b.dtype)
    if dtype not in SIGNIFICAND_BITS and dtype not in FLOAT8:
        return False
    if pair.a.shape != pair.b.shape or pair.a.dtype.kind == "c":
        return False
    rounded = widened(round_to(widened(pair.a), dtype))
    return bool(np.array_equal(rounded, widened(pair.b), equal_nan=True))


def _by_tables(
    pairs: Sequence[TablePair], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """Return transforms that make B of A, or else other parameters."""
    by_name = {pair.name: (pair.a, pair.b) for pair in pairs}
    explanations = array_transforms.explain_swapped(by_name, tolerance.atol)
    swapped = {name for each in explanations for name in each.tensors}
    doubtful: list[tuple[str, Explanation]] = []
    unexplained = []
    for pair in pairs:
        if pair.name in swapped:
            continue
        transform = array_transforms.explain_pair(pair.name, pair.a, pair.b, tolerance.atol)
        if transform is not None and not _may_be_parameter(transform):
            explanations.append(transform)
            continue
        unexplained.append(pair)
        if transform is not None:
            doubtful.append((pair.name, transform))
    by_parameters = _by_parameters(unexplained, scheme, tolerance)
    explained = {name for each in by_parameters for name in each.tensors}
    explanations += by_parameters
    explanations += [each for name, each in doubtful if name not in explained]
    return explanations


def _may_be_parameter(transform: Explanation) -> bool:
    """Return True if another parameter may explain better: a factor, or columns, may be a scaling's."""
    return any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in transform.edits)


def _by_parameters(
    pairs: Sequence[TablePair], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """Return other parameters of A's scheme, or of the scheme that A is recognised as."""
    large = {pair.name: pair for pair in pairs if min(pair.a.size, pair.b.size) >= MIN_ELEMENTS}
    tables = {name: pair.a for name, pair in large.items()}
    recognised: Iterable[_Recognised] = [_Recognised(scheme, tables)]
    if scheme is None:  # One group after the other, as time is limited.
        recognised = map(_recognised, sinusoid_readings.groups(tables))
    explanations: list[Explanation] = []
    for expected in recognised:
        if expected.scheme is None or holds_several(expected.scheme) or not expected.tables:
            continue
        names = expected.names()
        found = {key: large[name].b for key, name in names.items()}
        for each in search.explain(expected.scheme, found, tolerance.atol):
            tensors = tuple(names[key] for key in each.tensors)
            explanations.append(replace(each, tensors=tensors))
    return merged(explanations)


class _Recognised(NamedTuple):
    """Tables of A, and the scheme that makes them.

    Attributes:
        scheme: The scheme; None if none was recognised.
        tables: The tables by their names.
        function: «cos» or «sin», if they hold one function only.
    """

    scheme: Scheme | None
    tables: Mapping[str, Array]
    function: str = ""

    def names(self) -> dict[str, str]:
        """Return the names of the tables, by the names that the scheme has for them."""
        assert self.scheme is not None
        known = {table.name for table in self.scheme.tensors()}
        names = {}
        for name in self.tables:
            key = self.scheme.single_array().name
            for candidate in (self.function, name, role_of(name)):
                if candidate in known:
                    key = str(candidate)
                    break
            names[key] = name
        return names


def _recognised(tables: Mapping[str, Array]) -> _Recognised:
    """Return the scheme that makes tables without mistakes, if there is one."""
    for match in search.recognise(tables):
        functions = [ONE_FUNCTION[edit] for edit in match.mistakes if edit in ONE_FUNCTION]
        if len(functions) == len(match.mistakes):
            return _Recognised(match.scheme, tables, "".join(functions))
    return _Recognised(None, tables)
