"""A misspelt name is an error of one line that names the option as it was typed, and what may be meant."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exit_codes import FILE_ERROR, SUCCESS, USAGE_ERROR


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cos.npy"
    np.save(path, np.ones((4, 64), "f4"))
    return path


@pytest.mark.parametrize("option", ["--model", "--config"])
@pytest.mark.parametrize("name", ["llama-3.1-8bb", "gpt-oss-20"])
def test_verify_names_the_option_with_the_misspelt_model(
    run_pecli: Any, table: Path, option: str, name: str
) -> None:
    """Neither name is a preset; --model and --config mean the same to verify, but the error names
    the word that was typed.
    """
    result = run_pecli("verify", table, option, name)
    assert result.exit_code == USAGE_ERROR
    assert f"{option} is '{name}'" in result.err


@pytest.mark.parametrize("words", [("plot",), ("report", "-o", "page.html")])
@pytest.mark.parametrize(("name", "meant"), [("llama-3.1-8bb", "llama-3.1-8b"), ("gpt22", "gpt2")])
def test_a_misspelt_model_is_refused_with_the_right_name(
    run_pecli: Any, words: tuple[str, ...], name: str, meant: str
) -> None:
    """Each name has one letter too many; the error suggests the preset without it."""
    command, *options = words
    result = run_pecli(command, name, *options)

    assert result.exit_code == FILE_ERROR
    assert f"did you mean '{meant}'?" in result.err


@pytest.mark.parametrize("command", ["verify", "diff", "rope"])
def test_help_of_a_subcommand_that_does_not_exist_is_a_usage_error(
    run_pecli: Any, command: str
) -> None:
    """Neither of the commands has subcommands: `pecli help verify nosuch`."""
    result = run_pecli("help", command, "nosuch")
    assert result.exit_code == USAGE_ERROR
    assert f"{command} has no subcommands" in result.err


@pytest.mark.parametrize("words", [("verify",), ("apply", "rope"), ("audit", "alibi"), ()])
def test_help_of_a_command_and_of_a_subcommand_is_printed(
    run_pecli: Any, words: tuple[str, ...]
) -> None:
    """`pecli help`, `pecli help verify`, `pecli help apply rope`: the words after «help» are the
    command.
    """
    assert run_pecli("help", *words).exit_code == SUCCESS


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--foo", "see pecli verify --help"),
        ("--theta", "parameters go with a scheme: pecli rope … --verify FILE"),
    ],
)
def test_verify_has_advice_on_options_that_are_parameters(
    run_pecli: Any, table: Path, option: str, advice: str
) -> None:
    """A base is not stated beside a file, but by a model or a scheme."""
    result = run_pecli("verify", table, option, "3")
    assert result.exit_code == USAGE_ERROR
    assert result.err == f"pecli: error: no such option: {option}; {advice}\n"


def test_the_help_of_a_group_of_schemes_lists_no_options(run_pecli: Any) -> None:
    """Its only option is --help, in a panel that would say little."""
    printed = run_pecli("audit", "--help").out
    assert "rope" in printed
    assert "Options" not in printed
    assert "Options" in run_pecli("audit", "rope", "--help").out
