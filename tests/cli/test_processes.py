"""pecli as a process of its own: pipes, signals, terminals, full disks, closed streams, limits of memory.

Expected exit codes are those of the shell: 128 plus the number of a signal, such as 130 for Ctrl-C.
"""

import io
import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress

import numpy as np
import pytest

import pecli
from tests.exit_codes import FILE_ERROR, SUCCESS, USAGE_ERROR

if sys.platform == "win32":
    pytest.skip("signals, FIFOs and terminals are POSIX's", allow_module_level=True)
import pty

PECLI_PROCESS = [sys.executable, "-m", "pecli"]
SMALL_TABLE = ["sinusoidal", "--seq-len", "64", "--dim", "16"]
TABLE_OF_4_GB = ["sinusoidal", "--seq-len", "4000000", "--dim", "256"]
"""4 GB: long enough to be interrupted."""


def interruptible() -> None:
    """Let a child be interrupted: shells let what they start in the background ignore SIGINT, and
    children inherit it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": interruptible}


def test_a_table_is_written_to_a_pipe_and_verified_from_a_pipe(process) -> None:
    """SMALL_TABLE is a sinusoidal table of 64 × 16; one process writes it to standard output,
    another one reads and verifies it.
    """
    result = process(*SMALL_TABLE, "-o", "-")
    assert result.returncode == SUCCESS
    assert result.stderr == b""

    table = np.load(io.BytesIO(result.stdout))
    assert np.array_equal(table, pecli.Sinusoidal(64, 16).tables()["pe"])
    assert process(*SMALL_TABLE, "--verify", "-", input=result.stdout).returncode == SUCCESS


@pytest.mark.thorough
def test_the_path_dev_stdout_means_standard_output(process) -> None:
    """`-o /dev/stdout` writes the same bytes as `-o -`."""
    by_path = process(*SMALL_TABLE, "-o", "/dev/stdout").stdout
    by_dash = process(*SMALL_TABLE, "-o", "-").stdout
    assert by_path == by_dash


@pytest.mark.thorough
def test_a_pipe_that_ends_early_is_a_file_error(process) -> None:
    """Four bytes of the table are missing at the end."""
    table = process(*SMALL_TABLE, "-o", "-").stdout
    assert process("inspect", "-", input=table[:-4]).returncode == FILE_ERROR


@pytest.mark.parametrize(
    "words", [[*TABLE_OF_4_GB, "-o", "-"], ["alibi", "--heads", "16384"]], ids=["a table", "text"]
)
def test_a_command_whose_reader_goes_away_has_exit_code_141(words) -> None:
    """The reader takes six bytes and closes the pipe, as `head` does. 141 is 128 + SIGPIPE, as a
    shell reports it; nothing is printed about it.
    """
    with subprocess.Popen(
        [*PECLI_PROCESS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert len(child.stdout.read(6)) == 6
        child.stdout.close()
        assert child.wait(30) == 141
        assert child.stderr.read() == b""


@pytest.mark.parametrize("words", [["--help"], SMALL_TABLE])
def test_a_pipe_that_nobody_reads_has_exit_code_141(words) -> None:
    """The reader's end of the pipe is closed before the command starts, which prints its help or a
    preview. 141 is 128 + SIGPIPE, as a shell reports it.
    """
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [*PECLI_PROCESS, *words], stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)

    assert child.returncode == 141
    assert child.stderr == b""


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough),
        (signal.SIGKILL, -9),
    ],
)
@pytest.mark.parametrize("wait", [0.1, pytest.param(0.9, marks=pytest.mark.thorough)])
def test_a_killed_command_leaves_the_old_file_whole(tmp_path, number, code, wait) -> None:
    """The signal comes while the new table is being written beside the old file; 130 and 143 are
    128 + the signal.
    """
    target = tmp_path / "t.npy"
    target.write_bytes(b"old")
    child = subprocess.Popen([*PECLI_PROCESS, *TABLE_OF_4_GB, "-o", target], **PIPES)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(wait)
    child.send_signal(number)
    out, err = child.communicate(timeout=120)

    assert child.returncode == code
    assert target.read_bytes() == b"old"
    assert out == b""
    assert err == b""
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == [target]


def work_for(pid: int, seconds: float) -> None:
    """Wait until a process has used that much of a processor, or as long by the clock if that
    cannot be seen.
    """
    if not os.path.exists(f"/proc/{pid}/stat"):
        time.sleep(seconds)
        return
    tick = os.sysconf("SC_CLK_TCK")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        if fields[0] == "Z" or (int(fields[11]) + int(fields[12])) / tick >= seconds:
            return
        time.sleep(0.002)


@pytest.mark.parametrize(
    "wait", [0.0, 0.1, *(pytest.param(k / 50, marks=pytest.mark.thorough) for k in range(1, 12))]
)
def test_ctrl_c_at_any_time_prints_no_traceback_and_leaves_no_file(tmp_path, wait) -> None:
    """The process is interrupted after it has worked for some time on a table of 4 GB. 130 is 128 +
    SIGINT; very early, the interpreter itself ends, with -SIGINT.
    """
    child = subprocess.Popen([*PECLI_PROCESS, *TABLE_OF_4_GB, "-o", tmp_path / "t.npy"], **PIPES)
    work_for(child.pid, 0.1 + wait)  # the interpreter itself takes a moment to listen
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)

    assert child.returncode in (-signal.SIGINT, 130), err
    if child.returncode == 130:  # the program itself ended, instead of the interpreter
        assert err == b""
    assert list(tmp_path.iterdir()) == []


PROGRAM_THAT_DROPS_A_SIGNAL = """
import signal, sys, time, weakref
from pecli import __main__ as way_in
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell starts background jobs without it.
class Thing: pass
def run(arguments):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing  # in whose callback no exception is raised
    time.sleep(60)
