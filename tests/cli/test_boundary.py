"""Whatever goes wrong in a command ends as one line on standard error and an exit code that is not 1.

1 is the answer no: a check failed. Errors have 2 (usage), 3 (files), 70 (a defect of pecli) and 141
(nobody reads the pipe). Failures are caused on purpose: by exceptions, limits of memory, damaged
files.
"""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import save_tables
from tests.exit_codes import CHECK_FAILED, DEFECT, FILE_ERROR, SUCCESS

SMALL_TABLE = ["sinusoidal", "--seq-len", "8", "--dim", "4"]
PRINT_THE_VERSION = (
    "from pecli.__main__ import main; import sys; sys.argv = ['pecli', '--version']; main()"
)


def raise_overflow_error(*words: object, **values: object) -> None:
    raise OverflowError("cannot convert\nfloat infinity to integer")


def test_an_unexpected_exception_has_exit_code_70_and_one_line(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preview of tables is replaced by a function that raises OverflowError, with a text of two
    lines. 70 is the exit code of a defect of pecli.
    """
    monkeypatch.setattr("pecli.views.preview.show", raise_overflow_error)
    monkeypatch.setenv("PECLI_DEBUG", "")
    outcome = run_pecli(*SMALL_TABLE)
    (line,) = outcome.err.splitlines()

    assert outcome.exit_code == DEFECT
    assert outcome.out == ""
    problem = "unexpected OverflowError: cannot convert float infinity to integer; "
    assert line.startswith(f"pecli: error: {problem}")
    assert "defect of pecli" in line
    assert "PECLI_DEBUG=1" in line


def test_with_debug_the_traceback_stands_before_the_line(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PECLI_DEBUG=1 asks for tracebacks. The preview of tables is replaced by
    `raise_overflow_error`.
    """
    monkeypatch.setattr("pecli.views.preview.show", raise_overflow_error)
    monkeypatch.setenv("PECLI_DEBUG", "1")
    *traceback, line = run_pecli(*SMALL_TABLE).err.splitlines()

    assert traceback[0] == "Traceback (most recent call last):"
    assert any("in raise_overflow_error" in traceback_line for traceback_line in traceback)
    assert line.startswith("pecli: error: unexpected OverflowError: ")


def test_with_debug_a_wrong_command_line_has_no_traceback(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PECLI_DEBUG=1 adds a traceback to unexpected errors. `pecli rope` without the length it needs
    is a mistake of the user: one line.
    """
    monkeypatch.setenv("PECLI_DEBUG", "1")
    assert run_pecli("rope").err.count("\n") == 1


@pytest.mark.parametrize(
    ("code_of_library", "exit_code"),
    [
        pytest.param(0, SUCCESS, id="success"),
        pytest.param(None, SUCCESS, id="no code"),
        pytest.param(1, 141, id="a broken pipe"),
        pytest.param(3, 3, id="another code"),
    ],
)
def test_an_exit_by_a_library_with_code_1_means_a_broken_pipe(
    run_pecli, monkeypatch: pytest.MonkeyPatch, code_of_library: int | None, exit_code: int
) -> None:
    """Click exits with 1 if the reader of the pipe went away, which is 141 = 128 + SIGPIPE in a
    shell; other codes stay. The library is a function that raises SystemExit in place of the
    preview of tables.
    """
    leave = Mock(side_effect=SystemExit(code_of_library))
    monkeypatch.setattr("pecli.views.preview.show", leave)
    assert run_pecli(*SMALL_TABLE).exit_code == exit_code


@pytest.mark.parametrize(
    "path", [(), ("pecli/views/preview.py",)], ids=["without a path", "with the path of the module"]
)
def test_a_disk_error_while_a_module_is_imported_is_not_reported_as_standard_output(
    run_pecli, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    """An OSError while output is printed usually concerns standard output. Here EIO (5) is raised
    by the import of pecli.views.preview, which a command imports when it prints a table.
    """
    import pecli.views

    class FailingDisk:
        def find_spec(self, name: str, *rest: object) -> None:
            if name == "pecli.views.preview":
                raise OSError(errno.EIO, os.strerror(errno.EIO), *path)

    monkeypatch.delattr(pecli.views, "preview", raising=False)
    monkeypatch.delitem(sys.modules, "pecli.views.preview", raising=False)
    monkeypatch.setattr(sys, "meta_path", [FailingDisk(), *sys.meta_path])
    outcome = run_pecli(*SMALL_TABLE)

    assert outcome.exit_code == DEFECT
    assert outcome.out == ""
    assert "standard output" not in outcome.err
    assert outcome.err.startswith("pecli: error: unexpected OSError: [Errno 5]")


def start_pecli_after(preparation: str, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Run `pecli --version` in a process that first runs some Python."""
    program = f"{preparation}; {PRINT_THE_VERSION}"
    command = ["sh", "-c", f'"$0" -c "$1" {redirection}', sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("preparation", "redirection", "problem"),
    [
        pytest.param(
            "import os; os.devnull = '/nowhere/null'",
            ">&-",
            "FileNotFoundError",
            id="no null device for a closed standard output",
        ),
        pytest.param(
            "import sys; sys.modules['typer'] = None",
            "",
            "ModuleNotFoundError: import of typer halted",
            id="no typer",
        ),
    ],
)
def test_a_problem_that_keeps_pecli_from_starting_has_exit_code_70_and_one_line(
    preparation: str, redirection: str, problem: str
) -> None:
    """A closed standard output (`>&-`) is replaced by the null device, which is missing here; or a
    library is missing.
    """
    done = start_pecli_after(preparation, redirection)

    assert done.returncode == DEFECT
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"pecli: error: pecli cannot run: {problem}")


def test_without_a_null_device_pecli_starts_if_no_stream_is_closed() -> None:
    """The null device is only needed in place of a closed stream."""
    done = start_pecli_after("import os; os.devnull = '/nowhere/null'")

    assert done.returncode == SUCCESS
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_too_little_memory_for_numpy_has_exit_code_3_and_one_line(process) -> None:
    """100,000 KiB of address space are enough to start Python, but not to load NumPy."""
    import resource

    limit = 100_000 << 10
    result = process(
        *SMALL_TABLE, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )

    assert result.returncode == FILE_ERROR
    assert result.stdout == b""
    assert result.stderr.count(b"\n") == 1
    assert result.stderr.startswith(b"pecli: error: there is not enough memory to load NumPy")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (
            ImportError("x.so: failed to map segment from shared object"),
            "there is not enough memory to load NumPy or",
        ),
        (
            ModuleNotFoundError("x", name="matplotlib.pyplot"),
            "matplotlib, which draws pictures, is not installed; pip",
        ),
        (MemoryError(), "there is not enough memory; make the table smaller"),
        (RuntimeError("can't allocate lock"), "there is not enough memory; make the table smaller"),
        (RuntimeError("can't start new thread"), "the system starts no more threads; "),
        (OSError(errno.ENFILE, "x", "x.py"), "too many files are open; raise the limit"),
        (OSError(errno.ENOENT, "x", "x.npy"), "x.npy: does not exist"),
    ],
    ids=repr,
)
def test_an_exception_whose_cause_is_the_system_is_a_file_error(
    run_pecli, monkeypatch: pytest.MonkeyPatch, raised: Exception, message: str
) -> None:
    """Lack of memory, of threads, of an optional library or of a file is not a defect of pecli. The
    exceptions are raised in place of the program.
    """
    monkeypatch.setattr("pecli.cli.app._program", Mock(side_effect=raised))
    result = run_pecli("models")

    assert result.exit_code == FILE_ERROR
    assert result.out == ""
    assert result.err.startswith(f"pecli: error: {message}")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        pytest.param(
            ImportError("cannot allocate lock of a thread"),
            "unexpected ImportError: cannot allocate lock of a thread; ",
            id="no lock, which is lack of memory only as a RuntimeError",
        ),
        pytest.param(
            RuntimeError("failed to map segment"),
            "unexpected RuntimeError: failed to map segment; ",
            id="no segment of a library, which is lack of memory only as an ImportError",
        ),
        pytest.param(
            ModuleNotFoundError("No module named 'numpy'", name="numpy"),
            "unexpected ModuleNotFoundError: No module",
            id="no NumPy, which pecli requires, unlike Matplotlib",
        ),
    ],
)
def test_an_exception_that_only_resembles_a_failure_of_the_system_is_a_defect(
    run_pecli, monkeypatch: pytest.MonkeyPatch, raised: Exception, message: str
) -> None:
    """Lack of memory or of an optional library has exit code 3 and advice of its own. It is
    recognised by type and text of the exception together; one that fits only in part has exit code
    70, that of a defect of pecli. `_program`, which runs the command, is replaced by a function
    that raises it.
    """
    monkeypatch.setattr("pecli.cli.app._program", Mock(side_effect=raised))
    result = run_pecli("models")

    assert result.exit_code == DEFECT
    assert result.out == ""
    assert result.err.startswith(f"pecli: error: {message}")


