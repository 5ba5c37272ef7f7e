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
    """Return numbers of four decimals, which a log therefore prints without rounding."""
    values = np.random.default_rng(tokens).standard_normal((tokens, heads, dim))
    return values.round(4).astype(np.float32)


def log_of(queries: Queries, name: str = "Qcur-0") -> str:
    """Return a log whose only ROPE has these numbers as its input and as its result.

    It states their shape as llama.cpp does, {channels, heads, tokens, batch}, with a batch of 1.
    """
    return eval_callback_log(before={name: queries}, after={name: queries})


def write_log(path: Path, log: str) -> str:
    path.write_text(log)
    return str(path)


def changed(log: str, old: str, new: str) -> str:
    """Return a log with a text replaced wherever it is; it must be there."""
    assert old in log
    return log.replace(old, new)


def assert_loaded(file: LoadedFile, queries: Queries) -> None:
    """Assert that the result of the operation ROPE has these numbers. Loaded tensors have heads first."""
    loaded = file.tensors["Qcur-0"].swapaxes(0, 1)
    np.testing.assert_array_equal(loaded.astype(np.float32), queries)


WHOLE_SIDES = {"tokens": 2, "heads": 2, "dim": 6}
"""Sides of queries that a log prints without gaps: up to three elements from each end of an axis."""


PHI2_LOG = DATA / "eval_callback_phi2.log"
"""The example in the README of llama.cpp's eval-callback: one token of Phi-2, which has 32 heads of
80 channels. The README prints heads 0, 1 and 2, and channels 0, 1 and 2 of each, before and after
ROPE:

    [ -1.1135,   1.4604,  -1.9226, ...],
    [ -0.3608,   0.5076,  -1.8866, ...],
    [  1.7643,   0.0273,  -2.1065, ...],
    ...
"""


def test_the_numbers_of_the_example_in_the_readme_of_llama_cpp_are_read() -> None:
    """Heads that are not printed are left out; channels that are not printed are NaN. The numbers are
    copied from the README.
    """
    file = load_file(str(PHI2_LOG))
    assert [*file.tensors] == ["Qcur-0_before", "Qcur-0"]

    queries = file.tensors["Qcur-0"]
    printed = [[-1.1135, 1.4604, -1.9226], [-0.3608, 0.5076, -1.8866], [1.7643, 0.0273, -2.1065]]
    assert queries.shape == (3, 1, 80)
    assert queries[:, 0, :3].tolist() == printed
    assert np.isnan(queries[:, 0, 3:]).all()


def test_a_part_states_the_whole_shape_and_the_indices_that_are_printed() -> None:
    """The log states {80, 32, 1, 1}: 80 channels, 32 heads, one token, one batch. Of these it prints
    heads 0 to 2, the token 0, and channels 0 to 2.
    """
    part = load_file(str(PHI2_LOG)).parts["Qcur-0"]

    assert part.shape == (32, 1, 80)
    assert part.size == 32 * 80
    assert part.heads.tolist() == [0, 1, 2]
    assert part.tokens.tolist() == [0]
    assert part.channels.tolist() == [0, 1, 2]


def printed_indices(length: int) -> list[int]:
    """Return the indices of an axis that llama.cpp prints: all of up to six, else three at each end."""
    if length <= 6:
        return [*range(length)]
    return [0, 1, 2, length - 3, length - 2, length - 1]


@pytest.mark.parametrize("tokens", [1, 5, 6, 7, 40])
@pytest.mark.parametrize("heads", [2, 32])
def test_printed_elements_are_read_at_their_indices(
    tmp_path: Path, tokens: int, heads: int
) -> None:
    """llama.cpp's eval-callback prints the first and the last three elements of each axis. Those are
    the random numbers at the same indices; other heads and tokens are left out of a loaded tensor,
    and other channels are NaN. The log lists tokens first, a loaded tensor heads.
    """
    before = random_queries(tokens, heads, dim=64)
    after = -before
    log = eval_callback_log(before={"Qcur-3": before}, after={"Qcur-3": after})
    file = load_file(write_log(tmp_path / "x.log", log))
    part = file.parts["Qcur-3"]
    channels = [0, 1, 2, 61, 62, 63]

    assert part.shape == (heads, tokens, 64)
    assert part.heads.tolist() == printed_indices(heads)
    assert part.tokens.tolist() == printed_indices(tokens)
    assert part.channels.tolist() == channels

    printed = np.ix_(printed_indices(tokens), printed_indices(heads), channels)
    for name, queries in (("Qcur-3_before", before), ("Qcur-3", after)):
        loaded = file.tensors[name].astype(np.float32).swapaxes(0, 1)
        np.testing.assert_array_equal(loaded[..., channels], queries[printed])
        assert np.isnan(np.delete(loaded, channels, axis=-1)).all()


