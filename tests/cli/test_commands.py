"""The list of commands and their help, and other projects' words for commands, options and values.

The words are those of transformers, vLLM, llama.cpp, MLX, ExLlama and text-generation-webui, in
words.txt and pecli/cli/synonyms.toml.
"""

import os
import re
from pathlib import Path

import pytest

from pecli.cli.app import COMMANDS, PANELS
from pecli.cli.usage import synonyms
from tests.cli.test_golden_text import EXPECTED_OUTPUT
from tests.exit_codes import SUCCESS, USAGE_ERROR

EXPECTED_HELP = {name: EXPECTED_OUTPUT[f"{name} --help"] for name in COMMANDS}
"""The help of every command at 80 columns, which another test compares."""

VALUES, MODELS = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split("\n\n")
"""Lines of an option, its value and other words for it; and of another name of a model and its note."""


def test_every_command_is_listed_in_its_panel(run_pecli) -> None:
    """PANELS are the panels in the order of the help, each with its commands. The text between the
    title of a panel and that of the next one must list them.
    """
    help_text = run_pecli("--help").out
    starts = [help_text.index(f"─ {panel} ") for panel in PANELS]
    ends = [*starts[1:], len(help_text)]
    assert starts == sorted(starts)

    for commands, start, end in zip(PANELS.values(), starts, ends, strict=True):
        panel_text = help_text[start:end]
        for command in commands:
            assert f"│ {command} " in panel_text


def test_help_of_a_command_with_subcommands_lists_only_these(run_pecli) -> None:
    """A panel with `--help` and nothing else in it would say little."""
    out = run_pecli("audit", "--help").out

    assert "│ sinusoidal " in out
    assert "--help" not in out


def test_exit_codes_are_in_the_help_of_commands_that_check() -> None:
    """The texts are the recorded output of `pecli --help` and `pecli verify --help`; only the
    latter lists its exit codes.
    """
    assert "Exit code" not in EXPECTED_OUTPUT["--help"]
    assert "Exit code 0" in EXPECTED_HELP["verify"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_defaults_in_one_style_and_an_example(name: str) -> None:
    """«[default: …]» is Typer's own style, which pecli's help of a command replaces; every help
    ends with examples that call the command.
    """
    _, _, examples = EXPECTED_HELP[name].partition("Examples:")
    assert "[default:" not in EXPECTED_HELP[name]
    assert f"pecli {name}" in examples


@pytest.mark.parametrize("words", ["", "rope", "apply rope"])
def test_the_command_help_prints_what_the_option_help_prints(run_pecli, words: str) -> None:
    """`pecli help WORDS` prints the same as `pecli WORDS --help`."""
    outcome = run_pecli("help", *words.split())
    assert outcome.exit_code == SUCCESS
    assert outcome.out == run_pecli(*words.split(), "--help").out


def test_help_of_an_unknown_command_is_an_error_with_a_hint(run_pecli) -> None:
    """«ropee» has one letter more than the command rope."""
    outcome = run_pecli("help", "ropee")
    assert outcome.exit_code == USAGE_ERROR
    assert outcome.err.startswith("pecli: error: did you mean 'rope'? there is no command 'ropee'")


def test_examples_in_the_help_are_on_one_line_even_in_a_narrow_terminal(
    run_pecli, monkeypatch
) -> None:
    """The example has more than 60 columns, and would not work if it were copied in two lines."""
    monkeypatch.setenv("TERMINAL_WIDTH", "60")
    example = (
        "pecli apply rope cache.safetensors --layout interleaved --shift -512 -o moved.safetensors"
    )

    assert f"   {example}" in run_pecli("apply", "rope", "--help").out.splitlines()


def test_a_command_in_capitals_is_refused_with_a_hint(run_pecli) -> None:
    """Names of commands are in small letters."""
    assert run_pecli("ROPE").err.startswith("pecli: error: did you mean 'rope'? ")


@pytest.mark.parametrize(
    "words",
    [
        *("apply sinusoidal", "apply learned", "apply alibi", "apply rope"),
        *("audit sinusoidal", "audit rope", "audit alibi"),
    ],
)
def test_help_of_subcommands_has_defaults_in_one_style_and_an_example(
    run_pecli, words: str
) -> None:
    """The help of `pecli apply rope`, for example, has no «[default: …]», Typer's own style, and
    ends with examples that call the subcommand.
    """
    shown = run_pecli(*words.split(), "--help").out
    assert "[default:" not in shown
    assert f"pecli {words}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize("text", ["99999999999999", "0", "-3", "x"])
@pytest.mark.parametrize("name", ["COLUMNS", "TERMINAL_WIDTH"])
@pytest.mark.sample(4)
def test_impossible_widths_of_the_terminal_are_ignored(
    run_pecli, monkeypatch, name: str, text: str
) -> None:
    """COLUMNS and TERMINAL_WIDTH state a width of the terminal on which rich and typer would fail
    or allocate: the help must appear all the same, and the variable is replaced.
    """
    monkeypatch.setenv(name, text)
    outcome = run_pecli("rope", "--help")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert os.environ.get(name) != text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_80_columns_cuts_no_name_of_an_option(name: str) -> None:
    """A name that is too long for its column would end in «…». Lines of the help that begin with
    «│ -» are options, whose names end at two blanks. Only apply and audit have subcommands instead
    of options.
    """
    lines = EXPECTED_HELP[name].splitlines()
    options = [line[2:].split("  ")[0] for line in lines if line.startswith("│ -")]

    assert options or name in ("apply", "audit")
    assert not [option for option in options if "…" in option]


BEGINNING_OF_BROKEN_CHOICES = re.compile(r"\[\w+\|[^\]]*\n")
"""«[», a word and «|», and then the end of the line before any «]»."""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_80_columns_has_the_choices_of_an_option_on_one_line(name: str) -> None:
    """The choices of an option stand in brackets, such as [paper|naive], and are one word to copy.
    A broken list would have its first line end as in `broken`.
    """
    whole = "│ --rule   [paper|naive]  How slopes are chosen  │\n"
    broken = "│ --rule   [paper|  How slopes are chosen         │\n"
    assert not BEGINNING_OF_BROKEN_CHOICES.search(whole)
    assert BEGINNING_OF_BROKEN_CHOICES.search(broken)

    assert not BEGINNING_OF_BROKEN_CHOICES.search(EXPECTED_HELP[name])


COMMAND_WORDS = [
    (word, command) for command, words in synonyms().commands.items() for word in words
]


@pytest.mark.parametrize(("word", "command"), COMMAND_WORDS, ids=lambda word: word)
def test_another_word_for_a_command_is_refused_with_a_hint(
    run_pecli, word: str, command: str
) -> None:
    """The words are a data file of the package, synonyms.toml: «check», for example, means verify."""
    assert word not in COMMANDS
    assert command in COMMANDS

    outcome = run_pecli(word)
    assert outcome.exit_code == USAGE_ERROR
    assert outcome.err.startswith(f"pecli: error: did you mean '{command}'? there is no command ")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("--rope-theta", "--theta"),
        ("--freq-base", "--theta"),
        ("--rope-freq-base", "--theta"),
        ("--rope-freq-scale", "--scaling linear --factor N (one over the scale)"),
        ("--compress-pos-emb", "--scaling linear --factor N"),
        ("--alpha", "--scaling ntk --factor N"),
        ("--rope-type", "--scaling"),
        ("--sections", "--mrope-section"),
        ("--rotary-dim", "--dim"),
        ("--head-dim", "--dim"),
        ("--position-ids", "--positions"),
        ("--seq", "--seq-len"),
        ("--thetta", "--theta"),
    ],
)
def test_another_word_for_an_option_is_refused_with_a_hint(run_pecli, word: str, hint: str) -> None:
    """The words are options of llama.cpp, vLLM, text-generation-webui and others, and one typing
    error.
    """
    outcome = run_pecli("rope", "--seq-len", 4, "--dim", 8, word, 2)
    assert outcome.exit_code == USAGE_ERROR

    expected = f"pecli: error: did you mean {hint}? no such option: {word}; see pecli rope --help\n"
    assert outcome.err == expected


