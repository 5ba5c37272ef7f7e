"""verify, diff and identify reach the same verdict in whatever form numbers are given.

A form is a file format or the print of a program. Files are written by other programs if they are
here: NumPy, a C program's printf and fwrite, node's JSON.stringify. Prints of torch are made in its
format, as `print` writes it with profile="full". Tables have base 10000, which is right for the
config, or 500000, which is wrong; queries are rotated by Hugging Face's formula.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import pecli
from tests.eval_callback_log import eval_callback_log
from tests.exit_codes import CHECK_FAILED, SUCCESS

Array = NDArray[np.float32]
Tensors = dict[str, Array]
Write = Callable[[str, Tensors], None]

ROWS = 12
DIM = 64
HEADS = 4
CONFIG = {
    "model_type": "llama",
    "hidden_size": HEADS * DIM,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": DIM,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "num_hidden_layers": 2,
}


def random_queries() -> Array:
    return np.random.default_rng(5).standard_normal((HEADS, ROWS, DIM)).astype(np.float32)


def rotated_with_base(x: Array, base: float) -> Array:
    """Return x rotated by halves, by the formula of Hugging Face's rotate_half."""
    angles = np.outer(np.arange(ROWS), base ** (-np.arange(0, DIM, 2) / DIM))
    cos = np.cos(np.concatenate([angles, angles], axis=1))
    sin = np.sin(np.concatenate([angles, angles], axis=1))
    turned = np.concatenate([-x[..., DIM // 2 :], x[..., : DIM // 2]], axis=-1)
    return np.asarray(x * cos + turned * sin, np.float32)


def tables_with_base(base: float) -> Tensors:
    made = pecli.Rope(ROWS, DIM, theta=base).tables()
    return {"cos": np.asarray(made["cos"], np.float32), "sin": np.asarray(made["sin"], np.float32)}


def write_numpy_repr(path: str, tensors: Tensors) -> None:
    with np.printoptions(threshold=sys.maxsize):
        Path(path).write_text("".join(f"{name} = {array!r}\n" for name, array in tensors.items()))


def write_numpy_str(path: str, tensors: Tensors) -> None:
    with np.printoptions(threshold=sys.maxsize):
        Path(path).write_text("".join(f"{name}:\n{array}\n" for name, array in tensors.items()))


def nested(array: Array, spell: str, brackets: str, indent: str) -> str:
    if array.ndim == 1:
        inner = ", ".join(spell % value for value in array)
    else:
        inner = f",\n{indent}".join(nested(part, spell, brackets, indent) for part in array)
    return brackets[0] + inner + brackets[1]


def write_torch(path: str, tensors: Tensors) -> None:
    """Write tensors with four decimals, as print(tensor) has by default."""
    lines = [
        f"{name} = tensor({nested(array, '%7.4f', '[]', ' ' * 8)}, device='cuda:0')\n"
        for name, array in tensors.items()
    ]
    Path(path).write_text("".join(lines))


def write_with_torch(path: str, tensors: Tensors) -> None:
    torch = pytest.importorskip("torch")
    torch.set_printoptions(profile="full")
    try:
        Path(path).write_text(
            "".join(f"{name} = {torch.from_numpy(array)}\n" for name, array in tensors.items())
        )
    finally:
        torch.set_printoptions(profile="default")


def write_c_initialiser(path: str, tensors: Tensors) -> None:
    lines = []
    for name, array in tensors.items():
        sides = "".join(f"[{side}]" for side in array.shape)
        lines.append(f"static const float {name}{sides} = {nested(array, '%.9ff', '{}', '  ')};\n")
    Path(path).write_text("".join(lines))


def write_log(path: str, tensors: Tensors) -> None:
    """Write a line per row, tensors by turns, as a loop over positions prints them."""
    lines = []
    for row in range(ROWS):
        for name, array in tensors.items():
            numbers = " ".join(f"{value:.6f}" for value in array[..., row, :].reshape(-1))
            lines.append(f"[INFO] {name}[{row}] = {numbers}\n")
    Path(path).write_text("".join(lines))


def write_json(path: str, tensors: Tensors) -> None:
    Path(path).write_text(json.dumps({name: array.tolist() for name, array in tensors.items()}))


def write_with_node(path: str, tensors: Tensors) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    write_json("input.json", tensors)
    script = (
        "const fs = require('fs');"
        "const f32 = x => Array.isArray(x) ? x.map(f32) : Math.fround(x);"
        "const t = JSON.parse(fs.readFileSync('input.json'));"
        "for (const k in t) t[k] = f32(t[k]);"
        f"fs.writeFileSync('{path}', JSON.stringify(t));"
    )
    subprocess.run(["node", "-e", script], check=True)


PRINTF = r"""
#include <stdio.h>
int main(int argc, char **argv) {
    for (int k = 1; k + 2 < argc; k += 3) {
        FILE *file = fopen(argv[k + 1], "rb");
        int width, row = 0;
        float x;
        sscanf(argv[k + 2], "%d", &width);
        for (int i = 0; fread(&x, sizeof x, 1, file) == 1; i++) {
            if (i % width == 0) printf("%s%s[%d] =", i ? "\n" : "", argv[k], row++);
            printf(" %.6f", x);
        }
        printf("\n");
        fclose(file);
    }
    return 0;
}
"""


def write_with_printf(path: str, tensors: Tensors) -> None:
    """Write what a C program prints: a row per line, heads side by side."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    Path("dump.c").write_text(PRINTF)
    subprocess.run(["cc", "-O1", "dump.c", "-o", "dump"], check=True)
    words = ["./dump"]
    for name, array in tensors.items():
        rows = np.moveaxis(array, -2, 0).reshape(ROWS, -1)
        rows.tofile(f"{name}.f32")
        words += [name, f"{name}.f32", str(rows.shape[1])]
    done = subprocess.run(words, check=True, capture_output=True)
    Path(path).write_bytes(done.stdout)


WAYS_TO_PRINT_A_TABLE: dict[str, tuple[str, Write]] = {
    "numpy repr": ("x.txt", write_numpy_repr),
    "numpy str": ("x.out", write_numpy_str),
    "torch print": ("x.txt", write_torch),
    "print of torch": ("x.txt", write_with_torch),
    "C initialiser": ("x.h", write_c_initialiser),
    "log lines": ("x.log", write_log),
    "JSON": ("x.json", write_json),
    "JSON of node": ("x.json", write_with_node),
    "printf of C": ("x.txt", write_with_printf),
}
FOLDED = ("log lines", "printf of C")
"""Forms whose rows hold all heads of a position."""
RIGHT_AND_WRONG_BASES = {"right": 10000.0, "wrong base": 500000.0}


@pytest.fixture(autouse=True)
def config(working_folder: Path) -> None:
    Path("config.json").write_text(json.dumps(CONFIG))


@pytest.fixture(params=[*WAYS_TO_PRINT_A_TABLE])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[*RIGHT_AND_WRONG_BASES])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assert_verdict(case: str, code: int, text: str) -> None:
    """Assert that the case «right» passed, and that «wrong base» failed with the base named."""
    assert code == (SUCCESS if case == "right" else CHECK_FAILED), text
    if case != "right":
        assert "base is 500000" in text


@pytest.mark.sample(5)
def test_verify_has_the_same_verdict_for_every_form_of_a_table(
    run_pecli: Callable, form: str, case: str
) -> None:
    """A form is a way in which a program prints a table (NumPy, PyTorch, C, JSON, …). Tables of
    base 10000, as the configuration has it, pass; tables of base 500000 fail, with their base
    named.
    """
    path, write = WAYS_TO_PRINT_A_TABLE[form]
    write(path, tables_with_base(RIGHT_AND_WRONG_BASES[case]))
    done = run_pecli("verify", path, "--config", "config.json", "--atol", "1e-4")

    assert_verdict(case, done.exit_code, done.out + done.err)


@pytest.mark.sample(3)
def test_verify_has_the_same_verdict_for_every_form_of_rotated_queries(
    run_pecli: Callable, form: str, case: str
) -> None:
    """Queries before and after the rotation are printed in one form (NumPy, PyTorch, C, JSON, …),
    with the base of the configuration or another one. Logs have the 4 heads of a position side by
    side, which the configuration's number of heads unfolds.
    """
    path, write = WAYS_TO_PRINT_A_TABLE[form]
    write(path, {"q": rotated_with_base(random_queries(), RIGHT_AND_WRONG_BASES[case])})
    write(f"before-{path}", {"q": random_queries()})
    words = ("--before", f"before-{path}", "--config", "config.json", "--atol", "3e-4")
    done = run_pecli("verify", path, *words)

    assert_verdict(case, done.exit_code, done.out + done.err)
    if form in FOLDED:
        assert "4 heads of 64 folded into columns" in done.out


@pytest.mark.sample(3)
def test_diff_has_the_same_verdict_for_every_form_of_a_table(
    run_pecli: Callable, form: str, case: str
) -> None:
    """The reference has base 10000. A table in any printed form is equal if it has that base, and
    different if it has 500000, with its base named.
    """
    path, write = WAYS_TO_PRINT_A_TABLE[form]
    np.savez("reference.npz", **tables_with_base(10000))
    write(path, tables_with_base(RIGHT_AND_WRONG_BASES[case]))
    done = run_pecli("diff", "reference.npz", path, "--atol", "1e-4")

    assert_verdict(case, done.exit_code, done.out + done.err)


@pytest.mark.sample(5)
def test_identify_finds_the_base_in_every_form(run_pecli: Callable, form: str, case: str) -> None:
    """Each form is a way in which programs print tables. The tables have base 10000 or 500000,
    which `pecli identify` must report.
    """
    path, write = WAYS_TO_PRINT_A_TABLE[form]
    write(path, tables_with_base(RIGHT_AND_WRONG_BASES[case]))
    done = run_pecli("identify", path)

    assert done.exit_code == SUCCESS, done.out + done.err
    assert f"base={RIGHT_AND_WRONG_BASES[case]:.0f}" in done.out


def raw_float32(shape: str) -> tuple[str, ...]:
    """Return the options that state the layout of a file without a header."""
    return ("--raw-dtype", "f32", "--shape", shape)


def test_verify_and_diff_read_raw_tables(run_pecli: Callable, case: str) -> None:
    """x.bin has cosines and sines of 12 positions and 32 pairs as bytes of float32, of base 10000,
    or of 500000, which is wrong.
    """
    made = tables_with_base(RIGHT_AND_WRONG_BASES[case])
    np.stack([made["cos"], made["sin"]]).tofile("x.bin")
    np.savez("reference.npz", **tables_with_base(10000))
    layout = raw_float32("2,12,32")
    verified = run_pecli("verify", "x.bin", "--config", "config.json", "--atol", "1e-4", *layout)
    compared = run_pecli("diff", "reference.npz", "x.bin", "--atol", "1e-4", *layout)

    assert_verdict(case, verified.exit_code, verified.out + verified.err)
    assert_verdict(case, compared.exit_code, compared.out + compared.err)


def test_verify_reads_raw_queries(run_pecli: Callable, case: str) -> None:
    """Both files have queries of 4 heads, 12 positions and 64 channels as bytes of float32."""
    random_queries().tofile("before.bin")
    rotated_with_base(random_queries(), RIGHT_AND_WRONG_BASES[case]).tofile("after.bin")
    words = ("after.bin", "--before", "before.bin", "--config", "config.json", "--atol", "1e-4")
    done = run_pecli("verify", *words, *raw_float32("4,-1,64"))

    assert_verdict(case, done.exit_code, done.out + done.err)


def test_identify_reads_raw_tables(run_pecli: Callable, case: str) -> None:
    """x.bin has cosines and sines of 12 positions and 32 pairs as bytes of float32, whose base must
    be reported.
    """
    base = RIGHT_AND_WRONG_BASES[case]
    made = tables_with_base(base)
    np.stack([made["cos"], made["sin"]]).tofile("x.bin")
    done = run_pecli("identify", "x.bin", *raw_float32("2,12,32"))

    assert f"base={base:.0f}" in done.out


def test_verify_has_the_same_verdict_for_whole_logs_of_eval_callback(
    run_pecli: Callable, case: str
) -> None:
    """llama.cpp's llama-eval-callback prints the queries before and after their rotation, here by
    base 10000, as config.json has it, or 500000. Its axes are (position, head, channel), so that
    ours, (head, position, channel), are swapped. Nothing is shortened: no axis has 4096 numbers at
    each end.
    """
    base = RIGHT_AND_WRONG_BASES[case]
    before = {"Qcur-0": random_queries().swapaxes(0, 1)}
    after = {"Qcur-0": rotated_with_base(random_queries(), base).swapaxes(0, 1)}
    Path("x.log").write_text(eval_callback_log(before, after, edge=4096))
    done = run_pecli("verify", "x.log", "--config", "config.json")

    assert_verdict(case, done.exit_code, done.out + done.err)


def rotated_neighbours(x: Array, base: float) -> Array:
    """Return x with its pairs of neighbours as complex numbers, times exp(i · angle)."""
    angles = np.outer(np.arange(ROWS), base ** (-np.arange(0, DIM, 2) / DIM))
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def test_a_short_log_of_rotated_neighbours_is_verified(run_pecli: Callable, case: str) -> None:
    """llama.cpp's eval-callback prints three channels of each end, and llama.cpp rotates neighbours
    in its Llama weights, not halves.
    """
    x = random_queries()
    after = rotated_neighbours(x, RIGHT_AND_WRONG_BASES[case])
    log = eval_callback_log({"Qcur-0": x.swapaxes(0, 1)}, {"Qcur-0": after.swapaxes(0, 1)}, edge=3)
    Path("x.log").write_text(log)
    done = run_pecli("verify", "x.log", "--config", "config.json")

    assert done.exit_code == (SUCCESS if case == "right" else CHECK_FAILED), done.out + done.err


def test_diff_compares_the_queries_of_two_short_logs_of_eval_callback(
    run_pecli: Callable, case: str
) -> None:
    """The same queries are rotated with base 10000 in a.log, and with 10000 or 500000 in b.log, so
    that only the rotated ones can differ. llama.cpp prints three numbers of each end of an axis
    (edge=3): of 12 positions, 6 are read. The channels stay 64, of which the 58 in the middle are
    unknown (NaN) in both files; all 4 heads are printed.
    """
    before = {"Qcur-0": random_queries().swapaxes(0, 1)}  # (position, head, channel)
    for name, base in (("a.log", 10000.0), ("b.log", RIGHT_AND_WRONG_BASES[case])):
        after = {"Qcur-0": rotated_with_base(random_queries(), base).swapaxes(0, 1)}
        Path(name).write_text(eval_callback_log(before, after, edge=3))
    done = run_pecli("diff", "a.log", "b.log", "--atol", "1e-3")

    assert done.exit_code == (SUCCESS if case == "right" else CHECK_FAILED), done.out + done.err
    assert "Qcur-0_before  4 × 6 × 64  every element is equal" in done.out


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["JSON", "log lines", "numpy repr"])
def test_printed_tables_are_verified_from_standard_input(process: Callable, form: str) -> None:
    """`PROGRAM | pecli verify -`: what the program printed is the standard input of the check. The
    tables have the base of the configuration.
    """
    path, write = WAYS_TO_PRINT_A_TABLE[form]
    write(path, tables_with_base(10000))
    words = ("verify", "-", "--config", "config.json", "--atol", "1e-4")
    done = process(*words, input=Path(path).read_bytes())

    assert done.returncode == SUCCESS, done.stderr
