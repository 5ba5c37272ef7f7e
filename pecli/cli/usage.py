"""Wrong command lines in one line: what is wrong, and what was probably meant."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pecli.cli.commands import Context, ExtraArgumentsError, HintedUsageError, UsageError
from pecli.errors import nearest, quoted
from pecli.package_data import package_text


class Synonyms(NamedTuple):
    """Words of other programs, by the command or the option that is meant."""

    commands: dict[str, list[str]]
    options: dict[str, list[str]]


def synonyms() -> Synonyms:
    """Read the words of other programs."""
    tables = tomllib.loads(package_text("pecli.cli", "synonyms.toml"))
    commands = {name: words.split() for name, words in tables["commands"].items()}
    options = {name: words.split() for name, words in tables["options"].items()}
    return Synonyms(commands, options)


def unknown_command(name: str, commands: Sequence[str]) -> str:
    """Return an error about a command that does not exist."""
    rule = f"there is no command {quoted(name)}; it must be one of {', '.join(commands)}"
    advice = _meant_command(name) or nearest(name.lower(), commands)
    if advice:
        return f"{advice} {rule}"
    return f"{rule}; see pecli --help"


def _meant_command(name: str) -> str:
    """Return a hint if a word is another program's name of a command, such as `compare` for diff."""
    for command, words in synonyms().commands.items():
        if name.lower() in words:
            return f"did you mean {command!r}?"
    return ""


@runtime_checkable
class NoSuchOption(Protocol):
    """Typer's error for an option that a command does not have; Typer has no public name for it."""

    option_name: str
    possibilities: Sequence[str] | None  #: names of options that are near; no other error has them


def usage_message(problem: UsageError) -> str:
    """Return a usage error of Typer as one line, with the option that was probably meant.

    For `--seq 8` it begins: «did you mean --seq-len? no such option: --seq; see …».
    """
    if isinstance(problem, HintedUsageError):
        return str(problem.message)
    context = problem.ctx
    if context is None:
        return f"{_sentence(problem)}; see pecli --help"
    if isinstance(problem, NoSuchOption):
        return _no_such_option(problem.option_name, context)
    if isinstance(problem, ExtraArgumentsError):
        return f"{problem.message}; {_meant_argument(problem.words[0], context)}"
    return f"{_sentence(problem)}; {_see_help(context)}"


def _sentence(problem: UsageError) -> str:
    """Return Typer's message without its capital letter and full stop."""
    text: str = problem.format_message().strip().rstrip(".")
    return text[:1].lower() + text[1:]


def _see_help(context: Context) -> str:
    return f"see {context.command_path} --help"


def _option_names(context: Context) -> list[str]:
    """Return all names of the options of the command that is being parsed."""
    names: list[str] = []
    for parameter in context.command.params:
        names += parameter.opts
    return names


def _no_such_option(typed: str, context: Context) -> str:
    """Return an error about an option that a command does not have, with a hint if one is near."""
    word = typed.replace("_", "-")
    option_synonyms = synonyms().options
    hint = _meant_option(word, _option_names(context), option_synonyms)
    if hint:
        return f"{hint} no such option: {typed}; {_see_help(context)}"
    # Parameters of a scheme, such as `--theta`, are not options of `verify`, which takes them from a
    # model or a file. The error then names the command that has both.
    is_parameter_of_scheme = any(word in option.split() for option in option_synonyms)
    if context.command.name == "verify" and is_parameter_of_scheme:
        advice = "parameters go with a scheme: pecli rope … --verify FILE"
        return f"no such option: {typed}; {advice}"
    return f"no such option: {typed}; {_see_help(context)}"


def _meant_option(word: str, names: Sequence[str], option_synonyms: dict[str, list[str]]) -> str:
    """Return a hint: a synonym first, then an option that begins so, then one that is spelled alike.

    `--rope-theta` is a synonym of `--theta`, `--seq` begins `--seq-len`, and `--dimm` is spelled
    like `--dim`.
    """
    meant = _synonym(word, names, option_synonyms) or _longer_option(word, names)
    if meant:
        return f"did you mean {meant}?"
    if not word.startswith("--"):  # Single letters are not spelled alike.
        return ""
    # Without the dashes, which would make all options look alike.
    long_names = [name.removeprefix("--") for name in names if name.startswith("--")]
    return nearest(word.removeprefix("--"), long_names, "--{}".format)


def _synonym(word: str, names: Sequence[str], option_synonyms: dict[str, list[str]]) -> str:
    """Return the option that another program calls by a word, with a value if that is part of it."""
    for option, words in option_synonyms.items():
        is_available = option.split()[0] in names
        if word in words and is_available:
            return option
    return ""


def _longer_option(word: str, names: Sequence[str]) -> str:
    """Return the first option that begins with a word."""
    return next((name for name in names if name.startswith(word)), "")


def _meant_argument(word: str, context: Context) -> str:
    """Return a hint for an extra argument: it may be a model without its option."""
    from pecli.models import presets

    if "--model" in _option_names(context) and presets.find(word):
        return f"did you mean --model {word}?"
    return _see_help(context)
