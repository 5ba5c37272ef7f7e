"""`pecli verify pecli.toml`: a manifest lists many checks, which run in one process.

Every test starts in a folder with ten files 1000.npy to 10000.npy, and a manifest with a check of
each. A file holds the cosines and sines of 12 positions times base^(−2i/8), computed by NumPy, and
its name is its base.
"""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR

BASES = range(1000, 11000, 1000)


@pytest.fixture(autouse=True)
def manifest_of_ten_checks(working_folder):
    """Write a manifest of ten checks, each of a table with a base of its own."""
    lines = ["[defaults]", "atol = 1e-6"]
    for base in BASES:
        angles = np.arange(12)[:, None] * float(base) ** (-np.arange(0, 8, 2) / 8)
        np.save(f"{base}.npy", np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32))
        lines += ["[[check]]", f'name = "base {base}"', f'file = "{base}.npy"', 'scheme = "rope"',
                  "seq_len = 12", "dim = 8", f"base = {base}"]  # fmt: skip
    Path("pecli.toml").write_text("\n".join(lines))


def junit_report() -> ElementTree.Element:
    return ElementTree.parse("r.xml").getroot()


def make_one_number_of_base_7000_wrong() -> None:
    """Make element [1, 11, 3] of the table of base 7000 0.5 too large."""
    table = np.load("7000.npy")
    table[1, 11, 3] += 0.5
    np.save("7000.npy", table)


def test_a_manifest_whose_checks_pass_prints_a_table_of_them(run_pecli) -> None:
    """The manifest has ten checks, of tables with the ten bases in BASES."""
    outcome = run_pecli("verify", "pecli.toml")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""

    head, *rows, summary = outcome.out.splitlines()
    assert head.split() == ["status", "check", "worst", "error"]
    assert [row.split()[:3] for row in rows] == [["passed", "base", str(base)] for base in BASES]
    assert summary == "10 checks: 10 passed"


def test_a_junit_report_has_a_test_case_per_check(run_pecli) -> None:
    """BASES are the bases of the ten files, each of which has a right table."""
    run_pecli("verify", "pecli.toml", "--junit", "r.xml")
    report = junit_report()
    assert [case.get("name") for case in report.iter("testcase")] == [f"base {b}" for b in BASES]
    assert report.get("tests") == "10"
    assert report.get("failures") == "0"
    assert report.get("errors") == "0"


def test_a_failed_check_is_reported_beside_checks_that_pass(run_pecli) -> None:
    """The table of base 7000 has 2 · 12 · 4 = 96 numbers, one of which is 0.5 too large. It is the
    seventh of ten checks, after the head of the table.
    """
    make_one_number_of_base_7000_wrong()
    outcome = run_pecli("verify", "pecli.toml")
    lines = outcome.out.splitlines()

    assert outcome.exit_code == CHECK_FAILED
    assert outcome.err == ""
    assert lines[-1] == "10 checks: 9 passed, 1 failed"
    assert lines[7].split()[:4] == ["FAILED", "base", "7000", "0.5"]
    assert any("1 of 96 out of tolerance" in line for line in lines[8:12])


def test_a_failure_in_a_junit_report_has_the_place_of_the_error(run_pecli) -> None:
    """One element of the table of base 7000 was spoilt, that of index [1, 11, 3]."""
    make_one_number_of_base_7000_wrong()
    run_pecli("verify", "pecli.toml", "--junit", "r.xml")
    (failure,) = junit_report().iter("failure")
    assert "[1, 11, 3]" in failure.text


def test_a_missing_file_is_an_error_beside_other_checks(run_pecli) -> None:
    """The manifest has ten checks. One number of 7000.npy is wrong, and 9000.npy is removed, which
    decides the exit code.
    """
    make_one_number_of_base_7000_wrong()
    os.unlink("9000.npy")
    outcome = run_pecli("verify", "pecli.toml", "--junit", "r.xml")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.endswith("9000.npy: does not exist\n")
    assert outcome.err.count("\n") == 1
    assert outcome.out.splitlines()[-1] == "10 checks: 8 passed, 1 failed, 1 error"

    (error,) = junit_report().iter("error")
    assert "does not exist" in error.get("message")


def test_a_quiet_manifest_prints_only_errors(run_pecli) -> None:
    """One of the ten files is removed; nothing is printed about the nine that pass."""
    os.unlink("9000.npy")
    outcome = run_pecli("verify", "pecli.toml", "-q")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert outcome.err.endswith("9000.npy: does not exist\n")


def test_checks_as_json_are_lines_in_the_order_of_the_manifest(run_pecli) -> None:
    """The file of base 2000, the second one, is missing."""
    os.unlink("2000.npy")
    outcome = run_pecli("verify", "pecli.toml", "--json")
    assert outcome.exit_code == FILE_ERROR

    checks = [json.loads(line) for line in outcome.out.splitlines()]
    assert [check["name"] for check in checks] == [f"base {base}" for base in BASES]
    assert [check["passed"] for check in checks] == [base != 2000 for base in BASES]
    assert "does not exist" in checks[1]["diagnosis"][0]
    for check in checks:
        assert {"name", "file", "scheme", "passed", "tensors", "diagnosis"} <= set(check)


