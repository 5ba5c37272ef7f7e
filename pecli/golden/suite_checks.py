"""Checks of a golden suite, and of a port's answers to its cases."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from pecli.checks.diagnosis import diagnose
from pecli.checks.diff import diff
from pecli.checks.run import Check
from pecli.checks.verify import Verification, verify
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray as Array
from pecli.engine.arrays import dtype_name
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, ParameterError, listed, nearest, quoted
from pecli.explain.words import sentence
from pecli.files.load import load
from pecli.golden.cases import TOLERANCES
from pecli.golden.suite_files import read_tensors
from pecli.golden.suite_index import WRONG_DIGEST, Entry, read_index
from pecli.tensors.apply import apply

MISTAKE_TOLERANCE = 1e-5
"""The tolerance at which a known mistake must be found: its tensors are kept in float32."""
CASE_AND_TENSOR = re.compile(r"(?P<case>.*)[/.:](?P<tensor>[^/.:]+)")
"""Names of answers: that of a case, which may have dots itself, and of one of its tensors."""
MAX_LISTED = 3  # cases that a message names


def suite_checks(folder: str) -> list[Check]:
    """Return a check per case of a suite.

    A case passes if its files are those of the index and its numbers are those of its scheme; a
    known mistake, if it is rejected for the right reason.
    """
    checks = []
    for name, entry in read_index(folder).items():
        checks.append(Check(name, partial(_verify_case, entry), group=folder))
    return checks


def answer_checks(folder: str, answers: Iterable[str], tolerance: Tolerance | None) -> list[Check]:
    """Return a check per case whose tensors a port has computed.

    A port writes files of answers, tensors called CASE.TENSOR, CASE/TENSOR or CASE, such as
    `table-default.cos`. If cases are left out, a last check is weak and names them. Known mistakes
    are for the port's own checks, and need no answer.

    Args:
        folder: The folder of the suite.
        answers: The files of the port.
        tolerance: The tolerance; None for that of each case.
    """
    entries = read_index(folder)
    checks: list[Check] = []
    for file in answers:
        checks += _file_checks(entries, file, tolerance)
    answered_names = {check.file for check in checks}
    expected_names = [name for name, entry in entries.items() if not entry.is_mistake]
    missing_names = [name for name in expected_names if name not in answered_names]
    if missing_names:
        checks.append(_incomplete(folder, missing_names, len(expected_names)))
    return checks


def _incomplete(folder: str, missing: list[str], count: int) -> Check:
    """Return a weak check that names cases without an answer, of `count` cases in all."""
    cases = f"{len(missing)} of {count} cases have no answer"
    weakness = f"{cases}: {listed(missing, MAX_LISTED)}"
    return Check(folder, lambda: Verification(folder, "golden", (), weak=(weakness,)))


def _file_checks(
    entries: Mapping[str, Entry], file: str, tolerance: Tolerance | None
) -> list[Check]:
    """Return a check per case that a file of answers has tensors of.

    `rope.cos` and `rope.sin` are two tensors of the case `rope`, which is checked once.
    """
    checks = []
    for case, tensors in _tensors_by_case(entries, file).items():
        verify_answer = partial(_verify_answer, entries[case], tensors, tolerance)
        checks.append(Check(case, verify_answer, group=file))
    return checks


def _tensors_by_case(entries: Mapping[str, Entry], file: str) -> dict[str, dict[str, Array]]:
    """Return a port's tensors of each case: {"rope": {"cos": …, "sin": …}}.

    Raises:
        FileError: If two names mean one tensor, such as `rope.cos` and `rope/cos`.
    """
    tensors_by_case: dict[str, dict[str, Array]] = {}
    for name, array in load(file).items():
        case, tensor = _case_and_tensor(entries, file, name)
        tensors = tensors_by_case.setdefault(case, {})
        if tensor in tensors:
            raise FileError(file, f"has {tensor} of {case} twice", f"leave out {quoted(name)}")
        tensors[tensor] = array
    return tensors_by_case


def _case_and_tensor(entries: Mapping[str, Entry], file: str, name: str) -> tuple[str, str]:
    """Return the case of a suite, and the tensor of that case, that an answer's name means.

    `table-default.cos` and `table-default/cos` are the tensor `cos` of the case `table-default`.
    `table-default` without a tensor is the main tensor of the case.

    Args:
        entries: The cases of the suite by name.
        file: The file of answers, for the error.
        name: The name of a tensor in that file.

    Raises:
        FileError: If no case has that name.
    """
    if name in entries:
        return name, _main_tensor(entries[name])
    match = CASE_AND_TENSOR.fullmatch(name)
    if match and match["case"] in entries:
        return match["case"], match["tensor"]
    advice = nearest(name, entries)
    if not advice:
        advice = f"name answers CASE.TENSOR; cases are {listed([*entries], MAX_LISTED)}"
    raise FileError(file, f"has {quoted(name)}, which is no case of the suite", advice)


def _main_tensor(entry: Entry) -> str:
    """Return the tensor that an answer without a tensor's name is: the rotated or the largest."""
    if "after" in entry.shapes:
        return "after"
    return max(entry.shapes, key=lambda name: math.prod(entry.shapes[name]))