HOSTILE_SPECS = {
    "a number out of range": '{"parameters":{"base":1e999},"scheme":"rope"}',
    "nested more than 32 levels": '{"parameters":{"base":'
    + "[" * 500
    + "]" * 500
    + '},"scheme":"rope"}',
}
"""Metadata of a file that claim to be a spec, by the problem that an error must name."""


@pytest.mark.parametrize("problem", HOSTILE_SPECS)
@pytest.mark.parametrize(
    "words",
    [("convert", "t.safetensors", "-o", "u.npz"), ("verify", "t.safetensors")],
    ids=["convert", "verify"],
)
def test_a_stored_spec_with_impossible_values_is_a_file_error(
    run_pecli, words: tuple[str, ...], problem: str
) -> None:
    """The metadata of the file claim to be a spec of a rope whose base is 1e999, beyond float64, or
    a list of 500 levels. The key of HOSTILE_SPECS is the part of the message that names the
    problem.
    """
    table = table_of("cos", np.ones((4, 4), np.float32))
    save_tables("t.safetensors", [table], None, metadata={"pecli": HOSTILE_SPECS[problem]})
    outcome = run_pecli(*words)

    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert problem in outcome.err


@pytest.mark.parametrize("problem", HOSTILE_SPECS)
@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "JSON"])
def test_a_stored_spec_with_impossible_values_is_still_shown(
    run_pecli, words: tuple[str, ...], problem: str
) -> None:
    """The base in the stored spec is 1e999, or a list of 500 levels. `pecli inspect` prints
    metadata and makes no table of them, so that they need not be possible.
    """
    table = table_of("cos", np.ones((4, 4), np.float32))
    save_tables("t.safetensors", [table], None, metadata={"pecli": HOSTILE_SPECS[problem]})
    assert run_pecli("inspect", "t.safetensors", *words).exit_code == SUCCESS


