"""Golden suites that are damaged, or cannot be written: an error of one line, never a torn file.

A golden suite is a folder of test cases for ports (implementations in other languages): index.json
lists them with shapes, tolerances and checksums, and each case has a file of numbers. One thing is
damaged per test, mostly of the case table-dim-2; the error must name the case and what is wrong
with it. A broken file is exit code 3 (FILE_ERROR), numbers that differ are 1 (CHECK_FAILED).
"""

import copy
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pecli.golden import write
from pecli.golden.suite_index import INDEX
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.tools.campaigns.golden import CASES, Suite, attempt, suite_of_process


@pytest.fixture(scope="module")
def suite() -> Suite:
    return suite_of_process()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    return folder


def case_of(suite: Suite, name: str) -> dict[str, Any]:
    """A copy of an entry of the index."""
    entries = {entry["name"]: entry for entry in suite.index["cases"]}
    return json.loads(json.dumps(entries[name]))


def write_index(folder: Path, *entries: object) -> None:
    (folder / INDEX).write_text(json.dumps({"cases": entries}))


def only_case(suite: Suite, name: str) -> Suite:
    """Return a copy of a suite with a single case."""
    index = {**suite.index, "cases": [case_of(suite, name)]}
    file = f"{name}.json"
    return Suite(index, {file: copy.deepcopy(suite.cases[file])})


SMALL_CASE = "table-dim-2"
WRONG_FIELDS = [
    ("name", None, "is not the index of a golden suite"),
    ("name", 3, "is not the index of a golden suite"),
    ("scheme", "rotary", "has a wrong scheme: scheme is 'rotary'"),
    ("scheme", [], "has a wrong scheme"),
    ("parameters", None, "has no parameters by name"),
    ("parameters", {"seq_len": 4, "dim": 7}, "has a wrong scheme: dim is 7"),
    ("parameters", {"dimension": 8}, "has parameters that its scheme lacks"),
    ("settings", {"speed": 1}, "has settings that are not known"),
    ("settings", 5, "has settings that are not known"),
    ("edits", {}, "has no list of edits"),
    ("edits", [{"edit": "parameter"}], "has an edit without a kind"),
    ("edits", ["swapped"], "has an edit without a kind"),
    ("tolerances", None, "has no tolerances by dtype"),
    ("tolerances", {"float32": -1}, "has no tolerances by dtype"),
    ("tolerances", {"float32": 10**400}, "has no tolerances by dtype"),
    ("tolerances", {"float32": "1e-6"}, "has no tolerances by dtype"),
    ("tolerances", {"float32": True}, "has no tolerances by dtype"),
    ("tensors", {}, "has no shapes of tensors by name"),
    ("tensors", ["cos"], "has no shapes of tensors by name"),
    ("tensors", {"cos": [-1, 2]}, "has no shapes of tensors by name"),
    ("tensors", {"cos": [0, 2]}, "has no shapes of tensors by name"),
    ("tensors", {"cos": [True, 2]}, "has no shapes of tensors by name"),
    ("tensors", {"cos": "21"}, "has no shapes of tensors by name"),
    ("tensors", {"cos": {"2": 1}}, "has no shapes of tensors by name"),
    ("files", None, "has no sha256 of files by name"),
    ("files", {}, "has no sha256 of files by name"),
    ("files", ["a.json"], "has no sha256 of files by name"),
    ("files", {"a.json": 1}, "has no sha256 of 'a.json'"),
    ("files", {"../a.json": "0"}, "names '../a.json', which is no file in its own folder"),
    ("files", {"/etc/passwd": "0"}, "which is no file in its own folder"),
    ("files", {"..": "0"}, "names '..', which is no file in its own folder"),
]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    WRONG_FIELDS,
    ids=[f"{field}-{value}" for field, value, _ in WRONG_FIELDS],
)
def test_a_wrong_entry_of_the_index_is_refused_in_one_line(
    run_pecli: Callable, suite: Suite, folder: Path, field: str, value: Any, problem: str
) -> None:
    """A golden suite is a folder of test cases with an index.json, whose entries have the fields name,
    scheme, parameters, files and so on. Here it has one entry, the right one with one wrong field.
    """
    write_index(folder, {**case_of(suite, SMALL_CASE), field: value})
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert problem in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ("scheme", "has a wrong scheme"),
        ("parameters", "has no parameters by name"),
        ("tolerances", "has no tolerances by dtype"),
        ("tensors", "has no shapes of tensors by name"),
        ("files", "has no sha256 of files by name"),
    ],
)
def test_an_entry_of_the_index_without_one_of_its_fields_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path, missing: str, problem: str
) -> None:
    """index.json of a golden suite has one entry, in which a field is missing. The error names the
    case and the field.
    """
    entry = case_of(suite, SMALL_CASE)
    del entry[missing]
    write_index(folder, entry)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert f"case '{SMALL_CASE}' {problem}" in outcome.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"", "is empty|is not JSON", id="nothing"),
        pytest.param(b"[]", "is not the index of a golden suite", id="a list"),
        pytest.param(b'{"cases": []}', "lists no cases", id="no cases"),
        pytest.param(
            b'{"cases": [[]]}', "is not the index of a golden suite", id="a list as a case"
        ),
        pytest.param(
            b'{"cases": ' + b"[" * 100_000,
            "is nested more than 32 levels deep",
            id="100,000 brackets",
        ),
        pytest.param(b"\xff", "is not UTF-8 text", id="no UTF-8"),
        pytest.param(b'{"cases": [], "cases": []}', "names 'cases' twice", id="cases twice"),
    ],
)
def test_a_file_that_is_no_index_is_refused_in_one_line(
    run_pecli: Callable, folder: Path, text: bytes, problem: str
) -> None:
    """index.json lists the cases of a golden suite, {"cases": [{…}, …]}. Each text is wrong in another
    way; «|» stands between two messages of which either will do.
    """
    (folder / INDEX).write_bytes(text)
    outcome = run_pecli("verify", "--golden", folder, "answers.npz")

    assert outcome.exit_code == FILE_ERROR
    assert any(words in outcome.err for words in problem.split("|"))
    assert outcome.err.count("\n") == 1


