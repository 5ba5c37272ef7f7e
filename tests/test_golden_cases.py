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
    """The largest finite value is 3, and the largest position 10. The rules of the suite are a share
    of the value by dtype. The rounding of angles adds 2^-51 of value times position in float64, and
    1.2e-7 (2^-23) of the position if a port computes angles in float32.
    """
    assert tolerances_of([3.0, -np.inf], largest_position=10) == {
        "float64": 1e-14 * 3 + 2**-51 * 10 * 3,
        "float32": 1e-6 * 3,
        "float16": 1e-3 * 3,
        "bfloat16": 8e-3 * 3,
        "float32_arithmetic": 1e-6 * 3 + 1.2e-7 * 10,
    }


def test_tolerances_of_small_values_are_those_of_1() -> None:
    """The largest value is 0.5. Cosines and sines reach 1 and are rounded accordingly, so that the
    tolerances are not halved: they are the suite's shares by dtype, of 1.
    """
    assert tolerances_of([0.5]) == {
        "float64": 1e-14,
        "float32": 1e-6,
        "float16": 1e-3,
        "bfloat16": 8e-3,
        "float32_arithmetic": 1e-6,
    }


def test_a_case_is_listed_in_the_index_with_its_shapes_and_files() -> None:
    """A case has a name, what it tests, tensors, and a scheme. Its entry in index.json has the shapes
    of the tensors, the checksums of its files as they are, and only parameters that were given.
    """
    case = GoldenCase("a-case", "what it tests", {"cos": np.zeros((2, 3))}, ROPE)
    entry = entry_json(case, {"a-case.json": "its sha256"})
    keys = {"name", "tests", "scheme", "parameters", "tolerances", "tensors", "files"}

    assert entry.keys() == keys
    assert entry["tensors"] == {"cos": [2, 3]}
    assert entry["files"] == {"a-case.json": "its sha256"}
    assert entry["scheme"] == "rope"
    assert None not in entry["parameters"].values()


def test_settings_and_edits_of_a_case_are_in_the_index() -> None:
    """Settings are those of a rotation, such as the layout of channels; edits describe a known
    mistake, such as exchanged cosines and sines. Both are in the entry as they are.
    """
    tensors = {"cos": np.zeros((2, 3))}
    settings = {"layout": "halves"}
    edits = ({"edit": "swapped"},)
    entry = entry_json(GoldenCase("a-case", "what it tests", tensors, ROPE, settings, edits), {})

    assert entry["settings"] == {"layout": "halves"}
    assert entry["edits"] == ({"edit": "swapped"},)


