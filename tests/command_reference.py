"""Tables of the options of every command, from the commands themselves."""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from pecli.cli.app import COMMANDS, command_named
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.parameters import Choice, Flag

HEAD = ["| option | |", "|---|---|"]


def subcommands(name: str) -> dict[str, Any]:
    """Return a command by its words; one with subcommands, such as `audit`, by theirs."""
    command = command_named(name)
    nested: dict[str, Any] = getattr(command, "commands", {})
    if not nested:
        return {name: command}
    return {f"{name} {scheme}": nested[scheme] for scheme in nested if not nested[scheme].hidden}


@cache
def all_commands() -> dict[str, Any]:
    """Return every command and subcommand by its words."""
    commands: dict[str, Any] = {}
    for name in COMMANDS:
        commands |= subcommands(name)
    return commands


def option_names(command: Any) -> list[str]:
    """Return the names of all options of a command that its help lists."""
    names: list[str] = []
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if is_option and not parameter.hidden:
            names += [*parameter.opts, *parameter.secondary_opts]
    return names


class OptionRow(NamedTuple):
    """A row of a table: the names of an option or argument, and its cells."""

    names: tuple[str, ...]
    text: str


def option_rows(command: Any) -> list[OptionRow]:
    """Return a row per argument and option: its names and value, and its help."""
    return [_row(parameter) for parameter in command.params if not parameter.hidden]


def _row(parameter: Any) -> OptionRow:
    help = _cell(parameter.help or "")
    value = f"`{_cell(parameter.metavar)}`" if parameter.metavar else ""
    if parameter.param_type_name == "argument":
        return OptionRow((), f"| {value} | {help} |")
    names = (*parameter.opts, *parameter.secondary_opts)
    first = f"{_listed(names)} {value}".strip()
    return OptionRow(names, f"| {first} | {help} |")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def command_tables(name: str) -> str:
    """Return the tables of a command and its subcommands."""
    tables = [_table(words, command) for words, command in subcommands(name).items()]
    return "\n\n".join(tables)


def _table(words: str, command: Any) -> str:
    """Return a table; options of a subcommand that are those of its scheme's generator are only named."""
    rows = option_rows(command)
    if " " not in words:
        return "\n".join([*HEAD, *(row.text for row in rows)])
    scheme = words.split()[1]
    generator = set(option_rows(command_named(scheme))) if scheme in SCHEMES else set()
    shared = [name for row in rows if row in generator for name in row.names]
    own = [row.text for row in rows if row not in generator]
    table = "\n".join([f"`pecli {words}`:", "", *HEAD, *own])
    if not shared:
        return table
    return f"{table}\n\nAlso, as for `pecli {scheme}`: {_listed(shared)}."


def scheme_rules(name: str) -> dict[str, str]:
    """Return the values that the parameters of a scheme accept, by their options."""
    rules: dict[str, str] = {}
    for parameter_name, parameter in scheme_named(name).parameters().items():
        rule = parameter.rule.removeprefix("it must be ")
        if isinstance(parameter, Choice) or type(parameter) is Flag:
            rule = ""
        rules[f"--{parameter_name.replace('_', '-')}"] = rule
    return rules


def scheme_table(name: str) -> str:
    """Return the table of a generator, with the values that its parameters accept."""
    rules = scheme_rules(name)
    lines = ["| option | | values |", "|---|---|---|"]
    for row in option_rows(command_named(name)):
        values = [rules[option] for option in row.names if option in rules]
        lines.append(f"{row.text} {_cell(''.join(values))} |")
    return "\n".join(lines)