def test_a_case_that_is_listed_twice_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path
) -> None:
    """index.json has the same entry twice, so that a port's answers could not be assigned to one of
    the two cases.
    """
    entry = case_of(suite, SMALL_CASE)
    write_index(folder, entry, entry)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert "lists 'table-dim-2' twice" in outcome.err


def test_an_index_that_is_a_pipe_is_not_waited_for(run_pecli: Callable, folder: Path) -> None:
    """index.json is a named pipe. To open a pipe that nobody writes to would hang."""
    os.mkfifo(folder / INDEX)
    outcome = run_pecli("verify", "--golden", folder, "answers.npz")

    assert outcome.exit_code == FILE_ERROR
    assert "index.json: is not a regular file" in outcome.err


def test_a_case_that_is_a_pipe_is_not_waited_for(
    run_pecli: Callable, suite: Suite, folder: Path
) -> None:
    """The file of a case is a named pipe. To open a pipe that nobody writes to would hang; it counts
    as a file with a wrong checksum.
    """
    write_index(folder, case_of(suite, SMALL_CASE))
    os.mkfifo(folder / f"{SMALL_CASE}.json")
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == CHECK_FAILED
    assert "its sha256 is not that of the index" in outcome.out


WRONG_TENSORS = [
    (None, "is not a case of a golden suite"),
    ({"cos": 5}, "tensor 'cos' has no shape and numbers"),
    ({"cos": {"shape": [2]}}, "tensor 'cos' has no shape and numbers"),
    ({"cos": {"decimal": [1.0]}}, "tensor 'cos' has no shape and numbers"),
    ({"cos": {"shape": [0], "decimal": []}}, "has no shape and numbers"),
    ({"cos": {"shape": [True], "decimal": [1.0]}}, "has no shape and numbers"),
    ({"cos": {"shape": [2], "decimal": [1.0]}}, "has 1 numbers, which is not its shape"),
    ({"cos": {"shape": [-1], "decimal": [1.0]}}, "has no shape and numbers"),
    ({"cos": {"shape": [1], "decimal": [True]}}, "holds something that is not a number"),
    ({"cos": {"shape": [1], "decimal": ["1.0"]}}, "holds something that is not a number"),
    ({"cos": {"shape": [1], "int": [2**40]}}, "holds a number that int32 does not hold"),
    (
        {"cos": {"shape": [1], "decimal": None, "float32": [1.0]}},
        "has no list of decimal numbers",
    ),
    ({"cos": {"shape": [1], "int": 5, "decimal": [1.0]}}, "has no list of int numbers"),
]


