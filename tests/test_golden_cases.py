"""Cases of the golden suite and their tolerances, and answers of a port to a small suite.

A golden suite is a folder of cases with which ports, implementations in other languages, test
themselves; a port's answers are tensors named CASE.TENSOR. The small suite is Llama 2 7B's: its
frequencies, 10000^(−i/64), and its table at positions 1, 4097 and 131071. Answers are computed by
NumPy.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli import golden
from pecli.engine.edits import Channels, Dtype, Edit, Rows
from pecli.golden.cases import GoldenCase, cases
from pecli.golden.mistake_cases import mistakes
from pecli.golden.suite_index import entry_json
from tests.checks.waves import Array

ROPE = pecli.Rope(seq_len=12, dim=16, base=500000.0)
ANGLES = np.outer((1, 4097, 131071), 1e4 ** (-np.arange(64) / 64))
"""The angles of Llama 2 at the three positions at which the tables of models are written."""


def tolerances_of(values: list[float], largest_position: float = 0.0) -> dict[str, float]:
    tensors = {"a": np.array(values)}
    return GoldenCase("n", "t", tensors, ROPE, largest_position=largest_position).tolerances()


def test_tolerances_grow_with_the_largest_value_and_position() -> None:
    """The rules of the suite: 1e-6 of the largest value for float32, and 2^-51 of value times
    position more for float64.
    """
    assert tolerances_of([3.0, -np.inf], largest_position=10) == {
        "float64": 3e-14 + 2**-51 * 30,
        "float32": 3e-6,
        "float16": 3e-3,
        "bfloat16": 24e-3,
        "float32_arithmetic": 3e-6 + 1.2e-6,
    }


def test_tolerances_of_small_values_are_those_of_1() -> None:
    """A tolerance relative to 0.5 would be smaller than cosines and sines, which reach 1, are
    rounded to.
    """
    assert tolerances_of([0.5]) == {
        "float64": 1e-14,
        "float32": 1e-6,
        "float16": 1e-3,
        "bfloat16": 8e-3,
        "float32_arithmetic": 1e-6,
    }


def test_a_case_is_listed_in_the_index_with_its_shapes_and_files() -> None:
    """The index has shapes, checksums of files, and only parameters that were given (no None)."""
    case = GoldenCase("n", "t", {"a": np.zeros((2, 3))}, ROPE)
    entry = entry_json(case, {"f": "s"})
    keys = {"name", "tests", "scheme", "parameters", "tolerances", "tensors", "files"}

    assert entry.keys() == keys
    assert entry["tensors"] == {"a": [2, 3]}
    assert entry["files"] == {"f": "s"}
    assert entry["scheme"] == "rope"
    assert None not in entry["parameters"].values()


def test_settings_and_edits_of_a_case_are_in_the_index() -> None:
    """Settings are those of a rotation, edits describe a known mistake."""
    tensors = {"a": np.zeros((2, 3))}
    case = GoldenCase("n", "t", tensors, ROPE, {"layout": "halves"}, ({"edit": "swapped"},))
    entry = entry_json(case, {})

    assert entry["settings"] == {"layout": "halves"}
    assert entry["edits"] == ({"edit": "swapped"},)


def test_a_model_has_cases_for_each_kind_of_layer() -> None:
    """Gemma 3 has full and sliding layers; each has its frequencies, then its table."""
    names = [case.name for case in cases(["gemma-3-1b"])]
    assert names[1:3] == [
        "model-gemma-3-1b-full_attention",
        "frequencies-gemma-3-1b-sliding_attention",
    ]


@pytest.mark.parametrize(
    ("name", "position", "tensors"),
    [
        ("frequencies-llama-2-7b", 0.0, ["attention_factor", "inv_freq"]),
        ("model-llama-2-7b", 131071.0, ["cos", "inv_freq", "sin"]),
    ],
)
def test_a_model_has_a_case_of_frequencies_and_one_of_tables(
    name: str, position: float, tensors: list[str]
) -> None:
    """Frequencies belong to no position; the table goes to 131071. Numbers are exact, in float64."""
    (case,) = (case for case in cases(["llama-2-7b"]) if case.name == name)
    assert case.largest_position == position
    assert sorted(case.tensors) == tensors
    assert case.scheme.value_of("dtype") == "float64"


@pytest.fixture(scope="module")
def reasons() -> dict[str, tuple[Edit, ...]]:
    """Return the edits of the suite's known mistakes by name."""
    return {mistake.name: mistake.edits for mistake in mistakes()}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("reversed-rows", Rows("reversed")),
        ("reversed-pairs", Channels("reversed")),
        ("stored", Dtype("bfloat16")),
    ],
)
def test_a_case_of_a_known_mistake_states_its_reason(
    name: str, edit: Edit, reasons: dict[str, tuple[Edit, ...]]
) -> None:
    """Edits are what would have to be done to the right table; a mistake's case states them as its
    reason.
    """
    assert reasons[f"mistake-{name}"] == (edit,)


