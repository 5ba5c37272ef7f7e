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
def ten(working_folder):
    """A manifest of ten checks, each of a table with a base of its own."""
    lines = ["[defaults]", "atol = 1e-6"]
    for base in BASES:
        angles = np.arange(12)[:, None] * float(base) ** (-np.arange(0, 8, 2) / 8)
        np.save(f"{base}.npy", np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32))
        lines += ["[[check]]", f'name = "base {base}"', f'file = "{base}.npy"', 'scheme = "rope"',
                  "seq_len = 12", "dim = 8", f"base = {base}"]  # fmt: skip
    Path("pecli.toml").write_text("\n".join(lines))


def junit_report() -> ElementTree.Element:
    return ElementTree.parse("r.xml").getroot()


def test_a_manifest_whose_checks_pass_is_a_table_and_a_junit_report(run_pecli) -> None:
    """The fixture writes ten tables with bases 1000 to 10000, and a manifest with a check of each."""
    outcome = run_pecli("verify", "pecli.toml", "--junit", "r.xml")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""

    lines = outcome.out.splitlines()
    assert lines[0].split() == ["status", "check", "worst", "error"]
    assert [line.split()[:3] for line in lines[1:-1]] == [
        ["passed", "base", str(base)] for base in BASES
    ]
    assert lines[-1] == "10 checks: 10 passed"
    assert [case.get("name") for case in junit_report().iter("testcase")] == [
        f"base {base}" for base in BASES
    ]
    assert [junit_report().get(name) for name in ("tests", "failures", "errors")] == [
        "10",
        "0",
        "0",
    ]


def test_a_failed_check_and_a_missing_file_are_reported_beside_checks_that_pass(run_pecli) -> None:
    """One element of the table of base 7000 is 0.5 off; then the file of base 9000 is deleted."""
    table = np.load("7000.npy")
    table[1, 11, 3] += 0.5
    np.save("7000.npy", table)
    failed = run_pecli("verify", "pecli.toml", "--junit", "r.xml")
    lines = failed.out.splitlines()

    assert failed.exit_code == CHECK_FAILED
    assert failed.err == ""
    assert lines[-1] == "10 checks: 9 passed, 1 failed"
    assert lines[7].split()[:4] == ["FAILED", "base", "7000", "0.5"]
    assert any("1 of 96 out of tolerance" in line for line in lines[8:12])

    (failure,) = junit_report().iter("failure")
    assert "[1, 11, 3]" in failure.text

    os.unlink("9000.npy")
    missing = run_pecli("verify", "pecli.toml", "--junit", "r.xml")
    assert missing.exit_code == FILE_ERROR
    assert missing.err.endswith("9000.npy: does not exist\n")
    assert missing.err.count("\n") == 1
    assert missing.out.splitlines()[-1] == "10 checks: 8 passed, 1 failed, 1 error"

    (error,) = junit_report().iter("error")
    assert "does not exist" in error.get("message")

    quiet = run_pecli("verify", "pecli.toml", "-q")
    assert quiet.exit_code == FILE_ERROR
    assert quiet.out == ""
    assert quiet.err == missing.err


def test_a_malformed_manifest_runs_nothing(run_pecli) -> None:
    with open("pecli.toml", "a") as file:
        file.write("\n[[check]]\nfile = 3\n")
    outcome = run_pecli(
        "verify", "1000.npy", "pecli.toml", "--model", "llama-3.1-8b", "--junit", "r.xml"
    )

    assert outcome.exit_code == USAGE_ERROR
    assert outcome.out == ""
    assert not Path("r.xml").exists()
    assert "check 11: file is 3" in outcome.err


def test_json_lines_in_order_and_annotations_where_github_runs_it(run_pecli, monkeypatch) -> None:
    """The file of base 2000 is missing; GitHub reads lines that begin with ::error as annotations."""
    os.unlink("2000.npy")
    assert "::error" not in run_pecli("verify", "pecli.toml").out

    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outcome = run_pecli("verify", "pecli.toml", "--json")
    assert outcome.exit_code == FILE_ERROR

    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert [check["name"] for check in found] == [f"base {base}" for base in BASES]
    assert [check["passed"] for check in found] == [base != 2000 for base in BASES]
    assert "does not exist" in found[1]["diagnosis"][0]

    keys = {"name", "file", "scheme", "passed", "tensors", "diagnosis"}
    assert all(keys <= set(check) for check in found)
    for words in ((), ("-q",)):
        outcome = run_pecli("verify", "pecli.toml", *words)
        (line,) = (line for line in outcome.out.splitlines() if line.startswith("::"))
        file = line.partition("file=")[2].partition(",")[0]
        assert (
            line == f"::error file={file},title=pecli verify%3A base 2000::{file}: does not exist"
        )


def test_manifests_and_files_together(run_pecli) -> None:
    """Ten checks of the fixture's manifest, one file, and one check of a second manifest."""
    pecli.save("own.safetensors", pecli.Alibi(4, 5))
    Path("other.toml").write_text('[[check]]\nfile = "own.safetensors"\n')
    outcome = run_pecli("verify", "pecli.toml", "own.safetensors", "other.toml", "--junit", "r.xml")

    assert outcome.exit_code == SUCCESS
    assert outcome.out.splitlines()[-1] == "12 checks: 12 passed"
    assert [suite.get("tests") for suite in junit_report()] == ["10", "1", "1"]

    outcome = run_pecli("verify", "pecli.toml", "--junit", "no/r.xml")
    assert outcome.exit_code == FILE_ERROR
    assert "make it first" in outcome.err


def test_a_weak_pass_fails_where_checks_are_strict(run_pecli) -> None:
    """A factor of 1.001 changes the fastest angle by 0.001 from one row to the next, which is within the tolerance."""
    angles = np.arange(2)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    np.savez("t.npz", cos=np.cos(angles), sin=np.sin(angles))
    keys = (
        'scheme = "rope"\nseq_len = 2\ndim = 128\nscaling = "linear"\nfactor = 1.001\natol = 0.01\n'
    )
    Path("pecli.toml").write_text(f'[[check]]\nfile = "t.npz"\n{keys}')
    outcome = run_pecli("verify", "pecli.toml")

    assert outcome.exit_code == SUCCESS
    assert "weak: 2 rows cannot tell linear scaling from none" in outcome.out

    lines = (
        strict := run_pecli("verify", "pecli.toml", "--strict", "--junit", "r.xml")
    ).out.splitlines()
    assert strict.exit_code == CHECK_FAILED
    assert lines[-1] == "1 check: 1 weak"
    assert lines[1].startswith("WEAK    t.npz")

    (suite,) = junit_report()
    assert suite.get("failures") == "1"
    assert suite.get("errors") == "0"
    assert suite[0][0].tag == "failure"

    found = run_pecli("verify", "pecli.toml", "--strict", "--json").json
    assert found["status"] == "weak"
    assert found["passed"]
    assert bool(found["weak"])
