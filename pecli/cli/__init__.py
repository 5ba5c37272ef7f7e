"""The command line: how a function becomes a command, and the exit code or error that it ends with."""

import enum
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from inspect import Parameter, Signature, cleandoc  # by name: a command is called inspect, too
from textwrap import wrap
from typing import Any

import typer
import typer.core
import typer.main

from pecli.engine import __version__
from pecli.errors import DefectError, ParameterError, PecliError, UnsupportedError, nearest, quoted
from pecli.views import screen

MAX_NAME = 27  #: Letters of an option's name that help has room for on a terminal of 80 columns

OUTPUT = "Output"  #: The heading of options that most commands have
Run = Callable[
    ..., int | None
]  #: What a command does with its options; the exit code, None where it is 0
_is_quiet = ContextVar("is_quiet", default=False)


class Exit(enum.IntEnum):
    """What the shell is told."""

    DONE = 0
    CHECK_FAILED = 1  #: verification failed, tables differ, nothing identified, a runtime lacks what is asked for
    USAGE = 2  #: the command line or a parameter is wrong
    FILE = 3  #: a file cannot be read or written, or is not what it claims to be
    DEFECT = 70  #: a defect of pecli itself
    PIPE = 141


class Command(typer.core.TyperCommand):
    """A command whose help has one name of an option per line: Typer cuts several that have no room."""

    def get_help_option(self, ctx: Any) -> Any:
        """`--help`, beside the other options that all commands have: a box for it alone would say little."""
        option: Any = super().get_help_option(ctx)
        if any(getattr(each, "rich_help_panel", None) == OUTPUT for each in self.params):
            option.rich_help_panel = OUTPUT
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rich.text import Text
        from typer import rich_utils

        class OneNamePerLine(rich_utils.OptionHighlighter):
            def __call__(self, text: str | Text) -> Text:
                names = text.split(",") if isinstance(text, str) and text.startswith("--") else []
                lines = [
                    line for name in names for line in wrap(name, MAX_NAME, subsequent_indent="  ")
                ]  # at a hyphen
                return super().__call__("\n".join(lines) if names else text)

        rich_utils.highlighter = OneNamePerLine()
        super().format_help(ctx, formatter)


def command(
    *options: Parameter, shown: Sequence[str] = (), **settings: Any
) -> Callable[[Run], Any]:
    """Make a command of a function: its name is the function's, its help the docstring, with examples at the end."""

    def made(run: Run) -> Any:
        text, _, lines = cleandoc(run.__doc__ or "").partition("Examples:\n")
        help = "\n\n".join(
            " ".join(paragraph.split()) for paragraph in text.split("\n\n")
        )  # Typer keeps line ends
        every = [*map(str.strip, lines.splitlines()), *shown]
        return command_of(run.__name__, run, options, every, help=help, **settings)

    return made


def command_of(
    name: str, run: Run, options: Iterable[Parameter], shown: Sequence[str], **settings: Any
) -> Any:
    """The command that runs a function with these options, and shows examples at the end of its help."""

    def call(**values: Any) -> int | None:
        context = copy_context()
        if values.get("quiet"):
            context.run(_is_quiet.set, True)
        return context.run(run, **values)

    call.__signature__ = Signature(list(options))  # type: ignore[attr-defined]
    call.__annotations__ = {}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, cls=Command, epilog=examples(shown), **settings)(call)
    return typer.main.get_command(app)


class SchemeGroup(typer.core.TyperGroup):
    """A command that has one for each scheme."""

    def get_help_option(self, ctx: Any) -> Any:
        """`--help`, not listed: a box for it alone would say little."""
        option: Any = super().get_help_option(ctx)
        option.hidden = True
        return option

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            from pecli.models.presets import find

            known = [name for name, command in self.commands.items() if not command.hidden]
            rule = f"it must be one of {', '.join(known)}"
            model = (
                f"for a model: {ctx.command_path} rope --model {shlex.quote(args[0])}"
                if find(args[0])
                else ""
            )
            raise ParameterError(
                "the scheme", quoted(args[0]), rule, model or nearest(args[0], known)
            )
        return super().resolve_command(ctx, args)