NAMES_LIKE_CI_COMMANDS = [
    "::error title=x::y",
    "  ::stop-commands::z",
    "##[error]z",
    "a ##vso[task.setvariable]b",
    "#" * 7 + "[group]",
]


@pytest.fixture
def files_named_like_ci_commands(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a.safetensors with ones and b.safetensors with twos, in tensors of hostile names."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for file, value in (("a", 1.0), ("b", 2.0)):
        tensors = {name: np.full((3, 4), value) for name in NAMES_LIKE_CI_COMMANDS}
        pecli.save(f"{file}.safetensors", tensors)


@pytest.mark.usefixtures("files_named_like_ci_commands")
@pytest.mark.parametrize(
    "line",
    [
        "inspect a.safetensors",
        "inspect a.safetensors --json",
        "inspect a.safetensors --stats --rows 0:2",
        "inspect a.safetensors --stats --rows 0:2 --json",
        "diff a.safetensors b.safetensors",
        "identify a.safetensors",
        "inspect a.safetensors:##[error]",
    ],
)
def test_names_of_tensors_are_no_commands_to_a_ci_system(run_pecli, line: str) -> None:
    """GitHub and Azure run lines that begin with :: or contain ##[ as commands; a tensor must not
    be able to print one.
    """
    outcome = run_pecli(*line.split())
    assert not re.search(r"^\s*::|##(vso)?\[", outcome.out + outcome.err, re.M)


@pytest.mark.usefixtures("files_named_like_ci_commands")
def test_names_of_tensors_like_ci_commands_are_whole_in_json(run_pecli) -> None:
    """In text, names such as «##[error]» are escaped, as CI systems run them. `pecli inspect
    --json` has them as they are in the file.
    """
    tensors = run_pecli("inspect", "a.safetensors", "--json").json["tensors"]
    assert {tensor["name"] for tensor in tensors} == set(NAMES_LIKE_CI_COMMANDS)


@pytest.mark.parametrize("kind", ["decay", "curves", "slopes", "heatmap"])
def test_infinite_slopes_are_drawn_without_a_warning(run_pecli, kind: str) -> None:
    """A stored table of ALiBi with four heads: in place of the right slopes, that of head 1 is
    infinite and that of head 2 NaN, and the bias of both is −∞.
    """
    scheme = pecli.Alibi(4, 16)
    tables = {name: array.copy() for name, array in scheme.tables().items()}
    tables["slopes"][1] = np.inf
    tables["slopes"][2] = np.nan
    tables["bias"][1:3] = -np.inf
    damaged = [table_of(name, array) for name, array in tables.items()]
    save_tables("t.safetensors", damaged, scheme.spec())
    outcome = run_pecli("plot", "t.safetensors", "--kind", kind)

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""


"""Command lines that read a damaged member of damaged.npz, and the member."""


@pytest.fixture
def damaged(working_folder: Path) -> None:
    """Write damaged.npz: of its members a, ids and b, one bit of a and one of ids is changed."""
    whole = np.arange(16, dtype=np.float32).reshape(4, 4)
    ids = np.arange(4)
    np.save("whole.npy", whole)
    np.savez("damaged.npz", a=whole, ids=ids, b=whole[:3])
    data = bytearray(Path("damaged.npz").read_bytes())
    for array in (whole, ids):
        data[data.index(array.tobytes()) + array.itemsize] ^= 1
    Path("damaged.npz").write_bytes(data)


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(
    ("line", "member"),
    [
        ("identify damaged.npz", "a"),
        ("identify damaged.npz:a", "a"),
        ("plot damaged.npz", "a"),
        ("plot damaged.npz -o out.png", "a"),
        ("inspect damaged.npz --stats", "a"),
        ("diff damaged.npz damaged.npz", "a"),
        ("convert damaged.npz -o out.npy", "a"),
        ("resize damaged.npz:a --to 8 -o out.npy", "a"),
        ("apply rope damaged.npz:a -o out.npy", "a"),
        ("apply sinusoidal damaged.npz --tensor a -o out.npy", "a"),
        ("apply learned whole.npy --table damaged.npz:a -o out.npy", "a"),
        ("apply rope whole.npy --positions damaged.npz:ids -o out.npy", "ids"),
    ],
)
def test_no_command_uses_a_member_whose_checksum_does_not_match(
    run_pecli, line: str, member: str
) -> None:
    """One bit of the members a and ids of damaged.npz was changed. The command reads `member`
    first, must name it, and must write nothing.
    """
    outcome = run_pecli(*line.split())

    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    problem = f"member '{member}.npy' is damaged: its checksum does not match"
    assert outcome.err == f"pecli: error: damaged.npz: {problem}\n"
    assert not list(Path().glob("out.*"))


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(
    ("call", "argument"), [(pecli.load, "damaged.npz"), (pecli.identify, "damaged.npz:a")]
)
def test_no_function_uses_a_member_whose_checksum_does_not_match(
    call: Callable[[str], object], argument: str
) -> None:
    """One bit of the member a of damaged.npz was changed, against which zip stores a checksum."""
    with pytest.raises(FileError, match="its checksum does not match"):
        call(argument)


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("identify damaged.npz:b", (SUCCESS, CHECK_FAILED)),
        ("apply rope damaged.npz:b -o out.npy", (SUCCESS,)),
        ("plot damaged.npz:b", (SUCCESS,)),
    ],
)
def test_a_command_reads_a_whole_member_beside_damaged_ones(
    run_pecli, line: str, codes: tuple[int, ...]
) -> None:
    """damaged.npz has a damaged member a, and a whole one, b. No command fails for a's damage; it
    does not matter here whether the 12 numbers of b are identified.
    """
    assert run_pecli(*line.split()).exit_code in codes


