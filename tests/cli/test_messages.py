"""Errors and notes on standard error: one line, at most 1,000 characters, with the exit code of their kind."""

import pytest

from pecli.cli import options
from pecli.cli.commands import MAX_NAME, name_lines
from pecli.cli.messages import option_name, print_error
from pecli.errors import FileError, ParameterError, PecliError
from pecli.views.command_lines import command_line
from tests.exit_codes import FILE_ERROR, USAGE_ERROR


def test_an_error_of_1000_characters_is_whole(capsys) -> None:
    """1,000 is the limit of a message; `print_error` neither wraps nor shortens this one."""
    print_error("x" * 1000)
    assert capsys.readouterr().err == f"pecli: error: {'x' * 1000}\n"


def test_an_error_of_1001_characters_loses_its_middle(capsys) -> None:
    """1,001 characters are one more than the limit: the first and the last 500 are kept."""
    print_error("x" * 500 + "y" + "z" * 500)
    assert capsys.readouterr().err == f"pecli: error: {'x' * 500} … {'z' * 500}\n"


def test_an_error_is_one_line_with_the_name_of_the_option(capsys) -> None:
    """The message of the ParameterError has two lines, and `print_error` writes one; the parameter
    dim is called as its option.
    """
    print_error(ParameterError("dim", 3, "two\nlines"))
    assert capsys.readouterr().err == "pecli: error: --dim is 3; two lines\n"


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        pytest.param("x", USAGE_ERROR, id="usage"),
        pytest.param(ParameterError("dim", 3, "x"), USAGE_ERROR, id="parameter"),
        pytest.param(FileError("a", "x"), FILE_ERROR, id="file"),
    ],
)
def test_a_usage_error_has_exit_code_2_and_a_file_error_3(
    problem: PecliError | str, code: int
) -> None:
    """`print_error` returns the exit code. An error of a parameter is one of usage."""
    assert print_error(problem) == code


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("the scheme", "the scheme"),
        ("FILE", "FILE"),
        ("seq_len", "--seq-len"),
        ("a.b", "a.b"),
        ("positions[1]", "--positions[1]"),
    ],
)
def test_names_of_parameters_in_errors_become_options(name: str, option: str) -> None:
    """Only names of parameters of Python, such as seq_len, become options; a name with a blank, in
    capitals, or with a point stays.
    """
    assert option_name(name) == option


def test_a_command_line_has_only_the_options_that_are_set() -> None:
    """`command_line` writes a command from its values: flags that are off, None and empty lists are
    left out.
    """
    values = {"seq_len": 4, "dark": False, "theta": None, "label": []}
    assert command_line(["rope"], values) == "pecli rope --seq-len 4"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("--" + "a" * (MAX_NAME - 2), ["--" + "a" * (MAX_NAME - 2)]),
        ("--aaaa-" + "b" * (MAX_NAME - 6), ["--aaaa-", "  " + "b" * (MAX_NAME - 6)]),
    ],
    ids=["fits", "one character too long"],
)
def test_names_of_options_that_are_too_long_are_broken_at_a_hyphen(
    name: str, lines: list[str]
) -> None:
    """MAX_NAME characters fit into the column of names."""
    assert name_lines(name) == lines


def test_a_table_may_go_to_standard_output_that_is_not_a_terminal(capsys) -> None:
    """pytest captures standard output, so it is no terminal; `check_output` would refuse to write
    binary data to one.
    """
    options.check_output("-", json=False)
    assert capsys.readouterr().err == ""
