"""The `pecli` command: finds the subcommand, runs it, and turns what goes wrong into a line and an exit code."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from pecli.cli import Exit, examples, print_error
from pecli.engine import __version__
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.errors import ResourceError, nearest, quoted, translated

PANELS = {
    "Generate": {
        "sinusoidal": "Generate sinusoidal tables, on grids or at given positions, too.",
        "rope": "Generate rotary (RoPE) tables: cos, sin and inverse frequencies.",
        "alibi": "Generate ALiBi slopes and biases.",
        "learned-init": "Generate initial weights of a learned table.",
        "golden": "Generate golden vectors for ports in any language, with known mistakes.",
        "relative": "Generate relative-position indices: T5 and DeBERTa buckets, Swin windows.",
    },
    "Read models": {
        "config": "Show the positional encodings that a model's configuration asks for, and warnings.",
        "models": "List the built-in model presets.",
    },
    "Check files": {
        "verify": "Check files against a model, a manifest, or the spec that they carry.",
        "diff": "Compare two tables, up to known transforms.",
        "identify": "Say which scheme, parameters and recipe made an unknown table.",
        "audit": "Measure how far each precision recipe drifts from the exact table.",
        "runtimes": "Compare what runtimes (transformers, vLLM, llama.cpp, …) compute for a model.",
        "extend": "Print the settings that stretch a model's context, for every runtime.",
    },
    "Inspect": {
        "inspect": "Show what is in a file: tensors, dtypes, shapes, statistics, provenance.",
        "plot": "Plot tables: PNG, SVG, PDF, or in the terminal.",
        "report": "Write one HTML page about a model or a file.",
    },
    "Transform": {
        "apply": "Apply an encoding to tensors, as a model's layer would.",
        "convert": "Reorder q/k weights or tables between rotary layouts, or cast them.",
        "resize": "Resample a learned table to another length or grid.",
    },
}
"""The list of commands in its parts. Most live in the module of their name, which is imported when one is called."""

COMMANDS = {name: summary for panel in PANELS.values() for name, summary in panel.items()}
MADE = (
    "generate",
    "apply",
    "audit",
)  #: Modules whose `command` makes the command of a name, which others hold

UsageError: Any = typer.BadParameter.__mro__[
    1
]  #: What Typer raises for any wrong command line; it has no public name

MIN_ADDRESS_SPACE = 144 << 20
"""Bytes of address space below which NumPy cannot be imported: its OpenBLAS would end the process with exit code 1."""
HELP_WIDTH = "140"  #: Columns of help in a pipe, unless COLUMNS says how many


class ReaderGoneError(Exception):
    """Nobody reads the pipe any more; not an OSError, which Typer would turn into exit code 1."""


def synonyms(of: str) -> dict[str, list[str]]:
    """What other programs, and people, call the `commands` or the `options`."""
    import tomllib

    with open(os.path.join(os.path.dirname(__file__), "synonyms.toml"), "rb") as file:
        return {name: words.split() for name, words in tomllib.load(file)[of].items()}


def _summary(scheme: str) -> str:
    """Return a sentence about a scheme that is not among the commands: one that was registered."""
    from pecli.cli.scheme_help import help_of

    return help_of(scheme_named(scheme)).summary


class Commands(typer.core.TyperGroup):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *(name for name in SCHEMES if name not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command as it is listed, which imports nothing."""
        summary = COMMANDS.get(cmd_name) or _summary(cmd_name)
        panel = next(
            (panel for panel, commands in PANELS.items() if cmd_name in commands),
            next(iter(PANELS)),
        )
        return typer.core.TyperCommand(cmd_name, help=summary, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *rest = args
        if name not in COMMANDS and name not in SCHEMES:
            other = next(
                (
                    command
                    for command, words in synonyms("commands").items()
                    if name.lower() in words
                ),
                "",
            )
            advice = f"did you mean {other!r}?" if other else nearest(name, COMMANDS)
            rule = f"there is no command {quoted(name)}; it must be one of {', '.join(COMMANDS)}"
            raise UsageError(f"{advice} {rule}".lstrip())
        module = "generate" if name in SCHEMES else "config" if name == "models" else name
        home = import_module(f"pecli.cli.{module}")
        return name, home.command(name) if module in MADE else getattr(home, name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pecli {__version__}")
        raise typer.Exit


_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=_HELP
)
EXAMPLES = (
    "pecli rope --model llama-3.1-8b --seq-len 4096 -o rope.safetensors",
    "pecli verify dump.npz --model llama-3.1-8b --atol 1e-3",
    "pecli identify unknown.npy",
    "pecli COMMAND --help",
)
_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback(epilog=examples(EXAMPLES))
def pecli(version: Annotated[bool, _VERSION] = False) -> None:
    """Positional encodings: generate exact tables, inspect them, verify files against them."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    for name in ("TERMINAL_WIDTH", "COLUMNS"):
        if not re.fullmatch("[1-9][0-9]{0,3}", os.environ.get(name, "")):
            os.environ.pop(name, None)  # Typer and rich take it for a number, whatever it is
    if not sys.stdout.isatty():
        os.environ.setdefault("TERMINAL_WIDTH", os.environ.get("COLUMNS", HELP_WIDTH))
    try:
        if not {"--help", "-h", "--version"} & {*arguments}:
            _check_memory()
        result = typer.main.get_command(app).main(
            args=list(arguments), prog_name="pecli", standalone_mode=False
        )
        sys.stdout.flush()
        return int(result) if isinstance(result, int) else Exit.DONE
    except UsageError as problem:
        if type(problem).__name__ != "NoArgsIsHelpError":  # that one has printed the help
            print_error(_usage(problem))
        return Exit.USAGE
    except (ReaderGoneError, BrokenPipeError):
        return Exit.PIPE
    except SystemExit as leave:  # 1 is how rich and Typer leave when the reader of a pipe went away
        return (
            Exit.PIPE
            if leave.code == 1 and "_PECLI_COMPLETE" not in os.environ
            else int(leave.code or 0)
        )
    except Exception as raised:  # the one boundary: whatever goes wrong is a line and an exit code
        return print_error(translated(raised), arguments)


def _check_memory() -> None:
    with suppress(ImportError):  # Windows has no such limit
        from resource import RLIMIT_AS, getrlimit

        if 0 <= getrlimit(RLIMIT_AS)[0] < MIN_ADDRESS_SPACE:  # no limit is -1
            raise ResourceError(
                "there is not enough memory to load NumPy; raise the limit (ulimit -v)"
            )


def _usage(problem: Any) -> str:
    text = problem.format_message().strip().rstrip(".")
    text = text[:1].lower() + text[1:]
    context = getattr(problem, "ctx", None)
    known = (
        [name for parameter in context.command.params for name in parameter.opts] if context else []
    )
    see = f"see {context.command_path if context else 'pecli'} --help"
    wrong = getattr(problem, "option_name", None)
    if wrong and hasattr(problem, "possibilities"):
        word = wrong.replace("_", "-")
        begun = [name for name in known if name.startswith(word)]
        words = synonyms("options")
        meant = [
            option
            for option, others in words.items()
            if word in others and option.split()[0] in known
        ]
        near = nearest(
            word[2:], [name[2:] for name in known], "--{}".format
        )  # dashes would make all alike
        advice = f"did you mean {(meant or begun)[0]}?" if meant or begun else near
        if (
            context
            and context.command.name == "verify"
            and not advice
            and word in " ".join(words).split()
        ):
            see = "parameters go with a scheme: pecli rope … --verify FILE"
        return f"{advice} no such option: {wrong}; {see}".lstrip()
    extra = re.search(r"unexpected extra argument\S* \((\S+)\)", text)
    if extra and "--model" in known:
        from pecli.models import presets

        see = f"did you mean --model {extra[1]}?" if presets.find(extra[1]) else see
    return text if text.startswith("did you mean") else f"{text}; {see}"
