"""Everything pecli raises on purpose.

    PecliError
    ├── ParameterError   a parameter breaks its rule (also a ValueError)
    │   ├── KindError    it is not even of the right kind (also a TypeError)
    │   └── UnsupportedError  a runtime does not have what is asked for
    │       └── NoScalingError  it does not implement a scaling
    ├── FileError        a file cannot be read or written, or is not what it claims to be
    │   └── NoTablesError  it holds tensors, but no positional tables
    ├── CheckFailedError  the answer of a check is no, where `raise_if_failed` was called (also an AssertionError)
    ├── ResourceError    the system has no more memory or threads
    └── DefectError      anything unforeseen: a defect of pecli or of its installation

A message has up to three parts, joined by semicolons: what was given, the rule it breaks, what to do about it. The
functions at the end spell what messages quote: values, advice for mistyped ones, short lists.
"""

import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_NAMED = re.compile("`([a-z_]+)`")


class PecliError(Exception):
    """The root of pecli's errors."""


class ParameterError(PecliError, ValueError):
    """A parameter breaks its rule. `name` is its name in Python, and so is any that the rule or the advice has in
    backticks; a command line that shows the error spells them as options."""

    def __init__(self, name: str, given: object, rule: str, advice: str = "") -> None:
        super().__init__(name, given, rule, advice)
        self.name, self.given, self.rule, self.advice = name, given, rule, advice

    def spelled(self, spell: Callable[[str], str]) -> str:
        """The message, with every parameter that it names called otherwise."""
        rules = [
            _NAMED.sub(lambda found: spell(found[1]), part) for part in (self.rule, self.advice)
        ]
        return "; ".join(filter(None, [f"{spell(self.name)} is {self.given}", *rules]))

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"{self.name} is {self.given}", self.rule, self.advice]))


class KindError(ParameterError, TypeError):
    """A value is of a kind that the parameter can never take, such as integers where floats are added."""


def path_of(name: str, given: object) -> str:
    """The path that a Python function was given."""
    if not isinstance(given, (str, os.PathLike)):
        raise KindError(name, repr(given), "it must be a path")
    return os.fsdecode(given)


class UnsupportedError(ParameterError):
    """A runtime does not have what is asked for: an answer about that runtime, not a mistake in the question."""


class NoScalingError(UnsupportedError):
    """A runtime does not implement a scaling."""


class FileError(PecliError):
    """A file cannot be read or written, or is not what it claims to be."""

    def __init__(self, path: object, problem: str, advice: str = "") -> None:
        super().__init__(path, problem, advice)
        self.path, self.problem, self.advice = path, problem, advice

    def __str__(self) -> str:
        shown = "''" if self.path == "" else self.path
        return "; ".join(filter(None, [f"{shown}: {self.problem}", self.advice]))


class NoTablesError(FileError):
    """A file holds tensors, none of which is a positional table; of several files, that is an answer."""


class CheckFailedError(PecliError, AssertionError):
    """The answer of a check is no, which `raise_if_failed` was to raise."""


class ResourceError(PecliError):
    """The system has no more memory or threads for what was asked."""


class DefectError(PecliError):
    """Something unforeseen, which `__cause__` holds: a defect of pecli or of its installation, not of the input."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.__cause__ = cause

    def __str__(self) -> str:
        what = f"{type(self.__cause__).__name__}: {self.__cause__}".removesuffix(": ")
        rule = "this is a defect of pecli or of its installation, not of the input"
        return f"unexpected {what}; {rule}; set PECLI_DEBUG=1 to see the traceback, and report it"


OS_ERRORS = {
    errno.ENOENT: ("does not exist", ""),
    errno.ENOTDIR: ("part of the path is a file, not a folder", ""),
    errno.EISDIR: ("is a folder", "name a file in it"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOSPC: ("the disk is full", "free some space or choose another folder"),
    errno.EFBIG: (
        "the file would be larger than the limit for files",
        "raise it (ulimit -f) or make a smaller table",
    ),
    errno.ELOOP: ("is a symbolic link that leads back to itself", ""),
    errno.EBADF: ("is not open", ""),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n)"),
}  #: What the operating system reports, in plain words, and what to do about it


def failure(path: str, error: OSError | ValueError) -> FileError:
    """The operating system's error as a FileError; a ValueError is a path no system call would take."""
    if isinstance(error, ValueError):
        return FileError(repr(path), "is not a possible file name")
    known = OS_ERRORS.get(error.errno or 0)
    problem, advice = known or (os.strerror(error.errno).lower() if error.errno else str(error), "")
    if error.errno == errno.ENOENT and {*"*?["} & {*path}:
        problem = "matches no file"  # a pattern that the shell has left as it is
    return FileError(path, problem, advice)


