"""The reasons for which tensors of a file are wrong, one for all tensors with the same mistake."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pecli.checks.checked_tensor import CheckedTensor, tables_by_scheme, tables_of_part
from pecli.checks.diagnosis import (
    Reasons,
    atol_with_recipe,
    diagnose,
    find_passing_recipe,
)
from pecli.checks.digest import compute_digest
from pecli.checks.file_problems import MAX_LISTED
from pecli.compare.tolerance import Tolerance
from pecli.engine.grouping import grouped
from pecli.errors import listed
from pecli.files.tensor_roles import layer_number

if TYPE_CHECKING:  # Explanations are imported if a check fails.
    from pecli.explain.explanation import Explanation

MAX_EXPLAINED_GROUPS = 4
"""Groups of layers, each with tables of its own, that are explained: every search takes up to two seconds."""


class _Failure(NamedTuple):
    """Tensors that failed for the same reason."""

    layers: str  #: the layers that they belong to, in words; empty if all do
    tensors: list[CheckedTensor]


def find_reasons(
    checked: Sequence[CheckedTensor], tolerance: Tolerance, *, search: bool
) -> Reasons:
    """Return the reasons for all failures, in lines and as data.

    Some are seen at once, such as a bias of zeros. For others a search changes the expected scheme
    until it makes the wrong table, which takes seconds and is left out unless `search` is set.
    """
    lines: list[str] = []
    explanations: list[Explanation] = []
    for failure in _find_failures(checked):
        reasons = _explain_failure(failure, checked, tolerance, search=search)
        lines += reasons.lines
        explanations += reasons.explanations
    return Reasons(lines, explanations)


def _explain_failure(
    failure: _Failure, checked: Sequence[CheckedTensor], tolerance: Tolerance, *, search: bool
) -> Reasons:
    """Return the reasons for one failure: the obvious one, or those that a search finds.

    Args:
        failure: The tensors that failed.
        checked: All tensors that were compared; a recipe is advised only if it is that of all.
        tolerance: The errors that pass.
        search: True to search for a reason that is not obvious.
    """
    results = [tensor.result for tensor in failure.tensors]
    obvious_reason = _find_obvious_reason(failure.tensors)
    if obvious_reason:
        names = listed([result.name for result in results], MAX_LISTED)
        return Reasons([f"{names}: {obvious_reason}"])
    explanations: list[Explanation] = []
    if search:
        for explanation in _search_mistakes(failure.tensors, tolerance):
            explanations.append(_with_scope_of_recipe(explanation, checked, tolerance))
    diagnosis = diagnose(explanations, results, tolerance)
    return Reasons([line.about(failure.layers) for line in diagnosis], explanations)


def _find_obvious_reason(tensors: Sequence[CheckedTensor]) -> str:
    """Return the reason for a failure that needs no search; empty if there is none."""
    right_for = tensors[0].right_for
    if right_for:
        return f"right for {right_for} layers"
    if all(map(_is_no_bias, tensors)):
        return "all values are 0: there is no bias"
    return ""


def _is_no_bias(checked: CheckedTensor) -> bool:
    """Return True for slopes or a bias, as ALiBi has them, if all of it is zero."""
    is_bias = bool(checked.found_tables) and {"bias", "slopes"}.issuperset(checked.found_tables)
    return is_bias and not any(table.any() for table in checked.found_tables.values())


def _search_mistakes(tensors: Sequence[CheckedTensor], tolerance: Tolerance) -> "list[Explanation]":
    """Search for the mistakes that turn the expected tables into those that were found.

    If nobody stated how many rows a table should have, a different number is not a mistake.
    """
    from pecli.explain.explanation import merged
    from pecli.explain.search import explain
    from pecli.explain.time_limit import time_limit

    by_scheme: list[Explanation] = []
    with time_limit():
        for scheme, found_tables in tables_by_scheme(tensors).items():
            by_scheme += explain(scheme, found_tables, tolerance.atol)
        explanations = merged(by_scheme)
    all_have_stated_length = all(tensor.has_length for tensor in tensors)
    if all_have_stated_length:
        return explanations
    return [explanation.without_parameter("seq_len") for explanation in explanations]


def _with_scope_of_recipe(
    explanation: "Explanation", checked: Iterable[CheckedTensor], tolerance: Tolerance
) -> "Explanation":
    """Return an explanation, marked if some tensor would not pass with its recipe.

    If only sines were computed by float16-inv-freq, and cosines are exact, `--recipe float16-inv-freq`
    would make the cosines fail.

    Args:
        explanation: The explanation of some of the failed tensors.
        checked: All tensors that were compared.
        tolerance: The errors that pass.
    """
    recipe = find_passing_recipe(explanation)
    if not recipe:
        return explanation
    atol = atol_with_recipe(explanation.recipe_residual, tolerance)
    if all(_is_within_recipe(tensor, recipe, atol) for tensor in checked):
        return explanation
    return explanation.with_recipe_of_some()


def _is_within_recipe(tensor: CheckedTensor, recipe: str, atol: float) -> bool:
    """Return True if the tables of a tensor are those that its scheme makes by a recipe.

    A tensor without tables that a scheme makes, such as a learned one, does not depend on the recipe.

    Args:
        tensor: The tensor.
        recipe: The recipe, such as float32.
        atol: The largest absolute difference of an element that is right.
    """
    from pecli.explain.recipe_difference import difference_from_recipe

    if tensor.scheme is None:
        return True
    return all(
        difference_from_recipe(scheme, tables_of_part(part, tensor.found_tables), recipe) <= atol
        for part, scheme in tensor.scheme.by_layer_type()
    )


# Tensors that failed for the same reason


def _find_failures(checked: Sequence[CheckedTensor]) -> Iterator[_Failure]:
    """Yield the tensors that failed, those together that have the same reason.

    If 28 layers have the same wrong table, that is one failure. If only layers 3 and 4 have it, the
    failure states their numbers: «layers 3, 4», or «sliding_attention layers 3, 4» in a model with
    several layer types.
    """
    failed = [tensor for tensor in checked if tensor.is_to_explain]
    by_reason = grouped(failed, lambda tensor: (tensor.layer_type, tensor.right_for))
    for (layer_type, right_for), tensors in by_reason.items():
        if right_for:  # That is the reason, whatever the numbers of the layers are.
            yield _Failure(layer_type, tensors)
        else:
            yield from _split_by_table(layer_type, tensors, checked)


def _split_by_table(
    layer_type: str, failed: Sequence[CheckedTensor], checked: Sequence[CheckedTensor]
) -> Iterator[_Failure]:
    """Yield a failure for all layers of a type that have the same wrong tables, so that it is explained once.

    If layers 0 to 3 have one wrong table and layer 4 another, there are two failures.

    Args:
        layer_type: The layer type; empty if the model has one only.
        failed: The tensors of these layers that failed.
        checked: All tensors that were compared.
    """
    layers = grouped(failed, _read_layer)
    groups = [[*layers]]
    if len(layers) > 1:  # The tables of a single layer, which may be large, are not read again.
        # Groups of layers with equal tables, by the layers' numbers: 0, 1 and 3, and 2 by itself.
        by_tables = grouped(layers, lambda number: _identify_tables(layers[number]))
        groups = [*by_tables.values()]
    for numbers in groups[:MAX_EXPLAINED_GROUPS]:
        words = _describe_layers(layer_type, numbers, checked)
        yield _Failure(words, [tensor for number in numbers for tensor in layers[number]])


def _describe_layers(
    layer_type: str, failed: Sequence[str], checked: Sequence[CheckedTensor]
) -> str:
    """Return the layers of a failure in words: «sliding_attention layers 3, 4».

    Their numbers are left out if all layers of the type failed.

    Args:
        layer_type: The layer type; empty if the model has one only.
        failed: The numbers of the layers that failed, as text. Tensors whose names have no number
            count as one layer, whose number is empty.
        checked: All tensors that were compared.
    """
    layers_of_type = {_read_layer(tensor) for tensor in checked if tensor.layer_type == layer_type}
    numbers = [*filter(None, failed)]
    have_all_failed = len(failed) == len(layers_of_type)
    if have_all_failed or not numbers:
        return layer_type
    noun = "layer" if len(numbers) == 1 else "layers"
    return f"{layer_type} {noun} {listed(numbers, MAX_LISTED)}".strip()


def _read_layer(tensor: CheckedTensor) -> str:
    """Return the number of the layer in a tensor's name, as text; empty if it has none."""
    number = layer_number(tensor.tensor)
    return "" if number is None else str(number)


def _identify_tables(layer: Iterable[CheckedTensor]) -> frozenset[tuple[object, ...]]:
    """Return what two layers have in common if their tables have the same values, and so the same mistake.

    That is, for each table, the scheme that should make it, its name there, such as `cos`, its shape,
    and a hash of its values.
    """
    tables = set()
    for tensor in layer:
        for name, table in tensor.found_tables.items():
            tables.add((tensor.scheme, name, table.shape, compute_digest([table])))
    return frozenset(tables)