sys.modules["pecli.cli.app"] = type(sys)("app")
sys.modules["pecli.cli.app"].run = run
way_in.main()
"""


def test_an_interrupt_that_python_drops_is_raised_again() -> None:
    """Python ignores exceptions in callbacks of weak references, KeyboardInterrupt included. In
    this program SIGINT comes in such a callback, and must end it nevertheless: 130 is 128 + SIGINT.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_THAT_DROPS_A_SIGNAL], capture_output=True, check=False
    )
    assert done.returncode == 130
    assert done.stderr == b""


def test_nothing_slow_is_imported_before_signals_are_handled() -> None:
    """Only modules that Python itself has loaded may be there, so that Ctrl-C at any moment is no
    traceback. -S and -I keep other modules away.
    """
    root = os.path.dirname(os.path.dirname(pecli.__file__))
    code = f"import sys; sys.path.insert(0, {root!r}); import pecli.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )

    assert not {"typing", "re", "importlib", "typer", "numpy"} & set(done.stdout.split())


PROGRAM_WITH_A_SIGNAL_AT_ITS_END = """
import atexit, os, sys
from pecli import __main__ as way_in
number = int(sys.argv[1])
sys.argv = ["pecli", "--version"]
atexit.register(os.kill, os.getpid(), number)  # when the command has printed the version
way_in.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_after_the_command_ends_the_process_without_a_traceback(
    number: signal.Signals,
) -> None:
    """The command is done, and Python runs what `atexit` registered, which sends the signal to the
    process itself. Its default action ends the process; subprocess reports that as −number.
    """
    command = [sys.executable, "-c", PROGRAM_WITH_A_SIGNAL_AT_ITS_END, str(int(number))]
    done = subprocess.run(command, timeout=60, **PIPES)

    assert done.returncode == -number
    assert done.stderr == b""


PROGRAM_WITH_A_SIGNAL_WHILE_A_CLASS_IS_MADE = """
import signal, sys
from pecli import __main__ as way_in
import pecli.cli.app

class Attribute:
    def __set_name__(self, owner, name):  # Python calls this when it makes the class of its owner.
        signal.raise_signal(signal.SIGTERM)

