"""A recorded run compared with what the model's configuration requires: the first wrong layer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter

from pecli.checks.diagnosis import Reasons
from pecli.checks.doubts import Doubt, ImagesAsRecorded, OnlyTables
from pecli.checks.file_problems import (
    MAX_LISTED,
    FileProblem,
    InCall,
    LayersNotRotated,
    RotatedNopeLayers,
    layer_list,
)
from pecli.checks.recorded.call_tokens import CallTokens
from pecli.checks.recorded.module_checker import ModuleChecker
from pecli.checks.recorded.module_checks import ModuleCheck
from pecli.checks.recorded.run_result import RunVerification
from pecli.checks.recorded.run_shapes import check_shapes
from pecli.checks.recorded.run_tensors import AFTER, RecordedCall, RecordedRun, layer_of
from pecli.compare.comparison import problems_of
from pecli.compare.tolerance import Tolerance
from pecli.engine.grouping import grouped
from pecli.errors import NoTablesError, listed
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model


def verify_run(
    run: RecordedRun, model: Model, tolerance: Tolerance, reasons: bool, label: str
) -> RunVerification:
    """Compare everything in a recorded run with what the model's configuration requires.

    Values are compared by checks; a problem is something else that is wrong, such as position ids.
    The answer has reasons for failed checks, or, if all is right, doubts: what a pass does not prove.

    Args:
        run: The recorded run.
        model: The model's configuration.
        tolerance: The errors that pass. If it is exact, those of the model's own arithmetic pass:
            the rounding of its dtypes, and float32 angles.
        reasons: True if reasons for failures are searched for.
        label: The name of the run in the answer.

    Raises:
        FileError: If tensors of the run do not belong together.
        NoTablesError: If the run holds nothing that the configuration has an encoding for.
    """
    check_shapes(run, label)
    encodings = load_model(model)
    scheme_names = [*dict.fromkeys(encoding.scheme for encoding in encodings)]
    tokens = [CallTokens(call, encodings.position_axes) for call in run.calls]
    checker = ModuleChecker(run=run, tokens=tokens, encodings=encodings, tolerance=tolerance)
    checks, unchecked = checker.check_all()
    problems = [*_find_problems(run, tokens, encodings)]
    if not checks and not problems:
        raise _make_error_for_nothing(label, scheme_names, unchecked)
    failed = [check for check in checks if not check.passed]
    results = tuple(chain.from_iterable(check.results for check in checks))
    answer = RunVerification(
        file=label,
        scheme=", ".join(scheme_names),
        tensors=results,
        problems=(*map(str, problems), *problems_of(results)),
        unchecked=tuple(unchecked),
        wrong_layers=_list_layers(failed),
    )
    if failed:
        return _with_first_wrong_layer(answer, failed, checks, search_reasons=reasons)
    # Problems make an answer fail as well, which stays without doubts then.
    return answer.with_doubts(_find_doubts(run, tokens, encodings, checks))


def _make_error_for_nothing(
    label: str, scheme_names: Sequence[str], unchecked: Sequence[str]
) -> NoTablesError:
    """Return the error for a run that has no table, rotation or learned row of the model's schemes."""
    problem = f"holds a run without anything of {' or '.join(scheme_names) or 'any encoding'}"
    advice = "rotations and learned rows are recorded"
    if unchecked:
        advice = f"shapes or positions are not the model's: {listed(unchecked, MAX_LISTED)}"
    return NoTablesError(label, problem, advice)


# The first wrong layer


def _with_first_wrong_layer(
    answer: RunVerification,
    failed: Sequence[ModuleCheck],
    checks: Sequence[ModuleCheck],
    *,
    search_reasons: bool,
) -> RunVerification:
    """Return a failed answer that names the first wrong layer, and why it is wrong.

    Only the first is explained: later layers mostly repeat its mistake, and a search takes long.

    Args:
        answer: The answer without reasons.
        failed: The checks that failed.
        checks: All checks.
        search_reasons: False if only the layer is named.
    """
    # Checks without a layer have equal keys: of these, it is the first that was recorded.
    first = min(failed, key=attrgetter("order_key"))
    explained = _find_reasons(first, failed) if search_reasons else Reasons()
    return replace(
        answer,
        reasons=(_write_headline(first, failed, checks), *explained.lines),
        explanations=tuple(explained.explanations),
        first_place=first.module,
    )


def _list_layers(checks: Sequence[ModuleCheck]) -> tuple[int, ...]:
    """Return the numbers of the layers that some checks are about, each once, in order."""
    return tuple(sorted({check.layer for check in checks if check.layer is not None}))


def _write_headline(
    first: ModuleCheck, failed: Sequence[ModuleCheck], checks: Sequence[ModuleCheck]
) -> str:
    """Return the sentence that names the first wrong layer, and the number of wrong ones.

    «layer 2 is the first that is wrong (model.layers.2: q, k); wrong layers: 2, 4 (of 5)»
    """
    where = _name_wrong_tensors(first, failed)
    if first.call:
        where += f", in call {first.call}"
    if first.layer is None:
        return f"wrong is {where}"
    first_layer = f"layer {first.layer} is the first that is wrong ({where})"
    wrong_layers = layer_list(_list_layers(failed))
    return f"{first_layer}; wrong layers: {wrong_layers} (of {len(_list_layers(checks))})"


