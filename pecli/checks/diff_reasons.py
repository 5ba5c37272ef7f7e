"""Reasons for which two files differ: another dtype, a transform, or other parameters."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from pecli.checks.diagnosis import Reasons
from pecli.checks.layer_departures import Compare, describe_first_departing_layer
from pecli.checks.tensor_matches import TablePair, TensorMatch
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherDtype
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Array
from pecli.engine.edits import ONLY_FUNCTION_BY_EDIT, ColumnsWrong, Parameter, Runtime, Scaled
from pecli.engine.schemes.scheme import Scheme, holds_several, tensors_by_name
from pecli.explain import array_transforms, recognition, search, time_limit
from pecli.explain.explanation import Explanation, merged
from pecli.explain.wave_tables import has_longrope_for_amplitude
from pecli.explain.words import FILE_A, sentence
from pecli.files.tensor_roles import role_of

MAX_EXPLAINED_TABLES = 16  #: tables of one file whose differences are explained
NO_LONGROPE = Parameter("scaling", "longrope", "none")
"""The edit of a table that has no LongRoPE where it is expected."""

MIN_ELEMENTS = 8  #: elements of a table whose scheme is searched for
MAX_NOISE_ULP = 8  #: ULPs that no transform would leave


class Files(NamedTuple):
    """The tensors of two files, and the scheme that A carries."""

    a: Mapping[str, Array]
    b: Mapping[str, Array]
    scheme: Scheme | None


def explain_difference(
    files: Files,
    matches: Sequence[TensorMatch],
    tensors: Sequence[Comparison],
    tolerance: Tolerance,
    compare: Compare | None,
) -> Reasons:
    """Return the reasons for which two files differ, such as «in B, base is 500000 (in A 10000)».

    If the files are dumps of two runs of a model, the first layer that differs is named: later layers
    compute with its results. A wrong rotation in this layer explains everything. Otherwise a reason
    is searched for among the tensors that differ.

    Args:
        files: Both files.
        matches: The tensors that belong together.
        tensors: Their comparisons.
        tolerance: The errors that pass.
        compare: Compares the tables of two rotations; None if no reasons are searched for.
    """
    first_layer = describe_first_departing_layer(files.a, files.b, tensors, compare)
    is_search_wanted = compare is not None
    if first_layer.is_explained or not is_search_wanted:
        return Reasons(first_layer.sentences)
    explanations = _explain_tensors(matches, tensors, files.scheme, tolerance)
    reasons = [sentence(explanation, FILE_A) for explanation in explanations]
    return Reasons([*first_layer.sentences, *reasons], explanations)


def _explain_tensors(
    matches: Sequence[TensorMatch],
    tensors: Sequence[Comparison],
    scheme: Scheme | None,
    tolerance: Tolerance,
) -> list[Explanation]:
    """Return explanations of how B differs from A, for all tensors that did not pass.

    B may hold the values of A rounded to its dtype, such as bfloat16. Then the rounding explains a
    tensor. The remaining tensors are explained together, since one wrong parameter changes cosines
    and sines alike.

    Args:
        matches: The tensors that belong together.
        tensors: Their comparisons.
        scheme: The scheme that A carries; None if it carries none.
        tolerance: The errors that pass.
    """
    by_rounding: list[Explanation] = []
    unexplained: list[TablePair] = []
    for match, result in zip(matches, tensors, strict=True):
        if result.passed or _differs_in_dtype_only(result):
            continue
        rounding = _explain_rounding(match, result)
        if rounding is not None:
            by_rounding.append(rounding)
        elif _may_have_one_reason(match, result):
            unexplained += match.pairs()
    with time_limit.time_limit():
        by_search = _explain_tables(unexplained[:MAX_EXPLAINED_TABLES], scheme, tolerance)
    return merged([*by_rounding, *by_search])


def _differs_in_dtype_only(result: Comparison) -> bool:
    """Return True if all values are equal in another dtype, which the result states already."""
    return isinstance(result.finding, OtherDtype) and not result.max_abs_error


def _may_have_one_reason(match: TensorMatch, result: Comparison) -> bool:
    """Return True if a single mistake may explain all wrong values of a tensor.

    A few ULPs are rounding, and no mistake. If a tensor holds a table several times, once per sequence,
    and its copies differ, a mistake that explains one copy would not explain the others.
    """
    return not _differs_by_few_ulps(result) and not match.has_copies_that_differ


def _differs_by_few_ulps(result: Comparison) -> bool:
    """Return True if a tensor differs by a few ULPs only, which no mistake would leave.

    The most negative number is one ULP from −∞, but a mask that is written differently is no noise.
    """
    if result.finding is not None:  # Another shape, for example, is no matter of ULPs.
        return False
    ulps = result.max_ulp_error
    if ulps is None or ulps > MAX_NOISE_ULP:
        return False
    return math.isfinite(result.largest_error)


def _explain_rounding(match: TensorMatch, result: Comparison) -> Explanation | None:
    """Return that B holds the values of A rounded to its own dtype, such as bfloat16.

    Returns:
        The explanation; None if both dtypes are equal, or if some table of the tensor differs by
        more than the rounding.
    """
    if not isinstance(result.finding, OtherDtype):
        return None
    explanations = [
        array_transforms.explain_rounding(result.name, pair.a, pair.b) for pair in match.pairs()
    ]
    # The explanations of all tables of the tensor are the same: the dtype of B.
    return None if None in explanations else explanations[0]


def _explain_tables(
    pairs: Sequence[TablePair], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """Return reasons for tables that differ: exchanged names, a transform, or other parameters.

    They are tried in this order. A transform, such as rows that are shifted by one, is more certain
    than other parameters of a scheme. If the transform may also be a parameter, as a factor of 1.1
    may be YaRN's attention factor, it is returned only if no parameters explain the table.
    """
    swapped = _find_swapped(pairs, tolerance.atol)
    in_place = _without_explained(pairs, swapped)
    certain: list[Explanation] = []
    uncertain: list[Explanation] = []
    for transform in _find_transforms(in_place, tolerance.atol):
        if _may_be_parameter(transform):
            uncertain.append(transform)
        else:
            certain.append(transform)
    not_transformed = _without_explained(in_place, certain)
    parameters = _explain_by_parameters(not_transformed, scheme, tolerance)
    names_with_parameters = _collect_explained_names(parameters)
    transforms_left = _without_names(uncertain, names_with_parameters)
    return [*swapped, *certain, *parameters, *transforms_left]


def _find_swapped(pairs: Iterable[TablePair], atol: float) -> list[Explanation]:
    """Return that two tables have each other's names in B, such as `cos` and `sin`, if they do."""
    arrays_by_name = {pair.name: (pair.a, pair.b) for pair in pairs}
    return list(array_transforms.explain_exchanged_names(arrays_by_name, atol))


