"""A process whose registries have a toy, in which tests run one command after the other."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Run = Callable[[Path, str], tuple[int, str]]
"""Runs a command line in a folder; returns its exit code and its output."""

ANSWER_COMMANDS = """
import json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pecli.cli.app import run

for line in sys.stdin:
    folder, words = json.loads(line)
    os.chdir(folder)
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        code = run(words)
    print(json.dumps([code, out.getvalue()]), flush=True)
"""


@contextmanager
def process_with(registration: str) -> Iterator[Run]:
    """Start a process that registers a toy by this program; the commands that it runs know the toy."""
    command = [sys.executable, "-c", registration + ANSWER_COMMANDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:

        def run(folder: Path, words: str) -> tuple[int, str]:
            print(json.dumps([str(folder), words.split()]), file=process.stdin, flush=True)
            code, output = json.loads(process.stdout.readline())
            return code, output

        yield run