def test_a_log_that_prints_all_elements_is_loaded_as_whole_tensors(tmp_path: Path) -> None:
    """`edge=4096` prints up to 4,096 elements at each end of an axis: all of 12 tokens, 4 heads and
    16 channels. `file.parts` lists the tensors of which elements are missing, so it is empty.
    """
    queries = random_queries(tokens=12, heads=4, dim=16)
    log = eval_callback_log(before={"Qcur-0": queries}, after={"Qcur-0": queries}, edge=4096)
    file = load_file(write_log(tmp_path / "x.log", log))

    assert not file.parts
    assert_loaded(file, queries)


def test_a_log_of_llama_cpp_since_2026_is_read(tmp_path: Path) -> None:
    """The function that prints is called common_debug_cb_eval now, lines are indented less, and
    rows end with blanks. `eval_callback_log` prints the older form; the shape is that of the
    queries: 4 heads, 5 tokens, 64 channels.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = log_of(queries)
    newer = changed(log, "ggml_debug:", "common_debug_cb_eval:")
    newer = changed(newer, INDENT, " " * 4)
    newer = changed(newer, "..., ", "   ..., ")
    newer = changed(newer, "],\n", "  ],\n")
    file = load_file(write_log(tmp_path / "x.log", newer))

    assert file.parts["Qcur-0"].shape == (4, 5, 64)


def test_only_the_first_evaluation_in_a_log_is_loaded(tmp_path: Path) -> None:
    """A log of llama.cpp's eval-callback has first the prompt of 5 tokens, and then a single token,
    each with a ROPE of queries and one of keys. Only those of the prompt are loaded; a note counts
    the two others.
    """
    prompt = random_queries(tokens=5, heads=4, dim=64)
    next_token = random_queries(tokens=1, heads=4, dim=64)
    evaluations = [
        log_of(prompt, name="Qcur-0") + log_of(prompt, name="Kcur-0"),
        log_of(next_token, name="Qcur-0") + log_of(next_token, name="Kcur-0"),
    ]
    file = load_file(write_log(tmp_path / "x.log", "".join(evaluations)))

    assert file.parts["Qcur-0"].shape == (4, 5, 64)
    assert file.parts["Kcur-0"].shape == (4, 5, 64)
    assert file.notes[0].startswith("2 ROPE operations")
    assert file.notes[1] == "2 of later evaluations left out"


def test_a_log_without_the_inputs_of_the_rotation_is_refused(tmp_path: Path) -> None:
    """In a log of llama.cpp's eval-callback, «Qcur-0 (reshaped)» is the input of the operation
    ROPE; without its elements nothing can be compared.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = log_of(queries)
    filtered = changed(log, "Qcur-0 (reshaped) =", "other =")

    with pytest.raises(FileError, match="has no ROPE operation that can be read; print all"):
        load_file(write_log(tmp_path / "x.log", filtered))


def test_a_log_whose_rotation_is_printed_in_another_form_is_refused_as_such(tmp_path: Path) -> None:
    """The line of the only ROPE in the log ends before the shape of its result."""
    log = "ggml_debug: Qcur-0 = (f32) ROPE(Qcur-0 (reshaped){64, 4, 5, 1}, x{5, 1, 1, 1}})\n"

    with pytest.raises(FileError, match="has no ROPE operation that can be read; print all"):
        load_file(write_log(tmp_path / "x.log", log))


BATCH_OF_ONE = "{64, 4, 5, 1}"
"""The shape of 64 channels, 4 heads and 5 tokens in a log; its last side is the batch."""
BATCH_OF_TWO = "{64, 4, 5, 2}"


def test_a_rotation_of_several_batches_is_left_out(tmp_path: Path) -> None:
    """Loaded tensors have no axis for batches. The shape that the log states for the queries is
    changed to a batch of 2, which is enough to leave them out; the keys of a batch of 1 are loaded.
    """
    numbers = random_queries(tokens=5, heads=4, dim=64)
    keys = log_of(numbers, name="Kcur-0")
    queries = changed(log_of(numbers, name="Qcur-0"), BATCH_OF_ONE, BATCH_OF_TWO)
    file = load_file(write_log(tmp_path / "x.log", keys + queries))

    assert [*file.tensors] == ["Kcur-0_before", "Kcur-0"]