@pytest.mark.usefixtures("damaged")
def test_a_whole_member_of_a_damaged_file_is_loaded() -> None:
    """damaged.npz has a member whose bytes are damaged, and an intact one, b, with the numbers 0 to
    11.
    """
    expected = np.arange(12).reshape(3, 4).tolist()
    assert pecli.load("damaged.npz:b")["b"].tolist() == expected


def test_a_tolerance_beyond_the_axis_is_left_out_of_the_picture(run_pecli) -> None:
    """A logarithmic axis is drawn up to 1e150. The line of a tolerance of 1e307 would be beyond it;
    that of 0.001 is drawn and named.
    """
    words = ("audit", "rope", "--seq-len", "8", "--dim", "8")
    beyond = run_pecli(*words, "--tolerance", "1e307", "-o", "beyond.svg")
    within = run_pecli(*words, "--tolerance", "1e-3", "-o", "within.svg")

    assert beyond.exit_code == SUCCESS
    assert beyond.err == ""
    assert within.exit_code == SUCCESS
    assert "tolerance 0.001" in Path("within.svg").read_text(encoding="utf-8")
    assert ">tolerance" not in Path("beyond.svg").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="pipes that do not wait are POSIX's")
def test_an_empty_non_blocking_pipe_is_a_file_error() -> None:
    """Reading from such a pipe fails with EAGAIN, «Resource temporarily unavailable»."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    command = [sys.executable, "-m", "pecli", "inspect", "-"]
    done = subprocess.run(command, stdin=reader, capture_output=True, text=True)
    os.close(writer)
    os.close(reader)

    assert done.returncode == FILE_ERROR
    assert "temporarily unavailable" in done.stderr
