"""The snippets of samples/dump write the tensors of a running program to files that `pecli verify` reads.

They are run here as users run them: in C, JavaScript and Python. The expected verdicts follow from
the rotation that the test itself applies to random queries, by Hugging Face's formula.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_input_forms import CONFIG, random_queries, rotated_with_base
from tests.exit_codes import SUCCESS

DUMP_SAMPLES = Path(__file__).parent.parent.parent / "samples" / "dump"
AGAINST_CONFIG_OF_BASE_10000 = ("--config", "config.json", "--atol", "1e-4")


@pytest.fixture(autouse=True)
def config_and_queries(working_folder: Path) -> None:
    """Write config.json with base 10000, and random queries of 4 heads, 12 positions and 64 channels
    as raw float32: before.f32, and after.f32, which rotate_half's formula rotates with that base.
    """
    Path("config.json").write_text(json.dumps(CONFIG))
    random_queries().tofile("before.f32")
    rotated_with_base(random_queries(), 10000).tofile("after.f32")


def run_c(program: str, output: str = os.devnull) -> None:
    """Compile a C program and run it, with its standard output in a file."""
    Path("main.c").write_text(program)
    subprocess.run(["cc", "main.c", "-o", "main"], check=True)
    with open(output, "wb") as file:
        subprocess.run(["./main"], check=True, stdout=file)


LINE_OF_C_IN_THE_README = (
    'printf("q_before[%d][%d] =", head, position); '
    'for (int i = 0; i < 64; i++) printf(" %.6f", q[i]); printf("\\n");'
)
C_PROGRAM_WITH_THAT_LINE = """
#include <stdio.h>
static float queries[4][12][64];
static int read_queries(const char *path) {
    FILE *file = fopen(path, "rb");
    return fread(queries, sizeof queries, 1, file) == 1;
}
int main(void) {
    if (!read_queries("before.f32")) return 1;
    for (int head = 0; head < 4; head++)
        for (int position = 0; position < 12; position++) {
            const float *q = queries[head][position];
            PRINT_Q_BEFORE
        }
    if (!read_queries("after.f32")) return 1;
    for (int head = 0; head < 4; head++)
        for (int position = 0; position < 12; position++) {
            const float *q = queries[head][position];
            PRINT_Q_AFTER
        }
    return 0;
}
"""


def test_the_readme_has_the_line_of_c_that_prints_a_row_of_queries() -> None:
    """It is the only block of C in the README, and the one that the next test compiles."""
    readme = DUMP_SAMPLES.parent.parent / "README.md"
    blocks = re.findall(r"^```c\n(.*?)\n```", readme.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks == [LINE_OF_C_IN_THE_README]


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_what_the_line_of_c_in_the_readme_prints_is_verified(run_pecli: Callable) -> None:
    """The README's line prints the 64 channels of one head at one position. A C program runs it in
    loops over before.f32, and with the name q_after over after.f32, which the fixture wrote: raw
    queries before and after a rotation by the config's base. `pecli verify` must pass the log.
    """
    line = LINE_OF_C_IN_THE_README
    program = C_PROGRAM_WITH_THAT_LINE.replace("PRINT_Q_BEFORE", line)
    program = program.replace("PRINT_Q_AFTER", line.replace("q_before", "q_after"))
    run_c(program, output="log.txt")
    done = run_pecli("verify", "log.txt", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


C_PROGRAM_THAT_DUMPS_QUERIES = """
#include "PATH_OF_DUMP_C"
static float queries[4 * 12 * 64];
static int read_queries(const char *path) {
    FILE *file = fopen(path, "rb");
    return fread(queries, sizeof queries, 1, file) == 1;
}
int main(void) {
    if (!read_queries("before.f32")) return 1;
    dump("q_before.bin", queries, 4 * 12 * 64);
    if (!read_queries("after.f32")) return 1;
    dump("q_after.bin", queries, 4 * 12 * 64);
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_dumps_of_the_c_sample_are_verified(run_pecli: Callable) -> None:
    """The fixture wrote before.f32 and after.f32: queries of 4 heads, 12 positions and 64 channels
    before and after a rotation by the config's base. A C program writes them with the sample's
    function `dump`, and `pecli verify` must pass what it wrote.
    """
    sample = DUMP_SAMPLES / "dump.c"
    run_c(C_PROGRAM_THAT_DUMPS_QUERIES.replace("PATH_OF_DUMP_C", str(sample)))
    files = ("q_after.bin", "--before", "q_before.bin")
    raw = ("--shape", "4,12,64", "--raw-dtype", "f32")
    done = run_pecli("verify", *files, *raw, *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_dumps_of_the_javascript_sample_are_verified(run_pecli: Callable) -> None:
    """The fixture wrote before.f32 and after.f32: queries of 4 heads, 12 positions and 64 channels
    before and after a rotation by the config's base. Node writes them with the sample's function
    `dump` to dump.json, which `pecli verify` must pass.
    """
    script = (
        f"const {{dump}} = require({json.dumps(str(DUMP_SAMPLES / 'dump.js'))});"
        "const read = f => { const b = require('fs').readFileSync(f);"
        " return new Float32Array(b.buffer, b.byteOffset, b.length / 4); };"
        "dump(read('before.f32'), read('after.f32'), [4, 12, 64]);"
    )
    subprocess.run(["node", "-e", script], check=True)
    done = run_pecli("verify", "dump.json", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


def test_dumps_of_the_torch_sample_are_verified(
    run_pecli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`random_queries` are of 4 heads, 12 positions and 64 channels, and `rotated_with_base` rotates
    them by the config's base, 10000. The sample's function `dump` writes both tensors to dump.npz,
    which `pecli verify` must pass.
    """
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(DUMP_SAMPLES))
    from torch_dump import dump

    dump(torch.tensor(random_queries()), torch.tensor(rotated_with_base(random_queries(), 10000)))
    done = run_pecli("verify", "dump.npz", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


def test_the_readme_of_the_snippets_links_to_each_of_them() -> None:
    """The folder has five snippets beside its README."""
    text = (DUMP_SAMPLES / "README.md").read_text()
    files = [path for path in DUMP_SAMPLES.iterdir() if path.is_file()]
    snippets = [path.name for path in files if path.suffix != ".md"]

    assert len(snippets) == 5
    for name in snippets:
        assert f"]({name})" in text