def _verify_case(entry: Entry) -> Verification:
    """Return whether the files of a golden case are intact and their numbers are right.

    A case is a scheme, such as rope, with the tensors that it must give. Depending on the case, they
    are right tables, a table with a known mistake, or vectors before and after a rotation.
    """
    damage = tuple(f"{file}: {WRONG_DIGEST}" for file in entry.damaged_files())
    if damage:
        return _result_from_problems(entry, damage)
    tensors = read_tensors(entry)
    if entry.is_mistake:
        return _verify_mistake(entry, tensors)
    if entry.is_rotation:
        rotated_again = {"after": _rotated(entry, tensors)}
        return _verify_answer(entry, rotated_again, tolerance=None)
    return _verify_case_of_tables(entry, tensors)


def _verify_case_of_tables(entry: Entry, tensors: Mapping[str, Array]) -> Verification:
    """Compare the tables in a case's files with exact tables of its scheme."""
    tables = dict(tensors)
    tables.pop("attention_factor", None)  # It is a single number, and not a table.
    if not tables:
        raise entry.error("has no tensors")
    result = _verify_tables(tables, entry.scheme, Tolerance())
    # The case names its scheme: nothing had to be assumed that makes a pass weak.
    return replace(result, file=entry.name, weak=())


def _result_from_problems(entry: Entry, problems: tuple[str, ...]) -> Verification:
    """Return the result of a case that has these problems; it passes if there are none.

    It lists no compared tensors.
    """
    return Verification(entry.name, entry.scheme.name, tensors=(), problems=problems)


def _rotated(entry: Entry, tensors: Mapping[str, Array]) -> Array:
    """Return the queries or keys `before` of a case, rotated as its settings (an offset, …) state."""
    if "before" not in tensors:
        raise entry.error("has no tensor 'before'")
    try:
        rotated: Array = apply(tensors["before"], entry.scheme, **entry.settings)
    except ParameterError as problem:
        raise entry.error(f"has wrong settings: {problem}") from None
    return rotated


def _verify_tables(
    tensors: Mapping[str, Array], scheme: Scheme, tolerance: Tolerance
) -> Verification:
    """Compare tensors with the tables of a scheme, such as the cos and sin of rope.

    Several tensors are compared by their names. A single one may have any name, such as `table`, and
    may equal any table. But a tensor called `cos` must not equal the sines.
    """
    if len(tensors) > 1:
        return verify(dict(tensors), scheme, tolerance)
    ((name, array),) = tensors.items()
    result_for_any_table = verify(array, scheme, tolerance)
    if result_for_any_table.passed and _is_misnamed(name, result_for_any_table, scheme):
        # With its name, the comparison fails, and reports that sines are called `cos`.
        return verify({name: array}, scheme, tolerance)
    return result_for_any_table


