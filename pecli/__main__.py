"""The way in. Signals are dealt with before anything slow is imported, so that Ctrl-C is hardly ever a traceback."""

from __future__ import annotations

import _thread
import atexit
import gc
import io
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn


class Stopped(BaseException):
    """A signal asked the process to end; raised so that half-written files are cleaned up on the way out."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _come_again(dropped: Any) -> None:
    """A signal that came where Python drops exceptions, as in the callback of a weak reference, comes once more."""
    problem = dropped.exc_value
    if not isinstance(problem, (KeyboardInterrupt, Stopped)):
        sys.__unraisablehook__(dropped)
        return
    number = problem.args[0] if isinstance(problem, Stopped) else signal.SIGINT

    def send() -> None:
        time.sleep(0.01)
        os.kill(os.getpid(), number)

    _thread.start_new_thread(send, ())


class _StandardOutput(io.FileIO):
    """Standard output, whose errors name it; other errors without a file are not its own."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as problem:
            problem.filename = "standard output"
            raise


def _open_streams() -> None:
    """Text for a stream that the caller closed leads nowhere; a table for it is an error. Its descriptor is taken by
    what cannot be written to, else the next file to be opened would be in its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDONLY)  # which gives the lowest number that is free
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w"))  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.name == "<stdout>":
        old = sys.stdout
        raw = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
        sys.stdout = io.TextIOWrapper(
            raw, old.encoding, "replace", line_buffering=old.line_buffering
        )
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what cannot be shown is no reason to stop


def main() -> NoReturn:
    """Run the command line and exit."""
    code = 70  # a defect, until something else is known
    try:
        sys.unraisablehook = _come_again
        _open_streams()
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
                signal.signal(getattr(signal, name), _stop)
        gc.set_threshold(
            50_000
        )  # imports make many objects and no garbage: to look for some takes 8 ms
        os.environ.setdefault(
            "OPENBLAS_NUM_THREADS", "1"
        )  # else NumPy starts threads for products, none large here
        from pecli.cli.app import run

        code = run(sys.argv[1:])
    except BaseException as problem:
        stopped = (
            problem if isinstance(problem, (KeyboardInterrupt, Stopped)) else problem.__cause__
        )
        if isinstance(
            stopped, Stopped
        ):  # as a cause in Python before 3.12, where a class was being made
            code = 128 + int(stopped.args[0])
        elif isinstance(stopped, KeyboardInterrupt):
            code = 130
        else:
            _say_no_start(problem)
    _leave(code)


def _say_no_start(problem: BaseException) -> None:
    """The last resort, which imports nothing: pecli, or what it reports errors with, cannot be loaded."""
    if os.environ.get("PECLI_DEBUG"):
        sys.excepthook(type(problem), problem, problem.__traceback__)
    what = " ".join(f"{type(problem).__name__}: {problem}".split())
    advice = "this is a defect of its installation or of the system; set PECLI_DEBUG=1 to see the traceback"
    try:  # noqa: SIM105 - which needs an import
        os.write(
            2,
            f"pecli: error: pecli cannot run: {what}; {advice}\n".encode(errors="backslashreplace"),
        )
    except OSError:
        pass  # there is nobody to tell


def _leave(code: int) -> NoReturn:
    """Exit at once: the interpreter would take itself apart, write once more what cannot be, report late signals."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and callable(signal.getsignal(getattr(signal, name))):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - which needs an import
            stream.flush()
        except (
            OSError,
            ValueError,
            AttributeError,
        ):  # the last where there was no stream to begin with
            pass
    os._exit(code)


if __name__ == "__main__":
    main()