@pytest.fixture
def suite(tmp_path: Path) -> str:
    """A suite of one model, with two cases."""
    folder = str(tmp_path / "suite")
    golden.write(folder, ["llama-2-7b"], ("json", "safetensors"))
    return folder


def write_answers(tmp_path: Path, answers: dict[str, Any]) -> str:
    """Write the answers of a port."""
    file = tmp_path / "answers.npz"
    np.savez(file, **answers)
    return str(file)


def table_answers(error: float = 0.0) -> dict[str, Array]:
    return {
        "model-llama-2-7b.cos": np.cos(ANGLES) + error,
        "model-llama-2-7b/sin": np.sin(ANGLES),
    }


def test_a_suite_that_was_just_written_passes(suite: str) -> None:
    """The suite has two cases, each in two formats, and an index."""
    assert [check.run().passed for check in golden.suite_checks(suite)] == [True, True]
    assert sorted(path.name for path in Path(suite).iterdir()) == [
        "frequencies-llama-2-7b.json",
        "frequencies-llama-2-7b.safetensors",
        "index.json",
        "model-llama-2-7b.json",
        "model-llama-2-7b.safetensors",
    ]


def test_a_suite_without_json_passes(tmp_path: Path) -> None:
    """A golden suite may be written in safetensors only; its numbers are then read from there."""
    folder = str(tmp_path / "suite")
    golden.write(folder, ["llama-2-7b"], ("safetensors",))

    assert [check.run().passed for check in golden.suite_checks(folder)] == [True, True]


def numbers_in_json(tmp_path: Path, array: Array, **settings: Any) -> dict[str, Any]:
    """Return the numbers of a case as its JSON file spells them."""
    file = tmp_path / "case.json"
    golden.WRITERS["json"](str(file), GoldenCase("n", "t", {"a": array}, ROPE, **settings))
    numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["tensors"]["a"]
    return numbers


def test_a_case_spells_numbers_in_decimals_hexadecimals_and_narrower_dtypes(tmp_path: Path) -> None:
    """Ports read the spelling that they can; JSON has no infinity, so it is a text."""
    assert numbers_in_json(tmp_path, np.array([[1.0, np.inf]])) == {
        "shape": [1, 2],
        "decimal": [1.0, "inf"],
        "hex": ["0x1.0000000000000p+0", "inf"],
        "float32": [1.0, "inf"],
        "float16": [1.0, "inf"],
        "bfloat16": [1.0, "inf"],
    }


def test_integers_have_no_other_dtypes(tmp_path: Path) -> None:
    """Buckets and ids are exact as they are."""
    assert numbers_in_json(tmp_path, np.array([3])) == {"shape": [1], "int": [3]}


def test_the_numbers_of_a_mistake_are_the_shortest_decimals_of_float32(tmp_path: Path) -> None:
    """A wrong table needs no exact digits."""
    numbers = numbers_in_json(tmp_path, np.array([0.1]), edits=({"edit": "swapped"},))
    assert numbers == {"shape": [1], "float32": [0.1]}


def test_answers_are_found_by_the_names_of_cases(suite: str, tmp_path: Path) -> None:
    """A dot or a slash separates case and tensor. A case without an answer is reported as a
    weakness, and fails nothing.
    """
    file = write_answers(tmp_path, table_answers())
    table, incomplete = golden.answer_checks(suite, [file], None)

    assert table.file == "model-llama-2-7b"
    assert table.group == file
    assert table.run().passed
    assert table.run().weak == ()
    assert incomplete.file == suite
    assert incomplete.group == ""
    assert incomplete.run().passed

    missing = "1 of 2 cases have no answer: frequencies-llama-2-7b"
    assert incomplete.run().weak == (missing,)


