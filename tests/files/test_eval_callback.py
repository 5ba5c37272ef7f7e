"""Logs of llama.cpp's eval-callback, which prints some elements of each operation's input and
output.

Of the operation ROPE, the input is read as the tensor «Qcur-0_before», and the output as «Qcur-0»
(the queries of layer 0). The log shows only the first and last three elements of each axis; a
`part` states which heads, tokens and channels were printed, and others are NaN. One log is an
example of llama.cpp's README; the others are printed by `eval_callback_log` in the same form from
random queries, which are the expected values.
"""

from pathlib import Path

import numpy as np
import pytest

from pecli.errors import FileError
from pecli.files.load import LoadedFile, load_file
from tests.eval_callback_log import (
    BEGINNING_OF_HEAD,
    BEGINNING_OF_TOKEN,
    INDENT,
    Queries,
    eval_callback_log,
)

DATA = Path(__file__).parent / "data"


def random_queries(tokens: int, heads: int, dim: int) -> Queries:
    values = np.random.default_rng(tokens).standard_normal((tokens, heads, dim))
    return values.round(4).astype(np.float32)


def write_log(path: Path, log: str) -> str:
    path.write_text(log)
    return str(path)


def changed(log: str, old: str, new: str) -> str:
    """Return a log with a text replaced wherever it is; it must be there."""
    assert old in log
    return log.replace(old, new)


def assert_loaded(file: LoadedFile, queries: Queries) -> None:
    """Assert that the result of the operation ROPE has these numbers.

    The log has four decimals, so that they are up to 5e-5 off. Loaded tensors have heads first.
    """
    loaded = file.tensors["Qcur-0"].swapaxes(0, 1)
    np.testing.assert_allclose(loaded, queries, rtol=0, atol=5.1e-5)


WHOLE_SIDES = {"tokens": 2, "heads": 2, "dim": 6}
"""Sides of queries that a log prints without gaps: up to three elements from each end of an axis."""


def test_the_example_of_eval_callback_in_the_readme_of_llama_cpp_is_read() -> None:
    """The numbers are those that the README of llama.cpp's eval-callback prints for Phi-2."""
    file = load_file(str(DATA / "eval_callback_phi2.log"))
    assert [*file.tensors] == ["Qcur-0_before", "Qcur-0"]

    part = file.parts["Qcur-0"]
    assert part.shape == (32, 1, 80)
    assert part.size == 32 * 80
    assert part.heads.tolist() == [0, 1, 2]
    assert part.tokens.tolist() == [0]
    assert part.channels.tolist() == [0, 1, 2]

    printed = [[-1.1135, 1.4604, -1.9226], [-0.3608, 0.5076, -1.8866], [1.7643, 0.0273, -2.1065]]
    assert file.tensors["Qcur-0"][:, 0, :3].tolist() == printed
    assert np.isnan(file.tensors["Qcur-0"][:, 0, 3:]).all()


@pytest.mark.parametrize("tokens", [1, 5, 6, 7, 40])
@pytest.mark.parametrize("heads", [2, 32])
def test_printed_elements_are_read_at_their_indices(
    tmp_path: Path, tokens: int, heads: int
) -> None:
    """llama.cpp's eval-callback prints the first and last three elements of each axis, with four
    decimals: up to 5e-5 off. The expected numbers are the random ones that were printed, in the order
    (tokens, heads, channels) of llama.cpp; loaded tensors have heads first.
    """
    before = random_queries(tokens, heads, dim=64)
    after = before + 1
    log = eval_callback_log({"Qcur-3": before}, {"Qcur-3": after})
    file = load_file(write_log(tmp_path / "x.log", log))
    part = file.parts["Qcur-3"]

    assert part.shape == (heads, tokens, 64)
    assert part.channels.tolist() == [0, 1, 2, 61, 62, 63]

    printed = np.ix_(part.tokens, part.heads, part.channels)
    for name, expected in (("Qcur-3_before", before), ("Qcur-3", after)):
        loaded = file.tensors[name][..., part.channels].swapaxes(0, 1)
        np.testing.assert_allclose(loaded, expected[printed], rtol=0, atol=5.1e-5)


def test_a_log_that_prints_all_elements_is_loaded_as_whole_tensors(tmp_path: Path) -> None:
    """`edge=4096` prints up to 4,096 elements at each end of an axis: all of 12 tokens, 4 heads and
    16 channels. Four decimals are up to 5e-5 off.
    """
    queries = random_queries(tokens=12, heads=4, dim=16)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries}, edge=4096)
    file = load_file(write_log(tmp_path / "x.log", log))

    assert not file.parts
    assert_loaded(file, queries)


def test_a_log_of_llama_cpp_since_2026_is_read(tmp_path: Path) -> None:
    """The function that prints is called common_debug_cb_eval now, lines are indented less, and
    rows end with blanks. `eval_callback_log` prints the older form; the shape is that of the
    queries: 4 heads, 5 tokens, 64 channels.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    newer = changed(log, "ggml_debug:", "common_debug_cb_eval:")
    newer = changed(newer, INDENT, " " * 4)
    newer = changed(newer, "..., ", "   ..., ")
    newer = changed(newer, "],\n", "  ],\n")
    file = load_file(write_log(tmp_path / "x.log", newer))

    assert file.parts["Qcur-0"].shape == (4, 5, 64)


def test_only_the_first_evaluation_in_a_log_is_loaded(tmp_path: Path) -> None:
    """A log of llama.cpp's eval-callback has first the prompt of 5 tokens, then a single token.
    Only the prompt is loaded, and a note counts what was left out.
    """
    first = random_queries(tokens=5, heads=4, dim=64)
    second = random_queries(tokens=1, heads=4, dim=64)
    log = eval_callback_log({"Qcur-0": first}, {"Qcur-0": first})
    log += eval_callback_log({"Qcur-0": second}, {"Qcur-0": second})
    file = load_file(write_log(tmp_path / "x.log", log))

    assert file.parts["Qcur-0"].shape == (4, 5, 64)
    assert "1 of later evaluations left out" in file.notes


def test_a_log_without_the_inputs_of_the_rotation_is_refused(tmp_path: Path) -> None:
    """In a log of llama.cpp's eval-callback, «Qcur-0 (reshaped)» is the input of the operation
    ROPE; without its elements nothing can be compared.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    filtered = changed(log, "Qcur-0 (reshaped) =", "other =")

    with pytest.raises(FileError, match="the elements of their inputs are not printed"):
        load_file(write_log(tmp_path / "x.log", filtered))


