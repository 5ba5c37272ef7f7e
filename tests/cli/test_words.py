"""Words that users of transformers, vLLM, llama.cpp, MLX, ExLlama and text-generation-webui type, and what happens."""

from pathlib import Path

import pytest

WORDS = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
COMMANDS, OPTIONS, VALUES, MODELS = WORDS.split("\n\n")
"""In columns: another word and what is meant, or an option, its value and other words for it."""


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@pytest.mark.parametrize(("word", "command"), [cell.split() for row in rows(COMMANDS) for cell in row])
def test_another_word_for_a_command(pecli_cli, word: str, command: str) -> None:
    outcome = pecli_cli(word)
    assert outcome.code == 2
    assert outcome.err.startswith(f"pecli: error: did you mean '{command}'? there is no command ")


@pytest.mark.parametrize(("word", "option"), rows(OPTIONS))
def test_another_word_for_an_option(pecli_cli, word: str, option: str) -> None:
    outcome = pecli_cli("rope", "--seq-len", 4, "--dim", 8, word, 4)
    assert outcome.code == 2
    assert outcome.err == f"pecli: error: did you mean {option}? no such option: {word}; see pecli rope --help\n"


@pytest.mark.parametrize(("option", "value", "words"), [row[0].split(maxsplit=2) for row in rows(VALUES)])
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


@pytest.mark.parametrize(("word", "meant"), [("su", "longrope"), ("ntk-aware", "ntk"), ("dynamic_ntk", "dynamic")])
def test_another_word_for_a_scaling_that_needs_more(pecli_cli, word: str, meant: str) -> None:
    assert f"{meant} scaling needs it" in pecli_cli("rope", "--seq-len", 4, "--dim", 8, "--scaling", word).err