@pytest.mark.parametrize(
    ("tensors", "problem"), WRONG_TENSORS, ids=[str(tensors) for tensors, _ in WRONG_TENSORS]
)
def test_a_case_with_impossible_numbers_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path, tensors: Any, problem: str
) -> None:
    """The file of the case has wrong `tensors`, and the index the right checksum of it, as if the
    suite's author had erred: the file is refused, and not said to be changed.
    """
    data = json.dumps({"name": SMALL_CASE, "tensors": tensors}).encode()
    entry = case_of(suite, SMALL_CASE)
    entry["files"] = {f"{SMALL_CASE}.json": hashlib.sha256(data).hexdigest()}
    write_index(folder, entry)
    (folder / f"{SMALL_CASE}.json").write_bytes(data)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert problem in outcome.err


def test_a_case_with_nothing_but_an_attention_factor_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path
) -> None:
    """A factor belongs to tables. A case that has no other tensor specifies nothing."""
    damaged = only_case(suite, SMALL_CASE)
    factor = {"shape": [], "decimal": [1.0]}
    damaged.cases[f"{SMALL_CASE}.json"]["tensors"] = {"attention_factor": factor}
    damaged.save(folder, digests=True)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert f"case '{SMALL_CASE}' has no tensors" in outcome.err


def test_a_rotation_without_the_tensor_before_it_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path
) -> None:
    """A case of a rotation is the pair of a tensor before and after it; here the one before is
    deleted.
    """
    damaged = only_case(suite, "rotate-interleaved")
    del damaged.cases["rotate-interleaved.json"]["tensors"]["before"]
    damaged.save(folder, digests=True)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert "case 'rotate-interleaved' has no tensor 'before'" in outcome.err


