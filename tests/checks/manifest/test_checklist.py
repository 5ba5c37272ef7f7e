"""Checks side by side."""

from __future__ import annotations

import threading

import pytest

import pecli
from pecli.checks.manifest.checklist import Check, run_all
from pecli.checks.verify.verification import Verification
from pecli.engine.numerics.threads import share_of_threads, thread_count
from pecli.errors import DefectError, FileError


def good(name: str) -> Verification:
    return Verification(name, "rope", ())


def test_outcomes_come_in_the_order_of_the_checks(monkeypatch) -> None:
    monkeypatch.setenv("PECLI_THREADS", "4")
    last_is_done = threading.Event()

    def first() -> Verification:
        assert last_is_done.wait(10)  # which needs the others to run meanwhile
        return good("first")

    def last() -> Verification:
        last_is_done.set()
        raise FileError("last", "does not exist")

    checks = [Check("first", first), Check("second", lambda: good("second")), Check("last", last)]
    outcomes = list(run_all(checks))
    assert [outcome.check.file for outcome in outcomes] == ["first", "second", "last"]
    assert [outcome.passed for outcome in outcomes] == [True, True, False]
    assert outcomes[2].as_json()["diagnosis"] == ["last: does not exist"]
    assert all(outcome.seconds >= 0 for outcome in outcomes)


@pytest.mark.parametrize(("threads", "checks", "share"), [(1, 5, 1), (2, 5, 1), (4, 2, 2), (8, 3, 2), (4, 1, 4)])
def test_threads_are_shared(monkeypatch, threads, checks, share) -> None:
    monkeypatch.setenv("PECLI_THREADS", str(threads))
    seen = []

    def look() -> Verification:
        seen.append(thread_count())
        return good("")

    list(run_all([Check("", look)] * checks))
    assert seen == [share] * checks
    assert thread_count() == threads


def test_a_share_ends_with_its_block(monkeypatch) -> None:
    monkeypatch.setenv("PECLI_THREADS", "5")
    with share_of_threads(3), share_of_threads(1):
        assert thread_count() == 1
    assert thread_count() == 5


def test_memory_that_runs_out_is_the_problem_of_one_check() -> None:
    def greedy() -> Verification:
        raise MemoryError

    outcomes = list(run_all([Check("a", greedy), Check("b", lambda: good("b"))]))
    assert [outcome.passed for outcome in outcomes] == [False, True]
    assert "memory" in str(outcomes[0].result)


def test_what_pecli_does_not_raise_is_a_defect_with_its_cause() -> None:
    def broken() -> Verification:
        raise ZeroDivisionError

    for outcome in run_all([Check("a", broken), Check("b", broken)]):
        assert isinstance(outcome.result, DefectError)
        assert isinstance(outcome.result.__cause__, ZeroDivisionError)
        assert str(outcome.result).startswith("unexpected ZeroDivisionError; this is a defect of pecli")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_all_checks(stop: type[BaseException], monkeypatch) -> None:
    def wrapped() -> Verification:  # as Python before 3.12 does while a class is being made
        raise RuntimeError from stop()

    monkeypatch.setenv("PECLI_THREADS", "1")
    with pytest.raises(stop):
        list(run_all([Check("a", wrapped), Check("b", wrapped)]))


def test_checks_that_nobody_waits_for_end_after_a_block(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PECLI_THREADS", "2")
    monkeypatch.setattr("pecli.checks.compare.READ_BYTES", 1 << 12)
    rope = pecli.Rope(40_000, 8)
    pecli.save(tmp_path / "t.npy", rope)
    begun = threading.Event()
    ends: list[str] = []

    def long() -> Verification:
        begun.set()
        try:
            for _ in range(100_000):
                result = pecli.verify(tmp_path / "t.npy", rope)
        except FileError as problem:
            ends.append(problem.problem)
            raise
        return result

    def quick() -> Verification:
        assert begun.wait(10)
        return good("quick")

    outcomes = run_all([Check("quick", quick), Check("t.npy", long)])
    assert next(outcomes).passed
    outcomes.close()
    assert ends == ["is not read any further"]