def _name_wrong_tensors(first: ModuleCheck, failed: Sequence[ModuleCheck]) -> str:
    """Return the module of the first failure and its wrong tensors: `model.layers.2: q, k`."""
    names = []
    for check in failed:
        if (check.call, check.module) == (first.call, first.module):
            names += [result.name.rpartition(".")[2] for result in check.results]
    return f"{first.module}: {', '.join(names)}"


def _find_reasons(first: ModuleCheck, failed: Sequence[ModuleCheck]) -> Reasons:
    """Return the reasons for which the first wrong layer is wrong.

    If a table is wrong that several layers share (`model.rotary_emb`), its reasons come first: the
    rotated queries of the layer only inherit the mistake, and show it less precisely.
    """
    concerning = [check for check in failed if _concerns(check, first)]
    for check in sorted(concerning, key=lambda check: check.layer is not None):
        reasons = check.explain()
        if reasons.lines:
            return reasons._replace(lines=[f"{check.label}: {line}" for line in reasons.lines])
    return Reasons()


def _concerns(check: ModuleCheck, layer: ModuleCheck) -> bool:
    """Return True if a check is about a layer, or a table outside the layers that it takes rows from."""
    is_outside = check.layer is None and check.call == layer.call
    is_shared = is_outside and check.layer_type in (None, layer.layer_type)
    return is_shared or check.module == layer.module


# Beside values


def _find_problems(
    run: RecordedRun, tokens: Sequence[CallTokens], encodings: ModelEncodings
) -> Iterator[FileProblem]:
    """Yield what is wrong beside values: position ids, and layers that should rotate or not.

    If the run has several calls, each problem is reported with the number of its call.
    """
    is_only_call = len(run.calls) == 1
    for number, call in enumerate(run.calls):
        problems = [*tokens[number].find_id_problems(), *_find_rotation_problems(call, encodings)]
        for problem in problems:
            yield problem if is_only_call else InCall(number, problem)


def _find_rotation_problems(call: RecordedCall, encodings: ModelEncodings) -> Iterator[FileProblem]:
    """Yield layers that do not rotate although they should, and NoPE layers that do.

    SmolLM3's configuration, for example, leaves layers 3, 7, 11, … without a rotation (NoPE).
    Towers of images and audio count their layers from 0 again, and nothing of them is recorded.
    """
    ropes = [rope for rope in encodings.ropes() if not rope.part]
    if not ropes:
        return  # In a model without rope, no layer is expected to rotate.
    nope_layers = _find_layers_without_rope(ropes)
    unrotated = [layer for layer in call.unrotated_layers if layer not in nope_layers]
    if unrotated:
        yield LayersNotRotated(unrotated)
    rotated = sorted(nope_layers & _find_rotated_layers(call))
    if rotated:
        yield RotatedNopeLayers(rotated)


def _find_layers_without_rope(ropes: Iterable[Encoding]) -> set[int]:
    """Return the numbers of the layers that the configuration leaves unrotated: 3, 7, 11, … in SmolLM3."""
    layers_of_ropes = [rope.unrotated.nope_layers or () for rope in ropes]
    return set(chain(*layers_of_ropes))


def _find_rotated_layers(call: RecordedCall) -> set[int | None]:
    """Return the layers whose rotated queries or keys were recorded; None for those without a number."""
    return {layer_of(name) for name in call.tensors if name.endswith(AFTER)}


def _find_doubts(
    run: RecordedRun,
    tokens: Sequence[CallTokens],
    encodings: ModelEncodings,
    checks: Sequence[ModuleCheck],
) -> Iterator[Doubt | str]:
    """Yield what a pass does not prove, such as «2 rows cannot detect a missing rotation».

    Args:
        run: The recorded run.
        tokens: The positions of the tokens of each call.
        encodings: The model.
        checks: All checks of the run.
    """
    # Of each layer type, the check of the most elements proves most: the others prove nothing more.
    for check in _find_largest_checks(checks):
        yield from check.find_weaknesses()
    # Right tables do not prove that queries and keys are rotated by them.
    have_rotated_queries = any(_find_rotated_layers(call) for call in run.calls)
    if encodings.ropes() and not have_rotated_queries:
        yield OnlyTables()
    # Positions of images depend on their sizes, which are not recorded: the used ones count as right.
    if any(call_tokens.has_images for call_tokens in tokens):
        yield ImagesAsRecorded()


def _find_largest_checks(checks: Iterable[ModuleCheck]) -> list[ModuleCheck]:
    """Return the check of most elements within the layers of each type."""
    in_layers = [check for check in checks if check.layer is not None]
    by_type = grouped(in_layers, lambda check: check.layer_type)
    return [max(of_type, key=lambda check: check.size) for of_type in by_type.values()]