def _without_names(transforms: Iterable[Explanation], names: set[str]) -> list[Explanation]:
    """Return the transforms that are about none of the tensors with these names."""
    return [transform for transform in transforms if names.isdisjoint(transform.tensors)]


def _find_transforms(pairs: Iterable[TablePair], atol: float) -> Iterator[Explanation]:
    """Yield, for each table that has one, the transform that turns A's values into B's."""
    for pair in pairs:
        yield from array_transforms.explain_pair(pair.name, pair.a, pair.b, atol)


def _may_be_parameter(transform: Explanation) -> bool:
    """Return True if other parameters of the scheme may have the same effect as a transform.

    A factor may be YaRN's attention factor, and a few wrong columns those that a scaling changes.
    """
    return transform.has_edit(Scaled, ColumnsWrong)


def _without_explained(
    pairs: Sequence[TablePair], explanations: Iterable[Explanation]
) -> list[TablePair]:
    """Return the tables that no explanation is about."""
    names = _collect_explained_names(explanations)
    return [pair for pair in pairs if pair.name not in names]


def _collect_explained_names(explanations: Iterable[Explanation]) -> set[str]:
    """Return the names of the tensors that some explanation is about."""
    names: set[str] = set()
    for explanation in explanations:
        names.update(explanation.tensors)
    return names


