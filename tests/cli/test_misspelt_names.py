"""Names that are misspelt: the error names the option that was typed, and what may be meant."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cos.npy"
    np.save(path, np.ones((4, 64), "f4"))
    return path


@pytest.mark.parametrize("option", ["--model", "--config"])
@pytest.mark.parametrize("name", ["llama-3.1-8bb", "gpt-oss-20"])
def test_verify_names_the_option_that_was_typed(
    pecli_cli: Any, table: Path, option: str, name: str
) -> None:
    result = pecli_cli("verify", table, option, name)
    assert result.code == 2
    assert f"{option} is '{name}'" in result.err


@pytest.mark.parametrize("words", [("plot",), ("report", "-o", "page.html")])
@pytest.mark.parametrize(("name", "meant"), [("llama-3.1-8bb", "llama-3.1-8b"), ("gpt22", "gpt2")])
def test_a_misspelt_model_is_suggested(
    pecli_cli: Any, words: tuple[str, ...], name: str, meant: str
) -> None:
    command, *options = words
    result = pecli_cli(command, name, *options)
    assert result.code == 3
    assert f"did you mean '{meant}'?" in result.err


@pytest.mark.parametrize("command", ["verify", "diff", "rope"])
def test_help_of_a_subcommand_that_does_not_exist(pecli_cli: Any, command: str) -> None:
    result = pecli_cli("help", command, "nosuch")
    assert result.code == 2
    assert f"{command} has no subcommands" in result.err


@pytest.mark.parametrize("words", [("verify",), ("apply", "rope"), ("audit", "alibi"), ()])
def test_help_may_be_a_command(pecli_cli: Any, words: tuple[str, ...]) -> None:
    assert pecli_cli("help", *words).code == 0
