"""The conclusion about a file from its compared tensors: reasons for failures, or doubts about a pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pecli.checks.checked_tensor import CheckedTensor, tables_by_scheme
from pecli.checks.doubts import Doubt, UnnamedTable
from pecli.checks.failures import find_reasons
from pecli.checks.file_problems import FileProblem
from pecli.checks.verification import Verification
from pecli.checks.weak_checks import find_weaknesses, looks_like_table
from pecli.compare.comparison import problems_of
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array


def make_answer(
    file: str,
    scheme: str,
    checked: Sequence[CheckedTensor],
    tolerance: Tolerance,
    problems: Sequence[FileProblem | str],
    *,
    search_reasons: bool,
) -> Verification:
    """Return the answer about a file, with the reasons for all failures.

    Args:
        file: The file, as it was given.
        scheme: The names of the schemes that it was compared with.
        checked: The tensors that were compared.
        tolerance: The errors that pass.
        problems: Problems of the file that no tensor has.
        search_reasons: True if mistakes are searched for that explain the failures; False if only
            those reasons are given that are seen at once.
    """
    reasons = find_reasons(checked, tolerance, search=search_reasons)
    results = tuple(tensor.result for tensor in checked)
    return Verification(
        file=file,
        scheme=scheme,
        tensors=results,
        problems=(*map(str, problems), *problems_of(results)),
        reasons=tuple(dict.fromkeys(reasons.lines)),
        readings={tensor.result.name: tensor.note for tensor in checked if tensor.note},
        explanations=tuple(reasons.explanations),
    )


def add_unchecked_and_doubts(
    answer: Verification,
    checked: Sequence[CheckedTensor],
    tensors: Mapping[str, Array],
    tolerance: Tolerance,
) -> Verification:
    """Return an answer with the names of tensors that were not compared, and with doubts if it passed.

    A doubt is a mistake with which the same tensors would have passed as well, such as another base
    that so few rows do not show.

    Args:
        answer: The answer about the tensors that were compared.
        checked: These tensors.
        tensors: All tensors of the file.
        tolerance: The errors that passed.
    """
    # All tensors are read: a damaged file is an error, whichever of its tensors is damaged.
    unchecked = dict(tensors)
    for tensor in checked:
        unchecked.pop(tensor.tensor, None)
    answer = replace(answer, unchecked=tuple(unchecked))
    return answer.with_doubts(_find_doubts(checked, unchecked, tolerance))


def _find_doubts(
    checked: Sequence[CheckedTensor], unchecked: Mapping[str, Array], tolerance: Tolerance
) -> Iterator[Doubt]:
    """Yield what a pass does not prove.

    A tensor that was not compared is a doubt if it looks like cosines: its table was overlooked.
    """
    yield from find_weaknesses(tables_by_scheme(checked), tolerance)
    for tensor in checked:
        yield from tensor.doubts
    for name, array in unchecked.items():
        if looks_like_table(array):
            yield UnnamedTable(name)