def _explain_by_parameters(
    pairs: Sequence[TablePair], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """Return the parameters that tables of B have instead of those of A: base 500000, not 10000.

    A scheme is a formula with its parameters, such as Rope with base 10000. First the scheme of A's
    tables is found, and then the parameters are searched with which it makes B's tables.

    Args:
        pairs: Tables of A and B that belong together.
        scheme: The scheme that A carries, as files written by pecli do; None for other files, whose
            scheme is recognised by the values of the tables.
        tolerance: The errors that pass.
    """
    large_pairs = {pair.name: pair for pair in pairs if _is_large_enough(pair)}
    in_a = {name: pair.a for name, pair in large_pairs.items()}
    explanations: list[Explanation] = []
    for tables_of_a in _recognise_all(in_a, scheme):
        explanations += _find_other_parameters(tables_of_a, large_pairs, tolerance)
    return explanations


def _is_large_enough(pair: TablePair) -> bool:
    """Return True unless a table has so few numbers that any scheme could make it."""
    return min(pair.a.size, pair.b.size) >= MIN_ELEMENTS


def _recognise_all(in_a: Mapping[str, Array], scheme: Scheme | None) -> "Iterator[_Recognised]":
    """Yield the tables of A that belong together, each group with the scheme that makes it.

    If A carries a scheme, it makes all tables. Otherwise each group, such as `cos` and `sin`, is
    recognised by its values when the caller takes it, since time is limited. Groups that no scheme
    makes are left out.
    """
    if scheme is not None:
        yield _Recognised(scheme, in_a)
        return
    for group in recognition.groups(in_a):
        best_first = _recognise(group)
        yield from islice(best_first, 1)


def _find_other_parameters(
    tables_of_a: "_Recognised", pairs: Mapping[str, TablePair], tolerance: Tolerance
) -> Iterator[Explanation]:
    """Yield the parameters that change a scheme of A so that it makes the tables of B.

    Args:
        tables_of_a: Some tables of A, and the scheme that makes them, such as Rope with base 10000.
        pairs: The tables of A and B, by the same names.
        tolerance: The errors that pass.
    """
    scheme = tables_of_a.scheme
    if holds_several(scheme) or not tables_of_a.tables:
        return  # The search changes the parameters of one scheme, not those of a bundle.
    # The search has the scheme's names of the tables, `cos`; the files may have `cos_cached`.
    file_names = tables_of_a.names()
    tables_of_b = {name: pairs[file_name].b for name, file_name in file_names.items()}
    for explanation in _search_parameters(scheme, tables_of_b, tolerance.atol):
        yield explanation.renamed(file_names[name] for name in explanation.tensors)


def _search_parameters(
    scheme: Scheme, tables: Mapping[str, AnyArray], atol: float
) -> Iterator[Explanation]:
    """Yield the parameters of A's scheme that have to be changed so that it makes the tables of B.

    If A has base 10000 and B base 500000, that is the base.

    Args:
        scheme: The scheme that makes the tables of A.
        tables: The tables of B.
        atol: The absolute error that passes.
    """
    explanations = search.explain(scheme, tables, atol)
    if has_longrope_for_amplitude(scheme):
        # Cosines times a number are recognised as LongRoPE, of which the user may know nothing.
        yield from _without_mention_of_longrope(explanations, scheme)
    else:
        yield from explanations


def _without_mention_of_longrope(
    explanations: Iterable[Explanation], scheme: Scheme
) -> Iterator[Explanation]:
    """Yield those explanations that do not require LongRoPE in A, in terms of an attention factor.

    Plain cosines times 1.1386 are recognised as LongRoPE with divisors of 1 and the attention factor
    1.1386, only because no other scheme makes them. The user may know of no LongRoPE in A. So «B has
    no LongRoPE» becomes «B has the attention factor 1», and «a runtime that ignores LongRoPE made B»
    is left out.

    Args:
        explanations: The mistakes that turn tables of A into those of B.
        scheme: The scheme that was recognised in the tables of A: LongRoPE with divisors of 1.
    """
    for explanation in explanations:
        blames_runtime = explanation.has_edit(Runtime)
        if not blames_runtime:
            yield _with_attention_factor(explanation, scheme)


def _with_attention_factor(explanation: Explanation, scheme: Scheme) -> Explanation:
    """Return an explanation that states an attention factor of 1 instead of «no LongRoPE»."""
    if NO_LONGROPE not in explanation.edits:
        return explanation
    factor = Parameter("attention_factor", scheme.attention_factor_value(), 1.0)
    return explanation.without(NO_LONGROPE).beside(factor)


class _Recognised(NamedTuple):
    """Tables of A, and the scheme that makes them.

    Attributes:
        scheme: The scheme.
        tables: The tables by their names.
        function: «cos» or «sin», if they hold one function only.
    """

    scheme: Scheme
    tables: Mapping[str, Array]
    function: str = ""

    def names(self) -> dict[str, str]:
        """Return the names of the tables, by the names that the scheme has for them."""
        return {self._name_in_scheme(name): name for name in self.tables}

    def _name_in_scheme(self, name: str) -> str:
        """Return the scheme's name of a table: `cos` of `model.rotary_emb.cos_cached`.

        Names that do not tell belong to the table that the scheme writes into a file of one array.
        """
        tables = tensors_by_name(self.scheme)
        for candidate in (self.function, name, role_of(name)):
            if candidate in tables:
                return candidate
        return self.scheme.single_array().name


def _recognise(tables: Mapping[str, Array]) -> Iterator[_Recognised]:
    """Yield the schemes that make tables without mistakes, the best first.

    That a file has only cosines, or only sines, is no mistake.
    """
    for match in recognition.recognise(tables):
        is_right_otherwise = {*match.mistakes} <= ONLY_FUNCTION_BY_EDIT.keys()
        if match.scheme is not None and is_right_otherwise:
            functions = [ONLY_FUNCTION_BY_EDIT[edit] for edit in match.mistakes]
            yield _Recognised(scheme=match.scheme, tables=tables, function="".join(functions))
