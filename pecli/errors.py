"""Exceptions that pecli raises on purpose, and helpers that format values for their messages.

    PecliError
    ├── ParameterError   a parameter breaks its rule (also a ValueError)
    │   ├── KindError    it has the wrong type (also a TypeError)
    │   └── UnsupportedError  a runtime lacks the requested feature
    │       └── NoScalingError  it does not implement a scaling
    ├── FileError        a file cannot be read or written, or is not what it claims to be
    │   └── NoTablesError  it holds tensors, but no positional tables
    ├── CheckFailedError  a check failed and `raise_if_failed` was called (also an AssertionError)
    ├── ResourceError    the system has no more memory or threads
    └── DefectError      anything else: a defect of pecli or of its installation

A message has up to three parts, joined by semicolons: the value, the rule that it breaks, and
advice: `dim is 7; it must be an even whole number; take 8`.
"""

import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

_NAME_IN_BACKTICKS = re.compile("`([a-z_]+)`")


MAX_MESSAGE = 1000
"""Characters of a message: a name from a hostile file can be megabytes long."""


def one_line(text: str) -> str:
    """Return a message in one line, cut in the middle if it is long: its end is the advice."""
    text = " ".join(text.splitlines())
    if len(text) <= MAX_MESSAGE:
        return text
    half = MAX_MESSAGE // 2
    return f"{text[:half]} … {text[-half:]}"


def _joined(*parts: str) -> str:
    """Join the parts of a message that are not empty."""
    return one_line("; ".join(part for part in parts if part))


class PecliError(Exception):
    """The base class of pecli's errors."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows: the user's call and the message.

        The frames below it, within this package, would fill a screen.
        """
        import traceback

        package = os.path.dirname(os.path.abspath(__file__))
        message = f"{type(self).__name__}: {self}"
        for frame in reversed(traceback.extract_tb(self.__traceback__)):
            is_of_user = not frame.filename.startswith(package)
            has_source = bool(frame.line)  # Methods that a dataclass generates have none.
            if is_of_user and has_source:
                return [f"line {frame.lineno}: {frame.line}", message]
        return [message]


class ParameterError(PecliError, ValueError):
    """A parameter breaks its rule.

    Names in backticks within the rule and the advice are parameters too. A command line that
    shows the error replaces them by its options (`seq_len` becomes --seq-len).

    Attributes:
        name: the parameter's name in Python.
        given: its value, as the message shows it.
        rule: the rule that the value breaks.
        advice: what to do instead; may be empty.
    """

    def __init__(self, name: str, given: object, rule: str, advice: str = "") -> None:
        super().__init__(name, given, rule, advice)
        self.name = name
        self.given = given
        self.rule = rule
        self.advice = advice

    def spelled(self, spell: Callable[[str], str]) -> str:
        """Return the message with `spell` applied to every parameter that it names."""

        def spell_names(text: str) -> str:
            return _NAME_IN_BACKTICKS.sub(lambda match: spell(match[1]), text)

        value = f"{spell(self.name)} is {self.given}"
        return _joined(value, spell_names(self.rule), spell_names(self.advice))

    def __str__(self) -> str:
        return _joined(f"{self.name} is {self.given}", self.rule, self.advice)


class KindError(ParameterError, TypeError):
    """A value has a type that the parameter never accepts, such as integers instead of floats."""


def path_of(name: str, given: object) -> str:
    """Return a path argument as a string.

    Raises:
        KindError: it is neither a string nor an `os.PathLike`.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise KindError(name, quoted(given), "it must be a path")
    return os.fsdecode(given)


class UnsupportedError(ParameterError):
    """A runtime lacks the requested feature.

    The request itself is valid: a list of runtimes reports this as its answer for one of them.
    """


class NoScalingError(UnsupportedError):
    """A runtime does not implement a scaling."""


class FileError(PecliError):
    """A file cannot be read or written, or is not what it claims to be."""

    def __init__(self, path: object, problem: str, advice: str = "") -> None:
        super().__init__(path, problem, advice)
        self.path = path
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        path = "''" if self.path == "" else self.path
        return _joined(f"{path}: {self.problem}", self.advice)


class NoTablesError(FileError):
    """A file holds tensors, none of which is a positional table.

    When several files are checked, such a file is skipped and reported, not fatal.
    """


class CheckFailedError(PecliError, AssertionError):
    """A check failed, raised by `raise_if_failed`."""


class ResourceError(PecliError):
    """The system has not enough memory or threads."""


class DefectError(PecliError):
    """An unexpected exception, kept as `__cause__`: pecli or its installation is defective."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.__cause__ = cause

    def __str__(self) -> str:
        what = f"{type(self.__cause__).__name__}: {self.__cause__}".removesuffix(": ")
        rule = "this is a defect of pecli or of its installation, not of the input"
        return f"unexpected {what}; {rule}; set PECLI_DEBUG=1 to see the traceback, and report it"


