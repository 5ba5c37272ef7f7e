"""Values in messages, and the errors of pecli that errors of the system become.

A message states what was given, the rule, and what to do. The limits (60 characters of a value, 64
numbers, …) keep it in one line. A FileError is about a file, a ParameterError about a value, a
ResourceError about the machine; a DefectError is a bug of pecli. Numbers of errors are those of
errno.
"""

from pathlib import Path

import pytest

import pecli
from pecli import errors
from pecli.cli.messages import option_name


def test_a_string_of_60_letters_is_quoted_whole() -> None:
    """60 characters of a value are the limit of pecli's messages, which have to be one line."""
    assert errors.quoted("x" * 60) == f"'{'x' * 60}'"


def test_a_string_of_61_letters_is_cut_to_60_with_dots() -> None:
    """Of a string, 60 letters are the limit of pecli's messages; the dots and quotes come on top."""
    text = errors.quoted("x" * 61)
    assert text == f"'{'x' * 60}…'"
    assert len(text) == 60 + len("…") + len("''")


def test_a_list_whose_text_has_60_characters_is_quoted_whole() -> None:
    """60 characters of a value are the limit of messages. 20 ones with 19 separators ", " and two
    brackets have 20 + 38 + 2 = 60.
    """
    text = errors.quoted([1] * 20)
    assert text == f"[{'1, ' * 19}1]"
    assert len(text) == 60


def test_a_list_whose_text_has_63_characters_is_cut_to_60_with_dots() -> None:
    """The text of 21 ones is 3 characters longer than that of 20, which has 60. What remains is a
    bracket, 19 times "1, ", a 1, and the dots: 1 + 57 + 1 + 1 = 60.
    """
    text = errors.quoted([1] * 21)
    assert text == f"[{'1, ' * 19}1…"
    assert len(text) == 60


def test_a_number_that_python_does_not_format_is_described() -> None:
    """By default, Python refuses to print integers of more than 4,300 digits; 10^5000 has 5,001."""
    assert errors.quoted([10**5000]) == "a number of thousands of digits"


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), (0.1 + 0.2, "0.30000000000000004")])
def test_a_number_that_was_given_is_shown_with_all_digits(value: float, text: str) -> None:
    """`errors.shown` writes a value that the user gave, for messages. 0.1 + 0.2 is not 0.3 in
    float64, and the user should see it.
    """
    assert errors.shown(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (0.001, "0.001"),
        (0.00099, "9.9e-4"),
        (9999.0, "9999"),
        (10000.0, "10000"),
        (-12345.6, "-12346"),
        (999999.4, "999999"),
        (1e6, "1e6"),
    ],
)
def test_a_measured_number_has_an_exponent_below_a_thousandth_and_from_a_million(
    value: float, text: str
) -> None:
    """`errors.number` writes a measured error or size in few digits: 0.00099 is 9.9e-4, and 0.001 as
    it is; 999999.4 has no exponent, and 10^6 has one. Minus zero is shown as 0.
    """
    assert errors.number(value) == text


def test_a_measured_number_with_one_digit_has_no_point_in_it() -> None:
    """`errors.number` writes a measured error; the second argument is the number of digits."""
    assert errors.number(3e-9, 1) == "3e-9"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # From 2^53 on, a float64 no longer tells neighbouring whole numbers apart.
        (2.0**53, "9007199254740992.0"),
        (1 - 2.0**53, "-9007199254740991"),
        (False, "false"),
    ],
)
def test_whole_numbers_are_spelled_without_a_point_while_they_are_exact(
    value: float, text: str
) -> None:
    """`spelled` writes values as options of a command; truth values are written in lower case."""
    assert errors.spelled(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(64, ",".join("1" * 64)), (65, "1,1,1,…,1 (65 numbers)")]
)
def test_more_than_64_numbers_are_shortened(count: int, text: str) -> None:
    """`errors.brief` writes a list of numbers, here ones. A list of factors has one number per pair,
    64 for heads of 128 channels, which is written whole.
    """
    assert errors.brief([1] * count) == text


@pytest.mark.parametrize(("name", "advice"), [("abc", "did you mean 'abcdefghijkl'?"), ("ab", "")])
def test_three_letters_of_a_beginning_are_enough_for_advice(name: str, advice: str) -> None:
    """`errors.nearest` suggests the one of several names that the user may have meant. Two letters
    begin too many words.
    """
    assert errors.nearest(name, ["abcdefghijkl"]) == advice


@pytest.mark.parametrize(("names", "text"), [("ab", "a, b"), ("abc", "a, b and 1 more")])
def test_names_beyond_the_limit_are_counted(names: str, text: str) -> None:
    """`errors.listed` writes at most two names here, and how many are left out."""
    assert errors.listed(names, 2) == text


def test_zero_is_counted_in_the_plural() -> None:
    """`errors.counted` writes a number with its noun; English says «1 row», but «0 rows»."""
    assert errors.counted(0, "row") == "0 rows"


def test_an_empty_shape_is_empty_brackets() -> None:
    """`errors.bracketed` writes a shape for messages; that of a single number has no lengths."""
    assert errors.bracketed(()) == "()"