def test_a_rotation_of_several_batches_is_left_out(tmp_path: Path) -> None:
    """The last side is the batch. Elements of a batch of two are printed in one more list, which
    is not read; the rotation of keys beside it is.
    """
    queries = random_queries(5, 4, 64)
    one_batch = eval_callback_log({"Kcur-0": queries}, {"Kcur-0": queries})
    two_batches = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    two_batches = changed(two_batches, "{64, 4, 5, 1}", "{64, 4, 5, 2}")
    file = load_file(write_log(tmp_path / "x.log", one_batch + two_batches))

    assert [*file.tensors] == ["Kcur-0_before", "Kcur-0"]


def test_a_rotation_of_another_shape_than_its_input_is_left_out(tmp_path: Path) -> None:
    """The input of the only ROPE, «Qcur-0 (reshaped)», has 32 channels, its result 64: nothing can be
    compared.
    """
    queries = random_queries(5, 4, 64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    sides = "}) = {64, 4, 5, 1}"
    assert log.count(sides) == 2  # of the input, and then of the result
    reshaped = log.replace(sides, "}) = {32, 4, 5, 1}", 1)

    with pytest.raises(FileError, match="the elements of their inputs are not printed"):
        load_file(write_log(tmp_path / "x.log", reshaped))


@pytest.mark.parametrize("line", ["main: 3 tokens decoded", "load_tensors: 1.5 MiB", "0.5, 0.25"])
def test_lines_of_other_programs_among_the_elements_are_ignored(tmp_path: Path, line: str) -> None:
    """A server's own line, which may contain numbers, stands before the elements of each head. Those
    begin with a bracket, and the line does not.
    """
    queries = random_queries(**WHOLE_SIDES)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    mixed = changed(log, BEGINNING_OF_HEAD, f"{line}\n{BEGINNING_OF_HEAD}")
    file = load_file(write_log(tmp_path / "x.log", mixed))

    assert_loaded(file, queries)


def test_a_line_in_brackets_between_tokens_is_ignored(tmp_path: Path) -> None:
    """The line «[INFO] next token» stands before the list of each token. It begins with a bracket, as
    the elements of a head do, but those stand within the list of a token only.
    """
    queries = random_queries(**WHOLE_SIDES)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    token = f"{BEGINNING_OF_TOKEN}\n"
    mixed = changed(log, token, f"[INFO] next token\n{token}")
    file = load_file(write_log(tmp_path / "x.log", mixed))

    assert_loaded(file, queries)


def test_lists_after_the_elements_of_an_operation_are_ignored(tmp_path: Path) -> None:
    """The closing bracket of the tensor ends it: a program may print a list of its own below."""
    queries = random_queries(**WHOLE_SIDES)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    own_list = "[\n[\n[1.0, 2.0],\n]\n]\n"
    file = load_file(write_log(tmp_path / "x.log", log + own_list))

    assert_loaded(file, queries)


def test_a_row_with_dots_is_refused_if_its_shape_leaves_nothing_out(tmp_path: Path) -> None:
    """Each row prints three channels, dots for those between, and three channels. The log states a
    shape of six channels, changed from seven: the dots would stand for none.
    """
    queries = random_queries(2, 2, 7)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})

    with pytest.raises(FileError, match="are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", changed(log, "{7, ", "{6, ")))


@pytest.mark.parametrize("missing_characters", [250, 400, 900])
def test_a_log_that_ends_early_is_refused(tmp_path: Path, missing_characters: int) -> None:
    """The end of a log of llama.cpp's eval-callback is missing, and so are elements of its last
    tensor, the queries Qcur-0.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})

    with pytest.raises(FileError, match="the elements of Qcur-0 are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", log[:-missing_characters]))


def test_a_shape_beyond_the_printed_elements_is_refused_without_taking_memory(
    tmp_path: Path,
) -> None:
    """The log of llama.cpp's eval-callback claims 10^27 elements but prints those of 64 × 32 × 40;
    memory for the claim could not be allocated.
    """
    queries = random_queries(tokens=40, heads=32, dim=64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    hostile = changed(log, "{64, 32, 40, 1}", "{999999999, 999999999, 999999999, 1}")

    with pytest.raises(FileError, match="are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", hostile))


def test_a_log_of_which_all_rotations_have_several_batches_is_refused(tmp_path: Path) -> None:
    """The last side of a shape is the batch. The only rotation in the log has a batch of two, and is
    left out, so that nothing remains to be compared.
    """
    queries = random_queries(5, 4, 64)
    log = eval_callback_log({"Qcur-0": queries}, {"Qcur-0": queries})
    of_two = changed(log, "{64, 4, 5, 1}", "{64, 4, 5, 2}")

    with pytest.raises(FileError, match="the elements of their inputs are not printed"):
        load_file(write_log(tmp_path / "x.log", of_two))