def examples(lines: Sequence[str]) -> str:
    """Examples for the end of a command's help."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def command_line(words: Iterable[str], options: Mapping[str, Any]) -> str:
    """A command line that can be run again: words, and the options that were given.

    >>> command_line(["plot", "a b.npy"], {"kind": "curves", "dark": True, "max_ulp": None, "label": ["x", "y"]})
    "pecli plot 'a b.npy' --kind curves --dark --label x --label y"
    """
    parts = ["pecli", *words]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for text in value if isinstance(value, list) else [value]:
            parts += (
                [option] if text is True else [] if text in (None, False) else [option, str(text)]
            )
    return shlex.join(parts)


def made_by(words: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What a picture carries: the command line that draws it again."""
    return {"command": command_line(words, options), "version": __version__}


def answer(result: Any, json: bool, quiet: bool, show: Callable[[Any], None], **more: Any) -> Exit:
    """A result as JSON with `more`, or shown unless quiet, with the `output` that was written; its code is 0 or 1."""
    if json:
        screen.print_json({**(result if isinstance(result, dict) else result.as_json()), **more})
    elif not quiet:
        show(result)
        if more.get("output") is not None:
            screen.print_written(more["output"])
    return Exit.DONE if result else Exit.CHECK_FAILED


MAX_ERROR_LENGTH = 1000  #: Maximum length of an error


def print_error(problem: PecliError | str, words: Sequence[str] = ()) -> Exit:
    """One line on standard error, and the exit code; options are called as in the words of the command line."""
    if isinstance(problem, DefectError) and os.environ.get("PECLI_DEBUG"):
        import traceback

        traceback.print_exception(problem.__cause__)
    text = (
        problem.spelled(lambda name: _typed(name, words))
        if isinstance(problem, ParameterError)
        else str(problem)
    )
    if len(text) > MAX_ERROR_LENGTH:  # a name from a file, say; what to do about it comes last
        text = f"{text[: MAX_ERROR_LENGTH // 2]} … {text[-MAX_ERROR_LENGTH // 2 :]}"
    print_note(" ".join(text.split("\n")), "error")
    if isinstance(problem, DefectError):
        return Exit.DEFECT
    if isinstance(problem, UnsupportedError):
        return Exit.CHECK_FAILED
    return Exit.USAGE if isinstance(problem, (ParameterError, str)) else Exit.FILE


def print_note(text: str, kind: str = "note") -> None:
    """One line on standard error, where something is worth knowing; with `--quiet`, errors alone."""
    if _is_quiet.get() and kind == "note":
        return
    with suppress(OSError):  # a full disk behind standard error does not change the exit code
        print(screen.printable(f"pecli: {kind}: {text}", sys.stderr), file=sys.stderr, flush=True)


def _typed(name: str, words: Sequence[str]) -> str:
    """A parameter's name on the command line, the other one where that was typed: only rope's have two, and MODEL."""
    from pecli.engine.schemes.rope import Rope

    given = {word.partition("=")[0] for word in words}
    if name == "model" and words and given.isdisjoint(("--model", "--config")):
        return "MODEL"
    parameter = Rope.parameters().get(name)
    return next(
        (alias for alias in (parameter.aliases if parameter else ()) if alias in given),
        option_name(name),
    )


def option_name(name: str) -> str:
    """A parameter's name on the command line, or that of one of its values.

    >>> option_name("seq_len"), option_name("recipes[0]"), option_name("FILE")
    ('--seq-len', '--recipes[0]', 'FILE')
    """
    own, bracket, index = name.partition("[")
    return (
        f"--{own.replace('_', '-')}{bracket}{index}"
        if own.islower() and own.replace("_", "").isalnum()
        else name
    )
