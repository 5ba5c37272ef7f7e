"""Queries as the loops of a port print them: a line per head, few digits, flat lists, wrong byte order.

The test rotates random queries by Hugging Face's rotate_half with a base that the config has
(10000) or has not (500000), writes them in one of these forms, and expects the verdict that follows.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pecli.views.html import element
from pecli.views.report.draft import Draft
from tests.cli.test_input_forms import CONFIG, HEADS, ROWS, Array, random_queries, rotated_with_base
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR

AGAINST_CONFIG_OF_BASE_10000 = ("--config", "config.json")
RIGHT_AND_WRONG_BASES = {"right": 10000.0, "wrong base": 500000.0}


@pytest.fixture(autouse=True)
def config(working_folder: Path) -> None:
    Path("config.json").write_text(json.dumps(CONFIG))


def queries_before_and_after(case: str) -> dict[str, Array]:
    return {
        "q_before": random_queries(),
        "q_after": rotated_with_base(random_queries(), RIGHT_AND_WRONG_BASES[case]),
    }


def spelled(numbers: Array, decimals: int) -> str:
    return " ".join(f"{number:.{decimals}f}" for number in numbers.reshape(-1))


def lines_per_head_and_row(name: str, array: Array, decimals: int) -> Iterator[str]:
    for head in range(HEADS):
        for row in range(ROWS):
            yield f"{name}[{head}][{row}] = {spelled(array[head, row], decimals)}\n"


def lines_per_row_and_head(name: str, array: Array, decimals: int) -> Iterator[str]:
    for row in range(ROWS):
        for head in range(HEADS):
            yield f"{name} pos {row} head {head}: {spelled(array[head, row], decimals)}\n"


def lines_per_head(name: str, array: Array, decimals: int) -> Iterator[str]:
    for head in range(HEADS):
        yield f"{name} head {head}: {spelled(array[head], decimals)}\n"


def blocks_per_head(name: str, array: Array, decimals: int) -> Iterator[str]:
    for head in range(HEADS):
        yield f"{name}, head {head}:\n"
        for row in range(ROWS):
            yield f"{spelled(array[head, row], decimals)}\n"


LOOPS_THAT_PRINT_HEADS = [
    lines_per_head_and_row,
    lines_per_row_and_head,
    lines_per_head,
    blocks_per_head,
]


def write_loop(loop: Callable, case: str, decimals: int = 6) -> None:
    lines = ["Loading model...\n"]
    for name, array in queries_before_and_after(case).items():
        lines += loop(name, array, decimals)
    Path("x.log").write_text("".join(lines))


@pytest.mark.parametrize("loop", LOOPS_THAT_PRINT_HEADS)
def test_logs_of_loops_over_heads_pass_with_the_right_base(
    run_pecli: Callable, loop: Callable
) -> None:
    """The log holds queries before and after a rotation by the config's base, as nested C loops
    print them: a line per head and row, per row and head, or per head, or blocks with a title per
    head.
    """
    write_loop(loop, "right")
    done = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


@pytest.mark.sample(1)
@pytest.mark.parametrize("loop", LOOPS_THAT_PRINT_HEADS)
def test_logs_of_loops_over_heads_fail_with_a_wrong_base(
    run_pecli: Callable, loop: Callable
) -> None:
    """The queries in the log were rotated with base 500000; the config has 10000."""
    write_loop(loop, "wrong base")
    done = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == CHECK_FAILED
    assert "base is 500000" in done.out


def test_a_note_states_that_a_line_of_a_log_is_a_head(run_pecli: Callable) -> None:
    """A line holds all of a head, 12 positions of 64 channels."""
    write_loop(lines_per_head, "right")
    done = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000)

    assert "q of x.log: a row per head, of 12 positions of 64" in done.err


@pytest.mark.sample(2)
@pytest.mark.parametrize(("decimals", "bound"), [(1, "0.12"), (2, "0.012"), (3, "0.0012")])
@pytest.mark.parametrize("case", [*RIGHT_AND_WRONG_BASES])
def test_numbers_of_few_decimals_are_compared_as_exactly_as_they_were_printed(
    run_pecli: Callable, case: str, decimals: int, bound: str
) -> None:
    """A number printed with d decimals is off by up to 0.5 · 10^-d. The expected number, a rotation
    x·cos + y·sin of two numbers before, is off by up to √2 times as much, and the number after by
    0.5 · 10^-d once more: together (0.707 + 0.5) · 10^-d = 1.2 · 10^-d, the tolerance.
    """
    write_loop(lines_per_head_and_row, case, decimals)
    done = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == (SUCCESS if case == "right" else CHECK_FAILED), done.out + done.err
    assert f"compared within {bound}, as exactly as they were printed" in done.err
    assert "print 6 decimals or more (%.6f) for a closer check" in done.err
    if case != "right":
        assert "base is 500000" in done.out


def test_a_tolerance_below_the_rounding_of_printed_numbers_fails_with_advice(
    run_pecli: Callable,
) -> None:
    """Numbers printed with 2 decimals are off by up to 0.005, in a rotation of two of them by up to
    0.01, which is more than the tolerance of 1e-3. The advised 4 decimals are enough.
    """
    write_loop(lines_per_head_and_row, "right", decimals=2)
    done = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000, "--atol", "1e-3")

    assert done.exit_code == CHECK_FAILED
    assert "printing rounded numbers by up to 0.01, more than --atol" in done.err
    assert "print 4 decimals (%.4f), or leave --atol out" in done.err

    write_loop(lines_per_head_and_row, "right", decimals=4)
    again = run_pecli("verify", "x.log", *AGAINST_CONFIG_OF_BASE_10000, "--atol", "1e-3")
    assert again.exit_code == SUCCESS, again.out + again.err


VERIFY_FLAT_LISTS = (
    *("verify", "q_after.txt", "--before", "q_before.txt"),
    *AGAINST_CONFIG_OF_BASE_10000,
)


def write_flat_lists(case: str) -> None:
    """Write q_before.txt and q_after.txt, a number per line: queries of 4 heads, 12 positions and 64
    channels before and after a rotation by the base of the case.
    """
    for name, array in queries_before_and_after(case).items():
        Path(f"{name}.txt").write_text("\n".join(f"{value:.6f}" for value in array.reshape(-1)))


@pytest.mark.parametrize("case", [*RIGHT_AND_WRONG_BASES])
def test_flat_lists_of_queries_are_refused_without_a_shape(run_pecli: Callable, case: str) -> None:
    """Whatever the base, 3,072 numbers may be of many shapes. The error has the option for 4 heads of
    64 channels, which the config has: 3,072 / (4 · 64) are 12 positions.
    """
    write_flat_lists(case)
    refused = run_pecli(*VERIFY_FLAT_LISTS)

    assert refused.exit_code == USAGE_ERROR
    assert "--shape 4,12,64 for (heads, positions, D)" in refused.err


def test_flat_lists_of_queries_are_verified_with_a_shape(run_pecli: Callable) -> None:
    """The queries were rotated with the config's base, and --shape states their axes: they pass."""
    write_flat_lists("right")
    done = run_pecli(*VERIFY_FLAT_LISTS, "--shape", "4,12,64")

    assert done.exit_code == SUCCESS, done.out + done.err


