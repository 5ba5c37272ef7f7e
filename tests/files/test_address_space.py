"""Files that are larger than the address space of the process, which `ulimit -v` limits.

A file is mapped as a whole. If the system refuses that, the file is refused with advice. Commands
run in one process with 900 MiB of address space on sparse files of 1 GiB.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Outcome
from tests.exit_codes import FILE_ERROR
from tests.files.conftest import ENVIRONMENT

GIB = 1 << 30
LIMIT = 900 << 20  # bytes of address space, of which Python and NumPy take about a third
SMALL = np.arange(6, dtype="<f4").reshape(2, 3)

RUN_COMMANDS = f"""
import contextlib, io, json, resource, sys
from pecli.cli.app import run
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
outcomes = {{}}
for command in json.loads(sys.argv[1]):
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command.split())
    outcomes[command] = (code, out.getvalue(), err.getvalue())
print(json.dumps(outcomes))
"""

NO_SPACE = "its 1,024 MiB do not fit into the address space of this process"
RAISE_THE_LIMIT = "raise the limit (ulimit -v)\n"
COMMANDS_AND_NAMES = [
    ("inspect big.npy", "big.npy"),
    ("inspect big.safetensors:small", "big.safetensors"),
    ("inspect big.safetensors --stats", "big.safetensors"),
    ("inspect shards", "shards/model-1.safetensors"),
    ("config big.gguf", "big.gguf"),
    ("inspect big.csv", "big.csv"),
    ("inspect -", "standard input"),
]
"""Commands, and the file that each error names."""
ALL_COMMANDS = [command for command, _ in COMMANDS_AND_NAMES]


def write_sparse(path: Path, beginning: bytes, size: int) -> None:
    """Write a file that takes hardly any place on the disk: after its beginning, it is zero."""
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)


def write_npy(path: Path) -> None:
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (1 << 18, 1024))
    del rows


def write_safetensors(path: Path) -> None:
    small = {"dtype": "F32", "shape": SMALL.shape, "data_offsets": (0, 24)}
    large = {"dtype": "F16", "shape": (1 << 19, 1024), "data_offsets": (24, 24 + GIB)}
    header = json.dumps({"small": small, "large": large}).encode()
    start = struct.pack("<Q", len(header)) + header
    write_sparse(path, start + SMALL.tobytes(), len(start) + 24 + GIB)


def write_shards(folder: Path) -> None:
    """Write a model of one shard, whose index lists its tensors."""
    folder.mkdir()
    write_safetensors(folder / "model-1.safetensors")
    weight_map = {"small": "model-1.safetensors", "large": "model-1.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")


@pytest.fixture(scope="module")
def outcomes_within_900_mib(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcomes of all commands in one process that may not map the files."""
    if sys.platform != "linux":
        pytest.skip("only Linux limits the address space")
    folder = tmp_path_factory.mktemp("big")
    write_npy(folder / "big.npy")
    write_safetensors(folder / "big.safetensors")
    write_sparse(folder / "big.gguf", b"GGUF", GIB)
    write_shards(folder / "shards")
    write_sparse(folder / "big.csv", b"1,2\n", GIB)
    with (folder / "big.npy").open("rb") as standard_input:
        process = subprocess.run(
            [sys.executable, "-c", RUN_COMMANDS, json.dumps(ALL_COMMANDS)],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=standard_input,
            capture_output=True,
            text=True,
            check=True,
        )
    return {command: Outcome(*values) for command, values in json.loads(process.stdout).items()}


@pytest.mark.parametrize(("command", "name"), COMMANDS_AND_NAMES)
def test_a_file_beyond_the_address_space_is_refused_with_advice(
    outcomes_within_900_mib: dict[str, Outcome], command: str, name: str
) -> None:
    """A process with 900 MiB of address space is given files of 1 GiB. None of them can be mapped,
    whatever part of it is needed, and the advice is to raise the limit.
    """
    outcome = outcomes_within_900_mib[command]

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err == f"pecli: error: {name}: {NO_SPACE}; {RAISE_THE_LIMIT}"


def test_a_pipe_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    """1 GiB is piped into a process with 900 MiB of address space. A pipe has no size that could
    be compared with the limit before all of it is read, so reading it fails in the middle.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux limits the address space")
    write_safetensors(tmp_path / "big.safetensors")
    limit_in_kib = LIMIT >> 10  # the unit of `ulimit -v`
    inspect = f"ulimit -v {limit_in_kib}; exec {sys.executable} -m pecli inspect -"
    with subprocess.Popen(["cat", "big.safetensors"], cwd=tmp_path, stdout=subprocess.PIPE) as pipe:
        process = subprocess.run(
            ["bash", "-c", inspect],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdin=pipe.stdout,
            capture_output=True,
            text=True,
        )
        pipe.kill()

    assert process.returncode == FILE_ERROR
    problem = "does not fit into the memory that this process may use"
    advice = "save it to a file first, which is mapped"
    assert process.stderr == f"pecli: error: standard input: {problem}; {advice}\n"
