"""Commands from functions: their options, their help, and the examples at its end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter, Signature, cleandoc
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
import typer.core
import typer.main

from pecli.cli.messages import call_quietly, print_note
from pecli.errors import ParameterError, nearest, quoted
from pecli.notes import passed_to
from pecli.views import screen

if TYPE_CHECKING:
    from rich.text import Text
    from typer._click import core, exceptions, formatting

    # Typer has no public names for these.
    AnyCommand = core.Command
    Context = core.Context
    UsageError = exceptions.UsageError
    HelpFormatter = formatting.HelpFormatter
else:
    AnyCommand = typer.core.TyperCommand
    Context = typer.Context
    UsageError = typer.BadParameter.__base__

MAX_NAME = 27
"""Characters of an option's name for which help has room on a terminal of 80 columns."""

OUTPUT = "Output"
"""The panel of options that most commands have."""

Run = Callable[..., int | None]
"""A function that runs a command with its options and returns the exit code; None is 0."""


class HintedUsageError(typer.BadParameter):
    """A wrong command line whose message is complete: it has advice already."""


class ExtraArgumentsError(typer.BadParameter):
    """Words that a command does not take."""

    def __init__(self, context: Context, words: Sequence[str]) -> None:
        noun = "argument" if len(words) == 1 else "arguments"
        super().__init__(f"got unexpected extra {noun} ({' '.join(words)})", context)
        self.words = words


class HelpWithExamples:
    """A mixin for commands whose help ends with examples, each on one line so that it can be pasted.

    Typer's own epilog is wrapped at the width of the terminal.
    """

    lines: Sequence[str] = ()

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        super().format_help(ctx, formatter)  # type: ignore[misc]
        screen.print_line()
        screen.print_line(" Examples:")
        for line in self.lines:
            screen.print_line(f"   {line}")


class Command(HelpWithExamples, typer.core.TyperCommand):
    """A command with help that lists one name of an option per line."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the words of a command line; raise ExtraArgumentsError for words that are left over.

        Typer's own error has them only in its sentence. Therefore Typer is told to return them, and
        the error is raised here, unless the shell completes an unfinished command line.
        """
        _refuse_several_files_to_verify(args)
        takes_extra = ctx.allow_extra_args
        ctx.allow_extra_args = True
        rest: list[str] = super().parse_args(ctx, args)
        ctx.allow_extra_args = takes_extra
        if rest and not takes_extra and not ctx.resilient_parsing:
            raise ExtraArgumentsError(ctx, rest)
        return rest

    def get_help_option(self, ctx: Context) -> typer.core.TyperOption | None:
        """Return `--help`, in the panel of the other options that all commands have."""
        option = super().get_help_option(ctx)
        declared = (typer.core.TyperOption, typer.core.TyperArgument)
        panels = [item.rich_help_panel for item in self.params if isinstance(item, declared)]
        if option is not None and OUTPUT in panels:
            option.rich_help_panel = OUTPUT
        return option

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Print the help, with the names of an option below each other."""
        from typer import rich_utils

        class OneNamePerLine(rich_utils.OptionHighlighter):
            """Typer cuts several names of an option that do not fit side by side."""

            def __call__(self, text: str | Text) -> Text:
                # The highlighter also gets rich's own texts, and help that is not a name.
                if isinstance(text, str) and text.startswith("--"):
                    text = "\n".join(name_lines(text))
                return super().__call__(text)

        rich_utils.highlighter = OneNamePerLine()  # Typer has no setting for it.
        super().format_help(ctx, formatter)


def _refuse_several_files_to_verify(arguments: Sequence[str]) -> None:
    """Raise ParameterError if `--verify` is given twice: the first file would pass without a check."""
    files = [word for word in arguments if word.partition("=")[0] == "--verify"]
    if len(files) > 1:
        rule = "it takes one file"
        raise ParameterError("verify", "given twice", rule, "pecli verify checks several files")


def name_lines(names: str) -> list[str]:
    """Return names that are separated by commas one per line; a long name is broken at a hyphen.

    >>> name_lines("--theta,--base")
    ['--theta', '--base']
    """
    lines: list[str] = []
    for name in names.split(","):
        lines += wrap(name, MAX_NAME, subsequent_indent="  ")
    return lines


def command(
    *options: Parameter, shown: Sequence[str] = (), **settings: object
) -> Callable[[Run], AnyCommand]:
    """Return a decorator that makes a command of a function.

    The command has the function's name. Its help is the docstring; lines after «Examples:» come last.

    Args:
        options: The options and arguments, which the function takes by name.
        shown: More lines for the end of the help.
        settings: Settings of `typer.Typer.command`.
    """

    def decorate(run: Run) -> AnyCommand:
        help_text = _help_of_docstring(run.__doc__ or "")
        lines = [*help_text.examples, *shown]
        return command_of(run.__name__, run, options, lines, help=help_text.paragraphs, **settings)

    return decorate


class _HelpText(NamedTuple):
    """The help of a command."""

    paragraphs: str  #: each on one line, because Typer keeps line breaks
    examples: list[str]


def _help_of_docstring(docstring: str) -> _HelpText:
    """Split a docstring at «Examples:»; the lines after it are examples."""
    text, _, example_lines = cleandoc(docstring).partition("Examples:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    examples = [line.strip() for line in example_lines.splitlines()]
    return _HelpText("\n\n".join(paragraphs), examples)


def command_of(
    name: str, run: Run, options: Iterable[Parameter], lines: Sequence[str], **settings: Any
) -> AnyCommand:
    """Return a command of Typer that calls a function with the values of its options.

    Commands are made from lists of options, because those of schemes follow from their parameters.

    Args:
        name: Its name.
        run: The function that it calls with the values of its options.
        options: Its options and arguments.
        lines: Examples for the end of the help.
        settings: Settings of `typer.Typer.command`.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, cls=Command, **settings)(_with_signature(run, options))
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    command.lines = lines
    return command


