"""The snippets of samples/dump write the tensors of a running program to files that `pecli verify` reads.

They are run here as users run them: in C, JavaScript and Python. The expected verdicts follow from
the rotation that the test itself applies to random queries, by Hugging Face's formula.
"""

import json
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
def dumped(working_folder: Path) -> None:
    Path("config.json").write_text(json.dumps(CONFIG))
    random_queries().tofile("before.f32")
    rotated_with_base(random_queries(), 10000).tofile("after.f32")


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_line_of_c_in_the_readme_prints_what_verify_reads(run_pecli: Callable) -> None:
    """A C program contains the README's line in its loops, and prints queries of 4 heads, 12
    positions and 64 channels, before and after a rotation by the config's base: they must pass.
    """
    readme = DUMP_SAMPLES.parent.parent / "README.md"
    (line,) = re.findall(r"^```c\n(.*?)\n```", readme.read_text(encoding="utf-8"), re.M)
    loops = "\n".join(
        f"""
        file = fopen("{file}", "rb");
        if (fread(data, sizeof data, 1, file) == 0) return 1;
        for (int head = 0; head < 4; head++)
            for (int position = 0; position < 12; position++) {{
                const float *q = data[head][position];
                {line.replace("q_before", name)}
            }}"""
        for file, name in (("before.f32", "q_before"), ("after.f32", "q_after"))
    )
    start = "#include <stdio.h>\nstatic float data[4][12][64];\nint main(void) {\nFILE *file;\n"
    Path("main.c").write_text(start + loops + "\nreturn 0;\n}\n")
    subprocess.run(["cc", "main.c", "-o", "main"], check=True)
    with open("log.txt", "wb") as log:
        subprocess.run(["./main"], check=True, stdout=log)
    done = run_pecli("verify", "log.txt", *AGAINST_CONFIG_OF_BASE_10000)

    assert done.exit_code == SUCCESS, done.out + done.err


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_dumps_of_the_c_sample_are_verified(run_pecli: Callable) -> None:
    """A C program includes dump.c, and dumps queries before and after a rotation by rotate_half's
    formula with the config's base: they must pass.
    """
    main = f"""
    #include "{DUMP_SAMPLES / "dump.c"}"
    int main(void) {{
        static float q[{random_queries().size}];
        const char *names[][2] = {{{{"before.f32", "q_before.bin"}}, {{"after.f32", "q_after.bin"}}}};
        for (int k = 0; k < 2; k++) {{
            FILE *file = fopen(names[k][0], "rb");
            if (fread(q, sizeof *q, {random_queries().size}, file) == 0) return 1;
            dump(names[k][1], q, {random_queries().size});
        }}
        return 0;
    }}"""
    Path("main.c").write_text(main)
    subprocess.run(["cc", "main.c", "-o", "main"], check=True)
    subprocess.run(["./main"], check=True)
    raw = ("--shape", "4,12,64", "--raw-dtype", "f32")
    done = run_pecli(
        "verify", "q_after.bin", "--before", "q_before.bin", *raw, *AGAINST_CONFIG_OF_BASE_10000
    )

    assert done.exit_code == SUCCESS, done.out + done.err


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_dumps_of_the_javascript_sample_are_verified(run_pecli: Callable) -> None:
    """Node requires dump.js, and dumps queries before and after a rotation by rotate_half's formula
    with the config's base: they must pass.
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
    """Python imports torch_dump.py, and dumps queries before and after a rotation by rotate_half's
    formula with the config's base: they must pass.
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