class _Wording(NamedTuple):
    """Plain words for an error number of the operating system."""

    problem: str
    advice: str = ""


OS_ERRORS = {
    errno.ENOENT: _Wording("does not exist"),
    errno.ENOTDIR: _Wording("part of the path is a file, not a folder"),
    errno.EISDIR: _Wording("is a folder", "name a file in it"),
    errno.EROFS: _Wording("the file system is read-only", "choose another folder"),
    errno.ENOSPC: _Wording("the disk is full", "free some space or choose another folder"),
    errno.EFBIG: _Wording(
        "the file would be larger than the limit for files",
        "raise it (ulimit -f) or make a smaller table",
    ),
    errno.ELOOP: _Wording("is a symbolic link that leads back to itself"),
    errno.EBADF: _Wording("is not open"),
    errno.EMFILE: _Wording("too many files are open", "raise the limit (ulimit -n)"),
}


def failure(path: str, error: OSError | ValueError) -> FileError:
    """Return the FileError for an error of the operating system.

    Python raises a ValueError for a path that no system call accepts, such as one with a NUL.
    """
    if isinstance(error, ValueError):
        return FileError(quoted(path), "is not a possible file name")
    if error.errno == errno.ENOENT and {"*", "?", "["} & {*path}:
        # The shell passes on a pattern that matches nothing.
        return FileError(path, "matches no file")
    if error.errno in OS_ERRORS:
        wording = OS_ERRORS[error.errno]
        return FileError(path, wording.problem, wording.advice)
    if error.errno:
        return FileError(path, os.strerror(error.errno).lower())
    return FileError(path, str(error))


def translated(problem: Exception) -> PecliError:
    """Return any exception as an error of pecli. Unrecognised exceptions become DefectError."""
    if isinstance(problem, PecliError):
        return problem
    # A signal may arrive while a class is made or a module imported; then its exception, which is no
    # Exception, is the cause or the context of another one.
    reason = problem.__cause__ or problem.__context__
    while reason is not None:
        if not isinstance(reason, Exception):
            raise reason
        reason = reason.__cause__ or reason.__context__
    return _translation_of(problem) or DefectError(problem)


def _translation_of(problem: Exception) -> PecliError | None:
    """Return the error of pecli for an exception that is no defect; None for any other."""
    match problem:
        case OSError():
            return _from_os_error(problem)
        case MemoryError():
            return out_of_memory()
        case RuntimeError():
            return _from_runtime_error(problem)
        case ImportError():
            return _from_import_error(problem)
    return None


def out_of_memory() -> ResourceError:
    """Return the error for a MemoryError."""
    return ResourceError(
        "there is not enough memory; make the table smaller, or write it to a file with -o"
    )


def _from_os_error(problem: OSError) -> PecliError | None:
    """Return the error for a file, or for too many open ones; None if it is about neither."""
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return ResourceError("too many files are open; raise the limit (ulimit -n)")
    if problem.filename is None:
        return None
    path = os.fsdecode(problem.filename)
    if path.endswith((".py", ".pyc")):  # A module of the installation, not a file of the user.
        return None
    return failure(path, problem)


def _from_runtime_error(problem: RuntimeError) -> PecliError | None:
    """Recognise RuntimeErrors of CPython, which have no class or code for these cases."""
    text = str(problem)
    if "allocate lock" in text:
        return out_of_memory()
    if "thread" in text:
        return ResourceError("the system starts no more threads; set PECLI_THREADS=1")
    return None


def _from_import_error(problem: ImportError) -> PecliError | None:
    """Return the error for a missing package or memory; None for a defective installation."""
    if "failed to map segment" in str(problem):  # the dynamic loader's words
        return ResourceError("there is not enough memory to load NumPy or matplotlib")
    package = (problem.name or "").partition(".")[0]
    if isinstance(problem, ModuleNotFoundError) and package == "matplotlib":
        return ResourceError(
            "matplotlib, which draws pictures, is not installed; pip install matplotlib"
        )
    return None


MAX_QUOTED = 60  #: Maximum length of a value quoted in an error


