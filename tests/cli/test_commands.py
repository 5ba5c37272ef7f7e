"""The list of commands: complete, a line or two each, and found by other words, such as users of transformers, vLLM,
llama.cpp, MLX, ExLlama and text-generation-webui type.
"""

import os
import re
from pathlib import Path

import pytest

from pecli.cli.app import COMMANDS, PANELS, synonyms
from tests.cli.test_golden_text import GOLDEN

PARTS = GOLDEN.read_text(encoding="utf-8").split("\n\n$ pecli ")
HELPS = {name: part for part in PARTS for name in COMMANDS if part.startswith(f"{name} --help\n")}
"""As every command shows it at 80 columns, which another test compares."""
VALUES, MODELS = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split("\n\n")
"""In columns: an option, its value and other words for it, or another name of a model and what is said."""


def test_every_command_is_listed_in_its_part(pecli_cli) -> None:
    out = pecli_cli("--help").out
    assert ("Exit code" in out, "Exit code 0" in pecli_cli("verify", "--help").out) == (False, True)
    places = [out.index(f"─ {panel} ") for panel in PANELS]
    assert places == sorted(places)
    for (panel, commands), end in zip(PANELS.items(), [*places[1:], len(out)], strict=True):
        part = out[out.index(f"─ {panel} ") : end]
        assert all(f"│ {command} " in part for command in commands)


SUBCOMMANDS = [("apply", name) for name in ("sinusoidal", "learned", "alibi", "rope")]
SUBCOMMANDS += [("audit", name) for name in ("sinusoidal", "rope", "alibi")]


def test_help_says_defaults_in_one_way_and_shows_examples(pecli_cli) -> None:
    helps = {(name,): HELPS[name] for name in COMMANDS}
    for words, shown in {
        **helps,
        **{words: pecli_cli(*words, "--help").out for words in SUBCOMMANDS},
    }.items():
        assert "[default:" not in shown
        assert f"pecli {' '.join(words)}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize("name", ["COLUMNS", "TERMINAL_WIDTH"])
def test_widths_that_are_none_count_for_nothing(pecli_cli, monkeypatch, name: str) -> None:
    for text in ("99999999999999", "0", "-3", "x"):
        monkeypatch.setenv(name, text)
        done = pecli_cli("rope", "--help")
        assert (done.code, done.err, name in os.environ and os.environ[name] == text) == (
            0,
            "",
            False,
        ), text


def test_other_words_mean_commands_and_models(pecli_cli) -> None:
    assert set(synonyms("commands")) <= set(COMMANDS)
    assert not {word for words in synonyms("commands").values() for word in words} & set(COMMANDS)
    assert pecli_cli("rope", "llama-3.1-8b", "--seq-len", 4).err.endswith(
        "; did you mean --model llama-3.1-8b?\n"
    )
    assert pecli_cli("rope", "llama", "--seq-len", 4).err.endswith("; see pecli rope --help\n")


def test_help_of_80_columns_has_every_name_whole() -> None:
    for name in COMMANDS:
        shown = HELPS[name]
        first = [line[2:].split("  ")[0] for line in shown.splitlines() if line.startswith("│ -")]
        assert first or name in ("apply", "audit")
        assert not [word for word in first if "…" in word]
        assert not re.search(r"\[\w+\|[^\]]*\n", shown), "choices are broken"


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("option", "value", "words"), [row[0].split(maxsplit=2) for row in rows(VALUES)]
)
def test_another_word_for_a_value(pecli_cli, option: str, value: str, words: str) -> None:
    for word in words.split():
        found = pecli_cli("rope", "--seq-len", 4, "--dim", 8, f"--{option}", word, "--json").json
        assert found["parameters"][option] == value, word


@pytest.mark.parametrize(("name", "said"), rows(MODELS))
def test_another_word_for_a_model(pecli_cli, name: str, said: str) -> None:
    outcome = pecli_cli("rope", "--seq-len", 4, "--model", name)
    assert outcome.code == (2 if "could be" in said else 0)
    assert said in outcome.err
    assert said or not outcome.err
