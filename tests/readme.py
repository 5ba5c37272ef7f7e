"""The generated parts of the README and the reference: the options of every command, and the output of sessions.

python -m tests.readme        writes them
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from pecli.cli.app import run as cli
from pecli.engine.schemes import SCHEMES
from tests.command_reference import command_tables, scheme_table

README = Path(__file__).parent.parent / "README.md"
REFERENCE = README.parent / "samples" / "reference.md"
BEGIN = "<!-- begin reference: python -m tests.readme writes this -->\n"
END = "<!-- end reference -->"


def reference() -> str:
    """Return the options of the generators, one section per scheme."""
    sections = [f"### `pecli {name}`\n\n{scheme_table(name)}" for name in SCHEMES]
    return "\n\n".join(sections)


def with_options(text: str) -> str:
    """Replace the tables between `<!-- options of COMMAND -->` and `<!-- end -->`."""
    return re.sub(
        r"(<!-- options of (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{command_tables(match[2])}\n{match[3]}",
        text,
        flags=re.S,
    )


def environment(folder: Path) -> dict[str, str]:
    """A PATH on which `pecli` is this package, and `python3` the interpreter that runs it."""
    for name, words in {"pecli": "-m pecli", "python3": ""}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        script.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(README.parent),
    }


def console(text: str) -> str:
    """The text with what the commands of its sessions really print, run one after the other in one folder.

    A session before the first ```sh block is a `shellsession`: a newcomer's first two ```sh or ```console blocks are to
    install and to test.
    """
    with tempfile.TemporaryDirectory() as scripts, tempfile.TemporaryDirectory() as folder:
        settings = environment(Path(scripts))

        def run(block: re.Match[str]) -> str:
            commands = re.findall(r"^\$ (.*)\n", block[2], re.M)
            shown = "".join(
                f"$ {command}\n{printed(command, folder, settings)}" for command in commands
            )
            return f"```{block[1]}\n{shown}```"

        return re.sub(r"^```(console|shellsession)\n(.*?)^```", run, text, flags=re.S | re.M)


def printed(command: str, folder: str, settings: dict[str, str]) -> str:
    """What a command prints: one that needs no shell runs in this process, which starts sooner."""
    alone = re.fullmatch(r"(pecli [^|;<>&$`*?]*)(; echo \"exit \$\?\")?", command)
    if alone is None:
        streams = {"capture_output": True, "encoding": "utf-8"}
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=settings, timeout=60, **streams
        )
        return done.stdout + done.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    size = mock.patch.dict(os.environ, {"COLUMNS": "80", "LINES": "24"})
    with redirect_stdout(out), redirect_stderr(err), chdir(folder), size:
        code = cli(shlex.split(alone[1])[1:])
    said, complaint = (written_to(stream) for stream in (out, err))
    return said + (f"exit {code:d}\n" if alone[2] else "") + complaint


def written_to(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def written(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if BEGIN in text:
        before, rest = text.split(BEGIN)
        text = f"{before}{BEGIN}\n{reference()}\n\n{END}{rest.split(END, 1)[1]}"
    return console(with_options(text))


if __name__ == "__main__":
    for document in (README, REFERENCE):
        document.write_text(written(document), encoding="utf-8")