def _is_misnamed(name: str, passed: Verification, scheme: Scheme) -> bool:
    """Return True if an array has the name of one table, and equals other tables of a scheme.

    Args:
        name: The name of the array, such as `cos`.
        passed: Its comparison without that name, which has the names of the tables that it equals.
        scheme: The scheme.
    """
    table_names = {table.name for table in scheme.tensors()}
    equal_names = {tensor.name for tensor in passed.tensors}
    return name in table_names - equal_names


def _verify_mistake(entry: Entry, tensors: Mapping[str, Array]) -> Verification:
    result = verify(tensors, entry.scheme, atol=MISTAKE_TOLERANCE)
    return _result_from_problems(entry, _mistake_problems(entry, result))


def _mistake_problems(entry: Entry, result: Verification) -> tuple[str, ...]:
    """Return what is wrong with the check of a known mistake; empty if it fails for the right reason.

    A table with the base 10000 instead of 500000 must be rejected, and «base» must be a reason.
    """
    if result.passed:
        return ("a known mistake passes",)
    subjects: set[str] = set()
    for explanation in result.explanations:
        subjects.update(edit.subject for edit in explanation.edits)
    missing_reasons = sorted({*entry.reasons} - subjects)
    if missing_reasons:
        return (f"its reason is not {missing_reasons[0]}: {'; '.join(result.diagnosis)}",)
    return ()


def _verify_answer(
    entry: Entry, answers: Mapping[str, Array], tolerance: Tolerance | None
) -> Verification:
    """Compare a port's tensors with a case, within its tolerance for their dtype by default.

    Rotated vectors and attention factors are compared with the files of the suite; tables with those
    of the scheme, so that mistakes in them are named.
    """
    entry.check_files()
    if tolerance is None:
        tolerance = Tolerance(atol=_largest_tolerance(entry, answers))
    if entry.is_rotation or "attention_factor" in answers:
        return _verify_answers_by_files(entry, answers, tolerance)
    result = _verify_tables(answers, entry.scheme, tolerance)
    return replace(_with_advice_for_suite(result, tolerance), file=entry.name)


def _with_advice_for_suite(result: Verification, tolerance: Tolerance) -> Verification:
    """Return a result whose advice works with a suite, which takes `--atol`, and no `--recipe`.

    Args:
        result: The comparison of a port's tables with a scheme.
        tolerance: The differences that are allowed.
    """
    if not result.explanations:
        return result
    lines = diagnose(result.explanations, result.tensors, tolerance, takes_recipe=False)
    return replace(result, reasons=tuple(line.text for line in lines))


def _verify_answers_by_files(
    entry: Entry, answers: Mapping[str, Array], tolerance: Tolerance
) -> Verification:
    """Compare tensors that a port computed with the right tensors in the files of a golden case.

    Args:
        entry: The case.
        answers: The port's tensors, by name.
        tolerance: The differences that are allowed.
    """
    right_tensors = read_tensors(entry)
    answered_names = sorted(right_tensors.keys() & answers.keys())
    right_answers = {name: right_tensors[name] for name in answered_names}
    difference = diff(right_answers, dict(answers), tolerance)
    # An explanation names the port's mistake, such as another base. The diagnosis only describes
    # where the numbers differ.
    explanations = tuple(map(sentence, difference.explanations))
    problems = explanations or difference.diagnosis
    return Verification(
        entry.name, entry.scheme.name, difference.tensors, problems, weak=difference.weak
    )


def _largest_tolerance(entry: Entry, answers: Mapping[str, Array]) -> float:
    """Return the largest of the tensors' tolerances; rotated ones are held to float32's."""
    tolerances = []
    for array in answers.values():
        dtype = "float32" if entry.is_rotation else dtype_name(array.dtype)
        tolerances.append(entry.tolerances.get(dtype, TOLERANCES["float32"]))
    return max(tolerances)