def _with_signature(run: Run, options: Iterable[Parameter]) -> Run:
    """Return a function that runs a command, whose signature lists the command's options.

    Typer makes the options of the command line from a signature. A function with `**values` has
    none that it could use, so that the signature is replaced.

    Args:
        run: The function of the command, called with the values of the options.
        options: The options, as parameters of a function.
    """

    def call(
        *, shape: str | None = None, raw_dtype: str | None = None, **values: object
    ) -> int | None:
        """Run the command, and print the notes that the library makes meanwhile.

        `--shape` and `--raw-dtype` apply to all files that are read, and are not passed on.
        """
        with _raw_files_read_as(shape, raw_dtype), passed_to(print_note):
            if values.get("quiet"):
                return call_quietly(run, **values)
            return run(**values)

    call.__signature__ = Signature(list(options))  # type: ignore[attr-defined]
    # The annotations above are those of `call`, which Typer would prefer to the signature's.
    call.__annotations__ = {}
    return call


def _raw_files_read_as(shape: str | None, raw_dtype: str | None) -> AbstractContextManager[None]:
    """Return the context in which raw files are read as `--shape` and `--raw-dtype` state."""
    if shape is None and raw_dtype is None:
        return nullcontext()
    from pecli.files.raw_layout import parse_layout, raw_files  # imports NumPy

    return raw_files(parse_layout(shape, raw_dtype))


class SchemeGroup(HelpWithExamples, typer.core.TyperGroup):
    """A command with a subcommand per scheme."""

    def __init__(
        self, name: str, commands: Sequence[AnyCommand], help: str, lines: Sequence[str]
    ) -> None:
        super().__init__(name=name, commands=commands, help=help, no_args_is_help=True)
        self.lines = lines

    def get_help_option(self, ctx: Context) -> typer.core.TyperOption | None:
        """Return `--help`, hidden: a panel with nothing else in it would say little."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.hidden = True
        return option

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, AnyCommand | None, list[str]]:
        """Return the subcommand; raise ParameterError with advice if there is none of this name."""
        name = args[0]
        if name not in self.commands:
            raise self._unknown_scheme(name, ctx.command_path)
        return super().resolve_command(ctx, args)

    def _unknown_scheme(self, name: str, command_path: str) -> ParameterError:
        """Return the error for a word that is no scheme; it may be a model: `pecli audit llama-3.1-8b`."""
        from pecli.models.presets import find

        schemes = [scheme for scheme, command in self.commands.items() if not command.hidden]
        if find(name):
            advice = f"for a model: {command_path} rope --model {shlex.quote(name)}"
        else:
            advice = nearest(name, schemes)
        rule = f"it must be one of {', '.join(schemes)}"
        return ParameterError("the scheme", quoted(name), rule, advice)