def make_a_class(words):
    class Owner:
        attribute = Attribute()

pecli.cli.app.run = make_a_class
sys.argv = ["pecli", "--version"]
way_in.main()
"""


def test_a_signal_while_a_class_is_made_ends_the_process_without_a_traceback() -> None:
    """Up to version 3.11, Python wraps an exception that `__set_name__` raises in a RuntimeError, and
    so that by which pecli ends at SIGTERM. The exit code must be the shell's nevertheless: 143 =
    128 + SIGTERM.
    """
    command = [sys.executable, "-c", PROGRAM_WITH_A_SIGNAL_WHILE_A_CLASS_IS_MADE]
    done = subprocess.run(command, timeout=60, **PIPES)

    assert done.returncode == 143
    assert done.stderr == b""


DISK_IS_FULL = (
    b"pecli: error: standard output: the disk is full; free some space or choose another folder\n"
)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        pytest.param([*SMALL_TABLE, "--json"], marks=pytest.mark.thorough),
        pytest.param([*SMALL_TABLE, "-o", "-"], marks=pytest.mark.thorough),
    ],
)
def test_standard_output_on_a_full_disk_is_a_file_error(words: list[str]) -> None:
    """Every write to /dev/full fails with ENOSPC."""
    with open("/dev/full", "wb") as full:
        command = [*PECLI_PROCESS, *words]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == FILE_ERROR
    assert result.stderr == DISK_IS_FULL


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_output_file_on_a_full_disk_is_a_file_error(run_pecli) -> None:
    """Writing to /dev/full fails as on a full disk; the device must not be removed as an unfinished
    file.
    """
    outcome = run_pecli(*SMALL_TABLE, "-o", "/dev/full")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.count("\n") == 1
    assert os.path.exists("/dev/full")


def run_in_terminal(*words: str, **environment: str) -> tuple[int, str]:
    """Run a command on a terminal of its own; the exit code and what it showed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **environment})
        os.execv(sys.executable, [*PECLI_PROCESS, *words])
    shown = b""
    with suppress(OSError):  # which is how a terminal ends
        while part := os.read(fd, 65536):
            shown += part
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_a_preview_on_a_terminal_has_colours() -> None:
    """ESC [ begins a sequence of ANSI terminals."""
    code, shown = run_in_terminal(*SMALL_TABLE)
    assert code == SUCCESS
    assert "\x1b[" in shown


def test_a_table_in_binary_is_not_written_to_a_terminal() -> None:
    """`-o -` writes a table to standard output, whose bytes would garble the terminal; the error
    advises to redirect them.
    """
    code, shown = run_in_terminal(*SMALL_TABLE, "-o", "-")
    assert code == USAGE_ERROR
    assert "redirect" in shown


@pytest.mark.thorough
def test_a_terminal_without_colour_gets_none() -> None:
    """NO_COLOR forbids colours, sequences «ESC [3…m»; the terminal «dumb» knows no sequence at all."""
    assert "\x1b[3" not in run_in_terminal(*SMALL_TABLE, NO_COLOR="1")[1]
    assert "\x1b" not in run_in_terminal(*SMALL_TABLE, TERM="dumb")[1]


def test_help_and_errors_are_printed_in_an_ascii_locale(process) -> None:
    """Help and errors contain characters such as × and …, which must not raise UnicodeEncodeError.
    The error is that of a seed beyond 64 bits.
    """
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    shown = process("rope", "--help", env=environment)

    assert shown.returncode == SUCCESS
    assert shown.stderr == b""

    refused = process(
        "learned-init", "--max-len", "4", "--dim", "4", "--seed", 2**64, env=environment
    )
    assert refused.returncode == USAGE_ERROR
    assert refused.stderr[:14] == b"pecli: error: "
    assert refused.stderr.count(b"\n") == 1


FURTHER_SCHEMES = [
    pytest.param(scheme, marks=pytest.mark.thorough)
    for scheme in ("rope --seq-len", "learned-init --max-len")
]


