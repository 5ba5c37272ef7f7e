"""The way in. Signals are dealt with before anything slow is imported, so that Ctrl-C is hardly ever a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


class Stopped(BaseException):
    """A signal asked the process to end; raised so that half-written files are cleaned up on the way out."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere; else the next file to be opened would take their place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what cannot be shown is no reason to stop


def main() -> NoReturn:
    """Run the command line and exit."""
    code = 1
    _open_streams()
    try:
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
                signal.signal(getattr(signal, name), _stop)
        gc.set_threshold(50_000)  # imports make many objects and no garbage: to look for some takes 8 ms
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else NumPy starts threads for products, none large here
        from pecli.cli.app import run

        code = run(sys.argv[1:])
    except (KeyboardInterrupt, Stopped) as stopped:
        code = _code(stopped)
    except RuntimeError as problem:
        if not isinstance(problem.__cause__, (KeyboardInterrupt, Stopped)):
            raise
        code = _code(problem.__cause__)  # Python before 3.12 wraps what is raised while a class is being made
    _leave(code)


def _code(stopped: KeyboardInterrupt | Stopped) -> int:
    return 128 + int(stopped.args[0]) if isinstance(stopped, Stopped) else 130


def _leave(code: int) -> NoReturn:
    """Exit without the interpreter trying once more to flush a pipe that nobody reads, or to report a late signal."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and callable(signal.getsignal(getattr(signal, name))):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if code == 141:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


if __name__ == "__main__":
    main()