def quoted(value: object) -> str:
    """Return a value of any type for one line of an error.

    Long values are cut: names from hostile files can be megabytes.

    >>> quoted("wpe.weight"), quoted((1, 2))
    ("'wpe.weight'", '(1, 2)')
    """
    if isinstance(value, str):
        return _quoted_text(value)
    try:
        text = " ".join(repr(value).split())  # Arrays have a line per row.
    except ValueError:  # Python formats no integer of thousands of digits.
        return "a number of thousands of digits"
    except Exception:  # It is nested too deeply, or it is an object whose text fails.
        return f"of type {type(value).__name__}"
    if len(text) > MAX_QUOTED:
        return f"{text[: MAX_QUOTED - 1]}…"
    return text


def _quoted_text(text: str) -> str:
    if len(text) > MAX_QUOTED:
        text = f"{text[:MAX_QUOTED]}…"
    return repr(text)


def shown(number: float) -> str:
    """Return a number in six digits if they are exact, else in all of its digits."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def number(value: float, digits: int = 4) -> str:
    """Return a number in a few digits; below a million, all digits before the point are kept.

    >>> number(0.6000000000000001), number(-1.0), number(1048576), number(1.5e-7)
    ('0.6', '-1', '1.049e6', '1.5e-7')
    >>> number(65536), number(0.00123, 2)
    ('65536', '0.0012')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"  # + 0.0 turns -0.0 into 0.0
    needs_power_of_ten = not 1e-3 <= abs(value) < 1e6
    if needs_power_of_ten:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    if abs(value) < 10**digits:
        return f"{value:.{digits}g}"
    return f"{value:.0f}"


@runtime_checkable
class Spellable(Protocol):
    """A value with a text form of its own, such as a grid: 14x14."""

    def spelled(self) -> str:
        """Return the text that the command line parses to this value."""


def spelled(value: object) -> str:
    """Return a value as text that the command line parses to the same value.

    >>> spelled(500000.0), spelled(0.1), spelled((1.0, 2.5)), spelled(True)
    ('500000', '0.1', '1,2.5', 'true')
    """
    if isinstance(value, Spellable):
        return value.spelled()
    if isinstance(value, (tuple, list)):
        return ",".join(map(spelled, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def brief(value: object, most: int = 64) -> str:
    """Return `spelled(value)`, with a list of more than `most` numbers abbreviated.

    >>> brief([1.0, 2.0, 3.0, 4.0, 5.5], 4)
    '1,2,3,…,5.5 (5 numbers)'
    """
    text = spelled(value)
    parts = re.split("[,;]", text)
    if len(parts) <= most:
        return text
    return f"{','.join(parts[:3])},…,{parts[-1]} ({len(parts)} numbers)"


MIN_PREFIX = 3  #: Shorter words are the prefix of too many options.


def nearest(word: str, options: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """Return «did you mean 'halves'?», or nothing if no option is close. Prefix matches win.

    >>> nearest("llama-3.1", ["llama-3.2-1b", "llama-3.1-70b"])
    "did you mean 'llama-3.1-70b'?"
    """
    from difflib import get_close_matches

    candidates = list(options)
    matches = []
    if len(word) >= MIN_PREFIX:
        matches = [option for option in candidates if option.startswith(word)]
    if not matches:
        matches = get_close_matches(word, candidates, n=1, cutoff=0.6)
    if not matches:
        return ""
    best, *_ = matches
    return f"did you mean {show(best)}?"


def bracketed(shape: Sequence[int | None]) -> str:
    """Return a shape in parentheses, without the comma that Python adds for a single axis.

    >>> bracketed((512, 64)), bracketed((64,))
    ('(512, 64)', '(64)')
    """
    return f"({', '.join(map(str, shape))})"


def listed(words: Sequence[str], most: int, show: Callable[[str], str] = str) -> str:
    """Return the first words and the number of the others.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    text = ", ".join(map(show, words[:most]))
    if len(words) > most:
        text += f" and {len(words) - most} more"
    return text


def span(first: int, last: int) -> str:
    """Return the numbers from the first to the last.

    >>> span(4, 7), span(4, 4)
    ('4–7', '4')
    """
    if first == last:
        return f"{first}"
    return f"{first}–{last}"


def spanned(noun: str, first: int, last: int) -> str:
    """Return numbers from the first to the last with their noun.

    >>> spanned("pair", 4, 7), spanned("pair", 4, 4)
    ('pairs 4–7', 'pair 4')
    """
    if first == last:
        return f"{noun} {first}"
    return f"{noun}s {span(first, last)}"


def counted(count: int, noun: str) -> str:
    """Return a number and its noun.

    >>> counted(1, "tensor"), counted(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"