@pytest.mark.parametrize("scheme", ["sinusoidal --seq-len", *FURTHER_SCHEMES])
def test_memory_stays_flat_however_long_the_table(peak_memory, monkeypatch, scheme) -> None:
    """32,768 rows of 1,024 float32 are 128 MiB, which must not all be in memory at once: compared
    with a table of 1,024 rows (4 MiB), the peak grows by less than 100 MiB.
    """
    monkeypatch.setenv("PECLI_THREADS", "2")  # each of which holds a block

    def peak(rows: int) -> int:
        return peak_memory("-m", "pecli", *scheme.split(), rows, "--dim", 1024, "-o", "/dev/null")

    growth_in_mib = peak(32_768) - peak(1024)
    assert growth_in_mib < 100


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("pecli sinu", ["sinusoidal"], id="a command"),
        pytest.param("pecli sinusoidal --style wh", ["whisper"], id="a value of an option"),
        pytest.param(
            "pecli rope --model llama-3.1",
            ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"],
            id="models",
        ),
    ],
)
def test_the_shell_completes_commands_options_and_models(
    run_pecli, monkeypatch: pytest.MonkeyPatch, line: str, offered: list[str]
) -> None:
    """The variables are those by which click's completion script for bash asks: the words of the
    line, and the index of the last one.
    """
    monkeypatch.setenv("_PECLI_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    done = run_pecli()

    assert done.exit_code == SUCCESS
    assert done.out.split() == offered


def test_an_unknown_request_of_the_shell_for_completion_fails(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of _PECLI_COMPLETE is the kind of request and the shell; «nothing» is no shell.
    Click's exit code for it is 1.
    """
    monkeypatch.setenv("_PECLI_COMPLETE", "complete_nothing")
    assert run_pecli().exit_code == 1


def run_in_shell(words: str) -> subprocess.CompletedProcess[bytes]:
    command = f"{sys.executable} -m pecli {' '.join(SMALL_TABLE)} {words}"
    return subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, timeout=60)


def test_a_table_is_written_while_both_streams_are_closed(working_folder) -> None:
    """The shell's «>&- 2>&-» closes standard output and standard error. The table is of 64
    positions and 16 channels.
    """
    done = run_in_shell("-o t.npy >&- 2>&-")
    assert done.returncode == SUCCESS
    assert done.stderr == b""
    assert np.load("t.npy").shape == (64, 16)


def test_a_table_for_a_closed_standard_output_is_a_file_error(working_folder) -> None:
    """The shell's `>&-` closes standard output, to which `-o -` writes the table."""
    done = run_in_shell("-o - >&-")
    assert done.returncode == FILE_ERROR
    assert done.stderr == b"pecli: error: standard output: is not open\n"


def test_help_in_a_pipe_is_as_wide_as_the_variable_columns(process) -> None:
    """A pipe has no width of its own. COLUMNS is 100 (the default would be 140 columns), and the
    longest lines, the borders of boxes, use all of them. The examples below may be longer.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TERMINAL_WIDTH"}
    help_text = process("verify", "--help", env={**environment, "COLUMNS": "100"}).stdout.decode()
    boxes, _, _ = help_text.partition("\n Examples:\n")

    assert max(map(len, boxes.splitlines())) == 100


def test_the_manifest_in_the_help_of_verify_is_valid_toml(run_pecli) -> None:
    """The example from «[defaults]» to the end of the help is parsed; users copy it. It has five
    checks, of these files.
    """
    lines = run_pecli("verify", "--help").out.splitlines()
    start = next(k for k, line in enumerate(lines) if "[defaults]" in line)
    manifest = tomllib.loads("\n".join(line.strip() for line in lines[start:]))
    dumps = ["dumps/cos.npy", "dumps/q_after.npy", "dumps/k.bin", "dumps/pe.npy"]
    files = [*dumps, "rope.safetensors"]

    assert [check["file"] for check in manifest["check"]] == files
