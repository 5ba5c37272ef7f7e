"""Running several checks: the order of outcomes, their status, errors of single checks, interrupts,
and JSON.

A check is a function that returns a verification or raises; here they return small results made by
hand. A group is what one pattern matched, such as the shards of a checkpoint.
"""

import threading

import numpy as np
import pytest

import pecli
from pecli.checks.run import Check, Outcome, Status, is_manifest, run_all, without_tables
from pecli.checks.verification import Verification
from pecli.errors import DefectError, FileError, NoTablesError, PecliError

NO_TABLES = NoTablesError("f", "has none")


def passing_result(name: str = "f", weak: tuple[str, ...] = ()) -> Verification:
    return Verification(name, "rope", (), weak=weak)


def outcome_of(
    result: Verification | PecliError, *, name: str = "", manifest: str = "", group: str = ""
) -> Outcome:
    return Outcome(Check("f", passing_result, name, manifest, group), result, 0.0)


def test_outcomes_come_in_the_order_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run_all` runs checks in threads. The first check waits until the last one has ended; their
    outcomes still come in the order in which they were given.
    """
    monkeypatch.setenv("PECLI_THREADS", "4")
    last_is_done = threading.Event()

    def first() -> Verification:
        assert last_is_done.wait(10)  # The others have to run meanwhile.
        return passing_result("first")

    def last() -> Verification:
        last_is_done.set()
        raise FileError("last", "does not exist")

    checks = [Check("first", first), Check("second", passing_result), Check("last", last)]
    outcomes = list(run_all(checks))

    assert [outcome.check.file for outcome in outcomes] == ["first", "second", "last"]
    assert [outcome.status for outcome in outcomes] == ["passed", "passed", "error"]
    assert outcomes[2].as_json()["diagnosis"] == ["last: does not exist"]
    assert all(outcome.seconds >= 0 for outcome in outcomes)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError, "memory"),
        (ZeroDivisionError, "unexpected ZeroDivisionError; this is a defect of pecli"),
    ],
)
def test_an_error_concerns_only_its_check(error: type[Exception], message: str) -> None:
    """The first of two checks runs out of memory or divides by zero; the second passes."""

    def broken() -> Verification:
        raise error

    outcomes = list(run_all([Check("a", broken), Check("b", passing_result)]))

    assert [outcome.status for outcome in outcomes] == [Status.ERROR, Status.PASSED]
    assert isinstance(outcomes[0].result, PecliError)
    assert message in str(outcomes[0].result)


def test_an_unforeseen_error_is_reported_as_a_defect_with_its_cause() -> None:
    """An exception that is none of pecli's own, such as a division by zero within a check, is a
    defect of pecli; the result keeps it as its cause.
    """

    def broken() -> Verification:
        raise ZeroDivisionError

    (broken_outcome,) = run_all([Check("a", broken)])

    assert isinstance(broken_outcome.result, DefectError)
    assert isinstance(broken_outcome.result.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_all_checks(
    stop: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.12 wraps an interrupt in a RuntimeError if it comes while a class is being
    made. The interrupt must end `run_all` nevertheless, and not count as an error of one check.
    """

    def wrapped() -> Verification:
        raise RuntimeError from stop()

    monkeypatch.setenv("PECLI_THREADS", "1")

    with pytest.raises(stop):
        list(run_all([Check("a", wrapped), Check("b", wrapped)]))


def test_closing_the_outcomes_does_not_wait_for_a_check_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`run_all` runs two checks in threads. The long one has begun and not ended when the iterator
    is closed, as Ctrl-C does: `close` must return before it ends.
    """
    monkeypatch.setenv("PECLI_THREADS", "2")
    has_begun = threading.Event()
    may_end = threading.Event()
    has_ended = threading.Event()

    def long() -> Verification:
        has_begun.set()
        may_end.wait(20)
        has_ended.set()
        return passing_result()

    def quick() -> Verification:
        assert has_begun.wait(10)
        return passing_result()

    outcomes = run_all([Check("quick", quick), Check("long", long)])

    assert next(outcomes).status == Status.PASSED

    outcomes.close()  # type: ignore[attr-defined]
    assert not has_ended.is_set()

    may_end.set()


@pytest.mark.parametrize(("group", "status"), [("", Status.ERROR), ("g", Status.SKIPPED)])
def test_a_file_without_tables_is_an_error_by_itself_and_skipped_in_a_group(
    group: str, status: Status
) -> None:
    """A group is what one pattern or folder matched, such as shards of a checkpoint, of which few
    hold tables; "" is no group.
    """
    assert outcome_of(NO_TABLES, group=group).status == status


@pytest.mark.parametrize(
    ("weak", "strict", "status"),
    [
        pytest.param((), False, Status.PASSED, id="no remark"),
        pytest.param((), True, Status.PASSED, id="no remark, strict"),
        pytest.param(("a remark",), False, Status.PASSED, id="a remark"),
        pytest.param(("a remark",), True, Status.WEAK, id="a remark, strict"),
    ],
)
def test_a_weak_pass_has_the_status_weak_if_the_check_is_strict(
    weak: tuple[str, ...], strict: bool, status: Status
) -> None:
    """A pass is weak if a known mistake would pass as well; `weak` holds the remarks."""
    check = Check("f", passing_result)
    outcome = Outcome(check, passing_result(weak=weak), seconds=0.0, strict=strict)

    assert outcome.status == status


def test_a_strict_failure_with_weak_remarks_has_the_status_failed() -> None:
    """The result has a problem and a remark, which would make a strict pass weak: the problem
    counts more.
    """
    check = Check("f", passing_result)
    result = Verification("f", "rope", (), ("a problem",), weak=("a remark",))
    outcome = Outcome(check, result, seconds=0.0, strict=True)

    assert outcome.status == Status.FAILED


def test_a_group_of_files_without_any_tables_is_an_error() -> None:
    """Neither of the two files of group a has tables, which is one error of the group; one of group
    b has, so that this group is none.
    """
    outcomes = [
        outcome_of(NO_TABLES, group="a"),
        outcome_of(NO_TABLES, group="a"),
        outcome_of(NO_TABLES, group="b"),
        outcome_of(passing_result(), group="b"),
    ]
    (error,) = without_tables(outcomes)

    assert str(error).startswith("a: none of 2 files has positional tables; ")


def test_the_label_of_a_check_is_its_name_or_else_its_file() -> None:
    """A `Check` of the file «f» is called by its name if it has one, otherwise by its file."""
    assert Check("f", passing_result, "name").label == "name"
    assert Check("f", passing_result).label == "f"


@pytest.mark.parametrize(("manifest", "name"), [("", None), ("m.toml", "n")])
def test_only_checks_of_a_manifest_have_a_name_in_json(manifest: str, name: str | None) -> None:
    """A check is named «n»; its JSON has the name only if it came from a manifest."""
    assert outcome_of(NO_TABLES, name="n", manifest=manifest).as_json().get("name") == name


def test_the_json_of_an_outcome_has_its_name_file_scheme_and_status() -> None:
    """The check is called n, its file f; the result passes and is of the scheme rope."""
    fields = outcome_of(passing_result(), name="n", manifest="m.toml").as_json()
    assert fields["name"] == "n"
    assert fields["file"] == "f"
    assert fields["scheme"] == "rope"
    assert fields["passed"] is True
    assert fields["status"] == "passed"


def test_the_json_of_an_error_has_its_message_and_no_scheme() -> None:
    """NO_TABLES is an error «f: has none» instead of a result."""
    fields = outcome_of(NO_TABLES).as_json()
    assert fields["file"] == "f"
    assert fields["scheme"] is None
    assert fields["passed"] is False
    assert fields["diagnosis"] == ["f: has none"]
    assert fields["status"] == "error"


def test_arrays_of_a_result_can_be_dropped_to_save_memory() -> None:
    """`parts` of a tensor are the arrays for pictures: `without_arrays` empties them in place, and
    returns the same outcome.
    """
    rope = pecli.Rope(4, 8)
    result = pecli.verify({"cos": np.zeros((4, 4))}, rope, reasons=False)

    assert result.tensors[0].parts

    with_arrays = outcome_of(result)
    assert with_arrays.without_arrays() is with_arrays
    assert result.tensors[0].parts == ()


@pytest.mark.parametrize(("path", "expected"), [("a.TOML", True), ("a.toml.npz", False)])
def test_manifests_are_recognised_by_their_suffix(path: str, expected: bool) -> None:
    """A manifest is a TOML file; upper and lower case do not matter."""
    assert is_manifest(path) == expected