@pytest.mark.parametrize(
    ("name", "cause", "problem"),
    [
        ("a*", OSError(2, ""), "matches no file"),
        ("a?", OSError(2, ""), "matches no file"),
        ("a[1]", OSError(2, ""), "matches no file"),
        ("a", OSError(2, ""), "does not exist"),
        ("a*", OSError(13, ""), "permission denied"),
        ("a", OSError("odd"), "odd"),
        ("a", OSError(5, ""), "input/output error"),
    ],
    ids=[
        "no match of *", "no match of ?", "no match of []", "no file",
        "a pattern that is forbidden", "without a number", "a number of the system",
    ],
)  # fmt: skip
def test_an_error_of_the_system_about_a_file_is_put_in_plain_words(
    name: str, cause: OSError, problem: str
) -> None:
    """Opening the file `name` fails with `cause`: 2 is ENOENT, 13 EACCES, 5 EIO. A name with *, ? or
    [ ] is a pattern, which «matches no file» if there is none.
    """
    assert errors.failure(name, cause).problem == problem


def test_a_folder_in_place_of_a_file_is_named_with_advice() -> None:
    """21 is EISDIR, the system's error if a folder is opened as a file."""
    failure = errors.failure("a", IsADirectoryError(21, ""))
    assert str(failure) == "a: is a folder; name a file in it"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (OSError(23, ""), errors.ResourceError),
        (OSError(24, ""), errors.ResourceError),
        (OSError(2, "", "a.py"), errors.DefectError),
        (OSError(2, "", "a.pyc"), errors.DefectError),
        (OSError(2, ""), errors.DefectError),
        (RuntimeError(), errors.DefectError),
        (ImportError(), errors.DefectError),
        (ImportError(name="matplotlib"), errors.DefectError),
        (KeyError(1), errors.DefectError),
        (ModuleNotFoundError(name=None), errors.DefectError),
        (ModuleNotFoundError(name="numpy"), errors.DefectError),
        (ModuleNotFoundError(name="matplotlibx"), errors.DefectError),
    ],
    ids=[
        "too many files on the system", "too many files of the process", "a module that is gone",
        "a compiled module that is gone", "a file without a name", "a RuntimeError",
        "an ImportError", "a name that matplotlib lacks", "a KeyError", "a module without a name", "a module that pecli needs",
        "a module that pecli never imports",
    ],
)  # fmt: skip
def test_an_unexpected_error_is_one_of_the_machine_or_a_defect(
    cause: Exception, kind: type[errors.PecliError]
) -> None:
    """`errors.translated` makes an error of pecli of any exception. 23 is ENFILE and 24 EMFILE: the
    machine is at its limit. A bug of pecli is a DefectError: errors about Python files, which are
    not the user's, other exceptions, and missing modules of pecli or of what it needs. (That
    matplotlib is not installed is no defect, and has a test of its own.)
    """
    assert type(errors.translated(cause)) is kind


def test_an_error_with_an_ordinary_cause_is_a_defect() -> None:
    """A RuntimeError was raised from a ValueError. Only an interrupt among the causes would be passed
    on as such (next test); this is a bug of pecli.
    """
    problem = RuntimeError("a class could not be made")
    problem.__cause__ = ValueError("of its fields")
    assert type(errors.translated(problem)) is errors.DefectError


def test_an_interrupt_while_a_class_is_made_stays_an_interrupt() -> None:
    """If the user interrupts while a class is made, Python before 3.12 wraps the KeyboardInterrupt in
    a RuntimeError; it must stop the program all the same.
    """
    problem = RuntimeError("a class could not be made")
    problem.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        errors.translated(problem)


def test_an_interrupt_before_another_error_stays_an_interrupt() -> None:
    """If the user interrupts while a module is imported, its clean-up may fail with an error of its own,
    whose context is the KeyboardInterrupt.
    """
    problem = ImportError("the module is half imported")
    problem.__context__ = AttributeError("no such name")
    problem.__context__.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        errors.translated(problem)


def test_a_file_that_is_gone_while_pecli_runs_is_a_file_error() -> None:
    """2 is ENOENT. The file a.npy is the user's, so that this is no bug of pecli."""
    error = errors.translated(OSError(2, "", "a.npy"))
    assert isinstance(error, errors.FileError)
    assert error.problem == "does not exist"


def test_a_path_in_bytes_is_shown_as_text() -> None:
    """The system's functions also take paths as bytes; the message shows b"b" as b."""
    error = errors.translated(OSError(2, "", b"b"))
    assert isinstance(error, errors.FileError)
    assert error.path == "b"


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        (ModuleNotFoundError(name="matplotlib.pyplot"), "pip install matplotlib"),
        (ImportError("failed to map segment"), "to load NumPy"),
        (RuntimeError("can't start new thread"), "PECLI_THREADS=1"),
    ],
    ids=["matplotlib is not installed", "no memory for NumPy", "no more threads"],
)
def test_an_unexpected_error_comes_with_advice(cause: Exception, advice: str) -> None:
    """The messages of ImportError and RuntimeError are those of the dynamic loader and of Python's
    threading, if memory or threads are at their limit; the user can do something about it.
    """
    assert advice in str(errors.translated(cause))