def verdicts_at_a_limit(
    run_pecli: Callable, folder: Path, file: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Return the outcomes for a file that is just as large as its limit, and one byte larger."""
    size = (folder / file).stat().st_size
    outcomes = []
    for allowed in (size, size - 1):
        monkeypatch.setattr(f"pecli.golden.suite_index.{limit}", allowed)
        outcomes.append(run_pecli("verify", folder))
    return outcomes


def test_an_index_beyond_its_limit_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pecli verify` runs twice: with a limit MAX_INDEX of the size of index.json, and of one byte
    less. The second limit is some hundred bytes, which are «0 MB».
    """
    only_case(suite, SMALL_CASE).save(folder, digests=True)
    at_limit, beyond_limit = verdicts_at_a_limit(run_pecli, folder, INDEX, "MAX_INDEX", monkeypatch)

    assert at_limit.exit_code == SUCCESS
    assert beyond_limit.exit_code == FILE_ERROR
    assert "has more than 0 MB" in beyond_limit.err


def test_a_case_beyond_its_limit_fails_without_being_read(
    run_pecli: Callable, suite: Suite, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pecli verify` runs twice: with a limit MAX_CASE of the size of the case's file, and of one byte
    less. A file that is not read has no checksum that could be right.
    """
    only_case(suite, SMALL_CASE).save(folder, digests=True)
    at_limit, beyond_limit = verdicts_at_a_limit(
        run_pecli, folder, f"{SMALL_CASE}.json", "MAX_CASE", monkeypatch
    )

    assert at_limit.exit_code == SUCCESS
    assert beyond_limit.exit_code == CHECK_FAILED
    assert "its sha256 is not that of the index" in beyond_limit.out


def test_a_folder_without_an_index_is_no_suite(
    run_pecli: Callable, folder: Path, tmp_path: Path
) -> None:
    """--golden names an empty folder, so that a port's answers have nothing to be compared with."""
    np.savez(tmp_path / "answers.npz", x=np.zeros(3))
    outcome = run_pecli("verify", "--golden", folder, tmp_path / "answers.npz")

    assert outcome.exit_code == FILE_ERROR
    assert "index.json: does not exist" in outcome.err


def test_a_wrong_rotation_of_a_port_fails_with_its_reason(
    run_pecli: Callable, suite: Suite, folder: Path, tmp_path: Path
) -> None:
    """A port rotates the queries of the case rotate-interleaved; its answer is twice the right one."""
    only_case(suite, "rotate-interleaved").save(folder, digests=True)
    after = suite.cases["rotate-interleaved.json"]["tensors"]["after"]
    doubled = 2 * np.array(after["float32"]).reshape(after["shape"])
    np.savez(tmp_path / "answers.npz", **{"rotate-interleaved": doubled})
    outcome = run_pecli("verify", "--golden", folder, tmp_path / "answers.npz")

    assert outcome.exit_code == CHECK_FAILED
    assert "after: values are scaled by 2" in outcome.out


class WrongNumber(NamedTuple):
    """A number that replaces the first of a list of a tensor, and a part of the error about it."""

    spelling: str  #: The list: decimal, hexadecimal, or the name of a narrower dtype.
    value: object
    problem: str
    case: str = "table-dim-2"
    tensor: str = "cos"


WRONG_NUMBERS = {
    "3 in hexadecimal instead of 1": WrongNumber(
        "hex", "0x1.8p+1", "has hex numbers that are not its decimal numbers"
    ),
    "a decimal among hexadecimal numbers": WrongNumber(
        "hex", "1.5", "has hex numbers that are not its decimal numbers"
    ),
    "a word among hexadecimal numbers": WrongNumber(
        "hex", "zz", "has hex numbers that are not its decimal numbers"
    ),
    "a number among hexadecimal texts": WrongNumber(
        "hex", 5, "has hex numbers that are not its decimal numbers"
    ),
    "another float32": WrongNumber("float32", 0.5, "has float32 numbers that are not its decimal"),
    "NaN in float16": WrongNumber("float16", "nan", "has float16 numbers that are not its decimal"),
    "a list among numbers": WrongNumber("bfloat16", [], "holds something that is not a number"),
    "another float16 of a rotation, which has no decimals": WrongNumber(
        "float16",
        9,
        "has float16 numbers that are not its float32",
        case="rotate-interleaved",
        tensor="after",
    ),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_wrong_number_in_any_spelling_of_a_tensor_is_refused(
    run_pecli: Callable, suite: Suite, folder: Path, name: str
) -> None:
    """A case spells a tensor in several lists: decimals, hexadecimals, and narrower dtypes. A port
    reads one of them, so all must hold the same numbers. The first number of one list is replaced;
    the right one is cos 0 = 1 in table-dim-2.
    """
    wrong = WRONG_NUMBERS[name]
    damaged = only_case(suite, wrong.case)
    spellings = damaged.cases[f"{wrong.case}.json"]["tensors"][wrong.tensor]
    spellings[wrong.spelling][0] = wrong.value
    damaged.save(folder, digests=True)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert wrong.problem in outcome.err


def test_a_suite_is_not_written_to_standard_output(run_pecli: Callable) -> None:
    """«-o -» is standard output, which is one stream; a suite is many files."""
    outcome = run_pecli("golden", "phi-2", "-o", "-")

    assert outcome.exit_code == USAGE_ERROR
    assert "--output is -; the suite is a folder of files" in outcome.err
    assert outcome.err.count("\n") == 1


def test_settings_that_do_not_fit_are_an_error_of_the_file(
    run_pecli: Callable, suite: Suite, folder: Path
) -> None:
    """The settings of a rotation, in index.json, have the layout «sideways», which there is not. The
    user did not type it, so that it is an error of the file, and no usage error.
    """
    damaged = only_case(suite, "rotate-interleaved")
    damaged.index["cases"][0]["settings"]["layout"] = "sideways"
    damaged.save(folder, digests=True)
    outcome = run_pecli("verify", folder)

    assert outcome.exit_code == FILE_ERROR
    assert "has wrong settings: layout is 'sideways'" in outcome.err


def test_answers_to_a_damaged_case_get_no_verdict(
    run_pecli: Callable, suite: Suite, folder: Path, tmp_path: Path
) -> None:
    """A port's answer passes. Then the file of the case is damaged, so that its checksum is wrong: a
    right answer must not fail, nor a wrong one pass, because of that; it is an error of the file.
    """
    suite.save(folder, digests=True)
    file = folder / "rotate-interleaved.json"
    case = json.loads(file.read_text())
    after = case["tensors"]["after"]
    right_answer = np.array(after["float32"]).reshape(after["shape"])
    np.savez(tmp_path / "answers.npz", **{"rotate-interleaved": right_answer})
    words = ("verify", "--golden", folder, tmp_path / "answers.npz")
    assert run_pecli(*words).exit_code == SUCCESS

    after["float32"][0] += 0.5
    file.write_text(json.dumps(case))
    outcome = run_pecli(*words)

    assert outcome.exit_code == FILE_ERROR
    assert "rotate-interleaved.json: its sha256 is not that of the index" in outcome.err


@pytest.mark.parametrize("count", [1500])
@pytest.mark.thorough
def test_random_damage_gives_a_verdict_or_an_error_of_one_line(count: int) -> None:
    """`attempt` flips, cuts or replaces something in a golden suite at random, and runs `pecli verify`
    on it; `problems` has whatever is neither a verdict nor an error of one line.
    """
    for result in attempt(range(count), seed=2):
        assert result.problems == []


def test_the_damaged_suites_have_a_case_of_every_kind(suite: Suite) -> None:
    """The sweep of random damage starts from `suite`, a small golden suite. CASES names one case of
    each kind (tables, rotations, mistakes, …), and the suite must have exactly these.
    """
    names = {entry["name"] for entry in suite.index["cases"]}
    assert names == {*CASES}


def test_a_pipe_of_a_case_name_is_not_written_to(run_pecli: Callable, folder: Path) -> None:
    """The folder has a named pipe where the file of a case is to be written. To replace it by a file
    would break the program that reads it; nothing is written.
    """
    os.mkfifo(folder / "model-phi-2.json")
    outcome = run_pecli("golden", "phi-2", "-o", folder)

    assert outcome.exit_code == FILE_ERROR
    assert "model-phi-2.json: is a pipe or a device" in outcome.err
    assert [path.name for path in folder.iterdir()] == ["model-phi-2.json"]


def test_hard_links_to_old_cases_keep_their_contents(folder: Path, tmp_path: Path) -> None:
    """A suite is written where a file of an older one is. The file is replaced, not written over, so
    that a copy of it by a hard link stays as it was.
    """
    file = folder / "model-phi-2.json"
    file.write_text("old")
    link = tmp_path / "link.json"
    os.link(file, link)
    write(str(folder), ["phi-2"])

    assert link.read_text() == "old"
    assert file.read_text() != "old"


def test_a_folder_that_cannot_be_made_is_named(run_pecli: Callable, tmp_path: Path) -> None:
    """The path of the suite, file/suite, leads through a file."""
    (tmp_path / "file").write_text("")
    outcome = run_pecli("golden", "phi-2", "-o", tmp_path / "file" / "suite")

    assert outcome.exit_code == FILE_ERROR
    assert "part of the path is a file" in outcome.err
