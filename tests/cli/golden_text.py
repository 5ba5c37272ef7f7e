"""Every command's help, and typical answers, at 80 columns.

python -m tests.cli.golden_text > tests/cli/golden.txt writes the file that a test compares. Read what changed.
"""

import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

ANSWERS = """
sinusoidal --seq-len 4 --dim 8
rope --model mistral --seq-len 4096 -o rope.npz
verify rope.npz
rope --model llama-3.1-8b --seq-len 512 --layout halves -o halves.npz
verify halves.npz --model llama-3.1-8b
rope --seq-len 4096 --dim 128 --theta 500000 -q -o plain.npz
verify plain.npz --model llama-3.1-8b --atol 1e-3
diff rope.npz plain.npz --atol 1e-3
identify plain.npz
inspect plain.npz --stats
config gpt2
config llama-3-8b llama-3.1-8b
audit rope --seq-len 4096 --dim 64
runtimes gpt-oss-20b --length 4096
extend qwen2.5-7b --to 65536
models phi
alibi --heads 8
rope --seq-len 4 --rope-theta 1
rope --seq-len 4 --model llama
"""


def text() -> str:
    """All of it, without the spaces at the ends of lines."""
    from pecli.cli.app import COMMANDS, run

    os.chdir(tempfile.mkdtemp())
    parts = []
    for line in ["--help", *(f"{name} --help" for name in COMMANDS), *ANSWERS.strip().splitlines()]:
        with redirect_stdout(StringIO()) as output, redirect_stderr(output):
            code = run(line.split())
        shown = "\n".join(row.rstrip() for row in output.getvalue().strip("\n").splitlines())
        parts.append("\n".join(filter(None, [f"$ pecli {line}", shown, f"exit {code}" if code else ""])))
    return "\n\n".join(parts)


if __name__ == "__main__":
    os.environ |= {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}
    print(text())