def test_without_github_actions_a_missing_file_is_no_annotation(run_pecli, monkeypatch) -> None:
    """«::error …» is an annotation of GitHub Actions, which sets GITHUB_ACTIONS. The manifest's
    file 2000.npy is missing, so that a check fails.
    """
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    os.unlink("2000.npy")
    assert "::error" not in run_pecli("verify", "pecli.toml").out


@pytest.mark.parametrize("words", [(), ("-q",)], ids=["with the table", "quiet"])
def test_on_github_a_missing_file_is_an_annotation(
    run_pecli, monkeypatch, words: tuple[str, ...]
) -> None:
    """GitHub reads lines that begin with «::error», in which %3A is the escape of a colon. The check
    «base 2000» of the manifest has the file 2000.npy, which is removed.
    """
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    os.unlink("2000.npy")
    lines = run_pecli("verify", "pecli.toml", *words).out.splitlines()
    annotations = [line for line in lines if line.startswith("::")]

    assert annotations == [
        "::error file=2000.npy,title=pecli verify%3A base 2000::2000.npy: does not exist"
    ]


def test_a_malformed_manifest_is_refused_before_any_check_runs(run_pecli) -> None:
    """The fixture's manifest has ten right checks; an eleventh, whose file is the number 3, is
    appended. None of the ten runs, nor the check of 1000.npy, which the command names before the
    manifest, and no JUnit report is written. --model belongs to 1000.npy, which has no spec.
    """
    with open("pecli.toml", "a") as file:
        file.write("\n[[check]]\nfile = 3\n")
    files = ("1000.npy", "pecli.toml")
    outcome = run_pecli("verify", *files, "--model", "llama-3.1-8b", "--junit", "r.xml")

    assert outcome.exit_code == USAGE_ERROR
    assert "check 11: file is 3" in outcome.err
    assert outcome.out == ""
    assert not Path("r.xml").exists()


def test_manifests_and_files_are_verified_by_one_command(run_pecli) -> None:
    """Ten checks of the fixture's manifest, one file, and one check of a second manifest."""
    pecli.save("own.safetensors", pecli.Alibi(4, 5))
    Path("other.toml").write_text('[[check]]\nfile = "own.safetensors"\n')
    outcome = run_pecli("verify", "pecli.toml", "own.safetensors", "other.toml", "--junit", "r.xml")

    assert outcome.exit_code == SUCCESS
    assert outcome.out.splitlines()[-1] == "12 checks: 12 passed"
    assert [suite.get("tests") for suite in junit_report()] == ["10", "1", "1"]


def test_a_junit_report_in_a_folder_that_does_not_exist_is_a_file_error(run_pecli) -> None:
    """The folder «no» does not exist; the error advises to make it."""
    outcome = run_pecli("verify", "pecli.toml", "--junit", "no/r.xml")
    assert outcome.exit_code == FILE_ERROR
    assert "make it first" in outcome.err


@pytest.fixture
def manifest_with_a_weak_check(working_folder: Path) -> str:
    """A manifest that expects linear scaling by 1.001, and a table of two rows without scaling.

    The factor changes the fastest angle of row 1, which is 1, by 0.001, within the tolerance.
    """
    angles = np.arange(2)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    np.savez("t.npz", cos=np.cos(angles), sin=np.sin(angles))
    lines = ["[[check]]", 'file = "t.npz"', 'scheme = "rope"', "seq_len = 2", "dim = 128"]
    lines += ['scaling = "linear"', "factor = 1.001", "atol = 0.01"]
    Path("weak.toml").write_text("\n".join(lines))
    return "weak.toml"


def test_a_weak_check_passes_with_a_remark(run_pecli, manifest_with_a_weak_check: str) -> None:
    """A table of 2 rows without scaling is checked as one with linear scaling by 1.001, which
    changes its angles by at most 0.001, less than the tolerance of 0.01: a pass does not show that
    it is scaled.
    """
    outcome = run_pecli("verify", manifest_with_a_weak_check)
    assert outcome.exit_code == SUCCESS
    assert "weak: 2 rows cannot tell linear scaling from none" in outcome.out


def test_a_weak_check_fails_if_checks_are_strict(
    run_pecli, manifest_with_a_weak_check: str
) -> None:
    """A weak check passes, and would have passed with some mistakes too; --strict makes it fail.
    t.npz is its file.
    """
    outcome = run_pecli("verify", manifest_with_a_weak_check, "--strict")
    assert outcome.exit_code == CHECK_FAILED

    _, row, *_, summary = outcome.out.splitlines()
    assert row.startswith("WEAK    t.npz")
    assert summary == "1 check: 1 weak"


def test_a_weak_check_is_a_failure_in_a_strict_junit_report(
    run_pecli, manifest_with_a_weak_check: str
) -> None:
    """A weak check passes, and would have passed with some mistakes too; --strict makes it fail."""
    run_pecli("verify", manifest_with_a_weak_check, "--strict", "--junit", "r.xml")
    (suite,) = junit_report()
    (case,) = suite
    assert suite.get("failures") == "1"
    assert suite.get("errors") == "0"
    assert case[0].tag == "failure"


def test_a_weak_check_in_strict_json_has_passed_and_has_the_status_weak(
    run_pecli, manifest_with_a_weak_check: str
) -> None:
    """The tables of the check have 2 rows, which cannot rule out linear scaling; --strict turns the
    status to «weak».
    """
    check = run_pecli("verify", manifest_with_a_weak_check, "--strict", "--json").json
    assert check["status"] == "weak"
    assert check["passed"]
    assert check["weak"]