def test_flat_lists_with_a_wrong_base_fail_with_a_command_that_reproduces_them(
    run_pecli: Callable,
) -> None:
    """The queries were rotated with base 500000; the config has 10000. The printed command rotates
    q_before.txt with the base that was found, and must make the numbers of q_after.txt, up to the
    six decimals with which both were printed.
    """
    write_flat_lists("wrong base")
    failed = run_pecli(*VERIFY_FLAT_LISTS, "--shape", "4,12,64")
    command = "pecli apply rope q_before.txt --dim 64 --theta 500000 --shape 4,12,64 -o again.npy"

    assert failed.exit_code == CHECK_FAILED, failed.out + failed.err
    assert "base is 500000" in failed.out
    assert f"reproduce with {command}" in failed.out

    again = run_pecli(*command.split()[1:])
    assert again.exit_code == SUCCESS, again.err
    q_after = queries_before_and_after("wrong base")["q_after"]
    np.testing.assert_allclose(np.load("again.npy"), q_after, rtol=0, atol=2e-6)


@pytest.mark.parametrize("case", [*RIGHT_AND_WRONG_BASES])
@pytest.mark.sample(1)
def test_queries_in_typed_arrays_of_javascript_are_verified(run_pecli: Callable, case: str) -> None:
    """JSON.stringify writes a Float32Array as an object of its indices."""
    tensors: dict[str, object] = {"shape": [HEADS, ROWS, 64]}
    for name, array in queries_before_and_after(case).items():
        flat = array.reshape(-1)
        tensors[name] = {str(index): float(value) for index, value in enumerate(flat)}
    Path("x.json").write_text(json.dumps(tensors))
    done = run_pecli("verify", "x.json", *AGAINST_CONFIG_OF_BASE_10000, "--atol", "1e-5")

    assert done.exit_code == (SUCCESS if case == "right" else CHECK_FAILED), done.out + done.err
    if case != "right":
        assert "base is 500000" in done.out


def test_the_command_that_reproduces_raw_queries_states_their_shape_and_dtype(
    run_pecli: Callable,
) -> None:
    """The files have queries of 4 heads, 12 positions and 64 channels as bytes of float32, without a
    header. They were rotated with base 500000; the config has 10000. The printed command states the
    base, the shape and the dtype, and must make the rotated queries again, bit by bit.
    """
    for name, array in queries_before_and_after("wrong base").items():
        array.tofile(f"{name}.bin")
    raw = ("--shape", "4,-1,64", "--raw-dtype", "f32")
    done = run_pecli(
        "verify", "q_after.bin", "--before", "q_before.bin", *raw, *AGAINST_CONFIG_OF_BASE_10000
    )
    command = (
        "pecli apply rope q_before.bin --dim 64 --theta 500000 "
        "--shape 4,-1,64 --raw-dtype float32 -o again.npy"
    )

    assert f"reproduce with {command}" in done.out

    again = run_pecli(*command.split()[1:])
    assert again.exit_code == SUCCESS, again.err
    assert np.array_equal(np.load("again.npy"), queries_before_and_after("wrong base")["q_after"])


