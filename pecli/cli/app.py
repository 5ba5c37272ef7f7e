"""The `pecli` command: it finds the subcommand, runs it, and turns every error into a line and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Annotated

import typer
import typer.core
import typer.main

from pecli.cli.commands import AnyCommand, Context, HelpWithExamples, HintedUsageError, UsageError
from pecli.cli.messages import Exit, print_error
from pecli.engine import __version__
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.errors import ParameterError, ResourceError, translated

PANELS = {
    "Generate": {
        "sinusoidal": "Generate sinusoidal tables, also on grids or at given positions.",
        "rope": "Generate rotary (RoPE) tables: cos, sin and inverse frequencies.",
        "alibi": "Generate ALiBi slopes and biases.",
        "learned-init": "Generate initial weights of a learned table.",
        "golden": "Generate golden vectors for ports in any language, with known mistakes.",
        "positions": "Generate position ids as a model builds them (M-RoPE, Flux, …), or check yours.",
        "relative": "Generate relative-position indices: T5 and DeBERTa buckets, Swin windows.",
    },
    "Read models": {
        "config": "Show the positional encodings in a model's configuration, and warnings.",
        "models": "List the built-in model presets.",
    },
    "Check files": {
        "verify": "Check files against a model, a manifest, or the spec that they carry.",
        "diff": "Compare two tables, up to known transforms.",
        "identify": "Find the scheme, parameters and recipe that made an unknown table.",
        "audit": "Measure how far each precision recipe drifts from the exact table.",
        "runtimes": "Compare what runtimes (transformers, vLLM, llama.cpp, …) compute for a model.",
        "extend": "Print the settings that stretch a model's context, for every runtime.",
    },
    "Inspect": {
        "inspect": "Show the contents of a file: tensors, dtypes, shapes, statistics, provenance.",
        "plot": "Plot tables: PNG, SVG, PDF, or in the terminal.",
        "report": "Write one HTML page about a model or a file.",
    },
    "Transform": {
        "apply": "Apply an encoding to tensors, as a model's layer would.",
        "convert": "Reorder q/k weights or tables between rotary layouts, or cast them.",
        "resize": "Resample a learned table to another length or grid.",
    },
}
"""Summaries of the commands in the panels of the help. A command's module is imported when it is called."""

PANEL_OF_COMMAND = {name: panel for panel, summaries in PANELS.items() for name in summaries}
COMMANDS = tuple(PANEL_OF_COMMAND)

SCHEME_GROUPS = ("apply", "audit")
"""Commands with a subcommand per scheme, which their module makes when it is called."""

MIN_ADDRESS_SPACE = 144 << 20
"""Bytes of address space that NumPy needs: with less, its OpenBLAS ends the process with exit code 1."""

HELP_WIDTH = "140"
"""Columns of help in a pipe, unless COLUMNS is set."""


class ReaderGoneError(Exception):
    """The reader of the pipe went away. Not an OSError, which Typer would turn into exit code 1."""