def test_no_memory_for_a_lock_is_reported_as_no_memory() -> None:
    """Without memory for a lock, Python raises RuntimeError with this message, not MemoryError; the
    user gets the same text for both.
    """
    no_lock = errors.translated(RuntimeError("can't allocate lock"))
    no_memory = errors.translated(MemoryError())

    assert str(no_lock) == str(no_memory)


def test_a_defect_names_the_exception() -> None:
    """`translated` turns any other exception into an error of one line; it names the exception, so
    that a user's report shows where to look.
    """
    message = str(errors.translated(KeyError()))
    assert message.startswith("unexpected KeyError; this is a defect")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.FileError("", "is empty"), "'': is empty"),
        (
            errors.FileError("pe.npy", "is empty", "write it again"),
            "pe.npy: is empty; write it again",
        ),
        (errors.ParameterError("dim", 0, ""), "dim is 0"),
        (
            errors.ParameterError(
                "kv_heads", 3, "4 `heads` are no multiple of 3", "check `heads` and `kv_heads`"
            ),
            "kv_heads is 3; 4 `heads` are no multiple of 3; check `heads` and `kv_heads`",
        ),
    ],
    ids=["a file without a name", "advice on a file", "a value alone", "a rule and advice"],
)
def test_a_message_has_what_was_given_the_rule_and_advice(
    error: errors.PecliError, message: str
) -> None:
    """A FileError has a path, a problem and advice; a ParameterError a name, a value, the rule and
    advice. The message has these parts with semicolons between them, and leaves out missing ones.
    """
    assert str(error) == message


def test_parameters_are_spelled_as_options_on_the_command_line() -> None:
    """In a message, the names of parameters stand between backquotes. For users of the command line,
    `spelled` writes them as options instead, and the parameter in question as well: kv_heads is
    --kv-heads.
    """
    error = errors.ParameterError(
        "kv_heads", 3, "4 `heads` are no multiple of 3", "check `heads` and `kv_heads`"
    )
    message = "--kv-heads is 3; 4 --heads are no multiple of 3; check --heads and --kv-heads"

    assert error.spelled(option_name) == message


def test_a_value_is_never_taken_for_a_parameter() -> None:
    """Backquotes mark the names of parameters in a message, which are spelled as options. The user's
    value '`heads`' contains backquotes as well, and must stay as it is.
    """
    error = errors.ParameterError("name", "'`heads`'", "it is unknown")
    assert error.spelled(option_name) == "--name is '`heads`'; it is unknown"


class _WithoutText:
    """An object whose text fails, as that of a lazy array whose file is gone."""

    def __repr__(self) -> str:
        raise OSError("the file is gone")


def test_an_object_whose_text_fails_is_shown_by_its_type() -> None:
    """An error quotes the value that it is about. The repr of this one raises an error itself."""
    assert errors.quoted(_WithoutText()) == "of type _WithoutText"


@pytest.mark.parametrize(
    ("first", "last", "numbers", "pairs"),
    [(4, 7, "4–7", "pairs 4–7"), (4, 4, "4", "pair 4")],
    ids=["several numbers", "one number"],
)
def test_a_span_of_one_number_is_this_number(
    first: int, last: int, numbers: str, pairs: str
) -> None:
    """A span of numbers is written with a dash, and with a noun in the plural. A span from 4 to 4
    is the number 4, and the noun is in the singular.
    """
    assert errors.span(first, last) == numbers
    assert errors.spanned("pair", first, last) == pairs


@pytest.mark.parametrize("path", ["a/b", Path("a/b")])
def test_a_path_is_a_text_or_an_object_that_has_one(path: str | Path) -> None:
    """`path_of` returns the path as text, of a str or of a pathlib.Path."""
    assert errors.path_of("path", path) == "a/b"


@pytest.mark.parametrize("path", [b"a", 5, None])
def test_other_values_are_no_paths(path: object) -> None:
    """Bytes, a number or None as a path raise an error that names the parameter, «path»."""
    with pytest.raises(errors.KindError, match=r"path is .*; it must be a path"):
        errors.path_of("path", path)


def test_a_notebook_shows_the_call_of_the_user_and_the_message() -> None:
    """IPython calls `_render_traceback_`; frames within the package are left out."""
    with pytest.raises(errors.ParameterError) as caught:
        pecli.Rope(seq_len=0, dim=8)
    place, message = caught.value._render_traceback_()

    assert place.startswith("line ")
    assert place.endswith(": pecli.Rope(seq_len=0, dim=8)")
    assert message == "ParameterError: seq_len is 0; it must be a whole number from 1 to 2^40"


def test_a_notebook_shows_the_message_of_an_error_that_was_not_raised() -> None:
    """IPython shows the lines that an exception returns in place of a traceback. This one was made
    and not raised, so that there is no traceback: the line has its type and message.
    """
    problem = errors.ParameterError("dim", 7, "it must be even")
    assert problem._render_traceback_() == ["ParameterError: dim is 7; it must be even"]