def test_a_model_has_cases_for_each_kind_of_layer() -> None:
    """Gemma 3 has full and sliding layers; each has its frequencies, then its table. The second and
    third case are the table of one kind and the frequencies of the other.
    """
    _, second, third, *_ = [case.name for case in cases(["gemma-3-1b"])]

    assert second == "model-gemma-3-1b-full_attention"
    assert third == "frequencies-gemma-3-1b-sliding_attention"


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
    """The suite of a model has these two cases. Frequencies belong to no position; the table is at
    positions up to 131071, 2^17 − 1. Numbers are in float64.
    """
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
    """The suite has tables with known mistakes. `reasons` are the edits that each of these cases
    states: what was done to the right table, such as reversing its rows.
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
    """The suite of Llama 2 has two cases, each in two formats, and an index; both cases pass when
    pecli computes them again.
    """
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
    """The file of a case has each number, here 1 and ∞, in several spellings, of which ports read the
    one that they can. JSON has no infinity, so it is a text.
    """
    assert numbers_in_json(tmp_path, np.array([[1.0, np.inf]])) == {
        "shape": [1, 2],
        "decimal": [1.0, "inf"],
        "hex": ["0x1.0000000000000p+0", "inf"],
        "float32": [1.0, "inf"],
        "float16": [1.0, "inf"],
        "bfloat16": [1.0, "inf"],
    }


def test_integers_have_no_other_dtypes(tmp_path: Path) -> None:
    """Buckets and ids are exact as they are: the file of a case has them once, as «int»."""
    assert numbers_in_json(tmp_path, np.array([3])) == {"shape": [1], "int": [3]}


def test_the_numbers_of_a_mistake_are_the_shortest_decimals_of_float32(tmp_path: Path) -> None:
    """A case with edits is a table with a known mistake, which needs no exact digits: the float32
    number next to 0.1 is written as 0.1, the shortest decimals that mean it.
    """
    numbers = numbers_in_json(tmp_path, np.array([0.1]), edits=({"edit": "swapped"},))
    assert numbers == {"shape": [1], "float32": [0.1]}


def test_answers_are_found_by_the_names_of_cases(suite: str, tmp_path: Path) -> None:
    """A port answers with tensors model-llama-2-7b.cos and model-llama-2-7b/sin, NumPy's of ANGLES: a
    dot or a slash separates case and tensor. There is one check of both tensors, within the
    tolerance of the case, and it is grouped under the port's file.
    """
    file = write_answers(tmp_path, table_answers())
    check, _of_suite = golden.answer_checks(suite, [file], tolerance=None)

    assert check.file == "model-llama-2-7b"
    assert check.group == file
    assert check.run().passed
    assert check.run().weak == ()


def test_cases_without_an_answer_are_a_weakness_of_the_suite(suite: str, tmp_path: Path) -> None:
    """A port answers one of two cases. A last check, of the suite, passes, but names the case that is
    missing. It belongs to no file of the port (group "").
    """
    file = write_answers(tmp_path, table_answers())
    *_, check_of_suite = golden.answer_checks(suite, [file], tolerance=None)

    assert check_of_suite.file == suite
    assert check_of_suite.group == ""
    assert check_of_suite.run().passed
    missing = "1 of 2 cases have no answer: frequencies-llama-2-7b"
    assert check_of_suite.run().weak == (missing,)


@pytest.mark.parametrize(
    ("tolerance", "passed"),
    [(None, False), (pecli.Tolerance(atol=1e-4), True)],
    ids=["that of the case", "a larger one"],
)
@pytest.mark.sample("a larger one")
def test_answers_pass_within_a_larger_tolerance(
    suite: str, tmp_path: Path, tolerance: pecli.Tolerance | None, passed: bool
) -> None:
    """A port's cosines are NumPy's, except that one row is 1e-5 off: too much for the tolerance that
    the case states, but not for 1e-4.
    """
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
    check, _ = golden.answer_checks(suite, [file], None)

    assert check.run().passed == passed


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_an_attention_factor_is_compared(
    suite: str, tmp_path: Path, factor: float, passed: bool
) -> None:
    """The cosines of Llama 2 are not multiplied by anything, so that its attention factor is 1; a
    port that answers 1.1 fails.
    """
    answers = {"frequencies-llama-2-7b.attention_factor": np.array(factor)}
    file = write_answers(tmp_path, answers)
    check, _ = golden.answer_checks(suite, [file], None)

    assert check.run().passed == passed


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
    """A port's file has a tensor `name`, which is no case of the suite. If it is nearly one, the error
    names that; otherwise it lists the cases.
    """
    file = write_answers(tmp_path, {name: np.ones(3)})
    with pytest.raises(pecli.PecliError) as caught:
        golden.answer_checks(suite, [file], None)

    problem = f"has '{name}', which is no case of the suite"
    assert str(caught.value) == f"{file}: {problem}; {advice}"


def test_a_file_that_was_changed_fails_its_case(suite: str) -> None:
    """The index has the SHA-256 of every file. The file of the table is replaced by «{}»: its case
    fails, and the case of frequencies still passes.
    """
    (Path(suite) / "model-llama-2-7b.json").write_text("{}")
    frequencies, table = (check.run() for check in golden.suite_checks(suite))

    assert frequencies.passed
    assert not table.passed

    problem = "model-llama-2-7b.json: its sha256 is not that of the index"
    assert table.problems == (problem,)


def test_another_file_called_index_json_is_refused_with_advice(suite: str) -> None:
    """The index.json of a suite is replaced by that of some other program, a list. The error names the
    file, and the command that writes a suite.
    """
    index = Path(suite) / "index.json"
    index.write_text("[]")

    with pytest.raises(pecli.PecliError) as caught:
        golden.suite_checks(suite)

    problem = "is not the index of a golden suite"
    assert str(caught.value) == f"{index}: {problem}; pecli golden -o FOLDER writes one"


@pytest.mark.parametrize(
    ("function", "passed"),
    [pytest.param(np.cos, True, id="cosines"), pytest.param(np.sin, False, id="sines")],
)
def test_an_answer_named_by_the_case_of_a_table_is_its_cosines(
    suite: str, tmp_path: Path, function: np.ufunc, passed: bool
) -> None:
    """An answer CASE without a tensor's name is the largest tensor of the case, and the first of equal
    ones: cosines and sines have one size, and cosines come first. Here CASE.sin is named as well.
    """
    answers = {"model-llama-2-7b": function(ANGLES), "model-llama-2-7b.sin": np.sin(ANGLES)}
    file = write_answers(tmp_path, answers)
    check, _of_suite = golden.answer_checks(suite, [file], tolerance=None)

    assert check.run().passed == passed


@pytest.mark.parametrize(("function", "passed"), [(np.cos, True), (np.sin, False)])
def test_a_single_answer_has_to_be_the_tensor_that_it_is_called(
    suite: str, tmp_path: Path, function: np.ufunc, passed: bool
) -> None:
    """A port may leave out its sines; sines that are called cosines fail."""
    file = write_answers(tmp_path, {"model-llama-2-7b.cos": function(ANGLES)})

    assert golden.answer_checks(suite, [file], None)[0].run().passed == passed


def test_two_answers_for_one_tensor_are_refused(suite: str, tmp_path: Path) -> None:
    """A dot and a slash separate the case and the tensor alike, so that both names mean the cosines."""
    cosines = np.cos(ANGLES)
    answers = {"model-llama-2-7b.cos": cosines, "model-llama-2-7b/cos": cosines}
    file = write_answers(tmp_path, answers)

    with pytest.raises(pecli.FileError, match="has cos of model-llama-2-7b twice; leave out"):
        golden.answer_checks(suite, [file], None)