class Commands(HelpWithExamples, typer.core.TyperGroup):
    """The commands, which are imported on demand."""

    lines = (
        "pecli rope --model llama-3.1-8b --seq-len 4096 -o rope.safetensors",
        "pecli verify dump.npz --model llama-3.1-8b --atol 1e-3",
        "pecli identify unknown.npy",
        "pecli help COMMAND",
    )

    def list_commands(self, ctx: Context) -> list[str]:
        added = [name for name in SCHEMES if name not in COMMANDS]
        return [*COMMANDS, *added]

    def get_command(self, ctx: Context, cmd_name: str) -> AnyCommand | None:
        """Return a stand-in for a command, with its summary and its panel, for the help of `pecli`.

        Its module is not imported, which would make the help slow.
        """
        if cmd_name in COMMANDS:
            panel = PANEL_OF_COMMAND[cmd_name]
            summary = PANELS[panel][cmd_name]
            return typer.core.TyperCommand(cmd_name, help=summary, rich_help_panel=panel)

        # A scheme that an extension registered: its summary is in its own module.
        from pecli.cli.scheme_help import help_of

        summary = help_of(scheme_named(cmd_name)).summary
        return typer.core.TyperCommand(cmd_name, help=summary, rich_help_panel="Generate")

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, AnyCommand | None, list[str]]:
        """Return the name, the command and the words after it; only here its module is imported."""
        name, *rest = args
        if name not in COMMANDS and name not in SCHEMES:
            from pecli.cli.usage import unknown_command

            raise HintedUsageError(unknown_command(name, COMMANDS))
        return name, command_named(name), rest

    def invoke(self, ctx: Context) -> object:
        """Run the command; see ReaderGoneError for a broken pipe."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None


def command_named(name: str) -> AnyCommand:
    """Import the module of a command and return the command.

    A command is the function of its own name in the module of its own name, with three exceptions:
    the commands of schemes (`pecli rope`), `models`, and groups with a subcommand per scheme
    (`pecli audit rope`), which their modules build from the registered schemes.
    """
    if name in SCHEMES:
        from pecli.cli import generate

        return generate.command(name)
    if name == "models":
        from pecli.cli.config import models

        return models
    module = import_module(f"pecli.cli.{name}")
    command: AnyCommand
    if name in SCHEME_GROUPS:
        command = module.command(name)
    else:
        command = getattr(module, name)
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pecli {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def pecli(version: Annotated[bool, _VERSION] = False) -> None:
    """Positional encodings: generate exact tables, inspect them, verify files against them."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line, such as `["rope", "--dim", "64"]`, and return the exit code.

    This is the one boundary of errors: each becomes a line on standard error and an exit code.
    """
    _set_help_width()
    try:
        return _run_program(_help_as_option(arguments))
    except UsageError as problem:
        return _usage_error(problem)
    except (ReaderGoneError, BrokenPipeError):
        return Exit.PIPE
    except SystemExit as leave:
        return _code_of_exit(leave)
    except Exception as problem:  # also defects of pecli, which have an exit code of their own
        return print_error(translated(problem), arguments)


def _run_program(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code: that of the command, which may be None for 0."""
    needs_numpy = {"--help", "-h", "--version"}.isdisjoint(arguments)
    if needs_numpy:
        _check_memory()
    result = _program().main(args=list(arguments), prog_name="pecli", standalone_mode=False)
    sys.stdout.flush()  # here, so that a reader that went away is still noticed
    if isinstance(result, int):
        return result
    return Exit.DONE


@cache
def _program() -> AnyCommand:
    """Return the program; one process may run many command lines, as tests do."""
    return typer.main.get_command(app)


def _help_as_option(arguments: Sequence[str]) -> list[str]:
    """Return `COMMAND --help` for `help COMMAND`, and all other command lines unchanged.

    Raises:
        ParameterError: Words follow a command that has no subcommands.
    """
    match list(arguments):
        case ["help", *command_words]:
            _refuse_missing_subcommand(command_words)
            return [*command_words, "--help"]
        case other_words:
            return other_words


def _refuse_missing_subcommand(command_words: Sequence[str]) -> None:
    """Raise ParameterError for `plot rope`: unlike `audit`, `plot` has no subcommands."""
    match command_words:
        case [command, *others] if command not in SCHEME_GROUPS:
            subcommands = [word for word in others if not word.startswith("-")]
            if subcommands:
                rule = f"{command} has no subcommands"
                typed = " ".join(command_words)
                raise ParameterError("help", typed, rule, f"see pecli help {command}")


def _set_help_width() -> None:
    """Make help as wide as the terminal; in a pipe, as wide as COLUMNS or HELP_WIDTH."""
    for name in ("TERMINAL_WIDTH", "COLUMNS"):
        is_width = re.fullmatch("[1-9][0-9]{0,3}", os.environ.get(name, ""))
        if not is_width:
            os.environ.pop(name, None)  # Typer and rich would fail to parse it
    if not sys.stdout.isatty():
        os.environ.setdefault("TERMINAL_WIDTH", os.environ.get("COLUMNS", HELP_WIDTH))


def _usage_error(problem: UsageError) -> Exit:
    """Print an error of usage with advice. A group without a subcommand has printed its help instead."""
    from pecli.cli.usage import usage_message

    has_printed_help = type(problem).__name__ == "NoArgsIsHelpError"
    if not has_printed_help:
        print_error(usage_message(problem))
    return Exit.USAGE


def _code_of_exit(leave: SystemExit) -> int:
    """Return the exit code for a library that ended the program with `sys.exit`.

    Our own commands return their code. Typer exits after shell completion, and its code is kept;
    rich and Typer exit with 1 if the reader of the pipe went away, for which we have another code.
    """
    is_completion = "_PECLI_COMPLETE" in os.environ
    if leave.code == 1 and not is_completion:
        return Exit.PIPE
    return int(leave.code or 0)


def _check_memory() -> None:
    """Raise ResourceError if a limit on the address space (ulimit -v) is too low to load NumPy."""
    with suppress(ImportError):  # Windows has no such limit
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        limit = getrlimit(RLIMIT_AS)[0]
        if limit != RLIM_INFINITY and limit < MIN_ADDRESS_SPACE:
            raise ResourceError(
                "there is not enough memory to load NumPy; raise the limit (ulimit -v)"
            )