def test_a_rotation_of_another_shape_than_its_input_is_left_out(tmp_path: Path) -> None:
    """The input of the only ROPE, «Qcur-0 (reshaped)», has 32 channels, its result 64: nothing can be
    compared.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = log_of(queries)
    sides = "}) = {64, 4, 5, 1}"
    assert log.count(sides) == 2  # of the input, and then of the result
    reshaped = log.replace(sides, "}) = {32, 4, 5, 1}", 1)

    with pytest.raises(FileError, match="has no ROPE operation that can be read; print all"):
        load_file(write_log(tmp_path / "x.log", reshaped))


@pytest.mark.parametrize("line", ["main: 3 tokens decoded", "load_tensors: 1.5 MiB", "0.5, 0.25"])
def test_lines_of_other_programs_among_the_elements_are_ignored(tmp_path: Path, line: str) -> None:
    """A server's own line, which may contain numbers, stands before the elements of each head. Those
    begin with a bracket, and the line does not.
    """
    queries = random_queries(**WHOLE_SIDES)
    log = log_of(queries)
    mixed = changed(log, BEGINNING_OF_HEAD, f"{line}\n{BEGINNING_OF_HEAD}")
    file = load_file(write_log(tmp_path / "x.log", mixed))

    assert_loaded(file, queries)


def test_a_line_in_brackets_between_tokens_is_ignored(tmp_path: Path) -> None:
    """The line «[INFO] next token» stands before the list of each token. It begins with a bracket, as
    the elements of a head do, but those stand within the list of a token only.
    """
    queries = random_queries(**WHOLE_SIDES)
    log = log_of(queries)
    token = f"{BEGINNING_OF_TOKEN}\n"
    mixed = changed(log, token, f"[INFO] next token\n{token}")
    file = load_file(write_log(tmp_path / "x.log", mixed))

    assert_loaded(file, queries)


def test_lists_after_the_elements_of_an_operation_are_ignored(tmp_path: Path) -> None:
    """The closing bracket of the tensor ends it: a program may print a list of its own below."""
    queries = random_queries(**WHOLE_SIDES)
    log = log_of(queries)
    own_list = "[\n[\n[1.0, 2.0],\n]\n]\n"
    file = load_file(write_log(tmp_path / "x.log", log + own_list))

    assert_loaded(file, queries)


def test_a_row_with_dots_is_refused_if_its_shape_leaves_nothing_out(tmp_path: Path) -> None:
    """Each row prints three channels, dots for those between, and three channels. The log states a
    shape of six channels, changed from seven: the dots would stand for none.
    """
    queries = random_queries(tokens=2, heads=2, dim=7)
    log = log_of(queries)

    with pytest.raises(FileError, match="are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", changed(log, "{7, ", "{6, ")))


@pytest.mark.parametrize("missing_characters", [250, 400, 900])
def test_a_log_that_ends_early_is_refused(tmp_path: Path, missing_characters: int) -> None:
    """The end of a log of llama.cpp's eval-callback is missing, and so are elements of its last
    tensor, the queries Qcur-0.
    """
    queries = random_queries(tokens=5, heads=4, dim=64)
    log = log_of(queries)

    with pytest.raises(FileError, match="the elements of Qcur-0 are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", log[:-missing_characters]))


def test_a_shape_beyond_the_printed_elements_is_refused_without_taking_memory(
    tmp_path: Path,
) -> None:
    """The log of llama.cpp's eval-callback claims 10^27 elements but prints those of 64 × 32 × 40;
    memory for the claim could not be allocated.
    """
    queries = random_queries(tokens=40, heads=32, dim=64)
    log = log_of(queries)
    hostile = changed(log, "{64, 32, 40, 1}", "{999999999, 999999999, 999999999, 1}")

    with pytest.raises(FileError, match="are not those of its shape"):
        load_file(write_log(tmp_path / "x.log", hostile))


def test_a_log_of_which_all_rotations_have_several_batches_is_refused(tmp_path: Path) -> None:
    """The only rotation in the log has a batch of 2 and is left out, and then none is left."""
    queries = random_queries(tokens=5, heads=4, dim=64)
    of_two = changed(log_of(queries), BATCH_OF_ONE, BATCH_OF_TWO)

    with pytest.raises(FileError, match="has no ROPE operation that can be read; print all"):
        load_file(write_log(tmp_path / "x.log", of_two))