@pytest.mark.parametrize(
    ("tolerance", "passed"),
    [(None, False), (pecli.Tolerance(atol=1e-4), True)],
    ids=["that of the case", "a larger one"],
)
@pytest.mark.sample("a larger one")
def test_answers_pass_within_a_larger_tolerance(
    suite: str, tmp_path: Path, tolerance: pecli.Tolerance | None, passed: bool
) -> None:
    """One row of cosines is 1e-5 off: too much for the case's own tolerance, but not for 1e-4."""
    answers = table_answers()
    answers["model-llama-2-7b.cos"][0] += 1e-5
    file = write_answers(tmp_path, answers)

    assert golden.answer_checks(suite, [file], tolerance)[0].run().passed == passed


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_an_answer_named_by_its_case_alone_is_compared_with_the_largest_tensor(
    suite: str, tmp_path: Path, factor: float, passed: bool
) -> None:
    """The case has the frequencies and a single number, the attention factor; 1.1 times the
    frequencies must fail.
    """
    frequencies = factor * 1e4 ** (-np.arange(64) / 64)
    file = write_answers(tmp_path, {"frequencies-llama-2-7b": frequencies})

    assert golden.answer_checks(suite, [file], None)[0].run().passed == passed


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_an_attention_factor_is_compared(
    suite: str, tmp_path: Path, factor: float, passed: bool
) -> None:
    """Llama 2 has none, so that it is 1."""
    answers = {"frequencies-llama-2-7b.attention_factor": np.array(factor)}
    file = write_answers(tmp_path, answers)

    assert golden.answer_checks(suite, [file], None)[0].run().passed == passed


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("model-lama-2-7b", "did you mean 'model-llama-2-7b'?"),
        (
            "x",
            "name answers CASE.TENSOR; cases are frequencies-llama-2-7b, model-llama-2-7b",
        ),
        ("model-llama-2-7b.", "did you mean 'model-llama-2-7b'?"),
    ],
    ids=["nearly", "nothing like it", "no tensor after the point"],
)
def test_answers_to_no_case_are_refused(suite: str, tmp_path: Path, name: str, advice: str) -> None:
    """A name that is nearly one gets a hint, any other the list of cases."""
    file = write_answers(tmp_path, {name: np.ones(3)})
    with pytest.raises(pecli.PecliError) as caught:
        golden.answer_checks(suite, [file], None)

    problem = f"has '{name}', which is no case of the suite"
    assert str(caught.value) == f"{file}: {problem}; {advice}"


def test_a_file_that_was_changed_fails_its_case(suite: str) -> None:
    """The index has the SHA-256 of every file; the other case still passes."""
    (Path(suite) / "model-llama-2-7b.json").write_text("{}")
    frequencies, table = (check.run() for check in golden.suite_checks(suite))

    assert frequencies.passed
    assert not table.passed

    problem = "model-llama-2-7b.json: its sha256 is not that of the index"
    assert table.problems == (problem,)


def test_another_file_called_index_json_is_refused_with_advice(suite: str) -> None:
    """Many programs write a file of that name; a list is no index of a suite."""
    index = Path(suite) / "index.json"
    index.write_text("[]")

    with pytest.raises(pecli.PecliError) as caught:
        golden.suite_checks(suite)

    problem = "is not the index of a golden suite"
    assert str(caught.value) == f"{index}: {problem}; pecli golden -o FOLDER writes one"


def test_beside_its_sines_an_answer_named_by_the_case_of_a_table_is_its_cosines(
    suite: str, tmp_path: Path
) -> None:
    """Cosines and sines have one size, and the cosines come first."""
    answers = {"model-llama-2-7b": np.cos(ANGLES), "model-llama-2-7b.sin": np.sin(ANGLES)}
    file = write_answers(tmp_path, answers)

    assert golden.answer_checks(suite, [file], None)[0].run().passed
