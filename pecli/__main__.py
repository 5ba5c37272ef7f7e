"""The way in. Signals are dealt with before anything slow is imported, so that Ctrl-C is never a traceback."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


class Stopped(BaseException):
    """A signal asked the process to end; raised so that half-written files are cleaned up on the way out."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def main() -> NoReturn:
    """Run the command line and exit."""
    code = 1
    try:
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
                signal.signal(getattr(signal, name), _stop)
        from pecli.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except Stopped as stopped:
        code = 128 + int(stopped.args[0])
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exit without the interpreter trying once more to flush a pipe that nobody reads."""
    if code == 141:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


if __name__ == "__main__":
    main()