def translated(problem: Exception) -> PecliError:
    """Any exception as an error of pecli; what is not known here is a defect."""
    if isinstance(problem, PecliError):
        return problem
    cause = problem.__cause__
    if cause is not None and not isinstance(cause, Exception):
        raise cause  # Python before 3.12 wraps an interrupt that is raised while a class is being made
    text = str(problem)
    if isinstance(problem, OSError) and problem.errno in (errno.EMFILE, errno.ENFILE):
        return ResourceError("too many files are open; raise the limit (ulimit -n)")
    if isinstance(problem, OSError) and problem.filename is not None:
        path = os.fsdecode(problem.filename)
        return DefectError(problem) if path.endswith((".py", ".pyc")) else failure(path, problem)
    if isinstance(problem, MemoryError) or (
        isinstance(problem, RuntimeError) and "allocate lock" in text
    ):
        return ResourceError(
            "there is not enough memory; make the table smaller, or write it to a file with -o"
        )
    if isinstance(problem, ImportError) and "failed to map segment" in text:
        return ResourceError("there is not enough memory to load NumPy or matplotlib")
    if (
        isinstance(problem, ModuleNotFoundError)
        and (problem.name or "").partition(".")[0] == "matplotlib"
    ):
        return ResourceError(
            "matplotlib, which draws pictures, is not installed; pip install matplotlib"
        )
    if isinstance(problem, RuntimeError) and "thread" in text:
        return ResourceError("the system starts no more threads; set PECLI_THREADS=1")
    return DefectError(problem)


MAX_QUOTED = 60  #: Maximum length of a value quoted in an error


def quoted(value: object) -> str:
    """A value of any kind in one line of an error, cut where it is long: names from hostile files can be megabytes.

    >>> quoted("wpe.weight"), quoted((1, 2))
    ("'wpe.weight'", '(1, 2)')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_QUOTED else f"{value[:MAX_QUOTED]}…")
    try:
        text = repr(value)
    except ValueError:  # Python spells no integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


def shown(number: float) -> str:
    """A number in few digits, unless that would make another of it."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def number(value: float, digits: int = 4) -> str:
    """A number in a few digits, those before the point all the same, up to a million.

    >>> number(0.6000000000000001), number(-1.0), number(1048576), number(1.5e-7), number(65536), number(0.00123, 2)
    ('0.6', '-1', '1.049e6', '1.5e-7', '65536', '0.0012')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def spelled(value: Any) -> str:
    """A value as text that parses to the very same.

    >>> spelled(500000.0), spelled(0.1), spelled((1.0, 2.5)), spelled(True)
    ('500000', '0.1', '1,2.5', 'true')
    """
    if hasattr(value, "spelled"):
        return str(value.spelled())
    if isinstance(value, (tuple, list)):
        return ",".join(map(spelled, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def brief(value: Any, most: int = 64) -> str:
    """The same; of a long list its ends, where something else has it all.

    >>> brief([1.0, 2.0, 3.0, 4.0, 5.5], 4)
    '1,2,3,…,5.5 (5 numbers)'
    """
    parts = re.split("[,;]", text := spelled(value))
    return (
        f"{','.join(parts[:3])},…,{parts[-1]} ({len(parts)} numbers)" if len(parts) > most else text
    )


def nearest(word: str, options: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """«did you mean 'halves'?», or nothing where no option is close; what the word begins is closest.

    >>> nearest("llama-3.1", ["llama-3.2-1b", "llama-3.1-70b"])
    "did you mean 'llama-3.1-70b'?"
    """
    from difflib import get_close_matches

    known = list(options)
    longer = [option for option in known if len(word) > 2 and option.startswith(word)]
    matches = longer or get_close_matches(word, known, 1, 0.6)
    return f"did you mean {show(matches[0])}?" if matches else ""


def bracketed(shape: Sequence[int]) -> str:
    """A shape, also one of a single axis, as people write it.

    >>> bracketed((512, 64)), bracketed((64,))
    ('(512, 64)', '(64)')
    """
    return f"({', '.join(map(str, shape))})"


def listed(words: Sequence[str], most: int, show: Callable[[str], str] = str) -> str:
    """The first words, and how many more there are.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    return ", ".join(map(show, words[:most])) + (
        f" and {len(words) - most} more" if len(words) > most else ""
    )


def counted(count: int, noun: str) -> str:
    """A number of things for people.

    >>> counted(1, "tensor"), counted(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