def test_a_model_without_its_option_is_refused_with_a_hint(run_pecli) -> None:
    """`pecli rope llama-3.1-8b`: the name of a preset stands where no argument is expected."""
    outcome = run_pecli("rope", "llama-3.1-8b", "--seq-len", 4)
    assert outcome.err.endswith("; did you mean --model llama-3.1-8b?\n")


def test_a_word_that_is_not_a_model_has_no_hint(run_pecli) -> None:
    """«llama» is the name of no preset, so `pecli rope llama` proposes no --model."""
    outcome = run_pecli("rope", "llama", "--seq-len", 4)
    assert outcome.err.endswith("; see pecli rope --help\n")


def other_words_for_values() -> list[tuple[str, str, str]]:
    """Return every other word with its option and the value that it means."""
    found: list[tuple[str, str, str]] = []
    for line in VALUES.splitlines():
        option, value, *words = line.split()
        found += [(option, value, word) for word in words]
    return found


@pytest.mark.parametrize(("option", "value", "word"), other_words_for_values())
def test_another_word_for_a_value_is_understood(
    run_pecli, option: str, value: str, word: str
) -> None:
    """Each row of words.txt has an option of `pecli rope`, a value of it, and other projects' words
    for the value. Scalings need further options.
    """
    further_options: list[object] = []
    if value in ("ntk", "longrope"):
        further_options += ["--factor", 2]
    if value == "longrope":
        further_options += ["--short-factor", "1,1,1,1", "--long-factor", "2,2,2,2"]
        further_options += ["--original-len", 8]
    words = ("--seq-len", 4, "--dim", 8, f"--{option}", word, *further_options)
    outcome = run_pecli("rope", *words, "--json")

    assert outcome.json["parameters"][option] == value


@pytest.mark.parametrize(
    ("name", "note"),
    [tuple(cell.strip() for cell in line.split("|")) for line in MODELS.strip().splitlines()],
)
def test_another_word_for_a_model_is_understood_or_answered_with_candidates(
    run_pecli, name: str, note: str
) -> None:
    """Each row of words.txt has a name of a model as people type it, and a part of what standard
    error has: the preset that was understood, nothing if the name is exact, or candidates («could
    be») if there are several, which is an error.
    """
    outcome = run_pecli("rope", "--seq-len", 4, "--model", name)
    is_ambiguous = "could be" in note

    assert outcome.exit_code == (USAGE_ERROR if is_ambiguous else SUCCESS)
    assert note in outcome.err
    assert note or not outcome.err


def test_a_word_that_is_like_no_command_points_to_the_help(run_pecli) -> None:
    """A misspelt command gets a suggestion. «xyzzy» is like none, and the error ends with the help."""
    outcome = run_pecli("xyzzy")
    assert outcome.exit_code == USAGE_ERROR
    assert outcome.err.endswith("; see pecli --help\n")