def test_a_wrong_byte_order_of_raw_queries_is_noted(run_pecli: Callable) -> None:
    """The files are big-endian and are read as little-endian; the note has the option that reads
    them in the other order.
    """
    for name, array in queries_before_and_after("right").items():
        array.astype(">f4").tofile(f"{name}.bin")
    words = (
        *("verify", "q_after.bin", "--before", "q_before.bin"),
        *AGAINST_CONFIG_OF_BASE_10000,
        *("--shape", "4,12,64"),
    )
    failed = run_pecli(*words, "--raw-dtype", "f32")

    assert failed.exit_code == CHECK_FAILED
    assert "--raw-dtype '>float32' is the other" in failed.err

    done = run_pecli(*words, "--raw-dtype", ">float32", "--atol", "1e-5")
    assert done.exit_code == SUCCESS, done.out + done.err


@pytest.mark.parametrize("index_of_nan", [(1, 3, 5), (0, 0, 0)], ids=str)
def test_a_nan_among_queries_does_not_hide_a_wrong_base(
    run_pecli: Callable, index_of_nan: tuple[int, int, int]
) -> None:
    """The queries were rotated with base 500000, which the config has not, and one of them is NaN."""
    after = queries_before_and_after("wrong base")["q_after"]
    after[index_of_nan] = np.nan
    np.save("after.npy", after)
    np.save("before.npy", random_queries())
    words = ("after.npy", "--before", "before.npy", "--atol", "1e-4")
    done = run_pecli("verify", *words, *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == CHECK_FAILED
    assert "base is 500000" in done.out
    assert "1 not finite (found)" in done.out


def test_a_report_of_rotated_queries_names_the_wrong_base(
    run_pecli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries were rotated with base 500000, the config has 10000. Pictures are left out, since
    drawing them takes seconds.
    """
    monkeypatch.setattr(
        Draft, "_figure_html", lambda draft, picture: element("figure", picture.title)
    )
    for name, array in queries_before_and_after("wrong base").items():
        np.save(f"{name}.npy", array)
    words = ("q_after.npy", "--before", "q_before.npy", "--atol", "1e-4", "-o", "report.html")
    done = run_pecli("report", "config.json", *words)

    assert done.exit_code == CHECK_FAILED, done.err

    page = Path("report.html").read_text()
    assert "base is 500000" in page
    assert "pecli verify q_after.npy --config config.json --before q_before.npy" in page


def test_a_report_of_rotated_queries_needs_a_model(run_pecli: Callable) -> None:
    """q_before.npy holds the queries before the rotation; no model is named."""
    for name, array in queries_before_and_after("right").items():
        np.save(f"{name}.npy", array)
    words = ("report", "q_after.npy", "--before", "q_before.npy", "-o", "report.html")
    refused = run_pecli(*words)

    assert refused.exit_code == USAGE_ERROR
    assert "--before is q_before.npy; a model rotates them; name one" in refused.err


def test_diff_of_files_without_common_names_prints_the_command_that_compares_them(
    run_pecli: Callable,
) -> None:
    """a.npz has two tensors, b.npy one without a name; all hold the same random numbers."""
    np.savez("a.npz", first=random_queries(), second=random_queries())
    np.save("b.npy", random_queries())
    done = run_pecli("diff", "a.npz", "b.npy")

    assert done.exit_code == CHECK_FAILED
    assert "compare one of each: pecli diff a.npz:first b.npy" in done.out
    assert run_pecli("diff", "a.npz:first", "b.npy").exit_code == SUCCESS


def test_config_reads_a_configuration_from_standard_input(process: Callable) -> None:
    """CONFIG with base 500000 goes in by a pipe; the proposed command needs a file, which it calls
    config.json.
    """
    done = process("config", "-", input=json.dumps({**CONFIG, "rope_theta": 5e5}).encode())
    assert done.returncode == SUCCESS, done.stderr
    assert b"500000" in done.stdout
    assert b"pecli rope --config config.json" in done.stdout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"", b"standard input: is not JSON", id="nothing"),
        pytest.param(b"GGUF\3\0\0\0", b"is a GGUF file", id="GGUF"),
    ],
)
def test_config_refuses_standard_input_that_is_no_configuration(
    process: Callable, text: bytes, problem: bytes
) -> None:
    """Nothing at all, and the beginning of a GGUF file, which is no JSON text."""
    done = process("config", "-", input=text)
    assert done.returncode == FILE_ERROR
    assert problem in done.stderr
