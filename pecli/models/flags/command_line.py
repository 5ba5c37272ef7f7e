"""Command lines as people paste them: a shell's, keyword arguments of Python, YAML or a Modelfile."""

import ast
import json
import re
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pecli.engine.named_values import MutableValues, NamedValues
from pecli.errors import ParameterError

#: The beginning of a flag with a dash; -1 and -.5 are numbers.
DASHED = re.compile(r"-(?!\.?\d)")
#: What surrounds a name in YAML and in JSON whose quotes a shell has removed: `{num_ctx: 8192}`.
PUNCTUATION = "{},:"
#: Keys that lead to a value in `--hf-overrides.rope_parameters.factor`; real files need three.
MAX_PATH = 32
#: Continuations of a command line: `\` in a Unix shell, `^` in cmd.exe, a backtick in PowerShell.
CONTINUED = re.compile(r"[\\^`][ \t]*\r?\n")
#: A word in quotes, or the brace with which a bare word begins.
QUOTED_OR_BRACE = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|(?:(?<=[\s=])|^)\{""", re.DOTALL)
#: Objects of a request or a YAML file that hold settings: Ollama's `options`, TabbyAPI's `model`.
SECTIONS = ("options", "model", "parameters")


@dataclass(frozen=True)
class ServerFlag:
    """A flag with the words that follow it.

    Attributes:
        spelled: Its name as it was typed, such as `--rope-scale`.
        values: The words up to the next flag; how many of them belong to it is its own matter.
        path: Keys within its value: `--hf-overrides.rope_parameters.factor 4` sets one key.
    """

    spelled: str
    values: tuple[str, ...]
    path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return plain_flag(self.spelled)

    @property
    def is_dashed(self) -> bool:
        return self.spelled.startswith("-")


class CommandLine(NamedTuple):
    """The flags of a command line, and its other words, among which is the program."""

    flags: tuple[ServerFlag, ...]
    words: tuple[str, ...]


NO_ARGUMENTS = CommandLine(flags=(), words=())


def plain_flag(name: str) -> str:
    """Return a flag as the tables of servers spell it.

    >>> plain_flag("--rope-freq-base"), plain_flag("rope_freq_base"), plain_flag("-c")
    ('rope_freq_base', 'rope_freq_base', '-c')
    """
    if name.startswith("--"):
        return name.removeprefix("--").replace("-", "_")
    return name


def parse_command_line(text: str, bare_names: Container[str]) -> CommandLine:
    """Return the flags of a command line.

    Args:
        text: The text.
        bare_names: Names that are flags without dashes, as in `PARAMETER num_ctx 8192`.

    Raises:
        ParameterError: The text is empty, or a quotation is not closed.

    >>> parse_command_line("llama-server -c 8192 --rope-scale 2", ()).flags[1]
    ServerFlag(spelled='--rope-scale', values=('2',), path=())
    """
    if not text.strip():
        raise ParameterError("flags", "empty", "it must be a command line, or a part of one")
    arguments = _python_arguments(text)
    if arguments.flags:
        return arguments
    one_line = CONTINUED.sub(" ", text)
    try:
        words = shlex.split(_with_quoted_objects(one_line), comments=False)
    except ValueError as problem:
        rule = f"it cannot be split into words: {problem}"
        raise ParameterError("flags", repr(text[:60]), rule, "check its quotes") from None
    return _shell_flags(words, bare_names)


def _with_quoted_objects(text: str) -> str:
    """Return a command line with quotes around its bare JSON objects.

    In `--flags 'vllm serve --rope-scaling {"factor": 4}'` the user's shell has removed the outer
    quotes. Without quotes of its own, the object would fall apart at its space, and lose the marks
    around `factor`. Parts that are quoted already stay as they are.
    """
    parts = []
    position = 0
    while match := QUOTED_OR_BRACE.search(text, position):
        replacement = _replacement_of(match)
        parts += [text[position : match.start()], replacement.text]
        position = replacement.end
    rest = text[position:]
    return "".join([*parts, rest])


class TextReplacement(NamedTuple):
    """A text that replaces a part of a command line, and where that part ends."""

    text: str
    end: int


def _replacement_of(match: re.Match[str]) -> TextReplacement:
    """Return a JSON object in quotes for the brace that begins it.

    A part that is quoted already, or a brace that does not begin JSON, stays as it is.
    """
    unchanged = TextReplacement(match[0], match.end())
    if match[0] != "{":
        return unchanged
    try:
        _, end = json.JSONDecoder().raw_decode(match.string, match.start())
    except ValueError:
        return unchanged
    bare_object = match.string[match.start() : end]
    return TextReplacement(shlex.quote(bare_object), end)


def _python_arguments(text: str) -> CommandLine:
    """Return keyword arguments of Python, or the items of a JSON object; no flags if it is neither.

    `LLM(model="m", max_model_len=8192)`, `max_model_len=8192` and `{"num_ctx": 8192}` are accepted:
    the last two are read as the arguments of a call.
    """
    source = text.strip().replace("true", "True").replace("false", "False").replace("null", "None")
    for candidate in (source, f"settings({source})"):
        line = _call_arguments(_parsed_call(candidate))
        # `settings(llama-server --rope-scale)` is a call as well, with a difference in it.
        if line.flags:
            return line
    return NO_ARGUMENTS


NO_CALL = ast.Call(func=ast.Name("settings"), args=[], keywords=[])


def _parsed_call(source: str) -> ast.Call:
    """Return the call that the last statement of a Python text is; NO_CALL if it is something else.

    It may be assigned, as in notebooks: `llm = Llama(n_ctx=8192)`, below its import.
    """
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NO_CALL
    if not statements or not isinstance(statements[-1], (ast.Expr, ast.Assign)):
        return NO_CALL
    expression = statements[-1].value
    return expression if isinstance(expression, ast.Call) else NO_CALL


def _call_arguments(call: ast.Call) -> CommandLine:
    """Return the keyword arguments of a Python call as flags, and the function's name as a word.

    `LLM(max_model_len=8192)` of vLLM has the flag `max_model_len` with the value 8192. Values that
    are not literals are left out, such as `torch.float16`.
    """
    settings: MutableValues = {}
    for argument in call.args:
        value = literal_or_none(argument)
        if isinstance(value, Mapping):  # The items of `dict({"num_ctx": 8192})` count as well.
            settings.update(value)
    for keyword in call.keywords:
        # `**options` has the name None, which is no flag of a server.
        settings[str(keyword.arg)] = literal_or_none(keyword.value)
    flags = [
        ServerFlag(name, values=(_as_text(value),)) for name, value in _present_settings(settings)
    ]
    function_name = ast.unparse(call.func)  # It may name the server: `LLM` is vLLM's.
    return CommandLine(flags=tuple(flags), words=(function_name,))


def literal_or_none(source: ast.expr | str) -> object:
    """Return the value of a literal of Python; None for anything else, such as `torch.float16`."""
    try:
        return ast.literal_eval(source)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _present_settings(settings: NamedValues) -> Iterator[tuple[str, object]]:
    """Yield the settings that have a value, and those of an inner object: `{"options": {"seed": 1}}`."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and name in SECTIONS:
            yield from _present_settings(value)
        elif value is not None:
            yield str(name), value


def _as_text(value: object) -> str:
    """Return a value as it would be typed; one that JSON lacks, such as a set, is refused later."""
    return value if isinstance(value, str) else json.dumps(value, default=repr, skipkeys=True)


def _shell_flags(words: Sequence[str], bare_names: Container[str]) -> CommandLine:
    """Return the flags among the words of a shell, each with the words up to the next flag.

    «--rope-scale 4 -c 8192» are two flags with a value each. Words that are not flags are also
    returned as `words`, since one of them may be the program.
    """
    flags: list[ServerFlag] = []
    other_words: list[str] = []
    for word in words:
        flag = _flag_of(word, bare_names)
        if flag is not None:
            flags.append(flag)
        else:
            other_words.append(word)
            if flags:
                flags[-1] = _with_value(flags[-1], word)
    return CommandLine(flags=tuple(flags), words=tuple(other_words))


def _with_value(flag: ServerFlag, value: str) -> ServerFlag:
    """Return a flag with one more value, which follows the others."""
    return replace(flag, values=(*flag.values, value))


def _flag_of(word: str, bare_names: Container[str]) -> ServerFlag | None:
    """Return the flag that a word is; None for a value or a program.

    `--max-model-len=8192` and `OLLAMA_CONTEXT_LENGTH=8192` hold their value themselves, and
    `--hf-overrides.rope_parameters.factor=4` the keys that lead to it as well.
    """
    name, equals, value = word.partition("=")
    values = (value,) if equals else ()
    if DASHED.match(name):
        spelled, *path = name.split(".", MAX_PATH)
        return ServerFlag(spelled=spelled, values=values, path=tuple(path))
    bare_name = name.strip(PUNCTUATION)  # A file such as `alpha.gguf` is no flag `alpha`.
    if bare_name in bare_names:
        return ServerFlag(spelled=bare_name, values=values)
    return None
