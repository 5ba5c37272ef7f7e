"""Entry point. Signals are handled before anything slow is imported, so that Ctrl-C is hardly ever a traceback."""

from __future__ import annotations

import _thread
import atexit
import gc
import io
import os
import signal
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from _typeshed import ReadableBuffer

EXIT_DEFECT = 70
EXIT_SIGNAL = 128
"""Added to the number of the signal that ended the process."""

RESEND_SECONDS = 0.01
"""Time after which a swallowed signal is sent again: Python has left the callback by then."""

GC_THRESHOLD = 50_000
"""Imports make many objects and no garbage; to search for some at the default threshold takes 8 ms."""


class Stopped(BaseException):
    """A signal asked the process to end. It is an exception so that half-written files are removed."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _resend_signal(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again whose exception Python swallowed, so that Ctrl-C still ends the program.

    A signal raises an exception wherever Python is. If that is a destructor or the callback of a
    weak reference, Python prints the exception and goes on; it calls this hook instead. The signal
    comes again a moment later, when other code runs.
    """
    problem = unraisable.exc_value
    if isinstance(problem, Stopped):
        _send_later(problem.args[0])
    elif isinstance(problem, KeyboardInterrupt):
        _send_later(signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)


def _send_later(signal_number: int) -> None:
    """Send a signal to this thread, the main one, from another thread a moment later.

    Ctrl+C may arrive while Python runs a hook, such as a destructor, whose exceptions it drops. So
    the signal is sent again when the hook has returned. If it were sent to the process, the sending
    thread might receive it, and would not end what the main thread waits for.
    """
    main_thread = _thread.get_ident()

    def send() -> None:
        time.sleep(RESEND_SECONDS)
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_thread, signal_number)
        else:
            os.kill(os.getpid(), signal_number)

    _thread.start_new_thread(send, ())


class _StandardOutput(io.FileIO):
    """Standard output whose errors have its name, to tell them from errors of other files."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as problem:
            problem.filename = "standard output"
            raise


def _open_streams() -> None:
    """Prepare stdin, stdout and stderr, so that reading and writing text does not fail.

    A stream that the parent process closed becomes empty. Characters that the encoding of a terminal
    lacks are written as «?».
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        is_closed = getattr(sys, name) is None
        if is_closed:
            _open_null_device(name, mode)
    # If the disk is full, the error then names «standard output». Another name is a stream that a
    # caller has put in its place: it stays.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.name == "<stdout>":
        sys.stdout = _reopen_with_named_errors(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _open_null_device(name: str, mode: str) -> None:
    """Open a standard stream that the parent process closed, so that it reads or writes nothing.

    It first takes the stream's descriptor, the lowest that is free: otherwise the next file would
    get it, and text for the stream would end up in that file.
    """
    os.open(os.devnull, os.O_RDONLY)
    setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open until the process ends


def _reopen_with_named_errors(stdout: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return standard output as text, over a file whose errors have its name."""
    binary = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
    return io.TextIOWrapper(
        binary, stdout.encoding, "replace", line_buffering=stdout.line_buffering
    )


def _signals(*names: str) -> list[signal.Signals]:
    """Return the signals of these names that the system has; Windows has no SIGHUP."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def main() -> NoReturn:
    """Run the command line and exit."""
    code = EXIT_DEFECT
    try:
        _prepare_process()
        from pecli.cli.app import run

        code = run(sys.argv[1:])
    except BaseException as problem:
        code = _exit_code(problem)
    _leave(code)


def _prepare_process() -> None:
    """Set up signals, streams, memory, warnings and threads, before NumPy is imported."""
    sys.unraisablehook = _resend_signal
    _open_streams()
    for number in _signals("SIGTERM", "SIGHUP"):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP, and so do we
            signal.signal(number, _stop)
    gc.set_threshold(GC_THRESHOLD)
    if not sys.warnoptions and not os.environ.get("PECLI_DEBUG"):
        # An overflow in NumPy is no news to a user: results with infinities are reported as such.
        warnings.simplefilter("ignore")
    # Otherwise NumPy starts threads for matrix products, none of which is large here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _exit_code(problem: BaseException) -> int:
    """Return the exit code of a signal; report everything else as a defect."""
    # A signal may arrive while a class is made or a module imported; then its exception is the cause
    # or the context of another one, such as a RuntimeError.
    reason: BaseException | None = problem
    while reason is not None:
        if isinstance(reason, Stopped):
            return EXIT_SIGNAL + int(reason.args[0])
        if isinstance(reason, KeyboardInterrupt):
            return EXIT_SIGNAL + signal.SIGINT
        reason = reason.__cause__ or reason.__context__
    _report_defect(problem)
    return EXIT_DEFECT


def _report_defect(problem: BaseException) -> None:
    """Print an error without importing anything: pecli itself may be what cannot be imported."""
    if os.environ.get("PECLI_DEBUG"):
        sys.excepthook(type(problem), problem, problem.__traceback__)
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    advice = "this is a defect of its installation or of the system; set PECLI_DEBUG=1 to see the traceback"
    line = f"pecli: error: pecli cannot run: {text}; {advice}\n"
    try:  # noqa: SIM105 - contextlib would have to be imported
        os.write(2, line.encode(errors="backslashreplace"))
    except OSError:
        pass  # stderr is closed


def _leave(code: int) -> NoReturn:
    """Exit at once, after the functions of `atexit` and the end of the output.

    An orderly end would dismantle the interpreter, try again to write output that cannot be written,
    and print a traceback for a signal that arrives meanwhile.
    """
    for number in _signals("SIGINT", "SIGTERM", "SIGHUP"):
        raises_an_exception = callable(signal.getsignal(number))  # A signal may also be ignored.
        if raises_an_exception:
            signal.signal(number, signal.SIG_DFL)
    atexit._run_exitfuncs()  # `os._exit` does not call them.
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - contextlib would have to be imported
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # it is closed, its reader went away, or it was never opened
    os._exit(code)


if __name__ == "__main__":
    main()
